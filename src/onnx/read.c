/* read.c - ModelProto: nodes, values, initializers, inputs and outputs. Names become numbers, and
 * rule O2 is checked. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/heap.h"
#include "onnx/internal.h"

struct reading {
    struct onnx_reader r;
    struct onnx_model *model;
    struct ebb_strmap values;
    size_t value_room, node_room, initializer_room, input_room, output_room;
    uint32_t *made_by; /* per value: 1 + node, or INPUT, or 0 */
    size_t made_room;
};
#define INPUT UINT32_MAX

/* ---- shared ----------------------------------------------------------------------------------- */

enum ebb_status onnx_reader_text(struct onnx_reader *r, const struct onnx_field *f,
                                 const char **text, struct ebb_error *err)
{
    size_t n = f->bytes.end - f->bytes.at;
    if (f->kind != ONNX_BYTES)
        return onnx_wire_wrong(&f->bytes, f->at, err, "a text is of kind %d", f->kind);
    char *copy = ebb_arena_alloc(r->arena, n + 1);
    if (!copy)
        return ebb_no_memory(err, n);
    if (n)
        memcpy(copy, f->bytes.base + f->bytes.at, n);
    copy[n] = 0;
    *text = copy;
    return EBB_OK;
}

enum ebb_status onnx_reader_grow(struct onnx_reader *r, void *array, size_t *capacity, size_t count,
                                 size_t bytes, struct ebb_error *err)
{
    void *old;
    if (count < *capacity)
        return EBB_OK;
    if (count >= ONNX_NODES)
        return ebb_fail(err, EBB_ELIMIT, "%s: more than %d nodes, values or attributes", r->path,
                        ONNX_NODES);
    size_t room = *capacity ? 2 * *capacity : 4;
    void *more = ebb_arena_calloc(r->arena, room, bytes);
    if (!more)
        return ebb_no_memory(err, room * bytes);
    memcpy(&old, array, sizeof old);
    if (count)
        memcpy(more, old, count * bytes);
    memcpy(array, &more, sizeof more);
    *capacity = room;
    return EBB_OK;
}

static enum ebb_status value_of(struct reading *p, const char *name, uint32_t *value,
                                struct ebb_error *err)
{
    struct onnx_graph *g = &p->model->graph;
    uint64_t at;
    if (!*name) {
        *value = ONNX_NONE;
        return EBB_OK;
    }
    if (!ebb_strmap_get(&p->values, name, strlen(name), &at)) {
        at = g->value_count;
        EBB_TRY(onnx_reader_grow(&p->r, &p->made_by, &p->made_room, g->value_count,
                                 sizeof *p->made_by, err));
        EBB_TRY(onnx_reader_grow(&p->r, &g->values, &p->value_room, g->value_count,
                                 sizeof *g->values, err));
        EBB_TRY(ebb_strmap_put(&p->values, name, strlen(name), at, err));
        p->made_by[at] = 0;
        g->values[g->value_count++] = name;
    }
    *value = (uint32_t)at;
    return EBB_OK;
}

/* ---- attributes ------------------------------------------------------------------------------- */

enum { A_NAME = 1, A_F, A_I, A_S, A_T, A_G, A_FLOATS, A_INTS, A_STRINGS, A_TYPE = 20 };

static float float_of(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

struct lists {
    float *numbers;
    int64_t *integers;
    struct onnx_text *texts;
    size_t number_room, integer_room, text_room;
    size_t number_count, integer_count, text_count;
};

static enum ebb_status add_number(struct onnx_reader *r, struct lists *l, float v,
                                  struct ebb_error *err)
{
    EBB_TRY(onnx_reader_grow(r, &l->numbers, &l->number_room, l->number_count, sizeof v, err));
    l->numbers[l->number_count++] = v;
    return EBB_OK;
}

static enum ebb_status add_integer(struct onnx_reader *r, struct lists *l, int64_t v,
                                   struct ebb_error *err)
{
    EBB_TRY(onnx_reader_grow(r, &l->integers, &l->integer_room, l->integer_count, sizeof v, err));
    l->integers[l->integer_count++] = v;
    return EBB_OK;
}

static enum ebb_status read_lists(struct onnx_reader *r, struct onnx_field *f, struct lists *l,
                                  struct ebb_error *err)
{
    struct onnx_wire *w = &f->bytes;
    uint64_t v;
    if (f->number == A_STRINGS) {
        EBB_TRY(
            onnx_reader_grow(r, &l->texts, &l->text_room, l->text_count, sizeof *l->texts, err));
        EBB_TRY(onnx_reader_text(r, f, &l->texts[l->text_count].text, err));
        l->texts[l->text_count++].length = w->end - w->at;
        return EBB_OK;
    }
    if (f->kind != ONNX_BYTES)
        return f->number == A_INTS ? add_integer(r, l, (int64_t)f->value, err)
                                   : add_number(r, l, float_of(f->value), err);
    while (w->at < w->end) {
        if (f->number == A_INTS) {
            EBB_TRY(onnx_wire_varint(w, &v, err));
            EBB_TRY(add_integer(r, l, (int64_t)v, err));
            continue;
        }
        if (w->end - w->at < sizeof(float))
            return onnx_wire_wrong(w, w->at, err, "a list ends inside a number");
        float one;
        memcpy(&one, w->base + w->at, sizeof one);
        w->at += sizeof one;
        EBB_TRY(add_number(r, l, one, err));
    }
    return EBB_OK;
}

/* Models before attributes had types: what is there tells. */
static int kind_of(const struct onnx_attr *a, const struct lists *l, uint32_t seen)
{
    if (a->kind)
        return a->kind;
    return l->integer_count  ? ONNX_ATTR_INTS
           : l->number_count ? ONNX_ATTR_FLOATS
           : l->text_count   ? ONNX_ATTR_STRINGS
           : seen            ? (int)seen - 1
                             : ONNX_ATTR_INTS;
}

static enum ebb_status read_attr(struct reading *p, struct onnx_wire w, struct onnx_attr *a,
                                 struct ebb_error *err)
{
    struct lists l = {0};
    struct onnx_field f;
    struct onnx_tensor *t;
    uint32_t seen = 0;
    bool more;
    *a = (struct onnx_attr){.name = "", .text = {"", 0}};
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            break;
        if (f.number >= A_F && f.number <= A_G)
            seen = f.number;
        switch (f.number) {
        case A_NAME:
            EBB_TRY(onnx_reader_text(&p->r, &f, &a->name, err));
            break;
        case A_F:
            a->number = (double)float_of(f.value);
            break;
        case A_I:
            a->integer = (int64_t)f.value;
            break;
        case A_S:
            EBB_TRY(onnx_reader_text(&p->r, &f, &a->text.text, err));
            a->text.length = f.bytes.end - f.bytes.at;
            break;
        case A_T:
            t = ebb_arena_alloc(p->r.arena, sizeof *t);
            if (!t)
                return ebb_no_memory(err, sizeof *t);
            if (f.kind != ONNX_BYTES)
                return onnx_wire_wrong(&w, f.at, err, "attribute '%s' is no tensor", a->name);
            EBB_TRY(onnx_reader_tensor(&p->r, f.bytes, t, err));
            a->tensor = t;
            break;
        case A_FLOATS:
        case A_INTS:
        case A_STRINGS:
            EBB_TRY(read_lists(&p->r, &f, &l, err));
            break;
        case A_TYPE:
            a->kind = f.value > 1000 ? 1000 : (int)f.value;
            break;
        default: /* graphs inside: who needs one refuses its op */
            break;
        }
    }
    a->kind = kind_of(a, &l, seen);
    a->numbers = l.numbers;
    a->integers = l.integers;
    a->texts = l.texts;
    a->count = a->kind == ONNX_ATTR_INTS     ? l.integer_count
               : a->kind == ONNX_ATTR_FLOATS ? l.number_count
                                             : l.text_count;
    return EBB_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------ */

enum { N_INPUT = 1, N_OUTPUT, N_NAME, N_OP, N_ATTR, N_DOMAIN = 7 };

struct node_lists {
    uint32_t *in, *out;
    struct onnx_attr *attrs;
    size_t in_room, out_room, attr_room;
};

static enum ebb_status add_value(struct reading *p, const struct onnx_field *f, uint32_t **list,
                                 size_t *room, size_t *count, struct ebb_error *err)
{
    const char *name;
    EBB_TRY(onnx_reader_text(&p->r, f, &name, err));
    EBB_TRY(onnx_reader_grow(&p->r, list, room, *count, sizeof **list, err));
    EBB_TRY(value_of(p, name, &(*list)[*count], err));
    ++*count;
    return EBB_OK;
}

static enum ebb_status read_node(struct reading *p, struct onnx_wire w, struct onnx_node *n,
                                 struct ebb_error *err)
{
    struct node_lists l = {0};
    struct onnx_field f;
    bool more;
    *n = (struct onnx_node){.op = "", .domain = "", .name = "", .at = w.at};
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            break;
        if (f.number == N_INPUT)
            EBB_TRY(add_value(p, &f, &l.in, &l.in_room, &n->in_count, err));
        else if (f.number == N_OUTPUT)
            EBB_TRY(add_value(p, &f, &l.out, &l.out_room, &n->out_count, err));
        else if (f.number == N_NAME)
            EBB_TRY(onnx_reader_text(&p->r, &f, &n->name, err));
        else if (f.number == N_OP)
            EBB_TRY(onnx_reader_text(&p->r, &f, &n->op, err));
        else if (f.number == N_DOMAIN)
            EBB_TRY(onnx_reader_text(&p->r, &f, &n->domain, err));
        else if (f.number == N_ATTR && f.kind == ONNX_BYTES) {
            EBB_TRY(onnx_reader_grow(&p->r, &l.attrs, &l.attr_room, n->attr_count, sizeof *l.attrs,
                                     err));
            EBB_TRY(read_attr(p, f.bytes, &l.attrs[n->attr_count], err));
            n->attr_count++;
        }
    }
    if (strcmp(n->domain, "ai.onnx") == 0)
        n->domain = "";
    n->in = l.in;
    n->out = l.out;
    n->attrs = l.attrs;
    return EBB_OK;
}

/* ---- inputs and outputs ----------------------------------------------------------------------- */

static enum ebb_status read_dim(struct reading *p, struct onnx_wire w, struct onnx_dim *dim,
                                struct ebb_error *err)
{
    struct onnx_field f;
    bool more;
    *dim = (struct onnx_dim){.value = -1};
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            return EBB_OK;
        if (f.number == 1 && f.kind == ONNX_VARINT)
            dim->value = (int64_t)f.value < 0 ? -1 : (int64_t)f.value;
        else if (f.number == 2)
            EBB_TRY(onnx_reader_text(&p->r, &f, &dim->label, err));
    }
}

static enum ebb_status read_shape(struct reading *p, struct onnx_wire w, struct onnx_port *port,
                                  struct ebb_error *err)
{
    struct onnx_field f;
    bool more;
    port->rank = 0;
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            return EBB_OK;
        if (f.number != 1 || f.kind != ONNX_BYTES)
            continue;
        if (port->rank == ONNX_RANK)
            return onnx_wire_wrong(&w, f.at, err, "'%s' has more than %d dimensions", port->name,
                                   ONNX_RANK);
        EBB_TRY(read_dim(p, f.bytes, &port->dims[port->rank++], err));
    }
}

/* TypeProto, then TypeProto.Tensor. */
static enum ebb_status read_type(struct reading *p, struct onnx_wire w, bool is_inner,
                                 struct onnx_port *port, struct ebb_error *err)
{
    struct onnx_field f;
    bool more;
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            return EBB_OK;
        if (!is_inner && f.number == 1 && f.kind == ONNX_BYTES) {
            port->is_tensor = true;
            EBB_TRY(read_type(p, f.bytes, true, port, err));
        } else if (is_inner && f.number == 1 && f.kind == ONNX_VARINT) {
            port->type = f.value > 1000 ? 1000 : (int)f.value;
        } else if (is_inner && f.number == 2 && f.kind == ONNX_BYTES) {
            EBB_TRY(read_shape(p, f.bytes, port, err));
        }
    }
}

static enum ebb_status read_port(struct reading *p, struct onnx_wire w, struct onnx_port *port,
                                 struct ebb_error *err)
{
    struct onnx_field f;
    bool more;
    *port = (struct onnx_port){.name = "", .rank = -1};
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            break;
        if (f.number == 1)
            EBB_TRY(onnx_reader_text(&p->r, &f, &port->name, err));
        else if (f.number == 2 && f.kind == ONNX_BYTES)
            EBB_TRY(read_type(p, f.bytes, false, port, err));
    }
    EBB_TRY(value_of(p, port->name, &port->value, err));
    if (port->value == ONNX_NONE)
        return onnx_wire_wrong(&w, w.at, err, "an input or output has no name");
    return EBB_OK;
}

/* ---- the graph -------------------------------------------------------------------------------- */

enum { G_NODE = 1, G_NAME, G_INITIALIZER = 5, G_INPUT = 11, G_OUTPUT, G_SPARSE = 15 };

static enum ebb_status read_graph(struct reading *p, struct onnx_wire w, struct ebb_error *err)
{
    struct onnx_graph *g = &p->model->graph;
    struct onnx_reader *r = &p->r;
    struct onnx_field f;
    bool more;
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            return EBB_OK;
        if (f.kind != ONNX_BYTES)
            continue;
        switch (f.number) {
        case G_NODE:
            EBB_TRY(onnx_reader_grow(r, &g->nodes, &p->node_room, g->node_count, sizeof *g->nodes,
                                     err));
            EBB_TRY(read_node(p, f.bytes, &g->nodes[g->node_count], err));
            g->node_count++;
            break;
        case G_NAME:
            EBB_TRY(onnx_reader_text(r, &f, &g->name, err));
            break;
        case G_INITIALIZER:
            EBB_TRY(onnx_reader_grow(r, &g->initializers, &p->initializer_room,
                                     g->initializer_count, sizeof *g->initializers, err));
            EBB_TRY(onnx_reader_tensor(r, f.bytes, &g->initializers[g->initializer_count], err));
            if (!*g->initializers[g->initializer_count].name)
                return onnx_wire_wrong(&w, f.at, err, "an initializer has no name");
            g->initializer_count++;
            break;
        case G_INPUT:
            EBB_TRY(onnx_reader_grow(r, &g->inputs, &p->input_room, g->input_count,
                                     sizeof *g->inputs, err));
            EBB_TRY(read_port(p, f.bytes, &g->inputs[g->input_count], err));
            g->input_count++;
            break;
        case G_OUTPUT:
            EBB_TRY(onnx_reader_grow(r, &g->outputs, &p->output_room, g->output_count,
                                     sizeof *g->outputs, err));
            EBB_TRY(read_port(p, f.bytes, &g->outputs[g->output_count], err));
            g->output_count++;
            break;
        case G_SPARSE:
            return ebb_fail(err, EBB_EUNSUPPORTED, "%s: byte %zu: sparse initializers are not read",
                            r->path, f.at);
        default:
            break;
        }
    }
}

/* Values that initializers make; inputs of the same name are theirs (IR 3 lists weights twice). */
static enum ebb_status place_initializers(struct reading *p, struct ebb_error *err)
{
    struct onnx_graph *g = &p->model->graph;
    g->initializer_values =
        ebb_arena_calloc(p->r.arena, g->initializer_count + 1, sizeof *g->initializer_values);
    if (!g->initializer_values)
        return ebb_no_memory(err, g->initializer_count * sizeof *g->initializer_values);
    for (size_t i = 0; i < g->initializer_count; i++) {
        uint32_t *value = &g->initializer_values[i];
        EBB_TRY(value_of(p, g->initializers[i].name, value, err));
        if (p->made_by[*value])
            return ebb_fail(err, EBB_EINPUT, "%s: initializer '%s' is there twice", p->r.path,
                            g->initializers[i].name);
        p->made_by[*value] = INPUT;
    }
    size_t kept = 0;
    for (size_t i = 0; i < g->input_count; i++)
        if (!p->made_by[g->inputs[i].value])
            g->inputs[kept++] = g->inputs[i];
    g->input_count = kept;
    for (size_t i = 0; i < g->input_count; i++) {
        uint32_t *made = &p->made_by[g->inputs[i].value];
        if (*made)
            return ebb_fail(err, EBB_EINPUT, "%s: input '%s' is there twice", p->r.path,
                            g->inputs[i].name);
        *made = INPUT;
    }
    return EBB_OK;
}

static const char *noun(const struct onnx_node *n)
{
    return *n->name ? n->name : n->op;
}

/* O2. */
static enum ebb_status check_order(struct reading *p, struct ebb_error *err)
{
    struct onnx_graph *g = &p->model->graph;
    for (size_t i = 0; i < g->node_count; i++) {
        const struct onnx_node *n = &g->nodes[i];
        for (size_t k = 0; k < n->in_count; k++)
            if (n->in[k] != ONNX_NONE && !p->made_by[n->in[k]])
                return ebb_fail(err, EBB_EINPUT,
                                "%s: byte %" PRIu64 ": node %zu (%s) reads '%s', which nothing "
                                "before it makes: the nodes form a cycle, are out of order, or "
                                "lack an input",
                                p->r.path, n->at, i, noun(n), g->values[n->in[k]]);
        for (size_t k = 0; k < n->out_count; k++) {
            if (n->out[k] == ONNX_NONE)
                continue;
            if (p->made_by[n->out[k]])
                return ebb_fail(err, EBB_EINPUT,
                                "%s: byte %" PRIu64 ": node %zu (%s) makes '%s' a second time",
                                p->r.path, n->at, i, noun(n), g->values[n->out[k]]);
            p->made_by[n->out[k]] = (uint32_t)i + 1;
        }
    }
    for (size_t i = 0; i < g->output_count; i++)
        if (!p->made_by[g->outputs[i].value])
            return ebb_fail(err, EBB_EINPUT, "%s: nothing makes output '%s'", p->r.path,
                            g->outputs[i].name);
    return EBB_OK;
}

/* ---- the model -------------------------------------------------------------------------------- */

enum { M_IR = 1, M_PRODUCER, M_GRAPH = 7, M_OPSET, M_FUNCTIONS = 25 };

static enum ebb_status read_opset(struct reading *p, struct onnx_wire w, struct ebb_error *err)
{
    const char *domain = "";
    int64_t version = 0;
    struct onnx_field f;
    bool more;
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            break;
        if (f.number == 1)
            EBB_TRY(onnx_reader_text(&p->r, &f, &domain, err));
        else if (f.number == 2)
            version = (int64_t)f.value;
    }
    if (!*domain || strcmp(domain, "ai.onnx") == 0)
        p->model->opset = version;
    return EBB_OK;
}

static enum ebb_status read_model(struct reading *p, struct onnx_wire w, struct ebb_error *err)
{
    struct onnx_model *m = p->model;
    struct onnx_wire graph = {0};
    struct onnx_field f;
    bool more, has_graph = false;
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            break;
        if (f.number == M_IR && f.kind == ONNX_VARINT)
            m->ir_version = (int64_t)f.value;
        else if (f.number == M_PRODUCER)
            EBB_TRY(onnx_reader_text(&p->r, &f, &m->producer, err));
        else if (f.number == M_OPSET && f.kind == ONNX_BYTES)
            EBB_TRY(read_opset(p, f.bytes, err));
        else if (f.number == M_GRAPH && f.kind == ONNX_BYTES) {
            graph = f.bytes;
            has_graph = true;
        } else if (f.number == M_FUNCTIONS)
            return ebb_fail(err, EBB_EUNSUPPORTED,
                            "%s: byte %zu: functions of a model are not read (export without them)",
                            p->r.path, f.at);
    }
    if (!has_graph || m->ir_version < 1)
        return ebb_fail(err, EBB_EINPUT, "%s: this is no ONNX model: it has no %s", p->r.path,
                        has_graph ? "version" : "graph");
    EBB_TRY(read_graph(p, graph, err));
    EBB_TRY(place_initializers(p, err));
    return check_order(p, err);
}

enum ebb_status onnx_read(struct ebb_arena *arena, const char *path, const void *bytes,
                          size_t length, const struct onnx_model **model, struct ebb_error *err)
{
    struct onnx_model *m = ebb_arena_calloc(arena, 1, sizeof *m);
    char *name = ebb_arena_strndup(arena, path, strlen(path));
    struct reading p = {.r = {.arena = arena, .path = name}, .model = m};
    if (!m || !name)
        return ebb_no_memory(err, sizeof *m);
    m->path = name;
    m->producer = "";
    m->graph.name = "";
    ebb_strmap_init(&p.values);
    enum ebb_status status = read_model(&p, (struct onnx_wire){bytes, 0, length, name}, err);
    ebb_strmap_fini(&p.values);
    for (struct onnx_beside *b = p.r.beside; status == EBB_OK && b; b = b->next)
        m->beside_count++;
    m->beside = ebb_arena_calloc(arena, m->beside_count + 1, sizeof *m->beside);
    size_t n = 0;
    for (struct onnx_beside *b = p.r.beside; m->beside && n < m->beside_count; b = b->next)
        m->beside[n++] = b->location;
    if (status == EBB_OK && !m->beside)
        status = ebb_no_memory(err, 0);
    struct ebb_sha256 hash;
    if (status == EBB_OK) {
        ebb_sha256_init(&hash);
        ebb_sha256_add(&hash, bytes, length);
        status = ebb_sha256_text(&hash, m->sha256, err);
    }
    if (status == EBB_OK)
        *model = m;
    return status;
}

static void close_view(void *view)
{
    ebb_file_view_close(view);
}

enum ebb_status onnx_open(struct ebb_arena *arena, const char *path,
                          const struct onnx_model **model, struct ebb_error *err)
{
    struct ebb_file_view *view = ebb_arena_alloc(arena, sizeof *view);
    if (!view)
        return ebb_no_memory(err, sizeof *view);
    EBB_TRY(ebb_file_view_open(view, path, SIZE_MAX, err));
    if (!ebb_arena_defer(arena, close_view, view)) {
        ebb_file_view_close(view);
        return ebb_no_memory(err, 0);
    }
    return onnx_read(arena, path, view->data, view->length, model, err);
}

enum ebb_status onnx_read_tensor(struct ebb_arena *arena, const char *path, const void *bytes,
                                 size_t length, struct onnx_tensor *tensor, struct ebb_error *err)
{
    struct onnx_reader r = {.arena = arena, .path = path};
    return onnx_reader_tensor(&r, (struct onnx_wire){bytes, 0, length, path}, tensor, err);
}

/* ---- attributes of a node --------------------------------------------------------------------- */

const struct onnx_attr *onnx_attr_find(const struct onnx_node *node, const char *name)
{
    for (size_t i = 0; i < node->attr_count; i++)
        if (strcmp(node->attrs[i].name, name) == 0)
            return &node->attrs[i];
    return NULL;
}

int64_t onnx_attr_int(const struct onnx_node *node, const char *name, int64_t fallback)
{
    const struct onnx_attr *a = onnx_attr_find(node, name);
    return a && a->kind == ONNX_ATTR_INT ? a->integer : fallback;
}

double onnx_attr_number(const struct onnx_node *node, const char *name, double fallback)
{
    const struct onnx_attr *a = onnx_attr_find(node, name);
    return a && a->kind == ONNX_ATTR_FLOAT ? a->number : fallback;
}

const char *onnx_attr_text(const struct onnx_node *node, const char *name, const char *fallback)
{
    const struct onnx_attr *a = onnx_attr_find(node, name);
    return a && a->kind == ONNX_ATTR_STRING ? a->text.text : fallback;
}

const int64_t *onnx_attr_ints(const struct onnx_node *node, const char *name, size_t *count)
{
    static const int64_t none[1] = {0};
    const struct onnx_attr *a = onnx_attr_find(node, name);
    *count = a && a->kind == ONNX_ATTR_INTS ? a->count : 0;
    return a && a->kind == ONNX_ATTR_INTS ? (a->integers ? a->integers : none) : NULL;
}
