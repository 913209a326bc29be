/* compare.c - methods side by side over budgets of one graph. */
#include "study/study.h"

#include <math.h>
#include <stdlib.h>

#include "base/heap.h"

const struct study_row *study_compare_row(const struct study_compare *c, size_t budget,
                                          size_t method)
{
    return &c->rows[budget * c->method_count + method];
}

enum ebb_status study_compare_run(struct study_compare *c, const char *path,
                                  const struct study_method *methods, size_t method_count,
                                  const double *ratios, size_t ratio_count, struct ebb_error *err)
{
    EBB_TRY(study_load(&c->graph, path, &c->how, err));
    EBB_TRY(ebb_new(&c->rows, ratio_count * method_count, sizeof *c->rows, err));
    c->method_count = method_count;
    c->budget_count = ratio_count;
    for (size_t i = 0; i < ratio_count * method_count; i++) {
        const struct study_method *method = &methods[i % method_count];
        struct study_row *row = &c->rows[i];
        *row = (struct study_row){.graph = &c->graph,
                                  .planner = planner_find(method->planner),
                                  .label = method->label,
                                  .ratio = ratios[i / method_count]};
        planner_request_init(&row->request);
        row->request.budget_bytes = (uint64_t)((double)c->graph.ratio_base * row->ratio);
        row->request.gap = c->how.gap;
        row->request.time_limit_s = c->how.time_limit;
        row->request.params.lp_threshold = method->threshold;
        row->request.params.random_rounds = method->randoms;
    }
    return study_run(c->rows, ratio_count * method_count, &c->how, err);
}

void study_compare_fini(struct study_compare *c)
{
    study_rows_fini(c->rows, c->budget_count * c->method_count);
    study_unload(&c->graph);
}

#define MOST_TIMED 64

struct study_slowdown study_slowdown_of(const struct study_compare *c, size_t method)
{
    struct study_slowdown s = {.geomean = NAN};
    double log_sum = 0, seconds[MOST_TIMED];
    size_t timed = 0;
    for (size_t b = 0; b < c->budget_count; b++) {
        const struct study_row *row = study_compare_row(c, b, method);
        double slowdown = study_overhead(row) / study_overhead(study_compare_row(c, b, 0));
        if (row->is_done && timed < MOST_TIMED) { /* insertion sort: few values */
            size_t at = timed++;
            for (; at > 0 && seconds[at - 1] > row->result.seconds; at--)
                seconds[at] = seconds[at - 1];
            seconds[at] = row->result.seconds;
        }
        if (isnan(slowdown))
            continue;
        log_sum += log(slowdown);
        s.max = slowdown > s.max ? slowdown : s.max;
        s.points++;
    }
    if (s.points > 0)
        s.geomean = exp(log_sum / (double)s.points);
    s.median_seconds = timed > 0 ? seconds[timed / 2] : 0;
    return s;
}

struct study_lp study_lp_bound(const struct study_compare *c, size_t budget,
                               enum planner_model_kind kind)
{
    struct study_lp lp = {.overhead = NAN, .seconds = NAN};
    struct ebb_error err;
    (void)planner_lp_bound(c->graph.trace, study_compare_row(c, budget, 0)->request.budget_bytes,
                           kind, c->how.time_limit, &lp.overhead, &lp.seconds, &err);
    lp.overhead /= (double)c->graph.facts.base_cost;
    return lp;
}
