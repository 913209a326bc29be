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

/* A mapping under construction that keeps the key nodes of its sources, and with them their places.
 */
struct map_builder {
    struct ebb_doc_node *node;
    const struct ebb_doc_node **keys, **items;
};

static bool builder_begin(struct ebb_reading *reader, struct map_builder *b, size_t capacity,
                          const struct ebb_doc_node *like)
{
    b->node = ebb_reading_node(reader, EBB_DOC_MAP, like);
    b->keys = ebb_reading_alloc(reader, capacity, sizeof *b->keys);
    b->items = ebb_reading_alloc(reader, capacity, sizeof *b->items);
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

static const struct ebb_doc_node *concat(struct ebb_reading *reader, const struct ebb_doc_node *a,
                                         const struct ebb_doc_node *b)
{
    struct ebb_doc_node *list = ebb_reading_node(reader, EBB_DOC_LIST, b);
    const struct ebb_doc_node **items =
        ebb_reading_alloc(reader, a->count + b->count, sizeof *items);
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

typedef const struct ebb_doc_node *(*merge_fn)(struct ebb_reading *reader,
                                               const struct ebb_doc_node *a,
                                               const struct ebb_doc_node *b);

/* Two mappings with any keys: what both have is merged, the rest is united. */
static const struct ebb_doc_node *merge_members(struct ebb_reading *reader,
                                                const struct ebb_doc_node *a,
                                                const struct ebb_doc_node *b, merge_fn merge)
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
        else
            builder_add(&m, b->keys[j], merge(reader, a->items[i], b->items[j]));
    }
    for (size_t j = 0; j < b->count; j++)
        if (key_index(a, b->keys[j]) == SIZE_MAX)
            builder_add(&m, b->keys[j], b->items[j]);
    return m.node;
}

/* Free-form content: mappings merge, lists join, anything else is replaced. */
const struct ebb_doc_node *exp_merge_free(struct ebb_reading *reader, const struct ebb_doc_node *a,
                                          const struct ebb_doc_node *b)
{
    return a->kind == EBB_DOC_LIST && b->kind == EBB_DOC_LIST
               ? concat(reader, a, b)
               : merge_members(reader, a, b, exp_merge_free);
}

/* A string or list that counts for both sides, as the mapping {cpu, gpu} it stands for. */
static const struct ebb_doc_node *both_sides(struct ebb_reading *reader,
                                             const struct ebb_doc_node *node)
{
    if (node->kind == EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *map = ebb_reading_node(reader, EBB_DOC_MAP, node);
    ebb_reading_set(reader, map, "cpu", node);
    ebb_reading_set(reader, map, "gpu", node);
    return map;
}

/* Labels as a list; the keys of a mapping count. */
static const struct ebb_doc_node *label_list(struct ebb_reading *reader,
                                             const struct ebb_doc_node *node)
{
    if (node->kind != EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *list = ebb_reading_node(reader, EBB_DOC_LIST, node);
    for (size_t i = 0; i < node->count; i++)
        ebb_reading_append(reader, list, node->keys[i]);
    return list;
}

const struct ebb_doc_node *exp_merge_sides(struct ebb_reading *reader, const struct ebb_doc_node *a,
                                           const struct ebb_doc_node *b)
{
    a = both_sides(reader, a);
    b = both_sides(reader, b);
    return reader->failed ? NULL : exp_merge_free(reader, a, b);
}

const struct ebb_doc_node *exp_merge_labels(struct ebb_reading *reader,
                                            const struct ebb_doc_node *a,
                                            const struct ebb_doc_node *b)
{
    a = label_list(reader, a);
    b = label_list(reader, b);
    return reader->failed ? NULL : exp_merge_free(reader, a, b);
}

static const struct ebb_doc_node *merge_section(struct ebb_reading *reader,
                                                const struct ebb_section *section,
                                                const struct ebb_doc_node *a,
                                                const struct ebb_doc_node *b);

/* A hyperparameter: {type: ...} over {type: ...} is a tagged section; a plain value is a const. */
static const struct ebb_doc_node *
merge_hparam(struct ebb_reading *reader, const struct ebb_doc_node *a, const struct ebb_doc_node *b)
{
    static const struct ebb_section section = {.table = &exp_schema, .prefix = "hyperparameters.*"};
    return merge_section(reader, &section, a, b);
}

const struct ebb_doc_node *exp_merge_hparams(struct ebb_reading *reader,
                                             const struct ebb_doc_node *a,
                                             const struct ebb_doc_node *b)
{
    return merge_members(reader, a, b, merge_hparam);
}

static const struct ebb_doc_node *merge_value(struct ebb_reading *reader, const struct ebb_key *row,
                                              const struct ebb_doc_node *a,
                                              const struct ebb_doc_node *b)
{
    if (reader->failed || !row)
        return b;
    if (b->kind == EBB_DOC_NULL)
        return (row->flags & EBB_KEY_NULLABLE) || row->kind == EBB_KEY_NODE ? b : a;
    if (a->kind == EBB_DOC_NULL)
        return b;
    struct ebb_section below = ebb_key_section(&exp_schema, row);
    if (row->kind == EBB_KEY_MAP)
        return merge_section(reader, &below, a, b);
    if (row->kind == EBB_KEY_FREE || row->kind == EBB_KEY_INTS)
        return exp_merge_free(reader, a, b);
    const struct ebb_key_type *type = ebb_key_type(row);
    return type->merge ? type->merge(reader, a, b) : b;
}

/* Does the later mapping select another alternative than the earlier one? */
static bool tag_changes(const struct ebb_section *section, const struct ebb_doc_node *a,
                        const struct ebb_doc_node *b)
{
    const struct ebb_key *tag = ebb_section_tag(section);
    const struct ebb_doc_node *x = tag ? ebb_doc_given(a, ebb_key_name(tag)) : NULL;
    const struct ebb_doc_node *y = tag ? ebb_doc_given(b, ebb_key_name(tag)) : NULL;
    return x && y && !ebb_doc_equal(x, y);
}

static const struct ebb_doc_node *merge_section(struct ebb_reading *reader,
                                                const struct ebb_section *section,
                                                const struct ebb_doc_node *a,
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
        const struct ebb_key *row =
            ebb_section_find(section, NULL, key->text, key->length, &foreign);
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

const struct ebb_doc_node *exp_layers_merge(struct ebb_reading *reader,
                                            const struct ebb_doc_node *earlier,
                                            const struct ebb_doc_node *later)
{
    if (!earlier || !later)
        return later ? later : earlier;
    const struct ebb_doc_node *merged =
        merge_section(reader, &(struct ebb_section){.table = &exp_schema}, earlier, later);
    return reader->failed ? NULL : merged;
}

enum ebb_status exp_template_check(struct ebb_arena *arena, const char *name,
                                   const struct ebb_doc_node *root, exp_section_check check,
                                   struct ebb_report *report, struct ebb_error *err)
{
    struct ebb_reading reading;
    const struct ebb_doc_node *memory = ebb_doc_given(root, "memory");
    ebb_reading_init(&reading, arena, name, report);
    ebb_keys_check(&reading, &(struct ebb_section){.table = &exp_schema}, NULL, root);
    if (check && memory && memory->kind == EBB_DOC_MAP)
        check(NULL, &reading, "memory", memory, NULL);
    return ebb_reading_end(&reading, err);
}
