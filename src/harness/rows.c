/* rows.c - repetitions as CSV: the published columns, those of our own, those of the command. */
#include "harness/results.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/report.h"

#define MAX_BYTES ((size_t)64 << 20)
#define NOT_MEASURED (-1e-6) /* S1 */
#define GRADIENTS "gradients_sha256"
#define DECIDED "decided_by"

const struct harness_measure_info harness_measure_info[HARNESS_MEASURES] = {
#define X(name, text, flags, about) {text, flags, about},
    HARNESS_MEASURE_LIST(X)
#undef X
};

static const char *const counters[] = {"input", "rep", "num_retries"};
enum { COUNTERS = 3 };

void harness_row_init(struct harness_row *row)
{
    *row = (struct harness_row){0};
    for (int m = 0; m < HARNESS_MEASURES; m++)
        row->values[m] = NAN;
}

enum ebb_status harness_rows_add(struct harness_rows *rows, const struct harness_row *row,
                                 struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&rows->items, &rows->capacity, rows->count + 1, sizeof *rows->items, err));
    rows->items[rows->count++] = *row;
    return EBB_OK;
}

void harness_rows_fini(struct harness_rows *rows)
{
    ebb_free(rows->items);
    *rows = (struct harness_rows){0};
}

static bool is_column(int m)
{
    return !(harness_measure_info[m].flags & HARNESS_DERIVED);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Quoted when it holds what ends a field. */
static void add_field(struct ebb_str *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        ebb_str_add(out, text);
        return;
    }
    ebb_str_addc(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            ebb_str_addc(out, '"');
        ebb_str_addc(out, *text);
    }
    ebb_str_addc(out, '"');
}

static void add_param(struct ebb_str *out, const struct ebb_doc_node *node)
{
    struct ebb_json_writer w;
    struct ebb_str text;
    ebb_str_init(&text);
    ebb_jsonw_init(&w, &text, 0);
    ebb_doc_write_json(node, &w);
    add_field(out, node->kind == EBB_DOC_STRING ? node->text : ebb_str_c(&text));
    out->failed |= text.failed;
    ebb_str_fini(&text);
}

/* Is the name that of a column already? */
static bool is_taken(const char *name)
{
    for (int m = 0; m < HARNESS_MEASURES; m++)
        if (strcmp(name, harness_measure_info[m].name) == 0)
            return true;
    return strcmp(name, GRADIENTS) == 0 || strcmp(name, DECIDED) == 0 ||
           ebb_name_index(name, counters, COUNTERS) >= 0;
}

static void add_params(struct ebb_str *out, const struct ebb_doc_node *params, bool is_names)
{
    for (size_t i = 0; params && i < params->count; i++) {
        if (is_taken(params->keys[i]->text))
            continue;
        ebb_str_addc(out, ',');
        if (is_names)
            add_field(out, params->keys[i]->text);
        else
            add_param(out, params->items[i]);
    }
    ebb_str_addc(out, '\n');
}

void harness_rows_write(const struct harness_rows *rows, const struct ebb_doc_node *params,
                        struct ebb_str *out)
{
    char text[32];
    for (int c = 0; c < COUNTERS; c++)
        ebb_str_printf(out, "%s%s", c ? "," : "", counters[c]);
    for (int m = 0; m < HARNESS_MEASURES; m++)
        if (is_column(m))
            ebb_str_printf(out, ",%s", harness_measure_info[m].name);
    ebb_str_add(out, "," GRADIENTS "," DECIDED);
    add_params(out, params, true);
    for (size_t i = 0; i < rows->count; i++) {
        const struct harness_row *r = &rows->items[i];
        ebb_str_printf(out, "%" PRId64 ",%" PRId64 ",%" PRId64, r->input, r->rep, r->num_retries);
        for (int m = 0; m < HARNESS_MEASURES; m++) {
            double value = isnan(r->values[m]) ? NOT_MEASURED : r->values[m];
            if (is_column(m))
                ebb_str_printf(out, ",%s", ebb_format_double(value, text, sizeof text));
        }
        ebb_str_addc(out, ',');
        add_field(out, r->gradients);
        ebb_str_addc(out, ',');
        add_field(out, r->decided_by);
        add_params(out, params, false);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

enum {
    COLUMNS_MAX = 256,
    FIELD_MAX = 256,
    PASS_OVER = -1,
    HASH = HARNESS_MEASURES + COUNTERS,
    WAY
};

struct reader {
    const char *name, *at, *end;
    size_t line, column, column_count;
    int columns[COLUMNS_MAX]; /* which value a column is; PASS_OVER: none of ours */
    char field[FIELD_MAX];    /* longer ones are cut: none of ours is */
    bool is_last;             /* the field ended its line */
};

/* The next field; what is quoted may hold line ends, which are counted behind it. */
static void next_field(struct reader *r)
{
    size_t n = 0, lines = 0;
    bool is_quoted = r->at < r->end && *r->at == '"';
    r->at += is_quoted;
    for (; r->at < r->end; r->at++) {
        char c = *r->at;
        if (is_quoted && c == '"') {
            is_quoted = r->at + 1 < r->end && r->at[1] == '"';
            if (!is_quoted)
                continue;
            r->at++;
        } else if (!is_quoted && (c == ',' || c == '\n')) {
            break;
        }
        lines += c == '\n';
        if (n + 1 < sizeof r->field && c != '\r')
            r->field[n++] = c;
    }
    r->field[n] = '\0';
    r->is_last = r->at == r->end || *r->at == '\n';
    r->at += r->at < r->end;
    r->column++;
    r->line += lines + r->is_last;
}

static int column_of(const char *name)
{
    for (int m = 0; m < HARNESS_MEASURES; m++)
        if (is_column(m) && strcmp(name, harness_measure_info[m].name) == 0)
            return m;
    if (strcmp(name, GRADIENTS) == 0)
        return HASH;
    if (strcmp(name, DECIDED) == 0)
        return WAY;
    int c = ebb_name_index(name, counters, COUNTERS);
    return c < 0 ? PASS_OVER : HARNESS_MEASURES + c;
}

static enum ebb_status read_names(struct reader *r, struct ebb_error *err)
{
    bool has_time = false;
    do {
        next_field(r);
        if (r->column_count == COLUMNS_MAX)
            return ebb_fail(err, EBB_EINPUT, "%s:1: more than %d columns", r->name, COLUMNS_MAX);
        r->columns[r->column_count++] = column_of(r->field);
        has_time |= r->columns[r->column_count - 1] == HARNESS_TIME;
    } while (!r->is_last);
    return has_time ? EBB_OK
                    : ebb_fail(err, EBB_EINPUT,
                               "%s:1: no column 'time': not repetitions of a measurement", r->name);
}

static enum ebb_status read_field(struct reader *r, size_t line, int which, struct harness_row *row,
                                  struct ebb_error *err)
{
    int64_t *const places[COUNTERS] = {&row->input, &row->rep, &row->num_retries};
    double value;
    if (which == PASS_OVER)
        return EBB_OK;
    if (which == HASH) {
        snprintf(row->gradients, sizeof row->gradients, "%s", r->field);
        return EBB_OK;
    }
    if (which == WAY) {
        snprintf(row->decided_by, sizeof row->decided_by, "%s", r->field);
        return EBB_OK;
    }
    bool is_good = ebb_parse_double(r->field, &value);
    if (which >= HARNESS_MEASURES)
        is_good = ebb_parse_i64(r->field, places[which - HARNESS_MEASURES]);
    if (!is_good) {
        struct ebb_str found;
        ebb_str_init(&found);
        ebb_say_quoted(r->field, strlen(r->field), &found);
        ebb_fail(err, EBB_EINPUT, "%s:%zu: column %zu: found \"%s\", allowed: a number", r->name,
                 line, r->column, ebb_str_c(&found));
        ebb_str_fini(&found);
        return EBB_EINPUT;
    }
    if (which < HARNESS_MEASURES && value != NOT_MEASURED)
        row->values[which] = value;
    return EBB_OK;
}

static enum ebb_status read_row(struct reader *r, struct harness_rows *rows, struct ebb_error *err)
{
    struct harness_row row;
    size_t line = r->line;
    harness_row_init(&row);
    r->column = 0;
    do {
        next_field(r);
        if (r->column == 1 && r->is_last && r->field[0] == '\0')
            return EBB_OK; /* an empty line */
        if (r->column <= r->column_count)
            EBB_TRY(read_field(r, line, r->columns[r->column - 1], &row, err));
    } while (!r->is_last);
    if (r->column != r->column_count)
        return ebb_fail(err, EBB_EINPUT, "%s:%zu: %zu columns where the first line names %zu",
                        r->name, line, r->column, r->column_count);
    return harness_rows_add(rows, &row, err);
}

enum ebb_status harness_rows_parse(struct harness_rows *rows, const char *name, const char *bytes,
                                   size_t length, struct ebb_error *err)
{
    struct reader r = {.name = name, .at = bytes, .end = bytes + length, .line = 1};
    EBB_TRY(read_names(&r, err));
    while (r.at < r.end)
        EBB_TRY(read_row(&r, rows, err));
    return EBB_OK;
}

enum ebb_status harness_rows_read(struct harness_rows *rows, const char *path,
                                  struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, MAX_BYTES, err));
    enum ebb_status status = harness_rows_parse(rows, path, view.data, view.length, err);
    ebb_file_view_close(&view);
    return status;
}
