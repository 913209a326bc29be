/* hash.h - FNV-1a (published hashes need it) and a 128-bit content hash (XXH3) for signatures and
 * against damage. */
#ifndef EBB_BASE_HASH_H
#define EBB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

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

/* The 128-bit hash of what comes in pieces, as text: libxxhash's canonical form. */
#define EBB_HASH128_TEXT 33 /* hexadecimal digits and the end */
struct ebb_hash128_stream {
    void *state; /* owned; NULL = there was no memory for it, or the hash has ended */
};
void ebb_hash128_init(struct ebb_hash128_stream *h);
void ebb_hash128_add(struct ebb_hash128_stream *h, const void *data, size_t bytes);
/* Ends it. What failed on the way is said here. */
enum ebb_status ebb_hash128_text(struct ebb_hash128_stream *h, char text[EBB_HASH128_TEXT],
                                 struct ebb_error *err);
void ebb_hash128_fini(struct ebb_hash128_stream *h); /* where text is not reached */

#endif
