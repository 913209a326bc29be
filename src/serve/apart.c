/* apart.c - reading in threads: see inner.h. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/thread.h"
#include "serve/inner.h"

#define THREADS 2
#define KEPT 64
#define SLOW_MAX 16             /* programs that wait for their turn; ten seconds each, at worst */
#define LARGE ((size_t)4 << 20) /* answers that leave in pieces */

struct kept {
    uint64_t used; /* when: the one that was used longest ago goes first */
    char *key, *answer;
    size_t key_length, answer_length;
};

struct list {
    struct serve_job *first, *last;
};

struct serve_apart {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t wake;
    struct list asked, done;
    size_t waiting; /* in asked */
    bool is_closing;
    int fd;
    char path[4096]; /* of the database; constant */
    pthread_t threads[THREADS];
    size_t thread_count;
    struct kept kept[KEPT];
    uint64_t uses;
};

static void push(struct list *l, struct serve_job *job)
{
    job->next = NULL;
    if (l->last != NULL)
        l->last->next = job;
    else
        l->first = job;
    l->last = job;
}

static struct serve_job *pop(struct list *l)
{
    struct serve_job *job = l->first;
    if (job != NULL && (l->first = job->next) == NULL)
        l->last = NULL;
    return job;
}

/* ---- jobs ---- */

struct serve_job *serve_job_create(const struct serve_http_request *request)
{
    struct serve_job *job = ebb_calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    serve_http_response_init(&job->response);
    job->method = ebb_strdup(request->method);
    job->target = ebb_strdup(request->target);
    job->body = request->body_length > 0 ? ebb_strndup(request->body, request->body_length) : NULL;
    job->body_length = request->body_length;
    job->user = request->user != NULL ? ebb_strdup(request->user) : NULL;
    job->is_remote = request->is_remote;
    job->is_read_only = request->is_read_only;
    if (job->method == NULL || job->target == NULL || (job->body_length > 0 && job->body == NULL) ||
        (request->user != NULL && job->user == NULL)) {
        serve_job_destroy(job);
        return NULL;
    }
    return job;
}

void serve_job_destroy(struct serve_job *job)
{
    if (job == NULL)
        return;
    serve_http_response_fini(&job->response);
    ebb_free(job->method);
    ebb_free(job->target);
    ebb_free(job->body);
    ebb_free(job->user);
    ebb_free(job);
}

/* ---- threads ---- */

/* As files do: so that no turn copies tens of megabytes. What fails leaves it in memory. */
static void put_into_file(struct serve_http_response *r)
{
    int fd = memfd_create("ebb-answer", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < r->body.length;) {
        ssize_t n = write(fd, r->body.data + at, r->body.length - at);
        at += n > 0 ? (size_t)n : 0;
        if (n <= 0 && errno != EINTR) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0)
        return;
    r->has_file = true;
    r->file = fd;
    r->file_bytes = (int64_t)r->body.length;
    ebb_str_fini(&r->body);
}

static void answer(struct serve_apart *a, struct serve_job *job, struct exp_db *db,
                   const struct ebb_error *why)
{
    struct serve_http_response *r = &job->response;
    struct serve_http_text asked = {job->if_none_match, strlen(job->if_none_match)};
    struct serve_http_request request = {.method = job->method,
                                         .target = job->target,
                                         .body = job->body,
                                         .body_length = job->body_length,
                                         .user = job->user,
                                         .is_remote = job->is_remote,
                                         .is_read_only = job->is_read_only};
    struct ebb_error err;
    if (db == NULL)
        serve_http_write_error(r, 503, why->message);
    else if (serve_rest_read(db, a, &job->info, &request, r, &err) != EBB_OK)
        serve_http_write_error(r, 503, err.message);
    if (job->is_remote && strcmp(job->method, "GET") == 0)
        (void)serve_http_tag(r, asked);
    if (job->wants_gzip && strcmp(r->content_type, "application/gzip") != 0)
        serve_http_pack(r);
    if (job->is_remote && r->body.length > LARGE)
        put_into_file(r);
}

static void *work(void *context)
{
    struct serve_apart *a = context;
    struct exp_db *db = NULL;
    struct ebb_error err;
    struct exp_db_options options = {.path = a->path, .is_reading_only = true};
    pthread_mutex_lock(&a->lock);
    for (;;) {
        struct serve_job *job;
        while ((job = pop(&a->asked)) == NULL && !a->is_closing)
            pthread_cond_wait(&a->wake, &a->lock);
        if (job == NULL)
            break;
        a->waiting--;
        pthread_mutex_unlock(&a->lock);
        if (db == NULL && exp_db_open(&options, &db, &err) != EBB_OK)
            db = NULL; /* the next request tries again */
        answer(a, job, db, &err);
        pthread_mutex_lock(&a->lock);
        push(&a->done, job);
        (void)!write(a->fd, &(uint64_t){1}, 8);
    }
    pthread_mutex_unlock(&a->lock);
    exp_db_close(db);
    return NULL;
}

enum ebb_status serve_apart_open(const struct exp_master_info *info, struct serve_apart **apart,
                                 struct ebb_error *err)
{
    struct serve_apart *a;
    EBB_TRY(ebb_new(&a, 1, sizeof *a, err));
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->wake, NULL);
    snprintf(a->path, sizeof a->path, "%s/ebb.db", info->state_dir);
    a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int reason = a->fd < 0 ? errno : 0;
    while (reason == 0 && a->thread_count < THREADS &&
           (reason = ebb_thread_start(&a->threads[a->thread_count], work, a)) == 0)
        a->thread_count++;
    enum ebb_status status = EBB_OK;
    if (a->thread_count == 0)
        status = ebb_fail(err, EBB_EIO, "serve: no thread to read with: %s", strerror(reason));
    return EBB_HAND_OUT(status, apart, a, serve_apart_close);
}

void serve_apart_close(struct serve_apart *a)
{
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->lock);
    a->is_closing = true;
    for (struct serve_job *job; (job = pop(&a->asked)) != NULL;)
        serve_job_destroy(job);
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < a->thread_count; i++)
        pthread_join(a->threads[i], NULL);
    for (struct serve_job *job; (job = pop(&a->done)) != NULL;)
        serve_job_destroy(job);
    for (size_t i = 0; i < KEPT; i++) {
        ebb_free(a->kept[i].key);
        ebb_free(a->kept[i].answer);
    }
    if (a->fd >= 0)
        close(a->fd);
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    ebb_free(a);
}

int serve_apart_fd(const struct serve_apart *a)
{
    return a->fd;
}

bool serve_apart_add(struct serve_apart *a, struct serve_job *job)
{
    pthread_mutex_lock(&a->lock);
    bool is_taken = !job->is_slow || a->waiting < SLOW_MAX;
    if (is_taken) {
        push(&a->asked, job);
        a->waiting++;
        pthread_cond_signal(&a->wake);
    }
    pthread_mutex_unlock(&a->lock);
    return is_taken;
}

void serve_apart_forget(struct serve_apart *a, uint64_t conn)
{
    struct list kept = {0};
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->lock);
    for (struct serve_job *job; (job = pop(&a->asked)) != NULL;)
        if (job->conn != conn) {
            push(&kept, job);
        } else {
            serve_job_destroy(job);
            a->waiting--;
        }
    a->asked = kept;
    pthread_mutex_unlock(&a->lock);
}

struct serve_job *serve_apart_take(struct serve_apart *a)
{
    uint64_t count;
    (void)!read(a->fd, &count, sizeof count);
    pthread_mutex_lock(&a->lock);
    struct serve_job *job = pop(&a->done);
    pthread_mutex_unlock(&a->lock);
    return job;
}

/* ---- what was answered before ---- */

bool serve_apart_recall(struct serve_apart *a, const struct ebb_str *key, struct ebb_str *out)
{
    bool is_found = false;
    if (a == NULL)
        return false;
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < KEPT && !is_found; i++) {
        struct kept *k = &a->kept[i];
        is_found = k->key != NULL && k->key_length == key->length &&
                   memcmp(k->key, key->data, key->length) == 0;
        if (is_found) {
            k->used = ++a->uses;
            ebb_str_addn(out, k->answer, k->answer_length);
        }
    }
    pthread_mutex_unlock(&a->lock);
    return is_found && !out->failed;
}

void serve_apart_keep(struct serve_apart *a, const struct ebb_str *key,
                      const struct ebb_str *answer)
{
    if (a == NULL)
        return;
    char *k = ebb_strndup(key->data, key->length),
         *text = ebb_strndup(answer->data, answer->length);
    pthread_mutex_lock(&a->lock);
    struct kept *oldest = &a->kept[0];
    for (size_t i = 1; i < KEPT; i++)
        oldest = a->kept[i].used < oldest->used ? &a->kept[i] : oldest;
    struct kept gone = *oldest;
    if (k != NULL && text != NULL) {
        *oldest = (struct kept){++a->uses, k, text, key->length, answer->length};
        k = gone.key;
        text = gone.answer;
    }
    pthread_mutex_unlock(&a->lock);
    ebb_free(k);
    ebb_free(text);
}
