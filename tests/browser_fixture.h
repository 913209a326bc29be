/* browser_fixture.h - a master that listens on TCP, and a browser of few words, for tests. */
#ifndef EBB_TESTS_BROWSER_FIXTURE_H
#define EBB_TESTS_BROWSER_FIXTURE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "exp/exp.h"
#include "master_fixture.h"
#include "serve/serve.h"

static struct fixture f;
static int port;
static char token[80], reader[80], cookie[80], csrf[80];

/* ---- a browser of few words ---- */

static inline int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static char heard[1 << 20];
static size_t heard_length;

/* Bytes until `enough` stands in them, the peer closes or the time is up; the master turns. */
static inline void hear_until(int fd, const char *enough, int ms)
{
    uint64_t until = ebb_clock_ns() + (uint64_t)ms * 1000000u;
    while (ebb_clock_ns() < until) {
        exp_master_turn(f.m, 2);
        ssize_t n = recv(fd, heard + heard_length, sizeof heard - 1 - heard_length, MSG_DONTWAIT);
        if (n == 0)
            return;
        heard_length += n > 0 ? (size_t)n : 0;
        heard[heard_length] = '\0';
        if (enough != NULL && memmem(heard, heard_length, enough, strlen(enough)) != NULL)
            return;
    }
}

/* ~T, ~R, ~C, ~X, ~P: the token, the one that may only read, the cookie, its secret, the port. */
static inline void spell(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; *text != '\0' && n + 80 < size; text++) {
        const char *word = text[0] != '~'   ? NULL
                           : text[1] == 'T' ? token
                           : text[1] == 'R' ? reader
                           : text[1] == 'C' ? cookie
                           : text[1] == 'X' ? csrf
                                            : NULL;
        if (text[0] == '~' && text[1] == 'P')
            n += (size_t)snprintf(out + n, size - n, "%d", port);
        else if (word != NULL)
            n += (size_t)snprintf(out + n, size - n, "%s", word);
        else
            out[n++] = *text;
        text += word != NULL || (text[0] == '~' && text[1] == 'P');
    }
    out[n] = '\0';
}

#define HOST "Host: 127.0.0.1:~P\r\n"

/* One request on a connection of its own: its status; `heard` is the whole answer. */
static inline int ask(const char *first, const char *fields, const char *body)
{
    char text[8192], request[4096];
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nConnection: close\r\n%s\r\n%s", first, fields,
             body);
    spell(text, sizeof text, request);
    int fd = dial(), status = 0;
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    heard_length = 0;
    heard[0] = '\0';
    hear_until(fd, NULL, 5000);
    close(fd);
    (void)sscanf(heard, "HTTP/1.1 %d", &status);
    return status;
}

static inline void expect(const char *what, int want, const char *first, const char *fields,
                          const char *body)
{
    int found = ask(first, fields, body);
    if (found != want)
        fail_msg("%s: %d, not %d: %.400s", what, found, want, heard);
    const char *const secrets[] = {token, reader, strchr(cookie, '=')};
    for (size_t i = 0; i < 3; i++)
        if (secrets[i] != NULL && strlen(secrets[i]) > 40 && strstr(heard, secrets[i] + 1) != NULL)
            fail_msg("%s: a secret in the answer: %.400s", what, heard);
}

/* ---- the master ---- */

static inline void copy_text(char out[80], const struct ebb_doc_node *root, const char *key)
{
    snprintf(out, 80, "%s", ebb_doc_string(root, key, ""));
}

static inline void begin_with(struct serve_listen how)
{
    struct ebb_error err;
    fixture_begin(&f, 1);
    f.options.ebb_path = "/bin/false"; /* not this test */
    fixture_open(&f);
    how.listen = "127.0.0.1:0";
    CHECK_OK(serve_listen(f.m, &how, &err), &err);
    port = atoi(strrchr(serve_url(f.m), ':') + 1);
    copy_text(token, fixture_ask(&f, "POST", "/tokens", "{}", NULL), "token");
    copy_text(reader, fixture_ask(&f, "POST", "/tokens", "{\"read_only\": true}", NULL), "token");
    CHECK_EQ(strlen(token), 4 + 43);
}

static inline void begin(void)
{
    begin_with((struct serve_listen){0});
}

static inline void log_in(void)
{
    char body[256], length[128];
    const char *url =
        ebb_doc_string(fixture_ask(&f, "POST", "/login-links", NULL, NULL), "url", "");
    int n = snprintf(body, sizeof body, "{\"secret\": \"%s\"}", strstr(url, "#login=") + 7);
    snprintf(length, sizeof length, HOST "Origin: http://127.0.0.1:~P\r\nContent-Length: %d\r\n",
             n);
    CHECK_EQ(ask("POST /api/v1/login", length, body), 200);
    const char *set = strstr(heard, "Set-Cookie: ");
    assert_non_null(set);
    assert_non_null(strstr(set, "; HttpOnly; SameSite=Strict"));
    snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(set + 12, ";"), set + 12);
    const char *secret = strstr(heard, "\"csrf\": \"");
    assert_non_null(secret);
    snprintf(csrf, sizeof csrf, "%.64s", secret + 9);
    /* once */
    CHECK_EQ(ask("POST /api/v1/login", length, body), 401);
}

#endif
