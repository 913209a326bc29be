/* trace.h - the record of one segment of work: ops, tensors, storages, commands. Immutable once
 * finished.
 *
 * Nouns. A *storage* is bytes that live and die together. A *tensor* is a value on a storage: what
 * one op output denotes. An *op* reads tensors and makes tensors. A *command* says what the program
 * does in order: run an op, take or drop a handle, pin. Everything that ebb does to memory is
 * running a trace under a budget.
 *
 * Kinds of output (enum trace_alias):
 *   FRESH   a new storage; the tensor is its root (version 0).
 *   VIEW    the same storage and version as input `alias_input`; no bytes of its own. Only file
 *           traces have view ops (DTR logs); the lazy builder keeps views out of the trace.
 *   MUTATE  input `alias_input`'s storage written in place: version + 1. Older versions are gone
 *           for good.
 *
 * Rules of a legal trace (trace_check proves them; every reader calls it):
 *   T1 tensor ids are dense in creation order; outputs of an op are consecutive, at least one; ops
 *      are in creation order.
 *   T2 inputs of an op are tensors made by earlier ops.
 *   T3 an op reads the newest version of each storage it reads (never a stale one), a MUTATE
 *      output's input is the newest version of its storage, and so is what PIN names.
 *   T4 each op is run by exactly one TRACE_RUN command, in op order.
 *   T5 handle counts never go below zero: a tensor starts with one handle when its op has run, GET
 *      adds, RELEASE drops. (Ops may read a tensor that has no handle any more, as logs can; it is
 *      then recomputed if need be.)
 *   T6 a VIEW has bytes 0 of its own; sizes, and costs, sum to at most 2^62.
 *   T7 kinds are consistent: purity MUTATING iff the op has a MUTATE output; a leaf op has no
 *      inputs and cost 0.
 *
 * A *leaf* op ("constant" in DTR logs: weights, inputs, step scalars) has no recipe: its storage
 * can never be recomputed. The *keep set*: tensors pinned by commands after the last RUN; they must
 * be resident at the end.
 *
 * File formats (docs/formats/trace.md): native and text (lossless), DTR log (read and written;
 * lossy), Checkmate graph JSON (read). */
#ifndef EBB_TRACE_TRACE_H
#define EBB_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"

#define TRACE_NONE UINT32_MAX
#define TRACE_MAX_BYTES (UINT64_C(1) << 62) /* of one storage, and of all together */

enum trace_purity {
    TRACE_PURE,
    TRACE_MUTATING,
    TRACE_ONCE, /* collectives, statistics, I/O: never run again */
};

enum trace_alias { TRACE_FRESH, TRACE_VIEW, TRACE_MUTATE };
enum trace_phase { TRACE_FORWARD, TRACE_BACKWARD, TRACE_UPDATE };

struct trace_call;

/* What an op is. Owned by `ops` (static tables) or, for file traces, by the trace itself with run
 * == NULL: then only the clock advances. Nothing below `ops` names an op. */
struct trace_kind {
    const char *name;
    enum trace_purity purity;
    bool can_skip_outputs; /* out[i] == NULL = do not produce (else scratch is charged) */
    bool picks_rows;       /* it reads few rows of input 0, a table, however large that is */
    enum ebb_status (*run)(const struct trace_call *call, struct ebb_error *err);
};

/* Arguments of one kernel launch; pointers are in tier 0. */
struct trace_call {
    const struct trace_kind *kind;
    const void *const *in; /* one per op input, in op order */
    void *const *out;      /* one per op output; NULL = do not produce; MUTATE: equals its input */
    void *workspace;       /* workspace_bytes of the op, 256-byte aligned; NULL when 0 */
    const void *attr;      /* attribute blob of the op, as given to the builder */
    size_t attr_bytes;
    uint32_t op;   /* its number in the trace, for messages */
    void *context; /* what the kernel table needs (thread count, primitives cache): set by whoever
                      filled run */
};

struct trace_storage {
    uint64_t bytes;
    uint32_t root;          /* tensor that created it */
    uint32_t version_count; /* 1 + number of MUTATE tensors on it */
};

struct trace_tensor {
    uint32_t storage, op;
    uint32_t version;     /* of the storage: 0 for FRESH; VIEW as its base; MUTATE base + 1 */
    uint32_t alias_input; /* index into the op's inputs; TRACE_NONE for FRESH */
    uint8_t alias;        /* enum trace_alias */
};

struct trace_op {
    const struct trace_kind *kind; /* borrowed (ops) or in the trace's arena */
    uint64_t cost_ns;              /* frozen: the only clock decisions ever see */
    uint64_t workspace_bytes;
    uint32_t input_first, input_count;   /* into trace.inputs */
    uint32_t output_first, output_count; /* tensor ids */
    uint32_t attr_first, attr_bytes;     /* into trace.attrs */
    uint32_t partner; /* forward op whose gradient rule emitted this one, or TRACE_NONE */
    uint32_t label;   /* offset into trace.text: layer or node name; 0 = "" */
    uint8_t phase;    /* enum trace_phase */
    uint8_t is_leaf;
};

enum trace_command_kind { TRACE_RUN, TRACE_GET, TRACE_RELEASE, TRACE_PIN };

struct trace_command {
    uint32_t kind : 2;
    uint32_t index : 30; /* op for RUN, tensor otherwise */
};
#define TRACE_MAX_INDEX ((UINT32_C(1) << 30) - 1)

struct trace {
    struct ebb_arena arena; /* name, and kinds of file traces; the arrays are on the heap */
    const char *name;       /* file name or model name, for people */
    struct trace_op *ops;
    struct trace_tensor *tensors;
    struct trace_storage *storages;
    uint32_t *inputs; /* tensor ids */
    struct trace_command *commands;
    char *text;           /* labels, terminated, offset 0 is "" */
    unsigned char *attrs; /* attribute blobs */
    uint32_t op_count, tensor_count, storage_count, command_count;
    size_t input_count, text_bytes, attr_bytes;
    uint32_t backward_command; /* index of the first command of the backward pass, or TRACE_NONE */
    struct ebb_hash128 signature;
    /* Checkmate graphs only (0 otherwise): bytes outside the budget of a graph file. */
    uint64_t graph_fixed_bytes;
    bool is_graph;
};

/* What op reads at place k. */
static inline const struct trace_tensor *trace_input_of(const struct trace *t,
                                                        const struct trace_op *op, uint32_t k)
{
    return &t->tensors[t->inputs[op->input_first + k]];
}

static inline const struct trace_tensor *trace_output_of(const struct trace *t,
                                                         const struct trace_op *op, uint32_t k)
{
    return &t->tensors[op->output_first + k];
}

/* ---- building -------------------------------------------------------------------------------- */

struct trace_builder; /* appends; copies everything it is given */

struct trace_output {
    uint64_t bytes; /* FRESH: size of the new storage; else 0 */
    enum trace_alias alias;
    uint32_t alias_input;
};

struct trace_op_desc {
    const struct trace_kind *kind; /* borrowed for the trace's life, or NULL: made from kind_name */
    const char *kind_name;         /* used when kind is NULL; purity follows the outputs */
    uint64_t cost_ns, workspace_bytes;
    const uint32_t *inputs;
    size_t input_count;
    const struct trace_output *outputs;
    size_t output_count;
    const void *attr;
    size_t attr_bytes;
    const char *label; /* may be NULL */
    uint32_t partner;  /* TRACE_NONE when none */
    enum trace_phase phase;
    enum trace_purity purity; /* for kind == NULL: TRACE_PURE or TRACE_ONCE */
    bool can_skip_outputs;    /* for kind == NULL */
    bool is_leaf;
};

enum ebb_status trace_builder_create(struct trace_builder **builder, struct ebb_error *err);
void trace_builder_destroy(struct trace_builder *builder);
/* Room for what is known to come, so that nothing is moved while it grows. */
struct trace_sizes {
    size_t ops, tensors, inputs, commands, attr_bytes;
};
enum ebb_status trace_builder_reserve(struct trace_builder *builder,
                                      const struct trace_sizes *sizes, struct ebb_error *err);
/* Where the attributes of the next op will lie: written there, and given as its attr, they need not
 * be copied. NULL: memory is out. */
void *trace_builder_room(struct trace_builder *builder, size_t attr_bytes, struct ebb_error *err);
/* Appends the op and its RUN command; *first_output = id of output 0. */
enum ebb_status trace_builder_op(struct trace_builder *builder, const struct trace_op_desc *desc,
                                 uint32_t *first_output, struct ebb_error *err);
enum ebb_status trace_builder_command(struct trace_builder *builder, enum trace_command_kind kind,
                                      uint32_t tensor, struct ebb_error *err);
void trace_builder_mark_backward(struct trace_builder *builder); /* the next command begins it */
/* Checks the rules, computes the signature, hands over the trace; the builder is empty afterwards,
 * also on failure. */
enum ebb_status trace_builder_finish(struct trace_builder *builder, const char *name,
                                     struct trace **trace, struct ebb_error *err);
/* The same without either, for a caller that builds another trace from this one and shows it to
 * nobody. */
enum ebb_status trace_builder_draft(struct trace_builder *builder, const char *name,
                                    struct trace **trace, struct ebb_error *err);
void trace_destroy(struct trace *trace);

/* ---- files ----------------------------------------------------------------------------------- */

enum trace_format {
    TRACE_FORMAT_AUTO,
    TRACE_FORMAT_NATIVE,
    TRACE_FORMAT_DTR,
    TRACE_FORMAT_GRAPH,
    TRACE_FORMAT_TEXT
};

/* Reads a file of any format (AUTO looks at the content). Errors carry file:line:column or file and
 * byte offset. A DTR log: everything up to and including the first ANNOTATE START is dropped when
 * there is one. */
enum ebb_status trace_load(const char *path, enum trace_format format, struct trace **trace,
                           struct ebb_error *err);
/* What the content looks like; AUTO: none of them. Any JSON object may be a graph. */
enum trace_format trace_format_of(const char *bytes, size_t length);
/* The readers behind it, on bytes (for fuzzers and tests). */
enum ebb_status trace_read_native(const char *name, const void *bytes, size_t length,
                                  struct trace **trace, struct ebb_error *err);
enum ebb_status trace_read_dtr(const char *name, const char *bytes, size_t length,
                               struct trace **trace, struct ebb_error *err);
enum ebb_status trace_read_graph(const char *name, const char *bytes, size_t length,
                                 struct trace **trace, struct ebb_error *err);
enum ebb_status trace_read_text(const char *name, const char *bytes, size_t length,
                                struct trace **trace, struct ebb_error *err);
enum ebb_status trace_write_native(const struct trace *trace, const char *path,
                                   struct ebb_error *err);
enum ebb_status trace_write_text(const struct trace *trace, const char *path,
                                 struct ebb_error *err);
/* *lost (may be NULL) gets one sentence per thing a DTR log cannot say that this trace says; ""
 * when nothing. */
enum ebb_status trace_write_dtr(const struct trace *trace, const char *path, char *lost,
                                size_t lost_size, struct ebb_error *err);

/* ---- looking --------------------------------------------------------------------------------- */

enum ebb_status trace_check(const struct trace *trace, struct ebb_error *err);
struct ebb_hash128 trace_signature(const struct trace *trace);
const char *trace_label(const struct trace *trace, const struct trace_op *op);

/* Denominators and limits, by plain reference counting: every storage, leaves
 * included, is freed the moment its last handle goes. Workspace (none in logs) counts while its op
 * runs. */
struct trace_stats {
    uint64_t base_ns;          /* sum of op costs = baseline_compute */
    uint64_t baseline_bytes;   /* peak = baseline_memory */
    uint64_t leaf_bytes;       /* baseline_const */
    uint64_t bottleneck_bytes; /* baseline_bottleneck */
    uint64_t keep_bytes;       /* keep set, each storage once */
    uint64_t total_bytes;      /* sum over storages */
    uint64_t working_bytes; /* largest inputs + outputs + workspace of one op, storages once, views
                               by base */
    uint32_t working_op;
    uint32_t leaf_count, view_count, get_count, pin_count, release_count, forward_count,
        backward_count;
};

enum ebb_status trace_stats_compute(const struct trace *trace, struct trace_stats *stats,
                                    struct ebb_error *err);

/* ---- order ----------------------------------------------------------------------------------- */

/* All outputs are views: nothing runs, nothing is paid. */
bool trace_is_view_op(const struct trace *trace, uint32_t op);
/* is_read, per storage: becomes true where an op outside the update reads it: of what persists, the
 * weights; the rest is state of the optimizer. */
void trace_mark_read(const struct trace *trace, bool *is_read);

enum trace_order {
    TRACE_AS_RECORDED,   /* ops that are no views, as they stand */
    TRACE_UPDATES_EARLY, /* every op; updates where they can first run */
    TRACE_EARLY,         /* no views; updates and weight gradients early, leaves when wanted */
};

/* The order of first runs, op_count entries at most; *is_moved: it is not the trace's own. Every op
 * still reads the same versions, so values are the same bit for bit. */
enum ebb_status trace_reorder(const struct trace *trace, enum trace_order how, uint32_t *ops,
                              uint32_t *count, bool *is_moved, struct ebb_error *err);
/* The same trace with every op of the update as early as it can be: right after the gradient it
 * reads is complete and nothing needs the old weights any more. So gradients need not all live at
 * once. map[old tensor] = new tensor. */
enum ebb_status trace_hoist_updates(const struct trace *trace, struct trace **hoisted,
                                    uint32_t *map, struct ebb_error *err);

/* ---- synthetic traces ------------------------------------------------------------------------ */

/* The unit chain of the DTR paper (no pins at the end). */
enum ebb_status trace_make_linear(uint32_t n, struct trace **trace, struct ebb_error *err);

/* Options of `ebb trace make`; unused ones are ignored by a shape and refused by the command. A
 * number that is 0 means the shape's own default. */
struct trace_synth {
    uint32_t layers; /* chain, unet, resnet...: depth; tree: depth of the perfect binary tree */
    uint64_t bytes;  /* of a typical activation */
    uint64_t weight_bytes;
    uint64_t cost_ns;
    uint32_t ops; /* random: number of ops */
    uint64_t seed;
    double spread; /* 0: all equal; 1: sizes and costs vary over two orders of magnitude */
    bool has_views, has_mutation, has_multi_output; /* random */
    bool has_workspace, has_once;                   /* random */
};

/* Which options a shape reads. */
enum trace_synth_use {
    TRACE_USES_LAYERS = 1u << 0,
    TRACE_USES_BYTES = 1u << 1,
    TRACE_USES_WEIGHT_BYTES = 1u << 2,
    TRACE_USES_COST = 1u << 3,
    TRACE_USES_OPS = 1u << 4,
    TRACE_USES_SEED = 1u << 5,
    TRACE_USES_SPREAD = 1u << 6,
    TRACE_USES_FEATURES = 1u << 7, /* the has_ flags */
};

struct trace_maker; /* private */

struct trace_shape {
    const char *name; /* "chain", "tree", "random", "resnet", "unet", "transformer", ... */
    const char *help;
    /* One of: how to make it, or how to draw its forward pass, of most_layers at most. */
    enum ebb_status (*make)(const struct trace_synth *synth, struct trace **trace,
                            struct ebb_error *err);
    void (*draw)(struct trace_maker *m);
    uint32_t most_layers;
    unsigned uses; /* OR of trace_synth_use */
};

enum ebb_status trace_shape_make(const struct trace_shape *shape, const struct trace_synth *synth,
                                 struct trace **trace, struct ebb_error *err);

extern const struct trace_shape trace_shapes[];
extern const size_t trace_shape_count;

#endif
