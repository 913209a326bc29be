/* family.h - launchers behind the table of kernels: what table.c calls with operands as they come. Private to cuda.
 *
 * Like cuda.h: plain C, 0 or a cudaError_t, nothing allocated, nothing waited for, bits by shape and data alone. Unlike
 * there, operands have any of the types F32, BF16 and F16, any alignment, and whatever the families allow to be missing is
 * NULL. Where a faster kernel of cuda.h fits, the launcher takes that one: decided by description, types and alignment. */
#ifndef EBB_CUDA_FAMILY_H
#define EBB_CUDA_FAMILY_H

#include "cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "kernel/kernel.h"

struct cuda_in {
    const void *p; /* NULL: not given */
    int dtype;     /* enum kernel_dtype */
};

struct cuda_out {
    void *p; /* NULL: not wanted */
    int dtype;
};

struct cuda_fault {
    uint32_t *word; /* the least op + 1 that failed; NULL: nobody asks */
    uint32_t op;
};

static inline size_t cuda_dtype_bytes(int dtype)
{
    return dtype == KERNEL_F32 || dtype == KERNEL_I32                           ? 4
           : dtype == KERNEL_BF16 || dtype == KERNEL_F16 || dtype == KERNEL_I16 ? 2
           : dtype == KERNEL_F64 || dtype == KERNEL_I64                         ? 8
                                                                                : 1;
}

static inline bool cuda_is_number(int dtype)
{
    return dtype == KERNEL_F32 || dtype == KERNEL_BF16 || dtype == KERNEL_F16;
}

static inline bool cuda_is_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* Parts of a workspace begin at multiples of 256 bytes. */
static inline size_t cuda_align(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* ---- each.cu: element by element ------------------------------------------------------------------- */

int cuda_each_unary(int f, int64_t n, float a, float b, struct cuda_in x, struct cuda_out y,
                    cuda_stream stream);
int cuda_each_unary_grad(int f, int64_t n, float a, float b, struct cuda_in dy, struct cuda_in s,
                         struct cuda_out dx, cuda_stream stream);
/* The same of a gelu [n / columns, columns], and the sums of its columns (columns.cu). dx or sums may be missing. */
size_t cuda_unary_grad_workspace(const struct kernel_unary_desc *d);
int cuda_unary_grad_columns(const struct kernel_unary_desc *d, struct cuda_in dy, struct cuda_in s,
                            struct cuda_out dx, float *sums, void *workspace, cuda_stream stream);
/* (dy + more) where y > 0, else 0. */
int cuda_each_gate_sum(int64_t n, struct cuda_in dy, struct cuda_in more, struct cuda_in y,
                       struct cuda_out dx, cuda_stream stream);
int cuda_each_binary(int f, const struct kernel_nd *nd, struct cuda_in a, struct cuda_in b,
                     struct cuda_out y, cuda_stream stream);
int cuda_each_mask(const struct kernel_nd *nd, bool invert, float scale, float fill,
                   struct cuda_in x, const uint8_t *m, struct cuda_out y, cuda_stream stream);
int cuda_each_where(const struct kernel_nd *nd, const uint8_t *m, struct cuda_in a,
                    struct cuda_in b, struct cuda_out y, cuda_stream stream);
int cuda_each_truth(int64_t n, const void *x, int dtype, uint8_t *y, cuda_stream stream);
int cuda_each_copy(const struct kernel_nd *nd, size_t element_bytes, const void *from, void *to,
                   cuda_stream stream);
int cuda_each_fill(int64_t n, float value, struct cuda_out y, cuda_stream stream);
int cuda_each_convert(int64_t n, struct cuda_in x, struct cuda_out y, cuda_stream stream);

/* ---- fold.cu: reductions and lines ------------------------------------------------------------------- */

size_t cuda_fold_workspace(const struct kernel_reduce_desc *d);
int cuda_fold(const struct kernel_reduce_desc *d, struct cuda_in x, struct cuda_out y,
              void *workspace, cuda_stream stream);
/* saved: y of the gradients, whose x is dy. */
int cuda_lines(const struct kernel_lines_desc *d, struct cuda_in x, struct cuda_in saved,
               struct cuda_out y, cuda_stream stream);

/* ---- loss.cu ------------------------------------------------------------------------------------------- */

size_t cuda_loss_workspace(const struct kernel_loss_desc *d);
int cuda_loss(const struct kernel_loss_desc *d, struct cuda_in x, struct cuda_in t,
              struct cuda_out y, void *workspace, cuda_stream stream);
int cuda_loss_grad(const struct kernel_loss_desc *d, struct cuda_in dy, struct cuda_in x,
                   struct cuda_in t, struct cuda_out dx, cuda_stream stream);

size_t cuda_cross_entropy_workspace(const struct kernel_cross_entropy *d);
int cuda_cross_entropy(const struct kernel_cross_entropy *d, struct cuda_in x,
                       const int64_t *target, struct cuda_in weight, struct cuda_out y,
                       void *workspace, struct cuda_fault fault, cuda_stream stream);
int cuda_cross_entropy_grad(const struct kernel_cross_entropy *d, struct cuda_in dy,
                            struct cuda_in x, const int64_t *target, struct cuda_in weight,
                            struct cuda_out dx, void *workspace, struct cuda_fault fault,
                            cuda_stream stream);

/* ---- head.cu: cross entropy of blocks of logits ----------------------------------------------------------- */

struct cuda_head { /* logits [rows, ld], BF16 or F32 */
    int64_t rows, classes, ld, ignore_index;
    int dtype;
    bool is_mean;
};
/* numbers[0] = divisor of the reduction over all `count` targets, numbers[1] = dy / divisor (dy NULL: 1). */
int cuda_head_begin(const struct cuda_head *d, int64_t count, const int64_t *target,
                    const float *dy, double *numbers, struct cuda_fault fault, cuda_stream stream);
/* loss and lse of each row; loss is 0 where ignored. */
int cuda_head_rows(const struct cuda_head *d, const void *logits, const int64_t *target,
                   float *loss, float *lse, cuda_stream stream);
/* *y = sum of loss / numbers[0] */
int cuda_head_end(int64_t count, const float *loss, const double *numbers, float *y,
                  cuda_stream stream);
/* Logits become numbers[1] (softmax - one-hot) in place, rows that are ignored 0, and so do columns past `classes`. */
int cuda_head_slope(const struct cuda_head *d, void *logits, const int64_t *target,
                    const float *lse, const double *numbers, cuda_stream stream);

/* ---- cell.cu: gates, dropout, a step of Adam as a value ----------------------------------------------------- */

int cuda_lstm(const struct kernel_gates_desc *d, struct cuda_in a, struct cuda_in b,
              struct cuda_in c0, struct cuda_out h1, struct cuda_out c1, struct cuda_out act,
              cuda_stream stream);
int cuda_lstm_grad(const struct kernel_gates_desc *d, const struct cuda_in in[5],
                   struct cuda_out dgates, struct cuda_out dc0, cuda_stream stream);
int cuda_gru(const struct kernel_gates_desc *d, struct cuda_in a, struct cuda_in b,
             struct cuda_in h0, struct cuda_out h1, struct cuda_out act, cuda_stream stream);
int cuda_gru_grad(const struct kernel_gates_desc *d, const struct cuda_in in[4],
                  const struct cuda_out out[3], cuda_stream stream);
int cuda_dropout(const struct kernel_dropout_desc *d, struct cuda_in x, const int64_t *step,
                 struct cuda_out y, cuda_stream stream);
int cuda_master_join(int64_t n, const uint16_t *high, const uint16_t *rest, float *w,
                     cuda_stream stream);
int cuda_adam_step(const struct kernel_adam_step_desc *d, const struct cuda_in in[5],
                   const struct cuda_out out[3], cuda_stream stream);
/* in: m', v', g, powers, then gradients of p', m', v' in fixed places (NULL: zero). */
int cuda_adam_step_grad(const struct kernel_adam_step_desc *d, const struct cuda_in in[7],
                        const struct cuda_out out[3], cuda_stream stream);
int cuda_batch_norm_update(const struct kernel_batch_norm_update_desc *d, float *mean, float *var,
                           const float *new_mean, const float *new_var, int64_t *batches,
                           cuda_stream stream);

/* ---- update.cu ----------------------------------------------------------------------------------------------- */

size_t cuda_update_workspace(const struct kernel_update_desc *d, bool is_split);
/* w F32, or NULL and the halves of split weights. The bits of kernel/update.c. */
int cuda_update(const struct kernel_update_desc *d, const float *scalars, struct cuda_in g,
                float *w, uint16_t *high, uint16_t *rest, float *const states[3], void *workspace,
                cuda_stream stream);

/* ---- embed.cu: rows by index ----------------------------------------------------------------------------------- */

size_t cuda_index_workspace(const struct kernel_index_desc *d);
int cuda_index(const struct kernel_index_desc *d, struct cuda_in x, const int64_t *index,
               struct cuda_out y, void *workspace, struct cuda_fault fault, cuda_stream stream);

/* ---- plain_norm.cu: norms of any layout and type ------------------------------------------------------------------ */

size_t cuda_any_layer_norm_grad_workspace(const struct kernel_layer_norm_desc *d);
int cuda_any_layer_norm(const struct kernel_layer_norm_desc *d, struct cuda_in x, const float *w,
                        const float *b, struct cuda_out y, float *mean, float *rstd,
                        cuda_stream stream);
int cuda_any_layer_norm_grad(const struct kernel_layer_norm_desc *d, struct cuda_in dy,
                             struct cuda_in x, const float *w, const float *mean, const float *rstd,
                             struct cuda_in more, struct cuda_out dx, float *dw, float *db,
                             void *workspace, cuda_stream stream);
size_t cuda_any_batch_norm_workspace(const struct kernel_batch_norm *d);
int cuda_any_batch_norm_stats(const struct kernel_batch_norm *d, struct cuda_in x, float *mean,
                              float *var, void *workspace, cuda_stream stream);
int cuda_any_batch_norm(const struct kernel_batch_norm *d, struct cuda_in x, const float *w,
                        const float *b, const float *mean, const float *var, struct cuda_in r,
                        struct cuda_out y, cuda_stream stream);
int cuda_any_batch_norm_grad(const struct kernel_batch_norm *d, struct cuda_in dy, struct cuda_in x,
                             const float *w, const float *b, const float *mean, const float *var,
                             struct cuda_out dx, float *dw, float *db, void *workspace,
                             cuda_stream stream);

/* ---- attend.cu: `rows` heads from `first` on, scores [rows, tq, tk] ------------------------------------------- */

/* to (may lie over the scores) = probabilities; lse may be NULL. */
int cuda_attend_softmax(const struct kernel_attention *a, int64_t first, int64_t rows,
                        const float *scores, struct cuda_in mask, struct cuda_out to, float *lse,
                        cuda_stream stream);
/* to, ds (each may lie over its source): probabilities, and gradients of the scores from `slopes`, those of them. */
int cuda_attend_slopes(const struct kernel_attention *a, int64_t first, int64_t rows,
                       const float *scores, const float *slopes, struct cuda_in mask,
                       const float *lse, struct cuda_out to, struct cuda_out ds,
                       cuda_stream stream);

/* ---- window.cu: pooling, resampling, windows over channels -------------------------------------------------------- */

/* index: winners that the gradient and the index take; winner: those that a maximum gives (may be NULL). */
int cuda_window_pool(const struct kernel_pool_desc *d, struct cuda_in x, const uint8_t *index,
                     struct cuda_out y, uint8_t *winner, cuda_stream stream);
int cuda_window_unpool(const struct kernel_unpool_desc *d, struct cuda_in x, const int64_t *index,
                       struct cuda_out y, struct cuda_fault fault, cuda_stream stream);
int cuda_window_resample(const struct kernel_resample_desc *d, struct cuda_in x, struct cuda_out y,
                         cuda_stream stream);
int cuda_window_channels(const struct kernel_channel_window_desc *d, struct cuda_in x,
                         struct cuda_out y, cuda_stream stream);

/* ---- image.cu: images of few channels for a convolution, 16-bit numbers ------------------------------------------ */

struct cuda_image {
    int ci, f, wide;   /* channels; f x f pixels become one of `wide` channels */
    int64_t n, co;     /* images, filters */
    int64_t in[2];     /* rows and columns of x [n, ci, in[0], in[1]] */
    int64_t out[2];    /* of the folded image [n, out[0], out[1], wide] */
    int64_t before[2]; /* its border above and on the left */
    int64_t k[2];      /* of filters [co, ci, k[0], k[1]] */
    int64_t folded[2]; /* of folded ones [co, folded[0], folded[1], wide] */
    int64_t shift[2];  /* zeros before their first row and column */
};
int cuda_image_fold(const struct cuda_image *d, const void *x, void *to, cuda_stream stream);
int cuda_image_filter(const struct cuda_image *d, const void *w, void *to, cuda_stream stream);
/* From the folded gradient to dw, F32 or 16 bits. */
int cuda_image_filter_back(const struct cuda_image *d, const void *from, struct cuda_out dw,
                           cuda_stream stream);

/* ---- plain_conv.cu: any convolution, one thread per result ------------------------------------------------------- */

int cuda_plain_conv(const struct kernel_conv_desc *d, struct cuda_in a, struct cuda_in b,
                    const float *bias, struct cuda_out to, cuda_stream stream);

/* ---- noise.cu: for measurements -------------------------------------------------------------------- */

/* Words of 32 bits that are numbers near 1 in any type, a function of the seed. */
int cuda_noise(int64_t words, uint64_t seed, void *to, cuda_stream stream);
/* Nothing, for some tens of microseconds: what is enqueued meanwhile then follows without gaps. */
int cuda_hold(cuda_stream stream);
/* *sum, on the device: equal for equal words. */
int cuda_fingerprint(int64_t words, const void *x, uint64_t *sum, cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
