/* cmd_plot.c - ebb plot: charts of results, in files or on the terminal. */
#include "cli/cli.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/names.h"
#include "base/str.h"
#include "cli/json.h"
#include "harness/harness.h"
#include "plot/plot.h"

enum { MOST_REFERENCES = 8 };

struct settings {
    const char *output, *format, *only;
    struct cli_list references;
    bool is_json;
};

struct work {
    const struct settings *o;
    struct ebb_arena arena;
    struct harness_results references[MOST_REFERENCES];
    const char **names; /* stems of the files drawn so far */
    size_t written, name_count;
};

/* "data" of "monday/data.json"; the second one of that name is "data-2". NULL: memory is out. */
static const char *stem_of(struct work *w, const char *path)
{
    const char *name = ebb_file_name(path);
    char *stem = ebb_arena_printf(&w->arena, "%.*s", (int)strcspn(name, "."), name);
    size_t before = 0;
    for (size_t i = 0; stem && i < w->name_count; i++)
        before += strcmp(w->names[i], stem) == 0;
    if (stem)
        w->names[w->name_count++] = stem;
    return stem && before ? ebb_arena_printf(&w->arena, "%s-%zu", stem, before + 1) : stem;
}

static void say_written(const struct work *w, const char *path, const struct plot_chart *chart)
{
    if (!w->o->is_json) {
        printf("%s\n", path);
        return;
    }
    struct cli_json json;
    struct ebb_json_writer *out = cli_json_object(&json);
    ebb_jsonw_key_string(out, "file", path);
    ebb_jsonw_key_string(out, "title", chart->title);
    ebb_jsonw_key_uint(out, "panels", chart->panel_count);
    cli_json_object_end(&json);
}

/* With -o a file per chart in that folder, or the one chart in that file. */
static enum ebb_status put(struct work *w, const char *stem, const char *kind,
                           const struct plot_chart *chart, struct ebb_error *err)
{
    const char *path = w->o->output;
    struct ebb_str text = {0};
    struct ebb_error none;
    w->written++;
    if (!path) {
        EBB_TRY(plot_terminal(chart, 100, 24, &text, err));
        printf("%s%s", w->written > 1 ? "\n" : "", ebb_str_c(&text));
        ebb_str_fini(&text);
        return EBB_OK;
    }
    if (plot_check_name(path, &none) != EBB_OK)
        path = ebb_arena_printf(&w->arena, "%s/%s-%s.%s", w->o->output, stem, kind, w->o->format);
    EBB_TRY(ebb_arena_status(&w->arena, err));
    EBB_TRY(plot_write(chart, path, err));
    say_written(w, path, chart);
    return EBB_OK;
}

static enum ebb_status draw(struct work *w, const char *path, struct ebb_error *err)
{
    struct harness_results results;
    struct harness_charts what = {.results = &results,
                                  .references = w->references,
                                  .reference_count = w->o->references.count};
    EBB_TRY(harness_results_read(&w->arena, path, &results, err));
    results.file = ebb_file_name(path);
    size_t before = w->written;
    const char *stem = stem_of(w, path);
    EBB_TRY(ebb_arena_status(&w->arena, err));
    for (int kind = 0; kind < HARNESS_CHARTS; kind++) {
        struct plot_chart chart;
        const char *name = harness_chart_name((enum harness_chart)kind);
        if (w->o->only && strcmp(w->o->only, name) != 0)
            continue;
        EBB_TRY(harness_chart_make(&w->arena, &what, (enum harness_chart)kind, &chart, err));
        if (chart.panel_count)
            EBB_TRY(put(w, stem, name, &chart, err));
    }
    return w->written > before
               ? EBB_OK
               : ebb_fail(err, EBB_EINPUT, "%s: nothing to draw%s%s", path,
                          w->o->only ? " of --only " : "", w->o->only ? w->o->only : "");
}

/* A log of 'ebb bench', or the CSV of 'ebb train'. */
static enum ebb_status draw_run(struct work *w, const char *path, struct ebb_error *err)
{
    struct harness_run run;
    struct plot_chart chart;
    EBB_TRY(harness_run_read(&w->arena, path, &run, err));
    const char *title = ebb_arena_printf(&w->arena, "%s: %s", ebb_file_name(path), run.what);
    EBB_TRY(harness_run_chart(&w->arena, &run, title, &chart, err));
    if (!chart.panel_count)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: nothing to draw: the run ended before its first epoch", path);
    const char *stem = stem_of(w, path);
    EBB_TRY(ebb_arena_status(&w->arena, err));
    return put(w, stem, "run", &chart, err);
}

static int check(const struct settings *o, const struct cli_args *args)
{
    struct ebb_error err;
    bool is_file = o->output && plot_check_name(o->output, &err) == EBB_OK;
    const char *names[HARNESS_CHARTS];
    bool is_known = !o->only;
    for (int k = 0; k < HARNESS_CHARTS; k++) {
        names[k] = harness_chart_name((enum harness_chart)k);
        is_known |= o->only && strcmp(o->only, names[k]) == 0;
    }
    if (!is_known)
        return cli_usage_error(
            "--only: found '%s', allowed: slowdown, breakdown, throughput, sweep", o->only);
    if (strcmp(o->format, "svg") != 0 && strcmp(o->format, "png") != 0 &&
        strcmp(o->format, "pdf") != 0)
        return cli_usage_error("--format: found '%s', allowed: svg, png, pdf", o->format);
    if (o->references.count > MOST_REFERENCES)
        return cli_usage_error("--reference: more than %d", MOST_REFERENCES);
    bool is_run = !ebb_name_ends(args->positional[0], ".json");
    if (is_file && ((!o->only && !is_run) || args->positional_count > 1))
        return cli_usage_error("-o %s is one file: choose the chart with --only and give one file "
                               "of results, or name a folder",
                               o->output);
    if (o->output && !is_file && ebb_file_mkdirs(o->output, &err) != EBB_OK)
        return cli_report(&err);
    return -1;
}

static int run(int argc, char **argv)
{
    struct settings o = {.format = "svg"};
    const struct cli_spec spec = {
        .usage = "ebb plot RESULTS... [-o DIR|FILE] [--reference FILE]",
        .description =
            "Draw results of 'ebb pareto', or published ones of the same form: slowdown by "
            "budget,\n"
            "where the time goes, throughput by batch size. Points are medians over the inputs,\n"
            "strokes their intervals of 95 %; what failed is a cross. Files that are no .json are\n"
            "logs of 'ebb bench' or CSV files of 'ebb train': their curves are drawn. Without -o\n"
            "everything is drawn here, as characters.\n\n"
            "Examples:\n"
            "  ebb plot results/data.json\n"
            "  ebb plot results/data.json -o charts --reference published.json\n"
            "  ebb plot results/data.json --only slowdown -o slowdown.png\n"
            "  ebb plot cosmoflow.log -o cosmoflow.svg\n",
        CLI_OPTION_ROWS(
            {"output", 'o', CLI_STRING, &o.output, "DIR|FILE",
             "folder of the charts, or with --only one .svg, .png or .pdf"},
            {"format", 0, CLI_STRING, &o.format, "WORD", "in a folder: svg, png or pdf"},
            {"reference", 0, CLI_LIST, &o.references, "FILE",
             "other results, dashed, over their own baseline; repeatable"},
            {"only", 0, CLI_STRING, &o.only, "CHART", "slowdown, breakdown, throughput or sweep"},
            {"json", 0, CLI_FLAG, &o.is_json, NULL, "one object per file written"}),
        CLI_POSITIONAL(1, 64),
    };
    struct cli_args args = {0};
    struct ebb_error err = {0};
    struct work w = {.o = &o};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0)
        code = check(&o, &args);
    w.names = ebb_arena_calloc(&w.arena, args.positional_count + 1, sizeof *w.names);
    enum ebb_status status = ebb_arena_status(&w.arena, &err);
    for (size_t i = 0; code < 0 && i < o.references.count && status == EBB_OK; i++)
        status = harness_results_read(&w.arena, o.references.items[i], &w.references[i], &err);
    for (size_t i = 0; code < 0 && i < args.positional_count && status == EBB_OK; i++)
        status = ebb_name_ends(args.positional[i], ".json")
                     ? draw(&w, args.positional[i], &err)
                     : draw_run(&w, args.positional[i], &err);
    if (code < 0)
        code = status == EBB_OK ? 0 : cli_report(&err);
    ebb_arena_fini(&w.arena);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_plot = {
    .name = "plot",
    .summary = "charts of measured results",
    .run = run,
};
