/* write.c - charts as files: SVG as it is, PNG and PDF by the program rsvg-convert. */
#include "plot/plot.h"

#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/process.h"
#include "plot/svg.h"

#define TIMEOUT_NS (60ull * 1000 * 1000 * 1000)

struct format {
    const char *suffix, *name;
    const char *zoom; /* PNG: two dots per pixel, sharp on dense screens and on paper */
};

static enum ebb_status format_of(const char *path, const struct format **format,
                                 struct ebb_error *err)
{
    static const struct format formats[] = {
        {".svg", NULL, NULL}, {".png", "png", "2"}, {".pdf", "pdf", "1"}};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (n > 4 && strcasecmp(path + n - 4, formats[i].suffix) == 0) {
            *format = &formats[i];
            return EBB_OK;
        }
    return ebb_fail(err, EBB_EINPUT, "%s: a chart's name ends in .svg, .png or .pdf", path);
}

enum ebb_status plot_check_name(const char *path, struct ebb_error *err)
{
    const struct format *format;
    return format_of(path, &format, err);
}

enum ebb_status plot_svg(const struct plot_chart *chart, struct ebb_str *svg, struct ebb_error *err)
{
    struct plot_figure figure;
    struct plot_layout layout;
    EBB_TRY(plot_figure_init(&figure, chart, err));
    enum ebb_status status = plot_layout_init(&layout, &figure, err);
    if (status == EBB_OK) {
        plot_svg_add(svg, &figure, &layout);
        status = ebb_str_status(svg, err);
        plot_layout_fini(&layout);
    }
    plot_figure_fini(&figure);
    return status;
}

static enum ebb_status convert(const struct format *format, const struct ebb_str *svg,
                               struct ebb_str *out, struct ebb_error *err)
{
    const char *const argv[] = {"rsvg-convert", "--format",   format->name,
                                "--zoom",       format->zoom, NULL};
    const struct ebb_process process = {
        .argv = argv, .input = svg->data, .length = svg->length, .timeout_ns = TIMEOUT_NS};
    enum ebb_status status = ebb_process_run(&process, out, err);
    if (status == EBB_EUNSUPPORTED)
        return ebb_fail(err, status,
                        "plot: charts become PNG and PDF by rsvg-convert, which is not installed "
                        "here: apt-get install librsvg2-bin; .svg needs no program");
    return status == EBB_OK ? status : ebb_context(err, status, "plot");
}

enum ebb_status plot_write(const struct plot_chart *chart, const char *path, struct ebb_error *err)
{
    const struct format *format;
    struct ebb_str svg = {0}, converted = {0};
    EBB_TRY(format_of(path, &format, err));
    enum ebb_status status = plot_svg(chart, &svg, err);
    if (status == EBB_OK && format->name != NULL)
        status = convert(format, &svg, &converted, err);
    const struct ebb_str *picture = format->name != NULL ? &converted : &svg;
    EBB_THEN(status, ebb_file_write_atomic(path, ebb_str_c(picture), picture->length, err));
    ebb_str_fini(&converted);
    ebb_str_fini(&svg);
    return status;
}
