/* chain.c - the small networks of the planners' experiments. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "nn/internal.h"

struct chain {
    struct nn_image image;
    int64_t layers, planes;
};

static size_t head(struct nn_builder *b, const struct chain *c, tensor_id x, struct nn_output *out)
{
    x = nn_linear(b, "fc", nn_global_pool(b, x), &(struct nn_dense){.out = c->image.classes});
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

static size_t build_linear(struct nn_builder *b, const struct nn_config *config,
                           const tensor_id *in, struct nn_output *out)
{
    const struct chain *c = (const void *)config->bytes;
    tensor_id x = in[0];
    char name[24];
    for (int64_t i = 0; i < c->layers; i++) {
        snprintf(name, sizeof name, "conv%" PRId64, i);
        x = nn_convolution(b, name, x, &(struct nn_conv){.out = c->planes, .k = {3}});
    }
    return head(b, c, x, out);
}

static size_t build_test(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                         struct nn_output *out)
{
    const struct chain *c = (const void *)config->bytes;
    struct nn_conv wide = {.out = 2 * c->planes, .has_bias = true};
    tensor_id x = nn_convolution(b, "conv", in[0],
                                 &(struct nn_conv){.out = c->planes, .k = {3}, .has_bias = true});
    x = nn_activate(b, NN_RELU, x);
    tensor_id left = nn_activate(b, NN_RELU, nn_convolution(b, "left", x, &wide));
    tensor_id right = nn_activate(b, NN_RELU, nn_convolution(b, "right", x, &wide));
    return head(b, c, nn_add(b, left, right), out);
}

/* ---- testBERT: attention without softmax ---------------------------------------------------- */

struct test_bert {
    int64_t length, width, layers, heads, classes;
};

static size_t bert_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct test_bert *t = (const void *)config->bytes;
    nn_port_set(&ports[0], "inputs", NN_FLOATS, true, 3, (int64_t[]){batch, t->length, t->width});
    return 1;
}

static void bert_generate(const struct nn_config *config, const struct nn_port *port, uint64_t seed,
                          int64_t update, void *dst)
{
    (void)config;
    nn_philox_normal(seed, 0, (uint32_t)update, 2, (size_t)tensor_count(&port->view), dst);
}

static enum ebb_status bert_check(const struct nn_config *config, struct ebb_error *err)
{
    const struct test_bert *t = (const void *)config->bytes;
    return nn_check_heads(t->heads, t->width, err);
}

static tensor_id bert_layer(struct nn_builder *b, const struct test_bert *t, tensor_id x)
{
    static const char *const names[] = {"query", "key", "value"};
    struct nn_dense same = {.out = t->width}, wide = {.out = 4 * t->width};
    tensor_id part[3];
    for (int k = 0; k < 3; k++)
        part[k] = nn_heads(b, nn_linear(b, names[k], x, &same), t->heads);
    tensor_id s = nn_op(b, "matmul", 2, part, NULL, "{\"tb\":true}");
    s = nn_scale(b, s, 1.0 / sqrt((double)t->width));
    tensor_id y = nn_merge(b, nn_op(b, "matmul", 2, (tensor_id[]){s, part[2]}, NULL, NULL));
    x = nn_layer_norm(b, "norm1", nn_add(b, x, nn_linear(b, "output", y, &same)), 0);
    y = nn_activate(b, NN_GELU, nn_linear(b, "inner", x, &wide));
    return nn_layer_norm(b, "norm2", nn_add(b, x, nn_linear(b, "outer", y, &same)), 0);
}

static size_t build_bert(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                         struct nn_output *out)
{
    const struct test_bert *t = (const void *)config->bytes;
    tensor_id x = in[0];
    for (int64_t i = 0; i < t->layers; i++) {
        nn_push(b, "layer.%" PRId64, i);
        x = bert_layer(b, t, x);
        nn_pop(b);
    }
    x = nn_op(b, "mean", 1, &x, NULL, "{\"dims\":[1]}");
    x = nn_linear(b, "fc", x, &(struct nn_dense){.out = t->classes});
    size_t n = nn_classes(b, out, "logits", x, "cross_entropy");
    out[0].target.is_generated = true;
    return n;
}

static const struct ebb_key linear_options[] = {
    NN_IMAGE_OPTIONS(chain),
    NN_OPTION_INT(chain, layers, 1, 4096, "convolutions"),
    NN_OPTION_INT(chain, planes, 1, 4096, "channels"),
};
static const struct ebb_key test_options[] = {
    NN_IMAGE_OPTIONS(chain),
    NN_OPTION_INT(chain, planes, 1, 4096, "channels of the first convolution"),
};
static const struct ebb_key bert_options[] = {
    NN_OPTION_INT(test_bert, length, 1, 65536, "length of a sequence"),
    NN_OPTION_INT(test_bert, width, 1, 65536, "width of an element"),
    NN_OPTION_INT(test_bert, layers, 1, 1024, "layers"),
    NN_OPTION_INT(test_bert, heads, 1, 1024, "attention heads"),
    NN_OPTION_INT(test_bert, classes, 2, 1048576, "classes"),
};
#define CHAIN(layers_)                                                                             \
    (&(const struct chain){.image = {3, 224, 224, 1000}, .layers = layers_, .planes = 64})

static const struct nn_model rows[] = {
    NN_MODEL("linear", NN_IMAGE_CLASSIFICATION,
             "chain of 3x3 convolutions; linear<k> has k of them", linear_options, chain,
             nn_image_inputs, build_linear, CHAIN(8), NULL),
    NN_MODEL("test", NN_IMAGE_CLASSIFICATION, "one fork: two convolutions side by side, added",
             test_options, chain, nn_image_inputs, build_test, CHAIN(1), NULL),
    {NN_ROW("testBERT", NN_SEQUENCE, "12 transformer layers without softmax, on random numbers",
            bert_options, test_bert, bert_inputs, build_bert,
            (&(const struct test_bert){
                .length = 128, .width = 768, .layers = 12, .heads = 12, .classes = 1000})),
     .check = bert_check, .generate = bert_generate},
};

const struct nn_family nn_chain_family = {rows, sizeof rows / sizeof *rows};
