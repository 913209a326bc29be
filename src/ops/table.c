/* table.c - looking up, appending ops. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/heap.h"
#include "base/str.h"
#include "ops/internal.h"

static const struct ops_family *const families[] = {
#define X(name) &ops_##name##_family,
    OPS_FAMILIES(X)
#undef X
};
#define FAMILIES (sizeof families / sizeof *families)

size_t ops_count(void)
{
    size_t n = 0;
    for (size_t i = 0; i < FAMILIES; i++)
        n += families[i]->count;
    return n;
}

const struct ops_def *ops_at(size_t index)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        if (index < families[i]->count)
            return &families[i]->rows[index];
        index -= families[i]->count;
    }
    return NULL;
}

const struct ops_def *ops_find(const char *name)
{
    for (size_t i = 0; i < FAMILIES; i++)
        for (size_t k = 0; k < families[i]->count; k++) {
            const char *known = families[i]->rows[k].name;
            if (known[0] == name[0] && known[1] == name[1] && strcmp(known, name) == 0)
                return &families[i]->rows[k];
        }
    return NULL;
}

const char *ops_name(const struct ops_def *def)
{
    return def->name;
}

bool ops_is_internal(const struct ops_def *def)
{
    return def->is_internal;
}

bool ops_has_gradient(const struct ops_def *def)
{
    return def->infer ? def->grad != NULL : def->build != NULL;
}

/* ---- appending ------------------------------------------------------------------------------ */

/* Elements of every output, and their bytes, must be countable: shapes may come from files. */
static bool is_countable(const struct ops_infer *i)
{
    for (size_t k = 0; k < i->out_count; k++) {
        uint64_t bytes = tensor_dtype_bytes(i->out[k].dtype);
        for (int d = 0; d < i->out[k].rank; d++)
            if (i->out[k].dims[d] < 0 ||
                (i->out[k].dims[d] &&
                 __builtin_mul_overflow(bytes, (uint64_t)i->out[k].dims[d], &bytes)))
                return false;
        if (bytes >= TRACE_MAX_BYTES)
            return false;
    }
    return true;
}

/* What a call moves, for the estimate of its time. */
static double bytes_of(const struct ops_infer *i)
{
    double bytes = 0;
    for (size_t k = 0; k < i->in_count; k++)
        bytes += (double)tensor_count(i->in[k]) * (double)tensor_dtype_bytes(i->in[k]->dtype);
    for (size_t k = 0; k < i->out_count; k++)
        bytes += (double)tensor_count(&i->out[k]) * (double)tensor_dtype_bytes(i->out[k].dtype);
    return bytes;
}

static bool is_blockable(const struct tensor_view *v, int block)
{
    return v->rank >= 3 && v->rank < TENSOR_RANK && v->dims[1] % block == 0 && v->dims[1] > 0;
}

/* Whether a plain view can stand beside blocked ones of shape `like`. */
static bool can_stand(const struct tensor_view *v, const struct tensor_view *like)
{
    int channel = 1 - (like->rank - v->rank);
    return v->rank <= like->rank &&
           (channel < 0 || v->dims[channel] == 1 || v->dims[channel] == like->dims[1]);
}

/* The layout this call works in: that of its first blocked input, or 0. */
static int common_block(const struct ops_infer *i)
{
    const struct ops_def *def = i->def;
    const struct tensor_view *like = NULL;
    for (size_t k = 0; k < i->in_count && !like; k++)
        if ((def->blocked >> k & 1) && i->in[k]->block)
            like = i->in[k];
    if (!like || (def->takes_block && !def->takes_block(i, like->block)))
        return 0;
    for (size_t k = 0; k < i->in_count; k++) {
        const struct tensor_view *v = i->in[k];
        if (!(def->blocked >> k & 1) || v->block == like->block)
            continue;
        bool fits =
            is_blockable(v, like->block) && (tensor_same_shape(v, like) || !def->can_broadcast);
        if (!fits && !(def->can_broadcast && !v->block && can_stand(v, like)))
            return 0;
    }
    return like->block;
}

/* Inputs in the layouts and strides that the row takes, and their views. */
static int settle(struct ops_infer *i, const tensor_id *in, tensor_id *out)
{
    struct tensor_session *s = i->session;
    bool is_moved = false;
    const struct ops_def *def = i->def;
    for (size_t k = 0; k < i->in_count; k++) {
        i->in[k] = tensor_view_of(s, in[k]);
        out[k] = in[k];
    }
    if (def->is_layout_own)
        return 0;
    int block = def->blocked ? common_block(i) : 0;
    bool has_shape = false; /* of the blocked input, for rows that broadcast */
    struct tensor_view like;
    for (size_t k = 0; block && k < i->in_count && !has_shape; k++)
        if ((def->blocked >> k & 1) && i->in[k]->block) {
            like = *i->in[k];
            has_shape = true;
        }
    for (size_t k = 0; k < i->in_count; k++) {
        const struct tensor_view *v = is_moved ? tensor_view_of(s, in[k]) : i->in[k];
        bool is_strided = def->strided >> k & 1;
        int want = block && (def->blocked >> k & 1) ? block : 0;
        if (want && !v->block && def->can_broadcast && !tensor_same_shape(v, &like))
            want = 0;
        if (v->block == want && (is_strided || tensor_is_dense(v)))
            continue;
        out[k] = ops_in_layout(s, in[k], want);
        is_moved = true; /* views, too: they are in one array that grows */
    }
    for (size_t k = 0; is_moved && k < i->in_count; k++)
        i->in[k] = tensor_view_of(s, out[k]);
    return block;
}

struct call { /* an op that is about to be appended */
    struct ops_infer i;
    tensor_id inputs[TENSOR_PORTS];
    bool has_low, is_low; /* numbers of 16 bits are among the inputs; they are converted */
    struct kernel_need need;
    size_t workspace_bytes;
    size_t attr_bytes;
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES + sizeof(uint64_t) + OPS_LOW_TAIL];
};

static void look(struct call *c)
{
    for (size_t k = 0; k < c->i.in_count; k++)
        c->i.in[k] = tensor_view_of(c->i.session, c->inputs[k]);
}

/* The kernel's description of the call, with numbers of 16 bits as they are or as if converted. */
static void describe(const struct ops_infer *i, bool is_float, int64_t samples,
                     union kernel_desc *desc, struct kernel_args *types)
{
    struct tensor_view in[KERNEL_PORTS], out[KERNEL_PORTS];
    struct ops_views v = {.def = i->def,
                          .attr = i->attr,
                          .out = is_float ? out : i->out,
                          .in_count =
                              i->in_count < KERNEL_PORTS ? (uint32_t)i->in_count : KERNEL_PORTS,
                          .out_count = (uint32_t)i->out_count};
    for (uint32_t k = 0; k < v.in_count; k++) {
        v.in[k] = is_float ? &in[k] : i->in[k];
        if (is_float)
            ops_low_float(i->in[k], &in[k]);
    }
    for (uint32_t k = 0; is_float && k < v.out_count; k++)
        ops_low_float(&i->out[k], &out[k]);
    for (uint32_t k = 0; samples && k < v.in_count; k++)
        in[k] = ops_low_part(i->def, &in[k], k, samples);
    for (uint32_t k = 0; samples && k < v.out_count; k++)
        out[k] = ops_low_part(i->def, &out[k], k, samples);
    memset(desc, 0, kernel_desc_bytes(i->def->family));
    i->def->describe(&v, desc);
    ops_types(&v, types);
}

/* What is converted in parts needs the workspace of a part; the last one may be smaller. */
static enum ebb_status ask_parts(struct call *c, struct ebb_error *err)
{
    int64_t samples = ops_low_samples(&c->i);
    int64_t last = ops_low_count(c->i.def, &c->i.out[0]) % samples;
    const struct kernel_table *table = ops_table(c->i.session);
    union kernel_desc desc;
    struct kernel_args types;
    c->need.workspace_bytes = 0;
    for (int k = 0; k < (last ? 2 : 1); k++) {
        struct kernel_need need = {.flops = c->need.flops, .bytes = c->need.bytes};
        describe(&c->i, true, k ? last : samples, &desc, &types);
        EBB_TRY(
            table->need(tensor_backend(c->i.session), c->i.def->family, &desc, &types, &need, err));
        if (need.workspace_bytes > c->need.workspace_bytes)
            c->need.workspace_bytes = need.workspace_bytes;
    }
    return EBB_OK;
}

/* What the table wants for the call; operands that it does not take are converted. */
static enum ebb_status ask(struct call *c, struct ebb_error *err)
{
    const struct ops_def *def = c->i.def;
    struct tensor_session *s = c->i.session;
    const struct kernel_table *table = ops_table(s);
    union kernel_desc desc;
    struct kernel_args types;
    c->need.flops = c->i.flops;
    c->need.bytes = c->i.bytes > 0 ? c->i.bytes : bytes_of(&c->i);
    if (!c->has_low && (table->sized >> def->family & 1))
        return table->need(tensor_backend(s), def->family, NULL, NULL, &c->need, err);
    describe(&c->i, false, 0, &desc, &types);
    c->is_low = c->has_low && !table->takes(tensor_backend(s), def->family, &desc, &types);
    for (size_t k = 0; c->is_low && k < c->i.in_count; k++)
        if (!tensor_is_dense(c->i.in[k]))
            c->inputs[k] = ops_in_layout(s, c->inputs[k], c->i.in[k]->block);
    if (c->is_low) {
        look(c);
        describe(&c->i, true, 0, &desc, &types);
    }
    EBB_TRY(table->need(tensor_backend(s), def->family, &desc, &types, &c->need, err));
    if (c->is_low && ops_low_samples(&c->i))
        EBB_TRY(ask_parts(c, err));
    c->workspace_bytes = (size_t)c->need.workspace_bytes;
    if (c->is_low)
        c->workspace_bytes = ops_low_workspace(&c->i, c->workspace_bytes);
    return EBB_OK;
}

/* The row's own attributes; behind them the algorithm where there are several, then what a converted
 * call needs. */
static const void *attributes(struct call *c)
{
    const struct ops_def *def = c->i.def;
    size_t bytes = (def->attr_bytes + 7) / 8 * 8;
    c->attr_bytes = def->attr_bytes;
    if (!c->is_low && !c->need.algorithm)
        return c->i.attr;
    memset(c->attr, 0, bytes);
    if (def->attr_bytes)
        memcpy(c->attr, c->i.attr, def->attr_bytes);
    if (c->need.algorithm) {
        memcpy(c->attr + bytes, &c->need.algorithm, sizeof c->need.algorithm);
        bytes += sizeof c->need.algorithm;
    }
    if (c->is_low)
        bytes += ops_low_tail(&c->i, (size_t)c->need.workspace_bytes, c->attr + bytes);
    c->attr_bytes = bytes;
    return c->attr;
}

static tensor_id append(struct call *c)
{
    const struct ops_def *def = c->i.def;
    bool is_over = def->overwrites && !c->is_low &&
                   (def->is_over || ops_has_pass(c->i.session, OPS_PASS_OVER));
    const void *attr = attributes(c);
    struct tensor_node_desc desc = {.def = def,
                                    .kind = def->is_view ? NULL
                                            : c->is_low  ? &def->low_kind
                                                         : &def->kind,
                                    .inputs = c->inputs,
                                    .input_count = c->i.in_count,
                                    .outputs = c->i.out,
                                    .mutates = c->i.mutates,
                                    .output_count = c->i.out_count,
                                    .attr = attr,
                                    .attr_bytes = c->attr_bytes,
                                    .workspace_bytes = c->workspace_bytes,
                                    .overwrites = is_over ? def->overwrites : 0,
                                    .is_chain = is_over && def->is_chain,
                                    .overwriting_kind = &def->over_kind,
                                    .cost_ns = c->need.cost_ns};
    return tensor_append(c->i.session, &desc);
}

tensor_id ops_emit(struct tensor_session *s, const struct ops_def *def, const void *attr,
                   size_t in_count, const tensor_id *in)
{
    struct ebb_error err;
    struct call c; /* large: what is not read is not cleared */
    struct ops_infer *i = &c.i;
    if (tensor_status(s, NULL) != EBB_OK)
        return TENSOR_NONE;
    if (in_count < def->min_in || in_count > def->max_in)
        return tensor_fail(s, EBB_EINPUT, "%s: %zu inputs, allowed are %d to %d", def->name,
                           in_count, def->min_in, def->max_in);
    for (size_t k = 0; k < in_count; k++)
        if (!in[k].v)
            return tensor_fail(s, EBB_EINPUT, "%s: input %zu is missing", def->name, k);
    for (size_t k = in_count; k < def->max_in; k++)
        i->in[k] = NULL;
    memset(i->mutates, 0, sizeof i->mutates);
    memset(&c.need, 0, sizeof c.need);
    c.workspace_bytes = i->out_count = 0;
    c.is_low = i->is_wide = false;
    i->flops = i->bytes = 0;
    i->session = s;
    i->def = def;
    i->in_count = in_count;
    i->attr = attr;
    int block = settle(i, in, c.inputs);
    c.has_low = def->low_rule != OPS_LOW_NONE && ops_low_dtype(i) != TENSOR_F32;
    enum ebb_status status = c.has_low ? ops_low_infer(i, &err) : def->infer(i, &err);
    if (status != EBB_OK)
        return tensor_fail(s, status, "%s", err.message);
    for (size_t k = 0; block && !def->is_view && k < i->out_count; k++)
        if (def->blocked_out >> k & 1)
            tensor_view_block(&i->out[k], block);
    if (!is_countable(i))
        return tensor_fail(s, EBB_EINPUT, "%s: the result is too large", def->name);
    if (!def->is_view && (status = ask(&c, &err)) != EBB_OK)
        return tensor_fail(s, status, "%s", err.message);
    return append(&c);
}

void ops_call(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
              size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    *out_count = 0;
    if (tensor_status(s, NULL) != EBB_OK)
        return;
    if (in_count < def->min_in || in_count > def->max_in) {
        tensor_fail(s, EBB_EINPUT, "%s: %zu inputs, allowed are %d to %d", def->name, in_count,
                    def->min_in, def->max_in);
        return;
    }
    struct ops_build b = {s, def, in, in_count, attr, out, 1};
    out[0] = ops_rewrite(&b);
    if (!out[0].v && def->build)
        out[0] = def->build(&b);
    if (out[0].v || def->build) {
        *out_count = out[0].v ? b.out_count : 0;
        return;
    }
    tensor_id first = ops_emit(s, def, attr, in_count, in);
    if (!first.v)
        return;
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, first));
    for (*out_count = 0; *out_count < n.output_count; ++*out_count)
        out[*out_count] = ops_output(first, (uint32_t)*out_count);
}

void ops_backward(struct ops_backward *b)
{
    if (b->def->grad)
        b->def->grad(b);
    else
        tensor_fail(b->session, EBB_EUNSUPPORTED, "%s: has no gradient rule", b->def->name);
}

/* ---- shared by the families ----------------------------------------------------------------- */

void ops_out(struct ops_infer *i, enum tensor_dtype dtype, int rank, const int64_t *dims)
{
    tensor_view_init(&i->out[i->out_count++], dtype, rank, dims);
}

enum ebb_status ops_wrong(const struct ops_infer *i, struct ebb_error *err, const char *fmt, ...)
{
    char text[512], shapes[384] = "", one[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (size_t k = 0; k < i->in_count && k < 6; k++) {
        size_t at = strlen(shapes);
        snprintf(shapes + at, sizeof shapes - at, "%s%s %s", k ? ", " : "",
                 tensor_dtype_name(i->in[k]->dtype), tensor_shape_text(i->in[k], one, sizeof one));
    }
    return ebb_fail(err, EBB_EINPUT, "%s: %s; inputs: %s", i->def->name, text, shapes);
}

enum ebb_status ops_want_f32(const struct ops_infer *i, uint64_t mask, struct ebb_error *err)
{
    for (size_t k = 0; k < i->in_count; k++)
        if ((mask >> k & 1) && i->in[k]->dtype != TENSOR_F32)
            return ops_wrong(i, err, "input %zu must be F32", k);
    return EBB_OK;
}

enum ebb_status ops_dim(const struct ops_infer *i, int64_t dim, int rank, int *out,
                        struct ebb_error *err)
{
    if (dim < -rank || dim >= rank)
        return ops_wrong(i, err, "dimension %" PRId64 " of a tensor of rank %d", dim, rank);
    *out = ops_wrap(dim, rank);
    return EBB_OK;
}

bool ops_broadcast_dims(const struct tensor_view *a, const struct tensor_view *b, int but,
                        int *rank, int64_t *dims)
{
    int n = a->rank > b->rank ? a->rank : b->rank;
    for (int d = 0; d < n - but; d++) {
        int da = d - (n - a->rank), db = d - (n - b->rank);
        int64_t p = da < 0 ? 1 : a->dims[da], q = db < 0 ? 1 : b->dims[db];
        if (p != q && p != 1 && q != 1)
            return false;
        dims[d] = p == 1 ? q : p;
    }
    *rank = n;
    return true;
}

enum ebb_status ops_broadcast(const struct ops_infer *i, const struct tensor_view *a,
                              const struct tensor_view *b, int *rank, int64_t *dims,
                              struct ebb_error *err)
{
    return ops_broadcast_dims(a, b, 0, rank, dims) ? EBB_OK
                                                   : ops_wrong(i, err, "shapes do not broadcast");
}

bool ops_spread(const struct ops_ints *given, int nd, const int64_t *fallback, int64_t least,
                int64_t *out)
{
    for (int d = 0; d < nd; d++) {
        out[d] = given->count == 0 ? fallback[d] : given->v[given->count == 1 ? 0 : d];
        if (out[d] < least || out[d] > INT32_MAX)
            return false;
    }
    return given->count <= 1 || given->count == nd;
}

static void nd_shape(struct kernel_nd *nd, const struct tensor_view *shape, int block)
{
    struct tensor_view split;
    if (block) {
        tensor_view_split(shape, block, &split);
        shape = &split;
    }
    memset(nd, 0, sizeof *nd);
    nd->rank = shape->rank;
    memcpy(nd->dims, shape->dims, sizeof shape->dims);
}

void ops_nd_operand(struct kernel_nd *nd, int operand, const struct tensor_view *view, int block)
{
    struct tensor_view full, split;
    if (block) { /* leading dimensions first, so that channels are dimension 1 */
        int lead = nd->rank - 1 - view->rank;
        full = *view;
        full.rank = (uint8_t)(nd->rank - 1);
        for (int d = 0; d < full.rank; d++) {
            full.dims[d] = d < lead ? 1 : view->dims[d - lead];
            full.strides[d] = d < lead ? 0 : view->strides[d - lead];
        }
        tensor_view_split(&full, block, &split);
        view = &split;
    }
    int shift = nd->rank - view->rank;
    for (int d = 0; d < nd->rank; d++)
        nd->stride[operand][d] = d < shift || (view->dims[d - shift] == 1 && nd->dims[d] != 1)
                                     ? 0
                                     : view->strides[d - shift];
}

void ops_nd_pair(struct kernel_nd *nd, const struct tensor_view *shape,
                 const struct tensor_view *to, const struct tensor_view *from, int block)
{
    nd_shape(nd, shape, block);
    ops_nd_operand(nd, 0, to, block);
    ops_nd_operand(nd, 1, from, block);
}

void ops_grad_none(struct ops_backward *b)
{
    (void)b;
}

void ops_lines(const struct tensor_view *view, int dim, int64_t *outer, int64_t *n, int64_t *inner)
{
    *outer = *inner = 1;
    *n = view->dims[dim];
    for (int d = 0; d < dim; d++)
        *outer *= view->dims[d];
    for (int d = dim + 1; d < view->rank; d++)
        *inner *= view->dims[d];
}

enum ebb_status ops_backend_create(void **backend, const struct kernel_table *table,
                                   struct device *device, const struct profile *profile,
                                   int threads, struct ebb_error *err)
{
    struct kernel_context *c;
    table = table ? table : &kernel_cpu;
    EBB_TRY(table->open(&c, device, profile, threads, err));
    unsigned passes = 0;
    enum ebb_status status =
        ops_rewrites_parse(table->rewrites, ops_rewrite_defaults(), &passes, err);
    if (status != EBB_OK) {
        table->close(c);
        return status;
    }
    *backend = c;
    ops_backend_set_passes(c, passes);
    return EBB_OK;
}

void ops_backend_destroy(void *backend)
{
    const struct kernel_head *head = backend;
    if (head)
        head->table->close(backend);
}

unsigned ops_backend_passes(const void *backend)
{
    return ((const struct kernel_head *)backend)->options;
}

void ops_backend_set_passes(void *backend, unsigned passes)
{
    struct kernel_head *head = backend;
    head->options = passes;
}
