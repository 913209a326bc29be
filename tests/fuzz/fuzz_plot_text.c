/* Any bytes as a title: the quoted form is one gnuplot string of clean UTF-8, and lines of it are
 * never too long. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "plot/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_quoted(const char *s, size_t max_columns)
{
    size_t n = strlen(s), columns = 0;
    if (n < 2 || s[0] != '\'' || s[n - 1] != '\'')
        abort();
    for (size_t i = 1; i + 1 < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == 0x7f)
            abort();
        if (c == '\'') { /* always in pairs, so the string cannot end early */
            if (i + 2 >= n || s[i + 1] != '\'')
                abort();
            i++;
        }
        columns += (c & 0xc0) != 0x80;
    }
    if (columns > max_columns)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = ebb_strndup((const char *)data, size);
    struct ebb_str out;
    if (text == NULL)
        return 0;
    size_t columns = size > 0 ? data[0] : 1;
    ebb_str_init(&out);
    plot_text_quote(&out, text, columns);
    check_quoted(ebb_str_c(&out), columns);
    ebb_str_clear(&out);
    plot_text_xml(&out, text);
    if (strpbrk(ebb_str_c(&out), "<>") != NULL)
        abort();
    ebb_str_fini(&out);
    size_t lines = 0;
    for (const char *at = text; at != NULL && *at != '\0'; lines++) {
        const char *next;
        size_t bytes = plot_text_line(at, columns + 1, &next);
        if (bytes > strlen(at) || (next != NULL && next <= at) || lines > size)
            abort();
        at = next;
    }
    ebb_free(text);
    return 0;
}
