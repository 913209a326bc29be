/* Pareto files from anybody: the reader must survive them; what it accepts has a section of the zoo for every trial. */
#include "fuzz.h"

#include "harness/pareto.h"

static void run(const char *bytes, size_t size)
{
    struct ebb_arena arena = {0};
    struct ebb_report report = {0};
    struct harness_pareto *f;
    struct harness_results results;
    int64_t *inputs;
    if (harness_pareto_parse(&arena, "fuzz", bytes, size, false, &f, &report, NULL) == EBB_OK) {
        for (size_t i = 0; i < f->count; i++)
            require(f->setups[i].kind == PARETO_USE_LOG ||
                    (f->setups[i].section && f->setups[i].samples > 0));
        require(harness_pareto_list(&arena, f, &results, &inputs, NULL) == EBB_OK);
        require(results.count == f->count);
    }
    ebb_arena_fini(&arena);
}

FUZZ(run)
