/* tfrecord.c - records with checksums, and the protobuf messages of tf.Example.
 *
 * Record: u64 length, u32 masked CRC-32C of it, payload, u32 masked CRC-32C of the payload.
 * Example { 1: Features { 1: entries { 1: key, 2: Feature { 1 bytes, 2 floats, 3 ints } } } }, each
 * list with its values in field 1. */
#include "data/tfrecord.h"

#include <string.h>

#include "base/codec.h"

/* Length and its checksum; *is_end when the stream ends before it. */
static enum ebb_status record_head(struct data_stream *s, uint64_t *length, bool *is_end,
                                   struct ebb_error *err)
{
    uint8_t head[EBB_RECORD_HEAD];
    size_t got = 0;
    uint64_t at = s->out_offset;
    EBB_TRY(data_stream_read(s, head, 12, &got, err));
    *is_end = got == 0;
    if (got == 0)
        return EBB_OK;
    if (got < 12)
        return data_corrupt(err, s->file, s->in_offset,
                            "TFRecord: the file ends in a record's head");
    if (ebb_record_sum(head, 8) != ebb_load_u32(head + 8))
        return data_corrupt(err, s->file, s->in_offset,
                            "TFRecord: the checksum of the length at %llu is wrong",
                            (unsigned long long)at);
    *length = ebb_load_bytes(head, 8);
    if (*length > UINT64_MAX - 4 || *length + 4 > data_stream_limit(s))
        return data_corrupt(err, s->file, s->in_offset,
                            "TFRecord: a record of %llu bytes at %llu, more than the file can hold",
                            (unsigned long long)*length, (unsigned long long)at);
    return EBB_OK;
}

enum ebb_status data_tfrecord_next(struct data_stream *s, size_t most, struct data_scratch *scratch,
                                   uint8_t **bytes, size_t *length, struct ebb_error *err)
{
    uint64_t n = 0, at = s->out_offset;
    bool is_end;
    uint8_t tail[4];
    EBB_TRY(record_head(s, &n, &is_end, err));
    *bytes = NULL;
    *length = 0;
    if (is_end)
        return EBB_OK;
    if (n > most)
        return data_corrupt(err, s->file, s->in_offset,
                            "TFRecord: a record of %llu bytes, at most %zu expected",
                            (unsigned long long)n, most);
    uint8_t *record;
    EBB_TRY(data_scratch_take(scratch, (size_t)n + 1, &record, err));
    EBB_TRY(data_stream_take(s, record, (size_t)n, err));
    EBB_TRY(data_stream_take(s, tail, 4, err));
    if (ebb_record_sum(record, (size_t)n) != ebb_load_u32(tail))
        return data_corrupt(err, s->file, s->in_offset,
                            "TFRecord: the checksum of the record at %llu is wrong",
                            (unsigned long long)at);
    *bytes = record;
    *length = (size_t)n;
    return EBB_OK;
}

enum ebb_status data_tfrecord_skip(struct data_stream *s, uint64_t *length, bool *is_end,
                                   struct ebb_error *err)
{
    EBB_TRY(record_head(s, length, is_end, err));
    if (*is_end)
        return EBB_OK;
    s->in_offset += *length + 4; /* plain: record_head has checked that the file holds it */
    s->out_offset += *length + 4;
    return EBB_OK;
}

/* ---- protobuf ---- */

struct wire {
    const char *name; /* for messages */
    const uint8_t *start, *at, *end;
};

struct item { /* one field of a message */
    unsigned field, type;
    uint64_t value;     /* of a number */
    struct wire inside; /* of bytes, and of numbers of a fixed size */
    size_t bytes;
};

static enum ebb_status wire_fail(const struct wire *w, const char *what, struct ebb_error *err)
{
    return ebb_fail(err, EBB_ECORRUPT, "%s: tf.Example: byte %zu of the message: %s", w->name,
                    (size_t)(w->at - w->start), what);
}

static enum ebb_status wire_varint(struct wire *w, uint64_t *value, struct ebb_error *err)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end)
            return wire_fail(w, "a number is cut", err);
        uint8_t b = *w->at++;
        if (shift < 64)
            *value |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return EBB_OK;
    }
    return wire_fail(w, "a number of more than ten bytes", err);
}

/* The next field: number, type, and for type 2 its bytes. Others are stepped over into *value. */
static enum ebb_status wire_next(struct wire *w, struct item *item, struct ebb_error *err)
{
    uint64_t tag, n;
    EBB_TRY(wire_varint(w, &tag, err));
    *item = (struct item){.field = tag >> 3 > 1u << 29 ? 0 : (unsigned)(tag >> 3),
                          .type = tag & 7,
                          .inside = {w->name, w->at, w->at, w->at}};
    if (item->field == 0)
        return wire_fail(w, "field 0", err);
    if (item->type == 0)
        return wire_varint(w, &item->value, err);
    if (item->type == 2)
        EBB_TRY(wire_varint(w, &n, err));
    else if (item->type == 1 || item->type == 5)
        n = item->type == 1 ? 8 : 4;
    else
        return wire_fail(w, "a field of an unknown type", err);
    if (n > (uint64_t)(w->end - w->at))
        return wire_fail(w, "a field is cut", err);
    item->bytes = (size_t)n;
    item->inside = (struct wire){w->name, w->at, w->at, w->at + n};
    if (item->type != 2)
        item->value = ebb_load_bytes(w->at, (size_t)n);
    w->at += n;
    return EBB_OK;
}

/* An entry of the map: is it `key`, and what is its Feature? */
static enum ebb_status read_entry(struct wire *entry, const char *key, struct data_feature *feature,
                                  struct ebb_error *err)
{
    struct item e;
    struct wire list = {.at = NULL};
    bool is_key = false;
    while (entry->at < entry->end) {
        EBB_TRY(wire_next(entry, &e, err));
        if (e.field == 1 && e.type == 2)
            is_key = e.bytes == strlen(key) && memcmp(e.inside.at, key, e.bytes) == 0;
        else if (e.field == 2 && e.type == 2)
            list = e.inside;
    }
    if (!is_key || !list.at)
        return EBB_OK;
    while (list.at < list.end) {
        EBB_TRY(wire_next(&list, &e, err));
        if (e.type == 2 && e.field >= 1 && e.field <= 3)
            *feature = (struct data_feature){(enum data_feature_kind)e.field, e.inside.at, e.bytes};
    }
    return EBB_OK;
}

enum ebb_status data_example_find(const char *name, const uint8_t *record, size_t length,
                                  const char *key, struct data_feature *feature,
                                  struct ebb_error *err)
{
    struct wire w = {name, record, record, length ? record + length : record};
    struct item features, entry;
    *feature = (struct data_feature){.kind = DATA_FEATURE_NONE};
    while (w.at < w.end) {
        EBB_TRY(wire_next(&w, &features, err));
        if (features.field != 1 || features.type != 2)
            continue;
        while (features.inside.at < features.inside.end) {
            EBB_TRY(wire_next(&features.inside, &entry, err));
            if (entry.field == 1 && entry.type == 2)
                EBB_TRY(read_entry(&entry.inside, key, feature, err));
        }
    }
    return EBB_OK;
}

/* The list of a feature that must be of this kind. */
static enum ebb_status open_list(struct wire *w, const char *name, const struct data_feature *f,
                                 enum data_feature_kind kind, struct ebb_error *err)
{
    static const char *const what[] = {[DATA_FEATURE_BYTES] = "bytes",
                                       [DATA_FEATURE_FLOATS] = "floats",
                                       [DATA_FEATURE_INTS] = "integers"};
    *w = (struct wire){.name = name};
    if (f->kind != kind)
        return ebb_fail(err, EBB_ECORRUPT, "%s: tf.Example: a list of %s is missing", name,
                        what[kind]);
    *w = (struct wire){name, f->data, f->data, f->data + f->length};
    return EBB_OK;
}

enum ebb_status data_feature_bytes(const char *name, const struct data_feature *f,
                                   const uint8_t **bytes, size_t *length, struct ebb_error *err)
{
    struct wire w;
    struct item e;
    EBB_TRY(open_list(&w, name, f, DATA_FEATURE_BYTES, err));
    while (w.at < w.end) {
        EBB_TRY(wire_next(&w, &e, err));
        if (e.field == 1 && e.type == 2) {
            *bytes = e.inside.at;
            *length = e.bytes;
            return EBB_OK;
        }
    }
    return wire_fail(&w, "an empty list of bytes", err);
}

enum ebb_status data_feature_floats(const char *name, const struct data_feature *f, size_t n,
                                    float *out, struct ebb_error *err)
{
    struct wire w;
    struct item e;
    size_t got = 0;
    EBB_TRY(open_list(&w, name, f, DATA_FEATURE_FLOATS, err));
    while (w.at < w.end) {
        EBB_TRY(wire_next(&w, &e, err));
        if (e.field != 1 || (e.type != 2 && e.type != 5) || e.bytes % 4)
            return wire_fail(&w, "no list of floats", err);
        if (e.bytes / 4 > n - got)
            return wire_fail(&w, "more floats than expected", err);
        memcpy(out + got, e.inside.at, e.bytes);
        got += e.bytes / 4;
    }
    return got == n ? EBB_OK : wire_fail(&w, "fewer floats than expected", err);
}

enum ebb_status data_feature_ints(const char *name, const struct data_feature *f, size_t n,
                                  int64_t *out, struct ebb_error *err)
{
    struct wire w;
    struct item e;
    size_t got = 0;
    EBB_TRY(open_list(&w, name, f, DATA_FEATURE_INTS, err));
    while (w.at < w.end) {
        EBB_TRY(wire_next(&w, &e, err));
        bool is_packed = e.type == 2;
        if (e.field != 1 || (e.type != 0 && !is_packed))
            return wire_fail(&w, "no list of integers", err);
        while (!is_packed || e.inside.at < e.inside.end) {
            if (is_packed)
                EBB_TRY(wire_varint(&e.inside, &e.value, err));
            if (got == n)
                return wire_fail(&w, "more integers than expected", err);
            memcpy(&out[got++], &e.value, sizeof e.value);
            if (!is_packed)
                break;
        }
    }
    return got == n ? EBB_OK : wire_fail(&w, "fewer integers than expected", err);
}
