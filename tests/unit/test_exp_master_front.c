/* What a front is told of a master, from objects in memory. */
#include "test.h"

#include <string.h>

#include "exp/master/inner.h"

/* A store may take back what it had: what is left is never less than nothing, nor more than all. */
TEST(bytes_left__are_between_nothing_and_all)
{
    static struct exp_master m;
    struct exp_job job = {0};
    struct exp_upload u = {.experiment_id = 3, .bytes = 100, .job = &job};
    const char *error = NULL;
    int64_t bytes = 0;
    static const int64_t sent[] = {0, 30, 100, 130};
    static const int64_t left[] = {100, 70, 0, 0};
    m.uploads = &u;
    for (size_t i = 0; i < 4; i++) {
        atomic_store(&job.watch.bytes, sent[i]);
        CHECK_EQ(exp_master_uploads(&m, 3, &bytes, &error), 1);
        CHECK_EQ(bytes, left[i]);
        CHECK_EQ(exp_master_info(&m).uploaded_bytes, 100 - left[i]);
    }
}

TEST_MAIN()
