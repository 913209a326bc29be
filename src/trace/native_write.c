/* native_write.c - a trace into its native file: sizes first, then one buffer, then one atomic
 * write. */
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/map.h"
#include "trace/native.h"
#include "trace/trace.h"

struct writer {
    const struct trace *t;
    struct ebb_map kind_index; /* address of a kind -> its number, in order of first use */
    const struct trace_kind **kinds;
    size_t kind_count, kind_capacity;
    uint64_t offset[NATIVE_SECTIONS], bytes[NATIVE_SECTIONS];
    unsigned char *data;
    size_t length;
};

static enum ebb_status collect_kinds(struct writer *w, struct ebb_error *err)
{
    for (uint32_t i = 0; i < w->t->op_count; i++) {
        const struct trace_kind *kind = w->t->ops[i].kind;
        uint64_t key = (uint64_t)(uintptr_t)kind;
        if (ebb_map_get(&w->kind_index, key, NULL))
            continue;
        EBB_TRY(ebb_grow(&w->kinds, &w->kind_capacity, w->kind_count + 1, sizeof *w->kinds, err));
        EBB_TRY(ebb_map_put(&w->kind_index, key, w->kind_count, err));
        w->kinds[w->kind_count++] = kind;
        w->bytes[NATIVE_KINDS] += 8 + strlen(kind->name);
    }
    return EBB_OK;
}

static void lay_out(struct writer *w)
{
    const struct trace *t = w->t;
    w->bytes[NATIVE_NAME] = strlen(t->name);
    w->bytes[NATIVE_OPS] = (uint64_t)t->op_count * NATIVE_OP_BYTES;
    w->bytes[NATIVE_TENSORS] = (uint64_t)t->tensor_count * 4;
    w->bytes[NATIVE_STORAGES] = (uint64_t)t->storage_count * 8;
    w->bytes[NATIVE_INPUTS] = (uint64_t)t->input_count * 4;
    w->bytes[NATIVE_COMMANDS] = (uint64_t)t->command_count * 4;
    w->bytes[NATIVE_TEXT] = t->text_bytes;
    w->bytes[NATIVE_ATTRS] = t->attr_bytes;
    uint64_t at = NATIVE_HEADER_BYTES;
    for (int i = 0; i < NATIVE_SECTIONS; i++) {
        at = (at + 7) & ~UINT64_C(7);
        w->offset[i] = at;
        at += w->bytes[i];
    }
    w->length = (size_t)at;
}

static void put_kinds(struct writer *w)
{
    unsigned char *p = w->data + w->offset[NATIVE_KINDS];
    for (size_t i = 0; i < w->kind_count; i++) {
        size_t n = strlen(w->kinds[i]->name);
        p[0] = (unsigned char)w->kinds[i]->purity;
        p[1] = w->kinds[i]->can_skip_outputs;
        ebb_store_u32(p + 4, (uint32_t)n);
        memcpy(p + 8, w->kinds[i]->name, n);
        p += 8 + n;
    }
}

static void put_ops(struct writer *w)
{
    unsigned char *p = w->data + w->offset[NATIVE_OPS];
    for (uint32_t i = 0; i < w->t->op_count; i++, p += NATIVE_OP_BYTES) {
        const struct trace_op *op = &w->t->ops[i];
        uint64_t kind = 0;
        ebb_map_get(&w->kind_index, (uint64_t)(uintptr_t)op->kind, &kind);
        ebb_store_u64(p, op->cost_ns);
        ebb_store_u64(p + 8, op->workspace_bytes);
        ebb_store_u32(p + 16, (uint32_t)kind);
        ebb_store_u32(p + 20, op->input_count);
        ebb_store_u32(p + 24, op->output_count);
        ebb_store_u32(p + 28, op->attr_bytes);
        ebb_store_u32(p + 32, op->partner);
        ebb_store_u32(p + 36, op->label);
        p[40] = op->phase;
        p[41] = op->is_leaf;
    }
}

static void put_arrays(struct writer *w)
{
    const struct trace *t = w->t;
    memcpy(w->data + w->offset[NATIVE_NAME], t->name, w->bytes[NATIVE_NAME]);
    unsigned char *p = w->data + w->offset[NATIVE_TENSORS];
    for (uint32_t i = 0; i < t->tensor_count; i++, p += 4) {
        const struct trace_tensor *x = &t->tensors[i];
        ebb_store_u32(p, x->alias == TRACE_FRESH ? 0 : x->alias + 2 * x->alias_input);
    }
    p = w->data + w->offset[NATIVE_STORAGES];
    for (uint32_t i = 0; i < t->storage_count; i++, p += 8)
        ebb_store_u64(p, t->storages[i].bytes);
    p = w->data + w->offset[NATIVE_INPUTS];
    for (size_t i = 0; i < t->input_count; i++, p += 4)
        ebb_store_u32(p, t->inputs[i]);
    p = w->data + w->offset[NATIVE_COMMANDS];
    for (uint32_t i = 0; i < t->command_count; i++, p += 4)
        ebb_store_u32(p, (uint32_t)t->commands[i].kind << 30 | t->commands[i].index);
    memcpy(w->data + w->offset[NATIVE_TEXT], t->text, t->text_bytes);
    if (t->attr_bytes > 0)
        memcpy(w->data + w->offset[NATIVE_ATTRS], t->attrs, t->attr_bytes);
}

static void put_header(struct writer *w)
{
    const struct trace *t = w->t;
    unsigned char *h = w->data;
    memcpy(h, TRACE_NATIVE_MAGIC, TRACE_NATIVE_MAGIC_BYTES);
    ebb_store_u32(h + NATIVE_AT_VERSION, TRACE_NATIVE_VERSION);
    ebb_store_u32(h + NATIVE_AT_HEADER_BYTES, NATIVE_HEADER_BYTES);
    ebb_store_u64(h + NATIVE_AT_FILE_BYTES, w->length);
    ebb_store_u64(h + NATIVE_AT_SIGNATURE, t->signature.low);
    ebb_store_u64(h + NATIVE_AT_SIGNATURE + 8, t->signature.high);
    ebb_store_u64(h + NATIVE_AT_FIXED, t->graph_fixed_bytes);
    ebb_store_u32(h + NATIVE_AT_FLAGS, t->is_graph);
    ebb_store_u32(h + NATIVE_AT_OPS, t->op_count);
    ebb_store_u32(h + NATIVE_AT_TENSORS, t->tensor_count);
    ebb_store_u32(h + NATIVE_AT_STORAGES, t->storage_count);
    ebb_store_u32(h + NATIVE_AT_COMMANDS, t->command_count);
    ebb_store_u32(h + NATIVE_AT_KINDS, (uint32_t)w->kind_count);
    ebb_store_u32(h + NATIVE_AT_BACKWARD, t->backward_command);
    ebb_store_u32(h + NATIVE_AT_SECTION_COUNT, NATIVE_SECTIONS);
    for (int i = 0; i < NATIVE_SECTIONS; i++) {
        unsigned char *row = h + NATIVE_AT_TABLE + i * NATIVE_TABLE_ROW;
        ebb_store_u64(row, w->offset[i]);
        ebb_store_u64(row + 8, w->bytes[i]);
        ebb_store_u64(row + 16, ebb_hash64(w->data + w->offset[i], (size_t)w->bytes[i]));
    }
    ebb_store_u64(h + NATIVE_AT_CHECKSUM, ebb_hash64(h, NATIVE_AT_CHECKSUM));
}

enum ebb_status trace_write_native(const struct trace *trace, const char *path,
                                   struct ebb_error *err)
{
    struct writer w = {.t = trace};
    enum ebb_status status = collect_kinds(&w, err);
    if (status == EBB_OK) {
        lay_out(&w);
        status = ebb_new(&w.data, w.length, 1, err);
    }
    if (status == EBB_OK) {
        put_kinds(&w);
        put_ops(&w);
        put_arrays(&w);
        put_header(&w);
        status = ebb_file_write_atomic(path, w.data, w.length, err);
    }
    ebb_free(w.data);
    ebb_free(w.kinds);
    ebb_map_fini(&w.kind_index);
    return status;
}
