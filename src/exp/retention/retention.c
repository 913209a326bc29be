/* retention.c - see retention.h: three rankings, each a sort. */
#include "exp/retention/retention.h"

#include <stdlib.h>

#include "base/heap.h"
#include "exp/search/search.h"

struct entry {
    size_t index;
    int64_t id, trial, step;
    bool has_metric;
    double metric; /* sign turned: smaller is better */
};

static int compare_ints(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_metric(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->has_metric != y->has_metric)
        return x->has_metric ? -1 : 1;
    if (x->has_metric && x->metric != y->metric)
        return x->metric < y->metric ? -1 : 1;
    return compare_ints(x->id, y->id);
}

static int by_trial_metric(const void *a, const void *b)
{
    int order = compare_ints(((const struct entry *)a)->trial, ((const struct entry *)b)->trial);
    return order != 0 ? order : by_metric(a, b);
}

static int by_trial_recency(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = compare_ints(x->trial, y->trial);
    if (order == 0)
        order = compare_ints(y->step, x->step);
    return order != 0 ? order : compare_ints(x->id, y->id);
}

/* Spare the first `keep` of each trial in the current order (of all, when !by_trial). */
static void spare(const struct entry *entries, size_t count, int64_t keep, bool by_trial,
                  bool needs_metric, bool *is_deleted)
{
    int64_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        rank = by_trial && i > 0 && entries[i].trial != entries[i - 1].trial ? 1 : rank + 1;
        if (rank <= keep && (entries[i].has_metric || !needs_metric))
            is_deleted[entries[i].index] = false;
    }
}

enum ebb_status exp_retention_select(const struct exp_checkpoint *checkpoints, size_t count,
                                     const struct exp_retention *policy, bool *is_deleted,
                                     struct ebb_error *err)
{
    struct entry *entries = ebb_calloc(count + 1, sizeof *entries);
    size_t n = 0;
    if (entries == NULL)
        return ebb_no_memory(err, count * sizeof *entries);
    for (size_t i = 0; i < count; i++) {
        const struct exp_checkpoint *c = &checkpoints[i];
        is_deleted[i] = c->is_completed;
        if (c->is_completed)
            entries[n++] =
                (struct entry){.index = i,
                               .id = c->id,
                               .trial = c->trial,
                               .step = c->step,
                               .has_metric = c->has_metric,
                               .metric = exp_metric_signed(c->metric, policy->smaller_is_better)};
    }
    qsort(entries, n, sizeof *entries, by_metric);
    spare(entries, n, policy->save_experiment_best, false, true, is_deleted);
    qsort(entries, n, sizeof *entries, by_trial_metric);
    spare(entries, n, policy->save_trial_best, true, true, is_deleted);
    qsort(entries, n, sizeof *entries, by_trial_recency);
    spare(entries, n, policy->save_trial_latest, true, false, is_deleted);
    for (size_t i = 0; i < count; i++)
        if (checkpoints[i].is_protected)
            is_deleted[i] = false;
    ebb_free(entries);
    return EBB_OK;
}
