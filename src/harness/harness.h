/* harness.h - measurements of whole trainings: files say which trials, every trial is a child that
 * has the machine to itself, and what they say becomes results.
 *
 *     file -> trials -> children -> results -> charts
 *
 * Not through the master of experiments: a measurement wants a quiet machine, a time limit, and its
 * baseline first. Nothing here prints or exits; docs/pareto.md is the user's page. */
#ifndef EBB_HARNESS_HARNESS_H
#define EBB_HARNESS_HARNESS_H

#include "harness/chart.h"
#include "harness/report.h"
#include "harness/results.h"
#include "harness/runs.h"

#endif
