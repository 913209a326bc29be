/* sample.c - values of hyperparameters: drawn, on a grid, explored from a parent's.
 *
 * How many draws each value takes is part of the contract: searches are replayed. */
#include "exp/search/search.h"

#include <math.h>

#include "base/int128.h"

static struct exp_value value_node(const struct ebb_doc_node *node)
{
    return (struct exp_value){.kind = EXP_VALUE_NODE, .node = node};
}

static struct exp_value value_int(int64_t integer)
{
    return (struct exp_value){.kind = EXP_VALUE_INT, .integer = integer};
}

static struct exp_value value_double(double number)
{
    return (struct exp_value){.kind = EXP_VALUE_DOUBLE, .number = number};
}

struct exp_value exp_sample_one(const struct exp_hparam *param, struct ebb_mt19937 *rng)
{
    switch (param->kind) {
    case EXP_HPARAM_CONST:
        break;
    case EXP_HPARAM_INT: /* inclusive on both sides; the range fits by contract of the config */
        return value_int(param->int_min +
                         ebb_mt_int64(rng, 0, param->int_max - param->int_min + 1));
    case EXP_HPARAM_DOUBLE:
        return value_double(param->min + (param->max - param->min) * ebb_mt_double(rng));
    case EXP_HPARAM_LOG:
        return value_double(
            pow(param->base, param->min + (param->max - param->min) * ebb_mt_double(rng)));
    case EXP_HPARAM_CATEGORICAL:
        return value_node(param->values[ebb_mt_int64(rng, 0, (int64_t)param->value_count)]);
    }
    return value_node(param->value);
}

void exp_sample(const struct exp_hparams *space, struct ebb_mt19937 *rng, struct exp_value *sample)
{
    for (size_t i = 0; i < space->count; i++)
        sample[i] = exp_sample_one(&space->items[i], rng);
}

/* ---- grid ---- */

uint64_t exp_grid_count(const struct exp_hparam *param)
{
    switch (param->kind) {
    case EXP_HPARAM_CONST:
        return 1;
    case EXP_HPARAM_CATEGORICAL:
        return param->value_count;
    case EXP_HPARAM_INT: {
        uint64_t range = (uint64_t)(param->int_max - param->int_min) + 1;
        return (uint64_t)param->count < range ? (uint64_t)param->count : range;
    }
    case EXP_HPARAM_DOUBLE:
    case EXP_HPARAM_LOG:
        return (uint64_t)param->count;
    }
    return 0;
}

static double grid_double(const struct exp_hparam *param, uint64_t i)
{
    if (param->count == 1)
        return (param->min + param->max) / 2.0;
    return param->min + ((double)i * (param->max - param->min)) / (double)(param->count - 1);
}

static int64_t round_within(double value, int64_t low, int64_t high)
{
    double rounded = round(value); /* half away from zero */
    if (!(rounded > (double)low))
        return low;
    if (rounded >= (double)high)
        return high;
    return (int64_t)rounded;
}

static int64_t grid_int(const struct exp_hparam *param, uint64_t i)
{
    uint64_t count = exp_grid_count(param);
    if (count == 1)
        return round_within(((double)param->int_min + (double)param->int_max) / 2.0, param->int_min,
                            param->int_max);
    ebb_i128 product = (ebb_i128)i * (param->int_max - param->int_min); /* formed before dividing */
    return round_within((double)param->int_min + (double)product / (double)(count - 1),
                        param->int_min, param->int_max);
}

struct exp_value exp_grid_value(const struct exp_hparam *param, uint64_t i)
{
    switch (param->kind) {
    case EXP_HPARAM_CONST:
        break;
    case EXP_HPARAM_INT:
        return value_int(grid_int(param, i));
    case EXP_HPARAM_DOUBLE:
        return value_double(grid_double(param, i));
    case EXP_HPARAM_LOG:
        return value_double(pow(param->base, grid_double(param, i)));
    case EXP_HPARAM_CATEGORICAL:
        return value_node(param->values[i]);
    }
    return value_node(param->value);
}

uint64_t exp_grid_size(const struct exp_hparams *space)
{
    uint64_t size = space->count > 0 ? 1 : 0;
    for (size_t i = 0; i < space->count; i++)
        if (__builtin_mul_overflow(size, exp_grid_count(&space->items[i]), &size))
            size = UINT64_MAX;
    return size;
}

void exp_grid_point(const struct exp_hparams *space, uint64_t point, struct exp_value *sample)
{
    for (size_t i = space->count; i-- > 0;) {
        uint64_t count = exp_grid_count(&space->items[i]);
        sample[i] = exp_grid_value(&space->items[i], point % count);
        point /= count;
    }
}

/* ---- explore ---- */

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t perturb_int(const struct exp_hparam *param, int64_t value, double factor, bool down)
{
    double scaled = (double)value * factor;
    scaled = down ? floor(scaled) : ceil(scaled);
    return round_within(scaled, param->int_min, param->int_max);
}

static struct exp_value perturb(const struct exp_hparam *param, struct exp_value value,
                                double factor, bool down)
{
    switch (param->kind) {
    case EXP_HPARAM_INT:
        return value_int(perturb_int(param, value.integer, factor, down));
    case EXP_HPARAM_DOUBLE:
        return value_double(clamp(value.number * factor, param->min, param->max));
    case EXP_HPARAM_LOG: { /* on the value, not the exponent; a base below 1 turns the bounds */
        double a = pow(param->base, param->min), b = pow(param->base, param->max);
        return value_double(clamp(value.number * factor, a < b ? a : b, a < b ? b : a));
    }
    case EXP_HPARAM_CONST:
    case EXP_HPARAM_CATEGORICAL:
        break;
    }
    return value;
}

void exp_explore(const struct exp_hparams *space, const struct exp_searcher *pbt,
                 struct ebb_mt19937 *rng, const struct exp_value *parent, struct exp_value *child)
{
    for (size_t i = 0; i < space->count; i++) {
        const struct exp_hparam *param = &space->items[i];
        if (ebb_mt_double(rng) < pbt->resample_probability) {
            child[i] = exp_sample_one(param, rng);
            continue;
        }
        bool down = ebb_mt_double(rng) < 0.5; /* drawn for every parameter, const ones too */
        double factor = down ? 1 - pbt->perturb_factor : 1 + pbt->perturb_factor;
        child[i] = perturb(param, parent[i], factor, down);
    }
}

/* ---- as a document ---- */

struct ebb_doc_node *exp_sample_doc(struct ebb_arena *arena, const struct exp_hparams *space,
                                    const struct exp_value *sample)
{
    struct ebb_doc_node *map = ebb_doc_new(arena, EBB_DOC_MAP);
    for (size_t i = 0; map != NULL && i < space->count; i++) {
        const struct ebb_doc_node *value = NULL;
        switch (sample[i].kind) {
        case EXP_VALUE_NODE:
            value = sample[i].node;
            break;
        case EXP_VALUE_INT:
            value = ebb_doc_new_int(arena, sample[i].integer);
            break;
        case EXP_VALUE_DOUBLE:
            value = ebb_doc_new_double(arena, sample[i].number);
            break;
        }
        if (value == NULL || !ebb_doc_set(arena, map, space->items[i].name, value))
            return NULL;
    }
    return map;
}
