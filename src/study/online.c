/* online.c - a graph run by the published online simulator.
 *
 * The reference runs ops not in node order but in the reverse post-order of a depth-first search
 * over successors, roots ascending; successors come in the order of a hash set of small integers.
 * The trace is rebuilt in that order, with every tensor released after its last use. */
#include "study/study.h"

#include "base/heap.h"

struct order {
    const struct trace *graph;
    uint32_t *list;      /* result, filled from the end */
    uint32_t left;       /* places not filled yet */
    bool *is_seen;       /* per op */
    uint32_t *successor; /* flat lists, in insertion order (by reader) */
    uint32_t *first;     /* op -> first successor; op_count + 1 entries */
};

/* The iteration order of a CPython set after inserting the integers in this order: open addressing,
 * linear probes of 9, growing fourfold at 3/5 load. `table` has room for 4 * count + 8 entries;
 * returns its size. */
static size_t set_insert_all(const uint32_t *keys, size_t count, uint32_t *table, uint32_t *spare)
{
    size_t size = 8, fill = 0;
    for (size_t k = 0; k < size; k++)
        table[k] = TRACE_NONE;
    for (size_t n = 0; n < count; n++) {
        size_t grown = size, entries = 1;
        uint32_t single = keys[n];
        const uint32_t *source = &single;
        for (int pass = 0; pass < 2; pass++) {
            for (size_t e = 0; e < entries; e++) {
                if (source[e] == TRACE_NONE)
                    continue;
                size_t mask = grown - 1, i = source[e] & mask, perturb = source[e];
                for (bool is_placed = false; !is_placed;) {
                    size_t last = i + 9 <= mask ? i + 9 : i;
                    for (size_t j = i; j <= last && !is_placed; j++) {
                        if (table[j] == source[e])
                            is_placed = true;
                        else if (table[j] == TRACE_NONE) {
                            table[j] = source[e];
                            fill += pass == 0;
                            is_placed = true;
                        }
                    }
                    perturb >>= 5;
                    i = (i * 5 + 1 + perturb) & mask;
                }
            }
            if (pass == 1 || fill * 5 < (size - 1) * 3)
                break;
            for (grown = 8; grown <= fill * 4; grown *= 2)
                ;
            for (size_t k = 0; k < size; k++)
                spare[k] = table[k];
            for (size_t k = 0; k < grown; k++)
                table[k] = TRACE_NONE;
            source = spare;
            entries = size;
            size = grown;
        }
    }
    return size;
}

/* Depth of the recursion is the length of the longest path. */
static enum ebb_status visit(struct order *o, uint32_t op, struct ebb_error *err)
{
    uint32_t begin = o->first[op], count = o->first[op + 1] - begin;
    size_t room = 16 * (size_t)count + 64;
    o->is_seen[op] = true;
    uint32_t *table;
    EBB_TRY(ebb_new(&table, 2 * room, sizeof *table, err));
    enum ebb_status status = EBB_OK;
    size_t size = set_insert_all(o->successor + begin, count, table, table + room);
    for (size_t k = 0; k < size && status == EBB_OK; k++)
        if (table[k] != TRACE_NONE && !o->is_seen[table[k]])
            status = visit(o, table[k], err);
    ebb_free(table);
    o->list[--o->left] = op;
    return status;
}

static enum ebb_status make_order(struct order *o, struct ebb_error *err)
{
    const struct trace *g = o->graph;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t v = 0; v < g->op_count; v++)
            for (uint32_t k = 0; k < g->ops[v].input_count; k++) {
                uint32_t u = g->tensors[g->inputs[g->ops[v].input_first + k]].op;
                if (pass == 0)
                    o->first[u + 1]++;
                else
                    o->successor[o->first[u]++] = v;
            }
        if (pass == 0)
            for (uint32_t v = 0; v < g->op_count; v++)
                o->first[v + 1] += o->first[v];
    }
    for (uint32_t v = g->op_count; v > 0; v--)
        o->first[v] = o->first[v - 1];
    o->first[0] = 0;
    /* Reverse post-order is a list filled from the end; later roots come before earlier ones. */
    for (uint32_t v = 0; v < g->op_count; v++)
        if (g->ops[v].input_count == 0 && !o->is_seen[v])
            EBB_TRY(visit(o, v, err));
    return EBB_OK;
}

static enum ebb_status add_ops(const struct order *o, struct trace_builder *builder,
                               uint32_t *tensor_of, uint32_t *place_of, uint32_t *inputs,
                               struct ebb_error *err)
{
    const struct trace *g = o->graph;
    for (uint32_t p = 0; p < g->op_count; p++)
        place_of[o->list[p]] = p;
    for (uint32_t p = 0; p < g->op_count; p++) {
        uint32_t v = o->list[p];
        const struct trace_op *op = &g->ops[v];
        struct trace_output out = {.bytes = g->storages[trace_output_of(g, op, 0)->storage].bytes};
        for (uint32_t k = 0; k < op->input_count; k++)
            inputs[k] = tensor_of[g->tensors[g->inputs[op->input_first + k]].op];
        struct trace_op_desc desc = {.kind_name = "op",
                                     .cost_ns = op->cost_ns,
                                     .inputs = inputs,
                                     .input_count = op->input_count,
                                     .outputs = &out,
                                     .output_count = 1,
                                     .partner = TRACE_NONE};
        EBB_TRY(trace_builder_op(builder, &desc, &tensor_of[v], err));
        /* release what this op read last, and its own output when nobody reads it */
        for (uint32_t k = 0; k <= op->input_count; k++) {
            uint32_t u = k < op->input_count ? g->tensors[g->inputs[op->input_first + k]].op : v;
            uint32_t last = place_of[u];
            bool is_repeat = false;
            for (uint32_t e = 0; e < k && k < op->input_count; e++)
                is_repeat |= inputs[e] == inputs[k];
            for (uint32_t s = o->first[u]; s < o->first[u + 1]; s++)
                if (place_of[o->successor[s]] > last)
                    last = place_of[o->successor[s]];
            if (last == p && !is_repeat)
                EBB_TRY(trace_builder_command(builder, TRACE_RELEASE, tensor_of[u], err));
        }
    }
    return EBB_OK;
}

static enum ebb_status reorder(const struct trace *g, struct trace **trace, struct ebb_error *err)
{
    size_t n = g->op_count;
    struct order o = {.graph = g, .left = g->op_count};
    struct trace_builder *builder = NULL;
    struct ebb_arena arena = {0};
    o.list = ebb_arena_calloc(&arena, n, sizeof *o.list);
    o.first = ebb_arena_calloc(&arena, n + 1, sizeof *o.first);
    o.successor = ebb_arena_calloc(&arena, g->input_count, sizeof *o.successor);
    o.is_seen = ebb_arena_calloc(&arena, n, sizeof *o.is_seen);
    uint32_t *tensor_of = ebb_arena_calloc(&arena, n, sizeof *tensor_of);
    uint32_t *place_of = ebb_arena_calloc(&arena, n, sizeof *place_of);
    uint32_t *inputs = ebb_arena_calloc(&arena, g->input_count, sizeof *inputs);
    enum ebb_status status = ebb_arena_status(&arena, err);
    EBB_THEN(status, make_order(&o, err));
    EBB_THEN(status, trace_builder_create(&builder, err));
    EBB_THEN(status, add_ops(&o, builder, tensor_of, place_of, inputs, err));
    EBB_THEN(status, trace_builder_finish(builder, "reordered", trace, err));
    trace_builder_destroy(builder);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status study_online(const struct trace *graph, const char *heuristic, uint64_t budget,
                             struct exec_report *report, struct ebb_error *err)
{
    struct trace *trace = NULL;
    struct exec_program *program = NULL;
    const struct mem_policy *policy = mem_policy_find(heuristic);
    if (!policy)
        return ebb_fail(err, EBB_EINPUT, "unknown heuristic '%s'", heuristic);
    EBB_TRY(reorder(graph, &trace, err));
    enum ebb_status status = exec_program_create(&program, trace, EXEC_SIMRD, err);
    struct exec_options options = {
        .policy = policy, .dealloc = EXEC_EAGER, .budget_bytes = budget, .limit = 2.0};
    EBB_THEN(status, exec_run(program, &options, report, err));
    exec_program_destroy(program);
    trace_destroy(trace);
    return status;
}
