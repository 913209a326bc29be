/* boards.c - event files of experiments whose store cannot append: written on this machine, and sent
 * there whole again at most every 60 s while they grow, and once more when the experiment ends.
 *
 * <directory>/.remote.json says where they go; <state>/boards/<experiment>.json says the same for as
 * long as something may not have been sent, so that a next master sends it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/doc.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/log.h"
#include "exp/master/inner.h"

#define EVERY_NS 60000000000ull
#define AGAIN_NS 30000000000ull
#define REMOTE ".remote.json"

struct exp_board {
    int64_t experiment_id;
    char *directory, *location, *section; /* owned; section: of the configuration, has the keys */
    bool is_due;                          /* grown since it was last sent */
    bool is_last;                         /* the experiment ends: no waiting */
    bool is_unwanted;                     /* the experiment is being deleted */
    bool is_left;                         /* was canceled: nobody waits for it */
    uint64_t turn;                        /* metrics of this turn are written at its end */
    uint64_t next_ns;                     /* not before */
    struct exp_job *job;                  /* in progress, or NULL */
    char error[512];                      /* of the last try; "" = none */
    struct exp_board *next;
};

/* ---- the list ---- */

static struct exp_board *find(const struct exp_master *m, int64_t experiment)
{
    struct exp_board *b = m->boards;
    while (b != NULL && b->experiment_id != experiment)
        b = b->next;
    return b;
}

static void drop(struct exp_master *m, struct exp_board *b)
{
    struct exp_board **at = &m->boards;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    ebb_free(b->directory);
    ebb_free(b->location);
    ebb_free(b->section);
    ebb_free(b);
}

void exp_boards_forget(struct exp_master *m)
{
    while (m->boards != NULL)
        drop(m, m->boards);
}

static enum ebb_status add(struct exp_master *m, int64_t experiment, const char *directory,
                           const char *location, const char *section, struct exp_board **out,
                           struct ebb_error *err)
{
    struct exp_board *b = ebb_calloc(1, sizeof *b);
    if (b == NULL)
        return ebb_no_memory(err, sizeof *b);
    b->experiment_id = experiment;
    b->next = m->boards;
    m->boards = b;
    enum ebb_status status = exp_text_set(&b->directory, directory, err);
    EBB_THEN(status, exp_text_set(&b->location, location, err));
    EBB_THEN(status, exp_text_set(&b->section, section, err));
    if (status != EBB_OK)
        drop(m, b);
    else
        *out = b;
    return status;
}

bool exp_boards_wait(const struct exp_master *m)
{
    for (const struct exp_board *b = m->boards; b != NULL; b = b->next)
        if ((b->is_due || b->job != NULL) && !b->is_left)
            return true;
    return false;
}

bool exp_board_holds(struct exp_master *m, int64_t experiment)
{
    struct exp_board *b = find(m, experiment);
    if (b == NULL || (!b->is_due && b->job == NULL))
        return false;
    m->wants_turn |= !b->is_last;
    b->is_last = true;
    return true;
}

void exp_board_leave(struct exp_master *m, int64_t experiment)
{
    struct exp_board *b = find(m, experiment);
    if (b != NULL)
        b->is_left = true;
}

const char *exp_board_error(const struct exp_master *m, int64_t experiment)
{
    for (const struct exp_board *b = m->boards; b != NULL; b = b->next)
        if ((experiment == 0 || b->experiment_id == experiment) && b->error[0] != '\0')
            return b->error;
    return NULL;
}

/* Failed before: not so soon again. Else at once when the experiment ends, or a minute after. */
static uint64_t due_ns(const struct exp_board *b)
{
    return b->is_last && b->error[0] == '\0' ? 0 : b->next_ns;
}

uint64_t exp_boards_deadline(const struct exp_master *m)
{
    uint64_t first = UINT64_MAX;
    for (const struct exp_board *b = m->boards; b != NULL; b = b->next)
        if (b->is_due && b->job == NULL && due_ns(b) < first)
            first = due_ns(b);
    return first;
}

/* ---- what a next master finds ---- */

static void marker_path(const struct exp_master *m, int64_t experiment, char *path, size_t size)
{
    snprintf(path, size, "%s/" EXP_BOARDS "/%lld.json", m->state_dir, (long long)experiment);
}

static enum ebb_status write_marker(const struct exp_master *m, const struct exp_board *b,
                                    struct ebb_error *err)
{
    struct ebb_json_writer w;
    struct ebb_str text = {0};
    char path[4096 + 32];
    ebb_jsonw_init(&w, &text, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "directory", b->directory);
    ebb_jsonw_key_string(&w, "location", b->location);
    ebb_jsonw_key_string(&w, "section", b->section);
    ebb_jsonw_object_end(&w);
    snprintf(path, sizeof path, "%s/" REMOTE, b->directory);
    enum ebb_status status = ebb_str_status(&text, err);
    EBB_THEN(status, ebb_file_mkdirs(b->directory, err));
    EBB_THEN(status, ebb_file_write_atomic(path, ebb_str_c(&text), text.length, err));
    marker_path(m, b->experiment_id, path, sizeof path);
    EBB_THEN(status, ebb_file_write_atomic(path, ebb_str_c(&text), text.length, err));
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status read_marker(struct exp_master *m, int64_t experiment, const char *path,
                                   struct exp_board **out, struct ebb_error *err)
{
    struct ebb_arena arena;
    const struct ebb_doc_node *root = NULL;
    ebb_arena_init(&arena);
    enum ebb_status status = EBB_OK;
    (void)ebb_doc_load(&arena, path, &root, NULL);
    const char *directory = ebb_doc_string(root, "directory", NULL);
    const char *location = ebb_doc_string(root, "location", NULL);
    const char *section = ebb_doc_string(root, "section", NULL);
    *out = NULL;
    if (directory != NULL && location != NULL && section != NULL)
        status = add(m, experiment, directory, location, section, out, err);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status exp_boards_recover(struct exp_master *m, struct ebb_error *err)
{
    char path[4096 + 32];
    enum ebb_status status = EBB_OK;
    snprintf(path, sizeof path, "%s/" EXP_BOARDS, m->state_dir);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && status == EBB_OK && (e = readdir(dir)) != NULL;) {
        struct exp_board *b = NULL;
        long long id = strtoll(e->d_name, NULL, 10);
        if (id <= 0 || find(m, id) != NULL)
            continue;
        marker_path(m, id, path, sizeof path);
        status = read_marker(m, id, path, &b, err);
        if (status == EBB_OK && b != NULL)
            b->is_due = true;
    }
    if (dir != NULL)
        closedir(dir);
    return status;
}

/* ---- growing ---- */

void exp_board_touch(struct exp_master *m, const struct exp_experiment *e)
{
    struct exp_board *b = find(m, e->id);
    struct ebb_error err;
    if (e->board_location == NULL || m->options.is_reading_only)
        return;
    if (b == NULL) {
        if (add(m, e->id, e->board, e->board_location, e->board_section, &b, &err) != EBB_OK)
            return; /* not worth failing for: the next metrics come soon */
        b->next_ns = m->now_ns + EVERY_NS;
        if (write_marker(m, b, &err) != EBB_OK)
            ebb_log(m->options.log, EBB_LOG_WARN, "event files of experiment %lld: %s",
                    (long long)e->id, err.message);
    }
    b->is_due = true;
    b->turn = m->turns;
}

/* ---- sending ---- */

/* The end of the directory's name: "<cluster>/tensorboard/experiment/3". */
static enum ebb_status make_job(struct exp_master *m, const struct exp_board *b,
                                enum exp_job_kind kind, struct exp_job **out, struct ebb_error *err)
{
    char folder[256];
    struct exp_job *job = exp_job_create(kind);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    job->experiment_id = b->experiment_id;
    snprintf(folder, sizeof folder, "%s/tensorboard/experiment/%lld", m->cluster_id,
             (long long)b->experiment_id);
    enum ebb_status status = exp_job_place(m, job, b->location, b->section, err);
    EBB_THEN(status, exp_text_set(&job->work_dir, b->directory, err));
    EBB_THEN(status, exp_text_set(&job->uuid, folder, err));
    if (status != EBB_OK) {
        exp_job_destroy(job);
        return status;
    }
    *out = job;
    return EBB_OK;
}

enum ebb_status exp_boards_turn(struct exp_master *m, struct ebb_error *err)
{
    if (m->options.is_reading_only || m->is_closing)
        return EBB_OK;
    for (struct exp_board *b = m->boards; b != NULL; b = b->next) {
        b->is_last |= exp_experiment_find(m, b->experiment_id) == NULL;
        if (!b->is_due || b->job != NULL || b->is_unwanted || due_ns(b) > m->now_ns)
            continue;
        if (b->turn == m->turns) { /* its metrics are written at the end of this turn */
            m->wants_turn = true;
            continue;
        }
        EBB_TRY(make_job(m, b, EXP_JOB_MIRROR, &b->job, err));
        exp_job_later(m, b->job);
        b->is_due = false;
        b->next_ns = m->now_ns + EVERY_NS;
    }
    return EBB_OK;
}

enum ebb_status exp_board_job_done(struct exp_master *m, const struct exp_job *job,
                                   struct ebb_error *err)
{
    struct exp_board *b = find(m, job->experiment_id);
    char path[4096 + 32];
    if (b == NULL || b->job == NULL)
        return EBB_OK;
    b->job = NULL;
    m->wants_turn = m->is_schedule_due = true;
    if (b->is_unwanted) {
        drop(m, b);
        return exp_gc_board_stopped(m, job->experiment_id, err);
    }
    if (job->status != EBB_OK) {
        if (b->error[0] == '\0' && !m->is_closing)
            ebb_log(m->options.log, EBB_LOG_WARN,
                    "event files of experiment %lld are not sent yet, tried again every 30 s: %s",
                    (long long)b->experiment_id, job->err.message);
        snprintf(b->error, sizeof b->error, "%.*s", (int)sizeof b->error - 1, job->err.message);
        b->is_due = true;
        b->next_ns = m->now_ns + AGAIN_NS;
        return EBB_OK;
    }
    b->error[0] = '\0';
    if (b->is_due || !b->is_last)
        return EBB_OK;
    marker_path(m, b->experiment_id, path, sizeof path);
    (void)unlink(path);
    drop(m, b);
    return EBB_OK;
}

/* ---- removing ---- */

bool exp_board_stop(struct exp_master *m, int64_t experiment)
{
    struct exp_board *b = find(m, experiment);
    char path[4096 + 32];
    marker_path(m, experiment, path, sizeof path);
    (void)unlink(path);
    if (b == NULL)
        return true;
    if (b->job == NULL) {
        drop(m, b);
        return true;
    }
    b->is_unwanted = true;
    atomic_store(&b->job->watch.is_unwanted, true);
    return false;
}

enum ebb_status exp_board_remove_job(struct exp_master *m, int64_t experiment,
                                     const char *directory, struct exp_job **job,
                                     struct ebb_error *err)
{
    char path[4096 + 32];
    struct exp_board *b = NULL;
    *job = NULL;
    snprintf(path, sizeof path, "%s/" REMOTE, directory);
    if (access(path, R_OK) != 0)
        return EBB_OK;
    EBB_TRY(read_marker(m, experiment, path, &b, err));
    if (b == NULL)
        return EBB_OK;
    enum ebb_status status = make_job(m, b, EXP_JOB_UNMIRROR, job, err);
    drop(m, b);
    return status;
}
