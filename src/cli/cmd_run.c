/* cmd_run.c - ebb run: make an experiment and watch it until it ends.
 *
 * This process is the master for as long as it runs, unless one runs already: then the experiment
 * is handed to that one and only watched. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "cli/charts.h"
#include "cli/follow.h"
#include "cli/master.h"
#include "cli/show.h"
#include "cli/submit.h"
#include "cli/json.h"

#define LOG_LINES 20

#define SLOTS_BY_CPUS INT64_MIN /* --slots was not given */

struct run_options {
    struct cli_where where;
    struct cli_submission submission;
    int64_t slots, resume;
    const char *output, *listen;
    bool has_no_charts;
};

/* ---- the end ---- */

static void print_hparams(const struct ebb_doc_node *hparams)
{
    for (size_t i = 0; hparams != NULL && hparams->kind == EBB_DOC_MAP && i < hparams->count; i++) {
        struct ebb_str text = {0};
        cli_show_value(&text, hparams->items[i]);
        printf("  %-24s %s\n", hparams->keys[i]->text, ebb_str_c(&text));
        ebb_str_fini(&text);
    }
}

static void print_best(struct cli_master *m, const struct ebb_doc_node *e)
{
    char buf[CLI_CELL];
    struct ebb_error err = {0};
    const struct ebb_doc_node *trial, *root;
    int64_t id = ebb_doc_int(e, "best_trial_id", 0);
    if (id == 0)
        return;
    printf("Best: trial %lld with %s %s after step %lld\n", (long long)id,
           ebb_doc_string(e, "metric", ""), cli_show_number(ebb_doc_get(e, "best_metric"), buf),
           (long long)ebb_doc_int(e, "best_step_id", 0));
    if (cli_get(m, &trial, &err, "/trials/%lld", (long long)id) == EBB_OK)
        print_hparams(ebb_doc_get(trial, "hparams"));
    if (cli_get(m, &root, &err, "/experiments/%lld/checkpoints",
                (long long)ebb_doc_int(e, "id", 0)) != EBB_OK)
        return;
    const struct ebb_doc_node *list = ebb_doc_get(root, "checkpoints");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        if (ebb_doc_int(list->items[i], "trial_id", 0) == id &&
            strcmp(ebb_doc_string(list->items[i], "state", ""), "COMPLETED") == 0) {
            printf("Its checkpoint: %s\n", ebb_doc_string(list->items[i], "path", ""));
            return;
        }
}

/* The last lines of a failed trial's log; is_told: why it ended was printed, line by line. */
static void print_log_tail(struct cli_master *m, int64_t trial, bool is_told)
{
    char end[64];
    bool has_begun = false;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root;
    if (trial == 0 ||
        cli_get(m, &root, &err, "/trials/%lld/logs?tail=%d", (long long)trial, LOG_LINES) != EBB_OK)
        return;
    const struct ebb_doc_node *list = ebb_doc_get(root, "logs");
    snprintf(end, sizeof end, "ebb: trial %lld ends: ", (long long)trial);
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        struct ebb_str line = {0};
        const char *message = ebb_doc_string(list->items[i], "message", "");
        if (is_told && strncmp(message, end, strlen(end)) == 0)
            continue;
        if (!has_begun)
            fprintf(stderr, "Last lines of trial %lld:\n", (long long)trial);
        has_begun = true;
        cli_show_plain(&line, message);
        fprintf(stderr, "  %s\n", ebb_str_c(&line));
        ebb_str_fini(&line);
    }
    fprintf(stderr, "All of it: ebb trial logs %lld\n", (long long)trial);
}

/* The trial whose failure ended the experiment; 0 = none. */
static int64_t find_failed(struct cli_master *m, int64_t id)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *root;
    if (cli_get(m, &root, &err, "/experiments/%lld/trials", (long long)id) != EBB_OK)
        return 0;
    const struct ebb_doc_node *list = ebb_doc_get(root, "trials");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        if (strcmp(ebb_doc_string(list->items[i], "state", ""), "ERROR") == 0)
            return ebb_doc_int(list->items[i], "id", 0);
    return 0;
}

static void write_charts(struct cli_master *m, const struct run_options *o, int64_t id,
                         struct ebb_str *written)
{
    struct ebb_error err = {0};
    struct ebb_str dir = {0};
    if (o->output != NULL)
        ebb_str_add(&dir, o->output);
    else if (m->state_dir != NULL)
        ebb_str_printf(&dir, "%s/charts/experiment-%lld", m->state_dir, (long long)id);
    else
        ebb_str_printf(&dir, "experiment-%lld-charts", (long long)id);
    if (!dir.failed && cli_charts_write(m, id, ebb_str_c(&dir), written, &err) != EBB_OK)
        fprintf(stderr, "ebb: note: no charts: %s\n", err.message);
    ebb_str_fini(&dir);
}

static void print_curves(struct cli_master *m, int64_t id)
{
    struct winsize size = {0};
    struct ebb_error err = {0};
    struct ebb_str text = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 40)
        return;
    if (cli_charts_terminal(m, id, size.ws_col < 100 ? size.ws_col : 100, 16, &text, &err) ==
        EBB_OK)
        fputs(ebb_str_c(&text), stdout);
    ebb_str_fini(&text);
}

static void print_result(const struct ebb_doc_node *e, const struct ebb_str *charts)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "type", "result");
    ebb_doc_write_key(e, w, "experiment");
    ebb_jsonw_key(w, "charts");
    cli_write_lines(w, ebb_str_c(charts));
    cli_json_object_end(&json);
}

static int finish(struct cli_master *m, const struct run_options *o, const struct cli_follow *f,
                  const struct ebb_doc_node *e)
{
    struct ebb_str charts = {0};
    char buf[32];
    const char *state = ebb_doc_string(e, "state", "");
    bool is_good = strcmp(state, "COMPLETED") == 0;
    if (!o->has_no_charts && f->how != CLI_FOLLOW_STAGES)
        write_charts(m, o, f->id, &charts);
    if (f->how == CLI_FOLLOW_JSON) {
        print_result(e, &charts);
    } else if (f->how != CLI_FOLLOW_STAGES) {
        if (f->how == CLI_FOLLOW_TABLE && !o->has_no_charts)
            print_curves(m, f->id);
        long long trials = (long long)ebb_doc_int(e, "num_trials", 0);
        printf("\nExperiment %lld %s%s%s: %lld trial%s\n", (long long)f->id, state,
               f->was_over ? "" : " after ",
               f->was_over ? "" : ebb_format_ns(ebb_clock_ns() - f->start_ns, buf, sizeof buf),
               trials, trials == 1 ? "" : "s");
        print_best(m, e);
        if (charts.length > 0)
            printf("Charts:\n%s", ebb_str_c(&charts));
    }
    fflush(stdout);
    const char *why = ebb_doc_string(e, "error", "");
    struct ebb_str plain = {0};
    cli_show_plain(&plain, why);
    if (!is_good && why[0] != '\0')
        fprintf(stderr, "ebb: error: experiment %lld: %s\n", (long long)f->id, ebb_str_c(&plain));
    ebb_str_fini(&plain);
    if (strcmp(state, "ERROR") == 0)
        print_log_tail(m, find_failed(m, f->id), f->how == CLI_FOLLOW_LINES);
    ebb_str_fini(&charts);
    return is_good && (f->how != CLI_FOLLOW_STAGES || f->stage == 4) ? 0 : 1;
}

/* ---- Ctrl-C ---- */

/* It stays where it is until somebody says to go on: the next 'ebb run' does not take it along. What
 * other processes watch is theirs, and goes on in one of them. */
static void pause_here(struct cli_master *m, const struct run_options *o, int64_t id)
{
    struct ebb_str where = {0};
    struct ebb_error err = {0};
    const struct ebb_doc_node *done;
    bool is_paused = m->own != NULL && cli_send(m, &done, &err, "POST", NULL,
                                                "/experiments/%lld/pause", (long long)id) == EBB_OK;
    if (o->where.state != NULL)
        ebb_str_printf(&where, " --state %s", o->where.state);
    else if (o->where.master != NULL)
        ebb_str_printf(&where, " --master %s", o->where.master);
    if (m->own != NULL)
        fprintf(stderr,
                "\n%s. Trials finish their step and save a checkpoint (Ctrl-C again: end at "
                "once,\nback to the last one). Go on with: ebb run --resume %lld%s\n",
                is_paused ? "Paused" : "Interrupted", (long long)id, ebb_str_c(&where));
    else
        fprintf(stderr,
                "\nNo longer watching; the experiment goes on in the master's process.\n"
                "Watch again: ebb run --resume %lld%s   stop it: ebb experiment pause %lld%s\n",
                (long long)id, ebb_str_c(&where), (long long)id, ebb_str_c(&where));
    ebb_str_fini(&where);
}

/* ---- the command ---- */

/* An experiment that exists: on with it. */
static enum ebb_status resume(struct cli_master *m, int64_t id, struct ebb_error *err)
{
    const struct ebb_doc_node *e, *done;
    EBB_TRY(cli_get(m, &e, err, "/experiments/%lld", (long long)id));
    if (strcmp(ebb_doc_string(e, "state", ""), "PAUSED") != 0)
        return EBB_OK;
    return cli_send(m, &done, err, "POST", NULL, "/experiments/%lld/activate", (long long)id);
}

static enum cli_follow_how how_to_follow(const struct run_options *o)
{
    if (o->submission.is_test)
        return CLI_FOLLOW_STAGES;
    if (o->where.is_json)
        return CLI_FOLLOW_JSON;
    const char *terminal = getenv("TERM"); /* "dumb" cannot go back over what was written */
    bool can_draw = terminal != NULL && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0;
    return isatty(STDOUT_FILENO) && can_draw ? CLI_FOLLOW_TABLE : CLI_FOLLOW_LINES;
}

static void say_created(const struct cli_follow *f, int64_t id)
{
    if (f->is_json)
        printf("{\"type\": \"created\", \"experiment_id\": %lld}\n", (long long)id);
    else
        printf("Created experiment %lld\n", (long long)id);
    fflush(stdout);
}

/* What a run went through so far. */
struct progress {
    int64_t id; /* 0: not submitted yet */
    bool is_interrupted;
    bool is_orphaned; /* another process was the master, and is gone */
};

/* What it does not watch and runs all the same: nobody is to be surprised by it. */
static void say_others(struct cli_master *m, int64_t id)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *root;
    struct ebb_str ids = {0};
    int64_t first = 0;
    if (m->own == NULL ||
        cli_get(m, &root, &err, "/experiments?state=ACTIVE&archived=all&sort=id") != EBB_OK)
        return;
    const struct ebb_doc_node *list = ebb_doc_get(root, "experiments");
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        int64_t other = ebb_doc_int(list->items[i], "id", 0);
        if (other == id)
            continue;
        ebb_str_printf(&ids, "%s%lld", first > 0 ? ", " : "", (long long)other);
        first = first > 0 ? first : other;
    }
    if (first > 0)
        fprintf(stderr,
                "ebb: note: this process also goes on with what is active here: experiment%s %s "
                "('ebb experiment pause %lld' stops one)\n",
                strchr(ebb_str_c(&ids), ',') != NULL ? "s" : "", ebb_str_c(&ids), (long long)first);
    ebb_str_fini(&ids);
}

/* The master was another process of this machine, and does not answer any more. */
static bool is_gone(const struct cli_master *m, enum ebb_status status)
{
    return status == EBB_EIO && m->own == NULL && m->state_dir != NULL;
}

static int run_and_follow(struct cli_master *m, const struct run_options *o, struct progress *p)
{
    struct cli_follow f;
    struct ebb_error err = {0};
    bool is_first = p->id == 0;
    int code = -1;
    enum ebb_status status = cli_follow_init(&f, m, how_to_follow(o), &err);
    if (status == EBB_OK && is_first && o->resume > 0)
        status = resume(m, o->resume, &err);
    p->is_orphaned = is_gone(m, status);
    if (status != EBB_OK)
        return p->is_orphaned ? 1 : cli_report(&err);
    f.is_json = o->where.is_json;
    if (is_first && o->resume > 0)
        p->id = o->resume;
    else if (is_first)
        code = cli_submit(m, &o->submission, &p->id);
    if (code >= 0)
        return code;
    if (is_first && o->resume == 0)
        say_created(&f, p->id);
    say_others(m, p->id);
    const struct ebb_doc_node *experiment = NULL;
    status = cli_follow_run(&f, p->id, &err);
    if (status == EBB_ECANCELED) {
        pause_here(m, o, p->id);
        p->is_interrupted = true;
        return 1;
    }
    EBB_THEN(status, cli_get(m, &experiment, &err, "/experiments/%lld", (long long)p->id));
    if (status == EBB_OK)
        return finish(m, o, &f, experiment);
    p->is_orphaned = is_gone(m, status);
    return p->is_orphaned ? 1 : cli_report(&err);
}

/* The master was another 'ebb run', which has ended: go on here, or with whoever was faster. */
static enum ebb_status take_over(struct cli_master *m, const struct run_options *o,
                                 const struct exp_master_options *options, const struct progress *p,
                                 struct ebb_error *err)
{
    cli_master_close(m, EXP_CLOSE_LEAVE, 0);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    EBB_TRY(cli_master_open(m, &o->where, CLI_RUN, options, err));
    if (m->own != NULL && p->id > 0)
        fprintf(stderr,
                "ebb: note: the master has ended; this process goes on with experiment "
                "%lld\n",
                (long long)p->id);
    return EBB_OK;
}

/* Let the collection of checkpoints end. Other experiments of the same state directory stay as they
 * are: the next master goes on with them. */
static void settle(struct cli_master *m)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *list;
    uint64_t start = ebb_clock_ns();
    if (m->own == NULL)
        return;
    int64_t others = 0;
    if (cli_get(m, &list, &err, "/experiments?state=ACTIVE&archived=all&limit=1") == EBB_OK)
        others = ebb_doc_int(list, "total", 0);
    if (others > 0)
        fprintf(stderr,
                "ebb: note: %lld more experiments are active: their trials end with a checkpoint "
                "after this step (Ctrl-C: at once); 'ebb run --resume ID' goes on with one\n",
                (long long)others);
    double patience = others > 0 ? 1 : 30;
    while (!exp_master_is_idle(m->own) && !cli_interrupted() &&
           (double)(ebb_clock_ns() - start) * 1e-9 < patience)
        exp_master_turn(m->own, 50);
}

static int start(const struct run_options *o)
{
    struct cli_master m;
    struct ebb_error err = {0};
    struct progress p = {0};
    int patience = 2; /* interrupts until trials are killed instead of waited for */
    struct exp_master_options options = {
        .slots = o->slots, .is_hurried = cli_is_hurried, .is_hurried_context = &patience};
    const char *heartbeat = getenv("EBB_HEARTBEAT_MS"); /* tests wait for less than a minute */
    if (heartbeat != NULL && !ebb_parse_i64(heartbeat, &options.heartbeat_ms))
        options.heartbeat_ms = 0;
    if (o->resume == 0) {
        int code = cli_submit_check(&o->submission);
        if (code >= 0)
            return code;
    }
    cli_catch_two_interrupts();
    if (cli_master_open(&m, &o->where, CLI_RUN, &options, &err) != EBB_OK)
        return cli_report(&err);
    struct serve_listen listen = {.listen = o->listen};
    if (m.own != NULL && cli_master_listen(&m, &listen, &err) != EBB_OK) {
        cli_master_close(&m, EXP_CLOSE_LEAVE, 0);
        return cli_report(&err);
    }
    if (m.own != NULL && serve_url(m.own) != NULL && !o->where.is_json)
        fprintf(stderr, "ebb: note: the page is at %s ('ebb ui' logs a browser in)\n",
                serve_url(m.own));
    if (m.own == NULL && o->listen != NULL)
        fprintf(stderr, "ebb: note: another master runs ('ebb ui' shows its page, if it has one): "
                        "--listen has no effect\n");
    if (m.own == NULL && o->slots != SLOTS_BY_CPUS)
        fprintf(stderr, "ebb: note: another master runs, with slots of its own ('ebb slot list'): "
                        "--slots has no effect\n");
    int code = run_and_follow(&m, o, &p);
    while (p.is_orphaned && !cli_interrupted()) {
        if (take_over(&m, o, &options, &p, &err) != EBB_OK)
            return cli_report(&err);
        code = run_and_follow(&m, o, &p);
    }
    if (!p.is_interrupted)
        settle(&m);
    patience = p.is_interrupted ? 2 : 1;
    cli_master_close(&m, EXP_CLOSE_PREEMPT, -1);
    return code;
}

static int run(int argc, char **argv)
{
    struct run_options o = {.slots = SLOTS_BY_CPUS};
    const struct cli_spec spec = {
        .usage = "ebb run (FILE [MODEL_DEF] | --resume ID) [OPTION...]",
        .description =
            "Make an experiment from FILE and watch it until it ends. On a terminal a table of "
            "the\n"
            "trials is kept up to date: state, steps, metric, best so far, time left; in a pipe\n"
            "there is one line per change. At the end: the best trial, learning curves and a\n"
            "parallel-coordinates chart.\n"
            "\n"
            "MODEL_DEF is the file or directory that trials need; without it the directory of "
            "FILE\n"
            "(nothing for entrypoint ebb:...). What a file .ebbignore there lists stays out.\n"
            "\n"
            "This process is the master while it runs. If another one holds the state directory,\n"
            "the experiment is handed to it and only watched here, until that one ends. Ctrl-C "
            "pauses\n"
            "it at a checkpoint; --resume goes on. Nothing is lost when the process is "
            "killed.\n"
            "\n"
            "Exit code 0: completed; 1: failed, canceled or interrupted; 2: FILE is not valid.\n"
            "\n"
            "Examples:\n"
            "  ebb run exp.yaml --test-mode          does it work at all?\n"
            "  ebb run exp.yaml --slots 4\n"
            "  ebb run exp.yaml --config searcher.max_trials=2\n"
            "  ebb run --resume 3",
        CLI_OPTION_ROWS({"test-mode", 't', CLI_FLAG, &o.submission.is_test, NULL,
                         "one batch, one validation, one checkpoint: does it run at all?"},
                        {"config", 0, CLI_TEXTS, &o.submission.changes, "KEY=VALUE",
                         "change the file: searcher.max_steps=4; may be repeated"},
                        {"template", 0, CLI_STRING, &o.submission.template_name, "NAME",
                         "template under the file (ebb template list)"},
                        {"git", 'g', CLI_FLAG, &o.submission.is_git, NULL,
                         "record remote, commit and committer; needs a clean, pushed work tree"},
                        {"slots", 0, CLI_INT, &o.slots, "N",
                         "trials that may run at the same time; else by CPUs"},
                        {"resume", 0, CLI_INT, &o.resume, "ID",
                         "go on with an experiment that exists, or watch one that runs"},
                        {"listen", 0, CLI_STRING, &o.listen, "ADDRESS:PORT",
                         "show the page there meanwhile: 127.0.0.1:8080 (ebb serve tells more)"},
                        {"output", 'o', CLI_STRING, &o.output, "DIR",
                         "where the charts go; else charts/experiment-ID of the state directory"},
                        {"no-charts", 0, CLI_FLAG, &o.has_no_charts, NULL, "write no charts"}),
        CLI_NEEDS({"test-mode", "!resume"}, {"config", "!resume"}, {"template", "!resume"},
                  {"git", "!resume"}, {"output", "!no-charts"}),
        CLI_LIMITS({"slots", 1, 4096}),
        .max_positional = 2,
        .where = &o.where,
        .json_help = "one JSON object per event; the last one is the result",
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    if ((args.positional_count == 0) == (o.resume == 0)) {
        code = cli_usage_error("give an experiment file, or --resume ID; see 'ebb run --help'");
    } else if (args.positional_count > 0 && strcmp(args.positional[0], "-") == 0) {
        code = cli_usage_error("an experiment needs a file: its directory is the model definition");
    } else {
        if (args.positional_count > 0)
            o.submission.file = args.positional[0];
        if (args.positional_count > 1)
            o.submission.model_def = args.positional[1];
        code = start(&o);
    }
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_run = {
    .name = "run",
    .summary = "run an experiment here: live table of trials, best so far, charts",
    .run = run,
};
