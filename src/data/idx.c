/* idx.c - IDX files, and the datasets that are made of them: idx, fashion_mnist. */
#include "data/idx.h"

#include <string.h>

#include "base/codec.h"
#include "base/heap.h"
#include "data/pixels.h"

static enum ebb_status idx_header(struct data_idx *idx, const struct data_file *file,
                                  struct data_stream *s, uint64_t *bytes, struct ebb_error *err)
{
    uint8_t head[4], sizes[16];
    EBB_TRY(data_stream_take(s, head, 4, err));
    if (head[0] || head[1])
        return data_corrupt(err, file, 0, "not an IDX file: it starts with %02x %02x, not 00 00",
                            head[0], head[1]);
    if (head[2] != 0x08)
        return data_corrupt(err, file, 2, "IDX type 0x%02x; 0x08 (bytes) is supported", head[2]);
    if (head[3] < 1 || head[3] > 4)
        return data_corrupt(err, file, 3, "IDX rank %u; 1 to 4 are supported", head[3]);
    idx->rank = head[3];
    EBB_TRY(data_stream_take(s, sizes, 4u * head[3], err));
    *bytes = 1;
    idx->item = 1;
    for (int i = 0; i < idx->rank; i++) {
        idx->dims[i] = (uint32_t)ebb_load_big(sizes + 4 * i, 4);
        if (__builtin_mul_overflow(*bytes, idx->dims[i], bytes) ||
            (i > 0 && __builtin_mul_overflow(idx->item, idx->dims[i], &idx->item)))
            return data_corrupt(err, file, 4, "IDX sizes overflow");
    }
    idx->offset = 4 + 4 * (uint64_t)idx->rank;
    return EBB_OK;
}

static enum ebb_status idx_unpack(struct data_idx *idx, struct data_stream *s, uint64_t bytes,
                                  struct data_set *set, struct ebb_error *err)
{
    struct data_file unpacked = {0};
    if (bytes > data_stream_limit(s))
        return data_corrupt(err, &idx->file, 4,
                            "IDX sizes promise %llu bytes, more than the packed data can hold",
                            (unsigned long long)bytes);
    EBB_TRY(data_unpack(s, bytes, set, &unpacked, err));
    if (unpacked.length < bytes) {
        enum ebb_status status =
            data_corrupt(err, &idx->file, idx->file.length,
                         "IDX sizes promise %llu bytes of data, %llu are there",
                         (unsigned long long)bytes, (unsigned long long)unpacked.length);
        data_file_close(&unpacked);
        return status;
    }
    data_stream_close(s);
    data_file_close(&idx->file);
    idx->file = unpacked;
    idx->offset = 0;
    return EBB_OK;
}

enum ebb_status data_idx_read(struct data_idx *idx, struct data_file *take_file,
                              struct data_set *set, struct ebb_error *err)
{
    struct data_stream s = {0};
    uint64_t bytes = 0;
    *idx = (struct data_idx){.file = *take_file};
    *take_file = (struct data_file){0};
    enum ebb_status status =
        data_stream_open(&s, &idx->file, DATA_WRAP_AUTO, 0, idx->file.length, err);
    EBB_THEN(status, idx_header(idx, &idx->file, &s, &bytes, err));
    if (status == EBB_OK && s.state)
        status = idx_unpack(idx, &s, bytes, set, err);
    else if (status == EBB_OK && bytes != idx->file.length - idx->offset)
        status = data_corrupt(
            err, &idx->file, idx->offset, "IDX sizes promise %llu bytes of data, the file has %llu",
            (unsigned long long)bytes, (unsigned long long)(idx->file.length - idx->offset));
    data_stream_close(&s);
    if (status != EBB_OK)
        data_idx_fini(idx);
    return status;
}

void data_idx_fini(struct data_idx *idx)
{
    data_file_close(&idx->file);
    *idx = (struct data_idx){0};
}

/* ---- the datasets ---- */

struct idx_state {
    struct data_idx images[DATA_SPLITS], labels[DATA_SPLITS];
    struct data_small small;
};

static void idx_close(struct data_set *set)
{
    struct idx_state *state = set->state;
    for (int s = 0; s < DATA_SPLITS; s++) {
        data_idx_fini(&state->images[s]);
        data_idx_fini(&state->labels[s]);
    }
}

/* `name` in the data folder, or with .gz when only that is there. */
static enum ebb_status idx_load(struct data_set *set, const char *name, struct data_idx *idx,
                                struct ebb_error *err)
{
    char *path;
    struct ebb_str packed = {0};
    struct data_file file = {0};
    EBB_TRY(data_path(&path, set->folder, name, err));
    ebb_str_printf(&packed, "%s.gz", path);
    enum ebb_status status = ebb_str_status(&packed, err);
    bool is_packed = status == EBB_OK && !data_path_exists(path) && data_path_exists(packed.data);
    EBB_THEN(status, data_file_open(&file, is_packed ? packed.data : path, err));
    EBB_THEN(status, data_idx_read(idx, &file, set, err));
    ebb_str_fini(&packed);
    ebb_free(path);
    return status;
}

static enum ebb_status idx_pair(struct data_set *set, int split, struct ebb_error *err)
{
    struct idx_state *state = set->state;
    const struct data_idx *images = &state->images[split], *labels = &state->labels[split];
    if (images->rank < 3)
        return ebb_fail(err, EBB_EINPUT, "%s: rank %d; images have 3 (or 4 with channels)",
                        images->file.path, images->rank);
    if (labels->rank != 1 || labels->dims[0] != images->dims[0])
        return ebb_fail(err, EBB_EINPUT, "%s: %llu labels (rank %d) for %llu images in %s",
                        labels->file.path, (unsigned long long)labels->dims[0], labels->rank,
                        (unsigned long long)images->dims[0], images->file.path);
    set->info.full_count[split] = images->dims[0];
    return EBB_OK;
}

/* Highest label + 1 over both splits. */
static enum ebb_status idx_classes(const struct idx_state *state, int64_t *classes,
                                   struct ebb_error *err)
{
    uint8_t buffer[4096];
    int64_t most = 0;
    for (int s = 0; s < DATA_SPLITS; s++) {
        const struct data_idx *labels = &state->labels[s];
        for (uint64_t i = 0; labels->rank && i < labels->dims[0]; i += sizeof buffer) {
            uint64_t left = labels->dims[0] - i;
            size_t n = left < sizeof buffer ? (size_t)left : sizeof buffer;
            EBB_TRY(data_file_read(&labels->file, labels->offset + i, buffer, n, err));
            for (size_t j = 0; j < n; j++)
                most = buffer[j] > most ? buffer[j] : most;
        }
    }
    *classes = most + 1;
    return EBB_OK;
}

static enum ebb_status idx_describe(struct data_set *set, const struct data_values *v,
                                    const struct data_norm *norm, struct ebb_error *err)
{
    struct idx_state *state = set->state;
    const struct data_idx *images = &state->images[DATA_TRAIN];
    struct data_info *info = &set->info;
    const char *key;
    int64_t stored = images->rank == 4 ? (int64_t)images->dims[1] : 1;
    int64_t height = (int64_t)images->dims[images->rank - 2];
    int64_t width = (int64_t)images->dims[images->rank - 1];
    int64_t channels = v->channels ? v->channels : stored;
    if (channels > DATA_PIXEL_CHANNELS || (channels != stored && stored != 1))
        return ebb_fail(err, EBB_EINPUT, "%s: %lld channels in the file; channels %lld must fit",
                        images->file.path, (long long)stored, (long long)channels);
    const char *wrong = data_pixels_check(v, channels, &key);
    if (wrong)
        return ebb_fail(err, EBB_EINPUT, "data.%s: %s: %s", key, images->file.path, wrong);
    int64_t size_y = v->size ? v->size : height, size_x = v->size ? v->size : width;
    if (height < 1 || width < 1 || size_y < height || size_x < width || size_x > 4096)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: images of %lld x %lld; size %lld must not be smaller, nor above 4096",
                        images->file.path, (long long)height, (long long)width, (long long)v->size);
    state->small = (struct data_small){
        .in_channels = stored,
        .height = height,
        .width = width,
        .channels = channels,
        .size_y = size_y,
        .size_x = size_x,
    };
    data_small_describe(&state->small, v, norm, info);
    set->view = data_small_view(&state->small);
    EBB_TRY(idx_classes(state, &info->classes, err));
    info->scratch_bytes = images->item + 64;
    return data_set_classes(info, v->classes, err);
}

static enum ebb_status idx_open_files(struct data_set *set, const struct data_values *v,
                                      const char *const names[4], const struct data_norm *norm,
                                      struct ebb_error *err)
{
    struct idx_state *state = set->state;
    for (int s = 0; s < DATA_SPLITS; s++) {
        if (!names[2 * s])
            continue;
        EBB_TRY(idx_load(set, names[2 * s], &state->images[s], err));
        EBB_TRY(idx_load(set, names[2 * s + 1], &state->labels[s], err));
        EBB_TRY(idx_pair(set, s, err));
        if (s && (state->images[1].rank != state->images[0].rank ||
                  state->images[1].item != state->images[0].item))
            return ebb_fail(err, EBB_EINPUT, "%s: images of another shape than in %s",
                            state->images[1].file.path, state->images[0].file.path);
    }
    return idx_describe(set, v, norm, err);
}

static enum ebb_status idx_open(struct data_set *set, const struct data_values *v,
                                struct ebb_error *err)
{
    static const struct data_norm half = {{0.5, 0.5, 0.5, 0.5}, {0.5, 0.5, 0.5, 0.5}};
    const char *const names[4] = {v->train_images, v->train_labels, v->val_images, v->val_labels};
    return idx_open_files(set, v, names, &half, err);
}

static enum ebb_status fashion_open(struct data_set *set, const struct data_values *v,
                                    struct ebb_error *err)
{
    static const struct data_norm norm = {{0.2860, 0.2860, 0.2860}, {0.3530, 0.3530, 0.3530}};
    static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    enum ebb_status status = idx_open_files(set, v, names, &norm, err);
    if (status == EBB_EINPUT && strcmp(v->data_dir, "/usr/share/datasets/fashion-mnist") == 0)
        return ebb_context(err, status, "Debian package dataset-fashion-mnist is not installed");
    return status;
}

static enum ebb_status idx_read(const struct data_request *request, struct ebb_error *err)
{
    const struct idx_state *state = request->set->state;
    const struct data_idx *images = &state->images[request->split];
    const struct data_idx *labels = &state->labels[request->split];
    uint64_t offset = images->offset + request->index * images->item;
    if (request->fields[0] && images->file.fd < 0) { /* unpacked: no copy */
        data_small_make(&state->small, images->file.memory + offset, request, request->fields[0]);
    } else if (request->fields[0]) {
        uint8_t *planes;
        EBB_TRY(data_scratch_take(request->scratch, images->item, &planes, err));
        EBB_TRY(data_file_read(&images->file, offset, planes, images->item, err));
        data_small_make(&state->small, planes, request, request->fields[0]);
    }
    if (request->fields[1]) {
        uint8_t label;
        EBB_TRY(data_file_read(&labels->file, labels->offset + request->index, &label, 1, err));
        *(int64_t *)request->fields[1] = label;
    }
    return EBB_OK;
}

static void fashion_defaults(struct data_values *v)
{
    v->data_dir = "/usr/share/datasets/fashion-mnist";
}

static const char *idx_check(const struct data_values *v, const char **key)
{
    *key = "val_images";
    if (!v->val_images != !v->val_labels)
        return "val_images and val_labels must be given together";
    return NULL;
}

const struct data_row data_row_fashion_mnist = {
    DATA_ROW("fashion_mnist",
             "grey images of clothes, 28 x 28, from the Debian package dataset-fashion-mnist",
             DATA_CLASSES, struct idx_state, fashion_open, idx_read, idx_close),
    .aliases = "fashion-mnist",
    .keys = "data_dir size channels classes normalize mean std image_dtype augment",
    .defaults = fashion_defaults,
};

const struct data_row data_row_idx = {
    DATA_ROW("idx", "IDX files of images and labels, gzip or not", DATA_CLASSES, struct idx_state,
             idx_open, idx_read, idx_close),
    .aliases = "mnist",
    .keys = "data_dir train_images train_labels val_images val_labels size channels classes "
            "normalize mean std image_dtype augment",
    .required = "train_images train_labels",
    .check = idx_check,
};
