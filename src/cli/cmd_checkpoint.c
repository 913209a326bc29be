/* cmd_checkpoint.c - ebb checkpoint: checkpoints by UUID, or by trial and step. */
#include "cli/cli.h"

#include <string.h>

#include "base/json.h"
#include "cli/cmd_experiment.h"
#include "cli/master.h"
#include "cli/show.h"

struct checkpoint_options {
    struct cli_where where;
    const char *uuid, *directory, *file;
    int64_t experiment, trial, step;
    bool is_sure;
};

/* ---- list ---- */

/* Whatever was typed, as one segment of a path. */
static enum ebb_status ask_uuid(struct cli_master *m, struct cli_answer *answer,
                                struct ebb_error *err, const char *method, const char *uuid)
{
    struct ebb_str text;
    ebb_str_init(&text);
    serve_http_escape(&text, uuid);
    enum ebb_status status =
        cli_ask(m, answer, err, method, NULL, "/checkpoints/%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return status;
}

static int list(struct cli_master *m, void *context)
{
    const struct checkpoint_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    enum ebb_status status = cli_ask(m, &answer, &err, "GET", NULL, "/experiments/%lld/checkpoints",
                                     (long long)o->experiment);
    if (status == EBB_OK && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (status == EBB_OK)
        cli_checkpoints_print(ebb_doc_get(answer.root, "checkpoints"), NULL, o->where.is_csv);
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int run_list(int argc, char **argv)
{
    struct checkpoint_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb checkpoint list EXPERIMENT [OPTION...]",
        .description = "Checkpoints of an experiment, the best first.",
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .is_table = true,
    };
    return cli_with_id(&spec, argc, argv, "experiment", &o.experiment, &o.where, list, &o);
}

/* ---- describe ---- */

static int describe(struct cli_master *m, void *context)
{
    static const char *const keys[] = {"uuid",   "state", "experiment_id", "trial_id", "step_id",
                                       "metric", "path",  "start_time",    "end_time", "note"};
    const struct checkpoint_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    char buf[CLI_CELL];
    enum ebb_status status = ask_uuid(m, &answer, &err, "GET", o->uuid);
    if (status == EBB_OK && o->where.is_json) {
        cli_print_body(&answer.response.body);
    } else if (status == EBB_OK) {
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            struct ebb_str text;
            const struct ebb_doc_node *value = ebb_doc_get(answer.root, keys[i]);
            ebb_str_init(&text);
            if (strstr(keys[i], "_time") != NULL)
                ebb_str_add(&text, cli_show_time(answer.root, keys[i], buf));
            else if (value != NULL && value->kind != EBB_DOC_NULL)
                cli_show_value(&text, value);
            if (text.length > 0)
                printf("%-14s %s\n", keys[i], ebb_str_c(&text));
            ebb_str_fini(&text);
        }
        printf("%-14s %s\n", "size", cli_show_bytes(answer.root, "size", buf));
        const struct ebb_doc_node *files = ebb_doc_get(answer.root, "resources");
        for (size_t i = 0; files != NULL && files->kind == EBB_DOC_MAP && i < files->count; i++)
            printf("  %12lld  %s\n", (long long)files->items[i]->integer, files->keys[i]->text);
    }
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int run_describe(int argc, char **argv)
{
    struct checkpoint_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb checkpoint describe UUID [OPTION...]",
        .description = "A checkpoint: where it lies, what it belongs to, its files.",
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    o.uuid = args.positional[0];
    code = cli_with_master(&o.where, describe, &o);
    cli_args_fini(&args);
    return code;
}

/* ---- download ---- */

static const struct ebb_doc_node *find_step(const struct ebb_doc_node *checkpoints, int64_t trial,
                                            int64_t step)
{
    for (size_t i = 0; checkpoints != NULL && i < checkpoints->count; i++)
        if (ebb_doc_int(checkpoints->items[i], "trial_id", 0) == trial &&
            ebb_doc_int(checkpoints->items[i], "step_id", -1) == step)
            return checkpoints->items[i];
    return NULL;
}

static enum ebb_status fetch(struct cli_master *m, const struct checkpoint_options *o,
                             struct ebb_error *err)
{
    struct cli_answer trial = {0}, answer = {0};
    const struct ebb_doc_node *found = NULL;
    enum ebb_status status;
    if (o->uuid != NULL) {
        status = ask_uuid(m, &answer, err, "GET", o->uuid);
        found = answer.root;
    } else {
        status = cli_ask(m, &trial, err, "GET", NULL, "/trials/%lld", (long long)o->trial);
        if (status == EBB_OK)
            status = cli_ask(m, &answer, err, "GET", NULL, "/experiments/%lld/checkpoints",
                             (long long)ebb_doc_int(trial.root, "experiment_id", 0));
        found = find_step(ebb_doc_get(answer.root, "checkpoints"), o->trial, o->step);
        if (status == EBB_OK && found == NULL)
            status = ebb_fail(err, EBB_EINFEASIBLE, "trial %lld has no checkpoint of step %lld",
                              (long long)o->trial, (long long)o->step);
    }
    if (status == EBB_OK)
        status = cli_checkpoint_copy(found, o->directory, err);
    if (status == EBB_OK && o->where.is_json) {
        struct ebb_str text;
        ebb_str_init(&text);
        cli_show_json(&text, found);
        puts(ebb_str_c(&text));
        ebb_str_fini(&text);
    } else if (status == EBB_OK) {
        printf("Local checkpoint path: %s\n", o->directory);
    }
    cli_answer_fini(&trial);
    cli_answer_fini(&answer);
    return status;
}

static int download(struct cli_master *m, void *context)
{
    struct ebb_error err = {0};
    return fetch(m, context, &err) == EBB_OK ? 0 : cli_report(&err);
}

static int run_download(int argc, char **argv)
{
    struct checkpoint_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb checkpoint download (UUID | TRIAL STEP) DIR [OPTION...]",
        .description = "Copy a checkpoint to a directory of yours.\n"
                       "\n"
                       "Example:\n"
                       "  ebb checkpoint download 12 16 model",
        .min_positional = 2,
        .max_positional = 3,
        .where = &o.where,
        .json_help = "print the checkpoint as JSON",
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    code = -1;
    if (args.positional_count == 2) {
        o.uuid = args.positional[0];
    } else {
        code = cli_parse_id("trial", args.positional[0], &o.trial);
        if (code < 0)
            code = cli_parse_id("step", args.positional[1], &o.step);
    }
    o.directory = args.positional[args.positional_count - 1];
    if (code < 0)
        code = cli_with_master(&o.where, download, &o);
    cli_args_fini(&args);
    return code;
}

/* ---- delete ---- */

static bool is_tried(const struct cli_answer *answer) /* gone, or it says why not */
{
    return strcmp(ebb_doc_string(answer->root, "state", "DELETED"), "COMPLETED") != 0 ||
           ebb_doc_string(answer->root, "note", "")[0] != '\0';
}

static enum ebb_status remove_one(struct cli_master *m, const char *uuid, struct ebb_error *err)
{
    struct cli_answer answer = {0};
    struct ebb_str target;
    enum ebb_status status = ask_uuid(m, &answer, err, "DELETE", uuid);
    cli_answer_fini(&answer);
    EBB_TRY(status);
    ebb_str_init(&target);
    ebb_str_printf(&target, "/checkpoints/%s", uuid);
    (void)cli_master_settle(m, 60, is_tried, ebb_str_c(&target));
    status = cli_ask_raw(m, "GET", ebb_str_c(&target), NULL, &answer, err);
    if (status == EBB_OK &&
        strcmp(ebb_doc_string(answer.root, "state", "DELETED"), "COMPLETED") == 0)
        status = ebb_fail(err, EBB_EIO, "checkpoint %s is not removed: %s", uuid,
                          ebb_doc_string(answer.root, "note", "a master goes on with it"));
    cli_answer_fini(&answer);
    ebb_str_fini(&target);
    return status;
}

static int delete_one(struct cli_master *m, void *context)
{
    const struct checkpoint_options *o = context;
    struct ebb_error err = {0};
    if (!o->is_sure && !cli_confirm("Delete checkpoint %s?", o->uuid)) {
        fprintf(stderr, "Nothing was deleted; --yes answers the question beforehand.\n");
        return 1;
    }
    if (remove_one(m, o->uuid, &err) != EBB_OK)
        return cli_report(&err);
    if (o->where.is_json)
        printf("{\"deleted\": \"%s\"}\n", o->uuid);
    else
        printf("Deleted checkpoint %s\n", o->uuid);
    return 0;
}

static int run_delete(int argc, char **argv)
{
    struct checkpoint_options o = {0};
    const struct cli_option options[] = {
        {"yes", 'y', CLI_FLAG, &o.is_sure, NULL, "do not ask"},
    };
    const struct cli_spec spec = {
        .usage = "ebb checkpoint delete UUID [OPTION...]",
        .description =
            "Delete a checkpoint: its files, then its record is marked DELETED. One that a\n"
            "trial was started from is kept.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    o.uuid = args.positional[0];
    code = cli_with_master(&o.where, delete_one, &o);
    cli_args_fini(&args);
    return code;
}

/* ---- validate-storage ---- */

static int validate_storage(struct cli_master *m, void *context)
{
    const struct checkpoint_options *o = context;
    struct ebb_error err = {0};
    struct ebb_str where;
    ebb_str_init(&where);
    int code = cli_storage_check(m, o->experiment, o->file, &where);
    if (code < 0 && o->where.is_json)
        printf("{\"valid\": true, \"storage\": %s}\n", ebb_str_c(&where));
    else if (code < 0)
        printf("Stored, restored, compared and deleted: %s\n", ebb_str_c(&where));
    if (code < 0 && ebb_str_status(&where, &err) != EBB_OK)
        code = cli_report(&err);
    ebb_str_fini(&where);
    return code < 0 ? 0 : code;
}

static int run_validate(int argc, char **argv)
{
    struct checkpoint_options o = {0};
    const struct cli_option options[] = {
        {"experiment", 0, CLI_INT, &o.experiment, "ID", "the storage of an experiment"},
    };
    const struct cli_spec spec = {
        .usage = "ebb checkpoint validate-storage [FILE] [OPTION...]",
        .description =
            "Try the place where checkpoints go, from this machine and account: store a\n"
            "directory with one file, read it back, compare, delete it. FILE is an experiment\n"
            "file; without one, and where it has no checkpoint_storage, the default is tried.\n"
            "\n"
            "Example:\n"
            "  ebb checkpoint validate-storage exp.yaml",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .max_positional = 1,
        .where = &o.where,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    o.file = args.positional_count > 0 ? args.positional[0] : NULL;
    code = o.experiment < 0 || (o.experiment > 0 && o.file != NULL)
               ? cli_usage_error("give FILE or --experiment ID, not both; an ID is above 0")
               : cli_with_master(&o.where, validate_storage, &o);
    cli_args_fini(&args);
    return code;
}

/* ---- the table ---- */

static const struct cli_command cmd_list = {.name = "checkpoint list",
                                            .summary = "those of an experiment, the best first",
                                            .run = run_list};
static const struct cli_command cmd_describe = {
    .name = "checkpoint describe", .summary = "one of them", .run = run_describe};
static const struct cli_command cmd_download = {
    .name = "checkpoint download", .summary = "copy it to a directory", .run = run_download};
static const struct cli_command cmd_delete = {
    .name = "checkpoint delete", .summary = "remove it", .run = run_delete};
static const struct cli_command cmd_validate = {.name = "checkpoint validate-storage",
                                                .summary = "try the place where they go",
                                                .run = run_validate};

static const struct cli_command *const verbs[] = {&cmd_list, &cmd_describe, &cmd_download,
                                                  &cmd_delete, &cmd_validate};

static int run(int argc, char **argv)
{
    return cli_dispatch("checkpoint", verbs, sizeof verbs / sizeof verbs[0], argc, argv);
}

const struct cli_command cli_cmd_checkpoint = {
    .name = "checkpoint",
    .summary = "saved states of trials: list, copy, delete",
    .run = run,
};
