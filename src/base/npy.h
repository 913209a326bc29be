/* npy.h - the header of NumPy's arrays: signature, version, a dictionary as text. */
#ifndef EBB_BASE_NPY_H
#define EBB_BASE_NPY_H

#include "base/str.h"

enum { EBB_NPY_RANK = 8, EBB_NPY_MOST = 12 + 4096 }; /* the longest header that is read */

struct ebb_npy {
    char kind;           /* 'f', 'i', 'u', 'b', as NumPy names them */
    unsigned item_bytes; /* 1, 2, 4 or 8 */
    bool is_big_endian, is_fortran;
    int rank;
    int64_t dims[EBB_NPY_RANK];
    size_t head_bytes;   /* where the items begin */
    uint64_t data_bytes; /* of all items; below 2^60 */
};

/* From the first `n` bytes of an array, EBB_NPY_MOST or all that there are. */
enum ebb_status ebb_npy_read(const void *bytes, size_t n, struct ebb_npy *array,
                             struct ebb_error *err);
/* A header of this machine's order, items in C order, padded as NumPy does; head_bytes and
 * data_bytes are not looked at. */
void ebb_npy_write(const struct ebb_npy *array, struct ebb_str *out);

#endif
