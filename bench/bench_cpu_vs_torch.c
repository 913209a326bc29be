/* bench_cpu_vs_torch.c - training steps of any model of the zoo, as `ebb train` runs them without a
 * limit: one recorded program in one engine, a batch that lies ready, no dropout.
 *
 *   bench_cpu_vs_torch MODEL THREADS STEPS [--batch N] [--set KEY=VALUE]... [--optimizer NAME]
 *                      [--args JSON] [--rewrites TEXT] [--profile | --shapes] [--turns]
 *
 * Prints one JSON line: wall and CPU seconds of every step, GFLOP of the products, the peak measured
 * in the same process. --profile adds a line per op kind, in CPU time; --shapes one per kind and KiB
 * of results and operands. With --turns the first line tells about the model and its weights, and every line
 * that comes in says how many steps to do and is answered by their time (STEPS are done before, to warm
 * up): so bench/cpu_vs_torch.py lets it take turns with the same model in PyTorch. */
#include <inttypes.h>
#include <malloc.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/heap.h"
#include "train/engine.h"
#include "train/step.h"

#define MAX_STEPS 64

struct bench {
    const char *name, *optimizer, *args, *rewrites;
    int threads, steps;
    int64_t batch;
    bool is_profile, has_shapes, takes_turns;
    struct ebb_arena arena;
    struct nn_config net;
    struct train_config config;
    struct train_engine *engine;
    struct train_step step;
    struct nn_stats stats;
    void *data[2 * NN_PORTS]; /* of inputs, then targets */
    float scalars[OPS_UPDATE_SCALARS];
    struct optim_count count;
    float loss;
    struct spent *profile; /* NULL: not asked for */
    double mark;           /* CPU seconds when the op before ended */
};

static double now(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_seconds(void)
{
    return now(CLOCK_PROCESS_CPUTIME_ID);
}

static void check(enum ebb_status status, const struct ebb_error *err)
{
    if (status == EBB_OK)
        return;
    fprintf(stderr, "bench_cpu_vs_torch: %s\n", err->message);
    exit(status == EBB_EINPUT ? 2 : 1);
}

/* ---- the peak of the machine ----------------------------------------------------------------- */

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
        double begin = cpu_seconds();
#pragma omp parallel num_threads(threads) reduction(+ : sum)
        sum += burn(rounds);
        double s = (cpu_seconds() - begin) / threads;
        double rate = 2.0 * 256 * (double)rounds * threads / s * 1e-9;
        best = rate > best && sum < 1e9f ? rate : best;
    }
    return best;
}

/* ---- what the step reads and makes ----------------------------------------------------------- */

static int64_t range_of(const struct bench *b, const struct nn_port *port, int64_t classes)
{
    if (classes > 0)
        return classes;
    int64_t n = strcmp(port->name, "segments") == 0 ? 2 : nn_config_int(&b->net, "vocabulary", 0);
    return n > 0 ? n : 2;
}

/* Numbers in [0, 1), tokens and classes in their range, masks of ones, states of zeros. */
static void *make_port(const struct bench *b, const struct nn_port *port, int64_t classes)
{
    struct ebb_error err;
    int64_t n = tensor_count(&port->view);
    bool is_float = port->view.dtype == TENSOR_F32;
    uint64_t state = 1, range = (uint64_t)range_of(b, port, classes);
    void *bytes;
    check(ebb_new(&bytes, (size_t)n + 1, is_float ? sizeof(float) : sizeof(int64_t), &err), &err);
    if (port->is_generated)
        nn_generate(&b->net, port, 1, 0, bytes);
    for (int64_t i = 0; i < n && !port->is_generated && port->kind != NN_STATE; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (is_float)
            ((float *)bytes)[i] = (float)(state >> 40) * 0x1p-24f;
        else
            ((int64_t *)bytes)[i] = port->kind == NN_MASK ? 1 : (int64_t)((state >> 33) % range);
    }
    return bytes;
}

static enum ebb_status fill(void *context, uint32_t tensor, void *bytes, uint64_t count,
                            struct ebb_error *err)
{
    struct bench *b = context;
    const struct train_step *s = &b->step;
    const void *from = NULL;
    for (size_t i = 0; i < s->input_count; i++)
        from = s->input_ids[i] == tensor ? b->data[i] : from;
    for (size_t i = 0; i < s->target_count; i++)
        from = s->target_ids[i] == tensor ? b->data[NN_PORTS + i] : from;
    if (tensor == s->scalars_id[0] || tensor == s->bare_id[0])
        from = b->scalars;
    if (tensor == s->step_id)
        from = &b->count.steps;
    if (!from)
        return ebb_fail(err, EBB_EINTERNAL, "input %" PRIu32 " of the step is unknown", tensor);
    memcpy(bytes, from, count);
    return EBB_OK;
}

static enum ebb_status read_result(void *context, uint32_t tensor, const void *bytes,
                                   uint64_t count, struct ebb_error *err)
{
    struct bench *b = context;
    (void)err;
    if (tensor == b->step.loss_id && count == sizeof b->loss)
        memcpy(&b->loss, bytes, count);
    return EBB_OK;
}

/* ---- profile --------------------------------------------------------------------------------- */

struct spent {
    char name[96];
    double seconds;
    int calls;
};
#define MAX_ROWS 2048

static void name_op(const struct bench *b, uint32_t op, char *text, size_t room)
{
    const struct trace *t = train_program_trace(b->step.program);
    const struct trace_op *o = &t->ops[op];
    size_t n = (size_t)snprintf(text, room, "%s", o->kind->name);
    if (!b->has_shapes)
        return;
    for (uint32_t k = 0; k < o->output_count + o->input_count && n < room; k++) {
        uint32_t id = k < o->output_count ? o->output_first + k
                                          : t->inputs[o->input_first + k - o->output_count];
        n += (size_t)snprintf(text + n, room - n, "%s%.4g", k == o->output_count ? " <- " : " ",
                              (double)t->storages[t->tensors[id].storage].bytes / 1024.0);
    }
}

static void note_op(void *context, uint32_t op, uint64_t ns)
{
    struct bench *b = context;
    char name[sizeof b->profile->name];
    size_t i = 0;
    double end = cpu_seconds();
    (void)ns; /* by the wall clock, which tells little on a busy machine */
    name_op(b, op, name, sizeof name);
    while (i < MAX_ROWS - 1 && b->profile[i].calls && strcmp(b->profile[i].name, name) != 0)
        i++;
    memcpy(b->profile[i].name, name, sizeof name);
    b->profile[i].seconds += end - b->mark;
    b->profile[i].calls++;
    b->mark = cpu_seconds();
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct spent *)a)->seconds, y = ((const struct spent *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static void run_step(struct bench *b, double *wall, double *cpu)
{
    struct ebb_error err = {.status = EBB_OK};
    struct exec_report report;
    struct exec_io io = {
        .context = b, .fill = fill, .read = read_result, .timed = b->profile ? note_op : NULL};
    double begin = now(CLOCK_MONOTONIC), used = cpu_seconds();
    b->mark = used;
    optim_step(&b->config.optim, &b->count, b->config.optim.lr, b->scalars);
    check(train_engine_run(b->engine, b->step.program, &io, NULL, &report, &err), &err);
    *wall = now(CLOCK_MONOTONIC) - begin;
    *cpu = cpu_seconds() - used;
}

static void print_profile(struct bench *b)
{
    double wall, cpu, total = 0;
    struct ebb_error err;
    check(ebb_new(&b->profile, MAX_ROWS, sizeof *b->profile, &err), &err);
    run_step(b, &wall, &cpu);
    qsort(b->profile, MAX_ROWS, sizeof *b->profile, by_seconds);
    for (size_t i = 0; i < MAX_ROWS; i++)
        total += b->profile[i].seconds;
    for (size_t i = 0; i < MAX_ROWS && b->profile[i].calls; i++)
        fprintf(stderr, "%-24s %8.2f ms %5.1f %% %5d calls\n", b->profile[i].name,
                b->profile[i].seconds * 1e3, 100 * b->profile[i].seconds / total,
                b->profile[i].calls);
    ebb_free(b->profile);
    b->profile = NULL;
}

static void initialize(struct bench *b)
{
    struct ebb_error err;
    struct tensor_session *s;
    struct nn_builder builder;
    struct nn_initializer *init;
    struct nn_output outputs[NN_PORTS];
    tensor_id inputs[NN_PORTS];
    size_t count;
    check(tensor_session_create(&s, train_engine_backend(b->engine), &err), &err);
    nn_builder_init(&builder, s, &(struct nn_mode){.is_training = false});
    check(nn_leaves(&builder, &b->net, 1, inputs, &err), &err);
    check(nn_build(&builder, &b->net, inputs, outputs, &count, &err), &err);
    check(nn_initializer_create(&init, &builder, NN_PHILOX, 1, &err), &err);
    for (size_t i = 0; i < b->step.slot_count; i++) {
        const struct train_slot *slot = &b->step.slots[i];
        unsigned char *bytes = train_engine_direct(b->engine, b->step.program, slot->tensor);
        if (slot->kind == TRAIN_ITEM)
            nn_initialize(init, slot->item, bytes);
        for (uint64_t k = 0; slot->kind == TRAIN_STATE && k < slot->bytes; k += sizeof(float))
            memcpy(bytes + k, &slot->initial, sizeof slot->initial);
    }
    nn_initializer_destroy(init);
    nn_builder_fini(&builder);
    tensor_session_destroy(s);
}

static void open_engine(struct bench *b)
{
    struct ebb_error err = {.status = EBB_OK};
    struct train_engine_options options = {
        .budget_bytes = UINT64_MAX, .threads = b->threads, .rewrites = b->rewrites};
    const struct ebb_doc_node *args = NULL;
    b->config = (struct train_config){.seed = 1, .accumulate = 1, .batch_size = b->batch};
    check(ebb_doc_parse_json(&b->arena, "--args", b->args, strlen(b->args), &args, &err), &err);
    check(optim_parse(b->optimizer, args, &b->config.optim, &err), &err);
    check(nn_config_check(&b->net, &err), &err);
    check(train_engine_create(&b->engine, &options, &err), &err);
    struct train_step_options o = {.kind = TRAIN_STEP,
                                   .batch = b->batch,
                                   .config = &b->config,
                                   .net = &b->net,
                                   .backend = train_engine_backend(b->engine)};
    check(train_step_build(&b->arena, &o, &b->step, &err), &err);
    struct train_model model = {.net = &b->net, .batch = b->batch, .backend = o.backend};
    check(train_model_stats(&model, &b->stats, &err), &err);
    check(train_engine_add(b->engine, b->step.trace, &b->step.program, &err), &err);
    check(train_engine_reserve(b->engine, &err), &err);
    initialize(b);
    for (size_t i = 0; i < b->step.input_count; i++)
        b->data[i] = make_port(b, &b->step.inputs[i], 0);
    for (size_t i = 0; i < b->step.target_count; i++)
        b->data[NN_PORTS + i] = make_port(b, &b->step.targets[i], b->step.target_classes[i]);
}

static void close_engine(struct bench *b)
{
    train_engine_destroy(b->engine);
    for (size_t i = 0; i < 2 * NN_PORTS; i++)
        ebb_free(b->data[i]);
    ebb_arena_fini(&b->arena);
}

/* The head of both kinds of output; what follows closes the object. */
static void print_head(const struct bench *b)
{
    const struct trace *trace = train_program_trace(b->step.program);
    printf("{\"engine\": \"ebb\", \"model\": \"%s\", \"threads\": %d, \"batch\": %" PRId64
           ", \"ops\": %u, \"parameters\": %" PRIu64 ", \"gflop\": %.3f, \"peak_bytes\": %" PRIu64
           ", \"peak_gflops\": %.1f",
           b->name, b->threads, b->batch, trace->op_count, b->stats.parameters,
           (b->stats.forward_flops + b->stats.backward_flops) * 1e-9,
           train_program_info(b->step.program)->peak_bytes, peak_gflops(b->threads));
}

static void print_view(const struct tensor_view *v)
{
    printf("[");
    for (int i = 0; i < v->rank; i++)
        printf("%s%" PRId64, i ? ", " : "", v->dims[i]);
    printf("]");
}

static void print_items(const struct bench *b)
{
    printf(", \"items\": [");
    for (size_t i = 0, n = 0; i < b->step.slot_count; i++) {
        const struct train_slot *s = &b->step.slots[i];
        if (s->kind != TRAIN_ITEM)
            continue;
        printf("%s[\"%s\", ", n++ ? ", " : "", s->name);
        print_view(&s->view);
        printf(", %s]", s->is_buffer ? "false" : "true");
    }
    printf("], \"inputs\": [");
    for (size_t i = 0; i < b->step.input_count + b->step.target_count; i++) {
        bool is_target = i >= b->step.input_count;
        const struct nn_port *p =
            is_target ? &b->step.targets[i - b->step.input_count] : &b->step.inputs[i];
        printf("%s[\"%s\", ", i ? ", " : "", p->name);
        print_view(&p->view);
        printf(
            ", %" PRId64 ", %s]",
            p->view.dtype == TENSOR_F32 ? 0
            : p->kind == NN_MASK
                ? 1
                : range_of(b, p, is_target ? b->step.target_classes[i - b->step.input_count] : 0),
            is_target ? "true" : "false");
    }
    printf("], \"options\": {");
    for (size_t i = 0, n = 0; i < b->net.model->option_count; i++) {
        const struct ebb_key *key = &b->net.model->options[i];
        if (key->kind == EBB_KEY_INT)
            printf("%s\"%s\": %" PRId64, n++ ? ", " : "", key->path,
                   nn_config_int(&b->net, key->path, 0));
    }
    printf("}");
}

static void take_turns(struct bench *b)
{
    char line[256];
    double wall, cpu;
    print_head(b);
    print_items(b);
    printf("}\n");
    fflush(stdout);
    for (int i = 0; i < b->steps; i++)
        run_step(b, &wall, &cpu);
    while (fgets(line, sizeof line, stdin)) {
        int n = atoi(line);
        double begin = now(CLOCK_MONOTONIC), used = cpu_seconds();
        for (int i = 0; i < n; i++)
            run_step(b, &wall, &cpu);
        wall = now(CLOCK_MONOTONIC) - begin;
        cpu = cpu_seconds() - used;
        printf("{\"wall\": %.7f, \"cpu\": %.7f, \"loss\": %.8g}\n", wall, cpu, (double)b->loss);
        fflush(stdout);
    }
}

static void run_steps(struct bench *b)
{
    double wall[MAX_STEPS], cpu[MAX_STEPS];
    print_head(b);
    for (int i = 0; i < b->steps; i++)
        run_step(b, &wall[i], &cpu[i]);
    printf(", \"wall\": [");
    for (int i = 0; i < b->steps; i++)
        printf("%s%.5f", i ? ", " : "", wall[i]);
    printf("], \"cpu\": [");
    for (int i = 0; i < b->steps; i++)
        printf("%s%.5f", i ? ", " : "", cpu[i]);
    printf("], \"loss\": %.8g}\n", (double)b->loss);
    fflush(stdout);
    if (b->is_profile)
        print_profile(b);
}

static int usage(void)
{
    fprintf(stderr,
            "usage: bench_cpu_vs_torch MODEL THREADS STEPS [--batch N] [--set KEY=VALUE]... "
            "[--optimizer NAME] [--args JSON] [--rewrites TEXT] [--profile | --shapes] "
            "[--turns]\n");
    return 2;
}

static void set_option(struct bench *b, char *text)
{
    struct ebb_error err;
    char *value = strchr(text, '=');
    if (!value)
        exit(usage());
    *value++ = 0;
    check(nn_config_set(&b->net, text, value, &err), &err);
}

/* Both engines draw other numbers; what is left out would differ. */
static void leave_nothing_out(struct bench *b)
{
    for (size_t i = 0; i < b->net.model->option_count; i++)
        if (strcmp(b->net.model->options[i].path, "dropout") == 0)
            set_option(b, (char[]){"dropout=0"});
}

static bool read_options(struct bench *b, int argc, char **argv)
{
    for (int i = 4; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--profile") == 0)
            b->is_profile = true;
        else if (strcmp(argv[i], "--shapes") == 0)
            b->is_profile = b->has_shapes = true;
        else if (strcmp(argv[i], "--turns") == 0)
            b->takes_turns = true;
        else if (strcmp(argv[i], "--batch") == 0 && has_value)
            b->batch = atoll(argv[++i]);
        else if (strcmp(argv[i], "--set") == 0 && has_value)
            set_option(b, argv[++i]);
        else if (strcmp(argv[i], "--optimizer") == 0 && has_value)
            b->optimizer = argv[++i];
        else if (strcmp(argv[i], "--args") == 0 && has_value)
            b->args = argv[++i];
        else if (strcmp(argv[i], "--rewrites") == 0 && has_value)
            b->rewrites = argv[++i];
        else
            return false;
    }
    return b->batch > 0;
}

int main(int argc, char **argv)
{
    static struct bench b = {.optimizer = "SGD", .args = "{\"lr\": 0.001}", .batch = 1};
    struct ebb_error err = {.status = EBB_OK};
    if (argc < 4)
        return usage();
    b.name = argv[1];
    b.threads = atoi(argv[2]);
    b.steps = atoi(argv[3]);
    if (b.threads < 1 || b.steps < 0 || b.steps > MAX_STEPS)
        return usage();
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20); /* as ebb itself does */
    ebb_arena_init(&b.arena);
    check(nn_config_init(&b.net, b.name, &err), &err);
    leave_nothing_out(&b);
    if (!read_options(&b, argc, argv))
        return usage();
    open_engine(&b);
    if (b.takes_turns)
        take_turns(&b);
    else
        run_steps(&b);
    close_engine(&b);
    return 0;
}
