/* cmd_pareto.c - ebb pareto: how much slower models train in less memory, measured. */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/json.h"
#include "harness/harness.h"

struct settings {
    const char *output, *device;
    int64_t threads;
    bool dry_run, is_json;
};

struct view { /* what the callbacks of a run look at */
    const struct settings *o;
    struct ebb_progress *progress;
};

/* ---- words of a setting ---------------------------------------------------------------------- */

static const char *number_text(double value, int digits, char *buf, size_t size)
{
    if (isnan(value))
        snprintf(buf, size, "-");
    else
        snprintf(buf, size, "%.*f", digits, value);
    return buf;
}

/* "0.5", "48.0 MiB", "-": what it is limited to */
static const char *budget_text(const struct harness_setting *s, char *buf, size_t size)
{
    if (!isnan(s->ratio) && strcmp(s->kind, "ratio") == 0)
        return ebb_format_double(s->ratio, buf, size);
    if (!(s->memory_budget > 0))
        snprintf(buf, size, "no limit");
    else
        ebb_format_bytes((uint64_t)s->memory_budget, buf, size);
    return buf;
}

static void add_setting(struct cli_table *table, const struct harness_setting *s)
{
    char text[40];
    cli_table_cell(table, "%s", s->model);
    cli_table_cell(table, "%s", s->type);
    cli_table_cell(table, "%s", s->kind);
    cli_table_cell(table, "%s", number_text(s->batch_size, 0, text, sizeof text));
    cli_table_cell(table, "%s", budget_text(s, text, sizeof text));
}

/* ---- what would run -------------------------------------------------------------------------- */

static int list_trials(const struct harness_pareto *pareto, struct ebb_arena *arena, bool is_json)
{
    static const char *const headers[] = {"model", "type", "kind", "batch", "budget", "input"};
    struct harness_results r;
    struct ebb_error err = {0};
    int64_t *inputs;
    if (harness_pareto_list(arena, pareto, &r, &inputs, &err) != EBB_OK)
        return cli_report(&err);
    struct cli_table *table = is_json ? NULL : cli_table_create(headers, 6);
    for (size_t i = 0; i < r.count; i++)
        for (int64_t k = 0; k < inputs[i]; k++) {
            struct cli_json json;
            if (!is_json) {
                add_setting(table, &r.settings[i]);
                cli_table_cell(table, "%" PRId64, k);
                continue;
            }
            struct ebb_json_writer *w = cli_json_object(&json);
            ebb_jsonw_key_string(w, "model", r.settings[i].model);
            ebb_jsonw_key_int(w, "command_id", r.settings[i].command_id);
            ebb_jsonw_key_int(w, "input", k);
            ebb_doc_write_key(r.settings[i].params, w, "specific_params");
            cli_json_object_end(&json);
        }
    if (!is_json)
        cli_table_out(table);
    fprintf(stderr, "%zu trials\n", harness_pareto_trials(pareto));
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static void begin(void *context, const struct harness_setting *setting, int64_t input)
{
    const struct view *v = context;
    char text[40];
    ebb_progress_note(v->progress, "%s %s %s, input %" PRId64, setting->model, setting->type,
                      budget_text(setting, text, sizeof text), input);
}

static void key_point(struct ebb_json_writer *w, const char *key, struct harness_point p)
{
    if (!isnan(p.value))
        ebb_jsonw_key_double(w, key, p.value);
}

static void print_json(const struct harness_results *r, const struct harness_setting *s)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "model", s->model);
    ebb_jsonw_key_int(w, "command_id", s->command_id);
    ebb_doc_write_key(s->params, w, "specific_params");
    ebb_jsonw_key_string(w, "status", s->error ? "error" : "ok");
    if (s->error)
        ebb_jsonw_key_string(w, "error", s->error);
    for (int m = 0; m < HARNESS_MEASURES; m++)
        if (m != HARNESS_SLOWDOWN)
            key_point(w, harness_measure_info[m].name,
                      harness_setting_point(s, (enum harness_measure)m));
    struct harness_point slow = harness_slowdown(r, s);
    key_point(w, "slowdown", slow);
    if (!isnan(slow.low)) {
        ebb_jsonw_key_double(w, "slowdown_low", slow.low);
        ebb_jsonw_key_double(w, "slowdown_high", slow.high);
    }
    if (!s->error && s->input_count)
        ebb_jsonw_key_string(w, "gradients_sha256", s->inputs[0].gradients);
    if (!s->error && s->input_count && s->inputs[0].decided_by[0])
        ebb_jsonw_key_string(w, "decided_by", s->inputs[0].decided_by);
    cli_json_object_end(&json);
}

static void done(void *context, const struct harness_results *results,
                 const struct harness_setting *setting)
{
    struct view *v = context;
    int64_t inputs = (int64_t)setting->input_count;
    ebb_progress_add(v->progress, inputs > 0 ? (uint64_t)inputs : 1);
    if (v->o->is_json) {
        print_json(results, setting);
        fflush(stdout);
    }
}

static void print_results(const struct harness_results *r)
{
    static const char *const headers[] = {"model", "type",     "kind",      "batch", "budget",
                                          "ms",    "slowdown", "predicted", "peak",  "floor"};
    struct cli_table *table = cli_table_create(headers, 10);
    char text[40];
    for (size_t i = 0; i < r->count; i++) {
        const struct harness_setting *s = &r->settings[i];
        double peak = harness_setting_point(s, HARNESS_PEAK_BYTES).value;
        double floor = harness_setting_point(s, HARNESS_FLOOR_BYTES).value;
        struct harness_point slow = harness_slowdown(r, s);
        add_setting(table, s);
        cli_table_cell(
            table, "%s",
            number_text(harness_setting_point(s, HARNESS_TIME).value, 2, text, sizeof text));
        cli_table_cell(table, "%s", number_text(slow.value, 3, text, sizeof text));
        cli_table_cell(
            table, "%s",
            number_text(harness_setting_point(s, HARNESS_PREDICTED).value, 3, text, sizeof text));
        cli_table_cell(table, "%s",
                       isnan(peak) ? "-" : ebb_format_bytes((uint64_t)peak, text, sizeof text));
        cli_table_cell(table, "%s",
                       isnan(floor) ? "-" : ebb_format_bytes((uint64_t)floor, text, sizeof text));
    }
    cli_table_out(table);
    for (size_t i = 0; i < r->count; i++) {
        const struct harness_setting *s = &r->settings[i];
        const char *why = s->error ? s->error : harness_fallback(s);
        if (why)
            printf("%s %s %s: %s%s\n", s->model, s->type, budget_text(s, text, sizeof text),
                   s->error ? "" : "decided by ", why);
    }
}

/* A measurement wants the machine to itself. */
static void warn_if_busy(void)
{
    double load;
    int cores = ebb_cpu_count();
    if (getloadavg(&load, 1) == 1 && load > 0.5 * cores)
        fprintf(stderr,
                "ebb: warning: the machine is busy (load %.1f, %d cores): times will be too long; "
                "cpu_time suffers least\n",
                load, cores);
}

static int measure(const struct settings *o, const char *path, const struct harness_pareto *pareto,
                   struct ebb_arena *arena)
{
    struct harness_results results;
    struct ebb_error err = {0};
    struct view v = {.o = o,
                     .progress = ebb_progress_create("trials", harness_pareto_trials(pareto))};
    struct harness_how how = {.folder = o->output,
                              .device = o->device,
                              .threads = o->threads,
                              .is_cancelled = cli_interrupted,
                              .context = &v,
                              .begin = begin,
                              .done = done};
    warn_if_busy();
    cli_catch_interrupts();
    enum ebb_status status = harness_pareto_run(arena, pareto, &how, &results, &err);
    ebb_progress_destroy(v.progress);
    if (status == EBB_ECANCELED) {
        fprintf(stderr, "ebb: stopped; finished trials are in %s, 'ebb pareto %s -o %s' goes on\n",
                o->output, path, o->output);
        return 1;
    }
    if (status != EBB_OK)
        return cli_report(&err);
    if (!o->is_json) {
        print_results(&results);
        printf("results: %s/data.json ('ebb plot' draws them, 'ebb report %s' makes a page)\n",
               o->output, o->output);
    }
    return 0;
}

/* "examples/pareto.json" is measured into pareto.results, here. */
static char *default_output(struct ebb_arena *arena, const char *path)
{
    const char *name = ebb_file_name(path);
    const char *dot = strrchr(name, '.');
    int n = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    return ebb_arena_printf(arena, "%.*s.results", n, name);
}

static int run_file(struct settings *o, const char *path)
{
    struct ebb_arena arena = {0};
    struct harness_pareto *pareto = NULL;
    struct ebb_report report = {0};
    struct ebb_error err = {0};
    struct ebb_str lines = {0};
    bool is_cuda = o->device && strcmp(o->device, "cuda") == 0;
    enum ebb_status status = harness_pareto_read(&arena, path, is_cuda, &pareto, &report, &err);
    ebb_report_lines(&report, &lines);
    fputs(ebb_str_c(&lines), stderr);
    int code = 0;
    if (!o->output)
        o->output = default_output(&arena, path);
    if (status != EBB_OK && report.errors)
        fprintf(stderr, "ebb: error: %s: %zu mistake%s\n", path, report.errors,
                report.errors == 1 ? "" : "s");
    if (status != EBB_OK)
        code = report.errors ? 2 : cli_report(&err);
    else if (o->dry_run)
        code = list_trials(pareto, &arena, o->is_json);
    else if (!harness_pareto_is_active(pareto))
        fprintf(stderr, "ebb: %s: active is false: nothing is done\n", path);
    else
        code = measure(o, path, pareto, &arena);
    ebb_str_fini(&lines);
    ebb_arena_fini(&arena);
    return code;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void print_pairs(const struct harness_pairs *pairs)
{
    static const char *const headers[] = {"model", "type", "ratio", "what", "A", "B", "A/B"};
    struct cli_table *table = cli_table_create(headers, 7);
    char text[40];
    for (size_t i = 0; i < pairs->count; i++) {
        const struct harness_pair *p = &pairs->items[i];
        bool is_b_failed = p->b_error != NULL;
        cli_table_cell(table, "%s", p->a->model);
        cli_table_cell(table, "%s", p->a->type);
        cli_table_cell(table, "%s", number_text(p->ratio, 3, text, sizeof text));
        cli_table_cell(table, "%s", p->is_baseline ? "ms" : "slowdown");
        cli_table_cell(table, "%s",
                       p->a->error ? "failed"
                                   : number_text(p->a_value.value, 3, text, sizeof text));
        cli_table_cell(table, "%s%s",
                       is_b_failed ? "failed" : number_text(p->b_value.value, 3, text, sizeof text),
                       p->is_between ? " ~" : "");
        cli_table_cell(table, "%s",
                       number_text(p->a_value.value / p->b_value.value, 3, text, sizeof text));
    }
    cli_table_out(table);
    puts("~: on the straight line between B's neighbouring budgets");
}

static void print_pairs_json(const struct harness_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        const struct harness_pair *p = &pairs->items[i];
        struct cli_json json;
        struct ebb_json_writer *w = cli_json_object(&json);
        ebb_jsonw_key_string(w, "model", p->a->model);
        ebb_jsonw_key_string(w, "type", p->a->type);
        ebb_jsonw_key_double(w, "ratio", p->ratio);
        ebb_jsonw_key_string(w, "what", p->is_baseline ? "ms" : "slowdown");
        ebb_jsonw_key_double(w, "a", p->a_value.value);
        ebb_jsonw_key_double(w, "b", p->b_value.value);
        ebb_jsonw_key_bool(w, "b_is_between", p->is_between);
        ebb_jsonw_key_string(w, "a_error", p->a->error);
        ebb_jsonw_key_string(w, "b_error", p->b_error);
        cli_json_object_end(&json);
    }
}

static int compare_files(const char *const *paths, bool is_json)
{
    struct ebb_arena arena = {0};
    struct ebb_error err = {0};
    struct harness_results results[2];
    struct harness_pairs pairs;
    enum ebb_status status = EBB_OK;
    for (int i = 0; i < 2 && status == EBB_OK; i++)
        status = harness_results_read(&arena, paths[i], &results[i], &err);
    EBB_THEN(status, harness_compare(&arena, &results[0], &results[1], &pairs, &err));
    int code = status == EBB_OK ? 0 : cli_report(&err);
    if (status == EBB_OK && is_json)
        print_pairs_json(&pairs);
    else if (status == EBB_OK)
        print_pairs(&pairs);
    ebb_arena_fini(&arena);
    return code;
}

static int run_compare(int argc, char **argv)
{
    bool is_json = false;
    const struct cli_spec spec = {
        .usage = "ebb pareto compare A B [--json]",
        .description =
            "Two results side by side: every setting of A with what B measured for the same model\n"
            "at the same part of its own baseline's peak. Baselines are compared in milliseconds,\n"
            "the others by their slowdown over the baseline of their own file, so results of\n"
            "different machines can be compared, the published ones of a GPU included.\n"
            "\n"
            "Example:\n"
            "  ebb pareto compare pareto.results/data.json published/data-full.json",
        CLI_OPTION_ROWS({"json", 0, CLI_FLAG, &is_json, NULL, "one object per setting of A"}),
        CLI_POSITIONAL(2, 2),
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0)
        code = compare_files(args.positional, is_json);
    cli_args_fini(&args);
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run(int argc, char **argv)
{
    struct settings o = {0};
    if (argc > 1 && strcmp(argv[1], "compare") == 0)
        return run_compare(argc - 1, argv + 1);
    const struct cli_spec spec = {
        .usage = "ebb pareto FILE [--dry-run] [-o DIR] | ebb pareto compare A B",
        .description =
            "Measure how much slower models train in less memory: every setting of a Pareto file\n"
            "(docs/pareto.md; the format of the published DTR harness) is run in a process of its\n"
            "own, one at a time, a baseline without limit before what is compared with it. A\n"
            "repetition is forward, loss and backward pass; losses and gradients are the same "
            "bits\n"
            "in every budget.\n"
            "\n"
            "Finished trials are kept in the folder of results: a run that was stopped or killed\n"
            "goes on where it was. Failed ones are tried again.\n"
            "\n"
            "Examples:\n"
            "  ebb pareto examples/pareto.json --dry-run    which trials would run\n"
            "  ebb pareto examples/pareto.json -o curves    run them; curves/data.json\n"
            "  ebb pareto compare curves/data.json published/data-full.json",
        CLI_OPTION_ROWS(
            {"dry-run", 0, CLI_FLAG, &o.dry_run, NULL, "list the trials and run none"},
            {"output", 'o', CLI_STRING, &o.output, "DIR",
             "folder of results; the name of FILE with .results when absent"},
            {"device", 0, CLI_STRING, &o.device, "NAME", "where steps run: cpu (default) or cuda"},
            {"threads", 0, CLI_INT, &o.threads, "N", "of kernels; all cores when absent"},
            {"json", 0, CLI_FLAG, &o.is_json, NULL, "one object per setting as it is done"}),
        CLI_LIMITS({"threads", 1, 1024}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0 && o.device && !ebb_words_find("cpu cuda far", o.device, strlen(o.device), NULL))
        code = cli_usage_error("--device: found '%s', allowed: cpu, cuda, far", o.device);
    if (code < 0)
        code = run_file(&o, args.positional[0]);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_pareto = {
    .name = "pareto",
    .summary = "measure how much slower training is in less memory",
    .run = run,
};
