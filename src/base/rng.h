/* rng.h - the two random generators.
 *
 * ebb_mt19937: bit-compatible with numpy's legacy RandomState (init_genrand seeding; 53-bit doubles
 * (a>>5, b>>6); bounded integers by masked rejection, 32-bit draws when the range fits, else 64-bit
 * from two draws, high word first) because saved searches and golden data depend on it. ebb_philox:
 * Philox 4x32-10, counter-based: value = f(key, counter), nothing to save. */
#ifndef EBB_BASE_RNG_H
#define EBB_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct ebb_mt19937 {
    uint32_t state[624];
    uint32_t position; /* 0..624; 624 = exhausted */
};

void ebb_mt_seed(struct ebb_mt19937 *rng, uint32_t seed);
uint32_t ebb_mt_u32(struct ebb_mt19937 *rng);
double ebb_mt_double(struct ebb_mt19937 *rng); /* [0, 1), 53 bits */
/* Uniform in [low, high), as RandomState.randint with 64-bit dtype: masked rejection. high > low.
 */
int64_t ebb_mt_int64(struct ebb_mt19937 *rng, int64_t low, int64_t high);
void ebb_mt_bytes(struct ebb_mt19937 *rng, void *out, size_t n);

void ebb_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* Small fast generator for tests and synthetic traces (SplitMix64). */
uint64_t ebb_splitmix64(uint64_t *state);

#endif
