/* sigv4.c - see sigv4.h. */
#include "exp/store/sigv4.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"

#define PARTS_MAX 32 /* of a query */

void exp_sigv4_date(time_t time, char text[EXP_SIGV4_DATE])
{
    struct tm parts;
    gmtime_r(&time, &parts);
    strftime(text, EXP_SIGV4_DATE, "%Y%m%dT%H%M%SZ", &parts);
}

void exp_url_escape(struct ebb_str *out, const char *text, bool keeps_slash)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                        (c >= '0' && c <= '9') || strchr("-._~", c) != NULL ||
                        (keeps_slash && c == '/');
        if (is_plain) {
            ebb_str_addc(out, (char)c);
            continue;
        }
        ebb_str_addc(out, '%');
        ebb_str_addc(out, digits[c >> 4]);
        ebb_str_addc(out, digits[c & 15]);
    }
}

/* ---- canonical forms ---- */

struct slice {
    const char *text;
    size_t length;
};

static int compare(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    size_t n = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, n);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

/* Parameters sorted; a name alone gets its '='. Sorting "name=value" as a whole is sorting by name:
 * '=' is not in encoded names, and names that are beginnings of others are told apart here, since
 * '=' would sort behind digits. */
static enum ebb_status add_query(struct ebb_str *out, const char *query, struct ebb_error *err)
{
    struct slice parts[PARTS_MAX];
    size_t count = 0;
    for (const char *at = query; *at != '\0'; at += *at == '&') {
        size_t n = strcspn(at, "&");
        if (count == PARTS_MAX)
            return ebb_fail(err, EBB_ELIMIT, "more than %d parameters to sign", PARTS_MAX);
        parts[count++] = (struct slice){at, n};
        at += n;
    }
    for (size_t i = 0; i < count; i++) /* names first, values after: few of them */
        for (size_t k = i; k > 0; k--) {
            struct slice a = {parts[k - 1].text, strcspn(parts[k - 1].text, "=&")};
            struct slice b = {parts[k].text, strcspn(parts[k].text, "=&")};
            int order = compare(&a, &b);
            if (order < 0 || (order == 0 && compare(&parts[k - 1], &parts[k]) <= 0))
                break;
            struct slice swap = parts[k];
            parts[k] = parts[k - 1];
            parts[k - 1] = swap;
        }
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            ebb_str_addc(out, '&');
        ebb_str_addn(out, parts[i].text, parts[i].length);
        if (memchr(parts[i].text, '=', parts[i].length) == NULL)
            ebb_str_addc(out, '=');
    }
    return EBB_OK;
}

struct headers {
    struct slice lines[EXP_SIGV4_HEADERS];
    size_t count;
};

static enum ebb_status sort_headers(const struct exp_sigv4 *s, struct headers *h,
                                    struct ebb_error *err)
{
    h->count = 0;
    if (s->header_count > EXP_SIGV4_HEADERS)
        return ebb_fail(err, EBB_ELIMIT, "more than %d headers to sign", EXP_SIGV4_HEADERS);
    for (size_t i = 0; i < s->header_count; i++)
        h->lines[h->count++] = (struct slice){s->headers[i], strcspn(s->headers[i], ":")};
    qsort(h->lines, h->count, sizeof *h->lines, compare);
    return EBB_OK;
}

static void add_names(struct ebb_str *out, const struct headers *h)
{
    for (size_t i = 0; i < h->count; i++) {
        if (i > 0)
            ebb_str_addc(out, ';');
        ebb_str_addn(out, h->lines[i].text, h->lines[i].length);
    }
}

static void add_scope(struct ebb_str *out, const struct exp_sigv4 *s, const char *date)
{
    ebb_str_printf(out, "%.8s/%s/%s/aws4_request", date, s->region, s->service);
}

static enum ebb_status add_canonical(const struct exp_sigv4 *s, const struct headers *h,
                                     struct ebb_str *out, struct ebb_error *err)
{
    ebb_str_printf(out, "%s\n%s\n", s->method, s->path);
    EBB_TRY(add_query(out, s->query, err));
    ebb_str_addc(out, '\n');
    for (size_t i = 0; i < h->count; i++) {
        const char *value = h->lines[i].text + h->lines[i].length;
        value += strspn(value, ": ");
        size_t n = strlen(value);
        while (n > 0 && value[n - 1] == ' ')
            n--;
        ebb_str_addn(out, h->lines[i].text, h->lines[i].length);
        ebb_str_printf(out, ":%.*s\n", (int)n, value);
    }
    ebb_str_addc(out, '\n');
    add_names(out, h);
    ebb_str_printf(out, "\n%s", s->payload);
    return ebb_str_status(out, err);
}

/* ---- the signature ---- */

static enum ebb_status derive_key(const struct exp_sigv4 *s, const char *date, uint8_t key[32],
                                  struct ebb_error *err)
{
    const char *const steps[] = {s->region, s->service, "aws4_request"};
    struct ebb_str first = {0};
    ebb_str_printf(&first, "AWS4%s", s->secret_key);
    enum ebb_status status = ebb_str_status(&first, err);
    EBB_THEN(status, ebb_hmac_sha256(ebb_str_c(&first), first.length, date, 8, key, err));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        EBB_THEN(status, ebb_hmac_sha256(key, 32, steps[i], strlen(steps[i]), key, err));
    ebb_str_fini(&first);
    return status;
}

static enum ebb_status compute(const struct exp_sigv4 *s, const struct headers *h,
                               char signature[65], struct ebb_error *err)
{
    struct ebb_str text = {0};
    struct ebb_sha256 hash;
    char date[EXP_SIGV4_DATE], digest[EBB_SHA256_TEXT];
    uint8_t key[32], mac[32];
    exp_sigv4_date(s->time, date);
    enum ebb_status status = add_canonical(s, h, &text, err);
    if (status == EBB_OK) {
        ebb_sha256_init(&hash);
        ebb_sha256_add(&hash, text.data, text.length);
        status = ebb_sha256_text(&hash, digest, err);
    }
    ebb_str_clear(&text);
    ebb_str_printf(&text, "AWS4-HMAC-SHA256\n%s\n", date);
    add_scope(&text, s, date);
    if (status == EBB_OK)
        ebb_str_printf(&text, "\n%s", digest);
    EBB_THEN(status, ebb_str_status(&text, err));
    EBB_THEN(status, derive_key(s, date, key, err));
    EBB_THEN(status, ebb_hmac_sha256(key, 32, text.data, text.length, mac, err));
    if (status == EBB_OK)
        ebb_hex(mac, 32, signature);
    ebb_str_fini(&text);
    return status;
}

enum ebb_status exp_sigv4_sign(const struct exp_sigv4 *s, struct ebb_str *out,
                               struct ebb_error *err)
{
    struct headers h;
    char date[EXP_SIGV4_DATE], signature[65];
    EBB_TRY(sort_headers(s, &h, err));
    EBB_TRY(compute(s, &h, signature, err));
    exp_sigv4_date(s->time, date);
    ebb_str_printf(out, "AWS4-HMAC-SHA256 Credential=%s/", s->access_key);
    add_scope(out, s, date);
    ebb_str_add(out, ",SignedHeaders=");
    add_names(out, &h);
    ebb_str_printf(out, ",Signature=%s", signature);
    return ebb_str_status(out, err);
}
