/* fuzz_data_section.c - `data` sections of any bytes: keys and values are checked, generated sets
 * are opened.
 *
 * Checked beyond not crashing: a refusal says why, at least one mistake is reported for it, nothing
 * stays allocated. */

#include "fuzz.h"

#include "data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root;
    struct data_env env = {.benchmark = size & 1 ? "cosmoflow" : NULL, .directory = "/nowhere"};
    uint64_t live = ebb_heap_live();
    ebb_arena_init(&arena);
    if (ebb_doc_parse_json(&arena, "fuzz", (const char *)data, size, &root, &err) == EBB_OK) {
        struct ebb_reading reading;
        struct ebb_report report;
        struct data_set *set = NULL;
        ebb_reading_init(&reading, &arena, NULL, &report);
        bool is_good = data_check(&reading, &(struct ebb_path){.key = "data"}, root, &env);
        enum ebb_status status = ebb_reading_end(&reading, &err);
        require((status == EBB_OK) == (report.errors == 0) && is_good == (status == EBB_OK));
        require(status == EBB_OK || err.message[0]);
        const char *directory = ebb_doc_string(root, "data_dir", "synthetic");
        bool is_generated = strncmp(directory, "synthetic", 9) == 0 &&
                            !ebb_doc_get(root, "train_files") && !ebb_doc_get(root, "merges") &&
                            !ebb_doc_get(root, "train_subset") && !ebb_doc_get(root, "n_train");
        if (status == EBB_OK && is_generated && data_open(root, &env, &set, &err) == EBB_OK) {
            const struct data_info *info = data_describe(set);
            size_t bytes = 0;
            for (size_t f = 0; f < info->field_count; f++)
                bytes += info->fields[f].bytes;
            require(bytes == info->sample_bytes);
        }
        data_close(set);
    }
    ebb_arena_fini(&arena);
    require(ebb_heap_live() == live);
    return 0;
}
