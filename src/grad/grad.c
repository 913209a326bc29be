/* grad.c - reverse walk over the tape. */
#include "grad/grad.h"

#include <string.h>

#include "base/heap.h"
#include "ops/ops.h"

struct walk {
    struct tensor_session *s;
    /* Nodes that can matter: from the first that makes an input to behind the last that makes an
     * output. A step may have many walks over a long tape (unrolled optimisation). */
    uint32_t first, end;
    size_t tensor_count;  /* ids below this are known to the arrays */
    bool *needs;          /* per tensor: an input depends on it */
    tensor_id *gradients; /* per tensor: sum so far */
};

/* Ids of the last node's outputs end the range of ids. */
static size_t id_limit(const struct tensor_session *s)
{
    uint32_t n = tensor_node_count(s);
    if (!n)
        return 1;
    struct tensor_node last = tensor_node_at(s, n - 1);
    return (size_t)last.first_output.v + last.output_count;
}

static void find_range(struct walk *w, const tensor_id *outputs, size_t output_count,
                       const tensor_id *inputs, size_t input_count)
{
    w->first = tensor_node_count(w->s);
    w->end = 0;
    for (size_t i = 0; i < input_count; i++) {
        uint32_t node = inputs[i].v && inputs[i].v < w->tensor_count
                            ? tensor_producer(w->s, inputs[i])
                            : UINT32_MAX;
        w->first = node < w->first ? node : w->first;
    }
    for (size_t i = 0; i < output_count; i++) {
        uint32_t behind = outputs[i].v && outputs[i].v < w->tensor_count
                              ? tensor_producer(w->s, outputs[i]) + 1
                              : 0;
        w->end = behind > w->end ? behind : w->end;
    }
}

static void mark(struct walk *w, const tensor_id *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (inputs[i].v < w->tensor_count)
            w->needs[inputs[i].v] = true;
    for (uint32_t i = w->first; i < w->end; i++) {
        struct tensor_node n = tensor_node_at(w->s, i);
        bool any = false;
        for (uint32_t k = 0; k < n.input_count; k++)
            any |= w->needs[n.inputs[k].v];
        for (uint32_t k = 0; any && k < n.output_count; k++) {
            uint32_t id = n.first_output.v + k;
            uint8_t dtype = tensor_view_of(w->s, (tensor_id){id})->dtype;
            w->needs[id] |= dtype <= TENSOR_F64; /* indices and masks carry none */
        }
    }
}

static bool is_cast_down(const struct tensor_session *s, tensor_id id)
{
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, id));
    if (!n.def)
        return false;
    return strcmp(ops_name(n.def), "master_high") == 0 ||
           (strcmp(ops_name(n.def), "cast") == 0 &&
            tensor_view_of(s, n.inputs[0])->dtype == TENSOR_F32);
}

static void accumulate(struct walk *w, tensor_id to, tensor_id g)
{
    if (!g.v)
        return;
    /* A gradient has the type of its tensor; but what was cast down from F32 may have it in full.
     */
    uint8_t dtype = tensor_view_of(w->s, to)->dtype, given = tensor_view_of(w->s, g)->dtype;
    if (given != dtype && !(given == TENSOR_F32 && is_cast_down(w->s, to)))
        g = ops_cast(w->s, g, (enum tensor_dtype)dtype);
    tensor_id *sum = &w->gradients[to.v];
    if (!tensor_same_shape(tensor_view_of(w->s, to), tensor_view_of(w->s, g))) {
        tensor_fail(w->s, EBB_EINTERNAL, "gradient of tensor %u has the wrong shape", to.v);
        return;
    }
    *sum = sum->v ? ops_add(w->s, *sum, g) : g;
}

static void visit(struct walk *w, uint32_t index)
{
    const struct tensor_node n = tensor_node_at(w->s, index);
    tensor_id out[TENSOR_PORTS], gout[TENSOR_PORTS], gin[TENSOR_PORTS], so_far[TENSOR_PORTS];
    bool needs[TENSOR_PORTS], has_taken[TENSOR_PORTS], has_gradient = false, is_needed = false;
    for (uint32_t k = 0; k < n.output_count; k++) {
        out[k] = (tensor_id){n.first_output.v + k};
        gout[k] = w->needs[out[k].v] ? w->gradients[out[k].v] : TENSOR_NONE;
        has_gradient |= gout[k].v != 0;
    }
    if (!has_gradient || !n.def)
        return;
    for (uint32_t k = 0; k < n.input_count; k++) {
        needs[k] = w->needs[n.inputs[k].v];
        is_needed |= needs[k];
        gin[k] = TENSOR_NONE;
        so_far[k] = w->gradients[n.inputs[k].v];
        has_taken[k] = false;
    }
    if (!is_needed)
        return;
    tensor_set_partner(w->s, index);
    struct ops_backward b = {.session = w->s,
                             .def = n.def,
                             .in = n.inputs,
                             .out = out,
                             .in_count = n.input_count,
                             .out_count = n.output_count,
                             .gout = gout,
                             .needs = needs,
                             .gin = gin,
                             .so_far = so_far,
                             .has_taken = has_taken,
                             .attr = n.attr};
    ops_backward(&b);
    for (uint32_t k = 0; k < n.input_count; k++) /* first: a tensor may be several inputs */
        if (has_taken[k])
            w->gradients[n.inputs[k].v] = TENSOR_NONE;
    for (uint32_t k = 0; k < n.input_count; k++)
        if (needs[k])
            accumulate(w, n.inputs[k], gin[k]);
}

static void seed(struct walk *w, const tensor_id *outputs, const tensor_id *gouts, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const struct tensor_view v = *tensor_view_of(w->s, outputs[k]);
        tensor_id g = gouts ? gouts[k] : TENSOR_NONE;
        if (!gouts && tensor_count(&v) != 1)
            tensor_fail(w->s, EBB_EINPUT,
                        "backward of a tensor with %lld elements needs a gradient",
                        (long long)tensor_count(&v));
        else if (!gouts)
            g = ops_full(w->s, v.rank, v.dims, 1.0f);
        if (tensor_status(w->s, NULL) == EBB_OK)
            accumulate(w, outputs[k], g);
    }
}

enum ebb_status grad_backward(struct tensor_session *s, const tensor_id *outputs,
                              const tensor_id *gouts, size_t output_count, const tensor_id *inputs,
                              size_t input_count, tensor_id *gin, struct ebb_error *err)
{
    EBB_TRY(tensor_status(s, err));
    struct walk w = {.s = s, .tensor_count = id_limit(s)};
    w.needs = ebb_calloc(w.tensor_count, sizeof *w.needs);
    w.gradients = ebb_calloc(w.tensor_count, sizeof *w.gradients);
    if (!w.needs || !w.gradients) {
        ebb_free(w.needs);
        ebb_free(w.gradients);
        return ebb_no_memory(err, w.tensor_count);
    }
    tensor_set_phase(s, TRACE_BACKWARD);
    find_range(&w, outputs, output_count, inputs, input_count);
    mark(&w, inputs, input_count);
    seed(&w, outputs, gouts, output_count);
    for (uint32_t i = w.end; i-- > w.first && tensor_status(s, NULL) == EBB_OK;)
        visit(&w, i);
    tensor_set_partner(s, UINT32_MAX);
    for (size_t i = 0; i < input_count; i++)
        gin[i] = inputs[i].v < w.tensor_count ? w.gradients[inputs[i].v] : TENSOR_NONE;
    ebb_free(w.needs);
    ebb_free(w.gradients);
    return tensor_status(s, err);
}
