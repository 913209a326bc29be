/* Device profiles from anybody: the reader must survive them, and what it accepts it must be able to look up. */
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ebb_error err;
    struct profile *p;
    if (profile_read("fuzz", (const char *)data, size, &p, &err) != EBB_OK)
        return 0;
    (void)profile_cost_ns(p, "matmul", "k", 1e9, 1e6, 4, NULL);
    profile_destroy(p);
    return 0;
}
