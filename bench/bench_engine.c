/* bench_engine - what managing costs: tracing and looking a plan up, and running one.
 *
 *   bench_engine [--record] [MODEL[:key=value,...][@BATCH]]...
 *   bench_engine --zoo                                     every model, the best of several
 * recordings each, and which is the worst
 *
 * Per model: microseconds per 100 ops to trace a whole training step (forward, loss, backward, SGD)
 * and to find its plan by signature, and the same as training does it, with its table of weights
 * and its updates moved forward; nanoseconds per op that a run spends outside kernels, and the
 * share of the update that is. The bars: 50 us per 100 ops, 1 %. A launch is timed around the
 * kernel, so the two clock readings count as management. Medians of several runs.
 *
 * --record runs nothing. Instructions are steadier than time:
 *
 *   valgrind --tool=callgrind --toggle-collect='record_again*' bench_engine --record MODEL
 *
 * collects those of TRACES recordings. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "exec/exec.h"
#include "grad/grad.h"
#include "nn/nn.h"
#include "ops/ops.h"
#include "train/step.h"

#define TRACES 101
#define ZOO_TRACES 21
#define RUNS 7

static void check(enum ebb_status status, const struct ebb_error *err)
{
    if (status == EBB_OK)
        return;
    fprintf(stderr, "bench_engine: %s\n", err->message);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return values[n / 2];
}

static struct trace *trace_step(void *backend, const struct nn_config *config, int64_t batch)
{
    struct ebb_error err;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_output outputs[NN_PORTS];
    tensor_id inputs[NN_PORTS], targets[NN_PORTS] = {{0}};
    size_t count;
    struct trace *trace;
    check(tensor_session_create(&s, backend, &err), &err);
    nn_builder_init(&b, s, &(struct nn_mode){.is_training = true});
    check(nn_leaves(&b, config, batch, inputs, &err), &err);
    check(nn_build(&b, config, inputs, outputs, &count, &err), &err);
    tensor_id loss = nn_loss(&b, outputs, count, targets);
    size_t items = nn_item_count(&b), trained = 0;
    tensor_id *w = ebb_calloc(items + 1, sizeof *w), *g = ebb_calloc(items + 1, sizeof *g);
    for (size_t i = 0; i < items; i++)
        if (nn_item_at(&b, i)->is_trained)
            w[trained++] = nn_item_at(&b, i)->id;
    check(grad_backward(s, &loss, NULL, 1, w, trained, g, &err), &err);
    tensor_id scalars = tensor_leaf(s, TENSOR_F32, 1, (int64_t[]){OPS_UPDATE_SCALARS}, "scalars");
    tensor_set_phase(s, TRACE_UPDATE);
    for (size_t i = 0; i < trained; i++) {
        tensor_id out[1];
        if (!g[i].v)
            continue; /* of a part that this loss does not reach */
        ops_update(s, OPS_SGD, 0, scalars, g[i], w[i], NULL, 0, out);
        tensor_keep(s, out[0]);
    }
    tensor_keep(s, loss);
    check(tensor_finish(s, config->model->name, &trace, &err), &err);
    ebb_free(w);
    ebb_free(g);
    nn_builder_fini(&b);
    tensor_session_destroy(s);
    return trace;
}

/* Microseconds of CPU time to record the step once more and to see that its plan is known. A
 * function of its own, so that an instruction counter can be told to count here alone. */
static __attribute__((noinline)) double record_again(void *backend, const struct nn_config *config,
                                                     int64_t batch, const struct trace *known)
{
    uint64_t begin = ebb_clock_cpu_ns(); /* one thread: what others do does not count */
    struct trace *again = trace_step(backend, config, batch);
    bool is_known = memcmp(&again->signature, &known->signature, sizeof known->signature) == 0;
    double us = (double)(ebb_clock_cpu_ns() - begin) / 1e3;
    trace_destroy(again);
    if (!is_known) {
        fprintf(stderr, "bench_engine: %s: two traces of one step differ\n", config->model->name);
        exit(1);
    }
    return us;
}

static __attribute__((noinline)) double record_training(const struct train_step_options *options)
{
    struct ebb_error err;
    struct ebb_arena step_arena;
    struct train_step step;
    ebb_arena_init(&step_arena);
    uint64_t begin = ebb_clock_cpu_ns();
    check(train_step_build(&step_arena, options, &step, &err), &err);
    double us = (double)(ebb_clock_cpu_ns() - begin) / 1e3;
    trace_destroy(step.trace);
    ebb_arena_fini(&step_arena);
    return us;
}

/* Medians of `count` recordings, in microseconds per 100 ops. */
static void record(void *backend, const struct nn_config *config, int64_t batch,
                   const struct trace *known, int count, double *alone, double *in_training)
{
    struct train_config training = {.seed = 1, .accumulate = 1, .average = true};
    struct train_step_options options = {
        .kind = TRAIN_STEP, .batch = batch, .config = &training, .net = config, .backend = backend};
    double us[2][TRACES];
    for (int i = 0; i < count; i++) {
        us[0][i] = record_again(backend, config, batch, known);
        us[1][i] = record_training(&options);
    }
    double best[2] = {median(us[0], (size_t)count), median(us[1], (size_t)count)};
    if (count < TRACES) /* medians now sorted: the smallest is what a busy machine disturbs least */
        best[0] = us[0][0], best[1] = us[1][0];
    *alone = best[0] * 100 / known->op_count;
    *in_training = best[1] * 100 / known->op_count;
}

/* The cpu device with a watch around every kernel. */
static struct device_table timed;
static uint64_t kernel_ns;

static enum ebb_status timed_launch(struct device *device, device_work work, void *argument,
                                    uint64_t cost_ns, struct ebb_error *err)
{
    uint64_t begin = ebb_clock_ns();
    enum ebb_status status = device_cpu.launch(device, work, argument, cost_ns, err);
    kernel_ns += ebb_clock_ns() - begin;
    return status;
}

static enum ebb_status zeros(void *context, uint32_t tensor, void *bytes, uint64_t count,
                             struct ebb_error *err)
{
    (void)context;
    (void)tensor;
    (void)err;
    memset(bytes, 0, count);
    return EBB_OK;
}

static void run_step(const struct trace *trace, void *backend, double *share, double *ns_per_op,
                     double *ms)
{
    struct ebb_error err;
    struct exec_program *program;
    const struct plan *plan;
    struct device *device;
    struct exec_image *image;
    struct exec_report report;
    check(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
    check(exec_keep_all(program, UINT64_MAX, &plan, &err), &err);
    timed = device_cpu;
    timed.launch = timed_launch;
    check(device_cpu.create(&device, NULL, &err), &err);
    device->table = &timed;
    check(timed.reserve(device, DEVICE_T0, plan->budget_bytes, &err), &err);
    struct exec_options o = {
        .budget_bytes = plan->budget_bytes, .device = device, .context = backend};
    check(exec_image_create(&image, program, plan, &o, &err), &err);
    double shares[RUNS], each[RUNS], whole[RUNS];
    for (int i = 0; i <= RUNS; i++) {
        kernel_ns = 0;
        uint64_t begin = ebb_clock_ns();
        check(exec_image_run(image, &(struct exec_io){.fill = zeros}, NULL, &report, &err), &err);
        uint64_t all = ebb_clock_ns() - begin;
        if (i == 0)
            continue; /* pages are touched, primitives are made */
        shares[i - 1] = (double)(all - kernel_ns) / (double)all;
        each[i - 1] = (double)(all - kernel_ns) / trace->op_count;
        whole[i - 1] = (double)all / 1e6;
    }
    *share = median(shares, RUNS);
    *ns_per_op = median(each, RUNS);
    *ms = median(whole, RUNS);
    exec_image_destroy(image);
    device_cpu.destroy(device);
    exec_program_destroy(program);
}

enum mode { RUN, RECORD, ZOO };

/* Returns the microseconds per 100 ops of tracing and lookup. */
static double bench(void *backend, const char *what, enum mode mode)
{
    char name[128];
    struct nn_config config;
    struct ebb_error err;
    int64_t batch = 8;
    snprintf(name, sizeof name, "%s", what);
    char *at = strchr(name, '@');
    if (at) {
        batch = atoll(at + 1);
        *at = 0;
    }
    char *options = strchr(name, ':');
    if (options)
        *options++ = 0;
    check(nn_config_init(&config, name, &err), &err);
    while (options && *options) {
        char *end = strchr(options, ','), *value = strchr(options, '=');
        if (end)
            *end = 0;
        if (!value)
            exit(2);
        *value++ = 0;
        check(nn_config_set(&config, options, value, &err), &err);
        options = end ? end + 1 : NULL;
    }
    double alone, in_training, share = 0, ns = 0, ms = 0;
    struct trace *trace = trace_step(backend, &config, batch);
    record(backend, &config, batch, trace, mode == ZOO ? ZOO_TRACES : TRACES, &alone, &in_training);
    if (mode == RUN)
        run_step(trace, backend, &share, &ns, &ms);
    printf("| %s | %u | %.1f | %.1f | %.0f | %.2f %% | %.1f |\n", what, trace->op_count, alone,
           in_training, ns, share * 100, ms);
    fflush(stdout);
    trace_destroy(trace);
    return alone;
}

static void bench_zoo(void *backend)
{
    double worst = 0;
    const char *which = "";
    for (size_t i = 0; i < nn_model_count(); i++) {
        char what[128];
        snprintf(what, sizeof what, "%s@2", nn_model_at(i)->name);
        double us = bench(backend, what, ZOO);
        if (us <= worst)
            continue;
        worst = us;
        which = nn_model_at(i)->name;
    }
    printf("\nworst of %zu models: %s, %.1f us per 100 ops\n", nn_model_count(), which, worst);
}

int main(int argc, char **argv)
{
    static char *defaults[] = {"cifar_resnet20@64", "resnet50@8", "gpt2_124M:length=256@2"};
    struct ebb_error err;
    void *backend;
    enum mode mode = argc < 2                           ? RUN
                     : strcmp(argv[1], "--record") == 0 ? RECORD
                     : strcmp(argv[1], "--zoo") == 0    ? ZOO
                                                        : RUN;
    int first = mode == RUN ? 1 : 2;
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20); /* as ebb itself does */
    check(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    printf("| model | ops | tracing and lookup, us per 100 ops | as training does it "
           "| outside kernels, ns per op | share | update, ms |\n|---|---|---|---|---|---|---|\n");
    for (int i = first; i < argc; i++)
        bench(backend, argv[i], mode);
    for (size_t i = 0; first == argc && mode != ZOO && i < sizeof defaults / sizeof *defaults; i++)
        bench(backend, defaults[i], mode);
    if (mode == ZOO)
        bench_zoo(backend);
    ops_backend_destroy(backend);
    return 0;
}
