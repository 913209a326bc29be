/* run.c - the life of a trial process: connect, build, restore, then one workload after another. */
#include "worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/heap.h"
#include "base/str.h"
#include "worker/internal.h"

#define PATIENCE_S 60.0
#define HEARTBEAT_S 10.0
#define FULL_DISK_NS 500000000

struct worker_run {
    const struct worker_trial *trial;
    struct worker_setup *setup;
    struct worker_link *link;
    void *self;
    int64_t step;         /* completed steps */
    int64_t batches_done; /* since the trial began */
    int64_t records;      /* of the workload in progress */
    int64_t batches;      /* reported in the workload in progress */
    struct ebb_str batch_text;
    struct ebb_json_writer batch_writer;
    struct worker_metrics sums; /* of each metric; `counts` beside them */
    int64_t *counts;
    size_t count_capacity;
    int64_t answers;       /* sent so far; their numbers are 1, 2, 3 ... */
    struct ebb_str answer; /* the last one, to ... */
    struct ebb_str work;   /* ... this workload, as text */
    bool is_debug;         /* EBB_LOG_LEVEL */
};

static double wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#define BATCH_METRICS_MAX ((size_t)12 << 20) /* a message may have 16 MiB */

/* ---- called by the trial ---- */

static enum ebb_status add_to_sums(struct worker_run *run, const struct worker_metrics *metrics,
                                   struct ebb_error *err)
{
    for (size_t i = 0; i < metrics->count; i++) {
        const struct worker_metric *m = &metrics->items[i];
        struct worker_metric *sum = worker_metrics_find(&run->sums, m->name);
        if (sum == NULL) {
            size_t at = run->sums.count;
            EBB_TRY(ebb_grow(&run->counts, &run->count_capacity, at + 1, sizeof *run->counts, err));
            EBB_TRY(worker_metrics_set(&run->sums, m->name, 0, err));
            run->counts[at] = 0;
            sum = &run->sums.items[at];
        }
        sum->value += m->value;
        run->counts[sum - run->sums.items]++;
    }
    return EBB_OK;
}

enum ebb_status worker_batch_done(struct worker_run *run, const struct worker_metrics *metrics,
                                  int64_t records, struct ebb_error *err)
{
    if (worker_metrics_find(metrics, "loss") == NULL)
        return ebb_fail(err, EBB_EINPUT, "training metrics have no 'loss'");
    if (run->batch_text.length <= BATCH_METRICS_MAX)
        worker_metrics_write(metrics, &run->batch_writer);
    EBB_TRY(add_to_sums(run, metrics, err));
    run->records += records;
    run->batches++;
    run->batches_done++;
    return worker_link_batch(run->link, run->batches_done, err);
}

enum ebb_status worker_check(struct worker_run *run, struct ebb_error *err)
{
    return worker_link_batch(run->link, run->batches_done, err);
}

bool worker_should_stop(const struct worker_run *run)
{
    return worker_link_should_stop(run->link);
}

/* ---- workloads ---- */

static enum ebb_status do_step(struct worker_run *run, const struct ebb_doc_node *work,
                               struct ebb_json_writer *w, struct ebb_error *err)
{
    int64_t batches = ebb_doc_int(work, "num_batches", run->setup->job.batches_per_step);
    int64_t step = ebb_doc_int(work, "step_id", 0);
    if (step != run->step + 1 || batches < 1)
        return ebb_fail(err, EBB_EINTERNAL,
                        "protocol: step %lld of %lld batches was asked for after step %lld",
                        (long long)step, (long long)batches, (long long)run->step);
    ebb_str_clear(&run->batch_text);
    ebb_jsonw_init(&run->batch_writer, &run->batch_text, 0);
    ebb_jsonw_array(&run->batch_writer);
    worker_metrics_clear(&run->sums);
    run->records = run->batches = 0;
    EBB_TRY(run->trial->train(run->self, batches, run, err));
    ebb_jsonw_array_end(&run->batch_writer);
    if (run->batches != batches)
        return ebb_fail(err, EBB_EINTERNAL, "the trial reported %lld batches of %lld",
                        (long long)run->batches, (long long)batches);
    for (size_t i = 0; i < run->sums.count; i++)
        run->sums.items[i].value /= (double)run->counts[i];
    run->step = step;
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "num_inputs", run->records);
    ebb_jsonw_key(w, "avg_metrics");
    worker_metrics_write(&run->sums, w);
    if (run->trial->report != NULL) {
        ebb_jsonw_key_object(w, "resources");
        run->trial->report(run->self, w);
        ebb_jsonw_object_end(w);
    }
    /* The list is already JSON: it goes in as it is, or, too long for a message, not at all. */
    EBB_TRY(ebb_str_status(&run->batch_text, err));
    ebb_str_add(w->out, ", \"batch_metrics\": ");
    ebb_str_add(w->out,
                run->batch_text.length <= BATCH_METRICS_MAX ? ebb_str_c(&run->batch_text) : "[]");
    ebb_jsonw_object_end(w);
    return EBB_OK;
}

static enum ebb_status do_validation(struct worker_run *run, struct ebb_json_writer *w,
                                     struct ebb_error *err)
{
    struct worker_metrics metrics;
    int64_t records = 0;
    worker_metrics_init(&metrics);
    enum ebb_status status = run->trial->validate(run->self, run, &metrics, &records, err);
    if (status == EBB_OK) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_int(w, "num_inputs", records);
        ebb_jsonw_key(w, "validation_metrics");
        worker_metrics_write(&metrics, w);
        ebb_jsonw_object_end(w);
    }
    worker_metrics_fini(&metrics);
    return status;
}

static enum ebb_status do_checkpoint(struct worker_run *run, const struct ebb_doc_node *work,
                                     struct ebb_json_writer *w, struct ebb_error *err)
{
    struct worker_checkpoint c = {
        .uuid = ebb_doc_string(work, "uuid", NULL),
        .path = ebb_doc_string(work, "path", NULL),
        .step = run->step,
    };
    if (c.uuid == NULL || c.path == NULL)
        return ebb_fail(err, EBB_EINTERNAL, "protocol: CHECKPOINT_MODEL without uuid or path");
    enum ebb_status status;
    for (bool has_said = false;; has_said = true) { /* nothing of the trial is lost by waiting */
        status = worker_checkpoint_save(&c, run->trial, run->self, w, err);
        if (status != EBB_EFULL) {
            if (has_said && status == EBB_OK)
                fprintf(stderr, "ebb worker: there is room again\n");
            return status;
        }
        if (!has_said)
            fprintf(stderr, "ebb worker: %s: waiting for room\n", err->message);
        nanosleep(&(struct timespec){.tv_nsec = FULL_DISK_NS}, NULL);
        EBB_TRY(worker_check(run, err));
    }
}

static enum ebb_status do_workload(struct worker_run *run, const char *kind,
                                   const struct ebb_doc_node *work, struct ebb_json_writer *w,
                                   struct ebb_error *err)
{
    if (strcmp(kind, "RUN_STEP") == 0)
        return do_step(run, work, w, err);
    if (strcmp(kind, "COMPUTE_VALIDATION_METRICS") == 0)
        return do_validation(run, w, err);
    if (strcmp(kind, "CHECKPOINT_MODEL") == 0)
        return do_checkpoint(run, work, w, err);
    return ebb_fail(err, EBB_EINTERNAL, "protocol: unknown workload '%s'", kind);
}

bool worker_sample_is_invalid(enum ebb_status status)
{
    return status == EBB_EINFEASIBLE || status == EBB_EBUDGET;
}

static const char *failure_kind(enum ebb_status status)
{
    return worker_sample_is_invalid(status) ? "INVALID_HP"
           : status == EBB_ECANCELED        ? "USER_CANCELED"
                                            : "ERRORED";
}

static void begin_answer(struct ebb_json_writer *w, struct ebb_str *text, const char *type,
                         int64_t seq, const struct ebb_doc_node *work)
{
    ebb_str_clear(text);
    ebb_jsonw_init(w, text, 0);
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "type", type);
    ebb_jsonw_key_int(w, "seq", seq);
    if (work != NULL) {
        ebb_jsonw_key(w, "workload");
        ebb_doc_write_json(work, w);
    }
}

static void report_failure(struct worker_run *run, int64_t seq, const struct ebb_doc_node *work,
                           enum ebb_status status, const struct ebb_error *why)
{
    struct ebb_json_writer w;
    struct ebb_error ignored;
    begin_answer(&w, &run->answer, "FAILED", seq, work);
    ebb_jsonw_key_string(&w, "reason", why->message);
    ebb_jsonw_key_string(&w, "kind", failure_kind(status));
    ebb_jsonw_object_end(&w);
    worker_link_answer(run->link, 0, ebb_str_c(&run->answer), &ignored);
}

/* True when this workload is the one answered last; otherwise it is remembered. */
static bool is_repeated(struct worker_run *run, const struct ebb_doc_node *work)
{
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &text, 0);
    ebb_doc_write_json(work, &w);
    bool is_same = run->answers > 0 && strcmp(ebb_str_c(&text), ebb_str_c(&run->work)) == 0;
    ebb_str_fini(&run->work);
    run->work = text;
    return is_same;
}

/* EBB_LOG_LEVEL=debug: what is asked and how long it took, in the trial's log. */
static void say(const struct worker_run *run, const struct ebb_doc_node *work, const char *what,
                double seconds)
{
    if (!run->is_debug)
        return;
    fprintf(stderr, "ebb worker: debug: %s %s, step %lld, %.3f s\n", what,
            ebb_doc_string(work, "kind", "?"), (long long)ebb_doc_int(work, "step_id", 0), seconds);
}

/* One RUN message. *is_end: it was TERMINATE. */
static enum ebb_status serve(struct worker_run *run, const char *line, bool *is_end,
                             struct ebb_error *err)
{
    struct ebb_arena arena; /* of this message */
    const struct ebb_doc_node *root = NULL;
    ebb_arena_init(&arena);
    enum ebb_status status = ebb_doc_parse_json(&arena, "master", line, strlen(line), &root, err);
    const struct ebb_doc_node *work = ebb_doc_get(root, "workload");
    const char *kind = ebb_doc_string(work, "kind", "");
    if (status == EBB_OK && (work == NULL || work->kind != EBB_DOC_MAP))
        status = ebb_fail(err, EBB_EINTERNAL, "protocol: RUN without a workload");
    int64_t seq = run->answers + 1;
    *is_end = status == EBB_OK && strcmp(kind, "TERMINATE") == 0;
    if (status != EBB_OK || *is_end)
        goto out;
    if (is_repeated(run, work)) { /* asked again after a reconnect: W1 */
        status = worker_link_answer(run->link, run->answers, ebb_str_c(&run->answer), err);
        goto out;
    }
    struct ebb_json_writer w;
    double start = wall_seconds();
    say(run, work, "begin", 0);
    begin_answer(&w, &run->answer, "DONE", seq, work);
    ebb_jsonw_key(&w, "metrics");
    status = do_workload(run, kind, work, &w, err);
    say(run, work, status == EBB_OK ? "done" : "failed", wall_seconds() - start);
    if (status == EBB_OK) {
        ebb_jsonw_key_double(&w, "start", start);
        ebb_jsonw_key_double(&w, "end", wall_seconds());
        ebb_jsonw_object_end(&w);
        status = ebb_str_status(&run->answer, err);
    }
    if (status == EBB_OK)
        status = worker_link_answer(run->link, seq, ebb_str_c(&run->answer), err);
    else if (status != EBB_ECANCELED || !worker_link_is_lost(run->link))
        report_failure(run, seq, work, status, err);
    run->answers++;
out:
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status prepare(struct worker_run *run, struct ebb_error *err)
{
    struct worker_setup *s = run->setup;
    s->job.trial = run->trial;
    EBB_TRY(run->trial->create(&s->job, &run->self, err));
    if (s->checkpoint_path == NULL)
        return EBB_OK;
    run->step = s->checkpoint_step;
    run->batches_done = run->step * s->job.batches_per_step;
    enum ebb_status status =
        run->trial->load(run->self, s->checkpoint_path, s->checkpoint_kind, run->batches_done, err);
    return status == EBB_OK
               ? EBB_OK
               : ebb_context(err, status, "cannot load checkpoint %s", s->checkpoint_path);
}

static enum ebb_status live(struct worker_run *run, int *exit_code, struct ebb_error *err)
{
    enum ebb_status status = prepare(run, err);
    if (status != EBB_OK) { /* the first workload is answered with why */
        report_failure(run, 1, NULL, status, err);
        return status;
    }
    for (bool is_end = false; status == EBB_OK && !is_end;) {
        char *line = NULL;
        status = worker_link_next(run->link, &line, err);
        EBB_THEN(status, serve(run, line, &is_end, err));
        ebb_free(line);
    }
    if (status == EBB_ECANCELED && worker_link_is_lost(run->link))
        *exit_code = WORKER_EXIT_LOST;
    else if (status == EBB_OK)
        *exit_code = 0;
    return status;
}

enum ebb_status worker_run(const struct worker_trial *trial, const char *entrypoint, int *exit_code,
                           struct ebb_error *err)
{
    struct worker_setup setup;
    struct worker_run run = {.trial = trial, .setup = &setup};
    *exit_code = 1;
    EBB_TRY(worker_setup_read(&setup, entrypoint, err));
    struct worker_link_options options = {.path = setup.socket_path,
                                          .allocation = setup.allocation,
                                          .trial_id = setup.job.trial_id,
                                          .patience_s = PATIENCE_S,
                                          .heartbeat_s = HEARTBEAT_S};
    const char *level = getenv("EBB_LOG_LEVEL");
    run.is_debug = level != NULL && strcmp(level, "debug") == 0;
    const char *patience = getenv("EBB_PATIENCE_S"); /* tests wait for less than a minute */
    if (patience != NULL)
        ebb_parse_double(patience, &options.patience_s);
    enum ebb_status status = worker_link_open(&run.link, &options, err);
    if (status == EBB_OK) {
        ebb_str_init(&run.batch_text);
        ebb_str_init(&run.answer);
        ebb_str_init(&run.work);
        status = live(&run, exit_code, err);
        if (run.self != NULL)
            trial->destroy(run.self);
        worker_link_close(run.link);
        worker_metrics_fini(&run.sums);
        ebb_free(run.counts);
        ebb_str_fini(&run.batch_text);
        ebb_str_fini(&run.answer);
        ebb_str_fini(&run.work);
    }
    worker_setup_fini(&setup);
    return status;
}
