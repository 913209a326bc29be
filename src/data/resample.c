/* resample.c - scaling of pictures, bit for bit as Pillow's resize(BILINEAR). */
#include "data/image.h"

#include <math.h>
#include <string.h>

enum { BITS = 32 - 8 - 2 };

static double triangle(double x)
{
    x = x < 0 ? -x : x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Taps for out pixels start..start+n of an axis scaled from `in` to `out` pixels. */
static enum ebb_status taps_init(struct data_taps *t, int64_t in, int64_t out, int64_t start,
                                 int64_t n, struct data_scratch *scratch, struct ebb_error *err)
{
    double scale = (double)in / (double)out, filter = scale < 1.0 ? 1.0 : scale;
    double support = filter, inverse = 1.0 / filter;
    t->n = n;
    t->most = (int64_t)ceil(support) * 2 + 1;
    size_t weights = (size_t)n * (size_t)t->most;
    double *exact;
    EBB_TRY(data_scratch_take(scratch, (size_t)n * sizeof *t->first, &t->first, err));
    EBB_TRY(data_scratch_take(scratch, (size_t)n * sizeof *t->count, &t->count, err));
    EBB_TRY(data_scratch_take(scratch, weights * sizeof *t->weights, &t->weights, err));
    EBB_TRY(data_scratch_take(scratch, (size_t)t->most * sizeof *exact, &exact, err));
    for (int64_t i = 0; i < n; i++) {
        double center = ((double)(start + i) + 0.5) * scale, sum = 0;
        int64_t low = (int64_t)(center - support + 0.5), high = (int64_t)(center + support + 0.5);
        low = low < 0 ? 0 : low;
        high = high > in ? in : high;
        int64_t count = high - low;
        count = count > t->most ? t->most : count;
        for (int64_t k = 0; k < count; k++) {
            exact[k] = triangle(((double)(k + low) - center + 0.5) * inverse);
            sum += exact[k];
        }
        for (int64_t k = 0; k < count; k++) {
            double w = sum != 0.0 ? exact[k] / sum : exact[k];
            t->weights[i * t->most + k] = (int32_t)(0.5 + w * (1 << BITS));
        }
        t->first[i] = low;
        t->count[i] = (int32_t)count;
    }
    return EBB_OK;
}

enum ebb_status data_resampler_init(struct data_resampler *r, const struct data_resample_plan *plan,
                                    struct data_scratch *scratch, struct ebb_error *err)
{
    r->plan = *plan;
    r->next_row = 0;
    EBB_TRY(taps_init(&r->across, plan->width, plan->out_width, plan->left, plan->keep_w, scratch,
                      err));
    EBB_TRY(
        taps_init(&r->down, plan->height, plan->out_height, plan->top, plan->keep_h, scratch, err));
    size_t row = (size_t)plan->keep_w * 3;
    EBB_TRY(data_scratch_take(scratch, row * (size_t)r->down.most, &r->ring, err));
    EBB_TRY(data_scratch_take(scratch, row, &r->out, err));
    return data_scratch_take(scratch, row * sizeof *r->sums, &r->sums, err);
}

static uint8_t clip(int32_t sum)
{
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void across_row(const struct data_resampler *r, const uint8_t *rgb, uint8_t *out)
{
    const struct data_taps *t = &r->across;
    const uint8_t *start = rgb + 3 * r->plan.x;
    for (int64_t i = 0; i < t->n; i++) {
        const uint8_t *p = start + 3 * t->first[i];
        const int32_t *w = t->weights + i * t->most;
        int32_t a = 1 << (BITS - 1), b = a, c = a;
        for (int32_t k = 0; k < t->count[i]; k++, p += 3) {
            a += p[0] * w[k];
            b += p[1] * w[k];
            c += p[2] * w[k];
        }
        out[3 * i] = clip(a);
        out[3 * i + 1] = clip(b);
        out[3 * i + 2] = clip(c);
    }
}

/* Row by row of the ring, so that the inner loop runs over neighbours. */
static void down_row(const struct data_resampler *r, int64_t i)
{
    const struct data_taps *t = &r->down;
    size_t bytes = (size_t)r->plan.keep_w * 3;
    const int32_t *w = t->weights + i * t->most;
    for (size_t x = 0; x < bytes; x++)
        r->sums[x] = 1 << (BITS - 1);
    for (int32_t k = 0; k < t->count[i]; k++) {
        const uint8_t *row = r->ring + (size_t)((t->first[i] + k) % t->most) * bytes;
        int32_t weight = w[k];
        for (size_t x = 0; x < bytes; x++)
            r->sums[x] += row[x] * weight;
    }
    for (size_t x = 0; x < bytes; x++)
        r->out[x] = clip(r->sums[x]);
}

bool data_resampler_row(struct data_resampler *r, int64_t y, const uint8_t *rgb)
{
    const struct data_taps *t = &r->down;
    int64_t at = y - r->plan.y;
    if (r->next_row == t->n)
        return true;
    if (at < t->first[r->next_row])
        return false; /* no later row of the window starts before */
    size_t bytes = (size_t)r->plan.keep_w * 3;
    across_row(r, rgb, r->ring + (size_t)(at % t->most) * bytes);
    while (r->next_row < t->n && t->first[r->next_row] + t->count[r->next_row] - 1 <= at) {
        down_row(r, r->next_row);
        r->emit(r->context, r->next_row, r->out);
        r->next_row++;
    }
    return r->next_row == t->n;
}
