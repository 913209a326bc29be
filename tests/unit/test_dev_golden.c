/* The engine on the reference vectors of tests/golden/engine: ops forward, backward and twice
 * backward, optimizers, rates, 16-bit floats, random numbers, small trainings. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "dev/dev.h"

/* As the command leaves: 0 all passed, 1 other numbers, 2 could not be run as it is written. */
static int run_with(const char *dir, int threads, bool is_library)
{
    const struct dev_request request = {
        .dir = dir, .out = stdout, .threads = threads, .is_library = is_library};
    struct dev_counts counts;
    struct ebb_error err;
    CHECK_OK(dev_golden(&request, &counts, &err), &err);
    return counts.is_broken ? 2 : counts.failed > 0 || counts.passed == 0;
}

static int run(const char *dir, int threads)
{
    return run_with(dir, threads, false);
}

TEST(vectors__pass_on_one_thread)
{
    CHECK_EQ(run(EBB_SOURCE_DIR "/tests/golden/engine", 1), 0);
}

TEST(vectors__pass_on_two_threads)
{
    CHECK_EQ(run(EBB_SOURCE_DIR "/tests/golden/engine", 2), 0);
}

/* The vectors are small; large convolutions go another way, which must be as right. */
TEST(vectors__pass_with_convolutions_of_the_library)
{
    CHECK_EQ(run_with(EBB_SOURCE_DIR "/tests/golden/more", 1, true), 0);
}

TEST(vectors__of_data_pass)
{
    CHECK_EQ(run(EBB_SOURCE_DIR "/tests/golden/data", 1), 0);
}

static void write_text(const char *dir, const char *name, const void *text, size_t length)
{
    char path[256];
    struct ebb_error err;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK_OK(ebb_file_write_atomic(path, text, length, &err), &err);
}

static void remove_all(const char *dir)
{
    static const char *const names[] = {"ops.json", "ops.safetensors"};
    char path[256];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

TEST(an_empty_folder__is_a_failure)
{
    char dir[] = "/tmp/ebb-golden-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    CHECK_EQ(run(dir, 1), 2);
    remove_all(dir);
}

TEST(an_unknown_op__fails)
{
    static const char json[] =
        "{\"cases\": [{\"name\": \"a\", \"op\": \"relu\", \"attrs\": {}, \"inputs\": [\"x\"],"
        " \"outputs\": [{\"index\": 0}], \"grads\": []},"
        " {\"name\": \"b\", \"op\": \"no_such_op\", \"attrs\": {}, \"inputs\": []}]}";
    static const char header[] =
        "{\"a/in_x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    unsigned char file[8 + sizeof header - 1 + 4] = {sizeof header - 1};
    char dir[] = "/tmp/ebb-golden-XXXXXX";
    memcpy(file + 8, header, sizeof header - 1);
    CHECK(mkdtemp(dir) != NULL);
    write_text(dir, "ops.json", json, sizeof json - 1);
    write_text(dir, "ops.safetensors", file, sizeof file);
    CHECK_EQ(run(dir, 1), 2);
    remove_all(dir);
}

TEST_MAIN()
