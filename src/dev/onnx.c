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
#include "dev/judge.h"
#include "onnx/onnx.h"

#define ROOM (UINT64_C(1) << 30) /* bytes that one model may take */
#define PORTS 64

struct onnx_case {
    struct dev_judge *j;
    struct ebb_arena arena;
    const char *folder;
    const struct onnx_model *model;
    struct onnx_value in[PORTS], want[PORTS];
    size_t in_count, want_count;
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

/* The format's own tests allow 1e-3. Their windows of signals are made with 3.1415 for pi, and need
 * it. */
static bool is_close(const struct onnx_case *c, double a, double b, double most, int type)
{
    double relative = type == ONNX_BFLOAT16                                  ? 1e-2
                      : type == ONNX_FLOAT16 || strstr(c->j->name, "window") ? 1e-3
                                                                             : 2e-5;
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

static enum ebb_status run_set(struct onnx_case *c, const char *set, struct ebb_error *err)
{
    struct onnx_eval e = {.arena = &c->arena, .opset = c->model->opset, .room = ROOM};
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
    return evaluate(c, &e, err);
}

static bool is_set(const void *context, DIR *folder, const struct dirent *entry)
{
    (void)context, (void)folder;
    return strncmp(entry->d_name, "test_data_set_", 14) == 0;
}

static void run_case(struct dev_judge *j, const char *folder)
{
    struct onnx_case c = {.j = j, .folder = folder};
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
        EBB_THEN(status, run_set(&c, sets.items[i], &err));
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
static enum ebb_status walk(struct dev_judge *j, const char *folder, int depth,
                            struct ebb_error *err)
{
    struct ebb_names names = {0};
    struct stat st;
    struct ebb_str path = {0};
    ebb_str_printf(&path, "%s/model.onnx", folder);
    bool is_case = stat(ebb_str_c(&path), &st) == 0;
    ebb_str_fini(&path);
    if (is_case && depth > 0) {
        run_case(j, folder);
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
        status = below ? walk(j, below, depth + 1, err) : ebb_no_memory(err, 0);
        ebb_free(below);
    }
    ebb_names_fini(&names);
    return status;
}

enum ebb_status dev_onnx(const struct dev_request *request, struct dev_counts *counts,
                         struct ebb_error *err)
{
    struct dev_judge j;
    dev_judge_init(&j, request, "FAIL ");
    enum ebb_status status = walk(&j, request->dir, 0, err);
    return dev_judge_fini(&j, status, counts, err);
}
