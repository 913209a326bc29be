/* canvas.c - see canvas.h. */
#include "plot/canvas.h"

#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "plot/text.h"

enum ebb_status plot_canvas_init(struct plot_canvas *c, int width, int height,
                                 struct ebb_error *err)
{
    *c = (struct plot_canvas){.width = width, .height = height};
    size_t cells;
    if (!ebb_mul_size((size_t)width, (size_t)height, &cells))
        return ebb_no_memory(err, SIZE_MAX);
    enum ebb_status status = ebb_new(&c->glyphs, cells, sizeof *c->glyphs, err);
    EBB_THEN(status, ebb_new(&c->dots, cells, sizeof *c->dots, err));
    if (status != EBB_OK)
        plot_canvas_fini(c);
    return status;
}

void plot_canvas_fini(struct plot_canvas *c)
{
    ebb_free(c->glyphs);
    ebb_free(c->dots);
    *c = (struct plot_canvas){0};
}

void plot_canvas_glyph(struct plot_canvas *c, int x, int y, uint32_t glyph)
{
    if (x >= 0 && x < c->width && y >= 0 && y < c->height)
        c->glyphs[(size_t)y * (size_t)c->width + (size_t)x] = glyph;
}

void plot_canvas_dot(struct plot_canvas *c, int x, int y)
{
    /* U+2800 + bits: columns 1-2-3-7 and 4-5-6-8 from the top */
    static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x >= 0 && x < 2 * c->width && y >= 0 && y < 4 * c->height)
        c->dots[(size_t)(y / 4) * (size_t)c->width + (size_t)(x / 2)] |= bits[y % 4][x % 2];
}

void plot_canvas_uncover(struct plot_canvas *c, int x, int y, const uint32_t *glyphs, size_t count)
{
    if (x < 0 || x >= c->width || y < 0 || y >= c->height)
        return;
    uint32_t *cell = &c->glyphs[(size_t)y * (size_t)c->width + (size_t)x];
    for (size_t i = 0; i < count; i++)
        if (*cell == glyphs[i])
            *cell = 0;
}

int plot_canvas_text(struct plot_canvas *c, int x, int y, const char *text)
{
    struct ebb_str clean = {0};
    if (x < c->width)
        plot_text_clean(&clean, text, strlen(text), (size_t)(c->width - (x < 0 ? 0 : x)));
    for (const char *s = ebb_str_c(&clean); *s != '\0';)
        plot_canvas_glyph(c, x++, y, ebb_utf8_next(&s));
    ebb_str_fini(&clean);
    return x;
}

void plot_canvas_row(const struct plot_canvas *c, int y, bool is_padded, struct ebb_str *out)
{
    size_t blanks = 0;
    char text[4];
    for (int x = 0; x < c->width; x++) {
        size_t at = (size_t)y * (size_t)c->width + (size_t)x;
        uint32_t code = c->glyphs[at] != 0 ? c->glyphs[at]
                        : c->dots[at] != 0 ? 0x2800u + c->dots[at]
                                           : ' ';
        if (code == ' ') {
            blanks++;
            continue;
        }
        for (; blanks > 0; blanks--)
            ebb_str_addc(out, ' ');
        ebb_str_addn(out, text, ebb_utf8_encode(code, text));
    }
    for (; is_padded && blanks > 0; blanks--)
        ebb_str_addc(out, ' ');
}
