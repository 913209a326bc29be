/* launch.c - from an allocation to a running process: directories, config.json, environment. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "exp/master/inner.h"

#define HPARAMS_MAX ((size_t)64 << 10) /* in the environment */
#define SHM_BYTES ((int64_t)4 << 30)   /* of trials whose file does not say */

/* ---- the model definition ---- */

static enum ebb_status add_file(struct exp_model *model, size_t *capacity,
                                const struct exp_db_file *row, struct ebb_error *err)
{
    size_t blocks = *capacity, path = strlen(row->path) + 1;
    EBB_TRY(ebb_grow(&model->files, capacity, model->count + 1, sizeof *model->files, err));
    EBB_TRY(ebb_grow(&model->blocks, &blocks, *capacity, sizeof *model->blocks, err));
    char *block = ebb_alloc(path + row->content.length);
    if (block == NULL)
        return ebb_no_memory(err, path + row->content.length);
    memcpy(block, row->path, path);
    if (row->content.length > 0)
        memcpy(block + path, row->content.data, row->content.length);
    model->blocks[model->count] = block;
    model->files[model->count++] =
        (struct exp_store_file){.path = block,
                                .is_directory = strcmp(row->type, "dir") == 0,
                                .mode = (uint32_t)row->mode,
                                .mtime = row->mtime,
                                .data = block + path,
                                .length = row->content.length};
    return EBB_OK;
}

enum ebb_status exp_model_load(struct exp_master *m, struct exp_experiment *e,
                               struct ebb_error *err)
{
    struct exp_db_file row;
    size_t capacity = 0;
    if (!e->has_model || e->model != NULL)
        return EBB_OK;
    struct exp_model *model;
    EBB_TRY(ebb_new(&model, 1, sizeof *model, err));
    model->uses = 1;
    struct exp_db_cursor files = exp_db_files(m->db, EXP_DB_ID(e->id), &row, err);
    while (exp_db_fetch(&files))
        files.status = add_file(model, &capacity, &row, err);
    enum ebb_status status = exp_db_end(&files);
    if (status != EBB_OK) {
        exp_model_release(model);
        return status;
    }
    e->model = model;
    return EBB_OK;
}

/* ---- where it starts from ---- */

/* The job that prepares it, if it is to verify or fetch: where from. Staged copies and fetched ones
 * lie below the state directory, all others where their store says. */
static enum ebb_status fill_source(struct exp_master *m, struct exp_alloc *a,
                                   const struct exp_db_checkpoint *row, struct exp_job *job,
                                   struct ebb_error *err)
{
    const struct exp_experiment *e = a->trial->experiment;
    struct exp_store *store = NULL;
    struct ebb_str path = {0};
    snprintf(a->from.uuid, sizeof a->from.uuid, "%s", row->uuid);
    a->from.trial = row->trial_id;
    a->from.step = row->step_id;
    a->from.is_staged = job->is_staged = strcmp(row->state, "ACTIVE") == 0;
    const char *location = a->from.is_staged ? e->stage_location : row->storage;
    EBB_TRY(exp_job_place(m, job, location, EXP_STORAGE_SECTION, err));
    EBB_TRY(exp_text_set(&job->uuid, row->uuid, err));
    ebb_str_add(&job->resources, row->resources != NULL ? row->resources : "");
    EBB_TRY(exp_store_open_location(location, NULL, m->net, &store, err));
    if (job->is_remote)
        ebb_str_printf(&path, "%s/" EXP_CACHE "/%s", m->state_dir, row->uuid);
    else
        exp_store_path(store, a->from.uuid, &path);
    exp_store_close(store);
    EBB_TRY(ebb_str_status(&path, err));
    ebb_free(a->from.path);
    a->from.path = ebb_str_take(&path);
    return ebb_str_status(&job->resources, err);
}

/* Its own last checkpoint, else the one it was warm-started from, else none. */
static enum ebb_status find_source(struct exp_master *m, struct exp_alloc *a, struct exp_job *job,
                                   struct ebb_error *err)
{
    const struct exp_trial *r = a->trial;
    struct exp_db_checkpoint row;
    bool is_there;
    a->from.is_warm = r->sequence.checkpoint == 0;
    if (a->from.is_warm && r->warm_start == NULL)
        return EBB_OK;
    struct exp_db_step_id at = {r->id, r->sequence.checkpoint};
    EBB_TRY(exp_db_only(a->from.is_warm
                            ? exp_db_checkpoint_read(m->db, EXP_DB_NAME(r->warm_start), &row, err)
                            : exp_db_checkpoint_at(m->db, &at, &row, err),
                        &m->turn_arena, &is_there));
    bool is_staged = is_there && strcmp(row.state, "ACTIVE") == 0 && row.resources != NULL;
    if (is_staged || (is_there && strcmp(row.state, "COMPLETED") == 0))
        return fill_source(m, a, &row, job, err);
    if (a->from.is_warm)
        return ebb_fail(err, EBB_EINPUT, "the checkpoint %s it would start from is gone",
                        r->warm_start);
    return ebb_fail(err, EBB_EINPUT, "the checkpoint of step %lld it would start from is gone",
                    (long long)r->sequence.checkpoint);
}

static enum ebb_status make_directory(const char *path, struct ebb_error *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return EBB_OK;
    if (errno == ENOENT)
        return ebb_file_mkdirs(path, err);
    return ebb_fail(err, EBB_EIO, "cannot make %s: %s", path, strerror(errno));
}

static enum ebb_status fill_job(struct exp_master *m, struct exp_alloc *a, const char *work_dir,
                                struct exp_job *job, struct ebb_error *err)
{
    struct exp_experiment *e = a->trial->experiment;
    EBB_TRY(exp_model_load(m, e, err));
    EBB_TRY(find_source(m, a, job, err));
    EBB_TRY(exp_text_set(&job->work_dir, work_dir, err));
    job->model = e->model;
    if (job->model != NULL)
        job->model->uses++;
    memcpy(job->allocation, a->id, sizeof job->allocation);
    return EBB_OK;
}

enum ebb_status exp_launch_prepare(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    char path[4096];
    struct exp_experiment *e = a->trial->experiment;
    int n = snprintf(path, sizeof path, "%s/trials/%lld", m->state_dir, (long long)a->trial->id);
    EBB_TRY(make_directory(path, err));
    snprintf(path + n, sizeof path - (size_t)n, "/work");
    EBB_TRY(make_directory(path, err));
    EBB_TRY(exp_store_prepare(e->stage, err));
    struct exp_job *job = exp_job_create(EXP_JOB_PREPARE);
    if (job == NULL)
        return ebb_no_memory(err, sizeof *job);
    enum ebb_status status = fill_job(m, a, path, job, err);
    bool is_needed = a->from.uuid[0] != '\0' || e->has_model;
    if (status != EBB_OK || !is_needed) {
        exp_job_destroy(job);
        EBB_TRY(status);
        exp_alloc_go(a, EXP_ALLOC_PREPARED);
        return exp_launch_spawn(m, a, err);
    }
    exp_alloc_go(a, EXP_ALLOC_PREPARING);
    exp_job_hand_out(m, job);
    return EBB_OK;
}

/* ---- config.json ---- */

static void write_source(const struct exp_alloc *a, struct ebb_json_writer *w)
{
    if (a->from.uuid[0] == '\0') {
        ebb_jsonw_null(w);
        return;
    }
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "uuid", a->from.uuid);
    ebb_jsonw_key_string(w, "path", a->from.path);
    ebb_jsonw_key_int(w, "trial_id", a->from.trial);
    ebb_jsonw_key_int(w, "step_id", a->from.step);
    ebb_jsonw_key_bool(w, "is_warm_start", a->from.is_warm);
    ebb_jsonw_object_end(w);
}

static enum ebb_status write_config(struct exp_master *m, const struct exp_alloc *a,
                                    const char *path, struct ebb_error *err)
{
    const struct exp_trial *r = a->trial;
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &text, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "config");
    ebb_doc_write_json(exp_config_masked(&m->turn_arena, r->experiment->config.normalized), &w);
    ebb_jsonw_key(&w, "hparams");
    ebb_jsonw_raw(&w, r->hparams, strlen(r->hparams));
    ebb_jsonw_key_int(&w, "trial_seed", r->seed);
    ebb_jsonw_key_int(&w, "experiment_id", r->experiment->id);
    ebb_jsonw_key_int(&w, "trial_id", r->id);
    ebb_jsonw_key(&w, "latest_checkpoint");
    write_source(a, &w);
    ebb_jsonw_key_array(&w, "slots");
    ebb_jsonw_int(&w, a->slot);
    ebb_jsonw_array_end(&w);
    ebb_jsonw_object_end(&w);
    enum ebb_status status = ebb_str_status(&text, err);
    int fd = -1;
    if (status == EBB_OK) {
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || write(fd, text.data, text.length) != (ssize_t)text.length)
            status = ebb_fail(err, EBB_EIO, "cannot write %s: %s", path, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    ebb_str_fini(&text);
    return status;
}

/* ---- environment and arguments ---- */

struct texts { /* a NULL-terminated list of owned texts */
    char **items;
    size_t count, capacity;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void add(struct texts *t, const char *fmt, ...)
{
    struct ebb_str text = {0};
    va_list args;
    va_start(args, fmt);
    ebb_str_vprintf(&text, fmt, args);
    va_end(args);
    if (t->failed ||
        ebb_grow(&t->items, &t->capacity, t->count + 2, sizeof *t->items, NULL) != EBB_OK ||
        (t->items[t->count] = ebb_str_take(&text)) == NULL) {
        t->failed = true;
        ebb_str_fini(&text);
        return;
    }
    t->items[++t->count] = NULL;
}

/* A variable of the experiment: instead of ours with its name; paths of Python come before ours, and
 * which GPUs a trial sees is the slot's business. */
static void set_variable(struct texts *t, const char *text, bool is_gpu)
{
    size_t n = strcspn(text, "=") + 1, at = 0;
    bool is_path = strncmp(text, "PYTHONPATH=", n) == 0;
    while (at < t->count && strncmp(t->items[at], text, n) != 0)
        at++;
    bool is_there = !t->failed && at < t->count;
    if (is_there && is_gpu && strncmp(text, "CUDA_VISIBLE_DEVICES=", n) == 0)
        return;
    char *old = is_there ? t->items[at] : NULL;
    add(t, "%s%s%s", text, is_path && old != NULL ? ":" : "",
        is_path && old != NULL ? old + n : "");
    if (old == NULL || t->failed)
        return;
    t->items[at] = t->items[--t->count];
    t->items[t->count] = NULL;
    ebb_free(old);
}

static void texts_fini(struct texts *t)
{
    for (size_t i = 0; i < t->count; i++)
        ebb_free(t->items[i]);
    ebb_free(t->items);
}

static void add_base(const struct exp_master *m, struct texts *t)
{
    static const char *const names[] = {"PATH", "HOME",   "USER",
                                        "LANG", "TMPDIR", "LD_LIBRARY_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL)
            add(t, "%s=%s", names[i], value);
    }
    const char *path = getenv("PYTHONPATH");
    if (m->python_path != NULL)
        add(t, "PYTHONPATH=%s%s%s", m->python_path, path != NULL ? ":" : "",
            path != NULL ? path : "");
    else if (path != NULL)
        add(t, "PYTHONPATH=%s", path);
}

static void add_json(struct texts *t, const char *name, const struct exp_alloc *a)
{
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &text, 0);
    write_source(a, &w);
    add(t, "%s=%s", name, a->from.uuid[0] != '\0' ? ebb_str_c(&text) : "");
    ebb_str_fini(&text);
}

static void add_trial(const struct exp_master *m, const struct exp_alloc *a, struct texts *t)
{
    const struct exp_trial *r = a->trial;
    long long trial = (long long)r->id;
    struct exp_sequence next = r->sequence; /* looking must not begin it */
    struct exp_workload work = exp_sequence_next(&next);
    char socket_path[4096];
    int n = snprintf(socket_path, sizeof socket_path, "%s/master.sock", m->state_dir);
    if (n > 100) /* too long for an address: relative to the working directory */
        snprintf(socket_path, sizeof socket_path, "../../../master.sock");
    add(t, "EBB_SOCKET=%s", socket_path);
    add(t, "EBB_MASTER=unix:%s", socket_path);
    add(t, "EBB_ALLOCATION_ID=%s", a->id);
    add(t, "EBB_EXPERIMENT_ID=%lld", (long long)r->experiment->id);
    add(t, "EBB_TRIAL_ID=%lld", trial);
    add(t, "EBB_TRIAL_SEED=%u", r->seed);
    if (strlen(r->hparams) <= HPARAMS_MAX)
        add(t, "EBB_HPARAMS=%s", r->hparams);
    add(t, "EBB_CONFIG=%s/trials/%lld/config.json", m->state_dir, trial);
    char batches[48] = "";
    if (work.kind == EXP_WORK_TRAIN)
        snprintf(batches, sizeof batches, ",\"num_batches\":%lld",
                 (long long)r->experiment->config.batches_per_step);
    add(t,
        "EBB_INITIAL_WORKLOAD={\"kind\":\"%s\",\"experiment_id\":%lld,\"trial_id\":%lld,"
        "\"step_id\":%lld%s}",
        exp_workload_name(work.kind), (long long)r->experiment->id, trial, (long long)work.step,
        batches);
    add_json(t, "EBB_LATEST_CHECKPOINT", a);
    add(t, "EBB_SLOT_IDS=%lld", (long long)a->slot);
    add(t, "EBB_RANK=0");
    add(t, "EBB_SIZE=1");
    add(t, "EBB_LOCAL_RANK=0");
    add(t, "CUDA_VISIBLE_DEVICES=%s",
        m->options.gpu_ids != NULL ? m->options.gpu_ids[a->slot] : "");
    add(t, "OMP_NUM_THREADS=%d", m->threads);
    add(t, "OMP_WAIT_POLICY=passive");
    add(t, "PYTHONUNBUFFERED=1");
    if (r->experiment->config.debug)
        add(t, "EBB_LOG_LEVEL=debug");
    const struct exp_environment *env = &r->experiment->config.environment;
    const struct exp_strings *own =
        m->options.gpu_ids != NULL ? &env->variables_gpu : &env->variables_cpu;
    for (size_t i = 0; i < own->count; i++)
        set_variable(t, own->items[i], m->options.gpu_ids != NULL);
}

static void add_command(const struct exp_master *m, const struct exp_config *c, struct texts *t)
{
    const struct exp_entrypoint *entry = &c->entrypoint;
    switch (entry->kind) {
    case EXP_ENTRY_COMMAND:
        for (size_t i = 0; i < entry->command_count; i++)
            add(t, "%s", entry->command[i]);
        break;
    case EXP_ENTRY_PYTHON:
        add(t, "%s", m->python);
        add(t, "-m");
        add(t, "ebb_client");
        add(t, "%s:%s", entry->module, entry->object);
        break;
    case EXP_ENTRY_BUILTIN:
    case EXP_ENTRY_ONNX:
    case EXP_ENTRY_LIBRARY:
        add(t, "%s", m->ebb_path);
        add(t, "worker");
        add(t, "%s", entry->text);
        break;
    }
}

/* One step down to a mount point, made where it is missing. Links are not followed: they could lead
 * out of the working directory. Takes `at`; -1 and errno: it cannot be. */
static int step_down(int at, const char *name, bool is_file)
{
    int flags = O_CLOEXEC | O_NOFOLLOW |
                (is_file ? O_WRONLY | O_CREAT | O_NONBLOCK : O_RDONLY | O_DIRECTORY);
    bool is_made = is_file || mkdirat(at, name, 0777) == 0 || errno == EEXIST;
    int fd = is_made ? openat(at, name, flags, 0600) : -1;
    int error = errno;
    close(at);
    errno = error;
    return fd;
}

/* Where b is mounted, below the working directory. */
static int make_mount_point(const char *work, const struct exp_bind_mount *b, bool is_file)
{
    char name[256];
    const char *rest = b->container_path + strspn(b->container_path, "/");
    int fd = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && *rest != '\0') {
        size_t n = strcspn(rest, "/");
        const char *next = rest + n + strspn(rest + n, "/");
        if (n >= sizeof name) {
            close(fd);
            errno = ENAMETOOLONG;
            return -1;
        }
        snprintf(name, sizeof name, "%.*s", (int)n, rest);
        if (strcmp(name, ".") != 0)
            fd = step_down(fd, name, is_file && *next == '\0');
        rest = next;
    }
    return fd;
}

/* Mount points below the working directory are made here, in the parent. */
static enum ebb_status make_mount_points(const struct exp_config *c, const char *work,
                                         struct ebb_error *err)
{
    for (size_t i = 0; i < c->bind_mount_count; i++) {
        const struct exp_bind_mount *b = &c->bind_mounts[i];
        struct stat st;
        if (stat(b->host_path, &st) != 0)
            return ebb_fail(err, EBB_EINPUT, "bind_mounts[%zu].host_path: %s: %s", i, b->host_path,
                            strerror(errno));
        bool is_absolute = b->container_path[0] == '/';
        if (is_absolute && access(b->container_path, F_OK) != 0)
            return ebb_fail(err, EBB_EINPUT,
                            "bind_mounts[%zu].container_path: %s is not there: make it, or give a "
                            "path below the working directory",
                            i, b->container_path);
        int fd = is_absolute ? -1 : make_mount_point(work, b, !S_ISDIR(st.st_mode));
        if (!is_absolute && fd < 0 && (errno == ENOSPC || errno == EDQUOT))
            return ebb_fail(err, EBB_EFULL, "cannot make %s: %s", b->container_path,
                            strerror(errno));
        if (!is_absolute && fd < 0)
            return ebb_fail(err, EBB_EINPUT,
                            "bind_mounts[%zu].container_path: %s cannot be made in the working "
                            "directory (links are not followed): %s",
                            i, b->container_path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return EBB_OK;
}

/* Where the trial works, or its checkpoints lie, in /dev/shm: one of its own would hide it. Or NULL. */
static const char *in_shm(const struct exp_master *m, const struct exp_config *c)
{
    const char *paths[] = {m->state_dir, c->checkpoint_storage.directory};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char real[PATH_MAX];
        const char *path = paths[i] != NULL && realpath(paths[i], real) != NULL ? real : paths[i];
        if (path != NULL && strncmp(path, "/dev/shm/", 9) == 0)
            return paths[i];
    }
    return NULL;
}

/* Without a word of the file: the site's default, where the machine can give it. */
static int64_t shm_size(struct exp_master *m, const struct exp_config *c)
{
    if (c->resources.shm_size >= 0)
        return c->resources.shm_size;
    if (in_shm(m, c) != NULL)
        return -1;
    if (m->mounts == EXP_MOUNTS_UNKNOWN)
        m->mounts = exp_proc_can_mount() ? EXP_MOUNTS_YES : EXP_MOUNTS_NO;
    return m->mounts == EXP_MOUNTS_YES ? SHM_BYTES : -1;
}

static enum ebb_status spawn(struct exp_master *m, struct exp_alloc *a, const char *work, int log,
                             struct ebb_error *err)
{
    const struct exp_config *c = &a->trial->experiment->config;
    struct texts argv = {0}, envp = {0};
    add_base(m, &envp);
    add_trial(m, a, &envp);
    add_command(m, c, &argv);
    struct exp_spawn s = {.argv = argv.items,
                          .envp = envp.items,
                          .work_dir = work,
                          .log = log,
                          .has_cpus = m->can_pin,
                          .memory_bytes = m->options.slot_memory_bytes,
                          .mounts = c->bind_mounts,
                          .mount_count = c->bind_mount_count,
                          .shm_bytes = shm_size(m, c)};
    if (m->can_pin)
        s.cpus = m->slot_cpus[a->slot];
    enum ebb_status status = argv.failed || envp.failed || argv.count == 0
                                 ? ebb_no_memory(err, 1)
                                 : exp_proc_spawn(&s, &a->proc, err);
    texts_fini(&argv);
    texts_fini(&envp);
    return status;
}

enum ebb_status exp_launch_spawn(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    char path[4096];
    long long id = (long long)a->trial->id;
    const struct exp_config *c = &a->trial->experiment->config;
    const char *hidden = c->resources.shm_size >= 0 ? in_shm(m, c) : NULL;
    if (hidden != NULL)
        return ebb_fail(err, EBB_EINPUT,
                        "resources.shm_size: %s lies in /dev/shm, which the trial would have for "
                        "itself",
                        hidden);
    snprintf(path, sizeof path, "%s/trials/%lld/config.json", m->state_dir, id);
    EBB_TRY(write_config(m, a, path, err));
    snprintf(path, sizeof path, "%s/trials/%lld/log", m->state_dir, id);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log < 0)
        return ebb_fail(err, EBB_EIO, "cannot write %s: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%s/trials/%lld/work", m->state_dir, id);
    enum ebb_status status = make_mount_points(&a->trial->experiment->config, path, err);
    EBB_THEN(status, spawn(m, a, path, log, err));
    close(log);
    EBB_TRY(status);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = a->proc.fd};
    if (epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, a->proc.fd, &event) != 0)
        return ebb_fail(err, EBB_EIO, "cannot watch a process: %s", strerror(errno));
    exp_alloc_go(a, EXP_ALLOC_STARTED);
    a->hello_ns = m->now_ns + (uint64_t)m->options.heartbeat_ms * 1000000u;
    exp_dirty_alloc(m, a);
    return EBB_OK;
}
