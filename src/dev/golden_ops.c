/* golden_ops.c - ops.json: every op forward, backward and, where asked, twice backward. */
#include <stdio.h>
#include <string.h>

#include "dev/golden.h"
#include "grad/grad.h"

struct op_case {
    struct dev_golden *g;
    const struct ebb_doc_node *doc;
    const struct dev_tensors *tensors;
    const char *name;
    struct tensor_session *s;
    tensor_id in[TENSOR_PORTS], out[TENSOR_PORTS], gout[TENSOR_PORTS], grad[TENSOR_PORTS],
        ggo[TENSOR_PORTS], gg[2 * TENSOR_PORTS];
    size_t in_count, out_count;
    tensor_id diff_in[TENSOR_PORTS], diff_out[TENSOR_PORTS], diff_gout[TENSOR_PORTS];
    const char *diff_name[TENSOR_PORTS];
    size_t diff_index[TENSOR_PORTS]; /* output number of diff_out */
    size_t diff_in_count, diff_out_count;
    bool is_second;
};

/* Ops that only move bytes must give exactly the bytes. */
static bool is_copy(const char *op)
{
    static const char *const names[] = {
        "reshape",         "permute",   "transpose", "cat",          "stack",        "split",
        "slice",           "pad",       "expand",    "tile",         "squeeze",      "unsqueeze",
        "channel_shuffle", "embedding", "gather",    "index_select", "max_unpool2d", "where",
        "masked_fill"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], op) == 0)
            return true;
    return false;
}

static bool add_inputs(struct op_case *c)
{
    const struct ebb_doc_node *names = ebb_doc_get(c->doc, "inputs");
    const struct ebb_doc_node *grads = ebb_doc_get(c->doc, "grads");
    if (!names || names->kind != EBB_DOC_LIST || names->count > TENSOR_PORTS || !grads ||
        grads->kind != EBB_DOC_LIST) {
        dev_refuse(c->g, "inputs (at most %d) and grads must be lists", TENSOR_PORTS);
        return false;
    }
    for (size_t i = 0; i < names->count; i++) {
        const char *name = dev_text(names->items[i]);
        const struct tensor_entry *e = dev_find(c->tensors, "%s/in_%s", c->name, name);
        if (!e) {
            dev_refuse(c->g, "no tensor for input '%s'", name);
            return false;
        }
        c->in[c->in_count++] = dev_leaf(c->s, e, name);
        for (size_t k = 0; k < grads->count; k++)
            if (strcmp(dev_text(grads->items[k]), name) == 0 && c->diff_in_count < TENSOR_PORTS) {
                c->diff_in[c->diff_in_count] = c->in[i];
                c->diff_name[c->diff_in_count++] = name;
            }
    }
    if (c->diff_in_count != grads->count)
        dev_refuse(c->g, "grads names %zu inputs, %zu are there", grads->count, c->diff_in_count);
    return c->diff_in_count == grads->count;
}

static void build(struct op_case *c, const struct ops_def *def, const void *attr,
                  struct ebb_error *err)
{
    ops_call(c->s, def, c->in, c->in_count, attr, c->out, &c->out_count);
    for (size_t j = 0; j < c->out_count; j++) {
        const struct tensor_entry *e = dev_find(c->tensors, "%s/gout%zu", c->name, j);
        const struct ebb_doc_node *outputs = ebb_doc_get(c->doc, "outputs");
        bool is_wanted = outputs && outputs->kind == EBB_DOC_LIST && j < outputs->count &&
                         ebb_doc_bool(outputs->items[j], "differentiable", false);
        if (!e && is_wanted)
            dev_refuse(c->g, "no tensor gout%zu", j);
        if (!e)
            continue;
        char name[32];
        snprintf(name, sizeof name, "gout%zu", j);
        c->diff_index[c->diff_out_count] = j;
        c->diff_out[c->diff_out_count] = c->out[j];
        c->diff_gout[c->diff_out_count++] = dev_leaf(c->s, e, name);
    }
    if (c->diff_out_count && c->diff_in_count &&
        grad_backward(c->s, c->diff_out, c->diff_gout, c->diff_out_count, c->diff_in,
                      c->diff_in_count, c->grad, err) != EBB_OK)
        return;
    c->is_second = ebb_doc_bool(c->doc, "second_order", false);
    if (!c->is_second)
        return;
    tensor_id outputs[TENSOR_PORTS], seeds[TENSOR_PORTS], inputs[2 * TENSOR_PORTS];
    size_t n = 0;
    for (size_t k = 0; k < c->diff_in_count; k++) {
        const struct tensor_entry *e = dev_find(c->tensors, "%s/ggo_%s", c->name, c->diff_name[k]);
        if (!e || !c->grad[k].v)
            continue;
        c->ggo[k] = dev_leaf(c->s, e, "ggo");
        outputs[n] = c->grad[k];
        seeds[n++] = c->ggo[k];
    }
    memcpy(inputs, c->diff_in, c->diff_in_count * sizeof *inputs);
    memcpy(inputs + c->diff_in_count, c->diff_gout, c->diff_out_count * sizeof *inputs);
    grad_backward(c->s, outputs, seeds, n, inputs, c->diff_in_count + c->diff_out_count, c->gg,
                  err);
}

static void keep(struct op_case *c, tensor_id *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ids[i] = ops_contiguous(c->s, ids[i]);
        tensor_keep(c->s, ids[i]);
    }
}

static void fill(struct op_case *c, struct ops_host *host, tensor_id id,
                 const struct tensor_entry *e)
{
    if (id.v && e)
        dev_fill(c->s, host, id, e->data, e->bytes);
}

static void check(struct op_case *c, struct ops_host *host, tensor_id id, const char *part,
                  bool is_exact)
{
    struct tensor_view view;
    const void *data = NULL;
    const struct tensor_entry *want = dev_find(c->tensors, "%s/%s_f64", c->name, part);
    struct dev_limit limit = dev_op_limit;
    if (!want) {
        dev_refuse(c->g, "no tensor %s_f64", part);
        return;
    }
    limit.is_exact = is_exact || want->view.dtype == TENSOR_I64;
    view = want->view;
    view.dtype = TENSOR_F32;
    if (id.v)
        data = dev_read(c->s, host, id, &view);
    if (limit.is_exact) {
        const struct tensor_entry *plain = dev_find(c->tensors, "%s/%s", c->name, part);
        want = plain ? plain : want;
    }
    dev_compare(c->g, part, &view, data, want, limit);
}

static void check_all(struct op_case *c, struct ops_host *host, const char *op)
{
    char part[256];
    const struct ebb_doc_node *outputs = ebb_doc_get(c->doc, "outputs");
    if (!outputs || c->out_count != outputs->count)
        dev_fail(c->g, "%zu outputs, expected %zu", c->out_count, outputs ? outputs->count : 0);
    for (size_t j = 0; j < c->out_count; j++) {
        snprintf(part, sizeof part, "out%zu", j);
        check(c, host, c->out[j], part, is_copy(op));
    }
    /* an op without differentiable outputs has no gradients to compare */
    for (size_t k = 0; c->diff_out_count && k < c->diff_in_count; k++) {
        snprintf(part, sizeof part, "grad_%s", c->diff_name[k]);
        check(c, host, c->grad[k], part, false);
        snprintf(part, sizeof part, "gg_%s", c->diff_name[k]);
        if (c->is_second)
            check(c, host, c->gg[k], part, false);
    }
    for (size_t k = 0; c->is_second && k < c->diff_out_count; k++) {
        snprintf(part, sizeof part, "gg_gout%zu", c->diff_index[k]);
        check(c, host, c->gg[c->diff_in_count + k], part, false);
    }
}

static enum ebb_status run(struct op_case *c, const char *op, struct ebb_error *err)
{
    struct trace *trace;
    struct ops_host host;
    keep(c, c->out, c->out_count);
    keep(c, c->grad, c->diff_in_count);
    keep(c, c->gg, c->is_second ? c->diff_in_count + c->diff_out_count : 0);
    EBB_TRY(tensor_finish(c->s, c->name, &trace, err));
    enum ebb_status status = ops_host_create(&host, trace, c->g->backend, err);
    if (status == EBB_OK) {
        const struct ebb_doc_node *names = ebb_doc_get(c->doc, "inputs");
        for (size_t i = 0; i < c->in_count; i++)
            fill(c, &host, c->in[i],
                 dev_find(c->tensors, "%s/in_%s", c->name, names->items[i]->text));
        for (size_t k = 0; k < c->diff_out_count; k++)
            fill(c, &host, c->diff_gout[k],
                 dev_find(c->tensors, "%s/gout%zu", c->name, c->diff_index[k]));
        for (size_t k = 0; k < c->diff_in_count; k++)
            fill(c, &host, c->ggo[k], dev_find(c->tensors, "%s/ggo_%s", c->name, c->diff_name[k]));
        status = ops_host_run(&host, err);
        if (status == EBB_OK)
            check_all(c, &host, op);
        ops_host_destroy(&host);
    }
    trace_destroy(trace);
    return status;
}

static void run_case(struct dev_golden *g, const struct ebb_doc_node *doc,
                     const struct dev_tensors *tensors)
{
    struct op_case c = {.g = g, .doc = doc, .tensors = tensors};
    struct ebb_error err = {.status = EBB_OK};
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    const char *op = ebb_doc_string(doc, "op", "");
    c.name = ebb_doc_string(doc, "name", "?");
    dev_begin(g, "ops", c.name);
    const struct ops_def *def = ops_find(op);
    if (!def || ops_is_internal(def)) {
        dev_refuse(g, "unknown op '%s'", op);
    } else if (ops_parse(def, ebb_doc_get(doc, "attrs"), attr, &err) != EBB_OK ||
               tensor_session_create(&c.s, g->backend, &err) != EBB_OK) {
        dev_refuse(g, "%s", err.message);
    } else if (add_inputs(&c)) {
        build(&c, def, attr, &err);
        if (err.status != EBB_OK || tensor_status(c.s, &err) != EBB_OK ||
            run(&c, op, &err) != EBB_OK)
            dev_refuse(g, "%s", err.message);
    }
    tensor_session_destroy(c.s);
    dev_end(g);
}

enum ebb_status dev_golden_ops(struct dev_golden *g, struct ebb_error *err)
{
    struct dev_tensors t;
    if (!dev_has(g, "ops.json"))
        return EBB_OK;
    const struct ebb_doc_node *root = dev_json(g, "ops.json", err);
    if (!root)
        return err->status;
    EBB_TRY(dev_tensors_open(g, "ops.safetensors", &t, err));
    const struct ebb_doc_node *cases = ebb_doc_get(root, "cases");
    for (size_t i = 0; cases && i < cases->count; i++)
        run_case(g, cases->items[i], &t);
    dev_tensors_close(&t);
    return EBB_OK;
}
