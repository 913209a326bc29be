/* onnx_write.c - a model as an ONNX file: the journal of its calls in evaluation, each as one or more
 * nodes (opset 17). The model is built at two batches: a size that differs is the batch. Where that
 * cannot be said in a file, all sizes are those of one batch. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "nn/onnx_write.h"

/* ---- names ------------------------------------------------------------------------------------ */

void nn_put_fail(struct nn_put *w, const char *text)
{
    if (!*w->problem)
        snprintf(w->problem, sizeof w->problem, "%s", text);
}

const char *nn_put_fresh(struct nn_put *w, const char *stem)
{
    const char *name;
    do {
        name = ebb_arena_printf(&w->arena, "%s_%zu", stem, w->next++);
        if (!name) {
            nn_put_fail(w, "out of memory");
            return "";
        }
    } while (ebb_strmap_get(&w->taken, name, strlen(name), NULL));
    return name;
}

static void take(struct nn_put *w, const char *name)
{
    if (ebb_strmap_put(&w->taken, name, strlen(name), 1, NULL) != EBB_OK)
        nn_put_fail(w, "out of memory");
}

/* Every value of a file has a name of its own: those that are given come first. */
static void take_names(struct nn_put *w)
{
    for (size_t i = 0; i < w->m->port_count; i++)
        take(w, w->m->ports[i].name);
    for (size_t i = 0; i < nn_item_count(&w->m->b); i++)
        take(w, nn_item_at(&w->m->b, i)->name);
    for (size_t i = 0; i < w->m->output_count; i++) {
        const char *name = w->m->outputs[i].name, *next;
        if (ebb_strmap_get(&w->taken, name, strlen(name), NULL)) { /* a state */
            next = ebb_arena_printf(&w->arena, "next_%s", name);
            name = next && !ebb_strmap_get(&w->taken, next, strlen(next), NULL)
                       ? next
                       : nn_put_fresh(w, name);
        }
        w->outputs[i] = name;
        take(w, name);
    }
}

static void bind(struct nn_put *w, tensor_id x, const char *name)
{
    if (ebb_map_put(&w->names, x.v, (uint64_t)(uintptr_t)name, NULL) != EBB_OK)
        nn_put_fail(w, "out of memory");
}

static const char *name_of(struct nn_put *w, tensor_id x)
{
    uint64_t at;
    if (ebb_map_get(&w->names, x.v, &at))
        return (const char *)(uintptr_t)at;
    nn_put_fail(w, "a value that no call made");
    return "";
}

const char *nn_put_in(struct nn_put *w, size_t i)
{
    return i < w->n->in_count ? name_of(w, w->n->in[i]) : "";
}

const char *nn_put_out(struct nn_put *w, size_t i)
{
    const char *name = nn_put_fresh(w, "t");
    bind(w, w->n->out[i], name);
    return name;
}

const struct tensor_view *nn_put_view(const struct nn_put *w, tensor_id x)
{
    return tensor_view_of(w->m->s, x);
}

/* ---- constants -------------------------------------------------------------------------------- */

const char *nn_put_constant(struct nn_put *w, int type, int rank, const int64_t *dims,
                            const void *data, size_t bytes)
{
    const char *name = nn_put_fresh(w, "constant");
    void *copy = ebb_arena_alloc(&w->arena, bytes + 1);
    if (!copy) {
        nn_put_fail(w, "out of memory");
        return "";
    }
    memcpy(copy, data, bytes);
    onnx_write_initializer(w->w, name, type, rank, dims, copy, bytes);
    return name;
}

void nn_put_fixed(struct nn_put *w, const char *name, int type, int rank, const int64_t *dims,
                  const void *data, size_t bytes)
{
    onnx_write_node(w->w, "Constant");
    onnx_write_out(w->w, name);
    onnx_write_tensor(w->w, "value", type, rank, dims, data, bytes);
    onnx_write_end(w->w);
}

const char *nn_put_ints(struct nn_put *w, const int64_t *v, int64_t count)
{
    return nn_put_constant(w, ONNX_INT64, 1, &count, v, (size_t)count * sizeof *v);
}

const char *nn_put_number(struct nn_put *w, double v)
{
    float f = (float)v;
    return nn_put_constant(w, ONNX_FLOAT, 0, NULL, &f, sizeof f);
}

/* ---- nodes ------------------------------------------------------------------------------------ */

void nn_put_begin(struct nn_put *w, const char *op, const char *a, const char *b, const char *c,
                  const char *result)
{
    onnx_write_node(w->w, op);
    if (a)
        onnx_write_in(w->w, a);
    if (b)
        onnx_write_in(w->w, b);
    if (c)
        onnx_write_in(w->w, c);
    onnx_write_out(w->w, result);
}

const char *nn_put_node(struct nn_put *w, const char *op, const char *a, const char *b)
{
    const char *y = nn_put_fresh(w, "t");
    nn_put_begin(w, op, a, b, NULL, y);
    onnx_write_end(w->w);
    return y;
}

void nn_put_last(struct nn_put *w, const char *op, const char *a, const char *b, const char *c)
{
    nn_put_begin(w, op, a, b, c, nn_put_out(w, 0));
    onnx_write_end(w->w);
}

const char *nn_put_transposed(struct nn_put *w, const char *x, int rank, const int64_t *perm)
{
    const char *y = nn_put_fresh(w, "t");
    nn_put_begin(w, "Transpose", x, NULL, NULL, y);
    onnx_write_ints(w->w, "perm", perm, (size_t)rank);
    onnx_write_end(w->w);
    return y;
}

const char *nn_put_swapped(struct nn_put *w, const char *x, int rank)
{
    int64_t perm[TENSOR_RANK];
    for (int d = 0; d < rank; d++)
        perm[d] = d == rank - 1 ? rank - 2 : d == rank - 2 ? rank - 1 : d;
    return nn_put_transposed(w, x, rank, perm);
}

void nn_put_dims(struct nn_put *w, int64_t *dims, int *rank)
{
    const struct tensor_view *v = nn_put_view(w, w->n->out[0]);
    int open = 0;
    *rank = v->rank;
    for (int d = 0; d < v->rank; d++) {
        dims[d] = v->dims[d];
        if (!w->large)
            continue;
        const struct tensor_view *l = tensor_view_of(w->large->s, w->n_large->out[0]);
        if (l->dims[d] != dims[d]) {
            dims[d] = -1;
            open++;
        }
    }
    w->needs_fixed |= open > 1;
}

bool nn_put_same_dims(struct nn_put *w, tensor_id x, tensor_id large)
{
    return !w->large || tensor_same_shape(nn_put_view(w, x), tensor_view_of(w->large->s, large));
}

/* ---- attributes ------------------------------------------------------------------------------- */

size_t nn_put_list(const struct nn_put *w, const char *name, size_t n, int64_t usual, int64_t *to)
{
    const struct ebb_doc_node *v = ebb_doc_get(w->attr, name);
    size_t count = v && v->kind == EBB_DOC_LIST ? v->count : v ? 1 : 0;
    for (size_t i = 0; i < (n ? n : count) && i < TENSOR_PORTS; i++)
        to[i] = !count                    ? usual
                : v->kind == EBB_DOC_LIST ? v->items[i < count ? i : count - 1]->integer
                                          : v->integer;
    return n ? n : count;
}

int64_t nn_put_integer(const struct nn_put *w, const char *name, int64_t usual)
{
    return ebb_doc_int(w->attr, name, usual);
}

double nn_put_real(const struct nn_put *w, const char *name, double usual)
{
    return ebb_doc_double(w->attr, name, usual);
}

int nn_put_axis(const struct nn_put *w, const char *name, int rank)
{
    int64_t d = nn_put_integer(w, name, -1);
    return (int)(d < 0 ? d + rank : d);
}

/* ---- calls ------------------------------------------------------------------------------------ */

static const struct ebb_doc_node *attributes(struct nn_put *w, const struct nn_note *n)
{
    struct ebb_str text = {0};
    struct ebb_json_writer json;
    const struct ebb_doc_node *map = NULL;
    if (!n->def)
        return NULL;
    ebb_jsonw_init(&json, &text, 0);
    ops_attr_write(n->def, n->attr, &json);
    if (ebb_doc_parse_json(&w->arena, "attributes", ebb_str_c(&text), text.length, &map, NULL) !=
        EBB_OK)
        nn_put_fail(w, "out of memory");
    ebb_str_fini(&text);
    return map;
}

static bool write_by(struct nn_put *w, const struct nn_put_row *row)
{
    for (; row->ops; row++)
        if (ebb_words_find(row->ops, w->n->what, strlen(w->n->what), NULL)) {
            row->write(w);
            return true;
        }
    return false;
}

static void write_note(struct nn_put *w, size_t i)
{
    char text[96];
    uint64_t at;
    w->n = &w->m->journal.notes[i];
    w->n_large = w->large ? &w->large->journal.notes[i] : NULL;
    if (ebb_map_get(&w->names, w->n->out[0].v, &at))
        return; /* said already */
    w->attr = attributes(w, w->n);
    if (write_by(w, nn_put_op_rows) || write_by(w, nn_put_layer_rows))
        return;
    snprintf(text, sizeof text, "op %s has no form in ONNX here", w->n->what);
    nn_put_fail(w, text);
}

/* ---- the file --------------------------------------------------------------------------------- */

static int type_of(const struct tensor_view *v)
{
    return v->dtype == TENSOR_I64 ? ONNX_INT64 : ONNX_FLOAT;
}

static void write_ports(struct nn_put *w)
{
    for (size_t i = 0; i < w->m->port_count; i++) {
        const struct nn_port *p = &w->m->ports[i];
        struct onnx_dim dims[TENSOR_RANK];
        for (int d = 0; d < p->view.rank; d++) {
            bool is_batch = w->large && w->large->ports[i].view.dims[d] != p->view.dims[d];
            dims[d] =
                (struct onnx_dim){.value = p->view.dims[d], .label = is_batch ? "batch" : NULL};
        }
        onnx_write_input(w->w, p->name, type_of(&p->view), p->view.rank, dims);
        bind(w, w->m->inputs[i], p->name);
    }
}

static void write_outputs(struct nn_put *w)
{
    size_t written = 0;
    for (size_t i = 0; i < w->m->output_count; i++) {
        const struct nn_output *o = &w->m->outputs[i];
        const struct tensor_view *v = nn_put_view(w, o->id);
        struct onnx_dim dims[TENSOR_RANK];
        const char *name = w->outputs[i];
        if (o->kind == NN_LOSS || o->kind == NN_METRIC)
            continue;
        for (int d = 0; d < v->rank; d++) {
            const struct tensor_view *l =
                w->large ? tensor_view_of(w->large->s, w->large->outputs[i].id) : v;
            bool is_batch = l->dims[d] != v->dims[d];
            dims[d] = (struct onnx_dim){.value = v->dims[d], .label = NULL};
            if (is_batch)
                dims[d].label = l->dims[d] == w->large->batch
                                    ? "batch"
                                    : ebb_arena_printf(&w->arena, "%s_%d", name, d);
        }
        nn_put_begin(w, "Identity", name_of(w, o->id), NULL, NULL, name);
        onnx_write_end(w->w);
        onnx_write_output(w->w, name, type_of(v), v->rank, dims);
        written++;
    }
    if (!written)
        nn_put_fail(w, "it has no results but its loss");
}

static void need(struct nn_put *w, tensor_id x)
{
    if (ebb_map_put(&w->needed, x.v, 1, NULL) != EBB_OK)
        nn_put_fail(w, "out of memory");
}

/* Backwards from the outputs. */
static void find_needed(struct nn_put *w)
{
    for (size_t i = 0; i < w->m->output_count; i++)
        if (w->m->outputs[i].kind != NN_LOSS && w->m->outputs[i].kind != NN_METRIC)
            need(w, w->m->outputs[i].id);
    for (size_t i = w->m->journal.count; i-- > 0;) {
        const struct nn_note *n = &w->m->journal.notes[i];
        bool is_needed = false;
        for (size_t k = 0; k < n->out_count; k++)
            is_needed |= ebb_map_get(&w->needed, n->out[k].v, NULL);
        for (size_t k = 0; is_needed && k < n->in_count; k++)
            need(w, n->in[k]);
    }
}

static bool is_needed(const struct nn_put *w, const struct nn_note *n)
{
    for (size_t k = 0; k < n->out_count; k++)
        if (ebb_map_get(&w->needed, n->out[k].v, NULL))
            return true;
    return false;
}

static void write_items(struct nn_put *w)
{
    for (size_t i = 0; i < nn_item_count(&w->m->b); i++) {
        const struct nn_item *item = nn_item_at(&w->m->b, i);
        const struct tensor_view *v = &item->view;
        size_t bytes = (size_t)tensor_count(v) * tensor_dtype_bytes((enum tensor_dtype)v->dtype);
        bind(w, item->id, item->name);
        if (!ebb_map_get(&w->needed, item->id.v, NULL))
            continue;
        if (nn_onnx_is_constant(item))
            nn_put_fixed(w, item->name, type_of(v), v->rank, v->dims, w->values[i], bytes);
        else
            onnx_write_initializer(w->w, item->name, type_of(v), v->rank, v->dims, w->values[i],
                                   bytes);
    }
}

static enum ebb_status write_model(struct nn_put *w, const char *path, struct ebb_error *err)
{
    take_names(w);
    find_needed(w);
    write_ports(w);
    write_items(w);
    for (size_t i = 0; i < w->m->journal.count && !*w->problem; i++)
        if (is_needed(w, &w->m->journal.notes[i]))
            write_note(w, i);
    if (!*w->problem)
        write_outputs(w);
    if (*w->problem)
        return ebb_fail(err, EBB_EUNSUPPORTED, "model %s cannot be an ONNX file: %s",
                        w->m->b.config->model->name, w->problem);
    return w->needs_fixed ? EBB_OK : onnx_writer_save(w->w, path, err);
}

static enum ebb_status write_at(const struct nn_built *m, const struct nn_built *large,
                                const void *const *values, const char *path, bool *needs_fixed,
                                struct ebb_error *err)
{
    struct nn_put w = {.m = m, .large = large, .values = values};
    ebb_arena_init(&w.arena);
    ebb_map_init(&w.names);
    ebb_map_init(&w.needed);
    ebb_strmap_init(&w.taken);
    enum ebb_status status = onnx_writer_create(&w.w, m->b.config->model->name, err);
    EBB_THEN(status, write_model(&w, path, err));
    *needs_fixed = w.needs_fixed;
    onnx_writer_destroy(w.w);
    ebb_map_fini(&w.names);
    ebb_map_fini(&w.needed);
    ebb_strmap_fini(&w.taken);
    ebb_arena_fini(&w.arena);
    return status;
}

enum ebb_status nn_config_export(const struct nn_config *config, int64_t batch,
                                 const void *const *values, const char *path, bool *is_fixed,
                                 struct ebb_error *err)
{
    struct nn_built m, large = {0};
    bool needs_fixed = false, is_open = batch == 0;
    enum ebb_status status = nn_built_open(&m, config, is_open ? 2 : batch, false, err);
    if (is_open)
        EBB_THEN(status, nn_built_open(&large, config, 3, false, err));
    if (status == EBB_OK && is_open && m.journal.count != large.journal.count)
        needs_fixed = true;
    else
        EBB_THEN(status, write_at(&m, is_open ? &large : NULL, values, path, &needs_fixed, err));
    nn_built_close(&m);
    nn_built_close(&large);
    if (status == EBB_OK && is_open && needs_fixed)
        return nn_config_export(config, 1, values, path, is_fixed, err);
    *is_fixed = !is_open;
    return status;
}
