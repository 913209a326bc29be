/* Random orders of events, of any method: every search ends, and telling its events again makes the
 * same one. */
#include "exp_kit.h"

#include <math.h>

#include "base/rng.h"
#include "exp/search/brackets.h"

/* ---- random orders of events, with exits and stray checkpoints ---- */

#define SPACE                                                                                      \
    "{a: {type: int, minval: -5, maxval: 5}, b: {type: double, minval: -1, maxval: 1},"            \
    " c: {type: log, base: 2, minval: 0, maxval: 9}, d: {type: categorical, vals: [true, null, 3," \
    " [x]]}, e: fixed}"

static const char *const methods[] = {
    "{name: single, metric: m, max_steps: 4}",
    "{name: random, metric: m, max_steps: 3, max_trials: 9, max_concurrent_trials: 3}",
    "{name: adaptive, metric: m, target_trial_steps: 8, step_budget: 60, divisor: 2, max_rungs: 3}",
    "{name: adaptive_simple, metric: m, max_steps: 9, max_trials: 20, divisor: 3,"
    " max_concurrent_trials: 5, smaller_is_better: false}",
    "{name: pbt, metric: m, population_size: 7, num_rounds: 4, steps_per_round: 2,"
    " replace_function: {truncate_fraction: 0.4},"
    " explore_function: {resample_probability: 0.2, perturb_factor: 0.3}}",
    "{name: pbt, metric: m, population_size: 6, num_rounds: 5, steps_per_round: 1,"
    " max_concurrent_trials: 2, replace_function: {truncate_fraction: 0.5},"
    " explore_function: {resample_probability: 0.2, perturb_factor: 0.3}}",
    "{name: adaptive_asha, metric: m, max_length: 16, max_trials: 24, divisor: 2, max_rungs: 3}",
    "{name: adaptive_asha, metric: m, max_length: 16, max_trials: 24, divisor: 2, stop_once: true}",
    "{name: async_halving, metric: m, max_length: 9, max_trials: 15, num_rungs: 3, divisor: 3}",
    "{name: tpe, metric: m, max_steps: 2, max_trials: 25, startup_trials: 4, candidates: 5}",
};

struct driven { /* what the test knows of a trial */
    int64_t asked, done;
    int64_t validations[8];
    size_t validation_count;
    int64_t checkpoint; /* asked for; 0 = none */
    bool is_closing, is_gone;
};

struct drive {
    struct kit *k;
    struct exp_search *twin;        /* made again from the events now and then */
    struct exp_event events[16384]; /* all of them */
    size_t event_count;
    struct driven trials[512];
    size_t count;
    bool is_over;
    uint64_t rng;
};

static uint64_t roll(struct drive *d, uint64_t n)
{
    return ebb_splitmix64(&d->rng) % n;
}

/* Take the operations in; every one must make sense. */
static void obey(struct drive *d)
{
    struct kit *k = d->k;
    for (size_t i = 0; i < k->ops.count; i++) {
        const struct exp_op *op = &k->ops.items[i];
        struct driven *t = &d->trials[op->kind == EXP_OP_SHUTDOWN ? 0 : op->trial];
        switch (op->kind) {
        case EXP_OP_CREATE:
            CHECK_EQ(op->trial, d->count);
            CHECK(d->count < 512);
            d->count++;
            break;
        case EXP_OP_TRAIN:
            CHECK(!t->is_closing && !t->is_gone);
            CHECK_EQ(op->first_step, t->asked + 1);
            t->asked = op->last_step;
            break;
        case EXP_OP_VALIDATE:
            CHECK(op->last_step == t->asked && t->validation_count < 8);
            t->validations[t->validation_count++] = op->last_step;
            break;
        case EXP_OP_CHECKPOINT:
            CHECK(op->last_step == t->asked);
            t->checkpoint = op->last_step;
            break;
        case EXP_OP_CLOSE:
            CHECK(!t->is_closing && !t->is_gone);
            t->is_closing = true;
            break;
        case EXP_OP_SHUTDOWN:
            d->is_over = true;
            break;
        }
    }
}

/* Something a trial might do next; false: it has nothing to do. */
static bool choose_event(struct drive *d, uint32_t trial, bool may_exit, struct exp_event *event)
{
    struct driven *t = &d->trials[trial];
    *event = (struct exp_event){.request = d->k->ids[trial]};
    if (t->is_gone)
        return false;
    if (may_exit && roll(d, 40) == 0) {
        event->kind = EXP_EVENT_EXITED;
        event->reason = (enum exp_exit_reason)roll(d, 3);
        t->is_gone = true;
    } else if (t->validation_count > 0 && t->validations[0] <= t->done) {
        event->kind = EXP_EVENT_VALIDATED;
        event->step = t->validations[0];
        event->metric = roll(d, 20) == 0   ? (double)NAN
                        : roll(d, 20) == 0 ? (double)INFINITY
                                           : (double)roll(d, 12) - 6;
        memmove(t->validations, t->validations + 1, --t->validation_count * sizeof *t->validations);
    } else if (t->checkpoint > 0 || (t->done > 0 && roll(d, 6) == 0)) {
        event->kind = EXP_EVENT_CHECKPOINTED;
        event->step = t->checkpoint > 0 ? t->checkpoint : t->done;
        t->checkpoint = 0;
    } else if (t->done < t->asked) {
        event->kind = EXP_EVENT_TRAINED;
        t->done += 1 + (int64_t)roll(d, (uint64_t)(t->asked - t->done));
        if (t->validation_count > 0 && t->done > t->validations[0])
            t->done = t->validations[0]; /* a validation comes before the next step */
        event->step = t->done;
    } else if (t->is_closing) {
        event->kind = EXP_EVENT_CLOSED;
        t->is_gone = true;
    } else {
        return false;
    }
    return true;
}

static void check_counters(const struct exp_search *a, const struct exp_search *b)
{
    CHECK_EQ(a->busy_count, b->busy_count);
    CHECK_EQ(a->completed_count, b->completed_count);
    if (a->method->bracket == NULL)
        return;
    const struct exp_brackets *x = exp_brackets_of(a), *y = exp_brackets_of(b);
    for (size_t i = 0; i < x->shape.count; i++) {
        CHECK_EQ(x->items[i].created, y->items[i].created);
        CHECK_EQ(x->items[i].closed, y->items[i].closed);
        CHECK_EQ(x->items[i].workloads, y->items[i].workloads);
        for (size_t r = 0; r < x->shape.brackets[i].rung_count; r++)
            CHECK_EQ(x->items[i].rungs[r].outstanding, y->items[i].rungs[r].outstanding);
    }
}

static void twin_replay(struct drive *d)
{
    struct kit *k = d->k;
    exp_search_destroy(d->twin);
    CHECK_OK(exp_search_create(&k->searcher, &k->space, k->failure, 7, &d->twin, &k->err), &k->err);
    exp_ops_clear(&k->ops);
    CHECK_OK(exp_search_start(d->twin, &k->ops, &k->err), &k->err);
    for (size_t i = 0; i < d->event_count; i++)
        CHECK_OK(exp_search_event(d->twin, &d->events[i], &k->ops, &k->err), &k->err);
    exp_ops_clear(&k->ops);
    check_counters(k->search, d->twin);
}

/* The twin's operations must be the same ones. */
static void step(struct drive *d, const struct exp_event *event)
{
    struct kit *k = d->k;
    char first[8192];
    if (event == NULL)
        CHECK_OK(exp_search_start(k->search, &k->ops, &k->err), &k->err);
    else
        CHECK_OK(exp_search_event(k->search, event, &k->ops, &k->err), &k->err);
    obey(d);
    snprintf(first, sizeof first, "%s", kit_text(k));
    if (event == NULL)
        CHECK_OK(exp_search_start(d->twin, &k->ops, &k->err), &k->err);
    else
        CHECK_OK(exp_search_event(d->twin, event, &k->ops, &k->err), &k->err);
    char second[8192];
    snprintf(second, sizeof second, "%s", kit_text(k));
    CHECK_STR(first, second);
    CHECK(exp_search_progress(k->search) == exp_search_progress(d->twin));
    CHECK_EQ(k->search->workloads, d->twin->workloads);
    if (event == NULL)
        return;
    CHECK(d->event_count < sizeof d->events / sizeof *d->events);
    d->events[d->event_count++] = *event;
    if (d->event_count % 16 == 0)
        twin_replay(d);
}

static void drive_one(const char *method, uint64_t seed, bool may_exit)
{
    static struct kit k;
    static struct drive d;
    struct exp_event event;
    memset(&d, 0, sizeof d);
    kit_open(&k, method, SPACE);
    d.k = &k;
    d.rng = seed;
    CHECK_OK(exp_search_create(&k.searcher, &k.space, k.failure, 7, &d.twin, &k.err), &k.err);
    step(&d, NULL);
    size_t idle = 0;
    while (!d.is_over) {
        CHECK(d.count > 0);
        uint32_t trial = (uint32_t)roll(&d, d.count);
        if (choose_event(&d, trial, may_exit, &event)) {
            step(&d, &event);
            idle = 0;
        } else if (++idle > 200000) {
            fail_msg("%s, seed %llu: nothing happens any more", method, (unsigned long long)seed);
        }
    }
    CHECK(may_exit || exp_search_progress(k.search) > 0.999);
    CHECK_EQ(k.search->closed_count, k.search->trial_count);
    exp_search_destroy(d.twin);
    kit_close(&k);
}

TEST(any_order__ends_and_can_be_told_again)
{
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (uint64_t seed = 0; seed < 12; seed++)
            drive_one(methods[m], seed, false);
}

TEST(any_order__with_exits_ends_and_can_be_told_again)
{
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (uint64_t seed = 0; seed < 40; seed++)
            drive_one(methods[m], 1000 + seed, true);
}

/* ---- memory runs out ---- */

TEST(torture__every_allocation_may_fail_without_leak_or_damage)
{
    static struct kit k;
    kit_parse(&k,
              "{name: pbt, metric: m, population_size: 3, num_rounds: 2, steps_per_round: 1,"
              " max_concurrent_trials: 2, replace_function: {truncate_fraction: 0.4},"
              " explore_function: {resample_probability: 0.2, perturb_factor: 0.3}}",
              SPACE);
    uint64_t live = ebb_heap_live();
    bool is_done = false;
    for (uint64_t n = 1; !is_done; n++) {
        struct exp_search *search = NULL;
        struct exp_ops ops;
        enum ebb_status status;
        exp_ops_init(&ops);
        ebb_heap_fail_at(n);
        status = exp_search_create(&k.searcher, &k.space, k.failure, 3, &search, &k.err);
        if (status == EBB_OK)
            status = exp_search_start(search, &ops, &k.err);
        for (size_t i = 0; status == EBB_OK && i < ops.count; i++) {
            const struct exp_op op = ops.items[i];
            struct exp_event event = {.request = op.request, .step = op.last_step, .metric = 1};
            event.kind = op.kind == EXP_OP_TRAIN        ? EXP_EVENT_TRAINED
                         : op.kind == EXP_OP_VALIDATE   ? EXP_EVENT_VALIDATED
                         : op.kind == EXP_OP_CHECKPOINT ? EXP_EVENT_CHECKPOINTED
                         : op.kind == EXP_OP_CREATE     ? EXP_EVENT_CREATED
                                                        : EXP_EVENT_CLOSED;
            if (op.kind != EXP_OP_SHUTDOWN)
                status = exp_search_event(search, &event, &ops, &k.err);
        }
        ebb_heap_fail_at(0);
        is_done = status == EBB_OK;
        CHECK(is_done || status == EBB_ENOMEM);
        exp_search_destroy(search);
        exp_ops_fini(&ops);
        CHECK_EQ(ebb_heap_live(), live);
    }
    kit_close(&k);
}

TEST_MAIN()
