/* crypto.c - see crypto.h. */
#include "base/crypto.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <string.h>

static enum ebb_status libcrypto_failed(const char *what, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINTERNAL, "libcrypto cannot compute %s", what);
}

void ebb_hex(const uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}

/* ---- digests ---- */

static void digest_fini(void **context)
{
    EVP_MD_CTX_free(*context);
    *context = NULL;
}

static void digest_init(void **context, const EVP_MD *kind)
{
    *context = EVP_MD_CTX_new();
    if (*context != NULL && EVP_DigestInit_ex(*context, kind, NULL) != 1)
        digest_fini(context);
}

static void digest_add(void **context, const void *data, size_t bytes)
{
    if (*context != NULL && EVP_DigestUpdate(*context, data, bytes) != 1)
        digest_fini(context);
}

static bool digest_end(void **context, unsigned char *bytes)
{
    bool is_done = *context != NULL && EVP_DigestFinal_ex(*context, bytes, NULL) == 1;
    digest_fini(context);
    return is_done;
}

void ebb_sha256_init(struct ebb_sha256 *h)
{
    digest_init(&h->context, EVP_sha256());
}

void ebb_sha256_add(struct ebb_sha256 *h, const void *data, size_t bytes)
{
    digest_add(&h->context, data, bytes);
}

enum ebb_status ebb_sha256_text(struct ebb_sha256 *h, char text[EBB_SHA256_TEXT],
                                struct ebb_error *err)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    if (!digest_end(&h->context, bytes))
        return libcrypto_failed("a SHA-256", err);
    ebb_hex(bytes, 32, text);
    return EBB_OK;
}

void ebb_sha256_fini(struct ebb_sha256 *h)
{
    digest_fini(&h->context);
}

void ebb_md5_init(struct ebb_md5 *h)
{
    digest_init(&h->context, EVP_md5());
}

void ebb_md5_add(struct ebb_md5 *h, const void *data, size_t bytes)
{
    digest_add(&h->context, data, bytes);
}

enum ebb_status ebb_md5_bytes(struct ebb_md5 *h, uint8_t bytes[16], struct ebb_error *err)
{
    unsigned char found[EVP_MAX_MD_SIZE];
    if (!digest_end(&h->context, found))
        return libcrypto_failed("an MD5", err);
    memcpy(bytes, found, 16);
    return EBB_OK;
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

/* ---- signatures ---- */

enum ebb_status ebb_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                                uint8_t mac[32], struct ebb_error *err)
{
    unsigned length = 32;
    if (HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, mac, &length) == NULL)
        return libcrypto_failed("an HMAC", err);
    return EBB_OK;
}

static enum ebb_status sign(EVP_PKEY *key, const char *text, struct ebb_str *signature,
                            struct ebb_error *err)
{
    unsigned char bytes[1024]; /* keys of up to 8192 bits */
    size_t count = sizeof bytes;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_done =
        context != NULL && (size_t)EVP_PKEY_get_size(key) <= sizeof bytes &&
        EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
        EVP_DigestSign(context, bytes, &count, (const unsigned char *)text, strlen(text)) == 1;
    EVP_MD_CTX_free(context);
    if (!is_done)
        return libcrypto_failed("an RS256 signature", err);
    ebb_str_addn(signature, (char *)bytes, count);
    return ebb_str_status(signature, err);
}

enum ebb_status ebb_rs256_sign(const char *pem, const char *text, struct ebb_str *signature,
                               struct ebb_error *err)
{
    BIO *in = BIO_new_mem_buf(pem, (int)strlen(pem));
    EVP_PKEY *key = in != NULL ? PEM_read_bio_PrivateKey(in, NULL, NULL, NULL) : NULL;
    enum ebb_status status =
        key != NULL && EVP_PKEY_is_a(key, "RSA")
            ? sign(key, text, signature, err)
            : ebb_fail(err, EBB_EINPUT, "the private key is no RSA key in PEM form");
    EVP_PKEY_free(key);
    BIO_free(in);
    return status;
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
