/* reader.h - one reading of an experiment file: what the files of exp/config share. Private.
 *
 * The `context` of the reading (base/report.h) is its struct exp_config_options. */
#ifndef EBB_EXP_CONFIG_READER_H
#define EBB_EXP_CONFIG_READER_H

#include "exp/config/config.h"
#include "exp/config/schema.h"

enum exp_layer { EXP_LAYER_SITE, EXP_LAYER_TEMPLATE, EXP_LAYER_FILE };

/* ---- layers.c ---- */
/* The later layer over the earlier one, by the rules of the schema. Either may be NULL. */
const struct ebb_doc_node *exp_layers_merge(struct ebb_reading *reader,
                                            const struct ebb_doc_node *earlier,
                                            const struct ebb_doc_node *later);
/* `merge` of kinds of values: free-form content, labels, two sides, hyperparameters. */
const struct ebb_doc_node *exp_merge_free(struct ebb_reading *reader, const struct ebb_doc_node *a,
                                          const struct ebb_doc_node *b);
const struct ebb_doc_node *exp_merge_labels(struct ebb_reading *reader,
                                            const struct ebb_doc_node *a,
                                            const struct ebb_doc_node *b);
const struct ebb_doc_node *exp_merge_sides(struct ebb_reading *reader, const struct ebb_doc_node *a,
                                           const struct ebb_doc_node *b);
const struct ebb_doc_node *exp_merge_hparams(struct ebb_reading *reader,
                                             const struct ebb_doc_node *a,
                                             const struct ebb_doc_node *b);

/* ---- rules.c: rules between fields; `root` is the merged tree ---- */
void exp_rules_config(struct ebb_reading *reader, const struct ebb_doc_node *root,
                      struct exp_config *config);
/* rules_search.c: searcher and search space */
/* What is left out of early_stopping is the searcher's. */
void exp_rules_patience(struct ebb_reading *reader, const struct ebb_doc_node *root,
                        struct exp_searcher *searcher, int64_t validation_period);
void exp_rules_searcher(struct ebb_reading *reader, const struct ebb_doc_node *root,
                        struct exp_searcher *searcher);
void exp_rules_grid(struct ebb_reading *reader, const struct ebb_doc_node *root,
                    const struct exp_searcher *searcher, const struct exp_hparams *hparams);
void exp_rules_batch_size(struct ebb_reading *reader, const struct ebb_doc_node *root,
                          const struct exp_config *config);
/* rules_own.c: ebb's own sections */
void exp_rules_own(struct ebb_reading *reader, const struct ebb_doc_node *root,
                   const struct exp_config *config);

/* The value at a dotted path of the merged tree, or the nearest thing above it that is there. */
const struct ebb_doc_node *exp_place(const struct ebb_doc_node *root, const char *path);

#endif
