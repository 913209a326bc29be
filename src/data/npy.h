/* npy.h - NumPy's array files, alone (.npy) or in a zip (.npz). Private.
 *
 * An array is described like a contiguous HDF5 dataset: type, sizes, place in the file;
 * data_h5_read with base 0 reads it. */
#ifndef EBB_DATA_NPY_H
#define EBB_DATA_NPY_H

#include "data/hdf5.h"

/* The array that starts at `offset` and has `bytes` bytes with its header. */
enum ebb_status data_npy_read(const struct data_file *file, uint64_t offset, uint64_t bytes,
                              struct data_h5_dataset *d, struct ebb_error *err);
/* An array in Fortran order (d->is_fortran), of which no sample is in one piece, in C order: in
 * memory, as *ordered (owned by the caller), which *d then describes. */
enum ebb_status data_npy_order(const struct data_file *file, struct data_h5_dataset *d,
                               struct data_set *set, struct data_file *ordered,
                               struct ebb_error *err);
/* Member `name` (or name.npy) of a zip file. A stored member is read in place; a packed one is
 * unpacked into *unpacked (data_unpack; owned by the caller), whose array *d then describes. */
enum ebb_status data_npz_find(const struct data_file *file, const char *name, struct data_set *set,
                              struct data_file *unpacked, struct data_h5_dataset *d,
                              struct ebb_error *err);

#endif
