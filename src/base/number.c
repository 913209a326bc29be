/* number.c - numbers, byte counts and durations as text, both ways (declared in str.h). */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/int128.h"
#include "base/str.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool ebb_parse_u64(const char *text, uint64_t *value)
{
    uint64_t v = 0;
    if (!is_digit(*text))
        return false;
    for (; is_digit(*text); text++) {
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
            return false;
    }
    if (*text)
        return false;
    *value = v;
    return true;
}

bool ebb_parse_i64(const char *text, int64_t *value)
{
    bool is_negative = *text == '-';
    uint64_t magnitude;
    if (!ebb_parse_u64(text + is_negative, &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + is_negative)
        return false;
    *value = is_negative ? (int64_t) - (ebb_i128)magnitude : (int64_t)magnitude;
    return true;
}

bool ebb_parse_double(const char *text, double *value)
{
    double parsed;
    if (!ebb_decimal_parse(text, strlen(text), &parsed) || !isfinite(parsed))
        return false;
    *value = parsed;
    return true;
}

static const struct {
    const char *text;
    uint64_t bytes;
} byte_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1000},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
};

static enum ebb_status bytes_refuse(const char *text, const char *why, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINPUT,
                    "'%.40s' is no number of bytes: %s; write for example 1024, 48MiB or 1.5GiB "
                    "(units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)",
                    text, why);
}

enum ebb_status ebb_parse_bytes(const char *text, uint64_t *bytes, struct ebb_error *err)
{
    enum { FRACTION_DIGITS = 18 };
    const char *p = text;
    uint64_t whole = 0, fraction = 0, scale = 1;
    if (!is_digit(*p))
        return bytes_refuse(text, "it must start with a digit", err);
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(whole, 10u, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
            return bytes_refuse(text, "too large", err);
    }
    bool has_fraction = *p == '.';
    if (has_fraction) {
        const char *first = ++p;
        for (; is_digit(*p); p++) {
            if (p - first >= FRACTION_DIGITS)
                return bytes_refuse(text, "more than 18 digits behind the point", err);
            fraction = fraction * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
        if (p == first)
            return bytes_refuse(text, "no digit behind the point", err);
    }
    const char *number_end = p;
    while (*p == ' ')
        p++;
    if (!*p)
        p = number_end; /* blanks stand only before a unit */
    for (size_t i = 0; i < sizeof byte_units / sizeof byte_units[0]; i++) {
        uint64_t unit = byte_units[i].bytes;
        if (strcmp(p, byte_units[i].text) != 0)
            continue;
        if (has_fraction && unit == 1)
            return bytes_refuse(text, "a fraction needs a unit above one byte", err);
        ebb_u128 total = (ebb_u128)whole * unit + (ebb_u128)fraction * unit / scale;
        if (total > UINT64_MAX)
            return bytes_refuse(text, "too large", err);
        *bytes = (uint64_t)total;
        return EBB_OK;
    }
    return bytes_refuse(text, "unknown unit", err);
}

/* Three significant digits of a value below 1024. */
static int digits_behind_point(double value)
{
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

const char *ebb_format_bytes(uint64_t bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= (unit == 0 ? 1024.0 : 1023.5) && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    if (unit == 0)
        snprintf(buf, size, "%" PRIu64 " B", bytes);
    else
        snprintf(buf, size, "%.*f %s", digits_behind_point(value), value, units[unit]);
    return buf;
}

const char *ebb_format_ns(uint64_t ns, char *buf, size_t size)
{
    double value = (double)ns;
    if (ns < 1000) {
        snprintf(buf, size, "%" PRIu64 " ns", ns);
    } else if (value < 999.5e3) {
        snprintf(buf, size, "%.*f us", digits_behind_point(value / 1e3), value / 1e3);
    } else if (value < 999.5e6) {
        snprintf(buf, size, "%.*f ms", digits_behind_point(value / 1e6), value / 1e6);
    } else if (value < 59.95e9) {
        snprintf(buf, size, "%.1f s", value / 1e9);
    } else {
        uint64_t s = ns / 1000000000u + (ns % 1000000000u >= 500000000u);
        if (s < 3600)
            snprintf(buf, size, "%" PRIu64 " min %02" PRIu64 " s", s / 60, s % 60);
        else
            snprintf(buf, size, "%" PRIu64 " h %02" PRIu64 " min", s / 3600, s / 60 % 60);
    }
    return buf;
}

/* snprintf obeys the locale's decimal point, which may be several bytes: make it one '.'. */
static void make_point(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (is_digit(*from) || strchr("+-e", *from))
            *to++ = *from;
        else if (to == text || to[-1] != '.')
            *to++ = '.';
    }
    *to = '\0';
}

const char *ebb_format_double(double value, char *buf, size_t size)
{
    if (!isfinite(value)) {
        snprintf(buf, size, "null");
        return buf;
    }
    /* 15 digits survive text -> double -> text, so %.15g finds every shorter spelling; only
     * subnormal numbers hold fewer. */
    int precision = value != 0 && fabs(value) < DBL_MIN ? 1 : 15;
    for (; precision <= 17; precision++) {
        double back;
        snprintf(buf, size, "%.*g", precision, value);
        make_point(buf);
        if (ebb_parse_double(buf, &back) && back == value)
            break;
    }
    return buf;
}
