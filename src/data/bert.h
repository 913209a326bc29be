/* bert.h - masked language samples in HDF5 shards. Private; shared with the reference cases. */
#ifndef EBB_DATA_BERT_H
#define EBB_DATA_BERT_H

#include "data/hdf5.h"

/* Sample `row` of an open shard to the five fields of DATA_MASKED, padded to `sequence`. Scratch:
 * what data_bert_shape says. */
enum ebb_status data_bert_row(const struct data_h5 *h, uint64_t row, int64_t sequence,
                              int64_t vocabulary, void *const *fields, struct data_scratch *scratch,
                              struct ebb_error *err);
/* The five fields. */
void data_bert_describe(struct data_info *info, int64_t vocabulary, int64_t sequence);
enum ebb_status data_bert_shape(const struct data_h5 *h, uint64_t *rows, int64_t *sequence,
                                size_t *scratch_bytes, struct ebb_error *err);

#endif
