/* nn.h - layers, initial values, and the model zoo.
 *
 * A *model* is a row of a table: name, aliases, options, inputs, build function. Building appends
 * the forward pass to a tensor session through a *builder*; nothing is computed and no weight needs
 * memory, so a model of any size can be traced, counted and planned. The builder knows what one
 * trace needs (mode, seed, precision) and owns the list of *items*: parameters and buffers, named
 * as torch's state_dict names them.
 *
 *     struct nn_config config;
 *     struct nn_builder b;
 *     nn_config_open(arena, "resnet50", &config, NULL, err); // or nn_config_read
 *     nn_builder_init(&b, session, &(struct nn_mode){.is_training = true, .step = step});
 *     nn_leaves(&b, &config, batch, inputs, err);           // or handles of your own
 *     nn_build(&b, &config, inputs, outputs, &count, err);
 *     ... loss, grad_backward over nn_item_at(&b, i)->id, updates ...
 *     tensor_finish(session, ...); nn_builder_fini(&b);
 *
 * Rules.  N1 the list of items (names, shapes, order) depends on the config alone: not on batch,
 *            mode, precision or seed. The order is that of first use, which is that of torch's
 * state_dict but for norms inside torch's own transformer layers. N2 a name asked for again gives
 * the same handle: building twice with one builder (several micro-batches in a trace) shares the
 * weights, and each build has dropout masks of its own. N3 buffers (batch-norm statistics) are
 * written by mutating ops when training; item->id is the newest handle. In evaluation they are only
 * read. N4 initial values are a function of (config, seed, generator), item by item in any order.
 */
#ifndef EBB_NN_NN_H
#define EBB_NN_NN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/keys.h"
#include "base/map.h"
#include "base/report.h"
#include "base/rng.h"
#include "base/status.h"
#include "tensor/tensor.h"

/* ---- the builder ----------------------------------------------------------------------------- */

enum nn_precision { NN_FP32, NN_BF16, NN_FP16 };

enum nn_role {
    NN_WEIGHT,    /* of a product or convolution */
    NN_BIAS,      /* added */
    NN_NORM,      /* weight or bias of a normalisation */
    NN_EMBEDDING, /* table of rows */
    NN_BUFFER,    /* no parameter: running statistics, moments the model keeps itself */
};

enum nn_init_kind { NN_CONSTANT, NN_UNIFORM, NN_NORMAL, NN_GIVEN };

struct nn_init {
    bool is_given; /* false in a zeroed struct: the layer's default */
    enum nn_init_kind kind;
    float a, b;       /* constant: value a; uniform: [a, b); normal: mean a, deviation b */
    int64_t zero_row; /* 1 + row of zeros (padding); 0: none */
    /* `rng: torch` only: the model draws again what torch's constructor drew by `constructor`
     * (whose draws count, though nothing is left of them). */
    bool is_redrawn;
    enum nn_init_kind constructor;
    uint32_t copy_of; /* 1 + item whose values these are (torch's stacks are copies of one layer) */
    /* NN_GIVEN: writes the values, which a file holds. */
    void (*fill)(const void *data, void *dst);
    const void *data;
};

struct nn_item {
    const char *name;        /* "layer1.0.conv1.weight"; owned by the builder */
    struct tensor_view view; /* F32, contiguous; counters are I64 */
    tensor_id leaf;          /* as the trace begins */
    tensor_id rest;          /* split weights: leaf is their BF16 half, this the I16 one */
    tensor_id id;            /* newest version: differs from leaf for buffers that were written */
    /* Weights in blocks of rows (tile.c): their leaves, what those were cast to; leaf is the first,
     * id all of them together. NULL: in one piece. */
    tensor_id *blocks, *block_low;
    size_t block_count;
    int64_t block_rows; /* of each but the last */
    enum nn_role role;
    bool is_trained; /* the optimizer's business: false for buffers, and for parameters that the
                        model updates itself (the discriminator of the unrolled GAN) */
    bool has_decay;  /* decay group: matrices, kernels and tables; not biases and norms */
    bool is_frozen;  /* model.frozen names it: nothing changes its bits */
    bool is_listed;  /* a layer of the table has it */
    struct nn_init init;
};

struct nn_mode {
    bool is_training;
    enum nn_precision precision;
    bool is_split; /* NN_BF16: weights of products are kept as two halves of 16 bits */
    /* Weights of linear layers (matrices by the name "weight") with more elements than that lie in
     * blocks of rows of as many, but in no more than tile_most (at most TENSOR_PORTS); 0: in one
     * piece. */
    int64_t tile, tile_most;
    uint64_t seed;  /* of dropout */
    tensor_id step; /* I64, one element: counts dropout masks; TENSOR_NONE: a leaf "step" is made on
                       first use */
};

struct nn_layer { /* for tables: what one layer function appended */
    const char *name, *kind;
    tensor_id out;
    uint32_t first_node, end_node, first_item, end_item;
};

#define NN_DEPTH 16 /* scopes inside each other */

struct nn_place { /* in a model file */
    const char *file;
    uint32_t line, column; /* 0: none */
};
struct nn_journal;

#define NN_RECENT 32
struct nn_builder {
    struct tensor_session *session; /* borrowed */
    struct nn_mode mode;
    /* the rest is private: read it through the functions below */
    struct ebb_arena arena;
    struct ebb_strmap index;
    struct nn_item *items;
    size_t item_count, item_capacity;
    tensor_id *low; /* per item: its cast, or none */
    size_t low_capacity;
    struct nn_layer *layers;
    size_t layer_count, layer_capacity;
    uint32_t dropouts;
    tensor_id causal; /* mask of the last attention that needed one by hand */
    char prefix[256];
    size_t prefix_length, marks[NN_DEPTH], depth;
    const struct nn_config *config; /* that is built: what is frozen */
    struct nn_place place;          /* of the first failure, in models from files */
    const struct ops_def
        *recent[NN_RECENT];     /* ops called before, by the beginning of their names */
    struct nn_journal *journal; /* of calls, while a model is written as a file; else NULL */
};

void nn_builder_init(struct nn_builder *b, struct tensor_session *session,
                     const struct nn_mode *mode);
void nn_builder_fini(struct nn_builder *b);

/* Names that follow get "text." before them, until the matching pop. */
void nn_push(struct nn_builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void nn_pop(struct nn_builder *b);

/* The leaf of this name: made on first use, with another shape a failure. Failures go to the
 * session. Counters are I64, everything else F32. */
tensor_id nn_parameter(struct nn_builder *b, const char *name, enum nn_role role, int rank,
                       const int64_t *dims, struct nn_init init);
tensor_id nn_buffer(struct nn_builder *b, const char *name, enum tensor_dtype dtype, int rank,
                    const int64_t *dims, float value);
/* A mutating op made a new version of this buffer (or of a parameter the model updates itself). */
void nn_replace(struct nn_builder *b, const char *name, tensor_id id);
/* The parameters made since item `first` are updated by the model, not by the optimizer. */
void nn_own(struct nn_builder *b, size_t first);

size_t nn_item_count(const struct nn_builder *b);
const struct nn_item *nn_item_at(const struct nn_builder *b, size_t i);
const struct nn_item *nn_item_find(const struct nn_builder *b, const char *name); /* or NULL */
size_t nn_layer_count(const struct nn_builder *b);
const struct nn_layer *nn_layer_at(const struct nn_builder *b, size_t i);

/* ---- initial values -------------------------------------------------------------------------- */

struct nn_init nn_init_constant(float value);
struct nn_init nn_init_uniform(float bound);     /* [-bound, bound) */
struct nn_init nn_init_default(int64_t fan_in);  /* torch: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) */
struct nn_init nn_init_normal(double deviation); /* mean 0 */
struct nn_init nn_init_kaiming(int64_t fan);     /* N(0, sqrt(2/fan)) */
struct nn_init nn_init_xavier(int64_t fan_in, int64_t fan_out); /* uniform */
/* The same, drawn over what torch's constructor drew. */
struct nn_init nn_init_again(struct nn_init init, enum nn_init_kind constructor);

enum nn_generator { NN_PHILOX, NN_TORCH };

/* Fills items of the builder, which must outlive it. Philox: key = seed, counter = (block, item, 0,
 * 1). Torch: one MT19937 stream over all items in order, first what the constructors draw, then
 * what the models draw again; its position at every item is kept. */
struct nn_initializer;
enum ebb_status nn_initializer_create(struct nn_initializer **initializer,
                                      const struct nn_builder *b, enum nn_generator generator,
                                      uint64_t seed, struct ebb_error *err);
void nn_initializer_destroy(struct nn_initializer *initializer);
/* Writes the bytes of item i. */
void nn_initialize(const struct nn_initializer *initializer, size_t i, void *dst);

/* ---- models ---------------------------------------------------------------------------------- */

#define NN_PORTS 8
#define NN_LIST 64 /* entries of a list option */
#define NN_CONFIG_BYTES 2048

enum nn_task {
    NN_IMAGE_CLASSIFICATION,
    NN_SEGMENTATION,
    NN_LANGUAGE_MODEL,
    NN_REGRESSION,
    NN_SEQUENCE, /* recurrent and tree models whose loss is their own */
    NN_GAN,
    NN_TASK_COUNT
};
const char *nn_task_name(enum nn_task task); /* "image_classification", ... */

enum nn_port_kind {
    NN_IMAGES,  /* F32 [batch, channels, height, width], or volumes [batch, channels, d, h, w] */
    NN_TOKENS,  /* I64 [batch, length] */
    NN_MASK,    /* I64 [batch, length]: 1 = real, 0 = padding */
    NN_FLOATS,  /* F32, as the dims say */
    NN_STATE,   /* F32: zeros at first; an output NN_NEXT of the same name may be carried over */
    NN_SCALARS, /* F32: depends on the update's number alone */
    NN_CLASSES, /* I64: targets of cross entropy */
};

struct nn_port {
    const char *name;
    enum nn_port_kind kind;
    bool is_generated; /* nn_generate fills it; otherwise it comes from the data set */
    bool is_target;    /* an input that losses and metrics alone read: answers do without */
    struct tensor_view view;
};

enum nn_output_kind {
    NN_LOGITS, /* class dimension 1; language models: [batch * length, vocabulary]; F32, but of the
                  low type in training with low precision */
    NN_VALUES, /* regression */
    NN_LOSS,   /* scalar: the model defines its loss; minimise it over the trained items */
    NN_METRIC, /* scalar, to report */
    NN_NEXT,   /* new value of the NN_STATE input of the same name */
};

struct nn_output {
    const char *name;
    enum nn_output_kind kind;
    tensor_id id;
    const char *loss; /* op that is this model's loss on this output ("cross_entropy"), or NULL */
    struct nn_port target; /* what that loss compares with; view.rank etc. only when loss */
};

struct nn_ints { /* EBB_KEY_INTS */
    int64_t v[NN_LIST];
    int64_t count;
};

struct nn_model;

struct nn_config {
    const struct nn_model *model;
    uint64_t given;               /* bit i: option i was set by the user */
    enum nn_generator generator;  /* key `rng`: ebb or torch */
    const char *const *frozen;    /* key `frozen`: patterns of items; in the arena of the reading */
    const char *const *trainable; /* key `trainable`: when given, everything else is frozen */
    size_t frozen_count, trainable_count;
    _Alignas(16) unsigned char bytes[NN_CONFIG_BYTES]; /* typed by the family */
};

struct nn_model {
    const char *name;
    const char *const *aliases; /* ends with NULL; may be NULL */
    enum nn_task task;
    const char *summary;
    const struct ebb_key *options; /* at most 64 (struct nn_config.given) */
    size_t option_count;
    const void *defaults; /* config_bytes */
    size_t config_bytes;
    /* Everything that one option alone does not tell; NULL: nothing to check. */
    enum ebb_status (*check)(const struct nn_config *config, struct ebb_error *err);
    size_t (*inputs)(const struct nn_config *config, int64_t batch, struct nn_port *ports);
    /* Failures go to the session. Returns the number of outputs. */
    size_t (*build)(struct nn_builder *b, const struct nn_config *config, const tensor_id *inputs,
                    struct nn_output *outputs);
    /* Generated inputs; NULL: none. */
    void (*generate)(const struct nn_config *config, const struct nn_port *port, uint64_t seed,
                     int64_t update, void *dst);
    const void *context;       /* files: what was read; NULL: a row of the zoo */
    const char *const *beside; /* files that it needs beside it, relative to its folder */
    size_t beside_count;
    const char *hash;         /* files: 64 digits of what they say; NULL: none */
    const char *const *notes; /* what the user of a file should know */
    size_t note_count;
};

size_t nn_model_count(void);
const struct nn_model *nn_model_at(size_t i);
const struct nn_model *nn_model_find(const char *name); /* or alias, any case; NULL: unknown */

/* Where a section stands. */
struct nn_env {
    const char *directory;    /* of relative paths; NULL: working folder */
    bool no_files;            /* files cannot be read here: `model.file` is not looked into */
    const enum nn_task *task; /* of the experiment, for files that name none; NULL: unknown */
};
/* Reads a `model:` mapping: `name` or `file`, `rng`, and the model's options. A model file is read,
 * checked and built once for its shapes; everything lives in the arena of the reading. False:
 * mistakes were reported, or no_files kept a file from being read. */
bool nn_config_read(struct ebb_reading *reading, const struct ebb_path *path,
                    const struct ebb_doc_node *map, const struct nn_env *env,
                    struct nn_config *config);
/* A name of the zoo, or the path of a model file (it has a '/' or ends with .yaml, .yml) or of an ONNX
 * file (.onnx), with its defaults. What is read lives in the arena; notes are in the report. */
enum ebb_status nn_config_open(struct ebb_arena *arena, const char *name, struct nn_config *config,
                               struct ebb_report *report, struct ebb_error *err);
/* The same of the bytes of a model file, or of an ONNX file where the name ends with .onnx. */
enum ebb_status nn_config_from_text(struct ebb_arena *arena, const char *name, const char *bytes,
                                    size_t length, struct nn_config *config,
                                    struct ebb_report *report, struct ebb_error *err);
/* Of a file: 64 hexadecimal digits, a function of what it says; of the zoo: NULL. */
const char *nn_config_hash(const struct nn_config *config);
/* The model as text of a model file; models that train inside themselves are refused. */
enum ebb_status nn_config_write(const struct nn_config *config, struct ebb_str *out,
                                struct ebb_error *err);
/* The model as an ONNX file (opset 17), as it is evaluated; values[i] are those of item i, NULL where
 * nothing reads it. batch 0: any, where that can be said; *is_fixed tells. */
enum ebb_status nn_config_export(const struct nn_config *config, int64_t batch,
                                 const void *const *values, const char *path, bool *is_fixed,
                                 struct ebb_error *err);
/* The batch that a file was written for, where it can have no other; else the one given. */
int64_t nn_config_batch(const struct nn_config *config, int64_t batch);
/* Defaults of a model. */
enum ebb_status nn_config_init(struct nn_config *config, const char *name, struct ebb_error *err);
/* "key", "value" from a command line; lists as "1,2,3". */
enum ebb_status nn_config_set(struct nn_config *config, const char *key, const char *value,
                              struct ebb_error *err);
/* What the data set says (channels, height, width, classes, vocabulary, length): taken unless the
 * user gave the option. False when the model has no such option. */
bool nn_config_adapt(struct nn_config *config, const char *key, int64_t value);
/* Value of an integer option, or fallback when there is none of that name. */
int64_t nn_config_int(const struct nn_config *config, const char *key, int64_t fallback);
enum ebb_status nn_config_check(const struct nn_config *config, struct ebb_error *err);

/* Inputs at a batch, in the order nn_build takes them; returns their number. */
size_t nn_inputs(const struct nn_config *config, int64_t batch, struct nn_port ports[NN_PORTS]);
/* Leaves for all of them, named as the ports. */
enum ebb_status nn_leaves(struct nn_builder *b, const struct nn_config *config, int64_t batch,
                          tensor_id inputs[NN_PORTS], struct ebb_error *err);
/* Content of a generated input for update 0, 1, ...: a function of its arguments. */
void nn_generate(const struct nn_config *config, const struct nn_port *port, uint64_t seed,
                 int64_t update, void *dst);
enum ebb_status nn_build(struct nn_builder *b, const struct nn_config *config,
                         const tensor_id *inputs, struct nn_output outputs[NN_PORTS], size_t *count,
                         struct ebb_error *err);
/* The model's own loss: the sum of the losses its outputs name, with a leaf made for each target
 * (targets[i] belongs to output i; TENSOR_NONE without a loss) where it is TENSOR_NONE. */
tensor_id nn_loss(struct nn_builder *b, const struct nn_output *outputs, size_t count,
                  tensor_id *targets);

struct nn_stats {
    uint64_t parameters, trained_parameters; /* elements */
    uint64_t parameter_bytes, buffer_bytes, input_bytes;
    double forward_flops, backward_flops; /* products and convolutions, 2 per multiply-add */
    uint64_t saved_bytes;                 /* made by the forward pass and read by the backward */
    uint64_t forward_bytes;               /* everything the forward pass makes */
    uint64_t ops;                         /* of the whole step, without views */
};
/* Of a recorded step (forward, loss, backward) and its trace; nodes before forward_end are those of
 * the forward pass and the loss. train_model_stats records one. */
enum ebb_status nn_stats_count(const struct nn_builder *b, const struct nn_config *config,
                               int64_t batch, uint32_t forward_end, const struct trace *trace,
                               struct nn_stats *stats, struct ebb_error *err);
/* Products and convolutions of one node of the tape; 0 for the rest. */
double nn_node_flops(const struct tensor_session *s, uint32_t node);

/* ---- layers: weights by name, then ops ------------------------------------------------------- */

/* Any op of the table with `count` attributes; those not given have their defaults. Returns output
 * 0, the others follow in out (may be NULL). */
struct ops_value;
tensor_id nn_call(struct nn_builder *b, const char *op, size_t in_count, const tensor_id *in,
                  tensor_id *out, size_t count, const struct ops_value *values);
/* The same with attributes as JSON text made by fmt, e.g. "{\"dim\": %d}"; NULL: defaults. Slower:
 * for ops that models have once or twice. */
tensor_id nn_op(struct nn_builder *b, const char *op, size_t in_count, const tensor_id *in,
                tensor_id *out, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

enum nn_act {
    NN_IDENTITY,
    NN_RELU,
    NN_RELU6,
    NN_LEAKY,     /* slope 0.3 */
    NN_GELU,      /* erf */
    NN_GELU_TANH, /* GPT-2's */
    NN_SILU,
    NN_SIGMOID,
    NN_TANH,
};
tensor_id nn_activate(struct nn_builder *b, enum nn_act act, tensor_id x);
/* Dropout, only when training and p > 0. */
tensor_id nn_dropout(struct nn_builder *b, tensor_id x, double p);

struct nn_conv { /* zero: kernel 1, stride 1, pad 0, dilation 1, groups 1, no bias, torch's init */
    int64_t out;
    int nd; /* 0 means 2 */
    int64_t k[3], stride[3], pad[3], dilation[3];
    int64_t groups, output_padding;
    bool is_transposed, has_bias;
    struct nn_init init, bias_init;
};
tensor_id nn_convolution(struct nn_builder *b, const char *name, tensor_id x,
                         const struct nn_conv *conv);
/* y = x W^T + b on the last dimension; init as in nn_conv. */
struct nn_dense {
    int64_t out;
    bool has_no_bias;
    struct nn_init init, bias_init;
};
tensor_id nn_linear(struct nn_builder *b, const char *name, tensor_id x,
                    const struct nn_dense *dense);
/* eps 0 means 1e-5; momentum 0 means 0.1. */
tensor_id nn_batch_norm(struct nn_builder *b, const char *name, tensor_id x, double eps,
                        double momentum);
tensor_id nn_layer_norm(struct nn_builder *b, const char *name, tensor_id x, double eps);
tensor_id nn_embedding(struct nn_builder *b, const char *name, tensor_id ids, int64_t rows,
                       int64_t width, struct nn_init init);
tensor_id nn_max_pool(struct nn_builder *b, tensor_id x, int64_t k, int64_t stride, int64_t pad);
tensor_id nn_avg_pool(struct nn_builder *b, tensor_id x, int64_t k, int64_t stride, int64_t pad,
                      bool counts_pad);
tensor_id nn_global_pool(struct nn_builder *b, tensor_id x); /* [n, c, h, w] -> [n, c] */
tensor_id nn_flatten(struct nn_builder *b, tensor_id x);     /* [n, ...] -> [n, all] */
tensor_id nn_cat(struct nn_builder *b, size_t count, const tensor_id *in, int dim);
/* q, k, v: [batch, heads, length, width]; mask (may be none) is added to the scores. */
tensor_id nn_attention(struct nn_builder *b, tensor_id q, tensor_id k, tensor_id v, tensor_id mask,
                       bool is_causal, double dropout);
/* Casts to the low precision of the mode, or back to F32; nothing in fp32. */
tensor_id nn_low(struct nn_builder *b, tensor_id x);
tensor_id nn_full(struct nn_builder *b, tensor_id x);
/* What item i (its block k, where it has blocks) was cast to for computing, its working copy; none:
 * nobody asked for one. */
tensor_id nn_item_low(const struct nn_builder *b, size_t i, size_t k);

/* ---- torch's CPU generator ------------------------------------------------------------------- */

/* nn_torch_rng reproduces it draw for draw (option `rng: torch`): MT19937, floats of 24 bits,
 * normals by Box-Muller, singly in double below 16 elements and in blocks of 16 floats from there
 * on. */
struct nn_torch_rng {
    struct ebb_mt19937 mt;
    double cached; /* second normal of a pair */
    bool has_cached;
};

void nn_torch_seed(struct nn_torch_rng *rng, uint64_t seed);
void nn_torch_uniform(struct nn_torch_rng *rng, size_t n, float low, float high, float *y);
void nn_torch_normal(struct nn_torch_rng *rng, size_t n, float mean, float deviation, float *y);
void nn_torch_bernoulli(struct nn_torch_rng *rng, size_t n, double p, float *y);
void nn_torch_randperm(struct nn_torch_rng *rng, size_t n, int64_t *y);

/* Bound of torch's default for linear and convolution weights and biases: 1/sqrt(fan_in), as
 * Kaiming uniform with a = sqrt(5) works out. */
float nn_default_bound(int64_t fan_in);

#endif
