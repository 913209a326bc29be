/* s3.c - Amazon S3 and servers that speak like it. See driver.h for what each function owes.
 *
 * With endpoint_url addresses are path-style, else virtual-hosted (a bucket with dots has no
 * certificate then: path-style). The region is learned from the server's redirects. Under http the
 * SHA-256 of every body is signed; under https the connection protects it, and Content-MD5 proves
 * that the server received what was read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/heap.h"
#include "exp/store/aws.h"
#include "exp/store/sigv4.h"
#include "exp/store/xml.h"

#define MIB ((int64_t)1 << 20)
#define ONE_PUT (8 * MIB) /* larger files go in parts */
#define PARTS_MAX 9000
#define DELETE_MAX 1000
#define HOST_MAX 512
#define HEADERS_MAX 12

struct call { /* one request, whatever the number of tries */
    struct exp_remote *r;
    const char *method;
    const char *key;   /* below the prefix; NULL: the bucket itself */
    const char *about; /* then: the checkpoint that messages name */
    const char *query; /* encoded; "" = none */
    const char *body;  /* in memory, with `bytes`; or of a file: */
    int fd;
    int64_t offset, bytes;
    bool has_body, allows_missing;
    const char *md5, *sha256; /* of the body: base64, hexadecimal; NULL or "" = not needed */
    const char *want;         /* MD5 in hexadecimal that the ETag must be; NULL or "" = any */
    const char *type;         /* Content-Type, or NULL */
    const char *element;      /* of XML that a good answer has, or NULL */
    struct exp_range *range;  /* of a GET */
    char host[HOST_MAX];      /* "" = the usual one; else where a redirect sent us */
    char region[64];          /* that the last try was signed for */
    struct exp_http_answer answer;
    struct ebb_str url, path, lines[HEADERS_MAX];
    const char *headers[HEADERS_MAX];
};

/* ---- where ---- */

static void address(const struct exp_store *s, const char *uuid, struct ebb_str *out)
{
    ebb_str_printf(out, "s3://%s/%s%s", s->bucket, s->prefix, uuid);
}

static void region_key(const struct exp_store *s, char *text, size_t size)
{
    snprintf(text, size, "s3 region %s %s", s->bucket, s->endpoint != NULL ? s->endpoint : "");
}

static void find_region(const struct exp_store *s, char *region, size_t size)
{
    char key[1024];
    const char *first = getenv("AWS_REGION"), *second = getenv("AWS_DEFAULT_REGION");
    region_key(s, key, sizeof key);
    if (exp_net_recall(s->net, key, region, size))
        return;
    snprintf(region, size, "%s",
             first != NULL && first[0] != '\0'     ? first
             : second != NULL && second[0] != '\0' ? second
                                                   : "us-east-1");
}

/* Scheme and host of the store, and the path before the key. */
static void find_place(const struct call *c, const char *region, char scheme[16],
                       char host[HOST_MAX], struct ebb_str *path)
{
    const struct exp_store *s = c->r->store;
    if (s->endpoint != NULL) {
        const char *at = strstr(s->endpoint, "://");
        snprintf(scheme, 16, "%.*s", at != NULL ? (int)(at - s->endpoint) : 5,
                 at != NULL ? s->endpoint : "https");
        at = at != NULL ? at + 3 : s->endpoint;
        size_t n = strcspn(at, "/"), base = strlen(at + n);
        snprintf(host, HOST_MAX, "%.*s", (int)n, at);
        while (base > 0 && at[n + base - 1] == '/')
            base--;
        ebb_str_addn(path, at + n, base);
        ebb_str_addc(path, '/');
        exp_url_escape(path, s->bucket, false);
        return;
    }
    const char *domain = strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
    snprintf(scheme, 16, "https");
    if (strchr(s->bucket, '.') == NULL) {
        snprintf(host, HOST_MAX, "%s.s3.%s.%s", s->bucket, region, domain);
        return;
    }
    snprintf(host, HOST_MAX, "s3.%s.%s", region, domain);
    ebb_str_addc(path, '/');
    exp_url_escape(path, s->bucket, false);
}

/* As clients say it: without the port that goes without saying. */
static void trim_port(const char *scheme, char *host)
{
    size_t n = strlen(host);
    const char *usual = strcmp(scheme, "https") == 0 ? ":443" : ":80";
    size_t k = strlen(usual);
    if (n > k && strcmp(host + n - k, usual) == 0)
        host[n - k] = '\0';
}

/* ---- one request ---- */

__attribute__((format(printf, 3, 4))) static void add_header(struct call *c, size_t *count,
                                                             const char *fmt, ...)
{
    va_list args;
    struct ebb_str *line = &c->lines[*count];
    ebb_str_clear(line);
    va_start(args, fmt);
    ebb_str_vprintf(line, fmt, args);
    va_end(args);
    c->headers[(*count)++] = ebb_str_c(line);
}

static bool is_given(const char *sum)
{
    return sum != NULL && sum[0] != '\0';
}

/* Every answer with an object has one. */
static bool has_etag(const struct exp_http_answer *answer)
{
    char etag[EXP_ETAG];
    return exp_http_header(answer, "etag", etag, sizeof etag);
}

static enum ebb_status make(void *context, struct exp_http_request *q, struct ebb_error *err)
{
    struct call *c = context;
    const struct exp_store *s = c->r->store;
    struct exp_aws_keys keys;
    char scheme[16], host[HOST_MAX], date[EXP_SIGV4_DATE], range[80];
    struct ebb_str signature = {0};
    size_t count = 0;
    EBB_TRY(exp_aws_keys(c->r, &keys, err));
    find_region(s, c->region, sizeof c->region);
    ebb_str_clear(&c->path);
    find_place(c, c->region, scheme, host, &c->path);
    if (c->host[0] != '\0')
        snprintf(host, sizeof host, "%s", c->host);
    trim_port(scheme, host);
    ebb_str_addc(&c->path, '/');
    if (c->key != NULL) {
        exp_url_escape(&c->path, s->prefix, true);
        exp_url_escape(&c->path, c->key, true);
    }
    ebb_str_clear(&c->url);
    ebb_str_printf(&c->url, "%s://%s%s%s%s", scheme, host, ebb_str_c(&c->path),
                   c->query[0] != '\0' ? "?" : "", c->query);
    time_t now = time(NULL);
    exp_sigv4_date(now, date);
    bool is_open = strcmp(scheme, "https") != 0;
    const char *payload = is_given(c->sha256) && (is_open || c->body != NULL) ? c->sha256
                          : c->has_body                                       ? EXP_SIGV4_UNSIGNED
                                        : "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b"
                                          "7852b855"; /* nothing */
    add_header(c, &count, "host: %s", host);
    add_header(c, &count, "x-amz-content-sha256: %s", payload);
    add_header(c, &count, "x-amz-date: %s", date);
    if (keys.token[0] != '\0')
        add_header(c, &count, "x-amz-security-token: %s", keys.token);
    if (is_given(c->md5))
        add_header(c, &count, "content-md5: %s", c->md5);
    if (c->type != NULL)
        add_header(c, &count, "content-type: %s", c->type);
    if (c->range != NULL && exp_range_header(c->range, range, sizeof range))
        add_header(c, &count, "%s", range);
    struct exp_sigv4 sign = {.access_key = keys.access,
                             .secret_key = keys.secret,
                             .region = c->region,
                             .service = "s3",
                             .time = now,
                             .method = c->method,
                             .path = ebb_str_c(&c->path),
                             .query = c->query,
                             .headers = c->headers,
                             .header_count = count,
                             .payload = payload};
    enum ebb_status status = exp_sigv4_sign(&sign, &signature, err);
    explicit_bzero(&keys, sizeof keys);
    if (status == EBB_OK)
        add_header(c, &count, "authorization: %s", ebb_str_c(&signature));
    ebb_str_fini(&signature);
    for (size_t i = 0; i < count; i++)
        EBB_THEN(status, ebb_str_status(&c->lines[i], err));
    EBB_THEN(status, ebb_str_status(&c->url, err));
    const char *bundle = getenv("AWS_CA_BUNDLE"), *file = getenv("SSL_CERT_FILE");
    q->method = c->method;
    q->url = ebb_str_c(&c->url);
    q->headers = c->headers;
    q->header_count = count;
    q->has_body = c->has_body;
    q->is_long = strcmp(c->method, "POST") == 0; /* deleting a thousand, putting parts together */
    q->body = c->body;
    q->fd = c->fd;
    q->offset = c->offset;
    q->bytes = c->bytes;
    q->sink = c->range != NULL ? exp_range_take : NULL;
    q->sink_context = c->range;
    q->is_meant = has_etag;
    q->authorities = bundle != NULL && bundle[0] != '\0' ? bundle
                     : file != NULL && file[0] != '\0'   ? file
                                                         : NULL;
    return status;
}

static enum ebb_status blame(const struct call *c, enum ebb_status status, struct ebb_error *err)
{
    char prefix[EXP_SHORT], key[EXP_SHORT];
    return ebb_context(err, status, "s3: %s %s/%s%s", c->method, c->r->store->bucket,
                       exp_http_short(c->r->store->prefix, prefix),
                       exp_http_short(c->key != NULL ? c->key : c->about, key));
}

/* The ETag that came is the MD5 of what was sent, where it is an MD5 at all. */
static bool is_other_etag(const struct call *c)
{
    char etag[EXP_ETAG], way[64];
    exp_http_header(&c->answer, "etag", etag, sizeof etag);
    exp_http_header(&c->answer, "x-amz-server-side-encryption", way, sizeof way);
    return is_given(c->want) && strlen(etag) == 34 && etag[0] == '"' &&
           strncmp(way, "aws:kms", 7) != 0 && strncmp(etag + 1, c->want, 32) != 0;
}

/* A 2xx may be somebody else's, of a portal before the server: one that says what a store says. */
static enum ebb_status prove(const struct call *c, struct exp_xml body, struct ebb_error *err)
{
    struct exp_xml inner;
    if ((is_given(c->want) || c->range != NULL) && !has_etag(&c->answer))
        return ebb_fail(err, EBB_EIO, "%d without an ETag: no answer of a store", c->answer.status);
    if (c->element != NULL && !exp_xml_next(&body, c->element, &inner))
        return ebb_fail(err, EBB_EIO, "%d without <%s>: no answer of a store", c->answer.status,
                        c->element);
    if (is_other_etag(c))
        return ebb_fail(err, EBB_EIO,
                        "the server has stored something else than was sent (its ETag)");
    return EBB_OK;
}

/* Another region or host, if that is what the answer says. */
static bool is_sent_away(struct call *c, const char *code, struct exp_xml body)
{
    char region[64], key[1024], location[1024];
    int status = c->answer.status;
    if (status == 307 && exp_http_header(&c->answer, "location", location, sizeof location)) {
        const char *at = strstr(location, "://");
        bool is_safe =
            at != NULL &&
            (strncmp(location, "https", 5) == 0 ||
             (c->r->store->endpoint != NULL && strncmp(c->r->store->endpoint, "https", 5) != 0));
        if (!is_safe)
            return false;
        snprintf(c->host, sizeof c->host, "%.*s", (int)strcspn(at + 3, "/?"), at + 3);
        return true;
    }
    bool is_about_region = status == 301 || strcmp(code, "AuthorizationHeaderMalformed") == 0 ||
                           strcmp(code, "PermanentRedirect") == 0 ||
                           strcmp(code, "IllegalLocationConstraintException") == 0;
    if (!is_about_region ||
        (!exp_http_header(&c->answer, "x-amz-bucket-region", region, sizeof region) &&
         !exp_xml_text(body, "Region", region, sizeof region)))
        return false;
    if (region[0] == '\0' || strcmp(region, c->region) == 0 ||
        strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(region))
        return false; /* H1: it becomes part of a host's name */
    region_key(c->r->store, key, sizeof key);
    exp_net_learn(c->r->store->net, key, region, 0);
    return true;
}

/* Of a redirect that is not followed (any more), for messages: the host. */
static void name_target(const struct exp_http_answer *a, char *text, size_t size)
{
    char location[1024];
    if (!exp_http_header(a, "location", location, sizeof location))
        return;
    const char *at = strstr(location, "://");
    size_t n = at != NULL ? (size_t)(at + 3 - location) : 0;
    snprintf(text, size, "sent on to %.*s", (int)(n + strcspn(location + n, "/?")), location);
}

static bool is_any(const char *code, const char *const *codes)
{
    while (*codes != NULL && strcmp(code, *codes) != 0)
        codes++;
    return *codes != NULL;
}

static enum exp_verdict judge(void *context, const struct exp_http_answer *answer,
                              struct ebb_error *err)
{
    static const char *const passing[] = {"SlowDown",      "RequestTimeout", "BadDigest",
                                          "InternalError", "InvalidDigest",  NULL};
    static const char *const stale[] = {"ExpiredToken", "InvalidToken", NULL};
    struct call *c = context;
    char code[128], message[512];
    if (answer == NULL) {
        blame(c, EBB_EIO, err);
        return EXP_AGAIN;
    }
    struct exp_xml body = {ebb_str_c(&answer->body), NULL};
    body.end = body.at + answer->body.length;
    exp_xml_text(body, "Code", code, sizeof code);
    bool is_completing = strcmp(c->method, "POST") == 0 && strncmp(c->query, "uploadId", 8) == 0;
    bool is_error = answer->status / 100 != 2 || /* an upload may fail after a 200 was sent */
                    (is_completing && exp_xml_text(body, "Error", message, sizeof message));
    if (!is_error && prove(c, body, err) != EBB_OK) {
        blame(c, EBB_EIO, err);
        return EXP_AGAIN;
    }
    bool is_nothing = answer->status == 404 || answer->status == 501; /* not all know to list */
    if (!is_error || (is_nothing && c->allows_missing))
        return EXP_DONE;
    if (!exp_xml_text(body, "Message", message, sizeof message))
        name_target(answer, message, sizeof message);
    if (code[0] == '\0' && message[0] == '\0')
        exp_http_words(answer, message);
    ebb_fail(err, EBB_EIO, "%d%s%s%s%s", answer->status, code[0] != '\0' ? " " : "", code,
             message[0] != '\0' ? ": " : "", message);
    blame(c, strcmp(code, "NoSuchUpload") == 0 ? EBB_ECORRUPT : EBB_EIO, err);
    if (is_sent_away(c, code, body))
        return EXP_OTHER;
    if (is_any(code, stale) && c->r->store->access_key == NULL) {
        exp_aws_forget(c->r);
        return EXP_OTHER;
    }
    return exp_http_is_passing(answer->status) || answer->status == 200 || is_any(code, passing)
               ? EXP_AGAIN
               : EXP_NEVER;
}

static enum ebb_status perform(struct call *c, struct ebb_error *err)
{
    struct exp_exchange x = {.make = make, .judge = judge, .context = c, .watch = c->r->watch};
    exp_http_answer_init(&c->answer);
    for (size_t i = 0; i < HEADERS_MAX; i++)
        ebb_str_init(&c->lines[i]);
    ebb_str_init(&c->url);
    ebb_str_init(&c->path);
    return exp_http_exchange(c->r->http, &x, &c->answer, err);
}

static void finish(struct call *c)
{
    for (size_t i = 0; i < HEADERS_MAX; i++) {
        if (c->lines[i].data != NULL)
            explicit_bzero(c->lines[i].data, c->lines[i].length);
        ebb_str_fini(&c->lines[i]);
    }
    ebb_str_fini(&c->url);
    ebb_str_fini(&c->path);
    exp_http_answer_fini(&c->answer);
}

/* ---- sums of bodies ---- */

static enum ebb_status name_md5(const uint8_t md5[16], struct exp_sums *sums, struct ebb_error *err)
{
    struct ebb_str text = {0};
    ebb_hex(md5, 16, sums->md5_hex);
    ebb_base64_add(&text, md5, 16);
    snprintf(sums->md5, sizeof sums->md5, "%s", ebb_str_c(&text));
    enum ebb_status status = ebb_str_status(&text, err);
    ebb_str_fini(&text);
    return status;
}

/* sha NULL: none is wanted. Both are done with, whatever the status. */
static enum ebb_status end_sums(struct ebb_md5 *md5, struct ebb_sha256 *sha, struct exp_sums *sums,
                                struct ebb_error *err)
{
    uint8_t bytes[16];
    enum ebb_status other = EBB_OK, status = ebb_md5_bytes(md5, bytes, err);
    sums->sha256[0] = '\0';
    if (sha != NULL)
        other = ebb_sha256_text(sha, sums->sha256, err);
    EBB_THEN(status, name_md5(bytes, sums, err));
    return status != EBB_OK ? status : other;
}

/* The connection does not protect bodies: their SHA-256 is signed. */
static bool is_open(const struct exp_store *s)
{
    return s->endpoint != NULL && strncmp(s->endpoint, "https", 5) != 0;
}

static enum ebb_status read_whole(int fd, uint8_t *to, size_t bytes, int64_t at,
                                  struct ebb_error *err)
{
    for (size_t have = 0; have < bytes;) {
        ssize_t got = pread(fd, to + have, bytes - have, at + (int64_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return ebb_fail(err, EBB_EIO, "the staged copy cannot be read");
        have += (size_t)got;
    }
    return EBB_OK;
}

static enum ebb_status sum_file(int fd, int64_t offset, int64_t bytes, bool wants_sha256,
                                struct exp_sums *sums, struct ebb_error *err)
{
    static const size_t piece = (size_t)256 << 10;
    struct ebb_md5 md5;
    struct ebb_sha256 sha = {0};
    enum ebb_status status = EBB_OK;
    uint8_t *buffer = ebb_alloc(piece);
    if (buffer == NULL)
        return ebb_no_memory(err, piece);
    ebb_md5_init(&md5);
    if (wants_sha256)
        ebb_sha256_init(&sha);
    for (int64_t at = 0; status == EBB_OK && at < bytes;) {
        size_t n = bytes - at < (int64_t)piece ? (size_t)(bytes - at) : piece;
        status = read_whole(fd, buffer, n, offset + at, err);
        if (status == EBB_OK)
            ebb_md5_add(&md5, buffer, n);
        if (status == EBB_OK && wants_sha256)
            ebb_sha256_add(&sha, buffer, n);
        at += (int64_t)n;
    }
    ebb_free(buffer);
    enum ebb_status ended =
        end_sums(&md5, wants_sha256 ? &sha : NULL, sums, status == EBB_OK ? err : NULL);
    return status != EBB_OK ? status : ended;
}

static enum ebb_status sum_text(const struct ebb_str *text, struct exp_sums *sums,
                                struct ebb_error *err)
{
    struct ebb_md5 md5;
    struct ebb_sha256 sha;
    EBB_TRY(ebb_str_status(text, err));
    ebb_md5_init(&md5);
    ebb_sha256_init(&sha);
    ebb_md5_add(&md5, ebb_str_c(text), text->length);
    ebb_sha256_add(&sha, ebb_str_c(text), text->length);
    return end_sums(&md5, &sha, sums, err);
}

/* ---- files ---- */

static enum ebb_status key_of(const char *uuid, const char *path, struct ebb_str *key,
                              struct ebb_error *err)
{
    ebb_str_printf(key, "%s/%s", uuid, path);
    return ebb_str_status(key, err);
}

static enum ebb_status send(struct exp_remote *r, const struct exp_remote_file *f,
                            const char *query, int64_t offset, int64_t bytes,
                            const struct exp_sums *sums, char etag[EXP_ETAG], struct ebb_error *err)
{
    struct ebb_str key = {0};
    enum ebb_status status = key_of(f->uuid, f->path, &key, err);
    if (status == EBB_OK) {
        struct call c = {.r = r,
                         .method = "PUT",
                         .key = ebb_str_c(&key),
                         .query = query,
                         .has_body = true,
                         .fd = f->fd,
                         .offset = offset,
                         .bytes = bytes,
                         .md5 = sums->md5,
                         .sha256 = sums->sha256,
                         .want = sums->md5_hex,
                         .type = "application/octet-stream"};
        status = perform(&c, err);
        if (status == EBB_OK && etag != NULL)
            exp_http_header(&c.answer, "etag", etag, EXP_ETAG);
        finish(&c);
    }
    ebb_str_fini(&key);
    return status;
}

static enum ebb_status put(struct exp_remote *r, const struct exp_remote_file *f,
                           struct ebb_error *err)
{
    struct exp_sums sums = {0};
    bool is_proved = f->sha256 != NULL; /* a moment ago: the manifest's is what is signed */
    EBB_TRY(sum_file(f->fd, 0, f->bytes, is_open(r->store) && !is_proved, &sums, err));
    if (is_proved)
        snprintf(sums.sha256, sizeof sums.sha256, "%s", f->sha256);
    return send(r, f, "", 0, f->bytes, &sums, NULL, err);
}

static int64_t part_bytes(int64_t bytes)
{
    if (bytes <= ONE_PUT)
        return 0;
    int64_t least = (bytes + PARTS_MAX - 1) / PARTS_MAX;
    least = (least + MIB - 1) / MIB * MIB;
    return least > ONE_PUT ? least : ONE_PUT;
}

static enum ebb_status begin_parts(struct exp_remote *r, const struct exp_remote_file *f,
                                   char id[EXP_UPLOAD_ID], struct ebb_error *err)
{
    struct ebb_str key = {0};
    EBB_TRY(key_of(f->uuid, f->path, &key, err));
    struct call c = {.r = r,
                     .method = "POST",
                     .key = ebb_str_c(&key),
                     .query = "uploads=",
                     .has_body = true,
                     .body = "",
                     .fd = -1,
                     .type = "application/octet-stream",
                     .element = "UploadId"};
    enum ebb_status status = perform(&c, err);
    struct exp_xml body = {ebb_str_c(&c.answer.body),
                           ebb_str_c(&c.answer.body) + c.answer.body.length};
    if (status == EBB_OK && (!exp_xml_text(body, "UploadId", id, EXP_UPLOAD_ID) || id[0] == '\0')) {
        ebb_fail(err, EBB_EIO, "the answer names no upload");
        status = blame(&c, EBB_EIO, err);
    }
    finish(&c);
    ebb_str_fini(&key);
    return status;
}

static void upload_query(struct ebb_str *query, const char *id)
{
    ebb_str_add(query, "uploadId=");
    exp_url_escape(query, id, false);
}

/* Parts of one length: their MD5s side by side, which is four times as fast. */
static enum ebb_status sum_equal(const struct exp_store *s, int fd, const size_t *parts,
                                 size_t count, int64_t bytes, struct exp_sums *sums,
                                 struct ebb_error *err)
{
    static const size_t piece = (size_t)32 << 10; /* of each: all stay in the processor's cache */
    struct ebb_md5_lanes md5;
    struct ebb_sha256 sha[EBB_MD5_LANES] = {0};
    bool wants_sha256 = is_open(s);
    const uint8_t *data[EBB_MD5_LANES];
    uint8_t found[EBB_MD5_LANES][16], *buffer = ebb_alloc(count * piece);
    enum ebb_status status = EBB_OK;
    if (buffer == NULL)
        return ebb_no_memory(err, count * piece);
    ebb_md5_lanes_init(&md5);
    for (size_t i = 0; i < EBB_MD5_LANES; i++)
        data[i] = buffer + (i < count ? i : 0) * piece;
    for (size_t i = 0; i < count && wants_sha256; i++)
        ebb_sha256_init(&sha[i]);
    for (int64_t at = 0; status == EBB_OK && at < bytes;) {
        size_t n = bytes - at < (int64_t)piece ? (size_t)(bytes - at) : piece;
        for (size_t i = 0; status == EBB_OK && i < count; i++) {
            status = read_whole(fd, buffer + i * piece, n, (int64_t)parts[i] * bytes + at, err);
            if (status == EBB_OK && wants_sha256)
                ebb_sha256_add(&sha[i], data[i], n);
        }
        if (status == EBB_OK)
            ebb_md5_lanes_add(&md5, data, n);
        at += (int64_t)n;
    }
    ebb_free(buffer);
    ebb_md5_lanes_end(&md5, found);
    for (size_t i = 0; i < count; i++) {
        sums[i].sha256[0] = '\0';
        if (wants_sha256)
            EBB_THEN(status, ebb_sha256_text(&sha[i], sums[i].sha256, err));
        ebb_sha256_fini(&sha[i]);
        EBB_THEN(status, name_md5(found[i], &sums[i], err));
    }
    return status;
}

static enum ebb_status sum_parts(struct exp_remote *r, const struct exp_remote_file *f,
                                 const size_t *parts, size_t count, struct exp_sums *sums,
                                 struct ebb_error *err)
{
    int64_t size = part_bytes(f->bytes);
    int64_t last = f->bytes - (int64_t)parts[count - 1] * size; /* it may be shorter */
    size_t equal = last < size ? count - 1 : count;
    if (equal < 2) /* one alone is faster by libcrypto */
        equal = 0;
    if (equal > 0)
        EBB_TRY(sum_equal(r->store, f->fd, parts, equal, size, sums, err));
    for (size_t i = equal; i < count; i++) {
        int64_t at = (int64_t)parts[i] * size, left = f->bytes - at;
        EBB_TRY(sum_file(f->fd, at, left < size ? left : size, is_open(r->store), &sums[i], err));
    }
    return EBB_OK;
}

static enum ebb_status put_part(struct exp_remote *r, const struct exp_remote_file *f,
                                const char *id, size_t part, const struct exp_sums *sums,
                                char etag[EXP_ETAG], struct ebb_error *err)
{
    int64_t size = part_bytes(f->bytes), at = (int64_t)part * size, left = f->bytes - at;
    struct ebb_str query = {0};
    ebb_str_printf(&query, "partNumber=%zu&", part + 1);
    upload_query(&query, id);
    enum ebb_status status = ebb_str_status(&query, err);
    EBB_THEN(status, send(r, f, ebb_str_c(&query), at, left < size ? left : size, sums, etag, err));
    if (status == EBB_OK && etag[0] == '\0')
        status = ebb_fail(err, EBB_EIO, "s3: PUT %s/%s: the answer has no ETag", f->uuid, f->path);
    ebb_str_fini(&query);
    return status;
}

/* MD5 of the MD5s of the parts, as ETags of such objects are made; false: not all are MD5s. */
static bool join_etags(struct exp_remote *r, const char *path, size_t parts, char joined[EXP_ETAG])
{
    struct ebb_md5 md5;
    uint8_t bytes[16];
    char etag[EXP_ETAG], hex[33];
    bool is_good = true;
    ebb_md5_init(&md5);
    for (size_t i = 0; is_good && i < parts; i++) {
        is_good = exp_journal_part(r->journal, path, i, etag) && strlen(etag) == 34;
        for (int k = 0; is_good && k < 16; k++) {
            unsigned value = 0;
            is_good = sscanf(etag + 1 + 2 * k, "%2x", &value) == 1;
            bytes[k] = (uint8_t)value;
        }
        ebb_md5_add(&md5, bytes, 16);
    }
    if (ebb_md5_bytes(&md5, bytes, NULL) != EBB_OK || !is_good)
        return false;
    ebb_hex(bytes, 16, hex);
    snprintf(joined, EXP_ETAG, "%s-%zu", hex, parts);
    return true;
}

/* Is the object there, as long and with the ETag that it must have? */
static bool is_there(struct exp_remote *r, const char *key, int64_t bytes, const char *joined)
{
    char length[32], etag[EXP_ETAG];
    struct call c = {.r = r, .method = "HEAD", .key = key, .query = "", .fd = -1};
    uint64_t found = 0;
    bool is_good = perform(&c, NULL) == EBB_OK &&
                   exp_http_header(&c.answer, "content-length", length, sizeof length) &&
                   ebb_parse_u64(length, &found) && found == (uint64_t)bytes &&
                   exp_http_header(&c.answer, "etag", etag, sizeof etag) &&
                   strstr(etag, joined) != NULL;
    finish(&c);
    return is_good;
}

static enum ebb_status list_parts(struct exp_remote *r, const char *path, size_t parts,
                                  struct ebb_str *body, struct ebb_error *err)
{
    char etag[EXP_ETAG];
    ebb_str_add(body, "<CompleteMultipartUpload>");
    for (size_t i = 0; i < parts; i++) {
        if (!exp_journal_part(r->journal, path, i, etag))
            return ebb_fail(err, EBB_EINTERNAL, "part %zu of %s is not there", i + 1, path);
        ebb_str_printf(body, "<Part><PartNumber>%zu</PartNumber><ETag>", i + 1);
        exp_xml_escape(body, etag);
        ebb_str_add(body, "</ETag></Part>");
    }
    ebb_str_add(body, "</CompleteMultipartUpload>");
    return ebb_str_status(body, err);
}

static enum ebb_status finish_parts(struct exp_remote *r, const struct exp_remote_file *f,
                                    const char *id, size_t parts, struct ebb_error *err)
{
    struct ebb_str key = {0}, query = {0}, body = {0};
    struct exp_sums sums;
    char joined[EXP_ETAG] = "", etag[EXP_ETAG];
    upload_query(&query, id);
    enum ebb_status status = key_of(f->uuid, f->path, &key, err);
    EBB_THEN(status, ebb_str_status(&query, err));
    EBB_THEN(status, list_parts(r, f->path, parts, &body, err));
    EBB_THEN(status, sum_text(&body, &sums, err));
    if (status == EBB_OK) {
        struct call c = {.r = r,
                         .method = "POST",
                         .key = ebb_str_c(&key),
                         .query = ebb_str_c(&query),
                         .has_body = true,
                         .body = ebb_str_c(&body),
                         .bytes = (int64_t)body.length,
                         .fd = -1,
                         .sha256 = sums.sha256,
                         .type = "application/xml",
                         .element = "ETag"};
        bool has_sum = join_etags(r, f->path, parts, joined);
        status = perform(&c, err);
        /* The answer to an earlier try may have been lost: then the upload is known no more. */
        if (status == EBB_ECORRUPT && has_sum && is_there(r, c.key, f->bytes, joined))
            status = EBB_OK;
        struct exp_xml answer = {ebb_str_c(&c.answer.body),
                                 ebb_str_c(&c.answer.body) + c.answer.body.length};
        if (status == EBB_OK && has_sum && exp_xml_text(answer, "ETag", etag, sizeof etag) &&
            strchr(etag, '-') != NULL && strstr(etag, joined) == NULL) {
            ebb_fail(err, EBB_ECORRUPT, "the server has put together something else (its ETag)");
            status = blame(&c, EBB_ECORRUPT, err);
        }
        finish(&c);
    }
    ebb_str_fini(&key);
    ebb_str_fini(&query);
    ebb_str_fini(&body);
    return status;
}

static enum ebb_status get(struct exp_remote *r, const char *uuid, const char *path, int64_t offset,
                           int64_t bytes, exp_http_sink sink, void *context, struct ebb_error *err)
{
    struct exp_range range = {.offset = offset, .bytes = bytes, .sink = sink, .context = context};
    struct ebb_str key = {0};
    EBB_TRY(key_of(uuid, path, &key, err));
    struct call c = {
        .r = r, .method = "GET", .key = ebb_str_c(&key), .query = "", .fd = -1, .range = &range};
    enum ebb_status status = perform(&c, err);
    finish(&c);
    ebb_str_fini(&key);
    return status;
}

/* ---- removing ---- */

static enum ebb_status read_refusals(struct call *c, struct ebb_error *err)
{
    struct exp_xml body = {ebb_str_c(&c->answer.body),
                           ebb_str_c(&c->answer.body) + c->answer.body.length},
                   one;
    char code[128], key[1200], message[400];
    while (exp_xml_next(&body, "Error", &one)) {
        exp_xml_text(one, "Code", code, sizeof code);
        exp_xml_text(one, "Key", key, sizeof key);
        exp_xml_text(one, "Message", message, sizeof message);
        if (strcmp(code, "NoSuchKey") != 0) {
            ebb_fail(err, EBB_EIO, "s3: DELETE %s/%s: %s: %s", c->r->store->bucket, key, code,
                     message);
            exp_http_clean(err);
            return EBB_EIO;
        }
    }
    return EBB_OK;
}

static enum ebb_status remove_some(struct exp_remote *r, const char *uuid, const char *const *paths,
                                   size_t count, struct ebb_error *err)
{
    struct ebb_str body = {0};
    struct exp_sums sums;
    ebb_str_add(&body, "<Delete><Quiet>true</Quiet>");
    for (size_t i = 0; i < count; i++) {
        ebb_str_add(&body, "<Object><Key>");
        exp_xml_escape(&body, r->store->prefix);
        ebb_str_printf(&body, "%s/", uuid);
        exp_xml_escape(&body, paths[i]);
        ebb_str_add(&body, "</Key></Object>");
    }
    ebb_str_add(&body, "</Delete>");
    enum ebb_status status = sum_text(&body, &sums, err);
    if (status == EBB_OK) {
        struct call c = {.r = r,
                         .method = "POST",
                         .about = uuid,
                         .query = "delete=",
                         .has_body = true,
                         .body = ebb_str_c(&body),
                         .bytes = (int64_t)body.length,
                         .fd = -1,
                         .md5 = sums.md5,
                         .sha256 = sums.sha256,
                         .type = "application/xml",
                         .element = "DeleteResult"};
        status = perform(&c, err);
        EBB_THEN(status, read_refusals(&c, err));
        finish(&c);
    }
    ebb_str_fini(&body);
    return status;
}

static enum ebb_status abort_upload(struct exp_remote *r, const char *key, const char *id,
                                    struct ebb_error *err)
{
    struct ebb_str query = {0};
    upload_query(&query, id);
    struct call c = {.r = r,
                     .method = "DELETE",
                     .key = key + strlen(r->store->prefix),
                     .query = ebb_str_c(&query),
                     .fd = -1,
                     .allows_missing = true};
    enum ebb_status status = ebb_str_status(&query, err);
    if (status == EBB_OK) {
        status = perform(&c, err);
        finish(&c);
    }
    ebb_str_fini(&query);
    return status;
}

/* One that the journal knows. */
static enum ebb_status abort_known(struct exp_remote *r, const char *uuid, const char *path,
                                   struct ebb_error *err)
{
    char id[EXP_UPLOAD_ID];
    struct ebb_str key = {0};
    if (exp_journal_is_done(r->journal, path) || !exp_journal_upload(r->journal, path, id))
        return EBB_OK;
    ebb_str_printf(&key, "%s%s/%s", r->store->prefix, uuid, path);
    enum ebb_status status = ebb_str_status(&key, err);
    EBB_THEN(status, abort_upload(r, ebb_str_c(&key), id, err));
    ebb_str_fini(&key);
    return status;
}

/* Uploads of this checkpoint that were begun and not finished, as the server knows them. */
static enum ebb_status abort_uploads(struct exp_remote *r, const char *uuid, struct ebb_error *err)
{
    struct ebb_str query = {0}, start = {0};
    char key[2048], id[EXP_UPLOAD_ID];
    ebb_str_printf(&start, "%s%s/", r->store->prefix, uuid);
    ebb_str_add(&query, "prefix=");
    exp_url_escape(&query, ebb_str_c(&start), false);
    ebb_str_add(&query, "&uploads=");
    struct call c = {.r = r,
                     .method = "GET",
                     .about = uuid,
                     .query = ebb_str_c(&query),
                     .fd = -1,
                     .element = "ListMultipartUploadsResult",
                     .allows_missing = true};
    enum ebb_status status = ebb_str_status(&query, err);
    if (status == EBB_OK) {
        status = perform(&c, err);
        struct exp_xml body = {ebb_str_c(&c.answer.body),
                               ebb_str_c(&c.answer.body) + c.answer.body.length},
                       one;
        while (status == EBB_OK && exp_xml_next(&body, "Upload", &one))
            if (exp_xml_text(one, "Key", key, sizeof key) &&
                exp_xml_text(one, "UploadId", id, sizeof id) &&
                strncmp(key, ebb_str_c(&start), start.length) == 0)
                status = abort_upload(r, key, id, err);
        finish(&c);
    }
    ebb_str_fini(&start);
    ebb_str_fini(&query);
    return status;
}

static enum ebb_status remove_paths(struct exp_remote *r, const char *uuid,
                                    const char *const *paths, size_t count, struct ebb_error *err)
{
    for (size_t at = 0; at < count; at += DELETE_MAX)
        EBB_TRY(remove_some(r, uuid, paths + at, count - at < DELETE_MAX ? count - at : DELETE_MAX,
                            err));
    for (size_t i = 0; r->journal != NULL && i < count; i++)
        EBB_TRY(abort_known(r, uuid, paths[i], err));
    return abort_uploads(r, uuid, err);
}

static const struct exp_remote_driver remote = {
    .address = address,
    .has_markers = true,
    .key_max = 1024,
    .put = put,
    .part_bytes = part_bytes,
    .begin_parts = begin_parts,
    .sum_parts = sum_parts,
    .put_part = put_part,
    .finish_parts = finish_parts,
    .get = get,
    .remove = remove_paths,
};

const struct exp_store_driver exp_store_s3 = {.name = "s3", .remote = &remote};
