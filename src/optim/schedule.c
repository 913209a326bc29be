/* schedule.c - learning rates as functions of the number of steps taken.
 *
 * One row per schedule: name, arguments, rate. `b` is the base rate, t counts from 0 (the schedule
 * whose own count starts at 1 adds it). */
#include "optim/schedule.h"

#include <inttypes.h>
#include <string.h>

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
    for (size_t i = 0; i < s->point_count; i++)
        n += s->points[i] <= t;
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

static enum ebb_status onecycle_prepare(struct optim_schedule *s, struct ebb_error *err)
{
    struct optim_schedule_args *a = &s->a;
    if (a->total_steps == 0 && (double)a->epochs * (double)a->steps_per_epoch > MAX_STEPS)
        return ebb_fail(err, EBB_EINPUT,
                        "OneCycleLR: epochs %" PRId64 " times steps_per_epoch %" PRId64
                        " are more than %g steps",
                        a->epochs, a->steps_per_epoch, MAX_STEPS);
    if (a->total_steps == 0)
        a->total_steps = a->epochs * a->steps_per_epoch;
    if (a->total_steps < 1)
        return ebb_fail(err, EBB_EINPUT,
                        "OneCycleLR: total_steps, or epochs and steps_per_epoch, are required");
    if (!(a->div_factor > 0) || !(a->final_div_factor > 0))
        return ebb_fail(err, EBB_EINPUT,
                        "OneCycleLR: div_factor and final_div_factor must be above 0, found %g and "
                        "%g",
                        a->div_factor, a->final_div_factor);
    if (strcmp(a->anneal_strategy, "cos") != 0 && strcmp(a->anneal_strategy, "linear") != 0)
        return ebb_fail(err, EBB_EINPUT, "OneCycleLR: anneal_strategy '%s', allowed: cos, linear",
                        a->anneal_strategy);
    s->is_linear = strcmp(a->anneal_strategy, "linear") == 0;
    return EBB_OK;
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
    if (s->is_linear)
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

static enum ebb_status cyclic_prepare(struct optim_schedule *s, struct ebb_error *err)
{
    static const char *const modes[] = {"triangular", "triangular2", "exp_range"};
    s->cycle_rule = optim_args_choose("mode of CyclicLR", s->a.mode, modes, 3, err);
    if (s->a.step_size_down == 0)
        s->a.step_size_down = s->a.step_size_up;
    return s->cycle_rule < 0 ? EBB_EINPUT : EBB_OK;
}

static double cyclic_scale(const struct optim_schedule *s, double t)
{
    double up = (double)s->a.step_size_up, length = up + (double)s->a.step_size_down;
    double cycle = floor(1 + t / length), x = 1 + t / length - cycle, r = up / length;
    double scale = x <= r ? x / r : (x - 1) / (r - 1);
    double k = s->cycle_rule == 0   ? 1
               : s->cycle_rule == 1 ? pow(2, -(cycle - 1))
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

static enum ebb_status plateau_prepare(struct optim_schedule *s, struct ebb_error *err)
{
    static const char *const modes[] = {"min", "max"}, *const kinds[] = {"rel", "abs"};
    int mode = optim_args_choose("mode of ReduceLROnPlateau", s->a.mode, modes, 2, err);
    if (mode < 0)
        return EBB_EINPUT;
    int kind = optim_args_choose("threshold_mode of ReduceLROnPlateau", s->a.threshold_mode, kinds,
                                 2, err);
    if (kind < 0)
        return EBB_EINPUT;
    if (s->a.factor >= 1)
        return ebb_fail(err, EBB_EINPUT, "ReduceLROnPlateau: factor must be below 1, found %g",
                        s->a.factor);
    s->is_max = mode;
    s->is_absolute = kind;
    s->rate = s->base;
    s->best = mode ? -INFINITY : INFINITY;
    return EBB_OK;
}

static double plateau_rate(const struct optim_schedule *s, double t)
{
    (void)t;
    return s->rate;
}

static bool is_better(const struct optim_schedule *s, double metric)
{
    double th = s->a.threshold;
    if (s->is_max)
        return metric > (s->is_absolute ? s->best + th : s->best * (1 + th));
    return metric < (s->is_absolute ? s->best - th : s->best * (1 - th));
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
    while (k < s->point_count && *t >= s->points[k])
        k++;
    *t -= k ? s->points[k - 1] : 0;
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
    for (double u = 0; !is_product && u <= t; u++)
        for (size_t i = 0; i < s->part_count; i++)
            rate = chained_step(s->parts[i], rate, u);
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

static enum ebb_status read_points(struct optim_schedule *s, const struct ebb_doc_node *list,
                                   struct ebb_error *err)
{
    bool is_one = list->kind == EBB_DOC_INT;
    if ((!is_one && list->kind != EBB_DOC_LIST) || list->count > MAX_POINTS)
        return ebb_fail(err, EBB_EINPUT, "%s: milestones must be a list of at most %d integers",
                        s->row->name, MAX_POINTS);
    s->point_count = is_one ? 1 : list->count;
    for (size_t i = 0; i < s->point_count; i++) {
        const struct ebb_doc_node *n = is_one ? list : list->items[i];
        if (n->kind != EBB_DOC_INT)
            return ebb_fail(err, EBB_EINPUT, "%s: milestones must be integers", s->row->name);
        s->points[i] = n->number;
    }
    return EBB_OK;
}

static enum ebb_status multistep_prepare(struct optim_schedule *s, struct ebb_error *err)
{
    return read_points(s, s->a.milestones, err);
}

/* One of the schedules: {name: N, args: {...}}, or {name: N, ...} with the arguments beside it. */
static enum ebb_status read_part(struct optim_schedule *s, const struct ebb_doc_node *p,
                                 struct optim_schedule **part, struct ebb_error *err)
{
    const struct ebb_doc_node *args = ebb_doc_get(p, "args");
    const char *name = ebb_doc_string(p, "scheduler", ebb_doc_string(p, "name", NULL));
    if (p->kind != EBB_DOC_MAP || !name)
        return ebb_fail(err, EBB_EINPUT, "%u:%u: %s: a schedule must be a mapping with a name",
                        p->line, p->column, s->row->name);
    if (strcasecmp(name, "ReduceLROnPlateau") == 0)
        return ebb_fail(err, EBB_EINPUT,
                        "%u:%u: %s: ReduceLROnPlateau looks at metrics, not at steps: it cannot be "
                        "a part",
                        p->line, p->column, s->row->name);
    const struct ebb_doc_node **room = ebb_calloc(2 * p->count + 1, sizeof *room);
    if (!room)
        return ebb_no_memory(err, 2 * p->count * sizeof *room);
    struct ebb_doc_node beside = {.kind = EBB_DOC_MAP,
                                  .line = p->line,
                                  .column = p->column,
                                  .keys = room,
                                  .items = room + p->count};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < p->count && status == EBB_OK; i++) {
        const char *key = p->keys[i]->text;
        if (strcmp(key, "scheduler") == 0 || strcmp(key, "name") == 0 || strcmp(key, "args") == 0)
            continue;
        if (args)
            status = ebb_fail(err, EBB_EINPUT, "%u:%u: %s: '%s' stands beside args, not in it",
                              p->keys[i]->line, p->keys[i]->column, name, key);
        room[beside.count] = p->keys[i];
        room[p->count + beside.count++] = p->items[i];
    }
    if (status == EBB_OK)
        status = optim_schedule_create(part, name, args ? args : &beside, s->base, err);
    ebb_free(room);
    return status;
}

static enum ebb_status parts_prepare(struct optim_schedule *s, struct ebb_error *err)
{
    const struct ebb_doc_node *list = s->a.schedulers;
    if (list->kind != EBB_DOC_LIST || list->count == 0 || list->count > MAX_PARTS)
        return ebb_fail(err, EBB_EINPUT, "%s: schedulers must be a list of 1 to %d", s->row->name,
                        MAX_PARTS);
    for (size_t i = 0; i < list->count; i++) {
        EBB_TRY(read_part(s, list->items[i], &s->parts[i], err));
        s->part_count++;
    }
    return EBB_OK;
}

static enum ebb_status sequential_prepare(struct optim_schedule *s, struct ebb_error *err)
{
    EBB_TRY(parts_prepare(s, err));
    EBB_TRY(read_points(s, s->a.milestones, err));
    if (s->point_count + 1 != s->part_count)
        return ebb_fail(err, EBB_EINPUT,
                        "SequentialLR: %zu schedules need %zu milestones, found %zu", s->part_count,
                        s->part_count - 1, s->point_count);
    return EBB_OK;
}

/* ---- the table ------------------------------------------------------------------------------ */

#define AT(member) offsetof(struct optim_schedule_args, member)
#define NUM(text)                                                                                  \
    {                                                                                              \
#text, OPTIM_DOUBLE, AT(text), false, -INFINITY, INFINITY                                  \
    }
#define MUST_NUM(text)                                                                             \
    {                                                                                              \
#text, OPTIM_DOUBLE, AT(text), true, -INFINITY, INFINITY                                   \
    }
#define POS(text)                                                                                  \
    {                                                                                              \
#text, OPTIM_INT, AT(text), false, 1, MAX_STEPS                                            \
    }
#define MUST_POS(text)                                                                             \
    {                                                                                              \
#text, OPTIM_INT, AT(text), true, 1, MAX_STEPS                                             \
    }
#define NAT(text)                                                                                  \
    {                                                                                              \
#text, OPTIM_INT, AT(text), false, 0, MAX_STEPS                                            \
    }
#define YES(text)                                                                                  \
    {                                                                                              \
#text, OPTIM_BOOL, AT(text), false, 1, 0                                                   \
    }
#define TEXT(text)                                                                                 \
    {                                                                                              \
#text, OPTIM_TEXT, AT(text), false, 1, 0                                                   \
    }
#define NODE(text, required)                                                                       \
    {                                                                                              \
#text, OPTIM_NODE, AT(text), required, 1, 0                                                \
    }
#define ROW(name, ...) static const struct optim_arg name[] = {__VA_ARGS__, {0}}

ROW(step_args, MUST_POS(step_size), NUM(gamma));
ROW(multistep_args, NODE(milestones, true), NUM(gamma));
ROW(exponential_args, MUST_NUM(gamma));
ROW(cosine_args, MUST_POS(T_max), NUM(eta_min));
ROW(restarts_args, MUST_POS(T_0), POS(T_mult), NUM(eta_min));
ROW(linear_args, NUM(start_factor), NUM(end_factor), NAT(total_iters));
ROW(constant_args, NUM(factor), NAT(total_iters));
ROW(polynomial_args, NAT(total_iters), NUM(power));
ROW(onecycle_args, MUST_NUM(max_lr), POS(total_steps), POS(epochs), POS(steps_per_epoch),
    {"pct_start", OPTIM_DOUBLE, AT(pct_start), false, 0, 1}, TEXT(anneal_strategy),
    YES(cycle_momentum), NUM(base_momentum), NUM(max_momentum), NUM(div_factor),
    NUM(final_div_factor), YES(three_phase));
ROW(cyclic_args, NUM(base_lr), MUST_NUM(max_lr), POS(step_size_up), POS(step_size_down), TEXT(mode),
    NUM(gamma), YES(cycle_momentum), NUM(base_momentum), NUM(max_momentum));
ROW(plateau_args, TEXT(mode), NUM(factor), NAT(patience), NUM(threshold), TEXT(threshold_mode),
    NAT(cooldown), NUM(min_lr), NUM(eps));
ROW(sequential_args, NODE(schedulers, true), NODE(milestones, true));
ROW(chained_args, NODE(schedulers, true));
ROW(cosmo_args, NUM(base_lr), TEXT(scaling), MUST_POS(global_batch_size), MUST_POS(base_batch_size),
    NAT(n_warmup_epochs), NODE(decay_schedule, false));
ROW(deepcam_cosine_args, NUM(base_lr), NAT(lr_warmup_steps), NUM(lr_warmup_factor), MUST_POS(t_max),
    NUM(eta_min));
static const struct optim_arg deepcam_multi_args[] = {
    NUM(base_lr),          NAT(lr_warmup_steps),
    NUM(lr_warmup_factor), {"milestones", OPTIM_INT, AT(milestone), true, 0, MAX_STEPS},
    NUM(decay_rate),       {0}};
ROW(bert_args, NUM(base_lr), NAT(start_warmup_steps), NAT(warmup_steps), MUST_POS(total_steps),
    NUM(end_lr), NUM(degree));
ROW(gpt_args, NUM(lr), NAT(warmup), MUST_POS(total), NUM(final_frac));

#define SCHEDULES(X)                                                                               \
    X("StepLR", step_args, NULL, step_rate, NULL)                                                  \
    X("MultiStepLR", multistep_args, multistep_prepare, multistep_rate, NULL)                      \
    X("ExponentialLR", exponential_args, NULL, exponential_rate, NULL)                             \
    X("CosineAnnealingLR", cosine_args, NULL, cosine_rate, NULL)                                   \
    X("CosineAnnealingWarmRestarts", restarts_args, NULL, restarts_rate, NULL)                     \
    X("LinearLR", linear_args, NULL, linear_rate, NULL)                                            \
    X("ConstantLR", constant_args, NULL, constant_rate, NULL)                                      \
    X("PolynomialLR", polynomial_args, NULL, polynomial_rate, NULL)                                \
    X("OneCycleLR", onecycle_args, onecycle_prepare, onecycle_rate, onecycle_momentum)             \
    X("CyclicLR", cyclic_args, cyclic_prepare, cyclic_rate, cyclic_momentum)                       \
    X("ReduceLROnPlateau", plateau_args, plateau_prepare, plateau_rate, NULL)                      \
    X("SequentialLR", sequential_args, sequential_prepare, sequential_rate, sequential_momentum)   \
    X("ChainedScheduler", chained_args, parts_prepare, chained_rate, chained_momentum)             \
    X("CosmoFlow", cosmo_args, optim_cosmo_prepare, optim_cosmo_rate, NULL)                        \
    X("DeepCAMCosine", deepcam_cosine_args, NULL, optim_deepcam_cosine_rate, NULL)                 \
    X("DeepCAMMultiStep", deepcam_multi_args, NULL, optim_deepcam_multistep_rate, NULL)            \
    X("LinearWarmupPolyDecay", bert_args, NULL, optim_bert_rate, NULL)                             \
    X("GPTCosine", gpt_args, optim_gpt_prepare, optim_gpt_cosine_rate, NULL)                       \
    X("GPTLinear", gpt_args, optim_gpt_prepare, optim_gpt_linear_rate, NULL)                       \
    X("GPTWSD", gpt_args, optim_gpt_prepare, optim_gpt_wsd_rate, NULL)

#define AS_ROW(name, args, prepare, rate, momentum) {name, args, prepare, rate, momentum},
#define AS_NAME(name, ...) name,
static const struct optim_schedule_row table[] = {SCHEDULES(AS_ROW)};
static const char *const names[] = {SCHEDULES(AS_NAME)};
#define COUNT (sizeof table / sizeof *table)

size_t optim_schedule_names(const char *const **list)
{
    *list = names;
    return COUNT;
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
                                      .cycle_momentum = true,
                                      .anneal_strategy = "cos",
                                      .mode = is_plateau ? "min" : "triangular",
                                      .threshold_mode = "rel",
                                      .scaling = "none"};
}

enum ebb_status optim_schedule_create(struct optim_schedule **schedule, const char *name,
                                      const struct ebb_doc_node *args, double base_lr,
                                      struct ebb_error *err)
{
    int i = optim_args_choose("schedule", name, names, COUNT, err);
    if (i < 0)
        return EBB_EINPUT;
    struct optim_schedule *s = ebb_calloc(1, sizeof *s);
    if (!s)
        return ebb_no_memory(err, sizeof *s);
    s->row = &table[i];
    s->base = base_lr;
    set_defaults(&s->a, names[i]);
    s->a.base_lr = s->a.lr = base_lr;
    enum ebb_status status = optim_args_read(names[i], table[i].args, args, &s->a, err);
    if (status == EBB_OK && table[i].prepare)
        status = table[i].prepare(s, err);
    if (status != EBB_OK) {
        optim_schedule_destroy(s);
        return status;
    }
    s->a.milestones = s->a.schedulers = s->a.decay_schedule = NULL; /* the document may go */
    s->a.anneal_strategy = s->a.mode = s->a.threshold_mode = s->a.scaling = NULL;
    *schedule = s;
    return EBB_OK;
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
