/* sorted.h - where a value stands in an ascending array: the index of the first element that is not
 * below it, `count` when all are. */
#ifndef EBB_BASE_SORTED_H
#define EBB_BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t ebb_first_u32(const uint32_t *sorted, size_t count, uint32_t value)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (sorted[middle] < value)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Of structs of `stride` bytes that begin with a uint64_t, by which they are sorted. */
static inline size_t ebb_first_u64(const void *sorted, size_t stride, size_t count, uint64_t value)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        uint64_t key;
        memcpy(&key, (const char *)sorted + middle * stride, sizeof key);
        if (key < value)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

#endif
