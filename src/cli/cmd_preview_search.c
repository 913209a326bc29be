/* cmd_preview_search.c - `ebb preview-search FILE`: what a search would do, without training
 * anything.
 *
 * The search itself runs, with random metrics and operations that complete at once. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "cli/json.h"
#include "cli/show.h"
#include "exp/exp.h"
#include "plot/plot.h"

extern const struct cli_command cli_cmd_preview_search;

struct preview {
    struct ebb_arena arena;
    const struct ebb_doc_node *searcher_node;
    struct exp_searcher searcher;
    struct exp_hparams space;
    struct exp_shape shape;
    struct exp_sim sim;
    int64_t seed;
    uint64_t metric_state;
};

struct row { /* trials with the same workloads */
    const char *workloads;
    int64_t trials, steps;
};

/* ---- simulation ---- */

static double random_metric(void *context, int64_t t, int64_t s)
{
    struct preview *p = context;
    (void)t, (void)s;
    return (double)(ebb_splitmix64(&p->metric_state) >> 11) / 9007199254740992.0;
}

static enum ebb_status load(struct preview *p, const char *path, struct ebb_error *err)
{
    const struct ebb_doc_node *root, *seed;
    EBB_TRY(ebb_doc_load(&p->arena, path, &root, err));
    p->searcher_node = ebb_doc_get(root, "searcher");
    if (p->searcher_node == NULL)
        return EBB_OK; /* said by the caller: no error of the file */
    const struct ebb_doc_node *hparams = ebb_doc_get(root, "hyperparameters");
    if (hparams == NULL)
        hparams = ebb_doc_new(&p->arena, EBB_DOC_MAP);
    if (hparams == NULL)
        return ebb_no_memory(err, 0);
    EBB_TRY(
        exp_search_parse(&p->arena, path, p->searcher_node, hparams, &p->searcher, &p->space, err));
    seed = ebb_doc_get(ebb_doc_get(root, "reproducibility"), "experiment_seed");
    if (p->seed < 0)
        p->seed = seed != NULL && seed->kind == EBB_DOC_INT ? seed->integer : 0;
    if (p->seed < 0 || p->seed > INT32_MAX)
        return ebb_fail(err, EBB_EINPUT, "%s: seed %lld is not in 0..%d", path, (long long)p->seed,
                        INT32_MAX);
    if (p->searcher.kind == EXP_SEARCHER_CUSTOM)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: searcher.name: custom is decided by an external program while it "
                        "runs; there is nothing to preview",
                        path);
    return EBB_OK;
}

static enum ebb_status simulate(struct preview *p, struct ebb_error *err)
{
    struct exp_search *search;
    struct exp_sim_options options = {.metric = random_metric, .context = p};
    EBB_TRY(exp_search_shape(&p->searcher, &p->arena, &p->shape, err));
    EBB_TRY(exp_search_create(&p->searcher, &p->space, EXP_FAILURE_FAIL_EXPERIMENT,
                              (uint32_t)p->seed, &search, err));
    p->metric_state = (uint64_t)p->seed;
    enum ebb_status status = exp_sim_run(search, &p->space, &options, &p->arena, &p->sim, err);
    exp_search_destroy(search);
    return status;
}

/* ---- rows ---- */

static int by_workloads(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->steps != y->steps)
        return x->steps < y->steps ? -1 : 1;
    return strcmp(x->workloads, y->workloads);
}

static enum ebb_status make_rows(struct preview *p, struct row **rows, size_t *count,
                                 struct ebb_error *err)
{
    struct row *list = ebb_arena_calloc(&p->arena, p->sim.trial_count + 1, sizeof *list);
    size_t n = 0;
    EBB_TRY(ebb_arena_status(&p->arena, err));
    for (size_t i = 0; i < p->sim.trial_count; i++)
        list[i] = (struct row){p->sim.trials[i].workloads, 1, p->sim.trials[i].steps};
    qsort(list, p->sim.trial_count, sizeof *list, by_workloads);
    for (size_t i = 0; i < p->sim.trial_count; i++) {
        if (n > 0 && strcmp(list[n - 1].workloads, list[i].workloads) == 0)
            list[n - 1].trials++;
        else
            list[n++] = list[i];
    }
    *rows = list;
    *count = n;
    return EBB_OK;
}

/* "12S 1V" -> "12 x step, 1 x validation". */
static void breakdown(const char *workloads, struct ebb_str *out)
{
    for (const char *at = workloads; *at != '\0';) {
        size_t digits = strspn(at, "0123456789");
        const char *name = at[digits] == 'S'   ? "step"
                           : at[digits] == 'V' ? "validation"
                                               : "checkpoint";
        ebb_str_printf(out, "%s%.*s x %s", at == workloads ? "" : ", ", (int)digits, at, name);
        at += digits + 1;
        at += *at == ' ';
    }
}

/* ---- text ---- */

/* A small section as YAML; what is deeper than mappings of scalars is written as JSON. */
static void print_yaml(const struct ebb_doc_node *map, int indent)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct ebb_doc_node *value = map->items[i];
        printf("%*s%s:", indent, "", map->keys[i]->text);
        if (value->kind == EBB_DOC_MAP && value->count > 0) {
            printf("\n");
            print_yaml(value, indent + 2);
            continue;
        }
        putchar(' ');
        if (value->kind == EBB_DOC_STRING)
            puts(value->text);
        else
            cli_print_json(value);
    }
}

static void print_table(const struct row *rows, size_t count)
{
    int trials = 6, steps = 5;
    size_t widest = strlen("Breakdown");
    struct ebb_str text = {0};
    for (size_t i = 0; i < count; i++) {
        int t = snprintf(NULL, 0, "%lld", (long long)rows[i].trials);
        int s = snprintf(NULL, 0, "%lld", (long long)rows[i].steps);
        ebb_str_clear(&text);
        breakdown(rows[i].workloads, &text);
        trials = t > trials ? t : trials;
        steps = s > steps ? s : steps;
        widest = text.length > widest ? text.length : widest;
    }
    printf("  %*s |   %*s | Breakdown\n", trials, "Trials", steps, "Steps");
    for (int i = 0; i < trials + 3; i++)
        putchar('-');
    putchar('+');
    for (int i = 0; i < steps + 4; i++)
        putchar('-');
    putchar('+');
    for (size_t i = 0; i < widest + 2; i++)
        putchar('-');
    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        ebb_str_clear(&text);
        breakdown(rows[i].workloads, &text);
        printf("  %*lld |   %*lld | %s\n", trials, (long long)rows[i].trials, steps,
               (long long)rows[i].steps, ebb_str_c(&text));
    }
    ebb_str_fini(&text);
}

static void print_brackets(const struct exp_shape *shape)
{
    for (size_t b = 0; b < shape->count; b++) {
        const struct exp_bracket_shape *bracket = &shape->brackets[b];
        bool is_asynchronous = bracket->rungs[0].start == 0 && bracket->max_trials > 0;
        printf("Bracket %zu:", b + 1);
        for (size_t r = 0; r < bracket->rung_count; r++) {
            if (is_asynchronous)
                printf("%s%lld", r > 0 ? ", " : " rungs at steps ",
                       (long long)bracket->rungs[r].steps);
            else
                printf("%s%lld trials to step %lld", r > 0 ? ", " : " ",
                       (long long)bracket->rungs[r].start, (long long)bracket->rungs[r].steps);
        }
        if (is_asynchronous)
            printf("; at most %lld trials, %lld at the start", (long long)bracket->max_trials,
                   (long long)bracket->initial_trials);
        printf(bracket->max_trials == 0 ? " (empty: the budget is too small for it)\n" : "\n");
    }
}

static void print_text(const struct preview *p, const struct row *rows, size_t count)
{
    printf("Using search configuration:\n");
    print_yaml(p->searcher_node, 2);
    printf("\nThis search will create %zu trial%s and run %lld steps, %lld validations and %lld "
           "checkpoints.\n",
           p->sim.trial_count, p->sim.trial_count == 1 ? "" : "s", (long long)p->sim.total_steps,
           (long long)p->sim.total_validations, (long long)p->sim.total_checkpoints);
    print_brackets(&p->shape);
    printf("\n");
    print_table(rows, count);
}

/* ---- JSON ---- */

static void write_brackets(const struct exp_shape *shape, struct ebb_json_writer *w)
{
    ebb_jsonw_key_array(w, "brackets");
    for (size_t b = 0; b < shape->count; b++) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_int(w, "max_trials", shape->brackets[b].max_trials);
        ebb_jsonw_key_int(w, "initial_trials", shape->brackets[b].initial_trials);
        ebb_jsonw_key_array(w, "rungs");
        for (size_t r = 0; r < shape->brackets[b].rung_count; r++) {
            const struct exp_rung_shape *rung = &shape->brackets[b].rungs[r];
            ebb_jsonw_object(w);
            ebb_jsonw_key_int(w, "steps", rung->steps);
            if (shape->brackets[b].rungs[0].start > 0) {
                ebb_jsonw_key_int(w, "start_trials", rung->start);
                ebb_jsonw_key_int(w, "promote_trials", rung->promote);
            }
            ebb_jsonw_object_end(w);
        }
        ebb_jsonw_array_end(w);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
}

static int print_json(const struct preview *p, const struct row *rows, size_t count)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_doc_write_key(p->searcher_node, w, "searcher");
    ebb_jsonw_key_int(w, "seed", p->seed);
    ebb_jsonw_key_int(w, "trials", (int64_t)p->sim.trial_count);
    ebb_jsonw_key_int(w, "steps", p->sim.total_steps);
    ebb_jsonw_key_int(w, "validations", p->sim.total_validations);
    ebb_jsonw_key_int(w, "checkpoints", p->sim.total_checkpoints);
    ebb_jsonw_key_array(w, "rows");
    for (size_t i = 0; i < count; i++) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_int(w, "trials", rows[i].trials);
        ebb_jsonw_key_int(w, "steps", rows[i].steps);
        ebb_jsonw_key_string(w, "workloads", rows[i].workloads);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    write_brackets(&p->shape, w);
    return cli_json_object_end(&json);
}

/* ---- chart: how many trials are still training after so many steps, one line for each bracket
 * ---- */

#define MARKS_MAX 12

struct chart {
    struct plot_series *series;
    struct plot_mark marks[MARKS_MAX];
    size_t series_count, mark_count;
    double start; /* x of the first points: a log axis has no zero */
    double most_steps, most_trials;
};

static int by_steps(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The line of one bracket: from all its trials at the start down to those that reach the end. */
static enum ebb_status add_series(struct preview *p, struct chart *chart, size_t bracket,
                                  struct ebb_error *err)
{
    size_t n = 0, points = 0, count = p->sim.trial_count;
    int64_t *steps = ebb_arena_calloc(&p->arena, count + 1, sizeof *steps);
    double *x = ebb_arena_calloc(&p->arena, count + 2, sizeof *x);
    double *y = ebb_arena_calloc(&p->arena, count + 2, sizeof *y);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    for (size_t i = 0; i < count; i++)
        if (p->sim.trials[i].bracket == bracket)
            steps[n++] = p->sim.trials[i].steps;
    if (n == 0)
        return EBB_OK;
    qsort(steps, n, sizeof *steps, by_steps);
    x[points] = chart->start;
    y[points++] = (double)n;
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && steps[i + 1] == steps[i])
            continue;
        x[points] = (double)steps[i];
        y[points] = i + 1 < n ? (double)(n - i - 1) : y[points - 1];
        points++;
    }
    chart->most_steps = fmax(chart->most_steps, (double)steps[n - 1]);
    chart->most_trials = fmax(chart->most_trials, (double)n);
    char *name = p->shape.count > 1
                     ? ebb_arena_printf(&p->arena, "bracket %zu (%zu rungs)", bracket + 1,
                                        p->shape.brackets[bracket].rung_count)
                     : ebb_arena_printf(&p->arena, "trials");
    EBB_TRY(ebb_arena_status(&p->arena, err));
    chart->series[chart->series_count++] =
        (struct plot_series){.name = name, .style = PLOT_STEP, .x = x, .y = y, .count = points};
    return EBB_OK;
}

/* A vertical line at each rung length, shared by the brackets. */
static void add_marks(const struct preview *p, struct chart *chart)
{
    for (size_t b = 0; b < p->shape.count; b++)
        for (size_t r = 0; r < p->shape.brackets[b].rung_count; r++) {
            double at = (double)p->shape.brackets[b].rungs[r].steps;
            size_t known = 0;
            while (known < chart->mark_count && chart->marks[known].at != at)
                known++;
            if (known < chart->mark_count || known == MARKS_MAX)
                continue;
            chart->marks[known] = (struct plot_mark){
                .at = at, .is_vertical = true, .is_dashed = true, .label = "rung"};
            chart->mark_count++;
        }
}

static enum ebb_status draw(struct preview *p, const char *path, bool in_terminal,
                            struct ebb_error *err)
{
    size_t brackets = p->shape.count > 0 ? p->shape.count : 1;
    struct chart chart = {.start = (double)INFINITY};
    chart.series = ebb_arena_calloc(&p->arena, brackets, sizeof *chart.series);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    for (size_t i = 0; i < p->sim.trial_count; i++)
        chart.start = fmin(chart.start, (double)p->sim.trials[i].steps / 2);
    for (size_t b = 0; b < brackets; b++)
        EBB_TRY(add_series(p, &chart, b, err));
    add_marks(p, &chart);
    const double automatic = (double)NAN;
    char subtitle[128];
    snprintf(subtitle, sizeof subtitle, "%s, seed %lld: %zu trials, %lld steps",
             exp_searcher_name(p->searcher.kind), (long long)p->seed, p->sim.trial_count,
             (long long)p->sim.total_steps);
    struct plot_panel panel = {
        .x_label = "steps of a trial",
        .y_label = "trials still training",
        .series = chart.series,
        .series_count = chart.series_count,
        .marks = chart.marks,
        .mark_count = chart.mark_count,
        .log_x = chart.most_steps >= 20 * chart.start,
        .log_y = chart.most_trials >= 10,
        .x_min = automatic,
        .x_max = automatic,
        .y_min = automatic,
        .y_max = automatic,
    };
    struct plot_chart whole = {
        .title = "Trials against steps", .subtitle = subtitle, .panels = &panel, .panel_count = 1};
    if (path != NULL)
        EBB_TRY(plot_write(&whole, path, err));
    if (!in_terminal)
        return EBB_OK;
    struct ebb_str text = {0};
    enum ebb_status status = plot_terminal(&whole, 100, 24, &text, err);
    if (status == EBB_OK)
        printf("\n%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return status;
}

/* ---- the command ---- */

struct wishes {
    const char *chart;
    bool is_json, in_terminal;
};

static int show(struct preview *p, const struct wishes *wishes)
{
    struct ebb_error err;
    struct row *rows = NULL;
    size_t count = 0;
    enum ebb_status status = simulate(p, &err);
    EBB_THEN(status, make_rows(p, &rows, &count, &err));
    if (status == EBB_OK && wishes->is_json && print_json(p, rows, count) != 0)
        return 1;
    if (status == EBB_OK && !wishes->is_json)
        print_text(p, rows, count);
    bool in_terminal = !wishes->is_json && (wishes->in_terminal || isatty(STDOUT_FILENO));
    if (status == EBB_OK && (wishes->chart != NULL || in_terminal)) {
        status = draw(p, wishes->chart, in_terminal, &err);
        if (status != EBB_OK && wishes->chart == NULL && !wishes->in_terminal)
            status = EBB_OK; /* nobody asked for it: a missing plotter is no failure */
    }
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int run(int argc, char **argv)
{
    struct wishes wishes = {0};
    struct preview p = {.seed = -1};
    const struct cli_spec spec = {
        .usage = "ebb preview-search FILE [--chart FILE.svg]",
        .description =
            "Shows what the search of an experiment file would do, without training anything: how\n"
            "many trials it creates and how many steps each of them gets. The search itself runs,\n"
            "with random metrics. Only the sections searcher and hyperparameters are read.\n"
            "\n"
            "Each row of the table is a number of trials that do the same work:\n"
            "    24 | 1 | 1 x step, 1 x validation\n"
            "\n"
            "Examples:\n"
            "    ebb preview-search experiment.yaml\n"
            "    ebb preview-search experiment.yaml --chart search.svg",
        CLI_OPTION_ROWS(
            {"seed", 0, CLI_INT, &p.seed, "N",
             "seed of the search and of the metrics (default: the file's\n"
             "reproducibility.experiment_seed, else 0)"},
            {"chart", 0, CLI_STRING, &wishes.chart, "FILE",
             "draw trials against steps, with brackets and rungs, into FILE.svg or .png"},
            {"terminal", 0, CLI_FLAG, &wishes.in_terminal, NULL,
             "draw the chart as text below the table (a terminal gets it anyway)"},
            {"json", 0, CLI_FLAG, &wishes.is_json, NULL,
             "one JSON object: searcher, seed, trials, steps, rows, brackets"}),
        CLI_NEEDS({"terminal", "!json"}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    ebb_arena_init(&p.arena);
    if (load(&p, args.positional[0], &err) != EBB_OK) {
        code = cli_report(&err);
    } else if (p.searcher_node == NULL) {
        fprintf(stderr, "ebb: error: %s: there is no searcher section\n", args.positional[0]);
        code = 1;
    } else {
        code = show(&p, &wishes);
    }
    ebb_arena_fini(&p.arena);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_preview_search = {
    .name = "preview-search",
    .summary = "show what a search would do, without training",
    .run = run,
};
