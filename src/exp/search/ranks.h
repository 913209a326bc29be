/* ranks.h - results in ascending order, with ranks, for rungs of a hundred thousand trials.
 *
 * A sorted list in chunks: insertion moves at most one chunk (4 KiB) and rank and selection walk a
 * directory of chunk counts, so both stay near a microsecond where a plain sorted array would move
 * megabytes. Private to exp/search. */
#ifndef EBB_EXP_SEARCH_RANKS_H
#define EBB_EXP_SEARCH_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct exp_rank {
    double metric; /* never NaN */
    uint32_t trial;
};

struct exp_rank_chunk {
    struct exp_rank *items; /* owned, room for EXP_RANK_CHUNK */
    size_t count;           /* > 0 */
};

#define EXP_RANK_CHUNK 256

struct exp_ranks {
    struct exp_rank_chunk *chunks;
    size_t chunk_count, chunk_capacity;
    size_t count;
};

enum exp_rank_ties { EXP_AFTER_EQUALS, EXP_BEFORE_EQUALS };

void exp_ranks_init(struct exp_ranks *ranks);
void exp_ranks_fini(struct exp_ranks *ranks);
enum ebb_status exp_ranks_insert(struct exp_ranks *ranks, struct exp_rank entry,
                                 enum exp_rank_ties ties, size_t *index, struct ebb_error *err);
/* index < count */
struct exp_rank exp_ranks_at(const struct exp_ranks *ranks, size_t index);
/* Take out the entry of a trial; false: there is none. Linear: for the rare exit only. */
bool exp_ranks_remove(struct exp_ranks *ranks, uint32_t trial);

/* Walk from `index` upward:  for (it = exp_ranks_from(r, 0); exp_ranks_next(&it, &entry);) */
struct exp_rank_walk {
    const struct exp_ranks *ranks;
    size_t chunk, at;
};

struct exp_rank_walk exp_ranks_from(const struct exp_ranks *ranks, size_t index);
bool exp_ranks_next(struct exp_rank_walk *walk, struct exp_rank *entry);
/* Leave out the next n entries. */
void exp_ranks_skip(struct exp_rank_walk *walk, size_t n);

#endif
