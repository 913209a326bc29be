/* quant.c - numbers of 8 bits and their scales; windows of signals. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "onnx/internal.h"

static double least(int type)
{
    return type == ONNX_INT8 ? -128 : 0;
}

static double largest(int type)
{
    return type == ONNX_INT8 ? 127 : 255;
}

/* Scale and zero: one, or one per place of the axis. */
static enum ebb_status check(struct onnx_call *c, int *axis)
{
    const struct onnx_value *x = &c->in[0], *scale = &c->in[1];
    *axis = 0;
    if (scale->count != 1)
        EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", 1), x->rank, axis));
    if ((scale->count != 1 && scale->count != x->dims[*axis]) ||
        (onnx_has(c, 2) && c->in[2].count != scale->count))
        return onnx_no(c, "scales or zero points do not fit");
    return EBB_OK;
}

static enum ebb_status quantize(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *scale = &c->in[1];
    int type = onnx_has(c, 2) ? c->in[2].type : ONNX_UINT8, axis;
    EBB_TRY(check(c, &axis));
    EBB_TRY(onnx_make(c, 0, type, x->rank, x->dims));
    int64_t inner = onnx_product(x->dims, axis + 1, x->rank);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t k = scale->count == 1 ? 0 : i / inner % x->dims[axis];
        double zero = onnx_has(c, 2) ? (double)c->in[2].integer[k] : 0;
        double v = nearbyint(onnx_round(ONNX_FLOAT, x->number[i] / scale->number[k])) + zero;
        c->out[0].integer[i] = (int64_t)fmax(least(type), fmin(largest(type), v));
    }
    return EBB_OK;
}

static enum ebb_status dequantize(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *scale = &c->in[1];
    int axis;
    EBB_TRY(check(c, &axis));
    EBB_TRY(onnx_make(c, 0, ONNX_FLOAT, x->rank, x->dims));
    int64_t inner = onnx_product(x->dims, axis + 1, x->rank);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t k = scale->count == 1 ? 0 : i / inner % x->dims[axis];
        double zero = onnx_has(c, 2) ? onnx_get(&c->in[2], k) : 0;
        onnx_set(&c->out[0], i, (onnx_get(x, i) - zero) * scale->number[k]);
    }
    return EBB_OK;
}

static enum ebb_status dynamic(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    double low = 0, high = 0;
    if (c->node->out_count != 3)
        return onnx_no(c, "three results are needed");
    for (int64_t i = 0; i < x->count; i++) {
        low = fmin(low, x->number[i]);
        high = fmax(high, x->number[i]);
    }
    EBB_TRY(onnx_make(c, 0, ONNX_UINT8, x->rank, x->dims));
    EBB_TRY(onnx_make(c, 1, ONNX_FLOAT, 0, NULL));
    EBB_TRY(onnx_make(c, 2, ONNX_UINT8, 0, NULL));
    double scale = onnx_round(ONNX_FLOAT, (high - low) / 255);
    double zero = fmax(0, fmin(255, nearbyint(onnx_round(ONNX_FLOAT, 0 - low / scale))));
    c->out[1].number[0] = scale;
    c->out[2].integer[0] = (int64_t)zero;
    for (int64_t i = 0; i < x->count; i++)
        c->out[0].integer[i] = (int64_t)fmax(
            0, fmin(255, nearbyint(onnx_round(ONNX_FLOAT, x->number[i] / scale)) + zero));
    return EBB_OK;
}

enum { W_HANN, W_HAMMING, W_BLACKMAN };

static enum ebb_status window(struct onnx_call *c)
{
    int64_t n = c->in[0].count == 1 ? c->in[0].integer[0] : -1;
    int type = onnx_attr_type(c->node, "output_datatype", ONNX_FLOAT);
    double span = (double)(onnx_attr_int(c->node, "periodic", 1) ? n : n - 1);
    if (n < 0 || !onnx_type_is_float(type))
        return onnx_no(c, "a length is needed, and a type of fractions");
    EBB_TRY(onnx_make(c, 0, type, 1, &n));
    for (int64_t i = 0; i < n; i++) {
        double a = 2 * 3.14159265358979323846 * (double)i / span;
        onnx_set(&c->out[0], i,
                 c->variant == W_HANN      ? 0.5 - 0.5 * cos(a)
                 : c->variant == W_HAMMING ? 25.0 / 46 - 21.0 / 46 * cos(a)
                                           : 0.42 - 0.5 * cos(a) + 0.08 * cos(2 * a));
    }
    return EBB_OK;
}

static const struct onnx_op rows[] = {
    {"QuantizeLinear", 10, 18, 2, 3, "ffq", 1, quantize, 0},
    {"DequantizeLinear", 10, 18, 2, 3, "ifi", 1, dequantize, 0},
    {"DynamicQuantizeLinear", 11, 0, 1, 1, "f", 3, dynamic, 0},
    {"HannWindow", 17, 0, 1, 1, "i", 1, window, W_HANN},
    {"HammingWindow", 17, 0, 1, 1, "i", 1, window, W_HAMMING},
    {"BlackmanWindow", 17, 0, 1, 1, "i", 1, window, W_BLACKMAN},
};

const struct onnx_ops onnx_quant_ops = {rows, sizeof rows / sizeof *rows};
