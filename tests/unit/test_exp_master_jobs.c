/* Work beside the loop: what fetched copies go through. */
#include "test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "exp/master/jobs.h"
#include "unreadable.h"

static const char uuid[] = "0f0e0d0c-0b0a-4908-8706-050403020100";

struct place {
    char dir[64], copy[160];
    struct exp_store_net *net;
    struct exp_jobs *jobs;
};

/* A fetched copy of a checkpoint whose store nobody reaches. */
static void begin(struct place *p)
{
    struct ebb_error err;
    struct exp_store *store = NULL;
    struct exp_store_item item = {.uuid = uuid, .metadata = "{}"};
    char text[300];
    snprintf(p->dir, sizeof p->dir, "/tmp/ebb-jobs-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->copy, sizeof p->copy, "%s/%s/%s", p->dir, EXP_CACHE, uuid);
    snprintf(text, sizeof text, "mkdir -p %s/%s/.%s.tmp && printf abc > %s/%s/.%s.tmp/w", p->dir,
             EXP_CACHE, uuid, p->dir, EXP_CACHE, uuid);
    CHECK_EQ(system(text), 0);
    snprintf(text, sizeof text, "{\"type\":\"shared_fs\",\"directory\":\"%s/%s\"}", p->dir,
             EXP_CACHE);
    CHECK_OK(exp_store_open_location(text, NULL, NULL, &store, &err), &err);
    exp_store_publish(store, &item, 1);
    CHECK_OK(item.status, &item.err);
    ebb_str_fini(&item.resources);
    exp_store_close(store);
    setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1", 1);
    CHECK_OK(exp_store_net_create(&p->net, &err), &err);
    CHECK_OK(exp_jobs_create(1, &p->jobs, &err), &err);
}

static void end(struct place *p)
{
    struct ebb_error err;
    exp_jobs_destroy(p->jobs);
    exp_store_net_destroy(p->net);
    unsetenv("STORAGE_EMULATOR_HOST");
    CHECK_OK(exp_store_remove_tree(p->dir, &err), &err);
}

/* What becomes of a start from it when the n-th allocation fails. */
static enum ebb_status prepare(struct place *p, uint64_t n, bool *is_reached)
{
    struct exp_job *job = exp_job_create(EXP_JOB_PREPARE);
    CHECK(job != NULL);
    job->location = strdup("{\"type\":\"gcs\",\"bucket\":\"b\",\"prefix\":\"\"}");
    job->uuid = strdup(uuid);
    CHECK(job->location != NULL && job->uuid != NULL);
    job->is_remote = true;
    job->net = p->net;
    job->state_dir = p->dir;
    job->watch.tries = 1;
    uint64_t before = ebb_heap_calls();
    ebb_heap_fail_at(n);
    exp_jobs_add(p->jobs, job);
    struct pollfd wait = {.fd = exp_jobs_fd(p->jobs), .events = POLLIN};
    CHECK_EQ(poll(&wait, 1, 60000), 1);
    ebb_heap_fail_at(0);
    *is_reached = ebb_heap_calls() - before >= n;
    CHECK(exp_jobs_take(p->jobs) == job && exp_jobs_take(p->jobs) == NULL);
    enum ebb_status status = job->status;
    free(job->location);
    free(job->uuid);
    job->location = job->uuid = NULL;
    exp_job_destroy(job);
    return status;
}

/* All who start from the same checkpoint share it. */
TEST(a_fetched_copy__is_removed_only_when_it_is_damaged)
{
    struct place p;
    char path[200];
    bool is_reached = true;
    begin(&p);
    for (uint64_t n = 1; is_reached; n++) {
        enum ebb_status status = prepare(&p, n, &is_reached);
        if (access(p.copy, F_OK) != 0)
            fail_msg("gone at allocation %llu", (unsigned long long)n);
        CHECK_EQ(status, is_reached ? EBB_ENOMEM : EBB_OK);
        CHECK(n < 1000);
    }
    snprintf(path, sizeof path, "%s/w", p.copy);
    unreadable_begin(path);
    CHECK_EQ(prepare(&p, 0, &is_reached), EBB_EIO);
    CHECK_EQ(access(p.copy, F_OK), 0);
    unreadable_end(path);
    CHECK_EQ(prepare(&p, 0, &is_reached), EBB_OK);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(prepare(&p, 0, &is_reached), EBB_EIO); /* nobody has another */
    CHECK(access(p.copy, F_OK) != 0);
    CHECK_EQ(prepare(&p, 0, &is_reached), EBB_EIO);
    end(&p);
}

TEST_MAIN()
