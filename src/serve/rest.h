/* rest.h - routes and what their handlers share. Private to serve.
 *
 * A handler ends with EBB_OK and an answer, or with SERVE_REFUSED and an error of the request in its
 * place; any other status means that the turn has failed. To add a route: a row, and its handler, in
 * the rest_*.c of its noun; its line in docs/rest.md. */
#ifndef EBB_SERVE_REST_H
#define EBB_SERVE_REST_H

#include "base/doc.h"
#include "serve/serve.h"

struct serve_rest {       /* one request */
    struct exp_master *m; /* NULL: a thread reads, and knows nothing but rows */
    struct exp_master_info info;
    struct exp_db *db;
    struct serve_apart *apart; /* whose thread it is; NULL = none */
    const struct serve_http_request *request;
    struct serve_http_response *response;
    struct ebb_json_writer w; /* of the body */
    struct ebb_arena *arena;
    const struct ebb_doc_node *body; /* a mapping, or NULL */
    int64_t id;                      /* number in the path */
    const char *name;                /* text in the path */
    const char *rest;                /* what follows it, slashes included: ** */
    char bad[160];                   /* a query value that is none; the answer becomes 400 */
    struct ebb_error *err;
};

struct serve_route {
    const char *method;
    const char *path; /* "/experiments/#/trials": # a number, * a text */
    enum ebb_status (*handler)(struct serve_rest *r);
    const char *text; /* one line of description */
    unsigned flags;
};

enum serve_route_flag {
    SERVE_LOCAL = 1u << 0,  /* through master.sock only: whoever may use that has the account */
    SERVE_READS = 1u << 1,  /* not a GET, and changes nothing: for tokens that may only read, too */
    SERVE_APART = 1u << 2,  /* only reads rows: a thread may answer, with m NULL */
    SERVE_PAGED = 1u << 4,  /* SERVE_APART when a page is asked for (limit=) at once */
    SERVE_WAITS = 1u << 6,  /* over TCP SERVE_APART when all of it is asked for at once, too */
    SERVE_SLOW = 1u << 5,   /* runs a program, computes long: by threads of its own, with m NULL */
    SERVE_PROVES = 1u << 3, /* about the login itself: read-only ones may end theirs */
};

struct serve_routes { /* those of a file */
    const struct serve_route *rows;
    size_t count;
};
#define SERVE_ROUTES(list)                                                                         \
    {                                                                                              \
        (list), sizeof(list) / sizeof(list)[0]                                                     \
    }

extern const struct serve_routes serve_routes_checkpoints, serve_routes_cluster,
    serve_routes_compare, serve_routes_curves, serve_routes_explain, serve_routes_experiments,
    serve_routes_logs, serve_routes_master, serve_routes_metrics, serve_routes_model,
    serve_routes_submit, serve_routes_table, serve_routes_templates, serve_routes_tokens,
    serve_routes_trials, serve_routes_users;

/* Over all files; NULL = there are no more. */
const struct serve_route *serve_route_at(size_t index);

/* The master is stalled, and this is not the question whether it is. */
bool serve_rest_must_wait(const struct exp_master *m, const struct serve_http_request *request);
/* SERVE_REFUSED and why: who asks is nobody who may. */
enum ebb_status serve_rest_greet(struct exp_master *m, const struct serve_http_request *request,
                                 struct serve_http_response *response, struct ebb_error *err);
/* EBB_OK: response filled, also with an error of the request. Otherwise the turn has failed. */
enum ebb_status serve_rest_handle(struct exp_master *m, const struct serve_http_request *request,
                                  struct serve_http_response *response, struct ebb_error *err);
/* The same by a thread, of a route that is SERVE_APART. */
enum ebb_status serve_rest_read(struct exp_db *db, struct serve_apart *apart,
                                const struct exp_master_info *info,
                                const struct serve_http_request *request,
                                struct serve_http_response *response, struct ebb_error *err);
/* May a token that only reads ask this at all? What there is no route for is answered as such. */
bool serve_rest_may(const struct serve_http_request *request);
/* SERVE_APART or SERVE_SLOW where threads answer; 0: the turn does. */
unsigned serve_rest_is_apart(const struct serve_http_request *request);
bool serve_rest_is_events(const struct serve_http_request *request); /* GET /events */
/* Rows say what memory says; a thread reads after a commit, when they do. */
enum ebb_status serve_flush(struct serve_rest *r);

/* ---- refusing ---- */

#define SERVE_REFUSED EBB_ECANCELED /* the answer says why; nothing was changed */

/* Returns SERVE_REFUSED. */
enum ebb_status serve_refuse(struct serve_rest *r, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* What went wrong with something of the request: out of memory fails the turn, the rest is refused
 * with this HTTP status and `where` before the message. */
enum ebb_status serve_blame(struct serve_rest *r, enum ebb_status status,
                            const struct ebb_error *why, int http_status, const char *where);
/* The only row of a query, its texts in the arena; without one 404 and the message. */
enum ebb_status serve_find(struct serve_rest *r, struct exp_db_cursor cursor, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* 404 unless it is there. */
enum ebb_status serve_need_experiment(struct serve_rest *r, int64_t id);
enum ebb_status serve_need_trial(struct serve_rest *r, int64_t id);
/* Whoever asks must be known and active. */
enum ebb_status serve_need_user(struct serve_rest *r);
const char *serve_user(const struct serve_rest *r); /* in whose name */

/* ---- query parameters: for requests that change nothing ---- */

/* Text lives in the request's arena; NULL = absent. */
const char *serve_query_text(struct serve_rest *r, const char *name);
/* What is no number, or below min, makes the answer a 400. */
int64_t serve_query_int(struct serve_rest *r, const char *name, int64_t fallback, int64_t min);
double serve_query_double(struct serve_rest *r, const char *name, double fallback);
void serve_query_bad(struct serve_rest *r, const char *name, const char *found,
                     const char *allowed);

/* ---- answers are columns of rows ---- */

enum serve_as {
    SERVE_INT,    /* int64_t; null = null */
    SERVE_COUNT,  /* int64_t; null = 0 */
    SERVE_BOOL,   /* bool */
    SERVE_DOUBLE, /* double; NaN = null */
    SERVE_TIME,   /* double, Unix */
    SERVE_TEXT,   /* const char * */
    SERVE_RAW,    /* const char *, JSON already; NULL = null */
    SERVE_METRIC, /* double, signed as smaller_is_better (at `sense`) has it; NaN = null */
};

struct serve_column {
    const char *key;
    enum serve_as as;
    size_t at, sense; /* offsets in the row */
};

#define SERVE_COLUMNS(list) (list), sizeof(list) / sizeof(list)[0]

/* Members of an object that is open. */
void serve_write_row(struct ebb_json_writer *w, const struct serve_column *columns, size_t count,
                     const void *row);
/* The whole object. */
void serve_write_object(struct ebb_json_writer *w, const struct serve_column *columns, size_t count,
                        const void *row);
/* {"key": [an object for each row]}: a whole answer. */
enum ebb_status serve_write_list(struct serve_rest *r, const char *key,
                                 const struct serve_column *columns, size_t count,
                                 struct exp_db_cursor cursor);
/* The first row as the answer; 404 "no NOUN NAME" when there is none. */
enum ebb_status serve_write_one(struct serve_rest *r, const struct serve_column *columns,
                                size_t count, struct exp_db_cursor cursor, const char *noun,
                                const char *name);
/* A member that is a number, or null when `is` is false. */
void serve_key_int(struct ebb_json_writer *w, const char *key, int64_t value, bool is);
void serve_key_raw(struct ebb_json_writer *w, const char *key, const char *json); /* NULL = null */
void serve_key_time(struct ebb_json_writer *w, const char *key, double time);
void serve_begin_list(struct serve_rest *r, const char *key); /* {"key": [ */
void serve_end_list(struct serve_rest *r);                    /* ]} */

/* ---- shared by files ---- */

/* rest_table.c: a page of trials, as limit, offset, sort, state and metric of the query ask. */
struct serve_page_of {
    int64_t *ids;
    double *values; /* of the metric; NaN = none */
    size_t count;
    int64_t total; /* of all pages */
};
enum ebb_status serve_trials_page(struct serve_rest *r, struct serve_page_of *page);

/* submit_body.c */
enum ebb_status serve_submit_check_body(struct serve_rest *r);
enum ebb_status serve_submit_check_paths(struct serve_rest *r, const struct exp_store_file *files,
                                         size_t count);
/* submit_secrets.c: the text of a configuration, with the secrets of experiment `parent` (0: there is
 * none) in place of "********"; in the arena. layer: the template below it, or NULL. */
enum ebb_status serve_submit_reveal(struct serve_rest *r, int64_t parent,
                                    const struct ebb_doc_node *layer,
                                    const struct ebb_doc_node **text);
/* The same with the secrets of a template as it is stored; old NULL: it is new. */
enum ebb_status serve_template_reveal(struct serve_rest *r, const struct exp_db_template *old,
                                      const struct ebb_doc_node **text);
/* A template as it is shown: its secrets masked, if it has any. */
enum ebb_status serve_template_hide(struct serve_rest *r, struct exp_db_template *row);
/* submit.c: the checkpoint_storage of files that name none. */
enum ebb_status serve_site_storage(struct serve_rest *r, const struct ebb_doc_node **node);

#endif
