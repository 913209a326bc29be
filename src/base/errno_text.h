/* errno_text.h - the system's reason, thread-safe and the same in every locale (strerror is not). */
#ifndef EBB_BASE_ERRNO_TEXT_H
#define EBB_BASE_ERRNO_TEXT_H

#include <string.h>

static inline const char *ebb_errno_text(int code)
{
    const char *text = strerrordesc_np(code);
    return text ? text : "unknown error";
}

#endif
