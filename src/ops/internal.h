/* internal.h - private: rows of the op table and what the families share. */
#ifndef EBB_OPS_INTERNAL_H
#define EBB_OPS_INTERNAL_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernel/kernel.h"
#include "ops/ops.h"

struct ops_ints {
    int64_t v[TENSOR_RANK];
    int32_t count;
    int32_t is_scalar; /* given as one number */
};

struct ops_list {
    int64_t v[48];
    int32_t count, is_scalar;
};

enum ops_field_kind {
    OPS_FLOAT,  /* float */
    OPS_INT,    /* int64_t */
    OPS_BOOL,   /* int32_t */
    OPS_INTS,   /* struct ops_ints: a number or a list */
    OPS_SIZES,  /* the same; null in the list: 0, the size of the input */
    OPS_LIST,   /* struct ops_list: the same with room for more */
    OPS_FLOATS, /* struct ops_floats */
    OPS_NAME,   /* int32_t: index into names */
    OPS_RANGES, /* struct ops_ranges: [[dim, begin, end, step], ...] */
};

struct ops_floats {
    double v[4];
    int32_t count, is_scalar;
};

struct ops_ranges {
    int64_t v[TENSOR_RANK][4];
    int64_t count;
};

struct ops_field {
    const char *name;
    enum ops_field_kind kind;
    size_t offset;
    const char *const *names; /* OPS_NAME: NULL-terminated */
    bool is_required;
};

struct ops_infer {
    struct tensor_session *session;
    const struct ops_def *def;
    const struct tensor_view *in[TENSOR_PORTS];
    size_t in_count;
    const void *attr;
    struct tensor_view out[TENSOR_PORTS];
    uint8_t mutates[TENSOR_PORTS];
    size_t out_count;
    bool is_wide; /* outputs stay F32 when inputs are low */
    double flops;
    double bytes; /* that it reads and writes; 0: all of its operands */
};

/* What a row does with inputs of 16 bits where its kernel takes F32 (low.c). */
enum ops_low {
    OPS_LOW_NONE,  /* refuses them, or has kernels for them */
    OPS_LOW_WHOLE, /* outputs in low_out follow input 0..: converted whole */
    OPS_LOW_EACH,  /* element-wise; the result is low when all inputs are */
    OPS_LOW_APART, /* as whole, but the samples of input 0 and of the result (their first dimension) may
                      be converted and computed in parts */
    OPS_LOW_PLANES, /* the same with planes of all operands (first two dimensions, by blocks), as many
                       as `planes` says */
};

/* What an op is called with, when it is recorded and again when it runs: equal descriptions. */
struct ops_views {
    const struct ops_def *def;
    const void *attr;
    const struct tensor_view *in[KERNEL_PORTS];
    const struct tensor_view *out; /* one behind the other */
    uint32_t in_count, out_count;
};
/* Types of the operands of the row's kernel, at the places it has for them. */
void ops_types(const struct ops_views *v, struct kernel_args *args);
/* For rows whose description is how many elements input 0 has. */
void ops_describe_count(const struct ops_views *v, void *desc);

/* A kernel of one operand and one result, for rows that make several calls: copy, fill (x NULL),
 * convert. */
enum ebb_status ops_move(const struct trace_call *call, enum kernel_family family, const void *desc,
                         uint8_t from, const void *x, uint8_t to, void *y, struct ebb_error *err);

/* A call that is decoded, with a result that is wanted (run.c). */
enum ebb_status ops_run_row(const struct ops_def *def, const struct tensor_call *call,
                            struct ebb_error *err);

/* A call of a row that is written with other ops, or that prepares its inputs first. */
struct ops_build {
    struct tensor_session *s;
    const struct ops_def *def;
    const tensor_id *in;
    size_t in_count;
    const void *attr;
    tensor_id *out;   /* results behind the first */
    size_t out_count; /* 1, unless the row says more */
};

/* An input that may be left out. */
static inline tensor_id ops_given(const struct ops_build *b, size_t i)
{
    return i < b->in_count ? b->in[i] : TENSOR_NONE;
}

struct ops_def {
    const char *name;
    int variant; /* which member of a family */
    uint8_t min_in, max_in;
    bool is_internal;
    bool is_view;
    uint64_t strided; /* bit i: input i may be strided */
    /* Bit i: input i may be blocked (tensor_view.block). All such inputs of a call have one layout:
     * the others of the same shape are brought into it. Outputs with a bit in blocked_out get it.
     */
    uint64_t blocked, blocked_out;
    bool is_layout_own; /* the caller of ops_emit has chosen the layouts, infer sets them */
    bool can_broadcast; /* a plain input of another shape may stand beside blocked ones */
    /* Whether this call, as its attributes are, can work on blocks; NULL: always. */
    bool (*takes_block)(const struct ops_infer *i, int block);
    size_t attr_bytes;
    const struct ops_field *fields; /* ends with name NULL; NULL: no attributes */
    const void *defaults;           /* attr_bytes; NULL: zero */
    struct trace_kind kind;         /* primitives */
    struct trace_kind low_kind;     /* the same op on numbers of 16 bits */
    struct trace_kind over_kind;    /* the same op in place */
    uint8_t overwrites;             /* 1 + input that output 0 may be written over; 0: none */
    bool is_over;                   /* whether OVER is on or not */
    bool is_chain;                  /* only in chains of such ops (tensor_node_desc) */
    enum ops_low low_rule;
    int64_t (*planes)(const void *attr); /* only with OPS_LOW_PLANES */
    uint64_t low_out;
    enum ebb_status (*infer)(struct ops_infer *i, struct ebb_error *err); /* primitives and views */
    /* Primitives: the kernel and its description, all zeros before. ins, outs: at place p of the
     * kernel stands operand ins[p] - '0' of the op; '-': none; NULL: in order. */
    enum kernel_family family;
    void (*describe)(const struct ops_views *v, void *desc);
    const char *ins, *outs;
    /* Where one call of a kernel is not enough; else NULL. */
    enum ebb_status (*run)(const struct tensor_call *call, struct ebb_error *err);
    tensor_id (*build)(struct ops_build *b); /* result 0 */
    void (*grad)(struct ops_backward *b);
};

/* Heads of rows: a primitive, one that changes inputs in place, a view, a composite. */
#define OPS_HEAD(text, low, high) .name = (text), .min_in = (low), .max_in = (high)
#define OPS_PRIMITIVE(text, low, high, infer_, family_, describe_, grad_)                          \
    OPS_HEAD(text, low, high),                                                                     \
        .infer = (infer_), .family = KERNEL_FAMILY_##family_, .describe = (describe_),             \
        .grad = (grad_),                                                                           \
        .kind = {.name = (text), .purity = TRACE_PURE, .can_skip_outputs = true, .run = ops_run},  \
        .low_kind = {.name = (text),                                                               \
                     .purity = TRACE_PURE,                                                         \
                     .can_skip_outputs = true,                                                     \
                     .run = ops_low_run},                                                          \
        .over_kind = {.name = (text), .purity = TRACE_MUTATING, .run = ops_run_over}
#define OPS_IN_PLACE(text, low, high, infer_, family_, describe_)                                  \
    OPS_HEAD(text, low, high),                                                                     \
        .infer = (infer_), .family = KERNEL_FAMILY_##family_, .describe = (describe_),             \
        .kind = {.name = (text), .purity = TRACE_MUTATING, .run = ops_run}, .is_internal = true
#define OPS_VIEW(text, in, infer_, grad_)                                                          \
    OPS_HEAD(text, in, in), .is_view = true, .infer = (infer_), .grad = (grad_)
#define OPS_COMPOSITE(text, low, high, build_) OPS_HEAD(text, low, high), .build = (build_)
/* Attributes of a row: their type, the fields that files may set, the defaults. */
#define OPS_ATTR(type, fields_, defaults_)                                                         \
    .attr_bytes = sizeof(type), .fields = (fields_), .defaults = (defaults_)
#define OPS_FIELD(type, member, kind)                                                              \
    {                                                                                              \
#member, kind, offsetof(struct type, member), NULL, false                                  \
    }
#define OPS_REQUIRED(type, member, kind)                                                           \
    {                                                                                              \
#member, kind, offsetof(struct type, member), NULL, true                                   \
    }

/* What the trace kinds of all rows run. */
enum ebb_status ops_run(const struct trace_call *call, struct ebb_error *err);
enum ebb_status ops_run_over(const struct trace_call *call, struct ebb_error *err);
enum ebb_status ops_low_run(const struct trace_call *call, struct ebb_error *err);
enum tensor_dtype ops_low_dtype(const struct ops_infer *i); /* of the first such input, or F32 */
/* infer with low inputs taken for F32; outputs are low where the row says so. */
enum ebb_status ops_low_infer(struct ops_infer *i, struct ebb_error *err);
void ops_low_float(const struct tensor_view *from, struct tensor_view *to); /* the same in F32 */
/* Workspace of a call whose operands are converted and whose kernel needs `inner` bytes. */
size_t ops_low_workspace(const struct ops_infer *i, size_t inner);
/* Samples (or planes, by blocks) that are converted together; 0: all. */
int64_t ops_low_samples(const struct ops_infer *i);
/* How many there are. */
int64_t ops_low_count(const struct ops_def *def, const struct tensor_view *first);
/* `samples` of them alone, if operand k goes in parts; 0: all. */
struct tensor_view ops_low_part(const struct ops_def *def, const struct tensor_view *view, size_t k,
                                int64_t samples);
#define OPS_LOW_TAIL 16
/* Writes what a converted call has behind its attributes; returns their bytes. */
size_t ops_low_tail(const struct ops_infer *i, size_t inner, unsigned char *to);

struct ops_family {
    const struct ops_def *rows;
    size_t count;
};
/* One row per file of ops; their order is that of the whole table. */
#define OPS_FAMILIES(X)                                                                            \
    X(elementwise)                                                                                 \
    X(reduce)                                                                                      \
    X(product)                                                                                     \
    X(recurrent)                                                                                   \
    X(conv)                                                                                        \
    X(pool)                                                                                        \
    X(norm)                                                                                        \
    X(view)                                                                                        \
    X(copy)                                                                                        \
    X(index)                                                                                       \
    X(loss)                                                                                        \
    X(entropy)                                                                                     \
    X(update)                                                                                      \
    X(adam_step)
#define X(name) extern const struct ops_family ops_##name##_family;
OPS_FAMILIES(X)
#undef X

/* ---- rewrites (rewrite.c) --------------------------------------------------------------------- */

struct ops_match { /* what a rewrite found before the op that is appended */
    struct tensor_node node;
    tensor_id other;
};

struct ops_rewrite {
    const char *name; /* in files and options; several rows may share one */
    unsigned pass;    /* enum ops_pass */
    bool is_default;
    const char *op; /* tried when this one is appended; NULL: rows ask for themselves */
    bool (*match)(const struct ops_build *b, struct ops_match *m);
    tensor_id (*replace)(const struct ops_build *b, const struct ops_match *m);
};

/* One row each; where several match, the first is done. */
#define OPS_REWRITES(X)                                                                            \
    X(layout)                                                                                      \
    X(norm)                                                                                        \
    X(winograd)                                                                                    \
    X(small)                                                                                       \
    X(head)                                                                                        \
    X(entropy)                                                                                     \
    X(conv_relu)                                                                                   \
    X(linear_relu)                                                                                 \
    X(over)                                                                                        \
    X(gate)                                                                                        \
    X(packed)                                                                                      \
    X(residual)                                                                                    \
    X(addend)                                                                                      \
    X(bias)                                                                                        \
    X(sums)
#define X(name) extern const struct ops_rewrite ops_##name##_rewrite;
OPS_REWRITES(X)
#undef X

/* Result 0 of a rewrite that is on and matches; TENSOR_NONE: none does. */
tensor_id ops_rewrite(const struct ops_build *b);
/* The node that made x; of views by reshape the one behind them. */
struct tensor_node ops_maker(const struct tensor_session *s, tensor_id x);
/* Whether nothing has read x so far, nor what x is a view of by reshape. */
bool ops_is_unread(const struct tensor_session *s, tensor_id x);

/* Appends a primitive or view; strided inputs are copied where the row wants it. Returns output 0.
 */
tensor_id ops_emit(struct tensor_session *s, const struct ops_def *def, const void *attr,
                   size_t in_count, const tensor_id *in);
static inline tensor_id ops_output(tensor_id first, uint32_t i)
{
    return first.v ? (tensor_id){first.v + i} : TENSOR_NONE;
}

static inline bool ops_has_pass(const struct tensor_session *s, unsigned pass)
{
    const struct kernel_head *kernels = tensor_backend(s);
    return ((kernels ? kernels->options : ops_rewrite_defaults()) & pass) != 0;
}

/* Who is asked about kernels while ops are recorded. */
static inline const struct kernel_table *ops_table(const struct tensor_session *s)
{
    const struct kernel_head *kernels = tensor_backend(s);
    return kernels ? kernels->table : &kernel_cpu;
}

/* x in blocks of that many channels, dense; 0: plain. Made once per tensor. */
tensor_id ops_in_layout(struct tensor_session *s, tensor_id x, int block);
/* Is it x W^T of plain matrices, nothing added? */
bool ops_is_product(const struct tensor_node *n);
struct ops_entropy { /* attributes of cross_entropy and its relatives */
    int64_t ignore_index;
    int32_t reduction; /* enum kernel_reduction */
    float label_smoothing;
};
/* dx of relu from its result y. */
tensor_id ops_relu_grad(struct tensor_session *s, tensor_id dy, tensor_id y);
/* Where *g [rows, n] is the gradient of a gelu that nothing has read: the sums of its columns, made
 * together with it, and *g is then that one; else TENSOR_NONE. */
tensor_id ops_gelu_grad_sums(struct tensor_session *s, tensor_id *g);

/* Numbers that casts and conversions know. */
static inline bool ops_is_number(int64_t dtype)
{
    return dtype == TENSOR_F32 || dtype == TENSOR_BF16 || dtype == TENSOR_F16;
}

/* Parts of a workspace begin at multiples of 256 bytes. */
static inline size_t ops_align(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* -1 is the last dimension and so on. */
static inline int ops_wrap(int64_t dim, int rank)
{
    return (int)(dim < 0 ? dim + rank : dim);
}

/* One number for all nd dimensions, one for each, or none: the fallback. False: another count, or a
 * number below `least` or beyond 31 bits. */
bool ops_spread(const struct ops_ints *given, int nd, const int64_t *fallback, int64_t least,
                int64_t *out);

/* Inside infer. */
void ops_out(struct ops_infer *i, enum tensor_dtype dtype, int rank, const int64_t *dims);
enum ebb_status ops_wrong(const struct ops_infer *i, struct ebb_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum ebb_status ops_want_f32(const struct ops_infer *i, uint64_t mask, struct ebb_error *err);
/* -1 for the last dimension and so on; EBB_EINPUT when outside. */
enum ebb_status ops_dim(const struct ops_infer *i, int64_t dim, int rank, int *out,
                        struct ebb_error *err);
/* numpy broadcasting of all dimensions of a and b but the last `but`; false: they do not fit. */
bool ops_broadcast_dims(const struct tensor_view *a, const struct tensor_view *b, int but,
                        int *rank, int64_t *dims);
/* The same for inputs, with an error. */
enum ebb_status ops_broadcast(const struct ops_infer *i, const struct tensor_view *a,
                              const struct tensor_view *b, int *rank, int64_t *dims,
                              struct ebb_error *err);
/* Strides of `view` in an index space of rank/dims (0 where broadcast). */
void ops_nd_operand(struct kernel_nd *nd, int operand, const struct tensor_view *view, int block);
/* nd is zeros before. The index space of `shape`, its operand 0 `to` and its operand 1 `from`. block not 0: channels are
 * split in two, as tensor_view_split. */
void ops_nd_pair(struct kernel_nd *nd, const struct tensor_view *shape,
                 const struct tensor_view *to, const struct tensor_view *from, int block);
/* Is every element known to be 1? */
bool ops_is_ones(const struct tensor_session *s, tensor_id x);
/* Of steps and constants: zero. */
void ops_grad_none(struct ops_backward *b);

tensor_id ops_cumsum(struct tensor_session *s, tensor_id x, int dim);
tensor_id ops_softmax(struct tensor_session *s, tensor_id x, int dim);
/* Sum g down to the shape of `like` (undo broadcasting). */
tensor_id ops_reduce_to(struct tensor_session *s, tensor_id g, const struct tensor_view *like);
tensor_id ops_expand_to(struct tensor_session *s, tensor_id x, const struct tensor_view *like);
tensor_id ops_transpose(struct tensor_session *s, tensor_id x, int a, int b);
tensor_id ops_unsqueeze(struct tensor_session *s, tensor_id x, int64_t dim);
/* The dense view x in blocks, where that moves no byte. */
tensor_id ops_relabel(struct tensor_session *s, tensor_id x, int block);
tensor_id ops_slice(struct tensor_session *s, tensor_id x, const struct ops_ranges *ranges);
/* g where the slice of a tensor like this one was, zeros elsewhere. */
tensor_id ops_unslice(struct tensor_session *s, tensor_id g, const struct ops_ranges *ranges,
                      const struct tensor_view *like);
/* Begin, step and count per dimension, as python's x[begin:end:step]. */
struct ops_cut {
    int64_t begin[TENSOR_RANK], step[TENSOR_RANK], count[TENSOR_RANK];
};
enum ebb_status ops_make_cut(const struct ops_infer *i, const struct ops_ranges *r,
                             const struct tensor_view *x, struct ops_cut *cut,
                             struct ebb_error *err);
bool ops_is_in_blocks(const struct ops_cut *cut, int block); /* whole blocks of channels */
tensor_id ops_slice_dim(struct tensor_session *s, tensor_id x, int dim, int64_t begin, int64_t end,
                        int64_t step);
/* Where x is the gradient of a mean over all places of each channel: what every place gets, one
 * number per channel; else TENSOR_NONE. x itself need not be made then. */
tensor_id ops_pool_share(struct tensor_session *s, tensor_id x);
/* Is x `count` tensors joined along dimension 1? Those, then. */
bool ops_cat_parts(const struct tensor_session *s, tensor_id x, tensor_id *parts, size_t count);
tensor_id ops_cat(struct tensor_session *s, const tensor_id *in, size_t count, int dim);
/* Sum over the dimensions with their bit set; kept as size 1 when keepdim. */
tensor_id ops_reduce_dims(struct tensor_session *s, const char *name, tensor_id x, uint64_t mask,
                          bool keepdim);
tensor_id ops_unary(struct tensor_session *s, enum kernel_unary f, tensor_id x, float a, float b);
tensor_id ops_binary(struct tensor_session *s, enum kernel_binary f, tensor_id a, tensor_id b);
tensor_id ops_linear(struct tensor_session *s, tensor_id x, tensor_id w, tensor_id bias);

/* Sizes before, at and behind a dimension. */
void ops_lines(const struct tensor_view *view, int dim, int64_t *outer, int64_t *n, int64_t *inner);

#endif
