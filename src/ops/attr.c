/* attr.c - attributes of ops, from files and by hand. */
#include "base/keys.h"
#include "ops/internal.h"

/* ---- from files: kinds of values for base/keys.h ---------------------------------------------- */

/* Sizes and places of files: what is beyond any tensor stays so, and can be reckoned with. */
#define FAR (INT64_C(1) << 40)

static int64_t tame(int64_t v)
{
    return v > FAR ? FAR : v < -FAR ? -FAR : v;
}

static bool is_number(const struct ebb_doc_node *n)
{
    return n->kind == EBB_DOC_INT || n->kind == EBB_DOC_DOUBLE;
}

/* One integer or a list of at most `room`; null in a list: 0, where the row says so. */
static bool take_list(const struct ebb_doc_node *n, size_t room, bool has_null,
                      struct ops_list *out)
{
    struct ops_list v = {.count = 0};
    if (n->kind == EBB_DOC_INT) {
        v.v[0] = tame(n->integer);
        v.count = v.is_scalar = 1;
    }
    for (size_t i = 0; n->kind == EBB_DOC_LIST && i < n->count; i++) {
        bool is_same = has_null && n->items[i]->kind == EBB_DOC_NULL;
        if (n->count > room || (n->items[i]->kind != EBB_DOC_INT && !is_same))
            return false;
        v.v[v.count++] = is_same ? 0 : tame(n->items[i]->integer);
    }
    *out = v;
    return true;
}

static bool take_ints(const struct ebb_doc_node *n, bool has_null, void *at)
{
    struct ops_list v;
    struct ops_ints *out = at;
    if (!take_list(n, TENSOR_RANK, has_null, &v))
        return false;
    memcpy(out->v, v.v, sizeof out->v);
    out->count = v.count;
    out->is_scalar = v.is_scalar;
    return true;
}

static bool take_floats(const struct ebb_doc_node *n, struct ops_floats *out)
{
    struct ops_floats v = {.count = 0};
    if (is_number(n)) {
        v.v[0] = n->number;
        v.count = v.is_scalar = 1;
    }
    for (size_t i = 0; n->kind == EBB_DOC_LIST && i < n->count; i++) {
        if (n->count > 4 || !is_number(n->items[i]))
            return false;
        v.v[v.count++] = n->items[i]->number;
    }
    *out = v;
    return true;
}

static bool take_ranges(const struct ebb_doc_node *n, struct ops_ranges *out)
{
    static const int64_t open[4] = {0, 0, FAR, 1}; /* null: as in a slice of Python */
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n->count; i++) {
        const struct ebb_doc_node *r = n->items[i];
        if (n->count > TENSOR_RANK || r->kind != EBB_DOC_LIST || r->count != 4)
            return false;
        for (size_t k = 0; k < 4; k++) {
            bool is_open = k > 0 && r->items[k]->kind == EBB_DOC_NULL;
            if (r->items[k]->kind != EBB_DOC_INT && !is_open)
                return false;
            out->v[i][k] = is_open ? open[k] : tame(r->items[k]->integer);
        }
    }
    out->count = (int64_t)n->count;
    return true;
}

static bool take_name(const char *text, const char *const *names, int32_t *out)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool take(const struct ops_field *f, const struct ebb_doc_node *n, void *at)
{
    switch (f->kind) {
    case OPS_FLOAT:
        memcpy(at, &(float){(float)n->number}, sizeof(float));
        return true;
    case OPS_INT:
        memcpy(at, &(int64_t){tame(n->integer)}, sizeof(int64_t));
        return true;
    case OPS_BOOL:
        memcpy(at, &(int32_t){n->boolean}, sizeof(int32_t));
        return true;
    case OPS_INTS:
    case OPS_SIZES:
        return take_ints(n, f->kind == OPS_SIZES, at);
    case OPS_LIST:
        return take_list(n, sizeof((struct ops_list *)0)->v / sizeof(int64_t), false, at);
    case OPS_FLOATS:
        return take_floats(n, at);
    case OPS_RANGES:
        return take_ranges(n, at);
    case OPS_NAME:
        return take_name(n->text, f->names, at);
    }
    return false;
}

static const struct ops_field *find_field(const struct ops_def *def, const char *name)
{
    const struct ops_field *f = def->fields;
    while (f && f->name && strcmp(f->name, name) != 0)
        f++;
    return f && f->name ? f : NULL;
}

/* The context of the reading is the op. */
static const struct ebb_doc_node *read_field(const struct ebb_value *v)
{
    const struct ops_def *def = v->reading->context;
    return take(find_field(def, v->key->path), v->node, (char *)v->record + v->key->at) ? v->node
                                                                                        : NULL;
}

#define IS(kind) (1u << EBB_DOC_##kind)
#define TYPE(text, bits)                                                                           \
    {                                                                                              \
        .noun = (text), .shapes = (bits), .read = read_field                                       \
    }
static const struct ebb_key_type types[] = {
    [OPS_FLOAT] = TYPE("a number", IS(INT) | IS(DOUBLE)),
    [OPS_INT] = TYPE("an integer", IS(INT)),
    [OPS_BOOL] = TYPE("true or false", IS(BOOL)),
    [OPS_INTS] = TYPE("an integer or a list of at most 8", IS(INT) | IS(LIST)),
    [OPS_SIZES] = TYPE("an integer or a list of at most 8", IS(INT) | IS(LIST)),
    [OPS_LIST] = TYPE("an integer or a list of at most 48", IS(INT) | IS(LIST)),
    [OPS_FLOATS] = TYPE("a number or a list of at most 4", IS(INT) | IS(DOUBLE) | IS(LIST)),
    [OPS_NAME] = TYPE("", IS(STRING)),
    [OPS_RANGES] = TYPE("a list of at most 8 [dim, begin, end, step]", IS(LIST)),
};

#define MAX_FIELDS 16
/* The fields of an op as rows; `words` holds the names that they may have. A null is a value here:
 * the default, also of what must be given. */
static size_t field_rows(const struct ops_def *def, const struct ebb_doc_node *map,
                         struct ebb_key rows[MAX_FIELDS], struct ebb_str words[MAX_FIELDS])
{
    size_t count = 0;
    for (const struct ops_field *f = def->fields; f && f->name && count < MAX_FIELDS; f++) {
        struct ebb_str *w = &words[count];
        bool is_missing = f->is_required && !ebb_doc_get(map, f->name);
        ebb_str_init(w);
        for (size_t i = 0; f->names && f->names[i]; i++)
            ebb_words_add(w, f->names[i]);
        rows[count++] = (struct ebb_key){.path = f->name,
                                         .kind = EBB_KEY_OWN,
                                         .type = &types[f->kind],
                                         .flags = is_missing ? EBB_KEY_REQUIRED : 0,
                                         .words = f->names ? ebb_str_c(w) : NULL,
                                         .at = f->offset};
    }
    return count;
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
    struct ebb_key rows[MAX_FIELDS];
    struct ebb_str words[MAX_FIELDS];
    struct ebb_keys keys = {rows, field_rows(def, map, rows, words), NULL};
    struct ebb_section section = {.table = &keys};
    struct ebb_path path = {.key = def->name};
    struct ebb_alone alone;
    struct ebb_reading *reading = ebb_alone_init(&alone);
    reading->context = def;
    set_defaults(def, attr);
    ebb_keys_read(reading, &section, &path, map, map, attr);
    for (size_t i = 0; i < keys.count; i++)
        ebb_str_fini(&words[i]);
    return ebb_alone_end(&alone, err);
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
        return value->text && take_name(value->text, f->names, at);
    }
    return false;
}

enum ebb_status ops_assign(const struct ops_def *def, const struct ops_value *values, size_t count,
                           void *attr, struct ebb_error *err)
{
    set_defaults(def, attr);
    for (size_t i = 0; i < count; i++) {
        const struct ops_field *f = find_field(def, values[i].name);
        if (!f || !assign(f, &values[i], attr))
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

/* ---- to files -------------------------------------------------------------------------------- */

size_t ops_most_inputs(const struct ops_def *def)
{
    return def->max_in;
}

size_t ops_attribute_count(const struct ops_def *def)
{
    size_t n = 0;
    while (def->fields && def->fields[n].name)
        n++;
    return n;
}

const char *ops_attribute(const struct ops_def *def, size_t i)
{
    return def->fields[i].name;
}

size_t ops_attr_bytes(const struct ops_def *def)
{
    return def->attr_bytes;
}

static void write_ints(struct ebb_json_writer *w, const int64_t *v, int32_t count, bool is_scalar)
{
    if (is_scalar) {
        ebb_jsonw_int(w, v[0]);
        return;
    }
    ebb_jsonw_array(w);
    for (int32_t i = 0; i < count; i++)
        ebb_jsonw_int(w, v[i]);
    ebb_jsonw_array_end(w);
}

static void write_field(struct ebb_json_writer *w, const struct ops_field *f, const void *at)
{
    const struct ops_ints *ints = at;
    const struct ops_list *list = at;
    const struct ops_floats *floats = at;
    const struct ops_ranges *ranges = at;
    int64_t integer;
    int32_t small;
    float number;
    switch (f->kind) {
    case OPS_FLOAT:
        memcpy(&number, at, sizeof number);
        ebb_jsonw_double(w, (double)number);
        break;
    case OPS_INT:
        memcpy(&integer, at, sizeof integer);
        ebb_jsonw_int(w, integer);
        break;
    case OPS_BOOL:
        memcpy(&small, at, sizeof small);
        ebb_jsonw_bool(w, small != 0);
        break;
    case OPS_INTS:
    case OPS_SIZES:
        write_ints(w, ints->v, ints->count, ints->is_scalar != 0);
        break;
    case OPS_LIST:
        write_ints(w, list->v, list->count, list->is_scalar != 0);
        break;
    case OPS_FLOATS:
        ebb_jsonw_array(w);
        for (int32_t i = 0; i < floats->count; i++)
            ebb_jsonw_double(w, floats->v[i]);
        ebb_jsonw_array_end(w);
        break;
    case OPS_NAME:
        memcpy(&small, at, sizeof small);
        ebb_jsonw_string(w, f->names[small]);
        break;
    case OPS_RANGES:
        ebb_jsonw_array(w);
        for (int64_t i = 0; i < ranges->count; i++)
            write_ints(w, ranges->v[i], 4, false);
        ebb_jsonw_array_end(w);
        break;
    }
}

static size_t field_bytes(enum ops_field_kind kind)
{
    static const size_t bytes[] = {[OPS_FLOAT] = sizeof(float),
                                   [OPS_INT] = sizeof(int64_t),
                                   [OPS_BOOL] = sizeof(int32_t),
                                   [OPS_INTS] = sizeof(struct ops_ints),
                                   [OPS_SIZES] = sizeof(struct ops_ints),
                                   [OPS_LIST] = sizeof(struct ops_list),
                                   [OPS_FLOATS] = sizeof(struct ops_floats),
                                   [OPS_NAME] = sizeof(int32_t),
                                   [OPS_RANGES] = sizeof(struct ops_ranges)};
    return bytes[kind];
}

void ops_attr_write(const struct ops_def *def, const void *attr, struct ebb_json_writer *w)
{
    _Alignas(16) unsigned char plain[OPS_ATTR_BYTES];
    set_defaults(def, plain);
    ebb_jsonw_object(w);
    for (const struct ops_field *f = def->fields; f && f->name; f++) {
        const unsigned char *at = (const unsigned char *)attr + f->offset;
        if (!f->is_required && memcmp(at, plain + f->offset, field_bytes(f->kind)) == 0)
            continue;
        ebb_jsonw_key(w, f->name);
        write_field(w, f, at);
    }
    ebb_jsonw_object_end(w);
}
