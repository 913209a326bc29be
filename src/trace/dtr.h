/* dtr.h - parts of the DTR log reader; private to this folder. */
#ifndef EBB_TRACE_DTR_H
#define EBB_TRACE_DTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/status.h"

/* ---- one line -------------------------------------------------------------------------------- */

enum trace_dtr_key {
    DTR_ALIAS,
    DTR_ANNOTATION,
    DTR_ARGS,
    DTR_DST,
    DTR_INSTRUCTION,
    DTR_MEMORY,
    DTR_MUTATE,
    DTR_NAME,
    DTR_RESULT,
    DTR_SRC,
    DTR_TIME,
    DTR_KEYS,
};

struct trace_dtr_text {
    const char *text; /* borrowed from the log or from the record's scratch; not terminated */
    uint32_t length;
    uint32_t column; /* 1-based, of the value's first byte */
};

struct trace_dtr_list {
    struct trace_dtr_text *items; /* owned */
    size_t count, capacity;
};

/* The known keys of a line; `has` says which. Numbers are kept as the text of the log. Reused from
 * line to line. */
struct trace_dtr_record {
    unsigned has; /* bit per key */
    struct trace_dtr_text scalar[DTR_KEYS];
    struct trace_dtr_list args, result, mutate;
    char *scratch; /* owned: decoded text of the slow path */
    size_t scratch_capacity;
};

/* Parse one line (without its newline). Lines as the logger writes them (no blanks, plain ASCII,
 * known keys once) take a fast path; every other line goes through base/json.h. Both give the same
 * record. */
enum ebb_status trace_dtr_scan(struct trace_dtr_record *record, const char *name, uint32_t line,
                               const char *bytes, size_t length, struct ebb_error *err);
/* The slow path alone, for the test that compares the two. */
enum ebb_status trace_dtr_scan_json(struct trace_dtr_record *record, const char *name,
                                    uint32_t line, const char *bytes, size_t length,
                                    struct ebb_error *err);
/* false: not a line for the fast path; nothing is known about it. */
bool trace_dtr_scan_fast(struct trace_dtr_record *record, const char *bytes, size_t length);
void trace_dtr_record_fini(struct trace_dtr_record *record);

/* ---- names ----------------------------------------------------------------------------------- */

/* Name -> number in order of insertion. The logger's names are x<counter>, so most are found by
 * index: numbers from `base` on, as long as the table stays dense; others through maps. Begins as
 * zeros. */
struct trace_dtr_names {
    uint32_t *dense; /* TRACE_NONE = no such name */
    size_t dense_count, dense_capacity;
    uint64_t base;
    struct ebb_map sparse;    /* x<counter> outside the dense table */
    struct ebb_strmap others; /* any other spelling */
    size_t count;
};

void trace_dtr_names_fini(struct trace_dtr_names *names);
/* TRACE_NONE when unknown. */
uint32_t trace_dtr_names_find(const struct trace_dtr_names *names, const struct trace_dtr_text *t);
/* The name must be unknown; its number is the count before the call. */
enum ebb_status trace_dtr_names_add(struct trace_dtr_names *names, const struct trace_dtr_text *t,
                                    struct ebb_error *err);

#endif
