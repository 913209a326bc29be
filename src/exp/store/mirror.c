/* mirror.c - event files in stores that cannot append: a folder of this machine, of which the store
 * has copies. The folder is the record: removing there removes what lies here. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/thread.h"
#include "exp/store/driver.h"

#define WAYS 8
#define SENT ".sent.json" /* {path: bytes} of what the store has */

struct mirror {
    struct exp_remote *r;
    const char *folder;
    int directory;
    struct exp_tree tree;
    int64_t *sent;          /* bytes of each entry that are there; < 0 = it is not a file to send */
    pthread_mutex_t lock;   /* of what follows */
    enum ebb_status status; /* the first that is not EBB_OK, with its err */
    struct ebb_error err;
};

/* ---- what was sent ---- */

static bool is_event_file(const char *path)
{
    size_t n = strlen(path);
    return path[0] != '.' && strstr(path, "/.") == NULL && n > 0 && path[n - 1] != '/';
}

static enum ebb_status read_sent(struct mirror *m, struct ebb_error *err)
{
    struct ebb_arena arena;
    const struct ebb_doc_node *root = NULL;
    char path[64];
    m->sent = ebb_calloc(m->tree.count + 1, sizeof *m->sent);
    if (m->sent == NULL)
        return ebb_no_memory(err, m->tree.count * sizeof *m->sent);
    ebb_arena_init(&arena);
    snprintf(path, sizeof path, "/proc/self/fd/%d/" SENT, m->directory);
    if (ebb_doc_load(&arena, path, &root, NULL) != EBB_OK)
        root = NULL; /* all of it goes again */
    for (size_t i = 0; i < m->tree.count; i++)
        m->sent[i] = is_event_file(m->tree.entries[i].path)
                         ? ebb_doc_int(root, m->tree.entries[i].path, 0)
                         : -1;
    ebb_arena_fini(&arena);
    return EBB_OK;
}

static enum ebb_status write_sent(const struct mirror *m, const char *directory,
                                  struct ebb_error *err)
{
    struct ebb_json_writer w;
    struct ebb_str text = {0}, path = {0};
    ebb_jsonw_init(&w, &text, 0);
    ebb_jsonw_object(&w);
    for (size_t i = 0; i < m->tree.count; i++)
        if (m->sent[i] > 0)
            ebb_jsonw_key_int(&w, m->tree.entries[i].path, m->sent[i]);
    ebb_jsonw_object_end(&w);
    ebb_str_printf(&path, "%s/" SENT, directory);
    enum ebb_status status = ebb_str_status(&text, err);
    EBB_THEN(status, ebb_str_status(&path, err));
    EBB_THEN(status, ebb_file_write_atomic(ebb_str_c(&path), ebb_str_c(&text), text.length, err));
    ebb_str_fini(&text);
    ebb_str_fini(&path);
    return status;
}

/* ---- sending ---- */

static enum ebb_status send_file(struct mirror *m, size_t i, struct ebb_error *err)
{
    const struct exp_tree_entry *e = &m->tree.entries[i];
    struct exp_remote_file f = {
        .uuid = m->folder, .path = e->path, .bytes = e->bytes, .is_alone = true};
    f.fd = openat(m->directory, e->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (f.fd < 0)
        return ebb_fail(err, EBB_EIO, "cannot read %s: %s", e->path, strerror(errno));
    enum ebb_status status = m->r->store->driver->remote->put(m->r, &f, err);
    close(f.fd);
    return status;
}

static void send_one(void *context, size_t i)
{
    struct mirror *m = context;
    struct ebb_error why;
    pthread_mutex_lock(&m->lock);
    bool is_wanted =
        m->status == EBB_OK && m->sent[i] >= 0 && m->tree.entries[i].bytes != m->sent[i];
    pthread_mutex_unlock(&m->lock);
    if (!is_wanted)
        return;
    enum ebb_status status = send_file(m, i, &why);
    pthread_mutex_lock(&m->lock);
    if (status == EBB_OK) {
        m->sent[i] = m->tree.entries[i].bytes;
    } else if (m->status == EBB_OK) {
        m->status = status;
        m->err = why;
    }
    pthread_mutex_unlock(&m->lock);
}

/* EBB_OK and *fd < 0: there is nothing. */
static enum ebb_status open_folder(const char *directory, struct exp_tree *tree, int *fd,
                                   struct ebb_error *err)
{
    *fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT
                   ? EBB_OK
                   : ebb_fail(err, EBB_EIO, "cannot open %s: %s", directory, strerror(errno));
    enum ebb_status status = exp_tree_read(tree, *fd, false, err);
    if (status != EBB_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

enum ebb_status exp_store_mirror(const struct exp_store *store, const char *folder,
                                 const char *directory, struct exp_store_watch *watch,
                                 struct ebb_error *err)
{
    struct exp_remote r = {.store = store, .watch = watch};
    struct mirror m = {.r = &r, .folder = folder};
    EBB_TRY(exp_net_http(store->net, &r.http, err));
    EBB_TRY(open_folder(directory, &m.tree, &m.directory, err));
    if (m.directory < 0)
        return EBB_OK;
    pthread_mutex_init(&m.lock, NULL);
    enum ebb_status status = read_sent(&m, err);
    EBB_THEN(status, write_sent(&m, directory, err)); /* from now on something may be there */
    EBB_THEN(status, ebb_parallel(WAYS, m.tree.count, send_one, &m, err));
    EBB_THEN(status, write_sent(&m, directory, err));
    if (status == EBB_OK && m.status != EBB_OK) {
        status = m.status;
        if (err != NULL)
            *err = m.err;
    }
    pthread_mutex_destroy(&m.lock);
    ebb_free(m.sent);
    exp_tree_fini(&m.tree);
    close(m.directory);
    return status;
}

/* ---- removing ---- */

enum ebb_status exp_store_unmirror(const struct exp_store *store, const char *folder,
                                   const char *directory, struct exp_store_watch *watch,
                                   struct ebb_error *err)
{
    struct exp_remote r = {.store = store, .watch = watch};
    struct exp_tree tree = {0};
    const char **paths = NULL;
    size_t count = 0;
    int fd = -1;
    EBB_TRY(exp_net_http(store->net, &r.http, err));
    EBB_TRY(open_folder(directory, &tree, &fd, err));
    if (fd < 0)
        return EBB_OK;
    bool is_sent = faccessat(fd, SENT, F_OK, 0) == 0; /* else nothing ever was */
    close(fd);
    enum ebb_status status = EBB_OK;
    paths = ebb_calloc(tree.count + 1, sizeof *paths);
    if (paths == NULL)
        status = ebb_no_memory(err, tree.count * sizeof *paths);
    for (size_t i = 0; status == EBB_OK && i < tree.count; i++)
        if (is_sent && is_event_file(tree.entries[i].path))
            paths[count++] = tree.entries[i].path;
    if (count > 0)
        EBB_THEN(status, store->driver->remote->remove(&r, folder, paths, count, err));
    ebb_free(paths);
    exp_tree_fini(&tree);
    return status;
}
