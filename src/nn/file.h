/* file.h - private: model files. A network in torch's words, read from YAML, becomes a row like
 * those of the zoo (docs/own-model.md is the user's page).
 *
 *     text --file_parse--> expressions --file_read--> struct nn_file
 *     nn_file --file_check--> every unknown name, argument and count is reported with its place
 *     nn_file --file_build--> modules are constructed (items in the order of their declaration,
 *                             which is that of torch's state_dict), then `forward` is evaluated
 *     builder with a journal (journal.c) --file_write--> text
 *
 * Rules.  F1 reading has no side effects but findings; what is found is found at once.
 *         F2 the text is outside bytes: depth, counts and sizes are bounded here.
 *         F3 evaluation appends to the session of a builder and may fail; the builder then knows
 *            the place (nn_builder.place). */
#ifndef EBB_NN_FILE_H
#define EBB_NN_FILE_H

#include "base/report.h"
#include "nn/internal.h"

#define NN_FILE_BYTES ((size_t)256 << 10) /* as for every YAML file */
#define NN_FILE_NEST 64                   /* expressions inside each other */
#define NN_FILE_CALLS 24                  /* blocks inside each other */
#define NN_FILE_MODULES 100000            /* of one network */
#define NN_FILE_SIZE (INT64_C(1) << 40)   /* largest number that a size may be */
#define NN_FILE_NAMES 64                  /* parameters of a block, arguments of a call */

/* ---- expressions (file_parse.c) --------------------------------------------------------------- */

enum nn_expr_kind {
    NN_EXPR_NONE, /* None */
    NN_EXPR_BOOL,
    NN_EXPR_INT,
    NN_EXPR_FLOAT,
    NN_EXPR_TEXT,
    NN_EXPR_NAME,
    NN_EXPR_LIST,   /* [a, b] and (a, b) */
    NN_EXPR_CALL,   /* items[0] is called with the others; names[i] of keywords */
    NN_EXPR_MEMBER, /* items[0].text */
    NN_EXPR_INDEX,  /* items[0][the others] */
    NN_EXPR_SLICE,  /* a:b:c inside an index; NULL items are left out */
    NN_EXPR_UNARY,
    NN_EXPR_BINARY,
    NN_EXPR_CHOICE, /* items[1] if items[0] else items[2] */
};

struct nn_expr {
    enum nn_expr_kind kind;
    uint32_t line, column;
    const char *text; /* TEXT, NAME, MEMBER; UNARY, BINARY: the operator */
    int64_t integer;  /* BOOL, INT */
    double number;    /* INT, FLOAT */
    struct nn_expr **items;
    const char **names; /* CALL */
    size_t count;
    int height; /* how many expressions lie inside each other */
};

struct nn_line { /* of `forward` */
    struct nn_expr *value;
    const char **targets; /* assigned; none: returned */
    size_t target_count;
    size_t index; /* in the list */
};

/* Where a text stands: line and column of its first character. */
struct nn_text {
    const char *text;
    size_t length;
    uint32_t line, column;
};

/* Mistakes go to the reading. NULL: there was one. */
struct nn_expr *nn_file_expr(struct ebb_reading *reading, const struct ebb_path *path,
                             const struct nn_text *text);
bool nn_file_line(struct ebb_reading *reading, const struct ebb_path *path,
                  const struct nn_text *text, struct nn_line *line);
/* "Basic(i, o, s=1)": name, parameters, defaults (NULL: none). */
struct nn_head {
    const char *name;
    const char **names;
    struct nn_expr **defaults;
    size_t count;
};
bool nn_file_head(struct ebb_reading *reading, const struct ebb_path *path,
                  const struct nn_text *text, struct nn_head *head);
/* "layer1.0.conv" of a chain of members; false: it does not begin with a name. */
bool nn_expr_path(const struct nn_expr *x, char *buf, size_t size);
/* An error at an expression. */
void nn_file_error(struct ebb_reading *reading, const struct ebb_path *path,
                   const struct nn_expr *at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- the file (file_read.c) ------------------------------------------------------------------- */

struct nn_module { /* a declaration */
    const char *name;
    uint32_t line, column;
    struct nn_expr *use;          /* what it is, or NULL: a container of `parts` */
    struct nn_expr *when, *other; /* `use` when this is true, else `other` */
    struct nn_expr *repeat;       /* so many of `use`, named 0, 1, ... */
    struct nn_module *parts;
    size_t count;
};

struct nn_block { /* modules and what is done with them; the file itself is one, too */
    struct nn_head head;
    uint32_t line, column;
    const char **inputs;
    size_t input_count;
    struct nn_module *modules;
    size_t module_count;
    struct nn_line *lines;
    size_t line_count;
    bool is_partial; /* a line could not be read: its names are unknown */
};

enum nn_fill { NN_FILL_DATA, NN_FILL_ZEROS, NN_FILL_UNIFORM, NN_FILL_NORMAL, NN_FILL_WAVES };

struct nn_file_input {
    const char *name;
    struct nn_expr **dims; /* of one sample, or with `batch` among them */
    size_t rank;
    bool has_batch; /* the name stands among dims, or the shape has none at all */
    unsigned dtype, fill;
    bool is_mask, is_state, is_target;
};

struct nn_file_loss {
    const char *output; /* NULL: the first */
    const char *op;     /* "cross_entropy" */
};

struct nn_file {
    const char *path, *name, *summary;
    struct nn_model model; /* what the world sees */
    struct ebb_key *options;
    size_t option_count;
    struct nn_file_input inputs[NN_PORTS];
    size_t input_count;
    struct nn_block *blocks;
    size_t block_count;
    struct nn_block top;           /* its inputs are the model's */
    const char *outputs[NN_PORTS]; /* names of what the last line returns */
    size_t output_count;
    struct nn_file_loss losses[NN_PORTS];
    size_t loss_count;
    struct nn_expr *loss; /* or an expression over outputs and inputs */
    const char *metric_names[NN_PORTS];
    struct nn_expr *metrics[NN_PORTS];
    size_t metric_count;
    bool makes_targets;
    char sha256[65]; /* of the document, however it is spelled */
};

/* Reads and checks; NULL: mistakes were reported. Everything lives in the arena of the reading. */
const struct nn_file *nn_file_read(struct ebb_reading *reading, const char *path, const char *bytes,
                                   size_t length);
void nn_file_check(struct ebb_reading *reading, const struct nn_file *file);
const struct nn_block *nn_file_block(const struct nn_file *file, const char *name); /* or NULL */
/* Forward pass of one builder (file_eval.c). */
size_t nn_file_build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                     struct nn_output *out);
size_t nn_file_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports);

/* ---- as a model of the table (file_model.c) ---------------------------------------------------- */

/* The file that `node` names; its defaults become *config. False: mistakes were reported. */
bool nn_file_open(struct ebb_reading *reading, const struct ebb_path *path,
                  const struct ebb_doc_node *node, const struct nn_env *env,
                  struct nn_config *config);
/* Builds it once, in training, for its shapes; what fails is reported at its place, unless the data
 * may still change the shapes. */
bool nn_file_try(struct ebb_reading *reading, const struct ebb_path *path,
                 const struct ebb_doc_node *map, const struct nn_config *config);
/* The data will tell what nobody has given: whether the shapes agree is known only then. */
bool nn_file_waits(const struct nn_config *config);
void nn_file_fill(enum nn_fill fill, const struct nn_port *port, uint32_t instance, uint64_t seed,
                  int64_t update, float *dst);

/* ---- values (file_eval.c) --------------------------------------------------------------------- */

enum nn_value_kind {
    NN_VALUE_NONE,
    NN_VALUE_BOOL,
    NN_VALUE_INT,
    NN_VALUE_FLOAT,
    NN_VALUE_TEXT,
    NN_VALUE_LIST,
    NN_VALUE_TENSOR,
    NN_VALUE_MODULE,
    NN_VALUE_INIT,
};

struct nn_value {
    enum nn_value_kind kind;
    int64_t integer; /* BOOL, INT */
    double number;   /* INT, FLOAT */
    const char *text;
    tensor_id tensor;
    struct nn_value *items; /* LIST */
    size_t count;
    struct nn_part *module;
    struct nn_file_init *init;
};

/* How values begin, before the shape is known. */
struct nn_file_init {
    const char *rule; /* "normal", "kaiming_uniform", ... */
    double a, b;
    bool is_fan_out;
    const char *over; /* drawn over this kind; NULL: as the module says */
    const char *copy; /* item whose values these are */
};

/* One evaluation. Functions and modules fail through nn_eval_fail and return nothing then. */
struct nn_eval {
    const struct nn_file *file;
    const struct nn_config *config;
    struct nn_builder *b;
    struct ebb_arena *arena;
    int64_t batch;
    size_t parts, calls, taken; /* taken: bytes */
    int depth;                  /* expressions that are being evaluated */
    const struct nn_expr *at;   /* what is evaluated */
    const char *made;           /* name of the module that is constructed */
};

struct nn_frame { /* one call of a block */
    const struct nn_block *block;
    struct nn_part *part;        /* whose modules are called */
    const struct nn_value *args; /* of block->head */
    const int64_t *index;        /* of a repeated module; NULL: none */
    struct ebb_strmap names;     /* of variables, to places in values */
    struct nn_value *values;
    size_t count, room;
};
void nn_frame_set(struct nn_eval *e, struct nn_frame *f, const char *name, struct nn_value v);
struct nn_value nn_frame_run(struct nn_eval *e, struct nn_frame *f); /* its lines: the result */
struct nn_value nn_eval_expr(struct nn_eval *e, struct nn_frame *f, const struct nn_expr *x);
bool nn_eval_option(const struct nn_eval *e, const char *name, struct nn_value *v);
void *nn_eval_take(struct nn_eval *e, size_t count, size_t bytes); /* zeroed, in the arena */
void nn_eval_mark(struct nn_eval *e); /* the place of the first failure is here */

bool nn_eval_ok(const struct nn_eval *e);
struct nn_value nn_eval_fail(struct nn_eval *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *nn_value_noun(const struct nn_value *v); /* "a number" */

static inline struct nn_value nn_whole(int64_t v)
{
    return (struct nn_value){.kind = NN_VALUE_INT, .integer = v, .number = (double)v};
}
static inline struct nn_value nn_real(double v)
{
    return (struct nn_value){.kind = NN_VALUE_FLOAT, .number = v};
}
static inline struct nn_value nn_boolean(bool v)
{
    return (struct nn_value){.kind = NN_VALUE_BOOL, .integer = v, .number = v};
}
static inline struct nn_value nn_of_tensor(tensor_id id)
{
    return (struct nn_value){.kind = NN_VALUE_TENSOR, .tensor = id};
}

/* ---- operators (file_operators.c) ------------------------------------------------------------- */

struct nn_value nn_operate(struct nn_eval *e, const char *op, struct nn_value a, struct nn_value b);
struct nn_value nn_operate_one(struct nn_eval *e, const char *op, struct nn_value v);
bool nn_is_true(struct nn_eval *e, const struct nn_value *v);

/* ---- what files can call ---------------------------------------------------------------------- */

/* "x, kernel_size, stride=None, *rest": names of parameters, in order. A default is told by '=',
 * any other number of values goes to a name with '*'. */
struct nn_signature {
    const char *name, *parameters;
};
size_t nn_signature_count(const char *parameters);
#define NN_SIGNATURE_BYTES 64
/* Parameter i: its name (in buf, longer ones cut, to be shown), whether it may be left out, whether
 * it takes all the rest. */
const char *nn_signature_at(const char *parameters, size_t i, char buf[NN_SIGNATURE_BYTES],
                            bool *is_optional, bool *is_rest);
/* Place of a keyword, or -1. */
int nn_signature_find(const char *parameters, const char *name);

/* Values of the parameters; those left out are NN_VALUE_NONE. */
struct nn_call {
    struct nn_eval *e;
    const char *name;
    const struct nn_value *args;
    size_t count;
};
bool nn_given(const struct nn_call *c, size_t i);
int64_t nn_int(const struct nn_call *c, size_t i, int64_t fallback);
double nn_number(const struct nn_call *c, size_t i, double fallback);
bool nn_truth(const struct nn_call *c, size_t i, bool fallback);
const char *nn_word(const struct nn_call *c, size_t i, const char *fallback);
tensor_id nn_tensor(const struct nn_call *c, size_t i);
/* A list of integers, or one; returns their number, 0 after a failure. */
size_t nn_ints_of(const struct nn_call *c, const struct nn_value *v, int64_t *to, size_t room);

struct nn_function {
    struct nn_signature signature;
    struct nn_value (*run)(const struct nn_call *call);
};
/* NULL: no such function. Ops of the table are functions, too: those have no row. */
const struct nn_function *nn_function_find(const char *name);
const char *nn_function_name(size_t i); /* of functions and ops; NULL past the end */
struct nn_value nn_function_call(struct nn_eval *e, const char *name, const struct nn_value *args,
                                 const char *const *names, size_t count);
struct nn_value nn_function_op(struct nn_eval *e, const struct ops_def *def,
                               const struct nn_value *args, const char *const *names, size_t count);

/* A module of the network: one of torch's, a block, or a container. */
struct nn_part {
    const char *name;
    const struct nn_class *class; /* NULL: block or container */
    const struct nn_block *block; /* NULL: container */
    const struct nn_value *args;
    size_t arg_count;
    struct nn_part *parts;
    size_t part_count;
    struct nn_part *up;
};

struct nn_class {
    struct nn_signature signature;
    const char *calls; /* parameters of a call */
    /* Makes the items, in the order of torch's constructor; NULL: none. The prefix is set. */
    void (*declare)(const struct nn_call *call);
    /* args: of the constructor; in: of the call. */
    struct nn_value (*run)(const struct nn_call *call, const struct nn_call *in);
};
const struct nn_class *nn_class_find(const char *name);
const char *nn_class_name(size_t i);
/* print(model) shows texts without quotes: padding=same, mode=nearest. */
bool nn_file_is_word(const char *name);

/* Binds the arguments of a call to the parameters of a signature. NULL after a failure. */
const struct nn_value *nn_bind(struct nn_eval *e, const char *what, const char *parameters,
                               const struct nn_value *args, const char *const *names, size_t count);

#endif
