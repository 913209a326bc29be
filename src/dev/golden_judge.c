/* golden_judge.c - what a small training gave against its reference.
 *
 * Where a gradient is zero in exact arithmetic (a bias before a normalisation), optimizers that
 * divide by its size make full steps of noise: two such steps per update may lie between two runs.
 * The loss does not depend on them, but running means do. So where a buffer is off, the training is
 * run again with such weights moved as far as they may be, and what that makes of the buffers is
 * allowed on top of their tolerance. */
#include "dev/golden_model.h"

#include <math.h>
#include <stdio.h>

#define NOISE 1e-6 /* of the largest gradient */

/* Largest reference of a kind over all parameters: what is zero in exact arithmetic is noise in the
 * reference, and may be other noise here. */
static double largest(const struct dev_model *m, const char *kind)
{
    double most = 0;
    for (size_t i = 0; i < m->param_count; i++) {
        const struct tensor_entry *e = dev_find(m->tensors, "%s/%s", kind, m->params[i].name);
        for (int64_t k = 0; e && k < tensor_count(&e->view); k++)
            most = fmax(most, fabs(dev_value(e, k)));
    }
    return most;
}

static void compare_tensor(struct dev_model *m, tensor_id id, const char *kind, const char *name,
                           double tolerance, double floor)
{
    char part[192];
    struct tensor_view view;
    const struct tensor_entry *want = dev_find(m->tensors, "%s/%s_f64", kind, name);
    if (!want)
        want = dev_find(m->tensors, "%s/%s", kind, name);
    snprintf(part, sizeof part, "%s/%s", kind, name);
    if (!want) {
        dev_refuse(m->g, "%s: no reference", part);
        return;
    }
    const void *data = dev_read(&m->run, id, &view);
    dev_compare(m->g, part, &view, data, want,
                (struct dev_limit){.atol_max = tolerance, .atol = floor});
}

/* Rates that one update may move a weight by, however small its gradient is. */
static double reach(const struct optim_config *c)
{
    if (c->kind != OPS_RMSPROP || c->alpha >= 1 || c->momentum >= 1)
        return 1;
    return 1 / (sqrt(1 - c->alpha) * (1 - c->momentum));
}

void dev_model_begin(struct dev_model *m)
{
    m->noise = NOISE * largest(m, "grad0");
    m->drift = 0;
    for (int64_t t = 0; t < m->steps; t++)
        m->drift += 2 * reach(&m->config) * dev_rate(m, t);
    for (size_t i = 0; i < m->param_count; i++) {
        struct dev_item *x = &m->params[i];
        x->first_grad = dev_find(m->tensors, "grad0/%s", x->name);
        if (!x->first_grad || !tensor_same_shape(&x->first_grad->view, &x->start->view))
            tensor_fail(m->run.s, EBB_EINPUT, "grad0/%s: no reference of that shape", x->name);
    }
}

void dev_model_step(struct dev_model *m, int64_t step)
{
    const struct ebb_doc_node *watch = ebb_doc_get(m->train, "watch");
    dev_compare_record(&m->run, m->doc, m->loss, "loss_f64", step, 1e-5);
    if (step == 0) /* later ones follow the weights, which are compared at the end */
        dev_compare_record(&m->run, m->doc, m->norm, "grad_norm_f64", step, 1e-4);
    for (size_t i = 0; step == 0 && i < m->param_count; i++)
        compare_tensor(m, m->params[i].grad, "grad0", m->params[i].name, 1e-4, m->noise);
    for (size_t i = 0; step == 0 && i < m->watch_count; i++)
        compare_tensor(m, m->watch[i], "watch", dev_text(watch->items[i]), 1e-5, 0);
}

/* ---- at the end ----------------------------------------------------------------------------- */

/* How much of a gradient may be noise: optimizers that divide by its size turn that relative error
 * into one of the step. */
static double noise_share(const struct dev_model *m, const struct dev_item *x, int64_t k)
{
    double size = x->first_grad ? fabs(dev_value(x->first_grad, k)) : INFINITY;
    return size <= m->noise ? 1 : m->noise / size;
}

/* Whether the result is within room, and the share of drift that noise may have moved it. */
static bool judge_item(struct dev_model *m, const struct dev_item *x, const char *kind, double room,
                       bool is_last)
{
    const struct tensor_entry *want = dev_find(m->tensors, "%s/%s", kind, x->name);
    if (!want || !tensor_same_shape(&want->view, &x->start->view)) {
        dev_refuse(m->g, "%s/%s: no reference of that shape", kind, x->name);
        return true;
    }
    for (int64_t k = 0; k < tensor_count(&want->view); k++) {
        double off = fabs((double)x->result[k] - dev_value(want, k));
        if (off <= room + m->drift * noise_share(m, x, k))
            continue;
        if (is_last)
            dev_fail(m->g, "%s/%s: element %lld is %.9g, expected %.9g, off by %.3g of %.3g", kind,
                     x->name, (long long)k, (double)x->result[k], dev_value(want, k), off, room);
        return false;
    }
    return true;
}

void dev_model_weights(struct dev_model *m)
{
    double room = 2e-4 * largest(m, "final");
    for (size_t i = 0; i < m->param_count; i++)
        judge_item(m, &m->params[i], "final", room, true);
}

bool dev_model_buffers(struct dev_model *m, bool is_last)
{
    bool ok = true;
    for (size_t i = 0; i < m->buffer_count; i++) {
        const struct dev_item *x = &m->buffers[i];
        const struct tensor_entry *want = dev_find(m->tensors, "finalbuf/%s", x->name);
        double most = 0;
        for (int64_t k = 0; want && k < tensor_count(&want->view); k++)
            most = fmax(most, fabs(dev_value(want, k)));
        ok &= judge_item(m, x, "finalbuf", 1e-4 * most + x->spread, is_last);
    }
    return ok;
}
