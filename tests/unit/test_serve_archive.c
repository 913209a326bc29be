/* Model definitions as tar.gz: what the tar program reads back; refusals; same files, same bytes. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/archive.h"

/* 10 directories of 20 letters and a name: 214 bytes, more than tar's 100, split at a '/'. */
static const char *long_path(char *out, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < 10 && n + 30 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "abcdefghij%02d34567890/", i);
    snprintf(out + n, size - n, "w");
    return out;
}

static int tar_reads(const struct ebb_str *archive, const char *command)
{
    char path[] = "/tmp/ebb-archive-XXXXXX", line[900];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, archive->data, archive->length) == (ssize_t)archive->length);
    close(fd);
    snprintf(line, sizeof line, "TZ=UTC tar tvzf %s | %s", path, command);
    int code = system(line);
    unlink(path);
    return code;
}

TEST(archive__tar_reads_modes_times_and_long_paths)
{
    char path[300];
    static const char data[1500] = "x=1\n";
    const struct exp_store_file files[] = {
        {.path = "pkg", .is_directory = true, .mode = 0755, .mtime = 86400},
        {.path = "pkg/a.py", .mode = 0100640, .mtime = 86400, .data = data, .length = 1500},
        {.path = "pkg/empty", .mode = 0644, .mtime = -5},
        {.path = long_path(path, sizeof path), .mode = 0600, .data = data, .length = 512},
    };
    struct ebb_str first, second;
    struct ebb_error err;
    ebb_str_init(&first);
    ebb_str_init(&second);
    ebb_str_add(&second, "kept");
    CHECK_OK(serve_archive_write(files, 4, &first, &err), &err);
    sleep(1); /* a second later: the time of writing is no part of it */
    CHECK_OK(serve_archive_write(files, 4, &second, &err), &err);
    CHECK_EQ(second.length, first.length + 4);
    CHECK(memcmp(second.data + 4, first.data, first.length) == 0);
    CHECK_EQ(tar_reads(&first, "grep -Eq '^drwxr-xr-x 0/0 +0 1970-01-02 00:00 pkg/$'"), 0);
    CHECK_EQ(tar_reads(&first, "grep -Eq '^-rw-r----- 0/0 +1500 1970-01-02 00:00 pkg/a.py$'"), 0);
    CHECK_EQ(tar_reads(&first, "grep -Eq '^-rw-r--r-- 0/0 +0 1970-01-01 00:00 pkg/empty$'"), 0);
    CHECK_EQ(tar_reads(&first, "grep -Eq '^-rw------- 0/0 +512 .*abcdefghij0934567890/w$'"), 0);
    ebb_str_fini(&first);
    ebb_str_fini(&second);
}

TEST(archive__a_path_beyond_the_format_is_refused_by_name)
{
    char path[200];
    memset(path, 'n', sizeof path - 1); /* no '/' to split it at */
    path[sizeof path - 1] = '\0';
    const struct exp_store_file file = {.path = path, .mode = 0644};
    struct ebb_str out;
    struct ebb_error err;
    ebb_str_init(&out);
    CHECK(serve_archive_write(&file, 1, &out, &err) == EBB_EINPUT);
    CHECK(strstr(err.message, "nnn: the path is too long for a tar archive") != NULL);
    ebb_str_fini(&out);
}

TEST_MAIN()
