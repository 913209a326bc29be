/* cosmoflow.c - CosmoFlow: a 3-D network that estimates four cosmological parameters. */
#include <inttypes.h>
#include <stdio.h>

#include "nn/internal.h"

struct cosmoflow {
    int64_t channels, size, outputs, planes, layers;
    struct nn_ints hidden;
    double dropout;
};

static size_t inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct cosmoflow *m = (const void *)config->bytes;
    nn_port_set(&ports[0], "volumes", NN_IMAGES, false, 5,
                (int64_t[]){batch, m->channels, m->size, m->size, m->size});
    return 1;
}

static enum ebb_status check(const struct nn_config *config, struct ebb_error *err)
{
    const struct cosmoflow *m = (const void *)config->bytes;
    if (m->size >> m->layers < 1)
        return ebb_fail(err, EBB_EINPUT,
                        "model.size: found %" PRId64 ", allowed is at least %" PRId64
                        " for %" PRId64 " layers",
                        m->size, (int64_t)1 << m->layers, m->layers);
    return EBB_OK;
}

static tensor_id dense(struct nn_builder *b, const char *name, tensor_id x, int64_t out)
{
    return nn_linear(b, name, x,
                     &(struct nn_dense){.out = out,
                                        .init = nn_init_xavier(nn_dim(b, x, 1), out),
                                        .bias_init = nn_init_constant(0)});
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    const struct cosmoflow *m = (const void *)config->bytes;
    tensor_id x = in[0];
    char name[32];
    for (int64_t i = 0; i < m->layers; i++) {
        int64_t planes = m->planes << i;
        snprintf(name, sizeof name, "conv%" PRId64, i);
        x = nn_convolution(
            b, name, x,
            &(struct nn_conv){.out = planes,
                              .nd = 3,
                              .k = {3},
                              .pad = {1, 1, 1},
                              .has_bias = true,
                              .init = nn_init_xavier(nn_dim(b, x, 1) * 27, planes * 27),
                              .bias_init = nn_init_constant(0)});
        x = nn_max_pool(b, nn_activate(b, NN_LEAKY, x), 2, 2, 0);
    }
    /* channels last before flattening: weights are not those of a channels-first flatten */
    x = nn_flatten(b, nn_permute(b, x, 5, (int64_t[]){0, 2, 3, 4, 1}));
    for (int64_t i = 0; i < m->hidden.count; i++) {
        snprintf(name, sizeof name, "l%" PRId64, i + 1);
        x = nn_activate(b, NN_LEAKY, dense(b, name, x, m->hidden.v[i]));
        x = nn_dropout(b, x, m->dropout);
    }
    x = nn_full(b, nn_activate(b, NN_TANH, dense(b, "lO", x, m->outputs)));
    x = nn_scale(b, x, 1.2);
    out[0] = (struct nn_output){.name = "values", .kind = NN_VALUES, .id = x, .loss = "mse_loss"};
    nn_port_set(&out[0].target, "targets", NN_FLOATS, false, 2,
                (int64_t[]){nn_dim(b, x, 0), m->outputs});
    return 1;
}

static const struct ebb_key options[] = {
    NN_OPTION_INT(cosmoflow, channels, 1, 1024, "channels of a volume"),
    NN_OPTION_INT(cosmoflow, size, 2, 4096, "edge of a volume"),
    NN_OPTION_INT(cosmoflow, outputs, 1, 4096, "numbers estimated"),
    NN_OPTION_INT(cosmoflow, planes, 1, 4096, "channels of the first convolution"),
    NN_OPTION_INT(cosmoflow, layers, 1, 10, "convolutions, each halving the edge"),
    NN_OPTION_INTS(cosmoflow, hidden, 1, 65536, "widths of the linear layers"),
    NN_OPTION_FLOAT(cosmoflow, dropout, 0, 0.999, "share of hidden units left out in training"),
};

static const struct nn_model rows[] = {
    NN_CHECKED("cosmoflow", NN_REGRESSION,
               "CosmoFlow: 3-D convolutions, four cosmological parameters", options, cosmoflow,
               check, inputs, build,
               (&(const struct cosmoflow){.channels = 4,
                                          .size = 128,
                                          .outputs = 4,
                                          .planes = 32,
                                          .layers = 5,
                                          .hidden = {{128, 64}, 2},
                                          .dropout = 0.5}),
               NULL),
};

const struct nn_family nn_cosmoflow_family = {rows, sizeof rows / sizeof *rows};
