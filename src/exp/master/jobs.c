/* jobs.c - see jobs.h. */
#include "exp/master/jobs.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/heap.h"

#define BATCH_MAX 64
#define THREADS_MAX 8

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
    ebb_str_fini(&job->resources);
    exp_model_release(job->model);
    ebb_free(job);
}

/* ---- the threads' side ---- */

static bool joins(const struct exp_job *a, const struct exp_job *b)
{
    return b->kind == EXP_JOB_PUBLISH && strcmp(a->location, b->location) == 0;
}

/* The oldest job, and with it all that can be done together. */
static struct exp_job *take_batch(struct exp_jobs *jobs)
{
    struct exp_job *batch = jobs->first, *tail = batch;
    size_t count = 1;
    jobs->first = batch->next;
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
    enum ebb_status status = exp_store_open_location(batch->location, &store, &err);
    for (struct exp_job *job = batch; job != NULL; job = job->next) {
        job->status = status;
        job->err = err;
        items[count++] =
            (struct exp_store_item){.uuid = job->uuid,
                                    .metadata = job->metadata,
                                    .code = job->model != NULL ? job->model->files : NULL,
                                    .code_count = job->model != NULL ? job->model->count : 0};
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

static enum ebb_status prepare(struct exp_job *job)
{
    struct exp_store *store = NULL;
    if (job->model != NULL)
        EBB_TRY(exp_store_unpack(job->work_dir, job->model->files, job->model->count, &job->err));
    if (job->uuid == NULL)
        return EBB_OK;
    EBB_TRY(exp_store_open_location(job->location, &store, &job->err));
    enum ebb_status status = exp_store_verify(store, job->uuid, &job->err);
    exp_store_close(store);
    return status;
}

static enum ebb_status remove_checkpoint(struct exp_job *job)
{
    struct exp_store *store = NULL;
    EBB_TRY(exp_store_open_location(job->location, &store, &job->err));
    enum ebb_status status = exp_store_remove(store, job->uuid, &job->err);
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
    }
}

static void *work(void *context)
{
    struct exp_jobs *jobs = context;
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        while (jobs->first == NULL && !jobs->is_ending)
            pthread_cond_wait(&jobs->changed, &jobs->lock);
        if (jobs->is_ending)
            break;
        struct exp_job *batch = take_batch(jobs);
        pthread_mutex_unlock(&jobs->lock);
        run_batch(batch);
        pthread_mutex_lock(&jobs->lock);
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
    sigset_t all, before;
    struct exp_jobs *made;
    EBB_TRY(ebb_new(&made, 1, sizeof *made, err));
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigfillset(&all); /* signals are the caller's thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (made->fd >= 0 && made->thread_count < threads && made->thread_count < THREADS_MAX) {
        if (pthread_create(&made->threads[made->thread_count], NULL, work, made) != 0)
            break;
        made->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made->thread_count == 0) {
        exp_jobs_destroy(made);
        return ebb_fail(err, EBB_EIO, "master: cannot start threads");
    }
    *jobs = made;
    return EBB_OK;
}

static void destroy_list(struct exp_job *job)
{
    while (job != NULL) {
        struct exp_job *next = job->next;
        exp_job_destroy(job);
        job = next;
    }
}

void exp_jobs_destroy(struct exp_jobs *jobs)
{
    if (jobs == NULL)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->is_ending = true;
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
