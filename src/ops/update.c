/* update.c - ops that depend on the step: optimizer updates in place, dropout by coordinates. */
#include "ops/internal.h"

enum {
    ROW_UPDATE,
    ROW_SPLIT,
    ROW_RANGE,
    ROW_SPLIT_RANGE,
    ROW_JOIN,
    ROW_HIGH,
    ROW_DROPOUT,
    ROW_OVERLAY,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

_Static_assert(OPS_UPDATE_SCALARS == KERNEL_UPDATE_SCALARS, "one size for both layers");
_Static_assert(OPS_UPDATE_STATES == KERNEL_UPDATE_STATES, "one size for both layers");
_Static_assert((int)OPS_LAMB == (int)KERNEL_UPDATE_LAMB &&
                   (int)OPS_RADAM == (int)KERNEL_UPDATE_RADAM &&
                   (int)OPS_ADADELTA == (int)KERNEL_UPDATE_ADADELTA,
               "one order for both layers");
_Static_assert((int)OPS_NO_TRUST == (int)KERNEL_UPDATE_NO_TRUST &&
                   (int)OPS_CENTERED == (int)KERNEL_UPDATE_CENTERED,
               "the same flags for both layers");

void ops_update_scalars(enum ops_update_kind kind, const struct ops_scalars *scalars,
                        float packed[OPS_UPDATE_SCALARS])
{
#define NAME(kind, name) offsetof(struct ops_scalars, name),
#define NAMES(kind) [KERNEL_UPDATE_##kind] = {KERNEL_SCALARS_##kind(NAME) 0},
    static const size_t places[KERNEL_UPDATE_COUNT][KERNEL_UPDATE_SCALARS] = {
        KERNEL_SCALARS(NAMES)}; /* rate is at 0: the end */
    memset(packed, 0, OPS_UPDATE_SCALARS * sizeof *packed);
    packed[0] = (float)scalars->rate;
    packed[1] = (float)scalars->decay;
    packed[OPS_UPDATE_SCALARS - 1] = (float)scalars->sign;
    for (size_t i = 0; places[kind][i]; i++) {
        double value;
        memcpy(&value, (const unsigned char *)scalars + places[kind][i], sizeof value);
        packed[2 + i] = (float)value;
    }
}

struct update_attr {
    int32_t kind;
    uint32_t flags;
};

struct range_attr {
    struct update_attr update; /* comes first: whoever wants no more need not know */
    int64_t first;             /* of gradient and weights that the states are about */
};

/* What is behind the gradient, input 1, has its shape and is changed in place: `weights` tensors,
 * then the states. */
static enum ebb_status infer_in_place(struct ops_infer *i, size_t weights, struct ebb_error *err)
{
    const struct update_attr *a = i->attr;
    int states = kernel_update_states((enum kernel_update)a->kind, a->flags);
    if (tensor_count(i->in[0]) != KERNEL_UPDATE_SCALARS ||
        i->in_count != 2 + weights + (size_t)states)
        return ops_wrong(i, err, "%d scalars and %d states are needed", KERNEL_UPDATE_SCALARS,
                         states);
    int64_t n = tensor_count(i->in[1]), count = states ? tensor_count(i->in[2 + weights]) : n;
    bool is_part = i->def == &rows[ROW_RANGE] || i->def == &rows[ROW_SPLIT_RANGE];
    int64_t first = is_part ? ((const struct range_attr *)i->attr)->first : 0;
    if (first < 0 || first > n - count)
        return ops_wrong(i, err, "the states are about elements that are not there");
    if (is_part && kernel_update_is_whole((enum kernel_update)a->kind))
        return ops_wrong(i, err, "this update needs all states at once");
    for (size_t k = 2; k < i->in_count; k++) {
        bool is_good = is_part && k >= 2 + weights ? tensor_count(i->in[k]) == count
                                                   : tensor_same_shape(i->in[1], i->in[k]);
        if (!is_good)
            return ops_wrong(i, err, "gradient, weights and states must have the same shape");
        if (is_part)
            i->bytes += (double)count * (k < 2 + weights ? 8.0 / (double)weights : 8);
        ops_out(i, (enum tensor_dtype)i->in[k]->dtype, i->in[k]->rank, i->in[k]->dims);
        i->mutates[k - 2] = (uint8_t)(k + 1);
    }
    return EBB_OK;
}

/* Elements that one call updates. */
static int64_t range_count(const struct ops_infer *i, size_t weights)
{
    return tensor_count(i->in[i->in_count > 2 + weights ? 2 + weights : 1]);
}

/* scalars, g, w, states... -> w, states..., all in place */
static enum ebb_status infer_update(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    EBB_TRY(infer_in_place(i, 1, err));
    i->flops = 12.0 * (double)range_count(i, 1);
    return EBB_OK;
}

static void describe_update(const struct ops_views *v, void *desc)
{
    struct kernel_update_desc *d = desc;
    const struct update_attr *a = v->attr;
    d->n = tensor_count(v->in[v->in_count - 1]); /* a state, or the weights */
    d->f = a->kind;
    d->flags = a->flags;
}

static void describe_range(const struct ops_views *v, void *desc)
{
    struct kernel_update_desc *d = desc;
    describe_update(v, desc);
    d->first = ((const struct range_attr *)v->attr)->first;
}

/* in: scalars, gradient, `weights` tensors; room for the states behind them. */
static void emit_update(struct tensor_session *s, int row, const void *attr, tensor_id *in,
                        size_t weights, const tensor_id *states, size_t state_count, tensor_id *out)
{
    if (state_count > KERNEL_UPDATE_STATES) {
        tensor_fail(s, EBB_EINTERNAL, "update: %zu states", state_count);
        return;
    }
    for (size_t k = 0; k < state_count; k++)
        in[2 + weights + k] = states[k];
    tensor_id first = ops_emit(s, &rows[row], attr, 2 + weights + state_count, in);
    for (uint32_t k = 0; k < weights + state_count; k++)
        out[k] = ops_output(first, k);
}

void ops_update(struct tensor_session *s, enum ops_update_kind kind, unsigned flags,
                tensor_id scalars, tensor_id g, tensor_id w, const tensor_id *states,
                size_t state_count, tensor_id *out)
{
    tensor_id in[3 + KERNEL_UPDATE_STATES] = {scalars, g, w};
    emit_update(s, ROW_UPDATE, &(struct update_attr){(int32_t)kind, flags}, in, 1, states,
                state_count, out);
}

void ops_update_range(struct tensor_session *s, const struct ops_range *r, tensor_id *out)
{
    struct range_attr attr = {{(int32_t)r->kind, r->flags}, r->first};
    tensor_id in[4 + KERNEL_UPDATE_STATES] = {r->scalars, r->g, r->w, r->rest};
    emit_update(s, r->rest.v ? ROW_SPLIT_RANGE : ROW_RANGE, &attr, in, r->rest.v ? 2 : 1, r->states,
                r->state_count, out);
}

/* ---- split master weights -------------------------------------------------------------------- */

/* scalars, g, high, rest, states... -> high, rest, states..., all in place */
static enum ebb_status infer_split(struct ops_infer *i, struct ebb_error *err)
{
    bool is_float = i->in[1]->dtype == TENSOR_F32 || i->in[1]->dtype == TENSOR_BF16;
    if (!is_float || i->in[2]->dtype != TENSOR_BF16 || i->in[3]->dtype != TENSOR_I16)
        return ops_wrong(i, err, "gradient F32 or BF16, weights BF16 and I16 are needed");
    EBB_TRY(ops_want_f32(i, ~UINT64_C(14), err));
    EBB_TRY(infer_in_place(i, 2, err));
    i->flops = 16.0 * (double)range_count(i, 2);
    return EBB_OK;
}

void ops_update_split(struct tensor_session *s, enum ops_update_kind kind, unsigned flags,
                      tensor_id scalars, tensor_id g, tensor_id high, tensor_id rest,
                      const tensor_id *states, size_t state_count, tensor_id *out)
{
    tensor_id in[4 + KERNEL_UPDATE_STATES] = {scalars, g, high, rest};
    emit_update(s, ROW_SPLIT, &(struct update_attr){(int32_t)kind, flags}, in, 2, states,
                state_count, out);
}

/* high, rest -> the master weights in F32. They end here: gradients are asked of them, not of their
 * halves. */
static enum ebb_status infer_join(struct ops_infer *i, struct ebb_error *err)
{
    if (i->in[0]->dtype != TENSOR_BF16 || i->in[1]->dtype != TENSOR_I16 ||
        !tensor_same_shape(i->in[0], i->in[1]))
        return ops_wrong(i, err, "BF16 and I16 of one shape are needed");
    ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    i->flops = (double)tensor_count(i->in[0]);
    return EBB_OK;
}

tensor_id ops_master_join(struct tensor_session *s, tensor_id high, tensor_id rest)
{
    return ops_emit(s, &rows[ROW_JOIN], NULL, 2, (tensor_id[]){high, rest});
}

/* high, master -> high: what a cast of the master weights to BF16 would give, but it is there
 * already. Its gradient is that of the master weights. */
static enum ebb_status infer_high(struct ops_infer *i, struct ebb_error *err)
{
    if (i->in[0]->dtype != TENSOR_BF16 || i->in[1]->dtype != TENSOR_F32 ||
        !tensor_same_shape(i->in[0], i->in[1]))
        return ops_wrong(i, err, "BF16 and F32 of one shape are needed");
    i->out[i->out_count++] = *i->in[0];
    return EBB_OK;
}

static void grad_high(struct ops_backward *b)
{
    if (b->needs[1])
        b->gin[1] = b->gout[0];
}

tensor_id ops_master_high(struct tensor_session *s, tensor_id high, tensor_id master)
{
    return ops_emit(s, &rows[ROW_HIGH], NULL, 2, (tensor_id[]){high, master});
}

/* ---- gradients in the place of weights -------------------------------------------------------- */

/* copy (BF16), g (F32) -> g rounded, in the place of the copy */
static enum ebb_status infer_overlay(struct ops_infer *i, struct ebb_error *err)
{
    if (i->in[0]->dtype != TENSOR_BF16 || i->in[1]->dtype != TENSOR_F32 ||
        !tensor_same_shape(i->in[0], i->in[1]) || i->in[0]->block)
        return ops_wrong(i, err, "BF16 and F32 of one shape are needed");
    ops_out(i, TENSOR_BF16, i->in[0]->rank, i->in[0]->dims);
    i->mutates[0] = 1;
    i->flops = (double)tensor_count(i->in[0]);
    i->bytes = 6.0 * (double)tensor_count(i->in[0]); /* what was there is not read */
    return EBB_OK;
}

tensor_id ops_overlay(struct tensor_session *s, tensor_id copy, tensor_id g)
{
    return ops_emit(s, &rows[ROW_OVERLAY], NULL, 2, (tensor_id[]){copy, ops_contiguous(s, g)});
}

/* ---- dropout -------------------------------------------------------------------------------- */

struct dropout_attr {
    uint64_t seed;
    uint32_t instance;
    float p;
};

static enum ebb_status infer_dropout(struct ops_infer *i, struct ebb_error *err)
{
    const struct dropout_attr *a = i->attr;
    if (i->in[0]->dtype != TENSOR_F32 || i->in[1]->dtype != TENSOR_I64 ||
        tensor_count(i->in[1]) != 1)
        return ops_wrong(i, err, "inputs must be F32 and one I64 step number");
    if (!(a->p >= 0.0f && a->p <= 1.0f))
        return ops_wrong(i, err, "p = %g is no probability", (double)a->p);
    ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    i->flops = 20.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

static void describe_dropout(const struct ops_views *v, void *desc)
{
    struct kernel_dropout_desc *d = desc;
    const struct dropout_attr *a = v->attr;
    d->seed = a->seed;
    d->n = tensor_count(v->in[0]);
    d->instance = a->instance;
    d->p = a->p;
}

tensor_id ops_dropout(struct tensor_session *s, tensor_id x, tensor_id step, float p, uint64_t seed,
                      uint32_t instance)
{
    struct dropout_attr attr = {seed, instance, p};
    return ops_emit(s, &rows[ROW_DROPOUT], &attr, 2, (tensor_id[]){x, step});
}

static void grad_dropout(struct ops_backward *b)
{
    if (b->needs[0])
        b->gin[0] = ops_emit(b->session, b->def, b->attr, 2, (tensor_id[]){b->gout[0], b->in[1]});
}

static const struct ops_def rows[ROW_COUNT] = {
    [ROW_UPDATE] = {OPS_IN_PLACE("update", 3, 3 + KERNEL_UPDATE_STATES, infer_update, UPDATE,
                                 describe_update),
                    .attr_bytes = sizeof(struct update_attr)},
    [ROW_SPLIT] = {OPS_IN_PLACE("update_split", 4, 4 + KERNEL_UPDATE_STATES, infer_split,
                                UPDATE_SPLIT, describe_update),
                   .attr_bytes = sizeof(struct update_attr)},
    [ROW_RANGE] = {OPS_IN_PLACE("update_range", 4, 3 + KERNEL_UPDATE_STATES, infer_update, UPDATE,
                                describe_range),
                   .attr_bytes = sizeof(struct range_attr)},
    [ROW_SPLIT_RANGE] = {OPS_IN_PLACE("update_split_range", 5, 4 + KERNEL_UPDATE_STATES,
                                      infer_split, UPDATE_SPLIT, describe_range),
                         .attr_bytes = sizeof(struct range_attr)},
    [ROW_JOIN] = {OPS_PRIMITIVE("master_join", 2, 2, infer_join, MASTER_JOIN, ops_describe_count,
                                ops_grad_none),
                  .is_internal = true},
    [ROW_HIGH] = {OPS_VIEW("master_high", 2, infer_high, grad_high), .is_internal = true},
    [ROW_DROPOUT] = {OPS_PRIMITIVE("dropout", 2, 2, infer_dropout, DROPOUT, describe_dropout,
                                   grad_dropout),
                     .attr_bytes = sizeof(struct dropout_attr), .is_internal = true,
                     .low_rule = OPS_LOW_WHOLE, .low_out = 1},
    [ROW_OVERLAY] = {OPS_IN_PLACE("overlay", 2, 2, infer_overlay, CONVERT, ops_describe_count),
                     .ins = "1"},
};

const struct ops_family ops_update_family = {rows, ROW_COUNT};
