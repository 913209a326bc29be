/* Checkpoints of a chain of blocks against the optimum known for such chains, and bounds of steps
 * whose updates may come early. */
#include "test.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/heap.h"
#include "planner/best.h"
#include "planner/planner.h"

#define UNIT 65536
#define COST 1000

/* x[i + 1] = f(x[i], w[i]); g[i] = b(g[i + 1], x[i], w[i]), and with weights
 * d[i] = c(g[i + 1], x[i]), and at the end w[i] changes by d[i]. */
struct step {
    struct trace_builder *builder;
    uint32_t x[300], w[300], d[300], g;
    uint32_t layers;
    uint64_t weight_bytes; /* 0: none */
};

static uint32_t add(struct step *s, enum trace_phase phase, uint64_t bytes, uint64_t cost,
                    const uint32_t *inputs, size_t count)
{
    struct ebb_error err;
    uint32_t made;
    struct trace_output output = {.bytes = bytes};
    struct trace_op_desc desc = {.kind_name = "op",
                                 .partner = TRACE_NONE,
                                 .phase = phase,
                                 .cost_ns = cost,
                                 .is_leaf = count == 0,
                                 .purity = TRACE_PURE,
                                 .inputs = inputs,
                                 .input_count = count,
                                 .outputs = &output,
                                 .output_count = 1};
    CHECK_OK(trace_builder_op(s->builder, &desc, &made, &err), &err);
    return made;
}

static void add_update(struct step *s, uint32_t i)
{
    struct ebb_error err;
    uint32_t made, inputs[] = {s->w[i], s->d[i]};
    struct trace_output output = {.alias = TRACE_MUTATE};
    struct trace_op_desc desc = {.kind_name = "update",
                                 .partner = TRACE_NONE,
                                 .phase = TRACE_UPDATE,
                                 .cost_ns = 1,
                                 .purity = TRACE_MUTATING,
                                 .inputs = inputs,
                                 .input_count = 2,
                                 .outputs = &output,
                                 .output_count = 1};
    CHECK_OK(trace_builder_op(s->builder, &desc, &made, &err), &err);
    CHECK_OK(trace_builder_command(s->builder, TRACE_PIN, made, &err), &err);
}

static struct trace *make_step(uint32_t layers, uint64_t weight_bytes)
{
    struct step s = {.layers = layers, .weight_bytes = weight_bytes};
    struct ebb_error err;
    struct trace *trace = NULL;
    uint32_t weights = weight_bytes > 0;
    CHECK_OK(trace_builder_create(&s.builder, &err), &err);
    for (uint32_t i = 0; i < layers && weights; i++)
        s.w[i] = add(&s, TRACE_FORWARD, weight_bytes, 0, NULL, 0);
    s.x[0] = add(&s, TRACE_FORWARD, 256, 0, NULL, 0);
    for (uint32_t i = 0; i < layers; i++)
        s.x[i + 1] = add(&s, TRACE_FORWARD, UNIT, COST, (uint32_t[]){s.x[i], s.w[i]}, 1 + weights);
    s.g = s.x[layers];
    for (uint32_t i = layers; i-- > 0;) {
        uint32_t above = s.g;
        s.g = add(&s, TRACE_BACKWARD, UNIT, COST, (uint32_t[]){above, s.x[i], s.w[i]}, 2 + weights);
        if (weights)
            s.d[i] = add(&s, TRACE_BACKWARD, weight_bytes, COST, (uint32_t[]){above, s.x[i]}, 2);
    }
    for (uint32_t i = 0; i < layers && weights; i++)
        add_update(&s, i);
    CHECK_OK(trace_builder_finish(s.builder, "step", &trace, &err), &err);
    trace_builder_destroy(s.builder);
    return trace;
}

/* Least forward steps that reverse `length` of them with `slots` snapshots besides the input, when
 * the last one is taken back from its input by itself. */
static uint64_t reversal(uint32_t length, uint32_t slots)
{
    static uint64_t table[128][16];
    CHECK(length < 128 && slots < 16);
    for (uint32_t c = 0; c <= slots; c++) {
        table[1][c] = table[0][c] = 0;
        for (uint32_t l = 2; l <= length; l++) {
            table[l][c] = c == 0 ? (uint64_t)l * (l - 1) / 2 : UINT64_MAX;
            for (uint32_t m = 1; m < l && c > 0; m++) {
                uint64_t steps = m + table[l - m][c - 1] + table[m][c];
                if (steps < table[l][c])
                    table[l][c] = steps;
            }
        }
    }
    return table[length][slots];
}

/* The seed alone, without the search around it. */
static uint64_t seed_cost(const struct trace *trace, uint64_t budget)
{
    struct ebb_error err;
    struct planner_graph *graph = NULL;
    struct planner_request request;
    CHECK_OK(planner_graph_create(trace, true, &graph, &err), &err);
    planner_request_init(&request);
    request.budget_bytes = budget;
    request.time_limit_s = 1e6;
    struct planner_job job = {
        .graph = graph, .request = &request, .budget = budget, .start_ns = ebb_clock_ns()};
    struct best b = {.job = &job};
    CHECK_OK(planner_eval_init(&job.ev, graph, &err), &err);
    CHECK_OK(planner_sched_init(&job.best, graph, &err), &err);
    CHECK_OK(planner_sched_init(&job.trial, graph, &err), &err);
    CHECK_OK(planner_search_init(&b.search, &job.ev, budget, 0, &err), &err);
    CHECK_OK(planner_best_blocks(&b, &err), &err);
    CHECK(job.has_best);
    CHECK(job.best.peak <= budget);
    uint64_t cost = job.best.cost;
    planner_search_fini(&b.search);
    planner_sched_fini(&job.best);
    planner_sched_fini(&job.trial);
    planner_eval_fini(&job.ev);
    planner_graph_destroy(graph);
    return cost;
}

/* At the backward step of x[i] the two gradients and x[i] lie there; what is left is for
 * snapshots. */
TEST(blocks__reverse_a_chain_in_the_fewest_steps)
{
    static const uint32_t lengths[] = {12, 30, 60}, slots[] = {3, 5, 8};
    for (size_t k = 0; k < 3; k++)
        for (size_t c = 0; c < 3; c++) {
            uint32_t n = lengths[k];
            struct trace *trace = make_step(n, 0);
            uint64_t cost = seed_cost(trace, (uint64_t)(3 + slots[c]) * UNIT + 256);
            uint64_t fewest =
                (reversal(n, slots[c]) + n + 1) * COST; /* and the last forward step */
            if (cost > fewest)
                fail_msg("%u steps, %u slots: %llu, fewest %llu", n, slots[c],
                         (unsigned long long)cost, (unsigned long long)fewest);
            trace_destroy(trace);
        }
}

/* The floor, too: with whatever number of snapshots its bytes have room for. */
TEST(floor__of_a_chain_takes_the_fewest_steps)
{
    static const uint32_t lengths[] = {20, 40, 60};
    for (size_t k = 0; k < 3; k++) {
        uint32_t n = lengths[k];
        struct ebb_error err;
        struct planner_floor_facts facts;
        struct trace *trace = make_step(n, 0);
        CHECK_OK(planner_floor_facts_compute(trace, &facts, &err), &err);
        CHECK(facts.floor_bytes >= (uint64_t)3 * UNIT + 256);
        uint32_t slots = (uint32_t)((facts.floor_bytes - 256) / UNIT - 3);
        uint64_t fewest = (reversal(n, slots) + n + 1) * COST;
        if (facts.cost > fewest)
            fail_msg("%u steps, %u slots: %llu, fewest %llu", n, slots,
                     (unsigned long long)facts.cost, (unsigned long long)fewest);
        trace_destroy(trace);
    }
}

/* Gradients of the size of the weights, all of them before the first update: in that order the step
 * needs far more than with early updates, and no bound on that order holds for the other. */
TEST(best__bound_holds_for_plans_with_early_updates)
{
    static const double ratios[] = {0.58, 0.54, 0.52, 0.512};
    struct ebb_error err;
    struct planner_facts facts;
    struct trace *trace = make_step(110, 4 * UNIT);
    size_t planned = 0;
    CHECK_OK(planner_facts_compute(trace, &facts, &err), &err);
    CHECK(facts.node_count > 400);
    for (size_t k = 0; k < 4; k++) {
        struct planner_request request;
        struct planner_result r;
        planner_request_init(&request);
        request.budget_bytes = (uint64_t)((double)facts.no_remat_peak * ratios[k]);
        request.gap = 4; /* no search: whatever is found first will do */
        CHECK_OK(planner_run(planner_find("best"), trace, &request, &r, &err), &err);
        CHECK(r.status == PLANNER_OK);
        CHECK(r.height_bytes <= request.budget_bytes);
        CHECK(r.lower_bound <= (double)r.cost * (1 + 1e-6));
        CHECK(r.lower_bound <= (double)seed_cost(trace, request.budget_bytes) * (1 + 1e-6));
        planned += r.lower_bound >= (double)r.base_cost * (1 - 1e-6);
        planner_result_fini(&r);
    }
    CHECK(planned == 4);
    trace_destroy(trace);
}

/* When a plan could not be packed, planners are asked again with less room; what they prove then is
 * not about the budget. */
TEST(bound__of_a_retry_with_less_room_is_none)
{
    struct planner_job job = {.lower_bound = 5, .bound_class = PLANNER_BOUND_FLOW};
    struct best b = {.job = &job};
    planner_job_bound(&job, 6, PLANNER_BOUND_FLOW);
    CHECK(job.lower_bound == 6);
    job.is_retry = true;
    planner_best_note_bound(&b, 8, PLANNER_BOUND_FLOW);
    planner_job_bound(&job, 7, PLANNER_BOUND_FLOW);
    CHECK(job.lower_bound == 6);
}

/* A recorded run may do what schedules cannot. One below the bound on schedules is no proof of
 * anything, so the bound must not become its cost. */
TEST(bound__is_not_lowered_to_a_run_that_disproves_it)
{
    struct planner_job job = {.has_recorded = true, .recorded_cost = 100};
    struct best b = {.job = &job};
    planner_best_note_bound(&b, 120, PLANNER_BOUND_FLOW);
    CHECK(job.lower_bound == 120);
}

TEST_MAIN()
