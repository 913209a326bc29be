/* trace_equal.h - whether two traces say the same, field by field; for tests of readers and
 * writers. */
#ifndef EBB_TESTS_TRACE_EQUAL_H
#define EBB_TESTS_TRACE_EQUAL_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "trace/trace.h"

#define TRACE_EQUAL_DIFFERS(...) (snprintf(why, 200, __VA_ARGS__), false)

static inline bool trace_equal_program(const struct trace *a, const struct trace *b, char why[200])
{
    if (a->op_count != b->op_count || a->tensor_count != b->tensor_count ||
        a->storage_count != b->storage_count || a->command_count != b->command_count ||
        a->input_count != b->input_count)
        return TRACE_EQUAL_DIFFERS("counts: %u %u %u %u %zu, %u %u %u %u %zu", a->op_count,
                                   a->tensor_count, a->storage_count, a->command_count,
                                   a->input_count, b->op_count, b->tensor_count, b->storage_count,
                                   b->command_count, b->input_count);
    for (uint32_t i = 0; i < a->op_count; i++) {
        const struct trace_op *x = &a->ops[i], *y = &b->ops[i];
        if (strcmp(x->kind->name, y->kind->name) != 0 || x->kind->purity != y->kind->purity ||
            x->cost_ns != y->cost_ns || x->input_first != y->input_first ||
            x->input_count != y->input_count || x->output_first != y->output_first ||
            x->output_count != y->output_count || x->phase != y->phase || x->is_leaf != y->is_leaf)
            return TRACE_EQUAL_DIFFERS("op %u", i);
    }
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const struct trace_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        if (x->storage != y->storage || x->op != y->op || x->version != y->version ||
            x->alias != y->alias || x->alias_input != y->alias_input)
            return TRACE_EQUAL_DIFFERS("tensor %u", i);
    }
    for (uint32_t i = 0; i < a->storage_count; i++)
        if (a->storages[i].bytes != b->storages[i].bytes ||
            a->storages[i].root != b->storages[i].root ||
            a->storages[i].version_count != b->storages[i].version_count)
            return TRACE_EQUAL_DIFFERS("storage %u", i);
    for (uint32_t i = 0; i < a->command_count; i++)
        if (a->commands[i].kind != b->commands[i].kind ||
            a->commands[i].index != b->commands[i].index)
            return TRACE_EQUAL_DIFFERS("command %u", i);
    for (size_t i = 0; i < a->input_count; i++)
        if (a->inputs[i] != b->inputs[i])
            return TRACE_EQUAL_DIFFERS("input %zu", i);
    if (a->backward_command != b->backward_command)
        return TRACE_EQUAL_DIFFERS("backward command %u, %u", a->backward_command,
                                   b->backward_command);
    return true;
}

/* Also what only the native format carries. */
static inline bool trace_equal(const struct trace *a, const struct trace *b, char why[200])
{
    if (!trace_equal_program(a, b, why))
        return false;
    if (strcmp(a->name, b->name) != 0 || a->is_graph != b->is_graph ||
        a->graph_fixed_bytes != b->graph_fixed_bytes || a->signature.low != b->signature.low ||
        a->signature.high != b->signature.high)
        return TRACE_EQUAL_DIFFERS("name, graph or signature");
    for (uint32_t i = 0; i < a->op_count; i++) {
        const struct trace_op *x = &a->ops[i], *y = &b->ops[i];
        if (x->workspace_bytes != y->workspace_bytes || x->attr_bytes != y->attr_bytes ||
            x->partner != y->partner || strcmp(trace_label(a, x), trace_label(b, y)) != 0 ||
            x->kind->can_skip_outputs != y->kind->can_skip_outputs ||
            memcmp(a->attrs + x->attr_first, b->attrs + y->attr_first, x->attr_bytes) != 0)
            return TRACE_EQUAL_DIFFERS("op %u: workspace, attributes, partner, label or kind", i);
    }
    return true;
}

#endif
