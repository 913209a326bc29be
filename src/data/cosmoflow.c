/* cosmoflow.c - the dataset `cosmoflow`: cubes of densities, TFRecord or HDF5. */
#include "data/internal.h"

#include <math.h>
#include <string.h>

#include "data/cosmoflow.h"
#include "data/hdf5.h"
#include "data/synthetic.h"
#include "data/tfrecord.h"

enum { CHANNELS = 4, TARGETS = 4, RECORD_SLACK = 4096 };

struct cosmo_state {
    struct data_folders files;
    struct data_cosmo cosmo;
    uint64_t seed;
};

static void cosmo_close(struct data_set *set)
{
    struct cosmo_state *state = set->state;
    data_folders_fini(&state->files);
}

static size_t cube_count(const struct data_cosmo *cosmo)
{
    return (size_t)(cosmo->size * cosmo->size * cosmo->size);
}

/* ln(x + 1), or x / mean(x); the sum is kept in double. */
static void normalise(float *x, size_t n, enum data_cosmo_norm norm)
{
    if (norm == DATA_COSMO_NONE)
        return;
    if (norm == DATA_COSMO_LOG) {
        for (size_t i = 0; i < n; i++)
            x[i] = logf(x[i] + 1.0f);
        return;
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    float mean = (float)(sum / (double)n);
    for (size_t i = 0; i < n; i++)
        x[i] /= mean;
}

static enum ebb_status read_record(const struct data_cosmo *state, const struct data_file *file,
                                   void *const *fields, struct data_scratch *scratch,
                                   struct ebb_error *err)
{
    struct data_stream s;
    size_t n = cube_count(state), length = 0, bytes = 0;
    uint8_t *record = NULL;
    const uint8_t *raw;
    struct data_feature x, y;
    if (state->is_packed && !data_file_is_gzip(file))
        return data_corrupt(err, file, 0, "not a gzip file, but compression is gzip");
    EBB_TRY(data_stream_open(&s, file, state->is_packed ? DATA_WRAP_AUTO : DATA_WRAP_PLAIN, 0,
                             file->length, err));
    enum ebb_status status =
        data_tfrecord_next(&s, n * CHANNELS * 2 + RECORD_SLACK, scratch, &record, &length, err);
    data_stream_close(&s);
    EBB_TRY(status);
    if (!record)
        return data_corrupt(err, file, 0, "TFRecord: no record in the file");
    EBB_TRY(data_example_find(file->path, record, length, "x", &x, err));
    EBB_TRY(data_example_find(file->path, record, length, "y", &y, err));
    EBB_TRY(data_feature_bytes(file->path, &x, &raw, &bytes, err));
    if (bytes != n * CHANNELS * 2)
        return ebb_fail(err, EBB_ECORRUPT,
                        "%s: x has %zu bytes; a cube of %lld with %d channels of 16 bits has %zu",
                        file->path, bytes, (long long)state->size, CHANNELS, n * CHANNELS * 2);
    for (size_t c = 0; fields[0] && c < CHANNELS; c++) { /* channel last to channel first */
        float *to = (float *)fields[0] + c * n;
        for (size_t i = 0; i < n; i++) {
            int16_t count;
            memcpy(&count, raw + 2 * (i * CHANNELS + c), sizeof count);
            to[i] = (float)count;
        }
    }
    float target[TARGETS];
    EBB_TRY(data_feature_floats(file->path, &y, TARGETS, target, err));
    if (fields[1])
        memcpy(fields[1], target, sizeof target);
    return EBB_OK;
}

static enum ebb_status read_cube(const struct data_cosmo *state, const struct data_file *file,
                                 void *const *fields, struct data_scratch *scratch,
                                 struct ebb_error *err)
{
    struct data_h5 h;
    struct data_h5_dataset x, y;
    uint64_t size = (uint64_t)state->size;
    EBB_TRY(data_h5_open(&h, file, err));
    EBB_TRY(data_h5_find(&h, "x", &x, err));
    EBB_TRY(data_h5_find(&h, "y", &y, err));
    if (x.rank != 4 || x.dims[0] != CHANNELS || x.dims[1] != size || x.dims[2] != size ||
        x.dims[3] != size || y.rank != 1 || y.dims[0] != TARGETS)
        return ebb_fail(err, EBB_ECORRUPT, "%s: x must be [%d, %lld, %lld, %lld], y [%d]",
                        file->path, CHANNELS, (long long)size, (long long)size, (long long)size,
                        TARGETS);
    if (fields[0])
        EBB_TRY(data_h5_read(&h, &x, 0, CHANNELS, DATA_F32, fields[0], scratch, err));
    if (fields[1])
        EBB_TRY(data_h5_read(&h, &y, 0, TARGETS, DATA_F32, fields[1], scratch, err));
    return EBB_OK;
}

enum ebb_status data_cosmo_read(const struct data_cosmo *cosmo, const struct data_file *file,
                                void *const *fields, struct data_scratch *scratch,
                                struct ebb_error *err)
{
    if (cosmo->is_h5)
        EBB_TRY(read_cube(cosmo, file, fields, scratch, err));
    else
        EBB_TRY(read_record(cosmo, file, fields, scratch, err));
    if (fields[0])
        normalise(fields[0], cube_count(cosmo) * CHANNELS, cosmo->norm);
    return EBB_OK;
}

static enum ebb_status make_cube(const struct cosmo_state *state, const struct data_request *q,
                                 struct ebb_error *err)
{
    size_t n = cube_count(&state->cosmo) * CHANNELS;
    float *grids;
    int16_t *counts;
    float y[TARGETS];
    EBB_TRY(data_scratch_take(q->scratch, data_cosmos_scratch(), &grids, err));
    EBB_TRY(data_scratch_take(q->scratch, n * sizeof *counts, &counts, err));
    data_cosmos_make(state->seed, state->cosmo.size, q->split, q->index, grids, counts, y);
    for (size_t i = 0; q->fields[0] && i < n; i++)
        ((float *)q->fields[0])[i] = (float)counts[i];
    if (q->fields[1])
        memcpy(q->fields[1], y, sizeof y);
    return EBB_OK;
}

static enum ebb_status cosmo_read(const struct data_request *q, struct ebb_error *err)
{
    const struct cosmo_state *state = q->set->state;
    struct data_file file;
    if (q->set->info.is_synthetic) {
        EBB_TRY(make_cube(state, q, err));
        if (q->fields[0])
            normalise(q->fields[0], cube_count(&state->cosmo) * CHANNELS, state->cosmo.norm);
        return EBB_OK;
    }
    EBB_TRY(data_folders_open(&state->files, q->split, q->index, &file, err));
    enum ebb_status status = data_cosmo_read(&state->cosmo, &file, q->fields, q->scratch, err);
    data_file_close(&file);
    return status;
}

static enum ebb_status cosmo_open(struct data_set *set, const struct data_values *v,
                                  struct ebb_error *err)
{
    static const char *const folders[2][DATA_SPLITS] = {{"train", "validation"},
                                                        {"hdf5_train", "hdf5_val"}};
    struct cosmo_state *state = set->state;
    state->seed = v->synthetic_seed;
    state->cosmo = (struct data_cosmo){
        .is_h5 = v->h5,
        .is_packed = strcmp(v->compression, "gzip") == 0,
        .norm = v->apply_log ? DATA_COSMO_LOG : DATA_COSMO_MEAN,
        .size = v->size,
    };
    if (v->h5 && !v->is_synthetic)
        state->cosmo.norm = strcmp(v->h5_normalize, "log") == 0    ? DATA_COSMO_LOG
                            : strcmp(v->h5_normalize, "mean") == 0 ? DATA_COSMO_MEAN
                                                                   : DATA_COSMO_NONE;
    set->is_first_subset = true;
    set->loader.sampler_drop_last = true;
    set->make_formats = "tfrecord.gz tfrecord hdf5";
    struct data_info *info = &set->info;
    info->channels = CHANNELS;
    info->height = info->width = v->size;
    data_add_field(info, "x", DATA_F32, 4, (int64_t[]){CHANNELS, v->size, v->size, v->size});
    data_add_field(info, "y", DATA_F32, 1, (int64_t[]){TARGETS});
    size_t raw = cube_count(&state->cosmo) * CHANNELS * 2;
    info->scratch_bytes = raw + RECORD_SLACK + 64 + DATA_STREAM_BYTES;
    if (v->is_synthetic) {
        info->scratch_bytes = raw + data_cosmos_scratch() + 128;
        data_synthetic_counts(set, v, 524288, 65536);
        return EBB_OK;
    }
    EBB_TRY(data_folders_list(&state->files, set, folders[v->h5], v->h5 ? data_h5_suffixes : NULL,
                              NULL, err));
    if (state->cosmo.is_h5) /* chunks of any size up to the whole cube */
        info->scratch_bytes = 2 * (raw * 2 + 64) + DATA_STREAM_BYTES;
    return EBB_OK;
}

static void cosmo_defaults(struct data_values *v)
{
    v->size = 128;
    v->apply_log = true;
    v->h5_normalize = "mean";
}

static const char *cosmo_check(const struct data_values *v, const char **key)
{
    *key = "size";
    return v->size > 1024 ? "at most 1024" : NULL;
}

const struct data_row data_row_cosmoflow = {
    DATA_ROW("cosmoflow", "cubes of densities with four numbers, TFRecord or HDF5", DATA_NUMBERS,
             struct cosmo_state, cosmo_open, cosmo_read, cosmo_close),
    .keys =
        "data_dir n_train n_eval h5 compression apply_log h5_normalize size samples val_samples",
    .required = "data_dir",
    .can_synthesize = true,
    .defaults = cosmo_defaults,
    .check = cosmo_check,
};
