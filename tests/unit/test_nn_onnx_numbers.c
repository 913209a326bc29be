/* ONNX files as models: numbers. What is one op again learns what its parts would; constants and weights keep apart,
 * whatever they are called; what is written and read again gives the same bits. */
#include "test_folder.h"

#include "nn_kit.h"
#include "onnx/onnx.h"
#include "onnx_text.h"

struct run {
    struct ebb_arena arena;
    struct kit k;
    float *out, *grad; /* of the output; of the item that was named */
    int64_t out_count, grad_count;
};

static float *copy_of(struct run *r, tensor_id id, int64_t *count)
{
    *count = tensor_count(tensor_view_of(r->k.s, id));
    float *copy = ebb_arena_alloc(&r->arena, (size_t)*count * sizeof *copy);
    const float *from = kit_data(&r->k, id);
    CHECK(copy && from);
    memcpy(copy, from, (size_t)*count * sizeof *copy);
    return copy;
}

/* Forward, and the gradient of `item` (NULL: forward alone). */
static void run_config(struct run *r, const struct nn_config *config, const char *item)
{
    struct ebb_error err = {0};
    tensor_id grad = TENSOR_NONE;
    CHECK_OK(kit_build(&r->k, config, 3, (struct nn_mode){.is_training = item != NULL}, &err),
             &err);
    if (item)
        CHECK_OK(kit_backward(&r->k, &err), &err);
    for (size_t i = 0, n = 0; item && i < nn_item_count(&r->k.b); i++) {
        const struct nn_item *it = nn_item_at(&r->k.b, i);
        if (strcmp(it->name, item) == 0 && it->is_trained)
            grad = r->k.grads[n];
        n += it->is_trained;
    }
    if (item)
        CHECK(grad.v);
    if (grad.v)
        tensor_keep(r->k.s, grad);
    tensor_keep(r->k.s, r->k.outputs[0].id);
    CHECK_OK(kit_finish(&r->k, &err), &err);
    CHECK_OK(kit_start(&r->k, 7, &err), &err);
    CHECK_OK(ops_host_run(&r->k.host, &err), &err);
    r->out = copy_of(r, r->k.outputs[0].id, &r->out_count);
    if (grad.v)
        r->grad = copy_of(r, grad, &r->grad_count);
}

static struct nn_config config_of(struct run *r, const char *text)
{
    struct ebb_str bytes = {0};
    struct nn_config config;
    struct ebb_report report;
    struct ebb_error err = {0};
    memset(r, 0, sizeof *r);
    onnx_text(text, 17, &bytes);
    char *kept = ebb_arena_strndup(&r->arena, bytes.data, bytes.length);
    CHECK_OK(nn_config_from_text(&r->arena, "t.onnx", kept, bytes.length, &config, &report, &err),
             &err);
    ebb_str_fini(&bytes);
    return config;
}

static void run_text(struct run *r, const char *text, const char *item)
{
    struct nn_config config = config_of(r, text);
    run_config(r, &config, item);
}

static void run_close(struct run *r)
{
    kit_close(&r->k);
    ebb_arena_fini(&r->arena);
}

static void check_close(const float *a, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-6f + 1e-5f * fabsf(b[i])))
            fail_msg("%g and %g at %d", (double)a[i], (double)b[i], (int)i);
}

#define HEAD                                                                                       \
    "x:f[batch,4,4] wq=f[4,4]:0.3,-0.2,0.5 wk=f[4,4]:0.1,0.7,-0.4,0.2,-0.9 wv=f[4,4]:1,-1,0.5 "    \
    "pos=f[4,4]:0.4,-0.3,0.2,1.5,-0.6,0.9,0.05 MatMul(x,wq)->q MatMul(x,wk)->k MatMul(x,wv)->v "   \
    "Transpose(k)->kt{perm=[0,2,1]} MatMul(q,kt)->s Add(s,pos)->sb Softmax(sb)->p{axis=-1} "

/* A bias of the scores is a weight: attention as one op gives it the gradient of its parts. */
TEST(a_bias_of_attention__is_learned)
{
    struct run one, parts;
    run_text(&one, HEAD "MatMul(p,v)->y", "pos");
    run_text(&parts, HEAD "Neg(p)->n Neg(n)->m MatMul(m,v)->y", "pos");
    bool is_one = false, is_taken_apart = false;
    for (uint32_t i = 0; i < one.k.trace->op_count; i++)
        is_one |= strcmp(one.k.trace->ops[i].kind->name, "attention_rows") == 0;
    for (uint32_t i = 0; i < parts.k.trace->op_count; i++)
        is_taken_apart |= strcmp(parts.k.trace->ops[i].kind->name, "attention_rows") == 0;
    CHECK(is_one && !is_taken_apart);
    CHECK_EQ(one.grad_count, 16);
    check_close(one.out, parts.out, one.out_count);
    check_close(one.grad, parts.grad, 16);
    float most = 0;
    for (int i = 0; i < 16; i++)
        most = fmaxf(most, fabsf(one.grad[i]));
    CHECK(most > 1e-4f);
    run_close(&one);
    run_close(&parts);
}

/* A row of a mask that hides everything is filled, not added to. */
TEST(a_row_that_is_hidden__is_left_as_it_was_filled)
{
    struct run one, parts;
#define MASKED                                                                                     \
    "x:f[batch,4,4] w=f[4,4]:0.3,-2.2,1.5 m=b[4,4]:0,0,0,0,1,0,1,1,1 far=f[]:-1e4 MatMul(x,w)->q " \
    "Transpose(q)->kt{perm=[0,2,1]} MatMul(q,kt)->s Where(m,s,far)->sb Softmax(sb)->p{axis=-1} "
    run_text(&one, MASKED "MatMul(p,x)->y", NULL);
    run_text(&parts, MASKED "Neg(p)->n Neg(n)->o MatMul(o,x)->y", NULL);
    check_close(one.out, parts.out, one.out_count);
    run_close(&one);
    run_close(&parts);
}

/* The same file but for the name of a bias, which constants are called by here. */
TEST(a_weight_called_like_a_constant__is_another_thing)
{
    struct run a, b;
    run_text(&a, "x:f[batch,4] bias=f[4]:0.5,0.25 Add(x,bias)->h k~f[4]:1,10,100,1000 Mul(h,k)->y",
             NULL);
    run_text(&b,
             "x:f[batch,4] constants.0=f[4]:0.5,0.25 Add(x,constants.0)->h k~f[4]:1,10,100,1000 "
             "Mul(h,k)->y",
             NULL);
    CHECK_EQ(a.out_count, b.out_count);
    CHECK(memcmp(a.out, b.out, (size_t)a.out_count * sizeof *a.out) == 0);
    CHECK(nn_item_find(&b.k.b, "constants.1"));
    run_close(&a);
    run_close(&b);
}

/* ---- out and in again ------------------------------------------------------------------------- */

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_model(struct run *r, const struct nn_config *config, const char *path)
{
    struct ebb_error err = {0};
    struct nn_initializer *init;
    const void *values[16];
    bool is_fixed;
    size_t n = nn_item_count(&r->k.b);
    CHECK(n <= 16);
    CHECK_OK(nn_initializer_create(&init, &r->k.b, NN_TORCH, 7, &err), &err);
    for (size_t i = 0; i < n; i++) {
        const struct tensor_view *v = &nn_item_at(&r->k.b, i)->view;
        void *p = ebb_arena_alloc(&r->arena, (size_t)tensor_count(v) * 8);
        nn_initialize(init, i, p);
        values[i] = p;
    }
    nn_initializer_destroy(init);
    CHECK_OK(nn_config_export(config, 0, values, path, &is_fixed, &err), &err);
}

/* Written, read, written, read: the same output bits and trained items every time. */
static void check_again(const char *text)
{
    struct run first, next;
    struct nn_config config = config_of(&first, text), read;
    struct ebb_report report;
    struct ebb_error err = {0};
    run_config(&first, &config, NULL);
    write_model(&first, &config, path_of("again.onnx"));
    for (int i = 0; i < 2; i++) {
        memset(&next, 0, sizeof next);
        CHECK_OK(nn_config_open(&next.arena, path_of("again.onnx"), &read, &report, &err), &err);
        run_config(&next, &read, NULL);
        CHECK_EQ(first.out_count, next.out_count);
        CHECK(memcmp(first.out, next.out, (size_t)first.out_count * sizeof *first.out) == 0);
        for (size_t k = 0; k < nn_item_count(&next.k.b); k++) {
            const struct nn_item *item = nn_item_at(&next.k.b, k);
            const struct nn_item *before = nn_item_find(&first.k.b, item->name);
            if (item->is_trained && (!before || !before->is_trained))
                fail_msg("'%s' is trained", item->name);
        }
        if (i == 0)
            write_model(&next, &read, path_of("again.onnx"));
        run_close(&next);
    }
    run_close(&first);
}

TEST(written_and_read_again__it_gives_the_same_bits)
{
    check_again("x:f[batch,4] w=f[4,4]:1,0.5 MatMul(x,w)->h k~f[4]:1,10,100,1000 Mul(h,k)->g "
                "i~i[4]:3,1,0,2 Gather(g,i)->y{axis=1}");
    check_again("x:f[batch,4] t_0=f[4]:1,0.5 constant_1=f[4]:2 Mul(x,t_0)->a Relu(a)->b "
                "Mul(b,constant_1)->c two=f[]:0.3 Pow(c,two)->d Add(d,t_0)->y");
    check_again(
        "x:f[batch,3,4] w=f[4,4]:0.3,-0.2 m~f[3,3]:0,-inf,-inf,0,0,-inf,0,0,0 MatMul(x,w)->q "
        "Transpose(q)->kt{perm=[0,2,1]} MatMul(q,kt)->s Add(s,m)->sb "
        "Softmax(sb)->p{axis=-1} MatMul(p,x)->y");
    check_again("x:f[batch,3,4] w=f[4,4]:0.3,-0.2 m~f[3,3]:0,1,2,-3 MatMul(x,w)->q "
                "Transpose(q)->kt{perm=[0,2,1]} MatMul(q,kt)->s Add(s,m)->sb "
                "Softmax(sb)->p{axis=-1} MatMul(p,x)->y");
}

/* ---- images made larger ----------------------------------------------------------------------- */

#define RESIZE "{mode='linear';coordinate_transformation_mode='half_pixel'}"

TEST(a_scale_that_gives_no_whole_size__is_not_taken_for_the_size)
{
    struct run r;
    struct ebb_error err = {0};
    struct nn_config config =
        config_of(&r, "x:f[batch,1,2,4] s=f[4]:1,1,0.6,0.6 Resize(x,,s)->y" RESIZE);
    CHECK(kit_build(&r.k, &config, 3, (struct nn_mode){0}, &err) != EBB_OK);
    CHECK(strstr(err.message, "is no whole size"));
    run_close(&r);
    run_text(&r, "x:f[batch,1,2,4] s=f[4]:1,1,0.5,1.5 Resize(x,,s)->y" RESIZE, NULL);
    CHECK_EQ(r.out_count, 3 * 1 * 6);
    run_close(&r);
}

/* The format's own numbers (resize_downsample_scales_linear), folded. */
TEST(a_scale_of_constants__looks_where_the_format_says)
{
    struct ebb_str bytes = {0};
    struct ebb_arena arena = {0};
    struct ebb_error err = {0};
    const struct onnx_model *m;
    struct onnx_value values[8] = {{0}};
    onnx_text("v~f[1,1,2,4]:1,2,3,4,5,6,7,8 s=f[4]:1,1,0.6,0.6 Resize(v,,s)->y{mode='linear'}", 13,
              &bytes);
    CHECK_OK(onnx_read(&arena, "t.onnx", bytes.data, bytes.length, &m, &err), &err);
    struct onnx_eval e = {.arena = &arena, .opset = 13, .room = 1 << 16, .steps = 1 << 16};
    CHECK_OK(onnx_eval_graph(&e, &m->graph, values, &err), &err);
    const struct onnx_value *y = &values[m->graph.outputs[0].value];
    CHECK_EQ(y->count, 2);
    CHECK(fabs(y->number[0] - 2.6666665) < 1e-6 && fabs(y->number[1] - 4.3333331) < 1e-6);
    ebb_arena_fini(&arena);
    ebb_str_fini(&bytes);
}

TEST_MAIN_ONCE(folder_open, folder_close)
