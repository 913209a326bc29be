/* uploads.c - checkpoints on their way from the staging to remote stores.
 *
 * Sealed and durable in <state>/staging, a checkpoint is as good as stored for the trial that wrote
 * it: it goes on training, and restarts from the staged copy. Its row stays ACTIVE (with the record
 * of its files) until the store has all of it. A store out of reach fails nobody: each upload is
 * tried again every 30 s, from where its journal ends, by this master or the next. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/doc.h"
#include "base/heap.h"
#include "base/log.h"
#include "exp/master/inner.h"

#define AGAIN_NS 30000000000ull
#define WAITING_MAX 2 /* checkpoints of a trial */
#define AT_A_TIME 2
#define STAGING_BYTES ((uint64_t)20 << 30)
#define CACHE_BYTES ((uint64_t)10 << 30)
#define GONE ".gone" /* copies that are being removed: ".<uuid>.gone" */

/* ---- opening ---- */

enum ebb_status exp_uploads_open(struct exp_master *m, struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    if (m->options.staging_bytes == 0)
        m->options.staging_bytes = STAGING_BYTES;
    if (m->options.cache_bytes == 0)
        m->options.cache_bytes = CACHE_BYTES;
    EBB_TRY(exp_store_net_create(&m->net, err));
    if (m->site_defaults == NULL)
        return EBB_OK;
    EBB_TRY(ebb_doc_parse_yaml(&m->turn_arena, "site defaults", m->site_defaults,
                               strlen(m->site_defaults), &root, err));
    const struct ebb_doc_node *storage = ebb_doc_get(root, "checkpoint_storage");
    if (ebb_doc_string(storage, "secret_key", NULL) == NULL)
        return EBB_OK;
    EBB_TRY(exp_text_set(&m->site.bucket, ebb_doc_string(storage, "bucket", ""), err));
    EBB_TRY(exp_text_set(&m->site.endpoint, ebb_doc_string(storage, "endpoint_url", NULL), err));
    EBB_TRY(exp_text_set(&m->site.access_key, ebb_doc_string(storage, "access_key", NULL), err));
    return exp_text_set(&m->site.secret_key, ebb_doc_string(storage, "secret_key", NULL), err);
}

/* ---- keys ---- */

/* The keys of an experiment's configuration, of which only the database has all. */
static enum ebb_status find_keys(struct exp_master *m, int64_t experiment, const char *section,
                                 const char **access_key, const char **secret_key,
                                 struct ebb_error *err)
{
    struct exp_db_config row;
    const struct ebb_doc_node *root = NULL;
    bool is_there;
    EBB_TRY(exp_db_only(exp_db_config_read(m->db, EXP_DB_ID(experiment), &row, err), &m->turn_arena,
                        &is_there));
    if (!is_there)
        return EBB_OK;
    EBB_TRY(ebb_doc_parse_json(&m->turn_arena, "stored configuration", row.config,
                               strlen(row.config), &root, err));
    const struct ebb_doc_node *storage = ebb_doc_get(root, section);
    *access_key = ebb_doc_string(storage, "access_key", NULL);
    *secret_key = ebb_doc_string(storage, "secret_key", NULL);
    return EBB_OK;
}

enum ebb_status exp_job_place(struct exp_master *m, struct exp_job *job, const char *location,
                              const char *section, struct ebb_error *err)
{
    const char *access_key = NULL, *secret_key = NULL;
    struct exp_storage site = {.kind = EXP_STORAGE_S3};
    struct exp_store *store = NULL;
    EBB_TRY(exp_text_set(&job->location, location, err));
    job->net = m->net;
    job->state_dir = m->state_dir;
    EBB_TRY(exp_store_open_location(location, NULL, m->net, &store, err));
    site.bucket = m->site.bucket;
    site.endpoint_url = m->site.endpoint;
    bool is_site = m->site.bucket != NULL && exp_store_is_same(store, &site);
    job->is_remote = exp_store_is_remote(store);
    exp_store_close(store);
    int64_t owner = exp_store_location_owner(location);
    if (is_site) { /* they may have been changed since */
        access_key = m->site.access_key;
        secret_key = m->site.secret_key;
    } else if (owner > 0) {
        EBB_TRY(find_keys(m, owner, section, &access_key, &secret_key, err));
    }
    EBB_TRY(exp_text_set(&job->access_key, access_key, err));
    return exp_text_set(&job->secret_key, secret_key, err);
}

/* ---- the list ---- */

static struct exp_upload *find(const struct exp_master *m, const char *uuid)
{
    struct exp_upload *u = m->uploads;
    while (u != NULL && strcmp(u->uuid, uuid) != 0)
        u = u->next;
    return u;
}

enum ebb_status exp_upload_add(struct exp_master *m, const struct exp_upload *upload,
                               const char *location, struct ebb_error *err)
{
    struct exp_upload **at = &m->uploads, *made = ebb_calloc(1, sizeof *made);
    if (made == NULL)
        return ebb_no_memory(err, sizeof *made);
    *made = *upload;
    enum ebb_status status = exp_text_set(&made->location, location, err);
    if (status != EBB_OK) {
        ebb_free(made);
        return status;
    }
    while (*at != NULL)
        at = &(*at)->next;
    *at = made;
    m->wants_turn = true;
    return EBB_OK;
}

static void drop(struct exp_master *m, struct exp_upload *u)
{
    for (struct exp_upload **at = &m->uploads; *at != NULL; at = &(*at)->next)
        if (*at == u) {
            *at = u->next;
            break;
        }
    ebb_free(u->location);
    ebb_free(u);
}

void exp_uploads_forget(struct exp_master *m)
{
    while (m->uploads != NULL)
        drop(m, m->uploads);
}

static bool is_waiting(const struct exp_upload *u)
{
    return !u->is_done && !u->is_unwanted;
}

bool exp_uploads_wait(const struct exp_master *m, int64_t experiment, int64_t trial)
{
    for (const struct exp_upload *u = m->uploads; u != NULL; u = u->next)
        if (is_waiting(u) && (experiment == 0 || u->experiment_id == experiment) &&
            (trial == 0 || u->trial_id == trial))
            return true;
    return false;
}

bool exp_uploads_are_full(const struct exp_master *m, const struct exp_trial *r)
{
    uint64_t bytes = 0;
    int count = 0;
    for (const struct exp_upload *u = m->uploads; u != NULL; u = u->next) {
        bytes += is_waiting(u) ? (uint64_t)u->bytes : 0;
        count += is_waiting(u) && u->trial_id == r->id;
    }
    return count >= WAITING_MAX || bytes > m->options.staging_bytes;
}

/* Its last try has failed, or that of another one in the same place. */
static bool is_doubtful(const struct exp_master *m, const struct exp_upload *upload)
{
    for (const struct exp_upload *u = m->uploads; u != NULL; u = u->next)
        if (u->error[0] != '\0' && !u->is_done && strcmp(u->location, upload->location) == 0)
            return true;
    return false;
}

/* The next to begin, when its time comes: new ones first. A store out of reach does not keep others
 * waiting: only one of those that may fail again is tried at a time. NULL: none can begin. */
static struct exp_upload *next_upload(const struct exp_master *m)
{
    struct exp_upload *best = NULL;
    bool is_trying = false;
    int running = 0;
    for (const struct exp_upload *u = m->uploads; u != NULL; u = u->next) {
        running += u->job != NULL;
        is_trying |= u->job != NULL && is_doubtful(m, u);
    }
    if (running >= AT_A_TIME)
        return NULL;
    for (struct exp_upload *u = m->uploads; u != NULL; u = u->next)
        if (is_waiting(u) && u->job == NULL && (best == NULL || u->retry_ns < best->retry_ns) &&
            !(is_trying && is_doubtful(m, u)))
            best = u;
    return best;
}

uint64_t exp_uploads_deadline(const struct exp_master *m)
{
    const struct exp_upload *next = next_upload(m);
    return next != NULL ? next->retry_ns : UINT64_MAX;
}

/* ---- a turn ---- */

static enum ebb_status start(struct exp_master *m, struct exp_upload *u, struct ebb_error *err)
{
    struct exp_job *job = exp_job_create(EXP_JOB_UPLOAD);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    enum ebb_status status = exp_job_place(m, job, u->location, EXP_STORAGE_SECTION, err);
    EBB_THEN(status, exp_text_set(&job->uuid, u->uuid, err));
    if (status != EBB_OK) {
        exp_job_destroy(job);
        return status;
    }
    u->job = job;
    exp_job_later(m, job);
    return EBB_OK;
}

static bool is_read(const struct exp_master *m, const char *uuid)
{
    for (size_t i = 0; i < m->alloc_count; i++)
        if (strcmp(m->allocs[i]->from.uuid, uuid) == 0)
            return true;
    return exp_check_reads(m, uuid);
}

/* Out of sight at once: whoever wants it from now on finds nothing, not the half of it. */
static enum ebb_status evict(struct exp_master *m, const char *place, const char *uuid,
                             struct ebb_error *err)
{
    char path[4096], gone[4096 + 8];
    snprintf(path, sizeof path, "%s/%s/%s", m->state_dir, place, uuid);
    snprintf(gone, sizeof gone, "%s/%s/.%s" GONE, m->state_dir, place, uuid);
    return exp_gc_remove_tree(m, rename(path, gone) == 0 ? gone : path, NULL, 0, err);
}

/* The staged copy of one that is in its store becomes the cached one. */
static enum ebb_status retire(struct exp_master *m, const char *uuid, struct ebb_error *err)
{
    char staged[4096], cached[4096], journal[4096 + 8];
    snprintf(staged, sizeof staged, "%s/" EXP_STAGING "/%s", m->state_dir, uuid);
    snprintf(cached, sizeof cached, "%s/" EXP_CACHE "/%s", m->state_dir, uuid);
    snprintf(journal, sizeof journal, "%s.journal", staged);
    (void)unlink(journal);
    m->is_trim_due = true;
    return rename(staged, cached) == 0 ? EBB_OK : evict(m, EXP_STAGING, uuid, err);
}

struct cached {
    char uuid[EXP_UUID_TEXT];
    int64_t bytes;
    bool is_known; /* there is a row of it */
    bool is_over;  /* which does not say ACTIVE or ERROR: nobody deals with it any more */
    struct timespec used;
};

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct cached *)a)->used,
                          *y = &((const struct cached *)b)->used;
    return x->tv_sec != y->tv_sec ? (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec)
                                  : (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static enum ebb_status list_cache(struct exp_master *m, const char *path, struct cached **list,
                                  size_t *count, struct ebb_error *err)
{
    size_t capacity = 0;
    enum ebb_status status = EBB_OK;
    DIR *dir = opendir(path);
    if (dir == NULL)
        return EBB_OK;
    for (struct dirent *e; status == EBB_OK && (e = readdir(dir)) != NULL;) {
        struct exp_db_checkpoint row = {0};
        struct stat st;
        bool is_known = false;
        if (!exp_store_is_uuid(e->d_name) || fstatat(dirfd(dir), e->d_name, &st, 0) != 0)
            continue;
        status = exp_db_only(exp_db_checkpoint_read(m->db, EXP_DB_NAME(e->d_name), &row, err),
                             &m->turn_arena, &is_known);
        EBB_THEN(status, ebb_grow(list, &capacity, *count + 1, sizeof **list, err));
        if (status != EBB_OK)
            break;
        struct cached *one = &(*list)[(*count)++];
        *one = (struct cached){
            .bytes = is_known ? row.size : 0, .is_known = is_known, .used = st.st_mtim};
        one->is_over =
            !is_known || strcmp(row.state, "COMPLETED") == 0 || strcmp(row.state, "DELETED") == 0;
        memcpy(one->uuid, e->d_name, sizeof one->uuid);
    }
    closedir(dir);
    return status;
}

/* Above its limit, or all of it where a trial finds no room to write, the cache loses what was not
 * used for longest, except what is being read; and what no row knows. */
static enum ebb_status trim(struct exp_master *m, struct ebb_error *err)
{
    char path[4096];
    struct cached *list = NULL;
    size_t count = 0;
    uint64_t bytes = 0, limit = m->is_room_short ? 0 : m->options.cache_bytes;
    m->is_room_short = false;
    snprintf(path, sizeof path, "%s/" EXP_CACHE, m->state_dir);
    enum ebb_status status = list_cache(m, path, &list, &count, err);
    if (count > 0)
        qsort(list, count, sizeof *list, by_use);
    for (size_t i = 0; i < count; i++)
        bytes += (uint64_t)list[i].bytes;
    for (size_t i = 0; status == EBB_OK && i < count; i++)
        if ((bytes > limit || !list[i].is_known) && !is_read(m, list[i].uuid)) {
            bytes -= (uint64_t)list[i].bytes;
            status = evict(m, EXP_CACHE, list[i].uuid, err);
        }
    ebb_free(list);
    return status;
}

enum ebb_status exp_uploads_turn(struct exp_master *m, struct ebb_error *err)
{
    if (m->options.is_reading_only)
        return EBB_OK;
    for (struct exp_upload *u = m->uploads, *next; u != NULL; u = next) {
        next = u->next;
        /* Not before the commit that says so: a master killed in between needs the staged copy. */
        if (u->is_done && u->done_turn != m->turns && !is_read(m, u->uuid)) {
            EBB_TRY(retire(m, u->uuid, err));
            drop(m, u);
        }
    }
    for (struct exp_upload *u;
         !m->is_closing && (u = next_upload(m)) != NULL && u->retry_ns <= m->now_ns;)
        EBB_TRY(start(m, u, err));
    for (size_t i = 0; i < m->alloc_count; i++) {
        struct exp_alloc *a = m->allocs[i];
        if (a->is_held && a->conn != NULL && a->phase == EXP_ALLOC_TALKING && !a->is_kill_due)
            EBB_TRY(exp_alloc_next(m, a, err));
    }
    if (!m->is_trim_due)
        return EBB_OK;
    m->is_trim_due = false;
    return trim(m, err);
}

/* ---- recovering ---- */

/* A master that was killed right after an upload leaves its staged copy. One that was sealed and is
 * not in the rows yet stays: its trial says so again. */
static enum ebb_status clear_staging(struct exp_master *m, struct ebb_error *err)
{
    char path[4096];
    struct cached *list = NULL;
    size_t count = 0;
    snprintf(path, sizeof path, "%s/" EXP_STAGING, m->state_dir);
    enum ebb_status status = list_cache(m, path, &list, &count, err);
    for (size_t i = 0; status == EBB_OK && i < count; i++)
        if (list[i].is_over && find(m, list[i].uuid) == NULL && !is_read(m, list[i].uuid))
            status = retire(m, list[i].uuid, err);
    ebb_free(list);
    return status;
}

/* What a master that was killed had begun to fetch, or to remove. */
static enum ebb_status clear_halves(struct exp_master *m, const char *place, struct ebb_error *err)
{
    char path[4096];
    bool is_cache = strcmp(place, EXP_CACHE) == 0;
    enum ebb_status status = EBB_OK;
    snprintf(path, sizeof path, "%s/%s", m->state_dir, place);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && status == EBB_OK && (e = readdir(dir)) != NULL;) {
        size_t n = strlen(e->d_name), k = strlen(GONE);
        bool is_gone = n > k && strcmp(e->d_name + n - k, GONE) == 0;
        if (e->d_name[0] != '.' || n < EXP_UUID_TEXT || !(is_cache || is_gone))
            continue;
        snprintf(path, sizeof path, "%s/%s/%.300s", m->state_dir, place, e->d_name);
        status = exp_gc_remove_tree(m, path, NULL, 0, err);
    }
    if (dir != NULL)
        closedir(dir);
    return status;
}

enum ebb_status exp_uploads_recover(struct exp_master *m, struct ebb_error *err)
{
    struct exp_db_checkpoint *rows = NULL;
    struct ebb_arena arena;
    size_t count = 0;
    ebb_arena_init(&arena);
    enum ebb_status status =
        exp_db_all(exp_db_checkpoints_staged(m->db, NULL, NULL, err), &arena, &rows, &count);
    for (size_t i = 0; status == EBB_OK && i < count; i++) {
        struct exp_upload upload = {.experiment_id = rows[i].experiment_id,
                                    .trial_id = rows[i].trial_id,
                                    .step = rows[i].step_id,
                                    .bytes = rows[i].size};
        snprintf(upload.uuid, sizeof upload.uuid, "%s", rows[i].uuid);
        status = exp_upload_add(m, &upload, rows[i].storage, err);
    }
    ebb_arena_fini(&arena);
    m->is_trim_due = true;
    if (m->options.is_reading_only)
        return status;
    EBB_THEN(status, clear_halves(m, EXP_STAGING, err));
    EBB_THEN(status, clear_halves(m, EXP_CACHE, err));
    EBB_THEN(status, clear_staging(m, err));
    return status;
}

/* ---- results ---- */

static enum ebb_status arrived(struct exp_master *m, struct exp_upload *u, struct ebb_error *err)
{
    uint64_t pointer = 0;
    u->is_done = true;
    u->done_turn = m->turns;
    m->wants_turn = m->is_schedule_due = true;
    EBB_TRY(exp_db_checkpoint_set_state(
        m->db, &(struct exp_db_checkpoint_state){u->uuid, "COMPLETED"}, err));
    if (u->error[0] != '\0')
        ebb_log(m->options.log, EBB_LOG_INFO, "checkpoint %s is uploaded after all", u->uuid);
    if (ebb_map_get(&m->trials, (uint64_t)u->trial_id, &pointer))
        exp_notice_work(m, (struct exp_trial *)(uintptr_t)pointer, "checkpoint", u->step, u->uuid,
                        NULL, false);
    return EBB_OK;
}

static enum ebb_status discard(struct exp_master *m, struct exp_upload *u, struct ebb_error *err);

/* The staged copy is damaged or gone: no later try goes better. If it was its trial's last one, the
 * trial makes another, or begins at the one before. */
static enum ebb_status give_up(struct exp_master *m, struct exp_upload *u, const char *why,
                               struct ebb_error *err)
{
    uint64_t pointer = 0;
    char text[512], uuid[EXP_UUID_TEXT];
    snprintf(text, sizeof text, "checkpoint %s of step %lld is lost: %.400s", u->uuid,
             (long long)u->step, why);
    memcpy(uuid, u->uuid, sizeof uuid);
    ebb_log(m->options.log, EBB_LOG_WARN, "%s", text);
    m->wants_turn = m->is_schedule_due = true;
    struct exp_trial *r = ebb_map_get(&m->trials, (uint64_t)u->trial_id, &pointer)
                              ? (struct exp_trial *)(uintptr_t)pointer
                              : NULL;
    if (r != NULL)
        EBB_TRY(exp_log_add(m, r, "WARNING", text, err));
    if (r == NULL || r->state != EXP_TRIAL_ACTIVE || r->sequence.checkpoint != u->step ||
        exp_sequence_is_done(&r->sequence)) {
        EBB_TRY(exp_db_checkpoint_set_state(
            m->db, &(struct exp_db_checkpoint_state){u->uuid, "ERROR"}, err));
        return discard(m, u, err);
    }
    EBB_TRY(exp_upload_lost(m, r, uuid, err));
    exp_trial_update_task(m, r);
    return EBB_OK;
}

enum ebb_status exp_upload_job_done(struct exp_master *m, const struct exp_job *job,
                                    struct ebb_error *err)
{
    struct exp_upload *u = find(m, job->uuid);
    if (u == NULL)
        return EBB_OK;
    u->job = NULL;
    if (u->is_unwanted) { /* its removal comes next */
        drop(m, u);
        return EBB_OK;
    }
    if (job->status == EBB_OK)
        return arrived(m, u, err);
    if (job->status == EBB_ECANCELED && m->is_closing)
        return EBB_OK; /* the next master goes on */
    if (job->status == EBB_ECORRUPT)
        return give_up(m, u, job->err.message, err);
    if (u->error[0] == '\0')
        ebb_log(m->options.log, EBB_LOG_WARN,
                "checkpoint %s is not uploaded yet, tried again every 30 s: %s", u->uuid,
                job->err.message);
    snprintf(u->error, sizeof u->error, "%.*s", (int)sizeof u->error - 1, job->err.message);
    u->retry_ns = m->now_ns + AGAIN_NS;
    return EBB_OK;
}

/* ---- giving up ---- */

/* Its row is dealt with; its copies go, here and there, when its job has given up (jobs.h). */
static enum ebb_status discard(struct exp_master *m, struct exp_upload *u, struct ebb_error *err)
{
    EBB_TRY(exp_gc_remove_checkpoint(m, u->uuid, u->location, 0, err));
    if (u->job == NULL) {
        drop(m, u);
        return EBB_OK;
    }
    u->is_unwanted = true;
    atomic_store(&u->job->watch.is_unwanted, true);
    return EBB_OK;
}

enum ebb_status exp_uploads_cancel(struct exp_master *m, int64_t experiment, struct ebb_error *err)
{
    for (struct exp_upload *u = m->uploads, *next; u != NULL; u = next) {
        next = u->next;
        if (!is_waiting(u) || u->experiment_id != experiment)
            continue;
        EBB_TRY(exp_db_checkpoint_set_state(
            m->db, &(struct exp_db_checkpoint_state){u->uuid, "ERROR"}, err));
        EBB_TRY(discard(m, u, err));
    }
    return EBB_OK;
}

enum ebb_status exp_upload_lost(struct exp_master *m, struct exp_trial *r, const char *uuid,
                                struct ebb_error *err)
{
    struct exp_db_checkpoint row = {0};
    struct exp_upload *u = find(m, uuid);
    struct exp_db_step_id at = {r->id, r->sequence.checkpoint};
    bool is_there;
    if (u != NULL && !u->is_done)
        EBB_TRY(discard(m, u, err));
    EBB_TRY(exp_gc_discard(m, uuid, err)); /* the step gets a checkpoint again */
    EBB_TRY(exp_db_only(exp_db_checkpoint_read(m->db, EXP_DB_NAME(uuid), &row, err), &m->turn_arena,
                        &is_there));
    if (is_there) { /* in its store, and damaged there: nothing can start from it */
        EBB_TRY(exp_gc_remove_checkpoint(m, uuid, row.storage, 0, err));
        EBB_TRY(exp_db_checkpoint_delete(m->db, EXP_DB_NAME(uuid), err));
    }
    EBB_TRY(exp_db_only(exp_db_checkpoint_below(m->db, &at, &row, err), &m->turn_arena, &is_there));
    exp_sequence_rewind(&r->sequence, is_there ? row.step_id : 0);
    exp_dirty_trial(m, r);
    return exp_trial_roll_back(m, r, err);
}
