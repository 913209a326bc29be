/* open.c - the table of datasets; opening, subsets, reading one sample. */
#include "data/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/sorted.h"

static const struct data_row *const rows[] = {
    &data_row_fashion_mnist, &data_row_idx,     &data_row_cifar10,   &data_row_cifar100,
    &data_row_imagefolder,   &data_row_text,    &data_row_tokens,    &data_row_npy,
    &data_row_npz,           &data_row_csv,     &data_row_command,   &data_row_hdf5,
    &data_row_tfrecord,      &data_row_deepcam, &data_row_cosmoflow, &data_row_bert,
    &data_row_language,      &data_row_trees,   &data_row_gan,       &data_row_unet,
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const char *data_name(size_t i)
{
    return i < ROW_COUNT ? rows[i]->name : NULL;
}

const char *data_summary(size_t i)
{
    return i < ROW_COUNT ? rows[i]->summary : NULL;
}

bool data_can_synthesize(size_t i)
{
    return i < ROW_COUNT && rows[i]->can_synthesize;
}

const struct data_row *data_row_find(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
        if (ebb_words_find(rows[i]->aliases, name, n, NULL))
            return rows[i];
    }
    return NULL;
}

size_t data_dtype_bytes(enum data_dtype dtype)
{
    static const uint8_t bytes[] = {4, 8, 1, 2, 4, 8};
    return bytes[dtype];
}

const char *data_dtype_text(enum data_dtype dtype)
{
    static const char *const text[] = {"f32", "f64", "u8", "i16", "i32", "i64"};
    return text[dtype];
}

const char *data_kind_text(enum data_kind kind)
{
    static const char *const text[] = {"classes", "masks", "numbers", "language",
                                       "masked",  "trees", "gan",     "arrays"};
    return text[kind];
}

void data_add_field(struct data_info *info, const char *name, enum data_dtype dtype, int rank,
                    const int64_t *dims)
{
    if (info->field_count == DATA_MAX_FIELDS) {
        info->sample_bytes = SIZE_MAX / 16; /* refused by set_check */
        return;
    }
    struct data_field *f = &info->fields[info->field_count++];
    *f = (struct data_field){.name = name, .dtype = dtype, .rank = rank};
    size_t bytes = data_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++) {
        f->dims[i] = dims[i];
        if (!ebb_mul_size(bytes, (size_t)dims[i], &bytes))
            bytes = SIZE_MAX / 16; /* refused by set_check: no sample is that large */
    }
    f->bytes = bytes;
    info->sample_bytes += bytes;
}

/* -100 and 255 mark what has no class: which of them the loss passes over is its business. */
enum ebb_status data_check_mask(const struct data_request *q, const char *where,
                                struct ebb_error *err)
{
    const struct data_info *info = &q->set->info;
    const int64_t *mask =
        info->kind == DATA_MASKS && info->fields[1].dtype == DATA_I64 ? q->fields[1] : NULL;
    size_t n = mask && info->classes > 0 ? info->fields[1].bytes / sizeof *mask : 0;
    for (size_t i = 0; i < n; i++)
        if ((mask[i] < 0 || mask[i] >= info->classes) && mask[i] != -100 && mask[i] != 255)
            return ebb_fail(err, EBB_ECORRUPT,
                            "%s: sample %llu: place %zu of the mask is %lld, there are %lld "
                            "classes",
                            where, (unsigned long long)q->index, i, (long long)mask[i],
                            (long long)info->classes);
    return EBB_OK;
}

enum ebb_status data_set_classes(struct data_info *info, int64_t given, struct ebb_error *err)
{
    if (given && given < info->classes)
        return ebb_fail(err, EBB_EINPUT, "data.classes: %lld given, the labels go to %lld",
                        (long long)given, (long long)info->classes - 1);
    info->classes = given ? given : info->classes;
    return EBB_OK;
}

void data_set_image(struct data_info *info)
{
    const struct data_field *x = &info->fields[0];
    if (x->rank != 3)
        return;
    info->channels = x->dims[0];
    info->height = x->dims[1];
    info->width = x->dims[2];
}

/* ---- opening ---- */

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* k distinct samples, the same on all ranks; in file order, for the disk's sake. */
static enum ebb_status take_subset(struct data_set *set, enum data_split split, uint64_t k,
                                   struct ebb_error *err)
{
    static const char *const words[] = {"train_subset", "val_subset"};
    uint64_t n = set->info.full_count[split];
    if (k == 0)
        return EBB_OK;
    if (k > n)
        return ebb_fail(err, EBB_EINPUT, "data.%s: %llu samples wanted, %s has %llu", words[split],
                        (unsigned long long)k, set->info.name, (unsigned long long)n);
    set->info.count[split] = k;
    if (set->is_first_subset || k == n)
        return EBB_OK;
    uint32_t *all;
    EBB_TRY(ebb_new(&all, n, sizeof *all, err));
    struct data_random r;
    data_random_init(&r, set->seed, split, 0, DATA_STREAM_SUBSET);
    for (uint64_t i = 0; i < n; i++)
        all[i] = (uint32_t)i;
    for (uint64_t i = 0; i < k; i++) {
        uint64_t j = i + data_random_below(&r, n - i);
        uint32_t t = all[i];
        all[i] = all[j];
        all[j] = t;
    }
    qsort(all, k, sizeof *all, compare_u32);
    uint32_t *kept = ebb_realloc(all, k, sizeof *all);
    set->subset[split] = kept ? kept : all;
    set->info.resident_bytes += k * sizeof *all;
    return EBB_OK;
}

static enum ebb_status set_check(struct data_set *set, struct ebb_error *err)
{
    struct data_info *info = &set->info;
    for (size_t f = 0; f < info->field_count; f++) {
        if (info->fields[f].bytes > (size_t)1 << 40)
            return ebb_fail(err, EBB_ELIMIT, "%s: a sample's %s would have more than 1 TiB",
                            info->name, info->fields[f].name);
    }
    for (int s = 0; s < DATA_SPLITS; s++) {
        if (info->full_count[s] > UINT32_MAX)
            return ebb_fail(err, EBB_ELIMIT, "%s: %llu samples; at most 4294967295 are supported",
                            info->name, (unsigned long long)info->full_count[s]);
        info->count[s] = info->full_count[s];
    }
    if (info->full_count[DATA_TRAIN] == 0)
        return ebb_fail(err, EBB_EINPUT, "%s: no training sample", info->name);
    return EBB_OK;
}

static void loader_defaults(struct data_set *set, const struct data_values *v)
{
    bool is_torch = strcmp(v->rng, "torch") == 0;
    set->loader = (struct data_loader_options){
        .order = !v->shuffle ? DATA_SEQUENTIAL
                 : is_torch  ? DATA_SHUFFLE_TORCH
                             : DATA_SHUFFLE,
        .drop_last = v->drop_last_batch,
        .sampler_drop_last = set->loader.sampler_drop_last,
        .workers = (int)v->workers,
        .prefetch = (size_t)v->prefetch,
        .buffer_bytes = v->buffer,
    };
}

void data_loader_options_of(const struct data_set *set, enum data_split split,
                            struct data_loader_options *options)
{
    *options = set->loader;
    options->split = split;
    if (split == DATA_VALIDATION) {
        options->order = DATA_SEQUENTIAL;
        options->drop_last = false;
        options->epochs = 1;
        options->sampler_drop_last = false;
        options->shard = DATA_SHARD_BLOCK; /* every sample once, whatever the number of ranks */
    }
}

bool data_check(struct ebb_reading *reading, const struct ebb_path *path,
                const struct ebb_doc_node *section, const struct data_env *env)
{
    struct data_values values;
    const struct data_row *row;
    return data_section_read(reading, path, section, env, &values, &row);
}

enum ebb_status data_new_state(struct data_set *set, size_t bytes, struct ebb_error *err)
{
    set->close = NULL; /* it would look for the row's */
    ebb_free(set->state);
    return ebb_new(&set->state, 1, bytes, err);
}

static enum ebb_status set_open(struct data_set *set, const struct data_env *env,
                                const struct data_values *v, struct ebb_error *err)
{
    const struct data_row *row = set->row;
    EBB_TRY(ebb_copy_text(&set->directory, env && env->directory ? env->directory : "", err));
    EBB_TRY(data_path(&set->folder, set->directory, v->data_dir ? v->data_dir : "", err));
    if (env && env->cache)
        EBB_TRY(ebb_copy_text(&set->cache, env->cache, err));
    EBB_TRY(data_new_state(set, row->state_bytes, err));
    set->read = row->read;
    set->close = row->close;
    EBB_TRY(row->open(set, v, err));
    EBB_TRY(data_mixup_open(set, v->mixup, err));
    if (v->bad_samples)
        EBB_TRY(data_bad_open(set, err));
    EBB_TRY(set_check(set, err));
    EBB_TRY(take_subset(set, DATA_TRAIN, (uint64_t)v->train_subset, err));
    return take_subset(set, DATA_VALIDATION, (uint64_t)v->val_subset, err);
}

enum ebb_status data_open(const struct ebb_doc_node *section, const struct data_env *env,
                          struct data_set **out, struct ebb_error *err)
{
    struct data_values values;
    const struct data_row *row;
    struct data_set *set;
    struct ebb_alone alone;
    struct ebb_path path = {.key = "data"};
    data_section_read(ebb_alone_init(&alone), &path, section, env, &values, &row);
    EBB_TRY(ebb_alone_end(&alone, err));
    EBB_TRY(ebb_new(&set, 1, sizeof *set, err));
    set->row = row;
    set->info.name = row->name;
    set->info.kind = row->kind;
    set->info.is_synthetic = values.is_synthetic;
    set->seed = env ? env->seed : 0;
    set->bad_row = env ? env->bad_row : NULL;
    set->bad_row_context = env ? env->bad_row_context : NULL;
    set->synthetic_seed = values.synthetic_seed;
    enum ebb_status status = set_open(set, env, &values, err);
    if (status != EBB_OK) {
        data_close(set);
        return ebb_context(err, status, "data");
    }
    loader_defaults(set, &values);
    *out = set;
    return EBB_OK;
}

void data_close(struct data_set *set)
{
    if (!set)
        return;
    if (set->close)
        set->close(set);
    for (int s = 0; s < DATA_SPLITS; s++)
        ebb_free(set->subset[s]);
    ebb_free(set->state);
    ebb_names_fini(&set->class_names);
    data_bad_close(set);
    ebb_free(set->directory);
    ebb_free(set->folder);
    ebb_free(set->cache);
    ebb_free(set);
}

const struct data_info *data_describe(const struct data_set *set)
{
    return &set->info;
}

bool data_leave_out(const struct data_set *set, enum ebb_status status, const struct ebb_error *why)
{
    if (status != EBB_EINPUT || !set->bad_row)
        return false;
    set->bad_row(set->bad_row_context, why->message);
    return true;
}

const char *data_class_name(const struct data_set *set, int64_t class)
{
    return class >= 0 && (uint64_t) class < set->class_names.count ? set->class_names.items[class]
                                                                   : NULL;
}

/* ---- reading ---- */

size_t data_find_start(const uint64_t *first, size_t count, uint64_t at)
{
    size_t above = ebb_first_u64(first, sizeof *first, count, at + 1);
    return above ? above - 1 : 0;
}

enum ebb_status data_scratch_take(struct data_scratch *scratch, size_t bytes, void *pointer,
                                  struct ebb_error *err)
{
    size_t start = (scratch->used + 15) & ~(size_t)15;
    if (start > scratch->bytes || bytes > scratch->bytes - start)
        return ebb_fail(err, EBB_ELIMIT,
                        "decoding needs %zu bytes more, %zu of the worker's %zu are taken", bytes,
                        scratch->used, scratch->bytes);
    scratch->used = start + bytes;
    memcpy(pointer, &(void *){scratch->memory + start}, sizeof(void *));
    return EBB_OK;
}

size_t data_scratch_left(const struct data_scratch *scratch)
{
    return scratch->bytes - scratch->used;
}

enum ebb_status data_read_with(const struct data_set *set, enum data_split split, uint64_t index,
                               uint64_t seed, uint64_t epoch, void *const *fields,
                               struct data_scratch *scratch, struct ebb_error *err)
{
    if (index >= set->info.count[split])
        return ebb_fail(err, EBB_EINPUT, "%s: sample %llu wanted, there are %llu", set->info.name,
                        (unsigned long long)index, (unsigned long long)set->info.count[split]);
    struct data_request request = {
        .set = set,
        .split = split,
        .index = set->subset[split] ? set->subset[split][index] : index,
        .seed = seed,
        .epoch = epoch,
        .fields = fields,
        .scratch = scratch,
    };
    scratch->used = 0;
    return set->mixup > 0 ? data_mixup_read(&request, err) : set->read(&request, err);
}

enum ebb_status data_read(const struct data_set *set, enum data_split split, uint64_t index,
                          uint64_t seed, uint64_t epoch, void *const *fields, struct ebb_error *err)
{
    struct data_scratch scratch = {.bytes = set->info.scratch_bytes};
    EBB_TRY(ebb_new(&scratch.memory, 1, scratch.bytes, err));
    enum ebb_status status = data_read_with(set, split, index, seed, epoch, fields, &scratch, err);
    ebb_free(scratch.memory);
    return status;
}
