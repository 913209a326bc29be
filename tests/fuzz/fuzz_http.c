/* Any bytes are a request or are refused; nothing is read beyond them. */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "serve/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *bytes, size_t length, enum serve_http_result result,
                  const struct serve_http_message *m)
{
    const struct serve_http_text texts[] = {m->host, m->authorization, m->cookie,    m->origin,
                                            m->csrf, m->if_none_match, m->last_event};
    for (size_t i = 0; result != SERVE_HTTP_BAD && i < sizeof texts / sizeof *texts; i++)
        if (texts[i].at != NULL &&
            (texts[i].at < bytes || texts[i].at + texts[i].length > bytes + length))
            abort();
    if (result == SERVE_HTTP_MORE && m->head_length > length)
        abort();
    struct serve_http_text cookie = serve_http_cookie(m->cookie, "ebb_8080");
    if (cookie.at != NULL && cookie.at + cookie.length > m->cookie.at + m->cookie.length)
        abort();
    if (result != SERVE_HTTP_DONE)
        return;
    if (m->is_chunked) {
        struct ebb_str body = {0};
        serve_http_join(m, &body);
        if (body.length > m->body_length)
            abort();
        ebb_str_fini(&body);
    }
    if (m->used > length || (m->body != NULL && (m->body < bytes || m->body > bytes + length ||
                                                 m->body_length > length)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct serve_http_message m;
    char *bytes = malloc(size + 1); /* exactly this long: a sanitizer sees what is read beyond */
    if (bytes == NULL)
        return 0;
    memcpy(bytes, data, size);
    char *text = realloc(bytes, size > 0 ? size : 1);
    check(text, size, serve_http_read_request(text, size, &m), &m);
    free(text);
    char *target = malloc(size + 1);
    if (target != NULL) {
        memcpy(target, data, size);
        target[size] = '\0';
        ebb_free(serve_http_query(target, "a"));
        free(target);
    }
    return 0;
}
