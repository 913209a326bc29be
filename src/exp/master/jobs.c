/* jobs.c - see jobs.h. */
#include "exp/master/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/thread.h"

#define BATCH_MAX 64
#define THREADS_MAX EXP_JOBS_REMOTE
#define ALIKE_MAX 2 /* that ask servers, of a kind */

struct exp_jobs {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct exp_job *first, *last; /* waiting */
    struct exp_job *done, *done_last;
    size_t out; /* loop's thread only */
    bool is_ending;
    int fd;
    int thread_count;
    pthread_t threads[THREADS_MAX];
    struct exp_job *current[THREADS_MAX]; /* batches in progress */
};

struct exp_job *exp_job_create(enum exp_job_kind kind)
{
    struct exp_job *job = ebb_calloc(1, sizeof *job);
    if (job != NULL) {
        job->kind = kind;
        ebb_str_init(&job->resources);
    }
    return job;
}

void exp_model_release(struct exp_model *model)
{
    if (model == NULL || --model->uses > 0)
        return;
    for (size_t i = 0; i < model->count; i++)
        ebb_free(model->blocks[i]);
    ebb_free(model->blocks);
    ebb_free(model->files);
    ebb_free(model);
}

void exp_job_destroy(struct exp_job *job)
{
    if (job == NULL)
        return;
    ebb_free(job->location);
    ebb_free(job->uuid);
    ebb_free(job->metadata);
    ebb_free(job->work_dir);
    ebb_free(job->code_from);
    ebb_free(job->access_key);
    if (job->secret_key != NULL)
        explicit_bzero(job->secret_key, strlen(job->secret_key));
    ebb_free(job->secret_key);
    ebb_str_fini(&job->resources);
    exp_model_release(job->model);
    ebb_free(job);
}

/* ---- the threads' side ---- */

static bool joins(const struct exp_job *a, const struct exp_job *b)
{
    return b->kind == EXP_JOB_PUBLISH && strcmp(a->location, b->location) == 0;
}

/* Nobody waits for it any more: it ends at once. */
static bool is_left(const struct exp_job *job)
{
    return job->kind == EXP_JOB_PREPARE && atomic_load(&job->watch.is_unwanted);
}

/* Nobody else is at the same checkpoint, and not too many do the same. */
static bool may_begin(const struct exp_jobs *jobs, const struct exp_job *job)
{
    int alike = 0;
    for (int i = 0; job->is_remote && !is_left(job) && i < THREADS_MAX; i++) {
        const struct exp_job *other = jobs->current[i];
        if (other == NULL)
            continue;
        if (job->uuid != NULL && other->uuid != NULL && strcmp(job->uuid, other->uuid) == 0)
            return false;
        alike += job->kind == other->kind && job->kind != EXP_JOB_CHECK;
    }
    return alike < ALIKE_MAX;
}

/* Is one that waits before `job` at the same checkpoint? */
static bool is_behind(const struct exp_jobs *jobs, const struct exp_job *job)
{
    for (const struct exp_job *at = jobs->first; job->uuid != NULL && !is_left(job) && at != job;
         at = at->next)
        if (at->is_remote && at->uuid != NULL && strcmp(at->uuid, job->uuid) == 0)
            return true;
    return false;
}

/* The oldest job that may begin, and with it all that can be done together; NULL: none may. */
static struct exp_job *take_batch(struct exp_jobs *jobs)
{
    struct exp_job **first = &jobs->first;
    while (*first != NULL &&
           !(may_begin(jobs, *first) && !((*first)->is_remote && is_behind(jobs, *first))))
        first = &(*first)->next;
    struct exp_job *batch = *first, *tail = batch;
    size_t count = 1;
    if (batch == NULL)
        return NULL;
    *first = batch->next;
    batch->next = NULL;
    for (struct exp_job **at = &jobs->first; batch->kind == EXP_JOB_PUBLISH && *at != NULL;) {
        struct exp_job *job = *at;
        if (count == BATCH_MAX || !joins(batch, job)) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->next = NULL;
        tail->next = job;
        tail = job;
        count++;
    }
    jobs->last = jobs->first;
    while (jobs->last != NULL && jobs->last->next != NULL)
        jobs->last = jobs->last->next;
    return batch;
}

static void publish(struct exp_job *batch)
{
    struct exp_store_item items[BATCH_MAX];
    struct exp_store *store = NULL;
    struct ebb_error err;
    size_t count = 0;
    enum ebb_status status = exp_store_open_location(batch->location, NULL, NULL, &store, &err);
    for (struct exp_job *job = batch; job != NULL; job = job->next) {
        job->status = status;
        job->err = err;
        items[count++] =
            (struct exp_store_item){.uuid = job->uuid,
                                    .metadata = job->metadata,
                                    .code = job->model != NULL ? job->model->files : NULL,
                                    .code_count = job->model != NULL ? job->model->count : 0,
                                    .names = job->names,
                                    .code_from = job->code_from};
    }
    if (status != EBB_OK)
        return;
    exp_store_publish(store, items, count);
    count = 0;
    for (struct exp_job *job = batch; job != NULL; job = job->next, count++) {
        job->status = items[count].status;
        job->err = items[count].err;
        job->resources = items[count].resources;
        job->size = items[count].size;
    }
    exp_store_close(store);
}

static enum ebb_status open_store(struct exp_job *job, struct exp_store **store)
{
    struct exp_store_keys keys = {job->access_key, job->secret_key};
    return exp_store_open_location(job->location, &keys, job->net, store, &job->err);
}

/* <state>/<place>/<uuid><suffix> */
static void path_of(const struct exp_job *job, const char *place, const char *suffix, char *path,
                    size_t size)
{
    snprintf(path, size, "%s/%s/%s%s", job->state_dir, place, job->uuid, suffix);
}

/* The copy that was fetched before. EBB_EINPUT: there is none (any more). All who start from this
 * checkpoint share it: it is removed only when it is damaged, and stays when it cannot be read. */
static enum ebb_status verify_fetched(struct exp_job *job, const char *cache)
{
    struct exp_storage storage = {.kind = EXP_STORAGE_SHARED_FS, .directory = cache};
    struct exp_store *here = NULL;
    char path[4096];
    path_of(job, EXP_CACHE, "", path, sizeof path);
    EBB_TRY(exp_store_open(&storage, 0, NULL, &here, &job->err));
    enum ebb_status status = exp_store_verify(here, job->uuid, &job->err);
    exp_store_close(here);
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* used now: goes last */
    if (status != EBB_ECORRUPT)
        return status;
    EBB_TRY(exp_store_remove_tree(path, &job->err));
    return EBB_EINPUT;
}

static enum ebb_status fetch(struct exp_job *job, const struct exp_store *store)
{
    char cache[4096];
    snprintf(cache, sizeof cache, "%s/%s", job->state_dir, EXP_CACHE);
    enum ebb_status status = verify_fetched(job, cache);
    if (status != EBB_EINPUT)
        return status;
    return exp_store_fetch(store, job->uuid, job->resources.data, cache, &job->watch, &job->err);
}

static enum ebb_status prepare(struct exp_job *job)
{
    struct exp_store *store = NULL;
    if (is_left(job))
        return ebb_fail(&job->err, EBB_ECANCELED, "given up");
    if (job->model != NULL)
        EBB_TRY(exp_store_unpack(job->work_dir, job->model->files, job->model->count, &job->err));
    if (job->uuid == NULL)
        return EBB_OK;
    EBB_TRY(open_store(job, &store));
    enum ebb_status status = exp_store_is_remote(store)
                                 ? fetch(job, store)
                                 : exp_store_verify(store, job->uuid, &job->err);
    exp_store_close(store);
    if (status == EBB_EINPUT && job->is_staged)
        status = ebb_context(&job->err, EBB_ECORRUPT, "the staged copy is gone");
    return status;
}

static enum ebb_status upload(struct exp_job *job)
{
    struct exp_store *store = NULL;
    char staged[4096], journal[4096];
    path_of(job, EXP_STAGING, "", staged, sizeof staged);
    path_of(job, EXP_STAGING, ".journal", journal, sizeof journal);
    EBB_TRY(open_store(job, &store));
    enum ebb_status status =
        exp_store_upload(store, job->uuid, staged, journal, &job->watch, &job->err);
    exp_store_close(store);
    return status;
}

/* What a remote checkpoint has on this machine. */
static enum ebb_status remove_copies(struct exp_job *job)
{
    static const char *const names[][2] = {{EXP_STAGING "/.", ".tmp"},
                                           {EXP_STAGING "/", ""},
                                           {EXP_CACHE "/.", ".tmp"},
                                           {EXP_CACHE "/", ""}};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s%s%s", job->state_dir, names[i][0], job->uuid,
                 names[i][1]);
        EBB_TRY(exp_store_remove_tree(path, &job->err));
    }
    return EBB_OK;
}

/* One that was never staged is not in a remote store either: no server is asked. */
static enum ebb_status remove_checkpoint(struct exp_job *job)
{
    struct exp_store *store = NULL;
    char journal[4096];
    path_of(job, EXP_STAGING, ".journal", journal, sizeof journal);
    EBB_TRY(open_store(job, &store));
    bool is_remote = exp_store_is_remote(store);
    enum ebb_status status = is_remote ? remove_copies(job) : EBB_OK;
    if (!is_remote || job->resources.length > 0)
        EBB_THEN(status, exp_store_remove(store, job->uuid, job->resources.data,
                                          is_remote ? journal : NULL, &job->watch, &job->err));
    if (status == EBB_OK && is_remote && unlink(journal) != 0 && errno != ENOENT)
        status = ebb_fail(&job->err, EBB_EIO, "cannot remove %s: %s", journal, strerror(errno));
    exp_store_close(store);
    return status;
}

static enum ebb_status check(struct exp_job *job)
{
    struct exp_store *store = NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s/tmp", job->state_dir);
    job->watch.tries = 2; /* somebody waits */
    EBB_TRY(open_store(job, &store));
    enum ebb_status status = exp_store_check(store, path, &job->watch, &job->err);
    exp_store_close(store);
    return status;
}

static enum ebb_status mirror(struct exp_job *job)
{
    struct exp_store *store = NULL;
    EBB_TRY(open_store(job, &store));
    bool is_removal = job->kind == EXP_JOB_UNMIRROR;
    enum ebb_status status = (is_removal ? exp_store_unmirror : exp_store_mirror)(
        store, job->uuid, job->work_dir, &job->watch, &job->err);
    if (is_removal)
        EBB_THEN(status, exp_store_remove_tree(job->work_dir, &job->err));
    exp_store_close(store);
    return status;
}

static void run_batch(struct exp_job *batch)
{
    switch (batch->kind) {
    case EXP_JOB_PUBLISH:
        publish(batch);
        break;
    case EXP_JOB_PREPARE:
        batch->status = prepare(batch);
        break;
    case EXP_JOB_REMOVE:
        batch->status = remove_checkpoint(batch);
        break;
    case EXP_JOB_REMOVE_TREE:
        batch->status = exp_store_remove_tree(batch->work_dir, &batch->err);
        break;
    case EXP_JOB_UPLOAD:
        batch->status = upload(batch);
        break;
    case EXP_JOB_CHECK:
        batch->status = check(batch);
        break;
    case EXP_JOB_MIRROR:
    case EXP_JOB_UNMIRROR:
        batch->status = mirror(batch);
        break;
    }
}

static void *work(void *context)
{
    struct exp_jobs *jobs = context;
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        struct exp_job *batch = NULL;
        while (!jobs->is_ending && (batch = take_batch(jobs)) == NULL)
            pthread_cond_wait(&jobs->changed, &jobs->lock);
        if (batch == NULL)
            break;
        struct exp_job **current = jobs->current;
        while (*current != NULL)
            current++;
        *current = batch;
        pthread_mutex_unlock(&jobs->lock);
        run_batch(batch);
        pthread_mutex_lock(&jobs->lock);
        *current = NULL;
        pthread_cond_broadcast(&jobs->changed); /* what waited for this one may begin */
        if (jobs->done_last != NULL)
            jobs->done_last->next = batch;
        else
            jobs->done = batch;
        for (jobs->done_last = batch; jobs->done_last->next != NULL;)
            jobs->done_last = jobs->done_last->next;
        uint64_t one = 1;
        ssize_t n = write(jobs->fd, &one, sizeof one); /* cannot block: the counter is small */
        (void)n;
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

/* ---- the loop's side ---- */

enum ebb_status exp_jobs_create(int threads, struct exp_jobs **jobs, struct ebb_error *err)
{
    struct exp_jobs *made;
    EBB_TRY(ebb_new(&made, 1, sizeof *made, err));
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    while (made->fd >= 0 && made->thread_count < threads && made->thread_count < THREADS_MAX &&
           ebb_thread_start(&made->threads[made->thread_count], work, made) == 0)
        made->thread_count++;
    enum ebb_status status =
        made->thread_count > 0 ? EBB_OK : ebb_fail(err, EBB_EIO, "master: cannot start threads");
    return EBB_HAND_OUT(status, jobs, made, exp_jobs_destroy);
}

static void destroy_list(struct exp_job *job)
{
    while (job != NULL) {
        struct exp_job *next = job->next;
        exp_job_destroy(job);
        job = next;
    }
}

static void unwant(struct exp_jobs *jobs)
{
    for (int i = 0; i < THREADS_MAX; i++)
        if (jobs->current[i] != NULL)
            atomic_store(&jobs->current[i]->watch.is_unwanted, true);
    for (struct exp_job *job = jobs->first; job != NULL; job = job->next)
        atomic_store(&job->watch.is_unwanted, true);
}

void exp_jobs_unwant(struct exp_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    unwant(jobs);
    pthread_mutex_unlock(&jobs->lock);
}

void exp_jobs_leave(struct exp_jobs *jobs, const char *allocation)
{
    pthread_mutex_lock(&jobs->lock);
    for (int i = 0; i < THREADS_MAX; i++)
        if (jobs->current[i] != NULL && strcmp(jobs->current[i]->allocation, allocation) == 0)
            atomic_store(&jobs->current[i]->watch.is_unwanted, true);
    for (struct exp_job *job = jobs->first; job != NULL; job = job->next)
        if (strcmp(job->allocation, allocation) == 0)
            atomic_store(&job->watch.is_unwanted, true);
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
}

void exp_jobs_destroy(struct exp_jobs *jobs)
{
    if (jobs == NULL)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->is_ending = true;
    unwant(jobs);
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
    for (int i = 0; i < jobs->thread_count; i++)
        pthread_join(jobs->threads[i], NULL);
    destroy_list(jobs->first);
    destroy_list(jobs->done);
    if (jobs->fd >= 0)
        close(jobs->fd);
    pthread_cond_destroy(&jobs->changed);
    pthread_mutex_destroy(&jobs->lock);
    ebb_free(jobs);
}

int exp_jobs_fd(const struct exp_jobs *jobs)
{
    return jobs->fd;
}

void exp_jobs_add(struct exp_jobs *jobs, struct exp_job *job)
{
    job->next = NULL;
    jobs->out++;
    pthread_mutex_lock(&jobs->lock);
    if (jobs->last != NULL)
        jobs->last->next = job;
    else
        jobs->first = job;
    jobs->last = job;
    pthread_cond_signal(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
}

struct exp_job *exp_jobs_take(struct exp_jobs *jobs)
{
    uint64_t count;
    pthread_mutex_lock(&jobs->lock);
    struct exp_job *job = jobs->done;
    if (job != NULL) {
        jobs->done = job->next;
        if (jobs->done == NULL)
            jobs->done_last = NULL;
        job->next = NULL;
        jobs->out--;
    } else {
        ssize_t n = read(jobs->fd, &count, sizeof count);
        (void)n;
    }
    pthread_mutex_unlock(&jobs->lock);
    return job;
}

size_t exp_jobs_count(const struct exp_jobs *jobs)
{
    return jobs->out;
}
