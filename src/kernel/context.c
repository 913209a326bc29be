/* context.c - ranges over threads, and sums that do not depend on them. */
#include "kernel/context.h"

#include <omp.h>

#include "kernel/internal.h"

/* Handing work to other threads and waiting for them takes a microsecond, and where they have gone to
 * sleep, or another program has their core, far more. */
#define ALONE (4 * KERNEL_GRAIN)

enum ebb_status kernel_parallel(const struct kernel_context *c, int64_t count, int64_t work,
                                kernel_body body, void *argument)
{
    int64_t piece = kernel_max(1, KERNEL_GRAIN / kernel_max(1, work));
    int64_t pieces = (count + piece - 1) / piece;
    if (c->head.threads <= 1 || pieces <= 1 || (double)count * (double)work < ALONE) {
        for (int64_t i = 0; i < pieces; i++)
            body(argument, i * piece, kernel_min(count, (i + 1) * piece));
        return EBB_OK;
    }
#pragma omp parallel for num_threads(c->head.threads) schedule(static)
    for (int64_t i = 0; i < pieces; i++)
        body(argument, i * piece, kernel_min(count, (i + 1) * piece));
    return EBB_OK;
}

#define LANES 16

KERNEL_CLONES static float sum_block(int64_t n, const float *x)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j];
    for (int j = 0; i < n; i++, j++)
        lane[j] += x[i];
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int j = 0; j < step; j++)
            lane[j] += lane[j + step];
    return lane[0];
}

KERNEL_CLONES static float dot_block(int64_t n, const float *x, const float *y)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j] * y[i + j];
    for (int j = 0; i < n; i++, j++)
        lane[j] += x[i] * y[i];
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int j = 0; j < step; j++)
            lane[j] += lane[j + step];
    return lane[0];
}

#define BLOCK 1024

/* Short rows are summed in double: what cancels there is not made up for by others. */
#define SHORT 64

double kernel_sum_row(int64_t n, const float *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n && n <= SHORT; i++)
        sum += (double)x[i];
    for (int64_t i = 0; i < n && n > SHORT; i += BLOCK)
        sum += (double)sum_block(kernel_min(BLOCK, n - i), x + i);
    return sum;
}

double kernel_dot_row(int64_t n, const float *x, const float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n && n <= SHORT; i++)
        sum += (double)x[i] * (double)y[i];
    for (int64_t i = 0; i < n && n > SHORT; i += BLOCK)
        sum += (double)dot_block(kernel_min(BLOCK, n - i), x + i, y + i);
    return sum;
}
