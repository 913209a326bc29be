/* `best` is never above another planner or policy: a slice of what bench_plan_best looks at. */
#include "test.h"

#include "planner_rivals.h"

static void check_budgets(const struct trace *trace, const double *ratios, size_t count,
                          size_t *compared)
{
    struct planner_facts facts;
    struct ebb_error err;
    CHECK_OK(planner_facts_compute(trace, &facts, &err), &err);
    for (size_t k = 0; k < count; k++) {
        struct planner_request request;
        struct rivals r;
        planner_request_init(&request);
        request.budget_bytes = (uint64_t)((double)facts.no_remat_peak * ratios[k]);
        request.time_limit_s = 5;
        CHECK_OK(rivals_run(trace, &request, facts.node_count <= 20, &r, &err), &err);
        /* With sanitizers five seconds are a tenth of what they are without: what they cut off is
         * not held to the others. */
        bool is_cut = TEST_IS_SANITIZED && r.seconds >= request.time_limit_s;
        if (r.above > 0 && !is_cut)
            fail_msg("%.2f: best %llu, %s %llu", ratios[k], (unsigned long long)r.best, r.name,
                     (unsigned long long)r.cheapest);
        *compared += r.compared;
    }
}

TEST(best__is_not_above_others_on_traces)
{
    static const double ratios[] = {0.85, 0.55};
    static const char *const shapes[] = {"chain", "unet",   "transformer",
                                         "lstm",  "resnet", "random"};
    size_t compared = 0;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct trace_synth synth = {.layers = 3,
                                    .ops = 40,
                                    .bytes = 1 << 16,
                                    .weight_bytes = 1 << 12,
                                    .cost_ns = 1000,
                                    .seed = 5 + k,
                                    .spread = 0.7};
        struct ebb_error err;
        struct trace *trace = NULL;
        for (size_t i = 0; i < trace_shape_count; i++)
            if (strcmp(trace_shapes[i].name, shapes[k]) == 0)
                CHECK_OK(trace_shape_make(&trace_shapes[i], &synth, &trace, &err), &err);
        CHECK(trace != NULL);
        check_budgets(trace, ratios, 2, &compared);
        trace_destroy(trace);
    }
    CHECK(compared > 70);
}

TEST(best__is_not_above_others_on_graphs)
{
    static const double ratios[] = {0.9, 0.6};
    static const char *const graphs[] = {"unit_linear_8", "weighted_linear_8_s1", "randdag10_s1",
                                         "linear8_b32_flops", "vgg16_b256_flops"};
    size_t compared = 0;
    for (size_t k = 0; k < sizeof graphs / sizeof *graphs; k++) {
        char path[512];
        struct trace *trace = NULL;
        struct ebb_error err;
        snprintf(path, sizeof path, "%s/tests/golden/checkmate/graphs/%s.json", EBB_SOURCE_DIR,
                 graphs[k]);
        CHECK_OK(trace_load(path, TRACE_FORMAT_GRAPH, &trace, &err), &err);
        check_budgets(trace, ratios, 2, &compared);
        trace_destroy(trace);
    }
    CHECK(compared > 60);
}

TEST_MAIN()
