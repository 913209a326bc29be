/* crypto.h - SHA-256, MD5 and base64, computed by libcrypto.
 *
 * SHA-256 proves files and names weights; MD5 is here only because a published order is defined on
 * it: nothing secret hangs on either. */
#ifndef EBB_BASE_CRYPTO_H
#define EBB_BASE_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>

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

/* The first 8 bytes of the MD5 of a text, little endian. */
enum ebb_status ebb_md5_head(const char *text, uint64_t *head, struct ebb_error *err);

void ebb_base64_add(struct ebb_str *out, const void *data, size_t length);
/* Both alphabets of RFC 4648; blanks and newlines are skipped, '=' may be missing. `out` has room
 * for length / 4 * 3 + 3 bytes. false: not base64. */
bool ebb_base64_decode(const char *text, size_t length, char *out, size_t *out_length);

#endif
