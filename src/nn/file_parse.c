/* file_parse.c - expressions of model files: Python's, without what could loop.
 *
 * Operators, weakest first: a if c else b; or; and; not; == != < <= > >=; + -; * / // % @; unary -;
 * **; calls, members, indices. Mistakes have line and column of the character where they stand. */
#include <ctype.h>
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

enum { MOST_HIGH = 600 }; /* expressions inside each other, those of chains as well */

enum token_kind { T_END, T_NAME, T_INT, T_FLOAT, T_TEXT, T_SIGN };

struct parser {
    struct ebb_reading *reading;
    const struct ebb_path *path;
    const struct nn_text *source;
    size_t at; /* behind the token */
    enum token_kind kind;
    size_t begin, end; /* of the token in the source */
    int depth;
    bool failed;
};

/* ---- errors ----------------------------------------------------------------------------------- */

static void place_of(const struct nn_text *source, size_t at, uint32_t *line, uint32_t *column)
{
    *line = source->line;
    *column = source->column;
    for (size_t i = 0; i < at && i < source->length; i++) {
        if (source->text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)source->text[i] & 0xC0) != 0x80) { /* characters, not bytes */
            ++*column;
        }
    }
}

static void fail(struct parser *p, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void fail(struct parser *p, size_t at, const char *fmt, ...)
{
    struct nn_expr where = {0};
    char text[256];
    va_list args;
    if (p->failed)
        return;
    p->failed = true;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    place_of(p->source, at, &where.line, &where.column);
    nn_file_error(p->reading, p->path, &where, "%s", text);
}

void nn_file_error(struct ebb_reading *reading, const struct ebb_path *path,
                   const struct nn_expr *at, const char *fmt, ...)
{
    struct ebb_doc_node *node = ebb_reading_node(reading, EBB_DOC_NULL, NULL);
    struct ebb_str text = {0};
    va_list args;
    if (!node)
        return;
    node->line = at->line;
    node->column = at->column;
    va_start(args, fmt);
    ebb_str_vprintf(&text, fmt, args);
    va_end(args);
    ebb_reading_say(reading, EBB_FINDING_ERROR, path, node, &text);
}

/* "found ..., allowed: ..." at the token. */
static void want(struct parser *p, const char *allowed)
{
    struct ebb_str found = {0};
    if (p->kind == T_END)
        ebb_str_add(&found, "the end");
    else
        ebb_say_quoted(p->source->text + p->begin, p->end - p->begin, &found);
    fail(p, p->begin, "found %s, allowed: %s", ebb_str_c(&found), allowed);
    ebb_str_fini(&found);
}

/* ---- tokens ----------------------------------------------------------------------------------- */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void lex_number(struct parser *p)
{
    const char *s = p->source->text;
    size_t n = p->source->length, i = p->begin;
    p->kind = T_INT;
    bool is_zero = s[i] == '0', is_padded = false;
    for (; i < n && (isdigit((unsigned char)s[i]) || s[i] == '_'); i++) {
        is_padded |= is_zero && s[i] > '0' && s[i] <= '9';
        if (s[i] == '_' && (i + 1 == n || !isdigit((unsigned char)s[i + 1])))
            fail(p, i, "'_' stands between two digits of a number");
    }
    if (i < n && s[i] == '.') {
        p->kind = T_FLOAT;
        for (i++; i < n && isdigit((unsigned char)s[i]);)
            i++;
    }
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        size_t k = i + 1;
        if (k < n && (s[k] == '+' || s[k] == '-'))
            k++;
        if (k < n && isdigit((unsigned char)s[k])) {
            p->kind = T_FLOAT;
            for (i = k; i < n && isdigit((unsigned char)s[i]);)
                i++;
        }
    }
    p->end = p->at = i;
    if (p->kind == T_INT && is_padded)
        fail(p, p->begin, "a whole number does not begin with 0");
    if (i < n && is_word(s[i]))
        fail(p, i, "a number ends with a letter");
}

static void lex_text(struct parser *p)
{
    const char *s = p->source->text;
    size_t i = p->begin + 1;
    while (i < p->source->length && s[i] != s[p->begin] && s[i] != '\n')
        i++;
    p->kind = T_TEXT;
    p->end = p->at = i + 1;
    if (i >= p->source->length || s[i] != s[p->begin]) {
        p->end = p->at = p->source->length;
        fail(p, p->begin, "a text has no end: its second quote is missing");
    }
}

static void next(struct parser *p)
{
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "//", "**"};
    const char *s = p->source->text;
    size_t n = p->source->length;
    while (p->at < n && isspace((unsigned char)s[p->at]))
        p->at++;
    p->begin = p->at;
    if (p->at >= n || s[p->at] == '\0') {
        p->kind = T_END;
        p->end = p->begin;
        return;
    }
    char c = s[p->at];
    if (isdigit((unsigned char)c) ||
        (c == '.' && p->at + 1 < n && isdigit((unsigned char)s[p->at + 1]))) {
        lex_number(p);
    } else if (isalpha((unsigned char)c) || c == '_') {
        while (p->at < n && is_word(s[p->at]))
            p->at++;
        p->kind = T_NAME;
        p->end = p->at;
    } else if (c == '"' || c == '\'') {
        lex_text(p);
    } else {
        p->kind = T_SIGN;
        p->at++;
        while (p->at < n && ((unsigned char)s[p->at] & 0xc0) == 0x80) /* of one character */
            p->at++;
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            if (p->begin + 1 < n && memcmp(s + p->begin, pairs[i], 2) == 0)
                p->at = p->begin + 2;
        p->end = p->at;
    }
}

static bool is(const struct parser *p, const char *text)
{
    size_t n = strlen(text);
    return (p->kind == T_SIGN || p->kind == T_NAME) && p->end - p->begin == n &&
           memcmp(p->source->text + p->begin, text, n) == 0;
}

static bool take(struct parser *p, const char *text)
{
    if (p->failed || !is(p, text))
        return false;
    next(p);
    return true;
}

static void need(struct parser *p, const char *text, const char *allowed)
{
    if (!p->failed && !take(p, text))
        want(p, allowed);
}

static const char *copy_token(struct parser *p, size_t begin, size_t end)
{
    char *s = ebb_arena_strndup(p->reading->arena, p->source->text + begin, end - begin);
    if (!s)
        p->reading->failed = p->failed = true;
    return s;
}

/* ---- trees ------------------------------------------------------------------------------------ */

static struct nn_expr *new_expr(struct parser *p, enum nn_expr_kind kind, size_t at, size_t room)
{
    struct nn_expr *x = ebb_reading_alloc(p->reading, 1, sizeof *x);
    if (x && room) {
        x->items = ebb_reading_alloc(p->reading, room, sizeof *x->items);
        x->names = ebb_reading_alloc(p->reading, room, sizeof *x->names);
    }
    if (!x || (room && (!x->items || !x->names))) {
        p->failed = true;
        return NULL;
    }
    x->kind = kind;
    place_of(p->source, at, &x->line, &x->column);
    return x;
}

static struct nn_expr *expression(struct parser *p);

/* What has all its parts: how high it is. Who walks over it goes down as far. */
static struct nn_expr *seal(struct parser *p, struct nn_expr *x)
{
    for (size_t i = 0; x && i < x->count; i++)
        if (x->items[i] && x->items[i]->height >= x->height)
            x->height = x->items[i]->height + 1;
    if (x && x->height > MOST_HIGH)
        fail(p, p->begin, "expressions are nested deeper than %d, chains counted", MOST_HIGH);
    return x;
}

static struct nn_expr *pair(struct parser *p, const char *op, size_t at, struct nn_expr *a,
                            struct nn_expr *b)
{
    struct nn_expr *x = p->failed || !a || !b ? NULL : new_expr(p, NN_EXPR_BINARY, at, 2);
    if (!x)
        return NULL;
    x->text = op;
    x->items[0] = a;
    x->items[1] = b;
    x->count = 2;
    return seal(p, x);
}

/* Up to `close`, separated by commas; keywords where they are allowed. */
static void arguments(struct parser *p, struct nn_expr *x, const char *close, bool has_names)
{
    while (!p->failed && !take(p, close)) {
        if (x->count > NN_FILE_NAMES) {
            fail(p, p->begin, "more than %d values", NN_FILE_NAMES);
            return;
        }
        size_t begin = p->begin, end = p->end;
        enum token_kind kind = p->kind;
        struct nn_expr *value = expression(p);
        if (has_names && value && kind == T_NAME && value->kind == NN_EXPR_NAME && is(p, "=")) {
            next(p);
            x->names[x->count] = copy_token(p, begin, end);
            value = expression(p);
        }
        x->items[x->count++] = value;
        if (!p->failed && !is(p, close))
            need(p, ",", *close == ')' ? "',' or ')'" : "',' or ']'");
    }
}

static struct nn_expr *slice(struct parser *p)
{
    struct nn_expr *x = new_expr(p, NN_EXPR_SLICE, p->begin, 3);
    bool is_slice = false;
    for (size_t k = 0; x && k < 3 && !p->failed; k++) {
        if (!is(p, ":") && !is(p, ",") && !is(p, "]"))
            x->items[k] = expression(p);
        if (k == 2 || !take(p, ":"))
            break;
        is_slice = true;
    }
    if (!x || p->failed)
        return NULL;
    x->count = 3;
    if (!is_slice && !x->items[0])
        want(p, "an index");
    return is_slice ? seal(p, x) : x->items[0];
}

static void indices(struct parser *p, struct nn_expr *x)
{
    do {
        if (x->count > TENSOR_RANK) {
            fail(p, p->begin, "more than %d indices", TENSOR_RANK);
            return;
        }
        x->items[x->count++] = slice(p);
    } while (!p->failed && take(p, ",") && !is(p, "]"));
    need(p, "]", "',', ':' or ']'");
}

static struct nn_expr *list(struct parser *p, size_t at, const char *close)
{
    struct nn_expr *x = new_expr(p, NN_EXPR_LIST, at, NN_FILE_NAMES + 2);
    if (!x)
        return NULL;
    bool is_tuple = *close == ')', has_comma = false;
    while (!p->failed && !take(p, close)) {
        if (x->count >= NN_FILE_NAMES) {
            fail(p, p->begin, "more than %d values", NN_FILE_NAMES);
            return NULL;
        }
        x->items[x->count++] = expression(p);
        if (take(p, ","))
            has_comma = true;
        else if (!p->failed && !is(p, close))
            want(p, is_tuple ? "',' or ')'" : "',' or ']'");
    }
    return !p->failed && is_tuple && x->count == 1 && !has_comma ? x->items[0] : seal(p, x);
}

static struct nn_expr *number(struct parser *p)
{
    struct nn_expr *x = new_expr(p, p->kind == T_INT ? NN_EXPR_INT : NN_EXPR_FLOAT, p->begin, 0);
    char *text = ebb_reading_alloc(p->reading, p->end - p->begin + 1, 1);
    size_t n = 0;
    if (!text || !x) {
        p->failed = true;
        return NULL;
    }
    for (size_t i = p->begin; i < p->end; i++)
        if (p->source->text[i] != '_')
            text[n++] = p->source->text[i];
    bool is_good = p->kind == T_INT ? ebb_parse_i64(text, &x->integer)
                                    : ebb_parse_double(text, &x->number) && x->number <= FLT_MAX;
    if (!is_good)
        fail(p, p->begin, "a number that is too large: at most %s",
             p->kind == T_INT ? "9223372036854775807" : "3.4028235e38, of 32 bits");
    if (x->kind == NN_EXPR_INT)
        x->number = (double)x->integer;
    next(p);
    return x;
}

static struct nn_expr *name_or_word(struct parser *p)
{
    static const char reserved[] = "if else and or not in is for while def lambda return import";
    size_t n = p->end - p->begin;
    const char *text = p->source->text + p->begin;
    enum nn_expr_kind kind =
        n == 4 && memcmp(text, "None", 4) == 0 ? NN_EXPR_NONE
        : (n == 4 && (memcmp(text, "True", 4) == 0 || memcmp(text, "true", 4) == 0)) ||
                (n == 5 && (memcmp(text, "False", 5) == 0 || memcmp(text, "false", 5) == 0))
            ? NN_EXPR_BOOL
            : NN_EXPR_NAME;
    if (kind == NN_EXPR_NAME && ebb_words_find(reserved, text, n, NULL)) {
        want(p, "a name, a number, a text, '(' or '['");
        return NULL;
    }
    struct nn_expr *x = new_expr(p, kind, p->begin, 0);
    if (x && kind == NN_EXPR_NAME)
        x->text = copy_token(p, p->begin, p->end);
    if (x)
        x->integer = n == 4;
    next(p);
    return x;
}

static struct nn_expr *atom(struct parser *p)
{
    size_t at = p->begin;
    if (p->kind == T_NAME)
        return name_or_word(p);
    if (p->kind == T_INT || p->kind == T_FLOAT)
        return number(p);
    if (p->kind == T_TEXT) {
        struct nn_expr *x = new_expr(p, NN_EXPR_TEXT, at, 0);
        if (x)
            x->text = copy_token(p, p->begin + 1, p->end - 1);
        next(p);
        return x;
    }
    if (take(p, "("))
        return list(p, at, ")");
    if (take(p, "["))
        return list(p, at, "]");
    want(p, "a name, a number, a text, '(' or '['");
    return NULL;
}

/* .name, and the digits of containers: layers.0.conv1. */
static struct nn_expr *member(struct parser *p, struct nn_expr *of)
{
    struct nn_expr *x = new_expr(p, NN_EXPR_MEMBER, p->begin, 1);
    const char *s = p->source->text;
    size_t i = p->begin;
    while (i < p->source->length && is_word(s[i]))
        i++;
    if (!x || i == p->begin) {
        want(p, "a name behind '.'");
        return NULL;
    }
    x->text = copy_token(p, p->begin, i);
    x->items[0] = of;
    x->count = 1;
    p->at = i;
    p->failed = p->failed || p->reading->failed;
    next(p);
    return seal(p, x);
}

static struct nn_expr *postfix(struct parser *p)
{
    struct nn_expr *x = atom(p);
    for (int k = 0; !p->failed && x; k++) {
        struct nn_expr *of = x;
        size_t at = p->begin;
        if (k > 4 * NN_FILE_NEST) {
            fail(p, at, "a chain of more than %d calls and members", 4 * NN_FILE_NEST);
        } else if (is(p, "(")) {
            next(p);
            x = new_expr(p, NN_EXPR_CALL, at, NN_FILE_NAMES + 2);
            if (!x)
                return NULL;
            x->line = of->line;
            x->column = of->column;
            x->items[x->count++] = of;
            arguments(p, x, ")", true);
            seal(p, x);
        } else if (is(p, "[")) {
            next(p);
            x = new_expr(p, NN_EXPR_INDEX, at, TENSOR_RANK + 2);
            if (!x)
                return NULL;
            x->items[x->count++] = of;
            indices(p, x);
            seal(p, x);
        } else if (p->kind != T_END && p->source->text[p->begin] == '.') {
            p->begin++; /* what follows is a name: the 0 of layers.0.conv, too */
            x = member(p, of);
        } else {
            return x;
        }
    }
    return p->failed ? NULL : x;
}

static struct nn_expr *unary(struct parser *p)
{
    size_t at = p->begin;
    if (++p->depth > NN_FILE_NEST)
        fail(p, at, "expressions are nested deeper than %d", NN_FILE_NEST);
    struct nn_expr *x = NULL;
    bool is_minus = take(p, "-");
    if (is_minus || take(p, "+")) {
        struct nn_expr *of = unary(p);
        x = p->failed ? NULL : new_expr(p, NN_EXPR_UNARY, at, 1);
        if (x) {
            x->text = is_minus ? "-" : "+";
            x->items[0] = of;
            x->count = 1;
            seal(p, x);
        }
    } else if (!p->failed) {
        x = postfix(p);
        at = p->begin;
        if (take(p, "**"))
            x = pair(p, "**", at, x, unary(p));
    }
    p->depth--;
    return p->failed ? NULL : x;
}

static const char *const levels[][7] = {
    {"or"}, {"and"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "//", "/", "%", "@"}};
enum { LEVELS = sizeof levels / sizeof *levels, COMPARE = 2 };

static struct nn_expr *binary(struct parser *p, int level)
{
    if (level == LEVELS)
        return unary(p);
    if (level == COMPARE && is(p, "not")) {
        size_t at = p->begin;
        next(p);
        if (++p->depth > NN_FILE_NEST)
            fail(p, at, "expressions are nested deeper than %d", NN_FILE_NEST);
        struct nn_expr *of = binary(p, level);
        p->depth--;
        struct nn_expr *x = p->failed ? NULL : new_expr(p, NN_EXPR_UNARY, at, 1);
        if (x) {
            x->text = "not";
            x->items[0] = of;
            x->count = 1;
            seal(p, x);
        }
        return x;
    }
    struct nn_expr *x = binary(p, level + 1);
    for (int k = 0; !p->failed; k++) {
        const char *op = NULL;
        for (size_t i = 0; i < 7 && levels[level][i] && !op; i++)
            op = is(p, levels[level][i]) ? levels[level][i] : NULL;
        if (!op)
            return x;
        size_t at = p->begin;
        next(p);
        if (k >= 8 * NN_FILE_NEST)
            fail(p, at, "more than %d operators in a row", 8 * NN_FILE_NEST);
        if (level == COMPARE && k > 0)
            fail(p, at, "comparisons do not chain here: a < b and b < c");
        struct nn_expr *right = p->failed ? NULL : binary(p, level + 1);
        x = pair(p, op, at, x, right);
    }
    return NULL;
}

static struct nn_expr *expression(struct parser *p)
{
    if (++p->depth > NN_FILE_NEST)
        fail(p, p->begin, "expressions are nested deeper than %d", NN_FILE_NEST);
    struct nn_expr *x = p->failed ? NULL : binary(p, 0);
    size_t at = p->begin;
    if (!p->failed && take(p, "if")) {
        struct nn_expr *choice = new_expr(p, NN_EXPR_CHOICE, at, 3);
        struct nn_expr *when = binary(p, 0);
        need(p, "else", "'else'");
        struct nn_expr *other = p->failed ? NULL : expression(p);
        if (choice && !p->failed) {
            choice->items[0] = when;
            choice->items[1] = x;
            choice->items[2] = other;
            choice->count = 3;
            seal(p, choice);
        }
        x = choice;
    }
    p->depth--;
    return p->failed ? NULL : x;
}

/* ---- from outside ----------------------------------------------------------------------------- */

static struct parser begin(struct ebb_reading *reading, const struct ebb_path *path,
                           const struct nn_text *text)
{
    struct parser p = {.reading = reading, .path = path, .source = text};
    next(&p);
    return p;
}

static void end(struct parser *p, const char *allowed)
{
    if (!p->failed && p->kind != T_END)
        want(p, allowed);
}

struct nn_expr *nn_file_expr(struct ebb_reading *reading, const struct ebb_path *path,
                             const struct nn_text *text)
{
    struct parser p = begin(reading, path, text);
    struct nn_expr *x = expression(&p);
    end(&p, "an operator, or the end");
    return p.failed ? NULL : x;
}

/* One expression, or several as a tuple. */
static struct nn_expr *expressions(struct parser *p)
{
    size_t at = p->begin;
    struct nn_expr *x = expression(p);
    if (p->failed || !is(p, ","))
        return x;
    struct nn_expr *all = new_expr(p, NN_EXPR_LIST, at, NN_FILE_NAMES + 2);
    if (!all)
        return NULL;
    all->items[all->count++] = x;
    while (take(p, ",") && p->kind != T_END) {
        if (all->count >= NN_FILE_NAMES) {
            fail(p, p->begin, "more than %d values", NN_FILE_NAMES);
            return NULL;
        }
        all->items[all->count++] = expression(p);
    }
    return all;
}

/* Names of what stands left of '='. */
static bool targets(struct parser *p, const struct nn_expr *left, struct nn_line *line)
{
    size_t n = left->kind == NN_EXPR_LIST ? left->count : 1;
    line->targets = ebb_reading_alloc(p->reading, n, sizeof *line->targets);
    for (size_t i = 0; line->targets && i < n; i++) {
        const struct nn_expr *x = left->kind == NN_EXPR_LIST ? left->items[i] : left;
        if (x->kind != NN_EXPR_NAME) {
            nn_file_error(p->reading, p->path, x,
                          "only names are assigned to: name = ..., or a, b = ...");
            return false;
        }
        line->targets[line->target_count++] = x->text;
    }
    return line->targets != NULL;
}

bool nn_file_line(struct ebb_reading *reading, const struct ebb_path *path,
                  const struct nn_text *text, struct nn_line *line)
{
    struct parser p = begin(reading, path, text);
    *line = (struct nn_line){0};
    if (take(&p, "return")) {
        line->value = expressions(&p);
        end(&p, "an operator, or the end");
        return !p.failed;
    }
    struct nn_expr *left = expressions(&p);
    if (!p.failed && !is(&p, "=")) {
        want(&p, "'=': a line is 'name = ...' or 'return ...'");
        return false;
    }
    next(&p);
    if (p.failed || !targets(&p, left, line))
        return false;
    line->value = expressions(&p);
    end(&p, "an operator, or the end");
    return !p.failed;
}

bool nn_file_head(struct ebb_reading *reading, const struct ebb_path *path,
                  const struct nn_text *text, struct nn_head *head)
{
    struct parser p = begin(reading, path, text);
    struct nn_expr *x = expression(&p);
    end(&p, "Name(parameters)");
    *head = (struct nn_head){0};
    if (p.failed)
        return false;
    const struct nn_expr *name = x->kind == NN_EXPR_CALL ? x->items[0] : x;
    size_t n = x->kind == NN_EXPR_CALL ? x->count - 1 : 0;
    if (name->kind != NN_EXPR_NAME) {
        nn_file_error(reading, path, x, "a block is named Name, or Name(a, b=1)");
        return false;
    }
    head->name = name->text;
    head->names = ebb_reading_alloc(reading, n, sizeof *head->names);
    head->defaults = ebb_reading_alloc(reading, n, sizeof *head->defaults);
    for (size_t i = 0; head->names && head->defaults && i < n; i++) {
        struct nn_expr *a = x->items[i + 1];
        if (!x->names[i + 1] && a->kind != NN_EXPR_NAME) {
            nn_file_error(reading, path, a, "a parameter is a name, or name=default");
            return false;
        }
        head->names[i] = x->names[i + 1] ? x->names[i + 1] : a->text;
        head->defaults[i] = x->names[i + 1] ? a : NULL;
        if (i && head->defaults[i - 1] && !head->defaults[i]) {
            nn_file_error(reading, path, a, "parameters with defaults come last");
            return false;
        }
        head->count++;
    }
    return !reading->failed;
}

bool nn_expr_path(const struct nn_expr *x, char *buf, size_t size)
{
    if (x->kind == NN_EXPR_NAME)
        return snprintf(buf, size, "%s", x->text) < (int)size;
    if (x->kind != NN_EXPR_MEMBER || !nn_expr_path(x->items[0], buf, size))
        return false;
    size_t n = strlen(buf);
    return snprintf(buf + n, size - n, ".%s", x->text) < (int)(size - n);
}
