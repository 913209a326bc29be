/* move.cu - small moves within the device's memory, whose ranges may overlap: one block reads all before it writes any. */
#include "cuda/cuda.h"

#define THREADS 1024
#define EACH 8 /* vectors of a thread */

__global__ void __launch_bounds__(THREADS)
    move_small(int whole, int rest, const uint4 *from, uint4 *to)
{
    uint4 v[EACH];
    unsigned char last = 0;
    const unsigned char *tail = reinterpret_cast<const unsigned char *>(from + whole);
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int i = k * THREADS + threadIdx.x;
        if (i < whole)
            v[k] = from[i];
    }
    if (threadIdx.x < rest)
        last = tail[threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int i = k * THREADS + threadIdx.x;
        if (i < whole)
            to[i] = v[k];
    }
    if (threadIdx.x < rest)
        reinterpret_cast<unsigned char *>(to + whole)[threadIdx.x] = last;
}

extern "C" int cuda_move(const void *from, void *to, size_t bytes, cuda_stream stream)
{
    int whole = (int)(bytes / 16), rest = (int)(bytes % 16);
    int threads = (whole + rest + 31) / 32 * 32;
    if (bytes > CUDA_MOVE_MOST || (uintptr_t)from % 16 || (uintptr_t)to % 16)
        return (int)cudaErrorInvalidValue;
    if (bytes)
        move_small<<<1, threads < THREADS ? threads : THREADS, 0, stream>>>(
            whole, rest, (const uint4 *)from, (uint4 *)to);
    return (int)cudaGetLastError();
}
