/* write.c - charts as files. */
#include "plot/plot.h"

#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "plot/figure.h"
#include "plot/gnuplot.h"
#include "plot/script.h"
#include "plot/text.h"

#define FAMILY                                                                                     \
    "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" /* widths alike in this order             \
                                                          */

static enum ebb_status format_of(const char *path, enum plot_format *format, struct ebb_error *err)
{
    static const struct {
        const char *suffix;
        enum plot_format format;
    } formats[] = {{".svg", PLOT_SVG}, {".png", PLOT_PNG}, {".pdf", PLOT_PDF}};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (n > 4 && strcasecmp(path + n - 4, formats[i].suffix) == 0) {
            *format = formats[i].format;
            return EBB_OK;
        }
    return ebb_fail(err, EBB_EINPUT, "%s: a chart's name ends in .svg, .png or .pdf", path);
}

/* Replace the text between `begin` and `end` (both kept), if present. */
static void replace_between(struct ebb_str *svg, const char *begin, const char *end,
                            const char *text)
{
    const char *all = ebb_str_c(svg), *from = strstr(all, begin);
    const char *to = from != NULL ? strstr(from + strlen(begin), end) : NULL;
    struct ebb_str made;
    if (to == NULL)
        return;
    from += strlen(begin);
    ebb_str_init(&made);
    ebb_str_addn(&made, all, (size_t)(from - all));
    ebb_str_add(&made, text);
    ebb_str_add(&made, to);
    made.failed = made.failed || svg->failed;
    ebb_str_fini(svg);
    *svg = made;
}

static void replace_all(struct ebb_str *svg, const char *from, const char *to)
{
    struct ebb_str made;
    ebb_str_init(&made);
    const char *at = ebb_str_c(svg);
    for (const char *hit = strstr(at, from); hit != NULL; hit = strstr(at, from)) {
        ebb_str_addn(&made, at, (size_t)(hit - at));
        ebb_str_add(&made, to);
        at = hit + strlen(from);
    }
    ebb_str_add(&made, at);
    made.failed = made.failed || svg->failed;
    ebb_str_fini(svg);
    *svg = made;
}

/* gnuplot signs its files with its version; readers of the page are better served by the chart's
 * name, and comparisons by neither. */
static void sign_svg(struct ebb_str *svg, const struct plot_chart *chart)
{
    struct ebb_str title;
    ebb_str_init(&title);
    plot_text_xml(&title, chart->title != NULL ? chart->title : "chart");
    replace_between(svg, "<title>", "</title>", ebb_str_c(&title));
    replace_between(svg, "<desc>", "</desc>", "Made by ebb");
    replace_all(svg, "]]>", "]]&gt;"); /* the one place where XML wants it, and gnuplot forgets */
    /* 5.4 takes the weight for a part of the family's name */
    replace_all(svg, "font-family=\"sans-serif:Bold\"",
                "font-family=\"" FAMILY "\" font-weight=\"bold\"");
    replace_all(svg, "font-family=\"sans-serif\"", "font-family=\"" FAMILY "\"");
    svg->failed = svg->failed || title.failed;
    ebb_str_fini(&title);
}

enum ebb_status plot_check_name(const char *path, struct ebb_error *err)
{
    enum plot_format format;
    return format_of(path, &format, err);
}

enum ebb_status plot_write(const struct plot_chart *chart, const char *path, struct ebb_error *err)
{
    enum plot_format format = PLOT_SVG;
    struct plot_figure figure = {0};
    struct plot_layout layout = {0};
    struct ebb_str script, picture;
    EBB_TRY(format_of(path, &format, err));
    ebb_str_init(&script);
    ebb_str_init(&picture);
    enum ebb_status status = plot_figure_init(&figure, chart, err);
    if (status != EBB_OK)
        goto out;
    status = plot_layout_init(&layout, &figure, err);
    if (status != EBB_OK)
        goto out;
    plot_script_add(&script, &figure, &layout, format);
    if (format != PLOT_SVG) /* a browser has its own fonts */
        plot_gnuplot_tame(&script);
    status = ebb_str_status(&script, err);
    if (status == EBB_OK)
        status =
            plot_gnuplot_run(ebb_str_c(&script), script.length, PLOT_TIMEOUT_NS, &picture, err);
    if (status == EBB_OK && format == PLOT_SVG)
        sign_svg(&picture, chart);
    if (status == EBB_OK)
        status = ebb_str_status(&picture, err);
    if (status == EBB_OK)
        status = ebb_file_write_atomic(path, ebb_str_c(&picture), picture.length, err);
out:
    plot_layout_fini(&layout);
    plot_figure_fini(&figure);
    ebb_str_fini(&picture);
    ebb_str_fini(&script);
    return status;
}
