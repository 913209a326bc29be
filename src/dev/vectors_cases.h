/* vectors_cases.h - one function for each kind of reference case. Private to the case runner
 * (vectors.h). */
#ifndef EBB_DEV_VECTORS_CASES_H
#define EBB_DEV_VECTORS_CASES_H

#include "base/doc.h"

/* Computes what the case's `expected` should be, in its shape, into the builder's arena. */
struct dev_case_builder {
    struct ebb_arena *arena;
    bool failed; /* memory ran out while building */
};

typedef enum ebb_status (*dev_case_run)(struct dev_case_builder *b,
                                        const struct ebb_doc_node *input,
                                        struct ebb_doc_node **computed, struct ebb_error *err);

enum ebb_status dev_case_rng(struct dev_case_builder *b, const struct ebb_doc_node *input,
                             struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_sampling(struct dev_case_builder *b, const struct ebb_doc_node *input,
                                  struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_grid_values(struct dev_case_builder *b, const struct ebb_doc_node *input,
                                     struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_grid_product(struct dev_case_builder *b, const struct ebb_doc_node *input,
                                      struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_explore(struct dev_case_builder *b, const struct ebb_doc_node *input,
                                 struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_search(struct dev_case_builder *b, const struct ebb_doc_node *input,
                                struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_asha(struct dev_case_builder *b, const struct ebb_doc_node *input,
                              struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_sequencer(struct dev_case_builder *b, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_scheduler(struct dev_case_builder *b, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status dev_case_retention(struct dev_case_builder *b, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err);

/* Building: NULL nodes and failures are remembered, so that callers check once at the end. */
struct ebb_doc_node *dev_case_map(struct dev_case_builder *b);
struct ebb_doc_node *dev_case_list(struct dev_case_builder *b);
void dev_case_set(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                  const struct ebb_doc_node *value);
void dev_case_set_int(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                      int64_t value);
void dev_case_set_bool(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                       bool value);
void dev_case_set_text(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                       const char *value);
void dev_case_set_double(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                         double value);
void dev_case_add(struct dev_case_builder *b, struct ebb_doc_node *list,
                  const struct ebb_doc_node *value);

/* Reading a case: the member, or an error that names it. */
enum ebb_status dev_case_member(const struct ebb_doc_node *map, const char *key,
                                enum ebb_doc_kind kind, const struct ebb_doc_node **node,
                                struct ebb_error *err);

#endif
