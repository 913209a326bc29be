/* run.h - private to simrd: the compiled trace, and the state that the interpreter and its choice
 * of victims share. */
#ifndef EBB_SIMRD_RUN_H
#define EBB_SIMRD_RUN_H

#include "base/arena.h"
#include "base/int128.h"
#include "base/rng.h"
#include "simrd/simrd.h"

struct simrd_op {
    uint64_t cost, total_bytes;
    uint32_t in_first, in_count;   /* into in_storage and trace->inputs */
    uint32_t out_first, out_count; /* tensors */
};

enum { CODE_RUN, CODE_DIE, CODE_PIN };

/* Commands with the handle counts worked out once: GETs vanish, a RELEASE stays only where it
 * brings the count of an unpinned storage to zero (CODE_DIE). */
struct simrd_code {
    uint32_t kind : 2;
    uint32_t index : 30; /* op, storage, tensor */
};

struct simrd_program {
    const struct trace *trace;
    struct mem_graph graph;
    struct ebb_arena arena; /* owns all below */
    struct simrd_op *ops;
    uint32_t *in_storage;
    uint32_t *tensor_storage;
    uint64_t *bytes;
    double *first_cost;   /* c of a storage when it is created: cost of its root op */
    double *weight[2][2]; /* [by_size][by_cost]: (bytes or 1) / (c or 1) */
    struct simrd_code *code;
    size_t code_count;
    uint64_t base_ns, leaf_count;
};

#define SIMRD_NO_NODE UINT32_MAX

struct simrd_node {
    uint32_t parent, mark;
    int64_t value; /* of the class, at its root; signed: drifts as published */
};

struct simrd_frame { /* one pending materialization */
    uint32_t tensor;
    uint32_t missing_first; /* into run->missing: what it still waits for begins here */
    uint32_t missing_next;
    bool is_remat;
};

struct simrd_run {
    const struct simrd_program *p;
    const struct simrd_options *o;
    struct mem_tally *r;
    uint64_t clock, memory, budget, limit_ns, model_ns;
    uint32_t op;      /* calls started so far - 1: edges born later do not exist yet */
    uint32_t created; /* storages that exist: ids below this */
    uint32_t stamp;   /* pool order: larger = inserted later */
    uint32_t pool_count;
    bool is_deaf; /* the listener failed: it is told no more */
    /* per storage */
    uint8_t *material, *in_pool, *pinned;
    uint32_t *locks, *epoch, *stamps, *node_of, *mark, *candidates;
    double *last;       /* last access; clocks stay below 2^53, so doubles are exact */
    int64_t *cost;      /* c */
    double *weight;     /* by_size bytes / by_cost c: optimistic, neighbourhood left out */
    double *live;       /* weight while in the pool, else 0 */
    double *guess;      /* weight with the neighbourhood as last evaluated */
    double *live_guess; /* guess while in the pool, else 0 */
    double *merit;      /* scratch of a choice */
    /* per tensor: epoch of its storage at which it was defined */
    uint32_t *defined;
    /* classes: a union-find forest, one node per eviction */
    struct simrd_node *nodes;
    size_t node_count, node_capacity;
    int64_t negative_sum; /* of the classes whose value drifted below zero */
    uint32_t visit;
    uint32_t *walk; /* stack of a region walk; storage_count */
    /* explicit recomputation stack */
    struct simrd_frame *frames;
    size_t frame_count, frame_capacity;
    uint32_t *missing; /* tensors that frames wait for */
    size_t missing_count, missing_capacity;
    struct ebb_mt19937 rng;
    struct simrd_banish *banish; /* the V1 runtime's extra state, or NULL */
    void *block;                 /* one allocation for all per-storage arrays */
    bool needs_classes;
};

/* Pool storage to evict; UINT32_MAX when the pool is empty. */
enum ebb_status simrd_choose(struct simrd_run *run, uint32_t *victim, struct ebb_error *err);
/* Class bookkeeping on eviction and on becoming material. */
enum ebb_status simrd_class_evict(struct simrd_run *run, uint32_t storage, struct ebb_error *err);
void simrd_class_material(struct simrd_run *run, uint32_t storage);
/* banish.c: hooks of the published V1 runtime; run->banish is set. */
enum ebb_status simrd_banish_create(struct simrd_run *run, struct ebb_error *err);
void simrd_banish_destroy(struct simrd_banish *banish);
void simrd_banish_created(struct simrd_run *run, uint32_t op); /* outputs exist, not computed yet */
void simrd_banish_defined(struct simrd_run *run, uint32_t tensor);
void simrd_banish_evicted(struct simrd_run *run, uint32_t storage);
void simrd_banish_died(struct simrd_run *run,
                       uint32_t storage); /* last handle gone: banish if possible */
void simrd_banish_after(struct simrd_run *run, uint32_t op); /* materialized: try each parent */
bool simrd_banish_is_dead(const struct simrd_run *run, uint32_t storage);
/* EBB_EINPUT when the storage is gone for good: programs that read what they gave up. */
enum ebb_status simrd_banish_check(const struct simrd_run *run, uint32_t storage,
                                   struct ebb_error *err);
/* run.c */
void simrd_pin(struct simrd_run *run, uint32_t storage);
void simrd_unpool(struct simrd_run *run, uint32_t storage);
/* Correctly rounded n / d. */
double simrd_quotient(int64_t n, ebb_u128 d);

#endif
