/* http.c - HTTP/1.1 messages: the small, strict part that a REST interface needs. No chunked
 * requests, no continuation lines; a message is complete in memory before it is looked at. */
#include "serve/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/heap.h"
#include "base/json.h"

void serve_http_response_init(struct serve_http_response *response)
{
    *response = (struct serve_http_response){.status = 200, .content_type = "application/json"};
    ebb_str_init(&response->body);
}

void serve_http_response_fini(struct serve_http_response *response)
{
    ebb_str_fini(&response->body);
}

/* ---- reading ---- */

struct head {
    const char *at, *end; /* after the first line */
    size_t length;        /* with the empty line */
    bool has_length;
    uint64_t body_length;
};

static enum serve_http_result bad(struct serve_http_message *m, int status)
{
    m->status = status;
    return SERVE_HTTP_BAD;
}

static bool is_name(const char *at, size_t n, const char *name)
{
    return strlen(name) == n && strncasecmp(at, name, n) == 0;
}

static bool has_word(const char *at, size_t n, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= n; i++)
        if (strncasecmp(at + i, word, length) == 0)
            return true;
    return false;
}

/* Decimal digits only, as RFC 9110 has it. */
static bool read_length(const char *at, size_t n, uint64_t *value)
{
    uint64_t v = 0;
    if (n == 0 || n > 15)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(at[i] - '0');
    }
    *value = v;
    return true;
}

static enum serve_http_result read_field(struct head *head, const char *line, size_t n,
                                         struct serve_http_message *m)
{
    const char *colon = memchr(line, ':', n);
    if (colon == NULL || colon == line || colon[-1] == ' ' || colon[-1] == '\t')
        return bad(m, 400);
    size_t name = (size_t)(colon - line);
    const char *value = colon + 1, *end = line + n;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t length = (size_t)(end - value);
    if (is_name(line, name, "content-length")) {
        uint64_t v;
        if (!read_length(value, length, &v) || (head->has_length && v != head->body_length))
            return bad(m, 400);
        head->has_length = true;
        head->body_length = v;
    } else if (is_name(line, name, "transfer-encoding")) {
        return bad(m, 501);
    } else if (is_name(line, name, "connection")) {
        m->wants_close |= has_word(value, length, "close");
    } else if (is_name(line, name, "accept")) {
        m->wants_stream |= has_word(value, length, "text/event-stream");
    } else if (is_name(line, name, "x-ebb-user")) {
        if (m->user != NULL || length == 0)
            return bad(m, 400);
        m->user = value;
        m->user_length = length;
    }
    return SERVE_HTTP_DONE;
}

/* The end of the header: after "\r\n\r\n". */
static enum serve_http_result find_head(const char *bytes, size_t length, struct head *head,
                                        struct serve_http_message *m)
{
    size_t limit = length < SERVE_HTTP_HEAD_MAX ? length : SERVE_HTTP_HEAD_MAX;
    const char *end = memmem(bytes, limit, "\r\n\r\n", 4);
    if (end == NULL)
        return length >= SERVE_HTTP_HEAD_MAX ? bad(m, 431) : SERVE_HTTP_MORE;
    if (memchr(bytes, '\0', (size_t)(end - bytes)) != NULL)
        return bad(m, 400);
    head->length = (size_t)(end - bytes) + 4;
    head->end = end + 2; /* each line ends in "\r\n" */
    head->at = (const char *)memmem(bytes, head->length, "\r\n", 2) + 2;
    return SERVE_HTTP_DONE;
}

static enum serve_http_result read_fields(struct head *head, struct serve_http_message *m)
{
    while (head->at < head->end) {
        const char *eol = memmem(head->at, (size_t)(head->end - head->at), "\r\n", 2);
        if (eol == NULL || memchr(head->at, '\n', (size_t)(eol - head->at)) != NULL)
            return bad(m, 400);
        enum serve_http_result result = read_field(head, head->at, (size_t)(eol - head->at), m);
        if (result != SERVE_HTTP_DONE)
            return result;
        head->at = eol + 2;
    }
    return SERVE_HTTP_DONE;
}

static bool is_token(const char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] < 'A' || at[i] > 'Z')
            return false;
    return n > 0 && n <= 16;
}

static bool is_target(const char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)at[i] <= 0x20 || (unsigned char)at[i] >= 0x7f)
            return false;
    return n > 0 && at[0] == '/';
}

/* METHOD SP target SP HTTP/1.x */
static enum serve_http_result read_request_line(const char *line, size_t n,
                                                struct serve_http_message *m)
{
    const char *a = memchr(line, ' ', n);
    const char *b = a != NULL ? memchr(a + 1, ' ', n - (size_t)(a + 1 - line)) : NULL;
    if (b == NULL || (size_t)(line + n - b) != 9 || strncmp(b + 1, "HTTP/1.", 7) != 0 ||
        (b[8] != '0' && b[8] != '1'))
        return bad(m, 400);
    m->method = line;
    m->method_length = (size_t)(a - line);
    m->target = a + 1;
    m->target_length = (size_t)(b - a - 1);
    m->wants_close = b[8] == '0';
    if (!is_token(m->method, m->method_length) || !is_target(m->target, m->target_length))
        return bad(m, 400);
    return SERVE_HTTP_DONE;
}

enum serve_http_result serve_http_read_request(const char *bytes, size_t length,
                                               struct serve_http_message *message)
{
    struct head head = {0};
    *message = (struct serve_http_message){0};
    enum serve_http_result result = find_head(bytes, length, &head, message);
    if (result == SERVE_HTTP_DONE)
        result = read_request_line(bytes, (size_t)(head.at - 2 - bytes), message);
    if (result == SERVE_HTTP_DONE)
        result = read_fields(&head, message);
    if (result != SERVE_HTTP_DONE)
        return result;
    if (head.body_length > SERVE_HTTP_BODY_MAX)
        return bad(message, 413);
    if (length - head.length < head.body_length)
        return SERVE_HTTP_MORE;
    message->body = head.body_length > 0 ? bytes + head.length : NULL;
    message->body_length = (size_t)head.body_length;
    message->used = head.length + message->body_length;
    return SERVE_HTTP_DONE;
}

/* ---- writing ---- */

const char *serve_http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {201, "Created"},
                   {202, "Accepted"},
                   {204, "No Content"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {409, "Conflict"},
                   {413, "Content Too Large"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Unknown";
}

void serve_http_write_error(struct serve_http_response *response, int status, const char *message)
{
    struct ebb_json_writer w;
    response->status = status;
    ebb_str_clear(&response->body);
    ebb_jsonw_init(&w, &response->body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_object(&w, "error");
    ebb_jsonw_key_int(&w, "code", status);
    ebb_jsonw_key_string(&w, "reason", serve_http_reason(status));
    ebb_jsonw_key_string(&w, "message", message);
    ebb_jsonw_object_end(&w);
    ebb_jsonw_object_end(&w);
}

void serve_http_write_response(const struct serve_http_response *r, bool is_close,
                               struct ebb_str *out)
{
    ebb_str_printf(out, "HTTP/1.1 %d %s\r\n", r->status, serve_http_reason(r->status));
    if (r->location[0] != '\0')
        ebb_str_printf(out, "Location: %s\r\n", r->location);
    if (r->disposition[0] != '\0')
        ebb_str_printf(out, "Content-Disposition: %s\r\n", r->disposition);
    if (r->status != 204)
        ebb_str_printf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n", r->content_type,
                       r->body.length);
    ebb_str_printf(out, "Cache-Control: no-store\r\nConnection: %s\r\n\r\n",
                   is_close ? "close" : "keep-alive");
    if (r->status != 204)
        ebb_str_addn(out, ebb_str_c(&r->body), r->body.length);
}

/* ---- targets ---- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

char *serve_http_decode(const char *at, size_t n, bool is_query)
{
    struct ebb_str out = {0};
    for (size_t i = 0; i < n; i++) {
        if (at[i] == '%' && i + 2 < n && hex(at[i + 1]) >= 0 && hex(at[i + 2]) >= 0) {
            int c = hex(at[i + 1]) * 16 + hex(at[i + 2]);
            if (c != 0)
                ebb_str_addc(&out, (char)c);
            i += 2;
        } else {
            ebb_str_addc(&out, is_query && at[i] == '+' ? ' ' : at[i]);
        }
    }
    if (out.length == 0 && !out.failed)
        return ebb_strdup("");
    return ebb_str_take(&out);
}

char *serve_http_query(const char *target, const char *name)
{
    const char *at = strchr(target, '?');
    size_t want = strlen(name);
    while (at != NULL) {
        at++;
        size_t n = strcspn(at, "&");
        const char *equal = memchr(at, '=', n);
        size_t key = equal != NULL ? (size_t)(equal - at) : n;
        if (key == want && strncmp(at, name, want) == 0)
            return equal != NULL ? serve_http_decode(equal + 1, n - key - 1, true) : ebb_strdup("");
        at = at[n] == '&' ? at + n : NULL;
    }
    return NULL;
}

void serve_http_escape(struct ebb_str *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                        (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' || c == '~';
        if (is_plain)
            ebb_str_addc(out, (char)c);
        else
            ebb_str_printf(out, "%%%02X", c);
    }
}
