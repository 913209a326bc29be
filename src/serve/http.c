/* http.c - HTTP/1.1 messages: the small, strict part that a REST interface needs. No continuation
 * lines; a message is complete in memory before it is looked at. */
#include "serve/http.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <strings.h>
#include <time.h>
#include <zlib.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/json.h"

#define PACK_MIN 1024 /* smaller bodies fit one packet anyway */

void serve_http_response_init(struct serve_http_response *response)
{
    *response = (struct serve_http_response){.status = 200, .content_type = "application/json"};
    ebb_str_init(&response->body);
}

void serve_http_response_fini(struct serve_http_response *response)
{
    ebb_str_fini(&response->body);
    if (response->has_file)
        close(response->file);
    response->has_file = false;
}

/* ---- reading ---- */

struct head {
    const char *at, *end; /* after the first line */
    size_t length;        /* with the empty line */
    bool has_length;
    uint64_t body_length;
};

/* Pieces of a body that are smaller than this on average are no way to send one. */
#define PIECE_BYTES 64
#define PIECES_FREE 1024

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

/* Fields that decide who may: one of each. false: this is none of them. */
static bool find_single(struct serve_http_message *m, const char *name, size_t n,
                        struct serve_http_text **place)
{
    const struct {
        const char *name;
        struct serve_http_text *place;
    } singles[] = {{"host", &m->host},       {"authorization", &m->authorization},
                   {"cookie", &m->cookie},   {"origin", &m->origin},
                   {"x-ebb-csrf", &m->csrf}, {"if-none-match", &m->if_none_match},
                   {"range", &m->range},     {"last-event-id", &m->last_event}};
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        if (is_name(name, n, singles[i].name)) {
            *place = singles[i].place;
            return true;
        }
    return false;
}

static enum serve_http_result read_field(struct head *head, const char *line, size_t n,
                                         struct serve_http_message *m)
{
    struct serve_http_text *single;
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
        if (!is_name(value, length, "chunked"))
            return bad(m, 501);
        if (m->is_chunked)
            return bad(m, 400);
        m->is_chunked = true;
    } else if (is_name(line, name, "expect")) {
        if (!is_name(value, length, "100-continue"))
            return bad(m, 417);
        m->wants_promise = true;
    } else if (is_name(line, name, "accept-encoding")) {
        m->wants_gzip |= has_word(value, length, "gzip") && !has_word(value, length, "gzip;q=0");
    } else if (find_single(m, line, name, &single)) {
        if (single->at != NULL)
            return bad(m, 400);
        *single = (struct serve_http_text){value, length};
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

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "1a3\r\n": *at is moved behind it. Extensions of a piece are not taken. */
static enum serve_http_result read_piece(const char **at, const char *end, uint64_t *bytes)
{
    uint64_t n = 0;
    const char *p = *at;
    for (; p < end && hex(*p) >= 0; p++) {
        if (p - *at >= 8)
            return SERVE_HTTP_BAD;
        n = n * 16 + (uint64_t)hex(*p);
    }
    if ((p < end && (p == *at || *p != '\r')) || (p + 1 < end && p[1] != '\n'))
        return SERVE_HTTP_BAD;
    if (end - p < 2)
        return SERVE_HTTP_MORE;
    *at = p + 2;
    *bytes = n;
    return SERVE_HTTP_DONE;
}

/* The body up to its last, empty piece; no fields may follow that. */
static enum serve_http_result read_pieces(const char *bytes, size_t length,
                                          struct serve_http_message *m)
{
    const char *at = bytes + m->head_length, *end = bytes + length;
    uint64_t total = 0, pieces = 0, n = 1;
    m->body = at;
    while (n > 0) {
        enum serve_http_result result = read_piece(&at, end, &n);
        if (result != SERVE_HTTP_DONE)
            return result == SERVE_HTTP_BAD ? bad(m, 400) : result;
        total += n;
        if (total > SERVE_HTTP_BODY_MAX)
            return bad(m, 413);
        if (++pieces > PIECES_FREE && total / pieces < PIECE_BYTES)
            return bad(m, 400);
        if ((uint64_t)(end - at) < n + 2)
            return SERVE_HTTP_MORE;
        if (at[n] != '\r' || at[n + 1] != '\n')
            return bad(m, 400);
        at += n + 2;
    }
    m->body_length = (size_t)(at - m->body);
    m->used = (size_t)(at - bytes);
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
    if (head.has_length &&
        message->is_chunked) /* two ends: whose request the rest is, is a guess */
        return bad(message, 400);
    if (head.body_length > SERVE_HTTP_BODY_MAX)
        return bad(message, 413);
    message->head_length = head.length;
    if (message->is_chunked)
        return read_pieces(bytes, length, message);
    if (length - head.length < head.body_length)
        return SERVE_HTTP_MORE;
    message->body = head.body_length > 0 ? bytes + head.length : NULL;
    message->body_length = (size_t)head.body_length;
    message->used = head.length + message->body_length;
    return SERVE_HTTP_DONE;
}

void serve_http_join(const struct serve_http_message *m, struct ebb_str *out)
{
    const char *at = m->body, *end = m->body + m->body_length;
    uint64_t n;
    while (at < end && read_piece(&at, end, &n) == SERVE_HTTP_DONE && n > 0) {
        ebb_str_addn(out, at, (size_t)n);
        at += n + 2;
    }
}

bool serve_http_is(struct serve_http_text text, const char *word)
{
    return text.at != NULL && text.length == strlen(word) &&
           memcmp(text.at, word, text.length) == 0;
}

struct serve_http_text serve_http_cookie(struct serve_http_text cookies, const char *name)
{
    const char *at = cookies.at, *end = at != NULL ? at + cookies.length : NULL;
    size_t want = strlen(name);
    while (at < end) {
        while (at < end && (*at == ' ' || *at == ';'))
            at++;
        const char *semicolon = memchr(at, ';', (size_t)(end - at));
        const char *stop = semicolon != NULL ? semicolon : end;
        if ((size_t)(stop - at) > want && memcmp(at, name, want) == 0 && at[want] == '=')
            return (struct serve_http_text){at + want + 1, (size_t)(stop - at) - want - 1};
        at = stop;
    }
    return (struct serve_http_text){0};
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
                   {206, "Partial Content"},
                   {304, "Not Modified"},
                   {308, "Permanent Redirect"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {409, "Conflict"},
                   {413, "Content Too Large"},
                   {416, "Range Not Satisfiable"},
                   {417, "Expectation Failed"},
                   {421, "Misdirected Request"},
                   {422, "Unprocessable Content"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Unknown";
}

const char *serve_http_complaint(int status)
{
    switch (status) {
    case 413:
        return "the body is too large: at most 160 MiB";
    case 417:
        return "Expect: only 100-continue is understood";
    case 431:
        return "request line and header fields are too large: at most 16 KiB together";
    case 501:
        return "Transfer-Encoding: only chunked is understood";
    default:
        return "this is no HTTP/1.1 request that is understood here";
    }
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

const char serve_http_guards[] =
    "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

/* Who shows how long something has lasted needs the clock that counted it. */
static void write_date(struct ebb_str *out)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = time(NULL);
    struct tm t;
    if (gmtime_r(&now, &t) != NULL)
        ebb_str_printf(out, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[t.tm_wday],
                       t.tm_mday, months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min,
                       t.tm_sec);
}

void serve_http_write_response(const struct serve_http_response *r, unsigned manners,
                               struct ebb_str *out)
{
    bool has_body = r->status != 204 && r->status != 304;
    ebb_str_printf(out, "HTTP/1.1 %d %s\r\n", r->status, serve_http_reason(r->status));
    if (r->location[0] != '\0')
        ebb_str_printf(out, "Location: %s\r\n", r->location);
    if (r->disposition[0] != '\0')
        ebb_str_printf(out, "Content-Disposition: %s\r\n", r->disposition);
    if (r->cookie[0] != '\0')
        ebb_str_printf(out, "Set-Cookie: %s\r\n", r->cookie);
    if (r->etag[0] != '\0')
        ebb_str_printf(out, "ETag: %s\r\n", r->etag);
    if (r->status == 401)
        ebb_str_add(out, "WWW-Authenticate: Bearer\r\n");
    if (manners & SERVE_HTTP_GUARD) {
        write_date(out);
        ebb_str_printf(out, "Vary: Accept-Encoding\r\n%s", serve_http_guards);
    }
    if (r->is_packed)
        ebb_str_add(out, "Content-Encoding: gzip\r\n");
    if (has_body)
        ebb_str_printf(out, "Content-Type: %s\r\nContent-Length: %lld\r\n", r->content_type,
                       r->has_file ? (long long)r->file_bytes : (long long)r->body.length);
    if (r->takes_range)
        ebb_str_add(out, "Accept-Ranges: bytes\r\n");
    if (r->content_range[0] != '\0')
        ebb_str_printf(out, "Content-Range: %s\r\n", r->content_range);
    ebb_str_printf(out, "Cache-Control: %s\r\nConnection: %s\r\n\r\n",
                   r->is_kept ? "private, no-cache" : "no-store",
                   manners & SERVE_HTTP_CLOSE ? "close" : "keep-alive");
    if (has_body && !(manners & SERVE_HTTP_HEAD))
        ebb_str_addn(out, ebb_str_c(&r->body), r->body.length);
}

void serve_http_pack(struct serve_http_response *r)
{
    z_stream z = {0};
    size_t length = r->body.length;
    if (r->is_packed || length < PACK_MIN || r->status != 200 || length > UINT_MAX ||
        deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    size_t room = deflateBound(&z, (uLong)length);
    char *packed = ebb_alloc(room);
    if (packed != NULL && room <= UINT_MAX) {
        z.next_in = (Bytef *)r->body.data;
        z.avail_in = (uInt)length;
        z.next_out = (Bytef *)packed;
        z.avail_out = (uInt)room;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out < length) {
            ebb_str_clear(&r->body);
            ebb_str_addn(&r->body, packed, z.total_out);
            r->is_packed = true;
        }
    }
    ebb_free(packed);
    deflateEnd(&z);
}

bool serve_http_tag(struct serve_http_response *r, struct serve_http_text asked)
{
    if (r->status != 200)
        return false;
    if (r->etag[0] == '\0') {
        struct ebb_hash128 h = ebb_hash128(ebb_str_c(&r->body), r->body.length);
        snprintf(r->etag, sizeof r->etag, "\"%016llx%016llx\"", (unsigned long long)h.high,
                 (unsigned long long)h.low);
    }
    r->is_kept = true;
    if (asked.at == NULL || memmem(asked.at, asked.length, r->etag, strlen(r->etag)) == NULL)
        return false;
    r->status = 304;
    ebb_str_clear(&r->body);
    return true;
}

/* ---- targets ---- */

char *serve_http_decode(const char *at, size_t n, bool is_query)
{
    struct ebb_str out = {0};
    for (size_t i = 0; i < n; i++) {
        if (at[i] == '%' && i + 2 < n && hex(at[i + 1]) >= 0 && hex(at[i + 2]) >= 0) {
            int c = hex(at[i + 1]) * 16 + hex(at[i + 2]);
            if (c != 0)
                ebb_str_addc(&out, (char)c);
            else
                ebb_str_add(&out, "%00"); /* no name has it: stays as it stands there */
            i += 2;
        } else {
            ebb_str_addc(&out, is_query && at[i] == '+' ? ' ' : at[i]);
        }
    }
    if (out.length == 0 && !out.failed)
        return ebb_strdup("");
    return ebb_str_take(&out);
}

char *serve_http_query_at(const char *target, const char *name, size_t index)
{
    const char *at = strchr(target, '?');
    size_t want = strlen(name);
    while (at != NULL) {
        at++;
        size_t n = strcspn(at, "&");
        const char *equal = memchr(at, '=', n);
        size_t key = equal != NULL ? (size_t)(equal - at) : n;
        if (key == want && strncmp(at, name, want) == 0 && index-- == 0)
            return equal != NULL ? serve_http_decode(equal + 1, n - key - 1, true) : ebb_strdup("");
        at = at[n] == '&' ? at + n : NULL;
    }
    return NULL;
}

char *serve_http_query(const char *target, const char *name)
{
    return serve_http_query_at(target, name, 0);
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
