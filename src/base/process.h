/* process.h - other programs: run from start to end, read line by line while they run, or started
 * and left alone.
 *
 * No shell, no names on disk: standard input is a file in memory, standard output comes back
 * through a pipe, and of what the program says on standard error the first line is kept for the
 * message. Signals are as usual in the child, whatever they are here. */
#ifndef EBB_BASE_PROCESS_H
#define EBB_BASE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

struct ebb_process {
    const char *const *argv; /* ends with NULL; argv[0] is looked for in PATH */
    const char *input;       /* borrowed */
    size_t length;
    uint64_t timeout_ns; /* ebb_process_run; 0 = none */
    const char *folder;  /* it runs there; NULL: here */
    bool
        talks; /* ebb_child_start: it reads what ebb_child_say says, and its standard error is ours */
};

/* Append what it writes to out. EBB_EUNSUPPORTED: it is not installed; EBB_ELIMIT: it did not end
 * in time and was ended; EBB_EIO: it failed, with its own words. */
enum ebb_status ebb_process_run(const struct ebb_process *process, struct ebb_str *out,
                                struct ebb_error *err);

/* ---- a child that talks while it runs -------------------------------------------------------- */

#define EBB_CHILD_FDS 5

struct ebb_child {       /* one owner thread */
    const char *program; /* borrowed: argv[0] */
    pid_t pid;           /* of it and of its process group; 0 = none, or it is reaped */
    int fd[EBB_CHILD_FDS];
    struct ebb_str text; /* of its output: what is not handed out yet begins at `at` */
    size_t at;
    bool is_silent; /* its output has ended */
};

/* In a process group of its own: Ctrl-C at the terminal is the business of whoever started it. End
 * it in any case. */
enum ebb_status ebb_child_start(struct ebb_child *child, const struct ebb_process *process,
                                struct ebb_error *err);
/* The next line of its output without its end, borrowed until the next call; NULL when there will
 * be none. EBB_ELIMIT: none has come for so long; ask again, or end it. */
enum ebb_status ebb_child_line(struct ebb_child *child, uint64_t timeout_ns, const char **line,
                               struct ebb_error *err);
/* Tell something to one that talks. EBB_EIO: it does not listen any more. */
enum ebb_status ebb_child_say(struct ebb_child *child, const char *text, size_t length,
                              struct ebb_error *err);
/* Exactly so many bytes of its output behind the lines that were read; to NULL: nowhere. EBB_ELIMIT as
 * above; EBB_EIO: its output ended before. */
enum ebb_status ebb_child_bytes(struct ebb_child *child, uint64_t timeout_ns, void *to,
                                size_t count, struct ebb_error *err);
/* Wait for it, at most so long, or do not wait; then whatever is left of its group is killed.
 * EBB_EIO: it failed, with its own words, or was killed. */
enum ebb_status ebb_child_end(struct ebb_child *child, uint64_t timeout_ns, struct ebb_error *err);
/* For the child: from now on it is killed when `parent`, which started it, is gone. */
void ebb_die_with(pid_t parent);

/* ---- a program that stays -------------------------------------------------------------------- */

/* Started in a session of its own with nothing to read; all it says is in the file `log`, which is
 * made anew. It goes on when this program ends. EBB_EUNSUPPORTED: it is not installed. */
enum ebb_status ebb_process_leave(const char *const *argv, const char *log, pid_t *pid,
                                  struct ebb_error *err);

#endif
