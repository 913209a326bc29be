/* native_read.c - a native file into a trace. Trusts nothing: lengths are compared with the file
 * before anything is allocated (memory stays below about six times the file), every section is
 * checksummed, and the rules of trace.h are proved at the end. Every refusal is EBB_ECORRUPT and
 * names the byte. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "trace/builder.h"
#include "trace/native.h"

struct native {
    const char *name;
    const unsigned char *data;
    size_t length;
    struct ebb_error *err;
    uint64_t offset[NATIVE_SECTIONS], bytes[NATIVE_SECTIONS];
    uint32_t kind_count;
    const struct trace_kind **kinds; /* owned array, kinds in the arena */
};

__attribute__((format(printf, 3, 4))) static enum ebb_status
corrupt(struct native *n, uint64_t offset, const char *fmt, ...)
{
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return ebb_fail(n->err, EBB_ECORRUPT, "%s: byte %llu: %s", n->name, (unsigned long long)offset,
                    message);
}

static uint32_t header_u32(const struct native *n, int at)
{
    return ebb_load_u32(n->data + at);
}

/* ---- header and sections --------------------------------------------------------------------- */

static enum ebb_status read_header(struct native *n)
{
    if (n->length < TRACE_NATIVE_MAGIC_BYTES ||
        memcmp(n->data, TRACE_NATIVE_MAGIC, TRACE_NATIVE_MAGIC_BYTES) != 0)
        return corrupt(n, 0, "not a trace of ebb");
    if (n->length < NATIVE_AT_VERSION + 4)
        return corrupt(n, n->length, "the file ends inside its header");
    uint32_t version = header_u32(n, NATIVE_AT_VERSION);
    if (version != TRACE_NATIVE_VERSION)
        return corrupt(n, NATIVE_AT_VERSION, "format version %u, this program reads %d", version,
                       TRACE_NATIVE_VERSION);
    if (n->length < NATIVE_HEADER_BYTES)
        return corrupt(n, n->length, "the file ends inside its header of %d bytes",
                       NATIVE_HEADER_BYTES);
    if (ebb_load_u64(n->data + NATIVE_AT_CHECKSUM) != ebb_hash64(n->data, NATIVE_AT_CHECKSUM))
        return corrupt(n, NATIVE_AT_CHECKSUM, "checksum of the header does not match");
    if (header_u32(n, NATIVE_AT_HEADER_BYTES) != NATIVE_HEADER_BYTES ||
        header_u32(n, NATIVE_AT_SECTION_COUNT) != NATIVE_SECTIONS)
        return corrupt(n, NATIVE_AT_HEADER_BYTES, "header of %u bytes with %u sections",
                       header_u32(n, NATIVE_AT_HEADER_BYTES),
                       header_u32(n, NATIVE_AT_SECTION_COUNT));
    uint64_t stated = ebb_load_u64(n->data + NATIVE_AT_FILE_BYTES);
    if (stated != n->length)
        return corrupt(n, n->length, "the file has %zu bytes, its header says %llu", n->length,
                       (unsigned long long)stated);
    if (header_u32(n, NATIVE_AT_FLAGS) > 1)
        return corrupt(n, NATIVE_AT_FLAGS, "unknown flags %#x", header_u32(n, NATIVE_AT_FLAGS));
    n->kind_count = header_u32(n, NATIVE_AT_KINDS);
    return EBB_OK;
}

/* Sections follow each other without gaps but padding, so none can overlap and none can hide. */
static enum ebb_status read_table(struct native *n)
{
    uint64_t end = NATIVE_HEADER_BYTES;
    for (int i = 0; i < NATIVE_SECTIONS; i++) {
        uint64_t row = (uint64_t)(NATIVE_AT_TABLE + i * NATIVE_TABLE_ROW);
        uint64_t begin = (end + 7) & ~UINT64_C(7);
        n->offset[i] = ebb_load_u64(n->data + row);
        n->bytes[i] = ebb_load_u64(n->data + row + 8);
        if (n->offset[i] != begin || begin > n->length || n->bytes[i] > n->length - begin)
            return corrupt(n, row, "section %d at %llu with %llu bytes, expected at %llu of %zu", i,
                           (unsigned long long)n->offset[i], (unsigned long long)n->bytes[i],
                           (unsigned long long)begin, n->length);
        for (uint64_t p = end; p < begin; p++)
            if (n->data[p] != 0)
                return corrupt(n, p, "padding is not zero");
        end = begin + n->bytes[i];
    }
    if (end != n->length)
        return corrupt(n, end, "%llu bytes behind the last section",
                       (unsigned long long)(n->length - end));
    for (int i = 0; i < NATIVE_SECTIONS; i++) {
        uint64_t row = (uint64_t)(NATIVE_AT_TABLE + i * NATIVE_TABLE_ROW);
        if (ebb_load_u64(n->data + row + 16) !=
            ebb_hash64(n->data + n->offset[i], (size_t)n->bytes[i]))
            return corrupt(n, n->offset[i], "checksum of section %d does not match", i);
    }
    return EBB_OK;
}

static enum ebb_status check_counts(struct native *n)
{
    static const struct {
        int section, at;
        unsigned record;
    } fixed[] = {
        {NATIVE_OPS, NATIVE_AT_OPS, NATIVE_OP_BYTES},
        {NATIVE_TENSORS, NATIVE_AT_TENSORS, 4},
        {NATIVE_STORAGES, NATIVE_AT_STORAGES, 8},
        {NATIVE_COMMANDS, NATIVE_AT_COMMANDS, 4},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (n->bytes[fixed[i].section] != (uint64_t)header_u32(n, fixed[i].at) * fixed[i].record)
            return corrupt(
                n, (uint64_t)fixed[i].at, "count %u does not fit a section of %llu bytes",
                header_u32(n, fixed[i].at), (unsigned long long)n->bytes[fixed[i].section]);
    if (n->bytes[NATIVE_KINDS] / 8 < n->kind_count)
        return corrupt(n, NATIVE_AT_KINDS, "%u kinds do not fit a section of %llu bytes",
                       n->kind_count, (unsigned long long)n->bytes[NATIVE_KINDS]);
    if (n->bytes[NATIVE_INPUTS] % 4 != 0 || n->bytes[NATIVE_INPUTS] / 4 > UINT32_MAX ||
        n->bytes[NATIVE_TEXT] > UINT32_MAX || n->bytes[NATIVE_ATTRS] > UINT32_MAX)
        return corrupt(n, NATIVE_AT_TABLE, "impossible size of inputs, labels or attributes");
    return EBB_OK;
}

/* ---- contents -------------------------------------------------------------------------------- */

static enum ebb_status read_kinds(struct native *n, struct trace *t)
{
    EBB_TRY(ebb_new(&n->kinds, n->kind_count, sizeof *n->kinds, n->err));
    struct trace_kind *made = ebb_arena_calloc(&t->arena, n->kind_count, sizeof *made);
    EBB_TRY(ebb_arena_status(&t->arena, n->err));
    uint64_t at = n->offset[NATIVE_KINDS], end = at + n->bytes[NATIVE_KINDS];
    for (uint32_t i = 0; i < n->kind_count; i++) {
        if (end - at < 8)
            return corrupt(n, at, "kind %u is cut off", i);
        const unsigned char *p = n->data + at;
        uint32_t length = ebb_load_u32(p + 4);
        if (length > end - at - 8 || p[0] > TRACE_ONCE || p[1] > 1 || p[2] != 0 || p[3] != 0 ||
            memchr(p + 8, '\0', length) != NULL)
            return corrupt(n, at, "kind %u is malformed", i);
        made[i].name = ebb_arena_strndup(&t->arena, (const char *)p + 8, length);
        EBB_TRY(ebb_arena_status(&t->arena, n->err));
        made[i].purity = (enum trace_purity)p[0];
        made[i].can_skip_outputs = p[1] != 0;
        n->kinds[i] = &made[i];
        at += 8 + (uint64_t)length;
    }
    if (at != end)
        return corrupt(n, at, "%llu bytes behind the last kind", (unsigned long long)(end - at));
    return EBB_OK;
}

static enum ebb_status allocate(struct native *n, struct trace *t)
{
    t->op_count = header_u32(n, NATIVE_AT_OPS);
    t->tensor_count = header_u32(n, NATIVE_AT_TENSORS);
    t->storage_count = header_u32(n, NATIVE_AT_STORAGES);
    t->command_count = header_u32(n, NATIVE_AT_COMMANDS);
    t->input_count = (size_t)(n->bytes[NATIVE_INPUTS] / 4);
    t->text_bytes = (size_t)n->bytes[NATIVE_TEXT];
    t->attr_bytes = (size_t)n->bytes[NATIVE_ATTRS];
    t->backward_command = header_u32(n, NATIVE_AT_BACKWARD);
    t->graph_fixed_bytes = ebb_load_u64(n->data + NATIVE_AT_FIXED);
    t->is_graph = header_u32(n, NATIVE_AT_FLAGS) & 1;
    EBB_TRY(ebb_new(&t->ops, t->op_count, sizeof *t->ops, n->err));
    EBB_TRY(ebb_new(&t->tensors, t->tensor_count, sizeof *t->tensors, n->err));
    EBB_TRY(ebb_new(&t->storages, t->storage_count, sizeof *t->storages, n->err));
    EBB_TRY(ebb_new(&t->commands, t->command_count, sizeof *t->commands, n->err));
    EBB_TRY(ebb_new(&t->inputs, t->input_count, sizeof *t->inputs, n->err));
    EBB_TRY(ebb_new(&t->text, t->text_bytes, 1, n->err));
    EBB_TRY(ebb_new(&t->attrs, t->attr_bytes, 1, n->err));
    const char *name = (const char *)n->data + n->offset[NATIVE_NAME];
    size_t name_bytes = (size_t)n->bytes[NATIVE_NAME];
    if (memchr(name, '\0', name_bytes) != NULL)
        return corrupt(n, n->offset[NATIVE_NAME], "NUL byte in the name");
    t->name = ebb_arena_strndup(&t->arena, name, name_bytes);
    return ebb_arena_status(&t->arena, n->err);
}

static enum ebb_status read_ops(struct native *n, struct trace *t)
{
    uint64_t inputs = 0, outputs = 0, attrs = 0;
    for (uint32_t i = 0; i < t->op_count; i++) {
        uint64_t at = n->offset[NATIVE_OPS] + (uint64_t)i * NATIVE_OP_BYTES;
        const unsigned char *p = n->data + at;
        uint32_t kind = ebb_load_u32(p + 16);
        if (kind >= n->kind_count || p[42] != 0 || p[43] != 0)
            return corrupt(n, at, "op %u has kind %u of %u, or padding that is not zero", i, kind,
                           n->kind_count);
        t->ops[i] = (struct trace_op){
            .kind = n->kinds[kind],
            .cost_ns = ebb_load_u64(p),
            .workspace_bytes = ebb_load_u64(p + 8),
            .input_first = (uint32_t)inputs,
            .input_count = ebb_load_u32(p + 20),
            .output_first = (uint32_t)outputs,
            .output_count = ebb_load_u32(p + 24),
            .attr_first = (uint32_t)attrs,
            .attr_bytes = ebb_load_u32(p + 28),
            .partner = ebb_load_u32(p + 32),
            .label = ebb_load_u32(p + 36),
            .phase = p[40],
            .is_leaf = p[41],
        };
        inputs += t->ops[i].input_count;
        outputs += t->ops[i].output_count;
        attrs += t->ops[i].attr_bytes;
        if (inputs > t->input_count || outputs > t->tensor_count || attrs > t->attr_bytes)
            return corrupt(n, at, "op %u has more inputs, outputs or attributes than there are", i);
    }
    if (outputs != t->tensor_count) /* read_tensors walks by op */
        return corrupt(n, NATIVE_AT_TENSORS, "%u tensors, ops make %llu", t->tensor_count,
                       (unsigned long long)outputs);
    return EBB_OK;
}

/* Storage, version and root follow from the order and the kind of output. Inputs must be read
 * before. */
static enum ebb_status read_tensor(struct native *n, struct trace *t, uint32_t o, uint32_t id,
                                   uint32_t *storages)
{
    uint64_t at = n->offset[NATIVE_TENSORS] + (uint64_t)id * 4;
    uint32_t code = ebb_load_u32(n->data + at);
    struct trace_tensor *x = &t->tensors[id];
    *x = (struct trace_tensor){.op = o, .alias_input = TRACE_NONE, .alias = TRACE_FRESH};
    if (code == 0) {
        if (*storages >= t->storage_count)
            return corrupt(n, at, "tensor %u needs storage %u of %u", id, *storages,
                           t->storage_count);
        x->storage = (*storages)++;
        t->storages[x->storage] = (struct trace_storage){
            .bytes = ebb_load_u64(n->data + n->offset[NATIVE_STORAGES] + (uint64_t)x->storage * 8),
            .root = id,
            .version_count = 1,
        };
        return EBB_OK;
    }
    x->alias = code & 1 ? TRACE_VIEW : TRACE_MUTATE;
    x->alias_input = (code - 1) / 2;
    const struct trace_op *op = &t->ops[o];
    if (x->alias_input >= op->input_count)
        return corrupt(n, at, "tensor %u aliases input %u of %u", id, x->alias_input,
                       op->input_count);
    uint32_t base = t->inputs[op->input_first + x->alias_input];
    if (base >= op->output_first)
        return corrupt(n, at, "tensor %u aliases tensor %u, which is not older", id, base);
    x->storage = t->tensors[base].storage;
    x->version = t->tensors[base].version;
    if (x->alias == TRACE_MUTATE) {
        x->version++;
        t->storages[x->storage].version_count++;
    }
    return EBB_OK;
}

static enum ebb_status read_arrays(struct native *n, struct trace *t)
{
    const unsigned char *p = n->data + n->offset[NATIVE_INPUTS];
    for (size_t i = 0; i < t->input_count; i++, p += 4)
        t->inputs[i] = ebb_load_u32(p);
    p = n->data + n->offset[NATIVE_COMMANDS];
    for (uint32_t i = 0; i < t->command_count; i++, p += 4) {
        uint32_t word = ebb_load_u32(p), kind = word >> 30;
        t->commands[i] = (struct trace_command){.kind = kind & 3u, .index = word & TRACE_MAX_INDEX};
    }
    memcpy(t->text, n->data + n->offset[NATIVE_TEXT], t->text_bytes);
    memcpy(t->attrs, n->data + n->offset[NATIVE_ATTRS], t->attr_bytes);
    EBB_TRY(read_ops(n, t));
    uint32_t storages = 0;
    for (uint32_t o = 0; o < t->op_count; o++)
        for (uint32_t k = 0; k < t->ops[o].output_count; k++)
            EBB_TRY(read_tensor(n, t, o, t->ops[o].output_first + k, &storages));
    if (storages != t->storage_count)
        return corrupt(n, NATIVE_AT_STORAGES, "%u storages, ops make %u", t->storage_count,
                       storages);
    return EBB_OK;
}

/* The rules of trace.h; a fault is said with the byte of the record it was found at. */
static enum ebb_status prove(struct native *n, struct trace *t)
{
    static const struct {
        int section;
        unsigned record;
    } places[] = {
        [TRACE_PART_OP] = {NATIVE_OPS, NATIVE_OP_BYTES}, [TRACE_PART_TENSOR] = {NATIVE_TENSORS, 4},
        [TRACE_PART_STORAGE] = {NATIVE_STORAGES, 8},     [TRACE_PART_INPUT] = {NATIVE_INPUTS, 4},
        [TRACE_PART_COMMAND] = {NATIVE_COMMANDS, 4},
    };
    struct trace_fault fault;
    struct ebb_error found;
    enum ebb_status status = trace_check_at(t, &fault, &found);
    if (status != EBB_OK && fault.part == TRACE_PART_NONE)
        return ebb_fail(n->err, status, "%s: %s", n->name, found.message);
    if (status != EBB_OK) {
        uint64_t at = fault.part == TRACE_PART_HEADER
                          ? 0
                          : n->offset[places[fault.part].section] +
                                (uint64_t)fault.index * places[fault.part].record;
        return corrupt(n, at, "%s", found.message);
    }
    t->signature = trace_signature(t);
    if (t->signature.low != ebb_load_u64(n->data + NATIVE_AT_SIGNATURE) ||
        t->signature.high != ebb_load_u64(n->data + NATIVE_AT_SIGNATURE + 8))
        return corrupt(n, NATIVE_AT_SIGNATURE, "the signature does not match the contents");
    return EBB_OK;
}

static enum ebb_status read_all(struct native *n, struct trace *t)
{
    EBB_TRY(read_header(n));
    EBB_TRY(read_table(n));
    EBB_TRY(check_counts(n));
    EBB_TRY(read_kinds(n, t));
    EBB_TRY(allocate(n, t));
    EBB_TRY(read_arrays(n, t));
    return prove(n, t);
}

enum ebb_status trace_read_native(const char *name, const void *bytes, size_t length,
                                  struct trace **trace, struct ebb_error *err)
{
    struct native n = {.name = name, .data = bytes, .length = length, .err = err};
    struct trace *t;
    EBB_TRY(ebb_new(&t, 1, sizeof *t, err));
    enum ebb_status status = read_all(&n, t);
    ebb_free(n.kinds);
    return EBB_HAND_OUT(status, trace, t, trace_destroy);
}
