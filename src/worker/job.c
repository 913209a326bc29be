/* job.c - what the master tells a trial before it starts: environment and EBB_CONFIG. */
#include "worker/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

#define CONFIG_MAX_BYTES ((size_t)8 << 20)

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int environment_int(const char *name, int fallback)
{
    int64_t value;
    const char *text = environment(name);
    return text != NULL && ebb_parse_i64(text, &value) && value >= 0 && value < 1 << 20 ? (int)value
                                                                                        : fallback;
}

/* latest_checkpoint: {"uuid", "path", "trial_id", "step_id"}. One's own is resumed; another
 * trial's (PBT, warm start) only gives its weights. */
static enum ebb_status read_checkpoint(struct worker_setup *s, const struct ebb_doc_node *root,
                                       struct ebb_error *err)
{
    const struct ebb_doc_node *node = ebb_doc_get(root, "latest_checkpoint");
    if (node == NULL || node->kind == EBB_DOC_NULL)
        return EBB_OK;
    s->checkpoint_path = ebb_doc_string(node, "path", NULL);
    if (s->checkpoint_path == NULL)
        return ebb_fail(err, EBB_EINPUT, "EBB_CONFIG: latest_checkpoint has no path");
    bool is_own =
        !ebb_doc_bool(node, "is_warm_start", ebb_doc_int(node, "trial_id", -1) != s->job.trial_id);
    s->checkpoint_kind = is_own ? WORKER_RESUME : WORKER_WARM_START;
    s->checkpoint_step = is_own ? ebb_doc_int(node, "step_id", 0) : 0;
    return EBB_OK;
}

static enum ebb_status read_root(struct worker_setup *s, const struct ebb_doc_node *root,
                                 struct ebb_error *err)
{
    struct worker_job *job = &s->job;
    job->config = ebb_doc_get(root, "config");
    job->hparams = ebb_doc_get(root, "hparams");
    job->slots = ebb_doc_get(root, "slots");
    if (job->config == NULL || job->config->kind != EBB_DOC_MAP || job->hparams == NULL ||
        job->hparams->kind != EBB_DOC_MAP)
        return ebb_fail(err, EBB_EINPUT, "EBB_CONFIG: 'config' and 'hparams' must be mappings");
    job->experiment_id =
        ebb_doc_int(root, "experiment_id", environment_int("EBB_EXPERIMENT_ID", 0));
    job->trial_id = ebb_doc_int(root, "trial_id", environment_int("EBB_TRIAL_ID", 0));
    job->seed = (uint32_t)(ebb_doc_int(root, "trial_seed", 0) & 0x7fffffff);
    job->batches_per_step = ebb_doc_int(job->config, "batches_per_step", 100);
    job->global_batch_size = ebb_doc_int(job->hparams, "global_batch_size", 1);
    job->rank = environment_int("EBB_RANK", 0);
    job->size = environment_int("EBB_SIZE", 1);
    job->local_rank = environment_int("EBB_LOCAL_RANK", 0);
    return read_checkpoint(s, root, err);
}

/* The trial may change its working directory and must still find the master. */
static enum ebb_status make_absolute(struct worker_setup *s, struct ebb_error *err)
{
    char here[4096];
    if (s->socket_path[0] == '/')
        return EBB_OK;
    if (getcwd(here, sizeof here) == NULL)
        return ebb_fail(err, EBB_EIO, "no working directory: %s", strerror(errno));
    s->socket_path = ebb_arena_printf(&s->arena, "%s/%s", here, s->socket_path);
    return s->socket_path != NULL ? EBB_OK : ebb_no_memory(err, sizeof here);
}

enum ebb_status worker_setup_read(struct worker_setup *setup, const char *entrypoint,
                                  struct ebb_error *err)
{
    struct worker_setup s = {.job.entrypoint = entrypoint};
    const char *path = environment("EBB_CONFIG");
    s.socket_path = environment("EBB_SOCKET");
    s.allocation = environment("EBB_ALLOCATION_ID");
    if (path == NULL || s.socket_path == NULL || s.allocation == NULL)
        return ebb_fail(err, EBB_EINPUT,
                        "%s is not set: this command is started by a master, not by hand; "
                        "'ebb run FILE' runs an experiment",
                        path == NULL            ? "EBB_CONFIG"
                        : s.socket_path == NULL ? "EBB_SOCKET"
                                                : "EBB_ALLOCATION_ID");
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, CONFIG_MAX_BYTES, err));
    const struct ebb_doc_node *root = NULL;
    ebb_arena_init(&s.arena);
    enum ebb_status status = ebb_doc_parse_json(&s.arena, path, view.data, view.length, &root, err);
    ebb_file_view_close(&view);
    EBB_THEN(status, read_root(&s, root, err));
    EBB_THEN(status, make_absolute(&s, err));
    if (status == EBB_OK)
        *setup = s;
    else
        ebb_arena_fini(&s.arena);
    return status;
}

void worker_setup_fini(struct worker_setup *setup)
{
    ebb_arena_fini(&setup->arena);
}
