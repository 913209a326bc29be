/* rest_master.c - the master itself: what it is, what it was started with, what it logged. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "serve/rest.h"

#define CHUNK_BYTES ((size_t)1 << 20) /* of the log in one answer */

static enum ebb_status info(struct serve_rest *r)
{
    const struct exp_master_info *m = &r->info;
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "cluster_id", m->cluster_id);
    ebb_jsonw_key_string(&r->w, "version", EBB_VERSION);
    ebb_jsonw_key_int(&r->w, "pid", getpid());
    ebb_jsonw_key_int(&r->w, "slots", m->options->slots);
    ebb_jsonw_key_string(&r->w, "state_dir", m->state_dir);
    ebb_jsonw_key_uint(&r->w, "experiments", m->experiments);
    ebb_jsonw_key_uint(&r->w, "running", m->running);
    ebb_jsonw_key_uint(&r->w, "commits", exp_db_commits(r->db));
    ebb_jsonw_key_bool(&r->w, "is_stalled", m->stall != NULL);
    ebb_jsonw_key_string(&r->w, "message", m->stall);
    ebb_jsonw_key_object(&r->w, "uploads");
    ebb_jsonw_key_uint(&r->w, "checkpoints", m->uploads);
    ebb_jsonw_key_int(&r->w, "bytes", m->upload_bytes);
    ebb_jsonw_key_int(&r->w, "bytes_done", m->uploaded_bytes);
    ebb_jsonw_key_string(&r->w, "error", m->upload_error);
    ebb_jsonw_object_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

/* ---- configuration ---- */

static enum ebb_status config(struct serve_rest *r)
{
    const struct exp_master_info *m = &r->info;
    const struct exp_master_options *o = m->options;
    const struct ebb_doc_node *storage = NULL;
    struct ebb_doc_node *whole = ebb_doc_new(r->arena, EBB_DOC_MAP); /* as a file has it: masked */
    EBB_TRY(serve_site_storage(r, &storage));
    if (whole == NULL || !ebb_doc_set(r->arena, whole, "checkpoint_storage", storage))
        return ebb_no_memory(r->err, sizeof *whole);
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "state_dir", m->state_dir);
    ebb_jsonw_key_string(&r->w, "account", m->owner);
    ebb_jsonw_key_int(&r->w, "slots", o->slots);
    ebb_jsonw_key_string(&r->w, "device", o->gpu_ids != NULL ? "gpu" : "cpu");
    ebb_jsonw_key_int(&r->w, "threads_per_slot", m->threads);
    ebb_jsonw_key_bool(&r->w, "pin_cpus", o->pin_cpus && m->can_pin);
    serve_key_int(&r->w, "slot_memory_bytes", (int64_t)o->slot_memory_bytes,
                  o->slot_memory_bytes > 0);
    ebb_jsonw_key_object(&r->w, "scheduler");
    ebb_jsonw_key_string(&r->w, "type",
                         o->sched_kind == EXP_SCHED_PRIORITY ? "priority" : "fair_share");
    ebb_jsonw_key_string(&r->w, "fit", o->sched_fit == EXP_FIT_WORST ? "worst" : "best");
    ebb_jsonw_key_bool(&r->w, "allow_partial_agents", true);
    ebb_jsonw_object_end(&r->w);
    ebb_jsonw_key(&r->w, "checkpoint_storage");
    ebb_doc_write_json(ebb_doc_get(exp_config_masked(r->arena, whole), "checkpoint_storage"),
                       &r->w);
    ebb_jsonw_key_string(&r->w, "python", m->python);
    ebb_jsonw_key_string(&r->w, "python_path", m->python_path);
    ebb_jsonw_key_int(&r->w, "log_bytes_max", o->log_bytes_max);
    ebb_jsonw_key_int(&r->w, "heartbeat_ms", o->heartbeat_ms);
    ebb_jsonw_key_int(&r->w, "adopt_ms", o->adopt_ms);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

/* ---- log ---- */

/* Whole lines of `text`, of which the first byte is at `offset` of the file; the last `tail` of
 * them when tail > 0. A line's id is the offset of its end. Returns the id of the last one written.
 */
static int64_t write_lines(struct serve_rest *r, const char *text, size_t length, int64_t offset,
                           int64_t tail)
{
    int64_t lines = 0, last = offset;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    for (size_t at = 0; at < length; lines--) {
        const char *eol = memchr(text + at, '\n', length - at);
        if (eol == NULL)
            break;
        size_t n = (size_t)(eol - text) - at;
        last = offset + (int64_t)(at + n + 1);
        if (tail <= 0 || lines <= tail) {
            ebb_jsonw_object(&r->w);
            ebb_jsonw_key_int(&r->w, "id", last);
            ebb_jsonw_key(&r->w, "message");
            ebb_jsonw_stringn(&r->w, text + at, n);
            ebb_jsonw_object_end(&r->w);
        }
        at += n + 1;
    }
    return last;
}

static enum ebb_status logs(struct serve_rest *r)
{
    char path[4096];
    struct stat st;
    int64_t after = serve_query_int(r, "greater_than_id", 0, 0),
            tail = serve_query_int(r, "tail", 0, 0);
    snprintf(path, sizeof path, "%s/master.log", r->info.state_dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int64_t size = fd >= 0 && fstat(fd, &st) == 0 ? (int64_t)st.st_size : 0;
    if (after < 0 || after > size)
        after = 0; /* a new file was begun */
    if (tail > 0 && size - after > (int64_t)CHUNK_BYTES)
        after = size - (int64_t)CHUNK_BYTES;
    char *text = ebb_arena_alloc(r->arena, CHUNK_BYTES);
    ssize_t n = fd >= 0 && text != NULL ? pread(fd, text, CHUNK_BYTES, (off_t)after) : 0;
    if (fd >= 0)
        close(fd);
    if (text == NULL)
        return ebb_no_memory(r->err, CHUNK_BYTES);
    serve_begin_list(r, "logs");
    int64_t last = write_lines(r, text, n > 0 ? (size_t)n : 0, after, tail);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_int(&r->w, "next", last);
    ebb_jsonw_key_bool(&r->w, "is_over", r->info.options->is_reading_only);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/master", info, "the master itself", 0},
    {"GET", "/master/config", config, "what it was started with", 0},
    {"GET", "/master/logs", logs, "what it logged", 0},
};
const struct serve_routes serve_routes_master = SERVE_ROUTES(routes);
