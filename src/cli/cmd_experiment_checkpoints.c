/* cmd_experiment_checkpoints.c - ebb experiment list-checkpoints, and the table that other commands
 * show checkpoints with. */
#include "cli/cmd_experiment.h"

#include <string.h>

#include "cli/show.h"

#define RESOURCES_WIDTH 48 /* columns for names of files */

/* Names of the files, as far as a line has room; all of them in CSV. */
static void show_resources(struct ebb_str *out, const struct ebb_doc_node *map, bool is_csv)
{
    size_t count = 0, shown = 0;
    for (size_t i = 0; map != NULL && map->kind == EBB_DOC_MAP && i < map->count; i++) {
        const char *name = map->keys[i]->text;
        size_t n = strlen(name);
        if (n > 0 && name[n - 1] == '/')
            continue; /* its files say it */
        count++;
        if (!is_csv && shown > 0 && out->length + n > RESOURCES_WIDTH)
            continue;
        ebb_str_printf(out, "%s%s", shown++ > 0 ? ", " : "", name);
    }
    if (shown < count)
        ebb_str_printf(out, ", %zu more", count - shown);
}

void cli_checkpoints_print(const struct ebb_doc_node *list, const char *metric, bool is_csv)
{
    char name[CLI_CELL + 32];
    snprintf(name, sizeof name, "Validation Metric (%.64s)", metric != NULL ? metric : "");
    const struct cli_column columns[] = {
        {"Trial ID", "trial_id", CLI_AS_NUMBER, NULL},
        {"Step ID", "step_id", CLI_AS_NUMBER, NULL},
        {"State", "state", CLI_AS_TEXT, NULL},
        {metric != NULL ? name : "Validation Metric", "metric", CLI_AS_NUMBER, NULL},
        {"UUID", "uuid", CLI_AS_TEXT, NULL},
        {"Resources", "resources", CLI_AS_TEXT, show_resources},
        {"Size", "size", CLI_AS_BYTES, NULL},
    };
    cli_columns_show(columns, metric != NULL ? 6 : 7, list, is_csv);
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

/* Those that are there before those that are gone; each part in the order of the answer. */
static const struct ebb_doc_node *live_first(struct ebb_arena *arena,
                                             const struct ebb_doc_node *list)
{
    struct ebb_doc_node *sorted = ebb_doc_new(arena, EBB_DOC_LIST);
    for (int is_gone = 0; is_gone < 2; is_gone++)
        for (size_t i = 0; sorted != NULL && list != NULL && i < list->count; i++) {
            const char *state = ebb_doc_string(list->items[i], "state", "");
            if ((strcmp(state, "DELETED") == 0) == (is_gone == 1) &&
                !ebb_doc_append(arena, sorted, list->items[i]))
                return list;
        }
    return sorted != NULL ? sorted : list;
}

static enum ebb_status download_all(struct cli_call *call, const struct ebb_doc_node *list,
                                    const char *directory, struct ebb_error *err)
{
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *c = list->items[i];
        if (strcmp(ebb_doc_string(c, "state", ""), "COMPLETED") != 0)
            continue;
        struct ebb_str target = {0};
        ebb_str_printf(&target, "%s/exp-%lld-trial-%lld-step-%lld", directory, (long long)call->id,
                       (long long)ebb_doc_int(c, "trial_id", 0),
                       (long long)ebb_doc_int(c, "step_id", 0));
        enum ebb_status status = cli_checkpoint_copy(call->m, c, ebb_str_c(&target), err);
        if (status == EBB_OK)
            fprintf(call->where.is_json ? stderr : stdout, "%s\n", ebb_str_c(&target));
        ebb_str_fini(&target);
        EBB_TRY(status);
    }
    return EBB_OK;
}

enum ebb_status cli_experiment_checkpoints(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *root;
    EBB_TRY(cli_get(c->m, &root, err, "/experiments/%lld/checkpoints", (long long)c->id));
    const struct ebb_doc_node *list = live_first(&c->arena, ebb_doc_get(root, "checkpoints"));
    if (o->best_count != INT64_MAX)
        list = best_of(&c->arena, list, o->best_count);
    if (c->where.is_json)
        cli_print_list("checkpoints", list);
    else
        cli_checkpoints_print(list, NULL, c->where.is_csv);
    if (o->directory == NULL)
        return EBB_OK;
    return download_all(c, list, o->directory, err);
}
