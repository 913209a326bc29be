/* far.h - private to dev: reference cases on a device of its own memory. */
#ifndef EBB_DEV_FAR_H
#define EBB_DEV_FAR_H

#include "ops/ops.h"

struct dev_far;

/* "far" or "cuda"; *backend: its kernels, destroyed before it. */
enum ebb_status dev_far_create(struct dev_far **far, const char *name, int threads, void **backend,
                               struct ebb_error *err);
void dev_far_destroy(struct dev_far *far);
/* ops_host_run there: what the storages hold goes in, what they hold then comes back. */
enum ebb_status dev_far_run(struct dev_far *far, struct ops_host *host, struct ebb_error *err);

#endif
