/* graph.h - the planner's view of a trace (private to planner).
 *
 * A *node* is an op that runs (views are gone), in the order of first runs. An *item* is a storage:
 * what a node's outputs occupy. A node with one output has one item; a Checkmate graph has item i =
 * node i. Node t runs for the first time in stage t; stage t may run earlier nodes again before it.
 *
 * What cannot run again (leaves, `once`, mutating ops, ops whose output is mutated later) is
 * *fixed*: its items live from their creation until the last use anybody can make of them. A node
 * that reads a version which op m overwrites can run again up to stage m (its deadline). Items of
 * the keep set live to the end. */
#ifndef EBB_PLANNER_GRAPH_H
#define EBB_PLANNER_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"
#include "trace/trace.h"

struct planner_node {
    uint64_t cost, workspace_bytes;
    uint32_t op;
    uint32_t in_first, in_count;   /* into graph.ins: items read, ascending, each once */
    uint32_t out_first, out_count; /* items made: consecutive */
    uint32_t deadline;             /* last stage in which it may run; = its own number when fixed */
    uint32_t partner;              /* forward node, or TRACE_NONE */
    uint8_t phase;                 /* enum trace_phase */
    bool is_fixed;
    bool needs_scratch; /* several outputs, none can be skipped: those not produced are written into
                           scratch */
};

struct planner_item {
    uint64_t bytes;
    uint32_t node, storage;
    uint32_t use_first, use_count; /* into graph.uses: nodes that read it, ascending */
    bool is_kept;                  /* resident at the end */
    bool is_fixed;                 /* never dropped before its last use */
    bool is_void; /* nobody reads it and its maker can leave it out: never made, no bytes */
    uint32_t
        last_stage; /* last stage in which any schedule without waste has a use for it; kept: T */
};

struct planner_graph {
    struct ebb_arena arena; /* owns all below */
    const struct trace *trace;
    struct plan_recipes *recipes; /* owned: what the trace says; node v is its node v */
    struct planner_node *nodes;
    struct planner_item *items;
    uint32_t *ins, *uses; /* uses are those of the recipes */
    uint32_t *item_of;    /* storage -> item; TRACE_NONE: none */
    uint32_t *node_of;    /* op -> node; TRACE_NONE: none */
    uint32_t node_count, item_count;
    size_t edge_count;
    uint32_t forward_count; /* nodes 0.. before the first one of another phase */
    bool is_mirrored; /* Checkmate's shape: n forward, loss, n backward; bwd(i) = T-1-i; item i =
                         node i */
    bool exact_bytes;
    bool is_moved;           /* updates stand earlier than in the trace */
    uint64_t base_cost;      /* every node once */
    uint64_t fixed_bytes;    /* outside the budget (graph files) */
    uint64_t no_remat_peak;  /* least peak in this order without running anything twice */
    uint64_t max_in_out;     /* largest working set of one node: lower limit of any budget */
    uint64_t max_degree_ram; /* the published one: forward nodes only */
};

/* Nodes in the trace's order or (is_eager) with updates as early as they can be, as planner `floor`
 * has them. */
enum ebb_status planner_graph_create(const struct trace *trace, bool is_eager,
                                     struct planner_graph **graph, struct ebb_error *err);
void planner_graph_destroy(struct planner_graph *graph);

/* Forward nodes whose removal disconnects the forward graph (source on node 0, sink on the
 * largest node); is_ap has node_count entries. Nodes without a forward edge are none. */
enum ebb_status planner_graph_articulation(const struct planner_graph *graph, bool *is_ap,
                                           struct ebb_error *err);
/* Has the node a neighbour among the forward nodes? */
bool planner_graph_has_forward_edge(const struct planner_graph *graph, uint32_t node);

/* ---- measure.c ---- */

bool planner_graph_reads(const struct planner_graph *graph, const struct planner_node *node,
                         uint32_t item);
/* Workspace, inputs and outputs. */
uint64_t planner_graph_working_set(const struct planner_graph *graph,
                                   const struct planner_node *node);
/* May a copy bring the item back? It has one version and is no persistent leaf. */
bool planner_graph_can_leave(const struct planner_graph *graph, const struct planner_item *item);
/* Last node that reads the item; `otherwise` when none does. */
uint32_t planner_graph_last_use(const struct planner_graph *graph, const struct planner_item *item,
                                uint32_t otherwise);
/* The same among readers before node `end`; its maker when there is none. */
uint32_t planner_graph_last_use_before(const struct planner_graph *graph,
                                       const struct planner_item *item, uint32_t end);
/* Item k of those a node reads, then makes. */
uint32_t planner_graph_port(const struct planner_graph *graph, const struct planner_node *node,
                            uint32_t k);

/* For sorting items: the least score first, ties by item. */
struct planner_scored {
    double score;
    uint32_t item;
};
int planner_by_score(const void *a, const void *b);

uint64_t planner_gcd(uint64_t a, uint64_t b);
uint64_t planner_cost_unit(const struct planner_graph *graph); /* gcd of costs */
/* Bytes x scale = units of a program: over their gcd (and the `unit` given, which it becomes), then
 * halved until the largest item is at most 1e7: the solver works with absolute tolerances, and sums
 * that fit exactly must stay so in its arithmetic. */
double planner_mem_scale(const struct planner_graph *graph, uint64_t *unit);
double planner_cost_scale(const struct planner_graph *graph); /* the base cost becomes 1e4 */

#endif
