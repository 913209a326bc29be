/* attention.cu - softmax(scale Q K') V and its gradient, 64 channels per head, bf16, without a quadratic workspace.
 *
 * Forward: a block has 128 queries (two warp groups of 64) and goes over the keys in tiles of 64, from the diagonal down;
 * two blocks share a multiprocessor, so that the products of one run beside the exponentials of the other.
 *
 * Gradient: a block has whole heads, one after the other. The outer loop goes over tiles of 128 keys whose dK and dV stay
 * in registers, the inner one over tiles of 128 queries. Scores stand turned (keys x queries), so that P' and dS' feed
 * the next products from registers. dQ is added tile by tile into F32 workspace of the block: every element belongs to one
 * thread, which adds in the order of the key tiles, so the sum has one order; five products, not seven. The additions are
 * done by the memory: nobody waits for a load, and additions of one thread to one place keep their order.
 * Workspace: SLOTS * tokens * 64 floats (32 MiB at 1,024 tokens) and 8 bytes per query. */
#include "cuda/cuda.h"
#include "cuda/device.cuh"
#include "cuda/hopper.cuh"
#include <math_constants.h>

#define D 64
#define LOG2E 1.4426950408889634f
#define TILE_BYTES (64 * D * 2) /* 64 tokens of one head */

/* ---- tensor maps
 * ------------------------------------------------------------------------------
 */

typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                    const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                    const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* Boxes of 64 tokens of one head; tokens past the end read as zero and are not
 * written. */
static int make_map(const struct cuda_attention *d, const void *base, bool is_out, CUtensorMap *map)
{
    void *symbol = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000,
                                                     cudaEnableDefault, &found);
    if (e != cudaSuccess || !symbol)
        return e != cudaSuccess ? (int)e : (int)cudaErrorNotSupported;
    cuuint64_t dims[4] = {D, (cuuint64_t)d->heads, (cuuint64_t)d->tokens, (cuuint64_t)d->batch};
    cuuint64_t strides[3] = {(cuuint64_t)(is_out ? d->out_head_stride : d->head_stride) * 2,
                             (cuuint64_t)(is_out ? d->out_token_stride : d->token_stride) * 2,
                             (cuuint64_t)(is_out ? d->out_batch_stride : d->batch_stride) * 2};
    cuuint32_t box[4] = {D, 1, 64, 1}, steps[4] = {1, 1, 1, 1};
    CUresult r = ((encode_function)symbol)(
        map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, (void *)base, dims, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? 0 : (int)cudaErrorInvalidValue;
}

struct maps {
    CUtensorMap q, k, v, o, go, dk, dv;
};

/* Writes a warp group's 64 x 64 accumulators as bf16 into a swizzled tile. */
__device__ static inline void store_tile(uint32_t tile, const float (&d)[32], float factor_low,
                                         float factor_high)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int row = warp * 16 + (lane / 8 % 2) * 8 + lane % 8;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t a[4] = {device_pack(d[4 * j] * factor_low, d[4 * j + 1] * factor_low),
                         device_pack(d[4 * j + 2] * factor_high, d[4 * j + 3] * factor_high),
                         device_pack(d[4 * j + 4] * factor_low, d[4 * j + 5] * factor_low),
                         device_pack(d[4 * j + 6] * factor_high, d[4 * j + 7] * factor_high)};
        int piece = j + lane / 16;
        hopper_store_matrices(tile + row * 128 + ((piece ^ (row % 8)) << 4), a);
    }
}

/* ---- forward
 * ------------------------------------------------------------------------------------
 */

#define STAGES 4
#define FORWARD_BYTES (2 * TILE_BYTES + STAGES * 2 * TILE_BYTES + 1024)

struct forward_shape {
    int batch, heads, tokens;
    float scale2; /* scale * log2(e) */
    bool has_o;   /* wanted */
};

/* Thread 0: the keys and values of tile i + STAGES - 2, into the place of a
 * tile that both groups are through with. */
__device__ static inline void load_ahead(const maps &m, int i, int key_tiles, int head, int batch,
                                         uint32_t keys, uint32_t full, uint32_t empty)
{
    int next = i + STAGES - 2, stage = next % STAGES;
    if (threadIdx.x == 0 && next < key_tiles) {
        uint32_t to = keys + stage * 2 * TILE_BYTES, barrier = full + 8 * stage;
        if (next >= STAGES)
            hopper_wait(empty + 8 * stage, (next / STAGES - 1) % 2);
        hopper_expect(barrier, 2 * TILE_BYTES);
        hopper_load(to, &m.k, barrier, head, (key_tiles - 1 - next) * 64, batch);
        hopper_load(to + TILE_BYTES, &m.v, barrier, head, (key_tiles - 1 - next) * 64, batch);
    }
    __syncwarp();
}

/* FLOP: 4 * 64 * batch * heads * pairs; bytes: q, k, v, o once where keys stay
 * in the second-level cache. */
template <bool IS_CAUSAL>
__global__ void __launch_bounds__(256, 2)
    forward(const __grid_constant__ maps m, forward_shape s, float *__restrict__ stats)
{
    extern __shared__ char raw[];
    __shared__ uint64_t barriers[2 * STAGES + 1];
    uint32_t base = (hopper_address(raw) + 1023) & ~1023u, keys = base + 2 * TILE_BYTES;
    uint32_t full = hopper_address(barriers), empty = full + 8 * STAGES, ready = full + 16 * STAGES;
    int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), lane = threadIdx.x % 32,
        warp = threadIdx.x / 32 % 4;
    int query_tile = gridDim.x - 1 - blockIdx.x; /* the longest rows first */
    int head = blockIdx.y % s.heads, batch = blockIdx.y / s.heads, first_query = query_tile * 128;
    int key_tiles = (s.tokens + 63) / 64;
    if (IS_CAUSAL && key_tiles > query_tile * 2 + 2)
        key_tiles = query_tile * 2 + 2;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            hopper_barrier_init(full + 8 * i, 1);
            hopper_barrier_init(empty + 8 * i, 8);
        }
        hopper_barrier_init(ready, 1);
        hopper_barrier_fence();
        hopper_expect(ready, 2 * TILE_BYTES);
        hopper_load(base, &m.q, ready, head, first_query, batch);
        hopper_load(base + TILE_BYTES, &m.q, ready, head, first_query + 64, batch);
        for (int i = 0; i < STAGES - 2 && i < key_tiles; i++) {
            uint32_t to = keys + i * 2 * TILE_BYTES;
            hopper_expect(full + 8 * i, 2 * TILE_BYTES);
            hopper_load(to, &m.k, full + 8 * i, head, (key_tiles - 1 - i) * 64, batch);
            hopper_load(to + TILE_BYTES, &m.v, full + 8 * i, head, (key_tiles - 1 - i) * 64, batch);
        }
    }
    __syncthreads();
    hopper_wait(ready, 0);

    float o[32], scores[32], largest[2] = {-CUDART_INF_F, -CUDART_INF_F}, sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 32; i++)
        o[i] = scores[i] = 0;
    uint32_t queries[16]; /* in registers: one operand less to fetch for each
                           product */
    int query_row = warp * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < 4; k++)
        hopper_load_matrices(base + group * TILE_BYTES + query_row * 128 +
                                 (((2 * k + lane / 16) ^ (query_row % 8)) << 4),
                             queries + 4 * k);
    int row = first_query + group * 64 + warp * 16 + lane / 4; /* and row + 8 */
    /* the first group sees nothing in the last tile of a causal block */
    int start = IS_CAUSAL && group == 0 && key_tiles == query_tile * 2 + 2 ? 1 : 0;
    if (start) {
        load_ahead(m, 0, key_tiles, head, batch, keys, full, empty);
        if (lane == 0)
            hopper_arrive(empty);
    }
    hopper_wait(full + 8 * start, 0);
    hopper_mma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        hopper_mma<0>(scores, queries + 4 * k, hopper_tile(keys + start * 2 * TILE_BYTES) + 2 * k,
                      k > 0);
    hopper_mma_commit();
    hopper_mma_wait<0>();
    for (int i = start; i < key_tiles; i++) {
        int stage = i % STAGES, after = (i + 1) % STAGES, first_key = (key_tiles - 1 - i) * 64;
        uint32_t tile = keys + stage * 2 * TILE_BYTES;
        load_ahead(m, i, key_tiles, head, batch, keys, full, empty);
        bool is_edge = IS_CAUSAL ? i == start : first_key + 64 > s.tokens;
        if (is_edge) {
#pragma unroll
            for (int j = 0; j < 32; j++) {
                int key = first_key + j / 4 * 8 + lane % 4 * 2 + j % 2,
                    query = row + (j / 2 % 2) * 8;
                if (IS_CAUSAL ? key > query : key >= s.tokens)
                    scores[j] = -CUDART_INF_F;
            }
        }
        float factor[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float top = largest[h];
#pragma unroll
            for (int j = 0; j < 8; j++)
                top = fmaxf(top, fmaxf(scores[4 * j + 2 * h], scores[4 * j + 2 * h + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            factor[h] = device_exp2((largest[h] - top) * s.scale2);
            largest[h] = top;
            float shift = top * s.scale2, part = 0;
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float p = device_exp2(fmaf(scores[4 * j + 2 * h + e], s.scale2, -shift));
                    scores[4 * j + 2 * h + e] = p;
                    part += p;
                }
            sum[h] = fmaf(sum[h], factor[h], part);
        }
        uint32_t p[16];
#pragma unroll
        for (int j = 0; j < 16; j++)
            p[j] = device_pack(scores[2 * j], scores[2 * j + 1]);
#pragma unroll
        for (int j = 0; j < 32; j++)
            o[j] *= factor[j / 2 % 2];
        if (i + 1 < key_tiles) /* else the next scores are of an old tile, and
                              nobody reads them */
            hopper_wait(full + 8 * after, (i + 1) / STAGES % 2);
        hopper_mma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++)
            hopper_mma<1>(o, p + 4 * k, hopper_tile(tile + TILE_BYTES) + 128 * k, 1);
        hopper_mma_commit();
#pragma unroll
        for (int k = 0; k < 4; k++)
            hopper_mma<0>(scores, queries + 4 * k,
                          hopper_tile(keys + after * 2 * TILE_BYTES) + 2 * k, k > 0);
        hopper_mma_commit();
        hopper_mma_wait<0>();
        if (lane == 0)
            hopper_arrive(empty + 8 * stage);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
        if (lane % 4 == 0 && row + 8 * h < s.tokens && stats)
            stats[(int64_t)blockIdx.y * s.tokens + row + 8 * h] =
                fmaf(largest[h], s.scale2, log2f(sum[h])) * 0.69314718055994531f;
    }
    uint32_t out = base + group * TILE_BYTES; /* this group's queries are not needed any more */
    store_tile(out, o, 1.0f / sum[0], 1.0f / sum[1]);
    hopper_proxy_fence();
    hopper_sync(1 + group, 128);
    if (threadIdx.x % 128 == 0 && first_query + group * 64 < s.tokens && s.has_o) {
        hopper_store(&m.o, out, head, first_query + group * 64, batch);
        hopper_store_commit();
        hopper_store_read();
    }
}

static bool is_valid(const struct cuda_attention *d)
{
    return d->batch > 0 && d->heads > 0 && d->tokens > 0 && (int64_t)d->batch * d->heads <= 65535 &&
           !((d->token_stride | d->head_stride | d->batch_stride | d->out_token_stride |
              d->out_head_stride | d->out_batch_stride) %
             8);
}

extern "C" int cuda_attention(const struct cuda_attention *d, const void *q, const void *k,
                              const void *v, void *o, float *stats, cuda_stream stream)
{
    maps m;
    if (!is_valid(d))
        return (int)cudaErrorInvalidValue;
    int e = make_map(d, q, false, &m.q);
    e = e ? e : make_map(d, k, false, &m.k);
    e = e ? e : make_map(d, v, false, &m.v);
    e = e ? e : make_map(d, o ? o : v, true, &m.o);
    if (e)
        return e;
    forward_shape s = {d->batch, d->heads, d->tokens, d->scale * LOG2E, o != NULL};
    dim3 grid((unsigned)((d->tokens + 127) / 128), (unsigned)(d->batch * d->heads));
    auto kernel = d->is_causal ? forward<true> : forward<false>;
    e = (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  FORWARD_BYTES);
    if (e)
        return e;
    kernel<<<grid, 256, FORWARD_BYTES, stream>>>(m, s, stats);
    return (int)cudaGetLastError();
}

/* ---- gradient
 * -----------------------------------------------------------------------------------
 */

#define SLOTS                                                                                      \
    132 /* blocks with a workspace each; a constant, results do not depend on it \
       */
#define QUERY_STAGES 3
#define BOTH (2 * TILE_BYTES) /* a tile of 128 tokens */

/* shared memory from the 1,024-byte boundary on: keys and values twice, queries
 * and dO in stages, dS', staged dK, stats */
#define KEYS_AT(buffer) ((buffer)*2 * BOTH)
#define VALUES_AT(buffer) (KEYS_AT(buffer) + BOTH)
#define QUERIES_AT(stage) (4 * BOTH + (stage)*2 * BOTH)
#define GO_AT(stage) (QUERIES_AT(stage) + BOTH)
#define DS_AT (4 * BOTH + QUERY_STAGES * 2 * BOTH)
#define STAGED_AT (DS_AT + 2 * BOTH)
#define STATS_AT(stage) (STAGED_AT + BOTH + (stage)*1024)
#define GRAD_BYTES (STATS_AT(QUERY_STAGES) + 1024)

struct grad_shape {
    int batch, heads, tokens, tiles; /* tiles of 128 */
    float scale, scale2;
    int64_t token_stride, head_stride, batch_stride;
    bool has_dk, has_dv; /* wanted */
};

/* delta = sum over channels of o * go; stats * log2(e) and delta of every tile
 * of 128 queries behind each other, inf and 0 past the end. Eight lanes per row
 * of a head. Bytes: o and go once. */
__global__ void __launch_bounds__(256)
    grad_delta(grad_shape s, int64_t out_token, int64_t out_head, int64_t out_batch,
               const bf16 *__restrict__ o, const bf16 *__restrict__ go,
               const float *__restrict__ stats, float *__restrict__ rows)
{
    int which = blockIdx.y, token = (int)(blockIdx.x * 32 + threadIdx.x / 8),
        part = threadIdx.x % 8;
    float delta = 0;
    if (token < s.tokens) {
        int64_t at =
            which / s.heads * out_batch + which % s.heads * out_head + token * out_token + part * 8;
        vec8 a = device_load(o + at), b = device_load(go + at);
#pragma unroll
        for (int k = 0; k < 8; k++)
            delta = fmaf(a.v[k], b.v[k], delta);
    }
#pragma unroll
    for (int k = 4; k; k >>= 1)
        delta += __shfl_xor_sync(0xffffffffu, delta, k);
    if (part == 0) {
        float *to = rows + ((int64_t)which * s.tiles + token / 128) * 256 + token % 128;
        to[0] = token < s.tokens ? stats[(int64_t)which * s.tokens + token] * LOG2E : CUDART_INF_F;
        to[128] = delta;
    }
}

/* One step of a block: key tile, query tile, head; and the step after it. */
struct step {
    int which, key, query,
        group; /* which: batch * heads + head; group: key tiles before this one */
};

template <bool IS_CAUSAL> __device__ static inline void step_next(step &t, int tiles)
{
    if (++t.query < tiles)
        return;
    t.group++;
    if (++t.key == tiles) {
        t.key = 0;
        t.which += gridDim.x;
    }
    t.query = IS_CAUSAL ? t.key : 0;
}

__device__ static inline void load_queries(const maps &m, const grad_shape &s, const step &t,
                                           int stage, uint32_t base, uint32_t barrier,
                                           const float *rows)
{
    int head = t.which % s.heads, batch = t.which / s.heads, token = t.query * 128;
    hopper_expect(barrier, 2 * BOTH + 1024);
    hopper_load(base + QUERIES_AT(stage), &m.q, barrier, head, token, batch);
    hopper_load(base + QUERIES_AT(stage) + TILE_BYTES, &m.q, barrier, head, token + 64, batch);
    hopper_load(base + GO_AT(stage), &m.go, barrier, head, token, batch);
    hopper_load(base + GO_AT(stage) + TILE_BYTES, &m.go, barrier, head, token + 64, batch);
    hopper_load_bytes(base + STATS_AT(stage), rows + ((int64_t)t.which * s.tiles + t.query) * 256,
                      1024, barrier);
}

__device__ static inline void load_keys(const maps &m, const grad_shape &s, int which, int key,
                                        int buffer, uint32_t base, uint32_t barrier)
{
    int head = which % s.heads, batch = which / s.heads;
    hopper_expect(barrier, 2 * BOTH);
    hopper_load(base + KEYS_AT(buffer), &m.k, barrier, head, key * 128, batch);
    hopper_load(base + KEYS_AT(buffer) + TILE_BYTES, &m.k, barrier, head, key * 128 + 64, batch);
    hopper_load(base + VALUES_AT(buffer), &m.v, barrier, head, key * 128, batch);
    hopper_load(base + VALUES_AT(buffer) + TILE_BYTES, &m.v, barrier, head, key * 128 + 64, batch);
}

__device__ static inline void load_lse(float2 (&lse)[16], const char *stats)
{
    const float2 *from = reinterpret_cast<const float2 *>(stats) + threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < 16; j++)
        lse[j] = from[j * 4];
}

/* d = A B' of tiles with 64 and 128 rows, as one group. */
__device__ static inline void product_issue(float (&d)[64], uint32_t a, uint32_t b)
{
#pragma unroll
    for (int k = 0; k < 4; k++)
        hopper_mma<0, 0>(d, hopper_tile(a) + 2 * k, hopper_tile(b) + 2 * k, k > 0);
    hopper_mma_commit();
}

/* FLOP: 10 * 64 * batch * heads * pairs. */
template <bool IS_CAUSAL>
__global__ void __launch_bounds__(256, 1)
    gradient(const __grid_constant__ maps m, grad_shape s, const float *__restrict__ rows,
             float4 *__restrict__ slots, bf16 *__restrict__ dq)
{
    extern __shared__ char raw[];
    __shared__ uint64_t barriers[QUERY_STAGES + 2];
    uint32_t base = (hopper_address(raw) + 1023) & ~1023u;
    const char *shared = raw + (base - hopper_address(raw));
    uint32_t query_full = hopper_address(barriers), key_full = query_full + 8 * QUERY_STAGES;
    int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), lane = threadIdx.x % 32,
        warp = threadIdx.x / 32 % 4;
    int heads = s.batch * s.heads;
    float4 *slot = slots + (int64_t)blockIdx.x * s.tiles * 8 * 256 + threadIdx.x;
    step now = {(int)blockIdx.x, 0, 0, 0};
    __shared__ step ahead; /* of thread 0, which loads two steps in advance; kept
                            out of its registers */
    if (threadIdx.x == 0) {
        for (int i = 0; i < QUERY_STAGES + 2; i++)
            hopper_barrier_init(query_full + 8 * i, 1);
        hopper_barrier_fence();
        load_keys(m, s, now.which, 0, 0, base, key_full);
        ahead = now;
        for (int i = 0; i < 2 && ahead.which < heads; i++, step_next<IS_CAUSAL>(ahead, s.tiles))
            load_queries(m, s, ahead, i, base, query_full + 8 * i, rows);
    }
    __syncthreads();

    float dk[32], dv[32], scores[64];
    float2 lse[16];          /* of the next step's queries, two by two */
    bool is_storing = false; /* first thread of a group: the copy engine may still
                              read its dK, dV */
    hopper_wait(key_full, 0);
    hopper_wait(query_full, 0);
    hopper_mma_fence();
    product_issue(scores, base + KEYS_AT(0) + group * TILE_BYTES, base + QUERIES_AT(0));
    load_lse(lse, shared + STATS_AT(0));
    hopper_mma_wait<0>();
    for (int n = 0; now.which < heads; n++) {
        int stage = n % QUERY_STAGES, buffer = now.group % 2;
        bool is_first = now.query == (IS_CAUSAL ? now.key : 0);
        uint32_t queries = base + QUERIES_AT(stage), go = base + GO_AT(stage);
        uint32_t values = base + VALUES_AT(buffer) + group * TILE_BYTES;
        float dp[64];
        hopper_mma_fence();
        product_issue(dp, values, go);

        /* P' */
        bool is_edge = IS_CAUSAL ? now.key == now.query : now.key * 128 + 128 > s.tokens;
        if (is_edge) {
            int key = group * 64 + warp * 16 + lane / 4;
            int limit = s.tokens - now.key * 128; /* keys past the end */
#pragma unroll
            for (int i = 0; i < 64; i++) {
                int k = key + i / 2 % 2 * 8;
                if (IS_CAUSAL ? k > i / 4 * 8 + lane % 4 * 2 + i % 2 : k >= limit)
                    scores[i] = -CUDART_INF_F;
            }
        }
        uint32_t packed[32];
#pragma unroll
        for (int j = 0; j < 16; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++)
                scores[4 * j + e] =
                    device_exp2(fmaf(scores[4 * j + e], s.scale2, e % 2 ? -lse[j].y : -lse[j].x));
            packed[2 * j] = device_pack(scores[4 * j], scores[4 * j + 1]);
            packed[2 * j + 1] = device_pack(scores[4 * j + 2], scores[4 * j + 3]);
        }
        hopper_mma_fence();
#pragma unroll
        for (int k = 0; k < 8; k++)
            hopper_mma<1>(dv, packed + 4 * k, hopper_tile(go) + 128 * k, k > 0 || !is_first);
        hopper_mma_commit();
        hopper_mma_wait<1>();

        /* dS' = P' (dP' - delta) */
        const float2 *delta = reinterpret_cast<const float2 *>(shared + STATS_AT(stage) + 512);
        uint32_t turned[32];
#pragma unroll
        for (int j = 0; j < 16; j++) {
            float2 pair = delta[j * 4 + lane % 4];
            turned[2 * j] = device_pack(scores[4 * j] * (dp[4 * j] - pair.x),
                                        scores[4 * j + 1] * (dp[4 * j + 1] - pair.y));
            turned[2 * j + 1] = device_pack(scores[4 * j + 2] * (dp[4 * j + 2] - pair.x),
                                            scores[4 * j + 3] * (dp[4 * j + 3] - pair.y));
        }
        hopper_mma_fence();
#pragma unroll
        for (int k = 0; k < 8; k++)
            hopper_mma<1>(dk, turned + 4 * k, hopper_tile(queries) + 128 * k, k > 0 || !is_first);
        hopper_mma_commit();

        if (is_storing) {
            hopper_store_read();
            is_storing = false;
        }
        __syncthreads(); /* everyone is through with the step before: its dS', its
                        queries, the keys of the last group */
        int row = warp * 16 + (lane / 8 % 2) * 8 + lane % 8;
#pragma unroll
        for (int j = 0; j < 16; j += 2) {
            int piece = j % 8 + lane / 16;
            hopper_store_matrices(base + DS_AT + j / 8 * BOTH + (group * 64 + row) * 128 +
                                      ((piece ^ (row % 8)) << 4),
                                  turned + 2 * j);
        }
        hopper_proxy_fence();
        __syncthreads();
        hopper_mma_fence();
        float sum[32];
        uint32_t ds = base + DS_AT + group * BOTH, all_keys = base + KEYS_AT(buffer);
#pragma unroll
        for (int k = 0; k < 8; k++)
            hopper_mma<1, 1>(sum, hopper_tile(ds) + 128 * k, hopper_tile(all_keys) + 128 * k,
                             k > 0);
        hopper_mma_commit();

        /* the next scores run while this dQ is written */
        step done = now;
        step_next<IS_CAUSAL>(now, s.tiles);
        if (threadIdx.x == 0) { /* before anyone waits for what it loads */
            if (is_first) {
                int next_key = done.key + 1 < s.tiles ? done.key + 1 : 0, to = (done.group + 1) % 2;
                int next_which = next_key ? done.which : done.which + (int)gridDim.x;
                if (next_which < heads)
                    load_keys(m, s, next_which, next_key, to, base, key_full + 8 * to);
            }
            if (ahead.which < heads) {
                int to = (n + 2) % QUERY_STAGES;
                load_queries(m, s, ahead, to, base, query_full + 8 * to, rows);
                step_next<IS_CAUSAL>(ahead, s.tiles);
            }
        }
        __syncwarp();
        int next = (n + 1) % QUERY_STAGES, next_buffer = now.group % 2;
        if (now.which < heads) { /* else: products of old tiles that nobody reads,
                                so that every step is alike */
            if (now.group != done.group)
                hopper_wait(key_full + 8 * next_buffer, now.group / 2 % 2);
            hopper_wait(query_full + 8 * next, (n + 1) / QUERY_STAGES % 2);
        }
        hopper_mma_fence();
        product_issue(scores, base + KEYS_AT(next_buffer) + group * TILE_BYTES,
                      base + QUERIES_AT(next));
        bool is_begin = done.key == 0, is_end = done.key == (IS_CAUSAL ? done.query : s.tiles - 1);
        float4 *place = slot + done.query * 8 * 256;
        hopper_mma_wait<1>();
        if (is_end) {
            if (!is_begin) { /* the last tile of keys needs what the others have added */
                float4 old[8];
#pragma unroll
                for (int i = 0; i < 8; i++)
                    old[i] = __ldcg(place + i * 256);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    sum[4 * i] += old[i].x;
                    sum[4 * i + 1] += old[i].y;
                    sum[4 * i + 2] += old[i].z;
                    sum[4 * i + 3] += old[i].w;
                }
            }
            int64_t at = done.which / s.heads * s.batch_stride +
                         done.which % s.heads * s.head_stride + lane % 4 * 2;
            int token = done.query * 128 + group * 64 + warp * 16 + lane / 4;
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (token + 8 * h < s.tokens && dq) {
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        *reinterpret_cast<uint32_t *>(dq + at + (token + 8 * h) * s.token_stride +
                                                      j * 8) =
                            device_pack(sum[4 * j + 2 * h] * s.scale,
                                        sum[4 * j + 2 * h + 1] * s.scale);
                }
        } else if (is_begin) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                place[i * 256] =
                    make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++)
                hopper_add(place + i * 256, sum + 4 * i);
        }
        if (done.query == s.tiles - 1) { /* dK, dV are complete */
            uint32_t staged = base + STAGED_AT + group * TILE_BYTES;
            store_tile(staged, dk, s.scale, s.scale);
            store_tile(values, dv, 1.0f, 1.0f); /* only this group reads these values */
            hopper_proxy_fence();
            hopper_sync(1 + group, 128);
            int token = done.key * 128 + group * 64;
            if (threadIdx.x % 128 == 0 && token < s.tokens) {
                if (s.has_dk)
                    hopper_store(&m.dk, staged, done.which % s.heads, token, done.which / s.heads);
                if (s.has_dv)
                    hopper_store(&m.dv, values, done.which % s.heads, token, done.which / s.heads);
                hopper_store_commit();
                is_storing = true;
            }
        }
        load_lse(lse, shared + STATS_AT(next));
        hopper_mma_wait<0>(); /* the next scores */
    }
    if (is_storing)
        hopper_store_read();
}

static int slots_of(const struct cuda_attention *d)
{
    int heads = d->batch * d->heads;
    return heads < SLOTS ? heads : SLOTS;
}

static size_t rows_bytes(const struct cuda_attention *d)
{
    return (size_t)d->batch * (size_t)d->heads * (size_t)((d->tokens + 127) / 128) * 128 *
           sizeof(float2);
}

extern "C" size_t cuda_attention_grad_workspace(const struct cuda_attention *d)
{
    return rows_bytes(d) +
           (size_t)slots_of(d) * (size_t)((d->tokens + 127) / 128) * 128 * D * sizeof(float);
}

extern "C" int cuda_attention_grad(const struct cuda_attention *d, const void *q, const void *k,
                                   const void *v, const void *o, const void *go, const float *stats,
                                   void *dq, void *dk, void *dv, void *workspace,
                                   cuda_stream stream)
{
    maps m;
    if (!is_valid(d))
        return (int)cudaErrorInvalidValue;
    int e = make_map(d, q, false, &m.q);
    e = e ? e : make_map(d, k, false, &m.k);
    e = e ? e : make_map(d, v, false, &m.v);
    e = e ? e : make_map(d, go, true, &m.go);
    e = e ? e : make_map(d, dk ? dk : k, false, &m.dk);
    e = e ? e : make_map(d, dv ? dv : v, false, &m.dv);
    if (e)
        return e;
    grad_shape s = {d->batch,        d->heads,         d->tokens,       (d->tokens + 127) / 128,
                    d->scale,        d->scale * LOG2E, d->token_stride, d->head_stride,
                    d->batch_stride, dk != NULL,       dv != NULL};
    float *rows = (float *)workspace;
    float4 *slots = (float4 *)((char *)workspace + rows_bytes(d));
    dim3 grid((unsigned)(s.tiles * 4), (unsigned)(d->batch * d->heads));
    grad_delta<<<grid, 256, 0, stream>>>(s, d->out_token_stride, d->out_head_stride,
                                         d->out_batch_stride, (const bf16 *)o, (const bf16 *)go,
                                         stats, rows);
    auto kernel = d->is_causal ? gradient<true> : gradient<false>;
    e = (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, GRAD_BYTES);
    if (e)
        return e;
    kernel<<<(unsigned)slots_of(d), 256, GRAD_BYTES, stream>>>(m, s, rows, slots, (bf16 *)dq);
    return (int)cudaGetLastError();
}
