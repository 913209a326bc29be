/* test_folder.h - a folder of the test's own, gone afterwards: TEST_MAIN_EACH or
 * TEST_MAIN_ONCE(folder_open, folder_close). */
#ifndef EBB_TESTS_TEST_FOLDER_H
#define EBB_TESTS_TEST_FOLDER_H

#include "test.h"

#include <stdio.h>
#include <unistd.h>

static char folder[32];

static int folder_open(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ebb-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_close(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

#endif
