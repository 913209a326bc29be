/* json.h - JSON read by pulling events, written by calls.
 *
 * Reader: works on bytes in memory (borrowed for its lifetime), needs no heap except for long
 * escaped strings, keeps line and column (1-based, columns in bytes) of every value, accepts //
 * comments and CRLF, refuses everything else that RFC 8259 refuses, NaN, trailing commas and
 * duplicate keys left to the caller (doc.h refuses them). Depth limit 64. Errors: EBB_EINPUT with
 * "name:line:column: ...".
 *
 *     struct ebb_json r;
 *     ebb_json_init(&r, "file.json", bytes, length);
 *     while ((status = ebb_json_next(&r, &ev, err)) == EBB_OK && ev.kind != EBB_JSON_END) ...
 *     ebb_json_fini(&r);
 *
 * For streams of one object per line (DTR logs) use EBB_JSON_MANY: after a top-level value the next
 * one is read, EBB_JSON_END comes at the end of the bytes. */
#ifndef EBB_BASE_JSON_H
#define EBB_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

enum ebb_json_kind {
    EBB_JSON_END,
    EBB_JSON_OBJECT,     /* { */
    EBB_JSON_OBJECT_END, /* } */
    EBB_JSON_ARRAY,
    EBB_JSON_ARRAY_END,
    EBB_JSON_KEY,    /* text, length; the member's value follows */
    EBB_JSON_STRING, /* text, length */
    EBB_JSON_INT,    /* integer: fits int64; number too */
    EBB_JSON_NUMBER, /* number; text, length = the spelling (also for integers beyond 64 bits) */
    EBB_JSON_BOOL,   /* boolean */
    EBB_JSON_NULL,
};

struct ebb_json_event {
    enum ebb_json_kind kind;
    uint32_t line, column;
    const char *text; /* decoded; valid until the next call; not terminated */
    size_t length;
    int64_t integer;
    double number;
    bool boolean;
};

#define EBB_JSON_DEPTH 64
enum ebb_json_flags { EBB_JSON_ONE = 0, EBB_JSON_MANY = 1 };

struct ebb_json {
    const char *name; /* borrowed: for messages */
    const char *begin, *at, *end;
    const char *line_start;
    uint32_t line;
    unsigned flags;
    int depth;
    uint8_t stack[EBB_JSON_DEPTH]; /* state of each open container, private to json.c */
    uint8_t state;
    struct ebb_str scratch; /* decoded escapes */
};

void ebb_json_init(struct ebb_json *r, const char *name, const char *bytes, size_t length,
                   unsigned flags);
void ebb_json_fini(struct ebb_json *r);
enum ebb_status ebb_json_next(struct ebb_json *r, struct ebb_json_event *event,
                              struct ebb_error *err);
/* Skip the value whose first event was just returned (a whole object or array). */
enum ebb_status ebb_json_skip(struct ebb_json *r, const struct ebb_json_event *event,
                              struct ebb_error *err);

/* Writer: appends to an ebb_str; commas and nesting are its business. Doubles are written with
 * ebb_format_double; non-finite ones as null. indent 0 = one line. */
struct ebb_json_writer {
    struct ebb_str *out; /* borrowed */
    int indent, depth;
    bool need_comma, after_key;
};

void ebb_jsonw_init(struct ebb_json_writer *w, struct ebb_str *out, int indent);
void ebb_jsonw_object(struct ebb_json_writer *w);
void ebb_jsonw_object_end(struct ebb_json_writer *w);
void ebb_jsonw_array(struct ebb_json_writer *w);
void ebb_jsonw_array_end(struct ebb_json_writer *w);
void ebb_jsonw_key(struct ebb_json_writer *w, const char *key);
void ebb_jsonw_keyn(struct ebb_json_writer *w, const char *key, size_t n);
void ebb_jsonw_string(struct ebb_json_writer *w, const char *text); /* NULL = null */
void ebb_jsonw_stringn(struct ebb_json_writer *w, const char *text, size_t n);
void ebb_jsonw_int(struct ebb_json_writer *w, int64_t value);
void ebb_jsonw_uint(struct ebb_json_writer *w, uint64_t value);
void ebb_jsonw_double(struct ebb_json_writer *w, double value);
/* What is no number as "NaN", "Infinity", "-Infinity". */
void ebb_jsonw_metric(struct ebb_json_writer *w, double value);
void ebb_jsonw_bool(struct ebb_json_writer *w, bool value);
void ebb_jsonw_null(struct ebb_json_writer *w);
/* A value that is JSON text already; for writers without indent. */
void ebb_jsonw_raw(struct ebb_json_writer *w, const char *text, size_t length);
/* A member of an object: key and value. */
void ebb_jsonw_key_string(struct ebb_json_writer *w, const char *key, const char *text);
void ebb_jsonw_key_int(struct ebb_json_writer *w, const char *key, int64_t value);
void ebb_jsonw_key_uint(struct ebb_json_writer *w, const char *key, uint64_t value);
void ebb_jsonw_key_double(struct ebb_json_writer *w, const char *key, double value);
void ebb_jsonw_key_bool(struct ebb_json_writer *w, const char *key, bool value);
/* The same where there may be none: null unless `has`. */
void ebb_jsonw_key_uint_or_null(struct ebb_json_writer *w, const char *key, uint64_t value,
                                bool has);
/* A member that is an object or array, which the caller fills and ends. */
void ebb_jsonw_key_object(struct ebb_json_writer *w, const char *key);
void ebb_jsonw_key_array(struct ebb_json_writer *w, const char *key);

#endif
