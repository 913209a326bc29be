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

/* Append what every file system takes of a text as a name; at most 50 characters. */
void serve_clean_name(struct ebb_str *out, const char *text);
/* Handle one request of docs/rest.md now, as if it had come over the socket; durable when this
 * returns. The answer (also an error) is in response, which the caller has initialised.
 * `wait` and `follow` do not wait here: what is there is returned; make a turn and ask again. */
void serve_request(struct exp_master *master, const struct serve_http_request *request,
                   struct serve_http_response *response);

#endif
