/* signals.c - Ctrl-C and SIGTERM become a flag that long work polls. The second one ends the
 * program at once. */
#include "cli/cli.h"

#include <signal.h>
#include <string.h>

/* A handler can reach nothing but a global: the one exception to "no mutable globals". */
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void cli_catch_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    /* RESTART: reads and waits go on, so no call fails half-way; poll and sleep return early all
     * the same. */
    action.sa_flags = (int)(SA_RESTART | SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}
