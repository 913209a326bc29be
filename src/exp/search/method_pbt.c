/* method_pbt.c - population based training.
 *
 * A population of P places. When every place has reported, a round ends: the worst F trials close,
 * the best F are checkpointed and cloned, all others go on. A clone is drawn at once but created
 * only when its parent's checkpoint is there, so a place may hold a child that has no trial yet. */
#include "exp/search/method.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define NO_PLACE UINT32_MAX
#define EXPLORES 100 /* for a child that is not known to be invalid */

struct place {
    uint32_t trial; /* EXP_NO_TRIAL: a child that waits for its parent's checkpoint */
    uint32_t child; /* place of the child that waits for this trial's checkpoint, or NO_PLACE */
    bool has_reported;
    double metric;
    struct exp_request_id id;    /* of the trial: ties sort by it */
    struct exp_identity waiting; /* of the child that waits */
    uint32_t parent;
    int64_t parent_step;
    struct exp_value *sample; /* slot in `samples` */
};

struct pbt {
    struct place *places;
    size_t count, reported;
    struct exp_value *samples; /* one slot for each place, twice: this round's and the next's */
    size_t side;               /* which half is this round's */
    int64_t rounds;            /* completed */
    uint32_t *place_of;        /* by trial; NO_PLACE = not in the population */
    size_t place_capacity;
};

static struct pbt *state_of(const struct exp_search *s)
{
    return s->state;
}

static enum ebb_status pbt_init(struct exp_search *s, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    size_t population = (size_t)s->config->population_size, slots;
    int64_t steps;
    if (__builtin_mul_overflow(s->config->steps_per_round, s->config->num_rounds, &steps))
        return ebb_fail(err, EBB_ELIMIT, "pbt: %lld rounds of %lld steps",
                        (long long)s->config->num_rounds, (long long)s->config->steps_per_round);
    if (s->config->population_size < 1 || population >= EXP_NO_TRIAL ||
        !ebb_mul_size(population, 2 * (s->space->count + 1), &slots))
        return ebb_fail(err, EBB_ELIMIT, "pbt: population_size %lld",
                        (long long)s->config->population_size);
    p->places = ebb_calloc(population, sizeof *p->places);
    p->samples = ebb_calloc(slots, sizeof *p->samples);
    if (p->places == NULL || p->samples == NULL)
        return ebb_no_memory(err, slots * sizeof *p->samples);
    return EBB_OK;
}

static void pbt_fini(struct exp_search *s)
{
    struct pbt *p = state_of(s);
    ebb_free(p->places);
    ebb_free(p->samples);
    ebb_free(p->place_of);
}

static struct exp_value *slot(const struct exp_search *s, size_t side, size_t index)
{
    struct pbt *p = state_of(s);
    return p->samples + (side * (size_t)s->config->population_size + index) * (s->space->count + 1);
}

static void keep_sample(const struct exp_search *s, struct exp_value *to,
                        const struct exp_value *from)
{
    if (s->space->count > 0)
        memcpy(to, from, s->space->count * sizeof *to);
}

/* The trial now stands at place i. */
static enum ebb_status seat(struct exp_search *s, uint32_t i, uint32_t trial, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    size_t known = p->place_capacity;
    EBB_TRY(
        ebb_grow(&p->place_of, &p->place_capacity, (size_t)trial + 1, sizeof *p->place_of, err));
    for (; known < p->place_capacity; known++)
        p->place_of[known] = NO_PLACE;
    p->place_of[trial] = i;
    p->places[i].trial = trial;
    p->places[i].id = s->trials[trial].id;
    return EBB_OK;
}

static uint32_t place_of(const struct pbt *p, uint32_t trial)
{
    return trial < p->place_capacity ? p->place_of[trial] : NO_PLACE;
}

/* A fresh sample at place i. */
static enum ebb_status add_fresh(struct exp_search *s, uint32_t i, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    struct exp_value *sample = slot(s, p->side, i);
    uint32_t trial;
    EBB_TRY(exp_search_ask_sampled(s, s->config->steps_per_round, &trial, err));
    keep_sample(s, sample, s->scratch);
    p->places[i] = (struct place){.sample = sample, .child = NO_PLACE};
    return seat(s, i, trial, err);
}

static enum ebb_status pbt_start(struct exp_search *s, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    for (int64_t i = 0; i < s->config->population_size; i++) {
        p->count++;
        EBB_TRY(add_fresh(s, (uint32_t)i, err));
    }
    return EBB_OK;
}

/* ---- the end of a round ---- */

static int by_id(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return memcmp(x->id.bytes, y->id.bytes, sizeof x->id.bytes);
}

static int by_metric(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->metric != y->metric)
        return x->metric < y->metric ? -1 : 1;
    return by_id(a, b);
}

/* Close every member, in the order of request ids, and leave the population empty. */
static enum ebb_status disband(struct exp_search *s, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    qsort(p->places, p->count, sizeof *p->places, by_id);
    for (size_t i = 0; i < p->count; i++) {
        p->place_of[p->places[i].trial] = NO_PLACE;
        EBB_TRY(exp_search_ask_close(s, p->places[i].trial, err));
    }
    p->count = p->reported = 0;
    return EBB_OK;
}

static enum ebb_status close_worst(struct exp_search *s, size_t worst, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    for (size_t i = p->count - worst; i < p->count; i++) {
        p->place_of[p->places[i].trial] = NO_PLACE;
        EBB_TRY(exp_search_ask_close(s, p->places[i].trial, err));
    }
    p->count -= worst;
    return EBB_OK;
}

/* Clone the trial at place i into a new place that waits for its checkpoint. */
static enum ebb_status clone(struct exp_search *s, uint32_t i, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    uint32_t parent = p->places[i].trial;
    int64_t step = s->trials[parent].requested;
    if (s->trials[parent].is_exited)
        return EBB_OK; /* nothing to clone; the population shrinks */
    struct place *child = &p->places[p->count];
    *child = (struct place){.trial = EXP_NO_TRIAL,
                            .child = NO_PLACE,
                            .parent = parent,
                            .parent_step = step,
                            .sample = slot(s, p->side, p->count)};
    EBB_TRY(exp_search_ask_checkpoint(s, parent, step, err));
    exp_explore(s->space, s->config, &s->rng, p->places[i].sample, child->sample);
    for (int k = 0; k < EXPLORES && exp_search_is_refused(s, child->sample); k++)
        exp_explore(s->space, s->config, &s->rng, p->places[i].sample, child->sample);
    exp_search_draw_identity(s, &child->waiting);
    p->places[i].child = (uint32_t)p->count++;
    return EBB_OK;
}

/* The survivors take the first places of the next round, in rank order. */
static void move_survivors(struct exp_search *s)
{
    struct pbt *p = state_of(s);
    p->side = 1 - p->side;
    p->reported = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        struct exp_value *sample = slot(s, p->side, i);
        keep_sample(s, sample, p->places[i].sample);
        p->places[i].sample = sample;
        p->places[i].has_reported = false;
        p->places[i].child = NO_PLACE;
        p->place_of[p->places[i].trial] = i;
    }
}

static void mark_reported(struct pbt *p, uint32_t i, double metric)
{
    p->reported += !p->places[i].has_reported;
    p->places[i].has_reported = true;
    p->places[i].metric = metric;
}

static enum ebb_status next_round(struct exp_search *s, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    qsort(p->places, p->count, sizeof *p->places, by_metric);
    size_t exchanged = (size_t)exp_trunc(s->config->truncate_fraction * (double)p->count);
    EBB_TRY(close_worst(s, exchanged, err));
    move_survivors(s);
    uint32_t survivors = (uint32_t)p->count;
    for (uint32_t i = 0; i < exchanged; i++)
        EBB_TRY(clone(s, i, err));
    for (uint32_t i = 0; i < survivors; i++) {
        uint32_t trial = p->places[i].trial;
        if (s->trials[trial].is_exited)
            mark_reported(p, i, DBL_MAX); /* reports the worst again at once */
        else
            EBB_TRY(exp_search_ask_train(
                s, trial, s->trials[trial].requested + s->config->steps_per_round, err));
    }
    return EBB_OK;
}

/* Several rounds at once when every member has exited. */
static enum ebb_status end_rounds(struct exp_search *s, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    while (p->count > 0 && p->reported == p->count) {
        if (++p->rounds >= s->config->num_rounds)
            return disband(s, err);
        EBB_TRY(next_round(s, err));
    }
    return EBB_OK;
}

/* ---- events ---- */

static enum ebb_status pbt_validated(struct exp_search *s, uint32_t trial, int64_t step,
                                     double metric, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    uint32_t i = place_of(p, trial);
    (void)step;
    if (i == NO_PLACE)
        return EBB_OK;
    mark_reported(p, i, metric);
    return end_rounds(s, err);
}

/* Create the child that waits for the checkpoint of the trial at place i. */
static enum ebb_status release_child(struct exp_search *s, uint32_t i, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    uint32_t at = p->places[i].child, trial;
    if (at == NO_PLACE)
        return EBB_OK;
    const struct place *child = &p->places[at];
    struct exp_new_trial new_trial = {.identity = child->waiting,
                                      .sample = child->sample,
                                      .parent = child->parent,
                                      .parent_step = child->parent_step};
    p->places[i].child = NO_PLACE;
    EBB_TRY(exp_search_ask_create(s, &new_trial, &trial, err));
    EBB_TRY(seat(s, at, trial, err));
    return exp_search_ask_train(s, trial, s->config->steps_per_round, err);
}

static enum ebb_status pbt_checkpointed(struct exp_search *s, uint32_t trial, int64_t step,
                                        struct ebb_error *err)
{
    uint32_t i = place_of(state_of(s), trial);
    (void)step;
    return i == NO_PLACE ? EBB_OK : release_child(s, i, err);
}

static enum ebb_status pbt_exited(struct exp_search *s, uint32_t trial, enum exp_exit_reason reason,
                                  bool has_work, struct ebb_error *err)
{
    struct pbt *p = state_of(s);
    uint32_t i = place_of(p, trial);
    (void)has_work;
    if (i == NO_PLACE)
        return EBB_OK;
    EBB_TRY(release_child(s, i, err)); /* from the newest checkpoint there is */
    if (reason == EXP_EXIT_INVALID_HP) {
        p->place_of[trial] = NO_PLACE;
        p->reported -= p->places[i].has_reported;
        return add_fresh(s, i, err);
    }
    mark_reported(p, i, DBL_MAX);
    return end_rounds(s, err);
}

static double pbt_progress(const struct exp_search *s)
{
    const struct exp_searcher *c = s->config;
    double rounds = (double)c->num_rounds, population = (double)c->population_size;
    double exchanged = (double)exp_trunc(c->truncate_fraction * population);
    return (double)s->workloads / (rounds * population * (double)c->steps_per_round +
                                   rounds * population + (rounds - 1) * exchanged);
}

const struct exp_search_method exp_method_pbt = {
    .state_bytes = sizeof(struct pbt),
    .init = pbt_init,
    .fini = pbt_fini,
    .start = pbt_start,
    .validated = pbt_validated,
    .checkpointed = pbt_checkpointed,
    .exited = pbt_exited,
    .progress = pbt_progress,
};
