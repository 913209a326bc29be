/* ranks.c - see ranks.h. Invariant: no chunk is empty; concatenated, the chunks ascend by metric.
 */
#include "exp/search/ranks.h"

#include <string.h>

#include "base/heap.h"

void exp_ranks_init(struct exp_ranks *ranks)
{
    *ranks = (struct exp_ranks){0};
}

void exp_ranks_fini(struct exp_ranks *ranks)
{
    for (size_t i = 0; i < ranks->chunk_count; i++)
        ebb_free(ranks->chunks[i].items);
    ebb_free(ranks->chunks);
    exp_ranks_init(ranks);
}

/* Whether an entry with metric `there` stands before the place of a new `metric`. */
static bool is_before(double there, double metric, enum exp_rank_ties ties)
{
    return ties == EXP_AFTER_EQUALS ? there <= metric : there < metric;
}

/* Number of leading entries of the chunk that stand before the new one. */
static size_t place_in(const struct exp_rank_chunk *chunk, double metric, enum exp_rank_ties ties)
{
    size_t low = 0, high = chunk->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(chunk->items[middle].metric, metric, ties))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* First chunk whose last entry does not stand before the new one; the last chunk if there is none.
 */
static size_t chunk_for(const struct exp_ranks *ranks, double metric, enum exp_rank_ties ties)
{
    size_t low = 0, high = ranks->chunk_count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct exp_rank_chunk *chunk = &ranks->chunks[middle];
        if (is_before(chunk->items[chunk->count - 1].metric, metric, ties))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Open an empty chunk at `at`; the caller fills it. */
static enum ebb_status add_chunk(struct exp_ranks *ranks, size_t at, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&ranks->chunks, &ranks->chunk_capacity, ranks->chunk_count + 1,
                     sizeof *ranks->chunks, err));
    struct exp_rank *items = ebb_alloc(EXP_RANK_CHUNK * sizeof *items);
    if (items == NULL)
        return ebb_no_memory(err, EXP_RANK_CHUNK * sizeof *items);
    memmove(ranks->chunks + at + 1, ranks->chunks + at,
            (ranks->chunk_count - at) * sizeof *ranks->chunks);
    ranks->chunks[at] = (struct exp_rank_chunk){.items = items};
    ranks->chunk_count++;
    return EBB_OK;
}

static enum ebb_status split_if_full(struct exp_ranks *ranks, size_t at, struct ebb_error *err)
{
    if (ranks->chunks[at].count < EXP_RANK_CHUNK)
        return EBB_OK;
    EBB_TRY(add_chunk(ranks, at + 1, err));
    struct exp_rank_chunk *left = &ranks->chunks[at], *right = left + 1;
    size_t keep = EXP_RANK_CHUNK / 2;
    right->count = EXP_RANK_CHUNK - keep;
    memcpy(right->items, left->items + keep, right->count * sizeof *right->items);
    left->count = keep;
    return EBB_OK;
}

enum ebb_status exp_ranks_insert(struct exp_ranks *ranks, struct exp_rank entry,
                                 enum exp_rank_ties ties, size_t *index, struct ebb_error *err)
{
    if (ranks->chunk_count == 0)
        EBB_TRY(add_chunk(ranks, 0, err));
    size_t at = ranks->count == 0 ? 0 : chunk_for(ranks, entry.metric, ties);
    EBB_TRY(split_if_full(ranks, at, err));
    size_t place = place_in(&ranks->chunks[at], entry.metric, ties);
    if (place == ranks->chunks[at].count && at + 1 < ranks->chunk_count &&
        place_in(&ranks->chunks[at + 1], entry.metric, ties) > 0)
        place = place_in(&ranks->chunks[++at], entry.metric, ties); /* the split moved the place */
    struct exp_rank_chunk *chunk = &ranks->chunks[at];
    memmove(chunk->items + place + 1, chunk->items + place,
            (chunk->count - place) * sizeof *chunk->items);
    chunk->items[place] = entry;
    chunk->count++;
    ranks->count++;
    for (size_t i = 0; i < at; i++)
        place += ranks->chunks[i].count;
    *index = place;
    return EBB_OK;
}

void exp_ranks_skip(struct exp_rank_walk *walk, size_t n)
{
    const struct exp_ranks *ranks = walk->ranks;
    walk->at += n;
    while (walk->chunk < ranks->chunk_count && walk->at >= ranks->chunks[walk->chunk].count)
        walk->at -= ranks->chunks[walk->chunk++].count;
}

struct exp_rank_walk exp_ranks_from(const struct exp_ranks *ranks, size_t index)
{
    struct exp_rank_walk walk = {.ranks = ranks};
    exp_ranks_skip(&walk, index);
    return walk;
}

bool exp_ranks_next(struct exp_rank_walk *walk, struct exp_rank *entry)
{
    if (walk->chunk >= walk->ranks->chunk_count)
        return false;
    const struct exp_rank_chunk *chunk = &walk->ranks->chunks[walk->chunk];
    if (chunk->count == 0)
        return false; /* a list that never held anything */
    *entry = chunk->items[walk->at++];
    if (walk->at == chunk->count) {
        walk->at = 0;
        walk->chunk++;
    }
    return true;
}

struct exp_rank exp_ranks_at(const struct exp_ranks *ranks, size_t index)
{
    struct exp_rank_walk walk = exp_ranks_from(ranks, index);
    return ranks->chunks[walk.chunk].items[walk.at];
}

bool exp_ranks_remove(struct exp_ranks *ranks, uint32_t trial)
{
    for (size_t c = 0; c < ranks->chunk_count; c++) {
        struct exp_rank_chunk *chunk = &ranks->chunks[c];
        for (size_t i = 0; i < chunk->count; i++) {
            if (chunk->items[i].trial != trial)
                continue;
            memmove(chunk->items + i, chunk->items + i + 1,
                    (chunk->count - i - 1) * sizeof *chunk->items);
            ranks->count--;
            if (--chunk->count == 0) {
                ebb_free(chunk->items);
                memmove(ranks->chunks + c, ranks->chunks + c + 1,
                        (ranks->chunk_count - c - 1) * sizeof *ranks->chunks);
                ranks->chunk_count--;
            }
            return true;
        }
    }
    return false;
}
