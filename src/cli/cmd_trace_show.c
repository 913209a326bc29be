/* cmd_trace_show.c - ebb trace show: the ops or the storages of a trace, one per line. */
#include <string.h>

#include "base/heap.h"
#include "cli/cmd_trace.h"
#include "cli/train_file.h"
#include "cli/json.h"

struct show {
    const struct trace *t;
    const struct cli_trace_life *lives; /* per storage */
    uint32_t from, end;
};

enum ebb_status cli_trace_lives(const struct trace *trace, struct cli_trace_life **lives,
                                struct ebb_error *err)
{
    size_t count = (size_t)trace->storage_count + 1;
    struct cli_trace_life *made = ebb_calloc(count, sizeof *made);
    uint32_t *handles = ebb_calloc(count, sizeof *handles);
    if (made == NULL || handles == NULL) {
        ebb_free(made);
        ebb_free(handles);
        return ebb_no_memory(err, count * sizeof *made);
    }
    for (uint32_t s = 0; s < trace->storage_count; s++)
        made[s] = (struct cli_trace_life){.born = trace->tensors[trace->storages[s].root].op,
                                          .last_read = TRACE_NONE,
                                          .freed = TRACE_NONE};
    uint32_t op = 0;
    for (uint32_t i = 0; i < trace->command_count; i++) {
        const struct trace_command *cmd = &trace->commands[i];
        if (cmd->kind == TRACE_RUN) {
            const struct trace_op *o = &trace->ops[op = cmd->index];
            for (uint32_t k = 0; k < o->input_count; k++)
                made[trace->tensors[trace->inputs[o->input_first + k]].storage].last_read = op;
            for (uint32_t k = 0; k < o->output_count; k++)
                handles[trace_output_of(trace, o, k)->storage]++;
            continue;
        }
        uint32_t s = trace->tensors[cmd->index].storage;
        if (cmd->kind == TRACE_GET)
            handles[s]++;
        else if (cmd->kind == TRACE_RELEASE)
            made[s].freed = --handles[s] == 0 ? op : TRACE_NONE;
        else
            made[s].is_kept |= op + 1 == trace->op_count;
    }
    ebb_free(handles);
    *lives = made;
    return EBB_OK;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static void json_op(struct ebb_json_writer *w, const struct show *s, uint32_t o)
{
    static const char *const aliases[] = {"fresh", "view", "mutate"};
    const struct trace *t = s->t;
    const struct trace_op *op = &t->ops[o];
    ebb_jsonw_object(w);
    ebb_jsonw_key_uint(w, "op", o);
    ebb_jsonw_key_string(w, "kind", op->kind->name);
    ebb_jsonw_key_string(w, "label", trace_label(t, op));
    ebb_jsonw_key_string(w, "phase", cli_trace_phases[op->phase]);
    ebb_jsonw_key_bool(w, "is_leaf", op->is_leaf);
    ebb_jsonw_key_uint(w, "cost_ns", op->cost_ns);
    ebb_jsonw_key_uint(w, "workspace_bytes", op->workspace_bytes);
    cli_trace_json_index(w, "partner", op->partner);
    ebb_jsonw_key_array(w, "inputs");
    for (uint32_t i = 0; i < op->input_count; i++)
        ebb_jsonw_uint(w, t->inputs[op->input_first + i]);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_array(w, "outputs");
    for (uint32_t i = 0; i < op->output_count; i++) {
        const struct trace_tensor *x = trace_output_of(t, op, i);
        ebb_jsonw_object(w);
        ebb_jsonw_key_uint(w, "tensor", op->output_first + i);
        ebb_jsonw_key_string(w, "is", aliases[x->alias]);
        ebb_jsonw_key_uint(w, "storage", x->storage);
        ebb_jsonw_key_uint(w, "version", x->version);
        ebb_jsonw_key_uint(w, "bytes", t->storages[x->storage].bytes);
        cli_trace_json_index(w, "last_read", s->lives[x->storage].last_read);
        cli_trace_json_index(w, "freed", s->lives[x->storage].freed);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    ebb_jsonw_object_end(w);
}

static void cell_index(struct cli_table *table, uint32_t value)
{
    cli_table_cell(table, value == TRACE_NONE ? "-" : "%u", value);
}

void cli_trace_cell_life(struct cli_table *table, const struct cli_trace_life *life)
{
    cell_index(table, life->last_read);
    if (life->is_kept)
        cli_table_cell(table, "kept");
    else
        cell_index(table, life->freed);
}

static void cell_inputs(struct cli_table *table, const struct trace *t, const struct trace_op *op)
{
    char text[64] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (used > 24) {
            snprintf(text + used, sizeof text - used, " +%u", op->input_count - i);
            break;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%st%u", i > 0 ? " " : "",
                                 t->inputs[op->input_first + i]);
    }
    cli_table_cell(table, "%s", text);
}

/* "t7", "t7 t8", "t7=t3" for a view of t3, "t7!t3" for t3 written in place. */
static void cell_outputs(struct cli_table *table, const struct trace *t, const struct trace_op *op)
{
    char text[64] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < op->output_count; i++) {
        const struct trace_tensor *x = trace_output_of(t, op, i);
        if (used > 24) {
            snprintf(text + used, sizeof text - used, " +%u", op->output_count - i);
            break;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%st%u", i > 0 ? " " : "",
                                 op->output_first + i);
        if (x->alias != TRACE_FRESH)
            used += (size_t)snprintf(text + used, sizeof text - used, "%ct%u",
                                     x->alias == TRACE_VIEW ? '=' : '!',
                                     t->inputs[op->input_first + x->alias_input]);
    }
    cli_table_cell(table, "%s", text);
}

static void row_op(struct cli_table *table, const struct show *s, uint32_t o)
{
    const struct trace *t = s->t;
    const struct trace_op *op = &t->ops[o];
    const struct cli_trace_life *life = &s->lives[trace_output_of(t, op, 0)->storage];
    uint64_t bytes = 0;
    char a[32], b[32], c[32];
    for (uint32_t i = 0; i < op->output_count; i++)
        if (trace_output_of(t, op, i)->alias == TRACE_FRESH)
            bytes += t->storages[trace_output_of(t, op, i)->storage].bytes;
    cli_table_cell(table, "%u", o);
    cli_table_cell(table, "%s", op->is_leaf ? "leaf" : cli_trace_phases[op->phase]);
    cli_table_cell(table, "%s", op->kind->name);
    cli_table_cell(table, "%s", trace_label(t, op));
    cli_table_cell(table, "%s", ebb_format_ns(op->cost_ns, a, sizeof a));
    cli_table_cell(table, "%s", ebb_format_bytes(bytes, b, sizeof b));
    cli_table_cell(table, "%s",
                   op->workspace_bytes > 0 ? ebb_format_bytes(op->workspace_bytes, c, sizeof c)
                                           : "-");
    cell_inputs(table, t, op);
    cell_outputs(table, t, op);
    cli_trace_cell_life(table, life);
}

/* ---- storages -------------------------------------------------------------------------------- */

static void json_storage(struct ebb_json_writer *w, const struct show *s, uint32_t id)
{
    const struct trace *t = s->t;
    const struct cli_trace_life *life = &s->lives[id];
    ebb_jsonw_object(w);
    ebb_jsonw_key_uint(w, "storage", id);
    ebb_jsonw_key_uint(w, "bytes", t->storages[id].bytes);
    ebb_jsonw_key_uint(w, "root", t->storages[id].root);
    ebb_jsonw_key_uint(w, "versions", t->storages[id].version_count);
    ebb_jsonw_key_uint(w, "op", life->born);
    ebb_jsonw_key_string(w, "kind", t->ops[life->born].kind->name);
    ebb_jsonw_key_string(w, "label", trace_label(t, &t->ops[life->born]));
    cli_trace_json_index(w, "last_read", life->last_read);
    cli_trace_json_index(w, "freed", life->freed);
    ebb_jsonw_key_bool(w, "is_kept", life->is_kept);
    ebb_jsonw_object_end(w);
}

static void row_storage(struct cli_table *table, const struct show *s, uint32_t id)
{
    const struct trace *t = s->t;
    const struct cli_trace_life *life = &s->lives[id];
    char a[32];
    cli_table_cell(table, "%u", id);
    cli_table_cell(table, "%s", ebb_format_bytes(t->storages[id].bytes, a, sizeof a));
    cli_table_cell(table, "t%u", t->storages[id].root);
    cli_table_cell(table, "%u", t->storages[id].version_count);
    cli_table_cell(table, "%s", t->ops[life->born].kind->name);
    cli_table_cell(table, "%s", trace_label(t, &t->ops[life->born]));
    cli_table_cell(table, "%u", life->born);
    cli_trace_cell_life(table, life);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int show_json(const struct show *s, bool storages)
{
    for (uint32_t i = s->from; i < s->end; i++) {
        struct cli_json json;
        struct ebb_json_writer *w = cli_json_begin(&json);
        if (storages)
            json_storage(w, s, i);
        else
            json_op(w, s, i);
        int code = cli_json_end(&json);
        if (code != 0)
            return code;
    }
    return 0;
}

static int show_table(const struct show *s, bool storages)
{
    static const char *const op_columns[] = {"op",      "phase",     "kind",  "label",
                                             "time",    "bytes",     "space", "inputs",
                                             "outputs", "last read", "freed"};
    static const char *const storage_columns[] = {
        "storage", "bytes", "root", "versions", "kind", "label", "op", "last read", "freed"};
    struct cli_table *table =
        storages
            ? cli_table_create(storage_columns, sizeof storage_columns / sizeof *storage_columns)
            : cli_table_create(op_columns, sizeof op_columns / sizeof *op_columns);
    if (table == NULL) {
        struct ebb_error err;
        ebb_no_memory(&err, sizeof(void *));
        return cli_report(&err);
    }
    for (uint32_t i = s->from; i < s->end; i++)
        if (storages)
            row_storage(table, s, i);
        else
            row_op(table, s, i);
    cli_table_out(table);
    uint32_t total = storages ? s->t->storage_count : s->t->op_count;
    if (s->end < total)
        printf("... %u more; --first N shows more, --first 0 all, --from N starts elsewhere\n",
               total - s->end);
    return 0;
}

static int run(int argc, char **argv)
{
    int64_t first = 40, from = 0;
    bool storages = false, as_json = false;
    const struct cli_spec spec = {
        .usage = "ebb trace show FILE [--storages] [--first N] [--from N] [--json]",
        .description =
            "Lists the ops of a trace in the order they run: what each costs, the bytes "
            "of its new outputs, the\n"
            "workspace it needs while it runs, the tensors it reads and makes (t7=t3: "
            "t7 is a view of t3; t7!t3:\n"
            "t3 is written in place), the last op that reads its first output's storage "
            "and the op after which\n"
            "that storage is freed. With --storages: one line per storage instead.\n\n"
            "FILE may be a native or text trace, a DTR log, a graph file or an experiment file.\n\n"
            "Examples:\n"
            "  ebb trace show resnet32.log --first 100\n"
            "  ebb trace show gpt.trace --storages --from 200 --json",
        CLI_OPTION_ROWS({"first", 0, CLI_INT, &first, "N", "rows to show; 0 = all (default 40)"},
                        {"from", 0, CLI_INT, &from, "N", "op or storage to start at (default 0)"},
                        {"storages", 0, CLI_FLAG, &storages, NULL, "list storages instead of ops"},
                        {"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object per row"}),
        CLI_LIMITS({"first", 0, 1e9}, {"from", 0, 1e9}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct ebb_error err;
    struct trace *trace = NULL;
    struct cli_trace_life *lives = NULL;
    if (cli_load_trace(args.positional[0], &trace, &err) != EBB_OK ||
        cli_trace_lives(trace, &lives, &err) != EBB_OK) {
        code = cli_report(&err);
    } else {
        uint32_t total = storages ? trace->storage_count : trace->op_count;
        struct show s = {.t = trace, .lives = lives};
        s.from = from < total ? (uint32_t)from : total;
        s.end = first == 0 || first > total - s.from ? total : s.from + (uint32_t)first;
        code = as_json ? show_json(&s, storages) : show_table(&s, storages);
    }
    ebb_free(lives);
    trace_destroy(trace);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_trace_show = {
    .name = "trace show",
    .summary = "list ops or storages: bytes, costs, inputs, lifetimes",
    .run = run,
};
