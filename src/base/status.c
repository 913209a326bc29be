/* status.c - texts and messages of failures. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

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

/* The arguments may point into err->message, so the text is made beside it and copied at the end;
 * `after` follows it unless it is NULL. */
static void error_say(struct ebb_error *err, enum ebb_status status, const char *after,
                      const char *fmt, va_list args)
{
    char text[sizeof err->message];
    if (!err)
        return;
    int wanted = vsnprintf(text, sizeof text, fmt, args);
    if (after && wanted >= 0 && (size_t)wanted < sizeof text) {
        size_t used = (size_t)wanted;
        int rest = snprintf(text + used, sizeof text - used, ": %s", after);
        wanted = rest < 0 ? rest : wanted + rest;
    }
    if (wanted < 0)
        snprintf(text, sizeof text, "%s", ebb_status_text(status));
    else if ((size_t)wanted >= sizeof text)
        memcpy(text + sizeof text - 4, "...", 4);
    ebb_hide_controls(text);
    memcpy(err->message, text, strlen(text) + 1);
    err->status = status;
}

enum ebb_status ebb_fail(struct ebb_error *err, enum ebb_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_say(err, status, NULL, fmt, args);
    va_end(args);
    return status;
}

enum ebb_status ebb_context(struct ebb_error *err, enum ebb_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_say(err, status, err ? err->message : NULL, fmt, args);
    va_end(args);
    return status;
}

enum ebb_status ebb_errno_status(int code)
{
    if (code == ENOMEM)
        return EBB_ENOMEM;
    return code == ENOSPC || code == EDQUOT ? EBB_EFULL : EBB_EIO;
}

enum ebb_status ebb_no_memory(struct ebb_error *err, size_t bytes)
{
    return ebb_fail(err, EBB_ENOMEM, "out of memory: %zu bytes wanted", bytes);
}
