/* points.c - points of methods: CSV in and out, step curves. */
#include "study/points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"

#define MAX_CSV ((size_t)64 << 20)

void study_points_fini(struct study_points *points)
{
    ebb_free(points->items);
}

enum ebb_status study_points_add(struct study_points *points, const struct study_point *point,
                                 struct ebb_error *err)
{
    EBB_TRY(
        ebb_grow(&points->items, &points->capacity, points->count + 1, sizeof *points->items, err));
    points->items[points->count++] = *point;
    return EBB_OK;
}

bool study_point_is_ok(const struct study_point *point)
{
    return strcmp(point->status, "ok") == 0;
}

bool study_point_is_of(const struct study_point *point, const char *method)
{
    return study_point_is_ok(point) && strcmp(point->method, method) == 0;
}

enum ebb_status study_points_add_row(struct study_points *points, const struct study_row *row,
                                     struct ebb_error *err)
{
    const struct planner_result *r = &row->result;
    const struct planner_facts *facts = &row->graph->facts;
    bool is_limited = row->request.budget_bytes != UINT64_MAX;
    if (!row->is_done)
        return EBB_OK;
    struct study_point point = {.budget = is_limited ? (double)row->request.budget_bytes : NAN,
                                .cost = (double)r->cost,
                                .overhead = study_overhead(row),
                                .peak = (double)r->peak_bytes,
                                .total = (double)(r->peak_bytes + facts->fixed_bytes),
                                .lower_bound = r->lower_bound,
                                .seconds = r->seconds,
                                .bound = r->lower_bound / (double)facts->base_cost};
    snprintf(point.method, sizeof point.method, "%s", row->label);
    snprintf(point.status, sizeof point.status, "%s", planner_status_text(r->status));
    return study_points_add(points, &point, err);
}

/* ---- CSV ------------------------------------------------------------------------------------ */

#define COLUMNS 10

enum ebb_status study_points_write(const struct study_points *points, const char *path,
                                   struct ebb_error *err)
{
    struct ebb_file_out out;
    EBB_TRY(ebb_file_out_open(&out, path, err));
    fprintf(out.stream, "method,budget_bytes,status,cost,overhead,peak_bytes,total_bytes,"
                        "lower_bound,seconds,bound_overhead\n");
    for (size_t i = 0; i < points->count; i++) {
        const struct study_point *p = &points->items[i];
        fprintf(out.stream, "%s,", p->method);
        if (!isnan(p->budget))
            fprintf(out.stream, "%.0f", p->budget);
        fprintf(out.stream, ",%s", p->status);
        if (study_point_is_ok(p))
            fprintf(out.stream, ",%.0f,%.9f,%.0f,%.0f", p->cost, p->overhead, p->peak, p->total);
        else
            fprintf(out.stream, ",,,,");
        if (isnan(p->seconds))
            fprintf(out.stream, ",0,0,0\n");
        else
            fprintf(out.stream, ",%.17g,%.3f,%.9f\n", p->lower_bound, p->seconds, p->bound);
    }
    return ebb_file_out_commit(&out, err);
}

static double number_or(const char *text, double otherwise)
{
    double value;
    return ebb_parse_double(text, &value) ? value : otherwise;
}

/* One line without its end, which is cut into fields; false: it has not as many as it should. */
static bool read_line(char *line, struct study_point *point)
{
    char *field[COLUMNS];
    size_t count = 0;
    for (char *p = line; p && count < COLUMNS; count++) {
        field[count] = p;
        p = strchr(p, ',');
        if (p)
            *p++ = '\0';
    }
    if (count != COLUMNS)
        return false;
    *point = (struct study_point){.budget = number_or(field[1], NAN),
                                  .cost = number_or(field[3], NAN),
                                  .overhead = number_or(field[4], NAN),
                                  .peak = number_or(field[5], NAN),
                                  .total = number_or(field[6], NAN),
                                  .lower_bound = number_or(field[7], NAN),
                                  .seconds = number_or(field[8], NAN),
                                  .bound = number_or(field[9], 0)};
    snprintf(point->method, sizeof point->method, "%s", field[0]);
    snprintf(point->status, sizeof point->status, "%s", field[2]);
    return true;
}

enum ebb_status study_points_read(struct study_points *points, const char *path,
                                  struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, MAX_CSV, err));
    enum ebb_status status = EBB_OK;
    size_t number = 0;
    for (size_t at = 0, length; at < view.length && status == EBB_OK; at += length + 1) {
        const char *end = memchr(view.data + at, '\n', view.length - at);
        char line[512];
        struct study_point point;
        length = end ? (size_t)(end - view.data) - at : view.length - at;
        snprintf(line, sizeof line, "%.*s", (int)(length < 511 ? length : 511), view.data + at);
        if (number++ == 0)
            continue; /* names of the columns */
        status =
            read_line(line, &point)
                ? study_points_add(points, &point, err)
                : ebb_fail(err, EBB_EINPUT, "%s:%zu: other than %d columns", path, number, COLUMNS);
    }
    ebb_file_view_close(&view);
    return status;
}

/* ---- curves --------------------------------------------------------------------------------- */

static int compare_xy(const void *a, const void *b)
{
    const struct study_xy *p = a, *q = b;
    return p->x != q->x ? (p->x < q->x ? -1 : 1) : p->y < q->y ? -1 : p->y > q->y;
}

void study_sort_xy(struct study_xy *list, size_t count)
{
    if (count > 0)
        qsort(list, count, sizeof *list, compare_xy);
}

size_t study_points_steps(const struct study_points *points, const char *method,
                          struct study_xy *room, double *x, double *y)
{
    size_t count = 0, steps = 0;
    for (size_t i = 0; i < points->count; i++)
        if (study_point_is_of(&points->items[i], method))
            room[count++] =
                (struct study_xy){points->items[i].total / 1e9, points->items[i].overhead};
    study_sort_xy(room, count);
    for (size_t i = 0; i < count; i++)
        if (steps == 0 || room[i].y < y[steps - 1]) {
            x[steps] = room[i].x;
            y[steps++] = room[i].y;
        }
    return steps;
}

struct plot_series study_step_series(const char *name, const double *x, const double *y,
                                     size_t count)
{
    return (struct plot_series){
        .name = name, .style = count > 1 ? PLOT_STEP : PLOT_POINTS, .x = x, .y = y, .count = count};
}
