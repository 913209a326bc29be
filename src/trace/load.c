/* load.c - a trace from a file of any format; the content says which. */
#include <string.h>

#include "base/file.h"
#include "trace/native.h"
#include "trace/trace.h"

#define MAX_FILE ((size_t)1 << 36) /* 64 GiB: beyond it a trace could not be numbered anyway */

/* Text, DTR logs and graph files are JSON: the first line of a text has its version, a log's first
 * object is a line with an INSTRUCTION. */
enum trace_format trace_format_of(const char *bytes, size_t length)
{
    if (length >= TRACE_NATIVE_MAGIC_BYTES &&
        memcmp(bytes, TRACE_NATIVE_MAGIC, TRACE_NATIVE_MAGIC_BYTES) == 0)
        return TRACE_FORMAT_NATIVE;
    const char *line_end = memchr(bytes, '\n', length);
    size_t first = line_end != NULL ? (size_t)(line_end - bytes) : length;
    if (memmem(bytes, first, "\"INSTRUCTION\"", 13) != NULL)
        return TRACE_FORMAT_DTR;
    if (memmem(bytes, first, "\"ebb_trace\"", 11) != NULL)
        return TRACE_FORMAT_TEXT;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '{')
            return TRACE_FORMAT_GRAPH;
        if (memchr(" \t\r\n", bytes[i], 4) == NULL)
            break;
    }
    return TRACE_FORMAT_AUTO;
}

enum ebb_status trace_load(const char *path, enum trace_format format, struct trace **trace,
                           struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, MAX_FILE, err));
    if (format == TRACE_FORMAT_AUTO)
        format = trace_format_of(view.data, view.length);
    enum ebb_status status;
    switch (format) {
    case TRACE_FORMAT_NATIVE:
        status = trace_read_native(path, view.data, view.length, trace, err);
        break;
    case TRACE_FORMAT_DTR:
        status = trace_read_dtr(path, view.data, view.length, trace, err);
        break;
    case TRACE_FORMAT_GRAPH:
        status = trace_read_graph(path, view.data, view.length, trace, err);
        break;
    case TRACE_FORMAT_TEXT:
        status = trace_read_text(path, view.data, view.length, trace, err);
        break;
    default:
        status =
            ebb_fail(err, EBB_EINPUT,
                     "%s: neither a trace of ebb, nor a DTR log (one JSON object per line with "
                     "INSTRUCTION), nor a graph file (a JSON object with nodes)",
                     path);
    }
    ebb_file_view_close(&view);
    return status;
}
