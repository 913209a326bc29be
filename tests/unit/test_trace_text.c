/* Text traces: lossless both ways, and every mistake with its line. */
#include <unistd.h>

#include "test.h"
#include "torture.h"
#include "trace_equal.h"
#include "trace_kit.h"

#include "base/file.h"
#include "trace/trace.h"

/* The example of docs/formats/trace.md. */
static const char small[] =
    "{\"ebb_trace\": 1, \"name\": \"small\"}\n"
    "{\"op\": \"weight\", \"out\": [4096], \"leaf\": true, \"label\": \"fc.weight\"}\n"
    "{\"op\": \"input\", \"out\": [256], \"leaf\": true}\n"
    "{\"op\": \"linear\", \"in\": [1, 0], \"out\": [1024], \"ns\": 5000, \"workspace\": 512, "
    "\"label\": \"fc\"}\n"
    "{\"backward\": 1}\n"
    "{\"op\": \"linear_backward\", \"in\": [2, 1], \"out\": [4096], \"ns\": 7000, \"phase\": "
    "\"b\", "
    "\"label\": \"fc\", \"of\": 2}\n"
    "{\"release\": [2, 1]}\n"
    "{\"op\": \"sgd\", \"in\": [0, 3], \"out\": [{\"mutate\": 0}], \"ns\": 900, \"phase\": \"u\"}\n"
    "{\"release\": [3]}\n"
    "{\"pin\": [4]}\n";

TEST(text__says_what_the_page_says)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_read_text("small", small, sizeof small - 1, &t, &err), &err);
    CHECK_STR(t->name, "small");
    CHECK_EQ(t->op_count, 5);
    CHECK_EQ(t->tensor_count, 5);
    CHECK_EQ(t->storage_count, 4);
    CHECK_EQ(t->backward_command, 3);
    CHECK_EQ(t->ops[2].workspace_bytes, 512);
    CHECK_EQ(t->ops[3].partner, 2);
    CHECK_EQ(t->ops[3].phase, TRACE_BACKWARD);
    CHECK_EQ(t->ops[4].kind->purity, TRACE_MUTATING);
    CHECK_EQ(t->tensors[4].version, 1);
    CHECK_STR(trace_label(t, &t->ops[0]), "fc.weight");
    CHECK(t->ops[0].is_leaf && !t->ops[2].is_leaf);
    trace_destroy(t);
}

static void back_and_forth(const struct trace *t)
{
    struct ebb_error err;
    struct trace *back = NULL;
    char why[200];
    CHECK_OK(trace_write_text(t, trace_kit_path, &err), &err);
    CHECK_OK(trace_load(trace_kit_path, TRACE_FORMAT_AUTO, &back, &err), &err);
    if (!trace_equal(t, back, why))
        fail_msg("%s: %s", t->name, why);
    trace_destroy(back);
}

TEST(text__keeps_everything)
{
    static const struct trace_kind skipping = {
        .name = "dropout", .purity = TRACE_PURE, .can_skip_outputs = true};
    struct trace_builder *b = trace_kit_begin();
    struct trace_op_desc leaf = {.kind_name = "leaf", .label = "a \"b\"\n\\", .is_leaf = true};
    uint32_t w = trace_kit_op(b, leaf, 1000, NULL, 0);
    struct trace_op_desc drop = {
        .kind = &skipping, .cost_ns = UINT64_C(1) << 61, .attr = "\1\2\0\377", .attr_bytes = 4};
    uint32_t x = trace_kit_op(b, drop, 24, &w, 1);
    trace_kit_command(b, TRACE_GET, x);
    trace_kit_command(b, TRACE_RELEASE, x);
    trace_builder_mark_backward(b);
    trace_kit_command(b, TRACE_RELEASE, x);
    struct trace_op_desc once = {.kind_name = "dropout", .purity = TRACE_ONCE};
    uint32_t y = trace_kit_op(b, once, 24, &w, 1);
    trace_kit_command(b, TRACE_PIN, y);
    struct trace *t = trace_kit_end(b, "rich");
    back_and_forth(t);
    trace_destroy(t);
}

TEST(text__keeps_traces_of_every_shape)
{
    struct ebb_error err;
    for (size_t i = 0; i < trace_shape_count; i++) {
        struct trace *t = NULL;
        struct trace_synth synth = {.ops = 200, .seed = i, .spread = 1};
        bool has_features = trace_shapes[i].uses & TRACE_USES_FEATURES;
        synth.has_views = synth.has_mutation = synth.has_multi_output = has_features;
        synth.has_workspace = synth.has_once = has_features;
        CHECK_OK(trace_shape_make(&trace_shapes[i], &synth, &t, &err), &err);
        back_and_forth(t);
        trace_destroy(t);
    }
}

TEST(text__keeps_graphs)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_load(EBB_SOURCE_DIR "/tests/golden/checkmate/graphs/unit_linear_4.json",
                        TRACE_FORMAT_AUTO, &t, &err),
             &err);
    CHECK(t->is_graph);
    back_and_forth(t);
    trace_destroy(t);
}

#define HEAD "{\"ebb_trace\": 1, \"name\": \"x\"}\n"
#define LEAF HEAD "{\"op\": \"x\", \"out\": [8], \"leaf\": true}\n"

TEST(text__mistakes_have_their_line)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "t:1: no head"},
        {"{\"op\": \"x\", \"out\": [8]}", "t:1: the first line is the head"},
        {"{\"ebb_trace\": 2}", "t:1: found version 2"},
        {HEAD HEAD, "t:2: a second head"},
        {HEAD "[1]", "t:2:1: a line must be one JSON object"},
        {HEAD "{}", "t:2: a line without keys"},
        {HEAD "{\"op\": \"x\"}", "t:2: an op has \"op\" and \"out\""},
        {HEAD "{\"op\": \"x\", \"ouT\": [8]}", "t:2:13: unknown key \"ouT\", nearest: out"},
        {HEAD "{\"op\": \"x\", \"op\": \"y\"}", "t:2:13: \"op\" is given twice"},
        {LEAF "{\"release\": [0], \"ns\": 3}",
         "t:3:18: \"ns\" does not belong to a line with \"release\""},
        {LEAF "{\"release\": [1]}", "t:3:14: \"release\": allowed: a whole number from 0 to 0"},
        {HEAD "{\"pin\": [0]}", "t:2:10: \"pin\": no op has made a tensor so far"},
        {LEAF "{\"op\": \"y\", \"in\": [0], \"out\": [{\"look\": 0}]}", "\"out\": allowed: bytes"},
        {LEAF "{\"op\": \"y\", \"in\": [0], \"out\": [-1]}",
         "t:3:32: \"out\": allowed: a whole number"},
        {LEAF "{\"op\": \"y\", \"in\": [0], \"out\": [{\"view\": 1}]}",
         "t:3: trace: op 1 (y): output 0 aliases input 1 of 1"},
        {LEAF "{\"op\": \"y\", \"in\": [0], \"out\": []}", "t:3: trace: op 1 (y) has no output"},
        {LEAF "{\"op\": \"y\", \"out\": [8], \"phase\": \"x\"}", "\"phase\": allowed"},
        {LEAF "{\"op\": \"y\", \"out\": [8], \"leaf\": 1}", "\"leaf\": allowed: true or false"},
        {LEAF "{\"op\": \"y\", \"out\": [8], \"attr\": \"0g\"}", "two digits"},
        {LEAF "{\"op\": 3, \"out\": [8]}", "t:3:8: \"op\": allowed: text"},
        {LEAF "{\"op\": \"y\", \"in\": [0], \"out\": [8], \"leaf\": true}", "t:3: "},
        {LEAF "{\"op\": \"y\", \"in\": [0], \"out\": [{\"mutate\": 0}]}\n{\"op\": \"z\", \"in\": "
              "[0], \"out\": [8]}",
         "t:4: "},
        {LEAF "{\"release\": [0]}\n\n{\"release\": [0]}", "t:5: "},
        {LEAF "{\"op\": \"y\", \"out\": [8], \"of\": 7}", "t:3: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ebb_error err = {0};
        struct trace *t = NULL;
        enum ebb_status status = trace_read_text("t", rows[i].text, strlen(rows[i].text), &t, &err);
        if (status != EBB_EINPUT || !strstr(err.message, rows[i].message))
            fail_msg("%s\ngives %d: %s", rows[i].text, (int)status,
                     status ? err.message : "a trace");
    }
}

static enum ebb_status load(void *context)
{
    struct trace *t = NULL;
    EBB_TRY(trace_read_text("t", context, strlen(context), &t, NULL));
    enum ebb_status status = trace_write_text(t, trace_kit_path, NULL);
    trace_destroy(t);
    return status;
}

TEST(text__survives_every_failed_allocation)
{
    static char text[sizeof small];
    memcpy(text, small, sizeof small);
    torture(load, text, 1000);
}

TEST_MAIN_EACH(trace_kit_make_path, trace_kit_drop_path)
