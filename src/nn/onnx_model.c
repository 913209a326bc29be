/* onnx_model.c - an ONNX file as a row of the table: which initializers are items, which sizes are
 * open, what it is trained for, and what its exporter did that training would not want. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/names.h"
#include "nn/onnx.h"

bool nn_onnx_is_path(const char *name)
{
    return ebb_name_ends(name, ".onnx");
}

/* ---- who reads what --------------------------------------------------------------------------- */

static bool take_arrays(struct ebb_arena *arena, struct nn_onnx_file *f)
{
    const struct onnx_graph *g = &f->onnx->graph;
    f->is_live = ebb_arena_calloc(arena, g->node_count + 1, sizeof *f->is_live);
    f->is_known = ebb_arena_calloc(arena, g->node_count + 1, sizeof *f->is_known);
    f->maker = ebb_arena_calloc(arena, g->value_count + 1, sizeof *f->maker);
    f->uses = ebb_arena_calloc(arena, g->value_count + 1, sizeof *f->uses);
    f->user = ebb_arena_calloc(arena, g->value_count + 1, sizeof *f->user);
    f->initializer = ebb_arena_calloc(arena, g->value_count + 1, sizeof *f->initializer);
    f->weights = ebb_arena_calloc(arena, g->initializer_count + 1, sizeof *f->weights);
    return ebb_arena_status(arena, NULL) == EBB_OK;
}

/* Backwards from the outputs: nodes stand in order. */
static void find_live(struct nn_onnx_file *f)
{
    const struct onnx_graph *g = &f->onnx->graph;
    for (size_t i = 0; i < g->output_count; i++)
        f->uses[g->outputs[i].value]++;
    for (size_t i = g->node_count; i-- > 0;) {
        const struct onnx_node *n = &g->nodes[i];
        for (size_t k = 0; k < n->out_count; k++)
            if (n->out[k] != ONNX_NONE) {
                f->maker[n->out[k]] = (uint32_t)i + 1;
                f->is_live[i] |= f->uses[n->out[k]] > 0;
            }
        for (size_t k = 0; f->is_live[i] && k < n->in_count; k++)
            if (n->in[k] != ONNX_NONE) {
                f->uses[n->in[k]]++;
                f->user[n->in[k]] = (uint32_t)i + 1;
            }
    }
}

/* Before anything looks into nodes: what an op that is known has of inputs, outputs, attributes. */
static enum ebb_status check_nodes(struct nn_onnx_file *f, struct ebb_error *err)
{
    const struct onnx_graph *g = &f->onnx->graph;
    for (size_t i = 0; i < g->node_count; i++) {
        if (!f->is_live[i])
            continue;
        enum ebb_status status = onnx_op_check(&g->nodes[i], f->onnx->opset, err);
        f->is_known[i] = status == EBB_OK;
        if (status != EBB_OK && status != EBB_EUNSUPPORTED)
            return ebb_context(err, status, "%s: node %zu%s%s%s", f->onnx->path, i,
                               *g->nodes[i].name ? " (" : "", g->nodes[i].name,
                               *g->nodes[i].name ? ")" : "");
    }
    return EBB_OK;
}

/* Inputs of fractions that must be known: they are never weights. */
static bool is_known_input(const char *op, size_t i)
{
    static const struct {
        const char *op;
        unsigned inputs; /* bits */
    } rows[] = {{"Clip", 6},    {"Resize", 6},   {"Pad", 4},  {"Pow", 2},
                {"Dropout", 6}, {"Upsample", 2}, {"Range", 7}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strcmp(rows[k].op, op) == 0)
            return i < 8 && (rows[k].inputs >> i & 1);
    return false;
}

static enum nn_role role_of(const struct onnx_node *n, size_t i, int rank)
{
    bool is_norm = strstr(n->op, "Normalization") != NULL;
    if (is_norm && strncmp(n->op, "Batch", 5) == 0 && i > 2)
        return NN_BUFFER;
    if (is_norm && i > 0)
        return NN_NORM;
    if (strcmp(n->op, "Gather") == 0 && i == 0 && rank == 2)
        return NN_EMBEDDING;
    return rank > 1 ? NN_WEIGHT : NN_BIAS;
}

static void find_weights(struct nn_onnx_file *f)
{
    const struct onnx_graph *g = &f->onnx->graph;
    for (size_t i = 0; i < g->initializer_count; i++)
        f->initializer[g->initializer_values[i]] = (uint32_t)i + 1;
    for (size_t i = 0; i < g->node_count; i++) {
        const struct onnx_node *n = &g->nodes[i];
        for (size_t k = 0; f->is_live[i] && k < n->in_count; k++) {
            uint32_t at = n->in[k] == ONNX_NONE ? 0 : f->initializer[n->in[k]];
            const struct onnx_tensor *t = at ? &g->initializers[at - 1] : NULL;
            if (!t || !onnx_type_is_float(t->type) || t->rank == 0 || t->count == 0 ||
                is_known_input(n->op, k) || f->weights[at - 1].tensor)
                continue;
            f->weights[at - 1] = (struct nn_onnx_weight){t, role_of(n, k, t->rank)};
        }
    }
}

/* ---- sizes ------------------------------------------------------------------------------------ */

static bool is_key(const char *text)
{
    for (const char *p = text; *p; p++)
        if (!(islower((unsigned char)*p) || *p == '_' || (p > text && isdigit((unsigned char)*p))))
            return false;
    return *text != 0;
}

static bool has(const char *text, const char *part)
{
    char low[64];
    size_t n = 0;
    for (; text[n] && n + 1 < sizeof low; n++)
        low[n] = (char)tolower((unsigned char)text[n]);
    low[n] = 0;
    return strstr(low, part) != NULL;
}

/* What an option is called: the label, or what the data calls it. */
static const char *option_name(const struct onnx_port *p, int d)
{
    const char *label = p->dims[d].label;
    bool is_places = onnx_type_is_float(p->type) && p->rank == 4;
    if (label && (has(label, "seq") || has(label, "len")))
        return "length";
    if (label && is_key(label))
        return label;
    if (is_places && d > 0)
        return d == 1 ? "channels" : d == 2 ? "height" : "width";
    return !onnx_type_is_float(p->type) && d == 1 ? "length" : d == 1 ? "features" : "size";
}

static int find_label(const struct nn_onnx_file *f, const char *name)
{
    for (size_t i = 0; i < f->label_count; i++)
        if (strcmp(f->labels[i], name) == 0)
            return (int)i;
    return -1;
}

static bool is_batch(const struct nn_onnx_file *f, const struct onnx_port *p, int d)
{
    const char *label = p->dims[d].label;
    if (f->batch)
        return label && strcmp(label, f->batch) == 0;
    if (d != 0)
        return false;
    return p->dims[0].value < 0 || f->exported_batch < 0 || p->dims[0].value == f->exported_batch;
}

static void find_sizes(struct nn_onnx_file *f)
{
    const struct onnx_graph *g = &f->onnx->graph;
    f->exported_batch = -1;
    for (size_t i = 0; i < g->input_count; i++)
        for (int d = 0; d < g->inputs[i].rank && !f->batch; d++)
            if (g->inputs[i].dims[d].label && has(g->inputs[i].dims[d].label, "batch"))
                f->batch = g->inputs[i].dims[d].label;
    if (!f->batch && g->input_count && g->inputs[0].rank > 0) {
        f->batch = g->inputs[0].dims[0].label;
        f->exported_batch = g->inputs[0].dims[0].value;
    }
    for (size_t i = 0; i < g->input_count; i++)
        for (int d = 0; d < g->inputs[i].rank; d++) {
            const struct onnx_port *p = &g->inputs[i];
            if (is_batch(f, p, d) || p->dims[d].value >= 0)
                continue;
            const char *name = option_name(p, d);
            if (find_label(f, name) < 0 && f->label_count < NN_ONNX_LABELS)
                f->labels[f->label_count++] = name;
        }
}

/* The size of dimension d at a batch; below 1: not known. */
static int64_t size_of(const struct nn_onnx_file *f, const struct nn_onnx_options *options,
                       const struct onnx_port *p, int d, int64_t batch)
{
    if (is_batch(f, p, d))
        return batch;
    if (p->dims[d].value >= 0)
        return p->dims[d].value;
    int at = find_label(f, option_name(p, d));
    return at < 0 ? -1 : options->sizes[at];
}

static bool is_target(const struct nn_onnx_file *f, const struct onnx_port *p)
{
    uint32_t user = f->user[p->value];
    const struct onnx_node *n = user ? &f->onnx->graph.nodes[user - 1] : NULL;
    return n && strstr(n->op, "Loss") && n->in_count > 1 && n->in[1] == p->value;
}

size_t nn_onnx_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct nn_onnx_file *f = config->model->context;
    const struct nn_onnx_options *options = (const void *)config->bytes;
    const struct onnx_graph *g = &f->onnx->graph;
    size_t i;
    for (i = 0; i < g->input_count && i < NN_PORTS; i++) {
        const struct onnx_port *p = &g->inputs[i];
        int64_t dims[TENSOR_RANK];
        for (int d = 0; d < p->rank; d++) {
            dims[d] = size_of(f, options, p, d, batch);
            if (dims[d] < 1)
                return i;
        }
        bool is_float = onnx_type_is_float(p->type);
        nn_port_set(&ports[i], p->name,
                    is_float               ? p->rank >= 4 ? NN_IMAGES : NN_FLOATS
                    : is_target(f, p)      ? NN_CLASSES
                    : has(p->name, "mask") ? NN_MASK
                                           : NN_TOKENS,
                    false, p->rank, dims);
    }
    return i;
}

/* ---- checks ----------------------------------------------------------------------------------- */

static enum ebb_status check(const struct nn_config *config, struct ebb_error *err)
{
    const struct nn_onnx_file *f = config->model->context;
    const struct nn_onnx_options *options = (const void *)config->bytes;
    for (size_t i = 0; i < f->label_count; i++)
        if (options->sizes[i] < 1)
            return ebb_fail(err, EBB_EINPUT,
                            "%s: the file leaves the size '%s' open: give it (model.%s, or --set "
                            "%s=N)",
                            f->onnx->path, f->labels[i], f->labels[i], f->labels[i]);
    return EBB_OK;
}

#define LARGEST (INT64_C(1) << 30) /* elements of one sample, or of an input */

static enum ebb_status check_ports(const struct nn_onnx_file *f, struct ebb_error *err)
{
    const struct onnx_graph *g = &f->onnx->graph;
    if (f->onnx->opset < 1)
        return ebb_fail(err, EBB_EUNSUPPORTED, "%s: it has no ops of ONNX's own domain",
                        f->onnx->path);
    if (!g->output_count || g->input_count > NN_PORTS)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "%s: %zu inputs and %zu outputs, allowed: at most %d "
                        "and at least one",
                        f->onnx->path, g->input_count, g->output_count, NN_PORTS);
    for (size_t i = 0; i < g->input_count; i++) {
        const struct onnx_port *p = &g->inputs[i];
        bool is_integer = p->type == ONNX_INT64 || p->type == ONNX_INT32;
        if (!p->is_tensor || p->rank < 0 || p->rank > TENSOR_RANK ||
            (!onnx_type_is_float(p->type) && !is_integer))
            return ebb_fail(err, EBB_EUNSUPPORTED,
                            "%s: input '%s' is %s%s, allowed: tensors of fractions, INT64 or INT32 "
                            "with a number of dimensions",
                            f->onnx->path, p->name, p->is_tensor ? "" : "no tensor, ",
                            onnx_type_name(p->type));
        int64_t count = 1;
        for (int d = 0; d < p->rank; d++)
            if (p->dims[d].value == 0 || p->dims[d].value > LARGEST ||
                (count *= p->dims[d].value > 0 ? p->dims[d].value : 1) > LARGEST)
                return ebb_fail(err, EBB_EINPUT, "%s: input '%s' has a size of %" PRId64,
                                f->onnx->path, p->name, p->dims[d].value);
    }
    return EBB_OK;
}

/* ---- what it is for --------------------------------------------------------------------------- */

static const char *maker_of(const struct nn_onnx_file *f, uint32_t value)
{
    return f->maker[value] ? f->onnx->graph.nodes[f->maker[value] - 1].op : "";
}

static void choose_loss(struct nn_onnx_file *f, const enum nn_task *task)
{
    const struct onnx_graph *g = &f->onnx->graph;
    for (size_t i = 0; i < g->output_count; i++) {
        const char *op = maker_of(f, g->outputs[i].value);
        if (strstr(op, "Loss") ||
            (strcmp(g->outputs[i].name, "loss") == 0 && g->outputs[i].rank == 0)) {
            f->loss = g->outputs[i].name;
            return;
        }
    }
    const struct onnx_port *p = &g->outputs[0];
    const char *op = maker_of(f, p->value);
    bool is_single = p->rank > 0 && p->dims[p->rank - 1].value == 1;
    f->loss = strcmp(op, "LogSoftmax") == 0        ? "nll_loss"
              : strcmp(op, "Softmax") == 0         ? "cross_entropy"
              : strcmp(op, "Sigmoid") == 0         ? "bce_loss"
              : task && *task == NN_REGRESSION     ? "mse_loss"
              : !task && p->rank == 2 && is_single ? "mse_loss"
                                                   : "cross_entropy";
}

static enum nn_task task_of(const struct nn_onnx_file *f)
{
    const struct onnx_graph *g = &f->onnx->graph;
    bool has_tokens = g->input_count && !onnx_type_is_float(g->inputs[0].type);
    int rank = g->outputs[0].rank;
    if (strcmp(f->loss, "mse_loss") == 0 || strcmp(f->loss, "bce_loss") == 0)
        return NN_REGRESSION;
    if (has_tokens)
        return NN_LANGUAGE_MODEL;
    return rank == 4 ? NN_SEGMENTATION : NN_IMAGE_CLASSIFICATION;
}

static const char *const loss_ops[] = {"cross_entropy",  "nll_loss",   "bce_with_logits_loss",
                                       "bce_loss",       "mse_loss",   "l1_loss",
                                       "smooth_l1_loss", "kl_div_loss"};
enum { LOSS_OPS = sizeof loss_ops / sizeof *loss_ops };

const char *nn_onnx_loss(const struct nn_onnx_file *f, const struct nn_onnx_options *options,
                         bool *is_op)
{
    size_t i = (size_t)options->loss, outputs = NN_ONNX_LOSSES + LOSS_OPS;
    const char *loss = i == NN_ONNX_AUTO      ? f->loss
                       : i == NN_ONNX_NO_LOSS ? NULL
                       : i < outputs          ? loss_ops[i - NN_ONNX_LOSSES]
                                              : f->onnx->graph.outputs[i - outputs].name;
    *is_op = loss && ebb_name_index(loss, loss_ops, LOSS_OPS) >= 0;
    return loss;
}

/* Outputs by name, behind what else may stand there. */
static const char *words_of(struct ebb_arena *arena, const struct nn_onnx_file *f, bool is_loss)
{
    struct ebb_str text = {0};
    if (is_loss)
        ebb_str_add(&text, "auto none");
    for (size_t i = 0; is_loss && i < LOSS_OPS; i++)
        ebb_str_printf(&text, " %s", loss_ops[i]);
    for (size_t i = 0; i < f->onnx->graph.output_count; i++) {
        const char *name = f->onnx->graph.outputs[i].name;
        ebb_str_add(&text, text.length ? " " : "");
        if (strpbrk(name, " \t\n"))
            ebb_str_printf(&text, "output_%zu", i);
        else
            ebb_str_add(&text, name);
    }
    const char *words =
        text.failed ? NULL : ebb_arena_strndup(arena, ebb_str_c(&text), text.length);
    ebb_str_fini(&text);
    return words;
}

/* ---- what exporters do ------------------------------------------------------------------------ */

static void note(struct ebb_arena *arena, struct nn_onnx_file *f, const char *fmt, size_t count)
{
    const char *text = ebb_arena_printf(arena, "%zu %s", count, fmt);
    if (text && f->note_count < sizeof f->notes / sizeof *f->notes)
        f->notes[f->note_count++] = text;
}

static size_t count_named(const struct nn_onnx_file *f, const char *prefix)
{
    const struct onnx_graph *g = &f->onnx->graph;
    size_t n = 0;
    for (size_t i = 0; i < g->initializer_count; i++)
        n += f->weights[i].tensor && g->initializers[i].rank > 1 &&
             strncmp(g->initializers[i].name, prefix, strlen(prefix)) == 0;
    return n;
}

#define REMEDY                                                                                     \
    "To train as the model was written, export it with torch.onnx.export(model, args, path, "      \
    "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)"

static void find_traces_of_export(struct ebb_arena *arena, struct nn_onnx_file *f)
{
    size_t merged = count_named(f, "onnx::Conv_"), folded = count_named(f, "onnx::MatMul_");
    size_t softmax = 0;
    for (size_t i = 0; i < f->onnx->graph.output_count; i++)
        softmax += strcmp(maker_of(f, f->onnx->graph.outputs[i].value), "Softmax") == 0;
    if (merged)
        note(arena, f,
             "convolutions have weights without a name of their own (onnx::Conv_...): the exporter "
             "merged batch norms into them, so their statistics cannot be trained. " REMEDY,
             merged);
    if (folded)
        note(arena, f,
             "weights of products have no name of their own (onnx::MatMul_...): constant folding "
             "turned and renamed those of Linear layers, so they fit no state_dict. " REMEDY,
             folded);
    if (softmax && strcmp(f->loss, "cross_entropy") == 0)
        note(arena, f, "softmax at the end is left out: cross_entropy takes the scores before it",
             softmax);
}

/* ---- the row ---------------------------------------------------------------------------------- */

static void make_options(struct nn_onnx_file *f)
{
    size_t n = 0;
    f->options[n++] = (struct ebb_key){.path = "batch_norm",
                                       .kind = EBB_KEY_WORD,
                                       .words = "train frozen",
                                       .at = offsetof(struct nn_onnx_options, batch_norm),
                                       .help = "whether batch norms use and update statistics"};
    f->options[n++] =
        (struct ebb_key){.path = "loss",
                         .kind = EBB_KEY_WORD,
                         .words = f->loss_words,
                         .at = offsetof(struct nn_onnx_options, loss),
                         .help = "loss of the output, or the output that is the loss"};
    f->options[n++] = (struct ebb_key){.path = "output",
                                       .kind = EBB_KEY_WORD,
                                       .words = f->output_words,
                                       .at = offsetof(struct nn_onnx_options, output),
                                       .help = "the output that is trained"};
    for (size_t i = 0; i < f->label_count; i++)
        f->options[n++] =
            (struct ebb_key){.path = f->labels[i],
                             .kind = EBB_KEY_INT,
                             .bounds = ">= 1, <= 16777216",
                             .at = offsetof(struct nn_onnx_options, sizes) + i * sizeof(int64_t),
                             .help = "a size that the file leaves open"};
    f->model.options = f->options;
    f->model.option_count = n;
}

static const char *stem(struct ebb_arena *arena, const char *path)
{
    const char *name = ebb_file_name(path);
    size_t n = strlen(name);
    return ebb_arena_strndup(arena, name, n > 5 ? n - 5 : n);
}

static enum ebb_status make_row(struct ebb_arena *arena, const struct onnx_model *onnx,
                                const struct nn_env *env, struct nn_config *config,
                                struct ebb_error *err)
{
    struct nn_onnx_file *f = ebb_arena_calloc(arena, 1, sizeof *f);
    struct nn_onnx_options *defaults = ebb_arena_calloc(arena, 1, NN_CONFIG_BYTES);
    if (!f || !defaults)
        return ebb_no_memory(err, sizeof *f);
    f->onnx = onnx;
    EBB_TRY(check_ports(f, err));
    if (!take_arrays(arena, f))
        return ebb_no_memory(err, 0);
    find_live(f);
    EBB_TRY(check_nodes(f, err));
    find_weights(f);
    find_sizes(f);
    choose_loss(f, env ? env->task : NULL);
    find_traces_of_export(arena, f);
    f->loss_words = words_of(arena, f, true);
    f->output_words = words_of(arena, f, false);
    if (!f->loss_words || !f->output_words)
        return ebb_no_memory(err, 0);
    make_options(f);
    f->model.name = stem(arena, onnx->path);
    f->model.summary = ebb_arena_printf(arena, "ONNX file of %s, opset %" PRId64 ", %zu nodes",
                                        *onnx->producer ? onnx->producer : "an unknown exporter",
                                        onnx->opset, onnx->graph.node_count);
    f->model.task = env && env->task ? *env->task : task_of(f);
    f->model.defaults = defaults;
    f->model.config_bytes = sizeof *defaults;
    f->model.check = check;
    f->model.inputs = nn_onnx_inputs;
    f->model.build = nn_onnx_build;
    f->model.beside = onnx->beside;
    f->model.beside_count = onnx->beside_count;
    f->model.hash = onnx->sha256;
    f->model.notes = f->notes;
    f->model.note_count = f->note_count;
    f->model.context = f;
    if (!f->model.name || !f->model.summary)
        return ebb_no_memory(err, 0);
    memset(config, 0, sizeof *config);
    config->model = &f->model;
    return EBB_OK;
}

enum ebb_status nn_onnx_open(struct ebb_arena *arena, const char *path, const struct nn_env *env,
                             struct nn_config *config, struct ebb_error *err)
{
    const struct onnx_model *onnx;
    EBB_TRY(onnx_open(arena, path, &onnx, err));
    return make_row(arena, onnx, env, config, err);
}

enum ebb_status nn_onnx_from_bytes(struct ebb_arena *arena, const char *path, const void *bytes,
                                   size_t length, const struct nn_env *env,
                                   struct nn_config *config, struct ebb_error *err)
{
    const struct onnx_model *onnx;
    EBB_TRY(onnx_read(arena, path, bytes, length, &onnx, err));
    return make_row(arena, onnx, env, config, err);
}

int64_t nn_config_batch(const struct nn_config *config, int64_t batch)
{
    const struct nn_onnx_file *f = config->model->context;
    return config->model->build == nn_onnx_build && !f->batch && f->exported_batch > 0
               ? f->exported_batch
               : batch;
}
