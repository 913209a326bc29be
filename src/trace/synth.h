/* synth.h - making training steps from a description of the forward pass; private to this folder.
 *
 * A shape describes the forward pass by calls of trace_maker_forward; trace_maker_backward then
 * appends the backward ops, as automatic differentiation would: each reads what its forward op
 * saved and the gradient of its output, and makes the gradients of its inputs; gradients that meet
 * are added. The shape is run twice: the first time only counts, so that the second knows every
 * tensor's last reader and can release it there.
 *
 * Failure is sticky: after it every call does nothing and status says why. */
#ifndef EBB_TRACE_SYNTH_H
#define EBB_TRACE_SYNTH_H

#include "trace/trace.h"

struct trace_maker_tensor {
    uint64_t bytes;
    uint32_t last_use; /* op */
    uint32_t gradient; /* tensor, or TRACE_NONE */
    bool is_kept, wants_gradient;
};

/* What the backward op reads: bit i = input i; and how it is made. */
enum {
    MAKER_ONCE = 1 << 26,   /* must not run twice */
    MAKER_MUTATE = 1 << 27, /* output is input 0 written in place; do not save input 0 anywhere */
    MAKER_SAVE_OUTPUT = 1 << 28,
    MAKER_SPLIT =
        1 << 29, /* one backward op per input (data, weight), each as dear as the forward op */
    MAKER_VIEW = 1 << 30, /* output is a view of input 0, and so is the gradient */
};
#define MAKER_SAVE(i) (1u << (i))

/* What an op with one output does, and what of it its backward op reads. */
struct trace_maker_kind {
    const char *name;
    const char *backward; /* NULL: no gradient flows through it */
    unsigned save;
};

struct trace_maker_size {
    uint64_t cost_ns, bytes, workspace_bytes; /* bytes: 0 for views and in-place outputs */
};

/* One forward op, as much as its backward ops need. */
struct trace_maker_node {
    struct trace_maker_kind kind;
    struct trace_maker_size size;
    uint32_t op, output, input_first, input_count;
};

struct trace_maker {
    const struct trace_synth *options;
    struct trace_builder *builder; /* NULL in the counting pass */
    struct ebb_error *err;
    enum ebb_status status;
    uint64_t random;
    enum trace_phase phase;
    uint32_t op_count, tensor_count;
    struct trace_maker_tensor *tensors;
    size_t tensor_capacity;
    struct trace_maker_node *nodes;
    size_t node_count, node_capacity;
    uint32_t *inputs; /* of the nodes */
    size_t input_count, input_capacity;
    char label[48]; /* of the ops that follow */
};

uint32_t trace_maker_leaf(struct trace_maker *m, uint64_t bytes, bool wants_gradient);
/* Recorded for the backward pass, unless no gradient flows. */
uint32_t trace_maker_forward(struct trace_maker *m, struct trace_maker_kind kind,
                             struct trace_maker_size size, const uint32_t *inputs,
                             size_t input_count);
/* Any op, not recorded; first output. */
uint32_t trace_maker_raw(struct trace_maker *m, const struct trace_op_desc *desc);
/* Gradients of `loss` with respect to every leaf that wants one; the gradients are kept. */
void trace_maker_backward(struct trace_maker *m, uint32_t loss);
void trace_maker_keep(struct trace_maker *m, uint32_t tensor);
__attribute__((format(printf, 2, 3))) void trace_maker_label(struct trace_maker *m, const char *fmt,
                                                             ...);

uint64_t trace_maker_random(struct trace_maker *m, uint64_t below);
/* `value` moved up or down by up to a factor of ten, as options.spread says. */
uint64_t trace_maker_vary(struct trace_maker *m, uint64_t value);
/* Nanoseconds on a plain accelerator: 10 Tflop/s, 500 GB/s, 4 us per launch. */
uint64_t trace_maker_cost(uint64_t flops, uint64_t bytes_moved);

typedef void (*trace_maker_shape)(struct trace_maker *m);
enum ebb_status trace_maker_run(trace_maker_shape shape, const char *name,
                                const struct trace_synth *options, struct trace **trace,
                                struct ebb_error *err);

/* synth_nets.c: the forward passes */
void trace_synth_chain(struct trace_maker *m);
void trace_synth_tree(struct trace_maker *m);
void trace_synth_lstm(struct trace_maker *m);
void trace_synth_resnet(struct trace_maker *m);
void trace_synth_unet(struct trace_maker *m);
void trace_synth_transformer(struct trace_maker *m);
enum ebb_status trace_synth_random(const struct trace_synth *o, struct trace **trace,
                                   struct ebb_error *err);

#endif
