/* task.c - the table of tasks: which models each can train. */
#include <string.h>

#include "train/internal.h"

#define BIT(kind) (1u << (kind))

/* Recurrent and tree models with a loss of their own have no task of their own name. */
static const struct train_task tasks[] = {
    {"image_classification", BIT(NN_IMAGE_CLASSIFICATION), "images to classes"},
    {"segmentation", BIT(NN_SEGMENTATION), "images to a class per pixel"},
    {"language_model", BIT(NN_LANGUAGE_MODEL) | BIT(NN_SEQUENCE), "tokens to tokens"},
    {"regression", BIT(NN_REGRESSION) | BIT(NN_SEQUENCE), "anything to numbers"},
    {"gan", BIT(NN_GAN), "a generator against a discriminator"},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

const struct train_task *train_task_find(const char *name)
{
    for (size_t i = 0; i < TASKS; i++)
        if (strcmp(tasks[i].name, name) == 0)
            return &tasks[i];
    return NULL;
}

const char *train_task_name(const struct train_task *task)
{
    return task->name;
}

bool train_task_takes(const struct train_task *task, enum nn_task kind)
{
    return (task->models & BIT(kind)) != 0;
}
