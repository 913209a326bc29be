/* client.h - asking a master that runs in another process: one request, one answer, by libcurl.
 *
 * Connects for each request; blocks; used by the command line. A stream of events is followed by
 * asking GET /events?after=N&wait=10 again and again (long poll), in process and over the socket
 * alike. Redirects are not followed and no proxy is asked. */
#ifndef EBB_SERVE_CLIENT_H
#define EBB_SERVE_CLIENT_H

#include "serve/http.h"

struct serve_client_address {
    const char *state_dir; /* its master.sock; used when url is NULL */
    const char *url;       /* of a master on TCP: "https://name:443", "https://name/ebb" */
    const char *token;     /* proves who asks, over TCP; NULL = nothing does */
};

/* EBB_EIO: nobody answers (err says where); EBB_EINPUT: the url is none. An HTTP error is EBB_OK with response->status >= 400.
 * timeout_ms covers the wait for each piece of the answer. https: the certificate must be signed by
 * one of the system's authorities, or of those in the file that $SSL_CERT_FILE names. */
enum ebb_status serve_client_request(const struct serve_client_address *address,
                                     const struct serve_http_request *request, int timeout_ms,
                                     struct serve_http_response *response, struct ebb_error *err);

#endif
