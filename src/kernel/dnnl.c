/* dnnl.c - the cache of oneDNN primitives, in user-scratchpad mode: every byte that a primitive or
 * the reorders around it need is part of the workspace, whose size is known before the first run.
 */
#include <omp.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"
#include "kernel/context.h"
#include "kernel/internal.h"

#define ALIGN 256

enum ebb_status kernel_dnnl_check(dnnl_status_t status, const char *what, struct ebb_error *err)
{
    if (status == dnnl_success)
        return EBB_OK;
    if (status == dnnl_out_of_memory)
        return ebb_fail(err, EBB_ENOMEM, "kernel: oneDNN: %s: out of memory", what);
    return ebb_fail(err, EBB_EDEVICE, "kernel: oneDNN: %s: status %d", what, (int)status);
}

bool kernel_has_bf16(void)
{
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    return (isa & (unsigned)dnnl_cpu_isa_avx512_core) == (unsigned)dnnl_cpu_isa_avx512_core;
}

size_t kernel_dnnl_scratch(const_dnnl_primitive_desc_t pd)
{
    return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
}

dnnl_status_t kernel_dnnl_relu(dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops;
    dnnl_status_t status = dnnl_post_ops_create(&ops);
    if (status != dnnl_success)
        return status;
    status = dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

#define TRY(expr, what) EBB_TRY(kernel_dnnl_check((expr), (what), err))

enum ebb_status kernel_dnnl_open(struct kernel_context *c, struct ebb_error *err)
{
    TRY(dnnl_engine_create(&c->engine, dnnl_cpu, 0), "engine");
    c->has_blocks = kernel_has_bf16();
    dnnl_status_t status = dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags);
    if (status != dnnl_success)
        dnnl_engine_destroy(c->engine);
    return kernel_dnnl_check(status, "stream", err);
}

static void primitive_destroy(struct kernel_primitive *p)
{
    for (size_t i = 0; i < KERNEL_OPERANDS; i++) {
        struct kernel_operand *o = &p->operand[i];
        if (o->inner && o->inner != o->plain)
            dnnl_memory_destroy(o->inner);
        if (o->plain)
            dnnl_memory_destroy(o->plain);
        if (o->reorder)
            dnnl_primitive_destroy(o->reorder);
    }
    if (p->scratchpad)
        dnnl_memory_destroy(p->scratchpad);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    ebb_free(p->key);
    ebb_free(p);
}

void kernel_dnnl_close(struct kernel_context *c)
{
    for (size_t i = 0; i < c->capacity; i++)
        if (c->items[i])
            primitive_destroy(c->items[i]);
    ebb_free(c->items);
    dnnl_stream_destroy(c->stream);
    dnnl_engine_destroy(c->engine);
}

struct kernel_primitive *kernel_dnnl_find(const struct kernel_context *c, const void *key,
                                          size_t key_bytes)
{
    uint64_t hash = ebb_hash64(key, key_bytes);
    for (size_t i = (size_t)hash; c->capacity; i++) {
        struct kernel_primitive *p = c->items[i & (c->capacity - 1)];
        if (!p)
            return NULL;
        if (p->hash == hash && p->key_bytes == key_bytes && memcmp(p->key, key, key_bytes) == 0)
            return p;
    }
    return NULL;
}

static void place(struct kernel_primitive **items, size_t capacity, struct kernel_primitive *p)
{
    size_t i = (size_t)p->hash;
    while (items[i & (capacity - 1)])
        i++;
    items[i & (capacity - 1)] = p;
}

/* Room for one more, at most half full. */
static enum ebb_status reserve(struct kernel_context *c, struct ebb_error *err)
{
    if (2 * (c->count + 1) <= c->capacity)
        return EBB_OK;
    size_t capacity = c->capacity ? 2 * c->capacity : 256;
    struct kernel_primitive **items;
    EBB_TRY(ebb_new(&items, capacity, sizeof *items, err));
    for (size_t i = 0; i < c->capacity; i++)
        if (c->items[i])
            place(items, capacity, c->items[i]);
    ebb_free(c->items);
    c->items = items;
    c->capacity = capacity;
    return EBB_OK;
}

static size_t take(size_t *at, size_t bytes)
{
    size_t offset = *at;
    *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return offset;
}

static enum ebb_status add_operand(struct kernel_context *c, struct kernel_primitive *p,
                                   struct kernel_operand *o, const_dnnl_primitive_desc_t pd,
                                   const struct kernel_plain *plain, struct ebb_error *err)
{
    const dnnl_memory_desc_t *want =
        dnnl_primitive_desc_query_md(pd, plain->query, plain->query_index);
    o->argument = plain->argument;
    o->is_output = plain->is_output;
    TRY(dnnl_memory_create(&o->plain, &plain->md, c->engine, DNNL_MEMORY_NONE), "memory");
    o->inner = o->plain;
    if (dnnl_memory_desc_equal(want, &plain->md))
        return EBB_OK;
    o->inner = NULL;
    TRY(dnnl_memory_create(&o->inner, want, c->engine, DNNL_MEMORY_NONE), "memory");
    o->offset = take(&p->workspace_bytes, dnnl_memory_desc_get_size(want));
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t reorder;
    TRY(dnnl_primitive_attr_create(&attr), "attributes");
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(
        &reorder, plain->is_output ? want : &plain->md, c->engine,
        plain->is_output ? &plain->md : want, c->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    TRY(status, "reorder");
    size_t scratch = kernel_dnnl_scratch(reorder);
    status = dnnl_primitive_create(&o->reorder, reorder);
    dnnl_primitive_desc_destroy(reorder);
    TRY(status, "reorder");
    if (scratch)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "kernel: oneDNN: a reorder wants %zu bytes of scratch", scratch);
    return EBB_OK;
}

static enum ebb_status build(struct kernel_context *c, struct kernel_primitive *p,
                             const_dnnl_primitive_desc_t pd, const struct kernel_plain *plain,
                             size_t plain_count, struct ebb_error *err)
{
    TRY(dnnl_primitive_create(&p->primitive, pd), "primitive");
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = dnnl_memory_desc_get_size(scratch);
    if (bytes) {
        TRY(dnnl_memory_create(&p->scratchpad, scratch, c->engine, DNNL_MEMORY_NONE), "scratchpad");
        p->scratchpad_offset = take(&p->workspace_bytes, bytes);
    }
    for (size_t i = 0; i < plain_count; i++)
        if (plain[i].argument)
            EBB_TRY(add_operand(c, p, &p->operand[i], pd, &plain[i], err));
    return EBB_OK;
}

enum ebb_status kernel_dnnl_add(struct kernel_context *c, const void *key, size_t key_bytes,
                                const_dnnl_primitive_desc_t pd, const struct kernel_plain *plain,
                                size_t plain_count, struct kernel_primitive **out,
                                struct ebb_error *err)
{
    EBB_TRY(reserve(c, err));
    struct kernel_primitive *p;
    EBB_TRY(ebb_new(&p, 1, sizeof *p, err));
    p->key = ebb_alloc(key_bytes);
    enum ebb_status status = p->key ? EBB_OK : ebb_no_memory(err, key_bytes);
    if (status == EBB_OK && pd)
        status = build(c, p, pd, plain, plain_count, err);
    if (status != EBB_OK) {
        primitive_destroy(p);
        return status;
    }
    memcpy(p->key, key, key_bytes);
    p->key_bytes = key_bytes;
    p->hash = ebb_hash64(key, key_bytes);
    place(c->items, c->capacity, p);
    c->count++;
    *out = p;
    return EBB_OK;
}

enum ebb_status kernel_dnnl_add_choice(struct kernel_context *c, const void *key, size_t key_bytes,
                                       const int choice[3], struct ebb_error *err)
{
    struct kernel_primitive *p;
    EBB_TRY(kernel_dnnl_add(c, key, key_bytes, NULL, NULL, 0, &p, err));
    memcpy(p->choice, choice, sizeof p->choice);
    return EBB_OK;
}

static enum ebb_status run_reorder(struct kernel_context *c, const struct kernel_operand *o,
                                   struct ebb_error *err)
{
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, o->is_output ? o->inner : o->plain},
                               {DNNL_ARG_TO, o->is_output ? o->plain : o->inner}};
    return kernel_dnnl_check(dnnl_primitive_execute(o->reorder, c->stream, 2, args), "reorder",
                             err);
}

enum ebb_status kernel_dnnl_run(struct kernel_context *c, struct kernel_primitive *p,
                                void *const *pointer, void *workspace, struct ebb_error *err)
{
    dnnl_exec_arg_t args[KERNEL_OPERANDS + 1];
    int count = 0;
    unsigned char *base = workspace;
    /* oneDNN asks OpenMP; this thread's setting */
    omp_set_num_threads(p->threads ? p->threads : c->head.threads);
    for (size_t i = 0; i < KERNEL_OPERANDS; i++) {
        struct kernel_operand *o = &p->operand[i];
        if (!o->argument)
            continue;
        TRY(dnnl_memory_set_data_handle(o->plain, pointer[i]), "operand");
        if (o->reorder) {
            TRY(dnnl_memory_set_data_handle(o->inner, base + o->offset), "operand");
            if (!o->is_output)
                EBB_TRY(run_reorder(c, o, err));
        }
        args[count++] = (dnnl_exec_arg_t){o->argument, o->inner};
    }
    if (p->scratchpad) {
        TRY(dnnl_memory_set_data_handle(p->scratchpad, base + p->scratchpad_offset), "scratchpad");
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->scratchpad};
    }
    TRY(dnnl_primitive_execute(p->primitive, c->stream, count, args), "execute");
    for (size_t i = 0; i < KERNEL_OPERANDS; i++)
        if (p->operand[i].argument && p->operand[i].reorder && p->operand[i].is_output)
            EBB_TRY(run_reorder(c, &p->operand[i], err));
    return kernel_dnnl_check(dnnl_stream_wait(c->stream), "wait", err);
}
