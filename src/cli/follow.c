/* follow.c - the loop and the events; follow_draw.c has the table. */
#include "cli/follow.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "cli/show.h"

#define TURN_MS 100
#define DRAW_NS 200000000u    /* at most five times a second */
#define REDRAW_NS 1000000000u /* clocks go on without events */
#define LOOK_NS 1000000000ull /* for uploads, when the trials have ended */
#define STEP_LINE_NS 1000000000u
#define WARN_NS 60000000000ull /* of a disk that is full, has room, is full */

static const char *const stages[] = {"scheduling", "training", "validation", "checkpointing"};

bool cli_state_is_over(const char *state)
{
    return strcmp(state, "COMPLETED") == 0 || strcmp(state, "CANCELED") == 0 ||
           strcmp(state, "ERROR") == 0 || strncmp(state, "DELET", 5) == 0;
}

enum ebb_status cli_follow_init(struct cli_follow *f, struct cli_master *m, enum cli_follow_how how,
                                struct ebb_error *err)
{
    struct cli_answer answer;
    *f = (struct cli_follow){.master = m, .how = how, .start_ns = ebb_clock_ns()};
    enum ebb_status status = cli_ask(m, &answer, err, "GET", NULL, "/events?after=-1");
    if (status == EBB_OK)
        f->after = ebb_doc_int(answer.root, "next", 0);
    cli_answer_fini(&answer);
    return status;
}

/* ---- events as lines ---- */

static void begin_line(struct cli_follow *f)
{
    printf("%8.1f s  ", (double)(ebb_clock_ns() - f->start_ns) * 1e-9);
    f->line_ns = ebb_clock_ns();
}

/* What another trial has failed of in the same words is not told again: that trial; 0 = nobody. */
static int64_t said_before(struct cli_follow *f, const char *message, int64_t trial)
{
    uint64_t hash = ebb_hash64(message, strlen(message));
    size_t known = f->said_count < CLI_FOLLOW_SAID ? f->said_count : CLI_FOLLOW_SAID;
    for (size_t i = 0; i < known; i++)
        if (f->said[i].hash == hash && f->said[i].trial != trial)
            return f->said[i].trial;
    size_t at = f->said_count++ % CLI_FOLLOW_SAID;
    f->said[at].hash = hash;
    f->said[at].trial = trial;
    return 0;
}

/* A trial that says it ends, and then does, is heard of twice. */
static bool told_its_end(struct cli_follow *f, int64_t trial)
{
    size_t known = f->ended_count < CLI_FOLLOW_SAID ? f->ended_count : CLI_FOLLOW_SAID;
    for (size_t i = 0; i < known; i++)
        if (f->ended[i] == trial)
            return true;
    f->ended[f->ended_count++ % CLI_FOLLOW_SAID] = trial;
    return false;
}

static void print_failure(struct cli_follow *f, int64_t trial, const char *message)
{
    struct ebb_str plain = {0};
    int64_t same = said_before(f, message, trial);
    cli_show_plain(&plain, message);
    if (same > 0)
        printf(": as trial %lld\n", (long long)same);
    else
        printf(": %s\n", ebb_str_c(&plain));
    ebb_str_fini(&plain);
}

static void print_line(struct cli_follow *f, const char *type, const struct ebb_doc_node *e)
{
    char buf[CLI_CELL];
    long long trial = (long long)ebb_doc_int(e, "trial_id", 0);
    long long step = (long long)ebb_doc_int(e, "step_id", 0);
    const char *state = ebb_doc_string(e, "state", "");
    const char *message = ebb_doc_string(e, "message", "");
    if (strcmp(type, "experiment") == 0) {
        if (strcmp(state, f->state) == 0)
            return; /* only its progress changed */
        begin_line(f);
        printf("experiment %lld: %s\n", (long long)f->id, state);
    } else if (strcmp(type, "trial") == 0) {
        bool is_active = strcmp(state, "ACTIVE") == 0;
        bool is_running = ebb_doc_bool(e, "is_running", true);
        if ((is_active && !is_running && message[0] == '\0') || trial == 0)
            return; /* it waits for its next slot, or never had one */
        if (!is_active && told_its_end(f, trial))
            return;
        begin_line(f);
        /* the message is that of its last failure, which is no news once it runs or has ended */
        bool has_failed = is_active ? !is_running : strcmp(state, "ERROR") == 0;
        printf("trial %lld: %s", trial,
               is_active ? is_running ? "running" : "failed, will be restarted" : state);
        if (has_failed && message[0] != '\0')
            print_failure(f, trial, message);
        else
            putchar('\n');
    } else if (strcmp(type, "validation") == 0) {
        const char *number = cli_show_number(ebb_doc_get(e, "metric"), buf);
        bool is_nan = strcmp(number, "NaN") == 0;
        begin_line(f);
        printf("trial %lld, step %lld: %s %s%s\n", trial, step, f->metric, number,
               is_nan                              ? " (counts as the worst value)"
               : ebb_doc_bool(e, "is_best", false) ? " (best so far)"
                                                   : "");
    } else if (strcmp(type, "step") == 0 && ebb_clock_ns() - f->line_ns > STEP_LINE_NS) {
        begin_line(f);
        printf("trial %lld, step %lld: loss %s\n", trial, step,
               cli_show_number(ebb_doc_get(e, "loss"), buf));
    }
    fflush(stdout);
}

/* ---- test mode ---- */

static void print_stage(const struct cli_follow *f, bool is_ok)
{
    if (f->is_json)
        printf("{\"type\": \"stage\", \"stage\": \"%s\", \"ok\": %s}\n", stages[f->stage],
               is_ok ? "true" : "false");
    else
        printf("%-14s %s\n", stages[f->stage], is_ok ? "ok" : "failed");
    fflush(stdout);
}

static void pass_stages(struct cli_follow *f, int upto)
{
    for (; f->stage < upto; f->stage++)
        print_stage(f, true);
}

static void stage_event(struct cli_follow *f, const char *type, const struct ebb_doc_node *e)
{
    const char *state = ebb_doc_string(e, "state", "");
    if (strcmp(type, "trial") == 0 && strcmp(state, "ACTIVE") == 0)
        pass_stages(f, 1);
    else if (strcmp(type, "step") == 0)
        pass_stages(f, 2);
    else if (strcmp(type, "validation") == 0)
        pass_stages(f, 3);
    else if (strcmp(type, "checkpoint") == 0 &&
             (state[0] == '\0' || strcmp(state, "COMPLETED") == 0))
        pass_stages(f, 4);
}

/* ---- the loop ---- */

static void handle_event(struct cli_follow *f, const struct ebb_doc_node *e)
{
    const char *type = ebb_doc_string(e, "type", "");
    if (f->trial_id == 0)
        f->trial_id = ebb_doc_int(e, "trial_id", 0);
    f->is_dirty = true;
    if (f->how == CLI_FOLLOW_JSON) {
        struct ebb_str line = {0};
        cli_show_json(&line, e);
        puts(ebb_str_c(&line));
        fflush(stdout);
        ebb_str_fini(&line);
    } else if (f->how == CLI_FOLLOW_LINES) {
        print_line(f, type, e);
    } else if (f->how == CLI_FOLLOW_STAGES) {
        stage_event(f, type, e);
    }
    if (strcmp(type, "experiment") == 0) {
        snprintf(f->state, sizeof f->state, "%s", ebb_doc_string(e, "state", ""));
        f->is_over = cli_state_is_over(f->state);
    }
}

static enum ebb_status learn(struct cli_follow *f, struct ebb_error *err)
{
    struct cli_answer answer;
    enum ebb_status status =
        cli_ask(f->master, &answer, err, "GET", NULL, "/experiments/%lld", (long long)f->id);
    if (status == EBB_OK) {
        snprintf(f->metric, sizeof f->metric, "%s",
                 ebb_doc_string(answer.root, "metric", "metric"));
        snprintf(f->state, sizeof f->state, "%s", ebb_doc_string(answer.root, "state", ""));
        f->start_progress = ebb_doc_double(answer.root, "progress", 0);
        f->is_over = cli_state_is_over(f->state);
    }
    cli_answer_fini(&answer);
    return status;
}

/* The master cannot write its database, and keeps trying: so do we, having said it. Room that comes
 * and goes is told once a minute. */
static void wait_for_disk(struct cli_follow *f, struct cli_answer *answer)
{
    struct ebb_error err = {0};
    uint64_t now = ebb_clock_ns();
    bool is_due = f->warned_ns == 0 || now - f->warned_ns >= WARN_NS;
    cli_answer_error(answer, &err);
    if (!f->is_stalled && is_due) {
        f->warned_ns = now;
        fprintf(stderr, "ebb: warning: %s; trials wait until it can be written again\n",
                err.message);
    }
    f->is_stalled = true;
    f->drawn_lines = 0; /* the table is below the warning now */
    cli_answer_fini(answer);
    if (f->master->own == NULL)
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

static enum ebb_status take_events(struct cli_follow *f, struct ebb_error *err)
{
    struct cli_answer answer;
    if (f->master->own != NULL)
        exp_master_turn(f->master->own, TURN_MS);
    char target[128];
    snprintf(target, sizeof target, "/events?after=%lld&experiment_id=%lld&wait=%d",
             (long long)f->after, (long long)f->id, f->master->own != NULL ? 0 : 1);
    enum ebb_status status = cli_ask_raw(f->master, "GET", target, NULL, &answer, err);
    if (status == EBB_OK && answer.response.status == 503) {
        wait_for_disk(f, &answer);
        return EBB_OK;
    }
    f->is_stalled = false;
    if (status == EBB_OK && answer.response.status >= 400)
        status = cli_answer_error(&answer, err);
    const struct ebb_doc_node *list = ebb_doc_get(answer.root, "events");
    bool is_cut = status == EBB_OK && ebb_doc_bool(answer.root, "is_cut", false);
    for (size_t i = 0; status == EBB_OK && list != NULL && i < list->count; i++)
        handle_event(f, list->items[i]);
    if (status == EBB_OK)
        f->after = ebb_doc_int(answer.root, "next", f->after);
    cli_answer_fini(&answer);
    return is_cut ? learn(f, err) : status; /* its end may be among what was missed */
}

/* Trained, and not all of it in the store: said when it changes, on lines of their own. */
static void tell_uploads(struct cli_follow *f)
{
    struct cli_answer answer = {0};
    struct ebb_str text = {0};
    uint64_t now = ebb_clock_ns();
    bool is_ending = strncmp(f->state, "STOPPING", 8) == 0;
    if (now - f->looked_ns < (is_ending ? LOOK_NS : 5 * LOOK_NS))
        return;
    f->looked_ns = now;
    if (cli_ask(f->master, &answer, NULL, "GET", NULL, "/experiments/%lld", (long long)f->id) !=
        EBB_OK)
        return;
    const struct ebb_doc_node *uploads = ebb_doc_get(answer.root, "uploads");
    size_t count = (size_t)ebb_doc_int(uploads, "checkpoints", 0);
    bool is_refused = ebb_doc_string(uploads, "error", NULL) != NULL;
    if ((count != f->waiting || (is_refused && !f->is_refused)) &&
        (is_refused || (is_ending && count > 0))) {
        cli_show_uploads(uploads, &text);
        fprintf(stderr, "ebb: note: %s\n", ebb_str_c(&text));
        ebb_str_fini(&text);
        f->drawn_lines = 0; /* the table is below the note now */
    }
    f->waiting = count;
    f->is_refused = is_refused;
    cli_answer_fini(&answer);
}

enum ebb_status cli_follow_run(struct cli_follow *f, int64_t id, struct ebb_error *err)
{
    f->id = id;
    EBB_TRY(learn(f, err));
    f->was_over = f->is_over;
    f->is_dirty = true;
    while (!f->is_over) {
        if (cli_interrupted())
            return ebb_fail(err, EBB_ECANCELED, "interrupted");
        enum ebb_status status = take_events(f, err);
        if (status != EBB_OK && cli_interrupted())
            return ebb_fail(err, EBB_ECANCELED, "interrupted");
        EBB_TRY(status);
        tell_uploads(f);
        uint64_t now = ebb_clock_ns(), since = now - f->drawn_ns;
        if (f->how == CLI_FOLLOW_TABLE && !f->is_stalled &&
            ((f->is_dirty && since >= DRAW_NS) || since >= REDRAW_NS)) {
            EBB_TRY(cli_follow_draw(f, err));
            f->is_dirty = false;
            f->drawn_ns = now;
        }
    }
    if (f->how == CLI_FOLLOW_TABLE)
        EBB_TRY(cli_follow_draw(f, err));
    if (f->how == CLI_FOLLOW_STAGES && f->stage < 4)
        print_stage(f, false);
    return EBB_OK;
}
