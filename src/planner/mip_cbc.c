/* mip_cbc.c - CBC and Clp behind mip.h. Runs in the child only; compiled to an absent solver
 * without EBB_HAVE_CBC (the build decides: one function per file cannot be chosen by folder
 * globbing). */
#include "planner/mip.h"

#ifdef EBB_HAVE_CBC

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h> /* setenv */
#include <string.h>

#include <Cbc_C_Interface.h>
#include <Clp_C_Interface.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/heap.h"

bool planner_mip_has_solver(void)
{
    return true;
}

/* CBC calls LAPACK; an OpenMP build of it would start threads that spin (measured: 10x slower). The
 * variable is read when the library is loaded, so the runtime is told directly where it is present.
 */
static void one_thread(void)
{
    static const char *const setters[] = {"omp_set_num_threads", "openblas_set_num_threads"};
    setenv("OMP_NUM_THREADS", "1", 1);
    for (size_t i = 0; i < sizeof setters / sizeof setters[0]; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, setters[i]);
        void (*set)(int) = NULL;
        memcpy(&set, &symbol, sizeof set);
        if (set)
            set(1);
    }
}

struct columns { /* column-wise copy */
    struct ebb_arena arena;
    CoinBigIndex *start;
    int *rows;
    double *values;
};

static bool columns_init(struct columns *c, const struct planner_mip *mip)
{
    c->start = ebb_arena_calloc(&c->arena, mip->col_count + 2, sizeof *c->start);
    c->rows = ebb_arena_calloc(&c->arena, mip->coef_count, sizeof *c->rows);
    c->values = ebb_arena_calloc(&c->arena, mip->coef_count, sizeof *c->values);
    if (c->arena.short_of)
        return false;
    for (size_t k = 0; k < mip->coef_count; k++)
        c->start[mip->cols[k] + 2]++;
    for (size_t i = 0; i < mip->col_count; i++)
        c->start[i + 2] += c->start[i + 1];
    for (size_t r = 0; r < mip->row_count; r++) {
        size_t end = r + 1 < mip->row_count ? mip->row_start[r + 1] : mip->coef_count;
        for (size_t k = mip->row_start[r]; k < end; k++) {
            CoinBigIndex at = c->start[mip->cols[k] + 1]++;
            c->rows[at] = (int)r;
            c->values[at] = mip->coefs[k];
        }
    }
    return true;
}

static void solve_lp(const struct planner_mip *mip, const struct columns *c,
                     const struct planner_mip_options *options, struct planner_mip_result *result)
{
    uint64_t start_ns = ebb_clock_ns();
    Clp_Simplex *clp = Clp_newModel();
    Clp_setLogLevel(clp, 0);
    Clp_loadProblem(clp, (int)mip->col_count, (int)mip->row_count, c->start, c->rows, c->values,
                    mip->col_lower, mip->col_upper, mip->objective, mip->row_lower, mip->row_upper);
    Clp_setMaximumSeconds(clp, options->seconds);
    Clp_initialSolve(clp);
    if (Clp_isProvenOptimal(clp)) {
        result->status = PLANNER_MIP_OPTIMAL;
        result->has_x = true;
        result->objective = result->bound = Clp_getObjValue(clp) + mip->offset;
        memcpy(result->x, Clp_getColSolution(clp), mip->col_count * sizeof *result->x);
    } else {
        bool is_in_time = (double)(ebb_clock_ns() - start_ns) * 1e-9 < 0.8 * options->seconds;
        result->status = is_in_time && Clp_isProvenPrimalInfeasible(clp) ? PLANNER_MIP_INFEASIBLE
                                                                         : PLANNER_MIP_LIMIT;
    }
    Clp_deleteModel(clp);
}

static void solve_mip(const struct planner_mip *mip, const struct columns *c,
                      const struct planner_mip_options *options, struct planner_mip_result *result)
{
    char text[64];
    uint64_t start_ns = ebb_clock_ns();
    Cbc_Model *cbc = Cbc_newModel();
    Cbc_loadProblem(cbc, (int)mip->col_count, (int)mip->row_count, c->start, c->rows, c->values,
                    mip->col_lower, mip->col_upper, mip->objective, mip->row_lower, mip->row_upper);
    for (size_t i = 0; i < mip->col_count; i++)
        if (mip->is_integer[i])
            Cbc_setInteger(cbc, (int)i);
    Cbc_setLogLevel(cbc, 0);
    Cbc_setParameter(cbc, "timeMode", "elapsed");
    snprintf(text, sizeof text, "%.3f", options->seconds);
    Cbc_setParameter(cbc, "seconds", text);
    snprintf(text, sizeof text, "%.12g", options->ratio_gap);
    Cbc_setParameter(cbc, "ratioGap", text);
    /* dense cuts pay at the root only: below they make every node several times slower */
    Cbc_setParameter(cbc, "gomoryCuts", "root");
    Cbc_setParameter(cbc, "twoMirCuts", "root");
    if (options->cutoff < PLANNER_INF) {
        snprintf(text, sizeof text, "%.12g", options->cutoff - mip->offset);
        Cbc_setParameter(cbc, "cutoff", text);
    }
    Cbc_solve(cbc);
    const double *x = Cbc_bestSolution(cbc);
    result->has_x = x && Cbc_numberSavedSolutions(cbc) > 0;
    if (result->has_x) {
        memcpy(result->x, x, mip->col_count * sizeof *result->x);
        result->objective = Cbc_getObjValue(cbc) + mip->offset;
    }
    result->bound = Cbc_getBestPossibleObjValue(cbc) + mip->offset;
    /* "Infeasible" of a search that ran out of time is no proof, whatever the flags say: seen when
     * the limit struck inside the first LP. The same goes for its bound. */
    bool is_in_time = (double)(ebb_clock_ns() - start_ns) * 1e-9 < 0.8 * options->seconds;
    bool is_complete = Cbc_status(cbc) == 0 && Cbc_secondaryStatus(cbc) <= 1;
    if (is_in_time && ((is_complete && Cbc_isProvenInfeasible(cbc)) ||
                       Cbc_isInitialSolveProvenPrimalInfeasible(cbc)))
        result->status = PLANNER_MIP_INFEASIBLE;
    else if (Cbc_isProvenOptimal(cbc) && result->has_x)
        result->status = PLANNER_MIP_OPTIMAL;
    else
        result->status = PLANNER_MIP_LIMIT;
    if (result->status == PLANNER_MIP_LIMIT &&
        (result->bound >= options->cutoff || !Cbc_isInitialSolveProvenOptimal(cbc)))
        result->bound = -PLANNER_INF;
    Cbc_deleteModel(cbc);
}

void planner_mip_solve_here(const struct planner_mip *mip,
                            const struct planner_mip_options *options,
                            struct planner_mip_result *result)
{
    struct columns c = {0};
    one_thread();
    if (columns_init(&c, mip)) {
        if (options->is_relaxed)
            solve_lp(mip, &c, options, result);
        else
            solve_mip(mip, &c, options, result);
    }
    ebb_arena_fini(&c.arena);
}

#else

bool planner_mip_has_solver(void)
{
    return false;
}

void planner_mip_solve_here(const struct planner_mip *mip,
                            const struct planner_mip_options *options,
                            struct planner_mip_result *result)
{
    (void)mip;
    (void)options;
    result->status = PLANNER_MIP_ABSENT;
}

#endif
