/* inner.h - what the files of the master share: its objects and who changes them. Private to
 * exp/master; master.h has the rules M1 to M4 that everything here serves.
 *
 * Objects in memory mirror rows; a change marks its object dirty, and the rows are written at the
 * end of the turn, in the turn's transaction. A function here that fails has not told anybody
 * anything: the turn ends, memory is thrown away and read again (master.c). */
#ifndef EBB_EXP_MASTER_INNER_H
#define EBB_EXP_MASTER_INNER_H

#include "base/arena.h"
#include "base/map.h"
#include "base/wire.h"
#include "exp/db/db.h"
#include "exp/master/jobs.h"
#include "exp/master/master.h"
#include "exp/master/proc.h"
#include "exp/retention/retention.h"
#include "exp/search/search.h"
#include "exp/sequence/sequence.h"

enum exp_trial_state { EXP_TRIAL_ACTIVE, EXP_TRIAL_COMPLETED, EXP_TRIAL_CANCELED, EXP_TRIAL_ERROR };

struct exp_trial;
struct exp_conn;

/* The phases of an allocation; exp_alloc_go is the only way from one to the next:
 *
 *   DECIDED ──► PREPARING ──► PREPARED ──► STARTED ──HELLO──► TALKING ─┐
 *      │            │             ▲                              ▲     │ kill (from PREPARING,
 *      │            └── kill ──┐  │      ADOPTED ──── HELLO ─────┘     ▼ STARTED, ADOPTED too)
 *      └── nothing to prepare ─┼──┘                                 KILLED
 *                              └─────────────────────────────────────►─┘
 *   every one of them ──► GONE: the process ended, or none came to be
 *
 * While a job publishes its checkpoint the end waits (M7). Why it ended: exp_fault and the status. */
enum exp_alloc_phase {
    EXP_ALLOC_DECIDED,   /* prepared after the commit */
    EXP_ALLOC_PREPARING, /* a job unpacks and verifies */
    EXP_ALLOC_PREPARED,  /* started after the commit */
    EXP_ALLOC_STARTED,   /* a process that has not said HELLO */
    EXP_ALLOC_ADOPTED,   /* of an earlier master; has not said HELLO to this one */
    EXP_ALLOC_TALKING,   /* has said HELLO; without a connection it is lost, and may come back */
    EXP_ALLOC_KILLED,    /* its end is awaited */
    EXP_ALLOC_GONE,
};

enum exp_fault {
    EXP_FAULT_NONE,    /* its exit tells */
    EXP_FAULT_FAILED,  /* it said so, or could not start: counts */
    EXP_FAULT_KILLED,  /* by the master, for what it did: counts */
    EXP_FAULT_VAIN,    /* cannot start, nor will it later: the trial ends, nothing is counted */
    EXP_FAULT_EXCUSED, /* ended through no fault of its own: nothing is counted */
};

struct exp_alloc { /* a process of a trial, from the decision to start it until it is gone */
    char id[EXP_UUID_TEXT];
    struct exp_trial *trial;
    int64_t slot;
    enum exp_alloc_phase phase;
    enum exp_fault fault;
    bool is_kill_due;     /* after the commit */
    uint64_t again_ns;    /* no process came to be: how long until the next start; 0 = as usual */
    bool is_held;         /* gets no work while too much waits to be uploaded */
    bool is_publishing;   /* a job publishes its checkpoint: nothing else about it is decided */
    bool has_spoken;      /* HELLO, to this master or an earlier one */
    bool is_adopted;      /* has not said HELLO since memory was read again */
    struct exp_proc proc; /* fd -1: not started yet */
    struct exp_conn *conn;
    int64_t last_seq;
    char uuid[EXP_UUID_TEXT]; /* of the checkpoint in progress */
    struct {
        char uuid[EXP_UUID_TEXT]; /* "" = none */
        char *path;               /* owned */
        int64_t trial, step;
        bool is_warm, is_staged; /* is_staged: not in its store yet */
    } from;                      /* the checkpoint it starts from */
    bool is_dirty;
    int status;                  /* of its exit */
    uint64_t hello_ns, beat_ns;  /* deadlines, monotonic; 0 = none */
    uint64_t exit_ns;            /* it must be gone by then; 0 = none */
    double run_time;             /* Unix: when it was given its workload; 0 = by another master */
    double done_start, done_end; /* of the DONE that waits for a publish job */
    char reason[256];            /* why it was killed */
    struct exp_alloc *next_dirty;
};

struct exp_trial {
    struct exp_experiment *experiment;
    uint32_t index; /* in the search */
    struct exp_request_id request;
    int64_t id; /* 0: never had slots, no row */
    enum exp_trial_state state;
    uint32_t seed;
    char *hparams;   /* JSON, owned; NULL once it ended */
    bool has_source; /* PBT: starts from another trial's checkpoint */
    uint32_t source; /* its index */
    int64_t source_step;
    char *warm_start; /* uuid, owned, or NULL */
    struct exp_sequence sequence;
    struct exp_alloc *alloc; /* owned */
    double start_time, end_time;
    bool has_best, has_latest;
    double best_signed, latest_signed;
    int64_t best_step;
    char *message; /* owned: the last failure */
    char *held;    /* owned: what its next start waits for, told once; NULL: nothing is known */
    int64_t log_offset, log_bytes, log_next;
    uint64_t not_before_ns; /* monotonic: a start that failed for want of room is tried later */
    enum exp_sched_wait wait;
    bool is_asking;                    /* in the list of tasks */
    bool is_dirty, is_new, is_cleared; /* is_cleared: its working directory is being removed */
    bool is_nan_told;                  /* that its metric is NaN */
    double loss;                       /* of its last step; NaN = not known */
    struct exp_trial *before, *after;  /* tasks, in the order of asking */
    bool is_checked;                   /* in the experiment's list of those that may be done */
    struct exp_trial *next_checked;
    struct exp_trial *next_dirty;
};

struct exp_experiment { /* not ended */
    int64_t id;
    enum exp_state state;
    struct ebb_arena arena; /* configuration */
    struct exp_config config;
    struct exp_search *search;
    struct exp_ops ops; /* scratch */
    int64_t search_seq;
    struct exp_trial **trials; /* by index */
    size_t trial_count, trial_capacity;
    struct exp_best best;
    int64_t best_trial, best_step;
    int64_t entered_count, ended_count; /* trials that have a row; that have ended */
    size_t alloc_count;
    double weight;
    int64_t max_slots; /* < 0 = none */
    struct exp_store *store;
    char *location;          /* of the store, JSON */
    struct exp_store *stage; /* where trials write: the store, or the staging before a remote one */
    char *stage_location;
    char *board;                          /* directory of its event files, or NULL */
    char *board_location, *board_section; /* where they are sent (JSON); NULL = they stay */
    char *warm_start;                     /* uuid that all trials start from, or NULL */
    struct exp_model *model;
    bool has_model;                /* there are files; `model` is read when first needed */
    char code_uuid[EXP_UUID_TEXT]; /* a checkpoint that has them in code/; "" = none is known */
    char *error;                   /* why it failed */
    char *refusal;         /* why the last trial called its values invalid; owned, NULL: none did */
    int64_t refusal_count; /* trials in a row that said so in the same words */
    bool is_dirty, is_settling;
    bool is_killed;            /* waits for no store any more */
    struct exp_trial *checked; /* trials that may be done */
    size_t group;              /* scratch of the scheduler */
    struct exp_experiment *next_dirty;
};

struct exp_upload { /* a checkpoint that is sealed on this machine and not in its store yet */
    char uuid[EXP_UUID_TEXT];
    int64_t experiment_id, trial_id, step, bytes;
    char *location;      /* owned */
    struct exp_job *job; /* in progress, or NULL; the thread's, but for its watch */
    uint64_t retry_ns;   /* not before */
    bool is_done;        /* there; the staged copy stays while a trial may read it */
    uint64_t done_turn;  /* since then */
    bool is_unwanted;    /* removed when its job is back */
    char error[512];     /* of the last try; "" = none */
    struct exp_upload *next;
};

struct exp_conn { /* on master.sock: a trial, or somebody who has said nothing yet */
    struct ebb_wire wire;
    bool is_trial;
    uint64_t since_ns;       /* when it came */
    struct exp_alloc *alloc; /* after HELLO */
};

struct exp_notice {
    int64_t seq, experiment_id, trial_id; /* trial_id 0: of none */
    const char *type;                     /* constant */
    char *json;                           /* owned */
};

#define EXP_NOTICES 8192
#define EXP_STORAGE_SECTION "checkpoint_storage" /* of a configuration: where checkpoints go */

struct exp_measured { /* for on_metrics, after the commit */
    struct exp_master_metrics metrics;
    struct exp_measured *next;
};

struct exp_deletion { /* an experiment whose files are being removed */
    int64_t id;
    size_t pending; /* jobs */
    bool is_failed, has_trees;
    char note[256];
};

struct exp_kept { /* a process while memory is read again */
    char id[EXP_UUID_TEXT];
    struct exp_proc proc;
    int status;
    bool is_gone;
};

struct exp_master {
    struct exp_master_options options;
    struct exp_master_front front;                                     /* all NULL: none */
    char *state_dir, *ebb_path, *python, *python_path, *site_defaults; /* owned */
    char cluster_id[EXP_UUID_TEXT], owner[64];
    int lock_fd, folder_fd, listen_fd, epoll_fd;
    struct ebb_log log; /* <state>/master.log */
    bool has_begun;     /* opened, and not only for reading */
    struct exp_db *db;
    struct exp_jobs *jobs, *remote; /* remote: those that ask servers */
    struct exp_store_net *net;
    struct exp_upload *uploads; /* in the order of checkpoints */
    struct exp_board *boards;   /* boards.c */
    bool is_trim_due;           /* of the cache */
    bool is_room_short;         /* then to nothing: a trial has found no room on the disk */
    uint64_t removal_ns;        /* removals that failed are tried again then; 0 = none have */
    struct exp_check *checks;   /* check.c */
    struct {
        char *bucket, *endpoint, *access_key, *secret_key;
    } site;                              /* keys of master.yaml; owned, or NULL */
    struct exp_experiment **experiments; /* not ended, ascending by id */
    size_t experiment_count, experiment_capacity;
    size_t going_count;    /* rows of those that had not ended when they were read */
    struct ebb_map trials; /* id -> struct exp_trial */
    struct exp_conn **conns;
    size_t conn_count, conn_capacity;
    struct exp_alloc **allocs;
    size_t alloc_count, alloc_capacity;
    struct exp_trial *tasks_first, *tasks_last;
    int64_t *slots; /* trial that holds each, or 0 */
    cpu_set_t *slot_cpus;
    bool *slot_disabled;
    int threads;
    bool can_pin;
    enum { EXP_MOUNTS_UNKNOWN, EXP_MOUNTS_NO, EXP_MOUNTS_YES } mounts; /* for trials alone */
    int64_t last_experiment, last_trial, last_checkpoint;
    struct exp_experiment *dirty_experiments;
    struct exp_trial *dirty_trials;
    struct exp_alloc *dirty_allocs;
    bool is_schedule_due;
    bool wants_turn; /* something is left to do at once */
    uint64_t now_ns; /* monotonic, at the beginning of the turn */
    double time;     /* Unix, likewise */
    uint64_t logs_ns, sweep_ns, checked_ns;
    size_t removals; /* jobs in progress */
    struct exp_deletion *deletions;
    size_t deletion_count, deletion_capacity;
    struct exp_kept *kept;
    size_t kept_count, kept_capacity;
    bool is_closing;
    bool is_subreaper;                     /* the process, because of us */
    struct exp_job *held_jobs, *held_last; /* handed out after the commit */
    struct exp_notice notices[EXP_NOTICES];
    int64_t notice_next; /* seq of the next one */
    size_t notice_count;
    bool has_news;
    struct exp_measured *measured_first, *measured_last; /* in the turn's arena */
    bool is_stalled;
    uint64_t retry_ns;
    struct ebb_error stall;
    struct ebb_arena turn_arena;
    uint64_t turns;
};

/* ---- names.c ---- */
bool exp_state_is_stopping(enum exp_state state);
const char *exp_trial_state_name(enum exp_trial_state state);
const char *exp_workload_name(enum exp_workload_kind kind);
bool exp_workload_parse(const char *name, enum exp_workload_kind *kind);
double exp_time_now(void);
/* Replace *text by a copy. */
enum ebb_status exp_text_set(char **text, const char *value, struct ebb_error *err);

/* ---- rows.c: rows that mirror objects ---- */
void exp_dirty_experiment(struct exp_master *m, struct exp_experiment *e);
void exp_dirty_trial(struct exp_master *m, struct exp_trial *r);
void exp_dirty_alloc(struct exp_master *m, struct exp_alloc *a);
enum ebb_status exp_rows_flush(struct exp_master *m, struct ebb_error *err);
enum ebb_status exp_rows_insert_alloc(struct exp_master *m, const struct exp_alloc *a,
                                      struct ebb_error *err);

/* ---- notice.c: what followers hear ---- */
void exp_notice_experiment(struct exp_master *m, const struct exp_experiment *e);
void exp_notice_trial(struct exp_master *m, const struct exp_trial *r);
void exp_notice_work(struct exp_master *m, const struct exp_trial *r, const char *type,
                     int64_t step, const char *uuid, const double *metric, bool is_best);
/* Metrics of a step or validation for on_metrics, when the turn is durable. */
void exp_notice_metrics(struct exp_master *m, const struct exp_trial *r, int64_t step, double time,
                        bool is_validation, const struct ebb_doc_node *metrics);
void exp_notice_log(struct exp_master *m, const struct exp_trial *r);
void exp_notices_free(struct exp_master *m);

/* ---- experiment.c ---- */
struct exp_experiment *exp_experiment_find(const struct exp_master *m, int64_t id);
/* Build the object of a row. is_new: run the first operations and log them; else they are replayed.
 */
enum ebb_status exp_experiment_load(struct exp_master *m, int64_t id, bool is_new,
                                    struct exp_experiment **e, struct ebb_error *err);
void exp_experiment_free(struct exp_master *m, struct exp_experiment *e);
/* Look at this trial when settling: it may be done. */
void exp_experiment_check(struct exp_experiment *e, struct exp_trial *r);
/* An event of a trial for the search, logged, and what follows from it. */
/* A trial calls its values invalid: after several in the same words the experiment ends with them. */
enum ebb_status exp_experiment_refuse(struct exp_master *m, struct exp_experiment *e,
                                      const char *reason, struct ebb_error *err);
enum ebb_status exp_experiment_feed(struct exp_master *m, struct exp_experiment *e,
                                    const struct exp_event *event, struct ebb_error *err);
/* EBB_EINPUT: illegal transition. */
enum ebb_status exp_experiment_set_state(struct exp_master *m, struct exp_experiment *e,
                                         enum exp_state state, struct ebb_error *err);
enum ebb_status exp_experiment_kill(struct exp_master *m, struct exp_experiment *e,
                                    struct ebb_error *err);
/* Closes trials that are done; ends the experiment when it is stopping and nothing is left (the
 * object goes at the end of the turn). */
enum ebb_status exp_experiment_settle(struct exp_master *m, struct exp_experiment *e,
                                      struct ebb_error *err);

/* ---- trial.c ---- */
/* Is it to be among the tasks? Puts it there or takes it out. */
void exp_trial_update_task(struct exp_master *m, struct exp_trial *r);
enum ebb_status exp_trial_start(struct exp_master *m, struct exp_trial *r, int64_t slot,
                                struct ebb_error *err);
void exp_trial_free(struct exp_master *m, struct exp_trial *r);
void exp_trial_leave_tasks(struct exp_master *m, struct exp_trial *r);
struct exp_trial *exp_trial_find(const struct exp_master *m, int64_t id); /* NULL: none */
void exp_trial_stop(struct exp_trial *r);

/* ---- alloc.c ---- */
/* To another phase; asserts that it may. */
void exp_alloc_go(struct exp_alloc *a, enum exp_alloc_phase phase);
void exp_alloc_gone(struct exp_alloc *a, int status);
/* After the commit: kill, if that is due; prepare or start. */
void exp_alloc_kill_now(struct exp_master *m, struct exp_alloc *a);
bool exp_alloc_is_start_due(const struct exp_alloc *a);
void exp_alloc_launch(struct exp_master *m, struct exp_alloc *a);
void exp_alloc_kill(struct exp_master *m, struct exp_alloc *a, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void exp_alloc_excuse(struct exp_master *m, struct exp_alloc *a, const char *why); /* and kill */
bool exp_master_is_full(const char *directory); /* the disk below it */
/* Give the connected process its next workload. */
enum ebb_status exp_alloc_next(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err);
/* The process is gone, or never came to be. */
enum ebb_status exp_alloc_end(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err);
struct exp_alloc *exp_alloc_find(const struct exp_master *m, const char *id); /* NULL: none */
void exp_alloc_free(struct exp_master *m, struct exp_alloc *a);
enum ebb_status exp_alloc_job_done(struct exp_master *m, struct exp_alloc *a, struct exp_job *job,
                                   struct ebb_error *err);
enum ebb_status exp_alloc_add(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err);
/* What it measured after the step it begins at is forgotten: it will be measured again. */
enum ebb_status exp_trial_roll_back(struct exp_master *m, struct exp_trial *r,
                                    struct ebb_error *err);
/* Deadlines that have passed. */
void exp_allocs_check(struct exp_master *m);
/* A job for after the commit, and now. */
void exp_job_later(struct exp_master *m, struct exp_job *take_job);
void exp_job_hand_out(struct exp_master *m, struct exp_job *take_job);

/* ---- uploads.c: from the staging to remote stores ---- */
enum ebb_status exp_uploads_open(struct exp_master *m, struct ebb_error *err); /* with the master */
enum ebb_status exp_uploads_recover(struct exp_master *m, struct ebb_error *err);
void exp_uploads_forget(struct exp_master *m);
/* Where a job finds its checkpoint, and with which keys: those of the configuration's section. */
enum ebb_status exp_job_place(struct exp_master *m, struct exp_job *job, const char *location,
                              const char *section, struct ebb_error *err);
enum ebb_status exp_upload_add(struct exp_master *m, const struct exp_upload *upload,
                               const char *location, struct ebb_error *err);
/* So much waits that the trial must not write another one. */
bool exp_uploads_are_full(const struct exp_master *m, const struct exp_trial *r);
/* Is one of the experiment (0 = any) or of the trial (0 = any) on its way? */
bool exp_uploads_wait(const struct exp_master *m, int64_t experiment, int64_t trial);
/* Start what is due; trials that were held go on; the cache is kept small. */
enum ebb_status exp_uploads_turn(struct exp_master *m, struct ebb_error *err);
enum ebb_status exp_upload_job_done(struct exp_master *m, const struct exp_job *job,
                                    struct ebb_error *err);
/* Unfinished ones of an experiment become errors, and their copies go. */
enum ebb_status exp_uploads_cancel(struct exp_master *m, int64_t experiment, struct ebb_error *err);
/* The checkpoint a trial would start from is not whole: it goes, and the trial is back at an earlier
 * one. */
enum ebb_status exp_upload_lost(struct exp_master *m, struct exp_trial *r, const char *uuid,
                                struct ebb_error *err);
uint64_t exp_uploads_deadline(const struct exp_master *m); /* monotonic; UINT64_MAX = none */

/* ---- boards.c: event files in remote stores ---- */
enum ebb_status exp_boards_recover(struct exp_master *m, struct ebb_error *err);
void exp_boards_forget(struct exp_master *m);
void exp_board_touch(struct exp_master *m, const struct exp_experiment *e);   /* they grow */
enum ebb_status exp_boards_turn(struct exp_master *m, struct ebb_error *err); /* send what is due */
enum ebb_status exp_board_job_done(struct exp_master *m, const struct exp_job *job,
                                   struct ebb_error *err);
bool exp_boards_wait(const struct exp_master *m);               /* is something not sent? */
bool exp_board_holds(struct exp_master *m, int64_t experiment); /* of one that ends: sent at once */
void exp_board_leave(struct exp_master *m, int64_t experiment); /* nobody waits for it */
const char *exp_board_error(const struct exp_master *m,
                            int64_t experiment);          /* 0 = any; NULL: none */
uint64_t exp_boards_deadline(const struct exp_master *m); /* monotonic; UINT64_MAX = none */
/* Nothing is sent any more; false: a job is out, and exp_gc_board_stopped is called when it is not. */
bool exp_board_stop(struct exp_master *m, int64_t experiment);
/* What removes them there and here; NULL: they were never sent. */
enum ebb_status exp_board_remove_job(struct exp_master *m, int64_t experiment,
                                     const char *directory, struct exp_job **job,
                                     struct ebb_error *err);

/* ---- check.c ---- */
enum ebb_status exp_check_done(struct exp_master *m, const struct exp_job *job,
                               struct ebb_error *err);
void exp_checks_turn(struct exp_master *m);                         /* those that take too long */
bool exp_check_reads(const struct exp_master *m, const char *uuid); /* it is being downloaded */
uint64_t exp_checks_deadline(const struct exp_master *m);
void exp_checks_free(struct exp_master *m);

/* ---- launch.c ---- */
enum ebb_status exp_launch_prepare(struct exp_master *m, struct exp_alloc *a,
                                   struct ebb_error *err);
enum ebb_status exp_launch_spawn(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err);
enum ebb_status exp_model_load(struct exp_master *m, struct exp_experiment *e,
                               struct ebb_error *err);

/* ---- talk.c: the trial protocol ---- */
enum ebb_status exp_talk_line(struct exp_master *m, struct exp_conn *c, const char *line,
                              size_t length, struct ebb_error *err);
void exp_talk_run(struct exp_alloc *a); /* RUN of the work in progress */
void exp_talk_ack(struct exp_alloc *a, int64_t seq);
void exp_talk_simple(struct exp_alloc *a, const char *type);

/* ---- schedule.c ---- */
enum ebb_status exp_schedule(struct exp_master *m, struct ebb_error *err);

/* ---- logs.c ---- */
/* A line of the master in a trial's log. */
enum ebb_status exp_log_add(struct exp_master *m, struct exp_trial *r, const char *level,
                            const char *text, struct ebb_error *err);
/* Take over what the process has printed. is_last: the rest line too. */
enum ebb_status exp_log_tail(struct exp_master *m, struct exp_trial *r, bool is_last,
                             struct ebb_error *err);

/* ---- gc.c ---- */
/* Start removing what the policy in the experiment's row does not keep. */
enum ebb_status exp_gc_collect(struct exp_master *m, int64_t experiment, struct ebb_error *err);
enum ebb_status exp_gc_remove_checkpoint(struct exp_master *m, const char *uuid,
                                         const char *location, int64_t deleted_experiment,
                                         struct ebb_error *err);
/* A checkpoint that was never completed: its row becomes a removal. */
enum ebb_status exp_gc_discard(struct exp_master *m, const char *uuid, struct ebb_error *err);
/* An ended trial needs its working directory no more: a copy of the model definition. */
/* A job removes the folder; name: of its row of removals, or NULL. */
enum ebb_status exp_gc_remove_tree(struct exp_master *m, const char *path, const char *name,
                                   int64_t deleted_experiment, struct ebb_error *err);
enum ebb_status exp_gc_clear_trial(struct exp_master *m, struct exp_trial *r,
                                   struct ebb_error *err);
enum ebb_status exp_gc_job_done(struct exp_master *m, struct exp_job *job, struct ebb_error *err);
enum ebb_status exp_gc_resume(struct exp_master *m, struct ebb_error *err);
/* What a remote store did not remove is tried again after a while. */
enum ebb_status exp_gc_again(struct exp_master *m, struct ebb_error *err);
enum ebb_status exp_gc_board_stopped(struct exp_master *m, int64_t experiment,
                                     struct ebb_error *err);
/* Go on with experiments in DELETING. */
enum ebb_status exp_gc_delete(struct exp_master *m, int64_t experiment, struct ebb_error *err);

/* ---- recover.c ---- */
enum ebb_status exp_recover(struct exp_master *m, struct ebb_error *err);
void exp_forget(struct exp_master *m); /* everything in memory that rows can bring back */

/* The loop (master.c). */
void exp_master_look(struct exp_master *m);  /* at the clock: what a turn takes for now */
void exp_master_sweep(struct exp_master *m); /* end every process that trials left behind */

/* ---- conn.c: trials on master.sock ---- */
void exp_conn_accept(struct exp_master *m);
enum ebb_status exp_conn_readable(struct exp_master *m, struct exp_conn *c, struct ebb_error *err);
void exp_conn_close(struct exp_master *m, struct exp_conn *c);
void exp_conns_send(struct exp_master *m);   /* after the commit; closes what is over */
void exp_conns_refuse(struct exp_master *m); /* the turn has failed: trials come back */

#endif
