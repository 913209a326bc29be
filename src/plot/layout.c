/* layout.c - see layout.h. */
#include "plot/layout.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "plot/text.h"

#define GAP 26.0       /* between panels */
#define ENTRY_GAP 20.0 /* between legend entries */
#define COLOR_BAR_ROOM 78.0
#define SLANT 0.5736 /* sin 35 degrees */

static double max2(double a, double b)
{
    return a > b ? a : b;
}

double plot_box_x(const struct plot_box *box, const struct plot_scale *scale, double value)
{
    return box->x + plot_scale_place(scale, value) * box->width;
}

double plot_box_y(const struct plot_box *box, const struct plot_scale *scale, double value)
{
    return box->y + (1 - plot_scale_place(scale, value)) * box->height;
}

/* Of words that are cut at `most`. */
static double name_width(const char *name, double most)
{
    double w = plot_text_pixels(name, PLOT_FONT_SMALL);
    return w < most ? w : most;
}

/* ---- legends ------------------------------------------------------------------------------- */

double plot_entry_width(const struct plot_entry *entry)
{
    return PLOT_SWATCH + 8 + name_width(entry->name, PLOT_NAME_WIDTH) + ENTRY_GAP;
}

bool plot_legend_has(const struct plot_figure *figure, const struct plot_pane *pane, size_t i)
{
    if (pane == NULL)
        return i < figure->entry_count;
    for (size_t k = 0; k < pane->panel->series_count; k++)
        if (pane->layers[k].entry == i)
            return true;
    return false;
}

size_t plot_legend_row(const struct plot_figure *figure, const struct plot_pane *pane, size_t first,
                       double room, double *width)
{
    size_t end = first;
    *width = -ENTRY_GAP;
    for (; end < figure->entry_count; end++) {
        if (!plot_legend_has(figure, pane, end))
            continue;
        double w = plot_entry_width(&figure->entries[end]);
        if (*width > 0 && *width + w > room)
            break;
        *width += w;
    }
    return end;
}

static size_t legend_rows(const struct plot_figure *figure, const struct plot_pane *pane,
                          double room)
{
    size_t rows = 0;
    double width;
    for (size_t i = 0; i<figure->entry_count; rows += width> 0)
        i = plot_legend_row(figure, pane, i, room, &width);
    return rows;
}

/* ---- one panel ------------------------------------------------------------------------------- */

static size_t count_lines(const char *text, size_t columns, size_t max)
{
    size_t lines = 0;
    while (text != NULL && *text != '\0' && lines < max) {
        plot_text_line(text, columns, &text);
        lines++;
    }
    return lines;
}

static double widest_tick(const struct plot_tick *ticks, size_t count)
{
    double w = 0;
    for (size_t i = 0; i < count; i++)
        w = max2(w, plot_text_pixels(ticks[i].text, PLOT_FONT_SMALL));
    return w;
}

/* Room around the plot area of one panel. */
struct rim {
    double left, right, top, bottom;
};

static void name_ticks(const struct plot_panel *panel, struct plot_place *place, double width)
{
    double widest = 0;
    for (size_t i = 0; i < panel->x_tick_count; i++)
        widest = max2(widest, name_width(panel->x_ticks[i], PLOT_TICK_WIDTH));
    place->ticks_slanted = widest + 8 > width / (double)panel->x_tick_count;
    place->x_tick_y = place->ticks_slanted ? widest * SLANT + 14 : 18;
}

static void measure(const struct plot_figure *figure, const struct plot_pane *pane,
                    struct plot_place *place, struct rim *rim)
{
    const struct plot_panel *panel = pane->panel;
    if (!panel->has_no_y_axis)
        place->y_tick_count =
            plot_pane_ticks(pane, true, (size_t)(place->plot.height / 60), place->y_ticks);
    place->x_tick_y = 18;
    if (panel->x_ticks != NULL && panel->x_tick_count > 0)
        name_ticks(panel, place, place->plot.width);
    else
        place->x_tick_count =
            plot_pane_ticks(pane, false, (size_t)(place->plot.width / 78), place->x_ticks);
    if (pane->cell_width > 0)
        place->value_tick_count = plot_ticks(&pane->value, 5, place->value_ticks);

    rim->top = plot_has_text(panel->title) ? 30 : 8;
    rim->left = widest_tick(place->y_ticks, place->y_tick_count) + 12;
    place->y_label_x = rim->left + 15; /* from the axis, so far */
    rim->left += plot_has_text(panel->y_label) ? 24 : 0;
    rim->right = pane->cell_width > 0 ? COLOR_BAR_ROOM : 16;
    if (place->ticks_slanted) { /* the first slanted name reaches to the left */
        double slot = place->plot.width / (double)panel->x_tick_count;
        double reach = (place->x_tick_y - 14) / SLANT * 0.8192 - slot / 2;
        rim->left = max2(rim->left, reach);
    }
    rim->bottom = place->x_tick_y + (plot_has_text(panel->x_label) ? 30 : 10);
    if (!figure->chart->shared_legend) {
        place->legend.width = place->plot.width + rim->left;
        place->legend.rows = legend_rows(figure, pane, place->legend.width);
        if (place->legend.rows > 0)
            rim->bottom += (double)place->legend.rows * PLOT_LEGEND_ROW + 8;
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

static const struct {
    double width, height;
} plot_sizes[] = {{0, 0}, {820, 410}, {430, 300}, {330, 250}, {270, 210}};

static void merge(struct rim *all, const struct rim *one)
{
    all->left = max2(all->left, one->left);
    all->right = max2(all->right, one->right);
    all->top = max2(all->top, one->top);
    all->bottom = max2(all->bottom, one->bottom);
}

static void place_panel(const struct plot_pane *pane, struct plot_place *place,
                        const struct rim *rim, double x, double y)
{
    place->plot.x = x + rim->left;
    place->plot.y = y + rim->top;
    place->title_y = y + rim->top - 18;
    double bottom = place->plot.y + place->plot.height;
    place->x_label_y = bottom + place->x_tick_y + 16;
    place->y_label_x = place->plot.x - place->y_label_x;
    place->legend.center_x = place->plot.x + (place->plot.width - rim->left) / 2;
    place->legend.top = bottom + place->x_tick_y + (plot_has_text(pane->panel->x_label) ? 34 : 14);
}

static double head(struct plot_layout *layout, const struct plot_chart *chart)
{
    double y = PLOT_PAGE_MARGIN, inner = layout->width - 2 * PLOT_PAGE_MARGIN;
    layout->title_columns = (size_t)(inner / (PLOT_FONT_TITLE * 0.64));
    layout->subtitle_columns = (size_t)(inner / (PLOT_FONT_SMALL * 0.6));
    layout->title_y = y + 8;
    y += PLOT_TITLE_LINE *
         (double)count_lines(chart->title, layout->title_columns, PLOT_TITLE_LINES);
    layout->subtitle_y = y + 5;
    y += PLOT_SUBTITLE_LINE *
         (double)count_lines(chart->subtitle, layout->subtitle_columns, PLOT_SUBTITLE_LINES);
    return y > PLOT_PAGE_MARGIN ? y + 8 : y;
}

enum ebb_status plot_layout_init(struct plot_layout *layout, const struct plot_figure *figure,
                                 struct ebb_error *err)
{
    const struct plot_chart *chart = figure->chart;
    size_t n = chart->panel_count, size = figure->columns < 4 ? figure->columns : 4;
    struct rim rim = {0};
    *layout = (struct plot_layout){0};
    EBB_TRY(ebb_new(&layout->places, n, sizeof *layout->places, err));
    for (size_t p = 0; p < n; p++) {
        struct rim one;
        layout->places[p].plot.width = plot_sizes[size].width;
        layout->places[p].plot.height = plot_sizes[size].height;
        measure(figure, &figure->panes[p], &layout->places[p], &one);
        merge(&rim, &one); /* one rim for all, so that the axes of a grid line up */
    }
    double cell_w = rim.left + plot_sizes[size].width + rim.right;
    double cell_h = rim.top + plot_sizes[size].height + rim.bottom;
    double columns = (double)figure->columns, rows = (double)figure->rows;
    layout->width = ceil(2 * PLOT_PAGE_MARGIN + columns * cell_w + (columns - 1) * GAP);
    double y = head(layout, chart);
    for (size_t p = 0; p < n; p++) {
        size_t row = p / figure->columns, column = p % figure->columns;
        place_panel(&figure->panes[p], &layout->places[p], &rim,
                    PLOT_PAGE_MARGIN + (double)column * (cell_w + GAP),
                    y + (double)row * (cell_h + GAP * 0.6));
    }
    y += rows * cell_h + (rows - 1) * GAP * 0.6;
    if (chart->shared_legend) {
        layout->legend.width = layout->width - 2 * PLOT_PAGE_MARGIN;
        layout->legend.center_x = layout->width / 2;
        layout->legend.top = y + 4;
        layout->legend.rows = legend_rows(figure, NULL, layout->legend.width);
        y += layout->legend.rows > 0 ? (double)layout->legend.rows * PLOT_LEGEND_ROW + 4 : 0;
    }
    layout->height = ceil(y + PLOT_PAGE_MARGIN * 0.6);
    return EBB_OK;
}

void plot_layout_fini(struct plot_layout *layout)
{
    ebb_free(layout->places);
    *layout = (struct plot_layout){0};
}
