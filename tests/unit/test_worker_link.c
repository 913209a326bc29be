/* test_worker_link.c - the connection of a trial against a master that the test plays itself. */
#include "test.h"
#include "test_folder.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/heap.h"
#include "worker/link.h"

static struct worker_link *link_to(char *path, size_t size, int *listener)
{
    struct worker_link *link = NULL;
    struct ebb_error err;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(path, size, "%s/s", folder);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    *listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(*listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(*listener, 4), 0);
    struct worker_link_options options = {
        .path = path, .allocation = "a", .trial_id = 1, .patience_s = 5, .heartbeat_s = 60};
    CHECK_OK(worker_link_open(&link, &options, &err), &err);
    return link;
}

static FILE *accept_trial(int listener)
{
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    struct timeval limit = {.tv_sec = 5};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    FILE *f = fdopen(fd, "r");
    CHECK(f != NULL);
    return f;
}

static void tell(FILE *f, const char *line)
{
    CHECK_EQ(write(fileno(f), line, strlen(line)), (ssize_t)strlen(line));
}

static void expect(FILE *f, const char *part)
{
    char line[512] = "nothing came";
    if (!fgets(line, sizeof line, f) || !strstr(line, part))
        fail_msg("expected %s, got: %s", part, line);
}

/* The master takes the trial in. */
static FILE *greet(int listener)
{
    FILE *f = accept_trial(listener);
    expect(f, "HELLO");
    tell(f, "{\"type\": \"RENDEZVOUS\"}\n");
    return f;
}

/* A RUN that a new master repeats is answered again, so that one answer is in the outbox twice; its
 * ACK must leave the count of what was sent right, or the next answer never goes. */
TEST(link__an_answer_given_twice_and_acknowledged)
{
    char path[64];
    int listener;
    struct ebb_error err;
    struct worker_link *link = link_to(path, sizeof path, &listener);
    FILE *f = greet(listener);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(worker_link_answer(link, 1, "{\"type\": \"DONE\", \"seq\": 1}", &err), &err);
        expect(f, "\"seq\": 1}");
    }
    tell(f, "{\"type\": \"ACK\", \"seq\": 1}\n{\"type\": \"RUN\"}\n");
    char *line = NULL;
    CHECK_OK(worker_link_next(link, &line, &err), &err); /* the ACK before it has been read */
    ebb_free(line);
    CHECK_OK(worker_link_answer(link, 2, "{\"type\": \"DONE\", \"seq\": 2}", &err), &err);
    expect(f, "\"seq\": 2}");
    tell(f, "{\"type\": \"ACK\", \"seq\": 2}\n");
    worker_link_close(link);
    fclose(f);
    close(listener);
}

TEST(link__what_was_not_acknowledged_is_sent_again)
{
    char path[64];
    int listener;
    struct ebb_error err;
    struct worker_link *link = link_to(path, sizeof path, &listener);
    FILE *f = greet(listener);
    CHECK_OK(worker_link_answer(link, 1, "{\"type\": \"DONE\", \"seq\": 1}", &err), &err);
    expect(f, "\"seq\": 1}");
    fclose(f); /* the master is gone, and comes back */
    f = greet(listener);
    expect(f, "\"seq\": 1}");
    tell(f, "{\"type\": \"ACK\", \"seq\": 1}\n");
    worker_link_close(link);
    fclose(f);
    close(listener);
}

TEST_MAIN_EACH(folder_open, folder_close)
