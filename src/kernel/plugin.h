/* plugin.h - tables of devices that are not linked in: a shared object per device, opened when it is asked for.
 *
 * A plug-in exports `ebb_plugin`, which answers its two tables, or NULL where it was built for other headers: the number it
 * is asked with is made from those that both sides read (CMake, EBB_PLUGIN_ABI). */
#ifndef EBB_KERNEL_PLUGIN_H
#define EBB_KERNEL_PLUGIN_H

#include <stdint.h>

#include "base/status.h"

struct device_table;
struct kernel_table;

struct kernel_plugin {
    const struct device_table *device;
    const struct kernel_table *kernels;
};

typedef const struct kernel_plugin *kernel_plugin_entry(uint64_t abi);

/* Opens ebb_<name>.so: beside the running program, then in the folders of EBB_PLUGIN_PATH (separated by ':'), then in
 * ../lib/ebb of the program. It stays loaded. EBB_EUNSUPPORTED: says where it was looked for and how to get it. */
enum ebb_status kernel_plugin_load(const char *name, const struct kernel_plugin **plugin,
                                   struct ebb_error *err);

#endif
