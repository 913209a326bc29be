/* doc_builder.c - from events to a tree; merging of `<<` and refusal of duplicate keys. */
#include "base/doc_builder.h"

#include <string.h>

#include "base/heap.h"
#include "base/map.h"

enum { DOC_FEW_KEYS = 16 }; /* up to here comparing all pairs is cheaper than hashing */

void ebb_doc_builder_init(struct ebb_doc_builder *b, struct ebb_arena *arena, const char *name,
                          size_t max_keys)
{
    *b = (struct ebb_doc_builder){.arena = arena, .name = name, .max_keys = max_keys};
}

void ebb_doc_builder_fini(struct ebb_doc_builder *b)
{
    ebb_free(b->pairs);
    ebb_free(b->frames);
    *b = (struct ebb_doc_builder){0};
}

struct ebb_doc_node *ebb_doc_builder_scalar(struct ebb_doc_builder *b, enum ebb_doc_kind kind,
                                            uint32_t line, uint32_t column, const char *text,
                                            size_t length)
{
    struct ebb_doc_node *node = ebb_doc_new_text(b->arena, kind, text, length);
    if (node) {
        node->line = line;
        node->column = column;
    }
    return node;
}

enum ebb_status ebb_doc_builder_open(struct ebb_doc_builder *b, enum ebb_doc_kind kind,
                                     uint32_t line, uint32_t column, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&b->frames, &b->frame_capacity, b->depth + 1, sizeof *b->frames, err));
    b->frames[b->depth++] = (struct ebb_doc_frame){
        .kind = kind, .line = line, .column = column, .first = b->pair_count};
    return EBB_OK;
}

bool ebb_doc_builder_wants_key(const struct ebb_doc_builder *b)
{
    if (b->depth == 0)
        return false;
    const struct ebb_doc_frame *f = &b->frames[b->depth - 1];
    return f->kind == EBB_DOC_MAP && !f->member.key;
}

static enum ebb_status doc_too_many_keys(const struct ebb_doc_builder *b, uint32_t line,
                                         uint32_t column, struct ebb_error *err)
{
    return ebb_fail(err, EBB_ELIMIT, "%s:%u:%u: more than %zu keys in one mapping", b->name, line,
                    column, b->max_keys);
}

enum ebb_status ebb_doc_builder_key(struct ebb_doc_builder *b, const struct ebb_doc_node *key,
                                    bool is_merge, struct ebb_error *err)
{
    struct ebb_doc_frame *f = &b->frames[b->depth - 1];
    if (b->pair_count - f->first >= b->max_keys)
        return doc_too_many_keys(b, key->line, key->column, err);
    f->member = (struct ebb_doc_pair){.key = key, .is_merge = is_merge};
    return EBB_OK;
}

static enum ebb_status doc_push_pair(struct ebb_doc_builder *b, struct ebb_doc_pair pair,
                                     struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&b->pairs, &b->pair_capacity, b->pair_count + 1, sizeof *b->pairs, err));
    b->pairs[b->pair_count++] = pair;
    return EBB_OK;
}

enum ebb_status ebb_doc_builder_value(struct ebb_doc_builder *b, const struct ebb_doc_node *value,
                                      struct ebb_error *err)
{
    if (b->depth == 0) {
        b->root = value;
        return EBB_OK;
    }
    struct ebb_doc_frame *f = &b->frames[b->depth - 1];
    struct ebb_doc_pair pair = f->member;
    pair.value = value;
    f->member = (struct ebb_doc_pair){0};
    return doc_push_pair(b, pair, err);
}

static enum ebb_status doc_duplicate(const struct ebb_doc_builder *b,
                                     const struct ebb_doc_node *key,
                                     const struct ebb_doc_node *first, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: key '%.64s' stands here again, first on line %u",
                    b->name, key->line, key->column, key->text, first->line);
}

static bool doc_same_text(const struct ebb_doc_node *a, const struct ebb_doc_node *b)
{
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

static enum ebb_status doc_check_few(const struct ebb_doc_builder *b,
                                     const struct ebb_doc_pair *pairs, size_t count,
                                     struct ebb_error *err)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (doc_same_text(pairs[i].key, pairs[j].key))
                return doc_duplicate(b, pairs[i].key, pairs[j].key, err);
        }
    }
    return EBB_OK;
}

/* Note every key in `seen` (text -> index); a second `<<` is a duplicate like any other. */
static enum ebb_status doc_check_many(const struct ebb_doc_builder *b,
                                      const struct ebb_doc_pair *pairs, size_t count,
                                      struct ebb_strmap *seen, struct ebb_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct ebb_doc_node *key = pairs[i].key;
        uint64_t first;
        if (ebb_strmap_get(seen, key->text, key->length, &first))
            return doc_duplicate(b, key, pairs[first].key, err);
        EBB_TRY(ebb_strmap_put(seen, key->text, key->length, i, err));
    }
    return EBB_OK;
}

/* Append the members of `map` whose keys were not seen yet. */
static enum ebb_status doc_merge_map(struct ebb_doc_builder *b, const struct ebb_doc_node *map,
                                     const struct ebb_doc_node *at, size_t first,
                                     struct ebb_strmap *seen, struct ebb_error *err)
{
    if (map->kind != EBB_DOC_MAP)
        return ebb_fail(err, EBB_EINPUT,
                        "%s:%u:%u: '<<' needs a mapping or a list of mappings, found %s", b->name,
                        at->line, at->column, ebb_doc_kind_text(map->kind));
    for (size_t i = 0; i < map->count; i++) {
        const struct ebb_doc_node *key = map->keys[i];
        if (ebb_strmap_get(seen, key->text, key->length, NULL))
            continue;
        if (b->pair_count - first >= b->max_keys)
            return doc_too_many_keys(b, at->line, at->column, err);
        EBB_TRY(ebb_strmap_put(seen, key->text, key->length, 0, err));
        EBB_TRY(doc_push_pair(b, (struct ebb_doc_pair){.key = key, .value = map->items[i]}, err));
    }
    return EBB_OK;
}

/* Replace `<<` by what it merges, at its place: explicit keys win, then earlier mappings. The
 * result is built behind the `count` original pairs and moved over them. */
static enum ebb_status doc_merge(struct ebb_doc_builder *b, size_t first, struct ebb_strmap *seen,
                                 struct ebb_error *err)
{
    size_t last = b->pair_count;
    for (size_t i = first; i < last; i++) {
        struct ebb_doc_pair pair = b->pairs[i];
        if (!pair.is_merge) {
            EBB_TRY(doc_push_pair(b, pair, err));
        } else if (pair.value->kind == EBB_DOC_LIST) {
            for (size_t j = 0; j < pair.value->count; j++)
                EBB_TRY(doc_merge_map(b, pair.value->items[j], pair.key, last, seen, err));
        } else {
            EBB_TRY(doc_merge_map(b, pair.value, pair.key, last, seen, err));
        }
    }
    size_t merged = b->pair_count - last;
    if (merged > 0)
        memmove(b->pairs + first, b->pairs + last, merged * sizeof *b->pairs);
    b->pair_count = first + merged;
    return EBB_OK;
}

static enum ebb_status doc_finish_map(struct ebb_doc_builder *b, size_t first,
                                      struct ebb_error *err)
{
    size_t count = b->pair_count - first;
    bool has_merge = false;
    if (count == 0)
        return EBB_OK;
    for (size_t i = first; i < b->pair_count; i++)
        has_merge |= b->pairs[i].is_merge;
    if (!has_merge && count <= DOC_FEW_KEYS)
        return doc_check_few(b, b->pairs + first, count, err);
    struct ebb_strmap seen = {0};
    enum ebb_status status = doc_check_many(b, b->pairs + first, count, &seen, err);
    if (status == EBB_OK && has_merge)
        status = doc_merge(b, first, &seen, err);
    ebb_strmap_fini(&seen);
    return status;
}

static const struct ebb_doc_node *doc_make_container(struct ebb_doc_builder *b,
                                                     const struct ebb_doc_frame *f)
{
    struct ebb_doc_node *node = ebb_doc_new(b->arena, f->kind);
    size_t count = b->pair_count - f->first;
    if (!node)
        return NULL;
    node->line = f->line;
    node->column = f->column;
    if (count == 0)
        return node;
    const struct ebb_doc_node **items = ebb_arena_calloc(b->arena, count, sizeof *items);
    const struct ebb_doc_node **keys = NULL;
    if (f->kind == EBB_DOC_MAP)
        keys = ebb_arena_calloc(b->arena, count, sizeof *keys);
    if (!items || (f->kind == EBB_DOC_MAP && !keys))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        items[i] = b->pairs[f->first + i].value;
        if (keys)
            keys[i] = b->pairs[f->first + i].key;
    }
    node->items = items;
    node->keys = keys;
    node->count = count;
    return node;
}

enum ebb_status ebb_doc_builder_close(struct ebb_doc_builder *b, const struct ebb_doc_node **node,
                                      struct ebb_error *err)
{
    struct ebb_doc_frame f = b->frames[b->depth - 1];
    if (f.kind == EBB_DOC_MAP)
        EBB_TRY(doc_finish_map(b, f.first, err));
    const struct ebb_doc_node *made = doc_make_container(b, &f);
    if (!made)
        return ebb_no_memory(err, sizeof *made);
    b->pair_count = f.first;
    b->depth--;
    if (node)
        *node = made;
    return ebb_doc_builder_value(b, made, err);
}
