/* Any bytes are a request or are refused; nothing is read beyond them. */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "serve/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *bytes, size_t length, enum serve_http_result result,
                  const struct serve_http_message *m)
{
    if (result != SERVE_HTTP_DONE)
        return;
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
