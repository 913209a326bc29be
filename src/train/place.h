/* place.h - private to train: where steps run: a device and its table of kernels, by name. */
#ifndef EBB_TRAIN_PLACE_H
#define EBB_TRAIN_PLACE_H

#include "device/device.h"
#include "kernel/kernel.h"

struct train_place {
    const struct device_table *device;
    const struct kernel_table *kernels;
    const char *bits; /* places that give equal bits have one name here */
};

/* NULL: cpu. EBB_EINPUT: unknown; EBB_EUNSUPPORTED: this installation cannot, and why. */
enum ebb_status train_place_find(const char *name, struct train_place *place,
                                 struct ebb_error *err);

#endif
