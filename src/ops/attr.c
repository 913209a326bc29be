/* attr.c - attributes of ops, from files and by hand. */
#include <stdio.h>

#include "ops/internal.h"

/* ---- from files ----------------------------------------------------------------------------- */

static enum ebb_status bad_value(const struct ops_def *def, const struct ops_field *f,
                                 const struct ebb_doc_node *node, const char *want,
                                 struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINPUT, "%u:%u: %s: attribute '%s' must be %s, found %s", node->line,
                    node->column, def->name, f->name, want, ebb_doc_kind_text(node->kind));
}

static bool is_number(const struct ebb_doc_node *n)
{
    return n->kind == EBB_DOC_INT || n->kind == EBB_DOC_DOUBLE;
}

/* Sizes and places of files: what is beyond any tensor stays so, and can be reckoned with. */
#define FAR (INT64_C(1) << 40)

static int64_t tame(int64_t v)
{
    return v > FAR ? FAR : v < -FAR ? -FAR : v;
}

static enum ebb_status parse_list(const struct ops_def *def, const struct ops_field *f,
                                  const struct ebb_doc_node *n, size_t room, struct ops_list *out,
                                  struct ebb_error *err)
{
    struct ops_list v = {.count = 0};
    if (n->kind == EBB_DOC_INT) {
        v.v[0] = tame(n->integer);
        v.count = v.is_scalar = 1;
    } else if (n->kind == EBB_DOC_LIST && n->count <= room) {
        for (size_t i = 0; i < n->count; i++) {
            bool is_same = f->kind == OPS_SIZES && n->items[i]->kind == EBB_DOC_NULL;
            if (n->items[i]->kind != EBB_DOC_INT && !is_same)
                return bad_value(def, f, n->items[i], "integers", err);
            v.v[v.count++] = is_same ? 0 : tame(n->items[i]->integer);
        }
    } else {
        char want[48];
        snprintf(want, sizeof want, "an integer or a list of at most %zu", room);
        return bad_value(def, f, n, want, err);
    }
    *out = v;
    return EBB_OK;
}

static enum ebb_status parse_ints(const struct ops_def *def, const struct ops_field *f,
                                  const struct ebb_doc_node *n, struct ops_ints *out,
                                  struct ebb_error *err)
{
    struct ops_list v;
    EBB_TRY(parse_list(def, f, n, TENSOR_RANK, &v, err));
    memcpy(out->v, v.v, sizeof out->v);
    out->count = v.count;
    out->is_scalar = v.is_scalar;
    return EBB_OK;
}

static enum ebb_status parse_floats(const struct ops_def *def, const struct ops_field *f,
                                    const struct ebb_doc_node *n, struct ops_floats *out,
                                    struct ebb_error *err)
{
    struct ops_floats v = {.count = 0};
    if (is_number(n)) {
        v.v[0] = n->number;
        v.count = v.is_scalar = 1;
    } else if (n->kind == EBB_DOC_LIST && n->count <= 4) {
        for (size_t i = 0; i < n->count; i++) {
            if (!is_number(n->items[i]))
                return bad_value(def, f, n->items[i], "numbers", err);
            v.v[v.count++] = n->items[i]->number;
        }
    } else {
        return bad_value(def, f, n, "a number or a list of at most 4", err);
    }
    *out = v;
    return EBB_OK;
}

static enum ebb_status parse_ranges(const struct ops_def *def, const struct ops_field *f,
                                    const struct ebb_doc_node *n, struct ops_ranges *out,
                                    struct ebb_error *err)
{
    if (n->kind != EBB_DOC_LIST || n->count > TENSOR_RANK)
        return bad_value(def, f, n, "a list of at most 8 [dim, begin, end, step]", err);
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n->count; i++) {
        const struct ebb_doc_node *r = n->items[i];
        if (r->kind != EBB_DOC_LIST || r->count != 4)
            return bad_value(def, f, r, "[dim, begin, end, step]", err);
        static const int64_t open[4] = {0, 0, FAR, 1}; /* null: as in a slice of Python */
        for (size_t k = 0; k < 4; k++) {
            bool is_open = k > 0 && r->items[k]->kind == EBB_DOC_NULL;
            if (r->items[k]->kind != EBB_DOC_INT && !is_open)
                return bad_value(def, f, r->items[k], "an integer", err);
            out->v[i][k] = is_open ? open[k] : tame(r->items[k]->integer);
        }
    }
    out->count = (int64_t)n->count;
    return EBB_OK;
}

static enum ebb_status parse_name(const struct ops_def *def, const struct ops_field *f,
                                  const struct ebb_doc_node *n, int32_t *out, struct ebb_error *err)
{
    char text[256] = "one of";
    for (int i = 0; f->names[i]; i++) {
        if (n->kind == EBB_DOC_STRING && strcmp(f->names[i], n->text) == 0) {
            *out = i;
            return EBB_OK;
        }
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, " %s", f->names[i]);
    }
    return bad_value(def, f, n, text, err);
}

static enum ebb_status parse_field(const struct ops_def *def, const struct ops_field *f,
                                   const struct ebb_doc_node *n, unsigned char *attr,
                                   struct ebb_error *err)
{
    void *at = attr + f->offset;
    switch (f->kind) {
    case OPS_FLOAT:
        if (!is_number(n))
            return bad_value(def, f, n, "a number", err);
        memcpy(at, &(float){(float)n->number}, sizeof(float));
        return EBB_OK;
    case OPS_INT:
        if (n->kind != EBB_DOC_INT)
            return bad_value(def, f, n, "an integer", err);
        memcpy(at, &(int64_t){tame(n->integer)}, sizeof(int64_t));
        return EBB_OK;
    case OPS_BOOL:
        if (n->kind != EBB_DOC_BOOL)
            return bad_value(def, f, n, "true or false", err);
        memcpy(at, &(int32_t){n->boolean}, sizeof(int32_t));
        return EBB_OK;
    case OPS_INTS:
    case OPS_SIZES:
        return parse_ints(def, f, n, at, err);
    case OPS_LIST:
        return parse_list(def, f, n, sizeof((struct ops_list *)0)->v / sizeof(int64_t), at, err);
    case OPS_FLOATS:
        return parse_floats(def, f, n, at, err);
    case OPS_RANGES:
        return parse_ranges(def, f, n, at, err);
    case OPS_NAME:
        return parse_name(def, f, n, at, err);
    }
    return EBB_OK;
}

static enum ebb_status unknown_attribute(const struct ops_def *def, const struct ebb_doc_node *key,
                                         struct ebb_error *err)
{
    char text[512] = "";
    for (const struct ops_field *f = def->fields; f && f->name; f++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "", f->name);
    }
    return ebb_fail(err, EBB_EINPUT, "%u:%u: %s: unknown attribute '%s'; allowed: %s", key->line,
                    key->column, def->name, key->text, *text ? text : "none");
}

static void set_defaults(const struct ops_def *def, void *attr)
{
    if (def->defaults)
        memcpy(attr, def->defaults, def->attr_bytes);
    else if (def->attr_bytes)
        memset(attr, 0, def->attr_bytes);
}

enum ebb_status ops_parse(const struct ops_def *def, const struct ebb_doc_node *map, void *attr,
                          struct ebb_error *err)
{
    set_defaults(def, attr);
    if (map && map->kind != EBB_DOC_MAP && map->kind != EBB_DOC_NULL)
        return ebb_fail(err, EBB_EINPUT, "%u:%u: %s: attributes must be a mapping, found %s",
                        map->line, map->column, def->name, ebb_doc_kind_text(map->kind));
    for (size_t i = 0; map && i < map->count; i++) {
        const struct ops_field *f = def->fields;
        while (f && f->name && strcmp(f->name, map->keys[i]->text) != 0)
            f++;
        if (!f || !f->name)
            return unknown_attribute(def, map->keys[i], err);
        if (map->items[i]->kind != EBB_DOC_NULL) /* null = the default */
            EBB_TRY(parse_field(def, f, map->items[i], attr, err));
    }
    for (const struct ops_field *f = def->fields; f && f->name; f++)
        if (f->is_required && !ebb_doc_get(map, f->name))
            return ebb_fail(err, EBB_EINPUT, "%s: attribute '%s' is required", def->name, f->name);
    return EBB_OK;
}

/* ---- by hand -------------------------------------------------------------------------------- */

static bool assign_list(const struct ops_value *value, int room, int64_t *v, int32_t *count,
                        int32_t *is_scalar)
{
    int n = value->ints ? value->count : 1;
    if (n < 0 || n > room)
        return false;
    memset(v, 0, (size_t)room * sizeof *v);
    memcpy(v, value->ints ? value->ints : &value->integer, (size_t)n * sizeof *v);
    *count = n;
    *is_scalar = !value->ints;
    return true;
}

static bool assign_ranges(const struct ops_value *value, struct ops_ranges *out)
{
    if (!value->ints || value->count < 0 || value->count % 4 || value->count / 4 > TENSOR_RANK)
        return false;
    memset(out, 0, sizeof *out);
    memcpy(out->v, value->ints, (size_t)value->count * sizeof *value->ints);
    out->count = value->count / 4;
    return true;
}

static bool assign_name(const struct ops_value *value, const char *const *names, int32_t *out)
{
    for (int32_t i = 0; value->text && names[i]; i++)
        if (strcmp(names[i], value->text) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool assign(const struct ops_field *f, const struct ops_value *value, unsigned char *attr)
{
    void *at = attr + f->offset;
    struct ops_ints *ints = at;
    struct ops_list *list = at;
    switch (f->kind) {
    case OPS_FLOAT:
        memcpy(at, &(float){(float)value->number}, sizeof(float));
        return true;
    case OPS_INT:
        memcpy(at, &value->integer, sizeof value->integer);
        return true;
    case OPS_BOOL:
        memcpy(at, &(int32_t){value->integer != 0}, sizeof(int32_t));
        return true;
    case OPS_INTS:
    case OPS_SIZES:
        return assign_list(value, TENSOR_RANK, ints->v, &ints->count, &ints->is_scalar);
    case OPS_LIST:
        return assign_list(value, sizeof list->v / sizeof *list->v, list->v, &list->count,
                           &list->is_scalar);
    case OPS_FLOATS:
        *(struct ops_floats *)at =
            (struct ops_floats){.v = {value->number}, .count = 1, .is_scalar = 1};
        return true;
    case OPS_RANGES:
        return assign_ranges(value, at);
    case OPS_NAME:
        return assign_name(value, f->names, at);
    }
    return false;
}

enum ebb_status ops_assign(const struct ops_def *def, const struct ops_value *values, size_t count,
                           void *attr, struct ebb_error *err)
{
    set_defaults(def, attr);
    for (size_t i = 0; i < count; i++) {
        const struct ops_field *f = def->fields;
        while (f && f->name && strcmp(f->name, values[i].name) != 0)
            f++;
        if (!f || !f->name || !assign(f, &values[i], attr))
            return ebb_fail(err, EBB_EINPUT, "%s: attribute '%s' does not exist or does not fit",
                            def->name, values[i].name);
    }
    for (const struct ops_field *f = def->fields; f && f->name; f++) {
        bool is_given = !f->is_required;
        for (size_t i = 0; i < count && !is_given; i++)
            is_given = strcmp(f->name, values[i].name) == 0;
        if (!is_given)
            return ebb_fail(err, EBB_EINPUT, "%s: attribute '%s' is required", def->name, f->name);
    }
    return EBB_OK;
}
