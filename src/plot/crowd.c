/* crowd.c - find a quiet place for the words of a mark.
 *
 * A handful of candidate places is tried in order of preference; each is charged for what it would
 * cover, and the cheapest wins, the earlier one on a tie. Not optimal, but stable: the same chart
 * always gets the same picture. */
#include "plot/layout.h"

#include <math.h>

#define HEIGHT 14.0        /* of a line of words */
#define MARKER 5.0         /* from a marker's middle to its furthest corner */
#define SEGMENTS_MAX 20000 /* of a series; a longer one is sampled */

enum { COST_CURVE = 1, COST_LINE = 4, COST_WORDS = 50, COST_OUTSIDE = 1000 };

static bool boxes_meet(const struct plot_box *a, const struct plot_box *b)
{
    return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height &&
           b->y < a->y + a->height;
}

/* Liang-Barsky: does the segment touch the box? */
static bool segment_meets(const struct plot_box *b, double x0, double y0, double x1, double y1)
{
    double from = 0, to = 1, dx = x1 - x0, dy = y1 - y0;
    const double p[] = {-dx, dx, -dy, dy};
    const double q[] = {x0 - b->x, b->x + b->width - x0, y0 - b->y, b->y + b->height - y0};
    for (int i = 0; i < 4; i++) {
        if (p[i] == 0) {
            if (q[i] < 0)
                return false;
            continue;
        }
        double t = q[i] / p[i];
        if (p[i] < 0)
            from = t > from ? t : from;
        else
            to = t < to ? t : to;
    }
    return from <= to;
}

static int curve_cost(const struct plot_pane *pane, const struct plot_layer *layer,
                      const struct plot_box *plot, const struct plot_box *words)
{
    const struct plot_series *s = layer->series;
    const double *y = layer->high != NULL ? layer->high : s->y;
    size_t stride = s->count / SEGMENTS_MAX + 1;
    double last_x = NAN, last_y = NAN;
    double air = layer->has_points ? MARKER : 0;
    struct plot_box near = {words->x - air, words->y - air, words->width + 2 * air,
                            words->height + 2 * air};
    if (s->style == PLOT_CELLS || s->style == PLOT_BARS)
        return 0;
    for (size_t i = 0; i < s->count; i += stride) {
        double px = plot_box_x(plot, &pane->x, layer->x[i]);
        double py = plot_box_y(plot, &pane->y, y[i]);
        bool is_point = s->style == PLOT_POINTS;
        if (isfinite(px) && isfinite(py) && isfinite(last_x) && !is_point &&
            (segment_meets(words, last_x, last_y, px, s->style == PLOT_STEP ? last_y : py) ||
             segment_meets(words, px, s->style == PLOT_STEP ? last_y : py, px, py)))
            return COST_CURVE;
        if (isfinite(px) && isfinite(py) && segment_meets(&near, px, py, px, py))
            return COST_CURVE;
        last_x = isfinite(py) ? px : NAN;
        last_y = py;
    }
    return 0;
}

static int cost(const struct plot_pane *pane, const struct plot_box *plot, size_t mark,
                const struct plot_box *words, const struct plot_box *done, size_t done_count)
{
    int sum = 0;
    if (words->x < plot->x - 1 || words->x + words->width > plot->x + plot->width + 1 ||
        words->y < plot->y - 1 || words->y + words->height > plot->y + plot->height + 1)
        sum += COST_OUTSIDE;
    for (size_t i = 0; i < done_count; i++)
        sum += boxes_meet(words, &done[i]) ? COST_WORDS : 0;
    for (size_t i = 0; i < pane->panel->mark_count; i++) {
        const struct plot_mark *m = &pane->panel->marks[i];
        double x = plot_box_x(plot, &pane->x, m->at), y = plot_box_y(plot, &pane->y, m->at);
        double air =
            i == mark ? 0 : 3; /* words belong to the line beside them, not to the next one */
        if (m->is_vertical ? x > words->x - air && x < words->x + words->width + air
                           : y > words->y - air && y < words->y + words->height + air)
            sum += COST_LINE;
    }
    for (size_t i = 0; i < pane->panel->series_count; i++)
        sum += curve_cost(pane, &pane->layers[i], plot, words);
    return sum;
}

struct plot_box plot_free_place(const struct plot_pane *pane, const struct plot_box *plot,
                                size_t mark, double length, const struct plot_box *done,
                                size_t done_count)
{
    /* along the line: 0 = its upper or right end */
    static const double along[] = {0, 0.2, 0.4, 0.6, 0.8, 1};
    const struct plot_mark *m = &pane->panel->marks[mark];
    double x = plot_box_x(plot, &pane->x, m->at), y = plot_box_y(plot, &pane->y, m->at);
    struct plot_box best = {0};
    int best_cost = -1;
    for (size_t i = 0; i < sizeof along / sizeof along[0]; i++)
        for (int side = 0; side < 2; side++) {
            struct plot_box w;
            if (m->is_vertical) {
                w.width = HEIGHT;
                w.height = length;
                w.x = side == 0 ? x + 2 : x - 2 - HEIGHT;
                w.y = plot->y + 5 + along[i] * (plot->height - 10 - length);
            } else {
                w.width = length;
                w.height = HEIGHT;
                w.x = plot->x + 5 + (1 - along[i]) * (plot->width - 10 - length);
                w.y = side == 0 ? y - 2 - HEIGHT : y + 2;
            }
            int c = cost(pane, plot, mark, &w, done, done_count);
            if (best_cost < 0 || c < best_cost) {
                best = w;
                best_cost = c;
            }
        }
    return best;
}
