/* ports.c - which field of the data set each input and target of the model is.
 *
 * By name first; then the first unmatched input is field 0 and the first unmatched target field 1.
 * Sizes per sample must agree; bytes of images become floats from 0 to 1. */
#include "train/ports.h"

#include <string.h>

#include "base/thread.h"

static const char *const twins[][4] = {
    {"tokens", "input_ids", "ids", "words"},
    {"targets", "target", "labels", "label"},
    {"attention", "mask", "attention_mask", "input_mask"},
    {"segments", "segment_ids", "token_type_ids", "types"},
    {"next_sentence", "next_sentence_labels", "nsp", "nsp_labels"},
};

static bool same_name(const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return true;
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        bool has_a = false, has_b = false;
        for (size_t k = 0; k < 4; k++) {
            has_a |= strcmp(twins[i][k], a) == 0;
            has_b |= strcmp(twins[i][k], b) == 0;
        }
        if (has_a && has_b)
            return true;
    }
    return false;
}

static int64_t field_count(const struct data_field *f)
{
    return (int64_t)(f->bytes / data_dtype_bytes(f->dtype));
}

/* As many dimensions, apart from those of one, but of other sizes: the numbers stand in another
 * order (height, width, channels). Fewer or more are joined or taken apart. */
static bool is_reordered(const struct nn_port *port, int64_t batch, const struct data_field *f)
{
    int64_t want[TENSOR_RANK], have[DATA_MAX_RANK];
    int wants = 0, has = 0;
    if (port->view.rank < 1 || port->view.dims[0] != batch)
        return false;
    for (int d = 1; d < port->view.rank; d++)
        if (port->view.dims[d] != 1)
            want[wants++] = port->view.dims[d];
    for (int d = 0; d < f->rank; d++)
        if (f->dims[d] != 1)
            have[has++] = f->dims[d];
    return wants == has && memcmp(want, have, (size_t)has * sizeof *have) != 0;
}

static bool port_fits(const struct nn_port *port, int64_t batch, const struct data_field *f)
{
    int64_t count = tensor_count(&port->view);
    if (count != batch * field_count(f) || is_reordered(port, batch, f))
        return false;
    if (port->view.dtype == TENSOR_F32)
        return f->dtype == DATA_F32 || f->dtype == DATA_U8;
    if (port->view.dtype == TENSOR_U8)
        return f->dtype == DATA_U8;
    return port->view.dtype == TENSOR_I64 && f->dtype == DATA_I64;
}

static enum ebb_status mismatch(const struct nn_port *port, int64_t batch,
                                const struct data_info *info, int field, struct ebb_error *err)
{
    char shape[96];
    bool is_whole = port->view.dtype == TENSOR_I64;
    tensor_shape_text(&port->view, shape, sizeof shape);
    if (field < 0)
        return ebb_fail(err, EBB_EINPUT, "data %s has nothing for the model's '%s' %s", info->name,
                        port->name, shape);
    const struct data_field *f = &info->fields[field];
    if (is_reordered(port, batch, f) && tensor_count(&port->view) == batch * field_count(f)) {
        struct tensor_view have;
        char found[96];
        tensor_view_init(&have, TENSOR_F32, f->rank, f->dims);
        return ebb_fail(err, EBB_EINPUT,
                        "data %s: a sample's '%s' is %s, the model wants '%s' %s for a batch of "
                        "%lld: the same numbers in another order; store them as the model wants "
                        "them (numpy.transpose), or permute them in the model",
                        info->name, f->name, tensor_shape_text(&have, found, sizeof found),
                        port->name, shape, (long long)batch);
    }
    return ebb_fail(err, EBB_EINPUT,
                    "data %s: a sample's '%s' has %lld values (%s), the model wants '%s' %s for a "
                    "batch of %lld%s",
                    info->name, f->name, (long long)field_count(f), data_dtype_text(f->dtype),
                    port->name, shape, (long long)batch,
                    is_whole && f->dtype == DATA_F32
                        ? ": whole numbers, as classes and tokens are; store them as integers"
                    : port->view.dtype == TENSOR_F32 && f->dtype == DATA_I64
                        ? ": fractions; store them as floats (of a table data.target_kind: numbers)"
                        : "");
}

struct matching {
    const struct data_info *info;
    int64_t batch;
    bool is_used[DATA_MAX_FIELDS];
};

static int find_named(const struct matching *m, const struct nn_port *port)
{
    for (size_t f = 0; f < m->info->field_count; f++)
        if (!m->is_used[f] && same_name(m->info->fields[f].name, port->name))
            return (int)f;
    return -1;
}

static int find_fitting(const struct matching *m, const struct nn_port *port, size_t first)
{
    for (size_t f = first; f < m->info->field_count; f++)
        if (!m->is_used[f] && port_fits(port, m->batch, &m->info->fields[f]))
            return (int)f;
    return first < m->info->field_count && !m->is_used[first] ? (int)first : -1;
}

static bool wants_data(const struct nn_port *port)
{
    return !port->is_generated && port->kind != NN_STATE && port->kind != NN_SCALARS;
}

static enum ebb_status match(struct matching *m, const struct nn_port *ports, size_t count,
                             size_t first, int *fields, struct ebb_error *err)
{
    for (size_t i = 0; i < count; i++) {
        fields[i] = wants_data(&ports[i]) ? find_named(m, &ports[i]) : -1;
        if (fields[i] >= 0 && !port_fits(&ports[i], m->batch, &m->info->fields[fields[i]]))
            fields[i] = -1; /* the name says one thing, the size another */
        if (fields[i] >= 0)
            m->is_used[fields[i]] = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (!wants_data(&ports[i]) || fields[i] >= 0)
            continue;
        fields[i] = find_fitting(m, &ports[i], first);
        if (fields[i] < 0 || !port_fits(&ports[i], m->batch, &m->info->fields[fields[i]]))
            return mismatch(&ports[i], m->batch, m->info, fields[i], err);
        m->is_used[fields[i]] = true;
    }
    return EBB_OK;
}

bool train_ports_want_data(const struct train_step *step)
{
    bool any = false;
    for (size_t i = 0; i < step->input_count; i++)
        any |= wants_data(&step->inputs[i]);
    for (size_t i = 0; i < step->target_count; i++)
        any |= wants_data(&step->targets[i]);
    return any;
}

enum ebb_status train_ports_match(const struct train_step *step, const struct data_info *info,
                                  int inputs[NN_PORTS], int targets[NN_PORTS],
                                  struct ebb_error *err)
{
    struct matching m = {.info = info, .batch = step->batch};
    EBB_TRY(match(&m, step->inputs, step->input_count, 0, inputs, err));
    return match(&m, step->targets, step->target_count, info->field_count > 1 ? 1 : 0, targets,
                 err);
}

#define PIECE (UINT64_C(1) << 22) /* more than so many bytes are copied by several threads */

struct filling {
    bool is_widened; /* from bytes to numbers: targets, the step makes those of inputs itself */
    const unsigned char *from;
    unsigned char *to;
    uint64_t bytes; /* of `to` */
};

static void fill_piece(void *context, size_t i)
{
    const struct filling *f = context;
    uint64_t at = i * PIECE, n = f->bytes - at < PIECE ? f->bytes - at : PIECE;
    if (!f->is_widened) {
        memcpy(f->to + at, f->from + at, n);
        return;
    }
    const unsigned char *in = f->from + at / sizeof(float);
    float *out = (float *)(void *)(f->to + at);
    for (uint64_t k = 0; k < n / sizeof *out; k++)
        out[k] = (float)in[k] / 255.0f;
}

void train_port_fill(const struct nn_port *port, const struct data_field *f, const void *from,
                     void *to, uint64_t bytes, int threads)
{
    struct filling fill = {.is_widened = port->view.dtype == TENSOR_F32 && f->dtype == DATA_U8,
                           .from = from,
                           .to = to,
                           .bytes = bytes};
    (void)ebb_parallel(threads, (size_t)((bytes + PIECE - 1) / PIECE), fill_piece, &fill, NULL);
}
