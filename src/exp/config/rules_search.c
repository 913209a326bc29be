/* rules_search.c - rules between the fields of searcher and search space. */
#include <math.h>
#include <string.h>

#include "exp/config/reader.h"

#define GRID_POINTS_MAX 2000
#define TWO_63 9223372036854775808.0

/* ---- searcher ---- */

/* start[0] of a halving bracket of `rungs` rungs sized from `budget` steps: 0 means that it runs
 * nothing. Same arithmetic as the searcher; exact where it matters, because small sums are exact in
 * doubles. */
static bool bracket_is_empty(const struct exp_searcher *s, int64_t rungs, int64_t budget)
{
    double expected = 0, below = 0, first = 0;
    for (int64_t r = 0; r < rungs; r++) {
        double c = pow(s->divisor, (double)(rungs - 1 - r));
        double steps = fmax(trunc((double)s->target_trial_steps / c), 1);
        double n = fmax(trunc(c), 1);
        expected += (steps - below) * n;
        below = steps;
        if (r == 0)
            first = n;
    }
    return trunc((double)budget / expected * first) < 1;
}

/* Rung counts follow from mode and max_rungs, from the smallest bracket to the largest. */
static int64_t smallest_bracket(const struct exp_searcher *s)
{
    if (s->mode == EXP_MODE_AGGRESSIVE)
        return s->max_rungs;
    return s->mode == EXP_MODE_STANDARD ? (s->max_rungs - 1) / 2 + 1 : 1;
}

static bool all_brackets_empty(const struct exp_searcher *s)
{
    if (s->bracket_rungs_count > 0) {
        int64_t budget = s->step_budget / (int64_t)s->bracket_rungs_count;
        for (size_t i = 0; i < s->bracket_rungs_count; i++)
            if (!bracket_is_empty(s, s->bracket_rungs[i], budget))
                return false;
        return true;
    }
    int64_t low = smallest_bracket(s), count = s->max_rungs - low + 1;
    for (int64_t rungs = s->max_rungs; rungs >= low; rungs--)
        if (!bracket_is_empty(s, rungs, s->step_budget / count))
            return false;
    return true;
}

static int64_t most_rungs(const struct exp_searcher *s)
{
    int64_t most = s->bracket_rungs_count > 0 ? 0 : s->max_rungs;
    for (size_t i = 0; i < s->bracket_rungs_count; i++)
        if (s->bracket_rungs[i] > most)
            most = s->bracket_rungs[i];
    return most;
}

static void check_adaptive(struct ebb_reading *reader, const struct ebb_doc_node *root,
                           const struct exp_searcher *s)
{
    if (!ebb_reading_is_good(reader, &s->step_budget) ||
        !ebb_reading_is_good(reader, &s->target_trial_steps))
        return;
    const struct ebb_doc_node *budget = exp_place(root, "searcher.step_budget");
    if (s->step_budget <= s->target_trial_steps) {
        ebb_reading_add(reader, EBB_FINDING_ERROR, budget, "searcher.step_budget",
                        "found %lld, allowed: more than target_trial_steps, which is %lld",
                        (long long)s->step_budget, (long long)s->target_trial_steps);
        ebb_reading_also(reader, "searcher.target_trial_steps");
        return;
    }
    if (!ebb_reading_is_good(reader, &s->mode) || !ebb_reading_is_good(reader, &s->divisor) ||
        !ebb_reading_is_good(reader, &s->max_rungs) ||
        !ebb_reading_is_good(reader, &s->bracket_rungs))
        return;
    bool is_explicit = s->bracket_rungs_count > 0;
    if (pow(s->divisor, (double)(most_rungs(s) - 1)) >= TWO_63) {
        const char *path = is_explicit ? "searcher.bracket_rungs" : "searcher.max_rungs";
        ebb_reading_add(reader, EBB_FINDING_ERROR, exp_place(root, path), path,
                        "found %lld rungs, allowed: divisor^(rungs-1) below 2^63",
                        (long long)most_rungs(s));
        ebb_reading_also(reader, "searcher.divisor");
    } else if (all_brackets_empty(s)) {
        ebb_reading_add(reader, EBB_FINDING_ERROR, budget, "searcher.step_budget",
                        "found %lld, allowed: enough steps for one trial in one bracket",
                        (long long)s->step_budget);
    }
}

/* Checkpoint directories are lower case; the file may say it either way. */
static void lower_uuid(struct ebb_reading *reader, struct exp_searcher *s)
{
    char *copy = ebb_arena_strndup(reader->arena, s->source_checkpoint_uuid,
                                   strlen(s->source_checkpoint_uuid));
    if (!copy) {
        reader->failed = true;
        return;
    }
    for (char *c = copy; *c; c++)
        if (*c >= 'A' && *c <= 'F')
            *c = (char)(*c - 'A' + 'a');
    s->source_checkpoint_uuid = copy;
}

void exp_rules_patience(struct ebb_reading *reader, const struct ebb_doc_node *root,
                        struct exp_searcher *s, int64_t validation_period)
{
    static const char path[] = "searcher.early_stopping";
    struct exp_early_stopping *e = &s->early_stopping;
    const struct ebb_doc_node *given =
        ebb_doc_given(ebb_doc_get(root, "searcher"), "early_stopping");
    if (!given)
        return;
    bool is_same = !e->metric || (s->metric && strcmp(e->metric, s->metric) == 0);
    if (!e->metric)
        e->metric = s->metric;
    if (is_same && !ebb_doc_given(given, "smaller_is_better"))
        e->smaller_is_better = s->smaller_is_better;
    if (validation_period == 0) {
        ebb_reading_add(reader, EBB_FINDING_ERROR, exp_place(root, path), path,
                        "looks at validations, and none is made on the way, allowed: beside "
                        "min_validation_period");
        ebb_reading_also(reader, "min_validation_period");
    }
}

void exp_rules_searcher(struct ebb_reading *reader, const struct ebb_doc_node *root,
                        struct exp_searcher *s)
{
    if (s->source_checkpoint_uuid)
        lower_uuid(reader, s);
    if (s->source_trial_id && s->source_checkpoint_uuid) {
        ebb_reading_add(reader, EBB_FINDING_ERROR, exp_place(root, "searcher.source_trial_id"),
                        "searcher.source_trial_id",
                        "found together with source_checkpoint_uuid, allowed: only one of them");
        ebb_reading_also(reader, "searcher.source_checkpoint_uuid");
    }
    if (ebb_reading_is_good(reader, &s->kind) && s->kind == EXP_SEARCHER_ADAPTIVE)
        check_adaptive(reader, root, s);
}

/* ---- grid ---- */

/* Values of one hyperparameter on a grid; 0: no count. Saturates, since only "too many" matters. */
static uint64_t grid_factor(const struct exp_hparam *h)
{
    if (h->kind == EXP_HPARAM_CONST)
        return 1;
    if (h->kind == EXP_HPARAM_CATEGORICAL)
        return h->value_count;
    uint64_t count = (uint64_t)h->count;
    if (h->kind == EXP_HPARAM_INT && count > 0) {
        uint64_t width = (uint64_t)h->int_max - (uint64_t)h->int_min + 1;
        if (width < count)
            count = width;
    }
    return count;
}

void exp_rules_grid(struct ebb_reading *reader, const struct ebb_doc_node *root,
                    const struct exp_searcher *searcher, const struct exp_hparams *hparams)
{
    if (!ebb_reading_is_good(reader, &searcher->kind) || searcher->kind != EXP_SEARCHER_GRID)
        return;
    const struct ebb_doc_node *section = ebb_doc_get(root, "hyperparameters");
    struct ebb_path top = {.key = "hyperparameters"};
    uint64_t points = 1;
    bool is_complete = true;
    for (size_t i = 0; i < hparams->count; i++) {
        const struct exp_hparam *h = &hparams->items[i];
        if (!ebb_reading_is_good(reader, &h->kind) || !ebb_reading_is_good(reader, &h->count)) {
            is_complete = false;
            continue;
        }
        uint64_t factor = grid_factor(h);
        if (factor == 0) {
            struct ebb_path name = {.up = &top, .key = h->name};
            struct ebb_path count = {.up = &name, .key = "count"};
            ebb_reading_error(reader, &count, ebb_doc_get(section, h->name),
                              "required by searcher grid but missing, allowed: an integer > 0");
            is_complete = false;
        }
        if (__builtin_mul_overflow(points, factor, &points))
            points = UINT64_MAX / 2;
    }
    if (is_complete && points > GRID_POINTS_MAX)
        ebb_reading_error(reader, &top, section, "found %s%llu grid points, allowed: at most %d",
                          points >= UINT64_MAX / 2 ? "at least " : "", (unsigned long long)points,
                          GRID_POINTS_MAX);
}

/* ---- global_batch_size ---- */

/* Smallest value it can take; NULL when all of them are integers, else the one that is not (of a
 * range: the parameter itself). */
static const struct ebb_doc_node *smallest_batch(const struct exp_hparam *h,
                                                 const struct ebb_doc_node *node, int64_t *smallest)
{
    if (h->kind == EXP_HPARAM_CONST)
        return ebb_key_whole(h->value, smallest) ? NULL : h->value;
    if (h->kind == EXP_HPARAM_INT) {
        *smallest = h->int_min;
        return NULL;
    }
    if (h->kind != EXP_HPARAM_CATEGORICAL)
        return node;
    *smallest = INT64_MAX;
    for (size_t i = 0; i < h->value_count; i++) {
        int64_t value = 0;
        if (!ebb_key_whole(h->values[i], &value))
            return h->values[i];
        if (value < *smallest)
            *smallest = value;
    }
    return NULL;
}

static void report_batch(struct ebb_reading *reader, const struct exp_hparam *h,
                         const struct ebb_doc_node *bad)
{
    static const struct ebb_path path = {.key = "hyperparameters.global_batch_size"};
    static const char allowed[] = "positive integers (a value, type int or categorical)";
    if (h->kind == EXP_HPARAM_DOUBLE || h->kind == EXP_HPARAM_LOG)
        ebb_reading_error(reader, &path, bad, "found type %s, allowed: %s",
                          h->kind == EXP_HPARAM_LOG ? "log" : "double", allowed);
    else
        ebb_reading_refuse(reader, &path, bad, "%s", allowed);
}

static void warn_uneven(struct ebb_reading *reader, const struct ebb_doc_node *node, int64_t batch,
                        int64_t slots)
{
    if (batch % slots != 0)
        ebb_reading_add(reader, EBB_FINDING_WARNING, node, "hyperparameters.global_batch_size",
                        "%lld is not a multiple of slots_per_trial %lld: batches of %lld are used",
                        (long long)batch, (long long)slots, (long long)(batch / slots * slots));
}

void exp_rules_batch_size(struct ebb_reading *reader, const struct ebb_doc_node *root,
                          const struct exp_config *config)
{
    static const char path[] = "hyperparameters.global_batch_size";
    const struct exp_resources *r = &config->resources;
    if (!ebb_reading_is_good(reader, &config->hyperparameters))
        return;
    const struct exp_hparam *h = exp_hparams_find(&config->hyperparameters, "global_batch_size");
    const struct ebb_doc_node *node = exp_place(root, path);
    int64_t smallest = 0;
    if (!h) {
        ebb_reading_add(reader, EBB_FINDING_ERROR, node, path,
                        "required but missing, allowed: positive integers");
        return;
    }
    if (!ebb_reading_is_good(reader, &h->kind) || !ebb_reading_is_good(reader, &h->int_min) ||
        !ebb_reading_is_good(reader, &h->values) || !ebb_reading_is_good(reader, &h->value))
        return;
    bool has_slots = ebb_reading_is_good(reader, &r->slots_per_trial) && !r->native_parallel;
    const struct ebb_doc_node *bad = smallest_batch(h, node, &smallest);
    if (bad) {
        report_batch(reader, h, bad);
    } else if (smallest <= 0) {
        ebb_reading_add(reader, EBB_FINDING_ERROR, node, path,
                        "found the value %lld, allowed: positive integers", (long long)smallest);
    } else if (has_slots && smallest < r->slots_per_trial) {
        ebb_reading_add(
            reader, EBB_FINDING_ERROR, node, path,
            "found the value %lld, allowed: at least resources.slots_per_trial, which is %lld",
            (long long)smallest, (long long)r->slots_per_trial);
        ebb_reading_also(reader, "resources.slots_per_trial");
    } else if (has_slots && h->kind == EXP_HPARAM_CONST) {
        warn_uneven(reader, node, smallest, r->slots_per_trial);
    } else if (has_slots && h->kind == EXP_HPARAM_CATEGORICAL) {
        for (size_t i = 0; i < h->value_count; i++)
            if (ebb_key_whole(h->values[i], &smallest))
                warn_uneven(reader, h->values[i], smallest, r->slots_per_trial);
    }
}
