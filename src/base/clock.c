/* clock.c - clock_gettime as one number. */
#include "base/clock.h"

#include <time.h>

static uint64_t clock_read(clockid_t id)
{
    struct timespec t = {0};
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t ebb_clock_ns(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

uint64_t ebb_clock_cpu_ns(void)
{
    return clock_read(CLOCK_PROCESS_CPUTIME_ID);
}
