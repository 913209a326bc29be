/* rows.h - what goes into queries and what comes out: a struct each, described once.
 *
 * A list below is a struct: X(struct, kind, name) is a member and the column of the same name.
 *
 *   kind    member                 null is
 *   INT     int64_t                EXP_DB_NO_INT
 *   BOOL    bool                   false
 *   DOUBLE  double                 NAN: numbers that are none are stored as text, or not at all
 *   TEXT    const char *           NULL
 *   BLOB    struct exp_db_bytes    data NULL
 */
#ifndef EBB_EXP_DB_ROWS_H
#define EBB_EXP_DB_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXP_DB_NO_INT INT64_MIN

struct exp_db_bytes {
    const void *data;
    size_t length;
};

/* ---- keys and single values ---- */

#define EXP_DB_ID_FIELDS(X, T) X(T, INT, id)
#define EXP_DB_NAME_FIELDS(X, T) X(T, TEXT, name)
#define EXP_DB_STEP_ID_FIELDS(X, T) X(T, INT, trial_id) X(T, INT, step_id)
#define EXP_DB_META_FIELDS(X, T) X(T, TEXT, key) X(T, TEXT, value)
#define EXP_DB_NOTE_FIELDS(X, T) X(T, TEXT, uuid) X(T, TEXT, note)

/* ---- experiments ---- */

#define EXP_DB_EXPERIMENT_STATE_FIELDS(X, T)                                                       \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, progress)                                                                         \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, DOUBLE, best_signed)                                                                      \
    X(T, INT, best_trial_id)                                                                       \
    X(T, INT, best_step_id)                                                                        \
    X(T, INT, num_trials)                                                                          \
    X(T, INT, num_ended)                                                                           \
    X(T, DOUBLE, weight)                                                                           \
    X(T, INT, max_slots)                                                                           \
    X(T, TEXT, error)

#define EXP_DB_EXPERIMENT_MADE_FIELDS(X, T)                                                        \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, state)                                                                              \
    X(T, TEXT, description)                                                                        \
    X(T, TEXT, labels)                                                                             \
    X(T, TEXT, owner)                                                                              \
    X(T, DOUBLE, progress)                                                                         \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, BOOL, archived)                                                                           \
    X(T, INT, parent_id)                                                                           \
    X(T, TEXT, searcher)                                                                           \
    X(T, TEXT, metric)                                                                             \
    X(T, BOOL, smaller_is_better)                                                                  \
    X(T, INT, num_trials)                                                                          \
    X(T, INT, num_ended)                                                                           \
    X(T, DOUBLE, weight)                                                                           \
    X(T, INT, max_slots)                                                                           \
    X(T, INT, save_experiment_best)                                                                \
    X(T, INT, save_trial_best)                                                                     \
    X(T, INT, save_trial_latest)

#define EXP_DB_EXPERIMENT_FIELDS(X, T)                                                             \
    EXP_DB_EXPERIMENT_MADE_FIELDS(X, T)                                                            \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, DOUBLE, best_signed)                                                                      \
    X(T, INT, best_trial_id)                                                                       \
    X(T, INT, best_step_id)                                                                        \
    X(T, TEXT, error)                                                                              \
    X(T, TEXT, notes)

#define EXP_DB_REASON_FIELDS(X, T) X(T, INT, id) X(T, TEXT, error)
#define EXP_DB_FAILURE_FIELDS(X, T) EXP_DB_REASON_FIELDS(X, T) X(T, DOUBLE, end_time)

/* What people say about one. */
#define EXP_DB_EXPERIMENT_TOLD_FIELDS(X, T)                                                        \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, description)                                                                        \
    X(T, TEXT, notes)                                                                              \
    X(T, TEXT, labels)                                                                             \
    X(T, BOOL, archived)                                                                           \
    X(T, DOUBLE, weight)                                                                           \
    X(T, INT, max_slots)                                                                           \
    X(T, INT, save_experiment_best)                                                                \
    X(T, INT, save_trial_best)                                                                     \
    X(T, INT, save_trial_latest)

/* What its searcher looks at. */
#define EXP_DB_SEARCHED_FIELDS(X, T)                                                               \
    X(T, TEXT, metric)                                                                             \
    X(T, BOOL, smaller_is_better)                                                                  \
    X(T, TEXT, config)

#define EXP_DB_CONFIG_FIELDS(X, T)                                                                 \
    X(T, INT, experiment_id)                                                                       \
    X(T, TEXT, config)                                                                             \
    X(T, TEXT, warm_start)                                                                         \
    X(T, TEXT, git_remote)                                                                         \
    X(T, TEXT, git_commit)                                                                         \
    X(T, TEXT, git_committer)                                                                      \
    X(T, TEXT, git_commit_date)                                                                    \
    X(T, TEXT, board)

#define EXP_DB_FILE_FIELDS(X, T)                                                                   \
    X(T, INT, experiment_id)                                                                       \
    X(T, TEXT, path)                                                                               \
    X(T, TEXT, type)                                                                               \
    X(T, INT, mode)                                                                                \
    X(T, INT, mtime)                                                                               \
    X(T, INT, size)                                                                                \
    X(T, BLOB, content)

#define EXP_DB_FILE_INFO_FIELDS(X, T)                                                              \
    X(T, TEXT, path)                                                                               \
    X(T, TEXT, type)                                                                               \
    X(T, INT, size)                                                                                \
    X(T, INT, mode)

#define EXP_DB_PATH_FIELDS(X, T) X(T, INT, experiment_id) X(T, TEXT, path)
#define EXP_DB_BYTES_FIELDS(X, T) X(T, BLOB, bytes)
#define EXP_DB_PAIR_FIELDS(X, T) X(T, INT, a) X(T, INT, b)

#define EXP_DB_EVENT_FIELDS(X, T)                                                                  \
    X(T, INT, experiment_id)                                                                       \
    X(T, INT, seq)                                                                                 \
    X(T, TEXT, type)                                                                               \
    X(T, TEXT, content)                                                                            \
    X(T, TEXT, operations)

/* ---- trials ---- */

#define EXP_DB_TRIAL_STATE_FIELDS(X, T)                                                            \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, INT, restarts)                                                                            \
    X(T, INT, steps)                                                                               \
    X(T, DOUBLE, best_signed)                                                                      \
    X(T, INT, best_step_id)                                                                        \
    X(T, DOUBLE, latest_signed)                                                                    \
    X(T, TEXT, sequence)                                                                           \
    X(T, TEXT, message)                                                                            \
    X(T, INT, log_offset)                                                                          \
    X(T, INT, log_bytes)

#define EXP_DB_TRIAL_MADE_FIELDS(X, T)                                                             \
    X(T, INT, id)                                                                                  \
    X(T, INT, experiment_id)                                                                       \
    X(T, TEXT, request_id)                                                                         \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, TEXT, hparams)                                                                            \
    X(T, INT, seed)                                                                                \
    X(T, TEXT, warm_start)                                                                         \
    X(T, TEXT, sequence)

#define EXP_DB_TRIAL_FIELDS(X, T)                                                                  \
    EXP_DB_TRIAL_STATE_FIELDS(X, T)                                                                \
    X(T, INT, experiment_id)                                                                       \
    X(T, TEXT, request_id)                                                                         \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, TEXT, hparams)                                                                            \
    X(T, INT, seed)                                                                                \
    X(T, TEXT, warm_start)

#define EXP_DB_WORK_FIELDS(X, T)                                                                   \
    X(T, TEXT, id)                                                                                 \
    X(T, INT, last_seq)                                                                            \
    X(T, INT, work_kind)                                                                           \
    X(T, INT, work_step)                                                                           \
    X(T, TEXT, work_uuid)                                                                          \
    X(T, INT, pid)

#define EXP_DB_ALLOC_FIELDS(X, T)                                                                  \
    EXP_DB_WORK_FIELDS(X, T)                                                                       \
    X(T, INT, trial_id)                                                                            \
    X(T, TEXT, slots)                                                                              \
    X(T, INT, pid_start)

/* With its trial's sequence. */
#define EXP_DB_ALLOC_KEPT_FIELDS(X, T) EXP_DB_ALLOC_FIELDS(X, T) X(T, TEXT, sequence)

#define EXP_DB_STEP_FIELDS(X, T)                                                                   \
    X(T, INT, trial_id)                                                                            \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, TEXT, metrics)

/* What single batches of a step reported. */
#define EXP_DB_BATCHES_FIELDS(X, T) X(T, INT, trial_id) X(T, INT, step_id) X(T, TEXT, metrics)

#define EXP_DB_VALIDATION_FIELDS(X, T)                                                             \
    X(T, INT, trial_id)                                                                            \
    X(T, INT, step_id)                                                                             \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, TEXT, metrics)                                                                            \
    X(T, DOUBLE, signed_metric)                                                                    \
    X(T, BOOL, is_best)

#define EXP_DB_LOG_FIELDS(X, T)                                                                    \
    X(T, INT, trial_id)                                                                            \
    X(T, INT, id)                                                                                  \
    X(T, DOUBLE, time)                                                                             \
    X(T, TEXT, level)                                                                              \
    X(T, BLOB, message)

/* As people see it. */
#define EXP_DB_TRIAL_SHOWN_FIELDS(X, T)                                                            \
    X(T, INT, id)                                                                                  \
    X(T, INT, experiment_id)                                                                       \
    X(T, TEXT, request_id)                                                                         \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, TEXT, hparams)                                                                            \
    X(T, INT, seed)                                                                                \
    X(T, INT, restarts)                                                                            \
    X(T, INT, steps)                                                                               \
    X(T, DOUBLE, best_signed)                                                                      \
    X(T, INT, best_step_id)                                                                        \
    X(T, DOUBLE, latest_signed)                                                                    \
    X(T, TEXT, warm_start)                                                                         \
    X(T, TEXT, message)                                                                            \
    X(T, BOOL, smaller_is_better)

/* A step with its validation (v_) and checkpoint (c_). */
#define EXP_DB_WORKLOAD_FIELDS(X, T)                                                               \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, TEXT, metrics)                                                                            \
    X(T, TEXT, v_state)                                                                            \
    X(T, DOUBLE, v_start_time)                                                                     \
    X(T, DOUBLE, v_end_time)                                                                       \
    X(T, TEXT, v_metrics)                                                                          \
    X(T, TEXT, c_state)                                                                            \
    X(T, DOUBLE, c_start_time)                                                                     \
    X(T, DOUBLE, c_end_time)                                                                       \
    X(T, TEXT, c_uuid)                                                                             \
    X(T, INT, c_size)

#define EXP_DB_POINT_FIELDS(X, T)                                                                  \
    X(T, INT, step_id)                                                                             \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, TEXT, metrics)

#define EXP_DB_SIGNED_POINT_FIELDS(X, T)                                                           \
    X(T, INT, step_id) X(T, DOUBLE, end_time) X(T, DOUBLE, signed_metric)

#define EXP_DB_CURVE_FIELDS(X, T) X(T, INT, trial_id) X(T, INT, experiment_id) X(T, BLOB, points)
#define EXP_DB_OLD_POINT_FIELDS(X, T)                                                              \
    X(T, INT, trial_id)                                                                            \
    X(T, INT, experiment_id)                                                                       \
    X(T, INT, step_id)                                                                             \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, DOUBLE, signed_metric)

/* What trials are sorted by. */
#define EXP_DB_TRIAL_KEY_FIELDS(X, T)                                                              \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, INT, restarts)                                                                            \
    X(T, INT, steps)                                                                               \
    X(T, DOUBLE, best_signed)                                                                      \
    X(T, DOUBLE, latest_signed)                                                                    \
    X(T, TEXT, hparams)

#define EXP_DB_BEST_FIELDS(X, T)                                                                   \
    X(T, INT, trial_id)                                                                            \
    X(T, INT, step_id)                                                                             \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, DOUBLE, signed_metric)

#define EXP_DB_SNAPSHOT_FIELDS(X, T)                                                               \
    X(T, INT, trial_id)                                                                            \
    X(T, TEXT, hparams)                                                                            \
    X(T, TEXT, metrics)

#define EXP_DB_WORKLOAD_KIND_FIELDS(X, T)                                                          \
    X(T, INT, trial_id)                                                                            \
    X(T, BOOL, has_checkpoint)                                                                     \
    X(T, BOOL, has_validation)

#define EXP_DB_WORKLOAD_RANGE_FIELDS(X, T)                                                         \
    EXP_DB_WORKLOAD_KIND_FIELDS(X, T)                                                              \
    X(T, INT, limit)                                                                               \
    X(T, INT, offset)

#define EXP_DB_LOG_RANGE_FIELDS(X, T)                                                              \
    X(T, INT, trial_id)                                                                            \
    X(T, INT, after)                                                                               \
    X(T, INT, before)                                                                              \
    X(T, TEXT, level)

/* ---- checkpoints ---- */

#define EXP_DB_CHECKPOINT_MADE_FIELDS(X, T)                                                        \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, uuid)                                                                               \
    X(T, INT, experiment_id)                                                                       \
    X(T, INT, trial_id)                                                                            \
    X(T, INT, step_id)                                                                             \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, TEXT, storage)

#define EXP_DB_CHECKPOINT_DONE_FIELDS(X, T)                                                        \
    X(T, TEXT, uuid)                                                                               \
    X(T, TEXT, state)                                                                              \
    X(T, DOUBLE, start_time)                                                                       \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, TEXT, resources)                                                                          \
    X(T, INT, size)

#define EXP_DB_CHECKPOINT_STATE_FIELDS(X, T) X(T, TEXT, uuid) X(T, TEXT, state)

/* With what its validation found and who needs it. */
#define EXP_DB_CHECKPOINT_FIELDS(X, T)                                                             \
    EXP_DB_CHECKPOINT_MADE_FIELDS(X, T)                                                            \
    X(T, DOUBLE, end_time)                                                                         \
    X(T, TEXT, resources)                                                                          \
    X(T, INT, size)                                                                                \
    X(T, TEXT, note)                                                                               \
    X(T, DOUBLE, signed_metric)                                                                    \
    X(T, BOOL, smaller_is_better)                                                                  \
    X(T, BOOL, is_source)

#define EXP_DB_STORED_FIELDS(X, T) X(T, TEXT, uuid) X(T, TEXT, storage)

/* Who needs a checkpoint. */
#define EXP_DB_NEEDED_FIELDS(X, T)                                                                 \
    X(T, TEXT, state)                                                                              \
    X(T, TEXT, storage)                                                                            \
    X(T, TEXT, experiment_state)                                                                   \
    X(T, BOOL, is_source)                                                                          \
    X(T, BOOL, is_wanted)

/* ---- users ---- */

#define EXP_DB_USER_MADE_FIELDS(X, T)                                                              \
    X(T, TEXT, name) X(T, BOOL, is_active) X(T, DOUBLE, created_time)
#define EXP_DB_USER_FIELDS(X, T) EXP_DB_USER_MADE_FIELDS(X, T) X(T, INT, num_experiments)
#define EXP_DB_USER_ACTIVE_FIELDS(X, T) X(T, TEXT, name) X(T, BOOL, is_active)

#define EXP_DB_TEMPLATE_FIELDS(X, T) X(T, TEXT, name) X(T, TEXT, config)

#define EXP_DB_TOKEN_FIELDS(X, T)                                                                  \
    X(T, INT, id)                                                                                  \
    X(T, TEXT, user_name)                                                                          \
    X(T, TEXT, kind) /* token, login */                                                            \
    X(T, TEXT, hash)                                                                               \
    X(T, BOOL, read_only)                                                                          \
    X(T, INT, parent_id)                                                                           \
    X(T, DOUBLE, created_time)                                                                     \
    X(T, DOUBLE, end_time)
#define EXP_DB_TOKEN_KNOWN_FIELDS(X, T) EXP_DB_TOKEN_FIELDS(X, T) X(T, BOOL, is_active)
#define EXP_DB_TIME_FIELDS(X, T) X(T, DOUBLE, time)

/* ---- the structs ---- */

#define EXP_DB_STRUCTS(S)                                                                          \
    S(exp_db_id, EXP_DB_ID_FIELDS)                                                                 \
    S(exp_db_name, EXP_DB_NAME_FIELDS)                                                             \
    S(exp_db_step_id, EXP_DB_STEP_ID_FIELDS)                                                       \
    S(exp_db_meta, EXP_DB_META_FIELDS)                                                             \
    S(exp_db_note, EXP_DB_NOTE_FIELDS)                                                             \
    S(exp_db_experiment_state, EXP_DB_EXPERIMENT_STATE_FIELDS)                                     \
    S(exp_db_experiment_made, EXP_DB_EXPERIMENT_MADE_FIELDS)                                       \
    S(exp_db_experiment, EXP_DB_EXPERIMENT_FIELDS)                                                 \
    S(exp_db_reason, EXP_DB_REASON_FIELDS)                                                         \
    S(exp_db_failure, EXP_DB_FAILURE_FIELDS)                                                       \
    S(exp_db_config, EXP_DB_CONFIG_FIELDS)                                                         \
    S(exp_db_file, EXP_DB_FILE_FIELDS)                                                             \
    S(exp_db_event, EXP_DB_EVENT_FIELDS)                                                           \
    S(exp_db_trial_state, EXP_DB_TRIAL_STATE_FIELDS)                                               \
    S(exp_db_trial_made, EXP_DB_TRIAL_MADE_FIELDS)                                                 \
    S(exp_db_trial, EXP_DB_TRIAL_FIELDS)                                                           \
    S(exp_db_work, EXP_DB_WORK_FIELDS)                                                             \
    S(exp_db_alloc, EXP_DB_ALLOC_FIELDS)                                                           \
    S(exp_db_alloc_kept, EXP_DB_ALLOC_KEPT_FIELDS)                                                 \
    S(exp_db_step, EXP_DB_STEP_FIELDS)                                                             \
    S(exp_db_validation, EXP_DB_VALIDATION_FIELDS)                                                 \
    S(exp_db_log, EXP_DB_LOG_FIELDS)                                                               \
    S(exp_db_checkpoint_made, EXP_DB_CHECKPOINT_MADE_FIELDS)                                       \
    S(exp_db_checkpoint_done, EXP_DB_CHECKPOINT_DONE_FIELDS)                                       \
    S(exp_db_checkpoint_state, EXP_DB_CHECKPOINT_STATE_FIELDS)                                     \
    S(exp_db_checkpoint, EXP_DB_CHECKPOINT_FIELDS)                                                 \
    S(exp_db_stored, EXP_DB_STORED_FIELDS)                                                         \
    S(exp_db_user_made, EXP_DB_USER_MADE_FIELDS)                                                   \
    S(exp_db_user, EXP_DB_USER_FIELDS)                                                             \
    S(exp_db_experiment_told, EXP_DB_EXPERIMENT_TOLD_FIELDS)                                       \
    S(exp_db_searched, EXP_DB_SEARCHED_FIELDS)                                                     \
    S(exp_db_file_info, EXP_DB_FILE_INFO_FIELDS)                                                   \
    S(exp_db_path, EXP_DB_PATH_FIELDS)                                                             \
    S(exp_db_blob, EXP_DB_BYTES_FIELDS)                                                            \
    S(exp_db_pair, EXP_DB_PAIR_FIELDS)                                                             \
    S(exp_db_trial_shown, EXP_DB_TRIAL_SHOWN_FIELDS)                                               \
    S(exp_db_workload, EXP_DB_WORKLOAD_FIELDS)                                                     \
    S(exp_db_workload_kind, EXP_DB_WORKLOAD_KIND_FIELDS)                                           \
    S(exp_db_workload_range, EXP_DB_WORKLOAD_RANGE_FIELDS)                                         \
    S(exp_db_point, EXP_DB_POINT_FIELDS)                                                           \
    S(exp_db_best, EXP_DB_BEST_FIELDS)                                                             \
    S(exp_db_snapshot, EXP_DB_SNAPSHOT_FIELDS)                                                     \
    S(exp_db_log_range, EXP_DB_LOG_RANGE_FIELDS)                                                   \
    S(exp_db_needed, EXP_DB_NEEDED_FIELDS)                                                         \
    S(exp_db_user_active, EXP_DB_USER_ACTIVE_FIELDS)                                               \
    S(exp_db_template, EXP_DB_TEMPLATE_FIELDS)                                                     \
    S(exp_db_signed_point, EXP_DB_SIGNED_POINT_FIELDS)                                             \
    S(exp_db_curve, EXP_DB_CURVE_FIELDS)                                                           \
    S(exp_db_old_point, EXP_DB_OLD_POINT_FIELDS)                                                   \
    S(exp_db_trial_key, EXP_DB_TRIAL_KEY_FIELDS)                                                   \
    S(exp_db_batches, EXP_DB_BATCHES_FIELDS)                                                       \
    S(exp_db_token, EXP_DB_TOKEN_FIELDS)                                                           \
    S(exp_db_token_known, EXP_DB_TOKEN_KNOWN_FIELDS)                                               \
    S(exp_db_time, EXP_DB_TIME_FIELDS)

#define EXP_DB_C_INT int64_t
#define EXP_DB_C_BOOL bool
#define EXP_DB_C_DOUBLE double
#define EXP_DB_C_TEXT const char *
#define EXP_DB_C_BLOB struct exp_db_bytes
#define EXP_DB_MEMBER(T, kind, name) EXP_DB_C_##kind name;
#define EXP_DB_STRUCT(type, FIELDS)                                                                \
    struct type {                                                                                  \
        FIELDS(EXP_DB_MEMBER, type)                                                                \
    };
EXP_DB_STRUCTS(EXP_DB_STRUCT)

#endif
