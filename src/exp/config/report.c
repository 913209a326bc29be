/* report.c - findings: collecting, ordering, and the words they are said in.
 *
 * R1  One finding per kind, place and path: the first one stays.
 * R2  Text from the file is quoted with control characters escaped and cut at 60 bytes, so that a
 * message is one line and cannot steer a terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exp/config/reader.h"

#define QUOTE_MAX 60
#define NEAREST_MAX 64 /* longer words are no typing errors, and edit distance is quadratic */

void exp_reader_init(struct exp_config_reader *reader, struct ebb_arena *arena,
                     const struct exp_config_options *options, struct exp_report *report)
{
    *reader = (struct exp_config_reader){.arena = arena, .options = options, .report = report};
    reader->names[EXP_LAYER_SITE] = options->site_name ? options->site_name : "site defaults";
    reader->names[EXP_LAYER_TEMPLATE] =
        options->template_name ? options->template_name : "template";
    reader->names[EXP_LAYER_FILE] = options->file_name;
    ebb_map_init(&reader->layers);
    ebb_map_init(&reader->bad);
    *report = (struct exp_report){0};
}

void exp_reader_fini(struct exp_config_reader *reader)
{
    ebb_map_fini(&reader->layers);
    ebb_map_fini(&reader->bad);
}

void *exp_alloc(struct exp_config_reader *reader, size_t count, size_t bytes)
{
    void *p = reader->failed ? NULL : ebb_arena_calloc(reader->arena, count ? count : 1, bytes);
    if (!p)
        reader->failed = true;
    return p;
}

void exp_mark_bad(struct exp_config_reader *reader, const void *field)
{
    if (ebb_map_put(&reader->bad, (uint64_t)(uintptr_t)field, 1, NULL) != EBB_OK)
        reader->failed = true;
}

bool exp_is_good(const struct exp_config_reader *reader, const void *field)
{
    return !ebb_map_get(&reader->bad, (uint64_t)(uintptr_t)field, NULL);
}

/* ---- words ---- */

void exp_say_quoted(const char *text, size_t length, struct ebb_str *out)
{
    size_t n = length <= QUOTE_MAX ? length : QUOTE_MAX;
    while (n < length && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--; /* do not cut a character in two */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            ebb_str_add(out, "\\n");
        else if (c == '\t')
            ebb_str_add(out, "\\t");
        else if (c < 0x20 || c == 0x7f)
            ebb_str_printf(out, "\\x%02x", c);
        else if (c == 0xc2 && i + 1 < n && (unsigned char)text[i + 1] < 0xa0)
            ebb_str_printf(out, "\\x%02x", (unsigned char)text[++i]); /* C1 controls */
        else
            ebb_str_addc(out, (char)c);
    }
    if (n < length)
        ebb_str_add(out, "...");
}

void exp_say_found(const struct ebb_doc_node *node, struct ebb_str *out)
{
    char number[32];
    switch (node->kind) {
    case EBB_DOC_NULL:
        ebb_str_add(out, "null");
        break;
    case EBB_DOC_BOOL:
        ebb_str_add(out, node->boolean ? "true" : "false");
        break;
    case EBB_DOC_INT:
    case EBB_DOC_DOUBLE:
        if (node->text)
            exp_say_quoted(node->text, strlen(node->text), out);
        else if (node->kind == EBB_DOC_INT)
            ebb_str_printf(out, "%lld", (long long)node->integer);
        else
            ebb_str_add(out, ebb_format_double(node->number, number, sizeof number));
        break;
    case EBB_DOC_STRING:
        ebb_str_addc(out, '"');
        exp_say_quoted(node->text, node->length, out);
        ebb_str_addc(out, '"');
        break;
    case EBB_DOC_LIST:
    case EBB_DOC_MAP:
        if (node->count == 0)
            ebb_str_add(out, node->kind == EBB_DOC_LIST ? "an empty list" : "an empty mapping");
        else
            ebb_str_add(out, ebb_doc_kind_text(node->kind));
        break;
    }
}

void exp_say_words(const char *words, struct ebb_str *out)
{
    size_t n = 0;
    const char *word;
    for (size_t i = 0; (word = exp_words_at(words, i, &n)) != NULL; i++) {
        if (i > 0)
            ebb_str_add(out, ", ");
        ebb_str_addn(out, word, n);
    }
}

void exp_say_allowed(const struct exp_row *row, struct ebb_str *out)
{
    static const char *const nouns[] = {
        [EXP_T_STRING] = "a string",
        [EXP_T_INT] = "an integer",
        [EXP_T_DOUBLE] = "a number",
        [EXP_T_BOOL] = "true or false",
        [EXP_T_ENUM] = "",
        [EXP_T_MAP] = "a mapping",
        [EXP_T_FREE] = "a mapping",
        [EXP_T_ANY] = "any value",
        [EXP_T_ANY_LIST] = "a list of at least one value",
        [EXP_T_INT_LIST] = "a list of at least one integer",
        [EXP_T_STRING_LIST] = "a list of strings, the first one not empty",
        [EXP_T_LABELS] = "a list of strings, or a mapping of strings to true or false",
        [EXP_T_ENTRYPOINT] = "\"<module>:<object>\", or a list of strings (a command)",
        [EXP_T_IMAGE] = "a string, or a mapping with cpu and/or gpu",
        [EXP_T_VARIABLES] = "a list of NAME=VALUE, or a mapping with cpu and/or gpu",
        [EXP_T_PORTS] = "a mapping of names to port numbers",
        [EXP_T_HPARAMS] = "a mapping of names to values or ranges",
        [EXP_T_MOUNTS] = "a list of mappings",
    };
    if (row->allowed)
        ebb_str_add(out, row->allowed);
    else if (row->names)
        exp_say_words(row->names, out);
    else
        ebb_str_add(out, nouns[row->type]);
    if (row->bounds)
        ebb_str_printf(out, " %s", row->bounds);
    if (row->flags & EXP_NULLABLE)
        ebb_str_add(out, " or null");
}

const char *exp_nearest_word(struct exp_config_reader *reader, const char *words, const char *text,
                             size_t length)
{
    if (length > NEAREST_MAX || reader->failed)
        return NULL;
    const char *names[64];
    size_t count = 0, n = 0;
    const char *word;
    for (size_t i = 0; count < 64 && (word = exp_words_at(words, i, &n)) != NULL; i++) {
        names[count] = ebb_arena_strndup(reader->arena, word, n);
        if (!names[count++]) {
            reader->failed = true;
            return NULL;
        }
    }
    char copy[NEAREST_MAX + 1];
    memcpy(copy, text, length);
    copy[length] = '\0';
    return ebb_nearest(copy, names, count);
}

static void path_parts(const struct exp_path *path, struct ebb_str *out)
{
    if (path->up)
        path_parts(path->up, out);
    if (!path->key) {
        ebb_str_printf(out, "[%zu]", path->index);
        return;
    }
    if (path->up)
        ebb_str_addc(out, '.');
    exp_say_quoted(path->key, path->length, out);
}

void exp_path_format(const struct exp_path *path, struct ebb_str *out)
{
    if (path)
        path_parts(path, out);
}

/* ---- collecting ---- */

static bool is_known(const struct exp_report *report, const struct exp_finding *f)
{
    for (size_t i = report->count; i-- > 0;) {
        const struct exp_finding *o = &report->items[i];
        if (o->kind == f->kind && o->layer == f->layer && o->line == f->line &&
            o->column == f->column && strcmp(o->path, f->path) == 0)
            return true; /* R1 */
    }
    return false;
}

static void report_count(struct exp_report *report, enum exp_finding_kind kind)
{
    if (kind == EXP_FINDING_ERROR)
        report->errors++;
    else if (kind == EXP_FINDING_WARNING)
        report->warnings++;
    else
        report->notes++;
}

bool exp_report_is_full(struct exp_config_reader *reader)
{
    if (reader->report->count < EXP_FINDINGS_MAX)
        return false;
    report_count(reader->report, EXP_FINDING_ERROR);
    return true;
}

static void report_add(struct exp_config_reader *reader, enum exp_finding_kind kind,
                       const char *path, const struct ebb_doc_node *node, const char *fmt,
                       va_list args)
{
    struct exp_report *report = reader->report;
    struct ebb_str text;
    ebb_str_init(&text);
    ebb_str_vprintf(&text, fmt, args);
    struct exp_finding f = {.kind = kind, .layer = EXP_LAYER_FILE, .path = path};
    if (node && node->line) {
        f.layer = exp_layer_of(reader, node);
        f.line = node->line;
        f.column = node->column;
    }
    f.file = reader->names[f.layer];
    if (is_known(report, &f))
        goto out;
    report_count(report, kind);
    if (report->count == EXP_FINDINGS_MAX)
        goto out;
    if (report->count == report->capacity) {
        struct exp_finding *items = exp_alloc(reader, EXP_FINDINGS_MAX, sizeof *items);
        if (!items)
            goto out;
        report->items = items;
        report->capacity = EXP_FINDINGS_MAX;
    }
    f.message = ebb_arena_strndup(reader->arena, ebb_str_c(&text), text.length);
    if (!f.message || text.failed)
        reader->failed = true;
    else
        report->items[report->count++] = f;
out:
    ebb_str_fini(&text);
}

/* The path as text in the arena; NULL after out of memory. */
static const char *path_text(struct exp_config_reader *reader, const struct exp_path *path)
{
    struct ebb_str text;
    ebb_str_init(&text);
    exp_path_format(path, &text);
    char *copy = reader->failed || text.failed
                     ? NULL
                     : ebb_arena_strndup(reader->arena, ebb_str_c(&text), text.length);
    if (!copy)
        reader->failed = true;
    ebb_str_fini(&text);
    return copy;
}

void exp_report_error(struct exp_config_reader *reader, const struct exp_path *path,
                      const struct ebb_doc_node *node, const char *fmt, ...)
{
    va_list args;
    const char *text = path_text(reader, path);
    if (!text)
        return;
    va_start(args, fmt);
    report_add(reader, EXP_FINDING_ERROR, text, node, fmt, args);
    va_end(args);
}

void exp_report_warning(struct exp_config_reader *reader, const struct exp_path *path,
                        const struct ebb_doc_node *node, const char *fmt, ...)
{
    va_list args;
    const char *text = path_text(reader, path);
    if (!text)
        return;
    va_start(args, fmt);
    report_add(reader, EXP_FINDING_WARNING, text, node, fmt, args);
    va_end(args);
}

static void report_at(struct exp_config_reader *reader, enum exp_finding_kind kind,
                      const struct ebb_doc_node *node, const char *path, const char *fmt,
                      va_list args)
{
    const char *copy = reader->failed ? NULL : ebb_arena_strndup(reader->arena, path, strlen(path));
    if (copy)
        report_add(reader, kind, copy, node, fmt, args);
    else
        reader->failed = true;
}

void exp_report_note(struct exp_config_reader *reader, const char *path,
                     const struct ebb_doc_node *node, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report_at(reader, EXP_FINDING_NOTE, node, path, fmt, args);
    va_end(args);
}

void exp_config_error(struct exp_config_reader *reader, const struct ebb_doc_node *node,
                      const char *path, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report_at(reader, EXP_FINDING_ERROR, node, path, fmt, args);
    va_end(args);
}

void exp_config_warning(struct exp_config_reader *reader, const struct ebb_doc_node *node,
                        const char *path, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report_at(reader, EXP_FINDING_WARNING, node, path, fmt, args);
    va_end(args);
}

void exp_report_also(struct exp_config_reader *reader, const char *also)
{
    struct exp_report *report = reader->report;
    if (!reader->failed && report->count > 0)
        report->items[report->count - 1].also = also;
}

/* ---- ordering and printing ---- */

struct ranked {
    struct exp_finding finding;
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

void exp_report_sort(struct exp_report *report)
{
    struct ranked items[EXP_FINDINGS_MAX];
    for (size_t i = 0; i < report->count; i++)
        items[i] = (struct ranked){.finding = report->items[i], .rank = i};
    qsort(items, report->count, sizeof items[0], compare_ranked);
    for (size_t i = 0; i < report->count; i++)
        report->items[i] = items[i].finding;
}

void exp_finding_write(const struct exp_finding *f, struct ebb_json_writer *w)
{
    static const char *const kinds[] = {
        [EXP_FINDING_ERROR] = "error",
        [EXP_FINDING_WARNING] = "warning",
        [EXP_FINDING_NOTE] = "note",
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

void exp_finding_format(const struct exp_finding *finding, struct ebb_str *out)
{
    static const char *const marks[] = {
        [EXP_FINDING_ERROR] = "",
        [EXP_FINDING_WARNING] = "warning: ",
        [EXP_FINDING_NOTE] = "note: ",
    };
    if (finding->file) {
        ebb_str_add(out, finding->file);
        if (finding->line)
            ebb_str_printf(out, ":%u:%u", finding->line, finding->column);
        ebb_str_add(out, ": ");
    }
    ebb_str_add(out, marks[finding->kind]);
    if (finding->path[0])
        ebb_str_printf(out, "%s: ", finding->path);
    ebb_str_add(out, finding->message);
}

/* "3 errors, 1 warning"; nothing for what there is none of. */
static void say_counts(const struct exp_report *r, struct ebb_str *out)
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

void exp_report_format(const struct exp_report *report, const char *file_name, struct ebb_str *out)
{
    size_t found = report->errors + report->warnings + report->notes;
    for (size_t i = 0; i < report->count; i++) {
        exp_finding_format(&report->items[i], out);
        ebb_str_addc(out, '\n');
    }
    if (found > report->count)
        ebb_str_printf(out, "... and %zu more\n", found - report->count);
    ebb_str_printf(out, "%s: %s", file_name, report->errors > 0 ? "invalid: " : "valid");
    if (report->errors == 0 && found > 0)
        ebb_str_add(out, ", with ");
    say_counts(report, out);
    ebb_str_addc(out, '\n');
}
