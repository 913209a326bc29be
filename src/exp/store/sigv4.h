/* sigv4.h - AWS Signature Version 4. Private to exp/store.
 *
 * Pure: everything that is signed is given, the time included. Paths and queries are given as they
 * stand in the URL, percent-encoded once; the query is sorted here. */
#ifndef EBB_EXP_STORE_SIGV4_H
#define EBB_EXP_STORE_SIGV4_H

#include <time.h>

#include "base/status.h"
#include "base/str.h"

#define EXP_SIGV4_DATE 17 /* "20130524T000000Z" and the end */
#define EXP_SIGV4_UNSIGNED "UNSIGNED-PAYLOAD"
#define EXP_SIGV4_HEADERS 16

struct exp_sigv4 {
    const char *access_key, *secret_key;
    const char *region, *service;
    time_t time;
    const char *method;
    const char *path;           /* "/key%20with%20blanks" */
    const char *query;          /* "b=2&a=1&uploads=", or "" */
    const char *const *headers; /* all that are signed, "name: value", names in lower case */
    size_t header_count;        /* at most EXP_SIGV4_HEADERS */
    const char *payload;        /* its SHA-256 in hexadecimal, or EXP_SIGV4_UNSIGNED */
};

void exp_sigv4_date(time_t time, char text[EXP_SIGV4_DATE]);
/* Append the value of the header Authorization. */
enum ebb_status exp_sigv4_sign(const struct exp_sigv4 *s, struct ebb_str *out,
                               struct ebb_error *err);
/* Append text, percent-encoded but for unreserved characters and, if asked, '/'. */
void exp_url_escape(struct ebb_str *out, const char *text, bool keeps_slash);

#endif
