/* call.c - inside a kernel: what the attribute blob of a trace op says. */
#include <string.h>

#include "tensor/session.h"

enum ebb_status tensor_call_decode(const struct trace_call *call, struct tensor_call *out,
                                   struct ebb_error *err)
{
    const unsigned char *at = call->attr;
    struct tensor_blob_head head;
    if (call->attr_bytes < sizeof head)
        return ebb_fail(err, EBB_EINTERNAL, "op: attribute blob of %zu bytes", call->attr_bytes);
    memcpy(&head, at, sizeof head);
    size_t views = ((size_t)head.input_count + head.output_count) * sizeof(struct tensor_view);
    if (head.input_count > TENSOR_PORTS || head.output_count > TENSOR_PORTS ||
        call->attr_bytes != sizeof head + views + tensor_round_up(head.attr_bytes) ||
        (uintptr_t)at % _Alignof(struct tensor_view))
        return ebb_fail(err, EBB_EINTERNAL, "op: attribute blob of %zu bytes", call->attr_bytes);
    const struct tensor_view *view = (const struct tensor_view *)(const void *)(at + sizeof head);
    *out = (struct tensor_call){.call = call,
                                .input_count = head.input_count,
                                .output_count = head.output_count,
                                .in = view,
                                .out = view + head.input_count,
                                .attr = at + sizeof head + views,
                                .attr_bytes = head.attr_bytes};
    for (uint32_t i = 0; i < head.output_count; i++)
        out->wanted += call->out[i] != NULL;
    return EBB_OK;
}

size_t tensor_blob_write(void *to, size_t capacity, size_t input_count,
                         const struct tensor_view *in, size_t output_count,
                         const struct tensor_view *out, const void *attr, size_t attr_bytes)
{
    struct tensor_blob_head head = {(uint32_t)input_count, (uint32_t)output_count, attr_bytes};
    size_t ins = input_count * sizeof *in, outs = output_count * sizeof *out;
    size_t bytes = sizeof head + ins + outs + tensor_round_up(attr_bytes);
    unsigned char *at = to;
    if (bytes > capacity)
        return 0;
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, in, ins);
    memcpy(at + sizeof head + ins, out, outs);
    memset(at + sizeof head + ins + outs, 0, tensor_round_up(attr_bytes));
    if (attr_bytes)
        memcpy(at + sizeof head + ins + outs, attr, attr_bytes);
    return bytes;
}

const void *tensor_call_in(const struct tensor_call *c, uint32_t i)
{
    const unsigned char *p = c->call->in[i];
    return p ? p + (size_t)c->in[i].offset * tensor_dtype_bytes(c->in[i].dtype) : NULL;
}

void *tensor_call_out(const struct tensor_call *c, uint32_t i)
{
    unsigned char *p = c->call->out[i];
    return p ? p + (size_t)c->out[i].offset * tensor_dtype_bytes(c->out[i].dtype) : NULL;
}
