/* cmd_report.c - ebb report: everything measured below a folder in one HTML page. */
#include "cli/cli.h"

#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/json.h"
#include "harness/harness.h"

enum { MOST_REFERENCES = 8 };

struct settings {
    const char *output, *title;
    struct cli_list references;
    bool is_json;
};

static const char *made_text(char *text, size_t room)
{
    time_t now = time(NULL);
    struct tm parts;
    char when[64] = "";
    if (gmtime_r(&now, &parts))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &parts);
    snprintf(text, room, "ebb %s, %s", EBB_VERSION, when);
    return text;
}

static int report(const char *folder, const struct settings *o)
{
    struct ebb_arena arena = {0};
    struct ebb_error err = {0};
    struct ebb_str page = {0}, path = {0};
    struct harness_results references[MOST_REFERENCES];
    struct harness_reported what = {0};
    char made[128];
    struct harness_report r = {.folder = folder,
                               .title = o->title,
                               .made = made_text(made, sizeof made),
                               .references = references,
                               .reference_count = o->references.count};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < o->references.count && status == EBB_OK; i++)
        status = harness_results_read(&arena, o->references.items[i], &references[i], &err);
    EBB_THEN(status, harness_report_make(&r, &page, &what, &err));
    if (o->output)
        ebb_str_add(&path, o->output);
    else
        ebb_str_printf(&path, "%s/report.html", folder);
    EBB_THEN(status, ebb_str_status(&path, &err));
    EBB_THEN(status, ebb_file_write_atomic(ebb_str_c(&path), page.data, page.length, &err));
    if (status == EBB_OK && o->is_json) {
        struct cli_json json;
        struct ebb_json_writer *w = cli_json_object(&json);
        ebb_jsonw_key_string(w, "file", ebb_str_c(&path));
        ebb_jsonw_key_uint(w, "results", what.results);
        ebb_jsonw_key_uint(w, "runs", what.runs);
        ebb_jsonw_key_uint(w, "charts", what.charts);
        ebb_jsonw_key_uint(w, "failed", what.failed);
        cli_json_object_end(&json);
    } else if (status == EBB_OK) {
        printf("%s: %zu results, %zu runs, %zu charts%s\n", ebb_str_c(&path), what.results,
               what.runs, what.charts, what.failed ? ", and files that could not be read" : "");
    }
    ebb_str_fini(&page);
    ebb_str_fini(&path);
    ebb_arena_fini(&arena);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    const struct cli_spec spec = {
        .usage = "ebb report DIR [-o FILE.html] [--reference FILE]",
        .description =
            "Write one self-contained HTML page of everything measured below DIR: results of\n"
            "'ebb pareto' with their charts and a table, logs of 'ebb bench' (*.log, *.txt), CSV\n"
            "files of 'ebb train', and SVG charts that lie there. The page loads nothing and runs\n"
            "nothing: it can be sent as it is. Files that cannot be read are listed in it.\n\n"
            "Examples:\n"
            "  ebb report results\n"
            "  ebb report results -o monday.html --reference published.json\n",
        CLI_OPTION_ROWS(
            {"output", 'o', CLI_STRING, &o.output, "FILE",
             "the page (default: report.html in DIR)"},
            {"title", 0, CLI_STRING, &o.title, "TEXT", "of the page (default: the folder's name)"},
            {"reference", 0, CLI_LIST, &o.references, "FILE",
             "other results, dashed in charts of slowdown; repeatable"},
            {"json", 0, CLI_FLAG, &o.is_json, NULL, "what the page holds, as one object"}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0 && o.references.count > MOST_REFERENCES)
        code = cli_usage_error("--reference: more than %d", MOST_REFERENCES);
    if (code < 0)
        code = report(args.positional[0], &o);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_report = {
    .name = "report",
    .summary = "one page of everything measured below a folder",
    .run = run,
};
