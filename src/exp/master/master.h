/* master.h - the experiment master: one event loop over one state directory.
 *
 * It owns the database, the checkpoint store, the schedule and the trial processes. Everything it
 * decides comes from the state machines of exp (search, sequence, sched, retention); it feeds them
 * with events that are durable before they act:
 *
 *  M1  A turn reads what has arrived, changes memory and one database transaction, commits, and
 *      only then acts: sends, starts, kills. Killed at any instant, the next master goes on from
 *      the last commit and nothing that anybody was told is lost.
 *  M2  When the database cannot be written (disk full, input/output error), memory is thrown away
 *      and read again from the last commit, as after a crash; trials keep running and send again
 *      what was not acknowledged. Requests are answered 503 meanwhile.
 *  M3  A trial may do anything: what it sends or fails to send ends at worst its own process, with
 *      a message in its log.
 *  M4  Files go before rows: whatever exists on disk is named by a row until it is gone.
 *
 * State directory (mode 0700): ebb.db, lock (flock, held by the one master), master.sock,
 * checkpoints/, staging/ and cache/ (of remote stores), trials/<id>/{work,log,config.json}, tmp/. docs/formats/state.md has the tables.
 *
 * Socket: on master.sock trials speak the line protocol of docs/trial-protocol.md; they get its path
 * as EBB_SOCKET. A connection whose first byte is not '{' is handed to the front (below), which
 * speaks to people; the master itself knows no requests.
 *
 * One thread owns a master. The library installs no signal handler and changes no signal mask; the
 * caller's process becomes the "child subreaper", so that what trials leave behind is found. */
#ifndef EBB_EXP_MASTER_MASTER_H
#define EBB_EXP_MASTER_MASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/log.h"
#include "base/status.h"
#include "exp/config/config.h"
#include "exp/db/db.h"
#include "exp/sched/sched.h"
#include "exp/search/search.h"
#include "exp/sequence/sequence.h"

struct exp_master;

struct exp_master_faults { /* for tests: all zero = none */
    int64_t commit_fail_from,
        commit_fail_count;   /* the n-th commit (1, ...) and the next ones fail */
    int64_t commit_sleep_ms; /* slow disk */
    int64_t die_at;          /* SIGKILL to itself at the n-th point of interest */
};

/* A completed step or validation, for whoever keeps metrics in files of their own. */
struct exp_master_metrics {
    const char *directory; /* of the trial: <storage>/<cluster>/tensorboard/experiment/E/trial/T;
                              need not exist */
    int64_t experiment_id, trial_id, step_id;
    int64_t batches; /* trained so far */
    bool is_validation;
    double time; /* Unix, when it was done */
    const struct ebb_doc_node
        *metrics; /* a mapping of names to values, of which some are numbers */
};

struct exp_master_options {
    const char *state_dir; /* required; created with mode 0700 */
    int64_t slots;         /* 0 = one for each CPU set of `threads_per_slot` CPUs */
    int threads_per_slot;  /* 0 = usable CPUs / slots, at least 1 */
    bool pin_cpus;         /* each slot has CPUs of its own */
    const char *const
        *gpu_ids; /* CUDA_VISIBLE_DEVICES of each slot, slots of them; NULL = CPU slots */
    uint64_t staging_bytes, cache_bytes; /* of remote stores; 0 = 20 GiB, 10 GiB */
    uint64_t slot_memory_bytes; /* limit of a trial's process group for each slot; 0 = none */
    bool is_socket_off;         /* no master.sock: then trials cannot connect; for reading only */
    bool is_reading_only; /* take the lock, answer requests, start nothing, no socket (CLI without
                             master) */
    const char *ebb_path; /* the program that has the command `worker`; NULL = /proc/self/exe */
    const char *python;   /* NULL = "python3" */
    const char *python_path;   /* directory with ebb_client, put into PYTHONPATH; NULL = none */
    const char *site_defaults; /* YAML text with the site's checkpoint_storage, or NULL:
                                  <state>/checkpoints */
    enum exp_sched_kind sched_kind;
    enum exp_sched_fit sched_fit;
    exp_section_check check_section; /* keys of ebb's own sections */
    void *check_context;
    int64_t log_bytes_max; /* of a trial's output that is kept; 0 = 16 MiB */
    int64_t heartbeat_ms;  /* without a sign for this long during a workload: dead; 0 = 60 s */
    int64_t adopt_ms; /* how long trials of an earlier master may take to come back; 0 = 60 s */
    bool keeps_search_log;     /* keep searcher_events of ended experiments (tests) */
    const struct ebb_log *log; /* NULL = silent */
    /* Something changed that a follower may want to show: called after each commit that did. May be
     * NULL. */
    void (*on_change)(void *context, struct exp_master *master);
    void *on_change_context;
    /* Called for each completed step and validation once it is durable; everything it is given is
     * borrowed for the call. A crash in between loses the call. May be NULL. */
    void (*on_metrics)(void *context, const struct exp_master_metrics *metrics);
    void *on_metrics_context;
    /* Asked now and then while closing: true = wait for trials no longer, kill them. May be NULL.
     */
    bool (*is_hurried)(void *context);
    void *is_hurried_context;
    struct exp_master_faults faults;
};

/* Take the lock, bring the database up to date, resume every experiment. EBB_ELIMIT: another master
 * holds the lock (err says which process): go through its socket. */
enum ebb_status exp_master_open(const struct exp_master_options *options,
                                struct exp_master **master, struct ebb_error *err);

/* One turn: wait at most timeout_ms (0 = not at all, < 0 = until something happens), handle it,
 * commit, act. Failures of trials, requests and of writing are handled inside (M2, M3): a turn
 * always leaves a master that can make the next one. */
void exp_master_turn(struct exp_master *master, int timeout_ms);

/* ---- the front: whoever takes requests ----
 *
 * A table of callbacks, made in the rhythm of turns by the master's thread; src/serve has the one
 * there is. Everything it changes before the commit goes through this header. */
struct exp_master_front {
    void *context;
    int fd; /* readable when `hear` has something to do; watched by the master */
    /* A connection to master.sock that is no trial's, and what it has said so far; fd is yours. */
    enum ebb_status (*take)(void *context, int fd, const char *bytes, size_t length,
                            struct ebb_error *err);
    /* Before the commit: deal with what has arrived. Not EBB_OK: the turn has failed. */
    enum ebb_status (*hear)(void *context, struct ebb_error *err);
    /* After the commit: what the turn has answered may leave. has_news: there are new notices. */
    void (*send)(void *context, bool has_news);
    /* In place of the commit: what the turn has answered is void; who waits for it hears why. */
    void (*refuse)(void *context, const struct ebb_error *why);
    /* Before the commit: a store that exp_master_check was asked about has answered; who waits for
     * that asks again. May be NULL. */
    enum ebb_status (*checked)(void *context, struct ebb_error *err);
    /* When it wants a turn though nothing arrives, monotonic; UINT64_MAX = never. */
    uint64_t (*deadline)(void *context);
    void (*close)(void *context); /* the master ends */
};

/* Once, before the first turn. */
enum ebb_status exp_master_set_front(struct exp_master *master,
                                     const struct exp_master_front *front, struct ebb_error *err);
void *exp_master_front_context(const struct exp_master *master); /* NULL = no front */

/* A turn for one piece of work: durable when EBB_OK is returned; otherwise nothing of it is there
 * and err says why. While nothing can be written the work is not begun (EBB_EIO). */
enum ebb_status exp_master_do(struct exp_master *master,
                              enum ebb_status (*work)(void *context, struct ebb_error *err),
                              void *context, struct ebb_error *err);

/* Of master.sock, as ebb_wire_address has it. */
struct sockaddr_un;
enum ebb_status exp_master_address(struct sockaddr_un *address, const char *state_dir,
                                   int *directory, struct ebb_error *err);
/* True if a master holds the lock of the state directory now. */
bool exp_master_runs(const char *state_dir);

/* True when no experiment is ACTIVE or stopping and no process, removal or collection is left. */
bool exp_master_is_idle(const struct exp_master *master);

/* ---- what a front asks and changes (front.c) ----
 *
 * Everything below is for the front's `hear` and for the work of exp_master_do: it changes memory
 * and the open transaction, which the turn commits. */

enum exp_state {
    EXP_PAUSED,
    EXP_ACTIVE,
    EXP_STOPPING_CANCELED,
    EXP_STOPPING_COMPLETED,
    EXP_STOPPING_ERROR,
    EXP_CANCELED,
    EXP_COMPLETED,
    EXP_ERROR,
    EXP_DELETING,
    EXP_DELETE_FAILED,
};

const char *exp_state_name(enum exp_state state);
bool exp_state_parse(const char *name, enum exp_state *state);
bool exp_state_is_ended(enum exp_state state);

struct exp_master_info { /* borrowed until the next turn */
    const struct exp_master_options *options;
    const char *cluster_id, *state_dir, *owner, *python, *python_path, *site_defaults;
    int threads; /* of a slot */
    bool can_pin;
    size_t experiments, running; /* not ended; processes */
    size_t uploads;              /* checkpoints on their way to remote stores, */
    int64_t upload_bytes, uploaded_bytes;
    const char *upload_error; /* and why they do not get on; NULL = they do */
    const char *stall;        /* why nothing can be written (M2); NULL = it can */
    uint64_t now_ns;          /* monotonic, at the beginning of the turn */
    double time;              /* Unix, likewise */
    int64_t last_notice;
};
struct exp_master_info exp_master_info(const struct exp_master *master);
struct exp_db *exp_master_db(struct exp_master *master);
/* Rows say what memory says. */
enum ebb_status exp_master_flush(struct exp_master *master, struct ebb_error *err);

/* Experiments. In memory are those that have not ended; of a master that only reads, those that were
 * needed. */
enum ebb_status exp_master_need(struct exp_master *master, int64_t id, struct ebb_error *err);
bool exp_master_find(const struct exp_master *master, int64_t id, enum exp_state *state);
int64_t exp_master_next_id(const struct exp_master *master);
/* Its rows are written: bring it to life. */
enum ebb_status exp_master_begin(struct exp_master *master, int64_t id, bool is_active,
                                 struct ebb_error *err);
/* EBB_EINPUT: illegal transition. */
enum ebb_status exp_master_set_state(struct exp_master *master, int64_t id, enum exp_state state,
                                     struct ebb_error *err);
enum ebb_status exp_master_kill(struct exp_master *master, int64_t id, struct ebb_error *err);
/* NULL = as before; max_slots < 0 = none. */
void exp_master_set_share(struct exp_master *master, int64_t id, const double *weight,
                          const int64_t *max_slots);
/* What follows from a change; is_told: followers hear of it. */
enum ebb_status exp_master_settle(struct exp_master *master, int64_t id, bool is_told,
                                  struct ebb_error *err);
/* Remove an ended one with all its files: goes on over the next turns. */
enum ebb_status exp_master_delete(struct exp_master *master, int64_t id, struct ebb_error *err);

/* Checkpoints: which would go; remove those that its row does not keep; remove one. */
struct exp_gc_policy {
    int64_t save_experiment_best, save_trial_best, save_trial_latest;
};
enum ebb_status exp_gc_select(struct exp_db *db, int64_t experiment,
                              const struct exp_gc_policy *policy, struct ebb_arena *arena,
                              struct exp_db_checkpoint **doomed, size_t *count,
                              struct ebb_error *err);
enum ebb_status exp_master_collect(struct exp_master *master, int64_t experiment,
                                   struct ebb_error *err);
enum ebb_status exp_master_remove(struct exp_master *master, const char *uuid, const char *location,
                                  struct ebb_error *err);

/* Can checkpoints be written to a store, read back and removed? shared_fs is tried at once; a remote
 * store is asked by a job, for at most 10 s, while the loop goes on: *is_pending, and who asked asks
 * again when told (front.checked). A good verdict holds for a second. */
enum ebb_status exp_master_check(struct exp_master *master, const struct exp_storage *storage,
                                 bool *is_pending, struct ebb_error *err);

/* Where on this machine the files of a checkpoint lie; one in a remote store is fetched by a job
 * first (*is_pending, as above). EBB_EINPUT: there is none. */
enum ebb_status exp_master_fetch(struct exp_master *master, const char *uuid, struct ebb_str *path,
                                 bool *is_pending, struct ebb_error *err);
/* Checkpoints of an experiment on their way to its store, the bytes that are not there yet, and why
 * they do not get on (NULL = they do). */
size_t exp_master_uploads(const struct exp_master *master, int64_t experiment, int64_t *bytes,
                          const char **error);

/* Trials in memory: what rows do not say of them. */
struct exp_master_trial {
    int64_t id, experiment_id; /* id 0: never had slots, no row */
    char request[EXP_REQUEST_TEXT];
    const char *hparams; /* JSON, or NULL */
    uint32_t seed;
    bool is_over;        /* ended, and no process left */
    bool has_process;    /* or is about to: it has a slot */
    int64_t slot, pid;   /* pid 0: not started */
    const char *state;   /* as a task: pending, running, terminating */
    bool is_asking;      /* for slots; */
    const char *waiting; /* why it has none */
    bool is_busy;        /* its process does: */
    enum exp_workload_kind work;
    int64_t work_step;
    double work_time;     /* since */
    int64_t target_steps; /* that the search has asked for; 0 = it has ended, nothing is known */
    double loss;          /* of the last step that this master heard of; NaN = none */
};
bool exp_master_trial(const struct exp_master *master, int64_t id, struct exp_master_trial *trial);
/* The next one of an experiment that has no row; *at begins as 0. */
bool exp_master_pending(const struct exp_master *master, int64_t experiment, size_t *at,
                        struct exp_master_trial *trial);
/* The next one that has or wants slots, in the order of asking; *at begins as NULL. */
bool exp_master_task(const struct exp_master *master, const void **at,
                     struct exp_master_trial *trial);
void exp_master_kill_trial(struct exp_master *master, int64_t id, const char *why);

/* Slots: 0 to options->slots - 1. A trial in a disabled one ends in order. */
bool exp_master_slot(const struct exp_master *master, int64_t slot, int64_t *trial);
void exp_master_set_slot(struct exp_master *master, int64_t slot, bool is_enabled);

struct exp_notice_filter { /* 0, NULL, "": any */
    int64_t experiment_id, trial_id;
    const char *types; /* "trial,log" */
};
/* Append the JSON of notices after `after` that the filter lets through to a list that w is in.
 * Returns the next cursor; *is_cut: some are forgotten already. */
int64_t exp_notices_write(const struct exp_master *master, int64_t after,
                          const struct exp_notice_filter *filter, struct ebb_json_writer *w,
                          size_t *count, bool *is_cut);

/* Times and metrics as answers have them. */
void exp_time_write(struct ebb_json_writer *w, double time); /* <= 0, NaN: null */
/* The value as reported, from the signed form in rows. */
double exp_metric_unsigned(double signed_metric, bool smaller_is_better);

/* Can a trial have a mount namespace of its own here? */
bool exp_proc_can_mount(void);

/* ---- the end ---- */

enum exp_master_close {
    EXP_CLOSE_PREEMPT, /* tell all trials to checkpoint, wait at most grace_ms (< 0: as long as a
                          step takes), then kill */
    EXP_CLOSE_KILL,    /* kill all trials; they resume from their last checkpoint */
    EXP_CLOSE_LEAVE,   /* leave them running: a next master within 60 s adopts them */
};
/* Commit, stop or leave trials, release the lock. master may be NULL. Experiments stay in their
 * states: the next master resumes them. */
void exp_master_close(struct exp_master *master, enum exp_master_close how, int grace_ms);

#endif
