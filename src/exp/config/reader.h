/* reader.h - one reading of an experiment file: the state shared by the files of exp/config.
 * Private.
 *
 * Errors do not stop the reading: they are added to the report and the field is marked bad, so that
 * rules between fields can be checked exactly where both sides are good. Out of memory sets
 * `failed`; everything is then a no-op and the reader returns EBB_ENOMEM at its end. */
#ifndef EBB_EXP_CONFIG_READER_H
#define EBB_EXP_CONFIG_READER_H

#include <stdarg.h>

#include "base/map.h"
#include "exp/config/config.h"
#include "exp/config/schema.h"

enum exp_layer { EXP_LAYER_SITE, EXP_LAYER_TEMPLATE, EXP_LAYER_FILE };

struct exp_config_reader {
    struct ebb_arena *arena;
    const struct exp_config_options *options;
    struct exp_report *report;
    const char *names[3];  /* by layer */
    struct ebb_map layers; /* node address to layer, for nodes that are not of the file */
    struct ebb_map bad;    /* address of a C field to 1: its value in the file was refused */
    bool failed;
};

/* A place in the tree, written out only when a message needs it. Top level: NULL. */
struct exp_path {
    const struct exp_path *up;
    const char *key; /* NULL: element `index` of a list */
    size_t length;
    size_t index;
};

void exp_reader_init(struct exp_config_reader *reader, struct ebb_arena *arena,
                     const struct exp_config_options *options, struct exp_report *report);
void exp_reader_fini(struct exp_config_reader *reader);

/* ---- report.c ---- */
void exp_report_error(struct exp_config_reader *reader, const struct exp_path *path,
                      const struct ebb_doc_node *node, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void exp_report_warning(struct exp_config_reader *reader, const struct exp_path *path,
                        const struct ebb_doc_node *node, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void exp_report_note(struct exp_config_reader *reader, const char *path,
                     const struct ebb_doc_node *node, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* No room for another finding: counts one more error and answers true, so that its words need not
 * be made. */
bool exp_report_is_full(struct exp_config_reader *reader);
/* Name the second field of the error just reported. */
void exp_report_also(struct exp_config_reader *reader, const char *also);
void exp_report_sort(struct exp_report *report);
void exp_path_format(const struct exp_path *path, struct ebb_str *out);

/* Words for messages. */
void exp_say_found(const struct ebb_doc_node *node,
                   struct ebb_str *out);                              /* 3.5, "x", a list of 2 */
void exp_say_allowed(const struct exp_row *row, struct ebb_str *out); /* an integer > 0 */
void exp_say_quoted(const char *text, size_t length, struct ebb_str *out);
void exp_say_words(const char *words, struct ebb_str *out); /* "a b" as "a, b" */
/* Nearest of blank-separated words to text, copied into the arena; NULL when none is near. */
const char *exp_nearest_word(struct exp_config_reader *reader, const char *words, const char *text,
                             size_t length);

/* ---- layers.c ---- */
/* Mark every node of the tree as belonging to `layer`. */
void exp_layer_mark(struct exp_config_reader *reader, const struct ebb_doc_node *node,
                    enum exp_layer layer);
enum exp_layer exp_layer_of(const struct exp_config_reader *reader,
                            const struct ebb_doc_node *node);
/* The later layer over the earlier one, by the rules of the schema. Either may be NULL. */
const struct ebb_doc_node *exp_layers_merge(struct exp_config_reader *reader,
                                            const struct ebb_doc_node *earlier,
                                            const struct ebb_doc_node *later);

/* ---- section.c ---- */
/* Read mapping `node` (NULL: empty) by the rows of `section` into `record`; the completed mapping
 * comes back, NULL after out of memory. `where` is the place for "missing" when node is NULL. */
struct ebb_doc_node *exp_section_read(struct exp_config_reader *reader, const char *section,
                                      const struct exp_path *path, const struct ebb_doc_node *node,
                                      const struct ebb_doc_node *where, void *record);
/* Mark the field of a refused or missing row; of a mapping, every field below it as well. */
void exp_section_mark_bad(struct exp_config_reader *reader, const struct exp_row *row, void *field);
/* Report the keys of a single layer that no alternative knows. */
void exp_section_check_keys(struct exp_config_reader *reader, const struct ebb_doc_node *root);

/* ---- values.c ---- */
/* Read one value that is there; the normalised value comes back, NULL when it was refused. */
const struct ebb_doc_node *exp_value_read(struct exp_config_reader *reader,
                                          const struct exp_row *row, const struct exp_path *path,
                                          const struct ebb_doc_node *node, void *record);
/* Store the default of a row without value; its normalised form comes back, NULL when there is
 * none. */
const struct ebb_doc_node *exp_value_default(struct exp_config_reader *reader,
                                             const struct exp_row *row, void *record);
void exp_value_refuse(struct exp_config_reader *reader, const struct exp_row *row,
                      const struct exp_path *path, const struct ebb_doc_node *node);
/* A string without NUL inside, or NULL after an error. */
const char *exp_value_text(struct exp_config_reader *reader, const struct exp_path *path,
                           const struct ebb_doc_node *node, const char *allowed);

/* ---- compound.c: values with a shape of their own ---- */
const struct ebb_doc_node *exp_read_labels(struct exp_config_reader *reader,
                                           const struct exp_path *path,
                                           const struct ebb_doc_node *node,
                                           struct exp_strings *labels);
const struct ebb_doc_node *exp_read_entrypoint(struct exp_config_reader *reader,
                                               const struct exp_path *path,
                                               const struct ebb_doc_node *node,
                                               struct exp_entrypoint *entry);
const struct ebb_doc_node *exp_read_image(struct exp_config_reader *reader,
                                          const struct exp_path *path,
                                          const struct ebb_doc_node *node,
                                          struct exp_environment *environment);
const struct ebb_doc_node *exp_read_variables(struct exp_config_reader *reader,
                                              const struct exp_path *path,
                                              const struct ebb_doc_node *node,
                                              struct exp_environment *environment);
const struct ebb_doc_node *exp_read_hparams(struct exp_config_reader *reader,
                                            const struct exp_path *path,
                                            const struct ebb_doc_node *node,
                                            struct exp_hparams *hparams);
const struct ebb_doc_node *exp_read_mounts(struct exp_config_reader *reader,
                                           const struct exp_path *path,
                                           const struct ebb_doc_node *node,
                                           const struct exp_bind_mount **mounts, size_t *count);

/* ---- rules.c: rules between fields; `root` is the merged tree ---- */
void exp_rules_config(struct exp_config_reader *reader, const struct ebb_doc_node *root,
                      struct exp_config *config);
/* rules_search.c: searcher and search space */
void exp_rules_searcher(struct exp_config_reader *reader, const struct ebb_doc_node *root,
                        struct exp_searcher *searcher);
void exp_rules_grid(struct exp_config_reader *reader, const struct ebb_doc_node *root,
                    const struct exp_searcher *searcher, const struct exp_hparams *hparams);
void exp_rules_batch_size(struct exp_config_reader *reader, const struct ebb_doc_node *root,
                          const struct exp_config *config);
/* rules_own.c: ebb's own sections */
void exp_rules_own(struct exp_config_reader *reader, const struct ebb_doc_node *root,
                   const struct exp_config *config);

/* ---- small helpers ---- */
/* The value at a dotted path of the merged tree, or the nearest thing above it that is there. */
const struct ebb_doc_node *exp_place(const struct ebb_doc_node *root, const char *path);
void exp_mark_bad(struct exp_config_reader *reader, const void *field);
bool exp_is_good(const struct exp_config_reader *reader, const void *field);
void *exp_alloc(struct exp_config_reader *reader, size_t count, size_t bytes);
/* A new node at the place of `like` (NULL: no place). NULL after out of memory. */
struct ebb_doc_node *exp_node(struct exp_config_reader *reader, enum ebb_doc_kind kind,
                              const struct ebb_doc_node *like);
void exp_set(struct exp_config_reader *reader, struct ebb_doc_node *map, const char *key,
             const struct ebb_doc_node *value);
void exp_append(struct exp_config_reader *reader, struct ebb_doc_node *list,
                const struct ebb_doc_node *item);
/* Member of a mapping whose value is not null, or NULL. */
const struct ebb_doc_node *exp_given(const struct ebb_doc_node *map, const char *key);

#endif
