/* pack.c - a model definition as JSON rows: sorted, base64, at most 95 MiB. */
#include "cli/submit.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/names.h"
#include "cli/ignore.h"

#define DEPTH_MAX 32

struct pack {
    struct ebb_json_writer *w;
    struct cli_ignore ignore;
    size_t root_length; /* of the packed directory and its '/' */
    uint64_t total;     /* bytes so far */
};

static void begin_row(struct ebb_json_writer *w, const char *name, const char *type,
                      const struct stat *st)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "path", name);
    ebb_jsonw_key_string(w, "type", type);
    ebb_jsonw_key_int(w, "mode", (int64_t)(st->st_mode & 0777));
    ebb_jsonw_key_int(w, "mtime", (int64_t)st->st_mtime);
}

static enum ebb_status add_file(struct pack *p, const char *path, const char *name,
                                const struct stat *st, struct ebb_error *err)
{
    char have[32], max[32];
    p->total += (uint64_t)st->st_size;
    if (p->total > CLI_MODEL_DEF_MAX)
        return ebb_fail(err, EBB_EINPUT,
                        "the model definition is larger than %s (%s with '%s'); list what is not "
                        "needed in a file .ebbignore beside it",
                        ebb_format_bytes(CLI_MODEL_DEF_MAX, max, sizeof max),
                        ebb_format_bytes(p->total, have, sizeof have), name);
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, CLI_MODEL_DEF_MAX, err));
    begin_row(p->w, name, "file", st);
    ebb_jsonw_key(p->w, "content");
    ebb_str_addc(p->w->out, '"');
    ebb_base64_add(p->w->out, view.data, view.length);
    ebb_str_addc(p->w->out, '"');
    p->w->after_key = false;
    p->w->need_comma = true;
    ebb_jsonw_object_end(p->w);
    ebb_file_view_close(&view);
    return ebb_str_status(p->w->out, err);
}

static enum ebb_status add_directory(struct pack *p, const char *path, int depth,
                                     struct ebb_error *err);

/* A state directory (ours or another) is no part of a model: it may hold any number of others. */
static bool is_state_dir(const char *path)
{
    struct ebb_str file;
    struct stat st;
    bool is_there = true;
    for (int i = 0; i < 2 && is_there; i++) {
        ebb_str_init(&file);
        ebb_str_printf(&file, "%s/%s", path, i == 0 ? "ebb.db" : "lock");
        is_there = !file.failed && lstat(ebb_str_c(&file), &st) == 0 && S_ISREG(st.st_mode);
        ebb_str_fini(&file);
    }
    return is_there;
}

static enum ebb_status add_entry(struct pack *p, const char *path, int depth, struct ebb_error *err)
{
    struct stat st;
    const char *name = path + p->root_length;
    if (lstat(path, &st) != 0)
        return ebb_fail(err, EBB_EIO, "cannot read %s: %s", path, strerror(errno));
    if (cli_ignore_has(&p->ignore, name, S_ISDIR(st.st_mode)))
        return EBB_OK;
    if (S_ISLNK(st.st_mode) && (stat(path, &st) != 0 || !S_ISREG(st.st_mode))) {
        fprintf(stderr, "ebb: note: %s is a link to no file: left out of the model definition\n",
                path);
        return EBB_OK;
    }
    if (S_ISREG(st.st_mode))
        return add_file(p, path, name, &st, err);
    if (!S_ISDIR(st.st_mode))
        return EBB_OK; /* sockets, pipes */
    if (is_state_dir(path)) {
        fprintf(stderr, "ebb: note: %s is a state directory: left out of the model definition\n",
                path);
        return EBB_OK;
    }
    begin_row(p->w, name, "dir", &st);
    ebb_jsonw_object_end(p->w);
    return add_directory(p, path, depth + 1, err);
}

static enum ebb_status add_directory(struct pack *p, const char *path, int depth,
                                     struct ebb_error *err)
{
    struct ebb_names names = {0};
    if (depth > DEPTH_MAX)
        return ebb_fail(err, EBB_EINPUT, "%s: more than %d nested directories", path, DEPTH_MAX);
    DIR *folder = opendir(path);
    if (!folder)
        return ebb_fail(err, EBB_EIO, "cannot read %s: %s", path, strerror(errno));
    enum ebb_status status = ebb_names_read(&names, folder, NULL, NULL, err);
    for (size_t i = 0; status == EBB_OK && i < names.count; i++) {
        struct ebb_str child = {0};
        ebb_str_printf(&child, "%s/%s", path, names.items[i]);
        status = ebb_str_status(&child, err);
        EBB_THEN(status, add_entry(p, ebb_str_c(&child), depth, err));
        ebb_str_fini(&child);
    }
    ebb_names_fini(&names);
    return status;
}

static enum ebb_status read_ignore(struct cli_ignore *ignore, const char *root,
                                   struct ebb_error *err)
{
    static const char *const names[] = {".ebbignore", ".detignore"};
    struct ebb_file_view view = {.data = ""};
    bool is_open = false;
    for (size_t i = 0; i < 2 && !is_open; i++) {
        struct ebb_str path = {0};
        struct stat st;
        ebb_str_printf(&path, "%s/%s", root, names[i]);
        if (!path.failed && stat(ebb_str_c(&path), &st) == 0) {
            enum ebb_status status =
                ebb_file_view_open(&view, ebb_str_c(&path), (size_t)1 << 20, err);
            if (status != EBB_OK) {
                ebb_str_fini(&path);
                return status;
            }
            is_open = true;
        }
        ebb_str_fini(&path);
    }
    enum ebb_status status = cli_ignore_parse(ignore, view.data, view.length, err);
    if (is_open)
        ebb_file_view_close(&view);
    return status;
}

enum ebb_status cli_pack(const char *path, struct ebb_json_writer *w, struct ebb_error *err)
{
    struct pack p = {.w = w};
    struct stat st;
    if (stat(path, &st) != 0)
        return ebb_fail(err, EBB_EIO, "model definition: cannot read %s: %s", path,
                        strerror(errno));
    if (S_ISREG(st.st_mode))
        return add_file(&p, path, ebb_file_name(path), &st, err);
    if (!S_ISDIR(st.st_mode))
        return ebb_fail(err, EBB_EINPUT, "model definition: %s is no file and no directory", path);
    char *root = ebb_strdup(path);
    if (root == NULL)
        return ebb_no_memory(err, strlen(path));
    for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--)
        root[n - 1] = '\0';
    p.root_length = strlen(root) + 1;
    enum ebb_status status = read_ignore(&p.ignore, root, err);
    if (status == EBB_OK) {
        status = add_directory(&p, root, 0, err);
        cli_ignore_fini(&p.ignore);
    }
    ebb_free(root);
    return status;
}

/* "a/b/net.yaml": relative, and no way out of the folder. */
static bool is_below(const char *path)
{
    for (const char *at = path; *at != '\0';) {
        size_t n = strcspn(at, "/");
        if (n == 0 || (n == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += n + (at[n] == '/');
    }
    return *path != '\0';
}

static bool is_named(const struct ebb_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

enum ebb_status cli_pack_file(const char *folder, const char *path, struct ebb_names *done,
                              struct ebb_json_writer *w, struct ebb_error *err)
{
    struct pack p = {.w = w};
    struct stat st;
    struct ebb_str full = {0};
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    if (!is_below(path))
        return ebb_fail(err, EBB_EINPUT,
                        "model: %s is stored with the experiment: allowed is a path below the "
                        "folder of the experiment file, without '..'",
                        path);
    enum ebb_status status = EBB_OK;
    for (size_t n = 0; status == EBB_OK && n <= strlen(path); n++) {
        if (path[n] != '/' && path[n] != '\0')
            continue;
        ebb_str_clear(&full);
        ebb_str_printf(&full, "%s/%.*s", folder, (int)n, path);
        EBB_THEN(status, ebb_str_status(&full, err));
        if (status == EBB_OK && stat(ebb_str_c(&full), &st) != 0)
            status =
                ebb_fail(err, EBB_EIO, "cannot read %s: %s", ebb_str_c(&full), strerror(errno));
        const char *name = ebb_str_c(&full) + strlen(folder) + 1;
        if (status != EBB_OK || is_named(done, name))
            continue;
        status = ebb_names_add(done, name, err);
        if (status == EBB_OK && path[n] == '\0') {
            status = add_file(&p, ebb_str_c(&full), name, &st, err);
        } else if (status == EBB_OK) {
            begin_row(w, name, "dir", &st);
            ebb_jsonw_object_end(w);
        }
    }
    ebb_str_fini(&full);
    return status;
}
