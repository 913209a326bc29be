/* bench.h - private to train: the inside of the reader of benchmark files (bench.c), their
 * schedules (bench_rate.c) and the files of other machines (bench_face.c). */
#ifndef EBB_TRAIN_BENCH_H
#define EBB_TRAIN_BENCH_H

#include "base/keys.h"
#include "train/internal.h"

struct train_bench_read;

struct train_bench_row {
    const char *name, *space; /* space: of its log lines */
    const char *model, *task;
    const char *optimizers;    /* words: those allowed */
    const char *schedule_keys; /* words: those of its own schedule */
    const char *types;         /* words of lr_schedule.type; NULL: it has none */
    /* Says the values of its schedule as a schedule of the table; `type` is one of the words. */
    void (*schedule)(struct train_bench_read *read, const char *type, struct ebb_doc_node *out);
    const struct train_bench_goal *goal;
    uint64_t seed, cap;
    int64_t eval_every, tell_every;
    bool sampler_drop_last, is_per_epoch;
    double clip;      /* norm of gradients, unless the file has another; 0: none */
    const char *eps;  /* of its optimizers, unless the file has another */
    const char *loss; /* section, as a file would say it; NULL: the model's own */
};

struct train_bench_rate { /* keys of lr_schedule */
    double base_lr, end_lr, poly_power, lr_warmup_factor, decay_rate, eta_min, degree, final_frac;
    int64_t decay_steps, lr_warmup_steps, milestones, t_max, total_steps, start_warmup_step,
        n_warmup_epochs, base_batch_size;
    unsigned scaling;
    const struct ebb_doc_node *decay_schedule;
};

struct train_bench_values { /* what the file says */
    const char *benchmark, *device;
    int64_t global_batch, local_batch, accumulation, epochs, steps, eval_batch, log_every;
    bool drop_last, takes_inexact, carries, amp, searches_kernels, offload;
    unsigned by; /* enum train_accumulation */
    double targets[5];
    int64_t eval_every, seed, devices, tp, pp, zero;
    unsigned precision;
    struct train_bench_rate schedule;
};

struct train_bench_read { /* a reading */
    struct ebb_reading reading;
    const struct ebb_doc_node *root;
    const struct train_bench_row *row;
    struct train_bench_values values;
    struct train_bench *bench;
    uint64_t devices, seed;
    const char *device; /* NULL: not said */
    bool is_cuda, has_config, is_face;
    double clip;
};

/* A copy of a mapping (NULL: empty) without some keys; places stay. */
struct ebb_doc_node *train_bench_copy(struct train_bench_read *read, const struct ebb_doc_node *map,
                                      const char *without);

/* bench_rate.c: the section lr_schedule of an experiment file; NULL: a constant rate, or mistakes. */
const struct ebb_doc_node *train_bench_schedule(struct train_bench_read *read);
void train_bench_resnet(struct train_bench_read *, const char *type, struct ebb_doc_node *out);
void train_bench_deepcam(struct train_bench_read *, const char *type, struct ebb_doc_node *out);
void train_bench_cosmoflow(struct train_bench_read *, const char *type, struct ebb_doc_node *out);
void train_bench_bert(struct train_bench_read *, const char *type, struct ebb_doc_node *out);
void train_bench_gpt(struct train_bench_read *, const char *type, struct ebb_doc_node *out);

/* bench_face.c: params.yaml of the Cerebras variants becomes the usual sections. */
void train_bench_face(struct train_bench_read *read);

#endif
