/* cell.cu - gates of recurrent networks, dropout, joined master weights, a step of Adam as a value.
 *
 * Compiled with -fmad=false, as the CPU's twins are: dropout and joined weights have their bits. */
#include "cuda/typed.cuh"

#define THREADS 256

#define EACH(i, n)                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (n);                         \
         i += (int64_t)gridDim.x * THREADS)

static unsigned blocks_for(int64_t n)
{
    int64_t blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks > 1 << 20 ? 1 << 20 : blocks < 1 ? 1 : blocks);
}

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

__device__ static inline void put(struct cuda_out a, int64_t i, float v)
{
    if (a.p)
        typed_put(a, i, v);
}

__device__ static inline float get(struct cuda_in a, int64_t i)
{
    return a.p ? typed_get(a, i) : 0.0f;
}

/* ---- gates ------------------------------------------------------------------------------------ */

__global__ void __launch_bounds__(THREADS)
    lstm_all(kernel_gates_desc d, struct cuda_in a, struct cuda_in b, struct cuda_in c0,
             struct cuda_out h1, struct cuda_out c1, struct cuda_out act)
{
    EACH(at, d.rows * d.h)
    {
        int64_t g = at / d.h * 4 * d.h + at % d.h, h = d.h;
        float i = sigmoid(typed_get(a, g) + typed_get(b, g));
        float f = sigmoid(typed_get(a, g + h) + typed_get(b, g + h));
        float u = tanhf(typed_get(a, g + 2 * h) + typed_get(b, g + 2 * h));
        float o = sigmoid(typed_get(a, g + 3 * h) + typed_get(b, g + 3 * h));
        float c = f * typed_get(c0, at) + i * u;
        put(c1, at, c);
        put(h1, at, o * tanhf(c));
        put(act, g, i);
        put(act, g + h, f);
        put(act, g + 2 * h, u);
        put(act, g + 3 * h, o);
    }
}

extern "C" int cuda_lstm(const struct kernel_gates_desc *d, struct cuda_in a, struct cuda_in b,
                         struct cuda_in c0, struct cuda_out h1, struct cuda_out c1,
                         struct cuda_out act, cuda_stream stream)
{
    lstm_all<<<blocks_for(d->rows * d->h), THREADS, 0, stream>>>(*d, a, b, c0, h1, c1, act);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    lstm_grad_all(kernel_gates_desc d, struct cuda_in act, struct cuda_in c0, struct cuda_in c1,
                  struct cuda_in dh_in, struct cuda_in dc1, struct cuda_out dgates,
                  struct cuda_out dc0)
{
    EACH(at, d.rows * d.h)
    {
        int64_t g = at / d.h * 4 * d.h + at % d.h, h = d.h;
        float i = typed_get(act, g), f = typed_get(act, g + h), u = typed_get(act, g + 2 * h);
        float o = typed_get(act, g + 3 * h), t = tanhf(typed_get(c1, at));
        float dh = get(dh_in, at), dc = get(dc1, at) + dh * o * (1.0f - t * t);
        put(dgates, g, dc * u * i * (1.0f - i));
        put(dgates, g + h, dc * typed_get(c0, at) * f * (1.0f - f));
        put(dgates, g + 2 * h, dc * i * (1.0f - u * u));
        put(dgates, g + 3 * h, dh * t * o * (1.0f - o));
        put(dc0, at, dc * f);
    }
}

extern "C" int cuda_lstm_grad(const struct kernel_gates_desc *d, const struct cuda_in in[5],
                              struct cuda_out dgates, struct cuda_out dc0, cuda_stream stream)
{
    lstm_grad_all<<<blocks_for(d->rows * d->h), THREADS, 0, stream>>>(*d, in[0], in[1], in[2],
                                                                      in[3], in[4], dgates, dc0);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    gru_all(kernel_gates_desc d, struct cuda_in a, struct cuda_in b, struct cuda_in h0,
            struct cuda_out h1, struct cuda_out act)
{
    EACH(at, d.rows * d.h)
    {
        int64_t g = at / d.h * 3 * d.h + at % d.h, h = d.h;
        float r = sigmoid(typed_get(a, g) + typed_get(b, g));
        float z = sigmoid(typed_get(a, g + h) + typed_get(b, g + h));
        float n = tanhf(typed_get(a, g + 2 * h) + r * typed_get(b, g + 2 * h));
        put(h1, at, (1.0f - z) * n + z * typed_get(h0, at));
        put(act, g, r);
        put(act, g + h, z);
        put(act, g + 2 * h, n);
    }
}

extern "C" int cuda_gru(const struct kernel_gates_desc *d, struct cuda_in a, struct cuda_in b,
                        struct cuda_in h0, struct cuda_out h1, struct cuda_out act,
                        cuda_stream stream)
{
    gru_all<<<blocks_for(d->rows * d->h), THREADS, 0, stream>>>(*d, a, b, h0, h1, act);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    gru_grad_all(kernel_gates_desc d, struct cuda_in act, struct cuda_in b, struct cuda_in h0,
                 struct cuda_in dh1, struct cuda_out da, struct cuda_out db, struct cuda_out dh0)
{
    EACH(at, d.rows * d.h)
    {
        int64_t g = at / d.h * 3 * d.h + at % d.h, h = d.h;
        float r = typed_get(act, g), z = typed_get(act, g + h), n = typed_get(act, g + 2 * h);
        float dh = typed_get(dh1, at), dn = dh * (1.0f - z) * (1.0f - n * n);
        float dz = dh * (typed_get(h0, at) - n) * z * (1.0f - z);
        float dr = dn * typed_get(b, g + 2 * h) * r * (1.0f - r);
        put(da, g, dr);
        put(da, g + h, dz);
        put(da, g + 2 * h, dn);
        put(db, g, dr);
        put(db, g + h, dz);
        put(db, g + 2 * h, dn * r);
        put(dh0, at, dh * z);
    }
}

extern "C" int cuda_gru_grad(const struct kernel_gates_desc *d, const struct cuda_in in[4],
                             const struct cuda_out out[3], cuda_stream stream)
{
    gru_grad_all<<<blocks_for(d->rows * d->h), THREADS, 0, stream>>>(*d, in[0], in[1], in[2], in[3],
                                                                     out[0], out[1], out[2]);
    return (int)cudaGetLastError();
}

/* ---- dropout: Philox 4x32-10 (Salmon et al. 2011), as base/rng.c -------------------------------- */

__device__ static inline void philox(uint32_t k0, uint32_t k1, uint32_t (&c)[4])
{
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t h0 = __umulhi(0xd2511f53u, c[0]), l0 = 0xd2511f53u * c[0];
        uint32_t h1 = __umulhi(0xcd9e8d57u, c[2]), l1 = 0xcd9e8d57u * c[2];
        c[0] = h1 ^ c[1] ^ k0;
        c[1] = l1;
        c[2] = h0 ^ c[3] ^ k1;
        c[3] = l0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

__global__ void __launch_bounds__(THREADS)
    dropout_all(kernel_dropout_desc d, float scale, struct cuda_in x,
                const int64_t *__restrict__ step, struct cuda_out y)
{
    uint64_t now = (uint64_t)*step;
    EACH(block, (d.n + 3) / 4)
    {
        uint32_t u[4] = {(uint32_t)block, d.instance, (uint32_t)now, (uint32_t)(now >> 32)};
        philox((uint32_t)d.seed, (uint32_t)(d.seed >> 32), u);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t i = block * 4 + k;
            if (i < d.n)
                typed_put(y, i,
                          (float)(u[k] >> 8) * 0x1p-24f >= d.p ? typed_get(x, i) * scale : 0.0f);
        }
    }
}

extern "C" int cuda_dropout(const struct kernel_dropout_desc *d, struct cuda_in x,
                            const int64_t *step, struct cuda_out y, cuda_stream stream)
{
    float scale = d->p < 1.0f ? (float)(1.0 / (1.0 - (double)d->p)) : 0.0f;
    dropout_all<<<blocks_for((d->n + 3) / 4), THREADS, 0, stream>>>(*d, scale, x, step, y);
    return (int)cudaGetLastError();
}

/* ---- master weights, running statistics --------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS)
    join_all(int64_t n, const uint16_t *__restrict__ high, const uint16_t *__restrict__ rest,
             float *__restrict__ w)
{
    EACH(i, n)
    {
        uint32_t low = rest[i];
        w[i] = __uint_as_float((((uint32_t)high[i] - (low >> 15)) << 16) | low);
    }
}

extern "C" int cuda_master_join(int64_t n, const uint16_t *high, const uint16_t *rest, float *w,
                                cuda_stream stream)
{
    join_all<<<blocks_for(n), THREADS, 0, stream>>>(n, high, rest, w);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    running_all(int64_t n, float keep, float take, float take_var, float *__restrict__ mean,
                float *__restrict__ var, const float *__restrict__ new_mean,
                const float *__restrict__ new_var, int64_t *batches)
{
    EACH(i, n)
    {
        if (mean)
            mean[i] = keep * mean[i] + take * new_mean[i];
        if (var)
            var[i] = keep * var[i] + take_var * new_var[i];
    }
    if (batches && blockIdx.x == 0 && threadIdx.x == 0)
        ++*batches;
}

extern "C" int cuda_batch_norm_update(const struct kernel_batch_norm_update_desc *d, float *mean,
                                      float *var, const float *new_mean, const float *new_var,
                                      int64_t *batches, cuda_stream stream)
{
    float keep = (float)(1.0 - (double)d->momentum);
    running_all<<<blocks_for(d->channels), THREADS, 0, stream>>>(
        d->channels, keep, d->momentum, (float)((double)d->momentum * d->unbias), mean, var,
        new_mean, new_var, batches);
    return (int)cudaGetLastError();
}

/* ---- a step of Adam ----------------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS)
    adam_all(kernel_adam_step_desc d, struct cuda_in p, struct cuda_in m_in, struct cuda_in v_in,
             struct cuda_in g_in, struct cuda_in powers, struct cuda_out to0, struct cuda_out to1,
             struct cuda_out to2)
{
    kernel_adam_step a = d.step;
    float p1 = typed_get(powers, 0), p2 = typed_get(powers, 1);
    EACH(i, d.n)
    {
        float g = typed_get(g_in, i);
        float m = typed_get(m_in, i) * a.beta1 + g * a.rest1;
        float v = typed_get(v_in, i) * a.beta2 + g * g * a.rest2;
        if (to0.p)
            typed_put(to0, i, typed_get(p, i) - m * p1 / (sqrtf(v * p2) + a.eps) * a.lr);
        put(to1, i, m);
        put(to2, i, v);
    }
}

extern "C" int cuda_adam_step(const struct kernel_adam_step_desc *d, const struct cuda_in in[5],
                              const struct cuda_out out[3], cuda_stream stream)
{
    adam_all<<<blocks_for(d->n), THREADS, 0, stream>>>(*d, in[0], in[1], in[2], in[3], in[4],
                                                       out[0], out[1], out[2]);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    adam_grad_all(kernel_adam_step_desc d, struct cuda_in m_in, struct cuda_in v_in,
                  struct cuda_in g_in, struct cuda_in powers, struct cuda_in dp,
                  struct cuda_in dm_in, struct cuda_in dv_in, struct cuda_out to0,
                  struct cuda_out to1, struct cuda_out to2)
{
    kernel_adam_step a = d.step;
    float p1 = typed_get(powers, 0), p2 = typed_get(powers, 1);
    EACH(i, d.n)
    {
        float root = sqrtf(typed_get(v_in, i) * p2), below = root + a.eps;
        float g = dp.p ? -a.lr * typed_get(dp, i) / below : 0.0f;
        float slope = root == 0.0f ? 0.0f : 0.5f / root;
        float dm = get(dm_in, i) + g * p1;
        float dv = get(dv_in, i) - g * (typed_get(m_in, i) * p1 / below) * slope * p2;
        if (to0.p)
            typed_put(to0, i, dm * a.rest1 + dv * a.rest2 * 2.0f * typed_get(g_in, i));
        put(to1, i, dm * a.beta1);
        put(to2, i, dv * a.beta2);
    }
}

extern "C" int cuda_adam_step_grad(const struct kernel_adam_step_desc *d,
                                   const struct cuda_in in[7], const struct cuda_out out[3],
                                   cuda_stream stream)
{
    adam_grad_all<<<blocks_for(d->n), THREADS, 0, stream>>>(*d, in[0], in[1], in[2], in[3], in[4],
                                                            in[5], in[6], out[0], out[1], out[2]);
    return (int)cudaGetLastError();
}
