/* run.c - a run under a policy: serve model ops in order, bring back what is missing, free what is
 * dead (rules E1-E4 of README.md). Where the bytes are and who leaves is the matter of `mem`. */
#include "exec/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

#define MAX_TRIES 64     /* times a frame may find an input gone again */
#define MOST_LOOKED 4096 /* ops of an estimate */

struct frame {
    uint32_t op;
    uint32_t target; /* storage wanted by the frame below; PLAN_NEVER for a model op */
    uint32_t tries;
    bool is_remat;
};

#define A_RUN 50 /* counts for that much work */

struct run {
    const struct exec_program *p;
    const struct plan_recipes *r;
    const struct exec_options *o;
    struct mem_manager m;
    struct mem_tally tally;
    uint64_t limit_ns;
    uint64_t first_ns, again_ns; /* wall times: exec_io.measures */
    struct frame *frames;
    size_t frame_count, frame_capacity;
    uint32_t *mark, *walk; /* scratch of estimates */
    uint32_t visit;
    void **pointers;      /* of one launch: as many as the widest op has inputs and outputs */
    uint8_t *is_produced; /* per output of the op about to run */
};

static enum ebb_status run_init(struct run *run, const struct exec_program *p,
                                const struct exec_options *o, struct ebb_error *err)
{
    size_t n = (size_t)p->recipes->storage_count + 1, ports = (size_t)p->ports + 1;
    *run = (struct run){.p = p,
                        .r = p->recipes,
                        .o = o,
                        .tally = {.evict_hash = EBB_FNV1A_INIT},
                        .limit_ns = exec_limit_ns(o, p->recipes->base_cost)};
    struct mem_config config = {.recipes = p->recipes,
                                .graph = &p->graph,
                                .policy = o->policy,
                                .ways = o->ways ? o->ways : MEM_DROP,
                                .bytes = {o->budget_bytes, o->tier_bytes[1], o->tier_bytes[2]},
                                .links = &o->links,
                                .device = o->device,
                                .seed = o->seed,
                                .sampling = o->sampling,
                                .ignore_small = o->ignore_small,
                                .reference_scan = o->reference_scan,
                                .takes_first = o->takes_first,
                                .ignores_dead = o->dealloc == EXEC_IGNORE,
                                .measures = o->io && o->io->measures && !o->device->table->is_clock,
                                .listener = exec_log_listener(o->log)};
    EBB_TRY(mem_manager_init(&run->m, &config, &run->tally, err));
    run->mark = ebb_calloc(n, sizeof *run->mark);
    run->walk = ebb_calloc(n, sizeof *run->walk);
    run->pointers = ebb_calloc(ports, sizeof *run->pointers);
    run->is_produced = ebb_calloc(ports, 1);
    if (!run->mark || !run->walk || !run->pointers || !run->is_produced)
        return ebb_no_memory(err, (n + ports) * sizeof *run->pointers);
    return EBB_OK;
}

static void run_fini(struct run *run)
{
    mem_manager_fini(&run->m);
    ebb_free(run->frames);
    ebb_free(run->mark);
    ebb_free(run->walk);
    ebb_free(run->pointers);
    ebb_free(run->is_produced);
}

static uint64_t bytes_of(const struct run *run, uint32_t s)
{
    return run->r->storages[s].bytes;
}

/* ---- launching ------------------------------------------------------------------------------- */

static uint64_t offset_of(const struct run *run, uint32_t storage)
{
    const struct mem_manager *m = &run->m;
    return bytes_of(run, storage) ? m->slab[0].segments[m->slots[storage].segment].offset : 0;
}

static void *address_of(const struct run *run, uint32_t storage)
{
    struct device *device = run->o->device;
    return bytes_of(run, storage) ? device->table->address(device, offset_of(run, storage)) : NULL;
}

/* Arguments gathered from the slots; `work`: segment of workspace and scratch, or MEM_NONE. */
static enum ebb_status launch(struct run *run, const struct frame *frame, uint32_t work,
                              struct ebb_error *err)
{
    uint32_t op = frame->op;
    const struct trace *t = run->p->trace;
    const struct trace_op *top = &t->ops[op];
    const struct plan_node *node = &run->r->nodes[op];
    struct device *device = run->o->device;
    for (uint32_t i = 0; i < node->in_count; i++) /* arrivals that may still be under way */
        EBB_TRY(mem_await(&run->m, run->r->ins[node->in_first + i].storage, err));
    for (uint32_t k = 0; k < node->out_count; k++) /* written in place: not while it leaves */
        EBB_TRY(mem_await_free(&run->m, run->r->outs[node->out_first + k].storage, err));
    uint64_t extra = node->workspace_bytes, work_offset = 0;
    if (work != MEM_NONE)
        work_offset = run->m.slab[0].segments[work].offset;
    struct trace_call call =
        exec_call(run->p, run->o, op, run->pointers,
                  node->workspace_bytes ? device->table->address(device, work_offset) : NULL);
    for (uint32_t i = 0; i < top->input_count; i++)
        run->pointers[i] = address_of(run, t->tensors[t->inputs[top->input_first + i]].storage);
    for (uint32_t k = 0; k < top->output_count; k++) {
        const struct trace_tensor *out = trace_output_of(t, top, k);
        void **pointer = &run->pointers[top->input_count + k];
        *pointer = NULL;
        if (out->alias == TRACE_MUTATE || run->is_produced[k])
            *pointer = address_of(run, out->storage);
        else if (out->alias == TRACE_FRESH && !node->can_skip && bytes_of(run, out->storage))
            *pointer = device->table->address(
                device, work_offset + exec_scratch(run->p, out->storage, &extra));
    }
    struct exec_launch l = exec_launch_make(run->p, run->o, &call);
    uint64_t leaf = top->is_leaf ? offset_of(run, trace_output_of(t, top, 0)->storage) : 0;
    if (!exec_is_timed(run->o, device))
        return exec_launch_now(&l, device, leaf, err);
    uint64_t begin = device->table->now_ns(device, DEVICE_COMPUTE);
    EBB_TRY(exec_launch_now(&l, device, leaf, err));
    exec_took(run->p, run->o->io, op, device->table->now_ns(device, DEVICE_COMPUTE) - begin,
              frame->is_remat ? &run->again_ns : &run->first_ns);
    return EBB_OK;
}

/* ---- what an op needs ------------------------------------------------------------------------ */

/* Largest working set on the way back to `s`, and how many ops that takes: decides which missing
 * input comes first. */
static uint64_t estimate(struct run *run, uint32_t s)
{
    const struct plan_recipes *r = run->r;
    uint64_t largest = 0;
    size_t depth = 0;
    uint32_t ops = 0;
    run->visit++;
    run->walk[depth++] = s;
    run->mark[s] = run->visit;
    while (depth > 0 && ops < MOST_LOOKED) {
        uint32_t at = run->walk[--depth];
        if (run->m.slots[at].has_copy)
            continue;
        const struct plan_node *op = &r->nodes[plan_version_of(r, at, 0)->maker];
        uint64_t bytes = op->workspace_bytes + r->storages[at].bytes;
        ops++;
        run->tally.work++;
        for (uint32_t i = 0; i < op->in_count; i++) {
            uint32_t in = r->ins[op->in_first + i].storage;
            bytes += r->storages[in].bytes;
            if (run->m.slots[in].state == MEM_RESIDENT || run->mark[in] == run->visit)
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
static uint32_t next_missing(struct run *run, const struct plan_node *op)
{
    uint32_t best = MEM_NONE, count = 0;
    for (uint32_t i = 0; i < op->in_count; i++) {
        struct plan_ref in = run->r->ins[op->in_first + i];
        if (!mem_has(&run->m, in.storage, in.version)) {
            count++;
            best = best == MEM_NONE ? in.storage : best;
        }
    }
    if (count <= 1)
        return best;
    int64_t top = INT64_MIN;
    for (uint32_t i = 0; i < op->in_count; i++) {
        struct plan_ref in = run->r->ins[op->in_first + i];
        if (mem_has(&run->m, in.storage, in.version))
            continue;
        int64_t excess = (int64_t)estimate(run, in.storage) - (int64_t)bytes_of(run, in.storage);
        if (excess > top) {
            top = excess;
            best = in.storage;
        }
    }
    return best;
}

/* ---- running one frame ----------------------------------------------------------------------- */

static enum ebb_status frame_push(struct run *run, uint32_t op, uint32_t target, bool is_remat,
                                  struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&run->frames, &run->frame_capacity, run->frame_count + 1, sizeof *run->frames,
                     err));
    run->frames[run->frame_count++] = (struct frame){op, target, 0, is_remat};
    return mem_wait(&run->m, op, err);
}

static bool wants_output(const struct run *run, const struct frame *frame, uint32_t s)
{
    const struct mem_slot *slot = &run->m.slots[s];
    if (slot->state == MEM_RESIDENT)
        return false; /* never rewritten */
    if (!frame->is_remat)
        return true;
    if (s == frame->target || (slot->waits && !slot->has_copy))
        return true;
    /* a sibling that will be used again is welcome if it costs nobody his place; not one that was
     * written in place since: version 0 would hide the newer one, and its copy */
    return slot->uses_left && slot->version == 0 && bytes_of(run, s) &&
           mem_slab_find(&run->m.slab[0], bytes_of(run, s), true) != MEM_NONE;
}

/* E1: outputs that are wanted get their bytes; *work those of workspace and scratch. */
static enum ebb_status reserve(struct run *run, const struct frame *frame, uint32_t *work,
                               struct ebb_error *err)
{
    const struct trace *t = run->p->trace;
    const struct trace_op *top = &t->ops[frame->op];
    const struct plan_node *op = &run->r->nodes[frame->op];
    uint64_t extra = op->workspace_bytes;
    for (uint32_t k = 0; k < top->output_count; k++) {
        const struct trace_tensor *out = trace_output_of(t, top, k);
        if (out->alias != TRACE_FRESH)
            continue;
        if (wants_output(run, frame, out->storage)) {
            run->is_produced[k] = 1;
            EBB_TRY(mem_place(&run->m, out->storage, err));
        } else if (!op->can_skip) {
            exec_scratch(run->p, out->storage, &extra);
        }
    }
    if (extra > 0) {
        EBB_TRY(mem_take(&run->m, extra, true, MEM_NONE - 1, work, err));
        EBB_TRY(exec_log_add(run->o->log,
                             (struct exec_event){EXEC_EV_WORK, 0, frame->op,
                                                 run->m.slab[0].segments[*work].offset,
                                                 run->tally.clock_ns},
                             err));
    }
    if (run->m.sum_bytes + extra > run->tally.sum_bytes)
        run->tally.sum_bytes = run->m.sum_bytes + extra;
    return EBB_OK;
}

static enum ebb_status execute(struct run *run, const struct frame *frame, uint32_t work,
                               struct ebb_error *err)
{
    const struct plan_node *op = &run->r->nodes[frame->op];
    struct exec_event event = {frame->is_remat ? EXEC_EV_RERUN : EXEC_EV_RUN, 0, frame->op, 0,
                               run->tally.clock_ns};
    EBB_TRY(exec_log_add(run->o->log, event, err));
    EBB_TRY(launch(run, frame, work, err));
    run->tally.clock_ns += op->cost;
    if (frame->is_remat) {
        run->tally.remat_ns += op->cost;
        run->tally.remat_ops++;
    }
    return EBB_OK;
}

static void pin_inputs(struct run *run, const struct plan_node *op, bool pins)
{
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t s = run->r->ins[op->in_first + i].storage;
        if (pins)
            mem_pin(&run->m, s);
        else
            mem_unpin(&run->m, s);
    }
}

static enum ebb_status run_frame(struct run *run, struct ebb_error *err)
{
    const struct frame frame = run->frames[run->frame_count - 1];
    const struct plan_node *op = &run->r->nodes[frame.op];
    const struct trace_op *top = &run->p->trace->ops[frame.op];
    uint32_t work = MEM_NONE;
    memset(run->is_produced, 0, top->output_count);
    pin_inputs(run, op, true);
    enum ebb_status status = reserve(run, &frame, &work, err);
    EBB_THEN(status, execute(run, &frame, work, err));
    if (work != MEM_NONE)
        mem_slab_give(&run->m.slab[0], work);
    EBB_THEN(status, mem_made(&run->m, op, frame.is_remat, err));
    /* unpin in any case, so that a failed run can be told apart from a leak */
    for (uint32_t k = 0; k < top->output_count; k++) {
        uint32_t s = trace_output_of(run->p->trace, top, k)->storage;
        if (run->is_produced[k] && run->m.slots[s].state == MEM_RESIDENT)
            mem_unpin(&run->m, s);
    }
    pin_inputs(run, op, false);
    return status;
}

static enum ebb_status frame_pop(struct run *run, struct ebb_error *err)
{
    const struct frame frame = run->frames[--run->frame_count];
    const struct plan_node *op = &run->r->nodes[frame.op];
    mem_wait_over(&run->m, !frame.is_remat);
    for (uint32_t i = 0; i < op->in_count; i++)
        EBB_TRY(mem_free_if_dead(&run->m, run->r->ins[op->in_first + i].storage, err));
    for (uint32_t k = 0; k < op->out_count; k++) {
        uint32_t s = run->r->outs[op->out_first + k].storage;
        if (s != frame.target)
            EBB_TRY(mem_free_if_dead(&run->m, s, err));
    }
    return EBB_OK;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Bring one missing input nearer: a copy comes back whole, otherwise the op that makes the next
 * version is pushed. */
static enum ebb_status bring(struct run *run, uint32_t s, struct ebb_error *err)
{
    const struct mem_slot *slot = &run->m.slots[s];
    if (slot->state != MEM_RESIDENT && slot->has_copy && mem_is_fetched(&run->m, s))
        return mem_fetch(&run->m, s, err);
    uint32_t next = slot->state == MEM_RESIDENT ? slot->version + 1 : 0;
    return frame_push(run, plan_version_of(run->r, s, next)->maker, s, true, err);
}

static enum ebb_status serve(struct run *run, size_t base, struct ebb_error *err)
{
    char *why = run->tally.why;
    while (run->frame_count > base) {
        struct frame *frame = &run->frames[run->frame_count - 1];
        const struct plan_node *op = &run->r->nodes[frame->op];
        uint32_t missing = next_missing(run, op);
        if (missing != MEM_NONE) {
            if (frame->tries++ > op->in_count + MAX_TRIES) {
                snprintf(
                    why, sizeof run->tally.why,
                    "op %u: its inputs do not fit together; the last one missing needs %llu bytes",
                    run->m.op, (unsigned long long)bytes_of(run, missing));
                return EBB_EBUDGET;
            }
            EBB_TRY(bring(run, missing, err));
            continue;
        }
        bool is_remat = frame->is_remat;
        EBB_TRY(run_frame(run, err));
        EBB_TRY(frame_pop(run, err));
        if (is_remat && run->tally.remat_ns > run->limit_ns) {
            snprintf(why, sizeof run->tally.why,
                     "op %u: recomputation reached %llu ns, limit %llu ns", run->m.op,
                     (unsigned long long)run->tally.remat_ns, (unsigned long long)run->limit_ns);
            return EBB_ELIMIT;
        }
        run->tally.work += A_RUN;
        if (run->o->work_limit && run->tally.work + run->m.neigh.work > run->o->work_limit) {
            snprintf(why, sizeof run->tally.why, "op %u: choosing what leaves takes too long",
                     run->m.op);
            return EBB_ELIMIT;
        }
    }
    return EBB_OK;
}

/* Make `s` resident at its newest version and keep it there. */
static enum ebb_status restore(struct run *run, uint32_t s, struct ebb_error *err)
{
    uint32_t version = run->m.slots[s].version;
    while (!mem_has(&run->m, s, version)) {
        size_t base = run->frame_count;
        EBB_TRY(bring(run, s, err));
        EBB_TRY(serve(run, base, err));
    }
    return EBB_OK;
}

static enum ebb_status run_model_op(struct run *run, uint32_t o, struct ebb_error *err)
{
    const struct plan_node *op = &run->r->nodes[o];
    run->m.op = run->m.done = o;
    run->tally.ops_done++;
    if (op->is_view)
        return EBB_OK;
    for (uint32_t i = 0; i < op->restore_count; i++) { /* E3 */
        uint32_t s = run->r->restores[op->restore_first + i].storage;
        if (!run->m.slots[s].has_copy)
            EBB_TRY(restore(run, s, err));
        mem_hold(&run->m, s);
    }
    EBB_TRY(frame_push(run, o, PLAN_NEVER, false, err));
    EBB_TRY(serve(run, 0, err));
    run->m.done = o + 1;
    for (uint32_t i = 0; i < op->end_count; i++)
        EBB_TRY(mem_free_if_dead(&run->m, run->r->ends[op->end_first + i], err));
    return mem_look_ahead(&run->m, err);
}

static enum ebb_status hand_over_one(const struct run *run, uint32_t tensor, struct ebb_error *err)
{
    struct device *device = run->o->device;
    const struct exec_io *io = run->o->io;
    uint32_t s = run->p->trace->tensors[tensor].storage;
    uint64_t bytes = run->p->trace->storages[s].bytes;
    if (!exec_is_hidden(device))
        return address_of(run, s) ? io->read(io->context, tensor, address_of(run, s), bytes, err)
                                  : EBB_OK;
    void *box = device->table->host_take(device, bytes);
    if (!box)
        return ebb_no_memory(err, (size_t)bytes);
    enum ebb_status status =
        device->table->read(device, DEVICE_COMPUTE, box, offset_of(run, s), bytes, err);
    EBB_THEN(status, device->table->sync(device, err));
    EBB_THEN(status, io->read(io->context, tensor, box, bytes, err));
    device->table->host_give(device, box);
    return status;
}

static enum ebb_status hand_over(const struct run *run, struct ebb_error *err)
{
    uint32_t at = run->p->trace->command_count, tensor;
    while (run->o->io && run->o->io->read && exec_next_result(run->p, &at, &tensor))
        EBB_TRY(hand_over_one(run, tensor, err));
    return EBB_OK;
}

static enum ebb_status run_all(struct run *run, struct ebb_error *err)
{
    struct device *device = run->o->device;
    for (uint32_t o = 0; o < run->r->node_count; o++)
        EBB_TRY(run_model_op(run, o, err));
    for (uint32_t s = 0; s < run->r->storage_count; s++) { /* the keep set is complete at the end */
        if (run->r->storages[s].is_kept && run->m.slots[s].state != MEM_RESIDENT)
            EBB_TRY(restore(run, s, err));
    }
    EBB_TRY(device->table->sync(device, err));
    return hand_over(run, err);
}

enum ebb_status exec_run_policy(const struct exec_program *p, const struct exec_options *o,
                                struct exec_report *report, struct ebb_error *err)
{
    struct run run;
    uint64_t begin = o->device->table->now_ns(o->device, DEVICE_COMPUTE);
    uint64_t stalled = o->device->table->stall_ns(o->device);
    enum ebb_status status = run_init(&run, p, o, err);
    EBB_THEN(status, run_all(&run, err));
    run.tally.peak_bytes = run.m.slab[0].peak_bytes;
    exec_report_tally(report, &run.tally);
    report->base_ns = p->recipes->base_cost;
    report->device_ns = o->device->table->now_ns(o->device, DEVICE_COMPUTE) - begin;
    report->stall_ns = o->device->table->stall_ns(o->device) - stalled;
    report->first_ns = run.first_ns;
    report->again_ns = run.again_ns;
    run_fini(&run);
    return status;
}
