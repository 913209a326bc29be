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
              "p:7:9: found 'nan', allowed: 0, or 0.0001 to 1e12 per nanosecond\n"
              "p:9:1: found 'kind', allowed: nothing after 'end'");
    CHECK_EQ(profile_read("p", "hello", 5, &p, &err), EBB_EINPUT);
    CHECK_EQ(profile_read("p", "ebb-device 1\nkind a\n", 20, &p, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "cut short") != NULL);
    CHECK_EQ(profile_load("/no/such/file", &p, &err), EBB_EIO);
    CHECK(p == NULL);
}

static void refused(const char *lines, const char *message)
{
    struct profile *p = NULL;
    char whole[4096];
    snprintf(whole, sizeof whole, "ebb-device 1\nkind k\n%send\n", lines);
    CHECK_EQ(profile_read("p", whole, strlen(whole), &p, &err), EBB_EINPUT);
    CHECK_STR(err.message, message);
}

TEST(things__stand_once)
{
    refused("row f k 1 0 0 -\nrow  f k 2 0 0 -\nfact a 1\nfact a 1\nkind b\n"
            "fit * 1 1 1\nfit * 1 1 1\nlink move 1 1 1\nlink move 1 1 1\n",
            "p:4:8: found 'k', allowed: once; line 3 has it\n"
            "p:6:6: found 'a', allowed: once; line 5 has it\n"
            "p:7:1: found 'kind', allowed: once; line 2 has it\n"
            "p:9:5: found '*', allowed: once; line 8 has it\n"
            "p:11:6: found 'move', allowed: once; line 10 has it");
}

TEST(words__have_a_nearest)
{
    refused("lnk move 1 1 1\nlink host_uot 1 1 1\n",
            "p:3:1: found 'lnk', allowed: kind, fact, link, fit, row, end, nearest: link\n"
            "p:4:6: found 'host_uot', allowed: move, host_out, host_in, file_out, file_in, "
            "nearest: host_out");
    struct profile *p = NULL;
    CHECK_EQ(profile_read("p", "ebb-device 2\nend\n", 17, &p, &err), EBB_EINPUT);
    CHECK_STR(err.message,
              "p:1:1: found 'ebb-device 2', allowed: 'ebb-device 1', with which device "
              "profiles begin");
}

TEST(numbers__that_no_sum_holds_are_refused)
{
    refused("fit * 1e300 1e-300 1\nlink move 18446744073709551615 1 1e13\n"
            "row f k 1000000000001 0 18446744073709551615 -\n",
            "p:3:7: found '1e300', allowed: nanoseconds, 0 to 1e12\n"
            "p:3:13: found '1e-300', allowed: 0, or 0.0001 to 1e12 per nanosecond\n"
            "p:4:11: found '18446744073709551615', allowed: whole nanoseconds, 0 to "
            "1000000000000\n"
            "p:4:34: found '1e13', allowed: 0, or 0.0001 to 1e12 per nanosecond\n"
            "p:5:9: found '1000000000001', allowed: whole nanoseconds, 0 to 1000000000000\n"
            "p:5:25: found '18446744073709551615', allowed: whole bytes, 0 to 1099511627776");
    struct profile_fit slow = {.family = "*", .flops_per_ns = 1e-4};
    CHECK_EQ(profile_fit_ns(&slow, 1e30, 0, 1), PROFILE_MOST_NS);
}

TEST(many_mistakes__are_counted)
{
    static const char line[] = "what is this\n";
    char lines[3000];
    for (size_t i = 0; i < 60; i++)
        memcpy(lines + i * (sizeof line - 1), line, sizeof line);
    struct profile *p = NULL;
    char whole[4096];
    snprintf(whole, sizeof whole, "ebb-device 1\nkind k\n%send\n", lines);
    CHECK_EQ(profile_read("p", whole, strlen(whole), &p, &err), EBB_EINPUT);
    const char *last = strrchr(err.message, '\n');
    CHECK(last && strstr(last, " mistakes more") && !strstr(last, "..."));
}

TEST(files_of_other_systems__may_end_lines_their_way)
{
    static const char crlf[] = "ebb-device 1\r\nkind k\r\nend\r\n";
    struct profile *p = NULL;
    CHECK_OK(profile_read("p", crlf, sizeof crlf - 1, &p, &err), &err);
    CHECK_STR(profile_kind(p), "k");
    profile_destroy(p);
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

TEST(rows__of_another_are_added_where_there_are_none)
{
    static const char newer[] =
        "ebb-device 1\nkind cpu\nrow add a 5 0 0 -\nrow sub a 6 0 0 -\nend\n";
    static const char older[] =
        "ebb-device 1\nkind cpu\nrow add a 1 0 0 -\nrow add b 2 0 0 -\nrow abs a 3 0 0 -\nend\n";
    struct profile *p, *q;
    CHECK_OK(profile_read("p", newer, sizeof newer - 1, &p, &err), &err);
    CHECK_OK(profile_read("q", older, sizeof older - 1, &q, &err), &err);
    CHECK_OK(profile_add_rows(p, q, &err), &err);
    CHECK_EQ(p->row_count, 4);
    CHECK_EQ(profile_find(p, "add", "a")->cost_ns, 5);
    CHECK_EQ(profile_find(p, "add", "b")->cost_ns, 2);
    CHECK_EQ(profile_find(p, "abs", "a")->cost_ns, 3);
    CHECK_EQ(profile_find(p, "sub", "a")->cost_ns, 6);
    profile_destroy(p);
    profile_destroy(q);
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
