/* wire.h - one end of a stream socket that does not block: bytes in, bytes out, both in memory.
 *
 * What is said waits in `out` until ebb_wire_flush; what was heard waits in `in` until
 * ebb_wire_used. A wire that fails in any way is `is_broken`, and its owner closes it. A seal (TLS)
 * stands between the bytes of the socket and those of `in` and `out`. */
#ifndef EBB_BASE_WIRE_H
#define EBB_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* What turns bytes of the socket into bytes of the peer, and back. */
struct ebb_wire_seal {
    /* Append what the peer said to `in`. false: the peer is none that can be talked to. */
    bool (*open)(void *context, const char *bytes, size_t length, struct ebb_str *in);
    /* Append what is to be sent for these bytes (none: what the protocol itself wants to say). */
    bool (*close)(void *context, const char *bytes, size_t length, struct ebb_str *sealed);
    void (*destroy)(void *context);
};

struct ebb_wire {
    int fd;                           /* owned; -1 = none */
    const struct ebb_wire_seal *seal; /* NULL = none */
    void *seal_context;               /* owned */
    struct ebb_str sealed;            /* on the way out, behind the seal */
    struct ebb_str in, out;
    size_t in_at;            /* bytes of `in` that are dealt with */
    size_t committed;        /* bytes of `out` that the last flush left: they are promised */
    uint64_t received, sent; /* bytes so far */
    bool is_broken;          /* to be closed at once */
    bool is_dead;            /* to be closed once `out` is sent */
    bool is_writing;         /* waits for room */
};

void ebb_wire_init(struct ebb_wire *w, int take_fd);
void ebb_wire_fini(struct ebb_wire *w);
/* Take what has arrived (a bounded part of it) into `in`. */
enum ebb_status ebb_wire_hear(struct ebb_wire *w, struct ebb_error *err);
const char *ebb_wire_at(const struct ebb_wire *w, size_t *left); /* what is not dealt with */
void ebb_wire_used(struct ebb_wire *w, size_t bytes);
/* Into `out`; a peer that does not read breaks the wire. */
void ebb_wire_say(struct ebb_wire *w, const char *text, size_t length);
/* Send what there is room for; the rest is watched in epoll_fd, where the wire is known (-1: by its
 * owner). */
void ebb_wire_flush(struct ebb_wire *w, int epoll_fd);
bool ebb_wire_has_out(const struct ebb_wire *w); /* ebb_wire_flush has something to send */
bool ebb_wire_is_over(const struct ebb_wire *w); /* time to close it */

/* The address of a Unix socket. One holds about 100 bytes: a longer path is reached through its
 * directory, which stays open meanwhile (*directory, the caller's to close; -1 = none). */
struct sockaddr_un;
enum ebb_status ebb_wire_address(struct sockaddr_un *address, const char *path, int *directory,
                                 struct ebb_error *err);

#endif
