/* tasks.h - the built-in tasks, `ebb:<task>` in an experiment file: X(name, kinds of models, help).
 *
 * To add a task: one row here. train/task.c makes its table of the list (the kinds are bits of enum
 * nn_task), exp/config the words that a file may say and that the reference page shows. */
#ifndef EBB_BASE_TASKS_H
#define EBB_BASE_TASKS_H

/* Recurrent and tree models with a loss of their own have no task of their own name. */
#define EBB_TASK_LIST(X)                                                                           \
    X(image_classification, BIT(NN_IMAGE_CLASSIFICATION), "images to classes")                     \
    X(segmentation, BIT(NN_SEGMENTATION), "images to a class per pixel")                           \
    X(language_model, BIT(NN_LANGUAGE_MODEL) | BIT(NN_SEQUENCE), "tokens to tokens")               \
    X(regression, BIT(NN_REGRESSION) | BIT(NN_SEQUENCE), "anything to numbers")                    \
    X(gan, BIT(NN_GAN), "a generator against a discriminator")

#endif
