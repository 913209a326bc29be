/* cmd_train.c - ebb train: one trial in this process, no master, no database. */
#include "cli/cmd_train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "cli/machine.h"
#include "cli/res_check.h"
#include "profile/profile.h"

enum { DEFAULT_CHECKPOINT_EVERY = 100, FULL_DISK_NS = 500000000 };
#define NOT_GIVEN INT64_MIN

/* ---- the loop -------------------------------------------------------------------------------- */

static const struct train_metric *find_metric(const struct cli_train_session *s, const char *name)
{
    for (size_t i = 0; i < s->metrics.count; i++)
        if (strcmp(s->metrics.items[i].name, name) == 0)
            return &s->metrics.items[i];
    return NULL;
}

/* The metric of early_stopping: whether it still gets better. --patience is about the searcher's. */
static enum ebb_status watch_early(struct cli_train_session *s, struct ebb_error *err)
{
    const struct exp_early_stopping *early = &s->early;
    int64_t every =
        s->o->validate_every; /* one at the end of a run that is resumed later counts not */
    if (early->patience == 0 || every == 0 || train_trial_updates(s->trial) % every != 0)
        return EBB_OK;
    const struct train_metric *m = find_metric(s, early->metric);
    if (!m) {
        struct ebb_str names = {0};
        for (size_t i = 0; i < s->metrics.count; i++)
            ebb_words_add(&names, s->metrics.items[i].name);
        enum ebb_status status =
            ebb_fail(err, EBB_EINPUT, "%s looks at %s, validation measures: %s",
                     s->o->patience ? "--patience" : "searcher.early_stopping", early->metric,
                     ebb_str_c(&names));
        ebb_str_fini(&names);
        return status;
    }
    train_trial_watch(s->trial, TRAIN_WATCH_EARLY, m->value, early->smaller_is_better);
    s->is_over = train_trial_since_best(s->trial, TRAIN_WATCH_EARLY) >= early->patience;
    return EBB_OK;
}

/* The metric of the searcher says which checkpoint is the best. */
static enum ebb_status watch(struct cli_train_session *s, struct ebb_error *err)
{
    const struct exp_searcher *searcher = &s->file->exp.searcher;
    const struct train_metric *m = find_metric(s, searcher->metric);
    EBB_TRY(watch_early(s, err));
    if (s->o->checkpoint && !m && !s->has_no_best) {
        fprintf(stderr,
                "ebb: note: searcher.metric is %s, which validation does not measure: the best "
                "checkpoint is not kept\n",
                searcher->metric);
        s->has_no_best = true;
    }
    if (!s->o->checkpoint || !m ||
        !train_trial_watch(s->trial, TRAIN_WATCH_BEST, m->value, searcher->smaller_is_better))
        return EBB_OK;
    return train_store_save_best(s->trial, ebb_str_c(&s->store), err);
}

static enum ebb_status validate(struct cli_train_session *s, struct ebb_error *err)
{
    if (s->o->no_validation || !train_trial_has_validation(s->trial))
        return EBB_OK;
    EBB_TRY(train_trial_validate(s->trial, NULL, NULL, &s->metrics, err));
    for (size_t i = 0; i < s->metrics.count; i++)
        EBB_TRY(cli_train_record(s, s->metrics.items[i].name, s->metrics.items[i].value, err));
    return watch(s, err);
}

/* A checkpoint that nobody asked for before, after Ctrl-C: the folder that is named after the file
 * may be another run's, then a new one is. */
static enum ebb_status find_store(struct cli_train_session *s, struct ebb_error *err)
{
    struct ebb_str name = {0};
    ebb_str_add(&name, ebb_str_c(&s->store));
    enum ebb_status status = ebb_str_status(&name, err);
    for (int n = 2; status == EBB_OK; n++) {
        status = train_store_lock(ebb_str_c(&s->store), &s->lock, err);
        EBB_THEN(status, train_store_claim(s->trial, ebb_str_c(&s->store), err));
        if (status != EBB_EINPUT || n == 1000)
            break;
        train_store_unlock(s->lock);
        s->lock = -1;
        ebb_str_clear(&s->store);
        ebb_str_printf(&s->store, "%s-%d", ebb_str_c(&name), n);
        status = ebb_str_status(&s->store, err);
    }
    ebb_str_fini(&name);
    return status;
}

/* Nothing is lost by a full disk: it is waited for until there is room, or Ctrl-C. */
static enum ebb_status save(struct cli_train_session *s, struct ebb_error *err)
{
    bool was_interrupted = cli_interrupted(), has_said = false;
    struct ebb_error why = {0};
    enum ebb_status status;
    if (s->lock < 0)
        EBB_TRY(find_store(s, err));
    for (;;) {
        status = cli_train_flush_records(s, &why);
        EBB_THEN(status, train_store_save(s->trial, ebb_str_c(&s->store), &why));
        if (status != EBB_EFULL || (cli_interrupted() && !was_interrupted))
            break;
        if (!has_said)
            fprintf(stderr, "ebb: %s: waiting for room, then it goes on (Ctrl-C ends it)\n",
                    why.message);
        has_said = true;
        nanosleep(&(struct timespec){.tv_nsec = FULL_DISK_NS}, NULL);
    }
    if (has_said && status == EBB_OK)
        fprintf(stderr, "ebb: there is room again\n");
    if (status != EBB_OK && err)
        *err = why;
    return status;
}

static enum ebb_status after_update(struct cli_train_session *s, const struct train_batch *b,
                                    struct ebb_error *err)
{
    const struct cli_train_settings *o = s->o;
    int64_t updates = train_trial_updates(s->trial);
    if (b->is_skipped) /* the next one has its number */
        return EBB_OK;
    if (!isfinite(s->loss) && !s->has_warned) {
        fprintf(stderr,
                "ebb: warning: the loss of update %" PRId64 " is %g: training has diverged\n",
                updates, s->loss);
        s->has_warned = true;
    }
    EBB_TRY(cli_train_record(s, "loss", s->loss, err));
    EBB_TRY(cli_train_record(s, "learning_rate", b->rate, err));
    if (isfinite(b->norm))
        EBB_TRY(cli_train_record(s, "gradient_norm", b->norm, err));
    EBB_TRY(cli_train_record(s, "update_ms", (double)b->ns / 1e6, err));
    bool is_end = updates >= s->target;
    if (!is_end && o->validate_every > 0 && updates % o->validate_every == 0)
        EBB_TRY(validate(s, err));
    if (!is_end && o->checkpoint && updates % o->checkpoint_every == 0)
        EBB_TRY(save(s, err));
    return EBB_OK;
}

static enum ebb_status loop(struct cli_train_session *s, struct ebb_error *err)
{
    struct train_batch b;
    double sum = 0;
    int64_t count = 0, items = 0, left = s->target - train_trial_updates(s->trial);
    s->progress = ebb_progress_create("train", left > 0 ? (uint64_t)left : 0);
    enum ebb_status status = EBB_OK;
    while (train_trial_updates(s->trial) < s->target && status == EBB_OK && !s->is_over &&
           !cli_interrupted()) {
        status = train_trial_batch(s->trial, &b, err);
        if (status != EBB_OK && s->o->checkpoint && train_trial_is_whole(s->trial) &&
            save(s, NULL) == EBB_OK)
            fprintf(stderr, "ebb: note: a checkpoint of all %" PRId64 " updates is in %s\n",
                    train_trial_updates(s->trial), ebb_str_c(&s->store));
        if (status != EBB_OK)
            break;
        sum += b.loss;
        items += b.records;
        count++;
        if (!b.is_update)
            continue;
        s->loss = sum / (double)count;
        sum = 0;
        count = 0;
        cli_train_progress(s, &b, items);
        items = 0;
        status = after_update(s, &b, err);
    }
    ebb_progress_destroy(s->progress);
    s->progress = NULL;
    return status;
}

static enum ebb_status start(struct cli_train_session *s, struct ebb_error *err)
{
    const struct cli_train_settings *o = s->o;
    if (o->resume) {
        struct ebb_str note = {0};
        bool found;
        enum ebb_status status = train_store_load(s->trial, o->resume, &found, &note, err);
        if (note.length)
            fprintf(stderr, "ebb: warning: %s", ebb_str_c(&note));
        ebb_str_fini(&note);
        EBB_TRY(status);
        if (!found)
            fprintf(stderr, "ebb: note: %s holds no checkpoint: starting at the beginning\n",
                    o->resume);
        if (found && o->init_weights)
            return ebb_fail(err, EBB_EINPUT,
                            "--init-weights has no meaning when a checkpoint is resumed");
        s->is_resumed = found;
        s->is_over = found && s->early.patience > 0 && o->validate_every > 0 &&
                     train_trial_since_best(s->trial, TRAIN_WATCH_EARLY) >= s->early.patience;
        if (found)
            return EBB_OK;
    }
    if (!o->init_weights)
        return EBB_OK;
    struct train_init init = {
        .path = o->init_weights,
        .changes = {o->rename.items, o->rename.count, o->transpose.items, o->transpose.count},
        .fresh = o->fresh.items,
        .fresh_count = o->fresh.count};
    struct ebb_str list = {0};
    enum ebb_status status = train_trial_import(s->trial, &init, &list, err);
    fputs(ebb_str_c(&list), stderr);
    ebb_str_fini(&list);
    return status;
}

static enum ebb_status check_targets(struct cli_train_session *s, struct ebb_error *err)
{
    if (s->o->export_weights)
        EBB_TRY(cli_train_target(s->o->export_weights, err));
    if (s->o->profile)
        EBB_TRY(cli_train_target(s->o->profile, err));
    if (!s->o->checkpoint)
        return EBB_OK;
    s->made_store = access(s->o->checkpoint, F_OK) != 0;
    return train_store_lock(s->o->checkpoint, &s->lock, err);
}

/* A word of a command line, for a shell. */
static void print_word(const char *text)
{
    bool is_plain = text[strcspn(text, " \t\n'\"\\$`*?[]{}()<>|&;!#~")] == '\0';
    fputs(is_plain ? "" : "'", stderr);
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, stderr);
    fputs(is_plain ? "" : "'", stderr);
}

static void say_how_to_go_on(const struct cli_train_session *s)
{
    const struct cli_train_changes *c = &s->o->changes;
    bool has_more = c->sets.count || c->links.count || c->budget || c->host || c->file ||
                    c->policy || c->file_path || c->rewrites || c->device || c->costs ||
                    c->seed >= 0 || c->gradients || c->chunk;
#define CLI_TRAIN_FIELD(name, help) has_more |= c->name != 0;
    CLI_TRAIN_SWITCHES(CLI_TRAIN_FIELD)
    CLI_TRAIN_RATIOS(CLI_TRAIN_FIELD)
#undef CLI_TRAIN_FIELD
    fprintf(stderr, "ebb: interrupted; a checkpoint is in %s\nGo on with: ebb train ",
            ebb_str_c(&s->store));
    print_word(s->path);
    fputs(" --resume ", stderr);
    print_word(ebb_str_c(&s->store));
    if (s->o->checkpoint) { /* it keeps new ones there, too */
        fputs(" --checkpoint ", stderr);
        print_word(ebb_str_c(&s->store));
    }
    if (s->o->updates != NOT_GIVEN)
        fprintf(stderr, " --updates %" PRId64, s->o->updates);
    fputs(has_more ? " (and the other options of this run)\n" : "\n", stderr);
}

/* Where less than all memory is given: what that is expected to take, before it does. */
static void say_what_comes(const struct cli_train_session *s)
{
    struct train_state st;
    char each[32], peak[32];
    train_trial_state(s->trial, &st);
    if (s->o->is_json || (st.budget_bytes == UINT64_MAX && !st.costs) || st.updates >= s->target)
        return;
    fprintf(stderr, "ebb: an update is predicted to take %s in %s, by %s\n",
            ebb_format_ns(st.predicted_ns, each, sizeof each),
            ebb_format_bytes(st.peak_bytes, peak, sizeof peak),
            st.costs ? st.costs : "built-in times");
}

static enum ebb_status work(struct cli_train_session *s, struct ebb_error *err)
{
    const char *schedule = s->file->config.schedule_name;
    if (schedule && strcasecmp(schedule, "ReduceLROnPlateau") == 0 && !s->o->validate_every)
        fprintf(stderr, "ebb: note: ReduceLROnPlateau looks at validations: without "
                        "--validate-every the rate stays as it is\n");
    if (s->early.patience && !s->o->validate_every)
        fprintf(stderr, "ebb: note: searcher.early_stopping looks at validations: without "
                        "--validate-every training does not end early\n");
    EBB_TRY(check_targets(s, err));
    EBB_TRY(start(s, err));
    if (s->o->checkpoint)
        EBB_TRY(train_store_claim(s->trial, s->o->checkpoint, err));
    EBB_TRY(train_trial_lasts(s->trial, s->target, err));
    EBB_TRY(cli_train_open_records(s, err));
    say_what_comes(s);
    EBB_TRY(loop(s, err));
    if (cli_interrupted()) {
        s->status = "interrupted";
        EBB_TRY(save(s, err));
        say_how_to_go_on(s);
    } else {
        if (s->is_over)
            fprintf(stderr,
                    "ebb: note: %s has not become better in %" PRId64
                    " validations: training ends after update %" PRId64 "\n",
                    s->early.metric, s->early.patience, train_trial_updates(s->trial));
        else
            EBB_TRY(validate(s, err));
        if (s->o->checkpoint)
            EBB_TRY(save(s, err));
    }
    if (s->o->export_weights)
        EBB_TRY(train_trial_export(s->trial, s->o->export_weights, err));
    return cli_train_close_records(s, err);
}

/* ---- refusal --------------------------------------------------------------------------------- */

/* Below the floor: say which it is, also for programs. */
static int refuse(struct cli_train_session *s, uint64_t floor_bytes, struct ebb_error *err)
{
    const struct train_config *config = &s->file->config;
    struct train_state st = {.budget_bytes = config->budget_bytes,
                             .floor_bytes = floor_bytes,
                             .threads = config->threads ? config->threads : ebb_cpu_count()};
    cli_report(err);
    s->status = "refused";
    s->loss = NAN;
    if (s->o->is_json)
        cli_train_json(s, &st, NULL);
    return 1;
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum ebb_status save_trace(const struct cli_train_session *s, struct ebb_error *err)
{
    const char *path = s->o->save_trace;
    const struct trace *trace = train_trial_trace(s->trial);
    size_t n = strlen(path);
    char lost[512] = "";
    if (n < 4 || strcmp(path + n - 4, ".log") != 0)
        return trace_write_native(trace, path, err);
    EBB_TRY(trace_write_dtr(trace, path, lost, sizeof lost, err));
    if (*lost)
        fprintf(stderr, "ebb: note: a DTR log cannot say everything: %s\n", lost);
    return EBB_OK;
}

/* One line on a terminal while something is made that takes up to seconds; an empty one clears it.
 */
static void say(const char *text)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%s\033[K", text);
}

static enum ebb_status save_profile(const struct cli_train_session *s, struct ebb_error *err)
{
    const struct train_config *c = &s->file->config;
    struct profile *profile = NULL;
    EBB_TRY(train_trial_algorithms(s->trial, false, s->times, err));
    EBB_TRY(train_times_profile(s->times, c->device, c->file_path, &profile, err));
    enum ebb_status status = profile_write(profile, s->o->profile, err);
    profile_destroy(profile);
    return status;
}

/* Before the first update: what the device takes besides. */
static void tell_reserve(const struct cli_train_session *s)
{
    struct train_state st;
    char text[32];
    train_trial_state(s->trial, &st);
    if (st.device_reserve_bytes && !s->o->is_json)
        printf("reserve: at most %s of the device beside the budget, for the driver's context, "
               "kernels and "
               "graphs\n",
               ebb_format_bytes(st.device_reserve_bytes, text, sizeof text));
}

/* A run that ended before its first update has made nothing; folders with something in them stay. */
static void leave_nothing(const struct cli_train_session *s)
{
    if (s->is_resumed || (s->trial && train_trial_updates(s->trial) > 0))
        return;
    if (s->made_csv)
        (void)unlink(s->o->csv);
    if (s->made_store)
        (void)rmdir(s->o->checkpoint);
}

static int train(struct cli_train_session *s)
{
    const struct cli_train_settings *o = s->o;
    struct ebb_error err = {0};
    uint64_t needed = 0;
    struct train_options options = {.workers = (int)o->workers,
                                    .any_threads = o->any_threads,
                                    .needed_bytes = &needed,
                                    .knows_machine = true,
                                    .machine_bytes = cli_machine_bytes()};
    struct train_state st;
    char hash[65] = "";
    say("preparing: the step is recorded and planned");
    enum ebb_status status = o->profile ? train_times_create(&s->times, &err) : EBB_OK;
    options.times = s->times;
    EBB_THEN(status, train_trial_create(&s->trial, &s->file->config, &options, &err));
    say("");
    if (status == EBB_EBUDGET)
        return refuse(s, needed, &err);
    if (status == EBB_OK && o->save_trace)
        status = save_trace(s, &err);
    if (status == EBB_OK) {
        tell_reserve(s);
        cli_catch_interrupts();
        status = work(s, &err);
    }
    if (o->profile)
        EBB_THEN(status, save_profile(s, &err));
    EBB_THEN(status, train_trial_hash(s->trial, hash, &err));
    uint64_t floor_bytes;
    EBB_THEN(status, train_trial_floor(s->trial, &floor_bytes, &err));
    if (status != EBB_OK) {
        cli_train_close_records(s, NULL);
        leave_nothing(s);
        return cli_report(&err);
    }
    train_trial_state(s->trial, &st);
    if (st.beyond_bytes > st.allowed_bytes && st.samples)
        fprintf(stderr,
                "ebb: warning: the process took %" PRIu64 " bytes more than is accounted for, in "
                "update %" PRId64 " at %s: memory.reserve allows %" PRIu64 "\n",
                st.beyond_bytes, st.beyond_update, st.beyond_op ? st.beyond_op : "no op",
                st.allowed_bytes);
    if (train_trial_remember(s->trial, &s->next_reserve, &err) != EBB_OK)
        fprintf(stderr, "ebb: warning: %s\n", err.message);
    else if (s->next_reserve)
        fprintf(stderr,
                "ebb: note: memory.reserve: auto allows %" PRIu64 " bytes from the next start on "
                "(%s)\n",
                s->next_reserve, st.reserve_file);
    if (o->is_json)
        cli_train_json(s, &st, hash);
    else
        cli_train_summary(s, &st, hash);
    return strcmp(s->status, "ok") == 0 ? 0 : 1;
}

static void choose_store(struct cli_train_session *s)
{
    const char *name = ebb_file_name(s->path);
    if (s->o->checkpoint || s->o->resume)
        ebb_str_add(&s->store, s->o->checkpoint ? s->o->checkpoint : s->o->resume);
    else
        ebb_str_printf(&s->store, "%.*s.checkpoints", (int)strcspn(name, "."), name);
}

static bool is_no_folder(const char *path)
{
    struct stat is;
    return path && stat(path, &is) == 0 && !S_ISDIR(is.st_mode);
}

static int open_and_train(const char *path, struct cli_train_settings *o)
{
    struct cli_train_file file;
    struct cli_train_session s = {
        .o = o, .path = path, .file = &file, .status = "ok", .loss = NAN, .lock = -1};
    ebb_str_init(&s.store);
    if (o->resume && access(o->resume, F_OK) != 0)
        return cli_usage_error("--resume %s: there is no such folder; to begin anew, leave the "
                               "option away",
                               o->resume);
    if (is_no_folder(o->checkpoint) || is_no_folder(o->resume))
        return cli_usage_error("%s: a folder of checkpoints is wanted, this is a file",
                               is_no_folder(o->checkpoint) ? o->checkpoint : o->resume);
    if (o->resume && o->changes.threads == 0) /* results depend on it: as it was */
        o->changes.threads = train_store_threads(o->resume);
    int code = cli_train_open(&file, path, &o->changes);
    if (code < 0)
        code = cli_train_folder(&file.config, &o->changes, o->profile != NULL);
    if (code < 0) {
        s.target = o->updates != NOT_GIVEN ? o->updates : file.updates;
        s.early = file.exp.searcher.early_stopping;
        if (o->patience)
            s.early = (struct exp_early_stopping){o->patience, file.exp.searcher.metric,
                                                  file.exp.searcher.smaller_is_better};
        choose_store(&s);
        if (s.target == 0 && o->updates == NOT_GIVEN)
            code = cli_usage_error("%s: the batches of a trial do not make one update of %" PRId64
                                   " (optimizations.aggregation_frequency)",
                                   path, file.config.accumulate);
        else if (o->res_check)
            code = cli_res_check(&file.config,
                                 &(struct train_options){.workers = (int)o->workers,
                                                         .machine_bytes = cli_machine_bytes()},
                                 o->is_json);
        else
            code = train(&s);
    }
    train_trial_destroy(s.trial);
    train_times_destroy(s.times);
    ebb_str_fini(&s.store);
    train_store_unlock(s.lock);
    cli_train_close(&file);
    return code;
}

static int run(int argc, char **argv)
{
    struct cli_train_settings o = {
        .checkpoint_every = DEFAULT_CHECKPOINT_EVERY, .workers = -1, .updates = NOT_GIVEN};
    o.changes.seed = NOT_GIVEN;
    const struct cli_option options[] = {
        CLI_TRAIN_MEMORY(&o.changes),
#define ROW(name, help) {#name, 0, CLI_FLAG, &o.changes.name, NULL, help},
        CLI_TRAIN_SWITCHES(ROW)
#undef ROW
#define ROW(name, help) {#name, 0, CLI_STRING, &o.changes.name, "R", help},
            CLI_TRAIN_RATIOS(ROW)
#undef ROW
                {"default_chunk_size", 0, CLI_STRING, &o.changes.chunk, "N",
                 "elements of optimizer state that come and go together when it lives below"},
        {"gradients", 0, CLI_STRING, &o.changes.gradients, "HOW",
         "fused (each is used up at once), separate (all are kept) or overlay (in bf16, over "
         "copies of weights)"},
        {"rewrites", 0, CLI_STRING, &o.changes.rewrites, "NAMES",
         "of the step that are on, as +entropy or layout,norm (docs/training.md)"},
        {CLI_TRAIN_COSTS(&o.changes)},
        {"device", 0, CLI_STRING, &o.changes.device, "NAME",
         "where to run: cpu, cuda (an NVIDIA GPU: docs/gpu.md), or far (memory that the "
         "host cannot read: for tests)"},
        {"threads", 0, CLI_INT, &o.changes.threads, "N",
         "of kernels (default: all cores; resuming: as before)"},
        {"any-threads", 0, CLI_FLAG, &o.any_threads, NULL,
         "resume with other threads or on another processor: the last bits of "
         "results change"},
        {"updates", 0, CLI_INT, &o.updates, "N",
         "train until so many updates are done (default: as long as a trial of "
         "the searcher)"},
        {CLI_TRAIN_SETS(&o.changes)},
        {"seed", 0, CLI_INT, &o.changes.seed, "N", "instead of the file's experiment_seed"},
        {"checkpoint", 0, CLI_STRING, &o.checkpoint, "DIR",
         "keep checkpoints in DIR: the newest two, and in DIR/best the one whose\nvalidation has "
         "the best searcher.metric"},
        {"checkpoint-every", 0, CLI_INT, &o.checkpoint_every, "N",
         "updates between them (default 100)"},
        {"resume", 0, CLI_STRING, &o.resume, "DIR",
         "go on from the newest whole checkpoint in DIR, to the same bits; with\n--checkpoint DIR "
         "new ones are kept there"},
        {"init-weights", 0, CLI_STRING, &o.init_weights, "FILE",
         "begin with these weights: safetensors, .pt, .npz, an index of several\nfiles, a folder "
         "with one, a checkpoint of ebb (model.init_from in the file)"},
        {"rename", 0, CLI_LIST, &o.rename, "OLD=NEW",
         "names in it are others: 'module.*=*'; repeatable"},
        {"transpose", 0, CLI_LIST, &o.transpose, "PATTERN",
         "matrices that it has the other way round; repeatable"},
        {"fresh", 0, CLI_LIST, &o.fresh, "PATTERN",
         "items that keep their own initial values; repeatable"},
        {"export-weights", 0, CLI_STRING, &o.export_weights, "FILE",
         "write the weights at the end: safetensors, or .npz"},
        {"validate-every", 0, CLI_INT, &o.validate_every, "N",
         "updates between validations (default: once, at the end)"},
        {"patience", 0, CLI_INT, &o.patience, "N",
         "end when searcher.metric has not become better in N validations, instead\nof what "
         "searcher.early_stopping says (needs --validate-every)"},
        {"no-validation", 0, CLI_FLAG, &o.no_validation, NULL, "never validate"},
        {"csv", 0, CLI_STRING, &o.csv, "FILE", "write losses and metrics: update,name,value"},
        {"tensorboard", 0, CLI_STRING, &o.tensorboard, "DIR",
         "write them as a TensorBoard event file"},
        {"profile", 0, CLI_STRING, &o.profile, "FILE",
         "measure ops and links on the way and write a profile at the end"},
        {"save-trace", 0, CLI_STRING, &o.save_trace, "FILE",
         "write the trace of a training step; *.log is a DTR log"},
        {"res_check", 0, CLI_FLAG, &o.res_check, NULL,
         "five updates without limits and five as asked, and nothing else: exit code 1 if\na loss "
         "or "
         "a weight differs"},
        {"workers", 0, CLI_INT, &o.workers, "N", "threads that load data (default 1; 0: none)"},
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object as the last line"},
    };
    const struct cli_spec spec = {
        .usage = "ebb train FILE [--budget BYTES] [--policy NAME] [--updates N] "
                 "[option...]",
        .description = "Train one trial of an experiment file in this process: no master, "
                       "no database.\n"
                       "The budget is kept always, and the weights are bit for bit those of "
                       "an unlimited run\n"
                       "with the same number of threads. A budget below the model's floor "
                       "is refused before\n"
                       "the first update, and the floor is named. Hyperparameters that are "
                       "ranges are drawn\n"
                       "once with the seed; --set hyperparameters.NAME=VALUE fixes one.\n"
                       "\n"
                       "Ctrl-C writes a checkpoint and says how to go on; kill -9 loses at "
                       "most the updates\n"
                       "since the last checkpoint, never a result.\n"
                       "\n"
                       "Exit code 0: trained; 1: failed, refused or interrupted; 2: invalid "
                       "file or option.\n"
                       "\n"
                       "Examples:\n"
                       "  ebb train examples/fashion_mnist.yaml --budget 48MiB\n"
                       "  ebb train exp.yaml --updates 1000 --checkpoint ckpt "
                       "--checkpoint-every 50\n"
                       "  ebb train exp.yaml --resume ckpt\n",
        CLI_OPTIONS(options),
        CLI_NEEDS(
            {"checkpoint-every", "checkpoint"}, {"any-threads", "resume"},
            {"rename", "init-weights"}, {"transpose", "init-weights"}, {"fresh", "init-weights"},
            {"patience", "validate-every"}, {"validate-every", "!no-validation"},
            {"res_check", "!resume"}, {"res_check", "!checkpoint"}, {"res_check", "!updates"},
            {"res_check", "!profile"}, {"res_check", "!export-weights"},
            {"res_check", "!init-weights"}, {"res_check", "!save-trace"}, {"res_check", "!csv"},
            {"res_check", "!tensorboard"}, {"res_check", "!validate-every"}),
        CLI_LIMITS({"checkpoint-every", 1, 1e18}, {"workers", 0, 256}, {"updates", 0, 1e18},
                   {"validate-every", 0, 1e18}, {"patience", 1, 1e18}, {"threads", 1, 4096},
                   {"seed", 0, 9e18}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0 && o.patience && !o.validate_every)
        code = cli_usage_error("--patience counts validations: --validate-every 0 makes none");
    if (code < 0)
        code = open_and_train(args.positional[0], &o);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_train = {
    .name = "train",
    .summary = "train one trial here, in the memory given",
    .run = run,
};
