/* share.c - see share.h. */
#include "cli/share.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A build lies in the source tree, at most two folders deep. */
bool cli_share_find(const char *installed, const char *source, char *path, size_t room)
{
    static const char *const places[] = {"../share/ebb", "..", "../.."};
    char program[4096], name[2 * 4096], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(name, sizeof name, "%s/%s/%s", program, places[i], i == 0 ? installed : source);
        if (access(name, R_OK) == 0 && realpath(name, real) && strlen(real) < room) {
            snprintf(path, room, "%s", real);
            return true;
        }
    }
    return false;
}
