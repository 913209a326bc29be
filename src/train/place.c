/* place.c - see place.h. */
#include "train/place.h"

#include <string.h>

static const struct train_place places[] = {
    {&device_cpu, &kernel_cpu, "cpu"},
    {&device_far, &kernel_far, "cpu"},
};

/* A device that a plug-in brings: its bits are its own. */
static enum ebb_status find_plugin(const char *name, struct train_place *place,
                                   struct ebb_error *err)
{
    const struct kernel_plugin *plugin;
    EBB_TRY(kernel_plugin_load(name, &plugin, err));
    *place = (struct train_place){plugin->device, plugin->kernels, plugin->device->name};
    return EBB_OK;
}

enum ebb_status train_place_find(const char *name, struct train_place *place, struct ebb_error *err)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(name ? name : "cpu", places[i].device->name) == 0) {
            *place = places[i];
            return EBB_OK;
        }
    if (strcmp(name, "cuda") == 0)
        return find_plugin(name, place, err);
    return ebb_fail(err, EBB_EINPUT, "device \"%s\" is unknown, allowed: cpu, cuda, far", name);
}
