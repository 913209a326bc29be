/* cmd_plan.c - `ebb plan`: schedules with recomputation for a budget, proved, with a bound. */
#include "cli/link.h"
#include "cli/cmd_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/train_file.h"
#include "cli/json.h"

#define MAX_ROWS 4096

/* ---- rows ----------------------------------------------------------------------------------- */

static enum ebb_status load(const void *changes, const char *path, struct trace **trace,
                            struct ebb_error *err)
{
    return cli_load_trace_with(path, changes, trace, err);
}

struct study_how cli_plan_how(void)
{
    static const struct cli_train_changes none = {.seed = -1};
    cli_catch_interrupts();
    return (struct study_how){.gap = 0.005,
                              .points = 32,
                              .segments = 300,
                              .jobs = ebb_cpu_count(),
                              .load = load,
                              .context = &none,
                              .is_cancelled = cli_interrupted};
}

void cli_plan_print_json(const struct study_row *row)
{
    struct cli_json json;
    const struct planner_result *r = &row->result;
    bool is_ok = r->status == PLANNER_OK, is_placed = is_ok && !row->request.no_addresses;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "graph", row->graph->path);
    ebb_jsonw_key_string(w, "planner", row->label ? row->label : row->planner->name);
    ebb_jsonw_key_double(w, "ratio", row->ratio);
    ebb_jsonw_key_uint(w, "budget_bytes", row->request.budget_bytes);
    ebb_jsonw_key_string(w, "status", planner_status_text(r->status));
    const struct {
        const char *key;
        uint64_t value;
        bool is_there;
    } numbers[] = {{"cost", r->cost, is_ok},
                   {"peak_bytes", r->peak_bytes, is_ok},
                   {"height_bytes", r->height_bytes, is_placed},
                   {"base_cost", r->base_cost, is_ok}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ebb_jsonw_key_uint_or_null(w, numbers[i].key, numbers[i].value, numbers[i].is_there);
    ebb_jsonw_key_double(w, "overhead", study_overhead(row));
    ebb_jsonw_key_double(w, "lower_bound", r->lower_bound > 0 ? r->lower_bound : NAN);
    ebb_jsonw_key_string(w, "bound_class", planner_bound_text(r->bound_class));
    ebb_jsonw_key_bool(w, "optimal", r->optimal);
    ebb_jsonw_key_double(w, "gap", r->gap);
    ebb_jsonw_key_string(w, "winner", r->winner[0] ? r->winner : NULL);
    ebb_jsonw_key_string(w, "note", r->note[0] ? r->note : NULL);
    ebb_jsonw_key_double(w, "seconds", r->seconds);
    cli_json_object_end(&json);
}

void cli_plan_print_table(const struct study_row *rows, size_t count)
{
    static const char *const headers[] = {"graph",    "planner", "budget",  "status",
                                          "overhead", "bound",   "gap %",   "peak",
                                          "height",   "seconds", "found by"};
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof *headers);
    char text[3][32];
    for (size_t i = 0; i < count && table; i++) {
        const struct study_row *row = &rows[i];
        const struct planner_result *r = &row->result;
        if (!row->is_done)
            continue;
        double base = (double)r->base_cost;
        cli_table_cell(table, "%s", ebb_file_name(row->graph->path));
        cli_table_cell(table, "%s", row->label ? row->label : row->planner->name);
        cli_table_cell(table, "%s",
                       row->request.budget_bytes == UINT64_MAX
                           ? "unlimited"
                           : ebb_format_bytes(row->request.budget_bytes, text[0], 32));
        cli_table_cell(table, "%s%s", planner_status_text(r->status), r->optimal ? " *" : "");
        cli_table_cell(table, r->status == PLANNER_OK ? "%.6f" : "-", (double)r->cost / base);
        cli_table_cell(table, r->lower_bound > 0 ? "%.6f" : "-", r->lower_bound / base);
        cli_table_cell(table, isnan(r->gap) ? "-" : "%.3f", 100 * r->gap);
        cli_table_cell(table, "%s",
                       r->status == PLANNER_OK ? ebb_format_bytes(r->peak_bytes, text[1], 32)
                                               : "-");
        cli_table_cell(table, "%s",
                       r->status == PLANNER_OK && !row->request.no_addresses
                           ? ebb_format_bytes(r->height_bytes, text[2], 32)
                           : "-");
        cli_table_cell(table, "%.2f", r->seconds);
        cli_table_cell(table, "%s", r->status == PLANNER_OK ? r->winner : r->note);
    }
    cli_table_out(table);
}

/* ---- the command ---------------------------------------------------------------------------- */

struct settings {
    struct cli_list planners, ratios, budgets;
    const char *output, *write_lp;
    struct study_how how;
    double in_rate, out_rate;
    int64_t latency_ns;
    uint64_t old_host_bytes, old_file_bytes;
    struct cli_list links;
    struct planner_tiers tiers;
    int64_t effort, seed;
    uint64_t host_bytes, file_bytes;
    bool no_addresses, is_json;
};

static int unknown_planner(const char *name)
{
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < planner_count && count < 64; i++)
        names[count++] = planner_table[i].name;
    const char *near = ebb_nearest(name, names, count);
    struct ebb_str list = {0};
    for (size_t i = 0; i < count; i++)
        ebb_str_printf(&list, "%s%s", i ? ", " : "", names[i]);
    int code = near ? cli_usage_error("--planner: unknown planner '%s'; did you mean '%s'? (%s)",
                                      name, near, ebb_str_c(&list))
                    : cli_usage_error("--planner: unknown planner '%s'; known: %s", name,
                                      ebb_str_c(&list));
    ebb_str_fini(&list);
    return code;
}

static void fill_request(const struct settings *set, struct study_row *row)
{
    planner_request_init(&row->request);
    row->request.gap = set->how.gap;
    row->request.effort = (int)set->effort;
    row->request.time_limit_s = set->how.time_limit;
    row->request.seed = (uint64_t)set->seed;
    row->request.write_lp = set->write_lp;
    row->request.tiers = set->tiers;
    row->request.no_addresses = set->no_addresses;
    row->request.is_bounded = true;
}

/* Is one of the planners asked for of that kind? */
static bool asks_for(const struct settings *set, enum planner_flag flag)
{
    for (size_t p = 0; p < set->planners.count; p++) {
        const struct planner *planner = planner_find(set->planners.items[p]);
        if (planner && (planner->flags & flag))
            return true;
    }
    return set->planners.count == 0 && (planner_find("best")->flags & flag);
}

/* Lower tiers: each has room and rates, or neither. */
static int read_tiers(struct settings *set)
{
    static const char *const names[] = {NULL, "host", "file"};
    struct planner_tiers *t = &set->tiers;
    t->bytes[DEVICE_HOST] = set->host_bytes ? set->host_bytes : set->old_host_bytes;
    t->bytes[DEVICE_FILE] = set->file_bytes ? set->file_bytes : set->old_file_bytes;
    t->links.out[DEVICE_HOST].bytes_per_ns = set->out_rate;
    t->links.in[DEVICE_HOST].bytes_per_ns = set->in_rate;
    int code = cli_read_links(&set->links, &t->links);
    for (int k = DEVICE_HOST; k < DEVICE_TIERS && code < 0; k++) {
        bool has_out = t->links.out[k].bytes_per_ns > 0, has_in = t->links.in[k].bytes_per_ns > 0;
        if (t->bytes[k] > 0 && !(has_out && has_in))
            code = cli_usage_error("--%s needs the rates of its link: --link %s=GB/s", names[k],
                                   names[k]);
        else if (t->bytes[k] == 0 && (has_out || has_in))
            code = cli_usage_error("--link %s needs room there: --%s BYTES", names[k], names[k]);
        t->links.out[k].latency_ns = t->links.in[k].latency_ns = (uint64_t)set->latency_ns;
    }
    return code;
}

/* Options that none of the planners reads. Returns -1, or the exit code. */
static int refuse_unused(const struct settings *set)
{
    if (planner_has_tiers(&set->tiers) && !asks_for(set, PLANNER_HOST))
        return cli_usage_error("--host and --file need a planner that copies: --planner unified, "
                               "floor, belady, capuchin or joint");
    if (set->write_lp && !asks_for(set, PLANNER_LP))
        return cli_usage_error("--write-lp needs --planner best, ilp or joint: others have no "
                               "model");
    return -1;
}

/* Graph-major, then planner, then budget. Returns -1, or the exit code of a usage error. */
static int make_rows(const struct settings *set, const struct study_graph *graphs,
                     size_t graph_count, struct study_row *rows, size_t *count)
{
    size_t points = set->ratios.count + set->budgets.count;
    size_t planners = set->planners.count ? set->planners.count : 1;
    if (points == 0)
        return cli_usage_error(
            "say how much memory there is: --ratio R[,R...] or --budget B[,B...]");
    int unused = refuse_unused(set);
    if (unused >= 0)
        return unused;
    if (graph_count * planners * points > MAX_ROWS)
        return cli_usage_error("%zu rows asked for, at most %d", graph_count * planners * points,
                               MAX_ROWS);
    for (size_t g = 0; g < graph_count; g++)
        for (size_t p = 0; p < planners; p++)
            for (size_t k = 0; k < points; k++) {
                const char *name = set->planners.count ? set->planners.items[p] : "best";
                struct study_row *row = &rows[(*count)++];
                *row = (struct study_row){
                    .graph = &graphs[g], .planner = planner_find(name), .ratio = NAN};
                if (!row->planner)
                    return unknown_planner(name);
                fill_request(set, row);
                if (k < set->ratios.count) {
                    if (!ebb_parse_double(set->ratios.items[k], &row->ratio) || row->ratio <= 0 ||
                        row->ratio > 1e6)
                        return cli_usage_error(
                            "--ratio: found '%s', allowed: a number above 0, at most 1e6",
                            set->ratios.items[k]);
                    row->request.budget_bytes =
                        (uint64_t)((double)graphs[g].ratio_base * row->ratio);
                    continue;
                }
                const char *text = set->budgets.items[k - set->ratios.count];
                struct ebb_error err;
                if (strcmp(text, "unlimited") == 0)
                    row->request.budget_bytes = UINT64_MAX;
                else if (ebb_parse_bytes(text, &row->request.budget_bytes, &err) != EBB_OK)
                    return cli_usage_error("--budget: %s", err.message);
            }
    return -1;
}

static int finish(const struct settings *set, struct study_row *rows, size_t count)
{
    struct ebb_error err;
    size_t ok = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].is_done && set->is_json)
            cli_plan_print_json(&rows[i]);
        ok += rows[i].is_done && rows[i].result.status == PLANNER_OK;
    }
    if (!set->is_json)
        cli_plan_print_table(rows, count);
    if (set->output && ok > 0 && plan_write(&rows[0].result.plan, set->output, &err) != EBB_OK)
        return cli_report(&err);
    return ok > 0 ? 0 : 1;
}

static int plan_files(struct settings *set, const struct cli_args *args)
{
    struct study_graph *graphs = ebb_calloc(args->positional_count, sizeof *graphs);
    struct study_row *rows = ebb_calloc(MAX_ROWS, sizeof *rows);
    size_t loaded = 0, count = 0;
    int code = -1;
    struct ebb_error err;
    enum ebb_status status = graphs && rows ? EBB_OK : ebb_no_memory(&err, sizeof *rows);
    for (; status == EBB_OK && loaded < args->positional_count; loaded++)
        status = study_load(&graphs[loaded], args->positional[loaded], &set->how, &err);
    if (status == EBB_OK)
        code = make_rows(set, graphs, loaded, rows, &count);
    if (status == EBB_OK && code < 0 && (set->output || set->write_lp) && count != 1)
        code =
            cli_usage_error("--output and --write-lp need exactly one row, there are %zu", count);
    if (status == EBB_OK && code < 0) {
        if (set->write_lp)
            set->how.jobs = 1;
        status = study_run(rows, count, &set->how, &err);
        if (status == EBB_OK)
            code = finish(set, rows, count);
    }
    if (status != EBB_OK)
        code = cli_report(&err);
    if (rows)
        study_rows_fini(rows, count);
    for (size_t g = 0; graphs && g < args->positional_count; g++)
        study_unload(&graphs[g]);
    ebb_free(graphs);
    return code;
}

static int run_plan(int argc, char **argv)
{
    struct cli_train_changes changes = {.seed = -1};
    struct settings set = {.how = cli_plan_how(), .effort = 1};
    set.how.time_limit = 60;
    set.how.context = &changes;
    const struct cli_spec spec = {
        .usage = "ebb plan FILE... [--planner P[,P...]] (--ratio R[,R...] | --budget B[,B...])",
        .description =
            "Plan a training step under a memory budget: what is kept, what is run again. FILE is "
            "a\n"
            "Checkmate graph, a DTR log, a trace or an experiment file. Every plan printed has "
            "been\n"
            "proved by a checker. A star marks a proven optimum. For graphs budgets count "
            "activation\n"
            "bytes. With lower tiers (--host, --file) plans may copy, too: costs are times on the "
            "null\n"
            "device, copies beside the ops; the bound is on all plans that keep weights and "
            "optimizer\n"
            "state in tier 0. Where another program gives addresses, --no-addresses asks for plans "
            "that\n"
            "keep the budget by the sum of bytes, without moves.\n\n"
            "Verbs:\n"
            "  show        print a plan file step by step\n"
            "  sweep       overhead versus memory, all methods: CSV and chart\n"
            "  figure      the same for several graphs in stages, one chart and a table\n"
            "  approx      how far approximations are from the best plan\n"
            "  gap         the integrality gap of the models\n"
            "  solve-time  seconds to a plan, method by method\n"
            "  maxbatch    the largest batch that fits\n\n"
            "Examples:\n"
            "  ebb plan vgg16.json --ratio 0.9,0.8,0.7\n"
            "  ebb plan unet.json --planner best,chen_sqrtn,griewank --budget 4GiB\n"
            "  ebb plan step.trace --budget 48MiB -o step.plan\n"
            "  ebb plan step.trace --budget 48MiB --no-addresses -o step.plan\n"
            "  ebb plan exp.yaml --ratio 0.5\n"
            "  ebb plan step.trace -p unified -r 0.3 --host 8GiB --link host=12",
        CLI_OPTION_ROWS(
            {"planner", 'p', CLI_LIST, &set.planners, "P[,P...]",
             "best (default), floor, all, all_ap, last, chen_sqrtn, chen_sqrtn_noap,\n"
             "chen_greedy, chen_greedy_noap, griewank, rotor, knapsack, ilp, lp_round; with\n"
             "lower tiers: unified, floor, belady, capuchin, joint (up to 40 ops)"},
            {"ratio", 'r', CLI_LIST, &set.ratios, "R[,R...]",
             "budgets as fractions of the least peak without recomputation"},
            {"budget", 'b', CLI_LIST, &set.budgets, "B[,B...]",
             "budgets in bytes: 48MiB, unlimited"},
            {"gap", 0, CLI_DOUBLE, &set.how.gap, "G",
             "stop within this fraction of the bound (default 0.005; 0 = prove)"},
            {"effort", 0, CLI_INT, &set.effort, "N",
             "0: first good plan (milliseconds), 1: default, 2 and 3: search longer"},
            {"time-limit", 0, CLI_DOUBLE, &set.how.time_limit, "S", "seconds per row (default 60)"},
            {"jobs", 'j', CLI_INT, &set.how.jobs, "N", "rows at a time (default: all cores)"},
            {"seed", 0, CLI_INT, &set.seed, "N", "of the search (default 0)"},
            {"host", 0, CLI_BYTES, &set.host_bytes, "BYTES",
             "unified, floor, belady, capuchin, joint: host memory for copies"},
            {"file", 0, CLI_BYTES, &set.file_bytes, "BYTES", "the same: a file for copies"},
            {"link", 0, CLI_LIST, &set.links, "TIER=GB/s",
             "rates both ways of each tier given, as host=12,file=2"},
            {"latency", 0, CLI_INT, &set.latency_ns, "NS", "of every copy (default 0)"},
            {"host-bytes", 0, CLI_BYTES, &set.old_host_bytes, "BYTES", "the same as --host"},
            {"file-bytes", 0, CLI_BYTES, &set.old_file_bytes, "BYTES", "the same as --file"},
            {"host-out", 0, CLI_DOUBLE, &set.out_rate, "GB/s", "the way out of --link host=GB/s"},
            {"host-in", 0, CLI_DOUBLE, &set.in_rate, "GB/s", "the way in of --link host=GB/s"},
            {"no-addresses", 0, CLI_FLAG, &set.no_addresses, NULL,
             "plans for a runtime that places storages itself: byte sums, no moves"},
            {"output", 'o', CLI_STRING, &set.output, "FILE", "write the plan of the first row"},
            {"device", 0, CLI_STRING, &changes.device, "NAME",
             "of experiment files: cpu, cuda or a kind that is not here: nvidia-h200"},
            {CLI_TRAIN_COSTS(&changes)},
            {"write-lp", 0, CLI_STRING, &set.write_lp, "FILE",
             "ilp, best, joint: write the model for another solver, too"},
            {"json", 0, CLI_FLAG, &set.is_json, NULL, "one object per row"}),
        CLI_LIMITS(CLI_PLAN_LIMITS, {"effort", 0, 3}, {"seed", 0, 1e18}, {"latency", 0, 1e12},
                   {"host-out", DEVICE_LEAST_RATE, DEVICE_MOST_RATE},
                   {"host-in", DEVICE_LEAST_RATE, DEVICE_MOST_RATE}),
        CLI_NEEDS({"host-bytes", "!host"}, {"file-bytes", "!file"}, {"host-out", "!link"},
                  {"host-in", "!link"}, {"latency", "host file host-bytes file-bytes"}),
        CLI_POSITIONAL(1, 64),
    };
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    code = read_tiers(&set);
    if (code < 0)
        code = plan_files(&set, &args);
    cli_args_fini(&args);
    return code;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} verbs[] = {{"show", cli_plan_show},        {"sweep", cli_plan_sweep},
             {"figure", cli_plan_figure},    {"approx", cli_plan_approx},
             {"gap", cli_plan_gap},          {"solve-time", cli_plan_solve_time},
             {"maxbatch", cli_plan_maxbatch}};
#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static int run(int argc, char **argv)
{
    const char *names[VERB_COUNT];
    for (size_t i = 0; i < VERB_COUNT; i++) {
        names[i] = verbs[i].name;
        if (argc > 1 && strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    }
    /* Neither an option nor a file that is there: perhaps a verb was meant. */
    if (argc > 1 && argv[1][0] != '-' && access(argv[1], F_OK) != 0) {
        const char *near = ebb_nearest(argv[1], names, VERB_COUNT);
        if (near)
            return cli_usage_error("no file '%s'; did you mean 'ebb plan %s'?", argv[1], near);
    }
    return run_plan(argc, argv);
}

const struct cli_command cli_cmd_plan = {
    .name = "plan",
    .summary = "plan a training step under a memory budget, with proofs",
    .run = run};
