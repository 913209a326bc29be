/* A GPU on paper answers what the plug-in answers: sizes of thousands of drawn descriptions, which types are
 * taken, which layouts are liked. Compared where the plug-in was built (test cuda_sizes); without it only that
 * there are answers. */
#include "test.h"

#include "base/rng.h"
#include "kernel/kernel.h"
#include "profile/profile.h"

#define DRAWS 6000

static struct ebb_error err;
static uint64_t seed;

static int64_t one_of(const int64_t *list, size_t count)
{
    return list[ebb_splitmix64(&seed) % count];
}
#define ONE_OF(...)                                                                                \
    one_of((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

struct call {
    enum kernel_family family;
    union kernel_desc d;
    struct kernel_args types;
};

static void draw_reduce(struct kernel_reduce_desc *d)
{
    d->f = (int32_t)ONE_OF(KERNEL_SUM, KERNEL_SUM, KERNEL_MEAN, KERNEL_AMAX, KERNEL_SUM_SQUARES);
    d->rank = (int32_t)ONE_OF(1, 2, 2, 3, 4);
    for (int k = 0; k < d->rank; k++)
        d->dims[k] = ONE_OF(1, 2, 7, 64, 768, 3000);
    d->folded = ebb_splitmix64(&seed) % (UINT64_C(1) << d->rank);
}

static void draw_matmul(struct kernel_matmul *m, struct kernel_args *types)
{
    int64_t a = 1, b = 1, rows = ONE_OF(1, 64, 1024, 4096), columns = ONE_OF(5, 64, 3072),
            k = ONE_OF(9, 64, 768);
    m->dtype = types->in_dtype[0];
    m->out_dtype = ONE_OF(0, 1) ? KERNEL_F32 : m->dtype;
    m->rank = (int32_t)ONE_OF(2, 3, 4);
    m->has_bias = (int32_t)ONE_OF(0, 1);
    m->adds = (int32_t)ONE_OF(KERNEL_ADDS_NOTHING, KERNEL_ADDS_OTHER);
    int64_t dims[3][2] = {{rows, k}, {k, columns}, {rows, columns}};
    for (int i = 0; i < 2; i++) {
        m->a_dims[m->rank - 2 + i] = dims[0][i];
        m->b_dims[m->rank - 2 + i] = dims[1][i];
        m->c_dims[m->rank - 2 + i] = dims[2][i];
    }
    m->a_strides[m->rank - 2] = k;
    m->b_strides[m->rank - 2] = columns;
    m->a_strides[m->rank - 1] = m->b_strides[m->rank - 1] = 1;
    for (int i = m->rank - 3; i >= 0; i--) {
        bool is_shared = ONE_OF(0, 1);
        int64_t n = ONE_OF(1, 3, 8);
        m->a_dims[i] = m->c_dims[i] = n;
        m->b_dims[i] = is_shared ? 1 : n;
        m->a_strides[i] = rows * k * a;
        m->b_strides[i] = k * columns * b;
        a *= n;
        b *= is_shared ? 1 : n;
    }
    types->in_dtype[2] = KERNEL_F32;
    types->out_dtype[0] = types->in_dtype[3] = (uint8_t)m->out_dtype;
    types->in_count = 4;
}

static void draw_attention(struct kernel_attention *a, struct kernel_args *types)
{
    a->heads = (int32_t)ONE_OF(0, 3, 12);
    a->rows = (a->heads ? a->heads : 1) * ONE_OF(1, 5, 40, 200);
    a->tq = ONE_OF(1, 64, 100, 1024);
    a->tk = a->heads ? a->tq : ONE_OF(a->tq, 77);
    a->d = ONE_OF(64, 64, 32, 80);
    a->dv = a->heads ? a->d : ONE_OF(a->d, 48);
    a->mask_rows = a->heads ? 0 : (int32_t)ONE_OF(0, 0, 1);
    a->mask_period = 1;
    types->in_dtype[a->heads ? 2 : 4] = KERNEL_F32;
}

static void draw_conv(struct kernel_conv_desc *d, struct kernel_args *types)
{
    struct kernel_conv *v = &d->conv;
    d->pass = ONE_OF(KERNEL_CONV_FORWARD, KERNEL_CONV_DATA, KERNEL_CONV_WEIGHTS);
    v->nd = (int32_t)ONE_OF(1, 2, 2, 2, 3);
    v->dtype = types->in_dtype[0];
    v->groups = ONE_OF(1, 1, 8);
    v->ci = v->groups == 1 ? ONE_OF(3, 4, 64) : 16;
    v->co = ONE_OF(16, 64);
    v->n = ONE_OF(1, 16);
    int64_t stride = ONE_OF(1, 2), k = ONE_OF(1, 3, 7), size = ONE_OF(16, 31, 64);
    for (int i = 0; i < v->nd; i++) {
        v->in[i] = size;
        v->k[i] = k;
        v->stride[i] = stride;
        v->dilation[i] = 1;
        v->pad[i] = k / 2;
        v->out[i] = (size + 2 * (k / 2) - k) / stride + 1;
    }
}

static void draw_norms(struct call *c)
{
    struct kernel_batch_norm *b = &c->d.batch_norm;
    if (c->family == KERNEL_FAMILY_LAYER_NORM_GRAD) {
        c->d.layer_norm_grad.rows = ONE_OF(1, 9, 300, 32768);
        c->d.layer_norm_grad.n = ONE_OF(5, 64, 768, 1600, 8192, 9000);
        return;
    }
    b->n = ONE_OF(1, 8, 256);
    b->channels = ONE_OF(8, 12, 64, 2048);
    b->spatial = ONE_OF(2, 49, 3136);
    b->block = (int32_t)ONE_OF(0, b->channels);
    b->dtype = c->types.in_dtype[0];
}

static void draw_losses(struct call *c)
{
    struct kernel_product_entropy_desc *p = &c->d.product_entropy;
    if (c->family == KERNEL_FAMILY_LOSS) {
        c->d.loss.n = ONE_OF(1, 5000);
        c->d.loss.reduction =
            (int32_t)ONE_OF(KERNEL_REDUCE_MEAN, KERNEL_REDUCE_SUM, KERNEL_REDUCE_NONE);
    } else if (c->family == KERNEL_FAMILY_CROSS_ENTROPY ||
               c->family == KERNEL_FAMILY_CROSS_ENTROPY_GRAD) {
        c->d.cross_entropy.n = ONE_OF(1, 64, 4096);
        c->d.cross_entropy.inner = ONE_OF(1, 49);
        c->d.cross_entropy.classes = 10;
        c->d.cross_entropy.reduction = (int32_t)ONE_OF(KERNEL_REDUCE_MEAN, KERNEL_REDUCE_NONE);
    } else {
        p->n = ONE_OF(1, 100, 5000, 32768);
        p->k = ONE_OF(24, 768);
        p->classes = ONE_OF(10, 50257, 50304, 200000);
        c->types.in_dtype[1] = c->types.in_dtype[0];
    }
}

static void draw(struct call *c)
{
    static const enum kernel_family families[] = {KERNEL_FAMILY_UNARY_GRAD,
                                                  KERNEL_FAMILY_REDUCE,
                                                  KERNEL_FAMILY_MATMUL,
                                                  KERNEL_FAMILY_CONV,
                                                  KERNEL_FAMILY_ATTENTION,
                                                  KERNEL_FAMILY_ATTENTION_GRAD,
                                                  KERNEL_FAMILY_BATCH_NORM_STATS,
                                                  KERNEL_FAMILY_BATCH_NORM_GRAD,
                                                  KERNEL_FAMILY_LAYER_NORM_GRAD,
                                                  KERNEL_FAMILY_INDEX,
                                                  KERNEL_FAMILY_LOSS,
                                                  KERNEL_FAMILY_CROSS_ENTROPY,
                                                  KERNEL_FAMILY_CROSS_ENTROPY_GRAD,
                                                  KERNEL_FAMILY_PRODUCT_ENTROPY,
                                                  KERNEL_FAMILY_PRODUCT_ENTROPY_STEP,
                                                  KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD,
                                                  KERNEL_FAMILY_UPDATE,
                                                  KERNEL_FAMILY_UPDATE_SPLIT};
    memset(c, 0, sizeof *c);
    c->family = families[ebb_splitmix64(&seed) % (sizeof families / sizeof *families)];
    uint8_t dtype = (uint8_t)ONE_OF(KERNEL_F32, KERNEL_BF16, KERNEL_F16);
    c->types.in_count = 6;
    c->types.out_count = 3;
    memset(c->types.in_dtype, dtype, 6);
    if (ONE_OF(0, 1) && c->family != KERNEL_FAMILY_MATMUL) /* mixed with F32 */
        c->types.in_dtype[ebb_splitmix64(&seed) % 6] = KERNEL_F32;
    if (c->family == KERNEL_FAMILY_UNARY_GRAD) {
        c->d.unary_grad.f = KERNEL_GELU;
        c->d.unary_grad.columns = (int32_t)ONE_OF(0, 5, 768);
        c->d.unary_grad.n = ONE_OF(1, 300, 32768) * (c->d.unary_grad.columns + 1);
    } else if (c->family == KERNEL_FAMILY_REDUCE) {
        draw_reduce(&c->d.reduce);
    } else if (c->family == KERNEL_FAMILY_MATMUL) {
        draw_matmul(&c->d.matmul, &c->types);
    } else if (c->family == KERNEL_FAMILY_CONV) {
        draw_conv(&c->d.conv, &c->types);
    } else if (c->family == KERNEL_FAMILY_ATTENTION || c->family == KERNEL_FAMILY_ATTENTION_GRAD) {
        draw_attention(&c->d.attention, &c->types);
    } else if (c->family == KERNEL_FAMILY_INDEX) {
        c->d.index = (struct kernel_index_desc){
            1, ONE_OF(10, 50304), ONE_OF(8, 768), ONE_OF(0, 33, 32768), -1, ONE_OF(0, 1, 1, 2, 3)};
    } else if (c->family == KERNEL_FAMILY_UPDATE || c->family == KERNEL_FAMILY_UPDATE_SPLIT) {
        c->d.update.n = ONE_OF(1, 3000);
        c->d.update.f = (int32_t)ONE_OF(KERNEL_UPDATE_SGD, KERNEL_UPDATE_ADAM, KERNEL_UPDATE_LARS,
                                        KERNEL_UPDATE_LAMB);
    } else if (c->family == KERNEL_FAMILY_LAYER_NORM_GRAD ||
               c->family == KERNEL_FAMILY_BATCH_NORM_STATS ||
               c->family == KERNEL_FAMILY_BATCH_NORM_GRAD) {
        draw_norms(c);
    } else {
        draw_losses(c);
    }
}

/* What one table says. */
struct answer {
    bool is_taken;
    uint64_t bytes, ns;
    int32_t x_block, y_block;
};

static struct answer ask(const struct kernel_table *table, struct kernel_context *context,
                         struct call c)
{
    struct answer a = {0};
    struct kernel_need need = {.flops = 1e9, .bytes = 1e6};
    if (c.family == KERNEL_FAMILY_CONV)
        CHECK_OK(table->choose(context, &c.d.conv.conv, (enum kernel_conv_pass)c.d.conv.pass, true,
                               &err),
                 &err);
    a.x_block = c.family == KERNEL_FAMILY_CONV ? c.d.conv.conv.x_block : 0;
    a.y_block = c.family == KERNEL_FAMILY_CONV ? c.d.conv.conv.y_block : 0;
    a.is_taken = table->takes(context, c.family, &c.d, &c.types);
    if (a.is_taken) /* others are asked again, as F32 */
        CHECK_OK(table->need(context, c.family, &c.d, &c.types, &need, &err), &err);
    a.bytes = need.workspace_bytes;
    a.ns = need.cost_ns;
    return a;
}

TEST(a_gpu_on_paper__answers_as_the_plugin_does)
{
    const struct kernel_plugin *plugin = NULL;
    struct kernel_context *paper, *real = NULL;
    struct profile *profile;
    size_t length = strlen(kernel_paper_h200), taken = 0, sized = 0;
    CHECK_OK(profile_read("h200", kernel_paper_h200, length, &profile, &err), &err);
    assert_string_equal(profile_kind(profile), "nvidia-h200");
    CHECK_OK(kernel_paper.open(&paper, NULL, profile, 1, &err), &err);
    if (getenv("EBB_TEST_PLUGIN")) {
        CHECK_OK(kernel_plugin_load("cuda", &plugin, &err), &err);
        assert_string_equal(plugin->kernels->profile, kernel_paper_h200);
        assert_string_equal(plugin->kernels->rewrites, kernel_paper.rewrites);
        CHECK_OK(plugin->kernels->open(&real, NULL, profile, 1, &err), &err);
    }
    for (int i = 0; i < DRAWS; i++) {
        struct call c;
        seed = (uint64_t)i;
        draw(&c);
        struct answer a = ask(&kernel_paper, paper, c);
        taken += a.is_taken;
        sized += a.bytes > 0;
        if (!real)
            continue;
        struct answer b = ask(plugin->kernels, real, c);
        if (a.is_taken != b.is_taken || a.bytes != b.bytes || a.ns != b.ns ||
            a.x_block != b.x_block || a.y_block != b.y_block)
            fail_msg("draw %d, %s: taken %d %d, bytes %llu %llu, ns %llu %llu, blocks %d %d %d %d",
                     i, kernel_family_name(c.family), a.is_taken, b.is_taken,
                     (unsigned long long)a.bytes, (unsigned long long)b.bytes,
                     (unsigned long long)a.ns, (unsigned long long)b.ns, a.x_block, b.x_block,
                     a.y_block, b.y_block);
    }
    CHECK(taken > DRAWS / 2 && taken < DRAWS && sized > DRAWS / 4);
    struct kernel_count_desc d = {8};
    CHECK_EQ(kernel_paper.run(paper, KERNEL_FAMILY_CONVERT, &d, &(struct kernel_args){0}, &err),
             EBB_EUNSUPPORTED);
    kernel_paper.close(paper);
    if (real)
        plugin->kernels->close(real);
    profile_destroy(profile);
}

TEST_MAIN()
