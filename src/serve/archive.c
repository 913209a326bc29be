/* archive.c - see archive.h. */
#include "serve/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include "base/heap.h"

static la_ssize_t take(struct archive *a, void *out, const void *bytes, size_t length)
{
    (void)a;
    ebb_str_addn(out, bytes, length);
    return (la_ssize_t)length;
}

static enum ebb_status failed(struct archive *a, struct ebb_error *err)
{
    const char *why = archive_error_string(a);
    return ebb_fail(err, EBB_EINTERNAL, "the archive cannot be made: %s",
                    why != NULL ? why : "no reason given");
}

static enum ebb_status add_file(struct archive *a, struct archive_entry *entry,
                                const struct exp_store_file *f, struct ebb_error *err)
{
    size_t length = f->is_directory ? 0 : f->length;
    archive_entry_clear(entry);
    archive_entry_set_pathname(entry, f->path);
    archive_entry_set_filetype(entry, f->is_directory ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, f->mode & 0777);
    archive_entry_set_mtime(entry, f->mtime > 0 ? f->mtime : 0, 0);
    archive_entry_set_size(entry, (la_int64_t)length);
    int code = archive_write_header(a, entry);
    if (code == ARCHIVE_FAILED)
        return ebb_fail(err, EBB_EINPUT, "%s: the path is too long for a tar archive", f->path);
    if (code != ARCHIVE_OK || archive_write_data(a, f->data, length) != (la_ssize_t)length)
        return failed(a, err);
    return EBB_OK;
}

static enum ebb_status write_all(struct archive *a, struct archive_entry *entry,
                                 const struct exp_store_file *files, size_t count,
                                 struct ebb_str *out, struct ebb_error *err)
{
    /* no time of writing and no padding: the bytes depend on the files alone */
    if (archive_write_set_format_ustar(a) != ARCHIVE_OK ||
        archive_write_add_filter_gzip(a) != ARCHIVE_OK ||
        archive_write_set_filter_option(a, "gzip", "timestamp", NULL) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
        archive_write_open(a, out, NULL, take, NULL) != ARCHIVE_OK)
        return failed(a, err);
    for (size_t i = 0; i < count; i++)
        EBB_TRY(add_file(a, entry, &files[i], err));
    return archive_write_close(a) == ARCHIVE_OK ? ebb_str_status(out, err) : failed(a, err);
}

enum ebb_status serve_archive_write(const struct exp_store_file *files, size_t count,
                                    struct ebb_str *out, struct ebb_error *err)
{
    struct archive *a = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    enum ebb_status status = a != NULL && entry != NULL
                                 ? write_all(a, entry, files, count, out, err)
                                 : ebb_no_memory(err, 1 << 18);
    archive_entry_free(entry);
    archive_write_free(a);
    return status;
}
