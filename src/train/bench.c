/* bench.c - files of EPCC's benchmark suite, read into the train_config of an experiment.
 *
 * A benchmark is a row: its model, its data, the optimizers and the schedule it allows. A file is
 * checked key by key here, then said again as sections of an experiment file, which config.c reads:
 * what a section means is written down once. Findings of both are one report. */
#include "train/bench.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

/* ---- the table ------------------------------------------------------------------------------ */

static const struct train_bench_goal accuracy = {"target_accuracy", "validation_accuracy",
                                                 "target_accuracy_reached", false, false},
                                     iou = {"target_iou", "validation_iou", "target_iou_met", false,
                                            false},
                                     mae = {"target_mae", "validation_mae", "target_mae_reached",
                                            true, false},
                                     mlm = {"target_mlm_accuracy", "validation_mlm_accuracy",
                                            "target_mlm_accuracy_reached", false, false},
                                     perplexity = {"target_log_perplexity", "validation_perplexity",
                                                   "target_log_perplexity_reached", true, true};

static const struct train_bench_row table[] = {
    {.name = "resnet50",
     .space = "resnet",
     .model = "resnet50_epcc",
     .task = "ebb:image_classification",
     .optimizers = "SGD LARS",
     .schedule_keys = "base_lr end_lr decay_steps poly_power",
     .schedule = train_bench_resnet,
     .goal = &accuracy,
     .seed = 1,
     .cap = 64,
     .eval_every = 4,
     .is_per_epoch = true},
    {.name = "deepcam",
     .space = "deepcam",
     .model = "deepcam",
     .task = "ebb:segmentation",
     .optimizers = "Adam AdamW LAMB",
     .schedule_keys =
         "base_lr lr_warmup_steps lr_warmup_factor milestones decay_rate t_max eta_min",
     .types = "cosine_annealing multistep",
     .schedule = train_bench_deepcam,
     .goal = &iou,
     .seed = 333,
     .cap = 64,
     .eval_every = 1,
     .tell_every = 16,
     .sampler_drop_last = true,
     .eps = "1e-6",
     /* f^-1/8 of the classes' frequencies, divided by the number of pixels */
     .loss = "{name: cross_entropy, weight: [1.0017299, 2.6146112, 1.7164197], "
             "divide_by: elements}"},
    {.name = "cosmoflow",
     .space = "cosmoflow",
     .model = "cosmoflow",
     .task = "ebb:regression",
     .optimizers = "SGD",
     .schedule_keys = "base_lr scaling base_batch_size n_warmup_epochs decay_schedule",
     .schedule = train_bench_cosmoflow,
     .goal = &mae,
     .seed = 1,
     .cap = 16,
     .eval_every = 1,
     .sampler_drop_last = true,
     .is_per_epoch = true},
    {.name = "bert",
     .space = "bert",
     .model = "bert_large",
     .task = "ebb:language_model",
     .optimizers = "LAMB Adam AdamW",
     .schedule_keys = "base_lr end_lr total_steps lr_warmup_steps start_warmup_step degree",
     .types = "poly",
     .schedule = train_bench_bert,
     .goal = &mlm,
     .seed = 1,
     .cap = 64,
     .eval_every = 1,
     .clip = 1},
    {.name = "gpt",
     .space = "gpt",
     .model = "gpt3_epcc_13B",
     .task = "ebb:language_model",
     .optimizers = "Adam AdamW",
     .schedule_keys = "base_lr lr_warmup_steps total_steps final_frac",
     .types = "cosine linear wsd",
     .schedule = train_bench_gpt,
     .goal = &perplexity,
     .seed = 1,
     .cap = 64,
     .eval_every = 1},
};
enum { BENCHMARKS = sizeof table / sizeof *table };

const char *train_bench_name(size_t i)
{
    return i < BENCHMARKS ? table[i].name : NULL;
}

static const struct train_bench_row *find_row(const char *name)
{
    for (size_t i = 0; i < BENCHMARKS; i++)
        if (strcmp(table[i].name, name) == 0 || strcmp(table[i].space, name) == 0)
            return &table[i];
    return NULL;
}

static bool is_benchmark(const char *name)
{
    return find_row(name) != NULL;
}

/* ---- keys ----------------------------------------------------------------------------------- */

static bool is_device(const char *text)
{
    return strcasecmp(text, "cpu") == 0 || strcasecmp(text, "gpu") == 0 ||
           strcasecmp(text, "cuda") == 0;
}

#define ROW(...) EBB_KEY_ROW(struct train_bench_values, __VA_ARGS__)
static const struct ebb_key top_rows[] = {
    ROW("benchmark", TEXT, benchmark, "which one it is", .word = train_bench_name,
        .check = is_benchmark),
    ROW("device", TEXT, device, "cpu, cuda or gpu", .check = is_device,
        .allowed = "cpu, cuda or gpu, in upper or lower case"),
};

static const struct ebb_key batch_rows[] = {
    ROW("global_batch_size", INT, global_batch, "samples of an update on all devices",
        .bounds = "> 0, <= 1000000000"),
    ROW("local_batch_size", INT, local_batch, "samples of a device; not 0: no accumulation",
        .bounds = ">= 0, <= 1000000000"),
    ROW("gradient_accumulation_freq", INT, accumulation,
        "micro-batches of an update; -1: automatic", .bounds = ">= -1, <= 1000000"),
    ROW("gradient_accumulation", INT, accumulation, "the same", .bounds = ">= -1, <= 1000000"),
    ROW("n_epochs", INT, epochs, "at most", .bounds = "> 0"),
    ROW("global_eval_batch_size", INT, eval_batch, "samples of a batch of the validation",
        .bounds = "> 0, <= 1000000000"),
    ROW("drop_last_batch", BOOL, drop_last, "the last batch of an epoch, if it is smaller",
        .flags = 0),
    ROW("allow_inexact_batch", BOOL, takes_inexact, "a batch that does not divide is a warning",
        .flags = 0),
    ROW("auto_accumulation", WORD, by, "what -1 goes by", .words = "cap budget"),
    ROW("accumulate_across_epochs", BOOL, carries, "keep the leftover of an epoch for the next",
        .flags = 0),
};

static const struct ebb_key training_rows[] = {
    ROW("target_accuracy", DOUBLE, targets[0], "resnet50: stop there", .flags = EBB_KEY_LOOSE),
    ROW("target_iou", DOUBLE, targets[1], "deepcam", .flags = EBB_KEY_LOOSE),
    ROW("target_mae", DOUBLE, targets[2], "cosmoflow", .flags = EBB_KEY_LOOSE),
    ROW("target_mlm_accuracy", DOUBLE, targets[3], "bert", .flags = EBB_KEY_LOOSE),
    ROW("target_log_perplexity", DOUBLE, targets[4], "gpt", .flags = EBB_KEY_LOOSE),
    ROW("eval_every", INT, eval_every, "epochs between validations", .bounds = "> 0"),
    ROW("seed", INT, seed, "of everything that is drawn", .bounds = ">= 0"),
    ROW("amp", BOOL, amp, "mixed precision on cuda", .flags = 0),
    ROW("num_ipus", INT, devices, "devices, as in the Graphcore files", .bounds = "> 0, <= 65536"),
    ROW("benchmark", BOOL, searches_kernels, "choice of kernels by trial, which ebb does not do",
        .flags = EBB_KEY_NO_EFFECT),
};

static const struct ebb_key parallel_rows[] = {
    ROW("tp_size", INT, tp, "devices that share a layer", .bounds = "> 0"),
    ROW("pp_size", INT, pp, "stages of a pipeline", .bounds = "> 0"),
    ROW("precision", WORD, precision, "of compute", .words = "fp32 bf16 fp16"),
    ROW("zero_stage", INT, zero, "state shared out over the devices", .bounds = ">= 0, <= 3"),
    ROW("cpu_offload", BOOL, offload, "state in host memory", .flags = 0),
};
static const struct ebb_keys top_keys = EBB_KEYS(top_rows), batch_keys = EBB_KEYS(batch_rows),
                             training_keys = EBB_KEYS(training_rows),
                             parallel_keys = EBB_KEYS(parallel_rows);

static const char sections[] = "data model opt lr_schedule training parallelism memory";

/* A section as a mapping; NULL: absent, or no mapping, which is an error. */
static const struct ebb_doc_node *section_of(struct train_bench_read *x, const char *key)
{
    const struct ebb_doc_node *node = ebb_doc_given(x->root, key);
    struct ebb_path path = {.key = key};
    if (node && node->kind != EBB_DOC_MAP) {
        ebb_reading_refuse(&x->reading, &path, node, "a mapping");
        return NULL;
    }
    return node;
}

static void read_keys(struct train_bench_read *x, const struct ebb_keys *table_,
                      const char *section, bool is_open)
{
    const struct ebb_doc_node *map = section_of(x, section);
    struct ebb_path path = {.key = section};
    struct ebb_section rows = {.table = table_, .is_open = is_open};
    if (map)
        ebb_keys_read(&x->reading, &rows, &path, map, map, &x->values);
}

/* ---- which benchmark ------------------------------------------------------------------------ */

/* By its own word, by the target it names, or by a section that only one has. */
static const struct train_bench_row *recognize(struct train_bench_read *x, const char *name)
{
    const struct ebb_doc_node *training = ebb_doc_get(x->root, "training");
    const char *said = name ? name : x->values.benchmark;
    if (said)
        return find_row(said);
    for (size_t i = 0; i < BENCHMARKS; i++)
        if (ebb_doc_get(training, table[i].goal->key))
            return &table[i];
    if (ebb_doc_get(x->root, "parallelism"))
        return find_row("gpt");
    if (x->is_face) /* its model.name tells, and was refused */
        return NULL;
    ebb_reading_error(&x->reading, &(struct ebb_path){.key = "benchmark"}, x->root,
                      "required but missing, allowed: resnet50, deepcam, cosmoflow, bert, gpt "
                      "(nothing in the file tells which benchmark it is)");
    return NULL;
}

/* ---- batches -------------------------------------------------------------------------------- */

static void read_batches(struct train_bench_read *x)
{
    struct ebb_path path = {.key = "data"};
    const struct ebb_doc_node *map = section_of(x, "data");
    struct train_bench_values *v = &x->values;
    read_keys(x, &batch_keys, "data", true);
    if (v->accumulation == 0)
        ebb_reading_wrong(&x->reading, &path, map, "gradient_accumulation_freq",
                          "found 0, allowed: -1, or an integer > 0");
    if (!v->global_batch && !v->local_batch)
        ebb_reading_wrong(&x->reading, &path, map ? map : x->root, "global_batch_size",
                          "required but missing, allowed: an integer > 0");
    if (!v->epochs && !v->steps)
        ebb_reading_wrong(&x->reading, &path, map ? map : x->root, "n_epochs",
                          "required but missing, allowed: an integer > 0");
}

static void plan_batches(struct train_bench_read *x)
{
    struct train_bench *b = x->bench;
    const struct train_bench_values *v = &x->values;
    struct ebb_error err;
    b->takes_inexact = v->takes_inexact;
    b->accumulation = v->accumulation == -1 && !v->local_batch ? v->by : TRAIN_BY_CAP;
    b->batching = (struct data_batching){.devices = x->devices,
                                         .global_batch = (uint64_t)v->global_batch,
                                         .local_batch = (uint64_t)v->local_batch,
                                         .accumulation = v->accumulation,
                                         .cap = x->row->cap,
                                         .drop_last = v->drop_last,
                                         .sampler_drop_last = x->row->sampler_drop_last};
    if (b->accumulation == TRAIN_BY_BUDGET)
        b->batching.accumulation = 1; /* until train_bench_fit */
    if (x->reading.report->errors == 0 && data_batch_plan(&b->batching, &err) != EBB_OK)
        ebb_reading_wrong(&x->reading, &(struct ebb_path){.key = "data"}, section_of(x, "data"),
                          "global_batch_size", err.message);
}

/* ---- the rest of the file ------------------------------------------------------------------- */

static void read_training(struct train_bench_read *x)
{
    const struct ebb_doc_node *map = section_of(x, "training");
    struct ebb_path path = {.key = "training"};
    struct ebb_section rows = {.table = &training_keys, .what = x->row->name};
    char only[256];
    snprintf(only, sizeof only, "%s eval_every seed amp num_ipus benchmark", x->row->goal->key);
    rows.only = only;
    if (map)
        ebb_keys_read(&x->reading, &rows, &path, map, map, &x->values);
    if (x->values.amp && !x->is_cuda)
        ebb_reading_add(&x->reading, EBB_FINDING_WARNING, ebb_doc_get(map, "amp"), "training.amp",
                        "acts on cuda; on cpu compute stays fp32 (memory.precision sets it there)");
}

static void read_parallelism(struct train_bench_read *x)
{
    const struct train_bench_values *v = &x->values;
    const struct ebb_doc_node *map = section_of(x, "parallelism");
    struct ebb_path path = {.key = "parallelism"};
    if (!map)
        return;
    read_keys(x, &parallel_keys, "parallelism", false);
    if (v->tp > 1)
        ebb_reading_wrong(&x->reading, &path, map, "tp_size",
                          "layers are not shared out over devices, allowed: 1");
    if (v->pp > 1)
        ebb_reading_wrong(&x->reading, &path, map, "pp_size",
                          "there is no pipeline of stages, allowed: 1");
    if (v->offload)
        ebb_reading_wrong(
            &x->reading, &path, map, "cpu_offload",
            "found true, allowed: false; room in host memory is memory.host, in bytes");
}

/* ---- as sections of an experiment file ------------------------------------------------------ */

struct ebb_doc_node *train_bench_copy(struct train_bench_read *x, const struct ebb_doc_node *map,
                                      const char *without)
{
    struct ebb_doc_node *copy = ebb_reading_node(&x->reading, EBB_DOC_MAP, map ? map : x->root);
    size_t count = map ? map->count : 0;
    const struct ebb_doc_node **keys = ebb_reading_alloc(&x->reading, count + 1, sizeof *keys);
    const struct ebb_doc_node **items = ebb_reading_alloc(&x->reading, count + 1, sizeof *items);
    if (!copy || !keys || !items)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (ebb_words_find(without, map->keys[i]->text, map->keys[i]->length, NULL))
            continue;
        keys[copy->count] = map->keys[i];
        items[copy->count++] = map->items[i];
    }
    copy->keys = keys;
    copy->items = items;
    return copy;
}

static void set_text(struct train_bench_read *x, struct ebb_doc_node *map, const char *key,
                     const char *text)
{
    ebb_reading_set(&x->reading, map, key, ebb_doc_new_string(x->reading.arena, text));
}

static const struct ebb_doc_node *make_model(struct train_bench_read *x)
{
    struct ebb_doc_node *map = train_bench_copy(x, section_of(x, "model"), "");
    if (map && !ebb_doc_given(map, "name") && !ebb_doc_given(map, "file"))
        set_text(x, map, "name", x->row->model);
    return map;
}

static const struct ebb_doc_node *make_opt(struct train_bench_read *x)
{
    const struct ebb_doc_node *map = section_of(x, "opt"), *name = ebb_doc_given(map, "name"),
                              *clip = ebb_doc_given(map, "gradient_clip_norm");
    struct ebb_path path = {.key = "opt"}, at = {.up = &path, .key = "name"};
    struct ebb_doc_node *opt = train_bench_copy(x, map, "gradient_clip_norm lr");
    struct ebb_str found = {0};
    bool is_allowed = false;
    size_t n;
    const char *word;
    if (!map)
        return NULL;
    for (size_t i = 0; name && (word = ebb_words_at(x->row->optimizers, i, &n)); i++)
        is_allowed |= name->kind == EBB_DOC_STRING && name->length == n &&
                      strncasecmp(name->text, word, n) == 0;
    if (name && name->kind == EBB_DOC_STRING && !is_allowed) {
        ebb_say_words(x->row->optimizers, &found);
        ebb_reading_error(&x->reading, &at, name, "found \"%s\", allowed in benchmark %s: %s",
                          name->text, x->row->name, ebb_str_c(&found));
        ebb_str_fini(&found);
        return NULL;
    }
    if (ebb_doc_get(map, "lr"))
        ebb_reading_wrong(&x->reading, &path, map, "lr",
                          "belongs to experiment files; here the rate is lr_schedule.base_lr");
    if (clip && (clip->kind != EBB_DOC_INT && clip->kind != EBB_DOC_DOUBLE))
        ebb_reading_wrong(&x->reading, &path, map, "gradient_clip_norm", "allowed: a number >= 0");
    else if (clip)
        x->clip = clip->number;
    if (isfinite(x->values.schedule.base_lr))
        ebb_reading_set(&x->reading, opt, "lr",
                        ebb_doc_new_double(x->reading.arena, x->values.schedule.base_lr));
    if (x->row->eps && !ebb_doc_given(map, "eps"))
        ebb_reading_set(&x->reading, opt, "eps", ebb_doc_new_double(x->reading.arena, 1e-6));
    return opt;
}

/* In the place of a section that was refused: the others are still read. */
static const struct ebb_doc_node *placeholder(struct train_bench_read *x)
{
    struct ebb_doc_node *opt = ebb_reading_node(&x->reading, EBB_DOC_MAP, x->root);
    if (!section_of(x, "opt"))
        return NULL;
    set_text(x, opt, "name", "SGD");
    ebb_reading_set(&x->reading, opt, "lr", ebb_doc_new_double(x->reading.arena, 1));
    return opt;
}

static const struct ebb_doc_node *make_memory(struct train_bench_read *x)
{
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    struct ebb_doc_node *map = train_bench_copy(x, section_of(x, "memory"), "");
    const struct train_bench_values *v = &x->values;
    bool is_given = ebb_doc_given(map, "precision");
    if (x->device && !ebb_doc_given(map, "device"))
        set_text(x, map, "device", x->device);
    if (!is_given && v->amp && x->is_cuda)
        set_text(x, map, "precision", "bf16");
    if (!is_given && ebb_doc_get(ebb_doc_get(x->root, "parallelism"), "precision") &&
        v->precision <= TRAIN_FP16)
        set_text(x, map, "precision", precisions[v->precision]);
    return map;
}

static const struct ebb_doc_node *make_loss(struct train_bench_read *x)
{
    const struct ebb_doc_node *loss = NULL;
    struct ebb_error err;
    if (x->row->loss && ebb_doc_parse_yaml(x->reading.arena, x->row->name, x->row->loss,
                                           strlen(x->row->loss), &loss, &err) != EBB_OK)
        x->reading.failed = true;
    return loss;
}

static void read_sections(struct train_bench_read *x, const struct train_bench_source *source)
{
    struct ebb_doc_node *root = ebb_reading_node(&x->reading, EBB_DOC_MAP, x->root);
    struct ebb_doc_node *hparams = ebb_reading_node(&x->reading, EBB_DOC_MAP, x->root);
    struct ebb_report found = {0};
    struct ebb_error err;
    const struct ebb_doc_node *schedule = train_bench_schedule(x); /* its base_lr goes to opt */
    ebb_reading_set(&x->reading, root, "data", section_of(x, "data"));
    ebb_reading_set(&x->reading, root, "model", make_model(x));
    const struct ebb_doc_node *opt = make_opt(x);
    ebb_reading_set(&x->reading, root, "opt", opt ? opt : placeholder(x));
    ebb_reading_set(&x->reading, root, "lr_schedule", schedule);
    ebb_reading_set(&x->reading, root, "memory", make_memory(x));
    ebb_reading_set(&x->reading, root, "loss", make_loss(x));
    ebb_reading_set(&x->reading, hparams, "global_batch_size",
                    ebb_doc_new_int(x->reading.arena, 1)); /* told by the batching */
    if (x->clip > 0)
        ebb_reading_set(&x->reading, hparams, "clip_grad_l2_norm",
                        ebb_doc_new_double(x->reading.arena, x->clip));
    if (x->reading.failed)
        return;
    struct train_source said = {.file = source->file,
                                .directory = source->directory,
                                .entrypoint = x->row->task,
                                .benchmark = x->row->name,
                                .root = root,
                                .hparams = hparams,
                                .seed = x->seed};
    x->has_config =
        train_config_read(x->reading.arena, &said, &x->bench->config, &found, &err) == EBB_OK;
    if (!x->has_config && found.errors == 0)
        x->reading.failed = true;
    for (size_t i = 0; i < found.count; i++) { /* places of the same file, in one order */
        const struct ebb_finding *one = &found.items[i];
        struct ebb_doc_node place = {.line = one->line, .column = one->column};
        ebb_reading_add(&x->reading, one->kind, &place, one->path, "%s", one->message);
    }
}

/* ---- all together --------------------------------------------------------------------------- */

static void choose(struct train_bench_read *x, const struct train_bench_source *source)
{
    const struct train_bench_values *v = &x->values;
    x->is_cuda = v->device && strcasecmp(v->device, "cpu") != 0;
    x->device = !v->device ? NULL : x->is_cuda ? "cuda" : "cpu";
    x->clip = x->row->clip;
    read_training(x);
    read_parallelism(x);
    x->devices = source->devices ? source->devices : v->devices ? (uint64_t)v->devices : 1;
    x->seed = source->seed >= 0 ? (uint64_t)source->seed
              : v->seed >= 0    ? (uint64_t)v->seed
                                : x->row->seed;
}

static void fill(struct train_bench_read *x)
{
    struct train_bench *b = x->bench;
    const struct train_bench_values *v = &x->values;
    b->name = x->row->name;
    b->space = x->row->space;
    b->root = x->root;
    b->goal = x->row->goal;
    b->target = v->targets[x->row - table];
    b->epochs = v->epochs;
    b->steps = v->steps;
    b->log_every = v->log_every;
    b->tell_every = x->row->tell_every;
    b->eval_every = v->eval_every ? v->eval_every : x->row->eval_every;
    b->config.eval_batch = v->eval_batch;
    b->config.drops_leftover = !v->carries;
    b->config.batch_size = (int64_t)b->batching.local;
    b->config.accumulate = (int64_t)b->batching.accumulate;
}

enum ebb_status train_bench_read(struct ebb_arena *arena, const struct train_bench_source *source,
                                 struct train_bench *bench, struct ebb_report *report,
                                 struct ebb_error *err)
{
    struct train_bench_read x = {.bench = bench, .root = source->root};
    x.values = (struct train_bench_values){
        .accumulation = 1, .drop_last = true, .seed = -1, .targets = {NAN, NAN, NAN, NAN, NAN}};
    memset(bench, 0, sizeof *bench);
    ebb_reading_init(&x.reading, arena, source->file, report);
    train_bench_face(&x); /* files of other machines, said in the usual keys */
    struct ebb_section top = {.table = &top_keys, .also = sections};
    ebb_keys_read(&x.reading, &top, NULL, x.root, x.root, &x.values);
    x.row = recognize(&x, source->name);
    if (x.row) {
        choose(&x, source);
        read_batches(&x);
        plan_batches(&x);
        read_sections(&x, source);
        fill(&x);
    }
    return ebb_reading_end(&x.reading, err);
}

/* ---- what follows from it ------------------------------------------------------------------- */

enum ebb_status train_bench_count(struct train_bench *b, uint64_t samples, struct ebb_error *err)
{
    struct data_batching *p = &b->batching;
    p->samples = samples;
    EBB_TRY(data_batch_plan(p, err));
    if (p->is_exact || b->takes_inexact)
        return EBB_OK;
    uint64_t unit = p->devices * p->accumulate, below = p->global / unit * unit;
    return ebb_fail(err, EBB_EINPUT,
                    "data.global_batch_size: %" PRIu64 " samples on %" PRIu64 " devices in %" PRIu64
                    " micro-batches would lose %" PRIu64 "; %" PRIu64 " and %" PRIu64
                    " divide (data.allow_inexact_batch: true trains on %" PRIu64 ")",
                    p->global, p->devices, p->accumulate, p->global - p->effective, below,
                    below + unit, p->effective);
}

/* Whether the steps of this division have a plan: the floor's, which is the smallest. */
static enum ebb_status try_fit(const struct train_bench *b, bool *fits, struct ebb_error *err)
{
    struct train_config config = b->config;
    struct train_trial *trial = NULL;
    config.policy = "floor";
    enum ebb_status status =
        train_trial_create(&trial, &config, &(struct train_options){.is_dry = true}, err);
    *fits = status == EBB_OK;
    train_trial_destroy(trial);
    return status == EBB_EBUDGET ? EBB_OK : status;
}

enum ebb_status train_bench_fit(struct train_bench *b, struct ebb_error *err)
{
    uint64_t per = b->batching.global_batch / b->batching.devices;
    struct ebb_error why = {0};
    char budget[32];
    bool fits = false;
    if (b->accumulation != TRAIN_BY_BUDGET)
        return EBB_OK;
    for (uint64_t times = 1; times <= per && !fits; times++) {
        if (per % times)
            continue;
        b->batching.accumulation = (int64_t)times;
        EBB_TRY(data_batch_plan(&b->batching, err));
        b->config.batch_size = (int64_t)b->batching.local;
        b->config.accumulate = (int64_t)b->batching.accumulate;
        EBB_TRY(try_fit(b, &fits, &why));
    }
    if (fits)
        return EBB_OK;
    return ebb_fail(err, EBB_EBUDGET,
                    "data.auto_accumulation: even micro-batches of one sample do not fit %s: %s",
                    ebb_format_bytes(b->config.budget_bytes, budget, sizeof budget), why.message);
}
