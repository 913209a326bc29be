/* The reader of training graphs (Checkmate's sense). */
#include <dirent.h>
#include <stdlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>
#include "test.h"
#include "torture.h"

#include "base/doc.h"
#include "base/heap.h"
#include "trace/trace.h"

#define GRAPHS EBB_SOURCE_DIR "/tests/golden/checkmate/graphs/"

/* f0 -> f1 -> loss -> b1(f1, loss) -> b0(f0, b1), with a gradient g nobody reads in place of b0's
 * reader */
static const char five[] =
    "{\"name\": \"five\", \"n\": 5, \"n_fwd\": 2, \"loss\": 2, \"fixed_bytes\": 77, \"sum_cost\": "
    "15,\n"
    "\"nodes\":[\n"
    "{\"id\": 0, \"name\": \"a\", \"kind\": \"fwd\", \"cost\": 1, \"mem\": 10, \"deps\": []},\n"
    "{\"id\": 1, \"name\": \"b\", \"kind\": \"fwd\", \"cost\": 2, \"mem\": 20, \"deps\": [0]},\n"
    "{\"id\": 2, \"name\": \"loss\", \"kind\": \"loss\", \"cost\": 3, \"mem\": 4, \"deps\": [1]},\n"
    "{\"id\": 3, \"name\": \"gb\", \"kind\": \"bwd\", \"cost\": 4, \"mem\": 20, \"deps\": [1, "
    "2]},\n"
    "{\"id\": 4, \"name\": \"ga\", \"kind\": \"bwd\", \"cost\": 5, \"mem\": 10, \"deps\": [0, 3]}\n"
    "]}\n";

TEST(graph__becomes_one_op_per_node)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_read_graph("g", five, sizeof five - 1, &t, &err), &err);
    CHECK_STR(t->name, "five");
    CHECK(t->is_graph);
    CHECK_EQ(t->graph_fixed_bytes, 77);
    CHECK_EQ(t->op_count, 5);
    CHECK_STR(t->ops[3].kind->name, "bwd");
    CHECK_STR(trace_label(t, &t->ops[3]), "gb");
    CHECK_EQ(t->ops[3].partner, 1);
    CHECK_EQ(t->ops[4].partner, 0);
    CHECK_EQ(t->ops[2].partner, TRACE_NONE);
    CHECK_EQ(t->ops[2].phase, TRACE_FORWARD);
    CHECK_EQ(t->ops[3].phase, TRACE_BACKWARD);
    CHECK_EQ(t->ops[0].is_leaf, 0);
    CHECK_EQ(t->storages[3].bytes, 20);
    struct trace_stats s;
    CHECK_OK(trace_stats_compute(t, &s, &err), &err);
    CHECK_EQ(s.base_ns, 15);
    CHECK_EQ(s.baseline_bytes, 54);
    CHECK_EQ(s.keep_bytes, 0);
    trace_destroy(t);
}

TEST(graph__releases_each_output_after_its_last_reader)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_read_graph("g", five, sizeof five - 1, &t, &err), &err);
    static const int wanted[] = {0, 1, 2, 3, -1, -2, 4, -10, -3, -4}; /* -10 releases 0 */
    CHECK_EQ(t->command_count, 10);
    for (size_t i = 0; i < 10; i++) {
        CHECK_EQ(t->commands[i].kind, wanted[i] < 0 ? TRACE_RELEASE : TRACE_RUN);
        CHECK_EQ(t->commands[i].index, wanted[i] == -10 ? 0 : abs(wanted[i]));
    }
    CHECK_EQ(t->backward_command, 3);
    trace_destroy(t);
}

TEST(graph__releases_once_what_is_listed_twice)
{
    char text[2000];
    const char *find = "\"deps\": [1, 2]", *at = strstr(five, find);
    int n = snprintf(text, sizeof text, "%.*s\"deps\": [1, 2, 1]%s", (int)(at - five), five,
                     at + strlen(find));
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_read_graph("g", text, (size_t)n, &t, &err), &err);
    CHECK_EQ(t->ops[3].input_count, 3);
    CHECK_EQ(t->command_count, 10);
    trace_destroy(t);
}

static void refuse(const char *find, const char *replace, const char *message)
{
    char text[2000];
    const char *at = strstr(five, find);
    CHECK(at != NULL);
    int n =
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - five), five, replace, at + strlen(find));
    struct ebb_error err;
    struct trace *t = NULL;
    uint64_t before = ebb_heap_live();
    enum ebb_status status = trace_read_graph("g", text, (size_t)n, &t, &err);
    if (status != EBB_EINPUT || strstr(err.message, message) == NULL)
        fail_msg("expected \"%s\", got %d \"%s\"", message, (int)status,
                 status == EBB_OK ? "" : err.message);
    CHECK_EQ(ebb_heap_live(), before);
}

TEST(errors__name_file_line_and_column)
{
    refuse("\"n\": 5", "\"n\": 6", "g:1:23: \"n\" is 6, there are 5 nodes");
    refuse("\"n\": 5, ", "", "g:1:1: \"n\" is missing");
    refuse("\"n_fwd\": 2", "\"n_fwd\": 3", "n must be 2 n_fwd + 1");
    refuse("\"sum_cost\": 15", "\"sum_cost\": 14", "the nodes cost 15 together");
    refuse("\"mem\": 20", "\"mem\": -20", "g:4:57: \"mem\" must be a whole number");
    refuse("\"cost\": 2", "\"cost\": 2.5", "\"cost\" must be a whole number");
    refuse("\"cost\": 2", "\"cost\": \"2\"", "not a string");
    refuse("\"deps\": [0]", "\"deps\": [1]", "g:4:70: node 1 may depend on nodes 0 to 0 only");
    refuse("\"deps\": [1]", "\"deps\": [\"f\"]", "node 2 may depend on");
    refuse("\"deps\": [1]", "\"dep\": [1]", "node 2 needs a list \"deps\"");
    refuse("\"kind\": \"loss\"", "\"kind\": \"fwd\"", "must be \"loss\"");
    refuse("\"id\": 1", "\"id\": 2", "nodes stand in order of id");
    refuse("\"name\": \"a\"", "\"name\": 4", "\"name\" of node 0 must be text");
    refuse("\"nodes\":[", "\"nodez\":[", "needs a list \"nodes\"");
    refuse("{\"name\"", "[{\"name\"", "g:");
}

static enum ebb_status read_five(void *context)
{
    struct trace *t = NULL;
    (void)context;
    enum ebb_status status = trace_read_graph("g", five, sizeof five - 1, &t, NULL);
    trace_destroy(t);
    return status;
}

TEST(graph__survives_every_failing_allocation)
{
    torture(read_five, NULL, 1000);
}

TEST(golden_graphs__are_read_whole)
{
    DIR *dir = opendir(GRAPHS);
    if (dir == NULL) {
        print_message("SKIPPED: %s is absent\n", GRAPHS);
        skip();
    }
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strstr(entry->d_name, ".json") == NULL)
            continue;
        char path[600];
        struct ebb_error err;
        struct trace *t = NULL;
        snprintf(path, sizeof path, GRAPHS "%s", entry->d_name);
        CHECK_OK(trace_load(path, TRACE_FORMAT_AUTO, &t, &err), &err);
        CHECK(t->is_graph);
        CHECK_EQ(t->op_count % 2, 1);
        /* every handle is dropped: RUN and RELEASE once per node */
        CHECK_EQ(t->command_count, 2 * t->op_count);
        trace_destroy(t);
        count++;
    }
    closedir(dir);
    CHECK(count >= 30);
}

/* The least peak without recomputation, and the largest inputs + output of one node, as another
 * program found them. */
TEST(golden_optima__agree_on_peak_and_working_set)
{
    static const char *const folders[] = {EBB_SOURCE_DIR "/tests/golden/checkmate/optimum/",
                                          EBB_SOURCE_DIR "/../shared/data/checkmate/optimum/"};
    const char *folder = access(folders[0], R_OK) == 0 ? folders[0] : folders[1];
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        print_message("SKIPPED: %s is absent\n", folder);
        skip();
    }
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strstr(entry->d_name, ".json") == NULL)
            continue;
        char optimum[600], graph[600];
        struct ebb_error err;
        struct ebb_arena arena;
        struct trace *t = NULL;
        struct trace_stats s;
        const struct ebb_doc_node *golden = NULL;
        snprintf(optimum, sizeof optimum, "%s%s", folder, entry->d_name);
        snprintf(graph, sizeof graph, GRAPHS "%s", entry->d_name);
        ebb_arena_init(&arena);
        CHECK_OK(ebb_doc_load(&arena, optimum, &golden, &err), &err);
        CHECK_OK(trace_load(graph, TRACE_FORMAT_GRAPH, &t, &err), &err);
        CHECK_OK(trace_stats_compute(t, &s, &err), &err);
        CHECK_EQ(s.baseline_bytes, ebb_doc_int(golden, "no_recompute_peak", -1));
        CHECK_EQ(s.working_bytes, ebb_doc_int(golden, "max_in_out_bytes", -1));
        trace_destroy(t);
        ebb_arena_fini(&arena);
        count++;
    }
    closedir(dir);
    CHECK(count > 0);
}

TEST_MAIN()
