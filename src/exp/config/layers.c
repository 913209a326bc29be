/* layers.c - site defaults, template and file become one tree.
 *
 * Merging follows the schema: mappings key by key, lists one after the other with the earlier layer
 * first, scalars and whole values (const val, categorical vals, commands) replaced. A tagged
 * section whose tag changes keeps only what all its alternatives share. A null is no value, so the
 * lower layer shines through, except where null is itself a documented value.
 *
 * Values are never copied: the merged tree points into its layers, which keep file, line and
 * column. */
#include <string.h>

#include "exp/config/reader.h"

void exp_layer_mark(struct exp_config_reader *reader, const struct ebb_doc_node *node,
                    enum exp_layer layer)
{
    if (reader->failed || !node)
        return;
    if (ebb_map_put(&reader->layers, (uint64_t)(uintptr_t)node, (uint64_t)layer, NULL) != EBB_OK) {
        reader->failed = true;
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == EBB_DOC_MAP)
            exp_layer_mark(reader, node->keys[i], layer);
        exp_layer_mark(reader, node->items[i], layer);
    }
}

enum exp_layer exp_layer_of(const struct exp_config_reader *reader, const struct ebb_doc_node *node)
{
    uint64_t layer = EXP_LAYER_FILE;
    if (node)
        ebb_map_get(&reader->layers, (uint64_t)(uintptr_t)node, &layer);
    return (enum exp_layer)layer;
}

/* ---- building nodes ---- */

struct ebb_doc_node *exp_node(struct exp_config_reader *reader, enum ebb_doc_kind kind,
                              const struct ebb_doc_node *like)
{
    struct ebb_doc_node *node = reader->failed ? NULL : ebb_doc_new(reader->arena, kind);
    if (!node) {
        reader->failed = true;
        return NULL;
    }
    if (like) {
        node->line = like->line;
        node->column = like->column;
        enum exp_layer layer = exp_layer_of(reader, like);
        if (layer != EXP_LAYER_FILE)
            exp_layer_mark(reader, node, layer);
    }
    return node;
}

void exp_set(struct exp_config_reader *reader, struct ebb_doc_node *map, const char *key,
             const struct ebb_doc_node *value)
{
    if (reader->failed || !map || !value)
        return;
    if (!ebb_doc_set(reader->arena, map, key, value))
        reader->failed = true;
}

void exp_append(struct exp_config_reader *reader, struct ebb_doc_node *list,
                const struct ebb_doc_node *item)
{
    if (reader->failed || !list || !item)
        return;
    if (!ebb_doc_append(reader->arena, list, item))
        reader->failed = true;
}

const struct ebb_doc_node *exp_given(const struct ebb_doc_node *map, const char *key)
{
    const struct ebb_doc_node *value = ebb_doc_get(map, key);
    return value && value->kind != EBB_DOC_NULL ? value : NULL;
}

/* A mapping under construction that keeps the key nodes of its sources, and with them their places.
 */
struct map_builder {
    struct ebb_doc_node *node;
    const struct ebb_doc_node **keys, **items;
};

static bool builder_begin(struct exp_config_reader *reader, struct map_builder *b, size_t capacity,
                          const struct ebb_doc_node *like)
{
    b->node = exp_node(reader, EBB_DOC_MAP, like);
    b->keys = exp_alloc(reader, capacity, sizeof *b->keys);
    b->items = exp_alloc(reader, capacity, sizeof *b->items);
    if (reader->failed)
        return false;
    b->node->keys = b->keys;
    b->node->items = b->items;
    return true;
}

static void builder_add(struct map_builder *b, const struct ebb_doc_node *key,
                        const struct ebb_doc_node *value)
{
    b->keys[b->node->count] = key;
    b->items[b->node->count++] = value;
}

/* Index of a key in a mapping, SIZE_MAX when absent. */
static size_t key_index(const struct ebb_doc_node *map, const struct ebb_doc_node *key)
{
    for (size_t i = 0; i < map->count; i++)
        if (map->keys[i]->length == key->length &&
            memcmp(map->keys[i]->text, key->text, key->length) == 0)
            return i;
    return SIZE_MAX;
}

static const struct ebb_doc_node *concat(struct exp_config_reader *reader,
                                         const struct ebb_doc_node *a, const struct ebb_doc_node *b)
{
    struct ebb_doc_node *list = exp_node(reader, EBB_DOC_LIST, b);
    const struct ebb_doc_node **items = exp_alloc(reader, a->count + b->count, sizeof *items);
    if (!list || !items)
        return NULL;
    for (size_t i = 0; i < a->count; i++)
        items[i] = a->items[i];
    for (size_t i = 0; i < b->count; i++)
        items[a->count + i] = b->items[i];
    list->items = items;
    list->count = a->count + b->count;
    return list;
}

/* ---- one value over another ---- */

/* Free-form content: mappings merge, lists join, anything else is replaced. */
static const struct ebb_doc_node *merge_free(struct exp_config_reader *reader,
                                             const struct ebb_doc_node *a,
                                             const struct ebb_doc_node *b)
{
    if (a->kind == EBB_DOC_LIST && b->kind == EBB_DOC_LIST)
        return concat(reader, a, b);
    if (a->kind != EBB_DOC_MAP || b->kind != EBB_DOC_MAP)
        return b;
    struct map_builder m;
    if (!builder_begin(reader, &m, a->count + b->count, b))
        return NULL;
    for (size_t i = 0; i < a->count; i++) {
        size_t j = key_index(b, a->keys[i]);
        if (j == SIZE_MAX)
            builder_add(&m, a->keys[i], a->items[i]);
        else
            builder_add(&m, b->keys[j], merge_free(reader, a->items[i], b->items[j]));
    }
    for (size_t j = 0; j < b->count; j++)
        if (key_index(a, b->keys[j]) == SIZE_MAX)
            builder_add(&m, b->keys[j], b->items[j]);
    return m.node;
}

/* A string or list that counts for both sides, as the mapping {cpu, gpu} it stands for. */
static const struct ebb_doc_node *both_sides(struct exp_config_reader *reader,
                                             const struct ebb_doc_node *node)
{
    if (node->kind == EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *map = exp_node(reader, EBB_DOC_MAP, node);
    exp_set(reader, map, "cpu", node);
    exp_set(reader, map, "gpu", node);
    return map;
}

/* Labels as a list; the keys of a mapping count. */
static const struct ebb_doc_node *label_list(struct exp_config_reader *reader,
                                             const struct ebb_doc_node *node)
{
    if (node->kind != EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *list = exp_node(reader, EBB_DOC_LIST, node);
    for (size_t i = 0; i < node->count; i++)
        exp_append(reader, list, node->keys[i]);
    return list;
}

static const struct ebb_doc_node *merge_section(struct exp_config_reader *reader,
                                                const char *section, const struct ebb_doc_node *a,
                                                const struct ebb_doc_node *b);

/* A hyperparameter: {type: ...} over {type: ...} is a tagged section; a plain value is a const. */
static const struct ebb_doc_node *merge_hparams(struct exp_config_reader *reader,
                                                const struct ebb_doc_node *a,
                                                const struct ebb_doc_node *b)
{
    if (a->kind != EBB_DOC_MAP || b->kind != EBB_DOC_MAP)
        return b;
    struct map_builder m;
    if (!builder_begin(reader, &m, a->count + b->count, b))
        return NULL;
    for (size_t i = 0; i < a->count; i++) {
        size_t j = key_index(b, a->keys[i]);
        if (j == SIZE_MAX)
            builder_add(&m, a->keys[i], a->items[i]);
        else if (a->items[i]->kind == EBB_DOC_MAP && b->items[j]->kind == EBB_DOC_MAP)
            builder_add(&m, b->keys[j],
                        merge_section(reader, "hyperparameters.*", a->items[i], b->items[j]));
        else
            builder_add(&m, b->keys[j], b->items[j]);
    }
    for (size_t j = 0; j < b->count; j++)
        if (key_index(a, b->keys[j]) == SIZE_MAX)
            builder_add(&m, b->keys[j], b->items[j]);
    return m.node;
}

static const struct ebb_doc_node *merge_value(struct exp_config_reader *reader,
                                              const struct exp_row *row,
                                              const struct ebb_doc_node *a,
                                              const struct ebb_doc_node *b)
{
    if (reader->failed || !row)
        return b;
    if (b->kind == EBB_DOC_NULL)
        return (row->flags & EXP_NULLABLE) || row->type == EXP_T_ANY ? b : a;
    if (a->kind == EBB_DOC_NULL)
        return b;
    switch (row->type) {
    case EXP_T_MAP:
        return merge_section(reader, exp_row_section(row), a, b);
    case EXP_T_HPARAMS:
        return merge_hparams(reader, a, b);
    case EXP_T_LABELS:
        a = label_list(reader, a);
        b = label_list(reader, b);
        return reader->failed ? NULL : merge_free(reader, a, b);
    case EXP_T_IMAGE:
    case EXP_T_VARIABLES:
        a = both_sides(reader, a);
        b = both_sides(reader, b);
        return reader->failed ? NULL : merge_free(reader, a, b);
    case EXP_T_FREE:
    case EXP_T_PORTS:
    case EXP_T_MOUNTS:
    case EXP_T_INT_LIST:
        return merge_free(reader, a, b);
    default:
        return b;
    }
}

/* Does the later mapping select another alternative than the earlier one? */
static bool tag_changes(const char *section, const struct ebb_doc_node *a,
                        const struct ebb_doc_node *b)
{
    const struct exp_row *tag = exp_schema_tag(section);
    const struct ebb_doc_node *x = tag ? exp_given(a, exp_row_key(tag)) : NULL;
    const struct ebb_doc_node *y = tag ? exp_given(b, exp_row_key(tag)) : NULL;
    return x && y && !ebb_doc_equal(x, y);
}

static const struct ebb_doc_node *merge_section(struct exp_config_reader *reader,
                                                const char *section, const struct ebb_doc_node *a,
                                                const struct ebb_doc_node *b)
{
    if (a->kind != EBB_DOC_MAP || b->kind != EBB_DOC_MAP)
        return b;
    struct map_builder m;
    if (!builder_begin(reader, &m, a->count + b->count, b))
        return NULL;
    bool is_other = tag_changes(section, a, b);
    for (size_t i = 0; i < a->count; i++) {
        const struct ebb_doc_node *key = a->keys[i];
        bool foreign = false;
        const struct exp_row *row =
            exp_schema_find(section, NULL, key->text, key->length, &foreign);
        if (is_other && (!row || foreign))
            continue; /* belongs to the alternative that is left */
        size_t j = key_index(b, key);
        if (j == SIZE_MAX)
            builder_add(&m, key, a->items[i]);
        else
            builder_add(&m, b->keys[j], merge_value(reader, row, a->items[i], b->items[j]));
    }
    for (size_t j = 0; j < b->count; j++) {
        size_t i = key_index(m.node, b->keys[j]);
        if (i == SIZE_MAX)
            builder_add(&m, b->keys[j], b->items[j]);
    }
    return m.node;
}

const struct ebb_doc_node *exp_layers_merge(struct exp_config_reader *reader,
                                            const struct ebb_doc_node *earlier,
                                            const struct ebb_doc_node *later)
{
    if (!earlier || !later)
        return later ? later : earlier;
    const struct ebb_doc_node *merged = merge_section(reader, "", earlier, later);
    return reader->failed ? NULL : merged;
}
