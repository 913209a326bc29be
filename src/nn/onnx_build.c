/* onnx_build.c - the nodes of an ONNX graph, one after the other: folded on the host, or ops. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nn/onnx.h"

/* ---- failures --------------------------------------------------------------------------------- */

bool nn_onnx_ok(const struct nn_onnx_build *o)
{
    return tensor_status(o->b->session, NULL) == EBB_OK;
}

static const char *node_noun(const struct nn_onnx_build *o, char *buf, size_t size)
{
    const struct onnx_node *n = o->node;
    if (!n)
        snprintf(buf, size, "%s", o->file->onnx->path);
    else
        snprintf(buf, size, "%s: node %zu%s%s%s", o->file->onnx->path, (size_t)(n - o->g->nodes),
                 *n->name ? " (" : "", n->name, *n->name ? ")" : "");
    return buf;
}

static tensor_id say(struct nn_onnx_build *o, enum ebb_status status, const char *fmt, va_list args)
{
    char text[512], where[256];
    vsnprintf(text, sizeof text, fmt, args);
    return tensor_fail(o->b->session, status, "%s%s%s: %s", node_noun(o, where, sizeof where),
                       o->node ? ": " : "", o->node ? o->node->op : "", text);
}

tensor_id nn_onnx_fail(struct nn_onnx_build *o, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(o, EBB_EUNSUPPORTED, fmt, args);
    va_end(args);
    return TENSOR_NONE;
}

tensor_id nn_onnx_wrong(struct nn_onnx_build *o, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(o, EBB_EINPUT, fmt, args);
    va_end(args);
    return TENSOR_NONE;
}

tensor_id nn_onnx_pass(struct nn_onnx_build *o, enum ebb_status status, const struct ebb_error *err)
{
    char where[256]; /* the message names the op */
    return tensor_fail(o->b->session, status, "%s: %s", node_noun(o, where, sizeof where),
                       err->message);
}

/* ---- values ----------------------------------------------------------------------------------- */

bool nn_onnx_has(const struct nn_onnx_build *o, size_t i)
{
    return i < o->node->in_count && o->node->in[i] != ONNX_NONE;
}

const struct onnx_value *nn_onnx_host_of(struct nn_onnx_build *o, uint32_t value)
{
    struct nn_onnx_value *v = value == ONNX_NONE ? NULL : &o->values[value];
    struct ebb_error err;
    if (!v)
        return NULL;
    if (v->kind == NN_ONNX_WEIGHT && !v->host.type) {
        const struct onnx_tensor *t = &o->g->initializers[o->file->initializer[value] - 1];
        enum ebb_status status = onnx_value_from(&o->eval, t, &v->host, &err);
        if (status != EBB_OK) {
            nn_onnx_pass(o, status, &err);
            return NULL;
        }
    }
    return v->kind == NN_ONNX_HOST || v->kind == NN_ONNX_WEIGHT ? &v->host : NULL;
}

const struct onnx_value *nn_onnx_host(struct nn_onnx_build *o, size_t i)
{
    return nn_onnx_has(o, i) ? nn_onnx_host_of(o, o->node->in[i]) : NULL;
}

const struct onnx_value *nn_onnx_fixed(struct nn_onnx_build *o, uint32_t value)
{
    const struct nn_onnx_weight *w = nn_onnx_weight(o, value);
    return w && w->tensor ? NULL : nn_onnx_host_of(o, value);
}

bool nn_onnx_scalar(struct nn_onnx_build *o, uint32_t value, double *number)
{
    if (value == ONNX_NONE || o->values[value].kind != NN_ONNX_HOST)
        return false;
    const struct onnx_value *v = &o->values[value].host;
    if (v->count != 1 || (!v->number && !v->integer))
        return false;
    *number = v->number ? v->number[0] : (double)v->integer[0];
    return true;
}

static void fill_weight(const void *data, void *dst)
{
    if (!onnx_tensor_floats(data, dst))
        memset(dst, 0, (size_t)((const struct onnx_tensor *)data)->count * sizeof(float));
}

struct kept { /* numbers of a constant */
    int64_t count;
    const double *number;
    const int64_t *integer;
};

static void fill_floats(const void *data, void *dst)
{
    const struct kept *k = data;
    for (int64_t i = 0; i < k->count; i++)
        ((float *)dst)[i] = (float)(k->number ? k->number[i] : (double)k->integer[i]);
}

static void fill_integers(const void *data, void *dst)
{
    const struct kept *k = data;
    for (int64_t i = 0; i < k->count; i++)
        ((int64_t *)dst)[i] = k->integer[i];
}

static tensor_id take_weight(struct nn_onnx_build *o, size_t i)
{
    const struct nn_onnx_weight *w = &o->file->weights[i];
    const struct onnx_tensor *t = w->tensor;
    struct nn_init init = {.is_given = true, .kind = NN_GIVEN, .fill = fill_weight, .data = t};
    return nn_parameter(o->b, t->name, w->role, t->rank, t->dims, init);
}

const struct nn_onnx_weight *nn_onnx_weight(const struct nn_onnx_build *o, uint32_t value)
{
    if (value == ONNX_NONE || o->values[value].kind != NN_ONNX_WEIGHT)
        return NULL;
    return &o->file->weights[o->file->initializer[value] - 1];
}

#define CONSTANTS "constants."

bool nn_onnx_is_constant(const struct nn_item *item)
{
    return item->role == NN_BUFFER && strncmp(item->name, CONSTANTS, strlen(CONSTANTS)) == 0;
}

/* "constants.N" that no item of the file has. */
static void name_constant(struct nn_onnx_build *o, char *name, size_t size)
{
    do
        snprintf(name, size, CONSTANTS "%zu", o->constants++);
    while (nn_item_find(o->b, name));
}

/* Dimensions along which all elements are the same shrink to one. */
static void shrink(const struct onnx_value *v, int64_t *dims)
{
    for (int d = 0; d < v->rank; d++) {
        int64_t inner = 1, size = v->dims[d];
        bool is_same = size > 1;
        for (int k = d + 1; k < v->rank; k++)
            inner *= v->dims[k];
        for (int64_t i = 0; i < v->count && is_same; i++) {
            int64_t first = i - i / inner % size * inner;
            is_same = v->number ? memcmp(&v->number[i], &v->number[first], sizeof *v->number) == 0
                                : v->integer[i] == v->integer[first];
        }
        dims[d] = is_same ? 1 : size;
    }
}

/* The elements at the beginning of every dimension that shrank. */
static struct kept *keep(struct nn_onnx_build *o, const struct onnx_value *v, const int64_t *dims)
{
    struct kept *k = ebb_arena_calloc(&o->b->arena, 1, sizeof *k);
    int64_t count = 1, n = 0;
    for (int d = 0; d < v->rank; d++)
        count *= dims[d];
    double *number = k ? ebb_arena_calloc(&o->b->arena, (size_t)count + 1, sizeof *number) : NULL;
    int64_t *integer = (int64_t *)(void *)number; /* eight bytes each */
    if (!number) {
        tensor_fail(o->b->session, EBB_ENOMEM, "out of memory");
        return NULL;
    }
    for (int64_t i = 0; i < v->count; i++) {
        bool is_kept = true;
        int64_t rest = i;
        for (int d = v->rank - 1; d >= 0; rest /= v->dims[d], d--)
            is_kept &= dims[d] == v->dims[d] || rest % v->dims[d] == 0;
        if (!is_kept)
            continue;
        if (v->number)
            number[n++] = v->number[i];
        else
            integer[n++] = v->integer[i];
    }
    k->count = count;
    k->number = v->number ? number : NULL;
    k->integer = v->number ? NULL : integer;
    return k;
}

static tensor_id expand(struct nn_onnx_build *o, tensor_id x, int rank, const int64_t *dims)
{
    struct ops_value shape = {"shape", .ints = dims, .count = rank};
    struct tensor_view v = nn_onnx_view(o, x);
    bool is_same = v.rank == rank;
    for (int d = 0; is_same && d < rank; d++)
        is_same = v.dims[d] == dims[d];
    return is_same ? x : nn_call(o->b, "expand", 1, &x, NULL, 1, &shape);
}

tensor_id nn_onnx_constant(struct nn_onnx_build *o, const struct onnx_value *v)
{
    int64_t dims[TENSOR_RANK];
    bool is_integer = !v->number && v->type != ONNX_BOOL;
    char name[64];
    if (v->texts || v->rank > TENSOR_RANK || v->count < 1)
        return nn_onnx_fail(o, "a constant of type %s with %" PRId64 " elements",
                            onnx_type_name(v->type), v->count);
    shrink(v, dims);
    int64_t count = 1;
    for (int d = 0; d < v->rank; d++)
        count *= dims[d];
    if (count == 1 && !is_integer) {
        struct ops_value values[] = {
            {"shape", .ints = dims, .count = v->rank},
            {"value", .number = v->number ? v->number[0] : (double)v->integer[0]}};
        return expand(o, nn_call(o->b, "full", 0, NULL, NULL, 2, values), v->rank, v->dims);
    }
    struct kept *k = keep(o, v, dims);
    name_constant(o, name, sizeof name);
    if (!k)
        return TENSOR_NONE;
    struct nn_init init = {.is_given = true,
                           .kind = NN_GIVEN,
                           .fill = is_integer ? fill_integers : fill_floats,
                           .data = k};
    tensor_id x =
        nn_given_buffer(o->b, name, is_integer ? TENSOR_I64 : TENSOR_F32, v->rank, dims, init);
    return expand(o, x, v->rank, v->dims);
}

tensor_id nn_onnx_live_of(struct nn_onnx_build *o, uint32_t value)
{
    struct nn_onnx_value *v = value == ONNX_NONE ? NULL : &o->values[value];
    if (!v || !nn_onnx_ok(o))
        return TENSOR_NONE;
    if (v->id.v)
        return v->id;
    if (v->kind == NN_ONNX_BROKEN)
        return tensor_fail(o->b->session, v->status, "%s", v->why);
    if (v->kind == NN_ONNX_UNSET)
        return nn_onnx_wrong(o, "'%s' is not made", o->g->values[value]);
    if (v->kind == NN_ONNX_WEIGHT && o->file->weights[o->file->initializer[value] - 1].tensor)
        v->id = take_weight(o, o->file->initializer[value] - 1);
    else if (nn_onnx_host_of(o, value))
        v->id = nn_onnx_constant(o, &v->host);
    return v->id;
}

tensor_id nn_onnx_live(struct nn_onnx_build *o, size_t i)
{
    return nn_onnx_has(o, i) ? nn_onnx_live_of(o, o->node->in[i]) : TENSOR_NONE;
}

void nn_onnx_set(struct nn_onnx_build *o, size_t output, tensor_id id)
{
    const struct onnx_node *n = o->node;
    if (output >= n->out_count || n->out[output] == ONNX_NONE || !id.v)
        return;
    /* Who takes truth passes it on (Cast says more); Where passes on what it chooses from. */
    size_t from = strcmp(n->op, "Where") == 0 ? 1 : 0;
    bool is_truth = nn_onnx_has(o, from) && o->values[n->in[from]].is_truth;
    o->values[n->out[output]] =
        (struct nn_onnx_value){.kind = NN_ONNX_LIVE, .id = id, .is_truth = is_truth};
}

bool nn_onnx_ints(struct nn_onnx_build *o, size_t i, const char *name, const int64_t **v,
                  size_t *count)
{
    *count = 0;
    *v = name ? onnx_attr_ints(o->node, name, count) : NULL;
    if (*v || !nn_onnx_has(o, i))
        return true;
    const struct onnx_value *host = nn_onnx_host(o, i);
    if (!host) {
        nn_onnx_fail(o, "input %zu depends on data: sizes, axes and places must be known", i);
        return false;
    }
    *v = host->integer;
    *count = (size_t)host->count;
    return true;
}

const struct onnx_node *nn_onnx_made(const struct nn_onnx_build *o, uint32_t value, const char *op)
{
    uint32_t maker = value == ONNX_NONE ? 0 : o->file->maker[value];
    const struct onnx_node *n = maker ? &o->g->nodes[maker - 1] : NULL;
    return n && o->file->is_known[maker - 1] && strcmp(n->op, op) == 0 ? n : NULL;
}

struct tensor_view nn_onnx_view(const struct nn_onnx_build *o, tensor_id id)
{
    return *tensor_view_of(o->b->session, id);
}

tensor_id nn_onnx_op(struct nn_onnx_build *o, const char *op, size_t count, const tensor_id *in)
{
    return nn_call(o->b, op, count, in, NULL, 0, NULL);
}

tensor_id nn_onnx_reshape(struct nn_onnx_build *o, tensor_id x, int rank, const int64_t *dims)
{
    struct tensor_view v = nn_onnx_view(o, x);
    bool is_same = v.rank == rank;
    for (int d = 0; is_same && d < rank; d++)
        is_same = v.dims[d] == dims[d];
    return is_same ? x : nn_reshape(o->b, x, rank, dims);
}

tensor_id nn_onnx_swap_last(struct nn_onnx_build *o, tensor_id x)
{
    int64_t dims[TENSOR_RANK];
    int rank = nn_onnx_view(o, x).rank;
    for (int d = 0; d < rank; d++)
        dims[d] = d == rank - 1 ? rank - 2 : d == rank - 2 ? rank - 1 : d;
    return nn_permute(o->b, x, rank, dims);
}

/* ---- one node --------------------------------------------------------------------------------- */

enum ebb_status nn_onnx_eval_shape(struct nn_onnx_build *o, const struct tensor_view *x,
                                   const struct onnx_value *more, struct onnx_value *out,
                                   struct ebb_error *err)
{
    static double none;
    struct onnx_value in[2] = {
        {.type = ONNX_FLOAT, .rank = x->rank, .count = tensor_count(x), .number = &none}};
    uint64_t steps = o->eval.steps;
    memcpy(in[0].dims, x->dims, (size_t)x->rank * sizeof *x->dims);
    if (more)
        in[1] = *more;
    o->eval.steps = ONNX_STEPS; /* elements are not looked at */
    enum ebb_status status = onnx_eval_node(&o->eval, o->node, in, out, err);
    o->eval.steps = steps;
    return status;
}

/* Shape and Size of a tensor of the session are known. */
static bool say_shape(struct nn_onnx_build *o)
{
    const struct onnx_node *n = o->node;
    bool is_size = strcmp(n->op, "Size") == 0;
    struct ebb_error err;
    struct onnx_value out;
    if (!is_size && strcmp(n->op, "Shape") != 0)
        return false;
    tensor_id x = nn_onnx_live(o, 0);
    if (!nn_onnx_ok(o))
        return true;
    struct tensor_view view = nn_onnx_view(o, x);
    enum ebb_status status = nn_onnx_eval_shape(o, &view, NULL, &out, &err);
    if (status != EBB_OK) {
        nn_onnx_pass(o, status, &err);
        return true;
    }
    o->values[n->out[0]] = (struct nn_onnx_value){.kind = NN_ONNX_HOST, .host = out};
    return true;
}

/* All inputs are known on the host. */
static bool is_constant(const struct nn_onnx_build *o)
{
    for (size_t i = 0; i < o->node->in_count; i++) {
        uint32_t v = o->node->in[i];
        if (v == ONNX_NONE)
            continue;
        bool is_weight = o->values[v].kind == NN_ONNX_WEIGHT;
        if (o->values[v].kind != NN_ONNX_HOST &&
            !(is_weight && !o->file->weights[o->file->initializer[v] - 1].tensor))
            return false;
    }
    return true;
}

static bool fold(struct nn_onnx_build *o)
{
    const struct onnx_node *n = o->node;
    struct onnx_value in[ONNX_MANY], out[ONNX_MANY];
    struct ebb_error err;
    if (!is_constant(o))
        return false;
    for (size_t i = 0; i < n->in_count; i++) {
        const struct onnx_value *v = nn_onnx_host(o, i);
        in[i] = v ? *v : (struct onnx_value){0};
    }
    if (!nn_onnx_ok(o))
        return true;
    enum ebb_status status = onnx_eval_node(&o->eval, n, in, out, &err);
    if (status != EBB_OK) {
        nn_onnx_pass(o, status, &err);
        return true;
    }
    for (size_t i = 0; i < n->out_count; i++)
        if (n->out[i] != ONNX_NONE)
            o->values[n->out[i]] = (struct nn_onnx_value){.kind = NN_ONNX_HOST, .host = out[i]};
    return true;
}

/* X3: whoever reads it says so. */
static void break_node(struct nn_onnx_build *o, enum ebb_status status, const char *why)
{
    char where[256];
    const char *text =
        ebb_arena_printf(&o->arena, "%s: %s", node_noun(o, where, sizeof where), why);
    for (size_t i = 0; i < o->node->out_count; i++)
        if (o->node->out[i] != ONNX_NONE)
            o->values[o->node->out[i]] =
                (struct nn_onnx_value){.kind = NN_ONNX_BROKEN,
                                       .status = text ? status : EBB_ENOMEM,
                                       .why = text ? text : "out of memory"};
}

static bool reads_broken(struct nn_onnx_build *o)
{
    for (size_t i = 0; i < o->node->in_count; i++) {
        uint32_t v = o->node->in[i];
        if (v == ONNX_NONE || o->values[v].kind != NN_ONNX_BROKEN)
            continue;
        for (size_t k = 0; k < o->node->out_count; k++)
            if (o->node->out[k] != ONNX_NONE)
                o->values[o->node->out[k]] = o->values[v];
        return true;
    }
    return false;
}

/* As the ops know it: sizes in bits are left out, because the session has its own. */
static int type_of(const struct nn_onnx_build *o, uint32_t value)
{
    const struct nn_onnx_value *v = value == ONNX_NONE ? NULL : &o->values[value];
    int type = 0;
    if (v && v->kind == NN_ONNX_LIVE)
        type = v->is_truth ? ONNX_BOOL : nn_onnx_is_float(o, v->id) ? ONNX_FLOAT : ONNX_INT64;
    else if (v && v->kind == NN_ONNX_HOST)
        type = v->host.type;
    else if (v && v->kind == NN_ONNX_WEIGHT)
        type = o->g->initializers[o->file->initializer[value] - 1].type;
    bool is_other = type == ONNX_BOOL || type == ONNX_STRING || type == ONNX_COMPLEX64 ||
                    type == ONNX_COMPLEX128 || !onnx_type_bytes(type);
    return is_other ? type : onnx_type_is_float(type) ? ONNX_FLOAT : ONNX_INT64;
}

static enum ebb_status check_types(const struct nn_onnx_build *o, struct ebb_error *err)
{
    int types[ONNX_MANY];
    for (size_t i = 0; i < o->node->in_count; i++)
        types[i] = type_of(o, o->node->in[i]);
    return onnx_op_types(o->node, o->file->onnx->opset, types, err);
}

static void build_node(struct nn_onnx_build *o)
{
    struct ebb_error err;
    enum ebb_status status = onnx_op_check(o->node, o->file->onnx->opset, &err);
    if (status == EBB_OK && nn_onnx_match(o))
        return;
    if (reads_broken(o))
        return;
    if (status == EBB_OK && !is_constant(o)) /* constants are checked as they are */
        status = check_types(o, &err);
    if (status != EBB_OK) {
        break_node(o, status, err.message);
        return;
    }
    if (fold(o) || say_shape(o))
        return;
    const struct nn_onnx_row *row = nn_onnx_row(o->node->op);
    if (!row) {
        ebb_fail(&err, EBB_EUNSUPPORTED, "%s: there is no way to train through this op",
                 o->node->op);
        break_node(o, EBB_EUNSUPPORTED, err.message);
        return;
    }
    if (row->build) {
        row->build(o);
        return;
    }
    tensor_id x = nn_onnx_take(o, 0);
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0, nn_onnx_op(o, row->same, 1, &x));
}

/* ---- the graph -------------------------------------------------------------------------------- */

static bool take_values(struct nn_onnx_build *o, const tensor_id *in)
{
    const struct onnx_graph *g = o->g;
    struct ebb_error err;
    o->values = ebb_arena_calloc(&o->arena, g->value_count + 1, sizeof *o->values);
    o->is_made = ebb_arena_calloc(&o->arena, g->node_count + 1, sizeof *o->is_made);
    if (!o->values || !o->is_made) {
        tensor_fail(o->b->session, EBB_ENOMEM, "out of memory");
        return false;
    }
    for (size_t i = 0; i < g->initializer_count; i++) {
        struct nn_onnx_value *v = &o->values[g->initializer_values[i]];
        v->kind = NN_ONNX_WEIGHT;
        if (o->file->weights[i].tensor)
            take_weight(o, i); /* the order of the file */
        else if (onnx_type_is_float(g->initializers[i].type) && g->initializers[i].rank > 0)
            continue;
        else if (onnx_value_from(&o->eval, &g->initializers[i], &v->host, &err) == EBB_OK)
            v->kind = NN_ONNX_HOST;
    }
    for (size_t i = 0; i < g->input_count && in; i++)
        o->values[g->inputs[i].value] = (struct nn_onnx_value){.kind = NN_ONNX_LIVE, .id = in[i]};
    return nn_onnx_ok(o);
}

/* [n, t, vocabulary] as rows: what a language model is trained on. */
static tensor_id as_rows(struct nn_onnx_build *o, tensor_id x)
{
    struct tensor_view v = nn_onnx_view(o, x);
    if (v.rank != 3 || o->file->model.task != NN_LANGUAGE_MODEL)
        return x;
    return nn_onnx_reshape(o, x, 2, (int64_t[]){v.dims[0] * v.dims[1], v.dims[2]});
}

/* A softmax before a cross entropy is not wanted: its input is. */
static uint32_t before_softmax(struct nn_onnx_build *o, uint32_t value, const char *loss)
{
    const struct onnx_node *n = nn_onnx_made(o, value, "Softmax");
    return n && strcmp(loss, "cross_entropy") == 0 && o->values[n->in[0]].kind == NN_ONNX_LIVE
               ? n->in[0]
               : value;
}

static size_t add_output(struct nn_onnx_build *o, const struct onnx_port *p, const char *loss,
                         bool is_loss, struct nn_output *out)
{
    uint32_t value = loss ? before_softmax(o, p->value, loss) : p->value;
    tensor_id x = nn_onnx_live_of(o, value);
    if (!nn_onnx_ok(o))
        return 0;
    struct tensor_view v = nn_onnx_view(o, x);
    if (is_loss) {
        if (tensor_count(&v) != 1) {
            nn_onnx_fail(o, "output '%s' is the loss, but no single number", p->name);
            return 0;
        }
        *out = (struct nn_output){
            .name = p->name, .kind = NN_LOSS, .id = nn_onnx_reshape(o, nn_full(o->b, x), 0, NULL)};
        return 1;
    }
    bool has_classes =
        loss && (strcmp(loss, "cross_entropy") == 0 || strcmp(loss, "nll_loss") == 0 ||
                 strcmp(loss, "bce_with_logits_loss") == 0);
    if (has_classes)
        return nn_classes(o->b, out, p->name, as_rows(o, x), loss);
    x = nn_contiguous(o->b, v.dtype == TENSOR_I64 ? x : nn_full(o->b, x));
    *out = (struct nn_output){.name = p->name, .kind = NN_VALUES, .id = x, .loss = loss};
    if (loss)
        nn_port_set(&out->target, "targets", NN_FLOATS, false, v.rank, v.dims);
    return 1;
}

static size_t add_outputs(struct nn_onnx_build *o, struct nn_output *out)
{
    bool is_op;
    const char *loss = nn_onnx_loss(o->file, o->options, &is_op);
    size_t n = 0, first = (size_t)o->options->output;
    for (size_t k = 0; k < o->g->output_count && n < NN_PORTS && nn_onnx_ok(o); k++) {
        size_t i = k == 0 ? first : k <= first ? k - 1 : k; /* what is trained comes first */
        const struct onnx_port *p = &o->g->outputs[i];
        bool is_loss = loss && !is_op && strcmp(p->name, loss) == 0;
        if (k > 0 && !is_loss && o->values[p->value].kind == NN_ONNX_BROKEN)
            continue;
        n += add_output(o, p, is_op && k == 0 ? loss : NULL, is_loss, &out[n]);
    }
    return n;
}

size_t nn_onnx_build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                     struct nn_output *out)
{
    const struct nn_onnx_file *file = config->model->context;
    struct nn_onnx_build o = {
        .file = file, .g = &file->onnx->graph, .options = (const void *)config->bytes, .b = b};
    size_t n = 0;
    memset(&b->place, 0, sizeof b->place);
    ebb_arena_init(&o.arena);
    o.eval = (struct onnx_eval){.arena = &o.arena,
                                .opset = file->onnx->opset,
                                .room = NN_ONNX_FOLD,
                                .steps = NN_ONNX_STEPS};
    if (take_values(&o, in))
        for (size_t i = 0; i < o.g->node_count && nn_onnx_ok(&o); i++) {
            o.node = &o.g->nodes[i];
            if (file->is_live[i] && !o.is_made[i])
                build_node(&o);
        }
    o.node = NULL;
    if (nn_onnx_ok(&o))
        n = add_outputs(&o, out);
    ebb_arena_fini(&o.arena);
    return n;
}
