/* tree.c - the cell of DTR's LSTM and TreeLSTM (not the textbook's), along a chain and in a tree.
 *
 * iou = ioux(x) + iouh(sum of the children's c); i, o, u = split; c = i*u + sum over children of
 * sigmoid(fx(x) * fh(h)); h = o*tanh(c). */
#include <inttypes.h>

#include "base/heap.h"
#include "nn/internal.h"

struct tree {
    int64_t features, memory, steps, depth;
};

struct state {
    tensor_id c, h;
};

/* Gates and states are F32 in any precision. */
static tensor_id part(struct nn_builder *b, const char *name, tensor_id x, int64_t out,
                      bool has_bias)
{
    return nn_full(b,
                   nn_linear(b, name, x, &(struct nn_dense){.out = out, .has_no_bias = !has_bias}));
}

/* Leaves of a tree use two of the four: the list is to have torch's order all the same. */
static void declare(struct nn_builder *b, const struct tree *m)
{
    static const char *const names[4] = {"ioux", "iouh", "fx", "fh"};
    nn_push(b, "cell");
    for (int k = 0; k < 4; k++) {
        int64_t in = k % 2 ? m->memory : m->features;
        int64_t dims[2] = {m->memory * (k < 2 ? 3 : 1), in};
        nn_push(b, "%s", names[k]);
        nn_parameter(b, "weight", NN_WEIGHT, 2, dims, nn_init_default(in));
        if (k % 2 == 0)
            nn_parameter(b, "bias", NN_BIAS, 1, dims, nn_init_default(in));
        nn_pop(b);
    }
    nn_pop(b);
}

static struct state cell(struct nn_builder *b, const struct tree *m, tensor_id x,
                         const struct state *children, int count)
{
    tensor_id gate[TENSOR_PORTS] = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};
    struct state s;
    nn_push(b, "cell");
    tensor_id iou = part(b, "ioux", x, 3 * m->memory, true);
    if (count) {
        tensor_id sum = children[0].c;
        for (int k = 1; k < count; k++)
            sum = nn_add(b, sum, children[k].c);
        iou = nn_add(b, iou, part(b, "iouh", sum, 3 * m->memory, false));
    }
    nn_op(b, "split", 1, &iou, gate, "{\"sizes\":[%" PRId64 ",%" PRId64 ",%" PRId64 "],\"dim\":1}",
          m->memory, m->memory, m->memory);
    tensor_id i = nn_activate(b, NN_SIGMOID, gate[0]), o = nn_activate(b, NN_SIGMOID, gate[1]);
    s.c = nn_mul(b, i, nn_activate(b, NN_TANH, gate[2]));
    tensor_id fx = part(b, "fx", x, m->memory, true);
    for (int k = 0; k < count; k++) {
        tensor_id f = nn_mul(b, fx, part(b, "fh", children[k].h, m->memory, false));
        s.c = nn_add(b, s.c, nn_activate(b, NN_SIGMOID, f));
    }
    s.h = nn_mul(b, o, nn_activate(b, NN_TANH, s.c));
    nn_pop(b);
    return s;
}

/* Row `index` of [n, rows, features]. */
static tensor_id row(struct nn_builder *b, tensor_id x, int64_t index)
{
    return nn_reshape(b, nn_slice(b, x, 0, index, index + 1), 2,
                      (int64_t[]){nn_dim(b, x, 1), nn_dim(b, x, 2)});
}

static size_t finish(struct nn_builder *b, struct state s, struct nn_output *out)
{
    tensor_id c = nn_full(b, s.c), loss = nn_op(b, "sum", 1, &c, NULL, NULL);
    out[0] = (struct nn_output){.name = "loss", .kind = NN_LOSS, .id = loss};
    out[1] = (struct nn_output){.name = "c", .kind = NN_VALUES, .id = s.c};
    out[2] = (struct nn_output){.name = "h", .kind = NN_VALUES, .id = s.h};
    return 3;
}

/* ---- the chain ------------------------------------------------------------------------------ */

static size_t chain_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct tree *m = (const void *)config->bytes;
    nn_port_set(&ports[0], "inputs", NN_FLOATS, true, 3, (int64_t[]){m->steps, batch, m->features});
    return 1;
}

static size_t build_chain(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                          struct nn_output *out)
{
    const struct tree *m = (const void *)config->bytes;
    struct state s = {TENSOR_NONE, TENSOR_NONE};
    declare(b, m);
    /* zeros, repeated over the rows */
    s.c = s.h =
        nn_op(b, "full", 0, NULL, NULL, "{\"shape\":[1,%" PRId64 "],\"value\":0}", m->memory);
    for (int64_t t = 0; t < m->steps; t++)
        s = cell(b, m, row(b, in[0], t), &s, 1);
    return finish(b, s, out);
}

/* ---- the tree ------------------------------------------------------------------------------- */

static int64_t nodes(int64_t depth)
{
    return ((int64_t)2 << depth) - 1;
}

static size_t tree_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct tree *m = (const void *)config->bytes;
    nn_port_set(&ports[0], "inputs", NN_FLOATS, true, 3,
                (int64_t[]){nodes(m->depth), batch, m->features});
    return 1;
}

/* Children first: inputs are numbered in that order. */
static struct state subtree(struct nn_builder *b, const struct tree *m, tensor_id x, int64_t depth,
                            int64_t *next)
{
    struct state children[2];
    for (int k = 0; k < 2 && depth > 0; k++)
        children[k] = subtree(b, m, x, depth - 1, next);
    return cell(b, m, row(b, x, (*next)++), children, depth > 0 ? 2 : 0);
}

static size_t build_tree(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                         struct nn_output *out)
{
    const struct tree *m = (const void *)config->bytes;
    int64_t next = 0;
    declare(b, m);
    return finish(b, subtree(b, m, in[0], m->depth, &next), out);
}

static const struct ebb_key chain_options[] = {
    NN_OPTION_INT(tree, features, 1, 65536, "width of an input"),
    NN_OPTION_INT(tree, memory, 1, 65536, "width of the state"),
    NN_OPTION_INT(tree, steps, 1, 65536, "length of the chain"),
};
static const struct ebb_key tree_options[] = {
    NN_OPTION_INT(tree, features, 1, 65536, "width of an input"),
    NN_OPTION_INT(tree, memory, 1, 65536, "width of the state"),
    NN_OPTION_INT(tree, depth, 0, 16, "of the full binary tree; 0 is one node"),
};

static const struct nn_model rows[] = {
    NN_MODEL("dtr_lstm", NN_SEQUENCE, "DTR's LSTM cell along a chain; loss: sum of the last c",
             chain_options, tree, chain_inputs, build_chain,
             (&(const struct tree){.features = 512, .memory = 1700, .steps = 256}), "lstm", NULL),
    NN_MODEL("dtr_treelstm", NN_SEQUENCE,
             "DTR's LSTM cell in a full binary tree; loss: sum of the root's c", tree_options, tree,
             tree_inputs, build_tree,
             (&(const struct tree){.features = 100, .memory = 300, .depth = 9}), "treelstm", NULL),
};

const struct nn_family nn_tree_family = {rows, sizeof rows / sizeof *rows};
