/* gcs.c - Google Cloud Storage by its JSON API. See driver.h for what each function owes.
 *
 * Files up to 8 MiB are one request; larger ones go through a resumable session, which the server
 * remembers: after a break it is asked how much it has, and the rest is sent. The CRC-32C that the
 * server computed is compared with ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/crypto.h"
#include "base/doc.h"
#include "base/heap.h"
#include "base/thread.h"
#include "exp/store/google.h"
#include "exp/store/sigv4.h"

#define ONE_POST ((int64_t)8 << 20)
#define HEADERS_MAX 5
#define WAYS_REMOVE 8
#define STANDSTILLS 5 /* tries of a session that bring nothing */

struct call {
    struct exp_remote *r;
    const char *method;
    const char *key; /* for messages */
    const char *url;
    const char *type;  /* Content-Type, or NULL */
    const char *extra; /* one more header, or NULL */
    bool has_body;
    const char *body;
    int fd;
    int64_t offset, bytes;
    struct exp_range *range;
    bool allows_missing, allows_more; /* 404; 308: the session wants more */
    bool is_once;                     /* who asks tries again */
    bool is_renewed;
    struct exp_http_answer answer;
    char authorization[EXP_TOKEN + 32], range_text[80], type_text[80];
    const char *headers[HEADERS_MAX];
};

/* ---- where ---- */

static void address(const struct exp_store *s, const char *uuid, struct ebb_str *out)
{
    ebb_str_printf(out, "gs://%s/%s%s", s->bucket, s->prefix, uuid);
}

/* "https://host" + before + bucket + "/o". */
static void add_base(const struct exp_store *s, const char *before, struct ebb_str *out)
{
    const char *host = getenv("STORAGE_EMULATOR_HOST");
    if (host == NULL || host[0] == '\0')
        host = "https://storage.googleapis.com";
    size_t n = strlen(host);
    while (n > 0 && host[n - 1] == '/')
        n--;
    ebb_str_printf(out, "%s%.*s%s", strstr(host, "://") == NULL ? "http://" : "", (int)n, host,
                   before);
    exp_url_escape(out, s->bucket, false);
    ebb_str_add(out, "/o");
}

static void add_key(const struct exp_store *s, const char *uuid, const char *path,
                    struct ebb_str *out)
{
    exp_url_escape(out, s->prefix, false);
    exp_url_escape(out, uuid, false);
    ebb_str_add(out, "%2F");
    exp_url_escape(out, path, false);
}

/* ---- one request ---- */

/* Every answer with an object has these; pages of portals have none. */
static bool is_stores(const struct exp_http_answer *answer)
{
    char text[8];
    return exp_http_header(answer, "x-goog-hash", text, sizeof text) ||
           exp_http_header(answer, "x-goog-generation", text, sizeof text) ||
           exp_http_header(answer, "etag", text, sizeof text);
}

static enum ebb_status make(void *context, struct exp_http_request *q, struct ebb_error *err)
{
    struct call *c = context;
    char token[EXP_TOKEN];
    size_t count = 0;
    EBB_TRY(exp_google_token(c->r, token, err));
    snprintf(c->authorization, sizeof c->authorization, "Authorization: Bearer %s", token);
    if (token[0] != '\0')
        c->headers[count++] = c->authorization;
    if (c->type != NULL) {
        snprintf(c->type_text, sizeof c->type_text, "Content-Type: %s", c->type);
        c->headers[count++] = c->type_text;
    }
    if (c->extra != NULL)
        c->headers[count++] = c->extra;
    if (c->range != NULL && exp_range_header(c->range, c->range_text, sizeof c->range_text))
        c->headers[count++] = c->range_text;
    const char *file = getenv("SSL_CERT_FILE");
    q->method = c->method;
    q->url = c->url;
    q->headers = c->headers;
    q->header_count = count;
    q->has_body = c->has_body;
    q->body = c->body;
    q->fd = c->fd;
    q->offset = c->offset;
    q->bytes = c->bytes;
    q->sink = c->range != NULL ? exp_range_take : NULL;
    q->sink_context = c->range;
    q->is_meant = is_stores;
    q->authorities = file != NULL && file[0] != '\0' ? file : NULL;
    return EBB_OK;
}

static enum ebb_status blame(const struct call *c, enum ebb_status status, struct ebb_error *err)
{
    char prefix[EXP_SHORT], key[EXP_SHORT];
    return ebb_context(err, status, "gcs: %s %s/%s%s", c->method, c->r->store->bucket,
                       exp_http_short(c->r->store->prefix, prefix), exp_http_short(c->key, key));
}

/* {"error": {"code", "message", "errors": [{"reason"}]}}, or the beginning of whatever came. */
void exp_gcs_explain(const struct exp_http_answer *a, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root = NULL;
    (void)ebb_doc_parse_json(&arena, "answer", ebb_str_c(&a->body), a->body.length, &root, NULL);
    const struct ebb_doc_node *error = ebb_doc_get(root, "error");
    const struct ebb_doc_node *list = ebb_doc_get(error, "errors");
    const char *reason = list != NULL && list->kind == EBB_DOC_LIST && list->count > 0
                             ? ebb_doc_string(list->items[0], "reason", "")
                             : "";
    const char *message = ebb_doc_string(error, "message", NULL);
    char plain[EXP_WORDS];
    ebb_fail(err, EBB_EIO, "%d%s%s: %s", a->status, reason[0] != '\0' ? " " : "", reason,
             message != NULL ? message : exp_http_words(a, plain));
    ebb_arena_fini(&arena);
}

static enum exp_verdict judge(void *context, const struct exp_http_answer *answer,
                              struct ebb_error *err)
{
    struct call *c = context;
    if (answer == NULL) {
        blame(c, err->status, err);
        return c->is_once ? EXP_NEVER : EXP_AGAIN;
    }
    int status = answer->status;
    bool is_page = strcmp(c->method, "DELETE") == 0 ? answer->body.length > 0
                                                    : c->range != NULL && !is_stores(answer);
    if (status / 100 == 2 && is_page) {
        ebb_fail(err, EBB_EIO, "%d with a page: no answer of a store", status);
        blame(c, EBB_EIO, err);
        return EXP_AGAIN;
    }
    bool is_missing =
        status == 404 || status == 410 || status == 499; /* 499: a session has ended */
    if (status / 100 == 2 || (is_missing && c->allows_missing) || (status == 308 && c->allows_more))
        return EXP_DONE;
    exp_gcs_explain(answer, err);
    bool is_gone = c->allows_more && (status == 404 || status == 410); /* the session */
    blame(c, is_gone ? EBB_ECORRUPT : EBB_EIO, err);
    err->status = is_gone ? EBB_ECORRUPT : EBB_EIO;
    if (status == 401 && !c->is_renewed) {
        c->is_renewed = true;
        exp_google_forget(c->r);
        return EXP_OTHER;
    }
    return exp_http_is_passing(status) && !c->is_once ? EXP_AGAIN : EXP_NEVER;
}

static enum ebb_status perform(struct call *c, struct ebb_error *err)
{
    struct exp_exchange x = {.make = make, .judge = judge, .context = c, .watch = c->r->watch};
    exp_http_answer_init(&c->answer);
    return exp_http_exchange(c->r->http, &x, &c->answer, err);
}

static void finish(struct call *c)
{
    explicit_bzero(c->authorization, sizeof c->authorization);
    exp_http_answer_fini(&c->answer);
}

/* ---- sums ---- */

static enum ebb_status sum_file(const struct exp_remote_file *f, char text[16],
                                struct ebb_error *err)
{
    static const size_t piece = (size_t)256 << 10;
    uint32_t crc = 0;
    char *buffer = ebb_alloc(piece);
    if (buffer == NULL)
        return ebb_no_memory(err, piece);
    enum ebb_status status = EBB_OK;
    for (int64_t at = 0; status == EBB_OK && at < f->bytes;) {
        ssize_t n = pread(f->fd, buffer, piece, at);
        if (n <= 0)
            status = ebb_fail(err, EBB_EIO, "the staged copy of %s cannot be read", f->path);
        else
            crc = ebb_crc32c_add(crc, buffer, (size_t)n);
        at += n > 0 ? n : 0;
    }
    ebb_free(buffer);
    struct ebb_str out = {0};
    uint8_t big[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8),
                      (uint8_t)crc};
    ebb_base64_add(&out, big, sizeof big);
    snprintf(text, 16, "%s", ebb_str_c(&out));
    ebb_str_fini(&out);
    return status;
}

/* What the server says it has is what was sent. EBB_ECORRUPT: it is not. */
static enum ebb_status compare(const struct call *c, const struct exp_remote_file *f,
                               const char *sum, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root = NULL;
    enum ebb_status status = EBB_OK;
    uint64_t size = 0;
    (void)ebb_doc_parse_json(&arena, "answer", ebb_str_c(&c->answer.body), c->answer.body.length,
                             &root, NULL);
    const char *found = ebb_doc_string(root, "crc32c", "");
    bool has_size = ebb_parse_u64(ebb_doc_string(root, "size", ""), &size);
    if (strcmp(found, sum) != 0 || !has_size || size != (uint64_t)f->bytes) {
        ebb_fail(err, EBB_ECORRUPT,
                 "the server has stored something else than was sent (crc32c %s of %llu bytes, not "
                 "%s of %lld)",
                 found, (unsigned long long)size, sum, (long long)f->bytes);
        status = blame(c, EBB_ECORRUPT, err);
        exp_http_clean(err);
    }
    ebb_arena_fini(&arena);
    return status;
}

/* ---- small files ---- */

static enum ebb_status put_small(struct exp_remote *r, const struct exp_remote_file *f,
                                 const char *key, const char *sum, struct ebb_error *err)
{
    struct ebb_str url = {0};
    add_base(r->store, "/upload/storage/v1/b/", &url);
    ebb_str_add(&url, "?uploadType=media&name=");
    add_key(r->store, f->uuid, f->path, &url);
    enum ebb_status status = ebb_str_status(&url, err);
    if (status == EBB_OK) {
        struct call c = {.r = r,
                         .method = "POST",
                         .key = key,
                         .url = ebb_str_c(&url),
                         .type = "application/octet-stream",
                         .has_body = true,
                         .body = f->fd < 0 ? "" : NULL,
                         .fd = f->fd,
                         .bytes = f->bytes};
        status = perform(&c, err);
        EBB_THEN(status, compare(&c, f, sum, err));
        finish(&c);
    }
    ebb_str_fini(&url);
    return status;
}

/* ---- sessions ---- */

static enum ebb_status begin_session(struct exp_remote *r, const struct exp_remote_file *f,
                                     const char *key, const char *sum, char id[EXP_UPLOAD_ID],
                                     struct ebb_error *err)
{
    struct ebb_str url = {0}, body = {0};
    char length[64];
    add_base(r->store, "/upload/storage/v1/b/", &url);
    ebb_str_add(&url, "?uploadType=resumable&name=");
    add_key(r->store, f->uuid, f->path, &url);
    ebb_str_printf(&body, "{\"crc32c\": \"%s\"}", sum); /* the server refuses anything else */
    snprintf(length, sizeof length, "X-Upload-Content-Length: %lld", (long long)f->bytes);
    enum ebb_status status = ebb_str_status(&url, err);
    EBB_THEN(status, ebb_str_status(&body, err));
    if (status == EBB_OK) {
        struct call c = {.r = r,
                         .method = "POST",
                         .key = key,
                         .url = ebb_str_c(&url),
                         .type = "application/json",
                         .extra = length,
                         .has_body = true,
                         .body = ebb_str_c(&body),
                         .bytes = (int64_t)body.length,
                         .fd = -1};
        status = perform(&c, err);
        if (status == EBB_OK && (!exp_http_header(&c.answer, "location", id, EXP_UPLOAD_ID) ||
                                 strlen(id) >= EXP_UPLOAD_ID - 1 || strncmp(id, "http", 4) != 0)) {
            ebb_fail(err, EBB_EIO, "the answer names no session");
            status = blame(&c, EBB_EIO, err);
        }
        finish(&c);
    }
    ebb_str_fini(&url);
    ebb_str_fini(&body);
    return status;
}

/* After a 308: how much the server has. */
static int64_t received(const struct exp_http_answer *a)
{
    char range[80];
    uint64_t last = 0;
    if (!exp_http_header(a, "range", range, sizeof range))
        return 0;
    const char *dash = strchr(range, '-');
    if (dash == NULL || !ebb_parse_u64(dash + 1, &last))
        return 0;
    return last < INT64_MAX ? (int64_t)last + 1 : INT64_MAX; /* H1 */
}

struct session {
    struct exp_remote *r;
    const struct exp_remote_file *f;
    const char *key, *id, *sum;
    int64_t at;    /* bytes that are there */
    int tried;     /* in vain since it last got on */
    bool is_asked; /* it is not known how much is there: the next request asks */
    bool is_whole;
};

/* Ask how much is there, or send the rest; broken, and another try is worth it: wait, then ask. */
static enum ebb_status feed(struct session *s, struct ebb_error *err)
{
    char range[120];
    long long total = (long long)s->f->bytes;
    if (s->is_asked)
        snprintf(range, sizeof range, "Content-Range: bytes */%lld", total);
    else
        snprintf(range, sizeof range, "Content-Range: bytes %lld-%lld/%lld", (long long)s->at,
                 total - 1, total);
    struct call c = {.r = s->r,
                     .method = "PUT",
                     .key = s->key,
                     .url = s->id,
                     .extra = range,
                     .has_body = true,
                     .body = s->is_asked ? "" : NULL,
                     .fd = s->f->fd,
                     .offset = s->at,
                     .bytes = s->is_asked ? 0 : s->f->bytes - s->at,
                     .allows_more = true,
                     .is_once = !s->is_asked}; /* a question tries again by itself */
    enum ebb_status status = perform(&c, err);
    s->is_whole = status == EBB_OK && c.answer.status != 308;
    if (s->is_whole) {
        status = compare(&c, s->f, s->sum, err);
    } else if (status == EBB_OK) {
        int64_t before = s->at;
        s->at = received(&c.answer);
        s->tried = s->at > before ? 0 : s->tried + !s->is_asked;
        s->is_asked = false;
        if (s->at > s->f->bytes) { /* H1 */
            ebb_fail(err, EBB_ECORRUPT, "the session has %lld of %lld bytes", (long long)s->at,
                     total);
            status = blame(&c, EBB_ECORRUPT, err);
        }
    } else if (status == EBB_EIO && !s->is_asked &&
               exp_http_rest(s->r->watch, ++s->tried, &c.answer)) {
        s->is_asked = true;
        status = EBB_OK;
    }
    finish(&c);
    return status;
}

/* EBB_ECORRUPT: the session is gone, or has something else. */
static enum ebb_status feed_all(struct session *s, struct ebb_error *err)
{
    while (!s->is_whole && s->tried < STANDSTILLS)
        EBB_TRY(feed(s, err));
    return s->is_whole
               ? EBB_OK
               : ebb_fail(err, EBB_EIO, "gcs: %s/%s: the upload stands still at %lld of %lld bytes",
                          s->r->store->bucket, s->key, (long long)s->at, (long long)s->f->bytes);
}

static enum ebb_status end_session(struct exp_remote *r, const char *path, struct ebb_error *err)
{
    char id[EXP_UPLOAD_ID];
    if (r->journal == NULL || exp_journal_is_done(r->journal, path) ||
        !exp_journal_upload(r->journal, path, id))
        return EBB_OK;
    struct call c = {
        .r = r, .method = "DELETE", .key = path, .url = id, .fd = -1, .allows_missing = true};
    enum ebb_status status = perform(&c, err);
    finish(&c);
    return status;
}

static enum ebb_status put_large(struct exp_remote *r, const struct exp_remote_file *f,
                                 const char *key, const char *sum, struct ebb_error *err)
{
    char id[EXP_UPLOAD_ID];
    enum ebb_status status = EBB_OK;
    for (int again = 0; again < 2; again++) {
        struct session s = {.r = r, .f = f, .key = key, .id = id, .sum = sum};
        s.is_asked = exp_journal_upload(r->journal, f->path, id); /* begun before */
        if (!s.is_asked) {
            EBB_TRY(begin_session(r, f, key, sum, id, err));
            EBB_TRY(exp_journal_begin(r->journal, f->path, id, err));
        }
        status = feed_all(&s, err);
        if (status != EBB_ECORRUPT)
            return status;
        (void)end_session(r, f->path, NULL);
        EBB_TRY(exp_journal_begin(r->journal, f->path, "", NULL));
    }
    return EBB_EIO;
}

static enum ebb_status put(struct exp_remote *r, const struct exp_remote_file *f,
                           struct ebb_error *err)
{
    struct ebb_str key = {0};
    char sum[16];
    ebb_str_printf(&key, "%s/%s", f->uuid, f->path);
    enum ebb_status status = ebb_str_status(&key, err);
    EBB_THEN(status, sum_file(f, sum, err));
    if (status == EBB_OK && f->bytes > ONE_POST && !f->is_alone) {
        status = put_large(r, f, ebb_str_c(&key), sum, err);
    } else if (status == EBB_OK) {
        status = put_small(r, f, ebb_str_c(&key), sum, err);
        if (status == EBB_ECORRUPT) /* once more: it replaces what is there */
            status = put_small(r, f, ebb_str_c(&key), sum, err);
    }
    ebb_str_fini(&key);
    return status;
}

/* ---- reading and removing ---- */

static enum ebb_status simple(struct exp_remote *r, const char *method, const char *uuid,
                              const char *path, struct exp_range *range, struct ebb_error *err)
{
    struct ebb_str url = {0}, key = {0};
    add_base(r->store, "/storage/v1/b/", &url);
    ebb_str_addc(&url, '/');
    add_key(r->store, uuid, path, &url);
    if (range != NULL)
        ebb_str_add(&url, "?alt=media");
    ebb_str_printf(&key, "%s/%s", uuid, path);
    enum ebb_status status = ebb_str_status(&url, err);
    if (status == EBB_OK) {
        struct call c = {.r = r,
                         .method = method,
                         .key = ebb_str_c(&key),
                         .url = ebb_str_c(&url),
                         .fd = -1,
                         .range = range,
                         .allows_missing = range == NULL};
        status = perform(&c, err);
        finish(&c);
    }
    ebb_str_fini(&url);
    ebb_str_fini(&key);
    return status;
}

static enum ebb_status get(struct exp_remote *r, const char *uuid, const char *path, int64_t offset,
                           int64_t bytes, exp_http_sink sink, void *context, struct ebb_error *err)
{
    struct exp_range range = {.offset = offset, .bytes = bytes, .sink = sink, .context = context};
    return simple(r, "GET", uuid, path, &range, err);
}

struct removal {
    struct exp_remote *r;
    const char *uuid;
    const char *const *paths;
    _Atomic int failed; /* 1 + the first that failed is not needed: any will do */
    struct ebb_error err;
};

static void remove_one(void *context, size_t i)
{
    struct removal *m = context;
    struct ebb_error why;
    if (m->failed)
        return;
    enum ebb_status status = simple(m->r, "DELETE", m->uuid, m->paths[i], NULL, &why);
    EBB_THEN(status, end_session(m->r, m->paths[i], &why));
    int none = 0;
    if (status != EBB_OK && atomic_compare_exchange_strong(&m->failed, &none, (int)status))
        m->err = why;
}

static enum ebb_status remove_paths(struct exp_remote *r, const char *uuid,
                                    const char *const *paths, size_t count, struct ebb_error *err)
{
    struct removal m = {.r = r, .uuid = uuid, .paths = paths};
    EBB_TRY(ebb_parallel(WAYS_REMOVE, count, remove_one, &m, err));
    if (m.failed && err != NULL)
        *err = m.err;
    return (enum ebb_status)m.failed;
}

static const struct exp_remote_driver remote = {
    .address = address,
    .has_markers = true,
    .key_max = 1024,
    .put = put,
    .get = get,
    .remove = remove_paths,
};

const struct exp_store_driver exp_store_gcs = {.name = "gcs", .remote = &remote};
