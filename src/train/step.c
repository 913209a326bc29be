/* step.c - traces one program: forward, loss, backward, accumulation, clipping, update. */
#include "train/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "grad/grad.h"
#include "ops/ops.h"

#define MOST_PIECES 4 /* of a state, unless somebody asks for more */
#define MOST_BLOCKS                                                                                \
    32 /* of weights, whatever is asked for: their answers are put together by one op */

static void label(struct train_build *x, const char *text)
{
    if (!x->o->is_plain)
        tensor_label(x->s, text);
}

/* ---- leaves --------------------------------------------------------------------------------- */

static uint64_t view_bytes(const struct tensor_view *view)
{
    return (uint64_t)tensor_count(view) * tensor_dtype_bytes((enum tensor_dtype)view->dtype);
}

/* States of a trained item: those of the optimizer and, with opt.ema, the average of its weights. */
static size_t state_count(const struct train_config *config)
{
    return optim_state_count(&config->optim) + (config->ema > 0);
}

bool train_slot_is_average(const struct train_config *config, const struct train_slot *slot)
{
    return slot->kind == TRAIN_STATE && slot->state == optim_state_count(&config->optim);
}

static const char *state_name(const struct train_config *config, size_t k)
{
    return k < optim_state_count(&config->optim) ? optim_state_name(&config->optim, k) : "ema";
}

/* States of large items that element-wise updates read: so little of them need be there at once.
 * Of weights in blocks everything lies in pieces as they do. */
static bool lies_in_pieces(const struct train_build *x, const struct train_slot *slot)
{
    if (nn_item_at(&x->b, slot->item)->block_count)
        return true;
    enum ops_update_kind kind = x->o->config->optim.kind;
    return slot->kind == TRAIN_STATE && x->o->range > 0 && kind != OPS_LARS && kind != OPS_LAMB &&
           tensor_count(&slot->view) > x->o->range && !train_slot_is_average(x->o->config, slot);
}

/* Elements of a piece: a block's, as asked for, or so many that there are few pieces. It depends on
 * the shape alone. */
static int64_t range_of(const struct train_build *x, const struct nn_item *item)
{
    int64_t n = tensor_count(&item->view);
    if (item->block_count)
        return item->block_rows * item->view.dims[1];
    int64_t least = x->o->config->chunk > 0 ? 1 : (n + MOST_PIECES - 1) / MOST_PIECES;
    return least > x->o->range ? least : x->o->range;
}

static tensor_id piece_leaf(struct train_build *x, const struct train_slot *slot, size_t k,
                            int64_t elements)
{
    const struct nn_item *item = nn_item_at(&x->b, slot->item);
    if (item->block_count && slot->kind == TRAIN_ITEM)
        return item->blocks[k];
    if (!item->block_count)
        return tensor_leaf(x->s, TENSOR_F32, 1, &elements, slot->name);
    const struct tensor_view *like = tensor_view_of(x->s, item->blocks[k]);
    return tensor_leaf(x->s, TENSOR_F32, like->rank, like->dims, slot->name);
}

static tensor_id add_pieces(struct train_build *x, size_t at)
{
    struct train_slot *slot = &x->step->slots[at];
    int64_t n = tensor_count(&slot->view), range = range_of(x, nn_item_at(&x->b, slot->item));
    size_t count = (size_t)((n + range - 1) / range);
    x->pieces[at] = ebb_arena_calloc(x->arena, count, sizeof **x->pieces);
    x->piece_leaves[at] = ebb_arena_calloc(x->arena, count, sizeof **x->piece_leaves);
    slot->tensors = ebb_arena_calloc(x->arena, count, sizeof *slot->tensors);
    if (!x->pieces[at] || !x->piece_leaves[at] || !slot->tensors)
        return tensor_fail(x->s, EBB_ENOMEM, "out of memory");
    slot->piece_count = count;
    slot->piece_bytes = (uint64_t)range * sizeof(float);
    for (size_t k = 0; k < count; k++) {
        int64_t left = n - (int64_t)k * range, elements = left < range ? left : range;
        x->piece_leaves[at][k] = piece_leaf(x, slot, k, elements);
        x->pieces[at][k] = x->piece_leaves[at][k];
    }
    x->leaves[at] = x->handles[at] = x->piece_leaves[at][0];
    return x->leaves[at];
}

static tensor_id add_slot(struct train_build *x, enum train_slot_kind kind, size_t item,
                          size_t state, const char *name)
{
    const struct nn_item *i = nn_item_at(&x->b, item);
    size_t at = x->step->slot_count++;
    struct train_slot *slot = &x->step->slots[at];
    *slot = (struct train_slot){.name = name,
                                .kind = kind,
                                .item = item,
                                .state = state,
                                .is_buffer = i->role == NN_BUFFER,
                                .view = i->view,
                                .bytes = view_bytes(&i->view)};
    if (kind == TRAIN_STATE && !train_slot_is_average(x->o->config, slot))
        slot->initial = optim_state_initial(&x->o->config->optim, state);
    if (lies_in_pieces(x, slot))
        return add_pieces(x, at);
    x->leaves[at] = kind == TRAIN_ITEM ? i->leaf
                    : kind == TRAIN_REST
                        ? i->rest
                        : tensor_leaf(x->s, TENSOR_F32, i->view.rank, i->view.dims, name);
    x->handles[at] = x->leaves[at];
    return x->leaves[at];
}

/* A pattern that fits nothing is a mistake. */
static enum ebb_status check_groups(const struct train_build *x, struct ebb_error *err)
{
    const struct train_config *c = x->o->config;
    for (size_t g = 0; g < c->group_count; g++)
        for (size_t k = 0; k < c->groups[g].match_count; k++) {
            bool is_used = false;
            for (size_t i = 0; i < x->trained_count && !is_used; i++)
                is_used = tensor_pattern_fits(c->groups[g].match[k],
                                              nn_item_at(&x->b, x->trained[i])->name);
            if (!is_used)
                return ebb_fail(err, EBB_EINPUT,
                                "opt.groups[%zu].match: no trained item of model %s fits '%s'", g,
                                x->o->net->model->name, c->groups[g].match[k]);
        }
    return EBB_OK;
}

static size_t units_of(const struct nn_item *item)
{
    return !item->is_trained ? 0 : item->block_count ? item->block_count : 1;
}

/* What the optimizer updates. */
enum ebb_status train_build_trained(struct train_build *x, struct ebb_error *err)
{
    size_t items = nn_item_count(&x->b), units = 1;
    for (size_t i = 0; i < items; i++)
        units += units_of(nn_item_at(&x->b, i));
    x->trained = ebb_arena_calloc(x->arena, items + 1, sizeof *x->trained);
    x->units = ebb_arena_calloc(x->arena, units, sizeof *x->units);
    x->gradients = ebb_arena_calloc(x->arena, units, sizeof *x->gradients);
    if (!x->trained || !x->units || !x->gradients)
        return ebb_no_memory(err, units * sizeof *x->units);
    for (size_t i = 0; i < items; i++) {
        size_t count = units_of(nn_item_at(&x->b, i));
        for (size_t k = 0; k < count; k++)
            x->units[x->unit_count++] = (struct train_unit){x->trained_count, k};
        if (count)
            x->trained[x->trained_count++] = i;
    }
    if (!x->trained_count && x->o->net->frozen_count)
        return ebb_fail(err, EBB_EINPUT, "model.frozen: nothing of model %s is left to train",
                        x->o->net->model->name);
    return check_groups(x, err);
}

/* The persistent leaves, in the order every program has. Items were made by the model. */
static enum ebb_status declare(struct train_build *x, struct ebb_error *err)
{
    size_t items = nn_item_count(&x->b), states = state_count(x->o->config);
    size_t most = items * (3 + states) + 1;
    x->step->slots = ebb_arena_calloc(x->arena, most, sizeof *x->step->slots);
    x->leaves = ebb_arena_calloc(x->arena, most, sizeof *x->leaves);
    x->handles = ebb_arena_calloc(x->arena, most, sizeof *x->handles);
    x->pieces = ebb_arena_calloc(x->arena, most, sizeof *x->pieces);
    x->piece_leaves = ebb_arena_calloc(x->arena, most, sizeof *x->piece_leaves);
    if (!x->step->slots || !x->leaves || !x->handles || !x->pieces || !x->piece_leaves)
        return ebb_no_memory(err, most * sizeof *x->step->slots);
    for (size_t i = 0; i < items; i++) {
        const struct nn_item *item = nn_item_at(&x->b, i);
        char *name = ebb_arena_strndup(x->arena, item->name, strlen(item->name));
        if (!name)
            return ebb_no_memory(err, strlen(item->name));
        add_slot(x, TRAIN_ITEM, i, 0, name);
        if (item->role != NN_BUFFER)
            x->step->parameters += (uint64_t)tensor_count(&item->view);
    }
    tensor_label(x->s, NULL);
    for (size_t k = 0; k < x->trained_count * states; k++) {
        size_t item = x->trained[k / states];
        char *name = ebb_arena_printf(x->arena, "%s.%s", nn_item_at(&x->b, item)->name,
                                      state_name(x->o->config, k % states));
        if (!name)
            return ebb_no_memory(err, 64);
        add_slot(x, TRAIN_STATE, item, k % states, name);
    }
    for (size_t k = 0; x->o->has_gradients && k < x->trained_count; k++) {
        char *name = ebb_arena_printf(x->arena, "%s.grad", nn_item_at(&x->b, x->trained[k])->name);
        if (!name)
            return ebb_no_memory(err, 64);
        add_slot(x, TRAIN_GRADIENT, x->trained[k], 0, name);
    }
    for (size_t i = 0; i < items; i++) {
        const struct nn_item *item = nn_item_at(&x->b, i);
        if (!item->rest.v)
            continue;
        if (!item->is_trained)
            return ebb_fail(err, EBB_EUNSUPPORTED,
                            "model %s updates '%s' itself: memory.master_weights must be fp32",
                            x->o->net->model->name, item->name);
        x->step->slots[i].rest = x->step->slot_count;
        add_slot(x, TRAIN_REST, i, 0, x->step->slots[i].name);
    }
    return tensor_status(x->s, err);
}

/* Places in the list of slots: of an item, of state k or the kept gradient of trained item i. */
static size_t item_slot(const struct train_build *x, size_t i)
{
    return x->trained[i];
}

static size_t state_slot(const struct train_build *x, size_t i, size_t k)
{
    return nn_item_count(&x->b) + i * state_count(x->o->config) + k;
}

static size_t gradient_slot(const struct train_build *x, size_t i)
{
    return state_slot(x, x->trained_count, 0) + i;
}

const struct nn_item *train_build_item(const struct train_build *x, size_t u)
{
    return nn_item_at(&x->b, x->trained[x->units[u].trained]);
}

/* The part of a slot that a unit is about: as the trace begins, and its newest version. */
static tensor_id unit_leaf(const struct train_build *x, size_t slot, size_t u)
{
    return train_build_item(x, u)->block_count ? x->piece_leaves[slot][x->units[u].block]
                                               : x->leaves[slot];
}

static tensor_id *unit_newest(const struct train_build *x, size_t slot, size_t u)
{
    return train_build_item(x, u)->block_count ? &x->pieces[slot][x->units[u].block]
                                               : &x->handles[slot];
}

/* ---- forward and loss ----------------------------------------------------------------------- */

static tensor_id port_leaf(struct train_build *x, const struct nn_port *port)
{
    return tensor_leaf(x->s, (enum tensor_dtype)port->view.dtype, port->view.rank, port->view.dims,
                       port->name);
}

enum ebb_status train_build_forward(struct train_build *x, struct ebb_error *err)
{
    struct train_step *st = x->step;
    tensor_set_phase(x->s, TRACE_FORWARD);
    st->input_count = nn_inputs(x->o->net, x->o->batch, st->inputs);
    tensor_id numbers[NN_PORTS];
    for (size_t i = 0; i < st->input_count; i++) {
        bool is_bytes = x->o->byte_inputs >> i & 1u;
        if (is_bytes)
            st->inputs[i].view.dtype = TENSOR_U8;
        x->inputs[i] = port_leaf(x, &st->inputs[i]);
        numbers[i] = is_bytes ? ops_unit(x->s, x->inputs[i]) : x->inputs[i];
    }
    EBB_TRY(nn_build(&x->b, x->o->net, numbers, x->outputs, &x->output_count, err));
    return tensor_status(x->s, err);
}

/* The target of output i; leaves are named after it. */
static tensor_id target(struct train_build *x, size_t i)
{
    struct train_step *st = x->step;
    struct nn_port *port = &st->targets[st->target_count];
    *port = x->outputs[i].target;
    if (!port->name)
        port->name = "target";
    const struct tensor_view *answer = tensor_view_of(x->s, x->outputs[i].id);
    st->target_classes[st->target_count] = answer && answer->rank > 1 ? answer->dims[1] : 1;
    x->targets[st->target_count++] = port_leaf(x, port);
    return x->targets[st->target_count - 1];
}

/* One more target, beside those of outputs. */
static tensor_id extra_target(struct train_build *x, const char *name, enum nn_port_kind kind,
                              enum tensor_dtype dtype, int64_t classes)
{
    struct train_step *st = x->step;
    struct nn_port *port = &st->targets[st->target_count];
    *port = (struct nn_port){.name = name, .kind = kind};
    tensor_view_init(&port->view, dtype, 1, &x->o->batch);
    st->target_classes[st->target_count] = classes;
    x->targets[st->target_count++] = port_leaf(x, port);
    return x->targets[st->target_count - 1];
}

/* data.mixup: the mean of share * loss(own class) + (1 - share) * loss(partner's class). */
static tensor_id mixed_loss(struct train_build *x, const struct train_loss *loss, tensor_id answer,
                            tensor_id goal)
{
    const struct tensor_view *view = tensor_view_of(x->s, goal);
    if (!view || view->rank != 1 || x->step->target_count != 1 || x->output_count > 1)
        return tensor_fail(x->s, EBB_EINPUT,
                           "data.mixup: model %s does not answer with one class for a sample",
                           x->o->net->model->name);
    int64_t classes = x->step->target_classes[0];
    tensor_id other = extra_target(x, "mixup_label", NN_CLASSES, TENSOR_I64, classes);
    tensor_id share = extra_target(x, "mixup_share", NN_FLOATS, TENSOR_F32, 1);
    tensor_id a = train_loss_each(&x->b, loss, answer, goal, x->weights);
    tensor_id b = train_loss_each(&x->b, loss, answer, other, x->weights);
    tensor_id sum = ops_add(x->s, b, ops_mul(x->s, share, ops_sub(x->s, a, b)));
    return nn_op(&x->b, "mean", 1, &sum, NULL, NULL);
}

/* The loss of output i: by the section for the first, by the model for the others. */
static tensor_id output_loss(struct train_build *x, size_t i, bool is_first)
{
    const struct train_config *c = x->o->config;
    const struct nn_output *out = &x->outputs[i];
    if (out->kind == NN_LOSS)
        return out->id;
    if (out->kind != NN_LOGITS && out->kind != NN_VALUES)
        return TENSOR_NONE;
    if (!out->loss)
        return TENSOR_NONE;
    tensor_id goal = target(x, i);
    bool is_mixed = is_first && x->o->is_mixed && x->o->kind != TRAIN_EVAL;
    struct train_loss own = {.name = out->loss, .ignore_index = -100};
    if (is_mixed && !c->loss && train_loss_takes_classes(&own))
        return mixed_loss(x, &own, out->id, goal);
    if (!is_first || !c->loss)
        return nn_op(&x->b, out->loss, 2, (tensor_id[]){out->id, goal}, NULL, NULL);
    bool is_classes = x->step->targets[x->step->target_count - 1].view.dtype == TENSOR_I64;
    if (train_loss_takes_classes(c->loss) != is_classes)
        return tensor_fail(x->s, EBB_EINPUT, "loss.name: found '%s', a loss for %s; model %s %s",
                           c->loss->name, is_classes ? "numbers" : "classes",
                           x->o->net->model->name,
                           is_classes ? "answers with classes" : "answers with numbers");
    float values[TRAIN_MAX_WEIGHTS];
    int64_t count = (int64_t)train_loss_weights(c->loss, values, TRAIN_MAX_WEIGHTS);
    if (count > TRAIN_MAX_WEIGHTS)
        return tensor_fail(x->s, EBB_EINPUT, "loss.weight: more than %d weights",
                           TRAIN_MAX_WEIGHTS);
    if (count)
        x->weights = tensor_leaf(x->s, TENSOR_F32, 1, &count, "class_weights");
    return is_mixed ? mixed_loss(x, c->loss, out->id, goal)
                    : train_loss(&x->b, c->loss, out->id, goal, x->weights);
}

enum ebb_status train_build_losses(struct train_build *x, struct ebb_error *err)
{
    label(x, "loss");
    if (x->o->is_plain)
        x->loss = nn_loss(&x->b, x->outputs, x->output_count, x->targets);
    for (size_t i = 0; i < x->output_count && !x->o->is_plain; i++) {
        tensor_id loss = output_loss(x, i, !x->part.v);
        if (!loss.v)
            continue;
        if (!x->part.v)
            x->part = loss;
        x->loss = x->loss.v ? ops_add(x->s, x->loss, loss) : loss;
    }
    EBB_TRY(tensor_status(x->s, err));
    if (x->o->is_mixed && x->o->kind != TRAIN_EVAL && x->step->target_count != 3)
        return ebb_fail(err, EBB_EINPUT,
                        "data.mixup: model %s has a loss of its own; allowed: cross_entropy or "
                        "nll_loss of its answer",
                        x->o->net->model->name);
    if (!x->loss.v)
        return ebb_fail(err, EBB_EINPUT, "model %s has no loss: it cannot be trained",
                        x->o->net->model->name);
    if (x->o->config->loss && !x->step->target_count)
        return ebb_fail(err, EBB_EINPUT,
                        "model %s has a loss of its own: the section 'loss' has no use",
                        x->o->net->model->name);
    return EBB_OK;
}

/* One target for a sample, of more than one number or token. */
static bool is_once(const struct train_build *x)
{
    const struct train_step *st = x->step;
    bool is_tokens = x->o->net->model->task == NN_LANGUAGE_MODEL;
    return tensor_count(&st->targets[0].view) == x->o->batch &&
           (!is_tokens || (st->input_count && tensor_count(&st->inputs[0].view) > x->o->batch));
}

/* What metrics are computed from. */
static void answers(struct train_build *x)
{
    const struct nn_output *out = &x->outputs[0];
    struct train_step *st = x->step;
    if (!x->output_count || !st->target_count)
        return;
    bool is_masked = strcmp(out->name, "mlm") == 0;
    st->is_once = is_once(x);
    if (x->o->net->model->task == NN_LANGUAGE_MODEL && !is_masked && !st->is_once)
        return; /* the loss tells everything */
    if (out->kind == NN_LOGITS && st->targets[0].kind == NN_CLASSES) {
        bool is_row = tensor_view_of(x->s, out->id)->rank == 2;
        st->answer = x->o->wants_scores && is_row && !is_masked ? TRAIN_SCORES : TRAIN_CLASS;
        if (st->answer == TRAIN_SCORES)
            x->answer = ops_settle(x->s, nn_full(&x->b, out->id));
        else
            x->answer = nn_op(&x->b, "argmax", 1, &out->id, NULL, "{\"dim\": 1}");
    } else {
        st->answer = out->kind == NN_LOGITS ? TRAIN_LOGIT : TRAIN_VALUE;
        x->answer = ops_settle(x->s, out->id);
    }
}

/* ---- backward and update -------------------------------------------------------------------- */

static tensor_id scalars_leaf(struct train_build *x, const char *name)
{
    return tensor_leaf(x->s, TENSOR_F32, 1, (int64_t[]){OPS_UPDATE_SCALARS}, name);
}

enum ebb_status train_build_backward(struct train_build *x, struct ebb_error *err)
{
    const struct train_config *c = x->o->config;
    tensor_id loss = x->loss;
    tensor_id *wanted = ebb_arena_calloc(x->arena, x->unit_count + 1, sizeof *wanted);
    if (!wanted)
        return ebb_no_memory(err, x->unit_count * sizeof *wanted);
    if (c->accumulate > 1 && c->average)
        loss = ops_mul_scalar(x->s, loss, (float)(1.0 / (double)c->accumulate));
    if (x->o->is_scaled)
        loss = ops_mul(x->s, loss, ops_reshape(x->s, x->scale, 0, NULL));
    for (size_t u = 0; u < x->unit_count; u++) {
        const struct nn_item *item = train_build_item(x, u);
        wanted[u] = item->block_count ? item->blocks[x->units[u].block] : item->id;
    }
    x->forward_end = tensor_node_count(x->s);
    EBB_TRY(grad_backward(x->s, &loss, NULL, 1, wanted, x->unit_count, x->gradients, err));
    if (x->o->is_plain && x->step->kind == TRAIN_STEP)
        x->scalars[0] = scalars_leaf(x, "scalars");
    tensor_set_phase(x->s, TRACE_UPDATE);
    return tensor_status(x->s, err);
}

/* kept += gradient: the plain update with rate -1, exactly w - (-1) g. */
static enum ebb_status accumulate(struct train_build *x, struct ebb_error *err)
{
    for (size_t u = 0; u < x->unit_count; u++) {
        size_t at = gradient_slot(x, x->units[u].trained);
        tensor_id out[1 + OPS_UPDATE_STATES];
        if (!x->gradients[u].v)
            continue;
        label(x, train_build_item(x, u)->name);
        tensor_id g = ops_contiguous(x->s, x->gradients[u]);
        ops_update(x->s, OPS_SGD, 0, x->scalars[0], g, unit_leaf(x, at, u), NULL, 0, out);
        *unit_newest(x, at, u) = out[0];
        x->step->slots[at].is_filled = true;
    }
    if (x->o->is_scaled) { /* is any of them infinite? */
        tensor_id sum = TENSOR_NONE;
        for (size_t u = 0; u < x->unit_count; u++) {
            size_t at = gradient_slot(x, x->units[u].trained);
            tensor_id q = ops_sum_squares(x->s, *unit_newest(x, at, u));
            sum = sum.v ? ops_add(x->s, sum, q) : q;
        }
        x->norm = sum;
    }
    return tensor_status(x->s, err);
}

/* memory.gradients: overlay. Nobody reads the working copy of a weight behind its gradient, so the
 * gradient takes its place, rounded as the copy was. What has no copy keeps its gradient in full. */
static void overlay(struct train_build *x)
{
    for (size_t u = 0; u < x->unit_count; u++) {
        const struct train_unit *unit = &x->units[u];
        tensor_id copy = nn_item_low(&x->b, x->trained[unit->trained], unit->block);
        if (!x->gradients[u].v || !copy.v)
            continue;
        label(x, train_build_item(x, u)->name);
        x->gradients[u] = ops_overlay(x->s, copy, x->gradients[u]);
    }
    label(x, "clip");
}

static void clip(struct train_build *x)
{
    const struct train_config *c = x->o->config;
    tensor_id *given = x->gradients;
    size_t count = 0;
    label(x, "clip");
    if (x->o->is_scaled) /* scale: 1 / loss scale here */
        for (size_t i = 0; i < x->unit_count; i++)
            if (given[i].v)
                given[i] = ops_mul(x->s, given[i], ops_reshape(x->s, x->scale, 0, NULL));
    if (c->clip_value > 0)
        for (size_t i = 0; i < x->unit_count; i++)
            if (given[i].v)
                given[i] = ops_clamp(x->s, given[i], (float)-c->clip_value, (float)c->clip_value);
    if (c->wishes.gradients == TRAIN_GRADIENTS_OVERLAY && x->step->kind == TRAIN_STEP)
        overlay(x);
    if (!(c->clip_norm > 0))
        return;
    tensor_id *dense = ebb_arena_calloc(x->arena, x->unit_count + 1, sizeof *dense);
    if (!dense)
        return;
    for (size_t i = 0; i < x->unit_count; i++)
        if (given[i].v)
            dense[count++] = given[i];
    optim_clip(x->s, dense, count, c->clip_norm, &x->norm);
    count = 0;
    for (size_t i = 0; i < x->unit_count; i++)
        if (given[i].v)
            given[i] = dense[count++];
}

/* 0: of the section; 1 + group otherwise. */
static size_t group_of(const struct train_config *c, const char *name)
{
    for (size_t g = 0; g < c->group_count; g++)
        for (size_t k = 0; k < c->groups[g].match_count; k++)
            if (tensor_pattern_fits(c->groups[g].match[k], name))
                return g + 1;
    return 0;
}

/* Of elements `first` and on, as many as the states have; -1: of all. */
static void update_range(struct train_build *x, size_t u, tensor_id weights, tensor_id rest,
                         int64_t first, const tensor_id *states, tensor_id *out)
{
    const struct optim_config *optim = &x->o->config->optim;
    const struct nn_item *item = train_build_item(x, u);
    size_t count = optim_state_count(optim);
    label(x, item->name);
    tensor_id g = ops_cast(x->s, ops_contiguous(x->s, x->gradients[u]), TENSOR_F32);
    bool is_bare = x->o->config->decays_matrices_only && !item->has_decay;
    bool has_trust = optim->kind == OPS_LARS || optim->kind == OPS_LAMB;
    unsigned flags = optim_flags(optim) | (is_bare && has_trust ? OPS_NO_TRUST : 0u);
    size_t group = x->o->is_plain ? 0 : group_of(x->o->config, item->name);
    tensor_id scalars = is_bare ? x->bare[group] : x->scalars[group];
    struct ops_range range = {optim->kind, flags, scalars, g, weights, rest, first, states, count};
    if (first >= 0)
        ops_update_range(x->s, &range, out);
    else if (rest.v)
        ops_update_split(x->s, optim->kind, flags, scalars, g, weights, rest, states, count, out);
    else
        ops_update(x->s, optim->kind, flags, scalars, g, weights, states, count, out);
}

void train_build_update(struct train_build *x, size_t u, tensor_id weights, tensor_id rest,
                        const tensor_id *states, tensor_id *out)
{
    update_range(x, u, weights, rest, -1, states, out);
}

/* average -= (1 - ema) (average - weights): the plain update, with that difference as gradient. */
static tensor_id move_average(struct train_build *x, tensor_id average, tensor_id weights)
{
    tensor_id out[1 + OPS_UPDATE_STATES];
    ops_update(x->s, OPS_SGD, 0, x->average, ops_sub(x->s, average, weights), average, NULL, 0,
               out);
    return out[0];
}

/* One update after the other, each with its pieces of the states; out[0]: the weights behind all. */
static void update_pieces(struct train_build *x, size_t u, tensor_id *out)
{
    size_t i = x->units[u].trained;
    size_t at = item_slot(x, i), rest = x->step->slots[at].rest, weights = rest ? 2 : 1;
    size_t states = optim_state_count(&x->o->config->optim), first = state_slot(x, i, 0);
    x->gradients[u] = ops_cast(x->s, ops_contiguous(x->s, x->gradients[u]), TENSOR_F32);
    out[0] = x->leaves[at];
    out[1] = rest ? x->leaves[rest] : TENSOR_NONE;
    for (size_t r = 0; r < x->step->slots[first].piece_count; r++) {
        tensor_id old[OPS_UPDATE_STATES] = {0};
        for (size_t k = 0; k < states; k++)
            old[k] = x->piece_leaves[first + k][r];
        update_range(x, u, out[0], rest ? out[1] : TENSOR_NONE,
                     (int64_t)(r * x->step->slots[first].piece_bytes / sizeof(float)), old, out);
        for (size_t k = 0; k < states; k++)
            x->pieces[first + k][r] = out[weights + k];
    }
    x->handles[at] = out[0];
    if (rest)
        x->handles[rest] = out[1];
}

/* The update of weights and states that lie in one piece, or of one block of both. */
static void update_unit(struct train_build *x, size_t u, tensor_id *out)
{
    size_t i = x->units[u].trained, states = optim_state_count(&x->o->config->optim);
    size_t at = item_slot(x, i), rest = x->step->slots[at].rest, weights = rest ? 2 : 1;
    tensor_id old[OPS_UPDATE_STATES] = {0};
    for (size_t k = 0; k < states; k++)
        old[k] = unit_leaf(x, state_slot(x, i, k), u);
    train_build_update(x, u, unit_leaf(x, at, u), rest ? x->leaves[rest] : TENSOR_NONE, old, out);
    *unit_newest(x, at, u) = out[0];
    if (rest)
        x->handles[rest] = out[1];
    for (size_t k = 0; k < states; k++)
        *unit_newest(x, state_slot(x, i, k), u) = out[weights + k];
}

/* Newest gradients first: the backward pass ends with the first layers, and an update may follow
 * its gradient at once. */
static enum ebb_status update(struct train_build *x, struct ebb_error *err)
{
    size_t states = optim_state_count(&x->o->config->optim);
    clip(x);
    for (size_t u = x->unit_count; u-- > 0;) {
        size_t i = x->units[u].trained, average = state_slot(x, i, states);
        tensor_id out[2 + OPS_UPDATE_STATES];
        if (!x->gradients[u].v)
            continue;
        bool is_whole = !states || !x->pieces[state_slot(x, i, 0)];
        if (is_whole || train_build_item(x, u)->block_count)
            update_unit(x, u, out);
        else
            update_pieces(x, u, out);
        if (x->average.v)
            *unit_newest(x, average, u) = move_average(x, unit_leaf(x, average, u), out[0]);
    }
    label(x, NULL);
    return tensor_status(x->s, err);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void keep(struct train_build *x)
{
    struct train_step *st = x->step;
    for (size_t i = 0; i < st->slot_count; i++) {
        const struct train_slot *slot = &st->slots[i];
        /* A buffer, or a weight that the model updates itself, has a newer handle than its leaf. */
        if (slot->kind == TRAIN_ITEM && !slot->rest && x->handles[i].v == x->leaves[i].v)
            x->handles[i] = nn_item_at(&x->b, slot->item)->id;
        for (size_t k = 0; k < slot->piece_count; k++)
            tensor_keep(x->s, x->pieces[i][k]);
        if (!slot->piece_count)
            tensor_keep(x->s, x->handles[i]);
    }
    x->loss = ops_settle(x->s, x->loss);
    x->part = ops_settle(x->s, x->part);
    tensor_id results[] = {x->loss, x->part, x->norm, x->answer};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].v)
            tensor_keep(x->s, results[i]);
    for (size_t i = 0; i < x->output_count && st->kind != TRAIN_APPLY; i++)
        if (x->outputs[i].kind == NN_METRIC) {
            x->outputs[i].id = ops_settle(x->s, x->outputs[i].id);
            tensor_keep(x->s, x->outputs[i].id);
        }
}

static uint32_t place(const struct train_build *x, const uint32_t *map, tensor_id id)
{
    uint32_t at = id.v ? tensor_trace_id(x->s, id) : TRACE_NONE;
    return at == TRACE_NONE ? at : map[at];
}

static void find_places(struct train_build *x, const uint32_t *map)
{
    struct train_step *st = x->step;
    for (size_t i = 0; i < st->slot_count; i++) {
        st->slots[i].tensor = place(x, map, x->leaves[i]);
        for (size_t k = 0; k < st->slots[i].piece_count; k++)
            st->slots[i].tensors[k] = place(x, map, x->piece_leaves[i][k]);
    }
    for (size_t i = 0; i < st->input_count; i++)
        st->input_ids[i] = place(x, map, x->inputs[i]);
    for (size_t i = 0; i < st->target_count; i++)
        st->target_ids[i] = place(x, map, x->targets[i]);
    for (size_t g = 0; g <= TRAIN_GROUPS; g++) {
        st->scalars_id[g] = place(x, map, x->scalars[g]);
        st->bare_id[g] = place(x, map, x->bare[g]);
    }
    st->average_id = place(x, map, x->average);
    st->step_id = place(x, map, x->counter);
    st->weights_id = place(x, map, x->weights);
    st->scale_id = place(x, map, x->scale);
    st->loss_id = place(x, map, x->loss);
    st->part_id = place(x, map, x->part);
    st->norm_id = place(x, map, x->norm);
    st->answer_id = place(x, map, x->answer);
    if (x->answer.v)
        st->answer_view = *tensor_view_of(x->s, x->answer);
    for (size_t i = 0; i < x->output_count && st->kind != TRAIN_APPLY; i++)
        if (x->outputs[i].kind == NN_METRIC) {
            st->metric_names[st->metric_count] =
                ebb_arena_printf(x->arena, "%s", x->outputs[i].name);
            st->metric_ids[st->metric_count++] = place(x, map, x->outputs[i].id);
        }
}

/* ---- all ------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {"step", "micro", "apply", "eval"};

static enum ebb_status finish(struct train_build *x, struct ebb_error *err)
{
    struct trace *plain = NULL, *trace = NULL;
    char name[128];
    keep(x);
    snprintf(name, sizeof name, "%s %s, batch %lld", x->o->net->model->name, kind_names[x->o->kind],
             (long long)x->o->batch);
    EBB_TRY(tensor_draft(x->s, name, &plain, err));
    uint32_t *map = ebb_calloc((size_t)plain->tensor_count + 1, sizeof *map);
    enum ebb_status status = map ? trace_hoist_updates(plain, &trace, map, err)
                                 : ebb_no_memory(err, plain->tensor_count * sizeof *map);
    if (status == EBB_OK) {
        find_places(x, map);
        x->step->trace = trace;
    }
    trace_destroy(plain);
    ebb_free(map);
    return status;
}

/* Only the update: the model is built for its items, and nothing keeps its forward pass. */
static enum ebb_status build_apply(struct train_build *x, struct ebb_error *err)
{
    tensor_set_phase(x->s, TRACE_UPDATE);
    for (size_t u = 0; u < x->unit_count; u++) {
        size_t at = gradient_slot(x, x->units[u].trained);
        if (!x->o->micro || x->o->micro->slots[at].is_filled)
            x->gradients[u] = unit_leaf(x, at, u);
    }
    return update(x, err);
}

static enum ebb_status build(struct train_build *x, struct ebb_error *err)
{
    enum train_program_kind kind = x->o->kind;
    EBB_TRY(train_build_forward(x, err));
    if (kind != TRAIN_APPLY)
        EBB_TRY(train_build_losses(x, err));
    EBB_TRY(train_build_trained(x, err));
    EBB_TRY(declare(x, err));
    if (kind == TRAIN_EVAL)
        answers(x);
    else if (kind == TRAIN_APPLY)
        EBB_TRY(build_apply(x, err));
    else {
        EBB_TRY(train_build_backward(x, err));
        EBB_TRY(kind == TRAIN_MICRO ? accumulate(x, err) : update(x, err));
    }
    EBB_TRY(tensor_status(x->s, err));
    return finish(x, err);
}

enum ebb_status train_step_build(struct ebb_arena *arena, const struct train_step_options *options,
                                 struct train_step *step, struct ebb_error *err)
{
    static const enum nn_precision precisions[] = {
        [TRAIN_FP32] = NN_FP32, [TRAIN_BF16] = NN_BF16, [TRAIN_FP16] = NN_FP16};
    struct train_step out = {.kind = options->kind, .batch = options->batch};
    struct train_build x = {.o = options, .step = &out, .arena = arena};
    const int64_t one = 1;
    EBB_TRY(tensor_session_create(&x.s, options->backend, err));
    if (!options->is_plain) {
        x.counter = tensor_leaf(x.s, TENSOR_I64, 1, &one, "step");
        x.scalars[0] = scalars_leaf(&x, "step_scalars");
        x.bare[0] = scalars_leaf(&x, "step_scalars_without_decay");
        for (size_t g = 1; g <= options->config->group_count; g++) {
            x.scalars[g] = scalars_leaf(&x, "group_scalars");
            x.bare[g] = scalars_leaf(&x, "group_scalars_without_decay");
        }
    }
    if (!options->is_plain && options->config->ema > 0)
        x.average = scalars_leaf(&x, "average_scalars");
    if (options->is_scaled)
        x.scale = tensor_leaf(x.s, TENSOR_F32, 1, &one, "loss_scale");
    struct nn_mode mode = {.is_training =
                               options->kind != TRAIN_APPLY && options->kind != TRAIN_EVAL,
                           .precision = precisions[options->config->precision],
                           .is_split = options->config->is_split,
                           .tile = options->config->wishes.tiling == TRAIN_ON ? options->range : 0,
                           .tile_most = options->config->chunk > 0 ? MOST_BLOCKS : MOST_PIECES,
                           .seed = options->config->seed,
                           .step = x.counter};
    nn_builder_init(&x.b, x.s, &mode);
    enum ebb_status status = options->is_plain ? train_build_plain(&x, err) : build(&x, err);
    nn_builder_fini(&x.b);
    tensor_session_destroy(x.s);
    if (status == EBB_OK)
        *step = out;
    else
        trace_destroy(out.trace);
    return status;
}
