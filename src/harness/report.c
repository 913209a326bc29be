/* report.c - see report.h. */
#include "harness/report.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/names.h"
#include "base/str.h"
#include "harness/chart.h"
#include "harness/runs.h"

enum { MOST_DEPTH = 4, MOST_FILES = 400 };
#define MOST_BYTES (UINT64_C(64) << 20)

struct page {
    const struct harness_report *report;
    struct ebb_arena arena; /* of one file */
    struct ebb_str *out, failed;
    struct harness_reported what;
};

/* ---- words ---------------------------------------------------------------------------------- */

static void add_text(struct ebb_str *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            ebb_str_add(out, "&amp;");
            break;
        case '<':
            ebb_str_add(out, "&lt;");
            break;
        case '>':
            ebb_str_add(out, "&gt;");
            break;
        case '"':
            ebb_str_add(out, "&quot;");
            break;
        default: /* what HTML does not have is a blank */
            ebb_str_addc(out, (unsigned char)*text < ' ' && *text != '\n' ? ' ' : *text);
        }
}

static void add_element(struct ebb_str *out, const char *name, const char *text)
{
    ebb_str_printf(out, "<%s>", name);
    add_text(out, text);
    ebb_str_printf(out, "</%s>\n", name);
}

static const char style[] =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;"
    "color:#222;background:#fff}"
    "h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #ccc}"
    "table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .7em;text-align:right;"
    "border-bottom:1px solid #eee}th:first-child,td:first-child,th:nth-child(2),td:nth-child(2)"
    "{text-align:left}tr.failed td{color:#b00020}svg,img{max-width:100%;height:auto;margin:.5em 0}"
    "p.soft{color:#666}tr td.why{text-align:left}";

static void begin_page(struct page *p)
{
    const struct harness_report *r = p->report;
    const char *title = r->title ? r->title : ebb_file_name(r->folder);
    ebb_str_add(p->out,
                "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "img-src data:; style-src 'unsafe-inline'\">\n"
                "<meta name=\"viewport\" content=\"width=device-width\">\n");
    add_element(p->out, "title", title);
    ebb_str_printf(p->out, "<style>%s</style></head>\n<body>\n", style);
    add_element(p->out, "h1", title);
    if (r->made) {
        ebb_str_add(p->out, "<p class=\"soft\">");
        add_text(p->out, r->made);
        ebb_str_add(p->out, "</p>\n");
    }
}

/* ---- results -------------------------------------------------------------------------------- */

static void add_cell(struct ebb_str *out, double value, const char *format)
{
    char text[64] = "";
    if (isfinite(value))
        snprintf(text, sizeof text, format, value); /* one of those below */
    ebb_str_printf(out, "<td>%s</td>", text);
}

static void add_interval(struct ebb_str *out, const struct harness_point *p, const char *format)
{
    char low[32] = "", high[32] = "", text[128];
    if (!isfinite(p->value)) {
        ebb_str_add(out, "<td></td>");
        return;
    }
    snprintf(text, sizeof text, format, p->value);
    ebb_str_printf(out, "<td>%s", text);
    if (isfinite(p->low) && isfinite(p->high)) {
        snprintf(low, sizeof low, format, p->low);
        snprintf(high, sizeof high, format, p->high);
        ebb_str_printf(out, " <small>[%s, %s]</small>", low, high);
    }
    ebb_str_add(out, "</td>");
}

static void add_setting(struct page *p, const struct harness_results *r,
                        const struct harness_setting *s)
{
    struct harness_point wall = harness_setting_point(s, HARNESS_TIME),
                         slow = harness_slowdown(r, s);
    ebb_str_add(p->out, s->error ? "<tr class=\"failed\"><td>" : "<tr><td>");
    add_text(p->out, s->model);
    ebb_str_add(p->out, "</td><td>");
    add_text(p->out, s->type);
    ebb_str_add(p->out, " ");
    add_text(p->out, s->kind);
    if (harness_fallback(s)) {
        ebb_str_add(p->out, " (");
        add_text(p->out, harness_fallback(s));
        ebb_str_add(p->out, ")");
    }
    ebb_str_add(p->out, "</td>");
    add_cell(p->out, s->batch_size, "%.6g");
    add_cell(p->out, s->memory_budget > 0 ? s->memory_budget / 1e6 : NAN, "%.6g");
    add_cell(p->out, harness_setting_ratio(r, s), "%.3f");
    if (s->error) {
        ebb_str_add(p->out, "<td class=\"why\" colspan=\"4\">failed: ");
        add_text(p->out, s->error);
        ebb_str_add(p->out, "</td>");
    } else {
        add_interval(p->out, &wall, "%.4g");
        add_interval(p->out, &slow, "%.3f");
        add_cell(p->out, harness_setting_point(s, HARNESS_TOTAL_MEM).value, "%.6g");
        add_cell(p->out, s->num_retries > 0 ? (double)s->num_retries : NAN, "%.0f");
    }
    ebb_str_add(p->out, "</tr>\n");
}

static enum ebb_status add_chart(struct page *p, const struct plot_chart *chart,
                                 struct ebb_error *err)
{
    struct ebb_str svg = {0};
    enum ebb_status status = plot_svg(chart, &svg, err);
    const char *begin = strstr(ebb_str_c(&svg), "<svg"); /* without what only files have */
    if (status == EBB_OK && begin)
        ebb_str_add(p->out, begin);
    ebb_str_fini(&svg);
    return status;
}

static enum ebb_status add_results(struct page *p, const char *name,
                                   const struct harness_results *results, struct ebb_error *err)
{
    struct harness_charts what = {.results = results,
                                  .references = p->report->references,
                                  .reference_count = p->report->reference_count};
    add_element(p->out, "h2", name);
    if (results->time_delta || results->timestamp) {
        ebb_str_add(p->out, "<p class=\"soft\">measured ");
        add_text(p->out, results->timestamp ? results->timestamp : "");
        ebb_str_add(p->out, results->time_delta ? ", took " : "");
        add_text(p->out, results->time_delta ? results->time_delta : "");
        ebb_str_add(p->out, "</p>\n");
    }
    for (int kind = 0; kind < HARNESS_CHARTS; kind++) {
        struct plot_chart chart;
        EBB_TRY(harness_chart_make(&p->arena, &what, (enum harness_chart)kind, &chart, err));
        if (chart.panel_count)
            EBB_TRY(add_chart(p, &chart, err));
    }
    ebb_str_add(p->out, "<table><tr><th>model</th><th>how</th><th>batch</th><th>budget, MB</th>"
                        "<th>of the peak</th><th>ms</th><th>slowdown</th><th>peak, MB</th>"
                        "<th>retries</th></tr>\n");
    for (size_t i = 0; i < results->count; i++)
        add_setting(p, results, &results->settings[i]);
    ebb_str_add(p->out, "</table>\n");
    p->what.results++;
    return EBB_OK;
}

/* ---- logs and charts ------------------------------------------------------------------------ */

static enum ebb_status add_run(struct page *p, const char *name, const struct harness_run *run,
                               struct ebb_error *err)
{
    struct plot_chart chart;
    add_element(p->out, "h2", name);
    if (run->curve_count) {
        EBB_TRY(harness_run_chart(&p->arena, run, run->what, &chart, err));
        EBB_TRY(add_chart(p, &chart, err));
    }
    if (run->fact_count)
        ebb_str_add(p->out, "<table>\n");
    for (size_t i = 0; i < run->fact_count; i++) {
        ebb_str_add(p->out, "<tr><td>");
        add_text(p->out, run->facts[i].name);
        ebb_str_add(p->out, "</td><td>");
        add_text(p->out, run->facts[i].value);
        ebb_str_add(p->out, "</td></tr>\n");
    }
    if (run->fact_count)
        ebb_str_add(p->out, "</table>\n");
    p->what.runs++;
    return EBB_OK;
}

static void add_image(struct page *p, const char *name, const struct ebb_file_view *view)
{
    add_element(p->out, "h2", name);
    ebb_str_add(p->out, "<img alt=\"\" src=\"data:image/svg+xml;base64,");
    ebb_base64_add(p->out, view->data, view->length);
    ebb_str_add(p->out, "\">\n");
    p->what.charts++;
}

/* ---- the folder ----------------------------------------------------------------------------- */

/* Objects of other programs are none of ours, and said nothing about. */
static bool is_results(const struct ebb_file_view *view)
{
    return memmem(view->data, view->length, "\"specific_params\"", 17) != NULL &&
           memmem(view->data, view->length, "\"summary\"", 9) != NULL;
}

static enum ebb_status add_content(struct page *p, const char *name,
                                   const struct ebb_file_view *view, struct ebb_error *err)
{
    if (ebb_name_ends(name, ".json") && is_results(view)) {
        struct harness_results results;
        EBB_TRY(harness_results_parse(&p->arena, name, view->data, view->length, &results, err));
        results.file = ebb_file_name(name);
        return add_results(p, name, &results, err);
    }
    if ((ebb_name_ends(name, ".log") || ebb_name_ends(name, ".txt") ||
         ebb_name_ends(name, ".csv")) &&
        harness_run_is(view->data, view->length)) {
        struct harness_run run;
        EBB_TRY(harness_run_parse(&p->arena, name, view->data, view->length, &run, err));
        return add_run(p, name, &run, err);
    }
    if (ebb_name_ends(name, ".svg"))
        add_image(p, name, view);
    return EBB_OK;
}

/* With its name, unless the message has it already. */
static void say_failed(struct page *p, const char *name, const char *message)
{
    struct ebb_str text = {0};
    if (!strstr(message, name))
        ebb_str_printf(&text, "%s: ", name);
    ebb_str_add(&text, message);
    add_element(&p->failed, "li", ebb_str_c(&text));
    p->failed.failed |= text.failed;
    ebb_str_fini(&text);
}

/* A file that fails is said to have failed; the rest of the page stays. */
static enum ebb_status add_file(struct page *p, const char *path, const char *name,
                                struct ebb_error *err)
{
    struct ebb_file_view view;
    struct ebb_error why = {0};
    size_t length = p->out->length;
    enum ebb_status status = ebb_file_view_open(&view, path, MOST_BYTES, &why);
    ebb_arena_init(&p->arena);
    if (status == EBB_OK) {
        status = add_content(p, name, &view, &why);
        ebb_file_view_close(&view);
    }
    ebb_arena_fini(&p->arena);
    if (status == EBB_OK)
        return ebb_str_status(p->out, err);
    if (status == EBB_ENOMEM) {
        *err = why;
        return status;
    }
    p->out->length = length; /* what was begun of it goes */
    if (p->out->data)
        p->out->data[length] = '\0';
    p->what.failed++;
    say_failed(p, name, why.message);
    return EBB_OK;
}

struct files { /* paths below the folder, sorted */
    char **items;
    size_t count, capacity;
    bool is_cut, is_deep;
    struct page *page;
};

/* Hidden files are nobody's results. */
static bool is_shown(const void *context, DIR *folder, const struct dirent *entry)
{
    (void)context;
    (void)folder;
    return entry->d_name[0] != '.';
}

static enum ebb_status collect(struct files *f, const char *folder, int depth,
                               struct ebb_error *err);

/* Finished trials of the harness: their results are in data.json beside them. */
static bool is_trials(const char *folder, const char *name)
{
    struct ebb_str lock = {0};
    ebb_str_printf(&lock, "%s/lock", folder);
    bool is_so = strcmp(name, "trials") == 0 && access(ebb_str_c(&lock), F_OK) == 0;
    ebb_str_fini(&lock);
    return is_so;
}

/* A folder that cannot be read is said to be so, like a file. */
static enum ebb_status collect_below(struct files *f, const char *path, int depth,
                                     struct ebb_error *err)
{
    struct ebb_error why = {0};
    f->is_deep |= depth > MOST_DEPTH;
    enum ebb_status status = depth > MOST_DEPTH ? EBB_OK : collect(f, path, depth, &why);
    if (status == EBB_EIO) {
        f->page->what.failed++;
        say_failed(f->page, path, why.message);
        return EBB_OK;
    }
    if (status != EBB_OK && err)
        *err = why;
    return status;
}

/* One name of a folder: a file is added, a folder is gone into. */
static enum ebb_status collect_name(struct files *f, const char *folder, const char *name,
                                    bool is_deep, int depth, struct ebb_error *err)
{
    struct stat about;
    struct ebb_str path = {0};
    ebb_str_printf(&path, "%s/%s", folder, name);
    enum ebb_status status = ebb_str_status(&path, err);
    bool is_there = status == EBB_OK && lstat(ebb_str_c(&path), &about) == 0;
    bool is_file = is_there && S_ISREG(about.st_mode) && !is_deep;
    if (is_there && S_ISDIR(about.st_mode) && is_deep && !is_trials(folder, name))
        status = collect_below(f, ebb_str_c(&path), depth + 1, err);
    else if (is_file && f->count == MOST_FILES)
        f->is_cut = true;
    else if (is_file) {
        status = ebb_grow(&f->items, &f->capacity, f->count + 1, sizeof *f->items, err);
        if (status == EBB_OK)
            f->items[f->count++] = ebb_str_take(&path);
    }
    ebb_str_fini(&path);
    return status;
}

/* Files before folders: where there are too many, those deep below are left out. */
static enum ebb_status collect(struct files *f, const char *folder, int depth,
                               struct ebb_error *err)
{
    struct ebb_names names = {0};
    DIR *open = opendir(folder);
    if (!open)
        return ebb_fail(err, EBB_EIO, "cannot read the folder %s: %s", folder, strerror(errno));
    enum ebb_status status = ebb_names_read(&names, open, is_shown, NULL, err);
    for (int is_deep = 0; is_deep < 2; is_deep++)
        for (size_t i = 0; i < names.count && status == EBB_OK; i++)
            status = collect_name(f, folder, names.items[i], is_deep, depth, err);
    ebb_names_fini(&names);
    return status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum ebb_status add_files(struct page *p, const struct files *f, struct ebb_error *err)
{
    size_t skip = strlen(p->report->folder);
    begin_page(p);
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->items[i] + skip;
        while (*name == '/')
            name++;
        EBB_TRY(add_file(p, f->items[i], name, err));
    }
    if (p->failed.length || f->is_cut || f->is_deep) {
        ebb_str_add(p->out, "<h2>Not shown</h2>\n<ul>\n");
        ebb_str_addn(p->out, ebb_str_c(&p->failed), p->failed.length);
        if (f->is_cut)
            ebb_str_printf(p->out, "<li>more than %d files: the rest was not looked at</li>\n",
                           MOST_FILES);
        if (f->is_deep)
            ebb_str_printf(p->out,
                           "<li>folders more than %d below this one were not looked at</li>\n",
                           MOST_DEPTH);
        ebb_str_add(p->out, "</ul>\n");
    }
    ebb_str_add(p->out, "</body></html>\n");
    if (!p->what.results && !p->what.runs && !p->what.charts && !p->what.failed)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: nothing to report: no results of 'ebb pareto' (*.json), logs of 'ebb "
                        "bench' (*.log), CSV of 'ebb train' (*.csv) or charts (*.svg)",
                        p->report->folder);
    return ebb_str_status(p->out, err);
}

enum ebb_status harness_report_make(const struct harness_report *report, struct ebb_str *out,
                                    struct harness_reported *what, struct ebb_error *err)
{
    struct page p = {.report = report, .out = out};
    struct files f = {.page = &p};
    enum ebb_status status = collect(&f, report->folder, 0, err);
    if (status == EBB_OK && f.count)
        qsort(f.items, f.count, sizeof *f.items, by_text);
    EBB_THEN(status, add_files(&p, &f, err));
    if (status == EBB_OK && what)
        *what = p.what;
    for (size_t i = 0; i < f.count; i++)
        ebb_free(f.items[i]);
    ebb_free(f.items);
    ebb_str_fini(&p.failed);
    return status;
}
