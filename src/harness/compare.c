/* compare.c - two results side by side: the same model at the same part of its baseline's peak. */
#include "harness/harness.h"

#include <math.h>
#include <string.h>

#include "nn/nn.h"

#define SAME_RATIO 0.005 /* budgets that are this near are the same */

/* Published names are aliases of the zoo's. */
static const char *canonical(const char *model)
{
    const struct nn_model *m = nn_model_find(model);
    return m ? m->name : model;
}

static bool is_baseline(const struct harness_setting *s)
{
    return strcmp(s->type, "baseline") == 0;
}

/* The only type of a model besides baselines; NULL: none or several. */
static const char *only_type(const struct harness_results *r, const char *model)
{
    const char *type = NULL;
    for (size_t i = 0; i < r->count; i++) {
        const struct harness_setting *s = &r->settings[i];
        if (is_baseline(s) || strcmp(canonical(s->model), canonical(model)) != 0)
            continue;
        if (type && strcmp(type, s->type) != 0)
            return NULL;
        type = s->type;
    }
    return type;
}

static bool is_comparable(const struct harness_results *b, const struct harness_setting *a,
                          const struct harness_setting *s)
{
    const char *only = only_type(b, a->model);
    return strcmp(canonical(a->model), canonical(s->model)) == 0 &&
           is_baseline(a) == is_baseline(s) &&
           (is_baseline(a) || strcmp(a->type, s->type) == 0 ||
            (only && strcmp(only, s->type) == 0));
}

/* B's slowdown at a ratio: measured there, or on the straight line between its neighbours. */
static struct harness_point slowdown_at(const struct harness_results *b,
                                        const struct harness_setting *a, double ratio,
                                        struct harness_pair *pair)
{
    struct harness_point below = {NAN, NAN, NAN}, above = {NAN, NAN, NAN};
    double low = -INFINITY, high = INFINITY;
    for (size_t i = 0; i < b->count; i++) {
        const struct harness_setting *s = &b->settings[i];
        double at = harness_setting_ratio(b, s);
        if (!is_comparable(b, a, s) || isnan(at))
            continue;
        if (fabs(at - ratio) < SAME_RATIO) {
            pair->b_error = s->error;
            return harness_slowdown(b, s);
        }
        if (s->error)
            continue;
        if (at < ratio && at > low) {
            low = at;
            below = harness_slowdown(b, s);
        }
        if (at > ratio && at < high) {
            high = at;
            above = harness_slowdown(b, s);
        }
    }
    double part = (ratio - low) / (high - low);
    pair->is_between = isfinite(low) && isfinite(high);
    if (!pair->is_between)
        return (struct harness_point){NAN, NAN, NAN};
    return (struct harness_point){below.value + part * (above.value - below.value),
                                  below.low + part * (above.low - below.low),
                                  below.high + part * (above.high - below.high)};
}

static struct harness_point baseline_ms(const struct harness_results *b,
                                        const struct harness_setting *a)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct harness_setting *s = &b->settings[i];
        if (is_comparable(b, a, s) && !s->error && s->batch_size == a->batch_size)
            return harness_setting_point(s, HARNESS_TIME);
    }
    return (struct harness_point){NAN, NAN, NAN};
}

enum ebb_status harness_compare(struct ebb_arena *arena, const struct harness_results *a,
                                const struct harness_results *b, struct harness_pairs *pairs,
                                struct ebb_error *err)
{
    *pairs = (struct harness_pairs){
        .items = ebb_arena_calloc(arena, a->count + 1, sizeof *pairs->items)};
    if (!pairs->items)
        return ebb_no_memory(err, a->count * sizeof *pairs->items);
    for (size_t i = 0; i < a->count; i++) {
        const struct harness_setting *s = &a->settings[i];
        struct harness_pair *p = &pairs->items[pairs->count++];
        *p = (struct harness_pair){
            .a = s, .ratio = harness_setting_ratio(a, s), .is_baseline = is_baseline(s)};
        p->a_value =
            p->is_baseline ? harness_setting_point(s, HARNESS_TIME) : harness_slowdown(a, s);
        p->b_value = p->is_baseline ? baseline_ms(b, s) : slowdown_at(b, s, p->ratio, p);
    }
    return EBB_OK;
}
