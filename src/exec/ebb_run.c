/* ebb_run.c - the interpreter of rules ebb: serve model ops in order, bring back what is missing,
 * free what is dead.
 *
 *   E1 when an op is launched, every input is resident with the version it reads, pinned, and every
 * output it produces has its bytes. E2 waiting frames hold their inputs softly: those leave only
 * when nothing else can, and are looked at again when the frame's turn comes, so a frame never runs
 * on something that left. E3 before an op destroys a version, everything live whose recipe reads it
 * is resident and held (or copied). E4 what has no use left, waits for nobody and is not kept is
 * freed at once. */
#include "exec/ebb.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"

#define MAX_TRIES 64 /* times a frame may find an input gone again */

/* ---- setting up
 * ---------------------------------------------------------------------------------------------------
 */

/* R2: persistent storages have their bytes before anybody else asks. */
static enum ebb_status take_base(struct ebb_run *run, struct ebb_error *err)
{
    const struct ebb_program *p = run->p;
    for (uint32_t s = 0; s < p->storage_count; s++) {
        if (p->base[s] == PLAN_NOWHERE || p->bytes[s] == 0)
            continue;
        uint32_t hole = mem_slab_find(&run->slab[0], p->bytes[s], false);
        if (hole == MEM_NONE) {
            run->r->result = EXEC_OOM;
            snprintf(run->r->why, sizeof run->r->why,
                     "weights and other persistent storages do not fit: %llu of %llu bytes free, "
                     "storage %u needs %llu",
                     (unsigned long long)run->slab[0].free_bytes,
                     (unsigned long long)run->slab[0].bytes, s, (unsigned long long)p->bytes[s]);
            return EBB_EBUDGET;
        }
        EBB_TRY(
            mem_slab_take(&run->slab[0], hole, p->bytes[s], false, s, &run->slots[s].segment, err));
    }
    return EBB_OK;
}

static enum ebb_status run_init(struct ebb_run *run, const struct ebb_program *p,
                                const struct exec_options *o, struct exec_report *r,
                                struct ebb_error *err)
{
    size_t n = (size_t)p->storage_count + 1;
    *run = (struct ebb_run){.p = p,
                            .o = o,
                            .r = r,
                            .device = o->device,
                            .limit_ns = exec_limit_ns(o, p->base_ns),
                            .ways = o->ways ? o->ways : MEM_DROP};
    run->slots = ebb_calloc(n, sizeof *run->slots);
    run->is_resident = ebb_calloc(n, 1);
    run->cost = ebb_calloc(n, sizeof *run->cost);
    run->last = ebb_calloc(n, sizeof *run->last);
    run->price = ebb_calloc(n, sizeof *run->price);
    run->swap = ebb_calloc(n, sizeof *run->swap);
    run->mark = ebb_calloc(n, sizeof *run->mark);
    run->walk = ebb_calloc(n, sizeof *run->walk);
    if (!run->slots || !run->is_resident || !run->cost || !run->last || !run->price || !run->swap ||
        !run->mark || !run->walk)
        return ebb_no_memory(err, n * sizeof *run->slots);
    run->pointers = ebb_calloc((size_t)p->ports + 1, sizeof *run->pointers);
    if (!run->pointers)
        return ebb_no_memory(err, p->ports * sizeof *run->pointers);
    for (uint32_t s = 0; s < p->storage_count; s++) {
        run->slots[s].uses_left = p->use_count[s];
        run->cost[s] = (int64_t)p->ops[p->root_op[s]].cost;
    }
    uint64_t budget = o->budget_bytes < TRACE_MAX_BYTES ? o->budget_bytes : TRACE_MAX_BYTES;
    EBB_TRY(mem_slab_init(&run->slab[0], budget, err));
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        EBB_TRY(mem_slab_init(&run->slab[k], o->tier_bytes[k], err));
    EBB_TRY(take_base(run, err));
    if (!o->policy)
        return EBB_OK;
    run->pool = ebb_calloc(n, sizeof *run->pool);
    run->pool_at = ebb_alloc(n * sizeof *run->pool_at);
    if (!run->pool || !run->pool_at)
        return ebb_no_memory(err, n * sizeof *run->pool);
    memset(run->pool_at, 0xff, n * sizeof *run->pool_at);
    EBB_TRY(mem_neigh_init(&run->neigh, &p->graph, o->policy->numerator, err));
    run->neigh.is_resident = run->is_resident;
    run->neigh.is_candidate = p->is_candidate;
    run->neigh.cost = run->cost;
    ebb_mt_seed(&run->rng, (uint32_t)o->seed);
    return mem_index_create(&run->index, p->storage_count, o->policy->by_stale, err);
}

static void run_fini(struct ebb_run *run)
{
    for (int k = 0; k < DEVICE_TIERS; k++)
        mem_slab_fini(&run->slab[k]);
    mem_index_destroy(run->index);
    mem_neigh_fini(&run->neigh);
    ebb_free(run->slots);
    ebb_free(run->is_resident);
    ebb_free(run->cost);
    ebb_free(run->last);
    ebb_free(run->price);
    ebb_free(run->swap);
    ebb_free(run->mark);
    ebb_free(run->walk);
    ebb_free(run->pool);
    ebb_free(run->pool_at);
    ebb_free(run->frames);
    ebb_free(run->pointers);
    ebb_free(run->asides);
}

/* ---- launching
 * ----------------------------------------------------------------------------------------------------
 */

static void *address_of(void *context, uint32_t storage)
{
    struct ebb_run *run = context;
    if (run->p->bytes[storage] == 0)
        return NULL;
    return run->device->table->address(run->device,
                                       run->slab[0].segments[run->slots[storage].segment].offset);
}

/* Arguments gathered from the slots. */
static enum ebb_status launch(struct ebb_run *run, uint32_t op, const uint8_t *is_produced,
                              uint32_t work, struct ebb_error *err)
{
    const struct trace *t = run->p->trace;
    const struct trace_op *top = &t->ops[op];
    const struct ebb_op *e = &run->p->ops[op];
    for (uint32_t i = 0; i < e->in_count; i++) /* arrivals that may still be under way */
        EBB_TRY(exec_tier_await(run, run->p->in_storage[e->in_first + i], err));
    struct trace_call call = {.kind = top->kind,
                              .in = (const void *const *)run->pointers,
                              .out = run->pointers + top->input_count,
                              .attr = t->attrs + top->attr_first,
                              .attr_bytes = top->attr_bytes,
                              .context = run->o->context};
    uint64_t extra = e->workspace, work_offset = 0;
    if (work != MEM_NONE)
        work_offset = run->slab[0].segments[work].offset;
    if (e->workspace)
        call.workspace = run->device->table->address(run->device, work_offset);
    for (uint32_t i = 0; i < top->input_count; i++)
        run->pointers[i] = address_of(run, t->tensors[t->inputs[top->input_first + i]].storage);
    for (uint32_t k = 0; k < top->output_count; k++) {
        const struct trace_tensor *out = &t->tensors[top->output_first + k];
        void **pointer = &run->pointers[top->input_count + k];
        *pointer = NULL;
        if (out->alias == TRACE_MUTATE || is_produced[k])
            *pointer = address_of(run, out->storage);
        else if (out->alias == TRACE_FRESH && !e->can_skip_outputs && run->p->bytes[out->storage])
            *pointer = run->device->table->address(
                run->device, work_offset + exec_scratch(run->p, out->storage, &extra));
    }
    return exec_launch_op(run->p, run->o, run->device, op, &call, err);
}

/* ---- what an op needs
 * --------------------------------------------------------------------------------------------- */

static bool is_here(const struct ebb_run *run, uint32_t s, uint32_t version)
{
    return run->slots[s].state == SLOT_RESIDENT && run->slots[s].version == version;
}

/* Largest working set on the way back to `s`, and how many ops that takes: decides which missing
 * input comes first. */
static uint64_t estimate(struct ebb_run *run, uint32_t s, uint32_t *ops)
{
    const struct ebb_program *p = run->p;
    uint64_t largest = 0;
    size_t depth = 0;
    run->visit++;
    run->walk[depth++] = s;
    run->mark[s] = run->visit;
    *ops = 0;
    while (depth > 0 && *ops < 4096) {
        uint32_t at = run->walk[--depth];
        if (run->slots[at].has_copy)
            continue;
        const struct ebb_op *op = &p->ops[p->root_op[at]];
        uint64_t bytes = op->workspace + p->bytes[at];
        ++*ops;
        for (uint32_t i = 0; i < op->in_count; i++) {
            uint32_t in = p->in_storage[op->in_first + i];
            bytes += p->bytes[in];
            if (run->slots[in].state == SLOT_RESIDENT || run->mark[in] == run->visit)
                continue;
            run->mark[in] = run->visit;
            run->walk[depth++] = in;
        }
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

/* The missing input to bring next: the one whose way back needs most beyond what it leaves behind
 * (Sethi-Ullman). */
static uint32_t next_missing(struct ebb_run *run, const struct ebb_op *op, uint32_t *version)
{
    uint32_t best = MEM_NONE, count = 0;
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t s = run->p->in_storage[op->in_first + i];
        if (!is_here(run, s, run->p->in_version[op->in_first + i])) {
            count++;
            if (best == MEM_NONE) {
                best = s;
                *version = run->p->in_version[op->in_first + i];
            }
        }
    }
    if (count <= 1)
        return best;
    int64_t top = INT64_MIN;
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t s = run->p->in_storage[op->in_first + i], ops;
        if (is_here(run, s, run->p->in_version[op->in_first + i]))
            continue;
        int64_t excess = (int64_t)estimate(run, s, &ops) - (int64_t)run->p->bytes[s];
        if (excess > top) {
            top = excess;
            best = s;
            *version = run->p->in_version[op->in_first + i];
        }
    }
    return best;
}

static enum ebb_status frame_push(struct ebb_run *run, uint32_t op, uint32_t target, bool is_remat,
                                  struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&run->frames, &run->frame_capacity, run->frame_count + 1, sizeof *run->frames,
                     err));
    run->frames[run->frame_count++] = (struct ebb_frame){op, target, 0, is_remat};
    const struct ebb_op *e = &run->p->ops[op];
    for (uint32_t i = 0; i < e->in_count; i++) {
        uint32_t s = run->p->in_storage[e->in_first + i];
        run->slots[s].waits++;
        run->last[s] = (double)run->clock;
        exec_victim_pool(run, s);
    }
    return EBB_OK;
}

/* ---- freeing
 * ------------------------------------------------------------------------------------------------------
 */

/* Is a storage without uses of its own on the way back to something that was evicted and will be
 * used? */
static bool is_stepping_stone(struct ebb_run *run, uint32_t s)
{
    const struct mem_graph *g = &run->p->graph;
    size_t depth = 0;
    uint32_t visit = ++run->visit, looked = 0;
    run->walk[depth++] = s;
    run->mark[s] = visit;
    while (depth > 0) {
        uint32_t at = run->walk[--depth];
        for (uint32_t e = g->child_first[at]; e < g->child_first[at + 1]; e++) {
            uint32_t other = g->children[e].storage;
            if (g->children[e].birth > run->op)
                break;
            if (run->slots[other].state == SLOT_RESIDENT || run->mark[other] == visit)
                continue;
            if (run->slots[other].uses_left || ++looked > 256)
                return true;
            run->mark[other] = visit;
            run->walk[depth++] = other;
        }
    }
    return false;
}

/* Dead, but so small that keeping it in the pool costs nothing, and something made from it may
 * still have to be rebuilt. Long chains of such storages (optimizer arithmetic on biases) otherwise
 * turn one eviction into thousands of recomputations. */
static bool is_small_change(const struct ebb_run *run, uint32_t s)
{
    return run->p->need_until[s] > run->op && run->p->bytes[s] < run->p->average_bytes / 100;
}

/* E4. Anchors wait for the last op that may need them. */
static enum ebb_status free_if_dead(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    const struct ebb_program *p = run->p;
    struct ebb_slot *slot = &run->slots[s];
    if (slot->uses_left || slot->waits || slot->pins || p->is_keep[s] ||
        run->o->dealloc == EXEC_IGNORE)
        return EBB_OK;
    bool is_anchor = p->expire[p->version_first[s] + slot->version] == 0;
    if (is_anchor && p->need_until[s] >= run->done) /* the op in service may need it again */
        return EBB_OK;
    if (slot->state == SLOT_RESIDENT && !is_anchor && run->index &&
        (is_small_change(run, s) || is_stepping_stone(run, s)))
        return EBB_OK;
    EBB_TRY(exec_tier_forget(run, s, err));
    if (slot->state != SLOT_RESIDENT)
        return EBB_OK;
    run->r->evictions_release++;
    EBB_TRY(exec_room_release(run, s, EXEC_EV_FREE, err));
    if (run->index && !is_anchor) {
        run->neigh.now_op = run->op;
        EBB_TRY(mem_neigh_evicted(&run->neigh, s, false, err));
    }
    return EBB_OK;
}

/* ---- running one frame
 * -------------------------------------------------------------------------------------------- */

static void pin_inputs(struct ebb_run *run, const struct ebb_op *op, bool pins)
{
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t s = run->p->in_storage[op->in_first + i];
        if (pins)
            run->slots[s].pins++;
        else
            run->slots[s].pins--;
        exec_victim_pool(run, s);
    }
}

static bool wants_output(const struct ebb_run *run, const struct ebb_frame *frame, uint32_t s)
{
    if (run->slots[s].state == SLOT_RESIDENT)
        return false; /* never rewritten */
    if (!frame->is_remat)
        return true;
    if (s == frame->target || (run->slots[s].waits && !run->slots[s].has_copy))
        return true;
    /* a sibling that will be used again is welcome if it costs nobody his place; not one that was
     * written in place since: version 0 would hide the newer one, and its copy */
    return run->slots[s].uses_left && run->slots[s].version == 0 && run->p->bytes[s] &&
           mem_slab_find(&run->slab[0], run->p->bytes[s], true) != MEM_NONE;
}

static enum ebb_status place(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    if (run->p->bytes[s] && run->p->base[s] == PLAN_NOWHERE) {
        EBB_TRY(exec_room_take(run, run->p->bytes[s], exec_room_is_short_lived(run, s), s,
                               &slot->segment, err));
    }
    EBB_TRY(exec_room_log(run, EXEC_EV_PLACE, s,
                          run->p->bytes[s] ? run->slab[0].segments[slot->segment].offset : 0, 0,
                          err));
    slot->pins++; /* not to be taken by what the same op still needs */
    slot->version = 0;
    /* its in-place ops run again; until now others counted them in their neighbourhood */
    run->cost[s] = (int64_t)run->p->ops[run->p->root_op[s]].cost;
    return exec_room_arrive(run, s, err);
}

static void note_peak(struct ebb_run *run, uint64_t extra)
{
    if (run->sum_bytes + extra > run->r->sum_bytes)
        run->r->sum_bytes = run->sum_bytes + extra;
}

static enum ebb_status run_frame(struct ebb_run *run, struct ebb_error *err)
{
    const struct ebb_program *p = run->p;
    const struct ebb_frame frame = run->frames[run->frame_count - 1];
    const struct ebb_op *op = &p->ops[frame.op];
    const struct trace_op *top = &p->trace->ops[frame.op];
    uint8_t small[64], *is_produced = small; /* per trace output */
    if (top->output_count > sizeof small) {
        is_produced = ebb_calloc(top->output_count, 1);
        if (!is_produced)
            return ebb_no_memory(err, top->output_count);
    }
    memset(is_produced, 0, top->output_count);
    enum ebb_status status = EBB_OK;
    uint64_t scratch = 0;
    uint32_t work = MEM_NONE;
    pin_inputs(run, op, true);
    for (uint32_t k = 0; k < top->output_count && status == EBB_OK; k++) {
        const struct trace_tensor *out = &p->trace->tensors[top->output_first + k];
        if (out->alias != TRACE_FRESH)
            continue;
        if (wants_output(run, &frame, out->storage)) {
            is_produced[k] = 1;
            status = place(run, out->storage, err);
        } else if (!op->can_skip_outputs) {
            scratch += p->bytes[out->storage];
        }
    }
    if (status == EBB_OK && op->workspace + scratch > 0) {
        status = exec_room_take(run, op->workspace + scratch, true, MEM_NONE - 1, &work, err);
        if (status == EBB_OK)
            status = exec_room_log(run, EXEC_EV_WORK, frame.op, run->slab[0].segments[work].offset,
                                   0, err);
    }
    if (status == EBB_OK) {
        note_peak(run, op->workspace + scratch);
        status =
            exec_room_log(run, frame.is_remat ? EXEC_EV_RERUN : EXEC_EV_RUN, frame.op, 0, 0, err);
    }
    if (status == EBB_OK)
        status = launch(run, frame.op, is_produced, work, err);
    if (work != MEM_NONE)
        mem_slab_give(&run->slab[0], work);
    if (status == EBB_OK) {
        run->clock += op->cost;
        if (frame.is_remat) {
            run->r->remat_ns += op->cost;
            run->r->remat_ops++;
        }
        for (uint32_t k = 0; k < op->out_count; k++) {
            uint32_t s = p->out_storage[op->out_first + k], v = p->out_version[op->out_first + k];
            struct ebb_slot *slot = &run->slots[s];
            if (v > 0) {
                if (status == EBB_OK) /* copies of the version before are stale */
                    status = exec_tier_forget(run, s, err);
                slot->version = v;
                run->cost[s] += (int64_t)op->cost;
            }
            if (!frame.is_remat || v > 0)
                run->last[s] = (double)run->clock;
        }
    }
    /* unpin in any case, so that a failed run can be told apart from a leak */
    for (uint32_t k = 0; k < top->output_count; k++) {
        if (!is_produced[k])
            continue;
        uint32_t s = p->trace->tensors[top->output_first + k].storage;
        if (run->slots[s].state == SLOT_RESIDENT) {
            run->slots[s].pins--;
            exec_victim_pool(run, s);
        }
    }
    pin_inputs(run, op, false);
    if (is_produced != small)
        ebb_free(is_produced);
    return status;
}

static enum ebb_status frame_pop(struct ebb_run *run, struct ebb_error *err)
{
    const struct ebb_frame frame = run->frames[--run->frame_count];
    const struct ebb_op *op = &run->p->ops[frame.op];
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t s = run->p->in_storage[op->in_first + i];
        run->slots[s].waits--;
        if (!frame.is_remat)
            run->slots[s].uses_left--;
        exec_victim_pool(run, s);
    }
    for (uint32_t i = 0; i < op->in_count; i++)
        EBB_TRY(free_if_dead(run, run->p->in_storage[op->in_first + i], err));
    for (uint32_t k = 0; k < op->out_count; k++) {
        uint32_t s = run->p->out_storage[op->out_first + k];
        if (s != frame.target)
            EBB_TRY(free_if_dead(run, s, err));
    }
    return EBB_OK;
}

/* ---- the loop
 * -----------------------------------------------------------------------------------------------------
 */

/* Bring one missing input nearer: a copy comes back whole, otherwise the op that makes the next
 * version is pushed. */
static enum ebb_status bring(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    const struct ebb_slot *slot = &run->slots[s];
    if (slot->state != SLOT_RESIDENT && slot->has_copy)
        return exec_room_fetch(run, s, err);
    uint32_t next = slot->state == SLOT_RESIDENT ? slot->version + 1 : 0;
    return frame_push(run, run->p->mutator[run->p->version_first[s] + next], s, true, err);
}

static enum ebb_status serve(struct ebb_run *run, size_t base, struct ebb_error *err)
{
    while (run->frame_count > base) {
        struct ebb_frame *frame = &run->frames[run->frame_count - 1];
        const struct ebb_op *op = &run->p->ops[frame->op];
        uint32_t version = 0;
        uint32_t missing = next_missing(run, op, &version);
        if (missing != MEM_NONE) {
            if (frame->tries++ > op->in_count + MAX_TRIES) {
                run->r->result = EXEC_OOM;
                snprintf(
                    run->r->why, sizeof run->r->why,
                    "op %u: its inputs do not fit together; the last one missing needs %llu bytes",
                    run->op, (unsigned long long)run->p->bytes[missing]);
                return EBB_EBUDGET;
            }
            EBB_TRY(bring(run, missing, err));
            continue;
        }
        bool is_remat = frame->is_remat;
        EBB_TRY(run_frame(run, err));
        EBB_TRY(frame_pop(run, err));
        if (is_remat && run->r->remat_ns > run->limit_ns) {
            run->r->result = EXEC_THRASHED;
            snprintf(run->r->why, sizeof run->r->why,
                     "op %u: recomputation reached %llu ns, limit %llu ns", run->op,
                     (unsigned long long)run->r->remat_ns, (unsigned long long)run->limit_ns);
            return EBB_ELIMIT;
        }
    }
    return EBB_OK;
}

/* Make `s` resident at its newest version and keep it there. */
static enum ebb_status restore(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    uint32_t version = slot->version;
    while (!is_here(run, s, version)) {
        if (slot->state != SLOT_RESIDENT && slot->has_copy) {
            EBB_TRY(exec_room_fetch(run, s, err));
            continue;
        }
        size_t base = run->frame_count;
        EBB_TRY(bring(run, s, err));
        EBB_TRY(serve(run, base, err));
    }
    return EBB_OK;
}

static enum ebb_status run_model_op(struct ebb_run *run, uint32_t o, struct ebb_error *err)
{
    const struct ebb_op *op = &run->p->ops[o];
    run->op = o;
    run->r->ops_done++;
    run->done = o;
    if (op->is_skipped)
        return EBB_OK;
    for (uint32_t i = 0; i < op->restore_count; i++) { /* E3 */
        uint32_t s = run->p->restore[op->restore_first + i];
        if (!run->slots[s].has_copy)
            EBB_TRY(restore(run, s, err));
        run->slots[s].is_held = 1;
        exec_victim_pool(run, s);
    }
    EBB_TRY(frame_push(run, o, EXEC_NEVER, false, err));
    EBB_TRY(serve(run, 0, err));
    run->done = o + 1;
    for (uint32_t i = 0; i < op->end_count; i++)
        EBB_TRY(free_if_dead(run, run->p->ends[op->end_first + i], err));
    return EBB_OK;
}

static enum ebb_status run_policy(struct ebb_run *run, struct ebb_error *err)
{
    for (uint32_t o = 0; o < run->p->op_count; o++)
        EBB_TRY(run_model_op(run, o, err));
    for (uint32_t s = 0; s < run->p->storage_count; s++) { /* the keep set is complete at the end */
        if (run->p->is_keep[s] && run->slots[s].state != SLOT_RESIDENT)
            EBB_TRY(restore(run, s, err));
    }
    EBB_TRY(run->device->table->sync(run->device, err));
    return exec_hand_over(run->p, run->o, address_of, run, err);
}

static enum ebb_status run_by_plan(const struct ebb_program *p, const struct plan *plan,
                                   const struct exec_options *o, struct exec_report *report,
                                   struct ebb_error *err)
{
    struct exec_image *image = NULL;
    EBB_TRY(exec_image_bind(&image, p, plan, o, err));
    enum ebb_status status = exec_image_run(image, o->io, o->log, report, err);
    exec_image_destroy(image);
    return status;
}

static enum ebb_status run_by_policy(const struct ebb_program *p, const struct exec_options *o,
                                     struct exec_report *report, struct ebb_error *err)
{
    struct ebb_run run;
    uint64_t begin = o->device->table->now_ns(o->device, DEVICE_COMPUTE);
    enum ebb_status status = run_init(&run, p, o, report, err);
    if (status == EBB_OK)
        status = run_policy(&run, err);
    report->clock_ns = run.clock;
    report->base_ns = p->base_ns;
    report->peak_bytes = run.slab[0].peak_bytes;
    report->device_ns = o->device->table->now_ns(o->device, DEVICE_COMPUTE) - begin;
    run_fini(&run);
    return status;
}

static enum ebb_status own_device(struct exec_options *o, struct ebb_error *err)
{
    EBB_TRY(device_null.create(&o->device, &o->links, err));
    enum ebb_status status = EBB_OK;
    for (int k = 0; k < DEVICE_TIERS && status == EBB_OK; k++) {
        uint64_t bytes = k ? o->tier_bytes[k] : o->budget_bytes;
        if (bytes)
            status = device_null.reserve(o->device, (enum device_tier)k, bytes, err);
    }
    if (status != EBB_OK)
        device_null.destroy(o->device);
    return status;
}

enum ebb_status exec_ebb_run(const struct ebb_program *p, const struct exec_options *options,
                             struct exec_report *report, struct ebb_error *err)
{
    struct exec_options o = *options;
    const struct plan *plan = o.plan;
    if (!plan && o.budget_bytes >= p->keep_peak && o.dealloc == EXEC_EAGER)
        EBB_TRY(exec_easy_plan(p, o.budget_bytes, &plan, err));
    if (!options->device)
        EBB_TRY(own_device(&o, err));
    enum ebb_status status =
        plan ? run_by_plan(p, plan, &o, report, err) : run_by_policy(p, &o, report, err);
    if (!options->device)
        device_null.destroy(o.device);
    if (report->result != EXEC_OK && (status == EBB_EBUDGET || status == EBB_ELIMIT))
        status = EBB_OK; /* a result, told in the report */
    return status;
}
