/* check.c - the one place that says what a node must look like before anything reads its inputs,
 * outputs or attributes: the row of its op at its version. */
#include <inttypes.h>
#include <string.h>

#include "base/report.h"
#include "onnx/internal.h"

static const struct onnx_ops *const files[] = {
#define X(name) &onnx_##name##_ops,
    ONNX_OP_FILES(X)
#undef X
};
#define FILES (sizeof files / sizeof *files)

/* ---- the row ---------------------------------------------------------------------------------- */

/* The row for this version; NULL with *other: in other versions only. */
static const struct onnx_op *find(const char *name, int64_t opset, const struct onnx_op **other)
{
    *other = NULL;
    for (size_t f = 0; f < FILES; f++)
        for (size_t i = 0; i < files[f]->count; i++) {
            const struct onnx_op *row = &files[f]->rows[i];
            if (strcmp(row->name, name) != 0)
                continue;
            if (opset >= row->since && (!row->until || opset <= row->until))
                return row;
            *other = row;
        }
    return NULL;
}

enum ebb_status onnx_op_find(const struct onnx_node *n, int64_t opset, const struct onnx_op **row,
                             struct ebb_error *err)
{
    const struct onnx_op *other;
    if (*n->domain)
        return ebb_fail(err, EBB_EUNSUPPORTED, "op %s of domain '%s' is not known", n->op,
                        n->domain);
    *row = find(n->op, opset, &other);
    if (*row)
        return EBB_OK;
    if (!other)
        return ebb_fail(err, EBB_EUNSUPPORTED, "op %s is not known", n->op);
    if (other->until)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "op %s is known in versions %d to %d, not in %" PRId64, n->op, other->since,
                        other->until, opset);
    return ebb_fail(err, EBB_EUNSUPPORTED, "op %s is known from version %d on, not in %" PRId64,
                    n->op, other->since, opset);
}

const char *onnx_op_name(size_t i)
{
    for (size_t f = 0; f < FILES; i -= files[f]->count, f++)
        if (i < files[f]->count)
            return files[f]->rows[i].name;
    return NULL;
}

/* ---- inputs and outputs ----------------------------------------------------------------------- */

static enum ebb_status check_inputs(const struct onnx_node *n, const struct onnx_op *row,
                                    struct ebb_error *err)
{
    size_t least = (size_t)row->least, most = (size_t)row->most;
    if (n->in_count < least || n->in_count > most)
        return ebb_fail(err, EBB_EINPUT, "%s has %zu inputs, allowed: %zu to %zu", n->op,
                        n->in_count, least, most);
    for (size_t i = 0; i < (most == ONNX_MANY ? n->in_count : least); i++)
        if (n->in[i] == ONNX_NONE)
            return ebb_fail(err, EBB_EINPUT, "%s: input %zu is missing", n->op, i);
    return EBB_OK;
}

static enum ebb_status check_outputs(const struct onnx_node *n, const struct onnx_op *row,
                                     struct ebb_error *err)
{
    size_t most = (size_t)(row->outputs < 0 ? -row->outputs : row->outputs);
    if (n->out_count < 1 || n->out_count > most)
        return ebb_fail(err, EBB_EINPUT, "%s has %zu outputs, allowed: 1 to %zu", n->op,
                        n->out_count, most);
    if (n->out[0] == ONNX_NONE && row->outputs > 0)
        return ebb_fail(err, EBB_EINPUT, "%s: output 0 has no name", n->op);
    return EBB_OK;
}

/* ---- attributes ------------------------------------------------------------------------------- */

/* Of all ops: a name means one kind everywhere. Not here: `value` and `to`, whose readers look. */
static const struct {
    int kind;
    const char *noun, *names; /* blank-separated */
} attr_rows[] = {
    {ONNX_ATTR_INT, "an integer",
     "allowzero axis batch_axis batch_dims blocksize broadcast ceil_mode count_include_pad "
     "detect_negative detect_positive dtype end exclude_outside exclusive fmod group hidden_size "
     "ignore_index input_forget is_test k keepdims largest layout linear_before_reset "
     "noop_with_empty_axes num_groups output_datatype p periodic reverse select_last_index size "
     "sorted spatial start storage_order time_axis training_mode transA transB upper"},
    {ONNX_ATTR_FLOAT, "a number",
     "alpha beta bias clip cubic_coeff_a epsilon extrapolation_value gamma lambd max min momentum "
     "ratio"},
    {ONNX_ATTR_STRING, "a text",
     "approximate auto_pad coordinate_transformation_mode direction equation mode nearest_mode "
     "reduction"},
    {ONNX_ATTR_INTS, "integers",
     "axes dilations ends kernel_shape output_padding output_shape pads perm shape split starts "
     "strides"},
};

static enum ebb_status check_attrs(const struct onnx_node *n, struct ebb_error *err)
{
    for (size_t i = 0; i < n->attr_count; i++) {
        const struct onnx_attr *a = &n->attrs[i];
        for (size_t k = 0; k < sizeof attr_rows / sizeof *attr_rows; k++)
            if (a->kind != attr_rows[k].kind &&
                ebb_words_find(attr_rows[k].names, a->name, strlen(a->name), NULL))
                return ebb_fail(err, EBB_EINPUT, "%s: attribute '%s' is not %s", n->op, a->name,
                                attr_rows[k].noun);
        if (onnx_attr_find(n, a->name) != a)
            return ebb_fail(err, EBB_EINPUT, "%s: attribute '%s' is there twice", n->op, a->name);
        if (i == ONNX_ATTRS)
            return ebb_fail(err, EBB_EINPUT, "%s has more than %d attributes", n->op, ONNX_ATTRS);
    }
    return EBB_OK;
}

enum ebb_status onnx_op_check(const struct onnx_node *node, int64_t opset, struct ebb_error *err)
{
    const struct onnx_op *row;
    EBB_TRY(onnx_op_find(node, opset, &row, err));
    EBB_TRY(check_inputs(node, row, err));
    EBB_TRY(check_outputs(node, row, err));
    return check_attrs(node, err);
}

/* ---- types ------------------------------------------------------------------------------------ */

static bool is_integer(int type)
{
    return type != ONNX_BOOL && type != ONNX_STRING && type != ONNX_COMPLEX64 &&
           type != ONNX_COMPLEX128 && onnx_type_bytes(type) && !onnx_type_is_float(type);
}

/* Letters of `kinds` (internal.h), and what they stand for. */
static bool is_kind(char kind, int type, const char **noun)
{
    bool is_number = is_integer(type) || onnx_type_is_float(type);
    switch (kind) {
    case 'f':
        *noun = "fractions";
        return onnx_type_is_float(type);
    case 'i':
        *noun = "integers";
        return is_integer(type);
    case 'q':
        *noun = "integers of 8 bits";
        return type == ONNX_INT8 || type == ONNX_UINT8;
    case 'n':
        *noun = "numbers";
        return is_number;
    case 'b':
        *noun = "BOOL";
        return type == ONNX_BOOL;
    case 'm':
        *noun = "numbers or BOOL";
        return is_number || type == ONNX_BOOL;
    default:
        *noun = "numbers, BOOL or STRING";
        return is_number || type == ONNX_BOOL || type == ONNX_STRING;
    }
}

enum ebb_status onnx_op_types(const struct onnx_node *node, int64_t opset, const int *types,
                              struct ebb_error *err)
{
    const struct onnx_op *row;
    const char *noun;
    EBB_TRY(onnx_op_find(node, opset, &row, err));
    size_t last = strlen(row->kinds);
    for (size_t i = 0; last && i < node->in_count; i++) {
        char kind = row->kinds[i < last ? i : last - 1];
        int like = kind >= '0' && kind <= '9' ? types[kind - '0'] : 0;
        if (!types[i])
            continue;
        if (like && types[i] != like)
            return ebb_fail(err, EBB_EINPUT, "%s: types %s and %s of inputs %c and %zu", node->op,
                            onnx_type_name(like), onnx_type_name(types[i]), kind, i);
        if (!like && !is_kind(kind, types[i], &noun)) /* the format has more numbers for some */
            return ebb_fail(err, strchr("fnma", kind) ? EBB_EUNSUPPORTED : EBB_EINPUT,
                            "%s: input %zu is of type %s, allowed: %s", node->op, i,
                            onnx_type_name(types[i]), noun);
    }
    return EBB_OK;
}
