/* file.h - whole files in, whole files out, nothing half-written.
 *
 * Writing goes to a temporary beside the target, fsync, rename, fsync of the directory: a reader
 * sees the old file or the new one. Messages name the path and the system's reason. */
#ifndef EBB_BASE_FILE_H
#define EBB_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "base/str.h"

/* Read-only view of a file: mapped when it is a regular file, read otherwise (pipes, "-" = stdin).
 */
struct ebb_file_view {
    const char *data; /* borrowed until close; not terminated; "" when empty */
    size_t length;
    bool is_mapped;
};

enum ebb_status ebb_file_view_open(struct ebb_file_view *view, const char *path, size_t max_bytes,
                                   struct ebb_error *err);
/* Bytes of it that were looked at and are not needed now: mapped memory is given back. */
void ebb_file_view_rest(const struct ebb_file_view *view, const void *from, size_t count);
void ebb_file_view_close(struct ebb_file_view *view);

enum ebb_status ebb_file_write_atomic(const char *path, const void *data, size_t length,
                                      struct ebb_error *err);

const char *ebb_file_name(const char *path); /* the part behind the last '/' */

/* Streaming form: write to out->stream, then commit or abort (abort after commit does nothing). */
struct ebb_file_out {
    FILE *stream;
    char *path, *temporary; /* owned */
};

enum ebb_status ebb_file_out_open(struct ebb_file_out *out, const char *path,
                                  struct ebb_error *err);
enum ebb_status ebb_file_out_commit(struct ebb_file_out *out, struct ebb_error *err);
void ebb_file_out_abort(struct ebb_file_out *out);

/* All n bytes to a descriptor; false with errno when it takes no more. */
bool ebb_write_all(int fd, const void *data, size_t n);
/* A file without a name, gone when it is closed, in the folder; NULL or "": in $TMPDIR, else in
 * /tmp. -1 and errno when it cannot be made. */
int ebb_file_unnamed(const char *folder);
/* The next n bytes; false with errno when there are fewer (then EIO) or they cannot be read. */
bool ebb_read_all(int fd, void *data, size_t n);

enum ebb_status ebb_file_mkdirs(const char *path,
                                struct ebb_error *err); /* like mkdir -p, 0777 & umask */
/* Appends ${XDG_CACHE_HOME:-~/.cache}/ebb: what can be made again, and what this machine remembers.
 * The folder is there afterwards; of the second, only its name. */
enum ebb_status ebb_file_cache_folder(struct ebb_str *folder, struct ebb_error *err);
void ebb_file_cache_name(struct ebb_str *folder);

#endif
