/* Any bytes as a graph file: a status or a legal trace. */
#include <stdint.h>
#include <stdlib.h>

#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ebb_error err;
    struct trace *t = NULL;
    struct trace_stats stats;
    if (trace_read_graph("graph", (const char *)data, size, &t, &err) != EBB_OK)
        return 0;
    if (trace_check(t, &err) != EBB_OK || trace_stats_compute(t, &stats, &err) != EBB_OK)
        abort();
    trace_destroy(t);
    return 0;
}
