/* strip.c - see strip.h. */
#include "plan/strip.h"

#include <string.h>

enum { GROUP = 64 };

struct plan_strip_group {
    struct plan_strip_rect rects[GROUP];
    uint64_t first_begin, last_begin, first_end, last_end, top;
    uint64_t gap; /* widest between a rectangle and those below it in the group */
    uint32_t count;
    bool has_gap; /* gap is known */
};

enum ebb_status plan_strip_init(struct plan_strip *strip, struct ebb_arena *arena, size_t most,
                                struct ebb_error *err)
{
    size_t groups = most / (GROUP / 2) + 2; /* a full one becomes two halves */
    *strip = (struct plan_strip){0};
    strip->groups = ebb_arena_calloc(arena, groups, sizeof *strip->groups);
    struct plan_strip_group *all = ebb_arena_calloc(arena, groups, sizeof *all);
    EBB_TRY(ebb_arena_status(arena, err));
    for (size_t i = 0; i < groups; i++)
        strip->groups[i] = &all[i];
    return EBB_OK;
}

void plan_strip_clear(struct plan_strip *strip)
{
    strip->count = 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void widen(struct plan_strip_group *g, const struct plan_strip_rect *r)
{
    g->first_begin = least(g->first_begin, r->begin);
    g->last_begin = most(g->last_begin, r->begin);
    g->first_end = least(g->first_end, r->end);
    g->last_end = most(g->last_end, r->end);
    g->top = most(g->top, r->top);
    g->has_gap = false;
}

static void sum_up(struct plan_strip_group *g)
{
    g->first_begin = g->first_end = UINT64_MAX;
    g->last_begin = g->last_end = g->top = 0;
    for (uint32_t i = 0; i < g->count; i++)
        widen(g, &g->rects[i]);
}

/* The upper half of group `at` becomes one of its own. */
static void split(struct plan_strip *strip, size_t at)
{
    struct plan_strip_group *new = strip->groups[strip->count], *old = strip->groups[at];
    memmove(&strip->groups[at + 2], &strip->groups[at + 1],
            (strip->count - at - 1) * sizeof *strip->groups);
    strip->groups[at + 1] = new;
    strip->count++;
    old->count = new->count = GROUP / 2;
    memcpy(new->rects, old->rects + GROUP / 2, GROUP / 2 * sizeof *new->rects);
    sum_up(old);
    sum_up(new);
}

/* The last group that begins at or below an address, or the first. */
static size_t group_for(const struct plan_strip *strip, uint64_t offset)
{
    size_t low = 0, high = strip->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strip->groups[middle]->rects[0].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

void plan_strip_add(struct plan_strip *strip, const struct plan_strip_rect *rect)
{
    if (strip->count == 0) {
        strip->count = 1;
        strip->groups[0]->count = 0;
        sum_up(strip->groups[0]);
    }
    size_t at = group_for(strip, rect->offset);
    if (strip->groups[at]->count == GROUP) {
        split(strip, at);
        at += strip->groups[at + 1]->rects[0].offset <= rect->offset;
    }
    struct plan_strip_group *g = strip->groups[at];
    uint32_t i = g->count;
    while (i > 0 && g->rects[i - 1].offset > rect->offset)
        i--;
    memmove(&g->rects[i + 1], &g->rects[i], (g->count - i) * sizeof *g->rects);
    g->rects[i] = *rect;
    g->count++;
    widen(g, rect);
}

static uint64_t gap_of(struct plan_strip_group *g)
{
    if (!g->has_gap) {
        uint64_t top = g->rects[0].top;
        g->gap = 0;
        for (uint32_t i = 1; i < g->count; i++) {
            if (g->rects[i].offset > top)
                g->gap = most(g->gap, g->rects[i].offset - top);
            top = most(top, g->rects[i].top);
        }
        g->has_gap = true;
    }
    return g->gap;
}

/* Rectangles below an address, and the one that ends the walk there. */
static uint64_t count_below(const struct plan_strip *strip, size_t groups, uint64_t offset)
{
    uint64_t count = 0;
    for (size_t k = 0; k < groups; k++) {
        const struct plan_strip_group *g = strip->groups[k];
        if (g->rects[g->count - 1].offset < offset) {
            count += g->count;
            continue;
        }
        for (uint32_t i = 0; i < g->count && g->rects[i].offset < offset; i++)
            count++;
        return count + 1;
    }
    return count + (groups < strip->count);
}

uint64_t plan_strip_lowest(struct plan_strip *strip, uint64_t bytes, uint64_t begin, uint64_t end,
                           uint64_t *visits)
{
    uint64_t at = 0;
    size_t k = 0;
    for (; k < strip->count; k++) {
        struct plan_strip_group *g = strip->groups[k];
        if (g->rects[0].offset >= at + bytes)
            break;
        if (g->last_end <= begin || g->first_begin >= end || g->top <= at)
            continue;
        if (g->last_begin < end && g->first_end > begin && gap_of(g) < bytes) {
            at = g->top;
            continue;
        }
        for (uint32_t i = 0; i < g->count && g->rects[i].offset < at + bytes; i++) {
            const struct plan_strip_rect *r = &g->rects[i];
            if (r->begin < end && r->end > begin && r->top > at)
                at = r->top;
        }
    }
    *visits += count_below(strip, k, at + bytes);
    return at;
}
