/* hash.c - XXH3 of libxxhash, seed 0: the values are part of file formats and must not change. */
#include "base/hash.h"

#include <xxhash.h>

struct ebb_hash128 ebb_hash128(const void *data, size_t length)
{
    XXH128_hash_t h = XXH3_128bits(data, length);
    return (struct ebb_hash128){.low = h.low64, .high = h.high64};
}

uint64_t ebb_hash64(const void *data, size_t length)
{
    return XXH3_64bits(data, length);
}
