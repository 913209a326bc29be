/* client.c - see client.h. */
#include "serve/client.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "exp/exp.h"

static enum ebb_status connect_unix(const char *state_dir, int *fd, struct ebb_error *err)
{
    struct sockaddr_un address;
    int directory;
    EBB_TRY(exp_master_address(&address, state_dir, &directory, err));
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = made < 0 ? -1 : connect(made, (struct sockaddr *)&address, sizeof address);
    int error = errno;
    if (directory >= 0)
        close(directory);
    if (result != 0) {
        if (made >= 0)
            close(made);
        return ebb_fail(err, EBB_EIO, "no master answers on %s/master.sock: %s", state_dir,
                        strerror(error));
    }
    *fd = made;
    return EBB_OK;
}

static enum ebb_status connect_tcp(const char *host, uint16_t port, int *fd, struct ebb_error *err)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    snprintf(service, sizeof service, "%u", (unsigned)port);
    int code = getaddrinfo(host, service, &hints, &list);
    if (code != 0)
        return ebb_fail(err, EBB_EIO, "no master at %s:%s: %s", host, service, gai_strerror(code));
    int made = -1, error = 0;
    for (struct addrinfo *a = list; a != NULL && made < 0; a = a->ai_next) {
        made = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (made >= 0 && connect(made, a->ai_addr, a->ai_addrlen) != 0) {
            error = errno;
            close(made);
            made = -1;
        }
    }
    freeaddrinfo(list);
    if (made < 0)
        return ebb_fail(err, EBB_EIO, "no master answers at %s:%s: %s", host, service,
                        strerror(error));
    *fd = made;
    return EBB_OK;
}

static enum ebb_status wait_for(int fd, short what, int timeout_ms, struct ebb_error *err)
{
    struct pollfd p = {.fd = fd, .events = what};
    int n;
    do
        n = poll(&p, 1, timeout_ms);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return EBB_OK;
    return ebb_fail(err, n == 0 ? EBB_ELIMIT : EBB_EIO, "the master does not answer%s%s",
                    n == 0 ? " in time" : ": ", n == 0 ? "" : strerror(errno));
}

static enum ebb_status send_all(int fd, const struct ebb_str *text, int timeout_ms,
                                struct ebb_error *err)
{
    for (size_t at = 0; at < text->length;) {
        EBB_TRY(wait_for(fd, POLLOUT, timeout_ms, err));
        ssize_t n = send(fd, text->data + at, text->length - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EPIPE)
            return EBB_OK; /* it may have answered already (413) */
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return ebb_fail(err, EBB_EIO, "cannot send to the master: %s", strerror(errno));
        at += n > 0 ? (size_t)n : 0;
    }
    return EBB_OK;
}

static enum ebb_status take_answer(const struct ebb_str *in, const struct serve_http_message *m,
                                   struct serve_http_response *response, struct ebb_error *err)
{
    const char *at = memmem(in->data, in->length, "\r\nLocation: ", 12);
    response->status = m->status;
    if (at != NULL && at < m->body) {
        size_t n = strcspn(at + 12, "\r");
        snprintf(response->location, sizeof response->location, "%.*s", (int)n, at + 12);
    }
    ebb_str_clear(&response->body);
    if (m->is_chunked)
        return serve_http_unchunk(m->body, m->body_length, &response->body, err);
    ebb_str_addn(&response->body, m->body, m->body_length);
    return ebb_str_status(&response->body, err);
}

static enum ebb_status receive(int fd, int timeout_ms, struct serve_http_response *response,
                               struct ebb_error *err)
{
    struct ebb_str in;
    struct serve_http_message m;
    char buffer[65536];
    enum ebb_status status = EBB_OK;
    ebb_str_init(&in);
    for (bool is_end = false; status == EBB_OK;) {
        enum serve_http_result result =
            serve_http_read_response(ebb_str_c(&in), in.length, is_end, &m);
        if (result == SERVE_HTTP_DONE) {
            status = take_answer(&in, &m, response, err);
            break;
        }
        if (result == SERVE_HTTP_BAD || is_end) {
            status = ebb_fail(err, EBB_EIO, "the master ended the connection without an answer");
            break;
        }
        status = wait_for(fd, POLLIN, timeout_ms, err);
        ssize_t n = status == EBB_OK ? recv(fd, buffer, sizeof buffer, 0) : 0;
        if (n < 0 && errno != EINTR)
            status = ebb_fail(err, EBB_EIO, "cannot hear the master: %s", strerror(errno));
        is_end = n == 0;
        if (n > 0)
            ebb_str_addn(&in, buffer, (size_t)n);
        if (status == EBB_OK)
            status = ebb_str_status(&in, err);
    }
    ebb_str_fini(&in);
    return status;
}

enum ebb_status serve_client_request(const struct serve_client_address *address,
                                     const struct serve_http_request *request, int timeout_ms,
                                     struct serve_http_response *response, struct ebb_error *err)
{
    int fd = -1;
    struct ebb_str out;
    EBB_TRY(address->host != NULL ? connect_tcp(address->host, address->port, &fd, err)
                                  : connect_unix(address->state_dir, &fd, err));
    ebb_str_init(&out);
    serve_http_write_request(request, address->host != NULL ? address->host : "localhost", &out);
    enum ebb_status status = ebb_str_status(&out, err);
    if (status == EBB_OK)
        status = send_all(fd, &out, timeout_ms, err);
    if (status == EBB_OK)
        status = receive(fd, timeout_ms, response, err);
    ebb_str_fini(&out);
    close(fd);
    return status;
}
