/* compare.c - two results side by side: the same model at the same part of its baseline's peak. */
#include "harness/harness.h"

#include <math.h>
#include <string.h>

#define SAME_RATIO 0.005 /* budgets that are this near are the same */

/* A setting of A, and which settings of B are like it. */
struct likeness {
    const struct harness_setting *a;
    const char *only; /* the only type of the model in B besides baselines; NULL: none or several */
};

static const char *only_type(const struct harness_results *r, const char *model)
{
    const char *type = NULL;
    for (size_t i = 0; i < r->count; i++) {
        const struct harness_setting *s = &r->settings[i];
        if (harness_is_baseline(s) || !harness_same_model(s->model, model))
            continue;
        if (type && strcmp(type, s->type) != 0)
            return NULL;
        type = s->type;
    }
    return type;
}

static bool is_comparable(const struct likeness *l, const struct harness_setting *s)
{
    const struct harness_setting *a = l->a;
    if (harness_is_baseline(a) != harness_is_baseline(s) || !harness_same_model(a->model, s->model))
        return false;
    return harness_is_baseline(a) || strcmp(a->type, s->type) == 0 ||
           (l->only && strcmp(l->only, s->type) == 0);
}

/* B's slowdown at a ratio: measured there, or on the straight line between its neighbours. */
static struct harness_point slowdown_at(const struct harness_results *b,
                                        const struct likeness *like, double ratio,
                                        struct harness_pair *pair)
{
    const struct harness_setting *below = NULL, *above = NULL;
    double low = -INFINITY, high = INFINITY;
    for (size_t i = 0; i < b->count; i++) {
        const struct harness_setting *s = &b->settings[i];
        double at = is_comparable(like, s) ? harness_setting_ratio(b, s) : NAN;
        if (fabs(at - ratio) < SAME_RATIO) {
            pair->b_error = s->error;
            return harness_slowdown(b, s);
        }
        if (s->error)
            continue;
        if (at < ratio && at > low) {
            low = at;
            below = s;
        }
        if (at > ratio && at < high) {
            high = at;
            above = s;
        }
    }
    pair->is_between = below && above;
    if (!pair->is_between)
        return (struct harness_point){NAN, NAN, NAN};
    struct harness_point l = harness_slowdown(b, below), h = harness_slowdown(b, above);
    double part = (ratio - low) / (high - low);
    return (struct harness_point){l.value + part * (h.value - l.value),
                                  l.low + part * (h.low - l.low),
                                  l.high + part * (h.high - l.high)};
}

static struct harness_point baseline_ms(const struct harness_results *b,
                                        const struct likeness *like)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct harness_setting *s = &b->settings[i];
        if (is_comparable(like, s) && !s->error && s->batch_size == like->a->batch_size)
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
    const char *only = NULL;
    for (size_t i = 0; i < a->count; i++) {
        const struct harness_setting *s = &a->settings[i];
        bool is_known = i > 0 && strcmp(s->model, a->settings[i - 1].model) == 0;
        struct likeness like = {s, is_known ? only : only_type(b, s->model)};
        only = like.only;
        struct harness_pair *p = &pairs->items[pairs->count++];
        *p = (struct harness_pair){
            .a = s, .ratio = harness_setting_ratio(a, s), .is_baseline = harness_is_baseline(s)};
        p->a_value =
            p->is_baseline ? harness_setting_point(s, HARNESS_TIME) : harness_slowdown(a, s);
        p->b_value = p->is_baseline ? baseline_ms(b, &like) : slowdown_at(b, &like, p->ratio, p);
    }
    return EBB_OK;
}
