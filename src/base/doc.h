/* doc.h - a document: the tree of a JSON or YAML file, every value with its line and column.
 *
 * One shape for both languages, so that config code is written once. Nodes live in the arena given
 * to the loader and are immutable afterwards. Duplicate keys are refused by the loaders.
 *
 * YAML (libfyaml, core schema of 1.2: `yes` is a string, `~` and empty are null, 0x10 and 0o17 are
 * integers) is guarded BEFORE the tree is built, on the event stream: at most 256 KiB, 1,000 keys
 * per mapping, depth 32, 20,000 nodes after alias expansion; a bomb is refused in under 20 ms.
 * Anchors, aliases and `<<` merges are resolved; a merged value keeps the position of its anchor.
 */
#ifndef EBB_BASE_DOC_H
#define EBB_BASE_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

enum ebb_doc_kind {
    EBB_DOC_NULL,
    EBB_DOC_BOOL,
    EBB_DOC_INT,    /* fits int64 */
    EBB_DOC_DOUBLE, /* any other finite number; YAML .inf/.nan are refused */
    EBB_DOC_STRING,
    EBB_DOC_LIST,
    EBB_DOC_MAP,
};

struct ebb_doc_node {
    enum ebb_doc_kind kind;
    uint32_t line, column; /* of the value; 1-based */
    bool boolean;
    int64_t integer; /* INT */
    double number;   /* INT and DOUBLE */
    const char
        *text; /* STRING: terminated, may hold NUL inside (length says); numbers: the spelling */
    size_t length;                           /* STRING */
    size_t count;                            /* LIST, MAP */
    const struct ebb_doc_node *const *items; /* LIST and MAP values, file order */
    const struct ebb_doc_node *const *keys;  /* MAP: STRING nodes, same order as items */
    /* Private to doc.c: who may grow items and keys in place. A copied node is not the owner, so
     * changing the copy leaves the original alone. */
    const struct ebb_doc_node *owner;
    size_t capacity;
};

/* `name` is used in messages ("name:line:column: ..."). bytes are borrowed for the call only. */
enum ebb_status ebb_doc_parse_json(struct ebb_arena *arena, const char *name, const char *bytes,
                                   size_t length, const struct ebb_doc_node **root,
                                   struct ebb_error *err);
enum ebb_status ebb_doc_parse_yaml(struct ebb_arena *arena, const char *name, const char *bytes,
                                   size_t length, const struct ebb_doc_node **root,
                                   struct ebb_error *err);
/* By suffix: .json is JSON, everything else YAML. JSON files up to 64 MiB here. */
enum ebb_status ebb_doc_load(struct ebb_arena *arena, const char *path,
                             const struct ebb_doc_node **root, struct ebb_error *err);

/* Member of a MAP by key, or NULL (also when node is NULL or no MAP). */
const struct ebb_doc_node *ebb_doc_get(const struct ebb_doc_node *node, const char *key);
/* The same for a member whose value is not null. */
const struct ebb_doc_node *ebb_doc_given(const struct ebb_doc_node *map, const char *key);
/* Convenience readers: value of member `key`, or `fallback` when absent or of another kind. */
const char *ebb_doc_string(const struct ebb_doc_node *map, const char *key, const char *fallback);
int64_t ebb_doc_int(const struct ebb_doc_node *map, const char *key, int64_t fallback);
double ebb_doc_double(const struct ebb_doc_node *map, const char *key, double fallback);
bool ebb_doc_bool(const struct ebb_doc_node *map, const char *key, bool fallback);
const char *ebb_doc_kind_text(enum ebb_doc_kind kind); /* "a string", "a mapping", ... */

/* Texts in which ${name} stands for something else; "$${" is a plain "${". The piece at *at, which
 * moves behind it; false at the end. */
enum ebb_piece_kind { EBB_PIECE_PLAIN, EBB_PIECE_NAME, EBB_PIECE_UNCLOSED /* "${" without "}" */ };
struct ebb_piece {
    enum ebb_piece_kind kind;
    const char *text; /* as it stands, or the name between the braces */
    size_t length;
};
bool ebb_piece_next(const char **at, const char *end, struct ebb_piece *piece);

/* Building and changing trees (templates, defaults, normalised forms): new nodes in the arena. */
struct ebb_doc_node *ebb_doc_new(struct ebb_arena *arena, enum ebb_doc_kind kind);
/* A scalar with its text; numbers are not worked out. */
struct ebb_doc_node *ebb_doc_new_text(struct ebb_arena *arena, enum ebb_doc_kind kind,
                                      const char *text, size_t length);
struct ebb_doc_node *ebb_doc_new_string(struct ebb_arena *arena, const char *text);
struct ebb_doc_node *ebb_doc_new_int(struct ebb_arena *arena, int64_t value);
struct ebb_doc_node *ebb_doc_new_double(struct ebb_arena *arena, double value);
struct ebb_doc_node *ebb_doc_new_bool(struct ebb_arena *arena, bool value);
/* Append (LIST) or set (MAP; replaces an existing key). NULL-safe on out of memory: returns false.
 */
bool ebb_doc_append(struct ebb_arena *arena, struct ebb_doc_node *list,
                    const struct ebb_doc_node *item);
bool ebb_doc_set(struct ebb_arena *arena, struct ebb_doc_node *map, const char *key,
                 const struct ebb_doc_node *value);
/* Deep equality; numbers by value (INT 1 equals DOUBLE 1.0), maps without regard to order. */
bool ebb_doc_equal(const struct ebb_doc_node *a, const struct ebb_doc_node *b);
void ebb_doc_write_json(const struct ebb_doc_node *node,
                        struct ebb_json_writer *w); /* NULL: null */
/* As a member of an object. */
void ebb_doc_write_key(const struct ebb_doc_node *node, struct ebb_json_writer *w, const char *key);

#endif
