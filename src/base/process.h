/* process.h - run a program from start to end: bytes in, bytes out.
 *
 * No shell, no names on disk: standard input is a file in memory, standard output comes back
 * through a pipe, and of what the program says on standard error the first line is kept for the
 * message. Signals are as usual in the child, whatever they are here. */
#ifndef EBB_BASE_PROCESS_H
#define EBB_BASE_PROCESS_H

#include "base/str.h"

struct ebb_process {
    const char *const *argv; /* ends with NULL; argv[0] is looked for in PATH */
    const char *input;       /* borrowed */
    size_t length;
    uint64_t timeout_ns; /* 0 = none */
};

/* Append what it writes to out. EBB_EUNSUPPORTED: it is not installed; EBB_ELIMIT: it did not end
 * in time and was ended; EBB_EIO: it failed, with its own words. */
enum ebb_status ebb_process_run(const struct ebb_process *process, struct ebb_str *out,
                                struct ebb_error *err);

#endif
