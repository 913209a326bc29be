/* product_inner.h - private to product.c and tune.c: answers of cuBLASLt. */
#ifndef EBB_CUDA_PRODUCT_INNER_H
#define EBB_CUDA_PRODUCT_INNER_H

#include <cublasLt.h>

#include "base/map.h"
#include "cuda/product.h"
#include "profile/profile.h"

#define CUDA_PRODUCT_ROWS "cublaslt" /* family of rows of a profile */
#define CUDA_PRODUCT_ANSWERS 8
#define CUDA_PRODUCT_KEY 256
#define CUDA_PRODUCT_WORDS 8 /* of 64 bits: an algorithm */
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == CUDA_PRODUCT_WORDS * sizeof(uint64_t),
               "an algorithm is eight words");

/* The calls that are used, by their types in the header. */
#define CUDA_PRODUCT_CALLS(X)                                                                      \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(GetVersion)                                                                                  \
    X(Matmul)                                                                                      \
    X(MatmulDescCreate)                                                                            \
    X(MatmulDescSetAttribute)                                                                      \
    X(MatmulDescDestroy)                                                                           \
    X(MatrixLayoutCreate)                                                                          \
    X(MatrixLayoutSetAttribute)                                                                    \
    X(MatrixLayoutDestroy)                                                                         \
    X(MatmulPreferenceCreate)                                                                      \
    X(MatmulPreferenceSetAttribute)                                                                \
    X(MatmulPreferenceDestroy)                                                                     \
    X(MatmulAlgoGetHeuristic)                                                                      \
    X(MatmulAlgoCheck)

struct cuda_answer {
    struct cuda_product p;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c; /* as the library sees them: columns one after the other */
    cublasLtMatmulAlgo_t algorithm;
};

struct cuda_products {
#define X(name) __typeof__(&cublasLt##name) name;
    CUDA_PRODUCT_CALLS(X)
#undef X
    cublasLtHandle_t handle; /* NULL: no device */
    const struct profile *profile;
    cuda_stream stream;
    struct cuda_answer **answers; /* owned */
    size_t count, capacity;
    struct ebb_strmap places; /* bytes of a description -> place in answers */
};

/* What the library offers under our preferences, best guess first. */
enum ebb_status cuda_product_candidates(struct cuda_products *s, struct cuda_answer *a,
                                        cublasLtMatmulAlgo_t found[CUDA_PRODUCT_ANSWERS],
                                        int *count, struct ebb_error *err);
void cuda_product_key(const struct cuda_product *p, char key[CUDA_PRODUCT_KEY]);
/* "VERSION:word:word...", words of zero at the end left out. */
void cuda_product_spell(uint64_t version, const cublasLtMatmulAlgo_t *algorithm,
                        char text[CUDA_PRODUCT_KEY]);

#endif
