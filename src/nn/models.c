/* models.c - the table of models, and building one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "nn/internal.h"

static const struct nn_family *const families[] = {
#define X(name) &nn_##name##_family,
    NN_FAMILIES(X)
#undef X
};
#define FAMILIES (sizeof families / sizeof *families)

size_t nn_model_count(void)
{
    size_t n = 0;
    for (size_t i = 0; i < FAMILIES; i++)
        n += families[i]->count;
    return n;
}

const struct nn_model *nn_model_at(size_t i)
{
    for (size_t f = 0; f < FAMILIES; f++) {
        if (i < families[f]->count)
            return &families[f]->rows[i];
        i -= families[f]->count;
    }
    return NULL;
}

const struct nn_model *nn_model_find(const char *name)
{
    for (int pass = 0; pass < 2; pass++) { /* names go before aliases */
        for (size_t i = 0; i < nn_model_count(); i++) {
            const struct nn_model *m = nn_model_at(i);
            if (pass == 0 && strcasecmp(m->name, name) == 0)
                return m;
            for (size_t k = 0; pass == 1 && m->aliases && m->aliases[k]; k++)
                if (strcasecmp(m->aliases[k], name) == 0)
                    return m;
        }
    }
    return NULL;
}

const char *nn_task_name(enum nn_task task)
{
    static const char *const names[NN_TASK_COUNT] = {
        "image_classification", "segmentation", "language_model", "regression", "sequence", "gan"};
    return names[task];
}

/* ---- inputs --------------------------------------------------------------------------------- */

void nn_port_set(struct nn_port *port, const char *name, enum nn_port_kind kind, bool is_generated,
                 int rank, const int64_t *dims)
{
    bool is_integer = kind == NN_TOKENS || kind == NN_MASK || kind == NN_CLASSES;
    *port = (struct nn_port){.name = name, .kind = kind, .is_generated = is_generated};
    tensor_view_init(&port->view, is_integer ? TENSOR_I64 : TENSOR_F32, rank, dims);
}

size_t nn_image_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct nn_image *i = (const void *)config->bytes;
    nn_port_set(&ports[0], "images", NN_IMAGES, false, 4,
                (int64_t[]){batch, i->channels, i->height, i->width});
    return 1;
}

size_t nn_inputs(const struct nn_config *config, int64_t batch, struct nn_port ports[NN_PORTS])
{
    return config->model->inputs(config, batch, ports);
}

enum ebb_status nn_leaves(struct nn_builder *b, const struct nn_config *config, int64_t batch,
                          tensor_id inputs[NN_PORTS], struct ebb_error *err)
{
    struct nn_port ports[NN_PORTS];
    size_t n = nn_inputs(config, batch, ports);
    for (size_t i = 0; i < n; i++)
        inputs[i] = tensor_leaf(b->session, ports[i].view.dtype, ports[i].view.rank,
                                ports[i].view.dims, ports[i].name);
    return tensor_status(b->session, err);
}

void nn_generate(const struct nn_config *config, const struct nn_port *port, uint64_t seed,
                 int64_t update, void *dst)
{
    if (port->is_generated && port->kind == NN_CLASSES)
        for (int64_t i = 0; i < tensor_count(&port->view); i++)
            ((int64_t *)dst)[i] = 1; /* models on random numbers are trained towards class 1 */
    else if (port->is_generated && config->model->generate)
        config->model->generate(config, port, seed, update, dst);
    else
        memset(dst, 0,
               (size_t)tensor_count(&port->view) *
                   tensor_dtype_bytes((enum tensor_dtype)port->view.dtype));
}

/* ---- building ------------------------------------------------------------------------------- */

static enum ebb_status check_patterns(const struct nn_builder *b, const char *key,
                                      const char *const *patterns, size_t count,
                                      struct ebb_error *err)
{
    for (size_t i = 0; i < count; i++) {
        bool is_used = false;
        for (size_t k = 0; k < b->item_count && !is_used; k++)
            is_used = tensor_pattern_fits(patterns[i], b->items[k].name);
        if (!is_used)
            return ebb_fail(err, EBB_EINPUT,
                            "model.%s: no item of model %s fits '%s' (ebb model show --json lists "
                            "them)",
                            key, b->config->model->name, patterns[i]);
    }
    return EBB_OK;
}

enum ebb_status nn_build(struct nn_builder *b, const struct nn_config *config,
                         const tensor_id *inputs, struct nn_output outputs[NN_PORTS], size_t *count,
                         struct ebb_error *err)
{
    EBB_TRY(nn_config_check(config, err));
    EBB_TRY(tensor_status(b->session, err));
    b->prefix_length = b->depth = 0;
    b->prefix[0] = 0;
    b->config = config;
    memset(outputs, 0, NN_PORTS * sizeof *outputs);
    size_t n = config->model->build(b, config, inputs, outputs);
    tensor_label(b->session, NULL);
    enum ebb_status status = tensor_status(b->session, err);
    if (status != EBB_OK && b->place.line)
        return ebb_context(err, status, "%s:%u:%u", b->place.file, b->place.line, b->place.column);
    if (status != EBB_OK)
        return ebb_context(err, status, "model %s", config->model->name);
    EBB_TRY(check_patterns(b, "frozen", config->frozen, config->frozen_count, err));
    EBB_TRY(check_patterns(b, "trainable", config->trainable, config->trainable_count, err));
    *count = n;
    return EBB_OK;
}

size_t nn_classes(struct nn_builder *b, struct nn_output *out, const char *name, tensor_id logits,
                  const char *loss)
{
    if (tensor_status(b->session, NULL) == EBB_OK) /* what is read outside has the plain layout */
        logits = nn_contiguous(b, b->mode.is_training ? logits : nn_full(b, logits));
    struct tensor_view v = *tensor_view_of(b->session, logits);
    *out = (struct nn_output){.name = name, .kind = NN_LOGITS, .id = logits, .loss = loss};
    if (!loss || v.rank < 2)
        return 1;
    bool is_index = strcmp(loss, "cross_entropy") == 0 || strcmp(loss, "nll_loss") == 0;
    if (is_index) { /* one index instead of the classes */
        for (int d = 1; d + 1 < v.rank; d++)
            v.dims[d] = v.dims[d + 1];
        v.rank--;
    }
    nn_port_set(&out->target, "targets", is_index ? NN_CLASSES : NN_FLOATS, false, v.rank, v.dims);
    return 1;
}

static tensor_id one_loss(struct nn_builder *b, const struct nn_output *o, tensor_id *target)
{
    char name[96];
    const struct tensor_view *v = &o->target.view;
    if (!target->v) {
        snprintf(name, sizeof name, "%s.%s", o->name, o->target.name);
        *target = tensor_leaf(b->session, v->dtype, v->rank, v->dims, name);
    }
    return nn_op(b, o->loss, 2, (tensor_id[]){o->id, *target}, NULL, NULL);
}

tensor_id nn_loss(struct nn_builder *b, const struct nn_output *outputs, size_t count,
                  tensor_id *targets)
{
    tensor_id sum = TENSOR_NONE;
    tensor_label(b->session, "loss");
    for (size_t i = 0; i < count; i++) {
        tensor_id one = TENSOR_NONE;
        if (outputs[i].kind == NN_LOSS)
            one = outputs[i].id;
        else if (outputs[i].loss)
            one = one_loss(b, &outputs[i], &targets[i]);
        if (one.v)
            sum = sum.v ? ops_add(b->session, sum, one) : one;
    }
    tensor_label(b->session, NULL);
    return sum;
}
