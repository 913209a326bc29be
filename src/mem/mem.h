/* mem.h - memory under a budget: the slab, the pool of what may leave, and the policies that rank
 * it.
 *
 * A policy only ranks; it never frees, copies or launches. exec acts on the answer, so one policy
 * runs unchanged on a GPU, under the simulator and in a unit test. Every published heuristic is one
 * row: a numerator (what losing the storage would cost) over size and staleness, each on or off:
 *
 *     score = numerator / (bytes^by_size * (now - last_use)^by_stale)          lowest score leaves
 * first */
#ifndef EBB_MEM_MEM_H
#define EBB_MEM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "trace/trace.h"

enum mem_numerator {
    MEM_ONE,       /* 1 */
    MEM_LOCAL,     /* own cost c */
    MEM_EQ,        /* c + values of the distinct classes of evicted neighbours (union-find) */
    MEM_ANCESTORS, /* c + exact evicted ancestors */
    MEM_REGION,    /* c + exact evicted neighbourhood, both directions */
    MEM_UNION,  /* as REGION, as one set, staleness of its freshest member (published "unoptimised"
                   form) */
    MEM_RANDOM, /* no score: uniform choice */
};

enum mem_way { MEM_DROP = 1u << 0, MEM_HOST = 1u << 1, MEM_FILE = 1u << 2 };

struct mem_policy {
    const char *name;
    const char *aliases[3]; /* published spellings */
    enum mem_numerator numerator;
    bool by_size, by_stale;
    const char *help;
};

extern const struct mem_policy mem_policies[];
extern const size_t mem_policy_count;

/* By name or alias; NULL when unknown. */
const struct mem_policy *mem_policy_find(const char *name);

/* ---- who is whose neighbour
 * ------------------------------------------------------------------------------------ */

/* Storage-level edges of a trace: P -> Q when an op reads a tensor on P and makes one on Q. Each
 * list is free of duplicates and sorted by the op that created the edge, so at any time the edges
 * that exist are a prefix. */
struct mem_edge {
    uint32_t storage;
    uint32_t birth; /* op that created the edge */
};

struct mem_graph {
    uint32_t storage_count;
    uint32_t *parent_first, *child_first, *neighbour_first; /* storage_count + 1 each */
    struct mem_edge *parents, *children, *neighbours;       /* neighbours: both directions merged */
};

/* with_views: ops all of whose outputs are views make edges too (rules simrd). */
enum ebb_status mem_graph_init(struct mem_graph *graph, const struct trace *trace, bool with_views,
                               struct ebb_error *err);
void mem_graph_fini(struct mem_graph *graph);

#endif
