/* report.c - findings: collecting, ordering, printing. Rules R1 to R4 are in report.h. */
#include "base/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- a reading ---- */

void ebb_reading_init(struct ebb_reading *reading, struct ebb_arena *arena, const char *file,
                      struct ebb_report *report)
{
    *reading = (struct ebb_reading){.arena = arena, .report = report};
    reading->files[EBB_LAYERS - 1] = file;
    *report = (struct ebb_report){0};
}

void ebb_reading_fini(struct ebb_reading *reading)
{
    ebb_map_fini(&reading->layers);
    ebb_map_fini(&reading->bad);
}

const struct ebb_finding *ebb_report_first(const struct ebb_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->items[i].kind == EBB_FINDING_ERROR)
            return &report->items[i];
    return NULL;
}

static enum ebb_status refuse_first(const struct ebb_report *report, struct ebb_error *err)
{
    struct ebb_str text = {0};
    if (ebb_report_first(report))
        ebb_finding_format(ebb_report_first(report), &text);
    if (report->errors > 1)
        ebb_str_printf(&text, " (and %zu more)", report->errors - 1);
    ebb_fail(err, EBB_EINPUT, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return EBB_EINPUT;
}

enum ebb_status ebb_reading_end(struct ebb_reading *reading, struct ebb_error *err)
{
    ebb_report_sort(reading->report);
    ebb_reading_fini(reading);
    if (reading->failed)
        return ebb_no_memory(err, 0);
    return reading->report->errors > 0 ? refuse_first(reading->report, err) : EBB_OK;
}

struct ebb_reading *ebb_alone_init(struct ebb_alone *alone)
{
    ebb_arena_init(&alone->arena);
    ebb_reading_init(&alone->reading, &alone->arena, NULL, &alone->report);
    return &alone->reading;
}

enum ebb_status ebb_alone_end(struct ebb_alone *alone, struct ebb_error *err)
{
    enum ebb_status status = ebb_reading_end(&alone->reading, err);
    ebb_arena_fini(&alone->arena);
    return status;
}

void *ebb_reading_alloc(struct ebb_reading *reading, size_t count, size_t bytes)
{
    void *p = reading->failed ? NULL : ebb_arena_calloc(reading->arena, count ? count : 1, bytes);
    if (!p)
        reading->failed = true;
    return p;
}

void ebb_reading_mark_bad(struct ebb_reading *reading, const void *field)
{
    if (ebb_map_put(&reading->bad, (uint64_t)(uintptr_t)field, 1, NULL) != EBB_OK)
        reading->failed = true;
}

bool ebb_reading_is_good(const struct ebb_reading *reading, const void *field)
{
    return !ebb_map_get(&reading->bad, (uint64_t)(uintptr_t)field, NULL);
}

void ebb_reading_layer(struct ebb_reading *reading, const struct ebb_doc_node *node, uint32_t layer)
{
    if (reading->failed || !node)
        return;
    if (ebb_map_put(&reading->layers, (uint64_t)(uintptr_t)node, layer, NULL) != EBB_OK) {
        reading->failed = true;
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == EBB_DOC_MAP)
            ebb_reading_layer(reading, node->keys[i], layer);
        ebb_reading_layer(reading, node->items[i], layer);
    }
}

static uint32_t layer_of(const struct ebb_reading *reading, const struct ebb_doc_node *node)
{
    uint64_t layer = EBB_LAYERS - 1;
    ebb_map_get(&reading->layers, (uint64_t)(uintptr_t)node, &layer);
    return (uint32_t)layer;
}

struct ebb_doc_node *ebb_reading_node(struct ebb_reading *reading, enum ebb_doc_kind kind,
                                      const struct ebb_doc_node *like)
{
    struct ebb_doc_node *node = reading->failed ? NULL : ebb_doc_new(reading->arena, kind);
    if (!node) {
        reading->failed = true;
        return NULL;
    }
    if (like) {
        node->line = like->line;
        node->column = like->column;
        uint32_t layer = layer_of(reading, like);
        if (layer != EBB_LAYERS - 1)
            ebb_reading_layer(reading, node, layer);
    }
    return node;
}

void ebb_reading_set(struct ebb_reading *reading, struct ebb_doc_node *map, const char *key,
                     const struct ebb_doc_node *value)
{
    if (reading->failed || !map || !value)
        return;
    if (!ebb_doc_set(reading->arena, map, key, value))
        reading->failed = true;
}

void ebb_reading_append(struct ebb_reading *reading, struct ebb_doc_node *list,
                        const struct ebb_doc_node *item)
{
    if (reading->failed || !list || !item)
        return;
    if (!ebb_doc_append(reading->arena, list, item))
        reading->failed = true;
}

/* ---- places ---- */

struct ebb_path ebb_path_key(const struct ebb_path *up, const struct ebb_doc_node *key)
{
    return (struct ebb_path){.up = up, .key = key->text, .length = key->length};
}

struct ebb_path ebb_path_item(const struct ebb_path *up, const struct ebb_doc_node *node, size_t i)
{
    return node->kind == EBB_DOC_MAP ? ebb_path_key(up, node->keys[i])
                                     : (struct ebb_path){.up = up, .index = i};
}

static void format_path(const struct ebb_path *path, struct ebb_str *out)
{
    if (!path)
        return;
    format_path(path->up, out);
    if (!path->key) {
        ebb_str_printf(out, "[%zu]", path->index);
        return;
    }
    if (path->up)
        ebb_str_addc(out, '.');
    ebb_say_quoted(path->key, path->length ? path->length : strlen(path->key), out);
}

/* ---- collecting ---- */

static bool is_known(const struct ebb_report *report, const struct ebb_finding *f)
{
    for (size_t i = report->count; i-- > 0;) {
        const struct ebb_finding *o = &report->items[i];
        if (o->kind == f->kind && o->layer == f->layer && o->line == f->line &&
            o->column == f->column && strcmp(o->path, f->path) == 0)
            return true; /* R1 */
    }
    return false;
}

static void count_finding(struct ebb_report *report, enum ebb_finding_kind kind)
{
    if (kind == EBB_FINDING_ERROR)
        report->errors++;
    else if (kind == EBB_FINDING_WARNING)
        report->warnings++;
    else
        report->notes++;
}

bool ebb_reading_is_full(struct ebb_reading *reading)
{
    if (reading->report->count < EBB_FINDINGS_MAX)
        return false;
    count_finding(reading->report, EBB_FINDING_ERROR);
    return true;
}

static void add(struct ebb_reading *reading, enum ebb_finding_kind kind, const char *path,
                const struct ebb_doc_node *node, const struct ebb_str *text)
{
    struct ebb_report *report = reading->report;
    struct ebb_finding f = {.kind = kind, .layer = EBB_LAYERS - 1, .path = path};
    if (node && node->line) {
        f.layer = layer_of(reading, node);
        f.line = node->line;
        f.column = node->column;
    }
    f.file = reading->files[f.layer];
    if (reading->failed || is_known(report, &f) || (node && !ebb_reading_is_good(reading, node)))
        return;
    count_finding(report, kind);
    if (report->count == EBB_FINDINGS_MAX)
        return;
    if (!report->items) {
        report->items = ebb_reading_alloc(reading, EBB_FINDINGS_MAX, sizeof *report->items);
        report->capacity = report->items ? EBB_FINDINGS_MAX : 0;
    }
    f.path = ebb_arena_strndup(reading->arena, path, strlen(path));
    f.message = ebb_arena_strndup(reading->arena, ebb_str_c(text), text->length);
    if (!f.path || !f.message || text->failed)
        reading->failed = true;
    if (reading->failed)
        return;
    report->items[report->count++] = f;
}

void ebb_reading_absorb(struct ebb_reading *reading, const struct ebb_report *found)
{
    struct ebb_report *report = reading->report;
    report->errors += found->errors;
    report->warnings += found->warnings;
    report->notes += found->notes;
    if (found->count && !report->items) {
        report->items = ebb_reading_alloc(reading, EBB_FINDINGS_MAX, sizeof *report->items);
        report->capacity = report->items ? EBB_FINDINGS_MAX : 0;
    }
    for (size_t i = 0; i < found->count && report->count < report->capacity; i++) {
        report->items[report->count] = found->items[i];
        report->items[report->count++].layer = EBB_LAYERS; /* behind the file itself */
    }
}

void ebb_reading_say(struct ebb_reading *reading, enum ebb_finding_kind kind,
                     const struct ebb_path *path, const struct ebb_doc_node *node,
                     struct ebb_str *take_text)
{
    struct ebb_str place = {0};
    format_path(path, &place);
    if (place.failed)
        reading->failed = true;
    add(reading, kind, ebb_str_c(&place), node, take_text);
    ebb_str_fini(&place);
    ebb_str_fini(take_text);
}

static void say(struct ebb_reading *reading, enum ebb_finding_kind kind,
                const struct ebb_path *path, const struct ebb_doc_node *node, const char *fmt,
                va_list args)
{
    struct ebb_str text = {0};
    ebb_str_vprintf(&text, fmt, args);
    ebb_reading_say(reading, kind, path, node, &text);
}

void ebb_reading_error(struct ebb_reading *reading, const struct ebb_path *path,
                       const struct ebb_doc_node *node, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(reading, EBB_FINDING_ERROR, path, node, fmt, args);
    va_end(args);
}

void ebb_reading_add(struct ebb_reading *reading, enum ebb_finding_kind kind,
                     const struct ebb_doc_node *node, const char *path, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(reading, kind, &(struct ebb_path){.key = path}, node, fmt, args);
    va_end(args);
}

void ebb_reading_wrong(struct ebb_reading *reading, const struct ebb_path *path,
                       const struct ebb_doc_node *map, const char *key, const char *message)
{
    struct ebb_path at = {.up = path, .key = key};
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    ebb_reading_error(reading, &at, node ? node : map, "%s", message);
}

void ebb_reading_refuse(struct ebb_reading *reading, const struct ebb_path *path,
                        const struct ebb_doc_node *node, const char *allowed, ...)
{
    struct ebb_str text = {0};
    va_list args;
    if (ebb_reading_is_full(reading))
        return;
    ebb_str_add(&text, "found ");
    ebb_say_found(node, &text);
    ebb_str_add(&text, ", allowed: ");
    va_start(args, allowed);
    ebb_str_vprintf(&text, allowed, args);
    va_end(args);
    ebb_reading_say(reading, EBB_FINDING_ERROR, path, node, &text);
}

void ebb_reading_also(struct ebb_reading *reading, const char *also)
{
    struct ebb_report *report = reading->report;
    if (!reading->failed && report->count > 0)
        report->items[report->count - 1].also = also;
}

/* ---- ordering and printing ---- */

struct ranked {
    struct ebb_finding finding;
    size_t rank; /* order of discovery, which is the order of the table: decides ties */
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->finding.layer != y->finding.layer)
        return x->finding.layer < y->finding.layer ? -1 : 1;
    if (x->finding.line != y->finding.line)
        return x->finding.line < y->finding.line ? -1 : 1;
    if (x->finding.column != y->finding.column)
        return x->finding.column < y->finding.column ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

void ebb_report_sort(struct ebb_report *report)
{
    struct ranked items[EBB_FINDINGS_MAX];
    for (size_t i = 0; i < report->count; i++)
        items[i] = (struct ranked){.finding = report->items[i], .rank = i};
    qsort(items, report->count, sizeof items[0], compare_ranked);
    for (size_t i = 0; i < report->count; i++)
        report->items[i] = items[i].finding;
}

void ebb_finding_write(const struct ebb_finding *f, struct ebb_json_writer *w)
{
    static const char *const kinds[] = {
        [EBB_FINDING_ERROR] = "error",
        [EBB_FINDING_WARNING] = "warning",
        [EBB_FINDING_NOTE] = "note",
    };
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "kind", kinds[f->kind]);
    ebb_jsonw_key_string(w, "file", f->file);
    ebb_jsonw_key_uint(w, "line", f->line);
    ebb_jsonw_key_uint(w, "column", f->column);
    ebb_jsonw_key_string(w, "path", f->path);
    ebb_jsonw_key_string(w, "also", f->also);
    ebb_jsonw_key_string(w, "message", f->message);
    ebb_jsonw_object_end(w);
}

void ebb_finding_format(const struct ebb_finding *finding, struct ebb_str *out)
{
    static const char *const marks[] = {
        [EBB_FINDING_ERROR] = "",
        [EBB_FINDING_WARNING] = "warning: ",
        [EBB_FINDING_NOTE] = "note: ",
    };
    if (finding->file)
        ebb_str_add(out, finding->file);
    if (finding->line)
        ebb_str_printf(out, "%s%u:%u", finding->file ? ":" : "", finding->line, finding->column);
    if (finding->file || finding->line)
        ebb_str_add(out, ": ");
    ebb_str_add(out, marks[finding->kind]);
    if (finding->path[0])
        ebb_str_printf(out, "%s: ", finding->path);
    ebb_str_add(out, finding->message);
}

/* "3 errors, 1 warning"; nothing for what there is none of. */
static void say_counts(const struct ebb_report *r, struct ebb_str *out)
{
    const struct {
        size_t count;
        const char *noun;
    } parts[] = {{r->errors, "error"}, {r->warnings, "warning"}, {r->notes, "note"}};
    const char *between = "";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].count == 0)
            continue;
        ebb_str_printf(out, "%s%zu %s%s", between, parts[i].count, parts[i].noun,
                       parts[i].count == 1 ? "" : "s");
        between = ", ";
    }
}

void ebb_report_lines(const struct ebb_report *report, struct ebb_str *out)
{
    for (size_t i = 0; i < report->count; i++) {
        ebb_finding_format(&report->items[i], out);
        ebb_str_addc(out, '\n');
    }
}

void ebb_report_format(const struct ebb_report *report, const char *file_name, struct ebb_str *out)
{
    size_t found = report->errors + report->warnings + report->notes;
    ebb_report_lines(report, out);
    if (found > report->count)
        ebb_str_printf(out, "... and %zu more\n", found - report->count);
    ebb_str_printf(out, "%s: %s", file_name, report->errors > 0 ? "invalid: " : "valid");
    if (report->errors == 0 && found > 0)
        ebb_str_add(out, ", with ");
    say_counts(report, out);
    ebb_str_addc(out, '\n');
}
