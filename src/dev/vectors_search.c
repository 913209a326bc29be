/* vectors_search.c - reference cases of generator, samples, grids and searches. */
#include "dev/vectors.h"

#include <stdio.h>
#include <string.h>

#include "exp/exp.h"

/* ---- inputs ---- */

static enum ebb_status read_number(const struct ebb_doc_node *input, const char *key, int64_t most,
                                   int64_t *number, struct ebb_error *err)
{
    const struct ebb_doc_node *node = NULL;
    EBB_TRY(dev_member(input, key, EBB_DOC_INT, &node, err));
    if (node->integer < 0 || node->integer > most)
        return ebb_fail(err, EBB_EINPUT, "%s: %lld", key, (long long)node->integer);
    *number = node->integer;
    return EBB_OK;
}

/* A space alone, read with a searcher that asks nothing of it. */
static enum ebb_status read_space(struct ebb_arena *a, const struct ebb_doc_node *node,
                                  struct exp_hparams *space, struct ebb_error *err)
{
    struct exp_searcher searcher;
    struct ebb_doc_node *plain = dev_map(a);
    dev_set_text(a, plain, "name", "single");
    dev_set_text(a, plain, "metric", "m");
    dev_set_int(a, plain, "max_steps", 1);
    EBB_TRY(ebb_arena_status(a, err));
    return exp_search_parse(a, "search", plain, node, &searcher, space, err);
}

/* ---- generator ---- */

enum ebb_status dev_case_rng(struct ebb_arena *a, const struct ebb_doc_node *input,
                             struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct ebb_mt19937 rng[5]; /* each kind of draw from the beginning */
    int64_t seed = 0, n = 0;
    uint8_t bytes[16];
    char hex[33];
    EBB_TRY(read_number(input, "seed", UINT32_MAX, &seed, err));
    EBB_TRY(read_number(input, "n", 1000000, &n, err));
    struct ebb_doc_node *map = dev_map(a), *bits = dev_items(a), *unit = dev_items(a),
                        *bounded = dev_items(a), *seeds = dev_items(a);
    for (size_t k = 0; k < 5; k++)
        ebb_mt_seed(&rng[k], (uint32_t)seed);
    for (int64_t i = 0; i < n; i++) {
        dev_add_int(a, bits, ebb_mt_u32(&rng[0]));
        dev_add_double(a, unit, ebb_mt_double(&rng[1]));
        dev_add_int(a, bounded, ebb_mt_int64(&rng[2], -10, 10));
        dev_add_int(a, seeds, ebb_mt_int64(&rng[3], 0, INT64_C(1) << 31));
    }
    ebb_mt_bytes(&rng[4], bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    ebb_doc_set(a, map, "bits32", bits);
    ebb_doc_set(a, map, "unit_interval", unit);
    ebb_doc_set(a, map, "int64_minus10_to_10_exclusive", bounded);
    ebb_doc_set(a, map, "trial_seed_draws", seeds);
    dev_set_text(a, map, "first_16_bytes", hex);
    *computed = map;
    return EBB_OK;
}

/* ---- samples ---- */

enum ebb_status dev_case_sampling(struct ebb_arena *a, const struct ebb_doc_node *input,
                                  struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct exp_hparams space = {0};
    struct exp_value *sample = NULL;
    struct ebb_mt19937 rng;
    int64_t seed = 0, n = 0;
    EBB_TRY(read_number(input, "seed", UINT32_MAX, &seed, err));
    EBB_TRY(read_number(input, "n", 1000000, &n, err));
    EBB_TRY(read_space(a, ebb_doc_get(input, "hyperparameters"), &space, err));
    EBB_TRY(dev_array(a, space.count, sizeof *sample, &sample, err));
    *computed = dev_items(a);
    ebb_mt_seed(&rng, (uint32_t)seed);
    for (int64_t i = 0; i < n; i++) {
        exp_sample(&space, &rng, sample);
        ebb_doc_append(a, *computed, exp_sample_doc(a, &space, sample));
    }
    return EBB_OK;
}

enum ebb_status dev_case_grid_values(struct ebb_arena *a, const struct ebb_doc_node *input,
                                     struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct exp_hparams space = {0};
    const struct ebb_doc_node *param = ebb_doc_get(input, "param");
    struct ebb_doc_node *map = dev_map(a);
    if (param == NULL)
        return ebb_fail(err, EBB_EINPUT, "param: missing");
    ebb_doc_set(a, map, "p", param);
    EBB_TRY(ebb_arena_status(a, err));
    EBB_TRY(read_space(a, map, &space, err));
    *computed = dev_items(a);
    uint64_t count = exp_grid_count(&space.items[0]);
    for (uint64_t i = 0; i < count && i < 1000000; i++) {
        struct exp_value value = exp_grid_value(&space.items[0], i);
        const struct ebb_doc_node *sample = exp_sample_doc(a, &space, &value);
        ebb_doc_append(a, *computed, ebb_doc_get(sample, "p"));
    }
    return EBB_OK;
}

enum ebb_status dev_case_grid_product(struct ebb_arena *a, const struct ebb_doc_node *input,
                                      struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct exp_hparams space = {0};
    struct exp_value *sample = NULL;
    EBB_TRY(read_space(a, ebb_doc_get(input, "hyperparameters"), &space, err));
    EBB_TRY(dev_array(a, space.count, sizeof *sample, &sample, err));
    *computed = dev_items(a);
    uint64_t size = exp_grid_size(&space);
    for (uint64_t i = 0; i < size && i < 1000000; i++) {
        exp_grid_point(&space, i, sample);
        ebb_doc_append(a, *computed, exp_sample_doc(a, &space, sample));
    }
    return EBB_OK;
}

static enum ebb_status read_value(const struct exp_hparam *param, const struct ebb_doc_node *node,
                                  struct exp_value *value, struct ebb_error *err)
{
    if (node == NULL)
        return ebb_fail(err, EBB_EINPUT, "old: no value of %s", param->name);
    if (param->kind == EXP_HPARAM_INT && node->kind == EBB_DOC_INT)
        *value = (struct exp_value){.kind = EXP_VALUE_INT, .integer = node->integer};
    else if ((param->kind == EXP_HPARAM_DOUBLE || param->kind == EXP_HPARAM_LOG) &&
             (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE))
        *value = (struct exp_value){.kind = EXP_VALUE_DOUBLE, .number = node->number};
    else if (param->kind == EXP_HPARAM_CONST || param->kind == EXP_HPARAM_CATEGORICAL)
        *value = (struct exp_value){.kind = EXP_VALUE_NODE, .node = node};
    else
        return ebb_fail(err, EBB_EINPUT, "old: %s is %s", param->name,
                        ebb_doc_kind_text(node->kind));
    return EBB_OK;
}

enum ebb_status dev_case_explore(struct ebb_arena *a, const struct ebb_doc_node *input,
                                 struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct exp_hparams space = {0};
    struct exp_searcher pbt = {0};
    struct exp_value *sample = NULL;
    struct ebb_mt19937 rng;
    int64_t seed = 0;
    EBB_TRY(read_number(input, "seed", UINT32_MAX, &seed, err));
    EBB_TRY(exp_search_parse(a, "search", ebb_doc_get(input, "searcher"),
                             ebb_doc_get(input, "hyperparameters"), &pbt, &space, err));
    EBB_TRY(dev_array(a, space.count, sizeof *sample, &sample, err));
    for (size_t i = 0; i < space.count; i++)
        EBB_TRY(read_value(&space.items[i],
                           ebb_doc_get(ebb_doc_get(input, "old"), space.items[i].name), &sample[i],
                           err));
    ebb_mt_seed(&rng, (uint32_t)seed);
    exp_explore(&space, &pbt, &rng, sample, sample);
    *computed = exp_sample_doc(a, &space, sample);
    return EBB_OK;
}

/* ---- whole searches ---- */

enum metric { CONST, INDEX, NEG_INDEX, HASH, IMPROVING, EVEN_ODD, METRICS };
static const char *const metrics[] = {"const", "index",     "neg_index",
                                      "hash",  "improving", "even_odd"};

/* Of trial t after s steps. */
static double metric_of(enum metric metric, int64_t t, int64_t s)
{
    switch (metric) {
    case INDEX:
        return (double)t;
    case NEG_INDEX:
        return -(double)t;
    case HASH:
        return (double)((7919 * t + 104729 * s) % 1009) / 1009;
    case IMPROVING:
        return (double)((7919 * t) % 1009) / 1009 + 1 / (double)s;
    case EVEN_ODD:
        return t % 2 == 0 ? -(double)t : (double)t;
    default:
        return 1;
    }
}

struct search_case {
    struct exp_searcher searcher;
    struct exp_hparams space;
    enum metric metric;
    struct exp_shape shape;
    struct exp_sim sim;
};

static double call_metric(void *context, int64_t t, int64_t s)
{
    return metric_of(((const struct search_case *)context)->metric, t, s);
}

static enum ebb_status run_search(struct ebb_arena *a, const struct ebb_doc_node *input,
                                  struct search_case *c, struct ebb_error *err)
{
    const char *metric = ebb_doc_string(input, "metric_fn", "");
    struct exp_search *search = NULL;
    int64_t seed = 0;
    while (c->metric < METRICS && strcmp(metric, metrics[c->metric]) != 0)
        c->metric++;
    if (c->metric == METRICS)
        return ebb_fail(err, EBB_EINPUT, "metric_fn: '%s' is unknown", metric);
    EBB_TRY(read_number(input, "seed", UINT32_MAX, &seed, err));
    EBB_TRY(exp_search_parse(a, "search", ebb_doc_get(input, "searcher"),
                             ebb_doc_get(input, "hyperparameters"), &c->searcher, &c->space, err));
    EBB_TRY(exp_search_shape(&c->searcher, a, &c->shape, err));
    EBB_TRY(exp_search_create(&c->searcher, &c->space, EXP_FAILURE_FAIL_EXPERIMENT, (uint32_t)seed,
                              &search, err));
    struct exp_sim_options options = {.metric = call_metric,
                                      .context = c,
                                      .wants_hparams = true,
                                      .wants_progress = true,
                                      .max_workloads = 10000000};
    enum ebb_status status = exp_sim_run(search, &c->space, &options, a, &c->sim, err);
    exp_search_destroy(search);
    return status;
}

static void add_totals(struct ebb_arena *a, const struct exp_sim *sim, struct ebb_doc_node *map)
{
    dev_set_int(a, map, "num_trials", (int64_t)sim->trial_count);
    dev_set_int(a, map, "total_steps", sim->total_steps);
    dev_set_int(a, map, "total_validations", sim->total_validations);
}

static struct ebb_doc_node *summary(struct ebb_arena *a, const struct exp_sim *sim)
{
    struct ebb_doc_node *map = dev_map(a);
    for (size_t i = 0; i < sim->trial_count; i++) {
        const char *workloads = sim->trials[i].workloads;
        dev_set_int(a, map, workloads, ebb_doc_int(map, workloads, 0) + 1);
    }
    return map;
}

/* Quarter points of all workloads. A pair whose expected progress is null is not compared: the null
 * is repeated. Cases with very few workloads may name a point once. */
static struct ebb_doc_node *progress(struct ebb_arena *a, const struct exp_sim *sim,
                                     const struct ebb_doc_node *expected)
{
    struct ebb_doc_node *list = dev_items(a);
    int64_t points[4], total = (int64_t)sim->workload_count;
    bool is_short = expected != NULL && expected->kind == EBB_DOC_LIST && expected->count < 4;
    for (int64_t k = 0; k < 4 && total > 0; k++) {
        points[k] = (total * (k + 1) + 3) / 4;
        if (k > 0 && points[k] == points[k - 1] && is_short)
            continue;
        const struct ebb_doc_node *pair =
            expected != NULL && list->count < expected->count ? expected->items[list->count] : NULL;
        bool is_null = pair != NULL && pair->kind == EBB_DOC_LIST && pair->count == 2 &&
                       pair->items[1]->kind == EBB_DOC_NULL;
        struct ebb_doc_node *made = dev_items(a);
        dev_add_int(a, made, points[k]);
        ebb_doc_append(a, made,
                       is_null ? ebb_doc_new(a, EBB_DOC_NULL)
                               : ebb_doc_new_double(a, sim->progress[points[k] - 1]));
        ebb_doc_append(a, list, made);
    }
    return list;
}

static struct ebb_doc_node *brackets(struct ebb_arena *a, const struct exp_shape *shape)
{
    struct ebb_doc_node *list = dev_items(a);
    for (size_t i = 0; i < shape->count; i++) {
        const struct exp_bracket_shape *bracket = &shape->brackets[i];
        struct ebb_doc_node *map = dev_map(a), *rungs = dev_items(a);
        dev_set_int(a, map, "num_rungs", (int64_t)bracket->rung_count);
        dev_set_int(a, map, "expected_workloads", bracket->expected_workloads);
        for (size_t r = 0; r < bracket->rung_count; r++) {
            struct ebb_doc_node *rung = dev_map(a);
            dev_set_int(a, rung, "steps_needed", bracket->rungs[r].steps);
            dev_set_int(a, rung, "start_trials", bracket->rungs[r].start);
            dev_set_int(a, rung, "promote_trials", bracket->rungs[r].promote);
            ebb_doc_append(a, rungs, rung);
        }
        ebb_doc_set(a, map, "rungs", rungs);
        ebb_doc_append(a, list, map);
    }
    return list;
}

static struct ebb_doc_node *trial_node(struct ebb_arena *a, const struct exp_sim_trial *t,
                                       size_t index)
{
    char id[EXP_REQUEST_TEXT];
    struct ebb_doc_node *map = dev_map(a);
    dev_set_int(a, map, "index", (int64_t)index + 1);
    dev_set_text(a, map, "request_id", exp_request_format(t->request, id));
    dev_set_int(a, map, "trial_seed", t->trial_seed);
    ebb_doc_set(a, map, "hparams", t->hparams);
    dev_set_text(a, map, "workloads", t->workloads);
    dev_set_bool(a, map, "closed", t->is_closed);
    if (t->from_trial > 0) {
        dev_set_int(a, map, "from_trial", t->from_trial);
        dev_set_int(a, map, "from_step", t->from_step);
    }
    return map;
}

enum ebb_status dev_case_search(struct ebb_arena *a, const struct ebb_doc_node *input,
                                struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct search_case c = {0};
    EBB_TRY(run_search(a, input, &c, err));
    struct ebb_doc_node *map = dev_map(a), *trials = dev_items(a);
    add_totals(a, &c.sim, map);
    dev_set_int(a, map, "total_checkpoints", c.sim.total_checkpoints);
    dev_set_int(a, map, "initial_operations", c.sim.initial_operations);
    ebb_doc_set(a, map, "summary", summary(a, &c.sim));
    ebb_doc_set(a, map, "progress",
                progress(a, &c.sim, ebb_doc_get(ebb_doc_get(input, "expected"), "progress")));
    dev_set_bool(a, map, "shutdown", c.sim.is_shut_down);
    if (c.shape.count > 0)
        ebb_doc_set(a, map, "brackets", brackets(a, &c.shape));
    for (size_t i = 0; i < c.sim.trial_count; i++)
        ebb_doc_append(a, trials, trial_node(a, &c.sim.trials[i], i));
    ebb_doc_set(a, map, "trials", trials);
    *computed = map;
    return EBB_OK;
}

enum ebb_status dev_case_asha(struct ebb_arena *a, const struct ebb_doc_node *input,
                              struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct search_case c = {0};
    bool all_closed = true;
    EBB_TRY(run_search(a, input, &c, err));
    struct ebb_doc_node *map = dev_map(a), *shape = dev_items(a), *trials = dev_items(a);
    for (size_t i = 0; i < c.shape.count; i++) {
        struct ebb_doc_node *bracket = dev_map(a), *rungs = dev_items(a);
        for (size_t r = 0; r < c.shape.brackets[i].rung_count; r++)
            dev_add_int(a, rungs, c.shape.brackets[i].rungs[r].steps);
        ebb_doc_set(a, bracket, "rung_steps", rungs);
        dev_set_int(a, bracket, "max_trials", c.shape.brackets[i].max_trials);
        dev_set_int(a, bracket, "initial_trials", c.shape.brackets[i].initial_trials);
        ebb_doc_append(a, shape, bracket);
    }
    for (size_t i = 0; i < c.sim.trial_count; i++) {
        struct ebb_doc_node *trial = dev_map(a);
        dev_set_int(a, trial, "index", (int64_t)i + 1);
        dev_set_int(a, trial, "trial_seed", c.sim.trials[i].trial_seed);
        dev_set_text(a, trial, "validated_at", c.sim.trials[i].validated_at);
        ebb_doc_append(a, trials, trial);
        all_closed &= c.sim.trials[i].is_closed;
    }
    add_totals(a, &c.sim, map);
    ebb_doc_set(a, map, "brackets", shape);
    ebb_doc_set(a, map, "trials", trials);
    dev_set_bool(a, map, "all_closed", all_closed);
    ebb_doc_set(a, map, "final_progress", ebb_doc_new_double(a, c.sim.final_progress));
    *computed = map;
    return EBB_OK;
}
