/* remote_put.c - a whole checkpoint from its staged copy to a store that is uploaded to.
 *
 * Small files go by several threads, each whole; large ones one after the other, each in parts by
 * several threads. manifest.json and metadata.json go last, in this order: a checkpoint with
 * metadata.json is whole. What the store has confirmed stands in the journal and is not sent again. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/heap.h"
#include "base/manifest.h"
#include "base/thread.h"
#include "exp/store/driver.h"

#define WAYS_FILES 8 /* at a time */
#define SMALL_BYTES ((int64_t)8 << 20)
#define WAYS_PARTS 4
#define PARTS_AHEAD (2 * EBB_MD5_LANES) /* whose sums wait for a way, if they are not too large: */
#define BYTES_AHEAD ((int64_t)256 << 20)

/* ---- work that several threads share ---- */

struct batch {
    struct exp_remote *r;
    const char *uuid;
    int directory;
    const struct exp_tree *tree;
    const size_t *files;                /* those of the tree that go whole */
    const struct exp_remote_file *file; /* or the parts of this one */
    const char *id;
    const size_t *parts;
    size_t count;
    bool has_hasher;          /* else each way sums what it takes */
    size_t summed, taken;     /* the first so many parts; taken ones are on their way */
    struct exp_sums *waiting; /* of the parts between: part i at i % PARTS_AHEAD */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum ebb_status status; /* the first that is not EBB_OK, with its err */
    struct ebb_error err;
};

static bool is_over(struct batch *b)
{
    pthread_mutex_lock(&b->lock);
    bool is_failed = b->status != EBB_OK;
    pthread_mutex_unlock(&b->lock);
    return is_failed;
}

static void note(struct batch *b, enum ebb_status status, const struct ebb_error *why)
{
    if (status == EBB_OK)
        return;
    pthread_mutex_lock(&b->lock);
    if (b->status == EBB_OK) {
        b->status = status;
        b->err = *why;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
}

static void count_sent(struct exp_remote *r, int64_t bytes)
{
    if (r->watch != NULL)
        atomic_fetch_add(&r->watch->bytes, bytes);
}

static int64_t sent(const struct exp_remote *r)
{
    return r->watch != NULL ? (int64_t)atomic_load(&r->watch->bytes) : 0;
}

static void begin(struct batch *b)
{
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
}

static enum ebb_status end(struct batch *b, struct ebb_error *err)
{
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    if (b->status != EBB_OK && err != NULL)
        *err = b->err;
    return b->status;
}

/* ---- whole files ---- */

static enum ebb_status open_entry(int directory, const struct exp_tree_entry *e, int *fd,
                                  struct ebb_error *err)
{
    *fd = -1;
    if (e->path[strlen(e->path) - 1] == '/')
        return EBB_OK;
    *fd = openat(directory, e->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return *fd >= 0 ? EBB_OK
                    : ebb_fail(err, errno == ENOENT ? EBB_ECORRUPT : EBB_EIO,
                               "cannot read the staged %s: %s", e->path, strerror(errno));
}

/* The file that goes is the one that was sealed. EBB_ECORRUPT: it is not. By SHA-256, which is what
 * requests are signed with. */
static enum ebb_status prove(const struct batch *b, const struct exp_tree_entry *e,
                             struct ebb_error *err)
{
    if (e->sums.sha256[0] == '\0')
        return EBB_OK;
    struct ebb_manifest_file want = {e->path, e->bytes, e->sums.sha256, NULL};
    enum ebb_status status = exp_tree_prove(b->directory, &want, err);
    return status == EBB_ECORRUPT ? ebb_context(err, status, "the staged copy is damaged") : status;
}

/* Small files are proved before they are sent, large ones on the first try not at all: they were
 * hashed a moment ago. What has lain here since an earlier try is proved before its manifest goes. */
static enum ebb_status prove_old(const struct batch *b, struct ebb_error *err)
{
    for (size_t i = 0; exp_journal_is_old(b->r->journal) && i < b->tree->count; i++)
        if (b->tree->entries[i].bytes > SMALL_BYTES)
            EBB_TRY(prove(b, &b->tree->entries[i], err));
    return EBB_OK;
}

static enum ebb_status put_entry(struct batch *b, const struct exp_tree_entry *e,
                                 struct ebb_error *err)
{
    struct exp_remote_file f = {.uuid = b->uuid, .path = e->path, .bytes = e->bytes, .fd = -1};
    f.sha256 = e->sums.sha256[0] != '\0' ? e->sums.sha256 : NULL;
    if (e->bytes <= SMALL_BYTES)
        EBB_TRY(prove(b, e, err));
    EBB_TRY(open_entry(b->directory, e, &f.fd, err));
    enum ebb_status status = b->r->store->driver->remote->put(b->r, &f, err);
    if (status == EBB_ECORRUPT) { /* there, or here? */
        struct ebb_error why;
        status = prove(b, e, &why) == EBB_ECORRUPT ? EBB_ECORRUPT : EBB_EIO;
        *err = status == EBB_ECORRUPT ? why : *err;
    }
    EBB_THEN(status, exp_journal_done(b->r->journal, e->path, err));
    if (status == EBB_OK)
        count_sent(b->r, e->bytes);
    if (f.fd >= 0)
        close(f.fd);
    return status;
}

static void put_one(void *context, size_t i)
{
    struct batch *b = context;
    struct ebb_error why;
    if (!is_over(b))
        note(b, put_entry(b, &b->tree->entries[b->files[i]], &why), &why);
}

/* ---- files in parts ---- */

static int64_t bytes_of_part(const struct exp_remote *r, const struct exp_remote_file *f,
                             size_t part)
{
    int64_t size = r->store->driver->remote->part_bytes(f->bytes);
    int64_t left = f->bytes - (int64_t)part * size;
    return left < size ? left : size;
}

/* How many parts may be summed and not taken: of large ones fewer, so that what was read to be summed
 * is still in the page cache when it is sent. */
static size_t parts_ahead(const struct batch *b)
{
    int64_t most = BYTES_AHEAD / b->r->store->driver->remote->part_bytes(b->file->bytes);
    return most < 2 ? 2 : most < PARTS_AHEAD ? (size_t)most : PARTS_AHEAD;
}

/* False: some part has failed. */
static bool wait_for_room(struct batch *b, size_t end, size_t ahead)
{
    pthread_mutex_lock(&b->lock);
    while (b->status == EBB_OK && end > b->taken + ahead)
        pthread_cond_wait(&b->changed, &b->lock);
    bool is_good = b->status == EBB_OK;
    pthread_mutex_unlock(&b->lock);
    return is_good;
}

static enum ebb_status sum_some(struct batch *b, size_t at, size_t count, struct exp_sums *sums,
                                struct ebb_error *err)
{
    return b->r->store->driver->remote->sum_parts(b->r, b->file, b->parts + at, count, sums, err);
}

/* A thread of its own sums parts side by side, ahead of those that send them: as many at once as
 * went before, so the first is soon on its way. */
static void *sum_parts(void *context)
{
    struct batch *b = context;
    struct exp_sums sums[EBB_MD5_LANES];
    struct ebb_error why;
    size_t ahead = parts_ahead(b), lanes = ahead / 2;
    for (size_t at = 0, n; at < b->count; at += n) {
        n = at < 1 ? 1 : at < lanes ? at : lanes;
        n = n < b->count - at ? n : b->count - at;
        if (!wait_for_room(b, at + n, ahead))
            break;
        enum ebb_status status = sum_some(b, at, n, sums, &why);
        note(b, status, &why);
        pthread_mutex_lock(&b->lock);
        for (size_t i = 0; status == EBB_OK && i < n; i++)
            b->waiting[(at + i) % PARTS_AHEAD] = sums[i];
        b->summed = at + n;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

/* The next part, in their order, with its sums. False: some part has failed. */
static bool take_part(struct batch *b, size_t *at, struct exp_sums *sums)
{
    struct ebb_error why;
    pthread_mutex_lock(&b->lock);
    while (b->status == EBB_OK && b->has_hasher && b->summed <= b->taken)
        pthread_cond_wait(&b->changed, &b->lock);
    bool is_good = b->status == EBB_OK;
    *at = b->taken++;
    *sums = b->waiting[*at % PARTS_AHEAD];
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    if (!is_good || b->has_hasher)
        return is_good;
    enum ebb_status status = sum_some(b, *at, 1, sums, &why);
    note(b, status, &why);
    return status == EBB_OK;
}

/* One of as many calls as there are parts: whichever is next. */
static void put_part(void *context, size_t call)
{
    struct batch *b = context;
    struct ebb_error why;
    struct exp_sums sums;
    size_t at;
    char etag[EXP_ETAG];
    (void)call;
    if (!take_part(b, &at, &sums))
        return;
    size_t part = b->parts[at];
    enum ebb_status status =
        b->r->store->driver->remote->put_part(b->r, b->file, b->id, part, &sums, etag, &why);
    EBB_THEN(status, exp_journal_part_done(b->r->journal, b->file->path, part, etag, &why));
    if (status == EBB_OK)
        count_sent(b->r, bytes_of_part(b->r, b->file, part));
    note(b, status, &why);
}

static enum ebb_status put_summed(struct batch *b, struct ebb_error *err)
{
    struct exp_sums waiting[PARTS_AHEAD] = {0};
    struct ebb_error why;
    pthread_t hasher;
    b->waiting = waiting;
    begin(b);
    b->has_hasher = ebb_thread_start(&hasher, sum_parts, b) == 0; /* without it only takes longer */
    note(b, ebb_parallel(WAYS_PARTS, b->count, put_part, b, &why), &why);
    if (b->has_hasher)
        pthread_join(hasher, NULL);
    return end(b, err);
}

static enum ebb_status put_missing(struct batch *b, const struct exp_remote_file *f, const char *id,
                                   size_t parts, struct ebb_error *err)
{
    char etag[EXP_ETAG];
    size_t count = 0, *missing = ebb_calloc(parts, sizeof *missing);
    if (missing == NULL)
        return ebb_no_memory(err, parts * sizeof *missing);
    for (size_t i = 0; i < parts; i++)
        if (exp_journal_part(b->r->journal, f->path, i, etag))
            count_sent(b->r, bytes_of_part(b->r, f, i));
        else
            missing[count++] = i;
    struct batch inner = {.r = b->r, .file = f, .id = id, .parts = missing, .count = count};
    enum ebb_status status = put_summed(&inner, err);
    ebb_free(missing);
    return status;
}

/* EBB_ECORRUPT: the store knows nothing of the upload (any more); it begins again, once. */
static enum ebb_status put_parts(struct batch *b, const struct exp_remote_file *f,
                                 int64_t part_bytes, struct ebb_error *err)
{
    const struct exp_remote_driver *d = b->r->store->driver->remote;
    char id[EXP_UPLOAD_ID];
    size_t parts = (size_t)((f->bytes + part_bytes - 1) / part_bytes);
    int64_t before = sent(b->r); /* nothing else is on its way */
    enum ebb_status status = EBB_OK;
    for (int again = 0; again < 2; again++) {
        if (!exp_journal_upload(b->r->journal, f->path, id)) {
            EBB_TRY(d->begin_parts(b->r, f, id, err));
            EBB_TRY(exp_journal_begin(b->r->journal, f->path, id, err));
        }
        status = put_missing(b, f, id, parts, err);
        EBB_THEN(status, d->finish_parts(b->r, f, id, parts, err));
        if (status != EBB_ECORRUPT)
            break;
        EBB_TRY(exp_journal_begin(b->r->journal, f->path, "", NULL));
        count_sent(b->r, before - sent(b->r)); /* what it knows nothing of is not there */
    }
    EBB_THEN(status, exp_journal_done(b->r->journal, f->path, err));
    return status == EBB_ECORRUPT ? EBB_EIO : status;
}

static enum ebb_status put_large(struct batch *b, const struct exp_tree_entry *e,
                                 struct ebb_error *err)
{
    struct exp_remote_file f = {.uuid = b->uuid, .path = e->path, .bytes = e->bytes, .fd = -1};
    f.sha256 = e->sums.sha256[0] != '\0' ? e->sums.sha256 : NULL;
    EBB_TRY(open_entry(b->directory, e, &f.fd, err));
    enum ebb_status status =
        put_parts(b, &f, b->r->store->driver->remote->part_bytes(e->bytes), err);
    close(f.fd);
    return status;
}

/* ---- a checkpoint ---- */

static bool is_last(const char *path)
{
    return strcmp(path, EBB_MANIFEST) == 0 || strcmp(path, "metadata.json") == 0;
}

static bool is_large(const struct exp_remote *r, const struct exp_tree_entry *e)
{
    const struct exp_remote_driver *d = r->store->driver->remote;
    return d->part_bytes != NULL && d->part_bytes(e->bytes) > 0;
}

static enum ebb_status put_named(struct batch *b, const char *path, struct ebb_error *err)
{
    for (size_t i = 0; i < b->tree->count; i++) {
        const struct exp_tree_entry *e = &b->tree->entries[i];
        if (strcmp(e->path, path) != 0)
            continue;
        if (exp_journal_is_done(b->r->journal, path))
            return EBB_OK;
        return is_large(b->r, e) ? put_large(b, e, err) : put_entry(b, e, err);
    }
    return ebb_fail(err, EBB_ECORRUPT, "the staged copy has no %s", path);
}

static enum ebb_status put_files(struct batch *b, size_t *files, struct ebb_error *err)
{
    const struct exp_remote_driver *d = b->r->store->driver->remote;
    size_t count = 0;
    for (size_t i = 0; i < b->tree->count; i++) {
        const struct exp_tree_entry *e = &b->tree->entries[i];
        bool is_marker = e->path[strlen(e->path) - 1] == '/';
        if (is_last(e->path) || is_large(b->r, e) || (is_marker && !d->has_markers))
            continue;
        if (exp_journal_is_done(b->r->journal, e->path))
            count_sent(b->r, e->bytes);
        else
            files[count++] = i;
    }
    b->files = files;
    begin(b);
    struct ebb_error why;
    note(b, ebb_parallel(WAYS_FILES, count, put_one, b, &why), &why);
    EBB_TRY(end(b, err));
    for (size_t i = 0; i < b->tree->count; i++) {
        const struct exp_tree_entry *e = &b->tree->entries[i];
        if (!is_large(b->r, e) || is_last(e->path))
            continue;
        if (exp_journal_is_done(b->r->journal, e->path))
            count_sent(b->r, e->bytes);
        else
            EBB_TRY(put_large(b, e, err));
    }
    EBB_TRY(prove_old(b, err));
    EBB_TRY(put_named(b, EBB_MANIFEST, err));
    return put_named(b, "metadata.json", err);
}

/* What the manifest says of each file: a driver may prove with it what has arrived. */
static enum ebb_status add_hashes(int directory, struct exp_tree *tree, struct ebb_error *err)
{
    struct ebb_arena arena;
    struct ebb_manifest manifest = {0};
    ebb_arena_init(&arena);
    enum ebb_status status = exp_store_read_manifest(directory, &arena, &manifest, err);
    for (size_t i = 0, k = 0; status == EBB_OK && i < manifest.count; i++) {
        while (k < tree->count && strcmp(tree->entries[k].path, manifest.files[i].path) < 0)
            k++; /* both ascending */
        if (k == tree->count || strcmp(tree->entries[k].path, manifest.files[i].path) != 0 ||
            tree->entries[k].bytes != manifest.files[i].bytes)
            status = ebb_fail(err, EBB_ECORRUPT, "the staged copy has no %s of %lld bytes",
                              manifest.files[i].path, (long long)manifest.files[i].bytes);
        else
            memcpy(tree->entries[k].sums.sha256, manifest.files[i].sha256, 64);
    }
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status put_open(struct exp_remote *r, const char *uuid, int directory,
                                struct ebb_error *err)
{
    const struct exp_remote_driver *d = r->store->driver->remote;
    struct exp_tree tree = {0};
    struct batch b = {.r = r, .uuid = uuid, .directory = directory, .tree = &tree};
    EBB_TRY(exp_tree_read(&tree, directory, false, err));
    enum ebb_status status = add_hashes(directory, &tree, err);
    size_t *files = status == EBB_OK ? ebb_calloc(tree.count + 1, sizeof *files) : NULL;
    if (status == EBB_OK && files == NULL)
        status = ebb_no_memory(err, tree.count * sizeof *files);
    if (d->begin != NULL)
        EBB_THEN(status, d->begin(r, uuid, err));
    EBB_THEN(status, put_files(&b, files, err));
    if (d->finish != NULL)
        EBB_THEN(status, d->finish(r, uuid, err));
    ebb_free(files);
    exp_tree_fini(&tree);
    return status;
}

enum ebb_status exp_store_upload(const struct exp_store *store, const char *uuid,
                                 const char *directory, const char *journal,
                                 struct exp_store_watch *watch, struct ebb_error *err)
{
    struct exp_remote r = {.store = store, .watch = watch};
    struct ebb_str whose = {0};
    EBB_TRY(exp_net_http(store->net, &r.http, err));
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return ebb_fail(err, errno == ENOENT ? EBB_ECORRUPT : EBB_EIO,
                        "the staged copy %s is gone: %s", directory, strerror(errno));
    if (watch != NULL)
        atomic_store(&watch->bytes, 0);
    store->driver->remote->address(store, uuid, &whose);
    enum ebb_status status = ebb_str_status(&whose, err);
    EBB_THEN(status, exp_journal_open(&r.journal, journal, ebb_str_c(&whose), err));
    EBB_THEN(status, put_open(&r, uuid, fd, err));
    exp_journal_close(r.journal);
    ebb_str_fini(&whose);
    close(fd);
    return status;
}
