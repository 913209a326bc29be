/* golden.h - shared by the parts of `ebb dev golden`: counting, comparing, keeping what was
 * computed. */
#ifndef EBB_CLI_GOLDEN_H
#define EBB_CLI_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/file.h"
#include "base/status.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

struct golden {
    const char *dir;
    struct ebb_arena arena;
    void *backend; /* kernel context */
    bool is_verbose;
    size_t passed, failed, skipped;
    const char *group, *name; /* of the case being run */
    bool is_failed;
    bool is_broken; /* something could not be run: other than wrong numbers */
    bool is_dumping;
    struct tensor_to_write *dump; /* names and data in the arena */
    size_t dump_count, dump_capacity;
};

struct golden_tensors { /* a safetensors file held open */
    struct ebb_file_view view;
    struct tensor_file file;
    bool is_open;
};

/* Text of a string, "" for anything else. */
const char *golden_text(const struct ebb_doc_node *node);
/* A list of numbers; NULL when it is anything else or empty. */
const struct ebb_doc_node *golden_numbers(const struct ebb_doc_node *map, const char *key);

/* dir/name, or false when the file is not there. */
bool golden_has(const struct golden *g, const char *name);
const struct ebb_doc_node *golden_json(struct golden *g, const char *name, struct ebb_error *err);
enum ebb_status golden_tensors_open(struct golden *g, const char *name, struct golden_tensors *t,
                                    struct ebb_error *err);
void golden_tensors_close(struct golden_tensors *t);
/* Entry "case/part"; part is made by the format. NULL when absent. */
const struct tensor_entry *golden_find(const struct golden_tensors *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
double golden_value(const struct tensor_entry *e, int64_t i); /* element i as a double */

void golden_begin(struct golden *g, const char *group, const char *name);
/* The first reason of a case is kept and printed. */
void golden_fail(struct golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a case that cannot be run as it is written. */
void golden_refuse(struct golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void golden_end(struct golden *g);

struct golden_limit {
    double rtol;     /* of the element */
    double atol_max; /* times the largest element of the reference */
    double atol;
    bool is_exact;
};
/* spec: 2e-5 relative, 2e-6 of the largest element */
extern const struct golden_limit golden_op_limit;

/* Computed data of `view` against the reference; NULL data = zeros. */
void golden_compare(struct golden *g, const char *part, const struct tensor_view *view,
                    const void *data, const struct tensor_entry *want, struct golden_limit limit);
void golden_compare_number(struct golden *g, const char *part, double got, double want, double rtol,
                           double atol);
/* Keep a computed tensor for --dump under "group/case/part". */
void golden_keep(struct golden *g, const char *part, const struct tensor_view *view,
                 const void *data);

/* Where a handle's bytes are after a run; *view is contiguous. Handles must have been made
 * contiguous. */
const void *golden_read(const struct tensor_session *s, const struct ops_host *host, tensor_id id,
                        struct tensor_view *view);
/* Leaf of the shape and dtype of an entry. */
tensor_id golden_leaf(struct tensor_session *s, const struct tensor_entry *e, const char *name);
void golden_fill(const struct tensor_session *s, const struct ops_host *host, tensor_id leaf,
                 const void *data, size_t bytes);

/* The groups; a file that is missing is no group. */
enum ebb_status golden_ops(struct golden *g, struct ebb_error *err);
enum ebb_status golden_optim(struct golden *g, struct ebb_error *err);
enum ebb_status golden_lr(struct golden *g, struct ebb_error *err);
enum ebb_status golden_amp(struct golden *g, struct ebb_error *err);
enum ebb_status golden_rng(struct golden *g, struct ebb_error *err);
enum ebb_status golden_e2e(struct golden *g, struct ebb_error *err);
enum ebb_status golden_config(struct golden *g, struct ebb_error *err);
enum ebb_status golden_formats(struct golden *g, struct ebb_error *err);
void golden_gan(struct golden *g, const struct ebb_doc_node *doc, struct golden_tensors *t);

#endif
