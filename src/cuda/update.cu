/* update.cu - optimizer updates in place, bit for bit what the CPU does.
 *
 * Compiled with -fmad=false: products and sums are fused only where fmaf is written, as in kernel/update.c; division and
 * square root are the correctly rounded ones. */
#include "cuda/typed.cuh"

#define THREADS 256

struct adam {
    float k[12];
};

/* kernel/update.c: adam, between kernel_master_join and kernel_master_split */
__device__ static inline void adam_one(const adam &a, float g, uint32_t &high, uint32_t &rest,
                                       float &m, float &v)
{
    const float *k = a.k;
    float w = __uint_as_float(((high - (rest >> 15)) << 16) | rest);
    g = g * k[11];
    g = k[1] != 0.0f ? fmaf(k[1], w, g) : g;
    m = fmaf(k[3], g, k[2] * m);
    v = fmaf(k[5] * g, g, k[4] * v);
    w = w * k[8] - k[0] * m / (sqrtf(v) / k[6] + k[7]);
    uint32_t u = __float_as_uint(w);
    rest = u & 0xffffu;
    high = ((u >> 16) + (u >> 15 & 1u)) & 0xffffu;
}

#define MANY 32 /* tensors per launch: 1.7 KB of arguments */

struct many {
    struct cuda_update tensors[MANY];
    uint32_t first[MANY]; /* block of each tensor */
    int count;
};

/* Eight elements per thread. Bytes per element: gradient 4 (2), weights 4 + 4, moments 8 + 8: 28 with an F32 gradient. */
template <class G>
__global__ void __launch_bounds__(THREADS)
    adam_split(const __grid_constant__ many t, const float *__restrict__ scalars)
{
    int which = 0;
    while (which + 1 < t.count && blockIdx.x >= t.first[which + 1])
        which++;
    int64_t n = t.tensors[which].n;
    const G *__restrict__ g = (const G *)t.tensors[which].g;
    uint16_t *__restrict__ high = t.tensors[which].high, *__restrict__ rest = t.tensors[which].rest;
    float *__restrict__ m = t.tensors[which].m, *__restrict__ v = t.tensors[which].v;
    adam a;
#pragma unroll
    for (int i = 0; i < 12; i++)
        a.k[i] = scalars[i];
    int64_t at = ((int64_t)(blockIdx.x - t.first[which]) * THREADS + threadIdx.x) * 8;
    if (at + 8 <= n) {
        uint4 h = *reinterpret_cast<const uint4 *>(high + at),
              r = *reinterpret_cast<const uint4 *>(rest + at);
        vec8 gradient = device_load(g + at), mm = device_load(m + at), vv = device_load(v + at);
        uint32_t hw[4] = {h.x, h.y, h.z, h.w}, rw[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int shift = i % 2 * 16;
            uint32_t one = hw[i / 2] >> shift & 0xffffu, low = rw[i / 2] >> shift & 0xffffu;
            adam_one(a, gradient.v[i], one, low, mm.v[i], vv.v[i]);
            hw[i / 2] = (hw[i / 2] & ~(0xffffu << shift)) | one << shift;
            rw[i / 2] = (rw[i / 2] & ~(0xffffu << shift)) | low << shift;
        }
        *reinterpret_cast<uint4 *>(high + at) = make_uint4(hw[0], hw[1], hw[2], hw[3]);
        *reinterpret_cast<uint4 *>(rest + at) = make_uint4(rw[0], rw[1], rw[2], rw[3]);
        device_store(m + at, mm);
        device_store(v + at, vv);
    } else {
        for (; at < n; at++) {
            uint32_t one = high[at], low = rest[at];
            adam_one(a, device_to_float(g[at]), one, low, m[at], v[at]);
            high[at] = (uint16_t)one;
            rest[at] = (uint16_t)low;
        }
    }
}

extern "C" int cuda_adam_split_many(int count, const struct cuda_update *tensors,
                                    enum cuda_dtype gradient, const float *scalars,
                                    cuda_stream stream)
{
    many t;
    uint32_t blocks = 0;
    t.count = 0;
    for (int i = 0; i < count; i++) {
        if (tensors[i].n > 0) {
            t.first[t.count] = blocks;
            t.tensors[t.count++] = tensors[i];
            blocks += (uint32_t)((tensors[i].n + THREADS * 8 - 1) / (THREADS * 8));
        }
        if (t.count && (t.count == MANY || i + 1 == count)) {
            if (gradient == CUDA_BF16)
                adam_split<bf16><<<blocks, THREADS, 0, stream>>>(t, scalars);
            else
                adam_split<float><<<blocks, THREADS, 0, stream>>>(t, scalars);
            t.count = 0;
            blocks = 0;
        }
    }
    return (int)cudaGetLastError();
}

extern "C" int cuda_adam_split(int64_t n, enum cuda_dtype gradient, const float *scalars,
                               const void *g, uint16_t *high, uint16_t *rest, float *m, float *v,
                               cuda_stream stream)
{
    struct cuda_update one = {n, g, high, rest, m, v};
    return cuda_adam_split_many(1, &one, gradient, scalars, stream);
}

/* ---- every optimizer -------------------------------------------------------------------------- */

/* Places of the scalars, as in kernel/update.c. */
enum { RATE, DECAY, FIRST, SIGN = KERNEL_UPDATE_SCALARS - 1 };
#define PLACE(kind, name) kind##_##name,
#define PLACES(kind) enum { kind##_before = FIRST - 1, KERNEL_SCALARS_##kind(PLACE) kind##_behind };
KERNEL_SCALARS(PLACES)

struct element {
    float w, s0, s1, s2;
};

/* One element of kernel/update.c; LARS and LAMB have kernels of their own. */
__device__ static inline void update_one(int f, unsigned flags, const float *k, float g, element &e)
{
    g = g * k[SIGN];
    g = k[DECAY] != 0.0f ? fmaf(k[DECAY], e.w, g) : g;
    bool has_momentum = flags & KERNEL_UPDATE_MOMENTUM;
    switch (f) {
    case KERNEL_UPDATE_SGD:
        if (!has_momentum) {
            e.w = fmaf(-k[RATE], g, e.w);
        } else {
            e.s0 = fmaf(k[SGD_fresh], g, k[SGD_carry] * e.s0);
            e.w = fmaf(-k[RATE],
                       flags & KERNEL_UPDATE_NESTEROV ? fmaf(k[SGD_momentum], e.s0, g) : e.s0, e.w);
        }
        break;
    case KERNEL_UPDATE_ADAM: {
        e.s0 = fmaf(k[ADAM_rest1], g, k[ADAM_beta1] * e.s0);
        e.s1 = fmaf(k[ADAM_rest2] * g, g, k[ADAM_beta2] * e.s1);
        float square = e.s1;
        if (flags & KERNEL_UPDATE_AMSGRAD)
            square = e.s2 = e.s2 > e.s1 ? e.s2 : e.s1;
        e.w = e.w * k[ADAM_keep] - k[RATE] * e.s0 / (sqrtf(square) / k[ADAM_root2] + k[ADAM_eps]);
        break;
    }
    case KERNEL_UPDATE_RMSPROP: {
        e.s0 = fmaf(k[RMSPROP_rest_alpha] * g, g, k[RMSPROP_alpha] * e.s0);
        float square = e.s0;
        if (flags & KERNEL_UPDATE_CENTERED) {
            float &mean = has_momentum ? e.s2 : e.s1;
            mean = fmaf(k[RMSPROP_rest_alpha], g, k[RMSPROP_alpha] * mean);
            square = e.s0 - mean * mean;
        }
        float d = g / (sqrtf(square) + k[RMSPROP_eps]);
        if (has_momentum)
            d = e.s1 = k[RMSPROP_momentum] * e.s1 + d;
        e.w = fmaf(-k[RATE], d, e.w);
        break;
    }
    case KERNEL_UPDATE_ADAGRAD:
        e.s0 = fmaf(g, g, e.s0);
        e.w = fmaf(-k[RATE], g / (sqrtf(e.s0) + k[ADAGRAD_eps]), e.w);
        break;
    case KERNEL_UPDATE_ADADELTA: {
        e.s0 = fmaf(k[ADADELTA_rest_rho] * g, g, k[ADADELTA_rho] * e.s0);
        float d = sqrtf(e.s1 + k[ADADELTA_eps]) / sqrtf(e.s0 + k[ADADELTA_eps]) * g;
        e.s1 = fmaf(k[ADADELTA_rest_rho] * d, d, k[ADADELTA_rho] * e.s1);
        e.w = fmaf(-k[RATE], d, e.w);
        break;
    }
    case KERNEL_UPDATE_ADAMAX: {
        e.s0 = fmaf(k[ADAMAX_rest1], g, k[ADAMAX_beta1] * e.s0);
        float a = fabsf(g) + k[ADAMAX_eps], b = k[ADAMAX_beta2] * e.s1;
        e.s1 = a > b ? a : b;
        e.w -= k[RATE] * e.s0 / e.s1;
        break;
    }
    case KERNEL_UPDATE_NADAM: {
        e.s0 = fmaf(k[NADAM_rest1], g, k[NADAM_beta1] * e.s0);
        e.s1 = fmaf(k[NADAM_rest2] * g, g, k[NADAM_beta2] * e.s1);
        float d = sqrtf(e.s1 / k[NADAM_power2]) + k[NADAM_eps];
        e.w -= k[RATE] * (g / d) + k[NADAM_momentum_rate] * (e.s0 / d);
        break;
    }
    default: { /* KERNEL_UPDATE_RADAM */
        e.s0 = fmaf(k[RADAM_rest1], g, k[RADAM_beta1] * e.s0);
        e.s1 = fmaf(k[RADAM_rest2] * g, g, k[RADAM_beta2] * e.s1);
        float d = k[RADAM_rectified] != 0.0f
                      ? e.s0 * k[RADAM_rectified] / (sqrtf(e.s1) + k[RADAM_eps])
                      : e.s0;
        e.w = fmaf(-k[RATE], d, e.w);
    }
    }
}

struct operands {
    struct cuda_in g;
    float *w; /* NULL: split */
    uint16_t *high, *rest;
    float *s[3];
};

__device__ static inline float weight_of(const operands &o, int64_t i)
{
    if (o.w)
        return o.w[i];
    uint32_t low = o.rest[i];
    return __uint_as_float((((uint32_t)o.high[i] - (low >> 15)) << 16) | low);
}

__device__ static inline void put_weight(const operands &o, int64_t i, float w)
{
    if (o.w) {
        o.w[i] = w;
        return;
    }
    uint32_t u = __float_as_uint(w);
    o.rest[i] = (uint16_t)u;
    o.high[i] = (uint16_t)((u >> 16) + (u >> 15 & 1u));
}

__global__ void __launch_bounds__(THREADS)
    update_all(int f, unsigned flags, int64_t n, const float *__restrict__ scalars, operands o)
{
    float k[KERNEL_UPDATE_SCALARS];
#pragma unroll
    for (int i = 0; i < KERNEL_UPDATE_SCALARS; i++)
        k[i] = scalars[i];
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        element e = {weight_of(o, i), o.s[0] ? o.s[0][i] : 0.0f, o.s[1] ? o.s[1][i] : 0.0f,
                     o.s[2] ? o.s[2][i] : 0.0f};
        update_one(f, flags, k, typed_get(o.g, i), e);
        put_weight(o, i, e.w);
        if (o.s[0])
            o.s[0][i] = e.s0;
        if (o.s[1])
            o.s[1][i] = e.s1;
        if (o.s[2])
            o.s[2][i] = e.s2;
    }
}

/* ---- LARS and LAMB: norms of whole tensors ------------------------------------------------------ */

#define SEGMENTS 64
#define PIECE 1024 /* elements summed as floats in 16 lanes: kernel_dot_row */
#define LANES 16
#define SHORT 64

/* What is squared: weights, gradient, or LAMB's step. */
enum norm_of { NORM_W, NORM_G, NORM_U };

__device__ static inline float norm_element(const operands &o, const float *u, int which, int64_t i)
{
    return which == NORM_W ? weight_of(o, i) : which == NORM_G ? typed_get(o.g, i) : u[i];
}

/* Block: a segment; 16 threads: a piece. partial[segment] in the order of kernel/update.c. */
__global__ void __launch_bounds__(THREADS)
    norm_segments(int64_t n, operands o, const float *u, int which, double *__restrict__ partial)
{
    __shared__ float pieces[THREADS / LANES];
    int64_t first = n * blockIdx.x / SEGMENTS, count = n * (blockIdx.x + 1) / SEGMENTS - first;
    double sum = 0;
    if (count <= SHORT) {
        if (threadIdx.x == 0) {
            for (int64_t i = 0; i < count; i++) {
                double x = (double)norm_element(o, u, which, first + i);
                sum += x * x;
            }
            partial[blockIdx.x] = sum;
        }
        return;
    }
    int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    for (int64_t base = 0; base < count; base += (int64_t)PIECE * (THREADS / LANES)) {
        int64_t piece = base + (int64_t)group * PIECE;
        int64_t end = piece + PIECE < count ? piece + PIECE : count;
        float mine = 0;
        for (int64_t i = piece + lane; i < end; i += LANES) {
            float x = norm_element(o, u, which, first + i);
            mine += x * x;
        }
#pragma unroll
        for (int step = LANES / 2; step; step /= 2)
            mine += __shfl_down_sync(0xffffffffu, mine, step, LANES);
        if (lane == 0)
            pieces[group] = mine;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int g = 0; g < THREADS / LANES && base + (int64_t)g * PIECE < count; g++)
                sum += (double)pieces[g];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* rate = lr times the trust ratio, from partial sums of two norms. */
__global__ void trust_rate(int f, unsigned flags, const float *__restrict__ k,
                           const double *__restrict__ partial, float *__restrict__ rate)
{
    double norm[2];
    for (int which = 0; which < 2; which++) {
        double sum = 0;
        for (int i = 0; i < SEGMENTS; i++)
            sum += partial[which * SEGMENTS + i];
        norm[which] = sqrt(sum);
    }
    double w = norm[0], other = norm[1], trust = 1;
    bool has_trust = !(flags & KERNEL_UPDATE_NO_TRUST);
    if (f == KERNEL_UPDATE_LARS && has_trust && w > 0 && other > 0)
        trust = (double)k[LARS_eeta] * w / (other + (double)k[DECAY] * w + (double)k[LARS_eps]);
    if (f == KERNEL_UPDATE_LAMB && has_trust && k[DECAY] != 0.0f && w > 0 && other > 0)
        trust = w / other;
    *rate = (float)((double)k[RATE] * trust);
}

__global__ void __launch_bounds__(THREADS)
    lars_all(unsigned flags, int64_t n, const float *__restrict__ k, const float *rate, operands o)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        float w = weight_of(o, i), d = typed_get(o.g, i) * k[SIGN];
        if (!(flags & KERNEL_UPDATE_NO_TRUST))
            d = d + k[DECAY] * w;
        if (flags & KERNEL_UPDATE_MOMENTUM)
            d = o.s[0][i] = k[LARS_carry] * o.s[0][i] + d;
        put_weight(o, i, w - *rate * d);
    }
}

__global__ void __launch_bounds__(THREADS)
    lamb_all(int64_t n, const float *__restrict__ k, operands o, float *__restrict__ u)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        float g = typed_get(o.g, i) * k[SIGN];
        float m = o.s[0][i] = k[LAMB_beta1] * o.s[0][i] + k[LAMB_rest1] * g;
        float v = o.s[1][i] = k[LAMB_beta2] * o.s[1][i] + k[LAMB_rest2] * (g * g);
        u[i] = m / k[LAMB_power1] / (sqrtf(v / k[LAMB_power2]) + k[LAMB_eps]) +
               k[DECAY] * weight_of(o, i);
    }
}

__global__ void __launch_bounds__(THREADS)
    lamb_apply(int64_t n, const float *rate, operands o, const float *__restrict__ u)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS)
        put_weight(o, i, weight_of(o, i) - *rate * u[i]);
}

static bool has_norms(int f)
{
    return f == KERNEL_UPDATE_LARS || f == KERNEL_UPDATE_LAMB;
}

/* Partial sums and the rate, then LAMB's step. */
#define NORM_BYTES (2 * SEGMENTS * sizeof(double) + 256)

extern "C" size_t cuda_update_workspace(const struct kernel_update_desc *d, bool is_split)
{
    (void)is_split;
    return has_norms(d->f)
               ? NORM_BYTES + (d->f == KERNEL_UPDATE_LAMB ? (size_t)d->n * sizeof(float) : 0)
               : 0;
}

extern "C" int cuda_update(const struct kernel_update_desc *d, const float *scalars,
                           struct cuda_in g, float *w, uint16_t *high, uint16_t *rest,
                           float *const states[3], void *workspace, cuda_stream stream)
{
    g.p = (const char *)g.p + d->first * (g.dtype == KERNEL_F32 ? 4 : 2);
    w = w ? w + d->first : NULL;
    high = high ? high + d->first : NULL;
    rest = rest ? rest + d->first : NULL;
    operands o = {g, w, high, rest, {states[0], states[1], states[2]}};
    if (d->n <= 0)
        return 0;
    bool is_aligned = cuda_is_aligned(g.p) && cuda_is_aligned(high) && cuda_is_aligned(rest) &&
                      cuda_is_aligned(states[0]) && cuda_is_aligned(states[1]);
    if (d->f == KERNEL_UPDATE_ADAM && !w && !d->flags && is_aligned && g.dtype != KERNEL_F16)
        return cuda_adam_split(d->n, g.dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32, scalars, g.p,
                               high, rest, states[0], states[1], stream);
    int64_t want = (d->n + THREADS - 1) / THREADS;
    unsigned blocks = (unsigned)(want > 1 << 20 ? 1 << 20 : want);
    double *partial = (double *)workspace;
    float *rate = (float *)(partial + 2 * SEGMENTS);
    float *u = (float *)((char *)workspace + NORM_BYTES);
    if (!has_norms(d->f)) {
        update_all<<<blocks, THREADS, 0, stream>>>(d->f, d->flags, d->n, scalars, o);
        return (int)cudaGetLastError();
    }
    bool is_lamb = d->f == KERNEL_UPDATE_LAMB;
    if (is_lamb)
        lamb_all<<<blocks, THREADS, 0, stream>>>(d->n, scalars, o, u);
    norm_segments<<<SEGMENTS, THREADS, 0, stream>>>(d->n, o, u, NORM_W, partial);
    norm_segments<<<SEGMENTS, THREADS, 0, stream>>>(d->n, o, u, is_lamb ? NORM_U : NORM_G,
                                                    partial + SEGMENTS);
    trust_rate<<<1, 1, 0, stream>>>(d->f, d->flags, scalars, partial, rate);
    if (is_lamb)
        lamb_apply<<<blocks, THREADS, 0, stream>>>(d->n, rate, o, u);
    else
        lars_all<<<blocks, THREADS, 0, stream>>>(d->flags, d->n, scalars, rate, o);
    return (int)cudaGetLastError();
}
