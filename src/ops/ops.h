/* ops.h - the op table: for every op its name, attributes, shape rule, workspace, cost, purity,
 * gradient rule and kernel, in one row.
 *
 * Three sorts of rows. A *primitive* becomes one op of the trace. A *view* becomes none. A
 * *composite* is written with other ops, so its gradient follows from theirs. Gradient rules are
 * written with ops as well: the backward pass is part of the same trace, and second derivatives
 * need nothing new. A rule that is missing is an error that names the op, never a silent zero.
 *
 * To add an op: write the row in the file of its family (elementwise, reduce, product, conv, norm,
 * view, copy, loss, update): shapes (infer), the kernel's family and how the call describes itself to
 * it; the golden runner and the finite-difference test read the table. A new family is a file and a row of OPS_FAMILIES
 * (internal.h). Names and attributes are those of torch. */
#ifndef EBB_OPS_OPS_H
#define EBB_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/doc.h"
#include "base/json.h"
#include "base/status.h"
#include "tensor/tensor.h"

struct ops_def;

/* ---- the table ------------------------------------------------------------------------------- */

const struct ops_def *ops_find(const char *name); /* NULL: unknown */
size_t ops_count(void);
const struct ops_def *ops_at(size_t index);
const char *ops_name(const struct ops_def *def);
bool ops_is_internal(const struct ops_def *def); /* emitted by rules, not meant for files */
bool ops_has_gradient(const struct ops_def *def);

size_t ops_most_inputs(const struct ops_def *def);
/* Attributes that files may set, by number. */
size_t ops_attribute_count(const struct ops_def *def);
const char *ops_attribute(const struct ops_def *def, size_t i);

#define OPS_ATTR_BYTES 512

/* Reads a mapping of attributes (may be NULL: all defaults) into attr. Errors name the attribute
 * and the allowed ones. */
enum ebb_status ops_parse(const struct ops_def *def, const struct ebb_doc_node *map, void *attr,
                          struct ebb_error *err);
size_t ops_attr_bytes(const struct ops_def *def);
/* The attributes as ops_parse reads them: a mapping of those that are not the defaults. */
void ops_attr_write(const struct ops_def *def, const void *attr, struct ebb_json_writer *w);
/* One attribute by hand; the op says which member counts. */
struct ops_value {
    const char *name;
    const int64_t *ints; /* a list of `count`; NULL: one integer */
    int count;
    int64_t integer; /* truth as well */
    double number;
    const char *text;
};
/* The same from values in memory: models are built without text. */
enum ebb_status ops_assign(const struct ops_def *def, const struct ops_value *values, size_t count,
                           void *attr, struct ebb_error *err);
/* Appends the op; *out_count outputs are written to out[TENSOR_PORTS]. Failures go to the session.
 */
void ops_call(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
              size_t in_count, const void *attr, tensor_id *out, size_t *out_count);

struct ops_backward { /* one node, seen by its gradient rule */
    struct tensor_session *session;
    const struct ops_def *def;
    const tensor_id *in, *out;
    size_t in_count, out_count;
    const tensor_id *gout; /* per output; TENSOR_NONE = zero */
    const bool *needs;     /* per input */
    tensor_id *gin;        /* result; TENSOR_NONE = zero */
    /* Per input: what its other readers have sent so far (TENSOR_NONE: nothing). A rule that adds it
     * to gin[k] itself says so in has_taken[k]. Both may be NULL: nobody adds up. */
    const tensor_id *so_far;
    bool *has_taken;
    const void *attr;
};
void ops_backward(struct ops_backward *b);

/* ---- by hand: what models, grad and optim call ----------------------------------------------- */

tensor_id ops_add(struct tensor_session *s, tensor_id a, tensor_id b);
tensor_id ops_sub(struct tensor_session *s, tensor_id a, tensor_id b);
tensor_id ops_mul(struct tensor_session *s, tensor_id a, tensor_id b);
tensor_id ops_div(struct tensor_session *s, tensor_id a, tensor_id b);
tensor_id ops_neg(struct tensor_session *s, tensor_id x);
tensor_id ops_sqrt(struct tensor_session *s, tensor_id x);
tensor_id ops_reciprocal(struct tensor_session *s, tensor_id x);
tensor_id ops_clamp(struct tensor_session *s, tensor_id x, float low, float high);
tensor_id ops_add_scalar(struct tensor_session *s, tensor_id x, float value);
tensor_id ops_mul_scalar(struct tensor_session *s, tensor_id x, float value);
tensor_id ops_sum(struct tensor_session *s, tensor_id x); /* of everything */
tensor_id ops_sum_squares(struct tensor_session *s, tensor_id x);
tensor_id ops_full(struct tensor_session *s, int rank, const int64_t *dims, float value);
tensor_id ops_reshape(struct tensor_session *s, tensor_id x, int rank, const int64_t *dims);
/* Row-major, plain layout; itself when it is. Results of convolutions and what follows them may be
 * in blocks of channels (tensor_view.block). */
tensor_id ops_contiguous(struct tensor_session *s, tensor_id x);
/* The same, and at the beginning of its storage: what is kept and read outside goes through this. A
 * part of a tensor may lie row by row behind other parts. */
tensor_id ops_settle(struct tensor_session *s, tensor_id x);
tensor_id ops_detach(struct tensor_session *s, tensor_id x); /* the same bytes, no gradient */
tensor_id ops_matmul(struct tensor_session *s, tensor_id a, tensor_id b, bool ta, bool tb);
tensor_id ops_cast(struct tensor_session *s, tensor_id x, enum tensor_dtype dtype);
tensor_id ops_unit(struct tensor_session *s, tensor_id x); /* bytes 0 to 255 as numbers 0 to 1 */
/* Dropout with Philox coordinates (seed, instance, *step): step is an I64 tensor of one element. */
tensor_id ops_dropout(struct tensor_session *s, tensor_id x, tensor_id step, float p, uint64_t seed,
                      uint32_t instance);

/* Batch norm of a training step. running = {mean, variance: F32 [C]; number of batches: I64 scalar
 * or TENSOR_NONE} is updated in place by an op of its own, which is never run twice; the handles
 * are replaced by the new versions. The normalisation is pure. */
tensor_id ops_batch_norm_train(struct tensor_session *s, tensor_id x, tensor_id w, tensor_id b,
                               tensor_id running[3], float momentum, float eps);

/* One optimizer update in place: out[0] = new w, then the new states. What changes from step to
 * step is read from a tensor of OPS_UPDATE_SCALARS floats. */
#define OPS_UPDATE_SCALARS 12
#define OPS_UPDATE_STATES 3
enum ops_update_kind {
    OPS_SGD,
    OPS_ADAM,
    OPS_RMSPROP,
    OPS_ADAGRAD,
    OPS_ADADELTA,
    OPS_ADAMAX,
    OPS_NADAM,
    OPS_RADAM,
    OPS_LARS,
    OPS_LAMB,
};
enum ops_update_flags {
    OPS_MOMENTUM = 1,
    OPS_NESTEROV = 2,
    OPS_AMSGRAD = 4,
    OPS_CENTERED = 8,
    OPS_NO_TRUST = 16, /* LARS, LAMB: trust ratio 1 */
};
/* The numbers of a step by name; each kind reads some of them. */
struct ops_scalars {
    double rate;                             /* may hold a correction of the moments */
    double decay;                            /* times the weights, added to the gradient */
    double sign;                             /* of the gradient; -1: maximize */
    double momentum;                         /* as it is given */
    double carry;                            /* momentum, 0 at the first step */
    double fresh;                            /* 1 - dampening, 1 at the first step */
    double beta1, rest1, beta2, rest2;       /* rest: 1 - beta */
    double power1, power2, root2, rectified; /* 1 - beta^t; its root; RAdam's factor, or 0 */
    double momentum_rate;                    /* NAdam */
    double alpha, rest_alpha, rho, rest_rho;
    double eeta, eps;
    double keep; /* factor of the weights: decoupled decay */
};
/* Those of a kind, rounded, at their places. */
void ops_update_scalars(enum ops_update_kind kind, const struct ops_scalars *scalars,
                        float packed[OPS_UPDATE_SCALARS]);
void ops_update(struct tensor_session *s, enum ops_update_kind kind, unsigned flags,
                tensor_id scalars, tensor_id g, tensor_id w, const tensor_id *states,
                size_t state_count, tensor_id *out);

/* The same (ops_update_split where `rest` is given) for elements `first` and on, as many as the states
 * have: what is kept for a large tensor can come and go in parts. Bits are those of one update. Not
 * for LARS and LAMB, whose norms are of the whole. */
struct ops_range {
    enum ops_update_kind kind;
    unsigned flags;
    tensor_id scalars, g, w, rest;
    int64_t first;
    const tensor_id *states;
    size_t state_count;
};
void ops_update_range(struct tensor_session *s, const struct ops_range *range, tensor_id *out);

/* One step of Adam as values: in = weights, first and second moments, out = the new ones;
 * differentiable. corrections: 1/(1-b1^t), 1/(1-b2^t). */
void ops_adam_step(struct tensor_session *s, const double betas[2], float lr, float eps,
                   const tensor_id in[3], tensor_id g, tensor_id corrections, tensor_id out[3]);

/* ops_update for master weights kept as two tensors of 16 bits: high (BF16, what the model computes
 * with; rounded half up) and rest (I16, the bits below). Both together are the float32 weights
 * exactly, at 4 bytes instead of 6. g is F32 or BF16. out[0] = new high, out[1] = new rest, then
 * the new states. */
void ops_update_split(struct tensor_session *s, enum ops_update_kind kind, unsigned flags,
                      tensor_id scalars, tensor_id g, tensor_id high, tensor_id rest,
                      const tensor_id *states, size_t state_count, tensor_id *out);
/* The float32 weights; gradients end at them. */
tensor_id ops_master_join(struct tensor_session *s, tensor_id high, tensor_id rest);
/* `high` for computing, with the gradient of `master`, which need not be made for it. */
tensor_id ops_master_high(struct tensor_session *s, tensor_id high, tensor_id master);
/* g (F32), rounded to BF16, in the place of `copy`: the working copy of a weight that nobody reads any
 * more. */
tensor_id ops_overlay(struct tensor_session *s, tensor_id copy, tensor_id g);

/* ---- running without a memory manager -------------------------------------------------------- */

/* The reference for exec: every op once, in order, everything kept, each storage a block of its own
 * with guard bytes behind it that are checked after every op. pointers[storage] is allocated where
 * it is NULL (leaf contents are the caller's business: set them first, or fill after
 * ops_host_create). */
struct ops_host {
    const struct trace *trace;
    void **pointers;          /* per storage */
    unsigned char *workspace; /* of the op that needs most */
    void *context;            /* kernel context, given to every call */
    uint64_t bytes;           /* allocated */
};
enum ebb_status ops_host_create(struct ops_host *host, const struct trace *trace, void *context,
                                struct ebb_error *err);
enum ebb_status ops_host_run(struct ops_host *host, struct ebb_error *err);
enum ebb_status ops_host_run_op(struct ops_host *host, uint32_t op, struct ebb_error *err);
void ops_host_destroy(struct ops_host *host);
/* Bytes of a tensor of the trace. */
void *ops_host_tensor(const struct ops_host *host, uint32_t trace_tensor);

/* A kernel context as an opaque backend, for layers that may not see kernels: the one place where a
 * table of kernels is chosen. table NULL: the cpu's; device NULL: recorded ops are not run (but by
 * the cpu's table, which works on any address); profile NULL: what is built in. */
struct kernel_table;
struct device;
struct profile;
enum ebb_status ops_backend_create(void **backend, const struct kernel_table *table,
                                   struct device *device, const struct profile *profile,
                                   int threads, struct ebb_error *err);
void ops_backend_destroy(void *backend);

/* ---- rewrites ----------------------------------------------------------------------------------
 *
 * Made while ops are appended, so they are part of the trace: set them before the first op of a
 * session. Whether one applies depends on shapes and types, never on a budget. To add one: write
 * its struct ops_rewrite in the file of its ops and a row in OPS_REWRITES (internal.h). */

enum ops_pass {
    OPS_PASS_LAYOUT = 1, /* convolutions choose layouts, neighbours follow; sums in other order */
    OPS_PASS_NORM = 2,   /* batch norm (+ addition) + relu in one op; the same bits */
    /* 3x3 convolutions by Winograd's method where its scratch is at most the bytes of the operands;
     * errors of 1e-6 instead of 2e-7 relative to the largest result. Needs LAYOUT. */
    OPS_PASS_WINOGRAD = 4,
    /* Convolutions of little work by a kernel of our own with sums in double: errors of 6e-8
     * instead of 2e-7 relative to the largest result, the same bits on every processor. */
    OPS_PASS_SMALL = 8,
    /* Off at the start: a product with weights and the cross entropy of its rows in one op, 128
     * rows at a time; the logits are never there as a whole, and are made again for the gradient.
     * The weights' gradient is summed in blocks: 1e-6. With numbers of 16 bits the logits are kept
     * in float32 and only their gradients are rounded: 1e-2 of what rounds both. */
    OPS_PASS_ENTROPY = 256,
    /* Off at the start: convolution or linear layer + relu in one op, 1e-6. The layer is computed
     * twice where something else reads its result without relu, forward and backward. */
    OPS_PASS_RELU = 512,
    /* Off at the start: element-wise ops and the gradient of batch norm write over an input that
     * nothing else needs; the same bits in less memory, at the price of ops that must not be run
     * again singly. */
    OPS_PASS_OVER = 1024,
    /* Off at the start: as ENTROPY, and before it, but the gradients are made while the logits are
     * there: no product is made twice, for a gradient of the weights that lives from there on. */
    OPS_PASS_HEAD = 2048,
    /* Off at the start: the sum of two gradients and the gradient of a relu behind it in one op; the
     * same bits with a third less traffic, for one more large tensor at a time. */
    OPS_PASS_GATE = 4096,
    /* Off at the start: attention on the packed projection as it lies, queries, keys and values side
     * by side in a token: no permuting copies, neither of its gradient; the same bits. */
    OPS_PASS_PACKED = 8192,
    /* Off at the start: a linear layer and an addition to it in one op. In float32 the same bits; with
     * numbers of 16 bits the sum is rounded once instead of twice. Not where something has read the
     * layer's result before the addition; who reads it later has it made for itself. */
    OPS_PASS_RESIDUAL = 16384,
    /* Off at the start: the gradient of a layer norm adds what the other readers of its input sent
     * before. In float32 the same bits; with 16 bits rounded once instead of twice. */
    OPS_PASS_ADDEND = 32768,
    /* Off at the start: the gradient of a gelu together with that of the bias before it, the sums of
     * its columns; the same bits in float32. */
    OPS_PASS_BIAS = 65536,
    /* The gradient of weights that several linear layers share, as steps of a recurrent net do, is added
     * in the product to the sum so far, in its place where nothing else reads that; float32 sums
     * are rounded once instead of twice. */
    OPS_PASS_SUMS = 131072,
};
/* Which are on at the start is a matter of the table (kernel_table.rewrites). */
void ops_backend_set_passes(void *backend, unsigned passes);
unsigned ops_backend_passes(const void *backend);
unsigned ops_rewrite_defaults(void);                      /* of a table that says nothing else */
const char *ops_rewrite_name(size_t i, bool *is_default); /* each once; NULL past the end */
/* "layout,norm": exactly these; "+entropy,-norm": those of `start`, changed; "none". EBB_EINPUT names
 * what is unknown and what is allowed. NULL: those of `start`. */
enum ebb_status ops_rewrites_parse(const char *text, unsigned start, unsigned *passes,
                                   struct ebb_error *err);

#endif
