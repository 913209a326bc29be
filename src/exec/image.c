/* image.c - a plan proved once and bound to a device's memory, to be run many times: the making.
 *
 * Everything that can be known before is worked out here: the proof, the report, every pointer of
 * every launch, what every step waits for. */
#include "exec/image.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

struct maker {
    struct exec_image *image;
    const struct plan *plan;
    struct plan_walk walk; /* what each step does to residency, versions and copies */
    struct exec_waits waits;
    uint32_t *places_left;
    uint64_t *offset;            /* of each resident */
    uint64_t *low[DEVICE_TIERS]; /* of each copy in a lower tier */
};

static void *address(const struct exec_image *image, uint64_t offset)
{
    return image->device->table->address(image->device, offset);
}

static void note_height(struct maker *m, uint64_t offset, uint64_t bytes)
{
    struct exec_report *r = &m->image->report;
    if (bytes && offset + bytes > r->peak_bytes)
        r->peak_bytes = offset + bytes;
}

/* Where output `tensor` of a RUN goes as things stand; scratch follows the workspace (rule P4). */
static void *output_address(struct maker *m, const struct plan_step *from, uint32_t tensor,
                            uint64_t *extra)
{
    const struct exec_image *image = m->image;
    uint32_t s = image->p->trace->tensors[tensor].storage;
    if (exec_image_bytes(image, s) == 0)
        return NULL;
    switch (plan_walk_fate(&m->walk, tensor, 0)) {
    case PLAN_FILLED:
    case PLAN_WRITTEN:
        exec_waits_touch(&m->waits, m->offset[s], exec_image_bytes(image, s), true);
        return address(image, m->offset[s]);
    case PLAN_SCRATCH:
        return address(image, from->offset + exec_scratch(image->p, s, extra));
    default:
        return NULL;
    }
}

/* A leaf that the host fills: its place in the inbox. */
static void make_leaf(struct maker *m, const struct trace_op *top, struct image_step *step)
{
    struct exec_image *image = m->image;
    uint64_t bytes = exec_leaf_bytes(image->p, step->index);
    if (!exec_is_hidden(image->device) || !bytes)
        return;
    step->offset = m->offset[trace_output_of(image->p->trace, top, 0)->storage];
    step->low_offset = image->inbox_bytes;
    step->box = image->box_count++;
    step->is_boxed = true;
    image->inbox_bytes += plan_round(bytes);
}

static void make_run(struct maker *m, const struct plan_step *from, struct image_step *step)
{
    struct exec_image *image = m->image;
    const struct trace *t = image->p->trace;
    const struct trace_op *top = &t->ops[from->index];
    const struct plan_node *op = &image->p->recipes->nodes[from->index];
    void **in = image->pointers + image->pointer_count, **out = in + top->input_count;
    uint64_t extra = op->workspace_bytes;
    step->launch = image->launch_count++;
    image->pointer_count += (size_t)top->input_count + top->output_count;
    for (uint32_t i = 0; i < top->input_count; i++) {
        uint32_t s = t->tensors[t->inputs[top->input_first + i]].storage;
        in[i] = exec_image_bytes(image, s) ? address(image, m->offset[s]) : NULL;
        exec_waits_touch(&m->waits, m->offset[s], exec_image_bytes(image, s), false);
    }
    for (uint32_t k = 0; k < top->output_count; k++)
        out[k] = output_address(m, from, top->output_first + k, &extra);
    exec_waits_touch(&m->waits, from->offset, extra, true);
    struct trace_call call = exec_call(image->p, &image->o, from->index, in,
                                       op->workspace_bytes ? address(image, from->offset) : NULL);
    image->launches[step->launch] = exec_launch_make(image->p, &image->o, &call);
    step->has_work = extra > 0;
    if (top->is_leaf && plan_walk_fate(&m->walk, top->output_first, 0) == PLAN_FILLED)
        make_leaf(m, top, step);
    else if (top->is_leaf) /* nobody wants it: there is no place for it */
        image->launches[step->launch].work = NULL;
    step->is_again = m->walk.run_counts[from->index] > 0;
    struct exec_report *r = &image->report;
    r->clock_ns += op->cost;
    r->remat_ns += step->is_again ? op->cost : 0;
    r->remat_ops += step->is_again;
    note_height(m, from->offset, extra);
}

/* The host runs it where copies lie. */
static enum ebb_status make_below(struct maker *m, const struct plan_step *from,
                                  struct image_step *step, struct ebb_error *err)
{
    struct exec_image *image = m->image;
    const struct device_table *d = image->device->table;
    const struct trace *t = image->p->trace;
    const struct trace_op *top = &t->ops[from->index];
    void **in = image->pointers + image->pointer_count, **out = in + top->input_count;
    if (!d->launch_below || (!d->is_clock && !image->o.below_context))
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "plan by %s runs ops on the host, device %s does not", m->plan->planner,
                        d->name);
    step->launch = image->launch_count++;
    image->pointer_count += (size_t)top->input_count + top->output_count;
    for (uint32_t i = 0; i < top->input_count + top->output_count; i++) {
        bool is_out = i >= top->input_count;
        uint32_t tensor =
            is_out ? top->output_first + (i - top->input_count) : t->inputs[top->input_first + i];
        uint32_t s = t->tensors[tensor].storage;
        bool is_made = !is_out || plan_walk_fate(&m->walk, tensor, PLAN_HOST) != PLAN_LEFT_OUT;
        uint64_t bytes = is_made ? exec_image_bytes(image, s) : 0;
        (is_out ? out - top->input_count : in)[i] =
            bytes ? d->below(image->device, m->low[DEVICE_HOST][s]) : NULL;
        EBB_TRY(exec_waits_touch_below(&m->waits, m->low[DEVICE_HOST][s], bytes, is_out, err));
    }
    uint64_t extra = image->p->recipes->nodes[from->index].workspace_bytes;
    step->has_work = extra > 0;
    EBB_TRY(exec_waits_touch_below(&m->waits, from->offset, extra, true, err));
    struct trace_call call = exec_call(image->p, &image->o, from->index, in,
                                       extra ? d->below(image->device, from->offset) : NULL);
    call.context = image->o.below_context;
    image->launches[step->launch] = exec_launch_make(image->p, &image->o, &call);
    step->is_again = m->walk.run_counts[from->index] > 0;
    step->copy = m->waits.copies;
    image->report.host_ops++;
    return exec_waits_below(&m->waits, &step->waits, err);
}

/* *is_clean when the copy is there already. */
static void make_send(struct maker *m, struct image_step *step, uint64_t to, bool *is_clean)
{
    uint32_t s = step->index;
    const struct plan_residence *r = &m->walk.storages[s];
    uint64_t bytes = exec_image_bytes(m->image, s);
    m->low[step->tier][s] = to;
    *is_clean = bytes == 0 || r->copy[step->tier] == r->version + 1;
    step->low_offset = to;
    m->image->report.swapped_bytes += *is_clean ? 0 : bytes;
}

/* Addresses of a step as things stand before it; *is_clean: there is nothing to do. */
static enum ebb_status make_addresses(struct maker *m, const struct plan_step *from,
                                      struct image_step *step, bool *is_clean,
                                      struct ebb_error *err)
{
    struct exec_image *image = m->image;
    struct exec_report *r = &image->report;
    uint32_t s = from->index;
    uint64_t bytes = from->act == PLAN_RUN ? 0 : exec_image_bytes(image, s);
    switch (from->act) {
    case PLAN_PLACE:
        m->places_left[s]--;
        m->offset[s] = from->offset;
        note_height(m, from->offset, bytes);
        return EBB_OK;
    case PLAN_RUN:
        if (from->tier)
            return make_below(m, from, step, err);
        make_run(m, from, step);
        return EBB_OK;
    case PLAN_DROP:
        step->is_again = m->places_left[s] > 0;
        r->evictions_pressure += step->is_again;
        r->evictions_release += !step->is_again;
        return EBB_OK;
    case PLAN_SEND:
        step->offset = m->offset[s];
        make_send(m, step, from->offset, is_clean);
        return EBB_OK;
    case PLAN_FETCH:
        step->offset = m->offset[s];
        step->low_offset = m->low[from->tier][s];
        r->swapped_bytes += bytes;
        return EBB_OK;
    case PLAN_FORGET:
        return EBB_OK;
    case PLAN_ROOM:
        m->low[from->tier][s] = from->offset;
        return EBB_OK;
    default: /* PLAN_MOVE */
        step->low_offset = m->offset[s];
        exec_waits_touch(&m->waits, m->offset[s], bytes, false);
        exec_waits_touch(&m->waits, from->offset, bytes, true);
        m->offset[s] = from->offset;
        r->moved_bytes += bytes;
        r->clock_ns += exec_move_ns(image, bytes);
        note_height(m, from->offset, bytes);
        return EBB_OK;
    }
}

/* What the step follows (waits.c). */
static enum ebb_status make_waits(struct maker *m, struct image_step *step, struct ebb_error *err)
{
    bool is_copy = step->act == PLAN_SEND || step->act == PLAN_FETCH;
    if (step->act == PLAN_RUN && step->tier) /* has them already */
        return EBB_OK;
    if (step->act == PLAN_RUN || step->act == PLAN_MOVE)
        return exec_waits_compute(&m->waits, &step->waits, err);
    if (!is_copy || !exec_image_bytes(m->image, step->index))
        return EBB_OK;
    step->copy = m->waits.copies;
    return exec_waits_copy(&m->waits, (enum device_tier)step->tier, step->act == PLAN_SEND,
                           step->offset, step->low_offset, exec_image_bytes(m->image, step->index),
                           &step->waits, err);
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
    if (!is_clean)
        EBB_TRY(make_waits(m, step, err));
    uint64_t sum = m->walk.resident_bytes + m->walk.extra_bytes;
    image->report.sum_bytes = sum > image->report.sum_bytes ? sum : image->report.sum_bytes;
    image->step_count += !is_clean;
    image->node_count += !is_clean && (from->act == PLAN_RUN || from->act == PLAN_MOVE ||
                                       from->act == PLAN_SEND || from->act == PLAN_FETCH);
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
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        EBB_TRY(ebb_new(&m->low[k], n, sizeof *m->low[k], err));
    for (size_t i = 0; i < m->plan->homes.count; i++) {
        const struct plan_home *h = &m->plan->homes.list[i];
        m->low[h->tier][h->storage] = h->offset;
    }
    for (size_t i = 0; i < m->plan->step_count; i++) {
        if (m->plan->steps[i].act == PLAN_PLACE) /* the index of a RUN is an op */
            m->places_left[m->plan->steps[i].index]++;
    }
    return EBB_OK;
}

static void maker_fini(struct maker *m)
{
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        ebb_free(m->low[k]);
    exec_waits_fini(&m->waits);
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
    if (plan->exact_bytes)
        return ebb_fail(err, EBB_EINPUT,
                        "plan by %s counts exact bytes, as plans of graph files do: it can be "
                        "proved and shown, not run",
                        plan->planner);
    EBB_TRY(plan_check(t, plan, &limits, &proof, err));
    if (proof.height_bytes == 0 && proof.peak_bytes > 0)
        return ebb_fail(err, EBB_EINPUT,
                        "plan by %s has no addresses, so it cannot run here: make it without "
                        "--no-addresses",
                        plan->planner);
    return EBB_OK;
}

/* Room for every step, launch and pointer. */
static enum ebb_status image_allocate(struct exec_image *image, const struct plan *plan,
                                      struct ebb_error *err)
{
    const struct trace *t = image->p->trace;
    size_t pointers = 0, launches = 0, copies = 0;
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        copies += step->act == PLAN_SEND || step->act == PLAN_FETCH;
        if (step->act != PLAN_RUN)
            continue;
        launches++;
        copies += step->tier > 0; /* awaited like one */
        pointers += (size_t)t->ops[step->index].input_count + t->ops[step->index].output_count;
    }
    EBB_TRY(ebb_new(&image->steps, plan->step_count + 1, sizeof *image->steps, err));
    EBB_TRY(ebb_new(&image->launches, launches + 1, sizeof *image->launches, err));
    EBB_TRY(ebb_new(&image->pointers, pointers + 1, sizeof *image->pointers, err));
    EBB_TRY(ebb_new(&image->events, copies + 1, sizeof *image->events, err));
    EBB_TRY(ebb_new(&image->is_awaited, copies + 1, sizeof *image->is_awaited, err));
    return ebb_new(&image->final_offset, (size_t)t->storage_count + 1, sizeof *image->final_offset,
                   err);
}

/* Places for leaves and results in memory that host and device share. */
static enum ebb_status take_boxes(struct exec_image *image, struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    uint32_t at = image->p->trace->command_count, tensor;
    if (!exec_is_hidden(image->device))
        return EBB_OK;
    while (exec_next_result(image->p, &at, &tensor))
        image->outbox_bytes +=
            plan_round(exec_image_bytes(image, image->p->trace->tensors[tensor].storage));
    size_t boxes = image->box_count + 1;
    EBB_TRY(ebb_new(&image->sources, boxes, sizeof *image->sources, err));
    for (int k = 0; k < IMAGE_GRAPHS; k++)
        EBB_TRY(ebb_new(&image->graphs[k].sources, boxes, sizeof *image->graphs[k].sources, err));
    image->inbox = d->host_take(image->device, image->inbox_bytes + PLAN_UNIT);
    image->outbox = d->host_take(image->device, image->outbox_bytes + PLAN_UNIT);
    return image->inbox && image->outbox
               ? EBB_OK
               : ebb_fail(err, EBB_ENOMEM,
                          "%s: no host memory for %llu bytes of inputs and results", d->name,
                          (unsigned long long)(image->inbox_bytes + image->outbox_bytes));
}

/* The waits that were found move to the image; what is waited for is recorded. */
static enum ebb_status keep_waits(struct maker *m, struct ebb_error *err)
{
    struct exec_image *image = m->image;
    EBB_TRY(exec_waits_end(&m->waits, &image->end, err));
    image->waits = m->waits.list;
    m->waits.list = NULL;
    for (uint32_t i = 0; i < m->waits.count; i++)
        image->is_awaited[image->waits[i]] = true;
    return EBB_OK;
}

static enum ebb_status bind(struct exec_image **image, const struct exec_program *p,
                            const struct plan *plan, const struct exec_options *options,
                            struct ebb_error *err)
{
    EBB_TRY(prove(p, plan, options, err));
    struct exec_image *i;
    EBB_TRY(ebb_new(&i, 1, sizeof *i, err));
    *i = (struct exec_image){.p = p, .o = *options, .device = options->device};
    i->report = (struct exec_report){.budget_bytes = options->budget_bytes,
                                     .evict_hash = EBB_FNV1A_INIT,
                                     .base_ns = p->recipes->base_cost,
                                     .ops_done = p->trace->op_count};
    struct maker m = {.image = i, .plan = plan};
    enum ebb_status status = image_allocate(i, plan, err);
    EBB_THEN(status, maker_init(&m, err));
    for (size_t k = 0; k < plan->step_count && status == EBB_OK; k++)
        status = make_step(&m, k, err);
    for (uint32_t s = 0; s < p->trace->storage_count && status == EBB_OK; s++)
        i->final_offset[s] =
            m.walk.storages[s].is_placed && exec_image_bytes(i, s) ? m.offset[s] : PLAN_NOWHERE;
    EBB_THEN(status, keep_waits(&m, err));
    EBB_THEN(status, take_boxes(i, err));
    maker_fini(&m);
    i->graph_most = IMAGE_GRAPHS; /* nodes that are counted here are the fewest that there can be */
    uint64_t most = i->device->table->most_nodes;
    while (most && i->graph_most > 0 && (uint64_t)i->graph_most * i->node_count > most)
        i->graph_most--;
    return EBB_HAND_OUT(status, image, i, exec_image_destroy);
}

/* Copies of older plans have no addresses in the lower tiers. */
enum ebb_status exec_image_create(struct exec_image **image, const struct exec_program *p,
                                  const struct plan *plan, const struct exec_options *options,
                                  struct ebb_error *err)
{
    struct plan placed = {0};
    EBB_TRY(exec_needs_ebb(p, err));
    if (!plan_lacks_low(plan))
        return bind(image, p, plan, options, err);
    enum ebb_status status = plan_copy(&placed, plan, err);
    EBB_THEN(status, plan_assign_low(p->trace, &placed, options->tier_bytes, err));
    EBB_THEN(status, bind(image, p, &placed, options, err));
    plan_fini(&placed);
    return status;
}

void exec_image_destroy(struct exec_image *image)
{
    if (!image)
        return;
    ebb_free(image->steps);
    const struct device_table *d = image->device->table;
    exec_image_forget(image);
    for (int k = 0; k < IMAGE_GRAPHS; k++)
        ebb_free(image->graphs[k].sources);
    ebb_free(image->sources);
    if (image->inbox)
        d->host_give(image->device, image->inbox);
    if (image->outbox)
        d->host_give(image->device, image->outbox);
    ebb_free(image->launches);
    ebb_free(image->pointers);
    ebb_free(image->final_offset);
    ebb_free(image->events);
    ebb_free(image->is_awaited);
    ebb_free(image->waits);
    ebb_free(image);
}
