/* Plan files: what is written reads back equal; what is wrong is refused with its line. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "plan/plan.h"

#define HEAD                                                                                       \
    "ebb-plan 1\nsignature 0123456789abcdef0011223344556677\nplanner best\nbudget 4096\n"          \
    "bytes rounded\n"

TEST(write__reads_back_equal)
{
    struct plan plan, back;
    struct ebb_error err;
    char path[] = "/tmp/ebb_plan_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    plan_init(&plan);
    plan.signature = (struct ebb_hash128){.low = 0xfeed, .high = UINT64_MAX};
    strcpy(plan.planner, "chen_sqrtn");
    plan.budget_bytes = UINT64_MAX;
    plan.exact_bytes = true;
    CHECK_OK(plan_add(&plan, PLAN_PLACE, 3, PLAN_NOWHERE, 0, &err), &err);
    CHECK_OK(plan_add(&plan, PLAN_RUN, 1, 512, 0, &err), &err);
    CHECK_OK(plan_add(&plan, PLAN_RUN, 7, PLAN_NOWHERE, 1, &err), &err);
    CHECK_OK(plan_add(&plan, PLAN_SEND, 3, 0, 2, &err), &err);
    CHECK_OK(plan_add(&plan, PLAN_DROP, 3, 0, 0, &err), &err);
    CHECK_OK(plan_add(&plan, PLAN_FETCH, 3, 0, 2, &err), &err);
    CHECK_OK(plan_add(&plan, PLAN_FORGET, 3, 0, 2, &err), &err);
    CHECK_OK(plan_write(&plan, path, &err), &err);
    CHECK_OK(plan_load(path, &back, &err), &err);
    CHECK_STR(back.planner, plan.planner);
    CHECK(back.budget_bytes == UINT64_MAX && back.exact_bytes);
    CHECK(back.signature.low == 0xfeed && back.signature.high == UINT64_MAX);
    CHECK_EQ(back.step_count, plan.step_count);
    for (size_t i = 0; i < back.step_count; i++) {
        CHECK_EQ(back.steps[i].act, plan.steps[i].act);
        CHECK_EQ(back.steps[i].index, plan.steps[i].index);
        CHECK_EQ(back.steps[i].tier, plan.steps[i].tier);
        CHECK(back.steps[i].offset == plan.steps[i].offset);
    }
    plan_fini(&plan);
    plan_fini(&back);
    unlink(path);
}

static void refuses(const char *text, const char *message)
{
    struct plan plan;
    struct ebb_error err;
    if (plan_read("p", text, strlen(text), &plan, &err) != EBB_EINPUT)
        fail_msg("accepted: %s", text);
    if (!strstr(err.message, message))
        fail_msg("'%s' lacks '%s'", err.message, message);
}

TEST(read__refuses_with_the_line)
{
    refuses("", "p:1: the file ends early");
    refuses("ebb-plan 3\n", "p:1: not a plan file");
    refuses(HEAD "steps 1\nsend 0 1 @0\nend\n", "p:7: the line goes on");
    refuses(HEAD "steps 1\nrun 0 \nend\n", "p:7: the line goes on");
    refuses(HEAD "steps 1\nrun 0\n", "p:8: the file ends early");
    refuses(HEAD "steps 1\nrun 0\nrun 1\nend\n", "p:8: expected 'end'");
    refuses(HEAD "steps 1\nrun 0\nend\n\n", "text after 'end'");
    refuses(HEAD "steps 1\nrum 0\nend\n", "p:7: expected place");
    refuses(HEAD "steps 1\nrun -1\nend\n", "p:7: expected the number");
    refuses(HEAD "steps 1\nrun 01\nend\n", "p:7: expected the number");
    refuses(HEAD "steps 1\nrun 0 64\nend\n", "p:7: expected '@OFFSET'");
    refuses(HEAD "steps 1\nrun 0  @64\nend\n", "p:7:");
    refuses(HEAD "steps 1\nsend 0 3\nend\n", "p:7: expected a tier");
    refuses(HEAD "steps 1\ndrop 0 @0\nend\n", "p:7: the line goes on");
    refuses(HEAD "steps 99999999999999999999\n", "p:6: 'steps' needs a number");
    refuses("ebb-plan 1\nsignature 01\n", "p:2: the signature");
}

#define HEAD_2                                                                                     \
    "ebb-plan 2\nsignature 0123456789abcdef0011223344556677\nplanner best\nbudget 4096\n"          \
    "bytes rounded\n"

TEST(read__refuses_bad_homes)
{
    refuses(HEAD_2 "steps 0\nend\n", "p:6: expected 'homes VALUE'");
    refuses(HEAD_2 "homes 99\nsteps 0\nend\n", "p:6: more homes than the file has lines");
    refuses(HEAD_2 "homes 1\nsteps 0\nend 0 1 2 3 4\n", "p:7: expected 'home STORAGE TIER");
    refuses(HEAD_2 "homes 1\nhome 0 0 @0\nsteps 0\nend\n", "p:7: expected a tier");
    refuses(HEAD_2 "homes 1\nhome 0 1 0\nsteps 0\nend\n", "p:7: expected '@OFFSET'");
    refuses(HEAD_2 "homes 1\nhome x 1 @0\nsteps 0\nend\n", "p:7: expected the number");
    refuses(HEAD_2 "homes 0\nsteps 1\nsend 0 1 0\nend\n", "p:8: expected '@OFFSET'");
}

TEST(read__huge_step_count_takes_no_memory)
{
    refuses(HEAD "steps 18446744073709551615\nend\n", "p:7: expected place");
}

TEST_MAIN()
