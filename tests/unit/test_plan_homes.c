/* State that lives below tier 0, and addresses there: what the checker accepts and what not.
 *
 *   op 0 w: leaf, 1000 B, kept     op 1 m: leaf, 600 B, kept     op 2 x: leaf, 300 B
 *   op 3 y = f(w, x): 500 B, kept  op 4 w' = u(w, y)             op 5 m' = v(m, y)              */
#include "test.h"
#include "trace_kit.h"

#include "plan/plan.h"
#include "planner/planner.h"

enum { W, M, X, Y };

static struct trace *make_trace(void)
{
    struct trace_builder *b = trace_kit_begin();
    struct trace_op_desc leaf = {.kind_name = "leaf", .is_leaf = true};
    uint32_t w = trace_kit_op(b, leaf, 1000, NULL, 0), m = trace_kit_op(b, leaf, 600, NULL, 0);
    uint32_t x = trace_kit_op(b, leaf, 300, NULL, 0);
    struct trace_op_desc op = {.kind_name = "f", .cost_ns = 1000};
    uint32_t y = trace_kit_op(b, op, 500, (uint32_t[]){w, x}, 2);
    op.kind_name = "u";
    op.purity = TRACE_ONCE;
    uint32_t newer = trace_kit_op(b, op, 0, (uint32_t[]){w, y}, 2);
    uint32_t moment = trace_kit_op(b, op, 0, (uint32_t[]){m, y}, 2);
    trace_kit_command(b, TRACE_PIN, newer);
    trace_kit_command(b, TRACE_PIN, moment);
    trace_kit_command(b, TRACE_PIN, y);
    return trace_kit_end(b, "state");
}

static struct trace *trace;
static struct plan plan;
static struct ebb_error err;

static int begin(void **state)
{
    (void)state;
    trace = make_trace();
    plan_init(&plan);
    plan.signature = trace->signature;
    return 0;
}

static int end(void **state)
{
    (void)state;
    plan_fini(&plan);
    trace_destroy(trace);
    return 0;
}

static void step(enum plan_act act, uint32_t index, uint64_t offset, uint8_t tier)
{
    CHECK_OK(plan_add(&plan, act, index, offset, tier, &err), &err);
}

static void home(uint32_t storage, uint8_t tier, uint64_t offset)
{
    struct plan_home all[4];
    struct plan_homes more = {.list = all, .count = plan.homes.count + 1};
    for (size_t i = 0; i < plan.homes.count; i++)
        all[i] = plan.homes.list[i];
    all[plan.homes.count] = (struct plan_home){storage, tier, offset};
    CHECK_OK(plan_homes_copy(&plan.homes, &more, &err), &err);
}

/* w and m live in the host: fetched for their readers, sent when they were written. */
static void make_good(void)
{
    home(W, 1, 0);
    home(M, 1, 1024);
    step(PLAN_PLACE, W, 0, 0);
    step(PLAN_FETCH, W, 0, 1);
    step(PLAN_PLACE, X, 1024, 0);
    step(PLAN_RUN, 2, 0, 0);
    step(PLAN_PLACE, Y, 1536, 0);
    step(PLAN_RUN, 3, 0, 0);
    step(PLAN_DROP, X, 0, 0);
    step(PLAN_RUN, 4, 0, 0);
    step(PLAN_SEND, W, 0, 1);
    step(PLAN_DROP, W, 0, 0);
    step(PLAN_PLACE, M, 0, 0);
    step(PLAN_FETCH, M, 0, 1);
    step(PLAN_RUN, 5, 0, 0);
    step(PLAN_SEND, M, 1024, 1);
    step(PLAN_DROP, M, 0, 0);
}

static const struct plan_limits limits = {{2048, 1792, 0}};

static void refuses(const char *what)
{
    struct plan_report report;
    if (plan_check(trace, &plan, &limits, &report, &err) != EBB_EINPUT)
        fail_msg("accepted, but: %s", what);
    if (!strstr(err.message, what))
        fail_msg("'%s' lacks '%s'", err.message, what);
}

/* As a search begins that has found none yet. */
TEST(copy__of_an_empty_plan_is_empty)
{
    struct plan none = {0}, copy = {0};
    CHECK_OK(plan_copy(&copy, &none, &err), &err);
    CHECK_EQ(copy.step_count, 0);
    plan_fini(&copy);
    plan_fini(&none);
}

/* Plans from anybody get addresses below before they are proved. */
TEST(addresses__of_homes_that_are_not_there)
{
    make_good();
    step(PLAN_SEND, W, PLAN_NOWHERE, 1);
    plan.homes.list[1].storage = 4000000000u;
    CHECK_EQ(plan_assign_low(trace, &plan, limits.budget_bytes, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "home 1") != NULL);
    plan.homes.list[1].storage = M;
    plan.steps[plan.step_count - 1].index = 4000000000u;
    CHECK_EQ(plan_assign_low(trace, &plan, limits.budget_bytes, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "no such storage") != NULL);
}

TEST(check__state_may_live_below)
{
    struct plan_report report;
    make_good();
    CHECK_OK(plan_check(trace, &plan, &limits, &report, &err), &err);
    CHECK_EQ(report.height_bytes, 2048);
    CHECK_EQ(report.tier_peak_bytes[1], 1792);
    CHECK_EQ(report.sent_bytes, 1600);
    struct plan_limits less = {{2048, 1791, 0}};
    CHECK_EQ(plan_check(trace, &plan, &less, &report, &err), EBB_EBUDGET);
}

/* y goes out, and the host updates m where it lies. */
static void make_below(void)
{
    make_good();
    plan.step_count -= 5;
    step(PLAN_SEND, Y, 1792, 1);
    step(PLAN_RUN, 5, 0, 1);
}

static const struct plan_limits wide = {{2048, 2304, 0}};

TEST(check__the_host_runs_where_copies_lie)
{
    struct plan_report report;
    make_below();
    CHECK_OK(plan_check(trace, &plan, &wide, &report, &err), &err);
    CHECK_EQ(report.cost_ns, 2000); /* what the device runs */
    CHECK_EQ(report.sent_bytes, 1500);
    CHECK(plan_can_run_below(trace, 3) && plan_can_run_below(trace, 5));
    CHECK(!plan_can_run_below(trace, 0));
}

static void refuses_below(const char *what)
{
    struct plan_report report;
    if (plan_check(trace, &plan, &wide, &report, &err) != EBB_EINPUT)
        fail_msg("accepted, but: %s", what);
    if (!strstr(err.message, what))
        fail_msg("'%s' lacks '%s'", err.message, what);
}

TEST(check__the_host_runs_nothing_else)
{
    make_below();
    size_t last = plan.step_count - 1;
    plan.steps[last - 1] = plan.steps[last]; /* without y */
    plan.step_count--;
    refuses_below("reads version 0 of storage 3 in tier 1, which is not there");
    plan.step_count++;
    plan.steps[last - 1] = (struct plan_step){PLAN_SEND, 1, Y, 1792};
    plan.steps[last].tier = 2;
    refuses_below("ops run in tiers 0 and 1, not in 2");
    plan.steps[last].tier = 1;
    plan.steps[last].index = 0;
    refuses_below("second run of op 0 (leaf)");
    plan.steps[last].index = 2;
    plan.steps[last - 1] = plan.steps[last];
    refuses_below("second run of op 2 (leaf)");
    plan.steps[last - 1] = (struct plan_step){PLAN_SEND, 1, Y, 1792};
    plan.steps[last].index = 5;
    step(PLAN_RUN, 5, 0, 1);
    refuses_below("reads version 0 of storage 1 in tier 1, which is not there"); /* twice */
    plan.step_count--;
    step(PLAN_PLACE, M, 0, 0); /* what lies in tier 0 would be older, but there is nothing */
    step(PLAN_FETCH, M, 0, 1);
    struct plan_report report;
    CHECK_OK(plan_check(trace, &plan, &wide, &report, &err), &err);
    plan.steps[last - 1].offset = 1024;
    refuses_below("offset 1024 is below 1792");
}

/* x goes out, the host makes y of it and of w, the device takes it up. */
static void make_made_below(void)
{
    home(W, 1, 0);
    home(M, 1, 1024);
    step(PLAN_PLACE, X, 1024, 0);
    step(PLAN_RUN, 2, 0, 0);
    step(PLAN_SEND, X, 1792, 1);
    step(PLAN_ROOM, Y, 2304, 1);
    step(PLAN_RUN, 3, 0, 1);
    step(PLAN_PLACE, Y, 1536, 0);
    step(PLAN_FETCH, Y, 0, 1);
    step(PLAN_RUN, 4, 0, 1);
    step(PLAN_RUN, 5, 0, 1);
    step(PLAN_FORGET, Y, 0, 1);
}

static void refuses_made(const char *what)
{
    static const struct plan_limits roomy = {{2048, 2816, 0}};
    struct plan_report report;
    if (plan_check(trace, &plan, &roomy, &report, &err) != EBB_EINPUT)
        fail_msg("accepted, but: %s", what);
    if (!strstr(err.message, what))
        fail_msg("'%s' lacks '%s'", err.message, what);
}

TEST(check__the_host_makes_what_has_room)
{
    static const struct plan_limits roomy = {{2048, 2816, 0}};
    struct plan_report report;
    make_made_below();
    CHECK_OK(plan_check(trace, &plan, &roomy, &report, &err), &err);
    CHECK_EQ(report.tier_peak_bytes[1], 2816);
    CHECK_EQ(report.cost_ns, 0);
    const struct plan_limits less = {{2048, 2815, 0}};
    CHECK_EQ(plan_check(trace, &plan, &less, &report, &err), EBB_EBUDGET);
    plan.steps[3].offset = 1792;
    refuses_made("overlap storage 2");
    plan.steps[3].offset = 1024;
    refuses_made("below 1792, where persistent storages lie");
    plan.steps[3].tier = 2;
    refuses_made("only the host runs ops");
    plan.steps[3] = (struct plan_step){PLAN_ROOM, 1, W, 2304};
    refuses_made("room for a copy that is there of storage 0");
    plan.steps[3] = (struct plan_step){PLAN_ROOM, 1, Y, 2304};
    plan.steps[4] = (struct plan_step){PLAN_ROOM, 1, Y, 2304};
    refuses_made("room for a copy that is there of storage 3");
    plan.steps[4] = (struct plan_step){PLAN_RUN, 0, 3, 0};
    refuses_made("reads storage 0, which is not resident");
    plan.steps[4] = (struct plan_step){PLAN_FORGET, 1, X, 0};
    refuses_made("fetch without a copy of storage 3"); /* there is room, and nothing in it */
}

TEST(files__say_what_has_room)
{
    struct plan back;
    make_made_below();
    CHECK_OK(plan_write(&plan, trace_kit_path, &err), &err);
    CHECK_OK(plan_load(trace_kit_path, &back, &err), &err);
    CHECK(back.steps[3].act == PLAN_ROOM && back.steps[3].tier == 1 && back.steps[3].index == Y &&
          back.steps[3].offset == 2304);
    plan_fini(&back);
    plan_strip_offsets(&plan);
    CHECK(plan_lacks_low(&plan));
    const uint64_t bytes[PLAN_TIERS] = {0, 2816, 0};
    CHECK_OK(plan_assign_low(trace, &plan, bytes, &err), &err);
    CHECK_EQ(plan.steps[3].offset + plan.steps[2].offset, 2304 + 1792);
    static const char old[] = "ebb-plan 1\nsignature 00000000000000000000000000000000\n"
                              "planner x\nbudget 1\nbytes rounded\nsteps 1\nroom 3 1\nend\n";
    CHECK_EQ(plan_read("old", old, sizeof old - 1, &back, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "old:7: expected place") != NULL);
}

TEST(check__the_last_version_is_at_home_at_the_end)
{
    make_good();
    plan.steps[13] = plan.steps[14]; /* m is not sent */
    plan.step_count = 14;
    refuses("storage 1 must be at home in tier 1 at the end with version 1, version 0 is there");
}

TEST(check__a_home_is_kept_and_in_its_place)
{
    make_good();
    plan.homes.list[1].offset = 1280;
    refuses("home of storage 1 at 1280, its place is 1024");
    plan.homes.list[1].offset = 1024;
    step(PLAN_FORGET, M, 0, 1);
    refuses("forget of the home of storage 1");
    plan.step_count--;
    plan.homes.list[1].storage = W;
    refuses("is not known, or listed twice");
    plan.homes.list[1].storage = Y;
    refuses("is no leaf");
    plan.homes.list[1].storage = X;
    refuses("home of storage 2, which is not kept");
}

TEST(check__a_leaf_at_home_is_not_run)
{
    make_good();
    plan.steps[1] = (struct plan_step){.act = PLAN_RUN, .index = 0};
    refuses("second run of op 0 (leaf)");
}

TEST(check__copies_have_places_of_their_own)
{
    make_good();
    step(PLAN_SEND, Y, 1024, 1);
    struct plan_limits more = {{2048, 4096, 0}};
    struct plan_report report;
    CHECK_EQ(plan_check(trace, &plan, &more, &report, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "below 1792, where persistent storages lie") != NULL);
    plan.steps[plan.step_count - 1].offset = 1792;
    CHECK_OK(plan_check(trace, &plan, &more, &report, &err), &err);
    step(PLAN_SEND, Y, 2048, 1);
    CHECK_EQ(plan_check(trace, &plan, &more, &report, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "its copy lies at 1792") != NULL);
    plan.steps[plan.step_count - 1].offset = PLAN_NOWHERE;
    CHECK_EQ(plan_check(trace, &plan, &more, &report, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "some residences have an offset") != NULL);
    CHECK(plan_lacks_low(&plan));
    CHECK_OK(plan_assign_low(trace, &plan, more.budget_bytes, &err), &err);
    CHECK(!plan_lacks_low(&plan));
    CHECK_EQ(plan.steps[plan.step_count - 1].offset, 1792);
    CHECK_OK(plan_check(trace, &plan, &more, &report, &err), &err);
    CHECK_EQ(plan_assign_low(trace, &plan, limits.budget_bytes, &err), EBB_EBUDGET);
}

TEST(files__say_where_state_lives)
{
    struct plan back;
    make_good();
    CHECK_OK(plan_write(&plan, trace_kit_path, &err), &err);
    CHECK_OK(plan_load(trace_kit_path, &back, &err), &err);
    CHECK_EQ(back.homes.count, 2);
    CHECK(back.homes.list[1].storage == M && back.homes.list[1].tier == 1 &&
          back.homes.list[1].offset == 1024);
    CHECK_EQ(back.steps[13].offset, 1024);
    plan_fini(&back);
}

static int begin_with_path(void **state)
{
    return trace_kit_make_path(state) || begin(state);
}

static int end_with_path(void **state)
{
    return trace_kit_drop_path(state) || end(state);
}

TEST(homes__moments_leave_first_and_fill_the_host_first)
{
    struct planner_tiers tiers = {.bytes = {0, 768, 4096}};
    struct plan_homes homes = {0};
    CHECK_OK(planner_homes(trace, &tiers, 0.3, PLANNER_SMALL_TOO, &homes, &err), &err);
    CHECK_EQ(homes.count, 1);
    CHECK_EQ(homes.list[0].storage, M); /* both are small: the one that is read last */
    CHECK_EQ(homes.list[0].tier, 1);
    CHECK_OK(planner_homes(trace, &tiers, 1, PLANNER_SMALL_TOO, &homes, &err), &err);
    CHECK_EQ(homes.count, 2);
    CHECK(homes.list[0].storage == W && homes.list[0].tier == 2 && homes.list[0].offset == 0);
    CHECK(homes.list[1].storage == M && homes.list[1].tier == 1 && homes.list[1].offset == 0);
    plan_homes_fini(&homes);
    homes = (struct plan_homes){0};
    CHECK_OK(planner_homes(trace, &tiers, 1, 0, &homes, &err), &err);
    CHECK_EQ(homes.count, 0); /* both are small */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(copy__of_an_empty_plan_is_empty),
        CASE(addresses__of_homes_that_are_not_there),
        CASE(check__state_may_live_below),
        CASE(check__the_host_runs_where_copies_lie),
        CASE(check__the_host_runs_nothing_else),
        CASE(check__the_host_makes_what_has_room),
        CASE(check__the_last_version_is_at_home_at_the_end),
        CASE(check__a_home_is_kept_and_in_its_place),
        CASE(check__a_leaf_at_home_is_not_run),
        CASE(check__copies_have_places_of_their_own),
        CASE(homes__moments_leave_first_and_fill_the_host_first),
        cmocka_unit_test_setup_teardown(files__say_where_state_lives, begin_with_path,
                                        end_with_path),
        cmocka_unit_test_setup_teardown(files__say_what_has_room, begin_with_path, end_with_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
