/* sampler.c - which samples a rank sees in an epoch, in which order, and the arithmetic of
 * batches. */
#include "data/internal.h"

#include <string.h>

#include "base/rng.h"

uint64_t data_sampler_length(const struct data_sampler *s)
{
    uint64_t world = s->world ? s->world : 1;
    if (s->shard == DATA_SHARD_BLOCK)
        return s->count / world + (s->rank < s->count % world ? 1 : 0);
    if (s->drop_last)
        return s->count / world;
    return s->count / world + (s->count % world != 0 ? 1 : 0);
}

/* randperm of torch's CPU generator: one u32 per place, by remainder. */
static void permute_torch(uint32_t *list, uint64_t n, uint64_t seed)
{
    struct ebb_mt19937 mt;
    ebb_mt_seed(&mt, (uint32_t)seed);
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t j = i + ebb_mt_u32(&mt) % (n - i);
        uint32_t t = list[i];
        list[i] = list[j];
        list[j] = t;
    }
}

static void sampler_order(const struct data_sampler *s, uint64_t epoch, uint32_t *all)
{
    for (uint64_t i = 0; i < s->count; i++)
        all[i] = (uint32_t)i;
    if (s->order == DATA_SHUFFLE)
        data_permute(all, s->count, s->seed, epoch, DATA_STREAM_ORDER);
    else if (s->order == DATA_SHUFFLE_TORCH)
        permute_torch(all, s->count, s->seed + epoch);
}

void data_sampler_list(const struct data_sampler *s, uint64_t epoch, uint32_t *scratch,
                       uint32_t *list)
{
    uint64_t world = s->world ? s->world : 1, n = data_sampler_length(s);
    const uint32_t *all = NULL;
    if (n == 0)
        return;
    if (s->order != DATA_SEQUENTIAL) {
        uint32_t *order = world == 1 ? list : scratch; /* alone: the list is the order */
        sampler_order(s, epoch, order);
        if (world == 1)
            return;
        all = order;
    }
    uint64_t block = s->count / world;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = (s->rank + i * world) % s->count; /* extended by its own beginning */
        if (s->shard == DATA_SHARD_BLOCK)
            at = i < block ? s->rank * block + i : world * block + s->rank;
        list[i] = all ? all[at] : (uint32_t)at;
    }
}

enum ebb_status data_batch_plan(struct data_batching *b, struct ebb_error *err)
{
    if (b->devices == 0 || b->cap == 0 || (b->global_batch == 0 && b->local_batch == 0))
        return ebb_fail(err, EBB_EINPUT,
                        "batch: %llu devices, global batch %llu: both must be at least 1",
                        (unsigned long long)b->devices, (unsigned long long)b->global_batch);
    if (b->accumulation < -1 || b->accumulation == 0)
        return ebb_fail(err, EBB_EINPUT,
                        "batch: gradient_accumulation_freq is %lld; allowed: -1, or at least 1",
                        (long long)b->accumulation);
    uint64_t per = b->global_batch / b->devices, local, times = 1, global = b->global_batch;
    if (b->local_batch) {
        local = b->local_batch;
        if (__builtin_mul_overflow(b->devices, local, &global))
            return ebb_fail(err, EBB_EINPUT, "batch: %llu devices of %llu samples are too many",
                            (unsigned long long)b->devices, (unsigned long long)local);
    } else {
        times =
            b->accumulation == -1 ? (per > b->cap ? per / b->cap : 1) : (uint64_t)b->accumulation;
        local = per / times;
    }
    if (local == 0)
        return ebb_fail(err, EBB_EINPUT,
                        "batch: global batch %llu on %llu devices with accumulation %llu leaves no "
                        "sample per device; the least is %llu",
                        (unsigned long long)b->global_batch, (unsigned long long)b->devices,
                        (unsigned long long)times, (unsigned long long)(b->devices * times));
    b->per_device = b->samples / b->devices;
    if (!b->sampler_drop_last && b->samples % b->devices)
        b->per_device++;
    b->local = local;
    b->accumulate = times;
    b->global = global;
    b->effective = local * times * b->devices;
    b->is_exact = b->effective == global;
    b->iterations = b->per_device / local;
    if (!b->drop_last && b->per_device % local)
        b->iterations++;
    b->updates = b->iterations / times;
    b->leftover = b->iterations % times;
    return EBB_OK;
}
