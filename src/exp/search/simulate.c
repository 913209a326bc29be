/* simulate.c - a whole search with operations that complete at once, in one first-in first-out
 * queue.
 *
 * No second copy of any method: the search itself is driven, by other events. A train range is
 * worked off step by step without anything between, which is the order of a queue of single steps,
 * since answers join the end. */
#include "exp/search/method.h"

#include <string.h>

#include "base/heap.h"

struct tally { /* one trial while it runs */
    struct ebb_str workloads, validated_at;
    char kind; /* of the run being counted: 'S', 'V', 'C', 0 = none */
    int64_t run;
};

struct run {
    struct exp_search *search;
    const struct exp_hparams *space;
    const struct exp_sim_options *options;
    struct ebb_arena *arena;
    struct exp_sim sim;
    struct exp_ops queue; /* the whole history: items before `at` are done */
    size_t at;
    struct exp_ops answers;
    struct tally *tallies;
    size_t tally_capacity, trial_capacity;
    double *progress; /* heap, copied to the arena at the end */
    size_t progress_capacity;
};

static void end_run(struct tally *tally)
{
    if (tally->run > 0)
        ebb_str_printf(&tally->workloads, "%s%lld%c", tally->workloads.length > 0 ? " " : "",
                       (long long)tally->run, tally->kind);
    tally->run = 0;
}

static void count(struct tally *tally, char kind, int64_t workloads)
{
    if (tally->kind != kind)
        end_run(tally);
    tally->kind = kind;
    tally->run += workloads;
}

/* Move the answers to the end of the queue; forget the done part when it is the larger one. */
static enum ebb_status enqueue(struct run *run, struct ebb_error *err)
{
    struct exp_ops *queue = &run->queue;
    if (run->at == queue->count) {
        exp_ops_clear(queue);
        run->at = 0;
    }
    for (size_t i = 0; i < run->answers.count; i++)
        EBB_TRY(exp_ops_copy(queue, &run->answers, &run->answers.items[i], run->space->count, err));
    exp_ops_clear(&run->answers);
    return EBB_OK;
}

static enum ebb_status tell(struct run *run, const struct exp_event *event, struct ebb_error *err)
{
    EBB_TRY(exp_search_event(run->search, event, &run->answers, err));
    return enqueue(run, err);
}

/* `workloads` of one trial are done with this event. */
static enum ebb_status workload(struct run *run, const struct exp_event *event, int64_t workloads,
                                struct ebb_error *err)
{
    int64_t limit = run->options->max_workloads > 0 ? run->options->max_workloads : INT64_MAX / 4;
    if (workloads > limit - (int64_t)run->sim.workload_count)
        return ebb_fail(err, EBB_ELIMIT, "search simulation: more than %lld workloads",
                        (long long)limit);
    EBB_TRY(tell(run, event, err));
    run->sim.workload_count += (size_t)workloads;
    if (!run->options->wants_progress)
        return EBB_OK;
    EBB_TRY(ebb_grow(&run->progress, &run->progress_capacity, run->sim.workload_count,
                     sizeof *run->progress, err));
    run->progress[run->sim.workload_count - 1] = exp_search_progress(run->search);
    return EBB_OK;
}

static enum ebb_status create(struct run *run, const struct exp_op *op, struct ebb_error *err)
{
    struct exp_sim *sim = &run->sim;
    const struct exp_create *detail = &run->queue.creates[op->create];
    if (op->trial != sim->trial_count)
        return ebb_fail(err, EBB_EINTERNAL, "search simulation: trial %u created out of order",
                        op->trial);
    EBB_TRY(ebb_grow(&sim->trials, &run->trial_capacity, sim->trial_count + 1, sizeof *sim->trials,
                     err));
    EBB_TRY(ebb_grow(&run->tallies, &run->tally_capacity, sim->trial_count + 1,
                     sizeof *run->tallies, err));
    struct exp_sim_trial *trial = &sim->trials[sim->trial_count];
    *trial =
        (struct exp_sim_trial){.request = op->request,
                               .trial_seed = detail->trial_seed,
                               .bracket = (uint32_t)exp_search_bracket(run->search, op->trial)};
    run->tallies[sim->trial_count] = (struct tally){0};
    uint32_t parent;
    if (detail->has_source && exp_search_find(run->search, detail->source, &parent)) {
        trial->from_trial = (int64_t)parent + 1;
        trial->from_step = detail->source_step;
    }
    if (run->options->wants_hparams)
        EBB_TRY(exp_ops_hparams(&run->queue, op, run->space, run->arena, &trial->hparams, err));
    sim->trial_count++;
    struct exp_event event = {
        .kind = EXP_EVENT_CREATED, .request = op->request, .trial_id = (int64_t)sim->trial_count};
    return tell(run, &event, err);
}

/* Step by step only when somebody looks in between. */
static enum ebb_status train(struct run *run, const struct exp_op *op, struct ebb_error *err)
{
    int64_t all = op->last_step - op->first_step + 1;
    int64_t stride = run->options->wants_progress ? 1 : all;
    count(&run->tallies[op->trial], 'S', all);
    run->sim.trials[op->trial].steps += all;
    run->sim.total_steps += all;
    for (int64_t done = stride; done <= all; done += stride) {
        struct exp_event event = {
            .kind = EXP_EVENT_TRAINED, .request = op->request, .step = op->first_step - 1 + done};
        EBB_TRY(workload(run, &event, stride, err));
    }
    return EBB_OK;
}

static enum ebb_status validate(struct run *run, const struct exp_op *op, struct ebb_error *err)
{
    struct tally *tally = &run->tallies[op->trial];
    struct exp_event event = {.kind = EXP_EVENT_VALIDATED,
                              .request = op->request,
                              .step = op->last_step,
                              .metric = run->options->metric(
                                  run->options->context, (int64_t)op->trial + 1, op->last_step)};
    count(tally, 'V', 1);
    ebb_str_printf(&tally->validated_at, "%s%lld", tally->validated_at.length > 0 ? " " : "",
                   (long long)op->last_step);
    run->sim.total_validations++;
    return workload(run, &event, 1, err);
}

static enum ebb_status perform(struct run *run, const struct exp_op *op, struct ebb_error *err)
{
    struct exp_event event = {.request = op->request, .step = op->last_step};
    switch (op->kind) {
    case EXP_OP_CREATE:
        return create(run, op, err);
    case EXP_OP_TRAIN:
        return train(run, op, err);
    case EXP_OP_VALIDATE:
        return validate(run, op, err);
    case EXP_OP_CHECKPOINT:
        event.kind = EXP_EVENT_CHECKPOINTED;
        count(&run->tallies[op->trial], 'C', 1);
        run->sim.total_checkpoints++;
        return workload(run, &event, 1, err);
    case EXP_OP_CLOSE:
        event.kind = EXP_EVENT_CLOSED;
        run->sim.trials[op->trial].is_closed = true;
        return tell(run, &event, err);
    case EXP_OP_SHUTDOWN:
        run->sim.is_shut_down = true;
        break;
    }
    return EBB_OK;
}

static int64_t single_operations(const struct exp_ops *ops)
{
    int64_t n = 0;
    for (size_t i = 0; i < ops->count; i++)
        n += ops->items[i].kind == EXP_OP_TRAIN
                 ? ops->items[i].last_step - ops->items[i].first_step + 1
                 : 1;
    return n;
}

static enum ebb_status run_all(struct run *run, struct ebb_error *err)
{
    EBB_TRY(exp_search_start(run->search, &run->answers, err));
    run->sim.initial_operations = single_operations(&run->answers);
    EBB_TRY(enqueue(run, err));
    while (run->at < run->queue.count) {
        struct exp_op op = run->queue.items[run->at]; /* a copy: the queue may move */
        run->at++;
        EBB_TRY(perform(run, &op, err));
    }
    run->sim.final_progress = exp_search_progress(run->search);
    return EBB_OK;
}

/* Everything the caller keeps goes to its arena. */
static enum ebb_status hand_over(struct run *run, struct exp_sim *sim, struct ebb_error *err)
{
    struct exp_sim result = run->sim;
    result.trials = ebb_arena_calloc(run->arena, result.trial_count + 1, sizeof *result.trials);
    size_t points = run->options->wants_progress ? result.workload_count : 0;
    result.progress =
        points > 0 ? ebb_arena_calloc(run->arena, points, sizeof *result.progress) : NULL;
    if (result.trials == NULL || (points > 0 && result.progress == NULL))
        return ebb_no_memory(err, result.trial_count * sizeof *result.trials +
                                      points * sizeof *result.progress);
    if (points > 0)
        memcpy(result.progress, run->progress, points * sizeof *result.progress);
    for (size_t i = 0; i < result.trial_count; i++) {
        struct tally *tally = &run->tallies[i];
        end_run(tally);
        EBB_TRY(ebb_str_status(&tally->workloads, err));
        EBB_TRY(ebb_str_status(&tally->validated_at, err));
        result.trials[i] = run->sim.trials[i];
        result.trials[i].workloads =
            ebb_arena_strndup(run->arena, ebb_str_c(&tally->workloads), tally->workloads.length);
        result.trials[i].validated_at = ebb_arena_strndup(
            run->arena, ebb_str_c(&tally->validated_at), tally->validated_at.length);
        if (result.trials[i].workloads == NULL || result.trials[i].validated_at == NULL)
            return ebb_no_memory(err, tally->workloads.length);
    }
    *sim = result;
    return EBB_OK;
}

enum ebb_status exp_sim_run(struct exp_search *search, const struct exp_hparams *space,
                            const struct exp_sim_options *options, struct ebb_arena *arena,
                            struct exp_sim *sim, struct ebb_error *err)
{
    struct run run = {.search = search, .space = space, .options = options, .arena = arena};
    exp_ops_init(&run.queue);
    exp_ops_init(&run.answers);
    enum ebb_status status = run_all(&run, err);
    EBB_THEN(status, hand_over(&run, sim, err));
    for (size_t i = 0; i < run.sim.trial_count; i++) {
        ebb_str_fini(&run.tallies[i].workloads);
        ebb_str_fini(&run.tallies[i].validated_at);
    }
    ebb_free(run.tallies);
    ebb_free(run.sim.trials);
    ebb_free(run.progress);
    exp_ops_fini(&run.queue);
    exp_ops_fini(&run.answers);
    return status;
}
