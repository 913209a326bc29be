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
    if (length == 0 || length > EXP_NAME_MAX || path[0] == '/')
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

static const struct exp_store_driver *const drivers[EXP_STORAGE_NONE] = {
    [EXP_STORAGE_SHARED_FS] = &exp_store_shared_fs,
    [EXP_STORAGE_S3] = &exp_store_s3,
    [EXP_STORAGE_GCS] = &exp_store_gcs,
    [EXP_STORAGE_HDFS] = &exp_store_hdfs,
};

static bool copy(char **to, const char *text)
{
    *to = text != NULL ? ebb_strdup(text) : NULL;
    return text == NULL || *to != NULL;
}

/* "a/b" and "/a/b/" are the prefix "a/b/". */
static bool copy_prefix(char **to, const char *prefix)
{
    struct ebb_str text = {0};
    if (prefix == NULL)
        return copy(to, "");
    prefix += strspn(prefix, "/");
    size_t n = strlen(prefix);
    while (n > 0 && prefix[n - 1] == '/')
        n--;
    if (n > 0)
        ebb_str_printf(&text, "%.*s/", (int)n, prefix);
    bool is_good = !text.failed && copy(to, ebb_str_c(&text));
    ebb_str_fini(&text);
    return is_good;
}

enum ebb_status exp_store_open(const struct exp_storage *s, int64_t experiment,
                               struct exp_store_net *net, struct exp_store **store,
                               struct ebb_error *err)
{
    if (s->kind >= EXP_STORAGE_NONE)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "checkpoint_storage.type: this build has no such store");
    const struct exp_store_driver *driver = drivers[s->kind];
    bool is_hdfs = s->kind == EXP_STORAGE_HDFS;
    struct exp_store *made = ebb_calloc(1, sizeof *made);
    if (made == NULL)
        return ebb_no_memory(err, sizeof *made);
    made->driver = driver;
    made->experiment = experiment;
    made->net = net;
    bool is_good = copy(&made->directory, is_hdfs ? s->hdfs_path : s->directory) &&
                   copy(&made->bucket, s->bucket) && copy_prefix(&made->prefix, s->prefix) &&
                   copy(&made->endpoint, is_hdfs ? s->hdfs_url : s->endpoint_url) &&
                   copy(&made->access_key, s->access_key) &&
                   copy(&made->secret_key, s->secret_key) && copy(&made->user, s->user);
    if (!is_good) {
        exp_store_close(made);
        return ebb_no_memory(err, sizeof *made);
    }
    *store = made;
    return EBB_OK;
}

/* Which kind a location is of, and what it says; texts in the arena. */
static enum ebb_status read_location(struct ebb_arena *arena, const char *location,
                                     struct exp_storage *s, int64_t *experiment,
                                     struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    EBB_TRY(ebb_doc_parse_json(arena, "location", location, strlen(location), &root, err));
    const char *type = ebb_doc_string(root, "type", "");
    *s = (struct exp_storage){.kind = EXP_STORAGE_NONE};
    for (int i = 0; i < EXP_STORAGE_NONE; i++)
        if (strcmp(drivers[i]->name, type) == 0)
            s->kind = (enum exp_storage_kind)i;
    s->directory = ebb_doc_string(root, "directory", NULL);
    s->bucket = ebb_doc_string(root, "bucket", NULL);
    s->prefix = ebb_doc_string(root, "prefix", NULL);
    s->endpoint_url = ebb_doc_string(root, "endpoint_url", NULL);
    s->hdfs_url = ebb_doc_string(root, "hdfs_url", NULL);
    s->hdfs_path = ebb_doc_string(root, "hdfs_path", NULL);
    s->user = ebb_doc_string(root, "user", NULL);
    *experiment = ebb_doc_int(root, "experiment", 0);
    bool is_whole = s->kind == EXP_STORAGE_SHARED_FS
                        ? s->directory != NULL && s->directory[0] == '/'
                    : s->kind == EXP_STORAGE_HDFS ? s->hdfs_url != NULL && s->hdfs_path != NULL
                    : s->kind != EXP_STORAGE_NONE ? s->bucket != NULL
                                                  : false;
    return is_whole ? EBB_OK
                    : ebb_fail(err, EBB_EUNSUPPORTED,
                               "checkpoint location %s: of no kind that is known here", location);
}

enum ebb_status exp_store_open_location(const char *location, const struct exp_store_keys *keys,
                                        struct exp_store_net *net, struct exp_store **store,
                                        struct ebb_error *err)
{
    struct ebb_arena arena;
    struct exp_storage s;
    int64_t experiment = 0;
    ebb_arena_init(&arena);
    enum ebb_status status = read_location(&arena, location, &s, &experiment, err);
    if (status == EBB_OK && keys != NULL) {
        s.access_key = keys->access_key;
        s.secret_key = keys->secret_key;
    }
    EBB_THEN(status, exp_store_open(&s, experiment, net, store, err));
    ebb_arena_fini(&arena);
    return status;
}

static enum exp_storage_kind look_at_location(const char *location, int64_t *experiment)
{
    struct ebb_arena arena;
    struct exp_storage s;
    ebb_arena_init(&arena);
    if (read_location(&arena, location, &s, experiment, NULL) != EBB_OK) {
        s.kind = EXP_STORAGE_NONE;
        *experiment = 0;
    }
    ebb_arena_fini(&arena);
    return s.kind;
}

bool exp_store_location_is_remote(const char *location)
{
    int64_t ignored;
    enum exp_storage_kind kind = look_at_location(location, &ignored);
    return kind < EXP_STORAGE_NONE && drivers[kind]->remote != NULL;
}

int64_t exp_store_location_owner(const char *location)
{
    int64_t experiment = 0;
    (void)look_at_location(location, &experiment);
    return experiment;
}

void exp_store_close(struct exp_store *store)
{
    if (store == NULL)
        return;
    if (store->secret_key != NULL)
        explicit_bzero(store->secret_key, strlen(store->secret_key));
    ebb_free(store->directory);
    ebb_free(store->bucket);
    ebb_free(store->prefix);
    ebb_free(store->endpoint);
    ebb_free(store->access_key);
    ebb_free(store->secret_key);
    ebb_free(store->user);
    ebb_free(store);
}

bool exp_store_is_remote(const struct exp_store *store)
{
    return store->driver->remote != NULL;
}

struct exp_store_names exp_store_names(const struct exp_store *store)
{
    const struct exp_remote_driver *remote = store->driver->remote;
    size_t before = strlen(store->prefix) + EXP_UUID_TEXT; /* with the '/' after it */
    struct exp_store_names names = {.max = EXP_NAME_MAX};
    if (remote == NULL)
        return names;
    names.without = remote->no_names_with;
    if (remote->key_max > 0)
        names.max = remote->key_max > before ? remote->key_max - before : 1;
    return names;
}

static bool is_equal(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

bool exp_store_is_same(const struct exp_store *a, const struct exp_storage *b)
{
    if (b->kind >= EXP_STORAGE_NONE || a->driver != drivers[b->kind])
        return false;
    if (b->kind == EXP_STORAGE_SHARED_FS)
        return is_equal(a->directory, b->directory);
    if (b->kind == EXP_STORAGE_HDFS)
        return is_equal(a->endpoint, b->hdfs_url) && is_equal(a->directory, b->hdfs_path);
    return is_equal(a->bucket, b->bucket) && is_equal(a->endpoint, b->endpoint_url);
}

static void write_given(struct ebb_json_writer *w, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0')
        ebb_jsonw_key_string(w, key, text);
}

void exp_store_location(const struct exp_store *store, struct ebb_str *out)
{
    struct ebb_json_writer w;
    bool is_hdfs = strcmp(store->driver->name, "hdfs") == 0;
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "type", store->driver->name);
    write_given(&w, is_hdfs ? "hdfs_url" : "endpoint_url", store->endpoint);
    write_given(&w, is_hdfs ? "hdfs_path" : "directory", store->directory);
    write_given(&w, "bucket", store->bucket);
    write_given(&w, "prefix", store->prefix);
    write_given(&w, "user", store->user);
    if (store->access_key != NULL && store->experiment > 0) /* T4 */
        ebb_jsonw_key_int(&w, "experiment", store->experiment);
    ebb_jsonw_object_end(&w);
}

void exp_store_staging_path(const struct exp_store *store, const char *uuid, struct ebb_str *out)
{
    ebb_str_printf(out, "%s/.%s.tmp", store->directory, uuid);
}

void exp_store_path(const struct exp_store *store, const char *uuid, struct ebb_str *out)
{
    if (exp_store_is_remote(store))
        store->driver->remote->address(store, uuid, out);
    else
        ebb_str_printf(out, "%s/%s", store->directory, uuid);
}

enum ebb_status exp_store_prepare(const struct exp_store *store, struct ebb_error *err)
{
    return exp_store_is_remote(store) ? EBB_OK : store->driver->prepare(store, err);
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

/* ---- removing from remote stores ---- */

static enum ebb_status remove_remote(const struct exp_store *store, const char *uuid,
                                     const char *resources, const char *journal,
                                     struct exp_store_watch *watch, struct ebb_error *err)
{
    struct ebb_arena arena;
    struct ebb_str whose = {0};
    struct exp_remote r = {.store = store, .watch = watch};
    const struct ebb_doc_node *list = NULL;
    const char **paths = NULL;
    size_t count = 0;
    ebb_arena_init(&arena);
    enum ebb_status status = exp_net_http(store->net, &r.http, err);
    if (resources != NULL)
        EBB_THEN(status,
                 ebb_doc_parse_json(&arena, "resources", resources, strlen(resources), &list, err));
    if (status == EBB_OK && list != NULL && list->kind == EBB_DOC_MAP) {
        paths = ebb_arena_calloc(&arena, list->count + 1, sizeof *paths);
        for (size_t i = list->count; paths != NULL && i-- > 0;) /* files before their directory */
            paths[count++] = list->keys[i]->text;
        status = ebb_arena_status(&arena, err);
    }
    if (journal != NULL && access(journal, R_OK) == 0) {
        store->driver->remote->address(store, uuid, &whose);
        EBB_THEN(status, exp_journal_open(&r.journal, journal, ebb_str_c(&whose), err));
        ebb_str_fini(&whose);
    }
    EBB_THEN(status, store->driver->remote->remove(&r, uuid, paths, count, err));
    exp_journal_close(r.journal);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status exp_store_remove(const struct exp_store *store, const char *uuid,
                                 const char *resources, const char *journal,
                                 struct exp_store_watch *watch, struct ebb_error *err)
{
    EBB_TRY(check_name(uuid, err));
    if (exp_store_is_remote(store))
        return remove_remote(store, uuid, resources, journal, watch, err);
    return store->driver->remove(store, uuid, err);
}

/* ---- checking a store ---- */

/* A checkpoint with one file in a directory that is used in place. */
static enum ebb_status make_probe(const struct exp_store *place, const char *uuid,
                                  struct exp_store_item *item, struct ebb_error *err)
{
    struct ebb_str path = {0};
    struct exp_store_file file = {
        .path = "VALIDATE.txt", .mode = 0644, .data = uuid, .length = strlen(uuid)};
    exp_store_staging_path(place, uuid, &path);
    enum ebb_status status = ebb_str_status(&path, err);
    if (status == EBB_OK && mkdir(ebb_str_c(&path), 0777) != 0)
        status = ebb_fail(err, EBB_EIO, "cannot make %s: %s", ebb_str_c(&path), strerror(errno));
    EBB_THEN(status, exp_store_unpack(ebb_str_c(&path), &file, 1, err));
    ebb_str_fini(&path);
    EBB_TRY(status);
    *item = (struct exp_store_item){.uuid = uuid, .metadata = "{}"};
    exp_store_publish(place, item, 1);
    if (item->status != EBB_OK && err != NULL)
        *err = item->err;
    return item->status;
}

/* Up, back again under another name, compared by the manifest on the way; gone. */
static enum ebb_status check_remote(const struct exp_store *store, const struct exp_store *place,
                                    const char *uuid, const struct exp_store_item *item,
                                    struct exp_store_watch *watch, struct ebb_error *err)
{
    struct ebb_str staged = {0}, journal = {0}, back = {0};
    exp_store_path(place, uuid, &staged);
    ebb_str_printf(&journal, "%s.journal", ebb_str_c(&staged));
    ebb_str_printf(&back, "%s/.%s.back", place->directory, uuid);
    enum ebb_status status = ebb_str_status(&journal, err);
    EBB_THEN(status, ebb_str_status(&back, err));
    EBB_THEN(status,
             exp_store_upload(store, uuid, ebb_str_c(&staged), ebb_str_c(&journal), watch, err));
    EBB_THEN(status, exp_store_fetch(store, uuid, NULL, ebb_str_c(&back), watch, err));
    enum ebb_status removed =
        exp_store_remove(store, uuid, ebb_str_c(&item->resources), ebb_str_c(&journal), watch,
                         status == EBB_OK ? err : NULL);
    (void)unlink(ebb_str_c(&journal));
    (void)exp_store_remove_tree(ebb_str_c(&back), NULL);
    ebb_str_fini(&staged);
    ebb_str_fini(&journal);
    ebb_str_fini(&back);
    return status != EBB_OK ? status : removed;
}

enum ebb_status exp_store_check(const struct exp_store *store, const char *scratch,
                                struct exp_store_watch *watch, struct ebb_error *err)
{
    char uuid[EXP_UUID_TEXT];
    struct exp_store_item item = {0};
    struct exp_storage here = {.kind = EXP_STORAGE_SHARED_FS, .directory = scratch};
    struct exp_store *place = NULL;
    const struct exp_store *at = store;
    if (exp_store_is_remote(store)) {
        EBB_TRY(exp_store_open(&here, 0, NULL, &place, err));
        at = place;
    }
    enum ebb_status status = exp_store_prepare(at, err);
    EBB_THEN(status, exp_uuid_make(uuid, err));
    if (status == EBB_OK) {
        status = make_probe(at, uuid, &item, err);
        EBB_THEN(status, place != NULL ? check_remote(store, place, uuid, &item, watch, err)
                                       : exp_store_verify(store, uuid, err));
        enum ebb_status removed =
            exp_store_remove(at, uuid, NULL, NULL, NULL, status == EBB_OK ? err : NULL);
        status = status != EBB_OK ? status : removed;
    }
    ebb_str_fini(&item.resources);
    exp_store_close(place);
    return status;
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
                return ebb_fail(err, ebb_errno_status(errno), "cannot make directory %s: %s", part,
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
        return ebb_fail(err, ebb_errno_status(errno), "cannot write %s: %s", path, strerror(errno));
    return EBB_OK;
}

static bool has_content(int fd, const char *data, size_t length)
{
    char piece[65536];
    size_t at = 0;
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0; at += (size_t)n)
        if ((size_t)n > length - at || memcmp(piece, data + at, (size_t)n) != 0)
            return false;
    return at == length;
}

/* The same file in another tree becomes this one, too: proved byte by byte, since others could have
 * damaged it; read-only, so that nobody does by mistake. */
static bool link_same(int root, int twin, const struct exp_store_file *f, mode_t mode)
{
    struct stat st;
    char path[64];
    int fd = openat(twin, f->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool is_done = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == mode &&
                   has_content(fd, f->data, f->length) &&
                   linkat(AT_FDCWD, path, root, f->path, AT_SYMLINK_FOLLOW) == 0;
    close(fd);
    return is_done;
}

static enum ebb_status unpack_one(int root, int twin, bool is_read_only,
                                  const struct exp_store_file *f, struct ebb_error *err)
{
    if (!exp_store_is_safe_path(f->path))
        return ebb_fail(err, EBB_EINPUT, "model definition: the path \"%s\" is not allowed",
                        f->path);
    EBB_TRY(make_parents(root, f->path, f->is_directory, err));
    if (f->is_directory)
        return EBB_OK;
    mode_t mode = (mode_t)(is_read_only ? (f->mode & 0555) | 0444 : (f->mode & 0777) | 0600);
    if (twin >= 0 && link_same(root, twin, f, mode))
        return EBB_OK;
    int fd =
        openat(root, f->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode | 0200);
    if (fd < 0)
        return ebb_fail(err, ebb_errno_status(errno), "cannot write %s: %s", f->path,
                        strerror(errno));
    enum ebb_status status = write_all(fd, f->data, f->length, f->path, err);
    if (status == EBB_OK && is_read_only)
        (void)fchmod(fd, mode);
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
        status = unpack_one(root, -1, false, &files[i], err);
    close(root);
    return status;
}

enum ebb_status exp_store_unpack_linked(int root, int twin, const struct exp_store_file *files,
                                        size_t count, struct ebb_error *err)
{
    for (size_t i = 0; i < count; i++)
        EBB_TRY(unpack_one(root, twin, true, &files[i], err));
    return EBB_OK;
}

enum ebb_status exp_store_remove_tree(const char *path, struct ebb_error *err)
{
    return exp_tree_remove(AT_FDCWD, path, err);
}
