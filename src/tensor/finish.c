/* finish.c - writes the trace of what is needed. */
#include <string.h>

#include "base/heap.h"
#include "tensor/session.h"

static void mark_needed(struct tensor_session *s)
{
    for (size_t i = 0; i < s->node_count; i++)
        s->nodes[i].is_needed = s->nodes[i].kind && s->nodes[i].kind->purity != TRACE_PURE;
    for (size_t i = 1; i < s->info_count; i++)
        if (s->infos[i].is_kept)
            s->nodes[s->infos[i].node].is_needed = true;
    for (size_t i = s->node_count; i-- > 0;) {
        uint32_t count = s->nodes[i].kind ? s->nodes[i].input_count : s->nodes[i].input_count > 0;
        for (uint32_t k = 0; s->nodes[i].is_needed && k < count; k++) /* views: of input 0 */
            s->nodes[s->infos[s->nodes[i].inputs[k].v].node].is_needed = true;
    }
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
static bool can_overwrite(const struct tensor_session *s, const struct tensor_record *n, uint32_t k,
                          const uint32_t *last)
{
    const struct tensor_info *in = &s->infos[n->inputs[k].v], *root = &s->infos[in->root];
    const struct tensor_info *out = &s->infos[n->first_output];
    const struct tensor_view *view = &s->views[n->inputs[k].v];
    for (uint32_t i = 0; i < n->input_count; i++)
        if (i != k && s->infos[n->inputs[i].v].root == in->root)
            return false;
    return last[in->root] == out->node && !s->nodes[root->node].is_leaf && !root->mutates &&
           view->offset == 0 && tensor_is_dense(view) &&
           bytes_of(view) == bytes_of(&s->views[in->root]) &&
           bytes_of(view) == bytes_of(&s->views[n->first_output]) && bytes_of(view) > 0;
}

/* Whether the op before made what n would overwrite in the same way, or the next one overwrites what n
 * makes. */
static bool is_in_chain(const struct tensor_session *s, const struct tensor_record *n,
                        const uint32_t *last)
{
    const struct tensor_info *root = &s->infos[s->infos[n->inputs[n->overwrites - 1u].v].root];
    uint32_t next = last[n->first_output];
    if (s->nodes[root->node].is_chain || next == UINT32_MAX || !s->nodes[next].is_chain)
        return s->nodes[root->node].is_chain;
    const struct tensor_record *m = &s->nodes[next];
    return s->infos[m->inputs[m->overwrites - 1u].v].root == n->first_output;
}

static uint32_t blob_bytes(const struct tensor_session *s, const struct tensor_record *n)
{
    size_t bytes = sizeof(struct tensor_blob_head) + tensor_round_up(n->attr_bytes);
    for (uint32_t k = 0; k < n->input_count; k++)
        bytes += tensor_packed_bytes(&s->views[n->inputs[k].v]);
    for (uint32_t k = 0; k < n->output_count; k++)
        bytes += tensor_packed_bytes(&s->views[n->first_output + k]);
    return (uint32_t)bytes;
}

static void write_blob(const struct tensor_session *s, const struct tensor_record *n,
                       unsigned char *at)
{
    struct tensor_blob_head head = {n->input_count, n->output_count, n->attr_bytes};
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (uint32_t k = 0; k < n->input_count; k++)
        at = tensor_pack(at, &s->views[n->inputs[k].v]);
    for (uint32_t k = 0; k < n->output_count; k++)
        at = tensor_pack(at, &s->views[n->first_output + k]);
    size_t room = tensor_round_up(n->attr_bytes);
    if (room > n->attr_bytes)
        memset(at + n->attr_bytes, 0, room - n->attr_bytes);
    if (n->attr_bytes)
        memcpy(at, n->attr, n->attr_bytes);
}

struct emitter { /* one finishing */
    struct tensor_session *s;
    struct trace_builder *b;
    uint32_t *last; /* find_last_uses */
    uint32_t op_count;
};

static enum ebb_status emit_op(struct emitter *e, struct tensor_record *n, struct ebb_error *err)
{
    struct tensor_session *s = e->s;
    uint32_t inputs[TENSOR_PORTS], first;
    struct trace_output outputs[TENSOR_PORTS];
    for (uint32_t k = 0; k < n->input_count; k++)
        inputs[k] = s->infos[s->infos[n->inputs[k].v].root].trace_id;
    for (uint32_t k = 0; k < n->output_count; k++) {
        const struct tensor_info *o = &s->infos[n->first_output + k];
        uint64_t bytes = bytes_of(&s->views[n->first_output + k]);
        outputs[k] = (struct trace_output){
            .bytes = bytes ? bytes : 1, .alias = TRACE_FRESH, .alias_input = TRACE_NONE};
        for (uint32_t i = 0; o->mutates && i < n->input_count; i++)
            if (s->infos[n->inputs[i].v].root == o->mutates)
                outputs[k] = (struct trace_output){.alias = TRACE_MUTATE, .alias_input = i};
    }
    bool is_over = n->overwrites && can_overwrite(s, n, n->overwrites - 1u, e->last) &&
                   (!n->is_chain || is_in_chain(s, n, e->last));
    if (is_over)
        outputs[0] =
            (struct trace_output){.alias = TRACE_MUTATE, .alias_input = n->overwrites - 1u};
    uint32_t partner = n->partner == UINT32_MAX ? TRACE_NONE : s->nodes[n->partner].op;
    unsigned char *blob = trace_builder_room(e->b, n->blob_bytes, err);
    if (!blob)
        return EBB_ENOMEM;
    write_blob(s, n, blob);
    struct trace_op_desc desc = {.kind = is_over ? n->overwriting_kind : n->kind,
                                 .cost_ns = n->cost_ns,
                                 .workspace_bytes = n->workspace_bytes,
                                 .inputs = inputs,
                                 .input_count = n->input_count,
                                 .outputs = outputs,
                                 .output_count = n->output_count,
                                 .attr = blob,
                                 .attr_bytes = n->blob_bytes,
                                 .label = n->label,
                                 .partner = partner,
                                 .phase = n->phase,
                                 .is_leaf = n->is_leaf,
                                 /* every member: nothing has to be cleared first */
                                 .kind_name = NULL,
                                 .purity = TRACE_PURE};
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
    const struct tensor_record *n = &s->nodes[i];
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
        struct tensor_record *n = &s->nodes[s->infos[root].node];
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
        struct tensor_record *n = &s->nodes[i];
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
        struct tensor_info *root = &s->infos[s->infos[i].root];
        if (!s->infos[i].is_kept || root->is_pinned)
            continue;
        root->is_pinned = true; /* once per bytes */
        EBB_TRY(trace_builder_command(e->b, TRACE_PIN, root->trace_id, err));
    }
    return EBB_OK;
}

/* Room for everything at once. */
static enum ebb_status make_room(struct emitter *e, struct ebb_error *err)
{
    const struct tensor_session *s = e->s;
    struct trace_sizes sizes = {.commands = s->info_count}; /* pins */
    for (size_t i = 0; i < s->node_count; i++) {
        struct tensor_record *n = &s->nodes[i];
        if (!n->is_needed || !n->kind)
            continue;
        n->blob_bytes = blob_bytes(s, n);
        sizes.ops++;
        sizes.inputs += n->input_count;
        sizes.tensors += n->output_count;
        sizes.attr_bytes += n->blob_bytes;
    }
    sizes.commands += sizes.ops + sizes.tensors;
    return trace_builder_reserve(e->b, &sizes, err);
}

static enum ebb_status finish(struct tensor_session *session, const char *name, bool is_draft,
                              struct trace **trace, struct ebb_error *err)
{
    EBB_TRY(tensor_status(session, err));
    struct emitter e = {.s = session};
    EBB_TRY(ebb_new(&e.last, session->info_count, sizeof *e.last, err));
    mark_needed(session);
    find_last_uses(session, e.last);
    enum ebb_status status = trace_builder_create(&e.b, err);
    EBB_THEN(status, make_room(&e, err));
    EBB_THEN(status, emit(&e, err));
    EBB_THEN(status, is_draft ? trace_builder_draft(e.b, name, trace, err)
                              : trace_builder_finish(e.b, name, trace, err));
    trace_builder_destroy(e.b);
    ebb_free(e.last);
    return status;
}

enum ebb_status tensor_finish(struct tensor_session *session, const char *name,
                              struct trace **trace, struct ebb_error *err)
{
    return finish(session, name, false, trace, err);
}

enum ebb_status tensor_draft(struct tensor_session *session, const char *name, struct trace **trace,
                             struct ebb_error *err)
{
    return finish(session, name, true, trace, err);
}
