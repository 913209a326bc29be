/* xml.c - see xml.h. */
#include "exp/store/xml.h"

#include <stdio.h>
#include <string.h>

/* The tag "<name ...>" or "</name>" at `at`; *after points behind its '>'. */
static bool is_tag(const char *at, const char *end, const char *name, bool is_end,
                   const char **after, bool *is_empty)
{
    size_t n = strlen(name), need = n + 2 + is_end;
    if ((size_t)(end - at) < need || at[0] != '<' || (is_end && at[1] != '/'))
        return false;
    const char *word = at + 1 + is_end;
    if (memcmp(word, name, n) != 0 || strchr("> /\t\r\n", word[n]) == NULL || word[n] == '\0')
        return false;
    const char *close = memchr(word + n, '>', (size_t)(end - word) - n);
    if (close == NULL)
        return false;
    *is_empty = close[-1] == '/';
    *after = close + 1;
    return true;
}

bool exp_xml_next(struct exp_xml *x, const char *name, struct exp_xml *inner)
{
    bool is_empty, ignored;
    for (const char *at = x->at; at < x->end; at++) {
        const char *begin, *after;
        at = memchr(at, '<', (size_t)(x->end - at));
        if (at == NULL)
            return false;
        if (!is_tag(at, x->end, name, false, &begin, &is_empty))
            continue;
        *inner = (struct exp_xml){begin, begin};
        if (is_empty) {
            x->at = begin;
            return true;
        }
        for (const char *to = begin; to < x->end; to++) {
            to = memchr(to, '<', (size_t)(x->end - to));
            if (to == NULL)
                return false;
            if (is_tag(to, x->end, name, true, &after, &ignored)) {
                inner->end = to;
                x->at = after;
                return true;
            }
        }
        return false;
    }
    return false;
}

static const struct {
    const char *name;
    char c;
} entities[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};

/* A character, or the entity it is written as; *used bytes of it. */
static char decode(const char *at, const char *end, size_t *used)
{
    unsigned number = 0;
    *used = 1;
    if (*at != '&')
        return *at;
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
        size_t n = strlen(entities[i].name);
        if ((size_t)(end - at) >= n && memcmp(at, entities[i].name, n) == 0) {
            *used = n;
            return entities[i].c;
        }
    }
    const char *to = at + 2;
    bool is_hex = (size_t)(end - at) > 3 && at[1] == '#' && at[2] == 'x';
    if ((size_t)(end - at) < 4 || at[1] != '#')
        return '&';
    for (to += is_hex; to < end && number < 256; to++) {
        unsigned c = (unsigned char)*to;
        unsigned digit = c - (unsigned)'0' < 10          ? c - (unsigned)'0'
                         : (c | 32u) - (unsigned)'a' < 6 ? (c | 32u) - (unsigned)'a' + 10
                                                         : 99;
        if (digit >= (is_hex ? 16u : 10u))
            break;
        number = number * (is_hex ? 16 : 10) + digit;
    }
    if (to == end || *to != ';' || number == 0 || number > 127)
        return '&';
    *used = (size_t)(to + 1 - at);
    return (char)number;
}

bool exp_xml_text(struct exp_xml x, const char *name, char *buf, size_t size)
{
    struct exp_xml inner;
    size_t n = 0;
    buf[0] = '\0';
    if (!exp_xml_next(&x, name, &inner))
        return false;
    for (size_t used; inner.at < inner.end && n + 1 < size; inner.at += used)
        buf[n++] = decode(inner.at, inner.end, &used);
    buf[n] = '\0';
    return true;
}

void exp_xml_escape(struct ebb_str *out, const char *text)
{
    for (; *text != '\0'; text++) {
        size_t i = 0, count = sizeof entities / sizeof *entities;
        while (i < count && entities[i].c != *text)
            i++;
        if (i < count)
            ebb_str_add(out, entities[i].name);
        else
            ebb_str_addc(out, *text);
    }
}
