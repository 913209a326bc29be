/* pareto.h - private to harness: settings of a Pareto file, one per combination of its lists. */
#ifndef EBB_HARNESS_PARETO_H
#define EBB_HARNESS_PARETO_H

#include "base/report.h"
#include "harness/harness.h"

enum pareto_type {
    PARETO_BASELINE,
    PARETO_DTR,   /* dtr_eq, deciding while it runs */
    PARETO_SIMRD, /* a log under the rules of the published simulator */
    PARETO_NAMED, /* a policy or planner, planned first */
};

enum pareto_kind {
    PARETO_FIXED,
    PARETO_RATIO,
    PARETO_SWEEP,
    PARETO_USE_LOG,
    PARETO_GET_LOG,
    PARETO_KINDS,
    PARETO_NO_KIND = PARETO_KINDS
};

enum pareto_costs { PARETO_BUILTIN, PARETO_MEASURED };

struct harness_setup { /* a command with its lists unfolded */
    const char *model; /* as the file names it */
    int64_t command_id;
    size_t order;                      /* in the file, lists unfolded */
    const struct ebb_doc_node *params; /* what the file says of it, `default` included */
    enum pareto_type type;
    enum pareto_kind kind;
    /* keys */
    const char *type_name, *kind_name, *file_path;
    int64_t batch_size, n_inputs, n_reps, dry_run, max_retries;
    double memory_budget, ratio; /* budget: bytes, -1: none; NaN: not given */
    double timeout, attempt_timeout;
    double no_sampling_below_budget, no_sampling_below_ratio; /* NaN: not given */
    unsigned costs; /* enum pareto_costs: what decisions go by */
    bool use_profiling, ignore_small_tensors, use_sampling, retry_on_error, save_logs, paired;
    const struct ebb_doc_node *extra_params; /* NULL: none */
    /* what it is for train */
    const struct ebb_doc_node *section; /* `model` */
    int64_t samples;                    /* of a batch */
    const char *task;                   /* "regression" */
};

struct harness_pareto {
    const char *file;
    bool is_active, sync_gpu, save_logs, report_errors, set_seed;
    const char *const *models;
    size_t model_count;
    int64_t dry_run, n_inputs, n_reps, seed;
    const char *log_dest, *dtr_torch_cmd; /* ~ expanded; NULL: not given */
    const struct ebb_doc_node *const *notify;
    size_t notify_count;
    const struct ebb_doc_node *dtr_settings;
    struct harness_setup *setups; /* models in the order of their names, baselines first */
    size_t count, capacity;
};

/* Makes the section `model` and the number of samples out of batch_size and extra_params; mistakes
 * are reported at the parameters. `path` is that of the command. */
void harness_model_read(struct ebb_reading *reading, const struct ebb_path *path,
                        const struct ebb_doc_node *command, struct harness_setup *setup);
/* Is it a model of the zoo that can be measured? Otherwise the mistake is reported at `node`. */
bool harness_model_check(struct ebb_reading *reading, const struct ebb_path *path,
                         const struct ebb_doc_node *node, const char *name);

#endif
