/* idx.h - the IDX format: two zero bytes, type, rank, big-endian sizes, data. Private. */
#ifndef EBB_DATA_IDX_H
#define EBB_DATA_IDX_H

#include "data/internal.h"

struct data_idx {
    struct data_file file; /* owned: outside, or unpacked in memory */
    int rank;
    uint64_t dims[4];
    uint64_t offset; /* of the data */
    uint64_t item;   /* bytes of one item: product of the later sizes */
};

/* Bytes (type 0x08) of rank 1 to 4; .gz is unpacked (data_unpack; folder may be NULL). Takes the
 * file over, also on failure. */
enum ebb_status data_idx_read(struct data_idx *idx, struct data_file *take_file,
                              struct data_set *set, struct ebb_error *err);
void data_idx_fini(struct data_idx *idx);

#endif
