/* rng.c - MT19937 (Matsumoto and Nishimura 1998), Philox 4x32-10 (Salmon et al. 2011), SplitMix64.
 *
 * The bounded integers repeat numpy's legacy masked rejection draw by draw: how many draws a call
 * consumes is part of the contract, saved searches replay them. */
#include "base/rng.h"

#include <string.h>

enum { MT_N = 624, MT_M = 397 };

void ebb_mt_seed(struct ebb_mt19937 *rng, uint32_t seed)
{
    rng->state[0] = seed;
    for (uint32_t i = 1; i < MT_N; i++) {
        uint32_t last = rng->state[i - 1];
        rng->state[i] = 1812433253u * (last ^ (last >> 30)) + i;
    }
    rng->position = MT_N;
}

static uint32_t mt_twist(uint32_t high, uint32_t low)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return (y >> 1) ^ ((y & 1u) ? 0x9908b0dfu : 0u);
}

static void mt_refill(struct ebb_mt19937 *rng)
{
    uint32_t *s = rng->state;
    for (int i = 0; i < MT_N - MT_M; i++)
        s[i] = s[i + MT_M] ^ mt_twist(s[i], s[i + 1]);
    for (int i = MT_N - MT_M; i < MT_N - 1; i++)
        s[i] = s[i + MT_M - MT_N] ^ mt_twist(s[i], s[i + 1]);
    s[MT_N - 1] = s[MT_M - 1] ^ mt_twist(s[MT_N - 1], s[0]);
    rng->position = 0;
}

uint32_t ebb_mt_u32(struct ebb_mt19937 *rng)
{
    if (rng->position >= MT_N)
        mt_refill(rng);
    uint32_t y = rng->state[rng->position++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    y ^= y >> 18;
    return y;
}

double ebb_mt_double(struct ebb_mt19937 *rng)
{
    uint32_t a = ebb_mt_u32(rng) >> 5;
    uint32_t b = ebb_mt_u32(rng) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}

static uint64_t mt_u64(struct ebb_mt19937 *rng)
{
    uint64_t high = ebb_mt_u32(rng);
    return high << 32 | ebb_mt_u32(rng);
}

/* Smallest 2^k - 1 that is >= max. */
static uint64_t mt_mask(uint64_t max)
{
    return max ? UINT64_MAX >> __builtin_clzll(max) : 0;
}

int64_t ebb_mt_int64(struct ebb_mt19937 *rng, int64_t low, int64_t high)
{
    uint64_t max = (uint64_t)high - (uint64_t)low - 1; /* inclusive; arithmetic mod 2^64 */
    uint64_t mask = mt_mask(max), draw;
    if (max == 0)
        return low; /* numpy draws nothing here */
    do {
        draw = (max <= UINT32_MAX ? ebb_mt_u32(rng) : mt_u64(rng)) & mask;
    } while (draw > max);
    uint64_t value = (uint64_t)low + draw;
    int64_t result;
    memcpy(&result, &value, sizeof result);
    return result;
}

void ebb_mt_bytes(struct ebb_mt19937 *rng, void *out, size_t n)
{
    unsigned char *at = out;
    while (n > 0) {
        uint32_t word = ebb_mt_u32(rng);
        for (int i = 0; i < 4 && n > 0; i++, n--, word >>= 8)
            *at++ = (unsigned char)(word & 0xffu);
    }
}

void ebb_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c0;
        uint64_t p1 = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u; /* golden ratio */
        k1 += 0xbb67ae85u; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t ebb_splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
