/* internal.h - private to train: rows of the configuration, the table of tasks. */
#ifndef EBB_TRAIN_INTERNAL_H
#define EBB_TRAIN_INTERNAL_H

#include "base/keys.h"
#include "nn/nn.h"
#include "train/train.h"

/* ---- tasks (task.c) ---- */

struct train_task {
    const char *name;
    unsigned models; /* bit per enum nn_task it can train */
    const char *help;
};
/* The first kind of models it takes: that of files which do not say what they are for. */
enum nn_task train_task_kind(const struct train_task *task);
bool train_task_takes(const struct train_task *task, enum nn_task kind);

/* ---- PatrickStar's options (wishes.c) ---- */

extern const struct ebb_key_type train_wish_type; /* true or false into an enum train_wish */
/* What of the section `memory` does not go together, there and with what other sections say. */
void train_wishes_check(struct ebb_reading *reading, const struct ebb_path *path,
                        const struct ebb_doc_node *map, const struct train_config *config);
void train_wishes_check_rest(struct ebb_reading *reading, const struct ebb_doc_node *memory,
                             const struct train_config *config);

/* ---- losses (loss.c) ---- */

void train_loss_read(struct ebb_reading *reading, const struct ebb_path *path,
                     const struct ebb_doc_node *map, struct train_loss *loss);

#endif
