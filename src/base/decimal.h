/* decimal.h - decimal text to double, correctly rounded, in any locale. Private to base. */
#ifndef EBB_BASE_DECIMAL_H
#define EBB_BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* `text` must match [-+]? (digits [. digits?] | . digits) ([eE] [-+]? digits)?, else false. A
 * number beyond the range of double is true and infinite: the caller decides. One too small is 0.
 */
bool ebb_decimal_parse(const char *text, size_t length, double *value);

#endif
