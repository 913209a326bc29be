/* canvas.h - a rectangle of characters to draw on: dots in Braille patterns, two by four in a
 * character, and whole characters over them. Private to this folder. */
#ifndef EBB_PLOT_CANVAS_H
#define EBB_PLOT_CANVAS_H

#include "base/str.h"

struct plot_canvas {
    int width, height; /* characters */
    uint32_t *glyphs;  /* owned: code points, 0 = none */
    uint8_t *dots;     /* owned: Braille bits */
};

enum ebb_status plot_canvas_init(struct plot_canvas *c, int width, int height,
                                 struct ebb_error *err);
void plot_canvas_fini(struct plot_canvas *c);

/* All of these ignore what lies outside. Rows count from the top, dots too. */
void plot_canvas_glyph(struct plot_canvas *c, int x, int y, uint32_t glyph);
void plot_canvas_dot(struct plot_canvas *c, int x, int y);
/* Take away the character at (x, y) if it is one of `glyphs`, so that the dots under it show. */
void plot_canvas_uncover(struct plot_canvas *c, int x, int y, const uint32_t *glyphs, size_t count);
/* Text from column x on; returns the column after it. Cut at the right edge, cleaned like all words
 * on charts. */
int plot_canvas_text(struct plot_canvas *c, int x, int y, const char *text);

/* One row as UTF-8; blanks at the end are dropped unless is_padded. */
void plot_canvas_row(const struct plot_canvas *c, int y, bool is_padded, struct ebb_str *out);

#endif
