/* runs.c - see runs.h. */
#include "harness/runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"

#define MLLOG ":::MLLOG "
#define CSV "update,name,value\n"
#define MOST_BYTES (UINT64_C(1) << 30)
#define MOST_LINE 65536

/* ---- curves and facts ----------------------------------------------------------------------- */

static struct harness_curve *curve_of(struct ebb_arena *arena, struct harness_run *run,
                                      const char *name, size_t length)
{
    for (size_t i = 0; i < run->curve_count; i++)
        if (strlen(run->curves[i].name) == length &&
            strncmp(run->curves[i].name, name, length) == 0)
            return &run->curves[i];
    if (run->curve_count == HARNESS_CURVES)
        return NULL;
    struct harness_curve *c = &run->curves[run->curve_count];
    c->name = ebb_arena_strndup(arena, name, length);
    run->curve_count += c->name != NULL;
    return c->name ? c : NULL;
}

static void add_point(struct ebb_arena *arena, struct harness_run *run, const char *name,
                      size_t length, double x, double y)
{
    struct harness_curve *c = curve_of(arena, run, name, length);
    if (!c)
        return;
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 32;
        double *room = ebb_arena_calloc(arena, 2 * capacity, sizeof *room);
        if (!room)
            return;
        if (c->count) {
            memcpy(room, c->x, c->count * sizeof *room);
            memcpy(room + capacity, c->y, c->count * sizeof *room);
        }
        c->x = room;
        c->y = room + capacity;
        c->capacity = capacity;
    }
    c->x[c->count] = x;
    c->y[c->count++] = y;
}

/* A later value takes the place of an earlier one. */
static void set_fact(struct ebb_arena *arena, struct harness_run *run, const char *name,
                     const char *value)
{
    size_t i = 0;
    while (i < run->fact_count && strcmp(run->facts[i].name, name) != 0)
        i++;
    if (i == HARNESS_FACTS)
        return;
    run->facts[i].name = ebb_arena_strndup(arena, name, strlen(name));
    run->facts[i].value = ebb_arena_strndup(arena, value, strlen(value));
    if (i == run->fact_count && run->facts[i].name && run->facts[i].value)
        run->fact_count++;
}

/* ---- the log of a benchmark ----------------------------------------------------------------- */

/* Plain lines "PREFIX value": a curve over the epochs, or a fact of the whole run. */
static const struct {
    const char *prefix, *curve, *fact;
} lines[] = {
    {"Processing Speed: ", "samples per second", NULL},
    {"Time For Epoch: ", "seconds of an epoch", NULL},
    {"Total IO Time: ", "seconds of waiting for data", NULL},
    {"Avg CPU Power Draw: ", "watts of the processors", NULL},
    {"Avg GPU Power Draw: ", "watts of the GPU", NULL},
    {"Avg GPU Utilization: ", "use of the GPU, %", NULL},
    {"Change In Train Loss at Epoch: ", NULL, "change of the loss in epoch 1"},
    {"Peak Memory: ", NULL, "peak memory, bytes"},
    {"Memory Budget: ", NULL, "memory budget, bytes"},
    {"Rematerialized Ops: ", NULL, "ops run again"},
    {"Time To Target: ", NULL, "time to target, s"},
};

/* Events that are points of curves; other points in time are facts. */
static const char *event_curve(const char *key)
{
    static const struct {
        const char *key, *name;
    } rows[] = {{"train_loss", "training loss"},
                {"eval_loss", "validation loss"},
                {"eval_accuracy", "validation metric"},
                {"eval_mae", "validation MAE"},
                {"learning_rate", "learning rate"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].key, key) == 0)
            return rows[i].name;
    return NULL;
}

/* What lasts is copied to the arena: a log has many more events than facts. */
static void add_event(struct ebb_arena *arena, struct harness_run *run,
                      const struct ebb_doc_node *root, double *epoch)
{
    const char *key = ebb_doc_string(root, "key", "");
    const struct ebb_doc_node *value = ebb_doc_given(root, "value"),
                              *meta = ebb_doc_get(root, "metadata");
    const char *space = ebb_doc_string(root, "namespace", NULL), *curve = event_curve(key),
               *status = ebb_doc_string(meta, "status", NULL);
    char number[48];
    if (space && !run->what)
        run->what = ebb_arena_strndup(arena, space, strlen(space));
    *epoch = ebb_doc_double(meta, "epoch_num", ebb_doc_double(meta, "epoch", *epoch));
    bool is_number = value && (value->kind == EBB_DOC_INT || value->kind == EBB_DOC_DOUBLE);
    if (status)
        set_fact(arena, run, "status", status);
    if (curve && is_number)
        add_point(arena, run, curve, strlen(curve), *epoch, value->number);
    else if (is_number)
        set_fact(arena, run, key, ebb_format_double(value->number, number, sizeof number));
    else if (value && value->kind == EBB_DOC_STRING)
        set_fact(arena, run, key, value->text);
}

static void read_event(struct ebb_arena *arena, struct harness_run *run, const char *text,
                       size_t length, double *epoch)
{
    const struct ebb_doc_node *root = NULL;
    struct ebb_arena line = {0};
    if (ebb_doc_parse_json(&line, "log", text, length, &root, NULL) == EBB_OK && root)
        add_event(arena, run, root, epoch);
    ebb_arena_fini(&line);
}

static void read_plain(struct ebb_arena *arena, struct harness_run *run, const char *line,
                       size_t length, double epoch)
{
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t n = strlen(lines[i].prefix);
        char text[64];
        double value;
        if (length <= n || length - n >= sizeof text || memcmp(line, lines[i].prefix, n) != 0)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)(length - n), line + n);
        if (!ebb_parse_double(text, &value))
            return;
        if (lines[i].curve)
            add_point(arena, run, lines[i].curve, strlen(lines[i].curve), epoch, value);
        else
            set_fact(arena, run, lines[i].fact, text);
        return;
    }
}

/* ---- the CSV of training -------------------------------------------------------------------- */

static void read_row(struct ebb_arena *arena, struct harness_run *run, const char *line,
                     size_t length)
{
    const char *name = memchr(line, ',', length);
    const char *value = name ? memchr(name + 1, ',', (size_t)(line + length - name - 1)) : NULL;
    char text[2][64];
    double x, y;
    if (!value || (size_t)(name - line) >= sizeof text[0] ||
        (size_t)(line + length - value) > sizeof text[1])
        return;
    snprintf(text[0], sizeof text[0], "%.*s", (int)(name - line), line);
    snprintf(text[1], sizeof text[1], "%.*s", (int)(line + length - value - 1), value + 1);
    if (ebb_parse_double(text[0], &x) && ebb_parse_double(text[1], &y))
        add_point(arena, run, name + 1, (size_t)(value - name - 1), x, y);
}

/* ---- both ----------------------------------------------------------------------------------- */

static bool is_csv(const char *bytes, size_t length)
{
    return length >= strlen(CSV) && memcmp(bytes, CSV, strlen(CSV)) == 0;
}

bool harness_run_is(const char *bytes, size_t length)
{
    return is_csv(bytes, length) || memmem(bytes, length, MLLOG, strlen(MLLOG)) != NULL;
}

enum ebb_status harness_run_parse(struct ebb_arena *arena, const char *name, const char *bytes,
                                  size_t length, struct harness_run *run, struct ebb_error *err)
{
    bool is_table = is_csv(bytes, length);
    const char *end = bytes + length;
    double epoch = 0;
    *run = (struct harness_run){.unit = is_table ? "update" : "epoch"};
    if (!harness_run_is(bytes, length))
        return ebb_fail(
            err, EBB_EINPUT,
            "%s: neither the log of 'ebb bench' (%s...) nor the CSV of 'ebb train' (%.*s)", name,
            MLLOG, (int)strlen(CSV) - 1, CSV);
    for (const char *at = bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        size_t n = (size_t)(stop - at);
        bool is_event = n > strlen(MLLOG) && memcmp(at, MLLOG, strlen(MLLOG)) == 0;
        if (n < MOST_LINE && is_table)
            read_row(arena, run, at, n);
        else if (n < MOST_LINE && is_event)
            read_event(arena, run, at + strlen(MLLOG), n - strlen(MLLOG), &epoch);
        else if (n < MOST_LINE)
            read_plain(arena, run, at, n, epoch);
        at = stop + 1;
    }
    if (!run->what)
        run->what = "training";
    return ebb_arena_status(arena, err);
}

enum ebb_status harness_run_read(struct ebb_arena *arena, const char *path, struct harness_run *run,
                                 struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, MOST_BYTES, err));
    enum ebb_status status = harness_run_parse(arena, path, view.data, view.length, run, err);
    ebb_file_view_close(&view);
    return status;
}

/* What a reader asks first: does it learn, how fast is it. */
static size_t rank_of(const char *name)
{
    static const char *const first[] = {
        "training loss",     "loss",           "validation loss",   "validation_loss",
        "validation metric", "validation MAE", "samples per second"};
    size_t i = 0;
    while (i < sizeof first / sizeof *first && strcmp(first[i], name) != 0)
        i++;
    return i;
}

enum ebb_status harness_run_chart(struct ebb_arena *arena, const struct harness_run *run,
                                  const char *title, struct plot_chart *chart,
                                  struct ebb_error *err)
{
    struct plot_panel *panels = ebb_arena_calloc(arena, run->curve_count + 1, sizeof *panels);
    struct plot_series *series = ebb_arena_calloc(arena, run->curve_count + 1, sizeof *series);
    EBB_TRY(ebb_arena_status(arena, err));
    *chart = (struct plot_chart){.title = title, .panels = panels, .columns = 3};
    for (size_t i = 0; i < run->curve_count; i++) {
        const struct harness_curve *c = &run->curves[i];
        size_t at = chart->panel_count++;
        for (; at > 0 && rank_of(panels[at - 1].title) > rank_of(c->name); at--)
            panels[at] = panels[at - 1];
        series[i] = (struct plot_series){.style = c->count > 60 ? PLOT_LINE : PLOT_LINE_POINTS,
                                         .x = c->x,
                                         .y = c->y,
                                         .count = c->count};
        panels[at] = (struct plot_panel){
            .title = c->name, .x_label = run->unit, .series = &series[i], .series_count = 1};
    }
    return EBB_OK;
}
