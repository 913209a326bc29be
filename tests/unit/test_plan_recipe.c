/* Recipes of a small trace, by hand: who reads what, when a recipe ends, what must be restored. */
#include "test.h"
#include "trace_kit.h"

#include "plan/plan.h"

/* leaf w, leaf x; a = f(w); b = g(a, x); w written in place with b (an update); c = h(b), kept;
 * d = k(c, a), kept. */
enum { W, X, A, B, C, D };
enum { MAKE_W, MAKE_X, MAKE_A, MAKE_B, WRITE_W, MAKE_C, MAKE_D, OPS };

static struct trace *trace;
static struct ebb_error err;

static uint32_t add(struct trace_builder *b, const uint32_t *inputs, size_t count, bool is_update)
{
    struct trace_op_desc like = {.kind_name = is_update ? "op_" : "op",
                                 .cost_ns = count ? 10 : 0,
                                 .phase = is_update ? TRACE_UPDATE : TRACE_FORWARD,
                                 .is_leaf = count == 0};
    return trace_kit_op(b, like, is_update ? 0 : 300, inputs, count);
}

static int open_trace(void **state)
{
    (void)state;
    struct trace_builder *b = trace_kit_begin();
    uint32_t w = add(b, NULL, 0, false), x = add(b, NULL, 0, false);
    uint32_t a = add(b, &w, 1, false);
    uint32_t both = add(b, (uint32_t[]){a, x}, 2, false);
    add(b, (uint32_t[]){w, both}, 2, true);
    uint32_t c = add(b, &both, 1, false);
    uint32_t d = add(b, (uint32_t[]){c, a}, 2, false);
    trace_kit_command(b, TRACE_PIN, c);
    trace_kit_command(b, TRACE_PIN, d);
    trace = trace_kit_end(b, "seven");
    return 0;
}

static int close_trace(void **state)
{
    (void)state;
    trace_destroy(trace);
    return 0;
}

static bool is_restored(const struct plan_recipes *r, uint32_t node, uint32_t storage)
{
    for (uint32_t i = 0; i < r->nodes[node].restore_count; i++)
        if (r->restores[r->nodes[node].restore_first + i].storage == storage)
            return true;
    return false;
}

TEST(recipes__end_when_what_they_read_is_overwritten)
{
    struct plan_recipes *r = NULL;
    CHECK_OK(plan_recipes_create(&r, trace, NULL, PLAN_ONLINE, &err), &err);
    CHECK_EQ(r->node_count, OPS);
    CHECK_EQ(plan_version_of(r, W, 0)->expire, 0); /* anchors */
    CHECK_EQ(plan_version_of(r, W, 1)->expire, 0);
    CHECK_EQ(plan_version_of(r, W, 0)->gone, WRITE_W);
    CHECK_EQ(plan_version_of(r, A, 0)->expire, WRITE_W); /* its recipe reads the old w */
    CHECK_EQ(plan_version_of(r, B, 0)->expire, WRITE_W); /* through a */
    CHECK_EQ(plan_version_of(r, C, 0)->expire, WRITE_W);
    CHECK(is_restored(r, WRITE_W, A) && is_restored(r, WRITE_W, B));
    CHECK(!is_restored(r, WRITE_W, C)); /* not made yet */
    CHECK_EQ(r->storages[A].use_count, 2);
    CHECK_EQ(r->storages[C].use_count, 1); /* the end is no reader here */
    CHECK_EQ(r->storages[A].bytes, 512);
    CHECK_EQ(r->need_until[X], MAKE_D); /* d may be made again until then, from b, from x */
    plan_recipes_destroy(r);
}

TEST(offline__what_is_restored_can_be_had)
{
    struct plan_recipes *r = NULL;
    CHECK_OK(plan_recipes_create(&r, trace, NULL, PLAN_OFFLINE, &err), &err);
    CHECK(is_restored(r, WRITE_W, A) && !is_restored(r, WRITE_W, B));
    CHECK_EQ(plan_version_of(r, A, 0)->had_until, MAKE_D); /* its last reader */
    CHECK_EQ(plan_version_of(r, B, 0)->expire, MAKE_D);    /* a lies there, so b can be made */
    CHECK_EQ(plan_version_of(r, D, 0)->last_use, r->node_count);
    CHECK_EQ(r->nodes[r->node_count].in_count, 2); /* the end reads c and d */
    CHECK_EQ(plan_pinned_from(plan_version_of(r, A, 0)), WRITE_W + 1);
    plan_recipes_destroy(r);
}

TEST(holds__shorten_anchors)
{
    struct plan_recipes *r = NULL;
    CHECK_OK(plan_recipes_create(&r, trace, NULL, PLAN_OFFLINE, &err), &err);
    CHECK(r->need_until[X] > MAKE_B);
    plan_recipes_settle(r, &(struct plan_holds){.is_shortest = true});
    CHECK_EQ(r->need_until[X], MAKE_B);
    plan_recipes_destroy(r);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, open_trace, close_trace)

TEST_MAIN(WITH(recipes__end_when_what_they_read_is_overwritten),
          WITH(offline__what_is_restored_can_be_had), WITH(holds__shorten_anchors))
