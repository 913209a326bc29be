/* init.c - rules for initial values, and drawing them item by item. */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "nn/internal.h"

struct nn_init nn_init_constant(float value)
{
    return (struct nn_init){.is_given = true, .kind = NN_CONSTANT, .a = value};
}

struct nn_init nn_init_uniform(float bound)
{
    return (struct nn_init){.is_given = true, .kind = NN_UNIFORM, .a = -bound, .b = bound};
}

struct nn_init nn_init_default(int64_t fan_in)
{
    return nn_init_uniform(nn_default_bound(fan_in));
}

struct nn_init nn_init_normal(double deviation)
{
    return (struct nn_init){.is_given = true, .kind = NN_NORMAL, .b = (float)deviation};
}

struct nn_init nn_init_kaiming(int64_t fan)
{
    return nn_init_normal(fan > 0 ? sqrt(2.0 / (double)fan) : 0.0);
}

struct nn_init nn_init_xavier(int64_t fan_in, int64_t fan_out)
{
    return nn_init_uniform((float)sqrt(6.0 / (double)(fan_in + fan_out)));
}

/* ---- ebb's generator ------------------------------------------------------------------------ */

static void words(uint64_t seed, uint32_t block, uint32_t instance, uint32_t step, uint32_t stream,
                  uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {block, instance, step, stream};
    ebb_philox(key, counter, out);
}

static double unit(uint32_t u)
{
    return (double)(u >> 8) * 0x1p-24;
}

void nn_philox_uniform(uint64_t seed, uint32_t instance, uint32_t step, uint32_t stream, size_t n,
                       float *y)
{
    uint32_t u[4];
    for (size_t e = 0; e < n; e++) {
        if (e % 4 == 0)
            words(seed, (uint32_t)(e / 4), instance, step, stream, u);
        y[e] = (float)unit(u[e % 4]);
    }
}

void nn_philox_normal(uint64_t seed, uint32_t instance, uint32_t step, uint32_t stream, size_t n,
                      float *y)
{
    uint32_t u[4];
    for (size_t e = 0; e < n; e++) {
        if (e % 4 == 0)
            words(seed, (uint32_t)(e / 4), instance, step, stream, u);
        int pair = (int)(e % 4) & 2;
        double radius = sqrt(-2.0 * log(1.0 - unit(u[pair])));
        double angle = 6.283185307179586476925 * unit(u[pair + 1]);
        y[e] = (float)(radius * (e % 2 ? sin(angle) : cos(angle)));
    }
}

#define STREAM_INIT 1u /* 0 is dropout's */

static void fill_philox(const struct nn_init *init, uint64_t seed, uint32_t item, size_t n,
                        float *y)
{
    if (init->kind == NN_UNIFORM) {
        nn_philox_uniform(seed, item, 0, STREAM_INIT, n, y);
        for (size_t e = 0; e < n; e++)
            y[e] = init->a + (init->b - init->a) * y[e];
    } else {
        nn_philox_normal(seed, item, 0, STREAM_INIT, n, y);
        for (size_t e = 0; e < n; e++)
            y[e] = init->a + init->b * y[e];
    }
}

/* ---- items ---------------------------------------------------------------------------------- */

struct nn_initializer {
    const struct nn_builder *b;
    enum nn_generator generator;
    uint64_t seed;
    struct nn_torch_rng *at; /* torch: the stream where item i's final values begin */
};

/* Moves the stream over n values without keeping them. */
static void skip(struct nn_torch_rng *rng, enum nn_init_kind kind, size_t n)
{
    float few[16];
    if (kind == NN_CONSTANT)
        return;
    if (kind == NN_NORMAL && n < 16) {
        nn_torch_normal(rng, n, 0.0f, 1.0f, few);
        return;
    }
    if (kind == NN_NORMAL && n % 16)
        n += 16; /* the last block is drawn twice */
    for (size_t i = 0; i < n; i++)
        (void)ebb_mt_u32(&rng->mt);
}

static size_t count_of(const struct nn_item *item)
{
    return (size_t)tensor_count(&item->view);
}

/* First what the constructors draw, in order, then what the model's own rules draw again. */
static void place(struct nn_initializer *p)
{
    struct nn_torch_rng rng;
    nn_torch_seed(&rng, p->seed);
    for (size_t i = 0; i < p->b->item_count; i++) {
        const struct nn_item *item = &p->b->items[i];
        if (item->init.copy_of) { /* comes after the one it copies, and draws nothing */
            p->at[i] = p->at[item->init.copy_of - 1];
            continue;
        }
        if (!item->init.is_redrawn)
            p->at[i] = rng;
        skip(&rng, item->init.is_redrawn ? item->init.constructor : item->init.kind,
             count_of(item));
    }
    for (size_t i = 0; i < p->b->item_count; i++) {
        const struct nn_item *item = &p->b->items[i];
        if (!item->init.is_redrawn || item->init.copy_of)
            continue;
        p->at[i] = rng;
        skip(&rng, item->init.kind, count_of(item));
    }
}

enum ebb_status nn_initializer_create(struct nn_initializer **initializer,
                                      const struct nn_builder *b, enum nn_generator generator,
                                      uint64_t seed, struct ebb_error *err)
{
    struct nn_initializer *p = ebb_calloc(1, sizeof *p);
    if (!p)
        return ebb_no_memory(err, sizeof *p);
    *p = (struct nn_initializer){.b = b, .generator = generator, .seed = seed};
    if (generator == NN_TORCH) {
        p->at = ebb_calloc(b->item_count + 1, sizeof *p->at);
        if (!p->at) {
            ebb_free(p);
            return ebb_no_memory(err, b->item_count * sizeof *p->at);
        }
        place(p);
    }
    *initializer = p;
    return EBB_OK;
}

void nn_initializer_destroy(struct nn_initializer *initializer)
{
    if (!initializer)
        return;
    ebb_free(initializer->at);
    ebb_free(initializer);
}

void nn_initialize(const struct nn_initializer *p, size_t i, void *dst)
{
    const struct nn_item *item = &p->b->items[i];
    const struct nn_init *init = &item->init;
    size_t n = count_of(item);
    if (item->view.dtype == TENSOR_I64) {
        for (size_t e = 0; e < n; e++)
            ((int64_t *)dst)[e] = (int64_t)init->a;
        return;
    }
    float *y = dst;
    if (init->kind == NN_CONSTANT) {
        for (size_t e = 0; e < n; e++)
            y[e] = init->a;
    } else if (p->generator == NN_PHILOX) {
        fill_philox(init, p->seed, (uint32_t)i, n, y);
    } else {
        struct nn_torch_rng rng = p->at[i];
        if (init->kind == NN_UNIFORM)
            nn_torch_uniform(&rng, n, init->a, init->b, y);
        else
            nn_torch_normal(&rng, n, init->a, init->b, y);
    }
    if (init->zero_row && item->view.rank == 2) {
        size_t width = (size_t)item->view.dims[1];
        memset(y + (size_t)(init->zero_row - 1) * width, 0, width * sizeof *y);
    }
}
