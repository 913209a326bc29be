/* show.c - see show.h. */
#include "cli/show.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "exp/exp.h"

#define PLAIN_COLUMNS 600 /* of texts that trials made */

const char *cli_show_time(const struct ebb_doc_node *value, char buf[CLI_CELL])
{
    const char *text = value != NULL && value->kind == EBB_DOC_STRING ? value->text : "";
    buf[0] = '\0';
    if (strlen(text) >= 19) /* 2026-11-15T11:39:31.123Z */
        snprintf(buf, CLI_CELL, "%.10s %.8s+0000", text, text + 11);
    return buf;
}

double cli_metric(const struct ebb_doc_node *node)
{
    double value;
    return exp_metric_read(node, &value) ? value : (double)NAN;
}

void cli_show_uploads(const struct ebb_doc_node *uploads, struct ebb_str *out)
{
    char left[32];
    long long count = ebb_doc_int(uploads, "checkpoints", 0);
    const char *error = ebb_doc_string(uploads, "error", NULL);
    if (count > 0)
        ebb_str_printf(
            out, "%lld checkpoint%s, %s,", count, count == 1 ? "" : "s",
            ebb_format_bytes((uint64_t)ebb_doc_int(uploads, "bytes", 0), left, sizeof left));
    else
        ebb_str_add(out, "event files");
    ebb_str_add(out, " on the way to the store");
    if (error != NULL)
        ebb_str_printf(out, ", tried again every 30 s: %s", error);
}

const char *cli_show_number(const struct ebb_doc_node *value, char buf[CLI_CELL])
{
    buf[0] = '\0';
    if (value == NULL || value->kind == EBB_DOC_NULL)
        return buf;
    if (value->kind == EBB_DOC_STRING)
        snprintf(buf, CLI_CELL, "%s", value->text);
    else if (value->kind == EBB_DOC_INT)
        snprintf(buf, CLI_CELL, "%lld", (long long)value->integer);
    else if (value->kind == EBB_DOC_DOUBLE)
        snprintf(buf, CLI_CELL, "%.6g", value->number);
    else { /* a list, a mapping: as much as there is room for */
        struct ebb_str text = {0};
        cli_show_json(&text, value);
        snprintf(buf, CLI_CELL, "%.*s", (int)cli_fit(ebb_str_c(&text), CLI_CELL / 4),
                 ebb_str_c(&text));
        ebb_str_fini(&text);
    }
    return buf;
}

const char *cli_show_percent(const struct ebb_doc_node *value, char buf[CLI_CELL])
{
    buf[0] = '\0';
    if (value != NULL && (value->kind == EBB_DOC_INT || value->kind == EBB_DOC_DOUBLE))
        snprintf(buf, CLI_CELL, "%.1f%%", value->number * 100);
    return buf;
}

const char *cli_show_bytes(const struct ebb_doc_node *value, char buf[CLI_CELL])
{
    int64_t bytes = value != NULL && value->kind == EBB_DOC_INT ? value->integer : -1;
    buf[0] = '\0';
    return bytes < 0 ? buf : ebb_format_bytes((uint64_t)bytes, buf, CLI_CELL);
}

void cli_show_json(struct ebb_str *out, const struct ebb_doc_node *node)
{
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, out, 0);
    if (node != NULL)
        ebb_doc_write_json(node, &w);
}

void cli_show_value(struct ebb_str *out, const struct ebb_doc_node *node)
{
    if (node->kind == EBB_DOC_STRING)
        ebb_str_add(out, node->text);
    else if (node->kind == EBB_DOC_DOUBLE)
        ebb_str_printf(out, "%.6g", node->number);
    else
        cli_show_json(out, node);
}

void cli_show_map(struct ebb_str *out, const struct ebb_doc_node *map)
{
    for (size_t i = 0; map != NULL && map->kind == EBB_DOC_MAP && i < map->count; i++) {
        ebb_str_printf(out, "%s%s ", i > 0 ? ", " : "", map->keys[i]->text);
        cli_show_value(out, map->items[i]);
    }
}

void cli_show_list(struct ebb_str *out, const struct ebb_doc_node *list, const char *between)
{
    for (size_t i = 0; list != NULL && list->kind == EBB_DOC_LIST && i < list->count; i++) {
        ebb_str_add(out, i > 0 ? between : "");
        cli_show_value(out, list->items[i]);
    }
}

const struct ebb_doc_node *cli_step_metrics(const struct ebb_doc_node *node)
{
    const struct ebb_doc_node *metrics = ebb_doc_get(node, "metrics");
    const struct ebb_doc_node *inner = ebb_doc_get(metrics, "avg_metrics");
    if (inner == NULL)
        inner = ebb_doc_get(metrics, "validation_metrics");
    return inner != NULL ? inner : metrics;
}

/* ---- YAML ---- */

/* Plain when no reader could take it for something else; otherwise quoted as JSON does, which YAML
 * accepts. */
static bool is_plain(const char *text, size_t length)
{
    static const char *const words[] = {"true", "false", "null",  "True", "False",
                                        "Null", "TRUE",  "FALSE", "NULL", "yes",
                                        "no",   "on",    "off",   "y",    "n"};
    if (length == 0 || strlen(text) != length ||
        ebb_name_index(text, words, sizeof words / sizeof words[0]) >= 0)
        return false;
    if (!isalpha((unsigned char)text[0]) && text[0] != '_' && text[0] != '/')
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (!isalnum(c) && c < 0x80 && strchr("_-./ ", c) == NULL &&
            !(c == ':' && text[i + 1] != ' ' && text[i + 1] != '\0'))
            return false;
    }
    return text[length - 1] != ' ';
}

static void yaml_string(struct ebb_str *out, const struct ebb_doc_node *node)
{
    if (is_plain(node->text, node->length))
        ebb_str_add(out, node->text);
    else
        cli_show_json(out, node);
}

static bool is_nested(const struct ebb_doc_node *node)
{
    return (node->kind == EBB_DOC_MAP || node->kind == EBB_DOC_LIST) && node->count > 0;
}

/* A node as YAML block text, for configurations. */
static void show_yaml(struct ebb_str *out, const struct ebb_doc_node *node, int indent)
{
    if (!is_nested(node)) {
        if (node->kind == EBB_DOC_STRING)
            yaml_string(out, node);
        else
            cli_show_json(out, node);
        ebb_str_addc(out, '\n');
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        const struct ebb_doc_node *item = node->items[i];
        ebb_str_printf(out, "%*s", indent, "");
        if (node->kind == EBB_DOC_LIST) {
            ebb_str_add(out, is_nested(item) ? "-\n" : "- ");
        } else {
            yaml_string(out, node->keys[i]);
            ebb_str_add(out, is_nested(item) ? ":\n" : ": ");
        }
        show_yaml(out, item, indent + 2);
    }
}

/* ---- the rest ---- */

static void print_text(struct ebb_str *text)
{
    fputs(ebb_str_c(text), stdout);
    ebb_str_fini(text);
}

void cli_print_report(const struct ebb_report *report, const char *file_name, FILE *stream)
{
    struct ebb_str text = {0};
    if (file_name != NULL)
        ebb_report_format(report, file_name, &text);
    else
        ebb_report_lines(report, &text);
    fputs(ebb_str_c(&text), stream);
    ebb_str_fini(&text);
}

void cli_print_list(const char *key, const struct ebb_doc_node *list)
{
    struct ebb_str out = {0};
    ebb_str_printf(&out, "{\"%s\": ", key);
    cli_show_json(&out, list);
    ebb_str_add(&out, "}\n");
    print_text(&out);
}

void cli_write_lines(struct ebb_json_writer *w, const char *lines)
{
    ebb_jsonw_array(w);
    for (const char *at = lines; *at != '\0';) {
        size_t n = strcspn(at, "\n");
        ebb_jsonw_stringn(w, at, n);
        at += n + (at[n] == '\n');
    }
    ebb_jsonw_array_end(w);
}

void cli_print_json(const struct ebb_doc_node *node)
{
    struct ebb_str out = {0};
    cli_show_json(&out, node);
    ebb_str_addc(&out, '\n');
    print_text(&out);
}

void cli_print_yaml(const struct ebb_doc_node *node)
{
    struct ebb_str out = {0};
    if (node != NULL)
        show_yaml(&out, node, 0);
    print_text(&out);
}

void cli_print_pair(const char *key, const struct ebb_doc_node *value)
{
    struct ebb_str out = {0};
    if (value != NULL && value->kind != EBB_DOC_NULL)
        cli_show_value(&out, value);
    if (out.length > 0)
        printf("%-14s %s\n", key, ebb_str_c(&out));
    ebb_str_fini(&out);
}

int cli_print_body(const struct ebb_str *body)
{
    const char *text = ebb_str_c(body);
    fputs(text, stdout);
    if (body->length == 0 || text[body->length - 1] != '\n')
        putchar('\n');
    return 0;
}

void cli_show_plain(struct ebb_str *out, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t columns = 0;
    for (; *c != '\0' && columns < PLAIN_COLUMNS; c++) {
        bool is_c1 = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0; /* 8-bit controls, as UTF-8 */
        columns += (*c & 0xc0) != 0x80;
        if (*c == '\n' || *c == '\t' || *c == '\r')
            ebb_str_addc(out, ' ');
        else
            ebb_str_addc(out, *c < 0x20 || *c == 0x7f || is_c1 ? '?' : (char)*c);
        c += is_c1;
    }
    while ((*c & 0xc0) == 0x80) /* the rest of a character */
        ebb_str_addc(out, (char)*c++);
    if (*c != '\0')
        ebb_str_add(out, "...");
}

/* Length of a colour sequence, "ESC [ 1;31 m", at `text`; 0 = something else. */
static size_t color_length(const char *text, size_t length)
{
    size_t n = 2;
    if (length < 3 || text[0] != 0x1b || text[1] != '[')
        return 0;
    while (n < length && (isdigit((unsigned char)text[n]) || text[n] == ';'))
        n++;
    return n < length && text[n] == 'm' ? n + 1 : 0;
}

/* A line of a log: bytes that could move the cursor or hide text are shown as '?'; colours pass. */
static void print_line(const struct ebb_doc_node *text, FILE *stream)
{
    size_t length = text != NULL && text->kind == EBB_DOC_STRING ? text->length : 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text->text[i];
        size_t n = color_length(text->text + i, length - i);
        if (n > 0) {
            fwrite(text->text + i, 1, n, stream);
            i += n - 1;
        } else {
            bool is_c1 = c == 0xc2 && i + 1 < length && (unsigned char)text->text[i + 1] < 0xa0;
            fputc((c < 0x20 && c != '\t') || c == 0x7f || is_c1 ? '?' : c, stream);
            i += is_c1;
        }
    }
    fputc('\n', stream);
}

void cli_print_log(const struct ebb_doc_node *line, bool is_json)
{
    if (is_json)
        cli_print_json(line);
    else
        print_line(ebb_doc_get(line, "message"), stdout);
}

size_t cli_fit(const char *text, size_t columns)
{
    const char *at = text;
    for (size_t n = 0; *at != '\0' && *at != '\n';) {
        const char *next = at;
        n += cli_char_columns(&next);
        if (n > columns)
            break;
        at = next;
    }
    return (size_t)(at - text);
}
