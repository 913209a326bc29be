/* Programs that do what they should, fail, hang, and are missing. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/process.h"

static enum ebb_status shell(const char *script, const char *input, uint64_t timeout_ns,
                             struct ebb_str *out, struct ebb_error *err)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct ebb_process p = {argv, input, strlen(input), timeout_ns};
    return ebb_process_run(&p, out, err);
}

TEST(run__appends_what_it_writes)
{
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    ebb_str_add(&out, "before ");
    CHECK_OK(shell("tr a-z A-Z; echo said >&2", "abc", 0, &out, &err), &err);
    CHECK_STR(ebb_str_c(&out), "before ABC");
    ebb_str_fini(&out);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(run__tells_how_it_failed_and_keeps_the_output)
{
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    ebb_str_add(&out, "kept");
    CHECK_EQ(shell("echo half; echo 'no such thing' >&2; echo more >&2; exit 3", "", 0, &out, &err),
             EBB_EIO);
    CHECK_STR(err.message, "sh failed (exit 3): no such thing");
    CHECK_EQ(shell("kill -9 $$", "", 0, &out, &err), EBB_EIO);
    CHECK_STR(err.message, "sh was ended by signal 9");
    const char *const argv[] = {"ebb-no-such-program", NULL};
    CHECK_EQ(ebb_process_run(&(struct ebb_process){.argv = argv}, &out, &err), EBB_EUNSUPPORTED);
    CHECK_STR(err.message, "ebb-no-such-program is not installed here");
    CHECK_STR(ebb_str_c(&out), "kept");
    ebb_str_fini(&out);
}

TEST(run__ends_what_does_not_end)
{
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    uint64_t begin = ebb_clock_ns();
    CHECK_EQ(shell("exec sleep 30", "", 300u * 1000 * 1000, &out, &err), EBB_ELIMIT);
    CHECK(ebb_clock_ns() - begin < 10ull * 1000 * 1000 * 1000);
    CHECK_STR(err.message, "sh did not end within 0.3 s and was ended");
    ebb_str_fini(&out);
}

TEST(run__hands_over_more_than_a_pipe_holds)
{
    struct ebb_error err;
    struct ebb_str input, out;
    ebb_str_init(&input);
    ebb_str_init(&out);
    for (int i = 0; i < 100000; i++)
        ebb_str_add(&input, "0123456789\n");
    CHECK_OK(shell("cat", ebb_str_c(&input), 0, &out, &err), &err);
    CHECK_STR(ebb_str_c(&out), ebb_str_c(&input));
    ebb_str_fini(&input);
    ebb_str_fini(&out);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST_MAIN()
