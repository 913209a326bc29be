/* slab.c - one tier's bytes as a row of segments: best fit from either end, immediate coalescing.
 *
 * Segments form a doubly linked list in address order that always covers the slab exactly (SL1); no
 * two neighbouring segments are free (SL2); every offset and size is a multiple of PLAN_UNIT (SL3).
 * Free segments hang in bins by size (eight bins per power of two) with a bitmap, so a fit is found
 * without walking the slab. */
#include "mem/mem.h"

#include <string.h>

#include "base/heap.h"
#include "plan/plan.h"

#define BINS_PER_POWER 8
#define LOOK 24 /* entries of the first bin that are compared for the best fit */

static unsigned bin_of(uint64_t units) /* units > 0 */
{
    unsigned power = 63u - (unsigned)__builtin_clzll(units);
    unsigned part =
        power < 3 ? (unsigned)((units << (3 - power)) & 7) : (unsigned)((units >> (power - 3)) & 7);
    return power * BINS_PER_POWER + part;
}

static void bin_add(struct mem_slab *slab, uint32_t at)
{
    struct mem_segment *seg = &slab->segments[at];
    unsigned bin = bin_of(seg->bytes / PLAN_UNIT);
    seg->bin_next = slab->bins[bin];
    seg->bin_prev = MEM_NONE;
    if (seg->bin_next != MEM_NONE)
        slab->segments[seg->bin_next].bin_prev = at;
    slab->bins[bin] = at;
    slab->bin_used[bin / 64] |= UINT64_C(1) << (bin % 64);
    slab->free_bytes += seg->bytes;
}

static void bin_remove(struct mem_slab *slab, uint32_t at)
{
    struct mem_segment *seg = &slab->segments[at];
    unsigned bin = bin_of(seg->bytes / PLAN_UNIT);
    if (seg->bin_prev == MEM_NONE)
        slab->bins[bin] = seg->bin_next;
    else
        slab->segments[seg->bin_prev].bin_next = seg->bin_next;
    if (seg->bin_next != MEM_NONE)
        slab->segments[seg->bin_next].bin_prev = seg->bin_prev;
    if (slab->bins[bin] == MEM_NONE)
        slab->bin_used[bin / 64] &= ~(UINT64_C(1) << (bin % 64));
    slab->free_bytes -= seg->bytes;
}

static enum ebb_status segment_new(struct mem_slab *slab, uint32_t *at, struct ebb_error *err)
{
    if (slab->spare != MEM_NONE) {
        *at = slab->spare;
        slab->spare = slab->segments[*at].next;
        return EBB_OK;
    }
    EBB_TRY(ebb_grow(&slab->segments, &slab->segment_capacity, slab->segment_count + 1,
                     sizeof *slab->segments, err));
    *at = (uint32_t)slab->segment_count++;
    return EBB_OK;
}

enum ebb_status mem_slab_init(struct mem_slab *slab, uint64_t bytes, struct ebb_error *err)
{
    *slab = (struct mem_slab){.bytes = bytes / PLAN_UNIT * PLAN_UNIT, .spare = MEM_NONE};
    memset(slab->bins, 0xff, sizeof slab->bins);
    slab->head = slab->tail = MEM_NONE;
    if (slab->bytes == 0)
        return EBB_OK;
    uint32_t at;
    EBB_TRY(segment_new(slab, &at, err));
    slab->segments[at] = (struct mem_segment){
        .bytes = slab->bytes, .owner = MEM_NONE, .prev = MEM_NONE, .next = MEM_NONE};
    slab->head = slab->tail = at;
    bin_add(slab, at);
    return EBB_OK;
}

void mem_slab_fini(struct mem_slab *slab)
{
    ebb_free(slab->segments);
    *slab = (struct mem_slab){0};
}

/* Best of a bin: smallest that fits; among equals the one nearest to the wanted end. */
static uint32_t best_in_bin(const struct mem_slab *slab, unsigned bin, uint64_t bytes, bool is_high,
                            size_t look)
{
    uint32_t best = MEM_NONE;
    size_t looked = 0;
    for (uint32_t at = slab->bins[bin]; at != MEM_NONE && looked < look;
         at = slab->segments[at].bin_next, looked++) {
        const struct mem_segment *seg = &slab->segments[at];
        if (seg->bytes < bytes)
            continue;
        if (best == MEM_NONE || seg->bytes < slab->segments[best].bytes ||
            (seg->bytes == slab->segments[best].bytes &&
             (seg->offset > slab->segments[best].offset) == is_high))
            best = at;
    }
    return best;
}

uint32_t mem_slab_find(const struct mem_slab *slab, uint64_t bytes, bool is_high)
{
    const unsigned own = bin_of(bytes / PLAN_UNIT);
    unsigned bin = own;
    while (bin < MEM_SLAB_BINS) {
        uint64_t rest = slab->bin_used[bin / 64] >> (bin % 64);
        if (rest == 0) {
            bin = (bin / 64 + 1) * 64;
            continue;
        }
        bin += (unsigned)__builtin_ctzll(rest);
        uint32_t at = best_in_bin(slab, bin, bytes, is_high, LOOK);
        if (at != MEM_NONE)
            return at;
        bin++;
    }
    return best_in_bin(slab, own, bytes, is_high, SIZE_MAX); /* rare: behind many too small */
}

enum ebb_status mem_slab_take(struct mem_slab *slab, uint32_t hole, uint64_t bytes, bool is_high,
                              uint32_t owner, uint32_t *segment, struct ebb_error *err)
{
    uint32_t rest = MEM_NONE;
    if (slab->segments[hole].bytes > bytes)
        EBB_TRY(segment_new(slab, &rest, err));
    bin_remove(slab, hole);
    struct mem_segment *seg = &slab->segments[hole];
    if (rest != MEM_NONE) { /* `rest` keeps the remainder, before or behind */
        struct mem_segment *other = &slab->segments[rest];
        uint64_t left = seg->bytes - bytes;
        if (is_high) {
            *other = (struct mem_segment){.offset = seg->offset,
                                          .bytes = left,
                                          .owner = MEM_NONE,
                                          .prev = seg->prev,
                                          .next = hole};
            seg->offset += left;
            if (other->prev == MEM_NONE)
                slab->head = rest;
            else
                slab->segments[other->prev].next = rest;
            seg->prev = rest;
        } else {
            *other = (struct mem_segment){.offset = seg->offset + bytes,
                                          .bytes = left,
                                          .owner = MEM_NONE,
                                          .prev = hole,
                                          .next = seg->next};
            if (other->next == MEM_NONE)
                slab->tail = rest;
            else
                slab->segments[other->next].prev = rest;
            seg->next = rest;
        }
        seg->bytes = bytes;
        bin_add(slab, rest);
    }
    seg->owner = owner;
    uint64_t end = seg->offset + seg->bytes;
    if (end > slab->peak_bytes)
        slab->peak_bytes = end;
    *segment = hole;
    return EBB_OK;
}

/* Unlink `at`, whose bytes have been added to a neighbour. */
static void unlink_segment(struct mem_slab *slab, uint32_t at)
{
    struct mem_segment *seg = &slab->segments[at];
    if (seg->prev == MEM_NONE)
        slab->head = seg->next;
    else
        slab->segments[seg->prev].next = seg->next;
    if (seg->next == MEM_NONE)
        slab->tail = seg->prev;
    else
        slab->segments[seg->next].prev = seg->prev;
    seg->bytes = 0;
    seg->next = slab->spare;
    slab->spare = at;
}

void mem_slab_give(struct mem_slab *slab, uint32_t segment)
{
    struct mem_segment *seg = &slab->segments[segment];
    uint32_t prev = seg->prev, next = seg->next;
    seg->owner = MEM_NONE;
    if (next != MEM_NONE && slab->segments[next].owner == MEM_NONE) {
        bin_remove(slab, next);
        seg->bytes += slab->segments[next].bytes;
        unlink_segment(slab, next);
    }
    if (prev != MEM_NONE && slab->segments[prev].owner == MEM_NONE) {
        bin_remove(slab, prev);
        seg->offset = slab->segments[prev].offset;
        seg->bytes += slab->segments[prev].bytes;
        unlink_segment(slab, prev);
    }
    bin_add(slab, segment);
}

bool mem_slab_is_around(const struct mem_slab *slab, uint32_t segment, uint64_t offset,
                        uint64_t bytes)
{
    const struct mem_segment *seg = &slab->segments[segment];
    return segment < slab->segment_count && seg->owner == MEM_NONE && seg->offset <= offset &&
           offset + bytes <= seg->offset + seg->bytes;
}

enum ebb_status mem_slab_take_at(struct mem_slab *slab, uint32_t hole, uint64_t offset,
                                 uint64_t bytes, uint32_t owner, uint32_t *segment,
                                 struct ebb_error *err)
{
    uint32_t taken;
    uint64_t before = offset - slab->segments[hole].offset;
    if (before == 0)
        return mem_slab_take(slab, hole, bytes, false, owner, segment, err);
    /* what lies before is taken for a moment: the rest then begins at the offset */
    EBB_TRY(mem_slab_take(slab, hole, before, false, owner, &taken, err));
    enum ebb_status status =
        mem_slab_take(slab, slab->segments[taken].next, bytes, false, owner, segment, err);
    mem_slab_give(slab, taken);
    return status;
}

/* ---- making a hole without losing anything --------------------------------------------------- */

/* Slide every used segment of a window down to its low end; the free bytes become one segment at
 * its high end. */
enum ebb_status mem_slab_slide(struct mem_slab *slab, uint32_t first, uint32_t last,
                               mem_slab_moved moved, void *context, struct ebb_error *err)
{
    struct mem_segment *seg = slab->segments;
    uint64_t at_offset = seg[first].offset, free_bytes = 0;
    uint32_t hole = MEM_NONE, after = seg[last].next;
    for (uint32_t at = first; at != after;) {
        uint32_t next = seg[at].next;
        if (seg[at].owner == MEM_NONE) {
            bin_remove(slab, at);
            free_bytes += seg[at].bytes;
            if (hole == MEM_NONE)
                hole = at; /* becomes the one free segment */
            else
                unlink_segment(slab, at);
        } else {
            if (seg[at].offset != at_offset)
                EBB_TRY(
                    moved(context, seg[at].owner, seg[at].offset, at_offset, seg[at].bytes, err));
            seg[at].offset = at_offset;
            at_offset += seg[at].bytes;
        }
        at = next;
    }
    uint32_t tail = after == MEM_NONE ? slab->tail : seg[after].prev;
    if (tail != hole) { /* relink the hole behind the last segment of the window */
        uint32_t prev = seg[hole].prev, next = seg[hole].next;
        if (prev == MEM_NONE)
            slab->head = next;
        else
            seg[prev].next = next;
        seg[next].prev = prev;
        seg[hole].prev = tail;
        seg[hole].next = seg[tail].next;
        seg[tail].next = hole;
        if (seg[hole].next == MEM_NONE)
            slab->tail = hole;
        else
            seg[seg[hole].next].prev = hole;
    }
    seg[hole].offset = at_offset;
    seg[hole].bytes = free_bytes;
    uint32_t next = seg[hole].next;
    if (next != MEM_NONE && seg[next].owner == MEM_NONE) { /* SL2 */
        bin_remove(slab, next);
        seg[hole].bytes += seg[next].bytes;
        unlink_segment(slab, next);
    }
    bin_add(slab, hole);
    return EBB_OK;
}

uint32_t mem_slab_largest(const struct mem_slab *slab, uint32_t *segments, uint32_t most)
{
    uint32_t count = 0;
    for (unsigned word = MEM_SLAB_BINS / 64; word-- > 0;) {
        for (uint64_t rest = slab->bin_used[word]; rest != 0 && count < most;) {
            unsigned bit = 63u - (unsigned)__builtin_clzll(rest);
            rest &= ~(UINT64_C(1) << bit);
            for (uint32_t at = slab->bins[word * 64 + bit]; at != MEM_NONE && count < most;
                 at = slab->segments[at].bin_next)
                segments[count++] = at;
        }
    }
    return count;
}

uint32_t mem_slab_find_outside(const struct mem_slab *slab, uint64_t bytes, uint64_t low,
                               uint64_t high)
{
    uint32_t best = MEM_NONE;
    for (unsigned bin = bin_of(bytes / PLAN_UNIT); bin < MEM_SLAB_BINS && best == MEM_NONE; bin++) {
        for (uint32_t at = slab->bins[bin]; at != MEM_NONE; at = slab->segments[at].bin_next) {
            const struct mem_segment *seg = &slab->segments[at];
            if (seg->bytes < bytes || (seg->offset < high && seg->offset + seg->bytes > low))
                continue;
            if (best == MEM_NONE || seg->bytes < slab->segments[best].bytes ||
                (seg->bytes == slab->segments[best].bytes &&
                 seg->offset < slab->segments[best].offset))
                best = at;
        }
    }
    return best;
}
