/* homes.c - which persistent storages live below tier 0, and in which order they had better leave.
 *
 * What one op reads and writes once a step (moments, lower halves of split weights, kept gradients)
 * travels once in and once out; those whose op comes first go first: on their way in the whole step
 * before hides them, on their way out the rest of it. Weights are read in both passes: they go
 * after those, the last layers first, because nothing hides a copy that the first ops of a step
 * wait for. Small ones go last: a copy takes a while, however few its bytes. */
#include <stdlib.h>

#include "base/arena.h"
#include "base/heap.h"
#include "planner/planner.h"

#define SMALL (UINT64_C(64) << 10) /* bytes whose copy is mostly latency */

struct lodger {
    uint32_t storage;
    uint32_t first; /* op that reads it; UINT32_MAX: none does */
    uint32_t reads;
    uint64_t bytes;
};

static int group_of(const struct lodger *l)
{
    return l->bytes <= SMALL ? 2 : l->reads > 1 ? 1 : 0;
}

static int compare_lodgers(const void *a, const void *b)
{
    const struct lodger *x = a, *y = b;
    if (group_of(x) != group_of(y))
        return group_of(x) < group_of(y) ? -1 : 1;
    bool is_before = x->first < y->first;
    if (x->first != y->first)
        return is_before == (group_of(x) == 0) ? -1 : 1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

static int compare_homes(const void *a, const void *b)
{
    const struct plan_home *x = a, *y = b;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

/* The persistent storages in the order in which they leave; *total: their bytes. */
static enum ebb_status list_lodgers(const struct trace *t, struct ebb_arena *arena,
                                    struct lodger **lodgers, size_t *count, uint64_t *total,
                                    struct ebb_error *err)
{
    uint64_t *base = ebb_arena_calloc(arena, (size_t)t->storage_count + 1, sizeof *base);
    struct lodger *all = ebb_arena_calloc(arena, (size_t)t->storage_count + 1, sizeof *all);
    *lodgers = all;
    *count = 0;
    EBB_TRY(ebb_arena_status(arena, err));
    EBB_TRY(plan_base_layout(t, NULL, base, total, err));
    for (uint32_t s = 0; s < t->storage_count; s++)
        all[s] = (struct lodger){s, UINT32_MAX, 0, plan_round(t->storages[s].bytes)};
    for (uint32_t o = 0; o < t->op_count; o++)
        for (uint32_t i = 0; i < t->ops[o].input_count && !trace_is_view_op(t, o); i++) {
            struct lodger *l = &all[t->tensors[t->inputs[t->ops[o].input_first + i]].storage];
            l->first = o < l->first ? o : l->first;
            l->reads++;
        }
    for (uint32_t s = 0; s < t->storage_count; s++)
        if (base[s] != PLAN_NOWHERE && all[s].bytes > 0)
            all[(*count)++] = all[s];
    qsort(all, *count, sizeof *all, compare_lodgers);
    return EBB_OK;
}

/* The host first: it is the faster one. */
static uint8_t tier_for(const struct planner_tiers *tiers, const uint64_t *used, uint64_t bytes)
{
    for (uint8_t k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        if (bytes <= tiers->bytes[k] && used[k] <= tiers->bytes[k] - bytes)
            return k;
    return 0;
}

static void give_places(struct plan_homes *homes, const struct trace *t)
{
    uint64_t next[DEVICE_TIERS] = {0};
    qsort(homes->list, homes->count, sizeof *homes->list, compare_homes);
    for (size_t i = 0; i < homes->count; i++) {
        struct plan_home *h = &homes->list[i];
        h->offset = next[h->tier];
        next[h->tier] += plan_round(t->storages[h->storage].bytes);
    }
}

/* Which part of the moments leaves when that many bytes of all do. */
static double part_of_moments(const struct lodger *lodgers, size_t count, double bytes)
{
    double moments = 0;
    for (size_t i = 0; i < count && group_of(&lodgers[i]) == 0; i++)
        moments += (double)lodgers[i].bytes;
    return moments > bytes ? bytes / moments : 1;
}

/* Does this one leave, so that about that part of those seen so far does? */
static bool is_due(double part, uint64_t bytes, double *owed)
{
    *owed += part * (double)bytes;
    bool is_so = *owed >= (double)bytes / 2;
    *owed -= is_so ? (double)bytes : 0;
    return is_so;
}

enum ebb_status planner_homes(const struct trace *trace, const struct planner_tiers *tiers,
                              double part, unsigned how, struct plan_homes *homes,
                              struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    struct lodger *lodgers = NULL;
    size_t count = 0;
    uint64_t total = 0, gone = 0, used[DEVICE_TIERS] = {0};
    struct plan_homes made = {0};
    enum ebb_status status = list_lodgers(trace, &arena, &lodgers, &count, &total, err);
    if (count)
        EBB_THEN(status, ebb_new(&made.list, count, sizeof *made.list, err));
    double room = (double)tiers->bytes[DEVICE_HOST] + (double)tiers->bytes[DEVICE_FILE], owed = 0;
    double wanted = part * (double)total < room ? part * (double)total : room;
    double moments = how & PLANNER_SPREAD ? part_of_moments(lodgers, count, wanted) : 1;
    for (size_t i = 0; i < count && status == EBB_OK; i++) {
        uint8_t tier = tier_for(tiers, used, lodgers[i].bytes);
        bool is_small = lodgers[i].bytes <= SMALL;
        if ((double)gone >= part * (double)total || (is_small && !(how & PLANNER_SMALL_TOO)))
            break;
        bool is_kept = group_of(&lodgers[i]) == 0 && !is_due(moments, lodgers[i].bytes, &owed);
        if (tier == 0 || is_kept)
            continue;
        used[tier] += lodgers[i].bytes;
        gone += lodgers[i].bytes;
        made.list[made.count++] = (struct plan_home){.storage = lodgers[i].storage, .tier = tier};
    }
    ebb_arena_fini(&arena);
    if (status != EBB_OK || made.count == 0) {
        plan_homes_fini(&made);
        return status;
    }
    give_places(&made, trace);
    plan_homes_fini(homes);
    *homes = made;
    return EBB_OK;
}
