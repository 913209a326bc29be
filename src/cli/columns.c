/* columns.c - see columns.h. */
#include "cli/columns.h"

#include <string.h>

#include "base/heap.h"
#include "cli/show.h"

static const struct ebb_doc_node *find(const struct ebb_doc_node *row, const char *key)
{
    const char *dot = key != NULL ? strchr(key, '.') : NULL;
    char first[CLI_CELL];
    if (key == NULL)
        return row;
    if (dot == NULL)
        return ebb_doc_get(row, key);
    snprintf(first, sizeof first, "%.*s", (int)(dot - key), key);
    return find(ebb_doc_get(row, first), dot + 1);
}

static const char *text_of(const struct ebb_doc_node *value)
{
    return value != NULL && value->kind == EBB_DOC_STRING ? value->text : "";
}

static bool is_true(const struct ebb_doc_node *value, bool fallback)
{
    return value != NULL && value->kind == EBB_DOC_BOOL ? value->boolean : fallback;
}

static void show_cell(struct ebb_str *out, enum cli_as kind, const struct ebb_doc_node *value)
{
    char buf[CLI_CELL];
    switch (kind) {
    case CLI_AS_TEXT:
        ebb_str_add(out, text_of(value));
        break;
    case CLI_AS_NUMBER:
        ebb_str_add(out, cli_show_number(value, buf));
        break;
    case CLI_AS_TIME:
        ebb_str_add(out, cli_show_time(value, buf));
        break;
    case CLI_AS_PERCENT:
        ebb_str_add(out, cli_show_percent(value, buf));
        break;
    case CLI_AS_BYTES:
        ebb_str_add(out, cli_show_bytes(value, buf));
        break;
    case CLI_AS_BOOL:
        ebb_str_add(out, is_true(value, false) ? "true" : "false");
        break;
    case CLI_AS_YES_NO:
        ebb_str_add(out, is_true(value, true) ? "yes" : "no");
        break;
    case CLI_AS_JSON:
        cli_show_json(out, value);
        break;
    case CLI_AS_LIST:
        cli_show_list(out, value, ", ");
        break;
    case CLI_AS_METRICS:
        cli_show_map(out, cli_step_metrics(value));
        break;
    }
}

struct cli_table *cli_columns_table(const struct cli_column *columns, size_t count)
{
    const char **headers = ebb_calloc(count + 1, sizeof *headers);
    for (size_t i = 0; headers != NULL && i < count; i++)
        headers[i] = columns[i].header;
    struct cli_table *table = headers != NULL ? cli_table_create(headers, count) : NULL;
    ebb_free(headers);
    return table;
}

void cli_columns_add(struct cli_table *table, const struct cli_column *columns, size_t count,
                     const struct ebb_doc_node *row, bool is_csv)
{
    for (size_t i = 0; i < count; i++) {
        const struct cli_column *c = &columns[i];
        const struct ebb_doc_node *value = find(row, c->key);
        struct ebb_str text = {0};
        if (c->show != NULL)
            c->show(&text, value, is_csv);
        else
            show_cell(&text, c->kind, value);
        cli_table_cell(table, "%s", ebb_str_c(&text));
        ebb_str_fini(&text);
    }
}

void cli_columns_show(const struct cli_column *columns, size_t count,
                      const struct ebb_doc_node *list, bool is_csv)
{
    struct cli_table *table = cli_columns_table(columns, count);
    for (size_t i = 0; list != NULL && list->kind == EBB_DOC_LIST && i < list->count; i++)
        cli_columns_add(table, columns, count, list->items[i], is_csv);
    cli_table_show(table, is_csv);
}
