/* tensor.h - dtype, shape, views, and the lazy builder.
 *
 * Calling an op computes nothing: it appends a node to a session and returns handles. A node is a
 * trace op, or a view: (storage, offset, shape, strides) of its first input, which is no op and
 * owns no bytes. The nodes are the tape that `grad` walks; tensor_finish turns them into a trace,
 * without what nothing kept depends on.
 *
 * Errors are sticky: after the first failure every call returns TENSOR_NONE and does nothing;
 * tensor_status tells. So models and gradient rules need no check per line.
 *
 * Rules.  V1 ids are dense, in creation order; the outputs of a node are consecutive.
 *         V2 strides and offset are in elements; an element is reached without leaving its storage.
 *         V3 an op that mutates input i returns a handle to the new version; older handles are
 * stale. V4 what an op depends on but its inputs' bytes (shapes, dtypes, attributes) is in the
 * attribute blob of the trace op, so the trace's signature sees it. */
#ifndef EBB_TENSOR_TENSOR_H
#define EBB_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"
#include "base/str.h"
#include "trace/trace.h"

#define TENSOR_RANK 8
#define TENSOR_PORTS 64 /* inputs or outputs of one op */

#define TENSOR_DTYPE_LIST(X)                                                                       \
    X(F32, 4)                                                                                      \
    X(BF16, 2)                                                                                     \
    X(F16, 2)                                                                                      \
    X(F64, 8)                                                                                      \
    X(I64, 8)                                                                                      \
    X(I32, 4)                                                                                      \
    X(I16, 2)                                                                                      \
    X(U8, 1)                                                                                       \
    X(BOOL, 1)
/* These stand in files only: nothing computes with them. */
#define TENSOR_STORED_DTYPE_LIST(X)                                                                \
    X(I8, 1)                                                                                       \
    X(U16, 2)                                                                                      \
    X(U32, 4)                                                                                      \
    X(U64, 8)                                                                                      \
    X(F8_E4M3, 1)                                                                                  \
    X(F8_E5M2, 1)

enum tensor_dtype {
#define X(name, bytes) TENSOR_##name,
    TENSOR_DTYPE_LIST(X) TENSOR_STORED_DTYPE_LIST(X)
#undef X
        TENSOR_DTYPE_COUNT
};

size_t tensor_dtype_bytes(enum tensor_dtype dtype);
const char *tensor_dtype_name(enum tensor_dtype dtype); /* "F32", as in safetensors */

/* Element (i0, i1, ...) lies at offset + sum of i_d * strides[d]. When block is not 0, dimension 1
 * (channels) is stored in blocks: its stride counts whole blocks, and the place inside the block is
 * the innermost dimension of all: ... + (i1 / block) * strides[1] + i1 % block + ... . Convolutions
 * like that layout; dims stay the logical ones, and dims[1] is a multiple of block. */
struct tensor_view {
    uint8_t dtype; /* enum tensor_dtype */
    uint8_t rank;
    uint16_t block; /* 0: plain; the channels themselves: channels-last */
    uint8_t zero[4];
    int64_t offset;
    int64_t dims[TENSOR_RANK], strides[TENSOR_RANK];
};

/* Row-major strides, offset 0; unused dimensions zero. */
void tensor_view_init(struct tensor_view *view, enum tensor_dtype dtype, int rank,
                      const int64_t *dims);
int64_t tensor_count(const struct tensor_view *view); /* elements */
/* Nothing skipped, in the order of its own layout. */
bool tensor_is_dense(const struct tensor_view *view);
/* Makes a plain view the dense view of the same shape in blocks (0: plain). */
void tensor_view_block(struct tensor_view *view, int block);
/* The view with channels split in two, [.., C/block, .., block]: rank + 1, plain strides. Works for
 * plain views too, when dims[1] is 1 or a multiple of block. */
void tensor_view_split(const struct tensor_view *view, int block, struct tensor_view *out);
bool tensor_same_shape(const struct tensor_view *a, const struct tensor_view *b);
/* "[2, 3, 4]" */
const char *tensor_shape_text(const struct tensor_view *view, char *buf, size_t size);

typedef struct {
    uint32_t v;
} tensor_id;
#define TENSOR_NONE ((tensor_id){0})

struct tensor_session;

/* backend: what the op table needs to choose workspaces (kernel context); borrowed. */
enum ebb_status tensor_session_create(struct tensor_session **session, void *backend,
                                      struct ebb_error *err);
void tensor_session_destroy(struct tensor_session *session);
void *tensor_backend(const struct tensor_session *session);
enum ebb_status tensor_status(const struct tensor_session *session, struct ebb_error *err);
/* Record a failure; returns TENSOR_NONE. The first one stays. */
tensor_id tensor_fail(struct tensor_session *session, enum ebb_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A weight, an input, the step scalars. The name is copied and becomes the label. */
tensor_id tensor_leaf(struct tensor_session *session, enum tensor_dtype dtype, int rank,
                      const int64_t *dims, const char *name);

struct tensor_node_desc {
    const void *def;               /* row of the op table, for grad; borrowed */
    const struct trace_kind *kind; /* NULL: the outputs are views of input 0 */
    const tensor_id *inputs;
    size_t input_count;
    const struct tensor_view *outputs; /* ops: contiguous; views: as they are */
    const uint8_t *mutates; /* per output: 1 + index of the input it overwrites, or 0; or NULL */
    size_t output_count;
    const void *attr; /* typed by the op; padding zeroed */
    size_t attr_bytes;
    uint64_t workspace_bytes, cost_ns;
    /* The op may write output 0 over this input (1 + index; 0: never), when nothing else needs it:
     * then it is of this kind, whose purity is TRACE_MUTATING. Decided when the trace is written.
     */
    uint8_t overwrites;
    /* Only where what it would overwrite is, or becomes, that of another such op: a sum of two can be made
     * again, one of many had better stay where it is. */
    bool is_chain;
    const struct trace_kind *overwriting_kind;
};

/* First output; the others follow. */
tensor_id tensor_append(struct tensor_session *session, const struct tensor_node_desc *desc);

const struct tensor_view *tensor_view_of(const struct tensor_session *session, tensor_id id);
/* Label for the nodes that follow, until changed; copied; NULL = none. */
void tensor_label(struct tensor_session *session, const char *label);
void tensor_set_phase(struct tensor_session *session, enum trace_phase phase);
/* The forward node whose gradient rule emits what follows; UINT32_MAX = none. */
void tensor_set_partner(struct tensor_session *session, uint32_t node);
/* Must exist when the trace ends. */
void tensor_keep(struct tensor_session *session, tensor_id id);
/* The same values in another layout, so that nobody makes them twice; TENSOR_NONE when unknown. */
tensor_id tensor_twin(const struct tensor_session *session, tensor_id id);
void tensor_set_twin(struct tensor_session *session, tensor_id id, tensor_id twin);

/* The tape. */
struct tensor_node {
    const void *def;
    const tensor_id *inputs;
    uint32_t input_count;
    tensor_id first_output;
    uint32_t output_count;
    const void *attr;
};
uint32_t tensor_node_count(const struct tensor_session *session);
struct tensor_node tensor_node_at(const struct tensor_session *session, uint32_t index);
uint32_t tensor_producer(const struct tensor_session *session, tensor_id id); /* node */

/* The trace of everything that kept tensors and mutating ops need: leaves that are kept (in any
 * version) first, in order of creation; releases after the last use, pins for what is kept. The
 * session keeps its tape and may be finished again after more ops. */
enum ebb_status tensor_finish(struct tensor_session *session, const char *name,
                              struct trace **trace, struct ebb_error *err);
/* The same as trace_builder_draft gives it: to be made into another trace. */
enum ebb_status tensor_draft(struct tensor_session *session, const char *name, struct trace **trace,
                             struct ebb_error *err);
/* Trace tensor that holds this handle's bytes in the last finished trace; TRACE_NONE if it was not
 * needed. */
uint32_t tensor_trace_id(const struct tensor_session *session, tensor_id id);

/* Inside a kernel: what the blob of a trace op says. */
struct tensor_call {
    const struct trace_call *call;
    uint32_t input_count, output_count;
    uint32_t wanted;  /* outputs that are to be produced */
    const void *attr; /* in the blob */
    size_t attr_bytes;
    struct tensor_view in[TENSOR_PORTS], out[TENSOR_PORTS]; /* those behind the counts: not set */
};
enum ebb_status tensor_call_decode(const struct trace_call *call, struct tensor_call *out,
                                   struct ebb_error *err);
const void *tensor_call_in(const struct tensor_call *c, uint32_t i); /* offset applied */
void *tensor_call_out(const struct tensor_call *c, uint32_t i);      /* NULL = do not produce */

/* ---- files of tensors -------------------------------------------------------------------------
 *
 * safetensors.c reads and writes the format of that name, zip.c with pickle.c what torch.save and
 * numpy.savez write, weights.c what is spread over several files or named otherwise. Bytes are
 * outside bytes: every size is checked, nothing is executed, data is not copied where it lies as it
 * is wanted. */

struct tensor_entry {
    const char *name; /* in the arena of the file, terminated */
    struct tensor_view view;
    const void *data; /* borrowed from the bytes given to the reader; may be unaligned */
    size_t bytes;
    bool is_swapped; /* a matrix whose bytes are those of its transpose (tensor_entry_copy) */
};

struct tensor_file {
    struct ebb_arena arena;
    struct tensor_entry *entries; /* in file order */
    size_t count;
    struct ebb_strmap index; /* name -> position */
};

/* The bytes are borrowed for the life of the file. Which format they have, they say themselves:
 *   safetensors  refused is what the format refuses: a header that is no JSON object, unknown dtypes,
 *                shapes whose size is not that of the range, ranges that overlap, leave holes or
 *                leave the file
 *   .pt          what torch.save writes since 1.6 (a zip): the tensors of a state_dict, or of the
 *                state_dict in a checkpoint; of its pickle only data is read
 *   .npz         what numpy.savez and savez_compressed write: arrays under their names */
enum ebb_status tensor_file_read(struct tensor_file *file, const char *name, const void *bytes,
                                 size_t length, struct ebb_error *err);
void tensor_file_fini(struct tensor_file *file);
const struct tensor_entry *tensor_file_find(const struct tensor_file *file, const char *name);

/* The values as F32 or I64, row-major; dst has room for all. False: numbers of this dtype cannot be
 * such (fractions as integers). */
bool tensor_entry_copy(const struct tensor_entry *entry, enum tensor_dtype dtype, void *dst);
/* The same of `count` rows of the first dimension, from `first` on. */
bool tensor_entry_rows(const struct tensor_entry *entry, int64_t first, int64_t count,
                       enum tensor_dtype dtype, void *dst);

/* '*' stands for any text; `name` is matched as a whole. */
bool tensor_pattern_fits(const char *pattern, const char *name);

/* Is "old.*=new.*" a rule, with as many stars on both sides? */
enum ebb_status tensor_rename_check(const char *rule, struct ebb_error *err);

/* What the names in files are for a model, and which matrices lie the other way round. */
struct tensor_changes {
    const char *const
        *rename; /* "old.*=new.*": what '*' stood for goes to the '*' of the new name */
    size_t rename_count;
    const char *const *transpose; /* patterns of new names */
    size_t transpose_count;
};

/* Weights by path: a file of any of the formats; the index of several ("weight_map" of a .json
 * file, whose files lie beside it); or a folder with one of model.safetensors, pytorch_model.bin,
 * their indices, or a checkpoint of ours. */
struct tensor_weights {
    struct tensor_file all;    /* entries of all files, under their new names */
    struct tensor_part *parts; /* private: what is open */
    size_t part_count, part_capacity;
    char *index; /* owned: the file that names them; NULL: none */
};
/* changes may be NULL. */
enum ebb_status tensor_weights_open(struct tensor_weights *weights, const char *path,
                                    const struct tensor_changes *changes, struct ebb_error *err);
void tensor_weights_close(struct tensor_weights *weights);
/* Files that were read, the index last; NULL past the end. */
const char *tensor_weights_file(const struct tensor_weights *weights, size_t i);

struct tensor_wanted {
    const char *name;
    const struct tensor_view *view;
};
/* Does every tensor that is wanted have its values here, in its shape, and is nothing left over?
 * Counters (I64) may be missing. `fresh` are patterns of names that need no values and may have
 * others. EBB_EINPUT: err counts and names what does not fit; *list (may be NULL) gets a line for
 * each. */
enum ebb_status tensor_weights_check(const struct tensor_weights *weights, const char *path,
                                     const struct tensor_wanted *wanted, size_t count,
                                     const char *const *fresh, size_t fresh_count,
                                     struct ebb_str *list, struct ebb_error *err);

typedef enum ebb_status tensor_sink(void *context, const void *bytes, size_t count,
                                    struct ebb_error *err);
struct tensor_to_write {
    const char *name;
    struct tensor_view view; /* contiguous */
    const void *data;
    /* Where the bytes are not in one piece: gives them piece by piece to the sink, data is what it
     * needs for that. Its failure, or the sink's, is that of the file. */
    enum ebb_status (*read)(const void *data, tensor_sink *sink, void *context,
                            struct ebb_error *err);
};
/* Atomic; names are written sorted. A path that ends with .npz gets that format, every other
 * safetensors. */
enum ebb_status tensor_file_write(const char *path, const struct tensor_to_write *items,
                                  size_t count, struct ebb_error *err);

#endif
