/* doc.c - documents in memory: look, build, compare, write. Reading is in doc_json.c, doc_yaml.c.
 */
#include "base/doc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { DOC_JSON_MAX = 64 << 20, DOC_YAML_MAX = 256 << 10 };

enum ebb_status ebb_doc_load(struct ebb_arena *arena, const char *path,
                             const struct ebb_doc_node **root, struct ebb_error *err)
{
    size_t n = strlen(path);
    bool is_json = n >= 5 && strcmp(path + n - 5, ".json") == 0;
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, is_json ? DOC_JSON_MAX : DOC_YAML_MAX, err));
    enum ebb_status status =
        is_json ? ebb_doc_parse_json(arena, path, view.data, view.length, root, err)
                : ebb_doc_parse_yaml(arena, path, view.data, view.length, root, err);
    ebb_file_view_close(&view);
    return status;
}

/* Index of key in a MAP, or count. */
static size_t doc_find(const struct ebb_doc_node *map, const char *key, size_t length)
{
    size_t i = 0;
    while (i < map->count &&
           (map->keys[i]->length != length || memcmp(map->keys[i]->text, key, length) != 0))
        i++;
    return i;
}

const struct ebb_doc_node *ebb_doc_get(const struct ebb_doc_node *node, const char *key)
{
    if (!node || node->kind != EBB_DOC_MAP)
        return NULL;
    size_t i = doc_find(node, key, strlen(key));
    return i < node->count ? node->items[i] : NULL;
}

const struct ebb_doc_node *ebb_doc_given(const struct ebb_doc_node *map, const char *key)
{
    const struct ebb_doc_node *value = ebb_doc_get(map, key);
    return value && value->kind != EBB_DOC_NULL ? value : NULL;
}

const char *ebb_doc_string(const struct ebb_doc_node *map, const char *key, const char *fallback)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    return node && node->kind == EBB_DOC_STRING ? node->text : fallback;
}

int64_t ebb_doc_int(const struct ebb_doc_node *map, const char *key, int64_t fallback)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    return node && node->kind == EBB_DOC_INT ? node->integer : fallback;
}

double ebb_doc_double(const struct ebb_doc_node *map, const char *key, double fallback)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    bool is_number = node && (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE);
    return is_number ? node->number : fallback;
}

bool ebb_doc_bool(const struct ebb_doc_node *map, const char *key, bool fallback)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    return node && node->kind == EBB_DOC_BOOL ? node->boolean : fallback;
}

const char *ebb_doc_kind_text(enum ebb_doc_kind kind)
{
    static const char *const texts[] = {
        [EBB_DOC_NULL] = "null",       [EBB_DOC_BOOL] = "a boolean",  [EBB_DOC_INT] = "an integer",
        [EBB_DOC_DOUBLE] = "a number", [EBB_DOC_STRING] = "a string", [EBB_DOC_LIST] = "a list",
        [EBB_DOC_MAP] = "a mapping",
    };
    return (size_t)kind < sizeof texts / sizeof texts[0] ? texts[kind] : "an unknown kind";
}

struct ebb_doc_node *ebb_doc_new(struct ebb_arena *arena, enum ebb_doc_kind kind)
{
    struct ebb_doc_node *node = ebb_arena_calloc(arena, 1, sizeof *node);
    if (node) {
        node->kind = kind;
        node->text = "";
    }
    return node;
}

struct ebb_doc_node *ebb_doc_new_text(struct ebb_arena *arena, enum ebb_doc_kind kind,
                                      const char *text, size_t length)
{
    struct ebb_doc_node *node = ebb_doc_new(arena, kind);
    char *copy = node ? ebb_arena_strndup(arena, text, length) : NULL;
    if (!copy)
        return NULL;
    node->text = copy;
    node->length = length;
    return node;
}

struct ebb_doc_node *ebb_doc_new_string(struct ebb_arena *arena, const char *text)
{
    return ebb_doc_new_text(arena, EBB_DOC_STRING, text, strlen(text));
}

struct ebb_doc_node *ebb_doc_new_int(struct ebb_arena *arena, int64_t value)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRId64, value);
    struct ebb_doc_node *node = ebb_doc_new_text(arena, EBB_DOC_INT, text, (size_t)length);
    if (node) {
        node->integer = value;
        node->number = (double)value;
    }
    return node;
}

struct ebb_doc_node *ebb_doc_new_double(struct ebb_arena *arena, double value)
{
    char text[40];
    ebb_format_double(value, text, sizeof text);
    struct ebb_doc_node *node = ebb_doc_new_text(arena, EBB_DOC_DOUBLE, text, strlen(text));
    if (node)
        node->number = value;
    return node;
}

struct ebb_doc_node *ebb_doc_new_bool(struct ebb_arena *arena, bool value)
{
    struct ebb_doc_node *node = ebb_doc_new(arena, EBB_DOC_BOOL);
    if (node)
        node->boolean = value;
    return node;
}

/* Arrays of `node` that may be written, with room for one more; NULL when memory is out. The arrays
 * were made by this function for this very node, or are replaced by copies. */
static bool doc_make_room(struct ebb_arena *arena, struct ebb_doc_node *node,
                          const struct ebb_doc_node ***items, const struct ebb_doc_node ***keys)
{
    if (node->owner != node || node->count >= node->capacity) {
        size_t capacity = node->count < 4 ? 8 : node->count * 2;
        bool has_keys = node->kind == EBB_DOC_MAP;
        const struct ebb_doc_node **i = ebb_arena_calloc(arena, capacity, sizeof *i);
        const struct ebb_doc_node **k =
            has_keys ? ebb_arena_calloc(arena, capacity, sizeof *k) : NULL;
        if (!i || (has_keys && !k))
            return false;
        if (node->count > 0) {
            memcpy(i, node->items, node->count * sizeof *i);
            if (has_keys)
                memcpy(k, node->keys, node->count * sizeof *k);
        }
        node->items = i;
        node->keys = k;
        node->owner = node;
        node->capacity = capacity;
    }
    memcpy(items, &node->items, sizeof *items); /* const for readers, ours to change */
    memcpy(keys, &node->keys, sizeof *keys);
    return true;
}

bool ebb_doc_append(struct ebb_arena *arena, struct ebb_doc_node *list,
                    const struct ebb_doc_node *item)
{
    const struct ebb_doc_node **items, **keys;
    if (!list || !item || list->kind != EBB_DOC_LIST || !doc_make_room(arena, list, &items, &keys))
        return false;
    items[list->count++] = item;
    return true;
}

bool ebb_doc_set(struct ebb_arena *arena, struct ebb_doc_node *map, const char *key,
                 const struct ebb_doc_node *value)
{
    const struct ebb_doc_node **items, **keys;
    if (!map || !value || map->kind != EBB_DOC_MAP || !doc_make_room(arena, map, &items, &keys))
        return false;
    size_t i = doc_find(map, key, strlen(key));
    if (i == map->count) {
        keys[i] = ebb_doc_new_string(arena, key);
        if (!keys[i])
            return false;
        map->count++;
    }
    items[i] = value;
    return true;
}

static bool doc_is_number(const struct ebb_doc_node *node)
{
    return node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE;
}

static bool doc_numbers_equal(const struct ebb_doc_node *a, const struct ebb_doc_node *b)
{
    if (a->kind == b->kind)
        return a->kind == EBB_DOC_INT ? a->integer == b->integer : a->number == b->number;
    /* An int64 and a double: exact only if the double is whole and in range. */
    int64_t integer = a->kind == EBB_DOC_INT ? a->integer : b->integer;
    double number = a->kind == EBB_DOC_INT ? b->number : a->number;
    return number >= -0x1p63 && number < 0x1p63 && number == floor(number) &&
           (int64_t)number == integer;
}

static bool doc_maps_equal(const struct ebb_doc_node *a, const struct ebb_doc_node *b)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct ebb_doc_node *key = a->keys[i];
        bool is_aligned = b->keys[i]->length == key->length &&
                          memcmp(b->keys[i]->text, key->text, key->length) == 0;
        size_t j = is_aligned ? i : doc_find(b, key->text, key->length);
        if (j == b->count || !ebb_doc_equal(a->items[i], b->items[j]))
            return false;
    }
    return true;
}

bool ebb_doc_equal(const struct ebb_doc_node *a, const struct ebb_doc_node *b)
{
    if (a == b)
        return true;
    if (!a || !b)
        return false;
    if (doc_is_number(a) && doc_is_number(b))
        return doc_numbers_equal(a, b);
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case EBB_DOC_BOOL:
        return a->boolean == b->boolean;
    case EBB_DOC_STRING:
        return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
    case EBB_DOC_LIST:
        if (a->count != b->count)
            return false;
        for (size_t i = 0; i < a->count; i++) {
            if (!ebb_doc_equal(a->items[i], b->items[i]))
                return false;
        }
        return true;
    case EBB_DOC_MAP:
        return a->count == b->count && doc_maps_equal(a, b);
    default:
        return true;
    }
}

void ebb_doc_write_key(const struct ebb_doc_node *node, struct ebb_json_writer *w, const char *key)
{
    ebb_jsonw_key(w, key);
    ebb_doc_write_json(node, w);
}

void ebb_doc_write_json(const struct ebb_doc_node *node, struct ebb_json_writer *w)
{
    switch (node ? node->kind : EBB_DOC_NULL) {
    case EBB_DOC_NULL:
        ebb_jsonw_null(w);
        break;
    case EBB_DOC_BOOL:
        ebb_jsonw_bool(w, node->boolean);
        break;
    case EBB_DOC_INT:
        ebb_jsonw_int(w, node->integer);
        break;
    case EBB_DOC_DOUBLE:
        ebb_jsonw_double(w, node->number);
        break;
    case EBB_DOC_STRING:
        ebb_jsonw_stringn(w, node->text, node->length);
        break;
    case EBB_DOC_LIST:
        ebb_jsonw_array(w);
        for (size_t i = 0; i < node->count; i++)
            ebb_doc_write_json(node->items[i], w);
        ebb_jsonw_array_end(w);
        break;
    case EBB_DOC_MAP:
        ebb_jsonw_object(w);
        for (size_t i = 0; i < node->count; i++) {
            ebb_jsonw_keyn(w, node->keys[i]->text, node->keys[i]->length);
            ebb_doc_write_json(node->items[i], w);
        }
        ebb_jsonw_object_end(w);
        break;
    }
}

bool ebb_piece_next(const char **at, const char *end, struct ebb_piece *piece)
{
    const char *from = *at;
    if (from >= end)
        return false;
    const char *mark = memmem(from, (size_t)(end - from), "${", 2);
    bool is_escaped = mark && mark > from && mark[-1] == '$';
    const char *stop = mark ? mark - is_escaped : end;
    const char *close = mark ? memchr(mark, '}', (size_t)(end - mark)) : NULL;
    if (stop > from)
        *piece = (struct ebb_piece){EBB_PIECE_PLAIN, from, (size_t)(stop - from)};
    else if (is_escaped)
        *piece = (struct ebb_piece){EBB_PIECE_PLAIN, mark, 2};
    else if (close)
        *piece = (struct ebb_piece){EBB_PIECE_NAME, mark + 2, (size_t)(close - mark) - 2};
    else
        *piece = (struct ebb_piece){EBB_PIECE_UNCLOSED, mark, 2};
    *at = piece->text + piece->length + (piece->kind == EBB_PIECE_NAME);
    return true;
}
