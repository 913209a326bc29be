/* conn.c - the front of a master: connections, their states, and the rhythm of turns.
 *
 * Bytes become whole requests before the commit; answers leave after it (S1). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h"
#include "serve/inner.h"

#define CONNS_MAX 1024
#define IDLE_MAX 256 /* of those on master.sock: who has asked nothing that is not answered */
#define FOLLOW_S 60  /* of follow=true: how long an answer may be held back */
#define EVENTS 64
#define STREAM_MAX ((size_t)8 << 20)    /* a listener that is so far behind is none */
#define CHATTER_MAX ((size_t)1 << 20)   /* of requests that come while one is being answered */
#define STRANGER_MAX ((size_t)64 << 10) /* of a body over TCP that no token came with */
#define READER_MAX ((size_t)2 << 20)    /* ... whose token may only read */
#define PACK_HERE_MAX ((size_t)1 << 18) /* more is compressed by threads, or not */
#define FILE_PIECE ((size_t)256 << 10)
#define FILE_PIECES 16 /* in a turn, of all files together; one of each at least */

struct serve *serve_of(const struct exp_master *m)
{
    return exp_master_front_context(m);
}

static void close_conn(struct serve *s, struct serve_conn *c)
{
    for (size_t i = 0; i < s->conn_count; i++)
        if (s->conns[i] == c)
            s->conns[i] = s->conns[--s->conn_count];
    s->tcp_count -= c->is_tcp;
    if (c->is_apart) {
        serve_apart_forget(s->apart, c->number);
        serve_apart_forget(s->slow, c->number);
    }
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->wire.fd, NULL);
    ebb_wire_fini(&c->wire);
    serve_job_destroy(c->job);
    if (c->is_sending)
        close(c->file);
    ebb_free(c->waiting);
    ebb_free(c->user);
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

/* The target is asked again, for what comes behind the end that its empty answer tells: a parameter
 * that stands twice counts as its first. */
static bool keep_target(struct serve_conn *c, const char *target, const struct ebb_str *answer)
{
    struct ebb_str text = {0};
    const char *next = strstr(ebb_str_c(answer), "\"next\": ");
    size_t path = strcspn(target, "?");
    const char *query = target + path;
    bool is_log = path >= 5 && strncmp(query - 5, "/logs", 5) == 0;
    ebb_str_addn(&text, target, path);
    if (next != NULL)
        ebb_str_printf(&text, "?%s=%.*s%s%s", is_log ? "greater_than_id" : "after",
                       (int)strspn(next + 8, "0123456789"), next + 8, query[0] != '\0' ? "&" : "",
                       query[0] != '\0' ? query + 1 : "");
    else
        ebb_str_add(&text, query);
    ebb_free(c->waiting);
    c->waiting = ebb_str_take(&text);
    return c->waiting != NULL;
}

/* ---- out ---- */

void serve_conn_answer(struct serve_conn *c, struct serve_http_response *response)
{
    struct ebb_str text = {0};
    struct serve_http_text asked = {c->if_none_match[0] != '\0' ? c->if_none_match : NULL,
                                    strlen(c->if_none_match)};
    unsigned manners = (c->is_last ? SERVE_HTTP_CLOSE : 0u) | (c->is_head ? SERVE_HTTP_HEAD : 0u) |
                       (c->is_tcp ? SERVE_HTTP_GUARD : 0u);
    c->is_last |= response->has_file; /* what was said meanwhile is not dealt with: no more is */
    manners |= c->is_last ? SERVE_HTTP_CLOSE : 0u;
    if (c->is_tcp && c->is_get && !response->is_packed && !response->has_file)
        (void)serve_http_tag(response, asked);
    if (c->wants_gzip && !response->has_file && response->body.length <= PACK_HERE_MAX)
        serve_http_pack(response);
    serve_http_write_response(response, manners, &text);
    if (text.failed)
        c->wire.is_broken = true;
    else
        ebb_wire_say(&c->wire, text.data, text.length);
    ebb_str_fini(&text);
    if (response->has_file && !c->is_head && !c->wire.is_broken) {
        c->is_sending = true;
        c->file = response->file;
        c->file_at = response->file_at;
        c->file_end = response->file_at + response->file_bytes;
        response->has_file = false;
    }
    c->wire.is_dead |= c->is_last && !c->is_sending;
}

/* The next pieces of a file, while they are taken; a turn sends a few of them at most. */
static void send_file(struct serve *s, struct serve_conn *c, int pieces)
{
    char *piece = ebb_alloc(FILE_PIECE);
    for (int i = 0; piece != NULL && i < pieces && c->is_sending && !c->wire.is_broken; i++) {
        if (ebb_wire_has_out(&c->wire))
            ebb_wire_flush(&c->wire, s->epoll_fd);
        if (ebb_wire_has_out(&c->wire) || c->wire.is_broken)
            break; /* not taken yet */
        int64_t left = c->file_end - c->file_at;
        size_t want = left < (int64_t)FILE_PIECE ? (size_t)left : FILE_PIECE;
        ssize_t n = want > 0 ? pread(c->file, piece, want, c->file_at) : 0;
        if (n > 0)
            ebb_wire_say(&c->wire, piece, (size_t)n);
        c->file_at += n > 0 ? n : 0;
        c->wire.is_broken |= want > 0 && n <= 0; /* it has become shorter: better cut than wrong */
        if (c->file_at == c->file_end || c->wire.is_broken) {
            close(c->file);
            c->is_sending = false;
            c->wire.is_dead = true;
        }
    }
    c->wire.is_broken |= piece == NULL;
    ebb_free(piece);
}

void serve_conn_refuse(struct serve_conn *c, int status, const char *message)
{
    struct serve_http_response response;
    serve_http_response_init(&response);
    serve_http_write_error(&response, status, message);
    c->is_last = true;
    serve_conn_answer(c, &response);
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

static double seconds_of(const char *target)
{
    char *wait = serve_http_query(target, "wait");
    char *follow = serve_http_query(target, "follow");
    double seconds = follow != NULL && strcmp(follow, "true") == 0 ? FOLLOW_S : 0;
    if (wait != NULL)
        (void)ebb_parse_double(wait, &seconds);
    ebb_free(wait);
    ebb_free(follow);
    return seconds;
}

static enum ebb_status handle(struct serve *s, struct serve_conn *c,
                              const struct serve_http_request *request, bool is_again,
                              struct ebb_error *err)
{
    struct serve_http_response response;
    serve_http_response_init(&response);
    if (serve_rest_must_wait(s->m, request)) {
        serve_http_write_error(&response, 503, exp_master_info(s->m).stall);
        serve_conn_answer(c, &response);
        serve_http_response_fini(&response);
        return EBB_OK;
    }
    enum ebb_status status = serve_rest_handle(s->m, request, &response, err);
    double seconds = seconds_of(request->target);
    if (status == EBB_OK && response.is_later)
        c->is_later = true;
    else if (status == EBB_OK && !is_again && seconds > 0 && is_empty_answer(&response)) {
        c->wait_until_ns = now_ns(s) + (uint64_t)((seconds < 600 ? seconds : 600) * 1e9);
        if (!keep_target(c, request->target, &response.body))
            status = ebb_no_memory(err, strlen(request->target));
    } else if (status == EBB_OK &&
               (!is_again || !is_empty_answer(&response) || now_ns(s) >= c->wait_until_ns)) {
        serve_conn_answer(c, &response);
        ebb_free(c->waiting);
        c->waiting = NULL;
    }
    serve_http_response_fini(&response);
    return status;
}

/* ---- in ---- */

/* In whose name and with which rights the connection asks. */
static struct serve_http_request request_of(const struct serve_conn *c, const char *method,
                                            const char *target)
{
    return (struct serve_http_request){.method = method,
                                       .target = target,
                                       .user = c->user,
                                       .is_remote = c->is_tcp,
                                       .is_read_only = c->is_read_only,
                                       .range = c->range[0] != '\0' ? c->range : NULL,
                                       .login = c->is_cookie ? c->login : NULL};
}

/* A thread reads, once this turn has committed. */
static enum ebb_status put_apart(struct serve_conn *c, const struct serve_http_request *request,
                                 bool is_slow, struct ebb_error *err)
{
    c->job = serve_job_create(request);
    if (c->job == NULL)
        return ebb_no_memory(err, sizeof *c->job);
    c->job->conn = c->number;
    c->job->is_slow = is_slow;
    c->job->wants_gzip = c->wants_gzip && c->is_tcp;
    if (c->is_tcp)
        memcpy(c->job->if_none_match, c->if_none_match, sizeof c->if_none_match);
    c->is_apart = true;
    return EBB_OK;
}

/* A stream begins for those who are answered otherwise, too (S3). */
static enum ebb_status begin_stream(struct serve *s, struct serve_conn *c,
                                    const struct serve_http_message *m,
                                    const struct serve_http_request *request, struct ebb_error *err)
{
    struct serve_http_response response;
    serve_http_response_init(&response);
    enum ebb_status status = serve_rest_greet(s->m, request, &response, err);
    if (status == EBB_OK)
        serve_stream_begin(s, c, request->target, m->last_event);
    else if (status == SERVE_REFUSED)
        serve_conn_answer(c, &response);
    serve_http_response_fini(&response);
    return status == SERVE_REFUSED ? EBB_OK : status;
}

static enum ebb_status handle_rest(struct serve *s, struct serve_conn *c,
                                   const struct serve_http_message *m,
                                   const struct serve_http_request *request, struct ebb_error *err)
{
    unsigned threads = is_stalled(s) ? 0 : serve_rest_is_apart(request);
    if (m->wants_stream && !c->is_head && serve_rest_is_events(request))
        return begin_stream(s, c, m, request, err);
    return threads != 0 ? put_apart(c, request, (threads & SERVE_SLOW) != 0, err)
                        : handle(s, c, request, false, err);
}

/* Over TCP: the page, a login, or REST below its prefix. */
static enum ebb_status handle_tcp(struct serve *s, struct serve_conn *c,
                                  const struct serve_http_message *m,
                                  struct serve_http_request *request, struct ebb_error *err)
{
    struct serve_http_response response;
    const char *path = serve_gate_path(s, request->target);
    enum ebb_status status = EBB_OK;
    bool is_rest = path != NULL && strncmp(path, "/api/v1/", 8) == 0;
    if (is_rest && strcmp(path, "/api/v1/login") != 0) {
        request->target = path;
        return handle_rest(s, c, m, request, err);
    }
    serve_http_response_init(&response);
    if (is_stalled(s) && is_rest) {
        serve_conn_refuse(c, 503, exp_master_info(s->m).stall);
    } else if (is_rest && strcmp(request->method, "POST") == 0) {
        status = serve_gate_login(s, c, request->body, request->body_length, &response, err);
    } else if (strcmp(request->method, "GET") != 0) {
        serve_conn_refuse(c, 405, "only GET and HEAD here");
    } else {
        serve_page(s, path, m, &response);
        serve_conn_answer(c, &response);
    }
    serve_http_response_fini(&response);
    return status;
}

static enum ebb_status handle_message(struct serve *s, struct serve_conn *c,
                                      const struct serve_http_message *m, const char *target,
                                      struct ebb_error *err)
{
    char method[24];
    struct ebb_str joined = {0};
    char *user =
        m->user != NULL && !c->is_tcp ? serve_http_decode(m->user, m->user_length, false) : NULL;
    snprintf(method, sizeof method, "%.*s", (int)m->method_length, m->method);
    c->is_last = m->wants_close;
    c->is_head = strcmp(method, "HEAD") == 0;
    c->wants_gzip = m->wants_gzip;
    snprintf(c->if_none_match, sizeof c->if_none_match, "%.*s",
             (int)(m->if_none_match.length < 63 ? m->if_none_match.length : 63),
             m->if_none_match.at != NULL ? m->if_none_match.at : "");
    snprintf(c->range, sizeof c->range, "%.*s", (int)(m->range.length < 79 ? m->range.length : 79),
             m->range.at != NULL ? m->range.at : "");
    if (c->is_head)
        snprintf(method, sizeof method, "GET");
    c->is_get = strcmp(method, "GET") == 0;
    struct serve_http_request request = request_of(c, method, target);
    request.body = m->body;
    request.body_length = m->body_length;
    if (m->is_chunked) {
        serve_http_join(m, &joined);
        request.body = joined.length > 0 ? joined.data : NULL;
        request.body_length = joined.length;
    }
    enum ebb_status status = ebb_str_status(&joined, err);
    if (!c->is_tcp) {
        request.user = user;
        if (status == EBB_OK && m->user != NULL && user == NULL)
            status = ebb_no_memory(err, m->user_length);
        if (status == EBB_OK)
            status = handle_rest(s, c, m, &request, err);
    } else if (status == EBB_OK) {
        status = handle_tcp(s, c, m, &request, err);
    }
    ebb_str_fini(&joined);
    ebb_free(user);
    return status;
}

/* What a token that may only read is refused anyway is refused before its body comes. */
static bool may_change(const struct serve *s, const struct serve_conn *c,
                       const struct serve_http_message *m, const char *target)
{
    char method[24];
    snprintf(method, sizeof method, "%.*s", (int)m->method_length, m->method);
    struct serve_http_request request = request_of(c, method, serve_gate_path(s, target));
    return serve_rest_may(&request);
}

/* The head is whole: may they? Then the body is waited for. */
static bool pass(struct serve *s, struct serve_conn *c, const struct serve_http_message *m,
                 const char *target)
{
    static const char promise[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (c->is_passed)
        return true;
    if (c->is_tcp && !serve_gate(s, c, m, target))
        return false;
    if (c->is_read_only && !may_change(s, c, m, target)) {
        serve_conn_refuse(c, 403, "this token may only read");
        return false;
    }
    c->is_passed = true;
    if (m->wants_promise)
        ebb_wire_say(&c->wire, promise, sizeof promise - 1);
    return true;
}

static enum ebb_status read_message(struct serve *s, struct serve_conn *c,
                                    const struct serve_http_message *m, bool is_whole,
                                    struct ebb_error *err)
{
    char *target = ebb_strndup(m->target, m->target_length);
    if (target == NULL)
        return ebb_no_memory(err, m->target_length);
    enum ebb_status status = EBB_OK;
    if (pass(s, c, m, target) && is_whole)
        status = handle_message(s, c, m, target, err);
    ebb_free(target);
    return status;
}

/* Room is for those who may fill it. `left`: what has come of a message that is not whole. */
static bool is_too_much(const struct serve_conn *c, const struct serve_http_message *m, size_t left)
{
    size_t most = c->user == NULL ? STRANGER_MAX : c->is_read_only ? READER_MAX : SIZE_MAX;
    return c->is_tcp && !c->wire.is_dead && left - m->head_length > most;
}

static enum ebb_status read_requests(struct serve *s, struct serve_conn *c, struct ebb_error *err)
{
    struct serve_http_message message;
    size_t left;
    const char *at;
    c->has_more = false;
    while (!c->wire.is_dead && c->waiting == NULL && !c->is_apart && !c->is_later &&
           !c->is_sending && (at = ebb_wire_at(&c->wire, &left), left > 0)) {
        c->has_more = ebb_wire_has_out(&c->wire);
        if (c->has_more) /* one after the other: a turn answers one request of each */
            return EBB_OK;
        enum serve_http_result result = serve_http_read_request(at, left, &message);
        if (result == SERVE_HTTP_BAD) {
            serve_conn_refuse(c, message.status, serve_http_complaint(message.status));
            return EBB_OK;
        }
        if (message.head_length > 0)
            EBB_TRY(read_message(s, c, &message, result == SERVE_HTTP_DONE, err));
        if (result == SERVE_HTTP_MORE && message.head_length > 0 && is_too_much(c, &message, left))
            serve_conn_refuse(c, 413, "this body is longer than anything that can be asked so");
        c->is_unread = c->is_tcp && result == SERVE_HTTP_MORE && c->wire.is_dead;
        if (result == SERVE_HTTP_MORE || c->is_later)
            return EBB_OK;
        ebb_wire_used(&c->wire, message.used);
        c->is_passed = false;
        c->has_asked = true;
    }
    return EBB_OK;
}

/* What fails while nothing can be written anyway ends the connection, not a turn. */
static enum ebb_status readable(struct serve *s, struct serve_conn *c, struct ebb_error *err)
{
    if (c->wire.is_broken) /* nobody hears the answer */
        return EBB_OK;
    c->is_handling = true;
    enum ebb_status status = read_requests(s, c, err);
    if (status != EBB_OK && is_stalled(s)) {
        c->wire.is_broken = true;
        status = EBB_OK;
    }
    c->is_handling = status != EBB_OK;
    return status;
}

/* Nobody is locked out by those who have nothing to ask: the one that has been idle for longest goes.
 * Connections over TCP have a quota and a patience of their own (listen.c). */
static void drop_idle(struct serve *s)
{
    struct serve_conn *oldest = NULL;
    size_t idle = 0;
    for (size_t i = 0; i < s->conn_count; i++) {
        struct serve_conn *c = s->conns[i];
        if (c->is_tcp || c->waiting != NULL || c->is_stream || c->is_later || c->is_apart ||
            c->is_sending || c->is_handling || ebb_wire_has_out(&c->wire))
            continue;
        idle++;
        if (oldest == NULL || c->heard_ns < oldest->heard_ns)
            oldest = c;
    }
    if (oldest != NULL && idle >= IDLE_MAX)
        close_conn(s, oldest);
}

enum ebb_status serve_conn_add(struct serve *s, int fd, bool is_tcp, struct serve_conn **conn,
                               struct ebb_error *err)
{
    if (!is_tcp)
        drop_idle(s);
    struct serve_conn *c = ebb_calloc(1, sizeof *c);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (c == NULL || s->conn_count - s->tcp_count >= CONNS_MAX ||
        ebb_grow(&s->conns, &s->conn_capacity, s->conn_count + 1, sizeof *s->conns, NULL) !=
            EBB_OK ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        ebb_free(c);
        close(fd);
        return ebb_fail(err, EBB_ELIMIT, "serve: no room for another connection");
    }
    ebb_wire_init(&c->wire, fd);
    c->is_tcp = is_tcp;
    c->number = ++s->numbers;
    c->due_ns = UINT64_MAX;
    c->heard_ns = now_ns(s);
    s->tcp_count += is_tcp;
    s->conns[s->conn_count++] = c;
    *conn = c;
    return EBB_OK;
}

static enum ebb_status take(void *context, int fd, const char *bytes, size_t length,
                            struct ebb_error *err)
{
    struct serve *s = context;
    struct serve_conn *c = NULL;
    struct ebb_error why;
    if (serve_conn_add(s, fd, false, &c, &why) != EBB_OK)
        return EBB_OK;
    ebb_str_addn(&c->wire.in, bytes, length);
    EBB_TRY(ebb_str_status(&c->wire.in, err));
    return readable(s, c, err);
}

static struct serve_conn *find_fd(const struct serve *s, int fd)
{
    for (size_t k = 0; k < s->conn_count; k++)
        if (s->conns[k]->wire.fd == fd)
            return s->conns[k];
    return NULL;
}

/* What threads have read. */
static enum ebb_status hear_threads(struct serve *s, struct serve_apart *apart,
                                    struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (struct serve_job *job; (job = serve_apart_take(apart)) != NULL;) {
        struct serve_conn *c = NULL;
        for (size_t i = 0; i < s->conn_count && c == NULL; i++)
            c = s->conns[i]->number == job->conn ? s->conns[i] : NULL;
        if (c != NULL) {
            c->is_apart = false;
            serve_conn_answer(c, &job->response);
        }
        serve_job_destroy(job);
        if (c != NULL && status == EBB_OK)
            status = readable(s, c, err); /* what was said meanwhile */
    }
    return status;
}

/* A store has answered: requests that wait for one are handled again. */
static enum ebb_status hear_checked(void *context, struct ebb_error *err)
{
    struct serve *s = context;
    for (size_t i = 0; i < s->conn_count; i++)
        if (s->conns[i]->is_later) {
            s->conns[i]->is_later = false;
            EBB_TRY(readable(s, s->conns[i], err));
        }
    return EBB_OK;
}

/* What was sent before answers had left. */
static enum ebb_status hear_more(struct serve *s, struct ebb_error *err)
{
    uint64_t count;
    (void)!read(s->more_fd, &count, sizeof count);
    for (size_t i = 0; i < s->conn_count; i++)
        if (s->conns[i]->has_more)
            EBB_TRY(readable(s, s->conns[i], err));
    return EBB_OK;
}

static enum ebb_status hear(void *context, struct ebb_error *err)
{
    struct serve *s = context;
    struct epoll_event events[EVENTS];
    int n = epoll_wait(s->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd;
        if (s->listener != NULL && fd == serve_listener_fd(s->listener)) {
            serve_listener_accept(s);
            continue;
        }
        if (fd == s->more_fd) {
            EBB_TRY(hear_more(s, err));
            continue;
        }
        struct serve_apart *apart = s->apart != NULL && fd == serve_apart_fd(s->apart) ? s->apart
                                    : s->slow != NULL && fd == serve_apart_fd(s->slow) ? s->slow
                                                                                       : NULL;
        if (apart != NULL) {
            EBB_TRY(hear_threads(s, apart, err));
            continue;
        }
        struct serve_conn *c = find_fd(s, fd);
        if (c == NULL || (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
            continue;
        c->is_handling = true;
        c->heard_ns = now_ns(s);
        EBB_TRY(ebb_wire_hear(&c->wire, err));
        if (!c->wire.is_broken)
            EBB_TRY(readable(s, c, err));
        bool is_deaf = c->waiting != NULL || c->is_apart || c->is_later || c->is_sending ||
                       c->has_more; /* who waits has little to say */
        c->wire.is_broken |= c->is_tcp && is_deaf && c->wire.in.length > CHATTER_MAX;
    }
    return EBB_OK;
}

/* ---- turns ---- */

/* Refused before all of it has come: who closes now takes the answer back, for bytes that nobody
 * reads reset a connection. What comes is thrown away until the peer has heard. */
static void linger(struct serve *s, struct serve_conn *c)
{
    size_t left;
    (void)ebb_wire_at(&c->wire, &left);
    ebb_wire_used(&c->wire, left);
    if (c->is_leaving)
        return;
    c->is_leaving = true;
    c->due_ns = now_ns(s) + serve_listener_patience(s->listener);
    shutdown(c->wire.fd, SHUT_WR);
}

/* Time to close it? */
static bool is_over(struct serve *s, struct serve_conn *c)
{
    if (!ebb_wire_is_over(&c->wire))
        return false;
    if (c->wire.is_broken || !c->is_unread || (c->is_leaving && now_ns(s) >= c->due_ns))
        return true;
    linger(s, c);
    return false;
}

/* Over TCP patience has an end. */
static void look_at_clock(struct serve *s, struct serve_conn *c)
{
    size_t left;
    if (!c->is_tcp || c->is_stream || c->is_leaving)
        return;
    serve_conn_wind(s, c);
    if (now_ns(s) < c->due_ns)
        return;
    (void)ebb_wire_at(&c->wire, &left);
    if (left > 0 && !ebb_wire_has_out(&c->wire))
        serve_conn_refuse(c, 408, "the request did not come in time");
    else
        c->wire.is_broken = true;
}

static void flush_all(struct serve *s)
{
    int files = 0;
    for (size_t i = 0; i < s->conn_count; i++)
        files += s->conns[i]->is_sending;
    int pieces = files < FILE_PIECES ? FILE_PIECES / (files > 0 ? files : 1) : 1;
    for (size_t i = s->conn_count; i-- > 0;) {
        struct serve_conn *c = s->conns[i];
        look_at_clock(s, c);
        if (c->is_sending)
            send_file(s, c, pieces);
        if (ebb_wire_has_out(&c->wire))
            ebb_wire_flush(&c->wire, s->epoll_fd);
        c->wire.is_broken |=
            c->is_stream && c->wire.out.length + c->wire.sealed.length > STREAM_MAX;
        if (c->has_more && !ebb_wire_has_out(&c->wire))
            (void)!write(s->more_fd, &(uint64_t){1}, 8);
        if (is_over(s, c))
            close_conn(s, c);
    }
}

static enum ebb_status open_threads(struct serve *s, struct serve_apart **apart,
                                    struct ebb_error *err)
{
    struct exp_master_info info = exp_master_info(s->m);
    if (*apart != NULL)
        return EBB_OK;
    EBB_TRY(serve_apart_open(&info, apart, err));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = serve_apart_fd(*apart)};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) == 0)
        return EBB_OK;
    serve_apart_close(*apart);
    *apart = NULL;
    return ebb_fail(err, EBB_EIO, "serve: epoll: %s", strerror(errno));
}

/* The turn has committed: threads may read what it wrote. */
static void start_job(struct serve *s, struct serve_conn *c)
{
    struct ebb_error err;
    struct serve_job *job = c->job;
    struct serve_apart **apart = job->is_slow ? &s->slow : &s->apart;
    c->job = NULL;
    if (open_threads(s, apart, &err) == EBB_OK) {
        job->info = exp_master_info(s->m);
        if (serve_apart_add(*apart, job))
            return;
        (void)ebb_fail(&err, EBB_ELIMIT, "too many are being computed already: try again");
    }
    serve_job_destroy(job);
    c->is_apart = false;
    serve_conn_refuse(c, 503, err.message);
}

/* A long poll looks again; what proves who asks may have ended meanwhile. */
static void ask_again(struct serve *s, struct serve_conn *c)
{
    struct ebb_error err;
    size_t left;
    struct serve_http_request request = request_of(c, "GET", c->waiting);
    if (c->is_tcp && !serve_gate_is_known(s, c)) {
        serve_conn_refuse(c, 401, "this token or login has ended");
        ebb_free(c->waiting);
        c->waiting = NULL;
    } else if (handle(s, c, &request, true, &err) != EBB_OK) {
        c->wire.is_broken = true; /* a read failed: the peer asks again */
    }
    (void)ebb_wire_at(&c->wire, &left);
    c->has_more |= c->waiting == NULL && left > 0; /* what was said meanwhile */
}

static void send_all(void *context, bool has_news)
{
    struct serve *s = context;
    for (size_t i = 0; i < s->conn_count && !is_stalled(s); i++) {
        struct serve_conn *c = s->conns[i];
        if (c->job != NULL) {
            start_job(s, c);
        } else if (c->waiting != NULL && !c->is_stream &&
                   (has_news || now_ns(s) >= c->wait_until_ns)) {
            ask_again(s, c);
        }
    }
    if (!is_stalled(s))
        serve_stream_send_all(s);
    flush_all(s);
}

static void refuse_all(void *context, const struct ebb_error *why)
{
    struct serve *s = context;
    for (size_t i = 0; i < s->conn_count; i++) {
        struct serve_conn *c = s->conns[i];
        bool has_answer =
            c->wire.out.length > c->wire.committed || c->is_handling || c->job != NULL;
        c->wire.is_broken |= c->wire.in.failed || c->wire.out.failed;
        c->wire.out.length = c->wire.committed;
        c->is_apart = c->is_apart && c->job == NULL;
        serve_job_destroy(c->job);
        c->job = NULL;
        if (has_answer && !c->wire.is_broken)
            serve_conn_refuse(c, 503, why->message);
        c->is_handling = false;
    }
    flush_all(s);
}

static uint64_t deadline(void *context)
{
    const struct serve *s = context;
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < s->conn_count; i++) {
        const struct serve_conn *c = s->conns[i];
        if (c->waiting != NULL && !c->is_stream && c->wait_until_ns < first && !is_stalled(s))
            first = c->wait_until_ns;
        uint64_t due = !c->is_stream    ? c->due_ns
                       : !is_stalled(s) ? serve_stream_due(s, c)
                                        : UINT64_MAX; /* nothing is said while it is */
        first = due < first ? due : first;
        if (c->is_sending && !ebb_wire_has_out(&c->wire))
            first = 0; /* there is room: at once */
    }
    return first;
}

static void end(void *context)
{
    struct serve *s = context;
    while (s->conn_count > 0)
        close_conn(s, s->conns[0]);
    serve_apart_close(s->apart);
    serve_apart_close(s->slow);
    serve_listener_close(s->listener);
    close(s->more_fd);
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
        *s = (struct serve){.m = m,
                            .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                            .more_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        struct epoll_event more = {.events = EPOLLIN, .data.fd = s->more_fd};
        struct exp_master_front front = {.context = s,
                                         .fd = s->epoll_fd,
                                         .take = take,
                                         .hear = hear,
                                         .checked = hear_checked,
                                         .send = send_all,
                                         .refuse = refuse_all,
                                         .deadline = deadline,
                                         .close = end};
        status = epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->more_fd, &more) != 0
                     ? ebb_fail(err, EBB_EIO, "serve: epoll: %s", strerror(errno))
                     : exp_master_set_front(m, &front, err);
        if (status != EBB_OK) {
            close(s->more_fd);
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
    while (status == EBB_OK && response->is_later) { /* a store is being tried */
        exp_master_turn(m, 50);
        serve_http_response_fini(response);
        serve_http_response_init(response);
        status = exp_master_do(m, ask, &a, &err);
    }
    if (status != EBB_OK)
        serve_http_write_error(response, 503, err.message);
}
