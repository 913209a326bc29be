/* image_run.c - a bound plan run: every step in order, nothing left to decide.
 *
 * On a device that can capture, the first run enqueues step by step (libraries load what they need),
 * the second is captured, and from then on a run is one launch of the graph (of one of two, where
 * leaves are lent from two places in turn). Where the device has no room for two, leaves lie in one
 * place; where it has none for one, every run enqueues step by step. Leaves are filled before
 * and results read behind it, through memory that host and device share. */
#include "exec/image.h"

#include <stdatomic.h>
#include <string.h>

static enum ebb_status follow(struct exec_image *image, enum device_stream stream,
                              const struct exec_waits_of *w, struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    for (uint32_t i = 0; i < w->count; i++)
        EBB_TRY(
            d->stream_wait(image->device, stream, image->events[image->waits[w->first + i]], err));
    if (!w->follows_compute)
        return EBB_OK;
    device_event before;
    EBB_TRY(d->record(image->device, DEVICE_COMPUTE, &before, err));
    return d->stream_wait(image->device, stream, before, err);
}

static enum ebb_status run_copy(struct exec_image *image, const struct image_step *step,
                                struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    uint64_t bytes = exec_image_bytes(image, step->index);
    bool is_out = step->act == PLAN_SEND;
    enum device_tier low = (enum device_tier)step->tier;
    enum device_stream stream = device_copy_stream(low, is_out);
    if (bytes == 0)
        return EBB_OK;
    EBB_TRY(follow(image, stream, &step->waits, err));
    EBB_TRY(d->copy(image->device, stream, is_out ? low : DEVICE_T0,
                    is_out ? step->low_offset : step->offset, is_out ? DEVICE_T0 : low,
                    is_out ? step->offset : step->low_offset, bytes, err));
    return image->is_awaited[step->copy]
               ? d->record(image->device, stream, &image->events[step->copy], err)
               : EBB_OK;
}

static enum ebb_status run_below(struct exec_image *image, const struct image_step *step,
                                 struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    struct exec_launch *l = &image->launches[step->launch];
    EBB_TRY(follow(image, DEVICE_BELOW, &step->waits, err));
    EBB_TRY(d->launch_below(image->device, l->work, l, l->cost_ns, err));
    return image->is_awaited[step->copy]
               ? d->record(image->device, DEVICE_BELOW, &image->events[step->copy], err)
               : EBB_OK;
}

static enum ebb_status run_op(struct exec_image *image, const struct image_step *step,
                              struct ebb_error *err)
{
    return exec_launch_op(&image->launches[step->launch], image->device, err);
}

static enum ebb_status run_move(struct exec_image *image, const struct image_step *step,
                                struct ebb_error *err)
{
    return image->device->table->copy(image->device, DEVICE_COMPUTE, DEVICE_T0, step->offset,
                                      DEVICE_T0, step->low_offset,
                                      exec_image_bytes(image, step->index), err);
}

/* By the device's clock, where it has one; copies that are under way are waited for first. */
static enum ebb_status time_step(struct exec_image *image, const struct image_step *step,
                                 uint64_t *ns, struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    if (!d->is_host_visible)
        EBB_TRY(d->sync(image->device, err));
    uint64_t begin = d->now_ns(image->device, DEVICE_COMPUTE);
    if (d->time_begin)
        EBB_TRY(d->time_begin(image->device, err));
    EBB_TRY(step->act == PLAN_MOVE ? run_move(image, step, err) : run_op(image, step, err));
    if (d->time_begin)
        return d->time_end(image->device, ns, err);
    if (!d->is_host_visible)
        EBB_TRY(d->sync(image->device, err));
    *ns = d->now_ns(image->device, DEVICE_COMPUTE) - begin;
    return EBB_OK;
}

static enum ebb_status run_timed(struct exec_image *image, const struct image_step *step,
                                 struct ebb_error *err)
{
    const struct exec_io *io = image->o.io;
    uint64_t ns;
    EBB_TRY(time_step(image, step, &ns, err));
    if (step->act == PLAN_MOVE)
        image->move_ns += ns;
    else
        exec_took(image->p, io, step->index, ns,
                  step->is_again ? &image->again_ns : &image->first_ns);
    return EBB_OK;
}

static enum ebb_status run_step(struct exec_image *image, const struct image_step *step,
                                struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    switch (step->act) {
    case PLAN_RUN:
        if (step->tier)
            return run_below(image, step, err);
        if (image->o.io && image->o.io->now)
            atomic_store_explicit(image->o.io->now, step->index, memory_order_relaxed);
        EBB_TRY(follow(image, DEVICE_COMPUTE, &step->waits, err));
        if (step->is_boxed)
            return d->write(image->device, DEVICE_COMPUTE, step->offset, image->sources[step->box],
                            exec_leaf_bytes(image->p, step->index), err);
        return image->is_timed ? run_timed(image, step, err) : run_op(image, step, err);
    case PLAN_SEND:
    case PLAN_FETCH:
        return run_copy(image, step, err);
    case PLAN_MOVE:
        EBB_TRY(follow(image, DEVICE_COMPUTE, &step->waits, err));
        return image->is_timed ? run_timed(image, step, err) : run_move(image, step, err);
    default: /* bytes change hands: whoever touches them next waits */
        return EBB_OK;
    }
}

/* ---- the log: a function of the steps --------------------------------------------------------- */

static enum ebb_status note(struct exec_log *log, enum exec_event_kind kind,
                            const struct image_step *step, uint64_t offset, uint64_t clock,
                            struct ebb_error *err)
{
    return exec_log_add(
        log, (struct exec_event){(uint8_t)kind, step->tier, step->index, offset, clock}, err);
}

static enum ebb_status note_step(const struct exec_image *image, struct exec_log *log,
                                 const struct image_step *step, uint64_t *clock,
                                 struct ebb_error *err)
{
    switch (step->act) {
    case PLAN_PLACE:
        return note(log, EXEC_EV_PLACE, step, step->offset, *clock, err);
    case PLAN_RUN:
        if (step->has_work)
            EBB_TRY(note(log, EXEC_EV_WORK, step, step->offset, *clock, err));
        EBB_TRY(note(log, step->is_again ? EXEC_EV_RERUN : EXEC_EV_RUN, step, 0, *clock, err));
        *clock += step->tier ? 0 : image->p->recipes->nodes[step->index].cost;
        return EBB_OK;
    case PLAN_DROP:
        return note(log, step->is_again ? EXEC_EV_DROP : EXEC_EV_FREE, step, 0, *clock, err);
    case PLAN_SEND:
        return note(log, EXEC_EV_SEND, step, step->low_offset, *clock, err);
    case PLAN_FETCH:
        return note(log, EXEC_EV_FETCH, step, 0, *clock, err);
    case PLAN_FORGET:
        return note(log, EXEC_EV_FORGET, step, 0, *clock, err);
    case PLAN_ROOM:
        return note(log, EXEC_EV_ROOM, step, step->offset, *clock, err);
    default: /* PLAN_MOVE */
        *clock += exec_move_ns(image, exec_image_bytes(image, step->index));
        return note(log, EXEC_EV_MOVE, step, step->offset, *clock, err);
    }
}

/* ---- what goes in and comes out --------------------------------------------------------------- */

/* Leaves that lie in two places in turn make two graphs: not where there is room for one alone. */
static bool is_lent(const struct exec_image *image)
{
    return image->o.io && image->o.io->lend && image->graph_most != 1;
}

static enum ebb_status fill_inbox(struct exec_image *image, struct ebb_error *err)
{
    for (size_t i = 0; i < image->step_count && image->inbox_bytes; i++) {
        const struct image_step *step = &image->steps[i];
        if (!step->is_boxed)
            continue;
        const struct exec_io *io = image->o.io;
        uint32_t tensor = image->p->trace->ops[step->index].output_first;
        uint64_t bytes = exec_leaf_bytes(image->p, step->index);
        const void **source = &image->sources[step->box];
        *source = is_lent(image) ? io->lend(io->context, tensor, bytes) : NULL;
        if (*source)
            continue;
        *source = image->inbox + step->low_offset;
        EBB_TRY(exec_fill(&image->launches[step->launch], image->inbox + step->low_offset, err));
    }
    return EBB_OK;
}

typedef enum ebb_status (*result_work)(struct exec_image *image, uint32_t tensor, uint64_t offset,
                                       uint64_t box, uint64_t bytes, struct ebb_error *err);

/* Every kept result, with its place in tier 0 and in the outbox. */
static enum ebb_status each_result(struct exec_image *image, result_work work,
                                   struct ebb_error *err)
{
    const struct trace *t = image->p->trace;
    uint32_t at = t->command_count, tensor;
    uint64_t box = 0;
    while (exec_next_result(image->p, &at, &tensor)) {
        uint32_t s = t->tensors[tensor].storage;
        if (image->final_offset[s] == PLAN_NOWHERE)
            continue;
        EBB_TRY(work(image, tensor, image->final_offset[s], box, t->storages[s].bytes, err));
        box += plan_round(t->storages[s].bytes);
    }
    return EBB_OK;
}

static enum ebb_status fetch_result(struct exec_image *image, uint32_t tensor, uint64_t offset,
                                    uint64_t box, uint64_t bytes, struct ebb_error *err)
{
    (void)tensor;
    return image->device->table->read(image->device, DEVICE_COMPUTE, image->outbox + box, offset,
                                      bytes, err);
}

static enum ebb_status hand_over(struct exec_image *image, uint32_t tensor, uint64_t offset,
                                 uint64_t box, uint64_t bytes, struct ebb_error *err)
{
    const struct exec_io *io = image->o.io;
    const void *from =
        image->outbox ? image->outbox + box : image->device->table->address(image->device, offset);
    return from ? io->read(io->context, tensor, from, bytes, err) : EBB_OK;
}

/* ---- a run ------------------------------------------------------------------------------------ */

static enum ebb_status enqueue(struct exec_image *image, struct ebb_error *err)
{
    for (size_t i = 0; i < image->step_count; i++)
        EBB_TRY(run_step(image, &image->steps[i], err));
    EBB_TRY(follow(image, DEVICE_COMPUTE, &image->end, err));
    if (image->outbox)
        EBB_TRY(each_result(image, fetch_result, err));
    return image->o.finish ? image->o.finish(image->o.context, err) : EBB_OK;
}

static enum ebb_status capture(struct exec_image *image, struct image_graph *g,
                               struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    if (g->graph)
        d->graph_free(image->device, g->graph);
    g->graph = NULL;
    memcpy(g->sources, image->sources, image->box_count * sizeof *g->sources);
    EBB_TRY(d->capture_begin(image->device, err));
    enum ebb_status status = enqueue(image, err);
    enum ebb_status ended = d->capture_end(image->device, status == EBB_OK ? &g->graph : NULL,
                                           status == EBB_OK ? err : NULL);
    return status == EBB_OK ? ended : status;
}

void exec_image_forget(struct exec_image *image)
{
    for (int k = 0; k < IMAGE_GRAPHS; k++) {
        if (image->graphs[k].graph)
            image->device->table->graph_free(image->device, image->graphs[k].graph);
        image->graphs[k].graph = NULL;
    }
}

/* Leaves that are lent are taken over: they lie in the inbox as those of all runs to come. */
static void take_over(struct exec_image *image)
{
    for (size_t i = 0; i < image->step_count; i++) {
        const struct image_step *step = &image->steps[i];
        unsigned char *box = image->inbox + step->low_offset;
        if (!step->is_boxed || image->sources[step->box] == box)
            continue;
        memcpy(box, image->sources[step->box], exec_leaf_bytes(image->p, step->index));
        image->sources[step->box] = box;
    }
}

/* The device has no room for one graph more: for one instead of two, or for none. */
static enum ebb_status have_fewer(struct exec_image *image, struct ebb_error *err)
{
    bool has_other = false;
    for (int k = 0; k < IMAGE_GRAPHS; k++)
        has_other = has_other || image->graphs[k].graph;
    image->graph_most = has_other ? 1 : 0;
    exec_image_forget(image);
    if (!has_other)
        return EBB_OK;
    take_over(image);
    enum ebb_status status = capture(image, &image->graphs[0], err);
    if (status == EBB_ENOMEM)
        image->graph_most = 0;
    return status == EBB_ENOMEM ? EBB_OK : status;
}

/* The graph that reads leaves where they lie now; NULL: there is no room for it. */
static enum ebb_status find_graph(struct exec_image *image, struct device_graph **graph,
                                  struct ebb_error *err)
{
    size_t bytes = image->box_count * sizeof *image->sources;
    for (int k = 0; k < IMAGE_GRAPHS; k++)
        if (image->graphs[k].graph &&
            memcmp(image->graphs[k].sources, image->sources, bytes) == 0) {
            *graph = image->graphs[k].graph;
            return EBB_OK;
        }
    struct image_graph *g = &image->graphs[image->next_graph];
    image->next_graph = (image->next_graph + 1) % IMAGE_GRAPHS;
    enum ebb_status status = capture(image, g, err);
    if (status == EBB_ENOMEM) {
        g = &image->graphs[0];
        status = have_fewer(image, err);
    }
    *graph = g->graph;
    return status;
}

static enum ebb_status run_all(struct exec_image *image, struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    bool is_eager =
        !d->capture_begin || image->runs == 0 || image->graph_most == 0 || image->is_timed;
    struct device_graph *graph = NULL;
    if (!is_eager)
        EBB_TRY(find_graph(image, &graph, err));
    return graph ? d->graph_launch(image->device, graph, err) : enqueue(image, err);
}

enum ebb_status exec_image_run(struct exec_image *image, const struct exec_io *io,
                               struct exec_log *log, struct exec_report *report,
                               struct ebb_error *err)
{
    const struct device_table *d = image->device->table;
    uint64_t begin = d->now_ns(image->device, DEVICE_COMPUTE), clock = 0;
    uint64_t stalled = d->stall_ns(image->device);
    image->o.io = io;
    image->is_timed = exec_is_timed(&image->o, image->device);
    image->first_ns = image->again_ns = image->move_ns = 0;
    enum ebb_status status = fill_inbox(image, err);
    EBB_THEN(status, run_all(image, err));
    enum ebb_status synced = d->sync(image->device, status == EBB_OK ? err : NULL);
    status = status == EBB_OK ? synced : status;
    if (io && io->read)
        EBB_THEN(status, each_result(image, hand_over, err));
    for (size_t i = 0; log && i < image->step_count && status == EBB_OK; i++)
        status = note_step(image, log, &image->steps[i], &clock, err);
    image->runs += status == EBB_OK;
    *report = image->report;
    report->device_ns = d->now_ns(image->device, DEVICE_COMPUTE) - begin;
    report->stall_ns = d->stall_ns(image->device) - stalled;
    report->first_ns = image->first_ns;
    report->again_ns = image->again_ns;
    report->move_ns = image->move_ns;
    return status;
}
