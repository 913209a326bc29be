/* wire.c - see wire.h. */
#include "base/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 << 10)
#define READS 4                     /* of one wire at a time */
#define SOCKET_NAME_MAX 80          /* in a directory: what stands before it fits, too */
#define OUT_MAX ((size_t)512 << 20) /* a peer that does not read is dropped */

void ebb_wire_init(struct ebb_wire *w, int fd)
{
    *w = (struct ebb_wire){.fd = fd};
}

void ebb_wire_fini(struct ebb_wire *w)
{
    if (w->fd >= 0)
        close(w->fd);
    if (w->seal != NULL)
        w->seal->destroy(w->seal_context);
    ebb_str_fini(&w->in);
    ebb_str_fini(&w->out);
    ebb_str_fini(&w->sealed);
}

static void take_in(struct ebb_wire *w, const char *bytes, size_t length)
{
    if (w->seal == NULL)
        ebb_str_addn(&w->in, bytes, length);
    else if (!w->seal->open(w->seal_context, bytes, length, &w->in) ||
             !w->seal->close(w->seal_context, NULL, 0, &w->sealed))
        w->is_broken = true;
    w->is_broken |=
        w->in.failed || w->sealed.failed; /* bytes are lost: the peer has to come again */
}

enum ebb_status ebb_wire_hear(struct ebb_wire *w, struct ebb_error *err)
{
    char buffer[READ_BYTES];
    bool is_more = true;
    for (int i = 0; is_more && i < READS; i++) {
        ssize_t n = recv(w->fd, buffer, sizeof buffer, 0);
        if (n <= 0) { /* an end is heard again, after what came before it */
            w->is_broken |= i == 0 && (n == 0 || (errno != EAGAIN && errno != EINTR));
            return EBB_OK;
        }
        w->received += (uint64_t)n;
        take_in(w, buffer, (size_t)n);
        EBB_TRY(ebb_str_status(&w->in, err));
        is_more = (size_t)n == sizeof buffer;
    }
    return EBB_OK;
}

const char *ebb_wire_at(const struct ebb_wire *w, size_t *left)
{
    *left = w->in.length - w->in_at;
    return ebb_str_c(&w->in) + w->in_at;
}

/* The room of what is dealt with is taken back when it is at least half of all. */
void ebb_wire_used(struct ebb_wire *w, size_t bytes)
{
    w->in_at += bytes;
    if (w->in_at == w->in.length) {
        ebb_str_clear(&w->in);
        w->in_at = 0;
    } else if (w->in_at > (w->in.length >> 1)) {
        w->in.length -= w->in_at;
        memmove(w->in.data, w->in.data + w->in_at, w->in.length);
        w->in_at = 0;
    }
}

void ebb_wire_say(struct ebb_wire *w, const char *text, size_t length)
{
    if (w->out.length + length > OUT_MAX)
        w->is_broken = true;
    else
        ebb_str_addn(&w->out, text, length);
    w->is_broken |= w->out.failed;
}

static void watch(struct ebb_wire *w, int epoll_fd, bool is_writing)
{
    struct epoll_event event = {.events = EPOLLIN | (is_writing ? EPOLLOUT : 0u), .data.fd = w->fd};
    if (w->is_writing != is_writing && epoll_fd >= 0)
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, w->fd, &event);
    w->is_writing = is_writing;
}

/* Send the beginning of a text; what is left stays. */
static void send_some(struct ebb_wire *w, struct ebb_str *text)
{
    size_t sent = 0;
    while (sent < text->length && !w->is_broken) {
        ssize_t n = send(w->fd, text->data + sent, text->length - sent, MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            break;
        else if (errno != EINTR)
            w->is_broken = true;
    }
    w->sent += sent;
    if (sent == text->length) {
        ebb_str_clear(text);
    } else if (sent > 0) {
        memmove(text->data, text->data + sent, text->length - sent);
        text->length -= sent;
        text->data[text->length] = '\0';
    }
}

void ebb_wire_flush(struct ebb_wire *w, int epoll_fd)
{
    if (w->seal != NULL && !w->is_broken) {
        if (w->sealed.length + w->out.length > OUT_MAX ||
            !w->seal->close(w->seal_context, w->out.data, w->out.length, &w->sealed) ||
            w->sealed.failed)
            w->is_broken = true;
        ebb_str_clear(&w->out);
    }
    send_some(w, w->seal != NULL ? &w->sealed : &w->out);
    w->committed = w->out.length;
    watch(w, epoll_fd, ebb_wire_has_out(w));
}

bool ebb_wire_has_out(const struct ebb_wire *w)
{
    return w->out.length > 0 || w->sealed.length > 0;
}

bool ebb_wire_is_over(const struct ebb_wire *w)
{
    return w->is_broken || (w->is_dead && !ebb_wire_has_out(w));
}

enum ebb_status ebb_wire_address(struct sockaddr_un *address, const char *path, int *directory,
                                 struct ebb_error *err)
{
    const char *slash = strrchr(path, '/');
    char folder[4096];
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    *directory = -1;
    int n = snprintf(address->sun_path, sizeof address->sun_path, "%s", path);
    if ((size_t)n < sizeof address->sun_path)
        return EBB_OK;
    n = snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) : 0, path);
    if (slash == NULL || (size_t)n >= sizeof folder || strlen(slash) >= SOCKET_NAME_MAX)
        return ebb_fail(err, EBB_EINPUT, "%s: the path is too long for a socket", path);
    *directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*directory < 0)
        return ebb_fail(err, EBB_EIO, "cannot open %s: %s", folder, strerror(errno));
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d%s", *directory, slash);
    return EBB_OK;
}
