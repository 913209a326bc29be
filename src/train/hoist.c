/* hoist.c - updates move forward to the place where they can first run.
 *
 * An op of phase UPDATE may run once its inputs are made and every reader of the bytes it
 * overwrites has run. The order of all other ops stays. Values do not change: only the order of
 * independent ops does. */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "train/step.h"

struct hoist {
    const struct trace *t;
    uint32_t *place; /* per op: index of the op after which it runs (itself when not moved) */
    uint32_t *read;  /* per storage: latest place of a reader so far */
    uint32_t *order; /* ops in their new order */
    uint32_t *last;  /* per tensor: position in the order of its last reader */
    uint32_t *op_map, *map;
    uint8_t *is_kept; /* per tensor */
};

static bool is_moved(const struct trace_op *op)
{
    return op->phase == TRACE_UPDATE && !op->is_leaf;
}

static void find_places(struct hoist *h)
{
    const struct trace *t = h->t;
    uint32_t begin = 0; /* not among the leaves that come first: they are the persistent ones */
    while (begin + 1 < t->op_count && t->ops[begin + 1].is_leaf)
        begin++;
    for (uint32_t i = 0; i < t->op_count; i++) {
        const struct trace_op *op = &t->ops[i];
        uint32_t place = is_moved(op) ? begin : i;
        for (uint32_t k = 0; k < op->input_count && is_moved(op); k++) {
            const struct trace_tensor *in = &t->tensors[t->inputs[op->input_first + k]];
            if (h->place[in->op] > place)
                place = h->place[in->op];
        }
        for (uint32_t k = 0; k < op->output_count && is_moved(op); k++) {
            const struct trace_tensor *out = &t->tensors[op->output_first + k];
            if (out->alias == TRACE_MUTATE && h->read[out->storage] > place)
                place = h->read[out->storage];
        }
        h->place[i] = place;
        for (uint32_t k = 0; k < op->input_count; k++) {
            uint32_t s = t->tensors[t->inputs[op->input_first + k]].storage;
            if (place > h->read[s])
                h->read[s] = place;
        }
    }
}

/* Counting sort by place: the op of that index first, then what was moved behind it, in order. */
static enum ebb_status sort(struct hoist *h, struct ebb_error *err)
{
    uint32_t n = h->t->op_count, at = 0;
    uint32_t *first = ebb_calloc((size_t)n + 1, sizeof *first);
    if (!first)
        return ebb_no_memory(err, n * sizeof *first);
    for (uint32_t i = 0; i < n; i++)
        first[h->place[i] + 1]++;
    for (uint32_t i = 0; i < n; i++)
        first[i + 1] += first[i];
    for (uint32_t i = 0; i < n; i++) /* unmoved ops first in their group */
        if (!is_moved(&h->t->ops[i]))
            h->order[first[h->place[i]]++] = i;
    for (uint32_t i = 0; i < n; i++)
        if (is_moved(&h->t->ops[i]))
            h->order[first[h->place[i]]++] = i;
    (void)at;
    ebb_free(first);
    return EBB_OK;
}

static void find_last(struct hoist *h)
{
    const struct trace *t = h->t;
    for (uint32_t p = 0; p < t->op_count; p++) {
        const struct trace_op *op = &t->ops[h->order[p]];
        for (uint32_t k = 0; k < op->output_count; k++)
            h->last[op->output_first + k] = p;
        for (uint32_t k = 0; k < op->input_count; k++)
            h->last[t->inputs[op->input_first + k]] = p;
    }
    for (uint32_t i = 0; i < t->command_count; i++)
        if (t->commands[i].kind == TRACE_PIN)
            h->is_kept[t->commands[i].index] = 1;
}

static enum ebb_status emit_op(struct hoist *h, struct trace_builder *b, uint32_t index,
                               uint32_t *first, struct ebb_error *err)
{
    const struct trace *t = h->t;
    const struct trace_op *op = &t->ops[index];
    uint32_t inputs[TENSOR_PORTS];
    struct trace_output outputs[TENSOR_PORTS];
    if (op->input_count > TENSOR_PORTS || op->output_count > TENSOR_PORTS)
        return ebb_fail(err, EBB_EINTERNAL, "step: op %u has too many ports", index);
    for (uint32_t k = 0; k < op->input_count; k++)
        inputs[k] = h->map[t->inputs[op->input_first + k]];
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *o = &t->tensors[op->output_first + k];
        outputs[k] = (struct trace_output){
            .bytes = o->alias == TRACE_FRESH ? t->storages[o->storage].bytes : 0,
            .alias = (enum trace_alias)o->alias,
            .alias_input = o->alias_input};
    }
    struct trace_op_desc desc = {.kind = op->kind,
                                 .cost_ns = op->cost_ns,
                                 .workspace_bytes = op->workspace_bytes,
                                 .inputs = inputs,
                                 .input_count = op->input_count,
                                 .outputs = outputs,
                                 .output_count = op->output_count,
                                 .attr = t->attrs + op->attr_first,
                                 .attr_bytes = op->attr_bytes,
                                 .label = trace_label(t, op),
                                 .partner = op->partner == TRACE_NONE ? TRACE_NONE
                                                                      : h->op_map[op->partner],
                                 .phase = (enum trace_phase)op->phase,
                                 .is_leaf = op->is_leaf,
                                 .kind_name = NULL,
                                 .purity = TRACE_PURE};
    return trace_builder_op(b, &desc, first, err);
}

static enum ebb_status release(struct hoist *h, struct trace_builder *b, uint32_t tensor,
                               uint32_t position, struct ebb_error *err)
{
    if (h->is_kept[tensor] || h->last[tensor] != position)
        return EBB_OK;
    h->last[tensor] = TRACE_NONE; /* once */
    return trace_builder_command(b, TRACE_RELEASE, h->map[tensor], err);
}

static enum ebb_status emit(struct hoist *h, struct trace_builder *b, struct ebb_error *err)
{
    const struct trace *t = h->t;
    bool is_backward = false;
    for (uint32_t p = 0; p < t->op_count; p++) {
        const struct trace_op *op = &t->ops[h->order[p]];
        uint32_t first;
        if (!is_backward && op->phase == TRACE_BACKWARD) {
            trace_builder_mark_backward(b);
            is_backward = true;
        }
        EBB_TRY(emit_op(h, b, h->order[p], &first, err));
        h->op_map[h->order[p]] = p;
        for (uint32_t k = 0; k < op->output_count; k++)
            h->map[op->output_first + k] = first + k;
        for (uint32_t k = 0; k < op->input_count; k++)
            EBB_TRY(release(h, b, t->inputs[op->input_first + k], p, err));
        for (uint32_t k = 0; k < op->output_count; k++)
            EBB_TRY(release(h, b, op->output_first + k, p, err));
    }
    for (uint32_t i = 0; i < t->command_count; i++)
        if (t->commands[i].kind == TRACE_PIN)
            EBB_TRY(trace_builder_command(b, TRACE_PIN, h->map[t->commands[i].index], err));
    return EBB_OK;
}

enum ebb_status train_hoist(const struct trace *trace, struct trace **hoisted, uint32_t *map,
                            struct ebb_error *err)
{
    struct trace_builder *b = NULL;
    struct hoist h = {.t = trace, .map = map};
    size_t ops = trace->op_count, tensors = trace->tensor_count;
    uint32_t *block = ebb_calloc(3 * ops + tensors + trace->storage_count + 1, sizeof *block);
    h.is_kept = ebb_calloc(tensors + 1, 1);
    enum ebb_status status = EBB_OK;
    if (!block || !h.is_kept)
        status = ebb_no_memory(err, (3 * ops + tensors) * sizeof *block);
    if (status == EBB_OK) {
        h.place = block;
        h.order = block + ops;
        h.op_map = block + 2 * ops;
        h.last = block + 3 * ops;
        h.read = h.last + tensors;
        find_places(&h);
        status = sort(&h, err);
    }
    if (status == EBB_OK)
        status = trace_builder_create(&b, err);
    struct trace_sizes sizes = {.ops = ops,
                                .tensors = tensors,
                                .inputs = trace->input_count,
                                .commands = trace->command_count,
                                .attr_bytes = trace->attr_bytes};
    if (status == EBB_OK)
        status = trace_builder_reserve(b, &sizes, err);
    if (status == EBB_OK) {
        find_last(&h);
        status = emit(&h, b, err);
    }
    if (status == EBB_OK)
        status = trace_builder_finish(b, trace->name, hoisted, err);
    trace_builder_destroy(b);
    ebb_free(block);
    ebb_free(h.is_kept);
    return status;
}
