/* cmd_trial.c - ebb trial: one trial, its steps, its log, its checkpoints. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/json.h"
#include "cli/cmd_experiment.h"
#include "cli/master.h"
#include "cli/show.h"

struct trial_options {
    struct cli_where where;
    int64_t id, tail;
    bool has_metrics, follows, is_best, is_latest, is_quiet;
    const char *uuid, *directory, *metric, *smaller;
};

static int with_trial(const struct cli_spec *spec, int argc, char **argv, struct trial_options *o,
                      int (*what)(struct cli_master *m, void *context))
{
    return cli_with_id(spec, argc, argv, "trial", &o->id, &o->where, what, o);
}

/* ---- logs ---- */

static void print_log(const struct ebb_doc_node *line, bool is_json)
{
    if (is_json) {
        struct ebb_str text;
        ebb_str_init(&text);
        cli_show_json(&text, line);
        puts(ebb_str_c(&text));
        ebb_str_fini(&text);
    } else {
        cli_print_line(ebb_doc_get(line, "message"), stdout);
    }
}

enum ebb_status cli_logs_print(struct cli_master *m, int64_t trial, int64_t tail, bool follows,
                               bool is_json, struct ebb_error *err)
{
    int64_t after = 0;
    bool is_over = false;
    if (follows)
        cli_catch_interrupts();
    for (bool is_first = true; is_first || (!is_over && !cli_interrupted()); is_first = false) {
        struct cli_answer answer = {0};
        enum ebb_status status = EBB_OK;
        if (!is_first && m->own != NULL)
            status = exp_master_turn(m->own, 100, err);
        if (status == EBB_OK && is_first && tail >= 0) /* of none, where new ones begin */
            status = cli_ask(m, &answer, err, "GET", NULL, "/trials/%lld/logs?tail=%lld",
                             (long long)trial, (long long)(tail > 0 ? tail : 1));
        else if (status == EBB_OK)
            status = cli_ask(m, &answer, err, "GET", NULL,
                             "/trials/%lld/logs?limit=1000&greater_than_id=%lld&wait=%d",
                             (long long)trial, (long long)after,
                             follows && m->own == NULL && !is_first ? 1 : 0);
        const struct ebb_doc_node *list = ebb_doc_get(answer.root, "logs");
        size_t count = list != NULL ? list->count : 0;
        for (size_t i = 0; i < count; i++) {
            if (!is_first || tail != 0)
                print_log(list->items[i], is_json);
            after = ebb_doc_int(list->items[i], "id", after);
        }
        if (count > 0)
            fflush(stdout);
        bool is_end = ebb_doc_bool(answer.root, "is_over", false);
        is_over = follows ? is_end && count == 0 : count == 0 || tail >= 0;
        cli_answer_fini(&answer);
        EBB_TRY(status);
    }
    return EBB_OK;
}

static int logs(struct cli_master *m, void *context)
{
    const struct trial_options *o = context;
    struct ebb_error err = {0};
    enum ebb_status status =
        cli_logs_print(m, o->id, o->tail, o->follows && m->own == NULL, o->where.is_json, &err);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int run_logs(int argc, char **argv)
{
    struct trial_options o = {.tail = CLI_TAIL_ALL};
    const struct cli_option options[] = {
        {"follow", 'f', CLI_FLAG, &o.follows, NULL, "go on until the trial has ended"},
        {"tail", 0, CLI_INT, &o.tail, "N", "only the last N lines"},
    };
    const struct cli_spec spec = {
        .usage = "ebb trial logs ID [OPTION...]",
        .description = "What a trial wrote to stdout and stderr, over all its restarts.\n"
                       "\n"
                       "Example:\n"
                       "  ebb trial logs 12 --tail 50 --follow",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        CLI_LIMITS({"tail", 0, 1e9}),
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "one JSON object per line of the log",
    };
    return with_trial(&spec, argc, argv, &o, logs);
}

/* ---- describe ---- */

static void show_map(struct cli_table *table, const struct ebb_doc_node *map)
{
    struct ebb_str text;
    ebb_str_init(&text);
    cli_show_map(&text, map);
    cli_table_cell(table, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
}

static void print_steps(const struct ebb_doc_node *list, const struct trial_options *o)
{
    static const char *const headers[] = {
        "Step #",          "State",      "Start Time",         "End Time",    "Checkpoint",
        "Checkpoint UUID", "Validation", "Validation Metrics", "Step Metrics"};
    struct cli_table *table = cli_table_create(headers, o->has_metrics ? 9 : 8);
    char buf[CLI_CELL];
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *s = list->items[i], *c = ebb_doc_get(s, "checkpoint");
        const struct ebb_doc_node *v = ebb_doc_get(s, "validation");
        cli_table_cell(table, "%s", cli_show_number(s, "step_id", buf));
        cli_table_cell(table, "%s", ebb_doc_string(s, "state", ""));
        cli_table_cell(table, "%s", cli_show_time(s, "start_time", buf));
        cli_table_cell(table, "%s", cli_show_time(s, "end_time", buf));
        cli_table_cell(table, "%s", ebb_doc_string(c, "state", ""));
        cli_table_cell(table, "%s", ebb_doc_string(c, "uuid", ""));
        cli_table_cell(table, "%s", ebb_doc_string(v, "state", ""));
        show_map(table, cli_step_metrics(v));
        if (o->has_metrics)
            show_map(table, cli_step_metrics(s));
    }
    cli_table_show(table, o->where.is_csv);
}

static void print_trial(const struct ebb_doc_node *t, const struct ebb_doc_node *steps,
                        const struct trial_options *o)
{
    static const char *const headers[] = {"Experiment ID", "State",    "H-Params",
                                          "Start Time",    "End Time", "Restarts"};
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    char buf[CLI_CELL];
    struct ebb_str hparams;
    ebb_str_init(&hparams);
    cli_show_json(&hparams, ebb_doc_get(t, "hparams"));
    cli_table_cell(table, "%s", cli_show_number(t, "experiment_id", buf));
    cli_table_cell(table, "%s", ebb_doc_string(t, "state", ""));
    cli_table_cell(table, "%s", ebb_str_c(&hparams));
    cli_table_cell(table, "%s", cli_show_time(t, "start_time", buf));
    cli_table_cell(table, "%s", cli_show_time(t, "end_time", buf));
    cli_table_cell(table, "%s", cli_show_number(t, "restarts", buf));
    cli_table_show(table, o->where.is_csv);
    ebb_str_fini(&hparams);
    const char *warm = ebb_doc_string(t, "warm_start_checkpoint", "");
    const char *message = ebb_doc_string(t, "message", "");
    if (!o->where.is_csv && warm[0] != '\0')
        printf("\nStarted from checkpoint %s\n", warm);
    if (!o->where.is_csv && message[0] != '\0')
        printf("\nLast failure: %s\n", message);
    printf("\nSteps:\n");
    print_steps(steps, o);
}

static int describe(struct cli_master *m, void *context)
{
    const struct trial_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer trial = {0}, work = {0};
    enum ebb_status status =
        cli_ask(m, &trial, &err, "GET", NULL, "/trials/%lld", (long long)o->id);
    if (status == EBB_OK)
        status = cli_ask(m, &work, &err, "GET", NULL, "/trials/%lld/workloads", (long long)o->id);
    const struct ebb_doc_node *steps = ebb_doc_get(work.root, "workloads");
    if (status == EBB_OK && o->where.is_json) {
        struct ebb_str out;
        struct ebb_json_writer w;
        ebb_str_init(&out);
        ebb_jsonw_init(&w, &out, 0);
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "trial");
        ebb_doc_write_json(trial.root, &w);
        ebb_jsonw_key(&w, "workloads");
        ebb_doc_write_json(steps, &w);
        ebb_jsonw_object_end(&w);
        puts(ebb_str_c(&out));
        ebb_str_fini(&out);
    } else if (status == EBB_OK) {
        print_trial(trial.root, steps, o);
    }
    cli_answer_fini(&trial);
    cli_answer_fini(&work);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int run_describe(int argc, char **argv)
{
    struct trial_options o = {0};
    const struct cli_option options[] = {
        {"metrics", 0, CLI_FLAG, &o.has_metrics, NULL, "the training metrics of every step, too"},
    };
    const struct cli_spec spec = {
        .usage = "ebb trial describe ID [OPTION...]",
        .description =
            "A trial: hyperparameters, restarts, where it started from, and its steps with\n"
            "their validations and checkpoints.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "one object: trial and workloads",
        .is_table = true,
    };
    return with_trial(&spec, argc, argv, &o, describe);
}

/* ---- kill ---- */

static int kill_trial(struct cli_master *m, void *context)
{
    const struct trial_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    enum ebb_status status =
        cli_ask(m, &answer, &err, "POST", NULL, "/trials/%lld/kill", (long long)o->id);
    if (status == EBB_OK && o->where.is_json)
        printf("{\"killed\": %lld}\n", (long long)o->id);
    else if (status == EBB_OK)
        printf("Killed trial %lld\n", (long long)o->id);
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int run_kill(int argc, char **argv)
{
    struct trial_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb trial kill ID [OPTION...]",
        .description =
            "Kill the process of a trial. That counts as a failure: it starts again from\n"
            "its last checkpoint, unless max_restarts is used up. To end a whole\n"
            "experiment: ebb experiment kill.",
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
    };
    return with_trial(&spec, argc, argv, &o, kill_trial);
}

/* ---- download ---- */

/* Value of a named metric of the validation at a step; NaN when there is none. */
static double metric_at(const struct ebb_doc_node *work, int64_t step, const char *name)
{
    for (size_t i = 0; work != NULL && i < work->count; i++)
        if (ebb_doc_int(work->items[i], "step_id", -1) == step)
            return cli_metric(
                ebb_doc_get(cli_step_metrics(ebb_doc_get(work->items[i], "validation")), name));
    return NAN;
}

/* The completed checkpoint of the trial that is asked for; NULL = none. */
static const struct ebb_doc_node *choose(const struct ebb_doc_node *list,
                                         const struct ebb_doc_node *work,
                                         const struct trial_options *o, bool smaller)
{
    const struct ebb_doc_node *best = NULL;
    double best_value = NAN;
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *c = list->items[i];
        int64_t step = ebb_doc_int(c, "step_id", 0);
        if (ebb_doc_int(c, "trial_id", 0) != o->id ||
            strcmp(ebb_doc_string(c, "state", ""), "COMPLETED") != 0)
            continue;
        if (o->uuid != NULL) {
            if (strcmp(ebb_doc_string(c, "uuid", ""), o->uuid) == 0)
                return c;
            continue;
        }
        if (o->is_latest) {
            if (best == NULL || step > ebb_doc_int(best, "step_id", 0))
                best = c;
            continue;
        }
        double v = o->metric != NULL ? metric_at(work, step, o->metric)
                                     : cli_metric(ebb_doc_get(c, "metric"));
        if (!isnan(v) && (best == NULL || (smaller ? v < best_value : v > best_value))) {
            best = c;
            best_value = v;
        }
    }
    return best;
}

static enum ebb_status fetch(struct cli_master *m, const struct trial_options *o,
                             struct ebb_error *err)
{
    struct cli_answer trial = {0}, experiment = {0}, checkpoints = {0}, work = {0};
    struct ebb_str target;
    ebb_str_init(&target);
    enum ebb_status status = cli_ask(m, &trial, err, "GET", NULL, "/trials/%lld", (long long)o->id);
    long long parent = (long long)ebb_doc_int(trial.root, "experiment_id", 0);
    if (status == EBB_OK)
        status = cli_ask(m, &experiment, err, "GET", NULL, "/experiments/%lld", parent);
    if (status == EBB_OK)
        status =
            cli_ask(m, &checkpoints, err, "GET", NULL, "/experiments/%lld/checkpoints", parent);
    if (status == EBB_OK)
        status = cli_ask(m, &work, err, "GET", NULL, "/trials/%lld/workloads", (long long)o->id);
    const struct ebb_doc_node *found = NULL;
    if (status == EBB_OK) {
        bool smaller = o->smaller != NULL
                           ? strcmp(o->smaller, "true") == 0
                           : ebb_doc_bool(experiment.root, "smaller_is_better", true);
        found = choose(ebb_doc_get(checkpoints.root, "checkpoints"),
                       ebb_doc_get(work.root, "workloads"), o, smaller);
        if (found == NULL)
            status = ebb_fail(err, EBB_EINFEASIBLE,
                              "trial %lld has no such checkpoint; 'ebb experiment "
                              "list-checkpoints %lld' shows what is there",
                              (long long)o->id, parent);
    }
    if (status == EBB_OK && o->directory != NULL)
        ebb_str_add(&target, o->directory);
    else if (status == EBB_OK)
        ebb_str_printf(&target, "checkpoints/trial_%lld/step_%lld", (long long)o->id,
                       (long long)ebb_doc_int(found, "step_id", 0));
    if (status == EBB_OK)
        status = cli_checkpoint_copy(found, ebb_str_c(&target), err);
    if (status == EBB_OK && o->where.is_json) {
        struct ebb_str out;
        ebb_str_init(&out);
        cli_show_json(&out, found);
        puts(ebb_str_c(&out));
        ebb_str_fini(&out);
    } else if (status == EBB_OK) {
        printf(o->is_quiet ? "%s\n" : "Local checkpoint path: %s\n", ebb_str_c(&target));
    }
    ebb_str_fini(&target);
    cli_answer_fini(&trial);
    cli_answer_fini(&experiment);
    cli_answer_fini(&checkpoints);
    cli_answer_fini(&work);
    return status;
}

static int download(struct cli_master *m, void *context)
{
    struct ebb_error err = {0};
    return fetch(m, context, &err) == EBB_OK ? 0 : cli_report(&err);
}

static int run_download(int argc, char **argv)
{
    struct trial_options o = {0};
    const struct cli_option options[] = {
        {"best", 0, CLI_FLAG, &o.is_best, NULL, "the one with the best validation"},
        {"latest", 0, CLI_FLAG, &o.is_latest, NULL, "the newest one"},
        {"uuid", 0, CLI_STRING, &o.uuid, "UUID", "this one"},
        {"output-dir", 'o', CLI_STRING, &o.directory, "DIR", "default checkpoints/trial_T/step_S"},
        {"metric-name", 0, CLI_STRING, &o.metric, "NAME",
         "--best by this validation metric instead of the searcher's"},
        {"smaller-is-better", 0, CLI_STRING, &o.smaller, "BOOL",
         "for --metric-name: true or false; else as the experiment has it"},
        {"quiet", 'q', CLI_FLAG, &o.is_quiet, NULL, "print only the path"},
    };
    const struct cli_spec spec = {
        .usage = "ebb trial download ID (--best | --latest | --uuid UUID) [OPTION...]",
        .description = "Copy a checkpoint of a trial to a directory of yours.\n"
                       "\n"
                       "Example:\n"
                       "  ebb trial download 12 --best -o model",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "print the checkpoint as JSON",
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    if ((o.is_best ? 1 : 0) + (o.is_latest ? 1 : 0) + (o.uuid != NULL ? 1 : 0) != 1)
        code = cli_usage_error("give exactly one of --best, --latest and --uuid");
    else if (o.metric != NULL && !o.is_best)
        code = cli_usage_error("--metric-name goes with --best");
    else if (o.smaller != NULL && o.metric == NULL)
        code = cli_usage_error("--smaller-is-better goes with --metric-name");
    else if (o.smaller != NULL && strcmp(o.smaller, "true") != 0 && strcmp(o.smaller, "false") != 0)
        code = cli_usage_error("--smaller-is-better is true or false");
    else
        code = cli_parse_id("trial", args.positional[0], &o.id);
    if (code < 0)
        code = cli_with_master(&o.where, download, &o);
    cli_args_fini(&args);
    return code;
}

/* ---- the table ---- */

static const struct cli_command cmd_describe = {
    .name = "trial describe", .summary = "a trial and its steps", .run = run_describe};
static const struct cli_command cmd_logs = {
    .name = "trial logs", .summary = "what it wrote", .run = run_logs};
static const struct cli_command cmd_download = {
    .name = "trial download", .summary = "copy one of its checkpoints", .run = run_download};
static const struct cli_command cmd_kill = {
    .name = "trial kill", .summary = "kill its process; it is restarted", .run = run_kill};

static const struct cli_command *const verbs[] = {&cmd_describe, &cmd_logs, &cmd_download,
                                                  &cmd_kill};

static int run(int argc, char **argv)
{
    return cli_dispatch("trial", verbs, sizeof verbs / sizeof verbs[0], argc, argv);
}

const struct cli_command cli_cmd_trial = {
    .name = "trial",
    .summary = "one trial: steps, log, checkpoints",
    .run = run,
};
