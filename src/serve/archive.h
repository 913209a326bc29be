/* archive.h - a model definition as tar.gz, made by libarchive. Private to this folder. */
#ifndef EBB_SERVE_ARCHIVE_H
#define EBB_SERVE_ARCHIVE_H

#include "exp/exp.h"

/* Append a gzip-compressed tar (ustar) archive; the same files give the same bytes. EBB_EINPUT: a
 * path that does not fit the format. */
enum ebb_status serve_archive_write(const struct exp_store_file *files, size_t count,
                                    struct ebb_str *out, struct ebb_error *err);

#endif
