/* golden_gan.c - the unrolled GAN: the generator is trained through K differentiable Adam steps of
 * the discriminator. Second derivatives, versions of weights as values. One trace per update. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dev/golden.h"
#include "grad/grad.h"

#define LAYERS 3
#define PARAMS 6 /* weight, bias of each layer */
#define MAX_UNROLL 60

#define NET_IDS (3 * PARAMS)

union net {
    struct {
        tensor_id p[PARAMS], m[PARAMS], v[PARAMS];
    };
    tensor_id all[NET_IDS];
};

struct gan {
    struct dev_run run;
    struct tensor_session *s; /* the run's */
    const struct ebb_doc_node *doc;
    struct dev_tensors *t;
    int64_t unroll;
    const struct tensor_entry *noises, *reals;
    double lr_d, lr_g, beta1, beta2, eps;
    union net d, gen; /* leaves */
    union net d1, g1; /* after the update */
    tensor_id noise, real, powers, d_loss, g_loss, grad0[PARAMS];
};

static const char *const parts[PARAMS] = {"map1.weight", "map1.bias",   "map2.weight",
                                          "map2.bias",   "map3.weight", "map3.bias"};

static tensor_id call(struct gan *a, const char *name, const tensor_id *in, size_t n)
{
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    tensor_id out[TENSOR_PORTS];
    struct ebb_error err = {.status = EBB_OK};
    size_t count = 0;
    const struct ops_def *def = ops_find(name);
    if (ops_parse(def, NULL, attr, &err) != EBB_OK)
        return tensor_fail(a->s, err.status, "%s", err.message);
    ops_call(a->s, def, in, n, attr, out, &count);
    return count ? out[0] : TENSOR_NONE;
}

static tensor_id mlp(struct gan *a, const tensor_id *p, tensor_id x)
{
    for (int k = 0; k < LAYERS; k++) {
        x = call(a, "linear", (tensor_id[]){x, p[2 * k], p[2 * k + 1]}, 3);
        if (k < LAYERS - 1)
            x = call(a, "relu", &x, 1);
    }
    return x;
}

/* -mean(log x) or -mean(log(1 - x)) of the discriminator's verdict */
static tensor_id verdict(struct gan *a, const tensor_id *d, tensor_id x, bool is_real)
{
    tensor_id logits = mlp(a, d, x), y = call(a, "sigmoid", &logits, 1);
    if (!is_real)
        y = ops_add_scalar(a->s, ops_neg(a->s, y), 1.0f);
    tensor_id l = call(a, "log", &y, 1);
    return ops_neg(a->s, call(a, "mean", &l, 1));
}

/* Row k of a leaf [rows, ...] as a view. */
static tensor_id row(struct gan *a, tensor_id x, int64_t k)
{
    const struct tensor_view v = *tensor_view_of(a->s, x);
    tensor_id in = x, out[TENSOR_PORTS];
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    char text[96];
    struct ebb_error err = {.status = EBB_OK};
    const struct ebb_doc_node *map;
    size_t count = 0;
    snprintf(text, sizeof text, "{\"ranges\": [[0, %lld, %lld, 1]]}", (long long)k,
             (long long)k + 1);
    if (ebb_doc_parse_json(&a->run.j->arena, "row", text, strlen(text), &map, &err) != EBB_OK ||
        ops_parse(ops_find("slice"), map, attr, &err) != EBB_OK)
        return tensor_fail(a->s, err.status, "%s", err.message);
    ops_call(a->s, ops_find("slice"), &in, 1, attr, out, &count);
    return ops_reshape(a->s, out[0], v.rank - 1, v.dims + 1);
}

/* powers[j] = (1/(1 - beta1^t), 1/(1 - beta2^t)) of the j-th use of the count, given per update. */
static tensor_id power(struct gan *a, int64_t j, int which)
{
    return ops_reshape(a->s,
                       row(a, ops_reshape(a->s, row(a, a->powers, j), 2, (int64_t[]){2, 1}), which),
                       0, NULL);
}

static tensor_id adam(struct gan *a, tensor_id p, tensor_id g, tensor_id *m, tensor_id *v,
                      int64_t count, double lr)
{
    struct tensor_session *s = a->s;
    *m = ops_add(s, ops_mul_scalar(s, *m, (float)a->beta1),
                 ops_mul_scalar(s, g, (float)(1 - a->beta1)));
    *v = ops_add(s, ops_mul_scalar(s, *v, (float)a->beta2),
                 ops_mul_scalar(s, ops_mul(s, g, g), (float)(1 - a->beta2)));
    tensor_id root = ops_sqrt(s, ops_mul(s, *v, power(a, count, 1)));
    tensor_id step =
        ops_div(s, ops_mul(s, *m, power(a, count, 0)), ops_add_scalar(s, root, (float)a->eps));
    return ops_sub(s, p, ops_mul_scalar(s, step, (float)lr));
}

static void step_net(struct gan *a, union net *n, const tensor_id *g, int64_t count, double lr)
{
    for (int i = 0; i < PARAMS; i++)
        n->p[i] = adam(a, n->p[i], g[i], &n->m[i], &n->v[i], count, lr);
}

static tensor_id d_loss(struct gan *a, const tensor_id *d, tensor_id real, tensor_id fake)
{
    return ops_add(a->s, verdict(a, d, real, true), verdict(a, d, fake, false));
}

/* Use of the counts: 0 plain D step, 1..K unrolled, K+1 the generator. */
static enum ebb_status build(struct gan *a, struct ebb_error *err)
{
    tensor_id g[PARAMS];
    a->d1 = a->d;
    a->g1 = a->gen;
    a->d_loss = d_loss(a, a->d.p, row(a, a->real, 0), mlp(a, a->gen.p, row(a, a->noise, 0)));
    EBB_TRY(grad_backward(a->s, &a->d_loss, NULL, 1, a->d.p, PARAMS, g, err));
    step_net(a, &a->d1, g, 0, a->lr_d);
    union net u; /* the plain step is no part of what the generator is trained through */
    for (size_t i = 0; i < NET_IDS; i++)
        u.all[i] = ops_detach(a->s, a->d1.all[i]);
    for (int64_t k = 1; k <= a->unroll; k++) {
        tensor_id loss = d_loss(a, u.p, row(a, a->real, k), mlp(a, a->gen.p, row(a, a->noise, k)));
        EBB_TRY(grad_backward(a->s, &loss, NULL, 1, u.p, PARAMS, g, err));
        step_net(a, &u, g, k, a->lr_d);
    }
    a->g_loss = verdict(a, u.p, mlp(a, a->gen.p, row(a, a->noise, a->unroll + 1)), true);
    EBB_TRY(grad_backward(a->s, &a->g_loss, NULL, 1, a->gen.p, PARAMS, a->grad0, err));
    step_net(a, &a->g1, a->grad0, a->unroll + 1, a->lr_g);
    return tensor_status(a->s, err);
}

static bool leaves(struct gan *a)
{
    const struct tensor_entry *noise = a->noises, *real = a->reals;
    int64_t steps = ebb_doc_int(a->doc, "steps", 10);
    if (!noise || !real || noise->view.rank != 4 || real->view.rank != 4 ||
        noise->view.dtype != TENSOR_F32 || real->view.dtype != TENSOR_F32 || steps < 1 ||
        noise->view.dims[0] < steps || real->view.dims[0] < steps ||
        noise->view.dims[1] < a->unroll + 2 || real->view.dims[1] < a->unroll + 1)
        return false;
    a->noise = tensor_leaf(a->s, TENSOR_F32, 3, noise->view.dims + 1, "noise");
    a->real = tensor_leaf(a->s, TENSOR_F32, 3, real->view.dims + 1, "real");
    a->powers = tensor_leaf(a->s, TENSOR_F32, 2, (int64_t[]){a->unroll + 2, 2}, "powers");
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < PARAMS; i++) {
            union net *n = k ? &a->gen : &a->d;
            const struct tensor_entry *e = dev_find(a->t, "init/%c.%s", k ? 'G' : 'D', parts[i]);
            if (!e || e->view.dtype != TENSOR_F32)
                return false;
            n->p[i] = dev_leaf(&a->run, e, parts[i]);
            n->m[i] = dev_leaf(&a->run, e, "exp_avg");
            n->v[i] = dev_leaf(&a->run, e, "exp_avg_sq");
        }
    return true;
}

static void keep_net(struct gan *a, union net *n)
{
    for (size_t i = 0; i < NET_IDS; i++)
        tensor_keep(a->s, n->all[i]);
}

static void carry_net(struct gan *a, const union net *from, const union net *to)
{
    for (size_t i = 0; i < NET_IDS; i++) {
        struct tensor_view v;
        const void *data = dev_read(&a->run, from->all[i], &v);
        dev_fill(&a->run, to->all[i], data, (size_t)tensor_count(&v) * sizeof(float));
    }
}

static void start_values(struct gan *a)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < PARAMS; i++) {
            const union net *n = k ? &a->gen : &a->d;
            const struct tensor_entry *e = dev_find(a->t, "init/%c.%s", k ? 'G' : 'D', parts[i]);
            dev_fill(&a->run, n->p[i], e->data, e->bytes);
            memset(dev_bytes(&a->run, n->m[i]), 0, e->bytes);
            memset(dev_bytes(&a->run, n->v[i]), 0, e->bytes);
        }
}

static void step_values(struct gan *a, int64_t step)
{
    const struct tensor_entry *noise = a->noises, *real = a->reals;
    float powers[MAX_UNROLL + 2][2];
    size_t nb = noise->bytes / (size_t)noise->view.dims[0];
    size_t rb = real->bytes / (size_t)real->view.dims[0];
    for (int64_t j = 0; j < a->unroll + 2; j++) {
        double t = (double)(step + 1 + (j <= a->unroll ? j : 0));
        powers[j][0] = (float)(1 / (1 - pow(a->beta1, t)));
        powers[j][1] = (float)(1 / (1 - pow(a->beta2, t)));
    }
    dev_fill(&a->run, a->noise, (const unsigned char *)noise->data + (size_t)step * nb, nb);
    dev_fill(&a->run, a->real, (const unsigned char *)real->data + (size_t)step * rb, rb);
    dev_fill(&a->run, a->powers, powers, (size_t)(a->unroll + 2) * sizeof *powers);
}

static void compare_nets(struct gan *a, const char *kind, bool is_grad)
{
    for (int k = is_grad; k < 2; k++)
        for (int i = 0; i < PARAMS; i++) {
            char part[64];
            struct tensor_view v;
            snprintf(part, sizeof part, "%s/%c.%s", kind, k ? 'G' : 'D', parts[i]);
            const struct tensor_entry *want = dev_find(a->t, "%s_f64", part);
            tensor_id id = is_grad ? a->grad0[i] : k ? a->g1.p[i] : a->d1.p[i];
            const void *data = dev_read(&a->run, id, &v);
            if (want)
                dev_compare(a->run.j, part, &v, data, want, (struct dev_limit){.atol_max = 1e-5});
            else
                dev_refuse(a->run.j, "%s: no reference", part);
        }
}

static void run(struct gan *a)
{
    int64_t steps = ebb_doc_int(a->doc, "steps", 10);
    keep_net(a, &a->d1);
    keep_net(a, &a->g1);
    tensor_keep(a->s, a->d_loss);
    tensor_keep(a->s, a->g_loss);
    for (int i = 0; i < PARAMS; i++)
        tensor_keep(a->s, a->grad0[i] = ops_contiguous(a->s, a->grad0[i]));
    if (!dev_run_finish(&a->run))
        return;
    start_values(a);
    for (int64_t t = 0; t < steps; t++) {
        step_values(a, t);
        if (!dev_run_go(&a->run))
            return;
        dev_compare_record(&a->run, a->doc, a->d_loss, "d_loss_f64", t, 1e-5);
        dev_compare_record(&a->run, a->doc, a->g_loss, "g_loss_f64", t, 1e-5);
        if (t == 0)
            compare_nets(a, "grad0", true);
        carry_net(a, &a->d1, &a->d);
        carry_net(a, &a->g1, &a->gen);
    }
    compare_nets(a, "final", false);
}

void dev_gan(struct dev_judge *g, const struct ebb_doc_node *doc, struct dev_tensors *t)
{
    const struct ebb_doc_node *d = ebb_doc_get(doc, "adam_d"), *gen = ebb_doc_get(doc, "adam_g");
    const struct ebb_doc_node *betas = dev_numbers(d, "betas");
    struct gan a = {.doc = doc,
                    .t = t,
                    .unroll = ebb_doc_int(doc, "K", 0),
                    .noises = dev_find(t, "data/noise"),
                    .reals = dev_find(t, "data/real"),
                    .lr_d = ebb_doc_double(d, "lr", 0),
                    .lr_g = ebb_doc_double(gen, "lr", 0),
                    .eps = ebb_doc_double(d, "eps", 1e-8)};
    struct ebb_error err = {.status = EBB_OK};
    if (!betas || betas->count != 2 || a.unroll < 0 || a.unroll > MAX_UNROLL) {
        dev_refuse(g, "betas or K (0 to %d) are missing", MAX_UNROLL);
        return;
    }
    a.beta1 = betas->items[0]->number;
    a.beta2 = betas->items[1]->number;
    if (!dev_run_begin(&a.run, g))
        return;
    a.s = a.run.s;
    if (!leaves(&a))
        dev_refuse(g, "tensors are missing, or have other shapes than K and steps say");
    else if (build(&a, &err) != EBB_OK)
        dev_refuse(g, "%s", err.message);
    else
        run(&a);
    dev_run_end(&a.run);
}
