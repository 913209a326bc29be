/* gc.c - checkpoints that go, and experiments that are deleted. Files go before rows (M4): what is
 * to be removed stands in `removals` until a thread has removed it. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/log.h"
#include "exp/master/inner.h"

/* ---- which ---- */

struct listed {
    struct exp_checkpoint *items;
    size_t count, capacity;
};

static enum ebb_status list(struct exp_master *m, int64_t experiment, bool smaller_is_better,
                            struct listed *l, struct ebb_error *err)
{
    struct exp_db_rows rows;
    bool has_row = true;
    EBB_TRY(exp_db_query(
        m->db,
        "SELECT c.id, c.trial_id, c.step_id, v.signed_metric,"
        " EXISTS (SELECT 1 FROM trials t WHERE t.warm_start = c.uuid), c.uuid FROM checkpoints c"
        " LEFT JOIN validations v ON v.trial_id = c.trial_id AND v.step_id = c.step_id"
        " WHERE c.experiment_id = $1 AND c.state = 'COMPLETED' ORDER BY c.id",
        EXP_DB_ARGS(exp_db_i(experiment)), &rows, err));
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK && has_row) {
        status = exp_db_next(&rows, &has_row, err);
        if (status != EBB_OK || !has_row)
            break;
        status = ebb_grow(&l->items, &l->capacity, l->count + 1, sizeof *l->items, err);
        if (status != EBB_OK)
            break;
        bool is_awaited = false; /* a search that has not started from it yet will */
        for (size_t i = 0; i < m->experiment_count; i++)
            is_awaited |= m->experiments[i]->warm_start != NULL &&
                          strcmp(m->experiments[i]->warm_start, exp_db_text(&rows, 5)) == 0;
        l->items[l->count++] = (struct exp_checkpoint){
            .id = exp_db_int(&rows, 0),
            .trial = exp_db_int(&rows, 1),
            .step = exp_db_int(&rows, 2),
            .is_completed = true,
            .has_metric = !exp_db_is_null(&rows, 3),
            .metric = exp_metric_unsigned(exp_db_double(&rows, 3), smaller_is_better),
            .is_protected = is_awaited || exp_db_int(&rows, 4) != 0};
    }
    exp_db_done(&rows);
    return status;
}

enum ebb_status exp_gc_select(struct exp_master *m, int64_t experiment,
                              const struct exp_gc_policy *policy, struct ebb_arena *arena,
                              int64_t **ids, size_t *count, struct ebb_error *err)
{
    struct listed l = {0};
    int64_t smaller = 1;
    EBB_TRY(exp_db_number(m->db, "SELECT smaller_is_better FROM experiments WHERE id = $1",
                          EXP_DB_ARGS(exp_db_i(experiment)), 1, &smaller, err));
    struct exp_retention retention = {.save_experiment_best = policy->save_experiment_best,
                                      .save_trial_best = policy->save_trial_best,
                                      .save_trial_latest = policy->save_trial_latest,
                                      .smaller_is_better = smaller != 0};
    enum ebb_status status = list(m, experiment, smaller != 0, &l, err);
    bool *is_deleted = ebb_arena_calloc(arena, l.count + 1, sizeof *is_deleted);
    int64_t *out = ebb_arena_calloc(arena, l.count + 1, sizeof *out);
    if (status == EBB_OK && (is_deleted == NULL || out == NULL))
        status = ebb_no_memory(err, l.count);
    if (status == EBB_OK)
        status = exp_retention_select(l.items, l.count, &retention, is_deleted, err);
    if (status == EBB_OK) {
        *count = 0;
        for (size_t i = 0; i < l.count; i++)
            if (is_deleted[i])
                out[(*count)++] = l.items[i].id;
        *ids = out;
    }
    ebb_free(l.items);
    return status;
}

/* ---- removing ---- */

static enum ebb_status start_job(struct exp_master *m, const char *uuid, const char *location,
                                 int64_t deleted_experiment, struct ebb_error *err)
{
    struct exp_job *job = exp_job_create(EXP_JOB_REMOVE);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    enum ebb_status status = exp_text_set(&job->location, location, err);
    if (status == EBB_OK)
        status = exp_text_set(&job->uuid, uuid, err);
    if (status != EBB_OK) {
        exp_job_destroy(job);
        return status;
    }
    job->experiment_id = deleted_experiment;
    m->removals++;
    exp_job_later(m, job);
    return EBB_OK;
}

enum ebb_status exp_gc_remove_checkpoint(struct exp_master *m, const char *uuid,
                                         const char *location, int64_t deleted_experiment,
                                         struct ebb_error *err)
{
    EBB_TRY(exp_db_run(m->db, "DELETE FROM removals WHERE uuid = $1", EXP_DB_ARGS(exp_db_t(uuid)),
                       err));
    EBB_TRY(exp_db_run(m->db, "UPDATE checkpoints SET note = NULL WHERE uuid = $1",
                       EXP_DB_ARGS(exp_db_t(uuid)), err)); /* of an earlier attempt */
    EBB_TRY(exp_db_run(m->db, "INSERT INTO removals (uuid, storage) VALUES ($1, $2)",
                       EXP_DB_ARGS(exp_db_t(uuid), exp_db_t(location)), err));
    return start_job(m, uuid, location, deleted_experiment, err);
}

struct named {
    char *uuid, *location;
};

struct names {
    struct named *items;
    size_t count, capacity;
};

static void names_fini(struct names *n)
{
    for (size_t i = 0; i < n->count; i++) {
        ebb_free(n->items[i].uuid);
        ebb_free(n->items[i].location);
    }
    ebb_free(n->items);
}

/* (uuid, storage) of a query's rows: read whole, since what follows writes to the same tables. */
static enum ebb_status read_names(struct exp_master *m, const char *sql,
                                  const struct exp_db_value *args, size_t arg_count,
                                  struct names *out, struct ebb_error *err)
{
    struct exp_db_rows rows;
    bool has_row = true;
    EBB_TRY(exp_db_query(m->db, sql, args, arg_count, &rows, err));
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, err);
        if (status != EBB_OK || !has_row)
            break;
        status = ebb_grow(&out->items, &out->capacity, out->count + 1, sizeof *out->items, err);
        if (status != EBB_OK)
            break;
        out->items[out->count] = (struct named){0};
        status = exp_text_set(&out->items[out->count].uuid, exp_db_text(&rows, 0), err);
        if (status == EBB_OK)
            status = exp_text_set(&out->items[out->count].location, exp_db_text(&rows, 1), err);
        out->count++;
    }
    exp_db_done(&rows);
    return status;
}

enum ebb_status exp_gc_discard(struct exp_master *m, const char *uuid, struct ebb_error *err)
{
    struct names n = {0};
    enum ebb_status status =
        read_names(m, "SELECT uuid, storage FROM checkpoints WHERE uuid = $1 AND state = 'ACTIVE'",
                   EXP_DB_ARGS(exp_db_t(uuid)), &n, err);
    for (size_t i = 0; status == EBB_OK && i < n.count; i++) {
        status = exp_db_run(m->db, "DELETE FROM checkpoints WHERE uuid = $1",
                            EXP_DB_ARGS(exp_db_t(uuid)), err);
        if (status == EBB_OK)
            status = exp_gc_remove_checkpoint(m, uuid, n.items[i].location, 0, err);
    }
    names_fini(&n);
    return status;
}

static enum ebb_status read_policy(struct exp_master *m, int64_t experiment,
                                   struct exp_gc_policy *policy, struct ebb_error *err)
{
    struct exp_db_rows rows;
    bool has_row = false;
    EBB_TRY(exp_db_query(m->db,
                         "SELECT save_experiment_best, save_trial_best, save_trial_latest"
                         " FROM experiments WHERE id = $1",
                         EXP_DB_ARGS(exp_db_i(experiment)), &rows, err));
    enum ebb_status status = exp_db_next(&rows, &has_row, err);
    if (status == EBB_OK && has_row)
        *policy = (struct exp_gc_policy){exp_db_int(&rows, 0), exp_db_int(&rows, 1),
                                         exp_db_int(&rows, 2)};
    exp_db_done(&rows);
    return status;
}

enum ebb_status exp_gc_collect(struct exp_master *m, int64_t experiment, struct ebb_error *err)
{
    struct exp_gc_policy policy = {0};
    int64_t *ids = NULL;
    size_t count = 0;
    struct ebb_arena arena;
    EBB_TRY(read_policy(m, experiment, &policy, err));
    ebb_arena_init(&arena);
    enum ebb_status status = exp_gc_select(m, experiment, &policy, &arena, &ids, &count, err);
    for (size_t i = 0; status == EBB_OK && i < count; i++) {
        struct names n = {0};
        status = read_names(m, "SELECT uuid, storage FROM checkpoints WHERE id = $1",
                            EXP_DB_ARGS(exp_db_i(ids[i])), &n, err);
        if (status == EBB_OK && n.count == 1)
            status = exp_gc_remove_checkpoint(m, n.items[0].uuid, n.items[0].location, 0, err);
        names_fini(&n);
    }
    ebb_arena_fini(&arena);
    return status;
}

/* ---- deleting experiments ---- */

static struct exp_deletion *find_deletion(struct exp_master *m, int64_t id)
{
    for (size_t i = 0; i < m->deletion_count; i++)
        if (m->deletions[i].id == id)
            return &m->deletions[i];
    return NULL;
}

static enum ebb_status start_tree(struct exp_master *m, struct exp_deletion *d, const char *path,
                                  struct ebb_error *err)
{
    struct exp_job *job = exp_job_create(EXP_JOB_REMOVE_TREE);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    job->experiment_id = d->id;
    enum ebb_status status = exp_text_set(&job->work_dir, path, err);
    if (status != EBB_OK) {
        exp_job_destroy(job);
        return status;
    }
    d->pending++;
    m->removals++;
    exp_job_later(m, job);
    return EBB_OK;
}

static enum ebb_status start_trees(struct exp_master *m, struct exp_deletion *d,
                                   struct ebb_error *err)
{
    struct exp_db_rows rows;
    bool has_row = true;
    d->has_trees = true;
    EBB_TRY(exp_db_query(m->db, "SELECT id FROM trials WHERE experiment_id = $1",
                         EXP_DB_ARGS(exp_db_i(d->id)), &rows, err));
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, err);
        if (status != EBB_OK || !has_row)
            break;
        char path[4096];
        snprintf(path, sizeof path, "%s/trials/%lld", m->state_dir,
                 (long long)exp_db_int(&rows, 0));
        status = start_tree(m, d, path, err);
    }
    exp_db_done(&rows);
    EBB_TRY(status);
    EBB_TRY(exp_db_query(m->db, "SELECT board FROM experiment_configs WHERE experiment_id = $1",
                         EXP_DB_ARGS(exp_db_i(d->id)), &rows, err));
    status = exp_db_next(&rows, &has_row, err);
    if (status == EBB_OK && has_row && !exp_db_is_null(&rows, 0)) /* event files */
        status = start_tree(m, d, exp_db_text(&rows, 0), err);
    exp_db_done(&rows);
    return status;
}

/* Numbers are never given twice, also when their last owners are gone. */
static enum ebb_status keep_number(struct exp_master *m, const char *key, int64_t last,
                                   struct ebb_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)last);
    EBB_TRY(exp_db_run(m->db, "DELETE FROM meta WHERE key = $1", EXP_DB_ARGS(exp_db_t(key)), err));
    return exp_db_run(m->db, "INSERT INTO meta (key, value) VALUES ($1, $2)",
                      EXP_DB_ARGS(exp_db_t(key), exp_db_t(text)), err);
}

static enum ebb_status delete_rows(struct exp_master *m, int64_t id, struct ebb_error *err)
{
    static const char *const scripts[] = {
        "DELETE FROM trial_logs WHERE trial_id IN (SELECT id FROM trials WHERE experiment_id = $1)",
        "DELETE FROM steps WHERE trial_id IN (SELECT id FROM trials WHERE experiment_id = $1)",
        ("DELETE FROM validations WHERE trial_id IN"
         " (SELECT id FROM trials WHERE experiment_id = $1)"),
        "DELETE FROM checkpoints WHERE experiment_id = $1",
        "DELETE FROM searcher_events WHERE experiment_id = $1",
        "DELETE FROM trials WHERE experiment_id = $1",
        "DELETE FROM model_files WHERE experiment_id = $1",
        "DELETE FROM experiment_configs WHERE experiment_id = $1",
        "DELETE FROM experiments WHERE id = $1",
    };
    EBB_TRY(keep_number(m, "last_experiment", m->last_experiment, err));
    EBB_TRY(keep_number(m, "last_trial", m->last_trial, err));
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        EBB_TRY(exp_db_run(m->db, scripts[i], EXP_DB_ARGS(exp_db_i(id)), err));
    return EBB_OK;
}

/* Nothing pending: the next stage. */
static enum ebb_status advance(struct exp_master *m, struct exp_deletion *d, struct ebb_error *err)
{
    if (d->pending > 0)
        return EBB_OK;
    if (!d->is_failed && !d->has_trees) {
        EBB_TRY(start_trees(m, d, err));
        if (d->pending > 0)
            return EBB_OK;
    }
    if (d->is_failed)
        EBB_TRY(exp_db_run(
            m->db, "UPDATE experiments SET state = 'DELETE_FAILED', error = $1 WHERE id = $2",
            EXP_DB_ARGS(exp_db_t(d->note), exp_db_i(d->id)), err));
    else
        EBB_TRY(delete_rows(m, d->id, err));
    struct exp_experiment gone = {.id = d->id,
                                  .state = d->is_failed ? EXP_DELETE_FAILED : EXP_DELETING};
    exp_notice_experiment(m, &gone);
    *d = m->deletions[--m->deletion_count];
    return EBB_OK;
}

enum ebb_status exp_gc_delete(struct exp_master *m, int64_t experiment, struct ebb_error *err)
{
    struct names n = {0};
    if (find_deletion(m, experiment) != NULL)
        return EBB_OK;
    EBB_TRY(ebb_grow(&m->deletions, &m->deletion_capacity, m->deletion_count + 1,
                     sizeof *m->deletions, err));
    EBB_TRY(exp_db_run(m->db, "UPDATE experiments SET state = 'DELETING' WHERE id = $1",
                       EXP_DB_ARGS(exp_db_i(experiment)), err));
    struct exp_deletion *d = &m->deletions[m->deletion_count++];
    *d = (struct exp_deletion){.id = experiment};
    enum ebb_status status = read_names(
        m, "SELECT uuid, storage FROM checkpoints WHERE experiment_id = $1 AND state <> 'DELETED'",
        EXP_DB_ARGS(exp_db_i(experiment)), &n, err);
    for (size_t i = 0; status == EBB_OK && i < n.count; i++) {
        status = exp_gc_remove_checkpoint(m, n.items[i].uuid, n.items[i].location, experiment, err);
        d->pending++;
    }
    names_fini(&n);
    return status != EBB_OK ? status : advance(m, d, err);
}

/* ---- results ---- */

static enum ebb_status removed(struct exp_master *m, const struct exp_job *job,
                               struct ebb_error *err)
{
    if (job->status == EBB_OK) {
        EBB_TRY(exp_db_run(m->db,
                           "UPDATE checkpoints SET state = 'DELETED', note = NULL WHERE uuid = $1",
                           EXP_DB_ARGS(exp_db_t(job->uuid)), err));
        return exp_db_run(m->db, "DELETE FROM removals WHERE uuid = $1",
                          EXP_DB_ARGS(exp_db_t(job->uuid)), err);
    }
    ebb_log(m->options.log, EBB_LOG_WARN, "checkpoint %s is not removed: %s", job->uuid,
            job->err.message);
    EBB_TRY(exp_db_run(m->db, "UPDATE checkpoints SET note = $1 WHERE uuid = $2",
                       EXP_DB_ARGS(exp_db_t(job->err.message), exp_db_t(job->uuid)), err));
    return exp_db_run(m->db, "UPDATE removals SET note = $1 WHERE uuid = $2",
                      EXP_DB_ARGS(exp_db_t(job->err.message), exp_db_t(job->uuid)), err);
}

enum ebb_status exp_gc_job_done(struct exp_master *m, struct exp_job *job, struct ebb_error *err)
{
    m->removals--;
    if (job->kind == EXP_JOB_REMOVE)
        EBB_TRY(removed(m, job, err));
    struct exp_deletion *d = job->experiment_id != 0 ? find_deletion(m, job->experiment_id) : NULL;
    if (d == NULL)
        return EBB_OK;
    d->pending--;
    if (job->status != EBB_OK && !d->is_failed) {
        d->is_failed = true;
        snprintf(d->note, sizeof d->note, "%.*s", (int)sizeof d->note - 1, job->err.message);
    }
    return advance(m, d, err);
}

enum ebb_status exp_gc_resume(struct exp_master *m, struct ebb_error *err)
{
    struct names n = {0};
    struct exp_db_rows rows;
    bool has_row = true;
    int64_t *ids = NULL;
    size_t count = 0, capacity = 0;
    enum ebb_status status =
        read_names(m,
                   "SELECT uuid, storage FROM removals WHERE uuid NOT IN (SELECT c.uuid FROM"
                   " checkpoints c JOIN experiments e ON e.id = c.experiment_id WHERE e.state ="
                   " 'DELETING')", /* those go with their experiments, below */
                   EXP_DB_NO_ARGS, &n, err);
    for (size_t i = 0; status == EBB_OK && i < n.count; i++)
        status = start_job(m, n.items[i].uuid, n.items[i].location, 0, err);
    names_fini(&n);
    EBB_TRY(status);
    EBB_TRY(exp_db_query(m->db, "SELECT id FROM experiments WHERE state = 'DELETING'",
                         EXP_DB_NO_ARGS, &rows, err));
    while (status == EBB_OK && has_row) {
        status = exp_db_next(&rows, &has_row, err);
        if (status == EBB_OK && has_row)
            status = ebb_grow(&ids, &capacity, count + 1, sizeof *ids, err);
        if (status == EBB_OK && has_row)
            ids[count++] = exp_db_int(&rows, 0);
    }
    exp_db_done(&rows);
    for (size_t i = 0; status == EBB_OK && i < count; i++)
        status = exp_gc_delete(m, ids[i], err);
    ebb_free(ids);
    return status;
}
