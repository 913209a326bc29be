/* csv_read.c - see csv.h. */
#include "data/csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"

enum { MOST_COLUMNS = 65536 };

enum ebb_status data_csv_wrong(const struct data_csv *r, size_t column, const char *what,
                               struct ebb_error *err)
{
    const char *name = column < r->column_count ? r->names[column] : "";
    return ebb_fail(err, EBB_EINPUT, "%s:%" PRIu64 ": column %zu%s%s%s: %s", r->file.path, r->line,
                    column + 1, *name ? " (" : "", name, *name ? ")" : "", what);
}

static bool at_line_end(const struct data_csv *r)
{
    return r->at >= r->length || r->bytes[r->at] == '\n' ||
           (r->bytes[r->at] == '\r' && (r->at + 1 >= r->length || r->bytes[r->at + 1] == '\n'));
}

static void end_row(struct data_csv *r)
{
    r->at += r->at < r->length && r->bytes[r->at] == '\r';
    r->at += r->at < r->length;
    r->line++;
    r->is_last = true;
}

/* The next field; is_last tells whether it ended its row. */
static enum ebb_status next_field(struct data_csv *r, size_t column, struct ebb_error *err)
{
    bool is_quoted = r->at < r->length && r->bytes[r->at] == '"';
    r->field_length = 0;
    r->is_last = false;
    r->at += is_quoted;
    uint64_t begin = r->line;
    for (;; r->at++) {
        if (is_quoted && r->at >= r->length) {
            r->line = begin;
            return data_csv_wrong(r, column, "a quoted field has no end", err);
        }
        if (is_quoted && r->bytes[r->at] == '"') {
            if (r->at + 1 < r->length && r->bytes[r->at + 1] == '"') {
                r->at++;
            } else {
                r->at++;
                is_quoted = false;
                if (!at_line_end(r) && r->bytes[r->at] != r->separator)
                    return data_csv_wrong(r, column, "text follows a quoted field", err);
            }
        }
        if (!is_quoted && (at_line_end(r) || r->bytes[r->at] == r->separator))
            break;
        if (r->field_length + 1 >= DATA_CSV_FIELD)
            return data_csv_wrong(r, column, "a field is longer than 4095 bytes", err);
        r->line += is_quoted && r->bytes[r->at] == '\n';
        r->field[r->field_length++] = r->bytes[r->at];
    }
    while (r->field_length && r->field[r->field_length - 1] == ' ')
        r->field_length--;
    r->field[r->field_length] = '\0';
    if (at_line_end(r))
        end_row(r);
    else
        r->at++;
    return EBB_OK;
}

/* ---- the file --------------------------------------------------------------------------------- */

static enum ebb_status read_header(struct data_csv *r, struct ebb_error *err)
{
    while (!r->is_last || r->column_count == 0) {
        if (r->at >= r->length)
            return ebb_fail(err, EBB_EINPUT, "%s: no row with the names of the columns",
                            r->file.path);
        EBB_TRY(next_field(r, r->column_count, err));
        if (r->column_count == MOST_COLUMNS)
            return data_csv_wrong(r, r->column_count, "more than 65536 columns", err);
        EBB_TRY(
            ebb_grow(&r->names, &r->column_capacity, r->column_count + 1, sizeof *r->names, err));
        r->names[r->column_count] = NULL;
        EBB_TRY(ebb_copy_text(&r->names[r->column_count], r->field, err));
        r->column_count++;
    }
    return EBB_OK;
}

enum ebb_status data_csv_open(struct data_csv *r, const char *folder, const char *name,
                              const struct data_values *v, struct ebb_error *err)
{
    static const char separators[] = {',', ';', '\t'};
    r->separator = separators[v->separator];
    r->line = 1;
    EBB_TRY(data_file_open_in(&r->file, folder, name, err));
    r->length = (size_t)r->file.length;
    EBB_TRY(ebb_new(&r->bytes, r->length + 1, 1, err));
    EBB_TRY(data_file_read(&r->file, 0, r->bytes, r->length, err));
    if (r->length >= 3 && memcmp(r->bytes, "\xef\xbb\xbf", 3) == 0)
        r->at = 3;
    return read_header(r, err);
}

void data_csv_close(struct data_csv *r)
{
    for (size_t i = 0; i < r->column_count; i++)
        ebb_free(r->names[i]);
    ebb_free(r->names);
    ebb_free(r->bytes);
    data_file_close(&r->file);
}

bool data_csv_row(struct data_csv *r)
{
    while (r->at < r->length && at_line_end(r)) /* an empty line */
        end_row(r);
    return r->at < r->length;
}

enum ebb_status data_csv_fields(struct data_csv *r, data_csv_take take, void *context,
                                struct ebb_error *err)
{
    uint64_t line = r->line;
    r->is_last = false;
    for (size_t i = 0; i < r->column_count; i++) {
        EBB_TRY(next_field(r, i, err));
        uint64_t after = r->line;
        r->line = line; /* of messages */
        enum ebb_status status =
            r->is_last == (i + 1 == r->column_count) ? take(context, r, i, err)
            : r->is_last
                ? data_csv_wrong(r, i, "the row ends here: it has less fields than the first", err)
                : data_csv_wrong(r, i, "the row goes on: it has more fields than the first", err);
        r->line = after;
        EBB_TRY(status);
    }
    return EBB_OK;
}

void data_csv_skip(struct data_csv *r)
{
    while (!r->is_last && r->at < r->length && !at_line_end(r))
        r->at++;
    if (!r->is_last)
        end_row(r);
}

enum ebb_status data_csv_unknown(const struct data_csv *r, const char *key, const char *pattern,
                                 struct ebb_error *err)
{
    struct ebb_str names = {0}, near = {0};
    for (size_t i = 0; i < r->column_count; i++)
        if (!strchr(r->names[i], ' '))
            ebb_words_add(&names, r->names[i]);
    ebb_say_nearest(ebb_str_c(&names), pattern, strlen(pattern), &near);
    if (r->column_count == 1) /* likely of another kind of table */
        ebb_str_printf(&near, "; its only one is '%.100s': is data.separator another?",
                       r->names[0]);
    enum ebb_status status = ebb_fail(err, EBB_EINPUT, "data.%s: %s has no column '%s'%s", key,
                                      r->file.path, pattern, ebb_str_c(&near));
    ebb_str_fini(&names);
    ebb_str_fini(&near);
    return status;
}

/* ---- words ------------------------------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum ebb_status data_words_sort(const struct ebb_names *words, struct ebb_names *classes,
                                struct ebb_error *err)
{
    char **sorted;
    EBB_TRY(ebb_new(&sorted, words->count + 1, sizeof *sorted, err));
    if (words->count)
        memcpy(sorted, words->items, words->count * sizeof *sorted);
    qsort(sorted, words->count, sizeof *sorted, by_text);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < words->count && status == EBB_OK; i++)
        if (i == 0 || strcmp(sorted[i], sorted[i - 1]) != 0)
            status = ebb_names_add(classes, sorted[i], err);
    ebb_free(sorted);
    return status;
}

int64_t data_words_find(const struct ebb_names *classes, const char *word)
{
    char *const *at = classes->count ? bsearch(&word, classes->items, classes->count,
                                               sizeof *classes->items, by_text)
                                     : NULL;
    return at ? at - classes->items : -1;
}

bool data_is_class(double value)
{
    return value >= 0 && value < 1e6 && floor(value) >= value;
}
