/* repeat.c - does a convolution of the library give equal bits every time? Its engines say so of themselves, and not all of
 * them keep to it: 20 runs on noise, at two places, with a copy running beside. */
#include <cuda_runtime_api.h>

#include "cuda/dnn.h"

#define REPEATS 20
#define BESIDE ((size_t)64 << 20) /* copied meanwhile */

struct
    trial { /* of one plan: two places for the operands behind each other, then what they share */
    struct cuda_dnn *dnn;
    const struct cuda_dnn_plan *plan;
    cudaStream_t stream, beside;
    unsigned char *pool, *workspace, *copied;
    uint64_t *sum;
    size_t at[4]; /* x, w, y and the end of a place */
    int result;   /* which of the three is written */
};

static enum ebb_status check(int code, struct ebb_error *err)
{
    return code == (int)cudaSuccess ? EBB_OK
                                    : ebb_fail(err, EBB_EDEVICE, "cuda: repeating convolutions: %s",
                                               cudaGetErrorString((cudaError_t)code));
}

static size_t bytes_of(const struct cuda_dnn_conv *c, const int64_t *dims)
{
    size_t count = cuda_dtype_bytes(c->dtype);
    for (int k = 0; k < c->rank; k++)
        count *= (size_t)dims[k];
    return cuda_align(count);
}

static enum ebb_status open_trial(struct trial *t, struct ebb_error *err)
{
    const struct cuda_dnn_conv *c = &t->plan->conv;
    t->at[1] = bytes_of(c, c->x);
    t->at[2] = t->at[1] + bytes_of(c, c->w);
    t->at[3] = t->at[2] + bytes_of(c, c->y);
    t->result = c->pass == KERNEL_CONV_FORWARD ? 2 : c->pass == KERNEL_CONV_DATA ? 0 : 1;
    size_t places = 2 * t->at[3], room = cuda_align((size_t)t->plan->workspace_bytes);
    EBB_TRY(check((int)cudaMalloc((void **)&t->pool, places + room + 2 * BESIDE + 256), err));
    t->workspace = t->pool + places;
    t->copied = t->workspace + room;
    t->sum = (uint64_t *)(void *)(t->copied + 2 * BESIDE);
    EBB_TRY(check((int)cudaStreamCreateWithFlags(&t->beside, cudaStreamNonBlocking), err));
    for (int k = 0; k < 2; k++) /* the same numbers in both places */
        EBB_TRY(
            check(cuda_noise((int64_t)(t->at[3] / 4), 1, t->pool + (size_t)k * t->at[3], t->stream),
                  err));
    return EBB_OK;
}

static void close_trial(struct trial *t)
{
    if (t->beside) {
        (void)cudaStreamSynchronize(t->beside);
        (void)cudaStreamDestroy(t->beside);
    }
    (void)cudaFree(t->pool);
}

static enum ebb_status run_once(struct trial *t, int place, uint64_t *sum, struct ebb_error *err)
{
    unsigned char *at = t->pool + (size_t)place * t->at[3], *made = at + t->at[t->result];
    int64_t words = (int64_t)((t->at[t->result + 1] - t->at[t->result]) / 4);
    EBB_TRY(check(cuda_noise(words, 2, made, t->stream), err));
    EBB_TRY(check((int)cudaMemcpyAsync(t->copied, t->copied + BESIDE, BESIDE,
                                       cudaMemcpyDeviceToDevice, t->beside),
                  err));
    EBB_TRY(cuda_dnn_run(t->dnn, t->plan, at, at + t->at[1], at + t->at[2], t->workspace, err));
    EBB_TRY(check(cuda_fingerprint(words, made, t->sum, t->stream), err));
    EBB_TRY(check((int)cudaMemcpyAsync(sum, t->sum, sizeof *sum, cudaMemcpyDeviceToHost, t->stream),
                  err));
    return check((int)cudaStreamSynchronize(t->stream), err);
}

enum ebb_status cuda_dnn_is_repeatable(struct cuda_dnn *dnn, const struct cuda_dnn_plan *plan,
                                       cuda_stream stream, bool *is, struct ebb_error *err)
{
    struct trial t = {.dnn = dnn, .plan = plan, .stream = stream};
    uint64_t first = 0, sum = 0;
    enum ebb_status status = open_trial(&t, err);
    *is = true;
    for (int i = 0; i < REPEATS && *is && status == EBB_OK; i++) {
        status = run_once(&t, i % 2, &sum, err);
        first = i ? first : sum;
        *is = sum == first;
    }
    close_trial(&t);
    return status;
}
