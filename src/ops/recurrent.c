/* recurrent.c - LSTM and GRU: two products per step and one fused gate op, so that the planner sees
 * every step. Products with the inputs of all steps are one. */
#include "ops/internal.h"

enum {
    ROW_LSTM_GATES,
    ROW_LSTM_GATES_GRAD,
    ROW_GRU_GATES,
    ROW_GRU_GATES_GRAD,
    ROW_LSTM_CELL,
    ROW_GRU_CELL,
    ROW_LSTM,
    ROW_GRU,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

/* ---- gates ---------------------------------------------------------------------------------- */

/* gates a, gates b [rows, 4h], c [rows, h] -> h', c', activated gates
 * a, b [rows, 3h], h [rows, h] -> h', activated gates */
static enum ebb_status infer_gates(struct ops_infer *i, struct ebb_error *err)
{
    const struct tensor_view *a = i->in[0], *state = i->in[2];
    bool is_lstm = i->def->variant == ROW_LSTM_GATES;
    int gates = is_lstm ? 4 : 3;
    EBB_TRY(ops_want_f32(i, 7, err));
    if (state->rank != 2 || a->rank != 2 || !tensor_same_shape(a, i->in[1]) ||
        a->dims[0] != state->dims[0] || a->dims[1] != gates * state->dims[1])
        return ops_wrong(i, err, "gates must be [rows, %dh] for a state [rows, h]", gates);
    ops_out(i, TENSOR_F32, 2, state->dims);
    if (is_lstm)
        ops_out(i, TENSOR_F32, 2, state->dims);
    ops_out(i, TENSOR_F32, 2, a->dims);
    i->flops = 30.0 * (double)tensor_count(a);
    return EBB_OK;
}

/* Of the state, one of the inputs. */
static void describe_gates(const struct ops_views *v, void *desc)
{
    struct kernel_gates_desc *d = desc;
    const struct tensor_view *state = v->in[v->def->variant == ROW_LSTM_GATES_GRAD ? 1 : 2];
    d->rows = state->dims[0];
    d->h = state->dims[1];
}

/* act, c, c', dh, dc' -> dgates, dc */
static enum ebb_status infer_lstm_grad(struct ops_infer *i, struct ebb_error *err)
{
    (void)err;
    ops_out(i, TENSOR_F32, 2, i->in[0]->dims);
    ops_out(i, TENSOR_F32, 2, i->in[1]->dims);
    i->flops = 20.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

static void grad_lstm(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct tensor_view v = *tensor_view_of(s, b->in[2]);
    tensor_id dh = b->gout[0], dc = b->gout[1];
    if (!dh.v && !dc.v)
        return;
    if (!dh.v)
        dh = ops_full(s, v.rank, v.dims, 0.0f);
    if (!dc.v)
        dc = ops_full(s, v.rank, v.dims, 0.0f);
    tensor_id first = ops_emit(s, &rows[ROW_LSTM_GATES_GRAD], NULL, 5,
                               (tensor_id[]){b->out[2], b->in[2], b->out[1], dh, dc});
    b->gin[0] = b->gin[1] = first;
    b->gin[2] = ops_output(first, 1);
}

/* act, b, h, dh' -> da, db, dh */
static enum ebb_status infer_gru_grad(struct ops_infer *i, struct ebb_error *err)
{
    (void)err;
    ops_out(i, TENSOR_F32, 2, i->in[0]->dims);
    ops_out(i, TENSOR_F32, 2, i->in[0]->dims);
    ops_out(i, TENSOR_F32, 2, i->in[2]->dims);
    i->flops = 20.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

static void grad_gru(struct ops_backward *b)
{
    if (!b->gout[0].v)
        return;
    tensor_id first = ops_emit(b->session, &rows[ROW_GRU_GATES_GRAD], NULL, 4,
                               (tensor_id[]){b->out[1], b->in[1], b->in[2], b->gout[0]});
    for (uint32_t k = 0; k < 3; k++)
        b->gin[k] = ops_output(first, k);
}

/* ---- cells and sequences -------------------------------------------------------------------- */

struct cell {
    tensor_id wi, wh, bi, bh;
};

static struct cell make_cell(const tensor_id *in, size_t in_count, size_t first)
{
    struct cell c = {in[first], in[first + 1], TENSOR_NONE, TENSOR_NONE};
    if (in_count > first + 3) {
        c.bi = in[first + 2];
        c.bh = in[first + 3];
    }
    return c;
}

static tensor_id lstm_step(struct tensor_session *s, const struct cell *w, tensor_id gates,
                           tensor_id h, tensor_id c)
{
    return ops_emit(s, &rows[ROW_LSTM_GATES], NULL, 3,
                    (tensor_id[]){gates, ops_linear(s, h, w->wh, w->bh), c});
}

static tensor_id gru_step(struct tensor_session *s, const struct cell *w, tensor_id gates,
                          tensor_id h)
{
    return ops_emit(s, &rows[ROW_GRU_GATES], NULL, 3,
                    (tensor_id[]){gates, ops_linear(s, h, w->wh, w->bh), h});
}

static tensor_id build_lstm_cell(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    struct cell w = make_cell(b->in, b->in_count, 3);
    tensor_id h = lstm_step(s, &w, ops_linear(s, b->in[0], w.wi, w.bi), b->in[1], b->in[2]);
    b->out[1] = ops_output(h, 1);
    b->out_count = 2;
    return h;
}

static tensor_id build_gru_cell(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    struct cell w = make_cell(b->in, b->in_count, 2);
    return gru_step(s, &w, ops_linear(s, b->in[0], w.wi, w.bi), b->in[1]);
}

/* Joins any number of step outputs [rows, h] to [T, rows, h], TENSOR_PORTS at a time. */
static tensor_id join(struct tensor_session *s, tensor_id *steps, size_t count)
{
    while (count > 1) {
        size_t n = 0;
        for (size_t i = 0; i < count; i += TENSOR_PORTS)
            steps[n++] =
                ops_cat(s, steps + i, count - i < TENSOR_PORTS ? count - i : TENSOR_PORTS, 0);
        count = n;
    }
    return steps[0];
}

#define MAX_STEPS 4096

/* x [T, rows, in], h0 (and c0) [1, rows, h] -> y [T, rows, h], hn (and cn) [1, rows, h] */
static tensor_id build_sequence(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    bool is_lstm = b->def->variant == ROW_LSTM;
    struct cell w = make_cell(b->in, b->in_count, is_lstm ? 3 : 2);
    const struct tensor_view x = *tensor_view_of(s, b->in[0]), h0 = *tensor_view_of(s, b->in[1]);
    tensor_id steps[MAX_STEPS], h, c = TENSOR_NONE;
    if (x.rank != 3 || h0.rank != 3 || h0.dims[0] != 1 || h0.dims[1] != x.dims[1] ||
        x.dims[0] < 1 || x.dims[0] > MAX_STEPS)
        return tensor_fail(s, EBB_EINPUT,
                           "%s: x must be [T, rows, in] with T <= %d, states [1, rows, h]",
                           b->def->name, MAX_STEPS);
    int64_t rows_count = x.dims[1], hidden = h0.dims[2], one[3] = {1, rows_count, hidden};
    tensor_id gates = ops_linear(s, b->in[0], w.wi, w.bi);
    h = ops_reshape(s, b->in[1], 2, one + 1);
    if (is_lstm)
        c = ops_reshape(s, b->in[2], 2, one + 1);
    int64_t flat[2] = {rows_count, hidden * (is_lstm ? 4 : 3)};
    for (int64_t t = 0; t < x.dims[0]; t++) {
        tensor_id g = ops_reshape(s, ops_slice_dim(s, gates, 0, t, t + 1, 1), 2, flat);
        tensor_id first = is_lstm ? lstm_step(s, &w, g, h, c) : gru_step(s, &w, g, h);
        h = first;
        if (is_lstm)
            c = ops_output(first, 1);
        steps[t] = ops_reshape(s, h, 3, one);
    }
    tensor_id y = join(s, steps, (size_t)x.dims[0]);
    b->out[1] = ops_reshape(s, h, 3, one);
    if (is_lstm)
        b->out[2] = ops_reshape(s, c, 3, one);
    b->out_count = is_lstm ? 3 : 2;
    return y;
}

static const struct ops_def rows[ROW_COUNT] = {
    [ROW_LSTM_GATES] = {OPS_PRIMITIVE("lstm_gates", 3, 3, infer_gates, LSTM, describe_gates,
                                      grad_lstm),
                        .variant = ROW_LSTM_GATES, .is_internal = true, .low_rule = OPS_LOW_WHOLE,
                        .low_out = 1},
    [ROW_LSTM_GATES_GRAD] = {OPS_PRIMITIVE("lstm_gates_grad", 5, 5, infer_lstm_grad, LSTM_GRAD,
                                           describe_gates, NULL),
                             .variant = ROW_LSTM_GATES_GRAD, .is_internal = true,
                             .low_rule = OPS_LOW_WHOLE, .low_out = 1},
    [ROW_GRU_GATES] = {OPS_PRIMITIVE("gru_gates", 3, 3, infer_gates, GRU, describe_gates, grad_gru),
                       .variant = ROW_GRU_GATES, .is_internal = true, .low_rule = OPS_LOW_WHOLE,
                       .low_out = 1},
    [ROW_GRU_GATES_GRAD] = {OPS_PRIMITIVE("gru_gates_grad", 4, 4, infer_gru_grad, GRU_GRAD,
                                          describe_gates, NULL),
                            .is_internal = true, .low_rule = OPS_LOW_WHOLE, .low_out = 7},
    [ROW_LSTM_CELL] = {OPS_COMPOSITE("lstm_cell", 5, 7, build_lstm_cell)},
    [ROW_GRU_CELL] = {OPS_COMPOSITE("gru_cell", 4, 6, build_gru_cell)},
    [ROW_LSTM] = {OPS_COMPOSITE("lstm", 5, 7, build_sequence), .variant = ROW_LSTM},
    [ROW_GRU] = {OPS_COMPOSITE("gru", 4, 6, build_sequence), .variant = ROW_GRU},
};

const struct ops_family ops_recurrent_family = {rows, ROW_COUNT};
