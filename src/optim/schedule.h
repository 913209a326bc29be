/* schedule.h - private: a schedule, the rows that tell its kinds apart, and those of benchmarks. */
#ifndef EBB_OPTIM_SCHEDULE_H
#define EBB_OPTIM_SCHEDULE_H

#include <math.h>

#include "optim/args.h"
#include "optim/optim.h"

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
    bool cycle_momentum, three_phase;
    const char *anneal_strategy, *mode, *threshold_mode, *scaling;
    const struct ebb_doc_node *milestones, *schedulers, *decay_schedule;
};

struct optim_schedule {
    const struct optim_schedule_row *row;
    double base;
    struct optim_schedule_args a;
    double points[MAX_POINTS], values[MAX_POINTS]; /* milestones, or decay steps and factors */
    size_t point_count;
    struct optim_schedule *parts[MAX_PARTS]; /* owned */
    size_t part_count;
    bool is_linear, is_max, is_absolute; /* what the texts say */
    int scale_rule, cycle_rule;
    double rate, best; /* plateau */
    int64_t bad, cooling;
};

struct optim_schedule_row {
    const char *name;
    const struct optim_arg *args;
    enum ebb_status (*prepare)(struct optim_schedule *s, struct ebb_error *err);
    double (*rate)(const struct optim_schedule *s, double t);
    double (*momentum)(const struct optim_schedule *s, double t);
};

static inline double optim_cosine(double low, double high, double part)
{
    return low + (high - low) * (1 + cos(M_PI * part)) / 2;
}

/* Of benchmarks (schedule_bench.c). */
enum ebb_status optim_cosmo_prepare(struct optim_schedule *s, struct ebb_error *err);
double optim_cosmo_rate(const struct optim_schedule *s, double t);
double optim_deepcam_cosine_rate(const struct optim_schedule *s, double t);
double optim_deepcam_multistep_rate(const struct optim_schedule *s, double t);
double optim_bert_rate(const struct optim_schedule *s, double t0);
double optim_gpt_cosine_rate(const struct optim_schedule *s, double t);
double optim_gpt_linear_rate(const struct optim_schedule *s, double t);
double optim_gpt_wsd_rate(const struct optim_schedule *s, double t);
enum ebb_status optim_gpt_prepare(struct optim_schedule *s, struct ebb_error *err);

#endif
