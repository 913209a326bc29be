/* report.h - what reading a file has to say: findings with their places, collected, sorted, printed.
 *
 * A *reading* goes over one document (doc.h) and adds findings to a *report*. Several readers may
 * take part in one reading, each with the keys it knows (keys.h); nobody hands messages upward as
 * text that somebody else takes apart again.
 *
 *     struct ebb_reading reading;
 *     struct ebb_report report;
 *     ebb_reading_init(&reading, &arena, "experiment.yaml", &report);
 *     ... ebb_keys_read(...), ebb_reading_error(...) ...
 *     status = ebb_reading_end(&reading, err);     // sorts; EBB_EINPUT when there are errors
 *
 * R1  One finding per kind, place and path: the first one stays.
 * R2  Text from the file is quoted with control characters escaped and cut at 60 bytes, so that a
 *     message is one line and cannot steer a terminal.
 * R3  An error does not stop the reading: it is added and the field is marked bad, so that rules
 *     between fields are checked exactly where both sides are good.
 *     A document's node can be marked bad as well: what is wrong with it is told elsewhere, and
 *     nothing more is said about it.
 * R4  Out of memory sets `failed`; everything is then a no-op and ebb_reading_end returns
 *     EBB_ENOMEM.
 */
#ifndef EBB_BASE_REPORT_H
#define EBB_BASE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/json.h"
#include "base/map.h"
#include "base/status.h"
#include "base/str.h"

/* ---- the report ---- */

enum ebb_finding_kind {
    EBB_FINDING_ERROR,   /* the file is refused */
    EBB_FINDING_WARNING, /* accepted, but probably not what was meant, or without effect */
    EBB_FINDING_NOTE,    /* valid, but this build cannot run it yet */
};

struct ebb_finding {
    enum ebb_finding_kind kind;
    uint32_t layer;        /* which file: the last one is the file itself, see ebb_reading_layer */
    const char *file;      /* borrowed; NULL: there is no name to tell */
    uint32_t line, column; /* 1-based; 0 = none */
    const char *path;    /* "searcher.max_steps", "bind_mounts[0].host_path"; "" = the whole file */
    const char *also;    /* the second field of a rule between two, or NULL */
    const char *message; /* "found 3.5, allowed: an integer > 0" */
};

/* Findings in the order of file, line, column. At most EBB_FINDINGS_MAX are kept; the rest is
 * counted. */
#define EBB_FINDINGS_MAX 200

struct ebb_report {
    struct ebb_finding *items; /* in the arena of the reading */
    size_t count, capacity;
    size_t errors, warnings, notes; /* found, kept or not */
};

/* "file:line:column: path: message", warnings and notes marked as such; one line, no newline. */
void ebb_finding_format(const struct ebb_finding *finding, struct ebb_str *out);
void ebb_finding_write(const struct ebb_finding *finding, struct ebb_json_writer *out); /* object */

void ebb_report_lines(const struct ebb_report *report, struct ebb_str *out); /* one per line */
/* All findings, one per line, and a last line that says "FILE: valid" or "FILE: invalid: 3 errors".
 */
void ebb_report_format(const struct ebb_report *report, const char *file_name, struct ebb_str *out);

const struct ebb_finding *ebb_report_first(const struct ebb_report *report); /* error, or NULL */

/* ---- a reading ---- */

#define EBB_LAYERS 3 /* files that can lie over each other; the last one is the file itself */

struct ebb_reading {
    struct ebb_arena *arena; /* of findings and of everything that is read */
    struct ebb_report *report;
    const char *files[EBB_LAYERS];
    struct ebb_map layers; /* node address to layer, for nodes that are not of the file itself */
    struct ebb_map bad;    /* address of a C field to 1: its value in the file was refused */
    const void *context;   /* for the readers of one table; nobody else looks at it */
    bool failed;
};

/* A place in the tree, written out only when a message needs it. The whole document: NULL. */
struct ebb_path {
    const struct ebb_path *up;
    const char *key; /* NULL: element `index` of a list */
    size_t length;   /* of key; 0: it is terminated */
    size_t index;
};

struct ebb_path ebb_path_key(const struct ebb_path *up, const struct ebb_doc_node *key);
/* Member i of a mapping or list. */
struct ebb_path ebb_path_item(const struct ebb_path *up, const struct ebb_doc_node *node, size_t i);

/* `file` is used in messages and may be NULL. *report is emptied. */
void ebb_reading_init(struct ebb_reading *reading, struct ebb_arena *arena, const char *file,
                      struct ebb_report *report);
/* Sorts the report and ends the reading. EBB_EINPUT when there are errors: err holds the first one
 * and how many follow. */
enum ebb_status ebb_reading_end(struct ebb_reading *reading, struct ebb_error *err);
/* Only to free what the reading holds; ebb_reading_end does it as well. */
void ebb_reading_fini(struct ebb_reading *reading);
void ebb_report_sort(struct ebb_report *report);
/* Adds what another reading found, in a file that this one names; their arenas are the same. */
void ebb_reading_absorb(struct ebb_reading *reading, const struct ebb_report *found);

/* A reading with an arena of its own, for callers that want a status and the first mistake. */
struct ebb_alone {
    struct ebb_reading reading;
    struct ebb_report report; /* until ebb_alone_end */
    struct ebb_arena arena;
};
struct ebb_reading *ebb_alone_init(struct ebb_alone *alone);
enum ebb_status ebb_alone_end(struct ebb_alone *alone, struct ebb_error *err);

/* The whole tree belongs to this layer. */
void ebb_reading_layer(struct ebb_reading *reading, const struct ebb_doc_node *node,
                       uint32_t layer);

/* Add a finding at `node`, a value or key of the tree (NULL = the whole file). */
void ebb_reading_error(struct ebb_reading *reading, const struct ebb_path *path,
                       const struct ebb_doc_node *node, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same with the path as text, and of any kind. */
void ebb_reading_add(struct ebb_reading *reading, enum ebb_finding_kind kind,
                     const struct ebb_doc_node *node, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* An error about one key of a mapping: at its value, or at the mapping when it is absent. */
void ebb_reading_wrong(struct ebb_reading *reading, const struct ebb_path *path,
                       const struct ebb_doc_node *map, const char *key, const char *message);
/* The error "found NODE, allowed: ...". */
void ebb_reading_refuse(struct ebb_reading *reading, const struct ebb_path *path,
                        const struct ebb_doc_node *node, const char *allowed, ...)
    __attribute__((format(printf, 4, 5)));
/* A finding whose text is complete; the text is freed. */
void ebb_reading_say(struct ebb_reading *reading, enum ebb_finding_kind kind,
                     const struct ebb_path *path, const struct ebb_doc_node *node,
                     struct ebb_str *take_text);
/* Name the second field of the error just added. */
void ebb_reading_also(struct ebb_reading *reading, const char *also);
/* No room for another finding: counts one more error and answers true, so that its words need not
 * be made. */
bool ebb_reading_is_full(struct ebb_reading *reading);

void ebb_reading_mark_bad(struct ebb_reading *reading, const void *field);
bool ebb_reading_is_good(const struct ebb_reading *reading, const void *field);

/* Memory and new nodes of the reading's arena; NULL after out of memory. A node stands where `like`
 * stands (NULL: no place). */
void *ebb_reading_alloc(struct ebb_reading *reading, size_t count, size_t bytes);
struct ebb_doc_node *ebb_reading_node(struct ebb_reading *reading, enum ebb_doc_kind kind,
                                      const struct ebb_doc_node *like);
/* Nothing happens when map, list or value is NULL. */
void ebb_reading_set(struct ebb_reading *reading, struct ebb_doc_node *map, const char *key,
                     const struct ebb_doc_node *value);
void ebb_reading_append(struct ebb_reading *reading, struct ebb_doc_node *list,
                        const struct ebb_doc_node *item);

/* ---- words: blank-separated, as tables have them ---- */

/* Word number `index`; its length in *length. NULL past the end. words may be NULL: none. */
const char *ebb_words_at(const char *words, size_t index, size_t *length);
/* Is `word` one of them? Its index in *index (may be NULL). */
bool ebb_words_find(const char *words, const char *word, size_t length, size_t *index);
size_t ebb_words_count(const char *words);
void ebb_words_add(struct ebb_str *words, const char *word); /* a blank before all but the first */

/* The word nearest to a text and its length, or NULL when none is near. */
const char *ebb_words_nearest(const char *words, const char *text, size_t length, size_t *n);

void ebb_say_words(const char *words, struct ebb_str *out); /* "a b" as "a, b" */
/* "; nearest: w" when one of the words is near to the text. */
void ebb_say_nearest(const char *words, const char *text, size_t length, struct ebb_str *out);
void ebb_say_found(const struct ebb_doc_node *node, struct ebb_str *out); /* 3.5, "x", a list */
void ebb_say_quoted(const char *text, size_t length, struct ebb_str *out);

#endif
