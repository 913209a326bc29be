/* client.c - see client.h. libcurl is loaded with the first request: see base/library.h. */
#include "serve/client.h"

#define CURL_DISABLE_TYPECHECK /* its macros want libcurl's names, not our pointers */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/library.h"
#include "exp/exp.h"

#define CALLS(X)                                                                                   \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_perform)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_header)                                                                                 \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)

struct calls {
#define X(name) __typeof__(&curl_##name) name;
    CALLS(X)
#undef X
};

static enum ebb_status load(struct calls *c, struct ebb_error *err)
{
#define X(name) {"curl_" #name, &c->name},
    const struct ebb_library_call calls[] = {CALLS(X)};
#undef X
    return ebb_library_load(EBB_CURL_FILE, EBB_CURL_PACKAGE, calls, sizeof calls / sizeof calls[0],
                            err);
}

struct exchange {
    struct calls c;
    CURL *curl;
    struct curl_slist *fields;
    char error[CURL_ERROR_SIZE];
    bool is_complete; /* every field of the request is there */
};

static size_t take(char *bytes, size_t one, size_t count, void *body)
{
    (void)one; /* always 1 */
    ebb_str_addn(body, bytes, count);
    return ((struct ebb_str *)body)->failed ? 0 : count;
}

static void add_field(struct exchange *x, const struct ebb_str *line)
{
    struct curl_slist *longer = line->failed ? NULL : x->c.slist_append(x->fields, ebb_str_c(line));
    x->is_complete = x->is_complete && longer != NULL;
    x->fields = longer != NULL ? longer : x->fields;
}

/* What stands before every path: "/ebb" of "https://name/ebb/". */
static void add_base(struct ebb_str *line, const char *url)
{
    const char *host = url != NULL ? strstr(url, "://") : NULL;
    const char *path = host != NULL ? strchr(host + 3, '/') : NULL;
    size_t n = path != NULL ? strlen(path) : 0;
    while (n > 0 && path[n - 1] == '/')
        n--;
    if (n > 0)
        ebb_str_addn(line, path, n);
}

static void set_request(struct exchange *x, const struct serve_client_address *address,
                        const struct serve_http_request *r)
{
    struct ebb_str line = {0};
    ebb_str_add(&line, "Expect:"); /* not "100-continue": no waiting before a large body */
    add_field(x, &line);
    if (r->user != NULL) {
        ebb_str_clear(&line);
        ebb_str_add(&line, "X-Ebb-User: ");
        serve_http_escape(&line, r->user);
        add_field(x, &line);
    }
    if (address->token != NULL) {
        ebb_str_clear(&line);
        ebb_str_printf(&line, "Authorization: Bearer %s", address->token);
        add_field(x, &line);
    }
    if (r->range != NULL) {
        ebb_str_clear(&line);
        ebb_str_printf(&line, "Range: %s", r->range);
        add_field(x, &line);
    }
    if (r->body != NULL) {
        ebb_str_clear(&line);
        ebb_str_add(&line, "Content-Type: application/json");
        add_field(x, &line);
        x->c.easy_setopt(x->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_length);
        x->c.easy_setopt(x->curl, CURLOPT_POSTFIELDS, r->body);
    }
    ebb_str_clear(&line);
    add_base(&line, address->url);
    ebb_str_printf(&line, "%s%s", strncmp(r->target, "/api/v1", 7) == 0 ? "" : "/api/v1",
                   r->target);
    x->is_complete =
        x->is_complete && !line.failed &&
        x->c.easy_setopt(x->curl, CURLOPT_CUSTOMREQUEST, r->method) == CURLE_OK &&
        x->c.easy_setopt(x->curl, CURLOPT_REQUEST_TARGET, ebb_str_c(&line)) == CURLE_OK &&
        x->c.easy_setopt(x->curl, CURLOPT_HTTPHEADER, x->fields) == CURLE_OK;
    ebb_str_fini(&line);
}

static void set_manners(struct exchange *x, int timeout_ms)
{
    const char *authorities = getenv("SSL_CERT_FILE");
    x->c.easy_setopt(x->curl, CURLOPT_ERRORBUFFER, x->error);
    x->c.easy_setopt(x->curl, CURLOPT_NOSIGNAL, 1L);
    x->c.easy_setopt(x->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    x->c.easy_setopt(x->curl, CURLOPT_NOPROXY, "*");
    x->c.easy_setopt(x->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)timeout_ms);
    x->c.easy_setopt(x->curl, CURLOPT_LOW_SPEED_LIMIT, 1L); /* bytes per second */
    x->c.easy_setopt(x->curl, CURLOPT_LOW_SPEED_TIME, (long)(timeout_ms + 999) / 1000);
    if (authorities != NULL && authorities[0] != '\0')
        x->c.easy_setopt(x->curl, CURLOPT_CAINFO, authorities);
}

static enum ebb_status explain(const struct exchange *x, const struct serve_client_address *a,
                               CURLcode code, struct ebb_error *err)
{
    long number = 0;
    const char *words = x->error[0] != '\0' ? x->error : x->c.easy_strerror(code);
    x->c.easy_getinfo(x->curl, CURLINFO_OS_ERRNO, &number);
    const char *why = number != 0 ? strerror((int)number) : words;
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return ebb_no_memory(err, 1 << 16);
    case CURLE_OPERATION_TIMEDOUT:
        return ebb_fail(err, EBB_ELIMIT, "the master does not answer in time");
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return ebb_fail(err, EBB_EIO, "the master ended the connection without an answer");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return ebb_fail(err, EBB_EINPUT, "'%s' is no HOST[:PORT] of a master: %s", a->url, words);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        if (a->url == NULL)
            return ebb_fail(err, EBB_EIO, "no master answers on %s/master.sock: %s", a->state_dir,
                            why);
        return ebb_fail(err, EBB_EIO, "no master answers at %s: %s", a->url, why);
    default:
        return ebb_fail(err, EBB_EIO, "cannot ask the master: %s", words);
    }
}

static enum ebb_status perform(struct exchange *x, const struct serve_client_address *address,
                               struct serve_http_response *response, struct ebb_error *err)
{
    struct curl_header *location;
    long status = 0;
    ebb_str_clear(&response->body);
    x->c.easy_setopt(x->curl, CURLOPT_WRITEFUNCTION, take);
    x->c.easy_setopt(x->curl, CURLOPT_WRITEDATA, &response->body);
    CURLcode code = x->is_complete ? x->c.easy_perform(x->curl) : CURLE_OUT_OF_MEMORY;
    EBB_TRY(ebb_str_status(&response->body, err));
    if (code != CURLE_OK)
        return explain(x, address, code, err);
    x->c.easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    response->status = (int)status;
    if (x->c.easy_header(x->curl, "Location", 0, CURLH_HEADER, -1, &location) == CURLHE_OK)
        snprintf(response->location, sizeof response->location, "%s", location->value);
    return EBB_OK;
}

enum ebb_status serve_client_request(const struct serve_client_address *address,
                                     const struct serve_http_request *request, int timeout_ms,
                                     struct serve_http_response *response, struct ebb_error *err)
{
    struct sockaddr_un socket_address;
    int directory = -1;
    struct exchange x = {.is_complete = true};
    EBB_TRY(load(&x.c, err));
    x.curl = x.c.easy_init();
    if (x.curl == NULL)
        return ebb_no_memory(err, 1 << 16);
    enum ebb_status status = EBB_OK;
    if (address->url == NULL) {
        status = exp_master_address(&socket_address, address->state_dir, &directory, err);
        x.c.easy_setopt(x.curl, CURLOPT_UNIX_SOCKET_PATH, socket_address.sun_path);
    }
    if (status == EBB_OK) {
        x.c.easy_setopt(x.curl, CURLOPT_URL,
                        address->url != NULL ? address->url : "http://localhost");
        set_manners(&x, timeout_ms);
        set_request(&x, address, request);
        status = perform(&x, address, response, err);
    }
    if (directory >= 0)
        close(directory);
    x.c.slist_free_all(x.fields);
    x.c.easy_cleanup(x.curl);
    return status;
}
