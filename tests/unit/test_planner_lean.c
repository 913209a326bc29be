/* Plans without what serves nobody.
 *
 *   op 0 a (once)    op 1 b = f(a)    op 2 c = f(b)    op 3 writes a in place    op 4 d = f(a, c): kept */
#include "test.h"
#include "trace_kit.h"

#include "plan/plan.h"
#include "planner/lean.h"

enum { A, B, C, D };

struct row {
    enum plan_act act;
    uint32_t index;
    uint8_t tier;
};

static struct trace *trace;
static struct ebb_error err;

static int begin(void **state)
{
    (void)state;
    struct trace_builder *t = trace_kit_begin();
    struct trace_op_desc op = {.kind_name = "f", .cost_ns = 1000};
    uint32_t a = trace_kit_op(t, (struct trace_op_desc){.kind_name = "g", .purity = TRACE_ONCE},
                              1000, NULL, 0);
    uint32_t b = trace_kit_op(t, op, 1000, (uint32_t[]){a}, 1);
    uint32_t c = trace_kit_op(t, op, 1000, (uint32_t[]){b}, 1);
    uint32_t w = trace_kit_op(t, op, 0, (uint32_t[]){a}, 1);
    uint32_t d = trace_kit_op(t, op, 1000, (uint32_t[]){w, c}, 2);
    trace_kit_command(t, TRACE_PIN, d);
    trace = trace_kit_end(t, "five");
    return 0;
}

static int end(void **state)
{
    (void)state;
    trace_destroy(trace);
    return 0;
}

/* The lean plan of `from` has these steps, and the checker accepts both. */
static void compare(const struct row *from, size_t from_count, const struct row *want, size_t count)
{
    struct plan plan = {0}, lean = {0};
    struct plan_limits limits = {.budget_bytes = {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    struct plan_report report;
    plan.signature = trace->signature;
    for (size_t i = 0; i < from_count; i++)
        CHECK_OK(plan_add(&plan, from[i].act, from[i].index, PLAN_NOWHERE, from[i].tier, &err),
                 &err);
    CHECK_OK(plan_check(trace, &plan, &limits, &report, &err), &err);
    CHECK_OK(planner_lean(trace, &plan, &lean, &err), &err);
    CHECK_OK(plan_check(trace, &lean, &limits, &report, &err), &err);
    CHECK_EQ(lean.step_count, count);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(lean.steps[i].act, want[i].act);
        CHECK_EQ(lean.steps[i].index, want[i].index);
        CHECK_EQ(lean.steps[i].tier, want[i].tier);
    }
    plan_fini(&plan);
    plan_fini(&lean);
}

#define COMPARE(from, want)                                                                        \
    compare(from, sizeof from / sizeof *from, want, sizeof want / sizeof *want)

/* b is copied, fetched and made again, and nobody reads it; it leaves when c is made. */
TEST(lean__leaves_out_what_nobody_reads)
{
    static const struct row from[] = {
        {PLAN_PLACE, A, 0}, {PLAN_RUN, 0, 0},   {PLAN_PLACE, B, 0}, {PLAN_RUN, 1, 0},
        {PLAN_PLACE, C, 0}, {PLAN_RUN, 2, 0},   {PLAN_SEND, B, 1},  {PLAN_DROP, B, 0},
        {PLAN_PLACE, B, 0}, {PLAN_FETCH, B, 1}, {PLAN_DROP, B, 0},  {PLAN_PLACE, B, 0},
        {PLAN_RUN, 1, 0},   {PLAN_RUN, 3, 0},   {PLAN_DROP, B, 0},  {PLAN_FORGET, B, 1},
        {PLAN_PLACE, D, 0}, {PLAN_RUN, 4, 0},   {PLAN_DROP, A, 0},  {PLAN_DROP, C, 0}};
    static const struct row want[] = {{PLAN_PLACE, A, 0}, {PLAN_RUN, 0, 0},   {PLAN_PLACE, B, 0},
                                      {PLAN_RUN, 1, 0},   {PLAN_PLACE, C, 0}, {PLAN_RUN, 2, 0},
                                      {PLAN_DROP, B, 0},  {PLAN_RUN, 3, 0},   {PLAN_PLACE, D, 0},
                                      {PLAN_RUN, 4, 0},   {PLAN_DROP, C, 0},  {PLAN_DROP, A, 0}};
    COMPARE(from, want);
}

/* c leaves with its copy behind op 2, where it was read last; a is copied before it is written, and
 * the copy of its new version takes the place of the old one. */
TEST(lean__copies_go_behind_the_last_reader)
{
    static const struct row from[] = {
        {PLAN_PLACE, A, 0}, {PLAN_RUN, 0, 0},    {PLAN_PLACE, B, 0}, {PLAN_RUN, 1, 0},
        {PLAN_PLACE, C, 0}, {PLAN_RUN, 2, 0},    {PLAN_SEND, A, 1},  {PLAN_DROP, A, 0},
        {PLAN_PLACE, A, 0}, {PLAN_FETCH, A, 1},  {PLAN_RUN, 3, 0},   {PLAN_FORGET, A, 1},
        {PLAN_SEND, C, 1},  {PLAN_DROP, C, 0},   {PLAN_SEND, A, 1},  {PLAN_DROP, A, 0},
        {PLAN_DROP, B, 0},  {PLAN_PLACE, C, 0},  {PLAN_FETCH, C, 1}, {PLAN_PLACE, A, 0},
        {PLAN_FETCH, A, 1}, {PLAN_FORGET, A, 1}, {PLAN_PLACE, D, 0}, {PLAN_RUN, 4, 0},
        {PLAN_DROP, A, 0},  {PLAN_DROP, C, 0}};
    static const struct row want[] = {
        {PLAN_PLACE, A, 0},  {PLAN_RUN, 0, 0},   {PLAN_PLACE, B, 0}, {PLAN_RUN, 1, 0},
        {PLAN_SEND, A, 1},   {PLAN_DROP, A, 0},  {PLAN_PLACE, C, 0}, {PLAN_RUN, 2, 0},
        {PLAN_DROP, B, 0},   {PLAN_SEND, C, 1},  {PLAN_DROP, C, 0},  {PLAN_PLACE, A, 0},
        {PLAN_FETCH, A, 1},  {PLAN_RUN, 3, 0},   {PLAN_SEND, A, 1},  {PLAN_DROP, A, 0},
        {PLAN_PLACE, C, 0},  {PLAN_FETCH, C, 1}, {PLAN_PLACE, A, 0}, {PLAN_FETCH, A, 1},
        {PLAN_FORGET, A, 1}, {PLAN_PLACE, D, 0}, {PLAN_RUN, 4, 0},   {PLAN_DROP, C, 0},
        {PLAN_DROP, A, 0}};
    COMPARE(from, want);
}

/* Results in tier 1 and what serves nobody: neither is lost, nor do copies move. */
TEST(lean__plans_with_room_below_stay)
{
    static const struct row rows[] = {{PLAN_PLACE, A, 0},  {PLAN_RUN, 0, 0},    {PLAN_SEND, A, 1},
                                      {PLAN_ROOM, B, 1},   {PLAN_RUN, 1, 1},    {PLAN_PLACE, B, 0},
                                      {PLAN_FETCH, B, 1},  {PLAN_PLACE, C, 0},  {PLAN_RUN, 2, 0},
                                      {PLAN_DROP, B, 0},   {PLAN_FORGET, B, 1}, {PLAN_RUN, 3, 0},
                                      {PLAN_FORGET, A, 1}, {PLAN_PLACE, D, 0},  {PLAN_RUN, 4, 0},
                                      {PLAN_DROP, C, 0},   {PLAN_DROP, A, 0}};
    struct planner_tiers tiers = {.bytes = {1 << 20, 1 << 20, 0}};
    struct plan early = {0};
    bool is_found = true;
    COMPARE(rows, rows);
    struct plan plan = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_OK(plan_add(&plan, rows[i].act, rows[i].index, PLAN_NOWHERE, rows[i].tier, &err),
                 &err);
    CHECK_OK(planner_early(trace, &plan, &tiers, false, &early, &is_found, &err), &err);
    CHECK(!is_found && early.step_count == 0);
    plan_fini(&plan);
    plan_fini(&early);
}

TEST_MAIN_EACH(begin, end)
