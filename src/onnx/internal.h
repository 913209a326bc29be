/* internal.h - private: what the parts of the reader and of the computation share. */
#ifndef EBB_ONNX_INTERNAL_H
#define EBB_ONNX_INTERNAL_H

#include "onnx/onnx.h"

/* ---- the wire (wire.c) ------------------------------------------------------------------------- */

enum { ONNX_VARINT = 0, ONNX_FIXED64 = 1, ONNX_BYTES = 2, ONNX_FIXED32 = 5 };

/* A message: a range of the file. */
struct onnx_wire {
    const uint8_t *base; /* of the file */
    size_t at, end;
    const char *path;
};

struct onnx_field {
    uint32_t number;
    int kind;
    uint64_t value;         /* VARINT, FIXED32, FIXED64 */
    struct onnx_wire bytes; /* BYTES */
    size_t at;
};

/* The next field. *more is false at the end. */
enum ebb_status onnx_wire_next(struct onnx_wire *w, struct onnx_field *field, bool *more,
                               struct ebb_error *err);
enum ebb_status onnx_wire_varint(struct onnx_wire *w, uint64_t *value, struct ebb_error *err);
enum ebb_status onnx_wire_wrong(const struct onnx_wire *w, size_t at, struct ebb_error *err,
                                const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* ---- reading (read.c, tensor.c) ---------------------------------------------------------------- */

#define ONNX_NODES 262144 /* of a file, and values, attributes, ... */
#define ONNX_ATTRS 64     /* of a node whose op is known */
#define ONNX_ELEMENTS (INT64_C(1) << 40)

struct onnx_beside { /* a file of external data */
    const char *location;
    const char *data;
    size_t length;
    struct onnx_beside *next;
};

struct onnx_reader {
    struct ebb_arena *arena;
    const char *path;
    struct onnx_beside *beside; /* open */
};

enum ebb_status onnx_reader_tensor(struct onnx_reader *r, struct onnx_wire w,
                                   struct onnx_tensor *tensor, struct ebb_error *err);
enum ebb_status onnx_reader_text(struct onnx_reader *r, const struct onnx_field *f,
                                 const char **text, struct ebb_error *err);
/* A field of a message: a member of the record at `at`, or what `read` makes of it. Fields without a
 * row, or of another wire kind than the row says, are newer than this reader: passed over. */
enum onnx_row_kind {
    ONNX_ROW_OWN,
    ONNX_ROW_TEXT,  /* const char * */
    ONNX_ROW_INT,   /* int64_t */
    ONNX_ROW_SMALL, /* int, at most 1000 */
    ONNX_ROW_WITHIN /* a message whose fields belong to the same record */
};
enum { ONNX_ANY = -1 };
struct onnx_row {
    uint32_t number; /* 0: the end of the rows */
    int wire;        /* ONNX_VARINT, ..., or ONNX_ANY */
    enum onnx_row_kind kind;
    size_t at;
    enum ebb_status (*read)(void *record, struct onnx_field *f, struct ebb_error *err); /* OWN */
    const struct onnx_row *rows;                                                        /* WITHIN */
};
#define ONNX_ROW_OF(n, wire_, kind_, type, member)                                                 \
    {                                                                                              \
        .number = (n), .wire = (wire_), .kind = (kind_), .at = offsetof(struct type, member)       \
    }
enum ebb_status onnx_reader_message(struct onnx_reader *r, struct onnx_wire w,
                                    const struct onnx_row *rows, void *record,
                                    struct ebb_error *err);

/* ---- computing --------------------------------------------------------------------------------- */

struct onnx_call {
    struct onnx_eval *e;
    const struct onnx_node *node;
    int variant;
    const struct onnx_value *in;
    size_t in_count;
    struct onnx_value *out;
    struct ebb_error *err;
};
typedef enum ebb_status onnx_op_fn(struct onnx_call *c);

/* What a node of this op must look like (check.c), and its function, which is called when all of that
 * holds. Kinds of the inputs are a letter each, the last one for all that follow: f fractions,
 * i integers, q those of 8 bits, n both (f and i), b truth, m numbers or truth, a all of these and
 * texts; a digit: the type of that input. */
struct onnx_op {
    const char *name;
    int16_t since, until; /* versions; until 0: still */
    int16_t least, most;  /* inputs; ONNX_MANY: none of them may be left out */
    const char *kinds;
    int16_t outputs; /* at most; the first has a name, unless this is negative */
    onnx_op_fn *run;
    int variant;
};
enum ebb_status onnx_op_find(const struct onnx_node *node, int64_t opset,
                             const struct onnx_op **row, struct ebb_error *err);
/* Rows of a file of ops. */
struct onnx_ops {
    const struct onnx_op *rows;
    size_t count;
};
#define ONNX_OP_FILES(X)                                                                           \
    X(each)                                                                                        \
    X(shape)                                                                                       \
    X(index)                                                                                       \
    X(reduce)                                                                                      \
    X(product)                                                                                     \
    X(window)                                                                                      \
    X(recurrent)                                                                                   \
    X(quant)
#define X(name) extern const struct onnx_ops onnx_##name##_ops;
ONNX_OP_FILES(X)
#undef X

bool onnx_has(const struct onnx_call *c, size_t i);   /* input i is given */
bool onnx_wants(const struct onnx_call *c, size_t i); /* output i is */
enum ebb_status onnx_no(struct onnx_call *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A type or a case of the op that is not computed here. */
enum ebb_status onnx_not_here(struct onnx_call *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Zeroed. */
enum ebb_status onnx_take(struct onnx_call *c, int64_t count, void *pointer, size_t bytes);
enum ebb_status onnx_make(struct onnx_call *c, size_t out, int type, int rank, const int64_t *dims);
enum ebb_status onnx_make_value(struct onnx_call *c, struct onnx_value *v, int type, int rank,
                                const int64_t *dims);
/* The same elements under another shape. */
enum ebb_status onnx_again(struct onnx_call *c, size_t out, const struct onnx_value *v, int rank,
                           const int64_t *dims);
double onnx_round(int type, double v); /* to what the type can hold */
int64_t onnx_wrap(int type, int64_t v);
void onnx_set(struct onnx_value *v, int64_t i, double number); /* of any type */
double onnx_get(const struct onnx_value *v, int64_t i);
void onnx_copy(struct onnx_value *to, int64_t i, const struct onnx_value *from, int64_t k);
void onnx_fill(struct onnx_value *to, int64_t i, const struct onnx_value *scalar);
/* O3: steps of a loop over all of these, beyond one for each element that is read or made: sizes of
 * windows and of results are not bounded by the bytes of a file. */
enum ebb_status onnx_work(struct onnx_call *c, const int64_t *factors, size_t count);
/* A dimension, counted from the end where negative. */
enum ebb_status onnx_axis(struct onnx_call *c, int64_t given, int rank, int *axis);
/* Which of `rank` dimensions the list names; none twice. */
enum ebb_status onnx_axes(struct onnx_call *c, const int64_t *axes, size_t count, int rank,
                          bool *is_named);
/* Integers of input i, or of attribute `name` where that is how this version says it. NULL: neither. */
enum ebb_status onnx_list(struct onnx_call *c, size_t i, const char *name, const int64_t **v,
                          size_t *count);
/* Row-major strides; 0 for dimensions that are stretched to `rank`, `dims`. */
void onnx_strides(const struct onnx_value *v, int rank, const int64_t *dims, int64_t *strides);
/* Shape of two or more values stretched to each other. */
enum ebb_status onnx_broadcast(struct onnx_call *c, const struct onnx_value *const *v, size_t count,
                               int *rank, int64_t *dims);
/* The next place; at the end all are 0. offsets[k] are moved along strides[k]. */
struct onnx_walk {
    int rank;
    const int64_t *dims;
    int64_t at[ONNX_RANK];
};
static inline bool onnx_walk_next(struct onnx_walk *w, size_t count, int64_t *const *offsets,
                                  const int64_t *const *strides)
{
    for (int d = w->rank - 1; d >= 0; d--) {
        if (++w->at[d] < w->dims[d]) {
            for (size_t k = 0; k < count; k++)
                *offsets[k] += strides[k][d];
            return true;
        }
        for (size_t k = 0; k < count; k++)
            *offsets[k] -= strides[k][d] * (w->dims[d] - 1);
        w->at[d] = 0;
    }
    return false;
}
static inline int64_t onnx_product(const int64_t *dims, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= dims[d];
    return n;
}
#endif
