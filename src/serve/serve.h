/* serve.h - the REST interface of a master (docs/rest.md), and asking a master somewhere else.
 *
 * serve_open opens a master and becomes its front (exp/master/master.h): requests come over
 * master.sock or from the process itself (serve_request), are handled in the master's turn, and
 * answered after its commit. README.md has a request's life and the rules.
 *
 * The only header of this folder that other folders include. */
#ifndef EBB_SERVE_SERVE_H
#define EBB_SERVE_SERVE_H

#include "exp/exp.h"
#include "serve/client.h"
#include "serve/http.h"

/* A master that answers requests. exp_master_close ends both. */
enum ebb_status serve_open(const struct exp_master_options *options, struct exp_master **master,
                           struct ebb_error *err);

/* How to listen on TCP, for browsers and for programs on other machines. */
struct serve_listen {
    const char *listen;             /* "127.0.0.1:8080"; port 0 = any */
    const char *tls_cert, *tls_key; /* PEM files: speak TLS; NULL = do not */
    const char *base_path;          /* "/ebb/": what stands before every path; NULL = "/" */
    bool is_behind_proxy;           /* a proxy speaks TLS: allowed off loopback without our own */
    const char *const *hosts;       /* more names that `Host` may have */
    size_t host_count;
    int64_t head_ms, idle_ms; /* for tests; 0 = 10 s for the head of a request, 60 s of silence */
};
/* Of a master that serve_open made; once. Nobody is answered without a token. EBB_EINPUT: an address
 * off loopback without TLS or proxy, and what else cannot be meant; EBB_EIO: the port is taken. */
enum ebb_status serve_listen(struct exp_master *master, const struct serve_listen *how,
                             struct ebb_error *err);
const char *serve_url(const struct exp_master *master); /* of its page; NULL = it does not listen */
bool serve_has_page(void);                              /* is the page in this program? */

/* Append what every file system takes of a text as a name; at most 50 characters. */
void serve_clean_name(struct ebb_str *out, const char *text);
/* Handle one request of docs/rest.md now, as if it had come over the socket; durable when this
 * returns. The answer (also an error) is in response, which the caller has initialised.
 * `wait` and `follow` do not wait here: what is there is returned; make a turn and ask again. */
void serve_request(struct exp_master *master, const struct serve_http_request *request,
                   struct serve_http_response *response);

#endif
