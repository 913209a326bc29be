/* costs.c - see costs.h. */
#include "train/costs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/heap.h"
#include "ops/ops.h"
#include "train/place.h"
#include "train/train.h"

#define KEY_BYTES 40

static void key_of(const struct trace *t, uint32_t op, char key[KEY_BYTES])
{
    const struct trace_op *o = &t->ops[op];
    struct ebb_hash128 h = ebb_hash128(t->attrs + o->attr_first, o->attr_bytes);
    snprintf(key, KEY_BYTES, "%016" PRIx64 "%016" PRIx64, h.high, h.low);
}

struct train_costs train_costs_apply(struct trace *t, const struct profile *profile)
{
    struct train_costs c = {0};
    char key[KEY_BYTES];
    for (uint32_t i = 0; i < t->op_count; i++) {
        struct trace_op *o = &t->ops[i];
        if (o->cost_ns == 0)
            continue;
        key_of(t, i, key);
        const struct profile_row *row = profile_find(profile, o->kind->name, key);
        if (row)
            o->cost_ns = row->cost_ns;
        c.measured += row != NULL;
        c.estimated += row == NULL;
        *(row ? &c.measured_ns : &c.estimated_ns) += o->cost_ns;
    }
    return c;
}

void train_costs_known(const struct trace *t, const struct profile *profile, uint64_t *known_ns,
                       uint64_t *all_ns)
{
    char key[KEY_BYTES];
    *known_ns = *all_ns = 0;
    for (uint32_t i = 0; i < t->op_count; i++) {
        const struct trace_op *o = &t->ops[i];
        if (o->cost_ns == 0)
            continue;
        key_of(t, i, key);
        *known_ns += profile_find(profile, o->kind->name, key) ? o->cost_ns : 0;
        *all_ns += o->cost_ns;
    }
}

static int compare_fitted(const void *a, const void *b)
{
    const struct train_fitted *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns ? 1 : -1) : strcmp(x->kind, y->kind);
}

size_t train_costs_fitted(const struct trace *t, const struct profile *profile,
                          struct train_fitted *list, size_t room, uint64_t *all_ns)
{
    char key[KEY_BYTES];
    size_t count = 0, k;
    *all_ns = 0;
    for (uint32_t i = 0; i < t->op_count; i++) {
        const struct trace_op *o = &t->ops[i];
        *all_ns += o->cost_ns;
        key_of(t, i, key);
        if (o->cost_ns == 0 || profile_find(profile, o->kind->name, key))
            continue;
        for (k = 0; k < count && strcmp(list[k].kind, o->kind->name) != 0;)
            k++;
        if (k == room)
            continue;
        if (k == count)
            list[count++] = (struct train_fitted){.kind = o->kind->name};
        list[k].count++;
        list[k].ns += o->cost_ns;
    }
    if (count)
        qsort(list, count, sizeof *list, compare_fitted);
    return count;
}

bool train_is_gpu(const char *device)
{
    return device && strcmp(device, "cpu") != 0 && strcmp(device, "far") != 0;
}

enum ebb_status train_device_answers(const char *device, const char *costs, int threads,
                                     void **backend, struct profile **profile,
                                     struct ebb_error *err)
{
    struct train_place place;
    struct profile *p = NULL;
    EBB_TRY(train_place_find(device, &place, err));
    const char *own = place.kernels->profile;
    if (costs)
        EBB_TRY(profile_load(costs, &p, err));
    else if (own)
        EBB_TRY(profile_read(place.kernels->device, own, strlen(own), &p, err));
    enum ebb_status status = ops_backend_create(backend, place.kernels, NULL, p, threads, err);
    return EBB_HAND_OUT(status, profile, p, profile_destroy);
}

/* ---- times ------------------------------------------------------------------------------------ */

struct sample {
    const char *kind;
    struct ebb_hash128 hash;
    uint64_t ns;
};

struct train_times {
    struct sample *samples;
    size_t count, capacity;
    bool is_short;            /* of memory */
    struct profile_row *rows; /* of algorithms, their texts in the arena */
    size_t row_count, row_capacity;
    struct ebb_arena arena;
};

enum ebb_status train_times_create(struct train_times **times, struct ebb_error *err)
{
    return ebb_new(times, 1, sizeof **times, err);
}

void train_times_destroy(struct train_times *times)
{
    if (!times)
        return;
    ebb_free(times->samples);
    ebb_free(times->rows);
    ebb_arena_fini(&times->arena);
    ebb_free(times);
}

uint64_t train_times_total(const struct train_times *times, size_t first)
{
    uint64_t ns = 0;
    for (size_t i = first; i < times->count; i++)
        ns += times->samples[i].ns;
    return ns;
}

void train_times_scale(struct train_times *times, size_t first, double factor)
{
    for (size_t i = first; i < times->count; i++)
        times->samples[i].ns = (uint64_t)((double)times->samples[i].ns * factor);
}

size_t train_times_count(const struct train_times *times)
{
    return times->count;
}

bool train_times_chosen(const struct train_times *times)
{
    return times->row_count > 0;
}

enum ebb_status train_times_keep(void *to, const struct profile_row *row, struct ebb_error *err)
{
    struct train_times *t = to;
    for (size_t i = 0; i < t->row_count; i++)
        if (strcmp(t->rows[i].family, row->family) == 0 && strcmp(t->rows[i].key, row->key) == 0)
            return EBB_OK;
    EBB_TRY(ebb_grow(&t->rows, &t->row_capacity, t->row_count + 1, sizeof *t->rows, err));
    struct profile_row *kept = &t->rows[t->row_count++];
    *kept = *row;
    kept->family = ebb_arena_printf(&t->arena, "%s", row->family);
    kept->key = ebb_arena_printf(&t->arena, "%s", row->key);
    kept->algorithm = ebb_arena_printf(&t->arena, "%s", row->algorithm);
    return ebb_arena_status(&t->arena, err);
}

void train_times_add(struct train_times *times, const struct trace *t, uint32_t op, uint64_t ns)
{
    const struct trace_op *o = &t->ops[op];
    if (o->cost_ns == 0)
        return;
    if (ebb_grow(&times->samples, &times->capacity, times->count + 1, sizeof *times->samples,
                 NULL) != EBB_OK) {
        times->is_short = true;
        return;
    }
    times->samples[times->count++] = (struct sample){
        .kind = o->kind->name,
        .hash = ebb_hash128(t->attrs + o->attr_first, o->attr_bytes),
        .ns = ns,
    };
}

void train_times_note(struct train_times *times, const struct trace *t, const uint64_t *op_ns)
{
    for (uint32_t i = 0; i < t->op_count; i++)
        if (op_ns[i] > 0)
            train_times_add(times, t, i, op_ns[i]);
}

static int compare_keys(const struct sample *a, const struct sample *b)
{
    int order = strcmp(a->kind, b->kind);
    if (order == 0 && a->hash.high != b->hash.high)
        order = a->hash.high < b->hash.high ? -1 : 1;
    if (order == 0 && a->hash.low != b->hash.low)
        order = a->hash.low < b->hash.low ? -1 : 1;
    return order;
}

static int compare_samples(const void *x, const void *y)
{
    const struct sample *a = x, *b = y;
    int order = compare_keys(a, b);
    return order ? order : (a->ns > b->ns) - (a->ns < b->ns);
}

/* Rows of everything measured. */
static enum ebb_status add_rows(const struct train_times *times, struct profile *profile,
                                struct ebb_error *err)
{
    struct sample *s = times->samples;
    char key[KEY_BYTES];
    if (times->is_short)
        return ebb_no_memory(err, times->count * sizeof *s);
    if (times->count)
        qsort(s, times->count, sizeof *s, compare_samples);
    for (size_t i = 0, n; i < times->count; i += n) {
        for (n = 1; i + n < times->count && compare_keys(&s[i], &s[i + n]) == 0;)
            n++;
        double median = (double)s[i + n / 2].ns;
        double spread = (double)(s[i + 3 * n / 4].ns - s[i + n / 4].ns) / (median > 0 ? median : 1);
        snprintf(key, sizeof key, "%016" PRIx64 "%016" PRIx64, s[i].hash.high, s[i].hash.low);
        EBB_TRY(profile_add_row(profile,
                                &(struct profile_row){.family = s[i].kind,
                                                      .key = key,
                                                      .cost_ns = profile_round_ns(median),
                                                      .spread = spread},
                                err));
    }
    return EBB_OK;
}

/* ---- links ------------------------------------------------------------------------------------ */

#define SMALL (UINT64_C(256) << 10)
#define LARGE (UINT64_C(16) << 20)
#define REPEATS 5
#define WARMING 16 /* the first copies to a GPU take a millisecond more */

struct bench {
    const struct device_table *t;
    struct device *d;
};

static enum ebb_status copy(const struct bench *b, enum device_tier tier, bool is_out,
                            uint64_t bytes, struct ebb_error *err)
{
    enum device_stream stream = device_copy_stream(tier, is_out);
    uint64_t at = is_out ? 0 : LARGE; /* directions have ranges of their own */
    return b->t->copy(b->d, stream, is_out ? tier : DEVICE_T0, at, is_out ? DEVICE_T0 : tier, at,
                      bytes, err);
}

/* The shortest of a few. */
static enum ebb_status time_copy(const struct bench *b, enum device_tier tier, bool is_out,
                                 bool is_both, uint64_t bytes, double *ns, struct ebb_error *err)
{
    *ns = 0;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t begin = ebb_clock_ns();
        EBB_TRY(copy(b, tier, is_out, bytes, err));
        if (is_both)
            EBB_TRY(copy(b, tier, !is_out, bytes, err));
        EBB_TRY(b->t->sync(b->d, err));
        double took = (double)(ebb_clock_ns() - begin);
        *ns = i == 0 || took < *ns ? took : *ns;
    }
    return EBB_OK;
}

static enum ebb_status measure_link(const struct bench *b, enum device_tier tier, bool is_out,
                                    struct profile_link *link, struct ebb_error *err)
{
    double small, large, both;
    EBB_TRY(time_copy(b, tier, is_out, false, SMALL, &small, err));
    EBB_TRY(time_copy(b, tier, is_out, false, LARGE, &large, err));
    EBB_TRY(time_copy(b, tier, is_out, true, LARGE, &both, err));
    double rate = large > small ? (double)(LARGE - SMALL) / (large - small) : (double)LARGE / large;
    double latency = large - (double)LARGE / rate;
    *link = (struct profile_link){.latency_ns = latency > 0 ? profile_round_ns(latency) : 0,
                                  .bytes_per_ns = rate,
                                  .both_bytes_per_ns = (double)LARGE / both};
    return EBB_OK;
}

static enum ebb_status measure_move(const struct bench *b, struct profile_link *link,
                                    struct ebb_error *err)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t begin = ebb_clock_ns();
        EBB_TRY(b->t->copy(b->d, DEVICE_COMPUTE, DEVICE_T0, 0, DEVICE_T0, LARGE, LARGE, err));
        EBB_TRY(b->t->sync(b->d, err));
        uint64_t took = ebb_clock_ns() - begin;
        least = took < least ? took : least;
    }
    *link = (struct profile_link){.bytes_per_ns = (double)LARGE / (double)least};
    return EBB_OK;
}

static enum ebb_status measure_all(const struct bench *b, struct profile *profile,
                                   struct ebb_error *err)
{
    static const struct {
        enum profile_link_name name;
        enum device_tier tier;
        bool is_out;
    } links[] = {{PROFILE_HOST_OUT, DEVICE_HOST, true},
                 {PROFILE_HOST_IN, DEVICE_HOST, false},
                 {PROFILE_FILE_OUT, DEVICE_FILE, true},
                 {PROFILE_FILE_IN, DEVICE_FILE, false}};
    struct profile_link link;
    bool has_tier[DEVICE_TIERS] = {true};
    EBB_TRY(b->t->reserve(b->d, DEVICE_T0, 2 * LARGE, err));
    EBB_TRY(b->t->zero(b->d, DEVICE_COMPUTE, 0, 2 * LARGE, err));
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        enum ebb_status status = b->t->reserve(b->d, (enum device_tier)k, 2 * LARGE, err);
        has_tier[k] = status == EBB_OK;
        if (status != EBB_OK && status != EBB_EUNSUPPORTED)
            return status;
    }
    EBB_TRY(measure_move(b, &link, err));
    profile_set_link(profile, PROFILE_MOVE, &link);
    for (int i = 0; i < WARMING && has_tier[DEVICE_HOST]; i++)
        for (int is_out = 0; is_out < 2; is_out++) {
            EBB_TRY(copy(b, DEVICE_HOST, is_out, LARGE, err));
            EBB_TRY(b->t->sync(b->d, err));
        }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        if (!has_tier[links[i].tier])
            continue;
        if (links[i].is_out) /* every byte is there before it is timed */
            for (uint64_t at = 0; at < 2 * LARGE; at += LARGE)
                EBB_TRY(b->t->copy(b->d, device_copy_stream(links[i].tier, true), links[i].tier, at,
                                   DEVICE_T0, at, LARGE, err));
        EBB_TRY(measure_link(b, links[i].tier, links[i].is_out, &link, err));
        profile_set_link(profile, links[i].name, &link);
    }
    return EBB_OK;
}

/* Two sizes, each direction alone and both together. Tiers that the device refuses are left as they
 * are built in. */
static enum ebb_status measure_links(const struct device_table *table, const char *file_path,
                                     struct profile *profile, struct ebb_error *err)
{
    struct bench b = {.t = table};
    for (int k = 0; k < PROFILE_LINKS; k++) {
        struct profile_link known = profile_link(profile_builtin(), (enum profile_link_name)k);
        profile_set_link(profile, (enum profile_link_name)k, &known);
    }
    EBB_TRY(table->create(&b.d, &(struct device_config){.file_path = file_path}, err));
    enum ebb_status status = measure_all(&b, profile, err);
    table->destroy(b.d);
    return status;
}

/* What the device says of itself holds for ops that were not measured. */
static enum ebb_status add_own(const struct kernel_table *kernels, struct profile *profile,
                               struct ebb_error *err)
{
    struct profile *own;
    if (!kernels->profile)
        return EBB_OK;
    EBB_TRY(profile_read(kernels->device, kernels->profile, strlen(kernels->profile), &own, err));
    enum ebb_status status = profile_add_fits(profile, own, err);
    profile_destroy(own);
    return status;
}

enum ebb_status train_times_profile(const struct train_times *times, const char *device,
                                    const char *file_path, struct profile **profile,
                                    struct ebb_error *err)
{
    struct train_place place;
    struct profile *p = NULL;
    EBB_TRY(train_place_find(device, &place, err));
    EBB_TRY(profile_create(&p, place.bits, err));
    enum ebb_status status = measure_links(place.device, file_path, p, err);
    EBB_THEN(status, add_own(place.kernels, p, err));
    EBB_THEN(status, add_rows(times, p, err));
    for (size_t i = 0; i < times->row_count; i++)
        EBB_THEN(status, profile_add_row(p, &times->rows[i], err));
    EBB_THEN(status, profile_finish(p, err));
    return EBB_HAND_OUT(status, profile, p, profile_destroy);
}
