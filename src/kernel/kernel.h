/* kernel.h - the one seam between ops and arithmetic: a table of kernels per device.
 *
 * A call of a kernel is a *family*, a *description* (plain data without padding: equal bytes, equal
 * kernel) and its operands: pointers with their types of numbers. `ops` makes descriptions from
 * views and attributes and knows no device; a table knows no tensors. Operands are addresses of the
 * device: whoever reads or writes them on the host is wrong, wherever it stands.
 *
 *   T1  need() is asked when an op is recorded: workspace, expected time, and the algorithm that
 *       run() will take for an equal description. Never by budget, free memory or a timing of this
 *       run.
 *   T2  run() enqueues on the context's stream (cpu: does it at once), allocates nothing, waits for
 *       nothing.
 *   T3  What a kernel finds wrong in its operands (an index, a target) it writes to the fault word,
 *       a word of the context's
 *       own, the least op + 1 that failed; 0: none. The host asks fault() when finish() and the
 *       device have come to an end. On the cpu the same error is returned at once.
 *   T4  takes() says whether a family can work on these types as they are; where not, ops/low.c
 *       converts in the workspace. It is asked about calls with a BF16 or F16 operand only.
 *   T5  An output that is NULL is not wanted; every family with several outputs takes NULL for each,
 *       and makes the others to the same bits. An input that is NULL is not given.
 *   T6  A context opened without a device (on a profile alone) answers takes and need, and runs
 *       nothing.
 *   T7  Where a result may lie over an operand: see the families that say "in place", and the
 *       element-wise ones (unary, its gradient, binary), batch_norm_grad (dx over dy), products
 *       that add to a sum (C over r, KERNEL_ADDS_SUM).
 *
 * Unless a description has strides, blocks or lanes, tensors are dense and row-major. Members named
 * `zero` are 0, and so is what lies behind a rank. Families and operands stand at the end. */
#ifndef EBB_KERNEL_KERNEL_H
#define EBB_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define KERNEL_PORTS 8
#define KERNEL_RANK 8

/* Types of numbers of operands, and their bytes: as TENSOR_DTYPE_LIST. */
#define KERNEL_DTYPE_LIST(X)                                                                       \
    X(F32, 4) X(BF16, 2) X(F16, 2) X(F64, 8) X(I64, 8) X(I32, 4) X(I16, 2) X(U8, 1) X(BOOL, 1)

enum kernel_dtype {
#define X(name, bytes) KERNEL_##name,
    KERNEL_DTYPE_LIST(X)
#undef X
        KERNEL_DTYPES
};

struct kernel_args {
    const void *in[KERNEL_PORTS]; /* NULL: not given */
    void *out[KERNEL_PORTS];      /* NULL: not wanted */
    void *workspace;
    uint8_t in_dtype[KERNEL_PORTS], out_dtype[KERNEL_PORTS]; /* enum kernel_dtype */
    uint32_t in_count, out_count;
    uint32_t op; /* for the fault word */
};

struct kernel_need {
    double flops, bytes;      /* in: what ops counts */
    uint64_t workspace_bytes; /* out */
    uint64_t cost_ns;
    uint64_t algorithm; /* hash; 0: there is only one */
};

/* ---- descriptions ------------------------------------------------------------------------------
 *
 * Padding would be bytes that nobody sets: here it is an error. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#endif

/* name, saves y (1) or x (0) for the gradient */
#define KERNEL_UNARY_LIST(X)                                                                       \
    X(NEG, neg, 0)                                                                                 \
    X(ABS, abs, 0)                                                                                 \
    X(EXP, exp, 1)                                                                                 \
    X(LOG, log, 0)                                                                                 \
    X(SQRT, sqrt, 1)                                                                               \
    X(RSQRT, rsqrt, 1)                                                                             \
    X(SQUARE, square, 0)                                                                           \
    X(RECIPROCAL, reciprocal, 1)                                                                   \
    X(ERF, erf, 0)                                                                                 \
    X(SIN, sin, 0)                                                                                 \
    X(COS, cos, 0)                                                                                 \
    X(RELU, relu, 1)                                                                               \
    X(RELU6, relu6, 0)                                                                             \
    X(LEAKY_RELU, leaky_relu, 0)                                                                   \
    X(ELU, elu, 0)                                                                                 \
    X(SIGMOID, sigmoid, 1)                                                                         \
    X(TANH, tanh, 1)                                                                               \
    X(GELU, gelu, 0)                                                                               \
    X(GELU_TANH, gelu_tanh, 0)                                                                     \
    X(SILU, silu, 0)                                                                               \
    X(SOFTPLUS, softplus, 0)                                                                       \
    X(HARDSWISH, hardswish, 0)                                                                     \
    X(HARDSIGMOID, hardsigmoid, 0)                                                                 \
    X(CLAMP, clamp, 0)                                                                             \
    X(POW, pow_scalar, 0)                                                                          \
    X(ADD_SCALAR, add_scalar, 0)                                                                   \
    X(MUL_SCALAR, mul_scalar, 0)

enum kernel_unary {
#define X(name, text, saves_y) KERNEL_##name,
    KERNEL_UNARY_LIST(X)
#undef X
        KERNEL_UNARY_COUNT
};

/* y = f(x), or dx = dy f'(.) from what was saved. a and b are parameters of the function: slope,
 * alpha, bounds, exponent, value. */
struct kernel_unary_desc {
    int64_t n;
    int32_t f; /* enum kernel_unary */
    float a, b;
    int32_t columns; /* gradients of gelu: not 0: dx is so wide, and its columns are added up */
};

enum kernel_binary {
    KERNEL_ADD,
    KERNEL_SUB,
    KERNEL_MUL,
    KERNEL_DIV,
    KERNEL_MAXIMUM,
    KERNEL_MINIMUM,
    KERNEL_GREATER_HALF, /* 1 where a > b, 1/2 where equal, else 0: share of a in a maximum */
    KERNEL_EQUAL,        /* 1 where a == b, else 0 */
    KERNEL_GATE,         /* a where b > 0, else 0: the gradient of relu */
    KERNEL_BINARY_COUNT
};

/* An index space and the strides (in elements) of up to four operands in it; operand 0 is written.
 */
struct kernel_nd {
    int32_t rank, zero;
    int64_t dims[KERNEL_RANK];
    int64_t stride[4][KERNEL_RANK];
};

struct kernel_binary_desc { /* operands: 0 y, 1 a, 2 b */
    struct kernel_nd nd;
    int32_t f; /* enum kernel_binary */
    int32_t zero;
};

struct kernel_mask_desc { /* y = (m != 0) != invert ? x scale : fill; operands: 0 y, 1 x, 2 m */
    struct kernel_nd nd;
    int32_t invert;
    float scale, fill;
    int32_t zero;
};

struct kernel_count_desc { /* n elements, one after the other */
    int64_t n;
};

struct kernel_fill_desc {
    int64_t n;
    float value; /* rounded to the type of y; integers: 0 */
    int32_t zero;
};

enum kernel_reduce { KERNEL_SUM, KERNEL_MEAN, KERNEL_AMAX, KERNEL_SUM_SQUARES };

struct kernel_reduce_desc { /* y has the dimensions that are kept, in order */
    int32_t f;              /* enum kernel_reduce */
    int32_t rank;
    int64_t dims[KERNEL_RANK]; /* of x */
    uint64_t folded;           /* bit d: dimension d is folded */
};

enum kernel_lines {
    KERNEL_SOFTMAX,
    KERNEL_LOG_SOFTMAX,
    KERNEL_SOFTMAX_GRAD,
    KERNEL_LOG_SOFTMAX_GRAD,
    KERNEL_LOGSUMEXP,
    KERNEL_ARGMAX, /* to I64 */
    KERNEL_CUMSUM
};

struct kernel_lines_desc { /* over the middle of [outer, n, inner] */
    int64_t outer, n, inner;
    int32_t f; /* enum kernel_lines */
    int32_t is_reverse;
};

enum kernel_adds {
    KERNEL_ADDS_NOTHING,
    KERNEL_ADDS_ITSELF, /* C += A B; float32 only */
    KERNEL_ADDS_OTHER,  /* C = A B + r: dense, of C's shape and type */
    KERNEL_ADDS_SUM     /* the same in float32, rounded as the table likes; r may be C */
};

/* C = A B (+ bias over the last dimension). Batch dimensions are equal or 1 (broadcast). Strides in
 * elements; one of the last two strides of A and of B is 1; C is contiguous. */
struct kernel_matmul {
    int32_t dtype;     /* enum kernel_dtype of A and B */
    int32_t out_dtype; /* of C: dtype or F32 */
    int32_t rank;      /* >= 2 */
    int32_t has_bias;  /* float32 [N] */
    int32_t adds;      /* enum kernel_adds */
    int32_t has_relu;  /* C = max(0, A B + bias); not with KERNEL_ADDS_OTHER */
    int64_t a_dims[KERNEL_RANK], a_strides[KERNEL_RANK];
    int64_t b_dims[KERNEL_RANK], b_strides[KERNEL_RANK];
    int64_t c_dims[KERNEL_RANK];
};

/* Cross-correlation, weights [co, ci/groups, k...]. in and out are linked by the caller:
 * out = (in + pad + pad_after - dilation (k-1) - 1) / stride + 1, exactly or rounded down. */
struct kernel_conv {
    int32_t nd; /* 1..3 spatial dimensions */
    int32_t has_bias;
    int32_t x_block, y_block; /* layouts of x and y: channels in blocks of that many, 0 = plain */
    int32_t is_winograd;
    int32_t has_relu; /* forward: y = max(0, conv) */
    int32_t dtype;    /* enum kernel_dtype of x, w, y, as taken; the bias and dw are float32 */
    int32_t is_small; /* by our own kernel (kernel_conv_is_small): plain */
    int64_t n, ci, co, groups;
    int64_t in[3], out[3], k[3], stride[3], dilation[3], pad[3];
};

enum kernel_conv_pass { KERNEL_CONV_FORWARD, KERNEL_CONV_DATA, KERNEL_CONV_WEIGHTS };

/* FORWARD: a = x, b = weights -> y. DATA: a = dy, b = weights -> dx. WEIGHTS: a = x, b = dy -> dw.
 * Bias: forward only. */
struct kernel_conv_desc {
    struct kernel_conv conv;
    int64_t pass; /* enum kernel_conv_pass */
};

/* softmax(q k^T scale + mask) v for [rows = batch*heads, T, d], scores never stored: the forward
 * pass keeps one block of rows, the backward pass one block of rows and columns. */
struct kernel_attention {
    int64_t rows, tq, tk, d, dv;
    float scale;
    int32_t is_causal;
    int32_t mask_rows; /* 0: none; else mask is [mask_rows, tq, tk] with rows % mask_rows == 0 */
    int32_t
        heads; /* 0: as above. Else packed: one x [rows / heads, T, 3, heads, d] of queries, keys
                      and values, tq = tk, d = dv, no mask; o [rows / heads, T, heads, d] */
    int64_t mask_period; /* mask row of r = (r / mask_period) % mask_rows */
};

/* Batch norm of [n, channels, spatial], or [n, channels / block, spatial, block]. */
struct kernel_batch_norm {
    int64_t n, channels, spatial;
    int32_t block;    /* 0: plain */
    int32_t has_relu; /* y = max(0, norm(x) + r) */
    int32_t has_add;  /* r is given */
    int32_t dtype;    /* enum kernel_dtype of x, r, y, dy, dx; the rest is float32 */
    float eps;
    int32_t zero;
};

/* running = (1 - momentum) running + momentum new, the variance's new times unbias; batches += 1.
 * Factors are made in double and rounded once. */
struct kernel_batch_norm_update_desc {
    int64_t channels;
    double unbias;
    float momentum;
    int32_t zero;
};

struct kernel_layer_norm_desc { /* rows of n; root-mean-square norm takes no mean away */
    int64_t rows, n;
    float eps;
    int32_t is_rms;
};

/* planes = batch * channels / lanes; three spatial dimensions, unused ones 1. lanes: 1, or the
 * block of a blocked layout: so many channels lie behind each other at every place. */
struct kernel_pool {
    int64_t planes, lanes;
    int64_t in[3], out[3], k[3], stride[3], pad[3], dilation[3];
    int32_t count_include_pad, zero;
};

/* winner: position of the maximum in its window, row-major; one byte each, so windows have at most
 * 255 elements; 255 = the window is all padding. */
#define KERNEL_POOL_WINDOW 255

/* Means over windows, or over equal shares of the plane; gradients take dy and give dx. Maxima give
 * winners as well, and take them for their gradient; KERNEL_MAX_POOL_INDEX makes winners (U8) to flat
 * indices (I64) into their plane, as torch returns them. */
enum kernel_pooling {
    KERNEL_MAX_POOL,
    KERNEL_MAX_POOL_GRAD,
    KERNEL_AVG,
    KERNEL_AVG_GRAD,
    KERNEL_ADAPTIVE,
    KERNEL_ADAPTIVE_GRAD,
    KERNEL_MAX_POOL_INDEX
};

struct kernel_pool_desc {
    struct kernel_pool pool;
    int64_t f; /* enum kernel_pooling */
};

/* y[plane][index] = x, zero elsewhere; gradient: dx = dy[plane][index]. in_size, out_size: elements
 * of a plane of x and of y. */
struct kernel_unpool_desc {
    int64_t planes, in_size, out_size, is_grad;
};

struct kernel_resample { /* planes of in[0] x in[1] to out[0] x out[1], `lanes` wide */
    int64_t planes, lanes, in[2], out[2];
    double scale[2]; /* source step per target pixel */
    int32_t is_bilinear, align_corners;
};

struct kernel_resample_desc {
    struct kernel_resample resample;
    int64_t is_grad; /* from dy to dx */
};

/* y[o, c, i] = sum over channels c - before .. c + after of x, zero outside. */
struct kernel_channel_window_desc {
    int64_t outer, channels, inner, before, after;
};

enum kernel_index {
    KERNEL_SELECT,     /* y[o, j, i] = x[o, index[j], i] */
    KERNEL_INDEX_ADD,  /* dx[o, index[j], i] += dy[o, j, i], in order of j, from zeros */
    KERNEL_GATHER,     /* y[o, j, i] = x[o, index[o, j, i], i] */
    KERNEL_SCATTER_ADD /* dx[o, index[o, j, i], i] += dy[o, j, i], from zeros */
};

struct kernel_index_desc { /* x, dx: [outer, n, inner]; y, dy: [outer, count, inner] */
    int64_t outer, n, inner, count;
    int64_t skip; /* INDEX_ADD: this index gets nothing */
    int64_t f;    /* enum kernel_index */
};

enum kernel_reduction {
    KERNEL_REDUCE_MEAN,
    KERNEL_REDUCE_SUM,
    KERNEL_REDUCE_NONE,
    KERNEL_REDUCE_BATCHMEAN
};
enum kernel_loss {
    KERNEL_MSE,
    KERNEL_L1,
    KERNEL_SMOOTH_L1,
    KERNEL_BCE,
    KERNEL_BCE_LOGITS,
    KERNEL_KL
};

struct kernel_loss_desc { /* element-wise; y has n elements (none) or one */
    int64_t n, batch;     /* batch: divisor of batchmean */
    int32_t f;            /* enum kernel_loss */
    int32_t reduction;    /* enum kernel_reduction */
    float beta;
    int32_t zero;
};

/* A target outside 0..classes-1 that is not ignore_index is an error. */
struct kernel_cross_entropy { /* logits [n, classes, inner], targets [n, inner] */
    int64_t n, classes, inner, ignore_index;
    int32_t reduction; /* enum kernel_reduction */
    float smoothing;
    int32_t is_log_prob; /* nll_loss: x are log-probabilities already */
    int32_t zero;
};

/* Cross entropy of x W^T [n, classes], x [n, k]; lse: of each row. dW is float32; x, W and dx are of
 * one type. Reductions mean and sum. */
struct kernel_product_entropy_desc {
    int64_t n, k, classes, ignore_index;
    int64_t reduction; /* enum kernel_reduction */
};

/* LSTM: gates a + b [rows, 4h] in order i,f,g,o; act: the activated gates. GRU: a = Wx + bi,
 * b = Uh + bh, both [rows, 3h] in order r,z,n; act [rows, 3h]. */
struct kernel_gates_desc {
    int64_t rows, h;
};

/* y = uniform >= p ? x / (1 - p) : 0; its own gradient. Philox coordinates: key seed, counter (e / 4,
 * instance, low and high half of *step), word e % 4. */
struct kernel_dropout_desc {
    uint64_t seed;
    int64_t n;
    uint32_t instance;
    float p;
};

enum kernel_update {
    KERNEL_UPDATE_SGD,
    KERNEL_UPDATE_ADAM,
    KERNEL_UPDATE_RMSPROP,
    KERNEL_UPDATE_ADAGRAD,
    KERNEL_UPDATE_ADADELTA,
    KERNEL_UPDATE_ADAMAX,
    KERNEL_UPDATE_NADAM,
    KERNEL_UPDATE_RADAM,
    KERNEL_UPDATE_LARS,
    KERNEL_UPDATE_LAMB,
    KERNEL_UPDATE_COUNT
};

/* What changes from step to step, computed in double on the host and rounded once: by kind, in the
 * order of their places. Every kind begins with rate and decay; the last place is the sign of the
 * gradient (-1: maximize), and what lies between is 0. The names are those of struct ops_scalars. */
#define KERNEL_UPDATE_SCALARS 12
#define KERNEL_SCALARS_SGD(X) X(SGD, carry) X(SGD, fresh) X(SGD, momentum)
#define KERNEL_SCALARS_ADAM(X)                                                                     \
    X(ADAM, beta1)                                                                                 \
    X(ADAM, rest1) X(ADAM, beta2) X(ADAM, rest2) X(ADAM, root2) X(ADAM, eps) X(ADAM, keep)
#define KERNEL_SCALARS_RMSPROP(X)                                                                  \
    X(RMSPROP, alpha) X(RMSPROP, rest_alpha) X(RMSPROP, eps) X(RMSPROP, momentum)
#define KERNEL_SCALARS_ADAGRAD(X) X(ADAGRAD, eps)
#define KERNEL_SCALARS_ADADELTA(X) X(ADADELTA, rho) X(ADADELTA, rest_rho) X(ADADELTA, eps)
#define KERNEL_SCALARS_ADAMAX(X) X(ADAMAX, beta1) X(ADAMAX, rest1) X(ADAMAX, beta2) X(ADAMAX, eps)
#define KERNEL_SCALARS_NADAM(X)                                                                    \
    X(NADAM, beta1)                                                                                \
    X(NADAM, rest1)                                                                                \
    X(NADAM, beta2) X(NADAM, rest2) X(NADAM, power2) X(NADAM, eps) X(NADAM, momentum_rate)
#define KERNEL_SCALARS_RADAM(X)                                                                    \
    X(RADAM, beta1)                                                                                \
    X(RADAM, rest1) X(RADAM, beta2) X(RADAM, rest2) X(RADAM, rectified) X(RADAM, eps)
#define KERNEL_SCALARS_LARS(X) X(LARS, carry) X(LARS, eeta) X(LARS, eps)
#define KERNEL_SCALARS_LAMB(X)                                                                     \
    X(LAMB, beta1)                                                                                 \
    X(LAMB, rest1)                                                                                 \
    X(LAMB, beta2) X(LAMB, rest2) X(LAMB, power1) X(LAMB, power2) X(LAMB, eps)
#define KERNEL_SCALARS(X)                                                                          \
    X(SGD)                                                                                         \
    X(ADAM) X(RMSPROP) X(ADAGRAD) X(ADADELTA) X(ADAMAX) X(NADAM) X(RADAM) X(LARS) X(LAMB)

#define KERNEL_UPDATE_STATES 3

enum kernel_update_flags { /* constant over steps */
                           KERNEL_UPDATE_MOMENTUM = 1,
                           KERNEL_UPDATE_NESTEROV = 2,
                           KERNEL_UPDATE_AMSGRAD = 4,
                           KERNEL_UPDATE_CENTERED = 8,
                           KERNEL_UPDATE_NO_TRUST = 16, /* LARS, LAMB: ratio 1 */
};

struct kernel_update_desc {
    int64_t n;      /* elements of the states, and as many of gradient and weights */
    int64_t first;  /* from this one on */
    int32_t f;      /* enum kernel_update */
    uint32_t flags; /* enum kernel_update_flags */
};

/* m' = b1 m + (1-b1) g, v' = b2 v + (1-b2) g^2, p' = p - lr powers[0] m' / (sqrt(powers[1] v') +
 * eps). */
struct kernel_adam_step {
    float lr, eps, beta1, rest1, beta2, rest2; /* rest: 1 - beta, rounded once */
};

struct kernel_adam_step_desc {
    struct kernel_adam_step step;
    int64_t n;
    int64_t given; /* gradient: bit k: that of result k is among the inputs; the others are zero */
};

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

/* ---- families ---------------------------------------------------------------------------------
 *
 * Operands by family; what stands in [] may be missing, positions are fixed. Without a type: F32 on
 * the cpu, of any one type of numbers where takes() says so; statistics, lse, biases, gradients of
 * weights, weights and biases of norms, loss, scalars, states: always F32.
 *
 *   unary                 x -> y
 *   unary_grad            dy, s [, more] -> dx [, sums]; more is added to dy first, and the sum
 *                         rounded; sums (F32) of the columns of dx
 *   binary                a, b -> y
 *   mask                  x, m (U8) -> y
 *   where                 m (U8), a, b -> y
 *   truth                 x (I64, F32) -> y (U8)
 *   copy                  from -> to, one type of any size
 *   fill                  -> y
 *   convert               x -> y, each F32, BF16 or F16; or x U8: a byte's share of 255
 *   reduce                x -> y (F32)
 *   lines                 x -> y (F32; argmax I64); gradients: dy, y -> dx (F32)
 *   matmul                a, b [, bias] [, r] -> c
 *   conv                  a, b [, bias] -> out
 *   attention             q, k, v [, mask] -> o, lse; packed: x -> o, lse
 *   attention_grad        q, k, v, o, lse, do [, mask] -> dq, dk, dv; packed: x, o, lse, do -> dx
 *   batch_norm_stats      x -> mean, var (biased)
 *   batch_norm            x, [w], [b], mean, var [, r] -> y
 *   batch_norm_grad       dy, x, w, b, mean, var -> dx, dw, db, through the statistics as well
 *   batch_norm_update     running mean, running var, mean, var [, batches (I64)] -> the running ones
 *                         [, batches], in place
 *   layer_norm            x, [w], [b] -> y, mean (not rms), rstd
 *   layer_norm_grad       dy, x, [w], mean (not rms), rstd [, more] -> dx (+ more), dw, db
 *   pool                  x -> y; max: x -> y, winner (U8); max_grad: dy, winner -> dx; index: winner
 *                         -> index (I64)
 *   unpool                x, index (I64) -> y; gradient: dy, index -> dx
 *   resample              x -> y; gradient: dy -> dx
 *   channel_window        x -> y
 *   index                 x or dy, index (I64) -> y or dx (dx of index_add: F32)
 *   loss                  x, t -> y (F32)
 *   loss_grad             dy, x, t -> dx
 *   cross_entropy         x, target (I64) [, weight] -> y (F32)
 *   cross_entropy_grad    dy, x, target (I64) [, weight] -> dx
 *   product_entropy       x, w, target (I64) -> loss, lse
 *   product_entropy_grad  dy, x, w, target (I64), lse -> dx, dw
 *   product_entropy_step  x, w, target (I64) -> loss, dx, dw: both at once, the gradients those of an
 *                         incoming gradient of 1
 *   lstm                  a, b, c0 -> h1, c1 (F32), act (F32)
 *   lstm_grad             act, c0, c1, dh, dc1 -> dgates, dc0 (F32)
 *   gru                   a, b, h0 -> h1, act (F32)
 *   gru_grad              act, b, h0, dh1 -> da, db, dh0
 *   dropout               x, step (one I64) -> y
 *   master_join           high (BF16), rest (I16) -> w (F32): a float32 rounded half up to 16 bits,
 *                         and the 16 bits below; both together are the float32 exactly
 *   update                scalars, g, w, states... -> w, states..., in place; the states may be about a
 *                         range of g and w only (desc.first)
 *   update_split          scalars, g (F32, BF16), high, rest, states... -> high, rest, states..., in
 *                         place
 *   adam_step             p, m, v, g, powers -> p', m', v'
 *   adam_step_grad        m', v', g, powers, the given gradients of p', m', v' -> dg, dm, dv
 */
#define KERNEL_FAMILY_LIST(X)                                                                      \
    X(UNARY, unary, struct kernel_unary_desc)                                                      \
    X(UNARY_GRAD, unary_grad, struct kernel_unary_desc)                                            \
    X(BINARY, binary, struct kernel_binary_desc)                                                   \
    X(MASK, mask, struct kernel_mask_desc)                                                         \
    X(WHERE, where, struct kernel_nd)                                                              \
    X(TRUTH, truth, struct kernel_count_desc)                                                      \
    X(COPY, copy, struct kernel_nd)                                                                \
    X(FILL, fill, struct kernel_fill_desc)                                                         \
    X(CONVERT, convert, struct kernel_count_desc)                                                  \
    X(REDUCE, reduce, struct kernel_reduce_desc)                                                   \
    X(LINES, lines, struct kernel_lines_desc)                                                      \
    X(MATMUL, matmul, struct kernel_matmul)                                                        \
    X(CONV, conv, struct kernel_conv_desc)                                                         \
    X(ATTENTION, attention, struct kernel_attention)                                               \
    X(ATTENTION_GRAD, attention_grad, struct kernel_attention)                                     \
    X(BATCH_NORM_STATS, batch_norm_stats, struct kernel_batch_norm)                                \
    X(BATCH_NORM, batch_norm, struct kernel_batch_norm)                                            \
    X(BATCH_NORM_GRAD, batch_norm_grad, struct kernel_batch_norm)                                  \
    X(BATCH_NORM_UPDATE, batch_norm_update, struct kernel_batch_norm_update_desc)                  \
    X(LAYER_NORM, layer_norm, struct kernel_layer_norm_desc)                                       \
    X(LAYER_NORM_GRAD, layer_norm_grad, struct kernel_layer_norm_desc)                             \
    X(POOL, pool, struct kernel_pool_desc)                                                         \
    X(UNPOOL, unpool, struct kernel_unpool_desc)                                                   \
    X(RESAMPLE, resample, struct kernel_resample_desc)                                             \
    X(CHANNEL_WINDOW, channel_window, struct kernel_channel_window_desc)                           \
    X(INDEX, index, struct kernel_index_desc)                                                      \
    X(LOSS, loss, struct kernel_loss_desc)                                                         \
    X(LOSS_GRAD, loss_grad, struct kernel_loss_desc)                                               \
    X(CROSS_ENTROPY, cross_entropy, struct kernel_cross_entropy)                                   \
    X(CROSS_ENTROPY_GRAD, cross_entropy_grad, struct kernel_cross_entropy)                         \
    X(PRODUCT_ENTROPY, product_entropy, struct kernel_product_entropy_desc)                        \
    X(PRODUCT_ENTROPY_GRAD, product_entropy_grad, struct kernel_product_entropy_desc)              \
    X(PRODUCT_ENTROPY_STEP, product_entropy_step, struct kernel_product_entropy_desc)              \
    X(LSTM, lstm, struct kernel_gates_desc)                                                        \
    X(LSTM_GRAD, lstm_grad, struct kernel_gates_desc)                                              \
    X(GRU, gru, struct kernel_gates_desc)                                                          \
    X(GRU_GRAD, gru_grad, struct kernel_gates_desc)                                                \
    X(DROPOUT, dropout, struct kernel_dropout_desc)                                                \
    X(MASTER_JOIN, master_join, struct kernel_count_desc)                                          \
    X(UPDATE, update, struct kernel_update_desc)                                                   \
    X(UPDATE_SPLIT, update_split, struct kernel_update_desc)                                       \
    X(ADAM_STEP, adam_step, struct kernel_adam_step_desc)                                          \
    X(ADAM_STEP_GRAD, adam_step_grad, struct kernel_adam_step_desc)

enum kernel_family {
#define X(name, text, type) KERNEL_FAMILY_##name,
    KERNEL_FAMILY_LIST(X)
#undef X
        KERNEL_FAMILIES
};

union kernel_desc { /* room for any */
#define X(name, text, type) type text;
    KERNEL_FAMILY_LIST(X)
#undef X
};

/* ---- tables and contexts ------------------------------------------------------------------------- */

struct device;
struct profile;
struct profile_row;
struct kernel_context; /* begins with struct kernel_head; one thread uses it at a time */

typedef enum ebb_status kernel_row_sink(void *to, const struct profile_row *row,
                                        struct ebb_error *err);

struct kernel_table {
    const char *device;
    const char
        *profile;   /* text of one (profile.h), for whoever gives no other; NULL: as built in */
    uint64_t sized; /* bit per family: need() looks at flops and bytes alone; its desc and types
                             may be NULL */
    const char *rewrites; /* on at the start, as changes of those of ops: "+head"; NULL: no other */
    bool is_last;         /* choose() answers channels-last: tensors are joined and cut in it */
    enum ebb_status (*open)(struct kernel_context **context, struct device *device,
                            const struct profile *profile, int threads, struct ebb_error *err);
    void (*close)(struct kernel_context *context);
    bool (*takes)(const struct kernel_context *context, enum kernel_family family, const void *desc,
                  const struct kernel_args *types);
    /* Which layout a convolution likes: x_block, y_block (channels-last is block = channels),
     * is_winograd. */
    enum ebb_status (*choose)(struct kernel_context *context, struct kernel_conv *conv,
                              enum kernel_conv_pass pass, bool may_winograd, struct ebb_error *err);
    enum ebb_status (*need)(struct kernel_context *context, enum kernel_family family,
                            const void *desc, const struct kernel_args *types,
                            struct kernel_need *need, struct ebb_error *err);
    enum ebb_status (*run)(struct kernel_context *context, enum kernel_family family,
                           const void *desc, const struct kernel_args *args, struct ebb_error *err);
    /* Both NULL where run() returns errors itself (cpu). finish: enqueued behind the last op of a
     * run, inside a capture: makes the fault word readable and clears it. fault: after the device was
     * synced: the least failing op + 1 of that run; 0: none. */
    enum ebb_status (*finish)(struct kernel_context *context, struct ebb_error *err);
    uint32_t (*fault)(struct kernel_context *context);
    /* Both NULL where nothing is chosen (cpu). identity: what results depend on beside shapes: the kind
     * of device, versions of its libraries, the algorithms that rows of the profile choose; one line that
     * belongs to the context. algorithms: a row for each that was asked for so far, as it is; `measures`:
     * as it should be: candidates are timed, on memory of their own, and the fastest repeatable one is
     * told. A context opened with these rows takes them. */
    const char *(*identity)(struct kernel_context *context);
    enum ebb_status (*algorithms)(struct kernel_context *context, bool measures,
                                  kernel_row_sink *add, void *to, struct ebb_error *err);
};

struct kernel_head {
    const struct kernel_table *table;
    int threads;      /* 1 where that means nothing */
    unsigned options; /* bits whose meaning the layer above defines (rewrites that are on) */
};

extern const struct kernel_table kernel_cpu;
/* A GPU (sm_90) that is not here and whose plug-in is not: answers takes, choose and need (T6). Its profile is the text of
 * data/devices/nvidia-h200.txt. */
extern const struct kernel_table kernel_paper;
extern const char kernel_paper_h200[];
/* The cpu's kernels on device far: operands are shifted by device_far_shift. */
extern const struct kernel_table kernel_far;

static inline enum ebb_status kernel_run(struct kernel_context *context, enum kernel_family family,
                                         const void *desc, const struct kernel_args *args,
                                         struct ebb_error *err)
{
    return ((const struct kernel_head *)context)->table->run(context, family, desc, args, err);
}

/* ---- what needs no operands ----------------------------------------------------------------------- */

int kernel_threads(const struct kernel_context *context); /* NULL: 1 */
size_t kernel_dtype_bytes(uint8_t dtype);
const char *kernel_family_name(enum kernel_family family); /* "unary" */
size_t kernel_desc_bytes(enum kernel_family family);
/* Whether there is so little to do that the cpu's own kernel may: F32, one group, at most 1.3
 * million multiplications, 64 Ki elements each. It sums in double: results are rounded once, the
 * same on every processor and at any thread count. A matter of the shape alone. */
bool kernel_conv_is_small(const struct kernel_conv *conv);
int kernel_update_states(enum kernel_update f, unsigned flags);
/* Its norms are of the whole tensor: it does not go in ranges. */
bool kernel_update_is_whole(enum kernel_update f);

/* ---- bytes of the host ------------------------------------------------------------------------------
 *
 * For those who keep weights in files; of the context only its threads are used. */
void kernel_master_join(const struct kernel_context *c, int64_t n, const uint16_t *high,
                        const uint16_t *rest, float *w);
void kernel_master_split(const struct kernel_context *c, int64_t n, const float *w, uint16_t *high,
                         uint16_t *rest);

/* ---- plug-ins --------------------------------------------------------------------------------------
 *
 * Tables of devices that are not linked in: a shared object per device, opened when it is asked for.
 * It exports `ebb_plugin`, which answers its two tables, or NULL where it was built for other
 * headers: the number it is asked with is made from those that both sides read (EBB_PLUGIN_ABI). */
struct device_table;

struct kernel_plugin {
    const struct device_table *device;
    const struct kernel_table *kernels;
};

typedef const struct kernel_plugin *kernel_plugin_entry(uint64_t abi);

/* Opens ebb_<name>.so: beside the running program, then in the folders of EBB_PLUGIN_PATH (separated
 * by ':'), then in ../lib/ebb of the program. It stays loaded. EBB_EUNSUPPORTED: says where it was
 * looked for and how to get it. */
enum ebb_status kernel_plugin_load(const char *name, const struct kernel_plugin **plugin,
                                   struct ebb_error *err);

#endif
