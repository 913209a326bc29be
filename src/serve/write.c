/* write.c - rows of the database as JSON, by columns (rest.h). */
#include <math.h>
#include <string.h>

#include "serve/rest.h"

void serve_key_int(struct ebb_json_writer *w, const char *key, int64_t value, bool is)
{
    ebb_jsonw_key(w, key);
    if (is)
        ebb_jsonw_int(w, value);
    else
        ebb_jsonw_null(w);
}

void serve_key_raw(struct ebb_json_writer *w, const char *key, const char *json)
{
    ebb_jsonw_key(w, key);
    if (json != NULL)
        ebb_jsonw_raw(w, json, strlen(json));
    else
        ebb_jsonw_null(w);
}

void serve_key_time(struct ebb_json_writer *w, const char *key, double time)
{
    ebb_jsonw_key(w, key);
    exp_time_write(w, time);
}

static void write_double(struct ebb_json_writer *w, const struct serve_column *c, double value,
                         const void *row)
{
    ebb_jsonw_key(w, c->key);
    if (c->as == SERVE_TIME)
        exp_time_write(w, value);
    else if (isnan(value))
        ebb_jsonw_null(w);
    else if (c->as == SERVE_METRIC)
        ebb_jsonw_metric(w,
                         exp_metric_unsigned(value, *(const bool *)((const char *)row + c->sense)));
    else
        ebb_jsonw_double(w, value);
}

void serve_write_row(struct ebb_json_writer *w, const struct serve_column *columns, size_t count,
                     const void *row)
{
    for (size_t i = 0; i < count; i++) {
        const struct serve_column *c = &columns[i];
        const void *member = (const char *)row + c->at;
        switch (c->as) {
        case SERVE_INT:
        case SERVE_COUNT: {
            int64_t value = *(const int64_t *)member;
            bool is = value != EXP_DB_NO_INT;
            serve_key_int(w, c->key, is ? value : 0, is || c->as == SERVE_COUNT);
            break;
        }
        case SERVE_BOOL:
            ebb_jsonw_key_bool(w, c->key, *(const bool *)member);
            break;
        case SERVE_TEXT:
            ebb_jsonw_key_string(w, c->key, *(const char *const *)member);
            break;
        case SERVE_RAW:
            serve_key_raw(w, c->key, *(const char *const *)member);
            break;
        case SERVE_DOUBLE:
        case SERVE_TIME:
        case SERVE_METRIC:
            write_double(w, c, *(const double *)member, row);
            break;
        }
    }
}

void serve_write_object(struct ebb_json_writer *w, const struct serve_column *columns, size_t count,
                        const void *row)
{
    ebb_jsonw_object(w);
    serve_write_row(w, columns, count, row);
    ebb_jsonw_object_end(w);
}

void serve_begin_list(struct serve_rest *r, const char *key)
{
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_array(&r->w, key);
}

void serve_end_list(struct serve_rest *r)
{
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
}

enum ebb_status serve_write_list(struct serve_rest *r, const char *key,
                                 const struct serve_column *columns, size_t count,
                                 struct exp_db_cursor cursor)
{
    serve_begin_list(r, key);
    while (exp_db_fetch(&cursor)) {
        serve_write_object(&r->w, columns, count, cursor.row);
    }
    serve_end_list(r);
    return exp_db_end(&cursor);
}

enum ebb_status serve_write_one(struct serve_rest *r, const struct serve_column *columns,
                                size_t count, struct exp_db_cursor cursor, const char *noun,
                                const char *name)
{
    bool is_there = exp_db_fetch(&cursor);
    if (is_there) {
        serve_write_object(&r->w, columns, count, cursor.row);
    }
    EBB_TRY(exp_db_end(&cursor));
    return is_there ? EBB_OK : serve_refuse(r, 404, "no %s %s", noun, name);
}
