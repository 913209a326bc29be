/* image.c - a plan proved once and bound to a device's memory, to be run many times.
 *
 * Everything that can be known before is worked out when the image is made: the proof, the report,
 * every pointer of every launch, the places of copies in the lower tiers. A run only goes through
 * the steps. Copies out are waited for when their bytes are given back, moved or written; copies in
 * when they are first read. */
#include "exec/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

struct image_step {
    uint8_t act, tier; /* PLAN_*; a SEND of a clean copy is left out */
    bool is_again;     /* RUN: a recomputation; DROP: it comes back */
    bool has_work;
    uint32_t index;
    uint32_t call;
    uint64_t offset;     /* in tier 0 */
    uint64_t low_offset; /* SEND, FETCH: in the lower tier; MOVE: where from */
};

struct exec_image {
    const struct exec_program *p;
    struct exec_options o; /* io and log are those of the run */
    struct device *device;
    struct image_step *steps;
    size_t step_count;
    struct trace_call *calls;
    uint32_t call_count;
    void **pointers; /* of all calls */
    size_t pointer_count;
    uint64_t *final_offset;           /* per storage, PLAN_NOWHERE when absent at the end */
    device_event *arriving, *leaving; /* per storage; NULL when nothing is copied between tiers */
    struct exec_report report;
};

/* ---- making ---------------------------------------------------------------------------------- */

struct maker {
    struct exec_image *image;
    const struct plan *plan;
    struct plan_walk walk;              /* what each step does to residency, versions and copies */
    struct mem_slab slab[DEVICE_TIERS]; /* lower tiers */
    uint32_t *places_left, *copy_segment[DEVICE_TIERS];
    uint64_t *offset; /* of each resident */
};

static uint64_t bytes_of(const struct exec_image *image, uint32_t storage)
{
    return image->p->recipes->storages[storage].bytes;
}

static void *address(const struct exec_image *image, uint64_t offset)
{
    return image->device->table->address(image->device, offset);
}

static uint64_t move_ns(const struct exec_options *o, uint64_t bytes)
{
    return (uint64_t)mem_copy_ns(&o->links.in[DEVICE_T0], bytes);
}

static void note_height(struct maker *m, uint64_t offset, uint64_t bytes)
{
    struct exec_report *r = &m->image->report;
    if (bytes && offset + bytes > r->peak_bytes)
        r->peak_bytes = offset + bytes;
}

/* Where output `tensor` of a RUN goes as things stand; scratch follows the workspace (rule P4). */
static void *output_address(const struct maker *m, const struct plan_step *from, uint32_t tensor,
                            uint64_t *extra)
{
    const struct exec_image *image = m->image;
    uint32_t s = image->p->trace->tensors[tensor].storage;
    if (bytes_of(image, s) == 0)
        return NULL;
    switch (plan_walk_fate(&m->walk, tensor)) {
    case PLAN_FILLED:
    case PLAN_WRITTEN:
        return address(image, m->offset[s]);
    case PLAN_SCRATCH:
        return address(image, from->offset + exec_scratch(image->p, s, extra));
    default:
        return NULL;
    }
}

static void make_run(struct maker *m, const struct plan_step *from, struct image_step *step)
{
    struct exec_image *image = m->image;
    const struct trace *t = image->p->trace;
    const struct trace_op *top = &t->ops[from->index];
    const struct plan_node *op = &image->p->recipes->nodes[from->index];
    void **in = image->pointers + image->pointer_count, **out = in + top->input_count;
    uint64_t extra = op->workspace_bytes;
    step->call = image->call_count++;
    image->pointer_count += (size_t)top->input_count + top->output_count;
    for (uint32_t i = 0; i < top->input_count; i++) {
        uint32_t s = t->tensors[t->inputs[top->input_first + i]].storage;
        in[i] = bytes_of(image, s) ? address(image, m->offset[s]) : NULL;
    }
    for (uint32_t k = 0; k < top->output_count; k++)
        out[k] = output_address(m, from, top->output_first + k, &extra);
    image->calls[step->call] = exec_call(image->p, &image->o, from->index, in,
                                         op->workspace_bytes ? address(image, from->offset) : NULL);
    step->has_work = extra > 0;
    step->is_again = m->walk.run_counts[from->index] > 0;
    struct exec_report *r = &image->report;
    r->clock_ns += op->cost;
    r->remat_ns += step->is_again ? op->cost : 0;
    r->remat_ops += step->is_again;
    note_height(m, from->offset, extra);
}

/* A place for the copy in a lower tier; *is_clean when the copy is there already. */
static enum ebb_status make_send(struct maker *m, struct image_step *step, bool *is_clean,
                                 struct ebb_error *err)
{
    uint32_t s = step->index, *segment = &m->copy_segment[step->tier][s];
    const struct plan_residence *r = &m->walk.storages[s];
    struct mem_slab *slab = &m->slab[step->tier];
    uint64_t bytes = bytes_of(m->image, s);
    *is_clean = bytes == 0 || r->copy[step->tier] == r->version + 1;
    if (*is_clean)
        return EBB_OK;
    if (*segment == MEM_NONE) {
        uint32_t hole = mem_slab_find(slab, bytes, false);
        if (hole == MEM_NONE)
            return ebb_fail(err, EBB_EBUDGET, "tier %d has no room for storage %u (%llu bytes)",
                            step->tier, s, (unsigned long long)bytes);
        EBB_TRY(mem_slab_take(slab, hole, bytes, false, s, segment, err));
    }
    step->low_offset = slab->segments[*segment].offset;
    m->image->report.swapped_bytes += bytes;
    return EBB_OK;
}

/* Addresses of a step as things stand before it; *is_clean: there is nothing to do. */
static enum ebb_status make_addresses(struct maker *m, const struct plan_step *from,
                                      struct image_step *step, bool *is_clean,
                                      struct ebb_error *err)
{
    struct exec_image *image = m->image;
    struct exec_report *r = &image->report;
    uint32_t s = from->index;
    uint64_t bytes = from->act == PLAN_RUN ? 0 : bytes_of(image, s);
    switch (from->act) {
    case PLAN_PLACE:
        m->places_left[s]--;
        m->offset[s] = from->offset;
        note_height(m, from->offset, bytes);
        return EBB_OK;
    case PLAN_RUN:
        make_run(m, from, step);
        return EBB_OK;
    case PLAN_DROP:
        step->is_again = m->places_left[s] > 0;
        r->evictions_pressure += step->is_again;
        r->evictions_release += !step->is_again;
        return EBB_OK;
    case PLAN_SEND:
        step->offset = m->offset[s];
        return make_send(m, step, is_clean, err);
    case PLAN_FETCH:
        step->offset = m->offset[s];
        if (bytes)
            step->low_offset = m->slab[from->tier].segments[m->copy_segment[from->tier][s]].offset;
        r->swapped_bytes += bytes;
        return EBB_OK;
    case PLAN_FORGET:
        if (bytes) {
            mem_slab_give(&m->slab[from->tier], m->copy_segment[from->tier][s]);
            m->copy_segment[from->tier][s] = MEM_NONE;
        }
        return EBB_OK;
    default: /* PLAN_MOVE */
        step->low_offset = m->offset[s];
        m->offset[s] = from->offset;
        r->moved_bytes += bytes;
        r->clock_ns += move_ns(&image->o, bytes);
        note_height(m, from->offset, bytes);
        return EBB_OK;
    }
}

static enum ebb_status make_step(struct maker *m, size_t at, struct ebb_error *err)
{
    struct exec_image *image = m->image;
    const struct plan_step *from = &m->plan->steps[at];
    struct image_step *step = &image->steps[image->step_count];
    bool is_clean = false;
    *step = (struct image_step){
        .act = from->act, .tier = from->tier, .index = from->index, .offset = from->offset};
    EBB_TRY(make_addresses(m, from, step, &is_clean, err));
    EBB_TRY(plan_walk_step(&m->walk, at, err));
    uint64_t sum = m->walk.resident_bytes + m->walk.extra_bytes;
    image->report.sum_bytes = sum > image->report.sum_bytes ? sum : image->report.sum_bytes;
    image->step_count += !is_clean;
    return EBB_OK;
}

static enum ebb_status maker_init(struct maker *m, struct ebb_error *err)
{
    const struct trace *t = m->image->p->trace;
    size_t n = (size_t)t->storage_count + 1;
    EBB_TRY(plan_walk_init(&m->walk, t, m->plan, err));
    m->places_left = ebb_calloc(n, sizeof *m->places_left);
    m->offset = ebb_calloc(n, sizeof *m->offset);
    if (!m->places_left || !m->offset)
        return ebb_no_memory(err, n * sizeof *m->offset);
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        m->copy_segment[k] = ebb_alloc(n * sizeof *m->copy_segment[k]);
        if (!m->copy_segment[k])
            return ebb_no_memory(err, n * sizeof *m->copy_segment[k]);
        memset(m->copy_segment[k], 0xff, n * sizeof *m->copy_segment[k]);
        EBB_TRY(mem_slab_init(&m->slab[k], m->image->o.tier_bytes[k], err));
    }
    for (size_t i = 0; i < m->plan->step_count; i++) {
        if (m->plan->steps[i].act == PLAN_PLACE) /* the index of a RUN is an op */
            m->places_left[m->plan->steps[i].index]++;
    }
    return EBB_OK;
}

static void maker_fini(struct maker *m)
{
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        ebb_free(m->copy_segment[k]);
        mem_slab_fini(&m->slab[k]);
    }
    plan_walk_fini(&m->walk);
    ebb_free(m->places_left);
    ebb_free(m->offset);
}

static enum ebb_status prove(const struct exec_program *p, const struct plan *plan,
                             const struct exec_options *o, struct ebb_error *err)
{
    const struct trace *t = p->trace;
    struct plan_report proof;
    struct plan_limits limits = {
        .budget_bytes = {o->budget_bytes, o->tier_bytes[1], o->tier_bytes[2]}};
    if (memcmp(&plan->signature, &t->signature, sizeof plan->signature) != 0)
        return ebb_fail(err, EBB_EINPUT, "plan by %s was made for another trace than %s",
                        plan->planner, t->name);
    EBB_TRY(plan_check(t, plan, &limits, &proof, err));
    if (proof.height_bytes == 0 && proof.peak_bytes > 0)
        return ebb_fail(err, EBB_EINPUT, "plan by %s has no addresses yet", plan->planner);
    return EBB_OK;
}

/* Room for every step, call and pointer. */
static enum ebb_status image_allocate(struct exec_image *image, const struct plan *plan,
                                      struct ebb_error *err)
{
    const struct trace *t = image->p->trace;
    size_t pointers = 0, calls = 0, n = (size_t)t->storage_count + 1;
    bool has_copies = false;
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        has_copies |= step->act == PLAN_SEND || step->act == PLAN_FETCH;
        if (step->act != PLAN_RUN)
            continue;
        calls++;
        pointers += (size_t)t->ops[step->index].input_count + t->ops[step->index].output_count;
    }
    image->steps = ebb_calloc(plan->step_count + 1, sizeof *image->steps);
    image->calls = ebb_calloc(calls + 1, sizeof *image->calls);
    image->pointers = ebb_calloc(pointers + 1, sizeof *image->pointers);
    image->final_offset = ebb_alloc(n * sizeof *image->final_offset);
    if (has_copies) {
        image->arriving = ebb_calloc(n, sizeof *image->arriving);
        image->leaving = ebb_calloc(n, sizeof *image->leaving);
    }
    if (!image->steps || !image->calls || !image->pointers || !image->final_offset ||
        (has_copies && (!image->arriving || !image->leaving)))
        return ebb_no_memory(err, plan->step_count * sizeof *image->steps);
    return EBB_OK;
}

enum ebb_status exec_image_create(struct exec_image **image, const struct exec_program *p,
                                  const struct plan *plan, const struct exec_options *options,
                                  struct ebb_error *err)
{
    EBB_TRY(exec_needs_ebb(p, err));
    EBB_TRY(prove(p, plan, options, err));
    struct exec_image *i = ebb_calloc(1, sizeof *i);
    if (!i)
        return ebb_no_memory(err, sizeof *i);
    *i = (struct exec_image){.p = p, .o = *options, .device = options->device};
    i->report = (struct exec_report){.budget_bytes = options->budget_bytes,
                                     .evict_hash = EBB_FNV1A_INIT,
                                     .base_ns = p->recipes->base_cost,
                                     .ops_done = p->trace->op_count};
    struct maker m = {.image = i, .plan = plan};
    enum ebb_status status = image_allocate(i, plan, err);
    if (status == EBB_OK)
        status = maker_init(&m, err);
    for (size_t k = 0; k < plan->step_count && status == EBB_OK; k++)
        status = make_step(&m, k, err);
    for (uint32_t s = 0; s < p->trace->storage_count && status == EBB_OK; s++)
        i->final_offset[s] =
            m.walk.storages[s].is_placed && bytes_of(i, s) ? m.offset[s] : PLAN_NOWHERE;
    maker_fini(&m);
    if (status != EBB_OK) {
        exec_image_destroy(i);
        return status;
    }
    *image = i;
    return EBB_OK;
}

void exec_image_destroy(struct exec_image *image)
{
    if (!image)
        return;
    ebb_free(image->steps);
    ebb_free(image->calls);
    ebb_free(image->pointers);
    ebb_free(image->final_offset);
    ebb_free(image->arriving);
    ebb_free(image->leaving);
    ebb_free(image);
}

/* ---- running --------------------------------------------------------------------------------- */

/* The compute stream goes on behind the copy, if one is under way. */
static enum ebb_status await(struct exec_image *image, device_event *events, uint32_t s,
                             struct ebb_error *err)
{
    device_event event = events ? events[s] : 0;
    if (!event)
        return EBB_OK;
    events[s] = 0;
    return image->device->table->stream_wait(image->device, DEVICE_COMPUTE, event, err);
}

static enum ebb_status await_both(struct exec_image *image, uint32_t s, struct ebb_error *err)
{
    EBB_TRY(await(image, image->arriving, s, err));
    return await(image, image->leaving, s, err);
}

static enum ebb_status run_call(struct exec_image *image, const struct image_step *step,
                                struct ebb_error *err)
{
    const struct plan_recipes *r = image->p->recipes;
    const struct plan_node *op = &r->nodes[step->index];
    for (uint32_t i = 0; image->arriving && i < op->in_count; i++)
        EBB_TRY(await(image, image->arriving, r->ins[op->in_first + i].storage, err));
    for (uint32_t k = 0; image->leaving && k < op->out_count; k++) /* written in place */
        EBB_TRY(await(image, image->leaving, r->outs[op->out_first + k].storage, err));
    return exec_launch_op(image->p, &image->o, image->device, step->index,
                          &image->calls[step->call], err);
}

/* Between tiers, behind what the compute stream has done so far. */
static enum ebb_status run_copy(struct exec_image *image, const struct image_step *step,
                                struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    uint32_t s = step->index;
    uint64_t bytes = bytes_of(image, s);
    bool is_out = step->act == PLAN_SEND;
    enum device_stream stream = is_out ? DEVICE_OUT : DEVICE_IN;
    enum device_tier low = (enum device_tier)step->tier;
    device_event before, *after = is_out ? &image->leaving[s] : &image->arriving[s];
    if (bytes == 0)
        return EBB_OK;
    if (is_out)
        EBB_TRY(await(image, image->arriving, s, err));
    EBB_TRY(d->record(image->device, DEVICE_COMPUTE, &before, err));
    EBB_TRY(d->stream_wait(image->device, stream, before, err));
    if (is_out) {
        EBB_TRY(d->copy(image->device, stream, low, step->low_offset, DEVICE_T0, step->offset,
                        bytes, err));
    } else {
        EBB_TRY(d->copy(image->device, stream, DEVICE_T0, step->offset, low, step->low_offset,
                        bytes, err));
    }
    return d->record(image->device, stream, after, err);
}

struct image_run {
    struct exec_log *log;
    uint64_t clock;
};

static enum ebb_status note(struct image_run *run, enum exec_event_kind kind,
                            const struct image_step *step, uint64_t offset, struct ebb_error *err)
{
    return exec_log_add(
        run->log, (struct exec_event){(uint8_t)kind, step->tier, step->index, offset, run->clock},
        err);
}

static enum ebb_status run_step(struct exec_image *image, struct image_run *run,
                                const struct image_step *step, struct ebb_error *err)
{
    uint32_t s = step->index;
    switch (step->act) {
    case PLAN_PLACE:
        return note(run, EXEC_EV_PLACE, step, step->offset, err);
    case PLAN_RUN:
        if (step->has_work)
            EBB_TRY(note(run, EXEC_EV_WORK, step, step->offset, err));
        EBB_TRY(note(run, step->is_again ? EXEC_EV_RERUN : EXEC_EV_RUN, step, 0, err));
        run->clock += image->p->recipes->nodes[s].cost;
        return run_call(image, step, err);
    case PLAN_DROP:
        EBB_TRY(await_both(image, s, err));
        return note(run, step->is_again ? EXEC_EV_DROP : EXEC_EV_FREE, step, 0, err);
    case PLAN_SEND:
        EBB_TRY(run_copy(image, step, err));
        return note(run, EXEC_EV_SEND, step, step->low_offset, err);
    case PLAN_FETCH:
        EBB_TRY(run_copy(image, step, err));
        return note(run, EXEC_EV_FETCH, step, 0, err);
    case PLAN_FORGET: /* nobody writes over a copy that is still being read (D4) */
        if (image->arriving && image->arriving[s])
            EBB_TRY(image->device->table->stream_wait(image->device, DEVICE_OUT, image->arriving[s],
                                                      err));
        return note(run, EXEC_EV_FORGET, step, 0, err);
    default: /* PLAN_MOVE */
        EBB_TRY(await_both(image, s, err));
        EBB_TRY(image->device->table->copy(image->device, DEVICE_COMPUTE, DEVICE_T0, step->offset,
                                           DEVICE_T0, step->low_offset, bytes_of(image, s), err));
        run->clock += move_ns(&image->o, bytes_of(image, s));
        return note(run, EXEC_EV_MOVE, step, step->offset, err);
    }
}

static void *final_address(void *context, uint32_t s)
{
    const struct exec_image *image = context;
    return image->final_offset[s] == PLAN_NOWHERE ? NULL : address(image, image->final_offset[s]);
}

enum ebb_status exec_image_run(struct exec_image *image, const struct exec_io *io,
                               struct exec_log *log, struct exec_report *report,
                               struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    uint64_t begin = d->now_ns(image->device, DEVICE_COMPUTE);
    struct image_run run = {.log = log};
    image->o.io = io;
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < image->step_count && status == EBB_OK; i++)
        status = run_step(image, &run, &image->steps[i], err);
    enum ebb_status synced = d->sync(image->device, status == EBB_OK ? err : NULL);
    status = status == EBB_OK ? synced : status;
    if (status == EBB_OK)
        status = exec_hand_over(image->p, &image->o, final_address, image, err);
    *report = image->report;
    report->device_ns = d->now_ns(image->device, DEVICE_COMPUTE) - begin;
    return status;
}
