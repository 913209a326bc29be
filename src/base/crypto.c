/* crypto.c - see crypto.h. */
#include "base/crypto.h"

#include <openssl/evp.h>
#include <string.h>

static enum ebb_status libcrypto_failed(const char *what, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINTERNAL, "libcrypto cannot compute %s", what);
}

void ebb_sha256_init(struct ebb_sha256 *h)
{
    h->context = EVP_MD_CTX_new();
    if (h->context != NULL && EVP_DigestInit_ex(h->context, EVP_sha256(), NULL) != 1)
        ebb_sha256_fini(h);
}

void ebb_sha256_add(struct ebb_sha256 *h, const void *data, size_t bytes)
{
    if (h->context != NULL && EVP_DigestUpdate(h->context, data, bytes) != 1)
        ebb_sha256_fini(h);
}

enum ebb_status ebb_sha256_text(struct ebb_sha256 *h, char text[EBB_SHA256_TEXT],
                                struct ebb_error *err)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[EVP_MAX_MD_SIZE];
    bool is_done = h->context != NULL && EVP_DigestFinal_ex(h->context, bytes, NULL) == 1;
    ebb_sha256_fini(h);
    if (!is_done)
        return libcrypto_failed("a SHA-256", err);
    for (size_t i = 0; i < 32; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[64] = '\0';
    return EBB_OK;
}

void ebb_sha256_fini(struct ebb_sha256 *h)
{
    EVP_MD_CTX_free(h->context);
    h->context = NULL;
}

enum ebb_status ebb_md5_head(const char *text, uint64_t *head, struct ebb_error *err)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    if (EVP_Digest(text, strlen(text), bytes, NULL, EVP_md5(), NULL) != 1)
        return libcrypto_failed("an MD5", err);
    *head = 0;
    for (int i = 7; i >= 0; i--)
        *head = *head << 8 | bytes[i];
    return EBB_OK;
}

/* ---- base64: in pieces, since libcrypto counts in int and ends each text with '\0' ------------- */

#define PIECE ((size_t)3 << 10)

void ebb_base64_add(struct ebb_str *out, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    unsigned char text[PIECE / 3 * 4 + 1];
    for (size_t at = 0; at < length; at += PIECE) {
        size_t n = length - at < PIECE ? length - at : PIECE;
        ebb_str_addn(out, (char *)text, (size_t)EVP_EncodeBlock(text, bytes + at, (int)n));
    }
}

/* `count` digits, a multiple of 4; EVP_DecodeBlock drops what it takes for blanks, so the sum must
 * fit. */
static bool decode_piece(const unsigned char *digits, size_t count, char *out)
{
    return EVP_DecodeBlock((unsigned char *)out, digits, (int)count) == (int)(count / 4 * 3);
}

bool ebb_base64_decode(const char *text, size_t length, char *out, size_t *out_length)
{
    unsigned char digits[PIECE / 3 * 4];
    size_t have = 0, at = 0;
    bool is_ended = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '\n' || c == '\r' || c == ' ')
            continue;
        is_ended = is_ended || c == '=';
        if (is_ended && c != '=')
            return false;
        if (is_ended)
            continue;
        digits[have++] = (unsigned char)(c == '-' ? '+' : c == '_' ? '/' : c);
        if (have == sizeof digits) {
            if (!decode_piece(digits, have, out + at))
                return false;
            at += have / 4 * 3;
            have = 0;
        }
    }
    size_t missing = (4 - have % 4) % 4;
    for (size_t i = 0; i < missing; i++)
        digits[have++] = '=';
    if (missing == 3 || !decode_piece(digits, have, out + at))
        return false;
    *out_length = at + have / 4 * 3 - missing;
    return true;
}
