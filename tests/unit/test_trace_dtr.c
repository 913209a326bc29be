/* The DTR log reader: every instruction, every refusal, and the recorded logs against their golden
 * counts. */
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>
#include "test.h"
#include "torture.h"

#include "base/doc.h"
#include "base/heap.h"
#include "trace/trace.h"

#define SIMRD EBB_SOURCE_DIR "/../shared/data/simrd/"

static struct trace *read_log(const char *text)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_read_dtr("log", text, strlen(text), &t, &err), &err);
    return t;
}

static void refuse(const char *text, const char *message)
{
    struct ebb_error err;
    struct trace *t = NULL;
    uint64_t before = ebb_heap_live();
    enum ebb_status status = trace_read_dtr("log", text, strlen(text), &t, &err);
    if (status != EBB_EINPUT || strstr(err.message, message) == NULL)
        fail_msg("expected \"%s\", got %d \"%s\"", message, (int)status,
                 status == EBB_OK ? "" : err.message);
    CHECK_EQ(ebb_heap_live(), before);
}

/* Commands as text: R0 = run op 0, +0 get, -0 release, !0 pin tensor 0. */
static const char *commands(const struct trace *t, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < t->command_count && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%s%c%u", i > 0 ? " " : "",
                                 "R+-!"[t->commands[i].kind], (unsigned)t -> commands[i].index);
    return buf;
}

static void expect_commands(const char *log, const char *wanted)
{
    char text[1000];
    struct trace *t = read_log(log);
    CHECK_STR(commands(t, text, sizeof text), wanted);
    trace_destroy(t);
}

#define CONSTANT(name, bytes)                                                                      \
    "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"" name "\"}\n"                                       \
    "{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":\"" bytes "\",\"NAME\":\"" name "\"}\n"
#define RESULT(name, bytes, alias)                                                                 \
    "{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":\"" bytes "\",\"NAME\":\"" name "\"}\n"                \
    "{\"ALIAS\":\"" alias "\",\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"" name "\"}\n"
#define CALL(args, op, results, time)                                                              \
    "{\"ARGS\":[" args "],\"INSTRUCTION\":\"CALL\",\"NAME\":\"" op "\",\"RESULT\":[" results       \
    "],\"TIME\":\"" time "\"}\n"
#define MUTATE(args, op, indices, time)                                                            \
    "{\"ARGS\":[" args "],\"INSTRUCTION\":\"MUTATE\",\"MUTATE\":[" indices "],\"NAME\":\"" op      \
    "\",\"TIME\":\"" time "\"}\n"
#define COPY(dst, src) "{\"DST\":\"" dst "\",\"INSTRUCTION\":\"COPY\",\"SRC\":\"" src "\"}\n"
#define COPY_FROM(dst, src)                                                                        \
    "{\"DST\":\"" dst "\",\"INSTRUCTION\":\"COPY_FROM\",\"SRC\":\"" src "\"}\n"
#define RELEASE(name) "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"" name "\"}\n"
#define ANNOTATE(text) "{\"ANNOTATION\":\"" text "\",\"INSTRUCTION\":\"ANNOTATE\"}\n"

TEST(constant__runs_a_leaf_and_pins_it)
{
    struct trace *t = read_log(CONSTANT("x1", "64"));
    char text[100];
    CHECK_STR(commands(t, text, sizeof text), "R0 !0 !0");
    CHECK_STR(t->ops[0].kind->name, "constant");
    CHECK_EQ(t->ops[0].is_leaf, 1);
    CHECK_EQ(t->storages[0].bytes, 64);
    trace_destroy(t);
}

TEST(copy__gets_and_pins_every_name_of_a_live_tensor)
{
    /* x1 is released, but its name stays in the map and its tensor lives through x2 */
    expect_commands(CONSTANT("x1", "64") COPY("x2", "x1") RELEASE("x1"), "R0 !0 +0 -0 !0 !0");
    expect_commands(CONSTANT("x1", "64") RELEASE("x1"), "R0 !0 -0");
}

TEST(call__has_views_and_several_results)
{
    struct trace *t = read_log(CONSTANT("x1", "64") CALL("\"x1\",\"x1\"", "f", "\"x2\",\"x3\"", "9")
                                   RESULT("x2", "64", "1") RESULT("x3", "12", "-1"));
    CHECK_EQ(t->op_count, 2);
    CHECK_EQ(t->ops[1].cost_ns, 9);
    CHECK_EQ(t->ops[1].input_count, 2);
    CHECK_EQ(t->tensors[1].alias, TRACE_VIEW);
    CHECK_EQ(t->tensors[1].alias_input, 1);
    CHECK_EQ(t->tensors[1].storage, 0);
    CHECK_EQ(t->tensors[2].alias, TRACE_FRESH);
    CHECK_EQ(t->storage_count, 2);
    CHECK_EQ(t->storages[1].bytes, 12);
    char text[100];
    CHECK_STR(commands(t, text, sizeof text), "R0 !0 R1 !0 !1 !2");
    trace_destroy(t);
}

TEST(mutate__copies_on_write_and_rebinds_only_the_argument)
{
    /* x3 is a view of x1: the copy has the size of the whole storage; x2 keeps the old value; x1
     * keeps its place */
    struct trace *t =
        read_log(CONSTANT("x1", "64") COPY("x2", "x1") CALL("\"x1\"", "view", "\"x3\"", "1")
                     RESULT("x3", "64", "0") MUTATE("\"x1\",\"x3\"", "add_", "0,1", "7"));
    CHECK_EQ(t->op_count, 3);
    CHECK_EQ(t->ops[2].kind->purity, TRACE_PURE);
    CHECK_EQ(t->ops[2].output_count, 2);
    CHECK_EQ(t->tensors[2].alias, TRACE_FRESH);
    CHECK_EQ(t->storages[1].bytes, 64);
    CHECK_EQ(t->storages[2].bytes, 64);
    char text[100];
    CHECK_STR(commands(t, text, sizeof text), "R0 !0 +0 R1 R2 -0 -1 !2 !0 !3");
    trace_destroy(t);
}

TEST(mutate__may_rebind_a_name_twice)
{
    expect_commands(CONSTANT("x1", "64") MUTATE("\"x1\"", "f_", "0,0", "7"), "R0 !0 R1 -0 -1 !2");
}

TEST(copy_from__moves_a_handle)
{
    expect_commands(CONSTANT("x1", "64") CONSTANT("x2", "32") COPY_FROM("x1", "x2"),
                    "R0 !0 R1 !1 -0 +1 !1 !1");
}

TEST(start__drops_everything_before_it)
{
    expect_commands("not even JSON\n" CONSTANT("x0", "8") ANNOTATE("START") CONSTANT("x1", "64")
                        RELEASE("x0") ANNOTATE("START") RELEASE("x1"),
                    "R0 !0 -0");
}

TEST(start__is_not_found_in_a_name)
{
    expect_commands(CONSTANT("START", "8") RELEASE("START"), "R0 !0 -0");
}

TEST(backward__is_set_by_annotation_or_by_name)
{
    struct trace *t = read_log(CONSTANT("x1", "8") CALL("\"x1\"", "f", "\"x2\"", "1")
                                   RESULT("x2", "8", "-1") ANNOTATE("BACKWARD")
                                       CALL("\"x1\"", "f", "\"x3\"", "1") RESULT("x3", "8", "-1"));
    CHECK_EQ(t->ops[1].phase, TRACE_FORWARD);
    CHECK_EQ(t->ops[2].phase, TRACE_BACKWARD);
    CHECK_EQ(t->backward_command, 3);
    trace_destroy(t);
    t = read_log(CONSTANT("x1", "8") CALL("\"x1\"", "relu_backward", "\"x2\"", "1") RESULT(
        "x2", "8", "-1") CALL("\"x1\"", "f", "\"x3\"", "1") RESULT("x3", "8", "-1"));
    CHECK_EQ(t->ops[0].phase, TRACE_FORWARD);
    CHECK_EQ(t->ops[1].phase, TRACE_BACKWARD);
    CHECK_EQ(t->ops[2].phase, TRACE_BACKWARD); /* the label stays */
    CHECK_EQ(t->backward_command, 2);
    trace_destroy(t);
    /* the logger calls some forward operators backward: what it says itself counts */
    t = read_log(CONSTANT("x1", "8") CALL("\"x1\"", "max_pool2d_backward", "\"x2\"", "1")
                     RESULT("x2", "8", "-1") ANNOTATE("BACKWARD") CALL("\"x1\"", "f", "\"x3\"", "1")
                         RESULT("x3", "8", "-1"));
    CHECK_EQ(t->ops[1].phase, TRACE_FORWARD);
    CHECK_EQ(t->ops[2].phase, TRACE_BACKWARD);
    CHECK_EQ(t->backward_command, 3);
    trace_destroy(t);
}

TEST(lines__may_be_spelled_freely)
{
    expect_commands("\n  {\"NAME\": \"\\u0078\\u0031\", \"extra\": [1, {\"a\": null}], "
                    "\"INSTRUCTION\": \"CONSTANT\"}\r\n"
                    "{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":64,\"NAME\":\"x1\"}\r\n\r\n"
                    "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"x1\"}",
                    "R0 !0 -0");
}

TEST(names__may_be_anything)
{
    expect_commands(CONSTANT("x9", "1") CONSTANT("x09", "2") CONSTANT("x", "3") CONSTANT("", "4")
                        CONSTANT("x1", "5") CONSTANT("x999999999999999999", "6")
                            CONSTANT("x9999999999999999999", "7") RELEASE("x09")
                                RELEASE("x999999999999999999") RELEASE("x1"),
                    "R0 !0 R1 !1 R2 !2 R3 !3 R4 !4 R5 !5 R6 !6 -1 -5 -4 !0 !2 !3 !6");
}

TEST(errors__name_file_line_and_column)
{
    refuse("{\"INSTRUCTION\":\"JUMP\"}\n", "log:1:16: unknown INSTRUCTION \"JUMP\"");
    refuse(CONSTANT("x1", "8") COPY("x2", "x3"), "log:3:40: \"x3\" is used before it is made");
    refuse(CONSTANT("x1", "8") COPY("x1", "x1"), "log:3:8: \"x1\" exists already");
    refuse(CONSTANT("x1", "8") CONSTANT("x1", "8"), "log:3:34: \"x1\" exists already");
    refuse(CONSTANT("x1", "-8"), "log:2:34: MEMORY is \"-8\"");
    refuse(CONSTANT("x1", "9223372036854775807"), "must be a whole number from 0 to 2^62");
    refuse(CONSTANT("x1", "8") RELEASE("x1") RELEASE("x1"), "log:4:33: the value of \"x1\"");
    refuse(CONSTANT("x1", "8") MUTATE("\"x1\"", "f_", "1", "1"), "MUTATE index 1, there are 1");
    refuse(CONSTANT("x1", "8") MUTATE("\"x1\"", "f_", "-1", "1"), "MUTATE index -1");
    refuse(CONSTANT("x1", "8") MUTATE("\"x1\"", "f_", "", "1"), "MUTATE without an index");
    refuse(CALL("", "f", "", "1"), "CALL without a RESULT");
    refuse(CALL("", "f", "\"x1\",\"x1\"", "1"), "\"x1\" exists already");
    refuse(CALL("", "f", "\"x1\"", "1") RESULT("x1", "8", "0"), "ALIAS is \"0\"");
    refuse(CALL("", "f", "\"x1\"", "1") RESULT("x1", "8", "-2"), "ALIAS is \"-2\"");
    refuse(CALL("", "f", "\"x1\"", "1") RESULT("x2", "8", "-1"), "MEMORY of \"x2\", expected");
    refuse(CALL("", "f", "\"x1\"", "1.5"), "TIME is \"1.5\"");
    refuse(CALL("", "f", "\"x1\"", "1"), "the log ends where a MEMORY line");
    refuse(CALL("", "f", "\"x1\"", "1") RELEASE("x1"), "RELEASE where a MEMORY line is expected");
    refuse(RESULT("x1", "8", "-1"), "MEMORY where an instruction of its own");
    refuse("{\"INSTRUCTION\":\"COPY\",\"DST\":\"x1\"}\n", "log:1:1: COPY needs DST and SRC");
    refuse("{\"NAME\":\"x1\"}\n", "a line needs INSTRUCTION");
    refuse("{\"INSTRUCTION\":\"COPY\",\"INSTRUCTION\":\"COPY\"}\n", "INSTRUCTION is given twice");
    refuse("{\"INSTRUCTION\":\"CALL\",\"ARGS\":\"x\"}\n", "log:1:30: ARGS must be a list");
    refuse("{\"INSTRUCTION\":\"RELEASE\",\"NAME\":7}\n", "NAME must be text");
    refuse("[1]\n", "log:1:1: a line must be one JSON object");
    refuse("{} {}\n", "log:1:");
    refuse("garbage\n", "log:1:1");
}

static enum ebb_status read_once(void *log)
{
    struct trace *t = NULL;
    enum ebb_status status = trace_read_dtr("log", log, strlen(log), &t, NULL);
    trace_destroy(t);
    return status;
}

TEST(reader__survives_every_failing_allocation)
{
    static char log[] = ANNOTATE("START") CONSTANT("x1", "64") CONSTANT("weird", "8") CONSTANT(
        "x99999999", "8") COPY("x2", "x1") CALL("\"x1\",\"weird\"", "f", "\"x3\",\"x4\"", "9")
        RESULT("x3", "64", "1") RESULT("x4", "12", "-1") MUTATE("\"x3\"", "relu_", "0", "1")
            COPY_FROM("x2", "x4") "{\"INSTRUCTION\": \"RELEASE\", \"NAME\": \"\\u0078\\u0034\"}\n";
    torture(read_once, log, 1000);
}

static void check_model(const struct ebb_doc_node *model)
{
    char path[500];
    snprintf(path, sizeof path, SIMRD "%s", ebb_doc_string(model, "log", "?"));
    const struct ebb_doc_node *b = ebb_doc_get(model, "baseline");
    struct ebb_error err;
    struct trace *t = NULL;
    struct trace_stats s;
    CHECK_OK(trace_load(path, TRACE_FORMAT_AUTO, &t, &err), &err);
    CHECK_OK(trace_stats_compute(t, &s, &err), &err);
    CHECK_EQ(t->command_count, ebb_doc_int(b, "n_schedule", -1));
    CHECK_EQ(t->op_count, ebb_doc_int(b, "n_compute_ops", -1));
    CHECK_EQ(t->tensor_count, ebb_doc_int(b, "n_tensors", -1));
    CHECK_EQ(t->storage_count, ebb_doc_int(b, "n_storages", -1));
    CHECK_EQ(s.leaf_count, ebb_doc_int(b, "n_const", -1));
    CHECK_EQ(s.get_count, ebb_doc_int(b, "n_get", -1));
    CHECK_EQ(s.pin_count, ebb_doc_int(b, "n_pin", -1));
    CHECK_EQ(s.release_count, ebb_doc_int(b, "n_release", -1));
    CHECK_EQ(s.baseline_bytes, ebb_doc_int(b, "baseline_memory", -1));
    CHECK_EQ(s.base_ns, ebb_doc_int(b, "baseline_compute", -1));
    CHECK_EQ(s.leaf_bytes, ebb_doc_int(b, "baseline_const", -1));
    CHECK_EQ(s.bottleneck_bytes, ebb_doc_int(b, "baseline_bottleneck", -1));
    CHECK_EQ(s.keep_bytes, ebb_doc_int(b, "final_memory", -1));
    trace_destroy(t);
}

TEST(recorded_logs__equal_their_golden_counts)
{
    if (access(SIMRD "golden.json", R_OK) != 0) {
        print_message("SKIPPED: %s is absent\n", SIMRD "golden.json");
        skip();
    }
    struct ebb_error err;
    struct ebb_arena arena;
    const struct ebb_doc_node *golden = NULL;
    ebb_arena_init(&arena);
    CHECK_OK(ebb_doc_load(&arena, SIMRD "golden.json", &golden, &err), &err);
    const struct ebb_doc_node *models = ebb_doc_get(golden, "models");
    CHECK_EQ(models->count, 4);
    for (size_t i = 0; i < models->count; i++)
        check_model(models->items[i]);
    ebb_arena_fini(&arena);
}

TEST_MAIN()
