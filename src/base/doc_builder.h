/* doc_builder.h - what both loaders of documents share: open containers, their members so far, and
 * the refusal of duplicate keys. Private to base.
 *
 * Members of all open containers lie on one stack; closing a container copies its part into the
 * arena. */
#ifndef EBB_BASE_DOC_BUILDER_H
#define EBB_BASE_DOC_BUILDER_H

#include "base/doc.h"

struct ebb_doc_pair {
    const struct ebb_doc_node *key; /* NULL in lists */
    const struct ebb_doc_node *value;
    bool is_merge; /* YAML: plain `<<` */
};

struct ebb_doc_frame {
    enum ebb_doc_kind kind; /* LIST or MAP */
    uint32_t line, column;
    size_t first;               /* index of its first pair */
    struct ebb_doc_pair member; /* key that waits for its value */
};

struct ebb_doc_builder {
    struct ebb_arena *arena; /* borrowed */
    const char *name;        /* borrowed: for messages */
    size_t max_keys;         /* per mapping, merged ones included */
    struct ebb_doc_pair *pairs;
    struct ebb_doc_frame *frames;
    size_t pair_count, pair_capacity, depth, frame_capacity;
    const struct ebb_doc_node *root;
};

void ebb_doc_builder_init(struct ebb_doc_builder *b, struct ebb_arena *arena, const char *name,
                          size_t max_keys);
void ebb_doc_builder_fini(struct ebb_doc_builder *b); /* the tree stays in the arena */

/* A scalar node with a copy of its text; NULL when memory is out. */
struct ebb_doc_node *ebb_doc_builder_scalar(struct ebb_doc_builder *b, enum ebb_doc_kind kind,
                                            uint32_t line, uint32_t column, const char *text,
                                            size_t length);
enum ebb_status ebb_doc_builder_open(struct ebb_doc_builder *b, enum ebb_doc_kind kind,
                                     uint32_t line, uint32_t column, struct ebb_error *err);
/* True when the innermost container is a mapping that waits for a key. */
bool ebb_doc_builder_wants_key(const struct ebb_doc_builder *b);
enum ebb_status ebb_doc_builder_key(struct ebb_doc_builder *b, const struct ebb_doc_node *key,
                                    bool is_merge, struct ebb_error *err);
/* Add a value where one is wanted; at the top it becomes the root. */
enum ebb_status ebb_doc_builder_value(struct ebb_doc_builder *b, const struct ebb_doc_node *value,
                                      struct ebb_error *err);
/* Close the innermost container and add it where it stands; *node (may be NULL) receives it. */
enum ebb_status ebb_doc_builder_close(struct ebb_doc_builder *b, const struct ebb_doc_node **node,
                                      struct ebb_error *err);

#endif
