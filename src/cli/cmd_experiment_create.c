/* cmd_experiment_create.c - ebb experiment create: submit and leave, or stay for the first trial.
 */
#include "cli/cmd_experiment.h"

#include <string.h>

#include "cli/follow.h"

/* The first trial of the experiment, when it has one; turns of an own master are made meanwhile. */
static enum ebb_status wait_for_trial(struct cli_master *m, int64_t id, int64_t *trial,
                                      struct ebb_error *err)
{
    while (*trial == 0) {
        struct cli_answer answer = {0};
        if (cli_interrupted())
            return ebb_fail(err, EBB_ECANCELED,
                            "interrupted; experiment %lld is kept: 'ebb run --resume %lld' goes on",
                            (long long)id, (long long)id);
        if (m->own != NULL)
            exp_master_turn(m->own, 100);
        enum ebb_status status =
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
    const struct ebb_doc_node *root;
    struct ebb_error err;
    return cli_get(m, &root, &err, "/experiments/%lld", (long long)id) == EBB_OK &&
           cli_state_is_over(ebb_doc_string(root, "state", ""));
}

static enum ebb_status after_creation(struct cli_call *c, struct cli_master *m, int64_t id,
                                      struct cli_follow *f, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    int64_t trial = 0;
    if (o->submission.is_test) {
        EBB_TRY(cli_follow_run(f, id, err));
        if (f->stage < 4 && f->trial_id > 0)
            cli_logs_print(m, f->trial_id, 100, false, false, err);
        return cli_leave(c, f->stage == 4 && strcmp(f->state, "COMPLETED") == 0 ? 0 : 1);
    }
    if (o->follows) {
        EBB_TRY(wait_for_trial(m, id, &trial, err));
        EBB_TRY(cli_logs_print(m, trial, CLI_TAIL_ALL, true, c->where.is_json, err));
    }
    if (m->own != NULL && !o->submission.is_paused && !is_ended(m, id))
        fprintf(stderr, "ebb: note: no master runs; 'ebb run --resume %lld' starts one\n",
                (long long)id);
    else if (m->own == NULL && !o->submission.is_paused && !o->follows)
        fprintf(stderr, "ebb: note: the running master has it; 'ebb run --resume %lld' watches\n",
                (long long)id);
    return EBB_OK;
}

int cli_experiment_check_create(struct cli_call *c)
{
    struct cli_experiment_options *o = c->options;
    struct cli_submission *s = &o->submission;
    s->file = c->words[0];
    s->model_def = c->word_count > 1 ? c->words[1] : NULL;
    if ((o->follows ? 1 : 0) + (s->is_paused ? 1 : 0) + (s->is_test ? 1 : 0) > 1)
        return cli_usage_error("only one of --follow-first-trial, --paused and --test-mode");
    return cli_submit_check(s);
}

/* The failure, if there is one, is that of following; one of submitting is said already. */
static enum ebb_status submit(struct cli_call *c, struct cli_master *m, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    struct cli_follow f;
    int64_t id = 0;
    EBB_TRY(cli_follow_init(&f, m, CLI_FOLLOW_STAGES, err));
    f.is_json = c->where.is_json;
    int code = cli_submit(m, &o->submission, &id);
    if (code >= 0)
        return cli_leave(c, code);
    printf(c->where.is_json ? "{\"id\": %lld}\n" : "Created experiment %lld\n", (long long)id);
    fflush(stdout);
    return after_creation(c, m, id, &f, err);
}

enum ebb_status cli_experiment_create(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    struct cli_master m;
    bool stays = o->follows || o->submission.is_test;
    int patience = 2; /* interrupts until trials are killed instead of waited for */
    struct exp_master_options options = {.is_hurried = cli_is_hurried,
                                         .is_hurried_context = &patience};
    cli_catch_two_interrupts();
    EBB_TRY(cli_master_open(&m, &c->where, stays ? CLI_RUN : CLI_ASK, &options, err));
    enum ebb_status status = submit(c, &m, err);
    patience = cli_interrupted() ? 2 : 1;
    cli_master_close(&m, EXP_CLOSE_PREEMPT, -1);
    return status;
}
