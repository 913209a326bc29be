/* call.c - inside a kernel: what the attribute blob of a trace op says. */
#include <string.h>

#include "tensor/session.h"

/* The end of the packed view, or NULL when it does not end before `end`. */
static const unsigned char *unpack(const unsigned char *at, const unsigned char *end,
                                   struct tensor_view *view)
{
    if ((size_t)(end - at) < TENSOR_VIEW_FIXED)
        return NULL;
    memcpy(view, at, TENSOR_VIEW_FIXED);
    at += TENSOR_VIEW_FIXED;
    if (view->rank > TENSOR_RANK || (size_t)(end - at) < 2 * sizeof(int64_t) * view->rank)
        return NULL;
    memset(view->dims, 0, sizeof view->dims); /* apart: short enough to be a few stores */
    memset(view->strides, 0, sizeof view->strides);
    for (int d = 0; d < view->rank; d++, at += sizeof(int64_t))
        memcpy(&view->dims[d], at, sizeof(int64_t));
    for (int d = 0; d < view->rank; d++, at += sizeof(int64_t))
        memcpy(&view->strides[d], at, sizeof(int64_t));
    return at;
}

static enum ebb_status bad_blob(const struct trace_call *call, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINTERNAL, "op: attribute blob of %zu bytes", call->attr_bytes);
}

enum ebb_status tensor_call_decode(const struct trace_call *call, struct tensor_call *out,
                                   struct ebb_error *err)
{
    const unsigned char *at = call->attr, *end = at + call->attr_bytes;
    struct tensor_blob_head head;
    if (call->attr_bytes < sizeof head)
        return bad_blob(call, err);
    memcpy(&head, at, sizeof head);
    at += sizeof head;
    if (head.input_count > TENSOR_PORTS || head.output_count > TENSOR_PORTS ||
        head.attr_bytes > call->attr_bytes || (uintptr_t)at % sizeof(int64_t))
        return bad_blob(call, err);
    for (uint32_t i = 0; at && i < head.input_count; i++)
        at = unpack(at, end, &out->in[i]);
    for (uint32_t i = 0; at && i < head.output_count; i++)
        at = unpack(at, end, &out->out[i]);
    if (!at || (size_t)(end - at) != tensor_round_up(head.attr_bytes))
        return bad_blob(call, err);
    out->call = call;
    out->input_count = head.input_count;
    out->output_count = head.output_count;
    out->attr = at;
    out->attr_bytes = head.attr_bytes;
    out->wanted = 0;
    for (uint32_t i = 0; i < head.output_count; i++)
        out->wanted += call->out[i] != NULL;
    return EBB_OK;
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
