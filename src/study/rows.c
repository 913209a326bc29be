/* rows.c - graph x planner x budget: loading, running many at a time. */
#include "study/study.h"

#include <math.h>

#include "base/heap.h"
#include "base/progress.h"
#include "base/thread.h"

enum ebb_status study_load(struct study_graph *graph, const char *path, const struct study_how *how,
                           struct ebb_error *err)
{
    struct trace_stats stats;
    *graph = (struct study_graph){.path = path};
    EBB_TRY(how->load(how->context, path, &graph->trace, err));
    enum ebb_status status = planner_facts_compute(graph->trace, &graph->facts, err);
    EBB_THEN(status, trace_stats_compute(graph->trace, &stats, err));
    if (status != EBB_OK) {
        study_unload(graph);
        return status;
    }
    graph->ratio_base = graph->trace->is_graph ? graph->facts.no_remat_peak : stats.baseline_bytes;
    return EBB_OK;
}

void study_unload(struct study_graph *graph)
{
    trace_destroy(graph->trace);
    graph->trace = NULL;
}

struct batch {
    struct study_row *rows;
    const struct study_how *how;
    struct ebb_progress *progress;
};

static void run_row(void *context, size_t i)
{
    struct batch *batch = context;
    struct study_row *row = &batch->rows[i];
    if (batch->how->is_cancelled())
        return;
    row->status =
        planner_run(row->planner, row->graph->trace, &row->request, &row->result, &row->err);
    row->is_done = row->status == EBB_OK;
    ebb_progress_add(batch->progress, 1);
}

enum ebb_status study_run(struct study_row *rows, size_t count, const struct study_how *how,
                          struct ebb_error *err)
{
    struct batch batch = {
        .rows = rows, .how = how, .progress = ebb_progress_create("planning", count)};
    enum ebb_status status = ebb_parallel((int)how->jobs, count, run_row, &batch, err);
    ebb_progress_destroy(batch.progress);
    for (size_t i = 0; i < count && status == EBB_OK; i++)
        if (rows[i].status != EBB_OK) {
            if (err)
                *err = rows[i].err;
            status = rows[i].status;
        }
    return status;
}

void study_rows_fini(struct study_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].is_done)
            planner_result_fini(&rows[i].result);
    ebb_free(rows);
}

bool study_is_ok(const struct study_row *row)
{
    return row->is_done && row->result.status == PLANNER_OK;
}

double study_overhead(const struct study_row *row)
{
    if (!study_is_ok(row) || row->result.base_cost == 0)
        return NAN;
    return (double)row->result.cost / (double)row->result.base_cost;
}
