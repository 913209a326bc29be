/* rest.h - routes and what their handlers share. Private to exp/master.
 *
 * A handler returns EBB_OK with an answer, also when the answer is an error of the request
 * (exp_rest_refuse); it has written nothing then. Any other status means that the turn has failed.
 */
#ifndef EBB_EXP_MASTER_REST_H
#define EBB_EXP_MASTER_REST_H

#include "exp/master/inner.h"

struct exp_rest { /* one request */
    struct exp_master *m;
    const struct exp_http_request *request;
    struct exp_http_response *response;
    struct ebb_json_writer w; /* of the body */
    struct ebb_arena *arena;
    const struct ebb_doc_node *body; /* a mapping, or NULL */
    int64_t id;                      /* number in the path */
    const char *name;                /* text in the path */
    char bad[160];                   /* a query value that is none; the answer becomes 400 */
    struct ebb_error *err;
};

typedef enum ebb_status (*exp_rest_handler)(struct exp_rest *r);

struct exp_rest_route {
    const char *method;
    const char *path; /* "/experiments/#/trials": # a number, * a text */
    exp_rest_handler handler;
    const char *text; /* one line of description */
};

extern const struct exp_rest_route exp_rest_routes[];
extern const size_t exp_rest_route_count;

enum ebb_status exp_rest_refuse(struct exp_rest *r, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Query parameters. Text lives in the request's arena; NULL = absent. */
const char *exp_rest_text(struct exp_rest *r, const char *name);
/* What is no number, or below min, makes the answer a 400. For requests that change nothing. */
int64_t exp_rest_int(struct exp_rest *r, const char *name, int64_t fallback, int64_t min);
void exp_rest_bad(struct exp_rest *r, const char *name, const char *found, const char *allowed);

/* {"key": [one object per row]}; the rows are done with. */
enum ebb_status exp_rest_write_rows(struct exp_rest *r, const char *key, struct exp_db_rows *rows,
                                    void (*write)(struct ebb_json_writer *w,
                                                  const struct exp_db_rows *row));

/* Handlers, by file. */
enum ebb_status exp_rest_submit(struct exp_rest *r);
enum ebb_status exp_rest_preview_search(struct exp_rest *r);
/* submit_body.c; *is_bad: refused. */
enum ebb_status exp_submit_check_body(struct exp_rest *r, bool *is_bad);
enum ebb_status exp_submit_check_paths(struct exp_rest *r, const struct exp_store_file *files,
                                       size_t count, bool *is_bad);

enum ebb_status exp_rest_list_experiments(struct exp_rest *r);
enum ebb_status exp_rest_get_experiment(struct exp_rest *r);
enum ebb_status exp_rest_patch_experiment(struct exp_rest *r);
enum ebb_status exp_rest_act_experiment(struct exp_rest *r);
enum ebb_status exp_rest_delete_experiment(struct exp_rest *r);
/* The object as JSON into r->w; *is_there false: none. */
enum ebb_status exp_rest_write_experiment(struct exp_rest *r, int64_t id, bool is_whole,
                                          bool *is_there);

enum ebb_status exp_rest_model_def(struct exp_rest *r);
enum ebb_status exp_rest_file_tree(struct exp_rest *r);
enum ebb_status exp_rest_file(struct exp_rest *r);

enum ebb_status exp_rest_list_trials(struct exp_rest *r);
enum ebb_status exp_rest_get_trial(struct exp_rest *r);
enum ebb_status exp_rest_workloads(struct exp_rest *r);
enum ebb_status exp_rest_logs(struct exp_rest *r);
enum ebb_status exp_rest_kill_trial(struct exp_rest *r);

enum ebb_status exp_rest_history(struct exp_rest *r);
enum ebb_status exp_rest_metric_names(struct exp_rest *r);
enum ebb_status exp_rest_sample(struct exp_rest *r);
enum ebb_status exp_rest_snapshot(struct exp_rest *r);
enum ebb_status exp_rest_time_series(struct exp_rest *r);

enum ebb_status exp_rest_list_checkpoints(struct exp_rest *r);
enum ebb_status exp_rest_get_checkpoint(struct exp_rest *r);
enum ebb_status exp_rest_delete_checkpoint(struct exp_rest *r);
enum ebb_status exp_rest_preview_gc(struct exp_rest *r);

enum ebb_status exp_rest_list_templates(struct exp_rest *r);
enum ebb_status exp_rest_get_template(struct exp_rest *r);
enum ebb_status exp_rest_put_template(struct exp_rest *r);
enum ebb_status exp_rest_delete_template(struct exp_rest *r);

enum ebb_status exp_rest_list_users(struct exp_rest *r);
enum ebb_status exp_rest_create_user(struct exp_rest *r);
enum ebb_status exp_rest_get_user(struct exp_rest *r);
enum ebb_status exp_rest_patch_user(struct exp_rest *r);
enum ebb_status exp_rest_me(struct exp_rest *r);
/* Whoever asks must be known and active; *is_bad: refused. */
enum ebb_status exp_rest_check_user(struct exp_rest *r, bool *is_bad);
const char *exp_rest_user(const struct exp_rest *r); /* in whose name */

enum ebb_status exp_rest_tasks(struct exp_rest *r);
enum ebb_status exp_rest_task(struct exp_rest *r);
enum ebb_status exp_rest_agents(struct exp_rest *r);
enum ebb_status exp_rest_agent(struct exp_rest *r);
enum ebb_status exp_rest_patch_agent(struct exp_rest *r);
enum ebb_status exp_rest_slot(struct exp_rest *r);
enum ebb_status exp_rest_events(struct exp_rest *r);
enum ebb_status exp_rest_master(struct exp_rest *r);
enum ebb_status exp_rest_master_config(struct exp_rest *r);
enum ebb_status exp_rest_master_logs(struct exp_rest *r);
/* The checkpoint_storage of files that name none. */
enum ebb_status exp_rest_site_storage(struct exp_rest *r, const struct ebb_doc_node **node);

#endif
