/* The workloads of one trial: order, periods, policies, preemption, rollback. */
#include "exp_kit.h"

#include <math.h>

#include "base/rng.h"

struct seq {
    struct exp_sequence q;
    struct ebb_error err;
    char text[4096];
};

static void open_seq(struct seq *s, int64_t validation, int64_t checkpoint,
                     enum exp_checkpoint_policy policy)
{
    struct exp_sequence_rules rules = {.min_validation_period = validation,
                                       .min_checkpoint_period = checkpoint,
                                       .checkpoint_policy = policy,
                                       .max_restarts = 5};
    exp_sequence_init(&s->q, &rules);
}

static void ask(struct seq *s, enum exp_op_kind kind, int64_t last)
{
    struct exp_op op = {.kind = kind, .first_step = s->q.requested + 1, .last_step = last};
    CHECK_OK(exp_sequence_ask(&s->q, &op, &s->err), &s->err);
}

/* Train to a step and validate there, as searches ask. */
static void ask_to(struct seq *s, int64_t step)
{
    ask(s, EXP_OP_TRAIN, step);
    ask(s, EXP_OP_VALIDATE, step);
}

static void finish(struct seq *s, struct exp_workload work, bool is_best)
{
    CHECK_OK(exp_sequence_complete(&s->q, &work, is_best, &s->err), &s->err);
}

/* Work until the process is told to end, or for `most` workloads. */
static const char *work(struct seq *s, int most, bool is_best)
{
    static const char letters[] = "SVC";
    size_t length = 0;
    s->text[0] = '\0';
    for (int i = 0; i < most; i++) {
        struct exp_workload w = exp_sequence_next(&s->q);
        if (w.kind == EXP_WORK_TERMINATE) {
            CHECK_EQ(exp_sequence_exit(&s->q, EXP_END_CLEAN), EXP_SEQUENCE_ENDED);
            snprintf(s->text + length, sizeof s->text - length, "%sEND", length > 0 ? " " : "");
            break;
        }
        length += (size_t)snprintf(s->text + length, sizeof s->text - length, "%s%c%lld",
                                   length > 0 ? " " : "", letters[w.kind], (long long)w.step);
        finish(s, w, is_best);
    }
    return s->text;
}

TEST(sequence__trains_validates_checkpoints_in_this_order)
{
    struct seq s;
    open_seq(&s, 2, 3, EXP_POLICY_NONE);
    ask_to(&s, 8);
    ask(&s, EXP_OP_CLOSE, 0);
    CHECK_EQ(exp_sequence_start(&s.q), 0);
    CHECK_STR(work(&s, 100, false), "S1 S2 V2 S3 C3 S4 V4 S5 S6 V6 C6 S7 S8 V8 C8 END");
    CHECK(exp_sequence_is_done(&s.q));
    exp_sequence_fini(&s.q);
}

TEST(policy__best_needs_a_better_one_all_takes_each_none_only_the_last)
{
    static const struct {
        enum exp_checkpoint_policy policy;
        bool is_best;
        const char *trace;
    } rows[] = {{EXP_POLICY_BEST, true, "S1 V1 C1 S2 V2 C2 END"},
                {EXP_POLICY_BEST, false, "S1 V1 S2 V2 C2 END"},
                {EXP_POLICY_ALL, false, "S1 V1 C1 S2 V2 C2 END"},
                {EXP_POLICY_NONE, true, "S1 V1 S2 V2 C2 END"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct seq s;
        open_seq(&s, 1, 0, rows[i].policy);
        ask(&s, EXP_OP_TRAIN, 2);
        exp_sequence_start(&s.q);
        CHECK_STR(work(&s, 100, rows[i].is_best), rows[i].trace);
        exp_sequence_fini(&s.q);
    }
}

TEST(best__is_strictly_better_than_every_earlier_one)
{
    struct exp_best best = {0};
    CHECK(exp_best_update(&best, 0.5, true));
    CHECK(!exp_best_update(&best, 0.5, true));
    CHECK(!exp_best_update(&best, 0.6, true));
    CHECK(!exp_best_update(&best, (double)NAN, true));
    CHECK(exp_best_update(&best, 0.4, true));
    best = (struct exp_best){0};
    CHECK(exp_best_update(&best, (double)NAN, false)); /* the first one, whatever it is */
    CHECK(exp_best_update(&best, -1e300, false));
    CHECK(!exp_best_update(&best, -1e301, false));
}

TEST(idle__a_promotion_during_the_last_checkpoint_keeps_the_process)
{
    struct seq s;
    open_seq(&s, 0, 0, EXP_POLICY_NONE);
    ask_to(&s, 1);
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 2, false), "S1 V1");
    struct exp_workload w = exp_sequence_next(&s.q);
    CHECK_EQ(w.kind, EXP_WORK_CHECKPOINT);
    ask_to(&s, 2);
    finish(&s, w, false);
    CHECK_STR(work(&s, 100, false), "S2 V2 C2 END");
    CHECK(!exp_sequence_has_work(&s.q));
    CHECK(!exp_sequence_is_done(&s.q)); /* not closed: it waits without slots */
    ask_to(&s, 3);
    CHECK(exp_sequence_has_work(&s.q));
    CHECK_EQ(exp_sequence_start(&s.q), 2);
    CHECK_STR(work(&s, 100, false), "S3 V3 C3 END");
    exp_sequence_fini(&s.q);
}

TEST(stop__checkpoints_before_a_wanted_validation_and_validates_after_resuming)
{
    struct seq s;
    open_seq(&s, 0, 0, EXP_POLICY_BEST);
    ask_to(&s, 2);
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 1, false), "S1");
    struct exp_workload w = exp_sequence_next(&s.q);
    exp_sequence_stop(&s.q);
    finish(&s, w, false);
    CHECK_STR(work(&s, 100, false), "C2 END");
    CHECK(exp_sequence_has_work(&s.q));
    CHECK_EQ(exp_sequence_start(&s.q), 2);
    CHECK_STR(work(&s, 100, true), "V2 END"); /* the best, and checkpointed already */
    exp_sequence_fini(&s.q);
}

TEST(stop__during_a_checkpoint_ends_right_after_it)
{
    struct seq s;
    open_seq(&s, 0, 1, EXP_POLICY_NONE);
    ask_to(&s, 3);
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 1, false), "S1");
    struct exp_workload w = exp_sequence_next(&s.q);
    exp_sequence_stop(&s.q);
    finish(&s, w, false);
    CHECK_STR(work(&s, 100, false), "END");
    exp_sequence_stop(&s.q); /* no process: nothing to stop */
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 2, false), "S2 C2");
    exp_sequence_fini(&s.q);
}

TEST(crash__rolls_back_to_the_checkpoint_and_repeats_the_wishes)
{
    struct seq s;
    open_seq(&s, 2, 0, EXP_POLICY_NONE);
    ask_to(&s, 6);
    ask(&s, EXP_OP_CHECKPOINT, 2);
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 8, false), "S1 S2 V2 C2 S3 S4 V4 S5");
    CHECK_EQ(exp_sequence_next(&s.q).step, 6);
    CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_FAULT), EXP_SEQUENCE_ROLLED_BACK);
    CHECK_EQ(s.q.current, 2);
    CHECK_EQ(s.q.restarts, 1);
    CHECK_EQ(exp_sequence_start(&s.q), 2);
    CHECK_STR(work(&s, 100, false), "S3 S4 V4 S5 S6 V6 C6 END");
    exp_sequence_fini(&s.q);
}

TEST(crash__after_a_late_validation_does_not_validate_again)
{
    struct seq s;
    open_seq(&s, 1, 0, EXP_POLICY_NONE);
    ask(&s, EXP_OP_TRAIN, 3);
    exp_sequence_start(&s.q);
    struct exp_workload w = exp_sequence_next(&s.q);
    exp_sequence_stop(&s.q);
    finish(&s, w, false);
    CHECK_STR(work(&s, 100, false), "C1 END");
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 1, false), "V1");
    exp_sequence_next(&s.q);
    CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_FAULT), EXP_SEQUENCE_ROLLED_BACK); /* in S2 */
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 2, false), "S2 V2");
    exp_sequence_next(&s.q);
    CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_FAULT), EXP_SEQUENCE_ROLLED_BACK); /* in S3 */
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 100, false), "S2 V2 S3 V3 C3 END");
    exp_sequence_fini(&s.q);
}

TEST(exit__classification)
{
    struct seq s;
    open_seq(&s, 0, 0, EXP_POLICY_NONE);
    s.q.rules.max_restarts = 1;
    ask_to(&s, 2);
    CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_FAULT), EXP_SEQUENCE_UNCHANGED); /* never started */
    CHECK_EQ(s.q.restarts, 0);
    exp_sequence_start(&s.q);
    CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_CLEAN),
             EXP_SEQUENCE_ROLLED_BACK); /* 0, but not told to end */
    exp_sequence_start(&s.q);
    work(&s, 3, false);
    exp_sequence_next(&s.q);
    CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_CLEAN),
             EXP_SEQUENCE_FAILED); /* a checkpoint was needed */
    CHECK(!exp_sequence_has_work(&s.q) && !exp_sequence_is_done(&s.q));
    exp_sequence_fini(&s.q);
    open_seq(&s, 0, 0, EXP_POLICY_NONE);
    ask_to(&s, 1);
    exp_sequence_start(&s.q);
    work(&s, 3, false);
    CHECK_EQ(exp_sequence_next(&s.q).kind, EXP_WORK_TERMINATE);
    CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_FAULT),
             EXP_SEQUENCE_ROLLED_BACK); /* told to, but crashed */
    CHECK_EQ(s.q.current, 1);
    exp_sequence_fini(&s.q);
}

TEST(requests__that_cannot_be_are_refused)
{
    struct seq s;
    open_seq(&s, 0, 0, EXP_POLICY_NONE);
    struct exp_op gap = {.kind = EXP_OP_TRAIN, .first_step = 2, .last_step = 3};
    CHECK_EQ(exp_sequence_ask(&s.q, &gap, &s.err), EBB_EINPUT);
    struct exp_op early = {.kind = EXP_OP_VALIDATE, .last_step = 1};
    CHECK_EQ(exp_sequence_ask(&s.q, &early, &s.err), EBB_EINPUT);
    ask_to(&s, 3);
    exp_sequence_start(&s.q);
    work(&s, 3, false);
    CHECK_EQ(exp_sequence_ask(&s.q, &early, &s.err), EBB_EINPUT); /* the past */
    struct exp_op shutdown = {.kind = EXP_OP_SHUTDOWN};
    CHECK_EQ(exp_sequence_ask(&s.q, &shutdown, &s.err), EBB_EINPUT);
    struct exp_workload w = {EXP_WORK_TRAIN, 9};
    CHECK_EQ(exp_sequence_complete(&s.q, &w, false, &s.err), EBB_EINPUT);
    exp_sequence_fini(&s.q);
}

static void reload(struct seq *s)
{
    struct ebb_arena arena;
    struct ebb_str text;
    struct ebb_json_writer w;
    const struct ebb_doc_node *node;
    struct exp_sequence loaded;
    ebb_arena_init(&arena);
    ebb_str_init(&text);
    ebb_jsonw_init(&w, &text, 0);
    exp_sequence_save(&s->q, &w);
    CHECK_OK(ebb_doc_parse_json(&arena, "q", ebb_str_c(&text), text.length, &node, &s->err),
             &s->err);
    CHECK_OK(exp_sequence_load(&loaded, &s->q.rules, node, &s->err), &s->err);
    exp_sequence_fini(&s->q);
    s->q = loaded;
    ebb_str_fini(&text);
    ebb_arena_fini(&arena);
}

TEST(saved__keeps_restarts_and_resumes_from_the_checkpoint)
{
    struct seq s;
    open_seq(&s, 2, 3, EXP_POLICY_NONE);
    ask_to(&s, 8);
    ask(&s, EXP_OP_CLOSE, 0);
    exp_sequence_start(&s.q);
    exp_sequence_exit(&s.q, EXP_END_FAULT);
    reload(&s);
    CHECK_EQ(s.q.restarts, 1);
    exp_sequence_start(&s.q);
    work(&s, 7, false); /* S1 S2 V2 S3 C3 S4 V4 */
    reload(&s);
    CHECK_EQ(exp_sequence_start(&s.q), 3);
    CHECK_STR(work(&s, 100, false), "S4 V4 S5 S6 V6 C6 S7 S8 V8 C8 END");
    reload(&s);
    CHECK(exp_sequence_is_done(&s.q));
    exp_sequence_fini(&s.q);
}

/* Work as above; validations have these metrics, in turn. */
static const char *work_watched(struct seq *s, int most, const double *metrics)
{
    size_t length = 0;
    s->text[0] = '\0';
    for (int i = 0; i < most; i++) {
        struct exp_workload w = exp_sequence_next(&s->q);
        if (w.kind == EXP_WORK_TERMINATE) {
            CHECK_EQ(exp_sequence_exit(&s->q, EXP_END_CLEAN), EXP_SEQUENCE_ENDED);
            snprintf(s->text + length, sizeof s->text - length, "END");
            break;
        }
        length += (size_t)snprintf(s->text + length, sizeof s->text - length, "%c%lld ",
                                   "SVC"[w.kind], (long long)w.step);
        if (w.kind == EXP_WORK_VALIDATE)
            exp_sequence_watch(&s->q, metrics[w.step]);
        finish(s, w, false);
    }
    return s->text;
}

static const char *skips(struct seq *s)
{
    size_t length = 0;
    struct exp_workload w;
    s->text[0] = '\0';
    while (exp_sequence_skip(&s->q, &w))
        length += (size_t)snprintf(s->text + length, sizeof s->text - length, "%c%lld ",
                                   "SVC"[w.kind], (long long)w.step);
    return s->text;
}

static void open_watched(struct seq *s)
{
    open_seq(s, 1, 3, EXP_POLICY_NONE);
    s->q.rules.patience = 2;
    ask_to(s, 8);
    ask_to(s, 20);
}

TEST(patience__ends_the_trial_and_tells_the_rest_as_done)
{
    static const double metrics[] = {0, 0.5, 0.4, 0.4, 0.6, 0.1};
    struct seq s;
    open_watched(&s);
    exp_sequence_start(&s.q);
    CHECK_STR(work_watched(&s, 100, metrics), "S1 V1 S2 V2 S3 V3 C3 S4 V4 C4 END");
    CHECK(exp_sequence_is_over(&s.q) && !exp_sequence_has_work(&s.q));
    CHECK_STR(skips(&s), "S8 V8 S20 V20 ");
    CHECK_STR(skips(&s), "");
    ask_to(&s, 30); /* a promotion */
    ask(&s, EXP_OP_CHECKPOINT, 30);
    reload(&s);
    CHECK(!exp_sequence_has_work(&s.q));
    CHECK_STR(skips(&s), "S30 V30 C30 ");
    ask(&s, EXP_OP_CLOSE, 0);
    CHECK(exp_sequence_is_done(&s.q));
    exp_sequence_fini(&s.q);
}

TEST(patience__is_that_of_the_checkpoint_after_a_crash)
{
    static const double metrics[] = {0, 0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4};
    static const double flat[] = {0, 1, 0.5, 0.5, 0.5, 0.5, 0.5};
    struct seq s;
    open_watched(&s);
    s.q.rules.patience = 3;
    exp_sequence_start(&s.q);
    CHECK_STR(work_watched(&s, 7, metrics), "S1 V1 S2 V2 S3 V3 C3 ");
    CHECK_EQ(s.q.watch.since, 2);
    exp_sequence_exit(&s.q, EXP_END_LOST);
    exp_sequence_start(&s.q);
    CHECK_STR(work_watched(&s, 100, metrics), "S4 V4 S5 V5 S6 V6 C6 S7 V7 C7 END");
    exp_sequence_fini(&s.q);
    open_watched(&s);
    exp_sequence_start(&s.q);
    s.q.rules.patience = 3;
    CHECK_STR(work_watched(&s, 9, flat), "S1 V1 S2 V2 S3 V3 C3 S4 V4 ");
    CHECK_EQ(s.q.watch.since, 2);
    reload(&s); /* the process is lost: the validation is done again, and counts once */
    CHECK_EQ(s.q.watch.since, 1);
    exp_sequence_start(&s.q);
    CHECK_STR(work_watched(&s, 100, flat), "S4 V4 S5 V5 C5 END");
    exp_sequence_fini(&s.q);
}

TEST(saved__broken_ones_are_refused)
{
    static const char *const broken[] = {
        "null",
        "{}",
        "{requested: 3, current: 4, checkpoint: 0, validation_before: 0, checkpoint_before: 0, "
        "restarts: 0, wishes: []}",
        "{requested: 3, current: 2, checkpoint: 0, validation_before: 0, checkpoint_before: 0, "
        "restarts: 0, checkpointed: false}",
        "{requested: 3, current: 2, checkpoint: 0, validation_before: 0, checkpoint_before: 0, "
        "restarts: 0, checkpointed: false, wishes: [2, 1, 2, 1]}",
        "{requested: 3, current: 2, checkpoint: 0, validation_before: 0, checkpoint_before: 0, "
        "restarts: 0, checkpointed: false, wishes: [9, 1]}"};
    struct exp_sequence_rules rules = {0};
    uint64_t live = ebb_heap_live();
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct ebb_arena arena;
        struct ebb_error err;
        struct exp_sequence q;
        const struct ebb_doc_node *node;
        ebb_arena_init(&arena);
        CHECK_OK(ebb_doc_parse_yaml(&arena, "q", broken[i], strlen(broken[i]), &node, &err), &err);
        CHECK_EQ(exp_sequence_load(&q, &rules, node, &err), EBB_EINPUT);
        ebb_arena_fini(&arena);
    }
    CHECK_EQ(ebb_heap_live(), live);
}

/* A direct model with one flag pair for each step, as the specification tells it. */
struct model {
    bool wants_v[64], wants_c[64], has_v, has_c;
    int64_t current, requested;
    int64_t validation, checkpoint;
    enum exp_checkpoint_policy policy;
};

static struct exp_workload model_next(const struct model *m, bool stop)
{
    struct exp_workload end = {m->has_c ? EXP_WORK_TERMINATE : EXP_WORK_CHECKPOINT, m->current};
    if (stop)
        return end;
    if (m->wants_v[m->current] && !m->has_v)
        return (struct exp_workload){EXP_WORK_VALIDATE, m->current};
    if (m->wants_c[m->current] && !m->has_c)
        return (struct exp_workload){EXP_WORK_CHECKPOINT, m->current};
    if (m->current < m->requested)
        return (struct exp_workload){EXP_WORK_TRAIN, m->current + 1};
    return end;
}

static bool model_due(const bool *flags, int64_t step, int64_t period)
{
    int64_t n = 0;
    for (int64_t i = step; !flags[i]; i--)
        n++;
    return period > 0 && n >= period;
}

static void model_done(struct model *m, enum exp_workload_kind kind, bool is_best)
{
    if (kind == EXP_WORK_TRAIN) {
        m->current++;
        m->has_v = m->has_c = false;
        bool v = model_due(m->wants_v, m->current, m->validation);
        bool c = model_due(m->wants_c, m->current, m->checkpoint);
        m->wants_v[m->current] |= v;
        m->wants_c[m->current] |= c;
    } else if (kind == EXP_WORK_VALIDATE) {
        m->has_v = true;
        m->wants_c[m->current] |=
            m->policy == EXP_POLICY_ALL || (m->policy == EXP_POLICY_BEST && is_best);
    } else {
        m->has_c = m->wants_c[m->current] = true;
    }
}

static void model_crash(struct model *m)
{
    if (m->has_c)
        return;
    do
        m->current--;
    while (!m->wants_c[m->current]);
    m->has_v = m->wants_v[m->current];
    m->has_c = true;
}

TEST(sequence__equals_the_model_under_random_events)
{
    uint64_t rng = 3;
    for (int round = 0; round < 3000; round++) {
        struct seq s;
        struct model m = {.wants_v = {true},
                          .wants_c = {true},
                          .has_v = true,
                          .has_c = true,
                          .validation = (int64_t)(ebb_splitmix64(&rng) % 4),
                          .checkpoint = (int64_t)(ebb_splitmix64(&rng) % 5),
                          .policy = (enum exp_checkpoint_policy)(ebb_splitmix64(&rng) % 3)};
        open_seq(&s, m.validation, m.checkpoint, m.policy);
        s.q.rules.max_restarts = 1000;
        bool stop = false;
        exp_sequence_start(&s.q);
        for (int i = 0; i < 120; i++) {
            uint64_t dice = ebb_splitmix64(&rng) % 20;
            if (dice < 3 && m.requested < 50) {
                m.requested += 1 + (int64_t)(ebb_splitmix64(&rng) % 5);
                ask_to(&s, m.requested);
                m.wants_v[m.requested] = true;
            }
            if (dice == 3 && m.current > 0) {
                ask(&s, EXP_OP_CHECKPOINT, m.current);
                m.wants_c[m.current] = true;
            }
            struct exp_workload expected = model_next(&m, stop), w = exp_sequence_next(&s.q);
            CHECK_EQ(w.kind, expected.kind);
            CHECK_EQ(w.step, expected.step);
            if (w.kind == EXP_WORK_TERMINATE) {
                CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_CLEAN), EXP_SEQUENCE_ENDED);
                exp_sequence_start(&s.q);
                stop = false;
                continue;
            }
            if (dice == 4) {
                exp_sequence_stop(&s.q);
                stop = true;
            }
            if (dice == 5) {
                CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_FAULT), EXP_SEQUENCE_ROLLED_BACK);
                model_crash(&m);
                CHECK_EQ(s.q.current, m.current);
                CHECK_EQ(exp_sequence_start(&s.q), m.current);
                stop = false;
                continue;
            }
            bool is_best = ebb_splitmix64(&rng) % 2 == 0;
            finish(&s, w, is_best);
            model_done(&m, w.kind, is_best);
            if (w.kind == EXP_WORK_CHECKPOINT && ebb_splitmix64(&rng) % 4 == 0) {
                bool running = s.q.is_running; /* a master restart loses the process only */
                reload(&s);
                if (running)
                    exp_sequence_start(&s.q);
                stop = false;
            }
        }
        CHECK(s.q.wish_count < 60);
        exp_sequence_fini(&s.q);
    }
}

TEST(rewind__lets_a_process_go_on_and_make_another_checkpoint)
{
    struct seq s;
    open_seq(&s, 0, 1, EXP_POLICY_NONE);
    ask(&s, EXP_OP_TRAIN, 4);
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 5, false), "S1 C1 S2 C2 S3");
    exp_sequence_rewind(&s.q, 1); /* in step 4, or before the checkpoint of 3: nothing changes */
    CHECK_STR(work(&s, 2, false), "C3 S4");
    CHECK_STR(work(&s, 1, false), "C4");
    exp_sequence_rewind(&s.q, 3); /* its last one: another is made at once */
    CHECK_STR(work(&s, 100, false), "C4 END");
    exp_sequence_fini(&s.q);
}

TEST(rewind__of_a_process_that_is_ending_rolls_it_back_without_counting)
{
    struct seq s;
    open_seq(&s, 0, 1, EXP_POLICY_NONE);
    ask(&s, EXP_OP_TRAIN, 2);
    exp_sequence_start(&s.q);
    CHECK_STR(work(&s, 4, false), "S1 C1 S2 C2");
    CHECK_EQ(exp_sequence_next(&s.q).kind, EXP_WORK_TERMINATE);
    exp_sequence_rewind(&s.q, 1);
    CHECK_EQ(exp_sequence_exit(&s.q, EXP_END_CLEAN), EXP_SEQUENCE_ROLLED_BACK);
    CHECK_EQ(s.q.restarts, 0);
    CHECK_EQ(s.q.current, 1);
    CHECK_EQ(exp_sequence_start(&s.q), 1);
    CHECK_STR(work(&s, 100, false), "S2 C2 END");
    exp_sequence_fini(&s.q);
}

TEST(memory__is_bounded_by_wishes_not_steps)
{
    struct seq s;
    open_seq(&s, 10, 100, EXP_POLICY_NONE);
    ask_to(&s, 1000000000);
    exp_sequence_start(&s.q);
    for (int i = 0; i < 100000; i++)
        finish(&s, exp_sequence_next(&s.q), false);
    CHECK(s.q.wish_capacity < 64);
    exp_sequence_fini(&s.q);
}

TEST_MAIN()
