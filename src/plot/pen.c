/* pen.c - see pen.h. */
#include "plot/pen.h"

#include "plot/text.h"

/* Six digits are a thousandth of a pixel. */
void plot_pen_at(struct plot_pen *pen, double x, double y)
{
    ebb_str_printf(pen->out, "screen %.6f,%.6f", x / pen->layout->width,
                   1 - y / pen->layout->height);
}

void plot_pen_words(struct plot_pen *pen, const struct plot_words *w)
{
    struct ebb_str part;
    ebb_str_init(&part);
    ebb_str_addn(&part, w->text, w->length);
    ebb_str_add(pen->out, "set label ");
    plot_text_quote(pen->out, ebb_str_c(&part), w->columns);
    ebb_str_add(pen->out, " at ");
    plot_pen_at(pen, w->x, w->y);
    ebb_str_printf(pen->out, " %s font '%s,%.4g' textcolor rgb '%s'", w->align,
                   w->is_bold ? "sans-serif:Bold" : "", w->size * pen->font_scale, w->color);
    if (w->angle != 0)
        ebb_str_printf(pen->out, " rotate by %g", w->angle);
    if (w->is_boxed)
        ebb_str_add(pen->out, " boxed");
    ebb_str_add(pen->out, w->is_front ? " front\n" : "\n");
    pen->out->failed = pen->out->failed || part.failed;
    ebb_str_fini(&part);
}
