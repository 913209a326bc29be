/* talk.c - the trial protocol: what trials say, and what they are told.
 *
 * Nothing is sent before the turn has committed (M1): lines go into the connection's buffer. A line
 * that makes no sense ends the trial's process, never more (M3). */
#include "exp/master/talk.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "exp/master/inner.h"

/* ---- telling ---- */

static void say(struct exp_conn *c, struct ebb_str *line)
{
    ebb_str_addc(line, '\n');
    if (!line->failed && c != NULL)
        ebb_wire_say(&c->wire, line->data, line->length);
    else if (c != NULL)
        c->wire.is_broken = true; /* it comes back, and is told again */
    ebb_str_fini(line);
}

static void open_line(struct ebb_str *line, struct ebb_json_writer *w, const char *type)
{
    ebb_str_init(line);
    ebb_jsonw_init(w, line, 0);
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "type", type);
}

void exp_talk_simple(struct exp_alloc *a, const char *type)
{
    struct ebb_str line;
    struct ebb_json_writer w;
    if (a->conn == NULL)
        return;
    open_line(&line, &w, type);
    ebb_jsonw_object_end(&w);
    say(a->conn, &line);
}

void exp_talk_ack(struct exp_alloc *a, int64_t seq)
{
    struct ebb_str line;
    struct ebb_json_writer w;
    if (a->conn == NULL)
        return;
    open_line(&line, &w, "ACK");
    ebb_jsonw_key_int(&w, "seq", seq);
    ebb_jsonw_object_end(&w);
    say(a->conn, &line);
}

void exp_talk_run(struct exp_alloc *a)
{
    const struct exp_trial *r = a->trial;
    const struct exp_workload *work = &r->sequence.work;
    struct ebb_str line, path;
    struct ebb_json_writer w;
    if (a->conn == NULL)
        return;
    open_line(&line, &w, "RUN");
    ebb_jsonw_key_object(&w, "workload");
    ebb_jsonw_key_string(&w, "kind", exp_workload_name(work->kind));
    ebb_jsonw_key_int(&w, "experiment_id", r->experiment->id);
    ebb_jsonw_key_int(&w, "trial_id", r->id);
    ebb_jsonw_key_int(&w, "step_id", work->step);
    if (work->kind == EXP_WORK_TRAIN)
        ebb_jsonw_key_int(&w, "num_batches", r->experiment->config.batches_per_step);
    if (work->kind == EXP_WORK_CHECKPOINT) {
        ebb_str_init(&path);
        exp_store_staging_path(r->experiment->stage, a->uuid, &path);
        ebb_jsonw_key_string(&w, "uuid", a->uuid);
        ebb_jsonw_key_string(&w, "path", ebb_str_c(&path));
        ebb_str_fini(&path);
    }
    ebb_jsonw_object_end(&w);
    ebb_jsonw_object_end(&w);
    say(a->conn, &line);
}

static void refuse(struct exp_conn *c, const char *reason)
{
    struct ebb_str line;
    struct ebb_json_writer w;
    open_line(&line, &w, "REFUSED");
    ebb_jsonw_key_string(&w, "reason", reason);
    ebb_jsonw_object_end(&w);
    say(c, &line);
    c->wire.is_dead = true;
}

/* ---- HELLO ---- */

static enum ebb_status hear_hello(struct exp_master *m, struct exp_conn *c,
                                  const struct exp_talk_message *msg, struct ebb_error *err)
{
    struct exp_alloc *a = exp_alloc_find(m, msg->allocation);
    struct ebb_str line;
    struct ebb_json_writer w;
    if (a == NULL || a->phase >= EXP_ALLOC_KILLED || a->trial->state != EXP_TRIAL_ACTIVE) {
        refuse(c, "no such allocation: the trial has ended or was started anew");
        return EBB_OK;
    }
    if (msg->protocol != 1 || (msg->trial_id >= 0 && msg->trial_id != a->trial->id)) {
        refuse(c, msg->protocol != 1 ? "protocol 1 is spoken here"
                                     : "the allocation belongs to another trial");
        return EBB_OK;
    }
    if (a->conn != NULL && a->conn != c) {
        a->conn->alloc = NULL;
        a->conn->wire.is_broken = true;
    }
    a->conn = c;
    c->alloc = a;
    a->has_spoken = true;
    a->is_adopted = false;
    exp_alloc_go(a, EXP_ALLOC_TALKING);
    a->hello_ns = 0;
    a->beat_ns = m->now_ns + (uint64_t)m->options.heartbeat_ms * 1000000u;
    open_line(&line, &w, "RENDEZVOUS");
    ebb_jsonw_key_int(&w, "rank", 0);
    ebb_jsonw_key_int(&w, "size", 1);
    ebb_jsonw_key_array(&w, "peers");
    ebb_jsonw_array_end(&w);
    ebb_jsonw_object_end(&w);
    say(c, &line);
    if (a->is_publishing)
        return EBB_OK; /* its DONE is here; the answer follows */
    if (!a->trial->sequence.is_busy)
        return exp_alloc_next(m, a, err);
    exp_talk_run(a); /* again: a trial knows repetitions */
    return EBB_OK;
}

/* ---- DONE ---- */

static enum ebb_status to_text(const struct ebb_doc_node *node, struct ebb_str *text,
                               struct ebb_error *err)
{
    struct ebb_json_writer w;
    ebb_str_init(text);
    if (node == NULL) {
        ebb_str_add(text, "{}");
        return ebb_str_status(text, err);
    }
    ebb_jsonw_init(&w, text, 0);
    ebb_doc_write_json(node, &w);
    return ebb_str_status(text, err);
}

/* Check the metrics of a step and add what is missing; *bad says what is wrong with them. */
static enum ebb_status check_step(struct exp_master *m, const struct exp_trial *r,
                                  const struct ebb_doc_node **metrics, const char **bad,
                                  struct ebb_error *err)
{
    const struct ebb_doc_node *batches = ebb_doc_get(*metrics, "batch_metrics");
    const struct ebb_doc_node *average = NULL;
    if (batches == NULL || (batches->kind == EBB_DOC_LIST && batches->count == 0))
        return EBB_OK;
    if (batches->kind != EBB_DOC_LIST ||
        (int64_t)batches->count != r->experiment->config.batches_per_step) {
        *bad = "batch_metrics does not have one entry for each batch";
        return EBB_OK;
    }
    if (ebb_doc_get(*metrics, "avg_metrics") != NULL)
        return EBB_OK;
    struct ebb_error why;
    enum ebb_status status = exp_talk_average(&m->turn_arena, batches, &average, &why);
    if (status == EBB_EINPUT) {
        *bad = "batch_metrics is not a list of mappings";
        return EBB_OK;
    }
    if (status != EBB_OK) {
        *err = why;
        return status;
    }
    struct ebb_doc_node *copy = ebb_doc_new(&m->turn_arena, EBB_DOC_MAP);
    bool is_ok = copy != NULL;
    for (size_t i = 0; is_ok && i < (*metrics)->count; i++)
        is_ok = ebb_doc_set(&m->turn_arena, copy, (*metrics)->keys[i]->text, (*metrics)->items[i]);
    if (!is_ok || !ebb_doc_set(&m->turn_arena, copy, "avg_metrics", average))
        return ebb_no_memory(err, sizeof *copy);
    *metrics = copy;
    return EBB_OK;
}

static enum ebb_status done_step(struct exp_master *m, struct exp_alloc *a,
                                 const struct exp_talk_message *msg, struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    const struct ebb_doc_node *metrics = msg->metrics;
    const char *bad = NULL, *step = NULL, *batches = NULL;
    EBB_TRY(check_step(m, r, &metrics, &bad, err));
    if (bad != NULL) {
        exp_alloc_kill(m, a, "DONE of step %lld: %s", (long long)msg->work.step, bad);
        return EBB_OK;
    }
    EBB_TRY(exp_db_split(&m->turn_arena, metrics, &step, &batches, err));
    EBB_TRY(exp_db_step_add(m->db,
                            &(struct exp_db_step){.trial_id = r->id,
                                                  .id = msg->work.step,
                                                  .state = "COMPLETED",
                                                  .start_time = msg->start,
                                                  .end_time = msg->end,
                                                  .metrics = step},
                            err));
    if (batches != NULL)
        EBB_TRY(exp_db_batches_add(m->db, &(struct exp_db_batches){r->id, msg->work.step, batches},
                                   err));
    EBB_TRY(exp_sequence_complete(&r->sequence, &msg->work, false, err));
    double loss;
    const struct ebb_doc_node *average = ebb_doc_get(metrics, "avg_metrics");
    bool has_loss = average != NULL && exp_metric_find(average, "loss", &loss, NULL) == EBB_OK;
    r->loss = has_loss ? loss : (double)NAN;
    exp_notice_metrics(m, r, msg->work.step, msg->end, false, average);
    exp_notice_work(m, r, "step", msg->work.step, NULL, has_loss ? &loss : NULL, false);
    return exp_experiment_feed(m, r->experiment,
                               &(struct exp_event){.kind = EXP_EVENT_TRAINED,
                                                   .request = r->request,
                                                   .step = msg->work.step},
                               err);
}

static void note_metric(struct exp_trial *r, int64_t step, double value)
{
    r->has_latest = true;
    r->latest_signed = value;
    if (!r->has_best || value < r->best_signed) {
        r->has_best = true;
        r->best_signed = value;
        r->best_step = step;
    }
}

/* Does the trial end because it does not get better? False: the metric is not there. */
static enum ebb_status watch(struct exp_master *m, struct exp_alloc *a,
                             const struct exp_talk_message *msg, bool *is_there,
                             struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    const struct exp_early_stopping *early = &r->experiment->config.searcher.early_stopping;
    double metric = 0;
    char text[400];
    struct ebb_error why;
    *is_there = true;
    if (early->patience == 0)
        return EBB_OK;
    if (exp_metric_find(ebb_doc_get(msg->metrics, "validation_metrics"), early->metric, &metric,
                        &why) != EBB_OK) {
        exp_alloc_kill(m, a, "validation at step %lld: searcher.early_stopping: %s",
                       (long long)msg->work.step, why.message);
        *is_there = false;
        return EBB_OK;
    }
    if (!exp_sequence_watch(&r->sequence, exp_metric_signed(metric, early->smaller_is_better)))
        return EBB_OK;
    snprintf(text, sizeof text,
             "ebb: trial %lld ends early, as completed: %.200s has not become better in %lld "
             "validations",
             (long long)r->id, early->metric, (long long)early->patience);
    return exp_log_add(m, r, "INFO", text, err);
}

static enum ebb_status done_validation(struct exp_master *m, struct exp_alloc *a,
                                       const struct exp_talk_message *msg, struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    struct exp_experiment *e = r->experiment;
    const struct exp_searcher *s = &e->config.searcher;
    double metric = 0;
    struct ebb_str text;
    struct ebb_error why;
    if (exp_metric_find(ebb_doc_get(msg->metrics, "validation_metrics"), s->metric, &metric,
                        &why) != EBB_OK) {
        exp_alloc_kill(m, a, "validation at step %lld: %s", (long long)msg->work.step, why.message);
        return EBB_OK;
    }
    if (isnan(metric) && !r->is_nan_told) {
        char warning[192];
        snprintf(warning, sizeof warning,
                 "ebb: trial %lld, step %lld: %.64s is NaN: it counts as the worst value",
                 (long long)r->id, (long long)msg->work.step, s->metric);
        ebb_log(m->options.log, EBB_LOG_WARN, "experiment %lld: %s", (long long)e->id, warning);
        EBB_TRY(exp_log_add(m, r, "WARNING", warning, err));
        r->is_nan_told = true;
    }
    bool is_there;
    EBB_TRY(watch(m, a, msg, &is_there, err));
    if (!is_there)
        return EBB_OK;
    double value = exp_metric_signed(metric, s->smaller_is_better);
    bool is_best = exp_best_update(&e->best, metric, s->smaller_is_better);
    if (is_best) {
        e->best_trial = r->id;
        e->best_step = msg->work.step;
        exp_dirty_experiment(m, e);
    }
    note_metric(r, msg->work.step, value);
    EBB_TRY(to_text(msg->metrics, &text, err));
    enum ebb_status status =
        exp_db_validation_keep(m->db,
                               &(struct exp_db_validation){.trial_id = r->id,
                                                           .step_id = msg->work.step,
                                                           .state = "COMPLETED",
                                                           .start_time = msg->start,
                                                           .end_time = msg->end,
                                                           .metrics = ebb_str_c(&text),
                                                           .signed_metric = value,
                                                           .is_best = is_best},
                               e->id, err);
    ebb_str_fini(&text);
    EBB_TRY(status);
    EBB_TRY(exp_sequence_complete(&r->sequence, &msg->work, is_best, err));
    exp_notice_metrics(m, r, msg->work.step, msg->end, true,
                       ebb_doc_get(msg->metrics, "validation_metrics"));
    exp_notice_work(m, r, "validation", msg->work.step, NULL, &metric, is_best);
    return exp_experiment_feed(m, e,
                               &(struct exp_event){.kind = EXP_EVENT_VALIDATED,
                                                   .request = r->request,
                                                   .step = msg->work.step,
                                                   .metric = metric},
                               err);
}

static enum ebb_status write_metadata(const struct exp_master *m, const struct exp_alloc *a,
                                      char **out, struct ebb_error *err)
{
    const struct exp_trial *r = a->trial;
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &text, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "cluster_id", m->cluster_id);
    ebb_jsonw_key_string(&w, "ebb_version", EBB_VERSION);
    ebb_jsonw_key_int(&w, "experiment_id", r->experiment->id);
    ebb_jsonw_key_int(&w, "trial_id", r->id);
    ebb_jsonw_key_int(&w, "step_id", r->sequence.work.step);
    ebb_jsonw_key(&w, "hparams");
    ebb_jsonw_raw(&w, r->hparams, strlen(r->hparams));
    ebb_jsonw_key_string(&w, "format", "manifest-1"); /* a directory as its manifest.json says */
    ebb_jsonw_object_end(&w);
    EBB_TRY(ebb_str_status(&text, err));
    *out = ebb_str_take(&text);
    return EBB_OK;
}

/* Published by a thread; exp_alloc_job_done goes on. */
static enum ebb_status done_checkpoint(struct exp_master *m, struct exp_alloc *a,
                                       const struct exp_talk_message *msg, struct ebb_error *err)
{
    struct exp_experiment *e = a->trial->experiment;
    struct exp_job *job = exp_job_create(EXP_JOB_PUBLISH);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    enum ebb_status status = exp_model_load(m, e, err);
    EBB_THEN(status, exp_text_set(&job->location, e->stage_location, err));
    EBB_THEN(status, exp_text_set(&job->uuid, a->uuid, err));
    if (e->code_uuid[0] != '\0')
        EBB_THEN(status, exp_text_set(&job->code_from, e->code_uuid, err));
    EBB_THEN(status, write_metadata(m, a, &job->metadata, err));
    if (status != EBB_OK) {
        exp_job_destroy(job);
        return status;
    }
    memcpy(job->allocation, a->id, sizeof job->allocation);
    job->seq = msg->seq;
    job->names = exp_store_names(e->store);
    job->model = e->model;
    if (job->model != NULL)
        job->model->uses++;
    a->is_publishing = true;
    a->done_start = msg->start;
    a->done_end = msg->end;
    exp_job_later(m, job);
    return EBB_OK;
}

static enum ebb_status hear_done(struct exp_master *m, struct exp_alloc *a,
                                 const struct exp_talk_message *msg, struct ebb_error *err)
{
    const struct exp_sequence *q = &a->trial->sequence;
    if (msg->seq <= a->last_seq) {
        exp_talk_ack(a, msg->seq); /* the first answer got lost */
        return EBB_OK;
    }
    if (a->is_publishing)
        return EBB_OK; /* the same DONE again, while it is being handled */
    if (!q->is_busy || q->work.kind == EXP_WORK_TERMINATE || msg->seq != a->last_seq + 1 ||
        msg->work.kind != q->work.kind || msg->work.step != q->work.step) {
        exp_alloc_kill(m, a, "sent DONE number %lld of %s at step %lld, which was not asked for",
                       (long long)msg->seq, exp_workload_name(msg->work.kind),
                       (long long)msg->work.step);
        return EBB_OK;
    }
    if (msg->work.kind == EXP_WORK_CHECKPOINT)
        return done_checkpoint(m, a, msg, err);
    EBB_TRY(msg->work.kind == EXP_WORK_TRAIN ? done_step(m, a, msg, err)
                                             : done_validation(m, a, msg, err));
    if (a->is_kill_due)
        return EBB_OK;
    a->last_seq = msg->seq;
    exp_dirty_alloc(m, a);
    exp_dirty_trial(m, a->trial);
    exp_talk_ack(a, msg->seq);
    return exp_alloc_next(m, a, err);
}

/* ---- FAILED ---- */

/* How many bytes of a text of any length are taken; a character is not cut. */
static size_t fit(const char *text, size_t bytes)
{
    size_t n = strnlen(text, bytes + 1);
    if (n <= bytes)
        return n;
    for (n = bytes; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;)
        n--;
    return n;
}

static enum ebb_status hear_failed(struct exp_master *m, struct exp_alloc *a,
                                   const struct exp_talk_message *msg, struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    char text[512];
    if (a->fault == EXP_FAULT_NONE)
        a->fault = EXP_FAULT_FAILED;
    a->exit_ns = m->now_ns + 10000000000ull;
    snprintf(a->reason, sizeof a->reason, "says: %.*s", (int)fit(msg->reason, 240), msg->reason);
    if (msg->exit_reason == EXP_EXIT_ERRORED)
        return EBB_OK; /* its exit is the failure */
    snprintf(text, sizeof text, "ebb: trial %lld ends: %s: %.*s", (long long)r->id,
             exp_exit_name(msg->exit_reason), (int)fit(msg->reason, 400), msg->reason);
    EBB_TRY(exp_log_add(m, r, "WARNING", text, err));
    snprintf(text, sizeof text, "%.*s", (int)fit(msg->reason, sizeof text - 1), msg->reason);
    EBB_TRY(exp_text_set(&r->message, text, err));
    r->state = msg->exit_reason == EXP_EXIT_USER_CANCELED ? EXP_TRIAL_CANCELED : EXP_TRIAL_ERROR;
    r->end_time = m->time;
    r->experiment->ended_count++;
    exp_dirty_trial(m, r);
    exp_notice_trial(m, r);
    if (msg->exit_reason == EXP_EXIT_INVALID_HP)
        EBB_TRY(exp_experiment_refuse(m, r->experiment, text, err));
    return exp_experiment_feed(m, r->experiment,
                               &(struct exp_event){.kind = EXP_EVENT_EXITED,
                                                   .request = r->request,
                                                   .reason = msg->exit_reason},
                               err);
}

/* ---- lines ---- */

enum ebb_status exp_talk_line(struct exp_master *m, struct exp_conn *c, const char *line,
                              size_t length, struct ebb_error *err)
{
    struct exp_talk_message msg;
    struct ebb_error why;
    struct exp_alloc *a = c->alloc;
    enum ebb_status status = exp_talk_read(&m->turn_arena, line, length, &msg, &why);
    if (status == EBB_ENOMEM) {
        *err = why;
        return status;
    }
    if (status == EBB_OK && msg.kind == EXP_TALK_HELLO && a == NULL)
        return hear_hello(m, c, &msg, err);
    if (a == NULL) {
        refuse(c, status != EBB_OK ? why.message : "HELLO comes first");
        return EBB_OK;
    }
    /* A trial says HELLO until it is accepted: after a pause of ours there are several. */
    bool is_repeated = status == EBB_OK && msg.kind == EXP_TALK_HELLO &&
                       strcmp(msg.allocation, a->id) == 0 &&
                       (msg.trial_id < 0 || msg.trial_id == a->trial->id);
    if (status != EBB_OK || (msg.kind == EXP_TALK_HELLO && !is_repeated)) {
        exp_alloc_kill(m, a, "breaks the protocol: %s",
                       status != EBB_OK ? why.message : "a HELLO in another's name");
        c->wire.is_broken = true;
        return EBB_OK;
    }
    if (a->phase == EXP_ALLOC_KILLED || a->is_kill_due || a->trial->state != EXP_TRIAL_ACTIVE)
        return EBB_OK;
    a->beat_ns = m->now_ns + (uint64_t)m->options.heartbeat_ms * 1000000u;
    switch (msg.kind) {
    case EXP_TALK_DONE:
        return hear_done(m, a, &msg, err);
    case EXP_TALK_FAILED:
        return hear_failed(m, a, &msg, err);
    case EXP_TALK_HELLO:
    case EXP_TALK_HEARTBEAT:
        break;
    }
    return EBB_OK;
}
