/* cmd_experiment.c - ebb experiment: the table of its verbs, and those that need no master. */
#include "cli/cli.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/train_file.h"
#include "cli/cmd_experiment.h"
#include "exp/exp.h"

/* ---- validate ---------------------------------------------------------------------------- */

struct validate_options {
    const char *template_path;
    bool is_json;
};

static void write_counts(const struct ebb_report *r, struct ebb_json_writer *w)
{
    ebb_jsonw_key(w, "errors");
    ebb_jsonw_uint(w, r->errors);
    ebb_jsonw_key(w, "warnings");
    ebb_jsonw_uint(w, r->warnings);
    ebb_jsonw_key(w, "notes");
    ebb_jsonw_uint(w, r->notes);
}

/* One object on one line. `normalized` is NULL for an invalid file. */
static enum ebb_status print_json(const char *path, const struct ebb_report *r,
                                  const struct ebb_doc_node *normalized, struct ebb_error *err)
{
    struct ebb_str out;
    struct ebb_json_writer w;
    ebb_str_init(&out);
    ebb_jsonw_init(&w, &out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "file");
    ebb_jsonw_string(&w, path);
    ebb_jsonw_key(&w, "valid");
    ebb_jsonw_bool(&w, r->errors == 0);
    write_counts(r, &w);
    ebb_jsonw_key(&w, "findings");
    ebb_jsonw_array(&w);
    for (size_t i = 0; i < r->count; i++)
        ebb_finding_write(&r->items[i], &w);
    ebb_jsonw_array_end(&w);
    ebb_jsonw_key(&w, "normalized");
    if (normalized)
        ebb_doc_write_json(normalized, &w);
    else
        ebb_jsonw_null(&w);
    ebb_jsonw_object_end(&w);
    enum ebb_status status = ebb_str_status(&out, err);
    if (status == EBB_OK)
        puts(ebb_str_c(&out));
    ebb_str_fini(&out);
    return status;
}

static int validate(struct ebb_arena *arena, const char *path, const struct validate_options *o)
{
    struct ebb_error err = {0};
    struct exp_config config = {0};
    struct ebb_report report = {0};
    struct exp_config_options options = {.file_name = path,
                                         .template_name = o->template_path,
                                         .default_seed = -1,
                                         .check_section = cli_check_training};
    if (o->template_path &&
        ebb_doc_load(arena, o->template_path, &options.template_root, &err) != EBB_OK) {
        int code = cli_report(&err);
        return err.status == EBB_ELIMIT ? 2 : code; /* a bomb is an invalid file */
    }
    enum ebb_status status = exp_config_load(arena, path, &options, &config, &report, &err);
    if (report.errors == 0 && status != EBB_OK)
        return cli_report(&err); /* no finding says it: memory, or a file that cannot be read */
    if (status == EBB_EIO)
        return cli_report(&err);
    const struct ebb_doc_node *normalized =
        status == EBB_OK ? exp_config_masked(arena, config.normalized) : NULL;
    if (!o->is_json) {
        struct ebb_str text;
        ebb_str_init(&text);
        ebb_report_format(&report, path, &text);
        fputs(ebb_str_c(&text), stdout);
        ebb_str_fini(&text);
    } else if (print_json(path, &report, normalized, &err) != EBB_OK) {
        return cli_report(&err);
    }
    return status == EBB_OK ? 0 : 2;
}

static int run_validate(int argc, char **argv)
{
    struct validate_options o = {0};
    const struct cli_option options[] = {
        {"template", 't', CLI_STRING, &o.template_path, "FILE",
         "template under the file; need not be complete"},
        {"json", 0, CLI_FLAG, &o.is_json, NULL,
         "one JSON object: valid, findings, and the normalised form"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment validate FILE [--template FILE] [--json]",
        .description =
            "Check an experiment file and start nothing. Every error is reported at once, in the\n"
            "order of the file, with what was found, what is allowed and the nearest known name.\n"
            "Warnings are about keys without effect or probably not meant; notes are about parts\n"
            "that are valid but that this build cannot run yet. '-' reads standard input.\n"
            "'ebb experiment schema' prints the reference of all keys.\n"
            "\n"
            "Exit code 0: valid; 2: not valid.\n"
            "\n"
            "Example:\n"
            "  ebb experiment validate exp.yaml --json | jq .normalized\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    code = validate(&arena, args.positional[0], &o);
    ebb_arena_fini(&arena);
    cli_args_fini(&args);
    return code;
}

/* ---- schema ------------------------------------------------------------------------------ */

static int run_schema(int argc, char **argv)
{
    bool is_json = false;
    const struct cli_option options[] = {
        {"json", 0, CLI_FLAG, &is_json, NULL, "the same as one JSON object"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment schema [--json]",
        .description =
            "Print the reference of the experiment file: every key with its type, limits and\n"
            "default, and what this build cannot run yet. This is docs/experiment-file.md.\n"
            "\n"
            "Example:\n"
            "  ebb experiment schema | less\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    cli_args_fini(&args);
    if (code >= 0)
        return code;
    struct ebb_str out;
    struct ebb_error err = {0};
    ebb_str_init(&out);
    if (is_json) {
        struct ebb_json_writer w;
        ebb_jsonw_init(&w, &out, 0);
        exp_config_reference_json(&w);
        ebb_str_addc(&out, '\n');
    } else {
        exp_config_reference_markdown(&out);
    }
    code = ebb_str_status(&out, &err) == EBB_OK ? 0 : cli_report(&err);
    if (code == 0)
        fputs(ebb_str_c(&out), stdout);
    ebb_str_fini(&out);
    return code;
}

/* ---- the noun ---------------------------------------------------------------------------- */

static const struct cli_command cmd_validate = {
    .name = "experiment validate",
    .summary = "check an experiment file, start nothing",
    .run = run_validate,
};

static const struct cli_command cmd_schema = {
    .name = "experiment schema",
    .summary = "print the reference of the experiment file",
    .run = run_schema,
};

/* In the order of the help page. One row a line. */
/* clang-format off */
#define VERB(verb, text, function, hidden)                                                         \
    {.name = "experiment " verb, .summary = text, .is_hidden = hidden, .run = function}
static const struct cli_command others[] = {
    VERB("create", "submit one and leave ('ebb run' stays)", cli_experiment_create, false),
    VERB("list", "the newest experiments", cli_experiment_list, false),
    VERB("describe", "everything about some of them", cli_experiment_describe, false),
    VERB("list-trials", "its trials (lt)", cli_experiment_trials, false),
    VERB("list-checkpoints", "its checkpoints, the best first (lc)", cli_experiment_checkpoints, false),
    VERB("charts", "learning curves and parallel coordinates", cli_experiment_charts, false),
    VERB("logs", "what its first or best trial wrote", cli_experiment_logs, false),
    VERB("config", "the configuration it runs with", cli_experiment_config, false),
    VERB("download-model-def", "the files it was made with", cli_experiment_model_def, false),
    VERB("wait", "until it has ended", cli_experiment_wait, false),
    VERB("pause", "checkpoint, and free the slots", cli_experiment_change, false),
    VERB("activate", "go on", cli_experiment_change, false),
    VERB("cancel", "end it in order", cli_experiment_change, false),
    VERB("kill", "end it at once", cli_experiment_change, false),
    VERB("archive", "hide it from lists", cli_experiment_change, false),
    VERB("unarchive", "show it again", cli_experiment_change, false),
    VERB("delete", "remove it with all its files", cli_experiment_delete, false),
    VERB("gc", "remove checkpoints that are not to be kept", cli_experiment_change, false),
    VERB("label", "add or remove a label", cli_experiment_label, false),
    VERB("set", "change description, slots, weight, which checkpoints stay", cli_experiment_set, false),
    VERB("lt", "short for list-trials", cli_experiment_trials, true),
    VERB("lc", "short for list-checkpoints", cli_experiment_checkpoints, true),
};
/* clang-format on */
#define OTHERS (sizeof others / sizeof others[0])

static int run_experiment(int argc, char **argv)
{
    const struct cli_command *verbs[2 + OTHERS] = {&cmd_validate, &cmd_schema};
    for (size_t i = 0; i < OTHERS; i++)
        verbs[2 + i] = &others[i];
    return cli_dispatch("experiment", verbs, 2 + OTHERS, argc, argv);
}

extern const struct cli_command cli_cmd_experiment;
const struct cli_command cli_cmd_experiment = {
    .name = "experiment",
    .summary = "experiments: submit, watch, change, validate files",
    .run = run_experiment,
};
