/* vectors_config.c - the reference cases of the configuration (config_validation.json).
 *
 * A case holds the text of a file, optionally of a template and of the site's storage, and what
 * must come out: accepted with this normalised form, or refused with an error at this field. Forms
 * are compared after deleting null, empty lists and empty mappings on both sides; labels as a set.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "dev/vectors.h"
#include "exp/exp.h"

static int compare_texts(const void *a, const void *b)
{
    const struct ebb_doc_node *const *x = a, *const *y = b;
    return strcmp((*x)->text, (*y)->text);
}

/* A list of strings as a set: sorted, each once. */
static const struct ebb_doc_node *as_set(struct ebb_arena *arena, const struct ebb_doc_node *list)
{
    const struct ebb_doc_node **sorted = ebb_arena_calloc(arena, list->count + 1, sizeof *sorted);
    struct ebb_doc_node *out = ebb_doc_new(arena, EBB_DOC_LIST);
    if (!sorted || !out)
        return NULL;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i]->kind != EBB_DOC_STRING)
            return list;
        sorted[i] = list->items[i];
    }
    qsort(sorted, list->count, sizeof *sorted, compare_texts);
    for (size_t i = 0; i < list->count; i++)
        if (i == 0 || strcmp(sorted[i]->text, sorted[i - 1]->text) != 0)
            if (!ebb_doc_append(arena, out, sorted[i]))
                return NULL;
    return out;
}

/* `node` without null and empty containers; NULL: nothing is left (or out of memory, which then
 * shows up as a difference). */
static const struct ebb_doc_node *stripped(struct ebb_arena *arena, const struct ebb_doc_node *node)
{
    if (node->kind == EBB_DOC_NULL)
        return NULL;
    if (node->kind != EBB_DOC_LIST && node->kind != EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *out = ebb_doc_new(arena, node->kind);
    for (size_t i = 0; out && i < node->count; i++) {
        const struct ebb_doc_node *item = stripped(arena, node->items[i]);
        if (item && node->kind == EBB_DOC_LIST)
            ebb_doc_append(arena, out, item);
        else if (item && strcmp(node->keys[i]->text, "labels") == 0 && item->kind == EBB_DOC_LIST)
            ebb_doc_set(arena, out, "labels", as_set(arena, item));
        else if (item)
            ebb_doc_set(arena, out, node->keys[i]->text, item);
    }
    return out && out->count > 0 ? out : NULL;
}

/* Path of the first difference between two forms, appended to `path`. */
static void say_difference(const struct ebb_doc_node *a, const struct ebb_doc_node *b,
                           struct ebb_str *path)
{
    if (!a || !b || a->kind != EBB_DOC_MAP || b->kind != EBB_DOC_MAP)
        return;
    for (int side = 0; side < 2; side++) {
        const struct ebb_doc_node *from = side ? b : a, *other = side ? a : b;
        for (size_t i = 0; i < from->count; i++) {
            const char *key = from->keys[i]->text;
            const struct ebb_doc_node *twin = ebb_doc_get(other, key);
            if (twin && ebb_doc_equal(from->items[i], twin))
                continue;
            ebb_str_printf(path, "%s%s", path->length ? "." : "", key);
            say_difference(from->items[i], twin, path);
            return;
        }
    }
}

/* ---- one case ---- */

struct outcome {
    bool is_accepted;
    struct exp_config config;
    struct ebb_report report;
    char problem[1024]; /* of a text that could not even be parsed */
};

static bool side_file(struct ebb_arena *arena, const struct ebb_doc_node *item, const char *key,
                      const struct ebb_doc_node **root, struct outcome *out)
{
    const struct ebb_doc_node *text = ebb_doc_get(item, key);
    struct ebb_error err = {0};
    if (!text || text->kind != EBB_DOC_STRING)
        return true;
    if (ebb_doc_parse_yaml(arena, key, text->text, text->length, root, &err) == EBB_OK)
        return true;
    memcpy(out->problem, err.message, sizeof out->problem);
    return false;
}

static void run_case(struct ebb_arena *arena, const struct ebb_doc_node *item, struct outcome *out)
{
    struct exp_config_options options = {.file_name = "yaml",
                                         .site_name = "cluster_checkpoint_storage",
                                         .template_name = "template",
                                         .default_seed = -1};
    const struct ebb_doc_node *text = ebb_doc_get(item, "yaml");
    struct ebb_error err = {0};
    if (!side_file(arena, item, "template", &options.template_root, out) ||
        !side_file(arena, item, "cluster_checkpoint_storage", &options.site_storage, out))
        return;
    enum ebb_status status = exp_config_parse(arena, text->text, text->length, &options,
                                              &out->config, &out->report, &err);
    out->is_accepted = status == EBB_OK;
    memcpy(out->problem, err.message, sizeof out->problem);
}

/* A text that is no YAML at all (a key twice) has no paths; its message quotes the key. */
static bool quotes_key(const char *message, const char *field)
{
    const char *dot = strrchr(field, '.');
    const char *key = dot ? dot + 1 : field;
    size_t n = strlen(key);
    for (const char *at = message; (at = strstr(at, key)) != NULL; at++)
        if (at > message && at[-1] == '\'' && at[n] == '\'')
            return true;
    return false;
}

static bool names_field(const struct ebb_report *report, const char *field)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct ebb_finding *f = &report->items[i];
        if (f->kind == EBB_FINDING_ERROR && !f->path[0] && quotes_key(f->message, field))
            return true;
        if (f->kind == EBB_FINDING_ERROR &&
            (strcmp(f->path, field) == 0 || (f->also && strcmp(f->also, field) == 0)))
            return true;
    }
    return false;
}

/* What came out, in the shape of `expected`. Losing it to lack of memory only shortens the dump. */
static struct ebb_doc_node *computed_doc(struct ebb_arena *arena, const struct outcome *out)
{
    struct ebb_doc_node *doc = ebb_doc_new(arena, EBB_DOC_MAP);
    ebb_doc_set(arena, doc, "accept", ebb_doc_new_bool(arena, out->is_accepted));
    if (out->is_accepted) {
        ebb_doc_set(arena, doc, "normalized", out->config.normalized);
        return doc;
    }
    struct ebb_doc_node *fields = ebb_doc_new(arena, EBB_DOC_LIST);
    struct ebb_doc_node *messages = ebb_doc_new(arena, EBB_DOC_LIST);
    struct ebb_str line = {0};
    for (size_t i = 0; i < out->report.count; i++) {
        const struct ebb_finding *f = &out->report.items[i];
        if (f->kind != EBB_FINDING_ERROR)
            continue;
        if (fields && fields->count == 0)
            ebb_doc_set(arena, doc, "field", ebb_doc_new_string(arena, f->path));
        ebb_doc_append(arena, fields, ebb_doc_new_string(arena, f->path));
        if (f->also)
            ebb_doc_append(arena, fields, ebb_doc_new_string(arena, f->also));
        ebb_str_clear(&line);
        ebb_finding_format(f, &line);
        ebb_doc_append(arena, messages, ebb_doc_new_string(arena, ebb_str_c(&line)));
    }
    ebb_str_fini(&line);
    ebb_doc_set(arena, doc, "fields", fields);
    ebb_doc_set(arena, doc, "errors", messages);
    return doc;
}

struct dev_verdict dev_judge_config(struct ebb_arena *arena, const struct ebb_doc_node *item)
{
    struct outcome out = {0};
    const struct ebb_doc_node *expected = ebb_doc_get(item, "expected");
    const struct ebb_doc_node *accept = ebb_doc_get(expected, "accept");
    const struct ebb_doc_node *text = ebb_doc_get(item, "yaml");
    if (!accept || accept->kind != EBB_DOC_BOOL || !text || text->kind != EBB_DOC_STRING)
        return (struct dev_verdict){.reason = "no case of the configuration"};
    run_case(arena, item, &out);
    struct dev_verdict verdict = {.computed = computed_doc(arena, &out)};
    const char *field = ebb_doc_string(expected, "field", NULL);
    const struct ebb_doc_node *form = ebb_doc_get(expected, "normalized");
    if (out.is_accepted != accept->boolean) {
        verdict.reason = ebb_arena_printf(arena, "%s, should be %s: %s",
                                          out.is_accepted ? "accepted" : "refused",
                                          out.is_accepted ? "refused" : "accepted",
                                          out.is_accepted && field ? field : out.problem);
    } else if (!out.is_accepted && field && !names_field(&out.report, field)) {
        verdict.reason = ebb_arena_printf(arena, "refused, but not for %s: %s", field, out.problem);
    } else if (out.is_accepted && form) {
        const struct ebb_doc_node *mine = stripped(arena, out.config.normalized);
        const struct ebb_doc_node *theirs = stripped(arena, form);
        struct ebb_str path = {0};
        say_difference(mine, theirs, &path);
        if (!ebb_doc_equal(mine, theirs))
            verdict.reason =
                ebb_arena_printf(arena, "normalised form differs at %s", ebb_str_c(&path));
        ebb_str_fini(&path);
    }
    return verdict;
}
