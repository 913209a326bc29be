/* traced.c - a dry trial whose step is a trace from elsewhere: there is no model, no data and no
 * kernel behind it, but everything that looks at a step (explain.c, predictions, the floor) works. */
#include "base/heap.h"
#include "train/trial.h"

static enum ebb_status add(struct train_trial *t, struct trace *trace, struct ebb_error *err)
{
    struct train_engine_options o = train_engine_asked(&t->config);
    o.is_dry = true;
    o.threads = 2; /* with one, the host would be offered updates that it may have no kernel for */
    enum ebb_status status = train_engine_create(&t->engine, &o, err);
    if (status != EBB_OK) {
        trace_destroy(trace);
        return status;
    }
    return train_engine_add(t->engine, trace, &t->main.program, err);
}

enum ebb_status train_trial_of_trace(struct train_trial **trial, struct trace *take_trace,
                                     const struct train_config *memory, struct ebb_error *err)
{
    struct train_trial *t = NULL;
    enum ebb_status status = ebb_new(&t, 1, sizeof *t, err);
    if (status != EBB_OK) {
        trace_destroy(take_trace);
        return status;
    }
    ebb_arena_init(&t->arena);
    t->config = *memory;
    t->options = (struct train_options){.is_dry = true, .workers = -1};
    status = add(t, take_trace, err);
    return EBB_HAND_OUT(status, trial, t, train_trial_destroy);
}
