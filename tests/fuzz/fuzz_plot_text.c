/* Any bytes as a title: what is drawn is clean UTF-8 without markup, no longer than asked for, and
 * lines of it are never too long. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "plot/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_clean(const char *s, size_t max_columns)
{
    size_t columns = 0;
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == 0x7f)
            abort();
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
    plot_text_clean(&out, text, strlen(text), columns);
    check_clean(ebb_str_c(&out), columns);
    ebb_str_clear(&out);
    plot_text_clean(&out, text, strlen(text), plot_text_fit(text, strlen(text), 50, 10));
    if (plot_text_pixels(ebb_str_c(&out), 10) > 50 + 1e-9 && strlen(ebb_str_c(&out)) > 4)
        abort();
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
