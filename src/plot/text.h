/* text.h - words on charts: cleaned, measured, cut, and quoted so that gnuplot prints them as they
 * are. Private to this folder. */
#ifndef EBB_PLOT_TEXT_H
#define EBB_PLOT_TEXT_H

#include <stddef.h>

#include "base/str.h"

/* Append `text` as a gnuplot string constant. Single quotes: inside them gnuplot expands neither
 * backslashes nor backquotes nor macros; enhanced markup is off in every terminal we open. Control
 * characters become blanks, broken UTF-8 becomes U+FFFD, and of a text longer than `max_columns`
 * the head is kept with "…". */
void plot_text_quote(struct ebb_str *out, const char *text, size_t max_columns);

/* The same cleaning and cutting without quotes: for the terminal and for XML (escaped when is_xml).
 */
void plot_text_clean(struct ebb_str *out, const char *text, size_t length, size_t max_columns);
void plot_text_xml(struct ebb_str *out, const char *text);

size_t plot_text_columns(const char *text); /* code points after cleaning */

/* Width on paper, in pixels, at a font size: 0.58 em per character, measured on DejaVu Sans and
 * Helvetica as the mean of labels such as ours; callers leave room for the error. */
double plot_text_pixels(const char *text, double font_size);

/* One line of at most `columns` code points, broken at a blank or a newline: returns its bytes and
 * sets *next to where the following line starts (NULL at the end). */
size_t plot_text_line(const char *text, size_t columns, const char **next);

#endif
