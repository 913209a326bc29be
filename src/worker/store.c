/* store.c - writing a checkpoint directory, and saying what is in it.
 *
 * The directory is a staging place: when DONE has arrived, the master makes it durable, publishes
 * it under its name (W4), and decides when it goes away. */
#include "worker/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/names.h"
#include "base/str.h"

#define DEPTH_MAX 32

/* ---- walking ---- */

struct walk {
    struct ebb_json_writer *w; /* "relative path": bytes */
    size_t root_length;        /* of the directory that is walked */
};

static enum ebb_status walk_dir(struct walk *walk, const char *dir, int depth,
                                struct ebb_error *err);

static enum ebb_status walk_entry(struct walk *walk, const char *path, int depth,
                                  struct ebb_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return ebb_fail(err, EBB_EIO, "cannot read %s: %s", path, strerror(errno));
    const char *relative = path + walk->root_length + 1;
    if (S_ISDIR(st.st_mode)) {
        struct ebb_str name = {0};
        ebb_str_printf(&name, "%s/", relative);
        ebb_jsonw_key_int(walk->w, ebb_str_c(&name), 0);
        ebb_str_fini(&name);
        return walk_dir(walk, path, depth + 1, err);
    }
    if (!S_ISREG(st.st_mode))
        return ebb_fail(err, EBB_EINPUT, "checkpoint: %s is neither a file nor a directory",
                        relative);
    ebb_jsonw_key_int(walk->w, relative, (int64_t)st.st_size);
    return EBB_OK;
}

static enum ebb_status walk_dir(struct walk *walk, const char *dir, int depth,
                                struct ebb_error *err)
{
    struct ebb_names names = {0};
    if (depth > DEPTH_MAX)
        return ebb_fail(err, EBB_ELIMIT, "checkpoint: more than %d nested directories", DEPTH_MAX);
    DIR *folder = opendir(dir);
    if (!folder)
        return ebb_fail(err, EBB_EIO, "cannot read %s: %s", dir, strerror(errno));
    enum ebb_status status = ebb_names_read(&names, folder, NULL, NULL, err);
    for (size_t i = 0; status == EBB_OK && i < names.count; i++) {
        struct ebb_str path = {0};
        ebb_str_printf(&path, "%s/%s", dir, names.items[i]);
        status = ebb_str_status(&path, err);
        EBB_THEN(status, walk_entry(walk, ebb_str_c(&path), depth, err));
        ebb_str_fini(&path);
    }
    ebb_names_fini(&names);
    return status;
}

/* Best effort, for what a failed save left behind. */
static void remove_tree(const char *path, int depth)
{
    DIR *dir = depth <= DEPTH_MAX ? opendir(path) : NULL;
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        struct ebb_str child = {0};
        ebb_str_printf(&child, "%s/%s", path, entry->d_name);
        if (!child.failed && unlink(ebb_str_c(&child)) != 0)
            remove_tree(ebb_str_c(&child), depth + 1);
        ebb_str_fini(&child);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}

/* ---- saving ---- */

static enum ebb_status list_resources(const struct worker_checkpoint *c, struct ebb_json_writer *w,
                                      struct ebb_error *err)
{
    struct walk walk = {.w = w, .root_length = strlen(c->path)};
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "uuid", c->uuid);
    ebb_jsonw_key_object(w, "resources");
    EBB_TRY(walk_dir(&walk, c->path, 0, err));
    ebb_jsonw_object_end(w);
    ebb_jsonw_object_end(w);
    return EBB_OK;
}

enum ebb_status worker_checkpoint_save(const struct worker_checkpoint *checkpoint,
                                       const struct worker_trial *trial, void *self,
                                       struct ebb_json_writer *w, struct ebb_error *err)
{
    const char *path = checkpoint->path;
    if (path[0] != '/' || path[strlen(path) - 1] == '/')
        return ebb_fail(err, EBB_EINPUT, "checkpoint: '%s' is no absolute path of a directory",
                        path);
    remove_tree(path, 0); /* of an attempt that was interrupted */
    EBB_TRY(ebb_file_mkdirs(path, err));
    enum ebb_status status = trial->save(self, path, err);
    EBB_THEN(status, list_resources(checkpoint, w, err));
    if (status != EBB_OK)
        remove_tree(path, 0);
    return status;
}
