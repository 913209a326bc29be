/* gan.c - the unrolled GAN: the generator is trained through K differentiable Adam steps of the
 * discriminator.
 *
 * One update: a plain step of D (its weights and moments are changed in place, by the model
 * itself), then K steps of a copy of D whose weights are values of the graph, then the loss of G
 * against the last of them. Updating G is the optimizer's business. Needs second derivatives. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "grad/grad.h"
#include "nn/internal.h"

#define LAYERS 3
#define PARAMS 6 /* weight, bias of each layer */
#define MODES 8  /* Gaussians of the data */

struct gan {
    int64_t noise, hidden, unroll;
    double lr, beta1, beta2, eps; /* of D */
};

struct net {
    tensor_id p[PARAMS], m[PARAMS], v[PARAMS];
};

/* ---- inputs --------------------------------------------------------------------------------- */

static size_t inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct gan *g = (const void *)config->bytes;
    nn_port_set(&ports[0], "noise", NN_FLOATS, true, 3,
                (int64_t[]){g->unroll + 2, batch, g->noise});
    nn_port_set(&ports[1], "real", NN_FLOATS, true, 3, (int64_t[]){g->unroll + 1, batch, 2});
    nn_port_set(&ports[2], "powers", NN_SCALARS, true, 2, (int64_t[]){g->unroll + 1, 2});
    nn_port_set(&ports[3], "scalars", NN_SCALARS, true, 1, (int64_t[]){OPS_UPDATE_SCALARS});
    return 4;
}

/* Points near MODES places on a circle of radius 2, whose shares are random but fixed. */
static void make_points(uint64_t seed, int64_t update, size_t count, float *y)
{
    float share[MODES], sum = 0;
    nn_philox_uniform(123456, 0, 0, 3, MODES, share);
    for (int i = 0; i < MODES; i++)
        sum += share[i];
    nn_philox_normal(seed, 1, (uint32_t)update, 2, 2 * count, y);
    for (size_t r = 0; r < count; r++) {
        float u;
        int mode = 0;
        nn_philox_uniform(seed, (uint32_t)(r + 2), (uint32_t)update, 2, 1, &u);
        for (u *= sum; mode + 1 < MODES && u >= share[mode]; mode++)
            u -= share[mode];
        double angle = 2.0 * M_PI * mode / MODES;
        y[2 * r] = (float)(2.0 * cos(angle)) + 0.02f * y[2 * r];
        y[2 * r + 1] = (float)(2.0 * sin(angle)) + 0.02f * y[2 * r + 1];
    }
}

static void make_scalars(const struct gan *g, int64_t update, float *k)
{
    double t = (double)update + 1;
    const struct ops_scalars v = {.rate = g->lr / (1 - pow(g->beta1, t)),
                                  .beta1 = g->beta1,
                                  .rest1 = 1 - g->beta1,
                                  .beta2 = g->beta2,
                                  .rest2 = 1 - g->beta2,
                                  .root2 = sqrt(1 - pow(g->beta2, t)),
                                  .eps = g->eps,
                                  .keep = 1,
                                  .sign = 1};
    ops_update_scalars(OPS_ADAM, &v, k);
}

static void generate(const struct nn_config *config, const struct nn_port *port, uint64_t seed,
                     int64_t update, void *dst)
{
    const struct gan *g = (const void *)config->bytes;
    float *y = dst;
    size_t n = (size_t)tensor_count(&port->view);
    if (strcmp(port->name, "noise") == 0) {
        nn_philox_normal(seed, 0, (uint32_t)update, 2, n, y);
    } else if (strcmp(port->name, "real") == 0) {
        make_points(seed, update, n / 2, y);
    } else if (strcmp(port->name, "scalars") == 0) {
        make_scalars(g, update, y);
    } else {
        for (int64_t j = 0; j <= g->unroll; j++) { /* row j: the count after j + 1 more steps */
            double t = (double)(update + 1 + j);
            y[2 * j] = (float)(1 / (1 - pow(g->beta1, t)));
            y[2 * j + 1] = (float)(1 / (1 - pow(g->beta2, t)));
        }
    }
}

/* ---- networks ------------------------------------------------------------------------------- */

static void parameters(struct nn_builder *b, const struct gan *g, const char *name, bool is_d,
                       tensor_id *p)
{
    int64_t width[LAYERS + 1] = {is_d ? 2 : g->noise, g->hidden, g->hidden, is_d ? 1 : 2};
    nn_push(b, "%s", name);
    for (int k = 0; k < LAYERS; k++) {
        nn_push(b, "map%d", k + 1);
        p[2 * k] = nn_parameter(b, "weight", NN_WEIGHT, 2, (int64_t[]){width[k + 1], width[k]},
                                nn_init_default(width[k]));
        p[2 * k + 1] =
            nn_parameter(b, "bias", NN_BIAS, 1, &width[k + 1], nn_init_default(width[k]));
        nn_pop(b);
    }
    nn_pop(b);
}

/* The moments of D belong to the model: they are buffers. */
static void moments(struct nn_builder *b, struct net *d)
{
    static const char *const parts[] = {"weight", "bias"};
    for (int i = 0; i < PARAMS; i++) {
        const struct tensor_view v = *tensor_view_of(b->session, d->p[i]);
        nn_push(b, "D.map%d.%s", i / 2 + 1, parts[i % 2]);
        d->m[i] = nn_buffer(b, "exp_avg", TENSOR_F32, v.rank, v.dims, 0);
        d->v[i] = nn_buffer(b, "exp_avg_sq", TENSOR_F32, v.rank, v.dims, 0);
        nn_pop(b);
    }
}

static tensor_id mlp(struct nn_builder *b, const tensor_id *p, tensor_id x)
{
    for (int k = 0; k < LAYERS; k++) {
        x = nn_op(b, "linear", 3, (tensor_id[]){x, p[2 * k], p[2 * k + 1]}, NULL, NULL);
        if (k < LAYERS - 1)
            x = nn_activate(b, NN_RELU, x);
    }
    return nn_full(b, x);
}

/* -mean(log x), or -mean(log(1 - x)), of the discriminator's verdicts x. */
static tensor_id surprise(struct nn_builder *b, tensor_id x, bool is_real)
{
    struct tensor_session *s = b->session;
    if (tensor_status(s, NULL) != EBB_OK)
        return TENSOR_NONE;
    if (!is_real)
        x = ops_add_scalar(s, ops_neg(s, x), 1.0f);
    tensor_id l = nn_op(b, "log", 1, &x, NULL, NULL), mean = nn_op(b, "mean", 1, &l, NULL, NULL);
    return tensor_status(s, NULL) == EBB_OK ? ops_neg(s, mean) : TENSOR_NONE;
}

static tensor_id verdicts(struct nn_builder *b, const tensor_id *d, tensor_id x)
{
    return nn_activate(b, NN_SIGMOID, mlp(b, d, x));
}

/* Both kinds go through D together: one product per layer, and one gradient per weight. */
static tensor_id d_loss(struct nn_builder *b, const tensor_id *d, tensor_id real, tensor_id fake)
{
    int64_t n = nn_dim(b, real, 0);
    tensor_id y = verdicts(b, d, nn_cat(b, 2, (tensor_id[]){real, fake}, 0));
    tensor_id x = surprise(b, nn_slice(b, y, 0, 0, n), true);
    tensor_id z = surprise(b, nn_slice(b, y, 0, n, 2 * n), false);
    return tensor_status(b->session, NULL) == EBB_OK ? ops_add(b->session, x, z) : TENSOR_NONE;
}

static tensor_id row(struct nn_builder *b, tensor_id x, int64_t k)
{
    const struct tensor_view v = *tensor_view_of(b->session, x);
    if (tensor_status(b->session, NULL) != EBB_OK)
        return TENSOR_NONE;
    return nn_reshape(b, nn_slice(b, x, 0, k, k + 1), v.rank - 1, v.dims + 1);
}

/* ---- steps of D ----------------------------------------------------------------------------- */

/* In place, by the op of the optimizers. */
static void plain_step(struct nn_builder *b, struct net *d, const tensor_id *g, tensor_id scalars)
{
    static const char *const parts[] = {"weight", "bias"};
    for (int i = 0; i < PARAMS && tensor_status(b->session, NULL) == EBB_OK; i++) {
        tensor_id out[3];
        ops_update(b->session, OPS_ADAM, 0, scalars, g[i], d->p[i], (tensor_id[]){d->m[i], d->v[i]},
                   2, out);
        nn_push(b, "D.map%d", i / 2 + 1);
        nn_replace(b, parts[i % 2], d->p[i] = out[0]);
        nn_push(b, "%s", parts[i % 2]);
        nn_replace(b, "exp_avg", d->m[i] = out[1]);
        nn_replace(b, "exp_avg_sq", d->v[i] = out[2]);
        nn_pop(b);
        nn_pop(b);
    }
}

/* As values: new weights from old, differentiable. power: (1/(1-b1^t), 1/(1-b2^t)). */
static void value_step(struct nn_builder *b, const struct gan *c, struct net *d, const tensor_id *g,
                       tensor_id power)
{
    const double betas[2] = {c->beta1, c->beta2};
    for (int i = 0; i < PARAMS && tensor_status(b->session, NULL) == EBB_OK; i++) {
        tensor_id out[3];
        ops_adam_step(b->session, betas, (float)c->lr, (float)c->eps,
                      (tensor_id[]){d->p[i], d->m[i], d->v[i]}, g[i], power, out);
        d->p[i] = out[0];
        d->m[i] = out[1];
        d->v[i] = out[2];
    }
}

static bool gradients(struct nn_builder *b, tensor_id loss, const tensor_id *p, tensor_id *g)
{
    struct ebb_error err = {.status = EBB_OK};
    if (tensor_status(b->session, NULL) != EBB_OK)
        return false;
    if (grad_backward(b->session, &loss, NULL, 1, p, PARAMS, g, &err) != EBB_OK)
        tensor_fail(b->session, err.status, "%s", err.message);
    tensor_set_phase(b->session, TRACE_FORWARD); /* G's backward pass is yet to come */
    return tensor_status(b->session, NULL) == EBB_OK;
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    const struct gan *c = (const void *)config->bytes;
    tensor_id noise = in[0], real = in[1], powers = in[2], gen[PARAMS], g[PARAMS];
    struct net d;
    parameters(b, c, "G", false, gen);
    size_t first = nn_item_count(b);
    int64_t tile = b->mode.tile;
    b->mode.tile = 0; /* gradients are asked of whole weights below */
    parameters(b, c, "D", true, d.p);
    b->mode.tile = tile;
    nn_own(b, first);
    moments(b, &d);
    tensor_id fakes = mlp(b, gen, noise);
    tensor_id plain = d_loss(b, d.p, row(b, real, 0), row(b, fakes, 0));
    if (b->mode.is_training && gradients(b, plain, d.p, g)) {
        plain_step(b, &d, g, in[3]);
        for (int i = 0; i < PARAMS && tensor_status(b->session, NULL) == EBB_OK; i++) {
            d.p[i] = ops_detach(b->session, d.p[i]);
            d.m[i] = ops_detach(b->session, d.m[i]);
            d.v[i] = ops_detach(b->session, d.v[i]);
        }
        /* G's points for all steps at once: few numbers, and on the way back G's weights come last,
         * when nothing of D's steps is left. */
        for (int64_t k = 1; k <= c->unroll; k++) {
            tensor_id loss = d_loss(b, d.p, row(b, real, k), row(b, fakes, k));
            if (!gradients(b, loss, d.p, g))
                break;
            value_step(b, c, &d, g, row(b, powers, k));
        }
    }
    tensor_id loss = surprise(b, verdicts(b, d.p, row(b, fakes, c->unroll + 1)), true);
    out[0] = (struct nn_output){.name = "g_loss", .kind = NN_LOSS, .id = loss};
    out[1] = (struct nn_output){.name = "d_loss", .kind = NN_METRIC, .id = plain};
    return 2;
}

static const struct ebb_key options[] = {
    NN_OPTION_INT(gan, noise, 1, 65536, "width of the generator's input"),
    NN_OPTION_INT(gan, hidden, 1, 65536, "width of the hidden layers"),
    NN_OPTION_INT(gan, unroll, 0, 1000, "differentiable steps of the discriminator"),
    NN_OPTION_FLOAT(gan, lr, 0, 1, "learning rate of the discriminator"),
    NN_OPTION_FLOAT(gan, beta1, 0, 0.999999, "first decay of the discriminator's Adam"),
    NN_OPTION_FLOAT(gan, beta2, 0, 0.999999999, "second decay of the discriminator's Adam"),
    NN_OPTION_FLOAT(gan, eps, 0, 1, "eps of the discriminator's Adam"),
};
#define GAN(noise_, hidden_, unroll_)                                                              \
    (&(const struct gan){.noise = noise_,                                                          \
                         .hidden = hidden_,                                                        \
                         .unroll = unroll_,                                                        \
                         .lr = 1e-4,                                                               \
                         .beta1 = 0.5,                                                             \
                         .beta2 = 0.999,                                                           \
                         .eps = 1e-8})
#define ROW(text, about, noise_, hidden_, unroll_, ...)                                            \
    {                                                                                              \
        NN_ROW(text, NN_GAN, about, options, gan, inputs, build, GAN(noise_, hidden_, unroll_)),   \
            .generate = generate, NN_ALIASES(__VA_ARGS__)                                          \
    }

static const struct nn_model rows[] = {
    ROW("unrolled_gan", "generator trained through 10 steps of its discriminator", 256, 512, 10,
        "unroll_gan", NULL),
    ROW("unrolled_gan_large", "generator trained through 60 steps of its discriminator", 4096, 2048,
        60, NULL),
};

const struct nn_family nn_gan_family = {rows, sizeof rows / sizeof *rows};
