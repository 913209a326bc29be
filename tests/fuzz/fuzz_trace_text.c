/* Any bytes as a text trace: a status or a legal trace that writes and reads back. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    struct ebb_error err;
    struct trace *t = NULL, *back = NULL;
    if (trace_read_text("text", (const char *)data, size, &t, &err) != EBB_OK)
        return 0;
    struct trace_stats stats;
    if (trace_check(t, &err) != EBB_OK || trace_stats_compute(t, &stats, &err) != EBB_OK)
        abort();
    if (path[0] == '\0')
        snprintf(path, sizeof path, "/tmp/ebb_fuzz_trace_%ld.jsonl", (long)getpid());
    /* every 16th: files are slow */
    if ((t->signature.low & 15) == 0 &&
        (trace_write_text(t, path, &err) != EBB_OK ||
         trace_load(path, TRACE_FORMAT_TEXT, &back, &err) != EBB_OK ||
         back->signature.low != t->signature.low || back->signature.high != t->signature.high))
        abort();
    unlink(path);
    trace_destroy(back);
    trace_destroy(t);
    return 0;
}
