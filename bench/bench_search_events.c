/* bench_search_events.c - time and memory of the search state machines far past what a
 * configuration allows: 100,000 trials, a million events, for every method. Prints mean and worst
 * time of an event, the share of events over 50 us, and bytes of state for each trial (what the
 * search itself holds at its peak).
 *
 * Wall clock around each event; the clock itself takes about 25 ns of every figure. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/rng.h"
#include "exp/exp.h"
#include "exp/search/method.h"

enum { TRIALS = 100000 };

struct bench {
    struct exp_search *search;
    struct exp_ops
        queue; /* a cursor walks it; it is never compacted, which costs memory, not time */
    size_t at;
    uint64_t rng, events, total_ns, worst_ns, over;
    size_t peak_bytes, before_bytes;
};

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static size_t queue_bytes(const struct exp_ops *ops)
{
    return ops->capacity * sizeof *ops->items + ops->create_capacity * sizeof *ops->creates +
           ops->value_capacity * sizeof *ops->values;
}

static void note_memory(struct bench *b)
{
    size_t now = heap_bytes() - b->before_bytes - queue_bytes(&b->queue);
    b->peak_bytes = now > b->peak_bytes && now < (size_t)1 << 40 ? now : b->peak_bytes;
}

static void die(const struct ebb_error *err)
{
    fprintf(stderr, "bench: %s\n", err->message);
    exit(1);
}

static void tell(struct bench *b, const struct exp_event *event)
{
    struct ebb_error err;
    uint64_t start = ebb_clock_ns();
    if (exp_search_event(b->search, event, &b->queue, &err) != EBB_OK)
        die(&err);
    uint64_t ns = ebb_clock_ns() - start;
    b->events++;
    b->total_ns += ns;
    b->over += ns > 50000;
    b->worst_ns = ns > b->worst_ns ? ns : b->worst_ns;
    if ((b->events & 0xffff) == 0)
        note_memory(b);
}

static void perform(struct bench *b, const struct exp_op *op)
{
    struct exp_event event = {.request = op->request, .step = op->last_step};
    if (op->kind == EXP_OP_SHUTDOWN)
        return;
    if (op->kind == EXP_OP_TRAIN) {
        event.kind = EXP_EVENT_TRAINED;
        for (event.step = op->first_step; event.step <= op->last_step; event.step++)
            tell(b, &event);
        return;
    }
    event.kind = op->kind == EXP_OP_CREATE       ? EXP_EVENT_CREATED
                 : op->kind == EXP_OP_VALIDATE   ? EXP_EVENT_VALIDATED
                 : op->kind == EXP_OP_CHECKPOINT ? EXP_EVENT_CHECKPOINTED
                                                 : EXP_EVENT_CLOSED;
    event.metric = (double)(ebb_splitmix64(&b->rng) >> 11);
    tell(b, &event);
}

static void run(const char *name, const struct exp_searcher *config,
                const struct exp_hparams *space)
{
    struct bench b = {.rng = 1};
    struct ebb_error err;
    malloc_trim(0);
    b.before_bytes = heap_bytes();
    exp_ops_init(&b.queue);
    if (exp_search_create(config, space, EXP_FAILURE_CONTINUE, 1, &b.search, &err) != EBB_OK ||
        exp_search_start(b.search, &b.queue, &err) != EBB_OK)
        die(&err);
    note_memory(&b);
    while (b.at < b.queue.count) {
        struct exp_op op = b.queue.items[b.at++];
        perform(&b, &op);
    }
    note_memory(&b);
    size_t trials = b.search->trial_count;
    printf("%-24s %8zu %9llu %9.3f %11.1f %9llu %11.0f  %s\n", name, trials,
           (unsigned long long)b.events, (double)b.total_ns / (double)b.events / 1000,
           (double)b.worst_ns / 1000, (unsigned long long)b.over,
           (double)b.peak_bytes / (double)trials,
           (double)b.total_ns / (double)b.events < 50000 ? "ok" : "TOO SLOW");
    fflush(stdout);
    exp_search_destroy(b.search);
    exp_ops_fini(&b.queue);
}

int main(void)
{
    static const struct ebb_doc_node a = {.kind = EBB_DOC_INT}, c = {.kind = EBB_DOC_NULL};
    static const struct ebb_doc_node *const values[] = {&a, &c};
    const struct exp_hparam params[] = {
        {.name = "i", .kind = EXP_HPARAM_INT, .int_max = TRIALS - 1, .count = TRIALS},
        {.name = "l", .kind = EXP_HPARAM_LOG, .base = 10, .min = -5, .max = 0, .count = 1},
        {.name = "o", .kind = EXP_HPARAM_CATEGORICAL, .values = values, .value_count = 2},
        {.name = "x", .kind = EXP_HPARAM_DOUBLE, .max = 1, .count = 1},
    };
    const struct exp_hparams space = {params, 4}, line = {params, 1};
    const struct exp_searcher base = {.metric = "m",
                                      .smaller_is_better = true,
                                      .max_steps = 8,
                                      .max_trials = TRIALS,
                                      .divisor = 4,
                                      .max_rungs = 4,
                                      .max_length = 64,
                                      .startup_trials = 10,
                                      .candidates = 24,
                                      .gamma = 0.25};
    struct exp_searcher s = base;
    printf("%-24s %8s %9s %9s %11s %9s %11s\n", "method", "trials", "events", "mean us", "worst us",
           "over 50us", "bytes/trial");
    s.kind = EXP_SEARCHER_RANDOM;
    run("random", &s, &space);
    s.max_concurrent_trials = 32;
    run("random, 32 at once", &s, &space);
    s = base;
    s.kind = EXP_SEARCHER_GRID;
    run("grid", &s, &line);
    s = base;
    s.kind = EXP_SEARCHER_ADAPTIVE;
    s.target_trial_steps = 64;
    s.step_budget = 900000;
    run("adaptive", &s, &space);
    s = base;
    s.kind = EXP_SEARCHER_ADAPTIVE_SIMPLE;
    s.max_steps = 256;
    s.mode = EXP_MODE_CONSERVATIVE;
    run("adaptive_simple", &s, &space);
    s = base;
    s.kind = EXP_SEARCHER_PBT;
    s.population_size = TRIALS;
    s.num_rounds = 3;
    s.steps_per_round = 3;
    s.truncate_fraction = 0.2;
    s.perturb_factor = 0.2;
    run("pbt", &s, &space);
    s = base;
    s.kind = EXP_SEARCHER_ADAPTIVE_ASHA;
    s.max_length = 256;
    run("adaptive_asha", &s, &space);
    s.stop_once = true;
    run("adaptive_asha stop_once", &s, &space);
    s = base;
    s.kind = EXP_SEARCHER_TPE;
    s.max_concurrent_trials = 32;
    run("tpe", &s, &space);
    return 0;
}
