/* script.h - a figure as a gnuplot script: text that depends on the chart alone. Private to this
 * folder. */
#ifndef EBB_PLOT_SCRIPT_H
#define EBB_PLOT_SCRIPT_H

#include "plot/layout.h"

enum plot_format { PLOT_SVG, PLOT_PNG, PLOT_PDF };

void plot_script_add(struct ebb_str *out, const struct plot_figure *figure,
                     const struct plot_layout *layout, enum plot_format format);

#endif
