/* sched.h - a schedule as rows of bits, and its exact integer evaluation (private to planner).
 *
 * Row t of `keep` says which items lie in memory when stage t begins (S of the published model);
 * row T is the keep set. What runs in stage t follows from rows t and t+1 alone (sched.c), so a
 * change of some rows is evaluated by those stages. */
#ifndef EBB_PLANNER_SCHED_H
#define EBB_PLANNER_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"
#include "planner/graph.h"

struct planner_sched {
    const struct planner_graph *graph;
    uint64_t *keep; /* owned: (stages + 1) rows of `words` */
    uint32_t stages, words;
    uint64_t cost, peak; /* of the last evaluation */
};

static inline uint64_t *planner_row(const struct planner_sched *s, uint32_t t)
{
    return s->keep + (size_t)t * s->words;
}

static inline bool planner_bit(const uint64_t *row, uint32_t i)
{
    return row[i / 64] >> (i % 64) & 1;
}

static inline void planner_bit_set(uint64_t *row, uint32_t i)
{
    row[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void planner_bit_clear(uint64_t *row, uint32_t i)
{
    row[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static inline void planner_keep(struct planner_sched *s, uint32_t t, uint32_t i)
{
    planner_bit_set(planner_row(s, t), i);
}

enum ebb_status planner_sched_init(struct planner_sched *s, const struct planner_graph *graph,
                                   struct ebb_error *err); /* nothing kept but the keep set */
void planner_sched_fini(struct planner_sched *s);
void planner_sched_copy(struct planner_sched *to, const struct planner_sched *from);
void planner_sched_clear(struct planner_sched *s); /* nothing kept but the keep set */
/* Item i lies there from stage `first` to stage `last`. */
void planner_sched_keep(struct planner_sched *s, uint32_t i, uint32_t first, uint32_t last);
/* Everything as long as it is read; the newest outputs only; what the backward pass makes and
 * reads. */
void planner_sched_keep_all(struct planner_sched *s);
void planner_sched_keep_newest(struct planner_sched *s);
void planner_sched_keep_gradients(struct planner_sched *s);

/* Scratch of the evaluation; one per thread. */
struct planner_eval {
    const struct planner_graph *graph;
    struct ebb_arena arena; /* owns all below */
    uint32_t *last_use;     /* item -> node that reads it last in this stage */
    uint32_t *stamp;        /* item -> stage number for which last_use holds */
    uint64_t *run;          /* nodes that run in this stage */
    uint32_t run_words, now;
};

enum ebb_status planner_eval_init(struct planner_eval *ev, const struct planner_graph *graph,
                                  struct ebb_error *err);
void planner_eval_fini(struct planner_eval *ev);

struct planner_stage {
    uint64_t cost, peak;
};

/* What stage t costs and needs, given the rows before and after it. Leaves the nodes that run in
 * ev->run. False when a node is needed that cannot run any more. */
bool planner_stage_eval(struct planner_eval *ev, uint32_t t, const uint64_t *in,
                        const uint64_t *out, struct planner_stage *stage);
/* The same, for who knows how many bytes row `in` keeps. */
bool planner_stage_eval_row(struct planner_eval *ev, uint32_t t, const uint64_t *in,
                            uint64_t in_bytes, const uint64_t *out, struct planner_stage *stage);
uint64_t planner_row_bytes(const struct planner_graph *g, const uint64_t *row);

/* Whole schedule: sets cost and peak. False when invalid. `stages` (T entries) may be
 * NULL. */
bool planner_sched_eval(struct planner_eval *ev, struct planner_sched *s,
                        struct planner_stage *stages);

/* Make any rows valid: what cannot run again is kept from where it can be had; then drop what is
 * kept for nothing. */
void planner_sched_close(struct planner_eval *ev, struct planner_sched *s);
void planner_sched_trim(struct planner_eval *ev, struct planner_sched *s);

/* Rows from a plan of the same trace: what is resident after each first run. Copies are not looked
 * at. */
enum ebb_status planner_sched_from_plan(struct planner_sched *s, const struct plan *plan,
                                        struct ebb_error *err);

/* Copies beside a schedule, per lower tier: bit rows as `keep` has. An item of fetch row t comes back
 * when stage t begins; one of send row t is sent in stage t, as soon as it is there. */
struct planner_transfers {
    uint64_t *fetch[DEVICE_TIERS], *send[DEVICE_TIERS];
    uint64_t *row; /* scratch of one row */
};

/* What lies there when stage t begins and its copies have come: transfers->row. */
const uint64_t *planner_transfers_row(const struct planner_sched *s,
                                      const struct planner_transfers *transfers, uint32_t t);

/* The register program as plan steps, without offsets. `transfers` may be NULL. */
enum ebb_status planner_sched_emit(struct planner_eval *ev, const struct planner_sched *s,
                                   const struct planner_transfers *transfers, struct plan *plan,
                                   struct ebb_error *err);

#endif
