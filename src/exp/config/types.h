/* types.h - what an experiment file says, as C values.
 *
 * Made only by the readers of config.h, which promise C1 to C3 for it: every field obeys its rule,
 * everything lives in one arena, nothing changes afterwards. Strings are UTF-8 without NUL. */
#ifndef EBB_EXP_CONFIG_TYPES_H
#define EBB_EXP_CONFIG_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/doc.h"

/* ---- hyperparameters ---- */

enum exp_hparam_kind {
    EXP_HPARAM_CONST,
    EXP_HPARAM_INT,
    EXP_HPARAM_DOUBLE,
    EXP_HPARAM_LOG,
    EXP_HPARAM_CATEGORICAL,
};

struct exp_hparam {
    const char *name;
    enum exp_hparam_kind kind;
    const struct ebb_doc_node *value; /* CONST: any value; a null is a node of kind NULL */
    int64_t int_min, int_max;         /* INT: inclusive; int_max - int_min + 1 fits int64 */
    double min, max;                  /* DOUBLE: range; LOG: exponents */
    double base;                      /* LOG: > 0; base^min and base^max are finite */
    int64_t count;                    /* INT, DOUBLE, LOG: points on a grid; 0 = not given */
    const struct ebb_doc_node *const *values; /* CATEGORICAL, file order */
    size_t value_count;                       /* >= 1 */
};

struct exp_hparams {
    const struct exp_hparam
        *items; /* ascending by name (strcmp), the order of all draws and grids */
    size_t count;
};

/* NULL when there is none of that name. */
const struct exp_hparam *exp_hparams_find(const struct exp_hparams *hparams, const char *name);

/* ---- searcher ---- */

/* Every searcher, in the order that users see: the contract's first. A row makes the kind, the word
 * in files and the line of the table in exp/search, whose exp_method_<method> it is. */
#define EXP_SEARCHERS(X) /* kind, name, method */                                                  \
    X(SINGLE, single, random)                                                                      \
    X(RANDOM, random, random)                                                                      \
    X(GRID, grid, grid)                                                                            \
    X(ADAPTIVE, adaptive, adaptive)                                                                \
    X(ADAPTIVE_SIMPLE, adaptive_simple, adaptive)                                                  \
    X(PBT, pbt, pbt)                                                                               \
    X(ADAPTIVE_ASHA, adaptive_asha, asha)                                                          \
    X(ASYNC_HALVING, async_halving, asha)                                                          \
    X(TPE, tpe, tpe)                                                                               \
    X(CUSTOM, custom, none)

enum exp_searcher_kind {
#define X(KIND, name, method) EXP_SEARCHER_##KIND,
    EXP_SEARCHERS(X)
#undef X
};

enum exp_mode { EXP_MODE_AGGRESSIVE, EXP_MODE_STANDARD, EXP_MODE_CONSERVATIVE };

/* The kind is the tag; a field that does not belong to the kind is zero. */
struct exp_early_stopping { /* the metric and its sign: those of the searcher unless given */
    int64_t patience;       /* validations; 0 = no early end */
    const char *metric;
    bool smaller_is_better;
};

struct exp_searcher {
    enum exp_searcher_kind kind;
    const char *metric;
    bool smaller_is_better;
    int64_t source_trial_id;            /* 0 = none */
    const char *source_checkpoint_uuid; /* lower case; NULL = none */
    int64_t max_concurrent_trials;      /* 0 = no limit (adaptive_asha, tpe: automatic) */
    struct exp_early_stopping early_stopping;

    int64_t max_steps;          /* single random grid adaptive_simple tpe */
    int64_t max_trials;         /* random adaptive_simple adaptive_asha async_halving tpe */
    int64_t target_trial_steps; /* adaptive */
    int64_t step_budget;        /* adaptive: > target_trial_steps */
    enum exp_mode mode;         /* adaptive adaptive_simple adaptive_asha */
    double divisor;             /* adaptive* async_halving: > 1 */
    int64_t max_rungs;          /* adaptive adaptive_simple adaptive_asha: 1..1000 */
    const int64_t
        *bracket_rungs; /* adaptive adaptive_simple adaptive_asha: explicit brackets instead of mode
                           and max_rungs; file order, each 1..1000; NULL = none */
    size_t bracket_rungs_count;
    bool train_stragglers; /* accepted for old files, without effect */

    int64_t max_length; /* adaptive_asha async_halving: steps */
    int64_t num_rungs;  /* async_halving: 1..1000 */
    bool stop_once;     /* adaptive_asha async_halving */

    int64_t population_size, num_rounds, steps_per_round;           /* pbt */
    double truncate_fraction, resample_probability, perturb_factor; /* pbt */

    int64_t startup_trials; /* tpe: random samples before the model is used, default 10 */
    int64_t candidates;     /* tpe: draws per choice, default 24 */
    double gamma;           /* tpe: fraction called good, default 0.25 */

    const char *const *command; /* custom: the external program and its arguments */
    size_t command_count;
};

const char *exp_searcher_name(enum exp_searcher_kind kind);

/* ---- the other sections ---- */

enum exp_storage_kind {
    EXP_STORAGE_SHARED_FS,
    EXP_STORAGE_S3,
    EXP_STORAGE_GCS,
    EXP_STORAGE_HDFS,
    EXP_STORAGE_NONE, /* no layer named one: the master decides */
};

struct exp_storage {
    enum exp_storage_kind kind;
    int64_t save_experiment_best, save_trial_best, save_trial_latest;
    const char *host_path, *container_path, *storage_path, *propagation; /* shared_fs */
    const char *checkpoint_path, *tensorboard_path; /* shared_fs: old names of storage_path */
    const char
        *directory; /* shared_fs: the effective directory, normalised, at or below host_path */
    const char *bucket, *prefix;                        /* s3 gcs; prefix NULL = none */
    const char *access_key, *secret_key, *endpoint_url; /* s3; NULL = not given */
    const char *hdfs_url, *hdfs_path, *user;            /* hdfs */
};

enum exp_checkpoint_policy { EXP_POLICY_BEST, EXP_POLICY_ALL, EXP_POLICY_NONE };
enum exp_trial_failure { EXP_FAILURE_FAIL_EXPERIMENT, EXP_FAILURE_CONTINUE };
enum exp_precision { EXP_PRECISION_O0, EXP_PRECISION_O1, EXP_PRECISION_O2, EXP_PRECISION_O3 };

enum exp_entry_kind {
    EXP_ENTRY_BUILTIN, /* ebb:<task>          */
    EXP_ENTRY_ONNX,    /* onnx:<path>         */
    EXP_ENTRY_LIBRARY, /* <path>.so:<symbol>  */
    EXP_ENTRY_PYTHON,  /* <pkg.mod>:<Class>   */
    EXP_ENTRY_COMMAND, /* a list of strings, or exec:<command line for sh> */
};

struct exp_entrypoint {
    enum exp_entry_kind kind;
    const char *text;            /* as written; NULL for a list */
    const char *module, *object; /* the parts around the first ':'; NULL for COMMAND */
    const char *const *command;  /* COMMAND: argv; "exec:x" is {"/bin/sh", "-c", "x"} */
    size_t command_count;
};

struct exp_resources {
    int64_t max_slots; /* 0 = unlimited */
    double weight;
    int64_t slots_per_trial;
    int64_t shm_size;        /* bytes; -1 = site default */
    const char *agent_label; /* "" = agents without label */
    bool native_parallel;
};

struct exp_bind_mount {
    const char *host_path, *container_path, *propagation;
    bool read_only;
};

struct exp_strings {
    const char *const *items;
    size_t count;
};

struct exp_environment {
    bool has_image;                    /* false = site default */
    const char *image_cpu, *image_gpu; /* NULL = no image on that side */
    bool force_pull_image;
    bool has_registry_auth;
    const char *registry_username, *registry_password, *registry_server, *registry_email;
    const char *registry_serveraddress; /* other spelling of server; folded into registry_server */
    struct exp_strings variables_cpu,
        variables_gpu; /* NAME=VALUE, one per name, the last one given */
};

struct exp_optimizations {
    int64_t aggregation_frequency;
    bool average_aggregated_gradients, gradient_compression;
    enum exp_precision mixed_precision;
    int64_t tensor_fusion_threshold, tensor_fusion_cycle_time;
    bool auto_tune_tensor_fusion;
    const char *grad_updates_size_file; /* accepted for old files, without effect */
};

struct exp_config {
    const char *description; /* NULL: none given and none generated */
    struct exp_strings labels;
    const struct ebb_doc_node *data; /* always a mapping */
    struct exp_entrypoint entrypoint;
    struct exp_storage checkpoint_storage;
    bool has_tensorboard_storage; /* else event files go to checkpoint_storage */
    struct exp_storage tensorboard_storage;
    int64_t min_validation_period, min_checkpoint_period; /* 0 = none */
    enum exp_checkpoint_policy checkpoint_policy;
    struct exp_hparams hyperparameters; /* global_batch_size is always there */
    struct exp_searcher searcher;
    struct exp_resources resources;
    int64_t batches_per_step;
    const struct exp_bind_mount *bind_mounts;
    size_t bind_mount_count;
    struct exp_environment environment;
    int64_t experiment_seed; /* -1: none given and no default offered */
    int64_t max_restarts;
    struct exp_optimizations optimizations;
    bool debug;
    enum exp_trial_failure trial_failure;
    const struct ebb_doc_node *model, *opt, *lr_schedule, *loss, *memory; /* mapping or NULL */
    const struct ebb_doc_node *normalized; /* the whole, defaults written out; secrets included */
};

#endif
