/* records.c - the dataset `tfrecord`: tf.Example records, fields told as name:dtype:dims.
 *
 * fields: [x:f32:4, image:u8:3x28x28, label:i64]. A bytes feature holds the numbers raw and
 * little-endian; float and int64 lists hold them as values. Plain files may have any number of
 * records (their places are noted when opened); a gzip file holds one, since it cannot be entered
 * in the middle. */
#include "data/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "data/tfrecord.h"

struct record_place {
    uint32_t file;
    uint64_t offset, length; /* of the record's head; of its payload */
};

struct records_state {
    struct data_file *files[DATA_SPLITS]; /* owned */
    size_t file_count[DATA_SPLITS];
    struct record_place *places[DATA_SPLITS];
    size_t place_count[DATA_SPLITS], place_capacity[DATA_SPLITS];
    char names[DATA_MAX_FIELDS][64];
    size_t count;
    uint64_t most; /* longest payload */
};

static void records_close(struct data_set *set)
{
    struct records_state *state = set->state;
    for (int s = 0; s < DATA_SPLITS; s++) {
        for (size_t i = 0; i < state->file_count[s]; i++)
            data_file_close(&state->files[s][i]);
        ebb_free(state->files[s]);
        ebb_free(state->places[s]);
    }
}

/* name:dtype[:AxBxC] */
static bool parse_field(const char *text, char name[64], enum data_dtype *dtype, int *rank,
                        int64_t dims[DATA_MAX_RANK])
{
    char type[8], rest[128] = "";
    int got = sscanf(text, "%63[^:]:%7[^:]:%127s", name, type, rest);
    bool is_found = false;
    for (int d = DATA_F32; got >= 2 && d <= DATA_I64; d++) {
        if (strcmp(type, data_dtype_text((enum data_dtype)d)) == 0) {
            *dtype = (enum data_dtype)d;
            is_found = true;
        }
    }
    *rank = 0;
    for (const char *at = rest; is_found && *at;) {
        size_t n = strspn(at, "0123456789");
        int64_t value = 0;
        if (n == 0 || n > 9 || *rank == DATA_MAX_RANK || (at[n] && at[n] != 'x'))
            return false;
        for (size_t i = 0; i < n; i++)
            value = value * 10 + (at[i] - '0');
        dims[(*rank)++] = value;
        at += n;
        at += *at == 'x';
    }
    return is_found && name[0];
}

static enum ebb_status add_place(struct records_state *state, int split, struct record_place place,
                                 struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&state->places[split], &state->place_capacity[split],
                     state->place_count[split] + 1, sizeof place, err));
    state->places[split][state->place_count[split]++] = place;
    state->most = place.length > state->most ? place.length : state->most;
    return EBB_OK;
}

static enum ebb_status index_file(struct records_state *state, int split, uint32_t number,
                                  struct ebb_error *err)
{
    const struct data_file *file = &state->files[split][number];
    struct data_stream s;
    uint64_t length = 0;
    bool is_end = false;
    EBB_TRY(data_stream_open(&s, file, DATA_WRAP_AUTO, 0, file->length, err));
    enum ebb_status status = EBB_OK;
    if (s.state) { /* one record; its length stands at the start */
        uint8_t head[12];
        status = data_stream_take(&s, head, 12, err);
        memcpy(&length, head, 8);
        if (status == EBB_OK && length > data_stream_limit(&s))
            status = data_corrupt(err, file, 0, "TFRecord: a record larger than the file can hold");
        EBB_THEN(status, add_place(state, split, (struct record_place){number, 0, length}, err));
    }
    while (!s.state && status == EBB_OK && !is_end) {
        uint64_t at = s.out_offset;
        status = data_tfrecord_skip(&s, &length, &is_end, err);
        if (status == EBB_OK && !is_end)
            status = add_place(state, split, (struct record_place){number, at, length}, err);
    }
    data_stream_close(&s);
    return status;
}

static enum ebb_status open_files(struct data_set *set, const struct data_values *v, int split,
                                  struct ebb_error *err)
{
    struct records_state *state = set->state;
    const struct data_texts *names = split == DATA_TRAIN ? &v->train_files : &v->val_files;
    EBB_TRY(ebb_new(&state->files[split], names->count, sizeof(struct data_file), err));
    state->file_count[split] = names->count;
    for (size_t i = 0; i < names->count; i++) {
        EBB_TRY(data_file_open_in(&state->files[split][i], set->folder, names->v[i], err));
        EBB_TRY(index_file(state, split, (uint32_t)i, err));
    }
    set->info.full_count[split] = state->place_count[split];
    set->info.resident_bytes += state->place_capacity[split] * sizeof(struct record_place);
    return EBB_OK;
}

static enum ebb_status records_open(struct data_set *set, const struct data_values *v,
                                    struct ebb_error *err)
{
    struct records_state *state = set->state;
    struct data_info *info = &set->info;
    for (size_t f = 0; f < v->fields.count; f++) {
        enum data_dtype dtype;
        int rank;
        int64_t dims[DATA_MAX_RANK];
        if (!parse_field(v->fields.v[f], state->names[f], &dtype, &rank, dims))
            return ebb_fail(err, EBB_EINPUT, "data.fields: %s", v->fields.v[f]);
        data_add_field(info, state->names[f], dtype, rank, dims);
        state->count++;
    }
    for (int s = 0; s < DATA_SPLITS; s++)
        EBB_TRY(open_files(set, v, s, err));
    info->scratch_bytes = (size_t)state->most + 256 + DATA_STREAM_BYTES;
    const struct data_field *y = &info->fields[1];
    data_set_image(info);
    if (state->count == 2 && (y->dtype == DATA_F32 || y->dtype == DATA_F64))
        info->kind = DATA_NUMBERS;
    else if (state->count == 2 && y->dtype == DATA_I64 && y->rank == 0 && v->classes)
        info->kind = DATA_CLASSES;
    info->classes = v->classes;
    return EBB_OK;
}

static enum ebb_status read_field(const struct data_info *info, size_t f, const char *name,
                                  const uint8_t *record, size_t length, void *out,
                                  struct ebb_error *err)
{
    const struct data_field *field = &info->fields[f];
    size_t n = field->bytes / data_dtype_bytes(field->dtype), bytes = 0;
    struct data_feature feature;
    const uint8_t *raw;
    EBB_TRY(data_example_find(name, record, length, field->name, &feature, err));
    if (feature.kind == DATA_FEATURE_FLOATS && field->dtype == DATA_F32)
        return data_feature_floats(name, &feature, n, out, err);
    if (feature.kind == DATA_FEATURE_INTS && field->dtype == DATA_I64) {
        EBB_TRY(data_feature_ints(name, &feature, n, out, err));
        int64_t *values = out;
        for (size_t i = 0; f == 1 && info->kind == DATA_CLASSES && i < n; i++) {
            if (values[i] < 0 || values[i] >= info->classes)
                return ebb_fail(err, EBB_ECORRUPT, "%s: label %lld; classes are %lld", name,
                                (long long)values[i], (long long)info->classes);
        }
        return EBB_OK;
    }
    if (feature.kind != DATA_FEATURE_BYTES)
        return ebb_fail(err, EBB_EINPUT, "%s: feature %s: %s", name, field->name,
                        feature.kind == DATA_FEATURE_NONE     ? "not in this record"
                        : feature.kind == DATA_FEATURE_FLOATS ? "floats need f32"
                                                              : "integers need i64");
    EBB_TRY(data_feature_bytes(name, &feature, &raw, &bytes, err));
    if (bytes != field->bytes)
        return ebb_fail(err, EBB_ECORRUPT, "%s: feature %s has %zu bytes, %zu expected", name,
                        field->name, bytes, field->bytes);
    memcpy(out, raw, bytes);
    return EBB_OK;
}

static enum ebb_status records_read(const struct data_request *q, struct ebb_error *err)
{
    const struct records_state *state = q->set->state;
    const struct record_place *place = &state->places[q->split][q->index];
    const struct data_file *file = &state->files[q->split][place->file];
    struct data_stream s;
    uint8_t *record = NULL;
    size_t length = 0;
    EBB_TRY(data_stream_open(&s, file, place->offset ? DATA_WRAP_PLAIN : DATA_WRAP_AUTO,
                             place->offset, file->length - place->offset, err));
    enum ebb_status status = data_tfrecord_next(&s, state->most, q->scratch, &record, &length, err);
    bool is_packed = s.state != NULL;
    uint8_t more;
    size_t got = 0;
    if (status == EBB_OK && is_packed)
        status = data_stream_read(&s, &more, 1, &got, err);
    data_stream_close(&s);
    EBB_TRY(status);
    if (got)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "%s: a gzip file with more than one record; unpack it first", file->path);
    if (!record)
        return data_corrupt(err, file, place->offset, "TFRecord: the record is gone");
    for (size_t f = 0; f < state->count; f++) {
        if (q->fields[f])
            EBB_TRY(read_field(&q->set->info, f, file->path, record, length, q->fields[f], err));
    }
    return EBB_OK;
}

static const char *records_check(const struct data_values *v, const char **key)
{
    static const char how[] = "allowed: up to 8 of name:dtype or name:dtype:AxB, as x:f32:3x32x32; "
                              "dtypes f32, f64, u8, i16, i32, i64";
    *key = "fields";
    char name[64];
    enum data_dtype dtype;
    int rank;
    int64_t dims[DATA_MAX_RANK];
    if (v->fields.count == 0 || v->fields.count > DATA_MAX_FIELDS)
        return how;
    for (size_t f = 0; f < v->fields.count; f++) {
        if (!parse_field(v->fields.v[f], name, &dtype, &rank, dims))
            return how;
    }
    return NULL;
}

const struct data_row data_row_tfrecord = {
    DATA_ROW("tfrecord", "tf.Example records", DATA_ARRAYS, struct records_state, records_open,
             records_read, records_close),
    .keys = "data_dir train_files val_files fields classes",
    .required = "train_files fields",
    .check = records_check,
};
