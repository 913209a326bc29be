/* fuzz_train_sections.c - the sections of training on any bytes: checked, expanded, read.
 *
 * Checked beyond not crashing: a section without mistakes is read, one with mistakes is refused;
 * nothing stays allocated. Seeds: tests/fuzz/corpus/train_sections, tests/golden/train. */

#include "fuzz.h"

#include "train/train.h"

static void read_sections(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    struct train_config config;
    const struct ebb_doc_node *root = NULL;
    struct ebb_report report = {0};
    ebb_arena_init(&arena);
    if (ebb_doc_parse_yaml(&arena, "file", bytes, size, &root, &err) == EBB_OK && root) {
        struct train_source source = {.file = "file",
                                      .entrypoint = "ebb:image_classification",
                                      .root = root,
                                      .hparams = ebb_doc_get(root, "hyperparameters")};
        enum ebb_status status = train_config_read(&arena, &source, &config, &report, &err);
        require((status == EBB_EINPUT) == (report.errors > 0) || status == EBB_ENOMEM);
        struct ebb_doc_node copy = *root;
        copy.owner = NULL;
        if (root->kind == EBB_DOC_MAP && size < 4096) {
            char text[4096];
            memcpy(text, bytes, size);
            text[size] = '\0';
            (void)train_set(&arena, &copy, text, &err);
        }
    }
    ebb_arena_fini(&arena);
}

FUZZ(read_sections)
