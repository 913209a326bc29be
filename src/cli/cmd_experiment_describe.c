/* cmd_experiment_describe.c - ebb experiment describe: three tables, or files of them. */
#include "cli/cmd_experiment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "cli/show.h"

struct describe_options {
    struct cli_where where;
    bool has_metrics;
    const char *directory;
    const char *ids; /* "3,5" */
};

/* Everything the tables need, of all experiments asked for. */
struct view {
    struct cli_answer *answers; /* owned; nodes below point into them */
    size_t answer_count, answer_capacity;
    const struct ebb_doc_node **experiments, **trials, **steps;
    int64_t *step_trials; /* trial of each step */
    size_t experiment_count, experiment_capacity, trial_count, trial_capacity;
    size_t step_count, step_capacity, step_trial_capacity;
    const char **training, **validation; /* sorted names of metrics; borrowed */
    size_t training_count, training_capacity, validation_count, validation_capacity;
};

static void view_fini(struct view *v)
{
    for (size_t i = 0; i < v->answer_count; i++)
        cli_answer_fini(&v->answers[i]);
    ebb_free(v->answers);
    ebb_free(v->experiments);
    ebb_free(v->trials);
    ebb_free(v->steps);
    ebb_free(v->step_trials);
    ebb_free(v->training);
    ebb_free(v->validation);
}

const struct ebb_doc_node *cli_step_metrics(const struct ebb_doc_node *node)
{
    const struct ebb_doc_node *metrics = ebb_doc_get(node, "metrics");
    const struct ebb_doc_node *inner = ebb_doc_get(metrics, "avg_metrics");
    if (inner == NULL)
        inner = ebb_doc_get(metrics, "validation_metrics");
    return inner != NULL ? inner : metrics;
}

/* ---- loading ---- */

static enum ebb_status ask(struct view *v, struct cli_master *m, const struct ebb_doc_node **root,
                           struct ebb_error *err, const char *fmt, int64_t id)
{
    EBB_TRY(
        ebb_grow(&v->answers, &v->answer_capacity, v->answer_count + 1, sizeof *v->answers, err));
    struct ebb_str target;
    ebb_str_init(&target);
    for (const char *c = fmt; *c != '\0'; c++)
        if (*c == '#')
            ebb_str_printf(&target, "%lld", (long long)id);
        else
            ebb_str_addc(&target, *c);
    struct cli_answer *answer = &v->answers[v->answer_count++];
    enum ebb_status status = cli_ask(m, answer, err, "GET", NULL, "%s", ebb_str_c(&target));
    ebb_str_fini(&target);
    *root = answer->root;
    return status;
}

/* Insert a name into a sorted list of distinct ones. */
static enum ebb_status add_name(const char ***names, size_t *count, size_t *capacity,
                                const char *name, struct ebb_error *err)
{
    size_t at = 0;
    while (at < *count && strcmp((*names)[at], name) < 0)
        at++;
    if (at < *count && strcmp((*names)[at], name) == 0)
        return EBB_OK;
    EBB_TRY(ebb_grow(names, capacity, *count + 1, sizeof **names, err));
    memmove(*names + at + 1, *names + at, (*count - at) * sizeof **names);
    (*names)[at] = name;
    (*count)++;
    return EBB_OK;
}

static enum ebb_status add_step(struct view *v, int64_t trial, const struct ebb_doc_node *step,
                                struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&v->steps, &v->step_capacity, v->step_count + 1, sizeof *v->steps, err));
    EBB_TRY(ebb_grow(&v->step_trials, &v->step_trial_capacity, v->step_count + 1,
                     sizeof *v->step_trials, err));
    v->steps[v->step_count] = step;
    v->step_trials[v->step_count++] = trial;
    const struct ebb_doc_node *t = cli_step_metrics(step);
    const struct ebb_doc_node *n = cli_step_metrics(ebb_doc_get(step, "validation"));
    for (size_t i = 0; t != NULL && t->kind == EBB_DOC_MAP && i < t->count; i++)
        EBB_TRY(add_name(&v->training, &v->training_count, &v->training_capacity, t->keys[i]->text,
                         err));
    for (size_t i = 0; n != NULL && n->kind == EBB_DOC_MAP && i < n->count; i++)
        EBB_TRY(add_name(&v->validation, &v->validation_count, &v->validation_capacity,
                         n->keys[i]->text, err));
    return EBB_OK;
}

static enum ebb_status load_trial(struct view *v, struct cli_master *m,
                                  const struct ebb_doc_node *trial, struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    int64_t id = ebb_doc_int(trial, "id", 0);
    EBB_TRY(ebb_grow(&v->trials, &v->trial_capacity, v->trial_count + 1, sizeof *v->trials, err));
    v->trials[v->trial_count++] = trial;
    if (id == 0)
        return EBB_OK; /* not started yet */
    EBB_TRY(ask(v, m, &root, err, "/trials/#/workloads", id));
    const struct ebb_doc_node *list = ebb_doc_get(root, "workloads");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        EBB_TRY(add_step(v, id, list->items[i], err));
    return EBB_OK;
}

static enum ebb_status load_one(struct view *v, struct cli_master *m, int64_t id,
                                struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    EBB_TRY(ebb_grow(&v->experiments, &v->experiment_capacity, v->experiment_count + 1,
                     sizeof *v->experiments, err));
    EBB_TRY(ask(v, m, &root, err, "/experiments/#", id));
    v->experiments[v->experiment_count++] = root;
    EBB_TRY(ask(v, m, &root, err, "/experiments/#/trials", id));
    const struct ebb_doc_node *list = ebb_doc_get(root, "trials");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        EBB_TRY(load_trial(v, m, list->items[i], err));
    return EBB_OK;
}

/* ---- tables ---- */

static struct cli_table *experiments_table(const struct view *v)
{
    static const char *const headers[] = {"Experiment ID", "State",       "Progress", "Start Time",
                                          "End Time",      "Description", "Archived", "Labels"};
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    char buf[CLI_CELL];
    for (size_t i = 0; i < v->experiment_count; i++) {
        const struct ebb_doc_node *e = v->experiments[i];
        const struct ebb_doc_node *labels = ebb_doc_get(e, "labels");
        struct ebb_str text;
        ebb_str_init(&text);
        for (size_t k = 0; labels != NULL && k < labels->count; k++)
            ebb_str_printf(&text, "%s%s", k > 0 ? ", " : "",
                           labels->kind == EBB_DOC_MAP ? labels->keys[k]->text
                                                       : labels->items[k]->text);
        cli_table_cell(table, "%lld", (long long)ebb_doc_int(e, "id", 0));
        cli_table_cell(table, "%s", ebb_doc_string(e, "state", ""));
        cli_table_cell(table, "%s", cli_show_percent(e, "progress", buf));
        cli_table_cell(table, "%s", cli_show_time(e, "start_time", buf));
        cli_table_cell(table, "%s", cli_show_time(e, "end_time", buf));
        cli_table_cell(table, "%s", ebb_doc_string(e, "description", ""));
        cli_table_cell(table, "%s", ebb_doc_bool(e, "archived", false) ? "true" : "false");
        cli_table_cell(table, "%s", ebb_str_c(&text));
        ebb_str_fini(&text);
    }
    return table;
}

static struct cli_table *trials_table(const struct view *v)
{
    static const char *const headers[] = {"Trial ID",   "Experiment ID", "State",
                                          "Start Time", "End Time",      "H-Params"};
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    char buf[CLI_CELL];
    for (size_t i = 0; i < v->trial_count; i++) {
        const struct ebb_doc_node *t = v->trials[i];
        struct ebb_str hparams;
        ebb_str_init(&hparams);
        cli_show_json(&hparams, ebb_doc_get(t, "hparams"));
        cli_table_cell(table, "%s", cli_show_number(t, "id", buf));
        cli_table_cell(table, "%s", cli_show_number(t, "experiment_id", buf));
        cli_table_cell(table, "%s", ebb_doc_string(t, "state", ""));
        cli_table_cell(table, "%s", cli_show_time(t, "start_time", buf));
        cli_table_cell(table, "%s", cli_show_time(t, "end_time", buf));
        cli_table_cell(table, "%s", ebb_str_c(&hparams));
        ebb_str_fini(&hparams);
    }
    return table;
}

static void add_state(struct cli_table *table, const struct ebb_doc_node *part)
{
    char buf[CLI_CELL];
    cli_table_cell(table, "%s", ebb_doc_string(part, "state", ""));
    cli_table_cell(table, "%s", cli_show_time(part, "start_time", buf));
    cli_table_cell(table, "%s", cli_show_time(part, "end_time", buf));
}

static void add_metrics(struct cli_table *table, const struct ebb_doc_node *metrics,
                        const char *const *names, size_t count)
{
    char buf[CLI_CELL];
    for (size_t i = 0; i < count; i++)
        cli_table_cell(table, "%s", cli_show_number(metrics, names[i], buf));
}

static struct cli_table *steps_table(const struct view *v, bool has_metrics)
{
    static const char *const fixed[] = {"Trial ID",
                                        "Step ID",
                                        "State",
                                        "Start Time",
                                        "End Time",
                                        "Checkpoint State",
                                        "Checkpoint Start Time",
                                        "Checkpoint End Time",
                                        "Validation State",
                                        "Validation Start Time",
                                        "Validation End Time"};
    size_t training = has_metrics ? v->training_count : 0;
    size_t validation = has_metrics ? v->validation_count : 0, n = 0;
    struct ebb_arena arena; /* of the headers */
    ebb_arena_init(&arena);
    const char **headers = ebb_arena_calloc(&arena, 11 + training + validation, sizeof *headers);
    if (headers == NULL)
        return NULL;
    for (size_t i = 0; i < 5; i++)
        headers[n++] = fixed[i];
    for (size_t i = 0; i < training; i++)
        headers[n++] = ebb_arena_printf(&arena, "Training Metric: %s", v->training[i]);
    for (size_t i = 5; i < 11; i++)
        headers[n++] = fixed[i];
    for (size_t i = 0; i < validation; i++)
        headers[n++] = ebb_arena_printf(&arena, "Validation Metric: %s", v->validation[i]);
    struct cli_table *table = cli_table_create(headers, n);
    ebb_arena_fini(&arena);
    char buf[CLI_CELL];
    for (size_t i = 0; i < v->step_count; i++) {
        const struct ebb_doc_node *s = v->steps[i], *val = ebb_doc_get(s, "validation");
        cli_table_cell(table, "%lld", (long long)v->step_trials[i]);
        cli_table_cell(table, "%s", cli_show_number(s, "step_id", buf));
        add_state(table, s);
        add_metrics(table, cli_step_metrics(s), v->training, training);
        add_state(table, ebb_doc_get(s, "checkpoint"));
        add_state(table, val);
        add_metrics(table, cli_step_metrics(val), v->validation, validation);
    }
    return table;
}

/* ---- output ---- */

static int write_csv(struct cli_table *table, const char *directory, const char *name)
{
    struct ebb_str path;
    struct ebb_file_out out;
    struct ebb_error err = {0};
    ebb_str_init(&path);
    ebb_str_printf(&path, "%s/%s", directory, name);
    enum ebb_status status = ebb_file_mkdirs(directory, &err);
    if (status == EBB_OK)
        status = ebb_file_out_open(&out, ebb_str_c(&path), &err);
    if (status == EBB_OK) {
        cli_table_csv(table, out.stream);
        status = ebb_file_out_commit(&out, &err);
        if (status != EBB_OK)
            ebb_file_out_abort(&out);
    }
    if (status == EBB_OK)
        printf("%s\n", ebb_str_c(&path));
    ebb_str_fini(&path);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int print_tables(const struct view *v, const struct describe_options *o)
{
    static const char *const files[] = {"experiments.csv", "trials.csv", "steps.csv"};
    static const char *const titles[] = {"Experiment", "Trials", "Steps"};
    struct cli_table *tables[] = {experiments_table(v), trials_table(v),
                                  steps_table(v, o->has_metrics)};
    int code = 0;
    for (size_t i = 0; i < 3; i++) {
        if (o->directory != NULL) {
            code = code != 0 ? code : write_csv(tables[i], o->directory, files[i]);
        } else {
            printf("%s%s:\n", i > 0 ? "\n" : "", titles[i]);
            if (o->where.is_csv)
                cli_table_csv(tables[i], stdout);
            else
                cli_table_ruled(tables[i], stdout);
        }
        cli_table_destroy(tables[i]);
    }
    return code;
}

/* One object per experiment: its own keys, and `trials` with `workloads` inside. */
static void print_json(const struct view *v)
{
    for (size_t i = 0; i < v->experiment_count; i++) {
        int64_t id = ebb_doc_int(v->experiments[i], "id", 0);
        struct ebb_str out;
        struct ebb_json_writer w;
        ebb_str_init(&out);
        ebb_jsonw_init(&w, &out, 0);
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "experiment");
        ebb_doc_write_json(v->experiments[i], &w);
        ebb_jsonw_key(&w, "trials");
        ebb_jsonw_array(&w);
        for (size_t k = 0; k < v->trial_count; k++) {
            const struct ebb_doc_node *t = v->trials[k];
            if (ebb_doc_int(t, "experiment_id", id) != id)
                continue;
            ebb_jsonw_object(&w);
            ebb_jsonw_key(&w, "trial");
            ebb_doc_write_json(t, &w);
            ebb_jsonw_key(&w, "workloads");
            ebb_jsonw_array(&w);
            for (size_t s = 0; s < v->step_count; s++)
                if (v->step_trials[s] == ebb_doc_int(t, "id", 0))
                    ebb_doc_write_json(v->steps[s], &w);
            ebb_jsonw_array_end(&w);
            ebb_jsonw_object_end(&w);
        }
        ebb_jsonw_array_end(&w);
        ebb_jsonw_object_end(&w);
        puts(ebb_str_c(&out));
        ebb_str_fini(&out);
    }
}

static int describe(struct cli_master *m, void *context)
{
    const struct describe_options *o = context;
    struct view v = {0};
    struct ebb_error err = {0};
    enum ebb_status status = EBB_OK;
    int code = -1;
    for (const char *at = o->ids; at != NULL && code < 0 && status == EBB_OK;) {
        char text[24] = {0};
        int64_t id = 0;
        size_t n = strcspn(at, ",");
        memcpy(text, at, n < sizeof text ? n : sizeof text - 1);
        code = cli_parse_id("experiment", text, &id);
        if (code < 0)
            status = load_one(&v, m, id, &err);
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    if (status != EBB_OK)
        code = cli_report(&err);
    else if (code < 0 && o->where.is_json)
        print_json(&v);
    else if (code < 0)
        code = print_tables(&v, o);
    view_fini(&v);
    return code < 0 ? 0 : code;
}

int cli_experiment_describe(int argc, char **argv)
{
    struct describe_options o = {0};
    const struct cli_option options[] = {
        {"metrics", 0, CLI_FLAG, &o.has_metrics, NULL, "columns for every metric of every step"},
        {"outdir", 0, CLI_STRING, &o.directory, "DIR",
         "write experiments.csv, trials.csv and steps.csv there"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment describe ID[,ID...] [OPTION...]",
        .description =
            "Everything about experiments: three tables, of the experiments, their trials\n"
            "and all steps with their validations and checkpoints.\n"
            "\n"
            "Examples:\n"
            "  ebb experiment describe 3 --metrics\n"
            "  ebb experiment describe 3,4 --outdir tables",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "one object per experiment, with its trials and their workloads",
        .is_table = true,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    o.ids = args.positional[0];
    code = o.directory != NULL && (o.where.is_csv || o.where.is_json)
               ? cli_usage_error("only one of --csv, --json and --outdir")
               : cli_with_master(&o.where, describe, &o);
    cli_args_fini(&args);
    return code;
}
