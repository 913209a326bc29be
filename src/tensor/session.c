/* session.c - the lazy builder: records nodes. */
#include "tensor/session.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"

#define ROOM 16384 /* nodes, tensors */

static const struct trace_kind leaf_kind = {.name = "leaf", .purity = TRACE_PURE};

enum ebb_status tensor_session_create(struct tensor_session **session, void *backend,
                                      struct ebb_error *err)
{
    struct tensor_session *s;
    EBB_TRY(ebb_new(&s, 1, sizeof *s, err));
    s->backend = backend;
    s->partner = UINT32_MAX;
    s->info_count = 1;
    /* Room for a step of some thousand ops at once, of which only what is used is touched: growing
     * means copying. */
    enum ebb_status status = ebb_grow(&s->infos, &s->info_capacity, ROOM, sizeof *s->infos, err);
    EBB_THEN(status, ebb_grow(&s->views, &s->view_capacity, ROOM, sizeof *s->views, err));
    EBB_THEN(status, ebb_grow(&s->nodes, &s->node_capacity, ROOM, sizeof *s->nodes, err));
    if (status == EBB_OK) {
        memset(&s->infos[0], 0, sizeof s->infos[0]);
        memset(&s->views[0], 0, sizeof s->views[0]);
    }
    return EBB_HAND_OUT(status, session, s, tensor_session_destroy);
}

void tensor_session_destroy(struct tensor_session *session)
{
    if (!session)
        return;
    ebb_free(session->infos);
    ebb_free(session->views);
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
    return &session->views[id.v < session->info_count ? id.v : 0];
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

/* Attributes and inputs of a node, in one piece. */
static bool keep_parts(struct tensor_session *s, const struct tensor_node_desc *d,
                       struct tensor_record *n)
{
    size_t attr_bytes = tensor_round_up(d->attr_bytes),
           input_bytes = d->input_count * sizeof *d->inputs;
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
                 &s->error) ||
        ebb_grow(&s->views, &s->view_capacity, s->info_count + d->output_count, sizeof *s->views,
                 &s->error))
        return TENSOR_NONE;
    struct tensor_record *n = &s->nodes[s->node_count];
    n->def = d->def;
    n->kind = d->kind;
    n->overwriting_kind = d->overwriting_kind;
    n->input_count = (uint32_t)d->input_count;
    n->output_count = (uint32_t)d->output_count;
    n->first_output = (uint32_t)s->info_count;
    n->workspace_bytes = d->workspace_bytes;
    n->cost_ns = d->cost_ns;
    n->label = s->label;
    n->partner = s->partner;
    n->op = TRACE_NONE;
    n->phase = (uint8_t)s->phase;
    n->overwrites = d->overwrites;
    n->is_chain = d->is_chain;
    n->is_leaf = is_leaf;
    n->is_needed = n->is_lasting = false;
    if (!keep_parts(s, d, n))
        return tensor_fail(s, EBB_ENOMEM, "out of memory");
    for (size_t i = 0; i < d->output_count; i++) {
        uint32_t id = (uint32_t)s->info_count++;
        uint32_t over = d->mutates && d->mutates[i] ? d->inputs[d->mutates[i] - 1].v : 0;
        s->views[id] = d->outputs[i];
        s->infos[id] = (struct tensor_info){.node = (uint32_t)s->node_count,
                                            .root = d->kind ? id : s->infos[d->inputs[0].v].root,
                                            .mutates = over ? s->infos[over].root : 0,
                                            .trace_id = TRACE_NONE};
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
    const struct tensor_record *n = &session->nodes[index];
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
