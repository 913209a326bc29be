/* The builder, the checker (one test per rule) and the signature. */
#include <stdbool.h>
#include <stdio.h>
#include "test.h"
#include "torture.h"
#include "trace_kit.h"

#include "base/heap.h"
#include "trace/trace.h"

static uint32_t add(struct trace_builder *b, const char *kind, const uint32_t *inputs, size_t count,
                    uint64_t bytes, uint64_t cost)
{
    struct trace_op_desc like = {
        .kind_name = kind, .cost_ns = cost, .is_leaf = cost == 0 && count == 0};
    return trace_kit_op(b, like, bytes, inputs, count);
}

static uint32_t mutate(struct trace_builder *b, uint32_t target)
{
    struct trace_op_desc like = {.kind_name = "step", .cost_ns = 5, .phase = TRACE_UPDATE};
    return trace_kit_op(b, like, 0, &target, 1);
}

static struct trace *finish(struct trace_builder *b)
{
    return trace_kit_end(b, "test");
}

/* weight, activation, update in place; handles dropped, weight kept */
static struct trace *small(void)
{
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    uint32_t w = add(b, "weight", NULL, 0, 100, 0);
    uint32_t x = add(b, "relu", &w, 1, 40, 7);
    CHECK_OK(trace_builder_command(b, TRACE_RELEASE, x, &err), &err);
    uint32_t w1 = mutate(b, w);
    CHECK_OK(trace_builder_command(b, TRACE_RELEASE, w, &err), &err);
    CHECK_OK(trace_builder_command(b, TRACE_PIN, w1, &err), &err);
    return finish(b);
}

TEST(builder__packs_ops_tensors_storages_and_commands)
{
    struct trace *t = small();
    CHECK_EQ(t->op_count, 3);
    CHECK_EQ(t->tensor_count, 3);
    CHECK_EQ(t->storage_count, 2);
    CHECK_EQ(t->command_count, 6);
    CHECK_EQ(t->storages[0].bytes, 100);
    CHECK_EQ(t->storages[0].version_count, 2);
    CHECK_EQ(t->tensors[2].storage, 0);
    CHECK_EQ(t->tensors[2].version, 1);
    CHECK_EQ(t->ops[2].kind->purity, TRACE_MUTATING);
    CHECK_EQ(t->ops[0].is_leaf, 1);
    CHECK_STR(trace_label(t, &t->ops[1]), "");
    trace_destroy(t);
}

TEST(builder__keeps_labels_and_attributes)
{
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    const char *labels[] = {"layer1", "layer1", NULL, "layer2"};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t id = 0;
        struct trace_output output = {.bytes = 8};
        struct trace_op_desc desc = {.kind_name = "f",
                                     .outputs = &output,
                                     .output_count = 1,
                                     .partner = TRACE_NONE,
                                     .label = labels[i],
                                     .attr = "abcd",
                                     .attr_bytes = i};
        CHECK_OK(trace_builder_op(b, &desc, &id, &err), &err);
    }
    struct trace *t = finish(b);
    CHECK_STR(trace_label(t, &t->ops[0]), "layer1");
    CHECK_STR(trace_label(t, &t->ops[1]), "layer1");
    CHECK_STR(trace_label(t, &t->ops[2]), "");
    CHECK_STR(trace_label(t, &t->ops[3]), "layer2");
    CHECK_EQ(t->ops[3].attr_bytes, 3);
    CHECK_EQ(memcmp(t->attrs + t->ops[3].attr_first, "abc", 3), 0);
    CHECK_EQ(t->ops[0].label, t->ops[1].label); /* the same text is kept once */
    trace_destroy(t);
}

TEST(builder__refuses_an_input_that_does_not_exist)
{
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    uint32_t id = 77, input = 0;
    struct trace_output output = {.bytes = 8};
    struct trace_op_desc desc = {.kind_name = "f",
                                 .inputs = &input,
                                 .input_count = 1,
                                 .outputs = &output,
                                 .output_count = 1,
                                 .partner = TRACE_NONE};
    CHECK_EQ(trace_builder_op(b, &desc, &id, &err), EBB_EINPUT);
    CHECK_EQ(id, 77);
    desc.input_count = 0;
    output.alias = TRACE_VIEW;
    CHECK_EQ(trace_builder_op(b, &desc, &id, &err), EBB_EINPUT);
    desc.output_count = 0;
    CHECK_EQ(trace_builder_op(b, &desc, &id, &err), EBB_EINPUT);
    CHECK_EQ(trace_builder_command(b, TRACE_GET, 0, &err), EBB_EINPUT);
    trace_builder_destroy(b);
}

static void expect_refused(struct trace_builder *b, const char *rule)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_EQ(trace_builder_finish(b, "test", &t, &err), EBB_EINPUT);
    CHECK(t == NULL);
    if (strstr(err.message, rule) == NULL)
        fail_msg("expected %s in: %s", rule, err.message);
    trace_builder_destroy(b);
}

TEST(check__T3_refuses_reading_a_replaced_version)
{
    struct trace_builder *b = trace_kit_begin();
    uint32_t w = add(b, "weight", NULL, 0, 100, 0);
    mutate(b, w);
    add(b, "relu", &w, 1, 8, 1);
    expect_refused(b, "T3");
}

TEST(check__T3_refuses_mutating_a_replaced_version)
{
    struct trace_builder *b = trace_kit_begin();
    uint32_t w = add(b, "weight", NULL, 0, 100, 0);
    mutate(b, w);
    mutate(b, w);
    expect_refused(b, "T3");
}

TEST(check__T3_refuses_pinning_a_replaced_version)
{
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    uint32_t w = add(b, "weight", NULL, 0, 100, 0);
    mutate(b, w);
    CHECK_OK(trace_builder_command(b, TRACE_PIN, w, &err), &err);
    expect_refused(b, "T3");
}

TEST(check__T5_refuses_a_release_without_a_handle)
{
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    uint32_t w = add(b, "weight", NULL, 0, 100, 0);
    CHECK_OK(trace_builder_command(b, TRACE_GET, w, &err), &err);
    for (int i = 0; i < 3; i++)
        CHECK_OK(trace_builder_command(b, TRACE_RELEASE, w, &err), &err);
    expect_refused(b, "T5");
}

TEST(check__T5_lets_ops_read_what_has_no_handle)
{
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    uint32_t x = add(b, "f", NULL, 0, 100, 1);
    CHECK_OK(trace_builder_command(b, TRACE_RELEASE, x, &err), &err);
    add(b, "g", &x, 1, 8, 1);
    trace_destroy(finish(b));
}

TEST(check__T6_refuses_sizes_beyond_62_bits_together)
{
    struct trace_builder *b = trace_kit_begin();
    for (int i = 0; i < 3; i++)
        add(b, "f", NULL, 0, TRACE_MAX_BYTES / 2, 1);
    expect_refused(b, "T6");
}

TEST(check__T7_refuses_a_leaf_that_costs)
{
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    uint32_t id = 0;
    struct trace_output output = {.bytes = 8};
    struct trace_op_desc desc = {.kind_name = "weight",
                                 .cost_ns = 1,
                                 .outputs = &output,
                                 .output_count = 1,
                                 .partner = TRACE_NONE,
                                 .is_leaf = true};
    CHECK_OK(trace_builder_op(b, &desc, &id, &err), &err);
    expect_refused(b, "T7");
}

TEST(check__T7_refuses_a_mutating_kind_without_a_mutated_output)
{
    static const struct trace_kind kind = {.name = "step", .purity = TRACE_MUTATING};
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    uint32_t id = 0;
    struct trace_output output = {.bytes = 8};
    struct trace_op_desc desc = {
        .kind = &kind, .outputs = &output, .output_count = 1, .partner = TRACE_NONE};
    CHECK_OK(trace_builder_op(b, &desc, &id, &err), &err);
    expect_refused(b, "T7");
}

TEST(check__finds_every_broken_field)
{
    struct ebb_error err;
    struct trace *t = small();
    CHECK_OK(trace_check(t, &err), &err);
#define BREAK(field, value)                                                                        \
    do {                                                                                           \
        __typeof__(field) kept = (field);                                                          \
        (field) = (__typeof__(field))(value);                                                      \
        CHECK_EQ(trace_check(t, &err), EBB_EINPUT);                                                \
        (field) = kept;                                                                            \
    } while (0)
    BREAK(t->ops[1].input_first, 1);
    BREAK(t->ops[1].input_count, 2000000000);
    BREAK(t->ops[1].output_first, 0);
    BREAK(t->ops[1].output_count, 0);
    BREAK(t->ops[1].output_count, 2000000000);
    BREAK(t->ops[1].label, 1000);
    BREAK(t->ops[1].partner, 1);
    BREAK(t->ops[1].phase, 9);
    BREAK(t->ops[1].attr_bytes, 1);
    BREAK(t->ops[1].cost_ns, UINT64_MAX);
    BREAK(t->ops[1].workspace_bytes, UINT64_MAX);
    BREAK(t->inputs[0], 1);
    BREAK(t->inputs[0], 2000000000);
    BREAK(t->tensors[1].op, 0);
    BREAK(t->tensors[1].storage, 5);
    BREAK(t->tensors[1].version, 1);
    BREAK(t->tensors[1].alias, 3);
    BREAK(t->tensors[2].alias_input, 4);
    BREAK(t->tensors[2].version, 0);
    BREAK(t->storages[0].version_count, 1);
    BREAK(t->storages[1].root, 0);
    BREAK(t->backward_command, 600);
    BREAK(t->command_count, 5 - 2);
    BREAK(t->storage_count, 1);
    BREAK(t->text_bytes, 0);
#undef BREAK
    struct trace_command kept = t->commands[1];
    t->commands[1].index = 0;
    CHECK_EQ(trace_check(t, &err), EBB_EINPUT); /* T4: op 0 twice */
    t->commands[1] = kept;
    kept = t->commands[2];
    t->commands[2].index = 2;
    CHECK_EQ(trace_check(t, &err), EBB_EINPUT); /* tensor 2 does not exist yet */
    t->commands[2] = kept;
    CHECK_OK(trace_check(t, &err), &err);
    trace_destroy(t);
}

static bool same(struct ebb_hash128 a, struct ebb_hash128 b)
{
    return a.low == b.low && a.high == b.high;
}

TEST(signature__depends_on_the_work_and_not_on_its_price)
{
    struct trace *t = small(), *u = small();
    CHECK(same(t->signature, u->signature));
    CHECK(same(t->signature, trace_signature(t)));
    u->ops[1].cost_ns += 1;
    u->ops[1].phase = TRACE_BACKWARD;
    u->name = "other";
    CHECK(same(t->signature, trace_signature(u)));
    u->ops[1].workspace_bytes = 1;
    CHECK(!same(t->signature, trace_signature(u)));
    u->ops[1].workspace_bytes = 0;
    u->storages[1].bytes++;
    CHECK(!same(t->signature, trace_signature(u)));
    u->storages[1].bytes--;
    u->commands[5].index = 1;
    CHECK(!same(t->signature, trace_signature(u)));
    trace_destroy(t);
    trace_destroy(u);
}

TEST(signature__is_the_same_on_every_machine)
{
    struct trace *t = small();
    char text[40];
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)t->signature.high,
             (unsigned long long)t->signature.low);
    CHECK_STR(text, "2793b247057bd92084dd9119aa9cbc1f");
    trace_destroy(t);
}

static enum ebb_status make_linear(void *context)
{
    struct trace *t = NULL;
    enum ebb_status status = trace_make_linear(*(uint32_t *)context, &t, NULL);
    trace_destroy(t);
    return status;
}

TEST(builder__survives_every_failing_allocation)
{
    torture(make_linear, &(uint32_t){40}, 1000);
}

TEST(linear__has_the_commands_of_the_paper)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_make_linear(3, &t, &err), &err);
    static const struct {
        enum trace_command_kind kind;
        uint32_t index;
    } wanted[] = {
        {TRACE_RUN, 0},     {TRACE_RUN, 1},     {TRACE_RUN, 2},     {TRACE_RELEASE, 2},
        {TRACE_RUN, 3},     {TRACE_RELEASE, 1}, {TRACE_RUN, 4},     {TRACE_RELEASE, 3},
        {TRACE_RELEASE, 0}, {TRACE_RUN, 5},     {TRACE_RELEASE, 4},
    };
    CHECK_EQ(t->command_count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        CHECK_EQ(t->commands[i].kind, wanted[i].kind);
        CHECK_EQ(t->commands[i].index, wanted[i].index);
    }
    CHECK_EQ(t->ops[3].input_count, 0); /* b2 */
    CHECK_EQ(t->ops[4].input_count, 2); /* b1 reads f0, b2 */
    CHECK_EQ(t->inputs[t->ops[4].input_first], 0);
    CHECK_EQ(t->inputs[t->ops[4].input_first + 1], 3);
    CHECK_EQ(t->ops[5].input_count, 1); /* b0 reads b1 */
    trace_destroy(t);
    CHECK_EQ(trace_make_linear(0, &t, &err), EBB_EINPUT);
    CHECK_OK(trace_make_linear(1, &t, &err), &err);
    CHECK_EQ(t->command_count, 3);
    trace_destroy(t);
}

TEST(stats__count_by_plain_reference_counting)
{
    struct ebb_error err;
    struct trace *t = small();
    t->ops[1].workspace_bytes = 9;
    struct trace_stats s;
    CHECK_OK(trace_stats_compute(t, &s, &err), &err);
    CHECK_EQ(s.base_ns, 12);
    CHECK_EQ(s.baseline_bytes, 149);
    CHECK_EQ(s.leaf_bytes, 100);
    CHECK_EQ(s.bottleneck_bytes, 140);
    CHECK_EQ(s.working_bytes, 149);
    CHECK_EQ(s.working_op, 1);
    CHECK_EQ(s.keep_bytes, 100);
    CHECK_EQ(s.total_bytes, 140);
    CHECK_EQ(s.leaf_count, 1);
    CHECK_EQ(s.pin_count, 1);
    CHECK_EQ(s.release_count, 2);
    CHECK_EQ(s.forward_count, 2);
    trace_destroy(t);
}

TEST(stats__count_views_and_repeated_inputs_as_the_paper_does)
{
    struct ebb_error err;
    struct trace_builder *b = trace_kit_begin();
    uint32_t w = add(b, "weight", NULL, 0, 100, 0), v = 0;
    struct trace_output view = {.alias = TRACE_VIEW};
    struct trace_op_desc desc = {.kind_name = "view",
                                 .inputs = &w,
                                 .input_count = 1,
                                 .outputs = &view,
                                 .output_count = 1,
                                 .partner = TRACE_NONE};
    CHECK_OK(trace_builder_op(b, &desc, &v, &err), &err);
    uint32_t inputs[] = {w, w, v, v};
    add(b, "f", inputs, 4, 7, 1);
    struct trace *t = finish(b);
    struct trace_stats s;
    CHECK_OK(trace_stats_compute(t, &s, &err), &err);
    CHECK_EQ(s.bottleneck_bytes, 207); /* w twice, its view not at all */
    CHECK_EQ(s.working_bytes, 107);    /* each storage once */
    CHECK_EQ(s.view_count, 1);
    trace_destroy(t);
}

TEST_MAIN()
