/* embed.cu - rows of a table by index, and the gradient of the table.
 *
 * The gradient: indices are sorted stably with their positions, chunks of CHUNK sorted entries are added up by one warp
 * each; a row whose entries lie in one chunk is written there, a row that crosses chunks is added from the chunks'
 * partial sums, in order, by the warp of its first chunk. So every row has one writer and one order. */
#include "cuda/typed.cuh"
#include <cub/device/device_radix_sort.cuh>

#define THREADS 256
#define CHUNK 32 /* one entry per lane */
#define AHEAD 8  /* rows in flight */

/* Bytes: count * n * size * 2 (3 with positions). */
template <class T>
__global__ void __launch_bounds__(THREADS)
    embed_rows(int64_t count, int64_t rows, int n, int64_t positions,
               const int64_t *__restrict__ index, const T *__restrict__ table,
               const T *__restrict__ position, T *__restrict__ y, uint32_t *error)
{
    int64_t vectors = count * (n / 8);
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < vectors;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t row = i / (n / 8), at = i % (n / 8) * 8, from = index[row];
        vec8 v;
        if (from < 0 || from >= rows) {
            if (error)
                atomicMin(error, (uint32_t)row + 1u);
#pragma unroll
            for (int k = 0; k < 8; k++)
                v.v[k] = 0;
        } else {
            v = device_load(table + from * n + at);
        }
        if (position) {
            vec8 p = device_load(position + row % positions * n + at);
#pragma unroll
            for (int k = 0; k < 8; k++)
                v.v[k] += p.v[k];
        }
        device_store(y + row * n + at, v);
    }
}

extern "C" int cuda_embed(const struct cuda_embed *d, const int64_t *index, const void *table,
                          const void *position, void *y, uint32_t *error, cuda_stream stream)
{
    if (d->n % 8 || d->n <= 0 || (position && d->positions <= 0))
        return (int)cudaErrorInvalidValue;
    int64_t blocks = (d->count * (d->n / 8) + THREADS - 1) / THREADS;
    unsigned grid = (unsigned)(blocks > 1 << 20 ? 1 << 20 : blocks);
    if (d->dtype == CUDA_BF16)
        embed_rows<bf16><<<grid, THREADS, 0, stream>>>(d->count, d->rows, (int)d->n, d->positions,
                                                       index, (const bf16 *)table,
                                                       (const bf16 *)position, (bf16 *)y, error);
    else
        embed_rows<float><<<grid, THREADS, 0, stream>>>(d->count, d->rows, (int)d->n, d->positions,
                                                        index, (const float *)table,
                                                        (const float *)position, (float *)y, error);
    return (int)cudaGetLastError();
}

/* ---- gradient ------------------------------------------------------------------------------- */

/* Wrong indices and the one to skip sort behind every row and get nothing. */
__global__ void __launch_bounds__(THREADS)
    embed_keys(int64_t count, int64_t rows, bool has_skip, int64_t skip,
               const int64_t *__restrict__ index, uint32_t *__restrict__ keys,
               uint32_t *__restrict__ values, struct cuda_fault fault)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    int64_t at = index[i];
    bool is_wrong = at < 0 || at >= rows;
    if (is_wrong)
        typed_fault(fault);
    keys[i] = is_wrong || (has_skip && at == skip) ? (uint32_t)rows : (uint32_t)at;
    values[i] = (uint32_t)i;
}

/* Grid: (chunks, column strips of 256). partial [chunks, 2, n]: sums of the first entries of a chunk that belong to a row
 * begun earlier, and of the last ones whose row goes on. Bytes: count * n * size, rows in use * n * 8. */
template <class T>
__global__ void __launch_bounds__(32)
    embed_chunks(int64_t count, int64_t rows, int n, const uint32_t *__restrict__ keys,
                 const uint32_t *__restrict__ values, const T *__restrict__ dy,
                 float *__restrict__ dtable, float *__restrict__ partial)
{
    int at = (blockIdx.y * 32 + threadIdx.x) * 8;
    int64_t chunk = blockIdx.x, first = chunk * CHUNK,
            last = first + CHUNK < count ? first + CHUNK : count;
    /* lane l knows entry first + l; the last entry's successor decides whether its row goes on */
    uint32_t my_key = first + threadIdx.x < last ? keys[first + threadIdx.x] : (uint32_t)rows;
    uint32_t my_value = first + threadIdx.x < last ? values[first + threadIdx.x] : 0;
    uint32_t after = last < count ? keys[last] : (uint32_t)rows;
    bool is_begun_here = first == 0 || keys[first - 1] != __shfl_sync(0xffffffffu, my_key, 0);
    int entries = (int)(last - first);
    vec8 sum;
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum.v[k] = 0;
    for (int i = 0; i < entries; i += AHEAD) {
        vec8 g[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) { /* loads first: they do not depend on each other */
            int from = (int)__shfl_sync(0xffffffffu, my_value, (i + a) % CHUNK);
            if (i + a < entries && at < n)
                g[a] = device_load(dy + (int64_t)from * n + at);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            uint32_t key = __shfl_sync(0xffffffffu, my_key, (i + a) % CHUNK);
            uint32_t next = __shfl_sync(0xffffffffu, my_key, (i + a + 1) % CHUNK);
            next = i + a + 1 < entries ? next : after;
            if (i + a >= entries || key >= (uint32_t)rows || at >= n)
                continue;
#pragma unroll
            for (int k = 0; k < 8; k++)
                sum.v[k] += g[a].v[k];
            bool is_end = next != key;
            if (is_end && is_begun_here) {
                float *to = dtable + (int64_t)key * n + at;
                vec8 old = device_load(to);
#pragma unroll
                for (int k = 0; k < 8; k++)
                    old.v[k] += sum.v[k];
                device_store(to, old);
            } else if (is_end || i + a + 1 == entries) {
                device_store(partial + (chunk * 2 + (is_begun_here ? 1 : 0)) * n + at, sum);
            }
            if (is_end) {
                is_begun_here = true;
#pragma unroll
                for (int k = 0; k < 8; k++)
                    sum.v[k] = 0;
            }
        }
    }
}

/* Rows that cross chunks. */
__global__ void __launch_bounds__(32)
    embed_crossing(int64_t count, int64_t rows, int n, const uint32_t *__restrict__ keys,
                   float *__restrict__ dtable, const float *__restrict__ partial)
{
    int at = (blockIdx.y * 32 + threadIdx.x) * 8;
    int64_t chunk = blockIdx.x, last = chunk * CHUNK + CHUNK;
    if (last >= count)
        return;
    uint32_t key = keys[last - 1];
    if (key >= (uint32_t)rows || keys[last] != key)
        return; /* nothing goes on behind this chunk */
    if (keys[chunk * CHUNK] == key && chunk > 0 && keys[chunk * CHUNK - 1] == key)
        return; /* begun earlier: not ours */
    /* how many chunks behind this one begin with the row: 32 looks at a time */
    int64_t more = 0;
    for (;;) {
        int64_t look = chunk + 1 + more + threadIdx.x;
        unsigned other =
            __ballot_sync(0xffffffffu, look * CHUNK >= count || keys[look * CHUNK] != key);
        more += other ? __ffs((int)other) - 1 : 32;
        if (other)
            break;
    }
    if (at >= n)
        return;
    vec8 sum = device_load(partial + (chunk * 2 + 1) * n + at);
    const float *from = partial + (chunk + 1) * 2 * n + at;
    for (int64_t c = 0; c < more; c += AHEAD) {
        vec8 p[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (c + a < more)
                p[a] = device_load(from + (c + a) * 2 * n);
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (c + a < more) {
#pragma unroll
                for (int k = 0; k < 8; k++)
                    sum.v[k] += p[a].v[k];
            }
    }
    float *to = dtable + (int64_t)key * n + at;
    vec8 old = device_load(to);
#pragma unroll
    for (int k = 0; k < 8; k++)
        old.v[k] += sum.v[k];
    device_store(to, old);
}

struct embed_space {
    uint32_t *keys_in, *values_in, *keys, *values;
    float *partial;
    void *sort;
    size_t sort_bytes, bytes;
};

static int key_bits(int64_t rows)
{
    int bits = 1;
    while (bits < 32 && (int64_t)1 << bits <= rows)
        bits++;
    return bits;
}

static size_t align(size_t x)
{
    return (x + 255) / 256 * 256;
}

/* What the sort takes at most, by the count alone: keys and values once more, 256 counters of four bytes for every
 * 1,024 keys (its tiles are larger), histograms. It refuses less than it needs. */
static size_t sort_room(int64_t count)
{
    return 2 * align((size_t)count * sizeof(uint32_t)) + align((size_t)count) + ((size_t)64 << 10);
}

static void carve(const struct cuda_embed *d, char *base, struct embed_space *s)
{
    size_t list = align((size_t)d->count * sizeof(uint32_t)), at = 0;
    size_t chunks = (size_t)((d->count + CHUNK - 1) / CHUNK);
    uint32_t **lists[4] = {&s->keys_in, &s->values_in, &s->keys, &s->values};
    for (int i = 0; i < 4; i++, at += list)
        *lists[i] = (uint32_t *)(base + at);
    s->partial = (float *)(base + at);
    at += align(chunks * 2 * (size_t)d->n * sizeof(float));
    s->sort = base + at;
    s->sort_bytes = sort_room(d->count);
    s->bytes = at + s->sort_bytes;
}

extern "C" size_t cuda_embed_grad_workspace(const struct cuda_embed *d)
{
    struct embed_space s;
    carve(d, (char *)256, &s);
    return s.bytes;
}

static int sort(const struct cuda_embed *d, const int64_t *index, struct embed_space *s,
                struct cuda_fault fault, cudaStream_t stream)
{
    embed_keys<<<(unsigned)((d->count + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        d->count, d->rows, d->has_skip, d->skip, index, s->keys_in, s->values_in, fault);
    return (int)cub::DeviceRadixSort::SortPairs(s->sort, s->sort_bytes, s->keys_in, s->keys,
                                                s->values_in, s->values, (int)d->count, 0,
                                                key_bits(d->rows), stream);
}

static int embed_grad(const struct cuda_embed *d, const int64_t *index, const void *dy,
                      float *dtable, void *workspace, struct cuda_fault fault, cudaStream_t stream)
{
    if (d->n % 8 || d->n <= 0 || d->count > INT32_MAX || d->rows >= INT32_MAX)
        return (int)cudaErrorInvalidValue;
    if (d->count <= 0)
        return 0;
    struct embed_space s;
    carve(d, (char *)workspace, &s);
    int e = sort(d, index, &s, fault, stream);
    if (e)
        return e;
    int n = (int)d->n;
    dim3 grid((unsigned)((d->count + CHUNK - 1) / CHUNK), (unsigned)((n + 255) / 256));
    if (d->dtype == CUDA_BF16)
        embed_chunks<bf16><<<grid, 32, 0, stream>>>(d->count, d->rows, n, s.keys, s.values,
                                                    (const bf16 *)dy, dtable, s.partial);
    else
        embed_chunks<float><<<grid, 32, 0, stream>>>(d->count, d->rows, n, s.keys, s.values,
                                                     (const float *)dy, dtable, s.partial);
    embed_crossing<<<grid, 32, 0, stream>>>(d->count, d->rows, n, s.keys, dtable, s.partial);
    return (int)cudaGetLastError();
}

extern "C" int cuda_embed_grad(const struct cuda_embed *d, const int64_t *index, const void *dy,
                               float *dtable, void *workspace, cuda_stream stream)
{
    return embed_grad(d, index, dy, dtable, workspace, {NULL, 0}, stream);
}

/* Bytes: count * n * size. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    position_rows(int64_t count, int64_t positions, int n, const T *__restrict__ dy,
                  float *__restrict__ dposition)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, p = i / (n / 8);
    int at = (int)(i % (n / 8)) * 8;
    if (p >= positions)
        return;
    vec8 sum;
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum.v[k] = 0;
#pragma unroll 4
    for (int64_t row = p; row < count; row += positions) {
        vec8 g = device_load(dy + row * n + at);
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum.v[k] += g.v[k];
    }
    device_store(dposition + p * n + at, sum);
}

extern "C" int cuda_embed_position_grad(const struct cuda_embed *d, const void *dy,
                                        float *dposition, cuda_stream stream)
{
    if (d->n % 8 || d->n <= 0 || d->positions <= 0)
        return (int)cudaErrorInvalidValue;
    unsigned blocks = (unsigned)((d->positions * (d->n / 8) + THREADS - 1) / THREADS);
    if (d->dtype == CUDA_BF16)
        position_rows<bf16><<<blocks, THREADS, 0, stream>>>(d->count, d->positions, (int)d->n,
                                                            (const bf16 *)dy, dposition);
    else
        position_rows<float><<<blocks, THREADS, 0, stream>>>(d->count, d->positions, (int)d->n,
                                                             (const float *)dy, dposition);
    return (int)cudaGetLastError();
}

/* ---- the family of indexing, any shape and type ---------------------------------------------------- */

/* A warp per row, in units of U: elements, or 16 bytes of them. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    select_rows(kernel_index_desc d, int64_t inner, const U *__restrict__ x,
                const int64_t *__restrict__ index, U *__restrict__ y, struct cuda_fault fault)
{
    int64_t row = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (row >= d.outer * d.count)
        return;
    int64_t o = row / d.count, fixed = d.f == KERNEL_GATHER ? 0 : index[row - o * d.count];
    for (int64_t e = threadIdx.x % 32; e < inner; e += 32) {
        int64_t at = d.f == KERNEL_GATHER ? index[row * inner + e] : fixed;
        bool is_wrong = at < 0 || at >= d.n;
        if (is_wrong)
            typed_fault(fault);
        y[row * inner + e] = is_wrong ? U{} : x[(o * d.n + at) * inner + e];
    }
}

/* Every run of equal sorted indices has one thread per column, at its head: sums in order of position. */
__global__ void __launch_bounds__(THREADS)
    add_runs(kernel_index_desc d, const uint32_t *__restrict__ keys,
             const uint32_t *__restrict__ values, struct cuda_in dy, float *__restrict__ dx)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < d.outer * d.count * d.inner;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t row = i / d.inner, e = i - row * d.inner, o = row / d.count, p = row - o * d.count;
        uint32_t key = keys[p];
        if (key >= (uint32_t)d.n || (p > 0 && keys[p - 1] == key))
            continue;
        float sum = 0;
        for (; p < d.count && keys[p] == key; p++)
            sum += typed_get(dy, (o * d.count + values[p]) * d.inner + e);
        dx[(o * d.n + key) * d.inner + e] = sum;
    }
}

/* One thread per column. */
__global__ void __launch_bounds__(THREADS)
    scatter_columns(kernel_index_desc d, struct cuda_in dy, const int64_t *__restrict__ index,
                    struct cuda_out dx, struct cuda_fault fault)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < d.outer * d.inner;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t o = i / d.inner, e = i - o * d.inner;
        for (int64_t k = 0; k < d.n; k++)
            typed_put(dx, (o * d.n + k) * d.inner + e, 0.0f);
        for (int64_t j = 0; j < d.count; j++) {
            int64_t from = (o * d.count + j) * d.inner + e, at = index[from];
            if (at < 0 || at >= d.n) {
                typed_fault(fault);
                continue;
            }
            int64_t to = (o * d.n + at) * d.inner + e;
            float sum = typed_get({dx.p, dx.dtype}, to) + typed_get(dy, from);
            typed_put(dx, to, sum);
        }
    }
}

static struct cuda_embed embed_of(const struct kernel_index_desc *d, int dtype)
{
    struct cuda_embed e = {};
    e.count = d->count;
    e.rows = d->n;
    e.n = d->inner;
    e.dtype = dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32;
    e.has_skip = true; /* -1 is no index */
    e.skip = d->skip;
    return e;
}

extern "C" size_t cuda_index_workspace(const struct kernel_index_desc *d)
{
    if (d->f != KERNEL_INDEX_ADD || d->count <= 0)
        return 0;
    struct cuda_embed e = embed_of(d, KERNEL_F32);
    return cuda_embed_grad_workspace(&e);
}

static unsigned grid_for(int64_t n)
{
    int64_t blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks > 1 << 20 ? 1 << 20 : blocks);
}

static int select(const struct kernel_index_desc *d, size_t bytes, const void *x,
                  const int64_t *index, void *y, struct cuda_fault fault, cudaStream_t stream)
{
    int64_t rows = d->outer * d->count, row = d->inner * (int64_t)bytes;
    unsigned blocks = (unsigned)((rows + THREADS / 32 - 1) / (THREADS / 32));
    if (d->f == KERNEL_SELECT && row % 16 == 0 && cuda_is_aligned(x) && cuda_is_aligned(y))
        select_rows<uint4><<<blocks, THREADS, 0, stream>>>(*d, row / 16, (const uint4 *)x, index,
                                                           (uint4 *)y, fault);
    else if (bytes == 2)
        select_rows<uint16_t><<<blocks, THREADS, 0, stream>>>(*d, d->inner, (const uint16_t *)x,
                                                              index, (uint16_t *)y, fault);
    else
        select_rows<uint32_t><<<blocks, THREADS, 0, stream>>>(*d, d->inner, (const uint32_t *)x,
                                                              index, (uint32_t *)y, fault);
    return (int)cudaGetLastError();
}

static int index_add(const struct kernel_index_desc *d, struct cuda_in dy, const int64_t *index,
                     float *dx, void *workspace, struct cuda_fault fault, cudaStream_t stream)
{
    struct cuda_embed e = embed_of(d, dy.dtype);
    if (d->count > INT32_MAX || d->n >= INT32_MAX)
        return (int)cudaErrorInvalidValue;
    int code =
        (int)cudaMemsetAsync(dx, 0, (size_t)(d->outer * d->n * d->inner) * sizeof *dx, stream);
    if (code || d->count <= 0)
        return code;
    if (d->outer == 1 && d->inner % 8 == 0 && dy.dtype != KERNEL_F16 && cuda_is_aligned(dy.p) &&
        cuda_is_aligned(dx))
        return embed_grad(&e, index, dy.p, dx, workspace, fault, stream);
    struct embed_space s;
    carve(&e, (char *)workspace, &s);
    code = sort(&e, index, &s, fault, stream);
    if (code)
        return code;
    add_runs<<<grid_for(d->outer * d->count * d->inner), THREADS, 0, stream>>>(*d, s.keys, s.values,
                                                                               dy, dx);
    return (int)cudaGetLastError();
}

extern "C" int cuda_index(const struct kernel_index_desc *d, struct cuda_in x, const int64_t *index,
                          struct cuda_out y, void *workspace, struct cuda_fault fault,
                          cuda_stream stream)
{
    if (d->f == KERNEL_INDEX_ADD)
        return index_add(d, x, index, (float *)y.p, workspace, fault, stream);
    if (d->f == KERNEL_SCATTER_ADD && d->outer * d->inner > 0) {
        scatter_columns<<<grid_for(d->outer * d->inner), THREADS, 0, stream>>>(*d, x, index, y,
                                                                               fault);
        return (int)cudaGetLastError();
    }
    if (d->outer * d->count * d->inner <= 0 || d->f == KERNEL_SCATTER_ADD)
        return 0;
    return select(d, cuda_dtype_bytes(x.dtype), x.p, index, y.p, fault, stream);
}
