/* Plan files from anybody: the reader and, when they parse, the checker must survive them. */
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct trace *trace; /* one small trace for all inputs */
    struct ebb_error err;
    struct plan plan;
    if (!trace && trace_make_linear(4, &trace, &err) != EBB_OK)
        return 0;
    if (plan_read("fuzz", (const char *)data, size, &plan, &err) != EBB_OK)
        return 0;
    const struct plan_limits limits = {{UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    struct plan_report report;
    uint64_t height;
    plan.signature = trace->signature; /* or the checker would stop at once */
    (void)plan_check(trace, &plan, &limits, &report, &err);
    struct plan low;
    if (plan_copy(&low, &plan, &err) == EBB_OK) { /* addresses below are given before the proof */
        (void)plan_assign_low(trace, &low, limits.budget_bytes, &err);
        (void)plan_check(trace, &low, &limits, &report, &err);
        plan_fini(&low);
    }
    if (plan_assign_offsets(trace, &plan, UINT64_MAX, &height, &err) == EBB_OK)
        (void)plan_check(trace, &plan, &limits, &report, &err);
    plan_fini(&plan);
    return 0;
}
