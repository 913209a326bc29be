/* keys.h - the one reader of key tables: rows say which keys a mapping may have, and reading,
 * checking, defaults, messages and documentation come from the rows.
 *
 * To add a key: one row, and the field it fills.
 *
 *     static const struct ebb_key rows[] = {
 *         {.path = "budget", .kind = EBB_KEY_BYTES, .at = offsetof(struct memory, budget_bytes),
 *          .bounds = "> 0", .help = "memory of the device"},
 *         {.path = "precision", .kind = EBB_KEY_WORD, .at = offsetof(struct memory, precision),
 *          .words = "fp32 bf16 fp16", .help = "of compute"},
 *     };
 *     static const struct ebb_keys table = EBB_KEYS(rows);
 *     struct memory memory = {.budget_bytes = UINT64_MAX};       // defaults
 *     ebb_keys_read(&reading, &(struct ebb_section){.table = &table}, &path, node, node, &memory);
 *
 * K1  Every mistake of the mapping is found in one pass (report.h): unknown keys with the nearest
 *     known one, values of another kind or out of range, required keys that are missing.
 * K2  A field is written only when its value is good. A key that is absent or null leaves the field
 *     alone, unless its row has a preset; so defaults may also be what the record holds before.
 * K3  Strict on purpose: "3" is no integer, 1 is no boolean, but 3.0 is 3 and an integer is a
 *     number.
 * K4  What comes back is the mapping completed: defaults written out, rows in table order.
 *
 * Words of a message: "found 3.5, allowed: an integer > 0; nearest: x", "unknown key, nearest: x;
 * allowed: a, b", "required but missing, allowed: ...". */
#ifndef EBB_BASE_KEYS_H
#define EBB_BASE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

enum ebb_key_kind {
    EBB_KEY_TEXT,    /* const char *: without NUL; `words` or `check` narrow it          */
    EBB_KEY_INT,     /* int64_t                                                          */
    EBB_KEY_DOUBLE,  /* double                                                           */
    EBB_KEY_BOOL,    /* bool                                                             */
    EBB_KEY_WORD,    /* a C enum, in the order of `words`                                */
    EBB_KEY_BYTES,   /* uint64_t: 67108864, 64MiB; `words`: one that means UINT64_MAX    */
    EBB_KEY_PAIR,    /* double[2]                                                        */
    EBB_KEY_INTS,    /* a list of at least one int64_t; with `room` also one number      */
    EBB_KEY_DOUBLES, /* the same of double; one number is a list of one                  */
    EBB_KEY_TEXTS,   /* the same of const char *, none of them empty; one text likewise  */
    EBB_KEY_NODES,   /* const struct ebb_doc_node *const *: a list of at least one value */
    EBB_KEY_NODE,    /* const struct ebb_doc_node *: any value, null included            */
    EBB_KEY_FREE,    /* const struct ebb_doc_node *: a mapping with any keys             */
    EBB_KEY_MAP,     /* the rows below it; `at` is the record that those rows fill       */
    EBB_KEY_OWN,     /* `type` reads it                                                  */
};

enum ebb_key_flag {
    EBB_KEY_REQUIRED = 1u << 0,
    EBB_KEY_NULLABLE =
        1u << 1, /* null is a value of its own: it is written out, and it wins over a lower layer */
    EBB_KEY_QUIET = 1u << 2,     /* written to the completed mapping only when given */
    EBB_KEY_TAG = 1u << 3,       /* selects the alternative of its section: see `when` */
    EBB_KEY_OPTIONAL = 1u << 4,  /* MAP, FREE: absent means absent, not empty */
    EBB_KEY_OLD = 1u << 5,       /* key of old files: not offered in messages */
    EBB_KEY_BEYOND = 1u << 6,    /* an addition of ebb; for documentation */
    EBB_KEY_NO_EFFECT = 1u << 7, /* accepted, does nothing: a warning says so */
    EBB_KEY_SECRET = 1u << 8,    /* never shown */
    EBB_KEY_LOOSE = 1u << 9,     /* numbers: "1e-6" is one, too, as files of YAML 1.1 write it */
    EBB_KEY_ANY_CASE = 1u << 10, /* words in upper and lower case alike */
    EBB_KEY_EMPTY = 1u << 11,    /* lists: may be empty */
    EBB_KEY_HIDE = 1u << 12,     /* not there where a section hides (struct ebb_key.hides) */
};

struct ebb_key;

/* A kind of value. Those of enum ebb_key_kind have one each; a table may bring its own. */
struct ebb_value { /* that is read */
    struct ebb_reading *reading;
    const struct ebb_key *key;
    const struct ebb_path *path; /* NULL: there is no file */
    const struct ebb_doc_node *node;
    void *record;
};

struct ebb_key_type {
    const char *noun;    /* "an integer" */
    unsigned shapes;     /* OR of 1u << enum ebb_doc_kind: others are refused unread; 0 = any */
    const char *section; /* the values in it are mappings with the rows below this path, or NULL */
    enum ebb_doc_kind empty; /* what is read when the key is absent: LIST, MAP; NULL = nothing */
    /* Read a good value into the record; it comes back in its normalised form. NULL: refused. */
    const struct ebb_doc_node *(*read)(const struct ebb_value *value);
    bool reports; /* `read` has reported what it refuses */
    /* Layers: `later` over `earlier`; NULL: it replaces it. */
    const struct ebb_doc_node *(*merge)(struct ebb_reading *reading,
                                        const struct ebb_doc_node *earlier,
                                        const struct ebb_doc_node *later);
};

#define EBB_KEY_NOWHERE SIZE_MAX /* `at` of a value that is checked and not kept */

struct ebb_key {
    const char *path; /* "budget"; of sections "augment.flip", "searcher.max_steps" */
    const char *when; /* alternatives that have the key, blank-separated; NULL = all */
    enum ebb_key_kind kind;
    const struct ebb_key_type *type; /* OWN */
    unsigned flags;
    const char *preset; /* the default as a file would spell it; NULL = K2 */
    const char *bounds; /* numbers, and each number of a list: "> 0", ">= 0, <= 0.5" */
    const char *words;  /* WORD, TEXT: blank-separated */
    const char *(*word)(size_t index); /* the same from another table; NULL past its end */
    bool (*check)(const char *text);   /* TEXT: is it well formed? Then words only tell */
    const char *allowed;               /* in the place of what the kind, bounds and words say */
    const char *section;               /* MAP: path of its rows; NULL = its own */
    bool hides;                        /* MAP: its rows with EBB_KEY_HIDE are not there */
    size_t at;                         /* offsetof the field */
    size_t count_at;                   /* lists: of their number, 8 bytes */
    size_t room; /* lists: the field is an array of so many; 0: a pointer to the arena */
    const char *help;
};

/* A row of a key that fills `field` of `type`; what else it has follows the help. */
#define EBB_KEY_ROW(type, name, kind_, field, about, ...)                                          \
    {                                                                                              \
        .path = (name), .kind = EBB_KEY_##kind_, .at = offsetof(type, field), .help = (about),     \
        __VA_ARGS__                                                                                \
    }

struct ebb_keys {
    const struct ebb_key *rows;
    size_t count;
    const char *manual; /* where all keys are told, so that messages need not; NULL = nowhere */
};
#define EBB_KEYS(rows)                                                                             \
    {                                                                                              \
        (rows), sizeof(rows) / sizeof *(rows), NULL                                                \
    }

/* Some rows of a table: those that one mapping may have. */
struct ebb_section {
    const struct ebb_keys *table;
    const char *prefix; /* the rows directly below this path; NULL = top level */
    const char *only;   /* of those, blank-separated; NULL = all */
    const char *also;   /* further keys, which others read; NULL = none */
    const char *what;   /* "dataset idx": whose keys they are, for messages; NULL */
    bool is_open;       /* all other keys are read by others */
    bool hides;         /* rows with EBB_KEY_HIDE are not there */
    uint64_t *given;    /* NULL, or told bit by bit: row i of the table had a good value */
};

/* Read mapping `node` (NULL or null: empty) into `record`; the completed mapping comes back, NULL
 * when it is none or memory is out. `where` is the place of "missing" when there is no node. */
struct ebb_doc_node *ebb_keys_read(struct ebb_reading *reading, const struct ebb_section *section,
                                   const struct ebb_path *path, const struct ebb_doc_node *node,
                                   const struct ebb_doc_node *where, void *record);
/* Only report the keys, here and below, that no alternative knows: a part of the whole. */
void ebb_keys_check(struct ebb_reading *reading, const struct ebb_section *section,
                    const struct ebb_path *path, const struct ebb_doc_node *node);

/* One value of a row, whose own rows (MAP) are in `table`; its normalised form comes back, NULL when it was refused. */
const struct ebb_doc_node *ebb_key_read(struct ebb_reading *reading, const struct ebb_key *key,
                                        const struct ebb_keys *table, const struct ebb_path *path,
                                        const struct ebb_doc_node *node, void *record);
/* The preset of a row that has no value: stored, and its completed form comes back, or NULL. */
const struct ebb_doc_node *ebb_key_preset(struct ebb_reading *reading, const struct ebb_key *key,
                                          void *record);
/* The same from a command line. False: refused, and why says "found ..., allowed: ...". */
bool ebb_key_read_text(const struct ebb_key *key, const char *text, void *record,
                       struct ebb_str *why);
void ebb_key_refuse(struct ebb_reading *reading, const struct ebb_key *key,
                    const struct ebb_path *path, const struct ebb_doc_node *node);
/* A text without NUL, or NULL after an error. */
const char *ebb_key_text(struct ebb_reading *reading, const struct ebb_path *path,
                         const struct ebb_doc_node *node, const char *allowed);
/* A whole number: an integer, or 3.0. */
bool ebb_key_whole(const struct ebb_doc_node *node, int64_t *value);

/* ---- looking at rows: documentation, merging ---- */

const char *ebb_key_name(const struct ebb_key *key); /* the last part of its path */
/* The rows of a MAP's members; or of the elements of an OWN's value. NULL prefix: there are none.
 */
struct ebb_section ebb_key_section(const struct ebb_keys *table, const struct ebb_key *key);
bool ebb_section_has(const struct ebb_section *section, const struct ebb_key *key);
/* Does the row exist under alternative `tag`? NULL tag: only rows common to all alternatives. */
bool ebb_key_applies(const struct ebb_key *key, const char *tag);
/* Row with this name under `tag`; the row of some other alternative when none applies (*foreign
 * set); NULL when no alternative has it. */
const struct ebb_key *ebb_section_find(const struct ebb_section *section, const char *tag,
                                       const char *name, size_t length, bool *foreign);
const struct ebb_key *ebb_section_tag(const struct ebb_section *section); /* or NULL */
const struct ebb_key_type *ebb_key_type(const struct ebb_key *key);
void ebb_say_allowed(const struct ebb_key *key, struct ebb_str *out); /* "an integer > 0" */
/* What a number, boolean, word or list of integers of a record is, as a file would spell it. */
void ebb_say_value(const struct ebb_key *key, const void *record, struct ebb_str *out);

#endif
