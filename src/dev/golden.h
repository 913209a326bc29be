/* golden.h - shared by the parts of `ebb dev golden`: counting, comparing, keeping what was
 * computed. */
#ifndef EBB_DEV_GOLDEN_H
#define EBB_DEV_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/file.h"
#include "base/status.h"
#include "dev/dev.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

struct dev_golden {
    const char *dir;
    struct ebb_arena arena;
    void *backend; /* kernel context */
    FILE *out;
    bool is_verbose;
    struct dev_counts counts;
    const char *group, *name; /* of the case being run */
    bool is_failed;
    bool is_dumping;
    struct tensor_to_write *dump; /* names and data in the arena */
    size_t dump_count, dump_capacity;
};

struct dev_tensors { /* a safetensors file held open */
    struct ebb_file_view view;
    struct tensor_file file;
    bool is_open;
};

/* Text of a string, "" for anything else. */
const char *dev_text(const struct ebb_doc_node *node);
/* A list of numbers; NULL when it is anything else or empty. */
const struct ebb_doc_node *dev_numbers(const struct ebb_doc_node *map, const char *key);

/* dir/name, or false when the file is not there. */
bool dev_has(const struct dev_golden *g, const char *name);
const struct ebb_doc_node *dev_json(struct dev_golden *g, const char *name, struct ebb_error *err);
enum ebb_status dev_tensors_open(struct dev_golden *g, const char *name, struct dev_tensors *t,
                                 struct ebb_error *err);
void dev_tensors_close(struct dev_tensors *t);
/* Entry "case/part"; part is made by the format. NULL when absent. */
const struct tensor_entry *dev_find(const struct dev_tensors *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
double dev_value(const struct tensor_entry *e, int64_t i); /* element i as a double */

void dev_begin(struct dev_golden *g, const char *group, const char *name);
/* The first reason of a case is kept and printed. */
void dev_fail(struct dev_golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a case that cannot be run as it is written. */
void dev_refuse(struct dev_golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dev_end(struct dev_golden *g);

struct dev_limit {
    double rtol;     /* of the element */
    double atol_max; /* times the largest element of the reference */
    double atol;
    bool is_exact;
};
/* spec: 2e-5 relative, 2e-6 of the largest element */
extern const struct dev_limit dev_op_limit;

/* Computed data of `view` against the reference; NULL data = zeros. */
void dev_compare(struct dev_golden *g, const char *part, const struct tensor_view *view,
                 const void *data, const struct tensor_entry *want, struct dev_limit limit);
void dev_compare_number(struct dev_golden *g, const char *part, double got, double want,
                        double rtol, double atol);
/* Keep a computed tensor for --dump under "group/case/part". */
void dev_keep(struct dev_golden *g, const char *part, const struct tensor_view *view,
              const void *data);

/* Where a handle's bytes are after a run; *view is contiguous. Handles must have been made
 * contiguous. */
const void *dev_read(const struct tensor_session *s, const struct ops_host *host, tensor_id id,
                     struct tensor_view *view);
/* Leaf of the shape and dtype of an entry. */
tensor_id dev_leaf(struct tensor_session *s, const struct tensor_entry *e, const char *name);
void dev_fill(const struct tensor_session *s, const struct ops_host *host, tensor_id leaf,
              const void *data, size_t bytes);

/* The groups; a file that is missing is no group. */
enum ebb_status dev_golden_ops(struct dev_golden *g, struct ebb_error *err);
enum ebb_status dev_golden_optim(struct dev_golden *g, struct ebb_error *err);
enum ebb_status dev_golden_lr(struct dev_golden *g, struct ebb_error *err);
enum ebb_status dev_golden_amp(struct dev_golden *g, struct ebb_error *err);
enum ebb_status dev_golden_rng(struct dev_golden *g, struct ebb_error *err);
enum ebb_status dev_golden_e2e(struct dev_golden *g, struct ebb_error *err);
enum ebb_status dev_golden_config(struct dev_golden *g, struct ebb_error *err);
enum ebb_status dev_golden_formats(struct dev_golden *g, struct ebb_error *err);
void dev_gan(struct dev_golden *g, const struct ebb_doc_node *doc, struct dev_tensors *t);

#endif
