/* cmd_experiment_checkpoints.c - ebb experiment list-checkpoints, and the table that other commands
 * show checkpoints with. */
#include "cli/cmd_experiment.h"

#include <string.h>

#include "cli/show.h"

#define RESOURCES_WIDTH 48 /* columns for names of files */
#define NO_BEST INT64_MAX

struct checkpoints_options {
    struct cli_where where;
    int64_t id, best;
    const char *directory;
};

/* Names of the files, as far as a line has room; all of them in CSV. */
static void show_resources(struct cli_table *table, const struct ebb_doc_node *map, bool is_csv)
{
    struct ebb_str text;
    size_t count = 0, shown = 0;
    ebb_str_init(&text);
    for (size_t i = 0; map != NULL && map->kind == EBB_DOC_MAP && i < map->count; i++) {
        const char *name = map->keys[i]->text;
        size_t n = strlen(name);
        if (n > 0 && name[n - 1] == '/')
            continue; /* its files say it */
        count++;
        if (!is_csv && shown > 0 && text.length + n > RESOURCES_WIDTH)
            continue;
        ebb_str_printf(&text, "%s%s", shown++ > 0 ? ", " : "", name);
    }
    if (shown < count)
        ebb_str_printf(&text, ", %zu more", count - shown);
    cli_table_cell(table, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
}

void cli_checkpoints_print(const struct ebb_doc_node *list, const char *metric, bool is_csv)
{
    char name[CLI_CELL + 32];
    snprintf(name, sizeof name, "Validation Metric (%.64s)", metric != NULL ? metric : "");
    const char *const headers[] = {
        "Trial ID", "Step ID",   "State", metric != NULL ? name : "Validation Metric",
        "UUID",     "Resources", "Size"};
    struct cli_table *table = cli_table_create(headers, metric != NULL ? 6 : 7);
    char buf[CLI_CELL];
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *c = list->items[i];
        cli_table_cell(table, "%s", cli_show_number(c, "trial_id", buf));
        cli_table_cell(table, "%s", cli_show_number(c, "step_id", buf));
        cli_table_cell(table, "%s", ebb_doc_string(c, "state", ""));
        cli_table_cell(table, "%s", cli_show_number(c, "metric", buf));
        cli_table_cell(table, "%s", ebb_doc_string(c, "uuid", ""));
        show_resources(table, ebb_doc_get(c, "resources"), is_csv);
        if (metric == NULL)
            cli_table_cell(table, "%s", cli_show_bytes(c, "size", buf));
    }
    cli_table_show(table, is_csv);
}

/* The best `max`: those that are there and have a validation; the list is in that order. */
static const struct ebb_doc_node *best_of(struct ebb_arena *arena, const struct ebb_doc_node *list,
                                          int64_t max)
{
    struct ebb_doc_node *best = ebb_doc_new(arena, EBB_DOC_LIST);
    for (size_t i = 0; best != NULL && list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *metric = ebb_doc_get(list->items[i], "metric");
        if (strcmp(ebb_doc_string(list->items[i], "state", ""), "COMPLETED") == 0 &&
            metric != NULL && metric->kind != EBB_DOC_NULL && (int64_t)best->count < max &&
            !ebb_doc_append(arena, best, list->items[i]))
            return NULL;
    }
    return best;
}

static enum ebb_status download_all(const struct ebb_doc_node *list, const char *directory,
                                    int64_t experiment, bool is_json, struct ebb_error *err)
{
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *c = list->items[i];
        if (strcmp(ebb_doc_string(c, "state", ""), "COMPLETED") != 0)
            continue;
        struct ebb_str target;
        ebb_str_init(&target);
        ebb_str_printf(&target, "%s/exp-%lld-trial-%lld-step-%lld", directory,
                       (long long)experiment, (long long)ebb_doc_int(c, "trial_id", 0),
                       (long long)ebb_doc_int(c, "step_id", 0));
        enum ebb_status status = cli_checkpoint_copy(c, ebb_str_c(&target), err);
        if (status == EBB_OK)
            fprintf(is_json ? stderr : stdout, "%s\n", ebb_str_c(&target));
        ebb_str_fini(&target);
        EBB_TRY(status);
    }
    return EBB_OK;
}

static int list_checkpoints(struct cli_master *m, void *context)
{
    const struct checkpoints_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    int code = 0;
    enum ebb_status status =
        cli_ask(m, &answer, &err, "GET", NULL, "/experiments/%lld/checkpoints", (long long)o->id);
    const struct ebb_doc_node *list = ebb_doc_get(answer.root, "checkpoints");
    if (status == EBB_OK && o->best != NO_BEST)
        list = best_of(&answer.arena, list, o->best);
    if (status == EBB_OK && o->where.is_json)
        cli_print_list("checkpoints", list);
    else if (status == EBB_OK)
        cli_checkpoints_print(list, NULL, o->where.is_csv);
    if (status == EBB_OK && o->directory != NULL)
        status = download_all(list, o->directory, o->id, o->where.is_json, &err);
    if (status != EBB_OK)
        code = cli_report(&err);
    cli_answer_fini(&answer);
    return code;
}

int cli_experiment_checkpoints(int argc, char **argv)
{
    struct checkpoints_options o = {.best = NO_BEST};
    const struct cli_option options[] = {
        {"best", 0, CLI_INT, &o.best, "N",
         "only the N best by the searcher's metric, of those that are there"},
        {"download-dir", 'd', CLI_STRING, &o.directory, "DIR",
         "copy them to DIR/exp-E-trial-T-step-S"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment list-checkpoints ID [OPTION...]",
        .description = "Checkpoints of an experiment, the best first, those without a validation\n"
                       "last. Short form: lc.\n"
                       "\n"
                       "Example:\n"
                       "  ebb experiment list-checkpoints 3 --best 1 --download-dir best",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        CLI_LIMITS({"best", 1, 1e9}),
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .is_table = true,
    };
    return cli_with_id(&spec, argc, argv, "experiment", &o.id, &o.where, list_checkpoints, &o);
}
