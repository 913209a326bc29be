/* engine.h - private to train: one device, one budget, and the programs that run in it.
 *
 * A *program* is a trace made ready to run many times: a training update, a micro-batch, an
 * evaluation batch. All programs of an engine share their *persistent* storages: leaves that are
 * kept at the end of the trace (weights, buffers, optimizer state). They lie at the bottom of the
 * slab, in order of creation, at the same addresses in every program, and survive from run to run;
 * or, where that is faster or there is no room, they have homes in a lower tier (plan.h), chosen with
 * the first program and the same in all.
 * So every program must declare the same persistent leaves in the same order (train_engine_add
 * checks names and sizes); one that does not need some of them declares and keeps them all the
 * same.
 *
 * How a program runs is decided when it is added, never while it runs: a policy's decisions are a
 * function of the trace, so they are taken once on the null device, written down as a plan, proved
 * by plan_check, and bound to the slab. A policy that fails at a budget above the floor falls back
 * to planner `floor`, which also competes when nobody asked for a policy: the cheaper one runs. A
 * budget below the floor is refused, naming it. Equal signatures share a
 * plan.
 *
 * Step inputs (leaves that are not kept: a batch, step scalars) are filled by a callback straight
 * into the slab; kept results that are no leaves (loss, metrics) are handed to a callback when the
 * run is done. Nothing else of a step outlives it. */
#ifndef EBB_TRAIN_ENGINE_H
#define EBB_TRAIN_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "exec/exec.h"
#include "kernel/kernel.h"
#include "profile/profile.h"
#include "train/train.h"
#include "trace/trace.h"

struct train_engine;
struct train_program;

struct train_engine_options {
    uint64_t budget_bytes; /* tier 0; UINT64_MAX = unlimited: what the programs need */
    uint64_t host_bytes, file_bytes;
    struct train_link link;
    struct train_wishes wishes;
    const char *file_path; /* folder for the file tier; NULL: the system's temporary folder */
    const char *policy; /* name of a policy or planner; NULL: none when unlimited, else the cheaper
                           of dtr_eq and floor */
    const char *rewrites;        /* ops_rewrites_parse */
    const char *device;          /* name; NULL: cpu */
    const struct profile *costs; /* of ops and links; NULL: what is built in; borrowed */
    int threads;                 /* of kernels; 0: all cores this process may use */
    uint64_t seed;               /* policies that draw */
    bool is_dry;                 /* null device: plans and reports only, no memory, no kernels */
    bool is_online; /* policies decide while running instead of by a plan made before */
    bool samples, ignores_small; /* policies: exec_options */
};

enum ebb_status train_engine_create(struct train_engine **engine,
                                    const struct train_engine_options *options,
                                    struct ebb_error *err);
void train_engine_destroy(struct train_engine *engine);
/* For tensor_session_create: kernels choose workspaces with it. */
void *train_engine_backend(const struct train_engine *engine);
int train_engine_threads(const struct train_engine *engine);
/* What results depend on besides: "cpu", or the kind of another device. */
const char *train_engine_bits(const struct train_engine *engine);
/* What its plans go by. */
const struct profile *train_engine_costs(const struct train_engine *engine);
/* From now on; of a processor, before the first program is added. Borrowed. */
void train_engine_go_by(struct train_engine *engine, const struct profile *costs);
/* More of it (kernel_table.identity): "" where the name says all. */
const char *train_engine_identity(const struct train_engine *engine);
/* kernel_table.algorithms of its kernels; nothing where there are none. */
enum ebb_status train_engine_algorithms(struct train_engine *engine, bool measures,
                                        kernel_row_sink *add, void *to, struct ebb_error *err);
/* Whether steps run where the host cannot reach: it has nothing to do meanwhile. */
bool train_engine_is_hidden(const struct train_engine *engine);
/* Memory from which such a device copies by itself (exec_io.lend); given back before the engine goes. */
void *train_engine_host_take(struct train_engine *engine, uint64_t bytes); /* NULL: none left */
void train_engine_host_give(struct train_engine *engine, void *host);

struct train_program_info {
    uint64_t persistent_bytes,
        floor_bytes;           /* floor: 0 until asked for (train_engine_floor) or needed */
    uint64_t unlimited_bytes;  /* packed height when nothing is ever evicted */
    uint64_t peak_bytes;       /* of the plan: highest address */
    double overhead;           /* predicted: time over time without limit */
    char how[32];              /* policy or planner that made the plan */
    bool is_fallback;          /* the one asked for failed in its dry run */
    struct exec_report report; /* of the dry run */
};

/* Takes over the trace. EBB_EBUDGET: refused; the message names the floor. Others may be added all
 * the same: the engine remembers the largest floor of those it refused. */
enum ebb_status train_engine_add(struct train_engine *engine, struct trace *trace,
                                 struct train_program **program, struct ebb_error *err);
uint64_t train_engine_needed(const struct train_engine *engine); /* 0: nothing was refused */
const struct train_program_info *train_program_info(const struct train_program *program);
const struct trace *train_program_trace(const struct train_program *program);
/* As tier 0 sees it: tables that live in host memory have no bytes. */
const struct trace *train_program_near(const struct train_program *program);
const struct plan *train_program_plan(const struct train_program *program); /* borrowed */
enum ebb_status train_engine_floor(struct train_engine *engine, struct train_program *program,
                                   uint64_t *floor_bytes, struct ebb_error *err);

/* What the program would do in another budget under a policy or planner (NULL: what training does
 * without one); the tiers are the engine's. EBB_EBUDGET: below the floor, or the policy fails. */
enum ebb_status train_engine_predict(struct train_engine *engine, struct train_program *program,
                                     uint64_t budget_bytes, const char *policy,
                                     struct train_program_info *info, struct ebb_error *err);

/* How much slower than without limit the plan of the program is when ops take what the profile says. */
enum ebb_status train_engine_reprice(struct train_engine *engine, struct train_program *program,
                                     const struct profile *profile, double *overhead,
                                     struct ebb_error *err);

/* Take the memory of all tiers, after the last program was added; the first run does it as well. */
enum ebb_status train_engine_reserve(struct train_engine *engine, struct ebb_error *err);

/* Persistent storages are zero before they are written the first time. io, log: NULL for none. */
enum ebb_status train_engine_run(struct train_engine *engine, struct train_program *program,
                                 const struct exec_io *io, struct exec_log *log,
                                 struct exec_report *report, struct ebb_error *err);

/* wishes.warmup_ratio holds no longer: plans are made anew and state moves to its new homes. */
enum ebb_status train_engine_lift_cap(struct train_engine *engine, struct ebb_error *err);
/* Asked before the first update: is there a folder, and room in it, where state may wait meanwhile? */
enum ebb_status train_engine_can_lift(struct train_engine *engine, struct ebb_error *err);
/* Anonymous memory that its plans may use, in tier 0 and in host memory. */
uint64_t train_engine_accounted(const struct train_engine *engine);
/* Of the device's memory, beside the budget: the most that is taken, and what is (device.h). */
uint64_t train_engine_reserved(const struct train_engine *engine);
uint64_t train_engine_beside(const struct train_engine *engine);
/* Bytes of state that live below tier 0. */
uint64_t train_engine_below(const struct train_engine *engine);

/* Bytes of a persistent leaf between runs: load initial weights, save checkpoints, hash. `at` and
 * `count` are bytes. */
enum ebb_status train_engine_put(struct train_engine *engine, const struct train_program *program,
                                 uint32_t tensor, uint64_t at, const void *bytes, uint64_t count,
                                 struct ebb_error *err);
enum ebb_status train_engine_get(struct train_engine *engine, const struct train_program *program,
                                 uint32_t tensor, uint64_t at, void *bytes, uint64_t count,
                                 struct ebb_error *err);
/* All of its bytes become zero. */
enum ebb_status train_engine_zero(struct train_engine *engine, const struct train_program *program,
                                  uint32_t tensor, struct ebb_error *err);
/* The bytes themselves, where the host can reach them; else NULL. */
void *train_engine_direct(struct train_engine *engine, const struct train_program *program,
                          uint32_t tensor);

#endif
