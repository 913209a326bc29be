/* file_eval.c - expressions of a model file: names, members, indices, calls of functions, modules and
 * blocks. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

#define MAX_DEPTH 700
#define MAX_CALLS 500000              /* of modules and functions in one build */
#define MAX_BYTES ((size_t)256 << 20) /* of lists and arguments */

/* ---- failing ---------------------------------------------------------------------------------- */

bool nn_eval_ok(const struct nn_eval *e)
{
    return tensor_status(e->b->session, NULL) == EBB_OK;
}

void nn_eval_mark(struct nn_eval *e)
{
    if (e->b->place.line || !e->at)
        return;
    e->b->place = (struct nn_place){e->file->path, e->at->line, e->at->column};
}

struct nn_value nn_eval_fail(struct nn_eval *e, const char *fmt, ...)
{
    char text[384];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (nn_eval_ok(e))
        nn_eval_mark(e);
    tensor_fail(e->b->session, EBB_EINPUT, "%s", text);
    return (struct nn_value){0};
}

const char *nn_value_noun(const struct nn_value *v)
{
    static const char *const nouns[] = {"None",     "true or false", "a whole number",
                                        "a number", "a text",        "a list",
                                        "a tensor", "a module",      "initial values"};
    return nouns[v->kind];
}

void *nn_eval_take(struct nn_eval *e, size_t count, size_t bytes)
{
    size_t more = (count ? count : 1) * bytes;
    if (more > MAX_BYTES - e->taken) {
        nn_eval_fail(e, "its lists take more than %zu MiB", MAX_BYTES >> 20);
        return NULL;
    }
    e->taken += more;
    void *p = ebb_arena_calloc(e->arena, count ? count : 1, bytes);
    if (!p)
        tensor_fail(e->b->session, EBB_ENOMEM, "out of memory");
    return p;
}

/* ---- names ------------------------------------------------------------------------------------ */

void nn_frame_set(struct nn_eval *e, struct nn_frame *f, const char *name, struct nn_value v)
{
    uint64_t at;
    size_t n = strlen(name);
    if (!ebb_strmap_get(&f->names, name, n, &at)) {
        if (f->count == f->room) {
            size_t room = f->room ? 2 * f->room : 16;
            struct nn_value *more = nn_eval_take(e, room, sizeof *more);
            if (!more)
                return;
            if (f->count)
                memcpy(more, f->values, f->count * sizeof *more);
            f->values = more;
            f->room = room;
        }
        at = f->count++;
        if (ebb_strmap_put(&f->names, name, n, at, NULL) != EBB_OK) {
            tensor_fail(e->b->session, EBB_ENOMEM, "out of memory");
            return;
        }
    }
    f->values[at] = v;
}

bool nn_eval_option(const struct nn_eval *e, const char *name, struct nn_value *v)
{
    for (size_t i = 0; i < e->file->option_count; i++) {
        const struct ebb_key *o = &e->file->options[i];
        const unsigned char *at = e->config->bytes + o->at;
        if (strcmp(o->path, name) != 0)
            continue;
        struct nn_ints list;
        int64_t n;
        double d;
        bool b;
        if (o->kind == EBB_KEY_INT) {
            memcpy(&n, at, sizeof n);
            *v = nn_whole(n);
        } else if (o->kind == EBB_KEY_DOUBLE) {
            memcpy(&d, at, sizeof d);
            *v = nn_real(d);
        } else if (o->kind == EBB_KEY_BOOL) {
            memcpy(&b, at, sizeof b);
            *v = nn_boolean(b);
        } else {
            memcpy(&list, at, sizeof list);
            *v = (struct nn_value){.kind = NN_VALUE_LIST, .count = (size_t)list.count};
            v->items = ebb_arena_calloc(e->arena, (size_t)list.count + 1, sizeof *v->items);
            for (int64_t k = 0; v->items && k < list.count; k++)
                v->items[k] = nn_whole(list.v[k]);
            v->count = v->items ? v->count : 0;
        }
        return true;
    }
    return false;
}

static struct nn_part *find_part(struct nn_part *of, const char *path)
{
    for (size_t i = 0; i < of->part_count; i++) {
        size_t n = strlen(of->parts[i].name);
        if (strncmp(path, of->parts[i].name, n) != 0 || (path[n] && path[n] != '.'))
            continue;
        struct nn_part *below = path[n] ? find_part(&of->parts[i], path + n + 1) : &of->parts[i];
        if (below)
            return below;
    }
    return NULL;
}

/* Names of items are those of the modules from the top: entered below the part of the caller. */
static int enter(struct nn_eval *e, const struct nn_part *part, const struct nn_part *from)
{
    if (part == from || !part || !part->up)
        return 0;
    int n = enter(e, part->up, from);
    nn_enter(e->b, part->name);
    return n + 1;
}

static void leave(struct nn_eval *e, int count)
{
    while (count-- > 0)
        nn_pop(e->b);
}

/* An item of a module, by its name below it. */
static struct nn_value item(struct nn_eval *e, struct nn_frame *f, const struct nn_part *part,
                            const char *name)
{
    char full[512];
    int n = enter(e, part, f->part);
    nn_full_name(e->b, name, full, sizeof full);
    leave(e, n);
    const struct nn_item *i = nn_item_find(e->b, full);
    if (!i)
        return nn_eval_fail(e, "there is no tensor '%s'", full);
    return nn_of_tensor(i->id);
}

/* Parameters and buffers are read, other modules called. */
static struct nn_value part_value(struct nn_eval *e, struct nn_frame *f, struct nn_part *part)
{
    return part->class && !part->class->calls
               ? item(e, f, part->up, part->name)
               : (struct nn_value){.kind = NN_VALUE_MODULE, .module = part};
}

static struct nn_value name_value(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x)
{
    struct nn_value v;
    uint64_t at;
    if (ebb_strmap_get(&f->names, x->text, strlen(x->text), &at))
        return f->values[at];
    struct nn_part *part = f->part ? find_part(f->part, x->text) : NULL;
    if (part)
        return part_value(e, f, part);
    for (size_t i = 0; f->block && i < f->block->head.count; i++)
        if (strcmp(f->block->head.names[i], x->text) == 0)
            return f->args[i];
    if (nn_eval_option(e, x->text, &v))
        return v;
    if (f->index && strcmp(x->text, "index") == 0)
        return nn_whole(*f->index);
    if (strcmp(x->text, "batch") == 0)
        return nn_whole(e->batch);
    if (nn_file_is_word(x->text))
        return (struct nn_value){.kind = NN_VALUE_TEXT, .text = x->text};
    return nn_eval_fail(e, "there is no '%s'", x->text);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* x @ w.T is the product that linear layers have. */
static bool is_linear(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x,
                      struct nn_value *result)
{
    const struct nn_expr *right = x->items[1];
    if (strcmp(x->text, "@") != 0 || right->kind != NN_EXPR_MEMBER || strcmp(right->text, "T") != 0)
        return false;
    struct nn_value a = nn_eval_expr(e, f, x->items[0]), w = nn_eval_expr(e, f, right->items[0]);
    e->at = x;
    if (a.kind != NN_VALUE_TENSOR || w.kind != NN_VALUE_TENSOR ||
        tensor_view_of(e->b->session, w.tensor)->rank != 2) {
        *result = nn_eval_fail(e, "x @ w.T needs a tensor and a matrix");
        return true;
    }
    *result = nn_of_tensor(nn_op(e->b, "linear", 2, (tensor_id[]){a.tensor, w.tensor}, NULL, NULL));
    return true;
}

static struct nn_value binary(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x)
{
    const char *op = x->text;
    struct nn_value result;
    if (is_linear(e, f, x, &result))
        return result;
    struct nn_value a = nn_eval_expr(e, f, x->items[0]);
    if (!nn_eval_ok(e))
        return a;
    if (strcmp(op, "and") == 0 || strcmp(op, "or") == 0)
        return nn_is_true(e, &a) == (*op == 'o') ? a : nn_eval_expr(e, f, x->items[1]);
    struct nn_value b = nn_eval_expr(e, f, x->items[1]);
    e->at = x;
    if (!nn_eval_ok(e))
        return b;
    return nn_operate(e, op, a, b);
}

static struct nn_value unary(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x)
{
    struct nn_value v = nn_eval_expr(e, f, x->items[0]);
    e->at = x;
    if (!nn_eval_ok(e))
        return v;
    return nn_operate_one(e, x->text, v);
}

/* ---- indices ---------------------------------------------------------------------------------- */

static int64_t bound(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x,
                     int64_t fallback)
{
    if (!x)
        return fallback;
    struct nn_value v = nn_eval_expr(e, f, x);
    e->at = x;
    if (nn_eval_ok(e) &&
        (v.kind != NN_VALUE_INT || v.integer > NN_FILE_SIZE || v.integer < -NN_FILE_SIZE))
        nn_eval_fail(e, "an index is %s, allowed: a whole number", nn_value_noun(&v));
    return v.integer;
}

static struct nn_value tensor_index(struct nn_eval *e, struct nn_frame *f, tensor_id t,
                                    const struct nn_expr *x)
{
    struct tensor_view view = *tensor_view_of(e->b->session, t);
    int64_t ranges[4 * TENSOR_RANK], dims[TENSOR_RANK];
    int count = 0, rank = 0;
    bool drops = false, is_dropped[TENSOR_RANK] = {false};
    if (x->count - 1 > view.rank)
        return nn_eval_fail(e, "%zu indices of a tensor with %d dimensions", x->count - 1,
                            view.rank);
    for (int d = 0; d < (int)x->count - 1; d++) {
        const struct nn_expr *i = x->items[d + 1];
        int64_t size = view.dims[d], *r = ranges + 4 * (size_t)count;
        if (i->kind == NN_EXPR_SLICE && !i->items[0] && !i->items[1] && !i->items[2])
            continue;
        bool is_slice = i->kind == NN_EXPR_SLICE;
        int64_t begin = bound(e, f, is_slice ? i->items[0] : i, 0);
        if (!is_slice && nn_eval_ok(e) && (begin < -size || begin >= size))
            return nn_eval_fail(e, "index %" PRId64 " of a dimension of %" PRId64, begin, size);
        begin += !is_slice && begin < 0 ? size : 0;
        r[0] = d;
        r[1] = begin;
        r[2] = is_slice ? bound(e, f, i->items[1], size) : begin + 1;
        r[3] = is_slice ? bound(e, f, i->items[2], 1) : 1;
        is_dropped[d] = !is_slice;
        drops |= !is_slice;
        count++;
    }
    if (!nn_eval_ok(e))
        return (struct nn_value){0};
    struct ops_value value = {"ranges", .ints = ranges, .count = 4 * count};
    e->at = x;
    tensor_id y = count ? nn_call(e->b, "slice", 1, &t, NULL, 1, &value) : t;
    if (!drops || !nn_eval_ok(e))
        return nn_of_tensor(y);
    view = *tensor_view_of(e->b->session, y);
    for (int d = 0; d < view.rank; d++)
        if (!is_dropped[d])
            dims[rank++] = view.dims[d];
    return nn_of_tensor(nn_reshape(e->b, y, rank, dims));
}

static struct nn_value list_index(struct nn_eval *e, struct nn_frame *f, const struct nn_value *v,
                                  const struct nn_expr *x)
{
    int64_t n = v->kind == NN_VALUE_MODULE ? (int64_t)v->module->part_count : (int64_t)v->count;
    const struct nn_expr *i = x->items[1];
    if (x->count != 2 || (v->kind == NN_VALUE_MODULE && i->kind == NN_EXPR_SLICE))
        return nn_eval_fail(e, "%s takes one index", nn_value_noun(v));
    if (i->kind != NN_EXPR_SLICE) {
        int64_t at = bound(e, f, i, 0);
        e->at = x;
        if (nn_eval_ok(e) && (at < -n || at >= n))
            return nn_eval_fail(e, "index %" PRId64 " of %" PRId64 " values", at, n);
        if (!nn_eval_ok(e))
            return (struct nn_value){0};
        at += at < 0 ? n : 0;
        return v->kind == NN_VALUE_MODULE
                   ? (struct nn_value){.kind = NN_VALUE_MODULE, .module = &v->module->parts[at]}
                   : v->items[at];
    }
    int64_t from = bound(e, f, i->items[0], 0), to = bound(e, f, i->items[1], n);
    int64_t step = bound(e, f, i->items[2], 1);
    e->at = x;
    if (nn_eval_ok(e) && step < 1)
        nn_eval_fail(e, "a list has no step of %" PRId64 ", allowed: at least 1", step);
    if (!nn_eval_ok(e))
        return (struct nn_value){0};
    from += from < 0 ? n : 0;
    to += to < 0 ? n : 0;
    from = from < 0 ? 0 : from > n ? n : from;
    to = to < from ? from : to > n ? n : to;
    struct nn_value part = {.kind = NN_VALUE_LIST,
                            .items = v->items + from,
                            .count = (size_t)((to - from + step - 1) / step)};
    if (step == 1)
        return part;
    part.items = nn_eval_take(e, part.count, sizeof *part.items);
    for (size_t k = 0; part.items && k < part.count; k++)
        part.items[k] = v->items[from + (int64_t)k * step];
    part.count = part.items ? part.count : 0;
    return part;
}

static struct nn_value index_value(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x)
{
    struct nn_value v = nn_eval_expr(e, f, x->items[0]);
    e->at = x;
    if (!nn_eval_ok(e))
        return v;
    if (v.kind == NN_VALUE_TENSOR)
        return tensor_index(e, f, v.tensor, x);
    if (v.kind == NN_VALUE_LIST || (v.kind == NN_VALUE_MODULE && !v.module->class))
        return list_index(e, f, &v, x);
    return nn_eval_fail(e, "%s has no indices", nn_value_noun(&v));
}

static struct nn_value shape_of(struct nn_eval *e, tensor_id t)
{
    const struct tensor_view *view = tensor_view_of(e->b->session, t);
    struct nn_value v = {.kind = NN_VALUE_LIST, .count = view->rank};
    v.items = nn_eval_take(e, v.count, sizeof *v.items);
    for (size_t d = 0; v.items && d < v.count; d++)
        v.items[d] = nn_whole(view->dims[d]);
    v.count = v.items ? v.count : 0;
    return v;
}

static struct nn_value member(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x)
{
    char path[512];
    struct nn_part *part =
        f->part && nn_expr_path(x, path, sizeof path) ? find_part(f->part, path) : NULL;
    if (part)
        return part_value(e, f, part);
    struct nn_value v = nn_eval_expr(e, f, x->items[0]);
    e->at = x;
    if (!nn_eval_ok(e))
        return v;
    if (v.kind == NN_VALUE_MODULE) {
        part = find_part(v.module, x->text);
        return part ? part_value(e, f, part) : item(e, f, v.module, x->text);
    }
    if (v.kind != NN_VALUE_TENSOR)
        return nn_eval_fail(e, "%s has no '%s'", nn_value_noun(&v), x->text);
    int rank = tensor_view_of(e->b->session, v.tensor)->rank;
    if (strcmp(x->text, "shape") == 0)
        return shape_of(e, v.tensor);
    if (strcmp(x->text, "ndim") == 0)
        return nn_whole(rank);
    if (rank != 2)
        return nn_eval_fail(e, ".T of a tensor with %d dimensions, allowed: 2 (or transpose)",
                            rank);
    return nn_of_tensor(nn_permute(e->b, v.tensor, 2, (int64_t[]){1, 0}));
}

/* ---- calls ------------------------------------------------------------------------------------ */

static struct nn_value call_part(struct nn_eval *e, struct nn_part *part,
                                 const struct nn_value *args, const char *const *names,
                                 size_t count, int depth);

struct nn_value nn_frame_run(struct nn_eval *e, struct nn_frame *f)
{
    struct nn_value v = {0};
    for (size_t i = 0; i < f->block->line_count && nn_eval_ok(e); i++) {
        const struct nn_line *line = &f->block->lines[i];
        v = nn_eval_expr(e, f, line->value);
        e->at = line->value;
        if (!nn_eval_ok(e))
            break;
        if (line->target_count == 1)
            nn_frame_set(e, f, line->targets[0], v);
        if (line->target_count < 2)
            continue;
        if (v.kind != NN_VALUE_LIST || v.count != line->target_count) {
            nn_eval_fail(e, "%zu names for %s%s", line->target_count, nn_value_noun(&v),
                         v.kind == NN_VALUE_LIST ? " of another length" : "");
            break;
        }
        for (size_t k = 0; k < v.count; k++)
            nn_frame_set(e, f, line->targets[k], v.items[k]);
    }
    return v;
}

static struct nn_value call_block(struct nn_eval *e, struct nn_part *part,
                                  const struct nn_value *args, const char *const *names,
                                  size_t count)
{
    const struct nn_block *block = part->block;
    struct ebb_str parameters = {0};
    struct nn_frame f = {.block = block, .part = part, .args = part->args};
    for (size_t i = 0; i < block->input_count; i++)
        ebb_str_printf(&parameters, "%s%s", i ? ", " : "", block->inputs[i]);
    const struct nn_value *in = nn_bind(e, part->name, ebb_str_c(&parameters), args, names, count);
    ebb_str_fini(&parameters);
    struct nn_value v = {0};
    ebb_strmap_init(&f.names);
    for (size_t i = 0; in && i < block->input_count; i++)
        nn_frame_set(e, &f, block->inputs[i], in[i]);
    if (in)
        v = nn_frame_run(e, &f);
    ebb_strmap_fini(&f.names);
    return v;
}

/* One after the other; what one gives the next takes, further values go to all. */
static struct nn_value call_container(struct nn_eval *e, struct nn_part *part,
                                      const struct nn_value *args, const char *const *names,
                                      size_t count, int depth)
{
    struct nn_value *in = nn_eval_take(e, count, sizeof *in);
    if (!in || count == 0)
        return nn_eval_fail(e, "%s takes at least one value", part->name);
    memcpy(in, args, count * sizeof *in);
    for (size_t i = 0; i < part->part_count && nn_eval_ok(e); i++) {
        nn_enter(e->b, part->parts[i].name);
        in[0] = call_part(e, &part->parts[i], in, names, count, depth + 1);
        nn_pop(e->b);
    }
    return in[0];
}

/* A module is known where it is declared: as a value it would be called under another name. */
static bool has_module(const struct nn_value *v)
{
    bool any = v->kind == NN_VALUE_MODULE;
    for (size_t i = 0; v->kind == NN_VALUE_LIST && i < v->count && !any; i++)
        any = has_module(&v->items[i]);
    return any;
}

/* The prefix is that of the part. */
static struct nn_value call_part(struct nn_eval *e, struct nn_part *part,
                                 const struct nn_value *args, const char *const *names,
                                 size_t count, int depth)
{
    const struct nn_expr *at = e->at;
    struct nn_value v = {0};
    if (++e->calls > MAX_CALLS || depth > NN_FILE_CALLS)
        return nn_eval_fail(e, "more than %d calls, or blocks nested deeper than %d", MAX_CALLS,
                            NN_FILE_CALLS);
    for (size_t i = 0; i < count; i++)
        if (has_module(&args[i]))
            return nn_eval_fail(e, "%s is given a module, allowed: what it makes of a value",
                                part->name);
    if (part->class && !part->class->calls) {
        return nn_eval_fail(e, "'%s' is read, not called", part->name);
    } else if (part->class) {
        const char *name = part->class->signature.name;
        const struct nn_value *in = nn_bind(e, part->name, part->class->calls, args, names, count);
        struct nn_call made = {e, name, part->args, part->arg_count};
        struct nn_call call = {e, part->name, in, nn_signature_count(part->class->calls)};
        if (in)
            v = part->class->run(&made, &call);
    } else if (part->block) {
        v = call_block(e, part, args, names, count);
    } else {
        v = call_container(e, part, args, names, count, depth);
    }
    if (nn_eval_ok(e))
        e->at = at;
    else
        nn_eval_mark(e);
    return nn_eval_ok(e) && has_module(&v)
               ? nn_eval_fail(e, "%s gives a module, allowed: values", part->name)
               : v;
}

struct nn_value nn_function_call(struct nn_eval *e, const char *name, const struct nn_value *args,
                                 const char *const *names, size_t count)
{
    const struct nn_function *function = nn_function_find(name);
    const struct ops_def *def = function ? NULL : ops_find(name);
    if (++e->calls > MAX_CALLS)
        return nn_eval_fail(e, "more than %d calls", MAX_CALLS);
    if (function) {
        const char *parameters = function->signature.parameters;
        const struct nn_value *in = nn_bind(e, name, parameters, args, names, count);
        struct nn_call call = {e, function->signature.name, in, nn_signature_count(parameters)};
        return in ? function->run(&call) : (struct nn_value){0};
    }
    if (!def || ops_is_internal(def))
        return nn_eval_fail(e, "no function is called '%s'", name);
    return nn_function_op(e, def, args, names, count);
}

static struct nn_value call(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x)
{
    const struct nn_expr *callee = x->items[0];
    char path[512];
    struct nn_part *part =
        f->part && nn_expr_path(callee, path, sizeof path) ? find_part(f->part, path) : NULL;
    const char *name = NULL;
    struct nn_value args[NN_FILE_NAMES + 2];
    const char *names[NN_FILE_NAMES + 2];
    size_t count = 0;
    if (!part && callee->kind == NN_EXPR_NAME) {
        name = callee->text;
    } else if (!part) {
        struct nn_value of =
            nn_eval_expr(e, f, callee->kind == NN_EXPR_MEMBER ? callee->items[0] : callee);
        if (!nn_eval_ok(e))
            return of;
        struct nn_part *below = of.kind == NN_VALUE_MODULE && callee->kind == NN_EXPR_MEMBER
                                    ? find_part(of.module, callee->text)
                                    : NULL;
        if (below) {
            part = below;
        } else if (callee->kind == NN_EXPR_MEMBER) {
            name = callee->text;
            names[count] = NULL;
            args[count++] = of;
        } else if (of.kind == NN_VALUE_MODULE) {
            part = of.module;
        } else {
            e->at = callee;
            return nn_eval_fail(e, "%s is not called", nn_value_noun(&of));
        }
    }
    for (size_t i = 1; i < x->count; i++) {
        names[count] = x->names[i];
        args[count++] = nn_eval_expr(e, f, x->items[i]);
        if (!nn_eval_ok(e))
            return (struct nn_value){0};
    }
    e->at = x;
    struct nn_value v;
    if (part) {
        int n = enter(e, part, f->part);
        v = call_part(e, part, args, names, count, n);
        leave(e, n);
    } else {
        v = nn_function_call(e, name, args, names, count);
    }
    return v;
}

static struct nn_value eval_kind(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x)
{
    struct nn_value v = {0};
    switch (x->kind) {
    case NN_EXPR_NONE:
        return v;
    case NN_EXPR_BOOL:
        return nn_boolean(x->integer != 0);
    case NN_EXPR_INT:
        return nn_whole(x->integer);
    case NN_EXPR_FLOAT:
        return nn_real(x->number);
    case NN_EXPR_TEXT:
        return (struct nn_value){.kind = NN_VALUE_TEXT, .text = x->text};
    case NN_EXPR_NAME:
        return name_value(e, f, x);
    case NN_EXPR_LIST:
        v = (struct nn_value){.kind = NN_VALUE_LIST, .count = x->count};
        v.items = nn_eval_take(e, v.count, sizeof *v.items);
        for (size_t i = 0; v.items && i < v.count; i++)
            v.items[i] = nn_eval_expr(e, f, x->items[i]);
        v.count = v.items ? v.count : 0;
        return v;
    case NN_EXPR_CALL:
        return call(e, f, x);
    case NN_EXPR_MEMBER:
        return member(e, f, x);
    case NN_EXPR_INDEX:
        return index_value(e, f, x);
    case NN_EXPR_SLICE:
        return nn_eval_fail(e, "a range stands inside [] only");
    case NN_EXPR_UNARY:
        return unary(e, f, x);
    case NN_EXPR_BINARY:
        return binary(e, f, x);
    case NN_EXPR_CHOICE:
        v = nn_eval_expr(e, f, x->items[0]);
        return nn_eval_ok(e) ? nn_eval_expr(e, f, x->items[nn_is_true(e, &v) ? 1 : 2]) : v;
    }
    return v;
}

/* The innermost expression that fails is the place that is told. */
struct nn_value nn_eval_expr(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x)
{
    e->at = x;
    if (!nn_eval_ok(e))
        return (struct nn_value){0};
    if (++e->depth > MAX_DEPTH) /* of blocks in blocks, too */
        nn_eval_fail(e, "expressions and calls are nested deeper than %d", MAX_DEPTH);
    struct nn_value v = nn_eval_ok(e) ? eval_kind(e, f, x) : (struct nn_value){0};
    e->depth--;
    e->at = x;
    if (!nn_eval_ok(e))
        nn_eval_mark(e);
    return v;
}
