/* place.c - see place.h. */
#include "train/place.h"

#include <string.h>

static const struct train_place places[] = {
    {&device_cpu, &kernel_cpu, "cpu"},
    {&device_far, &kernel_far, "cpu"},
};

enum ebb_status train_place_find(const char *name, struct train_place *place, struct ebb_error *err)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(name ? name : "cpu", places[i].device->name) == 0) {
            *place = places[i];
            return EBB_OK;
        }
    return ebb_fail(err, EBB_EINPUT, "device \"%s\" is unknown, allowed: cpu, far", name);
}
