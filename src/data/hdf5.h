/* hdf5.h - reading HDF5 files. Private.
 *
 * A reader of our own: the library keeps one global lock, allocates as a file tells it, and has a
 * history of memory errors on damaged files; samples here are decoded by several threads from files
 * that may be damaged (rules D3, D4). Read are: superblocks 0 to 3; groups with symbol tables or
 * compact links; integers, floats, and variable-length rows of them; contiguous, compact and
 * chunked data (B-tree version 1 index, single chunk, implicit index), with deflate, shuffle and
 * Fletcher-32 filters. That is what h5py and the library write by default. Anything else is
 * EBB_EUNSUPPORTED, by name. */
#ifndef EBB_DATA_HDF5_H
#define EBB_DATA_HDF5_H

#include "data/internal.h"

enum { DATA_H5_FILTERS = 8 };

struct data_h5 {
    const struct data_file *file; /* borrowed */
    uint64_t base;                /* addresses count from here */
    uint64_t root;                /* header of the root group */
};

enum data_h5_class { DATA_H5_INTEGER, DATA_H5_FLOAT, DATA_H5_ROWS /* variable length */ };
enum data_h5_layout { DATA_H5_CONTIGUOUS, DATA_H5_COMPACT, DATA_H5_CHUNKED };
enum data_h5_index { DATA_H5_BTREE, DATA_H5_SINGLE, DATA_H5_IMPLICIT };

struct data_h5_type {
    enum data_h5_class class;
    uint32_t bytes;
    bool is_signed, is_big_endian;
};

struct data_h5_dataset {
    struct data_h5_type type, base; /* base: of the elements of rows */
    int rank;
    uint64_t dims[DATA_MAX_RANK];
    enum data_h5_layout layout;
    uint64_t address; /* of data, of the index, or place of compact data in the file */
    uint64_t bytes;   /* contiguous, compact */
    enum data_h5_index index;
    uint64_t chunk[DATA_MAX_RANK];
    uint64_t chunk_bytes;
    uint64_t single_bytes; /* stored bytes of a single filtered chunk; 0 = not filtered */
    int filter_count;
    uint16_t filters[DATA_H5_FILTERS]; /* 1 deflate, 2 shuffle, 3 fletcher32 */
    uint64_t header;                   /* for messages */
    bool is_fortran;                   /* of NPY: columns first; data_npy_order before it is read */
};

enum ebb_status data_h5_open(struct data_h5 *h, const struct data_file *file,
                             struct ebb_error *err);
/* Dataset at a path such as "climate/data". */
enum ebb_status data_h5_find(const struct data_h5 *h, const char *path, struct data_h5_dataset *d,
                             struct ebb_error *err);
bool data_h5_has(const struct data_h5 *h, const char *path);

/* n bytes at an address of the file's own. */
enum ebb_status data_h5_fetch(const struct data_h5 *h, uint64_t address, void *out, size_t n,
                              struct ebb_error *err);
uint64_t data_h5_count(const struct data_h5_dataset *d);     /* elements */
uint64_t data_h5_row_count(const struct data_h5_dataset *d); /* elements of one row (later dims) */
/* Scratch that reading rows of this dataset takes. */
size_t data_h5_scratch(const struct data_h5_dataset *d);

/* Rows [first, first + n) of the first dimension, converted to dtype. A scalar has one row. */
enum ebb_status data_h5_read(const struct data_h5 *h, const struct data_h5_dataset *d,
                             uint64_t first, uint64_t n, enum data_dtype dtype, void *out,
                             struct data_scratch *scratch, struct ebb_error *err);
/* Row `row` of a dataset of variable-length rows: at most `most` elements to out, *count is its
 * length (EBB_ECORRUPT when longer). */
enum ebb_status data_h5_read_row(const struct data_h5 *h, const struct data_h5_dataset *d,
                                 uint64_t row, size_t most, int64_t *out, size_t *count,
                                 struct data_scratch *scratch, struct ebb_error *err);

/* Writing: contiguous little-endian datasets, for data_make. */
struct data_h5_item {
    const char *path; /* "x" or "group/x": one group at most */
    enum data_dtype dtype;
    int rank;
    int64_t dims[DATA_MAX_RANK];
    const void *data; /* borrowed */
};
enum ebb_status data_h5_write(const char *path, const struct data_h5_item *items, size_t count,
                              struct ebb_error *err);

#endif
