/* tries.c - a request until it is answered: which failures pass, and how long to wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/utf8.h"
#include "exp/store/http.h"
#include "exp/store/store.h"

#define TRIES 5
#define FIRST_MS 500
#define WAIT_MAX_MS 60000 /* of what Retry-After may ask for */
#define OTHERS 16         /* changes of region or host for one request */

bool exp_http_is_passing(int status)
{
    return status >= 500 || status == 429 || status == 408;
}

void exp_http_clean(struct ebb_error *err)
{
    if (err == NULL)
        return;
    char *end = err->message + strlen(err->message);
    for (char *at = err->message; at < end;) {
        unsigned char c = (unsigned char)*at;
        size_t n = c < 0x80 ? 1 : ebb_utf8_length(at, end);
        bool is_control = c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)at[1] < 0xa0);
        size_t used = n > 0 ? n : 1;
        if (n == 0 || is_control)
            memset(at, '?', used);
        at += used;
    }
}

const char *exp_http_words(const struct exp_http_answer *answer, char text[EXP_WORDS])
{
    const char *body = ebb_str_c(&answer->body);
    snprintf(text, EXP_WORDS, "%s", body + strspn(body, " \t\r\n"));
    size_t n = strcspn(text, "\r\n");
    text[n] = '\0';
    return text;
}

const char *exp_http_short(const char *name, char text[EXP_SHORT])
{
    size_t n = strlen(name), half = (EXP_SHORT - 4) / 2;
    if (n < EXP_SHORT)
        return name;
    snprintf(text, EXP_SHORT, "%.*s...%s", (int)half, name, name + n - half);
    return text;
}

static bool is_set(const atomic_bool *flag)
{
    return flag != NULL && atomic_load(flag);
}

static void pause_ms(const atomic_bool *is_unwanted, int ms)
{
    for (; ms > 0 && !is_set(is_unwanted); ms -= 100) {
        long part = ms < 100 ? ms : 100;
        nanosleep(&(struct timespec){.tv_nsec = part * 1000000}, NULL);
    }
}

/* "Sun, 06 Nov 1994 08:49:37 GMT": seconds from now, 0 when it is over. */
static bool parse_date(const char *text, uint64_t *seconds)
{
    struct tm parts = {0};
    if (strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &parts) == NULL)
        return false;
    time_t then = timegm(&parts), now = time(NULL);
    *seconds = then > now ? (uint64_t)(then - now) : 0;
    return true;
}

/* 0.5 s, 1 s, 2 s, 4 s, each between half and all of it, or what the server asks for. */
static int wait_ms(int tried, const struct exp_http_answer *answer)
{
    char text[32];
    uint32_t random = 0;
    if (answer != NULL && exp_http_header(answer, "retry-after", text, sizeof text)) {
        uint64_t seconds = 0;
        if (ebb_parse_u64(text, &seconds) || parse_date(text, &seconds))
            return seconds > WAIT_MAX_MS / 1000 ? WAIT_MAX_MS : (int)seconds * 1000;
    }
    int all = FIRST_MS << (tried < 6 ? tried : 6);
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = 0;
    return all / 2 + (int)(random % (uint32_t)(all / 2 + 1));
}

static int tries_of(const struct exp_store_watch *watch)
{
    return watch != NULL && watch->tries > 0 ? watch->tries : TRIES;
}

static const atomic_bool *unwanted_of(const struct exp_store_watch *watch)
{
    return watch != NULL ? &watch->is_unwanted : NULL;
}

bool exp_http_rest(const struct exp_store_watch *watch, int tried,
                   const struct exp_http_answer *answer)
{
    const atomic_bool *is_unwanted = unwanted_of(watch);
    bool is_refused = answer->status >= 400 && !exp_http_is_passing(answer->status);
    if (is_refused || tried >= tries_of(watch)) /* below 400: an answer that broke off */
        return false;
    pause_ms(is_unwanted, wait_ms(tried - 1, answer));
    return !is_set(is_unwanted);
}

enum ebb_status exp_http_exchange(struct exp_http *http, const struct exp_exchange *x,
                                  struct exp_http_answer *answer, struct ebb_error *err)
{
    const atomic_bool *is_unwanted = unwanted_of(x->watch);
    int tries = x->tries > 0 ? x->tries : tries_of(x->watch), others = 0;
    for (int tried = 0;;) {
        struct exp_http_request request = {.fd = -1, .is_unwanted = is_unwanted};
        struct ebb_error why = {.status = EBB_EIO};
        enum ebb_status made = x->make(x->context, &request, err);
        if (made == EBB_EIO && !is_set(is_unwanted) && ++tried < tries) {
            pause_ms(is_unwanted, wait_ms(tried - 1, NULL)); /* a token, keys: may come yet */
            continue;
        }
        if (made != EBB_OK) {
            exp_http_clean(err);
            return made;
        }
        enum ebb_status status = exp_http_ask(http, &request, answer, &why);
        if (status == EBB_ECANCELED || status == EBB_ENOMEM || is_set(is_unwanted)) {
            if (err != NULL)
                *err = why;
            return status != EBB_OK ? status : ebb_fail(err, EBB_ECANCELED, "given up");
        }
        bool has_answer = status == EBB_OK;
        enum exp_verdict verdict = x->judge(x->context, has_answer ? answer : NULL, &why);
        exp_http_clean(&why);
        if (verdict == EXP_DONE)
            return EBB_OK;
        if (verdict == EXP_OTHER && others++ < OTHERS)
            continue;
        if (err != NULL)
            *err = why;
        if (verdict != EXP_AGAIN || status == EBB_EINPUT || ++tried >= tries)
            return why.status != EBB_OK ? why.status : EBB_EIO;
        pause_ms(is_unwanted, wait_ms(tried - 1, has_answer ? answer : NULL));
    }
}
