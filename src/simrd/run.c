/* run.c - the interpreter of rules simrd (counting allocator, views replayed).
 *
 * Everything static is worked out once (compile): handle counts, adjacency, weights. A model op
 * whose inputs are all defined and whose outputs fit takes the fast path: locking and unlocking its
 * inputs then only renews their place in the pool order.
 *
 *   S1 memory == sum of bytes of material storages, duplicates of an op in flight aside; checked
 *      against the budget before it rises.
 *   S2 in_pool <=> material, locks == 0 (a pin is a lock that never goes).
 *   S3 a tensor is defined iff its epoch equals its storage's; evicting a storage bumps the epoch,
 *      undefining all views. */
#include "simrd/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

/* ---- compiling ------------------------------------------------------------------------------- */

static enum ebb_status compile_code(struct simrd_program *p, struct ebb_error *err)
{
    const struct trace *t = p->trace;
    uint32_t *refs;
    EBB_TRY(ebb_new(&refs, t->storage_count, sizeof *refs, err));
    for (uint32_t c = 0; c < t->command_count; c++) {
        uint32_t index = t->commands[c].index;
        switch (t->commands[c].kind) {
        case TRACE_RUN:
            for (uint32_t k = 0; k < t->ops[index].output_count; k++)
                refs[t->tensors[t->ops[index].output_first + k].storage]++;
            p->code[p->code_count++] = (struct simrd_code){CODE_RUN, index & TRACE_MAX_INDEX};
            break;
        case TRACE_GET:
            refs[t->tensors[index].storage]++;
            break;
        case TRACE_RELEASE: {
            uint32_t s = t->tensors[index].storage;
            if (--refs[s] == 0)
                p->code[p->code_count++] = (struct simrd_code){CODE_DIE, s & TRACE_MAX_INDEX};
            break;
        }
        case TRACE_PIN:
            p->code[p->code_count++] = (struct simrd_code){CODE_PIN, index & TRACE_MAX_INDEX};
            break;
        }
    }
    ebb_free(refs);
    return EBB_OK;
}

static void compile_ops(struct simrd_program *p)
{
    const struct trace *t = p->trace;
    for (uint32_t o = 0; o < t->op_count; o++) {
        const struct trace_op *op = &t->ops[o];
        struct simrd_op *out = &p->ops[o];
        *out = (struct simrd_op){.cost = op->cost_ns,
                                 .in_first = op->input_first,
                                 .in_count = op->input_count,
                                 .out_first = op->output_first,
                                 .out_count = op->output_count};
        p->base_ns += op->cost_ns;
        p->leaf_count += op->is_leaf;
        for (uint32_t k = 0; k < op->output_count; k++) {
            const struct trace_tensor *tensor = trace_output_of(t, op, k);
            if (tensor->alias == TRACE_FRESH) {
                out->total_bytes += t->storages[tensor->storage].bytes;
                p->first_cost[tensor->storage] = (double)op->cost_ns;
            }
        }
    }
    for (size_t i = 0; i < t->input_count; i++)
        p->in_storage[i] = t->tensors[t->inputs[i]].storage;
    for (uint32_t i = 0; i < t->tensor_count; i++)
        p->tensor_storage[i] = t->tensors[i].storage;
    for (uint32_t s = 0; s < t->storage_count; s++) {
        p->bytes[s] = t->storages[s].bytes;
        double size = (double)p->bytes[s], cost = p->first_cost[s];
        p->weight[0][0][s] = 1;
        p->weight[1][0][s] = size;
        p->weight[0][1][s] =
            1 / cost; /* infinite for a free op: the choice then falls back to the literal scan */
        p->weight[1][1][s] = cost > 0 ? size / cost : INFINITY;
    }
}

enum ebb_status simrd_compile(struct simrd_program **program, const struct trace *trace,
                              struct ebb_error *err)
{
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        if (trace->tensors[i].alias == TRACE_MUTATE)
            return ebb_fail(err, EBB_EUNSUPPORTED,
                            "%s: op %u writes in place; rules simrd know copy-on-write only "
                            "(use --rules ebb)",
                            trace->name, trace->tensors[i].op);
    }
    struct simrd_program *p;
    EBB_TRY(ebb_new(&p, 1, sizeof *p, err));
    struct ebb_arena *a = &p->arena;
    p->trace = trace;
    size_t storages = (size_t)trace->storage_count + 8;
    p->ops = ebb_arena_calloc(a, trace->op_count, sizeof *p->ops);
    p->in_storage = ebb_arena_calloc(a, trace->input_count, sizeof *p->in_storage);
    p->tensor_storage = ebb_arena_calloc(a, trace->tensor_count, sizeof *p->tensor_storage);
    p->bytes = ebb_arena_calloc(a, storages, sizeof *p->bytes);
    p->first_cost = ebb_arena_calloc(a, storages, sizeof *p->first_cost);
    p->code = ebb_arena_calloc(a, trace->command_count, sizeof *p->code);
    for (int i = 0; i < 4; i++)
        p->weight[i >> 1][i & 1] = ebb_arena_calloc(a, storages, sizeof(double));
    enum ebb_status status = ebb_arena_status(a, err);
    if (status == EBB_OK) {
        compile_ops(p);
        status = compile_code(p, err);
    }
    if (status == EBB_OK && (double)p->base_ns > 0x1p52)
        status =
            ebb_fail(err, EBB_EUNSUPPORTED, "%s: costs sum to %llu ns; rules simrd end at 2^52",
                     trace->name, (unsigned long long)p->base_ns);
    EBB_THEN(status, mem_graph_init(&p->graph, trace, true, err));
    return EBB_HAND_OUT(status, program, p, simrd_destroy);
}

void simrd_destroy(struct simrd_program *p)
{
    if (!p)
        return;
    ebb_arena_fini(&p->arena);
    mem_graph_fini(&p->graph);
    ebb_free(p);
}

uint64_t simrd_base_ns(const struct simrd_program *program)
{
    return program->base_ns;
}

/* ---- state ----------------------------------------------------------------------------------- */

static void *carve(char **at, size_t bytes)
{
    void *p = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return p;
}

static enum ebb_status run_init(struct simrd_run *run, const struct simrd_program *p,
                                const struct simrd_options *o, struct mem_tally *r,
                                struct ebb_error *err)
{
    size_t n = (size_t)p->trace->storage_count + 8, tensors = (size_t)p->trace->tensor_count + 1;
    *run = (struct simrd_run){
        .p = p, .o = o, .r = r, .clock = 1, .budget = o->budget_bytes, .limit_ns = o->limit_ns};
    size_t bytes = n * (3 + 7 * 4 + 7 * 8) + tensors * 4 + 19 * 64;
    char *at = run->block = ebb_alloc_aligned(64, (bytes + 63) & ~(size_t)63);
    if (!at)
        return ebb_no_memory(err, bytes);
    /* zeroed arrays first, one memset */
    char *zero = at;
    run->material = carve(&at, n);
    run->in_pool = carve(&at, n);
    run->pinned = carve(&at, n);
    run->locks = carve(&at, n * 4);
    run->epoch = carve(&at, n * 4);
    run->stamps = carve(&at, n * 4);
    run->mark = carve(&at, n * 4);
    run->last = carve(&at, n * 8);
    run->live = carve(&at, n * 8);
    run->live_guess = carve(&at, n * 8);
    run->defined = carve(&at, tensors * 4);
    memset(zero, 0, (size_t)(at - zero));
    run->candidates = carve(&at, n * 4);
    run->walk = carve(&at, n * 4);
    run->node_of = carve(&at, n * 4);
    run->merit = carve(&at, n * 8);
    run->cost = carve(&at, n * 8);
    run->weight = carve(&at, n * 8);
    run->guess = carve(&at, n * 8);
    for (size_t s = 0; s < n; s++) /* epoch 0 = never, so that zeroed tensors are undefined */
        run->epoch[s] = 1;
    if (o->policy) {
        bool by_cost = o->policy->numerator != MEM_ONE && o->policy->numerator != MEM_RANDOM;
        const double *weight = p->weight[o->policy->by_size][by_cost];
        memcpy(run->weight, weight, n * sizeof(double));
        memcpy(run->guess, weight, n * sizeof(double));
        run->needs_classes = o->policy->numerator == MEM_EQ;
    } else {
        memset(run->weight, 0, n * sizeof(double));
        memset(run->guess, 0, n * sizeof(double));
    }
    for (size_t s = 0; s < n; s++)
        run->cost[s] = (int64_t)p->first_cost[s];
    if (run->needs_classes)
        memset(run->node_of, 0xff, n * 4);
    if (o->policy && o->policy->numerator == MEM_RANDOM)
        ebb_mt_seed(&run->rng, (uint32_t)o->seed);
    return EBB_OK;
}

static void run_fini(struct simrd_run *run)
{
    ebb_free(run->block);
    ebb_free(run->nodes);
    ebb_free(run->frames);
    ebb_free(run->missing);
    simrd_banish_destroy(run->banish);
}

/* ---- primitives ------------------------------------------------------------------------------ */

static bool is_defined(const struct simrd_run *run, uint32_t tensor)
{
    return run->defined[tensor] == run->epoch[run->p->tensor_storage[tensor]];
}

static void pool_add(struct simrd_run *run, uint32_t s)
{
    run->in_pool[s] = 1;
    run->live[s] = run->weight[s];
    run->live_guess[s] = run->guess[s];
    run->stamps[s] = ++run->stamp;
    run->pool_count++;
}

static void pool_remove(struct simrd_run *run, uint32_t s)
{
    run->in_pool[s] = 0;
    run->live[s] = 0;
    run->live_guess[s] = 0;
    run->pool_count--;
}

static void lock(struct simrd_run *run, uint32_t s)
{
    if (run->locks[s]++ == 0)
        pool_remove(run, s);
}

static void unlock(struct simrd_run *run, uint32_t s)
{
    if (--run->locks[s] == 0)
        pool_add(run, s);
}

/* Bytes have no places here: offsets are 0. A failure is told at the end. */
static void tell(struct simrd_run *run, enum plan_act act, bool is_again, uint32_t index)
{
    const struct mem_listener *listener = &run->o->listener;
    struct ebb_error ignored;
    if (!listener->tell || run->is_deaf)
        return;
    struct mem_note note = {
        .act = (uint8_t)act, .is_again = is_again, .index = index, .clock_ns = run->clock};
    run->is_deaf = listener->tell(listener->context, &note, &ignored) != EBB_OK;
}

static enum ebb_status evict(struct simrd_run *run, uint32_t s, struct ebb_error *err)
{
    tell(run, PLAN_DROP, true, s);
    run->material[s] = 0;
    run->epoch[s]++;
    run->memory -= run->p->bytes[s];
    pool_remove(run, s);
    if (run->banish)
        simrd_banish_evicted(run, s);
    return run->needs_classes ? simrd_class_evict(run, s, err) : EBB_OK;
}

/* Room for `bytes` more; EBB_EBUDGET when the pool runs empty. */
static enum ebb_status make_room(struct simrd_run *run, uint64_t bytes, struct ebb_error *err)
{
    while (run->memory + bytes > run->budget) {
        uint32_t victim = UINT32_MAX;
        if (run->o->policy)
            EBB_TRY(simrd_choose(run, &victim, err));
        if (victim == UINT32_MAX) {
            snprintf(run->r->why, sizeof run->r->why,
                     "op %u needs %llu bytes, %llu in use, nothing left to evict", run->op,
                     (unsigned long long)bytes, (unsigned long long)run->memory);
            return EBB_EBUDGET;
        }
        run->r->evictions_pressure++;
        run->r->evict_hash =
            ebb_fnv1a_u32(run->r->evict_hash, run->p->trace->storages[victim].root);
        EBB_TRY(evict(run, victim, err));
    }
    return EBB_OK;
}

static void count_memory(struct simrd_run *run, uint64_t bytes)
{
    run->memory += bytes;
    if (run->memory > run->r->peak_bytes)
        run->r->peak_bytes = run->memory;
}

static void become_material(struct simrd_run *run, uint32_t s)
{
    tell(run, PLAN_PLACE, false, s);
    run->material[s] = 1;
    if (run->needs_classes)
        simrd_class_material(run, s);
    pool_add(run, s);
}

/* Run the call that makes `tensor`: siblings first, then the tensor itself join the pool. */
static void execute(struct simrd_run *run, uint32_t tensor, bool is_remat)
{
    const struct simrd_program *p = run->p;
    const struct simrd_op *op = &p->ops[p->trace->tensors[tensor].op];
    run->clock += op->cost;
    count_memory(run, op->total_bytes);
    if (is_remat) {
        run->r->remat_ns += op->cost;
        run->r->remat_ops++;
    } else {
        run->model_ns += op->cost;
    }
    for (uint32_t k = 0; k <= op->out_count; k++) { /* index order, the tensor itself last */
        uint32_t t = k == op->out_count ? tensor : op->out_first + k;
        if (k < op->out_count && t == tensor)
            continue;
        uint32_t s = p->tensor_storage[t];
        if (t != tensor && is_defined(run, t)) {
            if (p->trace->tensors[t].alias == TRACE_FRESH)
                run->memory -= p->bytes[s]; /* the duplicate goes, after the peak was taken */
            continue;
        }
        run->r->remat_collateral += is_remat && t != tensor;
        run->defined[t] = run->epoch[s];
        if (run->banish)
            simrd_banish_defined(run, t);
        if (!run->material[s])
            become_material(run, s);
    }
    tell(run, PLAN_RUN, is_remat, p->trace->tensors[tensor].op);
}

/* ---- materializing, with an explicit stack --------------------------------------------------- */

static enum ebb_status frame_push(struct simrd_run *run, uint32_t tensor, bool is_remat,
                                  struct ebb_error *err)
{
    const struct simrd_program *p = run->p;
    const struct simrd_op *op = &p->ops[p->trace->tensors[tensor].op];
    EBB_TRY(ebb_grow(&run->frames, &run->frame_capacity, run->frame_count + 1, sizeof *run->frames,
                     err));
    EBB_TRY(ebb_grow(&run->missing, &run->missing_capacity, run->missing_count + op->in_count,
                     sizeof *run->missing, err));
    uint32_t first = (uint32_t)run->missing_count;
    run->frames[run->frame_count++] = (struct simrd_frame){tensor, first, first, is_remat};
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t s = p->in_storage[op->in_first + i];
        if (run->banish)
            EBB_TRY(simrd_banish_check(run, s, err));
        if (!run->banish || !simrd_banish_is_dead(run, s))
            run->last[s] = (double)run->clock;
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t parent = p->trace->inputs[op->in_first + i];
        if (is_defined(run, parent))
            lock(run, p->tensor_storage[parent]);
        else
            run->missing[run->missing_count++] = parent;
    }
    return EBB_OK;
}

static enum ebb_status materialize(struct simrd_run *run, uint32_t tensor, bool is_remat,
                                   struct ebb_error *err)
{
    const struct simrd_program *p = run->p;
    size_t base = run->frame_count;
    EBB_TRY(frame_push(run, tensor, is_remat, err));
    while (run->frame_count > base) {
        struct simrd_frame *frame = &run->frames[run->frame_count - 1];
        if (frame->missing_next < run->missing_count) {
            uint32_t parent = run->missing[frame->missing_next];
            if (!is_defined(run, parent)) {
                EBB_TRY(frame_push(run, parent, true, err));
                continue;
            }
            lock(run, p->tensor_storage[parent]);
            frame->missing_next++;
            continue;
        }
        const struct simrd_op *op = &p->ops[p->trace->tensors[frame->tensor].op];
        EBB_TRY(make_room(run, op->total_bytes, err));
        execute(run, frame->tensor, frame->is_remat);
        for (uint32_t i = 0; i < op->in_count; i++)
            unlock(run, p->in_storage[op->in_first + i]);
        if (run->banish)
            simrd_banish_after(run, p->trace->tensors[frame->tensor].op);
        if (run->r->remat_ns > run->limit_ns) {
            snprintf(run->r->why, sizeof run->r->why,
                     "op %u: recomputation reached %llu ns, limit %llu ns", run->op,
                     (unsigned long long)run->r->remat_ns, (unsigned long long)run->limit_ns);
            return EBB_ELIMIT;
        }
        run->missing_count = frame->missing_first;
        run->frame_count--;
    }
    return EBB_OK;
}

/* ---- commands -------------------------------------------------------------------------------- */

static void attach_outputs(struct simrd_run *run, const struct simrd_op *op)
{
    const struct trace_tensor *tensors = run->p->trace->tensors;
    uint32_t previous = TRACE_NONE;
    for (uint32_t k = 0; k < op->out_count; k++) {
        uint32_t t = op->out_first + k, s = tensors[t].storage;
        if (tensors[t].alias == TRACE_FRESH) {
            run->created = s + 1;
        } else if (s !=
                   previous) { /* c counts each call once, from the moment a view is attached */
            bool is_again = false;
            for (uint32_t j = 0; j < k; j++)
                is_again |= tensors[op->out_first + j].storage == s;
            previous = s;
            if (is_again)
                continue;
            run->cost[s] += (int64_t)op->cost;
            if (run->o->policy && run->o->policy->numerator != MEM_ONE) {
                double scale = run->o->policy->by_size ? (double)run->p->bytes[s] : 1.0;
                run->weight[s] = scale / (double)run->cost[s];
                if (run->in_pool[s])
                    run->live[s] = run->weight[s];
            }
        }
    }
}

/* Every input defined, outputs fit: what compute() does when nothing has to move. */
static bool try_fast(struct simrd_run *run, const struct simrd_op *op)
{
    const struct simrd_program *p = run->p;
    if (run->memory + op->total_bytes > run->budget)
        return false;
    const uint32_t *inputs = p->trace->inputs + op->in_first;
    const uint32_t *storages = p->in_storage + op->in_first;
    for (uint32_t i = 0; i < op->in_count; i++) {
        if (run->defined[inputs[i]] != run->epoch[storages[i]])
            return false;
    }
    double before = (double)run->clock;
    for (uint32_t i = 0; i < op->in_count; i++)
        run->last[storages[i]] = before;
    run->clock += op->cost;
    run->model_ns += op->cost;
    count_memory(run, op->total_bytes);
    double now = (double)run->clock;
    for (uint32_t k = 1; k <= op->out_count; k++) { /* siblings, then output 0 */
        uint32_t t = op->out_first + (k == op->out_count ? 0 : k), s = p->tensor_storage[t];
        run->defined[t] = run->epoch[s];
        run->last[s] = now;
        if (!run->material[s]) {
            run->material[s] = 1;
            pool_add(run, s);
        }
    }
    for (uint32_t i = 0; i < op->in_count; i++)
        run->stamps[storages[i]] = ++run->stamp;
    return true;
}

static enum ebb_status compute(struct simrd_run *run, uint32_t index, struct ebb_error *err)
{
    const struct simrd_op *op = &run->p->ops[index];
    run->op = index;
    run->r->ops_done++;
    attach_outputs(run, op);
    if (run->banish)
        simrd_banish_created(run, index);
    else if (!run->o->listener.tell && try_fast(run, op)) /* the shortcut tells nothing */
        return EBB_OK;
    EBB_TRY(materialize(run, op->out_first, false, err));
    for (uint32_t k = 0; k < op->out_count; k++)
        run->last[run->p->tensor_storage[op->out_first + k]] = (double)run->clock;
    return EBB_OK;
}

void simrd_pin(struct simrd_run *run, uint32_t s)
{
    if (run->pinned[s])
        return;
    run->pinned[s] = 1;
    lock(run, s);
}

void simrd_unpool(struct simrd_run *run, uint32_t s)
{
    if (run->in_pool[s])
        pool_remove(run, s);
}

static enum ebb_status pin(struct simrd_run *run, uint32_t tensor, struct ebb_error *err)
{
    if (run->banish)
        EBB_TRY(simrd_banish_check(run, run->p->tensor_storage[tensor], err));
    if (!is_defined(run, tensor))
        EBB_TRY(materialize(run, tensor, true, err));
    simrd_pin(run, run->p->tensor_storage[tensor]);
    return EBB_OK;
}

static enum ebb_status die(struct simrd_run *run, uint32_t s, struct ebb_error *err)
{
    if (run->banish) {
        simrd_banish_died(run, s);
        return EBB_OK;
    }
    if (!run->o->is_eager || !run->material[s] || run->pinned[s])
        return EBB_OK;
    run->r->evictions_release++;
    return evict(run, s, err);
}

enum ebb_status simrd_run(const struct simrd_program *p, const struct simrd_options *o,
                          struct mem_tally *tally, struct ebb_error *err)
{
    struct simrd_run run;
    EBB_TRY(run_init(&run, p, o, tally, err));
    enum ebb_status status = o->banishes ? simrd_banish_create(&run, err) : EBB_OK;
    for (size_t c = 0; c < p->code_count && status == EBB_OK; c++) {
        uint32_t index = p->code[c].index;
        switch (p->code[c].kind) {
        case CODE_RUN:
            status = compute(&run, index, err);
            break;
        case CODE_DIE:
            status = die(&run, index, err);
            break;
        case CODE_PIN:
            status = pin(&run, index, err);
            break;
        }
    }
    tally->clock_ns = run.clock;
    tally->sum_bytes = tally->peak_bytes;
    run_fini(&run);
    if (run.is_deaf && (status == EBB_OK || status == EBB_EBUDGET || status == EBB_ELIMIT))
        status = ebb_no_memory(err, sizeof(struct mem_note));
    return status;
}
