/* fuzz_train_bench.c - benchmark files on any bytes: refused with a report, or a configuration.
 *
 * Checked beyond not crashing: a file without mistakes is read, one with mistakes is refused; nothing
 * stays allocated. Seeds: tests/golden/bench, examples/bench. */
#include "fuzz.h"

#include "train/train.h"

static void read_bench(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_report report = {0};
    struct ebb_error err = {0};
    struct train_bench bench;
    const struct ebb_doc_node *root = NULL;
    ebb_arena_init(&arena);
    if (ebb_doc_parse_yaml(&arena, "file", bytes, size, &root, &err) == EBB_OK && root &&
        root->kind == EBB_DOC_MAP) {
        struct train_bench_source source = {.file = "file", .root = root, .seed = -1};
        enum ebb_status status = train_bench_read(&arena, &source, &bench, &report, &err);
        require((status == EBB_EINPUT) == (report.errors > 0) || status == EBB_ENOMEM);
        if (status == EBB_OK)
            (void)train_bench_count(&bench, 1000, &err);
    }
    ebb_arena_fini(&arena);
}

FUZZ(read_bench)
