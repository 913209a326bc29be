/* golden_e2e.c - the folder e2e: small models trained for a few updates. One trace per model, run
 * once per update. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/rng.h"
#include "dev/golden_model.h"
#include "grad/grad.h"

#define MAX_ACCUM 1024
#define MAX_STEPS 100000
#define MOVED_RUNS 4 /* trainings with moved weights, for the spread of the buffers */

static void put(struct dev_model *m, struct ebb_strmap *env, const char *name, tensor_id id)
{
    struct ebb_error err = {.status = EBB_OK};
    if (ebb_strmap_put(env, name, strlen(name), id.v, &err) != EBB_OK)
        tensor_fail(m->run.s, err.status, "%s", err.message);
}

static tensor_id get(struct dev_model *m, const struct ebb_strmap *env, const char *name)
{
    uint64_t v = 0;
    if (!ebb_strmap_get(env, name, strlen(name), &v))
        return tensor_fail(m->run.s, EBB_EINPUT, "unknown name '%s'", name);
    return (tensor_id){(uint32_t)v};
}

/* ---- building ------------------------------------------------------------------------------- */

static void *many(struct dev_model *m, size_t count, size_t bytes)
{
    void *p = ebb_arena_calloc(&m->arena, count + 1, bytes);
    if (!p)
        tensor_fail(m->run.s, EBB_ENOMEM, "out of memory");
    return p;
}

/* The mapping of a key, or an empty one. */
static const struct ebb_doc_node *names_of(const struct dev_model *m, const char *key)
{
    static const struct ebb_doc_node none = {.kind = EBB_DOC_MAP};
    const struct ebb_doc_node *n = ebb_doc_get(m->doc, key);
    return n && n->kind == EBB_DOC_MAP ? n : &none;
}

/* Parameters or buffers: leaves of float32, as their starting values are. */
static struct dev_item *add_items(struct dev_model *m, const char *key, const char *kind,
                                  size_t *count)
{
    const struct ebb_doc_node *names = names_of(m, key);
    struct dev_item *items = many(m, names->count, sizeof *items);
    for (size_t i = 0; items && i < names->count; i++) {
        struct dev_item *x = &items[i];
        x->name = dev_text(names->keys[i]);
        x->start = dev_find(m->tensors, "%s/%s", kind, x->name);
        if (!x->start || x->start->view.dtype != TENSOR_F32) {
            tensor_fail(m->run.s, EBB_EINPUT, "no float32 values for '%s/%s'", kind, x->name);
            return NULL;
        }
        x->id = dev_leaf(&m->run, x->start, x->name);
        x->result = many(m, (size_t)tensor_count(&x->start->view), sizeof *x->result);
    }
    *count = items ? names->count : 0;
    return items;
}

static void add_data(struct dev_model *m)
{
    const struct ebb_doc_node *names = names_of(m, "data");
    m->data = many(m, names->count, sizeof *m->data);
    for (size_t i = 0; m->data && i < names->count; i++) {
        struct dev_data *x = &m->data[i];
        x->name = dev_text(names->keys[i]);
        x->values = dev_find(m->tensors, "data/%s", x->name);
        x->leaves = many(m, (size_t)m->accum, sizeof *x->leaves);
        const struct tensor_view *v = x->values ? &x->values->view : NULL;
        if (!v || !x->leaves || v->rank < 1 || v->dims[0] / m->accum < m->steps) {
            tensor_fail(m->run.s, EBB_EINPUT, "data/%s: no values for %lld updates of %lld",
                        x->name, (long long)m->steps, (long long)m->accum);
            return;
        }
        for (int64_t k = 0; k < m->accum; k++)
            x->leaves[k] = tensor_leaf(m->run.s, v->dtype, v->rank - 1, v->dims + 1, x->name);
        m->data_count++;
    }
}

static void add_node(struct dev_model *m, struct ebb_strmap *env, const struct ebb_doc_node *node)
{
    const struct ebb_doc_node *in = ebb_doc_get(node, "in"), *out = ebb_doc_get(node, "out");
    const char *name = ebb_doc_string(node, "op", "");
    const struct ops_def *def = ops_find(name);
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    struct ebb_error err = {.status = EBB_OK};
    tensor_id inputs[TENSOR_PORTS], outputs[TENSOR_PORTS];
    size_t count = 0;
    if (!def || ops_is_internal(def)) {
        tensor_fail(m->run.s, EBB_EINPUT, "unknown op '%s'", name);
        return;
    }
    if (!in || in->kind != EBB_DOC_LIST || !out || out->kind != EBB_DOC_LIST ||
        in->count > TENSOR_PORTS) {
        tensor_fail(m->run.s, EBB_EINPUT, "%s: a node needs lists 'in' (at most %d) and 'out'",
                    name, TENSOR_PORTS);
        return;
    }
    if (ops_parse(def, ebb_doc_get(node, "attrs"), attr, &err) != EBB_OK) {
        tensor_fail(m->run.s, err.status, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < in->count; i++)
        inputs[i] = get(m, env, dev_text(in->items[i]));
    ops_call(m->run.s, def, inputs, in->count, attr, outputs, &count);
    if (tensor_status(m->run.s, NULL) == EBB_OK && out->count > count)
        tensor_fail(m->run.s, EBB_EINPUT, "%s: %zu outputs, the node names %zu", name, count,
                    out->count);
    for (size_t i = 0; i < out->count && i < count; i++)
        put(m, env, dev_text(out->items[i]), outputs[i]);
}

static void name_leaves(struct dev_model *m, struct ebb_strmap *env, int64_t pass)
{
    for (size_t i = 0; i < m->param_count; i++)
        put(m, env, m->params[i].name, m->params[i].id);
    for (size_t i = 0; i < m->buffer_count; i++)
        put(m, env, m->buffers[i].name,
            m->buffers[i].next.v ? m->buffers[i].next : m->buffers[i].id);
    for (size_t i = 0; i < m->data_count; i++)
        put(m, env, m->data[i].name, m->data[i].leaves[pass]);
}

static void add_gradients(struct dev_model *m, tensor_id loss)
{
    struct ebb_error err = {.status = EBB_OK};
    tensor_id *from = many(m, m->param_count, sizeof *from);
    tensor_id *to = many(m, m->param_count, sizeof *to);
    if (!from || !to)
        return;
    for (size_t i = 0; i < m->param_count; i++)
        from[i] = m->params[i].id;
    if (grad_backward(m->run.s, &loss, NULL, 1, from, m->param_count, to, &err) != EBB_OK) {
        tensor_fail(m->run.s, err.status, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < m->param_count; i++) {
        struct dev_item *x = &m->params[i];
        if (to[i].v)
            x->grad = x->grad.v ? ops_add(m->run.s, x->grad, to[i]) : to[i];
    }
}

/* One micro-batch: forward, backward; gradients are added to what earlier ones gave. */
static void add_pass(struct dev_model *m, int64_t pass)
{
    struct ebb_strmap env = {0};
    const struct ebb_doc_node *nodes = ebb_doc_get(m->doc, "nodes");
    const struct ebb_doc_node *updates = names_of(m, "buffer_updates");
    const struct ebb_doc_node *watch = ebb_doc_get(m->train, "watch");
    name_leaves(m, &env, pass);
    tensor_set_phase(m->run.s, TRACE_FORWARD);
    for (size_t i = 0; nodes && i < nodes->count; i++)
        add_node(m, &env, nodes->items[i]);
    tensor_id loss =
        ops_mul_scalar(m->run.s, get(m, &env, "loss"), (float)(1.0 / (double)m->accum));
    m->loss = m->loss.v ? ops_add(m->run.s, m->loss, loss) : loss;
    for (size_t i = 0; i < m->buffer_count; i++) {
        struct dev_item *x = &m->buffers[i];
        const char *source = ebb_doc_string(updates, x->name, NULL);
        if (source)
            x->next = get(m, &env, source);
        if (x->next.v && !tensor_same_shape(tensor_view_of(m->run.s, x->next), &x->start->view))
            tensor_fail(m->run.s, EBB_EINPUT, "buffer '%s' would change its shape", x->name);
    }
    if (pass == 0 && watch && watch->kind == EBB_DOC_LIST) {
        m->watch = many(m, watch->count, sizeof *m->watch);
        m->watch_count = m->watch ? watch->count : 0;
    }
    for (size_t i = 0; pass == 0 && i < m->watch_count; i++)
        m->watch[i] = ops_contiguous(m->run.s, get(m, &env, dev_text(watch->items[i])));
    if (tensor_status(m->run.s, NULL) == EBB_OK &&
        tensor_count(tensor_view_of(m->run.s, loss)) != 1)
        tensor_fail(m->run.s, EBB_EINPUT, "the loss must be one number");
    if (tensor_status(m->run.s, NULL) == EBB_OK)
        add_gradients(m, loss);
    ebb_strmap_fini(&env);
}

static void add_update(struct dev_model *m, struct dev_item *x, tensor_id grad)
{
    const struct tensor_view *v = &x->start->view;
    size_t n = optim_state_count(&m->config);
    tensor_id out[1 + OPS_UPDATE_STATES];
    for (size_t k = 0; k < n; k++)
        x->states[k] =
            tensor_leaf(m->run.s, TENSOR_F32, v->rank, v->dims, optim_state_name(&m->config, k));
    ops_update(m->run.s, m->config.kind, optim_flags(&m->config), m->scalars, grad, x->id,
               x->states, n, out);
    for (size_t k = 0; k <= n; k++)
        tensor_keep(m->run.s, out[k]);
}

static void add_updates(struct dev_model *m)
{
    const int64_t dims[1] = {OPS_UPDATE_SCALARS};
    double clip = ebb_doc_double(m->train, "clip_grad_norm", 0);
    tensor_id *clipped = many(m, m->param_count, sizeof *clipped);
    if (tensor_status(m->run.s, NULL) != EBB_OK)
        return;
    tensor_set_phase(m->run.s, TRACE_UPDATE);
    m->scalars = tensor_leaf(m->run.s, TENSOR_F32, 1, dims, "scalars");
    for (size_t i = 0; i < m->param_count; i++) {
        struct dev_item *x = &m->params[i];
        if (!x->grad.v) {
            tensor_fail(m->run.s, EBB_EINPUT, "parameter '%s' gets no gradient", x->name);
            return;
        }
        clipped[i] = x->grad = ops_contiguous(m->run.s, x->grad);
        tensor_keep(m->run.s, x->grad);
    }
    optim_clip(m->run.s, clipped, m->param_count, clip > 0 ? clip : INFINITY, &m->norm);
    tensor_keep(m->run.s, m->norm);
    for (size_t i = 0; i < m->param_count && tensor_status(m->run.s, NULL) == EBB_OK; i++)
        add_update(m, &m->params[i], clip > 0 ? clipped[i] : m->params[i].grad);
    tensor_keep(m->run.s, m->loss);
    for (size_t i = 0; i < m->buffer_count; i++)
        if (m->buffers[i].next.v)
            tensor_keep(m->run.s,
                        m->buffers[i].next = ops_contiguous(m->run.s, m->buffers[i].next));
    for (size_t i = 0; i < m->watch_count; i++)
        tensor_keep(m->run.s, m->watch[i]);
}

static void build(struct dev_model *m)
{
    m->params = add_items(m, "params", "init", &m->param_count);
    m->buffers = add_items(m, "buffers", "buf", &m->buffer_count);
    add_data(m);
    if (tensor_status(m->run.s, NULL) == EBB_OK && !m->param_count)
        tensor_fail(m->run.s, EBB_EINPUT, "there are no parameters");
    dev_model_begin(m);
    for (int64_t k = 0; k < m->accum && tensor_status(m->run.s, NULL) == EBB_OK; k++)
        add_pass(m, k);
    add_updates(m);
}

/* ---- running -------------------------------------------------------------------------------- */

/* Starting values; from the second run on, weights whose gradient is noise are moved. */
static void fill_item(struct dev_model *m, const struct dev_item *x, size_t index, int run)
{
    int64_t n = tensor_count(&x->start->view);
    dev_fill(&m->run, x->id, x->start->data, x->start->bytes);
    if (run == 0 || tensor_trace_id(m->run.s, x->id) == TRACE_NONE)
        return;
    float *w = dev_bytes(&m->run, x->id);
    for (int64_t i = 0; i < n; i++) {
        uint32_t key[2] = {(uint32_t)run, 0}, word[4];
        uint32_t counter[4] = {(uint32_t)i, (uint32_t)index, 0, 0};
        ebb_philox(key, counter, word);
        if (fabs(dev_value(x->first_grad, i)) <= m->noise)
            w[i] += (float)(m->drift * (word[0] & 1 ? 1 : -1));
    }
}

static void fill_state(struct dev_model *m, const struct dev_item *x)
{
    for (size_t k = 0; k < optim_state_count(&m->config); k++) {
        float *state = dev_bytes(&m->run, x->states[k]);
        for (int64_t j = 0; j < tensor_count(&x->start->view); j++)
            state[j] = optim_state_initial(&m->config, k);
    }
}

double dev_rate(const struct dev_model *m, int64_t step)
{
    const struct ebb_doc_node *rates = dev_numbers(m->train, "lr");
    return rates && (size_t)step < rates->count ? rates->items[step]->number : m->config.lr;
}

static void step_values(struct dev_model *m, int64_t step, struct optim_count *count)
{
    float scalars[OPS_UPDATE_SCALARS];
    optim_step(&m->config, count, dev_rate(m, step), scalars);
    dev_fill(&m->run, m->scalars, scalars, sizeof scalars);
    for (size_t i = 0; i < m->data_count; i++) {
        const struct dev_data *x = &m->data[i];
        size_t bytes = x->values->bytes / (size_t)x->values->view.dims[0];
        for (int64_t k = 0; k < m->accum; k++)
            dev_fill(&m->run, x->leaves[k],
                     (const char *)x->values->data + (size_t)(step * m->accum + k) * bytes, bytes);
    }
}

static void note_item(struct dev_model *m, struct dev_item *x, const char *kind, int run)
{
    struct tensor_view view;
    const float *got = dev_read(&m->run, x->id, &view);
    char part[192];
    int64_t n = tensor_count(&x->start->view);
    if (!got) /* nothing reads or writes it */
        got = x->start->data;
    for (int64_t k = 0; run && k < n; k++)
        x->spread = fmax(x->spread, fabs((double)got[k] - (double)x->result[k]));
    if (run)
        return;
    memcpy(x->result, got, (size_t)n * sizeof *got);
    snprintf(part, sizeof part, "%s/%s", kind, x->name);
    dev_keep(m->g, part, &x->start->view, got);
}

static bool run_once(struct dev_model *m, int run)
{
    struct optim_count count = {0};
    for (size_t i = 0; i < m->param_count; i++) {
        fill_item(m, &m->params[i], i, run);
        fill_state(m, &m->params[i]);
    }
    for (size_t i = 0; i < m->buffer_count; i++)
        fill_item(m, &m->buffers[i], 0, 0);
    for (int64_t t = 0; t < m->steps; t++) {
        step_values(m, t, &count);
        if (!dev_run_go(&m->run))
            return false;
        if (run == 0)
            dev_model_step(m, t);
        for (size_t i = 0; i < m->buffer_count; i++) {
            struct tensor_view view;
            const struct dev_item *x = &m->buffers[i];
            const void *next = x->next.v ? dev_read(&m->run, x->next, &view) : NULL;
            if (next)
                dev_fill(&m->run, x->id, next, x->start->bytes);
        }
    }
    for (size_t i = 0; run == 0 && i < m->param_count; i++)
        note_item(m, &m->params[i], "final", run);
    for (size_t i = 0; i < m->buffer_count; i++)
        note_item(m, &m->buffers[i], "finalbuf", run);
    return true;
}

static void run_model(struct dev_model *m)
{
    if (!dev_run_finish(&m->run) || !run_once(m, 0))
        return;
    dev_model_weights(m);
    bool ok = dev_model_buffers(m, false), can_go_on = true;
    for (int run = 1; !ok && can_go_on && run <= MOVED_RUNS; run++)
        can_go_on = run_once(m, run);
    if (!ok && can_go_on)
        dev_model_buffers(m, true);
}

static void train_graph(struct dev_judge *g, const struct ebb_doc_node *doc, struct dev_tensors *t)
{
    struct ebb_error err = {.status = EBB_OK};
    struct dev_model m = {.g = g, .doc = doc, .tensors = t, .train = ebb_doc_get(doc, "train")};
    m.accum = ebb_doc_int(m.train, "accum", 1);
    m.steps = ebb_doc_int(doc, "steps", 10);
    if (m.accum < 1 || m.accum > MAX_ACCUM || m.steps < 1 || m.steps > MAX_STEPS) {
        dev_refuse(g, "accum or steps out of range");
    } else if (optim_parse(ebb_doc_string(m.train, "optimizer", ""), ebb_doc_get(m.train, "args"),
                           &m.config, &err) != EBB_OK) {
        dev_refuse(g, "%s", err.message);
    } else if (dev_run_begin(&m.run, g)) {
        build(&m);
        if (tensor_status(m.run.s, &err) != EBB_OK)
            dev_refuse(g, "%s", err.message);
        else
            run_model(&m);
    }
    dev_run_end(&m.run);
    ebb_arena_fini(&m.arena);
}

static void run_file(struct dev_judge *g, const char *file)
{
    struct dev_tensors t = {0};
    struct ebb_error err = {.status = EBB_OK};
    char name[300];
    snprintf(name, sizeof name, "e2e/%s", file);
    const struct ebb_doc_node *doc = dev_json(g, name, &err);
    snprintf(name, sizeof name, "e2e/%.*s.safetensors", (int)strlen(file) - 5, file);
    dev_begin(g, "e2e/%s", ebb_doc_string(doc, "name", file));
    if (!doc || dev_tensors_open(g, name, &t, &err) != EBB_OK)
        dev_refuse(g, "%s", err.message);
    else if (ebb_doc_get(doc, "nodes"))
        train_graph(g, doc, &t);
    else if (ebb_doc_get(doc, "K"))
        dev_gan(g, doc, &t);
    else
        dev_refuse(g, "unknown kind of training");
    dev_end(g);
    dev_tensors_close(&t);
}

void dev_golden_e2e(struct dev_judge *j, const struct ebb_doc_node *root,
                    struct dev_tensors *tensors)
{
    char **names;
    size_t count;
    struct ebb_error err;
    (void)root, (void)tensors; /* each model has its own */
    if (dev_list(&j->arena, dev_path(j, "e2e"), &names, &count, &err) != EBB_OK)
        dev_broken(j, "e2e", err.message);
    for (size_t i = 0; i < count; i++)
        run_file(j, names[i]);
}
