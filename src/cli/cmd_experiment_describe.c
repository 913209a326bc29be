/* cmd_experiment_describe.c - ebb experiment describe: three tables, or files of them. */
#include "cli/cmd_experiment.h"

#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "cli/json.h"
#include "cli/show.h"

struct names { /* sorted, distinct; borrowed */
    const char **items;
    size_t count, capacity;
};

/* Everything the tables need, of all experiments asked for; nodes are the master's answers. */
struct view {
    struct cli_ids ids;
    const struct ebb_doc_node **experiments, **trials, **steps;
    int64_t *step_trials; /* trial of each step */
    size_t experiment_count, experiment_capacity, trial_count, trial_capacity;
    size_t step_count, step_capacity, step_trial_capacity;
    struct names training, validation;
};

static void view_fini(struct view *v)
{
    ebb_free(v->ids.items);
    ebb_free(v->experiments);
    ebb_free(v->trials);
    ebb_free(v->steps);
    ebb_free(v->step_trials);
    ebb_free(v->training.items);
    ebb_free(v->validation.items);
}

/* ---- loading ---- */

static enum ebb_status add_name(struct names *names, const char *name, struct ebb_error *err)
{
    size_t at = 0;
    while (at < names->count && strcmp(names->items[at], name) < 0)
        at++;
    if (at < names->count && strcmp(names->items[at], name) == 0)
        return EBB_OK;
    EBB_TRY(ebb_grow(&names->items, &names->capacity, names->count + 1, sizeof *names->items, err));
    memmove(names->items + at + 1, names->items + at, (names->count - at) * sizeof *names->items);
    names->items[at] = name;
    names->count++;
    return EBB_OK;
}

static enum ebb_status add_names(struct names *names, const struct ebb_doc_node *metrics,
                                 struct ebb_error *err)
{
    for (size_t i = 0; metrics != NULL && metrics->kind == EBB_DOC_MAP && i < metrics->count; i++)
        EBB_TRY(add_name(names, metrics->keys[i]->text, err));
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
    EBB_TRY(add_names(&v->training, cli_step_metrics(step), err));
    return add_names(&v->validation, cli_step_metrics(ebb_doc_get(step, "validation")), err);
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
    EBB_TRY(cli_get(m, &root, err, "/trials/%lld/workloads", (long long)id));
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
    EBB_TRY(cli_get(m, &root, err, "/experiments/%lld", (long long)id));
    v->experiments[v->experiment_count++] = root;
    EBB_TRY(cli_get(m, &root, err, "/experiments/%lld/trials", (long long)id));
    const struct ebb_doc_node *list = ebb_doc_get(root, "trials");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        EBB_TRY(load_trial(v, m, list->items[i], err));
    return EBB_OK;
}

/* ---- tables ---- */

static void show_labels(struct ebb_str *out, const struct ebb_doc_node *labels, bool is_csv)
{
    (void)is_csv;
    for (size_t k = 0; labels != NULL && k < labels->count; k++)
        ebb_str_printf(out, "%s%s", k > 0 ? ", " : "",
                       labels->kind == EBB_DOC_MAP ? labels->keys[k]->text
                                                   : labels->items[k]->text);
}

static const struct cli_column experiment_columns[] = {
    {"Experiment ID", "id", CLI_AS_NUMBER, NULL},
    {"State", "state", CLI_AS_TEXT, NULL},
    {"Progress", "progress", CLI_AS_PERCENT, NULL},
    {"Start Time", "start_time", CLI_AS_TIME, NULL},
    {"End Time", "end_time", CLI_AS_TIME, NULL},
    {"Description", "description", CLI_AS_TEXT, NULL},
    {"Archived", "archived", CLI_AS_BOOL, NULL},
    {"Labels", "labels", CLI_AS_TEXT, show_labels},
};

static const struct cli_column trial_columns[] = {
    {"Trial ID", "id", CLI_AS_NUMBER, NULL},
    {"Experiment ID", "experiment_id", CLI_AS_NUMBER, NULL},
    {"State", "state", CLI_AS_TEXT, NULL},
    {"Start Time", "start_time", CLI_AS_TIME, NULL},
    {"End Time", "end_time", CLI_AS_TIME, NULL},
    {"H-Params", "hparams", CLI_AS_JSON, NULL},
};

static const struct cli_column step_columns[] = {
    {"Step ID", "step_id", CLI_AS_NUMBER, NULL},
    {"State", "state", CLI_AS_TEXT, NULL},
    {"Start Time", "start_time", CLI_AS_TIME, NULL},
    {"End Time", "end_time", CLI_AS_TIME, NULL}, /* training metrics come here */
    {"Checkpoint State", "checkpoint.state", CLI_AS_TEXT, NULL},
    {"Checkpoint Start Time", "checkpoint.start_time", CLI_AS_TIME, NULL},
    {"Checkpoint End Time", "checkpoint.end_time", CLI_AS_TIME, NULL},
    {"Validation State", "validation.state", CLI_AS_TEXT, NULL},
    {"Validation Start Time", "validation.start_time", CLI_AS_TIME, NULL},
    {"Validation End Time", "validation.end_time", CLI_AS_TIME, NULL}, /* validation metrics */
};
#define STEP_COLUMNS (sizeof step_columns / sizeof step_columns[0])
#define OF_STEP 4 /* of those */

static struct cli_table *make_table(const struct cli_column *columns, size_t count,
                                    const struct ebb_doc_node **rows, size_t row_count)
{
    struct cli_table *table = cli_columns_table(columns, count);
    for (size_t i = 0; i < row_count; i++)
        cli_columns_add(table, columns, count, rows[i], true);
    return table;
}

static void add_metrics(struct cli_table *table, const struct ebb_doc_node *metrics,
                        const struct names *names, bool has_metrics)
{
    char buf[CLI_CELL];
    for (size_t i = 0; has_metrics && i < names->count; i++)
        cli_table_cell(table, "%s", cli_show_number(ebb_doc_get(metrics, names->items[i]), buf));
}

/* Headers: trial, those of the step, its metrics, those of checkpoint and validation, its metrics.
 */
static struct cli_table *create_steps(struct ebb_arena *arena, const struct view *v,
                                      bool has_metrics)
{
    size_t training = has_metrics ? v->training.count : 0;
    size_t validation = has_metrics ? v->validation.count : 0, n = 0;
    const char **headers =
        ebb_arena_calloc(arena, 1 + STEP_COLUMNS + training + validation, sizeof *headers);
    if (headers == NULL)
        return NULL;
    headers[n++] = "Trial ID";
    for (size_t i = 0; i < OF_STEP; i++)
        headers[n++] = step_columns[i].header;
    for (size_t i = 0; i < training; i++)
        headers[n++] = ebb_arena_printf(arena, "Training Metric: %s", v->training.items[i]);
    for (size_t i = OF_STEP; i < STEP_COLUMNS; i++)
        headers[n++] = step_columns[i].header;
    for (size_t i = 0; i < validation; i++)
        headers[n++] = ebb_arena_printf(arena, "Validation Metric: %s", v->validation.items[i]);
    return cli_table_create(headers, n);
}

static struct cli_table *steps_table(struct ebb_arena *arena, const struct view *v,
                                     bool has_metrics)
{
    struct cli_table *table = create_steps(arena, v, has_metrics);
    for (size_t i = 0; i < v->step_count; i++) {
        const struct ebb_doc_node *s = v->steps[i];
        cli_table_cell(table, "%lld", (long long)v->step_trials[i]);
        cli_columns_add(table, step_columns, OF_STEP, s, true);
        add_metrics(table, cli_step_metrics(s), &v->training, has_metrics);
        cli_columns_add(table, step_columns + OF_STEP, STEP_COLUMNS - OF_STEP, s, true);
        add_metrics(table, cli_step_metrics(ebb_doc_get(s, "validation")), &v->validation,
                    has_metrics);
    }
    return table;
}

/* ---- output ---- */

static enum ebb_status write_csv(struct cli_table *table, const char *directory, const char *name,
                                 struct ebb_error *err)
{
    struct ebb_str path = {0};
    struct ebb_file_out out;
    ebb_str_printf(&path, "%s/%s", directory, name);
    enum ebb_status status = ebb_file_mkdirs(directory, err);
    EBB_THEN(status, ebb_file_out_open(&out, ebb_str_c(&path), err));
    if (status == EBB_OK) {
        cli_table_csv(table, out.stream);
        status = ebb_file_out_commit(&out, err);
        if (status != EBB_OK)
            ebb_file_out_abort(&out);
    }
    if (status == EBB_OK)
        printf("%s\n", ebb_str_c(&path));
    ebb_str_fini(&path);
    return status;
}

/* What the stores of experiments do not have yet, and why. */
static void print_uploads(const struct view *v)
{
    bool is_first = true;
    for (size_t i = 0; i < v->experiment_count; i++) {
        struct ebb_str text = {0};
        const struct ebb_doc_node *uploads = ebb_doc_get(v->experiments[i], "uploads");
        if (uploads == NULL)
            continue;
        cli_show_uploads(uploads, &text);
        printf("%sExperiment %lld: %s\n", is_first ? "\nUploads:\n" : "",
               (long long)ebb_doc_int(v->experiments[i], "id", 0), ebb_str_c(&text));
        ebb_str_fini(&text);
        is_first = false;
    }
}

static enum ebb_status print_tables(struct cli_call *c, const struct view *v, struct ebb_error *err)
{
    static const char *const files[] = {"experiments.csv", "trials.csv", "steps.csv"};
    static const char *const titles[] = {"Experiment", "Trials", "Steps"};
    const struct cli_experiment_options *o = c->options;
    struct cli_table *tables[] = {
        make_table(experiment_columns, sizeof experiment_columns / sizeof experiment_columns[0],
                   v->experiments, v->experiment_count),
        make_table(trial_columns, sizeof trial_columns / sizeof trial_columns[0], v->trials,
                   v->trial_count),
        steps_table(&c->arena, v, o->has_metrics)};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < 3; i++) {
        if (o->directory == NULL) {
            printf("%s%s:\n", i > 0 ? "\n" : "", titles[i]);
            cli_table_show(tables[i], c->where.is_csv);
            continue;
        }
        EBB_THEN(status, write_csv(tables[i], o->directory, files[i], err));
        cli_table_destroy(tables[i]);
    }
    if (o->directory == NULL && !c->where.is_csv)
        print_uploads(v);
    return status;
}

/* One object per experiment: its own keys, and `trials` with `workloads` inside. */
static void print_json(const struct view *v)
{
    for (size_t i = 0; i < v->experiment_count; i++) {
        int64_t id = ebb_doc_int(v->experiments[i], "id", 0);
        struct cli_json json;
        struct ebb_json_writer *w = cli_json_object(&json);
        ebb_doc_write_key(v->experiments[i], w, "experiment");
        ebb_jsonw_key_array(w, "trials");
        for (size_t k = 0; k < v->trial_count; k++) {
            const struct ebb_doc_node *t = v->trials[k];
            if (ebb_doc_int(t, "experiment_id", id) != id)
                continue;
            ebb_jsonw_object(w);
            ebb_doc_write_key(t, w, "trial");
            ebb_jsonw_key_array(w, "workloads");
            for (size_t s = 0; s < v->step_count; s++)
                if (v->step_trials[s] == ebb_doc_int(t, "id", 0))
                    ebb_doc_write_json(v->steps[s], w);
            ebb_jsonw_array_end(w);
            ebb_jsonw_object_end(w);
        }
        ebb_jsonw_array_end(w);
        cli_json_object_end(&json);
    }
}

/* "3,5": each of them loaded; c->code says when one is no number. */
static enum ebb_status load(struct cli_call *c, struct view *v, struct ebb_error *err)
{
    int code = cli_parse_ids("experiment", c->words[0], &v->ids);
    if (code >= 0)
        return cli_leave(c, code);
    for (size_t i = 0; i < v->ids.count; i++)
        EBB_TRY(load_one(v, c->m, v->ids.items[i], err));
    return EBB_OK;
}

enum ebb_status cli_experiment_describe(struct cli_call *c, struct ebb_error *err)
{
    struct view v = {0};
    enum ebb_status status = load(c, &v, err);
    if (status == EBB_OK && c->code == 0 && c->where.is_json)
        print_json(&v);
    else if (status == EBB_OK && c->code == 0)
        status = print_tables(c, &v, err);
    view_fini(&v);
    return status;
}

int cli_experiment_check_describe(struct cli_call *c)
{
    const struct cli_experiment_options *o = c->options;
    return o->directory != NULL && (c->where.is_csv || c->where.is_json)
               ? cli_usage_error("only one of --csv, --json and --outdir")
               : -1;
}
