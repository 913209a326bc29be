/* hparams.c - the search space: one hyperparameter at a time, and the batch size every trial needs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exp/config/reader.h"

const struct exp_hparam *exp_hparams_find(const struct exp_hparams *hparams, const char *name)
{
    size_t low = 0, high = hparams->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = strcmp(hparams->items[middle].name, name);
        if (c == 0)
            return &hparams->items[middle];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool exp_hparam_is_good(const struct ebb_reading *reader, const struct exp_hparam *h)
{
    const void *const fields[] = {&h->kind, &h->value, &h->int_min, &h->int_max,
                                  &h->min,  &h->max,   &h->base,    &h->values};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!ebb_reading_is_good(reader, fields[i]))
            return false;
    return true;
}

/* ---- rules inside one hyperparameter ---- */

static void check_int_range(struct ebb_reading *reader, const struct ebb_path *path,
                            const struct ebb_doc_node *node, const struct exp_hparam *h)
{
    int64_t width = 0;
    if (h->int_max <= h->int_min)
        ebb_reading_error(reader, path, node,
                          "found minval %lld and maxval %lld, allowed: maxval > minval",
                          (long long)h->int_min, (long long)h->int_max);
    else if (__builtin_sub_overflow(h->int_max, h->int_min, &width) || width == INT64_MAX)
        ebb_reading_error(reader, path, node,
                          "found minval %lld and maxval %lld, allowed: at most 2^63-1 values",
                          (long long)h->int_min, (long long)h->int_max);
}

static void check_real_range(struct ebb_reading *reader, const struct ebb_path *path,
                             const struct ebb_doc_node *node, const struct exp_hparam *h)
{
    char low[32], high[32];
    ebb_format_double(h->min, low, sizeof low);
    ebb_format_double(h->max, high, sizeof high);
    if (!(h->max > h->min))
        ebb_reading_error(reader, path, node,
                          "found minval %s and maxval %s, allowed: maxval > minval", low, high);
    else if (!isfinite(h->max - h->min))
        ebb_reading_error(reader, path, node,
                          "found minval %s and maxval %s, allowed: a finite difference", low, high);
    else if (h->kind == EXP_HPARAM_LOG && ebb_reading_is_good(reader, &h->base) &&
             (!isfinite(pow(h->base, h->min)) || !isfinite(pow(h->base, h->max))))
        ebb_reading_error(reader, path, node,
                          "found exponents %s to %s, allowed: base^minval and base^maxval finite",
                          low, high);
}

/* A range that is wrong as a whole makes the parameter bad, not one of its fields. */
static void check_range(struct ebb_reading *reader, const struct ebb_path *path,
                        const struct ebb_doc_node *node, const struct exp_hparam *h)
{
    size_t errors = reader->report->errors;
    if (!ebb_reading_is_good(reader, &h->kind))
        return;
    if (h->kind == EXP_HPARAM_INT && ebb_reading_is_good(reader, &h->int_min) &&
        ebb_reading_is_good(reader, &h->int_max))
        check_int_range(reader, path, node, h);
    bool is_real = h->kind == EXP_HPARAM_DOUBLE || h->kind == EXP_HPARAM_LOG;
    if (is_real && ebb_reading_is_good(reader, &h->min) && ebb_reading_is_good(reader, &h->max))
        check_real_range(reader, path, node, h);
    if (reader->report->errors > errors)
        ebb_reading_mark_bad(reader, &h->kind);
}

/* ---- reading ---- */

/* A value that is not a mapping: {type: const, val: value}. */
static const struct ebb_doc_node *
read_shorthand(struct ebb_reading *reader, const struct ebb_doc_node *node, struct exp_hparam *h)
{
    struct ebb_doc_node *out = ebb_reading_node(reader, EBB_DOC_MAP, node);
    struct ebb_doc_node *type = reader->failed ? NULL : ebb_doc_new_string(reader->arena, "const");
    if (!type)
        reader->failed = true;
    ebb_reading_set(reader, out, "type", type);
    ebb_reading_set(reader, out, "val", node);
    h->kind = EXP_HPARAM_CONST;
    h->value = node;
    return out;
}

static const struct ebb_doc_node *read_one(struct ebb_reading *reader, const struct ebb_path *path,
                                           const struct ebb_doc_node *node, struct exp_hparam *h)
{
    if (node->kind != EBB_DOC_MAP)
        return read_shorthand(reader, node, h);
    static const struct ebb_section section = {.table = &exp_schema, .prefix = "hyperparameters.*"};
    const struct ebb_doc_node *out = ebb_keys_read(reader, &section, path, node, node, h);
    if (out)
        check_range(reader, path, node, h);
    return out;
}

struct named {
    const char *name;
    size_t index;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* Names in byte order; NULL after an error. */
static struct named *sorted_names(struct ebb_reading *reader, const struct ebb_path *path,
                                  const struct ebb_doc_node *node)
{
    struct named *names = ebb_reading_alloc(reader, node->count, sizeof *names);
    for (size_t i = 0; names && i < node->count; i++) {
        const struct ebb_doc_node *key = node->keys[i];
        struct ebb_path at = ebb_path_key(path, key);
        if (key->length == 0 || strlen(key->text) != key->length) {
            ebb_reading_error(reader, &at, key,
                              "found a name that is empty or holds a NUL, allowed: a text");
            return NULL;
        }
        names[i] = (struct named){.name = key->text, .index = i};
    }
    if (names)
        qsort(names, node->count, sizeof *names, compare_names);
    return names;
}

static const struct ebb_doc_node *read_hparams(const struct ebb_value *v)
{
    struct ebb_reading *reader = v->reading;
    const struct ebb_doc_node *node = v->node;
    struct exp_hparams *hparams = (void *)((char *)v->record + v->key->at);
    struct named *names = sorted_names(reader, v->path, node);
    struct exp_hparam *items = ebb_reading_alloc(reader, node->count, sizeof *items);
    struct ebb_doc_node *out = ebb_reading_node(reader, EBB_DOC_MAP, node);
    if (!names || !items || !out)
        return NULL;
    for (size_t i = 0; i < node->count && !reader->failed; i++) {
        struct ebb_path at = {.up = v->path, .key = names[i].name};
        items[i].name = names[i].name;
        ebb_reading_set(reader, out, names[i].name,
                        read_one(reader, &at, node->items[names[i].index], &items[i]));
    }
    if (reader->failed)
        return NULL;
    /* Stored even when one is bad: rules look at the others. */
    hparams->items = items;
    hparams->count = node->count;
    return out;
}

const struct ebb_key_type exp_type_hparams = {
    .noun = "a mapping of names to values or ranges",
    .shapes = 1u << EBB_DOC_MAP,
    .section = "hyperparameters.*",
    .empty = EBB_DOC_MAP,
    .read = read_hparams,
    .reports = true,
    .merge = exp_merge_hparams,
};
