/* errno_text.h - the system's reason, thread-safe (strerror is not). Private to base. */
#ifndef EBB_BASE_ERRNO_TEXT_H
#define EBB_BASE_ERRNO_TEXT_H

#include <string.h>

static inline const char *ebb_errno_text(int code)
{
    const char *text = strerrordesc_np(code);
    return text ? text : "unknown error";
}

#endif
