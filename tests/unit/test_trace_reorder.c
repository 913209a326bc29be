/* Orders of first runs: every op still reads the versions it read. */
#include "test.h"

#include "base/heap.h"
#include "trace/trace.h"

static struct ebb_error err;

/* Does every op find the newest version it read in the trace? */
static void check_order(const struct trace *t, const uint32_t *ops, uint32_t count)
{
    uint32_t *version = ebb_calloc((size_t)t->storage_count + 1, sizeof *version);
    uint8_t *is_made = ebb_calloc((size_t)t->storage_count + 1, 1);
    CHECK(version && is_made);
    for (uint32_t i = 0; i < count; i++) {
        const struct trace_op *op = &t->ops[ops[i]];
        for (uint32_t k = 0; k < op->input_count; k++) {
            const struct trace_tensor *in = &t->tensors[t->inputs[op->input_first + k]];
            CHECK(is_made[in->storage]);
            CHECK_EQ(version[in->storage], in->version);
        }
        for (uint32_t k = 0; k < op->output_count; k++) {
            const struct trace_tensor *out = &t->tensors[op->output_first + k];
            is_made[out->storage] = 1;
            version[out->storage] = out->version;
        }
    }
    ebb_free(version);
    ebb_free(is_made);
}

static uint32_t count_running(const struct trace *t, enum trace_order how)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->op_count; i++)
        count += how == TRACE_UPDATES_EARLY || !trace_is_view_op(t, i);
    return count;
}

static struct trace *make(const char *shape, uint64_t seed)
{
    for (size_t i = 0; i < trace_shape_count; i++) {
        struct trace_synth synth = {.ops = 60,
                                    .layers = 6,
                                    .seed = seed,
                                    .spread = 0.5,
                                    .has_mutation = true,
                                    .has_multi_output = true,
                                    .has_once = seed % 2};
        struct trace *t = NULL;
        if (strcmp(trace_shapes[i].name, shape) != 0)
            continue;
        CHECK_OK(trace_shape_make(&trace_shapes[i], &synth, &t, &err), &err);
        return t;
    }
    fail_msg("no shape %s", shape);
    return NULL;
}

TEST(orders__read_the_same_versions)
{
    static const char *const shapes[] = {"random", "resnet", "unet", "transformer", "chain"};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct trace *t = make(shapes[s], seed);
            uint32_t *ops = ebb_calloc((size_t)t->op_count + 1, sizeof *ops), count;
            CHECK(ops);
            for (int how = TRACE_AS_RECORDED; how <= TRACE_EARLY; how++) {
                bool is_moved;
                CHECK_OK(trace_reorder(t, (enum trace_order)how, ops, &count, &is_moved, &err),
                         &err);
                CHECK_EQ(count, count_running(t, (enum trace_order)how));
                check_order(t, ops, count);
                CHECK(how != TRACE_AS_RECORDED || !is_moved);
            }
            ebb_free(ops);
            trace_destroy(t);
        }
}

TEST(hoisted__is_a_legal_trace_with_every_tensor)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct trace *t = make("resnet", seed), *hoisted = NULL;
        uint32_t *map = ebb_calloc((size_t)t->tensor_count + 1, sizeof *map);
        CHECK(map);
        CHECK_OK(trace_hoist_updates(t, &hoisted, map, &err), &err);
        CHECK_OK(trace_check(hoisted, &err), &err);
        CHECK_EQ(hoisted->op_count, t->op_count);
        for (uint32_t i = 0; i < t->tensor_count; i++) {
            const struct trace_tensor *was = &t->tensors[i], *is = &hoisted->tensors[map[i]];
            CHECK_EQ(is->version, was->version);
            CHECK_EQ(hoisted->storages[is->storage].bytes, t->storages[was->storage].bytes);
        }
        ebb_free(map);
        trace_destroy(t);
        trace_destroy(hoisted);
    }
}

TEST_MAIN(cmocka_unit_test(orders__read_the_same_versions),
          cmocka_unit_test(hoisted__is_a_legal_trace_with_every_tensor))
