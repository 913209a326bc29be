/* profile.h - what a device costs: facts, links, and the time, workspace and algorithm of kernels.
 *
 * A profile is a small text file (docs/formats/device.md) made by measuring once. Plans are
 * functions of a trace, a profile and budgets, so a profile is read, never written, while anything
 * is decided; without one, profile_builtin holds the constants of an unknown processor.
 *
 *   fact   a number by its name: memory_bytes, threads, reserve_bytes
 *   link   a path of copies: latency, rate alone, rate while the other direction is busy, too
 *   fit    what a family of kernels costs where no row is better: fixed + flops / rate + bytes / rate
 *   row    one kernel, by its family and its key: measured time, workspace, algorithm
 *
 * Rules.  F1 A row is found by equal text alone. F2 Times of rows are rounded to quarter octaves, so
 * that noise does not make another plan. F3 Order and comments of a file say nothing:
 * the same content is written as the same text, and makes the same plans. */
#ifndef EBB_PROFILE_PROFILE_H
#define EBB_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define PROFILE_LINK_LIST(X) /* inside tier 0; host memory and file, out and in */                 \
    X(MOVE, move)                                                                                  \
    X(HOST_OUT, host_out)                                                                          \
    X(HOST_IN, host_in)                                                                            \
    X(FILE_OUT, file_out)                                                                          \
    X(FILE_IN, file_in)

enum profile_link_name {
#define X(name, text) PROFILE_##name,
    PROFILE_LINK_LIST(X)
#undef X
        PROFILE_LINKS
};

/* What anything may cost at once, a quarter of an hour: sums over a trace stay numbers. */
#define PROFILE_MOST_NS UINT64_C(1000000000000)

struct profile_link {
    uint64_t latency_ns;
    double bytes_per_ns;      /* 0: infinitely fast */
    double both_bytes_per_ns; /* while the other direction is busy; 0: as alone */
};

struct profile_fit {
    const char *family; /* "*": every family without a fit of its own */
    double fixed_ns;
    double flops_per_ns; /* per thread on a processor; 0: arithmetic costs nothing */
    double bytes_per_ns; /* 0: bytes cost nothing */
};

struct profile_row {
    const char *family, *key; /* key: without blanks */
    uint64_t cost_ns, workspace_bytes;
    double spread;         /* of the measurements: (third quartile - first) / median */
    const char *algorithm; /* as the kernels wrote it; "-": none */
};

struct profile; /* immutable once read or finished */

const struct profile *profile_builtin(void);
enum ebb_status profile_load(const char *path, struct profile **profile, struct ebb_error *err);
enum ebb_status profile_read(const char *name, const char *bytes, size_t length,
                             struct profile **profile, struct ebb_error *err);
enum ebb_status profile_write(const struct profile *profile, const char *path,
                              struct ebb_error *err);
void profile_destroy(struct profile *profile);

const char *profile_kind(const struct profile *profile); /* "cpu", "nvidia-h200" */
struct profile_link profile_link(const struct profile *profile, enum profile_link_name link);
bool profile_fact(const struct profile *profile, const char *name, uint64_t *value);
const struct profile_row *profile_find(const struct profile *profile, const char *family,
                                       const char *key); /* NULL: none */
/* Of all rows of a family: which algorithms they choose. Two profiles with equal hashes choose alike. */
uint64_t profile_hash(const struct profile *profile, const char *family);
/* That of the family, else the one for all. */
const struct profile_fit *profile_fit_of(const struct profile *profile, const char *family);
static inline uint64_t profile_fit_ns(const struct profile_fit *fit, double flops, double bytes,
                                      int threads)
{
    double ns = fit->bytes_per_ns > 0 ? bytes / fit->bytes_per_ns : 0;
    ns += fit->flops_per_ns > 0 ? flops / (fit->flops_per_ns * threads) : 0;
    ns = ns < (double)PROFILE_MOST_NS ? ns : (double)PROFILE_MOST_NS;
    return (uint64_t)fit->fixed_ns + (uint64_t)ns;
}
/* What a kernel is expected to take: its row, else the fit. */
uint64_t profile_cost_ns(const struct profile *profile, const char *family, const char *key,
                         double flops, double bytes, int threads, bool *is_fitted);

/* ---- making one ---- */

enum ebb_status profile_create(struct profile **profile, const char *kind, struct ebb_error *err);
enum ebb_status profile_set_fact(struct profile *profile, const char *name, uint64_t value,
                                 struct ebb_error *err);
void profile_set_link(struct profile *profile, enum profile_link_name name,
                      const struct profile_link *link);
enum ebb_status profile_add_fit(struct profile *profile, const struct profile_fit *fit,
                                struct ebb_error *err);
/* Facts and fits of another. */
enum ebb_status profile_add_fits(struct profile *profile, const struct profile *from,
                                 struct ebb_error *err);
enum ebb_status profile_add_row(struct profile *profile, const struct profile_row *row,
                                struct ebb_error *err);
/* Rows of a finished one that this one, finished too, has not. */
enum ebb_status profile_add_rows(struct profile *profile, const struct profile *from,
                                 struct ebb_error *err);
uint64_t profile_round_ns(double ns); /* F2 */
/* Nothing more comes: sorts. EBB_EINPUT: two rows, facts or fits for one thing. */
enum ebb_status profile_finish(struct profile *profile, struct ebb_error *err);

#endif
