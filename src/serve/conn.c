/* conn.c - the front of a master: connections, their states, and the rhythm of turns.
 *
 * Bytes become whole requests before the commit; answers leave after it (S1). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/wire.h"
#include "serve/rest.h"
#include "serve/serve.h"

#define CONNS_MAX 1024
#define FOLLOW_S 60 /* of follow=true: how long an answer may be held back */
#define EVENTS 64

struct conn {
    struct ebb_wire wire;
    bool is_handling; /* bytes of this turn are not dealt with */
    char *waiting;    /* target of a long poll or stream, owned */
    uint64_t wait_until_ns;
    bool is_stream, is_last; /* server-sent events; Connection: close */
    int64_t stream_after;
};

struct serve {
    struct exp_master *m;
    int epoll_fd;
    struct conn **conns;
    size_t conn_count, conn_capacity;
};

static void close_conn(struct serve *s, struct conn *c)
{
    for (size_t i = 0; i < s->conn_count; i++)
        if (s->conns[i] == c)
            s->conns[i] = s->conns[--s->conn_count];
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->wire.fd, NULL);
    ebb_wire_fini(&c->wire);
    ebb_free(c->waiting);
    ebb_free(c);
}

static bool is_stalled(const struct serve *s)
{
    return exp_master_info(s->m).stall != NULL;
}

static uint64_t now_ns(const struct serve *s)
{
    return exp_master_info(s->m).now_ns;
}

/* The target is asked again, or filters a stream. */
static bool keep_target(struct conn *c, const char *target)
{
    ebb_free(c->waiting);
    c->waiting = ebb_strdup(target);
    return c->waiting != NULL;
}

/* ---- out ---- */

static void answer(struct conn *c, const struct serve_http_response *response)
{
    struct ebb_str text = {0};
    serve_http_write_response(response, c->is_last, &text);
    if (text.failed)
        c->wire.is_broken = true;
    else
        ebb_wire_say(&c->wire, text.data, text.length);
    ebb_str_fini(&text);
    c->wire.is_dead |= c->is_last;
}

static void refuse(struct conn *c, int status, const char *message)
{
    struct serve_http_response response;
    serve_http_response_init(&response);
    serve_http_write_error(&response, status, message);
    c->is_last = true;
    answer(c, &response);
    serve_http_response_fini(&response);
}

/* Long polls: the answer is worth sending, or the time is up. */
static bool is_empty_answer(const struct serve_http_response *response)
{
    const char *body = ebb_str_c(&response->body);
    return response->status == 200 &&
           (strstr(body, "\"events\": []") != NULL ||
            (strstr(body, "\"logs\": []") != NULL && strstr(body, "\"is_over\": true") == NULL));
}

static enum ebb_status handle(struct serve *s, struct conn *c,
                              const struct serve_http_request *request, bool is_again,
                              struct ebb_error *err)
{
    struct serve_http_response response;
    serve_http_response_init(&response);
    if (serve_rest_must_wait(s->m, request)) {
        serve_http_write_error(&response, 503, exp_master_info(s->m).stall);
        answer(c, &response);
        serve_http_response_fini(&response);
        return EBB_OK;
    }
    enum ebb_status status = serve_rest_handle(s->m, request, &response, err);
    char *wait = serve_http_query(request->target, "wait");
    char *follow = serve_http_query(request->target, "follow");
    double seconds = follow != NULL && strcmp(follow, "true") == 0 ? FOLLOW_S : 0;
    if (wait != NULL)
        (void)ebb_parse_double(wait, &seconds);
    ebb_free(wait);
    ebb_free(follow);
    if (status == EBB_OK && !is_again && seconds > 0 && is_empty_answer(&response)) {
        c->wait_until_ns = now_ns(s) + (uint64_t)((seconds < 600 ? seconds : 600) * 1e9);
        if (!keep_target(c, request->target))
            status = ebb_no_memory(err, strlen(request->target));
    } else if (status == EBB_OK &&
               (!is_again || !is_empty_answer(&response) || now_ns(s) >= c->wait_until_ns)) {
        answer(c, &response);
        ebb_free(c->waiting);
        c->waiting = NULL;
    }
    serve_http_response_fini(&response);
    return status;
}

/* A parameter of a stream; what is no number counts as absent. */
static int64_t number_of(const char *target, const char *name, int64_t fallback)
{
    char *text = serve_http_query(target, name);
    if (text != NULL)
        (void)ebb_parse_i64(text, &fallback);
    ebb_free(text);
    return fallback;
}

static void begin_stream(struct serve *s, struct conn *c, const char *target)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Cache-Control: no-store\r\nConnection: close\r\n\r\n";
    int64_t value = number_of(target, "after", -1);
    c->is_stream = true;
    c->stream_after = value >= 0 ? value : exp_master_info(s->m).last_notice;
    (void)keep_target(c, target);
    ebb_wire_say(&c->wire, head, sizeof head - 1);
}

static void stream(struct serve *s, struct conn *c)
{
    struct ebb_str list = {0}, out = {0};
    struct ebb_json_writer w;
    size_t count;
    bool is_cut;
    int64_t experiment = number_of(c->waiting != NULL ? c->waiting : "", "experiment_id", 0);
    if (c->stream_after >= exp_master_info(s->m).last_notice)
        return;
    ebb_jsonw_init(&w, &list, 0);
    ebb_jsonw_array(&w);
    c->stream_after = exp_notices_write(s->m, c->stream_after, experiment, &w, &count, &is_cut);
    ebb_jsonw_array_end(&w);
    if (count > 0) {
        ebb_str_printf(&out, "id: %lld\ndata: ", (long long)c->stream_after);
        ebb_str_addn(&out, ebb_str_c(&list), list.length);
        ebb_str_add(&out, "\n\n");
        ebb_wire_say(&c->wire, ebb_str_c(&out), out.length);
    }
    ebb_str_fini(&list);
    ebb_str_fini(&out);
}

/* ---- in ---- */

static enum ebb_status handle_message(struct serve *s, struct conn *c,
                                      const struct serve_http_message *message,
                                      struct ebb_error *err)
{
    char method[24];
    char *target = ebb_strndup(message->target, message->target_length);
    char *user = message->user != NULL
                     ? serve_http_decode(message->user, message->user_length, false)
                     : NULL;
    snprintf(method, sizeof method, "%.*s", (int)message->method_length, message->method);
    struct serve_http_request request = {.method = method,
                                         .target = target,
                                         .body = message->body,
                                         .body_length = message->body_length,
                                         .user = user};
    enum ebb_status status = EBB_OK;
    c->is_last = message->wants_close;
    if (target == NULL || (message->user != NULL && user == NULL))
        status = ebb_no_memory(err, message->target_length);
    else if (message->wants_stream && strstr(target, "/events") != NULL)
        begin_stream(s, c, target);
    else
        status = handle(s, c, &request, false, err);
    ebb_free(target);
    ebb_free(user);
    return status;
}

static enum ebb_status read_requests(struct serve *s, struct conn *c, struct ebb_error *err)
{
    struct serve_http_message message;
    size_t left;
    const char *at;
    while (!c->wire.is_dead && c->waiting == NULL &&
           (at = ebb_wire_at(&c->wire, &left), left > 0)) {
        enum serve_http_result result = serve_http_read_request(at, left, &message);
        if (result == SERVE_HTTP_MORE)
            return EBB_OK;
        if (result == SERVE_HTTP_BAD) {
            refuse(c, message.status, "this is no HTTP/1.1 request that is understood here");
            return EBB_OK;
        }
        EBB_TRY(handle_message(s, c, &message, err));
        ebb_wire_used(&c->wire, message.used);
    }
    return EBB_OK;
}

/* What fails while nothing can be written anyway ends the connection, not a turn. */
static enum ebb_status readable(struct serve *s, struct conn *c, struct ebb_error *err)
{
    c->is_handling = true;
    enum ebb_status status = read_requests(s, c, err);
    if (status != EBB_OK && is_stalled(s)) {
        c->wire.is_broken = true;
        status = EBB_OK;
    }
    c->is_handling = status != EBB_OK;
    return status;
}

static enum ebb_status take(void *context, int fd, const char *bytes, size_t length,
                            struct ebb_error *err)
{
    struct serve *s = context;
    struct conn *c = ebb_calloc(1, sizeof *c);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (c == NULL || s->conn_count >= CONNS_MAX ||
        ebb_grow(&s->conns, &s->conn_capacity, s->conn_count + 1, sizeof *s->conns, NULL) !=
            EBB_OK ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        ebb_free(c);
        close(fd);
        return EBB_OK;
    }
    ebb_wire_init(&c->wire, fd);
    ebb_str_addn(&c->wire.in, bytes, length);
    s->conns[s->conn_count++] = c;
    EBB_TRY(ebb_str_status(&c->wire.in, err));
    return readable(s, c, err);
}

static enum ebb_status hear(void *context, struct ebb_error *err)
{
    struct serve *s = context;
    struct epoll_event events[EVENTS];
    int n = epoll_wait(s->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct conn *c = NULL;
        for (size_t k = 0; k < s->conn_count && c == NULL; k++)
            c = s->conns[k]->wire.fd == events[i].data.fd ? s->conns[k] : NULL;
        if (c == NULL || (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
            continue;
        c->is_handling = true;
        EBB_TRY(ebb_wire_hear(&c->wire, err));
        if (!c->wire.is_broken)
            EBB_TRY(readable(s, c, err));
    }
    return EBB_OK;
}

/* ---- turns ---- */

static void flush_all(struct serve *s)
{
    for (size_t i = s->conn_count; i-- > 0;) {
        struct conn *c = s->conns[i];
        if (c->wire.out.length > 0)
            ebb_wire_flush(&c->wire, s->epoll_fd);
        if (ebb_wire_is_over(&c->wire))
            close_conn(s, c);
    }
}

static void send_all(void *context, bool has_news)
{
    struct serve *s = context;
    struct ebb_error err;
    for (size_t i = 0; i < s->conn_count && !is_stalled(s); i++) {
        struct conn *c = s->conns[i];
        if (c->is_stream) {
            stream(s, c);
        } else if (c->waiting != NULL && (has_news || now_ns(s) >= c->wait_until_ns)) {
            struct serve_http_request request = {.method = "GET", .target = c->waiting};
            if (handle(s, c, &request, true, &err) != EBB_OK)
                c->wire.is_broken = true; /* a read failed: the peer asks again */
        }
    }
    flush_all(s);
}

static void refuse_all(void *context, const struct ebb_error *why)
{
    struct serve *s = context;
    for (size_t i = 0; i < s->conn_count; i++) {
        struct conn *c = s->conns[i];
        bool has_answer = c->wire.out.length > c->wire.committed || c->is_handling;
        c->wire.is_broken |= c->wire.in.failed || c->wire.out.failed;
        c->wire.out.length = c->wire.committed;
        if (has_answer && !c->wire.is_broken)
            refuse(c, 503, why->message);
        c->is_handling = false;
    }
    flush_all(s);
}

static uint64_t deadline(void *context)
{
    const struct serve *s = context;
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < s->conn_count && !is_stalled(s); i++) {
        const struct conn *c = s->conns[i];
        if (c->waiting != NULL && !c->is_stream && c->wait_until_ns < first)
            first = c->wait_until_ns;
    }
    return first;
}

static void end(void *context)
{
    struct serve *s = context;
    while (s->conn_count > 0)
        close_conn(s, s->conns[0]);
    close(s->epoll_fd);
    ebb_free(s->conns);
    ebb_free(s);
}

enum ebb_status serve_open(const struct exp_master_options *options, struct exp_master **master,
                           struct ebb_error *err)
{
    struct exp_master *m = NULL;
    EBB_TRY(exp_master_open(options, &m, err));
    struct serve *s = ebb_calloc(1, sizeof *s);
    enum ebb_status status = s == NULL ? ebb_no_memory(err, sizeof *s) : EBB_OK;
    if (status == EBB_OK) {
        *s = (struct serve){.m = m, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
        struct exp_master_front front = {.context = s,
                                         .fd = s->epoll_fd,
                                         .take = take,
                                         .hear = hear,
                                         .send = send_all,
                                         .refuse = refuse_all,
                                         .deadline = deadline,
                                         .close = end};
        status = s->epoll_fd < 0 ? ebb_fail(err, EBB_EIO, "serve: epoll: %s", strerror(errno))
                                 : exp_master_set_front(m, &front, err);
        if (status != EBB_OK) {
            close(s->epoll_fd);
            ebb_free(s);
        }
    }
    if (status != EBB_OK)
        exp_master_close(m, EXP_CLOSE_LEAVE, 0);
    else
        *master = m;
    return status;
}

/* ---- in the process ---- */

struct asked {
    struct exp_master *m;
    const struct serve_http_request *request;
    struct serve_http_response *response;
};

static enum ebb_status ask(void *context, struct ebb_error *err)
{
    const struct asked *a = context;
    return serve_rest_handle(a->m, a->request, a->response, err);
}

void serve_request(struct exp_master *m, const struct serve_http_request *request,
                   struct serve_http_response *response)
{
    struct asked a = {.m = m, .request = request, .response = response};
    struct ebb_error err;
    bool is_reading = exp_master_info(m).stall != NULL && !serve_rest_must_wait(m, request);
    enum ebb_status status = is_reading ? ask(&a, &err) : exp_master_do(m, ask, &a, &err);
    if (status != EBB_OK)
        serve_http_write_error(response, 503, err.message);
}
