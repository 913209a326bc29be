/* inner.h - the front from inside: connections, the listener, who may. Private to serve.
 *
 * Owned by the master's thread, all of it; apart.c has the only threads there are. */
#ifndef EBB_SERVE_INNER_H
#define EBB_SERVE_INNER_H

#include "base/wire.h"
#include "serve/rest.h"
#include "serve/serve.h"

#define SERVE_HASH 65 /* SHA-256 as text */

struct serve_listener; /* listen.c */
struct serve_apart;    /* apart.c */
struct serve_job;

struct serve_conn {
    struct ebb_wire wire;
    uint64_t number;   /* never given twice: what comes late finds its connection by it */
    bool is_tcp;       /* else master.sock */
    uint64_t peer;     /* TCP: whose it is, an address */
    bool is_handling;  /* bytes of this turn are not dealt with */
    bool has_more;     /* requests that wait until the answer before them has left */
    bool is_unread;    /* refused before all of its message had come */
    bool is_leaving;   /* ... and what comes is thrown away until due_ns */
    bool is_passed;    /* who sends the message at hand was looked at */
    bool has_asked;    /* some message was whole: until then all of it is a first head */
    uint64_t heard_ns; /* when it last said something */
    char *waiting;     /* target of a long poll or stream, owned */
    uint64_t wait_until_ns;
    bool is_stream, is_last; /* server-sent events; Connection: close */
    bool is_later;           /* its request waits for a store: handled again then */
    bool is_apart;           /* its answer is made by a thread */
    struct serve_job *job;   /* that thread's work, not begun: it waits for the commit; owned */
    bool is_get, is_head, wants_gzip; /* of the message at hand */
    char if_none_match[64];           /* likewise */
    char range[80];                   /* likewise */
    bool is_sending;                  /* an answer's file, in pieces: */
    int file;                         /* owned */
    int64_t file_at, file_end;
    int64_t stream_after;
    uint64_t due_ns; /* TCP: closed then; a stream: says something then */
    uint64_t moved;  /* bytes that had gone either way when due_ns was set */
    /* who asks, over TCP */
    char *user;             /* owned; NULL = the account */
    char login[SERVE_HASH]; /* hash of what proves it; "" = nothing does */
    bool is_read_only, is_cookie;
};

struct serve_link { /* of ebb ui: good once, for a minute */
    char hash[SERVE_HASH];
    char user[64];
    uint64_t until_ns;
};
#define SERVE_LINKS 16

struct serve {
    struct exp_master *m;
    int epoll_fd, more_fd; /* more_fd: readable when some connection has_more */
    struct serve_conn **conns;
    size_t conn_count, conn_capacity, tcp_count;
    uint64_t numbers;
    struct serve_listener *listener; /* NULL = only master.sock */
    struct serve_apart *apart;       /* threads that read; NULL until the first one is needed */
    struct serve_apart *slow;        /* threads that run programs; likewise */
    struct serve_link links[SERVE_LINKS];
    size_t link_next;
    double bad_logins; /* of late: forgotten at five a second */
    uint64_t bad_ns;
    uint64_t streams_ns; /* streams say nothing new before */
};

/* conn.c */
enum ebb_status serve_conn_add(struct serve *s, int take_fd, bool is_tcp, struct serve_conn **conn,
                               struct ebb_error *err);
void serve_conn_answer(struct serve_conn *c, struct serve_http_response *response);
void serve_conn_refuse(struct serve_conn *c, int status, const char *message);
struct serve *serve_of(const struct exp_master *m);

/* stream.c */
void serve_stream_begin(struct serve *s, struct serve_conn *c, const char *target,
                        struct serve_http_text last_event);
/* News that came since the last time; streams speak together and at a pace, however short turns are. */
void serve_stream_send_all(struct serve *s);
uint64_t serve_stream_due(const struct serve *s, const struct serve_conn *c);
/* A token, login or user has ended: who listens proves anew that they may, after this turn. */
void serve_stream_doubt(struct serve *s);

/* ---- apart.c: reading in threads ----
 *
 * Answers of routes that only read rows are made by threads, each with a read-only connection of its
 * own, so that no list keeps a turn waiting. Work begins after the commit of the turn that was asked:
 * it sees what was written before. */

struct serve_job { /* owned by who holds it: the connection, then a thread, then the connection's */
    struct serve_job *next;
    uint64_t conn; /* its number */
    struct exp_master_info info;
    char *method, *target, *user, *body;
    size_t body_length;
    bool is_slow, is_remote, is_read_only, wants_gzip;
    char if_none_match[64];
    struct serve_http_response response;
};

enum ebb_status serve_apart_open(const struct exp_master_info *info, struct serve_apart **apart,
                                 struct ebb_error *err);
void serve_apart_close(struct serve_apart *apart);   /* waits for what is being read */
int serve_apart_fd(const struct serve_apart *apart); /* readable: something is done */
/* false: too many wait already, and the job is still the caller's. */
bool serve_apart_add(struct serve_apart *apart, struct serve_job *take_job);
/* Nobody waits for the answer any more: what has not begun is not. apart may be NULL. */
void serve_apart_forget(struct serve_apart *apart, uint64_t conn);
struct serve_job *serve_apart_take(struct serve_apart *apart); /* what is done; NULL = no more */
/* Answers that are worth keeping, by what was asked; for its threads. apart may be NULL. */
bool serve_apart_recall(struct serve_apart *apart, const struct ebb_str *key, struct ebb_str *out);
void serve_apart_keep(struct serve_apart *apart, const struct ebb_str *key,
                      const struct ebb_str *answer);
struct serve_job *serve_job_create(const struct serve_http_request *request);
void serve_job_destroy(struct serve_job *job);

/* ---- listen.c ---- */

#define SERVE_TCP_MAX 256

int serve_listener_fd(const struct serve_listener *l);
uint64_t
serve_listener_patience(const struct serve_listener *l); /* ns, for the head of a request */
/* Everybody who waits at the door, up to the quota. */
void serve_listener_accept(struct serve *s);
void serve_listener_close(struct serve_listener *l);
const struct serve_listen *serve_listener_how(const struct serve_listener *l);
/* "http://127.0.0.1:8080/ebb/" */
const char *serve_listener_url(const struct serve_listener *l);
int serve_listener_port(const struct serve_listener *l);
bool serve_listener_is_host(const struct serve_listener *l, struct serve_http_text host);
/* When a TCP connection is to be closed, unless it moves. */
void serve_conn_wind(struct serve *s, struct serve_conn *c);

/* ---- gate.c: who may ---- */

/* Over TCP every message comes by here once its head is whole. False: refused and answered. The
 * path without base_path is left in *target. */
bool serve_gate(struct serve *s, struct serve_conn *c, const struct serve_http_message *m,
                const char *target);
/* What follows the base path ("/api/v1/..."), or NULL. */
const char *serve_gate_path(const struct serve *s, const char *target);
/* Is what proves who it is still good? */
bool serve_gate_is_known(struct serve *s, const struct serve_conn *c);
/* POST /login: makes the cookie. */
enum ebb_status serve_gate_login(struct serve *s, struct serve_conn *c, const char *body,
                                 size_t length, struct serve_http_response *response,
                                 struct ebb_error *err);
/* The secret that must come with requests that change something, of a login's hash. */
enum ebb_status serve_gate_csrf(const char *login, char csrf[SERVE_HASH], struct ebb_error *err);
void serve_gate_uncookie(const struct serve *s, struct serve_http_response *response);

/* ---- page.c: the files of the page, in the program ---- */

struct serve_file {
    const char *path; /* "app.js" */
    const char *type;
    const char *etag;
    const unsigned char *bytes; /* gzip */
    size_t length;
};
extern const struct serve_file serve_files[]; /* made by the build; ends with a path that is NULL */
void serve_page(const struct serve *s, const char *path, const struct serve_http_message *m,
                struct serve_http_response *response);

/* ---- tls.c ---- */

struct serve_tls;
enum ebb_status serve_tls_open(const char *cert, const char *key, struct serve_tls **tls,
                               struct ebb_error *err);
void serve_tls_close(struct serve_tls *tls);
bool serve_tls_is_host(const struct serve_tls *tls, const char *name);
/* false: no memory. */
bool serve_tls_wrap(struct serve_tls *tls, struct ebb_wire *wire);

/* Secrets: 32 random bytes as text, and what is kept of one. */
#define SERVE_SECRET 64
enum ebb_status serve_secret_make(const char *prefix, char secret[SERVE_SECRET],
                                  struct ebb_error *err);
enum ebb_status serve_secret_hash(const char *text, size_t length, char hash[SERVE_HASH],
                                  struct ebb_error *err);

#endif
