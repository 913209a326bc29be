/* gnuplot.h - run gnuplot once: a script in, a picture out. Private to this folder.
 *
 * The script is handed over as the child's standard input and the picture comes back on its
 * standard output, both as files in memory: no shell, no name on disk, no pipe that could fill up.
 * The user's gnuplot settings are not read. */
#ifndef EBB_PLOT_GNUPLOT_H
#define EBB_PLOT_GNUPLOT_H

#include "base/str.h"

#define PLOT_TIMEOUT_NS (60ull * 1000 * 1000 * 1000)

/* Appends the picture to out. EBB_EUNSUPPORTED: gnuplot is not installed; EBB_ELIMIT: it did not
 * end in time; EBB_EIO: it failed, with its own first words. */
enum ebb_status plot_gnuplot_run(const char *script, size_t length, uint64_t timeout_ns,
                                 struct ebb_str *out, struct ebb_error *err);

/* Replace characters of a script that no installed font can draw by '?'. gnuplot's bitmap and PDF
 * output turns such a character into page-wide black shapes (seen with 5.4). Latin, Greek, Cyrillic
 * and common signs are taken as drawable, since Debian installs no gnuplot without a font for them;
 * for the rest fontconfig's fc-list is asked, and where that is missing the answer is no. */
void plot_gnuplot_tame(struct ebb_str *script);

#endif
