/* checkpoint.c - a trial as files, and back (docs/formats/checkpoint.md).
 *
 *   state/weights.safetensors    weights and buffers, named as torch's state_dict names them
 *   state/optimizer.safetensors  "<weight>.<state>", and "<weight>.grad" inside an accumulation
 *   state/train.json             counters, position in the data, loss scale, threads, versions
 *   manifest.json                path, bytes and sums of the others; written last
 *
 * Reading believes nothing that the manifest does not prove, and changes the trial only when
 * everything was proved to fit. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/manifest.h"
#include "base/str.h"
#include "base/crypto.h"
#include "train/trial.h"

enum { PATH_BYTES = 4096, FILES = 3, VERSION = 1 };
#define PIECE ((size_t)1 << 20) /* bytes of a file that are in memory at once */

static const char *const files[FILES] = {"state/weights.safetensors", "state/optimizer.safetensors",
                                         "state/train.json"};

/* ---- saving --------------------------------------------------------------------------------- */

static bool is_partial(const struct train_trial *t)
{
    return t->has_gradients && train_kept(t, t->batches) != 0;
}

/* In the file of weights, or in the other one; gradients only inside an update. */
static bool belongs(const struct train_slot *slot, bool is_weights, bool has_gradients)
{
    if (slot->kind == TRAIN_ITEM)
        return is_weights;
    if (slot->kind == TRAIN_REST)
        return false; /* in their item, as F32 */
    return !is_weights && (slot->kind == TRAIN_STATE || has_gradients);
}

struct source { /* of one tensor in a file */
    struct train_trial *trial;
    size_t slot;
};

static enum ebb_status read_slot(const void *context, tensor_sink *sink, void *to,
                                 struct ebb_error *err)
{
    const struct source *s = context;
    return train_slot_read(s->trial, s->slot, sink, to, err);
}

static enum ebb_status save_tensors(struct train_trial *t, const char *path, bool is_weights,
                                    struct ebb_error *err)
{
    size_t count = 0;
    struct tensor_to_write *items;
    struct source *sources = NULL;
    enum ebb_status status = ebb_new(&items, t->main.slot_count, sizeof *items, err);
    EBB_THEN(status, ebb_new(&sources, t->main.slot_count, sizeof *sources, err));
    for (size_t i = 0; status == EBB_OK && i < t->main.slot_count; i++) {
        if (!belongs(&t->main.slots[i], is_weights, is_partial(t)))
            continue;
        sources[count] = (struct source){t, i};
        items[count] = (struct tensor_to_write){.name = t->main.slots[i].name,
                                                .view = t->main.slots[i].view,
                                                .data = &sources[count],
                                                .read = read_slot};
        count++;
    }
    EBB_THEN(status, tensor_file_write(path, items, count, err));
    ebb_free(items);
    ebb_free(sources);
    return status;
}

void train_instruction_set(char *text, size_t size)
{
#if defined(__x86_64__)
    const char *set = __builtin_cpu_supports("avx512f") ? "x86_64 avx512f"
                      : __builtin_cpu_supports("avx2")  ? "x86_64 avx2"
                                                        : "x86_64";
#else
    const char *set = "other";
#endif
    const char *most = getenv("ONEDNN_MAX_CPU_ISA");
    most = most ? most : getenv("DNNL_MAX_CPU_ISA"); /* its older name */
    bool is_limited = most && *most && strcmp(most, "ALL") != 0 && strcmp(most, "DEFAULT") != 0;
    snprintf(text, size, "%s%s%s", set, is_limited ? ", at most " : "", is_limited ? most : "");
}

static const struct {
    const char *best, *since;
} watch_keys[TRAIN_WATCHES] = {[TRAIN_WATCH_BEST] = {"best_metric", "since_best"},
                               [TRAIN_WATCH_EARLY] = {"early_metric", "since_early"}};

static void write_scaler(const struct optim_scaler *s, struct ebb_json_writer *w)
{
    ebb_jsonw_key(w, "loss_scale");
    ebb_jsonw_object(w);
    ebb_jsonw_key_double(w, "scale", s->scale);
    ebb_jsonw_key_int(w, "streak", s->streak);
    ebb_jsonw_key_int(w, "iteration", s->iteration);
    ebb_jsonw_key_int(w, "last_overflow", s->last_overflow);
    ebb_jsonw_key_int(w, "hysteresis", s->hysteresis);
    ebb_jsonw_object_end(w);
}

static void write_state(struct train_trial *t, struct ebb_json_writer *w)
{
    struct data_position position;
    char here[TRAIN_INSTRUCTIONS];
    train_instruction_set(here, sizeof here);
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "format", "ebb training state");
    ebb_jsonw_key_int(w, "version", VERSION);
    ebb_jsonw_key_string(w, "task", train_task_name(t->config.task));
    ebb_jsonw_key_string(w, "model", t->net.model->name);
    if (nn_config_hash(&t->net)) /* a model file: it must say the same */
        ebb_jsonw_key_string(w, "model_sha256", nn_config_hash(&t->net));
    if (t->run[0] != '\0')
        ebb_jsonw_key_string(w, "run", t->run);
    ebb_jsonw_key_int(w, "updates", t->updates);
    ebb_jsonw_key_int(w, "batches", t->batches);
    ebb_jsonw_key_int(w, "epoch", t->epoch);
    ebb_jsonw_key_int(w, "skipped", t->skipped);
    ebb_jsonw_key_int(w, "optimizer_steps", t->count.steps);
    ebb_jsonw_key_double(w, "optimizer_mu_product", t->count.mu_product);
    ebb_jsonw_key_string(w, "optimizer", t->config.optim.name);
    ebb_jsonw_key_int(w, "accumulate", t->config.accumulate);
    ebb_jsonw_key_int(w, "batch_size", t->config.batch_size);
    ebb_jsonw_key(w, "rng_key"); /* all random numbers are functions of it and the counters */
    ebb_jsonw_uint(w, t->config.seed);
    write_scaler(&t->scaler, w);
    ebb_jsonw_key_int(w, "threads", train_engine_threads(t->engine));
    if (strcmp(train_engine_bits(t->engine), "cpu") != 0)
        ebb_jsonw_key_string(w, "device", train_engine_bits(t->engine));
    if (*train_engine_identity(t->engine))
        ebb_jsonw_key_string(w, "device_identity", train_engine_identity(t->engine));
    ebb_jsonw_key_string(w, "instruction_set", here);
    ebb_jsonw_key_string(w, "ebb", EBB_VERSION);
    for (size_t i = 0; i < TRAIN_WATCHES; i++)
        if (t->watches[i].has_best || t->watches[i].since) {
            ebb_jsonw_key_double(w, watch_keys[i].best,
                                 t->watches[i].has_best ? t->watches[i].best : (double)NAN);
            ebb_jsonw_key_int(w, watch_keys[i].since, t->watches[i].since);
        }
    ebb_jsonw_key(w, "metrics"); /* told to the schedule, in order */
    ebb_jsonw_array(w);
    for (size_t i = 0; i < t->history_count; i++)
        ebb_jsonw_double(w, t->history[i]);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key(w, "data");
    if (t->loader) {
        train_position(t, &position);
        data_position_write(&position, w);
    } else {
        ebb_jsonw_null(w);
    }
    ebb_jsonw_object_end(w);
}

static enum ebb_status save_state(struct train_trial *t, const char *path, struct ebb_error *err)
{
    struct ebb_str out = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &out, 2);
    write_state(t, &w);
    ebb_str_addc(&out, '\n');
    enum ebb_status status = ebb_str_status(&out, err);
    EBB_THEN(status, ebb_file_write_atomic(path, out.data, out.length, err));
    ebb_str_fini(&out);
    return status;
}

/* All of a file, of which a piece at a time is resident. */
static enum ebb_status add_file(const char *path, struct ebb_sums *sums, struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, SIZE_MAX, err));
    for (size_t at = 0, n; at < view.length; at += n) {
        n = view.length - at < PIECE ? view.length - at : PIECE;
        ebb_sums_add(sums, view.data + at, n);
        ebb_file_view_rest(&view, view.data + at, n);
    }
    ebb_file_view_close(&view);
    return EBB_OK;
}

static enum ebb_status sum_file(const char *path, struct ebb_sums_text *text, int64_t *bytes,
                                struct ebb_error *err)
{
    struct ebb_sums sums;
    ebb_sums_init(&sums);
    enum ebb_status status = add_file(path, &sums, err);
    *bytes = sums.bytes;
    EBB_THEN(status, ebb_sums_text(&sums, text, err));
    ebb_sums_fini(&sums);
    return status;
}

static enum ebb_status save_manifest(const char *dir, struct ebb_error *err)
{
    char path[PATH_BYTES];
    struct ebb_sums_text sums[FILES];
    struct ebb_manifest_file entries[FILES];
    struct ebb_str out = {0};
    for (size_t i = 0; i < FILES; i++) {
        int64_t bytes;
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        EBB_TRY(sum_file(path, &sums[i], &bytes, err));
        entries[i] = (struct ebb_manifest_file){files[i], bytes, sums[i].sha256, sums[i].xxh128};
    }
    ebb_manifest_write(&(struct ebb_manifest){.files = entries, .count = FILES}, 2, &out);
    snprintf(path, sizeof path, "%s/" EBB_MANIFEST, dir);
    enum ebb_status status = ebb_str_status(&out, err);
    EBB_THEN(status, ebb_file_write_atomic(path, out.data, out.length, err));
    ebb_str_fini(&out);
    return status;
}

enum ebb_status train_trial_save(struct train_trial *t, const char *dir, struct ebb_error *err)
{
    char path[PATH_BYTES];
    if (strlen(dir) > PATH_BYTES - 64)
        return ebb_fail(err, EBB_ELIMIT, "the path of the checkpoint is too long");
    snprintf(path, sizeof path, "%s/state", dir);
    EBB_TRY(ebb_file_mkdirs(path, err));
    snprintf(path, sizeof path, "%s/%s", dir, files[0]);
    EBB_TRY(save_tensors(t, path, true, err));
    snprintf(path, sizeof path, "%s/%s", dir, files[1]);
    EBB_TRY(save_tensors(t, path, false, err));
    snprintf(path, sizeof path, "%s/%s", dir, files[2]);
    EBB_TRY(save_state(t, path, err));
    return save_manifest(dir, err);
}

/* ---- proving -------------------------------------------------------------------------------- */

/* What is there and cannot be read may be good. */
static bool is_missing(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    return S_ISDIR(st.st_mode);
}

static enum ebb_status prove_file(const char *dir, const struct ebb_manifest_file *want,
                                  struct ebb_error *err)
{
    char path[PATH_BYTES];
    struct ebb_proof proof;
    ebb_proof_init(&proof, want);
    snprintf(path, sizeof path, "%s/%s", dir, want->path);
    enum ebb_status status = add_file(path, &proof.sums, err);
    if (status == EBB_EIO && is_missing(path))
        status = ebb_fail(err, EBB_ECORRUPT, "%s is missing", want->path);
    EBB_THEN(status, ebb_proof_end(&proof, err));
    ebb_proof_fini(&proof);
    return status == EBB_ECORRUPT ? ebb_context(err, status, "checkpoint %s", dir) : status;
}

enum ebb_status train_checkpoint_prove(struct ebb_arena *arena, const char *dir,
                                       struct ebb_error *err)
{
    char path[PATH_BYTES];
    const struct ebb_doc_node *root;
    struct ebb_manifest manifest;
    struct ebb_error why = {0};
    if (strlen(dir) > PATH_BYTES - 64)
        return ebb_fail(err, EBB_ELIMIT, "the path of the checkpoint is too long");
    snprintf(path, sizeof path, "%s/" EBB_MANIFEST, dir);
    enum ebb_status status = ebb_doc_load(arena, path, &root, &why);
    if (status == EBB_ENOMEM || (status == EBB_EIO && !is_missing(path)))
        return ebb_fail(err, status, "%s", why.message);
    if (status != EBB_OK)
        return ebb_fail(err, EBB_ECORRUPT, "checkpoint %s has no manifest: %s", dir, why.message);
    EBB_TRY(ebb_manifest_read(arena, path, root, &manifest, err));
    for (size_t f = 0; f < FILES; f++) { /* only the files we read: no path of its own choice */
        const struct ebb_manifest_file *want = ebb_manifest_find(&manifest, files[f]);
        if (!want)
            return ebb_fail(err, EBB_ECORRUPT, "%s does not name %s", path, files[f]);
        EBB_TRY(prove_file(dir, want, err));
    }
    return EBB_OK;
}

/* ---- loading -------------------------------------------------------------------------------- */

struct opened {
    struct ebb_file_view view;
    struct tensor_file file;
    bool is_open;
};

static enum ebb_status open_tensors(struct opened *o, const char *path, struct ebb_error *err)
{
    EBB_TRY(ebb_file_view_open(&o->view, path, SIZE_MAX, err));
    enum ebb_status status = tensor_file_read(&o->file, path, o->view.data, o->view.length, err);
    if (status != EBB_OK)
        ebb_file_view_close(&o->view);
    o->is_open = status == EBB_OK;
    return status;
}

static void close_tensors(struct opened *o)
{
    if (!o->is_open)
        return;
    tensor_file_fini(&o->file);
    ebb_file_view_close(&o->view);
    o->is_open = false;
}

/* Every slot that should be in the file is there with its shape and dtype. */
static enum ebb_status check_tensors(const struct train_trial *t, const struct opened *o,
                                     const char *path, bool is_weights, bool is_inside,
                                     struct ebb_error *err)
{
    char want[96], found[96];
    for (size_t i = 0; i < t->main.slot_count; i++) {
        const struct train_slot *slot = &t->main.slots[i];
        if (!belongs(slot, is_weights, is_inside))
            continue;
        const struct tensor_entry *e = tensor_file_find(&o->file, slot->name);
        if (!e)
            return ebb_fail(err, EBB_EINPUT, "%s has no '%s'", path, slot->name);
        if (!tensor_same_shape(&e->view, &slot->view) || e->view.dtype != slot->view.dtype)
            return ebb_fail(err, EBB_EINPUT, "%s: '%s' is %s %s, the model has %s %s", path,
                            slot->name, tensor_dtype_name((enum tensor_dtype)e->view.dtype),
                            tensor_shape_text(&e->view, found, sizeof found),
                            tensor_dtype_name((enum tensor_dtype)slot->view.dtype),
                            tensor_shape_text(&slot->view, want, sizeof want));
    }
    return EBB_OK;
}

static enum ebb_status copy_tensor(struct train_trial *t, size_t slot,
                                   const struct ebb_file_view *view, const struct tensor_entry *e,
                                   struct ebb_error *err)
{
    uint64_t count = (uint64_t)tensor_count(&e->view), size = count ? e->bytes / count : 1;
    for (uint64_t at = 0, n; at < count; at += n) {
        const char *from = (const char *)e->data + at * size;
        n = count - at < PIECE / size ? count - at : PIECE / size;
        EBB_TRY(train_slot_write_part(t, slot, at, n, from, err));
        ebb_file_view_rest(view, from, (size_t)(n * size));
    }
    return EBB_OK;
}

static enum ebb_status copy_tensors(struct train_trial *t, const struct opened *o,
                                    enum train_slot_kind kind, struct ebb_error *err)
{
    for (size_t i = 0; i < t->main.slot_count; i++) {
        const struct train_slot *slot = &t->main.slots[i];
        const struct tensor_entry *e =
            slot->kind == kind ? tensor_file_find(&o->file, slot->name) : NULL;
        if (e)
            EBB_TRY(copy_tensor(t, i, &o->view, e, err));
    }
    return EBB_OK;
}

static enum ebb_status differs(struct ebb_error *err, const char *path, const char *what,
                               const char *was, const char *is)
{
    return ebb_fail(err, EBB_EINPUT, "%s: the checkpoint was made with %s %s, this run has %s",
                    path, what, was, is);
}

/* Device, threads and instructions: others give other last bits. */
static enum ebb_status check_bits(const struct train_trial *t, const struct ebb_doc_node *root,
                                  const char *path, struct ebb_error *err)
{
    int64_t threads = ebb_doc_int(root, "threads", 0);
    int now = train_engine_threads(t->engine);
    const char *device = ebb_doc_string(root, "device", "cpu");
    if (strcmp(device, train_engine_bits(t->engine)) != 0)
        return differs(err, path, "device", device, train_engine_bits(t->engine));
    const char *here = train_engine_identity(t->engine);
    const char *there = ebb_doc_string(root, "device_identity", here);
    if (strcmp(here, there) != 0 && !t->options.any_threads)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: the checkpoint was made on %s, this run has %s: results would differ "
                        "in their last bits (--any-threads goes on all the same)",
                        path, there, here);
    if (threads != now && !t->options.any_threads)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: the checkpoint was made with %" PRId64
                        " threads, this run has %d: results would differ in their last bits (use "
                        "--threads %" PRId64 ", or --any-threads to go on all the same)",
                        path, threads, now, threads);
    char instructions[TRAIN_INSTRUCTIONS];
    train_instruction_set(instructions, sizeof instructions);
    const char *set = ebb_doc_string(root, "instruction_set", instructions);
    if (strcmp(set, instructions) != 0 && !t->options.any_threads)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: the checkpoint was made on a processor with %s, this one has %s: "
                        "results would differ in their last bits (--any-threads goes on all the "
                        "same)",
                        path, set, instructions);
    return EBB_OK;
}

/* The model, the optimizer and what their numbers depend on. */
static enum ebb_status check_state(const struct train_trial *t, const struct ebb_doc_node *root,
                                   const char *path, struct ebb_error *err)
{
    const char *model = ebb_doc_string(root, "model", "?");
    const char *optimizer = ebb_doc_string(root, "optimizer", "?");
    char was[32], is[32];
    if (ebb_doc_int(root, "version", 0) != VERSION)
        return ebb_fail(err, EBB_EINPUT, "%s: version %" PRId64 ", this program reads %d", path,
                        ebb_doc_int(root, "version", 0), VERSION);
    static const char *const counters[] = {"updates", "batches", "epoch", "skipped",
                                           "optimizer_steps"};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        if (ebb_doc_int(root, counters[i], -1) < 0)
            return ebb_fail(err, EBB_ECORRUPT, "%s: %s is no counter", path, counters[i]);
    if (strcmp(model, t->net.model->name) != 0)
        return differs(err, path, "model", model, t->net.model->name);
    const char *hash = nn_config_hash(&t->net), *made = ebb_doc_string(root, "model_sha256", NULL);
    if ((hash != NULL) != (made != NULL) || (hash && strcmp(hash, made) != 0))
        return ebb_fail(
            err, EBB_EINPUT,
            "%s: the model file has changed since this checkpoint was made: resume with "
            "the old one, or begin anew",
            path);
    if (strcmp(optimizer, t->config.optim.name) != 0)
        return differs(err, path, "optimizer", optimizer, t->config.optim.name);
    const struct {
        const char *key, *what;
        int64_t is;
    } numbers[] = {{"accumulate", "aggregation_frequency", t->config.accumulate},
                   {"batch_size", "global_batch_size", t->config.batch_size}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(was, sizeof was, "%" PRId64, ebb_doc_int(root, numbers[i].key, 0));
        snprintf(is, sizeof is, "%" PRId64, numbers[i].is);
        if (strcmp(was, is) != 0)
            return differs(err, path, numbers[i].what, was, is);
    }
    int64_t seed = ebb_doc_int(root, "rng_key", -1);
    snprintf(was, sizeof was, "%" PRId64, seed);
    snprintf(is, sizeof is, "%" PRIu64, t->config.seed);
    if (seed >= 0 && (uint64_t)seed != t->config.seed)
        return differs(err, path, "seed", was, is);
    return check_bits(t, root, path, err);
}

static void take_state(struct train_trial *t, const struct ebb_doc_node *root)
{
    const struct ebb_doc_node *scale = ebb_doc_get(root, "loss_scale");
    snprintf(t->run, sizeof t->run, "%s", ebb_doc_string(root, "run", TRAIN_RUN_UNNAMED));
    t->updates = ebb_doc_int(root, "updates", 0);
    t->batches = ebb_doc_int(root, "batches", 0);
    t->epoch = ebb_doc_int(root, "epoch", 0);
    t->skipped = ebb_doc_int(root, "skipped", 0);
    t->count.steps = ebb_doc_int(root, "optimizer_steps", 0);
    t->count.mu_product = ebb_doc_double(root, "optimizer_mu_product", 0);
    t->scaler.scale = ebb_doc_double(scale, "scale", t->scaler.scale);
    t->scaler.streak = ebb_doc_int(scale, "streak", 0);
    t->scaler.iteration = ebb_doc_int(scale, "iteration", 0);
    t->scaler.last_overflow = ebb_doc_int(scale, "last_overflow", -1);
    t->scaler.hysteresis = ebb_doc_int(scale, "hysteresis", t->scaler.hysteresis);
    for (size_t i = 0; i < TRAIN_WATCHES; i++) {
        t->watches[i].best = ebb_doc_double(root, watch_keys[i].best, NAN);
        t->watches[i].has_best = isfinite(t->watches[i].best);
        t->watches[i].since = ebb_doc_int(root, watch_keys[i].since, 0);
    }
}

/* The schedule is told again what it was told before. */
static enum ebb_status replay(struct train_trial *t, const struct ebb_doc_node *root,
                              struct ebb_error *err)
{
    const struct ebb_doc_node *list = ebb_doc_get(root, "metrics");
    t->history_count = 0;
    for (size_t i = 0; list && list->kind == EBB_DOC_LIST && i < list->count; i++)
        EBB_TRY(train_tell_metric(
            t, list->items[i]->kind == EBB_DOC_NULL ? NAN : list->items[i]->number, err));
    return EBB_OK;
}

static enum ebb_status resume(struct train_trial *t, struct ebb_arena *arena, const char *dir,
                              struct opened *weights, struct opened *optimizer,
                              struct ebb_error *err)
{
    char path[PATH_BYTES];
    const struct ebb_doc_node *root;
    struct data_position position;
    snprintf(path, sizeof path, "%s/%s", dir, files[2]);
    EBB_TRY(ebb_doc_load(arena, path, &root, err));
    EBB_TRY(check_state(t, root, path, err));
    int64_t batches = ebb_doc_int(root, "batches", 0);
    bool is_inside = t->has_gradients && train_kept(t, batches) != 0;
    snprintf(path, sizeof path, "%s/%s", dir, files[1]);
    EBB_TRY(open_tensors(optimizer, path, err));
    EBB_TRY(check_tensors(t, optimizer, path, false, is_inside, err));
    if (t->loader) {
        EBB_TRY(data_position_read(ebb_doc_get(root, "data"), &position, err));
        train_recall(t);
        EBB_TRY(data_loader_restore(t->loader, &position, err));
    }
    EBB_TRY(copy_tensors(t, weights, TRAIN_ITEM, err));
    EBB_TRY(copy_tensors(t, optimizer, TRAIN_STATE, err));
    EBB_TRY(train_clear_gradients(t, err));
    if (is_inside)
        EBB_TRY(copy_tensors(t, optimizer, TRAIN_GRADIENT, err));
    take_state(t, root);
    return replay(t, root, err);
}

enum ebb_status train_trial_load(struct train_trial *t, const char *dir, enum train_load kind,
                                 struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    struct opened weights = {0}, optimizer = {0};
    char path[PATH_BYTES];
    enum ebb_status status = train_checkpoint_prove(&arena, dir, err);
    snprintf(path, sizeof path, "%s/%s", dir, files[0]);
    EBB_THEN(status, open_tensors(&weights, path, err));
    EBB_THEN(status, check_tensors(t, &weights, path, true, false, err));
    if (status == EBB_OK && kind == TRAIN_RESUME)
        status = resume(t, &arena, dir, &weights, &optimizer, err);
    else
        EBB_THEN(status, copy_tensors(t, &weights, TRAIN_ITEM, err));
    if (kind != TRAIN_RESUME)
        EBB_THEN(status, train_begin_averages(t, err));
    close_tensors(&weights);
    close_tensors(&optimizer);
    ebb_arena_fini(&arena);
    return status;
}

/* Into the slot, as its own numbers. */
static enum ebb_status import_entry(struct train_trial *t, size_t slot,
                                    const struct tensor_entry *e, struct ebb_error *err)
{
    const struct train_slot *s = &t->main.slots[slot];
    int64_t all = tensor_count(&s->view), rows = e->view.rank ? e->view.dims[0] : 1;
    int64_t each = rows ? all / rows : 0, least = (int64_t)(PIECE / sizeof(int64_t));
    int64_t most = each > 0 && each < least ? least / each : 1; /* rows at once */
    void *values;
    EBB_TRY(ebb_new(&values, (size_t)(most * each) + 1, sizeof(int64_t), err));
    enum ebb_status status = EBB_OK;
    for (int64_t at = 0, n; at < rows && status == EBB_OK; at += n) {
        n = rows - at < most ? rows - at : most;
        status = tensor_entry_rows(e, at, n, (enum tensor_dtype)s->view.dtype, values)
                     ? train_slot_write_part(t, slot, (uint64_t)(at * each), (uint64_t)(n * each),
                                             values, err)
                     : ebb_fail(err, EBB_EINPUT, "'%s' has numbers of another kind", s->name);
    }
    ebb_free(values);
    return status;
}

static bool is_fresh(const struct train_init *init, const char *name)
{
    for (size_t i = 0; i < init->fresh_count; i++)
        if (tensor_pattern_fits(init->fresh[i], name))
            return true;
    return false;
}

/* Entries called NAME and `suffix`, into the items that are not fresh. */
static enum ebb_status import_all(struct train_trial *t, const struct train_init *init,
                                  const struct tensor_weights *w, const char *suffix,
                                  struct ebb_error *err)
{
    struct ebb_str name = {0};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; status == EBB_OK && i < t->main.slot_count; i++) {
        const struct train_slot *slot = &t->main.slots[i];
        if (slot->kind != TRAIN_ITEM || is_fresh(init, slot->name))
            continue;
        ebb_str_clear(&name);
        ebb_str_printf(&name, "%s%s", slot->name, suffix);
        status = ebb_str_status(&name, err);
        const struct tensor_entry *e = tensor_file_find(&w->all, ebb_str_c(&name));
        if (e && (!*suffix || tensor_same_shape(&e->view, &slot->view)))
            EBB_THEN(status, import_entry(t, i, e, err));
    }
    ebb_str_fini(&name);
    return status;
}

static enum ebb_status import_file(struct train_trial *t, const struct train_init *init,
                                   const char *path, struct ebb_str *list, struct ebb_error *err)
{
    struct tensor_weights w;
    struct tensor_wanted *wanted = NULL;
    size_t count = 0;
    EBB_TRY(tensor_weights_open(&w, path, &init->changes, err));
    enum ebb_status status = ebb_new(&wanted, t->main.slot_count + 1, sizeof *wanted, err);
    for (size_t i = 0; status == EBB_OK && i < t->main.slot_count; i++)
        if (t->main.slots[i].kind == TRAIN_ITEM)
            wanted[count++] = (struct tensor_wanted){t->main.slots[i].name, &t->main.slots[i].view};
    EBB_THEN(status, tensor_weights_check(&w, path, wanted, count, init->fresh, init->fresh_count,
                                          list, err));
    EBB_THEN(status, import_all(t, init, &w, "", err));
    ebb_free(wanted);
    tensor_weights_close(&w);
    return status;
}

/* Of a checkpoint what its validation measured: averages, where it has them. */
static enum ebb_status import_averages(struct train_trial *t, const struct train_init *init,
                                       const char *dir, struct ebb_error *err)
{
    struct tensor_weights states;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", dir, files[1]);
    EBB_TRY(tensor_weights_open(&states, path, NULL, err));
    enum ebb_status status = import_all(t, init, &states, ".ema", err);
    tensor_weights_close(&states);
    return status;
}

enum ebb_status train_trial_import(struct train_trial *t, const struct train_init *init,
                                   struct ebb_str *list, struct ebb_error *err)
{
    struct ebb_str dir = {0};
    enum ebb_status status = train_store_find(init->path, &dir, err);
    bool is_ours = dir.length > 0;
    EBB_THEN(status, import_file(t, init, is_ours ? ebb_str_c(&dir) : init->path, list, err));
    if (is_ours)
        EBB_THEN(status, import_averages(t, init, ebb_str_c(&dir), err));
    ebb_str_fini(&dir);
    EBB_THEN(status, train_begin_averages(t, err));
    return status;
}

enum ebb_status train_trial_export(struct train_trial *t, const char *path, struct ebb_error *err)
{
    EBB_TRY(train_swap_averages(t, err)); /* a no-op without averages */
    enum ebb_status status = save_tensors(t, path, true, err);
    enum ebb_status back = train_swap_averages(t, status == EBB_OK ? err : NULL);
    return status == EBB_OK ? back : status;
}
