/* each.cu - element-wise kernels on operands of any type and any strides.
 *
 * An index space is merged as kernel/binary.c does it; where every operand's last step is 1 (or 0: repeated) and lengths,
 * strides and addresses allow it, a thread has eight elements, else one. */
#include "cuda/typed.cuh"

#define THREADS 256
#define MOST_BLOCKS (1 << 20) /* then threads go round */

static unsigned blocks_for(int64_t threads)
{
    int64_t blocks = (threads + THREADS - 1) / THREADS;
    return (unsigned)(blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks);
}

/* ---- index spaces ----------------------------------------------------------------------------- */

struct walk {
    int rank, is_small; /* small: 32 bits are enough for the count */
    int64_t total;
    int64_t dims[KERNEL_RANK];
    int64_t stride[4][KERNEL_RANK];
};

static walk merge(const struct kernel_nd *in, int operands)
{
    walk w = {};
    for (int d = 0; d < in->rank; d++) {
        if (in->dims[d] == 1)
            continue;
        int last = w.rank - 1;
        bool is_even = last >= 0;
        for (int k = 0; is_even && k < operands; k++)
            is_even = w.stride[k][last] == in->stride[k][d] * in->dims[d];
        if (is_even)
            w.dims[last] *= in->dims[d];
        else
            w.dims[last = w.rank++] = in->dims[d];
        for (int k = 0; k < operands; k++)
            w.stride[k][last] = in->stride[k][d];
    }
    if (w.rank == 0) {
        w.rank = 1;
        w.dims[0] = 1;
    }
    w.total = 1;
    for (int d = 0; d < w.rank; d++)
        w.total *= w.dims[d];
    w.is_small = w.total < INT32_MAX;
    return w;
}

/* Can every operand be walked `width` elements at a time? */
static bool is_wide(const walk *w, int operands, int width)
{
    int last = w->rank - 1;
    bool can = w->dims[last] % width == 0 && w->stride[0][last] == 1;
    for (int k = 0; k < operands && can; k++) {
        can = w->stride[k][last] == 1 || w->stride[k][last] == 0;
        for (int d = 0; d < last && can; d++)
            can = w->stride[k][d] % width == 0;
    }
    return can;
}

static void widen(walk *w, int operands, int width)
{
    int last = w->rank - 1;
    w->dims[last] /= width;
    w->total /= width;
    for (int k = 0; k < operands; k++)
        w->stride[k][last] *= width;
}

template <int OPERANDS>
__device__ static inline void locate(const walk &w, int64_t index, int64_t (&at)[OPERANDS])
{
#pragma unroll
    for (int k = 0; k < OPERANDS; k++)
        at[k] = 0;
    if (w.is_small) {
        uint32_t i = (uint32_t)index;
        for (int d = w.rank - 1; d > 0; d--) {
            uint32_t n = (uint32_t)w.dims[d], rest = i / n, here = i - rest * n;
#pragma unroll
            for (int k = 0; k < OPERANDS; k++)
                at[k] += (int64_t)here * w.stride[k][d];
            i = rest;
        }
        index = i;
    } else {
        for (int d = w.rank - 1; d > 0; d--) {
            int64_t rest = index / w.dims[d], here = index - rest * w.dims[d];
#pragma unroll
            for (int k = 0; k < OPERANDS; k++)
                at[k] += here * w.stride[k][d];
            index = rest;
        }
    }
#pragma unroll
    for (int k = 0; k < OPERANDS; k++)
        at[k] += index * w.stride[k][0];
}

/* W elements of an operand, or one repeated. */
template <int W>
__device__ static inline typed_vec<W> take(struct cuda_in a, int64_t at, bool is_repeated)
{
    if (W == 1 || !is_repeated)
        return typed_load<W>(a, at);
    typed_vec<W> r;
    float v = typed_get(a, at);
#pragma unroll
    for (int k = 0; k < W; k++)
        r.v[k] = v;
    return r;
}

#define EACH_INDEX(i, total)                                                                       \
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (total);                     \
         i += (int64_t)gridDim.x * THREADS)

/* ---- two operands ----------------------------------------------------------------------------- */

template <int W>
__device__ static inline typed_vec<W> binary_of(int f, const typed_vec<W> &a, const typed_vec<W> &b)
{
    typed_vec<W> r;
#define CASE(name, value)                                                                          \
    case KERNEL_##name:                                                                            \
        _Pragma("unroll") for (int k = 0; k < W; k++)                                              \
        {                                                                                          \
            const float p = a.v[k], q = b.v[k];                                                    \
            r.v[k] = value;                                                                        \
        }                                                                                          \
        break;
    switch (f) {
        CASE(ADD, p + q)
        CASE(SUB, p - q)
        CASE(MUL, p * q)
        CASE(DIV, p / q)
        CASE(MAXIMUM, p > q || p != p ? p : q)
        CASE(MINIMUM, p < q || p != p ? p : q)
        CASE(GREATER_HALF, p > q ? 1.0f : p == q ? 0.5f : 0.0f)
        CASE(EQUAL, p == q ? 1.0f : 0.0f)
    default: /* KERNEL_GATE */
#pragma unroll
        for (int k = 0; k < W; k++)
            r.v[k] = b.v[k] > 0.0f ? a.v[k] : 0.0f;
    }
#undef CASE
    return r;
}

template <int W>
__global__ void __launch_bounds__(THREADS)
    binary_walk(const __grid_constant__ walk w, int f, struct cuda_in a, struct cuda_in b,
                struct cuda_out y)
{
    bool is_a = w.stride[1][w.rank - 1] == 0, is_b = w.stride[2][w.rank - 1] == 0;
    EACH_INDEX(i, w.total)
    {
        int64_t at[3];
        locate<3>(w, i, at);
        typed_store<W>(y, at[0], binary_of<W>(f, take<W>(a, at[1], is_a), take<W>(b, at[2], is_b)));
    }
}

static bool is_dense(const walk *w, int operands)
{
    bool is = w->rank == 1;
    for (int k = 0; k < operands; k++)
        is = is && w->stride[k][0] == 1;
    return is;
}

extern "C" int cuda_each_binary(int f, const struct kernel_nd *nd, struct cuda_in a,
                                struct cuda_in b, struct cuda_out y, cuda_stream stream)
{
    walk w = merge(nd, 3);
    if (w.total == 0)
        return 0;
    bool is_aligned = cuda_is_aligned(a.p) && cuda_is_aligned(b.p) && cuda_is_aligned(y.p);
    bool is_one_type = a.dtype == y.dtype && b.dtype == y.dtype;
    if (f == KERNEL_ADD && is_aligned && is_one_type && y.dtype != KERNEL_F16 && is_dense(&w, 3))
        return cuda_add(w.total, y.dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32, a.p, b.p, y.p,
                        stream);
    if (is_aligned && is_wide(&w, 3, 8)) {
        widen(&w, 3, 8);
        binary_walk<8><<<blocks_for(w.total), THREADS, 0, stream>>>(w, f, a, b, y);
    } else {
        binary_walk<1><<<blocks_for(w.total), THREADS, 0, stream>>>(w, f, a, b, y);
    }
    return (int)cudaGetLastError();
}

/* ---- masks ------------------------------------------------------------------------------------ */

__global__ void __launch_bounds__(THREADS)
    mask_walk(const __grid_constant__ walk w, bool invert, float scale, float fill,
              struct cuda_in x, const uint8_t *m, struct cuda_out y)
{
    EACH_INDEX(i, w.total)
    {
        int64_t at[3];
        locate<3>(w, i, at);
        bool is_on = (m[at[2]] != 0) != invert;
        typed_put(y, at[0], is_on ? typed_get(x, at[1]) * scale : fill);
    }
}

extern "C" int cuda_each_mask(const struct kernel_nd *nd, bool invert, float scale, float fill,
                              struct cuda_in x, const uint8_t *m, struct cuda_out y,
                              cuda_stream stream)
{
    walk w = merge(nd, 3);
    if (w.total == 0)
        return 0;
    mask_walk<<<blocks_for(w.total), THREADS, 0, stream>>>(w, invert, scale, fill, x, m, y);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    where_walk(const __grid_constant__ walk w, const uint8_t *m, struct cuda_in a, struct cuda_in b,
               struct cuda_out y)
{
    EACH_INDEX(i, w.total)
    {
        int64_t at[4];
        locate<4>(w, i, at);
        typed_put(y, at[0], m[at[1]] ? typed_get(a, at[2]) : typed_get(b, at[3]));
    }
}

extern "C" int cuda_each_where(const struct kernel_nd *nd, const uint8_t *m, struct cuda_in a,
                               struct cuda_in b, struct cuda_out y, cuda_stream stream)
{
    walk w = merge(nd, 4);
    if (w.total == 0)
        return 0;
    where_walk<<<blocks_for(w.total), THREADS, 0, stream>>>(w, m, a, b, y);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    truth_all(int64_t n, const void *x, int dtype, uint8_t *__restrict__ y)
{
    EACH_INDEX(i, n)
    {
        bool is = dtype == KERNEL_I64   ? ((const int64_t *)x)[i] != 0
                  : dtype == KERNEL_I32 ? ((const int32_t *)x)[i] != 0
                  : dtype == KERNEL_I16 ? ((const int16_t *)x)[i] != 0
                  : dtype == KERNEL_F64 ? ((const double *)x)[i] != 0
                  : dtype == KERNEL_F32 || dtype == KERNEL_BF16 || dtype == KERNEL_F16
                      ? typed_get({x, dtype}, i) != 0.0f
                      : ((const uint8_t *)x)[i] != 0;
        y[i] = is;
    }
}

extern "C" int cuda_each_truth(int64_t n, const void *x, int dtype, uint8_t *y, cuda_stream stream)
{
    if (n <= 0)
        return 0;
    truth_all<<<blocks_for(n), THREADS, 0, stream>>>(n, x, dtype, y);
    return (int)cudaGetLastError();
}

/* ---- copies ----------------------------------------------------------------------------------- */

template <class T>
__global__ void __launch_bounds__(THREADS)
    copy_walk(const __grid_constant__ walk w, const T *__restrict__ from, T *__restrict__ to)
{
    EACH_INDEX(i, w.total)
    {
        int64_t at[2];
        locate<2>(w, i, at);
        to[at[0]] = from[at[1]];
    }
}

/* The source runs along dimension `fast`, the target along the last: squares of TILE through shared memory. */
#define TILE 32

template <class T>
__global__ void __launch_bounds__(TILE * 8)
    copy_turn(const __grid_constant__ walk w, int fast, const T *__restrict__ from,
              T *__restrict__ to)
{
    __shared__ T square[TILE][TILE + 1];
    int last = w.rank - 1;
    int64_t index = blockIdx.z, target = 0, source = 0;
    for (int d = last - 1; d >= 0; d--) {
        if (d == fast)
            continue;
        target += index % w.dims[d] * w.stride[0][d];
        source += index % w.dims[d] * w.stride[1][d];
        index /= w.dims[d];
    }
    int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
    for (int k = y; k < TILE; k += 8) /* row: along fast; column: along last */
        if (column + k < w.dims[last] && row + x < w.dims[fast])
            square[k][x] = from[source + (column + k) * w.stride[1][last] + row + x];
    __syncthreads();
    for (int k = y; k < TILE; k += 8)
        if (row + k < w.dims[fast] && column + x < w.dims[last])
            to[target + (row + k) * w.stride[0][fast] + column + x] = square[x][k];
}

/* The dimension along which a transposition's source runs, or -1. */
static int fast_dimension(const walk *w)
{
    int last = w->rank - 1;
    if (w->stride[0][last] != 1 || w->stride[1][last] <= 1)
        return -1;
    for (int d = 0; d < last; d++)
        if (w->stride[1][d] == 1 && w->dims[d] >= 8 && w->dims[last] >= 8)
            return d;
    return -1;
}

template <class T> static int copy(walk w, const void *from, void *to, cudaStream_t stream)
{
    int fast = sizeof(T) <= 8 ? fast_dimension(&w) : -1;
    if (fast >= 0) {
        int64_t rest = w.total / (w.dims[fast] * w.dims[w.rank - 1]);
        int64_t rows = (w.dims[fast] + TILE - 1) / TILE;
        if (rest <= 65535 && rows <= 65535) {
            dim3 grid((unsigned)((w.dims[w.rank - 1] + TILE - 1) / TILE), (unsigned)rows,
                      (unsigned)rest);
            copy_turn<T><<<grid, TILE * 8, 0, stream>>>(w, fast, (const T *)from, (T *)to);
            return (int)cudaGetLastError();
        }
    }
    copy_walk<T><<<blocks_for(w.total), THREADS, 0, stream>>>(w, (const T *)from, (T *)to);
    return (int)cudaGetLastError();
}

extern "C" int cuda_each_copy(const struct kernel_nd *nd, size_t element_bytes, const void *from,
                              void *to, cuda_stream stream)
{
    walk w = merge(nd, 2);
    if (w.total == 0)
        return 0;
    int width = (int)(16 / element_bytes), last = w.rank - 1;
    if (cuda_is_aligned(from) && cuda_is_aligned(to) && is_wide(&w, 2, width) &&
        w.stride[1][last] == 1) {
        for (int k = 0; k < 2; k++)
            for (int d = 0; d < last; d++)
                w.stride[k][d] /= width;
        w.dims[last] /= width;
        w.total /= width;
        return copy<uint4>(w, from, to, stream);
    }
    switch (element_bytes) {
    case 1:
        return copy<uint8_t>(w, from, to, stream);
    case 2:
        return copy<uint16_t>(w, from, to, stream);
    case 4:
        return copy<uint32_t>(w, from, to, stream);
    default:
        return copy<uint64_t>(w, from, to, stream);
    }
}

/* ---- one operand ------------------------------------------------------------------------------ */

#define SQRT_1_2 0.70710678118654752f
#define GELU_C 0.79788456080286536f /* sqrt(2 / pi) */
#define GELU_K 0.044715f

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

__device__ static inline float gelu_tanh_grad(float x)
{
    float t = tanhf(GELU_C * (x + GELU_K * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * GELU_C * (1.0f + 3.0f * GELU_K * x * x);
}

__device__ static inline float pow_fast(float x, float e)
{
    return e == 2.0f ? x * x : e == 3.0f ? x * x * x : e == 1.0f ? x : powf(x, e);
}

__device__ static inline float silu_grad(float x)
{
    float s = sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}

/* As in kernel/unary.c: name, value from v, slope from the saved s. */
#define UNARY_TABLE(X)                                                                             \
    X(NEG, -v, -1.0f)                                                                              \
    X(ABS, fabsf(v), s > 0.0f ? 1.0f : s < 0.0f ? -1.0f : 0.0f)                                    \
    X(EXP, expf(v), s)                                                                             \
    X(LOG, logf(v), 1.0f / s)                                                                      \
    X(SQRT, sqrtf(v), s == 0.0f ? 0.0f : 0.5f / s)                                                 \
    X(RSQRT, 1.0f / sqrtf(v), -0.5f * s * s * s)                                                   \
    X(SQUARE, v *v, 2.0f * s)                                                                      \
    X(RECIPROCAL, 1.0f / v, -s * s)                                                                \
    X(ERF, erff(v), 1.1283791670955126f * expf(-s * s))                                            \
    X(SIN, sinf(v), cosf(s))                                                                       \
    X(COS, cosf(v), -sinf(s))                                                                      \
    X(RELU, v<0.0f ? 0.0f : v, s> 0.0f ? 1.0f : 0.0f)                                              \
    X(RELU6, v<0.0f ? 0.0f : v> 6.0f ? 6.0f : v, s > 0.0f && s < 6.0f ? 1.0f : 0.0f)               \
    X(LEAKY_RELU, v > 0.0f ? v : a * v, s > 0.0f ? 1.0f : a)                                       \
    X(ELU, v > 0.0f ? v : a * expm1f(v), s > 0.0f ? 1.0f : a * expf(s))                            \
    X(SIGMOID, sigmoid(v), s *(1.0f - s))                                                          \
    X(TANH, tanhf(v), 1.0f - s * s)                                                                \
    X(GELU, 0.5f * v * (1.0f + erff(v * SQRT_1_2)),                                                \
      0.5f * (1.0f + erff(s * SQRT_1_2)) + s * 0.3989422804014327f * expf(-0.5f * s * s))          \
    X(GELU_TANH, 0.5f * v * (1.0f + tanhf(GELU_C * (v + GELU_K * v * v * v))), gelu_tanh_grad(s))  \
    X(SILU, v *sigmoid(v), silu_grad(s))                                                           \
    X(SOFTPLUS, a *v > b ? v : log1pf(expf(a * v)) / a, a * s > b ? 1.0f : sigmoid(a * s))         \
    X(HARDSWISH,                                                                                   \
      v *(v < -3.0f  ? 0.0f                                                                        \
          : v > 3.0f ? 6.0f                                                                        \
                     : v + 3.0f) /                                                                 \
          6.0f,                                                                                    \
      s < -3.0f  ? 0.0f                                                                            \
      : s > 3.0f ? 1.0f                                                                            \
                 : s / 3.0f + 0.5f)                                                                \
    X(HARDSIGMOID,                                                                                 \
      (v < -3.0f  ? 0.0f                                                                           \
       : v > 3.0f ? 6.0f                                                                           \
                  : v + 3.0f) /                                                                    \
          6.0f,                                                                                    \
      s > -3.0f && s < 3.0f ? 1.0f / 6.0f : 0.0f)                                                  \
    X(CLAMP, v<a ? a : v> b ? b : v, s >= a && s <= b ? 1.0f : 0.0f)                               \
    X(POW, pow_fast(v, a), a == 0.0f ? 0.0f : a * pow_fast(s, a - 1.0f))                           \
    X(ADD_SCALAR, v + a, 1.0f)                                                                     \
    X(MUL_SCALAR, v *a, a)

/* Not unrolled: a step has few of these, and 27 functions eight times over are slow to compile. */
template <int W>
__device__ static inline typed_vec<W> unary_values(int f, typed_vec<W> x, float a, float b)
{
#define X(name, value, slope)                                                                      \
    case KERNEL_##name:                                                                            \
        r = value;                                                                                 \
        break;
#pragma unroll 1
    for (int k = 0; k < W; k++) {
        float r, v = x.v[0];
        switch (f) {
            UNARY_TABLE(X)
        default:
            r = v;
        }
#pragma unroll
        for (int j = 0; j + 1 < W; j++) /* round: registers have no index */
            x.v[j] = x.v[j + 1];
        x.v[W - 1] = r;
    }
#undef X
    return x;
}

template <int W>
__device__ static inline typed_vec<W> unary_slopes(int f, typed_vec<W> x, float a, float b)
{
#define X(name, value, slope)                                                                      \
    case KERNEL_##name:                                                                            \
        r = slope;                                                                                 \
        break;
#pragma unroll 1
    for (int k = 0; k < W; k++) {
        float r, s = x.v[0];
        switch (f) {
            UNARY_TABLE(X)
        default:
            r = 1.0f;
        }
#pragma unroll
        for (int j = 0; j + 1 < W; j++)
            x.v[j] = x.v[j + 1];
        x.v[W - 1] = r;
    }
#undef X
    return x;
}

template <int W>
__global__ void __launch_bounds__(THREADS)
    unary_all(int f, int64_t n, float a, float b, struct cuda_in x, struct cuda_out y)
{
    EACH_INDEX(i, n / W)
    {
        typed_store<W>(y, i * W, unary_values<W>(f, typed_load<W>(x, i * W), a, b));
    }
    if (W > 1 && blockIdx.x == 0 && threadIdx.x < n % W) {
        int64_t i = n / W * W + threadIdx.x;
        typed_store<1>(y, i, unary_values<1>(f, typed_load<1>(x, i), a, b));
    }
}

template <int W>
__device__ static inline void slope_at(int f, int64_t i, float a, float b, struct cuda_in dy,
                                       struct cuda_in s, struct cuda_out dx)
{
    typed_vec<W> g = typed_load<W>(dy, i), r = unary_slopes<W>(f, typed_load<W>(s, i), a, b);
#pragma unroll
    for (int k = 0; k < W; k++)
        r.v[k] *= g.v[k];
    typed_store<W>(dx, i, r);
}

template <int W>
__global__ void __launch_bounds__(THREADS)
    unary_grad_all(int f, int64_t n, float a, float b, struct cuda_in dy, struct cuda_in s,
                   struct cuda_out dx)
{
    EACH_INDEX(i, n / W)
    {
        slope_at<W>(f, i * W, a, b, dy, s, dx);
    }
    if (W > 1 && blockIdx.x == 0 && threadIdx.x < n % W)
        slope_at<1>(f, n / W * W + threadIdx.x, a, b, dy, s, dx);
}

/* The instance by type of a function, or -1. */
static int fast_unary(int f, int dtype)
{
    if (dtype == KERNEL_F16)
        return -1;
    return f == KERNEL_RELU        ? (int)CUDA_RELU
           : f == KERNEL_GELU      ? (int)CUDA_GELU
           : f == KERNEL_GELU_TANH ? (int)CUDA_GELU_TANH
                                   : -1;
}

extern "C" int cuda_each_unary(int f, int64_t n, float a, float b, struct cuda_in x,
                               struct cuda_out y, cuda_stream stream)
{
    if (n <= 0)
        return 0;
    int fast = x.dtype == y.dtype ? fast_unary(f, y.dtype) : -1;
    bool is_aligned = cuda_is_aligned(x.p) && cuda_is_aligned(y.p);
    enum cuda_dtype type = y.dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32;
    if (fast >= 0 && is_aligned)
        return cuda_unary((enum cuda_unary)fast, n, type, x.p, type, y.p, stream);
    if (is_aligned && n >= 8)
        unary_all<8><<<blocks_for(n / 8), THREADS, 0, stream>>>(f, n, a, b, x, y);
    else
        unary_all<1><<<blocks_for(n), THREADS, 0, stream>>>(f, n, a, b, x, y);
    return (int)cudaGetLastError();
}

extern "C" int cuda_each_unary_grad(int f, int64_t n, float a, float b, struct cuda_in dy,
                                    struct cuda_in s, struct cuda_out dx, cuda_stream stream)
{
    if (n <= 0)
        return 0;
    int fast = dy.dtype == dx.dtype && s.dtype == dx.dtype ? fast_unary(f, dx.dtype) : -1;
    bool is_aligned = cuda_is_aligned(dy.p) && cuda_is_aligned(s.p) && cuda_is_aligned(dx.p);
    enum cuda_dtype type = dx.dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32;
    if (fast >= 0 && is_aligned)
        return cuda_unary_grad((enum cuda_unary)fast, n, type, dy.p, s.p, dx.p, stream);
    if (is_aligned && n >= 8)
        unary_grad_all<8><<<blocks_for(n / 8), THREADS, 0, stream>>>(f, n, a, b, dy, s, dx);
    else
        unary_grad_all<1><<<blocks_for(n), THREADS, 0, stream>>>(f, n, a, b, dy, s, dx);
    return (int)cudaGetLastError();
}

template <int W>
__device__ static inline void gate_at(int64_t i, struct cuda_in dy, struct cuda_in more,
                                      struct cuda_in y, struct cuda_out dx)
{
    typed_vec<W> g = typed_load<W>(dy, i), m = typed_load<W>(more, i), s = typed_load<W>(y, i);
#pragma unroll
    for (int k = 0; k < W; k++)
        g.v[k] = (g.v[k] + m.v[k]) * (s.v[k] > 0.0f ? 1.0f : 0.0f);
    typed_store<W>(dx, i, g);
}

template <int W>
__global__ void __launch_bounds__(THREADS)
    gate_sum(int64_t n, struct cuda_in dy, struct cuda_in more, struct cuda_in y,
             struct cuda_out dx)
{
    EACH_INDEX(i, n / W)
    {
        gate_at<W>(i * W, dy, more, y, dx);
    }
    if (W > 1 && blockIdx.x == 0 && threadIdx.x < n % W)
        gate_at<1>(n / W * W + threadIdx.x, dy, more, y, dx);
}

extern "C" int cuda_each_gate_sum(int64_t n, struct cuda_in dy, struct cuda_in more,
                                  struct cuda_in y, struct cuda_out dx, cuda_stream stream)
{
    if (n <= 0)
        return 0;
    if (cuda_is_aligned(dy.p) && cuda_is_aligned(more.p) && cuda_is_aligned(y.p) &&
        cuda_is_aligned(dx.p) && n >= 8)
        gate_sum<8><<<blocks_for(n / 8), THREADS, 0, stream>>>(n, dy, more, y, dx);
    else
        gate_sum<1><<<blocks_for(n), THREADS, 0, stream>>>(n, dy, more, y, dx);
    return (int)cudaGetLastError();
}

/* ---- constants and types ---------------------------------------------------------------------- */

template <int W>
__global__ void __launch_bounds__(THREADS) fill_all(int64_t n, float value, struct cuda_out y)
{
    typed_vec<W> v;
#pragma unroll
    for (int k = 0; k < W; k++)
        v.v[k] = value;
    EACH_INDEX(i, n / W)
    {
        typed_store<W>(y, i * W, v);
    }
    if (W > 1 && blockIdx.x == 0 && threadIdx.x < n % W)
        typed_put(y, n / W * W + threadIdx.x, value);
}

extern "C" int cuda_each_fill(int64_t n, float value, struct cuda_out y, cuda_stream stream)
{
    if (n <= 0)
        return 0;
    if (!cuda_is_number(y.dtype)) /* zeros of any other type are bytes */
        return value == 0.0f
                   ? (int)cudaMemsetAsync(y.p, 0, (size_t)n * cuda_dtype_bytes(y.dtype), stream)
                   : (int)cudaErrorInvalidValue;
    if (cuda_is_aligned(y.p) && n >= 8)
        fill_all<8><<<blocks_for(n / 8), THREADS, 0, stream>>>(n, value, y);
    else
        fill_all<1><<<blocks_for(n), THREADS, 0, stream>>>(n, value, y);
    return (int)cudaGetLastError();
}

template <int W>
__global__ void __launch_bounds__(THREADS)
    convert_all(int64_t n, struct cuda_in x, struct cuda_out y)
{
    EACH_INDEX(i, n / W)
    {
        typed_store<W>(y, i * W, typed_load<W>(x, i * W));
    }
    if (W > 1 && blockIdx.x == 0 && threadIdx.x < n % W)
        typed_put(y, n / W * W + threadIdx.x, typed_get(x, n / W * W + threadIdx.x));
}

/* A byte's share of 255, divided as the CPU does. */
__global__ void __launch_bounds__(THREADS)
    convert_bytes(int64_t n, const uint8_t *__restrict__ x, struct cuda_out y)
{
    EACH_INDEX(i, n / 8)
    {
        uint2 u = reinterpret_cast<const uint2 *>(x)[i];
        typed_vec<8> v;
#pragma unroll
        for (int k = 0; k < 8; k++)
            v.v[k] = __fdiv_rn((float)((k < 4 ? u.x : u.y) >> k % 4 * 8 & 0xffu), 255.0f);
        typed_store<8>(y, i * 8, v);
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 8)
        typed_put(y, n / 8 * 8 + threadIdx.x, __fdiv_rn((float)x[n / 8 * 8 + threadIdx.x], 255.0f));
}

extern "C" int cuda_each_convert(int64_t n, struct cuda_in x, struct cuda_out y, cuda_stream stream)
{
    if (n <= 0)
        return 0;
    if (x.dtype == KERNEL_U8 && (!cuda_is_aligned(x.p) || !cuda_is_aligned(y.p)))
        return (int)cudaErrorMisalignedAddress;
    if (x.dtype == KERNEL_U8)
        convert_bytes<<<blocks_for((n + 7) / 8), THREADS, 0, stream>>>(n, (const uint8_t *)x.p, y);
    else if (cuda_is_aligned(x.p) && cuda_is_aligned(y.p) && n >= 8)
        convert_all<8><<<blocks_for(n / 8), THREADS, 0, stream>>>(n, x, y);
    else
        convert_all<1><<<blocks_for(n), THREADS, 0, stream>>>(n, x, y);
    return (int)cudaGetLastError();
}
