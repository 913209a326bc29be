/* cmd_experiment_show.c - ebb experiment list, list-trials, config, logs, charts,
 * download-model-def: reading what is there. */
#include "cli/cmd_experiment.h"

#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "cli/charts.h"
#include "cli/show.h"

/* ---- list ---- */

struct list_options {
    struct cli_where where;
    bool is_all;
    int64_t limit, offset;
    const char *state, *label, *description;
};

static void add_filter(struct ebb_str *target, const char *name, const char *value)
{
    if (value == NULL)
        return;
    ebb_str_printf(target, "&%s=", name);
    serve_http_escape(target, value);
}

static void print_list(const struct ebb_doc_node *root, const struct list_options *o)
{
    static const char *const headers[] = {"ID",       "Owner",      "Description", "State",
                                          "Progress", "Start Time", "End Time",    "Archived"};
    const struct ebb_doc_node *list = ebb_doc_get(root, "experiments");
    struct cli_table *table = cli_table_create(headers, o->is_all ? 8 : 7);
    char buf[CLI_CELL];
    size_t count = list != NULL ? list->count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct ebb_doc_node *e = list->items[i];
        cli_table_cell(table, "%lld", (long long)ebb_doc_int(e, "id", 0));
        cli_table_cell(table, "%s", ebb_doc_string(e, "owner", ""));
        cli_table_cell(table, "%s", ebb_doc_string(e, "description", ""));
        cli_table_cell(table, "%s", ebb_doc_string(e, "state", ""));
        cli_table_cell(table, "%s", cli_show_percent(e, "progress", buf));
        cli_table_cell(table, "%s", cli_show_time(e, "start_time", buf));
        cli_table_cell(table, "%s", cli_show_time(e, "end_time", buf));
        if (o->is_all)
            cli_table_cell(table, "%s", ebb_doc_bool(e, "archived", false) ? "true" : "false");
    }
    cli_table_show(table, o->where.is_csv);
    int64_t total = ebb_doc_int(root, "total", (int64_t)count);
    if (!o->where.is_csv && total > (int64_t)count)
        printf("%zu of %lld shown; --limit and --offset show others\n", count, (long long)total);
}

static int list_experiments(struct cli_master *m, void *context)
{
    const struct list_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    struct ebb_str target;
    ebb_str_init(&target);
    ebb_str_printf(&target, "/experiments?sort=-id&limit=%lld&offset=%lld", (long long)o->limit,
                   (long long)o->offset);
    ebb_str_add(&target, o->is_all ? "&archived=all" : "&mine=true");
    add_filter(&target, "state", o->state);
    add_filter(&target, "label", o->label);
    add_filter(&target, "description", o->description);
    enum ebb_status status = cli_ask(m, &answer, &err, "GET", NULL, "%s", ebb_str_c(&target));
    int code = 0;
    if (status != EBB_OK)
        code = cli_report(&err);
    else if (o->where.is_json)
        cli_print_body(&answer.response.body);
    else
        print_list(answer.root, o);
    cli_answer_fini(&answer);
    ebb_str_fini(&target);
    return code;
}

int cli_experiment_list(int argc, char **argv)
{
    struct list_options o = {.limit = 50};
    const struct cli_option options[] = {
        {"all", 'a', CLI_FLAG, &o.is_all, NULL, "archived ones and other users', too"},
        {"limit", 'n', CLI_INT, &o.limit, "N", "at most this many, newest first; default 50"},
        {"offset", 0, CLI_INT, &o.offset, "N", "leave out the newest N"},
        {"filter-state", 0, CLI_STRING, &o.state, "S[,S...]",
         "only in these states: ACTIVE, PAUSED, ..."},
        {"label", 0, CLI_STRING, &o.label, "LABEL", "only with this label"},
        {"description", 0, CLI_STRING, &o.description, "TEXT",
         "only if the description has this text"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment list [OPTION...]",
        .description =
            "List your experiments that are not archived, the newest first. A missing verb means\n"
            "list: 'ebb e'. Whose they are: -u, or 'ebb user whoami'.\n"
            "\n"
            "Examples:\n"
            "  ebb experiment list --filter-state ACTIVE,PAUSED\n"
            "  ebb experiment list --json | jq '.experiments[].best_metric'",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        CLI_LIMITS({"limit", 1, 1e9}, {"offset", 0, 1e9}),
        .where = &o.where,
        .is_table = true,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    code = cli_with_master(&o.where, list_experiments, &o);
    cli_args_fini(&args);
    return code;
}

/* ---- verbs with one experiment: parsing and frame ---- */

struct one_options {
    struct cli_where where;
    int64_t id, tail;
    bool follows, is_best;
    const char *directory;
    struct cli_list states;
};

/* Parse options, take the ID, ask. */
static int with_one(const struct cli_spec *spec, int argc, char **argv, struct one_options *o,
                    int (*what)(struct cli_master *m, void *context))
{
    return cli_with_id(spec, argc, argv, "experiment", &o->id, &o->where, what, o);
}

/* ---- list-trials ---- */

static void print_trials(const struct ebb_doc_node *list, bool is_csv)
{
    static const char *const headers[] = {"Trial ID",   "State",    "H-Params",
                                          "Start Time", "End Time", "# of Steps",
                                          "Best",       "Restarts", "Message"};
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    char buf[CLI_CELL];
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *t = list->items[i];
        struct ebb_str hparams;
        ebb_str_init(&hparams);
        cli_show_json(&hparams, ebb_doc_get(t, "hparams"));
        cli_table_cell(table, "%s", cli_show_number(t, "id", buf));
        cli_table_cell(table, "%s", ebb_doc_string(t, "state", ""));
        cli_table_cell(table, "%s", ebb_str_c(&hparams));
        cli_table_cell(table, "%s", cli_show_time(t, "start_time", buf));
        cli_table_cell(table, "%s", cli_show_time(t, "end_time", buf));
        cli_table_cell(table, "%s", cli_show_number(t, "steps", buf));
        cli_table_cell(table, "%s", cli_show_number(t, "best_validation", buf));
        cli_table_cell(table, "%s", cli_show_number(t, "restarts", buf));
        const char *message = ebb_doc_string(t, "message", "");
        cli_table_cell(table, "%s",
                       message[0] != '\0' ? message : ebb_doc_string(t, "waiting", ""));
        ebb_str_fini(&hparams);
    }
    cli_table_show(table, is_csv);
}

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
    static const char *const names[] = {"PENDING", "ACTIVE", "COMPLETED", "CANCELED", "ERROR"};
    for (size_t i = 0; i < states->count; i++) {
        bool is_known = false;
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            is_known = is_known || strcmp(states->items[i], names[k]) == 0;
        if (!is_known)
            return false;
    }
    return true;
}

static int list_trials(struct cli_master *m, void *context)
{
    const struct one_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    int code = 0;
    if (!are_states(&o->states))
        return cli_usage_error("--filter-state: trials are PENDING, ACTIVE, COMPLETED, CANCELED or "
                               "ERROR");
    if (cli_ask(m, &answer, &err, "GET", NULL, "/experiments/%lld/trials", (long long)o->id) !=
        EBB_OK)
        code = cli_report(&err);
    const struct ebb_doc_node *list = ebb_doc_get(answer.root, "trials");
    if (code == 0 && o->states.count > 0)
        list = in_states(&answer.arena, list, &o->states);
    if (code == 0 && o->where.is_json)
        cli_print_list("trials", list);
    else if (code == 0)
        print_trials(list, o->where.is_csv);
    cli_answer_fini(&answer);
    return code;
}

int cli_experiment_trials(int argc, char **argv)
{
    struct one_options o = {0};
    const struct cli_option options[] = {
        {"filter-state", 0, CLI_LIST, &o.states, "S[,S...]",
         "only in these states: PENDING, ACTIVE, ERROR, ..."},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment list-trials ID [OPTION...]",
        .description =
            "The trials of an experiment, with hyperparameters, best validation and why the last\n"
            "process failed or what a trial waits for. Short form: lt.\n"
            "\n"
            "Examples:\n"
            "  ebb experiment list-trials 3 --csv > trials.csv\n"
            "  ebb experiment list-trials 3 --filter-state ERROR",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .is_table = true,
    };
    return with_one(&spec, argc, argv, &o, list_trials);
}

/* ---- config ---- */

static int show_config(struct cli_master *m, void *context)
{
    const struct one_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    struct ebb_str text;
    int code = 0;
    ebb_str_init(&text);
    if (cli_ask(m, &answer, &err, "GET", NULL, "/experiments/%lld", (long long)o->id) != EBB_OK) {
        code = cli_report(&err);
    } else {
        const struct ebb_doc_node *config = ebb_doc_get(answer.root, "config");
        if (config != NULL && o->where.is_json) {
            cli_show_json(&text, config);
            ebb_str_addc(&text, '\n');
        } else if (config != NULL) {
            cli_show_yaml(&text, config, 0);
        }
        fputs(ebb_str_c(&text), stdout);
    }
    ebb_str_fini(&text);
    cli_answer_fini(&answer);
    return code;
}

int cli_experiment_config(int argc, char **argv)
{
    struct one_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb experiment config ID [OPTION...]",
        .description =
            "The configuration an experiment runs with, as YAML: template merged, every\n"
            "default written out, secrets as ********. It can be submitted again.\n"
            "\n"
            "Example:\n"
            "  ebb experiment config 3 > again.yaml",
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "as JSON instead of YAML",
    };
    return with_one(&spec, argc, argv, &o, show_config);
}

/* ---- logs ---- */

static int show_logs(struct cli_master *m, void *context)
{
    const struct one_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0}, trials = {0};
    int64_t trial = 0;
    enum ebb_status status =
        cli_ask(m, &answer, &err, "GET", NULL, "/experiments/%lld", (long long)o->id);
    if (status == EBB_OK)
        status =
            cli_ask(m, &trials, &err, "GET", NULL, "/experiments/%lld/trials", (long long)o->id);
    if (status == EBB_OK && o->is_best)
        trial = ebb_doc_int(answer.root, "best_trial_id", 0);
    const struct ebb_doc_node *list = ebb_doc_get(trials.root, "trials");
    for (size_t i = 0; trial == 0 && list != NULL && i < list->count; i++)
        trial = ebb_doc_int(list->items[i], "id", 0);
    if (status == EBB_OK && trial == 0)
        status = ebb_fail(&err, EBB_EINFEASIBLE,
                          "experiment %lld has no trial that has started yet", (long long)o->id);
    if (status == EBB_OK)
        status =
            cli_logs_print(m, trial, o->tail, o->follows && m->own == NULL, o->where.is_json, &err);
    cli_answer_fini(&answer);
    cli_answer_fini(&trials);
    return status == EBB_OK ? 0 : cli_report(&err);
}

int cli_experiment_logs(int argc, char **argv)
{
    struct one_options o = {.tail = CLI_TAIL_ALL};
    const struct cli_option options[] = {
        {"best", 0, CLI_FLAG, &o.is_best, NULL, "of the best trial so far instead of the first"},
        {"follow", 'f', CLI_FLAG, &o.follows, NULL, "go on until the trial has ended"},
        {"tail", 0, CLI_INT, &o.tail, "N", "only the last N lines"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment logs ID [OPTION...]",
        .description = "What the first trial of an experiment (or the best) wrote to stdout and\n"
                       "stderr. 'ebb trial logs ID' prints those of any trial.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        CLI_LIMITS({"tail", 0, 1e9}),
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "one JSON object per line of the log",
    };
    return with_one(&spec, argc, argv, &o, show_logs);
}

/* ---- charts ---- */

static int write_charts(struct cli_master *m, void *context)
{
    const struct one_options *o = context;
    struct ebb_error err = {0};
    struct ebb_str written, directory;
    ebb_str_init(&written);
    ebb_str_init(&directory);
    if (o->directory != NULL)
        ebb_str_add(&directory, o->directory);
    else
        ebb_str_printf(&directory, "experiment-%lld-charts", (long long)o->id);
    enum ebb_status status = cli_charts_write(m, o->id, ebb_str_c(&directory), &written, &err);
    if (status == EBB_OK && o->where.is_json) {
        struct ebb_str out;
        struct ebb_json_writer w;
        ebb_str_init(&out);
        ebb_jsonw_init(&w, &out, 0);
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "charts");
        ebb_jsonw_array(&w);
        for (const char *at = ebb_str_c(&written); *at != '\0';) {
            size_t n = strcspn(at, "\n");
            ebb_jsonw_stringn(&w, at, n);
            at += n + (at[n] == '\n');
        }
        ebb_jsonw_array_end(&w);
        ebb_jsonw_object_end(&w);
        puts(ebb_str_c(&out));
        ebb_str_fini(&out);
    } else if (status == EBB_OK) {
        fputs(ebb_str_c(&written), stdout);
    }
    if (status == EBB_OK && written.length == 0)
        status =
            ebb_fail(&err, EBB_EINFEASIBLE,
                     "experiment %lld has no validation yet: nothing to draw", (long long)o->id);
    ebb_str_fini(&written);
    ebb_str_fini(&directory);
    return status == EBB_OK ? 0 : cli_report(&err);
}

int cli_experiment_charts(int argc, char **argv)
{
    struct one_options o = {0};
    const struct cli_option options[] = {
        {"output", 'o', CLI_STRING, &o.directory, "DIR", "default experiment-ID-charts"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment charts ID [OPTION...]",
        .description =
            "Draw learning curves and parallel coordinates (one line per trial, one axis\n"
            "per hyperparameter) as SVG and PNG. Works while the experiment runs.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "names of the files as JSON",
    };
    return with_one(&spec, argc, argv, &o, write_charts);
}

/* ---- download-model-def ---- */

/* Characters of file names that every system takes; at most 50. */
static void clean_name(struct ebb_str *out, const char *text)
{
    static const char others[] = "_ -()[].{}";
    size_t n = 0;
    for (; *text != '\0' && n < 50; text++) {
        char c = *text;
        bool is_kept = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       strchr(others, c) != NULL;
        if (is_kept) {
            ebb_str_addc(out, c);
            n++;
        }
    }
}

static int download_definition(struct cli_master *m, void *context)
{
    const struct one_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer experiment = {0}, file = {0};
    struct ebb_str path;
    ebb_str_init(&path);
    enum ebb_status status =
        cli_ask(m, &experiment, &err, "GET", NULL, "/experiments/%lld", (long long)o->id);
    if (status == EBB_OK)
        status =
            cli_ask(m, &file, &err, "GET", NULL, "/experiments/%lld/model_def", (long long)o->id);
    if (status == EBB_OK) {
        const char *directory = o->directory != NULL ? o->directory : ".";
        ebb_str_printf(&path, "%s/exp%lld_", directory, (long long)o->id);
        clean_name(&path, ebb_doc_string(experiment.root, "description", ""));
        ebb_str_add(&path, "_model_def.tar.gz");
        status = ebb_file_mkdirs(directory, &err);
    }
    if (status == EBB_OK)
        status = ebb_file_write_atomic(ebb_str_c(&path), ebb_str_c(&file.response.body),
                                       file.response.body.length, &err);
    if (status == EBB_OK && o->where.is_json) {
        struct ebb_str out;
        struct ebb_json_writer w;
        ebb_str_init(&out);
        ebb_jsonw_init(&w, &out, 0);
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "path");
        ebb_jsonw_string(&w, ebb_str_c(&path));
        ebb_jsonw_key(&w, "bytes");
        ebb_jsonw_uint(&w, file.response.body.length);
        ebb_jsonw_object_end(&w);
        puts(ebb_str_c(&out));
        ebb_str_fini(&out);
    } else if (status == EBB_OK) {
        printf("%s\n", ebb_str_c(&path));
    }
    ebb_str_fini(&path);
    cli_answer_fini(&experiment);
    cli_answer_fini(&file);
    return status == EBB_OK ? 0 : cli_report(&err);
}

int cli_experiment_model_def(int argc, char **argv)
{
    struct one_options o = {0};
    const struct cli_option options[] = {
        {"output-dir", 'o', CLI_STRING, &o.directory, "DIR", "default: here"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment download-model-def ID [OPTION...]",
        .description = "Write the model definition an experiment was made with as\n"
                       "expID_DESCRIPTION_model_def.tar.gz.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "name and size as JSON",
    };
    return with_one(&spec, argc, argv, &o, download_definition);
}
