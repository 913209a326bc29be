/* test.h - the face of cmocka in this tree.
 *
 *     TEST(subject__expectation) { CHECK(x); CHECK_EQ(a, b); }
 *     TEST_MAIN()
 *
 * One behaviour per test; a failing run exits nonzero. `make test` takes slices of what is only
 * thorough; with EBB_TEST_LONG=1 (`make slow`) test_is_long() says to do all of it. Every TEST of the file runs, in their order: it
 * enters itself in the list before main. */
#ifndef EBB_TESTS_TEST_H
#define EBB_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#ifdef __has_feature /* how clang tells; gcc defines names */
#define TEST_HAS_FEATURE(name) __has_feature(name)
#else
#define TEST_HAS_FEATURE(name) 0
#endif
/* Built with the sanitizer of addresses or of threads: ten times as slow, an allocator of their own that
 * keeps what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    TEST_HAS_FEATURE(address_sanitizer) || TEST_HAS_FEATURE(thread_sanitizer)
#define TEST_IS_SANITIZED 1
#else
#define TEST_IS_SANITIZED 0
#endif

enum { TEST_MOST = 256 };
static struct CMUnitTest test_rows[TEST_MOST]; /* cmocka passes over rows without a function */

static inline void test_enter(const char *name, CMUnitTestFunction test)
{
    for (size_t i = 0; i < TEST_MOST; i++)
        if (test_rows[i].test_func == NULL) {
            test_rows[i] = (struct CMUnitTest){.name = name, .test_func = test};
            return;
        }
    abort(); /* more than TEST_MOST */
}

static inline bool test_is_long(void)
{
    const char *text = getenv("EBB_TEST_LONG");
    return text && *text == '1';
}

#define TEST(name)                                                                                 \
    static void name(void **cmocka_state);                                                         \
    __attribute__((constructor)) static void name##__enter(void)                                   \
    {                                                                                              \
        test_enter(#name, name);                                                                   \
    }                                                                                              \
    static void name(__attribute__((unused)) void **cmocka_state)

#define CHECK(x) assert_true(x)
#define CHECK_EQ(a, b) assert_int_equal((a), (b))
#define CHECK_STR(a, b) assert_string_equal((a), (b))
#define CHECK_OK(expr, err)                                                                        \
    do {                                                                                           \
        if ((expr) != EBB_OK)                                                                      \
            fail_msg("%s: %s", #expr, (err)->message);                                             \
    } while (0)

#define RUN(name) cmocka_unit_test(name)

static inline int test_run_each(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    for (size_t i = 0; i < TEST_MOST && test_rows[i].test_func; i++) {
        test_rows[i].setup_func = setup;
        test_rows[i].teardown_func = teardown;
    }
    return cmocka_run_group_tests(test_rows, NULL, NULL);
}

/* Every test between setup and teardown; all of them between one setup and one teardown. */
#define TEST_MAIN_EACH(setup, teardown)                                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        return test_run_each(setup, teardown);                                                     \
    }
#define TEST_MAIN_ONCE(setup, teardown)                                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        return cmocka_run_group_tests(test_rows, setup, teardown);                                 \
    }
/* All tests, or those of a list: RUN(name), or rows with a setup of their own. */
#define TEST_MAIN(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest listed[] = {{0}, __VA_ARGS__};                                     \
        return sizeof listed > sizeof *listed ? cmocka_run_group_tests(listed, NULL, NULL)         \
                                              : cmocka_run_group_tests(test_rows, NULL, NULL);     \
    }

#endif
