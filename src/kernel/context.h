/* context.h - private: the oneDNN engine and the cache of primitives behind a kernel context. */
#ifndef EBB_KERNEL_CONTEXT_H
#define EBB_KERNEL_CONTEXT_H

#include <dnnl.h>

#include "kernel/kernel.h"

/* A primitive with the reorders around it: operand i is copied into the layout the primitive wants
 * (buffer at a fixed workspace offset) when that differs from the plain one. */
#define KERNEL_OPERANDS 4

struct kernel_operand {
    int argument;        /* DNNL_ARG_*; 0 = unused */
    dnnl_memory_t plain; /* handle set per run */
    dnnl_memory_t inner; /* == plain when the layouts agree */
    dnnl_primitive_t reorder;
    size_t offset; /* of the inner buffer in the workspace */
    int is_output;
};

struct kernel_primitive {
    unsigned char *key; /* owned */
    size_t key_bytes;
    uint64_t hash; /* of the key: looked at first */
    int choice[3]; /* entries without a primitive: a convolution's blocks and algorithm */
    dnnl_primitive_t primitive;
    struct kernel_operand operand[KERNEL_OPERANDS];
    dnnl_memory_t scratchpad;
    size_t scratchpad_offset;
    size_t workspace_bytes;
    int threads; /* it was made for; 0: those of the context */
};

struct kernel_context {
    struct kernel_head head;
    const struct profile_fit *fits[KERNEL_FAMILIES]; /* what calls cost */
    struct device *device;                           /* far: whose addresses are shifted */
    uint32_t fault, last_fault; /* far: of the run under way, of the one before; 0: none */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bool has_blocks; /* kernel_has_bf16, which takes longer: the library's products are blocked */
    struct kernel_primitive **items; /* owned; open addressing by hash, capacity a power of two */
    size_t count, capacity;
};

/* Entries of the table that others share. */
/* Families whose workspace or algorithm is a matter of their shapes. */
#define KERNEL_CPU_NEEDS(X)                                                                        \
    X(CROSS_ENTROPY, cross_entropy)                                                                \
    X(CROSS_ENTROPY_GRAD, cross_entropy_grad)                                                      \
    X(MATMUL, matmul)                                                                              \
    X(CONV, conv)                                                                                  \
    X(ATTENTION, attention)                                                                        \
    X(ATTENTION_GRAD, attention_grad)                                                              \
    X(LAYER_NORM_GRAD, layer_norm_grad)                                                            \
    X(PRODUCT_ENTROPY, product_entropy)                                                            \
    X(PRODUCT_ENTROPY_GRAD, product_entropy_grad)                                                  \
    X(PRODUCT_ENTROPY_STEP, product_entropy_step)                                                  \
    X(UPDATE, update)                                                                              \
    X(UPDATE_SPLIT, update_split)
#define KERNEL_BIT(name, text) | UINT64_C(1) << KERNEL_FAMILY_##name
#define KERNEL_CPU_SIZED (~(UINT64_C(0) KERNEL_CPU_NEEDS(KERNEL_BIT)))
void kernel_cpu_close(struct kernel_context *context);
bool kernel_cpu_takes(const struct kernel_context *context, enum kernel_family family,
                      const void *desc, const struct kernel_args *types);
enum ebb_status kernel_cpu_need(struct kernel_context *context, enum kernel_family family,
                                const void *desc, const struct kernel_args *types,
                                struct kernel_need *need, struct ebb_error *err);
enum ebb_status kernel_conv_choose(struct kernel_context *c, struct kernel_conv *conv,
                                   enum kernel_conv_pass pass, bool may_winograd,
                                   struct ebb_error *err);

enum ebb_status kernel_dnnl_open(struct kernel_context *c, struct ebb_error *err);
void kernel_dnnl_close(struct kernel_context *c);
enum ebb_status kernel_dnnl_check(dnnl_status_t status, const char *what, struct ebb_error *err);

/* Bytes of scratch that a primitive takes. */
size_t kernel_dnnl_scratch(const_dnnl_primitive_desc_t pd);
/* Scratch beyond what one thread takes: so much is always fine. */
#define KERNEL_SCRATCH (UINT64_C(32) << 20)
/* y = max(0, y) behind the primitive. */
dnnl_status_t kernel_dnnl_relu(dnnl_primitive_attr_t attr);

/* The cached primitive of this key, or NULL. Keys start with a kind, so kinds cannot meet. */
struct kernel_primitive *kernel_dnnl_find(const struct kernel_context *c, const void *key,
                                          size_t key_bytes);
/* Builds an entry from a descriptor: queries the layouts, makes reorders where `plain` differs,
 * lays out the workspace, stores it. attr is consumed by the caller. plain[i] describes operand i
 * (argument 0: none). */
enum ebb_status kernel_dnnl_add_choice(struct kernel_context *c, const void *key, size_t key_bytes,
                                       const int choice[3], struct ebb_error *err);
struct kernel_plain {
    int argument;
    dnnl_query_t query; /* which md of the primitive it meets */
    int query_index;
    dnnl_memory_desc_t md;
    int is_output;
};
enum ebb_status kernel_dnnl_add(struct kernel_context *c, const void *key, size_t key_bytes,
                                const_dnnl_primitive_desc_t pd, const struct kernel_plain *plain,
                                size_t plain_count, struct kernel_primitive **out,
                                struct ebb_error *err);
/* pointer[i] belongs to operand i. */
enum ebb_status kernel_dnnl_run(struct kernel_context *c, struct kernel_primitive *p,
                                void *const *pointer, void *workspace, struct ebb_error *err);

#endif
