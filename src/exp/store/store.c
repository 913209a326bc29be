/* store.c - kinds of stores, names, and what is common to them. */
#include "exp/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "exp/store/driver.h"

/* ---- names ---- */

bool exp_store_is_uuid(const char *text)
{
    if (text == NULL)
        return false;
    for (int i = 0; i < 36; i++) {
        bool is_hyphen = i == 8 || i == 13 || i == 18 || i == 23;
        char c = text[i];
        if (is_hyphen ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return text[36] == '\0';
}

enum ebb_status exp_uuid_make(char text[EXP_UUID_TEXT], struct ebb_error *err)
{
    uint8_t b[16];
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return ebb_fail(err, EBB_EIO, "no random bytes: %s", strerror(errno));
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    for (int i = 0, at = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[at++] = '-';
        snprintf(text + at, 3, "%02x", b[i]);
        at += 2;
    }
    return EBB_OK;
}

bool exp_store_is_safe_path(const char *path)
{
    size_t length = strlen(path);
    if (length == 0 || length > 1024 || path[0] == '/')
        return false;
    for (const char *at = path; *at != '\0';) {
        size_t n = strcspn(at, "/");
        if (n == 0 || n > 255 || (n == 1 && at[0] == '.') || (n == 2 && strncmp(at, "..", 2) == 0))
            return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f)
                return false;
        at += n;
        if (*at == '/' && *++at == '\0')
            return false;
    }
    return true;
}

/* ---- stores ---- */

static enum ebb_status make(const struct exp_store_driver *driver, const char *directory,
                            struct exp_store **store, struct ebb_error *err)
{
    struct exp_store *made = ebb_calloc(1, sizeof *made);
    char *copy = ebb_strdup(directory);
    if (made == NULL || copy == NULL) {
        ebb_free(made);
        ebb_free(copy);
        return ebb_no_memory(err, sizeof *made);
    }
    *made = (struct exp_store){.driver = driver, .directory = copy};
    *store = made;
    return EBB_OK;
}

enum ebb_status exp_store_open(const struct exp_storage *storage, struct exp_store **store,
                               struct ebb_error *err)
{
    if (storage->kind != EXP_STORAGE_SHARED_FS)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "checkpoint_storage.type: this build keeps checkpoints on shared_fs only");
    return make(&exp_store_shared_fs, storage->directory, store, err);
}

enum ebb_status exp_store_open_location(const char *location, struct exp_store **store,
                                        struct ebb_error *err)
{
    struct ebb_arena arena;
    const struct ebb_doc_node *root = NULL;
    ebb_arena_init(&arena);
    enum ebb_status status =
        ebb_doc_parse_json(&arena, "location", location, strlen(location), &root, err);
    const char *type = ebb_doc_string(root, "type", "");
    const char *directory = ebb_doc_string(root, "directory", "");
    if (status == EBB_OK && (strcmp(type, "shared_fs") != 0 || directory[0] != '/'))
        status = ebb_fail(err, EBB_EUNSUPPORTED, "checkpoint location %s: not a shared_fs one",
                          location);
    if (status == EBB_OK)
        status = make(&exp_store_shared_fs, directory, store, err);
    ebb_arena_fini(&arena);
    return status;
}

void exp_store_close(struct exp_store *store)
{
    if (store == NULL)
        return;
    ebb_free(store->directory);
    ebb_free(store);
}

void exp_store_location(const struct exp_store *store, struct ebb_str *out)
{
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "type", store->driver->name);
    ebb_jsonw_key_string(&w, "directory", store->directory);
    ebb_jsonw_object_end(&w);
}

void exp_store_staging_path(const struct exp_store *store, const char *uuid, struct ebb_str *out)
{
    ebb_str_printf(out, "%s/.%s.tmp", store->directory, uuid);
}

void exp_store_path(const struct exp_store *store, const char *uuid, struct ebb_str *out)
{
    ebb_str_printf(out, "%s/%s", store->directory, uuid);
}

enum ebb_status exp_store_prepare(const struct exp_store *store, struct ebb_error *err)
{
    return store->driver->prepare(store, err);
}

void exp_store_publish(const struct exp_store *store, struct exp_store_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ebb_str_init(&items[i].resources);
        items[i].size = 0;
        items[i].status = exp_store_is_uuid(items[i].uuid)
                              ? EBB_OK
                              : ebb_fail(&items[i].err, EBB_EINPUT, "no checkpoint name");
    }
    store->driver->publish(store, items, count);
}

static enum ebb_status check_name(const char *uuid, struct ebb_error *err)
{
    return exp_store_is_uuid(uuid) ? EBB_OK : ebb_fail(err, EBB_EINPUT, "no checkpoint name");
}

enum ebb_status exp_store_verify(const struct exp_store *store, const char *uuid,
                                 struct ebb_error *err)
{
    EBB_TRY(check_name(uuid, err));
    return store->driver->verify(store, uuid, err);
}

enum ebb_status exp_store_remove(const struct exp_store *store, const char *uuid,
                                 struct ebb_error *err)
{
    EBB_TRY(check_name(uuid, err));
    return store->driver->remove(store, uuid, err);
}

enum ebb_status exp_store_check(const struct exp_store *store, struct ebb_error *err)
{
    char uuid[EXP_UUID_TEXT], path[4096];
    EBB_TRY(exp_store_prepare(store, err));
    EBB_TRY(exp_uuid_make(uuid, err));
    snprintf(path, sizeof path, "%s/.%s.tmp", store->directory, uuid);
    if (mkdir(path, 0777) != 0)
        return ebb_fail(err, EBB_EIO, "cannot make %s: %s", path, strerror(errno));
    struct exp_store_file file = {
        .path = "VALIDATE.txt", .mode = 0644, .data = uuid, .length = strlen(uuid)};
    enum ebb_status status = exp_store_unpack(path, &file, 1, err);
    struct exp_store_item item = {.uuid = uuid, .metadata = "{}"};
    ebb_str_init(&item.resources);
    if (status == EBB_OK) {
        exp_store_publish(store, &item, 1);
        status = item.status;
        if (status != EBB_OK && err != NULL)
            *err = item.err;
    }
    if (status == EBB_OK)
        status = exp_store_verify(store, uuid, err);
    ebb_str_fini(&item.resources);
    enum ebb_status removed = exp_store_remove(store, uuid, status == EBB_OK ? err : NULL);
    return status != EBB_OK ? status : removed;
}

/* ---- files of a model definition ---- */

static enum ebb_status make_parents(int root, const char *path, bool is_whole,
                                    struct ebb_error *err)
{
    char part[1032];
    for (const char *at = path;; at++) {
        if (*at == '/' || (*at == '\0' && is_whole)) {
            memcpy(part, path, (size_t)(at - path));
            part[at - path] = '\0';
            if (mkdirat(root, part, 0777) != 0 && errno != EEXIST)
                return ebb_fail(err, EBB_EIO, "cannot make directory %s: %s", part,
                                strerror(errno));
        }
        if (*at == '\0')
            return EBB_OK;
    }
}

static enum ebb_status write_all(int fd, const char *data, size_t length, const char *path,
                                 struct ebb_error *err)
{
    if (!ebb_write_all(fd, data, length))
        return ebb_fail(err, EBB_EIO, "cannot write %s: %s", path, strerror(errno));
    return EBB_OK;
}

static enum ebb_status unpack_one(int root, const struct exp_store_file *f, struct ebb_error *err)
{
    if (!exp_store_is_safe_path(f->path))
        return ebb_fail(err, EBB_EINPUT, "model definition: the path \"%s\" is not allowed",
                        f->path);
    EBB_TRY(make_parents(root, f->path, f->is_directory, err));
    if (f->is_directory)
        return EBB_OK;
    mode_t mode = (mode_t)((f->mode & 0777) | 0600);
    int fd = openat(root, f->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return ebb_fail(err, EBB_EIO, "cannot write %s: %s", f->path, strerror(errno));
    enum ebb_status status = write_all(fd, f->data, f->length, f->path, err);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)f->mtime}};
    if (status == EBB_OK && f->mtime > 0)
        (void)futimens(fd, times); /* a courtesy */
    close(fd);
    return status;
}

enum ebb_status exp_store_unpack(const char *directory, const struct exp_store_file *files,
                                 size_t count, struct ebb_error *err)
{
    int root = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return ebb_fail(err, EBB_EIO, "cannot open %s: %s", directory, strerror(errno));
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; status == EBB_OK && i < count; i++)
        status = unpack_one(root, &files[i], err);
    close(root);
    return status;
}

enum ebb_status exp_store_remove_tree(const char *path, struct ebb_error *err)
{
    return exp_tree_remove(AT_FDCWD, path, err);
}
