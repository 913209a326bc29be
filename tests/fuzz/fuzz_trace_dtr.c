/* Any bytes as a DTR log: a status or a legal trace that writes and reads back. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    struct ebb_error err;
    struct trace *t = NULL, *back = NULL;
    if (trace_read_dtr("log", (const char *)data, size, &t, &err) != EBB_OK)
        return 0;
    struct trace_stats stats;
    if (trace_check(t, &err) != EBB_OK || trace_stats_compute(t, &stats, &err) != EBB_OK)
        abort();
    if (path[0] == '\0')
        snprintf(path, sizeof path, "/tmp/ebb_fuzz_trace_%ld.log", (long)getpid());
    /* every 16th: files are slow */
    if ((t->signature.low & 15) == 0 &&
        (trace_write_dtr(t, path, NULL, 0, &err) != EBB_OK ||
         trace_load(path, TRACE_FORMAT_DTR, &back, &err) != EBB_OK ||
         back->op_count != t->op_count || back->tensor_count != t->tensor_count))
        abort();
    unlink(path);
    trace_destroy(back);
    trace_destroy(t);
    return 0;
}
