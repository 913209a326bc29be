/* golden_optim.c - optim.json, lr.json, amp.json: optimizers replay recorded gradients; rates;
 * 16-bit floats and loss scales. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "dev/golden.h"
#include "optim/optim.h"

/* ---- optimizers ----------------------------------------------------------------------------- */

#define MAX_STEPS 100000

struct replay { /* one parameter of one case */
    struct dev_run run;
    const struct dev_tensors *tensors;
    const struct optim_config *config;
    const char *name, *p; /* of the case, of the parameter */
    tensor_id scalars, grad, w, states[OPS_UPDATE_STATES];
    size_t state_count;
    float *path; /* [steps + 1, n] */
};

static bool replay_steps(struct replay *r, const struct tensor_entry *grad, int64_t steps)
{
    struct optim_count count = {0};
    size_t bytes = grad->bytes / (size_t)steps;
    float scalars[OPS_UPDATE_SCALARS];
    const void *w = dev_bytes(&r->run, r->w);
    memcpy(r->path, w, bytes);
    for (int64_t t = 0; t < steps; t++) {
        optim_step(r->config, &count, r->config->lr, scalars);
        dev_fill(&r->run, r->scalars, scalars, sizeof scalars);
        dev_fill(&r->run, r->grad, (const unsigned char *)grad->data + (size_t)t * bytes, bytes);
        if (!dev_run_go(&r->run))
            return false;
        memcpy((unsigned char *)r->path + (size_t)(t + 1) * bytes, w, bytes);
    }
    return true;
}

static void check_replay(struct replay *r, const struct tensor_entry *want, double tolerance)
{
    char part[96];
    struct dev_limit limit = {.rtol = 0, .atol_max = tolerance};
    struct tensor_view view = want->view;
    view.dtype = TENSOR_F32;
    snprintf(part, sizeof part, "traj_%s", r->p);
    dev_compare(r->run.j, part, &view, r->path, want, limit);
    for (size_t i = 0; i < r->state_count; i++) {
        snprintf(part, sizeof part, "state_%s_%s", r->p, optim_state_name(r->config, i));
        want = dev_find(r->tensors, "%s/%s", r->name, part);
        if (!want) {
            dev_fail(r->run.j, "no reference for %s", part);
            return;
        }
        limit.atol_max = fmax(tolerance, 1e-5);
        dev_compare(r->run.j, part, tensor_view_of(r->run.s, r->states[i]),
                    dev_bytes(&r->run, r->states[i]), want, limit);
    }
}

/* The trace of one update, run once per step. */
static void replay(struct replay *r, const struct tensor_entry *init,
                   const struct tensor_entry *grad, const struct tensor_entry *want, int64_t steps)
{
    const struct optim_config *config = r->config;
    tensor_id out[1 + OPS_UPDATE_STATES];
    int64_t scalar_dims[1] = {OPS_UPDATE_SCALARS};
    r->scalars = tensor_leaf(r->run.s, TENSOR_F32, 1, scalar_dims, "scalars");
    r->grad = dev_leaf(&r->run, init, "gradient");
    r->w = dev_leaf(&r->run, init, "w");
    for (size_t i = 0; i < r->state_count; i++)
        r->states[i] = dev_leaf(&r->run, init, optim_state_name(config, i));
    ops_update(r->run.s, config->kind, optim_flags(config), r->scalars, r->grad, r->w, r->states,
               r->state_count, out);
    if (!dev_run_finish(&r->run))
        return;
    dev_fill(&r->run, r->w, init->data, init->bytes);
    for (size_t i = 0; i < r->state_count; i++) {
        float *state = dev_bytes(&r->run, r->states[i]);
        for (size_t k = 0; k < init->bytes / sizeof(float); k++)
            state[k] = optim_state_initial(config, i);
    }
    if (replay_steps(r, grad, steps))
        check_replay(r, want, config->centered ? 1e-5 : 2e-6);
}

static void run_parameter(struct dev_judge *j, const struct dev_tensors *t,
                          const struct ebb_doc_node *doc, const struct optim_config *config,
                          const char *p)
{
    struct replay r = {.tensors = t,
                       .config = config,
                       .name = ebb_doc_string(doc, "name", "?"),
                       .p = p,
                       .state_count = optim_state_count(config)};
    const struct tensor_entry *init = dev_find(t, "problem/%s_init", p);
    const struct tensor_entry *grad = dev_find(t, "%s/grad_%s", r.name, p);
    const struct tensor_entry *want = dev_find(t, "%s/traj_%s_f64", r.name, p);
    int64_t steps = ebb_doc_int(doc, "steps", 20);
    if (!init || !grad || !want || init->view.dtype != TENSOR_F32 ||
        grad->view.dtype != TENSOR_F32) {
        dev_refuse(j, "no tensors for parameter '%s'", p);
        return;
    }
    int64_t n = tensor_count(&init->view);
    if (steps < 1 || steps > MAX_STEPS || tensor_count(&grad->view) != steps * n ||
        tensor_count(&want->view) != (steps + 1) * n) {
        dev_refuse(j, "grad_%s and traj_%s do not fit %lld steps", p, p, (long long)steps);
        return;
    }
    r.path = ebb_alloc(init->bytes * (size_t)(steps + 1));
    if (!r.path)
        dev_refuse(j, "out of memory");
    else if (dev_run_begin(&r.run, j))
        replay(&r, init, grad, want, steps);
    dev_run_end(&r.run);
    ebb_free(r.path);
}

void dev_golden_optim(struct dev_judge *j, const struct ebb_doc_node *doc,
                      const struct dev_tensors *t)
{
    const struct ebb_doc_node *params = ebb_doc_get(doc, "params");
    struct optim_config config;
    struct ebb_error err = {.status = EBB_OK};
    dev_begin(j, "optim/%s", ebb_doc_string(doc, "name", "?"));
    if (optim_parse(ebb_doc_string(doc, "optimizer", ""), ebb_doc_get(doc, "args"), &config,
                    &err) != EBB_OK)
        dev_refuse(j, "%s", err.message);
    else if (!params || params->kind != EBB_DOC_LIST || params->count == 0)
        dev_refuse(j, "params must be a list of names");
    else
        for (size_t k = 0; k < params->count; k++)
            run_parameter(j, t, doc, &config, dev_text(params->items[k]));
    dev_end(j);
}

/* ---- rates ---------------------------------------------------------------------------------- */

void dev_golden_lr(struct dev_judge *g, const struct ebb_doc_node *doc,
                   const struct dev_tensors *tensors)
{
    (void)tensors;
    struct optim_schedule *s = NULL;
    struct ebb_error err = {.status = EBB_OK};
    const struct ebb_doc_node *lr = dev_numbers(doc, "lr");
    const struct ebb_doc_node *momentum = dev_numbers(doc, "momentum_trace");
    const struct ebb_doc_node *metrics = dev_numbers(doc, "metrics");
    dev_begin(g, "lr/%s", ebb_doc_string(doc, "name", "?"));
    if (!lr ||
        optim_schedule_create(&s, ebb_doc_string(doc, "scheduler", ""), ebb_doc_get(doc, "args"),
                              ebb_doc_double(doc, "base_lr", 0), &err) != EBB_OK)
        dev_refuse(g, "%s", lr ? err.message : "no rates");
    for (size_t i = 0; s && i < lr->count; i++) {
        double rate, m, want = lr->items[i]->number;
        char part[48];
        snprintf(part, sizeof part, "rate[%zu]", i);
        if (optim_schedule_rate(s, (int64_t)i, &rate, &err) != EBB_OK) {
            dev_refuse(g, "%s", err.message);
            break;
        }
        dev_compare_number(g, part, rate, want, 1e-12, 1e-15);
        if (momentum && i < momentum->count) {
            snprintf(part, sizeof part, "momentum[%zu]", i);
            if (optim_schedule_momentum(s, (int64_t)i, &m))
                dev_compare_number(g, part, m, momentum->items[i]->number, 1e-12, 0);
            else
                dev_fail(g, "%s is missing", part);
        }
        if (metrics && i < metrics->count)
            optim_schedule_metric(s, metrics->items[i]->number);
    }
    optim_schedule_destroy(s);
    dev_end(g);
}

/* ---- reduced precision ---------------------------------------------------------------------- */

/* x cast to `dtype`, or from it, through the op. */
static void run_cast(struct dev_judge *g, const struct dev_tensors *t, const char *prefix,
                     enum tensor_dtype dtype)
{
    const struct tensor_entry *x = dev_find(t, "f32");
    const struct tensor_entry *bits = dev_find(t, "%s_bits", prefix);
    const struct tensor_entry *back = dev_find(t, "%s_back_f32", prefix);
    struct dev_run run = {.j = g};
    if (!x || !bits || !back || x->view.dtype != TENSOR_F32 ||
        tensor_count(&bits->view) != tensor_count(&x->view) ||
        tensor_count(&back->view) != tensor_count(&x->view)) {
        dev_refuse(g, "f32, %s_bits and %s_back_f32 are missing or differ", prefix, prefix);
        return;
    }
    if (!dev_run_begin(&run, g))
        return;
    tensor_id in = dev_leaf(&run, x, "x"), low = ops_cast(run.s, in, dtype);
    tensor_id high = ops_cast(run.s, low, TENSOR_F32);
    tensor_keep(run.s, low);
    tensor_keep(run.s, high);
    if (!dev_run_finish(&run))
        goto out;
    dev_fill(&run, in, x->data, x->bytes);
    if (!dev_run_go(&run))
        goto out;
    const uint16_t *got = dev_bytes(&run, low);
    const float *f = dev_bytes(&run, high);
    dev_keep(g, "bits", &bits->view, got);
    for (int64_t i = 0; i < tensor_count(&x->view); i++) {
        uint16_t want = (uint16_t)(int64_t)dev_value(bits, i);
        double ref = dev_value(back, i);
        if (isnan(ref) ? !isnan(f[i]) : got[i] != want || (double)f[i] != ref)
            dev_fail(g, "element %lld: %.9g gives %04x, expected %04x", (long long)i,
                     dev_value(x, i), got[i], want);
    }
out:
    dev_run_end(&run);
}

static float low_value(uint16_t bits, bool is_bf16)
{
    uint32_t u = (uint32_t)bits << 16;
    float f;
    if (is_bf16) {
        memcpy(&f, &u, sizeof f);
        return f;
    }
    int e = (bits >> 10) & 31;
    float m = (float)(bits & 1023);
    f = e ? ldexpf(1024 + m, e - 25) : ldexpf(m, -24);
    return bits & 0x8000 ? -f : f;
}

/* Products: 16-bit inputs, sums in float, rounded once. fp16 has no kernel here: cast, multiply,
 * cast. */
static void run_product(struct dev_judge *g, const struct dev_tensors *t, const char *kind,
                        enum tensor_dtype dtype)
{
    const struct tensor_entry *a = dev_find(t, "mm_%s_a_bits", kind);
    const struct tensor_entry *b = dev_find(t, "mm_%s_b_bits", kind);
    const struct tensor_entry *ref = dev_find(t, "mm_%s_ref_f64", kind);
    struct dev_run run;
    bool is_bf16 = dtype == TENSOR_BF16;
    if (!a || !b || !ref || a->view.rank != 2 || b->view.rank != 2 || ref->view.rank != 2 ||
        a->view.dtype != TENSOR_I16 || b->view.dtype != TENSOR_I16 ||
        a->view.dims[1] != b->view.dims[0] || ref->view.dims[0] != a->view.dims[0] ||
        ref->view.dims[1] != b->view.dims[1]) {
        dev_refuse(g, "mm_%s_a_bits, _b_bits and _ref_f64 are missing or do not fit", kind);
        return;
    }
    if (!dev_run_begin(&run, g))
        return;
    struct tensor_session *s = run.s;
    tensor_id x = tensor_leaf(s, dtype, 2, a->view.dims, "a");
    tensor_id y = tensor_leaf(s, dtype, 2, b->view.dims, "b");
    tensor_id z = is_bf16 ? ops_matmul(s, x, y, false, false)
                          : ops_cast(s,
                                     ops_matmul(s, ops_cast(s, x, TENSOR_F32),
                                                ops_cast(s, y, TENSOR_F32), false, false),
                                     dtype);
    tensor_keep(s, z);
    if (!dev_run_finish(&run))
        goto out;
    dev_fill(&run, x, a->data, a->bytes);
    dev_fill(&run, y, b->data, b->bytes);
    if (!dev_run_go(&run))
        goto out;
    const uint16_t *got = dev_bytes(&run, z);
    double unit = is_bf16 ? 0x1p-8 : 0x1p-11;
    for (int64_t i = 0; i < tensor_count(&ref->view); i++) {
        double want = dev_value(ref, i), have = (double)low_value(got[i], is_bf16);
        if (!(fabs(have - want) <= unit * fabs(want) + 1e-5))
            dev_fail(g, "element %lld is %.9g, expected %.9g", (long long)i, have, want);
    }
out:
    dev_run_end(&run);
}

static void run_scaler(struct dev_judge *g, const struct ebb_doc_node *root, const char *key)
{
    const struct ebb_doc_node *doc = ebb_doc_get(root, key);
    const struct ebb_doc_node *inf = dev_numbers(root, "found_inf");
    const struct ebb_doc_node *want = dev_numbers(doc, "scale_used");
    struct optim_scaler s;
    dev_begin(g, "amp/%s", key);
    if (strcmp(key, "grad_scaler") == 0) {
        optim_scaler_grad(&s);
        s.growth = ebb_doc_double(doc, "growth_factor", s.growth);
        s.backoff = ebb_doc_double(doc, "backoff_factor", s.backoff);
        s.interval = ebb_doc_int(doc, "growth_interval", s.interval);
    } else {
        optim_scaler_dynamic(&s);
        s.growth = ebb_doc_double(doc, "scale_factor", s.growth);
        s.interval = ebb_doc_int(doc, "scale_window", s.interval);
        s.min_scale = ebb_doc_double(doc, "min_scale", s.min_scale);
        s.delayed_shift = s.hysteresis = ebb_doc_int(doc, "delayed_shift", 1);
        s.consecutive_hysteresis = ebb_doc_bool(doc, "consecutive_hysteresis", false);
    }
    s.scale = ebb_doc_double(doc, "init_scale", s.scale);
    if (!want || !inf || want->count != inf->count)
        dev_refuse(g, "no trace");
    for (size_t i = 0; want && inf && i < want->count && i < inf->count; i++) {
        char part[32];
        snprintf(part, sizeof part, "scale[%zu]", i);
        dev_compare_number(g, part, s.scale, want->items[i]->number, 0, 0);
        optim_scaler_update(&s, inf->items[i]->integer != 0);
    }
    dev_end(g);
}

void dev_golden_amp(struct dev_judge *j, const struct ebb_doc_node *root,
                    struct dev_tensors *tensors)
{
    static const struct {
        const char *kind;
        enum tensor_dtype dtype;
    } kinds[] = {{"bf16", TENSOR_BF16}, {"f16", TENSOR_F16}};
    for (int k = 0; k < 4; k++) {
        const char *kind = kinds[k % 2].kind;
        dev_begin(j, k < 2 ? "amp/%s" : "amp/mm_%s", kind);
        (k < 2 ? run_cast : run_product)(j, tensors, kind, kinds[k % 2].dtype);
        dev_end(j);
    }
    run_scaler(j, root, "grad_scaler");
    run_scaler(j, root, "dynamic_loss_scaler");
}
