/* torture.h - every allocation fails once: what is tried succeeds or says that memory is out, and
 * leaves no block behind.
 *
 *     static enum ebb_status load(void *context) { ... does it, then undoes it ... }
 *     torture(load, "file", 1000); */
#ifndef EBB_TESTS_TORTURE_H
#define EBB_TESTS_TORTURE_H

#include "test.h"

#include "base/heap.h"

/* `most`: so many allocations it may take at the most. */
static inline void torture(enum ebb_status (*attempt)(void *context), void *context, uint64_t most)
{
    enum ebb_status status = EBB_ENOMEM;
    uint64_t before = ebb_heap_live();
    for (uint64_t n = 1; status != EBB_OK; n++) {
        ebb_heap_fail_at(n);
        status = attempt(context);
        ebb_heap_fail_at(0);
        CHECK_EQ(ebb_heap_live(), before);
        CHECK(status == EBB_OK ? n > 1 : status == EBB_ENOMEM);
        CHECK(n < most);
    }
}

#endif
