/* text.h - words on charts: cleaned, measured and cut. Private to this folder. */
#ifndef EBB_PLOT_TEXT_H
#define EBB_PLOT_TEXT_H

#include <stddef.h>

#include "base/str.h"

#define PLOT_BOLD 1.13 /* bold letters are wider by this */

/* Control characters become blanks, broken UTF-8 becomes U+FFFD, and of a text longer than
 * `max_columns` the head is kept with "…". */
void plot_text_clean(struct ebb_str *out, const char *text, size_t length, size_t max_columns);
void plot_text_xml(struct ebb_str *out, const char *text); /* cleaned and escaped */

bool plot_has_text(const char *text);       /* neither NULL nor empty */
size_t plot_text_columns(const char *text); /* code points after cleaning */

/* Width on paper, in pixels, at a font size; by the widths of DejaVu Sans, the widest of the fonts
 * that charts name. */
double plot_text_pixels(const char *text, double font_size);
/* Columns to keep for plot_text_clean, so that no more than `pixels` are taken. */
size_t plot_text_fit(const char *text, size_t length, double pixels, double font_size);

/* One line of at most `columns` code points, broken at a blank or a newline: returns its bytes and
 * sets *next to where the following line starts (NULL at the end). */
size_t plot_text_line(const char *text, size_t columns, const char **next);

#endif
