/* signature.c - what makes two traces the same work: the key of cached plans.
 *
 * Hashed: per op the kind's name and purity, leaf or not, workspace, inputs, outputs (kind of
 * output, storage, version, bytes), attributes; all commands, because they say what must live until
 * when and what is kept; the graph's fixed bytes. Not hashed: costs (measured anew, the plan stays
 * legal), labels, phases, partners, the trace's name.
 *
 * The canonical bytes (little endian) are cut into blocks of fixed size; the hash of a block is
 * hashed with the next one, so no buffer grows with the trace. */
#include <string.h>

#include "trace/native.h"
#include "trace/trace.h"

#define BLOCK 8192
#define RECORD 64 /* bytes that are put without looking whether the block is full */

struct canon {
    struct ebb_hash128 sum; /* of the blocks so far */
    size_t used;            /* bytes of data behind the 16 of sum */
    unsigned char block[16 + BLOCK + RECORD];
};

static void canon_hash(struct canon *c, size_t bytes)
{
    ebb_store_u64(c->block, c->sum.low);
    ebb_store_u64(c->block + 8, c->sum.high);
    c->sum = ebb_hash128(c->block, 16 + bytes);
}

/* Ends a record of numbers: there is room for the next one. */
static inline void canon_settle(struct canon *c)
{
    if (c->used < BLOCK)
        return;
    canon_hash(c, BLOCK);
    c->used -= BLOCK;
    memcpy(c->block + 16, c->block + 16 + BLOCK, c->used);
}

static void canon_bytes(struct canon *c, const void *data, size_t length)
{
    const unsigned char *from = data;
    while (length > 0) {
        size_t n = BLOCK - c->used < length ? BLOCK - c->used : length;
        memcpy(c->block + 16 + c->used, from, n);
        c->used += n;
        from += n;
        length -= n;
        canon_settle(c);
    }
}

static inline void canon_u32(struct canon *c, uint32_t value)
{
    ebb_store_u32(c->block + 16 + c->used, value);
    c->used += 4;
}

static inline void canon_u64(struct canon *c, uint64_t value)
{
    ebb_store_u64(c->block + 16 + c->used, value);
    c->used += 8;
}

static void canon_op(struct canon *c, const struct trace *t, const struct trace_op *op)
{
    size_t name_bytes = strlen(op->kind->name);
    canon_u32(c, (uint32_t)name_bytes);
    canon_settle(c);
    canon_bytes(c, op->kind->name, name_bytes);
    canon_u32(c, (uint32_t)op->kind->purity << 1 | (op->is_leaf != 0));
    canon_u64(c, op->workspace_bytes);
    canon_u32(c, op->input_count);
    canon_settle(c);
    for (uint32_t i = 0; i < op->input_count; i++) {
        canon_u32(c, t->inputs[op->input_first + i]);
        canon_settle(c);
    }
    canon_u32(c, op->output_count);
    canon_settle(c);
    for (uint32_t i = 0; i < op->output_count; i++) {
        const struct trace_tensor *x = trace_output_of(t, op, i);
        canon_u32(c, x->alias);
        canon_u32(c, x->alias_input);
        canon_u32(c, x->storage);
        canon_u32(c, x->version);
        canon_u64(c, x->alias == TRACE_FRESH ? t->storages[x->storage].bytes : 0);
        canon_settle(c);
    }
    canon_u32(c, op->attr_bytes);
    canon_settle(c);
    canon_bytes(c, t->attrs + op->attr_first, op->attr_bytes);
}

struct ebb_hash128 trace_signature(const struct trace *trace)
{
    static const char magic[] = "ebb trace signature 1";
    struct canon c = {.used = 0};
    canon_bytes(&c, magic, sizeof magic);
    canon_u32(&c, trace->op_count);
    canon_u32(&c, trace->command_count);
    canon_u32(&c, trace->is_graph);
    canon_u64(&c, trace->graph_fixed_bytes);
    canon_settle(&c);
    for (uint32_t i = 0; i < trace->op_count; i++)
        canon_op(&c, trace, &trace->ops[i]);
    for (uint32_t i = 0; i < trace->command_count; i++) {
        canon_u32(&c, (uint32_t)trace->commands[i].kind << 30 | trace->commands[i].index);
        canon_settle(&c);
    }
    canon_hash(&c, c.used);
    return c.sum;
}
