/* optim.c - the optimizers: arguments, states, scalars of a step. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "optim/internal.h"

#define AT(member) .at = offsetof(struct optim_config, member)
#define NUMBER(name, member)                                                                       \
    .path = (name), .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, .bounds = ">= 0", AT(member)
#define FLAG(member) .path = #member, .kind = EBB_KEY_BOOL, AT(member)
#define LR NUMBER("lr", lr)
#define DECAY NUMBER("weight_decay", weight_decay)
#define EPS NUMBER("eps", eps)
#define MOMENTUM NUMBER("momentum", momentum)
#define BETAS                                                                                      \
    .path = "betas", .kind = EBB_KEY_PAIR, .flags = EBB_KEY_LOOSE, .bounds = ">= 0, < 1", AT(beta1)
#define MAXIMIZE FLAG(maximize)
#define ROWS(name, ...) static const struct ebb_key name[] = {__VA_ARGS__}

ROWS(sgd_keys,
     {.path = "lr",
      .kind = EBB_KEY_DOUBLE,
      .flags = EBB_KEY_LOOSE | EBB_KEY_REQUIRED,
      .bounds = ">= 0",
      AT(lr)},
     {MOMENTUM},
     {.path = "dampening", .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, AT(dampening)}, {DECAY},
     {FLAG(nesterov)}, {MAXIMIZE});
ROWS(adam_keys, {LR}, {BETAS}, {EPS}, {DECAY}, {FLAG(amsgrad)}, {MAXIMIZE});
ROWS(rmsprop_keys, {LR}, {NUMBER("alpha", alpha)}, {EPS}, {DECAY}, {MOMENTUM}, {FLAG(centered)},
     {MAXIMIZE});
ROWS(adagrad_keys, {LR}, {NUMBER("lr_decay", lr_decay)}, {DECAY},
     {NUMBER("initial_accumulator_value", initial)}, {EPS}, {MAXIMIZE});
ROWS(adadelta_keys, {LR},
     {.path = "rho",
      .kind = EBB_KEY_DOUBLE,
      .flags = EBB_KEY_LOOSE,
      .bounds = ">= 0, <= 1",
      AT(rho)},
     {EPS}, {DECAY}, {MAXIMIZE});
ROWS(adamax_keys, {LR}, {BETAS}, {EPS}, {DECAY}, {MAXIMIZE});
ROWS(nadam_keys, {LR}, {BETAS}, {EPS}, {DECAY}, {NUMBER("momentum_decay", momentum_decay)});
ROWS(radam_keys, {LR}, {BETAS}, {EPS}, {DECAY});
ROWS(lars_keys, {LR}, {MOMENTUM}, {NUMBER("eeta", eeta)}, {DECAY}, {NUMBER("epsilon", eps)},
     {FLAG(lars)}, {MAXIMIZE});
ROWS(lamb_keys, {LR}, {BETAS}, {EPS}, {DECAY}, {FLAG(bias_correction)}, {FLAG(adam)}, {MAXIMIZE});

#define B .beta1 = 0.9, .beta2 = 0.999
static const struct {
    struct ebb_keys keys;
    struct optim_config defaults;
    const char *states[OPS_UPDATE_STATES];
} table[] = {
    {EBB_KEYS(sgd_keys), {.name = "SGD", .kind = OPS_SGD}, {"momentum_buffer"}},
    {EBB_KEYS(adam_keys),
     {.name = "Adam", .kind = OPS_ADAM, .lr = 1e-3, .eps = 1e-8, B},
     {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}},
    {EBB_KEYS(adam_keys),
     {.name = "AdamW",
      .kind = OPS_ADAM,
      .lr = 1e-3,
      .eps = 1e-8,
      B,
      .weight_decay = 1e-2,
      .is_decoupled = true},
     {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}},
    {EBB_KEYS(rmsprop_keys),
     {.name = "RMSprop", .kind = OPS_RMSPROP, .lr = 1e-2, .alpha = 0.99, .eps = 1e-8},
     {"square_avg", "momentum_buffer", "grad_avg"}},
    {EBB_KEYS(adagrad_keys),
     {.name = "Adagrad", .kind = OPS_ADAGRAD, .lr = 1e-2, .eps = 1e-10},
     {"sum"}},
    {EBB_KEYS(adadelta_keys),
     {.name = "Adadelta", .kind = OPS_ADADELTA, .lr = 1.0, .rho = 0.9, .eps = 1e-6},
     {"square_avg", "acc_delta"}},
    {EBB_KEYS(adamax_keys),
     {.name = "Adamax", .kind = OPS_ADAMAX, .lr = 2e-3, .eps = 1e-8, B},
     {"exp_avg", "exp_inf"}},
    {EBB_KEYS(nadam_keys),
     {.name = "NAdam", .kind = OPS_NADAM, .lr = 2e-3, .eps = 1e-8, B, .momentum_decay = 4e-3},
     {"exp_avg", "exp_avg_sq"}},
    {EBB_KEYS(radam_keys),
     {.name = "RAdam", .kind = OPS_RADAM, .lr = 1e-3, .eps = 1e-8, B},
     {"exp_avg", "exp_avg_sq"}},
    {EBB_KEYS(lars_keys),
     {.name = "LARS", .kind = OPS_LARS, .lr = 1e-3, .eeta = 1e-3, .lars = true},
     {"momentum_buffer"}},
    {EBB_KEYS(lamb_keys),
     {.name = "LAMB", .kind = OPS_LAMB, .lr = 1e-3, .eps = 1e-6, B, .bias_correction = true},
     {"exp_avg", "exp_avg_sq"}},
};
#define COUNT (sizeof table / sizeof *table)

bool optim_choose(struct ebb_reading *reading, const struct ebb_path *path,
                  const struct ebb_doc_node *where, const char *(*names)(size_t), const char *name,
                  unsigned *index)
{
    struct ebb_key key = {
        .path = "", .kind = EBB_KEY_WORD, .flags = EBB_KEY_ANY_CASE, .word = names};
    struct ebb_str why = {0};
    if (ebb_key_read_text(&key, name, index, &why))
        return true;
    ebb_reading_say(reading, EBB_FINDING_ERROR, path, where, &why);
    return false;
}

const char *optim_name(size_t i)
{
    return i < COUNT ? table[i].defaults.name : NULL;
}

bool optim_read(struct ebb_reading *reading, const struct ebb_path *path, const char *name,
                const struct ebb_doc_node *map, const char *also, struct optim_config *config)
{
    unsigned i = 0;
    size_t errors = reading->report->errors;
    if (!optim_choose(reading, path, map, optim_name, name, &i))
        return false;
    struct optim_config c = table[i].defaults;
    struct ebb_section section = {.table = &table[i].keys, .also = also, .what = c.name};
    ebb_keys_read(reading, &section, path, map, map, &c);
    if (reading->failed || reading->report->errors > errors)
        return false;
    bool is_known = ebb_reading_is_good(reading, &c.momentum) &&
                    ebb_reading_is_good(reading, &c.dampening) &&
                    ebb_reading_is_good(reading, &c.nesterov);
    if (is_known && c.nesterov && (c.momentum <= 0 || c.dampening != 0)) {
        ebb_reading_error(reading, path, map,
                          "SGD: nesterov needs momentum > 0 and dampening 0, found %g and %g",
                          c.momentum, c.dampening);
        return false;
    }
    *config = c;
    return true;
}

enum ebb_status optim_parse(const char *name, const struct ebb_doc_node *args,
                            struct optim_config *config, struct ebb_error *err)
{
    struct ebb_alone alone;
    struct ebb_path path = {.key = "optimizer"};
    optim_read(ebb_alone_init(&alone), &path, name, args, "name decay", config);
    return ebb_alone_end(&alone, err);
}

unsigned optim_flags(const struct optim_config *c)
{
    unsigned flags = 0;
    flags |= c->momentum != 0 ? OPS_MOMENTUM : 0;
    flags |= c->nesterov ? OPS_NESTEROV : 0;
    flags |= c->amsgrad ? OPS_AMSGRAD : 0;
    flags |= c->centered ? OPS_CENTERED : 0;
    if ((c->kind == OPS_LARS && !c->lars) || (c->kind == OPS_LAMB && c->adam))
        flags |= OPS_NO_TRUST;
    return flags;
}

size_t optim_state_count(const struct optim_config *c)
{
    switch (c->kind) {
    case OPS_SGD:
    case OPS_LARS:
        return c->momentum != 0;
    case OPS_ADAM:
        return c->amsgrad ? 3 : 2;
    case OPS_RMSPROP:
        return 1u + (c->momentum != 0) + c->centered;
    case OPS_ADAGRAD:
        return 1;
    default:
        return 2;
    }
}

const char *optim_state_name(const struct optim_config *c, size_t i)
{
    for (size_t k = 0; k < COUNT; k++)
        if (strcmp(table[k].defaults.name, c->name) == 0) {
            bool skips = c->kind == OPS_RMSPROP && c->momentum == 0 && i == 1;
            return table[k].states[skips ? 2 : i];
        }
    return NULL;
}

float optim_state_initial(const struct optim_config *c, size_t i)
{
    (void)i;
    return c->kind == OPS_ADAGRAD ? (float)c->initial : 0.0f;
}

static bool has_betas(const struct optim_config *c)
{
    return c->kind == OPS_ADAM || c->kind == OPS_ADAMAX || c->kind == OPS_NADAM ||
           c->kind == OPS_RADAM || c->kind == OPS_LAMB;
}

void optim_set_momentum(struct optim_config *config, double momentum)
{
    if (has_betas(config))
        config->beta1 = momentum;
    else
        config->momentum = momentum;
}

bool optim_cycle_momentum(struct optim_config *config, double momentum)
{
    bool has_momentum =
        config->kind == OPS_SGD || config->kind == OPS_RMSPROP || config->kind == OPS_LARS;
    if (has_betas(config))
        return true;
    if (has_momentum && config->momentum == 0) /* not 0: the buffer must be there */
        config->momentum = momentum != 0 ? momentum : 0.9;
    return has_momentum;
}

/* ---- scalars -------------------------------------------------------------------------------- */

static void nadam(const struct optim_config *c, struct optim_count *count, double lr,
                  struct ops_scalars *k)
{
    double t = (double)count->steps, psi = c->momentum_decay;
    double mu = c->beta1 * (1 - 0.5 * pow(0.96, t * psi));
    double next = c->beta1 * (1 - 0.5 * pow(0.96, (t + 1) * psi));
    count->mu_product = (count->steps == 1 ? 1 : count->mu_product) * mu;
    k->rate = lr * (1 - mu) / (1 - count->mu_product);
    k->momentum_rate = lr * next / (1 - count->mu_product * next);
}

static double rectified(const struct optim_config *c, double t)
{
    double b2t = pow(c->beta2, t), limit = 2 / (1 - c->beta2) - 1;
    double r = limit - 2 * t * b2t / (1 - b2t);
    return r > 5 ? sqrt((r - 4) * (r - 2) * limit / ((limit - 4) * (limit - 2) * r)) * sqrt(1 - b2t)
                 : 0;
}

/* Where a kind's rate, or its powers, are not the plain ones. */
static void correct(const struct optim_config *c, struct optim_count *count, double lr,
                    struct ops_scalars *k)
{
    double t = (double)count->steps;
    switch (c->kind) {
    case OPS_RADAM:
        k->rectified = rectified(c, t);
        k->rate = lr / k->power1;
        break;
    case OPS_ADAM:
    case OPS_ADAMAX:
        k->rate = lr / k->power1;
        break;
    case OPS_ADAGRAD:
        k->rate = lr / (1 + (t - 1) * c->lr_decay);
        break;
    case OPS_NADAM:
        nadam(c, count, lr, k);
        break;
    case OPS_LAMB:
        if (!c->bias_correction)
            k->power1 = k->power2 = 1;
        break;
    default:
        break;
    }
}

void optim_step(const struct optim_config *c, struct optim_count *count, double lr,
                float scalars[OPS_UPDATE_SCALARS])
{
    double t = (double)++count->steps;
    bool is_first = count->steps == 1;
    struct ops_scalars k = {.rate = lr,
                            .decay = c->is_decoupled ? 0 : c->weight_decay,
                            .sign = c->maximize ? -1 : 1,
                            .momentum = c->momentum,
                            .carry = is_first ? 0 : c->momentum,
                            .fresh = is_first ? 1 : 1 - c->dampening,
                            .beta1 = c->beta1,
                            .rest1 = 1 - c->beta1,
                            .beta2 = c->beta2,
                            .rest2 = 1 - c->beta2,
                            .power1 = 1 - pow(c->beta1, t),
                            .power2 = 1 - pow(c->beta2, t),
                            .root2 = sqrt(1 - pow(c->beta2, t)),
                            .alpha = c->alpha,
                            .rest_alpha = 1 - c->alpha,
                            .rho = c->rho,
                            .rest_rho = 1 - c->rho,
                            .eeta = c->eeta,
                            .eps = c->eps,
                            .keep = c->is_decoupled ? 1 - lr * c->weight_decay : 1};
    correct(c, count, lr, &k);
    ops_update_scalars(c->kind, &k, scalars);
}

/* ---- clipping ------------------------------------------------------------------------------- */

void optim_clip(struct tensor_session *s, tensor_id *gradients, size_t count, double max_norm,
                tensor_id *norm)
{
    tensor_id sum = TENSOR_NONE;
    for (size_t i = 0; i < count; i++) {
        tensor_id q = ops_sum_squares(s, gradients[i]);
        sum = sum.v ? ops_add(s, sum, q) : q;
    }
    if (!sum.v)
        return;
    tensor_id total = ops_sqrt(s, sum);
    tensor_id ratio =
        ops_mul_scalar(s, ops_reciprocal(s, ops_add_scalar(s, total, 1e-6f)), (float)max_norm);
    tensor_id coefficient = ops_clamp(s, ratio, -INFINITY, 1.0f);
    for (size_t i = 0; i < count; i++)
        gradients[i] = ops_mul(s, gradients[i], coefficient);
    if (norm)
        *norm = total;
}
