/* listen.c - the door to the network: its address, its quota, its patience.
 *
 * Off loopback it opens with TLS or behind a proxy only: tokens must not travel in the clear. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h"
#include "serve/inner.h"

#define HEAD_MS 10000 /* for the head of a request */
#define IDLE_MS 60000 /* in which nothing moves */
#define ACCEPTS 64    /* in one turn */

struct serve_listener {
    int fd, port;
    bool is_loopback;
    char name[256]; /* as it was given, without the port and brackets */
    char base[128]; /* "/", "/ebb/" */
    char url[512];
    const char **hosts; /* owned, each */
    size_t host_count;
    uint64_t head_ns, idle_ns;
    struct serve_tls *tls; /* NULL = none */
    struct serve_listen how;
};

int serve_listener_fd(const struct serve_listener *l)
{
    return l->fd;
}

uint64_t serve_listener_patience(const struct serve_listener *l)
{
    return l->head_ns;
}

const struct serve_listen *serve_listener_how(const struct serve_listener *l)
{
    return &l->how;
}

const char *serve_listener_url(const struct serve_listener *l)
{
    return l->url;
}

int serve_listener_port(const struct serve_listener *l)
{
    return l->port;
}

void serve_listener_close(struct serve_listener *l)
{
    if (l == NULL)
        return;
    if (l->fd >= 0)
        close(l->fd);
    for (size_t i = 0; i < l->host_count; i++)
        ebb_free((char *)l->hosts[i]);
    ebb_free(l->hosts);
    serve_tls_close(l->tls);
    ebb_free(l);
}

/* ---- opening ---- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in a;
        memcpy(&a, address, sizeof a);
        return ntohl(a.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 a;
    memcpy(&a, address, sizeof a);
    return IN6_IS_ADDR_LOOPBACK(&a.sin6_addr);
}

/* "HOST:PORT", "[ADDRESS]:PORT", "PORT" */
static enum ebb_status split(const char *text, char host[256], char port[16], struct ebb_error *err)
{
    const char *colon = strrchr(text, ':'), *end = colon;
    const char *digits = colon != NULL ? colon + 1 : text;
    int64_t number;
    bool has_brackets = text[0] == '[' && colon != NULL && colon > text && colon[-1] == ']';
    if (has_brackets) {
        text++;
        end--;
    }
    size_t n = end != NULL ? (size_t)(end - text) : 0;
    if (!ebb_parse_i64(digits, &number) || number < 0 || number > 65535 || n >= 256 ||
        (colon != NULL && n == 0) || (!has_brackets && memchr(text, ':', n) != NULL))
        return ebb_fail(
            err, EBB_EINPUT,
            "listen: found '%s', allowed: ADDRESS:PORT, as 127.0.0.1:8080 or [::1]:8080", text);
    snprintf(host, 256, "%.*s", (int)n, n > 0 ? text : "");
    if (n == 0)
        snprintf(host, 256, "127.0.0.1");
    snprintf(port, 16, "%d", (int)number);
    return EBB_OK;
}

static enum ebb_status refuse_bare(const char *listen_text, struct ebb_error *err)
{
    return ebb_fail(
        err, EBB_EINPUT,
        "listen: %s can be reached from other machines, and without TLS tokens would travel in the "
        "clear. Give --tls-cert FILE --tls-key FILE; or --behind-proxy where a proxy in front of "
        "it "
        "speaks TLS; or listen on 127.0.0.1 and reach that through ssh -L",
        listen_text);
}

static enum ebb_status bind_to(struct serve_listener *l, const struct addrinfo *found,
                               struct ebb_error *err)
{
    struct sockaddr_storage own = {0};
    socklen_t length = sizeof own;
    int one = 1;
    l->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd >= 0)
        setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (l->fd < 0 || bind(l->fd, found->ai_addr, found->ai_addrlen) != 0 ||
        listen(l->fd, 512) != 0 || getsockname(l->fd, (struct sockaddr *)&own, &length) != 0)
        return ebb_fail(err, EBB_EIO, "cannot listen on %s: %s", l->how.listen, strerror(errno));
    in_port_t port = 0;
    if (own.ss_family == AF_INET6)
        memcpy(&port, (char *)&own + offsetof(struct sockaddr_in6, sin6_port), sizeof port);
    else
        memcpy(&port, (char *)&own + offsetof(struct sockaddr_in, sin_port), sizeof port);
    l->port = ntohs(port);
    return EBB_OK;
}

static enum ebb_status open_socket(struct serve_listener *l, struct ebb_error *err)
{
    char port[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    EBB_TRY(split(l->how.listen, l->name, port, err));
    int code = getaddrinfo(l->name, port, &hints, &found);
    if (code != 0)
        return ebb_fail(err, EBB_EINPUT, "listen: '%s' is no address of this machine: %s", l->name,
                        gai_strerror(code));
    l->is_loopback = is_loopback(found->ai_addr);
    enum ebb_status status = EBB_OK;
    if (!l->is_loopback && l->how.tls_cert == NULL && !l->how.is_behind_proxy)
        status = refuse_bare(l->how.listen, err);
    EBB_THEN(status, bind_to(l, found, err));
    freeaddrinfo(found);
    return status;
}

/* "/", "/ebb/": begins and ends with a slash. */
static enum ebb_status set_base(struct serve_listener *l, struct ebb_error *err)
{
    const char *text = l->how.base_path != NULL ? l->how.base_path : "/";
    size_t n = strlen(text);
    bool is_good = text[0] == '/' && n < sizeof l->base - 1 && strstr(text, "//") == NULL &&
                   strstr(text, "..") == NULL;
    for (size_t i = 0; i < n; i++)
        is_good =
            is_good && ((text[i] >= 'a' && text[i] <= 'z') || strchr("/-_.~", text[i]) ||
                        (text[i] >= 'A' && text[i] <= 'Z') || (text[i] >= '0' && text[i] <= '9'));
    if (!is_good)
        return ebb_fail(err, EBB_EINPUT,
                        "base_path: found '%s', allowed: a path that begins with /, as /ebb/",
                        text);
    snprintf(l->base, sizeof l->base, "%s%s", text, text[n - 1] == '/' ? "" : "/");
    return EBB_OK;
}

/* Every address of the machine: loopback is one of them. */
static bool is_any_address(const char *name)
{
    return strcmp(name, "0.0.0.0") == 0 || strcmp(name, "::") == 0;
}

static void set_url(struct serve_listener *l)
{
    const char *host = l->name;
    if (l->host_count > 0)
        host = l->hosts[0];
    else if (is_any_address(host))
        host = "localhost";
    bool is_v6 = strchr(host, ':') != NULL,
         is_proxied = l->how.is_behind_proxy && l->host_count > 0;
    int n = snprintf(l->url, sizeof l->url, "%s://%s%s%s",
                     l->tls != NULL || is_proxied ? "https" : "http", is_v6 ? "[" : "", host,
                     is_v6 ? "]" : "");
    if (!is_proxied) /* its port is not ours to know */
        n += snprintf(l->url + n, sizeof l->url - (size_t)n, ":%d", l->port);
    snprintf(l->url + n, sizeof l->url - (size_t)n, "%s", l->base);
}

static enum ebb_status copy_hosts(struct serve_listener *l, struct ebb_error *err)
{
    EBB_TRY(ebb_new(&l->hosts, l->how.host_count + 1, sizeof *l->hosts, err));
    for (size_t i = 0; i < l->how.host_count; i++) {
        char *copy = NULL;
        EBB_TRY(ebb_copy_text(&copy, l->how.hosts[i], err));
        l->hosts[l->host_count++] = copy;
    }
    return EBB_OK;
}

enum ebb_status serve_listen(struct exp_master *m, const struct serve_listen *how,
                             struct ebb_error *err)
{
    struct serve *s = serve_of(m);
    struct serve_listener *l;
    EBB_TRY(ebb_new(&l, 1, sizeof *l, err));
    l->fd = -1;
    l->how = *how;
    l->head_ns = (uint64_t)(how->head_ms > 0 ? how->head_ms : HEAD_MS) * 1000000u;
    l->idle_ns = (uint64_t)(how->idle_ms > 0 ? how->idle_ms : IDLE_MS) * 1000000u;
    enum ebb_status status = EBB_OK;
    if ((how->tls_cert == NULL) != (how->tls_key == NULL))
        status = ebb_fail(err, EBB_EINPUT, "tls_cert and tls_key: give both, or none");
    EBB_THEN(status, copy_hosts(l, err));
    EBB_THEN(status, set_base(l, err));
    if (status == EBB_OK && how->tls_cert != NULL)
        status = serve_tls_open(how->tls_cert, how->tls_key, &l->tls, err);
    EBB_THEN(status, open_socket(l, err));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = l->fd};
    if (status == EBB_OK && epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, l->fd, &event) != 0)
        status = ebb_fail(err, EBB_EIO, "serve: epoll: %s", strerror(errno));
    if (status != EBB_OK) {
        serve_listener_close(l);
        return status;
    }
    set_url(l);
    l->how = (struct serve_listen){.listen = l->name,
                                   .base_path = l->base,
                                   .is_behind_proxy = how->is_behind_proxy,
                                   .tls_cert =
                                       l->tls != NULL ? "" : NULL}; /* the caller's texts may go */
    s->listener = l;
    return EBB_OK;
}

const char *serve_url(const struct exp_master *m)
{
    const struct serve *s = serve_of(m);
    return s->listener != NULL ? serve_listener_url(s->listener) : NULL;
}

/* ---- who may be meant ---- */

static bool is_loopback_name(const char *name)
{
    struct in_addr v4;
    return strcasecmp(name, "localhost") == 0 || strcmp(name, "::1") == 0 ||
           (inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

bool serve_listener_is_host(const struct serve_listener *l, struct serve_http_text host)
{
    char name[256];
    int64_t port = l->tls != NULL ? 443 : 80;
    if (host.at == NULL || host.length == 0 || host.length >= sizeof name)
        return false;
    memcpy(name, host.at, host.length);
    name[host.length] = '\0';
    char *start = name, *bracket = strchr(name, ']'), *colon = strrchr(name, ':');
    if (colon != NULL && (bracket == NULL || colon > bracket)) {
        *colon = '\0';
        if (!ebb_parse_i64(colon + 1, &port))
            return false;
    }
    if (name[0] == '[' && bracket != NULL) {
        start++;
        *bracket = '\0';
    }
    for (size_t i = 0; i < l->host_count; i++)
        if (strcasecmp(l->hosts[i], start) == 0)
            return true; /* at whatever port the proxy has */
    if (port != l->port)
        return false;
    return ((l->is_loopback || is_any_address(l->name)) && is_loopback_name(start)) ||
           strcasecmp(l->name, start) == 0 || (l->tls != NULL && serve_tls_is_host(l->tls, start));
}

/* ---- connections ---- */

void serve_conn_wind(struct serve *s, struct serve_conn *c)
{
    uint64_t now = exp_master_info(s->m).now_ns, moved = c->wire.received + c->wire.sent;
    size_t left;
    (void)ebb_wire_at(&c->wire, &left);
    bool is_free = c->waiting != NULL || c->is_apart || c->is_later; /* it waits for us */
    if (c->is_stream)
        return;
    bool is_head = !c->is_passed || c->user == NULL; /* a stranger's body has no more time */
    if (!c->has_asked && is_head) { /* handshake and head: no byte makes them last */
        c->moved = moved;
        return;
    }
    if (is_free) {
        c->due_ns = UINT64_MAX;
    } else if (left > 0 && is_head) { /* a head that has begun: no byte makes it last */
        if (c->due_ns == UINT64_MAX || c->due_ns > now + s->listener->head_ns)
            c->due_ns = now + s->listener->head_ns;
    } else if (c->due_ns == UINT64_MAX || moved != c->moved) {
        c->due_ns = now + s->listener->idle_ns;
    }
    c->moved = moved;
}

static void turn_away(int fd)
{
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                               "Retry-After: 5\r\nConnection: close\r\n\r\n";
    (void)!send(fd, busy, sizeof busy - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

/* Who is one party at the other end: an address, of IPv6 the network that somebody has whole. */
static uint64_t peer_of(const struct sockaddr_storage *from)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    uint64_t network;
    uint32_t address;
    if (from->ss_family == AF_INET) {
        memcpy(&v4, from, sizeof v4);
        return v4.sin_addr.s_addr;
    }
    memcpy(&v6, from, sizeof v6);
    memcpy(&network, v6.sin6_addr.s6_addr, sizeof network);
    memcpy(&address, v6.sin6_addr.s6_addr + 12, sizeof address);
    return IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) ? address : network;
}

/* Strangers who have had their answer and are on their way out, or those who may say something yet. */
static size_t list_strangers(const struct serve *s, bool is_answered,
                             struct serve_conn *list[SERVE_TCP_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < s->conn_count; i++) {
        struct serve_conn *c = s->conns[i];
        if (c->is_tcp && c->user == NULL && !c->wire.is_broken &&
            (c->wire.is_dead || c->is_leaving) == is_answered && count < SERVE_TCP_MAX)
            list[count++] = c;
    }
    return count;
}

/* When all places are taken, a stranger goes, one who has been answered if there is one: of those of
 * the peer who has most of them, the one who has been there for longest. However many come from one
 * address, those of others keep the time they have to say who they are. From as many addresses as
 * there are places a crowd takes all of them, and then whoever came first goes first. False:
 * everybody is known. */
static bool make_place(struct serve *s)
{
    struct serve_conn *list[SERVE_TCP_MAX], *first = NULL;
    size_t count = list_strangers(s, true, list), most = 0;
    if (count == 0)
        count = list_strangers(s, false, list);
    for (size_t i = 0; i < count; i++) {
        size_t places = most;
        if (first == NULL || list[i]->peer != first->peer) {
            places = 0;
            for (size_t k = 0; k < count; k++)
                places += list[k]->peer == list[i]->peer;
        }
        if (places > most || (places == most && list[i]->number < first->number)) {
            first = list[i];
            most = places;
        }
    }
    if (first != NULL)
        first->wire.is_broken = true; /* closed with this turn */
    return first != NULL;
}

void serve_listener_accept(struct serve *s)
{
    struct serve_listener *l = s->listener;
    struct ebb_error err;
    for (int i = 0; i < ACCEPTS; i++) {
        struct serve_conn *c = NULL;
        struct sockaddr_storage from = {0};
        socklen_t length = sizeof from;
        int one = 1,
            fd = accept4(l->fd, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (s->tcp_count >= SERVE_TCP_MAX && !make_place(s)) {
            turn_away(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (serve_conn_add(s, fd, true, &c, &err) != EBB_OK)
            continue;
        c->peer = peer_of(&from);
        c->due_ns = exp_master_info(s->m).now_ns + l->head_ns;
        if (l->tls != NULL && !serve_tls_wrap(l->tls, &c->wire))
            c->wire.is_broken = true;
    }
}
