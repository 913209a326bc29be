/* cmd_trace_stat.c - ebb trace stat: the figures of a trace, its kinds of op, its largest storages.
 */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "cli/cmd_trace.h"
#include "cli/train_file.h"
#include "cli/json.h"

struct kind_total {
    const char *name;
    uint64_t count, cost_ns, bytes;
};

struct report {
    const char *file;
    const struct trace *t;
    struct trace_stats s;
    struct kind_total *kinds; /* dearest first */
    size_t kind_count, kind_capacity;
    uint32_t *largest; /* storages, largest first */
    size_t largest_count;
    struct cli_trace_life *lives;
};

static int by_cost(const void *a, const void *b)
{
    const struct kind_total *x = a, *y = b;
    if (x->cost_ns != y->cost_ns)
        return x->cost_ns > y->cost_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Kinds of the same name count together, whatever their purity. */
static enum ebb_status count_kinds(struct report *r, struct ebb_error *err)
{
    const struct trace *t = r->t;
    struct ebb_strmap index;
    enum ebb_status status = EBB_OK;
    ebb_strmap_init(&index);
    for (uint32_t i = 0; i < t->op_count && status == EBB_OK; i++) {
        const struct trace_op *op = &t->ops[i];
        uint64_t at = r->kind_count;
        size_t length = strlen(op->kind->name);
        if (!ebb_strmap_get(&index, op->kind->name, length, &at)) {
            status =
                ebb_grow(&r->kinds, &r->kind_capacity, r->kind_count + 1, sizeof *r->kinds, err);
            EBB_THEN(status, ebb_strmap_put(&index, op->kind->name, length, at, err));
            if (status != EBB_OK)
                break;
            r->kinds[r->kind_count++] = (struct kind_total){.name = op->kind->name};
        }
        r->kinds[at].count++;
        r->kinds[at].cost_ns += op->cost_ns;
        for (uint32_t k = 0; k < op->output_count; k++)
            if (trace_output_of(t, op, k)->alias == TRACE_FRESH)
                r->kinds[at].bytes += t->storages[trace_output_of(t, op, k)->storage].bytes;
    }
    ebb_strmap_fini(&index);
    if (status == EBB_OK && r->kind_count > 0)
        qsort(r->kinds, r->kind_count, sizeof *r->kinds, by_cost);
    return status;
}

/* The `top` largest, by insertion: top is small. Equal sizes by lower id. */
static enum ebb_status find_largest(struct report *r, size_t top, struct ebb_error *err)
{
    const struct trace *t = r->t;
    EBB_TRY(ebb_new(&r->largest, top + 1, sizeof *r->largest, err));
    for (uint32_t s = 0; s < t->storage_count && top > 0; s++) {
        size_t at = r->largest_count;
        while (at > 0 && t->storages[r->largest[at - 1]].bytes < t->storages[s].bytes)
            at--;
        if (at == top)
            continue;
        if (r->largest_count < top)
            r->largest_count++;
        memmove(r->largest + at + 1, r->largest + at,
                (r->largest_count - 1 - at) * sizeof *r->largest);
        r->largest[at] = s;
    }
    return EBB_OK;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void line_bytes(const char *name, uint64_t bytes, const struct trace_stats *s,
                       const char *what)
{
    char a[32];
    printf("  %-12s %10s %6.1f %%  %s\n", name, ebb_format_bytes(bytes, a, sizeof a),
           s->baseline_bytes > 0 ? 100.0 * (double)bytes / (double)s->baseline_bytes : 0.0, what);
}

static void print_figures(const struct report *r)
{
    const struct trace *t = r->t;
    const struct trace_stats *s = &r->s;
    char a[32];
    if (strcmp(r->file, t->name) == 0)
        printf("%s\n", r->file);
    else
        printf("%s (%s)\n", r->file, t->name);
    printf("  %-12s %u: %u forward, %u backward, %u leaves among them\n", "ops", t->op_count,
           s->forward_count, s->backward_count, s->leaf_count);
    printf("  %-12s %u on %u storages, %u views\n", "tensors", t->tensor_count, t->storage_count,
           s->view_count);
    printf("  %-12s %u: %u get, %u release, %u pin\n", "commands", t->command_count, s->get_count,
           s->release_count, s->pin_count);
    printf("  %-12s %s\n", "compute", ebb_format_ns(s->base_ns, a, sizeof a));
    printf("  %-12s %016llx%016llx\n\n", "signature", (unsigned long long)t->signature.high,
           (unsigned long long)t->signature.low);
    line_bytes("peak", s->baseline_bytes, s, "without a limit: what ratios are ratios of");
    line_bytes("leaves", s->leaf_bytes, s, "weights and inputs: cannot be recomputed");
    line_bytes("kept", s->keep_bytes, s, "must be there at the end");
    line_bytes("working set", s->working_bytes, s, "largest of one op, workspace included");
    if (s->working_op != TRACE_NONE)
        printf("  %-31s  op %u: %s %s\n", "", s->working_op, t->ops[s->working_op].kind->name,
               trace_label(t, &t->ops[s->working_op]));
    line_bytes("bottleneck", s->bottleneck_bytes, s, "the same as the DTR paper counts it");
    line_bytes("total", s->total_bytes, s, "all storages together");
    if (t->is_graph)
        line_bytes("fixed", t->graph_fixed_bytes, s, "outside the budget of a graph");
}

static void print_kinds(const struct report *r, size_t top)
{
    static const char *const columns[] = {"kind", "ops", "time", "share", "output bytes"};
    size_t shown = r->kind_count < top ? r->kind_count : top;
    if (shown == 0)
        return;
    struct cli_table *table = cli_table_create(columns, 5);
    char a[32], b[32];
    for (size_t i = 0; table != NULL && i < shown; i++) {
        const struct kind_total *k = &r->kinds[i];
        cli_table_cell(table, "%s", k->name);
        cli_table_cell(table, "%llu", (unsigned long long)k->count);
        cli_table_cell(table, "%s", ebb_format_ns(k->cost_ns, a, sizeof a));
        cli_table_cell(table, "%.1f%%",
                       r->s.base_ns > 0 ? 100.0 * (double)k->cost_ns / (double)r->s.base_ns : 0.0);
        cli_table_cell(table, "%s", ebb_format_bytes(k->bytes, b, sizeof b));
    }
    printf("\nWhere the time goes\n");
    cli_table_out(table);
    if (shown < r->kind_count)
        printf("... %zu more kinds; --top N shows more\n", r->kind_count - shown);
}

static void print_largest(const struct report *r)
{
    static const char *const columns[] = {"storage", "bytes",     "kind", "label",
                                          "op",      "last read", "freed"};
    const struct trace *t = r->t;
    if (r->largest_count == 0)
        return;
    struct cli_table *table = cli_table_create(columns, 7);
    char a[32];
    for (size_t i = 0; table != NULL && i < r->largest_count; i++) {
        uint32_t s = r->largest[i];
        const struct cli_trace_life *life = &r->lives[s];
        cli_table_cell(table, "%u", s);
        cli_table_cell(table, "%s", ebb_format_bytes(t->storages[s].bytes, a, sizeof a));
        cli_table_cell(table, "%s", t->ops[life->born].kind->name);
        cli_table_cell(table, "%s", trace_label(t, &t->ops[life->born]));
        cli_table_cell(table, "%u", life->born);
        cli_trace_cell_life(table, life);
    }
    printf("\nLargest storages\n");
    cli_table_out(table);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_head(struct ebb_json_writer *w, const struct report *r)
{
    const struct trace *t = r->t;
    const struct trace_stats *s = &r->s;
    char signature[40];
    snprintf(signature, sizeof signature, "%016llx%016llx", (unsigned long long)t->signature.high,
             (unsigned long long)t->signature.low);
    ebb_jsonw_key_string(w, "file", r->file);
    ebb_jsonw_key_string(w, "name", t->name);
    ebb_jsonw_key_string(w, "signature", signature);
    ebb_jsonw_key_uint(w, "ops", t->op_count);
    ebb_jsonw_key_uint(w, "tensors", t->tensor_count);
    ebb_jsonw_key_uint(w, "storages", t->storage_count);
    ebb_jsonw_key_uint(w, "commands", t->command_count);
    ebb_jsonw_key_uint(w, "leaves", s->leaf_count);
    ebb_jsonw_key_uint(w, "views", s->view_count);
    ebb_jsonw_key_uint(w, "gets", s->get_count);
    ebb_jsonw_key_uint(w, "releases", s->release_count);
    ebb_jsonw_key_uint(w, "pins", s->pin_count);
    ebb_jsonw_key_uint(w, "forward_ops", s->forward_count);
    ebb_jsonw_key_uint(w, "backward_ops", s->backward_count);
    ebb_jsonw_key_uint(w, "base_ns", s->base_ns);
    ebb_jsonw_key_uint(w, "baseline_bytes", s->baseline_bytes);
    ebb_jsonw_key_uint(w, "leaf_bytes", s->leaf_bytes);
    ebb_jsonw_key_uint(w, "keep_bytes", s->keep_bytes);
    ebb_jsonw_key_uint(w, "working_bytes", s->working_bytes);
    cli_trace_json_index(w, "working_op", s->working_op);
    ebb_jsonw_key_uint(w, "bottleneck_bytes", s->bottleneck_bytes);
    ebb_jsonw_key_uint(w, "total_bytes", s->total_bytes);
    ebb_jsonw_key_bool(w, "is_graph", t->is_graph);
    ebb_jsonw_key_uint(w, "graph_fixed_bytes", t->graph_fixed_bytes);
}

static int print_json(const struct report *r, size_t top)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    json_head(w, r);
    ebb_jsonw_key_array(w, "kinds");
    for (size_t i = 0; i < r->kind_count && i < top; i++) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_string(w, "kind", r->kinds[i].name);
        ebb_jsonw_key_uint(w, "ops", r->kinds[i].count);
        ebb_jsonw_key_uint(w, "ns", r->kinds[i].cost_ns);
        ebb_jsonw_key_uint(w, "output_bytes", r->kinds[i].bytes);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_array(w, "largest");
    for (size_t i = 0; i < r->largest_count; i++) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_uint(w, "storage", r->largest[i]);
        ebb_jsonw_key_uint(w, "bytes", r->t->storages[r->largest[i]].bytes);
        ebb_jsonw_key_uint(w, "op", r->lives[r->largest[i]].born);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    return cli_json_object_end(&json);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int stat_file(const char *file, size_t top, bool as_json)
{
    struct ebb_error err;
    struct trace *trace = NULL;
    struct report r = {.file = file};
    int code = 0;
    if (cli_load_trace(file, &trace, &err) != EBB_OK)
        return cli_report(&err);
    r.t = trace;
    if (trace_stats_compute(trace, &r.s, &err) != EBB_OK || count_kinds(&r, &err) != EBB_OK ||
        find_largest(&r, top, &err) != EBB_OK || cli_trace_lives(trace, &r.lives, &err) != EBB_OK) {
        code = cli_report(&err);
    } else if (as_json) {
        code = print_json(&r, top);
    } else {
        print_figures(&r);
        print_kinds(&r, top);
        print_largest(&r);
    }
    ebb_free(r.kinds);
    ebb_free(r.largest);
    ebb_free(r.lives);
    trace_destroy(trace);
    return code;
}

static int run(int argc, char **argv)
{
    int64_t top = 10;
    bool as_json = false;
    const struct cli_spec spec = {
        .usage = "ebb trace stat FILE... [--top N] [--json]",
        .description =
            "Says how much memory and time a trace needs on a machine without limits, "
            "and where they go. 'peak' is\n"
            "what --ratio of 'ebb sim' and 'ebb plan' is a ratio of; no budget below "
            "'leaves' or below the largest\n"
            "working set can work without moving data elsewhere.\n\n"
            "FILE may be a native or text trace, a DTR log, a graph file or an experiment file.\n\n"
            "Examples:\n"
            "  ebb trace stat resnet32.log\n"
            "  ebb trace stat *.log --json | jq '[.name, .baseline_bytes]'",
        CLI_OPTION_ROWS(
            {"top", 0, CLI_INT, &top, "N", "kinds and largest storages to list (default 10)"},
            {"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object per file"}),
        CLI_LIMITS({"top", 0, 1000}),
        CLI_POSITIONAL(1, SIZE_MAX),
    };
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    code = 0;
    for (size_t i = 0; code == 0 && i < args.positional_count; i++) {
        if (i > 0 && !as_json)
            putchar('\n');
        code = stat_file(args.positional[i], (size_t)top, as_json);
    }
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_trace_stat = {
    .name = "trace stat",
    .summary = "memory and time a trace needs, by kind of op and largest storages",
    .run = run,
};
