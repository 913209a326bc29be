/* text.c - see text.h. */
#include "plot/text.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* C0 and C1 controls, DEL and the two noncharacters that XML forbids. */
static bool is_control(const char *s, size_t bytes)
{
    unsigned char c = (unsigned char)s[0];
    return (bytes == 1 && (c < 0x20 || c == 0x7f)) ||
           (bytes == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0) ||
           (bytes == 3 && memcmp(s, "\xef\xbf", 2) == 0 && (unsigned char)s[2] >= 0xbe);
}

/* Hundredths of the font size, DejaVu Sans, from ' ' to '~'. */
static const unsigned char widths[] = {
    32, 40, 46, 84, 64, 95, 78, 27, 39,  39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
    60, 79, 69, 63, 61, 73, 68, 99, 69,  61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63,
    63, 28, 28, 58, 28, 97, 63, 61, 63,  63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84};

/* One cleaned character of text[*at..length): appended to out when not NULL. Returns its width in
 * font sizes: Latin, Greek and Cyrillic, then signs and the writing of East Asia, are about alike. */
static double step(struct ebb_str *out, const char *text, size_t length, size_t *at)
{
    const char *shown = text + *at;
    size_t n = ebb_utf8_length(shown, text + length), bytes = n;
    if (n == 0) {
        shown = "\xef\xbf\xbd";
        bytes = 3;
    } else if (is_control(shown, n)) {
        shown = " ";
        bytes = 1;
    }
    if (out != NULL)
        ebb_str_addn(out, shown, bytes);
    *at += n > 0 ? n : 1;
    return bytes == 1 ? widths[(unsigned char)shown[0] - ' '] / 100.0 : bytes == 2 ? 0.7 : 1.0;
}

static size_t count_columns(const char *text, size_t length)
{
    size_t columns = 0;
    for (size_t at = 0; at < length; columns++)
        step(NULL, text, length, &at);
    return columns;
}

bool plot_has_text(const char *text)
{
    return text != NULL && text[0] != '\0';
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

void plot_text_xml(struct ebb_str *out, const char *text)
{
    struct ebb_str clean = {0};
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

static double measure(const char *text, size_t length)
{
    double sum = 0;
    for (size_t at = 0; at < length;)
        sum += step(NULL, text, length, &at);
    return sum;
}

double plot_text_pixels(const char *text, double font_size)
{
    return measure(text, strlen(text)) * font_size;
}

size_t plot_text_fit(const char *text, size_t length, double pixels, double font_size)
{
    double left = pixels / font_size;
    size_t columns = 1;
    if (measure(text, length) <= left)
        return count_columns(text, length);
    left -= 1; /* the dots */
    for (size_t at = 0; at < length && (left -= step(NULL, text, length, &at)) >= 0;)
        columns++;
    return columns;
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
