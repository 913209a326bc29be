#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/thread.h"

TEST(log__one_line_with_level_and_name)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    struct ebb_log log = {.stream = stream, .level = EBB_LOG_INFO, .name = "master"};
    ebb_log(&log, EBB_LOG_DEBUG, "not shown");
    ebb_log(&log, EBB_LOG_WARN, "trial %d\nlost", 3);
    ebb_log(NULL, EBB_LOG_ERROR, "silent");
    fclose(stream);
    CHECK_EQ(text[10], 'T'); /* 2026-01-31T12:34:56Z */
    CHECK_EQ(text[19], 'Z');
    CHECK_STR(text + 20, " master: warning: trial 3 lost\n");
    free(text);
}

static void log_lines(void *context, size_t i)
{
    for (int k = 0; k < 20; k++)
        ebb_log(context, EBB_LOG_INFO, "line of thread %zu with some text behind it", i);
}

TEST(log__lines_of_threads_stay_whole)
{
    FILE *stream = tmpfile();
    struct ebb_log log = {.stream = stream, .name = "t"};
    CHECK_EQ(ebb_parallel(4, 8, log_lines, &log, NULL), EBB_OK);
    rewind(stream);
    char line[256];
    int count = 0;
    while (fgets(line, sizeof line, stream)) {
        CHECK_EQ(strlen(line), strlen("2026-01-31T12:34:56Z t: info: line of thread 0 with some "
                                      "text behind it\n"));
        count++;
    }
    CHECK_EQ(count, 160);
    fclose(stream);
}

TEST(progress__is_silent_in_a_pipe)
{
    int ends[2], old = dup(STDERR_FILENO);
    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    struct ebb_progress *p = ebb_progress_create("work", 10);
    dup2(old, STDERR_FILENO);
    close(old);
    close(ends[0]);
    close(ends[1]);
    CHECK(!p);
    ebb_progress_add(p, 1); /* NULL is fine everywhere */
    ebb_progress_note(p, "x");
    ebb_progress_destroy(p);
}

/* On a pseudo terminal: a bar appears, and is wiped at the end. */
TEST(progress__draws_on_a_terminal)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY), old = dup(STDERR_FILENO);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        skip();
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    struct winsize size = {.ws_row = 24, .ws_col = 100};
    ioctl(slave, TIOCSWINSZ, &size);
    uint64_t live = ebb_heap_live();
    dup2(slave, STDERR_FILENO);
    struct ebb_progress *p = ebb_progress_create("planning", 10);
    usleep(110000);
    ebb_progress_note(p, "best %d", 7);
    ebb_progress_add(p, 5);
    usleep(110000);
    ebb_progress_add(p, 0);
    ebb_progress_destroy(p);
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
    CHECK_EQ(ebb_heap_live(), live);
    close(slave); /* the last one: reading the other end now ends */
    char text[4096];
    size_t n = 0;
    for (ssize_t part; (part = read(master, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)part;
    CHECK(n > 4);
    text[n] = '\0';
    CHECK(strstr(text, "planning [##########..........]  50%  5/10") != NULL);
    CHECK(strstr(text, "best 7") != NULL);
    CHECK_STR(text + n - 4, "\r\033[K");
    close(master);
}

TEST_MAIN()
