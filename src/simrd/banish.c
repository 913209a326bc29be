/* banish.c - the published V1 runtime: what is dead and has no evicted dependents leaves for good.
 *
 * Every storage counts its dependents that are evicted or not computed yet (tensors made from it,
 * those on the same storage aside). When the last handle is gone and the count is zero it is
 * banished: its bytes are freed whatever locks it, it leaves the graph, and its children, which can
 * never be recomputed again, are pinned. For the walks of the score a banished storage is a wall:
 * it is marked material, so nothing is counted behind it. */
#include "simrd/run.h"

#include "base/heap.h"

struct simrd_banish {
    struct ebb_arena arena; /* owns the arrays */
    uint32_t *waiting;      /* per storage: dependents that are not there */
    uint8_t *is_dead;       /* per storage: no handle left */
    uint8_t *is_banished;   /* per storage */
    uint8_t *is_counted;    /* per tensor: counted in `waiting` of its parents */
};

enum ebb_status simrd_banish_create(struct simrd_run *run, struct ebb_error *err)
{
    size_t n = (size_t)run->p->trace->storage_count + 1;
    EBB_TRY(ebb_new(&run->banish, 1, sizeof *run->banish, err));
    struct simrd_banish *b = run->banish;
    b->waiting = ebb_arena_calloc(&b->arena, n, sizeof *b->waiting);
    b->is_dead = ebb_arena_calloc(&b->arena, n, 1);
    b->is_banished = ebb_arena_calloc(&b->arena, n, 1);
    b->is_counted = ebb_arena_calloc(&b->arena, run->p->trace->tensor_count, 1);
    return ebb_arena_status(&b->arena, err);
}

void simrd_banish_destroy(struct simrd_banish *b)
{
    if (!b)
        return;
    ebb_arena_fini(&b->arena);
    ebb_free(b);
}

bool simrd_banish_is_dead(const struct simrd_run *run, uint32_t storage)
{
    return run->banish->is_dead[storage];
}

enum ebb_status simrd_banish_check(const struct simrd_run *run, uint32_t storage,
                                   struct ebb_error *err)
{
    if (!run->banish->is_banished[storage])
        return EBB_OK;
    return ebb_fail(err, EBB_EINPUT,
                    "%s: op %u uses storage %u after its last handle was given up; banishing (the "
                    "V1 runtime) has lost it for good",
                    run->p->trace->name, run->op, storage);
}

/* Add `by` to the count of each distinct parent storage of the tensor, its own aside. */
static void count(struct simrd_run *run, uint32_t tensor, bool is_waiting)
{
    struct simrd_banish *b = run->banish;
    const struct simrd_program *p = run->p;
    const struct simrd_op *op = &p->ops[p->trace->tensors[tensor].op];
    if (b->is_counted[tensor] == is_waiting)
        return;
    b->is_counted[tensor] = is_waiting;
    uint32_t visit = ++run->visit;
    run->mark[p->tensor_storage[tensor]] = visit;
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t parent = p->in_storage[op->in_first + i];
        if (run->mark[parent] == visit)
            continue;
        run->mark[parent] = visit;
        b->waiting[parent] += is_waiting ? 1u : UINT32_MAX; /* +1 or -1 */
    }
}

void simrd_banish_created(struct simrd_run *run, uint32_t op)
{
    for (uint32_t k = 0; k < run->p->ops[op].out_count; k++)
        count(run, run->p->ops[op].out_first + k, true);
}

void simrd_banish_defined(struct simrd_run *run, uint32_t tensor)
{
    count(run, tensor, false);
}

/* Tensors on a storage: its root and the views among its children's ops; found by scanning the ops
 * that made them. */
static void each_tensor(struct simrd_run *run, uint32_t storage,
                        void (*visit)(struct simrd_run *run, uint32_t tensor))
{
    const struct trace *t = run->p->trace;
    uint32_t last = run->p->ops[run->op].out_first + run->p->ops[run->op].out_count;
    for (uint32_t i = t->storages[storage].root; i < last; i++) {
        if (run->p->tensor_storage[i] == storage)
            visit(run, i);
    }
}

static void mark_waiting(struct simrd_run *run, uint32_t tensor)
{
    count(run, tensor, true);
}

static void forget(struct simrd_run *run, uint32_t tensor)
{
    count(run, tensor, false);
}

void simrd_banish_evicted(struct simrd_run *run, uint32_t storage)
{
    each_tensor(run, storage, mark_waiting);
}

static void try_banish(struct simrd_run *run, uint32_t storage)
{
    struct simrd_banish *b = run->banish;
    const struct mem_graph *g = &run->p->graph;
    if (!b->is_dead[storage] || b->is_banished[storage] || b->waiting[storage] > 0)
        return;
    b->is_banished[storage] = 1;
    run->r->banished++;
    each_tensor(run, storage, forget);
    if (run->material[storage]) {
        run->memory -= run->p->bytes[storage];
        simrd_unpool(run, storage);
    }
    run->material[storage] = 1; /* a wall for walks */
    run->epoch[storage]++;
    for (uint32_t e = g->child_first[storage]; e < g->child_first[storage + 1]; e++) {
        if (g->children[e].birth > run->op)
            break;
        if (!b->is_banished[g->children[e].storage])
            simrd_pin(run, g->children[e].storage);
    }
}

void simrd_banish_died(struct simrd_run *run, uint32_t storage)
{
    run->banish->is_dead[storage] = 1;
    try_banish(run, storage);
}

void simrd_banish_after(struct simrd_run *run, uint32_t op)
{
    const struct simrd_op *o = &run->p->ops[op];
    for (uint32_t i = 0; i < o->in_count; i++)
        try_banish(run, run->p->in_storage[o->in_first + i]);
}
