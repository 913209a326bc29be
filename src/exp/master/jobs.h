/* jobs.h - work that blocks (hashing, syncing, removing), done by threads beside the event loop.
 *
 * The loop hands out jobs and takes them back finished; a job belongs to one side at a time. Jobs
 * of kind PUBLISH that wait together and go to the same directory are done as one batch, so that
 * they share their syncs. Jobs that ask servers and name the same checkpoint are done one after the
 * other, in their order; of a kind at most two at a time (but for CHECK, which is short), so that a
 * store out of reach keeps no thread from the others. Private to exp/master. */
#ifndef EBB_EXP_MASTER_JOBS_H
#define EBB_EXP_MASTER_JOBS_H

#include "exp/store/store.h"

enum exp_job_kind {
    EXP_JOB_PUBLISH,     /* location, uuid, metadata, model, code_from */
    EXP_JOB_PREPARE,     /* work_dir, model, location and uuid (may be NULL): unpack and verify;
                            remote: fetch into the cache. EBB_ECORRUPT: the checkpoint is damaged,
                            or staged and gone; EBB_EINPUT: its directory is not there */
    EXP_JOB_REMOVE,      /* location, uuid, resources (remote); also staged and cached copies */
    EXP_JOB_REMOVE_TREE, /* work_dir; uuid: the name of its removal, or NULL */
    EXP_JOB_UPLOAD,      /* location, uuid: from the staging */
    EXP_JOB_CHECK,       /* location: can it be written and read? */
    EXP_JOB_MIRROR,      /* location, uuid (a folder there), work_dir: event files */
    EXP_JOB_UNMIRROR,    /* the same: away with them, there and here */
};

struct exp_model { /* a model definition in memory; counted by the loop's thread */
    size_t uses;
    struct exp_store_file *files;
    size_t count;
    char **blocks; /* one for each file: its path, NUL, its content */
};

struct exp_job {
    enum exp_job_kind kind;
    char *location, *uuid, *metadata, *work_dir, *code_from; /* owned */
    char *access_key, *secret_key; /* of a remote location; NULL = the usual ones */
    bool is_remote;                /* asks a server: done by the threads for that */
    bool is_staged;                /* PREPARE: its copy here is the only one, or may be */
    struct exp_store_net *net;     /* borrowed */
    const char *state_dir;         /* borrowed: staging and cache are below */
    struct exp_store_watch watch;
    struct exp_model *model;        /* shared */
    struct exp_store_names names;   /* that a store takes which a sealed copy goes to */
    char allocation[EXP_UUID_TEXT]; /* who waits for it; "" = nobody */
    int64_t experiment_id, seq;
    enum ebb_status status; /* results */
    struct ebb_error err;
    struct ebb_str resources;
    int64_t size;
    struct exp_job *next;
};

struct exp_jobs;

/* Below the state directory: sealed copies on their way to remote stores with their journals, and
 * copies fetched from there. */
#define EXP_STAGING "staging"
#define EXP_CACHE "cache"
#define EXP_BOARDS "boards" /* which event files have not been sent */

#define EXP_JOBS_REMOTE 12 /* threads that ask servers: two for each kind, and two */
enum ebb_status exp_jobs_create(int threads, struct exp_jobs **jobs, struct ebb_error *err);
/* Waits for the jobs in progress, which are unwanted; those waiting are dropped (recovery does them
 * again). */
void exp_jobs_destroy(struct exp_jobs *jobs);
int exp_jobs_fd(const struct exp_jobs *jobs); /* readable when finished jobs wait */
void exp_jobs_add(struct exp_jobs *jobs, struct exp_job *take_job);
void exp_jobs_unwant(struct exp_jobs *jobs); /* all that are handed out: they end soon */
void exp_jobs_leave(struct exp_jobs *jobs,
                    const char *allocation);          /* those it waits for, likewise */
struct exp_job *exp_jobs_take(struct exp_jobs *jobs); /* a finished one, or NULL */
size_t exp_jobs_count(const struct exp_jobs *jobs);   /* handed out and not taken back */
struct exp_job *exp_job_create(enum exp_job_kind kind);
void exp_job_destroy(struct exp_job *job);

void exp_model_release(struct exp_model *model); /* NULL is fine */

#endif
