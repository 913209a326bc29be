/* onnx_text.h - ONNX files out of one line of text, right or wrong: they are bytes that no check of a
 * writer has seen. Blank-separated:
 *
 *     x:f[2,4]                     an input: its type and shape; [n,4]: a size with the name n
 *     w=f[4,4]   ix=i[2]:0,1       an initializer; elements that are not given repeat those that are
 *     c~f[3]                       a Constant node: no weight, whatever its type
 *     Add(a,,b)->y,{axis=1;k=[1,2];m='edge';alpha=0.5;value=i[2]:3,4}
 *                                  a node: inputs, outputs, attributes; an empty name is left out
 *
 * Types: f FLOAT, d DOUBLE, h FLOAT16 (of 0 alone), i INT64, l INT32, q UINT8, b BOOL, s STRING, c COMPLEX64,
 * S STRING in another file. The output of the file is `y`. [1*9]: nine times 1. */
#ifndef EBB_TESTS_ONNX_TEXT_H
#define EBB_TESTS_ONNX_TEXT_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "onnx/onnx.h"

/* ---- the wire --------------------------------------------------------------------------------- */

static inline void ot_varint(struct ebb_str *s, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        ebb_str_addc(s, (char)(v | 128));
    ebb_str_addc(s, (char)v);
}

static inline void ot_bytes(struct ebb_str *s, unsigned field, const void *bytes, size_t n)
{
    ot_varint(s, field << 3 | 2);
    ot_varint(s, n);
    ebb_str_addn(s, n ? bytes : "", n);
}

static inline void ot_text(struct ebb_str *s, unsigned field, const char *text)
{
    ot_bytes(s, field, text, strlen(text));
}

static inline void ot_int(struct ebb_str *s, unsigned field, int64_t v)
{
    ot_varint(s, field << 3);
    ot_varint(s, (uint64_t)v);
}

static inline void ot_float(struct ebb_str *s, unsigned field, float v)
{
    ot_varint(s, field << 3 | 5);
    ebb_str_addn(s, (const char *)&v, sizeof v);
}

/* The part ends with it. */
static inline void ot_part(struct ebb_str *s, unsigned field, struct ebb_str *part)
{
    ot_bytes(s, field, part->data, part->length);
    ebb_str_fini(part);
}

/* ---- pieces of text --------------------------------------------------------------------------- */

static inline int ot_type(char letter)
{
    static const char letters[] = "fdhilqbscS";
    static const int types[] = {ONNX_FLOAT, ONNX_DOUBLE, ONNX_FLOAT16, ONNX_INT64,     ONNX_INT32,
                                ONNX_UINT8, ONNX_BOOL,   ONNX_STRING,  ONNX_COMPLEX64, ONNX_STRING};
    const char *at = strchr(letters, letter);
    return at && *at ? types[at - letters] : 99;
}

/* "[1,2*3]": numbers, some several times; returns how many. */
static inline size_t ot_list(const char *text, double *to, size_t room)
{
    size_t n = 0;
    for (const char *p = text + (*text == '['); *p && *p != ']'; p += *p == ',') {
        char *end;
        double v = strtod(p, &end);
        long times = *end == '*' ? strtol(end + 1, &end, 10) : 1;
        for (; times > 0 && n < room; times--)
            to[n++] = v;
        if (end == p)
            break;
        p = end;
    }
    return n;
}

static inline void ot_element(struct ebb_str *raw, int type, double v)
{
    float f[2] = {(float)v, 0};
    int64_t whole = v >= 0x1p63 ? INT64_MAX : v > -0x1p63 ? (int64_t)v : INT64_MIN;
    const void *at = type == ONNX_FLOAT || type == ONNX_COMPLEX64 ? (const void *)f
                     : type == ONNX_DOUBLE                        ? (const void *)&v
                                                                  : (const void *)&whole;
    ebb_str_addn(raw, at, onnx_type_bytes(type) > 8 ? 8 : onnx_type_bytes(type));
}

/* "f[2,3]:1,2" as a TensorProto. */
static inline struct ebb_str ot_tensor(const char *name, const char *text)
{
    struct ebb_str t = {0}, raw = {0}, entry = {0};
    double dims[16], values[4096] = {0.1};
    int type = ot_type(*text);
    size_t rank = ot_list(text + 1, dims, 16), given = 1, count = 1;
    const char *colon = strchr(text, ':');
    if (colon)
        given = ot_list(colon + 1, values, 4096);
    for (size_t d = 0; d < rank; d++) {
        ot_int(&t, 1, (int64_t)dims[d]);
        count *= (size_t)dims[d];
    }
    ot_int(&t, 2, type);
    ot_text(&t, 8, name);
    if (*text == 'S') {
        ot_text(&entry, 1, "location");
        ot_text(&entry, 2, "beside.bin");
        ot_part(&t, 13, &entry);
        ot_int(&t, 14, 1);
        return t;
    }
    for (size_t i = 0; i < count; i++)
        if (type == ONNX_STRING)
            ot_text(&t, 6, i % 2 ? "b" : "a");
        else
            ot_element(&raw, type, values[given ? i % given : 0]);
    if (type != ONNX_STRING)
        ot_part(&t, 9, &raw);
    return t;
}

static inline void ot_port(struct ebb_str *graph, unsigned field, const char *name,
                           const char *text)
{
    struct ebb_str shape = {0}, tensor = {0}, outer = {0}, port = {0};
    for (const char *p = strchr(text, '['); p && *p != ']'; p = strpbrk(p, ",]")) {
        struct ebb_str dim = {0};
        char word[32] = "";
        p++;
        size_t n = strcspn(p, ",]");
        memcpy(word, p, n < 31 ? n : 31);
        if (!n)
            break;
        if (strchr("-0123456789", *word))
            ot_int(&dim, 1, strtoll(word, NULL, 10));
        else
            ot_text(&dim, 2, word);
        ot_part(&shape, 1, &dim);
    }
    ot_int(&tensor, 1, ot_type(*text));
    ot_part(&tensor, 2, &shape);
    ot_part(&outer, 1, &tensor);
    ot_text(&port, 1, name);
    ot_part(&port, 2, &outer);
    ot_part(graph, field, &port);
}

/* "axis=1", "mode='edge'", "alpha=0.5", "perm=[1,0]", "value=i[1]:2" */
static inline void ot_attr(struct ebb_str *node, char *text)
{
    struct ebb_str a = {0};
    char *value = strchr(text, '=');
    double list[4096];
    if (!value)
        return;
    *value++ = 0;
    ot_text(&a, 1, text);
    if (*value == '\'') {
        value[strcspn(value + 1, "'") + 1] = 0;
        ot_text(&a, 4, value + 1);
        ot_int(&a, 20, ONNX_ATTR_STRING);
    } else if (*value == '[') {
        size_t n = ot_list(value, list, 4096);
        for (size_t i = 0; i < n; i++)
            ot_int(&a, 8, (int64_t)list[i]);
        ot_int(&a, 20, ONNX_ATTR_INTS);
    } else if (strchr(value, '[')) {
        struct ebb_str t = ot_tensor("", value);
        ot_part(&a, 5, &t);
        ot_int(&a, 20, ONNX_ATTR_TENSOR);
    } else if (strchr(value, '.')) {
        ot_float(&a, 2, strtof(value, NULL));
        ot_int(&a, 20, ONNX_ATTR_FLOAT);
    } else {
        ot_int(&a, 3, strtoll(value, NULL, 10));
        ot_int(&a, 20, ONNX_ATTR_INT);
    }
    ot_part(node, 5, &a);
}

/* Names between commas; none where there is no text. */
static inline void ot_names(struct ebb_str *node, unsigned field, const char *text, size_t length)
{
    char word[64];
    for (size_t at = 0; length && at <= length;) {
        size_t n = strcspn(text + at, ",)}{ ");
        n = at + n > length ? length - at : n;
        snprintf(word, sizeof word, "%.*s", (int)n, text + at);
        ot_text(node, field, word);
        at += n + 1;
    }
}

static inline void ot_node(struct ebb_str *graph, char *text)
{
    struct ebb_str n = {0};
    char *open = strchr(text, '('), *close = strstr(text, ")->"), *braces = strchr(text, '{');
    *open = 0;
    ot_names(&n, 1, open + 1, (size_t)(close - open - 1));
    close += 3;
    ot_names(&n, 2, close, strcspn(close, "{"));
    ot_text(&n, 4, text);
    if (braces) {
        char *save = NULL;
        braces[strcspn(braces, "}")] = 0;
        for (char *a = strtok_r(braces + 1, ";", &save); a; a = strtok_r(NULL, ";", &save))
            ot_attr(&n, a);
    }
    ot_part(graph, 1, &n);
}

static inline void ot_constant(struct ebb_str *graph, const char *name, const char *text)
{
    struct ebb_str n = {0}, a = {0}, t = ot_tensor("", text);
    ot_text(&n, 2, name);
    ot_text(&n, 4, "Constant");
    ot_text(&a, 1, "value");
    ot_part(&a, 5, &t);
    ot_int(&a, 20, ONNX_ATTR_TENSOR);
    ot_part(&n, 5, &a);
    ot_part(graph, 1, &n);
}

/* ---- the file --------------------------------------------------------------------------------- */

static inline void ot_model(struct ebb_str *graph, int64_t opset, struct ebb_str *model)
{
    struct ebb_str version = {0};
    ot_int(model, 1, 8);
    ot_int(&version, 2, opset);
    ot_part(model, 8, &version);
    ot_part(model, 7, graph);
}

static inline void onnx_text(const char *text, int64_t opset, struct ebb_str *model)
{
    struct ebb_str graph = {0};
    char *copy = strdup(text), *save = NULL;
    for (char *t = copy ? strtok_r(copy, " ", &save) : NULL; t; t = strtok_r(NULL, " ", &save)) {
        char *mark = strpbrk(t, "=:~");
        if (strstr(t, "->")) {
            ot_node(&graph, t);
        } else if (mark && *mark == '=') {
            *mark = 0;
            struct ebb_str tensor = ot_tensor(t, mark + 1);
            ot_part(&graph, 5, &tensor);
        } else if (mark && *mark == '~') {
            *mark = 0;
            ot_constant(&graph, t, mark + 1);
        } else if (mark) {
            *mark = 0;
            ot_port(&graph, 11, t, mark + 1);
        }
    }
    free(copy);
    ot_port(&graph, 12, "y", "f[n]");
    ot_model(&graph, opset, model);
}

#endif
