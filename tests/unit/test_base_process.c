/* Programs that do what they should, fail, hang, and are missing; children that talk; one that stays. */
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/process.h"

static enum ebb_status shell(const char *script, const char *input, uint64_t timeout_ns,
                             struct ebb_str *out, struct ebb_error *err)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct ebb_process p = {
        .argv = argv, .input = input, .length = strlen(input), .timeout_ns = timeout_ns};
    return ebb_process_run(&p, out, err);
}

TEST(run__appends_what_it_writes)
{
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    ebb_str_add(&out, "before ");
    CHECK_OK(shell("tr a-z A-Z; echo said >&2", "abc", 0, &out, &err), &err);
    CHECK_STR(ebb_str_c(&out), "before ABC");
    ebb_str_fini(&out);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(run__tells_how_it_failed_and_keeps_the_output)
{
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    ebb_str_add(&out, "kept");
    CHECK_EQ(shell("echo half; echo 'no such thing' >&2; echo more >&2; exit 3", "", 0, &out, &err),
             EBB_EIO);
    CHECK_STR(err.message, "sh failed (exit 3): no such thing");
    CHECK_EQ(shell("kill -9 $$", "", 0, &out, &err), EBB_EIO);
    CHECK_STR(err.message, "sh was ended by signal 9");
    const char *const argv[] = {"ebb-no-such-program", NULL};
    CHECK_EQ(ebb_process_run(&(struct ebb_process){.argv = argv}, &out, &err), EBB_EUNSUPPORTED);
    CHECK_STR(err.message, "ebb-no-such-program is not installed here");
    CHECK_STR(ebb_str_c(&out), "kept");
    ebb_str_fini(&out);
}

TEST(run__ends_what_does_not_end)
{
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    uint64_t begin = ebb_clock_ns();
    CHECK_EQ(shell("exec sleep 30", "", 300u * 1000 * 1000, &out, &err), EBB_ELIMIT);
    CHECK(ebb_clock_ns() - begin < 10ull * 1000 * 1000 * 1000);
    CHECK_STR(err.message, "sh did not end within 0.3 s and was ended");
    ebb_str_fini(&out);
}

TEST(run__hands_over_more_than_a_pipe_holds)
{
    struct ebb_error err;
    struct ebb_str input, out;
    ebb_str_init(&input);
    ebb_str_init(&out);
    for (int i = 0; i < 100000; i++)
        ebb_str_add(&input, "0123456789\n");
    CHECK_OK(shell("cat", ebb_str_c(&input), 0, &out, &err), &err);
    CHECK_STR(ebb_str_c(&out), ebb_str_c(&input));
    ebb_str_fini(&input);
    ebb_str_fini(&out);
    CHECK_EQ(ebb_heap_live(), 0);
}

/* ---- children ---- */

static void child_of(struct ebb_child *child, const char *script, const char *input)
{
    struct ebb_error err;
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct ebb_process p = {
        .argv = argv, .input = input, .length = strlen(input), .timeout_ns = 0};
    CHECK_OK(ebb_child_start(child, &p, &err), &err);
}

#define SECOND (1000ull * 1000 * 1000)

TEST(child__is_read_line_by_line)
{
    struct ebb_error err;
    struct ebb_child c;
    const char *line;
    child_of(&c, "cat; echo; echo two; printf end", "one");
    static const char *const lines[] = {"one", "two", "end"};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ebb_child_line(&c, 20 * SECOND, &line, &err), &err);
        CHECK_STR(line, lines[i]);
    }
    CHECK_OK(ebb_child_line(&c, 20 * SECOND, &line, &err), &err);
    CHECK(line == NULL);
    CHECK_OK(ebb_child_end(&c, 20 * SECOND, &err), &err);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(child__hands_out_long_lines_whole)
{
    struct ebb_error err;
    struct ebb_child c;
    const char *line;
    child_of(&c, "for i in 1 2 3; do head -c 100000 /dev/zero | tr '\\0' x; echo $i; done", "");
    for (int i = 1; i <= 3; i++) {
        CHECK_OK(ebb_child_line(&c, 20 * SECOND, &line, &err), &err);
        CHECK_EQ(strlen(line), 100001);
        CHECK_EQ(line[100000], '0' + i);
        CHECK_EQ(strspn(line, "x"), 100000);
    }
    CHECK_OK(ebb_child_end(&c, 20 * SECOND, &err), &err);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(child__that_says_nothing_is_asked_again)
{
    struct ebb_error err;
    struct ebb_child c;
    const char *line;
    child_of(&c, "printf ha; sleep 0.3; echo lf", "");
    CHECK_EQ(ebb_child_line(&c, SECOND / 20, &line, &err), EBB_ELIMIT);
    CHECK_STR(err.message, "sh has said nothing for 0.05 s");
    CHECK_OK(ebb_child_line(&c, 20 * SECOND, &line, &err), &err);
    CHECK_STR(line, "half");
    CHECK_OK(ebb_child_end(&c, 20 * SECOND, &err), &err);
}

TEST(child__tells_how_it_failed)
{
    struct ebb_error err;
    struct ebb_child c;
    child_of(&c, "echo broken >&2; exit 4", "");
    CHECK_EQ(ebb_child_end(&c, 20 * SECOND, &err), EBB_EIO);
    CHECK_STR(err.message, "sh failed (exit 4): broken");
    const char *const argv[] = {"ebb-no-such-program", NULL};
    CHECK_EQ(ebb_child_start(&c, &(struct ebb_process){.argv = argv}, &err), EBB_EUNSUPPORTED);
    CHECK_EQ(ebb_heap_live(), 0);
}

static bool is_alive(pid_t pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d %*s %c", &state) != 1)
        state = 'Z';
    if (f)
        fclose(f);
    return state != 'Z';
}

/* Whatever it started goes with it. */
TEST(child__is_killed_with_its_group)
{
    struct ebb_error err;
    struct ebb_child c;
    const char *line;
    child_of(&c, "sleep 60 & echo $!; sleep 60", "");
    CHECK_OK(ebb_child_line(&c, 20 * SECOND, &line, &err), &err);
    pid_t grandchild = (pid_t)strtol(line, NULL, 10);
    CHECK(grandchild > 1 && is_alive(grandchild));
    CHECK_EQ(ebb_child_end(&c, 0, &err), EBB_EIO);
    CHECK_STR(err.message, "sh was ended by signal 9");
    for (int i = 0; i < 1000 && is_alive(grandchild); i++)
        usleep(10000);
    CHECK(!is_alive(grandchild));
}

/* A parent that is killed takes the one along that asked for it. */
TEST(child__dies_with_its_parent)
{
    int ends[2];
    char byte;
    CHECK_EQ(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0) {
        pid_t me = getpid();
        if (fork() == 0) {
            ebb_die_with(me);
            pid_t self = getpid();
            ssize_t n = write(ends[1], &self, sizeof self);
            (void)n;
            for (;;)
                pause();
        }
        for (;;)
            pause();
    }
    pid_t child = 0;
    close(ends[1]);
    CHECK_EQ(read(ends[0], &child, sizeof child), sizeof child);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    CHECK_EQ(read(ends[0], &byte, 1), 0); /* its end of the pipe is closed: it is gone */
    close(ends[0]);
}

TEST(leave__goes_on_and_writes_its_log)
{
    struct ebb_error err;
    char log[] = "/tmp/ebb-process-XXXXXX", text[64] = "";
    int fd = mkstemp(log);
    pid_t pid = 0;
    const char *const argv[] = {"sh", "-c", "cat; echo out; echo err >&2", NULL};
    CHECK_OK(ebb_process_leave(argv, log, &pid, &err), &err);
    CHECK(getsid(pid) == pid || !is_alive(pid));
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    CHECK_EQ(pread(fd, text, sizeof text - 1, 0), 8);
    CHECK_STR(text, "out\nerr\n");
    close(fd);
    unlink(log);
    const char *const missing[] = {"ebb-no-such-program", NULL};
    CHECK_EQ(ebb_process_leave(missing, "/dev/null", &pid, &err), EBB_EUNSUPPORTED);
}

TEST_MAIN()
