/* trial.h - private to harness: one trial, which is one child that repeats one step.
 *
 * A trial is what it depends on: a document whose hash names the folder in which
 * its repetitions lie when all are done. Nothing else decides whether it is run again. */
#ifndef EBB_HARNESS_TRIAL_H
#define EBB_HARNESS_TRIAL_H

#include "base/crypto.h"
#include "harness/pareto.h"

/* What the child reads; measure.c has the keys. */
struct harness_request {
    const struct ebb_doc_node *sections, *beside;
    const char *task, *log_from, *log_to, *costs_to, *prices;
    int64_t samples, seed, input, dry_run, first_rep, n_reps, num_retries, parent;
    bool is_online, sampling, ignore_small, profiling, waits, simulates, priced;
    double budget;
};

/* A repetition, from its line of JSON. */
enum ebb_status harness_row_read(const char *line, struct harness_row *row, struct ebb_error *err);

struct trial { /* of one setting and one input */
    const struct harness_setup *setup;
    const struct ebb_doc_node *doc; /* what it depends on: keys of a request */
    char name[33];                  /* its hash */
    const char *prices;             /* profile of the baseline; NULL: none */
    bool wants_costs;               /* others are priced with its ops */
    const char *log_to;             /* NULL: no log */
};

struct trial_result {
    struct harness_rows rows; /* owned */
    int64_t num_retries;
    const char *error; /* NULL: all repetitions are there; in the arena of the runner */
    bool is_cached;
    double seconds;
};

struct runner {
    const struct harness_pareto *file;
    const struct harness_how *how;
    struct ebb_arena *arena;  /* of everything that lives as long as the run */
    const char *folder;       /* of finished trials */
    const char *program_hash; /* of this program and of the plug-in of its device */
    uint64_t seed;
};

/* From its folder, or by a child. EBB_ECANCELED: the caller was told to stop. A failure of the child
 * is a result. */
enum ebb_status harness_trial_run(struct runner *runner, const struct trial *trial,
                                  struct trial_result *result, struct ebb_error *err);
/* Path of a file in the folder of a finished trial; NULL: memory is out. */
const char *harness_trial_path(const struct runner *runner, const struct trial *trial,
                               const char *file);

#define TRIAL_COSTS "costs.txt"

/* machine.c: fills program_hash; *machine is what the results say of it. */
enum ebb_status harness_machine(struct runner *runner, struct ebb_doc_node **machine,
                                struct ebb_error *err);
/* SHA-256 of a file of at most so many bytes. */
enum ebb_status harness_hash_file(const char *path, size_t most, char text[EBB_SHA256_TEXT],
                                  struct ebb_error *err);

#endif
