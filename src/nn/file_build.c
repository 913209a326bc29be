/* file_build.c - a model file is built: modules are constructed, in the order of their declaration,
 * then forward is evaluated; losses and metrics follow. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

/* ---- construction ----------------------------------------------------------------------------- */

static void construct(struct nn_eval *e, struct nn_frame *f, const struct nn_module *m,
                      struct nn_part *part, int depth);

static void construct_all(struct nn_eval *e, struct nn_frame *f, const struct nn_module *m,
                          size_t count, struct nn_part *part, int depth)
{
    part->parts = nn_eval_take(e, count, sizeof *part->parts);
    for (size_t i = 0; part->parts && i < count && nn_eval_ok(e); i++) {
        struct nn_part *p = &part->parts[part->part_count++];
        *p = (struct nn_part){.name = m[i].name, .up = part};
        nn_enter(e->b, p->name);
        construct(e, f, &m[i], p, depth + 1);
        nn_pop(e->b);
    }
}

/* Parameters of a block, the missing ones by their defaults, which see options alone. */
static struct nn_value *block_args(struct nn_eval *e, const struct nn_block *block,
                                   const struct nn_value *args, const char *const *names,
                                   size_t count)
{
    struct ebb_str text = {0};
    for (size_t i = 0; i < block->head.count; i++)
        ebb_str_printf(&text, "%s%s%s", i ? ", " : "", block->head.names[i],
                       block->head.defaults[i] ? "=" : "");
    const struct nn_value *bound_args =
        nn_bind(e, block->head.name, ebb_str_c(&text), args, names, count);
    ebb_str_fini(&text);
    struct nn_value *to = nn_eval_take(e, block->head.count, sizeof *to);
    struct nn_frame none = {0};
    ebb_strmap_init(&none.names);
    for (size_t i = 0; bound_args && to && i < block->head.count; i++)
        to[i] = bound_args[i].kind == NN_VALUE_NONE && block->head.defaults[i]
                    ? nn_eval_expr(e, &none, block->head.defaults[i])
                    : bound_args[i];
    ebb_strmap_fini(&none.names);
    return bound_args && nn_eval_ok(e) ? to : NULL;
}

static void make_block(struct nn_eval *e, const struct nn_block *block, struct nn_part *part,
                       struct nn_value *args, int depth)
{
    struct nn_frame inner = {.block = block, .args = args};
    part->block = block;
    part->args = args;
    part->arg_count = block->head.count;
    ebb_strmap_init(&inner.names);
    construct_all(e, &inner, block->modules, block->module_count, part, depth);
    ebb_strmap_fini(&inner.names);
}

static void make(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x,
                 struct nn_part *part, int depth)
{
    struct nn_value args[NN_FILE_NAMES + 2];
    const char *name = x->items[0]->text;
    e->at = x;
    if (++e->parts > NN_FILE_MODULES || depth > NN_FILE_CALLS) {
        nn_eval_fail(e, "more than %d modules, or blocks nested deeper than %d", NN_FILE_MODULES,
                     NN_FILE_CALLS);
        return;
    }
    if (strcmp(name, "Sequential") == 0) {
        part->parts = nn_eval_take(e, x->count, sizeof *part->parts);
        for (size_t i = 1; part->parts && i < x->count && nn_eval_ok(e); i++) {
            struct nn_part *p = &part->parts[part->part_count++];
            *p = (struct nn_part){.name = ebb_arena_printf(e->arena, "%zu", i - 1), .up = part};
            if (!p->name)
                return;
            nn_enter(e->b, p->name);
            make(e, f, x->items[i], p, depth + 1);
            nn_pop(e->b);
        }
        return;
    }
    for (size_t i = 1; i < x->count; i++)
        args[i - 1] = nn_eval_expr(e, f, x->items[i]);
    e->at = x;
    if (!nn_eval_ok(e))
        return;
    const struct nn_class *class = nn_class_find(name);
    const struct nn_block *block = class ? NULL : nn_file_block(e->file, name);
    if (class) {
        const struct nn_value *in =
            nn_bind(e, name, class->signature.parameters, args, x->names + 1, x->count - 1);
        part->class = class;
        part->args = in;
        part->arg_count = nn_signature_count(class->signature.parameters);
        e->made = part->name;
        if (in && class->declare)
            class->declare(&(struct nn_call){e, name, in, part->arg_count});
    } else if (block) {
        struct nn_value *in = block_args(e, block, args, x->names + 1, x->count - 1);
        if (in)
            make_block(e, block, part, in, depth);
    } else {
        nn_eval_fail(e, "no module or block is called '%s'", name);
    }
    e->at = x;
    if (!nn_eval_ok(e))
        nn_eval_mark(e);
}

static void construct(struct nn_eval *e, struct nn_frame *f, const struct nn_module *m,
                      struct nn_part *part, int depth)
{
    if (!m->use) {
        construct_all(e, f, m->parts, m->count, part, depth);
        return;
    }
    if (m->when) {
        struct nn_value v = nn_eval_expr(e, f, m->when);
        if (!nn_eval_ok(e))
            return;
        if (!nn_is_true(e, &v) && !m->other)
            return; /* an empty container gives what it gets */
        make(e, f, nn_is_true(e, &v) ? m->use : m->other, part, depth);
        return;
    }
    if (!m->repeat) {
        make(e, f, m->use, part, depth);
        return;
    }
    struct nn_value n = nn_eval_expr(e, f, m->repeat);
    e->at = m->repeat;
    if (nn_eval_ok(e) && (n.kind != NN_VALUE_INT || n.integer < 0 || n.integer > NN_FILE_MODULES))
        nn_eval_fail(e, "repeat: allowed: a whole number from 0 to %d", NN_FILE_MODULES);
    if (!nn_eval_ok(e))
        return;
    part->parts = nn_eval_take(e, (size_t)n.integer, sizeof *part->parts);
    for (int64_t i = 0; part->parts && i < n.integer && nn_eval_ok(e); i++) {
        struct nn_part *p = &part->parts[part->part_count++];
        struct nn_frame inner = *f;
        inner.index = &i;
        *p = (struct nn_part){.name = ebb_arena_printf(e->arena, "%" PRId64, i), .up = part};
        if (!p->name)
            return;
        nn_enter(e->b, p->name);
        make(e, &inner, m->use, p, depth + 1);
        nn_pop(e->b);
    }
}

/* ---- the model -------------------------------------------------------------------------------- */

static const char *loss_of(const struct nn_file *file, size_t i)
{
    for (size_t k = 0; k < file->loss_count; k++)
        if (file->losses[k].output ? strcmp(file->losses[k].output, file->outputs[i]) == 0 : i == 0)
            return file->losses[k].op;
    return NULL;
}

static bool is_state(const struct nn_file *file, const char *name)
{
    for (size_t i = 0; i < file->input_count; i++)
        if (file->inputs[i].is_state && strcmp(file->inputs[i].name, name) == 0)
            return true;
    return false;
}

static void add_output(struct nn_eval *e, size_t i, tensor_id x, struct nn_output *out)
{
    const struct nn_file *file = e->file;
    const char *loss = loss_of(file, i), *name = file->outputs[i];
    bool has_classes =
        loss && (strcmp(loss, "cross_entropy") == 0 || strcmp(loss, "nll_loss") == 0 ||
                 strcmp(loss, "bce_with_logits_loss") == 0);
    if (has_classes) {
        nn_classes(e->b, out, name, x, loss);
    } else {
        enum nn_output_kind kind = is_state(file, name) ? NN_NEXT : NN_VALUES;
        if (loss)
            x = nn_full(e->b, x);
        *out = (struct nn_output){.name = name, .kind = kind, .id = x, .loss = loss};
        if (loss && nn_eval_ok(e)) {
            const struct tensor_view *v = tensor_view_of(e->b->session, x);
            nn_port_set(&out->target, "targets", NN_FLOATS, false, v->rank, v->dims);
        }
    }
    out->target.is_generated = loss && file->makes_targets;
}

static size_t add_outputs(struct nn_eval *e, const struct nn_value *v, struct nn_output *out)
{
    size_t n = v->kind == NN_VALUE_LIST ? v->count : 1;
    const struct nn_value *items = v->kind == NN_VALUE_LIST ? v->items : v;
    if (n != e->file->output_count) {
        nn_eval_fail(e, "forward gives a list: name its parts first (a, b = ...)");
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind != NN_VALUE_TENSOR) {
            nn_eval_fail(e, "forward gives %s, allowed: tensors", nn_value_noun(&items[i]));
            return 0;
        }
        add_output(e, i, items[i].tensor, &out[i]);
    }
    return n;
}

/* Losses and metrics of the file: scalars over its outputs and inputs. */
static size_t add_scalar(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x,
                         const char *name, enum nn_output_kind kind, struct nn_output *out)
{
    struct nn_value v = nn_eval_expr(e, f, x);
    e->at = x;
    if (!nn_eval_ok(e))
        return 0;
    const struct tensor_view *view =
        v.kind == NN_VALUE_TENSOR ? tensor_view_of(e->b->session, v.tensor) : NULL;
    if (!view || tensor_count(view) != 1) {
        nn_eval_fail(e, "%s is %s, allowed: one number, such as a mean", name,
                     view ? "a tensor of several numbers" : nn_value_noun(&v));
        return 0;
    }
    tensor_id one = nn_full(e->b, v.tensor);
    if (view->rank > 0)
        one = nn_reshape(e->b, one, 0, NULL);
    *out = (struct nn_output){.name = name, .kind = kind, .id = one};
    return 1;
}

static size_t add_scalars(struct nn_eval *e, struct nn_frame *f, const struct nn_value *v,
                          struct nn_output *out, size_t n)
{
    const struct nn_file *file = e->file;
    size_t results = n;
    for (size_t i = 0; i < results; i++)
        nn_frame_set(e, f, file->outputs[i], v->kind == NN_VALUE_LIST ? v->items[i] : *v);
    if (file->loss && nn_eval_ok(e))
        n += add_scalar(e, f, file->loss, "loss", NN_LOSS, &out[n]);
    for (size_t i = 0; i < file->metric_count && nn_eval_ok(e); i++)
        n += add_scalar(e, f, file->metrics[i], file->metric_names[i], NN_METRIC, &out[n]);
    return n;
}

size_t nn_file_build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                     struct nn_output *out)
{
    const struct nn_file *file = config->model->context;
    struct ebb_arena arena;
    struct nn_part top = {.name = "", .block = &file->top};
    struct nn_eval e = {.file = file, .config = config, .b = b, .arena = &arena, .batch = 1};
    struct nn_frame f = {.block = &file->top};
    size_t n = 0;
    memset(&b->place, 0, sizeof b->place);
    ebb_arena_init(&arena);
    ebb_strmap_init(&f.names);
    for (size_t i = 0; i < file->input_count; i++) { /* the batch is that of the leaves */
        const struct nn_file_input *port = &file->inputs[i];
        const struct tensor_view *v = tensor_view_of(b->session, in[i]);
        if (!port->has_batch && v->rank) {
            e.batch = v->dims[0];
            break;
        }
        for (size_t d = 0; d < port->rank && d < v->rank; d++)
            if (port->dims[d]->kind == NN_EXPR_NAME && strcmp(port->dims[d]->text, "batch") == 0)
                e.batch = v->dims[d];
    }
    construct_all(&e, &f, file->top.modules, file->top.module_count, &top, 0);
    f.part = &top;
    for (size_t i = 0; i < file->input_count; i++)
        if (!file->inputs[i].is_target)
            nn_frame_set(&e, &f, file->inputs[i].name, nn_of_tensor(in[i]));
    struct nn_value v = nn_frame_run(&e, &f);
    if (nn_eval_ok(&e))
        n = add_outputs(&e, &v, out);
    for (size_t i = 0; i < file->input_count; i++)
        if (file->inputs[i].is_target)
            nn_frame_set(&e, &f, file->inputs[i].name, nn_of_tensor(in[i]));
    if (nn_eval_ok(&e))
        n = add_scalars(&e, &f, &v, out, n);
    ebb_strmap_fini(&f.names);
    ebb_arena_fini(&arena);
    return n;
}

/* ---- inputs ----------------------------------------------------------------------------------- */

/* Sizes are expressions of options and `batch`: evaluated without a session. */
static bool size_value(const struct nn_eval *e, const struct nn_expr *x, double *v)
{
    struct nn_value option_value;
    double a, b;
    switch (x->kind) {
    case NN_EXPR_INT:
        *v = x->number;
        return true;
    case NN_EXPR_NAME:
        if (strcmp(x->text, "batch") == 0) {
            *v = (double)e->batch;
            return true;
        }
        if (!nn_eval_option(e, x->text, &option_value) || option_value.kind != NN_VALUE_INT)
            return false;
        *v = option_value.number;
        return true;
    case NN_EXPR_BINARY:
        if (!size_value(e, x->items[0], &a) || !size_value(e, x->items[1], &b))
            return false;
        *v = strcmp(x->text, "+") == 0    ? a + b
             : strcmp(x->text, "-") == 0  ? a - b
             : strcmp(x->text, "*") == 0  ? a * b
             : strcmp(x->text, "//") == 0 ? floor(a / b)
             : strcmp(x->text, "**") == 0 ? pow(a, b)
                                          : -1;
        return true;
    default:
        return false;
    }
}

size_t nn_file_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct nn_file *file = config->model->context;
    struct ebb_arena arena;
    struct nn_eval e = {.file = file, .config = config, .arena = &arena, .batch = batch};
    size_t i;
    ebb_arena_init(&arena);
    for (i = 0; i < file->input_count; i++) {
        const struct nn_file_input *in = &file->inputs[i];
        int64_t dims[TENSOR_RANK];
        int rank = 0;
        bool is_good = true;
        if (!in->has_batch)
            dims[rank++] = batch;
        for (size_t d = 0; d < in->rank; d++) {
            double v = -1;
            is_good = size_value(&e, in->dims[d], &v) && v >= 1 && v < 0x1p40 && is_good;
            dims[rank++] = is_good ? (int64_t)v : 1;
        }
        if (!is_good)
            break;
        bool is_int = in->dtype == 1;
        enum nn_port_kind kind = in->is_state                            ? NN_STATE
                                 : in->is_mask                           ? NN_MASK
                                 : is_int && in->is_target               ? NN_CLASSES
                                 : is_int                                ? NN_TOKENS
                                 : rank >= 4 && in->fill == NN_FILL_DATA ? NN_IMAGES
                                                                         : NN_FLOATS;
        nn_port_set(&ports[i], in->name, kind, in->is_state || in->fill != NN_FILL_DATA, rank,
                    dims);
        ports[i].is_target = in->is_target;
    }
    ebb_arena_fini(&arena);
    return i;
}
