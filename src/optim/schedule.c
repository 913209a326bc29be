/* schedule.c - learning rates as functions of the number of steps taken.
 *
 * One row per schedule: name, arguments, rate. `b` is the base rate, t counts from 0 (the schedule
 * whose own count starts at 1 adds it). */
#include "optim/schedule.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/heap.h"
#include "base/str.h"

/* ---- torch's closed forms ------------------------------------------------------------------- */

static double step_rate(const struct optim_schedule *s, double t)
{
    return s->base * pow(s->a.gamma, floor(t / (double)s->a.step_size));
}

static double multistep_rate(const struct optim_schedule *s, double t)
{
    double n = 0;
    for (size_t i = 0; i < s->a.milestone_count; i++)
        n += (double)s->a.milestones[i] <= t;
    return s->base * pow(s->a.gamma, n);
}

static double exponential_rate(const struct optim_schedule *s, double t)
{
    return s->base * pow(s->a.gamma, t);
}

static double cosine_rate(const struct optim_schedule *s, double t)
{
    return optim_cosine(s->a.eta_min, s->base, t / (double)s->a.T_max);
}

static double restarts_rate(const struct optim_schedule *s, double t)
{
    double period = (double)s->a.T_0;
    if (s->a.T_mult == 1) {
        t = fmod(t, period);
    } else {
        while (t >= period) {
            t -= period;
            period *= (double)s->a.T_mult;
        }
    }
    return optim_cosine(s->a.eta_min, s->base, t / period);
}

static double linear_rate(const struct optim_schedule *s, double t)
{
    double n = (double)s->a.total_iters, part = n > 0 ? fmin(t, n) / n : 1;
    return s->base * (s->a.start_factor + (s->a.end_factor - s->a.start_factor) * part);
}

static double constant_rate(const struct optim_schedule *s, double t)
{
    return t < (double)s->a.total_iters ? s->base * s->a.factor : s->base;
}

static double polynomial_rate(const struct optim_schedule *s, double t)
{
    double n = (double)s->a.total_iters;
    return s->base * pow(n > 0 ? 1 - fmin(t, n) / n : 0, s->a.power);
}

/* ---- one cycle ------------------------------------------------------------------------------ */

static void onecycle_prepare(struct optim_schedule *s, const struct optim_place *place)
{
    struct optim_schedule_args *a = &s->a;
    bool is_endless = (double)a->epochs * (double)a->steps_per_epoch > MAX_STEPS;
    if (a->total_steps == 0 && is_endless) {
        ebb_reading_error(place->reading, place->path, place->map,
                          "OneCycleLR: epochs %" PRId64 " times steps_per_epoch %" PRId64
                          " are more than %g steps",
                          a->epochs, a->steps_per_epoch, MAX_STEPS);
        return;
    }
    if (a->total_steps == 0)
        a->total_steps = a->epochs * a->steps_per_epoch;
    if (a->total_steps < 1)
        ebb_reading_error(place->reading, place->path, place->map,
                          "OneCycleLR: total_steps, or epochs and steps_per_epoch, are required");
}

/* Piecewise from v[k] to v[k+1], phases ending at end[k]. */
static double phases(const struct optim_schedule *s, double t, const double *end, const double *v,
                     int count)
{
    double start = 0;
    int k = 0;
    while (k < count - 1 && t > end[k])
        start = end[k++];
    double part = end[k] > start ? (t - start) / (end[k] - start) : 1;
    if (s->a.anneal == OPTIM_ANNEAL_LINEAR)
        return (v[k + 1] - v[k]) * part + v[k];
    return v[k + 1] + (v[k] - v[k + 1]) / 2 * (1 + cos(M_PI * part));
}

static double onecycle(const struct optim_schedule *s, double t, double from, double peak,
                       double middle, double last)
{
    double n = (double)s->a.total_steps, first = s->a.pct_start * n - 1;
    if (s->a.three_phase) {
        double end[3] = {first, 2 * s->a.pct_start * n - 2, n - 1};
        double v[4] = {from, peak, middle, last};
        return phases(s, t, end, v, 3);
    }
    double end[2] = {first, n - 1}, v[3] = {from, peak, last};
    return phases(s, t, end, v, 2);
}

static double onecycle_rate(const struct optim_schedule *s, double t)
{
    double initial = s->a.max_lr / s->a.div_factor;
    return onecycle(s, t, initial, s->a.max_lr, initial, initial / s->a.final_div_factor);
}

static double onecycle_momentum(const struct optim_schedule *s, double t)
{
    double high = s->a.max_momentum, low = s->a.base_momentum;
    return s->a.cycle_momentum ? onecycle(s, t, high, low, high, high) : NAN;
}

/* ---- cyclic --------------------------------------------------------------------------------- */

static void cyclic_prepare(struct optim_schedule *s, const struct optim_place *place)
{
    (void)place;
    if (s->a.step_size_down == 0)
        s->a.step_size_down = s->a.step_size_up;
}

static double cyclic_scale(const struct optim_schedule *s, double t)
{
    double up = (double)s->a.step_size_up, length = up + (double)s->a.step_size_down;
    double cycle = floor(1 + t / length), x = 1 + t / length - cycle, r = up / length;
    double scale = x <= r ? x / r : (x - 1) / (r - 1);
    double k = s->a.cycle == OPTIM_TRIANGULAR    ? 1
               : s->a.cycle == OPTIM_TRIANGULAR2 ? pow(2, -(cycle - 1))
                                                 : pow(s->a.gamma, t);
    return scale * k;
}

static double cyclic_rate(const struct optim_schedule *s, double t)
{
    return s->a.base_lr + (s->a.max_lr - s->a.base_lr) * cyclic_scale(s, t);
}

static double cyclic_momentum(const struct optim_schedule *s, double t)
{
    if (!s->a.cycle_momentum)
        return NAN;
    return s->a.max_momentum - (s->a.max_momentum - s->a.base_momentum) * cyclic_scale(s, t);
}

/* ---- plateau -------------------------------------------------------------------------------- */

static void plateau_prepare(struct optim_schedule *s, const struct optim_place *place)
{
    (void)place;
    s->rate = s->base;
    s->best = s->a.metric == OPTIM_METRIC_MAX ? -INFINITY : INFINITY;
}

static double plateau_rate(const struct optim_schedule *s, double t)
{
    (void)t;
    return s->rate;
}

static bool is_better(const struct optim_schedule *s, double metric)
{
    double th = s->a.threshold;
    bool is_apart = s->a.threshold_kind == OPTIM_THRESHOLD_ABS;
    if (s->a.metric == OPTIM_METRIC_MAX)
        return metric > (is_apart ? s->best + th : s->best * (1 + th));
    return metric < (is_apart ? s->best - th : s->best * (1 - th));
}

void optim_schedule_metric(struct optim_schedule *s, double metric)
{
    if (s->row->rate != plateau_rate)
        return;
    if (is_better(s, metric)) { /* never by a metric that is no number */
        s->best = metric;
        s->bad = 0;
    } else {
        s->bad++;
    }
    if (s->cooling > 0) {
        s->cooling--;
        s->bad = 0;
    }
    if (s->bad > s->a.patience) {
        double next = fmax(s->rate * s->a.factor, s->a.min_lr);
        if (s->rate - next > s->a.eps)
            s->rate = next;
        s->cooling = s->a.cooldown;
        s->bad = 0;
    }
}

/* ---- composition ---------------------------------------------------------------------------- */

/* The part that step t belongs to; *t becomes its own count. */
static const struct optim_schedule *active_part(const struct optim_schedule *s, double *t)
{
    size_t k = 0;
    while (k < s->a.milestone_count && *t >= (double)s->a.milestones[k])
        k++;
    *t -= k ? (double)s->a.milestones[k - 1] : 0;
    return s->parts[k];
}

static double sequential_rate(const struct optim_schedule *s, double t)
{
    const struct optim_schedule *part = active_part(s, &t);
    return part->row->rate(part, t);
}

static double sequential_momentum(const struct optim_schedule *s, double t)
{
    const struct optim_schedule *part = active_part(s, &t);
    return part->row->momentum ? part->row->momentum(part, t) : NAN;
}

/* Cosine, by its step from t - 1: towards eta_min, whatever the others made of the rate. */
static double cosine_step(const struct optim_schedule *s, double rate, double t)
{
    double period = (double)s->a.T_max, low = s->a.eta_min;
    if (fmod(t - 1 - period, 2 * period) == 0) /* at the bottom there is no ratio */
        return rate + (s->base - low) * (1 - cos(M_PI / period)) / 2;
    return (1 + cos(M_PI * t / period)) / (1 + cos(M_PI * (t - 1) / period)) * (rate - low) + low;
}

/* These set the rate, they do not change it. */
static bool is_absolute(const struct optim_schedule *s)
{
    return s->row->rate == restarts_rate || s->row->rate == onecycle_rate ||
           s->row->rate == cyclic_rate;
}

static double chained_step(const struct optim_schedule *part, double rate, double t)
{
    if (is_absolute(part))
        return part->row->rate(part, t);
    if (part->row->rate == cosine_rate)
        return t > 0 ? cosine_step(part, rate, t) : rate;
    double before = t > 0 ? part->row->rate(part, t - 1) : part->base;
    return before != 0 ? rate * (part->row->rate(part, t) / before) : rate;
}

/* Each part in turn changes what is there. Where that is a factor only, the factors of all steps
 * are multiplied at once. */
static double chained_rate(const struct optim_schedule *s, double t)
{
    double rate = s->base;
    bool is_product = true;
    for (size_t i = 0; i < s->part_count; i++) {
        const struct optim_schedule *part = s->parts[i];
        is_product &= !is_absolute(part) && (part->row->rate != cosine_rate ||
                                             (part->a.eta_min == 0 && t <= (double)part->a.T_max));
    }
    for (size_t i = 0; is_product && i < s->part_count; i++)
        rate *= s->parts[i]->row->rate(s->parts[i], t) / s->base;
    for (size_t u = 0; !is_product && (double)u <= t; u++)
        for (size_t i = 0; i < s->part_count; i++)
            rate = chained_step(s->parts[i], rate, (double)u);
    return rate;
}

/* The last part that has a momentum sets it. */
static double chained_momentum(const struct optim_schedule *s, double t)
{
    double momentum = NAN;
    for (size_t i = 0; i < s->part_count; i++) {
        const struct optim_schedule *part = s->parts[i];
        double m = part->row->momentum ? part->row->momentum(part, t) : NAN;
        momentum = isnan(m) ? momentum : m;
    }
    return momentum;
}

/* One of the schedules: {name: N, args: {...}}, or {name: N, ...} with the arguments beside it. */
static struct optim_schedule *read_part(const struct optim_schedule *s,
                                        const struct optim_place *place,
                                        const struct ebb_doc_node *part)
{
    const struct ebb_doc_node *args = ebb_doc_get(part, "args");
    const char *name = ebb_doc_string(part, "scheduler", ebb_doc_string(part, "name", NULL));
    if (part->kind != EBB_DOC_MAP || !name) {
        ebb_reading_refuse(place->reading, place->path, part, "a mapping with a name");
        return NULL;
    }
    if (strcasecmp(name, "ReduceLROnPlateau") == 0) {
        ebb_reading_error(place->reading, place->path, part,
                          "ReduceLROnPlateau looks at metrics, not at steps: it cannot be a part");
        return NULL;
    }
    for (size_t i = 0; args && i < part->count; i++) {
        const struct ebb_doc_node *key = part->keys[i];
        struct ebb_path at = ebb_path_key(place->path, key);
        if (!ebb_words_find("name scheduler args", key->text, key->length, NULL))
            ebb_reading_error(place->reading, &at, key, "stands beside args, not in it");
    }
    struct ebb_path inside = {.up = place->path, .key = "args"};
    return optim_schedule_read(place->reading, args ? &inside : place->path, name,
                               args ? args : part, args ? NULL : "name scheduler", s->base);
}

static void parts_prepare(struct optim_schedule *s, const struct optim_place *place)
{
    struct ebb_path list = {.up = place->path, .key = "schedulers"};
    for (size_t i = 0; i < s->a.scheduler_count; i++) {
        struct ebb_path at = {.up = &list, .index = i};
        struct optim_place inside = {.reading = place->reading, .path = &at};
        s->parts[i] = read_part(s, &inside, s->a.schedulers[i]);
    }
    s->part_count = s->a.scheduler_count;
}

static void sequential_prepare(struct optim_schedule *s, const struct optim_place *place)
{
    parts_prepare(s, place);
    if (s->a.milestone_count + 1 != s->part_count)
        ebb_reading_error(place->reading, place->path, place->map,
                          "SequentialLR: %zu schedules need %zu milestones, found %zu",
                          s->part_count, s->part_count - 1, s->a.milestone_count);
}

/* ---- the table ------------------------------------------------------------------------------ */

#define AT(member) .at = offsetof(struct optim_schedule_args, member)
#define NUM(member) .path = #member, .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, AT(member)
#define MUST_NUM(member)                                                                           \
    .path = #member, .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE | EBB_KEY_REQUIRED, AT(member)
#define STEPS ", <= 1000000000000000" /* MAX_STEPS */
#define POS(member) .path = #member, .kind = EBB_KEY_INT, .bounds = "> 0" STEPS, AT(member)
#define MUST_POS(member) POS(member), .flags = EBB_KEY_REQUIRED
#define NAT(member) .path = #member, .kind = EBB_KEY_INT, .bounds = ">= 0" STEPS, AT(member)
#define YES(member) .path = #member, .kind = EBB_KEY_BOOL, AT(member)
#define WORD(name, member, list)                                                                   \
    .path = (name), .kind = EBB_KEY_WORD, .flags = EBB_KEY_ANY_CASE, .words = (list), AT(member)
#define ABOVE_ZERO(member)                                                                         \
    .path = #member, .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, .bounds = "> 0", AT(member)
#define MILESTONES                                                                                 \
    .path = "milestones", .kind = EBB_KEY_INTS, .flags = EBB_KEY_REQUIRED | EBB_KEY_EMPTY,         \
    .room = MAX_POINTS, AT(milestones),                                                            \
    .count_at = offsetof(struct optim_schedule_args, milestone_count)
#define SCHEDULERS                                                                                 \
    .path = "schedulers", .kind = EBB_KEY_NODES, .flags = EBB_KEY_REQUIRED, .room = MAX_PARTS,     \
    AT(schedulers), .count_at = offsetof(struct optim_schedule_args, scheduler_count)
#define ROWS(name, ...) static const struct ebb_key name[] = {__VA_ARGS__}

ROWS(step_keys, {MUST_POS(step_size)}, {NUM(gamma)});
ROWS(multistep_keys, {MILESTONES}, {NUM(gamma)});
ROWS(exponential_keys, {MUST_NUM(gamma)});
ROWS(cosine_keys, {MUST_POS(T_max)}, {NUM(eta_min)});
ROWS(restarts_keys, {MUST_POS(T_0)}, {POS(T_mult)}, {NUM(eta_min)});
ROWS(linear_keys, {NUM(start_factor)}, {NUM(end_factor)}, {NAT(total_iters)});
ROWS(constant_keys, {NUM(factor)}, {NAT(total_iters)});
ROWS(polynomial_keys, {NAT(total_iters)}, {NUM(power)});
ROWS(onecycle_keys, {MUST_NUM(max_lr)}, {POS(total_steps)}, {POS(epochs)}, {POS(steps_per_epoch)},
     {NUM(pct_start), .bounds = ">= 0, <= 1"}, {WORD("anneal_strategy", anneal, "cos linear")},
     {YES(cycle_momentum)}, {NUM(base_momentum)}, {NUM(max_momentum)}, {ABOVE_ZERO(div_factor)},
     {ABOVE_ZERO(final_div_factor)}, {YES(three_phase)});
ROWS(cyclic_keys, {NUM(base_lr)}, {MUST_NUM(max_lr)}, {POS(step_size_up)}, {POS(step_size_down)},
     {WORD("mode", cycle, "triangular triangular2 exp_range")}, {NUM(gamma)}, {YES(cycle_momentum)},
     {NUM(base_momentum)}, {NUM(max_momentum)});
ROWS(plateau_keys, {WORD("mode", metric, "min max")}, {NUM(factor), .bounds = "< 1"},
     {NAT(patience)}, {NUM(threshold)}, {WORD("threshold_mode", threshold_kind, "rel abs")},
     {NAT(cooldown)}, {NUM(min_lr)}, {NUM(eps)});
ROWS(sequential_keys, {SCHEDULERS}, {MILESTONES});
ROWS(chained_keys, {SCHEDULERS});
ROWS(cosmo_keys, {NUM(base_lr)}, {WORD("scaling", scaling, "none linear sqrt")},
     {MUST_POS(global_batch_size)}, {MUST_POS(base_batch_size)}, {NAT(n_warmup_epochs)},
     {.path = "decay_schedule", .kind = EBB_KEY_NODE, AT(decay_schedule)});
ROWS(deepcam_cosine_keys, {NUM(base_lr)}, {NAT(lr_warmup_steps)}, {NUM(lr_warmup_factor)},
     {MUST_POS(t_max)}, {NUM(eta_min)});
ROWS(deepcam_multi_keys, {NUM(base_lr)}, {NAT(lr_warmup_steps)}, {NUM(lr_warmup_factor)},
     {.path = "milestones",
      .kind = EBB_KEY_INT,
      .flags = EBB_KEY_REQUIRED,
      .bounds = ">= 0" STEPS,
      AT(milestone)},
     {NUM(decay_rate)});
ROWS(bert_keys, {NUM(base_lr)}, {NAT(start_warmup_steps)}, {NAT(warmup_steps)},
     {MUST_POS(total_steps)}, {NUM(end_lr)}, {NUM(degree)});
ROWS(gpt_keys, {NUM(lr)}, {NAT(warmup)}, {MUST_POS(total)}, {NUM(final_frac)});

static const struct optim_schedule_row table[] = {
    {"StepLR", EBB_KEYS(step_keys), NULL, step_rate, NULL},
    {"MultiStepLR", EBB_KEYS(multistep_keys), NULL, multistep_rate, NULL},
    {"ExponentialLR", EBB_KEYS(exponential_keys), NULL, exponential_rate, NULL},
    {"CosineAnnealingLR", EBB_KEYS(cosine_keys), NULL, cosine_rate, NULL},
    {"CosineAnnealingWarmRestarts", EBB_KEYS(restarts_keys), NULL, restarts_rate, NULL},
    {"LinearLR", EBB_KEYS(linear_keys), NULL, linear_rate, NULL},
    {"ConstantLR", EBB_KEYS(constant_keys), NULL, constant_rate, NULL},
    {"PolynomialLR", EBB_KEYS(polynomial_keys), NULL, polynomial_rate, NULL},
    {"OneCycleLR", EBB_KEYS(onecycle_keys), onecycle_prepare, onecycle_rate, onecycle_momentum},
    {"CyclicLR", EBB_KEYS(cyclic_keys), cyclic_prepare, cyclic_rate, cyclic_momentum},
    {"ReduceLROnPlateau", EBB_KEYS(plateau_keys), plateau_prepare, plateau_rate, NULL},
    {"SequentialLR", EBB_KEYS(sequential_keys), sequential_prepare, sequential_rate,
     sequential_momentum},
    {"ChainedScheduler", EBB_KEYS(chained_keys), parts_prepare, chained_rate, chained_momentum},
    {"CosmoFlow", EBB_KEYS(cosmo_keys), optim_cosmo_prepare, optim_cosmo_rate, NULL},
    {"DeepCAMCosine", EBB_KEYS(deepcam_cosine_keys), NULL, optim_deepcam_cosine_rate, NULL},
    {"DeepCAMMultiStep", EBB_KEYS(deepcam_multi_keys), NULL, optim_deepcam_multistep_rate, NULL},
    {"LinearWarmupPolyDecay", EBB_KEYS(bert_keys), NULL, optim_bert_rate, NULL},
    {"GPTCosine", EBB_KEYS(gpt_keys), optim_gpt_prepare, optim_gpt_cosine_rate, NULL},
    {"GPTLinear", EBB_KEYS(gpt_keys), optim_gpt_prepare, optim_gpt_linear_rate, NULL},
    {"GPTWSD", EBB_KEYS(gpt_keys), optim_gpt_prepare, optim_gpt_wsd_rate, NULL},
};
#define COUNT (sizeof table / sizeof *table)

const char *optim_schedule_name(size_t i)
{
    return i < COUNT ? table[i].name : NULL;
}

/* Defaults differ by schedule where torch's do. */
static void set_defaults(struct optim_schedule_args *a, const char *name)
{
    bool is_cyclic = strcmp(name, "CyclicLR") == 0;
    bool is_plateau = strcmp(name, "ReduceLROnPlateau") == 0;
    *a = (struct optim_schedule_args){.gamma = is_cyclic ? 1 : 0.1,
                                      .start_factor = 1.0 / 3,
                                      .end_factor = 1,
                                      .factor = is_plateau ? 0.1 : 1.0 / 3,
                                      .power = 1,
                                      .pct_start = 0.3,
                                      .base_momentum = is_cyclic ? 0.8 : 0.85,
                                      .max_momentum = is_cyclic ? 0.9 : 0.95,
                                      .div_factor = 25,
                                      .final_div_factor = 1e4,
                                      .threshold = 1e-4,
                                      .eps = 1e-8,
                                      .decay_rate = 0.1,
                                      .lr_warmup_factor = 1,
                                      .degree = 1,
                                      .final_frac = 0.1,
                                      .T_mult = 1,
                                      .total_iters = 5,
                                      .step_size_up = 2000,
                                      .patience = 10,
                                      .warmup = 1,
                                      .cycle_momentum = true};
}

struct optim_schedule *optim_schedule_read(struct ebb_reading *reading, const struct ebb_path *path,
                                           const char *name, const struct ebb_doc_node *map,
                                           const char *also, double base_lr)
{
    unsigned i = 0;
    size_t errors = reading->report->errors;
    struct optim_place place = {.reading = reading, .path = path, .map = map};
    if (!optim_choose(reading, path, map, optim_schedule_name, name, &i))
        return NULL;
    struct optim_schedule *s = ebb_calloc(1, sizeof *s);
    if (!s) {
        reading->failed = true;
        return NULL;
    }
    struct ebb_section section = {.table = &table[i].keys, .also = also, .what = table[i].name};
    s->row = &table[i];
    s->base = base_lr;
    set_defaults(&s->a, s->row->name);
    s->a.base_lr = s->a.lr = base_lr;
    ebb_keys_read(reading, &section, path, map, map, &s->a);
    if (reading->report->errors == errors && !reading->failed && s->row->prepare)
        s->row->prepare(s, &place);
    if (reading->report->errors == errors && !reading->failed)
        return s;
    optim_schedule_destroy(s);
    return NULL;
}

enum ebb_status optim_schedule_create(struct optim_schedule **schedule, const char *name,
                                      const struct ebb_doc_node *args, double base_lr,
                                      struct ebb_error *err)
{
    struct ebb_alone alone;
    struct ebb_path path = {.key = "schedule"};
    struct optim_schedule *s = optim_schedule_read(ebb_alone_init(&alone), &path, name, args,
                                                   "name interval warmup", base_lr);
    if (s)
        *schedule = s;
    return ebb_alone_end(&alone, err);
}

void optim_schedule_destroy(struct optim_schedule *schedule)
{
    if (!schedule)
        return;
    for (size_t i = 0; i < schedule->part_count; i++)
        optim_schedule_destroy(schedule->parts[i]);
    ebb_free(schedule);
}

/* Whether step t lies past the end of a schedule that has one: its steps, else 0. */
static int64_t ended_after(const struct optim_schedule *s, double t)
{
    if (s->row->rate == onecycle_rate)
        return t > (double)s->a.total_steps ? s->a.total_steps : 0;
    if (s->row->rate == sequential_rate) {
        const struct optim_schedule *part = active_part(s, &t);
        return ended_after(part, t);
    }
    int64_t end = 0;
    for (size_t i = 0; i < s->part_count && end == 0; i++)
        end = ended_after(s->parts[i], t);
    return end;
}

enum ebb_status optim_schedule_rate(const struct optim_schedule *schedule, int64_t t, double *lr,
                                    struct ebb_error *err)
{
    int64_t end = t < 0 ? 0 : ended_after(schedule, (double)t);
    if (t < 0 || end)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: a rate for step %" PRId64 " is wanted, total_steps is %" PRId64
                        ": the schedule is shorter than the training",
                        schedule->row->rate == onecycle_rate ? "OneCycleLR" : schedule->row->name,
                        t + 1, end);
    *lr = schedule->row->rate(schedule, (double)t);
    return EBB_OK;
}

bool optim_schedule_momentum(const struct optim_schedule *schedule, int64_t t, double *momentum)
{
    if (!schedule->row->momentum)
        return false;
    double m = schedule->row->momentum(schedule, (double)t);
    if (isnan(m))
        return false;
    *momentum = m;
    return true;
}
