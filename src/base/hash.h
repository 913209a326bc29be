/* hash.h - FNV-1a (published hashes need it) and a 128-bit content hash (XXH3) for signatures. */
#ifndef EBB_BASE_HASH_H
#define EBB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define EBB_FNV1A_INIT 0xcbf29ce484222325u

static inline uint64_t ebb_fnv1a_u32(uint64_t hash, uint32_t value) /* 4 bytes, little endian */
{
    for (int i = 0; i < 4; i++) {
        hash = (hash ^ (value & 0xffu)) * 0x100000001b3u;
        value >>= 8;
    }
    return hash;
}

struct ebb_hash128 {
    uint64_t low, high;
};

struct ebb_hash128 ebb_hash128(const void *data, size_t length);
uint64_t ebb_hash64(const void *data, size_t length);

#endif
