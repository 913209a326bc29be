/* json.c - the pull reader of JSON.
 *
 * J1 `at` never passes `end`; nothing behind `end` is read (the bytes need no terminator).
 * J2 only blanks and comments hold line breaks, so line and line_start change only in skip_blanks.
 * J3 a string without escapes is a slice of the input; others are decoded into `scratch`.
 * J4 after an error only fini may follow. */
#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/decimal.h"
#include "base/utf8.h"

enum json_state {
    JSON_TOP,        /* a value, or the end of the bytes */
    JSON_VALUE,      /* a value: behind ':' or ',' in an array */
    JSON_FIRST_ITEM, /* a value or ']' */
    JSON_FIRST_KEY,  /* a key or '}' */
    JSON_KEY,        /* a key: behind ',' in an object */
    JSON_AFTER,      /* ',' or the closing bracket */
    JSON_DONE,       /* only blanks */
};

enum { JSON_IN_OBJECT, JSON_IN_ARRAY }; /* entries of the stack */

/* Classes of bytes, one table lookup each on the hot paths. */
enum { CLASS_PLAIN = 1, CLASS_BLANK = 2, CLASS_DIGIT = 4, CLASS_DELIMITER = 8 };

#define P CLASS_PLAIN
#define B (CLASS_BLANK | CLASS_DELIMITER)
#define D (CLASS_DIGIT | CLASS_PLAIN)
#define S (CLASS_DELIMITER | CLASS_PLAIN)
/* clang-format off */
static const uint8_t json_class[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, B, B, 0, 0, B, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    B | P, P, 0, P, P, P, P, P, P, P, P, P, S, P, P, S, D, D, D, D, D, D, D, D, D, D, S, P, P, P, P, P,
    P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, 0, S, P, P,
    P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, S, P, P,
};
/* clang-format on */
#undef P
#undef B
#undef D
#undef S

static bool json_is(char c, unsigned mask)
{
    return (json_class[(unsigned char)c] & mask) != 0;
}

void ebb_json_init(struct ebb_json *r, const char *name, const char *bytes, size_t length,
                   unsigned flags)
{
    r->name = name;
    r->begin = r->at = bytes;
    r->end = bytes + length;
    r->line = 1;
    r->flags = flags;
    r->depth = 0;
    r->state = JSON_TOP;
    ebb_str_init(&r->scratch);
    if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) /* a byte order mark says nothing */
        r->at += 3;
    r->line_start = r->at;
}

void ebb_json_fini(struct ebb_json *r)
{
    ebb_str_fini(&r->scratch);
}

static uint32_t json_column(const struct ebb_json *r, const char *at)
{
    return (uint32_t)(at - r->line_start) + 1;
}

static enum ebb_status json_fail(const struct ebb_json *r, const char *at, struct ebb_error *err,
                                 const char *what)
{
    return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: %s", r->name, r->line, json_column(r, at), what);
}

/* "expected X, found 'c'", or the end. */
static enum ebb_status json_unexpected(const struct ebb_json *r, struct ebb_error *err,
                                       const char *expected)
{
    unsigned line = r->line, column = json_column(r, r->at);
    if (r->at == r->end)
        return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: expected %s, found the end", r->name, line,
                        column, expected);
    unsigned char c = (unsigned char)*r->at;
    if (c > 0x20 && c < 0x7f)
        return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: expected %s, found '%c'", r->name, line, column,
                        expected, c);
    return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: expected %s, found byte 0x%02x", r->name, line,
                    column, expected, c);
}

/* Blanks and // comments. A lone '/' stays for the caller to complain about. */
static void json_skip_blanks(struct ebb_json *r)
{
    const char *p = r->at, *end = r->end;
    while (p < end) {
        if (*p == '\n') {
            p++;
            r->line++;
            r->line_start = p;
        } else if (json_is(*p, CLASS_BLANK)) {
            p++;
        } else if (*p == '/' && end - p > 1 && p[1] == '/') {
            const char *newline = memchr(p, '\n', (size_t)(end - p));
            p = newline ? newline : end;
        } else {
            break;
        }
    }
    r->at = p;
}

/* First byte from p on that a string cannot take as it is: quote, backslash, control, non-ASCII. */
static const char *json_scan_plain(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, sizeof w);
        uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
        /* Borrows reach a byte only from a lower byte that is itself found, so "any" is exact. */
        uint64_t hit =
            ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | (w - ones * 0x20) | w;
        if (hit & tops)
            break;
        p += 8;
    }
    while (p < end && json_is(*p, CLASS_PLAIN))
        p++;
    return p;
}

static int json_hex4(const char *p, const char *end)
{
    int value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = json_is(c, CLASS_DIGIT) ? c - '0'
                    : c >= 'a' && c <= 'f'  ? c - 'a' + 10
                    : c >= 'A' && c <= 'F'  ? c - 'A' + 10
                                            : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* \uXXXX at p (behind the u), with its low half when it is a high surrogate. */
static enum ebb_status json_unicode(struct ebb_json *r, const char **at, struct ebb_error *err)
{
    const char *p = *at;
    int c = json_hex4(p, r->end);
    if (c < 0)
        return json_fail(r, p, err, "\\u needs four hexadecimal digits");
    p += 4;
    if (c >= 0xd800 && c < 0xe000) {
        int low = r->end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? json_hex4(p + 2, r->end) : -1;
        if (c >= 0xdc00 || low < 0xdc00 || low > 0xdfff)
            return json_fail(r, *at, err, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    }
    char bytes[4];
    ebb_str_addn(&r->scratch, bytes, ebb_utf8_encode((uint32_t)c, bytes));
    *at = p;
    return EBB_OK;
}

static enum ebb_status json_escape(struct ebb_json *r, const char **at, struct ebb_error *err)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *p = *at + 1;
    if (p == r->end)
        return json_fail(r, p, err, "the file ends inside a string");
    char c = *p++;
    if (c == 'u') {
        EBB_TRY(json_unicode(r, &p, err));
    } else {
        const char *found = c ? strchr(from, c) : NULL;
        if (!found)
            return json_fail(r, *at, err, "unknown escape in a string");
        ebb_str_addc(&r->scratch, to[found - from]);
    }
    *at = p;
    return EBB_OK;
}

/* String at r->at (a quote): event text; r->at behind the closing quote. */
static enum ebb_status json_string(struct ebb_json *r, struct ebb_json_event *e,
                                   struct ebb_error *err)
{
    const char *start = r->at + 1, *p = start;
    bool is_decoded = false;
    for (;;) {
        p = json_scan_plain(p, r->end);
        if (p == r->end)
            return json_fail(r, r->at, err, "this string is never closed");
        unsigned char c = (unsigned char)*p;
        if (c == '"')
            break;
        if (c == '\\') {
            if (!is_decoded)
                ebb_str_clear(&r->scratch);
            is_decoded = true;
            ebb_str_addn(&r->scratch, start, (size_t)(p - start));
            EBB_TRY(json_escape(r, &p, err));
            start = p;
        } else if (c < 0x20) {
            return json_fail(r, p, err, "control character in a string: write it as an escape");
        } else {
            size_t n = ebb_utf8_length(p, r->end);
            if (n == 0)
                return json_fail(r, p, err, "malformed UTF-8 in a string");
            p += n;
        }
    }
    e->text = start;
    e->length = (size_t)(p - start);
    if (is_decoded) {
        ebb_str_addn(&r->scratch, start, e->length);
        EBB_TRY(ebb_str_status(&r->scratch, err));
        e->text = ebb_str_c(&r->scratch);
        e->length = r->scratch.length;
    }
    r->at = p + 1;
    return EBB_OK;
}

/* Number at r->at ('-' or a digit), grammar of RFC 8259. */
static enum ebb_status json_number(struct ebb_json *r, struct ebb_json_event *e,
                                   struct ebb_error *err)
{
    const char *p = r->at, *end = r->end;
    bool is_negative = *p == '-', is_integer = true;
    p += is_negative;
    const char *first = p;
    uint64_t magnitude = 0;
    while (p < end && json_is(*p, CLASS_DIGIT)) /* wraps beyond 19 digits: not used then */
        magnitude = magnitude * 10 + (uint64_t)(*p++ - '0');
    size_t digits = (size_t)(p - first);
    if (digits == 0)
        return json_fail(r, r->at, err, "a number needs a digit behind '-'");
    if (digits > 1 && *first == '0')
        return json_fail(r, r->at, err, "a number must not start with 0");
    if (p < end && *p == '.') {
        const char *point = p++;
        is_integer = false;
        while (p < end && json_is(*p, CLASS_DIGIT))
            p++;
        if (p == point + 1)
            return json_fail(r, r->at, err, "a number needs a digit behind '.'");
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        is_integer = false;
        p++;
        p += p < end && (*p == '+' || *p == '-');
        const char *exponent = p;
        while (p < end && json_is(*p, CLASS_DIGIT))
            p++;
        if (p == exponent)
            return json_fail(r, r->at, err, "a number needs a digit in its exponent");
    }
    if (p < end && !json_is(*p, CLASS_DELIMITER))
        return json_fail(r, p, err, "unexpected character in a number");
    e->text = r->at;
    e->length = (size_t)(p - r->at);
    if (is_integer && digits <= 19 && magnitude <= (uint64_t)INT64_MAX + is_negative) {
        e->kind = EBB_JSON_INT;
        e->integer = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
        e->number = is_negative ? -(double)magnitude : (double)magnitude;
    } else {
        e->kind = EBB_JSON_NUMBER;
        if (!ebb_decimal_parse(e->text, e->length, &e->number) || isinf(e->number))
            return json_fail(r, r->at, err, "number beyond the range of a double");
    }
    r->at = p;
    return EBB_OK;
}

static bool json_word(struct ebb_json *r, const char *word, size_t n)
{
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    if ((size_t)(r->end - r->at) > n && !json_is(r->at[n], CLASS_DELIMITER))
        return false;
    r->at += n;
    return true;
}

static enum ebb_status json_open(struct ebb_json *r, struct ebb_json_event *e, bool is_object,
                                 struct ebb_error *err)
{
    if (r->depth == EBB_JSON_DEPTH)
        return json_fail(r, r->at, err, "nested deeper than 64 levels");
    r->stack[r->depth++] = is_object ? JSON_IN_OBJECT : JSON_IN_ARRAY;
    r->state = is_object ? JSON_FIRST_KEY : JSON_FIRST_ITEM;
    e->kind = is_object ? EBB_JSON_OBJECT : EBB_JSON_ARRAY;
    r->at++;
    return EBB_OK;
}

/* State behind a complete value. */
static void json_value_done(struct ebb_json *r)
{
    if (r->depth > 0)
        r->state = JSON_AFTER;
    else
        r->state = r->flags & EBB_JSON_MANY ? JSON_TOP : JSON_DONE;
}

static enum ebb_status json_close(struct ebb_json *r, struct ebb_json_event *e)
{
    r->depth--;
    e->kind = r->stack[r->depth] == JSON_IN_OBJECT ? EBB_JSON_OBJECT_END : EBB_JSON_ARRAY_END;
    r->at++;
    json_value_done(r);
    return EBB_OK;
}

static enum ebb_status json_value(struct ebb_json *r, struct ebb_json_event *e,
                                  struct ebb_error *err)
{
    if (r->at == r->end)
        return json_unexpected(r, err, "a value");
    switch (*r->at) {
    case '{':
        return json_open(r, e, true, err);
    case '[':
        return json_open(r, e, false, err);
    case '"':
        e->kind = EBB_JSON_STRING;
        EBB_TRY(json_string(r, e, err));
        break;
    case 't':
    case 'f':
        e->kind = EBB_JSON_BOOL;
        e->boolean = *r->at == 't';
        if (!(e->boolean ? json_word(r, "true", 4) : json_word(r, "false", 5)))
            return json_unexpected(r, err, "a value");
        break;
    case 'n':
        e->kind = EBB_JSON_NULL;
        if (!json_word(r, "null", 4))
            return json_unexpected(r, err, "a value");
        break;
    default:
        if (*r->at != '-' && !json_is(*r->at, CLASS_DIGIT))
            return json_unexpected(r, err, "a value");
        EBB_TRY(json_number(r, e, err));
    }
    json_value_done(r);
    return EBB_OK;
}

static enum ebb_status json_key(struct ebb_json *r, struct ebb_json_event *e, struct ebb_error *err)
{
    if (r->at == r->end || *r->at != '"')
        return json_unexpected(r, err, "a key in double quotes");
    e->kind = EBB_JSON_KEY;
    EBB_TRY(json_string(r, e, err));
    if (r->at == r->end || *r->at != ':')
        json_skip_blanks(r);
    if (r->at == r->end || *r->at != ':')
        return json_unexpected(r, err, "':' behind the key");
    r->at++;
    r->state = JSON_VALUE;
    return EBB_OK;
}

/* Behind a value inside a container: close it, or step over the comma. *is_closed says which. */
static enum ebb_status json_after(struct ebb_json *r, struct ebb_json_event *e, bool *is_closed,
                                  struct ebb_error *err)
{
    bool is_object = r->stack[r->depth - 1] == JSON_IN_OBJECT;
    char close = is_object ? '}' : ']';
    *is_closed = r->at < r->end && *r->at == close;
    if (*is_closed)
        return json_close(r, e);
    if (r->at == r->end || *r->at != ',')
        return json_unexpected(r, err, is_object ? "',' or '}'" : "',' or ']'");
    r->at++;
    r->state = is_object ? JSON_KEY : JSON_VALUE;
    json_skip_blanks(r);
    return EBB_OK;
}

enum ebb_status ebb_json_next(struct ebb_json *r, struct ebb_json_event *e, struct ebb_error *err)
{
    json_skip_blanks(r);
    if (r->state == JSON_AFTER) {
        bool is_closed;
        e->line = r->line;
        e->column = json_column(r, r->at);
        enum ebb_status status = json_after(r, e, &is_closed, err);
        if (status != EBB_OK || is_closed)
            return status;
    }
    e->line = r->line;
    e->column = json_column(r, r->at);
    char c = r->at < r->end ? *r->at : '\0';
    switch (r->state) {
    case JSON_FIRST_KEY:
        return c == '}' ? json_close(r, e) : json_key(r, e, err);
    case JSON_KEY:
        return json_key(r, e, err);
    case JSON_FIRST_ITEM:
        return c == ']' ? json_close(r, e) : json_value(r, e, err);
    case JSON_TOP:
        if (r->at < r->end || !(r->flags & EBB_JSON_MANY))
            return json_value(r, e, err);
        break;
    case JSON_DONE:
        if (r->at < r->end)
            return json_unexpected(r, err, "nothing more behind the value");
        break;
    default:
        return json_value(r, e, err);
    }
    e->kind = EBB_JSON_END;
    return EBB_OK;
}

enum ebb_status ebb_json_skip(struct ebb_json *r, const struct ebb_json_event *event,
                              struct ebb_error *err)
{
    struct ebb_json_event e = *event;
    if (e.kind == EBB_JSON_KEY)
        EBB_TRY(ebb_json_next(r, &e, err));
    if (e.kind != EBB_JSON_OBJECT && e.kind != EBB_JSON_ARRAY)
        return EBB_OK;
    for (int depth = r->depth; r->depth >= depth;)
        EBB_TRY(ebb_json_next(r, &e, err));
    return EBB_OK;
}
