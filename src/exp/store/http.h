/* http.h - requests to object stores. Private to exp/store.
 *
 * One thread of its own drives every transfer (libcurl's multi interface, loaded with the first
 * request): connections are kept and shared by all who ask. Who asks waits in a thread that has
 * nothing else to do. Bodies are read from the file as they are sent and answers given away as they
 * arrive, so memory does not grow with sizes.
 *
 *  H1  What a store says is never trusted to be short, text, or true.
 *  H2  Redirects are not followed here: whoever signed the request decides.
 *      Messages with its words hold no control characters and are UTF-8.
 *  H3  A transfer slower than 1 KB/s for 60 s is broken. */
#ifndef EBB_EXP_STORE_HTTP_H
#define EBB_EXP_STORE_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

struct exp_http;

/* patience_s: of H3; 0 = 60. */
enum ebb_status exp_http_create(struct exp_http **http, int patience_s, struct ebb_error *err);
/* Nobody waits any more. NULL is fine. */
void exp_http_destroy(struct exp_http *http);

/* Bytes of an answer 200 or 206, in order, called by the transport's thread; false: stop. */
typedef bool (*exp_http_sink)(void *context, const char *bytes, size_t count);

struct exp_http_answer;
struct exp_http_request {
    const char *method; /* GET, HEAD, PUT, POST, DELETE */
    const char *url;
    const char *const *headers; /* "Name: value" */
    size_t header_count;
    bool has_body;
    const char *body; /* bytes in memory, or NULL: */
    int fd;           /* from a file, at offset */
    int64_t offset, bytes;
    exp_http_sink sink; /* NULL: the answer's body is kept in the answer */
    void *sink_context;
    /* Is an answer, of which there is the head, one of the server that is meant, not of a portal
     * before it? What is not goes past the sink. NULL: all are. */
    bool (*is_meant)(const struct exp_http_answer *answer);
    const char *authorities;        /* file of certificates; NULL = the system's */
    const atomic_bool *is_unwanted; /* becomes true: give up; or NULL */
    int timeout_ms;                 /* for all of it; 0 = as long as bytes flow */
    bool is_long; /* the server has much to do before it answers: five times the patience of H3 */
};

struct exp_http_answer {
    int status;
    struct ebb_str head; /* "name: value\n", names in lower case */
    struct ebb_str body; /* at most 4 MiB of it */
};

void exp_http_answer_init(struct exp_http_answer *answer);
void exp_http_answer_fini(struct exp_http_answer *answer);
/* The value of a header (name in lower case) in buf, cut to size; false and "": not there. */
bool exp_http_header(const struct exp_http_answer *answer, const char *name, char *buf,
                     size_t size);

/* One exchange, no second try. EBB_EIO: no answer (err says why, naming the host); EBB_EINPUT: none
 * will come (address, certificate); EBB_ECANCELED: unwanted. Any status of HTTP is EBB_OK. */
enum ebb_status exp_http_ask(struct exp_http *http, const struct exp_http_request *request,
                             struct exp_http_answer *answer, struct ebb_error *err);

/* ---- tries ---- */

enum exp_verdict {
    EXP_DONE,  /* what was wanted */
    EXP_AGAIN, /* may go better a moment later */
    EXP_OTHER, /* ask again at once, differently (another region, another host) */
    EXP_NEVER, /* err says why */
};

struct exp_store_watch;
struct exp_exchange {
    /* Fill the request: anew for each try, since signatures carry the time. EBB_EIO: what it needs
     * (a token) may be there a moment later. */
    enum ebb_status (*make)(void *context, struct exp_http_request *request, struct ebb_error *err);
    /* err is filled unless EXP_DONE: it names what was asked of whom. answer NULL: there was none,
     * and err says why. */
    enum exp_verdict (*judge)(void *context, const struct exp_http_answer *answer,
                              struct ebb_error *err);
    void *context;
    const struct exp_store_watch *watch; /* NULL: nobody calls it off */
    int tries; /* 0 = the watch's, or 5: from 0.5 s, doubled, with jitter; Retry-After is obeyed */
};

enum ebb_status exp_http_exchange(struct exp_http *http, const struct exp_exchange *x,
                                  struct exp_http_answer *answer, struct ebb_error *err);
/* For what is more than one request: the wait before the next try, `tried` (from 1) of which have
 * failed, the last with this answer. False: there is to be none. */
bool exp_http_rest(const struct exp_store_watch *watch, int tried,
                   const struct exp_http_answer *answer);
/* H1, for messages with words of a server: what is not text becomes '?'. NULL is fine. */
void exp_http_clean(struct ebb_error *err);
/* What an answer says that is none of a store's: its first words. */
#define EXP_WORDS 104
const char *exp_http_words(const struct exp_http_answer *answer, char text[EXP_WORDS]);
/* A name for messages, which leaves room for the cause: the middle of a long one is left out. */
#define EXP_SHORT 288
const char *exp_http_short(const char *name, char text[EXP_SHORT]);
/* 5xx, 429, 408: the server says that a later try may go better. */
bool exp_http_is_passing(int status);

#endif
