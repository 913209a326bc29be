/* cmd_plan_study.c - the smaller experiments of the published comparison: `ebb plan
 * approx|gap|solve-time|maxbatch`. */
#include "cli/cmd_plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"
#include "base/thread.h"

/* Methods side by side over budgets of one graph. */
struct study {
    struct plan_graph graph;
    struct plan_row *rows; /* owned; budget-major */
    size_t method_count, budget_count;
    double gap, time_limit;
    int64_t jobs;
    struct cli_list ratios;
    bool is_json;
};

struct method {
    const char *label, *planner;
    double threshold; /* lp_round: NaN = sweep */
    uint32_t randoms; /* lp_round: draws */
};

static enum ebb_status run_study(struct study *s, const struct method *methods, size_t count,
                                 struct ebb_error *err)
{
    static const char *const usual[] = {"1.0", "0.9", "0.8", "0.7", "0.6", "0.5", "0.4", "0.3"};
    s->method_count = count;
    s->budget_count = s->ratios.count ? s->ratios.count : sizeof usual / sizeof *usual;
    s->rows = ebb_calloc(s->budget_count * count, sizeof *s->rows);
    if (!s->rows)
        return ebb_no_memory(err, s->budget_count * count * sizeof *s->rows);
    for (size_t b = 0; b < s->budget_count; b++)
        for (size_t m = 0; m < count; m++) {
            struct plan_row *row = &s->rows[b * count + m];
            *row = (struct plan_row){.graph = &s->graph,
                                     .planner = planner_find(methods[m].planner),
                                     .label = methods[m].label};
            const char *text = s->ratios.count ? s->ratios.items[b] : usual[b];
            if (!ebb_parse_double(text, &row->ratio) || row->ratio <= 0)
                return ebb_fail(err, EBB_EINPUT, "--ratio: found '%s', allowed: a number above 0",
                                text);
            planner_request_init(&row->request);
            row->request.budget_bytes = (uint64_t)((double)s->graph.ratio_base * row->ratio);
            row->request.gap = s->gap;
            row->request.time_limit_s = s->time_limit;
            row->request.params.lp_threshold = methods[m].threshold;
            row->request.params.random_rounds = methods[m].randoms;
        }
    return cli_plan_run_rows(s->rows, s->budget_count * count, (int)s->jobs, err);
}

/* Slowdown against method 0 over the budgets where both have a plan: geometric mean and maximum. */
static void print_slowdowns(const struct study *s)
{
    static const char *const headers[] = {"method", "points", "geomean", "max", "median seconds"};
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof *headers);
    for (size_t m = 0; m < s->method_count && table; m++) {
        double log_sum = 0, most = 0, seconds[64];
        size_t n = 0, timed = 0;
        for (size_t b = 0; b < s->budget_count; b++) {
            const struct plan_row *row = &s->rows[b * s->method_count + m];
            double best = cli_plan_overhead(&s->rows[b * s->method_count]);
            double own = cli_plan_overhead(row);
            if (row->is_done && timed < 64) { /* insertion sort: few values */
                size_t at = timed++;
                for (; at > 0 && seconds[at - 1] > row->result.seconds; at--)
                    seconds[at] = seconds[at - 1];
                seconds[at] = row->result.seconds;
            }
            if (isnan(best) || isnan(own))
                continue;
            log_sum += log(own / best);
            most = own / best > most ? own / best : most;
            n++;
        }
        cli_table_cell(table, "%s", s->rows[m].label);
        cli_table_cell(table, "%zu", n);
        cli_table_cell(table, "%.4f", n ? exp(log_sum / (double)n) : NAN);
        cli_table_cell(table, "%.4f", most);
        cli_table_cell(table, "%.3f", timed ? seconds[timed / 2] : 0.0);
    }
    cli_table_print(table, stdout);
    cli_table_destroy(table);
}

static int study_command(int argc, char **argv, const char *usage, const char *description,
                         const struct method *methods, size_t count, double gap,
                         void (*conclude)(const struct study *s))
{
    struct study s = {.gap = gap, .time_limit = 30, .jobs = ebb_cpu_count()};
    const struct cli_option options[] = {
        {"ratio", 'r', CLI_LIST, &s.ratios, "R[,R...]",
         "budgets as fractions of the least peak without recomputation (default 1.0 ... 0.3)"},
        {"gap", 0, CLI_DOUBLE, &s.gap, "G", "stop within this fraction of the bound"},
        {"time-limit", 0, CLI_DOUBLE, &s.time_limit, "S", "seconds per point (default 30)"},
        {"jobs", 'j', CLI_INT, &s.jobs, "N", "points at a time (default: all cores)"},
        {"json", 0, CLI_FLAG, &s.is_json, NULL, "one object per row"},
    };
    const struct cli_spec spec = {.usage = usage,
                                  .description = description,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0],
                                  CLI_LIMITS(CLI_PLAN_LIMITS),
                                  .min_positional = 1,
                                  .max_positional = 1};
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    enum ebb_status status = cli_plan_load(&s.graph, args.positional[0], &err);
    if (status == EBB_OK)
        status = run_study(&s, methods, count, &err);
    size_t rows = s.budget_count * count;
    if (status == EBB_OK && s.is_json)
        for (size_t i = 0; i < rows; i++)
            cli_plan_print_json(&s.rows[i]);
    else if (status == EBB_OK) {
        cli_plan_print_table(s.rows, rows);
        printf("\n");
        conclude(&s);
    }
    code = status == EBB_OK ? 0 : cli_report(&err);
    if (s.rows)
        cli_plan_rows_fini(s.rows, rows);
    cli_plan_unload(&s.graph);
    cli_args_fini(&args);
    return code;
}

int cli_plan_approx(int argc, char **argv)
{
    static const struct method methods[] = {{"best", "best", NAN, 0},
                                            {"lp_round", "lp_round", NAN, 0},
                                            {"lp_round_0.5", "lp_round", 0.5, 0},
                                            {"lp_round_random", "lp_round", NAN, 100},
                                            {"chen_sqrtn", "chen_sqrtn", NAN, 0},
                                            {"chen_greedy", "chen_greedy", NAN, 0},
                                            {"griewank", "griewank", NAN, 0},
                                            {"rotor", "rotor", NAN, 0},
                                            {"knapsack", "knapsack", NAN, 0}};
    return study_command(argc, argv, "ebb plan approx GRAPH [--ratio R[,R...]]",
                         "How far approximations are from `best`: LP rounding and the classic\n"
                         "strategies at the same budgets, with geometric mean and maximum.\n\n"
                         "Example:\n  ebb plan approx linear16.json",
                         methods, sizeof methods / sizeof *methods, 0.005, print_slowdowns);
}

int cli_plan_solve_time(int argc, char **argv)
{
    static const struct method methods[] = {
        {"best", "best", NAN, 0}, {"ilp", "ilp", NAN, 0}, {"lp_round", "lp_round", NAN, 0}};
    return study_command(argc, argv, "ebb plan solve-time GRAPH [--ratio R[,R...]]",
                         "Seconds to a plan: the portfolio, the published ILP, its LP rounding.\n\n"
                         "Example:\n  ebb plan solve-time linear8.json --ratio 0.5",
                         methods, sizeof methods / sizeof *methods, 0, print_slowdowns);
}

/* ---- integrality gap ------------------------------------------------------------------------ */

#define MOST_COVERED 40 /* ops */

static void print_gaps(const struct study *s)
{
    static const char *const headers[] = {"ratio",     "optimum",   "published LP", "flow LP",
                                          "gap publ.", "gap flow",  "rounded/opt",  "s publ. LP",
                                          "s flow LP", "cover all", "cover last"};
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof *headers);
    for (size_t b = 0; b < s->budget_count && table; b++) {
        const struct plan_row *exact = &s->rows[b * s->method_count];
        double base = (double)s->graph.facts.base_cost, opt = cli_plan_overhead(exact);
        double bound[2] = {NAN, NAN}, seconds[2] = {NAN, NAN};
        struct ebb_error err;
        (void)planner_lp_bound(s->graph.trace, exact->request.budget_bytes, PLANNER_MODEL_PUBLISHED,
                               s->time_limit, &bound[0], &seconds[0], &err);
        (void)planner_lp_bound(s->graph.trace, exact->request.budget_bytes, PLANNER_MODEL_FLOW,
                               s->time_limit, &bound[1], &seconds[1], &err);
        cli_table_cell(table, "%.3f", exact->ratio);
        cli_table_cell(table, "%.6f%s", opt, exact->result.optimal ? "" : " ?");
        cli_table_cell(table, "%.6f", bound[0] / base);
        cli_table_cell(table, "%.6f", bound[1] / base);
        cli_table_cell(table, "%.4f", opt * base / bound[0]);
        cli_table_cell(table, "%.4f", opt * base / bound[1]);
        cli_table_cell(table, "%.4f", cli_plan_overhead(exact + 1) / opt);
        cli_table_cell(table, "%.3f", seconds[0]);
        cli_table_cell(table, "%.3f", seconds[1]);
        for (int k = 0; k < 2; k++) { /* looser stages: only where their T x T squares are small */
            double loose = NAN, ignored;
            if (s->graph.facts.node_count <= MOST_COVERED)
                (void)planner_lp_bound(s->graph.trace, exact->request.budget_bytes,
                                       k ? PLANNER_MODEL_COVER_LAST : PLANNER_MODEL_COVER_ALL,
                                       s->time_limit, &loose, &ignored, &err);
            cli_table_cell(table, isnan(loose) ? "-" : "%.6f", loose / base);
        }
    }
    cli_table_print(table, stdout);
    cli_table_destroy(table);
}

int cli_plan_gap(int argc, char **argv)
{
    static const struct method methods[] = {{"best", "best", NAN, 0},
                                            {"lp_round", "lp_round", NAN, 0}};
    return study_command(
        argc, argv, "ebb plan gap GRAPH [--ratio R[,R...]]",
        "The integrality gap: optimum over LP bound, for the published and for the\n"
        "conservation model, and the rounded LP over the optimum. Up to 40 ops also the LP\n"
        "bounds of looser stage rules: every op runs somewhere, or only the last must.\n\n"
        "Example:\n  ebb plan gap linear16.json --ratio 0.5,0.4",
        methods, sizeof methods / sizeof *methods, 0, print_gaps);
}

/* ---- largest batch -------------------------------------------------------------------------- */

struct maxbatch {
    struct plan_graph graph;
    uint64_t memory;
    int64_t batch, most;
    double time_limit;
    bool is_twice, is_json;
};

/* Sizes and costs are linear in the batch, so batch b on `memory` is the file's graph with its
 * bytes scaled back. */
static enum ebb_status fits(const struct maxbatch *m, const struct planner *planner, int64_t b,
                            bool *answer, struct ebb_error *err)
{
    struct planner_request request;
    struct planner_result result;
    uint64_t fixed = m->graph.facts.fixed_bytes * (m->is_twice ? 2 : 1);
    *answer = false;
    if (fixed >= m->memory)
        return EBB_OK;
    planner_request_init(&request);
    request.budget_bytes = (uint64_t)((double)(m->memory - fixed) * (double)m->batch / (double)b);
    request.time_limit_s = m->time_limit;
    request.effort = 2;
    EBB_TRY(planner_run(planner, m->graph.trace, &request, &result, err));
    *answer = result.status == PLANNER_OK &&
              result.cost <= m->graph.facts.base_cost + m->graph.facts.forward_cost;
    planner_result_fini(&result);
    return EBB_OK;
}

static enum ebb_status bisect(const struct maxbatch *m, const struct planner *planner,
                              int64_t *batch, struct ebb_error *err)
{
    int64_t low = 0, high = m->most + 1; /* low fits, high does not */
    while (high - low > 1) {
        bool is_fit;
        int64_t middle = low + (high - low) / 2;
        if (cli_interrupted())
            return ebb_fail(err, EBB_ECANCELED, "interrupted");
        EBB_TRY(fits(m, planner, middle, &is_fit, err));
        if (is_fit)
            low = middle;
        else
            high = middle;
    }
    *batch = low;
    return EBB_OK;
}

int cli_plan_maxbatch(int argc, char **argv)
{
    struct maxbatch m = {.memory = UINT64_C(16000000000), .most = 16384, .time_limit = 10};
    struct cli_list planners = {0};
    const struct cli_option options[] = {
        {"planner", 'p', CLI_LIST, &planners, "P[,P...]",
         "default: all, chen_sqrtn, chen_greedy, best"},
        {"memory", 0, CLI_BYTES, &m.memory, "B", "of the device, weights included (default 16GB)"},
        {"batch", 0, CLI_INT, &m.batch, "N", "batch size the graph file was made for"},
        {"most", 0, CLI_INT, &m.most, "N", "largest batch tried (default 16384)"},
        {"time-limit", 0, CLI_DOUBLE, &m.time_limit, "S",
         "seconds per batch size tried (default 10)"},
        {"fixed-twice", 0, CLI_FLAG, &m.is_twice, NULL,
         "subtract the fixed memory twice, as the published baselines did"},
        {"json", 0, CLI_FLAG, &m.is_json, NULL, "one object per planner"},
    };
    const struct cli_spec spec = {
        .usage = "ebb plan maxbatch GRAPH --batch N [--memory 16GB]",
        .description = "The largest batch that fits with at most one extra forward pass.\n\n"
                       "Example:\n  ebb plan maxbatch vgg16_b256.json --batch 256 --memory 16GB",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        CLI_LIMITS({"batch", 1, 1e9}, {"most", 1, 1e9}, {"time-limit", 0.001, 1e6}),
        .min_positional = 1,
        .max_positional = 1,
    };
    static const char *const usual[] = {"all", "chen_sqrtn", "chen_greedy", "best"};
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (m.batch == 0) {
        cli_args_fini(&args);
        return cli_usage_error("--batch is missing: the batch size the graph was made for");
    }
    cli_catch_interrupts();
    enum ebb_status status = cli_plan_load(&m.graph, args.positional[0], &err);
    size_t count = planners.count ? planners.count : sizeof usual / sizeof *usual;
    for (size_t p = 0; p < count && status == EBB_OK; p++) {
        const char *name = planners.count ? planners.items[p] : usual[p];
        const struct planner *planner = planner_find(name);
        int64_t batch = 0;
        if (!planner) {
            status = ebb_fail(&err, EBB_EINPUT, "--planner: unknown planner '%s'", name);
            break;
        }
        status = bisect(&m, planner, &batch, &err);
        if (status == EBB_OK && m.is_json)
            printf("{\"planner\":\"%s\",\"batch\":%" PRId64 "}\n", name, batch);
        else if (status == EBB_OK)
            printf("%-18s %" PRId64 "\n", name, batch);
    }
    code = status == EBB_OK ? 0 : cli_report(&err);
    cli_plan_unload(&m.graph);
    cli_args_fini(&args);
    return code;
}
