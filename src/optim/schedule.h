/* schedule.h - private: a schedule, the rows that tell its kinds apart, and those of benchmarks. */
#ifndef EBB_OPTIM_SCHEDULE_H
#define EBB_OPTIM_SCHEDULE_H

#include <math.h>

#include "optim/internal.h"

#define MAX_PARTS 8
#define MAX_POINTS 64
#define MAX_STEPS 1e15 /* exact in a double */

struct optim_schedule_args {
    double gamma, eta_min, start_factor, end_factor, factor, power, max_lr, pct_start,
        base_momentum, max_momentum, div_factor, final_div_factor, base_lr, threshold, min_lr, eps,
        decay_rate, lr_warmup_factor, end_lr, degree, lr, final_frac;
    int64_t step_size, T_max, T_0, T_mult, total_iters, total_steps, epochs, steps_per_epoch,
        step_size_up, step_size_down, patience, cooldown, n_warmup_epochs, lr_warmup_steps, t_max,
        milestone, start_warmup_steps, warmup_steps, warmup, total, global_batch_size,
        base_batch_size;
    int64_t milestones[MAX_POINTS];
    size_t milestone_count, scheduler_count;
    bool cycle_momentum, three_phase;
    unsigned anneal, cycle, metric, threshold_kind, scaling;           /* the enums below */
    const struct ebb_doc_node *schedulers[MAX_PARTS], *decay_schedule; /* only while it is read */
};
/* In the order of the words that stand for them. */
enum { OPTIM_ANNEAL_COS, OPTIM_ANNEAL_LINEAR };
enum { OPTIM_TRIANGULAR, OPTIM_TRIANGULAR2, OPTIM_EXP_RANGE };
enum { OPTIM_METRIC_MIN, OPTIM_METRIC_MAX };
enum { OPTIM_THRESHOLD_REL, OPTIM_THRESHOLD_ABS };
enum { OPTIM_SCALING_NONE, OPTIM_SCALING_LINEAR, OPTIM_SCALING_SQRT };

struct optim_schedule {
    const struct optim_schedule_row *row;
    double base;
    struct optim_schedule_args a;
    double points[MAX_POINTS], values[MAX_POINTS]; /* CosmoFlow: decay steps and factors */
    size_t point_count;
    struct optim_schedule *parts[MAX_PARTS]; /* owned */
    size_t part_count;
    double rate, best; /* plateau */
    int64_t bad, cooling;
};

struct optim_place { /* where the arguments stand */
    struct ebb_reading *reading;
    const struct ebb_path *path;
    const struct ebb_doc_node *map;
};

struct optim_schedule_row {
    const char *name;
    struct ebb_keys keys;
    /* Rules between arguments, reported; NULL: none. */
    void (*prepare)(struct optim_schedule *s, const struct optim_place *place);
    double (*rate)(const struct optim_schedule *s, double t);
    double (*momentum)(const struct optim_schedule *s, double t);
};

static inline double optim_cosine(double low, double high, double part)
{
    return low + (high - low) * (1 + cos(M_PI * part)) / 2;
}

/* Of benchmarks (schedule_bench.c). */
void optim_cosmo_prepare(struct optim_schedule *s, const struct optim_place *place);
double optim_cosmo_rate(const struct optim_schedule *s, double t);
double optim_deepcam_cosine_rate(const struct optim_schedule *s, double t);
double optim_deepcam_multistep_rate(const struct optim_schedule *s, double t);
double optim_bert_rate(const struct optim_schedule *s, double t0);
double optim_gpt_cosine_rate(const struct optim_schedule *s, double t);
double optim_gpt_linear_rate(const struct optim_schedule *s, double t);
double optim_gpt_wsd_rate(const struct optim_schedule *s, double t);
void optim_gpt_prepare(struct optim_schedule *s, const struct optim_place *place);

#endif
