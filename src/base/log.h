/* log.h - diagnostics of long-running parts: one line each, to a sink that is passed in.
 *
 * Library code logs only what a person who runs the program would want to read later; errors go
 * upward as values. A NULL log is silent. Thread-safe: one line is one write. */
#ifndef EBB_BASE_LOG_H
#define EBB_BASE_LOG_H

#include <stdio.h>

enum ebb_log_level { EBB_LOG_DEBUG, EBB_LOG_INFO, EBB_LOG_WARN, EBB_LOG_ERROR };

struct ebb_log {
    FILE *stream; /* borrowed */
    enum ebb_log_level level;
    const char *name; /* "ebb", "master", ... */
};

void ebb_log(const struct ebb_log *log, enum ebb_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
