/* utf8.h - length of well-formed UTF-8 sequences (RFC 3629). Private to base. */
#ifndef EBB_BASE_UTF8_H
#define EBB_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at p (1 to 4), or 0 when it is malformed: overlong, a surrogate, beyond
 * U+10FFFF or cut off at end. p < end. */
static inline size_t ebb_utf8_length(const char *p, const char *end)
{
    const unsigned char *s = (const unsigned char *)p;
    size_t left = (size_t)(end - p), n;
    unsigned char low = 0x80, high = 0xbf; /* bounds of the second byte */
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    if (s[0] < 0xe0) {
        n = 2;
    } else if (s[0] < 0xf0) {
        n = 3;
        if (s[0] == 0xe0)
            low = 0xa0;
        if (s[0] == 0xed)
            high = 0x9f;
    } else {
        n = 4;
        if (s[0] == 0xf0)
            low = 0x90;
        if (s[0] == 0xf4)
            high = 0x8f;
    }
    if (left < n || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    return n;
}

#endif
