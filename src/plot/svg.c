/* svg.c - see svg.h. */
#include "plot/svg.h"

#include "plot/text.h"

#define FAMILY "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" /* widths alike in this order */

/* From back to front. */
static void add_panel(struct plot_pen *pen, size_t p)
{
    const struct plot_pane *pane = &pen->figure->panes[p];
    const struct plot_place *place = &pen->layout->places[p];
    plot_grid_add(pen, pane, place);
    plot_mark_lines_add(pen, pane, &place->plot, false);
    plot_data_add(pen, pane, &place->plot);
    plot_axes_add(pen, pane, place);
    plot_mark_lines_add(pen, pane, &place->plot, true);
    plot_panel_words_add(pen, pane, place);
    plot_notes_add(pen, pane, &place->plot);
    plot_legend_add(pen, &place->legend, pane);
    if (pane->cell_width > 0)
        plot_color_bar_add(pen, pane, place);
}

void plot_svg_add(struct ebb_str *out, const struct plot_figure *figure,
                  const struct plot_layout *layout)
{
    struct plot_pen pen = {out, figure, layout};
    const char *title = figure->chart->title != NULL ? figure->chart->title : "chart";
    ebb_str_printf(
        out,
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
        "viewBox=\"0 0 %.0f %.0f\" role=\"img\" xml:space=\"preserve\" stroke-linejoin=\"round\" "
        "font-family=\"" FAMILY "\">\n<title>",
        layout->width, layout->height, layout->width, layout->height);
    plot_text_xml(out, title);
    ebb_str_add(out, "</title>\n<desc>Made by ebb</desc>\n");
    plot_pen_rect(&pen, &(struct plot_box){0, 0, layout->width, layout->height}, "#ffffff", 1);
    plot_head_add(&pen);
    for (size_t p = 0; p < figure->chart->panel_count; p++)
        add_panel(&pen, p);
    plot_legend_add(&pen, &layout->legend, NULL);
    ebb_str_add(out, "</svg>\n");
}
