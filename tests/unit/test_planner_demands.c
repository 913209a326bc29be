/* Games that were told what not to do: nothing again, no copies, checkpoints by blocks. */
#include "test.h"
#include "trace_kit.h"

#include <string.h>

#include "base/heap.h"
#include "planner/planner.h"

static struct trace *trace;
static struct planner_fate *fates;
static struct plan plan;
static struct ebb_error err;

enum { BLOCKS = 12 };

/* Blocks of a large and a small op each; the backward pass reads both and the input. */
static struct trace *make_trace(void)
{
    struct trace_builder *b = trace_kit_begin();
    struct trace_op_desc leaf = {.kind_name = "leaf", .is_leaf = true};
    struct trace_op_desc op = {.kind_name = "f", .cost_ns = 10000};
    uint32_t input[BLOCKS + 1], inside[BLOCKS];
    input[0] = trace_kit_op(b, leaf, 8192, NULL, 0);
    for (int l = 0; l < BLOCKS; l++) {
        inside[l] = trace_kit_op(b, op, 65536, &input[l], 1);
        input[l + 1] = trace_kit_op(b, op, 8192, &inside[l], 1);
    }
    op.phase = TRACE_BACKWARD;
    uint32_t gradient = trace_kit_op(b, op, 8192, &input[BLOCKS], 1);
    for (int l = BLOCKS; l-- > 0;)
        gradient = trace_kit_op(b, op, 8192, (uint32_t[]){gradient, inside[l], input[l]}, 3);
    trace_kit_command(b, TRACE_PIN, gradient);
    return trace_kit_end(b, "blocks");
}

/* The same with a large op more, over which a block's input waits for the op behind it. */
static struct trace *make_residual(void)
{
    struct trace_builder *b = trace_kit_begin();
    struct trace_op_desc leaf = {.kind_name = "leaf", .is_leaf = true};
    struct trace_op_desc op = {.kind_name = "f", .cost_ns = 10000};
    uint32_t input[BLOCKS + 1], first[BLOCKS], second[BLOCKS];
    input[0] = trace_kit_op(b, leaf, 8192, NULL, 0);
    for (int l = 0; l < BLOCKS; l++) {
        first[l] = trace_kit_op(b, op, 65536, &input[l], 1);
        second[l] = trace_kit_op(b, op, 65536, &first[l], 1);
        input[l + 1] = trace_kit_op(b, op, 8192, (uint32_t[]){second[l], input[l]}, 2);
    }
    op.phase = TRACE_BACKWARD;
    uint32_t gradient = trace_kit_op(b, op, 8192, &input[BLOCKS], 1);
    for (int l = BLOCKS; l-- > 0;) {
        gradient = trace_kit_op(b, op, 8192, (uint32_t[]){gradient, second[l]}, 2);
        gradient = trace_kit_op(b, op, 8192, (uint32_t[]){gradient, first[l], input[l]}, 3);
    }
    trace_kit_command(b, TRACE_PIN, gradient);
    return trace_kit_end(b, "residual blocks");
}

static int begin(void **state)
{
    (void)state;
    trace = make_trace();
    CHECK_OK(planner_fates(trace, &fates, &err), &err);
    return 0;
}

static int end(void **state)
{
    (void)state;
    ebb_free(fates);
    trace_destroy(trace);
    return 0;
}

struct seen {
    size_t again, sent;
    bool input_is_made; /* again, what has the fate of an input */
};

static struct seen look(void)
{
    struct seen seen = {0};
    uint8_t *has_run = ebb_calloc(trace->op_count, 1);
    for (size_t i = 0; i < plan.step_count; i++) {
        const struct plan_step *step = &plan.steps[i];
        if (step->act == PLAN_RUN) {
            seen.again += has_run[step->index];
            const struct trace_op *op = &trace->ops[step->index];
            for (uint32_t k = 0; k < op->output_count && has_run[step->index]; k++) {
                uint32_t s = trace->tensors[op->output_first + k].storage;
                seen.input_is_made |= fates && fates[s].way == PLANNER_INPUT;
            }
            has_run[step->index] = 1;
        }
        seen.sent += step->act == PLAN_SEND;
    }
    ebb_free(has_run);
    return seen;
}

static struct seen play(struct planner_tiers tiers, uint64_t budget)
{
    bool is_found = false;
    struct seen seen = {0};
    plan_init(&plan);
    CHECK_OK(planner_floor_at(trace, &tiers, budget, budget, &plan, &is_found, &err), &err);
    CHECK(is_found);
    if (is_found)
        seen = look();
    plan_fini(&plan);
    return seen;
}

static uint64_t floor_of(struct planner_tiers tiers)
{
    uint64_t bytes = 0;
    CHECK_OK(planner_floor(trace, &tiers, NULL, &bytes, &err), &err);
    return bytes;
}

static const struct device_link host_link = {.latency_ns = 1000, .bytes_per_ns = 10};

static struct planner_tiers with_host(uint64_t bytes)
{
    struct planner_tiers tiers = {.bytes = {0, bytes, 0}};
    tiers.links.in[DEVICE_HOST] = tiers.links.out[DEVICE_HOST] = host_link;
    return tiers;
}

TEST(demands__nothing_is_made_again)
{
    struct planner_tiers tiers = with_host(UINT64_C(1) << 30);
    uint64_t plain = floor_of((struct planner_tiers){0});
    CHECK(play((struct planner_tiers){0}, plain).again > 0);
    tiers.demands = PLANNER_NOTHING_AGAIN;
    uint64_t least = floor_of(tiers);
    struct seen seen = play(tiers, least);
    CHECK_EQ(seen.again, 0);
    CHECK(seen.sent > 0);
    CHECK(floor_of((struct planner_tiers){.demands = PLANNER_NOTHING_AGAIN}) > plain);
}

TEST(demands__nothing_is_copied)
{
    struct planner_tiers tiers = with_host(UINT64_C(1) << 30);
    uint64_t plain = floor_of((struct planner_tiers){0});
    CHECK(play(tiers, plain).sent > 0);
    tiers.demands = PLANNER_NO_COPIES;
    struct seen seen = play(tiers, plain);
    CHECK_EQ(seen.sent, 0);
    CHECK(seen.again > 0);
}

TEST(fates__inputs_stay_and_the_rest_is_made_again)
{
    struct planner_tiers tiers = {.fates = fates};
    size_t inputs = 0, inside = 0;
    for (uint32_t s = 0; s < trace->storage_count; s++) {
        inputs += fates[s].way == PLANNER_INPUT;
        inside += fates[s].way == PLANNER_AGAIN;
    }
    CHECK(inputs > 0 && inside > 0);
    struct seen seen = play(tiers, TRACE_MAX_BYTES);
    CHECK(seen.again >= inside);
    CHECK(!seen.input_is_made);
    CHECK(!play(tiers, floor_of(tiers)).input_is_made);
    tiers = with_host(UINT64_C(1) << 30);
    tiers.fates = fates;
    tiers.demands = PLANNER_INPUTS_LEAVE;
    seen = play(tiers, TRACE_MAX_BYTES);
    CHECK(seen.sent >= inputs);
    CHECK(!seen.input_is_made);
    tiers.bytes[DEVICE_HOST] = 256;
    uint64_t bytes;
    CHECK_EQ(planner_floor(trace, &tiers, NULL, &bytes, &err), EBB_EBUDGET);
    CHECK(strstr(err.message, "no room for the inputs of blocks"));
}

/* An input that left as a victim and came back for its last reader leaves for where its copy is. */
TEST(fates__a_copy_keeps_its_place)
{
    struct planner_tiers tiers = with_host(256);
    trace_destroy(trace);
    trace = make_residual();
    ebb_free(fates);
    CHECK_OK(planner_fates(trace, &fates, &err), &err);
    tiers.bytes[DEVICE_FILE] = UINT64_C(1) << 30; /* a little room in the host is none */
    tiers.links.in[DEVICE_FILE] = tiers.links.out[DEVICE_FILE] = host_link;
    tiers.fates = fates;
    tiers.demands = PLANNER_INPUTS_LEAVE;
    CHECK(play(tiers, floor_of(tiers)).sent > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(demands__nothing_is_made_again, begin, end),
        cmocka_unit_test_setup_teardown(demands__nothing_is_copied, begin, end),
        cmocka_unit_test_setup_teardown(fates__inputs_stay_and_the_rest_is_made_again, begin, end),
        cmocka_unit_test_setup_teardown(fates__a_copy_keeps_its_place, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
