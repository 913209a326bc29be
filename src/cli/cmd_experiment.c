/* cmd_experiment.c - ebb experiment: the table of its verbs, and those that need no master. */
#include "cli/cli.h"

#include <string.h>

#include "base/str.h"
#include "cli/cmd_experiment.h"
#include "cli/json.h"
#include "cli/show.h"
#include "cli/train_file.h"
#include "exp/exp.h"

/* ---- validate ---------------------------------------------------------------------------- */

struct validate_options {
    const char *template_path;
    bool is_json;
};

/* One object on one line. `normalized` is NULL for an invalid file. */
static int print_json(const char *path, const struct ebb_report *r,
                      const struct ebb_doc_node *normalized)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "file", path);
    ebb_jsonw_key_bool(w, "valid", r->errors == 0);
    ebb_jsonw_key_uint(w, "errors", r->errors);
    ebb_jsonw_key_uint(w, "warnings", r->warnings);
    ebb_jsonw_key_uint(w, "notes", r->notes);
    ebb_jsonw_key_array(w, "findings");
    for (size_t i = 0; i < r->count; i++)
        ebb_finding_write(&r->items[i], w);
    ebb_jsonw_array_end(w);
    ebb_doc_write_key(normalized, w, "normalized");
    return cli_json_object_end(&json);
}

static int validate(struct ebb_arena *arena, const char *path, const struct validate_options *o)
{
    struct ebb_error err = {0};
    struct exp_config config = {0};
    struct ebb_report report = {0};
    struct exp_config_options options = {.file_name = path,
                                         .template_name = o->template_path,
                                         .default_seed = -1,
                                         .check_section = cli_check_submission,
                                         .check_context = cli_folder_of(arena, path)};
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
    if (o->is_json && print_json(path, &report, normalized) != 0)
        return 1;
    if (!o->is_json)
        cli_print_report(&report, path, stdout);
    return status == EBB_OK ? 0 : 2;
}

static int run_validate(int argc, char **argv)
{
    struct validate_options o = {0};
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
        CLI_OPTION_ROWS({"template", 't', CLI_STRING, &o.template_path, "FILE",
                         "template under the file; need not be complete"},
                        {"json", 0, CLI_FLAG, &o.is_json, NULL,
                         "one JSON object: valid, findings, and the normalised form"}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    struct ebb_arena arena = {0};
    code = validate(&arena, args.positional[0], &o);
    ebb_arena_fini(&arena);
    cli_args_fini(&args);
    return code;
}

/* ---- schema ------------------------------------------------------------------------------ */

static int run_schema(int argc, char **argv)
{
    bool is_json = false;
    const struct cli_spec spec = {
        .usage = "ebb experiment schema [--json]",
        .description =
            "Print the reference of the experiment file: every key with its type, limits and\n"
            "default, and what this build cannot run yet. This is docs/experiment-file.md.\n"
            "\n"
            "Example:\n"
            "  ebb experiment schema | less\n",
        CLI_OPTION_ROWS({"json", 0, CLI_FLAG, &is_json, NULL, "the same as one JSON object"}),
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    cli_args_fini(&args);
    if (code >= 0)
        return code;
    if (is_json) {
        struct cli_json json;
        exp_config_reference_json(cli_json_begin(&json));
        return cli_json_end(&json);
    }
    struct ebb_str out = {0};
    struct ebb_error err = {0};
    exp_config_reference_markdown(&out);
    code = ebb_str_status(&out, &err) == EBB_OK ? 0 : cli_report(&err);
    if (code == 0)
        fputs(ebb_str_c(&out), stdout);
    ebb_str_fini(&out);
    return code;
}

/* ---- the rows ---------------------------------------------------------------------------- */

static const struct cli_experiment_options defaults = {.limit = 50,
                                                       .tail = CLI_TAIL_ALL,
                                                       .best_count = INT64_MAX,
                                                       .keep_best = -1,
                                                       .keep_trial_best = -1,
                                                       .keep_latest = -1,
                                                       .interval = 5};

#define AT(member) offsetof(struct cli_experiment_options, member)

static const struct cli_field create_options[] = {
    {"follow-first-trial", 'f', CLI_FLAG, AT(follows), NULL, "print the first trial's log", 0, 0},
    {"paused", 0, CLI_FLAG, AT(submission.is_paused), NULL,
     "do not start it; 'ebb experiment activate ID' does", 0, 0},
    {"test-mode", 't', CLI_FLAG, AT(submission.is_test), NULL,
     "one batch, one validation, one checkpoint: does it run at all?", 0, 0},
    {"template", 0, CLI_STRING, AT(submission.template_name), "NAME",
     "template under the file (ebb template list)", 0, 0},
    {"git", 'g', CLI_FLAG, AT(submission.is_git), NULL,
     "record remote, commit and committer; needs a clean, pushed work tree", 0, 0},
    {"config", 0, CLI_TEXTS, AT(submission.changes), "KEY=VALUE",
     "change the file: searcher.max_steps=4; may be repeated", 0, 0},
};
static const struct cli_field list_options[] = {
    {"all", 'a', CLI_FLAG, AT(is_all), NULL, "archived ones and other users', too", 0, 0},
    {"limit", 'n', CLI_INT, AT(limit), "N", "at most this many, newest first; default 50", 1, 1e9},
    {"offset", 0, CLI_INT, AT(offset), "N", "leave out the newest N", 0, 1e9},
    {"filter-state", 0, CLI_STRING, AT(state), "S[,S...]",
     "only in these states: ACTIVE, PAUSED, ...", 0, 0},
    {"label", 0, CLI_STRING, AT(label), "LABEL", "only with this label", 0, 0},
    {"description", 0, CLI_STRING, AT(description), "TEXT", "only if the description has this text",
     0, 0},
};
static const struct cli_field describe_options[] = {
    {"metrics", 0, CLI_FLAG, AT(has_metrics), NULL, "columns for every metric of every step", 0, 0},
    {"outdir", 0, CLI_STRING, AT(directory), "DIR",
     "write experiments.csv, trials.csv and steps.csv there", 0, 0},
};
static const struct cli_field trials_options[] = {
    {"filter-state", 0, CLI_LIST, AT(states), "S[,S...]",
     "only in these states: PENDING, ACTIVE, ERROR, ...", 0, 0},
};
static const struct cli_field checkpoints_options[] = {
    {"best", 0, CLI_INT, AT(best_count), "N",
     "only the N best by the searcher's metric, of those that are there", 1, 1e9},
    {"download-dir", 'd', CLI_STRING, AT(directory), "DIR", "copy them to DIR/exp-E-trial-T-step-S",
     0, 0},
};
static const struct cli_field charts_options[] = {
    {"output", 'o', CLI_STRING, AT(directory), "DIR", "default experiment-ID-charts", 0, 0},
};
static const struct cli_field logs_options[] = {
    {"best", 0, CLI_FLAG, AT(is_best), NULL, "of the best trial so far instead of the first", 0, 0},
    {"follow", 'f', CLI_FLAG, AT(follows), NULL, "go on until the trial has ended", 0, 0},
    {"tail", 0, CLI_INT, AT(tail), "N", "only the last N lines", 0, 1e9},
};
static const struct cli_field model_options[] = {
    {"output-dir", 'o', CLI_STRING, AT(directory), "DIR", "default: here", 0, 0},
};
static const struct cli_field wait_options[] = {
    {"polling-interval", 0, CLI_DOUBLE, AT(interval), "S", "seconds between looks; default 5",
     0.001, 1e6},
};
static const struct cli_field delete_options[] = {
    {"yes", 'y', CLI_FLAG, AT(is_sure), NULL, "do not ask", 0, 0},
};
static const struct cli_field gc_options[] = {
    {"validate", 0, CLI_FLAG, AT(is_tried), NULL,
     "try the storage first; change nothing if it fails", 0, 0},
};
static const struct cli_field set_options[] = {
    {"save-experiment-best", 0, CLI_INT, AT(keep_best), "N",
     "gc-policy: keep the N best checkpoints of the experiment", 0, 0},
    {"save-trial-best", 0, CLI_INT, AT(keep_trial_best), "N",
     "gc-policy: keep the N best of each trial", 0, 0},
    {"save-trial-latest", 0, CLI_INT, AT(keep_latest), "N",
     "gc-policy: keep the N newest of each trial", 0, 0},
    {"yes", 'y', CLI_FLAG, AT(is_sure), NULL, "gc-policy: do not ask", 0, 0},
};

/* A change of state: POST /experiments/ID/VERB. */
#define CHANGE(verb, line, past, help)                                                             \
    .name = (verb), .summary = (line), CLI_ID("experiment"), .text = (help),                       \
    .json_help = "print the experiment as JSON", .said = past " experiment #",                     \
    .run = cli_experiment_change

/* In the order of the help page. */
static const struct cli_verb verbs[] = {
    {.name = "validate",
     .summary = "check an experiment file, start nothing",
     .main = run_validate},
    {.name = "schema", .summary = "print the reference of the experiment file", .main = run_schema},
    {.name = "create",
     .summary = "submit one and leave ('ebb run' stays)",
     CLI_WORDS("FILE [MODEL_DEF]", 1, 2),
     .text =
         "Submit an experiment and leave: 'ebb run' is the same and watches it. MODEL_DEF is the\n"
         "file or directory that trials need (at most 95 MiB without what .ebbignore lists);\n"
         "without it the directory of FILE, nothing for entrypoint ebb:...\n"
         "\n"
         "With --test-mode an archived experiment of one trial and one batch shows whether\n"
         "scheduling, training, validation and checkpointing work; on failure the trial's log\n"
         "is printed.\n"
         "\n"
         "Examples:\n"
         "  ebb experiment create exp.yaml model/\n"
         "  ebb experiment create exp.yaml --test-mode",
     CLI_OPTIONS(create_options),
     .check = cli_experiment_check_create,
     .run = cli_experiment_create,
     .opens_itself = true},
    {.name = "list",
     .summary = "the newest experiments",
     .text = "List your experiments that are not archived, the newest first. A missing verb means\n"
             "list: 'ebb e'. Whose they are: -u, or 'ebb user whoami'.\n"
             "\n"
             "Examples:\n"
             "  ebb experiment list --filter-state ACTIVE,PAUSED\n"
             "  ebb experiment list --json | jq '.experiments[].best_metric'",
     CLI_OPTIONS(list_options),
     .has_csv = true,
     .print = cli_experiment_print_list,
     .run = cli_experiment_list},
    {.name = "describe",
     .summary = "everything about some of them",
     CLI_WORDS("ID[,ID...]", 1, 1),
     .text = "Everything about experiments: three tables, of the experiments, their trials\n"
             "and all steps with their validations and checkpoints.\n"
             "\n"
             "Examples:\n"
             "  ebb experiment describe 3 --metrics\n"
             "  ebb experiment describe 3,4 --outdir tables",
     CLI_OPTIONS(describe_options),
     .json_help = "one object per experiment, with its trials and their workloads",
     .has_csv = true,
     .check = cli_experiment_check_describe,
     .run = cli_experiment_describe},
    {.name = "list-trials",
     .summary = "its trials (lt)",
     .alias = "lt",
     CLI_ID("experiment"),
     .text = "The trials of an experiment, with hyperparameters, best validation and why the last\n"
             "process failed or what a trial waits for. Short form: lt.\n"
             "\n"
             "Examples:\n"
             "  ebb experiment list-trials 3 --csv > trials.csv\n"
             "  ebb experiment list-trials 3 --filter-state ERROR",
     CLI_OPTIONS(trials_options),
     .has_csv = true,
     .run = cli_experiment_trials},
    {.name = "list-checkpoints",
     .summary = "its checkpoints, the best first (lc)",
     .alias = "lc",
     CLI_ID("experiment"),
     .text = "Checkpoints of an experiment, the best first, those without a validation\n"
             "last. Short form: lc.\n"
             "\n"
             "Example:\n"
             "  ebb experiment list-checkpoints 3 --best 1 --download-dir best",
     CLI_OPTIONS(checkpoints_options),
     .has_csv = true,
     .run = cli_experiment_checkpoints},
    {.name = "charts",
     .summary = "learning curves and parallel coordinates",
     CLI_ID("experiment"),
     .text = "Draw learning curves and parallel coordinates (one line per trial, one axis\n"
             "per hyperparameter) as SVG and PNG. Works while the experiment runs.",
     CLI_OPTIONS(charts_options),
     .json_help = "names of the files as JSON",
     .run = cli_experiment_charts},
    {.name = "logs",
     .summary = "what its first or best trial wrote",
     CLI_ID("experiment"),
     .text = "What the first trial of an experiment (or the best) wrote to stdout and\n"
             "stderr. 'ebb trial logs ID' prints those of any trial.",
     CLI_OPTIONS(logs_options),
     .json_help = "one JSON object per line of the log",
     .run = cli_experiment_logs},
    {.name = "config",
     .summary = "the configuration it runs with",
     CLI_ID("experiment"),
     .text = "The configuration an experiment runs with, as YAML: template merged, every\n"
             "default written out, secrets as ********. It can be submitted again.\n"
             "\n"
             "Example:\n"
             "  ebb experiment config 3 > again.yaml",
     .json_help = "as JSON instead of YAML",
     .run = cli_experiment_config},
    {.name = "download-model-def",
     .summary = "the files it was made with",
     CLI_ID("experiment"),
     .text = "Write the model definition an experiment was made with as\n"
             "expID_DESCRIPTION_model_def.tar.gz.",
     CLI_OPTIONS(model_options),
     .json_help = "name and size as JSON",
     .run = cli_experiment_model_def},
    {.name = "wait",
     .summary = "until it has ended",
     CLI_ID("experiment"),
     .text = "Wait until an experiment has ended. Exit code 0 if it completed, else 1.\n"
             "\n"
             "Example:\n"
             "  ebb experiment wait 3 && ebb experiment list-checkpoints 3 --best 1",
     CLI_OPTIONS(wait_options),
     .json_help = "print the experiment as JSON at the end",
     .run = cli_experiment_wait,
     .opens_itself = true},
    {CHANGE("pause", "checkpoint, and free the slots", "Paused",
            "Take the slots away: each trial finishes its step, saves a checkpoint and ends;\n"
            "'ebb experiment activate ID' goes on from there.")},
    {CHANGE("activate", "go on", "Activated",
            "Let a paused experiment use slots again. It runs as long as a master runs: 'ebb run\n"
            "--resume ID' starts one.")},
    {CHANGE("cancel", "end it in order", "Canceled",
            "End an experiment in order: each trial finishes its step and saves a checkpoint. It\n"
            "cannot be activated again.")},
    {CHANGE("kill", "end it at once", "Killed",
            "End an experiment at once: processes are killed, nothing more is saved.")},
    {CHANGE("archive", "hide it from lists", "Archived",
            "Hide an ended experiment from lists; 'list --all' shows it.")},
    {CHANGE("unarchive", "show it again", "Unarchived",
            "Show an archived experiment in lists again.")},
    {.name = "delete",
     .summary = "remove it with all its files",
     CLI_ID("experiment"),
     .text = "Delete an ended experiment with its trials, logs, metrics and checkpoints.\n"
             "Files go first; when one cannot be removed the experiment stays listed as\n"
             "DELETE_FAILED and delete can be repeated. There is no way back.",
     CLI_OPTIONS(delete_options),
     .said = "Deleted experiment #",
     .json = "{\"deleted\": #}",
     .run = cli_experiment_delete},
    {CHANGE(
         "gc", "remove checkpoints that are not to be kept", "Collected checkpoints of",
         "Remove the checkpoints of an ended experiment that its save_* counts do not keep; for\n"
         "what an earlier collection could not remove."),
     CLI_OPTIONS(gc_options)},
    {.name = "label",
     .summary = "add or remove a label",
     CLI_WORDS("(add | remove) ID LABEL", 3, 3),
     .id = "experiment",
     .id_at = 1,
     .text = "Add a label to an experiment, or remove one; in every state.",
     .json_help = "print the experiment as JSON",
     .check = cli_experiment_check_label,
     .run = cli_experiment_label},
    {.name = "set",
     .summary = "change description, slots, weight, which checkpoints stay",
     CLI_WORDS("(description | max-slots | weight | gc-policy) ID [VALUE]", 2, 3),
     .id = "experiment",
     .id_at = 1,
     .text =
         "Change an experiment, in every state:\n"
         "  description TEXT\n"
         "  max-slots N|none   slots it may use at once; takes effect at once\n"
         "  weight W           its share of the slots beside other experiments\n"
         "  gc-policy          which checkpoints are kept; all three --save options are needed;\n"
         "                     shows what would go and asks\n"
         "\n"
         "Examples:\n"
         "  ebb experiment set max-slots 3 none\n"
         "  ebb experiment set gc-policy 3 --save-experiment-best 1 --save-trial-best 0 "
         "--save-trial-latest 0",
     CLI_OPTIONS(set_options),
     .json_help = "print the experiment as JSON",
     .check = cli_experiment_check_set,
     .run = cli_experiment_set},
};

static const struct cli_noun noun = CLI_NOUN("experiment", verbs, defaults);

extern const struct cli_command cli_cmd_experiment;
const struct cli_command cli_cmd_experiment = {
    .name = "experiment",
    .summary = "experiments: submit, watch, change, validate files",
    .noun = &noun,
};
