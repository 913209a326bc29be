/* repeat.c - repetitions of one step, for measurements: nothing that a repetition does is seen by the
 * next. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "train/costs.h"
#include "train/trial.h"

/* A step changes buffers, and weights that the model updates itself. What the optimizer would update
 * has a gradient and stays as it is. */
static bool is_changed(const struct train_trial *t, size_t slot)
{
    const struct train_slot *slots = t->main.slots;
    if (slots[slot].kind != TRAIN_ITEM)
        return false;
    for (size_t i = 0; i < t->main.slot_count && !slots[slot].is_buffer; i++)
        if (slots[i].kind == TRAIN_GRADIENT && slots[i].item == slots[slot].item)
            return false;
    return true;
}

static enum ebb_status remember(struct train_trial *t, struct ebb_error *err)
{
    EBB_TRY(ebb_new(&t->begun, t->main.slot_count + 1, sizeof *t->begun, err));
    for (size_t i = 0; i < t->main.slot_count; i++) {
        const struct train_slot *slot = &t->main.slots[i];
        if (!is_changed(t, i))
            continue;
        EBB_TRY(ebb_new(&t->begun[i], 1, (size_t)slot->bytes + 1, err));
        EBB_TRY(train_slot_copy(t, i, t->begun[i], err));
    }
    return EBB_OK;
}

/* Everything as it was before the first repetition. */
static enum ebb_status begin(struct train_trial *t, struct ebb_error *err)
{
    if (!t->begun)
        return remember(t, err);
    for (size_t i = 0; i < t->main.slot_count; i++)
        if (t->begun[i])
            EBB_TRY(train_slot_write(t, i, t->begun[i], err));
    return train_clear_gradients(t, err);
}

static uint64_t port_bytes(const struct nn_port *ports, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (uint64_t)tensor_count(&ports[i].view) *
               tensor_dtype_bytes((enum tensor_dtype)ports[i].view.dtype);
    return sum;
}

enum ebb_status train_trial_repeat(struct train_trial *t, struct train_repetition *r,
                                   struct ebb_error *err)
{
    struct train_pass pass = {
        .trial = t, .step = &t->main, .measures = t->options.measures, .op_ns = r->op_ns};
    struct exec_report report = {0};
    if (!t->options.is_repeated)
        return ebb_fail(err, EBB_EINTERNAL, "a trial that trains is not repeated");
    if (r->op_ns)
        memset(r->op_ns, 0, train_trial_trace(t)->op_count * sizeof *r->op_ns);
    EBB_TRY(begin(t, err));
    train_pass_accumulates(&pass);
    uint64_t start = ebb_clock_ns(), cpu = ebb_clock_cpu_ns();
    EBB_TRY(train_pass_run(&pass, &report, err));
    *r =
        (struct train_repetition){.op_ns = r->op_ns,
                                  .loss = pass.loss,
                                  .ns = ebb_clock_ns() - start,
                                  .cpu_ns = ebb_clock_cpu_ns() - cpu,
                                  .device_ns = report.device_ns,
                                  .stall_ns = report.stall_ns,
                                  .first_ns = report.first_ns,
                                  .again_ns = report.again_ns,
                                  .search_ns = report.search_ns,
                                  .cost_ns = report.cost_ns,
                                  .move_ns = report.move_ns,
                                  .peak_bytes = report.peak_bytes,
                                  .evictions = report.evictions_pressure,
                                  .remat_ops = report.remat_ops,
                                  .input_bytes = port_bytes(t->main.inputs, t->main.input_count) +
                                                 port_bytes(t->main.targets, t->main.target_count)};
    return EBB_OK;
}

size_t train_trial_fitted(const struct train_trial *t, struct train_fitted *list, size_t room,
                          uint64_t *all_ns)
{
    return train_costs_fitted(train_trial_trace(t), train_engine_costs(t->engine), list, room,
                              all_ns);
}

enum ebb_status train_trial_algorithms(struct train_trial *t, bool measures,
                                       struct train_times *times, struct ebb_error *err)
{
    return train_engine_algorithms(t->engine, measures, train_times_keep, times, err);
}

enum ebb_status train_trial_reprice(struct train_trial *t, const char *path, double *overhead,
                                    struct ebb_error *err)
{
    struct profile *profile = NULL;
    EBB_TRY(profile_load(path, &profile, err));
    enum ebb_status status =
        train_engine_reprice(t->engine, t->main.program, profile, overhead, err);
    profile_destroy(profile);
    return status;
}
