/* worker.h - the trial's side of the process protocol (docs/trial-protocol.md).
 *
 * A trial is a process that the master starts. It connects to the socket EBB_SOCKET, says HELLO, is
 * given one workload after another (train a step, validate, save a checkpoint, terminate) and
 * answers each with DONE or FAILED. This folder speaks that protocol; what is trained stands behind
 * a table of functions, struct worker_trial: the built-in tasks fill one (folder train), a shared
 * object with the interface of include/ebb.h is wrapped in another (worker_library_open).
 *
 *  W1  A workload is answered exactly once; an answer that was not acknowledged is sent again after
 *      a reconnect, with the same number, so that the master can drop the copy.
 *  W2  When the connection is lost, the current batch is finished, then the trial waits: 60 s for
 *      the master to come back, then it leaves with WORKER_EXIT_LOST. Nothing is lost: the master
 *      starts it again from its last checkpoint, and does not count that as a failure.
 *  W3  The functions of a trial are called from one thread, the one that called worker_run.
 *  W4  A checkpoint is written into a staging directory; the master publishes it, complete or not
 *      at all, when it has heard that the trial is done with it.
 *  W5  When there is no room for a checkpoint, the trial says so in its log and tries again until there
 *      is: no restart is spent on a full disk. */
#ifndef EBB_WORKER_WORKER_H
#define EBB_WORKER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/doc.h"
#include "base/json.h"
#include "base/status.h"

#define WORKER_PROTOCOL 1
#define WORKER_EXIT_LOST 75 /* the master is gone; not the trial's fault */

/* ---- what a trial is told ---- */

/* Everything a trial may want to know about itself. Borrowed: lives as long as the trial. */
struct worker_trial;

struct worker_job {
    const struct worker_trial *trial; /* the table whose create is called */
    int64_t experiment_id, trial_id;
    uint32_t seed;             /* 0 ... 2^31-1: seeds every generator of the trial */
    int64_t batches_per_step;  /* a RUN_STEP has this many batches */
    int64_t global_batch_size; /* the hyperparameter */
    int rank, size, local_rank;
    const char *entrypoint;            /* "ebb:image_classification", "libmodel.so:trial" */
    const struct ebb_doc_node *config; /* normalised experiment configuration; ${name} unexpanded */
    const struct ebb_doc_node *hparams; /* mapping: the sample of this trial */
    const struct ebb_doc_node *slots;   /* list of slot names; NULL = not told */
};

/* Names with numbers, in the order they were set. Not a number and infinities are allowed: they
 * travel as "NaN", "Infinity", "-Infinity". */
struct worker_metric {
    char *name; /* owned */
    double value;
};

struct worker_metrics {
    struct worker_metric *items;
    size_t count, capacity;
};

void worker_metrics_init(struct worker_metrics *metrics);
void worker_metrics_fini(struct worker_metrics *metrics);
void worker_metrics_clear(struct worker_metrics *metrics);
/* Set or overwrite. The name must not be empty. */
enum ebb_status worker_metrics_set(struct worker_metrics *metrics, const char *name, double value,
                                   struct ebb_error *err);

struct worker_run; /* a workload in progress, private to this folder */

/* A batch is complete: its metrics (must contain "loss") and the records it consumed on this rank.
 * EBB_OK: go on. EBB_ECANCELED: the process has to end now (the master did not come back, SIGTERM);
 * return it at once from train. Blocks while the master is away (W2). */
enum ebb_status worker_batch_done(struct worker_run *run, const struct worker_metrics *metrics,
                                  int64_t records, struct ebb_error *err);
/* Between validation batches, where they take long: the same answer, nothing is reported. */
enum ebb_status worker_check(struct worker_run *run, struct ebb_error *err);
/* The master would like the slots back soon (advisory: the workload may be finished). */
bool worker_should_stop(const struct worker_run *run);

/* ---- what a trial does ---- */

enum worker_load {
    WORKER_RESUME,     /* own checkpoint: weights, optimizer, generators, position in the data */
    WORKER_WARM_START, /* another trial's checkpoint: weights; counters and data start at zero */
};

/* All functions are required. A failing status ends the process; the message becomes the reason the
 * user reads. EBB_EINFEASIBLE and EBB_EBUDGET say that this sample of hyperparameters can never
 * work (INVALID_HP), EBB_ECANCELED that the user ended it (USER_CANCELED), all others that it
 * failed (ERRORED: it is restarted from its last checkpoint). */
struct worker_trial {
    const char *name; /* "image_classification": the part after "ebb:" */
    /* Build everything that does not depend on a checkpoint. `job` is borrowed until destroy. */
    enum ebb_status (*create)(const struct worker_job *job, void **self, struct ebb_error *err);
    /* Restore from directory `dir`; at most once, right after create. `batches_done` is what the
     * checkpoint's steps sum up to (0 for a warm start). */
    enum ebb_status (*load)(void *self, const char *dir, enum worker_load kind,
                            int64_t batches_done, struct ebb_error *err);
    /* Train `batches` more; worker_batch_done after each. */
    enum ebb_status (*train)(void *self, int64_t batches, struct worker_run *run,
                             struct ebb_error *err);
    /* Run over the validation set: fill `metrics` (empty at entry), *records = records seen. */
    enum ebb_status (*validate)(void *self, struct worker_run *run, struct worker_metrics *metrics,
                                int64_t *records, struct ebb_error *err);
    /* Write files into `dir` (exists, empty, on the file system of the store). Need not sync or
     * rename; metadata.json is the master's. */
    enum ebb_status (*save)(void *self, const char *dir, struct ebb_error *err);
    /* After a step: members of an object about what it took, memory and time. May be NULL. */
    void (*report)(void *self, struct ebb_json_writer *w);
    void (*destroy)(void *self); /* NULL is fine */
};

/* ---- running ---- */

/* A trial from a shared object that exports `const ebb_trial_ops SYMBOL` (include/ebb.h).
 * `entrypoint` is "path.so:symbol" or "path:symbol". */
struct worker_library;
enum ebb_status worker_library_open(const char *entrypoint, struct worker_library **library,
                                    const struct worker_trial **trial, struct ebb_error *err);
void worker_library_close(struct worker_library *library); /* NULL is fine */

/* Serve workloads until TERMINATE. Everything else is read from the environment the master set
 * (EBB_SOCKET, EBB_CONFIG, ...: docs/trial-protocol.md). *exit_code is what the process must leave
 * with: 0 after TERMINATE, WORKER_EXIT_LOST when the master is gone, 1 after a failure (err tells).
 */
enum ebb_status worker_run(const struct worker_trial *trial, const char *entrypoint, int *exit_code,
                           struct ebb_error *err);
/* A failure of the sample, which the master writes into the trial's log. */
bool worker_sample_is_invalid(enum ebb_status status);

#endif
