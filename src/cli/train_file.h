/* train_file.h - an experiment file opened for training in this process: read, checked, one sample
 * of its hyperparameters drawn, what the command line says put over it. */
#ifndef EBB_CLI_TRAIN_FILE_H
#define EBB_CLI_TRAIN_FILE_H

#include "cli/cli.h"
#include "exp/exp.h"
#include "train/train.h"

struct cli_train_file {
    struct ebb_arena arena;
    struct exp_config exp;
    const struct ebb_doc_node *hparams; /* of this trial */
    struct train_config config;
    int64_t updates; /* that the searcher would train one trial for */
};

/* PatrickStar's options, by its names: switches that become `true` in the section memory, and
 * numbers in its mapping mem_tracer. */
#define CLI_TRAIN_SWITCHES(X)                                                                      \
    X(use_ckp, "keep block inputs and recompute the rest, also without a budget")                  \
    X(with_activation_offload, "those block inputs wait in --host or --file (needs --use_ckp)")    \
    X(with_static_partition, "--warmup_gpu_chunk_mem_ratio holds for good; nothing else decides")  \
    X(with_async_mem_monitor, "a thread compares memory taken with memory accounted for")          \
    X(with_mem_cache, "always so")                                                                 \
    X(with_async_move, "always so")                                                                \
    X(release_after_init, "needs more than one rank: refused")                                     \
    X(with_mem_saving_comm, "needs more than one rank: refused")                                   \
    X(use_cpu_embedding, "embedding tables live in --host, which looks them up and updates them")  \
    X(use_hybrid_adam, "the host may run updates of state in --host (default with 1 thread)")      \
    X(with_tiling_linear, "weights of linear layers lie in blocks of rows, for a lower floor")
#define CLI_TRAIN_RATIOS(X)                                                                        \
    X(overall_gpu_mem_ratio, "budget as a part of the machine's memory")                           \
    X(overall_cpu_mem_ratio, "host as a part of the machine's memory")                             \
    X(warmup_gpu_chunk_mem_ratio, "most state in tier 0 in update 1, as a part of the budget")     \
    X(margin_use_ratio, "most optimizer state there, as a part of what the rest leaves")

struct cli_train_changes { /* of the command line; 0, NULL, -1: as the file says */
    struct cli_list sets, links;
    const char *budget, *host, *file, *policy, *file_path, *rewrites, *device, *costs;
    int64_t threads, seed;
    const char *gradients, *chunk;
#define CLI_TRAIN_FIELD(name, help) bool name;
    CLI_TRAIN_SWITCHES(CLI_TRAIN_FIELD)
#undef CLI_TRAIN_FIELD
#define CLI_TRAIN_FIELD(name, help) const char *name;
    CLI_TRAIN_RATIOS(CLI_TRAIN_FIELD)
#undef CLI_TRAIN_FIELD
};

/* Rows of options that several commands have. */
#define CLI_TRAIN_TIERS(changes)                                                                   \
    {"host",           0,       CLI_STRING,                                                        \
     &(changes)->host, "BYTES", "room for swapped tensors, weights and states in host memory"},    \
        {"file", 0, CLI_STRING, &(changes)->file, "BYTES", "the same in a file"},                  \
    {                                                                                              \
        "link", 0, CLI_LIST, &(changes)->links, "TIER=GB/s",                                       \
            "copies go no faster, as host=2,file=0.3"                                              \
    }
#define CLI_TRAIN_MEMORY(changes)                                                                  \
    {"budget",                                                                                     \
     0,                                                                                            \
     CLI_STRING,                                                                                   \
     &(changes)->budget,                                                                           \
     "BYTES",                                                                                      \
     "memory of the device, as 48MiB; never exceeded (default: as the file says, else\n"           \
     "unlimited)"},                                                                                \
        {"policy",                                                                                 \
         0,                                                                                        \
         CLI_STRING,                                                                               \
         &(changes)->policy,                                                                       \
         "NAME",                                                                                   \
         "policy or planner that keeps it ('ebb sim --help', 'ebb plan --help' list them)"},       \
        CLI_TRAIN_TIERS(changes),                                                                  \
    {                                                                                              \
        "file-path", 0, CLI_STRING, &(changes)->file_path, "DIR", "folder of that file"            \
    }
#define CLI_TRAIN_SETS(changes)                                                                    \
    "set", 0, CLI_LIST, &(changes)->sets, "KEY=VALUE",                                             \
        "change a value of the file, as opt.lr=0.1; repeatable"
#define CLI_TRAIN_COSTS(changes)                                                                   \
    "costs", 0, CLI_STRING, &(changes)->costs, "FILE",                                             \
        "profile whose times and links decide ('ebb device measure' makes one), or builtin"

/* Prints every mistake to stderr, in the order of the file. Returns -1 to go on, else the exit
 * code. The file must be closed in both cases. */
int cli_train_open(struct cli_train_file *file, const char *path,
                   const struct cli_train_changes *changes);
void cli_train_close(struct cli_train_file *file);
/* Whether a file that a long run writes at its end can be written: asked before it begins. */
enum ebb_status cli_train_target(const char *path, struct ebb_error *err);

/* For exp_config_options.check_section: checks ebb's own sections, with the smallest and, when that
 * is fine, the largest value of every hyperparameter. `context` is the folder where relative paths
 * begin; NULL: model files are not read. */
void cli_check_training(void *context, struct ebb_reading *reader, const char *section,
                        const struct ebb_doc_node *value, const struct exp_config *config);
/* The same of a file that is run as an experiment: the searcher's metric must be one that the task
 * reports. */
void cli_check_submission(void *context, struct ebb_reading *reading, const char *section,
                          const struct ebb_doc_node *value, const struct exp_config *config);

/* What the command line says, over a file's mapping; all but the seed and the folder. */
enum ebb_status cli_train_change(struct ebb_arena *arena, struct ebb_doc_node *root,
                                 const struct cli_train_changes *changes, struct ebb_error *err);
/* --file-path; -1, or the exit code: no file is made there. is_used: its folder is measured. */
int cli_train_folder(struct train_config *config, const struct cli_train_changes *changes,
                     bool is_used);
enum ebb_status cli_put_text(struct ebb_arena *arena, struct ebb_doc_node *root, const char *key,
                             const char *value, struct ebb_error *err); /* NULL: not given */
enum ebb_status cli_put_int(struct ebb_arena *arena, struct ebb_doc_node *root, const char *key,
                            int64_t value, struct ebb_error *err);
/* A file's mapping as one that may be changed. Prints mistakes; -1 to go on, else the exit code. */
int cli_load_mapping(struct ebb_arena *arena, const char *path, const char *what,
                     struct ebb_doc_node **root);

char *cli_folder_of(struct ebb_arena *arena, const char *path);

/* storage.c: an experiment file that says nothing about storage. */
extern const char cli_bare_file[];

/* An experiment file (rather than a trace or graph)? By its suffix: .yaml or .yml. */
bool cli_is_experiment(const char *path);
/* For commands that take traces: of a file in any trace format, or the training step of an
 * experiment file. */
enum ebb_status cli_load_trace(const char *path, struct trace **trace, struct ebb_error *err);
/* The same with changes of an experiment file; those that others cannot have are refused. */
enum ebb_status cli_load_trace_with(const char *path, const struct cli_train_changes *changes,
                                    struct trace **trace, struct ebb_error *err);

#endif
