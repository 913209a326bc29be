/* http.h - HTTP/1.1 messages as values, their reader and writer.
 *
 * The same structs are handled in process (serve_request) and travel over its
 * socket, so a caller writes its requests once. The reader takes any bytes: it wants more, has a
 * whole message, or says with which status the peer is to be refused. */
#ifndef EBB_SERVE_HTTP_H
#define EBB_SERVE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

#define SERVE_HTTP_HEAD_MAX ((size_t)16 << 10) /* request line and header fields */
#define SERVE_HTTP_BODY_MAX                                                                        \
    ((size_t)160 << 20) /* 95 MiB of model definition, in base64, and more */

struct serve_http_request {
    const char *method; /* "GET", "POST", "PATCH", "DELETE" */
    const char *target; /* path and query: "/api/v1/experiments?limit=10"; the prefix may be left
                           out */
    const char *body;   /* JSON, or NULL */
    size_t body_length;
    const char *user;  /* in whose name; unknown or inactive: 401, 403. NULL = the account of the
                         master's process. Travels as header X-Ebb-User, through the socket only */
    bool is_remote;    /* came over TCP: what makes users and tokens is refused */
    bool is_read_only; /* its token may only read */
    const char *login; /* hash of the cookie that carried it, or NULL */
    const char *range; /* of bytes, as asked for; NULL = all */
};

struct serve_http_response {
    int status;               /* 200, 201, 204, 400, 404, 409, ... */
    const char *content_type; /* borrowed, constant */
    struct ebb_str body;      /* owned */
    bool has_file;            /* instead of the body: bytes of a file, sent in pieces */
    int file;                 /* owned */
    int64_t file_at, file_bytes;
    bool takes_range;       /* a part of it may be asked for */
    char content_range[80]; /* Content-Range, else "" */
    char location[160];     /* Location of a 201, else "" */
    char disposition[160];  /* Content-Disposition, else "" */
    char cookie[256];       /* Set-Cookie, else "" */
    char etag[40];          /* with its quotes, else "" */
    bool is_packed;         /* the body is compressed (gzip) */
    bool is_later;          /* not answered yet: the request is to be handled again */
    bool is_kept;           /* may be kept by who asks, and asked for again by its ETag */
};

void serve_http_response_init(struct serve_http_response *response);
void serve_http_response_fini(struct serve_http_response *response);

/* ---- reading ---- */

enum serve_http_result {
    SERVE_HTTP_MORE, /* not complete yet */
    SERVE_HTTP_DONE, /* message filled; `used` bytes belong to it */
    SERVE_HTTP_BAD,  /* refuse with `status` */
};

struct serve_http_text { /* part of the bytes given; at NULL = absent */
    const char *at;
    size_t length;
};

struct serve_http_message { /* pointers into the bytes given, or NULL */
    const char *method, *target;
    size_t method_length, target_length;
    int status; /* of the refusal when BAD */
    const char *body;
    size_t body_length;
    size_t used;
    size_t head_length; /* MORE: > 0 once the head is whole, and all below is known */
    bool wants_close;
    bool wants_stream;  /* Accept: text/event-stream */
    bool wants_gzip;    /* Accept-Encoding */
    bool is_chunked;    /* body is in pieces: serve_http_join makes it whole */
    bool wants_promise; /* Expect: 100-continue */
    const char *user;   /* X-Ebb-User, percent-encoded; NULL = absent */
    size_t user_length;
    struct serve_http_text host, authorization, cookie, origin, csrf, if_none_match, last_event,
        range;
};

enum serve_http_result serve_http_read_request(const char *bytes, size_t length,
                                               struct serve_http_message *message);

/* A body in pieces, of a message that is DONE, put together. */
void serve_http_join(const struct serve_http_message *message, struct ebb_str *out);
bool serve_http_is(struct serve_http_text text, const char *word);
/* Value of a cookie; at NULL = absent. */
struct serve_http_text serve_http_cookie(struct serve_http_text cookies, const char *name);

/* ---- writing ---- */

enum serve_http_manner {
    SERVE_HTTP_CLOSE = 1u << 0, /* the last answer of its connection */
    SERVE_HTTP_HEAD = 1u << 1,  /* without the body */
    SERVE_HTTP_GUARD = 1u << 2, /* for browsers: what they may do with it */
};
void serve_http_write_response(const struct serve_http_response *response, unsigned manners,
                               struct ebb_str *out);
/* The fields that guard a browser; each ends its line. */
extern const char serve_http_guards[];
/* Compress the body when that is worth it; what fails leaves it as it is. */
void serve_http_pack(struct serve_http_response *response);
/* An ETag made of the body; true: it is the one that is asked for, and the answer becomes 304. */
bool serve_http_tag(struct serve_http_response *response, struct serve_http_text if_none_match);
const char *serve_http_reason(int status);
/* What was wrong with a message that is BAD. */
const char *serve_http_complaint(int status);
/* {"error": {"code", "reason", "message"}} with that status. */
void serve_http_write_error(struct serve_http_response *response, int status, const char *message);

/* ---- targets ---- */

/* Value of a query parameter, decoded; NULL = absent. Owned by the caller (ebb_free). */
char *serve_http_query(const char *target, const char *name);
/* The same of a parameter that stands there several times: of the one with that index. */
char *serve_http_query_at(const char *target, const char *name, size_t index);
/* Percent signs undone; in queries '+' is a blank. Owned by the caller; NULL: no memory. */
char *serve_http_decode(const char *text, size_t length, bool is_query);
/* Append `text` percent-encoded as one path segment or query value. */
void serve_http_escape(struct ebb_str *out, const char *text);

#endif
