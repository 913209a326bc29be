/* dev.h - judges: a folder of reference cases is run through this program and every case compared.
 *
 *   dev_simrd      recorded runs of the published simulator: same decisions?
 *   dev_checkmate  planner strategies and optima: same cost and peak?
 *   dev_golden     kernels, gradients, optimizers and schedules against PyTorch's numbers
 *   dev_vectors    search, scheduling, retention and configuration
 *   dev_onnx       test models of the format ONNX: same numbers?
 *
 * A judge writes one line per failed case and counts. A file or case nobody knows is failed, never
 * skipped; but for ONNX, where ops and types that are refused by name are skipped. The status is about reading and memory; a failed case is no error. */
#ifndef EBB_DEV_DEV_H
#define EBB_DEV_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

struct dev_request {
    const char *dir;
    const char *dump; /* file for what was computed; NULL = none */
    FILE *out;        /* lines about cases */
    bool is_verbose;  /* golden, checkmate: about passed ones, too */
    int64_t threads;  /* of the kernels; cases at a time */

    bool is_library;    /* golden: small convolutions by the library, too */
    const char *device; /* golden: where ops run: NULL or cpu, far, cuda */

    const char *only;         /* checkmate: graphs whose file name has this text; NULL = all */
    const char *const *kinds; /* checkmate: folders; none = all */
    size_t kind_count;
    double time_limit; /* checkmate: seconds per case */
};

struct dev_counts {
    size_t passed, failed, skipped;
    bool is_broken; /* golden: something could not be run as it is written */
};

typedef enum ebb_status (*dev_judge_fn)(const struct dev_request *request,
                                        struct dev_counts *counts, struct ebb_error *err);

enum ebb_status dev_simrd(const struct dev_request *request, struct dev_counts *counts,
                          struct ebb_error *err);
enum ebb_status dev_checkmate(const struct dev_request *request, struct dev_counts *counts,
                              struct ebb_error *err);
enum ebb_status dev_golden(const struct dev_request *request, struct dev_counts *counts,
                           struct ebb_error *err);
enum ebb_status dev_vectors(const struct dev_request *request, struct dev_counts *counts,
                            struct ebb_error *err);
enum ebb_status dev_onnx(const struct dev_request *request, struct dev_counts *counts,
                         struct ebb_error *err);

#endif
