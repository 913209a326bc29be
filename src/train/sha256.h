/* sha256.h - private to train: SHA-256 (FIPS 180-4), for manifests and the hash of weights. */
#ifndef EBB_TRAIN_SHA256_H
#define EBB_TRAIN_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define TRAIN_SHA256_TEXT 65 /* hexadecimal digits and the end */

struct train_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};

void train_sha256_init(struct train_sha256 *h);
void train_sha256_add(struct train_sha256 *h, const void *data, size_t bytes);
void train_sha256_text(struct train_sha256 *h, char text[TRAIN_SHA256_TEXT]); /* ends it */

#endif
