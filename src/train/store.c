/* store.c - a folder of checkpoints: written whole or not at all, the newest whole one is used. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/names.h"
#include "train/trial.h"

enum { PATH_BYTES = 4096, KEPT = 2, DIGITS = 12 };

static bool is_checkpoint(const void *context, DIR *folder, const struct dirent *entry)
{
    const char *name = entry->d_name;
    (void)context, (void)folder;
    return strncmp(name, "update-", 7) == 0 && strspn(name + 7, "0123456789") == DIGITS &&
           name[7 + DIGITS] == '\0';
}

/* One that was being written. */
static bool is_part(const void *context, DIR *folder, const struct dirent *entry)
{
    const char *name = entry->d_name;
    (void)context, (void)folder;
    return strncmp(name, ".update-", 8) == 0 && strspn(name + 8, "0123456789") == DIGITS &&
           strcmp(name + 8 + DIGITS, ".part") == 0;
}

/* A folder that is not there has none. */
static enum ebb_status list(const char *folder, ebb_names_want want, struct ebb_names *names,
                            struct ebb_error *err)
{
    if (strlen(folder) > PATH_BYTES - 128)
        return ebb_fail(err, EBB_ELIMIT, "the path of the checkpoints is too long");
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT
                   ? EBB_OK
                   : ebb_fail(err, EBB_EIO, "cannot read %s: %s", folder, strerror(errno));
    return ebb_names_read(names, dir, want, NULL, err);
}

/* Files of a checkpoint (ours only), then its folders. A half-removed one is no checkpoint: the
 * manifest goes first. */
static void remove_checkpoint(const char *dir)
{
    static const char *const parts[] = {"manifest.json", "state/weights.safetensors",
                                        "state/optimizer.safetensors", "state/train.json"};
    char path[PATH_BYTES + 64];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, parts[i]);
        (void)unlink(path);
    }
    snprintf(path, sizeof path, "%s/state", dir);
    DIR *left = opendir(path); /* temporaries of a writer that was killed */
    for (struct dirent *d; left && (d = readdir(left));)
        if (d->d_name[0] == '.' || strstr(d->d_name, ".tmp") || strstr(d->d_name, "safetensors") ||
            strstr(d->d_name, "train.json"))
            (void)unlinkat(dirfd(left), d->d_name, 0);
    if (left)
        closedir(left);
    (void)rmdir(path);
    (void)rmdir(dir);
}

static enum ebb_status sync_folder(const char *path, struct ebb_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return ebb_fail(err, EBB_EIO, "cannot sync %s: %s", path, strerror(reason));
    }
    close(fd);
    return EBB_OK;
}

/* A whole one of the same update is there until the new one is. */
static enum ebb_status put(const char *part, const char *whole, struct ebb_error *err)
{
    if (renameat2(AT_FDCWD, part, AT_FDCWD, whole, RENAME_EXCHANGE) == 0) {
        remove_checkpoint(part); /* the old one */
        return EBB_OK;
    }
    if (errno != ENOENT) /* file systems that cannot exchange */
        remove_checkpoint(whole);
    if (rename(part, whole) != 0)
        return ebb_fail(err, EBB_EIO, "cannot rename %s to %s: %s", part, whole, strerror(errno));
    return EBB_OK;
}

static enum ebb_status write_whole(struct train_trial *t, const char *folder, const char *name,
                                   struct ebb_error *err)
{
    char part[PATH_BYTES], whole[PATH_BYTES], state[PATH_BYTES + 8];
    snprintf(part, sizeof part, "%s/.%s.part", folder, name);
    snprintf(whole, sizeof whole, "%s/%s", folder, name);
    remove_checkpoint(part); /* of a run that was killed while writing */
    EBB_TRY(ebb_file_mkdirs(part, err));
    snprintf(state, sizeof state, "%s/state", part);
    enum ebb_status status = train_trial_save(t, part, err);
    EBB_THEN(status, sync_folder(state, err));
    EBB_THEN(status, sync_folder(part, err));
    EBB_THEN(status, put(part, whole, err));
    if (status != EBB_OK) /* the disk may be full */
        remove_checkpoint(part);
    return status == EBB_OK ? sync_folder(folder, err) : status;
}

enum ebb_status train_store_lock(const char *folder, int *lock, struct ebb_error *err)
{
    EBB_TRY(ebb_file_mkdirs(folder, err));
    int fd = access(folder, W_OK) == 0 ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return ebb_fail(err, EBB_EIO, "cannot write to %s: %s", folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return ebb_fail(err, EBB_EINPUT, "%s: another training keeps its checkpoints there",
                        folder);
    } /* other reasons: a file system that cannot lock folders */
    *lock = fd;
    return EBB_OK;
}

void train_store_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

/* ---- whose folder it is ---- */

struct mark { /* of a checkpoint: whose, and how far */
    char run[sizeof((struct train_trial *)0)->run];
    int64_t batches;
    int threads;
};

static enum ebb_status read_mark(const char *dir, struct mark *mark, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root;
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/state/train.json", dir);
    enum ebb_status status = train_checkpoint_prove(&arena, dir, err);
    EBB_THEN(status, ebb_doc_load(&arena, path, &root, err));
    if (status == EBB_OK) {
        snprintf(mark->run, sizeof mark->run, "%s", ebb_doc_string(root, "run", TRAIN_RUN_UNNAMED));
        mark->batches = ebb_doc_int(root, "batches", 0);
        mark->threads = (int)ebb_doc_int(root, "threads", 0);
    }
    ebb_arena_fini(&arena);
    return status;
}

/* Memory that is out and disks that do not answer say nothing about a checkpoint. */
static bool may_be_whole(enum ebb_status status)
{
    return status == EBB_ENOMEM || status == EBB_EIO;
}

/* Of the newest whole one; mark->run is "" when there is none. *count: of all, whole or not. */
static enum ebb_status newest(const char *folder, struct mark *mark, size_t *count,
                              struct ebb_error *err)
{
    struct ebb_names names = {0};
    char path[PATH_BYTES];
    *mark = (struct mark){0};
    EBB_TRY(list(folder, is_checkpoint, &names, err));
    enum ebb_status status = EBB_ECORRUPT;
    for (size_t i = names.count; i-- > 0 && status != EBB_OK && !may_be_whole(status);) {
        snprintf(path, sizeof path, "%s/%s", folder, names.items[i]);
        status = read_mark(path, mark, err);
    }
    *count = names.count;
    ebb_names_fini(&names);
    return may_be_whole(status) ? status : EBB_OK;
}

/* dir becomes path/name if that is a whole checkpoint, else stays empty. */
static enum ebb_status find_one(struct ebb_str *dir, const char *path, const char *name,
                                struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    ebb_str_printf(dir, "%s%s%s", path, *name ? "/" : "", name);
    enum ebb_status status = ebb_str_status(dir, err);
    EBB_THEN(status, train_checkpoint_prove(&arena, ebb_str_c(dir), err));
    if (status != EBB_OK)
        ebb_str_clear(dir);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status train_store_find(const char *path, struct ebb_str *dir, struct ebb_error *err)
{
    struct ebb_names names = {0};
    struct stat about;
    ebb_str_clear(dir);
    ebb_str_printf(dir, "%s/state/train.json", path);
    bool is_one = !dir->failed && access(ebb_str_c(dir), F_OK) == 0;
    ebb_str_clear(dir);
    if (is_one)
        return find_one(dir, path, "", err);
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return EBB_OK;
    EBB_TRY(list(path, is_checkpoint, &names, err));
    enum ebb_status status = EBB_OK;
    for (size_t i = names.count; i-- > 0 && dir->length == 0 && !may_be_whole(status);)
        status = find_one(dir, path, names.items[i], err);
    ebb_names_fini(&names);
    return status;
}

enum ebb_status train_store_claim(const struct train_trial *t, const char *folder,
                                  struct ebb_error *err)
{
    struct ebb_names parts = {0};
    struct mark mark;
    char path[PATH_BYTES];
    size_t count;
    enum ebb_status status = list(folder, is_part, &parts, err);
    for (size_t i = 0; status == EBB_OK && i < parts.count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts.items[i]);
        remove_checkpoint(path);
    }
    ebb_names_fini(&parts);
    EBB_TRY(status);
    EBB_TRY(newest(folder, &mark, &count, err));
    bool is_own = mark.run[0] != '\0' && strcmp(mark.run, t->run) == 0;
    if (count == 0 || (is_own && mark.batches <= t->batches))
        return EBB_OK;
    if (is_own)
        return ebb_fail(err, EBB_EINPUT,
                        "%s holds a checkpoint of batch %" PRId64 ", this run is at %" PRId64
                        ": go on from there with --resume %s, or choose another folder",
                        folder, mark.batches, t->batches, folder);
    return ebb_fail(err, EBB_EINPUT,
                    "%s holds checkpoints of another run: go on with that one by --resume %s, or "
                    "choose another folder for this one",
                    folder, folder);
}

static enum ebb_status name_run(struct train_trial *t, struct ebb_error *err)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return ebb_fail(err, EBB_EIO, "no random bytes: %s", strerror(errno));
    snprintf(t->run, sizeof t->run, "%016" PRIx64, number);
    return EBB_OK;
}

/* All but the newest of this run: `name` is one. A later one was damaged when this run began. */
static enum ebb_status prune(const char *folder, const char *name, struct ebb_error *err)
{
    struct ebb_names names = {0};
    char path[PATH_BYTES];
    size_t last = 0;
    EBB_TRY(list(folder, is_checkpoint, &names, err));
    while (last < names.count && strcmp(names.items[last], name) != 0)
        last++;
    for (size_t i = 0; i < names.count; i++)
        if (i > last || i + KEPT <= last) {
            snprintf(path, sizeof path, "%s/%s", folder, names.items[i]);
            remove_checkpoint(path);
        }
    ebb_names_fini(&names);
    return EBB_OK;
}

enum ebb_status train_store_save(struct train_trial *t, const char *folder, struct ebb_error *err)
{
    char name[32];
    if (strlen(folder) > PATH_BYTES - 128)
        return ebb_fail(err, EBB_ELIMIT, "the path of the checkpoints is too long");
    EBB_TRY(ebb_file_mkdirs(folder, err));
    if (!t->has_folder) {
        EBB_TRY(train_store_claim(t, folder, err));
        if (t->run[0] == '\0')
            EBB_TRY(name_run(t, err));
        t->has_folder = true;
    }
    /* Batches, not updates, tell two checkpoints inside one accumulation apart. */
    snprintf(name, sizeof name, "update-%0*" PRId64, DIGITS, t->batches);
    EBB_TRY(write_whole(t, folder, name, err));
    return prune(folder, name, err);
}

enum ebb_status train_store_save_best(struct train_trial *t, const char *folder,
                                      struct ebb_error *err)
{
    if (strlen(folder) > PATH_BYTES - 128)
        return ebb_fail(err, EBB_ELIMIT, "the path of the checkpoints is too long");
    EBB_TRY(ebb_file_mkdirs(folder, err));
    return write_whole(t, folder, "best", err);
}

enum ebb_status train_store_load(struct train_trial *t, const char *folder, bool *found,
                                 struct ebb_str *note, struct ebb_error *err)
{
    struct ebb_names names = {0};
    char path[PATH_BYTES];
    *found = false;
    enum ebb_status status = list(folder, is_checkpoint, &names, err);
    for (size_t i = names.count; status == EBB_OK && i-- > 0 && !*found;) {
        struct ebb_error why = {0};
        snprintf(path, sizeof path, "%s/%s", folder, names.items[i]);
        status = train_trial_load(t, path, TRAIN_RESUME, &why);
        *found = status == EBB_OK;
        if (status == EBB_ECORRUPT) { /* the one before, then */
            if (note)
                ebb_str_printf(note, "%s; using the one before\n", why.message);
            status = EBB_OK;
        } else if (status != EBB_OK && err) {
            *err = why;
        }
    }
    if (status == EBB_OK && !*found && names.count > 0)
        status = ebb_fail(err, EBB_ECORRUPT, "%s: none of %zu checkpoints is whole", folder,
                          names.count);
    ebb_names_fini(&names);
    return status;
}

int train_store_threads(const char *folder)
{
    struct mark mark;
    size_t count;
    return newest(folder, &mark, &count, NULL) == EBB_OK ? mark.threads : 0;
}
