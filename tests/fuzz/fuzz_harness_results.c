/* Results and repetitions from anybody: the readers must survive them, and what they accept can be written. */
#include "fuzz.h"

#include "harness/harness.h"

static void results(const char *bytes, size_t size)
{
    struct ebb_arena arena = {0};
    struct harness_results r;
    struct ebb_str out;
    ebb_str_init(&out);
    if (harness_results_parse(&arena, "fuzz", bytes, size, &r, NULL) == EBB_OK) {
        for (size_t i = 0; i < r.count; i++) {
            (void)harness_slowdown(&r, &r.settings[i]);
            (void)harness_setting_ratio(&r, &r.settings[i]);
        }
        harness_results_format(&r, &out);
    }
    ebb_str_fini(&out);
    ebb_arena_fini(&arena);
}

static void rows(const char *bytes, size_t size)
{
    struct harness_rows list = {0}, again = {0};
    struct ebb_str out;
    ebb_str_init(&out);
    if (harness_rows_parse(&list, "fuzz", bytes, size, NULL) == EBB_OK) {
        harness_rows_write(&list, NULL, &out);
        require(harness_rows_parse(&again, "again", out.data, out.length, NULL) == EBB_OK);
        require(again.count == list.count);
    }
    ebb_str_fini(&out);
    harness_rows_fini(&list);
    harness_rows_fini(&again);
}

static void run(const char *bytes, size_t size)
{
    if (size > 0 && bytes[0] == '{')
        results(bytes, size);
    else
        rows(bytes, size);
}

FUZZ(run)
