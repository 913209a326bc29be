/* checkmate.c - run a folder of reference cases for the planners: `ebb dev checkmate DIR`.
 *
 * DIR/graphs/NAME.json are the graphs. DIR/strategies: every row equal in cost and peak.
 * DIR/optimum: exact mode reaches every proven optimum, proves infeasibility where that is known,
 * and no bound passes a known cost. DIR/bounds: large graphs, never above the best schedule known.
 * A row of an unknown kind fails. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/thread.h"
#include "dev/judge.h"
#include "planner/planner.h"
#include "study/study.h"
#include "trace/trace.h"

struct row { /* one case */
    const char *kind, *graph;
    const struct ebb_doc_node *head, *row;
    const struct trace *trace;
    bool is_failed;
    double seconds;
    char text[320]; /* what was computed, or what is wrong */
    char json[512]; /* fields for --dump */
};

struct suite {
    struct dev_judge judge;
    struct row *rows;
    size_t count, capacity;
    struct trace **traces;
    size_t trace_count, trace_capacity;
};

static void row_fail(struct row *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void row_fail(struct row *r, const char *fmt, ...)
{
    va_list args;
    if (r->is_failed)
        return; /* the first reason is the useful one */
    r->is_failed = true;
    va_start(args, fmt);
    vsnprintf(r->text, sizeof r->text, fmt, args);
    va_end(args);
}

/* ---- strategies ----------------------------------------------------------------------------- */

#define MAX_ORDER 4096

static size_t read_order(const struct ebb_doc_node *head, const char *key, uint32_t *order)
{
    const struct ebb_doc_node *list = ebb_doc_get(head, key);
    size_t n = 0;
    for (size_t i = 0; list && list->kind == EBB_DOC_LIST && i < list->count && n < MAX_ORDER; i++)
        order[n++] = (uint32_t)list->items[i]->integer;
    return n;
}

static void check_strategy_once(struct row *r, const struct planner *planner,
                                const struct planner_request *request)
{
    struct planner_result result;
    struct ebb_error err;
    if (planner_run(planner, r->trace, request, &result, &err) != EBB_OK) {
        row_fail(r, "%s", err.message);
        return;
    }
    uint64_t cost = (uint64_t)ebb_doc_int(r->row, "cost", -1);
    uint64_t peak = (uint64_t)ebb_doc_int(r->row, "activation_peak", -1);
    if (result.status != PLANNER_OK)
        row_fail(r, "%s: %s", planner_status_text(result.status), result.note);
    else if (result.cost != cost || result.peak_bytes != peak)
        row_fail(r, "cost %" PRIu64 " peak %" PRIu64 ", expected cost %" PRIu64 " peak %" PRIu64,
                 result.cost, result.peak_bytes, cost, peak);
    snprintf(r->json, sizeof r->json, ",\"cost\":%" PRIu64 ",\"peak_bytes\":%" PRIu64, result.cost,
             result.peak_bytes);
    planner_result_fini(&result);
}

static void check_simrd(struct row *r)
{
    struct exec_report report;
    struct ebb_error err;
    if (study_online(r->trace, ebb_doc_string(r->row, "heuristic", ""),
                     (uint64_t)ebb_doc_int(r->row, "budget", 0), &report, &err) != EBB_OK) {
        row_fail(r, "%s", err.message);
        return;
    }
    bool is_feasible = report.result == EXEC_OK, want = ebb_doc_bool(r->row, "feasible", true);
    uint64_t cost = report.clock_ns - 1; /* that clock starts at 1 */
    snprintf(r->json, sizeof r->json, ",\"cost\":%" PRIu64 ",\"peak_bytes\":%" PRIu64, cost,
             report.peak_bytes);
    if (is_feasible != want)
        row_fail(r, "%s, expected %s", exec_result_text(report.result), want ? "ok" : "infeasible");
    else if (want && (cost != (uint64_t)ebb_doc_int(r->row, "cost", -1) ||
                      report.peak_bytes != (uint64_t)ebb_doc_int(r->row, "activation_peak", -1)))
        row_fail(r, "cost %" PRIu64 " peak %" PRIu64 ", expected cost %" PRId64 " peak %" PRId64,
                 cost, report.peak_bytes, ebb_doc_int(r->row, "cost", -1),
                 ebb_doc_int(r->row, "activation_peak", -1));
}

static void check_strategy(const struct suite *suite, struct row *r)
{
    (void)suite;
    const char *name = ebb_doc_string(r->row, "strategy", "");
    if (strcmp(name, "SIMRD") == 0) {
        check_simrd(r);
        return;
    }
    const struct planner *planner = planner_find(name);
    struct planner_request request;
    uint32_t *order = ebb_calloc(2 * MAX_ORDER, sizeof *order);
    if (!order) {
        row_fail(r, "out of memory");
        return;
    }
    planner_request_init(&request);
    bool only_ap = strstr(name, "NOAP") == NULL;
    request.params.order = order;
    request.params.order_count = read_order(
        r->head, only_ap ? "checkpoint_set_iteration_order" : "checkpoint_set_all_iteration_order",
        order);
    request.params.forward_order = order + MAX_ORDER;
    request.params.forward_order_count =
        read_order(r->head, "topological_order_fwd", order + MAX_ORDER);
    request.params.slots = (int32_t)ebb_doc_int(r->row, "slots", -1);
    if (!planner) {
        row_fail(r, "unknown strategy '%s'", name);
    } else if (strncmp(name, "CHEN_GREEDY", 11) == 0) { /* both ends of the range of thresholds */
        request.params.segment_bytes = ebb_doc_double(r->row, "b_min", NAN);
        check_strategy_once(r, planner, &request);
        request.params.segment_bytes = ebb_doc_double(r->row, "b_max", NAN);
        check_strategy_once(r, planner, &request);
    } else {
        check_strategy_once(r, planner, &request);
    }
    ebb_free(order);
}

/* ---- optimum and bounds --------------------------------------------------------------------- */

/* Plan at the row's budget and check what holds for any row. */
static bool plan_row(struct row *r, double gap, double time_limit, struct planner_result *result)
{
    struct planner_request request;
    struct ebb_error err;
    planner_request_init(&request);
    request.budget_bytes = (uint64_t)ebb_doc_int(r->row, "budget", 0);
    request.gap = gap;
    request.time_limit_s = time_limit;
    if (planner_run(planner_find("best"), r->trace, &request, result, &err) != EBB_OK) {
        row_fail(r, "%s", err.message);
        return false;
    }
    double base = (double)result->base_cost;
    const char *bound = planner_bound_text(result->bound_class);
    snprintf(r->json, sizeof r->json,
             ",\"budget_bytes\":%" PRIu64 ",\"status\":\"%s\",\"cost\":%" PRIu64
             ",\"overhead\":%.9f,\"peak_bytes\":%" PRIu64
             ",\"lower_bound\":%.17g,\"bound_class\":\"%s\",\"optimal\":%s",
             request.budget_bytes, planner_status_text(result->status), result->cost,
             (double)result->cost / base, result->peak_bytes, result->lower_bound,
             bound ? bound : "none", result->optimal ? "true" : "false");
    snprintf(r->text, sizeof r->text, "budget %.2f: %s overhead %.6f bound %.6f (%s)%s by %s",
             ebb_doc_double(r->row, "frac_of_no_recompute_peak", NAN),
             planner_status_text(result->status), (double)result->cost / base,
             result->lower_bound / base, bound ? bound : "none", result->optimal ? " optimal" : "",
             result->winner);
    if (result->status == PLANNER_OK && result->peak_bytes > request.budget_bytes)
        row_fail(r, "peak %" PRIu64 " above the budget", result->peak_bytes);
    if (result->status == PLANNER_OK && result->lower_bound > (double)result->cost * (1 + 1e-9))
        row_fail(r, "bound %.9g above the cost %" PRIu64, result->lower_bound, result->cost);
    return true;
}

static void check_lp(struct row *r, enum planner_model_kind kind, const char *name, double want)
{
    struct planner_facts facts;
    struct ebb_error err;
    double bound = 0, seconds;
    if (isnan(want))
        return;
    if (planner_facts_compute(r->trace, &facts, &err) != EBB_OK ||
        planner_lp_bound(r->trace, (uint64_t)ebb_doc_int(r->row, "budget", 0), kind, 60, &bound,
                         &seconds, &err) != EBB_OK)
        row_fail(r, "%s: %s", name, err.message);
    else if (fabs(bound / (double)facts.base_cost - want) > 5e-6 * want)
        row_fail(r, "%s: %.7f, expected %.7f", name, bound / (double)facts.base_cost, want);
}

/* Any schedule known at this budget refutes a bound above it. */
static void check_refuted(struct row *r, const struct planner_result *result, int64_t known)
{
    if (known > 0 && result->lower_bound > (double)known * (1 + 1e-9))
        row_fail(r, "bound %.9g above a known cost %" PRId64, result->lower_bound, known);
}

/* What a row of optima asks for; NULL when the result gives it. */
static const char *optimum_missed(const struct row *r, const struct planner_result *result)
{
    const struct ebb_doc_node *merged = ebb_doc_get(r->row, "merged");
    const struct ebb_doc_node *full = ebb_doc_get(r->row, "full");
    const char *status = ebb_doc_string(full, "status", "not_run");
    bool is_ok = result->status == PLANNER_OK;
    if (strcmp(status, "infeasible") == 0)
        return result->status == PLANNER_INFEASIBLE ? NULL : "infeasible";
    if (strcmp(status, "optimal") == 0)
        return is_ok && result->cost == (uint64_t)ebb_doc_int(full, "cost", -1)
                   ? NULL
                   : "the proven optimum";
    if (strcmp(ebb_doc_string(merged, "status", "not_run"), "optimal") == 0)
        return is_ok && result->cost <= (uint64_t)ebb_doc_int(merged, "cost", -1)
                   ? NULL
                   : "at most the merged optimum";
    return NULL;
}

static void check_optimum(const struct suite *suite, struct row *r)
{
    struct planner_result result;
    const struct ebb_doc_node *merged = ebb_doc_get(r->row, "merged");
    const struct ebb_doc_node *full = ebb_doc_get(r->row, "full");
    if (!plan_row(r, 0, suite->judge.request->time_limit, &result))
        return;
    /* the limit is wall time: on a busy machine a miss gets four times as long, once */
    if (optimum_missed(r, &result)) {
        planner_result_fini(&result);
        if (!plan_row(r, 0, 4 * suite->judge.request->time_limit, &result))
            return;
    }
    const char *missed = optimum_missed(r, &result);
    if (missed)
        row_fail(r, "%s cost %" PRIu64 ", expected %s (full %" PRId64 ", merged %" PRId64 ")",
                 planner_status_text(result.status), result.cost, missed,
                 ebb_doc_int(full, "cost", -1), ebb_doc_int(merged, "cost", -1));
    if (result.bound_class == PLANNER_BOUND_FLOW)
        check_refuted(r, &result, ebb_doc_int(full, "cost", -1));
    check_refuted(r, &result, ebb_doc_int(merged, "cost", -1));
    check_lp(r, PLANNER_MODEL_MERGED, "merged LP", ebb_doc_double(merged, "lp_root", NAN));
    check_lp(r, PLANNER_MODEL_FLOW, "flow LP", ebb_doc_double(full, "lp_root", NAN));
    check_lp(r, PLANNER_MODEL_PUBLISHED, "published LP",
             ebb_doc_double(r->row, "published_lp_overhead", NAN));
    planner_result_fini(&result);
}

static void check_bounds(const struct suite *suite, struct row *r)
{
    struct planner_result result;
    if (!plan_row(r, 0.005, suite->judge.request->time_limit, &result))
        return;
    double base = (double)result.base_cost;
    double known = ebb_doc_double(r->row, "best_known_overhead", NAN);
    /* six digits are given */
    if (!isnan(known) && (result.status != PLANNER_OK || (double)result.cost / base > known + 6e-7))
        row_fail(r, "%s overhead %.7f, best known %.6f", planner_status_text(result.status),
                 (double)result.cost / base, known);
    check_lp(r, PLANNER_MODEL_MERGED, "merged LP",
             ebb_doc_double(r->row, "merged_lp_lower_bound_overhead", NAN));
    planner_result_fini(&result);
}

/* ---- the folder ----------------------------------------------------------------------------- */

static const struct {
    const char *folder, *list;
    void (*check)(const struct suite *suite, struct row *r);
} kinds[] = {
    {"strategies", "strategies", check_strategy},
    {"optimum", "results", check_optimum},
    {"bounds", "results", check_bounds},
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static enum ebb_status load_file(struct suite *suite, const char *folder, const char *list,
                                 const char *file, struct ebb_error *err)
{
    const struct ebb_doc_node *head;
    struct trace *trace = NULL;
    struct ebb_arena *arena = &suite->judge.arena;
    const char *dir = suite->judge.request->dir;
    char *path = ebb_arena_printf(arena, "%s/%s/%s", dir, folder, file);
    char *graph_path = ebb_arena_printf(arena, "%s/graphs/%s", dir, file);
    char *name = ebb_arena_strndup(arena, file, strlen(file) - 5);
    EBB_TRY(ebb_arena_status(arena, err));
    EBB_TRY(ebb_doc_load(arena, path, &head, err));
    EBB_TRY(trace_load(graph_path, TRACE_FORMAT_GRAPH, &trace, err));
    enum ebb_status status = ebb_grow(&suite->traces, &suite->trace_capacity,
                                      suite->trace_count + 1, sizeof *suite->traces, err);
    if (status != EBB_OK) {
        trace_destroy(trace);
        return status;
    }
    suite->traces[suite->trace_count++] = trace;
    const struct ebb_doc_node *rows = ebb_doc_get(head, list);
    if (!rows || rows->kind != EBB_DOC_LIST)
        return ebb_fail(err, EBB_EINPUT, "%s: no list '%s'", path, list);
    for (size_t i = 0; i < rows->count; i++) {
        EBB_TRY(
            ebb_grow(&suite->rows, &suite->capacity, suite->count + 1, sizeof *suite->rows, err));
        suite->rows[suite->count++] = (struct row){
            .kind = folder, .graph = name, .head = head, .row = rows->items[i], .trace = trace};
    }
    return EBB_OK;
}

static enum ebb_status load_folder(struct suite *suite, const char *folder, const char *list,
                                   struct ebb_error *err)
{
    const char *only = suite->judge.request->only, *path = dev_path(&suite->judge, folder);
    char **names;
    size_t count;
    EBB_TRY(dev_list(&suite->judge.arena, path, &names, &count, err));
    for (size_t i = 0; i < count; i++)
        if (!only || strstr(names[i], only))
            EBB_TRY(load_file(suite, folder, list, names[i], err));
    return EBB_OK;
}

static void run_row(void *context, size_t i)
{
    struct suite *suite = context;
    struct row *r = &suite->rows[i];
    uint64_t start = ebb_clock_ns();
    for (size_t k = 0; k < KIND_COUNT; k++)
        if (strcmp(kinds[k].folder, r->kind) == 0)
            kinds[k].check(suite, r);
    r->seconds = (double)(ebb_clock_ns() - start) * 1e-9;
}

static void report(struct suite *suite)
{
    struct dev_judge *j = &suite->judge;
    for (size_t i = 0; i < suite->count; i++) {
        const struct row *r = &suite->rows[i];
        dev_begin(j, "%s/%s line %" PRIu32 " (%s)", r->kind, r->graph, r->row->line,
                  ebb_doc_string(r->row, "strategy", r->kind));
        if (r->is_failed)
            dev_fail(j, "%s [%.2f s]", r->text, r->seconds);
        else if (j->request->is_verbose)
            fprintf(j->request->out, "ok %s: %s [%.2f s]\n", j->name, r->text, r->seconds);
        dev_count(j);
        if (j->request->dump)
            ebb_str_printf(&j->dump,
                           "{\"kind\":\"%s\",\"graph\":\"%s\",\"row\":%zu,\"verdict\":\"%s\","
                           "\"line\":%" PRIu32 ",\"seconds\":%.3f%s}\n",
                           r->kind, r->graph, i, r->is_failed ? "failed" : "passed", r->row->line,
                           r->seconds, r->json);
    }
}

static bool is_wanted(const struct dev_request *request, const char *kind)
{
    bool is_named = request->kind_count == 0;
    for (size_t w = 0; w < request->kind_count; w++)
        is_named |= strcmp(request->kinds[w], kind) == 0;
    return is_named;
}

enum ebb_status dev_checkmate(const struct dev_request *request, struct dev_counts *counts,
                              struct ebb_error *err)
{
    struct suite suite = {.count = 0};
    enum ebb_status status = EBB_OK;
    dev_judge_init(&suite.judge, request, "FAIL ");
    for (size_t k = 0; k < KIND_COUNT && status == EBB_OK; k++)
        if (is_wanted(request, kinds[k].folder))
            status = load_folder(&suite, kinds[k].folder, kinds[k].list, err);
    EBB_THEN(status, ebb_parallel((int)request->threads, suite.count, run_row, &suite, err));
    if (status == EBB_OK)
        report(&suite);
    for (size_t i = 0; i < suite.trace_count; i++)
        trace_destroy(suite.traces[i]);
    ebb_free(suite.traces);
    ebb_free(suite.rows);
    return dev_judge_fini(&suite.judge, status, counts, err);
}
