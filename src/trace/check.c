/* check.c - proves the rules T1..T7 of trace.h, one walk over the ops and one over the commands.
 *
 * Every index is tested before it is used, so the check is also what makes a file from outside safe
 * to walk. Time is linear; memory is four bytes per tensor and per storage. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "trace/builder.h"

struct checker {
    const struct trace *t;
    struct trace_fault *fault;
    struct ebb_error *err;
    uint32_t *newest;  /* per storage: newest version made so far, TRACE_NONE before its root */
    uint32_t *handles; /* per tensor */
    uint32_t storages; /* roots seen so far */
    uint64_t bytes, cost_ns;
};

__attribute__((format(printf, 4, 5))) static enum ebb_status
bad(struct checker *c, enum trace_part part, size_t index, const char *fmt, ...)
{
    static const char *const names[] = {"",      "op",      "tensor", "storage",
                                        "input", "command", "header"};
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    *c->fault = (struct trace_fault){part, index};
    if (part != TRACE_PART_OP)
        return ebb_fail(c->err, EBB_EINPUT, "trace: %s %zu: %s", names[part], index, message);
    const struct trace_op *op = &c->t->ops[index];
    const char *label = op->label < c->t->text_bytes ? c->t->text + op->label : "";
    return ebb_fail(c->err, EBB_EINPUT, "trace: op %zu (%s%s%s): %s", index, op->kind->name,
                    *label != '\0' ? " " : "", label, message);
}

static enum ebb_status check_output(struct checker *c, uint32_t o, uint32_t id)
{
    const struct trace_op *op = &c->t->ops[o];
    const struct trace_tensor *x = &c->t->tensors[id];
    if (x->op != o)
        return bad(c, TRACE_PART_TENSOR, id, "says op %u, is an output of op %u (T1)", x->op, o);
    if (x->storage >= c->t->storage_count)
        return bad(c, TRACE_PART_TENSOR, id, "storage %u of %u", x->storage, c->t->storage_count);
    const struct trace_storage *s = &c->t->storages[x->storage];
    if (x->alias == TRACE_FRESH) {
        if (x->storage != c->storages || s->root != id || x->version != 0 ||
            x->alias_input != TRACE_NONE)
            return bad(c, TRACE_PART_TENSOR, id,
                       "a fresh output must be version 0 and root of storage %u (T1)", c->storages);
        if (s->bytes > TRACE_MAX_BYTES || c->bytes + s->bytes > TRACE_MAX_BYTES)
            return bad(c, TRACE_PART_STORAGE, x->storage,
                       "%llu bytes: storages exceed 2^62 bytes (T6)", (unsigned long long)s->bytes);
        c->bytes += s->bytes;
        c->newest[c->storages++] = 0;
        return EBB_OK;
    }
    if (x->alias != TRACE_VIEW && x->alias != TRACE_MUTATE)
        return bad(c, TRACE_PART_TENSOR, id, "unknown kind of output %u", x->alias);
    if (x->alias_input >= op->input_count)
        return bad(c, TRACE_PART_TENSOR, id, "aliases input %u of %u", x->alias_input,
                   op->input_count);
    const struct trace_tensor *base =
        &c->t->tensors[c->t->inputs[op->input_first + x->alias_input]];
    uint32_t version = base->version + (x->alias == TRACE_MUTATE);
    if (x->storage != base->storage || x->version != version)
        return bad(c, TRACE_PART_TENSOR, id,
                   "is storage %u version %u, its input is storage %u version %u", x->storage,
                   x->version, base->storage, base->version);
    if (x->alias == TRACE_MUTATE) {
        if (base->version != c->newest[x->storage])
            return bad(c, TRACE_PART_OP, o, "writes version %u of storage %u, newest is %u (T3)",
                       base->version, x->storage, c->newest[x->storage]);
        c->newest[x->storage]++;
    }
    return EBB_OK;
}

static enum ebb_status check_inputs(struct checker *c, uint32_t o)
{
    const struct trace *t = c->t;
    const struct trace_op *op = &t->ops[o];
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t id = t->inputs[op->input_first + i];
        if (id >= op->output_first)
            return bad(c, TRACE_PART_INPUT, op->input_first + i,
                       "op %u reads tensor %u, which no earlier op makes (T2)", o, id);
        const struct trace_tensor *x = &t->tensors[id];
        if (x->version != c->newest[x->storage])
            return bad(c, TRACE_PART_OP, o,
                       "reads version %u of storage %u, which version %u replaced (T3)", x->version,
                       x->storage, c->newest[x->storage]);
    }
    return EBB_OK;
}

static enum ebb_status check_op(struct checker *c, uint32_t o, size_t *inputs, size_t *tensors,
                                size_t *attrs)
{
    const struct trace *t = c->t;
    const struct trace_op *op = &t->ops[o];
    if (op->label >= t->text_bytes)
        return bad(c, TRACE_PART_OP, o, "label at %u of %zu", op->label, t->text_bytes);
    if (op->input_first != *inputs || op->input_count > t->input_count - *inputs)
        return bad(c, TRACE_PART_OP, o, "inputs %u + %u do not follow %zu of %zu (T1)",
                   op->input_first, op->input_count, *inputs, t->input_count);
    if (op->output_first != *tensors || op->output_count > t->tensor_count - *tensors ||
        op->output_count == 0)
        return bad(c, TRACE_PART_OP, o, "outputs %u + %u do not follow %zu of %u (T1)",
                   op->output_first, op->output_count, *tensors, t->tensor_count);
    if (op->attr_first != *attrs || op->attr_bytes > t->attr_bytes - *attrs)
        return bad(c, TRACE_PART_OP, o, "attributes %u + %u do not follow %zu of %zu",
                   op->attr_first, op->attr_bytes, *attrs, t->attr_bytes);
    if (op->partner != TRACE_NONE && op->partner >= o)
        return bad(c, TRACE_PART_OP, o, "partner %u is not an earlier op", op->partner);
    if (op->phase > TRACE_UPDATE || op->is_leaf > 1)
        return bad(c, TRACE_PART_OP, o, "phase %u, leaf %u", op->phase, op->is_leaf);
    if (op->workspace_bytes > TRACE_MAX_BYTES || op->cost_ns > TRACE_MAX_BYTES - c->cost_ns)
        return bad(c, TRACE_PART_OP, o, "workspace or sum of costs exceeds 2^62 (T6)");
    c->cost_ns += op->cost_ns;
    if (op->is_leaf && (op->input_count > 0 || op->cost_ns > 0))
        return bad(c, TRACE_PART_OP, o, "a leaf has %u inputs and costs %llu ns (T7)",
                   op->input_count, (unsigned long long)op->cost_ns);
    EBB_TRY(check_inputs(c, o));
    bool mutates = false;
    for (uint32_t i = 0; i < op->output_count; i++) {
        EBB_TRY(check_output(c, o, op->output_first + i));
        mutates |= trace_output_of(t, op, i)->alias == TRACE_MUTATE;
    }
    if (mutates != (op->kind->purity == TRACE_MUTATING))
        return bad(c, TRACE_PART_OP, o,
                   mutates ? "writes an input in place, its kind does not (T7)"
                           : "its kind mutates, no output does (T7)");
    *inputs += op->input_count;
    *tensors += op->output_count;
    *attrs += op->attr_bytes;
    return EBB_OK;
}

static enum ebb_status check_ops(struct checker *c)
{
    const struct trace *t = c->t;
    size_t inputs = 0, tensors = 0, attrs = 0;
    for (uint32_t o = 0; o < t->op_count; o++)
        EBB_TRY(check_op(c, o, &inputs, &tensors, &attrs));
    if (inputs != t->input_count || tensors != t->tensor_count || attrs != t->attr_bytes ||
        c->storages != t->storage_count)
        return bad(c, TRACE_PART_HEADER, 0,
                   "ops use %zu inputs of %zu, %zu tensors of %u, %u storages of %u, %zu attribute "
                   "bytes of %zu (T1)",
                   inputs, t->input_count, tensors, t->tensor_count, c->storages, t->storage_count,
                   attrs, t->attr_bytes);
    for (uint32_t s = 0; s < t->storage_count; s++)
        if (t->storages[s].version_count != c->newest[s] + 1)
            return bad(c, TRACE_PART_STORAGE, s, "has %u versions, says %u", c->newest[s] + 1,
                       t->storages[s].version_count);
    return EBB_OK;
}

static enum ebb_status check_handle(struct checker *c, size_t at, uint32_t ran)
{
    const struct trace_command *cmd = &c->t->commands[at];
    uint32_t id = cmd->index;
    if (id >= c->t->tensor_count || c->t->tensors[id].op >= ran)
        return bad(c, TRACE_PART_COMMAND, at, "tensor %u does not exist yet", id);
    if (cmd->kind == TRACE_GET) {
        if (++c->handles[id] == UINT32_MAX)
            return bad(c, TRACE_PART_COMMAND, at, "tensor %u has too many handles", id);
    } else if (cmd->kind == TRACE_RELEASE) {
        if (c->handles[id]-- == 0)
            return bad(c, TRACE_PART_COMMAND, at, "tensor %u is released without a handle (T5)",
                       id);
    } else {
        const struct trace_tensor *x = &c->t->tensors[id];
        if (x->version != c->newest[x->storage])
            return bad(c, TRACE_PART_COMMAND, at,
                       "pins version %u of storage %u, which version %u replaced (T3)", x->version,
                       x->storage, c->newest[x->storage]);
    }
    return EBB_OK;
}

static enum ebb_status check_commands(struct checker *c)
{
    const struct trace *t = c->t;
    uint32_t ran = 0;
    memset(c->newest, 0, t->storage_count * sizeof *c->newest);
    for (size_t i = 0; i < t->command_count; i++) {
        if (t->commands[i].kind != TRACE_RUN) {
            EBB_TRY(check_handle(c, i, ran));
            continue;
        }
        if (t->commands[i].index != ran || ran >= t->op_count)
            return bad(c, TRACE_PART_COMMAND, i, "runs op %u, op %u of %u is next (T4)",
                       (unsigned)t->commands[i].index, ran, t->op_count);
        const struct trace_op *op = &t->ops[ran++];
        for (uint32_t k = 0; k < op->output_count; k++) {
            const struct trace_tensor *x = trace_output_of(t, op, k);
            c->handles[op->output_first + k] = 1;
            if (x->version > c->newest[x->storage])
                c->newest[x->storage] = x->version;
        }
    }
    if (ran != t->op_count)
        return bad(c, TRACE_PART_HEADER, 0, "%u of %u ops are run (T4)", ran, t->op_count);
    if (t->backward_command != TRACE_NONE && t->backward_command >= t->command_count)
        return bad(c, TRACE_PART_HEADER, 0, "backward pass starts at command %u of %u",
                   t->backward_command, t->command_count);
    return EBB_OK;
}

enum ebb_status trace_check_at(const struct trace *trace, struct trace_fault *fault,
                               struct ebb_error *err)
{
    struct checker c = {.t = trace, .fault = fault, .err = err};
    *fault = (struct trace_fault){TRACE_PART_NONE, 0};
    if (trace->op_count > TRACE_MAX_INDEX || trace->tensor_count > TRACE_MAX_INDEX ||
        trace->graph_fixed_bytes > TRACE_MAX_BYTES || trace->text_bytes == 0 ||
        trace->text[0] != '\0' || trace->text[trace->text_bytes - 1] != '\0')
        return bad(&c, TRACE_PART_HEADER, 0, "counts, fixed bytes or label text out of range");
    struct ebb_arena arena = {0};
    c.newest = ebb_arena_calloc(&arena, trace->storage_count, sizeof *c.newest);
    c.handles = ebb_arena_calloc(&arena, trace->tensor_count, sizeof *c.handles);
    enum ebb_status status = ebb_arena_status(&arena, err);
    EBB_THEN(status, check_ops(&c));
    EBB_THEN(status, check_commands(&c));
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status trace_check(const struct trace *trace, struct ebb_error *err)
{
    struct trace_fault fault;
    return trace_check_at(trace, &fault, err);
}
