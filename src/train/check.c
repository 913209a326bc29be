/* check.c - what all checks of sections share: keys of a kind, all mistakes in one pass. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "train/internal.h"

enum { MAX_KEYS = 64 };

void train_complain(struct train_checker *c, const struct ebb_doc_node *node, const char *key,
                    const char *fmt, ...)
{
    struct ebb_str path, message;
    va_list args;
    c->errors++;
    if (!c->report)
        return;
    ebb_str_init(&path);
    ebb_str_init(&message);
    ebb_str_printf(&path, "%s%s%s", c->section, key && *key ? "." : "", key ? key : "");
    va_start(args, fmt);
    ebb_str_vprintf(&message, fmt, args);
    va_end(args);
    c->report(c->context, node, ebb_str_c(&path), ebb_str_c(&message));
    ebb_str_fini(&path);
    ebb_str_fini(&message);
}

bool train_number(const struct ebb_doc_node *node, double *value)
{
    if (node && (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE)) {
        *value = node->number;
        return true;
    }
    return node && node->kind == EBB_DOC_STRING && ebb_parse_double(node->text, value);
}

/* "found 'abc'" for scalars, "found a list" for the rest */
static const char *found(const struct ebb_doc_node *node, char *buf, size_t size)
{
    if (node->kind == EBB_DOC_STRING)
        snprintf(buf, size, "'%.40s'", node->text);
    else if (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE)
        snprintf(buf, size, "%s", node->text && *node->text ? node->text : "a number");
    else if (node->kind == EBB_DOC_BOOL)
        snprintf(buf, size, "%s", node->boolean ? "true" : "false");
    else
        snprintf(buf, size, "%s", ebb_doc_kind_text(node->kind));
    return buf;
}

static void bad_value(struct train_checker *c, const struct ebb_doc_node *node, const char *key,
                      const char *allowed)
{
    char text[64];
    train_complain(c, node, key, "found %s, allowed: %s", found(node, text, sizeof text), allowed);
}

static void check_text(struct train_checker *c, const struct train_key *key,
                       const struct ebb_doc_node *node)
{
    if (node->kind != EBB_DOC_STRING) {
        bad_value(c, node, key->name, "a string");
        return;
    }
    if (!key->names)
        return;
    struct ebb_str list;
    size_t count = 0;
    ebb_str_init(&list);
    for (; key->names[count]; count++) {
        if (strcmp(key->names[count], node->text) == 0)
            break;
        ebb_str_printf(&list, "%s%s", count ? ", " : "", key->names[count]);
    }
    if (!key->names[count]) {
        const char *near = ebb_nearest(node->text, key->names, count);
        train_complain(c, node, key->name, "found '%.40s', allowed: %s%s%s", node->text,
                       ebb_str_c(&list), near ? "; nearest: " : "", near ? near : "");
    }
    ebb_str_fini(&list);
}

static void check_number(struct train_checker *c, const struct train_key *key,
                         const struct ebb_doc_node *node, bool is_integer)
{
    char text[96];
    double value;
    bool is_good = is_integer ? node->kind == EBB_DOC_INT : train_number(node, &value);
    if (is_good && is_integer)
        value = node->number;
    if (is_good && value >= key->low && value <= key->high)
        return;
    const char *what = is_integer ? "an integer" : "a number";
    if (isinf(key->high))
        snprintf(text, sizeof text, "%s >= %g", what, key->low);
    else
        snprintf(text, sizeof text, "%s from %g to %g", what, key->low, key->high);
    bad_value(c, node, key->name, text);
}

static void check_bytes(struct train_checker *c, const struct train_key *key,
                        const struct ebb_doc_node *node)
{
    uint64_t bytes;
    bool has_word = key->high > 0;
    if (node->kind == EBB_DOC_INT && node->integer >= (has_word ? 1 : 0))
        return;
    if (node->kind == EBB_DOC_STRING && ((has_word && strcmp(node->text, "unlimited") == 0) ||
                                         ebb_parse_bytes(node->text, &bytes, NULL) == EBB_OK))
        return;
    bad_value(c, node, key->name,
              has_word ? "bytes with a unit (48MiB, 1.5GiB), or unlimited"
                       : "bytes with a unit (48MiB, 1.5GiB), or 0");
}

static void check_value(struct train_checker *c, const struct train_key *key,
                        const struct ebb_doc_node *node)
{
    double value;
    if (node->kind == EBB_DOC_NULL) /* the default */
        return;
    switch (key->kind) {
    case TRAIN_V_TEXT:
        check_text(c, key, node);
        break;
    case TRAIN_V_INT:
    case TRAIN_V_NUMBER:
        check_number(c, key, node, key->kind == TRAIN_V_INT);
        break;
    case TRAIN_V_BOOL:
        if (node->kind != EBB_DOC_BOOL)
            bad_value(c, node, key->name, "true or false");
        break;
    case TRAIN_V_BYTES:
        check_bytes(c, key, node);
        break;
    case TRAIN_V_NUMBERS:
        if (node->kind != EBB_DOC_LIST || node->count == 0)
            bad_value(c, node, key->name, "a list of numbers");
        for (size_t i = 0; node->kind == EBB_DOC_LIST && i < node->count; i++)
            if (!train_number(node->items[i], &value))
                bad_value(c, node->items[i], key->name, "a list of numbers");
        break;
    }
}

void train_check_keys(struct train_checker *c, const struct ebb_doc_node *map,
                      const struct train_key *keys, const char *const *extra)
{
    const char *names[MAX_KEYS];
    size_t count = 0, own;
    for (; keys[count].name && count < MAX_KEYS; count++)
        names[count] = keys[count].name;
    own = count;
    for (size_t i = 0; extra && extra[i] && count < MAX_KEYS; i++)
        names[count++] = extra[i];
    for (size_t i = 0; i < map->count; i++) {
        size_t k = 0;
        while (k < count && strcmp(names[k], map->keys[i]->text) != 0)
            k++;
        if (k < own) {
            check_value(c, &keys[k], map->items[i]);
        } else if (k == count) {
            const char *near = ebb_nearest(map->keys[i]->text, names, count);
            struct ebb_str list;
            ebb_str_init(&list);
            for (size_t n = 0; n < count; n++)
                ebb_str_printf(&list, "%s%s", n ? ", " : "", names[n]);
            train_complain(c, map->keys[i], map->keys[i]->text, "unknown key, allowed: %s%s%s",
                           ebb_str_c(&list), near ? "; nearest: " : "", near ? near : "");
            ebb_str_fini(&list);
        }
    }
}

struct ebb_doc_node *train_without(struct ebb_arena *arena, const struct ebb_doc_node *map,
                                   const char *const *names)
{
    struct ebb_doc_node *copy = ebb_doc_new(arena, EBB_DOC_MAP);
    const struct ebb_doc_node **keys = ebb_arena_calloc(arena, map->count + 1, sizeof *keys);
    const struct ebb_doc_node **items = ebb_arena_calloc(arena, map->count + 1, sizeof *items);
    if (!copy || !keys || !items)
        return NULL;
    for (size_t i = 0; i < map->count; i++) {
        size_t k = 0;
        while (names[k] && strcmp(names[k], map->keys[i]->text) != 0)
            k++;
        if (names[k])
            continue;
        keys[copy->count] = map->keys[i];
        items[copy->count++] = map->items[i];
    }
    copy->line = map->line;
    copy->column = map->column;
    copy->keys = keys;
    copy->items = items;
    return copy;
}

/* The member of `map` whose key, value or part of value stands at line:column. */
static bool holds(const struct ebb_doc_node *node, unsigned line, unsigned column)
{
    if (node->line == line && node->column == column)
        return true;
    for (size_t i = 0; i < node->count; i++)
        if (holds(node->items[i], line, column) ||
            (node->kind == EBB_DOC_MAP && holds(node->keys[i], line, column)))
            return true;
    return false;
}

void train_check_all(struct train_checker *c, const struct ebb_doc_node *map,
                     train_reader_fn reader, void *self)
{
    struct ebb_error err;
    const char *taken[MAX_KEYS];
    for (size_t round = 0; round < MAX_KEYS; round++) {
        unsigned line = 0, column = 0;
        int length = 0;
        memset(&err, 0, sizeof err);
        if (reader(self, map, &err) == EBB_OK)
            return;
        if (sscanf(err.message, "%u:%u: %n", &line, &column, &length) != 2 || length == 0)
            line = column = 0, length = 0;
        size_t i = 0;
        while (line && i < map->count && !holds(map->keys[i], line, column) &&
               !holds(map->items[i], line, column))
            i++;
        if (!line || i == map->count) {        /* about the whole: nothing to take out */
            for (size_t k = 0; k < round; k++) /* missing only because it was just taken out */
                if (strstr(err.message, "is required") && strstr(err.message, taken[k]))
                    return;
            train_complain(c, map, "", "%s", err.message + length);
            return;
        }
        const char *key = map->keys[i]->text;
        bool is_key = map->keys[i]->line == line && map->keys[i]->column == column;
        train_complain(c, is_key ? map->keys[i] : map->items[i], key, "%s", err.message + length);
        taken[round] = key;
        map = train_without(c->arena, map, (const char *const[]){key, NULL});
        if (!map)
            return;
    }
}
