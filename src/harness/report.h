/* report.h - everything measured below a folder as one page: results of the harness, logs of
 * benchmarks, CSV files of training, charts.
 *
 * The page is one HTML file with its pictures inside: nothing is loaded from elsewhere, nothing
 * runs. Charts of results are drawn anew; SVG files that lie there are shown as images, which cannot
 * run anything either. Files that look like ours and cannot be read are listed with the reason. */
#ifndef EBB_HARNESS_REPORT_H
#define EBB_HARNESS_REPORT_H

#include "harness/results.h"

struct harness_report {
    const char *folder;
    const char *title;                        /* NULL: the folder's name */
    const char *made;                         /* when and by what; may be NULL */
    const struct harness_results *references; /* for slowdowns; may be NULL */
    size_t reference_count;
};

struct harness_reported { /* how many of each are in the page */
    size_t results, runs, charts, failed;
};

/* Appends the page to out. EBB_EINPUT: there is nothing to report. */
enum ebb_status harness_report_make(const struct harness_report *report, struct ebb_str *out,
                                    struct harness_reported *what, struct ebb_error *err);

#endif
