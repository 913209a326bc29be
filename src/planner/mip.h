/* mip.h - a mixed-integer program and whoever solves it (private to planner).
 *
 * The only place where the planners meet a solver. Solving happens in a child process: the time
 * limit is kept by force, the solver's threads and crashes stay there. Without a solver in the
 * build planner_mip_solve answers PLANNER_MIP_ABSENT. */
#ifndef EBB_PLANNER_MIP_H
#define EBB_PLANNER_MIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct planner_mip {
    double *col_lower, *col_upper, *objective; /* owned, as all below */
    bool *is_integer;
    size_t col_count, col_capacity[4];
    double *row_lower, *row_upper, *coefs;
    int *cols; /* of the row's coefficients */
    size_t *row_start;
    size_t row_count, row_capacity[3], coef_count, coef_capacity[2];
    double offset; /* constant of the objective */
    bool is_short; /* memory ran out */
};

/* A program begins as zeros. */
void planner_mip_fini(struct planner_mip *mip);
/* Building: when memory runs out the rest is ignored; planner_mip_status says so at the end. */
int planner_mip_col(struct planner_mip *mip, double lower, double upper, double cost,
                    bool is_integer);
/* A row is begun, gets its terms (a column below 0 is none), and is closed by the next begin. */
void planner_mip_row(struct planner_mip *mip, double lower, double upper);
void planner_mip_term(struct planner_mip *mip, int col, double coef);
/* The row a <= b + c. */
void planner_mip_at_most(struct planner_mip *mip, int a, int b, int c);
/* Constants found while the row gets its terms: taken from both sides. */
void planner_mip_constant(struct planner_mip *mip, double constant);
void planner_mip_upper(struct planner_mip *mip, double upper); /* of the newest row */
enum ebb_status planner_mip_status(const struct planner_mip *mip, struct ebb_error *err);
/* CPLEX LP text, columns x0, x1, ... */
enum ebb_status planner_mip_write_lp(const struct planner_mip *mip, const char *path,
                                     const char *comment, struct ebb_error *err);

#define PLANNER_INF 1e30

enum planner_mip_status {
    PLANNER_MIP_FAILED, /* not solved yet, or the solver died or was killed */
    PLANNER_MIP_OPTIMAL,
    PLANNER_MIP_INFEASIBLE, /* proven; with a cutoff: nothing better than it */
    PLANNER_MIP_LIMIT,      /* stopped; has_x says whether something was found */
    PLANNER_MIP_ABSENT,
};

struct planner_mip_options {
    double seconds;
    double ratio_gap;
    double cutoff;   /* only solutions below it are of interest; PLANNER_INF = none */
    bool is_relaxed; /* solve the LP only */
};

struct planner_mip_result {
    enum planner_mip_status status;
    bool has_x;
    double objective, bound; /* offset included; no bound: not above 0 */
    double *x;               /* owned, see fini; col_count values */
    double seconds;
};

/* A result begins as zeros. */
void planner_mip_result_fini(struct planner_mip_result *result);
enum ebb_status planner_mip_solve(const struct planner_mip *mip,
                                  const struct planner_mip_options *options,
                                  struct planner_mip_result *result, struct ebb_error *err);

/* What the child runs (mip_cbc.c). x has room for col_count values. */
void planner_mip_solve_here(const struct planner_mip *mip,
                            const struct planner_mip_options *options,
                            struct planner_mip_result *result);
bool planner_mip_has_solver(void);

#endif
