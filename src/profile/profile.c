/* profile.c - profiles in memory: looking up, making, what is built in. */
#include "profile/inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

/* An unknown processor: 100 GFLOP/s a thread, 10 GB/s, 1 us a launch; copies as a desktop has them.
 * Floors, golden plans and every run without a profile depend on these numbers. */
static const struct profile_fit any_cpu = {
    .family = "*", .fixed_ns = 1000, .flops_per_ns = 100, .bytes_per_ns = 10};

static const struct profile builtin = {
    .kind = "cpu",
    .links = {[PROFILE_MOVE] = {.bytes_per_ns = 8},
              [PROFILE_HOST_OUT] = {.bytes_per_ns = 6},
              [PROFILE_HOST_IN] = {.bytes_per_ns = 6},
              [PROFILE_FILE_OUT] = {.latency_ns = 100000, .bytes_per_ns = 1},
              [PROFILE_FILE_IN] = {.latency_ns = 100000, .bytes_per_ns = 1}},
    .fits = (struct profile_fit *)&any_cpu,
    .fit_count = 1,
};

const struct profile *profile_builtin(void)
{
    return &builtin;
}

enum ebb_status profile_create(struct profile **profile, const char *kind, struct ebb_error *err)
{
    struct profile *p;
    EBB_TRY(ebb_new(&p, 1, sizeof *p, err));
    ebb_arena_init(&p->arena);
    p->kind = profile_text(p, kind, strlen(kind));
    enum ebb_status status = p->kind ? EBB_OK : ebb_no_memory(err, strlen(kind) + 1);
    return EBB_HAND_OUT(status, profile, p, profile_destroy);
}

void profile_destroy(struct profile *p)
{
    if (!p)
        return;
    ebb_free(p->facts);
    ebb_free(p->fits);
    ebb_free(p->rows);
    ebb_arena_fini(&p->arena);
    ebb_free(p);
}

const char *profile_text(struct profile *p, const char *text, size_t length)
{
    return ebb_arena_strndup(&p->arena, text, length);
}

const char *profile_kind(const struct profile *p)
{
    return p->kind;
}

struct profile_link profile_link(const struct profile *p, enum profile_link_name link)
{
    return p->links[link];
}

/* ---- making one ------------------------------------------------------------------------------- */

enum ebb_status profile_set_fact(struct profile *p, const char *name, uint64_t value,
                                 struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&p->facts, &p->fact_capacity, p->fact_count + 1, sizeof *p->facts, err));
    const char *copy = profile_text(p, name, strlen(name));
    if (!copy)
        return ebb_no_memory(err, strlen(name) + 1);
    p->facts[p->fact_count++] = (struct profile_fact){copy, value};
    return EBB_OK;
}

void profile_set_link(struct profile *p, enum profile_link_name name,
                      const struct profile_link *link)
{
    p->links[name] = *link;
}

enum ebb_status profile_add_fit(struct profile *p, const struct profile_fit *fit,
                                struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&p->fits, &p->fit_capacity, p->fit_count + 1, sizeof *p->fits, err));
    struct profile_fit *to = &p->fits[p->fit_count];
    *to = *fit;
    to->family = profile_text(p, fit->family, strlen(fit->family));
    if (!to->family)
        return ebb_no_memory(err, strlen(fit->family) + 1);
    p->fit_count++;
    return EBB_OK;
}

enum ebb_status profile_add_fits(struct profile *p, const struct profile *from,
                                 struct ebb_error *err)
{
    for (size_t i = 0; i < from->fact_count; i++)
        EBB_TRY(profile_set_fact(p, from->facts[i].name, from->facts[i].value, err));
    for (size_t i = 0; i < from->fit_count; i++)
        EBB_TRY(profile_add_fit(p, &from->fits[i], err));
    return EBB_OK;
}

enum ebb_status profile_add_row(struct profile *p, const struct profile_row *row,
                                struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&p->rows, &p->row_capacity, p->row_count + 1, sizeof *p->rows, err));
    struct profile_row *to = &p->rows[p->row_count];
    const char *algorithm = row->algorithm ? row->algorithm : "-";
    *to = *row;
    to->family = profile_text(p, row->family, strlen(row->family));
    to->key = profile_text(p, row->key, strlen(row->key));
    to->algorithm = profile_text(p, algorithm, strlen(algorithm));
    if (!to->family || !to->key || !to->algorithm)
        return ebb_no_memory(err, strlen(row->key) + 64);
    p->row_count++;
    return EBB_OK;
}

static int compare_facts(const void *a, const void *b)
{
    return strcmp(((const struct profile_fact *)a)->name, ((const struct profile_fact *)b)->name);
}

static int compare_fits(const void *a, const void *b)
{
    return strcmp(((const struct profile_fit *)a)->family, ((const struct profile_fit *)b)->family);
}

static int compare_rows(const void *a, const void *b)
{
    const struct profile_row *x = a, *y = b;
    int order = strcmp(x->family, y->family);
    return order ? order : strcmp(x->key, y->key);
}

enum ebb_status profile_finish(struct profile *p, struct ebb_error *err)
{
    if (p->fact_count)
        qsort(p->facts, p->fact_count, sizeof *p->facts, compare_facts);
    if (p->fit_count)
        qsort(p->fits, p->fit_count, sizeof *p->fits, compare_fits);
    if (p->row_count)
        qsort(p->rows, p->row_count, sizeof *p->rows, compare_rows);
    for (size_t i = 1; i < p->fact_count; i++)
        if (compare_facts(&p->facts[i - 1], &p->facts[i]) == 0)
            return ebb_fail(err, EBB_EINPUT, "fact %s stands twice", p->facts[i].name);
    for (size_t i = 1; i < p->fit_count; i++)
        if (compare_fits(&p->fits[i - 1], &p->fits[i]) == 0)
            return ebb_fail(err, EBB_EINPUT, "the fit of %s stands twice", p->fits[i].family);
    for (size_t i = 1; i < p->row_count; i++)
        if (compare_rows(&p->rows[i - 1], &p->rows[i]) == 0)
            return ebb_fail(err, EBB_EINPUT, "row %s %s stands twice", p->rows[i].family,
                            p->rows[i].key);
    return EBB_OK;
}

enum ebb_status profile_add_rows(struct profile *p, const struct profile *from,
                                 struct ebb_error *err)
{
    size_t own = p->row_count;
    for (size_t i = 0; i < from->row_count; i++)
        if (!own || !bsearch(&from->rows[i], p->rows, own, sizeof *p->rows, compare_rows))
            EBB_TRY(profile_add_row(p, &from->rows[i], err));
    return profile_finish(p, err);
}

/* ---- looking up ------------------------------------------------------------------------------- */

bool profile_fact(const struct profile *p, const char *name, uint64_t *value)
{
    for (size_t i = 0; i < p->fact_count; i++) {
        if (strcmp(p->facts[i].name, name) == 0) {
            *value = p->facts[i].value;
            return true;
        }
    }
    return false;
}

const struct profile_row *profile_find(const struct profile *p, const char *family, const char *key)
{
    struct profile_row wanted = {.family = family, .key = key};
    if (!p->row_count)
        return NULL;
    return bsearch(&wanted, p->rows, p->row_count, sizeof *p->rows, compare_rows);
}

/* FNV-1a of the text and its end. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    while (*text++);
    return hash;
}

uint64_t profile_hash(const struct profile *p, const char *family)
{
    uint64_t hash = EBB_FNV1A_INIT;
    for (size_t i = 0; i < p->row_count; i++) {
        const struct profile_row *row = &p->rows[i];
        if (strcmp(row->family, family) != 0)
            continue;
        hash = hash_text(hash_text(hash, row->key), row->algorithm);
    }
    return hash;
}

const struct profile_fit *profile_fit_of(const struct profile *p, const char *family)
{
    const struct profile_fit *any = &any_cpu;
    for (size_t i = 0; i < p->fit_count; i++) {
        if (strcmp(p->fits[i].family, family) == 0)
            return &p->fits[i];
        if (strcmp(p->fits[i].family, "*") == 0)
            any = &p->fits[i];
    }
    return any;
}

uint64_t profile_cost_ns(const struct profile *p, const char *family, const char *key, double flops,
                         double bytes, int threads, bool *is_fitted)
{
    const struct profile_row *row = profile_find(p, family, key);
    if (is_fitted)
        *is_fitted = !row;
    if (row)
        return row->cost_ns;
    return profile_fit_ns(profile_fit_of(p, family), flops, bytes, threads);
}

uint64_t profile_round_ns(double ns)
{
    return ns < 1 ? 1 : (uint64_t)(exp2(rint(log2(ns) * 4) / 4) + 0.5);
}
