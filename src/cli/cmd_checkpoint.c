/* cmd_checkpoint.c - ebb checkpoint: checkpoints by UUID, or by trial and step. */
#include "cli/verb.h"

#include <string.h>

#include "cli/cmd_experiment.h"
#include "cli/show.h"

struct options {
    int64_t experiment;
    bool is_sure;
};

static const struct options defaults = {0};

/* Whatever was typed, as one segment of a path. */
static const char *path_of(struct cli_call *c, const char *uuid)
{
    struct ebb_str text = {0};
    ebb_str_add(&text, "/checkpoints/");
    serve_http_escape(&text, uuid);
    const char *path = ebb_arena_strndup(&c->arena, ebb_str_c(&text), text.length);
    ebb_str_fini(&text);
    return path != NULL ? path : "";
}

static void print_list(const struct cli_call *c, const struct ebb_doc_node *root)
{
    cli_checkpoints_print(ebb_doc_get(root, "checkpoints"), NULL, c->where.is_csv);
}

static void print_one(const struct cli_call *c, const struct ebb_doc_node *root)
{
    static const char *const keys[] = {"uuid",   "state", "experiment_id", "trial_id", "step_id",
                                       "metric", "path",  "start_time",    "end_time", "note"};
    char buf[CLI_CELL];
    (void)c;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct ebb_doc_node *value = ebb_doc_get(root, keys[i]);
        if (strstr(keys[i], "_time") == NULL)
            cli_print_pair(keys[i], value);
        else if (cli_show_time(value, buf)[0] != '\0')
            printf("%-14s %s\n", keys[i], buf);
    }
    printf("%-14s %s\n", "size", cli_show_bytes(ebb_doc_get(root, "size"), buf));
    const struct ebb_doc_node *files = ebb_doc_get(root, "resources");
    for (size_t i = 0; files != NULL && files->kind == EBB_DOC_MAP && i < files->count; i++)
        printf("  %12lld  %s\n", (long long)files->items[i]->integer, files->keys[i]->text);
}

/* ---- download ---- */

static int check_download(struct cli_call *c)
{
    int64_t ignored;
    int code = c->word_count == 3 ? cli_parse_id("trial", c->words[0], &c->id) : -1;
    return code < 0 && c->word_count == 3 ? cli_parse_id("step", c->words[1], &ignored) : code;
}

static enum ebb_status find_step(struct cli_call *c, const struct ebb_doc_node **found,
                                 struct ebb_error *err)
{
    const struct ebb_doc_node *trial, *root;
    int64_t step = 0;
    (void)ebb_parse_i64(c->words[1], &step);
    EBB_TRY(cli_get(c->m, &trial, err, "/trials/%lld", (long long)c->id));
    EBB_TRY(cli_get(c->m, &root, err, "/experiments/%lld/checkpoints",
                    (long long)ebb_doc_int(trial, "experiment_id", 0)));
    const struct ebb_doc_node *list = ebb_doc_get(root, "checkpoints");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        if (ebb_doc_int(list->items[i], "trial_id", 0) == c->id &&
            ebb_doc_int(list->items[i], "step_id", -1) == step) {
            *found = list->items[i];
            return EBB_OK;
        }
    return ebb_fail(err, EBB_EINFEASIBLE, "trial %lld has no checkpoint of step %lld",
                    (long long)c->id, (long long)step);
}

static enum ebb_status download(struct cli_call *c, struct ebb_error *err)
{
    const struct ebb_doc_node *found = NULL;
    const char *directory = c->words[c->word_count - 1];
    if (c->word_count == 2)
        EBB_TRY(cli_get(c->m, &found, err, "%s", path_of(c, c->words[0])));
    else
        EBB_TRY(find_step(c, &found, err));
    EBB_TRY(cli_checkpoint_copy(c->m, found, directory, err));
    cli_say(c, found, "Local checkpoint path: %s", directory);
    return EBB_OK;
}

/* ---- delete ---- */

static bool is_tried(const struct cli_answer *answer) /* gone, or it says why not */
{
    return strcmp(ebb_doc_string(answer->root, "state", "DELETED"), "COMPLETED") != 0 ||
           ebb_doc_string(answer->root, "note", "")[0] != '\0';
}

static enum ebb_status remove_one(struct cli_call *c, const char *uuid, struct ebb_error *err)
{
    struct cli_answer answer = {0};
    const struct ebb_doc_node *ignored;
    const char *path = path_of(c, uuid);
    EBB_TRY(cli_send(c->m, &ignored, err, "DELETE", NULL, "%s", path));
    (void)cli_master_settle(c->m, 60, is_tried, path);
    enum ebb_status status = cli_ask_raw(c->m, "GET", path, NULL, &answer, err);
    if (status == EBB_OK &&
        strcmp(ebb_doc_string(answer.root, "state", "DELETED"), "COMPLETED") == 0)
        status = ebb_fail(err, EBB_EIO, "checkpoint %s is not removed: %s", uuid,
                          ebb_doc_string(answer.root, "note", "a master goes on with it"));
    cli_answer_fini(&answer);
    return status;
}

static enum ebb_status delete_one(struct cli_call *c, struct ebb_error *err)
{
    const struct options *o = c->options;
    const char *uuid = c->words[0];
    if (!o->is_sure && !cli_confirm("Delete checkpoint %s?", uuid))
        return cli_delete_nothing(c);
    EBB_TRY(remove_one(c, uuid, err));
    printf(c->where.is_json ? "{\"deleted\": \"%s\"}\n" : "Deleted checkpoint %s\n", uuid);
    return EBB_OK;
}

/* ---- validate-storage ---- */

static int check_storage(struct cli_call *c)
{
    const struct options *o = c->options;
    return o->experiment < 0 || (o->experiment > 0 && c->word_count > 0)
               ? cli_usage_error("give FILE or --experiment ID, not both; an ID is above 0")
               : -1;
}

static enum ebb_status validate_storage(struct cli_call *c, struct ebb_error *err)
{
    const struct options *o = c->options;
    struct ebb_str where = {0};
    int code =
        cli_storage_check(c->m, o->experiment, c->word_count > 0 ? c->words[0] : NULL, &where);
    if (code < 0)
        printf(c->where.is_json ? "{\"valid\": true, \"storage\": %s}\n"
                                : "Stored, restored, compared and deleted: %s\n",
               ebb_str_c(&where));
    enum ebb_status status = code < 0 ? ebb_str_status(&where, err) : EBB_OK;
    c->code = code < 0 ? 0 : code;
    ebb_str_fini(&where);
    return status;
}

/* ---- the rows ---- */

static const struct cli_field delete_options[] = {
    {"yes", 'y', CLI_FLAG, offsetof(struct options, is_sure), NULL, "do not ask", 0, 0},
};
static const struct cli_field storage_options[] = {
    {"experiment", 0, CLI_INT, offsetof(struct options, experiment), "ID",
     "the storage of an experiment", 0, 0},
};

static const struct cli_verb verbs[] = {
    {.name = "list",
     .summary = "those of an experiment, the best first",
     CLI_WORDS("EXPERIMENT", 1, 1),
     .id = "experiment",
     .text = "Checkpoints of an experiment, the best first.",
     .has_csv = true,
     .route = "/experiments/#/checkpoints",
     .print = print_list},
    {.name = "describe",
     .summary = "one of them",
     CLI_WORDS("UUID", 1, 1),
     .text = "A checkpoint: where it lies, what it belongs to, its files.",
     .route = "/checkpoints/*",
     .print = print_one},
    {.name = "download",
     .summary = "copy it to a directory",
     CLI_WORDS("(UUID | TRIAL STEP) DIR", 2, 3),
     .text = "Copy a checkpoint to a directory of yours.\n"
             "\n"
             "Example:\n"
             "  ebb checkpoint download 12 16 model",
     .json_help = "print the checkpoint as JSON",
     .check = check_download,
     .run = download},
    {.name = "delete",
     .summary = "remove it",
     CLI_WORDS("UUID", 1, 1),
     .text = "Delete a checkpoint: its files, then its record is marked DELETED. One that a\n"
             "trial was started from is kept.",
     CLI_OPTIONS(delete_options),
     .run = delete_one},
    {.name = "validate-storage",
     .summary = "try the place where they go",
     CLI_WORDS("[FILE]", 0, 1),
     .text = "Try the place where checkpoints go, from this machine and account: store a\n"
             "directory with one file, read it back, compare, delete it. FILE is an experiment\n"
             "file; without one, and where it has no checkpoint_storage, the default is tried.\n"
             "\n"
             "Example:\n"
             "  ebb checkpoint validate-storage exp.yaml",
     CLI_OPTIONS(storage_options),
     .check = check_storage,
     .run = validate_storage},
};

static const struct cli_noun noun = CLI_NOUN("checkpoint", verbs, defaults);

const struct cli_command cli_cmd_checkpoint = {
    .name = "checkpoint", .summary = "saved states of trials: list, copy, delete", .noun = &noun};
