/* client.h - asking a master that runs in another process: one request, one answer.
 *
 * Connects for each request; blocks; used by the command line. A stream of events is followed by
 * asking GET /events?after=N&wait=10 again and again (long poll), in process and over the socket
 * alike. */
#ifndef EBB_EXP_MASTER_CLIENT_H
#define EBB_EXP_MASTER_CLIENT_H

#include "exp/master/http.h"

struct exp_client_address {
    const char *state_dir; /* its master.sock; used when host is NULL */
    const char *host;      /* TCP (ebb serve): name or address */
    uint16_t port;
};

/* EBB_EIO: nobody answers (err says where). An HTTP error is EBB_OK with response->status >= 400.
 * timeout_ms covers the wait for each piece of the answer; < 0 = for ever. */
enum ebb_status exp_client_request(const struct exp_client_address *address,
                                   const struct exp_http_request *request, int timeout_ms,
                                   struct exp_http_response *response, struct ebb_error *err);

/* True if a master holds the lock of the state directory now. */
bool exp_client_master_runs(const char *state_dir);

#endif
