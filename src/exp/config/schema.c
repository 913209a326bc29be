/* schema.c - the table of the experiment file.
 *
 * Everything that has one key in the file has one row here; see schema.h for what a row means.
 * Rules between keys are in rules.c, the meaning of values with a form of their own in forms.c. */
#include "exp/config/schema.h"

#include <string.h>

#include "exp/config/forms.h"
#include "exp/config/types.h"

/* Columns that most rows share. The macros only abbreviate initialisers: each row below is one
 * struct. */
#define AT(field) .at = offsetof(struct exp_config, field)
#define IN_STORAGE(field) .at = offsetof(struct exp_storage, field)
#define IN_SEARCHER(field) .at = offsetof(struct exp_searcher, field)
#define IN_HPARAM(field) .at = offsetof(struct exp_hparam, field)
#define IN_RESOURCES(field) .at = offsetof(struct exp_resources, field)
#define IN_MOUNT(field) .at = offsetof(struct exp_bind_mount, field)
#define IN_ENVIRONMENT(field) .at = offsetof(struct exp_environment, field)
#define IN_OPTIMIZATIONS(field) .at = offsetof(struct exp_optimizations, field)
#define ABSOLUTE .check = exp_form_absolute, .allowed = "an absolute path"
#define NONEMPTY .check = exp_form_nonempty, .allowed = "a string that is not empty"
#define PROPAGATION "private rprivate shared rshared slave rslave"
#define MODES "aggressive standard conservative"
#define SEARCHERS                                                                                  \
    "single random grid adaptive adaptive_simple pbt adaptive_asha async_halving tpe custom"
#define OWN EXP_OPTIONAL | EXP_QUIET | EXP_BEYOND

/* clang-format off */
const struct exp_row exp_schema[] = {
    /* ---- top level ---- */
    {.path = "description", .type = EXP_T_STRING, .flags = EXP_QUIET, AT(description),
     .help = "What the experiment is, for people. Need not be unique; an empty text is kept. Without one, three random words are chosen: `Experiment (quiet-amber-heron)`."},
    {.path = "labels", .type = EXP_T_LABELS, AT(labels),
     .help = "A set of words to find the experiment by. A mapping counts its keys. Labels of a template and of the file are united."},
    {.path = "data", .type = EXP_T_FREE, AT(data),
     .help = "Passed to the model untouched. With an `ebb:` or `onnx:` entrypoint it names the dataset and its options."},
    {.path = "entrypoint", .type = EXP_T_ENTRYPOINT, .flags = EXP_REQUIRED, AT(entrypoint),
     .help = "What a trial runs. `ebb:<task>`: a built-in task, one of " EXP_TASKS_TEXT ". `onnx:<path>`: an ONNX model. `<path>.so:<symbol>`: a shared object. `<pkg.mod>:<Class>`: a Python class, run through the client package. A list of strings, or `exec:<command line>`: any program."},
    {.path = "checkpoint_storage", .type = EXP_T_MAP, AT(checkpoint_storage),
     .help = "Where checkpoints are kept, and how many. Without one, the site's default is used."},
    {.path = "tensorboard_storage", .type = EXP_T_MAP, .flags = EXP_OPTIONAL | EXP_QUIET | EXP_OLD, AT(tensorboard_storage),
     .help = "Where event files go: the keys of `checkpoint_storage` without `save_*`. Default: `checkpoint_storage`."},
    {.path = "min_validation_period", .type = EXP_T_INT, .flags = EXP_NULLABLE, .bounds = "> 0", AT(min_validation_period),
     .help = "Validate at least every so many steps."},
    {.path = "checkpoint_policy", .type = EXP_T_ENUM, .names = "best all none", .preset = "best", AT(checkpoint_policy),
     .help = "Which validations are followed by a checkpoint: those better than all before in the experiment, all, or none. The last step of a trial always is."},
    {.path = "min_checkpoint_period", .type = EXP_T_INT, .flags = EXP_NULLABLE, .bounds = "> 0", AT(min_checkpoint_period),
     .help = "Take a checkpoint at least every so many steps."},
    {.path = "hyperparameters", .type = EXP_T_HPARAMS, AT(hyperparameters),
     .help = "Name to value or range. `global_batch_size` is required; each of its values must be a positive integer, at least `resources.slots_per_trial`. Any value that is not a mapping means `{type: const, val: <value>}`."},
    {.path = "searcher", .type = EXP_T_MAP, .flags = EXP_REQUIRED, .allowed = "a mapping with name, metric and the keys of that method", AT(searcher),
     .help = "Which trials are run, and for how long."},
    {.path = "resources", .type = EXP_T_MAP, AT(resources), .help = "What a trial and the experiment may use."},
    {.path = "batches_per_step", .type = EXP_T_INT, .preset = "100", .bounds = "> 0", AT(batches_per_step),
     .help = "A step, the unit of all search budgets, is so many batches."},
    {.path = "bind_mounts", .type = EXP_T_MOUNTS, AT(bind_mounts), .count_at = offsetof(struct exp_config, bind_mount_count),
     .help = "Directories of the machine to be seen by trials. Those of a template come first."},
    {.path = "environment", .type = EXP_T_MAP, AT(environment), .help = "Images and variables of trial processes."},
    {.path = "reproducibility", .type = EXP_T_MAP, .at = 0, .help = "What makes a search repeatable."},
    {.path = "max_restarts", .type = EXP_T_INT, .preset = "5", .bounds = ">= 0", AT(max_restarts),
     .help = "How often a failing trial is started again from its last checkpoint."},
    {.path = "optimizations", .type = EXP_T_MAP, AT(optimizations), .help = "Gradient accumulation, exchange and precision."},
    {.path = "debug", .type = EXP_T_BOOL, .flags = EXP_QUIET | EXP_OLD, .preset = "false", AT(debug),
     .help = "Debug log level in trial processes."},
    {.path = "security", .type = EXP_T_ANY, .flags = EXP_QUIET | EXP_OLD | EXP_NO_EFFECT, .at = SIZE_MAX, .help = "Accepted, ignored."},
    {.path = "internal", .type = EXP_T_ANY, .flags = EXP_QUIET | EXP_OLD | EXP_NO_EFFECT, .at = SIZE_MAX, .help = "Accepted, ignored."},
    {.path = "trial_failure", .type = EXP_T_ENUM, .flags = EXP_QUIET | EXP_BEYOND, .names = "fail_experiment continue", .preset = "fail_experiment", AT(trial_failure),
     .help = "When a trial has used up `max_restarts`: end the experiment, or go on without that trial."},
    {.path = "model", .type = EXP_T_FREE, .flags = OWN, AT(model),
     .help = "The built-in model and its options. Only with an `ebb:` or `onnx:` entrypoint, as the four sections below."},
    {.path = "opt", .type = EXP_T_FREE, .flags = OWN, AT(opt), .help = "The optimizer: `name`, `lr` and its options."},
    {.path = "lr_schedule", .type = EXP_T_FREE, .flags = OWN, AT(lr_schedule), .help = "How the rate changes over updates or epochs."},
    {.path = "loss", .type = EXP_T_FREE, .flags = OWN, AT(loss), .help = "The loss and its options."},
    {.path = "memory", .type = EXP_T_FREE, .flags = OWN, AT(memory), .help = "The budget in bytes, the policy or planner that keeps it, precision."},

    /* ---- checkpoint_storage ---- */
    {.path = "checkpoint_storage.type", .type = EXP_T_ENUM, .flags = EXP_TAG, .names = "shared_fs s3 gcs hdfs", IN_STORAGE(kind), .absent = EXP_STORAGE_NONE,
     .help = "Kind of store. Required as soon as a key of one kind is given and no lower layer names the kind."},
    {.path = "checkpoint_storage.save_experiment_best", .type = EXP_T_INT, .flags = EXP_RETENTION, .preset = "0", .bounds = ">= 0", IN_STORAGE(save_experiment_best),
     .help = "Checkpoints kept at the end: the best of the experiment,"},
    {.path = "checkpoint_storage.save_trial_best", .type = EXP_T_INT, .flags = EXP_RETENTION, .preset = "1", .bounds = ">= 0", IN_STORAGE(save_trial_best),
     .help = "the best of each trial,"},
    {.path = "checkpoint_storage.save_trial_latest", .type = EXP_T_INT, .flags = EXP_RETENTION, .preset = "1", .bounds = ">= 0", IN_STORAGE(save_trial_latest),
     .help = "and the latest of each trial."},
    {.path = "checkpoint_storage.host_path", .when = "shared_fs", .type = EXP_T_STRING, .flags = EXP_REQUIRED, ABSOLUTE, IN_STORAGE(host_path),
     .help = "Directory that every machine of the site sees."},
    {.path = "checkpoint_storage.container_path", .when = "shared_fs", .type = EXP_T_STRING, .preset = "/determined_shared_fs", ABSOLUTE, IN_STORAGE(container_path),
     .help = "Where trials see it when they run in a mount namespace."},
    {.path = "checkpoint_storage.storage_path", .when = "shared_fs", .type = EXP_T_STRING, .flags = EXP_NULLABLE, NONEMPTY, IN_STORAGE(storage_path),
     .help = "Directory for checkpoints, relative to `host_path` or absolute; must be `host_path` or lie below it."},
    {.path = "checkpoint_storage.propagation", .when = "shared_fs", .type = EXP_T_STRING, .preset = "rprivate", .names = PROPAGATION, IN_STORAGE(propagation),
     .help = "Propagation of the mount; means something only in a mount namespace."},
    {.path = "checkpoint_storage.checkpoint_path", .when = "shared_fs", .type = EXP_T_STRING, .flags = EXP_QUIET | EXP_OLD, NONEMPTY, IN_STORAGE(checkpoint_path),
     .help = "Old name of `storage_path`, used if neither that nor `tensorboard_path` is given."},
    {.path = "checkpoint_storage.tensorboard_path", .when = "shared_fs", .type = EXP_T_STRING, .flags = EXP_QUIET | EXP_OLD, NONEMPTY, IN_STORAGE(tensorboard_path),
     .help = "Old name of `storage_path`, used if that is not given."},
    {.path = "checkpoint_storage.bucket", .when = "s3 gcs", .type = EXP_T_STRING, .flags = EXP_REQUIRED, NONEMPTY, IN_STORAGE(bucket),
     .help = "Bucket."},
    {.path = "checkpoint_storage.access_key", .when = "s3", .type = EXP_T_STRING, .flags = EXP_QUIET, NONEMPTY, IN_STORAGE(access_key),
     .help = "Both keys or neither; without them the usual AWS sources are asked."},
    {.path = "checkpoint_storage.secret_key", .when = "s3", .type = EXP_T_STRING, .flags = EXP_QUIET | EXP_SECRET, NONEMPTY, IN_STORAGE(secret_key),
     .help = "Never shown: it reads `********`."},
    {.path = "checkpoint_storage.endpoint_url", .when = "s3", .type = EXP_T_STRING, .flags = EXP_QUIET, NONEMPTY, IN_STORAGE(endpoint_url),
     .help = "Server other than Amazon's; addressed path-style."},
    {.path = "checkpoint_storage.hdfs_url", .when = "hdfs", .type = EXP_T_STRING, .flags = EXP_REQUIRED, .check = exp_form_hdfs_url, .allowed = "one or more scheme://host:port, separated by ;", IN_STORAGE(hdfs_url),
     .help = "Name nodes, tried in order."},
    {.path = "checkpoint_storage.hdfs_path", .when = "hdfs", .type = EXP_T_STRING, .flags = EXP_REQUIRED, ABSOLUTE, IN_STORAGE(hdfs_path),
     .help = "Directory in HDFS."},
    {.path = "checkpoint_storage.user", .when = "hdfs", .type = EXP_T_STRING, .flags = EXP_QUIET, NONEMPTY, IN_STORAGE(user),
     .help = "User name given to HDFS; default: that of the process."},

    /* ---- hyperparameters ---- */
    {.path = "hyperparameters.*.type", .type = EXP_T_ENUM, .flags = EXP_TAG | EXP_REQUIRED, .names = "const int double log categorical", IN_HPARAM(kind),
     .help = "Kind of range."},
    {.path = "hyperparameters.*.val", .when = "const", .type = EXP_T_ANY, .flags = EXP_REQUIRED, IN_HPARAM(value),
     .help = "The value, of any shape."},
    {.path = "hyperparameters.*.minval", .when = "int", .type = EXP_T_INT, .flags = EXP_REQUIRED, IN_HPARAM(int_min),
     .help = "Smallest value."},
    {.path = "hyperparameters.*.maxval", .when = "int", .type = EXP_T_INT, .flags = EXP_REQUIRED, IN_HPARAM(int_max),
     .help = "Largest value, included; greater than `minval`."},
    {.path = "hyperparameters.*.base", .when = "log", .type = EXP_T_DOUBLE, .flags = EXP_REQUIRED, .bounds = "> 0", IN_HPARAM(base),
     .help = "Values are `base` to a power drawn evenly from the range."},
    {.path = "hyperparameters.*.minval", .when = "double log", .type = EXP_T_DOUBLE, .flags = EXP_REQUIRED, IN_HPARAM(min),
     .help = "Smallest value; of `log`, the smallest exponent."},
    {.path = "hyperparameters.*.maxval", .when = "double log", .type = EXP_T_DOUBLE, .flags = EXP_REQUIRED, IN_HPARAM(max),
     .help = "Upper end, greater than `minval`; of `log`, of the exponent."},
    {.path = "hyperparameters.*.count", .when = "int double log", .type = EXP_T_INT, .flags = EXP_QUIET, .bounds = "> 0", IN_HPARAM(count),
     .help = "Points on a grid. Required by searcher `grid`, without effect elsewhere."},
    {.path = "hyperparameters.*.vals", .when = "categorical", .type = EXP_T_ANY_LIST, .flags = EXP_REQUIRED, IN_HPARAM(values), .count_at = offsetof(struct exp_hparam, value_count),
     .help = "The values, of any shape; at least one."},

    /* ---- searcher ---- */
    {.path = "searcher.name", .type = EXP_T_ENUM, .flags = EXP_TAG | EXP_REQUIRED, .names = SEARCHERS, IN_SEARCHER(kind),
     .help = "Search method. The last four are additions of ebb."},
    {.path = "searcher.metric", .type = EXP_T_STRING, .flags = EXP_REQUIRED, NONEMPTY, IN_SEARCHER(metric),
     .help = "Name of the validation metric that decides."},
    {.path = "searcher.smaller_is_better", .type = EXP_T_BOOL, .preset = "true", IN_SEARCHER(smaller_is_better),
     .help = "Whether the metric is to be minimised."},
    {.path = "searcher.source_trial_id", .type = EXP_T_INT, .flags = EXP_NULLABLE, .bounds = "> 0", IN_SEARCHER(source_trial_id),
     .help = "Start every trial from the newest checkpoint of this trial. Not together with `source_checkpoint_uuid`."},
    {.path = "searcher.source_checkpoint_uuid", .type = EXP_T_STRING, .flags = EXP_NULLABLE, .check = exp_form_uuid, .allowed = "a UUID", IN_SEARCHER(source_checkpoint_uuid),
     .help = "Start every trial from this checkpoint."},
    {.path = "searcher.max_concurrent_trials", .type = EXP_T_INT, .flags = EXP_QUIET | EXP_BEYOND, .preset = "0", .bounds = ">= 0", IN_SEARCHER(max_concurrent_trials),
     .help = "How many trials run at a time; 0: no limit (`adaptive_asha`: chosen from the brackets; `tpe`: 10)."},
    {.path = "searcher.max_steps", .when = "single random grid adaptive_simple tpe", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0", IN_SEARCHER(max_steps),
     .help = "Steps of a trial (`adaptive_simple`: of the longest)."},
    {.path = "searcher.max_trials", .when = "random tpe adaptive_asha async_halving", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0, <= 1000000", IN_SEARCHER(max_trials),
     .help = "Number of trials."},
    {.path = "searcher.max_trials", .when = "adaptive_simple", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0, <= 2000", IN_SEARCHER(max_trials),
     .help = "Number of trials."},
    {.path = "searcher.target_trial_steps", .when = "adaptive", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0", IN_SEARCHER(target_trial_steps),
     .help = "Steps of the trials that get furthest."},
    {.path = "searcher.step_budget", .when = "adaptive", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0, <= 50000", IN_SEARCHER(step_budget),
     .help = "Steps of all trials together, about; greater than `target_trial_steps`."},
    {.path = "searcher.max_length", .when = "adaptive_asha async_halving", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0", IN_SEARCHER(max_length),
     .help = "Steps of the longest trials."},
    {.path = "searcher.mode", .when = "adaptive adaptive_simple adaptive_asha", .type = EXP_T_ENUM, .names = MODES, .preset = "standard", IN_SEARCHER(mode),
     .help = "How early trials are stopped: sets the brackets."},
    {.path = "searcher.divisor", .when = "adaptive adaptive_simple adaptive_asha async_halving", .type = EXP_T_DOUBLE, .preset = "4", .bounds = "> 1", IN_SEARCHER(divisor),
     .help = "One in so many trials goes on to the next rung."},
    {.path = "searcher.max_rungs", .when = "adaptive adaptive_simple adaptive_asha", .type = EXP_T_INT, .preset = "5", .bounds = "> 0, <= 1000", IN_SEARCHER(max_rungs),
     .help = "Rungs of the largest bracket."},
    {.path = "searcher.num_rungs", .when = "async_halving", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0, <= 1000", IN_SEARCHER(num_rungs),
     .help = "Rungs of the one bracket."},
    {.path = "searcher.bracket_rungs", .when = "adaptive adaptive_simple adaptive_asha", .type = EXP_T_INT_LIST, .flags = EXP_QUIET | EXP_OLD, .bounds = "> 0, <= 1000", IN_SEARCHER(bracket_rungs), .count_at = offsetof(struct exp_searcher, bracket_rungs_count),
     .help = "Explicit brackets instead of `mode` and `max_rungs`: the rungs of each."},
    {.path = "searcher.train_stragglers", .when = "adaptive adaptive_simple", .type = EXP_T_BOOL, .flags = EXP_QUIET | EXP_OLD | EXP_NO_EFFECT, .preset = "false", IN_SEARCHER(train_stragglers),
     .help = "Accepted, ignored."},
    {.path = "searcher.stop_once", .when = "adaptive_asha async_halving", .type = EXP_T_BOOL, .preset = "false", IN_SEARCHER(stop_once),
     .help = "Never pause a trial: decide at each rung whether it goes on or ends."},
    {.path = "searcher.population_size", .when = "pbt", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0, <= 1000000", IN_SEARCHER(population_size),
     .help = "Trials that train at the same time."},
    {.path = "searcher.num_rounds", .when = "pbt", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0", IN_SEARCHER(num_rounds),
     .help = "Rounds of training, replacing and exploring."},
    {.path = "searcher.steps_per_round", .when = "pbt", .type = EXP_T_INT, .flags = EXP_REQUIRED, .bounds = "> 0", IN_SEARCHER(steps_per_round),
     .help = "Steps of a trial in a round."},
    {.path = "searcher.replace_function", .when = "pbt", .type = EXP_T_MAP, .flags = EXP_REQUIRED, .allowed = "a mapping with truncate_fraction", .at = 0,
     .help = "Which trials are replaced."},
    {.path = "searcher.replace_function.truncate_fraction", .type = EXP_T_DOUBLE, .flags = EXP_REQUIRED, .bounds = ">= 0, <= 0.5", IN_SEARCHER(truncate_fraction),
     .help = "The worst trials, this fraction of all, end; copies of the best take their place."},
    {.path = "searcher.explore_function", .when = "pbt", .type = EXP_T_MAP, .flags = EXP_REQUIRED, .allowed = "a mapping with resample_probability and perturb_factor", .at = 0,
     .help = "How the hyperparameters of a copy change."},
    {.path = "searcher.explore_function.resample_probability", .type = EXP_T_DOUBLE, .flags = EXP_REQUIRED, .bounds = ">= 0, <= 1", IN_SEARCHER(resample_probability),
     .help = "Probability that a hyperparameter is drawn anew."},
    {.path = "searcher.explore_function.perturb_factor", .type = EXP_T_DOUBLE, .flags = EXP_REQUIRED, .bounds = ">= 0, <= 1", IN_SEARCHER(perturb_factor),
     .help = "Otherwise it is multiplied by one plus or minus this."},
    {.path = "searcher.startup_trials", .when = "tpe", .type = EXP_T_INT, .preset = "10", .bounds = "> 0, <= 1000000", IN_SEARCHER(startup_trials),
     .help = "Trials drawn at random before results decide."},
    {.path = "searcher.candidates", .when = "tpe", .type = EXP_T_INT, .preset = "24", .bounds = "> 0, <= 100000", IN_SEARCHER(candidates),
     .help = "Samples compared for each new trial."},
    {.path = "searcher.gamma", .when = "tpe", .type = EXP_T_DOUBLE, .preset = "0.25", .bounds = "> 0, < 1", IN_SEARCHER(gamma),
     .help = "The fraction of results that is called good."},
    {.path = "searcher.command", .when = "custom", .type = EXP_T_STRING_LIST, .flags = EXP_REQUIRED, IN_SEARCHER(command), .count_at = offsetof(struct exp_searcher, command_count),
     .help = "Program, with arguments, that reads events and answers with operations."},

    /* ---- resources ---- */
    {.path = "resources.max_slots", .type = EXP_T_INT, .flags = EXP_NULLABLE, .bounds = "> 0", IN_RESOURCES(max_slots),
     .help = "Slots of all trials together, at least `slots_per_trial`; null: no limit. Can be changed while running."},
    {.path = "resources.weight", .type = EXP_T_DOUBLE, .preset = "1", .bounds = "> 0", IN_RESOURCES(weight),
     .help = "Share of the experiment against others. Can be changed while running."},
    {.path = "resources.slots_per_trial", .type = EXP_T_INT, .preset = "1", .bounds = "> 0", IN_RESOURCES(slots_per_trial),
     .help = "Devices that one trial trains on."},
    {.path = "resources.shm_size", .type = EXP_T_INT, .flags = EXP_NULLABLE, .bounds = ">= 0", IN_RESOURCES(shm_size), .absent = -1,
     .help = "Upper bound of shared memory in bytes; null: the site's default, 4294967296."},
    {.path = "resources.agent_label", .type = EXP_T_STRING, .flags = EXP_QUIET | EXP_OLD, .preset = "", IN_RESOURCES(agent_label),
     .help = "Run only on agents with exactly this label."},
    {.path = "resources.native_parallel", .type = EXP_T_BOOL, .flags = EXP_QUIET | EXP_OLD, .preset = "false", IN_RESOURCES(native_parallel),
     .help = "If true, the batch of a slot is the global batch."},

    /* ---- bind_mounts ---- */
    {.path = "bind_mounts[].host_path", .type = EXP_T_STRING, .flags = EXP_REQUIRED, ABSOLUTE, IN_MOUNT(host_path),
     .help = "Directory or file on the machine."},
    {.path = "bind_mounts[].container_path", .type = EXP_T_STRING, .flags = EXP_REQUIRED, .check = exp_form_mount_target, .allowed = "a path other than the working directory itself", IN_MOUNT(container_path),
     .help = "Where the trial sees it; relative to its working directory unless absolute."},
    {.path = "bind_mounts[].read_only", .type = EXP_T_BOOL, .preset = "false", IN_MOUNT(read_only),
     .help = "Refuse writes."},
    {.path = "bind_mounts[].propagation", .type = EXP_T_STRING, .preset = "rprivate", .names = PROPAGATION, IN_MOUNT(propagation),
     .help = "Propagation of the mount."},

    /* ---- environment ---- */
    {.path = "environment.image", .type = EXP_T_IMAGE, .flags = EXP_QUIET, IN_ENVIRONMENT(image_cpu),
     .help = "Container image. A string counts for trials on CPU and GPU alike; in a mapping a missing side has no image. Default: the site's."},
    {.path = "environment.force_pull_image", .type = EXP_T_BOOL, .preset = "false", IN_ENVIRONMENT(force_pull_image),
     .help = "Fetch the image even if it is there."},
    {.path = "environment.registry_auth", .type = EXP_T_MAP, .flags = EXP_OPTIONAL | EXP_QUIET | EXP_SECRET, .allowed = "a mapping with username and password", .at = 0,
     .help = "Credentials for the image's registry. Never shown: it reads `********`."},
    {.path = "environment.registry_auth.username", .type = EXP_T_STRING, .flags = EXP_REQUIRED, NONEMPTY, IN_ENVIRONMENT(registry_username),
     .help = "User name."},
    {.path = "environment.registry_auth.password", .type = EXP_T_STRING, .flags = EXP_REQUIRED | EXP_SECRET, IN_ENVIRONMENT(registry_password),
     .help = "Password."},
    {.path = "environment.registry_auth.server", .type = EXP_T_STRING, .flags = EXP_QUIET, NONEMPTY, IN_ENVIRONMENT(registry_server),
     .help = "Registry; default: Docker Hub."},
    {.path = "environment.registry_auth.serveraddress", .type = EXP_T_STRING, .flags = EXP_QUIET | EXP_OLD, NONEMPTY, IN_ENVIRONMENT(registry_serveraddress),
     .help = "Other spelling of `server`."},
    {.path = "environment.registry_auth.email", .type = EXP_T_STRING, .flags = EXP_QUIET, NONEMPTY, IN_ENVIRONMENT(registry_email),
     .help = "Address of the user."},
    {.path = "environment.environment_variables", .type = EXP_T_VARIABLES, IN_ENVIRONMENT(variables_cpu),
     .help = "Variables of trial processes. A list counts for CPU and GPU alike. Those of a template come first; of two with one name the later counts."},
    {.path = "environment.ports", .type = EXP_T_PORTS, .flags = EXP_QUIET | EXP_OLD | EXP_NO_EFFECT, .at = SIZE_MAX,
     .help = "Accepted, ignored."},

    /* ---- reproducibility ---- */
    {.path = "reproducibility.experiment_seed", .type = EXP_T_INT, .flags = EXP_QUIET, .bounds = ">= 0, <= 2147483647", AT(experiment_seed), .absent = -1,
     .help = "Seed of the search and of every trial. Default: the time of submission in seconds, its lowest 31 bits."},

    /* ---- optimizations ---- */
    {.path = "optimizations.aggregation_frequency", .type = EXP_T_INT, .preset = "1", .bounds = "> 0", IN_OPTIMIZATIONS(aggregation_frequency),
     .help = "Batches whose gradients are added up before one update."},
    {.path = "optimizations.average_aggregated_gradients", .type = EXP_T_BOOL, .preset = "true", IN_OPTIMIZATIONS(average_aggregated_gradients),
     .help = "Divide the sum by their number."},
    {.path = "optimizations.gradient_compression", .type = EXP_T_BOOL, .preset = "false", IN_OPTIMIZATIONS(gradient_compression),
     .help = "Exchange gradients in half precision. Without effect on one slot."},
    {.path = "optimizations.mixed_precision", .type = EXP_T_ENUM, .names = "O0 O1 O2 O3", .preset = "O0", .allowed = "O0, O1, O2, O3 (the letter O, then a digit)", IN_OPTIMIZATIONS(mixed_precision),
     .help = "Half precision on GPUs. Not together with `memory.precision`."},
    {.path = "optimizations.tensor_fusion_threshold", .type = EXP_T_INT, .preset = "64", .bounds = ">= 0", IN_OPTIMIZATIONS(tensor_fusion_threshold),
     .help = "Gradients are exchanged in buffers of up to so many MiB; 0: one by one. Without effect on one slot."},
    {.path = "optimizations.tensor_fusion_cycle_time", .type = EXP_T_INT, .preset = "5", .bounds = ">= 0", IN_OPTIMIZATIONS(tensor_fusion_cycle_time),
     .help = "Milliseconds to wait for further gradients before a buffer is sent. Without effect on one slot."},
    {.path = "optimizations.auto_tune_tensor_fusion", .type = EXP_T_BOOL, .preset = "false", IN_OPTIMIZATIONS(auto_tune_tensor_fusion),
     .help = "Find the two numbers above by trial during the first steps. Without effect on one slot."},
    {.path = "optimizations.grad_updates_size_file", .type = EXP_T_STRING, .flags = EXP_QUIET | EXP_OLD | EXP_NO_EFFECT, IN_OPTIMIZATIONS(grad_updates_size_file),
     .help = "Accepted, ignored."},
};
/* clang-format on */

const size_t exp_schema_count = sizeof exp_schema / sizeof exp_schema[0];

const char *exp_row_key(const struct exp_row *row)
{
    const char *dot = strrchr(row->path, '.');
    return dot ? dot + 1 : row->path;
}

bool exp_row_in(const struct exp_row *row, const char *prefix)
{
    if (prefix[0] == '\0')
        return strchr(row->path, '.') == NULL;
    if (row->path[0] != prefix[0])
        return false; /* most rows, and every mapping asks all of them */
    size_t n = strlen(prefix);
    return strncmp(row->path, prefix, n) == 0 && row->path[n] == '.' &&
           strchr(row->path + n + 1, '.') == NULL;
}

bool exp_words_find(const char *words, const char *word, size_t length, size_t *index)
{
    size_t n = 0;
    const char *at;
    for (size_t i = 0; (at = exp_words_at(words, i, &n)) != NULL; i++) {
        if (n == length && memcmp(at, word, n) == 0) {
            if (index)
                *index = i;
            return true;
        }
    }
    return false;
}

const char *exp_words_at(const char *words, size_t index, size_t *length)
{
    const char *at = words;
    while (*at) {
        *length = strcspn(at, " ");
        if (index-- == 0)
            return at;
        at += *length;
        at += strspn(at, " ");
    }
    return NULL;
}

size_t exp_words_count(const char *words)
{
    size_t n = 0, count = 0;
    while (exp_words_at(words, count, &n))
        count++;
    return count;
}

bool exp_row_applies(const struct exp_row *row, const char *tag)
{
    if (!row->when)
        return true;
    return tag && exp_words_find(row->when, tag, strlen(tag), NULL);
}

const struct exp_row *exp_schema_find(const char *prefix, const char *tag, const char *key,
                                      size_t length, bool *foreign)
{
    const struct exp_row *other = NULL;
    *foreign = false;
    for (size_t i = 0; i < exp_schema_count; i++) {
        const struct exp_row *row = &exp_schema[i];
        if (!exp_row_in(row, prefix))
            continue;
        const char *name = exp_row_key(row);
        if (strlen(name) != length || memcmp(name, key, length) != 0)
            continue;
        if (exp_row_applies(row, tag))
            return row;
        other = row;
    }
    *foreign = other != NULL;
    return other;
}

const struct exp_row *exp_schema_tag(const char *prefix)
{
    for (size_t i = 0; i < exp_schema_count; i++)
        if ((exp_schema[i].flags & EXP_TAG) && exp_row_in(&exp_schema[i], prefix))
            return &exp_schema[i];
    return NULL;
}

const char *exp_row_section(const struct exp_row *row)
{
    if (row->type == EXP_T_HPARAMS)
        return "hyperparameters.*";
    if (row->type == EXP_T_MOUNTS)
        return "bind_mounts[]";
    if (strcmp(row->path, "tensorboard_storage") == 0)
        return "checkpoint_storage"; /* the same keys, less the retention counts */
    return row->path;
}
