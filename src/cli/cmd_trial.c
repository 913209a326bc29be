/* cmd_trial.c - ebb trial: one trial, its steps, its log, its checkpoints. */
#include "cli/verb.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "cli/cmd_experiment.h"
#include "cli/show.h"

struct options {
    int64_t tail;
    bool has_metrics, follows, is_best, is_latest, is_quiet;
    const char *uuid, *directory, *metric, *smaller;
};

static const struct options defaults = {.tail = CLI_TAIL_ALL};

/* ---- logs ---- */

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
            exp_master_turn(m->own, 100);
        if (is_first && tail >= 0) /* of none, where new ones begin */
            status = cli_ask(m, &answer, err, "GET", NULL, "/trials/%lld/logs?tail=%lld",
                             (long long)trial, (long long)(tail > 0 ? tail : 1));
        else
            status = cli_ask(m, &answer, err, "GET", NULL,
                             "/trials/%lld/logs?limit=1000&greater_than_id=%lld&wait=%d",
                             (long long)trial, (long long)after,
                             follows && m->own == NULL && !is_first ? 1 : 0);
        const struct ebb_doc_node *list = ebb_doc_get(answer.root, "logs");
        size_t count = list != NULL ? list->count : 0;
        for (size_t i = 0; i < count; i++) {
            if (!is_first || tail != 0)
                cli_print_log(list->items[i], is_json);
            after = ebb_doc_int(list->items[i], "id", after);
        }
        if (count > 0)
            fflush(stdout);
        bool is_end = ebb_doc_bool(answer.root, "is_over", false);
        bool is_live = follows && (m->own == NULL || m->role == CLI_RUN); /* the master may end */
        is_over = is_live ? is_end && count == 0 : count == 0 || (is_first && tail >= 0);
        cli_answer_fini(&answer);
        EBB_TRY(status);
    }
    return EBB_OK;
}

static enum ebb_status logs(struct cli_call *c, struct ebb_error *err)
{
    const struct options *o = c->options;
    return cli_logs_print(c->m, c->id, o->tail, o->follows && c->m->own == NULL, c->where.is_json,
                          err);
}

/* ---- describe ---- */

static const struct cli_column trial_columns[] = {
    {"Experiment ID", "experiment_id", CLI_AS_NUMBER, NULL},
    {"State", "state", CLI_AS_TEXT, NULL},
    {"H-Params", "hparams", CLI_AS_JSON, NULL},
    {"Start Time", "start_time", CLI_AS_TIME, NULL},
    {"End Time", "end_time", CLI_AS_TIME, NULL},
    {"Restarts", "restarts", CLI_AS_NUMBER, NULL},
};

static const struct cli_column step_columns[] = {
    {"Step #", "step_id", CLI_AS_NUMBER, NULL},
    {"State", "state", CLI_AS_TEXT, NULL},
    {"Start Time", "start_time", CLI_AS_TIME, NULL},
    {"End Time", "end_time", CLI_AS_TIME, NULL},
    {"Checkpoint", "checkpoint.state", CLI_AS_TEXT, NULL},
    {"Checkpoint UUID", "checkpoint.uuid", CLI_AS_TEXT, NULL},
    {"Validation", "validation.state", CLI_AS_TEXT, NULL},
    {"Validation Metrics", "validation", CLI_AS_METRICS, NULL},
    {"Step Metrics", NULL, CLI_AS_METRICS, NULL}, /* with --metrics */
};

static void print_trial(const struct cli_call *c, const struct ebb_doc_node *t,
                        const struct ebb_doc_node *steps)
{
    const struct options *o = c->options;
    const char *warm = ebb_doc_string(t, "warm_start_checkpoint", "");
    const char *message = ebb_doc_string(t, "message", "");
    struct cli_table *table = cli_columns_table(trial_columns, 6);
    cli_columns_add(table, trial_columns, 6, t, c->where.is_csv);
    cli_table_show(table, c->where.is_csv);
    if (!c->where.is_csv && warm[0] != '\0')
        printf("\nStarted from checkpoint %s\n", warm);
    struct ebb_str plain = {0};
    cli_show_plain(&plain, message);
    if (!c->where.is_csv && message[0] != '\0')
        printf("\nLast failure: %s\n", ebb_str_c(&plain));
    ebb_str_fini(&plain);
    printf("\nSteps:\n");
    cli_columns_show(step_columns, o->has_metrics ? 9 : 8, steps, c->where.is_csv);
}

static enum ebb_status describe(struct cli_call *c, struct ebb_error *err)
{
    const struct ebb_doc_node *trial, *work;
    EBB_TRY(cli_get(c->m, &trial, err, "/trials/%lld", (long long)c->id));
    EBB_TRY(cli_get(c->m, &work, err, "/trials/%lld/workloads", (long long)c->id));
    const struct ebb_doc_node *steps = ebb_doc_get(work, "workloads");
    struct ebb_doc_node *whole = ebb_doc_new(&c->arena, EBB_DOC_MAP);
    if (whole == NULL || !ebb_doc_set(&c->arena, whole, "trial", trial) ||
        !ebb_doc_set(&c->arena, whole, "workloads", steps))
        return ebb_no_memory(err, sizeof *whole);
    if (c->where.is_json)
        cli_print_json(whole);
    else
        print_trial(c, trial, steps);
    return EBB_OK;
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
                                         const struct ebb_doc_node *work, const struct options *o,
                                         int64_t trial, bool smaller)
{
    const struct ebb_doc_node *best = NULL;
    double best_value = NAN;
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *c = list->items[i];
        int64_t step = ebb_doc_int(c, "step_id", 0);
        if (ebb_doc_int(c, "trial_id", 0) != trial ||
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

static enum ebb_status find(struct cli_call *c, const struct ebb_doc_node **found,
                            struct ebb_error *err)
{
    const struct options *o = c->options;
    const struct ebb_doc_node *trial, *experiment, *checkpoints, *work;
    EBB_TRY(cli_get(c->m, &trial, err, "/trials/%lld", (long long)c->id));
    long long parent = (long long)ebb_doc_int(trial, "experiment_id", 0);
    EBB_TRY(cli_get(c->m, &experiment, err, "/experiments/%lld", parent));
    EBB_TRY(cli_get(c->m, &checkpoints, err, "/experiments/%lld/checkpoints", parent));
    EBB_TRY(cli_get(c->m, &work, err, "/trials/%lld/workloads", (long long)c->id));
    bool smaller = o->smaller != NULL ? strcmp(o->smaller, "true") == 0
                                      : ebb_doc_bool(experiment, "smaller_is_better", true);
    *found = choose(ebb_doc_get(checkpoints, "checkpoints"), ebb_doc_get(work, "workloads"), o,
                    c->id, smaller);
    if (*found != NULL)
        return EBB_OK;
    return ebb_fail(err, EBB_EINFEASIBLE,
                    "trial %lld has no such checkpoint; 'ebb experiment list-checkpoints %lld' "
                    "shows what is there",
                    (long long)c->id, parent);
}

static enum ebb_status download(struct cli_call *c, struct ebb_error *err)
{
    const struct options *o = c->options;
    const struct ebb_doc_node *found = NULL;
    EBB_TRY(find(c, &found, err));
    const char *target = o->directory;
    if (target == NULL)
        target = ebb_arena_printf(&c->arena, "checkpoints/trial_%lld/step_%lld", (long long)c->id,
                                  (long long)ebb_doc_int(found, "step_id", 0));
    if (target == NULL)
        return ebb_no_memory(err, 64);
    EBB_TRY(cli_checkpoint_copy(c->m, found, target, err));
    cli_say(c, found, "%s%s", o->is_quiet ? "" : "Local checkpoint path: ", target);
    return EBB_OK;
}

static int check_download(struct cli_call *c)
{
    const struct options *o = c->options;
    if ((o->is_best ? 1 : 0) + (o->is_latest ? 1 : 0) + (o->uuid != NULL ? 1 : 0) != 1)
        return cli_usage_error("give exactly one of --best, --latest and --uuid");
    if (o->smaller != NULL && strcmp(o->smaller, "true") != 0 && strcmp(o->smaller, "false") != 0)
        return cli_usage_error("--smaller-is-better is true or false");
    return -1;
}

/* ---- the rows ---- */

#define AT(member) offsetof(struct options, member)

static const struct cli_field describe_options[] = {
    {"metrics", 0, CLI_FLAG, AT(has_metrics), NULL, "the training metrics of every step, too", 0,
     0},
};
static const struct cli_field log_options[] = {
    {"follow", 'f', CLI_FLAG, AT(follows), NULL, "go on until the trial has ended", 0, 0},
    {"tail", 0, CLI_INT, AT(tail), "N", "only the last N lines", 0, 1e9},
};
static const struct cli_field download_options[] = {
    {"best", 0, CLI_FLAG, AT(is_best), NULL, "the one with the best validation", 0, 0},
    {"latest", 0, CLI_FLAG, AT(is_latest), NULL, "the newest one", 0, 0},
    {"uuid", 0, CLI_STRING, AT(uuid), "UUID", "this one", 0, 0},
    {"output-dir", 'o', CLI_STRING, AT(directory), "DIR", "default checkpoints/trial_T/step_S", 0,
     0},
    {"metric-name", 0, CLI_STRING, AT(metric), "NAME",
     "--best by this validation metric instead of the searcher's", 0, 0},
    {"smaller-is-better", 0, CLI_STRING, AT(smaller), "BOOL",
     "for --metric-name: true or false; else as the experiment has it", 0, 0},
    {"quiet", 'q', CLI_FLAG, AT(is_quiet), NULL, "print only the path", 0, 0},
};

static const struct cli_verb verbs[] = {
    {.name = "describe",
     .summary = "a trial and its steps",
     CLI_ID("trial"),
     .text = "A trial: hyperparameters, restarts, where it started from, and its steps with\n"
             "their validations and checkpoints.",
     CLI_OPTIONS(describe_options),
     .json_help = "one object: trial and workloads",
     .has_csv = true,
     .run = describe},
    {.name = "logs",
     .summary = "what it wrote",
     CLI_ID("trial"),
     .text = "What a trial wrote to stdout and stderr, over all its restarts.\n"
             "\n"
             "Example:\n"
             "  ebb trial logs 12 --tail 50 --follow",
     CLI_OPTIONS(log_options),
     .json_help = "one JSON object per line of the log",
     .run = logs},
    {.name = "download",
     .summary = "copy one of its checkpoints",
     CLI_WORDS("ID (--best | --latest | --uuid UUID)", 1, 1),
     .id = "trial",
     .text = "Copy a checkpoint of a trial to a directory of yours.\n"
             "\n"
             "Example:\n"
             "  ebb trial download 12 --best -o model",
     CLI_OPTIONS(download_options),
     CLI_NEEDS({"metric-name", "best"}, {"smaller-is-better", "metric-name"}, {"quiet", "!json"}),
     .json_help = "print the checkpoint as JSON",
     .check = check_download,
     .run = download},
    {.name = "kill",
     .summary = "kill its process; it is restarted",
     CLI_ID("trial"),
     .text = "Kill the process of a trial. That counts as a failure: it starts again from\n"
             "its last checkpoint, unless max_restarts is used up. To end a whole\n"
             "experiment: ebb experiment kill.",
     .method = "POST",
     .route = "/trials/#/kill",
     .said = "Killed trial #",
     .json = "{\"killed\": #}"},
};

static const struct cli_noun noun = CLI_NOUN("trial", verbs, defaults);

const struct cli_command cli_cmd_trial = {
    .name = "trial", .summary = "one trial: steps, log, checkpoints", .noun = &noun};
