/* plugin.c - shared objects with tables of devices: see kernel.h. */
#include "kernel/kernel.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

/* Where the running program lies, without its name; "" where the system does not say. */
static void own_folder(char *folder, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", folder, size - 1);
    folder[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
}

/* A file that was not copied to its end: loading it would end this process with SIGBUS. The table of
 * sections is the last thing of a library. */
static bool is_cut(const char *path)
{
    Elf64_Ehdr head;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_elf = fd >= 0 && fstat(fd, &st) == 0 &&
                  read(fd, &head, sizeof head) == (ssize_t)sizeof head &&
                  memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;
    if (fd >= 0)
        close(fd);
    uint64_t table = is_elf ? (uint64_t)head.e_shnum * head.e_shentsize : 0;
    return is_elf &&
           (head.e_shoff > (uint64_t)st.st_size || table > (uint64_t)st.st_size - head.e_shoff);
}

/* One folder of a list; *list is moved behind it. `cut` is where a file was that is none. */
static void *open_next(const char **list, const char *below, const char *name, char *cut)
{
    char path[MOST_PATH];
    size_t length = strcspn(*list, ":");
    int n = snprintf(path, sizeof path, "%.*s%s/ebb_%s.so", (int)length, *list, below, name);
    *list += length + ((*list)[length] == ':');
    if (length == 0 || n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0)
        return NULL;
    if (is_cut(path)) {
        memcpy(cut, path, (size_t)n + 1);
        return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *open_anywhere(const char *folder, const char *name, char *cut)
{
    const char *at = folder, *more = getenv("EBB_PLUGIN_PATH");
    void *library = open_next(&at, "", name, cut);
    while (!library && more && *more)
        library = open_next(&more, "", name, cut);
    at = folder;
    return library ? library : open_next(&at, "/../lib/ebb", name, cut);
}

enum ebb_status kernel_plugin_load(const char *name, const struct kernel_plugin **plugin,
                                   struct ebb_error *err)
{
    char folder[MOST_PATH], cut[MOST_PATH] = "";
    kernel_plugin_entry *entry;
    own_folder(folder, sizeof folder);
    (void)dlerror();
    void *library = open_anywhere(folder, name, cut);
    const char *why = dlerror();
    if (!library && *cut)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "device %s: its plug-in does not load: %s: the file is cut short; copy or "
                        "build it again",
                        name, cut);
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
