/* stats.c - means, medians and bootstrap intervals of repetitions. */
#include "harness/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/rng.h"

#define SEED UINT64_C(0x9e3779b97f4a7c15) /* S2: the same resamples for the same values */
#define LOW 0.025
#define HIGH 0.975

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted values; between two it is interpolated. */
static double quantile(const double *sorted, size_t count, double part)
{
    double at = part * (double)(count - 1);
    size_t below = (size_t)at;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* The value at place `rank` of a resample: times[i] says how often sorted value i was drawn. */
static double drawn(const double *sorted, const uint32_t *times, size_t count, size_t rank)
{
    size_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        seen += times[i];
        if (seen > rank)
            return sorted[i];
    }
    return sorted[count - 1];
}

static void resample(const double *sorted, uint32_t *times, size_t count, uint64_t *state,
                     double *mean, double *median)
{
    double sum = 0;
    memset(times, 0, count * sizeof *times);
    for (size_t i = 0; i < count; i++) {
        size_t k = (size_t)((ebb_splitmix64(state) >> 32) * (uint64_t)count >> 32);
        times[k]++;
        sum += sorted[k];
    }
    *mean = sum / (double)count;
    *median =
        (drawn(sorted, times, count, (count - 1) / 2) + drawn(sorted, times, count, count / 2)) / 2;
}

static enum ebb_status bootstrap(const double *sorted, size_t count, struct harness_figure *figure,
                                 struct ebb_error *err)
{
    double *means = NULL, *medians = NULL;
    uint32_t *times = NULL;
    uint64_t state = SEED;
    enum ebb_status status = ebb_new(&means, HARNESS_RESAMPLES, sizeof *means, err);
    EBB_THEN(status, ebb_new(&medians, HARNESS_RESAMPLES, sizeof *medians, err));
    EBB_THEN(status, ebb_new(&times, count, sizeof *times, err));
    for (size_t i = 0; i < HARNESS_RESAMPLES && status == EBB_OK; i++)
        resample(sorted, times, count, &state, &means[i], &medians[i]);
    if (status == EBB_OK) {
        qsort(means, HARNESS_RESAMPLES, sizeof *means, compare);
        qsort(medians, HARNESS_RESAMPLES, sizeof *medians, compare);
        figure->mean_conf[0] = quantile(means, HARNESS_RESAMPLES, LOW);
        figure->mean_conf[1] = quantile(means, HARNESS_RESAMPLES, HIGH);
        figure->median_conf[0] = quantile(medians, HARNESS_RESAMPLES, LOW);
        figure->median_conf[1] = quantile(medians, HARNESS_RESAMPLES, HIGH);
    }
    ebb_free(means);
    ebb_free(medians);
    ebb_free(times);
    return status;
}

enum ebb_status harness_figure_of(const double *values, size_t count, bool has_intervals,
                                  struct harness_figure *figure, struct ebb_error *err)
{
    double *sorted, sum = 0, squares = 0;
    size_t n = 0;
    *figure = (struct harness_figure){NAN, NAN, NAN, {NAN, NAN}, {NAN, NAN}};
    EBB_TRY(ebb_new(&sorted, count + 1, sizeof *sorted, err));
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            sorted[n++] = values[i];
    enum ebb_status status = EBB_OK;
    if (n > 0) {
        qsort(sorted, n, sizeof *sorted, compare);
        for (size_t i = 0; i < n; i++)
            sum += sorted[i];
        figure->mean = sorted[0] == sorted[n - 1] ? sorted[0] : sum / (double)n;
        for (size_t i = 0; i < n; i++)
            squares += (sorted[i] - figure->mean) * (sorted[i] - figure->mean);
        figure->median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
        figure->std = sqrt(squares / (double)n);
    }
    if (n > 0 && has_intervals)
        status = bootstrap(sorted, n, figure, err);
    ebb_free(sorted);
    return status;
}

bool harness_is_measured(const struct harness_figure *figure)
{
    return !isnan(figure->median);
}

static double value_of(const struct harness_rows *rows, const struct harness_rows *baseline,
                       double batch_size, size_t i, enum harness_measure m)
{
    const double *v = rows->items[i].values;
    if (m == HARNESS_THROUGHPUT)
        return batch_size > 0 ? batch_size / v[HARNESS_GPU_TIME] * 1000 : NAN;
    if (m == HARNESS_SLOWDOWN && !isnan(v[HARNESS_PAIR_TIME]))
        return v[HARNESS_GPU_TIME] / v[HARNESS_PAIR_TIME];
    if (m == HARNESS_SLOWDOWN)
        return baseline && i < baseline->count
                   ? v[HARNESS_GPU_TIME] / baseline->items[i].values[HARNESS_GPU_TIME]
                   : NAN;
    return v[m];
}

enum ebb_status harness_summarize(const struct harness_rows *rows,
                                  const struct harness_rows *baseline, double batch_size,
                                  struct harness_input *input, struct ebb_error *err)
{
    double *values;
    enum ebb_status status = EBB_OK;
    *input = (struct harness_input){.rep_count = rows->count};
    EBB_TRY(ebb_new(&values, rows->count + 1, sizeof *values, err));
    for (int m = 0; m < HARNESS_MEASURES && status == EBB_OK; m++) {
        for (size_t i = 0; i < rows->count; i++)
            values[i] = value_of(rows, baseline, batch_size, i, (enum harness_measure)m);
        status = harness_figure_of(values, rows->count,
                                   harness_measure_info[m].flags & HARNESS_BOOTSTRAP,
                                   &input->figures[m], err);
    }
    if (rows->count) {
        const struct harness_row *last = &rows->items[rows->count - 1];
        memcpy(input->gradients, last->gradients, sizeof input->gradients);
        memcpy(input->decided_by, last->decided_by, sizeof input->decided_by);
    }
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->items[i].gradients, input->gradients) != 0)
            input->gradients[0] = '\0';
    ebb_free(values);
    return status;
}
