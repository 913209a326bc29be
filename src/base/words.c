/* words.c - the words of messages: lists of names, what was found, the nearest name. */
#include <string.h>

#include "base/report.h"

#define QUOTE_MAX 60
#define NEAREST_MAX 64 /* longer words are no typing errors, and edit distance is quadratic */
#define NAMES_MAX 256

const char *ebb_words_at(const char *words, size_t index, size_t *length)
{
    const char *at = words ? words : "";
    while (*at) {
        *length = strcspn(at, " ");
        if (index-- == 0)
            return at;
        at += *length;
        at += strspn(at, " ");
    }
    return NULL;
}

bool ebb_words_find(const char *words, const char *word, size_t length, size_t *index)
{
    size_t n = 0;
    const char *at;
    for (size_t i = 0; (at = ebb_words_at(words, i, &n)) != NULL; i++) {
        if (n == length && memcmp(at, word, n) == 0) {
            if (index)
                *index = i;
            return true;
        }
    }
    return false;
}

size_t ebb_words_count(const char *words)
{
    size_t n = 0, count = 0;
    while (ebb_words_at(words, count, &n))
        count++;
    return count;
}

void ebb_words_add(struct ebb_str *words, const char *word)
{
    if (words->length > 0)
        ebb_str_addc(words, ' ');
    ebb_str_add(words, word);
}

void ebb_say_words(const char *words, struct ebb_str *out)
{
    size_t n = 0;
    const char *word;
    for (size_t i = 0; (word = ebb_words_at(words, i, &n)) != NULL; i++) {
        if (i > 0)
            ebb_str_add(out, ", ");
        ebb_str_addn(out, word, n);
    }
}

const char *ebb_words_nearest(const char *words, const char *text, size_t length, size_t *n)
{
    char copies[NEAREST_MAX + 1];
    const char *nearest = NULL;
    if (length > NEAREST_MAX)
        return NULL;
    memcpy(copies, text, length);
    copies[length] = '\0';
    struct ebb_str names = {0};
    const char *list[NAMES_MAX], *word;
    size_t count = 0;
    ebb_str_add(&names, words ? words : "");
    for (char *at = names.data; at && *at && count < NAMES_MAX;) { /* cut the copy at its blanks */
        size_t k = strcspn(at, " ");
        bool is_last = at[k] == '\0';
        at[k] = '\0';
        if (k > 0)
            list[count++] = at;
        at += k + !is_last;
    }
    word = ebb_nearest(copies, list, count);
    if (word) {
        *n = strlen(word);
        nearest = words + (word - names.data);
    }
    ebb_str_fini(&names);
    return nearest;
}

void ebb_say_nearest(const char *words, const char *text, size_t length, struct ebb_str *out)
{
    size_t n = 0;
    const char *nearest = ebb_words_nearest(words, text, length, &n);
    if (nearest)
        ebb_str_printf(out, "; nearest: %.*s", (int)n, nearest);
}

void ebb_hide_controls(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        bool is_wide = *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0; /* C1 controls */
        if ((*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f || is_wide)
            *c = '?';
        if (is_wide)
            *++c = '?';
    }
}

void ebb_say_quoted(const char *text, size_t length, struct ebb_str *out)
{
    size_t n = length <= QUOTE_MAX ? length : QUOTE_MAX;
    while (n < length && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--; /* do not cut a character in two */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            ebb_str_add(out, "\\n");
        else if (c == '\t')
            ebb_str_add(out, "\\t");
        else if (c < 0x20 || c == 0x7f)
            ebb_str_printf(out, "\\x%02x", c);
        else if (c == 0xc2 && i + 1 < n && (unsigned char)text[i + 1] < 0xa0)
            ebb_str_printf(out, "\\x%02x", (unsigned char)text[++i]); /* C1 controls */
        else
            ebb_str_addc(out, (char)c);
    }
    if (n < length)
        ebb_str_add(out, "...");
}

void ebb_say_found(const struct ebb_doc_node *node, struct ebb_str *out)
{
    char number[32];
    switch (node->kind) {
    case EBB_DOC_NULL:
        ebb_str_add(out, "null");
        break;
    case EBB_DOC_BOOL:
        ebb_str_add(out, node->boolean ? "true" : "false");
        break;
    case EBB_DOC_INT:
    case EBB_DOC_DOUBLE:
        if (node->text)
            ebb_say_quoted(node->text, strlen(node->text), out);
        else if (node->kind == EBB_DOC_INT)
            ebb_str_printf(out, "%lld", (long long)node->integer);
        else
            ebb_str_add(out, ebb_format_double(node->number, number, sizeof number));
        break;
    case EBB_DOC_STRING:
        ebb_str_addc(out, '"');
        ebb_say_quoted(node->text, node->length, out);
        ebb_str_addc(out, '"');
        break;
    case EBB_DOC_LIST:
    case EBB_DOC_MAP:
        if (node->count == 0)
            ebb_str_add(out, node->kind == EBB_DOC_LIST ? "an empty list" : "an empty mapping");
        else
            ebb_str_add(out, ebb_doc_kind_text(node->kind));
        break;
    }
}
