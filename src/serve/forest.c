/* forest.c - see forest.h. */
#include "serve/forest.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define TREES 48
#define SAMPLE_MAX 1024 /* rows of a tree, drawn with replacement */
#define DEPTH_MAX 8
#define LEAF_ROWS 4

struct tree {
    const struct serve_forest *f;
    uint64_t rng;
    uint32_t *rows;    /* of the tree; a node has a part of them */
    uint32_t *scratch; /* room for as many */
    struct cell {
        double at, value;
    } * sorted; /* likewise */
    double *importance;
};

static int by_cell(const void *a, const void *b)
{
    double x = ((const struct cell *)a)->at, y = ((const struct cell *)b)->at;
    return (x > y) - (x < y);
}

/* The split of one column that takes away most: how much, and where. */
static double best_cut(struct tree *t, const uint32_t *rows, size_t n, size_t column, double *cut)
{
    const struct serve_forest *f = t->f;
    double sum = 0, left = 0, best = 0;
    for (size_t i = 0; i < n; i++) {
        t->sorted[i] = (struct cell){f->cells[rows[i] * f->columns + column], f->values[rows[i]]};
        sum += t->sorted[i].value;
    }
    qsort(t->sorted, n, sizeof *t->sorted, by_cell);
    for (size_t i = 0; i + 1 < n; i++) {
        left += t->sorted[i].value;
        if (t->sorted[i].at == t->sorted[i + 1].at || i + 1 < LEAF_ROWS || n - i - 1 < LEAF_ROWS)
            continue;
        double nl = (double)(i + 1), nr = (double)n - nl, right = sum - left;
        double gain = left * left / nl + right * right / nr - sum * sum / (double)n;
        if (gain > best) {
            best = gain;
            *cut = (t->sorted[i].at + t->sorted[i + 1].at) / 2;
        }
    }
    return best;
}

static size_t part(struct tree *t, uint32_t *rows, size_t n, size_t column, double cut)
{
    size_t low = 0, high = 0;
    for (size_t i = 0; i < n; i++)
        if (t->f->cells[rows[i] * t->f->columns + column] <= cut)
            rows[low++] = rows[i];
        else
            t->scratch[high++] = rows[i];
    memcpy(rows + low, t->scratch, high * sizeof *rows);
    return low;
}

/* Of the columns each node looks at about a third, drawn anew: so that a strong one does not hide
 * all others. */
static void grow(struct tree *t, uint32_t *rows, size_t n, int depth)
{
    size_t columns = t->f->columns, tries = columns / 3 + 1, chosen = 0;
    double best = 0, cut = 0;
    if (n < 2 * LEAF_ROWS || depth >= DEPTH_MAX)
        return;
    for (size_t k = 0; k < tries; k++) {
        size_t column = (size_t)(ebb_splitmix64(&t->rng) % columns);
        double at = 0, gain = best_cut(t, rows, n, column, &at);
        if (gain > best) {
            best = gain;
            cut = at;
            chosen = column;
        }
    }
    if (best <= 0)
        return;
    t->importance[chosen] += best;
    size_t left = part(t, rows, n, chosen, cut);
    grow(t, rows, left, depth + 1);
    grow(t, rows + left, n - left, depth + 1);
}

enum ebb_status serve_forest_importance(struct ebb_arena *arena, const struct serve_forest *f,
                                        double *importance, struct ebb_error *err)
{
    size_t n = f->rows < SAMPLE_MAX ? f->rows : SAMPLE_MAX;
    struct tree t = {.f = f, .rng = f->seed, .importance = importance};
    t.rows = ebb_arena_alloc(arena, (n + 1) * sizeof *t.rows);
    t.scratch = ebb_arena_alloc(arena, (n + 1) * sizeof *t.scratch);
    t.sorted = ebb_arena_alloc(arena, (n + 1) * sizeof *t.sorted);
    EBB_TRY(ebb_arena_status(arena, err));
    memset(importance, 0, f->columns * sizeof *importance);
    for (int tree = 0; f->columns > 0 && n > 0 && tree < TREES; tree++) {
        for (size_t i = 0; i < n; i++)
            t.rows[i] = (uint32_t)(ebb_splitmix64(&t.rng) % f->rows);
        grow(&t, t.rows, n, 0);
    }
    double sum = 0;
    for (size_t i = 0; i < f->columns; i++)
        sum += importance[i];
    for (size_t i = 0; sum > 0 && i < f->columns; i++)
        importance[i] /= sum;
    return EBB_OK;
}
