/* golden.h - shared by the parts of `ebb dev golden`: files of numbers, small runs of the engine,
 * comparing, keeping what was computed. */
#ifndef EBB_DEV_GOLDEN_H
#define EBB_DEV_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/status.h"
#include "dev/judge.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

struct dev_tensors { /* a safetensors file held open */
    struct ebb_file_view view;
    struct tensor_file file;
    bool is_open;
};

/* Text of a string, "" for anything else. */
const char *dev_text(const struct ebb_doc_node *node);
/* A list of numbers; NULL when it is anything else or empty. */
const struct ebb_doc_node *dev_numbers(const struct ebb_doc_node *map, const char *key);

const struct ebb_doc_node *dev_json(struct dev_judge *j, const char *name, struct ebb_error *err);
enum ebb_status dev_tensors_open(struct dev_judge *j, const char *name, struct dev_tensors *t,
                                 struct ebb_error *err);
void dev_tensors_close(struct dev_tensors *t);
/* Entry "case/part"; part is made by the format. NULL when absent. */
const struct tensor_entry *dev_find(const struct dev_tensors *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
double dev_value(const struct tensor_entry *e, int64_t i); /* element i as a double */

struct dev_run;
struct dev_limit {
    double rtol;     /* of the element */
    double atol_max; /* times the largest element of the reference */
    double atol;
    bool is_exact;
};
/* 2e-5 relative, 2e-6 of the largest element */
extern const struct dev_limit dev_op_limit;

/* Computed data of `view` against the reference; NULL data = zeros. */
void dev_compare(struct dev_judge *j, const char *part, const struct tensor_view *view,
                 const void *data, const struct tensor_entry *want, struct dev_limit limit);
void dev_compare_number(struct dev_judge *j, const char *part, double got, double want, double rtol,
                        double atol);
/* The number of a run that a tensor holds against record[key][step] of the case. */
void dev_compare_record(const struct dev_run *run, const struct ebb_doc_node *doc, tensor_id id,
                        const char *key, int64_t step, double tolerance);
/* Keep a computed tensor for --dump under "group/case/part". */
void dev_keep(struct dev_judge *j, const char *part, const struct tensor_view *view,
              const void *data);

/* A trace that is built, run and looked at. Each step refuses the case when it fails. */
struct dev_run {
    struct dev_judge *j;
    struct tensor_session *s;
    struct trace *trace;
    struct ops_host host;
};

bool dev_run_begin(struct dev_run *run, struct dev_judge *j); /* a session to build in */
bool dev_run_finish(struct dev_run *run);                     /* built: memory for it */
bool dev_run_go(struct dev_run *run);
void dev_run_end(struct dev_run *run); /* in any case */

/* Leaf of the shape and dtype of an entry. */
tensor_id dev_leaf(struct dev_run *run, const struct tensor_entry *e, const char *name);
void dev_fill(struct dev_run *run, tensor_id leaf, const void *data, size_t bytes);
/* The bytes of a handle that has its storage to itself. */
void *dev_bytes(const struct dev_run *run, tensor_id id);
/* Where a handle's bytes are after a run; *view is contiguous. Handles must have been made
 * contiguous. */
const void *dev_read(const struct dev_run *run, tensor_id id, struct tensor_view *view);

/* One kind of file: what it holds is judged. `root` is NULL for folders. */
typedef void dev_group_fn(struct dev_judge *j, const struct ebb_doc_node *root,
                          struct dev_tensors *tensors);
dev_group_fn dev_golden_amp, dev_golden_rng, dev_golden_e2e, dev_golden_config, dev_golden_formats,
    dev_gan;
/* What cannot be read at all: one failed case of the group. */
void dev_broken(struct dev_judge *j, const char *group, const char *why);

/* One list of indices per replica, of the program's own sampler. */
void dev_golden_sampler(struct dev_judge *j, const struct ebb_doc_node *doc);

/* Every item of a list in `root`. */
typedef void dev_case_one_fn(struct dev_judge *j, const struct ebb_doc_node *doc,
                             const struct dev_tensors *tensors);
void dev_each(struct dev_judge *j, const struct ebb_doc_node *root, const char *key,
              dev_case_one_fn *run, const struct dev_tensors *tensors);
dev_case_one_fn dev_golden_ops, dev_golden_optim, dev_golden_lr;

#endif
