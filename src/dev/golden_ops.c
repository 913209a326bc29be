/* golden_ops.c - ops.json: every op forward, backward and, where asked, twice backward. */
#include <stdio.h>
#include <string.h>

#include "dev/golden.h"
#include "grad/grad.h"

struct op_case {
    struct dev_run run;
    const struct ebb_doc_node *doc;
    const struct dev_tensors *tensors;
    const char *name;
    tensor_id in[TENSOR_PORTS], out[TENSOR_PORTS], grad[TENSOR_PORTS], gg[2 * TENSOR_PORTS];
    size_t in_count, out_count;
    tensor_id diff_in[TENSOR_PORTS], diff_out[TENSOR_PORTS], diff_gout[TENSOR_PORTS];
    const char *diff_name[TENSOR_PORTS];
    size_t diff_index[TENSOR_PORTS]; /* output number of diff_out */
    size_t diff_in_count, diff_out_count;
    struct {
        tensor_id id;
        const struct tensor_entry *entry;
    } leaves[3 * TENSOR_PORTS]; /* inputs, gradients of outputs, of gradients */
    size_t leaf_count;
    bool is_second;
};

static tensor_id add_leaf(struct op_case *c, const struct tensor_entry *e, const char *name)
{
    tensor_id id = dev_leaf(&c->run, e, name);
    c->leaves[c->leaf_count].id = id;
    c->leaves[c->leaf_count++].entry = e;
    return id;
}

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
        dev_refuse(c->run.j, "inputs (at most %d) and grads must be lists", TENSOR_PORTS);
        return false;
    }
    for (size_t i = 0; i < names->count; i++) {
        const char *name = dev_text(names->items[i]);
        const struct tensor_entry *e = dev_find(c->tensors, "%s/in_%s", c->name, name);
        if (!e) {
            dev_refuse(c->run.j, "no tensor for input '%s'", name);
            return false;
        }
        c->in[c->in_count++] = add_leaf(c, e, name);
        for (size_t k = 0; k < grads->count; k++)
            if (strcmp(dev_text(grads->items[k]), name) == 0 && c->diff_in_count < TENSOR_PORTS) {
                c->diff_in[c->diff_in_count] = c->in[i];
                c->diff_name[c->diff_in_count++] = name;
            }
    }
    if (c->diff_in_count != grads->count)
        dev_refuse(c->run.j, "grads names %zu inputs, %zu are there", grads->count,
                   c->diff_in_count);
    return c->diff_in_count == grads->count;
}

static void build(struct op_case *c, const struct ops_def *def, const void *attr,
                  struct ebb_error *err)
{
    ops_call(c->run.s, def, c->in, c->in_count, attr, c->out, &c->out_count);
    for (size_t j = 0; j < c->out_count; j++) {
        const struct tensor_entry *e = dev_find(c->tensors, "%s/gout%zu", c->name, j);
        const struct ebb_doc_node *outputs = ebb_doc_get(c->doc, "outputs");
        bool is_wanted = outputs && outputs->kind == EBB_DOC_LIST && j < outputs->count &&
                         ebb_doc_bool(outputs->items[j], "differentiable", false);
        if (!e && is_wanted)
            dev_refuse(c->run.j, "no tensor gout%zu", j);
        if (!e)
            continue;
        char name[32];
        snprintf(name, sizeof name, "gout%zu", j);
        c->diff_index[c->diff_out_count] = j;
        c->diff_out[c->diff_out_count] = c->out[j];
        c->diff_gout[c->diff_out_count++] = add_leaf(c, e, name);
    }
    if (c->diff_out_count && c->diff_in_count &&
        grad_backward(c->run.s, c->diff_out, c->diff_gout, c->diff_out_count, c->diff_in,
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
        outputs[n] = c->grad[k];
        seeds[n++] = add_leaf(c, e, "ggo");
    }
    memcpy(inputs, c->diff_in, c->diff_in_count * sizeof *inputs);
    memcpy(inputs + c->diff_in_count, c->diff_gout, c->diff_out_count * sizeof *inputs);
    grad_backward(c->run.s, outputs, seeds, n, inputs, c->diff_in_count + c->diff_out_count, c->gg,
                  err);
}

static void keep(struct op_case *c, tensor_id *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ids[i] = ops_settle(c->run.s, ids[i]);
        tensor_keep(c->run.s, ids[i]);
    }
}

static void check(struct op_case *c, tensor_id id, const char *part, bool is_exact)
{
    struct tensor_view view;
    const void *data = NULL;
    const struct tensor_entry *want = dev_find(c->tensors, "%s/%s_f64", c->name, part);
    struct dev_limit limit = dev_op_limit;
    if (!want) {
        dev_refuse(c->run.j, "no tensor %s_f64", part);
        return;
    }
    limit.is_exact = is_exact || want->view.dtype == TENSOR_I64;
    view = want->view;
    view.dtype = TENSOR_F32;
    if (id.v)
        data = dev_read(&c->run, id, &view);
    if (limit.is_exact) {
        const struct tensor_entry *plain = dev_find(c->tensors, "%s/%s", c->name, part);
        want = plain ? plain : want;
    }
    dev_compare(c->run.j, part, &view, data, want, limit);
}

static void check_all(struct op_case *c, const char *op)
{
    char part[256];
    const struct ebb_doc_node *outputs = ebb_doc_get(c->doc, "outputs");
    if (!outputs || c->out_count != outputs->count)
        dev_fail(c->run.j, "%zu outputs, expected %zu", c->out_count, outputs ? outputs->count : 0);
    for (size_t j = 0; j < c->out_count; j++) {
        snprintf(part, sizeof part, "out%zu", j);
        check(c, c->out[j], part, is_copy(op));
    }
    /* an op without differentiable outputs has no gradients to compare */
    for (size_t k = 0; c->diff_out_count && k < c->diff_in_count; k++) {
        snprintf(part, sizeof part, "grad_%s", c->diff_name[k]);
        check(c, c->grad[k], part, false);
        snprintf(part, sizeof part, "gg_%s", c->diff_name[k]);
        if (c->is_second)
            check(c, c->gg[k], part, false);
    }
    for (size_t k = 0; c->is_second && k < c->diff_out_count; k++) {
        snprintf(part, sizeof part, "gg_gout%zu", c->diff_index[k]);
        check(c, c->gg[c->diff_in_count + k], part, false);
    }
}

static void run(struct op_case *c, const char *op)
{
    keep(c, c->out, c->out_count);
    keep(c, c->grad, c->diff_in_count);
    keep(c, c->gg, c->is_second ? c->diff_in_count + c->diff_out_count : 0);
    if (!dev_run_finish(&c->run))
        return;
    for (size_t i = 0; i < c->leaf_count; i++)
        dev_fill(&c->run, c->leaves[i].id, c->leaves[i].entry->data, c->leaves[i].entry->bytes);
    if (dev_run_go(&c->run))
        check_all(c, op);
}

void dev_golden_ops(struct dev_judge *j, const struct ebb_doc_node *doc,
                    const struct dev_tensors *tensors)
{
    struct op_case c = {.doc = doc, .tensors = tensors, .name = ebb_doc_string(doc, "name", "?")};
    struct ebb_error err = {.status = EBB_OK};
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    const char *op = ebb_doc_string(doc, "op", "");
    const struct ops_def *def = ops_find(op);
    dev_begin(j, "ops/%s", c.name);
    if (!def || ops_is_internal(def)) {
        dev_refuse(j, "unknown op '%s'", op);
    } else if (ops_parse(def, ebb_doc_get(doc, "attrs"), attr, &err) != EBB_OK) {
        dev_refuse(j, "%s", err.message);
    } else if (dev_run_begin(&c.run, j) && add_inputs(&c)) {
        build(&c, def, attr, &err);
        if (err.status != EBB_OK || tensor_status(c.run.s, &err) != EBB_OK)
            dev_refuse(j, "%s", err.message);
        else
            run(&c, op);
    }
    dev_run_end(&c.run);
    dev_end(j);
}
