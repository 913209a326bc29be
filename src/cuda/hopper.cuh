/* hopper.cuh - the instructions of sm_90a that attention uses: barriers in shared memory, the bulk tensor copy, products of
 * a warp group. Private to cuda.
 *
 * Tiles in shared memory have rows of 128 bytes (64 bf16) under the 128-byte swizzle, aligned to 1,024 bytes: the 16-byte
 * piece c of row r lies at piece c ^ (r % 8). */
#ifndef EBB_CUDA_HOPPER_CUH
#define EBB_CUDA_HOPPER_CUH

#include <cuda.h>
#include <stdint.h>

__device__ static inline uint32_t hopper_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- barriers ------------------------------------------------------------------------------- */

__device__ static inline void hopper_barrier_init(uint32_t barrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

/* Makes initialized barriers visible to the copy engine. */
__device__ static inline void hopper_barrier_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ static inline void hopper_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ static inline void hopper_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ static inline void hopper_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred p;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra done;\nbra again;\ndone:\n}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Threads of one group of warps; ids 1 to 15. */
__device__ static inline void hopper_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* x[0..3] to four floats in global memory, done there. Only where one thread owns the place: then the order is the order of
 * its program, and the sum always the same. */
__device__ static inline void hopper_add(float4 *to, const float *x)
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]),
                 "f"(x[1]), "f"(x[2]), "f"(x[3])
                 : "memory");
}

/* ---- copies --------------------------------------------------------------------------------- */

/* One box of a tensor of four dimensions (channel, head, token, batch). */
__device__ static inline void hopper_load(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                          int head, int token, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(0), "r"(head), "r"(token), "r"(batch)
                 : "memory");
}

__device__ static inline void hopper_store(const CUtensorMap *map, uint32_t from, int head,
                                           int token, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, "
                 "%5}], [%1];" ::"l"(map),
                 "r"(from), "r"(0), "r"(head), "r"(token), "r"(batch)
                 : "memory");
}

/* Plain bytes, a multiple of 16. */
__device__ static inline void hopper_load_bytes(uint32_t to, const void *from, uint32_t bytes,
                                                uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

__device__ static inline void hopper_store_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until all stores of this thread have read their shared memory. */
__device__ static inline void hopper_store_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Ordinary stores to shared memory before, tensor cores or the copy engine after. */
__device__ static inline void hopper_proxy_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ static inline void hopper_store_matrices(uint32_t to, const uint32_t *a)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
                 : "memory");
}

/* The same way back. */
__device__ static inline void hopper_load_matrices(uint32_t from, uint32_t *a)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(from)
                 : "memory");
}

/* ---- products ------------------------------------------------------------------------------- */

/* A tile of 128-byte rows at a 1,024-byte boundary, or 32 bytes (16 k of a row) further. Groups of eight rows follow each
 * other after 1,024 bytes; one 64-element atom in the other direction. */
__device__ static inline uint64_t hopper_tile(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

__device__ static inline void hopper_mma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static inline void hopper_mma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> __device__ static inline void hopper_mma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* d[64, 128] (+)= A B, both in shared memory. TURN_A, TURN_B: the operand's rows run along k. */
template <int TURN_A, int TURN_B>
__device__ static inline void hopper_mma(float (&d)[64], uint64_t a, uint64_t b, int is_adding)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, "
                 "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, "
                 "%37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, "
                 "%59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, %67, %68;\n}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"(is_adding), "n"(TURN_A), "n"(TURN_B));
}

/* d[64, 64] (+)= A B, both in shared memory. TURN_A, TURN_B: the operand's rows run along k. */
template <int TURN_A, int TURN_B>
__device__ static inline void hopper_mma(float (&d)[32], uint64_t a, uint64_t b, int is_adding)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, "
                 "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, p, 1, 1, %35, %36;\n}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(is_adding), "n"(TURN_A), "n"(TURN_B));
}

/* d[64, 64] (+)= A B, A in registers. */
template <int TURN_B>
__device__ static inline void hopper_mma(float (&d)[32], const uint32_t *a, uint64_t b,
                                         int is_adding)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, "
                 "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(is_adding), "n"(TURN_B));
}

#endif
