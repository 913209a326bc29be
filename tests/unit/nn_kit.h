/* nn_kit.h - one training step of a model, traced and run on the reference runner. */
#ifndef EBB_TESTS_NN_KIT_H
#define EBB_TESTS_NN_KIT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "grad/grad.h"
#include "nn/nn.h"
#include "ops/ops.h"

struct kit {
    void *backend;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_config config;
    int64_t batch;
    struct nn_port ports[NN_PORTS];
    size_t port_count;
    tensor_id inputs[NN_PORTS], targets[NN_PORTS], scalars, loss;
    struct nn_output outputs[NN_PORTS];
    size_t output_count;
    tensor_id *weights, *grads; /* of the trained items */
    size_t trained;
    struct trace *trace;
    struct ops_host host;
    bool has_host;
};

static inline enum ebb_status kit_config(struct nn_config *c, const char *name, const char *set,
                                         struct ebb_error *err)
{
    char text[512], *save = NULL;
    EBB_TRY(nn_config_init(c, name, err));
    snprintf(text, sizeof text, "%s", set);
    for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(t, '=');
        if (!eq)
            return ebb_fail(err, EBB_EINPUT, "no '=' in %s", t);
        *eq = 0;
        EBB_TRY(nn_config_set(c, t, eq + 1, err));
    }
    return EBB_OK;
}

/* Session, builder, forward pass; loss when asked. */
static inline enum ebb_status kit_build(struct kit *k, const struct nn_config *c, int64_t batch,
                                        struct nn_mode mode, struct ebb_error *err)
{
    memset(k, 0, sizeof *k);
    k->config = *c;
    k->batch = batch;
    EBB_TRY(ops_backend_create(&k->backend, NULL, NULL, NULL, 1, err));
    EBB_TRY(tensor_session_create(&k->s, k->backend, err));
    nn_builder_init(&k->b, k->s, &mode);
    k->port_count = nn_inputs(c, batch, k->ports);
    EBB_TRY(nn_leaves(&k->b, c, batch, k->inputs, err));
    EBB_TRY(nn_build(&k->b, c, k->inputs, k->outputs, &k->output_count, err));
    k->loss = nn_loss(&k->b, k->outputs, k->output_count, k->targets);
    return tensor_status(k->s, err);
}

static inline enum ebb_status kit_backward(struct kit *k, struct ebb_error *err)
{
    size_t n = nn_item_count(&k->b);
    k->weights = ebb_calloc(n + 1, sizeof *k->weights);
    k->grads = ebb_calloc(n + 1, sizeof *k->grads);
    if (!k->weights || !k->grads)
        return ebb_no_memory(err, n);
    for (size_t i = 0; i < n; i++)
        if (nn_item_at(&k->b, i)->is_trained)
            k->weights[k->trained++] = nn_item_at(&k->b, i)->leaf;
    return grad_backward(k->s, &k->loss, NULL, 1, k->weights, k->trained, k->grads, err);
}

/* SGD on everything that has a gradient. */
static inline void kit_update(struct kit *k)
{
    k->scalars = tensor_leaf(k->s, TENSOR_F32, 1, (int64_t[]){OPS_UPDATE_SCALARS}, "scalars");
    tensor_set_phase(k->s, TRACE_UPDATE);
    for (size_t i = 0; i < k->trained; i++) {
        tensor_id out[1 + OPS_UPDATE_STATES];
        if (k->grads[i].v)
            ops_update(k->s, OPS_SGD, 0, k->scalars, k->grads[i], k->weights[i], NULL, 0, out);
    }
}

static inline void *kit_data(struct kit *k, tensor_id id)
{
    uint32_t t = tensor_trace_id(k->s, id);
    return t == TRACE_NONE ? NULL : ops_host_tensor(&k->host, t);
}

static inline enum ebb_status kit_finish(struct kit *k, struct ebb_error *err)
{
    tensor_keep(k->s, k->loss);
    for (size_t i = 0; i < nn_item_count(&k->b); i++)
        if (nn_item_at(&k->b, i)->role == NN_BUFFER)
            tensor_keep(k->s, nn_item_at(&k->b, i)->id);
    EBB_TRY(tensor_finish(k->s, k->config.model->name, &k->trace, err));
    EBB_TRY(ops_host_create(&k->host, k->trace, k->backend, err));
    k->has_host = true;
    return EBB_OK;
}

/* Tokens count up, floats come from a fixed stream, masks are ones. */
static inline void kit_fill(void *p, const struct nn_port *port, int64_t classes)
{
    int64_t n = tensor_count(&port->view);
    uint64_t state = 7;
    for (int64_t i = 0; i < n && p; i++) {
        double u = (double)(ebb_splitmix64(&state) >> 11) * 0x1p-53;
        if (port->kind == NN_MASK)
            ((int64_t *)p)[i] = 1;
        else if (port->view.dtype == TENSOR_I64)
            ((int64_t *)p)[i] = i % (classes > 0 ? classes : 2);
        else
            ((float *)p)[i] = (float)u;
    }
}

static inline enum ebb_status kit_start(struct kit *k, uint64_t seed, struct ebb_error *err)
{
    struct nn_initializer *init;
    EBB_TRY(nn_initializer_create(&init, &k->b, k->config.generator, seed, err));
    for (size_t i = 0; i < nn_item_count(&k->b); i++) {
        void *p = kit_data(k, nn_item_at(&k->b, i)->leaf);
        if (p)
            nn_initialize(init, i, p);
    }
    nn_initializer_destroy(init);
    for (size_t i = 0; i < k->port_count; i++) {
        void *p = kit_data(k, k->inputs[i]);
        int64_t most = strcmp(k->ports[i].name, "segments") == 0
                           ? 2
                           : nn_config_int(&k->config, "vocabulary", 2);
        if (p && k->ports[i].is_generated)
            nn_generate(&k->config, &k->ports[i], 1, 0, p);
        else
            kit_fill(p, &k->ports[i], most);
    }
    for (size_t i = 0; i < k->output_count; i++)
        if (k->targets[i].v) {
            const struct tensor_view *v = tensor_view_of(k->s, k->outputs[i].id);
            kit_fill(kit_data(k, k->targets[i]), &k->outputs[i].target,
                     v->rank > 1 ? v->dims[1] : 2);
        }
    if (k->b.mode.step.v && kit_data(k, k->b.mode.step))
        *(int64_t *)kit_data(k, k->b.mode.step) = 0;
    if (k->scalars.v) {
        float scalars[OPS_UPDATE_SCALARS];
        ops_update_scalars(OPS_SGD, &(struct ops_scalars){.rate = 0.01, .sign = 1}, scalars);
        memcpy(kit_data(k, k->scalars), scalars, sizeof scalars);
    }
    return EBB_OK;
}

static inline void kit_close(struct kit *k)
{
    if (k->has_host)
        ops_host_destroy(&k->host);
    if (k->trace)
        trace_destroy(k->trace);
    ebb_free(k->weights);
    ebb_free(k->grads);
    nn_builder_fini(&k->b);
    tensor_session_destroy(k->s);
    if (k->backend)
        ops_backend_destroy(k->backend);
}

/* A configuration of every model that runs in milliseconds. */
struct kit_small {
    const char *name, *set;
};

#define KIT_LM "vocabulary=61 positions=16 length=8 width=16 layers=2 heads=2"
#define KIT_MOBILE "shrink=8 height=32 width=32 classes=10"
#define KIT_RESNET "blocks=1,1,1,1 planes=4 height=32 width=32 classes=10"
#define KIT_DENSE "blocks=2,2,2,2 growth=4 planes=8 height=64 width=64 classes=10"
#define KIT_SEGMENT "planes=4 height=32 width=32 classes=5"

static const struct kit_small kit_small[] = {
    {"cifar_resnet", "blocks=1,2,1 planes=4 height=8 width=8"},
    {"resnet", KIT_RESNET},
    {"densenet_bc", "blocks=2,2,2 growth=4 planes=8 height=8 width=8"},
    {"densenet", KIT_DENSE},
    {"unet_vanilla", KIT_SEGMENT},
    {"unet", "planes=4 depth=2 height=17 width=20"},
    /* smaller ones end in maps of one place: batch norm over two values multiplies noise */
    {"inception", "shrink=16 height=107 width=107 classes=10"},
    {"googlenet", "shrink=16 height=64 width=64 classes=10"},
    {"mobilenet", KIT_MOBILE},
    {"mnasnet", KIT_MOBILE},
    {"shufflenet", "shrink=4 height=32 width=32 classes=10"},
    {"vgg_", KIT_SEGMENT},
    {"segnet", KIT_SEGMENT},
    {"fcn8", KIT_SEGMENT " hidden=16"},
    {"vgg", "planes=4 hidden=16 height=32 width=32 classes=10"},
    {"alexnet", "planes=4 hidden=16 height=64 width=64 classes=10"},
    {"squeezenet", "planes=16 height=32 width=32 classes=10"},
    {"deepcam", "shrink=32 middle=1 channels=4 height=32 width=48"},
    {"cosmoflow", "size=8 planes=2 layers=2 hidden=8,4 channels=2"},
    {"wlm_transformer", "vocabulary=50 length=6 width=8 hidden=8"},
    {"wlm_", "vocabulary=50 length=6 embedding=8 hidden=12"},
    {"dtr_lstm", "features=5 memory=6 steps=4"},
    {"dtr_treelstm", "features=5 memory=6 depth=2"},
    {"transformer_12_6",
     "length=6 target_length=4 width=8 hidden=16 heads=2 encoder_layers=2 decoder_layers=2"},
    {"unrolled_gan", "noise=4 hidden=6 unroll=2"},
    {"gpt", KIT_LM},
    {"GPT", KIT_LM},
    {"bert", KIT_LM},
    {"Bert", KIT_LM},
    {"megatron", KIT_LM},
    {"linear", "layers=2 planes=4 height=8 width=8 classes=10"},
    {"testBERT", "length=4 width=8 layers=2 heads=2 classes=10"},
    {"test", "planes=4 height=8 width=8 classes=10"},
};

static inline const char *kit_small_of(const char *name)
{
    for (size_t i = 0; i < sizeof kit_small / sizeof *kit_small; i++)
        if (strncmp(name, kit_small[i].name, strlen(kit_small[i].name)) == 0)
            return kit_small[i].set;
    return NULL;
}

#endif
