/* tune.c - which of the library's algorithms a product should take: timed once, kept as rows of a profile.
 *
 * Operands are noise in memory of their own, in as many places as the second-level cache needs to be passed by. A candidate
 * counts only when it gives equal bits every time, at two places, with a copy running beside; of those the fastest, when it is clearly
 * faster than the library's first answer. */
#include "cuda/product_inner.h"

#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "base/heap.h"

#define REPEATS 20
#define ROUNDS 5
#define RUNS 8    /* of a round */
#define GAIN 0.98 /* of the first answer's time */
#define MOST_PLACES 8
#define CACHE ((size_t)256 << 20) /* bytes that pass the cache */
#define BESIDE ((size_t)64 << 20) /* copied meanwhile */

struct bench {
    struct cuda_products *s;
    cudaStream_t stream, beside;
    cudaEvent_t begin, end;
    unsigned char *pool, *workspace, *copied;
    uint64_t *sum; /* on the device */
};

struct layout { /* of one place */
    size_t a, b, c, bias, other, bytes;
};

static size_t extent(int64_t rows, int64_t ld, int64_t batch, int64_t step, int dtype)
{
    return cuda_align((size_t)((batch - 1) * step + rows * ld) * cuda_dtype_bytes(dtype));
}

static struct layout layout_of(const struct cuda_product *p)
{
    struct layout l = {0};
    l.b = extent(p->is_a_turned ? p->k : p->m, p->a_ld, p->batch, p->a_step, p->dtype);
    l.c = l.b + extent(p->is_b_turned ? p->n : p->k, p->b_ld, p->batch, p->b_step, p->dtype);
    l.bias = l.c + extent(p->m, p->c_ld, p->batch, p->c_step, p->out_dtype);
    l.other = l.bias + cuda_align((size_t)p->n * sizeof(float));
    l.bytes = l.other + (p->adds == KERNEL_ADDS_OTHER ? l.bias - l.c : 0);
    return l;
}

static int places_of(const struct layout *l)
{
    size_t count = CACHE / l->bytes + 1;
    return count < 2 ? 2 : count > MOST_PLACES ? MOST_PLACES : (int)count;
}

static enum ebb_status check(cudaError_t code, struct ebb_error *err)
{
    return code == cudaSuccess ? EBB_OK
                               : ebb_fail(err, EBB_EDEVICE, "cuda: measuring products: %s",
                                          cudaGetErrorString(code));
}

static void close_bench(struct bench *b)
{
    (void)cudaFree(b->pool);
    if (b->begin)
        (void)cudaEventDestroy(b->begin);
    if (b->end)
        (void)cudaEventDestroy(b->end);
    if (b->beside)
        (void)cudaStreamDestroy(b->beside);
}

static enum ebb_status open_bench(struct bench *b, struct ebb_error *err)
{
    size_t most = 0, room = 0;
    for (size_t i = 0; i < b->s->count; i++) {
        struct layout l = layout_of(&b->s->answers[i]->p);
        size_t bytes = (size_t)places_of(&l) * l.bytes;
        size_t workspace = cuda_product_workspace(&b->s->answers[i]->p);
        most = bytes > most ? bytes : most;
        room = workspace > room ? workspace : room;
    }
    b->stream = b->s->stream;
    EBB_TRY(check(cudaMalloc((void **)&b->pool, most + room + 2 * BESIDE + 256), err));
    b->workspace = b->pool + most;
    b->copied = b->workspace + room;
    b->sum = (uint64_t *)(void *)(b->copied + 2 * BESIDE);
    EBB_TRY(check(cudaEventCreate(&b->begin), err));
    EBB_TRY(check(cudaEventCreate(&b->end), err));
    return check(cudaStreamCreateWithFlags(&b->beside, cudaStreamNonBlocking), err);
}

/* The same numbers in every place. */
static enum ebb_status fill(struct bench *b, const struct layout *l, int place, bool all,
                            struct ebb_error *err)
{
    unsigned char *at = b->pool + (size_t)place * l->bytes;
    size_t from = all ? 0 : l->c, to = all ? l->bytes : l->bias; /* else the result alone */
    return check((cudaError_t)cuda_noise((int64_t)((to - from) / 4), from, at + from, b->stream),
                 err);
}

static enum ebb_status run(struct bench *b, const struct cuda_answer *a, const struct layout *l,
                           int place, struct ebb_error *err)
{
    unsigned char *at = b->pool + (size_t)place * l->bytes;
    return cuda_product_run(b->s, &a->p, at + l->a, at + l->b, at + l->bias, at + l->other,
                            at + l->c, b->workspace, err);
}

/* Equal bits every time. */
static enum ebb_status is_repeatable(struct bench *b, const struct cuda_answer *a,
                                     const struct layout *l, bool *is, struct ebb_error *err)
{
    uint64_t first = 0, sum;
    *is = true;
    for (int i = 0; i < REPEATS && *is; i++) {
        int place = i % 2;
        EBB_TRY(fill(b, l, place, false, err));
        EBB_TRY(check(cudaMemcpyAsync(b->copied, b->copied + BESIDE, BESIDE,
                                      cudaMemcpyDeviceToDevice, b->beside),
                      err));
        EBB_TRY(run(b, a, l, place, err));
        const unsigned char *c = b->pool + (size_t)place * l->bytes + l->c;
        EBB_TRY(check(
            (cudaError_t)cuda_fingerprint((int64_t)((l->bias - l->c) / 4), c, b->sum, b->stream),
            err));
        EBB_TRY(check(cudaMemcpyAsync(&sum, b->sum, sizeof sum, cudaMemcpyDeviceToHost, b->stream),
                      err));
        EBB_TRY(check(cudaStreamSynchronize(b->stream), err));
        first = i ? first : sum;
        *is = sum == first;
    }
    return EBB_OK;
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

struct taken {
    double ns, spread;
};

static enum ebb_status time_it(struct bench *b, const struct cuda_answer *a, const struct layout *l,
                               struct taken *taken, struct ebb_error *err)
{
    float ms[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        EBB_TRY(check(cudaEventRecord(b->begin, b->stream), err));
        for (int i = 0; i < RUNS; i++)
            EBB_TRY(run(b, a, l, i % places_of(l), err));
        EBB_TRY(check(cudaEventRecord(b->end, b->stream), err));
        EBB_TRY(check(cudaEventSynchronize(b->end), err));
        EBB_TRY(check(cudaEventElapsedTime(&ms[r], b->begin, b->end), err));
    }
    qsort(ms, ROUNDS, sizeof *ms, compare);
    double median = (double)ms[ROUNDS / 2];
    taken->ns = median / RUNS * 1e6;
    taken->spread = (double)(ms[3 * ROUNDS / 4] - ms[ROUNDS / 4]) / median;
    return EBB_OK;
}

/* Leaves the algorithm of the answer as it was. */
static enum ebb_status measure(struct bench *b, struct cuda_answer *a, cublasLtMatmulAlgo_t *best,
                               struct taken *least, struct ebb_error *err)
{
    cublasLtMatmulAlgo_t found[CUDA_PRODUCT_ANSWERS], kept = a->algorithm;
    struct layout l = layout_of(&a->p);
    int count;
    enum ebb_status status = cuda_product_candidates(b->s, a, found, &count, err);
    for (int k = 0; k < places_of(&l); k++)
        EBB_THEN(status, fill(b, &l, k, true, err));
    *best = found[0];
    least->ns = 0;
    for (int i = 0; i < count && status == EBB_OK; i++) {
        struct taken t = {0};
        bool is = false;
        a->algorithm = found[i];
        status = is_repeatable(b, a, &l, &is, err);
        if (is)
            EBB_THEN(status, time_it(b, a, &l, &t, err));
        if (is && (least->ns == 0 || t.ns < GAIN * least->ns)) {
            *least = t;
            *best = found[i];
        }
    }
    a->algorithm = kept;
    return status;
}

static enum ebb_status tell(const struct cuda_products *s, const struct cuda_answer *a,
                            const cublasLtMatmulAlgo_t *algorithm, const struct taken *taken,
                            kernel_row_sink *add, void *to, struct ebb_error *err)
{
    char key[CUDA_PRODUCT_KEY], text[CUDA_PRODUCT_KEY];
    cuda_product_key(&a->p, key);
    cuda_product_spell(s->GetVersion(), algorithm, text);
    return add(to,
               &(struct profile_row){.family = CUDA_PRODUCT_ROWS,
                                     .key = key,
                                     .cost_ns = (uint64_t)taken->ns,
                                     .spread = taken->spread,
                                     .workspace_bytes = cuda_product_workspace(&a->p),
                                     .algorithm = text},
               err);
}

enum ebb_status cuda_products_rows(struct cuda_products *s, bool measures, kernel_row_sink *add,
                                   void *to, struct ebb_error *err)
{
    struct bench b = {.s = s};
    if (!s->handle || !s->count)
        return EBB_OK;
    enum ebb_status status = measures ? open_bench(&b, err) : EBB_OK;
    for (size_t i = 0; i < s->count && status == EBB_OK; i++) {
        cublasLtMatmulAlgo_t best = s->answers[i]->algorithm;
        struct taken taken = {0};
        if (measures)
            status = measure(&b, s->answers[i], &best, &taken, err);
        EBB_THEN(status, tell(s, s->answers[i], &best, &taken, add, to, err));
    }
    close_bench(&b);
    return status;
}
