/* rest_logs.c - what a trial printed. */
#include <string.h>

#include "base/utf8.h"
#include "serve/rest.h"

/* Bytes as text: what is not UTF-8 becomes U+FFFD. */
static void write_bytes(struct ebb_json_writer *w, struct ebb_str *scratch, const char *data,
                        size_t length)
{
    ebb_str_clear(scratch);
    for (size_t i = 0; i < length;) {
        size_t n = ebb_utf8_length(data + i, data + length);
        if (n > 0)
            ebb_str_addn(scratch, data + i, n);
        else
            ebb_str_add(scratch, "\xef\xbf\xbd");
        i += n > 0 ? n : 1;
    }
    ebb_jsonw_stringn(w, ebb_str_c(scratch), scratch->length);
}

struct log_query {
    int64_t after, before, tail, limit;
    const char *level, *search; /* "" = all */
};

static struct log_query read_query(struct serve_rest *r)
{
    static const char *const levels[] = {"", "DEBUG", "INFO", "WARNING", "ERROR"};
    const char *level = serve_query_text(r, "level"), *search = serve_query_text(r, "search");
    struct log_query q = {.after = serve_query_int(r, "greater_than_id", 0, 0),
                          .before = serve_query_int(r, "less_than_id", INT64_MAX, 0),
                          .tail = serve_query_int(r, "tail", 0, 0),
                          .limit = serve_query_int(r, "limit", 1000, 0),
                          .level = level != NULL ? level : "",
                          .search = search != NULL ? search : ""};
    bool is_level = false;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        is_level |= strcmp(levels[i], q.level) == 0;
    if (!is_level)
        serve_query_bad(r, "level", q.level, "DEBUG, INFO, WARNING, ERROR");
    q.limit = q.tail > 0 ? q.tail : q.limit;
    q.limit = q.limit > 100000 ? 100000 : q.limit;
    return q;
}

/* Messages are bytes, so they are looked through here: SQL of both engines has no way to. */
static bool is_found(const struct log_query *q, const struct exp_db_log *row)
{
    return q->search[0] == '\0' ||
           memmem(row->message.data, row->message.length, q->search, strlen(q->search)) != NULL;
}

static void write_line(struct ebb_json_writer *w, struct ebb_str *scratch,
                       const struct exp_db_log *row)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "id", row->id);
    serve_key_time(w, "time", row->time);
    ebb_jsonw_key_string(w, "level", row->level);
    ebb_jsonw_key_int(w, "rank", 0);
    ebb_jsonw_key(w, "message");
    write_bytes(w, scratch, row->message.data, row->message.length);
    ebb_jsonw_object_end(w);
}

/* The lines of a query, one after the other, until `limit` of them are found; *last is the id of
 * the last one looked at, *is_end: there are no more. w NULL: only find. */
static enum ebb_status walk(struct serve_rest *r, const struct log_query *q, bool is_backward,
                            struct ebb_json_writer *w, int64_t *last, bool *is_end)
{
    struct exp_db_log_range range = {
        .trial_id = r->id, .after = q->after, .before = q->before, .level = q->level};
    struct exp_db_log row;
    struct ebb_str scratch = {0};
    int64_t found = 0;
    struct exp_db_cursor c = is_backward ? exp_db_logs_backward(r->db, &range, &row, r->err)
                                         : exp_db_logs(r->db, &range, &row, r->err);
    *is_end = false;
    while (found < q->limit && !*is_end) {
        *is_end = !exp_db_fetch(&c);
        if (*is_end)
            break;
        *last = row.id;
        if (!is_found(q, &row))
            continue;
        found++;
        if (w != NULL)
            write_line(w, &scratch, &row);
    }
    ebb_str_fini(&scratch);
    return exp_db_end(&c);
}

/* *last: the id of the newest line that need not be looked at again. */
static enum ebb_status write_logs(struct serve_rest *r, int64_t newest, int64_t *last)
{
    struct log_query q = read_query(r);
    bool is_end = true;
    if (serve_query_int(r, "rank", 0, 0) == 0) { /* the only one there is */
        if (q.tail > 0) {
            int64_t first = 0;
            EBB_TRY(walk(r, &q, true, NULL, &first, &is_end));
            q.after = !is_end && first - 1 > q.after ? first - 1 : q.after;
        }
        EBB_TRY(walk(r, &q, false, &r->w, last, &is_end));
        is_end |= q.tail > 0;
    }
    if (is_end && q.before > newest && *last < newest)
        *last = newest;
    return EBB_OK;
}

/* Will it print no more? What has no master at hand goes by the row. */
static enum ebb_status read_end(struct serve_rest *r, bool *is_over)
{
    struct exp_db_trial_shown row;
    struct exp_master_trial t = {0};
    EBB_TRY(serve_find(r, exp_db_trial_show(r->db, EXP_DB_ID(r->id), &row, r->err), "no trial %lld",
                       (long long)r->id));
    *is_over = r->m == NULL ? strcmp(row.state, "ACTIVE") != 0
                            : !exp_master_trial(r->m, r->id, &t) || t.is_over;
    return EBB_OK;
}

static enum ebb_status logs(struct serve_rest *r)
{
    struct exp_db_id newest = {0};
    int64_t last = serve_query_int(r, "greater_than_id", 0, 0);
    bool is_over;
    EBB_TRY(read_end(r, &is_over));
    EBB_TRY(exp_db_only(exp_db_last_log(r->db, EXP_DB_ID(r->id), &newest, r->err), NULL, NULL));
    serve_begin_list(r, "logs");
    EBB_TRY(write_logs(r, newest.id, &last));
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_int(&r->w, "next", last);
    ebb_jsonw_key_bool(&r->w, "is_over", is_over && last >= newest.id);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/trials/#/logs", logs, "what it printed", SERVE_PAGED | SERVE_WAITS},
};
const struct serve_routes serve_routes_logs = SERVE_ROUTES(routes);
