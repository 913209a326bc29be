/* columns.h - tables of answers: a column is a row {header, key, kind}. Private to cli. */
#ifndef EBB_CLI_COLUMNS_H
#define EBB_CLI_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/doc.h"
#include "base/str.h"
#include "cli/cli.h"

enum cli_as {
    CLI_AS_TEXT,
    CLI_AS_NUMBER,
    CLI_AS_TIME,
    CLI_AS_PERCENT,
    CLI_AS_BYTES,
    CLI_AS_BOOL,   /* true, false; absent = false */
    CLI_AS_YES_NO, /* absent = yes */
    CLI_AS_JSON,
    CLI_AS_LIST,    /* "a, b" */
    CLI_AS_METRICS, /* of a step or validation: "loss 0.5, error 0.1" */
};

struct cli_column {
    const char *header;
    const char *key; /* of the row; "checkpoint.state" looks into a mapping; NULL = the row */
    enum cli_as kind;
    void (*show)(struct ebb_str *out, const struct ebb_doc_node *value, bool is_csv); /* or this */
};

struct cli_table *cli_columns_table(const struct cli_column *columns, size_t count);
/* The cells of one row. */
void cli_columns_add(struct cli_table *table, const struct cli_column *columns, size_t count,
                     const struct ebb_doc_node *row, bool is_csv);
/* A whole list (NULL or no list: no rows), to stdout. */
void cli_columns_show(const struct cli_column *columns, size_t count,
                      const struct ebb_doc_node *list, bool is_csv);

#endif
