/* Saving and loading: at any event, of any method, in any order of events, it changes nothing. */
#include "exp_kit.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/rng.h"
#include "exp/search/brackets.h"

/* ---- every event of every reference search ----
 *
 * Of a search of more than 1000 workloads every event of its first 400, then every eighth one: the
 * state has hundreds of trials by then. EBB_TEST_FULL=1 in the environment takes every single one
 * (20 s). */

struct reload {
    struct exp_searcher searcher;
    struct exp_hparams space;
    const char *metric;
    struct ebb_str text, again;
    size_t reloads, events, stride;
};

static double metric_of(void *context, int64_t t, int64_t s)
{
    const struct reload *r = context;
    if (strcmp(r->metric, "const") == 0)
        return 1;
    if (strcmp(r->metric, "index") == 0)
        return (double)t;
    if (strcmp(r->metric, "neg_index") == 0)
        return -(double)t;
    if (strcmp(r->metric, "improving") == 0)
        return (double)((7919 * t) % 1009) / 1009 + 1 / (double)s;
    if (strcmp(r->metric, "even_odd") == 0)
        return t % 2 == 0 ? -(double)t : (double)t;
    return (double)((7919 * t + 104729 * s) % 1009) / 1009;
}

static enum ebb_status reload(void *context, struct exp_search **search, struct ebb_error *err)
{
    struct reload *r = context;
    struct exp_search *loaded;
    if (++r->events > 400 && r->events % r->stride != 0)
        return EBB_OK;
    kit_saved(*search, &r->text);
    EBB_TRY(exp_search_load(&r->searcher, &r->space, EXP_FAILURE_FAIL_EXPERIMENT,
                            ebb_str_c(&r->text), r->text.length, &loaded, err));
    if (r->reloads % 16 == 0)
        kit_saved(loaded, &r->again);
    if (r->reloads % 16 == 0 && strcmp(ebb_str_c(&r->text), ebb_str_c(&r->again)) != 0)
        fail_msg("saved again it differs:\n%s\n%s", ebb_str_c(&r->text), ebb_str_c(&r->again));
    exp_search_destroy(*search);
    *search = loaded;
    r->reloads++;
    return EBB_OK;
}

static void run_once(struct reload *r, struct ebb_arena *arena, uint32_t seed, bool reloads,
                     struct exp_sim *sim)
{
    struct ebb_error err;
    struct exp_search *search;
    struct exp_sim_options options = {.metric = metric_of,
                                      .context = r,
                                      .after_event = reloads ? reload : NULL,
                                      .wants_progress = true};
    CHECK_OK(exp_search_create(&r->searcher, &r->space, EXP_FAILURE_FAIL_EXPERIMENT, seed, &search,
                               &err),
             &err);
    CHECK_OK(exp_sim_run(&search, &r->space, &options, arena, sim, &err), &err);
    exp_search_destroy(search);
}

static void check_same(const struct exp_sim *a, const struct exp_sim *b)
{
    CHECK_EQ(a->trial_count, b->trial_count);
    CHECK_EQ(a->workload_count, b->workload_count);
    CHECK_EQ(a->is_shut_down, b->is_shut_down);
    for (size_t i = 0; i < a->trial_count; i++) {
        CHECK_STR(a->trials[i].workloads, b->trials[i].workloads);
        CHECK_EQ(a->trials[i].trial_seed, b->trials[i].trial_seed);
        CHECK(memcmp(&a->trials[i].request, &b->trials[i].request, 16) == 0);
    }
    for (size_t i = 0; i < a->workload_count; i++)
        CHECK(a->progress[i] == b->progress[i]);
}

static size_t run_file(const char *name)
{
    struct ebb_arena arena;
    struct ebb_error err;
    const struct ebb_doc_node *root;
    char path[512];
    size_t reloads = 0;
    snprintf(path, sizeof path, "%s/tests/golden/search/%s", EBB_SOURCE_DIR, name);
    ebb_arena_init(&arena);
    CHECK_OK(ebb_doc_load(&arena, path, &root, &err), &err);
    for (size_t i = 0; i < root->count; i++) {
        struct reload r = {.metric = ebb_doc_string(root->items[i], "metric_fn", "")};
        struct exp_sim plain, reloaded;
        uint32_t seed = (uint32_t)ebb_doc_int(root->items[i], "seed", 0);
        ebb_str_init(&r.text);
        ebb_str_init(&r.again);
        CHECK_OK(exp_search_parse(&arena, ebb_doc_get(root->items[i], "searcher"),
                                  ebb_doc_get(root->items[i], "hyperparameters"), &r.searcher,
                                  &r.space, &err),
                 &err);
        run_once(&r, &arena, seed, false, &plain);
        r.stride = plain.workload_count > 1000 && getenv("EBB_TEST_FULL") == NULL ? 8 : 1;
        run_once(&r, &arena, seed, true, &reloaded);
        check_same(&plain, &reloaded);
        reloads += r.reloads;
        ebb_str_fini(&r.text);
        ebb_str_fini(&r.again);
    }
    ebb_arena_fini(&arena);
    return reloads;
}

TEST(reload__at_every_event_of_every_case_changes_nothing)
{
    TEST_UNUSED;
    static const char *const files[] = {
        "searcher_single.json",     "searcher_random.json",          "searcher_grid.json",
        "searcher_adaptive.json",   "searcher_adaptive_simple.json", "searcher_pbt.json",
        "beyond_adaptive_asha.json"};
    uint64_t live = ebb_heap_live();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        CHECK(run_file(files[i]) > 0);
    CHECK_EQ(ebb_heap_live(), live);
}

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
    struct exp_search *twin; /* saved and loaded after each event */
    struct driven trials[512];
    size_t count;
    bool is_over;
    uint64_t rng;
    struct ebb_str text;
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

/* Counters that loading derives are those that events have counted. */
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

static void twin_reload(struct drive *d)
{
    struct exp_search *loaded;
    kit_saved(d->twin, &d->text);
    CHECK_OK(exp_search_load(&d->k->searcher, &d->k->space, d->k->failure, ebb_str_c(&d->text),
                             d->text.length, &loaded, &d->k->err),
             &d->k->err);
    check_counters(d->k->search, loaded);
    exp_search_destroy(d->twin);
    d->twin = loaded;
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
    CHECK_EQ(exp_search_workloads(k->search), exp_search_workloads(d->twin));
    twin_reload(d);
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
    ebb_str_init(&d.text);
    CHECK_OK(exp_search_create(&k.searcher, &k.space, k.failure, 7, &d.twin, &k.err), &k.err);
    twin_reload(&d);
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
    CHECK_EQ(exp_search_closed_count(k.search), exp_search_trial_count(k.search));
    exp_search_destroy(d.twin);
    ebb_str_fini(&d.text);
    kit_close(&k);
}

TEST(any_order__ends_and_survives_reloads)
{
    TEST_UNUSED;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (uint64_t seed = 0; seed < 12; seed++)
            drive_one(methods[m], seed, false);
}

TEST(any_order__with_exits_ends_and_survives_reloads)
{
    TEST_UNUSED;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (uint64_t seed = 0; seed < 40; seed++)
            drive_one(methods[m], 1000 + seed, true);
}

TEST(saved__metrics_are_exact)
{
    TEST_UNUSED;
    static struct kit k;
    static const double metrics[] = {0.1, -0.0, 5e-324, 1.7976931348623157e308,
                                     0.30000000000000004};
    kit_open(&k, "{name: adaptive_simple, metric: m, max_steps: 4, max_trials: 40}", SPACE);
    kit_start(&k);
    for (uint32_t i = 0; i < 5; i++)
        kit_validated(&k, i, 1, metrics[i]);
    kit_validated(&k, 5, 1, (double)INFINITY), kit_validated(&k, 6, 1, -(double)INFINITY);
    struct ebb_str text;
    ebb_str_init(&text);
    kit_saved(k.search, &text);
    CHECK(strstr(ebb_str_c(&text),
                 "[\"-Infinity\", 6, \"-0\", 1, 5e-324, 2, 0.1, 0, 0.30000000000000004, 4, "
                 "1.7976931348623157e+308, 3, \"Infinity\", 5]") != NULL);
    ebb_str_fini(&text);
    kit_close(&k);
}

/* ---- broken states ---- */

struct broken {
    const char *from, *to; /* a piece of a good state, and what replaces it */
    const char *says;      /* part of the message */
};

static void check_broken(const char *method, const struct broken *cases, size_t count)
{
    static struct kit k;
    struct ebb_str good, bad;
    kit_open(&k, method, SPACE);
    kit_start(&k);
    kit_created(&k, 0);
    kit_trained(&k, 0, 2);
    ebb_str_init(&good);
    ebb_str_init(&bad);
    kit_saved(k.search, &good);
    for (size_t i = 0; i < count; i++) {
        const char *at = strstr(ebb_str_c(&good), cases[i].from);
        struct exp_search *loaded = NULL;
        if (at == NULL)
            fail_msg("no '%s' in %s", cases[i].from, ebb_str_c(&good));
        ebb_str_clear(&bad);
        ebb_str_addn(&bad, ebb_str_c(&good), (size_t)(at - ebb_str_c(&good)));
        ebb_str_add(&bad, cases[i].to);
        ebb_str_add(&bad, at + strlen(cases[i].from));
        if (exp_search_load(&k.searcher, &k.space, k.failure, ebb_str_c(&bad), bad.length, &loaded,
                            &k.err) != EBB_EINPUT)
            fail_msg("accepted: %s -> %s", cases[i].from, cases[i].to);
        if (strstr(k.err.message, cases[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", k.err.message, cases[i].says);
        CHECK(loaded == NULL);
    }
    ebb_str_fini(&good);
    ebb_str_fini(&bad);
    kit_close(&k);
}

TEST(broken_state__says_what_is_wrong_where)
{
    TEST_UNUSED;
    static const struct broken common[] = {
        {"{", "", "search state"},
        {"\"version\": 1", "\"version\": 2", "version 2, this program reads version 1"},
        {"\"version\": 1", "\"vision\": 1", "version: missing"},
        {"\"searcher\": \"random\"", "\"searcher\": \"grid\"", "saved by searcher 'grid'"},
        {"\"parameters\": 5", "\"parameters\": 4", "4 hyperparameters"},
        {"\"position\": ", "\"position\": 9", "position"},
        {"\"words\": \"", "\"words\": \"0", "624"},
        {"\"words\": \"", "\"words\": \"\\u0000", "624"},
        {"\"workloads\": ", "\"workloads\": -", "workloads: -2 is not in"},
        {"\"started\": true", "\"started\": 1", "started: expected true or false"},
        {"\"trials\": [[\"", "\"trials\": [[\"x", "trials[0]: id: no request id"},
        {"3, 2, 0, \"ca\"", "3, 4, 0, \"ca\"", "trials[0]: trained: 4 is not in 0..3"},
        {"3, 2, 0, \"ca\"", "3, 2, 0, \"cq\"", "trials[0]: flags: unknown letter"},
        {"[3, \"V\"]", "[3, \"W\"]", "trials[0]: kind is neither V nor C"},
        {"[3, \"V\"]", "[3]", "trials[0]: not a list of steps"},
        {"[3, \"V\"]", "[4, \"V\"]", "trials[0]: step: 4 is not in 1..3"},
        {"\"held\": []", "\"held\": [[0]]", "held[0]: not an operation"},
        {"\"held\": []", "\"held\": [[0, \"x\"]]", "held[0]: trial 0: not one creation"},
        {"\"held\": []", "\"held\": [[99, \"n\", 1, []]]", "held[0]: trial: 99 is not in"},
        {"\"held\": []", "\"held\": [[0, \"n\", 1, [1]]]", "sample: not a list of 5 values"},
        {"\"method\": {", "\"method\": [], \"m\": {", "method: expected a mapping"},
    };
    check_broken("{name: random, metric: m, max_steps: 3, max_trials: 2}", common,
                 sizeof common / sizeof *common);
    static const struct broken halving[] = {
        {"\"members\": [", "\"members\": [0, ", "members: "},
        {"\"members\": [0, 0", "\"members\": [7, 0", "members: bracket: 7 is not in 0.."},
        {"\"members\": [0, 0", "\"members\": [0, 9", "members: rung: 9 is not in 0.."},
        {"\"rungs\": [[]", "\"rungs\": [[1]", "brackets[0]: rungs[0]: results: not a list"},
        {"\"rungs\": [[]", "\"rungs\": [[2, 0, 1, 1]", "not in ascending order"},
        {"\"rungs\": [[]", "\"rungs\": [[1, 500]", "results: trial: 500"},
        {"\"rungs\": [[]", "\"rungs\": [[1, 0], []", "rungs: 3, expected 2"},
        {"\"brackets\": [", "\"brackets\": [{}, ", "brackets: "},
    };
    check_broken("{name: adaptive_simple, metric: m, max_steps: 8, max_trials: 8, max_rungs: 2, "
                 "mode: aggressive}",
                 halving, sizeof halving / sizeof *halving);
    static const struct broken pbt[] = {
        {"\"trial\": 1", "\"trial\": 0", "places[1]: trial: 0 has two places"},
        {"\"trial\": 1", "\"trial\": 5", "places[1]: trial: 5 is not in"},
        {"\"trial\": 1", "\"waiting\": \"x\"", "places[1]: waiting: no request id"},
        {"\"rounds\": 0", "\"rounds\": null", "rounds: null"},
        {"\"places\": [", "\"places\": [0, ", "places: 3, population_size is 2"},
        {"\"sample\": [", "\"sample\": [0, ", "places[0]: sample: not a list of 5"},
    };
    check_broken("{name: pbt, metric: m, population_size: 2, num_rounds: 3, steps_per_round: 2,"
                 " replace_function: {truncate_fraction: 0.4},"
                 " explore_function: {resample_probability: 0.2, perturb_factor: 0.3}}",
                 pbt, sizeof pbt / sizeof *pbt);
}

/* ---- memory runs out ---- */

TEST(torture__every_allocation_may_fail_without_leak_or_damage)
{
    TEST_UNUSED;
    static struct kit k;
    kit_parse(&k,
              "{name: pbt, metric: m, population_size: 3, num_rounds: 2, steps_per_round: 1,"
              " max_concurrent_trials: 2, replace_function: {truncate_fraction: 0.4},"
              " explore_function: {resample_probability: 0.2, perturb_factor: 0.3}}",
              SPACE);
    uint64_t live = ebb_heap_live();
    bool is_done = false;
    for (uint64_t n = 1; !is_done; n++) {
        struct exp_search *search = NULL, *loaded = NULL;
        struct exp_ops ops;
        struct ebb_str text;
        struct ebb_json_writer w;
        enum ebb_status status;
        exp_ops_init(&ops);
        ebb_str_init(&text);
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
        if (status == EBB_OK) {
            ebb_jsonw_init(&w, &text, 0);
            exp_search_save(search, &w);
            status = ebb_str_status(&text, &k.err);
        }
        if (status == EBB_OK)
            status = exp_search_load(&k.searcher, &k.space, k.failure, ebb_str_c(&text),
                                     text.length, &loaded, &k.err);
        ebb_heap_fail_at(0);
        is_done = status == EBB_OK;
        CHECK(is_done || status == EBB_ENOMEM);
        exp_search_destroy(search);
        exp_search_destroy(loaded);
        exp_ops_fini(&ops);
        ebb_str_fini(&text);
        CHECK_EQ(ebb_heap_live(), live);
    }
    kit_close(&k);
}

TEST_MAIN(RUN(reload__at_every_event_of_every_case_changes_nothing),
          RUN(any_order__ends_and_survives_reloads),
          RUN(any_order__with_exits_ends_and_survives_reloads), RUN(saved__metrics_are_exact),
          RUN(broken_state__says_what_is_wrong_where),
          RUN(torture__every_allocation_may_fail_without_leak_or_damage))
