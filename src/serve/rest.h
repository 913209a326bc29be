/* rest.h - routes and what their handlers share. Private to serve.
 *
 * A handler returns EBB_OK with an answer, also when the answer is an error of the request
 * (serve_rest_refuse); it has written nothing then. Any other status means that the turn has failed.
 */
#ifndef EBB_SERVE_REST_H
#define EBB_SERVE_REST_H

#include "exp/master/inner.h"
#include "serve/serve.h"

struct serve_rest { /* one request */
    struct exp_master *m;
    const struct serve_http_request *request;
    struct serve_http_response *response;
    struct ebb_json_writer w; /* of the body */
    struct ebb_arena *arena;
    const struct ebb_doc_node *body; /* a mapping, or NULL */
    int64_t id;                      /* number in the path */
    const char *name;                /* text in the path */
    char bad[160];                   /* a query value that is none; the answer becomes 400 */
    struct ebb_error *err;
};

typedef enum ebb_status (*serve_rest_handler)(struct serve_rest *r);

struct serve_rest_route {
    const char *method;
    const char *path; /* "/experiments/#/trials": # a number, * a text */
    serve_rest_handler handler;
    const char *text; /* one line of description */
};

extern const struct serve_rest_route serve_rest_routes[];
extern const size_t serve_rest_route_count;

enum ebb_status serve_rest_refuse(struct serve_rest *r, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Query parameters. Text lives in the request's arena; NULL = absent. */
const char *serve_rest_text(struct serve_rest *r, const char *name);
/* What is no number, or below min, makes the answer a 400. For requests that change nothing. */
int64_t serve_rest_int(struct serve_rest *r, const char *name, int64_t fallback, int64_t min);
void serve_rest_bad(struct serve_rest *r, const char *name, const char *found, const char *allowed);

/* {"key": [one object per row]}; the rows are done with. */
enum ebb_status
serve_rest_write_rows(struct serve_rest *r, const char *key, struct exp_db_rows *rows,
                      void (*write)(struct ebb_json_writer *w, const struct exp_db_rows *row));

/* Handlers, by file. */
enum ebb_status serve_rest_submit(struct serve_rest *r);
enum ebb_status serve_rest_preview_search(struct serve_rest *r);
/* submit_body.c; *is_bad: refused. */
enum ebb_status serve_submit_check_body(struct serve_rest *r, bool *is_bad);
enum ebb_status serve_submit_check_paths(struct serve_rest *r, const struct exp_store_file *files,
                                         size_t count, bool *is_bad);

enum ebb_status serve_rest_list_experiments(struct serve_rest *r);
enum ebb_status serve_rest_get_experiment(struct serve_rest *r);
enum ebb_status serve_rest_patch_experiment(struct serve_rest *r);
enum ebb_status serve_rest_act_experiment(struct serve_rest *r);
enum ebb_status serve_rest_delete_experiment(struct serve_rest *r);
/* The object as JSON into r->w; *is_there false: none. */
enum ebb_status serve_rest_write_experiment(struct serve_rest *r, int64_t id, bool is_whole,
                                            bool *is_there);

enum ebb_status serve_rest_model_def(struct serve_rest *r);
enum ebb_status serve_rest_file_tree(struct serve_rest *r);
enum ebb_status serve_rest_file(struct serve_rest *r);

enum ebb_status serve_rest_list_trials(struct serve_rest *r);
enum ebb_status serve_rest_get_trial(struct serve_rest *r);
enum ebb_status serve_rest_workloads(struct serve_rest *r);
enum ebb_status serve_rest_logs(struct serve_rest *r);
enum ebb_status serve_rest_kill_trial(struct serve_rest *r);

enum ebb_status serve_rest_history(struct serve_rest *r);
enum ebb_status serve_rest_metric_names(struct serve_rest *r);
enum ebb_status serve_rest_sample(struct serve_rest *r);
enum ebb_status serve_rest_snapshot(struct serve_rest *r);
enum ebb_status serve_rest_time_series(struct serve_rest *r);

enum ebb_status serve_rest_list_checkpoints(struct serve_rest *r);
enum ebb_status serve_rest_get_checkpoint(struct serve_rest *r);
enum ebb_status serve_rest_delete_checkpoint(struct serve_rest *r);
enum ebb_status serve_rest_preview_gc(struct serve_rest *r);

enum ebb_status serve_rest_list_templates(struct serve_rest *r);
enum ebb_status serve_rest_get_template(struct serve_rest *r);
enum ebb_status serve_rest_put_template(struct serve_rest *r);
enum ebb_status serve_rest_delete_template(struct serve_rest *r);

enum ebb_status serve_rest_list_users(struct serve_rest *r);
enum ebb_status serve_rest_create_user(struct serve_rest *r);
enum ebb_status serve_rest_get_user(struct serve_rest *r);
enum ebb_status serve_rest_patch_user(struct serve_rest *r);
enum ebb_status serve_rest_me(struct serve_rest *r);
/* Whoever asks must be known and active; *is_bad: refused. */
enum ebb_status serve_rest_check_user(struct serve_rest *r, bool *is_bad);
const char *serve_rest_user(const struct serve_rest *r); /* in whose name */

enum ebb_status serve_rest_tasks(struct serve_rest *r);
enum ebb_status serve_rest_task(struct serve_rest *r);
enum ebb_status serve_rest_agents(struct serve_rest *r);
enum ebb_status serve_rest_agent(struct serve_rest *r);
enum ebb_status serve_rest_patch_agent(struct serve_rest *r);
enum ebb_status serve_rest_slot(struct serve_rest *r);
enum ebb_status serve_rest_events(struct serve_rest *r);
enum ebb_status serve_rest_master(struct serve_rest *r);
enum ebb_status serve_rest_master_config(struct serve_rest *r);
enum ebb_status serve_rest_master_logs(struct serve_rest *r);
/* The checkpoint_storage of files that name none. */
enum ebb_status serve_rest_site_storage(struct serve_rest *r, const struct ebb_doc_node **node);

/* The master is stalled, and this is not the question whether it is. */
bool serve_rest_must_wait(const struct exp_master *m, const struct serve_http_request *request);
/* EBB_OK: response filled, also with an error of the request. Otherwise the turn has failed. */
enum ebb_status serve_rest_handle(struct exp_master *m, const struct serve_http_request *request,
                                  struct serve_http_response *response, struct ebb_error *err);

#endif
