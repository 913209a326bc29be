/* rebuild.c - a trace with its ops in another order: updates where they can first run. */
#include "trace/trace.h"

#include "base/heap.h"

struct rebuild {
    const struct trace *t;
    uint32_t *order;  /* ops in their new order */
    uint32_t *op_map; /* op -> its new number */
    uint32_t *last;   /* tensor -> position in the order of its last reader */
    uint32_t *map;    /* tensor -> its new number */
    uint8_t *is_kept; /* tensor -> it is pinned */
    uint32_t *inputs; /* of one op */
    struct trace_output *outputs;
};

static void find_last(struct rebuild *r)
{
    const struct trace *t = r->t;
    for (uint32_t p = 0; p < t->op_count; p++) {
        const struct trace_op *op = &t->ops[r->order[p]];
        for (uint32_t k = 0; k < op->output_count; k++)
            r->last[op->output_first + k] = p;
        for (uint32_t k = 0; k < op->input_count; k++)
            r->last[t->inputs[op->input_first + k]] = p;
    }
    for (uint32_t i = 0; i < t->command_count; i++)
        if (t->commands[i].kind == TRACE_PIN)
            r->is_kept[t->commands[i].index] = 1;
}

static enum ebb_status emit_op(struct rebuild *r, struct trace_builder *b, uint32_t index,
                               uint32_t *first, struct ebb_error *err)
{
    const struct trace *t = r->t;
    const struct trace_op *op = &t->ops[index];
    for (uint32_t k = 0; k < op->input_count; k++)
        r->inputs[k] = r->map[t->inputs[op->input_first + k]];
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *o = trace_output_of(t, op, k);
        r->outputs[k] = (struct trace_output){
            .bytes = o->alias == TRACE_FRESH ? t->storages[o->storage].bytes : 0,
            .alias = (enum trace_alias)o->alias,
            .alias_input = o->alias_input};
    }
    struct trace_op_desc desc = {.kind = op->kind,
                                 .cost_ns = op->cost_ns,
                                 .workspace_bytes = op->workspace_bytes,
                                 .inputs = r->inputs,
                                 .input_count = op->input_count,
                                 .outputs = r->outputs,
                                 .output_count = op->output_count,
                                 .attr = t->attrs + op->attr_first,
                                 .attr_bytes = op->attr_bytes,
                                 .label = trace_label(t, op),
                                 .partner = op->partner == TRACE_NONE ? TRACE_NONE
                                                                      : r->op_map[op->partner],
                                 .phase = (enum trace_phase)op->phase,
                                 .is_leaf = op->is_leaf,
                                 .kind_name = NULL,
                                 .purity = TRACE_PURE};
    return trace_builder_op(b, &desc, first, err);
}

static enum ebb_status release(struct rebuild *r, struct trace_builder *b, uint32_t tensor,
                               uint32_t position, struct ebb_error *err)
{
    if (r->is_kept[tensor] || r->last[tensor] != position)
        return EBB_OK;
    r->last[tensor] = TRACE_NONE; /* once */
    return trace_builder_command(b, TRACE_RELEASE, r->map[tensor], err);
}

/* Handles go with the last reader; what was pinned is pinned at the end. */
static enum ebb_status emit(struct rebuild *r, struct trace_builder *b, struct ebb_error *err)
{
    const struct trace *t = r->t;
    bool is_backward = false;
    for (uint32_t p = 0; p < t->op_count; p++) {
        const struct trace_op *op = &t->ops[r->order[p]];
        uint32_t first;
        if (!is_backward && op->phase == TRACE_BACKWARD) {
            trace_builder_mark_backward(b);
            is_backward = true;
        }
        EBB_TRY(emit_op(r, b, r->order[p], &first, err));
        r->op_map[r->order[p]] = p;
        for (uint32_t k = 0; k < op->output_count; k++)
            r->map[op->output_first + k] = first + k;
        for (uint32_t k = 0; k < op->input_count; k++)
            EBB_TRY(release(r, b, t->inputs[op->input_first + k], p, err));
        for (uint32_t k = 0; k < op->output_count; k++)
            EBB_TRY(release(r, b, op->output_first + k, p, err));
    }
    for (uint32_t i = 0; i < t->command_count; i++)
        if (t->commands[i].kind == TRACE_PIN)
            EBB_TRY(trace_builder_command(b, TRACE_PIN, r->map[t->commands[i].index], err));
    return EBB_OK;
}

static enum ebb_status build(struct rebuild *r, struct trace **made, struct ebb_error *err)
{
    const struct trace *t = r->t;
    struct trace_sizes sizes = {.ops = t->op_count,
                                .tensors = t->tensor_count,
                                .inputs = t->input_count,
                                .commands = t->command_count,
                                .attr_bytes = t->attr_bytes};
    struct trace_builder *b;
    uint32_t count;
    bool is_moved;
    EBB_TRY(trace_reorder(t, TRACE_UPDATES_EARLY, r->order, &count, &is_moved, err));
    find_last(r);
    EBB_TRY(trace_builder_create(&b, err));
    enum ebb_status status = trace_builder_reserve(b, &sizes, err);
    EBB_THEN(status, emit(r, b, err));
    EBB_THEN(status, trace_builder_finish(b, t->name, made, err));
    trace_builder_destroy(b);
    return status;
}

enum ebb_status trace_hoist_updates(const struct trace *trace, struct trace **hoisted,
                                    uint32_t *map, struct ebb_error *err)
{
    size_t ops = trace->op_count, tensors = trace->tensor_count, ports = 1;
    for (uint32_t i = 0; i < trace->op_count; i++) {
        const struct trace_op *op = &trace->ops[i];
        ports = op->input_count > ports ? op->input_count : ports;
        ports = op->output_count > ports ? op->output_count : ports;
    }
    struct rebuild r = {.t = trace, .map = map};
    struct ebb_arena arena = {0};
    r.order = ebb_arena_calloc(&arena, ops, sizeof *r.order);
    r.op_map = ebb_arena_calloc(&arena, ops, sizeof *r.op_map);
    r.last = ebb_arena_calloc(&arena, tensors, sizeof *r.last);
    r.inputs = ebb_arena_calloc(&arena, ports, sizeof *r.inputs);
    r.is_kept = ebb_arena_calloc(&arena, tensors, 1);
    r.outputs = ebb_arena_calloc(&arena, ports, sizeof *r.outputs);
    enum ebb_status status = ebb_arena_status(&arena, err);
    EBB_THEN(status, build(&r, hoisted, err));
    ebb_arena_fini(&arena);
    return status;
}
