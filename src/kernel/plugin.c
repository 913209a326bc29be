/* plugin.c - shared objects with tables of devices: see kernel.h. */
#include "kernel/kernel.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the running program lies, without its name; "" where the system does not say. */
static void own_folder(char *folder, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", folder, size - 1);
    folder[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
}

/* One folder of a list; *list is moved behind it. */
static void *open_next(const char **list, const char *below, const char *name)
{
    char path[4096];
    size_t length = strcspn(*list, ":");
    int n = snprintf(path, sizeof path, "%.*s%s/ebb_%s.so", (int)length, *list, below, name);
    *list += length + ((*list)[length] == ':');
    if (length == 0 || n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *open_anywhere(const char *folder, const char *name)
{
    const char *at = folder, *more = getenv("EBB_PLUGIN_PATH");
    void *library = open_next(&at, "", name);
    while (!library && more && *more)
        library = open_next(&more, "", name);
    at = folder;
    return library ? library : open_next(&at, "/../lib/ebb", name);
}

enum ebb_status kernel_plugin_load(const char *name, const struct kernel_plugin **plugin,
                                   struct ebb_error *err)
{
    char folder[4096];
    kernel_plugin_entry *entry;
    own_folder(folder, sizeof folder);
    (void)dlerror();
    void *library = open_anywhere(folder, name);
    const char *why = dlerror();
    if (!library && why)
        return ebb_fail(err, EBB_EUNSUPPORTED, "device %s: its plug-in does not load: %s", name,
                        why);
    if (!library)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "device %s: there is no ebb_%s.so in %s, in EBB_PLUGIN_PATH or in "
                        "%s/../lib/ebb; `ninja -C build ebb_%s` makes it where its compiler is "
                        "installed (docs/gpu.md)",
                        name, name, folder, folder, name);
    void *found = dlsym(library, "ebb_plugin");
    if (!found)
        return ebb_fail(err, EBB_EUNSUPPORTED, "device %s: ebb_%s.so is no plug-in of ebb", name,
                        name);
    memcpy(&entry, &found, sizeof entry); /* ISO C knows no such cast */
    *plugin = entry(EBB_PLUGIN_ABI);
    return *plugin ? EBB_OK
                   : ebb_fail(err, EBB_EUNSUPPORTED,
                              "device %s: ebb_%s.so was built for another version of ebb: build "
                              "both together",
                              name, name);
}
