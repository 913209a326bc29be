/* store.c - writing a checkpoint directory: under a temporary name beside its place, everything
 * synced, then renamed. A reader sees all of it or nothing (W4).
 *
 * Only directories are handled here; where they lie and when they go away is the master's business.
 */
#include "worker/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"

#define DEPTH_MAX 32

/* ---- walking ---- */

static enum ebb_status sync_path(const char *path, int flags, struct ebb_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0 || fsync(fd) != 0) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return ebb_fail(err, EBB_EIO, "cannot sync %s: %s", path, strerror(reason));
    }
    close(fd);
    return EBB_OK;
}

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
        struct ebb_str name;
        ebb_str_init(&name);
        ebb_str_printf(&name, "%s/", relative);
        ebb_jsonw_key(walk->w, ebb_str_c(&name));
        ebb_jsonw_int(walk->w, 0);
        ebb_str_fini(&name);
        return walk_dir(walk, path, depth + 1, err);
    }
    if (!S_ISREG(st.st_mode))
        return ebb_fail(err, EBB_EINPUT, "checkpoint: %s is neither a file nor a directory",
                        relative);
    ebb_jsonw_key(walk->w, relative);
    ebb_jsonw_int(walk->w, (int64_t)st.st_size);
    return sync_path(path, 0, err);
}

static enum ebb_status walk_dir(struct walk *walk, const char *dir, int depth,
                                struct ebb_error *err)
{
    struct dirent **entries = NULL;
    enum ebb_status status = EBB_OK;
    if (depth > DEPTH_MAX)
        return ebb_fail(err, EBB_ELIMIT, "checkpoint: more than %d nested directories", DEPTH_MAX);
    int count = scandir(dir, &entries, NULL, alphasort);
    if (count < 0)
        return ebb_fail(err, EBB_EIO, "cannot read %s: %s", dir, strerror(errno));
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (status == EBB_OK && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            struct ebb_str path;
            ebb_str_init(&path);
            ebb_str_printf(&path, "%s/%s", dir, name);
            status = ebb_str_status(&path, err);
            if (status == EBB_OK)
                status = walk_entry(walk, ebb_str_c(&path), depth, err);
            ebb_str_fini(&path);
        }
        free(entries[i]); /* allowed: scandir's own memory */
    }
    free(entries); /* allowed: scandir's own memory */
    return status == EBB_OK ? sync_path(dir, O_DIRECTORY, err) : status;
}

/* Best effort, for what a failed save left behind. */
static void remove_tree(const char *path, int depth)
{
    DIR *dir = depth <= DEPTH_MAX ? opendir(path) : NULL;
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        struct ebb_str child;
        ebb_str_init(&child);
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

static enum ebb_status write_metadata(const char *dir, const struct worker_checkpoint *c,
                                      const struct worker_job *job, struct ebb_error *err)
{
    struct ebb_str text, path;
    struct ebb_json_writer w;
    ebb_str_init(&text);
    ebb_str_init(&path);
    ebb_jsonw_init(&w, &text, 2);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "ebb_version");
    ebb_jsonw_string(&w, EBB_VERSION);
    ebb_jsonw_key(&w, "uuid");
    ebb_jsonw_string(&w, c->uuid);
    ebb_jsonw_key(&w, "experiment_id");
    ebb_jsonw_int(&w, job->experiment_id);
    ebb_jsonw_key(&w, "trial_id");
    ebb_jsonw_int(&w, job->trial_id);
    ebb_jsonw_key(&w, "step_id");
    ebb_jsonw_int(&w, c->step);
    ebb_jsonw_key(&w, "hparams");
    ebb_doc_write_json(job->hparams, &w);
    ebb_jsonw_key(&w, "format");
    ebb_jsonw_string(&w, job->entrypoint);
    ebb_jsonw_object_end(&w);
    ebb_str_addc(&text, '\n');
    ebb_str_printf(&path, "%s/metadata.json", dir);
    enum ebb_status status = ebb_str_status(&text, err);
    if (status == EBB_OK)
        status = ebb_str_status(&path, err);
    if (status == EBB_OK)
        status = ebb_file_write_atomic(ebb_str_c(&path), text.data, text.length, err);
    ebb_str_fini(&text);
    ebb_str_fini(&path);
    return status;
}

/* The store's base directory is made on first use, open to all users of a shared file system. */
static enum ebb_status make_base(const char *base, struct ebb_error *err)
{
    struct stat st;
    if (stat(base, &st) == 0)
        return EBB_OK;
    EBB_TRY(ebb_file_mkdirs(base, err));
    chmod(base, 0777);
    return EBB_OK;
}

static enum ebb_status publish(const char *temporary, const struct worker_checkpoint *c,
                               const char *base, struct ebb_json_writer *w, struct ebb_error *err)
{
    struct walk walk = {.w = w, .root_length = strlen(temporary)};
    ebb_jsonw_object(w);
    ebb_jsonw_key(w, "uuid");
    ebb_jsonw_string(w, c->uuid);
    ebb_jsonw_key(w, "resources");
    ebb_jsonw_object(w);
    EBB_TRY(walk_dir(&walk, temporary, 0, err));
    ebb_jsonw_object_end(w);
    ebb_jsonw_object_end(w);
    if (rename(temporary, c->path) != 0)
        return ebb_fail(err, EBB_EIO, "cannot rename %s to %s: %s", temporary, c->path,
                        strerror(errno));
    return sync_path(base, O_DIRECTORY, err);
}

enum ebb_status worker_checkpoint_save(const struct worker_checkpoint *checkpoint,
                                       const struct worker_trial *trial, void *self,
                                       const struct worker_job *job, struct ebb_json_writer *w,
                                       struct ebb_error *err)
{
    const char *path = checkpoint->path;
    const char *slash = strrchr(path, '/');
    if (path[0] != '/' || slash[1] == '\0' || slash == path)
        return ebb_fail(err, EBB_EINPUT, "checkpoint: '%s' is no absolute path of a directory",
                        path);
    struct ebb_str base, temporary;
    ebb_str_init(&base);
    ebb_str_init(&temporary);
    ebb_str_addn(&base, path, (size_t)(slash - path));
    ebb_str_printf(&temporary, "%s/.%s.tmp", ebb_str_c(&base), slash + 1);
    enum ebb_status status = ebb_str_status(&temporary, err);
    if (status == EBB_OK)
        status = make_base(ebb_str_c(&base), err);
    if (status == EBB_OK) {
        remove_tree(ebb_str_c(&temporary), 0); /* of an attempt that was killed */
        status = ebb_file_mkdirs(ebb_str_c(&temporary), err);
    }
    if (status == EBB_OK)
        status = write_metadata(ebb_str_c(&temporary), checkpoint, job, err);
    if (status == EBB_OK)
        status = trial->save(self, ebb_str_c(&temporary), err);
    if (status == EBB_OK)
        status = publish(ebb_str_c(&temporary), checkpoint, ebb_str_c(&base), w, err);
    if (status != EBB_OK && !temporary.failed)
        remove_tree(ebb_str_c(&temporary), 0);
    ebb_str_fini(&base);
    ebb_str_fini(&temporary);
    return status;
}
