/* model.c - a model by itself: the trace of one step, and its sizes. No weight takes memory. */
#include "base/heap.h"
#include "train/step.h"

static enum ebb_status record(const struct train_model *m, enum train_program_kind kind,
                              struct nn_stats *stats, struct trace **trace, struct ebb_error *err)
{
    struct train_config config = {.precision = m->precision, .accumulate = 1};
    struct train_step_options o = {.kind = kind,
                                   .batch = m->batch,
                                   .config = &config,
                                   .net = m->net,
                                   .backend = m->backend,
                                   .is_plain = true,
                                   .stats = stats};
    struct train_step step = {0};
    struct ebb_arena arena;
    if (m->optim)
        config.optim = *m->optim;
    ebb_arena_init(&arena);
    enum ebb_status status = train_step_build(&arena, &o, &step, err);
    ebb_arena_fini(&arena);
    if (status == EBB_OK)
        *trace = step.trace;
    return status;
}

enum ebb_status train_model_trace(const struct train_model *model, struct trace **trace,
                                  struct ebb_error *err)
{
    return record(model, model->optim ? TRAIN_STEP : TRAIN_EVAL, NULL, trace, err);
}

enum ebb_status train_model_stats(const struct train_model *model, struct nn_stats *stats,
                                  struct ebb_error *err)
{
    struct nn_stats result = {0};
    struct trace *trace = NULL;
    EBB_TRY(record(model, TRAIN_GRADIENTS, &result, &trace, err));
    trace_destroy(trace);
    *stats = result;
    return EBB_OK;
}
