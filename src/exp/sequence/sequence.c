/* sequence.c - see sequence.h. */
#include "exp/sequence/sequence.h"

#include <string.h>

#include "base/heap.h"

void exp_sequence_init(struct exp_sequence *q, const struct exp_sequence_rules *rules)
{
    *q = (struct exp_sequence){.rules = *rules, .has_validation = true, .has_checkpoint = true};
}

void exp_sequence_fini(struct exp_sequence *q)
{
    ebb_free(q->wishes);
    *q = (struct exp_sequence){0};
}

/* ---- wishes ---- */

/* Index of the first wish at or after a step. */
static size_t wish_at(const struct exp_sequence *q, int64_t step)
{
    size_t low = 0, high = q->wish_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (q->wishes[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Step 0 is a dummy with everything wished and done. */
static struct exp_wish wishes_of(const struct exp_sequence *q, int64_t step)
{
    size_t i = wish_at(q, step);
    if (step == 0)
        return (struct exp_wish){.validation = true, .checkpoint = true};
    if (i < q->wish_count && q->wishes[i].step == step)
        return q->wishes[i];
    return (struct exp_wish){.step = step};
}

static enum ebb_status wish(struct exp_sequence *q, int64_t step, bool validation, bool checkpoint,
                            struct ebb_error *err)
{
    size_t i = wish_at(q, step);
    if (i == q->wish_count || q->wishes[i].step != step) {
        EBB_TRY(ebb_grow(&q->wishes, &q->wish_capacity, q->wish_count + 1, sizeof *q->wishes, err));
        memmove(q->wishes + i + 1, q->wishes + i, (q->wish_count - i) * sizeof *q->wishes);
        q->wishes[i] = (struct exp_wish){.step = step};
        q->wish_count++;
    }
    q->wishes[i].validation |= validation;
    q->wishes[i].checkpoint |= checkpoint;
    return EBB_OK;
}

/* Drop what lies before the last checkpoint: a rollback never goes there (Q4). */
static void forget_wishes(struct exp_sequence *q)
{
    size_t done = wish_at(q, q->checkpoint);
    for (size_t i = 0; i < done; i++) {
        if (q->wishes[i].validation)
            q->validation_before = q->wishes[i].step;
        if (q->wishes[i].checkpoint)
            q->checkpoint_before = q->wishes[i].step;
    }
    q->wish_count -= done;
    if (done > 0 && q->wish_count > 0)
        memmove(q->wishes, q->wishes + done, q->wish_count * sizeof *q->wishes);
}

/* Steps since the last one at or before `step` with this wish. */
static int64_t steps_since(const struct exp_sequence *q, int64_t step, bool validation)
{
    size_t i = wish_at(q, step + 1);
    while (i > 0) {
        const struct exp_wish *w = &q->wishes[--i];
        if (validation ? w->validation : w->checkpoint)
            return step - w->step;
    }
    return step - (validation ? q->validation_before : q->checkpoint_before);
}

enum ebb_status exp_sequence_ask(struct exp_sequence *q, const struct exp_op *op,
                                 struct ebb_error *err)
{
    switch (op->kind) {
    case EXP_OP_TRAIN:
        if (op->first_step != q->requested + 1 || op->last_step < op->first_step)
            return ebb_fail(err, EBB_EINPUT, "trial: steps %lld..%lld asked for after step %lld",
                            (long long)op->first_step, (long long)op->last_step,
                            (long long)q->requested);
        q->requested = op->last_step;
        return EBB_OK;
    case EXP_OP_VALIDATE:
    case EXP_OP_CHECKPOINT:
        if (op->last_step < q->current || op->last_step > q->requested || op->last_step < 1)
            return ebb_fail(
                err, EBB_EINPUT, "trial: a %s asked for at step %lld, which is not in %lld..%lld",
                op->kind == EXP_OP_VALIDATE ? "validation" : "checkpoint", (long long)op->last_step,
                (long long)q->current, (long long)q->requested);
        return wish(q, op->last_step, op->kind == EXP_OP_VALIDATE, op->kind == EXP_OP_CHECKPOINT,
                    err);
    case EXP_OP_CLOSE:
        q->is_close_asked = true;
        return EBB_OK;
    case EXP_OP_CREATE:
    case EXP_OP_SHUTDOWN:
        break;
    }
    return ebb_fail(err, EBB_EINPUT, "trial: not an operation for a trial");
}

/* ---- the next workload ---- */

/* What was asked for; TERMINATE: nothing is left (7.1). */
static struct exp_workload wanted(const struct exp_sequence *q)
{
    struct exp_wish w = wishes_of(q, q->current);
    if (exp_sequence_is_over(q))
        return (struct exp_workload){q->has_checkpoint ? EXP_WORK_TERMINATE : EXP_WORK_CHECKPOINT,
                                     q->current};
    if (w.validation && !q->has_validation)
        return (struct exp_workload){EXP_WORK_VALIDATE, q->current};
    if (w.checkpoint && !q->has_checkpoint)
        return (struct exp_workload){EXP_WORK_CHECKPOINT, q->current};
    if (q->current < q->requested)
        return (struct exp_workload){EXP_WORK_TRAIN, q->current + 1};
    return (struct exp_workload){EXP_WORK_TERMINATE, q->current};
}

bool exp_sequence_has_work(const struct exp_sequence *q)
{
    return !q->is_failed && wanted(q).kind != EXP_WORK_TERMINATE;
}

bool exp_sequence_is_done(const struct exp_sequence *q)
{
    return q->is_close_asked && !q->is_running && !q->is_failed && !exp_sequence_has_work(q);
}

int64_t exp_sequence_start(struct exp_sequence *q)
{
    q->is_running = true;
    q->is_stop_asked = q->is_busy = false;
    return q->checkpoint;
}

struct exp_workload exp_sequence_peek(const struct exp_sequence *q)
{
    struct exp_workload work = wanted(q);
    if (q->is_stop_asked || work.kind == EXP_WORK_TERMINATE) /* Q2; a stop comes before wishes */
        work = (struct exp_workload){q->has_checkpoint ? EXP_WORK_TERMINATE : EXP_WORK_CHECKPOINT,
                                     q->current};
    return work;
}

struct exp_workload exp_sequence_next(struct exp_sequence *q)
{
    q->work = exp_sequence_peek(q);
    q->is_busy = true;
    return q->work;
}

static enum ebb_status trained(struct exp_sequence *q, struct ebb_error *err)
{
    int64_t step = q->current + 1;
    const struct exp_sequence_rules *rules = &q->rules;
    bool validation = rules->min_validation_period > 0 &&
                      steps_since(q, step, true) >= rules->min_validation_period;
    bool checkpoint = rules->min_checkpoint_period > 0 &&
                      steps_since(q, step, false) >= rules->min_checkpoint_period;
    if (validation || checkpoint)
        EBB_TRY(wish(q, step, validation, checkpoint, err));
    q->current = step;
    q->has_validation = q->has_checkpoint = false;
    return EBB_OK;
}

static enum ebb_status validated(struct exp_sequence *q, bool is_best, struct ebb_error *err)
{
    enum exp_checkpoint_policy policy = q->rules.checkpoint_policy;
    if (policy == EXP_POLICY_ALL || (policy == EXP_POLICY_BEST && is_best))
        EBB_TRY(wish(q, q->current, false, true, err));
    q->has_validation = true;
    return EBB_OK;
}

static enum ebb_status checkpointed(struct exp_sequence *q, struct ebb_error *err)
{
    EBB_TRY(wish(q, q->current, false, true, err)); /* periods count from any checkpoint */
    q->has_checkpoint = true;
    q->checkpoint = q->current;
    q->watch_kept = q->watch;
    forget_wishes(q);
    return EBB_OK;
}

enum ebb_status exp_sequence_complete(struct exp_sequence *q, const struct exp_workload *work,
                                      bool is_best, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    if (!q->is_running || !q->is_busy || work->kind != q->work.kind || work->step != q->work.step ||
        work->kind == EXP_WORK_TERMINATE)
        return ebb_fail(err, EBB_EINPUT,
                        "trial: a workload at step %lld is complete that was not "
                        "begun",
                        (long long)work->step);
    if (work->kind == EXP_WORK_TRAIN)
        status = trained(q, err);
    else if (work->kind == EXP_WORK_VALIDATE)
        status = validated(q, is_best, err);
    else
        status = checkpointed(q, err);
    if (status == EBB_OK)
        q->is_busy = false;
    return status;
}

/* ---- patience ---- */

bool exp_sequence_is_over(const struct exp_sequence *q)
{
    return q->rules.patience > 0 && q->watch.since >= q->rules.patience;
}

bool exp_sequence_watch(struct exp_sequence *q, double metric)
{
    struct exp_watch *w = &q->watch;
    if (!w->has_metric || metric < w->best)
        *w = (struct exp_watch){.has_metric = true, .best = metric};
    else
        w->since++;
    return exp_sequence_is_over(q);
}

/* The step after the one told last that has a wish, or the last one. */
static int64_t next_told(const struct exp_sequence *q)
{
    size_t i = wish_at(q, q->told.step + 1);
    return i < q->wish_count ? q->wishes[i].step : q->requested;
}

bool exp_sequence_skip(struct exp_sequence *q, struct exp_workload *work)
{
    struct exp_wish *told = &q->told;
    if (!exp_sequence_is_over(q) || q->is_running || q->is_failed)
        return false;
    if (told->step < q->current) /* so far everything was done */
        *told = (struct exp_wish){.step = q->current, .validation = true, .checkpoint = true};
    struct exp_wish w = wishes_of(q, told->step);
    if (w.validation && !told->validation) {
        told->validation = true;
        *work = (struct exp_workload){EXP_WORK_VALIDATE, told->step};
    } else if (w.checkpoint && !told->checkpoint) {
        told->checkpoint = true;
        *work = (struct exp_workload){EXP_WORK_CHECKPOINT, told->step};
    } else if (told->step < q->requested) {
        *told = (struct exp_wish){.step = next_told(q)};
        *work = (struct exp_workload){EXP_WORK_TRAIN, told->step};
    } else {
        return false;
    }
    return true;
}

void exp_sequence_stop(struct exp_sequence *q)
{
    q->is_stop_asked = q->is_running;
}

/* ---- the end of a process ---- */

/* Back to the end of the last checkpointed step; its wishes have been fulfilled, or training would
 * not have gone on. */
static void roll_back(struct exp_sequence *q)
{
    if (q->has_checkpoint)
        return;
    q->current = q->checkpoint;
    q->has_checkpoint = true;
    q->has_validation = wishes_of(q, q->current).validation;
    q->watch = q->watch_kept;
}

enum exp_sequence_exit exp_sequence_exit(struct exp_sequence *q, enum exp_sequence_end end)
{
    if (!q->is_running)
        return EXP_SEQUENCE_UNCHANGED;
    bool was_told = q->is_busy && q->work.kind == EXP_WORK_TERMINATE;
    q->is_running = q->is_busy = q->is_stop_asked = false;
    if (end == EXP_END_CLEAN && was_told && q->has_checkpoint)
        return EXP_SEQUENCE_ENDED;
    bool is_excused = end == EXP_END_LOST || (end == EXP_END_CLEAN && was_told);
    if (end == EXP_END_VAIN || (!is_excused && ++q->restarts > q->rules.max_restarts)) {
        q->is_failed = true;
        return EXP_SEQUENCE_FAILED;
    }
    roll_back(q);
    return EXP_SEQUENCE_ROLLED_BACK;
}

void exp_sequence_rewind(struct exp_sequence *q, int64_t step)
{
    q->checkpoint = step;
    q->has_checkpoint = false;
    q->watch_kept =
        (struct exp_watch){0}; /* what it was there nobody knows: patience begins anew */
    if (!q->is_running)
        roll_back(q);
}

/* ---- saved form ---- */

static void save_watch(struct ebb_json_writer *w, const char *key, const struct exp_watch *watch)
{
    ebb_jsonw_key_object(w, key);
    if (watch->has_metric)
        ebb_jsonw_key_double(w, "best", watch->best);
    ebb_jsonw_key_int(w, "since", watch->since);
    ebb_jsonw_object_end(w);
}

static struct exp_watch load_watch(const struct ebb_doc_node *node, const char *key)
{
    const struct ebb_doc_node *watch = ebb_doc_get(node, key);
    int64_t since = ebb_doc_int(watch, "since", 0);
    return (struct exp_watch){.has_metric = ebb_doc_get(watch, "best") != NULL,
                              .best = ebb_doc_double(watch, "best", 0),
                              .since = since > 0 ? since : 0};
}

void exp_sequence_save(const struct exp_sequence *q, struct ebb_json_writer *w)
{
    static const char *const names[] = {"requested",         "current",           "checkpoint",
                                        "validation_before", "checkpoint_before", "restarts"};
    const int64_t values[] = {q->requested,         q->current,           q->checkpoint,
                              q->validation_before, q->checkpoint_before, q->restarts};
    ebb_jsonw_object(w);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        ebb_jsonw_key_int(w, names[i], values[i]);
    ebb_jsonw_key_bool(w, "validated", q->has_validation);
    ebb_jsonw_key_bool(w, "checkpointed", q->has_checkpoint);
    ebb_jsonw_key_bool(w, "closing", q->is_close_asked);
    ebb_jsonw_key_bool(w, "failed", q->is_failed);
    if (q->rules.patience > 0) {
        save_watch(w, "watch", &q->watch);
        save_watch(w, "watch_kept", &q->watch_kept);
        ebb_jsonw_key_int(w, "told", q->told.step);
        ebb_jsonw_key_bool(w, "told_validation", q->told.validation);
        ebb_jsonw_key_bool(w, "told_checkpoint", q->told.checkpoint);
    }
    ebb_jsonw_key(w, "wishes"); /* [step, 1 = validation | 2 = checkpoint, ...] */
    ebb_jsonw_array(w);
    for (size_t i = 0; i < q->wish_count; i++) {
        ebb_jsonw_int(w, q->wishes[i].step);
        ebb_jsonw_int(w, (q->wishes[i].validation ? 1 : 0) | (q->wishes[i].checkpoint ? 2 : 0));
    }
    ebb_jsonw_array_end(w);
    ebb_jsonw_object_end(w);
}

static enum ebb_status load_wishes(struct exp_sequence *q, const struct ebb_doc_node *list,
                                   struct ebb_error *err)
{
    int64_t before = 0;
    if (list == NULL || list->kind != EBB_DOC_LIST || list->count % 2 != 0)
        return ebb_fail(err, EBB_EINPUT, "trial state: wishes: no list of pairs");
    for (size_t i = 0; i < list->count; i += 2) {
        const struct ebb_doc_node *step = list->items[i], *bits = list->items[i + 1];
        if (step->kind != EBB_DOC_INT || bits->kind != EBB_DOC_INT || step->integer <= before ||
            step->integer > q->requested || bits->integer < 0 || bits->integer > 3)
            return ebb_fail(err, EBB_EINPUT, "trial state: wishes[%zu]: impossible", i / 2);
        before = step->integer;
        EBB_TRY(wish(q, before, (bits->integer & 1) != 0, (bits->integer & 2) != 0, err));
    }
    return EBB_OK;
}

static enum ebb_status load_all(struct exp_sequence *q, const struct ebb_doc_node *node,
                                struct ebb_error *err)
{
    q->requested = ebb_doc_int(node, "requested", -1);
    q->current = ebb_doc_int(node, "current", -1);
    q->checkpoint = ebb_doc_int(node, "checkpoint", -1);
    q->validation_before = ebb_doc_int(node, "validation_before", -1);
    q->checkpoint_before = ebb_doc_int(node, "checkpoint_before", -1);
    q->restarts = ebb_doc_int(node, "restarts", -1);
    q->has_validation = ebb_doc_bool(node, "validated", true);
    q->has_checkpoint = ebb_doc_bool(node, "checkpointed", true);
    q->is_close_asked = ebb_doc_bool(node, "closing", false);
    q->is_failed = ebb_doc_bool(node, "failed", false);
    q->watch = load_watch(node, "watch");
    q->watch_kept = load_watch(node, "watch_kept");
    q->told = (struct exp_wish){.step = ebb_doc_int(node, "told", 0),
                                .validation = ebb_doc_bool(node, "told_validation", false),
                                .checkpoint = ebb_doc_bool(node, "told_checkpoint", false)};
    if (q->checkpoint < 0 || q->current < q->checkpoint || q->requested < q->current ||
        q->requested > INT64_MAX / 2 || q->validation_before < 0 || q->checkpoint_before < 0 ||
        q->validation_before > q->current || q->checkpoint_before > q->checkpoint ||
        q->restarts < 0 || (q->has_checkpoint && q->checkpoint != q->current) || q->told.step < 0 ||
        q->told.step > q->requested)
        return ebb_fail(err, EBB_EINPUT,
                        "trial state: steps requested %lld, done %lld, checkpointed %lld, restarts "
                        "%lld do not fit",
                        (long long)q->requested, (long long)q->current, (long long)q->checkpoint,
                        (long long)q->restarts);
    return load_wishes(q, ebb_doc_get(node, "wishes"), err);
}

enum ebb_status exp_sequence_load(struct exp_sequence *q, const struct exp_sequence_rules *rules,
                                  const struct ebb_doc_node *node, struct ebb_error *err)
{
    struct exp_sequence loaded;
    exp_sequence_init(&loaded, rules);
    enum ebb_status status = load_all(&loaded, node, err);
    if (status != EBB_OK) {
        exp_sequence_fini(&loaded);
        return status;
    }
    roll_back(&loaded);
    *q = loaded;
    return EBB_OK;
}

void exp_sequence_unroll(struct exp_sequence *q, const struct ebb_doc_node *node)
{
    q->current = ebb_doc_int(node, "current", q->current);
    q->has_validation = ebb_doc_bool(node, "validated", true);
    q->has_checkpoint = ebb_doc_bool(node, "checkpointed", true);
    q->watch = load_watch(node, "watch");
    q->is_running = true;
}

/* ---- the best validation ---- */

bool exp_best_update(struct exp_best *best, double reported, bool smaller_is_better)
{
    double metric = exp_metric_signed(reported, smaller_is_better);
    if (best->has_metric && !(metric < best->metric))
        return false;
    *best = (struct exp_best){.has_metric = true, .metric = metric};
    return true;
}
