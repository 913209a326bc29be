/* cmd_sim_show.c - rows of `ebb sim` as JSON, tables and charts. */
#include "cli/cmd_sim.h"
#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "plot/plot.h"

static const char *policy_name(const struct mem_policy *policy)
{
    return policy ? policy->name : "none";
}

static const char *dealloc_name(enum exec_dealloc dealloc)
{
    static const char *const names[] = {"eager", "banish", "ignore"};
    return names[dealloc];
}

static const char *runtime_name(const struct sim_job *job)
{
    if (job->rules == EXEC_EBB)
        return "ebb";
    if (job->runtime)
        return job->runtime;
    return job->dealloc == EXEC_BANISH ? "V1" : "V2EagerOptimized";
}

/* A lower tier and its link; null: there is none. */
static void write_tier(struct ebb_json_writer *w, const char *name, const struct sim_job *job,
                       enum device_tier tier)
{
    ebb_jsonw_key(w, name);
    if (job->tier_bytes[tier] == 0) {
        ebb_jsonw_null(w);
        return;
    }
    ebb_jsonw_object(w);
    ebb_jsonw_key_uint(w, "bytes", job->tier_bytes[tier]);
    ebb_jsonw_key_double(w, "rate", job->links.out[tier].bytes_per_ns);
    ebb_jsonw_key_uint(w, "latency_ns", job->links.out[tier].latency_ns);
    ebb_jsonw_object_end(w);
}

/* Time over the bound, less 1; NaN without either. */
static double gap_of(const struct sim_row *row)
{
    const struct exec_report *r = &row->report;
    if (r->result != EXEC_OK || row->bound_ns <= 0)
        return NAN;
    double gap = exec_overhead(r) * (double)r->base_ns / row->bound_ns - 1;
    return gap > 0 ? gap : 0; /* rounding */
}

void cli_sim_print_json(const struct sim_job *job, const struct sim_row *row)
{
    const struct exec_report *r = &row->report;
    struct cli_json json;
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, r->evict_hash);
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "log", row->log->path);
    ebb_jsonw_key_string(w, "policy", policy_name(row->policy));
    ebb_jsonw_key_string(w, "rules", job->rules == EXEC_EBB ? "ebb" : "simrd");
    ebb_jsonw_key_string(w, "runtime", runtime_name(job));
    ebb_jsonw_key_string(w, "dealloc", dealloc_name(job->dealloc));
    ebb_jsonw_key_double(w, "limit", job->limit);
    ebb_jsonw_key_uint(w, "seed", job->seed);
    ebb_jsonw_key_double(w, "ratio", row->ratio);
    ebb_jsonw_key_uint(w, "budget_bytes", row->budget_bytes);
    ebb_jsonw_key_string(w, "status", exec_result_text(r->result));
    ebb_jsonw_key_double(w, "overhead", exec_overhead(r));
    ebb_jsonw_key_uint(w, "base_ns", r->base_ns);
    ebb_jsonw_key_uint(w, "clock_ns", r->clock_ns);
    ebb_jsonw_key_uint(w, "remat_ns", r->remat_ns);
    ebb_jsonw_key_uint(w, "device_ns", job->rules == EXEC_EBB ? r->device_ns : r->clock_ns);
    ebb_jsonw_key_uint(w, "peak_bytes", r->peak_bytes);
    ebb_jsonw_key_uint(w, "sum_bytes", r->sum_bytes);
    ebb_jsonw_key_uint_or_null(w, "floor_bytes", row->log->floor_bytes, row->log->floor_bytes > 0);
    ebb_jsonw_key_uint(w, "evictions_pressure", r->evictions_pressure);
    ebb_jsonw_key_uint(w, "evictions_release", r->evictions_release);
    ebb_jsonw_key_uint(w, "remat_ops", r->remat_ops);
    ebb_jsonw_key_uint(w, "swapped_bytes", r->swapped_bytes);
    if (job->tier_bytes[DEVICE_HOST] || job->tier_bytes[DEVICE_FILE]) {
        ebb_jsonw_key_uint(w, "stall_ns", r->stall_ns);
        ebb_jsonw_key_double(w, "lower_bound", row->bound_ns > 0 ? row->bound_ns : NAN);
        ebb_jsonw_key_double(w, "gap", gap_of(row));
        write_tier(w, "host", job, DEVICE_HOST);
        write_tier(w, "file", job, DEVICE_FILE);
    }
    ebb_jsonw_key_uint(w, "moved_bytes", r->moved_bytes);
    ebb_jsonw_key_string(w, "evict_hash", hash);
    ebb_jsonw_key_double(w, "seconds", row->seconds);
    ebb_jsonw_key_string(w, "why", r->why[0] ? r->why : NULL);
    cli_json_object_end(&json);
}

static const struct sim_row *row_at(const struct sim_job *job, size_t log, size_t policy,
                                    size_t budget)
{
    return &job->rows[(log * job->policy_count + policy) * job->budget_count + budget];
}

static void table_of_log(const struct sim_job *job, size_t log)
{
    const char *headers[SIM_MAX_BUDGETS + 1];
    char cells[SIM_MAX_BUDGETS][24];
    headers[0] = "policy";
    for (size_t b = 0; b < job->budget_count; b++) {
        const struct sim_row *row = row_at(job, log, 0, b);
        if (isnan(job->budgets[b].ratio))
            ebb_format_bytes(row->budget_bytes, cells[b], sizeof cells[b]);
        else
            ebb_format_double(row->ratio, cells[b], sizeof cells[b] > 32 ? 32 : sizeof cells[b]);
        headers[b + 1] = cells[b];
    }
    struct cli_table *table = cli_table_create(headers, job->budget_count + 1);
    for (size_t p = 0; p < job->policy_count; p++) {
        cli_table_cell(table, "%s", policy_name(job->policies[p]));
        for (size_t b = 0; b < job->budget_count; b++) {
            const struct exec_report *r = &row_at(job, log, p, b)->report;
            if (r->result == EXEC_OK)
                cli_table_cell(table, "%.4f", exec_overhead(r));
            else
                cli_table_cell(table, "%s", exec_result_text(r->result));
        }
    }
    if (row_at(job, log, 0, 0)->bound_ns > 0)
        cli_table_cell(table, "(bound)");
    for (size_t b = 0; b < job->budget_count && row_at(job, log, 0, 0)->bound_ns > 0; b++)
        cli_table_cell(table, "%.4f",
                       row_at(job, log, 0, b)->bound_ns / (double)job->logs[log].stats.base_ns);
    cli_table_out(table);
}

/* One row asked for: say everything about it. */
static void describe(const struct sim_row *row)
{
    const struct exec_report *r = &row->report;
    char a[32], b[32], c[32];
    printf("  budget   %s, highest address %s, floor %s\n",
           ebb_format_bytes(row->budget_bytes, a, sizeof a),
           ebb_format_bytes(r->peak_bytes, b, sizeof b),
           row->log->floor_bytes ? ebb_format_bytes(row->log->floor_bytes, c, sizeof c)
                                 : "not looked for");
    printf("  time     %s, of which recomputing %s (%" PRIu64 " ops)\n",
           ebb_format_ns(r->clock_ns, a, sizeof a), ebb_format_ns(r->remat_ns, b, sizeof b),
           r->remat_ops);
    printf("  evicted  %" PRIu64 " under pressure, %" PRIu64 " when dead; moved %s, swapped %s\n",
           r->evictions_pressure, r->evictions_release,
           ebb_format_bytes(r->moved_bytes, a, sizeof a),
           ebb_format_bytes(r->swapped_bytes, b, sizeof b));
    if (!isnan(gap_of(row)))
        printf("  bound    no plan takes less than %s: %.1f %% above it\n",
               ebb_format_ns((uint64_t)row->bound_ns, a, sizeof a), 100 * gap_of(row));
    if (r->stall_ns)
        printf("  stalls   %s waiting for copies\n", ebb_format_ns(r->stall_ns, a, sizeof a));
    if (r->why[0])
        printf("  %s: %s\n", exec_result_text(r->result), r->why);
}

void cli_sim_print_tables(const struct sim_job *job)
{
    char a[32], b[32], c[32];
    for (size_t l = 0; l < job->log_count; l++) {
        const struct sim_log *log = &job->logs[l];
        printf("%s%s: %u ops, %s; peak %s without eviction", l ? "\n" : "",
               ebb_file_name(log->path), log->trace->op_count,
               ebb_format_ns(log->stats.base_ns, a, sizeof a),
               ebb_format_bytes(log->stats.baseline_bytes, b, sizeof b));
        if (log->floor_bytes)
            printf("; floor %s (%.3f)", ebb_format_bytes(log->floor_bytes, c, sizeof c),
                   (double)log->floor_bytes / (double)log->stats.baseline_bytes);
        static const char *const names[] = {NULL, "host", "file"};
        for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
            if (job->tier_bytes[k])
                printf("; %s %s at %g GB/s", names[k],
                       ebb_format_bytes(job->tier_bytes[k], c, sizeof c),
                       job->links.out[k].bytes_per_ns);
        printf("\nOverhead (time / time without limit), rules %s, by %s:\n",
               job->rules == EXEC_EBB ? "ebb" : "simrd",
               isnan(job->budgets[0].ratio) ? "budget" : "part of the peak");
        table_of_log(job, l);
    }
    if (job->row_count == 1)
        describe(&job->rows[0]);
}

/* ---- charts ---------------------------------------------------------------------------------- */

struct drawing {
    struct plot_panel *panels;
    struct plot_series *series;
    struct plot_mark *marks;
    double *x, *y;
    char (*titles)[96];
};

static void drawing_fini(struct drawing *d)
{
    ebb_free(d->panels);
    ebb_free(d->series);
    ebb_free(d->marks);
    ebb_free(d->x);
    ebb_free(d->y);
    ebb_free(d->titles);
}

/* Budgets in ascending order of a row of the table; failed ones break the line. */
static void fill_series(const struct sim_job *job, size_t l, size_t p, struct drawing *d)
{
    size_t at = (l * job->policy_count + p) * job->budget_count;
    size_t order[SIM_MAX_BUDGETS];
    for (size_t b = 0; b < job->budget_count; b++) {
        size_t k = b;
        double ratio = row_at(job, l, p, b)->ratio;
        for (; k > 0 && row_at(job, l, p, order[k - 1])->ratio > ratio; k--)
            order[k] = order[k - 1];
        order[k] = b;
    }
    for (size_t b = 0; b < job->budget_count; b++) {
        const struct sim_row *row = row_at(job, l, p, order[b]);
        d->x[at + b] = row->ratio;
        d->y[at + b] = row->report.result == EXEC_OK ? exec_overhead(&row->report) : NAN;
    }
    d->series[l * job->policy_count + p] =
        (struct plot_series){.name = policy_name(job->policies[p]),
                             .style = PLOT_LINE_POINTS,
                             .x = &d->x[at],
                             .y = &d->y[at],
                             .count = job->budget_count};
}

static enum ebb_status draw(const struct sim_job *job, struct drawing *d, struct plot_chart *chart,
                            struct ebb_error *err)
{
    size_t lines = job->log_count * job->policy_count;
    d->panels = ebb_calloc(job->log_count, sizeof *d->panels);
    d->series = ebb_calloc(lines, sizeof *d->series);
    d->marks = ebb_calloc(job->log_count * 2, sizeof *d->marks);
    d->x = ebb_calloc(lines * job->budget_count, sizeof *d->x);
    d->y = ebb_calloc(lines * job->budget_count, sizeof *d->y);
    d->titles = ebb_calloc(job->log_count, sizeof *d->titles);
    if (!d->panels || !d->series || !d->marks || !d->x || !d->y || !d->titles)
        return ebb_no_memory(err, lines * job->budget_count * 16);
    for (size_t l = 0; l < job->log_count; l++) {
        const struct sim_log *log = &job->logs[l];
        char peak[32];
        for (size_t p = 0; p < job->policy_count; p++)
            fill_series(job, l, p, d);
        size_t marks = 0;
        d->marks[2 * l + marks++] = (struct plot_mark){.at = 1, .is_dashed = true};
        if (log->floor_bytes)
            d->marks[2 * l + marks++] = (struct plot_mark){.at = (double)log->floor_bytes /
                                                                 (double)log->stats.baseline_bytes,
                                                           .is_vertical = true,
                                                           .is_dashed = true,
                                                           .label = "floor"};
        snprintf(d->titles[l], sizeof d->titles[l], "%s (peak %s)", ebb_file_name(log->path),
                 ebb_format_bytes(log->stats.baseline_bytes, peak, sizeof peak));
        d->panels[l] = (struct plot_panel){.title = d->titles[l],
                                           .x_label = "memory budget / peak without eviction",
                                           .y_label = "time / time without limit",
                                           .series = &d->series[l * job->policy_count],
                                           .series_count = job->policy_count,
                                           .marks = &d->marks[2 * l],
                                           .mark_count = marks,
                                           .x_min = 0,
                                           .x_max = NAN,
                                           .y_min = 0.95,
                                           .y_max = NAN};
    }
    *chart = (struct plot_chart){
        .title = "Time against memory",
        .subtitle = job->rules == EXEC_EBB
                        ? "rules ebb: every storage has an address inside the budget"
                        : "rules simrd: the published simulator",
        .panels = d->panels,
        .panel_count = job->log_count,
        .shared_legend = job->log_count > 1};
    return EBB_OK;
}

enum ebb_status cli_sim_chart_file(const struct sim_job *job, const char *path,
                                   struct ebb_error *err)
{
    struct drawing d = {0};
    struct plot_chart chart;
    enum ebb_status status = draw(job, &d, &chart, err);
    EBB_THEN(status, plot_write(&chart, path, err));
    drawing_fini(&d);
    return status;
}

enum ebb_status cli_sim_chart_terminal(const struct sim_job *job, struct ebb_error *err)
{
    struct drawing d = {0};
    struct plot_chart chart;
    struct ebb_str out = {0};
    enum ebb_status status = draw(job, &d, &chart, err);
    EBB_THEN(status, plot_terminal(&chart, 100, 24, &out, err));
    if (status == EBB_OK)
        printf("\n%s", ebb_str_c(&out));
    ebb_str_fini(&out);
    drawing_fini(&d);
    return status;
}
