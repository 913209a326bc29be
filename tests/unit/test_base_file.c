#include "test_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void check_content(const char *path, const char *want)
{
    struct ebb_error err;
    struct ebb_file_view view;
    CHECK_OK(ebb_file_view_open(&view, path, SIZE_MAX, &err), &err);
    CHECK_EQ(view.length, strlen(want));
    CHECK_EQ(memcmp(view.data, want, view.length), 0);
    ebb_file_view_close(&view);
}

/* Files in the folder: a temporary left behind would show. */
static int count_files(void)
{
    char command[128], line[16] = "";
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *pipe = popen(command, "r");
    CHECK(pipe && fgets(line, sizeof line, pipe));
    pclose(pipe);
    return atoi(line);
}

TEST(write__replaces_whole_files)
{
    struct ebb_error err;
    CHECK_OK(ebb_file_write_atomic(in_folder("a"), "first", 5, &err), &err);
    check_content(in_folder("a"), "first");
    CHECK_OK(ebb_file_write_atomic(in_folder("a"), "second!", 7, &err), &err);
    check_content(in_folder("a"), "second!");
    CHECK_OK(ebb_file_write_atomic(in_folder("empty"), NULL, 0, &err), &err);
    check_content(in_folder("empty"), "");
    CHECK_EQ(count_files(), 2);
}

TEST(out__abort_leaves_the_old_file)
{
    struct ebb_error err;
    struct ebb_file_out out;
    CHECK_OK(ebb_file_write_atomic(in_folder("a"), "old", 3, &err), &err);
    CHECK_OK(ebb_file_out_open(&out, in_folder("a"), &err), &err);
    fputs("half of the new", out.stream);
    fflush(out.stream);
    check_content(in_folder("a"), "old");
    ebb_file_out_abort(&out);
    check_content(in_folder("a"), "old");
    CHECK_EQ(count_files(), 1);
    CHECK_OK(ebb_file_out_open(&out, in_folder("a"), &err), &err);
    fputs("new", out.stream);
    CHECK_OK(ebb_file_out_commit(&out, &err), &err);
    ebb_file_out_abort(&out); /* after commit: nothing */
    check_content(in_folder("a"), "new");
}

TEST(out__keeps_permissions_and_links)
{
    struct ebb_error err;
    struct stat st;
    char link[256];
    CHECK_OK(ebb_file_write_atomic(in_folder("a"), "x", 1, &err), &err);
    CHECK_EQ(chmod(in_folder("a"), 0640), 0);
    snprintf(link, sizeof link, "%s/link", folder);
    CHECK_EQ(symlink("a", link), 0);
    CHECK_OK(ebb_file_write_atomic(link, "through", 7, &err), &err);
    check_content(in_folder("a"), "through");
    CHECK_EQ(lstat(link, &st), 0);
    CHECK(S_ISLNK(st.st_mode));
    CHECK_EQ(stat(in_folder("a"), &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0640);
}

TEST(out__writes_devices_in_place)
{
    struct ebb_error err;
    struct stat st;
    CHECK_OK(ebb_file_write_atomic("/dev/null", "x", 1, &err), &err);
    CHECK_EQ(stat("/dev/null", &st), 0);
    CHECK(S_ISCHR(st.st_mode));
    CHECK_EQ(ebb_file_write_atomic("/dev/full", "x", 1, &err), EBB_EFULL);
    CHECK(strstr(err.message, "No space left") != NULL);
}

TEST(errors__name_path_and_reason)
{
    struct ebb_error err;
    struct ebb_file_view view;
    CHECK_EQ(ebb_file_view_open(&view, in_folder("none"), 10, &err), EBB_EIO);
    CHECK(strstr(err.message, "none: No such file") != NULL);
    CHECK_EQ(ebb_file_view_open(&view, folder, 10, &err), EBB_EIO);
    CHECK(strstr(err.message, "directory") != NULL);
    CHECK_EQ(ebb_file_write_atomic(in_folder("no/such/dir"), "x", 1, &err), EBB_EIO);
    CHECK_EQ(ebb_file_write_atomic(folder, "x", 1, &err), EBB_EIO);
    CHECK_EQ(count_files(), 0);
}

TEST(view__limits_size)
{
    struct ebb_error err;
    struct ebb_file_view view;
    CHECK_OK(ebb_file_write_atomic(in_folder("a"), "12345", 5, &err), &err);
    CHECK_EQ(ebb_file_view_open(&view, in_folder("a"), 4, &err), EBB_ELIMIT);
    CHECK_OK(ebb_file_view_open(&view, in_folder("a"), 5, &err), &err);
    CHECK(view.is_mapped);
    ebb_file_view_close(&view);
    ebb_file_view_close(&view);
    /* /proc says size 0 */
    CHECK_OK(ebb_file_view_open(&view, "/proc/self/status", SIZE_MAX, &err), &err);
    CHECK(view.length > 100 && !view.is_mapped);
    ebb_file_view_close(&view);
    CHECK_EQ(ebb_file_view_open(&view, "/dev/zero", 100000, &err), EBB_ELIMIT);
}

TEST(view__reads_pipes)
{
    struct ebb_error err;
    struct ebb_file_view view;
    int ends[2], old = dup(0);
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "from a pipe", 11), 11);
    close(ends[1]);
    CHECK(dup2(ends[0], 0) == 0);
    close(ends[0]);
    CHECK_OK(ebb_file_view_open(&view, "-", 100, &err), &err);
    CHECK_EQ(view.length, 11);
    CHECK_EQ(memcmp(view.data, "from a pipe", 11), 0);
    ebb_file_view_close(&view);
    dup2(old, 0);
    close(old);
}

TEST(mkdirs__makes_the_whole_path)
{
    struct ebb_error err;
    struct stat st;
    CHECK_OK(ebb_file_mkdirs(in_folder("a/b//c/"), &err), &err);
    CHECK_OK(ebb_file_mkdirs(in_folder("a/b/c"), &err), &err);
    CHECK_EQ(stat(in_folder("a/b/c"), &st), 0);
    CHECK(S_ISDIR(st.st_mode));
    CHECK_OK(ebb_file_mkdirs("/", &err), &err);
    CHECK_OK(ebb_file_write_atomic(in_folder("file"), "x", 1, &err), &err);
    CHECK_EQ(ebb_file_mkdirs(in_folder("file/x"), &err), EBB_EIO);
    CHECK_EQ(ebb_file_mkdirs("", &err), EBB_EIO);
}

TEST(write__out_of_memory_leaves_nothing)
{
    uint64_t live = ebb_heap_live();
    struct ebb_error err;
    enum ebb_status status = EBB_ENOMEM;
    for (uint64_t nth = 1; status != EBB_OK && nth < 20; nth++) {
        ebb_heap_fail_at(nth);
        status = ebb_file_write_atomic(in_folder("a"), "text", 4, &err);
        CHECK(status == EBB_OK || status == EBB_ENOMEM);
        CHECK(count_files() <= 1); /* no temporary is left */
    }
    ebb_heap_fail_at(0);
    CHECK_EQ(status, EBB_OK);
    CHECK_EQ(ebb_heap_live(), live);
}

TEST_MAIN_EACH(folder_open, folder_close)
