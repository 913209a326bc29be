/* Synthetic shapes: training steps that are legal, repeatable and of the stated size. */
#include <stdbool.h>
#include <stdio.h>
#include "test.h"
#include "torture.h"
#include "trace_equal.h"

#include "base/heap.h"
#include "trace/trace.h"

static const struct trace_shape *shape_of(const char *name)
{
    for (size_t i = 0; i < trace_shape_count; i++)
        if (strcmp(trace_shapes[i].name, name) == 0)
            return &trace_shapes[i];
    fail_msg("no shape %s", name);
    return NULL;
}

static struct trace *make(const char *name, struct trace_synth synth)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_shape_make(shape_of(name), &synth, &t, &err), &err);
    return t;
}

static struct trace_stats stats_of(const struct trace *t)
{
    struct ebb_error err;
    struct trace_stats s;
    CHECK_OK(trace_stats_compute(t, &s, &err), &err);
    return s;
}

/* What is kept at the end still has its handle, and nothing else has one. */
static void check_handles(const struct trace *t)
{
    uint32_t *handles = ebb_calloc(t->tensor_count + 1u, sizeof *handles);
    bool *is_kept = ebb_calloc(t->tensor_count + 1u, sizeof *is_kept);
    CHECK(handles != NULL && is_kept != NULL);
    for (uint32_t i = 0; i < t->tensor_count; i++)
        handles[i] = 1;
    for (uint32_t i = 0; i < t->command_count; i++)
        handles[t->commands[i].index] -= t->commands[i].kind == TRACE_RELEASE;
    for (uint32_t i = t->command_count; i > 0 && t->commands[i - 1].kind == TRACE_PIN; i--)
        is_kept[t->commands[i - 1].index] = true;
    for (uint32_t i = 0; i < t->tensor_count; i++)
        if (handles[i] != is_kept[i])
            fail_msg("%s: tensor %u has %u handles, kept %d", t->name, i, handles[i], is_kept[i]);
    ebb_free(handles);
    ebb_free(is_kept);
}

TEST(every_shape__makes_the_same_training_step_again)
{
    CHECK(trace_shape_count >= 8);
    for (size_t i = 0; i < trace_shape_count; i++) {
        char why[200];
        struct trace_synth synth = {.seed = 3, .spread = 0.5, .has_views = true};
        struct trace *a = make(trace_shapes[i].name, synth);
        struct trace *b = make(trace_shapes[i].name, synth);
        if (!trace_equal(a, b, why))
            fail_msg("%s: %s", trace_shapes[i].name, why);
        struct trace_stats s = stats_of(a);
        CHECK(s.forward_count > 0 && s.backward_count > 0);
        CHECK(a->backward_command != TRACE_NONE);
        if (strcmp(trace_shapes[i].name, "linear") != 0)
            check_handles(a);
        CHECK_EQ(s.keep_bytes > 0, strcmp(trace_shapes[i].name, "linear") != 0);
        trace_destroy(a);
        trace_destroy(b);
    }
}

TEST(chain__has_the_figures_one_can_compute_by_hand)
{
    struct trace *t =
        make("chain",
             (struct trace_synth){.layers = 3, .bytes = 1000, .weight_bytes = 100, .cost_ns = 10});
    struct trace_stats s = stats_of(t);
    CHECK_EQ(s.leaf_bytes, 1300);
    CHECK_EQ(s.keep_bytes, 600); /* three weights, three gradients */
    CHECK_EQ(s.leaf_count, 4);
    /* input, 3 weights, 3 layers, loss; the loss's seed and gradient, 3 x weight, 2 x data (the
     * input needs none) */
    CHECK_EQ(t->op_count, 15);
    CHECK_EQ(s.pin_count, 4 + 6);
    trace_destroy(t);
}

TEST(backward_ops__know_their_partner)
{
    struct trace *t = make("transformer", (struct trace_synth){.layers = 2});
    uint32_t partners = 0;
    for (uint32_t i = 0; i < t->op_count; i++)
        if (t->ops[i].partner != TRACE_NONE) {
            CHECK_EQ(t->ops[i].phase, TRACE_BACKWARD);
            CHECK_EQ(t->ops[t->ops[i].partner].phase, TRACE_FORWARD);
            CHECK_STR(trace_label(t, &t->ops[i]), trace_label(t, &t->ops[t->ops[i].partner]));
            partners++;
        }
    CHECK(partners > 20);
    trace_destroy(t);
}

TEST(random__has_the_features_asked_for_and_no_others)
{
    for (unsigned bits = 0; bits < 32; bits++) {
        struct trace_synth synth = {.ops = 400,
                                    .seed = bits,
                                    .has_views = bits & 1,
                                    .has_mutation = bits & 2,
                                    .has_multi_output = bits & 4,
                                    .has_workspace = bits & 8,
                                    .has_once = bits & 16};
        struct trace *t = make("random", synth);
        unsigned found = 0;
        for (uint32_t i = 0; i < t->op_count; i++) {
            const struct trace_op *op = &t->ops[i];
            found |= op->kind->purity == TRACE_MUTATING ? 2 : 0;
            found |= op->kind->purity == TRACE_ONCE ? 16 : 0;
            found |= strcmp(op->kind->name, "topk") == 0 ? 4 : 0;
            found |= op->workspace_bytes > 0 ? 8 : 0;
        }
        for (uint32_t i = 0; i < t->tensor_count; i++)
            found |= t->tensors[i].alias == TRACE_VIEW ? 1 : 0;
        CHECK_EQ(found, bits);
        CHECK(t->op_count > 300 && t->op_count < 500);
        trace_destroy(t);
    }
}

TEST(spread__changes_sizes_and_none_does_not)
{
    struct trace *t = make("chain", (struct trace_synth){.layers = 50, .spread = 1, .seed = 1});
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < t->op_count; i++)
        if (strcmp(t->ops[i].kind->name, "layer") == 0) {
            uint64_t bytes = t->storages[t->tensors[t->ops[i].output_first].storage].bytes;
            least = bytes < least ? bytes : least;
            most = bytes > most ? bytes : most;
        }
    CHECK(most > 20 * least && most <= 10u << 20 && least >= (1u << 20) / 10);
    trace_destroy(t);
}

TEST(options__out_of_range_are_refused)
{
    struct ebb_error err;
    struct trace *t = NULL;
    struct trace_synth deep = {.layers = 40}, wide = {.bytes = UINT64_C(1) << 60};
    struct trace_synth wild = {.spread = 2}, many = {.ops = 2000000000};
    CHECK_EQ(trace_shape_make(shape_of("tree"), &deep, &t, &err), EBB_EINPUT);
    CHECK_EQ(trace_shape_make(shape_of("unet"), &deep, &t, &err), EBB_EINPUT);
    CHECK_EQ(trace_shape_make(shape_of("chain"), &wide, &t, &err), EBB_EINPUT);
    CHECK_EQ(trace_shape_make(shape_of("chain"), &wild, &t, &err), EBB_EINPUT);
    CHECK_EQ(trace_shape_make(shape_of("random"), &many, &t, &err), EBB_EINPUT);
    CHECK(t == NULL);
}

static enum ebb_status make_random(void *synth)
{
    struct trace *t = NULL;
    enum ebb_status status = trace_shape_make(shape_of("random"), synth, &t, NULL);
    trace_destroy(t);
    return status;
}

TEST(maker__survives_every_failing_allocation)
{
    struct trace_synth synth = {.ops = 60, .has_views = true, .has_mutation = true};
    torture(make_random, &synth, 2000);
}

TEST_MAIN()
