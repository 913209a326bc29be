/* Device profiles: what is written is read again, mistakes are all named, rows win over fits, and
 * the constants that everything was planned with are still the ones built in. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"
#include "profile/inner.h"

static struct ebb_error err;

static const char text[] = "ebb-device 1\n"
                           "# of a test\n"
                           "kind nvidia-h200\n"
                           "fact multiprocessors 132\n"
                           "link host_out 8000 55.2 42.7\n"
                           "fit * 3000 0 3.8\n"
                           "fit matmul 2000 700000 0\n"
                           "row matmul bf16:32768x768x2304 157000 0.01 33554432 a1:ff\n"
                           "row matmul bf16:32768x768x768 61000 0.02 0 -\n"
                           "end\n";

TEST(files__are_read_and_written_again)
{
    struct profile *p, *q;
    uint64_t value = 0;
    bool is_fitted;
    CHECK_OK(profile_read("p", text, sizeof text - 1, &p, &err), &err);
    CHECK_STR(profile_kind(p), "nvidia-h200");
    CHECK(profile_fact(p, "multiprocessors", &value));
    CHECK_EQ(value, 132);
    CHECK(!profile_fact(p, "threads", &value));
    CHECK(profile_link(p, PROFILE_HOST_OUT).bytes_per_ns == 55.2);
    CHECK_EQ(profile_link(p, PROFILE_FILE_IN).latency_ns, 0);
    const struct profile_row *row = profile_find(p, "matmul", "bf16:32768x768x2304");
    CHECK(row && row->cost_ns == 157000 && row->workspace_bytes == 33554432);
    CHECK_STR(row->algorithm, "a1:ff");
    CHECK(!profile_find(p, "matmul", "bf16:1x1x1"));
    CHECK_EQ(profile_cost_ns(p, "matmul", row->key, 1e12, 0, 1, &is_fitted), 157000);
    CHECK(!is_fitted);
    CHECK_EQ(profile_cost_ns(p, "matmul", "other", 7e8, 1e9, 1, &is_fitted), 3000);
    CHECK(is_fitted);
    CHECK_EQ(profile_cost_ns(p, "gelu", "other", 7e8, 3800, 1, NULL), 4000);
    CHECK_OK(profile_write(p, "profile.txt", &err), &err);
    CHECK_OK(profile_load("profile.txt", &q, &err), &err);
    struct ebb_str a = {0}, b = {0};
    CHECK_OK(profile_spell(p, &a, &err), &err);
    CHECK_OK(profile_spell(q, &b, &err), &err);
    CHECK_STR(ebb_str_c(&a), ebb_str_c(&b));
    ebb_str_fini(&a);
    ebb_str_fini(&b);
    profile_destroy(p);
    profile_destroy(q);
    remove("profile.txt");
}

static char *spelled(const char *lines)
{
    struct profile *p;
    struct ebb_str out = {0};
    char whole[512];
    snprintf(whole, sizeof whole, "ebb-device 1\nkind k\n%send\n", lines);
    CHECK_OK(profile_read("p", whole, strlen(whole), &p, &err), &err);
    CHECK_OK(profile_spell(p, &out, &err), &err);
    profile_destroy(p);
    return ebb_str_take(&out);
}

TEST(order_and_comments__say_nothing)
{
    char *a = spelled("row f a 1 0 0 -\nrow f b 2 0 0 -\n");
    char *b = spelled("# so\nrow f b 2 0.0 0 -\n\nrow f a 1 0 0 -\n");
    char *c = spelled("row f a 1 0 0 -\nrow f b 3 0 0 -\n");
    CHECK_STR(a, b);
    CHECK(strcmp(a, c) != 0);
    ebb_free(a);
    ebb_free(b);
    ebb_free(c);
}

TEST(mistakes__are_all_named)
{
    struct profile *p = NULL;
    static const char bad[] = "ebb-device 1\n"
                              "kind a\n"
                              "fact x -1\n"
                              "link up 1 2 3\n"
                              "  row f k 1 0 0\n"
                              "speed 7\n"
                              "fit f 1 nan 2\n"
                              "end\n"
                              "kind b\n";
    CHECK_EQ(profile_read("p", bad, sizeof bad - 1, &p, &err), EBB_EINPUT);
    CHECK_STR(err.message,
              "p:3:8: found '-1', allowed: a whole number >= 0\n"
              "p:4:6: found 'up', allowed: move, host_out, host_in, file_out, file_in\n"
              "p:5:3: found 'row', allowed: row FAMILY KEY NS SPREAD WORKSPACE_BYTES ALGORITHM\n"
              "p:6:1: found 'speed', allowed: kind, fact, link, fit, row, end\n"
              "p:7:9: found 'nan', allowed: a number >= 0\n"
              "p:9:1: found 'kind', allowed: nothing after 'end'");
    CHECK_EQ(profile_read("p", "hello", 5, &p, &err), EBB_EINPUT);
    CHECK_EQ(profile_read("p", "ebb-device 1\nkind a\n", 20, &p, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "cut short") != NULL);
    static const char twice[] = "ebb-device 1\nkind a\nrow f k 1 0 0 -\nrow f k 2 0 0 -\nend\n";
    CHECK_EQ(profile_read("p", twice, sizeof twice - 1, &p, &err), EBB_EINPUT);
    CHECK_STR(err.message, "p: row f k stands twice");
    CHECK_EQ(profile_load("/no/such/file", &p, &err), EBB_EIO);
    CHECK(p == NULL);
}

TEST(builtin__is_what_plans_were_made_with)
{
    const struct profile *p = profile_builtin();
    CHECK_EQ(profile_cost_ns(p, "conv", "x", 2e9, 1e6, 2, NULL), 1000 + 100000 + 10000000);
    CHECK(profile_link(p, PROFILE_MOVE).bytes_per_ns == 8.0);
    CHECK(profile_link(p, PROFILE_HOST_IN).bytes_per_ns == 6.0);
    CHECK(profile_link(p, PROFILE_FILE_OUT).bytes_per_ns == 1.0);
    CHECK_EQ(profile_link(p, PROFILE_FILE_OUT).latency_ns, 100000);
}

TEST(times__are_rounded_to_quarter_octaves)
{
    CHECK_EQ(profile_round_ns(1024), 1024);
    CHECK_EQ(profile_round_ns(1100), 1024);
    CHECK_EQ(profile_round_ns(1120), 1218);
    CHECK_EQ(profile_round_ns(0), 1);
}

TEST(allocations__that_fail_are_told)
{
    uint64_t live = ebb_heap_live();
    for (uint64_t n = 1;; n++) {
        struct profile *p = NULL;
        ebb_heap_fail_at(n);
        enum ebb_status status = profile_read("p", text, sizeof text - 1, &p, &err);
        ebb_heap_fail_at(0);
        if (status == EBB_OK)
            profile_destroy(p);
        CHECK_EQ(ebb_heap_live(), live);
        if (status == EBB_OK)
            break;
        CHECK_EQ(status, EBB_ENOMEM);
    }
}

TEST_MAIN()
