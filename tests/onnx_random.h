/* onnx_random.h - ONNX files of one node of any op, with whatever inputs, outputs and attributes the choices say, and
 * somebody who reads its result. Choices come from bytes (a fuzzer's) or from a seed. */
#ifndef EBB_TESTS_ONNX_RANDOM_H
#define EBB_TESTS_ONNX_RANDOM_H

#include <math.h>

#include "base/rng.h"
#include "onnx_text.h"

struct choices {
    const uint8_t *data; /* NULL: from the seed */
    size_t size, at;
    uint64_t seed;
};

static inline uint64_t choose(struct choices *c, uint64_t n)
{
    if (!c->data)
        return ebb_splitmix64(&c->seed) % n;
    uint64_t v = c->at < c->size ? c->data[c->at++] : 0;
    if (n > 256)
        v = v << 8 | (c->at < c->size ? c->data[c->at++] : 0);
    return v % n;
}

/* One of `of`, in a hundred. */
static inline bool chance(struct choices *c, uint64_t percent)
{
    return choose(c, 100) < percent;
}

static inline int64_t any_int(struct choices *c)
{
    static const int64_t odd[] = {-3,
                                  -2,
                                  -1,
                                  0,
                                  5,
                                  6,
                                  7,
                                  8,
                                  16,
                                  1 << 20,
                                  1 << 30,
                                  1u << 31,
                                  INT64_C(1) << 32,
                                  INT64_C(1) << 40,
                                  INT64_MAX,
                                  INT64_MIN,
                                  INT64_MIN + 1,
                                  -1000};
    return chance(c, 75) ? (int64_t)choose(c, 5) : odd[choose(c, sizeof odd / sizeof *odd)];
}

static inline float any_float(struct choices *c)
{
    static const float some[] = {0, 1, -1, 0.5f, 2, 0.6f, 3e38f, -1e4f, 1e-30f, 4, 10, 3};
    return chance(c, 3) ? NAN : chance(c, 3) ? -INFINITY : some[choose(c, 12)];
}

/* Shapes of at most some thousand elements, with sizes of 0 now and then. */
static inline size_t any_dims(struct choices *c, const int64_t *like, size_t like_rank,
                              int64_t *dims)
{
    static const int64_t sizes[] = {1, 1, 2, 2, 3, 4, 5, 0};
    size_t rank = chance(c, 60) ? like_rank : choose(c, 9);
    for (size_t d = 0; d < rank; d++)
        dims[d] = rank == like_rank && chance(c, 70) ? like[d] : sizes[choose(c, rank > 5 ? 4 : 8)];
    return rank;
}

static inline struct ebb_str any_tensor(struct choices *c, const char *name, int like_type,
                                        const int64_t *like, size_t like_rank)
{
    static const int types[] = {ONNX_FLOAT,  ONNX_FLOAT,   ONNX_FLOAT,    ONNX_INT64,
                                ONNX_INT64,  ONNX_INT64,   ONNX_BOOL,     ONNX_UINT8,
                                ONNX_INT8,   ONNX_INT32,   ONNX_DOUBLE,   ONNX_STRING,
                                ONNX_UINT64, ONNX_FLOAT16, ONNX_COMPLEX64};
    struct ebb_str t = {0}, raw = {0};
    int64_t dims[8], count = 1;
    int type = like_type ? like_type : types[choose(c, sizeof types / sizeof *types)];
    bool is_list = type == ONNX_INT64 && chance(c, 50); /* sizes, axes, places */
    size_t rank = is_list ? 1 : any_dims(c, like, like_rank, dims);
    if (is_list)
        dims[0] = chance(c, 50) ? (int64_t)like_rank : (int64_t)choose(c, 9);
    for (size_t d = 0; d < rank; d++) {
        ot_int(&t, 1, dims[d]);
        count *= dims[d];
    }
    ot_int(&t, 2, type);
    ot_text(&t, 8, name);
    for (int64_t i = 0; i < count; i++) {
        double v = onnx_type_is_float(type) ? (double)any_float(c) : (double)any_int(c);
        if (type == ONNX_STRING)
            ot_text(&t, 6, chance(c, 50) ? "a" : "");
        else
            ot_element(&raw, type, type == ONNX_BOOL ? v > 0 : v);
    }
    if (type != ONNX_STRING)
        ot_part(&t, 9, &raw);
    return t;
}

/* The attributes that ops have, each with its kind: of another kind one time in thirty. */
static inline void any_attr(struct choices *c, struct ebb_str *node, size_t rank)
{
    static const char ints[][24] = {"axes",         "dilations", "kernel_shape", "output_padding",
                                    "output_shape", "pads",      "perm",         "split",
                                    "starts",       "ends",      "strides",      "shape"};
    static const char whole[][24] = {"axis",
                                     "axis",
                                     "axis",
                                     "axis",
                                     "keepdims",
                                     "blocksize",
                                     "batch_dims",
                                     "group",
                                     "to",
                                     "k",
                                     "size",
                                     "p",
                                     "num_groups",
                                     "hidden_size",
                                     "linear_before_reset",
                                     "transA",
                                     "transB",
                                     "upper",
                                     "exclusive",
                                     "reverse",
                                     "ceil_mode",
                                     "training_mode",
                                     "allowzero",
                                     "layout",
                                     "count_include_pad",
                                     "dtype",
                                     "batch_axis",
                                     "time_axis",
                                     "is_test",
                                     "noop_with_empty_axes",
                                     "start",
                                     "end",
                                     "broadcast",
                                     "storage_order",
                                     "exclude_outside"};
    static const char fractions[][24] = {"alpha", "beta",  "epsilon", "momentum", "ratio",
                                         "bias",  "lambd", "min",     "max",      "cubic_coeff_a"};
    static const char words[][2][40] = {{"mode", "edge"},
                                        {"mode", "reflect"},
                                        {"mode", "linear"},
                                        {"mode", "cubic"},
                                        {"mode", "CRD"},
                                        {"auto_pad", "SAME_UPPER"},
                                        {"auto_pad", "VALID"},
                                        {"direction", "bidirectional"},
                                        {"direction", "reverse"},
                                        {"direction", "LEFT"},
                                        {"equation", "ij,jk->ik"},
                                        {"equation", "bij,bjk->bik"},
                                        {"equation", "...i,i->..."},
                                        {"equation", "ii->i"},
                                        {"equation", "ij,kl->ijkl"},
                                        {"reduction", "none"},
                                        {"reduction", "sum"},
                                        {"reduction", "add"},
                                        {"coordinate_transformation_mode", "asymmetric"},
                                        {"coordinate_transformation_mode", "align_corners"},
                                        {"coordinate_transformation_mode", "tf_crop_and_resize"},
                                        {"nearest_mode", "floor"}};
    struct ebb_str a = {0};
    uint64_t kind = choose(c, 10);
    int said = 0;
    if (kind < 4) {
        size_t n = chance(c, 40) ? rank : chance(c, 40) ? 2 * (rank - 2) : choose(c, 10);
        ot_text(&a, 1, ints[choose(c, sizeof ints / sizeof *ints)]);
        for (size_t i = 0; i < n; i++)
            ot_int(&a, 8, any_int(c));
        said = ONNX_ATTR_INTS;
    } else if (kind < 7) {
        ot_text(&a, 1, whole[choose(c, sizeof whole / sizeof *whole)]);
        ot_int(&a, 3, any_int(c));
        said = ONNX_ATTR_INT;
    } else if (kind < 8) {
        ot_text(&a, 1, fractions[choose(c, sizeof fractions / sizeof *fractions)]);
        ot_float(&a, 2, any_float(c));
        said = ONNX_ATTR_FLOAT;
    } else {
        const char(*w)[40] = words[choose(c, sizeof words / sizeof *words)];
        ot_text(&a, 1, w[0]);
        ot_text(&a, 4, w[1]);
        said = ONNX_ATTR_STRING;
    }
    ot_int(&a, 20, chance(c, 3) ? (int64_t)choose(c, 9) : said);
    ot_part(node, 5, &a);
}

static inline const char *any_op(struct choices *c)
{
    size_t n = 0;
    while (onnx_op_name(n))
        n++;
    return onnx_op_name(choose(c, n));
}

static inline void put_node(struct ebb_str *graph, const char *op, const char *a, const char *b,
                            const char *y)
{
    struct ebb_str n = {0};
    ot_text(&n, 1, a);
    if (b)
        ot_text(&n, 1, b);
    ot_text(&n, 2, y);
    ot_text(&n, 4, op);
    ot_part(graph, 1, &n);
}

/* Inputs: the live ones `h` and `t`, constants of the graph or of nodes, or nothing. */
static inline void any_inputs(struct choices *c, struct ebb_str *graph, struct ebb_str *node,
                              const int64_t *dims, size_t rank)
{
    size_t count = choose(c, 100) < 90 ? 1 + choose(c, 4) : choose(c, 10);
    bool is_live = chance(c, 60);
    uint64_t types = choose(c, 10); /* fractions; lists of integers behind the first; any */
    for (size_t i = 0; i < count; i++) {
        char name[8];
        snprintf(name, sizeof name, "c%zu", i);
        if (i == 0 && is_live) {
            ot_text(node, 1, chance(c, 90) ? "h" : "t");
        } else if (chance(c, 5)) {
            ot_text(node, 1, "");
        } else if (is_live && chance(c, 10)) {
            ot_text(node, 1, chance(c, 50) ? "h" : "t");
        } else {
            bool is_node = chance(c, 50);
            int type = types < 4 || (types < 7 && i == 0) ? ONNX_FLOAT : types < 7 ? ONNX_INT64 : 0;
            struct ebb_str t = any_tensor(c, is_node ? "" : name, type, dims, rank), a = {0},
                           n = {0};
            ot_text(node, 1, name);
            if (!is_node) {
                ot_part(graph, 5, &t);
                continue;
            }
            ot_text(&n, 2, name);
            ot_text(&n, 4, "Constant");
            ot_text(&a, 1, "value");
            ot_part(&a, 5, &t);
            ot_int(&a, 20, ONNX_ATTR_TENSOR);
            ot_part(&n, 5, &a);
            ot_part(graph, 1, &n);
        }
    }
}

static inline void onnx_random(struct choices *c, struct ebb_str *model)
{
    static const struct {
        const char *text;
        size_t rank;
        int64_t dims[5];
    } inputs[] = {{"f[2,4]", 2, {2, 4}},
                  {"f[2,1,4,4]", 4, {2, 1, 4, 4}},
                  {"f[3,2,4]", 3, {3, 2, 4}},
                  {"f[2,3,4,4]", 4, {2, 3, 4, 4}},
                  {"f[2,2,3,3,3]", 5, {2, 2, 3, 3, 3}}};
    static const char *const readers[] = {"Identity", "Reshape", "Add", "MatMul", "Concat",
                                          "Equal",    "Softmax", "Mul", "Where",  "Gather"};
    static const int64_t opsets[] = {9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21};
    struct ebb_str graph = {0}, node = {0};
    size_t shape = choose(c, 5), rank = inputs[shape].rank;
    put_node(&graph, "Relu", "x", NULL, "h");
    any_inputs(c, &graph, &node, inputs[shape].dims, rank);
    size_t outs = chance(c, 70) ? 1 : 1 + choose(c, 4);
    for (size_t i = 0; i < outs; i++)
        ot_text(&node, 2, chance(c, 4) ? "" : i ? (const char *[]){"", "o1", "o2", "o3"}[i] : "o0");
    ot_text(&node, 4, any_op(c));
    for (size_t n = chance(c, 60) ? choose(c, 2) : choose(c, 6); n > 0; n--)
        any_attr(c, &node, rank);
    ot_part(&graph, 1, &node);
    const char *reader = readers[chance(c, 50) ? 0 : choose(c, 10)],
               *o = outs > 1 && chance(c, 20) ? "o1" : "o0";
    bool is_second = strcmp(reader, "Reshape") == 0 || strcmp(reader, "Gather") == 0;
    put_node(&graph, reader, is_second ? "h" : o,
             is_second                                                           ? o
             : strcmp(reader, "Identity") == 0 || strcmp(reader, "Softmax") == 0 ? NULL
                                                                                 : o,
             "y");
    ot_port(&graph, 11, "x", inputs[shape].text);
    ot_port(&graph, 11, "t", "i[2,3]");
    ot_port(&graph, 12, "y", "f[n]");
    ot_model(&graph, opsets[choose(c, 12)], model);
}

#endif
