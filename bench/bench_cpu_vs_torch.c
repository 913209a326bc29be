/* bench_cpu_vs_torch.c - one training step of three models, as ops: ResNet-50, GPT-2 124M, U-Net.
 *
 *   bench_cpu_vs_torch MODEL THREADS STEPS [--profile] [--passes MASK]
 *
 * MODEL: resnet50 (batch 8, 224 x 224, SGD with momentum), gpt2 (batch 2, T = 256, AdamW), unet
 * (batch 1, 104 x 152, RMSprop). Prints one JSON line: wall and CPU seconds of every step, GFLOP of
 * the products, the peak measured in the same process. --profile adds a line per op kind, in CPU
 * time. bench/cpu_vs_torch runs it side by side with the same models in PyTorch. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/heap.h"
#include "grad/grad.h"
#include "ops/ops.h"
#include "optim/optim.h"

#define MAX_PARAMS 1024

struct model {
    struct tensor_session *s;
    tensor_id params[MAX_PARAMS], grads[MAX_PARAMS];
    float scale[MAX_PARAMS]; /* uniform in +-scale; -1: ones; 0: zeros */
    size_t count;
    tensor_id x, target, scalars;
    int64_t classes;
};

static double now(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* ---- building ------------------------------------------------------------------------------- */

static tensor_id param(struct model *m, int rank, const int64_t *dims, float scale)
{
    if (m->count == MAX_PARAMS)
        abort();
    tensor_id id = tensor_leaf(m->s, TENSOR_F32, rank, dims, "w");
    m->scale[m->count] = scale;
    m->params[m->count++] = id;
    return id;
}

/* Calls an op by name with attributes in JSON. */
static size_t call(struct model *m, const char *name, const char *json, const tensor_id *in,
                   size_t n, tensor_id *out)
{
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    struct ebb_arena arena;
    const struct ebb_doc_node *map = NULL;
    struct ebb_error err = {.status = EBB_OK};
    size_t count = 0;
    ebb_arena_init(&arena);
    if (json && ebb_doc_parse_json(&arena, name, json, strlen(json), &map, &err) != EBB_OK)
        tensor_fail(m->s, err.status, "%s", err.message);
    else if (ops_parse(ops_find(name), map, attr, &err) != EBB_OK)
        tensor_fail(m->s, err.status, "%s", err.message);
    else
        ops_call(m->s, ops_find(name), in, n, attr, out, &count);
    ebb_arena_fini(&arena);
    return count;
}

static tensor_id call1(struct model *m, const char *name, const char *json, tensor_id x)
{
    tensor_id out[TENSOR_PORTS] = {TENSOR_NONE};
    call(m, name, json, &x, 1, out);
    return out[0];
}

static tensor_id conv(struct model *m, tensor_id x, int64_t co, int64_t k, int64_t stride,
                      bool has_bias)
{
    char json[128];
    int64_t ci = tensor_view_of(m->s, x)->dims[1], dims[4] = {co, ci, k, k};
    float bound = 1.0f / (float)(ci * k * k);
    tensor_id in[3] = {x, param(m, 4, dims, 2.4f * bound * (float)k)}, out[1];
    if (has_bias)
        in[2] = param(m, 1, &co, bound);
    snprintf(json, sizeof json, "{\"stride\": %d, \"padding\": %d}", (int)stride, (int)(k / 2));
    call(m, "conv2d", json, in, has_bias ? 3 : 2, out);
    return out[0];
}

static tensor_id norm(struct model *m, tensor_id x)
{
    int64_t c = tensor_view_of(m->s, x)->dims[1], one = 1;
    tensor_id r[3] = {tensor_leaf(m->s, TENSOR_F32, 1, &c, "mean"),
                      tensor_leaf(m->s, TENSOR_F32, 1, &c, "var"),
                      tensor_leaf(m->s, TENSOR_I64, 1, &one, "batches")};
    tensor_id w = param(m, 1, &c, -1.0f), b = param(m, 1, &c, 0.0f);
    x = ops_batch_norm_train(m->s, x, w, b, r, 0.1f, 1e-5f);
    for (int i = 0; i < 3; i++)
        tensor_keep(m->s, r[i]);
    return x;
}

static tensor_id relu(struct model *m, tensor_id x)
{
    return call1(m, "relu", NULL, x);
}

static tensor_id linear(struct model *m, tensor_id x, int64_t n)
{
    const struct tensor_view *v = tensor_view_of(m->s, x);
    int64_t dims[2] = {n, v->dims[v->rank - 1]};
    tensor_id in[3] = {x, param(m, 2, dims, 0.03f), param(m, 1, &n, 0.0f)}, out[1];
    call(m, "linear", NULL, in, 3, out);
    return out[0];
}

static tensor_id bottleneck(struct model *m, tensor_id x, int64_t width, int64_t stride)
{
    bool has_projection = stride != 1 || tensor_view_of(m->s, x)->dims[1] != 4 * width;
    tensor_id y = relu(m, norm(m, conv(m, x, width, 1, 1, false)));
    y = relu(m, norm(m, conv(m, y, width, 3, stride, false)));
    y = norm(m, conv(m, y, 4 * width, 1, 1, false));
    if (has_projection)
        x = norm(m, conv(m, x, 4 * width, 1, stride, false));
    return relu(m, ops_add(m->s, y, x));
}

static tensor_id cross_entropy(struct model *m, tensor_id x)
{
    tensor_id out[1];
    call(m, "cross_entropy", NULL, (tensor_id[]){x, m->target}, 2, out);
    return out[0];
}

static tensor_id build_resnet50(struct model *m)
{
    static const int depth[4] = {3, 4, 6, 3};
    int64_t batch = 8;
    m->x = tensor_leaf(m->s, TENSOR_F32, 4, (int64_t[]){batch, 3, 224, 224}, "x");
    m->target = tensor_leaf(m->s, TENSOR_I64, 1, &batch, "target");
    m->classes = 1000;
    tensor_id y = relu(m, norm(m, conv(m, m->x, 64, 7, 2, false)));
    y = call1(m, "max_pool2d", "{\"kernel\": 3, \"stride\": 2, \"padding\": 1}", y);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < depth[i]; k++)
            y = bottleneck(m, y, 64 << i, k == 0 && i > 0 ? 2 : 1);
    y = call1(m, "adaptive_avg_pool2d", "{\"output_size\": 1}", y);
    y = ops_reshape(m->s, y, 2, (int64_t[]){batch, 2048});
    return cross_entropy(m, linear(m, y, 1000));
}

static tensor_id double_conv(struct model *m, tensor_id x, int64_t mid, int64_t out)
{
    x = relu(m, norm(m, conv(m, x, mid, 3, 1, true)));
    return relu(m, norm(m, conv(m, x, out, 3, 1, true)));
}

static tensor_id up(struct model *m, tensor_id x, tensor_id skip, int64_t mid, int64_t out)
{
    char json[96];
    x = call1(m, "upsample_bilinear2d", "{\"scale\": 2, \"align_corners\": true}", x);
    const struct tensor_view a = *tensor_view_of(m->s, x), b = *tensor_view_of(m->s, skip);
    int dy = (int)(b.dims[2] - a.dims[2]), dx = (int)(b.dims[3] - a.dims[3]);
    if (dx || dy) {
        snprintf(json, sizeof json, "{\"pad\": [%d, %d, %d, %d]}", dx / 2, dx - dx / 2, dy / 2,
                 dy - dy / 2);
        x = call1(m, "pad", json, x);
    }
    tensor_id joined[1];
    call(m, "cat", "{\"dim\": 1}", (tensor_id[]){skip, x}, 2, joined);
    return double_conv(m, joined[0], mid, out);
}

static tensor_id build_unet(struct model *m)
{
    int64_t dims[4] = {1, 3, 104, 152}, mask[4] = {1, 1, 104, 152};
    m->x = tensor_leaf(m->s, TENSOR_F32, 4, dims, "x");
    m->target = tensor_leaf(m->s, TENSOR_F32, 4, mask, "target");
    tensor_id level[5] = {double_conv(m, m->x, 64, 64)};
    for (int i = 1; i < 5; i++) {
        int64_t c = i == 4 ? 512 : 64 << i;
        level[i] = double_conv(m, call1(m, "max_pool2d", "{\"kernel\": 2}", level[i - 1]), c, c);
    }
    tensor_id y = up(m, level[4], level[3], 512, 256);
    y = up(m, y, level[2], 256, 128);
    y = up(m, y, level[1], 128, 64);
    y = up(m, y, level[0], 64, 64);
    tensor_id out[1];
    call(m, "bce_with_logits_loss", NULL, (tensor_id[]){conv(m, y, 1, 1, 1, true), m->target}, 2,
         out);
    return out[0];
}

static tensor_id layer_norm(struct model *m, tensor_id x)
{
    int64_t c = 768;
    tensor_id in[3] = {x, param(m, 1, &c, -1.0f), param(m, 1, &c, 0.0f)}, out[1];
    call(m, "layer_norm", "{\"shape\": [768]}", in, 3, out);
    return out[0];
}

static tensor_id attention(struct model *m, tensor_id x, int64_t b, int64_t t)
{
    tensor_id qkv = ops_reshape(m->s, linear(m, x, 3 * 768), 5, (int64_t[]){b, t, 3, 12, 64});
    tensor_id parts[3], out[1];
    qkv = call1(m, "permute", "{\"dims\": [2, 0, 3, 1, 4]}", qkv);
    call(m, "split", "{\"sizes\": 1, \"dim\": 0}", &qkv, 1, parts);
    for (int i = 0; i < 3; i++)
        parts[i] = call1(m, "squeeze", "{\"dim\": 0}", parts[i]);
    call(m, "attention", "{\"causal\": true}", parts, 3, out);
    out[0] = call1(m, "permute", "{\"dims\": [0, 2, 1, 3]}", out[0]);
    return linear(m, ops_reshape(m->s, out[0], 3, (int64_t[]){b, t, 768}), 768);
}

static tensor_id build_gpt2(struct model *m)
{
    const int64_t b = 2, t = 256, c = 768, v = 50257;
    m->x = tensor_leaf(m->s, TENSOR_I64, 2, (int64_t[]){b, t}, "x");
    m->target = tensor_leaf(m->s, TENSOR_I64, 1, (int64_t[]){b * t}, "target");
    m->classes = v;
    tensor_id wte = param(m, 2, (int64_t[]){v, c}, 0.03f);
    tensor_id wpe = param(m, 2, (int64_t[]){t, c}, 0.03f), x[1];
    call(m, "embedding", NULL, (tensor_id[]){m->x, wte}, 2, x);
    x[0] = ops_add(m->s, x[0], wpe);
    for (int i = 0; i < 12; i++) {
        x[0] = ops_add(m->s, x[0], attention(m, layer_norm(m, x[0]), b, t));
        tensor_id h = linear(m, layer_norm(m, x[0]), 4 * c);
        h = call1(m, "gelu", "{\"approximate\": \"tanh\"}", h);
        x[0] = ops_add(m->s, x[0], linear(m, h, c));
    }
    tensor_id y = ops_reshape(m->s, layer_norm(m, x[0]), 2, (int64_t[]){b * t, c});
    return cross_entropy(m, ops_matmul(m->s, y, wte, false, true));
}

/* ---- running -------------------------------------------------------------------------------- */

static float uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((*state >> 40) + 1) * 0x1p-24f * 2.0f - 1.0f;
}

static void fill(const struct model *m, const struct ops_host *h, tensor_id id, float scale,
                 uint64_t *random)
{
    const struct tensor_view *v = tensor_view_of(m->s, id);
    int64_t n = tensor_count(v);
    float *p = ops_host_tensor(h, tensor_trace_id(m->s, id));
    for (int64_t i = 0; i < n; i++)
        if (v->dtype == TENSOR_I64)
            ((int64_t *)(void *)p)[i] =
                m->classes
                    ? (int64_t)((double)(uniform(random) + 1.0f) * 0.4999 * (double)m->classes)
                    : 0;
        else
            p[i] = scale < 0 ? 1.0f : scale * uniform(random);
}

#ifdef __clang__
#define BURN __attribute__((target_clones("avx512vl", "fma", "default")))
#else
#define BURN                                                                                       \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"),                   \
                   optimize("O3", "fp-contract=fast")))
#endif

/* A chain of independent multiply-adds per thread, the widest vectors of the build's clones. */
BURN static float burn(int64_t rounds)
{
#ifdef __clang__
#pragma clang fp contract(fast)
#endif
    float lane[256];
    for (int i = 0; i < 256; i++)
        lane[i] = (float)i;
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < 256; i++)
            lane[i] = lane[i] * 0.999f + 0.001f;
    float sum = 0;
    for (int i = 0; i < 256; i++)
        sum += lane[i];
    return sum;
}

/* Of all threads together, per CPU second times their number: a busy machine does not lower it. */
static double peak_gflops(int threads)
{
    double best = 0;
    const int64_t rounds = 400000;
    for (int k = 0; k < 5; k++) {
        float sum = 0;
        double begin = now(CLOCK_PROCESS_CPUTIME_ID);
#pragma omp parallel num_threads(threads) reduction(+ : sum)
        sum += burn(rounds);
        double s = (now(CLOCK_PROCESS_CPUTIME_ID) - begin) / threads;
        double rate = 2.0 * 256 * (double)rounds * threads / s * 1e-9;
        best = rate > best && sum < 1e9f ? rate : best;
    }
    return best;
}

static int fail(const struct ebb_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

struct profile {
    const char *name;
    double seconds;
    int calls;
};

static void add_profile(struct profile *p, size_t *n, const char *name, double seconds)
{
    size_t i = 0;
    while (i < *n && strcmp(p[i].name, name) != 0)
        i++;
    if (i == *n)
        p[(*n)++] = (struct profile){.name = name};
    p[i].seconds += seconds;
    p[i].calls++;
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct profile *)a)->seconds, y = ((const struct profile *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void print_profile(struct ops_host *h, const struct trace *t)
{
    struct profile p[128];
    size_t n = 0;
    struct ebb_error err;
    double total = 0;
    for (uint32_t i = 0; i < t->op_count; i++) {
        if (t->ops[i].is_leaf)
            continue;
        double begin = now(CLOCK_PROCESS_CPUTIME_ID);
        if (ops_host_run_op(h, i, &err) != EBB_OK)
            return;
        double s = now(CLOCK_PROCESS_CPUTIME_ID) - begin;
        total += s;
        add_profile(p, &n, t->ops[i].kind->name, s);
    }
    qsort(p, n, sizeof *p, by_seconds);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "%-24s %8.2f ms %5.1f %% %5d calls\n", p[i].name, p[i].seconds * 1e3,
                100 * p[i].seconds / total, p[i].calls);
}

static const struct {
    const char *name, *optimizer, *args;
    tensor_id (*build)(struct model *m);
    double gflop; /* products of one step, forward and backward */
} models[] = {
    {"resnet50", "SGD", "{\"lr\": 0.01, \"momentum\": 0.9}", build_resnet50, 196.3},
    {"gpt2", "AdamW", "{\"lr\": 0.0001}", build_gpt2, 394.0},
    {"unet", "RMSprop", "{\"lr\": 0.00001, \"weight_decay\": 1e-8, \"momentum\": 0.9}", build_unet,
     57.9},
};

static enum ebb_status build(struct model *m, size_t which, void *backend,
                             struct optim_config *config, struct trace **trace, tensor_id *loss,
                             struct ebb_error *err)
{
    tensor_id states[MAX_PARAMS][OPS_UPDATE_STATES], out[1 + OPS_UPDATE_STATES];
    struct ebb_arena arena;
    const struct ebb_doc_node *args;
    int64_t n = OPS_UPDATE_SCALARS;
    ebb_arena_init(&arena);
    EBB_TRY(ebb_doc_parse_json(&arena, "optimizer", models[which].args, strlen(models[which].args),
                               &args, err));
    EBB_TRY(optim_parse(models[which].optimizer, args, config, err));
    ebb_arena_fini(&arena);
    EBB_TRY(tensor_session_create(&m->s, backend, err));
    m->scalars = tensor_leaf(m->s, TENSOR_F32, 1, &n, "scalars");
    *loss = models[which].build(m);
    tensor_keep(m->s, *loss);
    EBB_TRY(grad_backward(m->s, loss, NULL, 1, m->params, m->count, m->grads, err));
    tensor_set_phase(m->s, TRACE_UPDATE);
    for (size_t i = 0; i < m->count; i++) {
        const struct tensor_view v = *tensor_view_of(m->s, m->params[i]);
        for (size_t k = 0; k < optim_state_count(config); k++)
            states[i][k] = tensor_leaf(m->s, TENSOR_F32, v.rank, v.dims, "state");
        ops_update(m->s, config->kind, optim_flags(config), m->scalars, m->grads[i], m->params[i],
                   states[i], optim_state_count(config), out);
        for (size_t k = 0; k <= optim_state_count(config); k++)
            tensor_keep(m->s, out[k]);
    }
    EBB_TRY(tensor_finish(m->s, models[which].name, trace, err));
    return EBB_OK;
}

/* Recording the same step again: CPU time per 100 ops, the best of five. */
static double retrace_us(size_t which, void *backend, uint32_t ops)
{
    static struct model m;
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        struct optim_config config;
        struct ebb_error err;
        struct trace *trace;
        tensor_id loss;
        memset(&m, 0, sizeof m);
        double begin = now(CLOCK_PROCESS_CPUTIME_ID);
        if (build(&m, which, backend, &config, &trace, &loss, &err) != EBB_OK)
            return -1;
        double us = (now(CLOCK_PROCESS_CPUTIME_ID) - begin) * 1e6 * 100 / ops;
        best = us < best ? us : best;
        trace_destroy(trace);
        tensor_session_destroy(m.s);
    }
    return best;
}

int main(int argc, char **argv)
{
    static struct model m;
    struct ebb_error err = {.status = EBB_OK};
    struct optim_config config;
    struct optim_count count = {0};
    struct trace *trace;
    struct ops_host host;
    void *backend;
    tensor_id loss;
    uint64_t random = 1;
    size_t which = 0;
    bool is_profile = false;
    if (argc < 4)
        return fprintf(stderr, "usage: %s MODEL THREADS STEPS [--profile] [--passes MASK]\n",
                       argv[0]),
               2;
    while (which < 3 && strcmp(models[which].name, argv[1]) != 0)
        which++;
    int threads = atoi(argv[2]), steps = atoi(argv[3]);
    if (which == 3 || threads < 1 || steps < 1)
        return fprintf(stderr, "unknown model or bad number\n"), 2;
    if (ops_backend_create(&backend, NULL, NULL, NULL, threads, &err) != EBB_OK)
        return fail(&err);
    for (int i = 4; i < argc; i++)
        if (strcmp(argv[i], "--profile") == 0)
            is_profile = true;
        else if (strcmp(argv[i], "--passes") == 0 && i + 1 < argc)
            ops_backend_set_passes(backend, (unsigned)strtoul(argv[++i], NULL, 0));
    double begin = now(CLOCK_MONOTONIC);
    if (build(&m, which, backend, &config, &trace, &loss, &err) != EBB_OK)
        return fail(&err);
    double trace_ms = (now(CLOCK_MONOTONIC) - begin) * 1e3;
    double again_us = retrace_us(which, backend, trace->op_count);
    if (ops_host_create(&host, trace, backend, &err) != EBB_OK)
        return fail(&err);
    for (uint32_t i = 0; i < trace->op_count; i++) /* states start at zero */
        if (trace->ops[i].is_leaf) {
            uint32_t storage = trace->tensors[trace->ops[i].output_first].storage;
            memset(host.pointers[storage], 0, (size_t)trace->storages[storage].bytes);
        }
    for (size_t i = 0; i < m.count; i++)
        fill(&m, &host, m.params[i], m.scale[i], &random);
    fill(&m, &host, m.x, 1.0f, &random);
    fill(&m, &host, m.target, 1.0f, &random);
    float *scalars = ops_host_tensor(&host, tensor_trace_id(m.s, m.scalars));
    const float *value = ops_host_tensor(&host, tensor_trace_id(m.s, loss));
    printf("{\"engine\": \"ebb\", \"model\": \"%s\", \"threads\": %d, \"ops\": %u, \"trace_ms\": "
           "%.2f, \"retrace_us_per_100_ops\": %.1f, \"gflop\": %.1f, \"peak_gflops\": %.1f, "
           "\"wall\": [",
           models[which].name, threads, trace->op_count, trace_ms, again_us, models[which].gflop,
           peak_gflops(threads));
    double cpu[64], last = 0;
    for (int i = 0; i < steps && i < 64; i++) {
        double wall = now(CLOCK_MONOTONIC), used = cpu_seconds();
        optim_step(&config, &count, config.lr, scalars);
        if (ops_host_run(&host, &err) != EBB_OK)
            return fail(&err);
        printf("%s%.4f", i ? ", " : "", now(CLOCK_MONOTONIC) - wall);
        fflush(stdout);
        cpu[i] = cpu_seconds() - used;
        last = (double)*value;
    }
    printf("], \"cpu\": [");
    for (int i = 0; i < steps && i < 64; i++)
        printf("%s%.4f", i ? ", " : "", cpu[i]);
    printf("], \"loss\": %.6g}\n", last);
    if (is_profile)
        print_profile(&host, trace);
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(m.s);
    ops_backend_destroy(backend);
    return 0;
}
