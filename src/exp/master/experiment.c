/* experiment.c - an experiment in memory: its search fed with events, its state, its end. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/log.h"
#include "exp/master/inner.h"

struct exp_experiment *exp_experiment_find(const struct exp_master *m, int64_t id)
{
    size_t low = 0, high = m->experiment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->experiments[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->experiment_count && m->experiments[low]->id == id ? m->experiments[low] : NULL;
}

/* ---- operations of the search ---- */

static enum ebb_status add_trial(struct exp_master *m, struct exp_experiment *e,
                                 const struct exp_op *op, struct ebb_error *err)
{
    const struct exp_create *create = &e->ops.creates[op->create];
    const struct ebb_doc_node *hparams = NULL;
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    size_t need = (size_t)op->trial + 1, before = e->trial_count;
    EBB_TRY(
        exp_ops_hparams(&e->ops, op, &e->config.hyperparameters, &m->turn_arena, &hparams, err));
    EBB_TRY(ebb_grow(&e->trials, &e->trial_capacity, need, sizeof *e->trials, err));
    struct exp_trial *r;
    EBB_TRY(ebb_new(&r, 1, sizeof *r, err));
    ebb_jsonw_init(&w, &text, 0);
    ebb_doc_write_json(hparams, &w);
    *r = (struct exp_trial){.experiment = e,
                            .index = op->trial,
                            .request = op->request,
                            .seed = create->trial_seed,
                            .hparams = ebb_str_take(&text),
                            .has_source = create->has_source,
                            .source_step = create->source_step,
                            .loss = (double)NAN,
                            .log_next = 1};
    if (r->hparams == NULL) {
        ebb_free(r);
        return ebb_no_memory(err, 1);
    }
    if (r->has_source && !exp_search_find(e->search, create->source, &r->source))
        r->has_source = false;
    exp_sequence_init(&r->sequence, &(struct exp_sequence_rules){
                                        .min_validation_period = e->config.min_validation_period,
                                        .min_checkpoint_period = e->config.min_checkpoint_period,
                                        .checkpoint_policy = e->config.checkpoint_policy,
                                        .max_restarts = e->config.max_restarts,
                                        .patience = e->config.searcher.early_stopping.patience,
                                    });
    for (size_t i = before; i < need; i++)
        e->trials[i] = NULL;
    if (e->trial_count < need)
        e->trial_count = need;
    e->trials[op->trial] = r;
    return EBB_OK;
}

/* A trial's operation. EBB_EINPUT: one that cannot be. */
static enum ebb_status apply_one(struct exp_master *m, struct exp_experiment *e,
                                 const struct exp_op *op, struct ebb_error *err)
{
    if (op->kind == EXP_OP_CREATE)
        return add_trial(m, e, op, err);
    struct exp_trial *r = op->trial < e->trial_count ? e->trials[op->trial] : NULL;
    if (r == NULL)
        return ebb_fail(err, EBB_EINPUT, "an operation for trial %u, which is not there",
                        op->trial);
    if (r->state != EXP_TRIAL_ACTIVE)
        return EBB_OK;
    EBB_TRY(exp_sequence_ask(&r->sequence, op, err));
    exp_dirty_trial(m, r);
    if (op->kind == EXP_OP_CLOSE || exp_sequence_is_over(&r->sequence))
        exp_experiment_check(e, r);
    return EBB_OK;
}

void exp_experiment_check(struct exp_experiment *e, struct exp_trial *r)
{
    if (r->is_checked)
        return;
    r->is_checked = true;
    r->next_checked = e->checked;
    e->checked = r;
}

/* The operations as one JSON list: stored with the event that caused them. */
static enum ebb_status write_ops(struct exp_master *m, const struct exp_experiment *e,
                                 struct ebb_str *text, struct ebb_error *err)
{
    struct ebb_json_writer w;
    ebb_str_clear(text);
    ebb_jsonw_init(&w, text, 0);
    ebb_jsonw_array(&w);
    for (size_t i = 0; i < e->ops.count; i++) {
        const struct exp_op *op = &e->ops.items[i];
        const struct ebb_doc_node *hparams = NULL;
        if (op->kind == EXP_OP_CREATE)
            EBB_TRY(exp_ops_hparams(&e->ops, op, &e->config.hyperparameters, &m->turn_arena,
                                    &hparams, err));
        exp_op_write(&e->ops, op, hparams, &w);
    }
    ebb_jsonw_array_end(&w);
    return ebb_str_status(text, err);
}

static enum ebb_status log_event(struct exp_master *m, struct exp_experiment *e, const char *type,
                                 const struct exp_event *event, struct ebb_error *err)
{
    struct ebb_str content = {0}, ops = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &content, 0);
    if (event != NULL) {
        exp_event_write(event, &w);
    } else {
        ebb_jsonw_object(&w);
        ebb_jsonw_object_end(&w);
    }
    enum ebb_status status = ebb_str_status(&content, err);
    EBB_THEN(status, write_ops(m, e, &ops, err));
    EBB_THEN(status, exp_db_event_add(m->db,
                                      &(struct exp_db_event){.experiment_id = e->id,
                                                             .seq = e->search_seq,
                                                             .type = type,
                                                             .content = ebb_str_c(&content),
                                                             .operations = ebb_str_c(&ops)},
                                      err));
    e->search_seq++;
    ebb_str_fini(&content);
    ebb_str_fini(&ops);
    return status;
}

static enum ebb_status fail_experiment(struct exp_master *m, struct exp_experiment *e,
                                       const char *why, struct ebb_error *err)
{
    if (why != e->error)
        EBB_TRY(exp_text_set(&e->error, why, err));
    ebb_log(m->options.log, EBB_LOG_ERROR, "experiment %lld: %s", (long long)e->id, e->error);
    if (e->state == EXP_STOPPING_ERROR || exp_state_is_ended(e->state))
        return EBB_OK;
    return exp_experiment_set_state(m, e, EXP_STOPPING_ERROR, err);
}

/* So many trials that call their values invalid in the same words say that the values are not the reason. */
#define REFUSALS_MAX 10

enum ebb_status exp_experiment_refuse(struct exp_master *m, struct exp_experiment *e,
                                      const char *reason, struct ebb_error *err)
{
    char text[768];
    if (e->refusal == NULL || strcmp(e->refusal, reason) != 0) {
        e->refusal_count = 0;
        EBB_TRY(exp_text_set(&e->refusal, reason, err));
    }
    if (++e->refusal_count < REFUSALS_MAX || exp_state_is_stopping(e->state) ||
        exp_state_is_ended(e->state))
        return EBB_OK;
    snprintf(text, sizeof text,
             "%d trials in a row with different values were invalid for the same reason: %.600s",
             REFUSALS_MAX, reason);
    return fail_experiment(m, e, text, err);
}

/* Do what the search asked for. Not for replays: state changes have happened then. */
static enum ebb_status apply_ops(struct exp_master *m, struct exp_experiment *e,
                                 struct ebb_error *err)
{
    for (size_t i = 0; i < e->ops.count; i++) {
        const struct exp_op *op = &e->ops.items[i];
        if (op->kind == EXP_OP_SHUTDOWN) {
            if (op->is_failure)
                return fail_experiment(m, e, e->error != NULL ? e->error : "no trial completed",
                                       err);
            return exp_experiment_set_state(m, e, EXP_STOPPING_COMPLETED, err);
        }
        struct ebb_error why;
        enum ebb_status status = apply_one(m, e, op, &why);
        if (status == EBB_EINPUT)
            return fail_experiment(m, e, why.message, err);
        if (status != EBB_OK) {
            *err = why;
            return status;
        }
        exp_trial_update_task(m, e->trials[op->trial]);
    }
    return EBB_OK;
}

enum ebb_status exp_experiment_feed(struct exp_master *m, struct exp_experiment *e,
                                    const struct exp_event *event, struct ebb_error *err)
{
    if (exp_state_is_stopping(e->state) || exp_state_is_ended(e->state) || e->search == NULL)
        return EBB_OK;
    struct ebb_error why;
    if (event->kind == EXP_EVENT_VALIDATED)
        e->refusal_count = 0;
    exp_ops_clear(&e->ops);
    enum ebb_status status = exp_search_event(e->search, event, &e->ops, &why);
    if (status == EBB_EINPUT || status == EBB_EINTERNAL)
        return fail_experiment(m, e, why.message, err);
    if (status != EBB_OK) {
        *err = why;
        return status;
    }
    EBB_TRY(log_event(m, e, exp_event_name(event->kind), event, err));
    exp_dirty_experiment(m, e);
    return apply_ops(m, e, err);
}

/* ---- states ---- */

static bool may_go(enum exp_state from, enum exp_state to)
{
    switch (from) {
    case EXP_PAUSED:
        return to == EXP_ACTIVE || exp_state_is_stopping(to);
    case EXP_ACTIVE:
        return to == EXP_PAUSED || exp_state_is_stopping(to);
    case EXP_STOPPING_CANCELED:
        return to == EXP_CANCELED || to == EXP_STOPPING_ERROR;
    case EXP_STOPPING_COMPLETED:
        return to == EXP_COMPLETED || to == EXP_STOPPING_ERROR;
    case EXP_STOPPING_ERROR:
        return to == EXP_ERROR;
    case EXP_CANCELED:
    case EXP_COMPLETED:
    case EXP_ERROR:
    case EXP_DELETING:
    case EXP_DELETE_FAILED:
        break;
    }
    return false;
}

enum ebb_status exp_experiment_set_state(struct exp_master *m, struct exp_experiment *e,
                                         enum exp_state state, struct ebb_error *err)
{
    if (state == e->state)
        return EBB_OK;
    if (!may_go(e->state, state))
        return ebb_fail(err, EBB_EINPUT, "illegal transition %s -> %s", exp_state_name(e->state),
                        exp_state_name(state));
    e->state = state;
    exp_dirty_experiment(m, e);
    exp_notice_experiment(m, e);
    m->is_schedule_due = true;
    for (size_t i = 0; i < e->trial_count; i++) {
        if (e->trials[i] == NULL)
            continue;
        if (state != EXP_ACTIVE)
            exp_trial_stop(e->trials[i]);
        exp_trial_update_task(m, e->trials[i]);
    }
    return EBB_OK;
}

enum ebb_status exp_experiment_kill(struct exp_master *m, struct exp_experiment *e,
                                    struct ebb_error *err)
{
    if (!exp_state_is_stopping(e->state))
        EBB_TRY(exp_experiment_set_state(m, e, EXP_STOPPING_CANCELED, err));
    for (size_t i = 0; i < e->trial_count; i++)
        if (e->trials[i] != NULL && e->trials[i]->alloc != NULL)
            exp_alloc_excuse(m, e->trials[i]->alloc, "the experiment was killed");
    e->is_killed = true;
    return EBB_OK;
}

/* ---- ends ---- */

static enum ebb_status close_trial(struct exp_master *m, struct exp_experiment *e,
                                   struct exp_trial *r, struct ebb_error *err)
{
    r->state = EXP_TRIAL_COMPLETED;
    r->end_time = m->time;
    e->ended_count++;
    exp_dirty_trial(m, r);
    exp_trial_update_task(m, r);
    exp_notice_trial(m, r);
    return exp_experiment_feed(
        m, e, &(struct exp_event){.kind = EXP_EVENT_CLOSED, .request = r->request}, err);
}

static enum ebb_status end(struct exp_master *m, struct exp_experiment *e, struct ebb_error *err)
{
    enum exp_state final = e->state == EXP_STOPPING_CANCELED    ? EXP_CANCELED
                           : e->state == EXP_STOPPING_COMPLETED ? EXP_COMPLETED
                                                                : EXP_ERROR;
    for (size_t i = 0; i < e->trial_count; i++) {
        struct exp_trial *r = e->trials[i];
        if (r == NULL || r->state != EXP_TRIAL_ACTIVE)
            continue;
        r->state = final == EXP_CANCELED ? EXP_TRIAL_CANCELED : EXP_TRIAL_COMPLETED;
        r->end_time = m->time;
        e->ended_count++;
        exp_dirty_trial(m, r);
        exp_notice_trial(m, r);
    }
    e->state = final;
    exp_dirty_experiment(m, e);
    exp_notice_experiment(m, e);
    ebb_log(m->options.log, EBB_LOG_INFO, "experiment %lld: %s%s%s", (long long)e->id,
            exp_state_name(final), e->error != NULL ? ": " : "", e->error != NULL ? e->error : "");
    if (!m->options.keeps_search_log)
        EBB_TRY(exp_db_events_delete(m->db, EXP_DB_ID(e->id), err));
    return exp_gc_collect(m, e->id, err);
}

static bool is_going(const struct exp_experiment *e, const struct exp_trial *r)
{
    return r->state == EXP_TRIAL_ACTIVE && r->alloc == NULL && !exp_state_is_stopping(e->state) &&
           !exp_state_is_ended(e->state);
}

/* A trial that does not get better has done everything that was asked of it, as the search sees it:
 * steps are trained, validations have the metric of the last one. */
static enum ebb_status skip_rest(struct exp_master *m, struct exp_experiment *e,
                                 struct exp_trial *r, struct ebb_error *err)
{
    static const enum exp_event_kind kinds[] = {[EXP_WORK_TRAIN] = EXP_EVENT_TRAINED,
                                                [EXP_WORK_VALIDATE] = EXP_EVENT_VALIDATED,
                                                [EXP_WORK_CHECKPOINT] = EXP_EVENT_CHECKPOINTED};
    struct exp_workload work;
    bool is_small = e->config.searcher.smaller_is_better;
    while (is_going(e, r) && exp_sequence_skip(&r->sequence, &work)) {
        exp_dirty_trial(m, r);
        struct exp_event event = {.kind = kinds[work.kind],
                                  .request = r->request,
                                  .step = work.step,
                                  .metric = is_small ? r->latest_signed : -r->latest_signed};
        EBB_TRY(exp_experiment_feed(m, e, &event, err));
    }
    return EBB_OK;
}

enum ebb_status exp_experiment_settle(struct exp_master *m, struct exp_experiment *e,
                                      struct ebb_error *err)
{
    while (e->checked != NULL) {
        struct exp_trial *r = e->checked;
        e->checked = r->next_checked;
        r->is_checked = false;
        EBB_TRY(skip_rest(m, e, r, err));
        if (is_going(e, r) && exp_sequence_is_done(&r->sequence))
            EBB_TRY(close_trial(m, e, r, err));
    }
    if (!exp_state_is_stopping(e->state) || e->alloc_count > 0)
        return EBB_OK;
    bool is_given_up = e->state == EXP_STOPPING_CANCELED || e->is_killed;
    if (m->options.is_reading_only && !is_given_up)
        return EBB_OK; /* the next master knows what it waits for */
    if (is_given_up) {
        EBB_TRY(exp_uploads_cancel(m, e->id, err));
        exp_board_leave(m, e->id);
    } else if (exp_uploads_wait(m, e->id, 0) || exp_board_holds(m, e->id)) {
        return EBB_OK;
    }
    return end(m, e, err);
}

/* ---- building ---- */

void exp_experiment_free(struct exp_master *m, struct exp_experiment *e)
{
    if (e == NULL)
        return;
    for (size_t i = 0; i < e->trial_count; i++)
        if (e->trials[i] != NULL)
            exp_trial_free(m, e->trials[i]);
    ebb_free(e->trials);
    exp_search_destroy(e->search);
    exp_ops_fini(&e->ops);
    exp_store_close(e->store);
    exp_store_close(e->stage);
    ebb_free(e->stage_location);
    exp_model_release(e->model);
    ebb_free(e->location);
    ebb_free(e->board);
    ebb_free(e->board_location);
    ebb_free(e->board_section);
    ebb_free(e->warm_start);
    ebb_free(e->error);
    ebb_free(e->refusal);
    ebb_arena_fini(&e->arena);
    for (size_t i = 0; i < m->experiment_count; i++)
        if (m->experiments[i] == e) {
            m->experiment_count--;
            memmove(m->experiments + i, m->experiments + i + 1,
                    (m->experiment_count - i) * sizeof *m->experiments);
        }
    ebb_free(e);
}

static enum ebb_status read_config(struct exp_master *m, struct exp_experiment *e,
                                   struct ebb_error *err)
{
    static const char name[] = "stored configuration";
    struct exp_config_options options = {.file_name = name, .default_seed = -1};
    struct exp_db_config row;
    struct ebb_report report;
    const struct ebb_doc_node *root = NULL;
    bool is_there;
    EBB_TRY(
        exp_db_only(exp_db_config_read(m->db, EXP_DB_ID(e->id), &row, err), &e->arena, &is_there));
    if (!is_there)
        return ebb_fail(err, EBB_ECORRUPT, "database: experiment %lld has no configuration",
                        (long long)e->id);
    EBB_TRY(ebb_doc_parse_json(&e->arena, name, row.config, strlen(row.config), &root, err));
    EBB_TRY(exp_text_set(&e->warm_start, row.warm_start, err));
    EBB_TRY(exp_text_set(&e->board, row.board, err));
    return exp_config_read(&e->arena, root, &options, &e->config, &report, err);
}

static enum ebb_status read_row(struct exp_master *m, struct exp_experiment *e,
                                struct ebb_error *err)
{
    struct exp_db_experiment row;
    bool is_there;
    EBB_TRY(exp_db_only(exp_db_experiment_read(m->db, EXP_DB_ID(e->id), &row, err), &m->turn_arena,
                        &is_there));
    if (!is_there || !exp_state_parse(row.state, &e->state))
        return ebb_fail(err, EBB_ECORRUPT, "database: experiment %lld has no state",
                        (long long)e->id);
    e->best = (struct exp_best){.has_metric = !isnan(row.best_signed), .metric = row.best_signed};
    e->best_trial = row.best_trial_id;
    e->best_step = row.best_step_id;
    e->entered_count = row.num_trials;
    e->ended_count = row.num_ended;
    e->weight = row.weight;
    e->max_slots = row.max_slots == EXP_DB_NO_INT ? -1 : row.max_slots;
    return exp_text_set(&e->error, row.error, err);
}

static enum ebb_status open_one(struct exp_master *m, const struct exp_storage *storage, int64_t id,
                                struct exp_store **store, char **location, struct ebb_error *err)
{
    struct ebb_str text = {0};
    EBB_TRY(exp_store_open(storage, id, m->net, store, err));
    exp_store_location(*store, &text);
    EBB_TRY(ebb_str_status(&text, err));
    *location = ebb_str_take(&text);
    return EBB_OK;
}

/* Where event files are sent, if they are. */
static enum ebb_status place_board(struct exp_master *m, struct exp_experiment *e,
                                   struct ebb_error *err)
{
    const struct exp_config *c = &e->config;
    const struct exp_storage *storage =
        c->has_tensorboard_storage ? &c->tensorboard_storage : &c->checkpoint_storage;
    struct exp_store *store = NULL;
    if (e->board == NULL || storage->kind == EXP_STORAGE_SHARED_FS)
        return EBB_OK;
    enum ebb_status status = open_one(m, storage, e->id, &store, &e->board_location, err);
    exp_store_close(store);
    EBB_TRY(status);
    return exp_text_set(&e->board_section,
                        c->has_tensorboard_storage ? "tensorboard_storage" : EXP_STORAGE_SECTION,
                        err);
}

static enum ebb_status open_store(struct exp_master *m, struct exp_experiment *e,
                                  struct ebb_error *err)
{
    const struct exp_storage *storage = &e->config.checkpoint_storage;
    struct exp_storage staging = {.kind = EXP_STORAGE_SHARED_FS};
    char path[4096];
    EBB_TRY(open_one(m, storage, e->id, &e->store, &e->location, err));
    snprintf(path, sizeof path, "%s/" EXP_STAGING, m->state_dir);
    staging.directory = path;
    EBB_TRY(place_board(m, e, err));
    return open_one(m, exp_store_is_remote(e->store) ? &staging : storage, e->id, &e->stage,
                    &e->stage_location, err);
}

/* One stored event: the search must answer as it did. */
static enum ebb_status replay_one(struct exp_master *m, struct exp_experiment *e,
                                  const struct exp_db_event *row, struct ebb_str *ops,
                                  struct ebb_error *err)
{
    const struct ebb_doc_node *node = NULL;
    struct exp_event event;
    exp_ops_clear(&e->ops);
    if (row->seq != e->search_seq)
        return ebb_fail(err, EBB_EINPUT, "event %lld of the search is missing",
                        (long long)e->search_seq);
    if (row->seq == 0) {
        EBB_TRY(exp_search_start(e->search, &e->ops, err));
    } else {
        EBB_TRY(ebb_doc_parse_json(&m->turn_arena, "event", row->content, strlen(row->content),
                                   &node, err));
        EBB_TRY(exp_event_read(node, &event, err));
        EBB_TRY(exp_search_event(e->search, &event, &e->ops, err));
    }
    e->search_seq++;
    EBB_TRY(write_ops(m, e, ops, err));
    if (strcmp(ebb_str_c(ops), row->operations) != 0)
        return ebb_fail(err, EBB_EINPUT,
                        "the search does not answer event %lld as it did when it was stored",
                        (long long)row->seq);
    for (size_t i = 0; i < e->ops.count; i++)
        if (e->ops.items[i].kind != EXP_OP_SHUTDOWN)
            EBB_TRY(apply_one(m, e, &e->ops.items[i], err));
    ebb_arena_reset(&m->turn_arena);
    return EBB_OK;
}

static enum ebb_status replay(struct exp_master *m, struct exp_experiment *e, struct ebb_error *err)
{
    struct exp_db_event row;
    struct ebb_str ops = {0};
    struct exp_db_cursor events = exp_db_events(m->db, EXP_DB_ID(e->id), &row, err);
    while (exp_db_fetch(&events))
        events.status = replay_one(m, e, &row, &ops, err);
    ebb_str_fini(&ops);
    return exp_db_end(&events);
}

static enum ebb_status begin_search(struct exp_master *m, struct exp_experiment *e, bool is_new,
                                    struct ebb_error *err)
{
    EBB_TRY(exp_search_create(&e->config.searcher, &e->config.hyperparameters,
                              e->config.trial_failure, (uint32_t)e->config.experiment_seed,
                              &e->search, err));
    if (!is_new)
        return replay(m, e, err);
    exp_ops_clear(&e->ops);
    EBB_TRY(exp_search_start(e->search, &e->ops, err));
    EBB_TRY(log_event(m, e, "initial", NULL, err));
    return apply_ops(m, e, err);
}

static enum ebb_status insert(struct exp_master *m, struct exp_experiment *e, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&m->experiments, &m->experiment_capacity, m->experiment_count + 1,
                     sizeof *m->experiments, err));
    size_t at = m->experiment_count;
    while (at > 0 && m->experiments[at - 1]->id > e->id)
        at--;
    memmove(m->experiments + at + 1, m->experiments + at,
            (m->experiment_count - at) * sizeof *m->experiments);
    m->experiments[at] = e;
    m->experiment_count++;
    return EBB_OK;
}

enum ebb_status exp_experiment_load(struct exp_master *m, int64_t id, bool is_new,
                                    struct exp_experiment **out, struct ebb_error *err)
{
    struct exp_experiment *e;
    EBB_TRY(ebb_new(&e, 1, sizeof *e, err));
    e->id = id;
    ebb_arena_init(&e->arena);
    exp_ops_init(&e->ops);
    struct exp_db_id files = {0};
    enum ebb_status status = read_config(m, e, err);
    EBB_THEN(status, read_row(m, e, err));
    EBB_THEN(status,
             exp_db_only(exp_db_files_count(m->db, EXP_DB_ID(id), &files, err), NULL, NULL));
    e->has_model = files.id > 0;
    EBB_THEN(status, open_store(m, e, err));
    EBB_THEN(status, insert(m, e, err));
    if (status != EBB_OK) {
        exp_experiment_free(m, e);
        return status;
    }
    *out = e;
    struct ebb_error why;
    status = begin_search(m, e, is_new, &why);
    if (status == EBB_EINPUT || status == EBB_EINTERNAL)
        return fail_experiment(m, e, why.message, err);
    if (status != EBB_OK)
        *err = why;
    return status;
}
