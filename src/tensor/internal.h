/* internal.h - private to tensor: what the readers of files share. */
#ifndef EBB_TENSOR_INTERNAL_H
#define EBB_TENSOR_INTERNAL_H

#include "base/zip.h"
#include "tensor/tensor.h"

/* A new entry under this name, not counted yet: the caller fills it and does file->count++. NULL:
 * out of memory. The name is not there yet. */
struct tensor_entry *tensor_file_add(struct tensor_file *file, size_t *capacity, const char *name,
                                     size_t length, struct ebb_error *err);

/* ---- zip.c ---- */

struct tensor_member { /* of a zip; its bytes where they are stored as they are, else packed */
    struct ebb_zip_member zip;
    const char *name;
    const unsigned char *data;
    bool is_proved; /* its bytes are those that were written */
};
struct tensor_zip {
    const char *name; /* of the file, for messages */
    struct tensor_member *members;
    size_t count;
    struct ebb_strmap index; /* name to place */
};
/* .pt or .npz into an empty file. */
enum ebb_status tensor_zip_read(struct tensor_file *file, const char *name, const void *bytes,
                                size_t length, struct ebb_error *err);
struct tensor_member *tensor_zip_find(const struct tensor_zip *zip, const char *name,
                                      size_t length);
/* Whether `data`, the unpacked bytes, have the checksum that the zip says. */
bool tensor_zip_prove(const struct tensor_member *member, const unsigned char *data);
enum ebb_status tensor_npz_write(const char *path, const struct tensor_to_write *items,
                                 size_t count, struct ebb_error *err);

/* ---- pickle.c ---- */

/* The tensors of a state_dict whose pickle is `text`; storages are members "<folder>data/<key>". */
enum ebb_status tensor_pickle_read(struct tensor_file *file, const struct tensor_zip *zip,
                                   const char *folder, size_t folder_length,
                                   const struct tensor_member *text, struct ebb_error *err);

#endif
