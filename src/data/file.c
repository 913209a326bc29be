/* file.c - outside bytes at offsets, paths, folders. */
#include "data/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h"

enum ebb_status data_file_open(struct data_file *file, const char *path, struct ebb_error *err)
{
    struct stat about;
    *file = (struct data_file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ebb_fail(err, errno == ENOENT ? EBB_EINPUT : EBB_EIO, "cannot open %s: %s", path,
                        ebb_errno_text(errno));
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(fd);
        return ebb_fail(err, EBB_EINPUT, "%s: not a regular file", path);
    }
    file->fd = fd;
    file->length = (uint64_t)about.st_size;
    enum ebb_status status = ebb_copy_text(&file->path, path, err);
    if (status != EBB_OK)
        close(fd);
    return status;
}

enum ebb_status data_file_memory(struct data_file *file, const char *name, const void *bytes,
                                 size_t length, struct ebb_error *err)
{
    *file = (struct data_file){.fd = -1, .memory = bytes, .length = length};
    return ebb_copy_text(&file->path, name, err);
}

void data_file_close(struct data_file *file)
{
    if (file->path && file->fd >= 0)
        close(file->fd);
    ebb_free(file->path);
    ebb_free(file->owned);
    *file = (struct data_file){0};
}

enum ebb_status data_corrupt(struct ebb_error *err, const struct data_file *file, uint64_t offset,
                             const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ebb_fail(err, EBB_ECORRUPT, "%s: byte %llu: %s", file->path, (unsigned long long)offset,
                    text);
}

enum ebb_status data_file_read(const struct data_file *file, uint64_t offset, void *out, size_t n,
                               struct ebb_error *err)
{
    if (offset > file->length || n > file->length - offset)
        return data_corrupt(err, file, offset, "%zu bytes wanted, the file ends at %llu", n,
                            (unsigned long long)file->length);
    if (n == 0)
        return EBB_OK;
    if (file->fd < 0) {
        memcpy(out, file->memory + offset, n);
        return EBB_OK;
    }
    for (uint8_t *at = out; n > 0;) {
        ssize_t got = pread(file->fd, at, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ebb_fail(err, EBB_EIO, "%s: byte %llu: %s", file->path,
                            (unsigned long long)offset, ebb_errno_text(errno));
        if (got == 0)
            return data_corrupt(err, file, offset, "the file shrank while it was read");
        at += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return EBB_OK;
}

bool data_file_is_gzip(const struct data_file *file)
{
    uint8_t magic[2];
    return file->length >= 18 && data_file_read(file, 0, magic, 2, NULL) == EBB_OK &&
           magic[0] == 0x1f && magic[1] == 0x8b;
}

enum ebb_status data_path(char **path, const char *directory, const char *name,
                          struct ebb_error *err)
{
    *path = NULL;
    if (name[0] == '/' || !directory || !directory[0])
        return ebb_copy_text(path, name, err);
    struct ebb_str s = {0};
    ebb_str_printf(&s, "%s%s%s", directory, directory[strlen(directory) - 1] == '/' ? "" : "/",
                   name);
    EBB_TRY(ebb_str_status(&s, err));
    *path = ebb_str_take(&s);
    return EBB_OK;
}

enum ebb_status data_file_open_in(struct data_file *file, const char *folder, const char *name,
                                  struct ebb_error *err)
{
    char *path;
    *file = (struct data_file){0};
    EBB_TRY(data_path(&path, folder, name, err));
    enum ebb_status status = data_file_open(file, path, err);
    ebb_free(path);
    return status;
}

bool data_path_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

/* Memory that they hold, about. */
static uint64_t names_bytes(const struct ebb_names *names)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < names->count; i++)
        bytes += strlen(names->items[i]) + 1 + 16 + sizeof(char *);
    return bytes;
}

const char *const data_h5_suffixes[] = {".h5", ".hdf5", NULL};

struct refused { /* what looks like a sample and is none: it is not passed over without a word */
    size_t count;
    char name[256];  /* of the first one */
    const char *why; /* likewise */
};

struct wanted {
    const char *const *suffixes;
    bool directories;
    struct refused *refused;
};

static void refuse(struct refused *r, const char *name, const char *why)
{
    if (r->count++ > 0)
        return;
    snprintf(r->name, sizeof r->name, "%s", name);
    r->why = why;
}

static bool ends_so(const char *name, const char *const *suffixes)
{
    for (size_t i = 0; suffixes[i]; i++)
        if (ebb_name_ends(name, suffixes[i]))
            return true;
    return false;
}

static bool is_folder(DIR *dir, const struct dirent *entry)
{
    struct stat about;
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
        return entry->d_type == DT_DIR;
    return fstatat(dirfd(dir), entry->d_name, &about, 0) == 0 && S_ISDIR(about.st_mode);
}

/* Not hidden, of the wanted sort (links are followed) and ending. */
static bool is_wanted(const void *context, DIR *dir, const struct dirent *entry)
{
    static const char *const pictures[] = {".webp", ".gif",  ".bmp",  ".tif", ".tiff",
                                           ".heic", ".avif", ".jfif", NULL};
    const struct wanted *w = context;
    struct stat about;
    bool fits = !w->suffixes || ends_so(entry->d_name, w->suffixes);
    bool has_pictures = false;
    for (size_t i = 0; w->suffixes && w->suffixes[i]; i++)
        has_pictures = has_pictures || strcmp(w->suffixes[i], ".png") == 0;
    if (entry->d_name[0] == '.')
        return false;
    if (has_pictures && is_folder(dir, entry)) {
        refuse(w->refused, entry->d_name,
               "a folder in that of a class: pictures are read from the class's own folder alone");
        return false;
    }
    if (!fits && has_pictures && ends_so(entry->d_name, pictures))
        refuse(w->refused, entry->d_name,
               "not read: PNG and JPEG are; convert it, or take it out of the folder");
    if (!fits)
        return false;
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
        return (entry->d_type == DT_DIR) == w->directories;
    bool is_there = fstatat(dirfd(dir), entry->d_name, &about, 0) == 0;
    if (is_there && (w->directories ? S_ISDIR(about.st_mode) : S_ISREG(about.st_mode)))
        return true;
    if (w->suffixes && !(is_there && S_ISDIR(about.st_mode)))
        refuse(w->refused, entry->d_name,
               is_there ? "neither a file nor a link to one" : "a link that leads to no file");
    return false;
}

enum ebb_status data_names_list(struct ebb_names *names, const char *directory,
                                const char *const *suffixes, bool directories,
                                struct ebb_error *err)
{
    struct refused refused = {0};
    struct wanted wanted = {suffixes, directories, &refused};
    DIR *dir = opendir(directory);
    if (!dir)
        return ebb_fail(err, errno == ENOENT ? EBB_EINPUT : EBB_EIO, "cannot open folder %s: %s",
                        directory, ebb_errno_text(errno));
    EBB_TRY(ebb_names_read(names, dir, is_wanted, &wanted, err));
    if (refused.count == 0)
        return EBB_OK;
    char more[48] = "";
    if (refused.count > 1)
        snprintf(more, sizeof more, " (and %zu more like it)", refused.count - 1);
    return ebb_fail(err, EBB_EINPUT, "%s/%s: %s%s", directory, refused.name, refused.why, more);
}

enum ebb_status data_folders_list(struct data_folders *f, struct data_set *set,
                                  const char *const folders[DATA_SPLITS],
                                  const char *const *suffixes, const char *except,
                                  struct ebb_error *err)
{
    for (int s = 0; s < DATA_SPLITS; s++) {
        struct ebb_names *names = &f->names[s];
        EBB_TRY(data_path(&f->folders[s], set->folder, folders[s], err));
        if (s == DATA_VALIDATION && !data_path_exists(f->folders[s]))
            continue;
        EBB_TRY(data_names_list(names, f->folders[s], suffixes, false, err));
        set->info.resident_bytes += names_bytes(names);
        size_t kept = 0;
        for (size_t i = 0; i < names->count; i++) {
            if (except && strcmp(names->items[i], except) == 0)
                ebb_free(names->items[i]);
            else
                names->items[kept++] = names->items[i];
        }
        names->count = set->info.full_count[s] = kept;
    }
    if (set->info.full_count[DATA_TRAIN] == 0)
        return ebb_fail(err, EBB_EINPUT, "%s: no %sfile", f->folders[DATA_TRAIN],
                        suffixes ? ".h5 or .hdf5 " : "");
    return EBB_OK;
}

enum ebb_status data_folders_open(const struct data_folders *f, enum data_split split,
                                  uint64_t index, struct data_file *file, struct ebb_error *err)
{
    return data_file_open_in(file, f->folders[split], f->names[split].items[index], err);
}

void data_folders_fini(struct data_folders *f)
{
    for (int s = 0; s < DATA_SPLITS; s++) {
        ebb_free(f->folders[s]);
        ebb_names_fini(&f->names[s]);
    }
}
