/* product.h - matrix products by cuBLASLt, and what is put together from them. Private to cuda.
 *
 * The algorithm of a product is a function of its description, of the library's version and of the profile: what a row of
 * family `cublaslt` says, where it was measured with this version; else the first answer of the library's heuristic under
 * fixed preferences that adds up in the type of the computation or not at all. Never a timing. Answers are kept. */
#ifndef EBB_CUDA_PRODUCT_H
#define EBB_CUDA_PRODUCT_H

#include "base/status.h"
#include "cuda/family.h"

struct cuda_products; /* handle, answers */
struct profile;

/* C [m, n] = alpha A B (+ C, or another one that lies like it) (+ bias) (relu): rows one after the other, `ld` elements from row to row; A is stored as
 * [k, m] where turned, B as [n, k]. Without padding: the bytes are the key of the answer. */
struct cuda_product {
    int64_t m, n, k, batch;
    int64_t a_ld, b_ld, c_ld, a_step, b_step, c_step; /* step: from matrix to matrix of a batch */
    int32_t is_a_turned, is_b_turned;
    int32_t dtype, out_dtype; /* enum kernel_dtype */
    int32_t has_bias;         /* of the type of the result */
    int32_t has_relu;
    int32_t adds;      /* enum kernel_adds */
    int32_t alignment; /* bytes that divide every address: 16, or an element's */
    float alpha;
    int32_t zero;
};

/* Loads the library; stream is where everything goes. Without a device nothing is loaded. */
enum ebb_status cuda_products_open(struct cuda_products **products, bool has_device,
                                   cuda_stream stream, const struct profile *profile,
                                   struct ebb_error *err);
void cuda_products_close(struct cuda_products *products);

size_t cuda_product_workspace(const struct cuda_product *p); /* by shape */
/* Finds the answer; *hash (may be NULL) is that of its algorithm; without a device of the row's, 0 where there is none. */
enum ebb_status cuda_product_need(struct cuda_products *products, const struct cuda_product *p,
                                  uint64_t *hash, struct ebb_error *err);
uint64_t
cuda_products_version(const struct cuda_products *products); /* of the library; 0: no device */
/* kernel_table.algorithms (tune.c). */
enum ebb_status cuda_products_rows(struct cuda_products *products, bool measures,
                                   kernel_row_sink *add, void *to, struct ebb_error *err);
/* other: KERNEL_ADDS_OTHER. */
enum ebb_status cuda_product_run(struct cuda_products *products, const struct cuda_product *p,
                                 const void *a, const void *b, const void *bias, const void *other,
                                 void *c, void *workspace, struct ebb_error *err);

/* ---- families that are products (matmul.c, attend.c, head.c) ------------------------------------------- */

size_t cuda_matmul_workspace(const struct kernel_matmul *m);
enum ebb_status cuda_matmul_need(struct cuda_products *products, const struct kernel_matmul *m,
                                 uint64_t *algorithm, struct ebb_error *err);
enum ebb_status cuda_matmul_run(struct cuda_products *products, const struct kernel_matmul *m,
                                const struct kernel_args *args, cuda_stream stream,
                                struct ebb_error *err);

size_t cuda_attend_workspace(const struct kernel_attention *a, int dtype, bool is_grad);
enum ebb_status cuda_attend_need(struct cuda_products *products, const struct kernel_attention *a,
                                 int dtype, bool is_grad, uint64_t *algorithm,
                                 struct ebb_error *err);
enum ebb_status cuda_attend_run(struct cuda_products *products, const struct kernel_attention *a,
                                const struct kernel_args *args, cuda_stream stream,
                                struct ebb_error *err);
enum ebb_status cuda_attend_grad_run(struct cuda_products *products,
                                     const struct kernel_attention *a,
                                     const struct kernel_args *args, cuda_stream stream,
                                     struct ebb_error *err);

size_t cuda_product_entropy_workspace(const struct kernel_product_entropy_desc *d, int dtype);
enum ebb_status cuda_product_entropy_need(struct cuda_products *products,
                                          const struct kernel_product_entropy_desc *d, int dtype,
                                          bool is_grad, uint64_t *algorithm, struct ebb_error *err);
enum ebb_status cuda_product_entropy_run(struct cuda_products *products,
                                         const struct kernel_product_entropy_desc *d,
                                         const struct kernel_args *args, struct cuda_fault fault,
                                         cuda_stream stream, struct ebb_error *err);
enum ebb_status cuda_product_entropy_grad_run(struct cuda_products *products,
                                              const struct kernel_product_entropy_desc *d,
                                              const struct kernel_args *args,
                                              struct cuda_fault fault, cuda_stream stream,
                                              struct ebb_error *err);
enum ebb_status cuda_product_entropy_step_run(struct cuda_products *products,
                                              const struct kernel_product_entropy_desc *d,
                                              const struct kernel_args *args,
                                              struct cuda_fault fault, cuda_stream stream,
                                              struct ebb_error *err);

#endif
