/* train_support.h - trials on made-up data. */
#ifndef EBB_TESTS_UNIT_TRAIN_SUPPORT_H
#define EBB_TESTS_UNIT_TRAIN_SUPPORT_H

#include "test.h"

#include "train/train.h"

static inline struct train_trial *make(const struct train_config *config)
{
    struct ebb_error err = {0};
    struct train_trial *trial = NULL;
    struct train_options options = {.makes_data = true};
    CHECK_OK(train_trial_create(&trial, config, &options, &err), &err);
    return trial;
}

/* Train; the last batch is told. */
static inline void batches(struct train_trial *trial, int count, struct train_batch *batch)
{
    struct ebb_error err = {0};
    for (int i = 0; i < count; i++)
        CHECK_OK(train_trial_batch(trial, batch, &err), &err);
}

#endif
