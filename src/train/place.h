/* place.h - private to train: where steps run: a device and its table of kernels, by name. */
#ifndef EBB_TRAIN_PLACE_H
#define EBB_TRAIN_PLACE_H

#include "device/device.h"
#include "kernel/kernel.h"

struct train_place {
    const struct device_table *device;
    const struct kernel_table *kernels;
    const char *bits; /* places that give equal bits have one name here */
    bool is_paper;    /* for plans alone: nothing runs there */
};

/* NULL: cpu. A kind ("nvidia-h200"): one that need not be here; the plug-in answers for it where it is
 * built for the same profile, else what is written down in the program. EBB_EINPUT: unknown;
 * EBB_EUNSUPPORTED: this installation cannot, and why. */
enum ebb_status train_place_find(const char *name, struct train_place *place,
                                 struct ebb_error *err);

#endif
