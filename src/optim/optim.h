/* optim.h - optimizers and learning-rate schedules by their torch names, loss scaling, clipping.
 *
 * An optimizer is a description (optim_config), a little state that counts (optim_count) and, per
 * parameter, state tensors. The update itself is one mutating op that reads what changes by step
 * from a tensor of OPS_UPDATE_SCALARS floats; so a step's trace never changes. Scalars are computed
 * in double and rounded once.
 *
 * A schedule is a function of the number of steps taken; only ReduceLROnPlateau has state of its
 * own. */
#ifndef EBB_OPTIM_OPTIM_H
#define EBB_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/doc.h"
#include "base/keys.h"
#include "base/status.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

struct optim_config {
    const char *name; /* torch's spelling */
    enum ops_update_kind kind;
    double lr, momentum, dampening, weight_decay, eps, alpha, rho, lr_decay, initial, eeta,
        momentum_decay, beta1, beta2;
    bool nesterov, amsgrad, centered, maximize, bias_correction, adam, lars, is_decoupled;
};

/* Name in any case; map (may be NULL) holds the arguments, `also` names keys of it that others read
 * (base/keys.h). False: mistakes were reported. */
bool optim_read(struct ebb_reading *reading, const struct ebb_path *path, const char *name,
                const struct ebb_doc_node *map, const char *also, struct optim_config *config);
/* The same in a reading of its own: err gets the first mistake. `name` and `decay` may stand beside
 * the arguments, as in a file. */
enum ebb_status optim_parse(const char *name, const struct ebb_doc_node *args,
                            struct optim_config *config, struct ebb_error *err);
const char *optim_name(size_t i); /* NULL past the end */

unsigned optim_flags(const struct optim_config *config);
size_t optim_state_count(const struct optim_config *config);
const char *optim_state_name(const struct optim_config *config, size_t i); /* torch's */
float optim_state_initial(const struct optim_config *config, size_t i);

struct optim_count { /* saved in checkpoints; zero at the start */
    int64_t steps;
    double mu_product; /* NAdam */
};
/* The next step begins: counts it, and gives its scalars for learning rate lr. */
void optim_step(const struct optim_config *config, struct optim_count *count, double lr,
                float scalars[OPS_UPDATE_SCALARS]);
/* As optim_step with another momentum (schedules that cycle it): SGD's momentum or Adam's beta1. */
void optim_set_momentum(struct optim_config *config, double momentum);
/* A schedule will cycle the momentum, beginning with this: where the optimizer has one, it is used
 * from the start (as torch does it). False: it has none. */
bool optim_cycle_momentum(struct optim_config *config, double momentum);

/* Clip by global norm: coefficient = min(1, max_norm / (norm + 1e-6)); gradients are replaced in
 * place in the array; *norm (may be NULL) is the norm before. */
void optim_clip(struct tensor_session *s, tensor_id *gradients, size_t count, double max_norm,
                tensor_id *norm);

/* ---- schedules ------------------------------------------------------------------------------- */

struct optim_schedule;

/* As optim_read and optim_parse; NULL: mistakes were reported. base_lr is also the default of the
 * arguments base_lr and lr where a schedule has them. */
struct optim_schedule *optim_schedule_read(struct ebb_reading *reading, const struct ebb_path *path,
                                           const char *name, const struct ebb_doc_node *map,
                                           const char *also, double base_lr);
/* `name` and `interval` may stand beside the arguments. */
enum ebb_status optim_schedule_create(struct optim_schedule **schedule, const char *name,
                                      const struct ebb_doc_node *args, double base_lr,
                                      struct ebb_error *err);
void optim_schedule_destroy(struct optim_schedule *schedule);
const char *optim_schedule_name(size_t i); /* NULL past the end */
/* Rate used for step t = 0, 1, ...; past the end of OneCycleLR (also as a part): an error.
 * ReduceLROnPlateau ignores t. */
enum ebb_status optim_schedule_rate(const struct optim_schedule *schedule, int64_t t, double *lr,
                                    struct ebb_error *err);
/* Momentum for step t where the schedule cycles it, else false. */
bool optim_schedule_momentum(const struct optim_schedule *schedule, int64_t t, double *momentum);
/* ReduceLROnPlateau: the metric of one period. Others ignore it. */
void optim_schedule_metric(struct optim_schedule *schedule, double metric);

/* ---- loss scaling ---------------------------------------------------------------------------- */

struct optim_scaler {
    double scale, growth, backoff, min_scale;
    int64_t interval;                 /* steps without overflow before growing */
    int64_t streak;                   /* grad scaler */
    int64_t iteration, last_overflow; /* dynamic */
    int64_t delayed_shift, hysteresis;
    bool is_dynamic, consecutive_hysteresis;
};
void optim_scaler_grad(struct optim_scaler *scaler);    /* torch's GradScaler, defaults */
void optim_scaler_dynamic(struct optim_scaler *scaler); /* PatrickStar's rule, defaults */
/* After a step: true when the optimizer step must be skipped. */
bool optim_scaler_update(struct optim_scaler *scaler, bool found_inf);

#endif
