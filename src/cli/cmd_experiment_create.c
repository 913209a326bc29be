/* cmd_experiment_create.c - ebb experiment create: submit and leave, or stay for the first trial.
 */
#include "cli/cmd_experiment.h"

#include <string.h>

#include "cli/follow.h"
#include "cli/show.h"
#include "cli/submit.h"

struct create_options {
    struct cli_where where;
    struct cli_submission submission;
    bool follows;
};

static void say_created(const struct create_options *o, int64_t id)
{
    if (o->where.is_json)
        printf("{\"id\": %lld}\n", (long long)id);
    else
        printf("Created experiment %lld\n", (long long)id);
    fflush(stdout);
}

/* The first trial of the experiment, when it has one; turns of an own master are made meanwhile. */
static enum ebb_status wait_for_trial(struct cli_master *m, int64_t id, int64_t *trial,
                                      struct ebb_error *err)
{
    while (*trial == 0) {
        struct cli_answer answer = {0};
        enum ebb_status status = EBB_OK;
        if (cli_interrupted())
            return ebb_fail(err, EBB_ECANCELED,
                            "interrupted; experiment %lld is kept: 'ebb run --resume %lld' goes on",
                            (long long)id, (long long)id);
        if (m->own != NULL)
            status = exp_master_turn(m->own, 100, err);
        if (status == EBB_OK)
            status =
                cli_ask(m, &answer, err, "GET", NULL, "/experiments/%lld/trials", (long long)id);
        const struct ebb_doc_node *list = ebb_doc_get(answer.root, "trials");
        for (size_t i = 0; list != NULL && i < list->count && *trial == 0; i++)
            *trial = ebb_doc_int(list->items[i], "id", 0);
        cli_answer_fini(&answer);
        EBB_TRY(status);
    }
    return EBB_OK;
}

static bool is_ended(struct cli_master *m, int64_t id)
{
    struct cli_answer answer = {0};
    struct ebb_error err;
    bool is =
        cli_ask(m, &answer, &err, "GET", NULL, "/experiments/%lld", (long long)id) == EBB_OK &&
        cli_is_ended(&answer);
    cli_answer_fini(&answer);
    return is;
}

static int after_creation(struct cli_master *m, const struct create_options *o, int64_t id,
                          struct cli_follow *f)
{
    struct ebb_error err = {0};
    int64_t trial = 0;
    if (o->submission.is_test) {
        enum ebb_status status = cli_follow_run(f, id, &err);
        if (status == EBB_OK && f->stage < 4 && f->trial_id > 0)
            cli_logs_print(m, f->trial_id, 100, false, false, &err);
        if (status != EBB_OK)
            return cli_report(&err);
        return f->stage == 4 && strcmp(f->state, "COMPLETED") == 0 ? 0 : 1;
    }
    if (o->follows) {
        enum ebb_status status = wait_for_trial(m, id, &trial, &err);
        if (status == EBB_OK)
            status = cli_logs_print(m, trial, CLI_TAIL_ALL, true, o->where.is_json, &err);
        if (status != EBB_OK)
            return cli_report(&err);
    }
    if (m->own != NULL && !o->submission.is_paused && !is_ended(m, id))
        fprintf(stderr, "ebb: note: no master runs; 'ebb run --resume %lld' starts one\n",
                (long long)id);
    return 0;
}

static int create(const struct create_options *o)
{
    struct cli_master m;
    struct cli_follow f;
    struct ebb_error err = {0};
    int64_t id = 0;
    bool stays = o->follows || o->submission.is_test;
    int code = cli_submit_check(&o->submission);
    if (code >= 0)
        return code;
    int patience = 2; /* interrupts until trials are killed instead of waited for */
    struct exp_master_options options = {.is_hurried = cli_is_hurried,
                                         .is_hurried_context = &patience};
    cli_catch_two_interrupts();
    if (cli_master_open(&m, &o->where, stays ? CLI_RUN : CLI_ASK, &options, &err) != EBB_OK)
        return cli_report(&err);
    if (cli_follow_init(&f, &m, CLI_FOLLOW_STAGES, &err) != EBB_OK)
        code = cli_report(&err);
    f.is_json = o->where.is_json;
    if (code < 0)
        code = cli_submit(&m, &o->submission, &id);
    if (code < 0) {
        say_created(o, id);
        code = after_creation(&m, o, id, &f);
    }
    patience = cli_interrupted() ? 2 : 1;
    cli_master_close(&m, EXP_CLOSE_PREEMPT, -1);
    return code;
}

int cli_experiment_create(int argc, char **argv)
{
    struct create_options o = {0};
    const struct cli_option options[] = {
        {"follow-first-trial", 'f', CLI_FLAG, &o.follows, NULL, "print the first trial's log"},
        {"paused", 0, CLI_FLAG, &o.submission.is_paused, NULL,
         "do not start it; 'ebb experiment activate ID' does"},
        {"test-mode", 't', CLI_FLAG, &o.submission.is_test, NULL,
         "one batch, one validation, one checkpoint: does it run at all?"},
        {"template", 0, CLI_STRING, &o.submission.template_name, "NAME",
         "template under the file (ebb template list)"},
        {"git", 'g', CLI_FLAG, &o.submission.is_git, NULL,
         "record remote, commit and committer; needs a clean, pushed work tree"},
        {"config", 0, CLI_TEXTS, &o.submission.changes, "KEY=VALUE",
         "change the file: searcher.max_steps=4; may be repeated"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment create FILE [MODEL_DEF] [OPTION...]",
        .description =
            "Submit an experiment and leave: 'ebb run' is the same and watches it. MODEL_DEF is "
            "the\n"
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
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 2,
        .where = &o.where,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    o.submission.file = args.positional[0];
    o.submission.model_def = args.positional_count > 1 ? args.positional[1] : NULL;
    if ((o.follows ? 1 : 0) + (o.submission.is_paused ? 1 : 0) + (o.submission.is_test ? 1 : 0) > 1)
        code = cli_usage_error("only one of --follow-first-trial, --paused and --test-mode");
    else
        code = create(&o);
    cli_args_fini(&args);
    return code;
}
