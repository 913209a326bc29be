/* strip.h - rectangles (steps x bytes) packed so far, by address (private to plan).
 *
 * The lowest address that is free from `begin` to `end` is found by walking them upwards. They lie in
 * groups: one whose rectangles all live at other times is passed, and so is one whose rectangles all
 * live then and leave no gap that is large enough. Lives nest, as those of activations do, and what
 * nests is packed side by side: few groups are walked. */
#ifndef EBB_PLAN_STRIP_H
#define EBB_PLAN_STRIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

struct plan_strip_rect {
    uint64_t offset, top; /* [offset, top) */
    uint64_t begin, end;  /* [begin, end) */
};

struct plan_strip_group;

struct plan_strip {
    struct plan_strip_group **groups; /* by address; those in use come first */
    size_t count;
};

/* Room for so many rectangles, owned by the arena. */
enum ebb_status plan_strip_init(struct plan_strip *strip, struct ebb_arena *arena, size_t most,
                                struct ebb_error *err);
void plan_strip_clear(struct plan_strip *strip);
void plan_strip_add(struct plan_strip *strip, const struct plan_strip_rect *rect);
/* *visits grows by what a walk over single rectangles would have seen. */
uint64_t plan_strip_lowest(struct plan_strip *strip, uint64_t bytes, uint64_t begin, uint64_t end,
                           uint64_t *visits);

#endif
