/* measure.c - the child's side: one trial read, made and repeated; a line of JSON per repetition.
 *
 * What it is asked is JSON on standard input (trial.h writes it): the sections of training as a file
 * has them, how to decide, how often. */
#include "harness/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/keys.h"
#include "base/process.h"
#include "exec/exec.h"
#include "profile/profile.h"
#include "train/train.h"

enum { COST_REPS = 3 }; /* more, behind those that count, whose ops are timed one by one */

/* ---- what is asked --------------------------------------------------------------------------- */

#define ROW(...) EBB_KEY_ROW(struct harness_request, __VA_ARGS__)
static const struct ebb_key rows[] = {
    ROW("sections", FREE, sections, "model, opt and memory, as a file has them", .flags = 0),
    ROW("beside", FREE, beside, "the same without a limit, for a repetition before every one",
        .flags = EBB_KEY_OPTIONAL),
    ROW("task", TEXT, task, "of the model", .flags = 0),
    ROW("samples", INT, samples, "of a batch", .bounds = "> 0"),
    ROW("seed", INT, seed, "of weights and inputs", .bounds = ">= 0"),
    ROW("input", INT, input, "its number", .bounds = ">= 0"),
    ROW("dry_run", INT, dry_run, "repetitions before those that count", .bounds = ">= 0"),
    ROW("first_rep", INT, first_rep, "number of the first that counts", .bounds = ">= 0"),
    ROW("n_reps", INT, n_reps, "number of the last, and one", .bounds = "> 0"),
    ROW("num_retries", INT, num_retries, "so far", .bounds = ">= 0"),
    ROW("is_online", BOOL, is_online, "policies decide while running", .flags = 0),
    ROW("sampling", BOOL, sampling, "exec_options", .flags = 0),
    ROW("ignore_small", BOOL, ignore_small, "exec_options", .flags = 0),
    ROW("profiling", BOOL, profiling, "tell what a repetition is made of", .flags = 0),
    ROW("waits", BOOL, waits, "for every op before the next is given to the device", .flags = 0),
    ROW("simulates", BOOL, simulates, "under the rules of simrd, from log_from or the step itself",
        .flags = 0),
    ROW("budget", DOUBLE, budget, "of a simulation; -1: none", .flags = 0),
    ROW("log_from", TEXT, log_from, "a DTR log", .flags = 0),
    ROW("log_to", TEXT, log_to, "a DTR log of the last repetition", .flags = 0),
    ROW("costs_to", TEXT, costs_to, "a profile of the times of its ops", .flags = 0),
    ROW("prices", TEXT, prices, "a profile by which slowdowns are predicted", .flags = 0),
    ROW("priced", BOOL, priced, "decisions go by prices, too", .flags = 0),
    ROW("parent", INT, parent, "process that asks; 0: nobody", .bounds = ">= 0"),
};
#undef ROW
static const struct ebb_keys keys = EBB_KEYS(rows);

static enum ebb_status read_request(struct ebb_arena *arena, const char *bytes, size_t length,
                                    struct harness_request *request, struct ebb_error *err)
{
    const struct ebb_doc_node *root;
    struct ebb_reading reading;
    struct ebb_report report;
    struct ebb_section section = {.table = &keys};
    *request = (struct harness_request){.budget = -1, .n_reps = 1, .samples = 1};
    EBB_TRY(ebb_doc_parse_json(arena, "request", bytes, length, &root, err));
    ebb_reading_init(&reading, arena, "request", &report);
    ebb_keys_read(&reading, &section, NULL, root, root, request);
    return ebb_reading_end(&reading, err);
}

/* ---- a line ---------------------------------------------------------------------------------- */

static void write_row(const struct harness_row *row, struct ebb_str *out)
{
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_int(&w, "input", row->input);
    ebb_jsonw_key_int(&w, "rep", row->rep);
    ebb_jsonw_key_int(&w, "num_retries", row->num_retries);
    for (int m = 0; m < HARNESS_MEASURES; m++)
        if (!isnan(row->values[m]))
            ebb_jsonw_key_double(&w, harness_measure_info[m].name, row->values[m]);
    ebb_jsonw_key_string(&w, "gradients_sha256", row->gradients);
    ebb_jsonw_key_string(&w, "decided_by", row->decided_by);
    ebb_jsonw_object_end(&w);
}

enum ebb_status harness_row_read(const char *line, struct harness_row *row, struct ebb_error *err)
{
    const struct ebb_doc_node *root;
    struct ebb_arena arena = {0};
    enum ebb_status status = ebb_doc_parse_json(&arena, "line", line, strlen(line), &root, err);
    harness_row_init(row);
    if (status == EBB_OK && root->kind != EBB_DOC_MAP)
        status = ebb_fail(err, EBB_EINPUT, "not a repetition: %.60s", line);
    if (status == EBB_OK) {
        row->input = ebb_doc_int(root, "input", 0);
        row->rep = ebb_doc_int(root, "rep", 0);
        row->num_retries = ebb_doc_int(root, "num_retries", 0);
        for (int m = 0; m < HARNESS_MEASURES; m++)
            row->values[m] = ebb_doc_double(root, harness_measure_info[m].name, NAN);
        snprintf(row->gradients, sizeof row->gradients, "%s",
                 ebb_doc_string(root, "gradients_sha256", ""));
        snprintf(row->decided_by, sizeof row->decided_by, "%s",
                 ebb_doc_string(root, "decided_by", ""));
    }
    ebb_arena_fini(&arena);
    return status;
}

/* ---- a trial --------------------------------------------------------------------------------- */

struct work {
    const struct harness_request *q;
    struct ebb_arena *arena;
    const struct harness_listener *listener;
    struct train_trial *trial;
    struct train_trial *beside; /* NULL: none */
    struct train_state state;
    uint64_t floor_bytes;
    uint64_t *op_ns;
    double predicted; /* NaN: not asked for */
};

static enum ebb_status open_trial(const struct work *w, const struct ebb_doc_node *sections,
                                  const char *costs, const struct train_options *options,
                                  struct train_trial **trial, struct ebb_error *err)
{
    const struct harness_request *q = w->q;
    char entrypoint[64];
    struct train_config config;
    struct ebb_doc_node *hparams = ebb_doc_new(w->arena, EBB_DOC_MAP);
    if (!hparams ||
        !ebb_doc_set(w->arena, hparams, "global_batch_size", ebb_doc_new_int(w->arena, q->samples)))
        return ebb_no_memory(err, sizeof *hparams);
    snprintf(entrypoint, sizeof entrypoint, "ebb:%s", q->task ? q->task : "");
    struct train_source source = {.file = "request",
                                  .entrypoint = entrypoint,
                                  .root = sections,
                                  .hparams = hparams,
                                  .seed = (uint64_t)q->seed};
    EBB_TRY(train_config_read(w->arena, &source, &config, NULL, err));
    config.costs = costs;
    return train_trial_create(trial, &config, options, err);
}

static enum ebb_status make_trial(struct work *w, struct ebb_error *err)
{
    const struct harness_request *q = w->q;
    struct train_options plain = {
        .is_repeated = true, .makes_data = true, .measures = q->profiling || q->waits};
    struct train_options options = plain;
    options.is_online = q->is_online;
    options.samples = q->sampling;
    options.ignores_small = q->ignore_small;
    if (q->beside)
        EBB_TRY(open_trial(w, q->beside, NULL, &plain, &w->beside, err));
    EBB_TRY(open_trial(w, q->sections, q->priced ? q->prices : NULL, &options, &w->trial, err));
    EBB_TRY(train_trial_floor(w->trial, &w->floor_bytes, err));
    train_trial_state(w->trial, &w->state);
    w->predicted = NAN;
    return q->prices ? train_trial_reprice(w->trial, q->prices, &w->predicted, err) : EBB_OK;
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

/* What made the plan, or decided; and what could not, where something else had to. */
static void name_way(const struct work *w, struct harness_row *row)
{
    const char *asked = ebb_doc_string(ebb_doc_get(w->q->sections, "memory"), "policy", "unified");
    bool is_other = w->state.is_fallback;
    snprintf(row->decided_by, sizeof row->decided_by, "%.31s%s%.31s", w->state.how,
             is_other ? HARNESS_INSTEAD : "", is_other ? asked : "");
}

static void fill_row(const struct work *w, const struct train_repetition *r,
                     struct harness_row *row)
{
    double *v = row->values;
    double budget = w->state.budget_bytes == UINT64_MAX ? -1 : (double)w->state.budget_bytes;
    v[HARNESS_TIME] = ms(r->ns);
    v[HARNESS_GPU_TIME] = ms(r->device_ns);
    v[HARNESS_SYNC_TIME] = ms(r->ns - r->device_ns);
    v[HARNESS_CPU_TIME] = ms(r->cpu_ns);
    v[HARNESS_INPUT_MEM] = (double)r->input_bytes / 1e6;
    v[HARNESS_MODEL_MEM] = (double)(r->input_bytes + w->state.persistent_bytes) / 1e6;
    v[HARNESS_TOTAL_MEM] = (double)r->peak_bytes / 1e6;
    v[HARNESS_MEMORY_BUDGET] = budget;
    v[HARNESS_PLAN_MS] = ms(w->state.plan_ns);
    v[HARNESS_FLOOR_BYTES] = (double)w->floor_bytes;
    v[HARNESS_PEAK_BYTES] = (double)r->peak_bytes;
    v[HARNESS_PREDICTED] = w->predicted;
    v[HARNESS_LOSS] = r->loss;
    if (!w->q->profiling)
        return;
    v[HARNESS_BASE_TIME] = ms(r->first_ns);
    v[HARNESS_REMAT_TIME] = ms(r->again_ns);
    v[HARNESS_SEARCH_TIME] = ms(r->search_ns);
    v[HARNESS_COST_TIME] = ms(r->cost_ns);
    v[HARNESS_MOVE_TIME] = ms(r->move_ns);
    v[HARNESS_STALL_TIME] = ms(r->stall_ns);
}

static enum ebb_status say(const struct work *w, const struct harness_row *row,
                           struct ebb_error *err)
{
    struct ebb_str line = {0};
    write_row(row, &line);
    enum ebb_status status = ebb_str_status(&line, err);
    EBB_THEN(status, w->listener->tell(w->listener->context, ebb_str_c(&line), err));
    ebb_str_fini(&line);
    return status;
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of the ops that compute something. */
static double median_op_us(const struct trace *t, const uint64_t *op_ns, struct ebb_arena *arena)
{
    uint64_t *sorted = ebb_arena_calloc(arena, t->op_count + 1, sizeof *sorted);
    size_t n = 0;
    for (uint32_t i = 0; sorted && i < t->op_count; i++)
        if (t->ops[i].cost_ns > 0 && !t->ops[i].is_leaf)
            sorted[n++] = op_ns[i];
    if (n == 0)
        return NAN;
    qsort(sorted, n, sizeof *sorted, compare_ns);
    return (double)sorted[n / 2] / 1e3;
}

/* The step as a DTR log, with the times that its ops took. */
static enum ebb_status write_log(struct work *w, const char *path, struct ebb_error *err)
{
    const struct trace *t = train_trial_trace(w->trial);
    struct trace copy = *t;
    copy.ops = ebb_arena_calloc(w->arena, t->op_count + 1, sizeof *copy.ops);
    if (!copy.ops)
        return ebb_no_memory(err, t->op_count * sizeof *copy.ops);
    memcpy(copy.ops, t->ops, t->op_count * sizeof *copy.ops);
    for (uint32_t i = 0; i < t->op_count; i++)
        if (copy.ops[i].cost_ns > 0 && w->op_ns && w->op_ns[i] > 0)
            copy.ops[i].cost_ns = w->op_ns[i];
    return trace_write_dtr(&copy, path, NULL, 0, err);
}

/* Repetitions that tell the time of every op, and what is made of them. They do not count: looking at
 * a clock takes time. */
static enum ebb_status time_ops(struct work *w, struct harness_row *row, struct ebb_error *err)
{
    const struct harness_request *q = w->q;
    const struct trace *t = train_trial_trace(w->trial);
    struct train_times *times = NULL;
    struct profile *profile = NULL;
    w->op_ns = ebb_arena_calloc(w->arena, t->op_count + 1, sizeof *w->op_ns);
    struct train_repetition r = {.op_ns = w->op_ns};
    enum ebb_status status = w->op_ns ? train_times_create(&times, err)
                                      : ebb_no_memory(err, t->op_count * sizeof *w->op_ns);
    for (int i = 0; i < COST_REPS && status == EBB_OK; i++) {
        status = train_trial_repeat(w->trial, &r, err);
        if (status == EBB_OK)
            train_times_note(times, t, w->op_ns);
        row->rep++; /* a sign of life */
        row->values[HARNESS_OP_US] = median_op_us(t, w->op_ns, w->arena);
        EBB_THEN(status, say(w, row, err));
    }
    if (q->costs_to) {
        const char *device = ebb_doc_string(ebb_doc_get(q->sections, "memory"), "device", NULL);
        EBB_THEN(status, train_trial_algorithms(w->trial, false, times, err));
        EBB_THEN(status, train_times_profile(times, device, NULL, &profile, err));
        EBB_THEN(status, profile_write(profile, q->costs_to, err));
    }
    if (q->log_to)
        EBB_THEN(status, write_log(w, q->log_to, err));
    profile_destroy(profile);
    train_times_destroy(times);
    return status;
}

static enum ebb_status repeat_all(struct work *w, struct ebb_error *err)
{
    const struct harness_request *q = w->q;
    struct harness_row row;
    for (int64_t rep = q->first_rep - q->dry_run; rep < q->n_reps; rep++) {
        struct train_repetition r = {0}, beside = {0};
        harness_row_init(&row);
        if (w->beside)
            EBB_TRY(train_trial_repeat(w->beside, &beside, err));
        EBB_TRY(train_trial_repeat(w->trial, &r, err));
        EBB_TRY(train_trial_gradients(w->trial, row.gradients, err));
        row.input = q->input;
        row.rep = rep < q->first_rep ? rep - q->first_rep : rep; /* warm-up: below 0 */
        row.num_retries = q->num_retries;
        fill_row(w, &r, &row);
        row.values[HARNESS_PAIR_TIME] = w->beside ? ms(beside.device_ns) : NAN;
        name_way(w, &row);
        EBB_TRY(say(w, &row, err));
    }
    return q->costs_to || q->log_to ? time_ops(w, &row, err) : EBB_OK;
}

/* ---- simrd ----------------------------------------------------------------------------------- */

/* The log of the step: written, so that it says what a log can say. */
static enum ebb_status own_log(struct work *w, char *path, size_t size, struct ebb_error *err)
{
    const struct harness_request *q = w->q;
    struct harness_row row;
    harness_row_init(&row);
    snprintf(path, size, "%s", q->log_to ? q->log_to : "");
    if (!*path)
        return ebb_fail(err, EBB_EINTERNAL, "a simulation of the step needs log_to");
    EBB_TRY(make_trial(w, err));
    row.rep = -1 - COST_REPS;
    return time_ops(w, &row, err);
}

static enum ebb_status simulate_log(struct work *w, const char *path, struct ebb_error *err)
{
    struct trace *trace = NULL;
    struct exec_program *program = NULL;
    struct exec_report report;
    double budget = w->q->budget;
    struct exec_options o = {.policy = mem_policy_find("dtr_eq"),
                             .budget_bytes = budget < 0 ? TRACE_MAX_BYTES : (uint64_t)budget,
                             .seed = (uint64_t)w->q->seed};
    EBB_TRY(trace_load(path, TRACE_FORMAT_AUTO, &trace, err));
    enum ebb_status status = exec_program_create(&program, trace, EXEC_SIMRD, err);
    EBB_THEN(status, exec_run(program, &o, &report, err));
    if (status == EBB_OK && report.result != EXEC_OK)
        status = ebb_fail(err, EBB_EBUDGET, "%s: %s", exec_result_text(report.result), report.why);
    if (status == EBB_OK) { /* every repetition would be the same */
        struct harness_row row;
        harness_row_init(&row);
        row.input = w->q->input;
        row.values[HARNESS_TIME] = row.values[HARNESS_GPU_TIME] = ms(report.clock_ns);
        row.values[HARNESS_BASE_TIME] = ms(report.base_ns);
        row.values[HARNESS_REMAT_TIME] = ms(report.remat_ns);
        row.values[HARNESS_TOTAL_MEM] = (double)report.peak_bytes / 1e6;
        row.values[HARNESS_PEAK_BYTES] = (double)report.peak_bytes;
        row.values[HARNESS_MEMORY_BUDGET] = budget;
        row.values[HARNESS_PREDICTED] = exec_overhead(&report);
        status = say(w, &row, err);
    }
    exec_program_destroy(program);
    trace_destroy(trace);
    return status;
}

static enum ebb_status simulate(struct work *w, struct ebb_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", w->q->log_from ? w->q->log_from : "");
    if (!*path)
        EBB_TRY(own_log(w, path, sizeof path, err));
    return simulate_log(w, path, err);
}

enum ebb_status harness_measure(const char *bytes, size_t length,
                                const struct harness_listener *listener, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    struct harness_request q;
    struct work w = {.q = &q, .arena = &arena, .listener = listener};
    enum ebb_status status = read_request(&arena, bytes, length, &q, err);
    if (status == EBB_OK && q.parent > 0)
        ebb_die_with((pid_t)q.parent);
    if (status == EBB_OK && q.simulates) {
        status = simulate(&w, err);
    } else {
        EBB_THEN(status, make_trial(&w, err));
        EBB_THEN(status, repeat_all(&w, err));
    }
    train_trial_destroy(w.trial);
    train_trial_destroy(w.beside);
    ebb_arena_fini(&arena);
    return status;
}
