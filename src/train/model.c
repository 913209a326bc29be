/* model.c - a model by itself: the trace of one step, and its sizes. No weight takes memory. */
#include <stdio.h>

#include "train/build.h"

static void update_plain(struct train_build *x)
{
    const struct optim_config *optim = &x->o->config->optim;
    size_t states = optim_state_count(optim);
    for (size_t i = 0; i < x->unit_count; i++) {
        const struct nn_item *item = train_build_item(x, i);
        tensor_id old[OPS_UPDATE_STATES], out[1 + OPS_UPDATE_STATES];
        if (!x->gradients[i].v) /* no loss reaches it */
            continue;
        for (size_t k = 0; k < states; k++)
            old[k] = tensor_leaf(x->s, TENSOR_F32, item->view.rank, item->view.dims,
                                 optim_state_name(optim, k));
        train_build_update(x, i, item->leaf, TENSOR_NONE, old, out);
        for (size_t k = 0; k <= states; k++)
            tensor_keep(x->s, out[k]);
    }
}

static enum ebb_status finish_plain(struct train_build *x, struct ebb_error *err)
{
    char name[128];
    for (size_t i = 0; i < x->output_count && x->o->kind == TRAIN_EVAL; i++)
        tensor_keep(x->s, ops_contiguous(x->s, x->outputs[i].id));
    for (size_t i = 0; i < x->unit_count && x->o->kind == TRAIN_GRADIENTS; i++)
        if (x->gradients[i].v)
            tensor_keep(x->s, x->gradients[i]);
    if (x->loss.v)
        tensor_keep(x->s, x->loss);
    for (size_t i = 0; i < nn_item_count(&x->b) && x->o->kind == TRAIN_STEP; i++)
        if (nn_item_at(&x->b, i)->id.v != nn_item_at(&x->b, i)->leaf.v)
            tensor_keep(x->s, nn_item_at(&x->b, i)->id);
    snprintf(name, sizeof name, "%s, batch %lld", x->o->net->model->name, (long long)x->o->batch);
    EBB_TRY(tensor_finish(x->s, name, &x->step->trace, err));
    return x->o->stats ? nn_stats_count(&x->b, x->o->net, x->o->batch, x->forward_end,
                                        x->step->trace, x->o->stats, err)
                       : EBB_OK;
}

enum ebb_status train_build_plain(struct train_build *x, struct ebb_error *err)
{
    EBB_TRY(train_build_forward(x, err));
    if (x->o->kind != TRAIN_EVAL) {
        EBB_TRY(train_build_losses(x, err));
        EBB_TRY(train_build_trained(x, err));
        EBB_TRY(train_build_backward(x, err));
    }
    if (x->o->kind == TRAIN_STEP)
        update_plain(x);
    EBB_TRY(tensor_status(x->s, err));
    return finish_plain(x, err);
}

/* ---- from outside --------------------------------------------------------------------------- */

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
    struct ebb_arena arena = {0};
    if (m->optim)
        config.optim = *m->optim;
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
