/* init.c - rules for initial values, and drawing them item by item. */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/thread.h"
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

struct nn_init nn_init_again(struct nn_init init, enum nn_init_kind constructor)
{
    init.is_redrawn = true;
    init.constructor = constructor;
    return init;
}

/* ---- ebb's generator ------------------------------------------------------------------------ */

struct stream {
    uint64_t seed;
    uint32_t instance, step, stream;
};

static void words(const struct stream *s, uint64_t block, uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    uint32_t counter[4] = {(uint32_t)block, s->instance, s->step, s->stream};
    ebb_philox(key, counter, out);
}

static double unit(uint32_t u)
{
    return (double)(u >> 8) * 0x1p-24;
}

/* Elements first .. end - 1 of the stream; first is a multiple of 4; y is element 0. */
static void uniform_range(const struct stream *s, size_t first, size_t end, float *y)
{
    uint32_t u[4];
    for (size_t e = first; e < end; e++) {
        if (e % 4 == 0)
            words(s, e / 4, u);
        y[e] = (float)unit(u[e % 4]);
    }
}

static void normal_range(const struct stream *s, size_t first, size_t end, float *y)
{
    uint32_t u[4];
    for (size_t e = first; e < end; e += 2) {
        if (e % 4 == 0)
            words(s, e / 4, u);
        double radius = sqrt(-2.0 * log(1.0 - unit(u[e % 4])));
        double angle = 6.283185307179586476925 * unit(u[e % 4 + 1]), sine, cosine;
        sincos(angle, &sine, &cosine);
        y[e] = (float)(radius * cosine);
        if (e + 1 < end)
            y[e + 1] = (float)(radius * sine);
    }
}

void nn_philox_uniform(uint64_t seed, uint32_t instance, uint32_t step, uint32_t stream, size_t n,
                       float *y)
{
    uniform_range(&(struct stream){seed, instance, step, stream}, 0, n, y);
}

void nn_philox_normal(uint64_t seed, uint32_t instance, uint32_t step, uint32_t stream, size_t n,
                      float *y)
{
    normal_range(&(struct stream){seed, instance, step, stream}, 0, n, y);
}

#define STREAM_INIT 1u          /* 0 is dropout's */
#define CHUNK ((size_t)1 << 16) /* elements drawn by one thread at a time */

struct drawing {
    const struct nn_init *init;
    struct stream stream;
    size_t n;
    float *y;
};

static void draw_chunk(void *context, size_t i)
{
    const struct drawing *d = context;
    size_t first = i * CHUNK, end = d->n - first < CHUNK ? d->n : first + CHUNK;
    bool is_uniform = d->init->kind == NN_UNIFORM;
    float scale = is_uniform ? d->init->b - d->init->a : d->init->b;
    (is_uniform ? uniform_range : normal_range)(&d->stream, first, end, d->y);
    for (size_t e = first; e < end; e++)
        d->y[e] = d->init->a + scale * d->y[e];
}

/* The same bits with any number of threads. */
static void fill_philox(const struct nn_init *init, uint64_t seed, uint32_t item, size_t n,
                        float *y)
{
    struct drawing d = {.init = init, .stream = {seed, item, 0, STREAM_INIT}, .n = n, .y = y};
    size_t chunks = (n + CHUNK - 1) / CHUNK;
    if (chunks > 4 && ebb_parallel(ebb_cpu_count(), chunks, draw_chunk, &d, NULL) == EBB_OK)
        return;
    for (size_t i = 0; i < chunks; i++)
        draw_chunk(&d, i);
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
    if (kind == NN_CONSTANT || kind == NN_GIVEN)
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
    struct nn_initializer *p;
    EBB_TRY(ebb_new(&p, 1, sizeof *p, err));
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
    if (init->kind == NN_GIVEN) {
        init->fill(init->data, dst);
        return;
    }
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
