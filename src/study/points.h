/* points.h - overhead versus memory as points of methods (private to study): CSV files of them, and
 * the step curves that charts draw. */
#ifndef EBB_STUDY_POINTS_H
#define EBB_STUDY_POINTS_H

#include "plot/plot.h"
#include "study/study.h"

void study_points_fini(struct study_points *points);
enum ebb_status study_points_add(struct study_points *points, const struct study_point *point,
                                 struct ebb_error *err);
bool study_point_is_ok(const struct study_point *point);
bool study_point_is_of(const struct study_point *point, const char *method); /* and ok */
/* A finished row; nothing is added for one that is not done. */
enum ebb_status study_points_add_row(struct study_points *points, const struct study_row *row,
                                     struct ebb_error *err);

/* Appends. */
enum ebb_status study_points_read(struct study_points *points, const char *path,
                                  struct ebb_error *err);

/* Curves: x and y have room for 2 x count entries. */
struct study_xy {
    double x, y;
};
void study_sort_xy(struct study_xy *list, size_t count);
/* Running minimum of the overhead over the total memory in GB; returns the number of steps. */
size_t study_points_steps(const struct study_points *points, const char *method,
                          struct study_xy *room, double *x, double *y);
struct plot_series study_step_series(const char *name, const double *x, const double *y,
                                     size_t count);

#endif
