/* Random charts, fixed seeds: whatever the numbers and names, text is drawn within its columns and
 * the picture is well-formed XML and rsvg-convert draws it. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/rng.h"
#include "plot/plot.h"

enum {
    PANELS = 3,
    SERIES = 5,
    POINTS = 24,
    MARKS = 3,
    CHARTS = 400,
    FIRST_PICTURE = 140,
    PICTURES = 40
};

struct random_chart {
    struct plot_chart chart;
    struct plot_panel panels[PANELS];
    struct plot_series series[PANELS][SERIES];
    struct plot_mark marks[PANELS][MARKS];
    double numbers[PANELS][SERIES][3][POINTS];
};

static const char *const words[] = {
    NULL,
    "",
    "dtr",
    "lru",
    "a 'quoted' \"name\"",
    "back\\slash\\",
    "new\nline",
    "_^{}@&~`$%#;!|<>",
    "]]>",
    "ünï 漢字 😀",
    "\xff\xfe broken",
    "a name that goes on and on and on and on until somebody has to cut it somewhere"};
#define WORDS (sizeof words / sizeof words[0])

static size_t below(uint64_t *rng, size_t limit)
{
    return (size_t)(ebb_splitmix64(rng) % limit);
}

static double number(uint64_t *rng, int mood)
{
    static const double odd[] = {0,      -0.0, 1,        -1,        1e300, -1e300,
                                 1e-300, NAN,  INFINITY, -INFINITY, 1e9,   0.1};
    if (mood == 0)
        return (double)below(rng, 1000) / 100;
    if (mood == 1)
        return odd[below(rng, sizeof odd / sizeof odd[0])];
    return ((double)below(rng, 2001) - 1000) * pow(10, (double)below(rng, 13) - 6);
}

static void fill(struct random_chart *r, uint64_t *rng)
{
    memset(r, 0, sizeof *r);
    int mood = (int)below(rng, 3);
    for (int p = 0; p < PANELS; p++) {
        struct plot_panel *panel = &r->panels[p];
        size_t shared = below(rng, POINTS);
        *panel = (struct plot_panel){.title = words[below(rng, WORDS)],
                                     .x_label = words[below(rng, WORDS)],
                                     .y_label = words[below(rng, WORDS)],
                                     .series = r->series[p],
                                     .series_count = below(rng, SERIES + 1),
                                     .marks = r->marks[p],
                                     .mark_count = below(rng, MARKS + 1),
                                     .log_x = below(rng, 4) == 0,
                                     .log_y = below(rng, 4) == 0,
                                     .is_stacked = below(rng, 3) == 0};
        if (below(rng, 4) == 0) {
            panel->x_ticks = &words[1]; /* names, none of them NULL */
            panel->x_tick_count = 1 + below(rng, WORDS - 1);
        }
        for (int i = 0; i < SERIES; i++) {
            struct plot_series *s = &r->series[p][i];
            for (int k = 0; k < 3; k++)
                for (int n = 0; n < POINTS; n++)
                    r->numbers[p][i][k][n] = number(rng, mood);
            bool has_x = !panel->is_stacked && below(rng, 4) != 0;
            *s = (struct plot_series){.name = words[below(rng, WORDS)],
                                      .style = (enum plot_style)below(rng, PLOT_SQUARES + 1),
                                      .x = has_x ? r->numbers[p][i][0] : NULL,
                                      .y = r->numbers[p][i][1],
                                      .y2 = r->numbers[p][i][2],
                                      .count = panel->is_stacked ? shared : below(rng, POINTS),
                                      .is_dashed = below(rng, 2) == 0};
        }
        for (int i = 0; i < MARKS; i++)
            r->marks[p][i] = (struct plot_mark){.at = number(rng, mood),
                                                .is_vertical = below(rng, 2) == 0,
                                                .label = words[below(rng, WORDS)]};
    }
    r->chart = (struct plot_chart){.title = words[below(rng, WORDS)],
                                   .subtitle = words[below(rng, WORDS)],
                                   .panels = r->panels,
                                   .panel_count = 1 + below(rng, PANELS),
                                   .shared_legend = below(rng, 2) == 0};
}

static struct random_chart chart;

TEST(terminal__stays_within_its_columns)
{
    for (uint64_t seed = 1; seed <= CHARTS; seed++) {
        uint64_t rng = seed;
        struct ebb_str out;
        struct ebb_error err;
        fill(&chart, &rng);
        int columns = 24 + (int)below(&rng, 150), width = 0;
        ebb_str_init(&out);
        if (plot_terminal(&chart.chart, columns, 1 + (int)below(&rng, 60), &out, &err) != EBB_OK)
            fail_msg("seed %d: %s", (int)seed, err.message);
        for (const char *c = ebb_str_c(&out); *c != '\0'; c++) {
            width = *c == '\n' ? 0 : width + (((unsigned char)*c & 0xc0) != 0x80);
            if (width > columns)
                fail_msg("seed %d: a line of more than %d columns", (int)seed, columns);
        }
        ebb_str_fini(&out);
        CHECK_EQ(ebb_heap_live(), 0);
    }
}

TEST(converter__draws_every_picture)
{
    static const char *const suffixes[] = {"svg", "png", "pdf"};
    if (system("rsvg-convert --version > /dev/null 2>&1") != 0)
        skip();
    char path[64] = "";
    for (uint64_t seed = FIRST_PICTURE; seed < FIRST_PICTURE + PICTURES; seed++) {
        uint64_t rng = seed;
        struct ebb_error err;
        fill(&chart, &rng);
        snprintf(path, sizeof path, "/tmp/ebb-plot-random-%d.%s", (int)getpid(),
                 suffixes[seed % 3]);
        enum ebb_status status = plot_write(&chart.chart, path, &err);
        unlink(path);
        if (status != EBB_OK)
            fail_msg("seed %d, %s: %s", (int)seed, suffixes[seed % 3], err.message);
        CHECK_EQ(ebb_heap_live(), 0);
    }
}

TEST_MAIN()
