/* Exact mode against exhaustive search: random training graphs of at most nine nodes, all budgets
 * that matter.
 *
 * The oracle shares no code with the planner: a shortest path over (stage, set of tensors kept into
 * it), each transition simulated by the rules of the published evaluator. */
#include "test.h"

#include <stdio.h>

#include "base/rng.h"
#include "base/heap.h"
#include "base/str.h"
#include "planner/cuts.h"
#include "planner/planner.h"

#define MOST 9

struct small {
    unsigned n, preds[MOST]; /* nodes; bit u of preds[v]: v reads u */
    unsigned cost[MOST], size[MOST];
};

/* Forward DAG, loss, and backward nodes in the Keras convention. */
static void make_graph(struct small *g, unsigned forward, uint64_t *random)
{
    *g = (struct small){.n = 2 * forward + 1};
    for (unsigned v = 1; v < forward; v++) {
        g->preds[v] = 1u << (v - 1);
        for (unsigned u = 0; u + 1 < v; u++)
            if (ebb_splitmix64(random) % 3 == 0)
                g->preds[v] |= 1u << u;
    }
    g->preds[forward] = 1u << (forward - 1);
    for (unsigned j = 0; j < forward; j++) {
        unsigned b = g->n - 1 - j;
        g->preds[b] |= 1u << j;
        if (j == forward - 1)
            g->preds[b] |= 1u << forward;
        for (unsigned i = j + 1; i < forward; i++)
            if (g->preds[i] >> j & 1)
                g->preds[b] |= 1u << i | 1u << (g->n - 1 - i);
    }
    for (unsigned v = 0; v < g->n; v++) {
        g->cost[v] = (unsigned)(ebb_splitmix64(random) % 9);
        g->size[v] = 1 + (unsigned)(ebb_splitmix64(random) % 8);
    }
}

static struct trace *make_trace(const struct small *g, unsigned forward)
{
    struct ebb_str text;
    struct ebb_error err;
    struct trace *trace = NULL;
    unsigned sum = 0, sum_forward = 0;
    for (unsigned v = 0; v < g->n; v++) {
        sum += g->cost[v];
        sum_forward += v < forward ? g->cost[v] : 0;
    }
    ebb_str_init(&text);
    ebb_str_printf(&text,
                   "{\"name\":\"r\",\"n\":%u,\"n_fwd\":%u,\"loss\":%u,\"batch\":1,"
                   "\"cost_model\":\"unit\",\"param_bytes\":0,\"fixed_bytes\":0,"
                   "\"sum_cost\":%u,\"sum_cost_fwd\":%u,\"nodes\":[",
                   g->n, forward, forward, sum, sum_forward);
    for (unsigned v = 0; v < g->n; v++) {
        ebb_str_printf(&text, "%s{\"id\":%u,\"name\":\"v%u\",\"kind\":\"%s\",\"cost\":%u,",
                       v ? "," : "", v, v,
                       v < forward    ? "fwd"
                       : v == forward ? "loss"
                                      : "bwd",
                       g->cost[v]);
        ebb_str_printf(&text, "\"mem\":%u,\"deps\":[", g->size[v]);
        bool is_first = true;
        for (unsigned u = 0; u < v; u++)
            if (g->preds[v] >> u & 1) {
                ebb_str_printf(&text, "%s%u", is_first ? "" : ",", u);
                is_first = false;
            }
        ebb_str_add(&text, "]}");
    }
    ebb_str_add(&text, "]}");
    CHECK_OK(trace_read_graph("r", ebb_str_c(&text), text.length, &trace, &err), &err);
    ebb_str_fini(&text);
    return trace;
}

/* One stage by brute force: cost, or UINT32_MAX when it does not fit. */
static unsigned stage(const struct small *g, unsigned t, unsigned in, unsigned out, unsigned budget)
{
    unsigned run = 1u << t | (out & ~in), cost = 0, live = in;
    for (unsigned v = t + 1; v-- > 0;)
        if (run >> v & 1)
            run |= g->preds[v] & ~in;
    for (unsigned step = 0; step <= t + 1; step++) {
        unsigned needed = out; /* what anything still to run reads */
        for (unsigned v = step; v <= t; v++)
            if (run >> v & 1)
                needed |= g->preds[v];
        live &= needed;
        if (step > t || !(run >> step & 1))
            continue;
        live |= 1u << step;
        cost += g->cost[step];
        unsigned bytes = 0;
        for (unsigned i = 0; i < g->n; i++)
            bytes += (live >> i & 1) ? g->size[i] : 0;
        if (bytes > budget)
            return UINT32_MAX;
    }
    return cost;
}

static unsigned exhaustive(const struct small *g, unsigned budget)
{
    static unsigned best[2][1u << MOST];
    memset(best, 0xff, sizeof best);
    best[0][0] = 0;
    for (unsigned t = 0; t < g->n; t++) {
        unsigned *now = best[t % 2], *next = best[(t + 1) % 2];
        unsigned sets = t + 1 == g->n ? 1 : 1u << (t + 1);
        memset(next, 0xff, sizeof best[0]);
        for (unsigned in = 0; in < 1u << t; in++)
            for (unsigned out = 0; now[in] != UINT32_MAX && out < sets; out++) {
                unsigned cost = stage(g, t, in, out, budget);
                if (cost != UINT32_MAX && now[in] + cost < next[out])
                    next[out] = now[in] + cost;
            }
    }
    return best[g->n % 2][0];
}

static void compare(const struct small *g, struct trace *trace, unsigned budget)
{
    struct planner_request request;
    struct planner_result result;
    struct ebb_error err;
    unsigned want = exhaustive(g, budget);
    planner_request_init(&request);
    request.budget_bytes = budget;
    request.gap = 0;
    request.time_limit_s = 60;
    CHECK_OK(planner_run(planner_find("best"), trace, &request, &result, &err), &err);
    if (want == UINT32_MAX) {
        CHECK_EQ(result.status, PLANNER_INFEASIBLE);
    } else {
        CHECK_EQ(result.status, PLANNER_OK);
        CHECK_EQ(result.cost, want);
        CHECK(result.optimal);
    }
    planner_result_fini(&result);
}

/* The split program, relaxed and in integers, with few and with all instants. */
static void compare_split(const struct small *g, const struct trace *trace, unsigned budget,
                          size_t *tight)
{
    struct ebb_error err;
    struct planner_graph *graph = NULL;
    unsigned want = exhaustive(g, budget);
    CHECK_OK(planner_graph_create(trace, false, &graph, &err), &err);
    for (uint32_t slices = 1; slices <= 16 && want != UINT32_MAX; slices *= 4)
        for (int relaxed = 0; relaxed < 2; relaxed++) {
            uint32_t at[2 * 16 + 2], count;
            struct planner_cuts cuts;
            struct planner_mip_result result = {0};
            CHECK_OK(planner_cuts_choose(graph, budget, slices, at, &count, &err), &err);
            CHECK_OK(planner_cuts_build(&cuts, graph, budget, NULL, true, at, count, &err), &err);
            struct planner_mip_options options = {
                .seconds = 20, .cutoff = PLANNER_INF, .is_relaxed = relaxed};
            CHECK_OK(planner_mip_solve(&cuts.mip, &options, &result, &err), &err);
            if (result.status != PLANNER_MIP_ABSENT) {
                CHECK_EQ(result.status, PLANNER_MIP_OPTIMAL); /* a schedule exists */
                double bound = relaxed ? result.bound : result.objective;
                CHECK(bound <= (double)want * cuts.cost_scale * (1 + 1e-6));
                *tight += !relaxed && bound >= ((double)want - 0.5) * cuts.cost_scale;
            }
            planner_mip_result_fini(&result);
            planner_cuts_fini(&cuts);
        }
    planner_graph_destroy(graph);
}

/* The small graph of a round. */
static struct trace *make_round(struct small *g, unsigned round, uint64_t *random,
                                struct planner_facts *facts)
{
    unsigned forward = 3 + round % 2;
    make_graph(g, forward, random);
    struct trace *trace = make_trace(g, forward);
    struct ebb_error err;
    CHECK_OK(planner_facts_compute(trace, facts, &err), &err);
    return trace;
}

TEST(split_program__never_passes_exhaustive_search)
{
    uint64_t random = 77;
    size_t tight = 0;
    for (unsigned round = 0; round < 16; round++) {
        struct small g;
        struct planner_facts facts;
        struct trace *trace = make_round(&g, round, &random, &facts);
        for (uint64_t b = facts.max_in_out; b < facts.no_remat_peak; b++)
            compare_split(&g, trace, (unsigned)b, &tight);
        trace_destroy(trace);
    }
    if (planner_mip_has_solver())
        CHECK(tight > 20); /* a bound of nothing would pass, too */
}

TEST(best__equals_exhaustive_search)
{
    uint64_t random = 20260801;
    for (unsigned round = 0; round < 12; round++) {
        struct small g;
        struct planner_facts facts;
        struct trace *trace = make_round(&g, round, &random, &facts);
        for (uint64_t b = facts.max_in_out - 1; b <= facts.no_remat_peak; b++)
            compare(&g, trace, (unsigned)b);
        trace_destroy(trace);
    }
}

TEST_MAIN(RUN(best__equals_exhaustive_search), RUN(split_program__never_passes_exhaustive_search))
