/* internal.h - private: what the readers of optimizers and of schedules share. */
#ifndef EBB_OPTIM_INTERNAL_H
#define EBB_OPTIM_INTERNAL_H

#include "optim/optim.h"

/* The index of `name` among names, in any case; false after an error. */
bool optim_choose(struct ebb_reading *reading, const struct ebb_path *path,
                  const struct ebb_doc_node *where, const char *(*names)(size_t), const char *name,
                  unsigned *index);
#endif
