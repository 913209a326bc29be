/* schema.c - the tables, as scripts from version to version. SQL that both engines take: see db.h.
 * Numbers are given by the master, so there is no automatic key. docs/formats/state.md explains the
 * columns; change both together, and only by a new script. */
#include "exp/db/driver.h"

static const char version_1[] =
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);"

    "CREATE TABLE experiments ("
    "  id BIGINT PRIMARY KEY, state TEXT NOT NULL, description TEXT NOT NULL, labels TEXT NOT NULL,"
    "  owner TEXT NOT NULL, progress DOUBLE PRECISION, start_time DOUBLE PRECISION NOT NULL,"
    "  end_time DOUBLE PRECISION, archived BIGINT NOT NULL, parent_id BIGINT,"
    "  searcher TEXT NOT NULL, metric TEXT NOT NULL, smaller_is_better BIGINT NOT NULL,"
    "  best_signed DOUBLE PRECISION, best_trial_id BIGINT, best_step_id BIGINT,"
    "  num_trials BIGINT NOT NULL, num_ended BIGINT NOT NULL,"
    "  weight DOUBLE PRECISION NOT NULL, max_slots BIGINT,"
    "  save_experiment_best BIGINT NOT NULL, save_trial_best BIGINT NOT NULL,"
    "  save_trial_latest BIGINT NOT NULL, error TEXT, notes TEXT);"
    "CREATE INDEX experiments_state ON experiments (state);"
    "CREATE INDEX experiments_archived ON experiments (archived, id);" /* lists, newest first */
    "CREATE INDEX experiments_owner ON experiments (owner, archived, id);"
    "CREATE INDEX experiments_description ON experiments (description);"
    "CREATE INDEX experiments_start ON experiments (start_time);"
    "CREATE INDEX experiments_end ON experiments (end_time);"

    "CREATE TABLE experiment_configs ("
    "  experiment_id BIGINT PRIMARY KEY, config TEXT NOT NULL,"
    "  warm_start TEXT, git_remote TEXT, git_commit TEXT, git_committer TEXT, git_commit_date "
    "TEXT);"

    "CREATE TABLE model_files ("
    "  experiment_id BIGINT NOT NULL, path TEXT NOT NULL, type TEXT NOT NULL, mode BIGINT NOT NULL,"
    "  mtime BIGINT NOT NULL, size BIGINT NOT NULL, content BYTEA,"
    "  PRIMARY KEY (experiment_id, path));"

    "CREATE TABLE trials ("
    "  id BIGINT PRIMARY KEY, experiment_id BIGINT NOT NULL, request_id TEXT NOT NULL,"
    "  state TEXT NOT NULL, start_time DOUBLE PRECISION NOT NULL, end_time DOUBLE PRECISION,"
    "  hparams TEXT NOT NULL, seed BIGINT NOT NULL, restarts BIGINT NOT NULL, steps BIGINT NOT "
    "NULL,"
    "  best_signed DOUBLE PRECISION, best_step_id BIGINT, latest_signed DOUBLE PRECISION,"
    "  warm_start TEXT, sequence TEXT NOT NULL, message TEXT, log_offset BIGINT NOT NULL,"
    "  log_bytes BIGINT NOT NULL);"
    "CREATE INDEX trials_experiment ON trials (experiment_id);"
    "CREATE INDEX trials_warm_start ON trials (warm_start) WHERE warm_start IS NOT NULL;"

    "CREATE TABLE steps ("
    "  trial_id BIGINT NOT NULL, id BIGINT NOT NULL, state TEXT NOT NULL,"
    "  start_time DOUBLE PRECISION, end_time DOUBLE PRECISION, metrics TEXT,"
    "  PRIMARY KEY (trial_id, id));"

    "CREATE TABLE validations ("
    "  trial_id BIGINT NOT NULL, step_id BIGINT NOT NULL, state TEXT NOT NULL,"
    "  start_time DOUBLE PRECISION, end_time DOUBLE PRECISION, metrics TEXT,"
    "  signed_metric DOUBLE PRECISION, is_best BIGINT NOT NULL,"
    "  PRIMARY KEY (trial_id, step_id));"

    "CREATE TABLE checkpoints ("
    "  id BIGINT PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, experiment_id BIGINT NOT NULL,"
    "  trial_id BIGINT NOT NULL, step_id BIGINT NOT NULL, state TEXT NOT NULL,"
    "  start_time DOUBLE PRECISION, end_time DOUBLE PRECISION, resources TEXT, size BIGINT,"
    "  storage TEXT NOT NULL, note TEXT, UNIQUE (trial_id, step_id));"
    "CREATE INDEX checkpoints_experiment ON checkpoints (experiment_id);"

    /* Processes that exist or are about to: what a next master needs to adopt them. */
    "CREATE TABLE allocations ("
    "  id TEXT PRIMARY KEY, trial_id BIGINT NOT NULL UNIQUE, slots TEXT NOT NULL,"
    "  last_seq BIGINT NOT NULL, work_kind BIGINT NOT NULL, work_step BIGINT NOT NULL,"
    "  work_uuid TEXT, pid BIGINT NOT NULL, pid_start BIGINT NOT NULL);"

    "CREATE TABLE trial_logs ("
    "  trial_id BIGINT NOT NULL, id BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL,"
    "  level TEXT NOT NULL, message BYTEA NOT NULL, PRIMARY KEY (trial_id, id));"

    "CREATE TABLE searcher_events ("
    "  experiment_id BIGINT NOT NULL, seq BIGINT NOT NULL, type TEXT NOT NULL,"
    "  content TEXT NOT NULL, operations TEXT NOT NULL, PRIMARY KEY (experiment_id, seq));"

    /* Checkpoint files that nothing else names any more and that still may be there. */
    "CREATE TABLE removals (uuid TEXT PRIMARY KEY, storage TEXT NOT NULL, note TEXT);"

    "CREATE TABLE templates (name TEXT PRIMARY KEY, config TEXT NOT NULL);";

/* Names that experiments belong to. */
static const char version_2[] =
    "CREATE TABLE users ("
    "  name TEXT PRIMARY KEY, is_active BIGINT NOT NULL, created_time DOUBLE PRECISION NOT NULL);"
    "INSERT INTO users (name, is_active, created_time)"
    "  SELECT owner, 1, MIN(start_time) FROM experiments GROUP BY owner;";

/* Where the event files of an experiment lie; older experiments have none. */
static const char version_3[] = "ALTER TABLE experiment_configs ADD COLUMN board TEXT;";

/* Who may ask over the network; metrics of a step apart from those of its batches (split.c moves
 * old rows). */
static const char version_4[] =
    "CREATE TABLE tokens ("
    "  id BIGINT PRIMARY KEY, user_name TEXT NOT NULL, kind TEXT NOT NULL,"
    "  hash TEXT NOT NULL UNIQUE, read_only BIGINT NOT NULL, parent_id BIGINT,"
    "  created_time DOUBLE PRECISION NOT NULL, end_time DOUBLE PRECISION);"
    "CREATE TABLE batches ("
    "  trial_id BIGINT NOT NULL, step_id BIGINT NOT NULL, metrics TEXT NOT NULL,"
    "  PRIMARY KEY (trial_id, step_id));"
    "CREATE INDEX experiments_progress ON experiments (progress);";

/* Curves of the searcher's metric, a few points for each trial (curve.c fills in those of old
 * rows); orders of lists. */
static const char version_5[] =
    "CREATE TABLE curves ("
    "  trial_id BIGINT PRIMARY KEY, experiment_id BIGINT NOT NULL, points BYTEA NOT NULL);"
    "CREATE INDEX curves_experiment ON curves (experiment_id);"
    "CREATE INDEX validations_best ON validations (trial_id) WHERE is_best = 1;"
    "DROP INDEX experiments_progress;"
    "CREATE INDEX list_description ON experiments (archived, description, id);"
    "CREATE INDEX list_state ON experiments (archived, state, id);"
    "CREATE INDEX list_progress ON experiments (archived, progress, id);"
    "CREATE INDEX list_start ON experiments (archived, start_time, id);"
    "CREATE INDEX list_end ON experiments (archived, end_time, id);"
    "CREATE INDEX list_owner ON experiments (archived, owner, id);"
    "CREATE INDEX list_labels ON experiments (archived, labels, id);";

const char *const exp_db_migrations[EXP_DB_VERSION] = {version_1, version_2, version_3, version_4,
                                                       version_5};
