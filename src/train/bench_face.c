/* bench_face.c - params.yaml of the suite's Cerebras variants: other names for the same things, and
 * a limit of updates instead of epochs. The file is said again in the usual sections. */
#include <string.h>

#include "train/bench.h"

struct input { /* train_input, eval_input */
    const char *data_dir;
    int64_t batch_size, workers;
    bool drop_last, shuffle, is_half;
};

struct face {
    struct input train, eval;
    const char *model, *optimizer;
    bool is_mixed, saves_losses;
    double rate, momentum, decay;
    int64_t max_steps, checkpoint_steps, log_steps, seed;
};

#define ROW(...) EBB_KEY_ROW(struct face, __VA_ARGS__)
#define MAP(section, about)                                                                        \
    {                                                                                              \
        .path = (section), .kind = EBB_KEY_MAP, .at = 0, .help = (about)                           \
    }
#define INPUT(section, field)                                                                      \
    MAP(section, "where samples come from"),                                                       \
        ROW(section ".data_dir", TEXT, field.data_dir, "folder", .flags = 0),                      \
        ROW(section ".batch_size", INT, field.batch_size, "samples of an update",                  \
            .bounds = "> 0"),                                                                      \
        ROW(section ".drop_last_batch", BOOL, field.drop_last, "drop a partial batch",             \
            .flags = 0),                                                                           \
        ROW(section ".shuffle", BOOL, field.shuffle, "in another order each epoch", .flags = 0),   \
        ROW(section ".to_float16", BOOL, field.is_half, "of inputs", .flags = EBB_KEY_NO_EFFECT),  \
        ROW(section ".num_workers", INT, field.workers, "threads that load",                       \
            .bounds = ">= 0, <= 256")

static const struct ebb_key rows[] = {
    INPUT("train_input", train),
    INPUT("eval_input", eval),
    MAP("model", "the network"),
    ROW("model.name", TEXT, model, "the benchmark", .flags = EBB_KEY_REQUIRED,
        .words = "resnet50 resnet deepcam cosmoflow"),
    ROW("model.mixed_precision", BOOL, is_mixed, "on cuda", .flags = 0),
    MAP("optimizer", "and its rate"),
    ROW("optimizer.optimizer_type", TEXT, optimizer, "the optimizer", .flags = EBB_KEY_REQUIRED),
    ROW("optimizer.learning_rate", DOUBLE, rate, "constant",
        .flags = EBB_KEY_LOOSE | EBB_KEY_REQUIRED),
    ROW("optimizer.momentum", DOUBLE, momentum, "of it", .flags = EBB_KEY_LOOSE),
    ROW("optimizer.weight_decay_rate", DOUBLE, decay, "of it", .flags = EBB_KEY_LOOSE),
    MAP("runconfig", "how long"),
    ROW("runconfig.max_steps", INT, max_steps, "updates", .flags = EBB_KEY_REQUIRED,
        .bounds = "> 0"),
    ROW("runconfig.checkpoint_steps", INT, checkpoint_steps, "updates between checkpoints",
        .bounds = ">= 0"),
    ROW("runconfig.log_steps", INT, log_steps, "updates between lines", .bounds = ">= 0"),
    ROW("runconfig.seed", INT, seed, "of everything that is drawn", .bounds = ">= 0"),
    ROW("runconfig.save_losses", BOOL, saves_losses, "in a file of their own",
        .flags = EBB_KEY_NO_EFFECT),
};
static const struct ebb_keys keys = EBB_KEYS(rows);

static struct ebb_doc_node *map_of(struct train_bench_read *x, struct ebb_doc_node *root,
                                   const char *key, const char *like)
{
    const struct ebb_doc_node *place = ebb_doc_get(x->root, like);
    struct ebb_doc_node *map = ebb_reading_node(&x->reading, EBB_DOC_MAP, place ? place : x->root);
    ebb_reading_set(&x->reading, root, key, map);
    return map;
}

/* The value of the file itself, whose place messages name. */
static void move(struct train_bench_read *x, struct ebb_doc_node *to, const char *key,
                 const char *section, const char *name)
{
    ebb_reading_set(&x->reading, to, key, ebb_doc_given(ebb_doc_get(x->root, section), name));
}

static void say_data(struct train_bench_read *x, struct ebb_doc_node *root)
{
    struct ebb_doc_node *data = map_of(x, root, "data", "train_input");
    move(x, data, "data_dir", "train_input", "data_dir");
    move(x, data, "global_batch_size", "train_input", "batch_size");
    move(x, data, "drop_last_batch", "train_input", "drop_last_batch");
    move(x, data, "shuffle", "train_input", "shuffle");
    move(x, data, "workers", "train_input", "num_workers");
    move(x, data, "global_eval_batch_size", "eval_input", "batch_size");
}

static void say_training(struct train_bench_read *x, struct ebb_doc_node *root,
                         const struct face *f)
{
    struct ebb_doc_node *opt = map_of(x, root, "opt", "optimizer");
    struct ebb_doc_node *rate = map_of(x, root, "lr_schedule", "optimizer");
    struct ebb_doc_node *training = map_of(x, root, "training", "runconfig");
    move(x, opt, "name", "optimizer", "optimizer_type");
    move(x, opt, "momentum", "optimizer", "momentum");
    move(x, opt, "weight_decay", "optimizer", "weight_decay_rate");
    move(x, rate, "base_lr", "optimizer", "learning_rate");
    ebb_reading_set(&x->reading, rate, "name", ebb_doc_new_string(x->reading.arena, "ConstantLR"));
    ebb_reading_set(&x->reading, rate, "total_iters", ebb_doc_new_int(x->reading.arena, 0));
    move(x, training, "seed", "runconfig", "seed");
    if (f->is_mixed)
        ebb_reading_set(&x->reading, training, "amp", ebb_doc_new_bool(x->reading.arena, true));
}

void train_bench_face(struct train_bench_read *x)
{
    struct face f = {.seed = -1};
    struct ebb_section section = {.table = &keys, .also = "device benchmark memory"};
    if (!ebb_doc_get(x->root, "runconfig") && !ebb_doc_get(x->root, "train_input"))
        return;
    x->is_face = true;
    ebb_keys_read(&x->reading, &section, NULL, x->root, x->root, &f);
    const char *steps = "runconfig.checkpoint_steps";
    if (f.checkpoint_steps)
        ebb_reading_add(&x->reading, EBB_FINDING_WARNING,
                        ebb_doc_get(ebb_doc_get(x->root, "runconfig"), "checkpoint_steps"), steps,
                        "has no effect: benchmarks write no checkpoints");
    struct ebb_doc_node *root = ebb_reading_node(&x->reading, EBB_DOC_MAP, x->root);
    static const char *const same[] = {"device", "benchmark", "memory"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ebb_reading_set(&x->reading, root, same[i], ebb_doc_get(x->root, same[i]));
    if (f.model && !ebb_doc_get(root, "benchmark"))
        ebb_reading_set(&x->reading, root, "benchmark",
                        ebb_doc_new_string(x->reading.arena, f.model));
    say_data(x, root);
    say_training(x, root, &f);
    x->values.steps = f.max_steps;
    x->values.log_every = f.log_steps;
    if (root)
        x->root = root;
}
