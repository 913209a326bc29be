/* sha256.h - SHA-256 (FIPS 180-4), for manifests and the hash of weights. */
#ifndef EBB_BASE_SHA256_H
#define EBB_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define EBB_SHA256_TEXT 65 /* hexadecimal digits and the end */

struct ebb_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};

void ebb_sha256_init(struct ebb_sha256 *h);
void ebb_sha256_add(struct ebb_sha256 *h, const void *data, size_t bytes);
void ebb_sha256_text(struct ebb_sha256 *h, char text[EBB_SHA256_TEXT]); /* ends it */

#endif
