/* cmd_experiment_show.c - ebb experiment list, list-trials, config, logs, charts,
 * download-model-def: reading what is there. */
#include "cli/cmd_experiment.h"

#include <string.h>

#include "base/file.h"
#include "cli/charts.h"
#include "cli/json.h"
#include "cli/show.h"

/* ---- list ---- */

static const struct cli_column columns[] = {
    {"ID", "id", CLI_AS_NUMBER, NULL},
    {"Owner", "owner", CLI_AS_TEXT, NULL},
    {"Description", "description", CLI_AS_TEXT, NULL},
    {"State", "state", CLI_AS_TEXT, NULL},
    {"Progress", "progress", CLI_AS_PERCENT, NULL},
    {"Start Time", "start_time", CLI_AS_TIME, NULL},
    {"End Time", "end_time", CLI_AS_TIME, NULL},
    {"Archived", "archived", CLI_AS_BOOL, NULL}, /* with --all */
};

static void add_filter(struct ebb_str *target, const char *name, const char *value)
{
    if (value == NULL)
        return;
    ebb_str_printf(target, "&%s=", name);
    serve_http_escape(target, value);
}

void cli_experiment_print_list(const struct cli_call *c, const struct ebb_doc_node *root)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *list = ebb_doc_get(root, "experiments");
    size_t count = list != NULL ? list->count : 0;
    cli_columns_show(columns, o->is_all ? 8 : 7, list, c->where.is_csv);
    int64_t total = ebb_doc_int(root, "total", (int64_t)count);
    if (!c->where.is_csv && total > (int64_t)count)
        printf("%zu of %lld shown; --limit and --offset show others\n", count, (long long)total);
}

enum ebb_status cli_experiment_list(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *root;
    struct ebb_str target = {0};
    ebb_str_printf(&target, "/experiments?sort=-id&limit=%lld&offset=%lld", (long long)o->limit,
                   (long long)o->offset);
    ebb_str_add(&target, o->is_all ? "&archived=all" : "&mine=true");
    add_filter(&target, "state", o->state);
    add_filter(&target, "label", o->label);
    add_filter(&target, "description", o->description);
    enum ebb_status status = cli_get(c->m, &root, err, "%s", ebb_str_c(&target));
    if (status == EBB_OK)
        cli_verb_print(c, root);
    ebb_str_fini(&target);
    return status;
}

/* ---- list-trials ---- */

/* Why the last process failed, or what it waits for. */
static void show_message(struct ebb_str *out, const struct ebb_doc_node *trial, bool is_csv)
{
    const char *message = ebb_doc_string(trial, "message", "");
    (void)is_csv;
    ebb_str_add(out, message[0] != '\0' ? message : ebb_doc_string(trial, "waiting", ""));
}

static const struct cli_column trial_columns[] = {
    {"Trial ID", "id", CLI_AS_NUMBER, NULL},
    {"State", "state", CLI_AS_TEXT, NULL},
    {"H-Params", "hparams", CLI_AS_JSON, NULL},
    {"Start Time", "start_time", CLI_AS_TIME, NULL},
    {"End Time", "end_time", CLI_AS_TIME, NULL},
    {"# of Steps", "steps", CLI_AS_NUMBER, NULL},
    {"Best", "best_validation", CLI_AS_NUMBER, NULL},
    {"Restarts", "restarts", CLI_AS_NUMBER, NULL},
    {"Message", NULL, CLI_AS_TEXT, show_message},
};

/* Those whose state is asked for. */
static const struct ebb_doc_node *
in_states(struct ebb_arena *arena, const struct ebb_doc_node *list, const struct cli_list *states)
{
    struct ebb_doc_node *found = ebb_doc_new(arena, EBB_DOC_LIST);
    for (size_t i = 0; found != NULL && list != NULL && i < list->count; i++)
        for (size_t k = 0; k < states->count; k++)
            if (strcmp(ebb_doc_string(list->items[i], "state", ""), states->items[k]) == 0 &&
                !ebb_doc_append(arena, found, list->items[i]))
                return NULL;
    return found;
}

static bool are_states(const struct cli_list *states)
{
    static const char names[] = "PENDING ACTIVE COMPLETED CANCELED ERROR";
    for (size_t i = 0; i < states->count; i++)
        if (!ebb_words_find(names, states->items[i], strlen(states->items[i]), NULL))
            return false;
    return true;
}

enum ebb_status cli_experiment_trials(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *root;
    if (!are_states(&o->states))
        return cli_leave(c, cli_usage_error("--filter-state: trials are PENDING, ACTIVE, "
                                            "COMPLETED, CANCELED or ERROR"));
    EBB_TRY(cli_get(c->m, &root, err, "/experiments/%lld/trials", (long long)c->id));
    const struct ebb_doc_node *list = ebb_doc_get(root, "trials");
    if (o->states.count > 0)
        list = in_states(&c->arena, list, &o->states);
    if (c->where.is_json)
        cli_print_list("trials", list);
    else
        cli_columns_show(trial_columns, sizeof trial_columns / sizeof trial_columns[0], list,
                         c->where.is_csv);
    return EBB_OK;
}

/* ---- config ---- */

enum ebb_status cli_experiment_config(struct cli_call *c, struct ebb_error *err)
{
    const struct ebb_doc_node *root;
    EBB_TRY(cli_get(c->m, &root, err, "/experiments/%lld", (long long)c->id));
    const struct ebb_doc_node *config = ebb_doc_get(root, "config");
    if (c->where.is_json && config != NULL)
        cli_print_json(config);
    else
        cli_print_yaml(config);
    return EBB_OK;
}

/* ---- logs ---- */

enum ebb_status cli_experiment_logs(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *experiment, *trials;
    EBB_TRY(cli_get(c->m, &experiment, err, "/experiments/%lld", (long long)c->id));
    EBB_TRY(cli_get(c->m, &trials, err, "/experiments/%lld/trials", (long long)c->id));
    int64_t trial = o->is_best ? ebb_doc_int(experiment, "best_trial_id", 0) : 0;
    const struct ebb_doc_node *list = ebb_doc_get(trials, "trials");
    for (size_t i = 0; trial == 0 && list != NULL && i < list->count; i++)
        trial = ebb_doc_int(list->items[i], "id", 0);
    if (trial == 0)
        return ebb_fail(err, EBB_EINFEASIBLE, "experiment %lld has no trial that has started yet",
                        (long long)c->id);
    return cli_logs_print(c->m, trial, o->tail, o->follows && c->m->own == NULL, c->where.is_json,
                          err);
}

/* ---- charts ---- */

/* Lines of names as {"charts": [...]}. */
static void print_names(const char *names)
{
    struct cli_json json;
    ebb_jsonw_key(cli_json_object(&json), "charts");
    cli_write_lines(&json.w, names);
    cli_json_object_end(&json);
}

enum ebb_status cli_experiment_charts(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const char *directory = o->directory;
    struct ebb_str written = {0};
    if (directory == NULL)
        directory = ebb_arena_printf(&c->arena, "experiment-%lld-charts", (long long)c->id);
    if (directory == NULL)
        return ebb_no_memory(err, 64);
    enum ebb_status status = cli_charts_write(c->m, c->id, directory, &written, err);
    if (status == EBB_OK && c->where.is_json)
        print_names(ebb_str_c(&written));
    else if (status == EBB_OK)
        fputs(ebb_str_c(&written), stdout);
    if (status == EBB_OK && written.length == 0)
        status =
            ebb_fail(err, EBB_EINFEASIBLE, "experiment %lld has no validation yet: nothing to draw",
                     (long long)c->id);
    ebb_str_fini(&written);
    return status;
}

/* ---- download-model-def ---- */

enum ebb_status cli_experiment_model_def(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const char *directory = o->directory != NULL ? o->directory : ".";
    const struct ebb_doc_node *experiment, *ignored;
    struct ebb_str path = {0};
    EBB_TRY(cli_get(c->m, &experiment, err, "/experiments/%lld", (long long)c->id));
    EBB_TRY(cli_get(c->m, &ignored, err, "/experiments/%lld/model_def", (long long)c->id));
    const struct ebb_str *file = cli_last_body(c->m);
    EBB_TRY(ebb_file_mkdirs(directory, err));
    ebb_str_printf(&path, "%s/exp%lld_", directory, (long long)c->id);
    serve_clean_name(&path, ebb_doc_string(experiment, "description", ""));
    ebb_str_add(&path, "_model_def.tar.gz");
    enum ebb_status status =
        ebb_file_write_atomic(ebb_str_c(&path), ebb_str_c(file), file->length, err);
    if (status == EBB_OK && c->where.is_json) {
        struct cli_json json;
        ebb_jsonw_key_string(cli_json_object(&json), "path", ebb_str_c(&path));
        ebb_jsonw_key_uint(&json.w, "bytes", file->length);
        cli_json_object_end(&json);
    } else if (status == EBB_OK) {
        printf("%s\n", ebb_str_c(&path));
    }
    ebb_str_fini(&path);
    return status;
}
