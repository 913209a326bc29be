/* zip.h - what the directory of a zip file says; believed only as far as it fits the bytes. */
#ifndef EBB_BASE_ZIP_H
#define EBB_BASE_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Where the bytes are: a reader that refuses what lies outside, and how mistakes are told. */
struct ebb_zip {
    const void *context;
    uint64_t length;
    enum ebb_status (*read)(const void *context, uint64_t at, void *out, size_t n,
                            struct ebb_error *err);
    enum ebb_status (*wrong)(const void *context, uint64_t at, const char *what,
                             struct ebb_error *err);
    uint64_t at, end; /* of the directory that is left; set by ebb_zip_open */
};

struct ebb_zip_member {
    uint64_t name; /* where it stands */
    size_t name_length;
    bool is_packed; /* by deflate; else stored as it is */
    uint32_t sum;   /* CRC-32 of the unpacked bytes */
    uint64_t data, packed, bytes;
};

enum ebb_status ebb_zip_open(struct ebb_zip *zip, struct ebb_error *err);
/* *is_end: there is none. */
enum ebb_status ebb_zip_next(struct ebb_zip *zip, struct ebb_zip_member *member, bool *is_end,
                             struct ebb_error *err);

#endif
