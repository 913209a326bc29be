/* low.c - ops on numbers of 16 bits: a row that says so takes BF16 and F16 where it takes F32.
 *
 * Where the table does not take such operands as they are, the kernel is the one for F32 and they are
 * converted in the workspace: element-wise rows in pieces of CHUNK elements, rows whose samples are
 * apart in parts of about PART_BYTES, the others whole. So what lies between ops has two bytes per
 * element, and arithmetic, statistics and sums stay in float32. */
#include "ops/internal.h"

#define CHUNK 65536
#define PART_BYTES (UINT64_C(64) << 20)

struct tail { /* behind the attributes of the row */
    uint32_t def;
    uint32_t samples;         /* or planes of a part; 0: all are converted together */
    uint64_t workspace_bytes; /* of the inner call */
};

static bool is_low(uint8_t dtype)
{
    return dtype == TENSOR_BF16 || dtype == TENSOR_F16;
}

enum tensor_dtype ops_low_dtype(const struct ops_infer *i)
{
    for (size_t k = 0; k < i->in_count; k++)
        if (is_low(i->in[k]->dtype))
            return (enum tensor_dtype)i->in[k]->dtype;
    return TENSOR_F32;
}

static size_t index_of(const struct ops_def *def)
{
    size_t n = ops_count();
    for (size_t i = 0; i < n; i++)
        if (ops_at(i) == def)
            return i;
    return n;
}

void ops_low_float(const struct tensor_view *from, struct tensor_view *to)
{
    *to = *from;
    if (is_low(from->dtype)) {
        to->dtype = TENSOR_F32;
        to->offset = 0;
    }
}

/* Every operand that is converted has the same number of elements, none is anything else. */
static bool is_elementwise(const struct ops_infer *i)
{
    for (size_t k = 0; k < i->in_count; k++)
        if (!tensor_same_shape(i->in[k], &i->out[0]) || i->in[k]->block != i->in[0]->block ||
            !tensor_is_dense(i->in[k]))
            return false;
    return i->def->low_rule == OPS_LOW_EACH && i->out_count == 1;
}

enum ebb_status ops_low_infer(struct ops_infer *i, struct ebb_error *err)
{
    const struct tensor_view *given[KERNEL_PORTS];
    struct tensor_view views[KERNEL_PORTS];
    enum tensor_dtype dtype = ops_low_dtype(i);
    bool are_all_low = true;
    if (i->in_count > KERNEL_PORTS || i->def->attr_bytes > OPS_ATTR_BYTES)
        return ops_wrong(i, err, "too many inputs for numbers of 16 bits");
    for (size_t k = 0; k < i->in_count; k++) {
        given[k] = i->in[k];
        ops_low_float(i->in[k], &views[k]);
        i->in[k] = &views[k];
        are_all_low = are_all_low && is_low(given[k]->dtype);
    }
    enum ebb_status status = i->def->infer(i, err);
    for (size_t k = 0; k < i->in_count; k++)
        i->in[k] = given[k];
    for (size_t k = 0; status == EBB_OK && k < i->out_count; k++)
        if ((i->def->low_out >> k & 1) && i->out[k].dtype == TENSOR_F32 && !i->is_wide &&
            (are_all_low || i->def->low_rule != OPS_LOW_EACH))
            i->out[k].dtype = (uint8_t)dtype;
    return status;
}

/* What the converted operand takes. */
static size_t room_of(const struct tensor_view *v, bool each)
{
    int64_t n = tensor_count(v);
    return is_low(v->dtype) ? ops_align((size_t)(each && n > CHUNK ? CHUNK : n) * sizeof(float))
                            : 0;
}

int64_t ops_low_count(const struct ops_def *def, const struct tensor_view *first)
{
    if (def->low_rule != OPS_LOW_PLANES)
        return first->dims[0];
    return first->dims[0] * first->dims[1] / (first->block ? first->block : 1);
}

/* Do all operands have the planes of the attributes in their first two dimensions? */
static bool has_planes(const struct ops_infer *i)
{
    const struct tensor_view *first = i->in[0];
    int64_t planes = i->def->planes(i->attr);
    bool is_so = first->rank > 2 && first->dims[0] * first->dims[1] == planes;
    for (size_t k = 0; k < i->in_count + i->out_count; k++) {
        const struct tensor_view *v = k < i->in_count ? i->in[k] : &i->out[k - i->in_count];
        is_so = is_so && v->rank == first->rank && v->block == first->block &&
                v->dims[0] == first->dims[0] && v->dims[1] == first->dims[1];
    }
    return is_so;
}

int64_t ops_low_samples(const struct ops_infer *i)
{
    enum ops_low rule = i->def->low_rule;
    if ((rule != OPS_LOW_APART && rule != OPS_LOW_PLANES) ||
        (rule == OPS_LOW_APART && i->in[0]->dims[0] != i->out[0].dims[0]) ||
        (rule == OPS_LOW_PLANES && !has_planes(i)))
        return 0;
    int64_t n = ops_low_count(i->def, &i->out[0]);
    if (n <= 1)
        return 0;
    uint64_t bytes = room_of(&i->out[0], false) + room_of(i->in[0], false);
    if (bytes <= PART_BYTES)
        return 0;
    int64_t samples = (int64_t)((double)n * (double)PART_BYTES / (double)bytes);
    return samples > 0 ? samples : 1;
}

struct tensor_view ops_low_part(const struct ops_def *def, const struct tensor_view *view, size_t k,
                                int64_t samples)
{
    struct tensor_view part = *view;
    bool is_plane = def->low_rule == OPS_LOW_PLANES;
    if (!samples || (k && !is_plane))
        return part;
    part.dims[0] = is_plane ? 1 : samples;
    if (is_plane)
        part.dims[1] = samples * (part.block ? part.block : 1);
    return part;
}

size_t ops_low_workspace(const struct ops_infer *i, size_t inner)
{
    size_t bytes = ops_align(inner);
    bool each = is_elementwise(i);
    int64_t samples = ops_low_samples(i);
    for (size_t k = 0; k < i->out_count; k++) {
        struct tensor_view view = ops_low_part(i->def, &i->out[k], k, samples);
        bytes += room_of(&view, each);
    }
    for (size_t k = 0; k < i->in_count; k++) {
        struct tensor_view view = ops_low_part(i->def, i->in[k], k, samples);
        bytes += room_of(&view, each);
    }
    return bytes;
}

size_t ops_low_tail(const struct ops_infer *i, size_t inner, unsigned char *to)
{
    struct tail tail = {.def = (uint32_t)index_of(i->def),
                        .samples = (uint32_t)ops_low_samples(i),
                        .workspace_bytes = inner};
    memcpy(to, &tail, sizeof tail);
    return sizeof tail;
}

/* ---- running -------------------------------------------------------------------------------- */

struct port {
    const struct tensor_view *view;
    unsigned char *data; /* NULL: not wanted */
    float *room;         /* NULL: not converted */
    int64_t unit; /* elements of one of what a part counts: elements, samples; 0: always whole */
};

struct low_call {
    struct tensor_call c;
    const struct ops_def *def;
    struct tail tail;
    struct port in[KERNEL_PORTS], out[KERNEL_PORTS];
    void *workspace;
    bool each;
    int64_t count; /* that parts are made of: elements, or samples */
};

static enum ebb_status convert(const struct trace_call *call, int64_t n, uint8_t from,
                               const void *x, uint8_t to, void *y, struct ebb_error *err)
{
    struct kernel_count_desc d = {n};
    return ops_move(call, KERNEL_FAMILY_CONVERT, &d, from, x, to, y, err);
}

static struct port make_port(const struct low_call *l, const struct tensor_view *view, void *data,
                             size_t k, unsigned char **at)
{
    struct port p = {view, data, is_low(view->dtype) ? (float *)(void *)*at : NULL, l->each};
    struct tensor_view part = ops_low_part(l->def, view, k, l->tail.samples);
    if (l->tail.samples && (k == 0 || l->def->low_rule == OPS_LOW_PLANES))
        p.unit = tensor_count(view) / ops_low_count(l->def, view);
    *at += room_of(&part, l->each);
    return p;
}

static enum ebb_status prepare(const struct trace_call *call, struct low_call *l,
                               struct ebb_error *err)
{
    EBB_TRY(tensor_call_decode(call, &l->c, err));
    const struct tensor_call *c = &l->c;
    if (c->attr_bytes < sizeof l->tail || c->input_count > KERNEL_PORTS ||
        c->output_count > KERNEL_PORTS)
        return ebb_fail(err, EBB_EINTERNAL, "op: attributes of %zu bytes", c->attr_bytes);
    memcpy(&l->tail, (const unsigned char *)c->attr + c->attr_bytes - sizeof l->tail,
           sizeof l->tail);
    l->def = ops_at(l->tail.def);
    unsigned char *at = call->workspace;
    l->workspace = l->tail.workspace_bytes ? at : NULL;
    at += ops_align((size_t)l->tail.workspace_bytes);
    l->each = l->def->low_rule == OPS_LOW_EACH && c->output_count == 1;
    l->count = l->tail.samples ? ops_low_count(l->def, &c->out[0]) : tensor_count(&c->out[0]);
    for (uint32_t k = 0; k < c->input_count; k++)
        l->each = l->each && tensor_same_shape(&c->in[k], &c->out[0]) &&
                  c->in[k].block == c->in[0].block && tensor_is_dense(&c->in[k]);
    for (uint32_t k = 0; k < c->output_count; k++)
        l->out[k] = make_port(l, &c->out[k], tensor_call_out(c, k), k, &at);
    for (uint32_t k = 0; k < c->input_count; k++)
        l->in[k] = make_port(l, &c->in[k], (void *)(uintptr_t)tensor_call_in(c, k), k, &at);
    return EBB_OK;
}

/* Element or sample `first` of an operand, or NULL. */
static void *part_of(const struct port *p, int64_t first)
{
    return p->data ? p->data + (size_t)(first * p->unit) * tensor_dtype_bytes(p->view->dtype)
                   : NULL;
}

static int64_t count_of(const struct port *p, int64_t n)
{
    return p->unit ? n * p->unit : tensor_count(p->view);
}

static void part_view(const struct low_call *l, const struct port *p, int64_t n,
                      struct tensor_view *to)
{
    ops_low_float(p->view, to);
    to->offset = 0; /* applied to the pointers already */
    if (l->each)
        tensor_view_init(to, (enum tensor_dtype)to->dtype, 1, &n);
    else if (p->unit)
        *to = ops_low_part(l->def, to, 0, n);
}

/* Elements or samples first .. first + n - 1, or everything. */
static enum ebb_status run_part(struct low_call *l, int64_t first, int64_t n, struct ebb_error *err)
{
    const void *in[KERNEL_PORTS];
    void *out[KERNEL_PORTS];
    struct trace_call call = *l->c.call;
    struct tensor_call inner;
    for (uint32_t k = 0; k < l->c.input_count; k++) {
        const struct port *p = &l->in[k];
        in[k] = p->room ? p->room : part_of(p, first);
        part_view(l, p, n, &inner.in[k]);
        if (p->room && (p->unit || first == 0))
            EBB_TRY(convert(&call, count_of(p, n), p->view->dtype, part_of(p, first), KERNEL_F32,
                            p->room, err));
    }
    for (uint32_t k = 0; k < l->c.output_count; k++) {
        const struct port *p = &l->out[k];
        out[k] = p->data && p->room ? p->room : part_of(p, first);
        part_view(l, p, n, &inner.out[k]);
    }
    call.in = in;
    call.out = out;
    call.workspace = l->workspace;
    inner.call = &call;
    inner.input_count = l->c.input_count;
    inner.output_count = l->c.output_count;
    inner.attr = l->c.attr;
    EBB_TRY(ops_run_row(l->def, &inner, err));
    for (uint32_t k = 0; k < l->c.output_count; k++) {
        const struct port *p = &l->out[k];
        if (p->room && p->data)
            EBB_TRY(convert(&call, count_of(p, n), KERNEL_F32, p->room, p->view->dtype,
                            part_of(p, first), err));
    }
    return EBB_OK;
}

enum ebb_status ops_low_run(const struct trace_call *call, struct ebb_error *err)
{
    struct low_call l;
    EBB_TRY(prepare(call, &l, err));
    if (!l.c.wanted)
        return EBB_OK;
    if (!l.each && !l.tail.samples)
        return run_part(&l, 0, 0, err);
    int64_t most = l.each ? CHUNK : l.tail.samples;
    for (int64_t first = 0; first < l.count; first += most)
        EBB_TRY(run_part(&l, first, l.count - first < most ? l.count - first : most, err));
    return EBB_OK;
}
