/* forest.h - which columns explain a value: a random forest of regression trees. Private to serve.
 *
 * Seeded: the same table gives the same answer. Importance of a column is the variance that splits
 * on it take away, over all trees, as a part of all that splits take away. */
#ifndef EBB_SERVE_FOREST_H
#define EBB_SERVE_FOREST_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct serve_forest {
    const double *cells; /* rows x columns, row by row; no NaN */
    const double *values;
    size_t rows, columns;
    uint64_t seed;
};

/* importance: one for each column, >= 0, sum 1 (or all 0: nothing explains anything). */
enum ebb_status serve_forest_importance(struct ebb_arena *arena, const struct serve_forest *f,
                                        double *importance, struct ebb_error *err);

#endif
