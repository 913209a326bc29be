/* arrays.c - datasets of arrays whose first dimension counts samples: npy, npz, hdf5.
 *
 * Field 0 becomes f32 (bytes may stay bytes), later fields i64 when they are integers, else f32.
 * The second field decides what the set is for: one integer a sample is a class, several are a
 * mask, floats are targets. */
#include "data/internal.h"

#include <string.h>

#include "base/heap.h"
#include "data/npy.h"

struct array {
    struct data_file file; /* owned */
    struct data_file unpacked;
    struct data_h5 h;
    struct data_h5_dataset d;
};

struct arrays_state {
    struct array arrays[DATA_SPLITS][DATA_MAX_FIELDS];
    char *names[DATA_MAX_FIELDS]; /* owned copies: the section may go */
    size_t count;
};

enum arrays_format { FORMAT_NPY, FORMAT_NPZ, FORMAT_HDF5 };

static void arrays_close(struct data_set *set)
{
    struct arrays_state *state = set->state;
    for (size_t f = 0; f < DATA_MAX_FIELDS; f++) {
        for (int s = 0; s < DATA_SPLITS; s++) {
            data_file_close(&state->arrays[s][f].file);
            data_file_close(&state->arrays[s][f].unpacked);
        }
        ebb_free(state->names[f]);
    }
}

static enum ebb_status open_array(struct data_set *set, const struct data_values *v,
                                  enum arrays_format format, int split, size_t f,
                                  struct ebb_error *err)
{
    struct arrays_state *state = set->state;
    struct array *a = &state->arrays[split][f];
    const struct data_texts *files = split == DATA_TRAIN ? &v->train_files : &v->val_files;
    const char *name = files->v[format == FORMAT_NPY ? f : 0];
    EBB_TRY(data_file_open_in(&a->file, set->folder, name, err));
    a->h = (struct data_h5){.file = &a->file};
    if (format == FORMAT_NPY) {
        EBB_TRY(data_npy_read(&a->file, 0, a->file.length, &a->d, err));
    } else if (format == FORMAT_NPZ) {
        EBB_TRY(data_npz_find(&a->file, state->names[f], set, &a->unpacked, &a->d, err));
        if (a->unpacked.path)
            a->h.file = &a->unpacked;
    } else {
        EBB_TRY(data_h5_open(&a->h, &a->file, err));
        EBB_TRY(data_h5_find(&a->h, state->names[f], &a->d, err));
    }
    if (a->d.is_fortran) {
        struct data_file ordered = {0};
        EBB_TRY(data_npy_order(a->h.file, &a->d, set, &ordered, err));
        if (a->unpacked.owned)
            set->info.resident_bytes -= a->unpacked.length;
        data_file_close(&a->unpacked);
        a->unpacked = ordered;
        a->h.file = &a->unpacked;
    }
    if (a->d.rank < 1 || a->d.type.class == DATA_H5_ROWS)
        return ebb_fail(err, EBB_EINPUT, "%s: %s must have samples in its first dimension",
                        a->file.path, state->names[f]);
    return EBB_OK;
}

/* Arrays of a split have as many samples; those of both splits samples of the same shape. */
static enum ebb_status check_array(struct data_set *set, int split, size_t f, struct ebb_error *err)
{
    const struct arrays_state *state = set->state;
    const struct array *a = &state->arrays[split][f], *b = &state->arrays[DATA_TRAIN][f];
    uint64_t count = state->arrays[split][0].d.dims[0];
    if (a->d.dims[0] != count)
        return ebb_fail(err, EBB_EINPUT, "%s: %s has %llu samples, %s has %llu", a->file.path,
                        state->names[f], (unsigned long long)a->d.dims[0], state->names[0],
                        (unsigned long long)count);
    bool is_same = a->d.rank == b->d.rank;
    for (int i = 1; is_same && i < a->d.rank; i++)
        is_same = a->d.dims[i] == b->d.dims[i];
    if (!is_same)
        return ebb_fail(err, EBB_EINPUT, "%s: samples of %s have another shape than those of %s",
                        a->file.path, state->names[f], b->file.path);
    set->info.full_count[split] = count;
    return EBB_OK;
}

static enum data_dtype field_dtype(const struct data_h5_type *t, size_t f,
                                   const struct data_values *v)
{
    if (t->class == DATA_H5_FLOAT)
        return DATA_F32;
    if (f > 0 || v->vocabulary > 0)
        return DATA_I64;
    bool is_byte = t->bytes == 1 && !t->is_signed && strcmp(v->image_dtype, "u8") == 0;
    return is_byte ? DATA_U8 : DATA_F32;
}

static enum ebb_status count_classes(struct data_set *set, struct ebb_error *err)
{
    const struct arrays_state *state = set->state;
    int64_t most = 0;
    struct data_scratch scratch = {.bytes = set->info.scratch_bytes};
    enum ebb_status status = ebb_new(&scratch.memory, 1, scratch.bytes, err);
    for (int s = 0; s < DATA_SPLITS && status == EBB_OK; s++) {
        const struct array *a = &state->arrays[s][1];
        int64_t labels[512];
        uint64_t rows = a->file.path ? a->d.dims[0] : 0;
        for (uint64_t i = 0; i < rows && status == EBB_OK; i += 512) {
            uint64_t n = rows - i < 512 ? rows - i : 512;
            scratch.used = 0;
            status = data_h5_read(&a->h, &a->d, i, n, DATA_I64, labels, &scratch, err);
            for (uint64_t k = 0; k < n && status == EBB_OK; k++) {
                if (labels[k] < 0 || labels[k] > 1 << 24)
                    status =
                        ebb_fail(err, EBB_ECORRUPT, "%s: label %lld of sample %llu", a->file.path,
                                 (long long)labels[k], (unsigned long long)(i + k));
                most = labels[k] > most ? labels[k] : most;
            }
        }
    }
    ebb_free(scratch.memory);
    set->info.classes = most + 1;
    return status;
}

/* With a vocabulary the first field holds sequences of tokens. */
static enum ebb_status describe_tokens(struct data_set *set, const struct data_values *v,
                                       struct ebb_error *err)
{
    struct data_info *info = &set->info;
    const struct data_field *x = &info->fields[0];
    if (!v->vocabulary)
        return EBB_OK;
    if (x->dtype != DATA_I64 || x->rank != 1)
        return ebb_fail(err, EBB_EINPUT,
                        "data.vocabulary: '%s' of a sample is %s of rank %d, allowed: one row of "
                        "whole numbers, the tokens",
                        x->name, data_dtype_text(x->dtype), x->rank);
    info->vocabulary = v->vocabulary;
    info->sequence = x->dims[0];
    /* What models of padded pairs of sentences want besides: here is one sentence, and all of it. */
    data_add_field(info, "segments", DATA_I64, 1, &info->sequence);
    data_add_field(info, "attention", DATA_I64, 1, &info->sequence);
    return EBB_OK;
}

static enum ebb_status check_tokens(const struct data_request *q, const char *path,
                                    struct ebb_error *err)
{
    const struct data_info *info = &q->set->info;
    const int64_t *tokens = q->fields[0];
    for (int64_t i = 0; i < info->sequence; i++)
        if (tokens[i] < 0 || tokens[i] >= info->vocabulary)
            return ebb_fail(
                err, EBB_ECORRUPT, "%s: sample %llu: token %lld, the vocabulary has %lld", path,
                (unsigned long long)q->index, (long long)tokens[i], (long long)info->vocabulary);
    return EBB_OK;
}

static enum ebb_status describe(struct data_set *set, const struct data_values *v,
                                struct ebb_error *err)
{
    struct arrays_state *state = set->state;
    struct data_info *info = &set->info;
    for (size_t f = 0; f < state->count; f++) {
        const struct data_h5_dataset *d = &state->arrays[DATA_TRAIN][f].d;
        int64_t dims[DATA_MAX_RANK];
        for (int i = 1; i < d->rank; i++)
            dims[i - 1] = (int64_t)d->dims[i];
        data_add_field(info, state->names[f], field_dtype(&d->type, f, v), d->rank - 1, dims);
        for (int s = 0; s < DATA_SPLITS; s++) {
            size_t bytes = data_h5_scratch(&state->arrays[s][f].d);
            info->scratch_bytes = bytes > info->scratch_bytes ? bytes : info->scratch_bytes;
        }
    }
    const struct data_field *y = &info->fields[1];
    EBB_TRY(describe_tokens(set, v, err));
    data_set_image(info);
    if (state->count != 2)
        return EBB_OK;
    if (y->dtype != DATA_I64) {
        info->kind = DATA_NUMBERS;
        return EBB_OK;
    }
    info->kind = y->rank == 0 ? DATA_CLASSES : DATA_MASKS;
    if (y->rank == 0)
        EBB_TRY(count_classes(set, err));
    return data_set_classes(info, v->classes, err);
}

static enum ebb_status arrays_open(struct data_set *set, const struct data_values *v,
                                   struct ebb_error *err)
{
    struct arrays_state *state = set->state;
    enum arrays_format format = (enum arrays_format)set->row->variant;
    state->count = v->fields.count;
    for (size_t f = 0; f < state->count; f++)
        EBB_TRY(ebb_copy_text(&state->names[f], v->fields.v[f], err));
    for (int s = 0; s < DATA_SPLITS; s++) {
        size_t files = s == DATA_TRAIN ? v->train_files.count : v->val_files.count;
        for (size_t f = 0; files && f < state->count; f++) {
            EBB_TRY(open_array(set, v, format, s, f, err));
            EBB_TRY(check_array(set, s, f, err));
        }
    }
    return describe(set, v, err);
}

static enum ebb_status arrays_read(const struct data_request *q, struct ebb_error *err)
{
    const struct arrays_state *state = q->set->state;
    const struct data_info *info = &q->set->info;
    for (size_t f = state->count; f < info->field_count; f++) {
        int64_t *out = q->fields[f]; /* segments, attention */
        for (int64_t i = 0; out && i < info->sequence; i++)
            out[i] = f > state->count;
    }
    for (size_t f = 0; f < state->count; f++) {
        const struct array *a = &state->arrays[q->split][f];
        if (!q->fields[f])
            continue;
        q->scratch->used = 0;
        EBB_TRY(data_h5_read(&a->h, &a->d, q->index, 1, info->fields[f].dtype, q->fields[f],
                             q->scratch, err));
        if (f == 0 && info->vocabulary > 0)
            EBB_TRY(check_tokens(q, a->file.path, err));
        if (f == 1 && info->kind == DATA_CLASSES) {
            int64_t label = *(int64_t *)q->fields[f];
            if (label < 0 || label >= info->classes)
                return ebb_fail(err, EBB_ECORRUPT, "%s: label %lld of sample %llu", a->file.path,
                                (long long)label, (unsigned long long)q->index);
        }
        if (f == 1)
            EBB_TRY(data_check_mask(q, a->file.path, err));
    }
    return EBB_OK;
}

static void arrays_defaults(struct data_values *v)
{
    v->fields = (struct data_texts){.v = {"x", "y"}, .count = 2};
}

static const char *npy_check(const struct data_values *v, const char **key)
{
    *key = "fields";
    if (v->fields.count + (v->vocabulary > 0 ? 2 : 0) > DATA_MAX_FIELDS)
        return "at most 8 fields, 6 with a vocabulary";
    *key = "train_files";
    if (v->train_files.count != v->fields.count)
        return "one file for each field is needed";
    *key = "val_files";
    if (v->val_files.count && v->val_files.count != v->fields.count)
        return "one file for each field is needed";
    return NULL;
}

static const char *one_file_check(const struct data_values *v, const char **key)
{
    *key = "fields";
    if (v->fields.count + (v->vocabulary > 0 ? 2 : 0) > DATA_MAX_FIELDS)
        return "at most 8 fields, 6 with a vocabulary";
    *key = "train_files";
    if (v->train_files.count != 1 || v->val_files.count > 1)
        return "one file holds the arrays of a split";
    return NULL;
}

/* The three differ in name, summary, check and format. */
#define ARRAYS_ROW(text, what, check_, format)                                                     \
    {                                                                                              \
        DATA_ROW(text, what, DATA_ARRAYS, struct arrays_state, arrays_open, arrays_read,           \
                 arrays_close),                                                                    \
            .keys = "data_dir train_files val_files fields classes image_dtype vocabulary",        \
            .required = "train_files", .defaults = arrays_defaults, .check = (check_),             \
            .variant = (format)                                                                    \
    }

const struct data_row data_row_npy =
    ARRAYS_ROW("npy", "numpy arrays, one file a field", npy_check, FORMAT_NPY);
const struct data_row data_row_npz =
    ARRAYS_ROW("npz", "numpy arrays in one archive", one_file_check, FORMAT_NPZ);
const struct data_row data_row_hdf5 =
    ARRAYS_ROW("hdf5", "datasets of one HDF5 file", one_file_check, FORMAT_HDF5);
