/* trial.c - a trial found among the finished ones, or run: a child, its heartbeats, its limits.
 *
 * A finished trial is a folder that appears whole, by a rename: trial.json (what it depends on),
 * rows.csv, costs.txt. What a killed run leaves begins with a dot and is removed by the next. */
#include "harness/trial.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/process.h"
#include "profile/profile.h"

#define SECOND UINT64_C(1000000000)
#define LOOK_NS (SECOND / 5) /* how soon Ctrl-C is seen */
#define END_NS (10 * SECOND) /* for a child that has said everything */

/* The folder of a trial, finished or on the way, or a file in it. */
static const char *path_of(const struct runner *r, const char *dot, const struct trial *t,
                           const char *file)
{
    return ebb_arena_printf(r->arena, "%s/%s%s%s%s", r->folder, dot, t->name, file ? "/" : "",
                            file ? file : "");
}

const char *harness_trial_path(const struct runner *r, const struct trial *t, const char *file)
{
    return path_of(r, "", t, file);
}

static const char *draft_path(const struct runner *r, const struct trial *t, const char *file)
{
    return path_of(r, ".", t, file);
}

/* ---- finished trials ------------------------------------------------------------------------- */

/* How many repetitions make it whole. */
static size_t whole_count(const struct trial *t)
{
    return t->setup->type == PARETO_SIMRD ? 1 : (size_t)t->setup->n_reps;
}

/* Costs that others are priced with: a damaged file would make each of them fail. */
static bool has_costs(const char *path)
{
    struct profile *profile = NULL;
    struct ebb_error why = {0};
    bool is_good = profile_load(path, &profile, &why) == EBB_OK;
    profile_destroy(profile);
    return is_good;
}

/* One without the costs or the log that are wanted now is run again. */
static bool load(const struct runner *r, const struct trial *t, struct trial_result *result)
{
    const char *rows = harness_trial_path(r, t, "rows.csv"),
               *costs = harness_trial_path(r, t, TRIAL_COSTS);
    if (!rows || !costs || access(rows, R_OK) != 0 || (t->wants_costs && !has_costs(costs)) ||
        (t->log_to && access(t->log_to, R_OK) != 0))
        return false;
    if (harness_rows_read(&result->rows, rows, NULL) != EBB_OK ||
        result->rows.count != whole_count(t)) {
        harness_rows_fini(&result->rows);
        return false;
    }
    result->num_retries = result->rows.items[result->rows.count - 1].num_retries;
    result->is_cached = true;
    return true;
}

/* A file of a trial, or what a process killed while it wrote one left: "rows.csv.77-0.tmp". */
static bool is_of_trial(const char *name)
{
    static const char *const files[] = {"trial.json", "rows.csv", TRIAL_COSTS};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t n = strlen(files[i]);
        if (strncmp(name, files[i], n) == 0 && (name[n] == '\0' || name[n] == '.'))
            return true;
    }
    return false;
}

static enum ebb_status remove_folder(const char *path, struct ebb_error *err)
{
    DIR *folder = opendir(path);
    for (struct dirent *d; folder && (d = readdir(folder));)
        if (is_of_trial(d->d_name))
            (void)unlinkat(dirfd(folder), d->d_name, 0);
    if (folder)
        closedir(folder);
    if (rmdir(path) != 0 && errno != ENOENT)
        return ebb_fail(err, EBB_EIO, "cannot remove %s: %s", path, strerror(errno));
    return EBB_OK;
}

static enum ebb_status write_doc(const struct ebb_doc_node *doc, const char *path,
                                 struct ebb_error *err)
{
    struct ebb_json_writer w;
    struct ebb_str text = {0};
    ebb_jsonw_init(&w, &text, 1);
    ebb_doc_write_json(doc, &w);
    ebb_str_addc(&text, '\n');
    enum ebb_status status = ebb_str_status(&text, err);
    EBB_THEN(status, ebb_file_write_atomic(path, ebb_str_c(&text), text.length, err));
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status store(const struct runner *r, const struct trial *t,
                             const struct harness_rows *rows, struct ebb_error *err)
{
    const char *draft = draft_path(r, t, NULL), *final = harness_trial_path(r, t, NULL);
    const char *csv = draft_path(r, t, "rows.csv"), *json = draft_path(r, t, "trial.json");
    struct ebb_str text = {0};
    if (!draft || !final || !csv || !json)
        return ebb_no_memory(err, 256);
    harness_rows_write(rows, NULL, &text);
    enum ebb_status status = ebb_str_status(&text, err);
    EBB_THEN(status, write_doc(t->doc, json, err));
    EBB_THEN(status, ebb_file_write_atomic(csv, ebb_str_c(&text), text.length, err));
    ebb_str_fini(&text);
    EBB_THEN(status, remove_folder(final, err)); /* one that could not be read */
    if (status == EBB_OK && rename(draft, final) != 0)
        status =
            ebb_fail(err, ebb_errno_status(errno), "cannot rename %s: %s", draft, strerror(errno));
    return status;
}

/* ---- a child --------------------------------------------------------------------------------- */

struct attempt {
    struct runner *r;
    const struct trial *t;
    struct harness_rows *rows;
    int64_t num_retries;
    uint64_t deadline_ns; /* of the trial; UINT64_MAX: none */
    char why[1024];       /* it failed */
};

static void key_text(struct ebb_json_writer *w, const char *key, const char *text)
{
    if (text)
        ebb_jsonw_key_string(w, key, text);
}

static void write_request(const struct attempt *a, struct ebb_str *out)
{
    const struct trial *t = a->t;
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    for (size_t i = 0; i < t->doc->count; i++)
        if (strcmp(t->doc->keys[i]->text, "depends") != 0)
            ebb_doc_write_key(t->doc->items[i], &w, t->doc->keys[i]->text);
    ebb_jsonw_key_int(&w, "first_rep", (int64_t)a->rows->count);
    ebb_jsonw_key_int(&w, "num_retries", a->num_retries);
    ebb_jsonw_key_int(&w, "parent", (int64_t)getpid());
    key_text(&w, "prices", t->prices);
    key_text(&w, "costs_to", t->wants_costs ? draft_path(a->r, t, TRIAL_COSTS) : NULL);
    key_text(&w, "log_to", t->log_to);
    ebb_jsonw_object_end(&w);
}

/* Seconds until the next line must be there. */
static double patience(const struct attempt *a, double last_s, bool is_first)
{
    const struct harness_setup *s = a->t->setup;
    if (!s->retry_on_error)
        return INFINITY;
    return is_first ? s->attempt_timeout : fmax(1, ceil(2 * last_s));
}

/* The next line, or NULL at the end. EBB_ELIMIT: too late. */
static enum ebb_status next_line(const struct attempt *a, struct ebb_child *child, double limit_s,
                                 const char **line, struct ebb_error *err)
{
    uint64_t begin = ebb_clock_ns();
    for (;;) { /* also a child that always has a line ready is stopped */
        if (a->r->how->is_cancelled && a->r->how->is_cancelled())
            return ebb_fail(err, EBB_ECANCELED, "stopped");
        if (ebb_clock_ns() >= a->deadline_ns)
            return ebb_fail(err, EBB_ELIMIT, "not done within %.10g s and killed",
                            a->t->setup->timeout);
        enum ebb_status status = ebb_child_line(child, LOOK_NS, line, err);
        if (status != EBB_ELIMIT)
            return status;
        if ((double)(ebb_clock_ns() - begin) / 1e9 >= limit_s)
            return ebb_fail(err, EBB_ELIMIT, "no repetition within %.10g s, killed", limit_s);
    }
}

static enum ebb_status listen(struct attempt *a, struct ebb_child *child, struct ebb_error *err)
{
    double last_s = 0;
    for (bool is_first = true;; is_first = false) {
        uint64_t begin = ebb_clock_ns();
        const char *line;
        struct harness_row row;
        EBB_TRY(next_line(a, child, patience(a, last_s, is_first), &line, err));
        if (!line)
            return EBB_OK;
        EBB_TRY(harness_row_read(line, &row, err));
        last_s = (double)(ebb_clock_ns() - begin) / 1e9;
        if (a->r->how->beat)
            a->r->how->beat(a->r->how->context, &row);
        if (!isnan(row.values[HARNESS_OP_US])) /* behind those that count: times of ops */
            for (size_t i = 0; i < a->rows->count; i++)
                a->rows->items[i].values[HARNESS_OP_US] = row.values[HARNESS_OP_US];
        else if (row.rep == (int64_t)a->rows->count)
            EBB_TRY(harness_rows_add(a->rows, &row, err));
    }
}

/* Without what the program says before its words. */
static void note_failure(struct attempt *a, const char *message)
{
    static const char mark[] = "ebb: error: ";
    const char *own = strstr(message, mark);
    snprintf(a->why, sizeof a->why, "%s", own ? own + sizeof mark - 1 : message);
}

/* One child. EBB_OK with `why` empty: it did all it was asked. */
static enum ebb_status attempt(struct attempt *a, struct ebb_error *err)
{
    const char *const argv[] = {"/proc/self/exe", "measure", NULL};
    struct ebb_str input = {0};
    struct ebb_child child;
    a->why[0] = '\0';
    write_request(a, &input);
    enum ebb_status status = ebb_str_status(&input, err);
    struct ebb_process process = {.argv = argv, .input = input.data, .length = input.length};
    EBB_THEN(status, ebb_child_start(&child, &process, err));
    ebb_str_fini(&input);
    EBB_TRY(status);
    struct ebb_error why = {0}, end = {0};
    status = listen(a, &child, &why);
    enum ebb_status ended = ebb_child_end(&child, status == EBB_OK ? END_NS : 0, &end);
    if (status == EBB_ECANCELED || status == EBB_ENOMEM) {
        if (err)
            *err = why;
        return status;
    }
    if (status != EBB_OK)
        note_failure(a, why.message);
    else if (ended != EBB_OK)
        note_failure(a, end.message);
    return EBB_OK;
}

static bool is_complete(const struct attempt *a)
{
    return a->why[0] == '\0' && a->rows->count >= whole_count(a->t);
}

static enum ebb_status run_child(struct runner *r, const struct trial *t,
                                 struct trial_result *result, struct ebb_error *err)
{
    const struct harness_setup *s = t->setup;
    uint64_t begin = ebb_clock_ns();
    struct attempt a = {
        .r = r, .t = t, .rows = &result->rows, .deadline_ns = begin + (uint64_t)(s->timeout * 1e9)};
    for (;;) {
        EBB_TRY(attempt(&a, err));
        bool is_late = ebb_clock_ns() >= a.deadline_ns;
        if (is_complete(&a) || !s->retry_on_error || a.num_retries >= s->max_retries || is_late)
            break;
        a.num_retries++;
    }
    if (!is_complete(&a)) {
        char more[64] = "";
        if (a.num_retries)
            snprintf(more, sizeof more, " (after %" PRId64 " retries)", a.num_retries);
        result->error =
            ebb_arena_printf(r->arena, "%s%s", a.why[0] ? a.why : "ended too early", more);
        harness_rows_fini(&result->rows);
        if (!result->error)
            return ebb_no_memory(err, sizeof a.why);
    }
    result->num_retries = a.num_retries;
    return EBB_OK;
}

enum ebb_status harness_trial_run(struct runner *r, const struct trial *t,
                                  struct trial_result *result, struct ebb_error *err)
{
    uint64_t begin = ebb_clock_ns();
    const char *draft = draft_path(r, t, NULL);
    *result = (struct trial_result){0};
    if (load(r, t, result))
        return EBB_OK;
    if (!draft)
        return ebb_no_memory(err, 256);
    enum ebb_status status = remove_folder(draft, err);
    EBB_THEN(status, ebb_file_mkdirs(draft, err));
    EBB_THEN(status, run_child(r, t, result, err));
    if (status == EBB_OK && !result->error)
        status = store(r, t, &result->rows, err);
    else
        remove_folder(draft, NULL); /* failed or cancelled: the next run begins anew */
    result->seconds = (double)(ebb_clock_ns() - begin) / 1e9;
    if (status != EBB_OK)
        harness_rows_fini(&result->rows);
    return status;
}
