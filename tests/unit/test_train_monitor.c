/* What the monitor names: the op of the program that runs, never that of another one. */
#include "test.h"

#include <string.h>
#include <time.h>

#include "base/heap.h"
#include "train/monitor.h"

static void wait_for_samples(struct train_monitor *m, uint64_t more)
{
    struct train_sight sight;
    train_monitor_look(m, &sight);
    uint64_t until = sight.samples + more;
    while (sight.samples < until) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        train_monitor_look(m, &sight);
    }
}

/* Memory that is really there. */
static unsigned char *take(size_t bytes)
{
    unsigned char *block = ebb_calloc(1, bytes);
    CHECK(block != NULL);
    memset(block, 1, bytes);
    return block;
}

TEST(ops__belong_to_the_program_that_runs)
{
    struct ebb_error err;
    struct train_monitor *m;
    struct train_sight sight;
    struct trace first = {0}, second = {0};
    CHECK_OK(train_monitor_start(&m, &err), &err);
    train_monitor_tell(m, &first, 1, 1);
    atomic_store(train_monitor_op(m), 5);
    unsigned char *one = take(8 << 20);
    wait_for_samples(m, 2);
    train_monitor_look(m, &sight);
    CHECK(sight.trace == &first);
    CHECK_EQ(sight.op, 5);
    train_monitor_tell(m, &second, 1, 2); /* it has run nothing yet */
    unsigned char *two = take(8 << 20);
    wait_for_samples(m, 2);
    train_monitor_look(m, &sight);
    CHECK(sight.trace == &second);
    CHECK_EQ(sight.op, TRACE_NONE);
    CHECK_EQ(sight.update, 2);
    train_monitor_stop(m);
    ebb_free(one);
    ebb_free(two);
}

TEST_MAIN()
