/* Any bytes as a native trace, as they are and with the checksums made right: a status or a legal
 * trace. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../trace_reseal.h"
#include "base/heap.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_once(const unsigned char *bytes, size_t size)
{
    struct ebb_error err;
    struct trace *t = NULL;
    struct trace_stats stats;
    enum ebb_status status = trace_read_native("file", bytes, size, &t, &err);
    if (status != EBB_OK && status != EBB_ECORRUPT)
        abort();
    if (status == EBB_OK &&
        (trace_check(t, &err) != EBB_OK || trace_stats_compute(t, &stats, &err) != EBB_OK))
        abort();
    trace_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *copy = ebb_alloc(size + 1);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    read_once(copy, size);
    trace_reseal(copy, size);
    read_once(copy, size);
    ebb_free(copy);
    return 0;
}
