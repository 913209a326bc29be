/* ONNX files as models: what is an item, what is folded, what is one op again, what is refused. */
#include "test_folder.h"

#include "nn_kit.h"
#include "onnx/onnx.h"

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ---- files by hand ---------------------------------------------------------------------------- */

static struct onnx_writer *w;

static void begin(void)
{
    struct ebb_error err;
    CHECK_OK(onnx_writer_create(&w, "test", &err), &err);
}

static void input(const char *name, int type, int rank, const int64_t *dims)
{
    struct onnx_dim d[8] = {{.value = -1, .label = "batch"}};
    for (int i = 1; i < rank; i++)
        d[i] = dims[i] ? (struct onnx_dim){.value = dims[i]} : (struct onnx_dim){-1, "words"};
    onnx_write_input(w, name, type, rank, d);
}

static void output(const char *name, int rank)
{
    struct onnx_dim d[8] = {{.value = -1, .label = "batch"}};
    for (int i = 1; i < rank; i++)
        d[i] = (struct onnx_dim){-1, "any"};
    onnx_write_output(w, name, ONNX_FLOAT, rank, d);
}

static void weight(const char *name, int rank, const int64_t *dims)
{
    static float values[4096];
    size_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= (size_t)dims[d];
    for (size_t i = 0; i < 4096; i++)
        values[i] = (float)(i % 7) / 8 - 0.25f;
    onnx_write_initializer(w, name, ONNX_FLOAT, rank, dims, values, n * sizeof *values);
}

static void number(const char *name, float v)
{
    static float kept[64];
    static size_t n;
    kept[n % 64] = v;
    onnx_write_initializer(w, name, ONNX_FLOAT, 0, NULL, &kept[n++ % 64], sizeof v);
}

static void node(const char *op, const char *a, const char *b, const char *y)
{
    onnx_write_node(w, op);
    onnx_write_in(w, a);
    if (b)
        onnx_write_in(w, b);
    onnx_write_out(w, y);
}

static void plain(const char *op, const char *a, const char *b, const char *y)
{
    node(op, a, b, y);
    onnx_write_end(w);
}

static void means(const char *x, const char *y)
{
    node("ReduceMean", x, NULL, y);
    onnx_write_ints(w, "axes", (int64_t[]){-1}, 1);
    onnx_write_end(w);
}

static const char *save(const char *name)
{
    struct ebb_error err;
    CHECK_OK(onnx_writer_save(w, path_of(name), &err), &err);
    onnx_writer_destroy(w);
    return path_of(name);
}

/* ---- building --------------------------------------------------------------------------------- */

struct model {
    struct ebb_arena arena;
    struct nn_config config;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_output outputs[NN_PORTS];
    size_t count;
};

static enum ebb_status open_model(struct model *m, const char *path, const char *set,
                                  struct ebb_error *err)
{
    struct ebb_report report;
    char text[128], *save_at = NULL;
    memset(m, 0, sizeof *m);
    EBB_TRY(nn_config_open(&m->arena, path, &m->config, &report, err));
    snprintf(text, sizeof text, "%s", set);
    for (char *t = strtok_r(text, " ", &save_at); t; t = strtok_r(NULL, " ", &save_at)) {
        char *eq = strchr(t, '=');
        CHECK(eq);
        *eq = 0;
        EBB_TRY(nn_config_set(&m->config, t, eq + 1, err));
    }
    return EBB_OK;
}

static enum ebb_status build_model(struct model *m, int64_t batch, bool is_training,
                                   struct ebb_error *err)
{
    tensor_id in[NN_PORTS];
    CHECK_OK(tensor_session_create(&m->s, NULL, err), err);
    nn_builder_init(&m->b, m->s, &(struct nn_mode){.is_training = is_training});
    EBB_TRY(nn_leaves(&m->b, &m->config, batch, in, err));
    return nn_build(&m->b, &m->config, in, m->outputs, &m->count, err);
}

static void close_model(struct model *m)
{
    if (m->s) {
        nn_builder_fini(&m->b);
        tensor_session_destroy(m->s);
    }
    ebb_arena_fini(&m->arena);
}

/* How many ops of this name the result depends on. */
static size_t count_ops(struct model *m, const char *name)
{
    struct trace *trace;
    struct ebb_error err;
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++)
        tensor_keep(m->s, m->outputs[i].id);
    CHECK_OK(tensor_finish(m->s, "t", &trace, &err), &err);
    for (uint32_t i = 0; i < trace->op_count; i++)
        n += strcmp(trace->ops[i].kind->name, name) == 0;
    trace_destroy(trace);
    return n;
}

static void check_ops(const char *path, const char *set, const char *op, size_t want)
{
    struct model m;
    struct ebb_error err;
    CHECK_OK(open_model(&m, path, set, &err), &err);
    CHECK_OK(build_model(&m, 2, true, &err), &err);
    size_t have = count_ops(&m, op);
    if (have != want)
        fail_msg("%zu of %s, expected %zu", have, op, want);
    close_model(&m);
}

static void check_refused(const char *path, const char *set, const char *reason)
{
    struct model m;
    struct ebb_error err = {0};
    enum ebb_status status = open_model(&m, path, set, &err);
    EBB_THEN(status, build_model(&m, 2, true, &err));
    CHECK(status != EBB_OK);
    if (!strstr(err.message, reason))
        fail_msg("%s", err.message);
    close_model(&m);
}

/* x [batch, 4] W^T + b, then a scalar */
static const char *write_linear(void)
{
    begin();
    input("x", ONNX_FLOAT, 2, (int64_t[]){0, 4});
    output("y", 2);
    weight("fc.weight", 2, (int64_t[]){3, 4});
    weight("fc.bias", 1, (int64_t[]){3});
    weight("unread", 1, (int64_t[]){3});
    number("two", 2);
    node("Transpose", "fc.weight", NULL, "t");
    onnx_write_ints(w, "perm", (int64_t[]){1, 0}, 2);
    onnx_write_end(w);
    plain("MatMul", "x", "t", "m");
    plain("Add", "m", "fc.bias", "a");
    plain("Mul", "a", "two", "y");
    plain("Frobnicate", "x", NULL, "dead"); /* X3: nobody reads it */
    return save("linear.onnx");
}

TEST(initializers_that_are_read__are_items_in_the_order_of_the_file)
{
    struct model m;
    struct ebb_error err;
    CHECK_OK(open_model(&m, write_linear(), "", &err), &err);
    CHECK_OK(build_model(&m, 5, true, &err), &err);
    CHECK_EQ(nn_item_count(&m.b), 2);
    CHECK_STR(nn_item_at(&m.b, 0)->name, "fc.weight");
    CHECK_EQ(nn_item_at(&m.b, 0)->role, NN_WEIGHT);
    CHECK_STR(nn_item_at(&m.b, 1)->name, "fc.bias");
    CHECK_EQ(tensor_view_of(m.s, m.outputs[0].id)->dims[0], 5);
    CHECK_STR(m.outputs[0].loss, "cross_entropy");
    CHECK_EQ(strlen(nn_config_hash(&m.config)), 64);
    close_model(&m);
}

TEST(values_of_the_file__are_the_initial_ones)
{
    struct model m;
    struct ebb_error err;
    struct nn_initializer *init;
    float values[12];
    CHECK_OK(open_model(&m, write_linear(), "", &err), &err);
    CHECK_OK(build_model(&m, 1, true, &err), &err);
    CHECK_OK(nn_initializer_create(&init, &m.b, NN_TORCH, 7, &err), &err);
    nn_initialize(init, 0, values);
    CHECK(values[0] < -0.24f && values[1] > -0.126f && values[1] < -0.124f);
    nn_initializer_destroy(init);
    close_model(&m);
}

TEST(a_turned_weight_and_its_bias__are_one_linear_layer)
{
    check_ops(write_linear(), "", "linear2", 1);
    check_ops(write_linear(), "", "add", 0);
}

/* Layer norm as torch takes it apart below opset 17. */
static void write_norm(void)
{
    input("x", ONNX_FLOAT, 3, (int64_t[]){0, 5, 8});
    weight("ln.weight", 1, (int64_t[]){8});
    weight("ln.bias", 1, (int64_t[]){8});
    number("two", 2);
    number("eps", 1e-5f);
    means("x", "mean");
    plain("Sub", "x", "mean", "d");
    plain("Pow", "d", "two", "p");
    means("p", "var");
    plain("Add", "var", "eps", "v");
    plain("Sqrt", "v", NULL, "s");
    plain("Div", "d", "s", "n");
    plain("Mul", "n", "ln.weight", "m");
}

TEST(layer_norm__is_one_op_again)
{
    begin();
    write_norm();
    output("y", 3);
    plain("Add", "m", "ln.bias", "y");
    const char *path = save("norm.onnx");
    check_ops(path, "", "layer_norm_rows", 1);
    check_ops(path, "", "sqrt", 0);
}

TEST(something_like_layer_norm__is_not)
{
    begin();
    write_norm();
    output("y", 3);
    plain("Add", "m", "d", "y"); /* what is added is no bias */
    check_ops(save("norm2.onnx"), "", "add", 1);
}

TEST(both_forms_of_gelu__are_one_op_again)
{
    begin();
    input("x", ONNX_FLOAT, 2, (int64_t[]){0, 8});
    output("y", 2);
    number("root", 1.41421356f);
    number("one", 1);
    number("half", 0.5f);
    plain("Div", "x", "root", "a");
    plain("Erf", "a", NULL, "b");
    plain("Add", "b", "one", "c");
    plain("Mul", "x", "c", "d");
    plain("Mul", "d", "half", "e");
    number("three", 3);
    number("k", 0.044715f);
    number("r", 0.7978845608f);
    plain("Pow", "e", "three", "f");
    plain("Mul", "k", "f", "g");
    plain("Add", "e", "g", "h");
    plain("Mul", "h", "r", "i");
    plain("Tanh", "i", NULL, "j");
    plain("Add", "one", "j", "l");
    plain("Mul", "e", "half", "m");
    plain("Mul", "m", "l", "n");
    plain("Sigmoid", "n", NULL, "o");
    plain("Mul", "n", "o", "y");
    const char *path = save("gelu.onnx");
    check_ops(path, "", "gelu_erf", 1);
    check_ops(path, "", "gelu_tanh", 1);
    check_ops(path, "", "silu", 1);
    check_ops(path, "", "tanh", 0);
}

static const char *write_attention(float last)
{
    static float mask[16];
    for (int i = 0; i < 16; i++)
        mask[i] = i % 4 > i / 4 ? -1e9f : 0;
    mask[15] = last;
    begin();
    input("q", ONNX_FLOAT, 4, (int64_t[]){0, 2, 4, 8});
    output("y", 4);
    number("scale", 0.25f);
    onnx_write_initializer(w, "mask.unused", ONNX_FLOAT, 0, NULL, mask, 4);
    node("Transpose", "q", NULL, "k");
    onnx_write_ints(w, "perm", (int64_t[]){0, 1, 3, 2}, 4);
    onnx_write_end(w);
    plain("MatMul", "q", "k", "s");
    plain("Mul", "s", "scale", "t");
    onnx_write_initializer(w, "mask", ONNX_DOUBLE, 2, (int64_t[]){0, 0}, mask, 0);
    node("Softmax", "t", NULL, "p");
    onnx_write_int(w, "axis", -1);
    onnx_write_end(w);
    plain("MatMul", "p", "q", "y");
    return save("attention.onnx");
}

TEST(attention__is_one_op_again)
{
    check_ops(write_attention(0), "", "attention_rows", 1);
    check_ops(write_attention(0), "", "softmax", 0);
}

TEST(shapes__are_folded_and_open_sizes_are_options)
{
    struct model m;
    struct ebb_error err = {0};
    static const int64_t two[1] = {2}, last[1] = {-1};
    begin();
    input("x", ONNX_FLOAT, 3, (int64_t[]){0, 0, 6});
    output("y", 4);
    onnx_write_initializer(w, "places", ONNX_INT64, 1, two, (int64_t[]){0, 1}, 16);
    onnx_write_initializer(w, "rest", ONNX_INT64, 1, (int64_t[]){1}, two, 8);
    onnx_write_initializer(w, "open", ONNX_INT64, 1, (int64_t[]){1}, last, 8);
    plain("Shape", "x", NULL, "s");
    plain("Gather", "s", "places", "g");
    onnx_write_node(w, "Concat");
    onnx_write_in(w, "g");
    onnx_write_in(w, "rest");
    onnx_write_in(w, "open");
    onnx_write_out(w, "c");
    onnx_write_int(w, "axis", 0);
    onnx_write_end(w);
    plain("Reshape", "x", "c", "y");
    const char *path = save("shapes.onnx");
    check_refused(path, "", "leaves the size 'words' open");
    CHECK_OK(open_model(&m, path, "words=9", &err), &err);
    CHECK_OK(build_model(&m, 3, false, &err), &err);
    const struct tensor_view *v = tensor_view_of(m.s, m.outputs[0].id);
    CHECK(v->rank == 4 && v->dims[0] == 3 && v->dims[1] == 9 && v->dims[2] == 2 && v->dims[3] == 3);
    close_model(&m);
}

static const char *write_norms(void)
{
    begin();
    input("x", ONNX_FLOAT, 4, (int64_t[]){0, 3, 4, 4});
    output("y", 4);
    for (int i = 0; i < 4; i++)
        weight((const char *[]){"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}[i], 1,
               (int64_t[]){3});
    onnx_write_node(w, "BatchNormalization");
    onnx_write_in(w, "x");
    onnx_write_in(w, "bn.weight");
    onnx_write_in(w, "bn.bias");
    onnx_write_in(w, "bn.running_mean");
    onnx_write_in(w, "bn.running_var");
    onnx_write_out(w, "y");
    onnx_write_end(w);
    return save("bn.onnx");
}

TEST(batch_norm__trains_unless_it_is_frozen)
{
    check_ops(write_norms(), "", "batch_norm_stats", 1);
    check_ops(write_norms(), "batch_norm=frozen", "batch_norm_stats", 0);
}

TEST(patterns__say_what_is_trained)
{
    static const char *const some[] = {"bn.weight"}, *const none[] = {"head.*"};
    struct model m;
    struct ebb_error err = {0};
    CHECK_OK(open_model(&m, write_norms(), "", &err), &err);
    m.config.trainable = some;
    m.config.trainable_count = 1;
    CHECK_OK(build_model(&m, 2, true, &err), &err);
    CHECK(nn_item_find(&m.b, "bn.weight")->is_trained);
    CHECK(!nn_item_find(&m.b, "bn.bias")->is_trained);
    CHECK_EQ(count_ops(&m, "batch_norm_stats"), 0);
    close_model(&m);
    CHECK_OK(open_model(&m, write_norms(), "", &err), &err);
    m.config.trainable = none;
    m.config.trainable_count = 1;
    CHECK(build_model(&m, 2, true, &err) != EBB_OK);
    CHECK(strstr(err.message, "model.trainable: no item of model bn fits 'head.*'"));
    close_model(&m);
}

TEST(an_op_that_is_needed_and_not_known__is_refused_by_node)
{
    begin();
    input("x", ONNX_FLOAT, 2, (int64_t[]){0, 4});
    output("y", 2);
    plain("Frobnicate", "x", NULL, "a");
    plain("Relu", "a", NULL, "y");
    check_refused(save("odd.onnx"), "", "node 0: op Frobnicate is not known");
}

TEST(a_softmax_before_a_cross_entropy__is_left_out_and_told)
{
    struct model m;
    struct ebb_error err;
    begin();
    input("x", ONNX_FLOAT, 2, (int64_t[]){0, 4});
    output("y", 2);
    node("Softmax", "x", NULL, "y");
    onnx_write_int(w, "axis", 1);
    onnx_write_end(w);
    const char *path = save("soft.onnx");
    check_ops(path, "", "softmax", 0);
    check_ops(path, "loss=none", "softmax", 1);
    check_refused(path, "loss=cross_entropi", "nearest: cross_entropy");
    CHECK_OK(open_model(&m, path, "", &err), &err);
    CHECK_EQ(m.config.model->note_count, 1);
    CHECK(strstr(m.config.model->notes[0], "softmax"));
    close_model(&m);
}

TEST_MAIN_ONCE(folder_open, folder_close)
