/* plan.c - the list of steps. */
#include "plan/plan.h"

#include "base/heap.h"

void plan_init(struct plan *plan)
{
    *plan = (struct plan){0};
}

void plan_fini(struct plan *plan)
{
    ebb_free(plan->steps);
    plan_init(plan);
}

enum ebb_status plan_add(struct plan *plan, enum plan_act act, uint32_t index, uint64_t offset,
                         uint8_t tier, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&plan->steps, &plan->step_capacity, plan->step_count + 1, sizeof *plan->steps,
                     err));
    plan->steps[plan->step_count++] =
        (struct plan_step){.act = (uint8_t)act, .tier = tier, .index = index, .offset = offset};
    return EBB_OK;
}
