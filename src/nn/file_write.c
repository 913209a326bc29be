/* file_write.c - a model of the table as text of a model file.
 *
 * While it is built, the builder keeps a journal of calls. Calls whose weights were made for them
 * become modules (Conv2d, Linear, ...), everything else is a line with a function. The model is
 * built at two batches: numbers that differ are multiples of the name `batch`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "nn/file.h"

struct note {                  /* one call */
    const char *what;          /* of the op, or of a function of model files */
    const struct ops_def *def; /* NULL: no op of the table */
    const void *attr;
    const tensor_id *in, *out;
    size_t in_count, out_count;
    double first, second;
};

struct nn_journal {
    struct ebb_arena arena;
    struct note *notes;
    size_t count, capacity;
    int depth; /* inside a call that is noted as a whole */
    bool failed;
};

/* ---- keeping it ------------------------------------------------------------------------------- */

static const void *copy(struct nn_journal *j, const void *p, size_t bytes)
{
    void *to = ebb_arena_alloc(&j->arena, bytes ? bytes : 1);
    if (to && bytes)
        memcpy(to, p, bytes);
    j->failed |= !to;
    return to;
}

static void add(struct nn_journal *j, struct note n)
{
    if (j->depth || (n.out_count && n.in_count && n.out[0].v == n.in[0].v))
        return; /* nothing happened */
    n.in = copy(j, n.in, n.in_count * sizeof *n.in);
    n.out = copy(j, n.out, n.out_count * sizeof *n.out);
    if (n.def)
        n.attr = copy(j, n.attr, ops_attr_bytes(n.def));
    j->failed |= ebb_grow(&j->notes, &j->capacity, j->count + 1, sizeof *j->notes, NULL) != EBB_OK;
    if (!j->failed)
        j->notes[j->count++] = n;
}

void nn_journal_op(struct nn_builder *b, const struct ops_def *def, size_t in_count,
                   const tensor_id *in, size_t out_count, const tensor_id *out, const void *attr)
{
    if (b->journal)
        add(b->journal, (struct note){.what = ops_name(def),
                                      .def = def,
                                      .attr = attr,
                                      .in = in,
                                      .in_count = in_count,
                                      .out = out,
                                      .out_count = out_count});
}

void nn_journal_note(struct nn_builder *b, const char *what, size_t in_count, const tensor_id *in,
                     tensor_id out, double first, double second)
{
    if (b->journal)
        add(b->journal, (struct note){.what = what,
                                      .in = in,
                                      .in_count = in_count,
                                      .out = &out,
                                      .out_count = 1,
                                      .first = first,
                                      .second = second});
}

void nn_journal_begin(struct nn_builder *b)
{
    if (b->journal)
        b->journal->depth++;
}

void nn_journal_end(struct nn_builder *b)
{
    if (b->journal)
        b->journal->depth--;
}

/* ---- a model, built --------------------------------------------------------------------------- */

struct built {
    int64_t batch;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_journal journal;
    struct nn_port ports[NN_PORTS];
    size_t port_count;
    tensor_id inputs[NN_PORTS];
    struct nn_output outputs[NN_PORTS];
    size_t output_count;
};

static enum ebb_status build(const struct nn_config *config, int64_t batch, struct built *m,
                             struct ebb_error *err)
{
    memset(m, 0, sizeof *m);
    m->batch = batch;
    ebb_arena_init(&m->journal.arena);
    EBB_TRY(tensor_session_create(&m->s, NULL, err));
    nn_builder_init(&m->b, m->s, &(struct nn_mode){.is_training = true});
    m->b.journal = &m->journal;
    m->port_count = nn_inputs(config, batch, m->ports);
    EBB_TRY(nn_leaves(&m->b, config, batch, m->inputs, err));
    EBB_TRY(nn_build(&m->b, config, m->inputs, m->outputs, &m->output_count, err));
    return m->journal.failed ? ebb_no_memory(err, 0) : EBB_OK;
}

static void unbuild(struct built *m)
{
    if (m->s) {
        nn_builder_fini(&m->b);
        tensor_session_destroy(m->s);
    }
    ebb_free(m->journal.notes);
    ebb_arena_fini(&m->journal.arena);
}

/* ---- writing ---------------------------------------------------------------------------------- */

struct writer {
    const struct nn_config *config;
    struct built *small, *large; /* two batches */
    struct ebb_str *out;
    struct ebb_arena *arena;
    struct ebb_map items;  /* handle to 1 + item */
    struct ebb_map values; /* handle to number of the variable */
    struct ebb_map inputs; /* handle to number of the input */
    uint64_t next;
    const char **modules; /* per item: text of the module that begins with it, or NULL */
    bool *is_inside;      /* per item: part of a module */
    const char *problem;  /* what cannot be written; NULL: nothing */
};

/* A number that may depend on the batch. */
static void say_size(struct writer *w, int64_t small, int64_t large)
{
    int64_t step = (large - small) / (w->large->batch - w->small->batch);
    int64_t rest = small - step * w->small->batch;
    if (large == small) {
        ebb_str_printf(w->out, "%" PRId64, small);
        return;
    }
    ebb_str_add(w->out, "batch");
    if (step != 1)
        ebb_str_printf(w->out, " * %" PRId64, step);
    if (rest)
        ebb_str_printf(w->out, " %c %" PRId64, rest < 0 ? '-' : '+', rest < 0 ? -rest : rest);
}

/* The shortest text that reads back to the same float. */
static void say_float(struct ebb_str *out, float v)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        double back;
        if (ebb_parse_double(text, &back) && memcmp(&(float){(float)back}, &v, sizeof v) == 0)
            break;
    }
    ebb_str_add(out, text);
}

static const struct nn_item *item_of(const struct writer *w, tensor_id x)
{
    uint64_t at;
    return ebb_map_get(&w->items, x.v, &at) ? nn_item_at(&w->small->b, at - 1) : NULL;
}

static void say_value(struct writer *w, tensor_id x)
{
    uint64_t at;
    const struct nn_item *item = item_of(w, x);
    if (ebb_map_get(&w->inputs, x.v, &at))
        ebb_str_add(w->out, w->small->ports[at].name);
    else if (ebb_map_get(&w->values, x.v, &at))
        ebb_str_printf(w->out, "t%" PRIu64, at);
    else if (item)
        ebb_str_add(w->out, item->name);
    else
        w->problem = "a value that no call made";
}

static void remember(struct writer *w, struct ebb_map *map, tensor_id x, uint64_t value)
{
    if (ebb_map_put(map, x.v, value, NULL) != EBB_OK)
        w->out->failed = true;
}

/* ---- initial values --------------------------------------------------------------------------- */

static const char *const kinds[] = {"constant", "uniform", "normal"};

static bool same_values(const struct nn_init *a, const struct nn_init *b)
{
    return a->kind == b->kind && memcmp(&a->a, &b->a, sizeof a->a) == 0 &&
           (a->kind == NN_CONSTANT || memcmp(&a->b, &b->b, sizeof a->b) == 0);
}

static void say_init(const struct writer *w, const struct nn_init *init, bool has_over,
                     struct ebb_str *out)
{
    ebb_str_printf(out, "%s(", kinds[init->kind]);
    say_float(out, init->a);
    if (init->kind != NN_CONSTANT) {
        ebb_str_add(out, ", ");
        say_float(out, init->b);
    }
    if (has_over && init->is_redrawn)
        ebb_str_printf(out, ", over='%s'", kinds[init->constructor]);
    if (init->copy_of)
        ebb_str_printf(out, ", copy='%s'", nn_item_at(&w->small->b, init->copy_of - 1)->name);
    ebb_str_addc(out, ')');
}

/* ", init=..." where a module's values are not the standard ones; false: a module has no such
 * values. */
static bool module_init(const struct writer *w, const struct nn_item *item,
                        const struct nn_init *standard, const char *key, struct ebb_str *out)
{
    const struct nn_init *i = &item->init;
    if (i->copy_of || i->zero_row)
        return false;
    if (!i->is_redrawn)
        return same_values(i, standard);
    if (i->constructor != standard->kind)
        return false;
    ebb_str_printf(out, ", %s=", key);
    say_init(w, i, false, out);
    return true;
}

/* ---- modules ---------------------------------------------------------------------------------- */

/* Item `name` of the module that item `first` begins, `place` items behind it; NULL: not there. */
static const struct nn_item *beside(const struct writer *w, const struct nn_item *first,
                                    size_t place, const char *name)
{
    size_t at = (size_t)(first - nn_item_at(&w->small->b, 0)) + place;
    const struct nn_item *item = nn_item_at(&w->small->b, at);
    const char *dot = strrchr(first->name, '.');
    size_t n = dot ? (size_t)(dot - first->name) + 1 : 0;
    return item && n && strncmp(item->name, first->name, n) == 0 &&
                   strcmp(item->name + n, name) == 0
               ? item
               : NULL;
}

static bool is_weight(const struct nn_item *item)
{
    const char *dot = item ? strrchr(item->name, '.') : NULL;
    return dot && strcmp(dot, ".weight") == 0;
}

static const struct ebb_doc_node *attributes(struct writer *w, const struct note *n)
{
    struct ebb_str text = {0};
    struct ebb_json_writer json;
    const struct ebb_doc_node *map = NULL;
    ebb_jsonw_init(&json, &text, 0);
    ops_attr_write(n->def, n->attr, &json);
    if (ebb_doc_parse_json(w->arena, "attributes", ebb_str_c(&text), text.length, &map, NULL) !=
        EBB_OK)
        w->out->failed = true;
    ebb_str_fini(&text);
    return map;
}

/* One number where all are the same, nothing where they are what a module has anyway. */
static void say_numbers(const struct ebb_doc_node *map, const char *name, int64_t usual,
                        struct ebb_str *out)
{
    const struct ebb_doc_node *v = ebb_doc_get(map, name);
    if (!v)
        return;
    bool is_same = v->kind == EBB_DOC_INT || v->count > 0;
    int64_t first = v->kind == EBB_DOC_INT ? v->integer : v->count ? v->items[0]->integer : 0;
    for (size_t i = 1; is_same && i < v->count; i++)
        is_same = v->items[i]->integer == first;
    if (is_same && first == usual)
        return;
    ebb_str_printf(out, ", %s=", name);
    if (is_same) {
        ebb_str_printf(out, "%" PRId64, first);
        return;
    }
    for (size_t i = 0; i < v->count; i++)
        ebb_str_printf(out, "%s%" PRId64, i ? ", " : "[", v->items[i]->integer);
    ebb_str_addc(out, ']');
}

static void say_kernel(const struct tensor_view *v, struct ebb_str *out)
{
    bool is_same = true;
    for (int d = 3; d < v->rank; d++)
        is_same &= v->dims[d] == v->dims[2];
    ebb_str_printf(out, is_same ? ", %" PRId64 : ", [%" PRId64, v->dims[2]);
    for (int d = 3; d < v->rank && !is_same; d++)
        ebb_str_printf(out, ", %" PRId64, v->dims[d]);
    if (!is_same)
        ebb_str_addc(out, ']');
}

/* Conv2d(...) of a convolution; false: not a module. */
static bool conv_module(struct writer *w, const struct note *n, struct ebb_str *out)
{
    const struct nn_item *weight = item_of(w, n->in[1]), *bias = NULL;
    const struct ebb_doc_node *map = attributes(w, n);
    bool is_transposed = strncmp(n->what, "conv_transpose", 14) == 0;
    const struct tensor_view *v = &weight->view;
    int64_t groups = ebb_doc_int(map, "groups", 1), area = 1;
    if (n->in_count > 2 && !(bias = beside(w, weight, 1, "bias")))
        return false;
    if (bias && bias != item_of(w, n->in[2]))
        return false;
    for (int d = 2; d < v->rank; d++)
        area *= v->dims[d];
    struct nn_init standard = nn_init_default(v->dims[1] * area);
    ebb_str_printf(out, "Conv%s%dd(%" PRId64 ", %" PRId64, is_transposed ? "Transpose" : "",
                   v->rank - 2, is_transposed ? v->dims[0] : v->dims[1] * groups,
                   is_transposed ? v->dims[1] * groups : v->dims[0]);
    say_kernel(v, out);
    say_numbers(map, "stride", 1, out);
    say_numbers(map, "padding", 0, out);
    say_numbers(map, "dilation", 1, out);
    say_numbers(map, "output_padding", 0, out);
    say_numbers(map, "groups", 1, out);
    if (!bias)
        ebb_str_add(out, ", bias=False");
    return module_init(w, weight, &standard, "init", out) &&
           (!bias || module_init(w, bias, &standard, "bias_init", out));
}

static bool linear_module(struct writer *w, const struct note *n, struct ebb_str *out)
{
    const struct nn_item *weight = item_of(w, n->in[1]), *bias = NULL;
    if (weight->role != NN_WEIGHT || weight->view.rank != 2)
        return false;
    if (n->in_count > 2 && (!(bias = beside(w, weight, 1, "bias")) || bias != item_of(w, n->in[2])))
        return false;
    struct nn_init standard = nn_init_default(weight->view.dims[1]);
    ebb_str_printf(out, "Linear(%" PRId64 ", %" PRId64 "%s", weight->view.dims[1],
                   weight->view.dims[0], bias ? "" : ", bias=False");
    return module_init(w, weight, &standard, "init", out) &&
           (!bias || module_init(w, bias, &standard, "bias_init", out));
}

static bool embedding_module(struct writer *w, const struct note *n, struct ebb_str *out)
{
    const struct nn_item *table = item_of(w, n->in[1]);
    struct nn_init standard = nn_init_normal(1);
    if (table->role != NN_EMBEDDING || table->view.rank != 2 || attributes(w, n)->count)
        return false;
    ebb_str_printf(out, "Embedding(%" PRId64 ", %" PRId64, table->view.dims[0],
                   table->view.dims[1]);
    return module_init(w, table, &standard, "init", out);
}

static void say_eps(double eps, double standard, struct ebb_str *out)
{
    char text[32];
    if (eps < standard || eps > standard)
        ebb_str_printf(out, ", eps=%s", ebb_format_double(eps, text, sizeof text));
}

static bool layer_norm_module(struct writer *w, const struct note *n, struct ebb_str *out)
{
    const struct nn_item *weight = item_of(w, n->in[1]);
    const struct nn_item *bias = n->in_count > 2 ? beside(w, weight, 1, "bias") : NULL;
    if (!bias || bias != item_of(w, n->in[2]) || weight->view.rank != 1)
        return false;
    ebb_str_printf(out, "LayerNorm(%" PRId64, weight->view.dims[0]);
    double eps = ebb_doc_double(attributes(w, n), "eps", (double)1e-5f);
    say_eps(eps, (double)1e-5f, out);
    return true;
}

static bool is_batch_norm(const struct writer *w, const struct nn_item *weight)
{
    static const char *const names[] = {"bias", "running_mean", "running_var",
                                        "num_batches_tracked"};
    for (size_t i = 0; i < 4; i++)
        if (!beside(w, weight, i + 1, names[i]))
            return false;
    return true;
}

static bool batch_norm_module(struct writer *w, const struct note *n, struct ebb_str *out)
{
    const struct nn_item *weight = item_of(w, n->in[1]);
    int rank = tensor_view_of(w->small->s, n->in[0])->rank;
    char text[32];
    if (!is_batch_norm(w, weight))
        return false;
    ebb_str_printf(out, "BatchNorm%dd(%" PRId64, rank < 4 ? 1 : rank - 2, weight->view.dims[0]);
    say_eps(n->first, 1e-5, out);
    if (n->second < 0.1 || n->second > 0.1)
        ebb_str_printf(out, ", momentum=%s", ebb_format_double(n->second, text, sizeof text));
    return true;
}

static const struct {
    const char *prefix; /* of the op */
    bool (*write)(struct writer *w, const struct note *n, struct ebb_str *out);
    size_t items; /* it has at most */
} module_rows[] = {
    {"conv", conv_module, 2},
    {"linear", linear_module, 2},
    {"embedding", embedding_module, 1},
    {"layer_norm", layer_norm_module, 2},
    {"batch_norm", batch_norm_module, 5},
};

/* The module that this call is one of; NULL: it is written as a function. */
static const char *module_text(struct writer *w, const struct note *n, size_t *items)
{
    const struct nn_item *weight = n->in_count > 1 ? item_of(w, n->in[1]) : NULL;
    struct ebb_str text = {0};
    const char *result = NULL;
    for (size_t i = 0; is_weight(weight) && i < sizeof module_rows / sizeof *module_rows; i++) {
        if (strncmp(n->what, module_rows[i].prefix, strlen(module_rows[i].prefix)) != 0)
            continue;
        if (module_rows[i].write(w, n, &text)) {
            ebb_str_addc(&text, ')');
            result = ebb_arena_strndup(w->arena, ebb_str_c(&text), text.length);
            *items = module_rows[i].items == 5   ? 5
                     : module_rows[i].items == 1 ? 1
                                                 : n->in_count - 1;
        }
        break;
    }
    ebb_str_fini(&text);
    return result;
}

/* Items become parts of modules where every call that reads them says the same module. */
static void find_modules(struct writer *w)
{
    const struct nn_journal *j = &w->small->journal;
    size_t count = 0;
    for (size_t i = 0; i < j->count; i++) {
        const struct note *n = &j->notes[i];
        const char *text = module_text(w, n, &count);
        if (!text)
            continue;
        size_t at = (size_t)(item_of(w, n->in[1]) - nn_item_at(&w->small->b, 0));
        if (w->modules[at] && strcmp(w->modules[at], text) != 0)
            w->problem = "one layer is called in two ways";
        w->modules[at] = text;
        for (size_t k = 0; k < count; k++)
            w->is_inside[at + k] = true;
    }
    for (size_t i = 0; i < nn_item_count(&w->small->b); i++) { /* those that nothing calls */
        const struct nn_item *item = nn_item_at(&w->small->b, i);
        if (w->is_inside[i] || !is_weight(item) || !is_batch_norm(w, item))
            continue;
        w->modules[i] = ebb_arena_printf(w->arena, "BatchNorm2d(%" PRId64 ")", item->view.dims[0]);
        memset(w->is_inside + i, true, 5);
    }
}

static void write_item(struct writer *w, const struct nn_item *item)
{
    static const char *const roles[] = {"weight", "bias", "norm", "embedding", "buffer"};
    struct ebb_str text = {0};
    const char *usual = item->view.rank > 1 ? "weight" : "bias";
    char shape[96];
    ebb_str_printf(w->out, "  %s: ", item->name);
    tensor_shape_text(&item->view, shape, sizeof shape);
    if (item->role == NN_BUFFER && item->view.dtype == TENSOR_F32) {
        ebb_str_printf(&text, "Buffer(%s, ", shape);
        say_float(&text, item->init.a);
    } else if (item->role != NN_BUFFER) {
        ebb_str_printf(&text, "Parameter(%s, init=", shape);
        say_init(w, &item->init, true, &text);
        if (strcmp(roles[item->role], usual) != 0)
            ebb_str_printf(&text, ", role='%s'", roles[item->role]);
        if (item->init.zero_row || !item->is_trained)
            w->problem = "a parameter that the model itself changes";
    } else {
        w->problem = "a buffer of whole numbers";
    }
    ebb_str_printf(w->out, "%s)\n", ebb_str_c(&text));
    ebb_str_fini(&text);
}

static void write_modules(struct writer *w)
{
    const struct nn_builder *b = &w->small->b;
    ebb_str_add(w->out, "\nmodules:\n");
    for (size_t i = 0; i < nn_item_count(b); i++) {
        const struct nn_item *item = nn_item_at(b, i);
        const char *dot = strrchr(item->name, '.');
        if (w->modules[i])
            ebb_str_printf(w->out, "  %.*s: %s\n", (int)(dot - item->name), item->name,
                           w->modules[i]);
        else if (!w->is_inside[i])
            write_item(w, item);
    }
}

/* ---- lines ------------------------------------------------------------------------------------ */

/* A value of an attribute; `large` is the same at the other batch. */
static void say_attribute(struct writer *w, const struct ebb_doc_node *small,
                          const struct ebb_doc_node *large)
{
    char text[32];
    if (small->kind == EBB_DOC_LIST) {
        ebb_str_addc(w->out, '[');
        for (size_t i = 0; i < small->count && large->count == small->count; i++) {
            ebb_str_add(w->out, i ? ", " : "");
            say_attribute(w, small->items[i], large->items[i]);
        }
        ebb_str_addc(w->out, ']');
    } else if (small->kind == EBB_DOC_INT && large->kind == EBB_DOC_INT) {
        say_size(w, small->integer, large->integer);
    } else if (small->kind == EBB_DOC_DOUBLE) {
        ebb_str_add(w->out, ebb_format_double(small->number, text, sizeof text));
    } else if (small->kind == EBB_DOC_BOOL) {
        ebb_str_add(w->out, small->boolean ? "True" : "False");
    } else {
        ebb_str_printf(w->out, "'%s'", small->text);
    }
}

static void say_inputs(struct writer *w, const struct note *n)
{
    for (size_t i = 0; i < n->in_count; i++) {
        ebb_str_add(w->out, i ? ", " : "");
        say_value(w, n->in[i]);
    }
}

/* x[0:2, ::2] */
static void say_slice(struct writer *w, const struct note *n, const struct ebb_doc_node *ranges)
{
    const struct tensor_view *v = tensor_view_of(w->small->s, n->in[0]);
    int last = -1;
    say_value(w, n->in[0]);
    ebb_str_addc(w->out, '[');
    for (size_t i = 0; i < ranges->count; i++)
        last = ranges->items[i]->items[0]->integer > last ? (int)ranges->items[i]->items[0]->integer
                                                          : last;
    for (int d = 0; d <= last; d++) {
        const struct ebb_doc_node *r = NULL;
        for (size_t i = 0; i < ranges->count; i++)
            if (ranges->items[i]->items[0]->integer == d)
                r = ranges->items[i];
        ebb_str_add(w->out, d ? ", " : "");
        if (r && r->items[1]->integer)
            ebb_str_printf(w->out, "%" PRId64, r->items[1]->integer);
        ebb_str_addc(w->out, ':');
        if (r && r->items[2]->integer != v->dims[d])
            ebb_str_printf(w->out, "%" PRId64, r->items[2]->integer);
        if (r && r->items[3]->integer != 1)
            ebb_str_printf(w->out, ":%" PRId64, r->items[3]->integer);
    }
    ebb_str_addc(w->out, ']');
}

/* Functions whose arguments are not named as the op's attributes are. */
static const char *argument_name(const char *op, const char *attribute)
{
    if (strcmp(attribute, "kernel") == 0 && strstr(op, "_pool"))
        return "kernel_size";
    if (strcmp(attribute, "dims") == 0 && strcmp(op, "permute") != 0)
        return "dim";
    return strcmp(attribute, "shape") == 0 && strcmp(op, "expand") == 0 ? "sizes" : attribute;
}

static void say_op(struct writer *w, const struct note *n, const struct note *large)
{
    const struct ebb_doc_node *map = attributes(w, n), *other = attributes(w, large);
    bool is_list = strcmp(n->what, "cat") == 0 || strcmp(n->what, "stack") == 0;
    bool is_open = strcmp(n->what, "permute") == 0 || strcmp(n->what, "expand") == 0;
    static const char *const signs[][2] = {
        {"add", " + "}, {"sub", " - "}, {"mul", " * "}, {"div", " / "}};
    if (strcmp(n->what, "slice") == 0) {
        say_slice(w, n, ebb_doc_get(map, "ranges"));
        return;
    }
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcmp(n->what, signs[i][0]) == 0) {
            say_value(w, n->in[0]);
            ebb_str_add(w->out, signs[i][1]);
            say_value(w, n->in[1]);
            return;
        }
    ebb_str_printf(w->out, "%s(%s", n->what, is_list ? "[" : "");
    say_inputs(w, n);
    ebb_str_add(w->out, is_list ? "]" : "");
    for (size_t i = 0; map && other && i < map->count && map->count == other->count; i++) {
        if (n->in_count || i)
            ebb_str_add(w->out, ", ");
        if (!is_open)
            ebb_str_printf(w->out, "%s=", argument_name(n->what, map->keys[i]->text));
        say_attribute(w, map->items[i], other->items[i]);
    }
    if (strncmp(n->what, "max_pool", 8) == 0 && n->out_count > 1)
        ebb_str_add(w->out, ", return_indices=True");
    ebb_str_addc(w->out, ')');
}

/* What is no op of the table. */
static void say_note(struct writer *w, const struct note *n, const struct note *large)
{
    const struct tensor_view *small_view = tensor_view_of(w->small->s, n->out[0]);
    const struct tensor_view *large_view = tensor_view_of(w->large->s, large->out[0]);
    char text[32];
    if (strcmp(n->what, "mul_scalar") == 0) {
        say_value(w, n->in[0]);
        ebb_str_add(w->out, " * ");
        ebb_str_add(w->out, ebb_format_double(n->first, text, sizeof text));
        return;
    }
    ebb_str_printf(w->out, "%s(", n->what);
    size_t count = n->in_count;
    say_inputs(w, &(struct note){.in = n->in, .in_count = count});
    if (strcmp(n->what, "reshape") == 0)
        for (int d = 0; d < small_view->rank; d++) {
            ebb_str_add(w->out, ", ");
            say_size(w, small_view->dims[d], large_view->dims[d]);
        }
    else if (strcmp(n->what, "dropout") == 0)
        ebb_str_printf(w->out, ", %s", ebb_format_double(n->first, text, sizeof text));
    else if (*n->what == 's') { /* attention */
        if (n->first > 0)
            ebb_str_printf(w->out, ", dropout_p=%s",
                           ebb_format_double(n->first, text, sizeof text));
        if (n->second > 0)
            ebb_str_add(w->out, ", is_causal=True");
    } else if (strcmp(n->what, "contiguous") != 0)
        w->problem = "a batch norm whose statistics are not its own";
    ebb_str_addc(w->out, ')');
}

/* The second result of a pooling is told only where somebody reads it. */
static size_t results(const struct writer *w, const struct note *n, size_t at)
{
    const struct nn_journal *j = &w->small->journal;
    if (n->out_count < 2 || strncmp(n->what, "max_pool", 8) != 0)
        return n->def && strcmp(n->what, "split") != 0 && !strstr(n->what, "lstm") &&
                       !strstr(n->what, "gru")
                   ? 1
                   : n->out_count;
    for (size_t i = at + 1; i < j->count; i++)
        for (size_t k = 0; k < j->notes[i].in_count; k++)
            if (j->notes[i].in[k].v == n->out[1].v)
                return 2;
    return 1;
}

static void write_line(struct writer *w, size_t i)
{
    struct note n = w->small->journal.notes[i];
    const struct note *large = &w->large->journal.notes[i];
    const struct nn_item *weight = n.in_count > 1 ? item_of(w, n.in[1]) : NULL;
    size_t first = weight ? (size_t)(weight - nn_item_at(&w->small->b, 0)) : 0;
    n.out_count = results(w, &n, i);
    ebb_str_add(w->out, "  - ");
    for (size_t k = 0; k < n.out_count; k++) {
        remember(w, &w->values, n.out[k], w->next);
        ebb_str_printf(w->out, "%st%" PRIu64, k ? ", " : "", w->next++);
    }
    ebb_str_add(w->out, " = ");
    size_t items;
    if (is_weight(weight) && w->modules[first] && module_text(w, &n, &items)) {
        const char *dot = strrchr(weight->name, '.');
        ebb_str_printf(w->out, "%.*s(", (int)(dot - weight->name), weight->name);
        say_value(w, n.in[0]);
        ebb_str_addc(w->out, ')');
    } else if (n.def) {
        say_op(w, &n, large);
    } else {
        say_note(w, &n, large);
    }
    ebb_str_addc(w->out, '\n');
}

/* ---- inputs and outputs ----------------------------------------------------------------------- */

/* What fills a generated input: found by comparing what it is filled with. */
static const char *fill_of(struct writer *w, size_t i)
{
    static const char *const words[] = {"data", "zeros", "uniform", "normal", "waves"};
    const struct nn_port *port = &w->small->ports[i];
    size_t bytes = (size_t)tensor_count(&port->view) * sizeof(float);
    float *have = ebb_alloc(bytes), *made = ebb_alloc(bytes);
    const char *word = NULL;
    if (have && made && port->view.dtype == TENSOR_F32) {
        nn_generate(w->config, port, 7, 3, have);
        for (unsigned k = NN_FILL_ZEROS; k <= NN_FILL_WAVES && !word; k++) {
            nn_file_fill((enum nn_fill)k, port, (uint32_t)i, 7, 3, made);
            word = memcmp(have, made, bytes) == 0 ? words[k] : NULL;
        }
    }
    ebb_free(have);
    ebb_free(made);
    if (!word)
        w->problem = "an input that is made in a way of its own";
    return word ? word : "zeros";
}

static void write_input(struct writer *w, size_t i)
{
    const struct nn_port *small = &w->small->ports[i], *large = &w->large->ports[i];
    bool is_first = small->view.rank && small->view.dims[0] != large->view.dims[0], any = false;
    for (int d = 1; d < small->view.rank; d++)
        is_first &= small->view.dims[d] == large->view.dims[d];
    for (int d = 0; d < small->view.rank; d++)
        any |= small->view.dims[d] != large->view.dims[d];
    ebb_str_printf(w->out, "  %s: {shape: [", small->name);
    for (int d = is_first; d < small->view.rank; d++) {
        ebb_str_add(w->out, d > is_first ? ", " : "");
        say_size(w, small->view.dims[d], large->view.dims[d]);
    }
    ebb_str_addc(w->out, ']');
    if (!any)
        ebb_str_add(w->out, ", batch: false");
    if (small->view.dtype == TENSOR_I64)
        ebb_str_add(w->out, ", dtype: int64");
    if (small->kind == NN_MASK)
        ebb_str_add(w->out, ", mask: true");
    if (small->kind == NN_STATE)
        ebb_str_add(w->out, ", state: true");
    else if (small->is_generated)
        ebb_str_printf(w->out, ", fill: %s", fill_of(w, i));
    ebb_str_add(w->out, "}\n");
}

/* Results get their names back; the value of an own loss keeps its number. */
static void write_outputs(struct writer *w)
{
    const struct built *m = w->small;
    uint64_t at;
    bool makes = false, is_own = false, has_loss = false;
    for (size_t i = 0; i < m->output_count; i++)
        if (m->outputs[i].kind != NN_LOSS) {
            ebb_str_printf(w->out, "  - %s = ", m->outputs[i].name);
            say_value(w, m->outputs[i].id);
            ebb_str_addc(w->out, '\n');
        }
    ebb_str_add(w->out, "  - return ");
    for (size_t i = 0; i < m->output_count; i++) {
        const struct nn_output *o = &m->outputs[i];
        ebb_str_add(w->out, i ? ", " : "");
        if (o->kind != NN_LOSS)
            ebb_str_add(w->out, o->name);
        else if (ebb_map_get(&w->values, o->id.v, &at))
            ebb_str_printf(w->out, "t%" PRIu64, at);
        makes |= o->loss && o->target.is_generated;
        is_own |= o->kind == NN_LOSS;
        has_loss |= o->loss != NULL;
        if (o->kind == NN_METRIC || (o->kind == NN_LOSS && i))
            w->problem = "a model with metrics of its own";
    }
    if (makes)
        ebb_str_add(w->out, "\n\nmakes_targets: true");
    ebb_str_add(w->out, "\n\nloss:");
    if (is_own && ebb_map_get(&w->values, m->outputs[0].id.v, &at))
        ebb_str_printf(w->out, " t%" PRIu64 "\n", at);
    else if (has_loss)
        ebb_str_addc(w->out, '\n');
    for (size_t i = 0; i < m->output_count; i++)
        if (m->outputs[i].loss)
            ebb_str_printf(w->out, "  %s: %s\n", m->outputs[i].name, m->outputs[i].loss);
}

static void write_all(struct writer *w)
{
    const struct nn_model *model = w->config->model;
    int64_t vocabulary = nn_config_int(w->config, "vocabulary", 0);
    ebb_str_printf(w->out, "name: %s\nsummary: \"%s\"\ntask: %s\n", model->name, model->summary,
                   nn_task_name(model->task));
    if (vocabulary > 0) /* of tokens that are made up */
        ebb_str_printf(w->out, "options: {vocabulary: %" PRId64 "}\n", vocabulary);
    ebb_str_add(w->out, "\ninputs:\n");
    for (size_t i = 0; i < w->small->port_count; i++) {
        remember(w, &w->inputs, w->small->inputs[i], i);
        write_input(w, i);
    }
    for (size_t i = 0; i < nn_item_count(&w->small->b); i++) {
        remember(w, &w->items, nn_item_at(&w->small->b, i)->leaf, i + 1);
        remember(w, &w->items, nn_item_at(&w->small->b, i)->id, i + 1);
    }
    find_modules(w);
    write_modules(w);
    ebb_str_add(w->out, "\nforward:\n");
    for (size_t i = 0; i < w->small->journal.count; i++)
        write_line(w, i);
    write_outputs(w);
}

static enum ebb_status write_built(struct writer *w, struct ebb_error *err)
{
    size_t items = nn_item_count(&w->small->b);
    w->modules = ebb_arena_calloc(w->arena, items + 1, sizeof *w->modules);
    w->is_inside = ebb_arena_calloc(w->arena, items + 1, sizeof *w->is_inside);
    EBB_TRY(ebb_arena_status(w->arena, err));
    if (w->small->journal.count != w->large->journal.count)
        return ebb_fail(err, EBB_EUNSUPPORTED, "model %s does other things at another batch",
                        w->config->model->name);
    write_all(w);
    EBB_TRY(ebb_str_status(w->out, err));
    if (w->problem)
        return ebb_fail(err, EBB_EUNSUPPORTED, "model %s has %s: a model file cannot say it",
                        w->config->model->name, w->problem);
    return EBB_OK;
}

enum ebb_status nn_config_write(const struct nn_config *config, struct ebb_str *out,
                                struct ebb_error *err)
{
    struct built small, large;
    struct ebb_arena arena;
    struct writer w = {
        .config = config, .small = &small, .large = &large, .out = out, .arena = &arena};
    if (config->model->task == NN_GAN)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "model %s trains a part of itself: a model file cannot say that",
                        config->model->name);
    memset(&large, 0, sizeof large);
    ebb_arena_init(&arena);
    enum ebb_status status = build(config, 2, &small, err);
    EBB_THEN(status, build(config, 3, &large, err));
    EBB_THEN(status, write_built(&w, err));
    ebb_map_fini(&w.items);
    ebb_map_fini(&w.values);
    ebb_map_fini(&w.inputs);
    unbuild(&small);
    unbuild(&large);
    ebb_arena_fini(&arena);
    return status;
}
