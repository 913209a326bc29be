/* shared_fs.c - checkpoints as directories of a file system. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/manifest.h"
#include "base/utf8.h"
#include "exp/store/driver.h"

#define NAME_MAX_BYTES 48 /* ".<uuid>.tmp" */
#define METADATA_MAX ((size_t)16 << 20)

static enum ebb_status fail(struct ebb_error *err, const char *what, const char *path)
{
    return ebb_fail(err, ebb_errno_status(errno), "%s %s: %s", what, path, strerror(errno));
}

/* EBB_EINPUT: there is no such directory, which is no damage of what should be in it. */
static enum ebb_status open_status(int code)
{
    enum ebb_status status = exp_tree_errno(code);
    return status == EBB_ECORRUPT ? EBB_EINPUT : status;
}

static enum ebb_status open_base(const struct exp_store *store, int *fd, struct ebb_error *err)
{
    *fd = open(store->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0)
        return EBB_OK;
    return ebb_fail(err, open_status(errno),
                    "cannot open the checkpoint directory %s (checkpoint_storage.host_path): %s",
                    store->directory, strerror(errno));
}

static enum ebb_status prepare(const struct exp_store *store, struct ebb_error *err)
{
    struct stat st;
    if (stat(store->directory, &st) == 0 && S_ISDIR(st.st_mode))
        return EBB_OK;
    EBB_TRY(ebb_file_mkdirs(store->directory, err));
    if (chmod(store->directory, 0777) != 0)
        return fail(err, "cannot change the mode of", store->directory);
    return EBB_OK;
}

/* ---- sealing ---- */

static enum ebb_status fail_to_read(struct ebb_error *err, const char *name)
{
    return ebb_fail(err, exp_tree_errno(errno), "cannot read %s: %s", name, strerror(errno));
}

/* What is in a root file of the checkpoint; *out is untouched when there is none. EBB_ECORRUPT: a link
 * or directory has its place. */
static enum ebb_status read_file(int dir, const char *name, struct ebb_str *out,
                                 struct ebb_error *err)
{
    char buffer[8192];
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? EBB_OK : fail_to_read(err, name);
    enum ebb_status status = EBB_OK;
    ssize_t n;
    while (status == EBB_OK && (n = read(fd, buffer, sizeof buffer)) != 0) {
        if (n < 0)
            status = fail_to_read(err, name);
        else if (out->length + (size_t)n > METADATA_MAX)
            status = ebb_fail(err, EBB_EINPUT, "%s is larger than 16 MiB", name);
        else
            ebb_str_addn(out, buffer, (size_t)n);
    }
    close(fd);
    return status != EBB_OK ? status : ebb_str_status(out, err);
}

static enum ebb_status write_file(int dir, const char *name, const struct ebb_str *text,
                                  struct ebb_error *err)
{
    EBB_TRY(ebb_str_status(text, err));
    (void)unlinkat(dir, name, 0); /* also a link the trial may have put there */
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(err, "cannot write", name);
    enum ebb_status status =
        ebb_write_all(fd, text->data, text->length) ? EBB_OK : fail(err, "cannot write", name);
    if (close(fd) != 0 && status == EBB_OK)
        status = fail(err, "cannot write", name);
    return status;
}

/* metadata.json: what the trial wrote, with our keys over it. */
static enum ebb_status write_metadata(int dir, const struct exp_store_item *item,
                                      struct ebb_error *err)
{
    struct ebb_arena arena;
    struct ebb_str text;
    struct ebb_json_writer w;
    const struct ebb_doc_node *theirs = NULL, *ours = NULL;
    ebb_arena_init(&arena);
    ebb_str_init(&text);
    enum ebb_status status = read_file(dir, "metadata.json", &text, err);
    if (status == EBB_OK && text.length > 0)
        status = ebb_doc_parse_json(&arena, "metadata.json", text.data, text.length, &theirs, err);
    if (status == EBB_OK && theirs != NULL && theirs->kind != EBB_DOC_MAP)
        status = ebb_fail(err, EBB_EINPUT, "metadata.json is not an object");
    EBB_THEN(status, ebb_doc_parse_json(&arena, "metadata", item->metadata, strlen(item->metadata),
                                        &ours, err));
    if (status != EBB_OK)
        goto out;
    struct ebb_doc_node *merged = ebb_doc_new(&arena, EBB_DOC_MAP);
    for (size_t i = 0; theirs != NULL && i < theirs->count; i++)
        if (!ebb_doc_set(&arena, merged, theirs->keys[i]->text, theirs->items[i]))
            status = ebb_no_memory(err, sizeof *merged);
    for (size_t i = 0; i < ours->count; i++)
        if (!ebb_doc_set(&arena, merged, ours->keys[i]->text, ours->items[i]))
            status = ebb_no_memory(err, sizeof *merged);
    if (status != EBB_OK)
        goto out;
    ebb_str_clear(&text);
    ebb_jsonw_init(&w, &text, 2);
    ebb_doc_write_json(merged, &w);
    ebb_str_addc(&text, '\n');
    status = write_file(dir, "metadata.json", &text, err);
out:
    ebb_str_fini(&text);
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status write_manifest(int dir, const char *uuid, const struct exp_tree *tree,
                                      struct ebb_error *err)
{
    struct ebb_str text;
    struct ebb_manifest manifest = {.uuid = uuid};
    manifest.files = ebb_calloc(tree->count + 1, sizeof *manifest.files);
    if (manifest.files == NULL)
        return ebb_no_memory(err, tree->count * sizeof *manifest.files);
    for (size_t i = 0; i < tree->count; i++) {
        const struct exp_tree_entry *e = &tree->entries[i];
        if (e->path[strlen(e->path) - 1] != '/')
            manifest.files[manifest.count++] =
                (struct ebb_manifest_file){e->path, e->bytes, e->sums.sha256, e->sums.xxh128};
    }
    ebb_str_init(&text);
    ebb_manifest_write(&manifest, 0, &text);
    enum ebb_status status = write_file(dir, EBB_MANIFEST, &text, err);
    ebb_str_fini(&text);
    ebb_free(manifest.files);
    return status;
}

/* The record of a sealed tree: every entry but the root. */
static enum ebb_status list_resources(const struct exp_tree *tree, int64_t manifest_bytes,
                                      struct exp_store_item *item, struct ebb_error *err)
{
    struct ebb_json_writer w;
    ebb_str_clear(&item->resources);
    ebb_jsonw_init(&w, &item->resources, 0);
    ebb_jsonw_object(&w);
    item->size = manifest_bytes;
    for (size_t i = 0; i < tree->count; i++) {
        if (strcmp(tree->entries[i].path, "manifest.json") == 0)
            continue;
        ebb_jsonw_key(&w, tree->entries[i].path);
        ebb_jsonw_int(&w, tree->entries[i].bytes);
        item->size += tree->entries[i].bytes;
    }
    ebb_jsonw_key(&w, "manifest.json");
    ebb_jsonw_int(&w, manifest_bytes);
    ebb_jsonw_object_end(&w);
    return ebb_str_status(&item->resources, err);
}

static enum ebb_status add_code(int dir, int twin, const struct exp_store_item *item,
                                struct ebb_error *err)
{
    if (item->code_count == 0)
        return EBB_OK;
    EBB_TRY(exp_tree_remove(dir, "code", err));
    if (mkdirat(dir, "code", 0777) != 0)
        return fail(err, "cannot make", "code");
    int code = openat(dir, "code", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (code < 0)
        return fail(err, "cannot open", "code");
    enum ebb_status status = exp_store_unpack_linked(code, twin, item->code, item->code_count, err);
    close(code);
    return status;
}

/* U+FFFE and U+FFFF: S3 takes them in keys, and not in the XML that removes them. */
static bool is_no_text(const char *at)
{
    return memcmp(at, "\xef\xbf", 2) == 0 && (unsigned char)at[2] >= 0xbe;
}

/* What cannot be named in the manifest, or not be read back by it, is refused now and not at the
 * restart that needs it. */
static enum ebb_status check_names(const struct exp_tree *tree, const struct exp_store_names *names,
                                   struct ebb_error *err)
{
    const char *without = names->without != NULL ? names->without : "";
    size_t most = names->max > 0 ? names->max : EXP_NAME_MAX;
    for (size_t i = 0; i < tree->count; i++) {
        const char *path = tree->entries[i].path, *at = path, *end = path + strlen(path);
        char plain[1032];
        bool is_directory = end[-1] == '/';
        snprintf(plain, sizeof plain, "%.*s", (int)(end - path) - is_directory, path);
        for (size_t n; at < end && (n = ebb_utf8_length(at, end)) > 0 && !is_no_text(at);)
            at += n;
        if (at == end && (size_t)(end - path) <= most && strpbrk(path, without) == NULL &&
            exp_store_is_safe_path(plain))
            continue;
        struct ebb_str shown = {0};
        for (const char *c = path; c < end && shown.length < 120; c++)
            ebb_str_addc(&shown, *c >= 0x20 && *c < 0x7f ? *c : '?');
        ebb_fail(err, EBB_EINPUT,
                 "names are UTF-8 without control characters%s%s, at most %zu bytes with their "
                 "directories; the checkpoint has a file \"%s\"",
                 *without != '\0' ? " and " : "", without, most, ebb_str_c(&shown));
        ebb_str_fini(&shown);
        return EBB_EINPUT;
    }
    return EBB_OK;
}

static enum ebb_status seal_open(int dir, int twin, struct exp_store_item *item,
                                 struct ebb_error *err)
{
    struct exp_tree tree = {0};
    struct stat st;
    (void)unlinkat(dir, "manifest.json", 0);
    EBB_TRY(add_code(dir, twin, item, err));
    EBB_TRY(exp_tree_flatten(dir, err));
    EBB_TRY(write_metadata(dir, item, err));
    EBB_TRY(exp_tree_read(&tree, dir, true, err));
    enum ebb_status status = check_names(&tree, &item->names, err);
    EBB_THEN(status, write_manifest(dir, item->uuid, &tree, err));
    if (status == EBB_OK && fstatat(dir, "manifest.json", &st, AT_SYMLINK_NOFOLLOW) != 0)
        status = fail(err, "cannot look at", "manifest.json");
    if (status == EBB_OK && (size_t)st.st_size > METADATA_MAX) /* it could not be read back */
        status = ebb_fail(err, EBB_EINPUT,
                          "the checkpoint has %zu files: manifest.json is larger than 16 MiB",
                          tree.count);
    EBB_THEN(status, list_resources(&tree, st.st_size, item, err));
    exp_tree_fini(&tree);
    return status;
}

static enum ebb_status verify_at(int base, const char *name, const char *uuid,
                                 struct ebb_error *err);

/* Published before (the answer got lost): only the record is needed again (T2). */
static enum ebb_status list_published(int base, struct exp_store_item *item)
{
    struct ebb_error *err = &item->err;
    struct exp_tree tree = {0};
    struct stat st;
    EBB_TRY(verify_at(base, item->uuid, item->uuid, err));
    int dir = openat(base, item->uuid, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return fail(err, "cannot open", item->uuid);
    enum ebb_status status = exp_tree_read(&tree, dir, false, err);
    if (status == EBB_OK && fstatat(dir, "manifest.json", &st, AT_SYMLINK_NOFOLLOW) != 0)
        status = fail(err, "cannot look at", "manifest.json");
    EBB_THEN(status, list_resources(&tree, st.st_size, item, err));
    exp_tree_fini(&tree);
    close(dir);
    return status;
}

/* code/ of another checkpoint that has the same: one of this batch, or of an earlier one; -1: none. */
static int open_twin(int base, const struct exp_store_item *items, size_t i)
{
    char path[NAME_MAX_BYTES + 8];
    int twin = -1;
    for (size_t k = i; twin < 0 && k-- > 0;) {
        snprintf(path, sizeof path, ".%s.tmp/code", items[k].uuid);
        if (items[k].code == items[i].code && items[k].status == EBB_OK)
            twin = openat(base, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (twin < 0 && items[i].code_from != NULL && exp_store_is_uuid(items[i].code_from)) {
        snprintf(path, sizeof path, "%s/code", items[i].code_from);
        twin = openat(base, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return twin;
}

/* *is_new: there is something to rename. */
static enum ebb_status seal(int base, int twin, struct exp_store_item *item, bool *is_new)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, ".%s.tmp", item->uuid);
    int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0) {
        *is_new = false;
        if (faccessat(base, item->uuid, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return list_published(base, item);
        return ebb_fail(&item->err, EBB_EINPUT,
                        "checkpoint did not create a storage directory (%s)", name);
    }
    *is_new = true;
    enum ebb_status status = seal_open(dir, twin, item, &item->err);
    close(dir);
    return status;
}

static void publish(const struct exp_store *store, struct exp_store_item *items, size_t count)
{
    struct ebb_error err;
    int base = -1;
    enum ebb_status status = open_base(store, &base, &err);
    bool *is_new = ebb_calloc(count + 1, sizeof *is_new);
    if (status == EBB_OK && is_new == NULL)
        status = ebb_no_memory(&err, count);
    size_t renames = 0;
    for (size_t i = 0; status == EBB_OK && i < count; i++) {
        if (items[i].status == EBB_OK) {
            int twin = items[i].code_count > 0 ? open_twin(base, items, i) : -1;
            items[i].status = seal(base, twin, &items[i], &is_new[i]);
            if (twin >= 0)
                close(twin);
        }
        renames += items[i].status == EBB_OK && is_new[i];
    }
    if (status == EBB_OK && renames > 0 && syncfs(base) != 0)
        status = fail(&err, "cannot sync", store->directory);
    for (size_t i = 0; status == EBB_OK && i < count; i++) {
        char name[NAME_MAX_BYTES];
        snprintf(name, sizeof name, ".%s.tmp", items[i].uuid);
        if (items[i].status == EBB_OK && is_new[i] &&
            renameat(base, name, base, items[i].uuid) != 0)
            items[i].status = fail(&items[i].err, "cannot rename to", items[i].uuid);
    }
    if (status == EBB_OK && renames > 0 && fsync(base) != 0)
        status = fail(&err, "cannot sync", store->directory);
    for (size_t i = 0; status != EBB_OK && i < count; i++) {
        items[i].status = status;
        items[i].err = err;
    }
    ebb_free(is_new);
    if (base >= 0)
        close(base);
}

/* ---- verifying ---- */

static enum ebb_status verify_entry(int dir, const struct ebb_manifest_file *want,
                                    struct ebb_error *err)
{
    if (!exp_store_is_safe_path(want->path))
        return ebb_fail(err, EBB_ECORRUPT, "manifest.json names \"%s\"", want->path);
    enum ebb_status status = exp_tree_prove(dir, want, err);
    return status == EBB_ECORRUPT ? ebb_context(err, status, "damaged") : status;
}

enum ebb_status exp_store_read_manifest(int dir, struct ebb_arena *arena,
                                        struct ebb_manifest *manifest, struct ebb_error *err)
{
    struct ebb_str text;
    const struct ebb_doc_node *root = NULL;
    ebb_str_init(&text);
    enum ebb_status status = read_file(dir, EBB_MANIFEST, &text, err);
    if (status == EBB_OK && text.length == 0)
        status = ebb_fail(err, EBB_ECORRUPT, "there is no manifest.json");
    EBB_THEN(status, ebb_doc_parse_json(arena, EBB_MANIFEST, text.data, text.length, &root, err));
    EBB_THEN(status, ebb_manifest_read(arena, EBB_MANIFEST, root, manifest, err));
    ebb_str_fini(&text);
    /* What could not be read may be good. */
    return status == EBB_OK || status == EBB_ENOMEM || status == EBB_EIO
               ? status
               : ebb_context(err, EBB_ECORRUPT, "damaged");
}

static enum ebb_status verify_open(int dir, const char *uuid, struct ebb_error *err)
{
    struct ebb_arena arena;
    struct ebb_manifest manifest = {.count = 0};
    ebb_arena_init(&arena);
    enum ebb_status status = exp_store_read_manifest(dir, &arena, &manifest, err);
    if (status == EBB_OK && (manifest.uuid == NULL || strcmp(manifest.uuid, uuid) != 0))
        status = ebb_fail(err, EBB_ECORRUPT, "damaged: manifest.json is not this checkpoint's");
    for (size_t i = 0; status == EBB_OK && i < manifest.count; i++)
        status = verify_entry(dir, &manifest.files[i], err);
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status verify_at(int base, const char *name, const char *uuid,
                                 struct ebb_error *err)
{
    int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return ebb_fail(err, open_status(errno), "cannot open %s: %s", name, strerror(errno));
    enum ebb_status status = verify_open(dir, uuid, err);
    close(dir);
    return status;
}

enum ebb_status exp_store_verify_copy(const char *directory, const char *uuid,
                                      struct ebb_error *err)
{
    enum ebb_status status = verify_at(AT_FDCWD, directory, uuid, err);
    return status == EBB_OK ? EBB_OK : ebb_context(err, status, "%s", directory);
}

static enum ebb_status verify(const struct exp_store *store, const char *uuid,
                              struct ebb_error *err)
{
    int base;
    EBB_TRY(open_base(store, &base, err));
    enum ebb_status status = verify_at(base, uuid, uuid, err);
    close(base);
    if (status != EBB_OK)
        return ebb_context(err, status, "checkpoint %s/%s (checkpoint_storage.host_path)",
                           store->directory, uuid);
    return EBB_OK;
}

/* ---- removing ---- */

/* First out of sight, then gone: nobody finds half of it under its final name. */
static enum ebb_status remove_checkpoint(const struct exp_store *store, const char *uuid,
                                         struct ebb_error *err)
{
    char name[NAME_MAX_BYTES];
    int base = open(store->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0)
        return errno == ENOENT ? EBB_OK : fail(err, "cannot open", store->directory);
    snprintf(name, sizeof name, "..%s.tmp.tmp", uuid); /* clients write beside the place, too */
    enum ebb_status status = exp_tree_remove(base, name, err);
    snprintf(name, sizeof name, ".%s.tmp", uuid);
    EBB_THEN(status, exp_tree_remove(base, name, err));
    if (status == EBB_OK && renameat(base, uuid, base, name) != 0 && errno != ENOENT)
        status = fail(err, "cannot remove", uuid);
    EBB_THEN(status, exp_tree_remove(base, name, err));
    close(base);
    if (status != EBB_OK)
        return ebb_context(err, status, "%s", store->directory);
    return EBB_OK;
}

const struct exp_store_driver exp_store_shared_fs = {
    .name = "shared_fs",
    .prepare = prepare,
    .publish = publish,
    .verify = verify,
    .remove = remove_checkpoint,
};
