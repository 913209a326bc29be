/* graph_read.c - a training graph in Checkmate's sense (docs/formats/trace.md) into a trace.
 *
 * One op per node, one fresh output each; the node order is the execution order. An output is
 * released right after its last reader, or at once when nothing reads it: exactly when the
 * evaluator of schedules frees it (planner/sched.c), so nothing is pinned. Weights and their
 * gradients are outside the budget: graph_fixed_bytes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/doc.h"
#include "base/heap.h"
#include "trace/builder.h"

struct reader {
    const char *name;
    struct ebb_error *err;
    struct trace_builder *builder;
    const struct ebb_doc_node *root, *nodes;
    uint32_t forward_count;
    uint32_t *last_reader; /* per node: the last node that reads it, itself when none */
    uint32_t *deps;        /* of one node */
    size_t deps_capacity;
    uint64_t cost_sum;
};

__attribute__((format(printf, 3, 4))) static enum ebb_status
bad(struct reader *r, const struct ebb_doc_node *at, const char *fmt, ...)
{
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return ebb_fail(r->err, EBB_EINPUT, "%s:%u:%u: %s", r->name, at->line, at->column, message);
}

/* Member `key` of map as a number from 0 to `max`. */
static enum ebb_status number(struct reader *r, const struct ebb_doc_node *map, const char *key,
                              uint64_t max, uint64_t *value)
{
    const struct ebb_doc_node *v = ebb_doc_get(map, key);
    if (v == NULL)
        return bad(r, map, "\"%s\" is missing", key);
    if (v->kind != EBB_DOC_INT || v->integer < 0 || (uint64_t)v->integer > max)
        return bad(r, v, "\"%s\" must be a whole number from 0 to %llu, not %s%s", key,
                   (unsigned long long)max, v->kind == EBB_DOC_INT ? v->text : "",
                   v->kind == EBB_DOC_INT ? "" : ebb_doc_kind_text(v->kind));
    *value = (uint64_t)v->integer;
    return EBB_OK;
}

/* ---- head ------------------------------------------------------------------------------------ */

static enum ebb_status read_head(struct reader *r)
{
    if (r->root->kind != EBB_DOC_MAP)
        return bad(r, r->root, "a graph file is a JSON object with \"nodes\", this is %s",
                   ebb_doc_kind_text(r->root->kind));
    r->nodes = ebb_doc_get(r->root, "nodes");
    if (r->nodes == NULL || r->nodes->kind != EBB_DOC_LIST)
        return bad(r, r->nodes != NULL ? r->nodes : r->root, "a graph file needs a list \"nodes\"");
    uint64_t count = 0, forward = 0, loss = 0;
    EBB_TRY(number(r, r->root, "n", TRACE_MAX_INDEX, &count));
    EBB_TRY(number(r, r->root, "n_fwd", TRACE_MAX_INDEX, &forward));
    EBB_TRY(number(r, r->root, "loss", TRACE_MAX_INDEX, &loss));
    EBB_TRY(number(r, r->root, "fixed_bytes", TRACE_MAX_BYTES, &r->builder->graph_fixed_bytes));
    if (count != r->nodes->count)
        return bad(r, ebb_doc_get(r->root, "n"), "\"n\" is %llu, there are %zu nodes",
                   (unsigned long long)count, r->nodes->count);
    if (count != 2 * forward + 1 || loss != forward)
        return bad(
            r, ebb_doc_get(r->root, "n_fwd"),
            "%llu forward nodes and loss %llu: n must be 2 n_fwd + 1 and loss n_fwd, so that "
            "the backward node of i is n - 1 - i",
            (unsigned long long)forward, (unsigned long long)loss);
    r->forward_count = (uint32_t)forward;
    r->builder->is_graph = true;
    return EBB_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static enum ebb_status check_node(struct reader *r, uint32_t v)
{
    const struct ebb_doc_node *node = r->nodes->items[v];
    if (node->kind != EBB_DOC_MAP)
        return bad(r, node, "node %u must be an object, not %s", v, ebb_doc_kind_text(node->kind));
    uint64_t id = 0;
    EBB_TRY(number(r, node, "id", TRACE_MAX_INDEX, &id));
    if (id != v)
        return bad(r, ebb_doc_get(node, "id"), "node %u has id %llu: nodes stand in order of id", v,
                   (unsigned long long)id);
    const struct ebb_doc_node *deps = ebb_doc_get(node, "deps");
    if (deps == NULL || deps->kind != EBB_DOC_LIST)
        return bad(r, deps != NULL ? deps : node, "node %u needs a list \"deps\"", v);
    for (size_t i = 0; i < deps->count; i++) {
        const struct ebb_doc_node *d = deps->items[i];
        if (d->kind != EBB_DOC_INT || d->integer < 0 || d->integer >= (int64_t)v)
            return bad(r, d, "node %u may depend on nodes 0 to %lld only", v, (long long)v - 1);
        r->last_reader[d->integer] = v;
    }
    r->last_reader[v] = v;
    return EBB_OK;
}

static enum ebb_status node_kind(struct reader *r, uint32_t v, struct trace_op_desc *desc)
{
    static const char *const kinds[] = {"fwd", "loss", "bwd"};
    int wanted = v < r->forward_count ? 0 : v == r->forward_count ? 1 : 2;
    const struct ebb_doc_node *node = r->nodes->items[v], *kind = ebb_doc_get(node, "kind");
    if (kind == NULL || kind->kind != EBB_DOC_STRING || strcmp(kind->text, kinds[wanted]) != 0)
        return bad(r, kind != NULL ? kind : node, "\"kind\" of node %u must be \"%s\"", v,
                   kinds[wanted]);
    desc->kind_name = kinds[wanted];
    desc->phase = wanted == 2 ? TRACE_BACKWARD : TRACE_FORWARD;
    desc->partner = wanted == 2 ? (uint32_t)r->nodes->count - 1 - v : TRACE_NONE;
    const struct ebb_doc_node *name = ebb_doc_get(node, "name");
    if (name != NULL && (name->kind != EBB_DOC_STRING || strlen(name->text) != name->length))
        return bad(r, name, "\"name\" of node %u must be text", v);
    desc->label = name != NULL ? name->text : NULL;
    return EBB_OK;
}

static enum ebb_status release_dead(struct reader *r, uint32_t v, size_t dep_count)
{
    for (size_t i = 0; i < dep_count; i++)
        if (r->last_reader[r->deps[i]] == v) {
            EBB_TRY(trace_builder_command(r->builder, TRACE_RELEASE, r->deps[i], r->err));
            r->last_reader[r->deps[i]] = TRACE_NONE; /* listed twice, released once */
        }
    if (r->last_reader[v] == v)
        return trace_builder_command(r->builder, TRACE_RELEASE, v, r->err);
    return EBB_OK;
}

static enum ebb_status add_node(struct reader *r, uint32_t v)
{
    const struct ebb_doc_node *node = r->nodes->items[v], *deps = ebb_doc_get(node, "deps");
    struct trace_output output = {.alias = TRACE_FRESH};
    struct trace_op_desc desc = {.outputs = &output, .output_count = 1};
    EBB_TRY(node_kind(r, v, &desc));
    EBB_TRY(number(r, node, "mem", TRACE_MAX_BYTES, &output.bytes));
    EBB_TRY(number(r, node, "cost", TRACE_MAX_BYTES, &desc.cost_ns));
    r->cost_sum += desc.cost_ns;
    EBB_TRY(ebb_grow(&r->deps, &r->deps_capacity, deps->count + 1, sizeof *r->deps, r->err));
    for (size_t i = 0; i < deps->count; i++)
        r->deps[i] = (uint32_t)deps->items[i]->integer;
    desc.inputs = r->deps;
    desc.input_count = deps->count;
    if (v == r->forward_count + 1)
        trace_builder_mark_backward(r->builder);
    uint32_t tensor = 0;
    EBB_TRY(trace_builder_op(r->builder, &desc, &tensor, r->err));
    return release_dead(r, v, deps->count);
}

static enum ebb_status read_graph(struct reader *r, struct trace **trace)
{
    EBB_TRY(read_head(r));
    uint32_t count = (uint32_t)r->nodes->count;
    EBB_TRY(ebb_new(&r->last_reader, count, sizeof *r->last_reader, r->err));
    for (uint32_t v = 0; v < count; v++)
        EBB_TRY(check_node(r, v));
    for (uint32_t v = 0; v < count; v++)
        EBB_TRY(add_node(r, v));
    const struct ebb_doc_node *sum = ebb_doc_get(r->root, "sum_cost");
    if (sum != NULL && (sum->kind != EBB_DOC_INT || (uint64_t)sum->integer != r->cost_sum))
        return bad(r, sum, "\"sum_cost\" does not match: the nodes cost %llu together",
                   (unsigned long long)r->cost_sum);
    enum ebb_status status =
        trace_builder_finish(r->builder, ebb_doc_string(r->root, "name", r->name), trace, r->err);
    return status == EBB_OK ? status : ebb_context(r->err, status, "%s", r->name);
}

enum ebb_status trace_read_graph(const char *name, const char *bytes, size_t length,
                                 struct trace **trace, struct ebb_error *err)
{
    struct reader r = {.name = name, .err = err};
    struct ebb_arena doc_arena = {0};
    enum ebb_status status = ebb_doc_parse_json(&doc_arena, name, bytes, length, &r.root, err);
    EBB_THEN(status, trace_builder_create(&r.builder, err));
    EBB_THEN(status, read_graph(&r, trace));
    trace_builder_destroy(r.builder);
    ebb_free(r.last_reader);
    ebb_free(r.deps);
    ebb_arena_fini(&doc_arena);
    return status;
}
