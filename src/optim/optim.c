/* optim.c - the optimizers: arguments, states, scalars of a step. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "optim/args.h"

#define AT(member) offsetof(struct optim_config, member)
#define ANY 0, INFINITY
#define LR                                                                                         \
    {                                                                                              \
        "lr", OPTIM_DOUBLE, AT(lr), false, ANY                                                     \
    }
#define DECAY                                                                                      \
    {                                                                                              \
        "weight_decay", OPTIM_DOUBLE, AT(weight_decay), false, ANY                                 \
    }
#define EPS                                                                                        \
    {                                                                                              \
        "eps", OPTIM_DOUBLE, AT(eps), false, ANY                                                   \
    }
#define BETAS                                                                                      \
    {                                                                                              \
        "betas", OPTIM_PAIR, AT(beta1), false, 0, 1                                                \
    }
#define MOMENTUM                                                                                   \
    {                                                                                              \
        "momentum", OPTIM_DOUBLE, AT(momentum), false, ANY                                         \
    }
#define MAXIMIZE                                                                                   \
    {                                                                                              \
        "maximize", OPTIM_BOOL, AT(maximize), false, 1, 0                                          \
    }
#define FLAG(text)                                                                                 \
    {                                                                                              \
#text, OPTIM_BOOL, AT(text), false, 1, 0                                                   \
    }
#define END                                                                                        \
    {                                                                                              \
        0                                                                                          \
    }

static const struct optim_arg sgd_args[] = {
    {"lr", OPTIM_DOUBLE, AT(lr), true, ANY},
    MOMENTUM,
    {"dampening", OPTIM_DOUBLE, AT(dampening), false, -INFINITY, INFINITY},
    DECAY,
    FLAG(nesterov),
    MAXIMIZE,
    END};
static const struct optim_arg adam_args[] = {LR, BETAS, EPS, DECAY, FLAG(amsgrad), MAXIMIZE, END};
static const struct optim_arg rmsprop_args[] = {
    LR,       {"alpha", OPTIM_DOUBLE, AT(alpha), false, ANY},
    EPS,      DECAY,
    MOMENTUM, FLAG(centered),
    MAXIMIZE, END};
static const struct optim_arg adagrad_args[] = {
    LR,    {"lr_decay", OPTIM_DOUBLE, AT(lr_decay), false, ANY},
    DECAY, {"initial_accumulator_value", OPTIM_DOUBLE, AT(initial), false, ANY},
    EPS,   MAXIMIZE,
    END};
static const struct optim_arg adadelta_args[] = {
    LR, {"rho", OPTIM_DOUBLE, AT(rho), false, 0, 1}, EPS, DECAY, MAXIMIZE, END};
static const struct optim_arg adamax_args[] = {LR, BETAS, EPS, DECAY, MAXIMIZE, END};
static const struct optim_arg nadam_args[] = {
    LR, BETAS, EPS, DECAY, {"momentum_decay", OPTIM_DOUBLE, AT(momentum_decay), false, ANY}, END};
static const struct optim_arg radam_args[] = {LR, BETAS, EPS, DECAY, END};
static const struct optim_arg lars_args[] = {LR,
                                             MOMENTUM,
                                             {"eeta", OPTIM_DOUBLE, AT(eeta), false, ANY},
                                             DECAY,
                                             {"epsilon", OPTIM_DOUBLE, AT(eps), false, ANY},
                                             FLAG(lars),
                                             MAXIMIZE,
                                             END};
static const struct optim_arg lamb_args[] = {
    LR, BETAS, EPS, DECAY, FLAG(bias_correction), FLAG(adam), MAXIMIZE, END};

#define B .beta1 = 0.9, .beta2 = 0.999
static const struct {
    const struct optim_arg *args;
    struct optim_config defaults;
    const char *states[OPS_UPDATE_STATES];
} table[] = {
    {sgd_args, {.name = "SGD", .kind = OPS_SGD}, {"momentum_buffer"}},
    {adam_args,
     {.name = "Adam", .kind = OPS_ADAM, .lr = 1e-3, .eps = 1e-8, B},
     {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}},
    {adam_args,
     {.name = "AdamW",
      .kind = OPS_ADAM,
      .lr = 1e-3,
      .eps = 1e-8,
      B,
      .weight_decay = 1e-2,
      .is_decoupled = true},
     {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}},
    {rmsprop_args,
     {.name = "RMSprop", .kind = OPS_RMSPROP, .lr = 1e-2, .alpha = 0.99, .eps = 1e-8},
     {"square_avg", "momentum_buffer", "grad_avg"}},
    {adagrad_args, {.name = "Adagrad", .kind = OPS_ADAGRAD, .lr = 1e-2, .eps = 1e-10}, {"sum"}},
    {adadelta_args,
     {.name = "Adadelta", .kind = OPS_ADADELTA, .lr = 1.0, .rho = 0.9, .eps = 1e-6},
     {"square_avg", "acc_delta"}},
    {adamax_args,
     {.name = "Adamax", .kind = OPS_ADAMAX, .lr = 2e-3, .eps = 1e-8, B},
     {"exp_avg", "exp_inf"}},
    {nadam_args,
     {.name = "NAdam", .kind = OPS_NADAM, .lr = 2e-3, .eps = 1e-8, B, .momentum_decay = 4e-3},
     {"exp_avg", "exp_avg_sq"}},
    {radam_args,
     {.name = "RAdam", .kind = OPS_RADAM, .lr = 1e-3, .eps = 1e-8, B},
     {"exp_avg", "exp_avg_sq"}},
    {lars_args,
     {.name = "LARS", .kind = OPS_LARS, .lr = 1e-3, .eeta = 1e-3, .lars = true},
     {"momentum_buffer"}},
    {lamb_args,
     {.name = "LAMB", .kind = OPS_LAMB, .lr = 1e-3, .eps = 1e-6, B, .bias_correction = true},
     {"exp_avg", "exp_avg_sq"}},
};
#define COUNT (sizeof table / sizeof *table)

static const char *const names[COUNT] = {"SGD",     "Adam",     "AdamW",  "RMSprop",
                                         "Adagrad", "Adadelta", "Adamax", "NAdam",
                                         "RAdam",   "LARS",     "LAMB"};

size_t optim_names(const char *const **list)
{
    *list = names;
    return COUNT;
}

enum ebb_status optim_parse(const char *name, const struct ebb_doc_node *args,
                            struct optim_config *config, struct ebb_error *err)
{
    int i = optim_args_choose("optimizer", name, names, COUNT, err);
    if (i < 0)
        return EBB_EINPUT;
    struct optim_config c = table[i].defaults;
    EBB_TRY(optim_args_read(names[i], table[i].args, args, &c, err));
    if (c.nesterov && (c.momentum <= 0 || c.dampening != 0))
        return ebb_fail(err, EBB_EINPUT,
                        "SGD: nesterov needs momentum > 0 and dampening 0, found %g and %g",
                        c.momentum, c.dampening);
    if (c.beta1 >= 1 || c.beta2 >= 1)
        return ebb_fail(err, EBB_EINPUT, "%s: betas must be below 1, found %g and %g", c.name,
                        c.beta1, c.beta2);
    *config = c;
    return EBB_OK;
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
        if (strcmp(names[k], c->name) == 0) {
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

static void betas(const struct optim_config *c, double *k)
{
    k[2] = c->beta1;
    k[3] = 1 - c->beta1;
    k[4] = c->beta2;
    k[5] = 1 - c->beta2;
}

static void nadam(const struct optim_config *c, struct optim_count *count, double lr, double *k)
{
    double t = (double)count->steps, psi = c->momentum_decay;
    double mu = c->beta1 * (1 - 0.5 * pow(0.96, t * psi));
    double next = c->beta1 * (1 - 0.5 * pow(0.96, (t + 1) * psi));
    count->mu_product = (count->steps == 1 ? 1 : count->mu_product) * mu;
    betas(c, k);
    k[0] = lr * (1 - mu) / (1 - count->mu_product);
    k[6] = 1 - pow(c->beta2, t);
    k[7] = c->eps;
    k[8] = lr * next / (1 - count->mu_product * next);
}

static void radam(const struct optim_config *c, double t, double lr, double *k)
{
    double b2t = pow(c->beta2, t), limit = 2 / (1 - c->beta2) - 1;
    double r = limit - 2 * t * b2t / (1 - b2t);
    betas(c, k);
    k[0] = lr / (1 - pow(c->beta1, t));
    k[6] = r > 5 ? sqrt((r - 4) * (r - 2) * limit / ((limit - 4) * (limit - 2) * r)) * sqrt(1 - b2t)
                 : 0;
    k[7] = c->eps;
}

static void fill(const struct optim_config *c, struct optim_count *count, double lr, double *k)
{
    double t = (double)count->steps;
    bool is_first = count->steps == 1;
    k[0] = lr;
    k[1] = c->is_decoupled ? 0 : c->weight_decay;
    switch (c->kind) {
    case OPS_SGD:
        k[2] = is_first ? 0 : c->momentum;
        k[3] = is_first ? 1 : 1 - c->dampening;
        k[4] = c->momentum;
        break;
    case OPS_ADAM:
        betas(c, k);
        k[0] = lr / (1 - pow(c->beta1, t));
        k[6] = sqrt(1 - pow(c->beta2, t));
        k[7] = c->eps;
        k[8] = c->is_decoupled ? 1 - lr * c->weight_decay : 1;
        break;
    case OPS_RMSPROP:
        k[2] = c->alpha;
        k[3] = 1 - c->alpha;
        k[4] = c->eps;
        k[5] = c->momentum;
        break;
    case OPS_ADAGRAD:
        k[0] = lr / (1 + (t - 1) * c->lr_decay);
        k[2] = c->eps;
        break;
    case OPS_ADADELTA:
        k[2] = c->rho;
        k[3] = 1 - c->rho;
        k[4] = c->eps;
        break;
    case OPS_ADAMAX:
        k[0] = lr / (1 - pow(c->beta1, t));
        k[2] = c->beta1;
        k[3] = 1 - c->beta1;
        k[4] = c->beta2;
        k[5] = c->eps;
        break;
    case OPS_NADAM:
        nadam(c, count, lr, k);
        break;
    case OPS_RADAM:
        radam(c, t, lr, k);
        break;
    case OPS_LARS:
        k[2] = is_first ? 0 : c->momentum;
        k[3] = c->eeta;
        k[4] = c->eps;
        break;
    case OPS_LAMB:
        betas(c, k);
        k[6] = c->bias_correction ? 1 - pow(c->beta1, t) : 1;
        k[7] = c->bias_correction ? 1 - pow(c->beta2, t) : 1;
        k[8] = c->eps;
        break;
    }
}

void optim_step(const struct optim_config *config, struct optim_count *count, double lr,
                float scalars[OPS_UPDATE_SCALARS])
{
    double k[OPS_UPDATE_SCALARS] = {0};
    count->steps++;
    fill(config, count, lr, k);
    k[11] = config->maximize ? -1 : 1;
    for (int i = 0; i < OPS_UPDATE_SCALARS; i++)
        scalars[i] = (float)k[i];
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
