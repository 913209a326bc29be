/* vectors.h - reference cases of search, scheduling, sequencing, retention and configuration
 * (private to dev).
 *
 * A folder holds JSON files, each a list of cases with inputs and `expected`. For every case the
 * same thing is computed with this program's own code, in the shape of `expected`, and compared:
 * integers, text and counts exactly, hyperparameter values to 1e-12 relative (pow differs in the
 * last bit between C libraries). */
#ifndef EBB_DEV_VECTORS_H
#define EBB_DEV_VECTORS_H

#include "dev/judge.h"

/* Building what was computed, in the shape of `expected`: the arena of the case remembers a lack of
 * memory, which is asked for once at the end. */
struct ebb_doc_node *dev_map(struct ebb_arena *a);
struct ebb_doc_node *dev_items(struct ebb_arena *a);
void dev_set_int(struct ebb_arena *a, struct ebb_doc_node *map, const char *key, int64_t value);
void dev_set_bool(struct ebb_arena *a, struct ebb_doc_node *map, const char *key, bool value);
void dev_set_text(struct ebb_arena *a, struct ebb_doc_node *map, const char *key,
                  const char *value);
void dev_add_int(struct ebb_arena *a, struct ebb_doc_node *list, int64_t value);
void dev_add_double(struct ebb_arena *a, struct ebb_doc_node *list, double value);

/* Reading a case: the member, or an error that names it; memory that lives as long as the case. */
enum ebb_status dev_member(const struct ebb_doc_node *map, const char *key, enum ebb_doc_kind kind,
                           const struct ebb_doc_node **node, struct ebb_error *err);
enum ebb_status dev_array(struct ebb_arena *a, size_t count, size_t bytes, void *array,
                          struct ebb_error *err);

/* Computes what the case's `expected` should be. */
typedef enum ebb_status dev_case_fn(struct ebb_arena *a, const struct ebb_doc_node *input,
                                    struct ebb_doc_node **computed, struct ebb_error *err);
dev_case_fn dev_case_rng, dev_case_sampling, dev_case_grid_values, dev_case_grid_product,
    dev_case_explore, dev_case_search, dev_case_asha;                   /* vectors_search.c */
dev_case_fn dev_case_sequencer, dev_case_scheduler, dev_case_retention; /* vectors_work.c */

/* What judging a case of the configuration came to: `reason` is NULL when it is as expected. */
struct dev_verdict {
    const struct ebb_doc_node *computed;
    const char *reason;
};
struct dev_verdict dev_judge_config(struct ebb_arena *arena, const struct ebb_doc_node *item);

/* All cases of one file; the last part of the path says of which kind they are. */
void dev_vectors_file(struct dev_judge *j, const char *path);

#endif
