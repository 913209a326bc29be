/* library.c - see library.h. */
#include "cuda/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usual[] = "/usr/local/cuda/lib64:/usr/local/cuda/lib";

/* The first of the folders that has it. */
static void *open_in(const char *folders, const char *file)
{
    char path[4096];
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, folders, file);
        void *library = n > 0 && (size_t)n < sizeof path && length > 0
                            ? dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE)
                            : NULL;
        if (library)
            return library;
        folders += length + (folders[length] == ':');
    }
    return NULL;
}

enum ebb_status cuda_library_load(const char *file, const char *what,
                                  const struct ebb_library_call *calls, size_t count,
                                  struct ebb_error *err)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    library = library ? library : open_in(getenv("EBB_CUDA_PATH"), file);
    library = library ? library : open_in(usual, file);
    if (!library)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "cuda: %s is needed for %s and not found: install it, or name its folder "
                        "in EBB_CUDA_PATH",
                        file, what);
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, calls[i].name);
        if (!found)
            return ebb_fail(err, EBB_EUNSUPPORTED, "cuda: %s is too old: it has no %s", file,
                            calls[i].name);
        memcpy(calls[i].place, &found, sizeof found); /* ISO C knows no such cast */
    }
    return EBB_OK;
}
