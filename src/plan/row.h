/* row.h - what lies in tier 0, by address, and the holes between (private to plan).
 *
 * A hole lies below a block, or above the last one. Blocks lie in groups that know their widest hole,
 * so that a hole is found without a look at most of them. A place is a group and an index in it: of
 * a block, and of the hole below it; {count, 0} is the hole above the last block. Places change when
 * a block is put or removed. */
#ifndef EBB_PLAN_ROW_H
#define EBB_PLAN_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct plan_block {
    uint64_t begin, end;
    uint32_t storage;
    size_t leaves; /* step of its DROP */
};

enum { PLAN_GROUP = 64 };

struct plan_group {
    struct plan_block blocks[PLAN_GROUP];
    uint64_t widest;  /* of the holes below its blocks */
    uint64_t classes; /* of their sizes: row.c */
    uint32_t count;
    bool is_known; /* widest and classes are */
};

struct plan_row {
    struct plan_group **groups; /* by address; those in use, none of them empty, come first */
    size_t count, made, capacity;
    uint64_t bottom, top; /* blocks lie between them */
};

struct plan_place {
    size_t group;
    uint32_t index;
};

void plan_row_clear(struct plan_row *row, uint64_t bottom, uint64_t top);
void plan_row_fini(struct plan_row *row);

static inline struct plan_block *plan_row_block(const struct plan_row *row, struct plan_place at)
{
    return &row->groups[at.group]->blocks[at.index];
}

static inline bool plan_row_is_last(const struct plan_row *row, struct plan_place at)
{
    return at.group == row->count;
}

static inline struct plan_place plan_row_next(const struct plan_row *row, struct plan_place at)
{
    if (++at.index == row->groups[at.group]->count)
        at = (struct plan_place){at.group + 1, 0};
    return at;
}

/* The block below a place; NULL: there is none. */
static inline const struct plan_block *plan_row_below(const struct plan_row *row,
                                                      struct plan_place at)
{
    if (at.index > 0)
        return &row->groups[at.group]->blocks[at.index - 1];
    if (at.group == 0)
        return NULL;
    const struct plan_group *g = row->groups[at.group - 1];
    return &g->blocks[g->count - 1];
}

static inline uint64_t plan_row_hole_begin(const struct plan_row *row, struct plan_place at)
{
    const struct plan_block *below = plan_row_below(row, at);
    return below ? below->end : row->bottom;
}

static inline uint64_t plan_row_hole_end(const struct plan_row *row, struct plan_place at)
{
    return plan_row_is_last(row, at) ? row->top : plan_row_block(row, at)->begin;
}

static inline uint64_t plan_row_hole(const struct plan_row *row, struct plan_place at)
{
    return plan_row_hole_end(row, at) - plan_row_hole_begin(row, at);
}

/* The first block that begins at or above an address, or the hole above the last. */
struct plan_place plan_row_at(const struct plan_row *row, uint64_t begin);

/* The hole that fits best, the lowest of equals; the lowest that is large enough; the highest. False:
 * there is none. */
enum plan_fit { PLAN_FIT_BEST, PLAN_FIT_LOW, PLAN_FIT_HIGH };
bool plan_row_find(struct plan_row *row, enum plan_fit fit, uint64_t bytes,
                   struct plan_place *hole);

/* Into the hole below `at`. */
enum ebb_status plan_row_put(struct plan_row *row, struct plan_place at,
                             const struct plan_block *block, struct ebb_error *err);
void plan_row_remove(struct plan_row *row, struct plan_place at);
/* Down or up, between its neighbours. */
void plan_row_move(struct plan_row *row, struct plan_place at, uint64_t begin);

#endif
