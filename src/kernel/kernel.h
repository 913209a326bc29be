/* kernel.h - the arithmetic: pure functions on pointers, sizes and a context.
 *
 * A kernel reads its inputs, writes its outputs, and uses nothing but the workspace it was given:
 * no allocation at run time, no global, no clock. Tensors are contiguous, row-major, channel-first
 * unless a stride is passed. Float means float32; sums are accumulated in double or in short float
 * blocks.
 *
 * Rules (src/kernel/README.md has all):
 *   K1  same input, same context, same instruction set: same bits; at any thread count for the own
 *       kernels (partitions depend on shapes alone), at a fixed thread count for oneDNN's
 *   K2  an output pointer that is NULL is not produced, where the comment says "may be NULL"
 *   K3  *_prepare is called when the op is recorded: it builds and caches oneDNN primitives and
 *       answers the workspace; *_run with an equal description finds them again
 *
 * The context owns the oneDNN engine and the primitive cache. One thread uses a context at a time.
 */
#ifndef EBB_KERNEL_KERNEL_H
#define EBB_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernel/table.h"

enum ebb_status kernel_context_create(struct kernel_context **context, int threads,
                                      struct ebb_error *err);
void kernel_context_destroy(struct kernel_context *context);
int kernel_context_threads(const struct kernel_context *context); /* NULL: 1 */
/* Bits whose meaning the layer above defines (rewrites that are on); 0 at the start. */
unsigned kernel_context_options(const struct kernel_context *context);
void kernel_context_set_options(struct kernel_context *context, unsigned options);
/* Whether products and convolutions can take BF16 on this processor. */
bool kernel_has_bf16(void);
size_t kernel_context_primitives(const struct kernel_context *context); /* cached so far */

/* ---- element-wise (unary.c, binary.c) -------------------------------------------------------- */

bool kernel_unary_saves_y(enum kernel_unary f);
/* y = f(x); a and b are the function's parameters (slope, alpha, bounds, exponent, value). */
void kernel_unary(const struct kernel_context *c, enum kernel_unary f, int64_t n, const float *x,
                  float *y, float a, float b);
/* dx = dy * f'(.), from the saved tensor s (x or y, see the list). */
void kernel_unary_grad(const struct kernel_context *c, enum kernel_unary f, int64_t n,
                       const float *dy, const float *s, float *dx, float a, float b);

void kernel_binary(const struct kernel_context *c, enum kernel_binary f, const struct kernel_nd *nd,
                   float *y, const float *a, const float *b);
/* y = (m != 0) != invert ? x * scale : fill.  Operands: 0 y, 1 x, 2 m. */
void kernel_mask(const struct kernel_context *c, const struct kernel_nd *nd, float *y,
                 const float *x, const uint8_t *m, bool invert, float scale, float fill);
void kernel_truth(const struct kernel_context *c, int64_t n, const void *x, bool is_float,
                  uint8_t *y); /* y = x != 0; x is int64_t or float */
/* y = m ? a : b.  Operands: 0 y, 1 m, 2 a, 3 b. */
void kernel_where(const struct kernel_context *c, const struct kernel_nd *nd, float *y,
                  const uint8_t *m, const float *a, const float *b);
/* Copy elements of 1, 2, 4 or 8 bytes.  Operands: 0 to, 1 from. */
void kernel_copy(const struct kernel_context *c, const struct kernel_nd *nd, size_t element_bytes,
                 void *to, const void *from);
void kernel_fill(const struct kernel_context *c, int64_t n, float *y, float value);

/* ---- reductions (reduce.c) ------------------------------------------------------------------- */

/* x is contiguous with nd->dims; dimensions with is_reduced are folded; y has the kept ones in
 * order. */
void kernel_reduce(const struct kernel_context *c, enum kernel_reduce f, int rank,
                   const int64_t *dims, const bool *is_reduced, const float *x, float *y);
/* Over the middle of [outer, n, inner]. */
void kernel_argmax(const struct kernel_context *c, int64_t outer, int64_t n, int64_t inner,
                   const float *x, int64_t *y);
void kernel_cumsum(const struct kernel_context *c, int64_t outer, int64_t n, int64_t inner,
                   bool reverse, const float *x, float *y);

void kernel_softmax(const struct kernel_context *c, enum kernel_lines f, int64_t outer, int64_t n,
                    int64_t inner, const float *x, float *y);
void kernel_softmax_grad(const struct kernel_context *c, enum kernel_lines f, int64_t outer,
                         int64_t n, int64_t inner, const float *dy, const float *y, float *dx);
void kernel_logsumexp(const struct kernel_context *c, int64_t outer, int64_t n, int64_t inner,
                      const float *x, float *y);

/* ---- products (matmul.c, conv.c: oneDNN) ----------------------------------------------------- */

enum ebb_status kernel_matmul_prepare(struct kernel_context *c, const struct kernel_matmul *m,
                                      size_t *workspace_bytes, struct ebb_error *err);
enum ebb_status kernel_matmul_run(struct kernel_context *c, const struct kernel_matmul *m,
                                  const void *a, const void *b, const void *bias, void *out,
                                  void *workspace, struct ebb_error *err);

/* Whether there is so little to do that our own kernel may: F32, one group, at most 1.3 million
 * multiplications, 64 Ki elements each. It sums in double: results are rounded once, the same on
 * every processor and at any thread count. A matter of the shape alone. */
bool kernel_conv_is_small(const struct kernel_conv *conv);

/* Sets x_block and y_block to what the library likes best for this pass (0 where it likes what a
 * tensor cannot have), and is_winograd when that is allowed and its scratch is no more than the
 * bytes of x, w and y together. c may be NULL: plain, direct; and so it is when
 * is_small is set. */
enum ebb_status kernel_conv_choose(struct kernel_context *c, struct kernel_conv *conv,
                                   enum kernel_conv_pass pass, bool may_winograd,
                                   struct ebb_error *err);
enum ebb_status kernel_conv_prepare(struct kernel_context *c, const struct kernel_conv *conv,
                                    enum kernel_conv_pass pass, size_t *workspace_bytes,
                                    struct ebb_error *err);
/* FORWARD: a = x, b = weights -> y. DATA: a = dy, b = weights -> dx. WEIGHTS: a = x, b = dy -> dw.
 */
enum ebb_status kernel_conv_run(struct kernel_context *c, const struct kernel_conv *conv,
                                enum kernel_conv_pass pass, const void *a, const void *b,
                                const float *bias, void *out, void *workspace,
                                struct ebb_error *err);

size_t kernel_attention_workspace(const struct kernel_context *c, const struct kernel_attention *a);
void kernel_attention(const struct kernel_context *c, const struct kernel_attention *a,
                      const float *q, const float *k, const float *v, const float *mask, float *o,
                      float *lse, void *workspace);
void kernel_attention_grad(const struct kernel_context *c, const struct kernel_attention *a,
                           const float *q, const float *k, const float *v, const float *mask,
                           const float *o, const float *lse, const float *d_o, float *dq, float *dk,
                           float *dv, void *workspace);

/* ---- normalisation (norm.c) ------------------------------------------------------------------ */

/* Mean and biased variance (each may be NULL). */
void kernel_batch_norm_stats(const struct kernel_context *c, const struct kernel_batch_norm *p,
                             const void *x, float *mean, float *var);
/* r: only with has_add. */
void kernel_batch_norm(const struct kernel_context *c, const struct kernel_batch_norm *p,
                       const void *x, const float *w, const float *b, const float *mean,
                       const float *var, const void *r, void *y);
/* Of norm(x), with has_relu of max(0, norm(x)), made again from x; through the statistics as well.
 * dx, dw, db may be NULL. */
void kernel_batch_norm_grad(const struct kernel_context *c, const struct kernel_batch_norm *p,
                            const void *dy, const void *x, const float *w, const float *b,
                            const float *mean, const float *var, void *dx, float *dw, float *db);

/* Rows of n elements; w and b may be NULL, so may y, mean and rstd. Root-mean-square norm takes no
 * mean away. */
void kernel_layer_norm(const struct kernel_context *c, bool is_rms, int64_t rows, int64_t n,
                       float eps, const float *x, const float *w, const float *b, float *y,
                       float *mean, float *rstd);
size_t kernel_layer_norm_grad_workspace(int64_t rows, int64_t n);
void kernel_layer_norm_grad(const struct kernel_context *c, int64_t rows, int64_t n, float eps,
                            const float *dy, const float *x, const float *w, const float *mean,
                            const float *rstd, float *dx, float *dw, float *db, void *workspace);

/* ---- pooling and resampling (pool.c, resample.c) --------------------------------------------- */

void kernel_max_pool(const struct kernel_context *c, const struct kernel_pool *p, const float *x,
                     float *y, uint8_t *winner);
void kernel_max_pool_grad(const struct kernel_context *c, const struct kernel_pool *p,
                          const float *dy, const uint8_t *winner, float *dx);
/* Winners as flat indices into their plane, as torch returns them. */
void kernel_max_pool_index(const struct kernel_context *c, const struct kernel_pool *p,
                           const uint8_t *winner, int64_t *index);
/* Means over windows, or over equal shares of the plane; the gradients take dy and give dx. */
void kernel_mean_pool(const struct kernel_context *c, enum kernel_pooling f,
                      const struct kernel_pool *p, const float *x, float *y);
/* y[plane][index] = x, zero elsewhere; and its gradient. in_size, out_size: elements of one plane.
 */
enum ebb_status kernel_unpool(const struct kernel_context *c, int64_t planes, int64_t in_size,
                              int64_t out_size, const float *x, const int64_t *index, float *y,
                              struct ebb_error *err);
enum ebb_status kernel_unpool_grad(const struct kernel_context *c, int64_t planes, int64_t in_size,
                                   int64_t out_size, const float *dy, const int64_t *index,
                                   float *dx, struct ebb_error *err);

/* is_grad: from dy to dx. */
void kernel_resample(const struct kernel_context *c, const struct kernel_resample *r, bool is_grad,
                     const float *x, float *y);
/* y[o, c, i] = sum over channels c - before .. c + after of x (zero outside). */
void kernel_channel_window(const struct kernel_context *c, int64_t outer, int64_t channels,
                           int64_t inner, int64_t before, int64_t after, const float *x, float *y);

/* ---- indexing (index.c) ---------------------------------------------------------------------- */

/* y[o, j, i] = x[o, index[j], i] for x [outer, n, inner]; an index outside 0..n-1 is an error. */
enum ebb_status kernel_index_select(const struct kernel_context *c, int64_t outer, int64_t n,
                                    int64_t inner, int64_t count, const float *x,
                                    const int64_t *index, float *y, struct ebb_error *err);
/* x[o, index[j], i] += dy[o, j, i], in order of j; rows with index == skip get nothing. */
enum ebb_status kernel_index_add(const struct kernel_context *c, int64_t outer, int64_t n,
                                 int64_t inner, int64_t count, int64_t skip, const float *dy,
                                 const int64_t *index, float *dx, struct ebb_error *err);
/* y[o, j, i] = x[o, index[o, j, i], i]; x has n, y has count in the middle. */
enum ebb_status kernel_gather(const struct kernel_context *c, int64_t outer, int64_t n,
                              int64_t inner, int64_t count, const float *x, const int64_t *index,
                              float *y, struct ebb_error *err);
enum ebb_status kernel_scatter_add(const struct kernel_context *c, int64_t outer, int64_t n,
                                   int64_t inner, int64_t count, const float *dy,
                                   const int64_t *index, float *dx, struct ebb_error *err);

/* ---- losses (loss.c) ------------------------------------------------------------------------- */

/* Element-wise losses; batch is the divisor of batchmean. y has n elements (none) or one. */
void kernel_loss(const struct kernel_context *c, enum kernel_loss f, enum kernel_reduction r,
                 int64_t n, int64_t batch, float beta, const float *x, const float *t, float *y);
void kernel_loss_grad(const struct kernel_context *c, enum kernel_loss f, enum kernel_reduction r,
                      int64_t n, int64_t batch, float beta, const float *dy, const float *x,
                      const float *t, float *dx);

/* weight may be NULL. A target outside 0..classes-1 that is not ignore_index is an error. */
enum ebb_status kernel_cross_entropy(const struct kernel_context *c,
                                     const struct kernel_cross_entropy *e, const float *x,
                                     const int64_t *target, const float *weight, float *y,
                                     struct ebb_error *err);
enum ebb_status kernel_cross_entropy_grad(const struct kernel_context *c,
                                          const struct kernel_cross_entropy *e, const float *dy,
                                          const float *x, const int64_t *target,
                                          const float *weight, float *dx, struct ebb_error *err);

/* The same over a block of rows (e->n of them, inner 1, no weights, no smoothing), for those who
 * make the logits block by block. check: targets of all rows, and the divisor of the reduction.
 * block: sum of the losses of its rows, lse of each. grad: logits become their gradients in place.
 */
enum ebb_status kernel_entropy_check(const struct kernel_cross_entropy *e, const int64_t *target,
                                     double *divisor, struct ebb_error *err);
double kernel_entropy_block(const struct kernel_context *c, const struct kernel_cross_entropy *e,
                            const float *x, const int64_t *target, float *lse);
void kernel_entropy_block_grad(const struct kernel_context *c, const struct kernel_cross_entropy *e,
                               float scale, const int64_t *target, const float *lse, float *x);

/* ---- recurrent gates (rnn.c) ----------------------------------------------------------------- */

/* Gates a + b [rows, 4h] in order i,f,g,o; act (may be NULL) gets the activated gates. */
void kernel_lstm_gates(const struct kernel_context *c, int64_t rows, int64_t h, const float *a,
                       const float *b, const float *c0, float *h1, float *c1, float *act);
/* dh, dc1 may be NULL (zero). */
void kernel_lstm_gates_grad(const struct kernel_context *c, int64_t rows, int64_t h,
                            const float *act, const float *c0, const float *c1, const float *dh,
                            const float *dc1, float *dgates, float *dc0);
/* a = Wx + bi, b = Uh + bh, both [rows, 3h] in order r,z,n; act [rows, 3h]. */
void kernel_gru_gates(const struct kernel_context *c, int64_t rows, int64_t h, const float *a,
                      const float *b, const float *h0, float *h1, float *act);
void kernel_gru_gates_grad(const struct kernel_context *c, int64_t rows, int64_t h,
                           const float *act, const float *b, const float *h0, const float *dh1,
                           float *da, float *db, float *dh0);

/* ---- numbers (convert.c, random.c) ----------------------------------------------------------- */

void kernel_convert(const struct kernel_context *c, int64_t n, enum kernel_dtype from,
                    const void *x, enum kernel_dtype to, void *y);

/* A float32 as a BF16 rounded half up and the 16 bits below: both together are the float32 exactly.
 */
void kernel_master_join(const struct kernel_context *c, int64_t n, const uint16_t *high,
                        const uint16_t *rest, float *w);
void kernel_master_split(const struct kernel_context *c, int64_t n, const float *w, uint16_t *high,
                         uint16_t *rest);

/* Philox coordinates of a tensor: element e is word e % 4 of block first/4 + e/4. */
struct kernel_random {
    uint64_t seed;
    uint32_t instance, step, stream;
};
/* y = uniform >= p ? x / (1 - p) : 0; the same function is its own gradient. */
void kernel_dropout(const struct kernel_context *c, const struct kernel_random *r, int64_t n,
                    float p, const float *x, float *y);

/* ---- optimizer updates (update.c) ------------------------------------------------------------ */

int kernel_update_states(enum kernel_update f, unsigned flags);
/* w and states in place; workspace of n floats only for LAMB. */
void kernel_update_run(const struct kernel_context *c, enum kernel_update f, unsigned flags,
                       int64_t n, const float *scalars, const float *g, float *w,
                       float *const *states, float *workspace);

/* ---- a step of Adam as a function (adam_step.c) ---------------------------------------------- */

/* m' = b1 m + (1-b1) g, v' = b2 v + (1-b2) g^2, p' = p - lr powers[0] m' / (sqrt(powers[1] v') +
 * eps) into to[0] = p', to[1] = m', to[2] = v'; NULL: not wanted. */
void kernel_adam_step(const struct kernel_context *c, const struct kernel_adam_step *a, int64_t n,
                      const float *powers, const float *p, const float *m, const float *v,
                      const float *g, float *const to[3]);
/* From m', v', g and d = gradients of p', m', v' (NULL: zero): of g, m, v. That of p is d[0]. */
void kernel_adam_step_grad(const struct kernel_context *c, const struct kernel_adam_step *a,
                           int64_t n, const float *powers, const float *m, const float *v,
                           const float *g, const float *const d[3], float *const to[3]);

#endif
