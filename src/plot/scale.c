/* scale.c - see scale.h. All arithmetic is in double and depends on the data alone. */
#include "plot/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Beyond these, differences and ratios leave the range of double; no chart needs them. */
#define HUGEST 1e150
#define TINIEST 1e-150 /* on a log axis */

static bool is_usable(double value, bool is_log)
{
    return fabs(value) <= HUGEST && (!is_log || value >= TINIEST); /* false for NaN */
}

void plot_extent_add(struct plot_extent *e, double value, bool is_log)
{
    if (!is_usable(value, is_log))
        return;
    if (e->count == 0 || value < e->min)
        e->min = value;
    if (e->count == 0 || value > e->max)
        e->max = value;
    e->count++;
}

/* 1, 2 or 5 times a power of ten, the nearest to `raw` by ratio. */
static double nice_step(double raw)
{
    double power = pow(10, floor(log10(raw))), part = raw / power;
    return power * (part < 1.42 ? 1 : part < 3.17 ? 2 : part < 7.08 ? 5 : 10);
}

static struct plot_scale log_range(const struct plot_extent *e, double low, double high)
{
    struct plot_scale s = {.min = 1, .max = 10, .is_log = true};
    if (e->count > 0) {
        double air = pow(e->max / e->min, 0.03);
        air = air < 1.02 ? 1.02 : air;
        s.min = e->min / air;
        s.max = e->max * air;
    }
    if (is_usable(low, true))
        s.min = low;
    if (is_usable(high, true))
        s.max = high;
    if (!(s.min < s.max) || s.min <= 0 || !isfinite(s.max)) {
        s.min = s.max > 0 && isfinite(s.max) ? s.max / 10 : 1;
        s.max = s.min * 100;
    }
    return s;
}

static struct plot_scale linear_range(const struct plot_extent *e, bool wants_zero, bool is_snug)
{
    struct plot_scale s = {.min = 0, .max = 1};
    if (e->count == 0)
        return s;
    s.min = e->min;
    s.max = e->max;
    double span = s.max - s.min;
    bool near_zero = s.min >= 0 && s.min <= 0.15 * s.max;
    if (wants_zero || (near_zero && !is_snug)) {
        s.min = s.min > 0 ? 0 : s.min;
        s.max = s.max < 0 ? 0 : s.max;
        span = s.max - s.min;
    }
    if (!(span > 0)) { /* one value: centre it */
        double half = s.min != 0 ? 0.5 * fabs(s.min) : 1;
        s.min -= half;
        s.max += half;
        return s;
    }
    if (is_snug) {
        s.min -= 0.02 * span;
        s.max += 0.02 * span;
        return s;
    }
    double step = nice_step(span / 6);
    double low = floor(s.min / step) * step, high = ceil(s.max / step) * step;
    /* a point that would sit on the frame gets the air of a third of a step */
    s.min = s.min != 0 && s.min - low < 0.04 * span ? low - step / 3 : low;
    s.max = s.max != 0 && high - s.max < 0.04 * span ? high + step / 3 : high;
    return s;
}

struct plot_scale plot_scale_make(const struct plot_extent *e, bool is_log, bool wants_zero,
                                  bool is_snug, double low, double high)
{
    if (is_log)
        return log_range(e, low, high);
    struct plot_scale s = linear_range(e, wants_zero, is_snug);
    if (is_usable(low, false))
        s.min = low;
    if (is_usable(high, false))
        s.max = high;
    if (!(s.min < s.max)) { /* the caller's limit lies beyond the data */
        double some = fabs(s.min) > 1 ? fabs(s.min) : 1;
        if (isfinite(high) && !isfinite(low))
            s.min = s.max - some;
        else
            s.max = s.min + some;
    }
    return s;
}

double plot_scale_place(const struct plot_scale *s, double value)
{
    if (!is_usable(value, s->is_log))
        return NAN;
    if (s->is_log)
        return log(value / s->min) / log(s->max / s->min);
    return (value - s->min) / (s->max - s->min);
}

double plot_scale_span(const struct plot_scale *s)
{
    return s->is_log ? log10(s->max / s->min) : s->max - s->min;
}

/* ---- labels ------------------------------------------------------------------------------- */

static const char *const suffixes[] = {"", "k", "M", "G", "T", "P"};

/* Thousands power for an axis whose largest number is `top`: 0 below ten thousand. */
static int thousands(double top)
{
    if (!(top >= 1e4))
        return 0;
    return top >= 1e15 ? 5 : (int)floor(log10(top) / 3 + 1e-9);
}

static void label(double value, double step, int k, char *buf, size_t size)
{
    double unit = pow(1000, k);
    int decimals = (int)ceil(-log10(step / unit) - 1e-9);
    decimals = decimals < 0 ? 0 : decimals;
    if (decimals > 6 || fabs(value / unit) >= 1e7) {
        snprintf(buf, size, "%.3g", value);
        return;
    }
    if (fabs(value) < step * 1e-6)
        value = 0; /* no "-0.0" */
    snprintf(buf, size, "%.*f%s", decimals, value / unit, value != 0 ? suffixes[k] : "");
}

void plot_number(double value, char *buf, size_t size)
{
    double a = fabs(value);
    int k = thousands(a);
    if (!isfinite(value))
        snprintf(buf, size, "-");
    else if (a != 0 && (a < 1e-3 || a >= 1e18))
        snprintf(buf, size, "%.2e", value);
    else if (k > 0)
        snprintf(buf, size, "%.3g%s", value / pow(1000, k), suffixes[k]);
    else
        snprintf(buf, size, "%.*f",
                 value == floor(value) || a >= 100 ? 0
                 : a >= 10                         ? 1
                 : a >= 1                          ? 2
                                                   : 3,
                 value);
}

/* ---- ticks -------------------------------------------------------------------------------- */

static size_t linear_ticks(const struct plot_scale *s, size_t target,
                           struct plot_tick ticks[PLOT_TICKS])
{
    double span = s->max - s->min, step = nice_step(span / (double)(target > 0 ? target : 1));
    step = s->is_whole && step < 1 ? 1 : step;
    double first = ceil(s->min / step - 1e-9), last = floor(s->max / step + 1e-9);
    double top = fabs(s->min) > fabs(s->max) ? fabs(s->min) : fabs(s->max);
    int k = thousands(top);
    size_t count = 0;
    for (; count < PLOT_TICKS && first + (double)count <= last; count++) {
        ticks[count].at = (first + (double)count) * step;
        label(ticks[count].at, step, k, ticks[count].text, sizeof ticks[count].text);
    }
    return count;
}

static void log_label(double value, char *buf, size_t size)
{
    double a = fabs(value);
    if (a < 0.99e-3)
        snprintf(buf, size, "%.0e", value);
    else if (a < 1e4)
        snprintf(buf, size, "%.10g", value);
    else
        plot_number(value, buf, size);
}

size_t plot_ticks(const struct plot_scale *s, size_t target, struct plot_tick ticks[PLOT_TICKS])
{
    if (!s->is_log)
        return linear_ticks(s, target, ticks);
    double decades = log10(s->max / s->min);
    if (decades < 0.7) /* too short for powers: round numbers on the same axis */
        return linear_ticks(s, target, ticks);
    int low = (int)floor(log10(s->min)), high = (int)ceil(log10(s->max));
    int stride = target > 0 ? (int)floor(decades / (double)target + 0.5) : 1;
    stride = stride < 1 ? 1 : stride;
    bool label_2_5 = decades * 3 < 1.5 * (double)target + 1;
    size_t count = 0;
    for (int power = low; power <= high; power++) {
        for (int digit = 1; digit <= 9 && count < PLOT_TICKS; digit++) {
            double at = digit * pow(10, power);
            bool is_labelled =
                digit == 1 ? power % stride == 0 : label_2_5 && (digit == 2 || digit == 5);
            bool is_shown = digit == 1 || decades <= 4;
            if (!is_shown || at < s->min * (1 - 1e-9) || at > s->max * (1 + 1e-9))
                continue;
            ticks[count].at = at;
            ticks[count].text[0] = '\0';
            if (is_labelled)
                log_label(at, ticks[count].text, sizeof ticks[count].text);
            count++;
        }
    }
    return count;
}
