/* unreadable.h - a file that nobody can read though it is there, for root too: reading it is refused
 * as it is refused when descriptors run out or a server of files is away.
 *
 *     unreadable_begin(path);  ... reading fails with ENXIO ...  unreadable_end(path); */
#ifndef EBB_TESTS_UNREADABLE_H
#define EBB_TESTS_UNREADABLE_H

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The file goes aside; a socket that nobody listens at takes its name. */
static inline void unreadable_begin(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/ebb-socket-XXXXXX", aside[4096], command[8400];
    snprintf(aside, sizeof aside, "%s.aside", path);
    CHECK_EQ(rename(path, aside), 0);
    assert_non_null(mkdtemp(dir));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(close(fd), 0);
    snprintf(command, sizeof command, "mv '%s' '%s' && rmdir '%s'", address.sun_path, path, dir);
    CHECK_EQ(system(command), 0);
}

static inline void unreadable_end(const char *path)
{
    char aside[4096];
    snprintf(aside, sizeof aside, "%s.aside", path);
    CHECK_EQ(rename(aside, path), 0);
}

#endif
