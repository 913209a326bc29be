/* session.c - the lazy builder: records nodes, then writes the trace of what is needed. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "tensor/tensor.h"

struct info { /* of one tensor id */
    struct tensor_view view;
    uint32_t node;
    uint32_t
        root; /* first tensor id on the same bytes at the same version: itself, or a view's base */
    uint32_t mutates; /* root that this version overwrote, or 0 */
    uint32_t trace_id;
    uint32_t twin; /* the same values in another layout, or 0 */
    bool is_kept, is_pinned;
};

struct node {
    const void *def;
    const struct trace_kind *kind; /* NULL: view */
    const struct trace_kind *overwriting_kind;
    const tensor_id *inputs;
    uint32_t input_count, output_count, first_output;
    const unsigned char *attr;
    uint32_t attr_bytes;
    uint64_t workspace_bytes, cost_ns;
    const char *label;
    uint32_t partner; /* node */
    uint32_t op;      /* in the last finished trace */
    uint8_t phase;
    uint8_t overwrites;
    bool is_leaf, is_needed;
    bool is_lasting; /* a leaf of which some version is kept */
};

struct tensor_session {
    struct ebb_arena arena;
    void *backend;
    struct ebb_error error;
    struct info *infos; /* [0] unused */
    size_t info_count, info_capacity;
    struct node *nodes;
    size_t node_count, node_capacity;
    const char *label;
    enum trace_phase phase;
    uint32_t partner;
};

struct blob_head {
    uint32_t input_count, output_count;
    uint64_t attr_bytes;
};

static const struct trace_kind leaf_kind = {.name = "leaf", .purity = TRACE_PURE};

enum ebb_status tensor_session_create(struct tensor_session **session, void *backend,
                                      struct ebb_error *err)
{
    struct tensor_session *s = ebb_calloc(1, sizeof *s);
    if (!s)
        return ebb_no_memory(err, sizeof *s);
    ebb_arena_init(&s->arena);
    s->backend = backend;
    s->partner = UINT32_MAX;
    s->info_count = 1;
    /* Room for a step of some hundred ops, of which only what is used is touched. */
    enum ebb_status status = ebb_grow(&s->infos, &s->info_capacity, 2048, sizeof *s->infos, err);
    if (status == EBB_OK)
        status = ebb_grow(&s->nodes, &s->node_capacity, 2048, sizeof *s->nodes, err);
    if (status != EBB_OK) {
        tensor_session_destroy(s);
        return status;
    }
    memset(&s->infos[0], 0, sizeof s->infos[0]);
    *session = s;
    return EBB_OK;
}

void tensor_session_destroy(struct tensor_session *session)
{
    if (!session)
        return;
    ebb_free(session->infos);
    ebb_free(session->nodes);
    ebb_arena_fini(&session->arena);
    ebb_free(session);
}

void *tensor_backend(const struct tensor_session *session)
{
    return session->backend;
}

enum ebb_status tensor_status(const struct tensor_session *session, struct ebb_error *err)
{
    if (err && session->error.status != EBB_OK)
        *err = session->error;
    return session->error.status;
}

tensor_id tensor_fail(struct tensor_session *session, enum ebb_status status, const char *fmt, ...)
{
    if (session->error.status == EBB_OK) {
        char text[sizeof session->error.message];
        va_list args;
        va_start(args, fmt);
        vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
        if (session->label)
            ebb_fail(&session->error, status, "%s: %s", session->label, text);
        else
            ebb_fail(&session->error, status, "%s", text);
    }
    return TENSOR_NONE;
}

const struct tensor_view *tensor_view_of(const struct tensor_session *session, tensor_id id)
{
    return &session->infos[id.v < session->info_count ? id.v : 0].view;
}

void tensor_label(struct tensor_session *session, const char *label)
{
    session->label = label ? ebb_arena_strndup(&session->arena, label, strlen(label)) : NULL;
    if (label && !session->label)
        tensor_fail(session, EBB_ENOMEM, "out of memory");
}

void tensor_set_phase(struct tensor_session *session, enum trace_phase phase)
{
    session->phase = phase;
}

void tensor_set_partner(struct tensor_session *session, uint32_t node)
{
    session->partner = node;
}

void tensor_keep(struct tensor_session *session, tensor_id id)
{
    if (id.v && id.v < session->info_count)
        session->infos[id.v].is_kept = true;
}

tensor_id tensor_twin(const struct tensor_session *session, tensor_id id)
{
    return (tensor_id){id.v < session->info_count ? session->infos[id.v].twin : 0};
}

void tensor_set_twin(struct tensor_session *session, tensor_id id, tensor_id twin)
{
    if (id.v && id.v < session->info_count && twin.v)
        session->infos[id.v].twin = twin.v;
}

/* ---- appending ------------------------------------------------------------------------------ */

/* Blobs lie behind each other in the trace; whole words keep the views in them aligned. */
static size_t round_up(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* Attributes and inputs of a node, in one piece. */
static bool keep_parts(struct tensor_session *s, const struct tensor_node_desc *d, struct node *n)
{
    size_t attr_bytes = round_up(d->attr_bytes), input_bytes = d->input_count * sizeof *d->inputs;
    unsigned char *at = ebb_arena_alloc(&s->arena, attr_bytes + input_bytes);
    if (!at)
        return false;
    if (attr_bytes)
        memcpy(at, d->attr, d->attr_bytes);
    if (input_bytes)
        memcpy(at + attr_bytes, d->inputs, input_bytes);
    n->attr = at;
    n->attr_bytes = (uint32_t)d->attr_bytes;
    n->inputs = (const tensor_id *)(const void *)(at + attr_bytes);
    return true;
}

static tensor_id append(struct tensor_session *s, const struct tensor_node_desc *d, bool is_leaf)
{
    if (s->error.status != EBB_OK)
        return TENSOR_NONE;
    for (size_t i = 0; i < d->input_count; i++)
        if (!d->inputs[i].v || d->inputs[i].v >= s->info_count)
            return tensor_fail(s, EBB_EINPUT, "input %zu is no tensor", i);
    if (ebb_grow(&s->nodes, &s->node_capacity, s->node_count + 1, sizeof *s->nodes, &s->error) ||
        ebb_grow(&s->infos, &s->info_capacity, s->info_count + d->output_count, sizeof *s->infos,
                 &s->error))
        return TENSOR_NONE;
    struct node *n = &s->nodes[s->node_count];
    *n = (struct node){.def = d->def,
                       .kind = d->kind,
                       .input_count = (uint32_t)d->input_count,
                       .output_count = (uint32_t)d->output_count,
                       .first_output = (uint32_t)s->info_count,
                       .workspace_bytes = d->workspace_bytes,
                       .cost_ns = d->cost_ns,
                       .label = s->label,
                       .partner = s->partner,
                       .op = TRACE_NONE,
                       .phase = (uint8_t)s->phase,
                       .overwrites = d->overwrites,
                       .overwriting_kind = d->overwriting_kind,
                       .is_leaf = is_leaf};
    if (!keep_parts(s, d, n))
        return tensor_fail(s, EBB_ENOMEM, "out of memory");
    for (size_t i = 0; i < d->output_count; i++) {
        uint32_t id = (uint32_t)s->info_count++;
        uint32_t over = d->mutates && d->mutates[i] ? d->inputs[d->mutates[i] - 1].v : 0;
        struct info *info = &s->infos[id];
        info->view = d->outputs[i];
        info->node = (uint32_t)s->node_count;
        info->root = d->kind ? id : s->infos[d->inputs[0].v].root;
        info->mutates = over ? s->infos[over].root : 0;
        info->trace_id = TRACE_NONE;
        info->twin = 0;
        info->is_kept = info->is_pinned = false;
    }
    s->node_count++;
    return (tensor_id){n->first_output};
}

tensor_id tensor_append(struct tensor_session *session, const struct tensor_node_desc *desc)
{
    return append(session, desc, false);
}

tensor_id tensor_leaf(struct tensor_session *session, enum tensor_dtype dtype, int rank,
                      const int64_t *dims, const char *name)
{
    struct tensor_view view;
    int64_t total = (int64_t)tensor_dtype_bytes(dtype);
    if (rank < 0 || rank > TENSOR_RANK)
        return tensor_fail(session, EBB_EINPUT, "%s: rank %d, at most %d", name ? name : "leaf",
                           rank, TENSOR_RANK);
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0 || (dims[i] && __builtin_mul_overflow(total, dims[i], &total)))
            return tensor_fail(session, EBB_EINPUT, "%s: dimension %d is %" PRId64,
                               name ? name : "leaf", i, dims[i]);
    tensor_view_init(&view, dtype, rank, dims);
    const char *label = session->label;
    if (name)
        tensor_label(session, name);
    tensor_id id = append(
        session,
        &(struct tensor_node_desc){.kind = &leaf_kind, .outputs = &view, .output_count = 1}, true);
    session->label = label;
    return id;
}

/* ---- the tape ------------------------------------------------------------------------------- */

uint32_t tensor_node_count(const struct tensor_session *session)
{
    return (uint32_t)session->node_count;
}

struct tensor_node tensor_node_at(const struct tensor_session *session, uint32_t index)
{
    const struct node *n = &session->nodes[index];
    return (struct tensor_node){.def = n->def,
                                .inputs = n->inputs,
                                .input_count = n->input_count,
                                .first_output = {n->first_output},
                                .output_count = n->output_count,
                                .attr = n->attr};
}

uint32_t tensor_producer(const struct tensor_session *session, tensor_id id)
{
    return session->infos[id.v].node;
}

uint32_t tensor_trace_id(const struct tensor_session *session, tensor_id id)
{
    return id.v && id.v < session->info_count ? session->infos[session->infos[id.v].root].trace_id
                                              : TRACE_NONE;
}

/* ---- finishing ------------------------------------------------------------------------------ */

static void mark_needed(struct tensor_session *s)
{
    for (size_t i = 0; i < s->node_count; i++)
        s->nodes[i].is_needed = s->nodes[i].kind && s->nodes[i].kind->purity != TRACE_PURE;
    for (size_t i = 1; i < s->info_count; i++)
        if (s->infos[i].is_kept)
            s->nodes[s->infos[i].node].is_needed = true;
    for (size_t i = s->node_count; i-- > 0;)
        for (uint32_t k = 0; s->nodes[i].is_needed && k < s->nodes[i].input_count; k++)
            s->nodes[s->infos[s->nodes[i].inputs[k].v].node].is_needed = true;
}

/* last[root]: the node after which the bytes of this version have no reader. A version that is
 * overwritten ends with the op that overwrites it. */
static void find_last_uses(const struct tensor_session *s, uint32_t *last)
{
    for (size_t i = 1; i < s->info_count; i++)
        last[i] = s->infos[i].root == i ? s->infos[i].node : UINT32_MAX;
    for (size_t i = 0; i < s->node_count; i++)
        for (uint32_t k = 0;
             s->nodes[i].is_needed && s->nodes[i].kind && k < s->nodes[i].input_count; k++)
            last[s->infos[s->nodes[i].inputs[k].v].root] = (uint32_t)i;
    for (size_t i = 1; i < s->info_count; i++)
        if (s->infos[i].is_kept)
            last[s->infos[i].root] = UINT32_MAX;
}

static uint64_t bytes_of(const struct tensor_view *v)
{
    return (uint64_t)tensor_count(v) * tensor_dtype_bytes(v->dtype);
}

/* Whether output 0 may be written over input k: this op is its last reader, it is all of its
 * storage, no leaf, and read through this input alone. */
static bool can_overwrite(const struct tensor_session *s, const struct node *n, uint32_t k,
                          const uint32_t *last)
{
    const struct info *in = &s->infos[n->inputs[k].v], *root = &s->infos[in->root];
    const struct info *out = &s->infos[n->first_output];
    for (uint32_t i = 0; i < n->input_count; i++)
        if (i != k && s->infos[n->inputs[i].v].root == in->root)
            return false;
    return last[in->root] == out->node && !s->nodes[root->node].is_leaf && !root->mutates &&
           in->view.offset == 0 && tensor_is_dense(&in->view) &&
           bytes_of(&in->view) == bytes_of(&root->view) &&
           bytes_of(&in->view) == bytes_of(&out->view) && bytes_of(&in->view) > 0;
}

static size_t blob_bytes(const struct node *n)
{
    return sizeof(struct blob_head) +
           ((size_t)n->input_count + n->output_count) * sizeof(struct tensor_view) +
           round_up(n->attr_bytes);
}

static void write_blob(const struct tensor_session *s, const struct node *n, unsigned char *at)
{
    const size_t view = sizeof(struct tensor_view);
    struct blob_head head = {n->input_count, n->output_count, n->attr_bytes};
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (uint32_t k = 0; k < n->input_count; k++, at += view)
        memcpy(at, &s->infos[n->inputs[k].v].view, view);
    for (uint32_t k = 0; k < n->output_count; k++, at += view)
        memcpy(at, &s->infos[n->first_output + k].view, view);
    memset(at + n->attr_bytes, 0, round_up(n->attr_bytes) - n->attr_bytes);
    memcpy(at, n->attr, n->attr_bytes);
}

struct emitter { /* one finishing */
    struct tensor_session *s;
    struct trace_builder *b;
    uint32_t *last;      /* find_last_uses */
    unsigned char *blob; /* room for the largest */
    uint32_t op_count;
};

static enum ebb_status emit_op(struct emitter *e, struct node *n, struct ebb_error *err)
{
    struct tensor_session *s = e->s;
    uint32_t inputs[TENSOR_PORTS], first;
    struct trace_output outputs[TENSOR_PORTS];
    for (uint32_t k = 0; k < n->input_count; k++)
        inputs[k] = s->infos[s->infos[n->inputs[k].v].root].trace_id;
    for (uint32_t k = 0; k < n->output_count; k++) {
        const struct info *o = &s->infos[n->first_output + k];
        uint64_t bytes = (uint64_t)tensor_count(&o->view) * tensor_dtype_bytes(o->view.dtype);
        outputs[k] = (struct trace_output){
            .bytes = bytes ? bytes : 1, .alias = TRACE_FRESH, .alias_input = TRACE_NONE};
        for (uint32_t i = 0; o->mutates && i < n->input_count; i++)
            if (s->infos[n->inputs[i].v].root == o->mutates)
                outputs[k] = (struct trace_output){.alias = TRACE_MUTATE, .alias_input = i};
    }
    bool is_over = n->overwrites && can_overwrite(s, n, n->overwrites - 1u, e->last);
    if (is_over)
        outputs[0] =
            (struct trace_output){.alias = TRACE_MUTATE, .alias_input = n->overwrites - 1u};
    uint32_t partner = n->partner == UINT32_MAX ? TRACE_NONE : s->nodes[n->partner].op;
    write_blob(s, n, e->blob);
    struct trace_op_desc desc = {.kind = is_over ? n->overwriting_kind : n->kind,
                                 .cost_ns = n->cost_ns,
                                 .workspace_bytes = n->workspace_bytes,
                                 .inputs = inputs,
                                 .input_count = n->input_count,
                                 .outputs = outputs,
                                 .output_count = n->output_count,
                                 .attr = e->blob,
                                 .attr_bytes = blob_bytes(n),
                                 .label = n->label,
                                 .partner = partner,
                                 .phase = n->phase,
                                 .is_leaf = n->is_leaf};
    EBB_TRY(trace_builder_op(e->b, &desc, &first, err));
    for (uint32_t k = 0; k < n->output_count; k++)
        s->infos[n->first_output + k].trace_id = first + k;
    n->op = e->op_count++;
    return EBB_OK;
}

/* Releases after node i: its outputs without readers, and what it read last. */
static enum ebb_status emit_releases(struct emitter *e, uint32_t i, struct ebb_error *err)
{
    const struct tensor_session *s = e->s;
    const struct node *n = &s->nodes[i];
    for (uint32_t k = 0; k < n->input_count; k++) {
        uint32_t root = s->infos[n->inputs[k].v].root;
        bool is_repeat = false;
        for (uint32_t p = 0; p < k; p++)
            is_repeat |= s->infos[n->inputs[p].v].root == root;
        if (!is_repeat && e->last[root] == i)
            EBB_TRY(trace_builder_command(e->b, TRACE_RELEASE, s->infos[root].trace_id, err));
    }
    for (uint32_t k = 0; k < n->output_count; k++)
        if (e->last[n->first_output + k] == i)
            EBB_TRY(trace_builder_command(e->b, TRACE_RELEASE,
                                          s->infos[n->first_output + k].trace_id, err));
    return EBB_OK;
}

/* Leaves of which some version is kept outlive the step: they come first (plan.h, persistent
 * storages). */
static void mark_lasting(struct tensor_session *s)
{
    for (size_t i = 0; i < s->node_count; i++)
        s->nodes[i].is_lasting = false;
    for (size_t i = 1; i < s->info_count; i++) {
        if (!s->infos[i].is_kept)
            continue;
        uint32_t root = s->infos[i].root;
        while (s->infos[root].mutates) /* the version before */
            root = s->infos[root].mutates;
        struct node *n = &s->nodes[s->infos[root].node];
        n->is_lasting = n->is_leaf;
    }
}

static enum ebb_status emit(struct emitter *e, struct ebb_error *err)
{
    struct tensor_session *s = e->s;
    bool is_backward = false;
    for (size_t i = 0; i < s->node_count; i++)
        s->nodes[i].op = TRACE_NONE;
    for (size_t i = 1; i < s->info_count; i++)
        s->infos[i].trace_id = TRACE_NONE;
    mark_lasting(s);
    for (size_t i = 0; i < s->node_count; i++) {
        if (!s->nodes[i].is_lasting)
            continue;
        EBB_TRY(emit_op(e, &s->nodes[i], err));
        EBB_TRY(emit_releases(e, (uint32_t)i, err));
    }
    for (size_t i = 0; i < s->node_count; i++) {
        struct node *n = &s->nodes[i];
        if (!n->is_needed || !n->kind || n->is_lasting)
            continue;
        if (!is_backward && n->phase == TRACE_BACKWARD) {
            trace_builder_mark_backward(e->b);
            is_backward = true;
        }
        EBB_TRY(emit_op(e, n, err));
        EBB_TRY(emit_releases(e, (uint32_t)i, err));
    }
    for (size_t i = 1; i < s->info_count; i++)
        s->infos[i].is_pinned = false;
    for (size_t i = 1; i < s->info_count; i++) {
        struct info *root = &s->infos[s->infos[i].root];
        if (!s->infos[i].is_kept || root->is_pinned)
            continue;
        root->is_pinned = true; /* once per bytes */
        EBB_TRY(trace_builder_command(e->b, TRACE_PIN, root->trace_id, err));
    }
    return EBB_OK;
}

/* Room for everything at once: the trace, and the largest blob. */
static enum ebb_status make_room(struct emitter *e, struct ebb_error *err)
{
    const struct tensor_session *s = e->s;
    struct trace_sizes sizes = {.commands = s->info_count}; /* pins */
    size_t largest = 0;
    for (size_t i = 0; i < s->node_count; i++) {
        const struct node *n = &s->nodes[i];
        if (!n->is_needed || !n->kind)
            continue;
        size_t bytes = blob_bytes(n);
        sizes.ops++;
        sizes.inputs += n->input_count;
        sizes.tensors += n->output_count;
        sizes.attr_bytes += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    sizes.commands += sizes.ops + sizes.tensors;
    EBB_TRY(trace_builder_reserve(e->b, &sizes, err));
    e->blob = ebb_alloc(largest);
    return e->blob ? EBB_OK : ebb_no_memory(err, largest);
}

enum ebb_status tensor_finish(struct tensor_session *session, const char *name,
                              struct trace **trace, struct ebb_error *err)
{
    EBB_TRY(tensor_status(session, err));
    struct emitter e = {.s = session};
    e.last = ebb_calloc(session->info_count, sizeof *e.last);
    if (!e.last)
        return ebb_no_memory(err, session->info_count * sizeof *e.last);
    mark_needed(session);
    find_last_uses(session, e.last);
    enum ebb_status status = trace_builder_create(&e.b, err);
    if (status == EBB_OK)
        status = make_room(&e, err);
    if (status == EBB_OK)
        status = emit(&e, err);
    if (status == EBB_OK)
        status = trace_builder_finish(e.b, name, trace, err);
    trace_builder_destroy(e.b);
    ebb_free(e.last);
    ebb_free(e.blob);
    return status;
}

/* ---- inside a kernel ------------------------------------------------------------------------ */

enum ebb_status tensor_call_decode(const struct trace_call *call, struct tensor_call *out,
                                   struct ebb_error *err)
{
    const unsigned char *at = call->attr;
    struct blob_head head;
    if (call->attr_bytes < sizeof head)
        return ebb_fail(err, EBB_EINTERNAL, "op: attribute blob of %zu bytes", call->attr_bytes);
    memcpy(&head, at, sizeof head);
    size_t views = ((size_t)head.input_count + head.output_count) * sizeof(struct tensor_view);
    if (head.input_count > TENSOR_PORTS || head.output_count > TENSOR_PORTS ||
        call->attr_bytes != sizeof head + views + round_up(head.attr_bytes) ||
        (uintptr_t)at % _Alignof(struct tensor_view))
        return ebb_fail(err, EBB_EINTERNAL, "op: attribute blob of %zu bytes", call->attr_bytes);
    const struct tensor_view *view = (const struct tensor_view *)(const void *)(at + sizeof head);
    *out = (struct tensor_call){.call = call,
                                .input_count = head.input_count,
                                .output_count = head.output_count,
                                .in = view,
                                .out = view + head.input_count,
                                .attr = at + sizeof head + views,
                                .attr_bytes = head.attr_bytes};
    for (uint32_t i = 0; i < head.output_count; i++)
        out->wanted += call->out[i] != NULL;
    return EBB_OK;
}

size_t tensor_blob_write(void *to, size_t capacity, size_t input_count,
                         const struct tensor_view *in, size_t output_count,
                         const struct tensor_view *out, const void *attr, size_t attr_bytes)
{
    struct blob_head head = {(uint32_t)input_count, (uint32_t)output_count, attr_bytes};
    size_t ins = input_count * sizeof *in, outs = output_count * sizeof *out;
    size_t bytes = sizeof head + ins + outs + round_up(attr_bytes);
    unsigned char *at = to;
    if (bytes > capacity)
        return 0;
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, in, ins);
    memcpy(at + sizeof head + ins, out, outs);
    memset(at + sizeof head + ins + outs, 0, round_up(attr_bytes));
    if (attr_bytes)
        memcpy(at + sizeof head + ins + outs, attr, attr_bytes);
    return bytes;
}

const void *tensor_call_in(const struct tensor_call *c, uint32_t i)
{
    const unsigned char *p = c->call->in[i];
    return p ? p + (size_t)c->in[i].offset * tensor_dtype_bytes(c->in[i].dtype) : NULL;
}

void *tensor_call_out(const struct tensor_call *c, uint32_t i)
{
    unsigned char *p = c->call->out[i];
    return p ? p + (size_t)c->out[i].offset * tensor_dtype_bytes(c->out[i].dtype) : NULL;
}
