/* test_cli_ignore.c - what stays out of a model definition. */
#include "test.h"

#include "base/heap.h"
#include "cli/ignore.h"

static bool has(const char *rules, const char *path, bool is_directory)
{
    struct cli_ignore ignore;
    struct ebb_error err = {0};
    CHECK_OK(cli_ignore_parse(&ignore, rules, strlen(rules), &err), &err);
    bool answer = cli_ignore_has(&ignore, path, is_directory);
    cli_ignore_fini(&ignore);
    CHECK_EQ(ebb_heap_live(), 0);
    return answer;
}

TEST(ignore__names_match_at_every_depth)
{
    CHECK(has("*.log", "a.log", false));
    CHECK(has("*.log", "deep/in/a.log", false));
    CHECK(!has("*.log", "a.log.txt", false));
    CHECK(has("data?", "data1", false));
    CHECK(has("[a-c].txt", "x/b.txt", false));
    CHECK(!has("[a-c].txt", "d.txt", false));
}

TEST(ignore__slashes_tie_to_the_root)
{
    CHECK(has("/out", "out", true));
    CHECK(!has("/out", "src/out", true));
    CHECK(has("src/out", "src/out", true));
    CHECK(!has("src/out", "a/src/out", true));
    CHECK(!has("src/*", "src/a/b", false)); /* a star stays within a name */
}

TEST(ignore__directories_only)
{
    CHECK(has("build/", "build", true));
    CHECK(!has("build/", "build", false));
    CHECK(has("build/", "x/build", true));
}

TEST(ignore__two_stars_cross_directories)
{
    CHECK(has("**/cache", "cache", true));
    CHECK(has("**/cache", "a/b/cache", true));
    CHECK(has("a/**/z", "a/z", false));
    CHECK(has("a/**/z", "a/b/c/z", false));
    CHECK(has("a/**", "a/b/c", false));
    CHECK(!has("a/**", "a", true));
    CHECK(!has("a/**/z", "b/z", false));
}

TEST(ignore__the_last_rule_decides)
{
    CHECK(!has("*.txt\n!keep.txt\n", "keep.txt", false));
    CHECK(has("!keep.txt\n*.txt\n", "keep.txt", false));
}

TEST(ignore__comments_blanks_and_crlf)
{
    CHECK(!has("# *.txt\n\n   \n", "a.txt", false));
    CHECK(has("*.txt\r\n", "a.txt", false));
    CHECK(has("*.txt   ", "a.txt", false));
    CHECK(!has("/\n!\n!/\n", "a", true));
}

TEST(ignore__always_leaves_out_caches)
{
    CHECK(has("", ".git", true));
    CHECK(has("", "pkg/__pycache__", true));
    CHECK(has("", "pkg/a.pyc", false));
    CHECK(!has("", "pkg/a.py", false));
}

TEST_MAIN()
