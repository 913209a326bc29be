/* table.h - the trials of an experiment as a table: a column for each hyperparameter, and a metric.
 * Private to serve.
 *
 * Hyperparameters that are mappings have a column for each part: "optimizer.rate". */
#ifndef EBB_SERVE_TABLE_H
#define EBB_SERVE_TABLE_H

#include "base/doc.h"
#include "serve/rest.h"

struct serve_table_row {
    struct exp_db_trial_key key;
    double value;                            /* of the metric; NaN = none */
    const struct ebb_doc_node *const *cells; /* one for each column; NULL = it has none */
};

struct serve_table {
    const char *metric;
    bool smaller_is_better;
    const char **columns;
    size_t column_count;
    struct serve_table_row *rows;
    size_t count;
};

/* Of the metric that is asked for (the searcher's: the best value so far; others: at the latest
 * validation; step=S: at the one after that step), in the order of trials, in the request's arena. `only`: the one column that is wanted,
 * "" = none, NULL = all. 404 when there is no such experiment. */
enum ebb_status serve_table_read(struct serve_rest *r, const char *only, struct serve_table *t);
/* A cell as a number; equal texts are equal numbers. NaN = none. */
double serve_table_number(const struct serve_table *t, size_t row, size_t column);
/* Does the column have more than one value? */
bool serve_table_varies(const struct serve_table *t, size_t column);

#endif
