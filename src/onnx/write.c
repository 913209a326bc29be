/* write.c - ModelProto out: the same wire format as wire.c, into growing text. Data of initializers is
 * copied once, into the file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/map.h"
#include "onnx/internal.h"

#define OPSET 17
#define IR_VERSION 8
#define LARGEST (UINT64_C(1) << 31) /* bytes of a protobuf message */

struct data { /* of an initializer */
    const char *name;
    int type, rank;
    int64_t dims[ONNX_RANK];
    const void *bytes;
    size_t length;
};

struct onnx_writer {
    struct ebb_arena arena;
    struct ebb_strmap names; /* of initializers */
    const char *graph_name;
    struct ebb_str nodes, inputs, outputs; /* fields of GraphProto */
    struct ebb_str node, attrs;            /* that is written */
    struct data *data;
    size_t count, capacity;
    bool failed;
};

/* ---- fields ----------------------------------------------------------------------------------- */

static void put_varint(struct ebb_str *s, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        ebb_str_addc(s, (char)(v | 0x80));
    ebb_str_addc(s, (char)v);
}

static void put_int(struct ebb_str *s, uint32_t field, int64_t v)
{
    put_varint(s, (uint64_t)field << 3 | ONNX_VARINT);
    put_varint(s, (uint64_t)v);
}

static void put_head(struct ebb_str *s, uint32_t field, size_t length)
{
    put_varint(s, (uint64_t)field << 3 | ONNX_BYTES);
    put_varint(s, length);
}

static void put_bytes(struct ebb_str *s, uint32_t field, const char *bytes, size_t length)
{
    put_head(s, field, length);
    ebb_str_addn(s, bytes, length);
}

static void put_text(struct ebb_str *s, uint32_t field, const char *text)
{
    put_bytes(s, field, text, strlen(text));
}

static void put_message(struct ebb_str *s, uint32_t field, const struct ebb_str *message)
{
    s->failed |= message->failed;
    put_bytes(s, field, message->length ? message->data : "", message->length);
}

/* ---- life ------------------------------------------------------------------------------------- */

enum ebb_status onnx_writer_create(struct onnx_writer **writer, const char *graph_name,
                                   struct ebb_error *err)
{
    struct onnx_writer *w;
    EBB_TRY(ebb_new(&w, 1, sizeof *w, err));
    ebb_arena_init(&w->arena);
    ebb_strmap_init(&w->names);
    w->graph_name = ebb_arena_strndup(&w->arena, graph_name, strlen(graph_name));
    if (!w->graph_name) {
        onnx_writer_destroy(w);
        return ebb_no_memory(err, strlen(graph_name));
    }
    *writer = w;
    return EBB_OK;
}

void onnx_writer_destroy(struct onnx_writer *w)
{
    if (!w)
        return;
    ebb_str_fini(&w->nodes);
    ebb_str_fini(&w->inputs);
    ebb_str_fini(&w->outputs);
    ebb_str_fini(&w->node);
    ebb_str_fini(&w->attrs);
    ebb_strmap_fini(&w->names);
    ebb_arena_fini(&w->arena);
    ebb_free(w->data);
    ebb_free(w);
}

/* ---- inputs and outputs ------------------------------------------------------------------------ */

static void put_port(struct ebb_str *to, uint32_t field, const char *name, int type, int rank,
                     const struct onnx_dim *dims)
{
    struct ebb_str shape = {0}, tensor = {0}, outer = {0}, port = {0};
    for (int d = 0; d < rank; d++) {
        struct ebb_str dim = {0};
        if (dims[d].label)
            put_text(&dim, 2, dims[d].label);
        else
            put_int(&dim, 1, dims[d].value);
        put_message(&shape, 1, &dim);
        ebb_str_fini(&dim);
    }
    put_int(&tensor, 1, type);
    put_message(&tensor, 2, &shape);
    put_message(&outer, 1, &tensor);
    put_text(&port, 1, name);
    put_message(&port, 2, &outer);
    put_message(to, field, &port);
    ebb_str_fini(&shape);
    ebb_str_fini(&tensor);
    ebb_str_fini(&outer);
    ebb_str_fini(&port);
}

void onnx_write_input(struct onnx_writer *w, const char *name, int type, int rank,
                      const struct onnx_dim *dims)
{
    put_port(&w->inputs, 11, name, type, rank, dims);
}

void onnx_write_output(struct onnx_writer *w, const char *name, int type, int rank,
                       const struct onnx_dim *dims)
{
    put_port(&w->outputs, 12, name, type, rank, dims);
}

void onnx_write_initializer(struct onnx_writer *w, const char *name, int type, int rank,
                            const int64_t *dims, const void *data, size_t bytes)
{
    if (ebb_strmap_get(&w->names, name, strlen(name), NULL))
        return;
    struct data d = {.type = type, .rank = rank, .bytes = data, .length = bytes};
    d.name = ebb_arena_strndup(&w->arena, name, strlen(name));
    for (int k = 0; k < rank && k < ONNX_RANK; k++)
        d.dims[k] = dims[k];
    if (!d.name || rank > ONNX_RANK ||
        ebb_grow(&w->data, &w->capacity, w->count + 1, sizeof *w->data, NULL) != EBB_OK ||
        ebb_strmap_put(&w->names, name, strlen(name), w->count, NULL) != EBB_OK) {
        w->failed = true;
        return;
    }
    w->data[w->count++] = d;
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static void put_entry(struct ebb_str *tensor, const char *key, const char *value)
{
    struct ebb_str entry = {0};
    put_text(&entry, 1, key);
    put_text(&entry, 2, value);
    put_message(tensor, 13, &entry);
    ebb_str_fini(&entry);
}

/* TensorProto without its elements, or with where they lie. */
static void put_tensor(struct ebb_str *tensor, const struct data *d, const char *beside,
                       uint64_t offset)
{
    char text[32];
    for (int k = 0; k < d->rank; k++)
        put_int(tensor, 1, d->dims[k]);
    put_int(tensor, 2, d->type);
    put_text(tensor, 8, d->name);
    if (!beside)
        return;
    put_entry(tensor, "location", beside);
    snprintf(text, sizeof text, "%" PRIu64, offset);
    put_entry(tensor, "offset", text);
    snprintf(text, sizeof text, "%zu", d->length);
    put_entry(tensor, "length", text);
    put_int(tensor, 14, 1);
}

/* ---- nodes ------------------------------------------------------------------------------------ */

void onnx_write_node(struct onnx_writer *w, const char *op)
{
    ebb_str_clear(&w->node);
    ebb_str_clear(&w->attrs);
    put_text(&w->attrs, 4, op); /* behind the values */
}

void onnx_write_in(struct onnx_writer *w, const char *value)
{
    put_text(&w->node, 1, value);
}

void onnx_write_out(struct onnx_writer *w, const char *value)
{
    put_text(&w->node, 2, value);
}

static void put_attr(struct onnx_writer *w, const char *name, int kind, const struct ebb_str *value)
{
    struct ebb_str attr = {0};
    put_text(&attr, 1, name);
    attr.failed |= value->failed;
    ebb_str_addn(&attr, value->length ? value->data : "", value->length);
    put_int(&attr, 20, kind);
    put_message(&w->attrs, 5, &attr);
    ebb_str_fini(&attr);
}

void onnx_write_int(struct onnx_writer *w, const char *name, int64_t v)
{
    struct ebb_str value = {0};
    put_int(&value, 3, v);
    put_attr(w, name, ONNX_ATTR_INT, &value);
    ebb_str_fini(&value);
}

void onnx_write_number(struct onnx_writer *w, const char *name, float v)
{
    struct ebb_str value = {0};
    char bytes[sizeof v];
    memcpy(bytes, &v, sizeof v);
    put_varint(&value, 2u << 3 | ONNX_FIXED32);
    ebb_str_addn(&value, bytes, sizeof bytes);
    put_attr(w, name, ONNX_ATTR_FLOAT, &value);
    ebb_str_fini(&value);
}

void onnx_write_text(struct onnx_writer *w, const char *name, const char *v)
{
    struct ebb_str value = {0};
    put_text(&value, 4, v);
    put_attr(w, name, ONNX_ATTR_STRING, &value);
    ebb_str_fini(&value);
}

void onnx_write_ints(struct onnx_writer *w, const char *name, const int64_t *v, size_t count)
{
    struct ebb_str value = {0};
    for (size_t i = 0; i < count; i++)
        put_int(&value, 8, v[i]);
    put_attr(w, name, ONNX_ATTR_INTS, &value);
    ebb_str_fini(&value);
}

void onnx_write_tensor(struct onnx_writer *w, const char *name, int type, int rank,
                       const int64_t *dims, const void *data, size_t bytes)
{
    struct ebb_str value = {0}, tensor = {0};
    struct data d = {.name = "", .type = type, .rank = rank};
    for (int k = 0; k < rank && k < ONNX_RANK; k++)
        d.dims[k] = dims[k];
    w->failed |= rank > ONNX_RANK;
    put_tensor(&tensor, &d, NULL, 0);
    put_bytes(&tensor, 9, data, bytes);
    put_message(&value, 5, &tensor);
    put_attr(w, name, ONNX_ATTR_TENSOR, &value);
    ebb_str_fini(&tensor);
    ebb_str_fini(&value);
}

void onnx_write_end(struct onnx_writer *w)
{
    w->node.failed |= w->attrs.failed;
    ebb_str_addn(&w->node, w->attrs.data, w->attrs.length);
    put_message(&w->nodes, 1, &w->node);
}

/* ---- the file --------------------------------------------------------------------------------- */

/* Heads of all initializers: field, length, message, and the head of the raw data. */
static size_t initializer_head(const struct data *d, const char *beside, uint64_t offset,
                               struct ebb_str *head)
{
    struct ebb_str tensor = {0}, raw = {0};
    put_tensor(&tensor, d, beside, offset);
    if (!beside)
        put_head(&raw, 9, d->length);
    size_t length = tensor.length + raw.length + (beside ? 0 : d->length);
    head->failed |= tensor.failed || raw.failed;
    put_head(head, 5, length);
    ebb_str_addn(head, tensor.length ? tensor.data : "", tensor.length);
    ebb_str_addn(head, raw.length ? raw.data : "", raw.length);
    ebb_str_fini(&tensor);
    ebb_str_fini(&raw);
    return head->length + (beside ? 0 : d->length);
}

static uint64_t align(uint64_t at)
{
    return (at + 63) / 64 * 64;
}

static bool write_str(FILE *f, const struct ebb_str *s)
{
    return !s->failed && (!s->length || fwrite(s->data, 1, s->length, f) == s->length);
}

static bool write_initializers(struct onnx_writer *w, const char *beside, FILE *f)
{
    uint64_t offset = 0;
    bool is_good = true;
    for (size_t i = 0; i < w->count && is_good; i++) {
        struct ebb_str head = {0};
        initializer_head(&w->data[i], beside, offset, &head);
        is_good = write_str(f, &head);
        if (!beside && w->data[i].length)
            is_good =
                is_good && fwrite(w->data[i].bytes, 1, w->data[i].length, f) == w->data[i].length;
        offset = align(offset + w->data[i].length);
        ebb_str_fini(&head);
    }
    return is_good;
}

static enum ebb_status write_beside(struct onnx_writer *w, const char *path, struct ebb_error *err)
{
    struct ebb_file_out out;
    static const char zeros[64];
    uint64_t at = 0;
    bool is_good = true;
    EBB_TRY(ebb_file_out_open(&out, path, err));
    for (size_t i = 0; i < w->count && is_good; i++) {
        size_t pad = (size_t)(align(at) - at);
        is_good = fwrite(zeros, 1, pad, out.stream) == pad &&
                  fwrite(w->data[i].bytes, 1, w->data[i].length, out.stream) == w->data[i].length;
        at = align(at) + w->data[i].length;
    }
    if (is_good)
        return ebb_file_out_commit(&out, err);
    ebb_file_out_abort(&out);
    return ebb_fail(err, EBB_EIO, "%s: cannot be written", path);
}

/* ModelProto up to the graph's length; the graph's fields follow. */
static void put_model(struct onnx_writer *w, size_t graph_length, struct ebb_str *head)
{
    struct ebb_str opset = {0};
    put_int(head, 1, IR_VERSION);
    put_text(head, 2, "ebb");
    put_text(head, 3, EBB_VERSION);
    put_text(&opset, 1, "");
    put_int(&opset, 2, OPSET);
    put_message(head, 8, &opset);
    put_head(head, 7, graph_length);
    ebb_str_fini(&opset);
    (void)w;
}

static enum ebb_status save(struct onnx_writer *w, const char *path, const char *beside,
                            uint64_t total, struct ebb_error *err)
{
    struct ebb_str name = {0}, head = {0};
    struct ebb_file_out out;
    put_text(&name, 2, w->graph_name);
    put_model(w,
              w->nodes.length + name.length + (size_t)total + w->inputs.length + w->outputs.length,
              &head);
    enum ebb_status status = ebb_file_out_open(&out, path, err);
    if (status == EBB_OK) {
        bool is_good = write_str(out.stream, &head) && write_str(out.stream, &w->nodes) &&
                       write_str(out.stream, &name) && write_initializers(w, beside, out.stream) &&
                       write_str(out.stream, &w->inputs) && write_str(out.stream, &w->outputs);
        if (is_good)
            status = ebb_file_out_commit(&out, err);
        else {
            ebb_file_out_abort(&out);
            status = ebb_fail(err, EBB_EIO, "%s: cannot be written", path);
        }
    }
    ebb_str_fini(&name);
    ebb_str_fini(&head);
    return status;
}

enum ebb_status onnx_writer_save(struct onnx_writer *w, const char *path, struct ebb_error *err)
{
    uint64_t inside = 0, outside = 0, offset = 0;
    struct ebb_str data_path = {0};
    ebb_str_printf(&data_path, "%s.data", path);
    const char *beside = ebb_file_name(ebb_str_c(&data_path));
    for (size_t i = 0; i < w->count; i++) {
        struct ebb_str head = {0};
        inside += initializer_head(&w->data[i], NULL, 0, &head);
        ebb_str_clear(&head);
        outside += initializer_head(&w->data[i], beside, offset, &head);
        offset = align(offset + w->data[i].length);
        w->failed |= head.failed;
        ebb_str_fini(&head);
    }
    enum ebb_status status = w->failed ? ebb_no_memory(err, 0) : ebb_str_status(&data_path, err);
    bool is_large =
        inside + w->nodes.length + w->inputs.length + w->outputs.length + 4096 > LARGEST;
    if (is_large)
        EBB_THEN(status, write_beside(w, ebb_str_c(&data_path), err));
    EBB_THEN(status, save(w, path, is_large ? beside : NULL, is_large ? outside : inside, err));
    ebb_str_fini(&data_path);
    return status;
}
