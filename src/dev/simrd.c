/* simrd.c - `ebb dev simrd DIR`: every recorded run of the published simulator in
 * golden.json and linear.json.
 *
 * Exact rows must agree in result, clock, counters and every victim. Rows whose heuristic walks
 * regions (DTR, MSPS, AbE*, DTRUnopt, runtime V1) may differ by 1 % in the clock; AbE is
 * indicative: rows of it that differ more are skipped. Random rows are compared statistically. */
#include "dev/judge.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "base/progress.h"
#include "exec/exec.h"
#include "trace/trace.h"

struct row { /* one recorded run */
    const struct ebb_doc_node *node;
    const char *heuristic, *runtime;
};

static bool is_region(const char *heuristic, const char *runtime)
{
    static const char *const names[] = {"DTR", "MSPS", "AbE", "AbESize", "AbEStale", "DTRUnopt"};
    if (strcmp(runtime, "V1") == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], heuristic) == 0)
            return true;
    }
    return false;
}

/* Numbers of a recorded run: their names there, where they are here, which are dumped. */
static const struct {
    const char *name;
    size_t offset; /* of a uint64_t in struct exec_report */
    bool is_dumped;
} numbers[] = {
    {"clock", offsetof(struct exec_report, clock_ns), true},
    {"remat_compute", offsetof(struct exec_report, remat_ns), true},
    {"peak_memory", offsetof(struct exec_report, peak_bytes), true},
    {"evictions_pressure", offsetof(struct exec_report, evictions_pressure), true},
    {"evictions_release", offsetof(struct exec_report, evictions_release), true},
    {"remat_ops", offsetof(struct exec_report, remat_ops), true},
    {"remat_collateral", offsetof(struct exec_report, remat_collateral), false},
    {"ops_done", offsetof(struct exec_report, ops_done), false},
    {"heuristic_eval_count", offsetof(struct exec_report, eval_count), true},
};
#define NUMBER_COUNT (sizeof numbers / sizeof *numbers)

static uint64_t number_of(const struct exec_report *r, size_t k)
{
    uint64_t value;
    memcpy(&value, (const char *)r + numbers[k].offset, sizeof value);
    return value;
}

static void differ(struct dev_judge *j, const char *what, const char *expected, const char *found)
{
    dev_fail(j, "%s: expected %s, found %s", what, expected, found);
}

static void same_number(struct dev_judge *j, const struct ebb_doc_node *row, const char *key,
                        uint64_t found)
{
    const struct ebb_doc_node *node = ebb_doc_get(row, key);
    if (node &&
        !(node->kind == EBB_DOC_INT && node->integer >= 0 && (uint64_t)node->integer == found))
        dev_fail(j, "%s: expected %" PRId64 ", found %" PRIu64, key, node->integer, found);
}

static void judge_exact(struct dev_judge *j, const struct row *row, const struct exec_report *r,
                        const char *hash)
{
    const char *result = ebb_doc_string(row->node, "result", "");
    const char *recorded = ebb_doc_string(row->node, "evict_hash", "");
    if (strcmp(result, exec_result_text(r->result)) != 0)
        differ(j, "result", result, exec_result_text(r->result));
    for (size_t k = 0; k < NUMBER_COUNT; k++)
        same_number(j, row->node, numbers[k].name, number_of(r, k));
    if (strcmp(hash, recorded) != 0)
        differ(j, "evict_hash", recorded, hash);
}

static void judge_region(struct dev_judge *j, const struct row *row, const struct exec_report *r)
{
    const char *result = ebb_doc_string(row->node, "result", "");
    double clock = ebb_doc_double(row->node, "clock", 0), ratio = (double)r->clock_ns / clock;
    bool is_same = strcmp(result, exec_result_text(r->result)) == 0;
    if (fabs(ratio - 1) <= 0.01 || (is_same && r->result != EXEC_OK)) /* or next to a limit */
        return;
    j->is_skipped =
        strcmp(row->heuristic, "AbE") == 0; /* agreement counts, the rest proves nothing */
    if (!j->is_skipped)
        dev_fail(j, "result and clock within 1 %%: expected %s %.0f, found %s %" PRIu64, result,
                 clock, exec_result_text(r->result), r->clock_ns);
}

static void dump_row(struct dev_judge *j, const struct exec_report *r, const char *hash)
{
    struct ebb_json_writer w;
    if (!j->request->dump)
        return;
    ebb_jsonw_init(&w, &j->dump, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "case", j->name);
    ebb_jsonw_key_string(&w, "result", exec_result_text(r->result));
    ebb_jsonw_key_uint(&w, numbers[0].name, number_of(r, 0));
    ebb_jsonw_key_double(&w, "overhead", exec_overhead(r));
    for (size_t k = 1; k < NUMBER_COUNT; k++)
        if (numbers[k].is_dumped)
            ebb_jsonw_key_uint(&w, numbers[k].name, number_of(r, k));
    ebb_jsonw_key_string(&w, "evict_hash", hash);
    ebb_jsonw_object_end(&w);
    ebb_str_addc(&j->dump, '\n');
}

static enum ebb_status run_row(struct dev_judge *j, const struct exec_program *program,
                               const struct row *row, struct exec_options *options,
                               struct ebb_error *err)
{
    struct exec_report report;
    char hash[20];
    options->policy = mem_policy_find(row->heuristic);
    if (!options->policy) {
        differ(j, "heuristic", "a known policy", row->heuristic);
        return EBB_OK;
    }
    j->is_skipped = strcmp(ebb_doc_string(row->node, "result", ""), "too_slow") == 0;
    if (j->is_skipped)
        return EBB_OK;
    EBB_TRY(exec_run(program, options, &report, err));
    snprintf(hash, sizeof hash, "%016" PRIx64, report.evict_hash);
    dump_row(j, &report, hash);
    if (is_region(row->heuristic, row->runtime))
        judge_region(j, row, &report);
    else
        judge_exact(j, row, &report, hash);
    return EBB_OK;
}

#define RANDOM_TRIALS 30

/* Probability that k and n draws from one distribution lie wholly apart. */
static double separation(int64_t k, int64_t n)
{
    double ways = 1;
    for (int64_t i = 1; i <= k; i++)
        ways *= (double)(n + i) / (double)i;
    return 2 / ways;
}

/* Only the range of the recorded overheads is known. A row fails when ours lie wholly outside it
 * and that would happen by chance less than once in 1,000 rows, when what always ended ok never
 * does here, or what never did always does. */
static enum ebb_status run_random(struct dev_judge *j, const struct exec_program *program,
                                  const struct row *row, struct exec_options *options,
                                  struct ebb_error *err)
{
    int64_t trials = ebb_doc_int(row->node, "trials", 0), ok = ebb_doc_int(row->node, "ok", 0);
    int64_t found = 0;
    double low = INFINITY, high = -INFINITY;
    options->policy = mem_policy_find("random");
    for (uint64_t i = 0; i < RANDOM_TRIALS; i++) {
        struct exec_report report;
        options->seed = i;
        EBB_TRY(exec_run(program, options, &report, err));
        if (report.result != EXEC_OK)
            continue;
        found++;
        low = fmin(low, exec_overhead(&report));
        high = fmax(high, exec_overhead(&report));
    }
    options->seed = 0;
    double least = ebb_doc_double(row->node, "overhead_min", NAN),
           most = ebb_doc_double(row->node, "overhead_max", NAN);
    char a[64], b[64];
    snprintf(a, sizeof a, "%" PRId64 " of %" PRId64 " ok, %.4f..%.4f", ok, trials, least, most);
    snprintf(b, sizeof b, "%" PRId64 " of %d ok, %.4f..%.4f", found, RANDOM_TRIALS, low, high);
    bool is_likely = !(ok == trials && found == 0) && !(ok == 0 && found == RANDOM_TRIALS);
    bool is_apart = ok > 0 && found > 0 && !(least <= high && low <= most);
    if (!is_likely || (is_apart && separation(ok, found) < 0.001))
        differ(j, "random trials", a, b);
    return EBB_OK;
}

/* Begins the case. */
static struct row begin_row(struct dev_judge *j, const struct ebb_doc_node *node, const char *model,
                            const char *file)
{
    struct row row = {.node = node,
                      .heuristic = ebb_doc_string(node, "heuristic", "?"),
                      .runtime = ebb_doc_string(node, "runtime", "?")};
    if (ebb_doc_get(node, "n"))
        dev_begin(j, "%s: n=%" PRId64 " budget=%" PRId64 " %s", file, ebb_doc_int(node, "n", 0),
                  ebb_doc_int(node, "budget", 0), row.heuristic);
    else
        dev_begin(j, "%s: %s %s %s %s ratio=%g", file, model,
                  ebb_doc_string(node, "kind", "random"), row.heuristic, row.runtime,
                  ebb_doc_double(node, "ratio", 0));
    return row;
}

static enum ebb_status check_baseline(struct dev_judge *j, const struct trace *trace,
                                      const struct ebb_doc_node *model, const char *name,
                                      struct ebb_error *err)
{
    struct trace_stats stats;
    const struct ebb_doc_node *row = ebb_doc_get(model, "baseline");
    EBB_TRY(trace_stats_compute(trace, &stats, err));
    dev_begin(j, "golden.json: %s baseline", name);
    same_number(j, row, "baseline_memory", stats.baseline_bytes);
    same_number(j, row, "baseline_compute", stats.base_ns);
    same_number(j, row, "baseline_const", stats.leaf_bytes);
    same_number(j, row, "baseline_bottleneck", stats.bottleneck_bytes);
    same_number(j, row, "n_schedule", trace->command_count);
    same_number(j, row, "n_tensors", trace->tensor_count);
    same_number(j, row, "n_storages", trace->storage_count);
    dev_end(j);
    return EBB_OK;
}

/* Runs of a model, or its random ones. */
static enum ebb_status run_list(struct dev_judge *j, const struct exec_program *program,
                                const struct ebb_doc_node *list, const char *model, double limit,
                                bool is_random, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; list && i < list->count && status == EBB_OK; i++) {
        const struct ebb_doc_node *node = list->items[i];
        struct row row = begin_row(j, node, model, "golden.json");
        struct exec_options options = {
            .limit = is_random ? limit : ebb_doc_double(node, "overhead_limit", limit),
            .budget_bytes = (uint64_t)ebb_doc_int(node, "budget", 0)};
        if (strcmp(row.runtime, "V1") == 0 && !is_random)
            options.dealloc = EXEC_BANISH;
        else if (strcmp(ebb_doc_string(node, "kind", ""), "dealloc") == 0)
            options.dealloc = EXEC_IGNORE;
        status = is_random ? run_random(j, program, &row, &options, err)
                           : run_row(j, program, &row, &options, err);
        if (status == EBB_OK)
            dev_end(j);
    }
    return status;
}

static enum ebb_status run_model(struct dev_judge *j, const char *name,
                                 const struct ebb_doc_node *model, double limit,
                                 struct ebb_error *err)
{
    struct trace *trace = NULL;
    struct exec_program *program = NULL;
    const char *path = dev_path(j, ebb_doc_string(model, "log", "?"));
    enum ebb_status status = trace_load(path, TRACE_FORMAT_DTR, &trace, err);
    EBB_THEN(status, exec_program_create(&program, trace, EXEC_SIMRD, err));
    EBB_THEN(status, check_baseline(j, trace, model, name, err));
    EBB_THEN(status, run_list(j, program, ebb_doc_get(model, "runs"), name, limit, false, err));
    EBB_THEN(status, run_list(j, program, ebb_doc_get(model, "random"), name, limit, true, err));
    exec_program_destroy(program);
    trace_destroy(trace);
    return status;
}

static enum ebb_status run_golden(struct dev_judge *j, const struct ebb_doc_node *root,
                                  struct ebb_error *err)
{
    const struct ebb_doc_node *models = ebb_doc_get(root, "models");
    enum ebb_status status = EBB_OK;
    if (!models || models->kind != EBB_DOC_MAP)
        return ebb_fail(err, EBB_EINPUT, "%s/golden.json: no mapping 'models'", j->request->dir);
    struct ebb_progress *progress = ebb_progress_create("models", (uint64_t)models->count);
    for (size_t i = 0; status == EBB_OK && i < models->count; i++) {
        status = run_model(j, models->keys[i]->text, models->items[i],
                           ebb_doc_double(root, "overhead_limit", 2.0), err);
        ebb_progress_add(progress, 1);
    }
    ebb_progress_destroy(progress);
    return status;
}

static enum ebb_status run_linear(struct dev_judge *j, const struct ebb_doc_node *root,
                                  struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; status == EBB_OK && i < root->count; i++) {
        struct trace *trace = NULL;
        struct exec_program *program = NULL;
        const struct ebb_doc_node *node = root->items[i];
        int64_t n = ebb_doc_int(node, "n", 0);
        struct row row = begin_row(j, node, "linear", "linear.json");
        struct exec_options options = {.limit_ns = (uint64_t)(40 * n),
                                       .budget_bytes = (uint64_t)ebb_doc_int(node, "budget", 0)};
        status = trace_make_linear((uint32_t)n, &trace, err);
        EBB_THEN(status, exec_program_create(&program, trace, EXEC_SIMRD, err));
        EBB_THEN(status, run_row(j, program, &row, &options, err));
        if (status == EBB_OK)
            dev_end(j);
        exec_program_destroy(program);
        trace_destroy(trace);
    }
    return status;
}

enum ebb_status dev_simrd(const struct dev_request *request, struct dev_counts *counts,
                          struct ebb_error *err)
{
    static const struct {
        const char *file;
        enum ebb_status (*run)(struct dev_judge *j, const struct ebb_doc_node *root,
                               struct ebb_error *err);
    } files[] = {{"golden.json", run_golden}, {"linear.json", run_linear}};
    struct dev_judge j;
    enum ebb_status status = EBB_OK;
    dev_judge_init(&j, request, "FAILED ");
    for (size_t k = 0; k < sizeof files / sizeof *files && status == EBB_OK; k++) {
        const struct ebb_doc_node *root;
        status = ebb_doc_load(&j.arena, dev_path(&j, files[k].file), &root, err);
        EBB_THEN(status, files[k].run(&j, root, err));
    }
    return dev_judge_fini(&j, status, counts, err);
}
