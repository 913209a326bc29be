/* script.c - see script.h. */
#include "plot/script.h"

#include "plot/pen.h"

static void write_panel(struct plot_pen *pen, size_t p)
{
    const struct plot_pane *pane = &pen->figure->panes[p];
    const struct plot_place *place = &pen->layout->places[p];
    ebb_str_add(pen->out, "unset label\nunset arrow\nunset object\nunset colorbox\n");
    if (p == 0) {
        plot_head_add(pen);
        plot_legend_add(pen, &pen->layout->legend, NULL);
    }
    plot_axes_add(pen, pane, place);
    plot_panel_words_add(pen, pane, place);
    plot_marks_add(pen, pane, place);
    plot_notes_add(pen, pane, place);
    plot_legend_add(pen, &place->legend, pane);
    if (pane->cell_width > 0)
        plot_color_bar_add(pen, pane, place);
    ebb_str_add(pen->out, "plot ");
    plot_parts_add(pen, pane, p, &place->plot);
    ebb_str_add(pen->out, "NaN notitle\n"); /* keeps an empty panel legal */
    if (pane->panel->has_no_y_axis)
        ebb_str_add(pen->out, "set border 3\n"); /* for the panels after it */
}

static void write_terminal(struct plot_pen *pen, enum plot_format format)
{
    double w = pen->layout->width, h = pen->layout->height;
    double size = PLOT_FONT * pen->font_scale;
    if (format == PLOT_SVG)
        ebb_str_printf(pen->out,
                       "set terminal svg noenhanced size %.0f,%.0f fixed font 'sans-serif,%.4g' "
                       "background rgb 'white' name 'ebb'\n",
                       w, h, size);
    else if (format == PLOT_PNG) /* two dots per pixel: sharp on dense screens and on paper */
        ebb_str_printf(pen->out,
                       "set terminal pngcairo noenhanced size %.0f,%.0f font 'sans-serif,%.4g' "
                       "fontscale 2 linewidth 2 pointscale 2 background rgb 'white'\n",
                       2 * w, 2 * h, size);
    else
        ebb_str_printf(pen->out,
                       "set terminal pdfcairo noenhanced size %.4fin,%.4fin font 'sans-serif,%.4g' "
                       "fontscale 1 linewidth 1.6 background rgb 'white'\n",
                       w / 96, h / 96, size);
}

void plot_script_add(struct ebb_str *out, const struct plot_figure *figure,
                     const struct plot_layout *layout, enum plot_format format)
{
    /* fonts: points where the terminal counts so; markers: measured to look alike */
    static const struct {
        double font, point;
    } scales[] = {[PLOT_SVG] = {1, 0.6}, [PLOT_PNG] = {0.75, 0.75}, [PLOT_PDF] = {0.59, 0.55}};
    struct plot_pen pen = {out, figure, layout, scales[format].font, scales[format].point};
    write_terminal(&pen, format);
    ebb_str_add(out, "set encoding utf8\nset samples 2\nset clip two\nunset key\nunset title\n"
                     "set border 3 linewidth 0.9 linecolor rgb '" PLOT_AXIS "'\n");
    for (size_t p = 0; p < figure->chart->panel_count; p++)
        plot_data_add(out, &figure->panes[p], p, &layout->places[p].plot);
    ebb_str_add(out, "set multiplot\n");
    for (size_t p = 0; p < figure->chart->panel_count; p++)
        write_panel(&pen, p);
    ebb_str_add(out, "unset multiplot\n");
}
