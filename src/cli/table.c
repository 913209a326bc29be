/* table.c - aligned text tables. Widths count columns, so UTF-8 cells line up; control
 * characters, which could move a terminal's cursor, are printed as '?'. */
#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"
#include "base/utf8.h"

#define GAP 2

struct cli_table {
    size_t columns;
    char **cells; /* owned, row by row, headers first */
    size_t count, capacity;
    bool failed; /* memory ran out: said when printing */
};

static void clean(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = *c == '\n' || *c == '\t' ? ' ' : '?';
        else if ((unsigned char)c[0] == 0xc2 && (unsigned char)c[1] >= 0x80 &&
                 (unsigned char)c[1] < 0xa0)
            c[0] = c[1] = '?'; /* 8-bit controls, as UTF-8 */
    }
}

/* Ranges of code points that take two columns, and none (Unicode 15, East Asian Width W and F). */
static const uint32_t wide[][2] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2e80, 0x303e},
    {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97f},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff},
    {0x20000, 0x3fffd},
};
static const uint32_t narrow[][2] = {
    {0x0300, 0x036f}, {0x1ab0, 0x1aff}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}};

static bool is_among(uint32_t code, const uint32_t (*ranges)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

size_t cli_char_columns(const char **text)
{
    if ((unsigned char)**text < 0x80) {
        ++*text;
        return 1;
    }
    const char *end = *text + strnlen(*text, 4);
    if (ebb_utf8_length(*text, end) == 0) { /* not UTF-8 */
        ++*text;
        return 1;
    }
    uint32_t code = ebb_utf8_next(text);
    if (is_among(code, narrow, sizeof narrow / sizeof narrow[0]))
        return 0;
    return is_among(code, wide, sizeof wide / sizeof wide[0]) ? 2 : 1;
}

static size_t width_of(const char *text)
{
    size_t n = 0;
    while (*text != '\0')
        n += cli_char_columns(&text);
    return n;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "12", "-1.5e-3", "34.5%", "1.20x", "1.50 MiB", "2 min 05 s". Not "3fa9", "2024-01-02", "10 - 20".
 */
static bool is_number(const char *c)
{
    c += *c == '-' || *c == '+';
    if (!is_digit(*c) && !(*c == '.' && is_digit(c[1])))
        return false;
    while (is_digit(*c) || *c == '.' || *c == ',')
        c++;
    if ((*c == 'e' || *c == 'E') &&
        (is_digit(c[1]) || ((c[1] == '-' || c[1] == '+') && is_digit(c[2]))))
        for (c += 2; is_digit(*c);)
            c++;
    c += *c == '%' || *c == 'x';
    while (*c == ' ') { /* units, each of at most eight letters, or further numbers with units */
        c++;
        size_t n = 0;
        while (is_digit(*c) || *c == '.')
            c++, n++;
        if (n > 0)
            continue;
        while ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '/')
            c++, n++;
        if (n == 0 || n > 8)
            return false;
    }
    return *c == '\0';
}

static bool is_blank(const char *cell)
{
    return cell[0] == '\0' || strcmp(cell, "-") == 0;
}

static void add(struct cli_table *table, char *take_text)
{
    if (take_text == NULL || table->failed ||
        ebb_grow(&table->cells, &table->capacity, table->count + 1, sizeof *table->cells, NULL) !=
            EBB_OK) {
        ebb_free(take_text);
        table->failed = true;
        return;
    }
    clean(take_text);
    table->cells[table->count++] = take_text;
}

struct cli_table *cli_table_create(const char *const *headers, size_t columns)
{
    struct cli_table *table = ebb_calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->columns = columns;
    for (size_t i = 0; i < columns; i++)
        add(table, ebb_strdup(headers[i]));
    return table;
}

void cli_table_cell(struct cli_table *table, const char *fmt, ...)
{
    if (table == NULL)
        return;
    struct ebb_str text = {0};
    va_list list;
    va_start(list, fmt);
    ebb_str_vprintf(&text, fmt, list);
    va_end(list);
    if (text.failed)
        add(table, NULL);
    else
        add(table, ebb_strdup(ebb_str_c(&text)));
    ebb_str_fini(&text);
}

static bool right_aligned(const struct cli_table *table, size_t column)
{
    bool any = false;
    for (size_t i = table->columns + column; i < table->count; i += table->columns) {
        if (is_blank(table->cells[i]))
            continue;
        if (!is_number(table->cells[i]))
            return false;
        any = true;
    }
    return any;
}

struct column {
    size_t width;
    bool is_right;
};

static void print_row(const struct cli_table *table, size_t first, const struct column *columns,
                      FILE *stream)
{
    size_t pad = 0; /* owed blanks: never printed at the end of a line */
    for (size_t c = 0; c < table->columns && first + c < table->count; c++) {
        const char *cell = table->cells[first + c];
        size_t width = width_of(cell), room = columns[c].width - width;
        if (columns[c].is_right)
            pad += room;
        if (width > 0) {
            fprintf(stream, "%*s%s", (int)pad, "", cell);
            pad = 0;
        }
        pad += GAP + (columns[c].is_right ? 0 : room);
    }
    fputc('\n', stream);
}

static void print_ruled_row(const struct cli_table *table, size_t first,
                            const struct column *columns, FILE *stream)
{
    size_t pad = 0; /* as above */
    for (size_t c = 0; c < table->columns && first + c < table->count; c++) {
        const char *cell = table->cells[first + c];
        size_t width = width_of(cell), room = columns[c].width - width;
        fprintf(stream, "%*s", (int)(c > 0 ? pad : 0), "");
        if (c > 0)
            fputs(" |", stream);
        pad = columns[c].is_right ? 0 : room;
        if (width > 0)
            fprintf(stream, " %*s%s", (int)(columns[c].is_right ? room : 0), "", cell);
        else
            pad = columns[c].width + 1;
    }
    fputc('\n', stream);
}

static void print_rule(const struct cli_table *table, const struct column *columns, FILE *stream)
{
    for (size_t c = 0; c < table->columns; c++) {
        if (c > 0)
            fputc('+', stream);
        for (size_t i = 0; i < columns[c].width + 2; i++)
            fputc('-', stream);
    }
    fputc('\n', stream);
}

/* Owned by the caller; NULL after saying that there is no memory. */
static struct column *measure(const struct cli_table *table, FILE *stream)
{
    struct column *columns = NULL;
    if (table != NULL && !table->failed && table->columns > 0)
        columns = ebb_calloc(table->columns, sizeof *columns);
    if (columns == NULL) {
        fputs("(no memory for this table)\n", stream);
        return NULL;
    }
    for (size_t i = 0; i < table->count; i++) {
        size_t n = width_of(table->cells[i]);
        if (n > columns[i % table->columns].width)
            columns[i % table->columns].width = n;
    }
    for (size_t c = 0; c < table->columns; c++)
        columns[c].is_right = right_aligned(table, c);
    return columns;
}

void cli_table_print(struct cli_table *table, FILE *stream)
{
    struct column *columns = measure(table, stream);
    for (size_t i = 0; columns != NULL && i < table->count; i += table->columns)
        print_row(table, i, columns, stream);
    ebb_free(columns);
}

void cli_table_ruled(struct cli_table *table, FILE *stream)
{
    struct column *columns = measure(table, stream);
    for (size_t i = 0; columns != NULL && i < table->count; i += table->columns) {
        print_ruled_row(table, i, columns, stream);
        if (i == 0)
            print_rule(table, columns, stream);
    }
    ebb_free(columns);
}

static void print_csv_cell(const char *cell, FILE *stream)
{
    if (strpbrk(cell, ",\"\r\n") == NULL) {
        fputs(cell, stream);
        return;
    }
    fputc('"', stream);
    for (const char *c = cell; *c != '\0'; c++) {
        if (*c == '"')
            fputc('"', stream);
        fputc(*c, stream);
    }
    fputc('"', stream);
}

void cli_table_csv(struct cli_table *table, FILE *stream)
{
    if (table == NULL || table->failed) {
        fputs("(no memory for this table)\n", stream);
        return;
    }
    for (size_t i = 0; i < table->count; i++) {
        print_csv_cell(table->cells[i], stream);
        fputs(i % table->columns == table->columns - 1 ? "\r\n" : ",", stream);
    }
}

void cli_table_out(struct cli_table *table)
{
    cli_table_print(table, stdout);
    cli_table_destroy(table);
}

void cli_table_show(struct cli_table *table, bool is_csv)
{
    if (is_csv)
        cli_table_csv(table, stdout);
    else
        cli_table_ruled(table, stdout);
    cli_table_destroy(table);
}

void cli_table_destroy(struct cli_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->count; i++)
        ebb_free(table->cells[i]);
    ebb_free(table->cells);
    ebb_free(table);
}
