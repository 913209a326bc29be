/* tfrecord.h - TFRecord files and the tf.Example records in them. Private. */
#ifndef EBB_DATA_TFRECORD_H
#define EBB_DATA_TFRECORD_H

#include "data/internal.h"

/* The next record of a stream into scratch; *bytes NULL at the end. Both checksums are checked. */
enum ebb_status data_tfrecord_next(struct data_stream *s, size_t most, struct data_scratch *scratch,
                                   uint8_t **bytes, size_t *length, struct ebb_error *err);
/* Step over a record without keeping it (its length's checksum is checked); *length of the payload,
 * *is_end at the end. For plain files only. */
enum ebb_status data_tfrecord_skip(struct data_stream *s, uint64_t *length, bool *is_end,
                                   struct ebb_error *err);

enum data_feature_kind {
    DATA_FEATURE_NONE,
    DATA_FEATURE_BYTES,
    DATA_FEATURE_FLOATS,
    DATA_FEATURE_INTS
};
struct data_feature {
    enum data_feature_kind kind;
    const uint8_t *data; /* the list message; borrowed from the record */
    size_t length;
};
/* Feature `key` of an Example; kind NONE when absent. `name` is for messages. */
enum ebb_status data_example_find(const char *name, const uint8_t *record, size_t length,
                                  const char *key, struct data_feature *feature,
                                  struct ebb_error *err);
/* The only bytes value of a list. */
enum ebb_status data_feature_bytes(const char *name, const struct data_feature *f,
                                   const uint8_t **bytes, size_t *length, struct ebb_error *err);
/* Exactly n numbers of a float or int list, packed or not. */
enum ebb_status data_feature_floats(const char *name, const struct data_feature *f, size_t n,
                                    float *out, struct ebb_error *err);
enum ebb_status data_feature_ints(const char *name, const struct data_feature *f, size_t n,
                                  int64_t *out, struct ebb_error *err);

#endif
