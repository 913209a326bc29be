/* progress.h - one line on a terminal that says how far long work is; silent in a pipe.
 *
 * Redrawn at most ten times a second, with rate and time left; cleared at the end so that results
 * stand alone. Updates may come from several threads. */
#ifndef EBB_BASE_PROGRESS_H
#define EBB_BASE_PROGRESS_H

#include <stdint.h>

struct ebb_progress;

/* NULL is returned when stderr is no terminal (or memory is out); all calls accept NULL. */
struct ebb_progress *ebb_progress_create(const char *what, uint64_t total);
void ebb_progress_add(struct ebb_progress *p, uint64_t done);
void ebb_progress_note(struct ebb_progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* short text behind the bar */
void ebb_progress_destroy(struct ebb_progress *p);

#endif
