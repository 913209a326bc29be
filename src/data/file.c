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

#include "base/heap.h"

/* Thread-safe and the same in every locale. */
static const char *data_errno_text(int code)
{
    const char *text = strerrordesc_np(code);
    return text ? text : "unknown error";
}

enum ebb_status data_file_open(struct data_file *file, const char *path, struct ebb_error *err)
{
    struct stat about;
    *file = (struct data_file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ebb_fail(err, errno == ENOENT ? EBB_EINPUT : EBB_EIO, "cannot open %s: %s", path,
                        data_errno_text(errno));
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
                            (unsigned long long)offset, data_errno_text(errno));
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

enum ebb_status data_names_add(struct data_names *names, const char *name, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&names->names, &names->capacity, names->count + 1, sizeof *names->names, err));
    EBB_TRY(ebb_copy_text(&names->names[names->count], name, err));
    names->count++;
    names->bytes += strlen(name) + 1 + 16 + sizeof(char *);
    return EBB_OK;
}

void data_names_fini(struct data_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        ebb_free(names->names[i]);
    ebb_free(names->names);
    *names = (struct data_names){0};
}

const char *const data_h5_suffixes[] = {".h5", ".hdf5", NULL};

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool name_ends(const char *name, const char *const *suffixes)
{
    if (!suffixes)
        return true;
    size_t length = strlen(name);
    for (size_t i = 0; suffixes[i]; i++) {
        size_t n = strlen(suffixes[i]);
        if (length > n && strcasecmp(name + length - n, suffixes[i]) == 0)
            return true;
    }
    return false;
}

/* The entry is of the wanted sort: a folder, or something else. Links are followed. */
static bool name_fits(DIR *dir, const struct dirent *entry, bool directories)
{
    struct stat about;
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
        return (entry->d_type == DT_DIR) == directories;
    if (fstatat(dirfd(dir), entry->d_name, &about, 0) != 0)
        return false;
    return directories ? S_ISDIR(about.st_mode) : S_ISREG(about.st_mode);
}

enum ebb_status data_names_list(struct data_names *names, const char *directory,
                                const char *const *suffixes, bool directories,
                                struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    DIR *dir = opendir(directory);
    if (!dir)
        return ebb_fail(err, errno == ENOENT ? EBB_EINPUT : EBB_EIO, "cannot open folder %s: %s",
                        directory, data_errno_text(errno));
    size_t first = names->count;
    for (struct dirent *entry; status == EBB_OK && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || !name_ends(entry->d_name, suffixes) ||
            !name_fits(dir, entry, directories))
            continue;
        status = data_names_add(names, entry->d_name, err);
    }
    closedir(dir);
    if (status == EBB_OK && names->count > first)
        qsort(names->names + first, names->count - first, sizeof *names->names, names_compare);
    return status;
}

enum ebb_status data_folders_list(struct data_folders *f, struct data_set *set,
                                  const char *const folders[DATA_SPLITS],
                                  const char *const *suffixes, const char *except,
                                  struct ebb_error *err)
{
    for (int s = 0; s < DATA_SPLITS; s++) {
        struct data_names *names = &f->names[s];
        EBB_TRY(data_path(&f->folders[s], set->folder, folders[s], err));
        if (s == DATA_VALIDATION && !data_path_exists(f->folders[s]))
            continue;
        EBB_TRY(data_names_list(names, f->folders[s], suffixes, false, err));
        size_t kept = 0;
        for (size_t i = 0; i < names->count; i++) {
            if (except && strcmp(names->names[i], except) == 0)
                ebb_free(names->names[i]);
            else
                names->names[kept++] = names->names[i];
        }
        names->count = kept;
        set->info.full_count[s] = kept;
        set->info.resident_bytes += names->bytes;
    }
    if (set->info.full_count[DATA_TRAIN] == 0)
        return ebb_fail(err, EBB_EINPUT, "%s: no %sfile", f->folders[DATA_TRAIN],
                        suffixes ? ".h5 " : "");
    return EBB_OK;
}

enum ebb_status data_folders_open(const struct data_folders *f, enum data_split split,
                                  uint64_t index, struct data_file *file, struct ebb_error *err)
{
    return data_file_open_in(file, f->folders[split], f->names[split].names[index], err);
}

void data_folders_fini(struct data_folders *f)
{
    for (int s = 0; s < DATA_SPLITS; s++) {
        ebb_free(f->folders[s]);
        data_names_fini(&f->names[s]);
    }
}
