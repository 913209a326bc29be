/* read.c - ModelProto: nodes, values, initializers, inputs and outputs. Names become numbers, and
 * rule O2 is checked. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/heap.h"
#include "onnx/internal.h"

struct list {
    void *items;
    size_t room, count;
};

struct reading {
    struct onnx_reader r;
    struct onnx_model *model;
    int64_t ir_version;
    const char *producer, *graph_name;
    struct onnx_wire graph;
    bool has_graph;
    struct list nodes, initializers, inputs, outputs;
    struct ebb_strmap values;
    size_t value_room;
    uint32_t *made_by; /* per value: 1 + node, or INPUT, or 0 */
    size_t made_room;
};
#define INPUT UINT32_MAX

/* Rows of messages. */
#define OWN(n, wire_, read_)                                                                       \
    {                                                                                              \
        .number = (n), .wire = (wire_), .read = (read_)                                            \
    }
#define WITHIN(n, rows_)                                                                           \
    {                                                                                              \
        .number = (n), .wire = ONNX_BYTES, .kind = ONNX_ROW_WITHIN, .rows = (rows_)                \
    }
#define TEXT(n, type, member) ONNX_ROW_OF(n, ONNX_ANY, ONNX_ROW_TEXT, type, member)
#define SMALL(n, type, member) ONNX_ROW_OF(n, ONNX_ANY, ONNX_ROW_SMALL, type, member)
#define INT(n, type, member) ONNX_ROW_OF(n, ONNX_ANY, ONNX_ROW_INT, type, member)

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

/* Room for one more; all in the arena, so that doubling wastes at most as much again. */
static enum ebb_status grow_array(struct onnx_reader *r, void *array, size_t *capacity,
                                  size_t count, size_t bytes, struct ebb_error *err)
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
        EBB_TRY(
            grow_array(&p->r, &p->made_by, &p->made_room, g->value_count, sizeof *p->made_by, err));
        EBB_TRY(
            grow_array(&p->r, &g->values, &p->value_room, g->value_count, sizeof *g->values, err));
        EBB_TRY(ebb_strmap_put(&p->values, name, strlen(name), at, err));
        p->made_by[at] = 0;
        g->values[g->value_count++] = name;
    }
    *value = (uint32_t)at;
    return EBB_OK;
}

/* ---- messages ---------------------------------------------------------------------------------- */

static enum ebb_status take_field(struct onnx_reader *r, const struct onnx_row *row,
                                  struct onnx_field *f, void *record, struct ebb_error *err)
{
    char *to = (char *)record + row->at;
    const char *text;
    int64_t integer = (int64_t)f->value;
    int small = f->value > 1000 ? 1000 : (int)f->value;
    switch (row->kind) {
    case ONNX_ROW_TEXT:
        EBB_TRY(onnx_reader_text(r, f, &text, err));
        memcpy(to, &text, sizeof text);
        return EBB_OK;
    case ONNX_ROW_INT:
        memcpy(to, &integer, sizeof integer);
        return EBB_OK;
    case ONNX_ROW_SMALL:
        memcpy(to, &small, sizeof small);
        return EBB_OK;
    case ONNX_ROW_WITHIN:
        return onnx_reader_message(r, f->bytes, row->rows, record, err);
    default:
        return row->read(record, f, err);
    }
}

enum ebb_status onnx_reader_message(struct onnx_reader *r, struct onnx_wire w,
                                    const struct onnx_row *rows, void *record,
                                    struct ebb_error *err)
{
    struct onnx_field f;
    bool more;
    for (;;) {
        EBB_TRY(onnx_wire_next(&w, &f, &more, err));
        if (!more)
            return EBB_OK;
        for (const struct onnx_row *row = rows; row->number; row++)
            if (row->number == f.number && (row->wire == ONNX_ANY || row->wire == f.kind))
                EBB_TRY(take_field(r, row, &f, record, err));
    }
}

/* ---- attributes ------------------------------------------------------------------------------- */

enum { A_NAME = 1, A_F, A_I, A_S, A_T, A_G, A_FLOATS, A_INTS, A_STRINGS, A_TYPE = 20 };

struct attr_reading {
    struct reading *p;
    struct onnx_attr a;
    struct list numbers, integers, texts;
    uint32_t seen; /* of the fields that hold one value: the last */
};

static float float_of(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

static enum ebb_status add(struct reading *p, struct list *l, const void *item, size_t bytes,
                           struct ebb_error *err)
{
    EBB_TRY(grow_array(&p->r, &l->items, &l->room, l->count, bytes, err));
    memcpy((char *)l->items + bytes * l->count++, item, bytes);
    return EBB_OK;
}

static enum ebb_status add_float(struct attr_reading *x, uint64_t bits, struct ebb_error *err)
{
    float v = float_of(bits);
    return add(x->p, &x->numbers, &v, sizeof v, err);
}

static enum ebb_status add_integer(struct attr_reading *x, uint64_t bits, struct ebb_error *err)
{
    int64_t v = (int64_t)bits;
    return add(x->p, &x->integers, &v, sizeof v, err);
}

/* One by one, or packed. */
static enum ebb_status read_floats(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct onnx_wire *w = &f->bytes;
    if (f->kind != ONNX_BYTES)
        return add_float(record, f->value, err);
    while (w->at < w->end) {
        uint32_t bits;
        if (w->end - w->at < sizeof bits)
            return onnx_wire_wrong(w, w->at, err, "a list ends inside a number");
        memcpy(&bits, w->base + w->at, sizeof bits);
        w->at += sizeof bits;
        EBB_TRY(add_float(record, bits, err));
    }
    return EBB_OK;
}

static enum ebb_status read_ints(void *record, struct onnx_field *f, struct ebb_error *err)
{
    uint64_t v;
    if (f->kind != ONNX_BYTES)
        return add_integer(record, f->value, err);
    while (f->bytes.at < f->bytes.end) {
        EBB_TRY(onnx_wire_varint(&f->bytes, &v, err));
        EBB_TRY(add_integer(record, v, err));
    }
    return EBB_OK;
}

static enum ebb_status read_strings(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct attr_reading *x = record;
    struct onnx_text t = {.length = f->bytes.end - f->bytes.at};
    EBB_TRY(onnx_reader_text(&x->p->r, f, &t.text, err));
    return add(x->p, &x->texts, &t, sizeof t, err);
}

static enum ebb_status read_single(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct attr_reading *x = record;
    struct onnx_tensor *t;
    x->seen = f->number;
    switch (f->number) {
    case A_F:
        x->a.number = (double)float_of(f->value);
        return EBB_OK;
    case A_I:
        x->a.integer = (int64_t)f->value;
        return EBB_OK;
    case A_S:
        x->a.text.length = f->bytes.end - f->bytes.at;
        return onnx_reader_text(&x->p->r, f, &x->a.text.text, err);
    case A_T:
        t = ebb_arena_alloc(x->p->r.arena, sizeof *t);
        if (!t)
            return ebb_no_memory(err, sizeof *t);
        if (f->kind != ONNX_BYTES)
            return onnx_wire_wrong(&f->bytes, f->at, err, "attribute '%s' is no tensor", x->a.name);
        x->a.tensor = t;
        return onnx_reader_tensor(&x->p->r, f->bytes, t, err);
    default: /* graphs inside: who needs one refuses its op */
        return EBB_OK;
    }
}

static const struct onnx_row attr_rows[] = {
    TEXT(A_NAME, attr_reading, a.name),
    OWN(A_F, ONNX_ANY, read_single),
    OWN(A_I, ONNX_ANY, read_single),
    OWN(A_S, ONNX_ANY, read_single),
    OWN(A_T, ONNX_ANY, read_single),
    OWN(A_G, ONNX_ANY, read_single),
    OWN(A_FLOATS, ONNX_ANY, read_floats),
    OWN(A_INTS, ONNX_ANY, read_ints),
    OWN(A_STRINGS, ONNX_ANY, read_strings),
    SMALL(A_TYPE, attr_reading, a.kind),
    {0},
};

/* Models before attributes had types: what is there tells. */
static int kind_of(const struct attr_reading *x)
{
    if (x->a.kind)
        return x->a.kind;
    return x->integers.count  ? ONNX_ATTR_INTS
           : x->numbers.count ? ONNX_ATTR_FLOATS
           : x->texts.count   ? ONNX_ATTR_STRINGS
           : x->seen          ? (int)x->seen - 1
                              : ONNX_ATTR_INTS;
}

/* ---- nodes ------------------------------------------------------------------------------------ */

enum { N_INPUT = 1, N_OUTPUT, N_NAME, N_OP, N_ATTR, N_DOMAIN = 7 };

struct node_reading {
    struct reading *p;
    struct onnx_node n;
    struct list in, out, attrs;
};

static enum ebb_status read_operand(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct node_reading *x = record;
    const char *name = "";
    uint32_t value;
    EBB_TRY(onnx_reader_text(&x->p->r, f, &name, err));
    EBB_TRY(value_of(x->p, name, &value, err));
    return add(x->p, f->number == N_INPUT ? &x->in : &x->out, &value, sizeof value, err);
}

static enum ebb_status read_attr(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct node_reading *node = record;
    struct attr_reading x = {.p = node->p, .a = {.name = "", .text = {"", 0}}};
    EBB_TRY(onnx_reader_message(&x.p->r, f->bytes, attr_rows, &x, err));
    x.a.kind = kind_of(&x);
    x.a.numbers = x.numbers.items;
    x.a.integers = x.integers.items;
    x.a.texts = x.texts.items;
    x.a.count = x.a.kind == ONNX_ATTR_INTS     ? x.integers.count
                : x.a.kind == ONNX_ATTR_FLOATS ? x.numbers.count
                                               : x.texts.count;
    return add(x.p, &node->attrs, &x.a, sizeof x.a, err);
}

static const struct onnx_row node_rows[] = {
    OWN(N_INPUT, ONNX_ANY, read_operand),
    OWN(N_OUTPUT, ONNX_ANY, read_operand),
    TEXT(N_NAME, node_reading, n.name),
    TEXT(N_OP, node_reading, n.op),
    OWN(N_ATTR, ONNX_BYTES, read_attr),
    TEXT(N_DOMAIN, node_reading, n.domain),
    {0},
};

static enum ebb_status read_node(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct node_reading x = {.p = record,
                             .n = {.op = "", .domain = "", .name = "", .at = f->bytes.at}};
    EBB_TRY(onnx_reader_message(&x.p->r, f->bytes, node_rows, &x, err));
    if (strcmp(x.n.domain, "ai.onnx") == 0)
        x.n.domain = "";
    x.n.in = x.in.items;
    x.n.out = x.out.items;
    x.n.attrs = x.attrs.items;
    x.n.in_count = x.in.count;
    x.n.out_count = x.out.count;
    x.n.attr_count = x.attrs.count;
    return add(x.p, &x.p->nodes, &x.n, sizeof x.n, err);
}

/* ---- inputs and outputs ----------------------------------------------------------------------- */

struct port_reading {
    struct reading *p;
    struct onnx_port port;
};

static const struct onnx_row dim_rows[] = {
    INT(1, onnx_dim, value),
    TEXT(2, onnx_dim, label),
    {0},
};

static enum ebb_status read_dim(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct port_reading *x = record;
    if (x->port.rank == ONNX_RANK)
        return onnx_wire_wrong(&f->bytes, f->at, err, "'%s' has more than %d dimensions",
                               x->port.name, ONNX_RANK);
    struct onnx_dim *dim = &x->port.dims[x->port.rank++];
    *dim = (struct onnx_dim){.value = -1};
    EBB_TRY(onnx_reader_message(&x->p->r, f->bytes, dim_rows, dim, err));
    dim->value = dim->value < 0 ? -1 : dim->value;
    return EBB_OK;
}

static const struct onnx_row shape_rows[] = {OWN(1, ONNX_BYTES, read_dim), {0}};

static enum ebb_status read_shape(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct port_reading *x = record;
    x->port.rank = 0;
    return onnx_reader_message(&x->p->r, f->bytes, shape_rows, x, err);
}

static const struct onnx_row tensor_type_rows[] = {
    SMALL(1, port_reading, port.type), OWN(2, ONNX_BYTES, read_shape), {0}};

static enum ebb_status read_tensor_type(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct port_reading *x = record;
    x->port.is_tensor = true;
    return onnx_reader_message(&x->p->r, f->bytes, tensor_type_rows, x, err);
}

static const struct onnx_row type_rows[] = {OWN(1, ONNX_BYTES, read_tensor_type), {0}};
static const struct onnx_row port_rows[] = {
    TEXT(1, port_reading, port.name), WITHIN(2, type_rows), {0}};

enum { G_NODE = 1, G_NAME, G_INITIALIZER = 5, G_INPUT = 11, G_OUTPUT, G_SPARSE = 15 };

static enum ebb_status read_port(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct reading *p = record;
    struct port_reading x = {.p = p, .port = {.name = "", .rank = -1}};
    EBB_TRY(onnx_reader_message(&p->r, f->bytes, port_rows, &x, err));
    EBB_TRY(value_of(p, x.port.name, &x.port.value, err));
    if (x.port.value == ONNX_NONE)
        return onnx_wire_wrong(&f->bytes, f->bytes.end, err, "an input or output has no name");
    return add(p, f->number == G_INPUT ? &p->inputs : &p->outputs, &x.port, sizeof x.port, err);
}

/* ---- the graph -------------------------------------------------------------------------------- */

static enum ebb_status read_initializer(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct reading *p = record;
    struct onnx_tensor t;
    EBB_TRY(onnx_reader_tensor(&p->r, f->bytes, &t, err));
    if (!*t.name)
        return onnx_wire_wrong(&f->bytes, f->at, err, "an initializer has no name");
    return add(p, &p->initializers, &t, sizeof t, err);
}

static enum ebb_status refuse(void *record, struct onnx_field *f, struct ebb_error *err)
{
    const struct reading *p = record;
    return ebb_fail(err, EBB_EUNSUPPORTED, "%s: byte %zu: %s", p->r.path, f->at,
                    f->number == G_SPARSE
                        ? "sparse initializers are not read"
                        : "functions of a model are not read (export without them)");
}

static const struct onnx_row graph_rows[] = {
    OWN(G_NODE, ONNX_BYTES, read_node),
    TEXT(G_NAME, reading, graph_name),
    OWN(G_INITIALIZER, ONNX_BYTES, read_initializer),
    OWN(G_INPUT, ONNX_BYTES, read_port),
    OWN(G_OUTPUT, ONNX_BYTES, read_port),
    OWN(G_SPARSE, ONNX_BYTES, refuse),
    {0},
};

static enum ebb_status read_graph(struct reading *p, struct onnx_wire w, struct ebb_error *err)
{
    struct onnx_graph *g = &p->model->graph;
    EBB_TRY(onnx_reader_message(&p->r, w, graph_rows, p, err));
    g->name = p->graph_name;
    g->nodes = p->nodes.items;
    g->node_count = p->nodes.count;
    g->initializers = p->initializers.items;
    g->initializer_count = p->initializers.count;
    g->inputs = p->inputs.items;
    g->input_count = p->inputs.count;
    g->outputs = p->outputs.items;
    g->output_count = p->outputs.count;
    return EBB_OK;
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

struct opset {
    const char *domain;
    int64_t version;
};

static const struct onnx_row opset_rows[] = {
    TEXT(1, opset, domain),
    INT(2, opset, version),
    {0},
};

static enum ebb_status read_opset(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct reading *p = record;
    struct opset o = {.domain = ""};
    EBB_TRY(onnx_reader_message(&p->r, f->bytes, opset_rows, &o, err));
    if (!*o.domain || strcmp(o.domain, "ai.onnx") == 0)
        p->model->opset = o.version;
    return EBB_OK;
}

/* Read when the versions are known. */
static enum ebb_status find_graph(void *record, struct onnx_field *f, struct ebb_error *err)
{
    struct reading *p = record;
    (void)err;
    p->graph = f->bytes;
    p->has_graph = true;
    return EBB_OK;
}

static const struct onnx_row model_rows[] = {
    INT(M_IR, reading, ir_version),       TEXT(M_PRODUCER, reading, producer),
    OWN(M_GRAPH, ONNX_BYTES, find_graph), OWN(M_OPSET, ONNX_BYTES, read_opset),
    OWN(M_FUNCTIONS, ONNX_ANY, refuse),   {0},
};

static enum ebb_status read_model(struct reading *p, struct onnx_wire w, struct ebb_error *err)
{
    EBB_TRY(onnx_reader_message(&p->r, w, model_rows, p, err));
    if (!p->has_graph || p->ir_version < 1)
        return ebb_fail(err, EBB_EINPUT, "%s: this is no ONNX model: it has no %s", p->r.path,
                        p->has_graph ? "version" : "graph");
    p->model->ir_version = p->ir_version;
    p->model->producer = p->producer;
    EBB_TRY(read_graph(p, p->graph, err));
    EBB_TRY(place_initializers(p, err));
    return check_order(p, err);
}

enum ebb_status onnx_read(struct ebb_arena *arena, const char *path, const void *bytes,
                          size_t length, const struct onnx_model **model, struct ebb_error *err)
{
    struct onnx_model *m = ebb_arena_calloc(arena, 1, sizeof *m);
    char *name = ebb_arena_strndup(arena, path, strlen(path));
    struct reading p = {
        .r = {.arena = arena, .path = name}, .model = m, .producer = "", .graph_name = ""};
    if (!m || !name)
        return ebb_no_memory(err, sizeof *m);
    m->path = name;
    ebb_strmap_init(&p.values);
    enum ebb_status status = read_model(&p, (struct onnx_wire){bytes, 0, length, name}, err);
    ebb_strmap_fini(&p.values);
    for (struct onnx_beside *b = p.r.beside; status == EBB_OK && b; b = b->next)
        m->beside_count++;
    m->beside = ebb_arena_calloc(arena, m->beside_count + 1, sizeof *m->beside);
    size_t n = 0;
    for (struct onnx_beside *b = p.r.beside; m->beside && b && n < m->beside_count; b = b->next)
        m->beside[n++] = b->location;
    if (status == EBB_OK && !m->beside)
        status = ebb_no_memory(err, 0);
    struct ebb_sha256 hash;
    if (status == EBB_OK) {
        ebb_sha256_init(&hash);
        ebb_sha256_add(&hash, bytes, length);
        for (const struct onnx_beside *b = p.r.beside; b; b = b->next)
            ebb_sha256_add(&hash, b->data, b->length);
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

int onnx_attr_type(const struct onnx_node *node, const char *name, int fallback)
{
    int64_t type = onnx_attr_int(node, name, fallback);
    return type > ONNX_UNDEFINED && type <= ONNX_BFLOAT16 ? (int)type : ONNX_UNDEFINED;
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
