/* plot_golden.h - compare with tests/golden/plot/<name>.txt; with EBB_GOLDEN_WRITE set, write it
 * instead, for a person to review the difference. */
#ifndef EBB_TESTS_PLOT_GOLDEN_H
#define EBB_TESTS_PLOT_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>

static inline void check_golden(const char *text, const char *name)
{
    char path[512];
    static char expected[65536];
    snprintf(path, sizeof path, "%s/tests/golden/plot/%s.txt", EBB_SOURCE_DIR, name);
    FILE *f = fopen(path, getenv("EBB_GOLDEN_WRITE") != NULL ? "w" : "r");
    assert_non_null(f);
    if (getenv("EBB_GOLDEN_WRITE") != NULL) {
        fputs(text, f);
        fclose(f);
        return;
    }
    expected[fread(expected, 1, sizeof expected - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(text, expected);
}

#endif
