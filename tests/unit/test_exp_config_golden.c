/* The experiment file against files: broken configurations with their full output, the reference
 * page, the reference cases. `EBB_GOLDEN_UPDATE=1 test_exp_config_golden` rewrites what it would
 * compare; review the difference like code. */
#include <dirent.h>
#include <stdlib.h>

#include "exp_config_support.h"

#include "base/file.h"
#include "dev/vectors.h"

#define BROKEN EBB_SOURCE_DIR "/tests/golden/config/broken"

static int is_updating(void)
{
    return getenv("EBB_GOLDEN_UPDATE") != NULL;
}

/* Compare text with a file, or write it there. Returns 1 when equal. */
static int golden(const char *path, const struct ebb_str *text)
{
    struct ebb_error err = {0};
    struct ebb_file_view view;
    if (is_updating()) {
        CHECK_OK(ebb_file_write_atomic(path, text->data, text->length, &err), &err);
        return 1;
    }
    if (ebb_file_view_open(&view, path, 1 << 20, &err) != EBB_OK) {
        print_error("%s\n", err.message);
        return 0;
    }
    int is_equal = view.length == text->length && memcmp(view.data, text->data, text->length) == 0;
    if (!is_equal)
        print_error("%s differs; now:\n%s", path, ebb_str_c(text));
    ebb_file_view_close(&view);
    return is_equal;
}

/* What `ebb experiment validate NAME.yaml [--template NAME.template]` prints in that folder. */
static void validate(const char *name, struct ebb_str *out)
{
    struct ebb_arena arena;
    struct exp_config config;
    struct ebb_report report;
    struct ebb_error err = {0};
    struct ebb_file_view view;
    char path[600], file[300], template_name[300];
    snprintf(path, sizeof path, BROKEN "/%s.yaml", name);
    snprintf(file, sizeof file, "%s.yaml", name);
    snprintf(template_name, sizeof template_name, "%s.template", name);
    struct exp_config_options options = {
        .file_name = file, .template_name = template_name, .default_seed = -1};
    ebb_arena_init(&arena);
    CHECK_OK(ebb_file_view_open(&view, path, EXP_CONFIG_BYTES_MAX, &err), &err);
    snprintf(path, sizeof path, BROKEN "/%s.template", name);
    bool has_template = ebb_doc_load(&arena, path, &options.template_root, &err) == EBB_OK;
    enum ebb_status status =
        exp_config_parse(&arena, view.data, view.length, &options, &config, &report, &err);
    ebb_str_printf(out, "# ebb experiment validate %s%s%s\n", file,
                   has_template ? " --template " : "", has_template ? template_name : "");
    ebb_report_format(&report, file, out);
    CHECK(status == EBB_EINPUT || status == EBB_ELIMIT);
    ebb_file_view_close(&view);
    ebb_arena_fini(&arena);
}

TEST(broken__every_file_gives_exactly_its_output)
{
    struct dirent **entries = NULL;
    int count = scandir(BROKEN, &entries, NULL, alphasort), seen = 0, bad = 0;
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        char name[256], path[600];
        const char *dot = strrchr(entries[i]->d_name, '.');
        if (dot && strcmp(dot, ".yaml") == 0) {
            struct ebb_str out;
            ebb_str_init(&out);
            snprintf(name, sizeof name, "%.*s", (int)(dot - entries[i]->d_name),
                     entries[i]->d_name);
            validate(name, &out);
            snprintf(path, sizeof path, BROKEN "/%s.txt", name);
            bad += !golden(path, &out);
            seen++;
            ebb_str_fini(&out);
        }
        free(entries[i]);
    }
    free(entries);
    CHECK(seen >= 40);
    CHECK_EQ(bad, 0);
}

TEST(reference__page_is_what_the_table_says)
{
    struct ebb_str out;
    ebb_str_init(&out);
    exp_config_reference_markdown(&out);
    CHECK(golden(EBB_SOURCE_DIR "/docs/experiment-file.md", &out));
    ebb_str_fini(&out);
}

TEST(reference__json_is_json)
{
    struct ebb_str out;
    struct ebb_json_writer w;
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    ebb_str_init(&out);
    ebb_arena_init(&arena);
    ebb_jsonw_init(&w, &out, 0);
    exp_config_reference_json(&w);
    CHECK_OK(ebb_doc_parse_json(&arena, "schema", out.data, out.length, &root, &err), &err);
    CHECK(ebb_doc_get(root, "keys")->count > 90);
    CHECK_EQ(ebb_doc_get(root, "not_runnable")->count, exp_unbuilt_count);
    ebb_arena_fini(&arena);
    ebb_str_fini(&out);
}

/* The introduction's own example must be a valid file. */
TEST(reference__example_is_valid)
{
    struct ebb_str out;
    struct ebb_arena arena;
    struct exp_config config;
    struct ebb_report report;
    struct ebb_error err = {0};
    struct exp_config_options options = {.file_name = "example", .default_seed = -1};
    ebb_str_init(&out);
    ebb_arena_init(&arena);
    exp_config_reference_markdown(&out);
    const char *begin = strstr(ebb_str_c(&out), "```yaml\n") + strlen("```yaml\n");
    const char *end = strstr(begin, "```");
    CHECK_OK(
        exp_config_parse(&arena, begin, (size_t)(end - begin), &options, &config, &report, &err),
        &err);
    CHECK_EQ(report.count, 0);
    ebb_arena_fini(&arena);
    ebb_str_fini(&out);
}

/* Cases that fail; their reasons are printed. */
static size_t failures(struct ebb_arena *arena, const struct ebb_doc_node *root)
{
    size_t count = 0;
    for (size_t i = 0; i < root->count; i++) {
        struct dev_verdict verdict = dev_judge_config(arena, root->items[i]);
        if (verdict.reason)
            print_message("case %zu: %s\n", i, verdict.reason);
        count += verdict.reason != NULL;
    }
    return count;
}

TEST(vectors__every_reference_case_passes)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    ebb_arena_init(&arena);
    CHECK_OK(ebb_doc_load(&arena, EBB_SOURCE_DIR "/tests/golden/search/config_validation.json",
                          &root, &err),
             &err);
    CHECK_EQ(failures(&arena, root), 0);
    CHECK_EQ(root->count, 54);
    ebb_arena_fini(&arena);
}

/* The judge itself: each way of being wrong must be noticed. */
TEST(vectors__a_wrong_expectation_fails)
{
    static const char text[] =
        "- {name: n, yaml: '{}', expected: {accept: true}}\n"
        "- {name: n, yaml: '{}', expected: {accept: false, field: searcher.max_steps}}\n"
        "- {name: n, yaml: &y '{entrypoint: a:b, hyperparameters: {global_batch_size: 1}, "
        "searcher: "
        "{name: single, metric: m, max_steps: 1}}', expected: {accept: false, field: x}}\n"
        "- {name: n, yaml: *y, expected: {accept: true, normalized: {entrypoint: a:c}}}\n"
        "- {name: n, expected: {accept: true}}\n"
        "- {name: n, yaml: '{}'}\n"
        "- 3\n";
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    ebb_arena_init(&arena);
    CHECK_OK(ebb_doc_parse_yaml(&arena, "t", text, sizeof text - 1, &root, &err), &err);
    CHECK_EQ(failures(&arena, root), 7);
    ebb_arena_fini(&arena);
}

TEST_MAIN()
