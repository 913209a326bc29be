/* test_torture.h - allocation 1, 2, 3 ... fails until all is well: a status each time, no leak. */
#ifndef EBB_TESTS_TEST_TORTURE_H
#define EBB_TESTS_TEST_TORTURE_H

#include "test.h"

#include "base/heap.h"

typedef enum ebb_status (*torture_fn)(void *context, struct ebb_error *err);

/* `run` frees what it makes. */
static inline void torture(torture_fn run, void *context, uint64_t most)
{
    uint64_t live = ebb_heap_live();
    for (uint64_t nth = 1;; nth++) {
        struct ebb_error err = {0};
        ebb_heap_fail_at(nth);
        enum ebb_status status = run(context, &err);
        ebb_heap_fail_at(0);
        CHECK_EQ(ebb_heap_live(), live);
        if (status == EBB_OK)
            break;
        CHECK_EQ(status, EBB_ENOMEM);
        CHECK(nth < most);
    }
}

#endif
