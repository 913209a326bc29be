/* str.h - growing text, and what is done to text everywhere: sizes with units, nearest name,
 * slices.
 *
 * struct ebb_str never fails loudly in the middle: after running out of memory it stays empty and
 * `failed` is set; check once at the end with ebb_str_status. */
#ifndef EBB_BASE_STR_H
#define EBB_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct ebb_str {
    char *data; /* owned; terminated whenever length > 0; NULL when empty */
    size_t length, capacity;
    bool failed;
};

void ebb_str_init(struct ebb_str *s);
void ebb_str_fini(struct ebb_str *s);
void ebb_str_clear(struct ebb_str *s);
void ebb_str_add(struct ebb_str *s, const char *text);
void ebb_str_addn(struct ebb_str *s, const char *text, size_t n);
void ebb_str_addc(struct ebb_str *s, char c);
void ebb_str_printf(struct ebb_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ebb_str_vprintf(struct ebb_str *s, const char *fmt, va_list args);
const char *ebb_str_c(const struct ebb_str *s); /* "" when empty */
enum ebb_status ebb_str_status(const struct ebb_str *s, struct ebb_error *err);
char *ebb_str_take(struct ebb_str *s); /* caller owns (ebb_free); s becomes empty */

/* Bytes with a unit: "48MiB", "1.5GiB", "2GB", "1024", "100kB", "7 KiB". Exact integers; EBB_EINPUT
 * says what is allowed. A fraction must give a whole number of bytes after rounding down. */
enum ebb_status ebb_parse_bytes(const char *text, uint64_t *bytes, struct ebb_error *err);

/* "512 B", "1.50 MiB": three significant digits, binary units. Returns buf. */
const char *ebb_format_bytes(uint64_t bytes, char *buf, size_t size);
/* "950 ns", "1.20 ms", "3.4 s", "2 min 05 s". Returns buf. */
const char *ebb_format_ns(uint64_t ns, char *buf, size_t size);

/* Strict number parsing: whole text, no blanks, range checked. */
bool ebb_parse_u64(const char *text, uint64_t *value);
bool ebb_parse_i64(const char *text, int64_t *value);
bool ebb_parse_double(const char *text,
                      double *value); /* finite, '.' decimal point in any locale */

/* Shortest text that reads back to the same double ("0.1", "1e-05", "nan" never: JSON null). */
const char *ebb_format_double(double value, char *buf, size_t size); /* size >= 32 */

/* Which of `count` names `text` is; -1: none (NULL is none). */
int ebb_name_index(const char *text, const char *const *names, size_t count);

/* Nearest of `count` names to `text` by edit distance, or NULL if none is near (distance >
 * len/3+1). */
const char *ebb_nearest(const char *text, const char *const *names, size_t count);

/* Control characters but line ends and tabs become '?': what files say must not steer a terminal. */
void ebb_hide_controls(char *text);

#endif
