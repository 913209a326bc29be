/* recurrent.c - LSTM, GRU and RNN with the standard activations. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "onnx/internal.h"

enum { K_RNN, K_GRU, K_LSTM };

struct cell {
    int kind, gates;
    int64_t steps, batch, in, hidden, directions;
    bool resets_after;     /* GRU: linear_before_reset */
    const double *x;       /* [steps, batch, in] */
    const double *w, *r;   /* of the direction: [gates * hidden, in], [gates * hidden, hidden] */
    const double *wb, *rb; /* [gates * hidden], or NULL */
    const double *p;       /* peepholes [3 * hidden], or NULL */
};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Gate g of unit k, before its function; `with` also the recurrent part. */
static double gate(const struct cell *v, int g, int64_t k, const double *x, const double *h)
{
    int64_t row = g * v->hidden + k;
    double sum = dot(v->w + row * v->in, x, v->in) + (v->wb ? v->wb[row] : 0);
    return h ? sum + dot(v->r + row * v->hidden, h, v->hidden) + (v->rb ? v->rb[row] : 0) : sum;
}

static void step_lstm(const struct cell *v, const double *x, const double *h, const double *c,
                      double *h_new, double *c_new)
{
    for (int64_t k = 0; k < v->hidden; k++) {
        double i = gate(v, 0, k, x, h), o = gate(v, 1, k, x, h), f = gate(v, 2, k, x, h);
        double g = tanh(gate(v, 3, k, x, h));
        if (v->p) {
            i += v->p[k] * c[k];
            f += v->p[2 * v->hidden + k] * c[k];
        }
        c_new[k] = sigmoid(f) * c[k] + sigmoid(i) * g;
        if (v->p)
            o += v->p[v->hidden + k] * c_new[k];
        h_new[k] = sigmoid(o) * tanh(c_new[k]);
    }
}

static void step_gru(const struct cell *v, const double *x, const double *h, double *reset,
                     double *h_new)
{
    for (int64_t k = 0; k < v->hidden; k++)
        reset[k] = sigmoid(gate(v, 1, k, x, h)) * (v->resets_after ? 1 : h[k]);
    for (int64_t k = 0; k < v->hidden; k++) {
        double z = sigmoid(gate(v, 0, k, x, h));
        double own = gate(v, 2, k, x, NULL);
        int64_t row = 2 * v->hidden + k;
        double back = dot(v->r + row * v->hidden, v->resets_after ? h : reset, v->hidden) +
                      (v->rb ? v->rb[row] : 0);
        double n = tanh(own + (v->resets_after ? reset[k] * back : back));
        h_new[k] = (1 - z) * n + z * h[k];
    }
}

static void step(const struct cell *v, const double *x, double *h, double *c, double *scratch)
{
    double *h_new = scratch, *c_new = scratch + v->hidden;
    size_t bytes = (size_t)v->hidden * sizeof *h;
    if (v->kind == K_LSTM)
        step_lstm(v, x, h, c, h_new, c_new);
    else if (v->kind == K_GRU)
        step_gru(v, x, h, c_new, h_new);
    else
        for (int64_t k = 0; k < v->hidden; k++)
            h_new[k] = tanh(gate(v, 0, k, x, h));
    memcpy(h, h_new, bytes);
    if (v->kind == K_LSTM)
        memcpy(c, c_new, bytes);
}

/* Inputs: X, W, R, B, sequence_lens, initial_h, initial_c, P. */
static enum ebb_status check(struct onnx_call *c, struct cell *v)
{
    const struct onnx_value *x = &c->in[0], *w = &c->in[1], *r = &c->in[2];
    const char *direction = onnx_attr_text(c->node, "direction", "forward");
    v->kind = c->variant;
    v->gates = c->variant == K_LSTM ? 4 : c->variant == K_GRU ? 3 : 1;
    if (onnx_attr_find(c->node, "activations") || onnx_attr_find(c->node, "clip") ||
        onnx_attr_int(c->node, "input_forget", 0))
        return onnx_not_here(c, "activations, clip or input_forget");
    if (x->rank != 3 || w->rank != 3 || r->rank != 3 || w->dims[1] % v->gates)
        return onnx_no(c, "X, W and R have 3 dimensions");
    bool is_batch_first = onnx_attr_int(c->node, "layout", 0) != 0;
    v->steps = x->dims[is_batch_first];
    v->batch = x->dims[!is_batch_first];
    v->in = x->dims[2];
    v->hidden = w->dims[1] / v->gates;
    v->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    v->resets_after = onnx_attr_int(c->node, "linear_before_reset", 0) != 0;
    int64_t d = v->directions, g = v->gates, h = v->hidden;
    if (w->dims[0] != d || w->dims[2] != v->in || r->dims[0] != d || r->dims[1] != g * h ||
        r->dims[2] != h || (onnx_has(c, 3) && c->in[3].count != d * 2 * g * h) ||
        (onnx_has(c, 4) && c->in[4].count != v->batch) ||
        (onnx_has(c, 5) && c->in[5].count != d * v->batch * h) ||
        (onnx_has(c, 6) && c->in[6].count != d * v->batch * h) ||
        (onnx_has(c, 7) && c->in[7].count != d * 3 * h))
        return onnx_no(c, "weights or states do not fit");
    return EBB_OK;
}

/* One direction of one sequence. */
static void run_one(struct onnx_call *c, const struct cell *v, int64_t d, int64_t b, bool is_back,
                    double *h, double *state, double *scratch)
{
    bool is_batch_first = onnx_attr_int(c->node, "layout", 0) != 0;
    int64_t length = onnx_has(c, 4) ? c->in[4].integer[b] : v->steps;
    length = length < 0 ? 0 : length > v->steps ? v->steps : length;
    for (int64_t s = 0; s < length; s++) {
        int64_t t = is_back ? length - 1 - s : s;
        step(v, v->x + (is_batch_first ? b * v->steps + t : t * v->batch + b) * v->in, h, state,
             scratch);
        if (!onnx_wants(c, 0))
            continue;
        int64_t at = is_batch_first ? ((b * v->steps + t) * v->directions + d)
                                    : ((t * v->directions + d) * v->batch + b);
        for (int64_t k = 0; k < v->hidden; k++)
            onnx_set(&c->out[0], at * v->hidden + k, h[k]);
    }
}

static enum ebb_status recurrent(struct onnx_call *c)
{
    struct cell v = {0};
    double *h, *state, *scratch;
    EBB_TRY(check(c, &v));
    int type = c->in[0].type;
    bool is_batch_first = onnx_attr_int(c->node, "layout", 0) != 0;
    bool is_reverse = strcmp(onnx_attr_text(c->node, "direction", ""), "reverse") == 0;
    int64_t g = v.gates, n = v.hidden, dirs = v.directions;
    EBB_TRY(onnx_work(c, (int64_t[]){v.steps, v.batch, dirs, g * n, n + v.in}, 5));
    EBB_TRY(onnx_make(c, 0, type, 4,
                      is_batch_first ? (int64_t[]){v.batch, v.steps, dirs, n}
                                     : (int64_t[]){v.steps, dirs, v.batch, n}));
    int64_t last[3] = {is_batch_first ? v.batch : dirs, is_batch_first ? dirs : v.batch, n};
    for (size_t k = 1; k < 3 && k < c->node->out_count; k++)
        EBB_TRY(onnx_make(c, k, type, 3, last));
    EBB_TRY(onnx_take(c, n, &h, sizeof *h));
    EBB_TRY(onnx_take(c, n, &state, sizeof *state));
    EBB_TRY(onnx_take(c, 2 * n, &scratch, sizeof *scratch));
    v.x = c->in[0].number;
    for (int64_t d = 0; d < dirs; d++) {
        v.w = c->in[1].number + d * g * n * v.in;
        v.r = c->in[2].number + d * g * n * n;
        v.wb = onnx_has(c, 3) ? c->in[3].number + d * 2 * g * n : NULL;
        v.rb = v.wb ? v.wb + g * n : NULL;
        v.p = onnx_has(c, 7) ? c->in[7].number + d * 3 * n : NULL;
        for (int64_t b = 0; b < v.batch; b++) {
            int64_t at = (is_batch_first ? b * dirs + d : d * v.batch + b) * n;
            for (int64_t k = 0; k < n; k++) {
                h[k] = onnx_has(c, 5) ? c->in[5].number[at + k] : 0;
                state[k] = onnx_has(c, 6) ? c->in[6].number[at + k] : 0;
            }
            run_one(c, &v, d, b, is_reverse || d == 1, h, state, scratch);
            for (int64_t k = 0; k < n; k++) {
                if (onnx_wants(c, 1))
                    onnx_set(&c->out[1], at + k, h[k]);
                if (onnx_wants(c, 2) && v.kind == K_LSTM)
                    onnx_set(&c->out[2], at + k, state[k]);
            }
        }
    }
    return EBB_OK;
}

static const struct onnx_op rows[] = {
    {"RNN", 7, 0, 3, 6, "ffffif", -2, recurrent, K_RNN},
    {"GRU", 7, 0, 3, 6, "ffffif", -2, recurrent, K_GRU},
    {"LSTM", 7, 0, 3, 8, "ffffif", -3, recurrent, K_LSTM},
};

const struct onnx_ops onnx_recurrent_ops = {rows, sizeof rows / sizeof *rows};
