/* file.c - views of files, and writing that readers never see half done.
 *
 * F1 a regular target is replaced by rename, so it is the old file or the new one.
 * F2 something that is no regular file (a device, a pipe) is written in place: renaming over
 *    /dev/null would destroy it.
 * F3 a symbolic link stays a link; what it points to is replaced. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h"

static enum ebb_status file_fail(struct ebb_error *err, const char *what, const char *path,
                                 int code)
{
    return ebb_fail(err, ebb_errno_status(code), "cannot %s %s: %s", what, path,
                    ebb_errno_text(code));
}

static enum ebb_status file_too_large(struct ebb_error *err, const char *path, size_t max_bytes)
{
    return ebb_fail(err, EBB_ELIMIT, "%s: larger than %zu bytes, the limit here", path, max_bytes);
}

/* Read to the end of fd; one byte beyond max_bytes is enough to refuse. */
static enum ebb_status file_read_all(int fd, const char *path, size_t max_bytes, char **data,
                                     size_t *length, struct ebb_error *err)
{
    char *buffer = NULL;
    size_t used = 0, capacity = 0;
    enum ebb_status status = EBB_OK;
    for (;;) {
        status = ebb_grow(&buffer, &capacity, used + 65536, 1, err);
        if (status != EBB_OK)
            break;
        ssize_t n = read(fd, buffer + used, capacity - used);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            status = file_fail(err, "read", path, errno);
            break;
        }
        used += (size_t)n;
        if (used > max_bytes) {
            status = file_too_large(err, path, max_bytes);
            break;
        }
    }
    if (status != EBB_OK) {
        ebb_free(buffer);
        return status;
    }
    *data = buffer;
    *length = used;
    return EBB_OK;
}

static enum ebb_status file_view_fd(struct ebb_file_view *view, int fd, const char *path,
                                    size_t max_bytes, struct ebb_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return file_fail(err, "read", path, errno);
    if (S_ISDIR(st.st_mode))
        return file_fail(err, "read", path, EISDIR);
    /* Files of /proc say size 0 and have content: those are read, not mapped. */
    if (S_ISREG(st.st_mode) && st.st_size > 0) {
        if ((uintmax_t)st.st_size > max_bytes)
            return file_too_large(err, path, max_bytes);
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) {
            *view = (struct ebb_file_view){p, (size_t)st.st_size, true};
            return EBB_OK;
        }
    }
    char *data = NULL;
    size_t length = 0;
    EBB_TRY(file_read_all(fd, path, max_bytes, &data, &length, err));
    if (length == 0) {
        ebb_free(data);
        data = NULL;
    }
    *view = (struct ebb_file_view){data ? data : "", length, false};
    return EBB_OK;
}

enum ebb_status ebb_file_view_open(struct ebb_file_view *view, const char *path, size_t max_bytes,
                                   struct ebb_error *err)
{
    if (strcmp(path, "-") == 0)
        return file_view_fd(view, STDIN_FILENO, "standard input", max_bytes, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file_fail(err, "open", path, errno);
    enum ebb_status status = file_view_fd(view, fd, path, max_bytes, err);
    close(fd);
    return status;
}

/* Whole pages; the last one of a piece goes with the next piece. */
void ebb_file_view_rest(const struct ebb_file_view *view, const void *from, size_t count)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)from / page * page, end = ((uintptr_t)from + count) / page * page;
    if (view->is_mapped && end > begin)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void ebb_file_view_close(struct ebb_file_view *view)
{
    if (view->length > 0) {
        void *owned;
        memcpy(&owned, &view->data, sizeof owned); /* const for readers, ours to give back */
        if (view->is_mapped)
            munmap(owned, view->length);
        else
            ebb_free(owned);
    }
    *view = (struct ebb_file_view){.data = ""};
}

enum ebb_status ebb_file_write_atomic(const char *path, const void *data, size_t length,
                                      struct ebb_error *err)
{
    struct ebb_file_out out = {0};
    EBB_TRY(ebb_file_out_open(&out, path, err));
    if (length > 0 && fwrite(data, 1, length, out.stream) != length) {
        enum ebb_status status = file_fail(err, "write", path, errno);
        ebb_file_out_abort(&out);
        return status;
    }
    return ebb_file_out_commit(&out, err);
}

/* Create "<path>.<pid>-<n>.tmp": the first n that is free. */
static int file_open_temporary(const char *path, char **temporary, mode_t mode)
{
    size_t size = strlen(path) + 48;
    char *name = ebb_alloc(size);
    int fd = -1;
    if (!name) {
        errno = ENOMEM;
        return -1;
    }
    for (unsigned n = 0; n < 1000 && fd < 0; n++) {
        snprintf(name, size, "%s.%ld-%u.tmp", path, (long)getpid(), n);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0) {
        int code = errno;
        ebb_free(name);
        errno = code;
        return -1;
    }
    *temporary = name;
    return fd;
}

static void file_out_clear(struct ebb_file_out *out)
{
    ebb_free(out->path);
    ebb_free(out->temporary);
    *out = (struct ebb_file_out){0};
}

enum ebb_status ebb_file_out_open(struct ebb_file_out *out, const char *path, struct ebb_error *err)
{
    struct ebb_file_out o = {0};
    char resolved[PATH_MAX]; /* where the bytes really go: the end of a chain of links (F3) */
    EBB_TRY(ebb_copy_text(&o.path, realpath(path, resolved) ? resolved : path, err));
    struct stat st;
    bool exists = stat(o.path, &st) == 0;
    int fd;
    if (exists && !S_ISREG(st.st_mode)) { /* F2 */
        fd = open(o.path, O_WRONLY | O_CLOEXEC);
    } else {
        fd = file_open_temporary(o.path, &o.temporary, 0666);
        if (fd >= 0 && exists)
            (void)!fchmod(fd, st.st_mode & 07777); /* best effort: keep the old permissions */
    }
    o.stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!o.stream) {
        enum ebb_status status = file_fail(err, "write", path, errno);
        if (fd >= 0)
            close(fd);
        ebb_file_out_abort(&o);
        return status;
    }
    *out = o;
    return EBB_OK;
}

const char *ebb_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The new name is durable only once the directory is. */
static int file_sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *directory = !slash          ? ebb_strdup(".")
                      : slash == path ? ebb_strdup("/")
                                      : ebb_strndup(path, (size_t)(slash - path));
    if (!directory)
        return ENOMEM;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;
    ebb_free(directory);
    if (fd < 0)
        return errno;
    if (fsync(fd) != 0 && errno != EINVAL) /* EINVAL: this file system has no such notion */
        code = errno;
    close(fd);
    return code;
}

enum ebb_status ebb_file_out_commit(struct ebb_file_out *out, struct ebb_error *err)
{
    int code = 0;
    errno = EIO;
    if (ferror(out->stream) || fflush(out->stream) != 0)
        code = errno;
    if (!code && out->temporary && fsync(fileno(out->stream)) != 0)
        code = errno;
    if (fclose(out->stream) != 0 && !code)
        code = errno;
    if (out->temporary) {
        if (!code && rename(out->temporary, out->path) != 0)
            code = errno;
        if (code)
            unlink(out->temporary);
        else
            code = file_sync_directory(out->path);
    }
    enum ebb_status status = code ? file_fail(err, "write", out->path, code) : EBB_OK;
    file_out_clear(out);
    return status;
}

void ebb_file_out_abort(struct ebb_file_out *out)
{
    if (out->stream)
        fclose(out->stream);
    if (out->temporary)
        unlink(out->temporary);
    file_out_clear(out);
}

/* One directory; fine if it is there already. Returns an errno value. */
static int file_mkdir(const char *path)
{
    struct stat st;
    if (mkdir(path, 0777) == 0)
        return 0;
    int code = errno;
    if (code == EEXIST || code == EACCES || code == EPERM || code == EROFS)
        return stat(path, &st) == 0 ? (S_ISDIR(st.st_mode) ? 0 : ENOTDIR) : code;
    return code;
}

enum ebb_status ebb_file_mkdirs(const char *path, struct ebb_error *err)
{
    char *copy;
    EBB_TRY(ebb_copy_text(&copy, path, err));
    int code = 0;
    for (char *p = copy + 1; *copy && *p && !code; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        code = file_mkdir(copy);
        *p = '/';
    }
    if (!code)
        code = file_mkdir(copy);
    ebb_free(copy);
    return code ? file_fail(err, "make directory", path, code) : EBB_OK;
}

int ebb_file_unnamed(const char *folder)
{
    char path[PATH_MAX];
    if (!folder || !*folder)
        folder = getenv("TMPDIR");
    if (!folder || !*folder)
        folder = "/tmp";
    int n = snprintf(path, sizeof path, "%s/ebb-unnamed-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC); /* O_TMPFILE is not known everywhere */
    if (fd >= 0)
        unlink(path);
    return fd;
}

bool ebb_write_all(int fd, const void *data, size_t n)
{
    const char *at = data;
    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

bool ebb_read_all(int fd, void *data, size_t n)
{
    char *at = data;
    while (n > 0) {
        ssize_t done = read(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = EIO;
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

void ebb_file_cache_name(struct ebb_str *folder)
{
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    if (xdg && xdg[0] == '/')
        ebb_str_printf(folder, "%s/ebb", xdg);
    else
        ebb_str_printf(folder, "%s/.cache/ebb", home && home[0] == '/' ? home : "/tmp");
}

enum ebb_status ebb_file_cache_folder(struct ebb_str *folder, struct ebb_error *err)
{
    ebb_file_cache_name(folder);
    EBB_TRY(ebb_str_status(folder, err));
    return ebb_file_mkdirs(folder->data, err);
}
