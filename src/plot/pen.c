/* pen.c - strokes and words of a picture: the only file that knows how SVG spells them. */
#include "plot/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plot/text.h"

#define FAR 1e5 /* pixels; what leads further leaves the page anyway */

/* Two decimals at most: a hundredth of a pixel cannot be seen. */
static void number(struct ebb_str *out, double value)
{
    char text[32];
    value = value > FAR ? FAR : value < -FAR ? -FAR : value;
    int n = snprintf(text, sizeof text, "%.2f", value);
    while (text[n - 1] == '0')
        n--;
    n -= text[n - 1] == '.';
    bool is_zero = n == 2 && memcmp(text, "-0", 2) == 0;
    ebb_str_addn(out, text + is_zero, (size_t)(n - is_zero));
}

static void attribute(struct plot_pen *pen, const char *name, double value)
{
    ebb_str_printf(pen->out, " %s=\"", name);
    number(pen->out, value);
    ebb_str_addc(pen->out, '"');
}

void plot_pen_at(struct plot_pen *pen, double x, double y)
{
    number(pen->out, x);
    ebb_str_addc(pen->out, ' ');
    number(pen->out, y);
    ebb_str_addc(pen->out, ' ');
}

void plot_pen_words(struct plot_pen *pen, const struct plot_words *w)
{
    const char *anchor = strcmp(w->align, "left") == 0    ? "start"
                         : strcmp(w->align, "right") == 0 ? "end"
                                                          : "middle";
    double middle = 0.35 * w->size; /* from the middle of small letters and digits to their feet */
    size_t length = w->length > 0 ? w->length : strlen(w->text);
    double room = w->width > 0 ? w->width / (w->is_bold ? PLOT_BOLD : 1) : INFINITY;
    struct ebb_str clean = {0};
    plot_text_clean(&clean, w->text, length, plot_text_fit(w->text, length, room, w->size));
    ebb_str_add(pen->out, "<text");
    attribute(pen, "x", w->x);
    attribute(pen, "y", w->y + middle);
    attribute(pen, "font-size", w->size);
    ebb_str_printf(pen->out, " text-anchor=\"%s\" fill=\"%s\"", anchor, w->color);
    if (w->is_bold)
        ebb_str_add(pen->out, " font-weight=\"bold\"");
    if (w->has_halo)
        ebb_str_add(pen->out, " stroke=\"#ffffff\" stroke-width=\"4\" "
                              "paint-order=\"stroke\"");
    if (w->angle != 0) {
        ebb_str_printf(pen->out, " transform=\"rotate(%g ", -w->angle);
        plot_pen_at(pen, w->x, w->y);
        ebb_str_add(pen->out, ")\"");
    }
    ebb_str_addc(pen->out, '>');
    plot_text_xml(pen->out, ebb_str_c(&clean));
    ebb_str_add(pen->out, "</text>\n");
    pen->out->failed = pen->out->failed || clean.failed;
    ebb_str_fini(&clean);
}

void plot_pen_rect(struct plot_pen *pen, const struct plot_box *b, const char *color,
                   double opacity)
{
    ebb_str_add(pen->out, "<rect");
    attribute(pen, "x", b->x);
    attribute(pen, "y", b->y);
    attribute(pen, "width", b->width);
    attribute(pen, "height", b->height);
    ebb_str_printf(pen->out, " fill=\"%s\"", color);
    if (opacity < 1)
        attribute(pen, "fill-opacity", opacity);
    ebb_str_add(pen->out, "/>\n");
}

/* ---- paths ----------------------------------------------------------------------------------- */

void plot_pen_path(struct plot_pen *pen)
{
    ebb_str_add(pen->out, "<path d=\"");
}

void plot_pen_stroke(struct plot_pen *pen, const char *color, double width, const char *dash)
{
    ebb_str_printf(pen->out, "\" fill=\"none\" stroke=\"%s\"", color);
    attribute(pen, "stroke-width", width);
    if (dash != NULL)
        ebb_str_printf(pen->out, " stroke-dasharray=\"%s\"", dash);
    ebb_str_add(pen->out, "/>\n");
}

void plot_pen_fill(struct plot_pen *pen, const char *color, double opacity)
{
    ebb_str_printf(pen->out, "\" fill=\"%s\"", color);
    attribute(pen, "fill-opacity", opacity);
    ebb_str_add(pen->out, "/>\n");
}

void plot_pen_line(struct plot_pen *pen, double x0, double y0, double x1, double y1,
                   const char *color, double width, const char *dash)
{
    plot_pen_path(pen);
    ebb_str_addc(pen->out, 'M');
    plot_pen_at(pen, x0, y0);
    ebb_str_addc(pen->out, 'L');
    plot_pen_at(pen, x1, y1);
    plot_pen_stroke(pen, color, width, dash);
}

/* Circle, square, triangle, diamond, lower triangle, all of about the same area; filled, then the
 * same hollow, smaller by the width of the stroke. */
void plot_pen_marker(struct plot_pen *pen, int marker, double x, double y)
{
    static const char *const shapes[PLOT_MARKERS] = {
        "m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
        "m-3.3 -3.3h6.6v6.6h-6.6z",
        "m0 -4.2l4.2 7h-8.4z",
        "m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
        "m0 4.2l4.2 -7h-8.4z",
        "m-2.9 0a2.9 2.9 0 1 0 5.8 0a2.9 2.9 0 1 0 -5.8 0z",
        "m-2.6 -2.6h5.2v5.2h-5.2z",
        "m0 -3.2l3.2 5.3h-6.4z",
        "m0 -3.5l3.5 3.5l-3.5 3.5l-3.5 -3.5z",
        "m0 3.2l3.2 -5.3h-6.4z"};
    ebb_str_addc(pen->out, 'M');
    plot_pen_at(pen, x, y);
    ebb_str_add(pen->out, shapes[marker % PLOT_MARKERS]);
}

void plot_pen_cross(struct plot_pen *pen, double x, double y)
{
    ebb_str_addc(pen->out, 'M');
    plot_pen_at(pen, x, y);
    ebb_str_add(pen->out, "m-4 -4l8 8m0 -8l-8 8");
}

void plot_pen_markers_end(struct plot_pen *pen, int marker, const char *color)
{
    bool is_hollow = marker % PLOT_MARKERS >= PLOT_MARKERS / 2;
    if (is_hollow)
        ebb_str_printf(pen->out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>\n", color);
    else
        plot_pen_fill(pen, color, 1);
}
