/* task.c - the table of tasks: which models each can train. */
#include <string.h>

#include "base/tasks.h"
#include "train/internal.h"

#define BIT(kind) (1u << (kind))

static const struct train_task tasks[] = {
#define X(name, models, help) {#name, models, help},
    EBB_TASK_LIST(X)
#undef X
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

/* What validate.c can report of a model of the zoo; models of files may have metrics of their own. */
const char *train_task_metrics(const char *name, const char *model)
{
    static const struct {
        const char *task, *metrics;
    } rows[] = {
        {"image_classification", "validation_loss validation_accuracy validation_top5_accuracy"},
        {"segmentation", "validation_loss validation_iou"},
        {"language_model", "validation_loss validation_perplexity validation_mlm_accuracy "
                           "validation_accuracy validation_top5_accuracy"},
        {"regression", "validation_loss validation_mae validation_accuracy "
                       "validation_top5_accuracy"},
    };
    const struct nn_model *found = model ? nn_model_find(model) : NULL;
    if (found && found->task == NN_SEQUENCE)
        return "validation_loss"; /* it is all they have */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].task, name) == 0)
            return rows[i].metrics;
    return NULL;
}

enum nn_task train_task_kind(const struct train_task *task)
{
    unsigned kind = 0;
    while (kind + 1 < NN_TASK_COUNT && !(task->models & BIT(kind)))
        kind++;
    return (enum nn_task)kind;
}
