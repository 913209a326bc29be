/* check.c - what requests want of stores, without stopping the loop: trying one before an experiment
 * relies on it, and fetching a checkpoint. A verdict waits here until who asked asks again. A good one
 * holds for a while: a submission asks for two stores, which may be the same, and files are
 * downloaded in pieces. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "exp/master/inner.h"

#define CHECK_NS 10000000000ull
#define KEPT_NS 60000000000ull /* a verdict nobody came back for; */
#define GOOD_NS 1000000000ull  /* a good one that was given, */
#define READ_NS 30000000000ull /* also that a checkpoint has been fetched and proved */

struct exp_check {
    char *location, *uuid, *access_key, *secret_key; /* owned: what is tried, or fetched */
    struct exp_job *job;                             /* in progress, or NULL */
    uint64_t until_ns;                               /* given up then, or forgotten */
    bool is_late, is_given;
    enum ebb_status status;
    struct ebb_error err;
    struct exp_check *next;
};

static void free_check(struct exp_check *c)
{
    ebb_free(c->location);
    ebb_free(c->uuid);
    ebb_free(c->access_key);
    if (c->secret_key != NULL)
        explicit_bzero(c->secret_key, strlen(c->secret_key));
    ebb_free(c->secret_key);
    ebb_free(c);
}

static void drop(struct exp_master *m, struct exp_check *c)
{
    for (struct exp_check **at = &m->checks; *at != NULL; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    free_check(c);
}

void exp_checks_free(struct exp_master *m)
{
    while (m->checks != NULL)
        drop(m, m->checks);
}

static bool is_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* What a job was given, or would be. */
static struct exp_check *find(const struct exp_master *m, const struct exp_job *job)
{
    struct exp_check *c = m->checks;
    while (c != NULL &&
           !(is_equal(c->location, job->location) && is_equal(c->uuid, job->uuid) &&
             is_equal(c->access_key, job->access_key) && is_equal(c->secret_key, job->secret_key)))
        c = c->next;
    return c;
}

static enum ebb_status start(struct exp_master *m, struct exp_job *job, struct ebb_error *err)
{
    struct exp_check *c = ebb_calloc(1, sizeof *c);
    if (c == NULL)
        return ebb_no_memory(err, sizeof *c);
    enum ebb_status status = exp_text_set(&c->location, job->location, err);
    EBB_THEN(status, exp_text_set(&c->uuid, job->uuid, err));
    EBB_THEN(status, exp_text_set(&c->access_key, job->access_key, err));
    EBB_THEN(status, exp_text_set(&c->secret_key, job->secret_key, err));
    if (status != EBB_OK) {
        free_check(c);
        return status;
    }
    c->job = job;
    c->until_ns = job->kind == EXP_JOB_CHECK ? m->now_ns + CHECK_NS : UINT64_MAX;
    c->next = m->checks;
    m->checks = c;
    exp_job_later(m, job);
    return EBB_OK;
}

/* Takes the job, which knows where and with which keys. path: of what is fetched, or NULL. */
static enum ebb_status ask(struct exp_master *m, struct exp_job *job, const char *path,
                           bool *is_pending, struct ebb_error *err)
{
    struct exp_check *c = find(m, job);
    bool is_old = c != NULL && c->is_given &&
                  (m->now_ns >= c->until_ns || (path != NULL && access(path, F_OK) != 0));
    if (is_old) {
        drop(m, c);
        c = NULL;
    }
    if (c == NULL) {
        *is_pending = true;
        enum ebb_status status = start(m, job, err);
        if (status != EBB_OK)
            exp_job_destroy(job);
        return status;
    }
    exp_job_destroy(job);
    *is_pending = c->job != NULL;
    if (*is_pending)
        return EBB_OK;
    enum ebb_status status = c->status;
    if (status != EBB_OK)
        *err = c->err;
    if (status != EBB_OK) {
        drop(m, c);
        return status;
    }
    if (!c->is_given || path != NULL)
        c->until_ns = m->now_ns + (path != NULL ? READ_NS : GOOD_NS);
    c->is_given = true;
    return EBB_OK;
}

bool exp_check_reads(const struct exp_master *m, const char *uuid)
{
    for (const struct exp_check *c = m->checks; c != NULL; c = c->next)
        if (c->uuid != NULL && strcmp(c->uuid, uuid) == 0)
            return true;
    return false;
}

enum ebb_status exp_master_check(struct exp_master *m, const struct exp_storage *storage,
                                 bool *is_pending, struct ebb_error *err)
{
    struct exp_store *store = NULL;
    struct ebb_str location = {0};
    *is_pending = false;
    EBB_TRY(exp_store_open(storage, 0, m->net, &store, err));
    if (!exp_store_is_remote(store)) {
        enum ebb_status status = exp_store_prepare(store, err);
        exp_store_close(store);
        return status;
    }
    exp_store_location(store, &location);
    exp_store_close(store);
    struct exp_job *job = exp_job_create(EXP_JOB_CHECK);
    enum ebb_status status =
        job != NULL ? ebb_str_status(&location, err) : ebb_no_memory(err, sizeof *job);
    EBB_THEN(status, exp_job_place(m, job, ebb_str_c(&location), EXP_STORAGE_SECTION, err));
    if (job != NULL && job->access_key == NULL) { /* else master.yaml's win */
        EBB_THEN(status, exp_text_set(&job->access_key, storage->access_key, err));
        EBB_THEN(status, exp_text_set(&job->secret_key, storage->secret_key, err));
    }
    ebb_str_fini(&location);
    if (status != EBB_OK) {
        exp_job_destroy(job);
        return status;
    }
    return ask(m, job, NULL, is_pending, err);
}

enum ebb_status exp_master_fetch(struct exp_master *m, const char *uuid, struct ebb_str *path,
                                 bool *is_pending, struct ebb_error *err)
{
    struct exp_db_checkpoint row;
    bool is_there;
    *is_pending = false;
    EBB_TRY(exp_db_only(exp_db_checkpoint_read(m->db, EXP_DB_NAME(uuid), &row, err), &m->turn_arena,
                        &is_there));
    bool is_staged = is_there && strcmp(row.state, "ACTIVE") == 0 && row.resources != NULL;
    if (!is_staged && !(is_there && strcmp(row.state, "COMPLETED") == 0))
        return ebb_fail(err, EBB_EINPUT, "checkpoint %s is %s: there is nothing to read", uuid,
                        is_there ? row.state : "not known");
    struct exp_job *job = exp_job_create(EXP_JOB_PREPARE);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    enum ebb_status status = exp_job_place(m, job, row.storage, EXP_STORAGE_SECTION, err);
    EBB_THEN(status, exp_text_set(&job->uuid, uuid, err));
    ebb_str_add(&job->resources, row.resources != NULL ? row.resources : "");
    EBB_THEN(status, ebb_str_status(&job->resources, err));
    struct exp_store *store = NULL;
    EBB_THEN(status, exp_store_open_location(row.storage, NULL, NULL, &store, err));
    if (status == EBB_OK && job->is_remote)
        ebb_str_printf(path, "%s/%s/%s", m->state_dir, is_staged ? EXP_STAGING : EXP_CACHE, uuid);
    else if (status == EBB_OK)
        exp_store_path(store, uuid, path);
    exp_store_close(store);
    EBB_THEN(status, ebb_str_status(path, err));
    if (status == EBB_OK && job->is_remote && !is_staged)
        return ask(m, job, ebb_str_c(path), is_pending, err);
    exp_job_destroy(job);
    return status;
}

enum ebb_status exp_check_done(struct exp_master *m, const struct exp_job *job,
                               struct ebb_error *err)
{
    struct exp_check *c = find(m, job);
    if (c == NULL)
        return EBB_OK;
    c->job = NULL;
    m->is_trim_due |= c->uuid != NULL;
    c->status = job->status;
    c->err = job->err;
    c->until_ns = m->now_ns + KEPT_NS;
    if (c->is_late && c->status != EBB_OK)
        c->status = ebb_fail(&c->err, EBB_EIO, "no answer within 10 s: %.600s", job->err.message);
    return m->front.checked != NULL ? m->front.checked(m->front.context, err) : EBB_OK;
}

void exp_checks_turn(struct exp_master *m)
{
    for (struct exp_check *c = m->checks, *next; c != NULL; c = next) {
        next = c->next;
        if (m->now_ns < c->until_ns || c->is_late)
            continue;
        if (c->job == NULL) {
            m->is_trim_due |= c->uuid != NULL;
            drop(m, c);
            continue;
        }
        c->is_late = true;
        atomic_store(&c->job->watch.is_unwanted, true);
    }
}

uint64_t exp_checks_deadline(const struct exp_master *m)
{
    uint64_t first = UINT64_MAX;
    for (const struct exp_check *c = m->checks; c != NULL; c = c->next)
        if (c->job != NULL && !c->is_late && c->until_ns < first)
            first = c->until_ns;
    return first;
}
