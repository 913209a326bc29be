/* search.c - what is the same around every method: who asked for what, and what was done.
 *
 * Holds rules S1 to S6, S8 and S9 of README.md. Methods are told each completion they asked for
 * once, and everything they ask for passes through exp_search_ask_*, so that a method has no
 * bookkeeping of workloads at all. */
#include "exp/search/method.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"

/* Replacements for invalid samples in a row, without a single validation between them (S9). */
#define REPLACEMENTS_MAX 100

/* ---- life ---- */

enum ebb_status exp_search_create(const struct exp_searcher *config,
                                  const struct exp_hparams *space, enum exp_trial_failure failure,
                                  uint32_t seed, struct exp_search **search, struct ebb_error *err)
{
    const struct exp_search_method *method = exp_method_find(config->kind);
    if (method == NULL)
        return ebb_fail(err, EBB_EINPUT, "searcher %s: no method of this build",
                        exp_searcher_name(config->kind));
    struct exp_search *s;
    EBB_TRY(ebb_new(&s, 1, sizeof *s, err));
    s->method = method;
    s->config = config;
    s->space = space;
    s->failure = failure;
    s->wanted_free = EXP_NO_TRIAL;
    ebb_mt_seed(&s->rng, seed);
    ebb_arena_init(&s->arena);
    ebb_map_init(&s->invalid);
    ebb_strmap_init(&s->ids);
    exp_ops_init(&s->held);
    enum ebb_status status = EBB_OK;
    s->scratch = ebb_calloc(space->count + 1, sizeof *s->scratch);
    s->state = ebb_calloc(1, method->state_bytes + 1); /* some have none */
    if (s->scratch == NULL || s->state == NULL)
        status = ebb_no_memory(err, space->count * sizeof *s->scratch + method->state_bytes);
    if (status == EBB_OK && method->init != NULL)
        status = method->init(s, err);
    return EBB_HAND_OUT(status, search, s, exp_search_destroy);
}

void exp_search_destroy(struct exp_search *s)
{
    if (s == NULL)
        return;
    if (s->method->fini != NULL && s->state != NULL)
        s->method->fini(s);
    ebb_free(s->state);
    ebb_free(s->scratch);
    ebb_free(s->trials);
    ebb_free(s->wanted);
    ebb_free(s->ready);
    ebb_strmap_fini(&s->ids);
    ebb_map_fini(&s->invalid);
    exp_ops_fini(&s->held);
    ebb_arena_fini(&s->arena);
    ebb_free(s);
}

/* ---- what is asked for and not done ---- */

static bool has_work(const struct exp_search_trial *t)
{
    return t->requested > t->trained || t->wanted != EXP_NO_TRIAL;
}

/* Takes a place of max_concurrent_trials. */
static bool is_busy(const struct exp_search_trial *t)
{
    return t->held_ops == 0 && !t->is_closed && has_work(t);
}

/* Recount after a change of `t`, which was busy before or not. */
static void recount(struct exp_search *s, const struct exp_search_trial *t, bool was_busy)
{
    s->busy_count += (size_t)is_busy(t) - (size_t)was_busy;
}

static enum ebb_status want(struct exp_search *s, struct exp_search_trial *t, int64_t step,
                            bool is_checkpoint, struct ebb_error *err)
{
    uint32_t index = s->wanted_free;
    if (index != EXP_NO_TRIAL) {
        s->wanted_free = s->wanted[index].next;
    } else {
        EBB_TRY(
            ebb_grow(&s->wanted, &s->wanted_capacity, s->wanted_count + 1, sizeof *s->wanted, err));
        index = (uint32_t)s->wanted_count++;
    }
    s->wanted[index] =
        (struct exp_wanted){.step = step, .is_checkpoint = is_checkpoint, .next = t->wanted};
    t->wanted = index;
    return EBB_OK;
}

/* Strike one off the list; false: it was not asked for, or is already done. */
static bool unwant(struct exp_search *s, struct exp_search_trial *t, int64_t step,
                   bool is_checkpoint)
{
    for (uint32_t *link = &t->wanted; *link != EXP_NO_TRIAL; link = &s->wanted[*link].next) {
        struct exp_wanted *w = &s->wanted[*link];
        if (w->step != step || w->is_checkpoint != is_checkpoint)
            continue;
        uint32_t index = *link;
        *link = w->next;
        w->next = s->wanted_free;
        s->wanted_free = index;
        return true;
    }
    return false;
}

/* ---- samples that are known to be invalid ---- */

/* Of a value, by its place in the space: not by addresses, since searches are replayed. */
static uint64_t value_bits(const struct exp_hparam *param, const struct exp_value *value)
{
    uint64_t bits = (uint64_t)value->integer;
    if (value->kind == EXP_VALUE_DOUBLE)
        memcpy(&bits, &value->number, sizeof bits);
    if (value->kind == EXP_VALUE_NODE)
        for (bits = 0; bits < param->value_count && param->values[bits] != value->node;)
            bits++;
    return bits;
}

static uint64_t hash_sample(const struct exp_search *s, const struct exp_value *sample)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < s->space->count; i++) {
        uint64_t state = hash ^ value_bits(&s->space->items[i], &sample[i]);
        hash = ebb_splitmix64(&state);
    }
    return hash;
}

bool exp_search_is_refused(const struct exp_search *s, const struct exp_value *sample)
{
    return s->invalid.count > 0 && ebb_map_get(&s->invalid, hash_sample(s, sample), NULL);
}

void exp_search_draw(struct exp_search *s, struct exp_value *sample)
{
    exp_sample(s->space, &s->rng, sample);
    for (int i = 0; i < EXP_DRAWS_MAX && exp_search_is_refused(s, sample); i++)
        exp_sample(s->space, &s->rng, sample);
}

/* Samples there are; UINT64_MAX: more than anybody could try. */
static uint64_t space_size(const struct exp_hparams *space)
{
    uint64_t size = 1;
    for (size_t i = 0; i < space->count; i++) {
        const struct exp_hparam *param = &space->items[i];
        uint64_t values = UINT64_MAX;
        if (param->kind == EXP_HPARAM_CONST)
            values = 1;
        else if (param->kind == EXP_HPARAM_CATEGORICAL)
            values = param->value_count;
        else if (param->kind == EXP_HPARAM_INT)
            values = (uint64_t)(param->int_max - param->int_min) + 1;
        if (__builtin_mul_overflow(size, values, &size))
            return UINT64_MAX;
    }
    return size;
}

/* S9: whether an INVALID_HP exit may still be answered by a replacement. */
static bool may_replace(const struct exp_search *s)
{
    return s->invalid_row <= REPLACEMENTS_MAX && s->invalid.count < space_size(s->space);
}

bool exp_search_refused_by(const struct exp_search *s, uint32_t trial, uint32_t *by)
{
    uint64_t first;
    if (trial >= s->trial_count || !ebb_map_get(&s->invalid, s->trials[trial].sample, &first))
        return false;
    *by = (uint32_t)first;
    return true;
}

/* ---- asking ---- */

void exp_search_draw_identity(struct exp_search *s, struct exp_identity *identity)
{
    ebb_mt_bytes(&s->rng, identity->id.bytes, sizeof identity->id.bytes);
    identity->id.bytes[6] = (uint8_t)((identity->id.bytes[6] & 0x0f) | 0x40);
    identity->id.bytes[8] = (uint8_t)((identity->id.bytes[8] & 0x3f) | 0x80);
    identity->seed = (uint32_t)ebb_mt_int64(&s->rng, 0, INT64_C(1) << 31);
}

static struct exp_ops *target(struct exp_search *s, const struct exp_search_trial *t)
{
    return t->held_ops > 0 ? &s->held : s->out;
}

/* Append an operation for a trial; the caller has set everything but trial and request. */
static enum ebb_status put(struct exp_search *s, uint32_t trial, struct exp_op op,
                           struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    struct exp_ops *ops = target(s, t);
    EBB_TRY(ebb_grow(&ops->items, &ops->capacity, ops->count + 1, sizeof *ops->items, err));
    op.trial = trial;
    op.request = t->id;
    ops->items[ops->count++] = op;
    if (ops == &s->held)
        t->held_ops++;
    return EBB_OK;
}

static enum ebb_status put_create(struct exp_search *s, uint32_t trial,
                                  const struct exp_new_trial *new_trial, struct ebb_error *err)
{
    struct exp_ops *ops = target(s, &s->trials[trial]);
    struct exp_create create = {.trial_seed = new_trial->identity.seed, .values = ops->value_count};
    EBB_TRY(ebb_grow(&ops->creates, &ops->create_capacity, ops->create_count + 1,
                     sizeof *ops->creates, err));
    if (new_trial->parent != EXP_NO_TRIAL) {
        create.has_source = true;
        create.source = s->trials[new_trial->parent].id;
        create.source_step = new_trial->parent_step;
    }
    if (s->space->count > 0) {
        EBB_TRY(ebb_grow(&ops->values, &ops->value_capacity, ops->value_count + s->space->count,
                         sizeof *ops->values, err));
        memcpy(ops->values + ops->value_count, new_trial->sample,
               s->space->count * sizeof *ops->values);
        ops->value_count += s->space->count;
    }
    ops->creates[ops->create_count] = create;
    return put(s, trial, (struct exp_op){.kind = EXP_OP_CREATE, .create = ops->create_count++},
               err);
}

static bool is_limited(const struct exp_search *s)
{
    return s->config->max_concurrent_trials > 0 && !s->method->limits_itself;
}

static bool has_place(const struct exp_search *s)
{
    return s->busy_count < (uint64_t)s->config->max_concurrent_trials;
}

enum ebb_status exp_search_ask_create(struct exp_search *s, const struct exp_new_trial *new_trial,
                                      uint32_t *index, struct ebb_error *err)
{
    const struct exp_request_id id = new_trial->identity.id;
    char text[EXP_REQUEST_TEXT];
    uint32_t known;
    if (s->trial_count >= EXP_NO_TRIAL)
        return ebb_fail(err, EBB_ELIMIT, "search: more than %u trials", EXP_NO_TRIAL - 1);
    if (exp_search_find(s, id, &known)) /* a generator that repeats itself: a tampered state */
        return ebb_fail(err, EBB_EINTERNAL, "search: request id %s was drawn twice",
                        exp_request_format(id, text));
    EBB_TRY(ebb_grow(&s->trials, &s->trial_capacity, s->trial_count + 1, sizeof *s->trials, err));
    EBB_TRY(ebb_strmap_put(&s->ids, (const char *)id.bytes, sizeof id.bytes, s->trial_count, err));
    uint32_t trial = (uint32_t)s->trial_count++;
    bool is_held = is_limited(s) && (s->held_at < s->held.count || !has_place(s));
    s->trials[trial] = (struct exp_search_trial){.id = id,
                                                 .sample = hash_sample(s, new_trial->sample),
                                                 .wanted = EXP_NO_TRIAL,
                                                 .held_ops = is_held};
    EBB_TRY(put_create(s, trial, new_trial, err));
    s->trials[trial].held_ops = is_held; /* counted once: put saw the mark as an operation */
    *index = trial;
    return EBB_OK;
}

enum ebb_status exp_search_ask_train(struct exp_search *s, uint32_t trial, int64_t step,
                                     struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    bool was_busy = is_busy(t);
    if (step > t->requested) {
        struct exp_op train = {
            .kind = EXP_OP_TRAIN, .first_step = t->requested + 1, .last_step = step};
        EBB_TRY(put(s, trial, train, err));
        t->requested = step;
    }
    EBB_TRY(put(s, trial, (struct exp_op){.kind = EXP_OP_VALIDATE, .last_step = step}, err));
    EBB_TRY(want(s, t, step, false, err));
    recount(s, t, was_busy);
    return EBB_OK;
}

enum ebb_status exp_search_ask_checkpoint(struct exp_search *s, uint32_t trial, int64_t step,
                                          struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    if (t->checkpoint == step) { /* S3: it has happened already; tell the method afterwards */
        EBB_TRY(ebb_grow(&s->ready, &s->ready_capacity, s->ready_count + 1, sizeof *s->ready, err));
        s->ready[s->ready_count++] = (struct exp_ready){.trial = trial, .step = step};
        return EBB_OK;
    }
    bool was_busy = is_busy(t);
    EBB_TRY(put(s, trial, (struct exp_op){.kind = EXP_OP_CHECKPOINT, .last_step = step}, err));
    EBB_TRY(want(s, t, step, true, err));
    recount(s, t, was_busy);
    return EBB_OK;
}

enum ebb_status exp_search_ask_close(struct exp_search *s, uint32_t trial, struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    if (t->is_close_asked || t->is_closed)
        return EBB_OK;
    EBB_TRY(put(s, trial, (struct exp_op){.kind = EXP_OP_CLOSE}, err));
    t->is_close_asked = true;
    return EBB_OK;
}

static enum ebb_status ask_shutdown(struct exp_search *s, bool is_failure, struct ebb_error *err)
{
    struct exp_ops *ops = s->out;
    EBB_TRY(ebb_grow(&ops->items, &ops->capacity, ops->count + 1, sizeof *ops->items, err));
    ops->items[ops->count++] =
        (struct exp_op){.kind = EXP_OP_SHUTDOWN, .is_failure = is_failure, .trial = EXP_NO_TRIAL};
    s->is_shut_down = true;
    return EBB_OK;
}

enum ebb_status exp_search_ask_sampled(struct exp_search *s, int64_t step, uint32_t *index,
                                       struct ebb_error *err)
{
    struct exp_new_trial new_trial = {.sample = s->scratch, .parent = EXP_NO_TRIAL};
    exp_search_draw(s, s->scratch);
    exp_search_draw_identity(s, &new_trial.identity);
    EBB_TRY(exp_search_ask_create(s, &new_trial, index, err));
    return exp_search_ask_train(s, *index, step, err);
}

/* ---- held creations ---- */

static enum ebb_status release_one(struct exp_search *s, struct exp_op *op, struct ebb_error *err)
{
    EBB_TRY(exp_ops_copy(s->out, &s->held, op, s->space->count, err));
    if (s->trials[op->trial].held_ops > 0)
        s->trials[op->trial].held_ops--;
    op->trial = EXP_NO_TRIAL; /* a hole */
    return EBB_OK;
}

/* Let out the oldest waiting creation with everything asked of its trial. */
static enum ebb_status release_trial(struct exp_search *s, struct ebb_error *err)
{
    uint32_t trial = s->held.items[s->held_at].trial;
    for (size_t i = s->held_at; i < s->held.count && s->trials[trial].held_ops > 0; i++)
        if (s->held.items[i].trial == trial)
            EBB_TRY(release_one(s, &s->held.items[i], err));
    recount(s, &s->trials[trial], false);
    return EBB_OK;
}

static enum ebb_status release(struct exp_search *s, struct ebb_error *err)
{
    while (s->held_at < s->held.count) {
        if (s->held.items[s->held_at].trial == EXP_NO_TRIAL)
            s->held_at++;
        else if (has_place(s))
            EBB_TRY(release_trial(s, err));
        else
            return EBB_OK;
    }
    exp_ops_clear(&s->held);
    s->held_at = 0;
    return EBB_OK;
}

/* ---- forwarding ---- */

static void count_work(struct exp_search *s, uint32_t trial, int64_t workloads)
{
    s->workloads += (uint64_t)workloads;
    if (s->method->worked != NULL)
        s->method->worked(s, trial, workloads);
}

static enum ebb_status forward_checkpoint(struct exp_search *s, uint32_t trial, int64_t step,
                                          struct ebb_error *err)
{
    count_work(s, trial, 1);
    return s->method->checkpointed != NULL ? s->method->checkpointed(s, trial, step, err) : EBB_OK;
}

/* Forward remembered checkpoints, release held creations. */
static enum ebb_status settle(struct exp_search *s, struct ebb_error *err)
{
    while (s->ready_at < s->ready_count) {
        struct exp_ready ready = s->ready[s->ready_at++];
        EBB_TRY(forward_checkpoint(s, ready.trial, ready.step, err));
    }
    s->ready_at = s->ready_count = 0;
    return is_limited(s) && !s->is_shut_down ? release(s, err) : EBB_OK;
}

static enum ebb_status on_trained(struct exp_search *s, uint32_t trial,
                                  const struct exp_event *event, struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    if (event->step <= t->trained)
        return EBB_OK; /* done again after a crash (S2) */
    bool was_busy = is_busy(t);
    int64_t steps = event->step - t->trained;
    t->trained = event->step;
    recount(s, t, was_busy);
    count_work(s, trial, steps);
    return s->method->trained != NULL ? s->method->trained(s, trial, event->step, err) : EBB_OK;
}

static enum ebb_status on_validated(struct exp_search *s, uint32_t trial,
                                    const struct exp_event *event, struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    bool was_busy = is_busy(t);
    if (!unwant(s, t, event->step, false))
        return EBB_OK; /* not asked for, or done again (S1, S2) */
    recount(s, t, was_busy);
    s->invalid_row = 0;
    count_work(s, trial, 1);
    return s->method->validated(
        s, trial, event->step, exp_metric_signed(event->metric, s->config->smaller_is_better), err);
}

static enum ebb_status on_checkpointed(struct exp_search *s, uint32_t trial,
                                       const struct exp_event *event, struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    bool was_busy = is_busy(t);
    if (event->step > t->checkpoint)
        t->checkpoint = event->step;
    if (!unwant(s, t, event->step, true))
        return EBB_OK;
    recount(s, t, was_busy);
    return forward_checkpoint(s, trial, event->step, err);
}

/* S4 and S8. */
static enum ebb_status end_if_all_closed(struct exp_search *s, struct ebb_error *err)
{
    if (s->is_shut_down || s->closed_count < s->trial_count)
        return EBB_OK;
    return ask_shutdown(s, s->completed_count == 0, err);
}

static enum ebb_status on_closed(struct exp_search *s, uint32_t trial, struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    if (t->is_closed)
        return EBB_OK;
    bool was_busy = is_busy(t);
    t->is_closed = true;
    recount(s, t, was_busy);
    s->closed_count++;
    s->completed_count++;
    t->is_completed = true;
    if (s->method->closed != NULL)
        EBB_TRY(s->method->closed(s, trial, err));
    return end_if_all_closed(s, err);
}

static enum ebb_status on_exited(struct exp_search *s, uint32_t trial, enum exp_exit_reason reason,
                                 struct ebb_error *err)
{
    struct exp_search_trial *t = &s->trials[trial];
    if (t->is_closed)
        return EBB_OK;
    bool was_busy = is_busy(t), had_work = has_work(t);
    t->is_closed = t->is_exited = true;
    recount(s, t, was_busy);
    while (t->wanted != EXP_NO_TRIAL)
        unwant(s, t, s->wanted[t->wanted].step, s->wanted[t->wanted].is_checkpoint);
    s->closed_count++;
    t->is_completed = reason == EXP_EXIT_USER_CANCELED;
    s->completed_count += t->is_completed;
    if (reason == EXP_EXIT_INVALID_HP) {
        s->invalid_row++;
        if (!ebb_map_get(&s->invalid, t->sample, NULL))
            EBB_TRY(ebb_map_put(&s->invalid, t->sample, trial, err));
        if (!may_replace(s))
            reason = EXP_EXIT_ERRORED; /* S9 */
    }
    if (reason == EXP_EXIT_ERRORED && s->failure == EXP_FAILURE_FAIL_EXPERIMENT)
        return ask_shutdown(s, true, err);
    if (s->method->exited != NULL)
        EBB_TRY(s->method->exited(s, trial, reason, had_work, err));
    return end_if_all_closed(s, err);
}

static enum ebb_status dispatch(struct exp_search *s, uint32_t trial, const struct exp_event *event,
                                struct ebb_error *err)
{
    switch (event->kind) {
    case EXP_EVENT_CREATED:
        return EBB_OK;
    case EXP_EVENT_TRAINED:
        return on_trained(s, trial, event, err);
    case EXP_EVENT_VALIDATED:
        return on_validated(s, trial, event, err);
    case EXP_EVENT_CHECKPOINTED:
        return on_checkpointed(s, trial, event, err);
    case EXP_EVENT_CLOSED:
        return on_closed(s, trial, err);
    case EXP_EVENT_EXITED:
        return on_exited(s, trial, event->reason, err);
    }
    return EBB_OK;
}

/* Refuse what cannot be, before anything changes. */
static enum ebb_status check_event(const struct exp_search *s, const struct exp_event *event,
                                   uint32_t *trial, struct ebb_error *err)
{
    char text[EXP_REQUEST_TEXT];
    if (s->is_broken || !s->is_started)
        return ebb_fail(err, EBB_EINTERNAL, "search: %s",
                        s->is_broken ? "an earlier event failed" : "an event before the start");
    if (event->kind > EXP_EVENT_EXITED || event->reason > EXP_EXIT_USER_CANCELED)
        return ebb_fail(err, EBB_EINPUT, "search: no such event");
    if (!exp_search_find(s, event->request, trial) || s->trials[*trial].held_ops > 0)
        return ebb_fail(err, EBB_EINPUT, "search: %s for the unknown trial %s",
                        exp_event_name(event->kind), exp_request_format(event->request, text));
    const struct exp_search_trial *t = &s->trials[*trial];
    if (event->kind == EXP_EVENT_TRAINED && !t->is_closed && event->step > t->requested)
        return ebb_fail(err, EBB_EINPUT, "search: trial %s completed step %lld of %lld asked for",
                        exp_request_format(event->request, text), (long long)event->step,
                        (long long)t->requested);
    return EBB_OK;
}

struct mark {
    size_t count, create_count, value_count;
};

static struct mark mark_ops(const struct exp_ops *ops)
{
    return (struct mark){ops->count, ops->create_count, ops->value_count};
}

static void finish(struct exp_search *s, struct mark mark, enum ebb_status status)
{
    if (status != EBB_OK) {
        s->is_broken = true;
        s->out->count = mark.count;
        s->out->create_count = mark.create_count;
        s->out->value_count = mark.value_count;
    }
    s->out = NULL;
}

enum ebb_status exp_search_start(struct exp_search *s, struct exp_ops *ops, struct ebb_error *err)
{
    if (s->is_started || s->is_broken)
        return ebb_fail(err, EBB_EINTERNAL, "search: started twice");
    struct mark mark = mark_ops(ops);
    s->is_started = true;
    s->out = ops;
    enum ebb_status status = s->method->start(s, err);
    finish(s, mark, status);
    return status;
}

enum ebb_status exp_search_event(struct exp_search *s, const struct exp_event *event,
                                 struct exp_ops *ops, struct ebb_error *err)
{
    uint32_t trial = EXP_NO_TRIAL;
    EBB_TRY(check_event(s, event, &trial, err));
    if (s->is_shut_down)
        return EBB_OK;
    struct mark mark = mark_ops(ops);
    s->out = ops;
    enum ebb_status status = EBB_OK;
    if (!s->trials[trial].is_closed || event->kind == EXP_EVENT_CREATED)
        status = dispatch(s, trial, event, err);
    EBB_THEN(status, settle(s, err));
    finish(s, mark, status);
    return status;
}

/* ---- questions ---- */

double exp_search_progress(const struct exp_search *s)
{
    double progress = s->method->progress(s);
    if (!isfinite(progress))
        return 0.0; /* S5 */
    return progress < 0 ? 0.0 : progress > 1 ? 1.0 : progress;
}

bool exp_search_find(const struct exp_search *s, struct exp_request_id request, uint32_t *trial)
{
    uint64_t index;
    if (!ebb_strmap_get(&s->ids, (const char *)request.bytes, sizeof request.bytes, &index))
        return false;
    *trial = (uint32_t)index;
    return true;
}

size_t exp_search_bracket(const struct exp_search *s, uint32_t trial)
{
    return s->method->bracket != NULL ? s->method->bracket(s, trial) : 0;
}
