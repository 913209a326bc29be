/* http.c - see http.h. The queue between askers and the transport's thread, and the transfers. */
#include "exp/store/http.h"

#define CURL_DISABLE_TYPECHECK /* its macros want libcurl's names, not our pointers */
#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/library.h"
#include "base/thread.h"

#define HEAD_MAX ((size_t)64 << 10)
#define BODY_MAX ((size_t)4 << 20)
#define CONNECTIONS 32L           /* kept */
#define IDLE_HANDLES 32           /* kept */
#define PATIENCE_S 60             /* with less than 1 KB/s */
#define BUFFER_BYTES (256L << 10) /* of a transfer, each way */

#define CALLS(X)                                                                                   \
    X(global_init)                                                                                 \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(easy_init)                                                                                   \
    X(easy_reset)                                                                                  \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)                                                                                \
    X(multi_init)                                                                                  \
    X(multi_setopt)                                                                                \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_perform)                                                                               \
    X(multi_poll)                                                                                  \
    X(multi_wakeup)                                                                                \
    X(multi_info_read)                                                                             \
    X(multi_cleanup)

struct calls {
#define X(name) __typeof__(&curl_##name) name;
    CALLS(X)
#undef X
};

struct transfer { /* on the asker's stack; the thread's from the queue until is_over */
    const struct exp_http_request *request;
    struct exp_http_answer *answer;
    const struct calls *c;
    CURL *curl;
    struct curl_slist *fields;
    int64_t sent; /* bytes of the body */
    bool is_sinking, is_looked_at;
    bool is_cut; /* the answer is longer than kept */
    char words[CURL_ERROR_SIZE];
    CURLcode code;
    bool is_over;
    struct transfer *next;
};

struct exp_http {
    struct calls c;
    CURLM *multi;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    struct transfer *first, *last; /* not begun */
    bool is_ending;
    long patience_s;          /* H3 */
    CURL *idle[IDLE_HANDLES]; /* the thread's */
    size_t idle_count, active_count;
    struct transfer *active; /* the thread's */
};

/* ---- bytes ---- */

static size_t give_body(char *bytes, size_t one, size_t count, void *context)
{
    struct transfer *t = context;
    const struct exp_http_request *r = t->request;
    size_t room = one * count;
    int64_t left = r->bytes - t->sent;
    size_t n = left < (int64_t)room ? (size_t)left : room;
    if (n == 0)
        return 0;
    if (r->body != NULL) {
        memcpy(bytes, r->body + t->sent, n);
    } else {
        ssize_t got = pread(r->fd, bytes, n, r->offset + t->sent);
        if (got <= 0) /* it has become shorter: nothing good can come of it */
            return CURL_READFUNC_ABORT;
        n = (size_t)got;
    }
    t->sent += (int64_t)n;
    return n;
}

static int rewind_body(void *context, curl_off_t offset, int origin)
{
    struct transfer *t = context;
    if (origin != SEEK_SET || offset < 0 || offset > t->request->bytes)
        return CURL_SEEKFUNC_FAIL;
    t->sent = offset;
    return CURL_SEEKFUNC_OK;
}

static size_t take_body(char *bytes, size_t one, size_t count, void *context)
{
    struct transfer *t = context;
    size_t n = one * count;
    if (!t->is_looked_at) {
        long status = 0;
        t->c->easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
        t->is_looked_at = true;
        t->is_sinking = t->request->sink != NULL && (status == 200 || status == 206) &&
                        (t->request->is_meant == NULL || t->request->is_meant(t->answer));
    }
    if (t->is_sinking)
        return t->request->sink(t->request->sink_context, bytes, n) ? n : 0;
    size_t room = BODY_MAX - t->answer->body.length;
    t->is_cut |= n > room;
    ebb_str_addn(&t->answer->body, bytes, n < room ? n : room);
    return t->is_cut || t->answer->body.failed ? 0 : n;
}

static size_t take_head(char *bytes, size_t one, size_t count, void *context)
{
    struct transfer *t = context;
    struct ebb_str *head = &t->answer->head;
    size_t n = one * count, end = n;
    if (n >= 5 && memcmp(bytes, "HTTP/", 5) == 0) { /* of the last answer, after 100s */
        ebb_str_clear(head);
        return n;
    }
    while (end > 0 && (bytes[end - 1] == '\n' || bytes[end - 1] == '\r'))
        end--;
    const char *colon = memchr(bytes, ':', end);
    if (colon == NULL || head->length + end + 1 > HEAD_MAX)
        return n; /* H1: what does not fit is not there */
    for (const char *at = bytes; at < colon; at++)
        ebb_str_addc(head, (char)tolower((unsigned char)*at));
    ebb_str_addn(head, colon, end - (size_t)(colon - bytes));
    ebb_str_addc(head, '\n');
    return n;
}

static int look(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct transfer *t = context;
    (void)a, (void)b, (void)c, (void)d;
    return t->request->is_unwanted != NULL && atomic_load(t->request->is_unwanted);
}

/* ---- the thread's side ---- */

static bool add_field(struct transfer *t, const char *line)
{
    struct curl_slist *longer = t->c->slist_append(t->fields, line);
    t->fields = longer != NULL ? longer : t->fields;
    return longer != NULL;
}

static void set_manners(const struct exp_http *h, struct transfer *t)
{
    const struct exp_http_request *r = t->request;
    __typeof__(t->c->easy_setopt) set = t->c->easy_setopt;
    set(t->curl, CURLOPT_PRIVATE, t);
    set(t->curl, CURLOPT_ERRORBUFFER, t->words);
    set(t->curl, CURLOPT_NOSIGNAL, 1L);
    set(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    set(t->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* connections, not streams */
    set(t->curl, CURLOPT_PATH_AS_IS, 1L);
    set(t->curl, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
    set(t->curl, CURLOPT_LOW_SPEED_LIMIT, 1000L); /* H3 */
    set(t->curl, CURLOPT_LOW_SPEED_TIME, h->patience_s * (r->is_long ? 5 : 1));
    set(t->curl, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    set(t->curl, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    set(t->curl, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    set(t->curl, CURLOPT_TCP_NODELAY, 1L);
    if (r->authorities != NULL)
        set(t->curl, CURLOPT_CAINFO, r->authorities);
    set(t->curl, CURLOPT_NOPROGRESS, 0L);
    set(t->curl, CURLOPT_XFERINFOFUNCTION, look);
    set(t->curl, CURLOPT_XFERINFODATA, t);
    set(t->curl, CURLOPT_WRITEFUNCTION, take_body);
    set(t->curl, CURLOPT_WRITEDATA, t);
    set(t->curl, CURLOPT_HEADERFUNCTION, take_head);
    set(t->curl, CURLOPT_HEADERDATA, t);
}

static bool set_request(struct transfer *t)
{
    const struct exp_http_request *r = t->request;
    __typeof__(t->c->easy_setopt) set = t->c->easy_setopt;
    bool is_good = set(t->curl, CURLOPT_URL, r->url) == CURLE_OK;
    if (r->has_body) {
        set(t->curl, CURLOPT_UPLOAD, 1L);
        set(t->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->bytes);
        set(t->curl, CURLOPT_READFUNCTION, give_body);
        set(t->curl, CURLOPT_READDATA, t);
        set(t->curl, CURLOPT_SEEKFUNCTION, rewind_body);
        set(t->curl, CURLOPT_SEEKDATA, t);
    }
    if (strcmp(r->method, "HEAD") == 0)
        set(t->curl, CURLOPT_NOBODY, 1L);
    else
        is_good = is_good && set(t->curl, CURLOPT_CUSTOMREQUEST, r->method) == CURLE_OK;
    is_good = is_good && add_field(t, "Expect:"); /* no waiting before a body */
    for (size_t i = 0; i < r->header_count; i++)
        is_good = is_good && add_field(t, r->headers[i]);
    return is_good && set(t->curl, CURLOPT_HTTPHEADER, t->fields) == CURLE_OK;
}

static void finish(struct exp_http *h, struct transfer *t, CURLcode code)
{
    long status = 0;
    if (t->curl != NULL)
        h->c.easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    t->answer->status = (int)status;
    if (t->curl != NULL && h->idle_count < IDLE_HANDLES) {
        h->c.easy_reset(t->curl);
        h->idle[h->idle_count++] = t->curl;
    } else if (t->curl != NULL) {
        h->c.easy_cleanup(t->curl);
    }
    h->c.slist_free_all(t->fields);
    pthread_mutex_lock(&h->lock);
    t->code = code;
    t->is_over = true;
    pthread_cond_broadcast(&h->over);
    pthread_mutex_unlock(&h->lock);
}

static void start(struct exp_http *h, struct transfer *t)
{
    t->curl = h->idle_count > 0 ? h->idle[--h->idle_count] : h->c.easy_init();
    if (t->curl == NULL) {
        finish(h, t, CURLE_OUT_OF_MEMORY);
        return;
    }
    set_manners(h, t);
    if (!set_request(t) || h->c.multi_add_handle(h->multi, t->curl) != CURLM_OK) {
        finish(h, t, CURLE_OUT_OF_MEMORY);
        return;
    }
    t->next = h->active;
    h->active = t;
}

static void leave(struct exp_http *h, struct transfer *t, CURLcode code)
{
    for (struct transfer **at = &h->active; *at != NULL; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    h->c.multi_remove_handle(h->multi, t->curl);
    finish(h, t, code);
}

static void *work(void *context)
{
    struct exp_http *h = context;
    pthread_mutex_lock(&h->lock);
    while (!h->is_ending || h->first != NULL) {
        while (h->first != NULL) {
            struct transfer *t = h->first;
            h->first = t->next;
            h->last = h->first != NULL ? h->last : NULL;
            pthread_mutex_unlock(&h->lock);
            start(h, t);
            pthread_mutex_lock(&h->lock);
        }
        pthread_mutex_unlock(&h->lock);
        int running = 0, left;
        h->c.multi_perform(h->multi, &running);
        for (CURLMsg *m; (m = h->c.multi_info_read(h->multi, &left)) != NULL;) {
            struct transfer *t = NULL;
            CURLcode code = m->data.result;
            h->c.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
            leave(h, t, code);
        }
        /* A wake-up that comes before the poll ends it at once. */
        h->c.multi_poll(h->multi, NULL, 0, h->active != NULL ? 200 : 60000, NULL);
        pthread_mutex_lock(&h->lock);
    }
    pthread_mutex_unlock(&h->lock);
    while (h->active != NULL)
        leave(h, h->active, CURLE_ABORTED_BY_CALLBACK);
    return NULL;
}

/* ---- the askers' side ---- */

static enum ebb_status load(struct calls *c, struct ebb_error *err)
{
#define X(name) {"curl_" #name, &c->name},
    const struct ebb_library_call calls[] = {CALLS(X)};
#undef X
    return ebb_library_load(EBB_CURL_FILE, EBB_CURL_PACKAGE, calls, sizeof calls / sizeof calls[0],
                            err);
}

enum ebb_status exp_http_create(struct exp_http **http, int patience_s, struct ebb_error *err)
{
    struct exp_http *h;
    EBB_TRY(ebb_new(&h, 1, sizeof *h, err));
    enum ebb_status status = load(&h->c, err);
    if (status == EBB_OK && h->c.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        status = ebb_fail(err, EBB_EINTERNAL, "libcurl cannot be used");
    h->patience_s = patience_s > 0 ? patience_s : PATIENCE_S;
    h->multi = status == EBB_OK ? h->c.multi_init() : NULL;
    if (status == EBB_OK && h->multi == NULL)
        status = ebb_no_memory(err, 1 << 10);
    if (status != EBB_OK) {
        ebb_free(h);
        return status;
    }
    h->c.multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->over, NULL);
    int failed = ebb_thread_start(&h->thread, work, h); /* SIGPIPE, too, is not for it */
    if (failed != 0) {
        h->c.multi_cleanup(h->multi);
        ebb_free(h);
        return ebb_fail(err, EBB_EIO, "cannot start a thread: %s", strerror(failed));
    }
    *http = h;
    return EBB_OK;
}

void exp_http_destroy(struct exp_http *h)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->lock);
    h->is_ending = true;
    pthread_mutex_unlock(&h->lock);
    h->c.multi_wakeup(h->multi);
    pthread_join(h->thread, NULL);
    while (h->idle_count > 0)
        h->c.easy_cleanup(h->idle[--h->idle_count]);
    h->c.multi_cleanup(h->multi);
    pthread_cond_destroy(&h->over);
    pthread_mutex_destroy(&h->lock);
    ebb_free(h);
}

void exp_http_answer_init(struct exp_http_answer *a)
{
    *a = (struct exp_http_answer){0};
    ebb_str_init(&a->head);
    ebb_str_init(&a->body);
}

void exp_http_answer_fini(struct exp_http_answer *a)
{
    ebb_str_fini(&a->head);
    ebb_str_fini(&a->body);
}

bool exp_http_header(const struct exp_http_answer *a, const char *name, char *buf, size_t size)
{
    size_t n = strlen(name);
    buf[0] = '\0';
    for (const char *line = ebb_str_c(&a->head); *line != '\0'; line += *line == '\n') {
        size_t length = strcspn(line, "\n");
        if (length > n && memcmp(line, name, n) == 0 && line[n] == ':') {
            const char *value = line + n + 1;
            size_t count = length - n - 1;
            for (; count > 0 && *value == ' '; count--)
                value++;
            count = count < size - 1 ? count : size - 1;
            memcpy(buf, value, count);
            buf[count] = '\0';
            return true;
        }
        line += length;
    }
    return false;
}

/* "https://host:port" of a URL, for messages: paths and queries may hold what is nobody's business. */
static int host_length(const char *url)
{
    const char *at = strstr(url, "://");
    return (int)(at != NULL ? (size_t)(at + 3 - url) + strcspn(at + 3, "/?") : strlen(url));
}

static enum ebb_status explain(const struct exp_http *h, const struct transfer *t,
                               struct ebb_error *err)
{
    const char *url = t->request->url;
    const char *words = t->words[0] != '\0' ? t->words : h->c.easy_strerror(t->code);
    switch (t->code) {
    case CURLE_OK:
        return EBB_OK;
    case CURLE_OUT_OF_MEMORY:
        return ebb_no_memory(err, 1 << 16);
    case CURLE_ABORTED_BY_CALLBACK:
        return t->sent < t->request->bytes && t->request->body == NULL &&
                       !(t->request->is_unwanted != NULL && atomic_load(t->request->is_unwanted)) &&
                       t->request->has_body
                   ? ebb_fail(err, EBB_EIO, "the file that is sent cannot be read")
                   : ebb_fail(err, EBB_ECANCELED, "%.*s: given up", host_length(url), url);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return ebb_fail(err, EBB_EINPUT, "%.*s: %s", host_length(url), url, words);
    case CURLE_WRITE_ERROR:
        if (t->is_cut)
            return ebb_fail(err, EBB_EIO, "%.*s answers without end", host_length(url), url);
        return ebb_fail(err, EBB_EIO, "%.*s: its answer cannot be kept", host_length(url), url);
    default:
        return ebb_fail(err, EBB_EIO, "%.*s: %s", host_length(url), url, words);
    }
}

enum ebb_status exp_http_ask(struct exp_http *h, const struct exp_http_request *request,
                             struct exp_http_answer *answer, struct ebb_error *err)
{
    struct transfer t = {.request = request, .answer = answer, .c = &h->c};
    ebb_str_clear(&answer->head);
    ebb_str_clear(&answer->body);
    answer->status = 0;
    pthread_mutex_lock(&h->lock);
    if (h->is_ending) {
        pthread_mutex_unlock(&h->lock);
        return ebb_fail(err, EBB_ECANCELED, "the master ends");
    }
    if (h->last != NULL)
        h->last->next = &t;
    else
        h->first = &t;
    h->last = &t;
    pthread_mutex_unlock(&h->lock);
    h->c.multi_wakeup(h->multi);
    pthread_mutex_lock(&h->lock);
    while (!t.is_over)
        pthread_cond_wait(&h->over, &h->lock);
    pthread_mutex_unlock(&h->lock);
    EBB_TRY(explain(h, &t, err));
    EBB_TRY(ebb_str_status(&answer->head, err));
    return ebb_str_status(&answer->body, err);
}
