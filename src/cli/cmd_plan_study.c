/* cmd_plan_study.c - the experiments of the published comparisons: `ebb plan
 * sweep|figure|approx|gap|solve-time|maxbatch`. */
#include "cli/cmd_plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/share.h"
#include "plot/plot.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Options of sweep and figure. */
#define SWEEP_ROWS(how)                                                                            \
    {"points", 'n', CLI_INT, &(how)->points, "N", "global and local points each (default 32)"},    \
        {"segments",       0,   CLI_INT,                                                           \
         &(how)->segments, "N", "thresholds of the greedy sweep (default 300)"},                   \
        {"gap",       0,   CLI_DOUBLE,                                                             \
         &(how)->gap, "G", "stop within this fraction of the bound (default 0.005)"},              \
        {"time-limit", 0, CLI_DOUBLE, &(how)->time_limit, "S", "seconds per point (default 10)"},  \
    {                                                                                              \
        "jobs", 'j', CLI_INT, &(how)->jobs, "N", "points at a time (default: all cores)"           \
    }

/* ---- overhead versus memory ----------------------------------------------------------------- */

static void summarize(const struct study_sweep *s)
{
    size_t proven = 0, close = 0, planned = 0, found = 0;
    double seconds = 0;
    for (size_t i = s->global_from; i < s->others_from; i++) {
        const struct planner_result *r = &s->rows[i].result;
        bool is_ok = study_is_ok(&s->rows[i]);
        planned++;
        seconds += r->seconds;
        found += is_ok;
        proven += is_ok && r->optimal;
        close += is_ok && r->gap <= 0.01;
    }
    printf("%zu rows; of %zu planned points %zu have a plan, %zu within 1 %% of their bound, %zu "
           "proven "
           "optimal; %.1f s of planning\n",
           s->count, planned, found, close, proven, seconds);
}

int cli_plan_sweep(int argc, char **argv)
{
    struct study_sweep s = {.how = cli_plan_how()};
    const char *output = NULL, *chart = NULL;
    bool is_json = false;
    s.how.time_limit = 10;
    const struct cli_spec spec = {
        .usage = "ebb plan sweep GRAPH [--points N] [-o FILE.csv] [--chart FILE.svg]",
        .description =
            "Overhead versus memory budget: fixed strategies over their parameters, `best` at\n"
            "global and local points, the online policies at the same points.\n\n"
            "Example:\n"
            "  ebb plan sweep vgg16.json -o vgg16.csv --chart vgg16.svg",
        CLI_OPTION_ROWS(
            SWEEP_ROWS(&s.how),
            {"output", 'o', CLI_STRING, &output, "FILE", "write all rows as CSV"},
            {"chart", 0, CLI_STRING, &chart, "FILE", "draw the step curves: .svg, .png, .pdf"},
            {"json", 0, CLI_FLAG, &is_json, NULL, "one object per row"}),
        CLI_LIMITS(CLI_PLAN_LIMITS, {"points", 1, 1000}, {"segments", 1, 10000}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    enum ebb_status status = chart ? plot_check_name(chart, &err) : EBB_OK;
    EBB_THEN(status, study_sweep_run(&s, args.positional[0], true, &err));
    if (status == EBB_OK && output)
        status = study_points_write(&s.points, output, &err);
    if (status == EBB_OK && chart)
        status = study_sweep_chart(&s, chart, &err);
    for (size_t i = 0; i < s.count && status == EBB_OK && is_json; i++)
        if (s.rows[i].is_done)
            cli_plan_print_json(&s.rows[i]);
    if (status == EBB_OK && !is_json)
        summarize(&s);
    code = status == EBB_OK ? 0 : cli_report(&err);
    study_sweep_fini(&s);
    cli_args_fini(&args);
    return code;
}

static const struct {
    const char *name;
    enum ebb_status (*run)(const struct study_figure *figure, struct ebb_error *err);
} stages[] = {{"baselines", study_figure_baselines},
              {"simrd", study_figure_simrd},
              {"ilp", study_figure_ilp}, /* only where it is asked for: it takes long */
              {"plot", study_figure_plot}};

static enum ebb_status run_stages(const struct study_figure *f, const struct cli_list *wanted,
                                  struct ebb_error *err)
{
    EBB_TRY(ebb_file_mkdirs(f->dir, err));
    for (size_t k = 0; k < COUNT(stages); k++)
        if (wanted->count == 0 ? stages[k].run != study_figure_ilp || f->with_ilp
                               : ebb_name_index(stages[k].name, wanted->items, wanted->count) >= 0)
            EBB_TRY(stages[k].run(f, err));
    return EBB_OK;
}

static int refuse_stage(const char *name)
{
    for (size_t k = 0; k < COUNT(stages); k++)
        if (strcmp(name, stages[k].name) == 0)
            return -1;
    return cli_usage_error("--stage: found '%s', allowed: baselines, simrd, ilp, plot", name);
}

/* The networks of the published comparison, whose graphs come with the program. */
#define PUBLISHED 4
static int published_graphs(char paths[PUBLISHED][4096], const char *graphs[PUBLISHED])
{
    static const char *const names[PUBLISHED] = {"vgg16_b256_roofline", "mobilenet_b512_roofline",
                                                 "vgg_unet_b32_roofline", "resnet50_b256_flops"};
    for (size_t i = 0; i < PUBLISHED; i++) {
        char installed[128], source[128];
        snprintf(installed, sizeof installed, "graphs/%s.json", names[i]);
        snprintf(source, sizeof source, "tests/golden/checkmate/graphs/%s.json", names[i]);
        if (!cli_share_find(installed, source, paths[i], sizeof paths[i]))
            return cli_usage_error("%s is neither installed (share/ebb) nor in a source tree: name "
                                   "graphs",
                                   installed);
        graphs[i] = paths[i];
    }
    return -1;
}

/* Files of a graph have its name: two of one name would take the place of each other. */
static int refuse_namesakes(const struct study_figure *f)
{
    for (size_t i = 0; i < f->graph_count; i++)
        for (size_t k = 0; k < i; k++)
            if (study_figure_same_name(f->graphs[i], f->graphs[k]))
                return cli_usage_error("%s and %s have one name, by which their results lie in "
                                       "%s: give one of them another",
                                       f->graphs[k], f->graphs[i], f->dir);
    return -1;
}

int cli_plan_figure(int argc, char **argv)
{
    struct study_figure f = {.dir = "data/budget_sweep",
                             .how = cli_plan_how(),
                             .ilp_limit = 60,
                             .ilp_points = 6,
                             .out = stdout,
                             .notes = stderr};
    struct cli_list wanted = {0}, with = {0};
    char paths[PUBLISHED][4096];
    const char *graphs[PUBLISHED];
    f.how.time_limit = 10;
    const struct cli_spec spec = {
        .usage = "ebb plan figure [GRAPH...] [--dir DIR] [--stage S[,S...]] [--with ilp]",
        .description =
            "Overhead versus memory budget of several networks in one chart: every strategy, the\n"
            "online policies, `best` and its proven bound. Without graphs: the networks of the\n"
            "published comparison (VGG16, MobileNet, U-Net, ResNet-50), which come with ebb. "
            "Stages\n"
            "that can be run one by one: baselines, simrd and ilp write DIR/NAME.*.csv, plot "
            "reads\n"
            "them and writes DIR/budget_sweep.svg, .png and .pdf and DIR/slowdowns.csv, and "
            "prints\n"
            "a table. --with ilp adds Checkmate's ILP at a few budgets, each under a time "
            "limit.\n\n"
            "Examples:\n"
            "  ebb plan figure --with ilp --ilp-limit 600\n"
            "  ebb plan figure vgg16.json mobilenet.json --dir data/budget_sweep\n"
            "  ebb plan figure vgg16.json mobilenet.json --stage plot",
        CLI_OPTION_ROWS(
            {"dir", 'd', CLI_STRING, &f.dir, "DIR",
             "where results lie (default data/budget_sweep)"},
            {"stage", 's', CLI_LIST, &wanted, "S[,S...]",
             "baselines, simrd, ilp, plot (default: all but ilp, in this order)"},
            {"with", 'w', CLI_LIST, &with, "ilp", "run stage ilp, too, and draw it"},
            {"ilp-limit", 0, CLI_DOUBLE, &f.ilp_limit, "S",
             "seconds of the ILP for a budget (default 60)"},
            {"ilp-points", 0, CLI_INT, &f.ilp_points, "N",
             "budgets of a network for the ILP (default 6)"},
            SWEEP_ROWS(&f.how),
            {"json", 0, CLI_FLAG, &f.is_json, NULL, "plot: one object per planned budget"}),
        CLI_LIMITS(CLI_PLAN_LIMITS, {"points", 1, 1000}, {"segments", 1, 10000},
                   {"ilp-limit", 0.1, 1e6}, {"ilp-points", 1, 1000}),
        CLI_POSITIONAL(0, STUDY_FIGURE_GRAPHS),
    };
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    for (size_t i = 0; i < wanted.count && code < 0; i++) {
        code = refuse_stage(wanted.items[i]);
        f.with_ilp |= strcmp(wanted.items[i], "ilp") == 0;
    }
    for (size_t i = 0; i < with.count && code < 0; i++) {
        f.with_ilp = true;
        if (strcmp(with.items[i], "ilp") != 0)
            code = cli_usage_error("--with: found '%s', allowed: ilp", with.items[i]);
    }
    if (code < 0 && args.positional_count == 0)
        code = published_graphs(paths, graphs);
    if (code < 0) {
        bool is_own = args.positional_count > 0;
        f.graphs = is_own ? (const char *const *)args.positional : graphs;
        f.graph_count = is_own ? args.positional_count : PUBLISHED;
        code = refuse_namesakes(&f);
    }
    if (code < 0)
        code = run_stages(&f, &wanted, &err) == EBB_OK ? 0 : cli_report(&err);
    cli_args_fini(&args);
    return code;
}

/* ---- methods side by side ------------------------------------------------------------------- */

static void print_slowdowns(const struct study_compare *c)
{
    static const char *const headers[] = {"method", "points", "geomean", "max", "median seconds"};
    struct cli_table *table = cli_table_create(headers, COUNT(headers));
    for (size_t m = 0; m < c->method_count && table; m++) {
        struct study_slowdown s = study_slowdown_of(c, m);
        cli_table_cell(table, "%s", c->rows[m].label);
        cli_table_cell(table, "%zu", s.points);
        cli_table_cell(table, "%.4f", s.geomean);
        cli_table_cell(table, "%.4f", s.max);
        cli_table_cell(table, "%.3f", s.median_seconds);
    }
    cli_table_out(table);
}

#define MOST_COVERED 40 /* ops: the T x T squares of looser stages are small */

static void print_gaps(const struct study_compare *c)
{
    static const char *const headers[] = {"ratio",     "optimum",   "published LP", "flow LP",
                                          "gap publ.", "gap flow",  "rounded/opt",  "s publ. LP",
                                          "s flow LP", "cover all", "cover last"};
    struct cli_table *table = cli_table_create(headers, COUNT(headers));
    for (size_t b = 0; b < c->budget_count && table; b++) {
        const struct study_row *exact = study_compare_row(c, b, 0);
        double opt = study_overhead(exact);
        struct study_lp published = study_lp_bound(c, b, PLANNER_MODEL_PUBLISHED),
                        flow = study_lp_bound(c, b, PLANNER_MODEL_FLOW);
        cli_table_cell(table, "%.3f", exact->ratio);
        cli_table_cell(table, "%.6f%s", opt, exact->result.optimal ? "" : " ?");
        cli_table_cell(table, "%.6f", published.overhead);
        cli_table_cell(table, "%.6f", flow.overhead);
        cli_table_cell(table, "%.4f", opt / published.overhead);
        cli_table_cell(table, "%.4f", opt / flow.overhead);
        cli_table_cell(table, "%.4f", study_overhead(study_compare_row(c, b, 1)) / opt);
        cli_table_cell(table, "%.3f", published.seconds);
        cli_table_cell(table, "%.3f", flow.seconds);
        for (int k = 0; k < 2; k++) {
            struct study_lp loose = {.overhead = NAN};
            if (c->graph.facts.node_count <= MOST_COVERED)
                loose =
                    study_lp_bound(c, b, k ? PLANNER_MODEL_COVER_LAST : PLANNER_MODEL_COVER_ALL);
            cli_table_cell(table, isnan(loose.overhead) ? "-" : "%.6f", loose.overhead);
        }
    }
    cli_table_out(table);
}

/* The budgets asked for, or the usual ones. Returns -1, or the exit code. */
static int read_ratios(const struct cli_list *list, double *ratios, size_t room, size_t *count)
{
    static const double usual[] = {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3};
    if (list->count == 0)
        memcpy(ratios, usual, sizeof usual);
    *count = list->count ? list->count : COUNT(usual);
    if (*count > room)
        return cli_usage_error("--ratio: %zu budgets, at most %zu", *count, room);
    for (size_t b = 0; b < list->count; b++)
        if (!ebb_parse_double(list->items[b], &ratios[b]) || ratios[b] <= 0)
            return cli_usage_error("--ratio: found '%s', allowed: a number above 0",
                                   list->items[b]);
    return -1;
}

static int compare(int argc, char **argv, const char *usage, const char *description,
                   const struct study_method *methods, size_t count, double gap,
                   void (*conclude)(const struct study_compare *c))
{
    struct study_compare c = {.how = cli_plan_how()};
    struct cli_list list = {0};
    bool is_json = false;
    c.how.gap = gap;
    c.how.time_limit = 30;
    const struct cli_spec spec = {
        .usage = usage,
        .description = description,
        CLI_OPTION_ROWS(
            {"ratio", 'r', CLI_LIST, &list, "R[,R...]",
             "budgets as fractions of the least peak without recomputation (default 1.0 ... 0.3)"},
            {"gap", 0, CLI_DOUBLE, &c.how.gap, "G", "stop within this fraction of the bound"},
            {"time-limit", 0, CLI_DOUBLE, &c.how.time_limit, "S", "seconds per point (default 30)"},
            {"jobs", 'j', CLI_INT, &c.how.jobs, "N", "points at a time (default: all cores)"},
            {"json", 0, CLI_FLAG, &is_json, NULL, "one object per row"}),
        CLI_LIMITS(CLI_PLAN_LIMITS),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args;
    struct ebb_error err;
    double ratios[1024];
    size_t ratio_count;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    code = read_ratios(&list, ratios, COUNT(ratios), &ratio_count);
    if (code < 0 && study_compare_run(&c, args.positional[0], methods, count, ratios, ratio_count,
                                      &err) != EBB_OK)
        code = cli_report(&err);
    for (size_t i = 0; code < 0 && is_json && i < ratio_count * count; i++)
        cli_plan_print_json(&c.rows[i]);
    if (code < 0 && !is_json) {
        cli_plan_print_table(c.rows, ratio_count * count);
        printf("\n");
        conclude(&c);
    }
    study_compare_fini(&c);
    cli_args_fini(&args);
    return code < 0 ? 0 : code;
}

int cli_plan_approx(int argc, char **argv)
{
    static const struct study_method methods[] = {{"best", "best", NAN, 0},
                                                  {"lp_round", "lp_round", NAN, 0},
                                                  {"lp_round_0.5", "lp_round", 0.5, 0},
                                                  {"lp_round_random", "lp_round", NAN, 100},
                                                  {"chen_sqrtn", "chen_sqrtn", NAN, 0},
                                                  {"chen_greedy", "chen_greedy", NAN, 0},
                                                  {"griewank", "griewank", NAN, 0},
                                                  {"rotor", "rotor", NAN, 0},
                                                  {"knapsack", "knapsack", NAN, 0}};
    return compare(argc, argv, "ebb plan approx GRAPH [--ratio R[,R...]]",
                   "How far approximations are from `best`: LP rounding and the classic\n"
                   "strategies at the same budgets, with geometric mean and maximum.\n\n"
                   "Example:\n  ebb plan approx linear16.json",
                   methods, COUNT(methods), 0.005, print_slowdowns);
}

int cli_plan_solve_time(int argc, char **argv)
{
    static const struct study_method methods[] = {
        {"best", "best", NAN, 0}, {"ilp", "ilp", NAN, 0}, {"lp_round", "lp_round", NAN, 0}};
    return compare(argc, argv, "ebb plan solve-time GRAPH [--ratio R[,R...]]",
                   "Seconds to a plan: the portfolio, the published ILP, its LP rounding.\n\n"
                   "Example:\n  ebb plan solve-time linear8.json --ratio 0.5",
                   methods, COUNT(methods), 0, print_slowdowns);
}

int cli_plan_gap(int argc, char **argv)
{
    static const struct study_method methods[] = {{"best", "best", NAN, 0},
                                                  {"lp_round", "lp_round", NAN, 0}};
    return compare(
        argc, argv, "ebb plan gap GRAPH [--ratio R[,R...]]",
        "The integrality gap: optimum over LP bound, for the published and for the\n"
        "conservation model, and the rounded LP over the optimum. Up to 40 ops also the LP\n"
        "bounds of looser stage rules: every op runs somewhere, or only the last must.\n\n"
        "Example:\n  ebb plan gap linear16.json --ratio 0.5,0.4",
        methods, COUNT(methods), 0, print_gaps);
}

/* ---- the largest batch ---------------------------------------------------------------------- */

int cli_plan_maxbatch(int argc, char **argv)
{
    struct study_how how = cli_plan_how();
    struct study_graph graph = {0};
    struct study_batch m = {.graph = &graph,
                            .memory = UINT64_C(16000000000),
                            .most = 16384,
                            .time_limit = 10,
                            .is_cancelled = cli_interrupted};
    struct cli_list planners = {0};
    bool is_json = false;
    const struct cli_spec spec = {
        .usage = "ebb plan maxbatch GRAPH --batch N [--memory 16GB]",
        .description = "The largest batch that fits with at most one extra forward pass.\n\n"
                       "Example:\n  ebb plan maxbatch vgg16_b256.json --batch 256 --memory 16GB",
        CLI_OPTION_ROWS(
            {"planner", 'p', CLI_LIST, &planners, "P[,P...]",
             "default: all, chen_sqrtn, chen_greedy, best"},
            {"memory", 0, CLI_BYTES, &m.memory, "B",
             "of the device, weights included (default 16GB)"},
            {"batch", 0, CLI_INT, &m.batch, "N", "batch size the graph file was made for"},
            {"most", 0, CLI_INT, &m.most, "N", "largest batch tried (default 16384)"},
            {"time-limit", 0, CLI_DOUBLE, &m.time_limit, "S",
             "seconds per batch size tried (default 10)"},
            {"fixed-twice", 0, CLI_FLAG, &m.is_twice, NULL,
             "subtract the fixed memory twice, as the published baselines did"},
            {"json", 0, CLI_FLAG, &is_json, NULL, "one object per planner"}),
        CLI_LIMITS({"batch", 1, 1e9}, {"most", 1, 1e9}, {"time-limit", 0.001, 1e6}),
        CLI_POSITIONAL(1, 1),
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
    enum ebb_status status = study_load(&graph, args.positional[0], &how, &err);
    size_t count = planners.count ? planners.count : COUNT(usual);
    for (size_t p = 0; p < count && status == EBB_OK; p++) {
        const char *name = planners.count ? planners.items[p] : usual[p];
        const struct planner *planner = planner_find(name);
        int64_t batch = 0;
        if (!planner) {
            status = ebb_fail(&err, EBB_EINPUT, "--planner: unknown planner '%s'", name);
            break;
        }
        status = study_batch_largest(&m, planner, &batch, &err);
        if (status == EBB_OK && is_json)
            printf("{\"planner\":\"%s\",\"batch\":%" PRId64 "}\n", name, batch);
        else if (status == EBB_OK)
            printf("%-18s %" PRId64 "\n", name, batch);
    }
    code = status == EBB_OK ? 0 : cli_report(&err);
    study_unload(&graph);
    cli_args_fini(&args);
    return code;
}
