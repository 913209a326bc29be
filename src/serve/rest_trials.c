/* rest_trials.c - trials: listing, showing, their work. */
#include <math.h>
#include <string.h>

#include "serve/rest.h"

#define AT(member) offsetof(struct exp_db_trial_shown, member)
static const struct serve_column columns[] = {
    {"id", SERVE_INT, AT(id), 0},
    {"experiment_id", SERVE_INT, AT(experiment_id), 0},
    {"request_id", SERVE_TEXT, AT(request_id), 0},
    {"state", SERVE_TEXT, AT(state), 0},
    {"start_time", SERVE_TIME, AT(start_time), 0},
    {"end_time", SERVE_TIME, AT(end_time), 0},
    {"hparams", SERVE_RAW, AT(hparams), 0},
    {"seed", SERVE_INT, AT(seed), 0},
    {"restarts", SERVE_INT, AT(restarts), 0},
    {"steps", SERVE_INT, AT(steps), 0},
    {"best_validation", SERVE_METRIC, AT(best_signed), AT(smaller_is_better)},
    {"best_step_id", SERVE_INT, AT(best_step_id), 0},
    {"latest_validation", SERVE_METRIC, AT(latest_signed), AT(smaller_is_better)},
    {"warm_start_checkpoint", SERVE_TEXT, AT(warm_start), 0},
    {"message", SERVE_TEXT, AT(message), 0},
};

/* What only memory knows: slots, process, why it waits. */
static void write_live(struct ebb_json_writer *w, const struct exp_master_trial *t)
{
    ebb_jsonw_key_string(w, "waiting", t->is_asking ? t->waiting : NULL);
    serve_key_int(w, "target_steps", t->target_steps, t->target_steps > 0);
    ebb_jsonw_key(w, "loss");
    if (isnan(t->loss) || t->id == 0)
        ebb_jsonw_null(w);
    else
        ebb_jsonw_metric(w, t->loss);
    ebb_jsonw_key_array(w, "slots");
    if (t->has_process)
        ebb_jsonw_int(w, t->slot);
    ebb_jsonw_array_end(w);
    serve_key_int(w, "pid", t->pid, t->pid > 0);
}

static void write_trial(struct serve_rest *r, const struct exp_db_trial_shown *row)
{
    struct exp_master_trial t = {0};
    ebb_jsonw_object(&r->w);
    serve_write_row(&r->w, SERVE_COLUMNS(columns), row);
    if (r->m != NULL) {
        (void)exp_master_trial(r->m, row->id, &t);
        write_live(&r->w, &t);
    }
    ebb_jsonw_object_end(&r->w);
}

/* The same keys, but best_step_id, of one that has no row yet. */
static void write_pending(struct ebb_json_writer *w, const struct exp_master_trial *t)
{
    static const char *const nulls[] = {"best_validation", "latest_validation",
                                        "warm_start_checkpoint", "message"};
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "id", NULL);
    ebb_jsonw_key_int(w, "experiment_id", t->experiment_id);
    ebb_jsonw_key_string(w, "request_id", t->request);
    ebb_jsonw_key_string(w, "state", "PENDING");
    ebb_jsonw_key_string(w, "start_time", NULL);
    ebb_jsonw_key_string(w, "end_time", NULL);
    serve_key_raw(w, "hparams", t->hparams);
    ebb_jsonw_key_int(w, "seed", t->seed);
    ebb_jsonw_key_int(w, "restarts", 0);
    ebb_jsonw_key_int(w, "steps", 0);
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        ebb_jsonw_key_string(w, nulls[i], NULL);
    write_live(w, t);
    ebb_jsonw_object_end(w);
}

/* A page of those that have rows. */
static enum ebb_status list_page(struct serve_rest *r)
{
    struct exp_db_trial_shown row;
    struct serve_page_of page = {0};
    EBB_TRY(serve_trials_page(r, &page));
    serve_begin_list(r, "trials");
    for (size_t i = 0; i < page.count; i++) {
        bool is_there = false;
        EBB_TRY(exp_db_only(exp_db_trial_show(r->db, EXP_DB_ID(page.ids[i]), &row, r->err),
                            r->arena, &is_there));
        if (is_there)
            write_trial(r, &row);
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_array(&r->w, "values");
    for (size_t i = 0; i < page.count; i++)
        if (isnan(page.values[i]))
            ebb_jsonw_null(&r->w);
        else
            ebb_jsonw_metric(&r->w, page.values[i]);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_int(&r->w, "total", page.total);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status list(struct serve_rest *r)
{
    struct exp_db_trial_shown row;
    struct exp_master_trial t;
    if (serve_query_text(r, "limit") != NULL)
        return list_page(r);
    EBB_TRY(exp_master_need(r->m, r->id, r->err));
    EBB_TRY(exp_master_flush(r->m, r->err));
    EBB_TRY(serve_need_experiment(r, r->id));
    serve_begin_list(r, "trials");
    struct exp_db_cursor c = exp_db_trials_show(r->db, EXP_DB_ID(r->id), &row, r->err);
    while (exp_db_fetch(&c))
        write_trial(r, &row);
    for (size_t at = 0; exp_master_pending(r->m, r->id, &at, &t);)
        write_pending(&r->w, &t);
    serve_end_list(r);
    return exp_db_end(&c);
}

static enum ebb_status get(struct serve_rest *r)
{
    struct exp_db_trial_shown row;
    EBB_TRY(exp_master_flush(r->m, r->err));
    EBB_TRY(serve_find(r, exp_db_trial_show(r->db, EXP_DB_ID(r->id), &row, r->err), "no trial %lld",
                       (long long)r->id));
    write_trial(r, &row);
    return EBB_OK;
}

static enum ebb_status kill(struct serve_rest *r)
{
    struct exp_master_trial t = {0};
    EBB_TRY(serve_need_trial(r, r->id));
    if (!exp_master_trial(r->m, r->id, &t) || !t.has_process)
        return serve_refuse(r, 409, "trial %lld has no process", (long long)r->id);
    exp_master_kill_trial(r->m, r->id, "was killed by the user");
    return get(r);
}

/* ---- workloads ---- */

/* Metrics of a step, with the list of its batches when that is asked for. */
static enum ebb_status write_metrics(struct serve_rest *r, const struct exp_db_workload *row,
                                     bool has_batches)
{
    struct exp_db_step_id at = {r->id, row->id};
    struct exp_db_name batches = {0};
    size_t n = row->metrics != NULL ? strlen(row->metrics) : 0;
    if (has_batches && n > 0)
        EBB_TRY(exp_db_only(exp_db_batches_read(r->db, &at, &batches, r->err), r->arena, NULL));
    if (batches.name == NULL) {
        serve_key_raw(&r->w, "metrics", row->metrics);
        return EBB_OK;
    }
    struct ebb_str whole = {0};
    ebb_str_addn(&whole, row->metrics, n - 1); /* without the brace at its end */
    ebb_str_printf(&whole, "%s\"batch_metrics\": %s}", n > 2 ? ", " : "", batches.name);
    serve_key_raw(&r->w, "metrics", ebb_str_c(&whole));
    enum ebb_status status = ebb_str_status(&whole, r->err);
    ebb_str_fini(&whole);
    return status;
}

static void write_part(struct ebb_json_writer *w, const char *state, double start, double end)
{
    ebb_jsonw_key_string(w, "state", state);
    serve_key_time(w, "start_time", start);
    serve_key_time(w, "end_time", end);
}

/* What a process is doing now has no row yet. */
static void write_active(struct ebb_json_writer *w, const struct exp_master_trial *t)
{
    write_part(w, "ACTIVE", t->work_time, 0);
    ebb_jsonw_key_string(w, "metrics", NULL);
}

static void write_validation(struct ebb_json_writer *w, const struct exp_db_workload *row,
                             const struct exp_master_trial *t)
{
    bool is_active = t->is_busy && t->work == EXP_WORK_VALIDATE && t->work_step == row->id;
    ebb_jsonw_key(w, "validation");
    if (row->v_state == NULL && !is_active) {
        ebb_jsonw_null(w);
        return;
    }
    ebb_jsonw_object(w);
    if (row->v_state == NULL) {
        write_active(w, t);
    } else {
        write_part(w, row->v_state, row->v_start_time, row->v_end_time);
        serve_key_raw(w, "metrics", row->v_metrics);
    }
    ebb_jsonw_object_end(w);
}

static void write_checkpoint(struct ebb_json_writer *w, const struct exp_db_workload *row)
{
    ebb_jsonw_key(w, "checkpoint");
    if (row->c_state == NULL) {
        ebb_jsonw_null(w);
        return;
    }
    ebb_jsonw_object(w);
    write_part(w, row->c_state, row->c_start_time, row->c_end_time);
    ebb_jsonw_key_string(w, "uuid", row->c_uuid);
    ebb_jsonw_key_int(w, "size", row->c_size != EXP_DB_NO_INT ? row->c_size : 0);
    ebb_jsonw_object_end(w);
}

static enum ebb_status write_workload(struct serve_rest *r, const struct exp_db_workload *row,
                                      const struct exp_master_trial *t, bool has_batches)
{
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_int(&r->w, "step_id", row->id);
    write_part(&r->w, row->state, row->start_time, row->end_time);
    EBB_TRY(write_metrics(r, row, has_batches));
    write_validation(&r->w, row, t);
    write_checkpoint(&r->w, row);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

/* A page of those that have rows, the newest first. */
static enum ebb_status workloads_page(struct serve_rest *r, bool has_batches)
{
    struct exp_db_workload row;
    struct exp_master_trial nothing = {0};
    struct exp_db_id total = {0};
    const char *has = serve_query_text(r, "has");
    bool has_checkpoint = has != NULL && strcmp(has, "checkpoint") == 0,
         has_validation = has != NULL && strcmp(has, "validation") == 0;
    struct exp_db_workload_kind kind = {r->id, has_checkpoint, has_validation};
    struct exp_db_workload_range range = {.trial_id = r->id,
                                          .has_checkpoint = has_checkpoint,
                                          .has_validation = has_validation,
                                          .limit = serve_query_int(r, "limit", 100, 0),
                                          .offset = serve_query_int(r, "offset", 0, 0)};
    if (has != NULL && has[0] != '\0' && !has_checkpoint && !has_validation)
        serve_query_bad(r, "has", has, "checkpoint or validation");
    serve_begin_list(r, "workloads");
    struct exp_db_cursor c = exp_db_workloads_page(r->db, &range, &row, r->err);
    while (exp_db_fetch(&c))
        c.status = write_workload(r, &row, &nothing, has_batches);
    ebb_jsonw_array_end(&r->w);
    EBB_TRY(exp_db_end(&c));
    EBB_TRY(exp_db_only(exp_db_workloads_count(r->db, &kind, &total, r->err), NULL, NULL));
    ebb_jsonw_key_int(&r->w, "total", total.id);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status workloads(struct serve_rest *r)
{
    struct exp_db_workload row;
    struct exp_master_trial t = {0};
    bool has_batches = serve_query_int(r, "batches", 0, 0) != 0;
    EBB_TRY(serve_need_trial(r, r->id));
    if (serve_query_text(r, "limit") != NULL)
        return workloads_page(r, has_batches);
    (void)exp_master_trial(r->m, r->id, &t);
    serve_begin_list(r, "workloads");
    struct exp_db_cursor c = exp_db_workloads(r->db, EXP_DB_ID(r->id), &row, r->err);
    while (exp_db_fetch(&c))
        c.status = write_workload(r, &row, &t, has_batches);
    if (t.is_busy && t.work == EXP_WORK_TRAIN) {
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_int(&r->w, "step_id", t.work_step);
        write_active(&r->w, &t);
        ebb_jsonw_key_string(&r->w, "validation", NULL);
        ebb_jsonw_key_string(&r->w, "checkpoint", NULL);
        ebb_jsonw_object_end(&r->w);
    }
    serve_end_list(r);
    return exp_db_end(&c);
}

/* ---- all of its work in a few numbers ---- */

struct summary {
    double work[3], time[4];
    int64_t checkpoints, checkpoint_bytes;
    struct ebb_str first, last; /* metrics that tell of memory: with the timeline, and the newest */
};
static const char *const work_names[] = {"training", "validation", "checkpoints"};
static const char *const time_names[] = {"kernels", "recomputation", "copies", "data"};

static double span(double start, double end)
{
    return end > start && start > 0 ? end - start : 0;
}

/* Only built-in trials tell of resources. */
static void add_resources(struct summary *s, const char *metrics)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root = NULL;
    if (metrics == NULL || strstr(metrics, "\"resources\"") == NULL)
        return;
    if (ebb_doc_parse_json(&arena, "metrics", metrics, strlen(metrics), &root, NULL) == EBB_OK) {
        const struct ebb_doc_node *told = ebb_doc_get(root, "resources");
        const struct ebb_doc_node *time = ebb_doc_get(told, "time");
        for (size_t i = 0; time != NULL && i < 4; i++)
            s->time[i] += ebb_doc_double(time, time_names[i], 0);
        struct ebb_str *keep =
            ebb_doc_get(ebb_doc_get(told, "memory"), "timeline") != NULL ? &s->first : &s->last;
        ebb_str_clear(keep);
        ebb_str_add(keep, metrics);
    }
    ebb_arena_fini(&arena);
}

static void add_workload(struct summary *s, const struct exp_db_workload *row)
{
    s->work[0] += span(row->start_time, row->end_time);
    if (row->v_state != NULL)
        s->work[1] += span(row->v_start_time, row->v_end_time);
    if (row->c_state != NULL)
        s->work[2] += span(row->c_start_time, row->c_end_time);
    if (row->c_state != NULL && strcmp(row->c_state, "COMPLETED") == 0) {
        s->checkpoints++;
        s->checkpoint_bytes += row->c_size != EXP_DB_NO_INT ? row->c_size : 0;
    }
    add_resources(s, row->metrics);
}

static enum ebb_status write_memory(struct serve_rest *r, const char *key,
                                    const struct ebb_str *metrics)
{
    const struct ebb_doc_node *root = NULL, *memory = NULL;
    if (metrics->length > 0) {
        EBB_TRY(ebb_doc_parse_json(r->arena, "metrics", ebb_str_c(metrics), metrics->length, &root,
                                   r->err));
        memory = ebb_doc_get(ebb_doc_get(root, "resources"), "memory");
    }
    if (memory != NULL)
        ebb_doc_write_key(memory, &r->w, key);
    else
        ebb_jsonw_key_string(&r->w, key, NULL);
    return EBB_OK;
}

static enum ebb_status write_summary(struct serve_rest *r, const struct summary *s)
{
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_object(&r->w, "work");
    for (size_t i = 0; i < 3; i++)
        ebb_jsonw_key_double(&r->w, work_names[i], s->work[i]);
    ebb_jsonw_object_end(&r->w);
    ebb_jsonw_key_object(&r->w, "time");
    for (size_t i = 0; i < 4; i++)
        ebb_jsonw_key_double(&r->w, time_names[i], s->time[i]);
    ebb_jsonw_object_end(&r->w);
    ebb_jsonw_key_int(&r->w, "checkpoints", s->checkpoints);
    ebb_jsonw_key_int(&r->w, "checkpoint_bytes", s->checkpoint_bytes);
    EBB_TRY(write_memory(r, "memory", s->last.length > 0 ? &s->last : &s->first));
    EBB_TRY(write_memory(r, "first", &s->first));
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status summary(struct serve_rest *r)
{
    struct exp_db_workload row;
    struct summary s = {0};
    EBB_TRY(serve_flush(r));
    EBB_TRY(serve_need_trial(r, r->id));
    struct exp_db_cursor c = exp_db_workloads(r->db, EXP_DB_ID(r->id), &row, r->err);
    while (exp_db_fetch(&c))
        add_workload(&s, &row);
    enum ebb_status status = exp_db_end(&c);
    EBB_THEN(status, ebb_str_status(&s.first, r->err));
    EBB_THEN(status, ebb_str_status(&s.last, r->err));
    EBB_THEN(status, write_summary(r, &s));
    ebb_str_fini(&s.first);
    ebb_str_fini(&s.last);
    return status;
}

static const struct serve_route routes[] = {
    {"GET", "/experiments/#/trials", list, "trials of an experiment", SERVE_PAGED},
    {"GET", "/trials/#", get, "one trial", 0},
    {"GET", "/trials/#/workloads", workloads, "its steps, validations, checkpoints", SERVE_PAGED},
    {"GET", "/trials/#/summary", summary, "where its time and memory went", SERVE_APART},
    {"POST", "/trials/#/kill", kill, "kill its process", 0},
};
const struct serve_routes serve_routes_trials = SERVE_ROUTES(routes);
