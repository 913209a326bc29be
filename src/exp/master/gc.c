/* gc.c - checkpoints that go, and experiments that are deleted. Files go before rows (M4): what is
 * to be removed stands in `removals` until a thread has removed it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/doc.h"
#include "base/heap.h"
#include "base/log.h"
#include "exp/master/inner.h"

#define AGAIN_NS 30000000000ull /* a store that was out of reach */

/* ---- which ---- */

/* A search that has not started from it yet will. */
static bool is_awaited(const struct exp_db_name *awaited, size_t count, const char *uuid)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(awaited[i].name, uuid) == 0)
            return true;
    return false;
}

enum ebb_status exp_gc_select(struct exp_db *db, int64_t experiment,
                              const struct exp_gc_policy *policy, struct ebb_arena *arena,
                              struct exp_db_checkpoint **doomed, size_t *count,
                              struct ebb_error *err)
{
    struct exp_db_checkpoint *rows = NULL;
    struct exp_db_name *awaited = NULL;
    size_t n = 0, awaited_count = 0;
    EBB_TRY(exp_db_all(exp_db_checkpoints(db, EXP_DB_ID(experiment), NULL, err), arena, &rows, &n));
    EBB_TRY(exp_db_all(exp_db_awaited(db, NULL, NULL, err), arena, &awaited, &awaited_count));
    struct exp_retention retention = {.save_experiment_best = policy->save_experiment_best,
                                      .save_trial_best = policy->save_trial_best,
                                      .save_trial_latest = policy->save_trial_latest,
                                      .smaller_is_better = n == 0 || rows[0].smaller_is_better};
    struct exp_checkpoint *items = ebb_arena_calloc(arena, n + 1, sizeof *items);
    bool *is_deleted = ebb_arena_calloc(arena, n + 1, sizeof *is_deleted);
    if (items == NULL || is_deleted == NULL)
        return ebb_no_memory(err, n * sizeof *items);
    for (size_t i = 0; i < n; i++)
        items[i] = (struct exp_checkpoint){
            .id = rows[i].id,
            .trial = rows[i].trial_id,
            .step = rows[i].step_id,
            .is_completed = strcmp(rows[i].state, "COMPLETED") == 0,
            .has_metric = !isnan(rows[i].signed_metric),
            .metric = exp_metric_unsigned(rows[i].signed_metric, rows[i].smaller_is_better),
            .is_protected = rows[i].is_source || is_awaited(awaited, awaited_count, rows[i].uuid)};
    EBB_TRY(exp_retention_select(items, n, &retention, is_deleted, err));
    *doomed = rows;
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (is_deleted[i])
            rows[(*count)++] = rows[i];
    return EBB_OK;
}

/* ---- removing ---- */

/* A removal of a remote checkpoint carries the record of its files in its location, since the
 * checkpoint's own row may be gone by then. */
static enum ebb_status add_resources(struct exp_master *m, const char *uuid, const char *location,
                                     struct ebb_str *out, struct ebb_error *err)
{
    struct exp_db_checkpoint row = {0};
    bool is_there = false;
    ebb_str_add(out, location);
    if (exp_store_location_is_remote(location))
        EBB_TRY(exp_db_only(exp_db_checkpoint_read(m->db, EXP_DB_NAME(uuid), &row, err),
                            &m->turn_arena, &is_there));
    if (is_there && row.resources != NULL && !out->failed) {
        out->data[--out->length] = '\0'; /* its '}' */
        ebb_str_printf(out, ", \"resources\": %s}", row.resources);
    }
    return ebb_str_status(out, err);
}

static enum ebb_status read_resources(struct exp_master *m, const char *location,
                                      struct ebb_str *out, struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    struct ebb_json_writer w;
    EBB_TRY(ebb_doc_parse_json(&m->turn_arena, "location", location, strlen(location), &root, err));
    const struct ebb_doc_node *resources = ebb_doc_get(root, "resources");
    if (resources == NULL)
        return EBB_OK;
    ebb_jsonw_init(&w, out, 0);
    ebb_doc_write_json(resources, &w);
    return ebb_str_status(out, err);
}

static enum ebb_status start_job(struct exp_master *m, const char *uuid, const char *location,
                                 int64_t deleted_experiment, struct ebb_error *err)
{
    struct exp_job *job = exp_job_create(EXP_JOB_REMOVE);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    enum ebb_status status = exp_job_place(m, job, location, EXP_STORAGE_SECTION, err);
    EBB_THEN(status, read_resources(m, location, &job->resources, err));
    EBB_THEN(status, exp_text_set(&job->uuid, uuid, err));
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
    EBB_TRY(exp_db_checkpoint_note(m->db, &(struct exp_db_note){uuid, NULL}, err)); /* an old one */
    struct ebb_str whole = {0};
    enum ebb_status status = add_resources(m, uuid, location, &whole, err);
    EBB_THEN(status,
             exp_db_removal_add(m->db, &(struct exp_db_stored){uuid, ebb_str_c(&whole)}, err));
    EBB_THEN(status, start_job(m, uuid, ebb_str_c(&whole), deleted_experiment, err));
    ebb_str_fini(&whole);
    return status;
}

enum ebb_status exp_gc_discard(struct exp_master *m, const char *uuid, struct ebb_error *err)
{
    struct exp_db_checkpoint row;
    bool is_there;
    EBB_TRY(exp_db_only(exp_db_checkpoint_read(m->db, EXP_DB_NAME(uuid), &row, err), &m->turn_arena,
                        &is_there));
    if (!is_there || strcmp(row.state, "ACTIVE") != 0)
        return EBB_OK;
    EBB_TRY(exp_gc_remove_checkpoint(m, uuid, row.storage, 0, err));
    return exp_db_checkpoint_delete(m->db, EXP_DB_NAME(uuid), err);
}

enum ebb_status exp_gc_collect(struct exp_master *m, int64_t experiment, struct ebb_error *err)
{
    struct exp_db_experiment row = {0};
    struct exp_db_checkpoint *doomed = NULL;
    size_t count = 0;
    struct ebb_arena arena = {0};
    enum ebb_status status =
        exp_db_only(exp_db_experiment_read(m->db, EXP_DB_ID(experiment), &row, err), &arena, NULL);
    struct exp_gc_policy policy = {row.save_experiment_best, row.save_trial_best,
                                   row.save_trial_latest};
    EBB_THEN(status, exp_gc_select(m->db, experiment, &policy, &arena, &doomed, &count, err));
    for (size_t i = 0; status == EBB_OK && i < count; i++)
        status = exp_gc_remove_checkpoint(m, doomed[i].uuid, doomed[i].storage, 0, err);
    ebb_arena_fini(&arena);
    return status;
}

/* ---- working directories ---- */

#define WORK "work-" /* removals of checkpoints are named by their UUIDs */

enum ebb_status exp_gc_remove_tree(struct exp_master *m, const char *path, const char *name,
                                   int64_t deleted_experiment, struct ebb_error *err)
{
    struct exp_job *job = exp_job_create(EXP_JOB_REMOVE_TREE);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    enum ebb_status status = exp_text_set(&job->work_dir, path, err);
    EBB_THEN(status, exp_text_set(&job->uuid, name, err));
    if (status != EBB_OK) {
        exp_job_destroy(job);
        return status;
    }
    job->experiment_id = deleted_experiment;
    m->removals++;
    exp_job_later(m, job);
    return EBB_OK;
}

enum ebb_status exp_gc_clear_trial(struct exp_master *m, struct exp_trial *r, struct ebb_error *err)
{
    char path[4096], name[48];
    snprintf(path, sizeof path, "%s/trials/%lld/work", m->state_dir, (long long)r->id);
    if (r->is_cleared || access(path, F_OK) != 0)
        return EBB_OK;
    r->is_cleared = true;
    snprintf(name, sizeof name, WORK "%lld", (long long)r->id);
    EBB_TRY(exp_db_removal_add(m->db, &(struct exp_db_stored){name, path}, err));
    return exp_gc_remove_tree(m, path, name, 0, err);
}

static enum ebb_status cleared(struct exp_master *m, const struct exp_job *job,
                               struct ebb_error *err)
{
    if (job->status == EBB_OK)
        return exp_db_removal_done(m->db, EXP_DB_NAME(job->uuid), err);
    ebb_log(m->options.log, EBB_LOG_WARN, "%s is not removed: %s", job->work_dir, job->err.message);
    return exp_db_removal_note(m->db, &(struct exp_db_note){job->uuid, job->err.message}, err);
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
    EBB_TRY(exp_gc_remove_tree(m, path, NULL, d->id, err));
    d->pending++;
    return EBB_OK;
}

/* Event files: here, and in the store that has copies of them. */
static enum ebb_status start_board(struct exp_master *m, struct exp_deletion *d, const char *path,
                                   struct ebb_error *err)
{
    struct exp_job *job = NULL;
    EBB_TRY(exp_board_remove_job(m, d->id, path, &job, err));
    if (job == NULL)
        return start_tree(m, d, path, err);
    d->pending++;
    m->removals++;
    exp_job_later(m, job);
    return EBB_OK;
}

static enum ebb_status start_trees(struct exp_master *m, struct exp_deletion *d,
                                   struct ebb_error *err)
{
    struct exp_db_trial row;
    struct exp_db_config config;
    bool is_there;
    d->has_trees = true;
    struct exp_db_cursor trials = exp_db_trials(m->db, EXP_DB_ID(d->id), &row, err);
    while (exp_db_fetch(&trials)) {
        char path[4096];
        snprintf(path, sizeof path, "%s/trials/%lld", m->state_dir, (long long)row.id);
        trials.status = start_tree(m, d, path, err);
    }
    EBB_TRY(exp_db_end(&trials));
    EBB_TRY(exp_db_only(exp_db_config_read(m->db, EXP_DB_ID(d->id), &config, err), &m->turn_arena,
                        &is_there));
    return is_there && config.board != NULL ? start_board(m, d, config.board, err) : EBB_OK;
}

/* Numbers are never given twice, also when their last owners are gone. */
static enum ebb_status keep_number(struct exp_master *m, const char *key, int64_t last,
                                   struct ebb_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)last);
    return exp_db_meta_write(m->db, &(struct exp_db_meta){key, text}, err);
}

static enum ebb_status delete_rows(struct exp_master *m, int64_t id, struct ebb_error *err)
{
    static enum ebb_status (*const deletes[])(struct exp_db *, const struct exp_db_id *,
                                              struct ebb_error *) = {
        exp_db_logs_delete,   exp_db_batches_delete,     exp_db_steps_delete,
        exp_db_curves_delete, exp_db_validations_delete, exp_db_checkpoints_delete,
        exp_db_events_delete, exp_db_trials_delete,      exp_db_files_delete,
        exp_db_config_delete, exp_db_experiment_delete};
    EBB_TRY(keep_number(m, "last_experiment", m->last_experiment, err));
    EBB_TRY(keep_number(m, "last_trial", m->last_trial, err));
    for (size_t i = 0; i < sizeof deletes / sizeof *deletes; i++)
        EBB_TRY(deletes[i](m->db, EXP_DB_ID(id), err));
    return EBB_OK;
}

/* Nothing pending: the next stage. */
static enum ebb_status advance(struct exp_master *m, struct exp_deletion *d, struct ebb_error *err)
{
    if (d->pending > 0)
        return EBB_OK;
    if (!d->is_failed && !d->has_trees && !exp_board_stop(m, d->id)) {
        d->pending++; /* until exp_gc_board_stopped */
        return EBB_OK;
    }
    if (!d->is_failed && !d->has_trees) {
        EBB_TRY(start_trees(m, d, err));
        if (d->pending > 0)
            return EBB_OK;
    }
    if (d->is_failed)
        EBB_TRY(exp_db_experiment_not_deleted(m->db, &(struct exp_db_reason){d->id, d->note}, err));
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
    struct exp_db_checkpoint *rows = NULL;
    size_t count = 0;
    if (find_deletion(m, experiment) != NULL)
        return EBB_OK;
    EBB_TRY(ebb_grow(&m->deletions, &m->deletion_capacity, m->deletion_count + 1,
                     sizeof *m->deletions, err));
    EBB_TRY(exp_db_experiment_deleting(m->db, EXP_DB_ID(experiment), err));
    struct exp_deletion *d = &m->deletions[m->deletion_count++];
    *d = (struct exp_deletion){.id = experiment};
    EBB_TRY(exp_db_all(exp_db_checkpoints(m->db, EXP_DB_ID(experiment), NULL, err), &m->turn_arena,
                       &rows, &count));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].state, "DELETED") == 0)
            continue;
        EBB_TRY(exp_gc_remove_checkpoint(m, rows[i].uuid, rows[i].storage, experiment, err));
        d->pending++;
    }
    return advance(m, d, err);
}

/* ---- results ---- */

static enum ebb_status removed(struct exp_master *m, const struct exp_job *job,
                               struct ebb_error *err)
{
    if (job->status == EBB_OK) {
        EBB_TRY(exp_db_checkpoint_removed(m->db, EXP_DB_NAME(job->uuid), err));
        return exp_db_removal_done(m->db, EXP_DB_NAME(job->uuid), err);
    }
    struct exp_db_note note = {job->uuid, job->err.message};
    if (job->is_remote && m->removal_ns == 0)
        m->removal_ns = m->now_ns + AGAIN_NS;
    ebb_log(m->options.log, EBB_LOG_WARN, "checkpoint %s is not removed: %s", job->uuid,
            job->err.message);
    EBB_TRY(exp_db_checkpoint_note(m->db, &note, err));
    return exp_db_removal_note(m->db, &note, err);
}

enum ebb_status exp_gc_job_done(struct exp_master *m, struct exp_job *job, struct ebb_error *err)
{
    m->removals--;
    if (job->kind == EXP_JOB_REMOVE)
        EBB_TRY(removed(m, job, err));
    else if (job->kind == EXP_JOB_REMOVE_TREE && job->uuid != NULL)
        EBB_TRY(cleared(m, job, err));
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

enum ebb_status exp_gc_board_stopped(struct exp_master *m, int64_t experiment,
                                     struct ebb_error *err)
{
    struct exp_deletion *d = find_deletion(m, experiment);
    if (d == NULL)
        return EBB_OK;
    d->pending--;
    return advance(m, d, err);
}

static enum ebb_status start_removals(struct exp_master *m, struct ebb_error *err)
{
    struct exp_db_stored *removals = NULL;
    size_t count = 0;
    EBB_TRY(exp_db_all(exp_db_removals(m->db, NULL, NULL, err), &m->turn_arena, &removals, &count));
    for (size_t i = 0; i < count; i++)
        EBB_TRY(strncmp(removals[i].uuid, WORK, strlen(WORK)) == 0
                    ? exp_gc_remove_tree(m, removals[i].storage, removals[i].uuid, 0, err)
                    : start_job(m, removals[i].uuid, removals[i].storage, 0, err));
    return EBB_OK;
}

enum ebb_status exp_gc_again(struct exp_master *m, struct ebb_error *err)
{
    if (m->removal_ns == 0 || m->now_ns < m->removal_ns || m->removals > 0)
        return EBB_OK;
    m->removal_ns = 0;
    return start_removals(m, err);
}

enum ebb_status exp_gc_resume(struct exp_master *m, struct ebb_error *err)
{
    struct exp_db_id *deleting = NULL;
    size_t count = 0;
    m->removal_ns = 0;
    EBB_TRY(start_removals(m, err));
    EBB_TRY(exp_db_all(exp_db_experiments_deleting(m->db, NULL, NULL, err), &m->turn_arena,
                       &deleting, &count));
    for (size_t i = 0; i < count; i++)
        EBB_TRY(exp_gc_delete(m, deleting[i].id, err));
    return EBB_OK;
}
