/* remote_get.c - a checkpoint from a store that is uploaded to, into a directory of this machine.
 *
 * The manifest comes first; every file is hashed as it arrives and must be what the manifest says.
 * Everything is written under a temporary name and renamed when whole. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/doc.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/manifest.h"
#include "base/thread.h"
#include "exp/store/driver.h"

#define WAYS_FILES 8
#define WAYS_RANGES 4
#define RANGE_BYTES ((int64_t)8 << 20)
#define RANGED_BYTES (2 * RANGE_BYTES) /* larger files are fetched in ranges */
#define FILE_MAX ((int64_t)1 << 44)    /* more than any store takes: a manifest that says so lies */
#define MANIFEST_MAX ((size_t)16 << 20)
#define ROUNDS 3 /* for a file that arrives damaged */

/* EBB_EFULL: there is no room. */
static enum ebb_status cannot(struct ebb_error *err, const char *what, const char *path, int code)
{
    return ebb_fail(err, ebb_errno_status(code), "cannot %s %s: %s", what, path, strerror(code));
}

/* ---- ranges ---- */

bool exp_range_take(void *context, const char *bytes, size_t count)
{
    struct exp_range *range = context;
    if (range->bytes >= 0 && range->received + (int64_t)count > range->bytes)
        return false; /* more than was asked for */
    if (!range->sink(range->context, bytes, count))
        return false;
    range->received += (int64_t)count;
    return true;
}

bool exp_range_header(const struct exp_range *range, char *text, size_t size)
{
    long long from = (long long)(range->offset + range->received);
    if (range->bytes < 0 && from == 0)
        return false;
    if (range->bytes < 0)
        snprintf(text, size, "range: bytes=%lld-", from);
    else
        snprintf(text, size, "range: bytes=%lld-%lld", from,
                 (long long)(range->offset + range->bytes - 1));
    return true;
}

/* ---- in memory ---- */

static bool keep(void *context, const char *bytes, size_t count)
{
    struct ebb_str *out = context;
    if (out->length + count > MANIFEST_MAX)
        return false;
    ebb_str_addn(out, bytes, count);
    return !out->failed;
}

static enum ebb_status get_manifest(struct exp_remote *r, const char *uuid, struct ebb_arena *arena,
                                    struct ebb_str *text, struct ebb_manifest *manifest,
                                    struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    EBB_TRY(r->store->driver->remote->get(r, uuid, EBB_MANIFEST, 0, -1, keep, text, err));
    EBB_TRY(ebb_str_status(text, err));
    enum ebb_status status =
        ebb_doc_parse_json(arena, EBB_MANIFEST, ebb_str_c(text), text->length, &root, err);
    EBB_THEN(status, ebb_manifest_read(arena, EBB_MANIFEST, root, manifest, err));
    if (status != EBB_OK) /* what there was no memory to read may be good */
        return status == EBB_ENOMEM ? status : ebb_context(err, EBB_ECORRUPT, "damaged");
    if (manifest->uuid == NULL || strcmp(manifest->uuid, uuid) != 0)
        return ebb_fail(err, EBB_ECORRUPT, "damaged: manifest.json is not this checkpoint's");
    for (size_t i = 0; i < manifest->count; i++) {
        const struct ebb_manifest_file *file = &manifest->files[i];
        if (!exp_store_is_safe_path(file->path) || file->bytes < 0 || file->bytes > FILE_MAX)
            return ebb_fail(err, EBB_ECORRUPT, "damaged: manifest.json names \"%s\" of %lld bytes",
                            file->path, (long long)file->bytes);
    }
    return EBB_OK;
}

/* ---- one file ---- */

struct stream { /* a file that arrives in order */
    int fd;
    int64_t at, limit;
    struct ebb_proof *proof; /* NULL: proved later */
    int error;
    bool is_longer; /* than the limit */
};

static bool write_stream(void *context, const char *bytes, size_t count)
{
    struct stream *s = context;
    s->is_longer = s->at + (int64_t)count > s->limit;
    if (s->is_longer)
        return false;
    for (size_t done = 0; done < count;) {
        ssize_t n = pwrite(s->fd, bytes + done, count - done, s->at + (int64_t)done);
        if (n <= 0) {
            s->error = errno;
            return false;
        }
        done += (size_t)n;
    }
    if (s->proof != NULL)
        ebb_sums_add(&s->proof->sums, bytes, count);
    s->at += (int64_t)count;
    return true;
}

struct fetch {
    struct exp_remote *r;
    const char *uuid;
    int directory;
    const struct ebb_manifest_file *files;
    const struct ebb_manifest_file *file; /* in ranges */
    int fd;
    bool *is_there; /* ranges that have arrived */
    size_t ranges;
    struct ebb_proof proof;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum ebb_status status;
    struct ebb_error err;
};

static enum ebb_status end_proof(struct ebb_proof *proof, struct ebb_error *err)
{
    enum ebb_status status = ebb_proof_end(proof, err);
    return status == EBB_ECORRUPT ? ebb_context(err, status, "damaged") : status;
}

static enum ebb_status get_whole(struct fetch *f, const struct ebb_manifest_file *want, int fd,
                                 struct ebb_error *err)
{
    struct ebb_proof proof;
    struct stream s = {.fd = fd, .limit = want->bytes, .proof = &proof};
    enum ebb_status status = EBB_OK;
    ebb_proof_init(&proof, want);
    if (want->bytes > 0)
        status = f->r->store->driver->remote->get(f->r, f->uuid, want->path, 0, -1, write_stream,
                                                  &s, err);
    if (status != EBB_OK && s.error != 0)
        status = cannot(err, "write", want->path, s.error);
    else if (status != EBB_OK && s.is_longer)
        status = ebb_fail(err, EBB_ECORRUPT, "damaged: %s is longer than manifest.json says",
                          want->path);
    EBB_THEN(status, end_proof(&proof, err));
    ebb_proof_fini(&proof);
    return status;
}

static void note(struct fetch *f, enum ebb_status status, const struct ebb_error *why)
{
    pthread_mutex_lock(&f->lock);
    if (status != EBB_OK && f->status == EBB_OK) {
        f->status = status;
        f->err = *why;
        pthread_cond_signal(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
}

static bool is_over(struct fetch *f)
{
    pthread_mutex_lock(&f->lock);
    bool is_failed = f->status != EBB_OK;
    pthread_mutex_unlock(&f->lock);
    return is_failed;
}

static enum ebb_status hash_range(struct fetch *f, size_t i, struct ebb_error *err)
{
    char buffer[65536];
    int64_t at = (int64_t)i * RANGE_BYTES, end = at + RANGE_BYTES;
    for (ssize_t n; at < end && at < f->file->bytes; at += n) {
        n = pread(f->fd, buffer, sizeof buffer, at);
        if (n <= 0)
            return ebb_fail(err, EBB_EIO, "cannot read %s back: %s", f->file->path,
                            strerror(errno));
        ebb_sums_add(&f->proof.sums, buffer, (size_t)n);
    }
    return EBB_OK;
}

/* A thread of its own hashes ranges in their order, from the page cache, while others arrive. */
static void *hash_ranges(void *context)
{
    struct fetch *f = context;
    struct ebb_error why;
    for (size_t i = 0; i < f->ranges; i++) {
        pthread_mutex_lock(&f->lock);
        while (!f->is_there[i] && f->status == EBB_OK)
            pthread_cond_wait(&f->changed, &f->lock);
        bool is_failed = f->status != EBB_OK;
        pthread_mutex_unlock(&f->lock);
        if (is_failed)
            break;
        note(f, hash_range(f, i, &why), &why);
    }
    return NULL;
}

static void get_range(void *context, size_t i)
{
    struct fetch *f = context;
    struct ebb_error why;
    int64_t at = (int64_t)i * RANGE_BYTES, left = f->file->bytes - at;
    int64_t bytes = left < RANGE_BYTES ? left : RANGE_BYTES;
    if (is_over(f))
        return;
    struct stream s = {.fd = f->fd, .at = at, .limit = at + bytes};
    enum ebb_status status = f->r->store->driver->remote->get(f->r, f->uuid, f->file->path, at,
                                                              bytes, write_stream, &s, &why);
    if (status != EBB_OK && s.error != 0)
        status = cannot(&why, "write", f->file->path, s.error);
    if (status == EBB_OK && s.at != at + bytes)
        status = ebb_fail(&why, EBB_ECORRUPT, "damaged: %s is shorter than manifest.json says",
                          f->file->path);
    pthread_mutex_lock(&f->lock);
    f->is_there[i] = status == EBB_OK;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    note(f, status, &why);
}

static enum ebb_status get_ranges(struct fetch *outer, const struct ebb_manifest_file *want, int fd,
                                  struct ebb_error *err)
{
    struct fetch f = {.r = outer->r, .uuid = outer->uuid, .file = want, .fd = fd};
    struct ebb_error why;
    pthread_t hasher;
    f.ranges = (size_t)((want->bytes + RANGE_BYTES - 1) / RANGE_BYTES);
    f.is_there = ebb_calloc(f.ranges, sizeof *f.is_there);
    if (f.is_there == NULL)
        return ebb_no_memory(err, f.ranges);
    ebb_proof_init(&f.proof, want);
    pthread_mutex_init(&f.lock, NULL);
    pthread_cond_init(&f.changed, NULL);
    int failed = ebb_thread_start(&hasher, hash_ranges, &f);
    if (failed == 0) {
        note(&f, ebb_parallel(WAYS_RANGES, f.ranges, get_range, &f, &why), &why);
        pthread_join(hasher, NULL);
    }
    enum ebb_status status =
        failed != 0 ? ebb_fail(err, EBB_EIO, "cannot start a thread: %s", strerror(failed))
                    : f.status;
    if (failed == 0 && status != EBB_OK && err != NULL)
        *err = f.err;
    EBB_THEN(status, end_proof(&f.proof, err));
    ebb_proof_fini(&f.proof);
    pthread_cond_destroy(&f.changed);
    pthread_mutex_destroy(&f.lock);
    ebb_free(f.is_there);
    return status;
}

static enum ebb_status get_file(struct fetch *f, const struct ebb_manifest_file *want,
                                struct ebb_error *err)
{
    enum ebb_status status = EBB_ECORRUPT;
    for (int round = 0; status == EBB_ECORRUPT && round < ROUNDS; round++) {
        int fd = openat(f->directory, want->path,
                        O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
            return cannot(err, "write", want->path, errno);
        status =
            want->bytes > RANGED_BYTES ? get_ranges(f, want, fd, err) : get_whole(f, want, fd, err);
        if (status == EBB_OK)
            (void)fchmod(fd, 0444); /* shared by all who start from it */
        if (close(fd) != 0 && status == EBB_OK)
            status = cannot(err, "write", want->path, errno);
    }
    if (status == EBB_OK && f->r->watch != NULL)
        atomic_fetch_add(&f->r->watch->bytes, want->bytes);
    return status;
}

static void get_one(void *context, size_t i)
{
    struct fetch *f = context;
    struct ebb_error why;
    if (!is_over(f) && f->files[i].bytes <= RANGED_BYTES)
        note(f, get_file(f, &f->files[i], &why), &why);
}

/* ---- a checkpoint ---- */

static enum ebb_status make_directories(int root, const char *path, struct ebb_error *err)
{
    char part[1032];
    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        if (mkdirat(root, part, 0755) != 0 && errno != EEXIST)
            return cannot(err, "make", part, errno);
    }
    return EBB_OK;
}

/* Directories that hold no file stand in the record only. */
static enum ebb_status make_empty(int root, const char *resources, struct ebb_arena *arena,
                                  struct ebb_error *err)
{
    const struct ebb_doc_node *list = NULL;
    if (resources == NULL)
        return EBB_OK;
    EBB_TRY(ebb_doc_parse_json(arena, "resources", resources, strlen(resources), &list, err));
    for (size_t i = 0; list->kind == EBB_DOC_MAP && i < list->count; i++) {
        const char *path = list->keys[i]->text;
        size_t n = strlen(path);
        char plain[1032];
        if (n == 0 || n > 1024 || path[n - 1] != '/')
            continue;
        snprintf(plain, sizeof plain, "%.*s", (int)(n - 1), path);
        if (exp_store_is_safe_path(plain))
            EBB_TRY(make_directories(root, path, err));
    }
    return EBB_OK;
}

static enum ebb_status keep_manifest(int directory, const struct ebb_str *text,
                                     struct ebb_error *err)
{
    int fd = openat(directory, EBB_MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    bool is_written = fd >= 0 && ebb_write_all(fd, text->data, text->length);
    int code = errno;
    if (fd >= 0 && close(fd) != 0 && is_written) {
        is_written = false;
        code = errno;
    }
    return is_written ? EBB_OK : cannot(err, "write", EBB_MANIFEST, code);
}

static enum ebb_status get_open(struct exp_remote *r, const char *uuid, const char *resources,
                                int directory, struct ebb_error *err)
{
    struct ebb_arena arena;
    struct ebb_str text = {0};
    struct ebb_manifest manifest = {0};
    struct fetch f = {.r = r, .uuid = uuid, .directory = directory};
    ebb_arena_init(&arena);
    enum ebb_status status = get_manifest(r, uuid, &arena, &text, &manifest, err);
    EBB_THEN(status, make_empty(directory, resources, &arena, err));
    for (size_t i = 0; i < manifest.count; i++)
        EBB_THEN(status, make_directories(directory, manifest.files[i].path, err));
    f.files = manifest.files;
    pthread_mutex_init(&f.lock, NULL);
    pthread_cond_init(&f.changed, NULL);
    EBB_THEN(status, ebb_parallel(WAYS_FILES, manifest.count, get_one, &f, err));
    pthread_cond_destroy(&f.changed);
    pthread_mutex_destroy(&f.lock);
    if (status == EBB_OK && f.status != EBB_OK) {
        status = f.status;
        if (err != NULL)
            *err = f.err;
    }
    for (size_t i = 0; i < manifest.count; i++)
        if (manifest.files[i].bytes > RANGED_BYTES)
            EBB_THEN(status, get_file(&f, &manifest.files[i], err));
    EBB_THEN(status, keep_manifest(directory, &text, err));
    ebb_str_fini(&text);
    ebb_arena_fini(&arena);
    return status;
}

/* Into base/name, which is empty then. */
static enum ebb_status get_into(struct exp_remote *r, const char *uuid, const char *resources,
                                int base, const char *name, struct ebb_error *err)
{
    int fd = -1;
    EBB_TRY(exp_tree_remove(base, name, err)); /* left by one who was killed */
    if (mkdirat(base, name, 0755) != 0 ||
        (fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return cannot(err, "make", name, errno);
    if (r->watch != NULL)
        atomic_store(&r->watch->bytes, 0);
    enum ebb_status status = get_open(r, uuid, resources, fd, err);
    close(fd);
    return status;
}

enum ebb_status exp_store_fetch(const struct exp_store *store, const char *uuid,
                                const char *resources, const char *directory,
                                struct exp_store_watch *watch, struct ebb_error *err)
{
    struct exp_remote r = {.store = store, .watch = watch};
    char name[64];
    EBB_TRY(exp_net_http(store->net, &r.http, err));
    EBB_TRY(ebb_file_mkdirs(directory, err));
    int base = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0)
        return ebb_fail(err, EBB_EIO, "cannot open %s: %s", directory, strerror(errno));
    snprintf(name, sizeof name, ".%s.tmp", uuid);
    enum ebb_status status = get_into(&r, uuid, resources, base, name, err);
    if (status == EBB_ECORRUPT) /* the manifest itself may have arrived damaged: once more */
        status = get_into(&r, uuid, resources, base, name, err);
    if (status == EBB_OK && renameat(base, name, base, uuid) != 0 &&
        faccessat(base, uuid, F_OK, AT_SYMLINK_NOFOLLOW) != 0) /* else somebody was quicker */
        status =
            ebb_fail(err, EBB_EIO, "cannot rename to %s/%s: %s", directory, uuid, strerror(errno));
    (void)exp_tree_remove(base, name, NULL);
    close(base);
    if (status != EBB_OK) {
        struct ebb_str where = {0};
        store->driver->remote->address(store, uuid, &where);
        /* Keys that nobody gives and certificates that have ended may be there again later. */
        status = status == EBB_EINPUT ? EBB_EIO : status;
        status = ebb_context(err, status, "checkpoint %s", ebb_str_c(&where));
        ebb_str_fini(&where);
    }
    return status;
}
