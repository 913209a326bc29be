/* stats.c - sizes of a model from its trace: no weight takes memory. */
#include <string.h>

#include "base/heap.h"
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
    bool is_packed = n->input_count == 1 || (n->input_count == 4 && n->output_count == 1);
    if (is_packed) /* [B, T, 3 x width] alone, or before what the gradient needs beside it */
        return 4.0 / 3.0 * (double)tensor_count(q) * (double)q->dims[1];
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
    if (strcmp(name, "matmul") == 0 || strcmp(name, "linear2") == 0 ||
        strcmp(name, "linear_add") == 0 || strcmp(name, "matmul_add") == 0)
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
            const struct trace_tensor *y = trace_output_of(t, op, k);
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

enum ebb_status nn_stats_count(const struct nn_builder *b, const struct nn_config *config,
                               int64_t batch, uint32_t forward_end, const struct trace *trace,
                               struct nn_stats *stats, struct ebb_error *err)
{
    struct nn_port ports[NN_PORTS];
    for (uint32_t i = 0; i < tensor_node_count(b->session); i++) {
        tensor_id out = tensor_node_at(b->session, i).first_output;
        if (tensor_trace_id(b->session, out) != TRACE_NONE) /* not what fusion left behind */
            *(i < forward_end ? &stats->forward_flops : &stats->backward_flops) +=
                nn_node_flops(b->session, i);
    }
    size_t n = nn_inputs(config, batch, ports);
    for (size_t i = 0; i < n; i++)
        stats->input_bytes += (uint64_t)tensor_count(&ports[i].view) *
                              tensor_dtype_bytes((enum tensor_dtype)ports[i].view.dtype);
    count_items(b, stats);
    return count_storages(trace, stats, err);
}
