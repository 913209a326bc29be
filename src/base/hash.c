/* hash.c - XXH3 of libxxhash, seed 0: the values are part of file formats and must not change. */
#include "base/hash.h"

#include <xxhash.h>

#include "base/crypto.h"

struct ebb_hash128 ebb_hash128(const void *data, size_t length)
{
    XXH128_hash_t h = XXH3_128bits(data, length);
    return (struct ebb_hash128){.low = h.low64, .high = h.high64};
}

uint64_t ebb_hash64(const void *data, size_t length)
{
    return XXH3_64bits(data, length);
}

void ebb_hash128_init(struct ebb_hash128_stream *h)
{
    h->state = XXH3_createState();
    if (h->state != NULL)
        XXH3_128bits_reset(h->state);
}

void ebb_hash128_add(struct ebb_hash128_stream *h, const void *data, size_t bytes)
{
    if (h->state != NULL)
        XXH3_128bits_update(h->state, data, bytes);
}

enum ebb_status ebb_hash128_text(struct ebb_hash128_stream *h, char text[EBB_HASH128_TEXT],
                                 struct ebb_error *err)
{
    XXH128_canonical_t canonical;
    if (h->state == NULL)
        return ebb_fail(err, EBB_ENOMEM, "there is no memory for the state of a hash");
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(h->state));
    ebb_hex(canonical.digest, sizeof canonical.digest, text);
    ebb_hash128_fini(h);
    return EBB_OK;
}

void ebb_hash128_fini(struct ebb_hash128_stream *h)
{
    XXH3_freeState(h->state);
    h->state = NULL;
}
