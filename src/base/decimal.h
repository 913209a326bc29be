/* decimal.h - decimal text to double, correctly rounded, in any locale. Private to base. */
#ifndef EBB_BASE_DECIMAL_H
#define EBB_BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* `text` matches [-+]? (digits [. digits?] | . digits) ([eE] [-+]? digits)? - checked, false
 * otherwise. A value beyond the range of double is false as well; one too small is 0. */
bool ebb_decimal_parse(const char *text, size_t length, double *value);

#endif
