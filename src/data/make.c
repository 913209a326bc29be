/* make.c - synthetic samples written in the formats that real datasets have. */
#include "data/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/heap.h"
#include "data/hdf5.h"
#include "data/image.h"
#include "data/synthetic.h"
#include "data/tfrecord.h"

struct making {
    const struct data_set *set;
    const char *directory, *format;
    enum data_split split;
    uint64_t index;
    void *fields[DATA_MAX_FIELDS]; /* one sample */
};

/* The path of a file, in a folder ("": the directory itself) that exists afterwards. */
__attribute__((format(printf, 5, 6))) static enum ebb_status
make_path(struct ebb_str *path, const char *directory, const char *folder, struct ebb_error *err,
          const char *fmt, ...)
{
    va_list args;
    ebb_str_clear(path);
    ebb_str_printf(path, "%s%s%s", directory, *folder ? "/" : "", folder);
    EBB_TRY(ebb_str_status(path, err));
    EBB_TRY(ebb_file_mkdirs(path->data, err));
    ebb_str_addc(path, '/');
    va_start(args, fmt);
    ebb_str_vprintf(path, fmt, args);
    va_end(args);
    return ebb_str_status(path, err);
}

/* ---- pictures ---- */

static enum ebb_status make_picture(const struct making *m, struct ebb_str *path,
                                    struct ebb_error *err)
{
    const struct data_info *info = &m->set->info;
    bool is_png = strcmp(m->format, "png") == 0;
    int64_t class = (int64_t)(m->index % (uint64_t)info->classes);
    char folder[64];
    snprintf(folder, sizeof folder, "%s/c%05lld", m->split == DATA_TRAIN ? "train" : "val",
             (long long)class);
    EBB_TRY(make_path(path, m->directory, folder, err, "%08llu.%s", (unsigned long long)m->index,
                      is_png ? "png" : "jpg"));
    struct data_waves *waves;
    uint8_t *rgb = NULL;
    enum ebb_status status = ebb_new(&waves, 1, sizeof *waves, err);
    EBB_THEN(status, ebb_new(&rgb, DATA_PICTURE * DATA_PICTURE, 3, err));
    if (status == EBB_OK) {
        data_waves_init(waves, m->set->synthetic_seed, m->split, m->index, class);
        for (int64_t y = 0; y < DATA_PICTURE; y++)
            data_waves_row(waves, y, rgb + y * DATA_PICTURE * 3);
        status = is_png ? data_png_write(path->data, rgb, DATA_PICTURE, DATA_PICTURE, err)
                        : data_jpeg_write(path->data, rgb, DATA_PICTURE, DATA_PICTURE, 95, err);
    }
    ebb_free(waves);
    ebb_free(rgb);
    return status;
}

/* ---- TFRecord ---- */

static uint64_t varint_bytes(uint64_t value)
{
    uint64_t n = 1;
    while (value >>= 7)
        n++;
    return n;
}

static uint64_t framed(uint64_t bytes) /* a field of `bytes` with its head (tag of one byte) */
{
    return 1 + varint_bytes(bytes) + bytes;
}

/* One entry: key, and a list of kind `kind` with one packed value. */
static void add_feature(struct ebb_str *s, const char *key, unsigned kind, const void *bytes,
                        size_t n)
{
    uint64_t list = framed(n), feature = framed(list),
             entry = framed(strlen(key)) + framed(feature);
    ebb_add_field(s, 1, entry);
    ebb_add_field(s, 1, strlen(key));
    ebb_str_add(s, key);
    ebb_add_field(s, 2, feature);
    ebb_add_field(s, kind, list);
    ebb_add_field(s, 1, n);
    ebb_str_addn(s, bytes, n);
}

static enum ebb_status write_gzip(const char *path, const char *bytes, size_t n,
                                  struct ebb_error *err)
{
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return ebb_no_memory(err, 1 << 18);
    size_t room = deflateBound(&z, n);
    uint8_t *out;
    enum ebb_status status = ebb_new(&out, room, 1, err);
    if (status == EBB_OK) {
        uint8_t *in;
        memcpy(&in, &bytes, sizeof in); /* zlib's interface is not const */
        z.next_in = in;
        z.avail_in = (unsigned)n;
        z.next_out = out;
        z.avail_out = (unsigned)room;
        if (deflate(&z, Z_FINISH) != Z_STREAM_END)
            status = ebb_fail(err, EBB_EINTERNAL, "%s: gzip failed", path);
        else
            status = ebb_file_write_atomic(path, out, room - z.avail_out, err);
    }
    deflateEnd(&z);
    ebb_free(out);
    return status;
}

static enum ebb_status make_record(const struct making *m, const char *path, const int16_t *x,
                                   size_t n, const float *y, struct ebb_error *err)
{
    struct ebb_str features = {0}, record = {0};
    add_feature(&features, "x", 1, x, n * sizeof *x);
    add_feature(&features, "y", 2, y, 4 * sizeof *y);
    uint64_t length = framed(features.length);
    uint8_t head[EBB_RECORD_HEAD], foot[4];
    ebb_record_head(head, length);
    ebb_str_addn(&record, (const char *)head, sizeof head);
    ebb_add_field(&record, 1, features.length);
    ebb_str_addn(&record, ebb_str_c(&features), features.length);
    enum ebb_status status = ebb_str_status(&features, err);
    EBB_THEN(status, ebb_str_status(&record, err));
    if (status == EBB_OK) {
        ebb_store_u32(foot, ebb_record_sum(record.data + sizeof head, record.length - sizeof head));
        ebb_str_addn(&record, (const char *)foot, sizeof foot);
    }
    EBB_THEN(status, ebb_str_status(&record, err));
    EBB_THEN(status, strcmp(m->format, "tfrecord.gz") == 0
                         ? write_gzip(path, record.data, record.length, err)
                         : ebb_file_write_atomic(path, record.data, record.length, err));
    ebb_str_fini(&features);
    ebb_str_fini(&record);
    return status;
}

static enum ebb_status make_cosmos(const struct making *m, struct ebb_str *path,
                                   struct ebb_error *err)
{
    int64_t size = m->set->info.fields[0].dims[1], n = size * size * size;
    bool is_h5 = strcmp(m->format, "hdf5") == 0, is_train = m->split == DATA_TRAIN;
    const char *folder =
        is_h5 ? (is_train ? "hdf5_train" : "hdf5_val") : (is_train ? "train" : "validation");
    EBB_TRY(make_path(path, m->directory, folder, err, "cube%08llu.%s",
                      (unsigned long long)m->index, is_h5 ? "h5" : "tfrecord"));
    float y[4], *grids, *numbers = m->fields[0];
    int16_t *counts = NULL, *last = NULL;
    enum ebb_status status = ebb_new(&grids, data_cosmos_scratch(), 1, err);
    EBB_THEN(status, ebb_new(&counts, (size_t)n * 4, sizeof *counts, err));
    EBB_THEN(status, ebb_new(&last, (size_t)n * 4, sizeof *last, err));
    if (status == EBB_OK) {
        data_cosmos_make(m->set->synthetic_seed, size, m->split, m->index, grids, counts, y);
        for (int64_t i = 0; i < 4 * n; i++) {
            last[i % n * 4 + i / n] = counts[i]; /* channel last */
            numbers[i] = (float)counts[i];
        }
        const struct data_h5_item items[] = {
            {"x", DATA_F32, 4, {4, size, size, size}, numbers},
            {"y", DATA_F32, 1, {4}, y},
        };
        status = is_h5 ? data_h5_write(path->data, items, 2, err)
                       : make_record(m, path->data, last, (size_t)n * 4, y, err);
    }
    ebb_free(grids);
    ebb_free(counts);
    ebb_free(last);
    return status;
}

/* ---- DeepCAM ---- */

static enum ebb_status make_stats(const char *directory, struct ebb_str *path,
                                  struct ebb_error *err)
{
    float low[16], high[16];
    for (int i = 0; i < 16; i++) {
        low[i] = 0;
        high[i] = 1; /* the values are made in [0, 1]: reading them back changes nothing */
    }
    const struct data_h5_item items[] = {{"climate/minval", DATA_F32, 1, {16}, low},
                                         {"climate/maxval", DATA_F32, 1, {16}, high}};
    EBB_TRY(make_path(path, directory, "", err, "stats.h5"));
    return data_h5_write(path->data, items, 2, err);
}

static enum ebb_status make_climate(const struct making *m, struct ebb_str *path,
                                    struct ebb_error *err)
{
    const struct data_info *info = &m->set->info;
    int64_t height = info->height, width = info->width, area = height * width;
    if (m->index == 0)
        EBB_TRY(make_stats(m->directory, path, err));
    EBB_TRY(make_path(path, m->directory, m->split == DATA_TRAIN ? "train" : "validation", err,
                      "data-%08llu.h5", (unsigned long long)m->index));
    EBB_TRY(data_read(m->set, m->split, m->index, 0, 0, m->fields, err));
    const float *x = m->fields[0];
    const int64_t *mask = m->fields[1];
    float *last;
    EBB_TRY(ebb_new(&last, (size_t)area * 17, sizeof *last, err));
    float *labels = last + area * 16;
    for (int64_t i = 0; i < area; i++) {
        for (int64_t c = 0; c < 16; c++)
            last[i * 16 + c] = x[c * area + i];
        labels[i] = (float)mask[i];
    }
    const struct data_h5_item items[] = {
        {"climate/data", DATA_F32, 3, {height, width, 16}, last},
        {"climate/labels_0", DATA_F32, 2, {height, width}, labels},
    };
    enum ebb_status status = data_h5_write(path->data, items, 2, err);
    ebb_free(last);
    return status;
}

/* ---- tokens: one file a split ---- */

static enum ebb_status make_tokens(const struct making *m, uint64_t count, struct ebb_str *path,
                                   struct ebb_error *err)
{
    const struct data_info *info = &m->set->info;
    struct ebb_file_out out;
    size_t width = info->vocabulary > 65536 ? 4 : 2;
    EBB_TRY(make_path(path, m->directory, "", err, "%s",
                      m->split == DATA_TRAIN ? "train.bin" : "val.bin"));
    EBB_TRY(ebb_file_out_open(&out, path->data, err));
    enum ebb_status status = EBB_OK;
    for (uint64_t i = 0; i < count && status == EBB_OK; i++) {
        status = data_read(m->set, m->split, i, 0, 0, m->fields, err);
        const int64_t *tokens = m->fields[0], *targets = m->fields[1];
        for (int64_t k = 0; k < info->sequence && status == EBB_OK; k++)
            fwrite(&tokens[k], width, 1, out.stream); /* little endian */
        if (status == EBB_OK && i + 1 == count)
            fwrite(&targets[info->sequence - 1], width, 1, out.stream);
    }
    EBB_THEN(status, ebb_file_out_commit(&out, err));
    if (status != EBB_OK)
        ebb_file_out_abort(&out);
    return status;
}

/* ---- the call ---- */

static enum ebb_status make_split(struct making *m, uint64_t count, struct ebb_error *err)
{
    struct ebb_str path = {0};
    enum ebb_status status = EBB_OK;
    bool is_tokens = strcmp(m->format, "tokens") == 0;
    if (is_tokens && count)
        status = make_tokens(m, count, &path, err);
    for (m->index = 0; !is_tokens && m->index < count && status == EBB_OK; m->index++) {
        if (m->set->row == &data_row_imagefolder)
            status = make_picture(m, &path, err);
        else if (m->set->row == &data_row_cosmoflow)
            status = make_cosmos(m, &path, err);
        else
            status = make_climate(m, &path, err);
    }
    ebb_str_fini(&path);
    return status;
}

enum ebb_status data_make(const struct data_set *set, const char *directory,
                          const struct data_make_options *options, struct ebb_error *err)
{
    const struct data_info *info = &set->info;
    struct making m = {.set = set, .directory = directory, .format = options->format};
    char first[32] = "";
    if (!info->is_synthetic || !set->make_formats)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "%s: only synthetic imagefolder, cosmoflow, deepcam, tokens and language "
                        "can be written",
                        info->name);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(set->make_formats, " "), set->make_formats);
    m.format = m.format ? m.format : first;
    if (!ebb_words_find(set->make_formats, m.format, strlen(m.format), NULL))
        return ebb_fail(err, EBB_EINPUT, "format %s; %s can be written as: %s", m.format,
                        info->name, set->make_formats);
    enum ebb_status status = EBB_OK;
    for (size_t f = 0; f < info->field_count && status == EBB_OK; f++)
        status = ebb_new(&m.fields[f], info->fields[f].bytes, 1, err);
    for (int s = 0; s < DATA_SPLITS && status == EBB_OK; s++) {
        m.split = s == 0 ? DATA_TRAIN : DATA_VALIDATION;
        if (options->count[s] > info->full_count[s])
            status = ebb_fail(err, EBB_EINPUT, "%s: %llu samples wanted, there are %llu",
                              info->name, (unsigned long long)options->count[s],
                              (unsigned long long)info->full_count[s]);
        else
            status = make_split(&m, options->count[s], err);
    }
    for (size_t f = 0; f < info->field_count; f++)
        ebb_free(m.fields[f]);
    return status;
}
