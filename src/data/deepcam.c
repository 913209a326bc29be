/* deepcam.c - the dataset `deepcam`: one HDF5 file per sample, channel last. */
#include "data/internal.h"

#include <string.h>

#include "base/heap.h"
#include "data/hdf5.h"
#include "data/synthetic.h"

enum { CHANNELS = 16, CLASSES = 3, FILE_SEED = 12345 };

struct deepcam_state {
    struct data_folders files;
    uint32_t *order; /* of training files, shuffled once */
    int64_t height, width;
    float shift[CHANNELS], scale[CHANNELS];
    struct data_climate climate; /* generated */
};

static void deepcam_close(struct data_set *set)
{
    struct deepcam_state *state = set->state;
    data_folders_fini(&state->files);
    ebb_free(state->order);
}

/* climate/minval or climate/maxval */
static enum ebb_status read_extreme(const struct data_file *file, const char *name,
                                    float values[CHANNELS], struct ebb_error *err)
{
    uint8_t memory[65536];
    struct data_scratch scratch = {.memory = memory, .bytes = sizeof memory};
    struct data_h5 h;
    struct data_h5_dataset d;
    EBB_TRY(data_h5_open(&h, file, err));
    EBB_TRY(data_h5_find(&h, name, &d, err));
    if (d.rank != 1)
        return ebb_fail(err, EBB_ECORRUPT, "%s: minval and maxval must have rank 1", file->path);
    return data_h5_read(&h, &d, 0, CHANNELS, DATA_F32, values, &scratch, err);
}

static enum ebb_status read_stats(struct deepcam_state *state, const struct data_file *file,
                                  struct ebb_error *err)
{
    float most[CHANNELS];
    EBB_TRY(read_extreme(file, "climate/minval", state->shift, err));
    EBB_TRY(read_extreme(file, "climate/maxval", most, err));
    for (int c = 0; c < CHANNELS; c++) {
        state->scale[c] = 1.0f / (most[c] - state->shift[c]);
        if (!(most[c] > state->shift[c]))
            return ebb_fail(err, EBB_ECORRUPT, "%s: channel %d: largest value %g, smallest %g",
                            file->path, c, (double)most[c], (double)state->shift[c]);
    }
    return EBB_OK;
}

/* Smallest and largest values of the channels, or the published ones. */
static enum ebb_status find_stats(struct deepcam_state *state, const char *root,
                                  struct ebb_error *err)
{
    static const float shift[CHANNELS] = {0.0261446f,  -88.33799f,  -84.62094f,  -78.56367f,
                                          -77.722176f, 7.33e-12f,   48330.793f,  87595.43f,
                                          183.57639f,  208.38266f,  -7.186e-19f, 109.6427f,
                                          94.19403f,   -0.3758444f, 9952.041f,   20.36258f};
    static const float scale[CHANNELS] = {
        0.009176746f,   0.005740697f,   0.0057473835f,  0.0064381761f, 0.0063189482f, 6.8662953f,
        1.6972332e-05f, 4.0909967e-05f, 0.01545356f,    0.012881465f,  26774.627f,    0.0041156332f,
        0.0042087096f,  1.7462624e-04f, 3.3861629e-04f, 0.019487498f};
    memcpy(state->shift, shift, sizeof shift);
    memcpy(state->scale, scale, sizeof scale);
    char *path;
    struct data_file file = {0};
    EBB_TRY(data_path(&path, root, "stats.h5", err));
    enum ebb_status status = EBB_OK;
    if (data_path_exists(path)) {
        status = data_file_open(&file, path, err);
        EBB_THEN(status, read_stats(state, &file, err));
    }
    data_file_close(&file);
    ebb_free(path);
    return status;
}

static enum ebb_status open_sample(const struct deepcam_state *state, enum data_split split,
                                   uint64_t index, struct data_file *file, struct data_h5 *h,
                                   struct data_h5_dataset *x, struct data_h5_dataset *labels,
                                   struct ebb_error *err)
{
    EBB_TRY(data_folders_open(&state->files, split, index, file, err));
    EBB_TRY(data_h5_open(h, file, err));
    EBB_TRY(data_h5_find(h, "climate/data", x, err));
    EBB_TRY(data_h5_find(h, "climate/labels_0", labels, err));
    if (x->rank != 3 || labels->rank != 2 || x->dims[2] != CHANNELS ||
        labels->dims[0] != x->dims[0] || labels->dims[1] != x->dims[1])
        return ebb_fail(err, EBB_ECORRUPT,
                        "%s: climate/data must be [height, width, %d], climate/labels_0 [height, "
                        "width]",
                        file->path, CHANNELS);
    return EBB_OK;
}

/* Rows that are read together: a chunk's, so that each chunk is unpacked once. */
static uint64_t block_rows(const struct data_h5_dataset *x)
{
    return x->layout == DATA_H5_CHUNKED ? x->chunk[0] : 1;
}

static size_t sample_scratch(const struct data_h5_dataset *x, const struct data_h5_dataset *labels)
{
    size_t a = data_h5_scratch(x), b = data_h5_scratch(labels);
    return (a > b ? a : b) + (size_t)(block_rows(x) * x->dims[1]) * CHANNELS * sizeof(float) + 256;
}

static void describe(struct data_set *set, int64_t height, int64_t width)
{
    struct data_info *info = &set->info;
    info->channels = CHANNELS;
    info->height = height;
    info->width = width;
    info->classes = CLASSES;
    data_add_field(info, "image", DATA_F32, 3, (int64_t[]){CHANNELS, height, width});
    data_add_field(info, "mask", DATA_I64, 2, (int64_t[]){height, width});
    set->loader.sampler_drop_last = true;
    set->make_formats = "hdf5";
}

static enum ebb_status open_real(struct data_set *set, struct ebb_error *err)
{
    static const char *const folders[] = {"train", "validation"};
    struct deepcam_state *state = set->state;
    struct data_file file = {0};
    struct data_h5 h;
    struct data_h5_dataset x, labels;
    /* statistics may lie among the samples */
    EBB_TRY(data_folders_list(&state->files, set, folders, data_h5_suffixes, "stats.h5", err));
    EBB_TRY(find_stats(state, set->folder, err));
    size_t n = state->files.names[DATA_TRAIN].count;
    EBB_TRY(ebb_new(&state->order, n, sizeof *state->order, err));
    for (size_t i = 0; i < n; i++)
        state->order[i] = (uint32_t)i;
    data_permute(state->order, n, FILE_SEED, 0, DATA_STREAM_ORDER);
    enum ebb_status status = open_sample(state, DATA_TRAIN, 0, &file, &h, &x, &labels, err);
    if (status == EBB_OK && (x.dims[0] > 1 << 20 || x.dims[1] > 1 << 20))
        status = ebb_fail(err, EBB_ELIMIT, "%s: more than 2^20 rows or columns", file.path);
    if (status == EBB_OK) {
        state->height = (int64_t)x.dims[0];
        state->width = (int64_t)x.dims[1];
        set->info.scratch_bytes = sample_scratch(&x, &labels);
    }
    data_file_close(&file);
    EBB_TRY(status);
    describe(set, state->height, state->width);
    return EBB_OK;
}

static enum ebb_status deepcam_open(struct data_set *set, const struct data_values *v,
                                    struct ebb_error *err)
{
    struct deepcam_state *state = set->state;
    if (!v->is_synthetic)
        return open_real(set, err);
    state->height = v->height;
    state->width = v->width;
    state->climate = (struct data_climate){v->synthetic_seed, CHANNELS, v->height, v->width};
    set->info.scratch_bytes = data_climate_scratch(&state->climate) + 64 +
                              (size_t)(v->height * v->width) * sizeof(int64_t);
    data_synthetic_counts(set, v, 121266, 15158);
    describe(set, v->height, v->width);
    return EBB_OK;
}

/* Channel last to channel first, normalised, block of rows by block of rows. */
static enum ebb_status read_image(const struct deepcam_state *state, const struct data_h5 *h,
                                  const struct data_h5_dataset *x, float *out,
                                  struct data_scratch *scratch, struct ebb_error *err)
{
    uint64_t most = block_rows(x), width = x->dims[1], area = x->dims[0] * width;
    float *block;
    EBB_TRY(
        data_scratch_take(scratch, (size_t)(most * width) * CHANNELS * sizeof *block, &block, err));
    for (uint64_t y = 0; y < x->dims[0]; y += most) {
        uint64_t rows = x->dims[0] - y < most ? x->dims[0] - y : most;
        EBB_TRY(data_h5_read(h, x, y, rows, DATA_F32, block, scratch, err));
        for (uint64_t c = 0; c < CHANNELS; c++) {
            float shift = state->shift[c], scale = state->scale[c];
            float *to = out + c * area + y * width;
            for (uint64_t i = 0; i < rows * width; i++)
                to[i] = (block[i * CHANNELS + c] - shift) * scale;
        }
    }
    return EBB_OK;
}

static enum ebb_status read_sample(const struct deepcam_state *state, enum data_split split,
                                   uint64_t index, struct data_file *file, void *const *fields,
                                   struct data_scratch *scratch, struct ebb_error *err)
{
    struct data_h5 h;
    struct data_h5_dataset x, labels;
    EBB_TRY(open_sample(state, split, index, file, &h, &x, &labels, err));
    if ((int64_t)x.dims[0] != state->height || (int64_t)x.dims[1] != state->width)
        return ebb_fail(err, EBB_ECORRUPT, "%s: %llu x %llu, the first file has %lld x %lld",
                        file->path, (unsigned long long)x.dims[0], (unsigned long long)x.dims[1],
                        (long long)state->height, (long long)state->width);
    if (fields[0])
        EBB_TRY(read_image(state, &h, &x, fields[0], scratch, err));
    if (!fields[1])
        return EBB_OK;
    int64_t *mask = fields[1];
    EBB_TRY(data_h5_read(&h, &labels, 0, labels.dims[0], DATA_I64, mask, scratch, err));
    for (int64_t i = 0; i < state->height * state->width; i++) {
        if (mask[i] < 0 || mask[i] >= CLASSES)
            return ebb_fail(err, EBB_ECORRUPT, "%s: climate/labels_0: class %lld at pixel %lld",
                            file->path, (long long)mask[i], (long long)i);
    }
    return EBB_OK;
}

static enum ebb_status deepcam_read(const struct data_request *q, struct ebb_error *err)
{
    const struct deepcam_state *state = q->set->state;
    struct data_file file = {0};
    if (q->set->info.is_synthetic) {
        const struct data_climate *c = &state->climate;
        float *grid;
        EBB_TRY(data_scratch_take(q->scratch, data_climate_scratch(c), &grid, err));
        size_t bytes = (size_t)(c->height * c->width) * sizeof(int64_t);
        int64_t *mask = q->fields[1];
        if (!mask)
            EBB_TRY(data_scratch_take(q->scratch, bytes, &mask, err));
        data_climate_make(c, q->split, q->index, grid, q->fields[0], mask);
        return EBB_OK;
    }
    uint64_t index = q->split == DATA_TRAIN ? state->order[q->index] : q->index;
    enum ebb_status status = read_sample(state, q->split, index, &file, q->fields, q->scratch, err);
    data_file_close(&file);
    return status;
}

static void deepcam_defaults(struct data_values *v)
{
    v->height = 768;
    v->width = 1152;
}

const struct data_row data_row_deepcam = {
    DATA_ROW("deepcam", "climate images with masks, one HDF5 file a sample", DATA_MASKS,
             struct deepcam_state, deepcam_open, deepcam_read, deepcam_close),
    .keys = "data_dir height width samples val_samples",
    .required = "data_dir",
    .can_synthesize = true,
    .defaults = deepcam_defaults,
};
