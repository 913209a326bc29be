/* onnx.c - folders of ONNX test cases: model.onnx beside test_data_set_N/{input,output}_M.pb, as the
 * format's own tests lie. Every model is computed by the plain evaluator, which folds constants, and,
 * where nn can build it, by the engine; every result that is there must agree. A model with an op, a
 * version or a type that is not known is refused by that name: it is counted as skipped. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/names.h"
#include "dev/golden.h"
#include "nn/nn.h"
#include "onnx/onnx.h"

#define ROOM (UINT64_C(1) << 30) /* bytes that one model may take */
#define STEPS (UINT64_C(1) << 40)
#define PORTS 64

struct onnx_case {
    struct dev_judge *j;
    struct ebb_arena arena;
    const char *folder;
    const struct onnx_model *model;
    struct onnx_value in[PORTS], want[PORTS];
    size_t in_count, want_count;
    size_t *engine; /* cases that the engine computed, too */
};

/* ---- data ------------------------------------------------------------------------------------- */

static void close_view(void *view)
{
    ebb_file_view_close(view);
}

/* "DIR/input_0.pb"; *is_there is false where the file is missing. */
static enum ebb_status read_data(struct onnx_case *c, struct onnx_eval *e, const char *folder,
                                 const char *kind, size_t i, struct onnx_value *v, bool *is_there,
                                 struct ebb_error *err)
{
    const struct onnx_graph *g = &c->model->graph;
    bool is_input = *kind == 'i';
    const struct onnx_port *port = i < (is_input ? g->input_count : g->output_count)
                                       ? &(is_input ? g->inputs : g->outputs)[i]
                                       : NULL;
    struct stat st;
    struct onnx_tensor t;
    struct ebb_file_view *view = ebb_arena_alloc(&c->arena, sizeof *view);
    const char *path = ebb_arena_printf(&c->arena, "%s/%s_%zu.pb", folder, kind, i);
    if (!view || !path)
        return ebb_no_memory(err, 0);
    *is_there = stat(path, &st) == 0;
    if (!*is_there)
        return EBB_OK;
    EBB_TRY(ebb_file_view_open(view, path, SIZE_MAX, err));
    if (!ebb_arena_defer(&c->arena, close_view, view)) {
        ebb_file_view_close(view);
        return ebb_no_memory(err, 0);
    }
    EBB_TRY(onnx_read_tensor(&c->arena, path, view->data, view->length, &t, err));
    if (port && port->type == ONNX_BFLOAT16 && t.type == ONNX_UINT16) /* numpy knows no other */
        t.type = ONNX_BFLOAT16;
    return onnx_value_from(e, &t, v, err);
}

static enum ebb_status read_set(struct onnx_case *c, struct onnx_eval *e, const char *folder,
                                struct ebb_error *err)
{
    bool is_there = true;
    for (c->in_count = 0; c->in_count < PORTS; c->in_count++) {
        EBB_TRY(read_data(c, e, folder, "input", c->in_count, &c->in[c->in_count], &is_there, err));
        if (!is_there)
            break;
    }
    for (c->want_count = 0; c->want_count < PORTS; c->want_count++) {
        EBB_TRY(read_data(c, e, folder, "output", c->want_count, &c->want[c->want_count], &is_there,
                          err));
        if (!is_there)
            break;
    }
    return c->want_count ? EBB_OK : ebb_fail(err, EBB_EINPUT, "%s: no output_0.pb", folder);
}

/* ---- comparing -------------------------------------------------------------------------------- */

/* The format's own tests allow 1e-3. Their windows of signals are made with 3.1415 for pi and need it;
 * so does a logarithm of probabilities near 10000, where float32 has steps of 1e-3. */
static bool is_close(const struct onnx_case *c, double a, double b, double most, int type)
{
    bool is_loose = strstr(c->j->name, "window") || strstr(c->j->name, "logsoftmax_large_number");
    double relative = type == ONNX_BFLOAT16 ? 1e-2 : type == ONNX_FLOAT16 || is_loose ? 1e-3 : 2e-5;
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return isinf(a) && isinf(b) && signbit(a) == signbit(b);
    return fabs(a - b) <= relative * fabs(b) + relative / 10 * most + 1e-7;
}

static bool same_shape(const struct onnx_value *a, const struct onnx_value *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static void compare(struct onnx_case *c, const char *way, size_t i, const struct onnx_value *have)
{
    const struct onnx_value *want = &c->want[i];
    double most = 0;
    if (have->type != want->type || !same_shape(have, want)) {
        dev_fail(c->j,
                 "%s: output %zu is %s of %d dimensions and %" PRId64
                 " elements, expected %s of %d and %" PRId64,
                 way, i, onnx_type_name(have->type), have->rank, have->count,
                 onnx_type_name(want->type), want->rank, want->count);
        return;
    }
    for (int64_t k = 0; want->number && k < want->count; k++)
        if (isfinite(want->number[k]))
            most = fmax(most, fabs(want->number[k]));
    for (int64_t k = 0; k < want->count; k++) {
        bool is_same =
            want->number ? is_close(c, have->number[k], want->number[k], most, want->type)
            : want->integer
                ? have->integer[k] == want->integer[k]
                : have->texts[k].length == want->texts[k].length &&
                      memcmp(have->texts[k].text, want->texts[k].text, have->texts[k].length) == 0;
        if (is_same)
            continue;
        if (want->number)
            dev_fail(c->j, "%s: output %zu [%" PRId64 "] is %.9g, expected %.9g", way, i, k,
                     have->number[k], want->number[k]);
        else
            dev_fail(c->j, "%s: output %zu [%" PRId64 "] is another one", way, i, k);
        return;
    }
}

/* ---- the engine ------------------------------------------------------------------------------- */

struct engine {
    struct dev_run run;
    struct nn_builder b;
    struct nn_config config;
    struct nn_output outputs[NN_PORTS];
    tensor_id in[NN_PORTS];
    size_t output_count;
};

static bool add_leaves(struct onnx_case *c, struct engine *e)
{
    const struct onnx_graph *g = &c->model->graph;
    for (size_t i = 0; i < g->input_count; i++) {
        const struct onnx_value *v = &c->in[i];
        bool is_float = v->number != NULL;
        if (v->texts || v->type == ONNX_BOOL || v->rank > TENSOR_RANK || v->count < 1 ||
            v->type == ONNX_DOUBLE) /* the engine has float32 */
            return false;
        for (int64_t k = 0; v->integer && k < v->count; k++)
            if (v->integer[k] < 0) /* and no places counted from the end, where data gives them */
                return false;
        e->in[i] = tensor_leaf(e->run.s, is_float ? TENSOR_F32 : TENSOR_I64, v->rank, v->dims,
                               g->inputs[i].name);
    }
    return true;
}

/* False: nn cannot build this model, which is no failure. */
static bool build_engine(struct onnx_case *c, struct engine *e, const char *path)
{
    struct ebb_report report;
    struct ebb_error err = {0};
    if (c->in_count < c->model->graph.input_count || c->model->graph.input_count > NN_PORTS ||
        nn_config_open(&c->arena, path, &e->config, &report, &err) != EBB_OK ||
        nn_config_set(&e->config, "loss", "none", &err) != EBB_OK || !add_leaves(c, e))
        return false;
    for (size_t i = 0; i < e->config.model->option_count; i++) { /* sizes are those of the data */
        const char *name = e->config.model->options[i].path;
        if (e->config.model->options[i].kind == EBB_KEY_INT)
            nn_config_adapt(&e->config, name, 1);
    }
    nn_builder_init(&e->b, e->run.s, &(struct nn_mode){.is_training = false});
    bool is_built =
        nn_build(&e->b, &e->config, e->in, e->outputs, &e->output_count, &err) == EBB_OK;
    if (!is_built && c->j->request->is_verbose)
        fprintf(c->j->request->out, "     %s: not by the engine: %s\n", c->j->name, err.message);
    return is_built;
}

static void fill_leaf(struct engine *e, tensor_id leaf, const struct onnx_value *v)
{
    char *to = dev_bytes(&e->run, leaf);
    for (int64_t i = 0; to && i < v->count; i++)
        if (v->number)
            ((float *)(void *)to)[i] = (float)v->number[i];
        else
            ((int64_t *)(void *)to)[i] = v->integer[i];
}

static enum ebb_status fill_items(struct engine *e, struct ebb_error *err)
{
    struct nn_initializer *init;
    EBB_TRY(nn_initializer_create(&init, &e->b, NN_PHILOX, 1, err));
    for (size_t i = 0; i < nn_item_count(&e->b); i++) {
        void *to = dev_bytes(&e->run, nn_item_at(&e->b, i)->leaf);
        if (to)
            nn_initialize(init, i, to);
    }
    nn_initializer_destroy(init);
    return EBB_OK;
}

/* As a value of the type that is wanted. */
static void compare_engine(struct onnx_case *c, struct engine *e, size_t i, const char *name)
{
    struct tensor_view view;
    struct onnx_value have;
    const void *data = dev_read(&e->run, e->outputs[i].id, &view);
    size_t k = 0;
    while (k < c->model->graph.output_count && strcmp(c->model->graph.outputs[k].name, name) != 0)
        k++;
    if (k >= c->want_count || !data)
        return;
    have = (struct onnx_value){
        .type = c->want[k].type, .rank = view.rank, .count = tensor_count(&view)};
    memcpy(have.dims, view.dims, (size_t)view.rank * sizeof *have.dims);
    double *numbers = ebb_arena_calloc(&c->arena, (size_t)have.count + 1, sizeof *numbers);
    bool is_float = view.dtype == TENSOR_F32;
    if (!numbers || (is_float && c->want[k].type == ONNX_BOOL) || is_float != !!c->want[k].number)
        return;
    for (int64_t n = 0; n < have.count; n++)
        if (is_float)
            numbers[n] = (double)((const float *)data)[n];
    have.number = is_float ? numbers : NULL;
    have.integer = is_float ? NULL : (int64_t *)(uintptr_t)data;
    compare(c, "engine", k, &have);
}

static void run_engine(struct onnx_case *c, const char *path)
{
    struct engine e = {0};
    struct ebb_error err = {0};
    if (!dev_run_begin(&e.run, c->j))
        return;
    if (build_engine(c, &e, path)) {
        for (size_t i = 0; i < e.output_count; i++) {
            e.outputs[i].id = ops_settle(e.run.s, e.outputs[i].id);
            tensor_keep(e.run.s, e.outputs[i].id);
        }
        for (size_t i = 0; i < c->model->graph.input_count; i++)
            tensor_keep(e.run.s, e.in[i]);
        if (dev_run_finish(&e.run) && fill_items(&e, &err) == EBB_OK) {
            for (size_t i = 0; i < c->model->graph.input_count; i++)
                fill_leaf(&e, e.in[i], &c->in[i]);
            if (dev_run_go(&e.run)) {
                for (size_t i = 0; i < e.output_count; i++)
                    compare_engine(c, &e, i, e.outputs[i].name);
                ++*c->engine;
            }
        }
    }
    nn_builder_fini(&e.b);
    dev_run_end(&e.run);
}

/* ---- one case --------------------------------------------------------------------------------- */

static enum ebb_status evaluate(struct onnx_case *c, struct onnx_eval *e, struct ebb_error *err)
{
    const struct onnx_graph *g = &c->model->graph;
    struct onnx_value *values = ebb_arena_calloc(&c->arena, g->value_count + 1, sizeof *values);
    if (!values)
        return ebb_no_memory(err, g->value_count * sizeof *values);
    for (size_t i = 0; i < g->input_count && i < c->in_count; i++)
        values[g->inputs[i].value] = c->in[i];
    EBB_TRY(onnx_eval_graph(e, g, values, err));
    for (size_t i = 0; i < g->output_count && i < c->want_count; i++)
        compare(c, "evaluator", i, &values[g->outputs[i].value]);
    return EBB_OK;
}

static enum ebb_status run_set(struct onnx_case *c, const char *path, const char *set,
                               struct ebb_error *err)
{
    struct onnx_eval e = {
        .arena = &c->arena, .opset = c->model->opset, .room = ROOM, .steps = STEPS};
    const struct onnx_graph *g = &c->model->graph;
    const char *folder = ebb_arena_printf(&c->arena, "%s/%s", c->folder, set);
    if (!folder)
        return ebb_no_memory(err, 0);
    for (size_t i = 0; i < g->input_count + g->output_count; i++) {
        const struct onnx_port *p =
            i < g->input_count ? &g->inputs[i] : &g->outputs[i - g->input_count];
        if (!p->is_tensor)
            return ebb_fail(err, EBB_EUNSUPPORTED, "'%s' is no tensor", p->name);
    }
    for (size_t i = 0; i < g->node_count; i++)
        EBB_TRY(onnx_op_check(&g->nodes[i], c->model->opset, err));
    EBB_TRY(read_set(c, &e, folder, err));
    EBB_TRY(evaluate(c, &e, err));
    run_engine(c, path);
    return EBB_OK;
}

static bool is_set(const void *context, DIR *folder, const struct dirent *entry)
{
    (void)context, (void)folder;
    return strncmp(entry->d_name, "test_data_set_", 14) == 0;
}

static void run_case(struct dev_judge *j, const char *folder, size_t *engine)
{
    struct onnx_case c = {.j = j, .folder = folder, .engine = engine};
    struct ebb_names sets = {0};
    struct ebb_error err = {0};
    DIR *dir = opendir(folder);
    enum ebb_status status =
        dir ? ebb_names_read(&sets, dir, is_set, NULL, &err) : ebb_fail(&err, EBB_EIO, "gone");
    const char *path = ebb_arena_printf(&c.arena, "%s/model.onnx", folder);
    dev_begin(j, "%s", folder + strlen(j->request->dir) + 1);
    if (!path)
        status = ebb_no_memory(&err, 0);
    EBB_THEN(status, onnx_open(&c.arena, path, &c.model, &err));
    if (status == EBB_OK && !sets.count)
        status = ebb_fail(&err, EBB_EINPUT, "no test_data_set_0");
    for (size_t i = 0; i < sets.count; i++)
        EBB_THEN(status, run_set(&c, path, sets.items[i], &err));
    if (status == EBB_EUNSUPPORTED) {
        j->is_skipped = true;
        fprintf(j->request->out, "refused %s: %s\n", j->name, err.message);
    } else if (status != EBB_OK) {
        dev_fail(j, "%s", err.message);
    }
    dev_end(j);
    ebb_names_fini(&sets);
    ebb_arena_fini(&c.arena);
}

/* ---- folders ---------------------------------------------------------------------------------- */

static bool is_folder(const void *context, DIR *folder, const struct dirent *entry)
{
    struct stat st;
    (void)context;
    return fstatat(dirfd(folder), entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

/* Folders with a model, at most three below the first. */
static enum ebb_status walk(struct dev_judge *j, const char *folder, int depth, size_t *engine,
                            struct ebb_error *err)
{
    struct ebb_names names = {0};
    struct stat st;
    struct ebb_str path = {0};
    ebb_str_printf(&path, "%s/model.onnx", folder);
    bool is_case = stat(ebb_str_c(&path), &st) == 0;
    ebb_str_fini(&path);
    if (is_case && depth > 0) {
        run_case(j, folder, engine);
        return EBB_OK;
    }
    DIR *dir = opendir(folder);
    if (!dir)
        return ebb_fail(err, EBB_EIO, "%s: %s", folder, strerror(errno));
    enum ebb_status status = ebb_names_read(&names, dir, is_folder, NULL, err);
    for (size_t i = 0; status == EBB_OK && depth < 3 && i < names.count; i++) {
        char *below = NULL;
        ebb_str_printf(&path, "%s/%s", folder, names.items[i]);
        below = ebb_str_take(&path);
        status = below ? walk(j, below, depth + 1, engine, err) : ebb_no_memory(err, 0);
        ebb_free(below);
    }
    ebb_names_fini(&names);
    return status;
}

enum ebb_status dev_onnx(const struct dev_request *request, struct dev_counts *counts,
                         struct ebb_error *err)
{
    struct dev_judge j;
    size_t engine = 0;
    dev_judge_init(&j, request, "FAIL ");
    EBB_TRY(ops_backend_create(&j.backend, NULL, NULL, NULL, (int)request->threads, err));
    enum ebb_status status = walk(&j, request->dir, 0, &engine, err);
    fprintf(request->out, "%zu data sets were computed by the engine as well\n", engine);
    ops_backend_destroy(j.backend);
    return dev_judge_fini(&j, status, counts, err);
}
