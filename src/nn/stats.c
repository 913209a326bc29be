/* stats.c - sizes of a model from its trace: no weight takes memory. */
#include <string.h>

#include "base/heap.h"
#include "grad/grad.h"
#include "nn/internal.h"

static double count(const struct tensor_session *s, tensor_id id)
{
    return (double)tensor_count(tensor_view_of(s, id));
}

/* Weights per output channel of a convolution. */
static double per_channel(const struct tensor_session *s, tensor_id w)
{
    const struct tensor_view *v = tensor_view_of(s, w);
    return v->rank && v->dims[0] ? (double)(tensor_count(v) / v->dims[0]) : 0;
}

static double product_flops(const struct tensor_session *s, const struct tensor_node *n)
{
    const struct tensor_view *a = tensor_view_of(s, n->inputs[0]);
    const struct tensor_view *y = tensor_view_of(s, n->first_output);
    if (a->rank < 2 || y->rank < 2 || !y->dims[y->rank - 2])
        return 0;
    double inner = (double)(a->dims[a->rank - 1] * a->dims[a->rank - 2] / y->dims[y->rank - 2]);
    return 2.0 * (double)tensor_count(y) * inner;
}

static double attention_flops(const struct tensor_session *s, const struct tensor_node *n)
{
    const struct tensor_view *q = tensor_view_of(s, n->inputs[0]);
    const struct tensor_view *k = tensor_view_of(s, n->inputs[1]);
    const struct tensor_view *v = tensor_view_of(s, n->inputs[2]);
    if (q->rank < 3 || k->rank < 3 || v->rank < 3)
        return 0;
    return 2.0 * (double)(tensor_count(q) / q->dims[q->rank - 1]) * (double)k->dims[k->rank - 2] *
           (double)(q->dims[q->rank - 1] + v->dims[v->rank - 1]);
}

/* Cross entropy of a product: one product forward, two backward; the scores made again do not
 * count. */
static double entropy_flops(const struct tensor_session *s, const struct tensor_node *n, bool grad)
{
    tensor_id x = grad ? n->first_output : n->inputs[0];
    tensor_id w = grad ? (tensor_id){n->first_output.v + 1} : n->inputs[1];
    return (grad ? 4.0 : 2.0) * (double)tensor_view_of(s, x)->dims[0] * count(s, w);
}

double nn_node_flops(const struct tensor_session *s, uint32_t node)
{
    struct tensor_node n = tensor_node_at(s, node);
    const char *name = n.def ? ops_name(n.def) : "";
    if (strcmp(name, "conv") == 0)
        return 2.0 * count(s, n.first_output) * per_channel(s, n.inputs[1]);
    if (strcmp(name, "conv_data") == 0)
        return 2.0 * count(s, n.inputs[0]) * per_channel(s, n.inputs[1]);
    if (strcmp(name, "conv_weights") == 0)
        return 2.0 * count(s, n.inputs[1]) * per_channel(s, n.first_output);
    if (strcmp(name, "matmul") == 0 || strcmp(name, "linear2") == 0)
        return product_flops(s, &n);
    if (strncmp(name, "product_entropy", 15) == 0)
        return entropy_flops(s, &n, n.output_count > 1 && strcmp(name + 15, "_grad") == 0);
    if (strcmp(name, "attention_rows") == 0)
        return attention_flops(s, &n);
    if (strcmp(name, "attention_grad") == 0) /* four products; the scores made again do not count */
        return 2.0 * attention_flops(s, &n);
    return 0;
}

static void count_items(const struct nn_builder *b, struct nn_stats *stats)
{
    for (size_t i = 0; i < b->item_count; i++) {
        const struct nn_item *item = &b->items[i];
        uint64_t n = (uint64_t)tensor_count(&item->view);
        uint64_t bytes = n * tensor_dtype_bytes((enum tensor_dtype)item->view.dtype);
        if (item->role == NN_BUFFER) {
            stats->buffer_bytes += bytes;
            continue;
        }
        stats->parameters += n;
        stats->parameter_bytes += bytes;
        if (item->is_trained)
            stats->trained_parameters += n;
    }
}

/* Storages that forward ops made; of these, those that later phases read. */
static enum ebb_status count_storages(const struct trace *t, struct nn_stats *stats,
                                      struct ebb_error *err)
{
    bool *is_forward = ebb_calloc((size_t)t->storage_count + 1, sizeof *is_forward);
    bool *is_saved = ebb_calloc((size_t)t->storage_count + 1, sizeof *is_saved);
    enum ebb_status status = EBB_OK;
    if (!is_forward || !is_saved) {
        status = ebb_no_memory(err, t->storage_count);
        goto out;
    }
    for (uint32_t i = 0; i < t->op_count; i++) {
        const struct trace_op *op = &t->ops[i];
        stats->ops += !op->is_leaf;
        for (uint32_t k = 0; k < op->output_count; k++) {
            const struct trace_tensor *y = &t->tensors[op->output_first + k];
            if (!op->is_leaf && op->phase == TRACE_FORWARD && y->alias == TRACE_FRESH)
                is_forward[y->storage] = true;
        }
        for (uint32_t k = 0; op->phase != TRACE_FORWARD && k < op->input_count; k++)
            is_saved[t->tensors[t->inputs[op->input_first + k]].storage] = true;
    }
    for (uint32_t i = 0; i < t->storage_count; i++) {
        stats->forward_bytes += is_forward[i] ? t->storages[i].bytes : 0;
        stats->saved_bytes += is_forward[i] && is_saved[i] ? t->storages[i].bytes : 0;
    }
out:
    ebb_free(is_forward);
    ebb_free(is_saved);
    return status;
}

static enum ebb_status backward(struct nn_builder *b, tensor_id loss, struct ebb_error *err)
{
    tensor_id *in = ebb_calloc(2 * b->item_count + 1, sizeof *in), *g = in + b->item_count;
    size_t n = 0;
    if (!in)
        return ebb_no_memory(err, b->item_count);
    for (size_t i = 0; i < b->item_count; i++)
        if (b->items[i].is_trained)
            in[n++] = b->items[i].leaf;
    enum ebb_status status = grad_backward(b->session, &loss, NULL, 1, in, n, g, err);
    for (size_t i = 0; i < n && status == EBB_OK; i++)
        if (g[i].v)
            tensor_keep(b->session, g[i]);
    ebb_free(in);
    return status;
}

static enum ebb_status measure(struct nn_builder *b, const struct nn_config *config, int64_t batch,
                               struct nn_stats *stats, struct ebb_error *err)
{
    tensor_id inputs[NN_PORTS], targets[NN_PORTS] = {{0}};
    struct nn_output outputs[NN_PORTS];
    struct nn_port ports[NN_PORTS];
    struct trace *trace = NULL;
    size_t n = 0;
    EBB_TRY(nn_leaves(b, config, batch, inputs, err));
    EBB_TRY(nn_build(b, config, inputs, outputs, &n, err));
    tensor_id loss = nn_loss(b, outputs, n, targets);
    uint32_t border = tensor_node_count(b->session);
    EBB_TRY(tensor_status(b->session, err));
    EBB_TRY(backward(b, loss, err));
    tensor_keep(b->session, loss);
    EBB_TRY(tensor_finish(b->session, config->model->name, &trace, err));
    for (uint32_t i = 0; i < tensor_node_count(b->session); i++) {
        tensor_id out = tensor_node_at(b->session, i).first_output;
        if (tensor_trace_id(b->session, out) != TRACE_NONE) /* not what fusion left behind */
            *(i < border ? &stats->forward_flops : &stats->backward_flops) +=
                nn_node_flops(b->session, i);
    }
    n = nn_inputs(config, batch, ports);
    for (size_t i = 0; i < n; i++)
        stats->input_bytes += (uint64_t)tensor_count(&ports[i].view) *
                              tensor_dtype_bytes((enum tensor_dtype)ports[i].view.dtype);
    count_items(b, stats);
    enum ebb_status status = count_storages(trace, stats, err);
    trace_destroy(trace);
    return status;
}

enum ebb_status nn_model_stats(const struct nn_config *config, int64_t batch,
                               enum nn_precision precision, void *backend, struct nn_stats *stats,
                               struct ebb_error *err)
{
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_stats result = {0};
    EBB_TRY(tensor_session_create(&s, backend, err));
    nn_builder_init(&b, s, &(struct nn_mode){.is_training = true, .precision = precision});
    enum ebb_status status = measure(&b, config, batch, &result, err);
    nn_builder_fini(&b);
    tensor_session_destroy(s);
    if (status == EBB_OK)
        *stats = result;
    return status;
}
