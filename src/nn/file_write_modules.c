/* file_write_modules.c - calls whose weights were made for them, as modules of a model file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nn/file_write.h"

/* ---- initial values --------------------------------------------------------------------------- */

static const char *const kinds[] = {"constant", "uniform", "normal", "given"};

static bool same_values(const struct nn_init *a, const struct nn_init *b)
{
    return a->kind == b->kind && memcmp(&a->a, &b->a, sizeof a->a) == 0 &&
           (a->kind == NN_CONSTANT || memcmp(&a->b, &b->b, sizeof a->b) == 0);
}

static void say_init(const struct nn_writer *w, const struct nn_init *init, bool has_over,
                     struct ebb_str *out)
{
    ebb_str_printf(out, "%s(", kinds[init->kind]);
    nn_write_float(out, init->a);
    if (init->kind != NN_CONSTANT) {
        ebb_str_add(out, ", ");
        nn_write_float(out, init->b);
    }
    if (has_over && init->is_redrawn)
        ebb_str_printf(out, ", over='%s'", kinds[init->constructor]);
    if (init->copy_of)
        ebb_str_printf(out, ", copy='%s'", nn_item_at(&w->small->b, init->copy_of - 1)->name);
    ebb_str_addc(out, ')');
}

/* ", init=..." where a module's values are not the standard ones; false: a module has no such
 * values. */
static bool module_init(const struct nn_writer *w, const struct nn_item *item,
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
static const struct nn_item *beside(const struct nn_writer *w, const struct nn_item *first,
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

const struct ebb_doc_node *nn_write_attributes(struct nn_writer *w, const struct nn_note *n)
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
static bool conv_module(struct nn_writer *w, const struct nn_note *n, struct ebb_str *out)
{
    const struct nn_item *weight = nn_write_item(w, n->in[1]), *bias = NULL;
    const struct ebb_doc_node *map = nn_write_attributes(w, n);
    bool is_transposed = strncmp(n->what, "conv_transpose", 14) == 0;
    const struct tensor_view *v = &weight->view;
    int64_t groups = ebb_doc_int(map, "groups", 1), area = 1;
    if (n->in_count > 2 && !(bias = beside(w, weight, 1, "bias")))
        return false;
    if (bias && bias != nn_write_item(w, n->in[2]))
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

static bool linear_module(struct nn_writer *w, const struct nn_note *n, struct ebb_str *out)
{
    const struct nn_item *weight = nn_write_item(w, n->in[1]), *bias = NULL;
    if (weight->role != NN_WEIGHT || weight->view.rank != 2)
        return false;
    if (n->in_count > 2 &&
        (!(bias = beside(w, weight, 1, "bias")) || bias != nn_write_item(w, n->in[2])))
        return false;
    struct nn_init standard = nn_init_default(weight->view.dims[1]);
    ebb_str_printf(out, "Linear(%" PRId64 ", %" PRId64 "%s", weight->view.dims[1],
                   weight->view.dims[0], bias ? "" : ", bias=False");
    return module_init(w, weight, &standard, "init", out) &&
           (!bias || module_init(w, bias, &standard, "bias_init", out));
}

static bool embedding_module(struct nn_writer *w, const struct nn_note *n, struct ebb_str *out)
{
    const struct nn_item *table = nn_write_item(w, n->in[1]);
    struct nn_init standard = nn_init_normal(1);
    if (table->role != NN_EMBEDDING || table->view.rank != 2 || nn_write_attributes(w, n)->count)
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

static bool layer_norm_module(struct nn_writer *w, const struct nn_note *n, struct ebb_str *out)
{
    const struct nn_item *weight = nn_write_item(w, n->in[1]);
    const struct nn_item *bias = n->in_count > 2 ? beside(w, weight, 1, "bias") : NULL;
    if (!bias || bias != nn_write_item(w, n->in[2]) || weight->view.rank != 1)
        return false;
    ebb_str_printf(out, "LayerNorm(%" PRId64, weight->view.dims[0]);
    double eps = ebb_doc_double(nn_write_attributes(w, n), "eps", (double)1e-5f);
    say_eps(eps, (double)1e-5f, out);
    return true;
}

static bool is_batch_norm(const struct nn_writer *w, const struct nn_item *weight)
{
    static const char *const names[] = {"bias", "running_mean", "running_var",
                                        "num_batches_tracked"};
    for (size_t i = 0; i < 4; i++)
        if (!beside(w, weight, i + 1, names[i]))
            return false;
    return true;
}

static bool batch_norm_module(struct nn_writer *w, const struct nn_note *n, struct ebb_str *out)
{
    const struct nn_item *weight = nn_write_item(w, n->in[1]);
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
    bool (*write)(struct nn_writer *w, const struct nn_note *n, struct ebb_str *out);
    size_t items; /* it has at most */
} module_rows[] = {
    {"conv", conv_module, 2},
    {"linear", linear_module, 2},
    {"embedding", embedding_module, 1},
    {"layer_norm", layer_norm_module, 2},
    {"batch_norm", batch_norm_module, 5},
};

/* The module that this call is one of; NULL: it is written as a function. */
const char *nn_write_module(struct nn_writer *w, const struct nn_note *n, size_t *items)
{
    const struct nn_item *weight = n->in_count > 1 ? nn_write_item(w, n->in[1]) : NULL;
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
static void find_modules(struct nn_writer *w)
{
    const struct nn_journal *j = &w->small->journal;
    size_t count = 0;
    for (size_t i = 0; i < j->count; i++) {
        const struct nn_note *n = &j->notes[i];
        const char *text = nn_write_module(w, n, &count);
        if (!text)
            continue;
        size_t at = (size_t)(nn_write_item(w, n->in[1]) - nn_item_at(&w->small->b, 0));
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

static void write_item(struct nn_writer *w, const struct nn_item *item)
{
    static const char *const roles[] = {"weight", "bias", "norm", "embedding", "buffer"};
    struct ebb_str text = {0};
    const char *usual = item->view.rank > 1 ? "weight" : "bias";
    char shape[96];
    ebb_str_printf(w->out, "  %s: ", item->name);
    tensor_shape_text(&item->view, shape, sizeof shape);
    if (item->role == NN_BUFFER && item->view.dtype == TENSOR_F32) {
        ebb_str_printf(&text, "Buffer(%s, ", shape);
        nn_write_float(&text, item->init.a);
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

void nn_write_modules(struct nn_writer *w)
{
    const struct nn_builder *b = &w->small->b;
    find_modules(w);
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
