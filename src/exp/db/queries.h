/* queries.h - every statement, once: a function with a struct in and a struct out. Part of db.h.
 *
 *   READ(function, in, out, sql)    struct exp_db_cursor function(db, const struct in *, struct out *, err)
 *   WRITE(function, in, sql)        enum ebb_status function(db, const struct in *, err)
 *
 * In the text of a statement
 *
 *   $1, $2   are the members of `in`, in their order
 *   @        is the list of columns of `out` (of `in` where nothing comes out)
 *   #        is $1, $2, ... for every member of `in`
 *   &        is "column = $n" for every member of `in` but the first, which is the key
 *
 * SQL that SQLite and PostgreSQL both speak; no engine's own functions. A statement is prepared when
 * it is first used. To add one: a row here, and a struct in rows.h when none fits. */
#ifndef EBB_EXP_DB_QUERIES_H
#define EBB_EXP_DB_QUERIES_H

/* A checkpoint with its validation's metric; is_source: a trial was started from it. */
#define EXP_DB_FROM_CHECKPOINTS                                                                    \
    " FROM (SELECT c.*, v.signed_metric, e.smaller_is_better, EXISTS (SELECT 1 FROM trials t"      \
    " WHERE t.warm_start = c.uuid) AS is_source FROM checkpoints c JOIN experiments e ON"          \
    " e.id = c.experiment_id LEFT JOIN validations v ON v.trial_id = c.trial_id AND"               \
    " v.step_id = c.step_id) AS r"

/* A trial with what its experiment's searcher calls better. */
#define EXP_DB_FROM_TRIALS                                                                         \
    " FROM (SELECT t.*, e.smaller_is_better FROM trials t JOIN experiments e"                      \
    " ON e.id = t.experiment_id) AS r"

#define EXP_DB_FROM_USERS                                                                          \
    " FROM (SELECT u.*, (SELECT COUNT(*) FROM experiments e WHERE e.owner = u.name)"               \
    " AS num_experiments FROM users u) AS r"
#define EXP_DB_WORKLOAD_COLUMNS                                                                    \
    "s.id, s.state, s.start_time, s.end_time, s.metrics, v.state AS v_state,"                      \
    " v.start_time AS v_start_time, v.end_time AS v_end_time, v.metrics AS v_metrics,"             \
    " c.state AS c_state, c.start_time AS c_start_time, c.end_time AS c_end_time,"                 \
    " c.uuid AS c_uuid, c.size AS c_size"
#define EXP_DB_FROM_STEPS                                                                          \
    " FROM steps s"                                                                                \
    " LEFT JOIN validations v ON v.trial_id = s.trial_id AND v.step_id = s.id"                     \
    " LEFT JOIN checkpoints c ON c.trial_id = s.trial_id AND c.step_id = s.id"

#define EXP_DB_QUERIES(READ, WRITE)                                                                \
    /* numbers and words that belong to the whole */                                               \
    READ(exp_db_version_read, exp_db_none, exp_db_id,                                              \
         "SELECT COALESCE(MAX(version), 0) FROM schema_version")                                   \
    WRITE(exp_db_version_add, exp_db_id, "INSERT INTO schema_version (version) VALUES ($1)")       \
    READ(exp_db_meta_read, exp_db_name, exp_db_name, "SELECT value FROM meta WHERE key = $1")      \
    WRITE(exp_db_meta_write, exp_db_meta,                                                          \
          "INSERT INTO meta (@) VALUES (#) ON CONFLICT (key) DO UPDATE SET value = $2")            \
    READ(exp_db_last_experiment, exp_db_none, exp_db_id,                                           \
         "SELECT COALESCE(MAX(id), 0) FROM experiments")                                           \
    READ(exp_db_last_trial, exp_db_none, exp_db_id, "SELECT COALESCE(MAX(id), 0) FROM trials")     \
    READ(exp_db_last_checkpoint, exp_db_none, exp_db_id,                                           \
         "SELECT COALESCE(MAX(id), 0) FROM checkpoints")                                           \
                                                                                                   \
    /* experiments */                                                                              \
    READ(exp_db_experiment_read, exp_db_id, exp_db_experiment,                                     \
         "SELECT @ FROM experiments WHERE id = $1")                                                \
    READ(exp_db_experiments_going, exp_db_none, exp_db_id,                                         \
         "SELECT id FROM experiments WHERE state IN ('ACTIVE', 'PAUSED', 'STOPPING_CANCELED',"     \
         " 'STOPPING_COMPLETED', 'STOPPING_ERROR') ORDER BY id")                                   \
    READ(exp_db_awaited, exp_db_none, exp_db_name,                                                 \
         "SELECT k.warm_start FROM experiment_configs k JOIN experiments x ON x.id ="              \
         " k.experiment_id WHERE k.warm_start IS NOT NULL AND x.end_time IS NULL")                 \
    READ(exp_db_experiments_deleting, exp_db_none, exp_db_id,                                      \
         "SELECT id FROM experiments WHERE state = 'DELETING'")                                    \
    WRITE(exp_db_experiment_write, exp_db_experiment_state,                                        \
          "UPDATE experiments SET & WHERE id = $1")                                                \
    WRITE(exp_db_experiment_set_aside, exp_db_failure,                                             \
          "UPDATE experiments SET state = 'ERROR', & WHERE id = $1")                               \
    WRITE(exp_db_experiment_deleting, exp_db_id,                                                   \
          "UPDATE experiments SET state = 'DELETING' WHERE id = $1")                               \
    WRITE(exp_db_experiment_not_deleted, exp_db_reason,                                            \
          "UPDATE experiments SET state = 'DELETE_FAILED', & WHERE id = $1")                       \
    WRITE(exp_db_experiment_delete, exp_db_id, "DELETE FROM experiments WHERE id = $1")            \
    READ(exp_db_config_read, exp_db_id, exp_db_config,                                             \
         "SELECT @ FROM experiment_configs WHERE experiment_id = $1")                              \
    WRITE(exp_db_config_delete, exp_db_id,                                                         \
          "DELETE FROM experiment_configs WHERE experiment_id = $1")                               \
    READ(exp_db_files, exp_db_id, exp_db_file,                                                     \
         "SELECT @ FROM model_files WHERE experiment_id = $1 ORDER BY path")                       \
    READ(exp_db_files_count, exp_db_id, exp_db_id,                                                 \
         "SELECT COUNT(*) FROM model_files WHERE experiment_id = $1")                              \
    WRITE(exp_db_files_delete, exp_db_id, "DELETE FROM model_files WHERE experiment_id = $1")      \
    READ(exp_db_events, exp_db_id, exp_db_event,                                                   \
         "SELECT @ FROM searcher_events WHERE experiment_id = $1 ORDER BY seq")                    \
    WRITE(exp_db_event_add, exp_db_event, "INSERT INTO searcher_events (@) VALUES (#)")            \
    WRITE(exp_db_events_delete, exp_db_id, "DELETE FROM searcher_events WHERE experiment_id = $1") \
                                                                                                   \
    /* trials */                                                                                   \
    READ(exp_db_trials, exp_db_id, exp_db_trial,                                                   \
         "SELECT @ FROM trials WHERE experiment_id = $1 ORDER BY id")                              \
    WRITE(exp_db_trial_add, exp_db_trial_made,                                                     \
          "INSERT INTO trials (@, restarts, steps, log_offset, log_bytes)"                         \
          " VALUES (#, 0, 0, 0, 0)")                                                               \
    WRITE(exp_db_trial_write, exp_db_trial_state, "UPDATE trials SET & WHERE id = $1")             \
    WRITE(exp_db_trials_set_aside, exp_db_id,                                                      \
          "UPDATE trials SET state = 'ERROR' WHERE experiment_id = $1 AND state = 'ACTIVE'")       \
    WRITE(exp_db_trials_delete, exp_db_id, "DELETE FROM trials WHERE experiment_id = $1")          \
    READ(exp_db_allocs, exp_db_none, exp_db_alloc_kept,                                            \
         "SELECT @ FROM (SELECT a.*, t.sequence FROM allocations a LEFT JOIN trials t"             \
         " ON t.id = a.trial_id) AS r ORDER BY trial_id")                                          \
    WRITE(exp_db_alloc_add, exp_db_alloc, "INSERT INTO allocations (@) VALUES (#)")                \
    WRITE(exp_db_alloc_write, exp_db_work, "UPDATE allocations SET & WHERE id = $1")               \
    WRITE(exp_db_alloc_delete, exp_db_name, "DELETE FROM allocations WHERE id = $1")               \
    WRITE(exp_db_step_add, exp_db_step, "INSERT INTO steps (@) VALUES (#)")                        \
    WRITE(exp_db_steps_forget, exp_db_step_id,                                                     \
          "DELETE FROM steps WHERE trial_id = $1 AND id > $2")                                     \
    WRITE(exp_db_steps_delete, exp_db_id,                                                          \
          "DELETE FROM steps WHERE trial_id IN (SELECT id FROM trials WHERE experiment_id = $1)")  \
    WRITE(exp_db_batches_add, exp_db_batches, "INSERT INTO batches (@) VALUES (#)")                \
    WRITE(exp_db_batches_forget, exp_db_step_id,                                                   \
          "DELETE FROM batches WHERE trial_id = $1 AND step_id > $2")                              \
    WRITE(exp_db_batches_delete, exp_db_id,                                                        \
          "DELETE FROM batches WHERE trial_id IN"                                                  \
          " (SELECT id FROM trials WHERE experiment_id = $1)")                                     \
    READ(exp_db_batches_read, exp_db_step_id, exp_db_name,                                         \
         "SELECT metrics FROM batches WHERE trial_id = $1 AND step_id = $2")                       \
    /* of old rows: steps after one, whose batches stand among their metrics */                    \
    READ(exp_db_steps_after, exp_db_step_id, exp_db_batches,                                       \
         "SELECT trial_id, id AS step_id, metrics FROM steps WHERE (trial_id > $1 OR"              \
         " (trial_id = $1 AND id > $2)) AND metrics LIKE '%\"batch_metrics\"%'"                    \
         " ORDER BY trial_id, id LIMIT 256")                                                       \
    WRITE(exp_db_step_set, exp_db_batches,                                                         \
          "UPDATE steps SET metrics = $3 WHERE trial_id = $1 AND id = $2")                         \
    WRITE(exp_db_validation_add, exp_db_validation, "INSERT INTO validations (@) VALUES (#)")      \
    WRITE(exp_db_validations_forget, exp_db_step_id,                                               \
          "DELETE FROM validations WHERE trial_id = $1 AND step_id > $2")                          \
    WRITE(exp_db_validations_delete, exp_db_id,                                                    \
          "DELETE FROM validations WHERE trial_id IN"                                              \
          " (SELECT id FROM trials WHERE experiment_id = $1)")                                     \
    READ(exp_db_last_log, exp_db_id, exp_db_id,                                                    \
         "SELECT COALESCE(MAX(id), 0) FROM trial_logs WHERE trial_id = $1")                        \
    WRITE(exp_db_log_add, exp_db_log, "INSERT INTO trial_logs (@) VALUES (#)")                     \
    WRITE(exp_db_logs_delete, exp_db_id,                                                           \
          "DELETE FROM trial_logs WHERE trial_id IN"                                               \
          " (SELECT id FROM trials WHERE experiment_id = $1)")                                     \
                                                                                                   \
    /* checkpoints */                                                                              \
    READ(exp_db_checkpoint_read, exp_db_name, exp_db_checkpoint,                                   \
         "SELECT @" EXP_DB_FROM_CHECKPOINTS " WHERE uuid = $1")                                    \
    READ(exp_db_checkpoint_at, exp_db_step_id, exp_db_checkpoint,                                  \
         "SELECT @" EXP_DB_FROM_CHECKPOINTS " WHERE trial_id = $1 AND step_id = $2")               \
    /* the one of that step, else the newest */                                                    \
    READ(exp_db_checkpoint_near, exp_db_step_id, exp_db_name,                                      \
         "SELECT uuid FROM checkpoints WHERE trial_id = $1 AND state = 'COMPLETED'"                \
         " ORDER BY CASE WHEN step_id = $2 THEN 0 ELSE 1 END, step_id DESC LIMIT 1")               \
    READ(exp_db_checkpoints, exp_db_id, exp_db_checkpoint,                                         \
         "SELECT @" EXP_DB_FROM_CHECKPOINTS " WHERE experiment_id = $1 ORDER BY id")               \
    WRITE(exp_db_checkpoint_add, exp_db_checkpoint_made, "INSERT INTO checkpoints (@) VALUES (#)") \
    WRITE(exp_db_checkpoint_write, exp_db_checkpoint_done,                                         \
          "UPDATE checkpoints SET & WHERE uuid = $1")                                              \
    /* one that never got to its store stays an ERROR */                                           \
    WRITE(exp_db_checkpoint_removed, exp_db_name,                                                  \
          "UPDATE checkpoints SET state = CASE WHEN state = 'ERROR' THEN state ELSE 'DELETED'"     \
          " END, note = NULL WHERE uuid = $1")                                                     \
    WRITE(exp_db_checkpoint_set_state, exp_db_checkpoint_state,                                    \
          "UPDATE checkpoints SET & WHERE uuid = $1")                                              \
    /* sealed on this machine, on the way to their store */                                        \
    READ(exp_db_checkpoints_staged, exp_db_none, exp_db_checkpoint,                                \
         "SELECT @" EXP_DB_FROM_CHECKPOINTS " WHERE state = 'ACTIVE' AND resources IS NOT NULL"    \
         " ORDER BY id")                                                                           \
    READ(exp_db_checkpoint_below, exp_db_step_id, exp_db_checkpoint,                               \
         "SELECT @" EXP_DB_FROM_CHECKPOINTS " WHERE trial_id = $1 AND step_id < $2 AND"            \
         " (state = 'COMPLETED' OR (state = 'ACTIVE' AND resources IS NOT NULL))"                  \
         " ORDER BY step_id DESC LIMIT 1")                                                         \
    WRITE(exp_db_checkpoint_note, exp_db_note, "UPDATE checkpoints SET & WHERE uuid = $1")         \
    WRITE(exp_db_checkpoint_delete, exp_db_name, "DELETE FROM checkpoints WHERE uuid = $1")        \
    WRITE(exp_db_checkpoints_delete, exp_db_id,                                                    \
          "DELETE FROM checkpoints WHERE experiment_id = $1")                                      \
    /* those of experiments that are being deleted go with them */                                 \
    READ(exp_db_removals, exp_db_none, exp_db_stored,                                              \
         "SELECT @ FROM removals WHERE uuid NOT IN (SELECT c.uuid FROM checkpoints c JOIN"         \
         " experiments e ON e.id = c.experiment_id WHERE e.state = 'DELETING')")                   \
    WRITE(exp_db_removal_add, exp_db_stored,                                                       \
          "INSERT INTO removals (@) VALUES (#)"                                                    \
          " ON CONFLICT (uuid) DO UPDATE SET storage = $2, note = NULL")                           \
    WRITE(exp_db_removal_note, exp_db_note, "UPDATE removals SET & WHERE uuid = $1")               \
    WRITE(exp_db_removal_done, exp_db_name, "DELETE FROM removals WHERE uuid = $1")                \
                                                                                                   \
    /* users */                                                                                    \
    READ(exp_db_user_read, exp_db_name, exp_db_user,                                               \
         "SELECT @" EXP_DB_FROM_USERS " WHERE name = $1")                                          \
    WRITE(exp_db_user_add, exp_db_user_made, "INSERT INTO users (@) VALUES (#)")                   \
                                                                                                   \
    /* for answers: experiments */                                                                 \
    READ(exp_db_experiment_has, exp_db_id, exp_db_id, "SELECT id FROM experiments WHERE id = $1")  \
    READ(exp_db_experiment_told, exp_db_id, exp_db_experiment_told,                                \
         "SELECT @ FROM experiments WHERE id = $1")                                                \
    WRITE(exp_db_experiment_tell, exp_db_experiment_told,                                          \
          "UPDATE experiments SET & WHERE id = $1")                                                \
    WRITE(exp_db_experiment_add, exp_db_experiment_made, "INSERT INTO experiments (@) VALUES (#)") \
    WRITE(exp_db_config_add, exp_db_config, "INSERT INTO experiment_configs (@) VALUES (#)")       \
    WRITE(exp_db_file_add, exp_db_file, "INSERT INTO model_files (@) VALUES (#)")                  \
    /* of b for a */                                                                               \
    WRITE(exp_db_files_copy, exp_db_pair,                                                          \
          "INSERT INTO model_files (experiment_id, path, type, mode, mtime, size, content)"        \
          " SELECT $1, path, type, mode, mtime, size, content FROM model_files"                    \
          " WHERE experiment_id = $2")                                                             \
    READ(exp_db_files_info, exp_db_id, exp_db_file_info,                                           \
         "SELECT @ FROM model_files WHERE experiment_id = $1 ORDER BY path")                       \
    READ(exp_db_file_read, exp_db_path, exp_db_blob,                                               \
         "SELECT content FROM model_files WHERE experiment_id = $1 AND path = $2"                  \
         " AND type <> 'dir'")                                                                     \
    READ(exp_db_searched_read, exp_db_id, exp_db_searched,                                         \
         "SELECT @ FROM experiments e JOIN experiment_configs c ON c.experiment_id = e.id"         \
         " WHERE e.id = $1")                                                                       \
    /* one that has not ended and starts its trials from a checkpoint of this one */               \
    READ(exp_db_experiment_needed_by, exp_db_id, exp_db_id,                                        \
         "SELECT MIN(x.id) FROM experiment_configs k JOIN experiments x ON x.id ="                 \
         " k.experiment_id JOIN checkpoints c ON c.uuid = k.warm_start WHERE"                      \
         " c.experiment_id = $1 AND x.id <> $1 AND x.end_time IS NULL")                            \
                                                                                                   \
    /* for answers: trials */                                                                      \
    READ(exp_db_trial_has, exp_db_id, exp_db_id, "SELECT id FROM trials WHERE id = $1")            \
    READ(exp_db_trial_experiment, exp_db_id, exp_db_id,                                            \
         "SELECT experiment_id FROM trials WHERE id = $1")                                         \
    READ(exp_db_trial_show, exp_db_id, exp_db_trial_shown,                                         \
         "SELECT @" EXP_DB_FROM_TRIALS " WHERE id = $1")                                           \
    READ(exp_db_trials_show, exp_db_id, exp_db_trial_shown,                                        \
         "SELECT @" EXP_DB_FROM_TRIALS " WHERE experiment_id = $1 ORDER BY id")                    \
    /* the best b trials of experiment a */                                                        \
    READ(exp_db_trials_best, exp_db_pair, exp_db_trial_shown,                                      \
         "SELECT @" EXP_DB_FROM_TRIALS " WHERE experiment_id = $1 ORDER BY CASE"                   \
         " WHEN best_signed IS NULL THEN 1 ELSE 0 END, best_signed, id LIMIT $2")                  \
    READ(exp_db_workloads, exp_db_id, exp_db_workload,                                             \
         "SELECT " EXP_DB_WORKLOAD_COLUMNS EXP_DB_FROM_STEPS " WHERE s.trial_id = $1"              \
         " ORDER BY s.id")                                                                         \
    /* the newest first; those that have a checkpoint, a validation */                             \
    READ(exp_db_workloads_page, exp_db_workload_range, exp_db_workload,                            \
         "SELECT " EXP_DB_WORKLOAD_COLUMNS EXP_DB_FROM_STEPS " WHERE s.trial_id = $1 AND"          \
         " ($2 = 0 OR c.state IS NOT NULL) AND ($3 = 0 OR v.state IS NOT NULL)"                    \
         " ORDER BY s.id DESC LIMIT $4 OFFSET $5")                                                 \
    READ(exp_db_workloads_count, exp_db_workload_kind, exp_db_id,                                  \
         "SELECT CASE WHEN $2 = 1 THEN (SELECT COUNT(*) FROM checkpoints WHERE trial_id = $1)"     \
         " WHEN $3 = 1 THEN (SELECT COUNT(*) FROM validations WHERE trial_id = $1)"                \
         " ELSE (SELECT COUNT(*) FROM steps WHERE trial_id = $1) END")                             \
    READ(exp_db_history, exp_db_id, exp_db_best,                                                   \
         "SELECT v.trial_id, v.step_id, v.end_time, v.signed_metric FROM validations v"            \
         " JOIN trials t ON t.id = v.trial_id WHERE t.experiment_id = $1 AND v.is_best = 1"        \
         " ORDER BY v.end_time, v.signed_metric DESC")                                             \
    /* of the newest trials: all columns of names, or nearly */                                    \
    READ(exp_db_steps_newest, exp_db_id, exp_db_name,                                              \
         "SELECT metrics FROM steps WHERE trial_id IN (SELECT id FROM trials WHERE"                \
         " experiment_id = $1 ORDER BY id DESC LIMIT 40) AND state = 'COMPLETED'"                  \
         " ORDER BY trial_id DESC, id DESC LIMIT 20")                                              \
    READ(exp_db_validations_newest, exp_db_id, exp_db_name,                                        \
         "SELECT metrics FROM validations WHERE trial_id IN (SELECT id FROM trials WHERE"          \
         " experiment_id = $1 ORDER BY id DESC LIMIT 40) AND state = 'COMPLETED'"                  \
         " ORDER BY trial_id DESC, step_id DESC LIMIT 20")                                         \
    READ(exp_db_steps_curve, exp_db_id, exp_db_point,                                              \
         "SELECT id AS step_id, end_time, metrics FROM steps WHERE trial_id = $1 AND"              \
         " state = 'COMPLETED' ORDER BY id")                                                       \
    READ(exp_db_validations_curve, exp_db_id, exp_db_point,                                        \
         "SELECT step_id, end_time, metrics FROM validations WHERE trial_id = $1 AND"              \
         " state = 'COMPLETED' ORDER BY step_id")                                                  \
    /* all trials of experiment a at step b */                                                     \
    READ(exp_db_trials_at, exp_db_pair, exp_db_snapshot,                                           \
         "SELECT t.id AS trial_id, t.hparams, v.metrics FROM trials t JOIN validations v ON"       \
         " v.trial_id = t.id WHERE t.experiment_id = $1 AND v.step_id = $2 AND"                    \
         " v.state = 'COMPLETED' ORDER BY t.id")                                                   \
    READ(exp_db_logs, exp_db_log_range, exp_db_log,                                                \
         "SELECT @ FROM trial_logs WHERE trial_id = $1 AND id > $2 AND id < $3 AND"                \
         " ($4 = '' OR level = $4) ORDER BY id")                                                   \
    READ(exp_db_logs_backward, exp_db_log_range, exp_db_log,                                       \
         "SELECT @ FROM trial_logs WHERE trial_id = $1 AND id > $2 AND id < $3 AND"                \
         " ($4 = '' OR level = $4) ORDER BY id DESC")                                              \
                                                                                                   \
    /* for answers: checkpoints, templates, users */                                               \
    READ(exp_db_checkpoints_best, exp_db_id, exp_db_checkpoint,                                    \
         "SELECT @" EXP_DB_FROM_CHECKPOINTS " WHERE experiment_id = $1 ORDER BY CASE WHEN"         \
         " signed_metric IS NULL THEN 1 ELSE 0 END, signed_metric, id")                            \
    READ(exp_db_checkpoint_needed, exp_db_name, exp_db_needed,                                     \
         "SELECT c.state, c.storage, e.state AS experiment_state, EXISTS (SELECT 1 FROM"           \
         " trials t WHERE t.warm_start = c.uuid) AS is_source, EXISTS (SELECT 1 FROM"              \
         " experiment_configs k JOIN experiments x ON x.id = k.experiment_id WHERE"                \
         " k.warm_start = c.uuid AND x.end_time IS NULL) AS is_wanted FROM checkpoints c"          \
         " JOIN experiments e ON e.id = c.experiment_id WHERE c.uuid = $1")                        \
    READ(exp_db_checkpoint_newest, exp_db_id, exp_db_name,                                         \
         "SELECT uuid FROM checkpoints WHERE trial_id = $1 AND state = 'COMPLETED' AND"            \
         " uuid NOT IN (SELECT uuid FROM removals) ORDER BY step_id DESC LIMIT 1")                 \
    READ(exp_db_checkpoint_whole, exp_db_name, exp_db_name,                                        \
         "SELECT uuid FROM checkpoints WHERE uuid = $1 AND state = 'COMPLETED' AND"                \
         " uuid NOT IN (SELECT uuid FROM removals)")                                               \
    READ(exp_db_templates, exp_db_none, exp_db_template, "SELECT @ FROM templates ORDER BY name")  \
    READ(exp_db_template_read, exp_db_name, exp_db_template,                                       \
         "SELECT @ FROM templates WHERE name = $1")                                                \
    WRITE(exp_db_template_write, exp_db_template,                                                  \
          "INSERT INTO templates (@) VALUES (#) ON CONFLICT (name) DO UPDATE SET config = $2")     \
    WRITE(exp_db_template_delete, exp_db_name, "DELETE FROM templates WHERE name = $1")            \
    READ(exp_db_users, exp_db_none, exp_db_user, "SELECT @" EXP_DB_FROM_USERS " ORDER BY name")    \
    WRITE(exp_db_user_set, exp_db_user_active, "UPDATE users SET & WHERE name = $1")               \
                                                                                                   \
    /* curves of the searcher's metric, a few points each: see exp_db_validation_keep */           \
    READ(exp_db_curve_bytes, exp_db_id, exp_db_blob,                                               \
         "SELECT points FROM curves WHERE trial_id = $1")                                          \
    WRITE(exp_db_curve_write, exp_db_curve,                                                        \
          "INSERT INTO curves (@) VALUES (#) ON CONFLICT (trial_id) DO UPDATE SET points = $3")    \
    WRITE(exp_db_curves_delete, exp_db_id, "DELETE FROM curves WHERE experiment_id = $1")          \
    /* the best b trials of experiment a */                                                        \
    READ(exp_db_trials_best_ids, exp_db_pair, exp_db_id,                                           \
         "SELECT id FROM trials WHERE experiment_id = $1 ORDER BY CASE WHEN best_signed IS NULL"   \
         " THEN 1 ELSE 0 END, best_signed, id LIMIT $2")                                           \
    READ(exp_db_old_points, exp_db_none, exp_db_old_point,                                         \
         "SELECT v.trial_id, t.experiment_id, v.step_id, v.end_time, v.signed_metric"              \
         " FROM validations v JOIN trials t ON t.id = v.trial_id WHERE v.state = 'COMPLETED' AND"  \
         " v.signed_metric IS NOT NULL ORDER BY v.trial_id, v.step_id")                            \
                                                                                                   \
    /* tables of trials */                                                                         \
    READ(exp_db_trial_keys, exp_db_id, exp_db_trial_key,                                           \
         "SELECT @ FROM trials WHERE experiment_id = $1 ORDER BY id")                              \
    READ(exp_db_validations_of, exp_db_id, exp_db_batches,                                         \
         "SELECT v.trial_id, v.step_id, v.metrics FROM validations v JOIN trials t"                \
         " ON t.id = v.trial_id WHERE t.experiment_id = $1 AND v.state = 'COMPLETED'"              \
         " ORDER BY v.trial_id, v.step_id")                                                        \
    /* the newest first: who wants only what is new stops there */                                 \
    READ(exp_db_signed_back, exp_db_id, exp_db_signed_point,                                       \
         "SELECT step_id, end_time, signed_metric FROM validations WHERE trial_id = $1 AND"        \
         " state = 'COMPLETED' AND signed_metric IS NOT NULL ORDER BY step_id DESC")               \
    READ(exp_db_steps_back, exp_db_id, exp_db_point,                                               \
         "SELECT id AS step_id, end_time, metrics FROM steps WHERE trial_id = $1 AND"              \
         " state = 'COMPLETED' ORDER BY id DESC")                                                  \
    READ(exp_db_validations_back, exp_db_id, exp_db_point,                                         \
         "SELECT step_id, end_time, metrics FROM validations WHERE trial_id = $1 AND"              \
         " state = 'COMPLETED' ORDER BY step_id DESC")                                             \
                                                                                                   \
    /* tokens, and logins that were made with one */                                               \
    READ(exp_db_token_find, exp_db_name, exp_db_token_known,                                       \
         "SELECT @ FROM (SELECT t.*, u.is_active FROM tokens t JOIN users u"                       \
         " ON u.name = t.user_name) AS r WHERE hash = $1")                                         \
    READ(exp_db_tokens, exp_db_none, exp_db_token, "SELECT @ FROM tokens ORDER BY id")             \
    READ(exp_db_token_read, exp_db_id, exp_db_token, "SELECT @ FROM tokens WHERE id = $1")         \
    READ(exp_db_last_token, exp_db_none, exp_db_id, "SELECT COALESCE(MAX(id), 0) FROM tokens")     \
    WRITE(exp_db_token_add, exp_db_token, "INSERT INTO tokens (@) VALUES (#)")                     \
    WRITE(exp_db_token_delete, exp_db_id, "DELETE FROM tokens WHERE id = $1 OR parent_id = $1")    \
    WRITE(exp_db_tokens_forget, exp_db_time, "DELETE FROM tokens WHERE end_time < $1")

struct exp_db_none; /* in: NULL */

#define EXP_DB_READ(function, in, out, sql)                                                        \
    struct exp_db_cursor function(struct exp_db *db, const struct in *key, struct out *row,        \
                                  struct ebb_error *err);
#define EXP_DB_WRITE(function, in, sql)                                                            \
    enum ebb_status function(struct exp_db *db, const struct in *values, struct ebb_error *err);
EXP_DB_QUERIES(EXP_DB_READ, EXP_DB_WRITE)

#endif
