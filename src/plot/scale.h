/* scale.h - from numbers to places: ranges, ticks and their labels. Private to this folder; shared
 * by the pictures and the terminal, so that both show the same axes. */
#ifndef EBB_PLOT_SCALE_H
#define EBB_PLOT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

struct plot_scale {
    double min, max; /* min < max; both > 0 when is_log */
    bool is_log;
    bool is_whole; /* of counted things: there is no tick between 1 and 2 */
};

/* Collects finite values (positive ones for a log axis) below 1e150; count 0 = nothing seen. */
struct plot_extent {
    double min, max;
    size_t count;
};

void plot_extent_add(struct plot_extent *e, double value, bool is_log);

/* Range from data: a little air at the ends, zero included when it is near, never empty.
 * wants_zero: the axis of something filled. low/high: the caller's own limits, NaN = automatic.
 * is_snug: end at the data, not at a round number. */
struct plot_scale plot_scale_make(const struct plot_extent *e, bool is_log, bool wants_zero,
                                  bool is_snug, double low, double high);

double plot_scale_place(const struct plot_scale *s,
                        double value); /* 0 at min, 1 at max; NaN if none */

double plot_scale_span(const struct plot_scale *s); /* decades on a log axis */

#define PLOT_TICKS 48
struct plot_tick {
    double at;
    char text[24]; /* "" = a small tick without label */
};

/* About `target` labelled ticks (2 at least where the range allows) in [min, max]; returns how many
 * were written. */
size_t plot_ticks(const struct plot_scale *s, size_t target, struct plot_tick ticks[PLOT_TICKS]);

/* A value for people: three significant digits or a whole number, k/M/G/T from ten thousand on. */
void plot_number(double value, char *buf, size_t size);

#endif
