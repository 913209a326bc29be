/* expand.c - ${name} in sections, and single values set from the command line. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "train/train.h"

/* Value of the name [text, text+n) among the hyperparameters; NULL: unknown. */
static const struct ebb_doc_node *find(const struct ebb_doc_node *hparams, const char *text,
                                       size_t n)
{
    for (size_t i = 0; hparams && hparams->kind == EBB_DOC_MAP && i < hparams->count; i++)
        if (hparams->keys[i]->length == n && memcmp(hparams->keys[i]->text, text, n) == 0)
            return hparams->items[i];
    return NULL;
}

static void add_value(struct ebb_str *out, const struct ebb_doc_node *value)
{
    if (value->kind == EBB_DOC_STRING) {
        ebb_str_addn(out, value->text, value->length);
        return;
    }
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, out, 0);
    ebb_doc_write_json(value, &w);
}

/* A copy of `value` that stands where `at` stands. */
static const struct ebb_doc_node *put(struct ebb_arena *arena, const struct ebb_doc_node *value,
                                      const struct ebb_doc_node *at)
{
    struct ebb_doc_node *copy = ebb_doc_new(arena, value->kind);
    if (!copy)
        return NULL;
    *copy = *value;
    copy->line = at->line;
    copy->column = at->column;
    return copy;
}

static const struct ebb_doc_node *expand_text(struct ebb_arena *arena, struct ebb_reading *reading,
                                              const struct ebb_doc_node *node,
                                              const struct ebb_doc_node *hparams)
{
    const char *at = node->text, *end = at + node->length;
    struct ebb_str out = {0};
    struct ebb_piece piece;
    bool is_open = false;
    if (!memchr(at, '$', node->length))
        return node;
    while (ebb_piece_next(&at, end, &piece)) {
        const struct ebb_doc_node *value =
            piece.kind == EBB_PIECE_NAME ? find(hparams, piece.text, piece.length) : NULL;
        if (value && piece.length + 3 == node->length) /* a whole value keeps its kind */
            return put(arena, value, node);
        if (value)
            add_value(&out, value);
        else if (piece.kind == EBB_PIECE_NAME)
            ebb_str_addn(&out, piece.text - 2, piece.length + 3);
        else
            ebb_str_addn(&out, piece.text, piece.length);
        is_open = is_open || (piece.kind == EBB_PIECE_NAME && !value);
    }
    struct ebb_doc_node *text = out.failed ? NULL : ebb_doc_new_string(arena, ebb_str_c(&out));
    ebb_str_fini(&out);
    const struct ebb_doc_node *result = text ? put(arena, text, node) : NULL;
    if (reading && result && is_open)
        ebb_reading_mark_bad(reading, result);
    return result;
}

const struct ebb_doc_node *train_expand(struct ebb_arena *arena, struct ebb_reading *reading,
                                        const struct ebb_doc_node *node,
                                        const struct ebb_doc_node *hparams)
{
    if (!node)
        return NULL;
    if (node->kind == EBB_DOC_STRING)
        return expand_text(arena, reading, node, hparams);
    if (node->kind != EBB_DOC_LIST && node->kind != EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *copy = ebb_doc_new(arena, node->kind);
    const struct ebb_doc_node **items = ebb_arena_calloc(arena, node->count + 1, sizeof *items);
    if (!copy || !items)
        return NULL;
    for (size_t i = 0; i < node->count; i++) {
        if (!(items[i] = train_expand(arena, reading, node->items[i], hparams)))
            return NULL;
        if (reading && node->kind == EBB_DOC_LIST && !ebb_reading_is_good(reading, items[i]))
            ebb_reading_mark_bad(reading, copy);
    }
    *copy = *node;
    copy->items = items;
    copy->owner = NULL;
    return copy;
}

/* ---- --set ---------------------------------------------------------------------------------- */

/* The mapping under `key`, as a copy that may be changed; made when absent. */
static struct ebb_doc_node *open_map(struct ebb_arena *arena, struct ebb_doc_node *map,
                                     const char *key, struct ebb_error *err)
{
    const struct ebb_doc_node *old = ebb_doc_get(map, key);
    struct ebb_doc_node *copy = ebb_doc_new(arena, EBB_DOC_MAP);
    if (old && old->kind != EBB_DOC_MAP && old->kind != EBB_DOC_NULL) {
        ebb_fail(err, EBB_EINPUT, "'%s' is %s in the file, not a mapping", key,
                 ebb_doc_kind_text(old->kind));
        return NULL;
    }
    if (copy && old && old->kind == EBB_DOC_MAP) {
        *copy = *old;
        copy->owner = NULL;
    }
    if (!copy || !ebb_doc_set(arena, map, key, copy)) {
        ebb_no_memory(err, sizeof *copy);
        return NULL;
    }
    return copy;
}

enum ebb_status train_set(struct ebb_arena *arena, struct ebb_doc_node *root, const char *text,
                          struct ebb_error *err)
{
    const char *equals = strchr(text, '=');
    const struct ebb_doc_node *value;
    if (!equals || equals == text)
        return ebb_fail(err, EBB_EINPUT, "--set %s: must be key=value, as in opt.lr=0.1", text);
    char *path = ebb_arena_strndup(arena, text, (size_t)(equals - text));
    if (!path)
        return ebb_no_memory(err, strlen(text));
    enum ebb_status status =
        ebb_doc_parse_yaml(arena, "--set", equals + 1, strlen(equals + 1), &value, err);
    if (status != EBB_OK)
        return ebb_context(err, status, "--set %s", text);
    struct ebb_doc_node *map = root;
    for (char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        *dot = '\0';
        if (!(map = open_map(arena, map, path, err)))
            return ebb_context(err, err ? err->status : EBB_EINPUT, "--set %s", text);
    }
    if (*path == '\0')
        return ebb_fail(err, EBB_EINPUT, "--set %s: the key is empty", text);
    struct ebb_doc_node *placed = ebb_doc_new(arena, EBB_DOC_NULL);
    if (!placed)
        return ebb_no_memory(err, sizeof *placed);
    if (value)
        *placed = *value;
    placed->owner = NULL;
    placed->line = placed->column = 0; /* it stands in no line of the file */
    return ebb_doc_set(arena, map, path, placed) ? EBB_OK : ebb_no_memory(err, sizeof *placed);
}
