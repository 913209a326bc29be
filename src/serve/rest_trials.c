/* rest_trials.c - trials: listing, showing, their work, their logs. */
#include <string.h>

#include "serve/rest.h"

#define COLUMNS                                                                                    \
    "t.id, t.experiment_id, t.request_id, t.state, t.start_time, t.end_time, t.hparams, t.seed,"   \
    " t.restarts, t.steps, t.best_signed, t.latest_signed, t.warm_start, t.message,"               \
    " e.smaller_is_better, t.best_step_id"
#define FROM " FROM trials t JOIN experiments e ON e.id = t.experiment_id"

static void key_time(struct ebb_json_writer *w, const char *key, double value)
{
    ebb_jsonw_key(w, key);
    exp_time_write(w, value);
}

static void key_metric(struct ebb_json_writer *w, const char *key, const struct exp_db_rows *rows,
                       int column, bool is_smaller)
{
    ebb_jsonw_key(w, key);
    if (exp_db_is_null(rows, column))
        ebb_jsonw_null(w);
    else
        exp_metric_write(w, exp_metric_unsigned(exp_db_double(rows, column), is_smaller));
}

static struct exp_trial *find_trial(const struct exp_master *m, int64_t id)
{
    uint64_t pointer;
    return ebb_map_get(&m->trials, (uint64_t)id, &pointer) ? (struct exp_trial *)(uintptr_t)pointer
                                                           : NULL;
}

/* What only memory knows: slots, process, why it waits. */
static void write_live(struct ebb_json_writer *w, const struct exp_trial *r)
{
    bool has_alloc = r != NULL && r->alloc != NULL;
    bool is_waiting = r != NULL && !has_alloc && r->is_asking;
    ebb_jsonw_key_string(w, "waiting", is_waiting ? exp_sched_wait_text(r->wait) : NULL);
    ebb_jsonw_key(w, "slots");
    ebb_jsonw_array(w);
    if (has_alloc)
        ebb_jsonw_int(w, r->alloc->slot);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key(w, "pid");
    if (has_alloc && r->alloc->proc.pid > 0)
        ebb_jsonw_int(w, r->alloc->proc.pid);
    else
        ebb_jsonw_null(w);
}

static void write_row(struct serve_rest *r, const struct exp_db_rows *rows)
{
    struct ebb_json_writer *w = &r->w;
    const char *hparams = exp_db_text(rows, 6);
    bool is_smaller = exp_db_int(rows, 14) != 0;
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "id", exp_db_int(rows, 0));
    ebb_jsonw_key_int(w, "experiment_id", exp_db_int(rows, 1));
    ebb_jsonw_key_string(w, "request_id", exp_db_text(rows, 2));
    ebb_jsonw_key_string(w, "state", exp_db_text(rows, 3));
    key_time(w, "start_time", exp_db_double(rows, 4));
    key_time(w, "end_time", exp_db_double(rows, 5));
    ebb_jsonw_key(w, "hparams");
    exp_json_raw(w, hparams, strlen(hparams));
    ebb_jsonw_key_int(w, "seed", exp_db_int(rows, 7));
    ebb_jsonw_key_int(w, "restarts", exp_db_int(rows, 8));
    ebb_jsonw_key_int(w, "steps", exp_db_int(rows, 9));
    key_metric(w, "best_validation", rows, 10, is_smaller);
    ebb_jsonw_key(w, "best_step_id");
    if (exp_db_is_null(rows, 15))
        ebb_jsonw_null(w);
    else
        ebb_jsonw_int(w, exp_db_int(rows, 15));
    key_metric(w, "latest_validation", rows, 11, is_smaller);
    ebb_jsonw_key_string(w, "warm_start_checkpoint", exp_db_text(rows, 12));
    ebb_jsonw_key_string(w, "message", exp_db_text(rows, 13));
    write_live(w, find_trial(r->m, exp_db_int(rows, 0)));
    ebb_jsonw_object_end(w);
}

static void write_pending(struct ebb_json_writer *w, const struct exp_trial *run)
{
    static const char *const nulls[] = {"best_validation", "latest_validation",
                                        "warm_start_checkpoint", "message"};
    char request[EXP_REQUEST_TEXT];
    ebb_jsonw_object(w);
    ebb_jsonw_key(w, "id");
    ebb_jsonw_null(w);
    ebb_jsonw_key_int(w, "experiment_id", run->experiment->id);
    ebb_jsonw_key_string(w, "request_id", exp_request_format(run->request, request));
    ebb_jsonw_key_string(w, "state", "PENDING");
    key_time(w, "start_time", 0);
    key_time(w, "end_time", 0);
    ebb_jsonw_key(w, "hparams");
    if (run->hparams != NULL)
        exp_json_raw(w, run->hparams, strlen(run->hparams));
    else
        ebb_jsonw_null(w);
    ebb_jsonw_key_int(w, "seed", run->seed);
    ebb_jsonw_key_int(w, "restarts", 0);
    ebb_jsonw_key_int(w, "steps", 0);
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        ebb_jsonw_key_string(w, nulls[i], NULL);
    write_live(w, run);
    ebb_jsonw_object_end(w);
}

enum ebb_status serve_rest_list_trials(struct serve_rest *r)
{
    struct exp_db_rows rows;
    bool has_row = true;
    int64_t count = 0;
    const struct exp_experiment *e = exp_experiment_find(r->m, r->id);
    EBB_TRY(exp_rows_flush(r->m, r->err));
    EBB_TRY(exp_db_number(r->m->db, "SELECT COUNT(*) FROM experiments WHERE id = $1",
                          EXP_DB_ARGS(exp_db_i(r->id)), 0, &count, r->err));
    if (count == 0)
        return serve_rest_refuse(r, 404, "no experiment %lld", (long long)r->id);
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT " COLUMNS FROM " WHERE t.experiment_id = $1 ORDER BY t.id",
                         EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "trials");
    ebb_jsonw_array(&r->w);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        write_row(r, &rows);
    }
    exp_db_done(&rows);
    for (size_t i = 0; e != NULL && i < e->trial_count; i++)
        if (e->trials[i] != NULL && e->trials[i]->id == 0)
            write_pending(&r->w, e->trials[i]);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return status;
}

enum ebb_status serve_rest_get_trial(struct serve_rest *r)
{
    struct exp_db_rows rows;
    bool has_row = false;
    EBB_TRY(exp_rows_flush(r->m, r->err));
    EBB_TRY(exp_db_query(r->m->db, "SELECT " COLUMNS FROM " WHERE t.id = $1",
                         EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && has_row)
        write_row(r, &rows);
    exp_db_done(&rows);
    if (status == EBB_OK && !has_row)
        return serve_rest_refuse(r, 404, "no trial %lld", (long long)r->id);
    return status;
}

static enum ebb_status is_there(struct serve_rest *r, bool *found)
{
    int64_t count = 0;
    EBB_TRY(exp_db_number(r->m->db, "SELECT COUNT(*) FROM trials WHERE id = $1",
                          EXP_DB_ARGS(exp_db_i(r->id)), 0, &count, r->err));
    *found = count > 0;
    return *found ? EBB_OK : serve_rest_refuse(r, 404, "no trial %lld", (long long)r->id);
}

/* ---- workloads ---- */

static void write_part(struct ebb_json_writer *w, const struct exp_db_rows *rows, int column,
                       const char *metrics)
{
    ebb_jsonw_key_string(w, "state", exp_db_text(rows, column));
    key_time(w, "start_time", exp_db_double(rows, column + 1));
    key_time(w, "end_time", exp_db_double(rows, column + 2));
    if (metrics != NULL) {
        ebb_jsonw_key(w, "metrics");
        exp_json_raw(w, metrics, strlen(metrics));
    }
}

/* Metrics of a step, the list of batches left out unless asked for. */
static enum ebb_status step_metrics(struct serve_rest *r, const char *text, bool has_batches,
                                    struct ebb_str *out)
{
    const struct ebb_doc_node *root = NULL;
    struct ebb_json_writer w;
    ebb_str_clear(out);
    if (text == NULL || has_batches) {
        ebb_str_add(out, text != NULL ? text : "null");
        return ebb_str_status(out, r->err);
    }
    EBB_TRY(ebb_doc_parse_json(r->arena, "metrics", text, strlen(text), &root, r->err));
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    for (size_t i = 0; i < root->count; i++)
        if (strcmp(root->keys[i]->text, "batch_metrics") != 0) {
            ebb_jsonw_key(&w, root->keys[i]->text);
            ebb_doc_write_json(root->items[i], &w);
        }
    ebb_jsonw_object_end(&w);
    return ebb_str_status(out, r->err);
}

/* What a process is doing now has no row yet. */
static const struct exp_alloc *find_work(const struct exp_trial *run, enum exp_workload_kind kind,
                                         int64_t step)
{
    const struct exp_sequence *q = run != NULL ? &run->sequence : NULL;
    return q != NULL && run->alloc != NULL && run->alloc->proc.pid != 0 && q->is_busy &&
                   q->work.kind == kind && (step == 0 || q->work.step == step)
               ? run->alloc
               : NULL;
}

static void write_active(struct ebb_json_writer *w, const struct exp_alloc *a)
{
    ebb_jsonw_key_string(w, "state", "ACTIVE");
    key_time(w, "start_time", a->run_time);
    key_time(w, "end_time", 0);
    ebb_jsonw_key(w, "metrics");
    ebb_jsonw_null(w);
}

static void write_active_step(struct ebb_json_writer *w, const struct exp_alloc *a)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "step_id", a->trial->sequence.work.step);
    write_active(w, a);
    ebb_jsonw_key(w, "validation");
    ebb_jsonw_null(w);
    ebb_jsonw_key(w, "checkpoint");
    ebb_jsonw_null(w);
    ebb_jsonw_object_end(w);
}

static enum ebb_status write_workload(struct serve_rest *r, const struct exp_db_rows *rows,
                                      bool has_batches, struct ebb_str *metrics)
{
    struct ebb_json_writer *w = &r->w;
    EBB_TRY(step_metrics(r, exp_db_text(rows, 4), has_batches, metrics));
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "step_id", exp_db_int(rows, 0));
    write_part(w, rows, 1, ebb_str_c(metrics));
    ebb_jsonw_key(w, "validation");
    const struct exp_alloc *a =
        find_work(find_trial(r->m, r->id), EXP_WORK_VALIDATE, exp_db_int(rows, 0));
    if (exp_db_is_null(rows, 5) && a != NULL) {
        ebb_jsonw_object(w);
        write_active(w, a);
        ebb_jsonw_object_end(w);
    } else if (exp_db_is_null(rows, 5)) {
        ebb_jsonw_null(w);
    } else {
        const char *text = exp_db_text(rows, 8);
        ebb_jsonw_object(w);
        write_part(w, rows, 5, text != NULL ? text : "null");
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_key(w, "checkpoint");
    if (exp_db_is_null(rows, 9)) {
        ebb_jsonw_null(w);
    } else {
        ebb_jsonw_object(w);
        write_part(w, rows, 9, NULL);
        ebb_jsonw_key_string(w, "uuid", exp_db_text(rows, 12));
        ebb_jsonw_key_int(w, "size", exp_db_int(rows, 13));
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_object_end(w);
    return EBB_OK;
}

enum ebb_status serve_rest_workloads(struct serve_rest *r)
{
    struct exp_db_rows rows;
    struct ebb_str metrics;
    bool found, has_row = true, has_batches = serve_rest_int(r, "batches", 0, 0) != 0;
    EBB_TRY(is_there(r, &found));
    if (!found)
        return EBB_OK;
    EBB_TRY(exp_db_query(
        r->m->db,
        "SELECT s.id, s.state, s.start_time, s.end_time, s.metrics, v.state, v.start_time,"
        " v.end_time, v.metrics, c.state, c.start_time, c.end_time, c.uuid, c.size FROM steps s"
        " LEFT JOIN validations v ON v.trial_id = s.trial_id AND v.step_id = s.id"
        " LEFT JOIN checkpoints c ON c.trial_id = s.trial_id AND c.step_id = s.id"
        " WHERE s.trial_id = $1 ORDER BY s.id",
        EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    ebb_str_init(&metrics);
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "workloads");
    ebb_jsonw_array(&r->w);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        status = write_workload(r, &rows, has_batches, &metrics);
    }
    const struct exp_alloc *a = find_work(find_trial(r->m, r->id), EXP_WORK_TRAIN, 0);
    if (a != NULL)
        write_active_step(&r->w, a);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    ebb_str_fini(&metrics);
    exp_db_done(&rows);
    return status;
}

/* ---- logs ---- */

/* Bytes as text: what is not UTF-8 becomes U+FFFD. */
static void write_bytes(struct ebb_json_writer *w, struct ebb_str *scratch, const char *data,
                        size_t length)
{
    ebb_str_clear(scratch);
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)data[i];
        size_t n = c < 0x80                ? 1
                   : c >= 0xc2 && c < 0xe0 ? 2
                   : c >= 0xe0 && c < 0xf0 ? 3
                   : c >= 0xf0 && c < 0xf5 ? 4
                                           : 0;
        bool is_ok = n > 0 && i + n <= length;
        for (size_t k = 1; is_ok && k < n; k++)
            is_ok = ((unsigned char)data[i + k] & 0xc0) == 0x80;
        if (is_ok && n == 3)
            is_ok = !(c == 0xe0 && (unsigned char)data[i + 1] < 0xa0) &&
                    !(c == 0xed && (unsigned char)data[i + 1] >= 0xa0);
        if (is_ok && n == 4)
            is_ok = !(c == 0xf0 && (unsigned char)data[i + 1] < 0x90) &&
                    !(c == 0xf4 && (unsigned char)data[i + 1] >= 0x90);
        if (is_ok)
            ebb_str_addn(scratch, data + i, n);
        else
            ebb_str_add(scratch, "\xef\xbf\xbd");
        i += is_ok ? n : 1;
    }
    ebb_jsonw_stringn(w, ebb_str_c(scratch), scratch->length);
}

struct log_query {
    int64_t after, before, tail, limit;
    const char *level, *search; /* "" = all */
};

static struct log_query read_query(struct serve_rest *r)
{
    static const char *const levels[] = {"", "DEBUG", "INFO", "WARNING", "ERROR"};
    const char *level = serve_rest_text(r, "level"), *search = serve_rest_text(r, "search");
    struct log_query q = {.after = serve_rest_int(r, "greater_than_id", 0, 0),
                          .before = serve_rest_int(r, "less_than_id", INT64_MAX, 0),
                          .tail = serve_rest_int(r, "tail", 0, 0),
                          .limit = serve_rest_int(r, "limit", 1000, 0),
                          .level = level != NULL ? level : "",
                          .search = search != NULL ? search : ""};
    bool is_level = false;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        is_level |= strcmp(levels[i], q.level) == 0;
    if (!is_level)
        serve_rest_bad(r, "level", q.level, "DEBUG, INFO, WARNING, ERROR");
    q.limit = q.tail > 0 ? q.tail : q.limit;
    q.limit = q.limit > 100000 ? 100000 : q.limit;
    return q;
}

/* Messages are bytes, so they are looked through here: SQL of both engines has no way to. */
static bool is_found(const struct log_query *q, const struct exp_db_rows *row)
{
    struct exp_db_value message = exp_db_column(row, 3);
    return q->search[0] == '\0' ||
           memmem(message.data, message.length, q->search, strlen(q->search)) != NULL;
}

/* The lines of a query, one after the other, until `limit` of them are found; *last is the id of
 * the last one looked at, *is_end: there are no more. w NULL: only find. */
static enum ebb_status walk_logs(struct serve_rest *r, const struct log_query *q, bool is_backward,
                                 struct ebb_json_writer *w, int64_t *last, bool *is_end)
{
    struct exp_db_rows rows;
    struct ebb_str scratch;
    bool has_row = true;
    int64_t found = 0;
    EBB_TRY(exp_db_query(
        r->m->db,
        is_backward ? "SELECT id, time, level, message FROM trial_logs WHERE trial_id = $1"
                      " AND id > $2 AND id < $3 AND ($4 = '' OR level = $4) ORDER BY id"
                      " DESC"
                    : "SELECT id, time, level, message FROM trial_logs WHERE trial_id = $1"
                      " AND id > $2 AND id < $3 AND ($4 = '' OR level = $4) ORDER BY id",
        EXP_DB_ARGS(exp_db_i(r->id), exp_db_i(q->after), exp_db_i(q->before), exp_db_t(q->level)),
        &rows, r->err));
    ebb_str_init(&scratch);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK && found < q->limit) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        *last = exp_db_int(&rows, 0);
        if (!is_found(q, &rows))
            continue;
        found++;
        if (w == NULL)
            continue;
        struct exp_db_value message = exp_db_column(&rows, 3);
        ebb_jsonw_object(w);
        ebb_jsonw_key_int(w, "id", *last);
        key_time(w, "time", exp_db_double(&rows, 1));
        ebb_jsonw_key_string(w, "level", exp_db_text(&rows, 2));
        ebb_jsonw_key_int(w, "rank", 0);
        ebb_jsonw_key(w, "message");
        write_bytes(w, &scratch, message.data, message.length);
        ebb_jsonw_object_end(w);
    }
    *is_end = !has_row;
    ebb_str_fini(&scratch);
    exp_db_done(&rows);
    return status;
}

/* *last: the id of the newest line that need not be looked at again. */
static enum ebb_status write_logs(struct serve_rest *r, int64_t newest, int64_t *last)
{
    struct log_query q = read_query(r);
    bool is_end = true;
    if (serve_rest_int(r, "rank", 0, 0) == 0) { /* the only one there is */
        if (q.tail > 0) {
            int64_t first = 0;
            EBB_TRY(walk_logs(r, &q, true, NULL, &first, &is_end));
            q.after = !is_end && first - 1 > q.after ? first - 1 : q.after;
        }
        EBB_TRY(walk_logs(r, &q, false, &r->w, last, &is_end));
        is_end |= q.tail > 0;
    }
    if (is_end && q.before > newest && *last < newest)
        *last = newest;
    return EBB_OK;
}

enum ebb_status serve_rest_logs(struct serve_rest *r)
{
    bool found;
    int64_t last = serve_rest_int(r, "greater_than_id", 0, 0), newest = 0;
    const struct exp_trial *run = find_trial(r->m, r->id);
    EBB_TRY(is_there(r, &found));
    if (!found)
        return EBB_OK;
    EBB_TRY(exp_db_number(r->m->db, "SELECT MAX(id) FROM trial_logs WHERE trial_id = $1",
                          EXP_DB_ARGS(exp_db_i(r->id)), 0, &newest, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "logs");
    ebb_jsonw_array(&r->w);
    EBB_TRY(write_logs(r, newest, &last));
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_int(&r->w, "next", last);
    ebb_jsonw_key(&r->w, "is_over");
    bool has_ended = run == NULL || (run->state != EXP_TRIAL_ACTIVE && run->alloc == NULL);
    ebb_jsonw_bool(&r->w, has_ended && last >= newest);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

enum ebb_status serve_rest_kill_trial(struct serve_rest *r)
{
    bool found;
    struct exp_trial *run = find_trial(r->m, r->id);
    EBB_TRY(is_there(r, &found));
    if (!found)
        return EBB_OK;
    if (run == NULL || run->alloc == NULL)
        return serve_rest_refuse(r, 409, "trial %lld has no process", (long long)r->id);
    exp_alloc_kill(r->m, run->alloc, "was killed by the user");
    return serve_rest_get_trial(r);
}
