/* vectors_cases.h - one function for each kind of reference case. Private to the case runner
 * (vectors.h). */
#ifndef EBB_EXP_VECTORS_CASES_H
#define EBB_EXP_VECTORS_CASES_H

#include "base/doc.h"

/* Computes what the case's `expected` should be, in its shape, into the builder's arena. */
struct exp_case_builder {
    struct ebb_arena *arena;
    bool failed; /* memory ran out while building */
};

typedef enum ebb_status (*exp_case_run)(struct exp_case_builder *b,
                                        const struct ebb_doc_node *input,
                                        struct ebb_doc_node **computed, struct ebb_error *err);

enum ebb_status exp_case_rng(struct exp_case_builder *b, const struct ebb_doc_node *input,
                             struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_sampling(struct exp_case_builder *b, const struct ebb_doc_node *input,
                                  struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_grid_values(struct exp_case_builder *b, const struct ebb_doc_node *input,
                                     struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_grid_product(struct exp_case_builder *b, const struct ebb_doc_node *input,
                                      struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_explore(struct exp_case_builder *b, const struct ebb_doc_node *input,
                                 struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_search(struct exp_case_builder *b, const struct ebb_doc_node *input,
                                struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_asha(struct exp_case_builder *b, const struct ebb_doc_node *input,
                              struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_sequencer(struct exp_case_builder *b, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_scheduler(struct exp_case_builder *b, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err);
enum ebb_status exp_case_retention(struct exp_case_builder *b, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err);

/* Building: NULL nodes and failures are remembered, so that callers check once at the end. */
struct ebb_doc_node *exp_case_map(struct exp_case_builder *b);
struct ebb_doc_node *exp_case_list(struct exp_case_builder *b);
void exp_case_set(struct exp_case_builder *b, struct ebb_doc_node *map, const char *key,
                  const struct ebb_doc_node *value);
void exp_case_set_int(struct exp_case_builder *b, struct ebb_doc_node *map, const char *key,
                      int64_t value);
void exp_case_set_bool(struct exp_case_builder *b, struct ebb_doc_node *map, const char *key,
                       bool value);
void exp_case_set_text(struct exp_case_builder *b, struct ebb_doc_node *map, const char *key,
                       const char *value);
void exp_case_set_double(struct exp_case_builder *b, struct ebb_doc_node *map, const char *key,
                         double value);
void exp_case_add(struct exp_case_builder *b, struct ebb_doc_node *list,
                  const struct ebb_doc_node *value);

/* Reading a case: the member, or an error that names it. */
enum ebb_status exp_case_member(const struct ebb_doc_node *map, const char *key,
                                enum ebb_doc_kind kind, const struct ebb_doc_node **node,
                                struct ebb_error *err);

#endif
