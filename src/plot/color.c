/* color.c - one name, one colour, in every chart.
 *
 * The cycle is Okabe and Ito's, in an order that keeps neighbours apart for the three common kinds
 * of colour blindness and without its yellow, which vanishes on white. Names get colours and
 * markers by row; two names that share a chart never share both. */
#include "plot/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const cycle[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00",
                                    "#56b4e9", "#332288", "#999933", "#882255", "#666666"};
#define CYCLE_COUNT (sizeof cycle / sizeof cycle[0])

/* Published spellings stand beside ours. */
static const struct {
    const char *name, *color;
    int marker;
} known[] = {
    /* policies */
    {"dtr", "#0072b2", 0},
    {"dtr_eq", "#56b4e9", 1},
    {"DTREqClass", "#56b4e9", 1},
    {"dtr_local", "#332288", 2},
    {"DTRLocal", "#332288", 2},
    {"msps", "#cc79a7", 3},
    {"lru", "#e69f00", 4},
    {"largest", "#009e73", 5},
    {"LargestStorage", "#009e73", 5},
    {"random", "#999999", 6},
    {"RandomStorage", "#999999", 6},
    {"belady", "#000000", 7},
    {"capuchin", "#882255", 8},
    {"unified", "#aa3377", 9},
    {"none", "#666666", 7},
    /* planners */
    {"best", "#d55e00", 0},
    {"floor", "#777777", 5},
    {"all", "#666666", 1},
    {"all_ap", "#aaaaaa", 1},
    {"last", "#997700", 2},
    {"chen_sqrtn", "#e69f00", 1},
    {"chen_sqrtn_noap", "#e69f00", 6},
    {"chen_greedy", "#cc79a7", 2},
    {"chen_greedy_noap", "#cc79a7", 7},
    {"griewank", "#009e73", 3},
    {"ilp", "#0072b2", 4},
    {"lp_round", "#56b4e9", 8},
    {"rotor", "#117733", 5},
    {"knapsack", "#999933", 9},
    {"joint", "#882255", 6},
    {"bound", "#000000", 9},
    {"lower_bound", "#000000", 9},
    {"lower bound", "#000000", 9},
    /* what memory is used for */
    {"weights", "#0072b2", 0},
    {"optimizer", "#332288", 1},
    {"gradients", "#e69f00", 2},
    {"activations", "#009e73", 3},
    {"workspace", "#cc79a7", 4},
    {"data", "#56b4e9", 5},
    {"other", "#999999", 6},
    {"free", "#dddddd", 7},
};

const char *plot_color(const char *name, size_t order)
{
    const char *color;
    int marker;
    if (name != NULL && plot_known(name, &color, &marker))
        return color;
    return cycle[order % CYCLE_COUNT];
}

const char *plot_scale_color(double part)
{
    /* Viridis without its bright end, which vanishes on white. */
    static const char *const shades[] = {
        "#addc30", "#95d63f", "#7dd04e", "#65cb5e", "#52c369", "#42bb72", "#31b37b", "#27aa82",
        "#25a185", "#239989", "#21908c", "#25868d", "#287d8d", "#2c738e", "#306a8d", "#34608c",
        "#39568b", "#3d4c88", "#414083", "#44357e", "#472978", "#461c6c", "#450e60", "#440154"};
    const size_t last = sizeof shades / sizeof shades[0] - 1;
    if (!(part > 0))
        return shades[0];
    return shades[part >= 1 ? last : (size_t)(part * (double)last + 0.5)];
}

const char *plot_viridis(double part, char color[8])
{
    static const unsigned char stops[PLOT_VIRIDIS + 1][3] = {
        {0x44, 0x01, 0x54}, {0x47, 0x2d, 0x7b}, {0x3b, 0x52, 0x8b},
        {0x2c, 0x72, 0x8e}, {0x21, 0x91, 0x8c}, {0x28, 0xae, 0x80},
        {0x5e, 0xc9, 0x62}, {0xad, 0xdc, 0x30}, {0xfd, 0xe7, 0x25}};
    double at = part > 0 ? (part < 1 ? part : 1) * PLOT_VIRIDIS : 0;
    size_t low = at < PLOT_VIRIDIS ? (size_t)at : PLOT_VIRIDIS - 1;
    unsigned mixed[3];
    for (size_t i = 0; i < 3; i++)
        mixed[i] = (unsigned)lround(stops[low][i] +
                                    (at - (double)low) * (stops[low + 1][i] - stops[low][i]));
    snprintf(color, 8, "#%02x%02x%02x", mixed[0], mixed[1], mixed[2]);
    return color;
}

bool plot_known(const char *name, const char **color, int *marker)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(known[i].name, name) == 0) {
            *color = known[i].color;
            *marker = known[i].marker;
            return true;
        }
    return false;
}

const char *plot_color_free(const char *const *used, size_t used_count, size_t order)
{
    for (size_t try = 0; try < CYCLE_COUNT; try++) {
        const char *color = cycle[(order + try) % CYCLE_COUNT];
        bool is_used = false;
        for (size_t i = 0; i < used_count && !is_used; i++)
            is_used = strcasecmp(used[i], color) == 0;
        if (!is_used)
            return color;
    }
    return cycle[order % CYCLE_COUNT];
}
