/* Real steps in a byte budget: equal weights at every budget and policy, peaks within the budget,
 * event logs equal to those of the null device, refusal below the floor. */
#include "engine_kit.h"

#include "base/heap.h"
#include "grad/grad.h"
#include "mem/mem.h"
#include "ops/ops.h"
#include "planner/planner.h"
#include "train/engine.h"

TEST(every_policy_and_budget__gives_the_same_bits)
{
    struct ebb_error err;
    run_reference(&err);
    uint64_t low = reference.floor, high = reference.unlimited;
    CHECK(low < high);
    for (size_t p = 0; p < mem_policy_count; p++) {
        for (int mode = 0; mode < 2; mode++) {
            /* Policies offline at the floor and above it, online above it; long: in more places. */
            int first = mode == 0 || test_is_long() ? mode : 5, last = test_is_long() ? 8 : 5;
            for (int b = first; b <= last; b += 4) {
                struct train_engine_options options = {
                    .threads = 1, .policy = mem_policies[p].name, .is_online = mode == 1};
                options.budget_bytes = (low + (high - low) * (uint64_t)b / 8) / 256 * 256;
                CHECK_OK(train(&options, b <= 1, &other, &err), &err);
                CHECK(other.peak <= options.budget_bytes);
                check_equal(&reference, &other);
            }
        }
    }
}

TEST(planners__give_the_same_bits)
{
    static const char *const names[] = {"floor", "rotor", "chen_sqrtn", "all", "last"};
    struct ebb_error err;
    run_reference(&err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int b = 0; b <= 8; b += test_is_long() ? 2 : 4) {
            struct train_engine_options options = {.threads = 1, .policy = names[i]};
            options.budget_bytes =
                (reference.floor + (reference.unlimited - reference.floor) * (uint64_t)b / 8) /
                256 * 256;
            CHECK_OK(train(&options, b == 4, &other, &err), &err);
            CHECK(other.peak <= options.budget_bytes);
            check_equal(&reference, &other);
        }
    }
}

TEST(tiers__give_the_same_bits)
{
    struct ebb_error err;
    run_reference(&err);
    for (int file = 0; file < 2; file++) {
        for (int mode = 0; mode < 2; mode++) {
            struct train_engine_options options = {.threads = 1,
                                                   .policy = "lru",
                                                   .is_online = mode == 1,
                                                   .host_bytes = file ? 0 : 1 << 20,
                                                   .file_bytes = file ? 1 << 20 : 0};
            options.budget_bytes = (reference.floor + reference.unlimited) / 2 / 256 * 256;
            CHECK_OK(train(&options, true, &other, &err), &err);
            check_equal(&reference, &other);
        }
    }
}

static bool host_runs(const struct plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].act == PLAN_RUN && plan->steps[i].tier)
            return true;
    return false;
}

/* With a budget and without, on memory that the host can read and cannot, wherever updates run. */
TEST(the_host_runs_updates__to_the_same_bits)
{
    struct ebb_error err;
    run_reference(&err);
    for (int k = 0; k < 12; k++) {
        struct train_engine_options options = {
            .threads = 1, .device = k % 2 ? "far" : NULL, .host_bytes = 1 << 20};
        options.wishes.hybrid_adam = k % 3 ? TRAIN_OFF : TRAIN_ON;
        options.budget_bytes =
            k < 4 ? UINT64_MAX : (k < 8 ? reference.unlimited : reference.floor / 2) / 256 * 256;
        CHECK_OK(train(&options, true, &other, &err), &err);
        check_equal(&reference, &other);
    }
}

/* Off: every update is the host's; where host memory cannot have all state that is refused. */
TEST(all_updates_on_the_host__or_none)
{
    struct ebb_error err;
    struct step step;
    for (int k = 0; k < 3; k++) {
        struct train_engine *engine;
        struct train_program *program;
        struct train_engine_options options = {.threads = k ? 1 : 2,
                                               .is_dry = true,
                                               .budget_bytes = UINT64_MAX,
                                               .host_bytes = k == 2 ? 1 << 14 : 1 << 20};
        options.wishes.hybrid_adam = k ? TRAIN_OFF : TRAIN_OPEN;
        CHECK_OK(train_engine_create(&engine, &options, &err), &err);
        struct trace *trace = make_step(train_engine_backend(engine), &step, true);
        enum ebb_status status = train_engine_add(engine, trace, &program, &err);
        CHECK_EQ(status, k == 2 ? EBB_EBUDGET : EBB_OK);
        if (k == 2)
            CHECK(strstr(err.message, "use_hybrid_adam: false keeps all state"));
        else
            CHECK_EQ(host_runs(train_program_plan(program)), k == 1);
        for (size_t i = 0; k == 1 && i < train_program_plan(program)->step_count; i++) {
            const struct plan_step *s = &train_program_plan(program)->steps[i];
            if (s->act == PLAN_RUN &&
                train_program_trace(program)->ops[s->index].phase == TRACE_UPDATE)
                CHECK_EQ(s->tier, 1);
        }
        train_engine_destroy(engine);
    }
}

/* What is decided for few bytes is a choice for many, also without any limit. */
TEST(more_memory__is_no_slower_where_the_host_may_update)
{
    struct ebb_error err;
    uint64_t before = UINT64_MAX;
    run_reference(&err);
    for (int k = 0; k <= 8; k++) {
        struct train_engine *engine;
        struct train_program *program;
        struct step step;
        struct train_engine_options options = {
            .threads = 1, .is_dry = true, .host_bytes = 1 << 20, .budget_bytes = UINT64_MAX};
        uint64_t low = reference.floor / 2, room = reference.unlimited + 4096 - low;
        if (k < 8)
            options.budget_bytes = (low + room * (uint64_t)k / 7) / 256 * 256;
        CHECK_OK(train_engine_create(&engine, &options, &err), &err);
        struct trace *trace = make_step(train_engine_backend(engine), &step, true);
        CHECK_OK(train_engine_add(engine, trace, &program, &err), &err);
        uint64_t ns = train_program_info(program)->report.device_ns;
        CHECK(ns / 100 * 99 <= before);
        CHECK(host_runs(train_program_plan(program)));
        before = ns < before ? ns : before;
        train_engine_destroy(engine);
    }
}

/* Memory that the host cannot read: whoever touches it faults, and from the second run on a graph is
 * replayed. */
TEST(far__gives_the_same_bits)
{
    struct ebb_error err;
    run_reference(&err);
    uint64_t room = reference.unlimited - reference.floor;
    static const bool is_short[12] = {[0] = 1, [1] = 1, [3] = 1, [6] = 1, [8] = 1, [11] = 1};
    for (int k = 0; k < 12; k++) { /* short: every tier, every budget, by plans and online */
        bool is_online = k % 4 == 3;
        if (!is_short[k] && !test_is_long())
            continue;
        struct train_engine_options options = {.threads = 1,
                                               .device = "far",
                                               .is_online = is_online,
                                               .policy = is_online ? "lru" : NULL,
                                               .host_bytes = k % 3 == 1 ? 1 << 20 : 0,
                                               .file_bytes = k % 3 == 2 ? 1 << 20 : 0};
        options.budget_bytes =
            k == 0 ? UINT64_MAX : (reference.floor + room * (uint64_t)(k / 4) / 3) / 256 * 256;
        CHECK_OK(train(&options, k % 4 == 2, &other, &err), &err);
        check_equal(&reference, &other);
    }
}

/* Predicted time of an update; what is predicted for a budget is what an engine with it does. */
static double predict(uint64_t budget, uint64_t host, uint64_t file)
{
    struct ebb_error err;
    struct step step;
    struct train_engine *wide, *exact;
    struct train_program *program;
    struct train_program_info info;
    struct train_engine_options options = {.threads = 1,
                                           .is_dry = true,
                                           .budget_bytes = UINT64_MAX,
                                           .host_bytes = host,
                                           .file_bytes = file};
    CHECK_OK(train_engine_create(&wide, &options, &err), &err);
    options.budget_bytes = budget;
    CHECK_OK(train_engine_create(&exact, &options, &err), &err);
    struct trace *trace = make_step(train_engine_backend(wide), &step, true);
    CHECK_OK(train_engine_add(wide, trace, &program, &err), &err);
    CHECK_OK(train_engine_predict(wide, program, budget, NULL, &info, &err), &err);
    CHECK_EQ(train_engine_predict(wide, program, 256, NULL, &info, &err), EBB_EBUDGET);
    CHECK_OK(train_engine_predict(wide, program, budget, NULL, &info, &err), &err);
    trace = make_step(train_engine_backend(exact), &step, true);
    CHECK_OK(train_engine_add(exact, trace, &program, &err), &err);
    const struct train_program_info *real = train_program_info(program);
    CHECK(real->overhead == info.overhead && real->peak_bytes == info.peak_bytes);
    CHECK(strcmp(real->how, info.how) == 0 && info.peak_bytes <= budget);
    train_engine_destroy(wide);
    train_engine_destroy(exact);
    return info.overhead;
}

TEST(tiers__never_make_it_slower)
{
    struct ebb_error err;
    run_reference(&err);
    for (int part = 1; part < 8; part += test_is_long() ? 3 : 5) {
        uint64_t room = reference.unlimited - reference.floor;
        uint64_t budget = (reference.floor + room * (uint64_t)part / 8) / 256 * 256;
        double alone = predict(budget, 0, 0);
        /* host and file for little and for much; a small file and a large host, or (long) all */
        int first = test_is_long() || part == 1 ? 12 : 16, last = !test_is_long() ? first : 16;
        for (int bits = first; bits <= last; bits += 4) {
            if (test_is_long() || bits == 16)
                CHECK(predict(budget, UINT64_C(1) << bits, 0) <= alone);
            if (test_is_long() || bits == 12)
                CHECK(predict(budget, 0, UINT64_C(1) << bits) <= alone);
        }
    }
}

TEST(floor__is_accepted_and_refused_below)
{
    struct ebb_error err;
    char number[32];
    run_reference(&err);
    snprintf(number, sizeof number, "%llu", (unsigned long long)reference.floor);
    struct train_engine_options options = {.threads = 1, .budget_bytes = reference.floor};
    CHECK_OK(train(&options, true, &other, &err), &err);
    check_equal(&reference, &other);
    options.budget_bytes -= 256;
    CHECK_EQ(train(&options, false, &other, &err), EBB_EBUDGET);
    CHECK(strstr(err.message, number) != NULL);
    options.policy = "none";
    options.budget_bytes = reference.unlimited - 256;
    CHECK_EQ(train(&options, false, &other, &err), EBB_EBUDGET);
}

TEST(reservations__that_failed_are_not_there)
{
    struct ebb_error err = {0};
    struct train_engine *engine = NULL;
    struct train_engine_options options = {
        .threads = 1, .budget_bytes = 1 << 20, .file_bytes = 4096, .file_path = "/no/such/folder"};
    CHECK_OK(train_engine_create(&engine, &options, &err), &err);
    for (int i = 0; i < 2; i++) {
        err.message[0] = '\0';
        CHECK_EQ(train_engine_reserve(engine, &err), EBB_EIO);
        CHECK(strstr(err.message, "/no/such/folder") != NULL);
    }
    train_engine_destroy(engine);
}

TEST(unknown_policies__are_refused)
{
    struct ebb_error err;
    struct train_engine *engine;
    struct train_engine_options options = {.budget_bytes = 1 << 20, .policy = "magic"};
    CHECK_EQ(train_engine_create(&engine, &options, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "magic") != NULL);
}

TEST_MAIN()
