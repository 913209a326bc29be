/* judge.h - one frame for all judges (private to dev): cases are begun, fail for a reason or not,
 * and are counted when they end; what was computed is dumped. */
#ifndef EBB_DEV_JUDGE_H
#define EBB_DEV_JUDGE_H

#include "base/arena.h"
#include "base/doc.h"
#include "base/str.h"
#include "dev/dev.h"

struct tensor_to_write;

struct dev_judge {
    const struct dev_request *request;
    const char *word;       /* before the name of a failed case: "FAIL " */
    struct ebb_arena arena; /* of the whole run */
    struct dev_counts counts;
    struct ebb_str dump; /* what request->dump gets */
    char name[320];      /* of the case being run */
    bool is_failed, is_skipped;

    void *backend;       /* golden: kernel context */
    struct dev_far *far; /* golden: the device; NULL: cpu */
    struct tensor_to_write
        *tensors; /* golden: the dump is of tensors; names and data in the arena */
    size_t tensor_count, tensor_capacity;
};

void dev_judge_init(struct dev_judge *j, const struct dev_request *request, const char *word);
/* Hands over the counts and, when all went well, writes the dump; returns that status, or the one
 * given. */
enum ebb_status dev_judge_fini(struct dev_judge *j, enum ebb_status status,
                               struct dev_counts *counts, struct ebb_error *err);

void dev_begin(struct dev_judge *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The first reason of a case is printed. */
void dev_fail(struct dev_judge *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a case that cannot be run as it is written. */
void dev_refuse(struct dev_judge *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dev_end(struct dev_judge *j);
void dev_count(struct dev_judge *j); /* the same without a line about a passed case */

/* Names of the *.json files of a folder in byte order, in the arena. */
enum ebb_status dev_list(struct ebb_arena *arena, const char *folder, char ***names, size_t *count,
                         struct ebb_error *err);
/* "dir/name" in the arena; "" when memory is out, which dev_judge_fini then says. */
const char *dev_path(struct dev_judge *j, const char *name);

#endif
