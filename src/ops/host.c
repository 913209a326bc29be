/* host.c - runs a trace on host memory, op after op, nothing freed: what exec's results are
 * compared with. */
#include <string.h>

#include "base/heap.h"
#include "ops/ops.h"

#define GUARD 64
#define GUARD_BYTE 0xA5

enum ebb_status ops_host_create(struct ops_host *host, const struct trace *trace, void *context,
                                struct ebb_error *err)
{
    struct ops_host h = {.trace = trace, .context = context};
    size_t most = 0;
    for (uint32_t i = 0; i < trace->op_count; i++)
        if (trace->ops[i].workspace_bytes > most)
            most = (size_t)trace->ops[i].workspace_bytes;
    EBB_TRY(ebb_new(&h.pointers, trace->storage_count + 1, sizeof *h.pointers, err));
    for (uint32_t i = 0; i < trace->storage_count; i++) {
        size_t bytes = (size_t)trace->storages[i].bytes;
        h.pointers[i] = ebb_alloc_aligned(256, bytes + GUARD);
        if (!h.pointers[i]) {
            ops_host_destroy(&h);
            return ebb_no_memory(err, bytes);
        }
        /* what no op has written is NaN: reading it shows */
        memset(h.pointers[i], 0xFF, bytes);
        memset((unsigned char *)h.pointers[i] + bytes, GUARD_BYTE, GUARD);
        h.bytes += bytes;
    }
    h.workspace = ebb_alloc_aligned(256, most + GUARD);
    if (!h.workspace) {
        ops_host_destroy(&h);
        return ebb_no_memory(err, most);
    }
    *host = h;
    return EBB_OK;
}

void ops_host_destroy(struct ops_host *host)
{
    for (uint32_t i = 0; host->pointers && i < host->trace->storage_count; i++)
        ebb_free(host->pointers[i]);
    ebb_free(host->pointers);
    ebb_free(host->workspace);
    host->pointers = NULL;
    host->workspace = NULL;
}

void *ops_host_tensor(const struct ops_host *host, uint32_t trace_tensor)
{
    return host->pointers[host->trace->tensors[trace_tensor].storage];
}

static bool is_guarded(const unsigned char *p)
{
    for (int i = 0; i < GUARD; i++)
        if (p[i] != GUARD_BYTE)
            return false;
    return true;
}

static enum ebb_status run_op(struct ops_host *h, const struct trace_op *op, struct ebb_error *err)
{
    const struct trace *t = h->trace;
    const void *in[TENSOR_PORTS];
    void *out[TENSOR_PORTS];
    if (op->input_count > TENSOR_PORTS || op->output_count > TENSOR_PORTS)
        return ebb_fail(err, EBB_EINTERNAL, "op %s: too many inputs or outputs", op->kind->name);
    for (uint32_t k = 0; k < op->input_count; k++)
        in[k] = ops_host_tensor(h, t->inputs[op->input_first + k]);
    for (uint32_t k = 0; k < op->output_count; k++)
        out[k] = ops_host_tensor(h, op->output_first + k);
    size_t bytes = (size_t)op->workspace_bytes;
    unsigned char *workspace = bytes ? h->workspace : NULL;
    if (bytes)
        memset(workspace + bytes, GUARD_BYTE, GUARD);
    struct trace_call call = {.kind = op->kind,
                              .in = in,
                              .out = out,
                              .workspace = workspace,
                              .attr = t->attrs + op->attr_first,
                              .attr_bytes = op->attr_bytes,
                              .op = (uint32_t)(op - t->ops),
                              .context = h->context};
    enum ebb_status status = op->kind->run(&call, err);
    bool is_clean = !bytes || is_guarded(workspace + bytes);
    for (uint32_t k = 0; is_clean && k < op->output_count; k++) {
        uint32_t storage = trace_output_of(t, op, k)->storage;
        is_clean =
            is_guarded((const unsigned char *)h->pointers[storage] + t->storages[storage].bytes);
    }
    if (status == EBB_OK && !is_clean)
        return ebb_fail(err, EBB_EINTERNAL, "op %s: wrote behind its output or workspace",
                        op->kind->name);
    return status;
}

enum ebb_status ops_host_run_op(struct ops_host *host, uint32_t op, struct ebb_error *err)
{
    const struct trace_op *o = &host->trace->ops[op];
    if (o->is_leaf)
        return EBB_OK;
    if (!o->kind->run)
        return ebb_fail(err, EBB_EUNSUPPORTED, "op %s: has no kernel", o->kind->name);
    enum ebb_status status = run_op(host, o, err);
    return status == EBB_OK ? status : ebb_context(err, status, "op %u (%s)", op, o->kind->name);
}

enum ebb_status ops_host_run(struct ops_host *host, struct ebb_error *err)
{
    for (uint32_t i = 0; i < host->trace->op_count; i++)
        EBB_TRY(ops_host_run_op(host, i, err));
    return EBB_OK;
}
