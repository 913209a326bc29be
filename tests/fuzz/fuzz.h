/* fuzz.h - what fuzz targets share. */
#ifndef EBB_TESTS_FUZZ_FUZZ_H
#define EBB_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(int condition)
{
    if (!condition)
        abort();
}

/* The target: run(bytes, size), after which nothing stays allocated. */
#define FUZZ(run)                                                                                  \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                   \
    {                                                                                              \
        uint64_t live = ebb_heap_live();                                                           \
        run((const char *)data, size);                                                             \
        require(ebb_heap_live() == live);                                                          \
        return 0;                                                                                  \
    }

#endif
