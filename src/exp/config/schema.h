/* schema.h - the rows of the experiment file. Private to exp/config.
 *
 * A row is one key. Rows of a section stand together, in the order of the reference page and of the
 * normalised form. A key that differs between alternatives of a tagged section (searcher, storage,
 * hyperparameter) has one row per difference, told apart by `when`. To add a key: one row here, one
 * field in types.h; `EBB_GOLDEN_UPDATE=1 test_exp_config_golden` rewrites the page. A rule between
 * several keys goes to rules.c. */
#ifndef EBB_EXP_CONFIG_SCHEMA_H
#define EBB_EXP_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exp_type {
    EXP_T_STRING,      /* const char *                                                       */
    EXP_T_INT,         /* int64_t                                                            */
    EXP_T_DOUBLE,      /* double                                                             */
    EXP_T_BOOL,        /* bool                                                               */
    EXP_T_ENUM,        /* a C enum, in the order of `names`                                  */
    EXP_T_MAP,         /* the rows below it; `at` is the record those rows fill              */
    EXP_T_FREE,        /* const struct ebb_doc_node *: a mapping with any keys               */
    EXP_T_ANY,         /* const struct ebb_doc_node *: any value, null included              */
    EXP_T_ANY_LIST,    /* items at `at`, their number at `count_at`                          */
    EXP_T_INT_LIST,    /* as above, const int64_t *                                          */
    EXP_T_STRING_LIST, /* as above, const char *const *                                      */
    EXP_T_LABELS,      /* struct exp_strings                                                 */
    EXP_T_ENTRYPOINT,  /* struct exp_entrypoint                                              */
    EXP_T_IMAGE,       /* fields of struct exp_environment                                   */
    EXP_T_VARIABLES,   /* fields of struct exp_environment                                   */
    EXP_T_PORTS,       /* checked, not kept                                                  */
    EXP_T_HPARAMS,     /* struct exp_hparams; rows "hyperparameters.*" describe an element   */
    EXP_T_MOUNTS,      /* items and number; rows "bind_mounts[]" describe an element         */
};

enum exp_row_flag {
    EXP_REQUIRED = 1u << 0,
    EXP_NULLABLE =
        1u << 1, /* null is a value of its own: it is written out, and it wins over a lower layer */
    EXP_QUIET = 1u << 2,     /* written to the normalised form only when given */
    EXP_TAG = 1u << 3,       /* selects the alternative of its section */
    EXP_OPTIONAL = 1u << 4,  /* MAP: absent means absent, not empty */
    EXP_OLD = 1u << 5,       /* undocumented key of old files */
    EXP_BEYOND = 1u << 6,    /* not in the contract */
    EXP_NO_EFFECT = 1u << 7, /* accepted, does nothing: a warning says so */
    EXP_SECRET = 1u << 8,    /* never shown */
    EXP_RETENTION = 1u << 9, /* in checkpoint_storage, not in tensorboard_storage */
};

struct exp_row {
    const char *path; /* "searcher.max_steps", "hyperparameters.*.val", "bind_mounts[].host_path" */
    const char *when; /* alternatives that have the key, blank-separated; NULL = all */
    enum exp_type type;
    unsigned flags;
    const char *preset;              /* the default as a file would spell it; NULL = none */
    const char *bounds;              /* numbers: "> 0", ">= 0, <= 0.5" */
    const char *names;               /* ENUM: blank-separated */
    bool (*check)(const char *text); /* STRING: is it well formed? */
    const char *allowed;             /* STRING with check, ENUM with a remark: the words for it */
    size_t at, count_at;
    int64_t absent; /* INT and ENUM without preset: the C value that stands for "not given" */
    const char *help;
};

extern const struct exp_row exp_schema[];
extern const size_t exp_schema_count;

/* The last part of a row's path. */
const char *exp_row_key(const struct exp_row *row);
/* Is the row a direct child of section `prefix` ("" = top level)? */
bool exp_row_in(const struct exp_row *row, const char *prefix);
/* Does the row exist under alternative `tag`? NULL tag: only rows common to all alternatives. */
bool exp_row_applies(const struct exp_row *row, const char *tag);
/* Is `word` one of the blank-separated words? Index in *index (may be NULL). */
bool exp_words_find(const char *words, const char *word, size_t length, size_t *index);
/* Word number `index`; its length in *length. NULL past the end. */
const char *exp_words_at(const char *words, size_t index, size_t *length);
size_t exp_words_count(const char *words);

/* Row of section `prefix` with this key under `tag`; the row of some other alternative when none
 * applies
 * (*foreign set); NULL when no alternative has it. */
const struct exp_row *exp_schema_find(const char *prefix, const char *tag, const char *key,
                                      size_t length, bool *foreign);
/* The TAG row of a section, or NULL. */
const struct exp_row *exp_schema_tag(const char *prefix);

/* Where the rows of a MAP, HPARAMS or MOUNTS row's elements are found. */
const char *exp_row_section(const struct exp_row *row);

#endif
