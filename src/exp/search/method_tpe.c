/* method_tpe.c - tree-structured Parzen estimator (Bergstra et al. 2011), one parameter at a time.
 *
 * Trials run a few at a time to the full length. Each new sample: order the results, call the best
 * gamma of them good, and take for every parameter that of `candidates` draws from the good ones'
 * density l(x) with the largest l(x)/g(x), g being the others' density. Densities are mixtures: one
 * kernel for each observation plus the prior, which keeps every value possible.
 *
 * At most GOOD_MAX good and OTHER_MAX other observations enter a density (the others evenly spread
 * over their ranking), so that a choice costs the same after a hundred thousand trials as after a
 * hundred. */
#include "exp/search/method.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define GOOD_MAX 25
#define OTHER_MAX 40
#define AT_ONCE 10 /* trials running when max_concurrent_trials is 0 */

struct tpe {
    struct exp_ranks ranks;    /* results by trial */
    struct exp_value *samples; /* by trial, space->count each */
    size_t sample_capacity;
    int64_t created; /* that count in max_trials */
};

static struct tpe *state_of(const struct exp_search *s)
{
    return s->state;
}

static void tpe_fini(struct exp_search *s)
{
    exp_ranks_fini(&state_of(s)->ranks);
    ebb_free(state_of(s)->samples);
}

/* ---- densities ---- */

struct kernel {
    double mean, width, height; /* height: of its peak */
};

/* A mixture over [low, high]: `count` normal kernels cut off at the ends, and the uniform prior. */
struct density {
    struct kernel kernels[GOOD_MAX > OTHER_MAX ? GOOD_MAX : OTHER_MAX];
    size_t count;
    double low, high;
};

static int by_mean(const void *a, const void *b)
{
    double x = ((const struct kernel *)a)->mean, y = ((const struct kernel *)b)->mean;
    return (x > y) - (x < y);
}

/* Each kernel is as wide as the larger gap to a neighbour, within limits that shrink with the
 * count. */
static void set_widths(struct density *d)
{
    double range = d->high - d->low;
    double least = range / (d->count + 1 < 100 ? (double)(d->count + 1) : 100.0);
    qsort(d->kernels, d->count, sizeof *d->kernels, by_mean);
    for (size_t i = 0; i < d->count; i++) {
        double left = i > 0 ? d->kernels[i - 1].mean : d->low;
        double right = i + 1 < d->count ? d->kernels[i + 1].mean : d->high;
        double width = fmax(d->kernels[i].mean - left, right - d->kernels[i].mean);
        d->kernels[i].width = fmin(fmax(width, least), range);
        d->kernels[i].height = 0.3989422804014327 / d->kernels[i].width; /* 1 / sqrt(2 pi) */
    }
}

static double log_density(const struct density *d, double x)
{
    double sum = 1.0 / (d->high - d->low); /* the prior */
    for (size_t i = 0; i < d->count; i++) {
        double z = (x - d->kernels[i].mean) / d->kernels[i].width;
        if (fabs(z) < 6) /* beyond, it is 1e-8 of its peak: nothing beside the prior */
            sum += d->kernels[i].height * exp(-0.5 * z * z);
    }
    return log(sum / (double)(d->count + 1));
}

/* One draw: a component at random, then within it; what falls outside is drawn again, then cut. */
static double draw(const struct density *d, struct ebb_mt19937 *rng)
{
    size_t pick = (size_t)ebb_mt_int64(rng, 0, (int64_t)d->count + 1);
    if (pick == d->count)
        return d->low + (d->high - d->low) * ebb_mt_double(rng);
    double x = d->kernels[pick].mean;
    for (int tries = 0; tries < 8; tries++) { /* Box and Muller */
        double radius = sqrt(-2.0 * log(1.0 - ebb_mt_double(rng)));
        x = d->kernels[pick].mean +
            d->kernels[pick].width * radius * cos(6.283185307179586 * ebb_mt_double(rng));
        if (x >= d->low && x <= d->high)
            return x;
    }
    return fmin(fmax(x, d->low), d->high);
}

/* ---- observations ---- */

/* Trials whose samples make a density. */
struct chosen {
    uint32_t trials[GOOD_MAX > OTHER_MAX ? GOOD_MAX : OTHER_MAX];
    size_t count;
};

static void split(const struct exp_search *s, struct chosen *good, struct chosen *other)
{
    const struct exp_ranks *ranks = &state_of(s)->ranks;
    double share = ceil(s->config->gamma * (double)ranks->count);
    size_t border = share > GOOD_MAX ? GOOD_MAX : share < 1 ? 1 : (size_t)share;
    size_t rest = ranks->count - border;
    good->count = border;
    other->count = rest < OTHER_MAX ? rest : OTHER_MAX;
    struct exp_rank_walk walk = exp_ranks_from(ranks, 0);
    struct exp_rank entry = {0};
    for (size_t i = 0; i < border && exp_ranks_next(&walk, &entry); i++)
        good->trials[i] = entry.trial;
    for (size_t i = 0, next = 0; i < other->count; i++) {
        size_t at = i * rest / other->count;
        exp_ranks_skip(&walk, at - next);
        exp_ranks_next(&walk, &entry);
        other->trials[i] = entry.trial;
        next = at + 1;
    }
}

static const struct exp_value *value_of(const struct exp_search *s, uint32_t trial, size_t param)
{
    return &state_of(s)->samples[(size_t)trial * s->space->count + param];
}

/* ---- numbers: int on [min-1/2, max+1/2], double as is, log on the exponent ---- */

static double to_scale(const struct exp_hparam *param, const struct exp_value *value)
{
    if (param->kind == EXP_HPARAM_INT)
        return (double)value->integer;
    if (param->kind == EXP_HPARAM_LOG) { /* base 1 or an underflow give no exponent: the middle */
        double x = log(value->number) / log(param->base);
        return isfinite(x) ? x : (param->min + param->max) / 2;
    }
    return value->number;
}

static struct exp_value from_scale(const struct exp_hparam *param, double x)
{
    if (param->kind == EXP_HPARAM_LOG)
        return (struct exp_value){.kind = EXP_VALUE_DOUBLE, .number = pow(param->base, x)};
    if (param->kind == EXP_HPARAM_DOUBLE)
        return (struct exp_value){.kind = EXP_VALUE_DOUBLE, .number = x};
    double rounded = round(x);
    int64_t integer = rounded <= (double)param->int_min   ? param->int_min
                      : rounded >= (double)param->int_max ? param->int_max
                                                          : (int64_t)rounded;
    return (struct exp_value){.kind = EXP_VALUE_INT, .integer = integer};
}

static void make_density(const struct exp_search *s, size_t index, const struct chosen *chosen,
                         struct density *d)
{
    const struct exp_hparam *param = &s->space->items[index];
    bool is_int = param->kind == EXP_HPARAM_INT;
    d->low = is_int ? (double)param->int_min - 0.5 : param->min;
    d->high = is_int ? (double)param->int_max + 0.5 : param->max;
    d->count = chosen->count;
    for (size_t i = 0; i < d->count; i++)
        d->kernels[i].mean = to_scale(param, value_of(s, chosen->trials[i], index));
    set_widths(d);
}

static struct exp_value choose_number(struct exp_search *s, size_t index, const struct chosen *good,
                                      const struct chosen *other)
{
    struct density l, g;
    double best = 0, best_score = -DBL_MAX;
    make_density(s, index, good, &l);
    make_density(s, index, other, &g);
    for (int64_t i = 0; i < s->config->candidates; i++) {
        double x = draw(&l, &s->rng);
        double score = log_density(&l, x) - log_density(&g, x);
        if (i == 0 || score > best_score) {
            best = x;
            best_score = score;
        }
    }
    return from_scale(&s->space->items[index], best);
}

/* ---- categories: counts plus one ---- */

static size_t count_category(const struct exp_search *s, size_t index, const struct chosen *chosen,
                             const struct ebb_doc_node *value)
{
    size_t n = 1;
    for (size_t i = 0; i < chosen->count; i++)
        n += value_of(s, chosen->trials[i], index)->node == value;
    return n;
}

/* A category drawn with the good ones' weights: a uniform one (prior) or that of a good trial. */
static const struct ebb_doc_node *draw_category(struct exp_search *s, size_t index,
                                                const struct chosen *good)
{
    const struct exp_hparam *param = &s->space->items[index];
    size_t n = param->value_count;
    size_t pick = (size_t)ebb_mt_int64(&s->rng, 0, (int64_t)(n + good->count));
    return pick < n ? param->values[pick] : value_of(s, good->trials[pick - n], index)->node;
}

static struct exp_value choose_category(struct exp_search *s, size_t index,
                                        const struct chosen *good, const struct chosen *other)
{
    const struct ebb_doc_node *best = NULL;
    double best_score = -1;
    for (int64_t i = 0; i < s->config->candidates; i++) {
        const struct ebb_doc_node *value = draw_category(s, index, good);
        double score = (double)count_category(s, index, good, value) /
                       (double)count_category(s, index, other, value);
        if (score > best_score) {
            best = value;
            best_score = score;
        }
    }
    return (struct exp_value){.kind = EXP_VALUE_NODE, .node = best};
}

/* ---- the search ---- */

static void choose_sample(struct exp_search *s, struct exp_value *sample)
{
    struct chosen good, other;
    if ((int64_t)state_of(s)->ranks.count < s->config->startup_trials) {
        exp_sample(s->space, &s->rng, sample);
        return;
    }
    split(s, &good, &other);
    for (size_t i = 0; i < s->space->count; i++) {
        const struct exp_hparam *param = &s->space->items[i];
        if (param->kind == EXP_HPARAM_CONST)
            sample[i] = exp_sample_one(param, &s->rng);
        else if (param->kind == EXP_HPARAM_CATEGORICAL)
            sample[i] = choose_category(s, i, &good, &other);
        else
            sample[i] = choose_number(s, i, &good, &other);
    }
}

static enum ebb_status add_trial(struct exp_search *s, struct ebb_error *err)
{
    struct tpe *t = state_of(s);
    struct exp_new_trial new_trial = {.sample = s->scratch, .parent = EXP_NO_TRIAL};
    size_t params = s->space->count;
    uint32_t trial;
    choose_sample(s, s->scratch);
    for (int i = 0; i < EXP_DRAWS_MAX && exp_search_is_refused(s, s->scratch); i++)
        exp_sample(s->space, &s->rng, s->scratch);
    exp_search_draw_identity(s, &new_trial.identity);
    EBB_TRY(exp_search_ask_create(s, &new_trial, &trial, err));
    if (params > 0) {
        EBB_TRY(ebb_grow(&t->samples, &t->sample_capacity, ((size_t)trial + 1) * params,
                         sizeof *t->samples, err));
        memcpy(t->samples + (size_t)trial * params, s->scratch, params * sizeof *t->samples);
    }
    t->created++;
    EBB_TRY(exp_search_ask_train(s, trial, s->config->max_steps, err));
    return exp_search_ask_close(s, trial, err);
}

static enum ebb_status tpe_start(struct exp_search *s, struct ebb_error *err)
{
    int64_t at_once =
        s->config->max_concurrent_trials > 0 ? s->config->max_concurrent_trials : AT_ONCE;
    for (int64_t i = 0; i < at_once && i < s->config->max_trials; i++)
        EBB_TRY(add_trial(s, err));
    return EBB_OK;
}

static enum ebb_status tpe_validated(struct exp_search *s, uint32_t trial, int64_t step,
                                     double metric, struct ebb_error *err)
{
    size_t index;
    (void)step;
    EBB_TRY(exp_ranks_insert(&state_of(s)->ranks, (struct exp_rank){metric, trial},
                             EXP_AFTER_EQUALS, &index, err));
    return state_of(s)->created < s->config->max_trials ? add_trial(s, err) : EBB_OK;
}

static enum ebb_status tpe_exited(struct exp_search *s, uint32_t trial, enum exp_exit_reason reason,
                                  bool has_work, struct ebb_error *err)
{
    if (!has_work)
        return EBB_OK; /* it had reported */
    if (reason == EXP_EXIT_INVALID_HP) {
        s->trials[trial].is_replaced = true;
        state_of(s)->created--;
        return add_trial(s, err);
    }
    return tpe_validated(s, trial, 0, DBL_MAX, err);
}

static double tpe_progress(const struct exp_search *s)
{
    return (double)s->workloads /
           (((double)s->config->max_steps + 1) * (double)s->config->max_trials);
}

const struct exp_search_method exp_method_tpe = {
    .limits_itself = true,
    .state_bytes = sizeof(struct tpe),
    .fini = tpe_fini,
    .start = tpe_start,
    .validated = tpe_validated,
    .exited = tpe_exited,
    .progress = tpe_progress,
};
