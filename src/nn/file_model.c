/* file_model.c - a model file as a row of the table: found by its path, tried once, its inputs
 * filled. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "nn/file.h"
#include "nn/onnx.h"

/* ---- inputs that no data set gives ----------------------------------------------------------- */

/* Sine and cosine of the place, in waves that grow longer (Vaswani et al. 2017, 3.5). */
static void waves(const struct tensor_view *v, float *y)
{
    int64_t width = v->rank ? v->dims[v->rank - 1] : 1, rows = tensor_count(v) / width;
    int64_t length = v->rank > 1 ? v->dims[v->rank - 2] : rows;
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i < width; i++) {
            double rate = exp(-log(10000.0) * (double)(i / 2 * 2) / (double)width);
            double angle = (double)(t % length) * rate;
            y[t * width + i] = (float)(i % 2 ? cos(angle) : sin(angle));
        }
}

#define STREAM 2u /* 0 is dropout's, 1 that of initial values */

void nn_file_fill(enum nn_fill fill, const struct nn_port *port, uint32_t instance, uint64_t seed,
                  int64_t update, float *dst)
{
    size_t n = (size_t)tensor_count(&port->view);
    if (fill == NN_FILL_UNIFORM)
        nn_philox_uniform(seed, instance, (uint32_t)update, STREAM, n, dst);
    else if (fill == NN_FILL_NORMAL)
        nn_philox_normal(seed, instance, (uint32_t)update, STREAM, n, dst);
    else if (fill == NN_FILL_WAVES)
        waves(&port->view, dst);
    else
        memset(dst, 0, n * sizeof *dst);
}

static void generate(const struct nn_config *config, const struct nn_port *port, uint64_t seed,
                     int64_t update, void *dst)
{
    const struct nn_file *file = config->model->context;
    for (size_t i = 0; i < file->input_count; i++)
        if (strcmp(file->inputs[i].name, port->name) == 0 && port->view.dtype == TENSOR_F32) {
            nn_file_fill((enum nn_fill)file->inputs[i].fill, port, (uint32_t)i, seed, update, dst);
            return;
        }
    memset(dst, 0,
           (size_t)tensor_count(&port->view) *
               tensor_dtype_bytes((enum tensor_dtype)port->view.dtype));
}

/* ---- finding and trying ---------------------------------------------------------------------- */

static enum ebb_status check(const struct nn_config *config, struct ebb_error *err)
{
    const struct nn_file *file = config->model->context;
    struct nn_port ports[NN_PORTS];
    size_t n = nn_file_inputs(config, 2, ports);
    if (n == file->input_count)
        return EBB_OK;
    const struct nn_file_input *in = &file->inputs[n];
    return ebb_fail(err, EBB_EINPUT,
                    "%s:%u:%u: inputs.%s: a size is no whole number from 1 to 2^40", file->path,
                    in->dims[0]->line, in->dims[0]->column, in->name);
}

/* In a reading of its own: places are those of the model file. */
static const struct nn_file *read_text(struct ebb_reading *reading, const char *path,
                                       const struct nn_env *env, const char *bytes, size_t length)
{
    struct ebb_report found;
    struct ebb_reading own;
    ebb_reading_init(&own, reading->arena, path, &found);
    const struct nn_file *file = nn_file_read(&own, path, bytes, length);
    reading->failed |= own.failed;
    ebb_report_sort(&found);
    ebb_reading_absorb(reading, &found);
    ebb_reading_fini(&own);
    if (!file)
        return NULL;
    struct nn_file *mine = ebb_reading_alloc(reading, 1, sizeof *mine);
    if (!mine)
        return NULL;
    *mine = *file;
    mine->model.context = mine;
    mine->model.hash = mine->sha256;
    mine->model.check = check;
    mine->model.generate = generate;
    if (mine->model.task == NN_TASK_COUNT)
        mine->model.task = env && env->task ? *env->task : NN_IMAGE_CLASSIFICATION;
    return mine;
}

static const struct nn_file *read_path(struct ebb_reading *reading, const struct ebb_path *path,
                                       const struct ebb_doc_node *node, const struct nn_env *env,
                                       const char *name)
{
    struct ebb_file_view view;
    struct ebb_error err = {0};
    if (ebb_file_view_open(&view, name, NN_FILE_BYTES, &err) != EBB_OK) {
        ebb_reading_error(reading, path, node, "%s", err.message);
        return NULL;
    }
    const struct nn_file *file = read_text(reading, name, env, view.data, view.length);
    ebb_file_view_close(&view);
    return file;
}

static void take(const struct nn_file *file, struct nn_config *config)
{
    memset(config, 0, sizeof *config);
    config->model = &file->model;
    memcpy(config->bytes, file->model.defaults, NN_CONFIG_BYTES);
}

static void add_notes(struct ebb_reading *reading, const struct ebb_doc_node *node,
                      const struct nn_config *config)
{
    for (size_t i = 0; i < config->model->note_count; i++)
        ebb_reading_add(reading, EBB_FINDING_NOTE, node, "model.file", "%s",
                        config->model->notes[i]);
}

static bool open_onnx(struct ebb_reading *reading, const struct ebb_path *path,
                      const struct ebb_doc_node *node, const struct nn_env *env, const char *name,
                      struct nn_config *config)
{
    struct ebb_error err = {0};
    if (nn_onnx_open(reading->arena, name, env, config, &err) != EBB_OK) {
        ebb_reading_error(reading, path, node, "%s", err.message);
        return false;
    }
    add_notes(reading, node, config);
    return true;
}

bool nn_file_open(struct ebb_reading *reading, const struct ebb_path *path,
                  const struct ebb_doc_node *node, const struct nn_env *env,
                  struct nn_config *config)
{
    struct ebb_path at = {.up = path, .key = "file"};
    const char *name = node->text;
    if (!env || env->no_files)
        return false;
    if (env->directory && *name != '/')
        name = ebb_arena_printf(reading->arena, "%s/%s", env->directory, name);
    else
        name = ebb_arena_strndup(reading->arena, name, strlen(name));
    if (!name) {
        reading->failed = true;
        return false;
    }
    if (strncmp(name, "./", 2) == 0)
        name += 2;
    if (nn_onnx_is_path(name))
        return open_onnx(reading, &at, node, env, name, config);
    const struct nn_file *file = read_path(reading, &at, node, env, name);
    if (file)
        take(file, config);
    return file != NULL;
}

bool nn_file_waits(const struct nn_config *config)
{
    static const char facts[] = "channels height width classes vocabulary length features size "
                                "outputs";
    for (size_t i = 0; i < config->model->option_count; i++) {
        const char *name = config->model->options[i].path;
        if (!(config->given >> i & 1) && ebb_words_find(facts, name, strlen(name), NULL))
            return true;
    }
    return false;
}

/* Without a place in the file: the message names the node. */
static void report_onnx(struct ebb_reading *reading, const struct ebb_path *path,
                        const struct ebb_doc_node *map, const struct ebb_error *err)
{
    struct ebb_path at = {.up = path, .key = "file"};
    ebb_reading_error(reading, &at, ebb_doc_get(map, "file"), "%s", err->message);
}

bool nn_file_try(struct ebb_reading *reading, const struct ebb_path *path,
                 const struct ebb_doc_node *map, const struct nn_config *config)
{
    struct ebb_report found;
    struct ebb_reading own;
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_output outputs[NN_PORTS];
    tensor_id inputs[NN_PORTS];
    size_t count;
    if (tensor_session_create(&s, NULL, &err) != EBB_OK) {
        reading->failed = true;
        return false;
    }
    nn_builder_init(&b, s, &(struct nn_mode){.is_training = true});
    enum ebb_status status = nn_leaves(&b, config, nn_config_batch(config, 2), inputs, &err);
    EBB_THEN(status, nn_build(&b, config, inputs, outputs, &count, &err));
    if (status != EBB_OK)
        tensor_status(s, &err); /* the bare message: its place is told apart */
    struct nn_expr at = {.line = b.place.line, .column = b.place.column};
    nn_builder_fini(&b);
    tensor_session_destroy(s);
    if (status == EBB_OK || (status != EBB_ENOMEM && nn_file_waits(config)))
        return true;
    if (config->model->build == nn_onnx_build) {
        report_onnx(reading, path, map, &err);
        return false;
    }
    const struct nn_file *file = config->model->context;
    ebb_reading_init(&own, reading->arena, file->path, &found);
    nn_file_error(&own, NULL, &at, "%s", err.message);
    ebb_reading_absorb(reading, &found);
    ebb_reading_fini(&own);
    return false;
}

/* ---- from outside ---------------------------------------------------------------------------- */

static bool is_path(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n > 5 && strcmp(name + n - 5, ".yaml") == 0) ||
           (n > 4 && strcmp(name + n - 4, ".yml") == 0);
}

enum ebb_status nn_config_open(struct ebb_arena *arena, const char *name, struct nn_config *config,
                               struct ebb_report *report, struct ebb_error *err)
{
    struct ebb_file_view view;
    *report = (struct ebb_report){0};
    if (nn_onnx_is_path(name)) {
        EBB_TRY(nn_onnx_open(arena, name, NULL, config, err));
        struct ebb_reading reading;
        ebb_reading_init(&reading, arena, name, report);
        add_notes(&reading, NULL, config);
        return ebb_reading_end(&reading, err);
    }
    if (!is_path(name))
        return nn_config_init(config, name, err);
    EBB_TRY(ebb_file_view_open(&view, name, NN_FILE_BYTES, err));
    enum ebb_status status =
        nn_config_from_text(arena, name, view.data, view.length, config, report, err);
    ebb_file_view_close(&view);
    return status;
}

enum ebb_status nn_config_from_text(struct ebb_arena *arena, const char *name, const char *bytes,
                                    size_t length, struct nn_config *config,
                                    struct ebb_report *report, struct ebb_error *err)
{
    struct ebb_reading reading;
    ebb_reading_init(&reading, arena, name, report);
    if (nn_onnx_is_path(name)) {
        struct ebb_error why = {0};
        if (nn_onnx_from_bytes(arena, name, bytes, length, NULL, config, &why) == EBB_OK)
            add_notes(&reading, NULL, config);
        else
            ebb_reading_error(&reading, NULL, NULL, "%s", why.message);
        return ebb_reading_end(&reading, err);
    }
    const struct nn_file *file = read_text(&reading, name, NULL, bytes, length);
    if (file)
        take(file, config);
    return ebb_reading_end(&reading, err);
}

const char *nn_config_hash(const struct nn_config *config)
{
    return config->model->hash;
}
