/* fuzz_harness_runs.c - logs of benchmarks and CSV files of training on any bytes: passed over, or
 * curves whose points are numbers. */
#include "fuzz.h"

#include "harness/harness.h"

static void read_run(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    struct harness_run run;
    struct plot_chart chart;
    ebb_arena_init(&arena);
    if (harness_run_parse(&arena, "file", bytes, size, &run, &err) == EBB_OK) {
        require(run.curve_count <= HARNESS_CURVES && run.fact_count <= HARNESS_FACTS);
        (void)harness_run_chart(&arena, &run, "file", &chart, &err);
    }
    ebb_arena_fini(&arena);
}

FUZZ(read_run)
