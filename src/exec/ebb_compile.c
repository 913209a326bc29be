/* ebb_compile.c - a trace made ready for rules ebb: views resolved, uses counted, ways back worked
 * out.
 *
 * Expiry. The way back of (storage, version) is its recipe: the root op, then the ops that wrote it
 * in place. A recipe is good while the versions it reads are current. expire = the first op that
 * destroys one of them, directly or through an ancestor's recipe; after it the storage must stay
 * (or be copied) until its last use. Leaves and outputs of `once` ops have no recipe; they are
 * anchors: resident for as long as anything may need them, so a recipe may rely on them. */
#include "exec/ebb.h"

#include <string.h>

#include "base/heap.h"

static void compile_op(struct ebb_program *p, uint32_t o, uint32_t *ins, uint32_t *outs,
                       uint32_t *seen)
{
    const struct trace *t = p->trace;
    const struct trace_op *op = &t->ops[o];
    struct ebb_op *e = &p->ops[o];
    *e = (struct ebb_op){.cost = op->cost_ns,
                         .workspace = plan_round(op->workspace_bytes),
                         .in_first = *ins,
                         .out_first = *outs,
                         .is_skipped = trace_is_view_op(t, o),
                         .can_skip_outputs = plan_can_skip(op->kind),
                         .is_once = op->kind->purity == TRACE_ONCE};
    uint32_t ports = op->input_count + op->output_count;
    p->ports = ports > p->ports ? ports : p->ports;
    p->base_ns +=
        op->cost_ns; /* views too: the baseline is a figure of the trace, whatever the rules */
    if (e->is_skipped)
        return;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const struct trace_tensor *in = &t->tensors[t->inputs[op->input_first + i]];
        if (seen[in->storage] == o + 1)
            continue;
        seen[in->storage] = o + 1;
        p->in_storage[*ins] = in->storage;
        p->in_version[(*ins)++] = in->version;
        p->use_count[in->storage]++;
        p->last_use[in->storage] = o;
    }
    e->in_count = *ins - e->in_first;
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *out = &t->tensors[op->output_first + k];
        if (out->alias == TRACE_VIEW)
            continue;
        p->out_storage[*outs] = out->storage;
        p->out_version[(*outs)++] = out->version;
        p->mutator[p->version_first[out->storage] + out->version] = o;
        if (out->alias == TRACE_FRESH) {
            p->root_op[out->storage] = o;
            p->is_leaf[out->storage] = op->is_leaf;
        }
    }
    e->out_count = *outs - e->out_first;
}

/* First op that destroys (storage, version), by writing the next one; EXEC_NEVER. */
static uint32_t overwritten_at(const struct ebb_program *p, uint32_t storage, uint32_t version)
{
    if (version >= p->final_version[storage])
        return EXEC_NEVER;
    return p->mutator[p->version_first[storage] + version + 1];
}

static void compile_expiry(struct ebb_program *p)
{
    for (uint32_t o = 0; o < p->op_count; o++) {
        const struct ebb_op *op = &p->ops[o];
        for (uint32_t k = 0; k < op->out_count; k++) {
            uint32_t s = p->out_storage[op->out_first + k];
            uint32_t v = p->out_version[op->out_first + k];
            uint32_t *expire = &p->expire[p->version_first[s] + v];
            uint32_t until = EXEC_NEVER;
            if (p->is_leaf[s] || op->is_once)
                until = 0;
            if (v > 0 && p->expire[p->version_first[s] + v - 1] < until)
                until = p->expire[p->version_first[s] + v - 1];
            for (uint32_t i = 0; i < op->in_count && until > 0; i++) {
                uint32_t in = p->in_storage[op->in_first + i];
                uint32_t iv = p->in_version[op->in_first + i];
                if (in == s)
                    continue;
                uint32_t gone = overwritten_at(p, in, iv);
                until = gone < until ? gone : until;
                uint32_t theirs = p->expire[p->version_first[in] + iv];
                if (theirs != 0 && theirs < until) /* anchors (0) stay, so they do not limit */
                    until = theirs;
            }
            for (uint32_t j = 0; j < op->out_count;
                 j++) { /* replaying it would write another storage again */
                if (p->out_version[op->out_first + j] > 0 && p->out_storage[op->out_first + j] != s)
                    until = 0;
            }
            *expire = until;
        }
    }
}

/* need_until: backwards, so that consumers are known before their inputs. The keep set is pinned
 * once final, so nothing is needed to recompute it after that. */
static void compile_needs(struct ebb_program *p)
{
    for (uint32_t s = 0; s < p->storage_count; s++) {
        uint32_t final_op = p->mutator[p->version_first[s] + p->final_version[s]];
        p->need_until[s] = p->use_count[s] && p->last_use[s] > final_op ? p->last_use[s] : final_op;
    }
    for (uint32_t o = p->op_count; o-- > 0;) {
        const struct ebb_op *op = &p->ops[o];
        uint32_t latest = o;
        for (uint32_t k = 0; k < op->out_count; k++) {
            uint32_t need = p->need_until[p->out_storage[op->out_first + k]];
            latest = need > latest ? need : latest;
        }
        for (uint32_t i = 0; i < op->in_count; i++) {
            uint32_t in = p->in_storage[op->in_first + i];
            if (p->need_until[in] < latest)
                p->need_until[in] = latest;
        }
    }
    for (uint32_t s = 0; s < p->storage_count; s++)
        p->is_candidate[s] = p->bytes[s] > 0;
}

static bool must_restore(const struct ebb_program *p, uint32_t s, uint32_t v, uint32_t *at)
{
    uint32_t k = p->expire[p->version_first[s] + v];
    if (k == 0 || k == EXEC_NEVER || p->mutator[p->version_first[s] + v] > k)
        return false;
    uint32_t next = overwritten_at(p, s, v);
    *at = k;
    return next > k && (p->is_keep[s] || (p->use_count[s] && p->last_use[s] > k));
}

static enum ebb_status compile_restores(struct ebb_program *p, struct ebb_error *err)
{
    size_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t s = 0; s < p->storage_count; s++) {
            for (uint32_t v = 0; v <= p->final_version[s]; v++) {
                uint32_t at;
                if (!must_restore(p, s, v, &at))
                    continue;
                struct ebb_op *op = &p->ops[at];
                if (pass == 1)
                    p->restore[op->restore_first + op->restore_count] = s;
                op->restore_count++;
                total++;
            }
        }
        if (pass == 1)
            break;
        p->restore = ebb_calloc(total + 1, sizeof *p->restore);
        if (!p->restore)
            return ebb_no_memory(err, total * sizeof *p->restore);
        uint32_t first = 0;
        for (uint32_t o = 0; o < p->op_count; o++) {
            p->ops[o].restore_first = first;
            first += p->ops[o].restore_count;
            p->ops[o].restore_count = 0;
        }
    }
    return EBB_OK;
}

/* Anchors end with the last op that may need them, not with their last use. */
static bool is_anchor(const struct ebb_program *p, uint32_t s)
{
    return !p->is_keep[s] && p->expire[p->version_first[s] + p->final_version[s]] == 0;
}

static enum ebb_status compile_ends(struct ebb_program *p, struct ebb_error *err)
{
    uint32_t total = 0;
    for (uint32_t s = 0; s < p->storage_count; s++) {
        if (is_anchor(p, s)) {
            p->ops[p->need_until[s]].end_count++;
            total++;
        }
    }
    p->ends = ebb_calloc((size_t)total + 1, sizeof *p->ends);
    if (!p->ends)
        return ebb_no_memory(err, total * sizeof *p->ends);
    uint32_t first = 0;
    for (uint32_t o = 0; o < p->op_count; o++) {
        p->ops[o].end_first = first;
        first += p->ops[o].end_count;
        p->ops[o].end_count = 0;
    }
    for (uint32_t s = 0; s < p->storage_count; s++) {
        if (is_anchor(p, s)) {
            struct ebb_op *op = &p->ops[p->need_until[s]];
            p->ends[op->end_first + op->end_count++] = s;
        }
    }
    return EBB_OK;
}

static bool allocate(struct ebb_program *p, const struct trace *t)
{
    size_t s = (size_t)t->storage_count + 1, o = (size_t)t->op_count + 1;
    size_t versions = (size_t)t->tensor_count + 1;
    return (p->ops = ebb_calloc(o, sizeof *p->ops)) &&
           (p->in_storage = ebb_calloc(t->input_count + 1, 4)) &&
           (p->in_version = ebb_calloc(t->input_count + 1, 4)) &&
           (p->out_storage = ebb_calloc(versions, 4)) &&
           (p->out_version = ebb_calloc(versions, 4)) && (p->bytes = ebb_calloc(s, 8)) &&
           (p->root_op = ebb_calloc(s, 4)) && (p->final_version = ebb_calloc(s, 4)) &&
           (p->use_count = ebb_calloc(s, 4)) && (p->last_use = ebb_calloc(s, 4)) &&
           (p->need_until = ebb_calloc(s, 4)) && (p->is_leaf = ebb_calloc(s, 1)) &&
           (p->is_keep = ebb_calloc(s, 1)) && (p->is_candidate = ebb_calloc(s, 1)) &&
           (p->version_first = ebb_calloc(s + 1, 4)) && (p->expire = ebb_calloc(versions, 4)) &&
           (p->mutator = ebb_calloc(versions, 4)) && (p->base = ebb_calloc(s, 8));
}

enum ebb_status exec_ebb_compile(struct ebb_program **program, const struct trace *t,
                                 struct ebb_error *err)
{
    struct ebb_program *p = ebb_calloc(1, sizeof *p);
    if (!p)
        return ebb_no_memory(err, sizeof *p);
    p->trace = t;
    p->op_count = t->op_count;
    p->storage_count = t->storage_count;
    uint32_t *seen = ebb_calloc((size_t)t->storage_count + 1, sizeof *seen);
    enum ebb_status status = allocate(p, t) && seen ? EBB_OK : ebb_no_memory(err, t->tensor_count);
    if (status == EBB_OK) {
        for (uint32_t s = 0; s < t->storage_count; s++) {
            p->bytes[s] = plan_round(t->storages[s].bytes);
            p->final_version[s] = t->storages[s].version_count - 1;
            p->version_first[s + 1] = p->version_first[s] + t->storages[s].version_count;
        }
        for (uint32_t c = 0; c < t->command_count; c++) {
            uint32_t tensor = t->commands[c].index;
            if (t->commands[c].kind == TRACE_PIN && !t->ops[t->tensors[tensor].op].is_leaf)
                p->is_keep[t->tensors[tensor].storage] = 1;
        }
        uint32_t last_run = 0;
        for (uint32_t c = 0; c < t->command_count; c++)
            last_run = t->commands[c].kind == TRACE_RUN ? c : last_run;
        for (uint32_t c = last_run + 1; c < t->command_count;
             c++) { /* leaves pinned at the end stay, too */
            if (t->commands[c].kind == TRACE_PIN)
                p->is_keep[t->tensors[t->commands[c].index].storage] = 1;
        }
        status = plan_base_layout(t, p->base, NULL, err);
    }
    if (status == EBB_OK) {
        uint32_t ins = 0, outs = 0;
        for (uint32_t o = 0; o < t->op_count; o++)
            compile_op(p, o, &ins, &outs, seen);
        compile_expiry(p);
        compile_needs(p);
        status = compile_restores(p, err);
    }
    if (status == EBB_OK)
        status = compile_ends(p, err);
    if (status == EBB_OK)
        status = mem_graph_init(&p->graph, t, false, err);
    if (status == EBB_OK)
        status = exec_easy_create(&p->easy, err);
    if (status == EBB_OK) {
        uint64_t total = 0;
        for (uint32_t s = 0; s < t->storage_count; s++)
            total += p->bytes[s];
        p->average_bytes = t->storage_count ? total / t->storage_count : 0;
        p->keep_peak = exec_keep_peak(p);
    }
    ebb_free(seen);
    if (status != EBB_OK) {
        exec_ebb_destroy(p);
        return status;
    }
    *program = p;
    return EBB_OK;
}

void exec_ebb_destroy(struct ebb_program *p)
{
    if (!p)
        return;
    ebb_free(p->ops);
    ebb_free(p->in_storage);
    ebb_free(p->in_version);
    ebb_free(p->out_storage);
    ebb_free(p->out_version);
    ebb_free(p->restore);
    ebb_free(p->ends);
    ebb_free(p->bytes);
    ebb_free(p->root_op);
    ebb_free(p->final_version);
    ebb_free(p->use_count);
    ebb_free(p->last_use);
    ebb_free(p->need_until);
    ebb_free(p->is_leaf);
    ebb_free(p->is_keep);
    ebb_free(p->is_candidate);
    ebb_free(p->version_first);
    ebb_free(p->expire);
    ebb_free(p->mutator);
    ebb_free(p->base);
    mem_graph_fini(&p->graph);
    exec_easy_destroy(p->easy);
    ebb_free(p);
}
