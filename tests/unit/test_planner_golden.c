/* The published strategies and proven optima on small graphs, row by row (tests/golden/checkmate;
 * the whole folder is run by `ebb dev checkmate`). */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "base/doc.h"
#include "planner/planner.h"

static const char *const graphs[] = {"unit_linear_4", "unit_linear_8", "weighted_linear_8_s1",
                                     "randdag10_s1", "unet2_b8_flops"};

struct file {
    struct ebb_arena arena;
    const struct ebb_doc_node *head, *rows;
    struct trace *trace;
};

static void file_open(struct file *f, const char *folder, const char *list, const char *name)
{
    struct ebb_error err;
    char path[512];
    ebb_arena_init(&f->arena);
    snprintf(path, sizeof path, "%s/tests/golden/checkmate/%s/%s.json", EBB_SOURCE_DIR, folder,
             name);
    CHECK_OK(ebb_doc_load(&f->arena, path, &f->head, &err), &err);
    snprintf(path, sizeof path, "%s/tests/golden/checkmate/graphs/%s.json", EBB_SOURCE_DIR, name);
    CHECK_OK(trace_load(path, TRACE_FORMAT_GRAPH, &f->trace, &err), &err);
    f->rows = ebb_doc_get(f->head, list);
    CHECK(f->rows != NULL);
}

static void file_close(struct file *f)
{
    trace_destroy(f->trace);
    ebb_arena_fini(&f->arena);
}

static size_t order_of(const struct ebb_doc_node *head, const char *key, uint32_t *order)
{
    const struct ebb_doc_node *list = ebb_doc_get(head, key);
    for (size_t i = 0; i < list->count; i++)
        order[i] = (uint32_t)list->items[i]->integer;
    return list->count;
}

static void check_strategy(const struct file *f, const struct ebb_doc_node *row)
{
    const char *name = ebb_doc_string(row, "strategy", "");
    struct planner_request request;
    struct planner_result result;
    struct ebb_error err;
    uint32_t order[64], forward[64];
    planner_request_init(&request);
    request.params.order = order;
    request.params.order_count =
        order_of(f->head,
                 strstr(name, "NOAP") ? "checkpoint_set_all_iteration_order"
                                      : "checkpoint_set_iteration_order",
                 order);
    request.params.forward_order = forward;
    request.params.forward_order_count = order_of(f->head, "topological_order_fwd", forward);
    request.params.segment_bytes = ebb_doc_double(row, "b_min", NAN);
    request.params.slots = (int32_t)ebb_doc_int(row, "slots", -1);
    CHECK(planner_find(name) != NULL);
    CHECK_OK(planner_run(planner_find(name), f->trace, &request, &result, &err), &err);
    CHECK_EQ(result.status, PLANNER_OK);
    CHECK_EQ(result.cost, ebb_doc_int(row, "cost", -1));
    CHECK_EQ(result.peak_bytes, ebb_doc_int(row, "activation_peak", -1));
    planner_result_fini(&result);
}

TEST(strategies__equal_the_published_rows)
{
    size_t checked = 0;
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        struct file f;
        file_open(&f, "strategies", "strategies", graphs[g]);
        for (size_t i = 0; i < f.rows->count; i++)
            if (strcmp(ebb_doc_string(f.rows->items[i], "strategy", ""), "SIMRD") != 0) {
                check_strategy(&f, f.rows->items[i]);
                checked++;
            }
        file_close(&f);
    }
    CHECK(checked > 150);
}

/* Exact mode on rows whose optimum is proven. */
static void check_optimum(const struct file *f, const struct ebb_doc_node *row)
{
    const struct ebb_doc_node *full = ebb_doc_get(row, "full");
    const char *status = ebb_doc_string(full, "status", "");
    struct planner_request request;
    struct planner_result result;
    struct ebb_error err;
    planner_request_init(&request);
    request.gap = 0;
    request.time_limit_s = 60;
    request.budget_bytes = (uint64_t)ebb_doc_int(row, "budget", 0);
    CHECK_OK(planner_run(planner_find("best"), f->trace, &request, &result, &err), &err);
    if (strcmp(status, "infeasible") == 0) {
        CHECK_EQ(result.status, PLANNER_INFEASIBLE);
    } else {
        CHECK_EQ(result.status, PLANNER_OK);
        CHECK_EQ(result.cost, ebb_doc_int(full, "cost", -1));
        CHECK(result.lower_bound <= (double)result.cost);
        CHECK(result.peak_bytes <= request.budget_bytes);
    }
    planner_result_fini(&result);
}

TEST(best__reaches_proven_optima)
{
    for (size_t g = 0; g < 4; g++) {
        struct file f;
        file_open(&f, "optimum", "results", graphs[g]);
        for (size_t i = 0; i < f.rows->count; i++) {
            const char *status =
                ebb_doc_string(ebb_doc_get(f.rows->items[i], "full"), "status", "");
            if (strcmp(status, "optimal") == 0 || strcmp(status, "infeasible") == 0)
                check_optimum(&f, f.rows->items[i]);
        }
        file_close(&f);
    }
}

TEST(lp__bounds_equal_the_reference)
{
    struct file f;
    struct planner_facts facts;
    struct ebb_error err;
    file_open(&f, "optimum", "results", "randdag10_s1");
    CHECK_OK(planner_facts_compute(f.trace, &facts, &err), &err);
    CHECK_EQ(facts.no_remat_peak, ebb_doc_int(f.head, "no_recompute_peak", 0));
    CHECK_EQ(facts.max_in_out, ebb_doc_int(f.head, "max_in_out_bytes", 0));
    for (size_t i = 0; i < f.rows->count; i++) {
        const struct ebb_doc_node *row = f.rows->items[i];
        double bound, seconds, want = ebb_doc_double(row, "published_lp_overhead", NAN);
        CHECK_OK(planner_lp_bound(f.trace, (uint64_t)ebb_doc_int(row, "budget", 0),
                                  PLANNER_MODEL_PUBLISHED, 60, &bound, &seconds, &err),
                 &err);
        CHECK(fabs(bound / (double)facts.base_cost - want) < 2e-6);
        want = ebb_doc_double(ebb_doc_get(row, "full"), "lp_root", NAN);
        CHECK_OK(planner_lp_bound(f.trace, (uint64_t)ebb_doc_int(row, "budget", 0),
                                  PLANNER_MODEL_FLOW, 60, &bound, &seconds, &err),
                 &err);
        CHECK(isnan(want) || fabs(bound / (double)facts.base_cost - want) < 2e-6);
    }
    file_close(&f);
}

TEST(table__names_are_unique_and_found)
{
    for (size_t i = 0; i < planner_count; i++) {
        CHECK(planner_find(planner_table[i].name) == &planner_table[i]);
        for (const char *const *a = planner_table[i].aliases; a && *a; a++)
            CHECK(planner_find(*a) == &planner_table[i]);
    }
    CHECK(planner_find("nonsense") == NULL);
}

TEST_MAIN()
