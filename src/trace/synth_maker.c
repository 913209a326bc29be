/* synth_maker.c - forward ops in, a whole training step out (see synth.h). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/rng.h"
#include "trace/builder.h"
#include "trace/synth.h"

#define FEW_INPUTS 64 /* of one op of a synthetic shape */

/* ---- numbers --------------------------------------------------------------------------------- */

uint64_t trace_maker_random(struct trace_maker *m, uint64_t below)
{
    return ebb_splitmix64(&m->random) % below;
}

uint64_t trace_maker_vary(struct trace_maker *m, uint64_t value)
{
    /* Whole numbers only: the same bytes on every machine. 1024 = 1.0 */
    uint64_t spread = (uint64_t)(m->options->spread * 1024.0 + 0.5);
    if (spread == 0)
        return value;
    uint64_t factor = 1024 + 9 * spread * trace_maker_random(m, 1025) / 1024;
    value = value > TRACE_MAX_BYTES >> 16 ? TRACE_MAX_BYTES >> 16 : value;
    value = trace_maker_random(m, 2) == 0 ? value * factor / 1024 : value * 1024 / factor;
    return value > 0 ? value : 1;
}

uint64_t trace_maker_cost(uint64_t flops, uint64_t bytes_moved)
{
    uint64_t compute = flops / 10000, memory = bytes_moved / 500;
    return 4000 + (compute > memory ? compute : memory);
}

void trace_maker_label(struct trace_maker *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->label, sizeof m->label, fmt, args);
    va_end(args);
}

/* ---- one op ---------------------------------------------------------------------------------- */

static void add_tensors(struct trace_maker *m, const struct trace_op_desc *desc)
{
    size_t need = (size_t)m->tensor_count + desc->output_count;
    m->status = ebb_grow(&m->tensors, &m->tensor_capacity, need, sizeof *m->tensors, m->err);
    for (size_t i = 0; m->status == EBB_OK && i < desc->output_count; i++) {
        const struct trace_output *o = &desc->outputs[i];
        struct trace_maker_tensor *x = &m->tensors[m->tensor_count + i];
        if (m->builder == NULL)
            *x = (struct trace_maker_tensor){.last_use = m->op_count};
        x->bytes =
            o->alias == TRACE_FRESH ? o->bytes : m->tensors[desc->inputs[o->alias_input]].bytes;
        x->gradient = TRACE_NONE;
        x->wants_gradient = false;
    }
    m->tensor_count += (uint32_t)desc->output_count;
}

/* Handles that nobody needs any more; each once, however often it is an input. */
static void release(struct trace_maker *m, uint32_t tensor)
{
    struct trace_maker_tensor *x = &m->tensors[tensor];
    if (x->last_use != m->op_count || x->is_kept || m->status != EBB_OK)
        return;
    x->last_use = TRACE_NONE;
    m->status = trace_builder_command(m->builder, TRACE_RELEASE, tensor, m->err);
}

uint32_t trace_maker_raw(struct trace_maker *m, const struct trace_op_desc *desc)
{
    uint32_t first = m->tensor_count, made = 0;
    if (m->status != EBB_OK)
        return 0;
    for (size_t i = 0; m->builder == NULL && i < desc->input_count; i++)
        m->tensors[desc->inputs[i]].last_use = m->op_count;
    add_tensors(m, desc);
    if (m->status == EBB_OK && m->builder != NULL) {
        struct trace_op_desc labelled = *desc;
        labelled.phase = m->phase;
        if (labelled.label == NULL)
            labelled.label = m->label;
        m->status = trace_builder_op(m->builder, &labelled, &made, m->err);
        if (m->status == EBB_OK && desc->is_leaf)
            m->status = trace_builder_command(m->builder, TRACE_PIN, made, m->err);
        for (size_t i = 0; i < desc->input_count; i++)
            release(m, desc->inputs[i]);
        for (size_t i = 0; i < desc->output_count; i++)
            release(m, first + (uint32_t)i);
    }
    m->op_count++;
    return m->status == EBB_OK ? first : 0;
}

uint32_t trace_maker_leaf(struct trace_maker *m, uint64_t bytes, bool wants_gradient)
{
    struct trace_output output = {.bytes = bytes};
    uint32_t leaf = trace_maker_raw(m, &(struct trace_op_desc){.kind_name = "constant",
                                                               .outputs = &output,
                                                               .output_count = 1,
                                                               .partner = TRACE_NONE,
                                                               .is_leaf = true});
    if (m->status == EBB_OK)
        m->tensors[leaf].wants_gradient = wants_gradient;
    return leaf;
}

void trace_maker_keep(struct trace_maker *m, uint32_t tensor)
{
    if (m->status == EBB_OK)
        m->tensors[tensor].is_kept = true;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* `node` is the op just made, without its inputs. */
static void record(struct trace_maker *m, struct trace_maker_node node, const uint32_t *inputs)
{
    m->status = ebb_grow(&m->nodes, &m->node_capacity, m->node_count + 1, sizeof *m->nodes, m->err);
    EBB_THEN(m->status, ebb_grow(&m->inputs, &m->input_capacity, m->input_count + node.input_count,
                                 sizeof *m->inputs, m->err));
    if (m->status != EBB_OK)
        return;
    node.input_first = (uint32_t)m->input_count;
    m->nodes[m->node_count++] = node;
    for (size_t i = 0; i < node.input_count; i++) {
        m->inputs[m->input_count++] = inputs[i];
        m->tensors[node.output].wants_gradient |= m->tensors[inputs[i]].wants_gradient;
    }
}

uint32_t trace_maker_forward(struct trace_maker *m, struct trace_maker_kind kind,
                             struct trace_maker_size size, const uint32_t *inputs,
                             size_t input_count)
{
    struct trace_output output = {.bytes = size.bytes};
    if (kind.save & MAKER_VIEW)
        output.alias = TRACE_VIEW;
    if (kind.save & MAKER_MUTATE)
        output.alias = TRACE_MUTATE;
    uint32_t made =
        trace_maker_raw(m, &(struct trace_op_desc){
                               .kind_name = kind.name,
                               .cost_ns = size.cost_ns,
                               .workspace_bytes = size.workspace_bytes,
                               .inputs = inputs,
                               .input_count = input_count,
                               .outputs = &output,
                               .output_count = 1,
                               .partner = TRACE_NONE,
                               .purity = kind.save & MAKER_ONCE ? TRACE_ONCE : TRACE_PURE,
                           });
    struct trace_maker_node node = {.kind = kind,
                                    .size = size,
                                    .op = m->op_count - 1,
                                    .output = made,
                                    .input_count = (uint32_t)input_count};
    if (m->status == EBB_OK && kind.backward != NULL)
        record(m, node, inputs);
    return made;
}

/* ---- backward -------------------------------------------------------------------------------- */

static void accumulate(struct trace_maker *m, uint32_t tensor, uint32_t gradient)
{
    uint32_t before = m->tensors[tensor].gradient;
    if (before == TRACE_NONE) {
        m->tensors[tensor].gradient = gradient;
        return;
    }
    uint64_t bytes = m->tensors[tensor].bytes;
    struct trace_maker_size size = {trace_maker_cost(0, 3 * bytes), bytes, 0};
    uint32_t sum = trace_maker_forward(m, (struct trace_maker_kind){"add", NULL, 0}, size,
                                       (uint32_t[]){before, gradient}, 2);
    if (m->status == EBB_OK)
        m->tensors[tensor].gradient = sum;
}

/* One backward op of `node` that makes the gradients of the inputs in `mask`. */
static void backward_op(struct trace_maker *m, const struct trace_maker_node *node, uint64_t mask)
{
    uint32_t inputs[FEW_INPUTS + 2], targets[FEW_INPUTS];
    struct trace_output outputs[FEW_INPUTS];
    size_t input_count = 0, output_count = 0;
    inputs[input_count++] = m->tensors[node->output].gradient;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t input = m->inputs[node->input_first + i];
        if (i < 27 && (node->kind.save & MAKER_SAVE(i)))
            inputs[input_count++] = input;
        if (mask >> i & 1) {
            targets[output_count] = input;
            outputs[output_count++] = node->kind.save & MAKER_VIEW
                                          ? (struct trace_output){.alias = TRACE_VIEW}
                                          : (struct trace_output){.bytes = m->tensors[input].bytes};
        }
    }
    if (node->kind.save & MAKER_SAVE_OUTPUT)
        inputs[input_count++] = node->output;
    if (output_count == 0)
        return;
    uint32_t first = trace_maker_raw(m, &(struct trace_op_desc){
                                            .kind_name = node->kind.backward,
                                            .cost_ns = node->size.cost_ns,
                                            .workspace_bytes = node->size.workspace_bytes,
                                            .inputs = inputs,
                                            .input_count = input_count,
                                            .outputs = outputs,
                                            .output_count = output_count,
                                            .partner = node->op,
                                        });
    for (uint32_t i = 0; m->status == EBB_OK && i < output_count; i++)
        accumulate(m, targets[i], first + i);
}

static void backward_node(struct trace_maker *m, const struct trace_maker_node *node)
{
    uint64_t wanted = 0;
    if (m->tensors[node->output].gradient == TRACE_NONE)
        return;
    if (m->builder != NULL) /* the label of the forward op, copied: the builder's text moves */
        trace_maker_label(m, "%s", m->builder->text + m->builder->ops[node->op].label);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (m->tensors[m->inputs[node->input_first + i]].wants_gradient)
            wanted |= UINT64_C(1) << i;
    if (!(node->kind.save & MAKER_SPLIT)) {
        backward_op(m, node, wanted);
        return;
    }
    for (uint32_t i = 0; i < node->input_count; i++)
        if (wanted >> i & 1)
            backward_op(m, node, UINT64_C(1) << i);
}

void trace_maker_backward(struct trace_maker *m, uint32_t loss)
{
    if (m->status != EBB_OK)
        return;
    m->phase = TRACE_BACKWARD;
    if (m->builder != NULL)
        trace_builder_mark_backward(m->builder);
    uint64_t bytes = m->tensors[loss].bytes;
    uint32_t seed = trace_maker_forward(
        m, (struct trace_maker_kind){"loss_backward", NULL, 0},
        (struct trace_maker_size){trace_maker_cost(0, bytes), bytes, 0}, &loss, 1);
    if (m->status != EBB_OK)
        return;
    m->tensors[loss].gradient = seed;
    uint32_t leaves_end = m->tensor_count;
    for (size_t i = m->node_count; i > 0 && m->status == EBB_OK; i--)
        backward_node(m, &m->nodes[i - 1]);
    /* What remains are gradients of leaves: of everything else the nodes have consumed them, so the
     * last reader is known and only the ones of leaves are kept. */
    for (uint32_t i = 0; m->status == EBB_OK && i < leaves_end; i++)
        if (m->tensors[i].wants_gradient && m->tensors[i].gradient != TRACE_NONE &&
            m->tensors[i].is_kept)
            trace_maker_keep(m, m->tensors[i].gradient);
}

/* ---- both passes ----------------------------------------------------------------------------- */

static void begin_pass(struct trace_maker *m)
{
    m->random = m->options->seed;
    m->phase = TRACE_FORWARD;
    m->op_count = m->tensor_count = 0;
    m->node_count = m->input_count = 0;
    m->label[0] = '\0';
}

static void pin_kept(struct trace_maker *m)
{
    for (uint32_t i = 0; m->status == EBB_OK && i < m->tensor_count; i++)
        if (m->tensors[i].is_kept)
            m->status = trace_builder_command(m->builder, TRACE_PIN, i, m->err);
}

enum ebb_status trace_maker_run(trace_maker_shape shape, const char *name,
                                const struct trace_synth *options, struct trace **trace,
                                struct ebb_error *err)
{
    struct trace_maker m = {.options = options, .err = err};
    begin_pass(&m);
    shape(&m);
    EBB_THEN(m.status, trace_builder_create(&m.builder, err));
    if (m.status == EBB_OK) {
        begin_pass(&m);
        shape(&m);
        pin_kept(&m);
    }
    ebb_free(m.tensors);
    ebb_free(m.nodes);
    ebb_free(m.inputs);
    EBB_THEN(m.status, trace_builder_finish(m.builder, name, trace, err));
    trace_builder_destroy(m.builder);
    return m.status;
}
