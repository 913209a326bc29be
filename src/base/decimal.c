/* decimal.c - decimal text to double.
 *
 * Short numbers (mantissa below 2^53, power of ten within 22) are exact in one multiplication or
 * division (Clinger 1990). The rest is handed to strtod as "digits e exponent": without a decimal
 * point no locale can misread it. 780 digits decide every double; what follows only matters as "not
 * zero" and becomes one sticky digit. */
#include "base/decimal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { DECIMAL_DIGITS = 780, DECIMAL_EXPONENT_CAP = 100000000 };

static const double decimal_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                        1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                        1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

struct decimal {
    bool is_negative;
    const char *digits, *digits_end; /* with at most one '.' inside */
    uint64_t mantissa;               /* first 19 significant digits */
    int significant;                 /* digits seen, leading zeros not counted */
    int64_t exponent;                /* value = digits without point * 10^exponent */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Mantissa part; false when there is no digit. */
static bool decimal_scan_digits(struct decimal *d, const char **at, const char *end)
{
    const char *p = *at;
    bool has_digit = false, has_point = false;
    d->digits = p;
    for (; p < end; p++) {
        if (*p == '.' && !has_point) {
            has_point = true;
            continue;
        }
        if (!is_digit(*p))
            break;
        has_digit = true;
        d->exponent -= has_point;
        if (d->significant == 0 && *p == '0')
            continue;
        if (++d->significant <= 19)
            d->mantissa = d->mantissa * 10 + (uint64_t)(*p - '0');
    }
    d->digits_end = p;
    *at = p;
    return has_digit;
}

static bool decimal_scan(struct decimal *d, const char *p, const char *end)
{
    if (p < end && (*p == '-' || *p == '+'))
        d->is_negative = *p++ == '-';
    if (!decimal_scan_digits(d, &p, end))
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        int64_t exponent = 0;
        bool is_negative = false;
        if (++p < end && (*p == '-' || *p == '+'))
            is_negative = *p++ == '-';
        if (p == end)
            return false;
        for (; p < end && is_digit(*p); p++)
            exponent = exponent < DECIMAL_EXPONENT_CAP ? exponent * 10 + (*p - '0') : exponent;
        d->exponent += is_negative ? -exponent : exponent;
    }
    return p == end;
}

static double decimal_slow(const struct decimal *d)
{
    char buffer[DECIMAL_DIGITS + 32];
    size_t n = 0, dropped = 0;
    bool is_sticky = false;
    for (const char *p = d->digits; p < d->digits_end; p++) {
        if (*p == '.' || (n == 0 && *p == '0'))
            continue;
        if (n < DECIMAL_DIGITS) {
            buffer[n++] = *p;
        } else {
            dropped++;
            is_sticky |= *p != '0';
        }
    }
    int64_t exponent = d->exponent + (int64_t)dropped;
    if (is_sticky) {
        buffer[n++] = '1';
        exponent--;
    }
    snprintf(buffer + n, sizeof buffer - n, "e%lld", (long long)exponent);
    return strtod(buffer, NULL);
}

bool ebb_decimal_parse(const char *text, size_t length, double *value)
{
    struct decimal d = {0};
    if (!decimal_scan(&d, text, text + length))
        return false;
    double v;
    if (d.significant == 0)
        v = 0.0;
    else if (d.significant <= 19 && d.mantissa <= (UINT64_C(1) << 53) && d.exponent >= -22 &&
             d.exponent <= 22)
        v = d.exponent < 0 ? (double)d.mantissa / decimal_powers[-d.exponent]
                           : (double)d.mantissa * decimal_powers[d.exponent];
    else
        v = decimal_slow(&d);
    *value = d.is_negative ? -v : v;
    return true;
}
