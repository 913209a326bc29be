/* args.c - named arguments from a document into a struct. */
#include "optim/args.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

static enum ebb_status bad(const char *what, const struct optim_arg *row,
                           const struct ebb_doc_node *node, const char *want, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINPUT, "%u:%u: %s: argument '%s' must be %s", node->line,
                    node->column, what, row->name, want);
}

/* A number; YAML 1.1 files write 1e-6, which is a string there. */
static bool number(const struct ebb_doc_node *node, double *value)
{
    if (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE) {
        *value = node->number;
        return true;
    }
    return node->kind == EBB_DOC_STRING && ebb_parse_double(node->text, value);
}

static enum ebb_status in_range(const char *what, const struct optim_arg *row,
                                const struct ebb_doc_node *node, double value,
                                struct ebb_error *err)
{
    char text[96];
    if (row->low > row->high || (value >= row->low && value <= row->high))
        return EBB_OK;
    snprintf(text, sizeof text, "between %g and %g, found %g", row->low, row->high, value);
    return bad(what, row, node, text, err);
}

static enum ebb_status read_one(const char *what, const struct optim_arg *row,
                                const struct ebb_doc_node *node, unsigned char *target,
                                struct ebb_error *err)
{
    void *at = target + row->offset;
    double pair[2];
    switch (row->kind) {
    case OPTIM_DOUBLE:
        if (!number(node, &pair[0]))
            return bad(what, row, node, "a number", err);
        EBB_TRY(in_range(what, row, node, pair[0], err));
        memcpy(at, pair, sizeof *pair);
        return EBB_OK;
    case OPTIM_INT:
        if (node->kind != EBB_DOC_INT)
            return bad(what, row, node, "an integer", err);
        EBB_TRY(in_range(what, row, node, (double)node->integer, err));
        memcpy(at, &node->integer, sizeof node->integer);
        return EBB_OK;
    case OPTIM_BOOL:
        if (node->kind != EBB_DOC_BOOL)
            return bad(what, row, node, "true or false", err);
        memcpy(at, &node->boolean, sizeof node->boolean);
        return EBB_OK;
    case OPTIM_PAIR:
        if (node->kind != EBB_DOC_LIST || node->count != 2 || !number(node->items[0], &pair[0]) ||
            !number(node->items[1], &pair[1]))
            return bad(what, row, node, "a list of two numbers", err);
        EBB_TRY(in_range(what, row, node, pair[0], err));
        EBB_TRY(in_range(what, row, node, pair[1], err));
        memcpy(at, pair, sizeof pair);
        return EBB_OK;
    case OPTIM_TEXT:
        if (node->kind != EBB_DOC_STRING)
            return bad(what, row, node, "a string", err);
        memcpy(at, &node->text, sizeof node->text);
        return EBB_OK;
    case OPTIM_NODE:
        memcpy(at, &node, sizeof node);
        return EBB_OK;
    }
    return EBB_OK;
}

static enum ebb_status unknown(const char *what, const struct optim_arg *rows,
                               const struct ebb_doc_node *key, struct ebb_error *err)
{
    char text[512] = "";
    const char *names[32];
    size_t count = 0;
    for (; rows[count].name && count < 32; count++) {
        size_t at = strlen(text);
        names[count] = rows[count].name;
        snprintf(text + at, sizeof text - at, "%s%s", count ? ", " : "", rows[count].name);
    }
    const char *near = ebb_nearest(key->text, names, count);
    return ebb_fail(err, EBB_EINPUT, "%u:%u: %s: unknown argument '%s'%s%s%s; valid: %s", key->line,
                    key->column, what, key->text, near ? " (did you mean '" : "", near ? near : "",
                    near ? "'?)" : "", text);
}

enum ebb_status optim_args_read(const char *what, const struct optim_arg *rows,
                                const struct ebb_doc_node *map, void *target, struct ebb_error *err)
{
    if (map && map->kind != EBB_DOC_MAP && map->kind != EBB_DOC_NULL)
        return ebb_fail(err, EBB_EINPUT, "%u:%u: %s: arguments must be a mapping", map->line,
                        map->column, what);
    for (size_t i = 0; map && i < map->count; i++) {
        const struct optim_arg *row = rows;
        while (row->name && strcmp(row->name, map->keys[i]->text) != 0)
            row++;
        if (!row->name)
            return unknown(what, rows, map->keys[i], err);
        if (map->items[i]->kind != EBB_DOC_NULL)
            EBB_TRY(read_one(what, row, map->items[i], target, err));
    }
    for (const struct optim_arg *row = rows; row->name; row++) {
        const struct ebb_doc_node *node = ebb_doc_get(map, row->name);
        if (row->is_required && (!node || node->kind == EBB_DOC_NULL))
            return ebb_fail(err, EBB_EINPUT, "%s: argument '%s' is required", what, row->name);
    }
    return EBB_OK;
}

int optim_args_choose(const char *what, const char *name, const char *const *names, size_t count,
                      struct ebb_error *err)
{
    struct ebb_str list;
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, names[i]) == 0)
            return (int)i;
    const char *near = ebb_nearest(name, names, count);
    ebb_str_init(&list);
    for (size_t i = 0; i < count; i++)
        ebb_str_printf(&list, "%s%s", i ? ", " : "", names[i]);
    ebb_fail(err, EBB_EINPUT, "unknown %s '%s'%s%s%s; known: %s", what, name,
             near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", ebb_str_c(&list));
    ebb_str_fini(&list);
    return -1;
}
