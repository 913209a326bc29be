/* bench_floor.c - the floor of traces, logs and graphs, and what it is compared with.
 *
 *     build/bench/bench_floor FILE...
 *
 * One Markdown row per file: ops; the most that is always live; the largest working set of one op;
 * the lower bound; the floor; floor over (always live + working set), and over the lower bound;
 * overhead of the floor's plan; bytes it slides over the bytes of all storages; seconds of
 * processor time. Ways to make files: ebb model trace, ebb trace make. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "planner/planner.h"

static enum ebb_status row(const char *path, struct ebb_error *err)
{
    struct trace *trace = NULL;
    struct trace_stats stats;
    struct planner_floor_facts f;
    EBB_TRY(trace_load(path, TRACE_FORMAT_AUTO, &trace, err));
    enum ebb_status status = trace_stats_compute(trace, &stats, err);
    clock_t begin = clock();
    if (status == EBB_OK)
        status = planner_floor_facts_compute(trace, &f, err);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (status == EBB_OK) {
        const char *name = strrchr(path, '/');
        double floor_bytes = (double)f.floor_bytes;
        printf("| %s | %u | %.1f | %.1f | %.1f | %.1f | %.3f | %.3f | %.2f | %.2f | %.2f |\n",
               name ? name + 1 : path, trace->op_count, (double)f.always_live_bytes / 1e6,
               (double)f.working_bytes / 1e6, (double)f.lower_bound_bytes / 1e6, floor_bytes / 1e6,
               floor_bytes / (double)(f.always_live_bytes + f.working_bytes),
               floor_bytes / (double)f.lower_bound_bytes, (double)f.cost / (double)f.base_cost,
               (double)f.moved_bytes / (double)stats.total_bytes, seconds);
        fflush(stdout);
    }
    trace_destroy(trace);
    return status;
}

int main(int argc, char **argv)
{
    struct ebb_error err;
    int failures = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_floor FILE...\n");
        return 2;
    }
    printf("| file | ops | always live MB | working set MB | lower bound MB | floor MB | / (live + "
           "set) | / bound | overhead | moved | s |\n");
    printf("|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 1; i < argc; i++) {
        if (row(argv[i], &err) != EBB_OK) {
            fprintf(stderr, "%s: %s\n", argv[i], err.message);
            failures++;
        }
    }
    return failures ? 1 : 0;
}
