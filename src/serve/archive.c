/* archive.c - see archive.h. libarchive is loaded with the first archive: see base/library.h. */
#include "serve/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include "base/heap.h"
#include "base/library.h"

#define CALLS(X)                                                                                   \
    X(write_new)                                                                                   \
    X(write_set_format_ustar)                                                                      \
    X(write_add_filter_gzip)                                                                       \
    X(write_set_filter_option)                                                                     \
    X(write_set_bytes_in_last_block)                                                               \
    X(write_open)                                                                                  \
    X(write_header)                                                                                \
    X(write_data)                                                                                  \
    X(write_close)                                                                                 \
    X(write_free)                                                                                  \
    X(error_string)                                                                                \
    X(entry_new)                                                                                   \
    X(entry_clear)                                                                                 \
    X(entry_set_pathname)                                                                          \
    X(entry_set_filetype)                                                                          \
    X(entry_set_perm)                                                                              \
    X(entry_set_mtime)                                                                             \
    X(entry_set_size)                                                                              \
    X(entry_free)

struct writer {
#define X(name) __typeof__(&archive_##name) name;
    CALLS(X)
#undef X
    struct archive *archive;
    struct archive_entry *entry;
};

static enum ebb_status load(struct writer *w, struct ebb_error *err)
{
#define X(name) {"archive_" #name, &w->name},
    const struct ebb_library_call calls[] = {CALLS(X)};
#undef X
    return ebb_library_load(EBB_ARCHIVE_FILE, EBB_ARCHIVE_PACKAGE, calls,
                            sizeof calls / sizeof calls[0], err);
}

static la_ssize_t take(struct archive *a, void *out, const void *bytes, size_t length)
{
    (void)a;
    ebb_str_addn(out, bytes, length);
    return (la_ssize_t)length;
}

static enum ebb_status failed(const struct writer *w, struct ebb_error *err)
{
    const char *why = w->error_string(w->archive);
    return ebb_fail(err, EBB_EINTERNAL, "the archive cannot be made: %s",
                    why != NULL ? why : "no reason given");
}

static enum ebb_status add_file(const struct writer *w, const struct exp_store_file *f,
                                struct ebb_error *err)
{
    size_t length = f->is_directory ? 0 : f->length;
    w->entry_clear(w->entry);
    w->entry_set_pathname(w->entry, f->path);
    w->entry_set_filetype(w->entry, f->is_directory ? AE_IFDIR : AE_IFREG);
    w->entry_set_perm(w->entry, f->mode & 0777);
    w->entry_set_mtime(w->entry, f->mtime > 0 ? f->mtime : 0, 0);
    w->entry_set_size(w->entry, (la_int64_t)length);
    int code = w->write_header(w->archive, w->entry);
    if (code == ARCHIVE_FAILED)
        return ebb_fail(err, EBB_EINPUT, "%s: the path is too long for a tar archive", f->path);
    if (code != ARCHIVE_OK || w->write_data(w->archive, f->data, length) != (la_ssize_t)length)
        return failed(w, err);
    return EBB_OK;
}

static enum ebb_status write_all(const struct writer *w, const struct exp_store_file *files,
                                 size_t count, struct ebb_str *out, struct ebb_error *err)
{
    struct archive *a = w->archive;
    /* no time of writing and no padding: the bytes depend on the files alone */
    if (w->write_set_format_ustar(a) != ARCHIVE_OK || w->write_add_filter_gzip(a) != ARCHIVE_OK ||
        w->write_set_filter_option(a, "gzip", "timestamp", NULL) != ARCHIVE_OK ||
        w->write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
        w->write_open(a, out, NULL, take, NULL) != ARCHIVE_OK)
        return failed(w, err);
    for (size_t i = 0; i < count; i++)
        EBB_TRY(add_file(w, &files[i], err));
    return w->write_close(a) == ARCHIVE_OK ? ebb_str_status(out, err) : failed(w, err);
}

enum ebb_status serve_archive_write(const struct exp_store_file *files, size_t count,
                                    struct ebb_str *out, struct ebb_error *err)
{
    struct writer w;
    EBB_TRY(load(&w, err));
    w.archive = w.write_new();
    w.entry = w.entry_new();
    enum ebb_status status = w.archive != NULL && w.entry != NULL
                                 ? write_all(&w, files, count, out, err)
                                 : ebb_no_memory(err, 1 << 18);
    w.entry_free(w.entry);
    w.write_free(w.archive);
    return status;
}
