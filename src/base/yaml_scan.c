/* yaml_scan.c - see the header. */
#include "base/yaml_scan.h"

#include <stdbool.h>
#include <string.h>

struct scanner {
    const char *at, *end, *line_start;
    uint32_t line;
    size_t open;         /* flow collections open now */
    size_t indent;       /* of the line where block context was last seen */
    bool is_token_start; /* a new token may begin here: a quote opens a string, a bracket a list */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The byte n further is a blank, or there is none. */
static bool blank_follows(const struct scanner *s, size_t n)
{
    return (size_t)(s->end - s->at) <= n || is_blank(s->at[n]);
}

static void scan_newline(struct scanner *s)
{
    s->at++;
    s->line++;
    s->line_start = s->at;
    s->is_token_start = true;
    if (s->open == 0) {
        const char *p = s->at;
        while (p < s->end && *p == ' ')
            p++;
        s->indent = (size_t)(p - s->at);
    }
}

static void scan_to_line_end(struct scanner *s)
{
    const char *newline = memchr(s->at, '\n', (size_t)(s->end - s->at));
    s->at = newline ? newline : s->end;
}

static void scan_quoted(struct scanner *s)
{
    char quote = *s->at++;
    while (s->at < s->end && *s->at != quote) {
        if (*s->at == '\n') {
            s->line++;
            s->line_start = s->at + 1;
        }
        s->at += quote == '"' && *s->at == '\\' && s->end - s->at > 1 ? 2 : 1;
    }
    if (s->at < s->end) /* '' inside single quotes reads as two strings: the same end */
        s->at++;
    s->is_token_start = false;
}

/* "|" or ">" with indicators and nothing else on its line. */
static bool scan_is_block_header(const struct scanner *s)
{
    const char *p = s->at + 1;
    while (p < s->end && (*p == '+' || *p == '-' || (*p >= '0' && *p <= '9')))
        p++;
    while (p < s->end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p == s->end || *p == '\n' || *p == '#';
}

/* Lines of a block scalar: blank, or indented as far as its first line with text, which is indented
 * further than the line of the header. */
static void scan_block(struct scanner *s)
{
    size_t parent = s->indent, indent = 0;
    scan_to_line_end(s);
    while (s->at < s->end) {
        const char *line = s->at + 1, *p = line;
        while (p < s->end && *p == ' ')
            p++;
        size_t spaces = (size_t)(p - line);
        bool is_empty = p == s->end || *p == '\n' || *p == '\r';
        if (!is_empty && indent == 0) {
            if (spaces <= parent && !(parent == 0 && s->line == 1 && spaces > 0))
                return;
            indent = spaces;
        }
        if (!is_empty && spaces < indent)
            return;
        scan_newline(s);
        scan_to_line_end(s);
    }
}

/* "-", "?" and "---" with a blank behind them leave room for another token. */
static size_t scan_indicator(const struct scanner *s)
{
    char c = *s->at;
    if ((c == '-' || c == '?') && blank_follows(s, 1))
        return 1;
    if (c == '-' && s->at == s->line_start && s->end - s->at >= 3 && s->at[1] == '-' &&
        s->at[2] == '-' && blank_follows(s, 3))
        return 3;
    return 0;
}

/* Anchor or tag: up to a blank, or a flow indicator inside a flow collection. */
static void scan_property(struct scanner *s)
{
    while (s->at < s->end && !is_blank(*s->at) && !(s->open > 0 && strchr(",[]{}", *s->at)))
        s->at++;
}

/* Where a token may begin. Returns false when the byte is an ordinary one. */
static bool scan_token(struct scanner *s)
{
    size_t skip = scan_indicator(s);
    if (skip > 0) {
        s->at += skip;
        return true;
    }
    switch (*s->at) {
    case '"':
    case '\'':
        scan_quoted(s);
        return true;
    case '&':
    case '!':
        scan_property(s);
        return true;
    case '|':
    case '>':
        if (s->open > 0 || !scan_is_block_header(s))
            return false;
        scan_block(s);
        return true;
    default:
        return false;
    }
}

/* A bracket, comma or colon; everything else is part of a plain scalar. */
static void scan_other(struct scanner *s, struct ebb_yaml_scan *scan)
{
    char c = *s->at;
    bool is_start = s->is_token_start, is_flow = s->open > 0;
    s->is_token_start = false;
    if ((c == '[' || c == '{') && (is_flow || is_start)) {
        s->open++;
        if (s->open > scan->depth)
            scan->depth = s->open;
        s->is_token_start = true;
    } else if (is_flow && (c == ']' || c == '}')) {
        s->open--;
    } else if (is_flow && c == ',') {
        scan->values++;
        s->is_token_start = true;
    } else if (c == ':') {
        bool is_behind_quote = s->at > s->line_start && (s->at[-1] == '"' || s->at[-1] == '\'');
        s->is_token_start = blank_follows(s, 1) || (is_flow && is_behind_quote);
        scan->values += is_flow && s->is_token_start;
    }
    s->at++;
}

void ebb_yaml_scan(struct ebb_yaml_scan *scan, const char *bytes, size_t length, size_t max_depth,
                   size_t max_values)
{
    struct scanner s = {
        .at = bytes, .end = bytes + length, .line_start = bytes, .line = 1, .is_token_start = true};
    *scan = (struct ebb_yaml_scan){0};
    while (s.at < s.end && scan->depth <= max_depth && scan->values <= max_values) {
        char c = *s.at;
        scan->line = s.line;
        scan->column = (uint32_t)(s.at - s.line_start) + 1;
        if (c == '\n')
            scan_newline(&s);
        else if (is_blank(c))
            s.at++;
        else if (c == '#' && (s.at == s.line_start || is_blank(s.at[-1])))
            scan_to_line_end(&s);
        else if (!s.is_token_start || !scan_token(&s))
            scan_other(&s, scan);
    }
}
