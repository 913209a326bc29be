/* noise.cu - operands for measurements, a fingerprint of results, a pause: what tune.c and runtime.c measure with. */
#include "cuda/family.h"

#define THREADS 256
#define BLOCKS 1024

__device__ static inline uint32_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 31);
}

/* Two BF16 numbers of size 1/2 to 2, of either sign; read as F32 they are of that size as well. */
__global__ void __launch_bounds__(THREADS) noise(int64_t words, uint64_t seed, uint32_t *to)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < words;
         i += (int64_t)gridDim.x * THREADS)
        to[i] = (mixed((uint64_t)(i + 1) * 0x9e3779b97f4a7c15u + seed) & 0x80ff80ffu) + 0x3f003f00u;
}

/* Whole numbers are added: the order does not matter. */
__global__ void __launch_bounds__(THREADS)
    fingerprint(int64_t words, const uint32_t *__restrict__ x, unsigned long long *sum)
{
    unsigned long long mine = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < words;
         i += (int64_t)gridDim.x * THREADS)
        mine += (unsigned long long)(x[i] + 1u) * ((uint64_t)i * 0x9e3779b97f4a7c15u | 1u);
    atomicAdd(sum, mine);
}

extern "C" int cuda_noise(int64_t words, uint64_t seed, void *to, cuda_stream stream)
{
    if (words > 0)
        noise<<<BLOCKS, THREADS, 0, stream>>>(words, seed, (uint32_t *)to);
    return (int)cudaGetLastError();
}

extern "C" int cuda_fingerprint(int64_t words, const void *x, uint64_t *sum, cuda_stream stream)
{
    cudaError_t code = cudaMemsetAsync(sum, 0, sizeof *sum, stream);
    if (code != cudaSuccess)
        return (int)code;
    if (words > 0)
        fingerprint<<<BLOCKS, THREADS, 0, stream>>>(words, (const uint32_t *)x,
                                                    (unsigned long long *)sum);
    return (int)cudaGetLastError();
}

#define HELD 60000 /* cycles: 30 to 45 us */

__global__ void __launch_bounds__(32) hold(void)
{
    for (long long begin = clock64(); clock64() - begin < HELD;)
        ;
}

extern "C" int cuda_hold(cuda_stream stream)
{
    hold<<<1, 32, 0, stream>>>();
    return (int)cudaGetLastError();
}
