/* conn.c - connections: bytes in, whole requests and lines out of them; answers only after the turn
 * has committed (M1). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "exp/master/inner.h"
#include "exp/master/talk.h"

#define READ_BYTES ((size_t)256 << 10) /* of one connection in one turn */
#define OUT_MAX ((size_t)512 << 20)    /* a peer that does not read is dropped */
#define CONNS_MAX 1024
#define FOLLOW_S 60 /* of follow=true: how long an answer may be held back */

void exp_conn_accept(struct exp_master *m)
{
    for (;;) {
        int fd = accept4(m->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        struct exp_conn *c = ebb_calloc(1, sizeof *c);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (c == NULL || m->conn_count >= CONNS_MAX ||
            ebb_grow(&m->conns, &m->conn_capacity, m->conn_count + 1, sizeof *m->conns, NULL) !=
                EBB_OK ||
            epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
            ebb_free(c);
            close(fd);
            continue;
        }
        c->fd = fd;
        ebb_str_init(&c->in);
        ebb_str_init(&c->out);
        m->conns[m->conn_count++] = c;
    }
}

void exp_conn_close(struct exp_master *m, struct exp_conn *c)
{
    for (size_t i = 0; i < m->conn_count; i++)
        if (m->conns[i] == c)
            m->conns[i] = m->conns[--m->conn_count];
    if (c->alloc != NULL) {
        struct exp_alloc *a = c->alloc;
        a->conn = NULL;
        a->is_lost = true;
        a->hello_ns = ebb_clock_ns() + (uint64_t)m->options.adopt_ms * 1000000u;
    }
    epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    ebb_str_fini(&c->in);
    ebb_str_fini(&c->out);
    ebb_free(c->waiting);
    ebb_free(c);
}

/* ---- out ---- */

void exp_conn_send(struct exp_master *m, struct exp_conn *c, const char *text, size_t length)
{
    (void)m;
    if (c->out.length + length > OUT_MAX)
        c->is_broken = true;
    else
        ebb_str_addn(&c->out, text, length);
    c->is_broken |= c->out.failed;
}

static void watch(struct exp_master *m, struct exp_conn *c, bool is_writing)
{
    struct epoll_event event = {.events = EPOLLIN | (is_writing ? EPOLLOUT : 0u), .data.fd = c->fd};
    if (c->is_writing != is_writing)
        epoll_ctl(m->epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
    c->is_writing = is_writing;
}

void exp_conn_flush(struct exp_master *m, struct exp_conn *c)
{
    size_t sent = 0;
    while (sent < c->out.length && !c->is_broken) {
        ssize_t n = send(c->fd, c->out.data + sent, c->out.length - sent, MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            break;
        else if (errno != EINTR)
            c->is_broken = true;
    }
    if (sent == c->out.length) {
        ebb_str_clear(&c->out);
    } else if (sent > 0) {
        memmove(c->out.data, c->out.data + sent, c->out.length - sent);
        c->out.length -= sent;
        c->out.data[c->out.length] = '\0';
    }
    c->committed = c->out.length;
    watch(m, c, c->out.length > 0);
}

static void answer(struct exp_master *m, struct exp_conn *c,
                   const struct exp_http_response *response)
{
    struct ebb_str text;
    ebb_str_init(&text);
    exp_http_write_response(response, c->is_last, &text);
    if (text.failed)
        c->is_broken = true;
    else
        exp_conn_send(m, c, text.data, text.length);
    ebb_str_fini(&text);
    c->is_dead |= c->is_last;
}

static void write_error(struct exp_http_response *response, int status, const char *message)
{
    struct ebb_json_writer w;
    response->status = status;
    ebb_str_clear(&response->body);
    ebb_jsonw_init(&w, &response->body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "error");
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "code");
    ebb_jsonw_int(&w, status);
    ebb_jsonw_key(&w, "reason");
    ebb_jsonw_string(&w, exp_http_reason(status));
    ebb_jsonw_key(&w, "message");
    ebb_jsonw_string(&w, message);
    ebb_jsonw_object_end(&w);
    ebb_jsonw_object_end(&w);
}

static void refuse(struct exp_master *m, struct exp_conn *c, int status, const char *message)
{
    struct exp_http_response response;
    exp_http_response_init(&response);
    write_error(&response, status, message);
    c->is_last = true;
    answer(m, c, &response);
    exp_http_response_fini(&response);
}

void exp_conns_refuse(struct exp_master *m)
{
    for (size_t i = 0; i < m->conn_count; i++) {
        struct exp_conn *c = m->conns[i];
        if (c->kind == EXP_CONN_TRIAL) {
            c->is_broken = true;
            c->alloc = NULL;
            continue;
        }
        bool has_answer = c->out.length > c->committed || c->is_handling;
        c->is_broken |=
            c->in.failed || c->out.failed || (c->is_handling && c->kind == EXP_CONN_NEW);
        c->out.length = c->committed;
        if (has_answer && !c->is_broken)
            refuse(m, c, 503, m->stall.message);
    }
}

/* ---- HTTP ---- */

/* Long polls: the answer is worth sending, or the time is up. */
static bool is_empty_answer(const struct exp_http_response *response)
{
    const char *body = ebb_str_c(&response->body);
    return response->status == 200 &&
           (strstr(body, "\"events\": []") != NULL ||
            (strstr(body, "\"logs\": []") != NULL && strstr(body, "\"is_over\": true") == NULL));
}

static enum ebb_status serve(struct exp_master *m, struct exp_conn *c,
                             const struct exp_http_request *request, bool is_again,
                             struct ebb_error *err)
{
    struct exp_http_response response;
    exp_http_response_init(&response);
    if (exp_rest_must_wait(m, request)) {
        write_error(&response, 503, m->stall.message);
        answer(m, c, &response);
        exp_http_response_fini(&response);
        return EBB_OK;
    }
    enum ebb_status status = exp_rest_handle(m, request, &response, err);
    char *wait = exp_http_query(request->target, "wait");
    char *follow = exp_http_query(request->target, "follow");
    double seconds = follow != NULL && strcmp(follow, "true") == 0 ? FOLLOW_S : 0;
    if (wait != NULL)
        (void)ebb_parse_double(wait, &seconds);
    ebb_free(wait);
    ebb_free(follow);
    if (status == EBB_OK && !is_again && seconds > 0 && is_empty_answer(&response)) {
        c->wait_until_ns = m->now_ns + (uint64_t)((seconds < 600 ? seconds : 600) * 1e9);
        status = exp_text_set(&c->waiting, request->target, err);
    } else if (status == EBB_OK &&
               (!is_again || !is_empty_answer(&response) || m->now_ns >= c->wait_until_ns)) {
        answer(m, c, &response);
        ebb_free(c->waiting);
        c->waiting = NULL;
    }
    exp_http_response_fini(&response);
    return status;
}

static void begin_stream(struct exp_master *m, struct exp_conn *c, const char *target)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Cache-Control: no-store\r\nConnection: close\r\n\r\n";
    char *after = exp_http_query(target, "after");
    int64_t value = -1;
    if (after != NULL)
        (void)ebb_parse_i64(after, &value);
    ebb_free(after);
    c->is_stream = true;
    c->stream_after = value >= 0 ? value : m->notice_next - 1;
    (void)exp_text_set(&c->waiting, target, NULL);
    exp_conn_send(m, c, head, sizeof head - 1);
}

static enum ebb_status read_http(struct exp_master *m, struct exp_conn *c, struct ebb_error *err)
{
    struct exp_http_message message;
    while (!c->is_dead && c->waiting == NULL && c->in_at < c->in.length) {
        enum exp_http_result result =
            exp_http_read_request(c->in.data + c->in_at, c->in.length - c->in_at, &message);
        if (result == EXP_HTTP_MORE)
            return EBB_OK;
        if (result == EXP_HTTP_BAD) {
            refuse(m, c, message.status, "this is no HTTP/1.1 request that is understood here");
            return EBB_OK;
        }
        char method[24];
        char *target = ebb_arena_strndup(&m->turn_arena, message.target, message.target_length);
        if (target == NULL)
            return ebb_no_memory(err, message.target_length);
        snprintf(method, sizeof method, "%.*s", (int)message.method_length, message.method);
        char *user =
            message.user != NULL ? exp_http_decode(message.user, message.user_length, false) : NULL;
        if (message.user != NULL && user == NULL)
            return ebb_no_memory(err, message.user_length);
        struct exp_http_request request = {.method = method,
                                           .target = target,
                                           .body = message.body,
                                           .body_length = message.body_length,
                                           .user = user};
        c->is_last = message.wants_close;
        enum ebb_status status = EBB_OK;
        if (message.wants_stream && strstr(target, "/events") != NULL)
            begin_stream(m, c, target);
        else
            status = serve(m, c, &request, false, err);
        ebb_free(user);
        EBB_TRY(status);
        c->in_at += message.used;
    }
    return EBB_OK;
}

static void stream(struct exp_master *m, struct exp_conn *c)
{
    struct ebb_str list, out;
    struct ebb_json_writer w;
    size_t count;
    bool is_cut;
    char *text = exp_http_query(c->waiting != NULL ? c->waiting : "", "experiment_id");
    int64_t experiment = 0;
    if (text != NULL)
        (void)ebb_parse_i64(text, &experiment);
    ebb_free(text);
    if (c->stream_after >= m->notice_next - 1)
        return;
    ebb_str_init(&list);
    ebb_str_init(&out);
    ebb_jsonw_init(&w, &list, 0);
    ebb_jsonw_array(&w);
    c->stream_after = exp_notices_write(m, c->stream_after, experiment, &w, &count, &is_cut);
    ebb_jsonw_array_end(&w);
    if (count > 0) {
        ebb_str_printf(&out, "id: %lld\ndata: ", (long long)c->stream_after);
        ebb_str_addn(&out, ebb_str_c(&list), list.length);
        ebb_str_add(&out, "\n\n");
        exp_conn_send(m, c, ebb_str_c(&out), out.length);
    }
    ebb_str_fini(&list);
    ebb_str_fini(&out);
}

void exp_conns_answer(struct exp_master *m)
{
    for (size_t i = 0; i < m->conn_count; i++) {
        struct exp_conn *c = m->conns[i];
        struct ebb_error err;
        if (c->is_stream) {
            stream(m, c);
        } else if (c->waiting != NULL && (m->has_news || m->now_ns >= c->wait_until_ns)) {
            struct exp_http_request request = {.method = "GET", .target = c->waiting};
            if (serve(m, c, &request, true, &err) != EBB_OK)
                c->is_broken = true; /* a read failed: the peer asks again */
        }
    }
}

/* ---- in ---- */

static enum ebb_status read_lines(struct exp_master *m, struct exp_conn *c, struct ebb_error *err)
{
    while (!c->is_dead && !c->is_broken && c->in_at < c->in.length) {
        const char *at = c->in.data + c->in_at;
        size_t left = c->in.length - c->in_at;
        const char *eol = memchr(at, '\n', left);
        if (eol == NULL && left <= EXP_TALK_LINE_MAX)
            return EBB_OK;
        if (eol == NULL) {
            if (c->alloc != NULL)
                exp_alloc_kill(m, c->alloc, "breaks the protocol: a line longer than 16 MiB");
            c->is_broken = true;
            return EBB_OK;
        }
        EBB_TRY(exp_talk_line(m, c, at, (size_t)(eol - at), err));
        c->in_at += (size_t)(eol - at) + 1;
    }
    return EBB_OK;
}

static enum ebb_status take(struct exp_master *m, struct exp_conn *c, struct ebb_error *err)
{
    if (c->kind == EXP_CONN_NEW && c->in.length > 0)
        c->kind = c->in.data[0] == '{' ? EXP_CONN_TRIAL : EXP_CONN_HTTP;
    if (c->kind == EXP_CONN_TRIAL && m->is_stalled) {
        c->is_broken = true; /* it tries again */
        return EBB_OK;
    }
    enum ebb_status status =
        c->kind == EXP_CONN_TRIAL ? read_lines(m, c, err) : read_http(m, c, err);
    if (c->in_at == c->in.length) {
        ebb_str_clear(&c->in);
        c->in_at = 0;
    } else if (c->in_at > (c->in.length >> 1)) {
        c->in.length -= c->in_at;
        memmove(c->in.data, c->in.data + c->in_at, c->in.length);
        c->in_at = 0;
    }
    return status;
}

enum ebb_status exp_conn_readable(struct exp_master *m, struct exp_conn *c, struct ebb_error *err)
{
    char *buffer = ebb_arena_alloc(&m->turn_arena, READ_BYTES);
    if (buffer == NULL)
        return ebb_no_memory(err, READ_BYTES);
    ssize_t n = recv(c->fd, buffer, READ_BYTES, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return EBB_OK;
    if (n <= 0) {
        c->is_broken = true;
        return EBB_OK;
    }
    c->received += (uint64_t)n;
    c->is_handling = true;
    ebb_str_addn(&c->in, buffer, (size_t)n);
    EBB_TRY(ebb_str_status(&c->in, err));
    EBB_TRY(take(m, c, err));
    c->is_handling = false;
    return EBB_OK;
}
