/* golden_e2e.c - the folder e2e: small models trained for ten updates. One trace per model, run
 * once per update. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "cli/golden.h"
#include "grad/grad.h"
#include "optim/optim.h"

#define MAX_ITEMS 256 /* parameters, buffers or data of a model */

struct model {
    struct golden *g;
    const struct ebb_doc_node *doc, *train;
    struct golden_tensors *tensors;
    struct tensor_session *s;
    struct ebb_arena arena;
    struct optim_config config;
    int64_t accum;
    tensor_id scalars, loss, norm;
    const char *param_names[MAX_ITEMS], *buffer_names[MAX_ITEMS], *data_names[MAX_ITEMS];
    tensor_id params[MAX_ITEMS], grads[MAX_ITEMS], states[MAX_ITEMS][OPS_UPDATE_STATES];
    tensor_id buffers[MAX_ITEMS], new_buffers[MAX_ITEMS], data[MAX_ITEMS][8];
    size_t param_count, buffer_count, data_count;
    tensor_id watch[8];
    size_t watch_count;
};

static void put(struct ebb_strmap *env, const char *name, tensor_id id)
{
    struct ebb_error err;
    (void)ebb_strmap_put(env, name, strlen(name), id.v, &err);
}

static tensor_id get(struct model *m, const struct ebb_strmap *env, const char *name)
{
    uint64_t v = 0;
    if (!ebb_strmap_get(env, name, strlen(name), &v))
        return tensor_fail(m->s, EBB_EINPUT, "unknown name '%s'", name);
    return (tensor_id){(uint32_t)v};
}

/* ---- building ------------------------------------------------------------------------------- */

static void add_leaves(struct model *m)
{
    const struct ebb_doc_node *p = ebb_doc_get(m->doc, "params"),
                              *b = ebb_doc_get(m->doc, "buffers");
    const struct ebb_doc_node *d = ebb_doc_get(m->doc, "data");
    for (size_t i = 0; p && i < p->count && i < MAX_ITEMS; i++) {
        const struct tensor_entry *e = golden_find(m->tensors, "init/%s", p->keys[i]->text);
        if (!e) {
            tensor_fail(m->s, EBB_EINPUT, "no values for parameter '%s'", p->keys[i]->text);
            return;
        }
        m->param_names[m->param_count] = p->keys[i]->text;
        m->params[m->param_count++] = golden_leaf(m->s, e, p->keys[i]->text);
    }
    for (size_t i = 0; b && i < b->count && i < MAX_ITEMS; i++) {
        const struct tensor_entry *e = golden_find(m->tensors, "buf/%s", b->keys[i]->text);
        m->buffer_names[m->buffer_count] = b->keys[i]->text;
        if (e)
            m->buffers[m->buffer_count++] = golden_leaf(m->s, e, b->keys[i]->text);
    }
    for (size_t i = 0; d && i < d->count && i < MAX_ITEMS; i++) {
        const struct tensor_entry *e = golden_find(m->tensors, "data/%s", d->keys[i]->text);
        m->data_names[m->data_count] = d->keys[i]->text;
        for (int64_t k = 0; e && k < m->accum; k++) /* without the leading dimension */
            m->data[m->data_count][k] = tensor_leaf(m->s, e->view.dtype, e->view.rank - 1,
                                                    e->view.dims + 1, d->keys[i]->text);
        m->data_count++;
    }
}

static void add_node(struct model *m, struct ebb_strmap *env, const struct ebb_doc_node *node)
{
    const struct ebb_doc_node *in = ebb_doc_get(node, "in"), *out = ebb_doc_get(node, "out");
    const char *name = ebb_doc_string(node, "op", "");
    const struct ops_def *def = ops_find(name);
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    struct ebb_error err = {.status = EBB_OK};
    tensor_id inputs[TENSOR_PORTS], outputs[TENSOR_PORTS];
    size_t count = 0;
    if (!def || ops_is_internal(def) || !in || !out || in->count > TENSOR_PORTS) {
        tensor_fail(m->s, EBB_EINPUT, "unknown op '%s'", name);
        return;
    }
    if (ops_parse(def, ebb_doc_get(node, "attrs"), attr, &err) != EBB_OK) {
        tensor_fail(m->s, err.status, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < in->count; i++)
        inputs[i] = get(m, env, in->items[i]->text);
    ops_call(m->s, def, inputs, in->count, attr, outputs, &count);
    for (size_t i = 0; i < out->count && i < count; i++)
        put(env, out->items[i]->text, outputs[i]);
}

/* One micro-batch: forward, backward; gradients are added to what earlier ones gave. */
static void add_pass(struct model *m, int64_t pass)
{
    struct ebb_strmap env;
    struct ebb_error err = {.status = EBB_OK};
    tensor_id gin[MAX_ITEMS];
    const struct ebb_doc_node *nodes = ebb_doc_get(m->doc, "nodes");
    const struct ebb_doc_node *updates = ebb_doc_get(m->doc, "buffer_updates");
    const struct ebb_doc_node *watch = ebb_doc_get(m->train, "watch");
    ebb_strmap_init(&env);
    for (size_t i = 0; i < m->param_count; i++)
        put(&env, m->param_names[i], m->params[i]);
    for (size_t i = 0; i < m->buffer_count; i++)
        put(&env, m->buffer_names[i], m->new_buffers[i].v ? m->new_buffers[i] : m->buffers[i]);
    for (size_t i = 0; i < m->data_count; i++)
        put(&env, m->data_names[i], m->data[i][pass]);
    tensor_set_phase(m->s, TRACE_FORWARD);
    for (size_t i = 0; nodes && i < nodes->count; i++)
        add_node(m, &env, nodes->items[i]);
    tensor_id loss = ops_mul_scalar(m->s, get(m, &env, "loss"), (float)(1.0 / (double)m->accum));
    m->loss = m->loss.v ? ops_add(m->s, m->loss, loss) : loss;
    for (size_t i = 0; updates && i < m->buffer_count; i++) {
        const char *source = ebb_doc_string(updates, m->buffer_names[i], NULL);
        if (source)
            m->new_buffers[i] = get(m, &env, source);
    }
    for (size_t i = 0; pass == 0 && watch && i < watch->count && i < 8; i++)
        m->watch[m->watch_count++] = ops_contiguous(m->s, get(m, &env, watch->items[i]->text));
    if (grad_backward(m->s, &loss, NULL, 1, m->params, m->param_count, gin, &err) == EBB_OK)
        for (size_t i = 0; i < m->param_count; i++)
            if (gin[i].v)
                m->grads[i] = m->grads[i].v ? ops_add(m->s, m->grads[i], gin[i]) : gin[i];
    ebb_strmap_fini(&env);
}

static void add_updates(struct model *m)
{
    const int64_t dims[1] = {OPS_UPDATE_SCALARS};
    double clip = ebb_doc_double(m->train, "clip_grad_norm", 0);
    tensor_id used[MAX_ITEMS];
    size_t n = optim_state_count(&m->config);
    tensor_set_phase(m->s, TRACE_UPDATE);
    m->scalars = tensor_leaf(m->s, TENSOR_F32, 1, dims, "scalars");
    for (size_t i = 0; i < m->param_count; i++) {
        m->grads[i] = ops_contiguous(m->s, m->grads[i]);
        tensor_keep(m->s, m->grads[i]);
        used[i] = m->grads[i];
        if (!used[i].v)
            tensor_fail(m->s, EBB_EINPUT, "parameter '%s' gets no gradient", m->param_names[i]);
    }
    optim_clip(m->s, used, m->param_count, clip > 0 ? clip : INFINITY, &m->norm);
    tensor_keep(m->s, m->norm);
    for (size_t i = 0; i < m->param_count && tensor_status(m->s, NULL) == EBB_OK; i++) {
        const struct tensor_view v = *tensor_view_of(m->s, m->params[i]);
        tensor_id out[1 + OPS_UPDATE_STATES];
        for (size_t k = 0; k < n; k++)
            m->states[i][k] =
                tensor_leaf(m->s, TENSOR_F32, v.rank, v.dims, optim_state_name(&m->config, k));
        ops_update(m->s, m->config.kind, optim_flags(&m->config), m->scalars,
                   clip > 0 ? used[i] : m->grads[i], m->params[i], m->states[i], n, out);
        for (size_t k = 0; k <= n; k++)
            tensor_keep(m->s, out[k]);
    }
    tensor_keep(m->s, m->loss);
    for (size_t i = 0; i < m->buffer_count; i++)
        if (m->new_buffers[i].v)
            tensor_keep(m->s, m->new_buffers[i] = ops_contiguous(m->s, m->new_buffers[i]));
    for (size_t i = 0; i < m->watch_count; i++)
        tensor_keep(m->s, m->watch[i]);
}

/* ---- running -------------------------------------------------------------------------------- */

static void initial_values(struct model *m, const struct ops_host *host)
{
    size_t n = optim_state_count(&m->config);
    for (size_t i = 0; i < m->param_count; i++) {
        const struct tensor_entry *e = golden_find(m->tensors, "init/%s", m->param_names[i]);
        golden_fill(m->s, host, m->params[i], e->data, e->bytes);
        for (size_t k = 0; k < n; k++) {
            float *state = ops_host_tensor(host, tensor_trace_id(m->s, m->states[i][k]));
            for (size_t j = 0; j < e->bytes / sizeof(float); j++)
                state[j] = optim_state_initial(&m->config, k);
        }
    }
    for (size_t i = 0; i < m->buffer_count; i++) {
        const struct tensor_entry *e = golden_find(m->tensors, "buf/%s", m->buffer_names[i]);
        golden_fill(m->s, host, m->buffers[i], e->data, e->bytes);
    }
}

static void step_values(struct model *m, const struct ops_host *host, int64_t step,
                        struct optim_count *count)
{
    const struct ebb_doc_node *rates = ebb_doc_get(m->train, "lr");
    double lr = rates && rates->kind == EBB_DOC_LIST && (size_t)step < rates->count
                    ? rates->items[step]->number
                    : m->config.lr;
    float scalars[OPS_UPDATE_SCALARS];
    optim_step(&m->config, count, lr, scalars);
    golden_fill(m->s, host, m->scalars, scalars, sizeof scalars);
    for (size_t i = 0; i < m->data_count; i++) {
        const struct tensor_entry *e = golden_find(m->tensors, "data/%s", m->data_names[i]);
        for (int64_t k = 0; e && k < m->accum; k++) {
            size_t bytes = e->bytes / (size_t)e->view.dims[0];
            golden_fill(m->s, host, m->data[i][k],
                        (const unsigned char *)e->data + (size_t)(step * m->accum + k) * bytes,
                        bytes);
        }
    }
}

/* Largest reference of a kind over all parameters: what is zero in exact arithmetic (a bias before
 * a normalisation) is noise in the reference, and may be other noise here. */
static double largest(const struct model *m, const char *kind, const char *const *names,
                      size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tensor_entry *e = golden_find(m->tensors, "%s/%s", kind, names[i]);
        for (int64_t k = 0; e && k < tensor_count(&e->view); k++)
            most = fmax(most, fabs(golden_value(e, k)));
    }
    return most;
}

static void compare_tensor(struct model *m, const struct ops_host *host, tensor_id id,
                           const char *kind, const char *name, double tolerance, double floor)
{
    char part[192];
    struct tensor_view view;
    const struct tensor_entry *want = golden_find(m->tensors, "%s/%s_f64", kind, name);
    if (!want)
        want = golden_find(m->tensors, "%s/%s", kind, name);
    if (!want)
        return;
    const void *data = golden_read(m->s, host, id, &view);
    snprintf(part, sizeof part, "%s/%s", kind, name);
    golden_compare(m->g, part, &view, data, want,
                   (struct golden_limit){.atol_max = tolerance, .atol = floor});
}

/* Weights after training. Where the gradient is zero in exact arithmetic, optimizers that divide by
 * its size make full steps of noise: such elements may differ by two rates per step. */
static void compare_final(struct model *m, const struct ops_host *host, size_t i, double rest)
{
    char part[192];
    struct tensor_view view;
    const struct tensor_entry *want = golden_find(m->tensors, "final/%s", m->param_names[i]);
    const struct tensor_entry *grad = golden_find(m->tensors, "grad0/%s", m->param_names[i]);
    const float *got = golden_read(m->s, host, m->params[i], &view);
    double noise = 1e-6 * largest(m, "grad0", m->param_names, m->param_count);
    double drift = 2 * m->config.lr * (double)ebb_doc_int(m->doc, "steps", 10);
    snprintf(part, sizeof part, "final/%s", m->param_names[i]);
    golden_keep(m->g, part, &view, got);
    if (!want || !grad || !tensor_same_shape(&view, &want->view)) {
        golden_fail(m->g, "%s: no reference", part);
        return;
    }
    for (int64_t k = 0; k < tensor_count(&view); k++) {
        double off = fabs((double)got[k] - golden_value(want, k));
        double room = rest + (fabs(golden_value(grad, k)) <= noise ? drift : 0);
        if (!(off <= room))
            golden_fail(m->g, "%s: element %lld is %.9g, expected %.9g, off by %.3g of %.3g", part,
                        (long long)k, (double)got[k], golden_value(want, k), off, room);
    }
}

static void compare_record(struct model *m, const char *key, int64_t step, const float *got,
                           double tolerance)
{
    const struct ebb_doc_node *list = ebb_doc_get(ebb_doc_get(m->doc, "record"), key);
    char part[64];
    snprintf(part, sizeof part, "%s[%lld]", key, (long long)step);
    if (!list || (size_t)step >= list->count)
        golden_fail(m->g, "%s: no reference", part);
    else
        golden_compare_number(m->g, part, (double)*got, list->items[step]->number, tolerance, 0);
}

static void after_step(struct model *m, const struct ops_host *host, int64_t step)
{
    const struct ebb_doc_node *watch = ebb_doc_get(m->train, "watch");
    double noise = step ? 0 : 1e-6 * largest(m, "grad0", m->param_names, m->param_count);
    compare_record(m, "loss_f64", step, ops_host_tensor(host, tensor_trace_id(m->s, m->loss)),
                   1e-5);
    compare_record(m, "grad_norm_f64", step, ops_host_tensor(host, tensor_trace_id(m->s, m->norm)),
                   1e-3);
    for (size_t i = 0; step == 0 && i < m->param_count; i++)
        compare_tensor(m, host, m->grads[i], "grad0", m->param_names[i], 1e-4, noise);
    for (size_t i = 0; step == 0 && i < m->watch_count; i++)
        compare_tensor(m, host, m->watch[i], "watch", watch->items[i]->text, 1e-5, 0);
    for (size_t i = 0; i < m->buffer_count; i++) {
        struct tensor_view view;
        if (!m->new_buffers[i].v)
            continue;
        const void *data = golden_read(m->s, host, m->new_buffers[i], &view);
        golden_fill(m->s, host, m->buffers[i], data, (size_t)tensor_count(&view) * sizeof(float));
    }
}

static enum ebb_status run_model(struct model *m, struct ebb_error *err)
{
    struct trace *trace;
    struct ops_host host;
    struct optim_count count = {0};
    int64_t steps = ebb_doc_int(m->doc, "steps", 10);
    EBB_TRY(tensor_finish(m->s, m->g->name, &trace, err));
    enum ebb_status status = ops_host_create(&host, trace, m->g->backend, err);
    if (status == EBB_OK) {
        initial_values(m, &host);
        for (int64_t t = 0; t < steps && status == EBB_OK; t++) {
            step_values(m, &host, t, &count);
            status = ops_host_run(&host, err);
            if (status == EBB_OK)
                after_step(m, &host, t);
        }
        double rest = 2e-4 * largest(m, "final", m->param_names, m->param_count);
        for (size_t i = 0; i < m->param_count && status == EBB_OK; i++)
            compare_final(m, &host, i, rest);
        for (size_t i = 0; i < m->buffer_count && status == EBB_OK; i++)
            compare_tensor(m, &host, m->buffers[i], "finalbuf", m->buffer_names[i], 1e-4, 0);
        ops_host_destroy(&host);
    }
    trace_destroy(trace);
    return status;
}

static void train_graph(struct golden *g, const struct ebb_doc_node *doc, struct golden_tensors *t)
{
    struct ebb_error err = {.status = EBB_OK};
    struct model *m = ebb_calloc(1, sizeof *m);
    if (!m) {
        golden_fail(g, "out of memory");
        return;
    }
    m->g = g;
    m->doc = doc;
    m->tensors = t;
    m->train = ebb_doc_get(doc, "train");
    m->accum = ebb_doc_int(m->train, "accum", 1);
    if (m->accum < 1 || m->accum > 8 ||
        optim_parse(ebb_doc_string(m->train, "optimizer", ""), ebb_doc_get(m->train, "args"),
                    &m->config, &err) != EBB_OK ||
        tensor_session_create(&m->s, g->backend, &err) != EBB_OK) {
        golden_fail(g, "%s", err.status ? err.message : "accum out of range");
    } else {
        add_leaves(m);
        for (int64_t k = 0; k < m->accum; k++)
            add_pass(m, k);
        add_updates(m);
        if (tensor_status(m->s, &err) != EBB_OK || run_model(m, &err) != EBB_OK)
            golden_fail(g, "%s", err.message);
    }
    tensor_session_destroy(m->s);
    ebb_free(m);
}

static int is_model(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 5 && strcmp(e->d_name + n - 5, ".json") == 0;
}

enum ebb_status golden_e2e(struct golden *g, struct ebb_error *err)
{
    struct dirent **list;
    char path[4096];
    if (!golden_has(g, "e2e"))
        return EBB_OK;
    snprintf(path, sizeof path, "%s/e2e", g->dir);
    int count = scandir(path, &list, is_model, alphasort);
    if (count < 0)
        return ebb_fail(err, EBB_EIO, "%s: cannot be read", path);
    enum ebb_status status = EBB_OK;
    for (int i = 0; i < count; i++) {
        struct golden_tensors t = {0};
        char name[300];
        snprintf(name, sizeof name, "e2e/%s", list[i]->d_name);
        const struct ebb_doc_node *doc = status == EBB_OK ? golden_json(g, name, err) : NULL;
        snprintf(name, sizeof name, "e2e/%.*s.safetensors", (int)strlen(list[i]->d_name) - 5,
                 list[i]->d_name);
        free(list[i]); /* allowed: scandir's own memory */
        if (status != EBB_OK)
            continue;
        status = doc ? golden_tensors_open(g, name, &t, err) : err->status;
        if (status != EBB_OK)
            continue;
        golden_begin(g, "e2e", ebb_doc_string(doc, "name", "?"));
        if (ebb_doc_get(doc, "nodes"))
            train_graph(g, doc, &t);
        else if (ebb_doc_get(doc, "K"))
            golden_gan(g, doc, &t);
        else
            golden_fail(g, "unknown kind of training");
        golden_end(g);
        golden_tensors_close(&t);
    }
    free(list); /* allowed: scandir's own memory */
    return status;
}
