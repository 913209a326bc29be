/* plan.c - the list of steps, and where persistent storages lie. */
#include "plan/plan.h"

#include <string.h>

#include "base/heap.h"

void plan_init(struct plan *plan)
{
    *plan = (struct plan){0};
}

void plan_fini(struct plan *plan)
{
    ebb_free(plan->steps);
    plan_homes_fini(&plan->homes);
    plan_init(plan);
}

const struct plan_home *plan_home_of(const struct plan_homes *homes, uint32_t storage)
{
    size_t low = 0, high = homes ? homes->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (homes->list[middle].storage < storage)
            low = middle + 1;
        else
            high = middle;
    }
    return homes && low < homes->count && homes->list[low].storage == storage ? &homes->list[low]
                                                                              : NULL;
}

enum ebb_status plan_homes_copy(struct plan_homes *to, const struct plan_homes *from,
                                struct ebb_error *err)
{
    struct plan_homes made = {.count = from->count};
    if (made.count) {
        EBB_TRY(ebb_new(&made.list, made.count, sizeof *made.list, err));
        memcpy(made.list, from->list, made.count * sizeof *made.list);
    }
    plan_homes_fini(to);
    *to = made;
    return EBB_OK;
}

void plan_homes_fini(struct plan_homes *homes)
{
    ebb_free(homes->list);
    *homes = (struct plan_homes){0};
}

enum ebb_status plan_add(struct plan *plan, enum plan_act act, uint32_t index, uint64_t offset,
                         uint8_t tier, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&plan->steps, &plan->step_capacity, plan->step_count + 1, sizeof *plan->steps,
                     err));
    struct plan_step *step = &plan->steps[plan->step_count++];
    memset(step, 0, sizeof *step); /* padding too: equal plans are equal bytes */
    step->act = (uint8_t)act;
    step->tier = tier;
    step->index = index;
    step->offset = offset;
    return EBB_OK;
}

enum ebb_status plan_base_layout(const struct trace *trace, const struct plan_homes *homes,
                                 uint64_t *offsets, uint64_t *bytes, struct ebb_error *err)
{
    uint8_t *is_kept;
    EBB_TRY(ebb_new(&is_kept, trace->storage_count, 1, err));
    for (uint32_t c = trace->command_count; c-- > 0 && trace->commands[c].kind != TRACE_RUN;) {
        if (trace->commands[c].kind == TRACE_PIN)
            is_kept[trace->tensors[trace->commands[c].index].storage] = 1;
    }
    uint64_t end = 0;
    for (uint32_t s = 0; s < trace->storage_count; s++)
        offsets[s] = PLAN_NOWHERE;
    for (uint32_t o = 0; o < trace->op_count && trace->ops[o].is_leaf; o++) {
        uint32_t s = trace->tensors[trace->ops[o].output_first].storage;
        if (!is_kept[s] || plan_home_of(homes, s))
            continue;
        offsets[s] = end;
        end += plan_round(trace->storages[s].bytes); /* sizes sum to at most 2^62 */
    }
    if (bytes)
        *bytes = end;
    ebb_free(is_kept);
    return EBB_OK;
}

bool plan_has_act(const struct plan *plan, enum plan_act act)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].act == act)
            return true;
    return false;
}

enum ebb_status plan_copy(struct plan *to, const struct plan *from, struct ebb_error *err)
{
    struct plan made = *from;
    made.step_capacity = from->step_count + 1;
    EBB_TRY(ebb_new(&made.steps, made.step_capacity, sizeof *made.steps, err));
    if (from->step_count > 0) /* an empty plan may have no steps to point to */
        memcpy(made.steps, from->steps, from->step_count * sizeof *made.steps);
    made.homes = (struct plan_homes){0};
    enum ebb_status status = plan_homes_copy(&made.homes, &from->homes, err);
    if (status != EBB_OK) {
        ebb_free(made.steps);
        return status;
    }
    plan_fini(to);
    *to = made;
    return EBB_OK;
}
