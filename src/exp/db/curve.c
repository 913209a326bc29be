/* curve.c - the searcher's metric of a trial as a few points, kept as validations come: so that the
 * curves of ten thousand trials are ten thousand rows, not a million.
 *
 * When there are too many, every four neighbours become their least and greatest: no peak is lost.
 * The first and the last point stay as they are. */
#include <float.h>
#include <string.h>

#include "base/codec.h"
#include "exp/db/driver.h"

#define POINT 24 /* step, time, value: 8 bytes each, little-endian */
#define CAPACITY 128

struct curve {
    struct exp_db_curve_point points[CAPACITY];
    size_t count;
};

/* ---- bytes ---- */

static double to_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

size_t exp_db_curve_read(struct exp_db_bytes bytes, struct exp_db_curve_point *points, size_t room)
{
    size_t n = bytes.length / POINT < room ? bytes.length / POINT : room;
    for (size_t i = 0; i < n; i++) {
        const char *at = (const char *)bytes.data + i * POINT;
        points[i] = (struct exp_db_curve_point){.step = (int64_t)ebb_load_u64(at),
                                                .time = to_double(ebb_load_u64(at + 8)),
                                                .value = to_double(ebb_load_u64(at + 16))};
    }
    return n;
}

static enum ebb_status store(struct exp_db *db, int64_t experiment, int64_t trial,
                             const struct curve *c, struct ebb_error *err)
{
    char bytes[CAPACITY * POINT];
    for (size_t i = 0; i < c->count; i++) {
        ebb_store_u64(bytes + i * POINT, (uint64_t)c->points[i].step);
        ebb_store_u64(bytes + i * POINT + 8, to_bits(c->points[i].time));
        ebb_store_u64(bytes + i * POINT + 16, to_bits(c->points[i].value));
    }
    return exp_db_curve_write(
        db, &(struct exp_db_curve){trial, experiment, {bytes, c->count * POINT}}, err);
}

static enum ebb_status load(struct exp_db *db, int64_t trial, struct curve *c,
                            struct ebb_error *err)
{
    struct exp_db_blob row;
    struct exp_db_cursor rows = exp_db_curve_bytes(db, EXP_DB_ID(trial), &row, err);
    c->count = exp_db_fetch(&rows) ? exp_db_curve_read(row.bytes, c->points, CAPACITY) : 0;
    return exp_db_end(&rows);
}

/* ---- points ---- */

/* NaN is kept as the worst that there is: it must not stand for the greatest. */
static bool is_number(double value)
{
    return value < DBL_MAX;
}

static void thin(struct curve *c)
{
    size_t kept = 1;
    for (size_t at = 1; at + 1 < c->count; at += 4) {
        size_t end = at + 4 < c->count - 1 ? at + 4 : c->count - 1, low = at, high = at;
        for (size_t i = at; i < end; i++) {
            if (c->points[i].value < c->points[low].value)
                low = i;
            if (is_number(c->points[i].value) &&
                (c->points[i].value > c->points[high].value || !is_number(c->points[high].value)))
                high = i;
        }
        struct exp_db_curve_point first = c->points[low < high ? low : high];
        struct exp_db_curve_point second = c->points[low < high ? high : low];
        c->points[kept++] = first;
        if (low != high)
            c->points[kept++] = second;
    }
    c->points[kept++] = c->points[c->count - 1];
    c->count = kept;
}

static void append(struct curve *c, struct exp_db_curve_point point)
{
    while (c->count > 0 && c->points[c->count - 1].step >= point.step)
        c->count--;
    if (c->count == CAPACITY)
        thin(c);
    c->points[c->count++] = point;
}

enum ebb_status exp_db_validation_keep(struct exp_db *db, const struct exp_db_validation *v,
                                       int64_t experiment, struct ebb_error *err)
{
    struct curve c;
    EBB_TRY(exp_db_validation_add(db, v, err));
    if (v->signed_metric != v->signed_metric) /* it found none */
        return EBB_OK;
    EBB_TRY(load(db, v->trial_id, &c, err));
    append(&c, (struct exp_db_curve_point){v->step_id, v->end_time, v->signed_metric});
    return store(db, experiment, v->trial_id, &c, err);
}

enum ebb_status exp_db_curve_forget(struct exp_db *db, int64_t experiment,
                                    const struct exp_db_step_id *last, struct ebb_error *err)
{
    struct curve c;
    EBB_TRY(load(db, last->trial_id, &c, err));
    size_t before = c.count;
    while (c.count > 0 && c.points[c.count - 1].step > last->step_id)
        c.count--;
    return c.count == before ? EBB_OK : store(db, experiment, last->trial_id, &c, err);
}

/* ---- old rows ---- */

enum ebb_status exp_db_curves_old(struct exp_db *db, struct ebb_error *err)
{
    struct exp_db_old_point row;
    struct curve c = {0};
    int64_t trial = 0, experiment = 0;
    struct exp_db_cursor rows = exp_db_old_points(db, NULL, &row, err);
    while (exp_db_fetch(&rows)) {
        if (row.trial_id != trial && c.count > 0)
            rows.status = store(db, experiment, trial, &c, err);
        if (row.trial_id != trial)
            c.count = 0;
        trial = row.trial_id;
        experiment = row.experiment_id;
        append(&c, (struct exp_db_curve_point){row.step_id, row.end_time, row.signed_metric});
    }
    EBB_TRY(exp_db_end(&rows));
    return c.count > 0 ? store(db, experiment, trial, &c, err) : EBB_OK;
}
