/* tree.c - directory trees, walked by descriptors so that no link can lead out (T1). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/heap.h"
#include "exp/store/driver.h"

#define DEPTH_MAX 32

static enum ebb_status fail(struct ebb_error *err, const char *what, const char *path)
{
    return ebb_fail(err, ebb_errno_status(errno), "%s %s: %s", what, path, strerror(errno));
}

enum ebb_status exp_tree_errno(int code)
{
    bool is_missing = code == ENOENT || code == ENOTDIR || code == ELOOP || code == EISDIR;
    return is_missing ? EBB_ECORRUPT : ebb_errno_status(code);
}

static enum ebb_status fail_to_read(struct ebb_error *err, const char *path)
{
    return ebb_fail(err, exp_tree_errno(errno), "cannot read %s: %s", path, strerror(errno));
}

static enum ebb_status add_file(int directory, const char *path, struct ebb_sums *sums,
                                struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    size_t size = (size_t)256 << 10;
    char *buffer = ebb_alloc(size);
    int fd = openat(directory, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        status = fail_to_read(err, path);
    else if (buffer == NULL)
        status = ebb_no_memory(err, size);
    while (status == EBB_OK) {
        ssize_t n = read(fd, buffer, size);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            status = fail_to_read(err, path);
            break;
        }
        ebb_sums_add(sums, buffer, (size_t)n);
    }
    ebb_free(buffer);
    if (fd >= 0)
        close(fd);
    return status;
}

enum ebb_status exp_tree_prove(int directory, const struct ebb_manifest_file *want,
                               struct ebb_error *err)
{
    struct ebb_proof proof;
    ebb_proof_init(&proof, want);
    enum ebb_status status = add_file(directory, want->path, &proof.sums, err);
    EBB_THEN(status, ebb_proof_end(&proof, err));
    ebb_proof_fini(&proof);
    return status;
}

/* bytes: as many as were summed. */
static enum ebb_status sum_file(int directory, const char *path, struct ebb_sums_text *text,
                                int64_t *bytes, struct ebb_error *err)
{
    struct ebb_sums sums;
    ebb_sums_init(&sums);
    enum ebb_status status = add_file(directory, path, &sums, err);
    *bytes = sums.bytes;
    EBB_THEN(status, ebb_sums_text(&sums, text, err));
    ebb_sums_fini(&sums);
    return status;
}

struct walk {
    struct exp_tree *tree;
    struct ebb_str path; /* of the current directory, with '/' at its end */
    bool wants_hash;
};

static enum ebb_status add(struct walk *w, const char *name, bool is_directory, int64_t bytes,
                           const struct ebb_sums_text *sums, struct ebb_error *err)
{
    struct exp_tree *t = w->tree;
    struct ebb_str path;
    EBB_TRY(ebb_grow(&t->entries, &t->capacity, t->count + 1, sizeof *t->entries, err));
    ebb_str_init(&path);
    ebb_str_printf(&path, "%s%s%s", ebb_str_c(&w->path), name, is_directory ? "/" : "");
    EBB_TRY(ebb_str_status(&path, err));
    t->entries[t->count++] =
        (struct exp_tree_entry){.path = ebb_str_take(&path), .bytes = bytes, .sums = *sums};
    return EBB_OK;
}

static enum ebb_status walk_directory(struct walk *w, int fd, int depth, struct ebb_error *err);

static enum ebb_status walk_entry(struct walk *w, int fd, const char *name, int depth,
                                  struct ebb_error *err)
{
    struct stat st;
    struct ebb_sums_text sums = {.sha256 = ""};
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(err, "cannot look at", name);
    if (S_ISREG(st.st_mode)) {
        int64_t bytes = st.st_size;
        if (w->wants_hash)
            EBB_TRY(sum_file(fd, name, &sums, &bytes, err));
        return add(w, name, false, bytes, &sums, err);
    }
    if (!S_ISDIR(st.st_mode))
        return ebb_fail(err, EBB_EINPUT, "%s%s is neither a file nor a directory",
                        ebb_str_c(&w->path), name);
    EBB_TRY(add(w, name, true, 0, &sums, err));
    int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (child < 0)
        return fail(err, "cannot open", name);
    size_t length = w->path.length;
    ebb_str_printf(&w->path, "%s/", name);
    enum ebb_status status = walk_directory(w, child, depth + 1, err);
    w->path.length = length;
    if (w->path.data != NULL)
        w->path.data[length] = '\0';
    return status;
}

/* Takes fd. */
static enum ebb_status walk_directory(struct walk *w, int fd, int depth, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        status = fail(err, "cannot list", ebb_str_c(&w->path));
        close(fd);
        return status;
    }
    if (depth > DEPTH_MAX)
        status = ebb_fail(err, EBB_EINPUT, "more than %d levels of directories", DEPTH_MAX);
    while (status == EBB_OK) {
        errno = 0;
        struct dirent *e = readdir(dir);
        if (e == NULL && errno != 0)
            status = fail(err, "cannot list", ebb_str_c(&w->path));
        if (e == NULL)
            break;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = walk_entry(w, fd, e->d_name, depth, err);
    }
    closedir(dir);
    return status;
}

/* ---- links within a tree ---- */

static int open_beneath(int root, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

/* Where a descriptor's file is, without links. */
static bool place_of(int fd, char *path, size_t size)
{
    char proc[64];
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(proc, path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0 && (size_t)n < size - 1;
}

/* The same for a link that says where it leads from the root of the machine. */
static int open_absolute(int root, int fd, const char *name)
{
    char top[PATH_MAX], path[PATH_MAX];
    int any = openat(fd, name, O_PATH | O_CLOEXEC);
    bool is_known = any >= 0 && place_of(any, path, sizeof path) && place_of(root, top, sizeof top);
    size_t length = is_known ? strlen(top) : 0;
    if (any >= 0)
        close(any);
    if (!is_known || strncmp(path, top, length) != 0 || path[length] != '/')
        return -1;
    return open_beneath(root, path + length + 1);
}

/* A link to a file of the same tree becomes that file: another name of it. False: it leads elsewhere. */
static bool flatten_link(int root, int fd, const char *name, const char *path)
{
    static const char between[] = ".ebb-link";
    struct stat st;
    char proc[64];
    int target = open_beneath(root, path);
    if (target < 0 && errno == EXDEV)
        target = open_absolute(root, fd, name);
    if (target < 0)
        return false;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", target);
    bool is_done = fstat(target, &st) == 0 && S_ISREG(st.st_mode) &&
                   linkat(AT_FDCWD, proc, fd, between, AT_SYMLINK_FOLLOW) == 0 &&
                   renameat(fd, between, fd, name) == 0;
    close(target);
    return is_done;
}

/* Takes fd, of the directory at `path`, which ends in '/' or is empty. */
static enum ebb_status flatten(int root, int fd, const char *path, int depth, struct ebb_error *err)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return fail(err, "cannot list", path);
    }
    enum ebb_status status = EBB_OK;
    for (struct dirent *e; status == EBB_OK && depth <= DEPTH_MAX && (e = readdir(dir)) != NULL;) {
        struct stat st;
        struct ebb_str inner = {0};
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        ebb_str_printf(&inner, "%s%s", path, e->d_name);
        if (S_ISLNK(st.st_mode) && !flatten_link(root, fd, e->d_name, ebb_str_c(&inner)))
            status = ebb_fail(err, EBB_EINPUT,
                              "%s is a link that leads to no file of the checkpoint: files are "
                              "kept, and links to them",
                              ebb_str_c(&inner));
        int child = S_ISDIR(st.st_mode)
                        ? openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                        : -1;
        ebb_str_addc(&inner, '/');
        if (child >= 0)
            status = flatten(root, child, ebb_str_c(&inner), depth + 1, err);
        ebb_str_fini(&inner);
    }
    closedir(dir);
    return status;
}

enum ebb_status exp_tree_flatten(int directory, struct ebb_error *err)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? fail(err, "cannot open", "directory") : flatten(directory, fd, "", 0, err);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct exp_tree_entry *)a)->path,
                  ((const struct exp_tree_entry *)b)->path);
}

enum ebb_status exp_tree_read(struct exp_tree *tree, int directory, bool wants_hash,
                              struct ebb_error *err)
{
    struct walk w = {.tree = tree, .wants_hash = wants_hash};
    *tree = (struct exp_tree){0};
    ebb_str_init(&w.path);
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum ebb_status status =
        fd < 0 ? fail(err, "cannot open", "directory") : walk_directory(&w, fd, 0, err);
    ebb_str_fini(&w.path);
    if (status != EBB_OK) {
        exp_tree_fini(tree);
        return status;
    }
    if (tree->count > 0)
        qsort(tree->entries, tree->count, sizeof *tree->entries, by_path);
    return EBB_OK;
}

void exp_tree_fini(struct exp_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        ebb_free(tree->entries[i].path);
    ebb_free(tree->entries);
    *tree = (struct exp_tree){0};
}

static enum ebb_status empty(int parent, const char *name, int depth, struct ebb_error *err);

static enum ebb_status remove_entry(int parent, const char *name, int depth, struct ebb_error *err)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return EBB_OK;
    if (errno != EISDIR && errno != EPERM)
        return fail(err, "cannot remove", name);
    EBB_TRY(empty(parent, name, depth, err));
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return EBB_OK;
    return fail(err, "cannot remove", name);
}

static enum ebb_status empty(int parent, const char *name, int depth, struct ebb_error *err)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? EBB_OK : fail(err, "cannot open", name);
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return fail(err, "cannot list", name);
    }
    enum ebb_status status = EBB_OK;
    if (depth > 2 * DEPTH_MAX)
        status = ebb_fail(err, EBB_EIO, "cannot remove %s: too many levels of directories", name);
    for (struct dirent *e; status == EBB_OK && (e = readdir(dir)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = remove_entry(fd, e->d_name, depth + 1, err);
    closedir(dir);
    return status;
}

enum ebb_status exp_tree_remove(int parent, const char *name, struct ebb_error *err)
{
    return remove_entry(parent, name, 0, err);
}
