/* mixup.c - every training sample blended with another one of its split.
 *
 * Of sample i in an epoch, partner j and share s are drawn from (seed, i, epoch) alone (rule D1); s is
 * Beta(mixup, mixup). The input becomes s x_i + (1 - s) x_j, as do targets that are numbers. Classes
 * cannot be blended: the partner's and s are two fields more, for the loss. */
#include <math.h>
#include <string.h>

#include "data/internal.h"

/* Gamma(a) by Marsaglia and Tsang; below 1 by that of a + 1, as its logarithm: it may be tiny. */
static double log_gamma_draw(struct data_random *r, double a)
{
    double small = 0;
    if (a < 1) {
        small = log(1.0 - data_random_unit(r)) / a;
        a += 1;
    }
    double d = a - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = data_random_normal(r), v = 1 + c * x, u = 1.0 - data_random_unit(r);
        v = v * v * v;
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + small;
    }
}

double data_beta(struct data_random *r, double a)
{
    double x = log_gamma_draw(r, a), y = log_gamma_draw(r, a);
    return 1 / (1 + exp(y - x));
}

enum ebb_status data_mixup_open(struct data_set *set, double mixup, struct ebb_error *err)
{
    struct data_info *info = &set->info;
    bool has_classes = info->kind == DATA_CLASSES && info->field_count == 2;
    bool has_numbers = info->kind == DATA_NUMBERS && info->field_count == 2;
    if (!(mixup > 0))
        return EBB_OK;
    if (!has_classes && !has_numbers)
        return ebb_fail(
            err, EBB_EINPUT,
            "data.mixup: samples of %s are %s; allowed: classes or numbers for an input",
            info->name, data_kind_text(info->kind));
    if (info->fields[0].dtype != DATA_F32)
        return ebb_fail(err, EBB_EINPUT,
                        "data.mixup: the input is %s, which cannot be blended; allowed: f32 "
                        "(image_dtype)",
                        data_dtype_text(info->fields[0].dtype));
    set->mixup = mixup;
    info->is_augmented = true;
    /* of the partner: its input and, of numbers, its target */
    set->mixup_bytes = (info->fields[0].bytes + info->fields[1].bytes + 63) & ~(size_t)15;
    info->scratch_bytes += set->mixup_bytes;
    if (!has_classes)
        return EBB_OK;
    info->mixup_field = info->field_count;
    data_add_field(info, "mixup_label", DATA_I64, 0, NULL);
    data_add_field(info, "mixup_share", DATA_F32, 0, NULL);
    return EBB_OK;
}

static void blend(float *to, const float *other, size_t bytes, float share)
{
    for (size_t i = 0; i < bytes / sizeof *to; i++)
        to[i] = share * to[i] + (1 - share) * other[i];
}

/* A validation sample is its own partner. */
static void stay(const struct data_request *q)
{
    if (q->set->info.kind != DATA_CLASSES)
        return;
    if (q->fields[2] && q->fields[1])
        memcpy(q->fields[2], q->fields[1], sizeof(int64_t));
    if (q->fields[3])
        *(float *)q->fields[3] = 1;
}

static enum ebb_status mix(const struct data_request *q, uint8_t *room, uint64_t partner,
                           float share, struct ebb_error *err)
{
    const struct data_info *info = &q->set->info;
    bool has_classes = info->kind == DATA_CLASSES;
    int64_t label = 0;
    void *fields[DATA_MAX_FIELDS] = {q->fields[0] ? room : NULL,
                                     has_classes ? (void *)&label : room + info->fields[0].bytes};
    struct data_request other = *q;
    other.index = partner;
    other.fields = fields;
    q->scratch->used = 0;
    EBB_TRY(q->set->read(&other, err));
    if (q->fields[0])
        blend(q->fields[0], fields[0], info->fields[0].bytes, share);
    if (!has_classes && q->fields[1])
        blend(q->fields[1], fields[1], info->fields[1].bytes, share);
    if (has_classes && q->fields[2])
        memcpy(q->fields[2], &label, sizeof label);
    if (has_classes && q->fields[3])
        *(float *)q->fields[3] = share;
    return EBB_OK;
}

/* The room of the partner lies at the end of the scratch, out of the decoders' sight. */
enum ebb_status data_mixup_read(const struct data_request *q, struct ebb_error *err)
{
    const struct data_set *set = q->set;
    struct data_scratch inner = {.memory = q->scratch->memory,
                                 .bytes = q->scratch->bytes - set->mixup_bytes};
    struct data_request request = *q;
    request.scratch = &inner;
    EBB_TRY(set->read(&request, err));
    if (q->split != DATA_TRAIN) {
        stay(q);
        return EBB_OK;
    }
    struct data_random r;
    data_random_init(&r, q->seed, q->index, (uint32_t)q->epoch, DATA_STREAM_MIXUP);
    uint64_t partner = data_random_below(&r, set->info.count[DATA_TRAIN]);
    if (set->subset[DATA_TRAIN])
        partner = set->subset[DATA_TRAIN][partner];
    uint8_t *room = inner.memory + ((inner.bytes + 15) & ~(size_t)15);
    return mix(&request, room, partner, (float)data_beta(&r, set->mixup), err);
}
