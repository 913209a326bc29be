/* leaves.c - bytes of persistent leaves between runs: in, out, and to other homes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "train/engine_inside.h"

#define STAGE_BYTES (UINT64_C(4) << 20) /* that go in and out at once */

struct passage {               /* bytes on their way between the host and a persistent leaf */
    unsigned char *to;         /* get */
    const unsigned char *from; /* put; both NULL: zeros */
    uint64_t offset, count;    /* in the tier */
    enum device_tier tier;
    uint64_t desk, desk_bytes; /* bytes of tier 0 that are free between runs */
};

/* Between the host and bytes of tier 0. */
static enum ebb_status pass_near(struct train_engine *e, unsigned char *to,
                                 const unsigned char *from, uint64_t offset, uint64_t n,
                                 struct ebb_error *err)
{
    const struct device_table *d = e->device->table;
    if (!to && !from)
        return d->zero(e->device, DEVICE_COMPUTE, offset, n, err);
    if (d->is_host_visible) {
        unsigned char *here = d->address(e->device, offset);
        memcpy(to ? to : here, to ? here : from, (size_t)n);
        return EBB_OK;
    }
    if (!e->stage)
        e->stage = d->host_take(e->device, STAGE_BYTES);
    if (!e->stage)
        return ebb_no_memory(err, STAGE_BYTES);
    if (from)
        memcpy(e->stage, from, (size_t)n);
    EBB_TRY(to ? d->read(e->device, DEVICE_COMPUTE, e->stage, offset, n, err)
               : d->write(e->device, DEVICE_COMPUTE, offset, e->stage, n, err));
    EBB_TRY(d->sync(e->device, err));
    if (to)
        memcpy(to, e->stage, (size_t)n);
    return EBB_OK;
}

/* The same for a lower tier, over the desk. */
static enum ebb_status pass_far(struct train_engine *e, const struct passage *x, unsigned char *to,
                                const unsigned char *from, uint64_t offset, uint64_t n,
                                struct ebb_error *err)
{
    const struct device_table *d = e->device->table;
    enum device_stream stream = device_copy_stream(x->tier, !to);
    if (!to)
        EBB_TRY(pass_near(e, NULL, from, x->desk, n, err));
    EBB_TRY(d->sync(e->device, err));
    EBB_TRY(d->copy(e->device, stream, to ? DEVICE_T0 : x->tier, to ? x->desk : offset,
                    to ? x->tier : DEVICE_T0, to ? offset : x->desk, n, err));
    EBB_TRY(d->sync(e->device, err));
    return to ? pass_near(e, to, NULL, x->desk, n, err) : EBB_OK;
}

static enum ebb_status pass_pieces(struct train_engine *e, const struct passage *x,
                                   struct ebb_error *err)
{
    uint64_t most = STAGE_BYTES;
    if (x->tier != DEVICE_T0 && x->desk_bytes < most)
        most = x->desk_bytes;
    if (most == 0)
        return ebb_fail(err, EBB_EINTERNAL, "tier 0 has no byte free between runs");
    for (uint64_t at = 0, n; at < x->count; at += n) {
        n = x->count - at < most ? x->count - at : most;
        unsigned char *to = x->to ? x->to + at : NULL;
        const unsigned char *from = x->from ? x->from + at : NULL;
        EBB_TRY(x->tier == DEVICE_T0 ? pass_near(e, to, from, x->offset + at, n, err)
                                     : pass_far(e, x, to, from, x->offset + at, n, err));
    }
    return EBB_OK;
}

static enum ebb_status pass(struct train_engine *e, const struct train_program *p, uint32_t tensor,
                            uint64_t at, struct passage *x, struct ebb_error *err)
{
    uint32_t s = p->trace->tensors[tensor].storage;
    uint64_t bytes = p->trace->storages[s].bytes;
    const struct plan_home *home = plan_home_of(&p->homes, s);
    if ((!home && p->base[s] == PLAN_NOWHERE) || x->count > bytes || at > bytes - x->count)
        return ebb_fail(err, EBB_EINTERNAL, "bytes %llu + %llu of tensor %u are not persistent",
                        (unsigned long long)at, (unsigned long long)x->count, tensor);
    EBB_TRY(train_engine_reserve(e, err));
    x->tier = home ? (enum device_tier)home->tier : DEVICE_T0;
    x->offset = at + (home ? home->offset : p->base[s]);
    x->desk = p->base_bytes;
    x->desk_bytes = e->slab_bytes - p->base_bytes;
    return pass_pieces(e, x, err);
}

enum ebb_status train_engine_put(struct train_engine *e, const struct train_program *p,
                                 uint32_t tensor, uint64_t at, const void *bytes, uint64_t count,
                                 struct ebb_error *err)
{
    return pass(e, p, tensor, at, &(struct passage){.from = bytes, .count = count}, err);
}

enum ebb_status train_engine_get(struct train_engine *e, const struct train_program *p,
                                 uint32_t tensor, uint64_t at, void *bytes, uint64_t count,
                                 struct ebb_error *err)
{
    return pass(e, p, tensor, at, &(struct passage){.to = bytes, .count = count}, err);
}

enum ebb_status train_engine_zero(struct train_engine *e, const struct train_program *p,
                                  uint32_t tensor, struct ebb_error *err)
{
    uint64_t bytes = p->trace->storages[p->trace->tensors[tensor].storage].bytes;
    return pass(e, p, tensor, 0, &(struct passage){.count = bytes}, err);
}

void *train_engine_direct(struct train_engine *e, const struct train_program *p, uint32_t tensor)
{
    uint32_t s = p->trace->tensors[tensor].storage;
    if (!e->device->table->is_host_visible || p->base[s] == PLAN_NOWHERE ||
        train_engine_reserve(e, NULL) != EBB_OK)
        return NULL;
    return e->device->table->address(e->device, p->base[s]);
}

/* ---- to other homes ---- */

static enum ebb_status cannot_spill(struct ebb_error *err)
{
    return ebb_fail(err, ebb_errno_status(errno), "state cannot wait in a file while it moves: %s",
                    strerror(errno));
}

/* All persistent bytes to a file, or back, one piece at a time. */
static enum ebb_status spill(struct train_engine *e, int fd, bool is_back, struct ebb_error *err)
{
    const struct train_program *p = e->programs;
    unsigned char *piece;
    EBB_TRY(ebb_new(&piece, STAGE_BYTES, 1, err));
    enum ebb_status status = lseek(fd, 0, SEEK_SET) == 0 ? EBB_OK : cannot_spill(err);
    for (uint32_t i = 0; i < p->persistent_count && status == EBB_OK; i++) {
        uint32_t tensor = p->persistent[i];
        uint64_t bytes = p->trace->storages[p->trace->tensors[tensor].storage].bytes;
        for (uint64_t at = 0, n; at < bytes && status == EBB_OK; at += n) {
            n = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
            if (!is_back)
                status = train_engine_get(e, p, tensor, at, piece, n, err);
            bool is_good = status != EBB_OK ? true
                           : is_back        ? ebb_read_all(fd, piece, (size_t)n)
                                            : ebb_write_all(fd, piece, (size_t)n);
            if (!is_good)
                status = cannot_spill(err);
            if (is_back)
                EBB_THEN(status, train_engine_put(e, p, tensor, at, piece, n, err));
        }
    }
    ebb_free(piece);
    return status;
}

enum ebb_status train_engine_can_lift(struct train_engine *e, struct ebb_error *err)
{
    const struct train_program *p = e->programs;
    uint64_t bytes = 0;
    for (uint32_t i = 0; p && i < p->persistent_count; i++)
        bytes += p->trace->storages[p->trace->tensors[p->persistent[i]].storage].bytes;
    int fd = ebb_file_unnamed(e->file_path);
    if (fd < 0)
        return cannot_spill(err);
    errno = bytes ? posix_fallocate(fd, 0, (off_t)bytes) : 0;
    enum ebb_status status = errno ? cannot_spill(err) : EBB_OK;
    close(fd);
    return status;
}

enum ebb_status train_engine_lift_cap(struct train_engine *e, struct ebb_error *err)
{
    e->ways.state_cap = UINT64_MAX;
    int fd = ebb_file_unnamed(e->file_path);
    if (fd < 0)
        return cannot_spill(err);
    enum ebb_status status = spill(e, fd, false, err);
    EBB_THEN(status, train_engine_decide_again(e, err));
    EBB_THEN(status, spill(e, fd, true, err));
    close(fd);
    return status;
}

/* How high copies, homes and what the host works in reach in host memory. */
static uint64_t host_height(const struct train_program *p)
{
    const struct plan *plan = train_plan_of(p);
    uint64_t most = 0;
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        bool is_copy = step->act == PLAN_SEND || step->act == PLAN_ROOM;
        uint64_t bytes = is_copy                 ? p->trace->storages[step->index].bytes
                         : step->act == PLAN_RUN ? p->trace->ops[step->index].workspace_bytes
                                                 : 0;
        uint64_t end = step->tier == DEVICE_HOST && bytes ? step->offset + plan_round(bytes) : 0;
        most = end > most ? end : most;
    }
    for (size_t i = 0; i < p->homes.count; i++) {
        const struct plan_home *home = &p->homes.list[i];
        uint64_t end = home->offset + plan_round(p->trace->storages[home->storage].bytes);
        most = home->tier == DEVICE_HOST && end > most ? end : most;
    }
    return most;
}

uint64_t train_engine_accounted(const struct train_engine *e)
{
    uint64_t near = 0, host = 0;
    for (const struct train_program *p = e->programs; p; p = p->next) {
        uint64_t height = host_height(p);
        near = p->choice.info.peak_bytes > near ? p->choice.info.peak_bytes : near;
        host = height > host ? height : host;
    }
    return (e->device->table->is_host_visible ? near : 0) + host + (e->stage ? STAGE_BYTES : 0);
}

uint64_t train_engine_below(const struct train_engine *e)
{
    const struct train_program *p = e->programs;
    uint64_t bytes = 0;
    for (size_t i = 0; p && i < p->homes.count; i++)
        bytes += p->trace->storages[p->homes.list[i].storage].bytes;
    return bytes;
}
