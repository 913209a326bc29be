/* utf8.h - UTF-8 (RFC 3629): lengths of well-formed sequences, from and to code points. */
#ifndef EBB_BASE_UTF8_H
#define EBB_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

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

/* The code point at *p, which is well-formed, and past it. */
static inline uint32_t ebb_utf8_next(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint32_t code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s[i] & 0x3fu);
    *p += n;
    return code;
}

/* Bytes written, 1 to 4. */
static inline size_t ebb_utf8_encode(uint32_t code, char out[4])
{
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(n == 1 ? code : (0xf00u >> n & 0xf0u) | code);
    return n;
}

#endif
