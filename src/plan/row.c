/* row.c - see row.h. */
#include "plan/row.h"

#include <string.h>

#include "base/heap.h"
#include "base/sorted.h"

void plan_row_clear(struct plan_row *row, uint64_t bottom, uint64_t top)
{
    row->count = 0;
    row->bottom = bottom;
    row->top = top;
}

void plan_row_fini(struct plan_row *row)
{
    for (size_t i = 0; i < row->made; i++)
        ebb_free(row->groups[i]);
    ebb_free(row->groups);
    *row = (struct plan_row){0};
}

struct plan_place plan_row_at(const struct plan_row *row, uint64_t begin)
{
    size_t low = 0, high = row->count; /* the first group whose last block is not below */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct plan_group *g = row->groups[middle];
        if (g->blocks[g->count - 1].begin < begin)
            low = middle + 1;
        else
            high = middle;
    }
    struct plan_place at = {low, 0};
    if (low < row->count)
        at.index = (uint32_t)ebb_first_u64(row->groups[low]->blocks, sizeof(struct plan_block),
                                           row->groups[low]->count, begin);
    return at;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Two classes for each power of two; the lowest and the highest are wider. */
static unsigned class_of(uint64_t bytes)
{
    unsigned power = 63u - (unsigned)__builtin_clzll(bytes | 1);
    if (power < 7)
        return 0;
    unsigned of = 2 * (power - 7) + (unsigned)(bytes >> (power - 1) & 1);
    return of < 63 ? of : 63;
}

static const struct plan_group *known(struct plan_row *row, size_t group)
{
    struct plan_group *g = row->groups[group];
    if (!g->is_known) {
        uint64_t below = plan_row_hole_begin(row, (struct plan_place){group, 0});
        g->widest = g->classes = 0;
        for (uint32_t i = 0; i < g->count; i++) {
            uint64_t hole = g->blocks[i].begin - below;
            g->widest = hole > g->widest ? hole : g->widest;
            g->classes |= hole ? UINT64_C(1) << class_of(hole) : 0;
            below = g->blocks[i].end;
        }
        g->is_known = true;
    }
    return g;
}

static bool find_in(const struct plan_row *row, size_t group, bool is_high, uint64_t bytes,
                    struct plan_place *hole)
{
    uint32_t count = group == row->count ? 1 : row->groups[group]->count;
    for (uint32_t i = 0; i < count; i++) {
        *hole = (struct plan_place){group, is_high ? count - 1 - i : i};
        if (plan_row_hole(row, *hole) >= bytes)
            return true;
    }
    return false;
}

/* The smallest hole of a class, of `bytes` or more, the lowest of equals; *room: its size. */
static void find_class(const struct plan_row *row, unsigned of, uint64_t bytes, uint64_t *room,
                       struct plan_place *hole)
{
    for (size_t k = 0; k<row->count && * room> bytes; k++) {
        const struct plan_group *g = row->groups[k];
        for (uint32_t i = 0; i < g->count && (g->classes >> of & 1); i++) {
            struct plan_place at = {k, i};
            uint64_t free_bytes = plan_row_hole(row, at);
            if (free_bytes >= bytes && free_bytes < *room && class_of(free_bytes) == of) {
                *room = free_bytes;
                *hole = at;
            }
        }
    }
}

static bool find_best(struct plan_row *row, uint64_t bytes, struct plan_place *hole)
{
    uint64_t room = UINT64_MAX, classes = 0;
    unsigned of = class_of(bytes);
    for (size_t k = 0; k < row->count; k++)
        if (known(row, k)->widest >= bytes)
            classes |= row->groups[k]->classes;
    classes = classes >> of << of;
    for (; classes && room == UINT64_MAX; classes &= classes - 1)
        find_class(row, (unsigned)__builtin_ctzll(classes), bytes, &room, hole);
    struct plan_place last = {row->count, 0};
    uint64_t free_bytes = plan_row_hole(row, last);
    if (free_bytes >= bytes && free_bytes < room) {
        room = free_bytes;
        *hole = last;
    }
    return room != UINT64_MAX;
}

static bool find_end(struct plan_row *row, bool is_high, uint64_t bytes, struct plan_place *hole)
{
    for (size_t n = 0; n <= row->count; n++) {
        size_t k = is_high ? row->count - n : n;
        bool is_hopeless = k < row->count && known(row, k)->widest < bytes;
        if (!is_hopeless && find_in(row, k, is_high, bytes, hole))
            return true;
    }
    return false;
}

bool plan_row_find(struct plan_row *row, enum plan_fit fit, uint64_t bytes, struct plan_place *hole)
{
    return fit == PLAN_FIT_BEST ? find_best(row, bytes, hole)
                                : find_end(row, fit == PLAN_FIT_HIGH, bytes, hole);
}

/* ---- changing -------------------------------------------------------------------------------- */

/* The hole below a block of this group, or of the next, is another one. */
static void forget(struct plan_row *row, size_t group)
{
    for (size_t k = group; k < group + 2 && k < row->count; k++)
        row->groups[k]->is_known = false;
}

/* An empty group at `at`. */
static enum ebb_status add_group(struct plan_row *row, size_t at, struct ebb_error *err)
{
    if (row->count == row->made) {
        EBB_TRY(ebb_grow(&row->groups, &row->capacity, row->made + 1, sizeof *row->groups, err));
        EBB_TRY(ebb_new(&row->groups[row->made], 1, sizeof **row->groups, err));
        row->made++;
    }
    struct plan_group *new = row->groups[row->count];
    memmove(&row->groups[at + 1], &row->groups[at], (row->count - at) * sizeof *row->groups);
    row->groups[at] = new;
    row->count++;
    new->count = 0;
    new->is_known = false;
    return EBB_OK;
}

/* Room for one more block at a place, which may become another one. */
static enum ebb_status make_room(struct plan_row *row, struct plan_place *at, struct ebb_error *err)
{
    if (plan_row_is_last(row, *at) && at->group > 0) {
        at->group--;
        at->index = row->groups[at->group]->count;
    }
    if (row->count == 0)
        return add_group(row, 0, err);
    struct plan_group *g = row->groups[at->group];
    if (g->count < PLAN_GROUP)
        return EBB_OK;
    EBB_TRY(add_group(row, at->group + 1, err));
    struct plan_group *new = row->groups[at->group + 1];
    g->count = new->count = PLAN_GROUP / 2;
    memcpy(new->blocks, g->blocks + PLAN_GROUP / 2, PLAN_GROUP / 2 * sizeof *new->blocks);
    if (at->index > PLAN_GROUP / 2)
        *at = (struct plan_place){at->group + 1, at->index - PLAN_GROUP / 2};
    return EBB_OK;
}

enum ebb_status plan_row_put(struct plan_row *row, struct plan_place at,
                             const struct plan_block *block, struct ebb_error *err)
{
    EBB_TRY(make_room(row, &at, err));
    struct plan_group *g = row->groups[at.group];
    memmove(&g->blocks[at.index + 1], &g->blocks[at.index],
            (g->count - at.index) * sizeof *g->blocks);
    g->blocks[at.index] = *block;
    g->count++;
    forget(row, at.group);
    return EBB_OK;
}

void plan_row_remove(struct plan_row *row, struct plan_place at)
{
    struct plan_group *g = row->groups[at.group];
    g->count--;
    memmove(&g->blocks[at.index], &g->blocks[at.index + 1],
            (g->count - at.index) * sizeof *g->blocks);
    if (g->count == 0) {
        row->count--;
        memmove(&row->groups[at.group], &row->groups[at.group + 1],
                (row->count - at.group) * sizeof *row->groups);
        row->groups[row->count] = g;
    }
    forget(row, at.group);
}

void plan_row_move(struct plan_row *row, struct plan_place at, uint64_t begin)
{
    struct plan_block *b = plan_row_block(row, at);
    b->end = begin + (b->end - b->begin);
    b->begin = begin;
    forget(row, at.group);
}
