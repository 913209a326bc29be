/* submit.h - making an experiment: the file, the model definition, where it comes from. Private to
 * cli. */
#ifndef EBB_CLI_SUBMIT_H
#define EBB_CLI_SUBMIT_H

#include "cli/cli.h"
#include "cli/master.h"

struct cli_submission {
    const char *file;          /* experiment file */
    const char *model_def;     /* file or directory; NULL = the file's directory, unless built in */
    const char *template_name; /* or NULL */
    struct cli_list changes;   /* --config key=value */
    bool is_git, is_test, is_paused;
};

#define CLI_MODEL_DEF_MAX ((size_t)95 << 20)

/* Check the file, pack, post. *id is the new experiment. Returns -1, or the exit code after the
 * errors were printed (2: the file is invalid; every finding is listed). */
int cli_submit(struct cli_master *m, const struct cli_submission *s, int64_t *id);

/* Check the file without a master, where that is possible: -1, or the exit code. */
int cli_submit_check(const struct cli_submission *s);

/* Append {"path","type","content","mode","mtime"} rows for all files of `path`. */
enum ebb_status cli_pack(const char *path, struct ebb_json_writer *w, struct ebb_error *err);

/* The same for one file below `folder` under its relative path, and for the folders on the way;
 * done: what is there already. */
struct ebb_names;
enum ebb_status cli_pack_file(const char *folder, const char *path, struct ebb_names *done,
                              struct ebb_json_writer *w, struct ebb_error *err);

/* remote, commit, committer, date of the clean work tree that holds `path`. */
struct cli_git {
    char *remote, *commit, *committer, *date; /* owned */
};
enum ebb_status cli_git_read(const char *path, struct cli_git *git, struct ebb_error *err);
void cli_git_fini(struct cli_git *git);

#endif
