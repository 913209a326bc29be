/* trial.h - private to train: the inside of a trial. */
#ifndef EBB_TRAIN_TRIAL_H
#define EBB_TRAIN_TRIAL_H

#include <pthread.h>

#include "train/monitor.h"
#include "train/step.h"

enum {
    TRAIN_TIMES = 64,    /* updates whose time is remembered */
    TRAIN_MADE_CHECK = 8 /* validation batches of models that generate their inputs */
};
/* Number of the first generated batch of the validation: far from those of training. */
#define TRAIN_MADE_FIRST (INT64_C(1) << 40)

#define TRAIN_RUN_UNNAMED "-" /* of checkpoints from before runs had names */

/* The next batch, loaded by a thread of its own while a device runs this one (feed.c). The loader is
 * that thread's as long as it is under way: its position and figures are those from before. */
struct train_ahead {
    pthread_t thread;
    bool is_under_way;
    struct data_position position;
    struct data_stats stats;
    struct data_batch batch;
    enum ebb_status status;
    struct ebb_error error;
};

struct train_trial {
    struct ebb_arena arena;
    struct train_halves *halves; /* a piece of a slot on its way (slots.c) */
    struct train_config config;  /* its pointers live in the caller's arena */
    struct train_options options;
    struct nn_config net; /* adapted */
    struct data_set *set; /* NULL: everything is generated */
    struct data_loader *loader;
    const struct data_info *info;
    void *fields[DATA_MAX_FIELDS]; /* staging of one batch; NULL: field is not used */
    void *spare[DATA_MAX_FIELDS];  /* of the one that is loaded ahead; NULL: none is */
    struct train_ahead ahead;
    uint64_t staging_bytes;
    unsigned byte_inputs; /* bit i: input i comes as bytes and becomes numbers in the step */
    int input_fields[NN_PORTS], target_fields[NN_PORTS]; /* -1: generated, or zeros */
    struct profile *costs;                               /* NULL: what is built in */
    const char *machine_costs; /* where it is that of this machine: its file; else NULL */
    double machine_known;      /* and how much of the step's time it knows */
    struct train_engine *engine;
    struct train_step main, apply; /* STEP, or MICRO and APPLY */
    struct train_step tail;        /* as main, for the last batch of an epoch */
    int64_t tail_batch;            /* its samples; 0: whole batches only */
    struct train_step eval, rest;  /* whole validation batches, and the last one */
    bool has_apply, has_eval, has_rest;
    bool has_gradients, is_scaled;
    bool is_warm;        /* wishes.warmup_ratio holds until an update is done */
    uint64_t warm_bytes; /* of state below tier 0 in that one */
    bool is_torn;        /* a run failed: the weights are those of no update */
    float class_weights[TRAIN_MAX_WEIGHTS];
    struct optim_schedule *schedule; /* NULL: constant */
    struct optim_schedule
        *group_schedules[TRAIN_GROUPS]; /* of groups with a rate; NULL: as above */
    struct optim_count count;
    struct optim_scaler scaler;
    int64_t updates, batches, epoch, epoch_batches, skipped;
    uint64_t validation_count;
    char run[17];    /* of its folder of checkpoints (store.c); "": never kept in one */
    bool has_folder; /* which is known to be its own */
    struct train_confusion confusion; /* of the last validation, when classes are wanted */
    uint64_t *confusion_counts;       /* its own */
    struct {                          /* validations that were told */
        double best;
        int64_t since;
        bool has_best;
    } watches[TRAIN_WATCHES];
    /* schedules that look at metrics: what they were told, for checkpoints */
    double *history;
    size_t history_count, history_capacity;
    /* reports */
    struct exec_report total;
    struct train_monitor *monitor; /* NULL: nobody asked */
    uint64_t allowed_bytes;        /* beyond what is accounted for: memory.reserve */
    const char *reserve_file;      /* reserve: auto: where it is remembered (reserve.c) */
    uint64_t times[TRAIN_TIMES], update_ns;
    size_t time_count;
    uint64_t wait_ns, busy_ns;
    uint64_t floor_bytes, plan_ns;
    /* is_repeated: batches that were made, inputs then targets; values that a step changes */
    void *made[2 * NN_PORTS];
    void **begun;             /* per slot; NULL: a step leaves it alone */
    struct ebb_error refusal; /* of the program with the largest floor; status EBB_OK: none */
};

/* Batches whose gradients are kept when so many are done; below those of an update. */
static inline int64_t train_kept(const struct train_trial *t, int64_t batches)
{
    if (t->config.drops_leftover && t->epoch_batches)
        batches %= t->epoch_batches;
    return batches % t->config.accumulate;
}

/* ---- data (feed.c) ---- */

enum ebb_status train_open_data(struct train_trial *trial, struct ebb_error *err);
/* Before the programs: how many samples the last batch of an epoch has depends on it. */
enum ebb_status train_open_loader(struct train_trial *trial, struct ebb_error *err);
/* After them: room for the fields that they read. */
enum ebb_status train_stage(struct train_trial *trial, struct ebb_error *err);
void train_unstage(struct train_trial *trial); /* before the engine goes */
/* The next batch of the loader, in the trial's fields. */
enum ebb_status train_next_batch(struct train_trial *trial, struct data_batch *batch,
                                 struct ebb_error *err);
/* Where the next batch comes from, and the loader's figures, whatever is loaded ahead. */
void train_position(const struct train_trial *trial, struct data_position *position);
void train_loader_stats(const struct train_trial *trial, struct data_stats *stats);
/* What is loaded ahead is waited for and forgotten: before the loader is moved or goes. */
void train_recall(struct train_trial *trial);

/* The profile of this machine (machine.c): read, if it may decide; once the step is recorded, gone by
 * or not. */
enum ebb_status train_machine_recall(struct train_trial *trial, struct ebb_error *err);
void train_machine_judge(struct train_trial *trial);
/* On which the bits of a processor depend: the set, and what its library is held to (checkpoint.c). */
#define TRAIN_INSTRUCTIONS 64
void train_instruction_set(char *text, size_t size);

/* What may be beyond, from the file or as an earlier start remembered it (reserve.c). */
enum ebb_status train_reserve_recall(struct train_trial *trial, struct ebb_error *err);

/* What fill and read work on during one run. */
struct train_pass {
    struct train_trial *trial;
    const struct train_step *step; /* program */
    int64_t number;                /* of the batch: dropout masks, generated inputs */
    float scalars[1 + TRAIN_GROUPS][OPS_UPDATE_SCALARS]; /* of the section, of each group */
    float average[OPS_UPDATE_SCALARS];                   /* of opt.ema */
    float bare[1 + TRAIN_GROUPS][OPS_UPDATE_SCALARS];    /* the same without weight decay */
    float scale;
    bool is_ones; /* train_trial_ones */
    double loss, part, norm;
    double metrics[NN_PORTS];
    bool measures;   /* exec_io */
    uint64_t *op_ns; /* NULL, or told every op (train_repetition) */
    void (*answer)(void *context, const struct train_step *step, const void *bytes);
    void *answer_context;
};
enum ebb_status train_pass_run(struct train_pass *pass, struct exec_report *report,
                               struct ebb_error *err);
/* Scalars of a pass that adds to the kept gradients. */
void train_pass_accumulates(struct train_pass *pass);
/* The values of a slot as its view says, in pieces; fails as the reader does, or the device. Slots
 * of all programs are the same list. */
enum ebb_status train_slot_read(struct train_trial *trial, size_t slot, tensor_sink *reader,
                                void *context, struct ebb_error *err);
enum ebb_status train_slot_copy(struct train_trial *trial, size_t slot, void *to,
                                struct ebb_error *err); /* all of them at once */
enum ebb_status train_slot_write(struct train_trial *trial, size_t slot, const void *values,
                                 struct ebb_error *err);
/* Elements first .. first + count - 1 of it. */
enum ebb_status train_slot_write_part(struct train_trial *trial, size_t slot, uint64_t first,
                                      uint64_t count, const void *values, struct ebb_error *err);
/* Weights as the model begins; states at their initial values. */
enum ebb_status train_slots_begin(struct train_trial *trial, struct ebb_error *err);
/* With opt.ema: the averages begin as the weights are; weights and averages change places. */
enum ebb_status train_begin_averages(struct train_trial *trial, struct ebb_error *err);
enum ebb_status train_swap_averages(struct train_trial *trial, struct ebb_error *err);
enum ebb_status train_tell_metric(struct train_trial *trial, double metric, struct ebb_error *err);
/* Kept gradients begin at zero. */
enum ebb_status train_clear_gradients(struct train_trial *trial, struct ebb_error *err);
/* EBB_ECORRUPT: files, sizes or sums are not those of the manifest; EBB_EIO: one cannot be read. */
enum ebb_status train_checkpoint_prove(struct ebb_arena *arena, const char *dir,
                                       struct ebb_error *err);
/* Budget and host as parts of the machine, where they were asked for so. */
void train_take_ratios(struct train_config *config, uint64_t machine_bytes);
uint64_t train_machine_bytes(uint64_t known); /* 0: not known, then what is installed */
/* What the section `memory` asks of an engine. */
struct train_engine_options train_engine_asked(const struct train_config *config);
/* Bytes that plans, tiers and buffers have. */
uint64_t train_accounted_bytes(const struct train_trial *trial);

#endif
