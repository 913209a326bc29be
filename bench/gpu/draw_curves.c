/* draw_curves CSV CHART: the losses that curves.py wrote, drawn over each other: one line for each column behind `update`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot/plot.h"

enum { COLUMNS = 8, ROWS = 4096 };

static double values[COLUMNS][ROWS];
static char names[COLUMNS][64];

/* Fields of one line to a column each; a missing one is a gap. Returns how many there are. */
static int read_line(char *line, size_t row)
{
    int n = 0;
    for (char *at = line; at && n < COLUMNS; n++) {
        char *next = strchr(at, ',');
        if (next)
            *next++ = 0;
        if (row == 0)
            (void)snprintf(names[n], sizeof names[n], "%.63s", at);
        else
            values[n][row - 1] = *at ? strtod(at, NULL) : (double)NAN;
        at = next;
    }
    return n;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    struct plot_series series[COLUMNS] = {{0}};
    struct ebb_error err = {0};
    size_t rows = 0;
    int columns = 0;
    FILE *f = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (!f) {
        (void)fprintf(stderr, "draw_curves: CSV CHART\n");
        return 2;
    }
    while (rows <= ROWS && fgets(text, sizeof text, f)) {
        text[strcspn(text, "\r\n")] = 0;
        columns = read_line(text, rows++);
    }
    (void)fclose(f);
    for (int k = 1; k < columns; k++)
        series[k - 1] = (struct plot_series){.name = names[k],
                                             .style = PLOT_LINE,
                                             .x = values[0],
                                             .y = values[k],
                                             .count = rows ? rows - 1 : 0,
                                             .is_dashed = k > 1};
    struct plot_panel panel = {.x_label = "update",
                               .y_label = "training loss",
                               .series = series,
                               .series_count = columns > 1 ? (size_t)columns - 1 : 0};
    struct plot_chart chart = {.title = "GPT-2 124M from the same weights on the same batches",
                               .subtitle =
                                   "bench/gpu/curves.py; one NVIDIA H200, 32 x 1,024 tokens",
                               .panels = &panel,
                               .panel_count = 1};
    if (plot_write(&chart, argv[2], &err) == EBB_OK)
        return 0;
    (void)fprintf(stderr, "draw_curves: %s\n", err.message);
    return 1;
}
