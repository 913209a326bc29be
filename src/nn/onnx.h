/* onnx.h - private: ONNX files as models of the table (docs/onnx.md is the user's page).
 *
 *     file --onnx_open--> struct onnx_model --onnx_model.c--> a row like those of the zoo
 *     the row, built --onnx_build.c--> nodes in order: what depends on constants and shapes alone is
 *                     folded on the host, everything else becomes ops (onnx_ops.c); what exporters
 *                     took apart is one op again (onnx_match.c)
 *     a model with a journal --onnx_write.c--> file
 *
 * Rules.  X1 an initializer of fractions that is read as an operand is an item under its own name;
 *            scalars are constants, and so is what Constant nodes hold.
 *         X2 items are declared in the order of the file, then constants that are no single number
 *            (`constants.*`: buffers), in the order of their first use; those that repeat along a
 *            dimension are kept once, so that no item depends on the batch.
 *         X3 a node that cannot be built is an error only when something that is wanted reads it. */
#ifndef EBB_NN_ONNX_H
#define EBB_NN_ONNX_H

#include "nn/internal.h"
#include "onnx/onnx.h"

#define NN_ONNX_LABELS 16                  /* sizes that have a name */
#define NN_ONNX_FOLD (UINT64_C(256) << 20) /* bytes that folding may take */
#define NN_ONNX_STEPS (UINT64_C(1) << 30)  /* and steps: some seconds */

struct nn_onnx_options { /* in the bytes of the config */
    enum { NN_ONNX_TRAIN, NN_ONNX_FROZEN } batch_norm;
    enum { NN_ONNX_AUTO, NN_ONNX_NO_LOSS, NN_ONNX_LOSSES } loss; /* then outputs: nn_onnx_loss */
    enum { NN_ONNX_FIRST } output;                               /* that is trained */
    int64_t sizes[NN_ONNX_LABELS];
};

struct nn_onnx_weight { /* an initializer that is an item */
    const struct onnx_tensor *tensor;
    enum nn_role role;
};

struct nn_onnx_file {
    struct nn_model model; /* what the world sees */
    const struct onnx_model *onnx;
    bool *is_live;                  /* per node: an output needs it */
    bool *is_known;                 /* per node: live, and checked against the row of its op */
    uint32_t *maker;                /* per value: 1 + node, 0: none */
    uint32_t *uses;                 /* per value: how many inputs of live nodes, and outputs */
    uint32_t *user;                 /* per value: a live node that reads it */
    uint32_t *initializer;          /* per value: 1 + initializer */
    struct nn_onnx_weight *weights; /* per initializer; tensor NULL: no item */
    const char *batch;      /* label of the batch, or NULL: the first size of the first input */
    int64_t exported_batch; /* that the file says; -1: none */
    const char *labels[NN_ONNX_LABELS];
    size_t label_count;
    struct ebb_key options[NN_ONNX_LABELS + 3];
    const char *loss;                      /* what the graph suggests */
    const char *loss_words, *output_words; /* of the options, blank-separated */
    const char *notes[8];                  /* what the user should know, for reports */
    size_t note_count;
};

/* ---- building --------------------------------------------------------------------------------- */

enum nn_onnx_kind { NN_ONNX_UNSET, NN_ONNX_HOST, NN_ONNX_LIVE, NN_ONNX_WEIGHT, NN_ONNX_BROKEN };

struct nn_onnx_value {
    enum nn_onnx_kind kind;
    struct onnx_value host;
    tensor_id id;
    bool is_truth;   /* LIVE: what is not 0 is true, whatever the tensor's type */
    const char *why; /* BROKEN */
    enum ebb_status status;
};

struct nn_onnx_build {
    const struct nn_onnx_file *file;
    const struct onnx_graph *g;
    const struct nn_onnx_options *options;
    struct nn_builder *b;
    struct ebb_arena arena;
    struct onnx_eval eval;
    struct nn_onnx_value *values;
    const struct onnx_node *node; /* that is built */
    size_t constants;
    size_t live_from; /* nodes before it are made */
    bool *is_made;    /* per node: together with one before it */
};

bool nn_onnx_ok(const struct nn_onnx_build *o);
/* What is not done here; what no file may say; what the host said of the node. */
tensor_id nn_onnx_fail(struct nn_onnx_build *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
tensor_id nn_onnx_wrong(struct nn_onnx_build *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
tensor_id nn_onnx_pass(struct nn_onnx_build *o, enum ebb_status status,
                       const struct ebb_error *err);
/* Input i of the node: given, on the host (NULL: it is not), as a tensor of the session. Of a type
 * that the op takes: that is checked before a node is built. */
bool nn_onnx_has(const struct nn_onnx_build *o, size_t i);
const struct onnx_value *nn_onnx_host(struct nn_onnx_build *o, size_t i);
tensor_id nn_onnx_live(struct nn_onnx_build *o, size_t i);
const struct onnx_value *nn_onnx_host_of(struct nn_onnx_build *o, uint32_t value);
tensor_id nn_onnx_live_of(struct nn_onnx_build *o, uint32_t value);
/* A value that training leaves alone, known on the host. */
const struct onnx_value *nn_onnx_fixed(struct nn_onnx_build *o, uint32_t value);
/* A single number known on the host. */
bool nn_onnx_scalar(struct nn_onnx_build *o, uint32_t value, double *number);
/* A value of the host as a tensor: fractions and truth are F32, integers I64. */
tensor_id nn_onnx_constant(struct nn_onnx_build *o, const struct onnx_value *v);
/* Integers of input i or attribute `name`; false: a failure was said. *v NULL: not given. */
bool nn_onnx_ints(struct nn_onnx_build *o, size_t i, const char *name, const int64_t **v,
                  size_t *count);
void nn_onnx_set(struct nn_onnx_build *o, size_t output, tensor_id id);
/* The weight that is this value itself (not a function of it); NULL: none. */
const struct nn_onnx_weight *nn_onnx_weight(const struct nn_onnx_build *o, uint32_t value);
/* The live and checked node that makes the value, if its op is this; NULL: another, or none. */
const struct onnx_node *nn_onnx_made(const struct nn_onnx_build *o, uint32_t value, const char *op);
struct tensor_view nn_onnx_view(const struct nn_onnx_build *o, tensor_id id);
/* Input i, of fractions. */
tensor_id nn_onnx_take(struct nn_onnx_build *o, size_t i);
bool nn_onnx_is_float(const struct nn_onnx_build *o, tensor_id x);
/* A dimension, counted from the end where negative; false: a failure was said. */
bool nn_onnx_axis(struct nn_onnx_build *o, int64_t given, int rank, int *axis);
/* Dimensions, counted from the front, none twice. */
bool nn_onnx_axes(struct nn_onnx_build *o, const int64_t *given, size_t count, int rank,
                  int64_t *axes);
/* The node on the host, of shapes alone: elements of in[0] are not read. */
enum ebb_status nn_onnx_eval_shape(struct nn_onnx_build *o, const struct tensor_view *x,
                                   const struct onnx_value *more, struct onnx_value *out,
                                   struct ebb_error *err);
tensor_id nn_onnx_swap_last(struct nn_onnx_build *o, tensor_id x);
/* Ops with one attribute list; short hands. */
tensor_id nn_onnx_op(struct nn_onnx_build *o, const char *op, size_t count, const tensor_id *in);
tensor_id nn_onnx_reshape(struct nn_onnx_build *o, tensor_id x, int rank, const int64_t *dims);

/* A buffer that stands for a constant of the file (X2). */
bool nn_onnx_is_constant(const struct nn_item *item);

/* The loss of this config: an op, the name of an output, or NULL. */
const char *nn_onnx_loss(const struct nn_onnx_file *file, const struct nn_onnx_options *options,
                         bool *is_op);
size_t nn_onnx_build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                     struct nn_output *out);
size_t nn_onnx_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports);

/* ---- ops (onnx_ops.c, onnx_shapes.c) --------------------------------------------------------- */

typedef void nn_onnx_fn(struct nn_onnx_build *o);
struct nn_onnx_row {
    const char *op;
    nn_onnx_fn *build;
    const char *same; /* name of our op, where that is all there is to it */
};
const struct nn_onnx_row *nn_onnx_row(const char *op);                      /* NULL: not here */
extern const struct nn_onnx_row nn_onnx_shape_rows[], nn_onnx_layer_rows[]; /* end with op NULL */

/* ---- what was one op (onnx_match.c) ------------------------------------------------------------ */

/* True: the node's output is made by the op that its pattern stands for. */
bool nn_onnx_match(struct nn_onnx_build *o);

/* ---- as a model (onnx_model.c) ----------------------------------------------------------------- */

bool nn_onnx_is_path(const char *name);
/* Context must not be freed before the arena. */
enum ebb_status nn_onnx_open(struct ebb_arena *arena, const char *path, const struct nn_env *env,
                             struct nn_config *config, struct ebb_error *err);
enum ebb_status nn_onnx_from_bytes(struct ebb_arena *arena, const char *path, const void *bytes,
                                   size_t length, const struct nn_env *env,
                                   struct nn_config *config, struct ebb_error *err);

#endif
