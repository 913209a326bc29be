/* hdfs.c - HDFS by its WebHDFS interface (also HttpFS). See driver.h for what each function owes.
 *
 * Everything is written below <hdfs_path>/.<uuid>.tmp and renamed at the end. WebHDFS carries no
 * checksum, so each file is read back and hashed before that. With several name nodes the next one
 * is asked when one is out of reach or on standby; the good one is remembered. Kerberos is refused
 * in words. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/doc.h"
#include "base/heap.h"
#include "exp/store/driver.h"
#include "exp/store/sigv4.h"

#define NODES_MAX 16

struct call {
    struct exp_remote *r;
    const char *method, *op; /* "op=MKDIRS&..." */
    const char *path;        /* absolute, in HDFS */
    const char *location;    /* of a data node, where one has sent us; else a name node is asked */
    bool has_body;
    int fd;
    int64_t bytes;
    struct exp_range *range;
    bool allows_missing, is_sent_on; /* 404; 307 to a data node */
    unsigned asked;                  /* name nodes that sent us on */
    unsigned node;                   /* that the last try asked */
    struct exp_http_answer answer;
    struct ebb_str url;
};

/* ---- where ---- */

static void address(const struct exp_store *s, const char *uuid, struct ebb_str *out)
{
    const char *at = strstr(s->endpoint, "://");
    at = at != NULL ? at + 3 : s->endpoint;
    ebb_str_printf(out, "hdfs://%.*s%s/%s", (int)strcspn(at, ";/"), at, s->directory, uuid);
}

static unsigned node_count(const struct exp_store *s)
{
    unsigned count = 1;
    for (const char *at = s->endpoint; *at != '\0'; at++)
        count += *at == ';';
    return count < NODES_MAX ? count : NODES_MAX;
}

static void fact_key(const struct exp_store *s, char *text, size_t size)
{
    snprintf(text, size, "hdfs node %s", s->endpoint);
}

/* The one that answered last; the first if none did. */
static unsigned good_node(const struct exp_store *s)
{
    char key[1024], text[16];
    uint64_t node = 0;
    fact_key(s, key, sizeof key);
    if (!exp_net_recall(s->net, key, text, sizeof text) || !ebb_parse_u64(text, &node))
        return 0;
    return (unsigned)node % node_count(s);
}

/* Unless another thread, which has asked the same one, has found that out before. */
static void next_node(const struct exp_store *s, unsigned node)
{
    char key[1024], text[16];
    if (good_node(s) != node)
        return;
    fact_key(s, key, sizeof key);
    snprintf(text, sizeof text, "%u", (node + 1) % node_count(s));
    exp_net_learn(s->net, key, text, 0);
}

static void add_node(const struct exp_store *s, unsigned node, struct ebb_str *out)
{
    const char *at = s->endpoint;
    for (unsigned i = node; i > 0; i--)
        at += strcspn(at, ";") + 1;
    at += strspn(at, " ");
    size_t n = strcspn(at, "; ");
    while (n > 0 && at[n - 1] == '/')
        n--;
    ebb_str_addn(out, at, n);
}

static void add_user(const struct exp_store *s, struct ebb_str *out)
{
    struct passwd entry, *found = NULL;
    char buffer[4096];
    const char *name = s->user;
    if (name == NULL && getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 &&
        found != NULL)
        name = found->pw_name;
    if (name == NULL)
        return;
    ebb_str_add(out, "&user.name=");
    exp_url_escape(out, name, false);
}

static enum ebb_status path_of(const struct exp_store *s, const char *before, const char *uuid,
                               const char *after, const char *path, struct ebb_str *out,
                               struct ebb_error *err)
{
    size_t n = strlen(s->directory);
    while (n > 0 && s->directory[n - 1] == '/')
        n--;
    ebb_str_printf(out, "%.*s/%s%s%s", (int)n, s->directory, before, uuid, after);
    if (path != NULL) {
        size_t length = strlen(path);
        length -= length > 0 && path[length - 1] == '/';
        ebb_str_printf(out, "/%.*s", (int)length, path);
    }
    return ebb_str_status(out, err);
}

/* ---- one request ---- */

/* Files are octets, or of no type, whoever sends them; pages of portals are text. */
static bool is_file(const struct exp_http_answer *answer)
{
    char type[16];
    return !exp_http_header(answer, "content-type", type, sizeof type) ||
           strncasecmp(type, "text/html", 9) != 0;
}

static enum ebb_status make(void *context, struct exp_http_request *q, struct ebb_error *err)
{
    static const char *const headers[] = {"Content-Type: application/octet-stream"};
    struct call *c = context;
    const char *file = getenv("SSL_CERT_FILE");
    ebb_str_clear(&c->url);
    if (c->location != NULL) {
        ebb_str_add(&c->url, c->location);
    } else {
        c->node = good_node(c->r->store);
        add_node(c->r->store, c->node, &c->url);
        ebb_str_add(&c->url, "/webhdfs/v1");
        exp_url_escape(&c->url, c->path, true);
        ebb_str_printf(&c->url, "?%s", c->op);
        if (c->range != NULL)
            ebb_str_printf(&c->url, "&offset=%lld",
                           (long long)(c->range->offset + c->range->received));
        if (c->range != NULL && c->range->bytes >= 0)
            ebb_str_printf(&c->url, "&length=%lld",
                           (long long)(c->range->bytes - c->range->received));
        add_user(c->r->store, &c->url);
    }
    bool is_put = strcmp(c->method, "PUT") == 0;
    q->method = c->method;
    q->url = ebb_str_c(&c->url);
    q->headers = headers;
    q->header_count = is_put;
    q->has_body = is_put; /* also an empty one */
    q->body = c->has_body && c->bytes > 0 ? NULL : "";
    q->fd = c->fd;
    q->bytes = c->has_body ? c->bytes : 0;
    q->sink = c->range != NULL ? exp_range_take : NULL;
    q->sink_context = c->range;
    q->is_meant = is_file;
    q->authorities = file != NULL && file[0] != '\0' ? file : NULL;
    return ebb_str_status(&c->url, err);
}

static enum ebb_status blame(const struct call *c, enum ebb_status status, struct ebb_error *err)
{
    char op[EXP_SHORT], path[EXP_SHORT];
    return ebb_context(err, status, "hdfs: %s %s",
                       c->location != NULL ? "data node:" : exp_http_short(c->op, op),
                       exp_http_short(c->path, path));
}

/* {"RemoteException": {"exception", "message"}}. */
void exp_hdfs_explain(const struct exp_http_answer *a, char exception[80], struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root = NULL;
    char way[80], plain[EXP_WORDS];
    (void)ebb_doc_parse_json(&arena, "answer", ebb_str_c(&a->body), a->body.length, &root, NULL);
    const struct ebb_doc_node *error = ebb_doc_get(root, "RemoteException");
    snprintf(exception, 80, "%s", ebb_doc_string(error, "exception", ""));
    exp_http_header(a, "www-authenticate", way, sizeof way);
    if (a->status == 401 && strncmp(way, "Negotiate", 9) == 0)
        ebb_fail(err, EBB_EIO, "401: the cluster wants Kerberos, which ebb does not speak");
    else
        ebb_fail(err, EBB_EIO, "%d%s%s: %s", a->status, exception[0] != '\0' ? " " : "", exception,
                 ebb_doc_string(error, "message", exp_http_words(a, plain)));
    ebb_arena_fini(&arena);
}

static enum exp_verdict judge(void *context, const struct exp_http_answer *answer,
                              struct ebb_error *err)
{
    struct call *c = context;
    char exception[80];
    bool has_others = c->location == NULL && c->asked + 1 < node_count(c->r->store);
    if (answer == NULL) {
        blame(c, err->status, err);
        if (c->location == NULL)
            next_node(c->r->store, c->node);
        c->asked++;
        return has_others ? EXP_OTHER : EXP_AGAIN;
    }
    int status = answer->status;
    if (status / 100 == 2 && c->range != NULL && !is_file(answer)) {
        ebb_fail(err, EBB_EIO, "%d with a page: no answer of a store", status);
        blame(c, EBB_EIO, err);
        return EXP_AGAIN;
    }
    if (status / 100 == 2 || (status == 307 && c->is_sent_on) ||
        (status == 404 && c->allows_missing))
        return EXP_DONE;
    exp_hdfs_explain(answer, exception, err);
    blame(c, EBB_EIO, err);
    bool is_standby =
        strcmp(exception, "StandbyException") == 0 || strcmp(exception, "RetriableException") == 0;
    if (!is_standby)
        return exp_http_is_passing(status) ? EXP_AGAIN : EXP_NEVER;
    if (c->location == NULL)
        next_node(c->r->store, c->node);
    c->asked++;
    return has_others ? EXP_OTHER : EXP_AGAIN;
}

static enum ebb_status perform(struct call *c, struct ebb_error *err)
{
    struct exp_exchange x = {.make = make, .judge = judge, .context = c, .watch = c->r->watch};
    exp_http_answer_init(&c->answer);
    return exp_http_exchange(c->r->http, &x, &c->answer, err);
}

static void finish(struct call *c)
{
    ebb_str_fini(&c->url);
    exp_http_answer_fini(&c->answer);
}

/* An operation of a name node alone; *is_true: what {"boolean": ...} says; NULL: {"FileStatus": ...}
 * is asked for. A 200 without it is somebody else's, of a portal before the node. */
static enum ebb_status ask(struct exp_remote *r, const char *method, const char *op,
                           const char *path, bool *is_true, int *status_code, struct ebb_error *err)
{
    const char *key = is_true != NULL ? "boolean" : "FileStatus";
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root = NULL;
    struct call c = {.r = r,
                     .method = method,
                     .op = op,
                     .path = path,
                     .fd = -1,
                     .allows_missing = status_code != NULL};
    enum ebb_status status = perform(&c, err);
    bool has_missed = status == EBB_OK && c.answer.status == 404;
    if (status == EBB_OK && !has_missed) {
        if (ebb_doc_parse_json(&arena, "answer", ebb_str_c(&c.answer.body), c.answer.body.length,
                               &root, NULL) != EBB_OK ||
            ebb_doc_get(root, key) == NULL) {
            ebb_fail(err, EBB_EIO, "the answer is not what WebHDFS answers");
            status = blame(&c, EBB_EIO, err);
        }
        if (is_true != NULL)
            *is_true = ebb_doc_bool(root, key, false);
        ebb_arena_fini(&arena);
    }
    if (status_code != NULL)
        *status_code = c.answer.status;
    finish(&c);
    return status;
}

/* An operation that a data node does: where to, then the bytes. HttpFS does it at once. tried: those
 * before; after a failure of the data node *is_again says whether another one is worth it, having
 * waited. */
static enum ebb_status move_bytes(struct exp_remote *r, const char *method, const char *op,
                                  const char *path, const struct exp_remote_file *f,
                                  struct exp_range *range, int tried, bool *is_again,
                                  struct ebb_error *err)
{
    char location[8192] = ""; /* three bytes for each of a name, twice */
    *is_again = false;
    struct call c = {.r = r,
                     .method = method,
                     .op = op,
                     .path = path,
                     .fd = -1,
                     .range = range,
                     .is_sent_on = true};
    enum ebb_status status = perform(&c, err);
    if (status == EBB_OK && c.answer.status == 307 &&
        (!exp_http_header(&c.answer, "location", location, sizeof location) ||
         strncmp(location, "http", 4) != 0)) {
        ebb_fail(err, EBB_EIO, "307 without a data node");
        status = blame(&c, EBB_EIO, err);
    } else if (status == EBB_OK && c.answer.status != 307 && range == NULL) {
        ebb_fail(err, EBB_EIO, "%d: no data node was named", c.answer.status);
        status = blame(&c, EBB_EIO, err);
    }
    finish(&c);
    if (status != EBB_OK || location[0] == '\0')
        return status;
    struct call there = {.r = r,
                         .method = method,
                         .op = op,
                         .path = path,
                         .location = location,
                         .has_body = f != NULL,
                         .fd = f != NULL ? f->fd : -1,
                         .bytes = f != NULL ? f->bytes : 0,
                         .range = range};
    /* A range goes on where it broke off only by a new question to the name node. */
    struct exp_exchange x = {
        .make = make, .judge = judge, .context = &there, .watch = r->watch, .tries = 1};
    exp_http_answer_init(&there.answer);
    status = exp_http_exchange(r->http, &x, &there.answer, err);
    if (status == EBB_EIO)
        *is_again = exp_http_rest(r->watch, tried + 1, &there.answer);
    finish(&there);
    return status;
}

/* ---- reading ---- */

static enum ebb_status read_path(struct exp_remote *r, const char *path, struct exp_range *range,
                                 struct ebb_error *err)
{
    enum ebb_status status;
    bool is_again;
    int tried = 0;
    do {
        int64_t before = range->received;
        status = move_bytes(r, "GET", "op=OPEN", path, NULL, range, tried, &is_again, err);
        tried = range->received > before ? 0 : tried + 1;
    } while (is_again);
    return status;
}

static enum ebb_status get(struct exp_remote *r, const char *uuid, const char *path, int64_t offset,
                           int64_t bytes, exp_http_sink sink, void *context, struct ebb_error *err)
{
    struct exp_range range = {.offset = offset, .bytes = bytes, .sink = sink, .context = context};
    struct ebb_str whole = {0};
    enum ebb_status status = path_of(r->store, "", uuid, "", path, &whole, err);
    EBB_THEN(status, read_path(r, ebb_str_c(&whole), &range, err));
    ebb_str_fini(&whole);
    return status;
}

/* ---- writing ---- */

static bool add_hash(void *context, const char *bytes, size_t count)
{
    ebb_sha256_add(context, bytes, count);
    return true;
}

static enum ebb_status hash_local(const struct exp_remote_file *f, char text[EBB_SHA256_TEXT],
                                  struct ebb_error *err)
{
    char buffer[65536];
    struct ebb_sha256 hash;
    ebb_sha256_init(&hash);
    for (int64_t at = 0; at < f->bytes;) {
        ssize_t n = pread(f->fd, buffer, sizeof buffer, at);
        if (n <= 0) {
            ebb_sha256_fini(&hash);
            return ebb_fail(err, EBB_EIO, "the staged copy of %s cannot be read", f->path);
        }
        ebb_sha256_add(&hash, buffer, (size_t)n);
        at += n;
    }
    return ebb_sha256_text(&hash, text, err);
}

/* Read back what was written: EBB_ECORRUPT if it is something else. */
static enum ebb_status prove(struct exp_remote *r, const struct exp_remote_file *f,
                             const char *path, const char *want, struct ebb_error *err)
{
    struct ebb_sha256 hash;
    char found[EBB_SHA256_TEXT];
    ebb_sha256_init(&hash);
    struct exp_range range = {.bytes = -1, .sink = add_hash, .context = &hash};
    enum ebb_status status = f->bytes > 0 ? read_path(r, path, &range, err) : EBB_OK;
    if (status != EBB_OK) {
        ebb_sha256_fini(&hash);
        return status;
    }
    EBB_TRY(ebb_sha256_text(&hash, found, err));
    return range.received == f->bytes && strcmp(found, want) == 0
               ? EBB_OK
               : ebb_fail(err, EBB_ECORRUPT, "hdfs: %s: what was read back is not what was written",
                          path);
}

static enum ebb_status write_file(struct exp_remote *r, const struct exp_remote_file *f,
                                  const char *path, struct ebb_error *err)
{
    char want[EBB_SHA256_TEXT];
    enum ebb_status status;
    bool is_again;
    int tried = 0;
    if (f->sha256 != NULL)
        snprintf(want, sizeof want, "%s", f->sha256);
    else
        EBB_TRY(hash_local(f, want, err));
    do {
        status = move_bytes(r, "PUT", "op=CREATE&overwrite=true", path, f, NULL, tried++, &is_again,
                            err);
        EBB_THEN(status, prove(r, f, path, want, err));
        if (status == EBB_ECORRUPT)
            is_again = exp_http_rest(r->watch, tried, &(struct exp_http_answer){0});
    } while (is_again);
    return status;
}

static enum ebb_status make_directory(struct exp_remote *r, const char *path, struct ebb_error *err)
{
    bool is_made = false;
    EBB_TRY(ask(r, "PUT", "op=MKDIRS", path, &is_made, NULL, err));
    return is_made ? EBB_OK : ebb_fail(err, EBB_EIO, "hdfs: MKDIRS %s: refused", path);
}

static enum ebb_status put(struct exp_remote *r, const struct exp_remote_file *f,
                           struct ebb_error *err)
{
    struct ebb_str path = {0};
    bool is_directory = f->path[strlen(f->path) - 1] == '/';
    enum ebb_status status = path_of(r->store, f->is_alone ? "" : ".", f->uuid,
                                     f->is_alone ? "" : ".tmp", f->path, &path, err);
    EBB_THEN(status, is_directory ? make_directory(r, ebb_str_c(&path), err)
                                  : write_file(r, f, ebb_str_c(&path), err));
    ebb_str_fini(&path);
    return status;
}

static enum ebb_status begin(struct exp_remote *r, const char *uuid, struct ebb_error *err)
{
    struct ebb_str path = {0};
    enum ebb_status status = path_of(r->store, ".", uuid, ".tmp", NULL, &path, err);
    EBB_THEN(status, make_directory(r, ebb_str_c(&path), err));
    ebb_str_fini(&path);
    return status;
}

static enum ebb_status delete_tree(struct exp_remote *r, const char *before, const char *uuid,
                                   const char *after, struct ebb_error *err)
{
    struct ebb_str path = {0};
    bool ignored = false;
    int code = 0;
    enum ebb_status status = path_of(r->store, before, uuid, after, NULL, &path, err);
    EBB_THEN(status,
             ask(r, "DELETE", "op=DELETE&recursive=true", ebb_str_c(&path), &ignored, &code, err));
    ebb_str_fini(&path);
    return status;
}

static enum ebb_status is_there(struct exp_remote *r, const char *path, bool *is_found,
                                struct ebb_error *err)
{
    int code = 0;
    EBB_TRY(ask(r, "GET", "op=GETFILESTATUS", path, NULL, &code, err));
    *is_found = code == 200;
    return EBB_OK;
}

/* Renamed before (the answer got lost): renaming again would move it below itself. */
static enum ebb_status publish(struct exp_remote *r, const char *uuid, struct ebb_error *err)
{
    struct ebb_str from = {0}, to = {0}, op = {0};
    bool is_done = false, is_renamed = false;
    enum ebb_status status = path_of(r->store, ".", uuid, ".tmp", NULL, &from, err);
    EBB_THEN(status, path_of(r->store, "", uuid, "", NULL, &to, err));
    ebb_str_add(&op, "op=RENAME&destination=");
    exp_url_escape(&op, ebb_str_c(&to), true);
    EBB_THEN(status, ebb_str_status(&op, err));
    EBB_THEN(status, is_there(r, ebb_str_c(&to), &is_done, err));
    if (status == EBB_OK && !is_done) {
        status = ask(r, "PUT", ebb_str_c(&op), ebb_str_c(&from), &is_renamed, NULL, err);
        EBB_THEN(status, is_there(r, ebb_str_c(&to), &is_done, err));
        if (status == EBB_OK && !is_done)
            status = ebb_fail(err, EBB_EIO, "hdfs: RENAME %s: refused", ebb_str_c(&from));
    }
    ebb_str_fini(&from);
    ebb_str_fini(&to);
    ebb_str_fini(&op);
    return status == EBB_OK && !is_renamed ? delete_tree(r, ".", uuid, ".tmp", err) : status;
}

/* Directories above that are empty now go as well; one that is not says so, which is fine. */
static void delete_parents(struct exp_remote *r, const char *folder)
{
    char name[1032];
    snprintf(name, sizeof name, "%s", folder);
    for (char *slash; (slash = strrchr(name, '/')) != NULL;) {
        struct ebb_str path = {0};
        bool is_gone = false;
        int code = 0;
        *slash = '\0';
        if (path_of(r->store, "", name, "", NULL, &path, NULL) == EBB_OK)
            (void)ask(r, "DELETE", "op=DELETE&recursive=false", ebb_str_c(&path), &is_gone, &code,
                      NULL);
        ebb_str_fini(&path);
        if (!is_gone)
            return;
    }
}

static enum ebb_status remove_all(struct exp_remote *r, const char *uuid, const char *const *paths,
                                  size_t count, struct ebb_error *err)
{
    (void)paths, (void)count; /* a file system: the directory goes */
    EBB_TRY(delete_tree(r, "", uuid, "", err));
    if (strchr(uuid, '/') == NULL)
        return delete_tree(r, ".", uuid, ".tmp", err);
    delete_parents(r, uuid);
    return EBB_OK;
}

static const struct exp_remote_driver remote = {
    .address = address,
    .has_markers = true,
    .no_names_with = ":", /* Hadoop's rule: "Invalid path name" */
    .begin = begin,
    .finish = publish,
    .put = put,
    .get = get,
    .remove = remove_all,
};

const struct exp_store_driver exp_store_hdfs = {.name = "hdfs", .remote = &remote};
