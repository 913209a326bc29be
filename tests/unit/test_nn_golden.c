/* Reference trainings through the zoo's builders: ten updates each, losses, first gradients, final
 * weights and statistics as float64 says. Items and reference parameters go by order. */
#include "test.h"

#include "base/file.h"
#include "nn_kit.h"
#include "optim/optim.h"

#define FOLDER EBB_SOURCE_DIR "/tests/golden/engine/e2e/"

struct golden {
    struct ebb_arena arena;
    const struct ebb_doc_node *doc;
    struct ebb_file_view view;
    struct tensor_file file;
    struct kit k;
    struct optim_config optim;
    struct optim_count count;
    tensor_id scalars;
};

static void open_golden(struct golden *g, const char *name)
{
    char path[512];
    struct ebb_error err;
    memset(g, 0, sizeof *g);
    ebb_arena_init(&g->arena);
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    CHECK_OK(ebb_doc_load(&g->arena, path, &g->doc, &err), &err);
    snprintf(path, sizeof path, FOLDER "%s.safetensors", name);
    CHECK_OK(ebb_file_view_open(&g->view, path, SIZE_MAX, &err), &err);
    CHECK_OK(tensor_file_read(&g->file, path, g->view.data, g->view.length, &err), &err);
}

static void close_golden(struct golden *g)
{
    kit_close(&g->k);
    tensor_file_fini(&g->file);
    ebb_file_view_close(&g->view);
    ebb_arena_fini(&g->arena);
}

static const struct tensor_entry *entry(const struct golden *g, const char *kind, const char *name,
                                        const char *suffix)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s%s", kind, name, suffix);
    const struct tensor_entry *e = tensor_file_find(&g->file, full);
    if (!e)
        fail_msg("no %s in the reference", full);
    return e;
}

static double element(const struct tensor_entry *e, int64_t i)
{
    double d;
    float f;
    if (e->view.dtype == TENSOR_F64) {
        memcpy(&d, (const char *)e->data + (size_t)i * sizeof d, sizeof d);
        return d;
    }
    memcpy(&f, (const char *)e->data + (size_t)i * sizeof f, sizeof f);
    return (double)f;
}

/* Weights after training. Where the gradient is zero in exact arithmetic (the keys' bias), Adam
 * makes full steps of noise: such elements may differ by two rates per step. */
static void compare_final(struct golden *g, const char *name, const float *got)
{
    const struct tensor_entry *want = entry(g, "final", name, ""),
                              *grad = entry(g, "grad0", name, "");
    double largest = 0;
    for (int64_t i = 0; i < tensor_count(&want->view); i++)
        largest = fmax(largest, fabs(element(want, i)));
    for (int64_t i = 0; i < tensor_count(&want->view); i++) {
        double off = fabs((double)got[i] - element(want, i)), room = 2e-4 * fmax(largest, 0.01);
        if (fabs(element(grad, i)) <= 1e-8)
            room += 20 * g->optim.lr;
        if (!(off <= room))
            fail_msg("final %s: element %d off by %g of %g", name, (int)i, off, largest);
    }
}

/* Largest difference as a part of the reference's largest element. */
static void compare(const char *what, const char *name, const float *got,
                    const struct tensor_entry *want, double limit)
{
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < tensor_count(&want->view); i++) {
        double w = element(want, i);
        worst = fmax(worst, fabs((double)got[i] - w));
        largest = fmax(largest, fabs(w));
    }
    if (!(worst <= limit * fmax(largest, 1e-6)))
        fail_msg("%s of %s: off by %g of %g", what, name, worst, largest);
}

/* The i-th parameter of the reference belongs to the i-th parameter item. */
static const char *reference_name(const struct golden *g, size_t item, const char *key, bool buffer)
{
    const struct ebb_doc_node *map = ebb_doc_get(g->doc, key);
    size_t at = 0;
    for (size_t i = 0; i < item; i++) {
        const struct nn_item *x = nn_item_at(&g->k.b, i);
        at += (x->role == NN_BUFFER) == buffer && x->view.dtype == TENSOR_F32;
    }
    CHECK(map && at < map->count);
    return map->keys[at]->text;
}

/* ---- building -------------------------------------------------------------------------------- */

static void build(struct golden *g, const char *model, const char *set, int64_t batch,
                  const char *optimizer, const struct ebb_doc_node *args, double clip)
{
    struct ebb_error err;
    struct nn_config c;
    struct kit *k = &g->k;
    CHECK_OK(optim_parse(optimizer, args, &g->optim, &err), &err);
    CHECK_OK(kit_config(&c, model, set, &err), &err);
    CHECK_OK(kit_build(k, &c, batch, (struct nn_mode){.is_training = true}, &err), &err);
    CHECK_OK(kit_backward(k, &err), &err);
    for (size_t i = 0; i < k->trained; i++)
        tensor_keep(k->s, k->grads[i] = ops_contiguous(k->s, k->grads[i]));
    tensor_id *used = ebb_calloc(k->trained + 1, sizeof *used);
    CHECK(used != NULL);
    memcpy(used, k->grads, k->trained * sizeof *used);
    if (clip > 0)
        optim_clip(k->s, used, k->trained, clip, NULL);
    g->scalars = tensor_leaf(k->s, TENSOR_F32, 1, (int64_t[]){OPS_UPDATE_SCALARS}, "scalars");
    for (size_t i = 0; i < k->trained; i++) {
        const struct tensor_view v = *tensor_view_of(k->s, k->weights[i]);
        tensor_id states[OPS_UPDATE_STATES], out[1 + OPS_UPDATE_STATES];
        size_t n = optim_state_count(&g->optim);
        for (size_t j = 0; j < n; j++)
            states[j] = tensor_leaf(k->s, TENSOR_F32, v.rank, v.dims, "state");
        ops_update(k->s, g->optim.kind, optim_flags(&g->optim), g->scalars, used[i], k->weights[i],
                   states, n, out);
    }
    ebb_free(used);
    for (size_t i = 0; i < k->output_count; i++)
        if (k->outputs[i].kind == NN_METRIC)
            tensor_keep(k->s, k->outputs[i].id);
    CHECK_OK(kit_finish(k, &err), &err);
    for (uint32_t i = 0; i < k->trace->storage_count; i++) /* states begin at zero */
        memset(k->host.pointers[i], 0, k->trace->storages[i].bytes);
}

struct item { /* of floats, and what the reference calls it */
    size_t next;
    const struct nn_item *at;
    bool is_buffer;
    const char *name;
};

static bool next_item(struct golden *g, struct item *x)
{
    while (x->next < nn_item_count(&g->k.b)) {
        x->at = nn_item_at(&g->k.b, x->next++);
        if (x->at->view.dtype != TENSOR_F32)
            continue;
        x->is_buffer = x->at->role == NN_BUFFER;
        x->name = reference_name(g, x->next - 1, x->is_buffer ? "buffers" : "params", x->is_buffer);
        return true;
    }
    return false;
}

static void load_items(struct golden *g)
{
    struct item x = {0};
    while (next_item(g, &x)) {
        const struct tensor_entry *e = entry(g, x.is_buffer ? "buf" : "init", x.name, "");
        if (tensor_count(&e->view) != tensor_count(&x.at->view))
            fail_msg("%s and %s differ in shape", x.at->name, x.name);
        memcpy(kit_data(&g->k, x.at->leaf), e->data, e->bytes);
    }
}

static void next_scalars(struct golden *g)
{
    float scalars[OPS_UPDATE_SCALARS];
    optim_step(&g->optim, &g->count, g->optim.lr, scalars);
    memcpy(kit_data(&g->k, g->scalars), scalars, sizeof scalars);
}

static void check_loss(struct golden *g, const char *key, int64_t step, tensor_id loss)
{
    const struct ebb_doc_node *list = ebb_doc_get(ebb_doc_get(g->doc, "record"), key);
    CHECK(list && (size_t)step < list->count);
    double got = (double)*(float *)kit_data(&g->k, loss), want = list->items[step]->number;
    if (!(fabs(got - want) <= 1e-5 * fabs(want)))
        fail_msg("%s of step %d: %.9g, reference %.9g", key, (int)step, got, want);
}

static void check_items(struct golden *g, bool is_first)
{
    size_t t = 0;
    struct item x = {0};
    while (next_item(g, &x)) {
        if (is_first && x.at->is_trained)
            compare("gradient", x.at->name, kit_data(&g->k, g->k.grads[t++]),
                    entry(g, "grad0", x.name, ""), 1e-4);
        else if (!is_first && x.is_buffer)
            compare("final value", x.at->name, kit_data(&g->k, x.at->leaf),
                    entry(g, "finalbuf", x.name, ""), 1e-4);
        else if (!is_first)
            compare_final(g, x.name, kit_data(&g->k, x.at->leaf));
    }
}

/* fill: puts the data of one step into the inputs and targets. */
static void train(struct golden *g, void (*fill)(struct golden *g, int64_t step))
{
    struct ebb_error err;
    load_items(g);
    for (int64_t t = 0; t < ebb_doc_int(g->doc, "steps", 10); t++) {
        fill(g, t);
        next_scalars(g);
        CHECK_OK(ops_host_run(&g->k.host, &err), &err);
        check_loss(g, "loss_f64", t, g->k.loss);
        if (t == 0)
            check_items(g, true);
    }
    check_items(g, false);
}

static void run(const char *name, const char *model, const char *set, int64_t batch,
                void (*fill)(struct golden *g, int64_t step))
{
    struct golden g;
    open_golden(&g, name);
    const struct ebb_doc_node *t = ebb_doc_get(g.doc, "train");
    build(&g, model, set, batch, ebb_doc_string(t, "optimizer", ""), ebb_doc_get(t, "args"),
          ebb_doc_double(t, "clip_grad_norm", 0));
    train(&g, fill);
    close_golden(&g);
}

/* Step `step` of data/<name>, as bytes. */
static const void *data_of(const struct golden *g, const char *name, int64_t step, size_t *bytes)
{
    const struct tensor_entry *e = entry(g, "data", name, "");
    *bytes = e->bytes / (size_t)e->view.dims[0];
    return (const char *)e->data + (size_t)step * *bytes;
}

static void put(struct golden *g, tensor_id to, const char *name, int64_t step)
{
    size_t bytes;
    const void *data = data_of(g, name, step, &bytes);
    memcpy(kit_data(&g->k, to), data, bytes);
}

/* ---- the trainings --------------------------------------------------------------------------- */

static void fill_image(struct golden *g, int64_t step)
{
    put(g, g->k.inputs[0], "x", step);
    put(g, g->k.targets[0], "t", step);
}

TEST(resnet__follows_the_reference)
{
    run("resnet_mini", "cifar_resnet20", "blocks=1,2 planes=8 height=16 width=16", 4, fill_image);
}

static void fill_tokens(struct golden *g, int64_t step)
{
    put(g, g->k.inputs[0], "idx", step);
    put(g, g->k.targets[0], "t", step);
}

TEST(gpt__follows_the_reference)
{
    run("gpt_mini", "gpt2_124M", "vocabulary=64 positions=16 length=16 width=32 layers=2 heads=4",
        2, fill_tokens);
}

/* The reference has time first, and one state for both layers. */
static void fill_words(struct golden *g, int64_t step)
{
    enum { T = 6, B = 3 };
    static const char *const names[] = {"idx", "t"}, *const states[] = {"h0", "c0"};
    size_t bytes;
    for (int k = 0; k < 2; k++) {
        const int64_t *from = data_of(g, names[k], step, &bytes);
        int64_t *to = kit_data(&g->k, k ? g->k.targets[0] : g->k.inputs[0]);
        for (int t = 0; t < T; t++)
            for (int b = 0; b < B; b++)
                to[b * T + t] = from[t * B + b];
        const void *state = data_of(g, states[k], step, &bytes);
        for (size_t layer = 0; layer < 2; layer++)
            memcpy((char *)kit_data(&g->k, g->k.inputs[1 + k]) + layer * bytes, state, bytes);
    }
}

TEST(lstm__follows_the_reference)
{
    run("lstm_mini", "wlm_lstm", "vocabulary=20 length=6 embedding=8 hidden=12 dropout=0", 3,
        fill_words);
}

static void fill_tree(struct golden *g, int64_t step)
{
    char name[8];
    size_t bytes;
    for (size_t i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "x%zu", i);
        const void *data = data_of(g, name, step, &bytes);
        memcpy((char *)kit_data(&g->k, g->k.inputs[0]) + i * bytes, data, bytes);
    }
}

TEST(treelstm__follows_the_reference)
{
    run("treelstm_mini", "dtr_treelstm", "features=5 memory=6 depth=2", 3, fill_tree);
}

/* The model updates D itself, the optimizer here only G. */
TEST(unrolled_gan__follows_the_reference)
{
    struct golden g;
    struct ebb_error err;
    open_golden(&g, "unrolled_gan_mini");
    build(&g, "unrolled_gan", "noise=4 hidden=6 unroll=3 lr=0.001", 8, "Adam",
          ebb_doc_get(g.doc, "adam_g"), 0);
    struct kit *k = &g.k;
    for (size_t i = 0; i < nn_item_count(&k->b); i++) {
        const struct nn_item *item = nn_item_at(&k->b, i);
        if (item->role == NN_BUFFER)
            continue;
        const struct tensor_entry *e = entry(&g, "init", item->name, "");
        memcpy(kit_data(k, item->leaf), e->data, e->bytes);
    }
    for (int64_t t = 0; t < 10; t++) {
        for (size_t i = 0; i < k->port_count; i++)
            if (k->ports[i].kind == NN_SCALARS)
                nn_generate(&k->config, &k->ports[i], 0, t, kit_data(k, k->inputs[i]));
            else
                put(&g, k->inputs[i], k->ports[i].name, t);
        next_scalars(&g);
        CHECK_OK(ops_host_run(&k->host, &err), &err);
        check_loss(&g, "g_loss_f64", t, k->outputs[0].id);
        check_loss(&g, "d_loss_f64", t, k->outputs[1].id);
        for (size_t i = 0; t == 0 && i < k->trained; i++) /* G comes first */
            compare("gradient", nn_item_at(&k->b, i)->name, kit_data(k, k->grads[i]),
                    entry(&g, "grad0", nn_item_at(&k->b, i)->name, "_f64"), 1e-4);
    }
    for (size_t i = 0; i < nn_item_count(&k->b); i++) {
        const struct nn_item *item = nn_item_at(&k->b, i);
        if (item->role != NN_BUFFER)
            compare("final value", item->name, kit_data(k, item->leaf),
                    entry(&g, "final", item->name, "_f64"), 1e-5);
    }
    close_golden(&g);
}

TEST_MAIN()
