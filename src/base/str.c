/* str.c - growing text. Numbers and units in text are in number.c. */
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"

void ebb_str_init(struct ebb_str *s)
{
    *s = (struct ebb_str){0};
}

void ebb_str_fini(struct ebb_str *s)
{
    ebb_free(s->data);
    *s = (struct ebb_str){0};
}

void ebb_str_clear(struct ebb_str *s)
{
    s->length = 0;
    s->failed = false;
    if (s->data)
        s->data[0] = '\0';
}

static void str_fail(struct ebb_str *s)
{
    ebb_str_fini(s);
    s->failed = true;
}

/* Room for n more bytes and the terminator. */
static bool str_reserve(struct ebb_str *s, size_t n)
{
    if (s->failed)
        return false;
    if (n < s->capacity - s->length)
        return true;
    size_t need;
    if (__builtin_add_overflow(s->length, n, &need) || need == SIZE_MAX ||
        ebb_grow(&s->data, &s->capacity, need + 1 < 64 ? 64 : need + 1, 1, NULL) != EBB_OK) {
        str_fail(s);
        return false;
    }
    return true;
}

void ebb_str_addn(struct ebb_str *s, const char *text, size_t n)
{
    if (n == 0 || !str_reserve(s, n))
        return;
    memcpy(s->data + s->length, text, n);
    s->length += n;
    s->data[s->length] = '\0';
}

void ebb_str_add(struct ebb_str *s, const char *text)
{
    ebb_str_addn(s, text, strlen(text));
}

void ebb_str_addc(struct ebb_str *s, char c)
{
    ebb_str_addn(s, &c, 1);
}

void ebb_str_vprintf(struct ebb_str *s, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    char small[256];
    int n = vsnprintf(small, sizeof small, fmt, args);
    if (n < 0) {
        str_fail(s);
    } else if ((size_t)n < sizeof small) {
        ebb_str_addn(s, small, (size_t)n);
    } else if (str_reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->length, (size_t)n + 1, fmt, again);
        s->length += (size_t)n;
    }
    va_end(again);
}

void ebb_str_printf(struct ebb_str *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    ebb_str_vprintf(s, fmt, args);
    va_end(args);
}

const char *ebb_str_c(const struct ebb_str *s)
{
    return s->length > 0 ? s->data : "";
}

enum ebb_status ebb_str_status(const struct ebb_str *s, struct ebb_error *err)
{
    if (!s->failed)
        return EBB_OK;
    return ebb_fail(err, EBB_ENOMEM, "out of memory while making text");
}

char *ebb_str_take(struct ebb_str *s)
{
    char *data = s->data;
    if (s->failed)
        return NULL;
    if (!data)
        data = ebb_calloc(1, 1); /* the caller gets "" to free, not NULL = out of memory */
    *s = (struct ebb_str){0};
    return data;
}

/* Levenshtein distance of two short texts; `row` holds strlen(b) + 1 numbers. */
static size_t edit_distance(const char *a, const char *b, size_t *row)
{
    size_t nb = strlen(b);
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < nb; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (diagonal + 1 < best)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[nb];
}

int ebb_name_index(const char *text, const char *const *names, size_t count)
{
    for (size_t i = 0; text != NULL && i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return (int)i;
    return -1;
}

const char *ebb_nearest(const char *text, const char *const *names, size_t count)
{
    enum { LONGEST = 127 }; /* longer ones are no misspelled names */
    size_t row[LONGEST + 1], length = strlen(text);
    if (length > LONGEST)
        return NULL;
    const char *nearest = NULL;
    size_t limit = length / 3 + 1;
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) > LONGEST)
            continue;
        size_t distance = edit_distance(text, names[i], row);
        if (distance > limit || (nearest && distance == limit))
            continue;
        nearest = names[i];
        limit = distance;
    }
    return nearest;
}
