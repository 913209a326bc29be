/* status.c - texts and messages of failures. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

const char *ebb_status_text(enum ebb_status status)
{
    static const char *const texts[] = {
#define X(name, text) text,
        EBB_STATUS_LIST(X)
#undef X
    };
    size_t i = (size_t)status;
    return i < sizeof texts / sizeof texts[0] ? texts[i] : "unknown status";
}

/* The arguments may point into err->message, so the text is made beside it and copied at the end.
 * `wanted` is the untruncated length, as vsnprintf returns it. */
static void error_store(struct ebb_error *err, enum ebb_status status, char *text, size_t size,
                        int wanted)
{
    if (wanted < 0)
        snprintf(text, size, "%s", ebb_status_text(status));
    else if ((size_t)wanted >= size)
        memcpy(text + size - 4, "...", 4);
    memcpy(err->message, text, strlen(text) + 1);
    err->status = status;
}

enum ebb_status ebb_fail(struct ebb_error *err, enum ebb_status status, const char *fmt, ...)
{
    if (!err)
        return status;
    char text[sizeof err->message];
    va_list args;
    va_start(args, fmt);
    int wanted = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    error_store(err, status, text, sizeof text, wanted);
    return status;
}

enum ebb_status ebb_context(struct ebb_error *err, enum ebb_status status, const char *fmt, ...)
{
    if (!err)
        return status;
    char text[sizeof err->message];
    va_list args;
    va_start(args, fmt);
    int wanted = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (wanted >= 0 && (size_t)wanted < sizeof text) {
        size_t used = (size_t)wanted;
        int rest = snprintf(text + used, sizeof text - used, ": %s", err->message);
        wanted = rest < 0 ? rest : wanted + rest;
    }
    error_store(err, status, text, sizeof text, wanted);
    return status;
}

enum ebb_status ebb_no_memory(struct ebb_error *err, size_t bytes)
{
    return ebb_fail(err, EBB_ENOMEM, "out of memory: %zu bytes wanted", bytes);
}
