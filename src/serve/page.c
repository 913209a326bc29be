/* page.c - the files of the page, which the build puts into the program, compressed. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/heap.h"
#include "serve/inner.h"

static const char none[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>ebb</title>"
    "<h1>The page is not in this program</h1>"
    "<p>It was built without npm. Install npm and build again: <code>tools/setup web &amp;&amp; "
    "make</code>.</p><p>Everything else works: REST answers at <code>api/v1/</code>, and so do "
    "<code>ebb experiment</code>, <code>ebb trial</code> and <code>ebb run</code>.</p></html>";

bool serve_has_page(void)
{
    return serve_files[0].path != NULL;
}

static const struct serve_file *find(const char *path)
{
    size_t n = strcspn(path, "?");
    if (n == 0 || (n == 1 && path[0] == '/'))
        return find("/index.html");
    for (const struct serve_file *f = serve_files; path[0] == '/' && f->path != NULL; f++)
        if (strlen(f->path) == n - 1 && memcmp(f->path, path + 1, n - 1) == 0)
            return f;
    return NULL;
}

/* For who takes no gzip. */
static void unpack(const struct serve_file *f, struct ebb_str *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)f->bytes, .avail_in = (uInt)f->length};
    char piece[16384];
    int code = inflateInit2(&z, 15 + 16);
    while (code == Z_OK) {
        z.next_out = (Bytef *)piece;
        z.avail_out = sizeof piece;
        code = inflate(&z, Z_NO_FLUSH);
        ebb_str_addn(out, piece, sizeof piece - z.avail_out);
    }
    inflateEnd(&z);
}

void serve_page(const struct serve *s, const char *path, const struct serve_http_message *m,
                struct serve_http_response *response)
{
    const struct serve_file *f = path != NULL ? find(path) : NULL;
    if (path != NULL && path[0] == '\0') { /* the base path without its slash */
        response->status = 308;
        snprintf(response->location, sizeof response->location, "%s",
                 serve_listener_how(s->listener)->base_path);
    } else if (path != NULL && !serve_has_page() && (path[1] == '\0' || path[1] == '?')) {
        response->content_type = "text/html; charset=utf-8";
        ebb_str_add(&response->body, none);
    } else if (f == NULL) {
        serve_http_write_error(response, 404, "there is no such page here");
    } else {
        response->content_type = f->type;
        snprintf(response->etag, sizeof response->etag, "%s", f->etag);
        if (serve_http_tag(response, m->if_none_match))
            return;
        response->is_packed = m->wants_gzip;
        if (m->wants_gzip)
            ebb_str_addn(&response->body, (const char *)f->bytes, f->length);
        else
            unpack(f, &response->body);
    }
}
