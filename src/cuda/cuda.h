/* cuda.h - kernels of the CUDA plug-in, as plain C functions that launch on a stream.
 *
 * Every function returns 0 or a cudaError_t; nothing here allocates, synchronizes or keeps state. Pointers are device
 * pointers and borrowed; data of activations and 16-bit weights is aligned to 16 bytes. A launch's bits depend on shapes
 * and data alone: no floating-point atomics, tiles by shape, partial sums added in tile order (rule 1). Workspaces are
 * functions of the shape (rule 2). Comments state the bytes moved, for benchmarks. */
#ifndef EBB_CUDA_CUDA_H
#define EBB_CUDA_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *cuda_stream;

enum cuda_dtype { CUDA_F32, CUDA_BF16 };

/* ---- norm.cu ---------------------------------------------------------------------------------- */

struct cuda_norm {
    int64_t rows, n; /* n a multiple of 8; gradient: at most 8,192 */
    float eps;
    enum cuda_dtype dtype; /* of x, y and their gradients; weights and statistics are F32 */
};
/* sum = x + residual (sum may be NULL where residual is), y = norm(sum) * w + b. Reads x, residual; writes sum, y. Each of
 * y, mean and rstd may be NULL: the others have the same bits. */
int cuda_layer_norm(const struct cuda_norm *d, const void *x, const void *residual, const float *w,
                    const float *b, void *sum, void *y, float *mean, float *rstd,
                    cuda_stream stream);
size_t cuda_layer_norm_grad_workspace(const struct cuda_norm *d);
/* dx = gradient + residual (may be NULL); dw, db are written. Reads dy, x, residual; writes dx (NULL: not wanted). */
int cuda_layer_norm_grad(const struct cuda_norm *d, const void *dy, const void *x,
                         const void *residual, const float *w, const float *mean, const float *rstd,
                         void *dx, float *dw, float *db, void *workspace, cuda_stream stream);

/* ---- batch_norm.cu: channels-last, so a tensor is [rows, channels] ------------------------------ */

struct cuda_batch_norm {
    int64_t rows, channels; /* channels a multiple of 8 */
    float eps;
    bool is_relu;
    enum cuda_dtype dtype; /* of x, y, residual and their gradients; the rest is F32 */
};
size_t cuda_batch_norm_workspace(const struct cuda_batch_norm *d);
/* mean and biased variance of every channel. Reads x. */
int cuda_batch_norm_stats(const struct cuda_batch_norm *d, const void *x, float *mean, float *var,
                          void *workspace, cuda_stream stream);
/* y = (x - mean) / sqrt(var + eps) * w + b (+ residual, may be NULL), relu where asked. Reads x, residual; writes y. */
int cuda_batch_norm_apply(const struct cuda_batch_norm *d, const void *x, const void *residual,
                          const float *mean, const float *var, const float *w, const float *b,
                          void *y, cuda_stream stream);
/* dx (NULL: not wanted), dw, db and, where dresidual is not NULL, the gradient behind the relu. y is needed with relu and a residual (else
 * NULL: the gate is made again from x). Reads dy, x (and y) twice; writes dx (and dresidual). */
int cuda_batch_norm_grad(const struct cuda_batch_norm *d, const void *dy, const void *x,
                         const void *y, const float *mean, const float *var, const float *w,
                         const float *b, void *dx, void *dresidual, float *dw, float *db,
                         void *workspace, cuda_stream stream);

/* ---- pool.cu: channels-last, two spatial dimensions ----------------------------------------------- */

struct cuda_pool {
    int32_t batch, height, width, channels; /* of x; channels a multiple of 8 */
    int32_t out_height, out_width, size, stride, padding;
    enum cuda_dtype dtype;
};
/* index [as y] bytes: the place in its window that won, the first of equals. Reads x (overlaps from the cache); writes y. */
int cuda_max_pool(const struct cuda_pool *d, const void *x, void *y, uint8_t *index,
                  cuda_stream stream);
int cuda_max_pool_grad(const struct cuda_pool *d, const void *dy, const uint8_t *index, void *dx,
                       cuda_stream stream);
/* y [batch, channels] = mean over all places, in a fixed order; and back. */
int cuda_mean_pool(const struct cuda_pool *d, const void *x, void *y, cuda_stream stream);
int cuda_mean_pool_grad(const struct cuda_pool *d, const void *dy, void *dx, cuda_stream stream);

/* ---- pointwise.cu ------------------------------------------------------------------------------- */

enum cuda_unary { CUDA_COPY, CUDA_RELU, CUDA_GELU, CUDA_GELU_TANH };
/* Dense, n elements. Reads x; writes y. */
int cuda_unary(enum cuda_unary f, int64_t n, enum cuda_dtype from, const void *x,
               enum cuda_dtype to, void *y, cuda_stream stream);
/* dx = f'(x) dy */
int cuda_unary_grad(enum cuda_unary f, int64_t n, enum cuda_dtype dtype, const void *dy,
                    const void *x, void *dx, cuda_stream stream);
/* y = x + z */
int cuda_add(int64_t n, enum cuda_dtype dtype, const void *x, const void *z, void *y,
             cuda_stream stream);

/* ---- columns.cu: sums over rows, alone or with an element-wise gradient ------------------------- */

size_t cuda_columns_workspace(int64_t rows, int64_t n);
/* sums[n] = sum over rows of x [rows, n]; n a multiple of 8. Reads x. */
int cuda_column_sums(int64_t rows, int64_t n, enum cuda_dtype dtype, const void *x, float *sums,
                     void *workspace, cuda_stream stream);
/* dx = f'(x) dy and the column sums of dx as stored: the bits of cuda_unary_grad and cuda_column_sums. dx may be NULL. */
int cuda_unary_grad_sums(enum cuda_unary f, int64_t rows, int64_t n, enum cuda_dtype dtype,
                         const void *dy, const void *x, void *dx, float *sums, void *workspace,
                         cuda_stream stream);

/* ---- entropy.cu ----------------------------------------------------------------------------------- */

struct cuda_entropy {
    int64_t rows, classes,
        stride; /* stride: elements from row to row, a multiple of 8, >= classes */
    int64_t ignore_index;
    float scale; /* of the gradient, above 0: 1 / divisor of the mean */
    enum cuda_dtype dtype;
    const double *scale_at; /* NULL, or where the scale lies in device memory */
};
/* Logits become scale * (softmax - one-hot) in place, columns past `classes` become 0; loss[row] is the cross entropy
 * (0 where ignored). A target that is not allowed lowers *error to its row + 1 (NULL: not reported) and counts as
 * ignored. Reads and writes rows * classes once where a row fits in shared memory. */
int cuda_entropy_grad(const struct cuda_entropy *d, void *logits, const int64_t *targets,
                      float *loss, uint32_t *error, cuda_stream stream);
/* *sum (F64) = sum of n floats in a fixed order. */
int cuda_sum(int64_t n, const float *x, double *sum, cuda_stream stream);

/* ---- embed.cu --------------------------------------------------------------------------------------- */

struct cuda_embed {
    int64_t count, rows, n; /* tokens, rows of the table, width (a multiple of 8) */
    int64_t positions;      /* period of the position table, where there is one */
    enum cuda_dtype dtype;  /* of the table and of y and dy; the gradient of the table is F32 */
    bool has_skip;          /* gradient: the index `skip` gets nothing */
    int64_t skip;
};
/* y[i] = table[index[i]] (+ position[i % positions], may be NULL). Wrong indices as in cuda_entropy_grad. */
int cuda_embed(const struct cuda_embed *d, const int64_t *index, const void *table,
               const void *position, void *y, uint32_t *error, cuda_stream stream);
size_t cuda_embed_grad_workspace(const struct cuda_embed *d);
/* dtable[index[i]] += dy[i], in order of i within chunks of the stably sorted indices. Wrong indices get nothing. */
int cuda_embed_grad(const struct cuda_embed *d, const int64_t *index, const void *dy, float *dtable,
                    void *workspace, cuda_stream stream);
/* dposition[p] = sum over i with i % positions == p of dy[i], in order of i. */
int cuda_embed_position_grad(const struct cuda_embed *d, const void *dy, float *dposition,
                             cuda_stream stream);

/* ---- update.cu: the bits of kernel/update.c between kernel_master_join and kernel_master_split ------ */

/* Adam and AdamW; scalars as in kernel/update.c, in device memory. 28 bytes per parameter with an F32 gradient. */
int cuda_adam_split(int64_t n, enum cuda_dtype gradient, const float *scalars, const void *g,
                    uint16_t *high, uint16_t *rest, float *m, float *v, cuda_stream stream);

/* The same for several tensors in few launches: small ones share them. The bits are those of one call each. */
struct cuda_update {
    int64_t n;
    const void *g;
    uint16_t *high, *rest;
    float *m, *v;
};
int cuda_adam_split_many(int count, const struct cuda_update *tensors, enum cuda_dtype gradient,
                         const float *scalars, cuda_stream stream);

/* ---- attention.cu --------------------------------------------------------------------------------------- */

/* bf16, 64 channels per head. Strides in elements; q, k, v (and their gradients) share one set, so views of a packed
 * projection [batch, token, 3, head, channel] need no copy. */
struct cuda_attention {
    int32_t batch, heads, tokens;
    bool is_causal;
    float scale;
    int64_t token_stride, head_stride, batch_stride;             /* of q, k, v, dq, dk, dv */
    int64_t out_token_stride, out_head_stride, out_batch_stride; /* of o and its gradient */
};
/* stats [batch, heads, tokens] F32: logarithm of the sum of exponentials of the scaled products. o or stats may be
 * NULL. */
int cuda_attention(const struct cuda_attention *d, const void *q, const void *k, const void *v,
                   void *o, float *stats, cuda_stream stream);
size_t cuda_attention_grad_workspace(const struct cuda_attention *d);
/* Each of dq, dk, dv may be NULL: the others have the same bits. */
int cuda_attention_grad(const struct cuda_attention *d, const void *q, const void *k, const void *v,
                        const void *o, const void *go, const float *stats, void *dq, void *dk,
                        void *dv, void *workspace, cuda_stream stream);

/* ---- move.cu ---------------------------------------------------------------------------------------- */

#define CUDA_MOVE_MOST ((size_t)128 << 10)
/* At most so many bytes, at addresses of 16 bytes' alignment; ranges may overlap. Bytes: each twice. */
int cuda_move(const void *from, void *to, size_t bytes, cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
