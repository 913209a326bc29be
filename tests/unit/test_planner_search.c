/* Exchanges on random traces: what a search believes of its schedule is what the schedule is, though most
 * of what it looks at it remembers. */
#include "test.h"

#include <string.h>

#include "base/heap.h"
#include "planner/search.c" /* what it foresees is its own */

#define MOST_OPS 400

static struct trace *make_trace(const struct trace_shape *shape, uint64_t seed)
{
    bool doubles = strcmp(shape->name, "tree") == 0 || strcmp(shape->name, "unet") == 0;
    uint32_t layers = doubles ? 4 : 12;
    struct trace_synth synth = {.layers = layers,
                                .ops = layers,
                                .bytes = 1 << 16,
                                .weight_bytes = 1 << 12,
                                .cost_ns = 1000,
                                .seed = seed,
                                .spread = 0.8,
                                .has_multi_output = seed % 2 == 1};
    struct ebb_error err;
    struct trace *trace = NULL;
    CHECK_OK(trace_shape_make(shape, &synth, &trace, &err), &err);
    return trace;
}

static void check_beliefs(struct planner_search *s, struct planner_eval *ev)
{
    struct planner_stage *stages = ebb_calloc(s->sched.stages + 1, sizeof *stages);
    uint64_t excess = 0;
    uint64_t believed = s->cost;
    CHECK(planner_sched_eval(ev, &s->sched, stages));
    CHECK_EQ(believed, s->sched.cost);
    for (uint32_t t = 0; t < s->sched.stages; t++) {
        CHECK_EQ(s->stages[t].cost, stages[t].cost);
        CHECK_EQ(s->stages[t].peak, stages[t].peak);
        CHECK_EQ(s->row_bytes[t], planner_row_bytes(s->graph, planner_row(&s->sched, t)));
        excess += stages[t].peak > s->budget ? stages[t].peak - s->budget : 0;
    }
    for (uint32_t t = 0; t <= s->sched.stages; t++) {
        uint64_t hash = 0;
        for (uint32_t i = 0; i < s->graph->item_count; i++)
            hash ^= planner_bit(planner_row(&s->sched, t), i) ? s->item_hash[i] : 0;
        CHECK(hash == s->row_hash[t]);
    }
    CHECK_EQ(excess, s->excess);
    if (s->has_best) {
        believed = s->best.cost;
        CHECK(planner_sched_eval(ev, &s->best, NULL));
        CHECK_EQ(believed, s->best.cost);
        CHECK(s->best.peak <= s->budget);
    }
    ebb_free(stages);
}

/* Every flip is what was foreseen of it, the second time from memory. */
static void check_foresight(struct planner_search *s)
{
    for (uint32_t m = 0; m < s->movable_count; m++)
        for (uint32_t t = 1; t < s->sched.stages; t += 3) {
            struct flip seen, done;
            if (!find_gap(s, s->movable[m], t, &seen))
                continue;
            uint64_t excess = s->excess;
            bool is_valid = foresee(s, &seen);
            done = seen;
            CHECK_EQ(foresee(s, &done), is_valid);
            CHECK_EQ(try_flip(s, &done), is_valid);
            if (!is_valid)
                continue;
            CHECK_EQ(done.cost, seen.cost);
            CHECK_EQ(done.excess, seen.excess);
            undo_flip(s, &done, excess);
        }
}

/* Whether there was room. */
static bool search_one(const struct trace *trace, double ratio)
{
    struct planner_graph *graph = NULL;
    struct planner_request request;
    struct planner_search s;
    struct planner_job job;
    struct ebb_error err;
    CHECK_OK(planner_graph_create(trace, true, &graph, &err), &err);
    planner_request_init(&request);
    request.budget_bytes = (uint64_t)((double)graph->no_remat_peak * ratio);
    request.time_limit_s = 1e9;
    CHECK_OK(planner_job_init(&job, graph, &request, &err), &err);
    CHECK_OK(planner_search_init(&s, &job.ev, job.budget, 1, &err), &err);
    planner_sched_keep_all(&job.trial);
    planner_sched_close(&job.ev, &job.trial);
    CHECK(planner_search_from(&s, &job.trial));
    check_foresight(&s);
    check_beliefs(&s, &job.ev);
    bool is_fit = planner_search_repair(&s, &job);
    check_beliefs(&s, &job.ev);
    if (is_fit) {
        check_foresight(&s);
        planner_search_fill(&s, &job);
        check_beliefs(&s, &job.ev);
        planner_search_polish(&s, &job);
        check_beliefs(&s, &job.ev);
        check_foresight(&s);
        planner_search_anneal(&s, 500, 1, &job);
        check_beliefs(&s, &job.ev);
        planner_search_iterate(&s, 1, &job);
        check_beliefs(&s, &job.ev);
    }
    planner_search_fini(&s);
    planner_job_fini(&job);
    planner_graph_destroy(graph);
    return is_fit;
}

TEST(search__believes_what_is)
{
    static const double ratios[] = {0.9, 0.75, 0.6};
    size_t searched = 0;
    for (size_t i = 0; i < trace_shape_count; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct trace *trace = make_trace(&trace_shapes[i], seed);
            for (size_t r = 0; trace->op_count <= MOST_OPS && r < sizeof ratios / sizeof *ratios;
                 r++)
                searched += search_one(trace, ratios[r]);
            trace_destroy(trace);
        }
    CHECK(searched >= 20);
}

TEST_MAIN()
