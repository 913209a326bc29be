/* test_plot_parallel.c - parallel coordinates as a file. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "plot/plot.h"

static const char *const kinds[] = {"adam", "sgd"};
static const struct plot_axis axes[] = {
    {.name = "rate", .is_log = true},
    {.name = "optimizer", .categories = kinds, .category_count = 2},
    {.name = "loss"},
};
static const double values[] = {0.001, 0, 0.9, 0.01, 1, 0.2, 0.1, 0, NAN};

static struct plot_parallel chart(void)
{
    return (struct plot_parallel){.title = "three trials",
                                  .axes = axes,
                                  .axis_count = 3,
                                  .values = values,
                                  .stride = 3,
                                  .line_count = 3,
                                  .color_axis = 2,
                                  .is_low_best = true};
}

TEST(parallel__names_axes_and_categories)
{
    struct ebb_error err = {0};
    char path[] = "/tmp/ebb-parallel-XXXXXX.svg";
    int fd = mkstemps(path, 4);
    close(fd);
    struct plot_parallel c = chart();
    enum ebb_status status = plot_parallel_write(&c, path, &err);
    CHECK_OK(status, &err);
    struct ebb_file_view view;
    CHECK_OK(ebb_file_view_open(&view, path, 1 << 24, &err), &err);
    char *text = ebb_strndup(view.data, view.length);
    ebb_file_view_close(&view);
    unlink(path);
    CHECK(strstr(text, "optimizer") != NULL);
    CHECK(strstr(text, "adam") != NULL);
    CHECK(strstr(text, "0.01") != NULL); /* a tick of the log axis */
    /* two whole lines: the best dark, the other in between; the broken one is light */
    CHECK(strcasestr(text, "#440154") != NULL);
    CHECK(strcasestr(text, "#addc30") != NULL);
    ebb_free(text);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(parallel__refuses_one_axis)
{
    struct ebb_error err = {0};
    struct plot_parallel c = chart();
    c.axis_count = 1;
    CHECK_EQ(plot_parallel_write(&c, "/tmp/never.svg", &err), EBB_EINPUT);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(parallel__survives_every_failing_allocation)
{
    for (uint64_t n = 1; n < 12; n++) {
        struct plot_parallel c = chart();
        ebb_heap_fail_at(n);
        enum ebb_status status = plot_parallel_write(&c, "/tmp/never.gif", NULL);
        ebb_heap_fail_at(0);
        CHECK(status == EBB_ENOMEM || status == EBB_EINPUT);
        CHECK_EQ(ebb_heap_live(), 0);
    }
}

TEST(scale_color__is_clamped)
{
    CHECK_STR(plot_scale_color(-1), plot_scale_color(0));
    CHECK_STR(plot_scale_color(NAN), plot_scale_color(0));
    CHECK_STR(plot_scale_color(7), plot_scale_color(1));
}

TEST_MAIN()
