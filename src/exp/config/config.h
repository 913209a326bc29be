/* config.h - the experiment file: read, merged, checked, completed.
 *
 * One table of rows (schema.c) says which keys exist, their types, defaults and limits; reading,
 * checking, the normalised form, the error messages and docs/experiment-file.md all come from it.
 *
 * Effective configuration = defaults, then the site's checkpoint_storage, then a template, then the
 * file (types and merge rules: docs/experiment-file.md). Every violation is found in one pass and
 * reported in the order of the file. Nothing here reads a clock, a random device or the
 * environment: what varies (description, seed) is an option.
 *
 * C1  A configuration is returned only if there is no error: its fields obey every rule of the
 *     table.
 * C2  Everything in it lives in the arena given to the reader, and is immutable.
 * C3  Reading the normalised form again gives the same normalised form. */
#ifndef EBB_EXP_CONFIG_CONFIG_H
#define EBB_EXP_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/json.h"
#include "base/report.h"
#include "base/status.h"
#include "base/str.h"
#include "exp/config/types.h"

/* While the file is read: whether nothing is wrong with it, so that it has values. */
bool exp_hparam_is_good(const struct ebb_reading *reader, const struct exp_hparam *h);

/* ---- reading ---- */

/* Checks the keys of one of ebb's own sections (data model opt lr_schedule loss memory), called
 * once for each that is present when the entrypoint is ebb:... or onnx:...; `config` is complete
 * except for `normalized`. References ${name} are already known to name hyperparameters. Findings
 * join the same report. */
typedef void (*exp_section_check)(void *context, struct ebb_reading *reading, const char *section,
                                  const struct ebb_doc_node *value,
                                  const struct exp_config *config);

struct exp_config_options {
    const char *file_name;                    /* used in messages; required */
    const struct ebb_doc_node *site_storage;  /* site default of checkpoint_storage, or NULL */
    const char *site_name;                    /* its name in messages; NULL = "site defaults" */
    const struct ebb_doc_node *template_root; /* or NULL */
    const char *template_name;                /* its name in messages */
    const char *default_description;          /* used when no layer has one; NULL = leave unset */
    int64_t default_seed;                     /* masked to 31 bits; -1 = leave unset */
    exp_section_check check_section;          /* NULL: keys of ebb's own sections are not checked */
    void *check_context;
};

#define EXP_CONFIG_BYTES_MAX ((size_t)1 << 20) /* YAML is limited further by doc.h */

/* Check and complete a tree. Trees are borrowed, and must live as long as the arena's content is
 * used. EBB_EINPUT: there are errors, *config is untouched, err holds the first one and their
 * number. The report is filled in both cases; its memory is the arena's. */
enum ebb_status exp_config_read(struct ebb_arena *arena, const struct ebb_doc_node *root,
                                const struct exp_config_options *options, struct exp_config *config,
                                struct ebb_report *report, struct ebb_error *err);
/* The same from bytes (YAML, of which JSON is a subset). A syntax error is the report's only
 * finding. */
/* A template need not be complete, but every key of it must be one of the file's; `check` (may be NULL) is
 * asked about `memory` without a configuration. EBB_EINPUT: `report`
 * says which are not; in the arena. */
enum ebb_status exp_template_check(struct ebb_arena *arena, const char *name,
                                   const struct ebb_doc_node *root, exp_section_check check,
                                   struct ebb_report *report, struct ebb_error *err);

enum ebb_status exp_config_parse(struct ebb_arena *arena, const char *bytes, size_t length,
                                 const struct exp_config_options *options,
                                 struct exp_config *config, struct ebb_report *report,
                                 struct ebb_error *err);
/* The same from a file ("-" = standard input; .json is read as JSON); options->file_name is set to
 * path. */
enum ebb_status exp_config_load(struct ebb_arena *arena, const char *path,
                                const struct exp_config_options *options, struct exp_config *config,
                                struct ebb_report *report, struct ebb_error *err);

/* Read the two sections alone, as the search vectors give them: same rules as in a whole file,
 * except that global_batch_size is not required. `searcher` or `hparams` may be NULL to read
 * only the other; the grid rules (every range has a count, at most 2000 points) need both. Messages
 * carry every violation, one per line, behind the name of the file. */
enum ebb_status exp_search_parse(struct ebb_arena *arena, const char *file_name,
                                 const struct ebb_doc_node *searcher_node,
                                 const struct ebb_doc_node *hparams_node,
                                 struct exp_searcher *searcher, struct exp_hparams *hparams,
                                 struct ebb_error *err);

#define EXP_CONFIG_MASK "********"
/* A copy of a normalised form fit for showing: passwords and secret keys read "********". */
const struct ebb_doc_node *exp_config_masked(struct ebb_arena *arena,
                                             const struct ebb_doc_node *normalized);

/* "Experiment (quiet-amber-heron)": the description of an experiment that has none. */
const char *exp_config_describe(struct ebb_arena *arena, uint64_t seed);

/* ---- valid, but not yet runnable ---- */

struct exp_unbuilt {
    const char *path;  /* "checkpoint_storage.type" */
    const char *value; /* the part of its values that is meant: "s3", "> 1"; "" = any */
    const char *reason;
    bool (*uses)(const struct exp_config *config); /* NULL: the value at path is one of value */
};
bool exp_unbuilt_uses(const struct exp_unbuilt *row, const struct exp_config *config);

extern const struct exp_unbuilt exp_unbuilt_table[];
extern const size_t exp_unbuilt_count;

/* Rows that `config` uses, as indexes into the table (ascending); returns their number. `rows` has
 * room for exp_unbuilt_count. Zero means: this build can run it. */
size_t exp_config_unbuilt(const struct exp_config *config, size_t *rows);

/* ---- the reference ---- */

void exp_config_reference_markdown(
    struct ebb_str *out); /* docs/experiment-file.md, byte for byte */
void exp_config_reference_json(struct ebb_json_writer *w);

#endif
