/* library.c - see library.h. */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

enum ebb_status ebb_library_load(const char *file, const char *package,
                                 const struct ebb_library_call *calls, size_t count,
                                 struct ebb_error *err)
{
    void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL)
        return ebb_fail(err, EBB_EUNSUPPORTED, "%s is not installed here: apt-get install %s", file,
                        package);
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, calls[i].name);
        if (found == NULL)
            return ebb_fail(err, EBB_EUNSUPPORTED, "%s is too old: it has no %s", file,
                            calls[i].name);
        memcpy(calls[i].place, &found, sizeof found); /* ISO C knows no such cast */
    }
    return EBB_OK;
}
