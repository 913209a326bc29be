/* library.h - the context a shared-object trial is given. Private to this folder. */
#ifndef EBB_WORKER_LIBRARY_H
#define EBB_WORKER_LIBRARY_H

#include "base/arena.h"
#include <ebb.h>
#include "worker/worker.h"

struct worker_library_context {
    ebb_ctx ctx; /* first: the trial holds its address */
    const struct worker_job *job;
    struct worker_run *run; /* while a workload runs */
    struct ebb_arena texts; /* JSON and strings handed out */
    int64_t first_batch;    /* of the workload in progress */
    bool is_warm_start, has_failure;
    ebb_failure failure;
    char reason[1024];
};

void worker_library_context_init(struct worker_library_context *context,
                                 const struct worker_job *job);
void worker_library_context_fini(struct worker_library_context *context);

struct worker_library_metrics {
    ebb_metrics metrics; /* first */
    struct worker_metrics values;
};

void worker_library_metrics_init(struct worker_library_metrics *metrics);
void worker_library_metrics_fini(struct worker_library_metrics *metrics);

#endif
