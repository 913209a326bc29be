/* text.c - see text.h. */
#include "plot/text.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the character at s (1..4) when it is well-formed UTF-8, else 0. Refuses overlong forms,
 * surrogates and what lies beyond U+10FFFF: XML readers do, too. */
static size_t utf8_bytes(const char *s, size_t left)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t n = u[0] < 0x80 ? 1 : u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (n == 1)
        return 1;
    if (u[0] < 0xc2 || u[0] > 0xf4 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xc0u) != 0x80u)
            return 0;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
        (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
        return 0;
    return n;
}

/* C0 and C1 controls, DEL and the two noncharacters that XML forbids. */
static bool is_control(const char *s, size_t bytes)
{
    unsigned char c = (unsigned char)s[0];
    return (bytes == 1 && (c < 0x20 || c == 0x7f)) ||
           (bytes == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0) ||
           (bytes == 3 && memcmp(s, "\xef\xbf", 2) == 0 && (unsigned char)s[2] >= 0xbe);
}

/* One cleaned character of text[*at..length): appended to out when not NULL. */
static void step(struct ebb_str *out, const char *text, size_t length, size_t *at)
{
    size_t n = utf8_bytes(text + *at, length - *at);
    if (n == 0) {
        if (out != NULL)
            ebb_str_add(out, "\xef\xbf\xbd");
        ++*at;
        return;
    }
    if (out != NULL && is_control(text + *at, n))
        ebb_str_addc(out, ' ');
    else if (out != NULL)
        ebb_str_addn(out, text + *at, n);
    *at += n;
}

static size_t count_columns(const char *text, size_t length)
{
    size_t columns = 0;
    for (size_t at = 0; at < length; columns++)
        step(NULL, text, length, &at);
    return columns;
}

size_t plot_text_columns(const char *text)
{
    return count_columns(text, strlen(text));
}

void plot_text_clean(struct ebb_str *out, const char *text, size_t length, size_t max_columns)
{
    bool is_cut = count_columns(text, length) > max_columns;
    size_t keep = is_cut && max_columns > 0 ? max_columns - 1 : max_columns;
    for (size_t at = 0, n = 0; at < length && n < keep; n++)
        step(out, text, length, &at);
    if (is_cut && max_columns > 0)
        ebb_str_add(out, "…");
}

void plot_text_quote(struct ebb_str *out, const char *text, size_t max_columns)
{
    struct ebb_str clean;
    ebb_str_init(&clean);
    plot_text_clean(&clean, text, strlen(text), max_columns);
    ebb_str_addc(out, '\'');
    for (const char *c = ebb_str_c(&clean); *c != '\0'; c++) {
        if (*c == '\'')
            ebb_str_addc(out, '\''); /* a quote is written twice */
        ebb_str_addc(out, *c);
    }
    ebb_str_addc(out, '\'');
    out->failed = out->failed || clean.failed;
    ebb_str_fini(&clean);
}

void plot_text_xml(struct ebb_str *out, const char *text)
{
    struct ebb_str clean;
    ebb_str_init(&clean);
    plot_text_clean(&clean, text, strlen(text), SIZE_MAX);
    for (const char *c = ebb_str_c(&clean); *c != '\0'; c++) {
        if (*c == '&')
            ebb_str_add(out, "&amp;");
        else if (*c == '<')
            ebb_str_add(out, "&lt;");
        else if (*c == '>')
            ebb_str_add(out, "&gt;");
        else
            ebb_str_addc(out, *c);
    }
    out->failed = out->failed || clean.failed;
    ebb_str_fini(&clean);
}

double plot_text_pixels(const char *text, double font_size)
{
    return (double)plot_text_columns(text) * font_size * 0.58;
}

size_t plot_text_line(const char *text, size_t columns, const char **next)
{
    size_t length = strlen(text), at = 0, blank = 0;
    for (size_t n = 0; at < length && text[at] != '\n'; n++) {
        if (n == columns) { /* too long: back to the last blank, if there was one */
            at = blank > 0 ? blank : at;
            *next = text + at + (text[at] == ' ');
            return at;
        }
        if (text[at] == ' ')
            blank = at;
        step(NULL, text, length, &at);
    }
    *next = at < length ? text + at + 1 : NULL;
    return at;
}
