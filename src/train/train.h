/* train.h - training: what a file asks for, one trial that does it, checkpoints, what memory goes
 * where.
 *
 *     sections of a file --train_config_read--> train_config
 *     train_config --train_trial_create--> trial: batches, updates, validation, save, load
 *
 * A trial is one model in training in one engine (engine.h): its programs are traced once per shape
 * of batch and run under the budget. What changes by update (rates, counters) is read from a small
 * input, so the programs stay the same. Given (configuration, seed, threads, instruction set,
 * library versions) the weights after n updates are a function of n alone: not of the budget, the
 * policy, the host's speed, or of how often the trial was saved and loaded.
 *
 * Nothing here prints or exits; docs/training.md is the user's page. */
#ifndef EBB_TRAIN_TRAIN_H
#define EBB_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/json.h"
#include "base/report.h"
#include "base/status.h"
#include "data/data.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "tensor/tensor.h"
#include "trace/trace.h"
#include "worker/worker.h"

/* ---- configuration --------------------------------------------------------------------------- */

enum train_precision { TRAIN_FP32, TRAIN_BF16, TRAIN_FP16 };
enum train_interval { TRAIN_PER_UPDATE, TRAIN_PER_EPOCH };

struct nn_config;
struct train_task;                                          /* a row of the table of tasks */
const struct train_task *train_task_find(const char *name); /* NULL: unknown */
const char *train_task_name(const struct train_task *task);

/* The section `loss`. */
struct train_loss {
    const char *name; /* of the op */
    double label_smoothing, beta;
    int64_t ignore_index;
    const double *weights; /* of classes */
    size_t weight_count;
    unsigned divide_by; /* what a weighted mean is divided by (loss.c) */
};

/* Everything is in the arena given to the reader. */
struct
    train_link { /* throttled links between tiers; rates in GB/s, latencies in us; 0: not given */
    double host_rate, file_rate, host_latency, file_latency;
};
#define TRAIN_NO_LATENCY 1e-4 /* us; given, and less than the clock knows */

/* PatrickStar's options in the section `memory`; not given: planning decides. */
enum train_wish { TRAIN_OPEN, TRAIN_OFF, TRAIN_ON };
enum train_gradients {
    TRAIN_GRADIENTS_OPEN,
    TRAIN_GRADIENTS_FUSED,
    TRAIN_GRADIENTS_SEPARATE,
    TRAIN_GRADIENTS_OVERLAY, /* over the working copies of weights, with their precision */
};
struct train_wishes {
    enum train_wish use_ckp, activation_offload;
    enum train_wish hybrid_adam;   /* off: the host runs all updates; else it shares them */
    enum train_wish cpu_embedding; /* on: tables live in host memory, which looks them up */
    enum train_wish tiling;        /* on: weights of linear layers lie in blocks of rows */
    enum train_wish monitor, tracer_monitor; /* one switch under two names */
    /* What the process may take besides, for the monitor; 0: 32 MiB; UINT64_MAX: what earlier starts
     * saw (reserve.c). */
    uint64_t reserve_bytes;
    enum train_gradients gradients;
    double gpu_ratio, cpu_ratio; /* budget and host as parts of the machine; 0: not given */
    bool has_warmup, has_margin; /* the next two are given */
    double warmup_ratio;         /* of the budget: most state in tier 0 in update 1 */
    double margin_ratio;         /* of what the rest leaves of it: most optimizer state there */
    bool is_static;              /* warmup_ratio holds for good, and nothing else decides */
};

/* The key `init_from` of the section `model`: weights to begin with. */
struct train_init {
    const char *path;
    struct tensor_changes changes;
    const char *const *fresh; /* patterns of items that keep their own initial values */
    size_t fresh_count;
};

/* The key `groups` of the section `opt`: items with a rate or decay of their own. */
struct train_group {
    const char *const *match; /* patterns of names; the first group that fits counts */
    size_t match_count;
    double lr, weight_decay; /* NaN: those of the section */
};
#define TRAIN_GROUPS 8

struct train_config {
    const char *file;      /* for messages */
    const char *directory; /* relative paths of data start here; NULL: working folder */
    const char *benchmark; /* of a benchmark file, whose data it is (data_env); NULL: none */
    const struct train_task *task;
    const struct ebb_doc_node *data, *schedule; /* ${name} expanded; NULL: not given */
    const struct train_loss *loss;              /* NULL: the model's own */
    const struct nn_config *net;                /* the model, before data adapts it */
    const char *schedule_name;                  /* NULL = constant rate */
    enum train_interval interval;
    struct optim_config optim;
    struct train_group groups[TRAIN_GROUPS];
    size_t group_count;
    const struct train_init *init; /* NULL: initial values of the model */
    int64_t warmup;                /* updates whose rate grows to that of the schedule */
    double ema; /* opt.ema: share of the old average that an update keeps; 0: no averages */
    bool decays_matrices_only;    /* opt.decay: biases and norms have no weight decay, and no trust
                                     ratio in LARS and LAMB */
    double clip_norm, clip_value; /* 0 = none */
    int64_t batch_size;           /* samples of a batch */
    int64_t eval_batch;           /* of a batch of the validation; 0: as above */
    int64_t accumulate;           /* batches of an update */
    bool drops_leftover;          /* batches at the end of an epoch that make no update: their
                                     gradients are dropped, not carried over */
    bool average;                 /* loss of a batch times 1/accumulate */
    uint64_t seed;
    uint64_t budget_bytes, host_bytes, file_bytes; /* budget: UINT64_MAX = unlimited */
    struct train_link link;
    struct train_wishes wishes;
    const char *policy, *file_path; /* NULL = default */
    const char *device;             /* NULL = cpu */
    const char *costs;              /* profile that decisions go by; NULL = what is built in */
    bool is_builtin;                /* which is then asked for: not this machine's, either */
    const char *rewrites; /* of the trace (ops_rewrites_parse); NULL = those on at the start */
    enum train_precision precision;
    int64_t chunk; /* elements of a state that come and go together; 0: what suits the device */
    bool is_split; /* weights as a BF16 half and the 16 bits below */
    int threads;   /* 0 = all */
};

/* Sections of an experiment file. `root` is the whole mapping; `hparams` maps every hyperparameter
 * to its value in this trial; `entrypoint` is "ebb:<task>" or "onnx:<path>". */
struct train_source {
    const char *file, *directory, *entrypoint;
    const char *benchmark; /* as in train_config */
    const struct ebb_doc_node *root, *hparams;
    uint64_t seed;
};

/* A copy with every ${name} replaced (a scalar that is exactly ${name} takes the typed
 * value, inside a longer string it is text, $${ is a plain ${). Positions stay. Unknown names are
 * left as they are; with a reading, a node with one is marked bad in it, and lists that hold one.
 * NULL when memory is out. */
const struct ebb_doc_node *train_expand(struct ebb_arena *arena, struct ebb_reading *reading,
                                        const struct ebb_doc_node *node,
                                        const struct ebb_doc_node *hparams);
/* Put "section.key=value" (the value is YAML) into a mapping; maps on the way are made. */
enum ebb_status train_set(struct ebb_arena *arena, struct ebb_doc_node *root, const char *text,
                          struct ebb_error *err);

/* The validation metrics of a task with a model of the zoo (NULL: any of them), words with blanks between;
 * NULL: any. */
const char *train_task_metrics(const char *task, const char *model);

/* Check one section (data model opt lr_schedule loss memory), ${name} expanded; `entrypoint` may be
 * NULL when unknown. Reports every mistake. Touches no data file; model files are read where
 * `directory`, where relative paths begin, is not NULL. */
void train_check_section(struct ebb_reading *reading, const char *section,
                         const struct ebb_doc_node *value, const char *entrypoint,
                         const char *directory);

/* Only the keys of a section `memory` that need not be whole. */
void train_check_memory_keys(struct ebb_reading *reading, const struct ebb_doc_node *value);

/* Check everything, then fill. EBB_EINPUT: there are mistakes; *report (may be NULL) holds all, err
 * names the first and counts the rest. */
enum ebb_status train_config_read(struct ebb_arena *arena, const struct train_source *source,
                                  struct train_config *config, struct ebb_report *report,
                                  struct ebb_error *err);

/* ---- benchmarks (bench.c): the files of EPCC's suite, docs/bench.md ----------------------------- */

enum train_accumulation { TRAIN_BY_CAP, TRAIN_BY_BUDGET };

struct train_bench_goal { /* when a benchmark is won */
    const char *key;      /* in the section training, as target_accuracy */
    const char *metric;   /* of a validation */
    const char *reached;  /* key of the log line that says so */
    bool is_low;          /* the metric should be at most the target */
    bool is_log;          /* of the logarithm of the metric */
};

struct train_bench {
    const char *name, *space;        /* "resnet50"; of its log lines: "resnet" */
    const struct ebb_doc_node *root; /* the file, what else was said put over it */
    struct train_config config; /* of one device: its batch_size and accumulate are those below */
    struct data_batching batching; /* `samples` and what follows from it: train_bench_count */
    bool takes_inexact;            /* allow_inexact_batch */
    enum train_accumulation accumulation;
    const struct train_bench_goal *goal;
    double target;         /* NaN: none */
    int64_t epochs, steps; /* limits: epochs, updates; 0 = none */
    int64_t eval_every;    /* epochs between validations */
    int64_t log_every;     /* updates between lines of the loss; 0 = none */
    int64_t tell_every;    /* batches between lines of times; 0 = none */
};

const char *train_bench_name(size_t i); /* "resnet50", ...; NULL past the end */

/* The whole mapping of a file; name NULL: as the file tells, by `benchmark`, its target or its
 * sections. devices 0: as the file says, else 1. Reports every mistake; everything lives in the
 * arena. */
struct train_bench_source {
    const char *file, *directory, *name;
    const struct ebb_doc_node *root;
    uint64_t devices;
    int64_t seed; /* -1: the benchmark's own */
};
enum ebb_status train_bench_read(struct ebb_arena *arena, const struct train_bench_source *source,
                                 struct train_bench *bench, struct ebb_report *report,
                                 struct ebb_error *err);
/* With auto_accumulation: budget, the fewest micro-batches that the budget is enough for. */
enum ebb_status train_bench_fit(struct train_bench *bench, struct ebb_error *err);
/* What an epoch of so many samples is. EBB_EINPUT: the batch does not divide, with what would. */
enum ebb_status train_bench_count(struct train_bench *bench, uint64_t samples,
                                  struct ebb_error *err);

/* ---- a model by itself (model.c) ------------------------------------------------------------- */

struct train_model {
    const struct nn_config *net;
    int64_t batch;
    enum train_precision precision;
    const struct optim_config *optim; /* whose updates end the step; NULL: see the functions */
    void *backend;                    /* whose kernels choose workspaces; NULL: none */
};
/* One training step; without an optimizer only the forward pass, as in evaluation. */
enum ebb_status train_model_trace(const struct train_model *model, struct trace **trace,
                                  struct ebb_error *err);
/* Sizes, work and bytes of forward and backward pass. */
enum ebb_status train_model_stats(const struct train_model *model, struct nn_stats *stats,
                                  struct ebb_error *err);

/* A model by itself, evaluated (forward.c). Weights are those of a file or initial ones. */
struct train_forward_options {
    int64_t batch;
    enum nn_precision precision;
    bool is_dry; /* recorded only, so that items and sizes are known: nothing has a place */
    /* Budget, tiers, policy, device, threads, rewrites; NULL: what it takes, on one thread here. */
    const struct train_config *memory;
    uint64_t machine_bytes; /* as in train_options */
};
struct train_forward {
    struct train_engine *engine;
    struct train_program *program;
    struct profile *costs;
    struct tensor_session *session;
    struct nn_builder builder; /* whose items are the weights */
    struct nn_port ports[NN_PORTS];
    tensor_id inputs[NN_PORTS]; /* of the ports */
    size_t port_count;
    struct nn_output outputs[NN_PORTS]; /* contiguous */
    size_t output_count;
    struct train_forward_place { /* of an input or output, on the host */
        uint32_t tensor;         /* of the trace */
        void *bytes;
        uint64_t count;
        bool is_input, is_lasting; /* is_lasting: the engine keeps it from run to run */
    } places[2 * NN_PORTS];
    size_t place_count;
};
/* EBB_EBUDGET, EBB_ENOMEM: the budget, the machine is too small; the message tells what it takes. */
enum ebb_status train_forward_open(struct train_forward *forward, const struct nn_config *net,
                                   const struct train_forward_options *options,
                                   struct ebb_error *err);
void train_forward_close(struct train_forward *forward); /* all zero is fine */
/* Where an input or output lies; NULL: nothing reads it. */
void *train_forward_place(const struct train_forward *forward, tensor_id id);
/* The bytes of an item themselves; NULL: the host cannot reach them. */
void *train_forward_item(const struct train_forward *forward, size_t item);
enum ebb_status train_forward_initialize(struct train_forward *forward, uint64_t seed,
                                         struct ebb_error *err);
/* A file of weights, a folder with one, or a checkpoint (train_store_find), whose averages of opt.ema
 * take the place of their weights: they are what validation measures. *note: what of the file is
 * not used, a line each. */
enum ebb_status train_forward_load(struct train_forward *forward, const char *path,
                                   const struct tensor_changes *changes, struct ebb_str *note,
                                   struct ebb_error *err);
enum ebb_status train_forward_run(struct train_forward *forward, struct ebb_error *err);

/* ---- measuring --------------------------------------------------------------------------------- */

/* How long ops take, by their kinds, shapes and types (profile.h). Only those who ask measure. */
struct train_times;
struct profile;
enum ebb_status train_times_create(struct train_times **times, struct ebb_error *err);
void train_times_destroy(struct train_times *times); /* NULL is fine */
/* A finished profile of a device with what was measured, and of its links, which takes below a
 * second. file_path: as in train_config. */
enum ebb_status train_times_profile(const struct train_times *times, const char *device,
                                    const char *file_path, struct profile **profile,
                                    struct ebb_error *err);

/* Appends where the profile of this processor with so many threads (0: all) is kept. Trials that know
 * the machine go by it, when it is there and knows nine tenths of the step's time. */
enum ebb_status train_machine_path(int threads, struct ebb_str *path, struct ebb_error *err);

/* The model as the section `data` shapes it, and the data (NULL: the file has none), to be closed. */
enum ebb_status train_open_net(const struct train_config *config, struct nn_config *net,
                               struct data_set **set, struct ebb_error *err);

/* ---- a trial --------------------------------------------------------------------------------- */

struct train_trial; /* one owner thread */

struct train_options {
    bool is_dry;    /* no memory, no kernels, no data files: programs and their reports only */
    bool is_online; /* policies decide while running */
    bool samples, ignores_small; /* policies: score about 2 sqrt(n) candidates only; storages far
                                    below the average are none (exec_options) */
    bool makes_data;             /* random inputs and targets instead of the section `data` */
    bool is_repeated;            /* for train_trial_repeat alone: nothing is updated or validated */
    bool measures;               /* of it: repetitions tell the wall times of their parts */
    bool only_validates; /* no program of training is made: memory for evaluation is enough */
    bool wants_classes;  /* validation keeps a confusion matrix, and knows the five best answers */
    /* NULL, or told every answer of a validation, one sample after the other: of classes the one
     * wanted and the scores of all, of numbers those wanted (wanted_class -1) and those given. */
    void (*answer)(void *context, int64_t sample, int64_t wanted_class, const float *wanted,
                   const float *given, int64_t count);
    void *answer_context;
    int workers;               /* loader threads; -1 = default */
    bool any_threads;          /* resume with other threads or instructions all the same */
    bool knows_machine;        /* where no costs are named, this machine's profile may decide */
    uint64_t *needed_bytes;    /* NULL, or told the floor when the budget is refused */
    uint64_t machine_bytes;    /* memory; more is refused (EBB_ENOMEM). 0: what is installed */
    struct ebb_error *no_data; /* NULL, or told why a dry trial had to do without its data */
    struct train_times
        *times; /* NULL, or told how long every op of every update but the first took */
};

enum ebb_status train_trial_create(struct train_trial **trial, const struct train_config *config,
                                   const struct train_options *options, struct ebb_error *err);
void train_trial_destroy(struct train_trial *trial); /* NULL is fine */

struct train_batch {
    double loss;     /* of this batch, before 1/accumulate */
    double rate;     /* of the update it belongs to */
    double norm;     /* of the gradients of the update, before clipping; NaN: not measured */
    bool is_update;  /* it ended an update */
    bool is_skipped; /* the update had infinite gradients: weights as before */
    bool is_epoch_end;
    int64_t
        dropped; /* batches whose gradients were dropped at the epoch's end, this one included */
    int64_t records;
    uint64_t ns, wait_ns; /* wall time; of it waiting for data */
};
enum ebb_status train_trial_batch(struct train_trial *trial, struct train_batch *batch,
                                  struct ebb_error *err);

/* One repetition of a measurement: forward, loss, backward into kept gradients, no update. Every one
 * begins with the weights and buffers of the start and reads the same batch, which lies ready. */
struct train_repetition {
    uint64_t *op_ns; /* NULL, or room for every op of the trace: how long it took, the first time */
    double loss;
    uint64_t ns, device_ns, stall_ns; /* by the wall clock; of the device's compute stream; of that
                                         waiting for copies */
    uint64_t cpu_ns;                  /* of the process, all threads together */
    /* What it is made of, when options.measures (exec_report). */
    uint64_t first_ns, again_ns, search_ns, cost_ns, move_ns;
    uint64_t peak_bytes, evictions, remat_ops;
    uint64_t input_bytes; /* of the batch */
};
enum ebb_status train_trial_repeat(struct train_trial *trial, struct train_repetition *repetition,
                                   struct ebb_error *err);
/* What the plan of the step costs over that of all memory when ops take what a profile says. */
enum ebb_status train_trial_reprice(struct train_trial *trial, const char *profile,
                                    double *overhead, struct ebb_error *err);
/* What op_ns of a repetition says. */
void train_times_note(struct train_times *times, const struct trace *trace, const uint64_t *op_ns);
bool train_times_chosen(const struct train_times *times);  /* there are algorithms among them */
size_t train_times_count(const struct train_times *times); /* measurements so far */
/* Of those from `first` on: their sum; each times a factor. */
uint64_t train_times_total(const struct train_times *times, size_t first);
void train_times_scale(struct train_times *times, size_t first, double factor);
/* Tells which algorithms the trial's kernels chose (profile.h) or, where it measures, which are the fastest. A trial with such a
 * profile takes them: results have the bits of its algorithms. */
enum ebb_status train_trial_algorithms(struct train_trial *trial, bool measures,
                                       struct train_times *times, struct ebb_error *err);
/* SHA-256 over the kept gradients, as train_trial_hash over the weights. */
enum ebb_status train_trial_gradients(struct train_trial *trial, char text[65],
                                      struct ebb_error *err);

/* Whether the schedule has rates for so many updates; OneCycleLR ends. */
enum ebb_status train_trial_lasts(const struct train_trial *trial, int64_t updates,
                                  struct ebb_error *err);

/* Whether it can be saved after train_trial_batch failed: the data did, not the run. */
bool train_trial_is_whole(const struct train_trial *trial);

struct train_metric {
    const char *name; /* static */
    double value;
};
enum { TRAIN_METRICS = 6 };
struct train_metrics {
    struct train_metric items[TRAIN_METRICS];
    size_t count;
    int64_t records;
};
/* The whole validation split; `poll` (may be NULL) is asked between batches and may cancel.
 * EBB_EINPUT when there is no validation data. */
typedef enum ebb_status (*train_poll_fn)(void *context, struct ebb_error *err);
enum ebb_status train_trial_validate(struct train_trial *trial, train_poll_fn poll, void *context,
                                     struct train_metrics *metrics, struct ebb_error *err);
bool train_trial_has_validation(const struct train_trial *trial);
/* The loss in evaluation of inputs that are all ones, with classes drawn by the seed (those of
 * pixels are 1). EBB_EINPUT when there is no validation data. */
enum ebb_status train_trial_ones(struct train_trial *trial, double *loss, struct ebb_error *err);

/* Of the last validation of a trial that wants classes, for models that answer with them. */
struct train_confusion {
    int64_t classes;
    const uint64_t
        *counts; /* classes x classes: of row `wanted`, how many were answered `column` */
};
/* NULL: there is none. Borrowed until the next validation. */
const struct train_confusion *train_trial_confusion(const struct train_trial *trial);

struct train_state { /* where a trial stands, and what it cost so far */
    int64_t updates, batches, epoch, batches_per_epoch;
    uint64_t budget_bytes, floor_bytes, peak_bytes, unlimited_bytes, persistent_bytes;
    uint64_t evictions, remat_ops, swapped_bytes; /* of all updates */
    uint64_t host_ops;                            /* of all updates: that the host ran */
    int64_t run_updates;   /* of this process: those before a resume do not count */
    uint64_t stall_ns;     /* of the compute stream, waiting for copies, in these updates */
    uint64_t predicted_ns; /* of an update, with all its batches, by the costs that decisions use */
    const char *costs;     /* the profile of these costs; NULL: built in */
    const char
        *machine_costs;   /* this machine's, whether it decides or not; NULL: none was asked for */
    double machine_known; /* how much of the step's time it knows */
    double overhead;      /* predicted */
    uint64_t below_bytes; /* of state that lives below tier 0 */
    uint64_t warm_below_bytes; /* the same in an update with wishes.warmup_ratio; 0: none was */
    uint64_t plan_ns;          /* wall time of deciding how the programs run */
    const char *how;           /* policy or planner that decides */
    bool is_fallback;
    int threads;
    int64_t parameters;
    uint64_t update_ns;        /* median of the updates so far (at most the last 64) */
    uint64_t wait_ns, busy_ns; /* training: waiting for data, and everything */
    uint64_t reserve_bytes;    /* anonymous memory beyond tier 0 and host; 0 = unknown */
    /* A device with memory of its own: the most that it takes beside the budget, fixed before the first update, and
     * what it takes now, as its driver sees it; else 0. */
    uint64_t device_reserve_bytes, device_beside_bytes;
    /* With memory.with_async_mem_monitor: most anonymous memory, most that is accounted for, most
     * beyond it at one instant, and where that was. */
    uint64_t observed_bytes, accounted_bytes, beyond_bytes, samples;
    uint64_t allowed_bytes;   /* that may be beyond: memory.reserve */
    const char *reserve_file; /* reserve: auto: where it is remembered; else NULL */
    int64_t beyond_update;
    const char *beyond_op, *beyond_label; /* NULL: between runs */
    uint64_t buffer_bytes;                /* data held outside the budget: set, loader, staging */
    int64_t skipped;
    uint64_t bad_samples; /* data.bad_samples: skip: those that could not be read */
    double loss_scale;
};
/* What is said of the i-th of them; NULL: only the first few are named. */
const char *train_trial_bad_sample(const struct train_trial *trial, size_t i);
void train_trial_state(const struct train_trial *trial, struct train_state *state);
/* memory.reserve: auto: where more was seen beyond what is accounted for than the reserve, the next
 * start allows *next_bytes; 0: nothing is to be remembered. Nothing of this run changes. */
enum ebb_status train_trial_remember(struct train_trial *trial, uint64_t *next_bytes,
                                     struct ebb_error *err);
int64_t train_trial_updates(const struct train_trial *trial); /* as in the state, at no cost */
/* The floor of the training programs (computed when first asked for). */
enum ebb_status train_trial_floor(struct train_trial *trial, uint64_t *floor_bytes,
                                  struct ebb_error *err);
/* SHA-256 over all weights and buffers in the order of their names (bytes of strcmp): for each the
 * name, a zero byte, the number of bytes as 8 little-endian bytes, the bytes. 64 hex digits. */
enum ebb_status train_trial_hash(struct train_trial *trial, char text[65], struct ebb_error *err);
/* The main training program; borrowed until the trial is destroyed. */
const struct trace *train_trial_trace(const struct train_trial *trial);

/* ---- checkpoints ----------------------------------------------------------------------------- */

enum train_load {
    TRAIN_RESUME,  /* everything: goes on as if never interrupted */
    TRAIN_WEIGHTS, /* weights and buffers only */
};
/* Files into `dir` (exists): state/weights.safetensors, state/optimizer.safetensors,
 * state/train.json, and last manifest.json with bytes and sums of each. */
enum ebb_status train_trial_save(struct train_trial *trial, const char *dir, struct ebb_error *err);
/* EBB_ECORRUPT when a file is missing, torn or changed; EBB_EIO when one is there and cannot be read;
 * EBB_EINPUT when it belongs to another model or, with TRAIN_RESUME, to another thread count or
 * instruction set. The trial is untouched then. */
enum ebb_status train_trial_load(struct train_trial *trial, const char *dir, enum train_load kind,
                                 struct ebb_error *err);
/* Weights by name from files; every weight that is not fresh must be there with its shape, and no
 * other. *list (may be NULL) gets a line for everything that does not fit. */
enum ebb_status train_trial_import(struct train_trial *trial, const struct train_init *init,
                                   struct ebb_str *list, struct ebb_error *err);

/* All weights and buffers as one safetensors file; with opt.ema the averages of the weights, which
 * are what validation measures. */
enum ebb_status train_trial_export(struct train_trial *trial, const char *path,
                                   struct ebb_error *err);

/* Tells a metric of a validation: is it the best so far? How many have been told since the best one
 * is train_trial_since_best. Both are part of a checkpoint. NaN is never the best. */
enum train_watch {
    TRAIN_WATCH_BEST,  /* which checkpoint is the best */
    TRAIN_WATCH_EARLY, /* whether training ends */
    TRAIN_WATCHES
};
bool train_trial_watch(struct train_trial *trial, enum train_watch which, double metric,
                       bool smaller_is_better);
int64_t train_trial_since_best(const struct train_trial *trial, enum train_watch which);

/* A folder of checkpoints "update-<batches>", newest last, all of one run (its id is in their
 * train.json). Saving is atomic, keeps the newest two, and refuses a folder of another run. */
enum ebb_status train_store_save(struct train_trial *trial, const char *folder,
                                 struct ebb_error *err);
/* The same as "best", in the place of the one before; train_store_load does not look at it. */
enum ebb_status train_store_save_best(struct train_trial *trial, const char *folder,
                                      struct ebb_error *err);
/* Load the newest one that is whole. *note (may be empty) tells about those passed over. When there
 * is none: EBB_OK and *found false. */
enum ebb_status train_store_load(struct train_trial *trial, const char *folder, bool *found,
                                 struct ebb_str *note, struct ebb_error *err);
/* One training at a time writes to a folder: made if it is not there, locked until unlocked (or the
 * process ends). EBB_EINPUT: another one has it. */
enum ebb_status train_store_lock(const char *folder, int *lock, struct ebb_error *err);
void train_store_unlock(int lock); /* -1: nothing */
/* Whether this trial may save there, for those who ask before they train; the folder is locked.
 * EBB_EINPUT: there are checkpoints of another run, or of updates that this one has yet to do. What
 * writers left that were killed is removed. */
enum ebb_status train_store_claim(const struct train_trial *trial, const char *folder,
                                  struct ebb_error *err);
/* The checkpoint that a path means: the folder itself, or the newest whole one of those in it. Left
 * empty: neither; the path is one of weights. */
enum ebb_status train_store_find(const char *path, struct ebb_str *dir, struct ebb_error *err);
/* Threads recorded in the newest whole checkpoint, 0 when there is none. */
int train_store_threads(const char *folder);

/* ---- what memory goes where ------------------------------------------------------------------ */

/* A dry trial whose step is this trace, for those who look at it: what follows, train_trial_floor
 * and train_trial_state. Of `memory` budget, tiers, links and policy are read. EBB_EBUDGET: below
 * the floor. A leaf that is kept at the end counts as a weight, or as optimizer state where only
 * updates read it. */
enum ebb_status train_trial_of_trace(struct train_trial **trial, struct trace *take_trace,
                                     const struct train_config *memory, struct ebb_error *err);

enum train_kind {
    TRAIN_KIND_WEIGHTS, /* and buffers */
    TRAIN_KIND_STATES,  /* of the optimizer; kept gradients too */
    TRAIN_KIND_INPUTS,
    TRAIN_KIND_ACTIVATIONS, /* made by the forward pass */
    TRAIN_KIND_GRADIENTS,   /* made by the backward pass and the update */
    TRAIN_KIND_WORKSPACE,
    TRAIN_KINDS
};
extern const char *const train_kind_names[TRAIN_KINDS];

struct train_layer { /* what one layer has in memory at the peak */
    const char *name;
    uint64_t kinds[TRAIN_KINDS], bytes;
};

struct train_moment { /* one op of the step */
    uint64_t kinds[TRAIN_KINDS];
};

/* Bytes of a training step that keeps everything, in units of 256. All in the arena. */
struct train_explained {
    uint64_t kinds[TRAIN_KINDS], peak_bytes; /* at the peak */
    uint32_t peak_op;
    const char *peak_name, *peak_layer;
    enum trace_phase peak_phase;
    struct train_layer *layers; /* largest first */
    size_t layer_count;
    struct train_moment *moments; /* per op of the trace */
    size_t moment_count;
    uint64_t batch_bytes; /* of the peak: grows with the batch */
};
enum ebb_status train_trial_explain(const struct train_trial *trial, struct ebb_arena *arena,
                                    struct train_explained *explained, struct ebb_error *err);

enum { TRAIN_TIERS = 3 }; /* tier 0, host, file */

/* The step as its budget makes it: every run of an op that is no leaf, in the order of the plan. */
struct train_run {
    uint64_t kinds[TRAIN_KINDS]; /* in tier 0 */
    uint64_t away_bytes;         /* evicted, and wanted again */
    /* Per lower tier: copies that lie there, what lives there included; what went there and came
     * from there so far. */
    uint64_t below_bytes[TRAIN_TIERS], sent_bytes[TRAIN_TIERS], fetched_bytes[TRAIN_TIERS];
    uint32_t op;
    bool is_again;
};
struct train_managed {
    struct train_run *runs; /* in the arena */
    size_t count;
    size_t *evictions, *copies; /* so far, at each run; copies to and from lower tiers */
    uint64_t peak_bytes;
    size_t again;
    const char *how;
};
/* By the plan of the training program, of a trial that was made with a budget. */
enum ebb_status train_trial_managed(const struct train_trial *trial, struct ebb_arena *arena,
                                    struct train_managed *managed, struct ebb_error *err);

/* "columns" and "timeline": the same over the runs of a step in its budget, a row for each of at most
 * 240 groups of runs: where the group holds most in tier 0. Members of the object that w is in. */
void train_managed_write(const struct train_managed *managed, struct ebb_json_writer *w);

/* "timeline": bytes by kind over the step, a row [op, kinds...] for each of at most 240 groups of
 * ops that compute: where the group holds most. A member of the object that w is in. */
void train_timeline_write(const struct train_trial *trial, const struct train_explained *explained,
                          struct ebb_json_writer *w);

struct train_prediction { /* of an update, before it runs */
    bool is_ok;           /* false: below the floor, or the policy finds no way */
    double overhead;      /* time over time without limit */
    uint64_t ns;          /* of its main program, by the costs that decisions use */
    uint64_t peak_bytes;
    uint64_t stall_ns, swapped_bytes; /* waiting for copies, and how much is copied */
};
/* In another budget, under a policy or planner; NULL: what training does when none is asked for. */
enum ebb_status train_trial_predict(struct train_trial *trial, uint64_t budget_bytes,
                                    const char *policy, struct train_prediction *prediction,
                                    struct ebb_error *err);

/* Ops that no row of the profile knows: their time is that of a fit. By kind, dearest first; at most `room`. *all_ns: the time of all ops. */
struct train_fitted {
    const char *kind;
    uint32_t count;
    uint64_t ns;
};
size_t train_trial_fitted(const struct train_trial *trial, struct train_fitted *list, size_t room,
                          uint64_t *all_ns);

/* "cuda", or a kind of GPU that need not be here ("nvidia-h200"). */
bool train_is_gpu(const char *device);
/* Kernels of a device that need not be there: they answer what they need and take, and run nothing. *profile is what they answer
 * by; both are the caller's (ops_backend_destroy first). costs: path of a profile; NULL: the device's own. */
enum ebb_status train_device_answers(const char *device, const char *costs, int threads,
                                     void **backend, struct profile **profile,
                                     struct ebb_error *err);

/* The training step of a file as a trace, without data files, memory or kernels. */
enum ebb_status train_trace_from_config(const struct train_config *config, struct trace **trace,
                                        struct ebb_error *err);

/* ---- metrics in files ------------------------------------------------------------------------ */

struct train_events; /* a TensorBoard event file */
enum ebb_status train_events_open(struct train_events **events, const char *folder,
                                  struct ebb_error *err);
enum ebb_status train_events_scalar(struct train_events *events, const char *tag, int64_t step,
                                    double value, struct ebb_error *err);
/* As of a given time (Unix seconds) instead of now. */
enum ebb_status train_events_scalar_at(struct train_events *events, const char *tag, int64_t step,
                                       double value, double time, struct ebb_error *err);
enum ebb_status train_events_flush(struct train_events *events, struct ebb_error *err);
/* Of the file, with what was not flushed. */
int64_t train_events_bytes(const struct train_events *events);
enum ebb_status train_events_close(struct train_events *events, struct ebb_error *err);

/* ---- worker ---------------------------------------------------------------------------------- */

/* Trials for `ebb worker`, one per task; NULL: unknown task. No task: that of an ONNX file. */
const struct worker_trial *train_worker(const char *task);

#endif
