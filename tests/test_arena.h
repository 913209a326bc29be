/* test_arena.h - an arena for tests that build documents: TEST_MAIN_EACH(arena_open, arena_close). */
#ifndef EBB_TESTS_TEST_ARENA_H
#define EBB_TESTS_TEST_ARENA_H

#include "test.h"

#include "base/arena.h"

static struct ebb_arena arena;

static int arena_open(void **state)
{
    (void)state;
    arena = (struct ebb_arena){0};
    return 0;
}

static int arena_close(void **state)
{
    (void)state;
    ebb_arena_fini(&arena);
    return 0;
}

#endif
