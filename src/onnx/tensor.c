/* tensor.c - TensorProto: types, shapes, and where the elements lie: in the message as raw bytes or
 * as numbers one by one, or in a file beside it. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "onnx/internal.h"

/* ---- types ------------------------------------------------------------------------------------ */

const char *onnx_type_name(int type)
{
    switch (type) {
#define X(name, number, bytes, is_float)                                                           \
    case (number):                                                                                 \
        return #name;
        ONNX_TYPE_LIST(X)
#undef X
    default:
        return "an unknown type";
    }
}

size_t onnx_type_bytes(int type)
{
    switch (type) {
#define X(name, number, bytes, is_float)                                                           \
    case (number):                                                                                 \
        return (bytes);
        ONNX_TYPE_LIST(X)
#undef X
    default:
        return 0;
    }
}

bool onnx_type_is_float(int type)
{
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 ||
           type == ONNX_BFLOAT16;
}

/* ---- files beside it -------------------------------------------------------------------------- */

static void close_view(void *view)
{
    ebb_file_view_close(view);
}

/* "a/b.data": below the folder of the model, no way out. */
static bool is_below(const char *path)
{
    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "/");
        if (n == 0 || (n == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += n + (at[n] == '/');
    }
    return *path != 0;
}

/* A plain file, and no link that leads out of the folder. */
static enum ebb_status check_beside(const char *model, const char *path, struct ebb_error *err)
{
    char folder[PATH_MAX], file[PATH_MAX];
    const char *slash = strrchr(model, '/');
    struct ebb_str here = {0};
    struct stat about;
    ebb_str_printf(&here, "%.*s", slash ? (int)(slash - model) + 1 : 1, slash ? model : ".");
    bool is_there =
        stat(path, &about) == 0 && realpath(path, file) && realpath(ebb_str_c(&here), folder);
    int reason = errno;
    ebb_str_fini(&here);
    if (!is_there)
        return ebb_fail(err, EBB_EIO, "%s: external data: cannot open %s: %s", model, path,
                        strerror(reason));
    size_t n = strlen(folder);
    n -= n == 1; /* the root ends in its slash */
    if (!S_ISREG(about.st_mode))
        return ebb_fail(err, EBB_EINPUT, "%s: external data in %s: allowed is a plain file", model,
                        path);
    if (strncmp(file, folder, n) != 0 || file[n] != '/')
        return ebb_fail(err, EBB_EINPUT,
                        "%s: external data in %s: a link that leads to %s, out of the model's "
                        "folder: copy the file there",
                        model, path, file);
    return EBB_OK;
}

static enum ebb_status open_beside(struct onnx_reader *r, const char *location,
                                   const struct onnx_beside **beside, struct ebb_error *err)
{
    for (struct onnx_beside *b = r->beside; b; b = b->next)
        if (strcmp(b->location, location) == 0) {
            *beside = b;
            return EBB_OK;
        }
    const char *slash = strrchr(r->path, '/');
    if (!is_below(location) || strcmp(location, "-") == 0)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: external data in '%s': allowed is a path below the model's folder, "
                        "without '..'",
                        r->path, location);
    char *path =
        slash ? ebb_arena_printf(r->arena, "%.*s/%s", (int)(slash - r->path), r->path, location)
              : ebb_arena_printf(r->arena, "%s", location);
    struct ebb_file_view *view = ebb_arena_alloc(r->arena, sizeof *view);
    struct onnx_beside *b = ebb_arena_alloc(r->arena, sizeof *b);
    if (!path || !view || !b)
        return ebb_no_memory(err, 0);
    EBB_TRY(check_beside(r->path, path, err));
    enum ebb_status status = ebb_file_view_open(view, path, SIZE_MAX, err);
    if (status != EBB_OK)
        return ebb_context(err, status, "%s: external data", r->path);
    if (!ebb_arena_defer(r->arena, close_view, view)) {
        ebb_file_view_close(view);
        return ebb_no_memory(err, 0);
    }
    *b = (struct onnx_beside){location, view->data, view->length, r->beside};
    r->beside = b;
    *beside = b;
    return EBB_OK;
}

/* ---- the message ------------------------------------------------------------------------------ */

/* Fields of TensorProto. */
enum {
    T_DIMS = 1,
    T_TYPE = 2,
    T_FLOATS = 4,
    T_INT32S = 5,
    T_STRINGS = 6,
    T_INT64S = 7,
    T_NAME = 8,
    T_RAW = 9,
    T_DOUBLES = 10,
    T_UINT64S = 11,
    T_EXTERNAL = 13,
    T_LOCATION = 14,
};

struct parts { /* of one message, before they are made into elements */
    struct onnx_reader *r;
    struct onnx_tensor t;
    struct onnx_wire raw;
    bool has_raw, is_external;
    int list; /* field of the numbers that came one by one; 0: none */
    const char *location;
    uint64_t offset, length;
    bool has_length;
};

static enum ebb_status add_dim(const struct onnx_wire *w, size_t at, uint64_t value,
                               struct onnx_tensor *t, struct ebb_error *err)
{
    if (t->rank == ONNX_RANK)
        return onnx_wire_wrong(w, at, err, "a tensor has more than %d dimensions", ONNX_RANK);
    int64_t size = (int64_t)value;
    if (size < 0 || size > ONNX_ELEMENTS)
        return onnx_wire_wrong(w, at, err, "a size is %" PRId64, size);
    t->dims[t->rank++] = size;
    return EBB_OK;
}

struct pair { /* StringStringEntryProto */
    const char *key, *value;
};

static const struct onnx_row pair_rows[] = {
    ONNX_ROW_OF(1, ONNX_ANY, ONNX_ROW_TEXT, pair, key),
    ONNX_ROW_OF(2, ONNX_ANY, ONNX_ROW_TEXT, pair, value),
    {0},
};

static enum ebb_status read_external(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct parts *p = record;
    struct pair e = {"", ""};
    EBB_TRY(onnx_reader_message(p->r, f->bytes, pair_rows, &e, err));
    if (strcmp(e.key, "location") == 0) {
        p->location = e.value;
        return EBB_OK;
    }
    bool is_offset = strcmp(e.key, "offset") == 0, is_length = strcmp(e.key, "length") == 0;
    uint64_t number;
    if (!is_offset && !is_length)
        return EBB_OK; /* a checksum */
    if (!ebb_parse_u64(e.value, &number))
        return onnx_wire_wrong(&f->bytes, f->bytes.at, err, "external data: %s is '%s', no number",
                               e.key, e.value);
    if (is_offset)
        p->offset = number;
    else
        p->length = number;
    p->has_length |= is_length;
    return EBB_OK;
}

static enum ebb_status read_dims(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct parts *p = record;
    uint64_t v;
    if (f->kind == ONNX_VARINT)
        return add_dim(&f->bytes, f->at, f->value, &p->t, err);
    while (f->kind == ONNX_BYTES && f->bytes.at < f->bytes.end) {
        EBB_TRY(onnx_wire_varint(&f->bytes, &v, err));
        EBB_TRY(add_dim(&f->bytes, f->at, v, &p->t, err));
    }
    return EBB_OK;
}

static enum ebb_status note_part(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct parts *p = record;
    (void)err;
    if (f->number == T_RAW) {
        p->has_raw = f->kind == ONNX_BYTES;
        p->raw = f->bytes;
    } else if (f->number == T_LOCATION) {
        p->is_external = f->value == 1;
    } else {
        p->list = (int)f->number; /* numbers that come one by one: a second pass */
    }
    return EBB_OK;
}

static const struct onnx_row tensor_rows[] = {
    {T_DIMS, ONNX_ANY, ONNX_ROW_OWN, 0, read_dims, NULL},
    ONNX_ROW_OF(T_TYPE, ONNX_ANY, ONNX_ROW_SMALL, parts, t.type),
    {T_FLOATS, ONNX_ANY, ONNX_ROW_OWN, 0, note_part, NULL},
    {T_INT32S, ONNX_ANY, ONNX_ROW_OWN, 0, note_part, NULL},
    {T_STRINGS, ONNX_ANY, ONNX_ROW_OWN, 0, note_part, NULL},
    {T_INT64S, ONNX_ANY, ONNX_ROW_OWN, 0, note_part, NULL},
    ONNX_ROW_OF(T_NAME, ONNX_ANY, ONNX_ROW_TEXT, parts, t.name),
    {T_RAW, ONNX_ANY, ONNX_ROW_OWN, 0, note_part, NULL},
    {T_DOUBLES, ONNX_ANY, ONNX_ROW_OWN, 0, note_part, NULL},
    {T_UINT64S, ONNX_ANY, ONNX_ROW_OWN, 0, note_part, NULL},
    {T_EXTERNAL, ONNX_BYTES, ONNX_ROW_OWN, 0, read_external, NULL},
    {T_LOCATION, ONNX_ANY, ONNX_ROW_OWN, 0, note_part, NULL},
    {0},
};

/* The list that a type's numbers stand in. */
static int list_of(int type)
{
    switch (type) {
    case ONNX_FLOAT:
    case ONNX_COMPLEX64:
        return T_FLOATS;
    case ONNX_DOUBLE:
    case ONNX_COMPLEX128:
        return T_DOUBLES;
    case ONNX_INT64:
        return T_INT64S;
    case ONNX_UINT32:
    case ONNX_UINT64:
        return T_UINT64S;
    case ONNX_STRING:
        return T_STRINGS;
    default:
        return T_INT32S;
    }
}

static size_t list_step(int list)
{
    return list == T_FLOATS ? 4 : list == T_DOUBLES ? 8 : 0; /* 0: varints */
}

/* One element of a list, as it would lie in raw data. */
static void put(int type, uint64_t value, void *data, int64_t i)
{
    size_t bytes = onnx_type_bytes(type);
    if (type == ONNX_COMPLEX64 || type == ONNX_COMPLEX128)
        bytes /= 2;
    memcpy((char *)data + (size_t)i * bytes, &value, bytes); /* little-endian */
}

/* Second pass: numbers one by one, packed or not. */
static enum ebb_status read_list(struct onnx_reader *r, struct onnx_wire w, int list,
                                 struct onnx_tensor *t, struct ebb_error *err)
{
    bool is_text = t->type == ONNX_STRING,
         is_pair = t->type == ONNX_COMPLEX64 || t->type == ONNX_COMPLEX128;
    int64_t count = t->count * (is_pair ? 2 : 1), n = 0;
    struct onnx_wire whole = w;
    struct onnx_text *texts = NULL;
    struct onnx_field f;
    void *data = NULL;
    bool more;
    /* every element takes at least a byte of the message: nothing is taken for less */
    if (list != list_of(t->type) || (size_t)count > w.end - w.at)
        return onnx_wire_wrong(&w, w.at, err, "tensor '%s' has not the elements its shape says",
                               t->name);
    if (is_text)
        t->texts = texts = ebb_arena_calloc(r->arena, (size_t)count + 1, sizeof *texts);
    else
        t->data = data = ebb_arena_alloc(r->arena, (size_t)t->count * onnx_type_bytes(t->type) + 8);
    if (!texts && !data)
        return ebb_no_memory(err, (size_t)count * 8);
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            break;
        if ((int)f.number != list)
            continue;
        if (is_text) {
            if (n == count || f.kind != ONNX_BYTES)
                break;
            EBB_TRY(onnx_reader_text(r, &f, &texts[n].text, err));
            texts[n++].length = f.bytes.end - f.bytes.at;
            continue;
        }
        if (f.kind != ONNX_BYTES) {
            if (n < count)
                put(t->type, f.value, data, n);
            n++;
            continue;
        }
        for (size_t step = list_step(list); f.bytes.at < f.bytes.end && n < count; n++) {
            uint64_t v = 0;
            if (step == 0)
                EBB_TRY(onnx_wire_varint(&f.bytes, &v, err));
            else if (f.bytes.end - f.bytes.at < step)
                return onnx_wire_wrong(&whole, f.at, err, "tensor '%s' ends inside an element",
                                       t->name);
            else
                memcpy(&v, f.bytes.base + f.bytes.at, step);
            f.bytes.at += step;
            put(t->type, v, data, n);
        }
        if (f.bytes.at < f.bytes.end)
            n = count + 1;
    }
    if (n != count)
        return onnx_wire_wrong(&whole, whole.at, err,
                               "tensor '%s' has not the elements its shape says (%" PRId64 ")",
                               t->name, t->count);
    return EBB_OK;
}

static enum ebb_status take_external(struct onnx_reader *r, const struct parts *p, size_t bytes,
                                     struct onnx_tensor *t, struct ebb_error *err)
{
    const struct onnx_beside *beside = NULL;
    if (!p->location)
        return ebb_fail(err, EBB_EINPUT, "%s: tensor '%s' is external, but no file is named",
                        r->path, t->name);
    EBB_TRY(open_beside(r, p->location, &beside, err));
    size_t length = beside ? beside->length : 0;
    if (p->has_length && p->length != bytes)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: tensor '%s' needs %zu bytes, its external data are %" PRIu64
                        " bytes of '%s'",
                        r->path, t->name, bytes, p->length, p->location);
    if (!beside || p->offset > length || length - p->offset < bytes)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: tensor '%s' needs %zu bytes at byte %" PRIu64
                        " of '%s', which has %zu",
                        r->path, t->name, bytes, p->offset, p->location, length);
    t->data = beside->data + p->offset;
    return EBB_OK;
}

enum ebb_status onnx_reader_tensor(struct onnx_reader *r, struct onnx_wire w, struct onnx_tensor *t,
                                   struct ebb_error *err)
{
    struct parts p = {.r = r, .t = {.name = "", .count = 1}};
    EBB_TRY(onnx_reader_message(r, w, tensor_rows, &p, err));
    *t = p.t;
    for (int d = 0; d < t->rank; d++)
        if (__builtin_mul_overflow(t->count, t->dims[d], &t->count) || t->count > ONNX_ELEMENTS)
            return onnx_wire_wrong(&w, w.at, err, "tensor '%s' has too many elements", t->name);
    size_t each = onnx_type_bytes(t->type), bytes = each * (size_t)t->count;
    if (!each && t->type != ONNX_STRING)
        return ebb_fail(err, EBB_EUNSUPPORTED, "%s: tensor '%s' is of %s (%d)", r->path, t->name,
                        onnx_type_name(t->type), t->type);
    if (p.is_external && t->type == ONNX_STRING)
        return ebb_fail(err, EBB_EINPUT, "%s: tensor '%s' of texts lies in another file", r->path,
                        t->name);
    if (p.is_external)
        return take_external(r, &p, bytes, t, err);
    if (!p.has_raw)
        return read_list(r, w, p.list ? p.list : list_of(t->type), t, err);
    if (t->type == ONNX_STRING || p.raw.end - p.raw.at != bytes)
        return onnx_wire_wrong(&w, w.at, err, "tensor '%s' of %zu bytes has %zu", t->name, bytes,
                               p.raw.end - p.raw.at);
    t->data = p.raw.base + p.raw.at;
    return EBB_OK;
}

/* ---- elements --------------------------------------------------------------------------------- */

static float half_float(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = (h & 1023) / 1024.0;
    double v = exponent == 31  ? (fraction > 0 ? NAN : INFINITY)
               : exponent == 0 ? ldexp(fraction, -14)
                               : ldexp(1 + fraction, exponent - 15);
    return (float)(h & 0x8000 ? -v : v);
}

double onnx_tensor_number(const struct onnx_tensor *t, int64_t i)
{
    const char *at = (const char *)t->data + (size_t)i * onnx_type_bytes(t->type);
    uint16_t half;
    uint32_t word;
    float f;
    double d;
    switch (t->type) {
    case ONNX_FLOAT:
        memcpy(&f, at, sizeof f);
        return (double)f;
    case ONNX_DOUBLE:
        memcpy(&d, at, sizeof d);
        return d;
    case ONNX_FLOAT16:
        memcpy(&half, at, sizeof half);
        return (double)half_float(half);
    case ONNX_BFLOAT16:
        memcpy(&half, at, sizeof half);
        word = (uint32_t)half << 16;
        memcpy(&f, &word, sizeof f);
        return (double)f;
    case ONNX_UINT64:
        return (double)(uint64_t)onnx_tensor_integer(t, i);
    default:
        return (double)onnx_tensor_integer(t, i);
    }
}

#define WHOLE(type)                                                                                \
    do {                                                                                           \
        type v_;                                                                                   \
        memcpy(&v_, at, sizeof v_);                                                                \
        return (int64_t)v_;                                                                        \
    } while (0)

int64_t onnx_tensor_integer(const struct onnx_tensor *t, int64_t i)
{
    const char *at = (const char *)t->data + (size_t)i * onnx_type_bytes(t->type);
    switch (t->type) {
    case ONNX_UINT8:
        WHOLE(uint8_t);
    case ONNX_INT8:
        WHOLE(int8_t);
    case ONNX_UINT16:
        WHOLE(uint16_t);
    case ONNX_INT16:
        WHOLE(int16_t);
    case ONNX_INT32:
        WHOLE(int32_t);
    case ONNX_UINT32:
        WHOLE(uint32_t);
    case ONNX_INT64:
    case ONNX_UINT64:
        WHOLE(int64_t);
    case ONNX_BOOL:
        return *at != 0;
    default: {
        double v = onnx_tensor_number(t, i);
        return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : 0;
    }
    }
}

bool onnx_tensor_floats(const struct onnx_tensor *t, float *to)
{
    if (!t->data || t->type == ONNX_COMPLEX64 || t->type == ONNX_COMPLEX128)
        return t->count == 0;
    if (t->type == ONNX_FLOAT) {
        memcpy(to, t->data, (size_t)t->count * sizeof *to);
        return true;
    }
    for (int64_t i = 0; i < t->count; i++)
        to[i] = (float)onnx_tensor_number(t, i);
    return true;
}
