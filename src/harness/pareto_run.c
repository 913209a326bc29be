/* pareto_run.c - a Pareto file run: every setting and input a trial, baselines before what is
 * compared with them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/heap.h"
#include "harness/output.h"
#include "harness/trial.h"

#define MAX_LOG ((size_t)1 << 31)
#define MAX_COSTS ((size_t)64 << 20)
#define MEASURED_POLICY "dtr_eq"

/* A baseline that was run or found in this run; failures are not tried twice. */
struct memo {
    char name[33];
    struct trial_result result;
    struct memo *next;
};

struct log_name { /* of a log that this run writes */
    const char *path;
    struct log_name *next;
};

struct session {
    struct runner r;
    struct ebb_doc_node *machine;
    struct memo *memos;
    struct log_name *logs;
    struct harness_results *results;
    int lock;
};

/* ---- what a trial depends on ----------------------------------------------------------------- */

/* Building documents: a NULL on the way is found when the hash is made. */
static void set(struct session *s, struct ebb_doc_node *map, const char *key,
                const struct ebb_doc_node *value)
{
    if (map && value)
        ebb_doc_set(s->r.arena, map, key, value);
}

static void set_int(struct session *s, struct ebb_doc_node *map, const char *key, int64_t value)
{
    set(s, map, key, ebb_doc_new_int(s->r.arena, value));
}

static void set_bool(struct session *s, struct ebb_doc_node *map, const char *key, bool value)
{
    if (value)
        set(s, map, key, ebb_doc_new_bool(s->r.arena, true));
}

static void set_text(struct session *s, struct ebb_doc_node *map, const char *key, const char *text)
{
    if (text)
        set(s, map, key, ebb_doc_new_string(s->r.arena, text));
}

static struct ebb_doc_node *new_map(struct session *s)
{
    return ebb_doc_new(s->r.arena, EBB_DOC_MAP);
}

/* Sections of training as a file has them. */
static struct ebb_doc_node *sections_of(struct session *s, const struct harness_setup *setup,
                                        double budget, const char *policy)
{
    const struct harness_how *how = s->r.how;
    struct ebb_doc_node *all = new_map(s), *opt = new_map(s), *memory = new_map(s);
    set_text(s, opt, "name", "SGD");
    set_int(s, opt, "lr", 1);
    if (budget >= 0)
        set_int(s, memory, "budget", (int64_t)budget);
    set_text(s, memory, "policy", policy);
    set_text(s, memory, "device", how->device);
    if (how->threads > 0)
        set_int(s, memory, "threads", how->threads);
    set(s, all, "model", setup->section);
    set(s, all, "opt", opt);
    set(s, all, "memory", memory);
    return all;
}

static bool is_sampled(const struct harness_setup *setup, double budget, double peak)
{
    double below = setup->no_sampling_below_budget;
    if (!isnan(setup->no_sampling_below_ratio))
        below = setup->no_sampling_below_ratio < 0 ? -1 : setup->no_sampling_below_ratio * peak;
    bool is_asked = setup->use_sampling &&
                    (setup->type == PARETO_DTR || ebb_doc_given(setup->params, "use_sampling"));
    return is_asked && !(budget >= 0 && !isnan(below) && budget <= below);
}

static const char *policy_of(const struct harness_setup *setup)
{
    switch (setup->type) {
    case PARETO_DTR:
        return MEASURED_POLICY;
    case PARETO_NAMED:
        return setup->type_name;
    case PARETO_BASELINE:
    case PARETO_SIMRD:
        break;
    }
    return NULL;
}

static enum ebb_status name_trial(struct session *s, struct trial *t, struct ebb_error *err)
{
    struct ebb_json_writer w;
    struct ebb_str text = {0};
    struct ebb_sha256 h;
    char hash[EBB_SHA256_TEXT];
    EBB_TRY(ebb_arena_status(s->r.arena, err));
    ebb_jsonw_init(&w, &text, 0);
    ebb_doc_write_json(t->doc, &w);
    enum ebb_status status = ebb_str_status(&text, err);
    ebb_sha256_init(&h);
    ebb_sha256_add(&h, ebb_str_c(&text), text.length);
    enum ebb_status hashed = ebb_sha256_text(&h, hash, status == EBB_OK ? err : NULL);
    ebb_str_fini(&text);
    snprintf(t->name, sizeof t->name, "%.32s", hash);
    return status == EBB_OK ? hashed : status;
}

/* `peak` is that of the baseline, where a ratio needs it; `prices` may be NULL. */
static enum ebb_status make_trial(struct session *s, const struct harness_setup *setup,
                                  int64_t input, double budget, double peak, const char *prices,
                                  struct trial *t, struct ebb_error *err)
{
    struct ebb_doc_node *doc = new_map(s), *depends = new_map(s);
    char hash[EBB_SHA256_TEXT] = "";
    bool is_policy = setup->type == PARETO_DTR || setup->type == PARETO_NAMED;
    bool is_paired = is_policy && setup->paired;
    *t = (struct trial){.setup = setup, .doc = doc, .prices = prices};
    if (setup->kind != PARETO_USE_LOG) {
        set(s, doc, "sections",
            sections_of(s, setup, setup->type == PARETO_SIMRD ? -1 : budget, policy_of(setup)));
        set_text(s, doc, "task", setup->task);
        set_int(s, doc, "samples", setup->samples);
    }
    if (is_paired)
        set(s, doc, "beside", sections_of(s, setup, -1, NULL));
    set_int(s, doc, "seed", (int64_t)s->r.seed + input);
    set_int(s, doc, "input", input);
    set_int(s, doc, "dry_run", setup->dry_run);
    set_int(s, doc, "n_reps", setup->n_reps);
    set_bool(s, doc, "is_online", setup->type == PARETO_DTR);
    set_bool(s, doc, "sampling", is_policy && is_sampled(setup, budget, peak));
    set_bool(s, doc, "ignore_small",
             setup->ignore_small_tensors &&
                 (setup->type == PARETO_DTR ||
                  (is_policy && ebb_doc_given(setup->params, "ignore_small_tensors"))));
    set_bool(s, doc, "profiling", setup->use_profiling);
    set_bool(s, doc, "waits",
             s->r.file->sync_gpu && s->r.how->device && strcmp(s->r.how->device, "cuda") == 0);
    set_bool(s, doc, "simulates", setup->type == PARETO_SIMRD);
    if (setup->type == PARETO_SIMRD)
        set(s, doc, "budget", ebb_doc_new_double(s->r.arena, budget));
    set_text(s, doc, "log_from", setup->kind == PARETO_USE_LOG ? setup->file_path : NULL);
    set_text(s, depends, "program", s->r.program_hash);
    set(s, depends, "machine", s->machine);
    if (prices)
        EBB_TRY(harness_hash_file(prices, MAX_COSTS, hash, err));
    set_text(s, depends, "prices", *hash ? hash : NULL);
    set_bool(s, doc, "priced", prices && setup->costs == PARETO_MEASURED);
    if (setup->kind == PARETO_USE_LOG)
        EBB_TRY(harness_hash_file(setup->file_path, MAX_LOG, hash, err));
    set_text(s, depends, "log", setup->kind == PARETO_USE_LOG ? hash : NULL);
    set(s, doc, "depends", depends);
    return name_trial(s, t, err);
}

/* ---- baselines ------------------------------------------------------------------------------- */

static bool is_same_step(const struct harness_setup *a, const struct harness_setup *b)
{
    return strcmp(a->model, b->model) == 0 && a->samples == b->samples &&
           ebb_doc_equal(a->section, b->section);
}

/* The command of the file that measures the same step, else one made of the setting itself. */
static const struct harness_setup *baseline_of(struct session *s, const struct harness_setup *setup)
{
    const struct harness_pareto *f = s->r.file;
    for (size_t i = 0; i < f->count; i++)
        if (f->setups[i].type == PARETO_BASELINE && is_same_step(&f->setups[i], setup))
            return &f->setups[i];
    struct harness_setup *own = ebb_arena_calloc(s->r.arena, 1, sizeof *own);
    if (!own)
        return NULL;
    *own = *setup;
    own->type = PARETO_BASELINE;
    own->kind = PARETO_NO_KIND;
    own->use_profiling = own->save_logs = own->retry_on_error = false;
    return own;
}

static enum ebb_status run_once(struct session *s, const struct trial *t,
                                const struct trial_result **result, struct ebb_error *err)
{
    for (struct memo *m = s->memos; m; m = m->next)
        if (strcmp(m->name, t->name) == 0) {
            *result = &m->result;
            return EBB_OK;
        }
    struct memo *m = ebb_arena_calloc(s->r.arena, 1, sizeof *m);
    if (!m)
        return ebb_no_memory(err, sizeof *m);
    EBB_TRY(harness_trial_run(&s->r, t, &m->result, err));
    snprintf(m->name, sizeof m->name, "%s", t->name);
    m->next = s->memos;
    s->memos = m;
    *result = &m->result;
    return EBB_OK;
}

static double peak_of(const struct harness_rows *rows)
{
    double peak = 0;
    for (size_t i = 0; i < rows->count; i++)
        peak = fmax(peak, rows->items[i].values[HARNESS_PEAK_BYTES]);
    return peak;
}

static enum ebb_status run_baseline(struct session *s, const struct harness_setup *setup,
                                    int64_t input, struct trial *t,
                                    const struct trial_result **result, struct ebb_error *err)
{
    const struct harness_setup *base = baseline_of(s, setup);
    if (!base)
        return ebb_no_memory(err, sizeof *base);
    EBB_TRY(make_trial(s, base, input, -1, 0, NULL, t, err));
    t->wants_costs = true;
    return run_once(s, t, result, err);
}

/* ---- a setting ------------------------------------------------------------------------------- */

static bool is_taken(const struct session *s, const char *path)
{
    for (const struct log_name *l = s->logs; l; l = l->next)
        if (strcmp(l->path, path) == 0)
            return true;
    return false;
}

/* "<model>-<batch>-<budget or inf>-<seed>-<type>.log"; settings that differ in something else get a
 * number. NULL: it wants none, or memory is out, which the arena knows. */
static const char *log_path(struct session *s, const struct harness_setup *setup, int64_t input,
                            double budget)
{
    const char *dest = s->r.file->log_dest, *path = NULL;
    char text[32] = "inf", number[24] = "";
    if (budget >= 0)
        snprintf(text, sizeof text, "%.0f", budget);
    if (!setup->save_logs && setup->kind != PARETO_GET_LOG)
        return NULL;
    for (unsigned n = 2; !path || is_taken(s, path); n++) {
        path = ebb_arena_printf(s->r.arena, "%s/%s-%" PRId64 "-%s-%" PRIu64 "-%s%s.log",
                                dest ? dest : s->r.how->folder, setup->model, setup->batch_size,
                                text, s->r.seed + (uint64_t)input, setup->type_name, number);
        if (!path)
            return NULL;
        snprintf(number, sizeof number, "-%u", n);
    }
    struct log_name *name = ebb_arena_calloc(s->r.arena, 1, sizeof *name);
    if (!name)
        return NULL;
    *name = (struct log_name){path, s->logs};
    s->logs = name;
    return path;
}

struct input_work { /* of one trial */
    const struct harness_setup *setup;
    struct harness_setting *setting;
    struct harness_rows *all; /* of all inputs, for the CSV file */
    int64_t input;
};

static bool has_baseline(const struct harness_setup *setup)
{
    return setup->type == PARETO_DTR || setup->type == PARETO_NAMED;
}

static enum ebb_status measure_input(struct session *s, struct input_work *w, struct ebb_error *err)
{
    const struct harness_setup *setup = w->setup;
    const struct trial_result *base = NULL, *result = NULL;
    struct trial base_trial, t;
    double budget = setup->type == PARETO_BASELINE ? -1 : setup->memory_budget, peak = 0;
    const char *prices = NULL;
    if (s->r.how->begin)
        s->r.how->begin(s->r.how->context, w->setting, w->input);
    if (has_baseline(setup)) {
        EBB_TRY(run_baseline(s, setup, w->input, &base_trial, &base, err));
        peak = peak_of(&base->rows);
        if (!base->error)
            prices = harness_trial_path(&s->r, &base_trial, TRIAL_COSTS);
    }
    w->setting->error_input = w->input;
    if (setup->kind == PARETO_RATIO && base->error) {
        w->setting->error = ebb_arena_printf(s->r.arena, "its baseline failed: %s", base->error);
        return EBB_OK;
    }
    if (setup->kind == PARETO_RATIO)
        budget = fmax(1, floor(setup->ratio * peak));
    struct ebb_error why = {0};
    enum ebb_status made = make_trial(s, setup, w->input, budget, peak, prices, &t, &why);
    if (made != EBB_OK && made != EBB_ENOMEM && setup->kind == PARETO_USE_LOG) {
        w->setting->error = ebb_arena_printf(s->r.arena, "%s", why.message); /* no such log */
        return ebb_arena_status(s->r.arena, err);
    }
    if (made != EBB_OK && err)
        *err = why;
    EBB_TRY(made);
    t.wants_costs = setup->type == PARETO_BASELINE;
    t.log_to = log_path(s, setup, w->input, budget);
    EBB_TRY(ebb_arena_status(s->r.arena, err));
    EBB_TRY(run_once(s, &t, &result, err));
    if (result->error) {
        w->setting->error = result->error;
        return EBB_OK;
    }
    bool has_throughput = setup->type == PARETO_BASELINE || setup->kind == PARETO_SWEEP;
    struct harness_input *input = &w->setting->inputs[w->setting->input_count++];
    EBB_TRY(harness_summarize(&result->rows, base && !base->error ? &base->rows : NULL,
                              has_throughput ? (double)setup->batch_size : 0, input, err));
    input->seed = s->r.seed + (uint64_t)w->input;
    if (result->num_retries > w->setting->num_retries)
        w->setting->num_retries = result->num_retries;
    for (size_t i = 0; i < result->rows.count; i++)
        EBB_TRY(harness_rows_add(w->all, &result->rows.items[i], err));
    return EBB_OK;
}

static enum ebb_status measure_setting(struct session *s, const struct harness_setup *setup,
                                       struct ebb_error *err)
{
    struct harness_rows all = {0};
    struct harness_setting *setting =
        harness_results_add(s->r.arena, s->results, setup->model, setup->params);
    if (!setting)
        return ebb_no_memory(err, sizeof *setting);
    setting->command_id = setup->command_id;
    setting->num_retries = 0;
    setting->inputs =
        ebb_arena_calloc(s->r.arena, (size_t)setup->n_inputs, sizeof *setting->inputs);
    if (!setting->inputs)
        return ebb_no_memory(err, sizeof *setting->inputs);
    struct input_work w = {.setup = setup, .setting = setting, .all = &all};
    enum ebb_status status = EBB_OK;
    for (; w.input < setup->n_inputs && status == EBB_OK && !setting->error; w.input++)
        status = measure_input(s, &w, err);
    if (setting->error)
        setting->num_retries = -1;
    if (status == EBB_OK && !setting->error)
        status = harness_write_rows(s->r.how->folder, s->results, &all, err);
    harness_rows_fini(&all);
    if (status == EBB_OK && s->r.how->done)
        s->r.how->done(s->r.how->context, s->results, setting);
    return status;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static enum ebb_status take_lock(struct session *s, struct ebb_error *err)
{
    const char *path = ebb_arena_printf(s->r.arena, "%s/lock", s->r.how->folder);
    if (!path)
        return ebb_no_memory(err, 64);
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (s->lock < 0)
        return ebb_fail(err, ebb_errno_status(errno), "cannot open %s: %s", path, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
        return EBB_OK;
    if (errno != EWOULDBLOCK)
        return ebb_fail(err, ebb_errno_status(errno), "cannot lock %s: %s", path, strerror(errno));
    return ebb_fail(err, EBB_EINPUT,
                    "another run measures into %s now; wait for it, or give another folder",
                    s->r.how->folder);
}

static enum ebb_status read_seed(struct session *s, const char *path, struct ebb_error *err)
{
    const struct ebb_doc_node *root;
    EBB_TRY(ebb_doc_load(s->r.arena, path, &root, err));
    int64_t seed = ebb_doc_int(root, "seed", -1);
    if (seed < 0 || seed > UINT32_MAX)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: no seed of a run, which is {\"seed\": 0 to 4294967295}; without the "
                        "file another one is drawn",
                        path);
    s->r.seed = (uint64_t)seed;
    return EBB_OK;
}

/* A seed that was drawn stays that of the folder: a rerun goes on with it. */
static enum ebb_status choose_seed(struct session *s, struct ebb_error *err)
{
    const char *path = ebb_arena_printf(s->r.arena, "%s/seed.json", s->r.how->folder);
    uint32_t drawn = 0;
    char text[64];
    s->r.seed = (uint64_t)s->r.file->seed;
    if (s->r.file->set_seed)
        return EBB_OK;
    if (!path)
        return ebb_no_memory(err, 64);
    if (access(path, F_OK) == 0)
        return read_seed(s, path, err);
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        drawn = (uint32_t)ebb_clock_ns();
    s->r.seed = drawn;
    snprintf(text, sizeof text, "{\"seed\": %" PRIu32 "}\n", drawn);
    return ebb_file_write_atomic(path, text, strlen(text), err);
}

static enum ebb_status open_session(struct session *s, struct ebb_error *err)
{
    const struct harness_pareto *f = s->r.file;
    s->r.folder = ebb_arena_printf(s->r.arena, "%s/trials", s->r.how->folder);
    if (!s->r.folder)
        return ebb_no_memory(err, 64);
    EBB_TRY(ebb_file_mkdirs(s->r.folder, err));
    for (size_t i = 0; i < f->count && f->log_dest; i++)
        if (f->setups[i].save_logs || f->setups[i].kind == PARETO_GET_LOG)
            EBB_TRY(ebb_file_mkdirs(f->log_dest, err));
    EBB_TRY(take_lock(s, err));
    EBB_TRY(choose_seed(s, err));
    return harness_machine(&s->r, &s->machine, err);
}

static enum ebb_status give_up(const struct harness_setting *setting, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINFEASIBLE,
                    "model %s, command %" PRId64 ": %s; nothing more is run (report_errors: true "
                    "takes failures as results); what is finished is kept",
                    setting->model, setting->command_id, setting->error);
}

enum ebb_status harness_pareto_run(struct ebb_arena *arena, const struct harness_pareto *pareto,
                                   const struct harness_how *how, struct harness_results *results,
                                   struct ebb_error *err)
{
    struct session s = {
        .r = {.file = pareto, .how = how, .arena = arena}, .results = results, .lock = -1};
    struct harness_clock clock;
    harness_clock_start(&clock);
    *results = (struct harness_results){0};
    enum ebb_status status = open_session(&s, err);
    results->machine = s.machine;
    for (size_t i = 0; i < pareto->count && status == EBB_OK; i++) {
        status = measure_setting(&s, &pareto->setups[i], err);
        const struct harness_setting *last =
            results->count ? &results->settings[results->count - 1] : NULL;
        if (status == EBB_OK && last->error && !pareto->report_errors)
            status = give_up(last, err);
    }
    EBB_THEN(status, harness_clock_stop(arena, &clock, results, err));
    EBB_THEN(status, harness_write_all(how->folder, results, err));
    if (status != EBB_OK && s.machine) /* it had begun */
        (void)harness_write_status(how->folder, results, err ? err->message : "failed", NULL);
    for (struct memo *m = s.memos; m; m = m->next)
        harness_rows_fini(&m->result.rows);
    if (s.lock >= 0)
        close(s.lock);
    return status;
}
