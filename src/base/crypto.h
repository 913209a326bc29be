/* crypto.h - SHA-256, MD5, HMAC, RSA signatures and base64, computed by libcrypto; MD5s of
 * several messages at once by ourselves.
 *
 * SHA-256 proves files and names weights; MD5 is here only because a published order and the
 * checksums of object stores are defined on it: nothing secret hangs on it. */
#ifndef EBB_BASE_CRYPTO_H
#define EBB_BASE_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define EBB_SHA256_TEXT 65 /* hexadecimal digits and the end */

struct ebb_sha256 {
    void *context; /* owned; NULL = libcrypto failed or the hash has ended */
};

/* init, add ..., text. What fails on the way is said by text; fini only where text is not reached. */
void ebb_sha256_init(struct ebb_sha256 *h);
void ebb_sha256_add(struct ebb_sha256 *h, const void *data, size_t bytes);
enum ebb_status ebb_sha256_text(struct ebb_sha256 *h, char text[EBB_SHA256_TEXT],
                                struct ebb_error *err); /* ends it */
void ebb_sha256_fini(struct ebb_sha256 *h);

/* The same for MD5; 16 bytes. */
struct ebb_md5 {
    void *context;
};
void ebb_md5_init(struct ebb_md5 *h);
void ebb_md5_add(struct ebb_md5 *h, const void *data, size_t bytes);
enum ebb_status ebb_md5_bytes(struct ebb_md5 *h, uint8_t bytes[16], struct ebb_error *err);

/* Several MD5s side by side, of messages of one length: four times as fast as one after the other
 * (md5_lanes.c). Lanes that nobody needs take the message of another. */
#define EBB_MD5_LANES 8
struct ebb_md5_lanes {
    uint32_t state[4][EBB_MD5_LANES];
    uint8_t rest[EBB_MD5_LANES][128];
    size_t rest_bytes;
    uint64_t bytes; /* of each message */
};
void ebb_md5_lanes_init(struct ebb_md5_lanes *h);
/* bytes: of each message; a multiple of 64 in all calls but the last. */
void ebb_md5_lanes_add(struct ebb_md5_lanes *h, const uint8_t *const data[EBB_MD5_LANES],
                       size_t bytes);
void ebb_md5_lanes_end(struct ebb_md5_lanes *h, uint8_t sums[EBB_MD5_LANES][16]);

void ebb_hex(const uint8_t *bytes, size_t count, char *text); /* 2 * count digits and the end */

enum ebb_status ebb_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                                uint8_t mac[32], struct ebb_error *err);
/* RS256 of a text by a private key in PEM: the signature's bytes are appended. EBB_EINPUT: no such
 * key. */
enum ebb_status ebb_rs256_sign(const char *pem, const char *text, struct ebb_str *signature,
                               struct ebb_error *err);

/* The first 8 bytes of the MD5 of a text, little endian. */
enum ebb_status ebb_md5_head(const char *text, uint64_t *head, struct ebb_error *err);

void ebb_base64_add(struct ebb_str *out, const void *data, size_t length);
/* Both alphabets of RFC 4648; blanks and newlines are skipped, '=' may be missing. `out` has room
 * for length / 4 * 3 + 3 bytes. false: not base64. */
bool ebb_base64_decode(const char *text, size_t length, char *out, size_t *out_length);

#endif
