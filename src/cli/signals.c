/* signals.c - Ctrl-C, SIGTERM and SIGHUP become a number that long work polls. After as many as it wants to
 * hear of, the next one ends the program at once. */
#include "cli/cli.h"

#include <signal.h>
#include <string.h>

/* A handler can reach nothing but a global: the one exception to "no mutable globals". */
static volatile sig_atomic_t interrupted, wanted;

static void on_signal(int number)
{
    if (++interrupted >= wanted)
        signal(number, SIG_DFL);
}

static void catch_signals(int count)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    wanted = count;
    action.sa_handler = on_signal;
    /* RESTART: reads and waits go on, so no call fails half-way; poll and sleep return early all
     * the same. */
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGHUP);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before; /* the terminal goes away; nohup says that this does not matter */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

void cli_catch_interrupts(void)
{
    catch_signals(1);
}

/* Nobody reads any more what we print: as good as Ctrl-C, however often it is found out. */
static void on_pipe(int number)
{
    (void)number;
    if (interrupted == 0)
        interrupted = 1;
}

void cli_catch_two_interrupts(void)
{
    struct sigaction action;
    catch_signals(2);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_pipe;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGPIPE, &action, NULL);
}

bool cli_is_hurried(void *context)
{
    return interrupted >= *(const int *)context;
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}
