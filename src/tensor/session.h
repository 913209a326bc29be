/* session.h - private: what a session has recorded, and the head of attribute blobs. */
#ifndef EBB_TENSOR_SESSION_H
#define EBB_TENSOR_SESSION_H

#include <string.h>

#include "tensor/tensor.h"

struct tensor_info { /* of one tensor id, beside its view */
    uint32_t node;
    uint32_t
        root; /* first tensor id on the same bytes at the same version: itself, or a view's base */
    uint32_t mutates; /* root that this version overwrote, or 0 */
    uint32_t trace_id;
    uint32_t twin; /* the same values in another layout, or 0 */
    bool is_kept, is_pinned;
};

struct tensor_record { /* of one node */
    const void *def;
    const struct trace_kind *kind; /* NULL: view */
    const struct trace_kind *overwriting_kind;
    const tensor_id *inputs;
    uint32_t input_count, output_count, first_output;
    const unsigned char *attr;
    uint32_t attr_bytes, blob_bytes; /* blob: in the last finished trace */
    uint64_t workspace_bytes, cost_ns;
    const char *label;
    uint32_t partner; /* node */
    uint32_t op;      /* in the last finished trace */
    uint8_t phase;
    uint8_t overwrites;
    bool is_chain, is_leaf, is_needed;
    bool is_lasting; /* a leaf of which some version is kept */
};

struct tensor_session {
    struct ebb_arena arena;
    void *backend;
    struct ebb_error error;
    struct tensor_info *infos; /* [0] unused */
    struct tensor_view *views; /* the same ids; [0] is empty */
    size_t info_count, info_capacity, view_capacity;
    struct tensor_record *nodes;
    size_t node_count, node_capacity;
    const char *label;
    enum trace_phase phase;
    uint32_t partner;
};

/* The attribute blob of a trace op: this head, views of the inputs, of the outputs, attributes.
 * Blobs lie behind each other in the trace, in whole words. Of a view only what its rank needs is
 * there (dtype, rank and block; offset; sizes; strides): a trace is mostly blobs, and writing,
 * keeping and hashing them is most of what recording costs. */
struct tensor_blob_head {
    uint32_t input_count, output_count;
    uint64_t attr_bytes;
};

#define TENSOR_VIEW_FIXED offsetof(struct tensor_view, dims)

static inline size_t tensor_packed_bytes(const struct tensor_view *view)
{
    return TENSOR_VIEW_FIXED + 2 * sizeof(int64_t) * view->rank;
}

/* Returns the end of what was written. */
static inline unsigned char *tensor_pack(unsigned char *at, const struct tensor_view *view)
{
    memcpy(at, view, TENSOR_VIEW_FIXED);
    at += TENSOR_VIEW_FIXED;
    for (int d = 0; d < view->rank; d++, at += sizeof(int64_t))
        memcpy(at, &view->dims[d], sizeof(int64_t));
    for (int d = 0; d < view->rank; d++, at += sizeof(int64_t))
        memcpy(at, &view->strides[d], sizeof(int64_t));
    return at;
}

static inline size_t tensor_round_up(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

#endif
