/* test.h - the face of cmocka in this tree.
 *
 *     TEST(subject__expectation) { CHECK(x); CHECK_EQ(a, b); }
 *     TEST_MAIN(RUN(subject__expectation), RUN(other__thing))
 *
 * One behaviour per test; a failing run exits nonzero. */
#ifndef EBB_TESTS_TEST_H
#define EBB_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define TEST(name) static void name(void **cmocka_state)
#define TEST_UNUSED (void)cmocka_state

#define CHECK(x) assert_true(x)
#define CHECK_EQ(a, b) assert_int_equal((a), (b))
#define CHECK_STR(a, b) assert_string_equal((a), (b))
#define CHECK_OK(expr, err)                                                                        \
    do {                                                                                           \
        if ((expr) != EBB_OK)                                                                      \
            fail_msg("%s: %s", #expr, (err)->message);                                             \
    } while (0)

#define RUN(name) cmocka_unit_test(name)
#define TEST_MAIN(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#endif
