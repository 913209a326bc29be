/* link.h - the connection of a trial to its master. Private to this folder.
 *
 * A thread of its own owns the socket: it connects, says HELLO until it is accepted, reads lines,
 * sends heartbeats, and after a loss tries again for WORKER_LINK_PATIENCE_S seconds. The trial's
 * thread only puts answers in and takes workloads out; what both touch is behind one lock.
 *
 *  L1  An answer stays in the outbox until its ACK arrives, and is sent again after every reconnect.
 *  L2  `is_lost` is final: no reconnect follows it. */
#ifndef EBB_WORKER_LINK_H
#define EBB_WORKER_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct worker_link;

struct worker_link_options {
    const char *path;       /* Unix socket */
    const char *allocation; /* identity of this process at the master */
    int64_t trial_id;
    double patience_s;  /* how long a lost master is waited for */
    double heartbeat_s; /* between heartbeats */
};

enum ebb_status worker_link_open(struct worker_link **link,
                                 const struct worker_link_options *options, struct ebb_error *err);
/* Waits up to two seconds for outstanding acknowledgements, then leaves. */
void worker_link_close(struct worker_link *link);

/* Wait for the next RUN message. *line is owned by the caller (ebb_free). EBB_ECANCELED: the master
 * is lost, or SIGTERM came. */
enum ebb_status worker_link_next(struct worker_link *link, char **line, struct ebb_error *err);

/* Hand over an answer (one JSON object without newline) to workload number seq; 0: a message that
 * is not acknowledged. */
enum ebb_status worker_link_answer(struct worker_link *link, int64_t seq, const char *line,
                                   struct ebb_error *err);

/* A batch is done: EBB_OK to go on; waits while the master is away; EBB_ECANCELED as above. */
enum ebb_status worker_link_batch(struct worker_link *link, int64_t batch, struct ebb_error *err);
bool worker_link_should_stop(struct worker_link *link);
bool worker_link_is_lost(struct worker_link *link); /* the master, or SIGTERM came */

#endif
