/* conn.c - connections to master.sock: the first byte tells a trial, which stays here, from
 * everybody else, who is the front's. What is said leaves after the turn has committed (M1). */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "exp/master/inner.h"
#include "exp/master/talk.h"

#define CONNS_MAX 1024
#define SILENT_MAX 128 /* of those: who has said nothing yet */

/* Who came and said nothing must not lock others out: the one that has been silent for longest goes.
 * False: there is none. */
static bool drop_silent(struct exp_master *m, size_t allowed)
{
    struct exp_conn *oldest = NULL;
    size_t silent = 0;
    for (size_t i = 0; i < m->conn_count; i++) {
        struct exp_conn *c = m->conns[i];
        if (c->is_trial)
            continue;
        silent++;
        if (oldest == NULL || c->since_ns < oldest->since_ns)
            oldest = c;
    }
    if (oldest == NULL || silent < allowed)
        return false;
    exp_conn_close(m, oldest);
    return true;
}

void exp_conn_accept(struct exp_master *m)
{
    for (;;) {
        int fd = accept4(m->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && drop_silent(m, 1))
            continue;
        if (fd < 0)
            return;
        (void)drop_silent(m, SILENT_MAX);
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
        ebb_wire_init(&c->wire, fd);
        c->since_ns = ebb_clock_ns();
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
        a->hello_ns = ebb_clock_ns() + (uint64_t)m->options.adopt_ms * 1000000u;
    }
    if (c->wire.fd >= 0)
        epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, c->wire.fd, NULL);
    ebb_wire_fini(&c->wire);
    ebb_free(c);
}

void exp_conns_send(struct exp_master *m)
{
    for (size_t i = m->conn_count; i-- > 0;) {
        struct exp_conn *c = m->conns[i];
        if (c->wire.out.length > 0)
            ebb_wire_flush(&c->wire, m->epoll_fd);
        if (ebb_wire_is_over(&c->wire))
            exp_conn_close(m, c);
    }
}

void exp_conns_refuse(struct exp_master *m)
{
    for (size_t i = 0; i < m->conn_count; i++) {
        m->conns[i]->wire.is_broken |= m->conns[i]->is_trial; /* it comes back */
        m->conns[i]->alloc = NULL;
    }
}

static enum ebb_status read_lines(struct exp_master *m, struct exp_conn *c, struct ebb_error *err)
{
    size_t left;
    const char *at;
    while (!c->wire.is_dead && !c->wire.is_broken &&
           (at = ebb_wire_at(&c->wire, &left), left > 0)) {
        const char *eol = memchr(at, '\n', left);
        if (eol == NULL && left <= EXP_TALK_LINE_MAX)
            return EBB_OK;
        if (eol == NULL) {
            if (c->alloc != NULL)
                exp_alloc_kill(m, c->alloc, "breaks the protocol: a line longer than 16 MiB");
            c->wire.is_broken = true;
            return EBB_OK;
        }
        EBB_TRY(exp_talk_line(m, c, at, (size_t)(eol - at), err));
        ebb_wire_used(&c->wire, (size_t)(eol - at) + 1);
    }
    return EBB_OK;
}

/* Not a trial: the descriptor and what it has said change hands. */
static enum ebb_status hand_over(struct exp_master *m, struct exp_conn *c, struct ebb_error *err)
{
    struct ebb_wire *w = &c->wire;
    if (m->front.take == NULL) {
        w->is_broken = true;
        return EBB_OK;
    }
    epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    enum ebb_status status = m->front.take(m->front.context, w->fd, w->in.data, w->in.length, err);
    w->fd = -1;
    w->is_broken = true;
    return status;
}

enum ebb_status exp_conn_readable(struct exp_master *m, struct exp_conn *c, struct ebb_error *err)
{
    EBB_TRY(ebb_wire_hear(&c->wire, err));
    if (c->wire.in.length == 0)
        return EBB_OK;
    if (!c->is_trial && c->wire.in.data[0] != '{')
        return hand_over(m, c, err);
    c->is_trial = true;
    c->wire.is_broken |= m->is_stalled; /* a trial: it tries again */
    return read_lines(m, c, err);
}
