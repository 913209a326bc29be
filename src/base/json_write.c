/* json_write.c - the writer of JSON (declared in json.h). What it writes is always valid: malformed
 * UTF-8 becomes U+FFFD, numbers that JSON lacks become null. */
#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

void ebb_jsonw_init(struct ebb_json_writer *w, struct ebb_str *out, int indent)
{
    *w = (struct ebb_json_writer){.out = out, .indent = indent};
}

static void jsonw_newline(struct ebb_json_writer *w)
{
    static const char blanks[] = "                                ";
    if (w->indent <= 0)
        return;
    ebb_str_addc(w->out, '\n');
    for (size_t n = (size_t)w->indent * (size_t)w->depth; n > 0;) {
        size_t part = n < sizeof blanks - 1 ? n : sizeof blanks - 1;
        ebb_str_addn(w->out, blanks, part);
        n -= part;
    }
}

/* What stands before a value or key: nothing behind a key or at top level, else comma and break. */
static void jsonw_before(struct ebb_json_writer *w)
{
    if (w->after_key || w->depth == 0) {
        w->after_key = false;
        w->need_comma = true;
        return;
    }
    if (w->need_comma) {
        ebb_str_addc(w->out, ',');
        if (w->indent <= 0)
            ebb_str_addc(w->out, ' ');
    }
    jsonw_newline(w);
    w->need_comma = true;
}

static void jsonw_open(struct ebb_json_writer *w, char bracket)
{
    jsonw_before(w);
    ebb_str_addc(w->out, bracket);
    w->depth++;
    w->need_comma = false;
}

static void jsonw_close(struct ebb_json_writer *w, char bracket)
{
    bool is_empty = !w->need_comma;
    w->depth--;
    if (!is_empty)
        jsonw_newline(w);
    ebb_str_addc(w->out, bracket);
    w->need_comma = true;
}

void ebb_jsonw_object(struct ebb_json_writer *w)
{
    jsonw_open(w, '{');
}

void ebb_jsonw_object_end(struct ebb_json_writer *w)
{
    jsonw_close(w, '}');
}

void ebb_jsonw_array(struct ebb_json_writer *w)
{
    jsonw_open(w, '[');
}

void ebb_jsonw_array_end(struct ebb_json_writer *w)
{
    jsonw_close(w, ']');
}

static void jsonw_quoted(struct ebb_str *out, const char *text, size_t n)
{
    const char *end = text + n, *plain = text;
    ebb_str_addc(out, '"');
    for (const char *p = text; p < end;) {
        unsigned char c = (unsigned char)*p;
        size_t length = c < 0x80 ? 1 : ebb_utf8_length(p, end);
        if (length > 0 && c >= 0x20 && c != '"' && c != '\\') {
            p += length;
            continue;
        }
        ebb_str_addn(out, plain, (size_t)(p - plain));
        plain = ++p;
        if (length == 0)
            ebb_str_add(out, "\\ufffd");
        else if (c == '"' || c == '\\')
            ebb_str_addn(out, (const char[]){'\\', (char)c}, 2);
        else if (c == '\n')
            ebb_str_add(out, "\\n");
        else if (c == '\t')
            ebb_str_add(out, "\\t");
        else
            ebb_str_printf(out, "\\u%04x", c);
    }
    ebb_str_addn(out, plain, (size_t)(end - plain));
    ebb_str_addc(out, '"');
}

void ebb_jsonw_key(struct ebb_json_writer *w, const char *key)
{
    ebb_jsonw_keyn(w, key, strlen(key));
}

void ebb_jsonw_keyn(struct ebb_json_writer *w, const char *key, size_t n)
{
    jsonw_before(w);
    jsonw_quoted(w->out, key, n);
    ebb_str_add(w->out, ": ");
    w->after_key = true;
}

void ebb_jsonw_stringn(struct ebb_json_writer *w, const char *text, size_t n)
{
    jsonw_before(w);
    jsonw_quoted(w->out, text, n);
}

void ebb_jsonw_string(struct ebb_json_writer *w, const char *text)
{
    if (text)
        ebb_jsonw_stringn(w, text, strlen(text));
    else
        ebb_jsonw_null(w);
}

/* Most of what is written are small numbers: no printf for them. */
static void jsonw_digits(struct ebb_str *out, uint64_t value, bool is_negative)
{
    char text[24], *at = text + sizeof text;
    do
        *--at = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    if (is_negative)
        *--at = '-';
    ebb_str_addn(out, at, (size_t)(text + sizeof text - at));
}

void ebb_jsonw_int(struct ebb_json_writer *w, int64_t value)
{
    jsonw_before(w);
    jsonw_digits(w->out, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void ebb_jsonw_uint(struct ebb_json_writer *w, uint64_t value)
{
    jsonw_before(w);
    jsonw_digits(w->out, value, false);
}

void ebb_jsonw_double(struct ebb_json_writer *w, double value)
{
    char text[40];
    jsonw_before(w);
    ebb_str_add(w->out, isfinite(value) ? ebb_format_double(value, text, sizeof text) : "null");
}

void ebb_jsonw_metric(struct ebb_json_writer *w, double value)
{
    if (isfinite(value))
        ebb_jsonw_double(w, value);
    else
        ebb_jsonw_string(w, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}

void ebb_jsonw_bool(struct ebb_json_writer *w, bool value)
{
    jsonw_before(w);
    ebb_str_add(w->out, value ? "true" : "false");
}

void ebb_jsonw_null(struct ebb_json_writer *w)
{
    jsonw_before(w);
    ebb_str_add(w->out, "null");
}

void ebb_jsonw_key_string(struct ebb_json_writer *w, const char *key, const char *text)
{
    ebb_jsonw_key(w, key);
    ebb_jsonw_string(w, text);
}

void ebb_jsonw_key_int(struct ebb_json_writer *w, const char *key, int64_t value)
{
    ebb_jsonw_key(w, key);
    ebb_jsonw_int(w, value);
}

void ebb_jsonw_key_uint(struct ebb_json_writer *w, const char *key, uint64_t value)
{
    ebb_jsonw_key(w, key);
    ebb_jsonw_uint(w, value);
}

void ebb_jsonw_key_double(struct ebb_json_writer *w, const char *key, double value)
{
    ebb_jsonw_key(w, key);
    ebb_jsonw_double(w, value);
}

void ebb_jsonw_key_bool(struct ebb_json_writer *w, const char *key, bool value)
{
    ebb_jsonw_key(w, key);
    ebb_jsonw_bool(w, value);
}

void ebb_jsonw_raw(struct ebb_json_writer *w, const char *text, size_t length)
{
    if (!w->after_key && w->need_comma)
        ebb_str_add(w->out, ", ");
    w->after_key = false;
    w->need_comma = true;
    ebb_str_addn(w->out, text, length);
}

void ebb_jsonw_key_uint_or_null(struct ebb_json_writer *w, const char *key, uint64_t value,
                                bool has)
{
    ebb_jsonw_key(w, key);
    if (has)
        ebb_jsonw_uint(w, value);
    else
        ebb_jsonw_null(w);
}

void ebb_jsonw_key_object(struct ebb_json_writer *w, const char *key)
{
    ebb_jsonw_key(w, key);
    ebb_jsonw_object(w);
}

void ebb_jsonw_key_array(struct ebb_json_writer *w, const char *key)
{
    ebb_jsonw_key(w, key);
    ebb_jsonw_array(w);
}
