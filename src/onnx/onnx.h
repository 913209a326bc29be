/* onnx.h - the format ONNX: files in, files out, and the values of constant parts.
 *
 * An ONNX file is a protobuf message. It is read and written here by hand: varints and lengths, no
 * generated code. Weights stay where they lie in the mapped file (or in the files beside it that it
 * names); errors name the byte at which they were found. `onnx_eval_graph` computes a graph, or the parts of
 * it that depend on constants alone, one node after the other on the host, in double or 64-bit
 * integers: small and plain, not fast. Training goes through nn, which reads the same graphs.
 *
 * Rules.  O1 bytes of a file are outside bytes: depth, counts and sizes are bounded here, and what
 *            is refused is refused before memory is taken for it.
 *         O2 nodes stand in an order in which every value is made before it is read; each value is
 *            made once. So there are no cycles.
 *         O3 a computation takes at most the bytes and steps it is given (onnx_eval), and an op at
 *            most ONNX_STEPS.
 *         O4 an op that is not known, or not in this version, is refused by name and version
 *            (EBB_EUNSUPPORTED); so is a type. Whoever looks into a node has checked it first
 *            (onnx_op_check): then inputs that must be there are, outputs are not more than the op
 *            has, and attributes are of the kind that their names say. */
#ifndef EBB_ONNX_ONNX_H
#define EBB_ONNX_ONNX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"
#include "base/str.h"

#define ONNX_RANK 8
#define ONNX_OPSET_LEAST 9  /* of the default domain */
#define ONNX_OPSET_KNOWN 17 /* above: ops that are still what they were */
#define ONNX_NONE UINT32_MAX
#define ONNX_MANY 256                  /* inputs or outputs of a node, at most */
#define ONNX_STEPS (UINT64_C(1) << 34) /* of an op */
#define ONNX_BLOCK 4096                /* largest blocksize */

/* ---- what a file says ------------------------------------------------------------------------- */

/* name, its number in the format, bytes of an element, whether it is a fraction */
#define ONNX_TYPE_LIST(X)                                                                          \
    X(FLOAT, 1, 4, 1)                                                                              \
    X(UINT8, 2, 1, 0)                                                                              \
    X(INT8, 3, 1, 0)                                                                               \
    X(UINT16, 4, 2, 0)                                                                             \
    X(INT16, 5, 2, 0)                                                                              \
    X(INT32, 6, 4, 0)                                                                              \
    X(INT64, 7, 8, 0)                                                                              \
    X(STRING, 8, 0, 0)                                                                             \
    X(BOOL, 9, 1, 0)                                                                               \
    X(FLOAT16, 10, 2, 1)                                                                           \
    X(DOUBLE, 11, 8, 1)                                                                            \
    X(UINT32, 12, 4, 0)                                                                            \
    X(UINT64, 13, 8, 0)                                                                            \
    X(COMPLEX64, 14, 8, 0)                                                                         \
    X(COMPLEX128, 15, 16, 0)                                                                       \
    X(BFLOAT16, 16, 2, 1)

enum onnx_type {
    ONNX_UNDEFINED,
#define X(name, number, bytes, is_float) ONNX_##name = (number),
    ONNX_TYPE_LIST(X)
#undef X
};
const char *onnx_type_name(int type); /* "FLOAT"; "type 99" is said as "an unknown type" */
size_t onnx_type_bytes(int type);     /* 0: no numbers */
bool onnx_type_is_float(int type);

struct onnx_text {
    const char *text; /* terminated, in the arena */
    size_t length;
};

struct onnx_tensor {
    const char *name;
    int type;
    int rank;
    int64_t dims[ONNX_RANK];
    int64_t count;
    const void *data; /* count elements, as they lie (may be unaligned); NULL: texts, or nothing */
    const struct onnx_text *texts; /* of STRING */
};

enum onnx_attr_kind {
    ONNX_ATTR_FLOAT = 1,
    ONNX_ATTR_INT,
    ONNX_ATTR_STRING,
    ONNX_ATTR_TENSOR,
    ONNX_ATTR_GRAPH,
    ONNX_ATTR_FLOATS,
    ONNX_ATTR_INTS,
    ONNX_ATTR_STRINGS,
};

struct onnx_attr {
    const char *name;
    int kind; /* enum onnx_attr_kind, or a number that nothing here knows */
    double number;
    int64_t integer;
    struct onnx_text text;
    const struct onnx_tensor *tensor;
    const float *numbers;
    const int64_t *integers;
    const struct onnx_text *texts;
    size_t count; /* of the lists */
};

struct onnx_node {
    const char *op, *domain, *name; /* domain "": ONNX's own */
    const uint32_t *in, *out;       /* values; ONNX_NONE: left out */
    size_t in_count, out_count;
    const struct onnx_attr *attrs;
    size_t attr_count;
    uint64_t at; /* byte of the file */
};

struct onnx_dim {
    int64_t value;     /* -1: not said */
    const char *label; /* a name that stands for a size, or NULL */
};

struct onnx_port {
    const char *name;
    uint32_t value;
    bool is_tensor; /* else a sequence, a map, an optional */
    int type;
    int rank; /* -1: not said */
    struct onnx_dim dims[ONNX_RANK];
};

struct onnx_graph {
    const char *name;
    const char **values; /* names */
    size_t value_count;
    struct onnx_node *nodes;
    size_t node_count;
    struct onnx_tensor *initializers; /* of value initializer_values[i] */
    uint32_t *initializer_values;
    size_t initializer_count;
    struct onnx_port *inputs, *outputs; /* inputs without those that have an initializer */
    size_t input_count, output_count;
};

struct onnx_model {
    const char *path, *producer;
    int64_t ir_version, opset; /* of the default domain */
    struct onnx_graph graph;
    const char **beside; /* files of external data, relative to the model's folder */
    size_t beside_count;
    char sha256[65]; /* of the file, then of those beside it */
};

/* Everything lives as long as the arena: it closes the files as well. */
enum ebb_status onnx_open(struct ebb_arena *arena, const char *path,
                          const struct onnx_model **model, struct ebb_error *err);
/* The same of bytes, which are borrowed; external data lies beside `path`. */
enum ebb_status onnx_read(struct ebb_arena *arena, const char *path, const void *bytes,
                          size_t length, const struct onnx_model **model, struct ebb_error *err);
/* A file that holds one tensor (the data of test cases). EBB_EUNSUPPORTED: something else. */
enum ebb_status onnx_read_tensor(struct ebb_arena *arena, const char *path, const void *bytes,
                                 size_t length, struct onnx_tensor *tensor, struct ebb_error *err);

const struct onnx_attr *onnx_attr_find(const struct onnx_node *node, const char *name);
int64_t onnx_attr_int(const struct onnx_node *node, const char *name, int64_t fallback);
double onnx_attr_number(const struct onnx_node *node, const char *name, double fallback);
const char *onnx_attr_text(const struct onnx_node *node, const char *name, const char *fallback);
/* A type; ONNX_UNDEFINED where the number is none. */
int onnx_attr_type(const struct onnx_node *node, const char *name, int fallback);
/* NULL: not given. */
const int64_t *onnx_attr_ints(const struct onnx_node *node, const char *name, size_t *count);

/* Elements as numbers; false: texts, or complex numbers. */
bool onnx_tensor_floats(const struct onnx_tensor *tensor, float *to);
double onnx_tensor_number(const struct onnx_tensor *tensor, int64_t i);
int64_t onnx_tensor_integer(const struct onnx_tensor *tensor, int64_t i);

/* ---- ops and versions -------------------------------------------------------------------------- */

/* Is this op what is known here, at this version of the default domain (else EBB_EUNSUPPORTED), and
 * are its inputs, outputs and attributes as it has them (else EBB_EINPUT)? Says what is wrong. */
enum ebb_status onnx_op_check(const struct onnx_node *node, int64_t opset, struct ebb_error *err);
/* Does it take inputs of these types? 0: not given, or not known. */
enum ebb_status onnx_op_types(const struct onnx_node *node, int64_t opset, const int *types,
                              struct ebb_error *err);
const char *onnx_op_name(size_t i); /* of the table; NULL: there are no more */

/* Attributes of convolutions and pools: kernel_shape, strides, dilations, pads, auto_pad, ceil_mode.
 * `sizes` of the image; `kernel` NULL: as the node says. Also the size of the result. */
struct onnx_window {
    int nd;
    int64_t kernel[ONNX_RANK], stride[ONNX_RANK], dilation[ONNX_RANK];
    int64_t before[ONNX_RANK], after[ONNX_RANK], out[ONNX_RANK];
    bool is_ceil;
};
enum ebb_status onnx_window_read(const struct onnx_node *node, int nd, const int64_t *sizes,
                                 const int64_t *kernel, struct onnx_window *w,
                                 struct ebb_error *err);

/* n integers, each from `least` to 2^30; all `fallback` where the list is not given. */
enum ebb_status onnx_attr_list(const struct onnx_node *node, const char *name, size_t n,
                               int64_t least, int64_t fallback, int64_t *to, struct ebb_error *err);
/* Does a scale of Resize look at the same places as the sizes alone would? */
bool onnx_resize_fits(const char *coordinates, bool is_nearest, double scale, int64_t size,
                      int64_t out);

/* ---- values ------------------------------------------------------------------------------------ */

/* Fractions are doubles that are rounded to their type; integers and truth have 64 bits.
 * V1: a value has exactly one of the three arrays, the one that its type says; none: type 0. */
struct onnx_value {
    int type; /* 0: there is none */
    int rank;
    int64_t dims[ONNX_RANK];
    int64_t count;
    double *number;   /* of fractions */
    int64_t *integer; /* of the rest */
    const struct onnx_text *texts;
};

struct onnx_eval {
    struct ebb_arena *arena; /* of all values */
    int64_t opset;
    uint64_t room, steps; /* bytes and steps that may still be taken */
};

enum ebb_status onnx_value_from(struct onnx_eval *e, const struct onnx_tensor *tensor,
                                struct onnx_value *value, struct ebb_error *err);
/* A tensor of integers in one dimension, or a scalar (rank 0). */
enum ebb_status onnx_value_ints(struct onnx_eval *e, int rank, const int64_t *v, int64_t count,
                                struct onnx_value *value, struct ebb_error *err);
/* out[node->out_count]; outputs that are left out may be made all the same. */
enum ebb_status onnx_eval_node(struct onnx_eval *e, const struct onnx_node *node,
                               const struct onnx_value *in, struct onnx_value *out,
                               struct ebb_error *err);
/* The whole graph: values[graph->value_count], those of the inputs set. */
enum ebb_status onnx_eval_graph(struct onnx_eval *e, const struct onnx_graph *graph,
                                struct onnx_value *values, struct ebb_error *err);

/* ---- writing ----------------------------------------------------------------------------------- */

struct onnx_writer;
enum ebb_status onnx_writer_create(struct onnx_writer **writer, const char *graph_name,
                                   struct ebb_error *err);
void onnx_writer_destroy(struct onnx_writer *writer);

void onnx_write_input(struct onnx_writer *w, const char *name, int type, int rank,
                      const struct onnx_dim *dims);
void onnx_write_output(struct onnx_writer *w, const char *name, int type, int rank,
                       const struct onnx_dim *dims);
/* Data is borrowed until the end. Given twice under one name: once. */
void onnx_write_initializer(struct onnx_writer *w, const char *name, int type, int rank,
                            const int64_t *dims, const void *data, size_t bytes);

/* A node: begin, its values, its attributes, end. */
void onnx_write_node(struct onnx_writer *w, const char *op);
void onnx_write_in(struct onnx_writer *w, const char *value); /* "": left out */
void onnx_write_out(struct onnx_writer *w, const char *value);
void onnx_write_int(struct onnx_writer *w, const char *name, int64_t v);
void onnx_write_number(struct onnx_writer *w, const char *name, float v);
void onnx_write_text(struct onnx_writer *w, const char *name, const char *v);
void onnx_write_ints(struct onnx_writer *w, const char *name, const int64_t *v, size_t count);
void onnx_write_tensor(struct onnx_writer *w, const char *name, int type, int rank,
                       const int64_t *dims, const void *data, size_t bytes);
void onnx_write_end(struct onnx_writer *w);

/* Atomic. A file has at most 2 GiB: larger data goes to PATH.data beside it. */
enum ebb_status onnx_writer_save(struct onnx_writer *w, const char *path, struct ebb_error *err);

#endif
