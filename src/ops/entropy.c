/* entropy.c - cross entropy of a product: loss(x W^T) without the logits as a whole (the kernel makes
 * them block by block). Costs one product more than keeping the logits; saves their bytes twice. */
#include "ops/internal.h"

enum { ROW_FORWARD, ROW_GRAD, ROW_STEP, ROW_COUNT };

static const struct ops_def rows[ROW_COUNT];

static enum ebb_status want_sizes(const struct ops_infer *i, size_t first, struct ebb_error *err)
{
    const struct tensor_view *x = i->in[first], *w = i->in[first + 1], *t = i->in[first + 2];
    if (x->dtype != TENSOR_F32 || w->dtype != TENSOR_F32 || t->dtype != TENSOR_I64 ||
        x->rank != 2 || w->rank != 2 || t->rank != 1 || x->dims[1] != w->dims[1] ||
        t->dims[0] != x->dims[0] || x->dims[0] < 1 || x->dims[1] < 1 || w->dims[0] < 1)
        return ops_wrong(i, err, "x [n, k], weights [classes, k], targets I64 [n] are needed");
    return EBB_OK;
}

/* x, W, target -> loss, lse */
static enum ebb_status infer_forward(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(want_sizes(i, 0, err));
    ops_out(i, TENSOR_F32, 0, NULL);
    ops_out(i, TENSOR_F32, 1, i->in[0]->dims);
    i->flops = 2.0 * (double)tensor_count(i->in[0]) * (double)i->in[1]->dims[0];
    return EBB_OK;
}

/* dy, x, W, target, lse -> dx, dW */
static enum ebb_status infer_grad(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(want_sizes(i, 1, err));
    ops_out(i, TENSOR_F32, 2, i->in[1]->dims);
    ops_out(i, TENSOR_F32, 2, i->in[2]->dims);
    i->flops = 6.0 * (double)tensor_count(i->in[1]) * (double)i->in[2]->dims[0];
    return EBB_OK;
}

/* x, W, target -> loss, dx, dW */
static enum ebb_status infer_step(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(want_sizes(i, 0, err));
    ops_out(i, TENSOR_F32, 0, NULL);
    ops_out(i, TENSOR_F32, 2, i->in[0]->dims);
    ops_out(i, TENSOR_F32, 2, i->in[1]->dims);
    i->flops = 6.0 * (double)tensor_count(i->in[0]) * (double)i->in[1]->dims[0];
    return EBB_OK;
}

static void describe(const struct ops_views *v, void *desc)
{
    const struct ops_entropy *a = v->attr;
    const struct tensor_view *const *in = v->in + (v->def == &rows[ROW_GRAD]);
    struct kernel_product_entropy_desc *d = desc;
    d->n = in[0]->dims[0];
    d->k = in[0]->dims[1];
    d->classes = in[1]->dims[0];
    d->ignore_index = a->ignore_index;
    d->reduction = a->reduction;
}

static void grad_forward(struct ops_backward *b)
{
    if (!b->gout[0].v)
        return;
    tensor_id first = ops_emit(b->session, &rows[ROW_GRAD], b->attr, 5,
                               (tensor_id[]){b->gout[0], b->in[0], b->in[1], b->in[2], b->out[1]});
    b->gin[0] = first;
    b->gin[1] = ops_output(first, 1);
}

/* What was made for an incoming gradient of 1, times what comes in where that is not known to be 1. */
static void grad_step(struct ops_backward *b)
{
    if (!b->gout[0].v)
        return;
    for (uint32_t k = 0; k < 2; k++) {
        enum tensor_dtype dtype =
            (enum tensor_dtype)tensor_view_of(b->session, b->out[1 + k])->dtype;
        b->gin[k] = b->out[1 + k];
        if (!ops_is_ones(b->session, b->gout[0]))
            b->gin[k] = ops_cast(b->session, ops_mul(b->session, b->gin[k], b->gout[0]), dtype);
    }
}

/* The mean or the sum of the cross entropy of rows that are a product x W^T, each for itself. */
static bool match(const struct ops_build *b, struct ops_match *m)
{
    const struct ops_entropy *a = b->attr;
    const struct tensor_view *v = tensor_view_of(b->s, b->in[0]);
    if (b->in_count != 2 || a->label_smoothing != 0.0f || v->rank != 2 ||
        a->reduction == KERNEL_REDUCE_NONE)
        return false;
    m->node = ops_maker(b->s, b->in[0]);
    if (m->node.def && strcmp(ops_name(m->node.def), "cast") == 0) /* losses are float32 anyway */
        m->node = ops_maker(b->s, m->node.inputs[0]);
    if (!m->node.def || !ops_is_product(&m->node))
        return false;
    const struct tensor_view *x = tensor_view_of(b->s, m->node.inputs[0]),
                             *w = tensor_view_of(b->s, m->node.inputs[1]);
    return x->rank == 2 && w->rank == 2 && x->dims[0] == v->dims[0] && w->dims[0] == v->dims[1] &&
           x->dtype == w->dtype;
}

static tensor_id replace(const struct ops_build *b, const struct ops_match *m)
{
    return ops_emit(b->s, &rows[ROW_FORWARD], b->attr, 3,
                    (tensor_id[]){m->node.inputs[0], m->node.inputs[1], b->in[1]});
}

const struct ops_rewrite ops_entropy_rewrite = {"entropy", OPS_PASS_ENTROPY, false, "cross_entropy",
                                                match,     replace};

static tensor_id replace_step(const struct ops_build *b, const struct ops_match *m)
{
    return ops_emit(b->s, &rows[ROW_STEP], b->attr, 3,
                    (tensor_id[]){m->node.inputs[0], m->node.inputs[1], b->in[1]});
}

const struct ops_rewrite ops_head_rewrite = {"head",          OPS_PASS_HEAD, false,
                                             "cross_entropy", match,         replace_step};

#define ENTROPY(id, text, ins, infer_, family_, grad_, low_out_)                                   \
    [id] = {OPS_PRIMITIVE(text, ins, ins, infer_, family_, describe, grad_),                       \
            .attr_bytes = sizeof(struct ops_entropy), .is_internal = true,                         \
            .low_rule = OPS_LOW_WHOLE, .low_out = low_out_}

static const struct ops_def rows[ROW_COUNT] = {
    ENTROPY(ROW_FORWARD, "product_entropy", 3, infer_forward, PRODUCT_ENTROPY, grad_forward, 0),
    ENTROPY(ROW_GRAD, "product_entropy_grad", 5, infer_grad, PRODUCT_ENTROPY_GRAD, NULL, 1),
    ENTROPY(ROW_STEP, "product_entropy_step", 3, infer_step, PRODUCT_ENTROPY_STEP, grad_step, 2),
};

const struct ops_family ops_entropy_family = {rows, ROW_COUNT};
