/* The DTR log writer: what reads back the same, and what it admits to lose. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "test.h"
#include "torture.h"
#include "trace_equal.h"
#include "trace_kit.h"

#include "base/file.h"
#include "base/heap.h"
#include "trace/trace.h"

#define SIMRD EBB_SOURCE_DIR "/../shared/data/simrd/"

static void expect_same(const struct trace *t, const char *wanted_lost)
{
    struct ebb_error err;
    char lost[2000], why[200];
    struct trace *back = NULL;
    CHECK_OK(trace_write_dtr(t, trace_kit_path, lost, sizeof lost, &err), &err);
    CHECK_STR(lost, wanted_lost);
    CHECK_OK(trace_load(trace_kit_path, TRACE_FORMAT_AUTO, &back, &err), &err);
    if (!trace_equal_program(t, back, why))
        fail_msg("%s: %s", t->name, why);
    trace_destroy(back);
}

static void same_log(const char *text)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_read_dtr("log", text, strlen(text), &t, &err), &err);
    expect_same(t, "");
    trace_destroy(t);
}

#define CONSTANT(name)                                                                             \
    "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"" name "\"}\n"                                       \
    "{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":\"64\",\"NAME\":\"" name "\"}\n"
#define CALL(arg, op, result, alias)                                                               \
    "{\"ARGS\":[\"" arg "\"],\"INSTRUCTION\":\"CALL\",\"NAME\":\"" op "\",\"RESULT\":[\"" result   \
    "\"],\"TIME\":\"5\"}\n{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":\"64\",\"NAME\":\"" result        \
    "\"}\n{\"ALIAS\":\"" alias "\",\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"" result "\"}\n"
#define MUTATE(arg, op)                                                                            \
    "{\"ARGS\":[\"" arg "\"],\"INSTRUCTION\":\"MUTATE\",\"MUTATE\":[0],\"NAME\":\"" op             \
    "\",\"TIME\":\"7\"}\n"
#define COPY(dst, src) "{\"DST\":\"" dst "\",\"INSTRUCTION\":\"COPY\",\"SRC\":\"" src "\"}\n"
#define COPY_FROM(dst, src)                                                                        \
    "{\"DST\":\"" dst "\",\"INSTRUCTION\":\"COPY_FROM\",\"SRC\":\"" src "\"}\n"
#define RELEASE(name) "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"" name "\"}\n"
#define BACKWARD "{\"ANNOTATION\":\"BACKWARD\",\"INSTRUCTION\":\"ANNOTATE\"}\n"

TEST(log__reads_back_as_the_same_program)
{
    same_log("");
    same_log(CONSTANT("x1"));
    same_log(CONSTANT("x1") RELEASE("x1"));
    same_log(CONSTANT("x1") COPY("x2", "x1") RELEASE("x1") CONSTANT("x3"));
    same_log(CONSTANT("x1") CALL("x1", "view", "x2", "0") CALL("x2", "f", "x3", "-1")
                 BACKWARD RELEASE("x2") CALL("x1", "\\\"quoted\\n", "x4", "-1"));
    same_log(CONSTANT("x1") CALL("x1", "f_backward", "x2", "-1") RELEASE("x1"));
}

TEST(log__finds_where_a_name_was_rebound)
{
    /* MUTATE by an operator whose name does not say so: only the order of the pins tells */
    same_log(CONSTANT("x1") CONSTANT("x2") MUTATE("x1", "strange"));
    same_log(CONSTANT("x1") CONSTANT("x2") MUTATE("x1", "a_") MUTATE("x1", "b_")
                 MUTATE("x2", "c_"));
    same_log(CONSTANT("x1") CONSTANT("x2") COPY_FROM("x1", "x2"));
    same_log(CONSTANT("x1") CONSTANT("x2") CONSTANT("x3") COPY_FROM("x2", "x3") COPY("x4", "x1")
                 RELEASE("x1"));
    /* a CALL that only looks like MUTATE */
    same_log(CONSTANT("x1") CONSTANT("x2") CALL("x1", "f_", "x3", "-1") RELEASE("x1"));
}

TEST(log__admits_what_it_loses)
{
    struct ebb_error err;
    struct trace *t = NULL;
    char lost[2000];
    CHECK_OK(trace_make_linear(3, &t, &err), &err);
    CHECK_OK(trace_write_dtr(t, trace_kit_path, lost, sizeof lost, &err), &err);
    CHECK_STR(lost, "The log keeps every tensor that still has a handle, once per handle name; the "
                    "trace keeps others, or in another order.\n");
    t->ops[1].workspace_bytes = 100;
    t->ops[2].phase = TRACE_UPDATE;
    CHECK_OK(trace_write_dtr(t, trace_kit_path, lost, sizeof lost, &err), &err);
    CHECK(strstr(lost, "1 ops use workspace") != NULL);
    CHECK(strstr(lost, "1 ops change their phase") != NULL);
    char tiny[10];
    CHECK_OK(trace_write_dtr(t, trace_kit_path, tiny, sizeof tiny, &err), &err);
    CHECK_EQ(strlen(tiny), 9);
    CHECK_OK(trace_write_dtr(t, trace_kit_path, NULL, 0, &err), &err);
    trace_destroy(t);
}

TEST(log__copies_what_is_written_in_place)
{
    struct ebb_error err;
    struct trace_builder *b = NULL;
    struct trace *t = NULL, *back = NULL;
    uint32_t w = 0, v = 0;
    char lost[2000];
    struct trace_output fresh = {.bytes = 64}, written = {.alias = TRACE_MUTATE};
    struct trace_op_desc leaf = {.kind_name = "constant",
                                 .outputs = &fresh,
                                 .output_count = 1,
                                 .partner = TRACE_NONE,
                                 .is_leaf = true};
    struct trace_op_desc step = {.kind_name = "step",
                                 .cost_ns = 3,
                                 .inputs = &w,
                                 .input_count = 1,
                                 .outputs = &written,
                                 .output_count = 1,
                                 .partner = TRACE_NONE};
    CHECK_OK(trace_builder_create(&b, &err), &err);
    CHECK_OK(trace_builder_op(b, &leaf, &w, &err), &err);
    CHECK_OK(trace_builder_command(b, TRACE_PIN, w, &err), &err);
    CHECK_OK(trace_builder_op(b, &step, &v, &err), &err);
    CHECK_OK(trace_builder_command(b, TRACE_RELEASE, w, &err), &err);
    CHECK_OK(trace_builder_command(b, TRACE_PIN, v, &err), &err);
    CHECK_OK(trace_builder_finish(b, "in place", &t, &err), &err);
    trace_builder_destroy(b);
    CHECK_OK(trace_write_dtr(t, trace_kit_path, lost, sizeof lost, &err), &err);
    CHECK_STR(lost, "1 ops write in place; in the log they make a copy.\n");
    CHECK_OK(trace_load(trace_kit_path, TRACE_FORMAT_DTR, &back, &err), &err);
    CHECK_EQ(back->storage_count, 2);
    CHECK_EQ(back->storages[1].bytes, 64);
    CHECK_EQ(back->command_count, t->command_count);
    trace_destroy(back);
    trace_destroy(t);
}

static enum ebb_status write_log(void *trace)
{
    return trace_write_dtr(trace, trace_kit_path, NULL, 0, NULL);
}

TEST(log__survives_every_failing_allocation)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_make_linear(8, &t, &err), &err);
    torture(write_log, t, 1000);
    trace_destroy(t);
}

TEST(recorded_logs__read_back_the_same)
{
    static const char *const names[] = {"resnet32", "unet", "transformer", "unroll_gan"};
    if (access(SIMRD "resnet32.log", R_OK) != 0) {
        print_message("SKIPPED: %s is absent\n", SIMRD);
        skip();
    }
    for (size_t i = 0; i < 4; i++) {
        char log[500];
        struct ebb_error err;
        struct trace *t = NULL;
        snprintf(log, sizeof log, SIMRD "%s.log", names[i]);
        CHECK_OK(trace_load(log, TRACE_FORMAT_AUTO, &t, &err), &err);
        expect_same(t, "");
        trace_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(log__reads_back_as_the_same_program),
        RUN(log__finds_where_a_name_was_rebound),
        RUN(log__admits_what_it_loses),
        RUN(log__copies_what_is_written_in_place),
        RUN(log__survives_every_failing_allocation),
        RUN(recorded_logs__read_back_the_same),
    };
    return cmocka_run_group_tests(tests, trace_kit_make_path, trace_kit_drop_path);
}
