/* product.c - matrix products, linear layers, attention. */
#include <inttypes.h>

#include "ops/internal.h"

enum {
    ROW_MATMUL,
    ROW_LINEAR2,
    ROW_LINEAR,
    ROW_ATTENTION_ROWS,
    ROW_ATTENTION_GRAD,
    ROW_ATTENTION,
    ROW_LINEAR_ADD,
    ROW_MATMUL_ADD,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

/* ---- matmul --------------------------------------------------------------------------------- */

struct matmul_attr {
    int32_t ta, tb;
    int32_t is_wide; /* the result is F32 whatever the inputs are */
    int32_t has_relu;
};

/* dims and strides of an operand in rank `rank`, transposed where asked. A dimension of size 1 gets
 * a stride beyond all others: oneDNN refuses strides that seem to overlap. */
static void operand(const struct tensor_view *v, int rank, bool transpose, int64_t *dims,
                    int64_t *strides)
{
    int shift = rank - v->rank;
    int64_t beyond = 1;
    for (int d = 0; d < rank; d++) {
        int from = d - shift;
        if (transpose && d >= rank - 2)
            from = from == v->rank - 1 ? v->rank - 2 : v->rank - 1;
        dims[d] = from < 0 ? 1 : v->dims[from];
        strides[d] = from < 0 ? 0 : v->strides[from];
        if (dims[d] > 1 && strides[d] * dims[d] > beyond)
            beyond = strides[d] * dims[d];
    }
    for (int d = 0; d < rank; d++)
        if (dims[d] == 1)
            strides[d] = beyond;
    if (dims[rank - 1] == 1 && dims[rank - 2] == 1)
        strides[rank - 1] = 1;
    else if (dims[rank - 1] == 1 && strides[rank - 2] != 1)
        strides[rank - 1] = 1;
    else if (dims[rank - 2] == 1 && strides[rank - 1] != 1)
        strides[rank - 2] = 1;
}

static void describe_product(const struct ops_views *v, void *desc)
{
    const struct matmul_attr *a = v->attr;
    const struct tensor_view *c = v->out;
    struct kernel_matmul *m = desc;
    m->dtype = v->in[0]->dtype;
    m->out_dtype = c->dtype;
    m->rank = c->rank;
    bool adds = v->def->variant != 0; /* in[2], before the bias */
    m->has_bias = v->in_count > 2 + (uint32_t)adds;
    m->adds = v->def->variant == ROW_LINEAR_ADD   ? KERNEL_ADDS_OTHER
              : v->def->variant == ROW_MATMUL_ADD ? KERNEL_ADDS_SUM
                                                  : KERNEL_ADDS_NOTHING;
    m->has_relu = a->has_relu;
    operand(v->in[0], c->rank, a->ta, m->a_dims, m->a_strides);
    operand(v->in[1], c->rank, a->tb, m->b_dims, m->b_strides);
    memcpy(m->c_dims, c->dims, sizeof c->dims);
}

static enum ebb_status infer_product(struct ops_infer *i, struct ebb_error *err)
{
    const struct matmul_attr *attr = i->attr;
    const struct tensor_view *a = i->in[0], *b = i->in[1];
    int64_t dims[TENSOR_RANK];
    int rank;
    if (a->rank < 2 || b->rank < 2)
        return ops_wrong(i, err, "matrices have rank 2 or more");
    if (a->dtype != TENSOR_F32 || b->dtype != TENSOR_F32)
        return ops_wrong(i, err, "matrices must be F32, BF16 or F16");
    int64_t m = a->dims[a->rank - (attr->ta ? 1 : 2)], k = a->dims[a->rank - (attr->ta ? 2 : 1)];
    int64_t k2 = b->dims[b->rank - (attr->tb ? 1 : 2)], n = b->dims[b->rank - (attr->tb ? 2 : 1)];
    if (k != k2)
        return ops_wrong(i, err, "inner sizes %" PRId64 " and %" PRId64 " differ", k, k2);
    if (!ops_broadcast_dims(a, b, 2, &rank, dims))
        return ops_wrong(i, err, "batch dimensions do not broadcast");
    dims[rank - 2] = m;
    dims[rank - 1] = n;
    ops_out(i, TENSOR_F32, rank, dims);
    i->is_wide = attr->is_wide;
    i->flops = 2.0 * (double)tensor_count(&i->out[0]) * (double)k;
    return EBB_OK;
}

/* Strides that oneDNN takes: one of the last two is 1, nothing is repeated by stride 0. */
static tensor_id fit(struct tensor_session *s, tensor_id x)
{
    const struct tensor_view *v = tensor_view_of(s, x);
    if (v->rank < 2)
        return x;
    bool fits = v->strides[v->rank - 1] == 1 || v->strides[v->rank - 2] == 1;
    for (int d = 0; d < v->rank; d++)
        fits = fits && (v->strides[d] > 0 || v->dims[d] == 1);
    /* the other of the last two must step over the first, batches over matrices */
    int64_t extent = 1;
    for (int d = v->rank - 2; fits && d < v->rank; d++)
        extent += (v->dims[d] - 1) * v->strides[d];
    for (int d = 0; fits && d < v->rank - 2; d++)
        fits = v->dims[d] == 1 || v->strides[d] >= extent;
    int64_t p = v->strides[v->rank - 1], q = v->strides[v->rank - 2];
    int64_t np = v->dims[v->rank - 1], nq = v->dims[v->rank - 2];
    fits = fits && (p == 1 ? q >= np || nq == 1 : p >= nq || np == 1);
    return fits ? x : ops_contiguous(s, x);
}

tensor_id ops_matmul(struct tensor_session *s, tensor_id a, tensor_id b, bool ta, bool tb)
{
    struct matmul_attr attr = {.ta = ta, .tb = tb};
    return ops_emit(s, &rows[ROW_MATMUL], &attr, 2, (tensor_id[]){fit(s, a), fit(s, b)});
}

static void grad_matmul(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct matmul_attr *t = b->attr;
    tensor_id g = b->gout[0], p = b->in[0], q = b->in[1], r;
    if (b->needs[0]) {
        r = t->ta ? ops_matmul(s, q, g, t->tb, true) : ops_matmul(s, g, q, false, !t->tb);
        b->gin[0] = ops_reduce_to(s, r, tensor_view_of(s, p));
    }
    if (b->needs[1]) {
        r = t->tb ? ops_matmul(s, g, p, true, t->ta) : ops_matmul(s, p, g, !t->ta, false);
        b->gin[1] = ops_reduce_to(s, r, tensor_view_of(s, q));
    }
}

/* a, b, and the sum so far, which the result may be written over. */
static enum ebb_status infer_matmul_add(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(infer_product(i, err));
    if (i->in[2]->dtype != TENSOR_F32 || !tensor_same_shape(i->in[2], &i->out[0]))
        return ops_wrong(i, err, "what is added must be F32 and have the shape of the result");
    return EBB_OK;
}

static void grad_matmul_add(struct ops_backward *b)
{
    grad_matmul(b);
    b->gin[2] = b->gout[0];
}

static tensor_id build_matmul(struct ops_build *b);

/* ---- linear --------------------------------------------------------------------------------- */

static const struct matmul_attr linear_attr = {.tb = 1};

/* x, w [, bias]; with an addition x, w, what is added [, bias] */
static size_t bias_at(const struct ops_def *def)
{
    return def->variant == ROW_LINEAR_ADD ? 3 : 2;
}

static enum ebb_status infer_linear2(struct ops_infer *i, struct ebb_error *err)
{
    size_t k = bias_at(i->def);
    const struct tensor_view *bias = i->in_count > k ? i->in[k] : NULL;
    if (bias && (bias->dtype != TENSOR_F32 || bias->rank != 1 || i->in[1]->rank != 2 ||
                 bias->dims[0] != i->in[1]->dims[0]))
        return ops_wrong(i, err, "the bias has one F32 number per row of the weights");
    EBB_TRY(infer_product(i, err));
    if (k == 3 && (i->in[2]->dtype != TENSOR_F32 || !tensor_same_shape(i->in[2], &i->out[0])))
        return ops_wrong(i, err, "what is added must have the shape of the result");
    return EBB_OK;
}

/* Asked where the gradient of weights is made: other readers have sent theirs already. */
const struct ops_rewrite ops_sums_rewrite = {"sums", OPS_PASS_SUMS, .is_default = true};

/* g^T x; added to what is there where that is as large and dense. */
static tensor_id weights_grad(struct ops_backward *b, tensor_id g)
{
    struct tensor_session *s = b->session;
    const struct matmul_attr attr = {.ta = 1, .is_wide = 1}; /* weights want it in full */
    tensor_id sum = b->so_far ? b->so_far[1] : TENSOR_NONE;
    const struct tensor_view *v = tensor_view_of(s, sum);
    bool adds = sum.v && ops_has_pass(s, OPS_PASS_SUMS) && v->dtype == TENSOR_F32 &&
                tensor_is_dense(v) && tensor_same_shape(v, tensor_view_of(s, b->in[1]));
    tensor_id in[3] = {fit(s, g), fit(s, b->in[0]), sum};
    if (adds)
        b->has_taken[1] = true;
    return ops_emit(s, &rows[adds ? ROW_MATMUL_ADD : ROW_MATMUL], &attr, adds ? 3 : 2, in);
}

static void grad_linear2(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct matmul_attr *a = b->attr;
    tensor_id g = a->has_relu ? ops_relu_grad(s, b->gout[0], b->out[0]) : b->gout[0];
    size_t bias = bias_at(b->def);
    bool needs_bias = b->in_count > bias && b->needs[bias];
    tensor_id sums = needs_bias ? ops_gelu_grad_sums(s, &g) : TENSOR_NONE;
    if (b->needs[0])
        b->gin[0] = ops_matmul(s, g, b->in[1], false, false);
    if (b->needs[1])
        b->gin[1] = weights_grad(b, g);
    if (needs_bias)
        b->gin[bias] = sums.v ? sums : ops_reduce_dims(s, "sum", g, 1, false);
    if (bias == 3)
        b->gin[2] = g;
}

tensor_id ops_linear(struct tensor_session *s, tensor_id x, tensor_id w, tensor_id bias)
{
    struct tensor_view v = *tensor_view_of(s, x);
    const struct tensor_view *wv = tensor_view_of(s, w);
    if (v.rank < 1 || wv->rank != 2)
        return tensor_fail(s, EBB_EINPUT, "linear: weights must have rank 2, the input at least 1");
    int64_t n = wv->dims[0], k = v.dims[v.rank - 1];
    if (k != wv->dims[1])
        return tensor_fail(s, EBB_EINPUT,
                           "linear: input has %" PRId64 " features, weights %" PRId64, k,
                           wv->dims[1]);
    int64_t flat[2] = {1, k};
    for (int d = 0; d < v.rank - 1; d++)
        flat[0] *= v.dims[d];
    if (bias.v)
        bias = ops_cast(s, bias, TENSOR_F32);
    tensor_id x2 = fit(s, ops_reshape(s, x, 2, flat));
    tensor_id y = ops_emit(s, &rows[ROW_LINEAR2], &linear_attr, bias.v ? 3 : 2,
                           (tensor_id[]){x2, fit(s, w), bias});
    v.dims[v.rank - 1] = n;
    return ops_reshape(s, y, v.rank, v.dims);
}

static bool match_relu(const struct ops_build *b, struct ops_match *m)
{
    m->node = ops_maker(b->s, b->in[0]);
    const struct matmul_attr *a = m->node.attr;
    return m->node.def == &rows[ROW_LINEAR2] && !a->has_relu;
}

static tensor_id replace_relu(const struct ops_build *b, const struct ops_match *m)
{
    const struct tensor_view v = *tensor_view_of(b->s, b->in[0]);
    struct matmul_attr a = *(const struct matmul_attr *)m->node.attr;
    a.has_relu = 1;
    tensor_id y = ops_emit(b->s, &rows[ROW_LINEAR2], &a, m->node.input_count, m->node.inputs);
    return ops_reshape(b->s, y, v.rank, v.dims);
}

const struct ops_rewrite ops_linear_relu_rewrite = {"relu", OPS_PASS_RELU, false,
                                                    "relu", match_relu,    replace_relu};

/* A linear layer whose result the addition alone has read, and something else of its shape and type. */
static bool match_residual(const struct ops_build *b, struct ops_match *m)
{
    for (int k = 1; k >= 0; k--) {
        const struct tensor_view *y = tensor_view_of(b->s, b->in[k]),
                                 *r = tensor_view_of(b->s, b->in[1 - k]);
        m->node = ops_maker(b->s, b->in[k]);
        m->other = b->in[1 - k];
        const struct matmul_attr *a = m->node.attr;
        if (m->node.def == &rows[ROW_LINEAR2] && !a->has_relu && y->dtype == r->dtype &&
            m->other.v != b->in[k].v && tensor_same_shape(y, r) && tensor_is_dense(r) &&
            !r->block && ops_is_unread(b->s, b->in[k]))
            return true;
    }
    return false;
}

static tensor_id replace_residual(const struct ops_build *b, const struct ops_match *m)
{
    const struct tensor_view v = *tensor_view_of(b->s, b->in[0]);
    const struct tensor_view flat = *tensor_view_of(b->s, m->node.first_output);
    tensor_id in[4] = {m->node.inputs[0], m->node.inputs[1],
                       ops_reshape(b->s, m->other, flat.rank, flat.dims)};
    if (m->node.input_count > 2)
        in[3] = m->node.inputs[2];
    tensor_id y = ops_emit(b->s, &rows[ROW_LINEAR_ADD], m->node.attr, m->node.input_count + 1u, in);
    return ops_reshape(b->s, y, v.rank, v.dims);
}

const struct ops_rewrite ops_residual_rewrite = {"residual", OPS_PASS_RESIDUAL, false,
                                                 "add",      match_residual,    replace_residual};

static tensor_id build_linear(struct ops_build *b)
{
    return ops_linear(b->s, b->in[0], b->in[1], ops_given(b, 2));
}

/* ---- attention ------------------------------------------------------------------------------ */

struct attention_attr {
    float scale; /* NaN: 1/sqrt(d) */
    int32_t causal;
};

/* q, k, v [rows, T, d] and the mask [mask_rows, Tq, Tk]; attr of the primitives is the kernel's
 * own. */
static enum ebb_status infer_attention(struct ops_infer *i, struct ebb_error *err)
{
    const struct kernel_attention *a = i->attr;
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    if (i->in_count < 3 &&
        (!a->heads || a->rows % a->heads || tensor_count(i->in[0]) != 3 * a->rows * a->tq * a->d))
        return ops_wrong(i, err, "queries, keys and values are needed, or all three packed");
    if (a->heads)
        ops_out(i, TENSOR_F32, 3, (int64_t[]){a->rows / a->heads, a->tq, a->heads * a->dv});
    else
        ops_out(i, TENSOR_F32, 3, (int64_t[]){a->rows, a->tq, a->dv});
    ops_out(i, TENSOR_F32, 2, (int64_t[]){a->rows, a->tq});
    i->flops = 2.0 * (double)a->rows * (double)a->tq * (double)a->tk * (double)(a->d + a->dv);
    return EBB_OK;
}

static void describe_attention(const struct ops_views *v, void *desc)
{
    memcpy(desc, v->attr, sizeof(struct kernel_attention));
}

/* q, k, v, o, lse, dO [, mask] -> dq, dk, dv; packed: x, o, lse, dO -> dx */
static enum ebb_status infer_attention_grad(struct ops_infer *i, struct ebb_error *err)
{
    const struct kernel_attention *a = i->attr;
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    for (int k = 0; k < (a->heads ? 1 : 3); k++)
        ops_out(i, TENSOR_F32, 3, i->in[k]->dims);
    i->flops = 5.0 * (double)a->rows * (double)a->tq * (double)a->tk * (double)(a->d + a->dv);
    return EBB_OK;
}

/* 0 where a causal attention looks, far below everything where it must not: [tq, tk], counted by
 * running sums. */
static tensor_id unseen(struct tensor_session *s, const struct kernel_attention *a)
{
    tensor_id one = ops_full(s, 2, (int64_t[]){a->tq, a->tk}, 1.0f);
    tensor_id ahead = ops_sub(s, ops_cumsum(s, one, 1), ops_cumsum(s, one, 0));
    ahead = ops_add_scalar(s, ahead, (float)(a->tq - a->tk));
    return ops_mul_scalar(s, ops_clamp(s, ahead, 0.0f, 1.0f), -1e30f);
}

/* dS = P (dP - sum(P dP)), summed over the rows that share a row of the mask. Written with ops, as
 * whole matrices: masks that learn are small. */
static tensor_id mask_grad(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct kernel_attention *a = b->attr;
    int64_t many[4] = {a->mask_rows, a->mask_period, a->tq, a->tk};
    int64_t some[4] = {a->mask_rows, 1, a->tq, a->tk};
    tensor_id x = ops_mul_scalar(s, ops_matmul(s, b->in[0], b->in[1], false, true), a->scale);
    x = ops_add(s, ops_reshape(s, x, 4, many), ops_reshape(s, b->in[3], 4, some));
    tensor_id p = ops_softmax(s, a->is_causal ? ops_add(s, x, unseen(s, a)) : x, 3);
    tensor_id dp = ops_reshape(s, ops_matmul(s, b->gout[0], b->in[2], false, true), 4, many);
    tensor_id dot = ops_reduce_dims(s, "sum", ops_mul(s, p, dp), 8, true);
    return ops_reduce_dims(s, "sum", ops_mul(s, p, ops_sub(s, dp, dot)), 2, false);
}

static void grad_packed(struct ops_backward *b)
{
    tensor_id in[4] = {b->in[0], b->out[0], b->out[1], b->gout[0]};
    b->gin[0] = ops_emit(b->session, &rows[ROW_ATTENTION_GRAD], b->attr, 4, in);
}

static void grad_attention(struct ops_backward *b)
{
    const struct kernel_attention *a = b->attr;
    tensor_id in[7] = {b->in[0], b->in[1], b->in[2], b->out[0], b->out[1], b->gout[0]};
    if (!b->gout[0].v)
        return;
    if (b->gout[1].v) {
        tensor_fail(b->session, EBB_EUNSUPPORTED, "attention: has no second derivative");
        return;
    }
    if (a->heads) {
        grad_packed(b);
        return;
    }
    if (b->in_count > 3 && b->needs[3])
        b->gin[3] = mask_grad(b);
    if (b->in_count > 3)
        in[6] = b->in[3];
    tensor_id first =
        ops_emit(b->session, &rows[ROW_ATTENTION_GRAD], b->attr, b->in_count > 3 ? 7 : 6, in);
    for (uint32_t k = 0; k < 3; k++)
        b->gin[k] = ops_output(first, k);
}

/* Reshapes leading dimensions to rows; a mask that repeats over trailing leading dimensions stays
 * small. */
static tensor_id flat_mask(struct tensor_session *s, tensor_id mask, const struct tensor_view *q,
                           struct kernel_attention *a)
{
    struct tensor_view v = *tensor_view_of(s, mask), full = *q;
    int lead = q->rank - 2, shift = q->rank - v.rank, split = lead;
    full.dims[q->rank - 2] = a->tq;
    full.dims[q->rank - 1] = a->tk;
    if (v.rank < 2 || v.dims[v.rank - 2] != a->tq || v.dims[v.rank - 1] != a->tk || shift < 0)
        mask = ops_expand_to(s, mask, &full), v = *tensor_view_of(s, mask), shift = 0;
    while (split > 0 && (split - 1 < shift || v.dims[split - 1 - shift] == 1))
        split--;
    bool is_prefix = true;
    for (int d = 0; d < split; d++)
        is_prefix = is_prefix && d >= shift && v.dims[d - shift] == q->dims[d];
    if (!is_prefix)
        mask = ops_expand_to(s, mask, &full), split = lead;
    a->mask_rows = 1;
    a->mask_period = 1;
    for (int d = 0; d < lead; d++)
        if (d < split)
            a->mask_rows = (int32_t)(a->mask_rows * q->dims[d]);
        else
            a->mask_period *= q->dims[d];
    return ops_reshape(s, mask, 3, (int64_t[]){a->mask_rows, a->tq, a->tk});
}

/* Leading dimensions of q, k and v broadcast: all three get those of the product. */
static bool same_lead(struct tensor_session *s, tensor_id *parts)
{
    struct tensor_view lead = *tensor_view_of(s, parts[0]);
    for (int p = 1; p < 3; p++) {
        const struct tensor_view *v = tensor_view_of(s, parts[p]);
        struct tensor_view wide = v->rank > lead.rank ? *v : lead;
        int rank;
        if (!ops_broadcast_dims(v, &lead, 2, &rank, wide.dims))
            return false;
        lead = wide;
    }
    for (int p = 0; p < 3; p++) {
        struct tensor_view v = *tensor_view_of(s, parts[p]);
        if (v.rank < 2)
            return false;
        lead.dims[lead.rank - 2] = v.dims[v.rank - 2];
        lead.dims[lead.rank - 1] = v.dims[v.rank - 1];
        if (!tensor_same_shape(&lead, &v))
            parts[p] = ops_expand_to(s, parts[p], &lead);
    }
    return true;
}

static tensor_id build_attention(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct attention_attr *t = b->attr;
    tensor_id given[3] = {b->in[0], b->in[1], b->in[2]};
    struct kernel_attention a;
    bool fits = same_lead(s, given);
    struct tensor_view q = *tensor_view_of(s, given[0]);
    const struct tensor_view *k = tensor_view_of(s, given[1]), *v = tensor_view_of(s, given[2]);
    if (!fits || q.dims[q.rank - 1] != k->dims[k->rank - 1] ||
        k->dims[k->rank - 2] != v->dims[v->rank - 2])
        return tensor_fail(s, EBB_EINPUT, "attention: shapes of q, k and v do not fit");
    memset(&a, 0, sizeof a);
    a.rows = 1;
    for (int d = 0; d < q.rank - 2; d++)
        a.rows *= q.dims[d];
    a.tq = q.dims[q.rank - 2];
    a.d = q.dims[q.rank - 1];
    a.tk = k->dims[k->rank - 2];
    a.dv = v->dims[v->rank - 1];
    a.scale = isnan(t->scale) ? (float)(1.0 / sqrt((double)a.d)) : t->scale;
    a.is_causal = t->causal;
    tensor_id parts[4] = {ops_reshape(s, given[0], 3, (int64_t[]){a.rows, a.tq, a.d}),
                          ops_reshape(s, given[1], 3, (int64_t[]){a.rows, a.tk, a.d}),
                          ops_reshape(s, given[2], 3, (int64_t[]){a.rows, a.tk, a.dv})};
    if (b->in_count > 3)
        parts[3] = flat_mask(s, b->in[3], &q, &a);
    q.dims[q.rank - 1] = a.dv;
    return ops_reshape(s, ops_emit(s, &rows[ROW_ATTENTION_ROWS], &a, b->in_count, parts), q.rank,
                       q.dims);
}

/* The parts of one projection, [B, T, 3, H, d] permuted and copied: then it serves as it lies. */
static bool match_packed(const struct ops_build *b, struct ops_match *m)
{
    const struct tensor_session *s = b->s;
    tensor_id copy = TENSOR_NONE;
    if (b->in_count != 3)
        return false;
    for (uint32_t k = 0; k < 3; k++) {
        tensor_id part = b->in[k];
        struct tensor_node n = tensor_node_at(s, tensor_producer(s, part));
        while (n.def && strcmp(ops_name(n.def), "reshape") == 0) {
            part = n.inputs[0];
            n = tensor_node_at(s, tensor_producer(s, part));
        }
        if (!n.def || strcmp(ops_name(n.def), "split") != 0 || part.v != n.first_output.v + k ||
            (k > 0 && n.inputs[0].v != copy.v))
            return false;
        copy = n.inputs[0];
    }
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, copy));
    if (!n.def || strcmp(ops_name(n.def), "copy") != 0)
        return false;
    m->node = tensor_node_at(s, tensor_producer(s, n.inputs[0]));
    if (!m->node.def || strcmp(ops_name(m->node.def), "permute") != 0)
        return false;
    const struct tensor_view *x = tensor_view_of(s, m->node.inputs[0]),
                             *q = tensor_view_of(s, b->in[0]), *p = tensor_view_of(s, n.inputs[0]);
    return x->rank == 5 && tensor_is_dense(x) && !x->block && x->dims[2] == 3 && q->rank == 4 &&
           q->dims[0] == x->dims[0] && q->dims[1] == x->dims[3] && q->dims[2] == x->dims[1] &&
           q->dims[3] == x->dims[4] && p->strides[0] == x->strides[2] &&
           p->strides[1] == x->strides[0] && p->strides[2] == x->strides[3] &&
           p->strides[3] == x->strides[1];
}

static tensor_id replace_packed(const struct ops_build *b, const struct ops_match *m)
{
    struct tensor_session *s = b->s;
    const struct attention_attr *t = b->attr;
    struct tensor_view x = *tensor_view_of(s, m->node.inputs[0]);
    int64_t n = x.dims[0], tokens = x.dims[1], heads = x.dims[3], d = x.dims[4];
    struct kernel_attention a;
    memset(&a, 0, sizeof a);
    a.rows = n * heads;
    a.tq = a.tk = tokens;
    a.d = a.dv = d;
    a.scale = isnan(t->scale) ? (float)(1.0 / sqrt((double)d)) : t->scale;
    a.is_causal = t->causal;
    a.heads = (int32_t)heads;
    tensor_id packed = ops_reshape(s, m->node.inputs[0], 3, (int64_t[]){n, tokens, 3 * heads * d});
    tensor_id y = ops_emit(s, &rows[ROW_ATTENTION_ROWS], &a, 1, &packed);
    return ops_transpose(s, ops_reshape(s, y, 4, (int64_t[]){n, tokens, heads, d}), 1, 2);
}

const struct ops_rewrite ops_packed_rewrite = {"packed",    OPS_PASS_PACKED, false,
                                               "attention", match_packed,    replace_packed};

/* ---- rows ----------------------------------------------------------------------------------- */

static const struct ops_field matmul_fields[] = {
    OPS_FIELD(matmul_attr, ta, OPS_BOOL), OPS_FIELD(matmul_attr, tb, OPS_BOOL), {0}};
static const struct ops_field attention_fields[] = {
    OPS_FIELD(attention_attr, causal, OPS_BOOL), OPS_FIELD(attention_attr, scale, OPS_FLOAT), {0}};
static const struct attention_attr attention_default = {.scale = NAN};

static const struct ops_def rows[ROW_COUNT] = {
    [ROW_MATMUL] = {OPS_PRIMITIVE("matmul", 2, 2, infer_product, MATMUL, describe_product,
                                  grad_matmul),
                    OPS_ATTR(struct matmul_attr, matmul_fields, NULL), .low_rule = OPS_LOW_WHOLE,
                    .low_out = 1, .strided = 3, .build = build_matmul},
    [ROW_LINEAR2] = {OPS_PRIMITIVE("linear2", 2, 3, infer_linear2, MATMUL, describe_product,
                                   grad_linear2),
                     OPS_ATTR(struct matmul_attr, NULL, NULL), .low_rule = OPS_LOW_WHOLE,
                     .low_out = 1, .strided = 3, .is_internal = true},
    [ROW_LINEAR] = {OPS_COMPOSITE("linear", 2, 3, build_linear)},
    [ROW_ATTENTION_ROWS] = {OPS_PRIMITIVE("attention_rows", 1, 4, infer_attention, ATTENTION,
                                          describe_attention, grad_attention),
                            .attr_bytes = sizeof(struct kernel_attention), .is_internal = true,
                            .low_rule = OPS_LOW_WHOLE, .low_out = 1},
    [ROW_ATTENTION_GRAD] = {OPS_PRIMITIVE("attention_grad", 4, 7, infer_attention_grad,
                                          ATTENTION_GRAD, describe_attention, NULL),
                            .attr_bytes = sizeof(struct kernel_attention), .is_internal = true,
                            .low_rule = OPS_LOW_WHOLE, .low_out = 7},
    [ROW_ATTENTION] = {OPS_COMPOSITE("attention", 3, 4, build_attention),
                       OPS_ATTR(struct attention_attr, attention_fields, &attention_default)},
    [ROW_LINEAR_ADD] = {OPS_PRIMITIVE("linear_add", 3, 4, infer_linear2, MATMUL, describe_product,
                                      grad_linear2),
                        OPS_ATTR(struct matmul_attr, NULL, NULL), .low_rule = OPS_LOW_WHOLE,
                        .variant = ROW_LINEAR_ADD, .ins = "0132", .low_out = 1, .strided = 3,
                        .is_internal = true},
    [ROW_MATMUL_ADD] = {OPS_PRIMITIVE("matmul_add", 3, 3, infer_matmul_add, MATMUL,
                                      describe_product, grad_matmul_add),
                        OPS_ATTR(struct matmul_attr, NULL, NULL), .low_rule = OPS_LOW_WHOLE,
                        .variant = ROW_MATMUL_ADD, .ins = "01-2", .low_out = 1, .strided = 3,
                        .overwrites = 3, .is_over = true, .is_chain = true, .is_internal = true},
};

bool ops_is_product(const struct tensor_node *n)
{
    const struct matmul_attr *a = n->attr;
    if (n->def == &rows[ROW_LINEAR2])
        return n->input_count == 2 && !a->has_relu;
    return n->def == &rows[ROW_MATMUL] && !a->ta && a->tb && !a->is_wide;
}

/* From a file: strides fitted first, then the primitive of the same row. A vector on the left is a
 * row, on the right a column; that dimension is gone from the result. */
static tensor_id build_matmul(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct matmul_attr *a = b->attr;
    const struct tensor_view p = *tensor_view_of(s, b->in[0]), q = *tensor_view_of(s, b->in[1]);
    bool is_row = p.rank == 1 && !a->ta, is_column = q.rank == 1 && !a->tb;
    tensor_id x = is_row ? ops_reshape(s, b->in[0], 2, (int64_t[]){1, p.dims[0]}) : b->in[0];
    tensor_id y = is_column ? ops_reshape(s, b->in[1], 2, (int64_t[]){q.dims[0], 1}) : b->in[1];
    tensor_id z = ops_matmul(s, x, y, a->ta, a->tb);
    if (!z.v || (!is_row && !is_column))
        return z;
    struct tensor_view v = *tensor_view_of(s, z);
    int rank = v.rank - 1;
    if (is_row && !is_column)
        v.dims[rank - 1] = v.dims[rank];
    return ops_reshape(s, z, rank - (is_row && is_column), v.dims);
}

const struct ops_family ops_product_family = {rows, ROW_COUNT};
