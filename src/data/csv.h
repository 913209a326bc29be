/* csv.h - rows and fields of a table (RFC 4180): fields in quotes may hold separators, line ends and
 * doubled quotes. The first row has the names of the columns. Private. */
#ifndef EBB_DATA_CSV_H
#define EBB_DATA_CSV_H

#include "data/internal.h"

enum { DATA_CSV_FIELD = 4096 };

struct data_csv {
    struct data_file file;
    char *bytes; /* owned: the whole file */
    size_t length, at;
    uint64_t line;
    char separator;
    char **names; /* owned, of the columns */
    size_t column_count, column_capacity;
    char field[DATA_CSV_FIELD]; /* that was read last */
    size_t field_length;
    bool is_last; /* it ended its row */
};

/* The row of names is read. Close it also when this fails. */
enum ebb_status data_csv_open(struct data_csv *csv, const char *folder, const char *name,
                              const struct data_values *values, struct ebb_error *err);
void data_csv_close(struct data_csv *csv);
/* Is there another row? Empty lines are passed over. */
bool data_csv_row(struct data_csv *csv);
/* The fields of a row, each handed to `take`; a row with less or more than there are columns is an
 * error. Messages name the row's first line. */
typedef enum ebb_status (*data_csv_take)(void *context, struct data_csv *csv, size_t column,
                                         struct ebb_error *err);
enum ebb_status data_csv_fields(struct data_csv *csv, data_csv_take take, void *context,
                                struct ebb_error *err);
/* Go on behind a row that was bad. */
void data_csv_skip(struct data_csv *csv);
/* "path:line: column 3 (name): what" with EBB_EINPUT. */
enum ebb_status data_csv_wrong(const struct data_csv *csv, size_t column, const char *what,
                               struct ebb_error *err);
/* data.key names a column that is not there: the nearest is told. */
enum ebb_status data_csv_unknown(const struct data_csv *csv, const char *key, const char *pattern,
                                 struct ebb_error *err);

/* ---- classes that are words ---- */

/* The words, each once, sorted: their places are the classes. */
enum ebb_status data_words_sort(const struct ebb_names *words, struct ebb_names *classes,
                                struct ebb_error *err);
/* -1: it is none of them. */
int64_t data_words_find(const struct ebb_names *classes, const char *word);
/* A class that is a number: a whole one from 0 to 10^6. */
bool data_is_class(double value);

#endif
