/* place.c - see place.h. */
#include "train/place.h"

#include <string.h>

static const struct train_place places[] = {
    {&device_cpu, &kernel_cpu, "cpu", false},
    {&device_far, &kernel_far, "cpu", false},
};

/* Of which device a plug-in is, and its profile. */
static const struct {
    const char *kind, *device, *profile;
} kinds[] = {{"nvidia-h200", "cuda", kernel_paper_h200}};

/* A device that a plug-in brings: its bits are its own. */
static enum ebb_status find_plugin(const char *name, struct train_place *place,
                                   struct ebb_error *err)
{
    const struct kernel_plugin *plugin;
    EBB_TRY(kernel_plugin_load(name, &plugin, err));
    *place = (struct train_place){plugin->device, plugin->kernels, plugin->device->name, false};
    return EBB_OK;
}

static void find_kind(size_t i, struct train_place *place)
{
    const struct kernel_plugin *plugin;
    *place = (struct train_place){&device_null, &kernel_paper, kinds[i].device, true};
    if (kernel_plugin_load(kinds[i].device, &plugin, NULL) == EBB_OK && plugin->kernels->profile &&
        strcmp(plugin->kernels->profile, kinds[i].profile) == 0)
        place->kernels = plugin->kernels;
}

enum ebb_status train_place_find(const char *name, struct train_place *place, struct ebb_error *err)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(name ? name : "cpu", places[i].device->name) == 0) {
            *place = places[i];
            return EBB_OK;
        }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i].kind) == 0) {
            find_kind(i, place);
            return EBB_OK;
        }
    if (strcmp(name, "cuda") == 0)
        return find_plugin(name, place, err);
    return ebb_fail(err, EBB_EINPUT,
                    "device \"%s\" is unknown, allowed: cpu, cuda, far, nvidia-h200", name);
}
