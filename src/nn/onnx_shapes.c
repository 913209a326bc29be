/* onnx_shapes.c - ops of ONNX that move elements: shapes, parts, places, images made larger. To add one: a row, and
 * its function. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "nn/onnx.h"

/* ---- shapes ----------------------------------------------------------------------------------- */

/* A fold of the shape alone: what the host would make of it. */
static void reshape(struct nn_onnx_build *o)
{
    tensor_id x = nn_onnx_live(o, 0);
    struct ebb_error err;
    struct onnx_value out;
    const struct onnx_value *shape = nn_onnx_host(o, 1);
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, x);
    if (nn_onnx_has(o, 1) && !shape) {
        nn_onnx_fail(o, "a shape that depends on data");
        return;
    }
    enum ebb_status status = nn_onnx_eval_shape(o, &v, shape, &out, &err);
    if (status != EBB_OK) {
        int64_t batch = o->file->exported_batch;
        if (batch > 0)
            nn_onnx_wrong(o,
                          "%s; the file was exported for batches of %" PRId64
                          ": export it with dynamic_axes={'%s': {0: 'batch'}}, or use that batch",
                          err.message, batch, o->g->inputs[0].name);
        else
            nn_onnx_pass(o, status, &err);
        return;
    }
    nn_onnx_set(o, 0, nn_onnx_reshape(o, x, out.rank, out.dims));
}

static void transpose(struct nn_onnx_build *o)
{
    int64_t dims[TENSOR_RANK];
    size_t count;
    tensor_id x = nn_onnx_live(o, 0);
    const int64_t *perm = onnx_attr_ints(o->node, "perm", &count);
    if (!nn_onnx_ok(o))
        return;
    int rank = nn_onnx_view(o, x).rank;
    if (perm && count != (size_t)rank) {
        nn_onnx_wrong(o, "%zu axes for %d dimensions", count, rank);
        return;
    }
    if (perm && !nn_onnx_axes(o, perm, count, rank, dims))
        return;
    for (int d = 0; !perm && d < rank; d++)
        dims[d] = rank - 1 - d;
    nn_onnx_set(o, 0, nn_permute(o->b, x, rank, dims));
}

static void expand(struct nn_onnx_build *o)
{
    const int64_t *want;
    size_t count;
    int64_t dims[TENSOR_RANK];
    tensor_id x = nn_onnx_live(o, 0);
    if (!nn_onnx_ok(o) || !nn_onnx_ints(o, 1, NULL, &want, &count))
        return;
    struct tensor_view v = nn_onnx_view(o, x);
    if (count > TENSOR_RANK) {
        nn_onnx_wrong(o, "%zu dimensions", count);
        return;
    }
    int rank = v.rank > (int)count ? v.rank : (int)count;
    for (int d = 0; d < rank; d++) {
        int a = d - rank + v.rank, b = d - rank + (int)count;
        int64_t have = a < 0 ? 1 : v.dims[a], wanted = b < 0 ? 1 : want[b];
        dims[d] = have == 1 ? wanted : have;
        if (wanted < 1 || (have != 1 && wanted != 1 && have != wanted)) {
            nn_onnx_wrong(o, "size %" PRId64 " to %" PRId64, have, wanted);
            return;
        }
    }
    struct ops_value shape = {"shape", .ints = dims, .count = rank};
    nn_onnx_set(o, 0, nn_call(o->b, "expand", 1, &x, NULL, 1, &shape));
}

static void tile(struct nn_onnx_build *o)
{
    const int64_t *times;
    size_t count;
    tensor_id x = nn_onnx_live(o, 0);
    if (!nn_onnx_ok(o) || !nn_onnx_ints(o, 1, NULL, &times, &count))
        return;
    if (count != nn_onnx_view(o, x).rank) {
        nn_onnx_wrong(o, "%zu repeats for %d dimensions", count, nn_onnx_view(o, x).rank);
        return;
    }
    struct ops_value reps = {"reps", .ints = times, .count = (int)count};
    nn_onnx_set(o, 0, nn_call(o->b, "tile", 1, &x, NULL, 1, &reps));
}

static void concat(struct nn_onnx_build *o)
{
    tensor_id in[TENSOR_PORTS];
    int axis;
    in[0] = TENSOR_NONE;
    if (o->node->in_count > TENSOR_PORTS) {
        nn_onnx_fail(o, "more than %d parts", TENSOR_PORTS);
        return;
    }
    for (size_t i = 0; i < o->node->in_count; i++)
        in[i] = nn_onnx_live(o, i);
    if (nn_onnx_ok(o) &&
        nn_onnx_axis(o, onnx_attr_int(o->node, "axis", 1), nn_onnx_view(o, in[0]).rank, &axis))
        nn_onnx_set(o, 0,
                    o->node->in_count == 1 ? in[0] : nn_cat(o->b, o->node->in_count, in, axis));
}

static void split(struct nn_onnx_build *o)
{
    const int64_t *given;
    int64_t sizes[TENSOR_PORTS];
    size_t count, parts = o->node->out_count;
    tensor_id x = nn_onnx_live(o, 0), out[TENSOR_PORTS];
    int axis;
    if (!nn_onnx_ok(o) || !nn_onnx_ints(o, 1, "split", &given, &count) ||
        !nn_onnx_axis(o, onnx_attr_int(o->node, "axis", 0), nn_onnx_view(o, x).rank, &axis))
        return;
    int64_t size = nn_onnx_view(o, x).dims[axis];
    if (parts > 48 || (given && count != parts) || (!given && size % (int64_t)parts)) {
        nn_onnx_wrong(o, "%" PRId64 " in %zu parts", size, parts);
        return;
    }
    for (size_t i = 0; i < parts; i++) {
        sizes[i] = given ? given[i] : size / (int64_t)parts;
        if (sizes[i] < 1 || sizes[i] > size) {
            nn_onnx_wrong(o, "part %zu of %" PRId64 " has size %" PRId64, i, size, sizes[i]);
            return;
        }
    }
    struct ops_value values[] = {{"sizes", .ints = sizes, .count = (int)parts},
                                 {"dim", .integer = axis}};
    nn_call(o->b, "split", 1, &x, out, 2, values);
    for (size_t i = 0; i < parts && nn_onnx_ok(o); i++)
        nn_onnx_set(o, i, out[i]);
}

/* Elements `indices` of dimension `axis`: a constant of places. */
static tensor_id select(struct nn_onnx_build *o, tensor_id x, int axis, const int64_t *indices,
                        int64_t count)
{
    struct ebb_error err;
    struct onnx_value places;
    enum ebb_status status = onnx_value_ints(&o->eval, 1, indices, count, &places, &err);
    if (status != EBB_OK)
        return nn_onnx_pass(o, status, &err);
    tensor_id in[2] = {x, nn_onnx_constant(o, &places)};
    struct ops_value dim = {"dim", .integer = axis};
    return nn_call(o->b, "index_select", 2, in, NULL, 1, &dim);
}

static int64_t within(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* One dimension; backwards by an index. */
static tensor_id slice_one(struct nn_onnx_build *o, tensor_id x, int axis, int64_t from, int64_t to,
                           int64_t step)
{
    int64_t size = nn_onnx_view(o, x).dims[axis], ranges[4] = {axis}, back[4096];
    if (step == 0 || step < -size || step > INT64_C(1) << 40)
        step = step < 0 ? -size : step;
    from = from < 0 ? from + size : from;
    to = to < 0 && to >= -size ? to + size : to;
    from = step > 0 ? within(from, 0, size) : within(from, -1, size - 1);
    to = step > 0 ? within(to, 0, size) : within(to, -1, size - 1);
    int64_t span = step > 0 ? to - from : from - to, by = step > 0 ? step : -step;
    int64_t count = span <= 0 || by == 0 ? 0 : (span - 1) / by + 1;
    if (count < 1 || (step < 0 && count > 4096))
        return nn_onnx_fail(o, "%" PRId64 " elements are left", count);
    if (step > 0) {
        ranges[1] = from;
        ranges[2] = to;
        ranges[3] = step;
        struct ops_value value = {"ranges", .ints = ranges, .count = 4};
        return count == size ? x : nn_call(o->b, "slice", 1, &x, NULL, 1, &value);
    }
    for (int64_t i = 0; i < count; i++)
        back[i] = from + i * step;
    return select(o, x, axis, back, count);
}

static void slice(struct nn_onnx_build *o)
{
    bool is_old = o->file->onnx->opset < 10;
    const int64_t *starts, *ends, *axes, *steps;
    size_t n, end_count, axis_count, step_count;
    int64_t turned[TENSOR_RANK];
    tensor_id x = nn_onnx_live(o, 0);
    if (!nn_onnx_ok(o) || !nn_onnx_ints(o, 1, is_old ? "starts" : NULL, &starts, &n) ||
        !nn_onnx_ints(o, 2, is_old ? "ends" : NULL, &ends, &end_count) ||
        !nn_onnx_ints(o, 3, is_old ? "axes" : NULL, &axes, &axis_count) ||
        !nn_onnx_ints(o, 4, NULL, &steps, &step_count))
        return;
    int rank = nn_onnx_view(o, x).rank;
    if (!starts || !ends || n != end_count || (axes && axis_count != n) ||
        (steps && step_count != n) || n > (size_t)rank) {
        nn_onnx_wrong(o, "starts, ends, axes and steps are not of one length");
        return;
    }
    if (axes && !nn_onnx_axes(o, axes, n, rank, turned))
        return;
    for (size_t i = 0; i < n && nn_onnx_ok(o); i++)
        x = slice_one(o, x, axes ? (int)turned[i] : (int)i, starts[i], ends[i],
                      steps ? steps[i] : 1);
    nn_onnx_set(o, 0, x);
}

/* ---- places ----------------------------------------------------------------------------------- */

/* Known places: a slice where they are a range, else an index. */
static tensor_id gather_known(struct nn_onnx_build *o, tensor_id x, int axis,
                              const struct onnx_value *index)
{
    struct tensor_view v = nn_onnx_view(o, x);
    int64_t dims[2 * TENSOR_RANK], *places;
    int rank = 0;
    bool is_range = true;
    places = ebb_arena_calloc(&o->arena, (size_t)index->count + 1, sizeof *places);
    if (!places || index->count < 1)
        return nn_onnx_fail(o, "no places, or no memory for them");
    for (int64_t i = 0; i < index->count; i++) {
        places[i] = index->integer[i] < 0 ? index->integer[i] + v.dims[axis] : index->integer[i];
        if (places[i] < 0 || places[i] >= v.dims[axis])
            return nn_onnx_wrong(o, "place %" PRId64 " of %" PRId64, index->integer[i],
                                 v.dims[axis]);
        is_range &= places[i] == places[0] + i;
    }
    for (int d = 0; d < v.rank; d++) {
        if (d != axis)
            dims[rank++] = v.dims[d];
        for (int k = 0; d == axis && k < index->rank; k++)
            dims[rank++] = index->dims[k];
    }
    if (rank > TENSOR_RANK)
        return nn_onnx_fail(o, "%d dimensions", rank);
    x = is_range ? slice_one(o, x, axis, places[0], places[0] + index->count, 1)
                 : select(o, x, axis, places, index->count);
    return nn_onnx_ok(o) ? nn_onnx_reshape(o, x, rank, dims) : x;
}

static void gather(struct nn_onnx_build *o)
{
    tensor_id x = nn_onnx_live(o, 0);
    int axis;
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, x);
    if (!nn_onnx_axis(o, onnx_attr_int(o->node, "axis", 0), v.rank, &axis))
        return;
    const struct onnx_value *known = nn_onnx_host(o, 1);
    if (known) {
        nn_onnx_set(o, 0, gather_known(o, x, axis, known));
        return;
    }
    tensor_id index = nn_onnx_live(o, 1);
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view p = nn_onnx_view(o, index);
    if (axis == 0 && v.rank == 2 && nn_onnx_is_float(o, x)) {
        nn_onnx_set(o, 0, nn_low(o->b, nn_onnx_op(o, "embedding", 2, (tensor_id[]){index, x})));
        return;
    }
    int64_t count = tensor_count(&p), dims[2 * TENSOR_RANK];
    int rank = 0;
    for (int d = 0; d < v.rank; d++) {
        if (d != axis)
            dims[rank++] = v.dims[d];
        for (int k = 0; d == axis && k < p.rank; k++)
            dims[rank++] = p.dims[k];
    }
    if (rank > TENSOR_RANK) {
        nn_onnx_fail(o, "%d dimensions", rank);
        return;
    }
    struct ops_value dim = {"dim", .integer = axis};
    tensor_id in[2] = {x, nn_onnx_reshape(o, index, 1, &count)};
    tensor_id y = nn_call(o->b, "index_select", 2, in, NULL, 1, &dim);
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0, nn_onnx_reshape(o, y, rank, dims));
}

static void gather_elements(struct nn_onnx_build *o)
{
    tensor_id in[2] = {nn_onnx_take(o, 0), nn_onnx_live(o, 1)};
    int axis;
    if (!nn_onnx_ok(o) ||
        !nn_onnx_axis(o, onnx_attr_int(o->node, "axis", 0), nn_onnx_view(o, in[0]).rank, &axis))
        return;
    struct ops_value dim = {"dim", .integer = axis};
    nn_onnx_set(o, 0, nn_call(o->b, "gather", 2, in, NULL, 1, &dim));
}

static void pad(struct nn_onnx_build *o)
{
    const int64_t *pads;
    int64_t turned[2 * TENSOR_RANK];
    size_t count;
    double value = onnx_attr_number(o->node, "value", 0);
    tensor_id x = nn_onnx_take(o, 0);
    if (!nn_onnx_ok(o) || !nn_onnx_ints(o, 1, "pads", &pads, &count))
        return;
    int rank = nn_onnx_view(o, x).rank;
    if (nn_onnx_has(o, 2) && !nn_onnx_scalar(o, o->node->in[2], &value)) {
        nn_onnx_fail(o, "a value that depends on data");
        return;
    }
    if (!pads || count != 2 * (size_t)rank ||
        strcmp(onnx_attr_text(o->node, "mode", "constant"), "constant") != 0) {
        nn_onnx_fail(o, "mode '%s', or pads that do not fit",
                     onnx_attr_text(o->node, "mode", "constant"));
        return;
    }
    int n = 0;
    for (int d = rank - 1; d >= 0; d--) { /* the last dimension first */
        turned[n++] = pads[d];
        turned[n++] = pads[rank + d];
    }
    while (n > 2 && turned[n - 1] == 0 && turned[n - 2] == 0)
        n -= 2;
    struct ops_value values[] = {{"pad", .ints = turned, .count = n}, {"value", .number = value}};
    nn_onnx_set(o, 0, nn_call(o->b, "pad", 1, &x, NULL, 2, values));
}

/* [n, c, h, w] in blocks: as six dimensions, turned. */
static void blocks(struct nn_onnx_build *o)
{
    int64_t b = onnx_attr_int(o->node, "blocksize", 1);
    bool to_depth = *o->node->op == 'S';
    bool is_crd = strcmp(onnx_attr_text(o->node, "mode", "DCR"), "CRD") == 0;
    tensor_id x = nn_onnx_take(o, 0);
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, x);
    if (v.rank != 4 || b < 1 || b > ONNX_BLOCK ||
        (to_depth ? v.dims[2] % b || v.dims[3] % b : v.dims[1] % (b * b))) {
        nn_onnx_wrong(o, "blocks of %" PRId64, b);
        return;
    }
    int64_t n = v.dims[0], c = v.dims[1], h = v.dims[2], w = v.dims[3];
    if (to_depth) {
        x = nn_onnx_reshape(o, x, 6, (int64_t[]){n, c, h / b, b, w / b, b});
        x = nn_permute(o->b, x, 6, (int64_t[]){0, 3, 5, 1, 2, 4});
        x = nn_onnx_reshape(o, x, 4, (int64_t[]){n, c * b * b, h / b, w / b});
    } else {
        int64_t k = c / (b * b);
        x = nn_onnx_reshape(o, x, 6,
                            is_crd ? (int64_t[]){n, k, b, b, h, w} : (int64_t[]){n, b, b, k, h, w});
        x = nn_permute(o->b, x, 6,
                       is_crd ? (int64_t[]){0, 1, 4, 2, 5, 3} : (int64_t[]){0, 3, 4, 1, 5, 2});
        x = nn_onnx_reshape(o, x, 4, (int64_t[]){n, k, h * b, w * b});
    }
    nn_onnx_set(o, 0, x);
}

static void resize(struct nn_onnx_build *o)
{
    const char *mode = onnx_attr_text(o->node, "mode", "nearest");
    const char *how = onnx_attr_text(o->node, "coordinate_transformation_mode", "half_pixel");
    const char *nearest = onnx_attr_text(o->node, "nearest_mode", "round_prefer_floor");
    bool is_old = o->file->onnx->opset < 11, is_linear = strcmp(mode, "linear") == 0;
    bool is_corners = strcmp(how, "align_corners") == 0, is_nearest = strcmp(mode, "nearest") == 0;
    tensor_id x = nn_onnx_take(o, 0);
    const struct onnx_value *scales = nn_onnx_host(o, is_old ? 1 : 2);
    const struct onnx_value *sizes = is_old ? NULL : nn_onnx_host(o, 3);
    int64_t out[2];
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, x);
    bool is_half = strcmp(how, "half_pixel") == 0 || strcmp(how, "pytorch_half_pixel") == 0;
    bool is_known = is_linear ? !is_old && (is_corners || is_half)
                              : is_nearest && (is_old || (strcmp(how, "asymmetric") == 0 &&
                                                          strcmp(nearest, "floor") == 0));
    bool by_size = sizes && sizes->count == v.rank, by_scale = scales && scales->count == v.rank;
    if (v.rank != 4 || !is_known || (!by_size && !by_scale)) {
        nn_onnx_fail(o,
                     "mode '%s', '%s', '%s' on %d dimensions: only torch's nearest (asymmetric, "
                     "floor) and linear (half_pixel, align_corners) of images",
                     mode, how, nearest, v.rank);
        return;
    }
    for (int d = 0; d < 4; d++) {
        double by = by_size ? 1 : scales->number[d];
        double size = by_size ? (double)sizes->integer[d] : floor((double)v.dims[d] * by);
        if (!(size >= 1 && size < 0x1p24) ||
            (d < 2 && (size < (double)v.dims[d] || size > (double)v.dims[d]))) {
            nn_onnx_wrong(o, "dimension %d becomes %g", d, size);
            return;
        }
        if (!by_size && !onnx_resize_fits(is_old ? "asymmetric" : how, is_nearest, by, v.dims[d],
                                          (int64_t)size)) {
            nn_onnx_fail(o,
                         "scale %g of size %" PRId64 " is no whole size: export with sizes "
                         "(interpolate(size=...), or recompute_scale_factor=True)",
                         by, v.dims[d]);
            return;
        }
        if (d >= 2)
            out[d - 2] = (int64_t)size;
    }
    struct ops_value values[] = {{"size", .ints = out, .count = 2},
                                 {"align_corners", .integer = is_corners}};
    nn_onnx_set(o, 0,
                nn_call(o->b, is_linear ? "upsample_bilinear2d" : "upsample_nearest2d", 1, &x, NULL,
                        is_linear ? 2 : 1, values));
}

/* ---- rows ------------------------------------------------------------------------------------- */

const struct nn_onnx_row nn_onnx_shape_rows[] = {
    {"Reshape", reshape, NULL},
    {"Flatten", reshape, NULL},
    {"Squeeze", reshape, NULL},
    {"Unsqueeze", reshape, NULL},
    {"Transpose", transpose, NULL},
    {"Expand", expand, NULL},
    {"Tile", tile, NULL},
    {"Concat", concat, NULL},
    {"Split", split, NULL},
    {"Slice", slice, NULL},
    {"Gather", gather, NULL},
    {"GatherElements", gather_elements, NULL},
    {"Pad", pad, NULL},
    {"DepthToSpace", blocks, NULL},
    {"SpaceToDepth", blocks, NULL},
    {"Resize", resize, NULL},
    {NULL, NULL, NULL},
};
