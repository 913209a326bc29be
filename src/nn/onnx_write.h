/* onnx_write.h - private: a model on its way into an ONNX file. onnx_write.c has the frame, onnx_write_ops.c and
 * onnx_write_layers.c the rows: which of our ops becomes which nodes. */
#ifndef EBB_NN_ONNX_WRITE_H
#define EBB_NN_ONNX_WRITE_H

#include "nn/file_write.h"
#include "nn/onnx.h"

struct nn_put {
    struct onnx_writer *w;
    struct ebb_arena arena;
    const struct nn_built *m, *large; /* large: at another batch; NULL: sizes are fixed */
    const void *const *values;        /* per item */
    struct ebb_map names;             /* handle to text */
    struct ebb_map needed;            /* handles that an output depends on */
    struct ebb_strmap taken;          /* names of inputs, items and outputs */
    const char *outputs[NN_PORTS];    /* their names in the file */
    const struct nn_note *n, *n_large;
    const struct ebb_doc_node *attr;
    size_t next;
    bool needs_fixed;  /* sizes depend on the batch where a file has numbers */
    char problem[256]; /* "": none */
};

struct nn_put_row {
    const char *ops; /* blank-separated */
    void (*write)(struct nn_put *w);
};
extern const struct nn_put_row nn_put_op_rows[], nn_put_layer_rows[]; /* end with ops NULL */

void nn_put_fail(struct nn_put *w, const char *text);         /* the first one counts */
const char *nn_put_fresh(struct nn_put *w, const char *stem); /* a new name */
/* Names of the operands and of the results (new) of the note at hand. */
const char *nn_put_in(struct nn_put *w, size_t i);
const char *nn_put_out(struct nn_put *w, size_t i);
const struct tensor_view *nn_put_view(const struct nn_put *w, tensor_id x);
/* The sizes of result 0, one of which may be the batch (-1). */
void nn_put_dims(struct nn_put *w, int64_t *dims, int *rank);
/* Numbers that must not depend on the batch. */
bool nn_put_same_dims(struct nn_put *w, tensor_id x, tensor_id large);

const char *nn_put_constant(struct nn_put *w, int type, int rank, const int64_t *dims,
                            const void *data, size_t bytes);
/* The same in a node, where it is no weight to those who read the file. */
void nn_put_fixed(struct nn_put *w, const char *name, int type, int rank, const int64_t *dims,
                  const void *data, size_t bytes);
const char *nn_put_ints(struct nn_put *w, const int64_t *v, int64_t count);
const char *nn_put_number(struct nn_put *w, double v);

/* A node, its attributes still to come; one without attributes, its result new; the last of a note. */
void nn_put_begin(struct nn_put *w, const char *op, const char *a, const char *b, const char *c,
                  const char *result);
const char *nn_put_node(struct nn_put *w, const char *op, const char *a, const char *b);
void nn_put_last(struct nn_put *w, const char *op, const char *a, const char *b, const char *c);
const char *nn_put_transposed(struct nn_put *w, const char *x, int rank, const int64_t *perm);
const char *nn_put_swapped(struct nn_put *w, const char *x, int rank);

/* Attributes of the note: a list, or one number for all `n`; `usual` where it is not given. */
size_t nn_put_list(const struct nn_put *w, const char *name, size_t n, int64_t usual, int64_t *to);
int64_t nn_put_integer(const struct nn_put *w, const char *name, int64_t usual);
double nn_put_real(const struct nn_put *w, const char *name, double usual);
int nn_put_axis(const struct nn_put *w, const char *name, int rank);

#endif
