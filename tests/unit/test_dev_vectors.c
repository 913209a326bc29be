/* The case runner itself: every reference case passes, every altered value is noticed, nothing is
 * skipped. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/rng.h"
#include "dev/vectors.h"

#define GOLDEN EBB_SOURCE_DIR "/tests/golden/search"

/* Lines about failed cases go to `out`; NULL: nowhere. */
static struct dev_counts run_folder(const char *folder, const char *dump, FILE *out)
{
    struct dev_request request = {.dir = folder, .dump = dump, .out = out};
    struct dev_counts counts = {0};
    struct ebb_error err;
    if (!out)
        request.out = fopen("/dev/null", "w");
    CHECK(request.out != NULL);
    CHECK_OK(dev_vectors(&request, &counts, &err), &err);
    if (!out)
        fclose(request.out);
    return counts;
}

TEST(folder__every_case_passes)
{
    uint64_t live = ebb_heap_live();
    struct dev_counts counts = run_folder(GOLDEN, NULL, stderr);
    CHECK_EQ(counts.failed, 0);
    CHECK_EQ(counts.passed, 233);
    CHECK_EQ(counts.skipped, 0);
    CHECK_EQ(ebb_heap_live(), live);
}

/* ---- altering one value of an `expected` ---- */

struct alter {
    struct ebb_json_writer w;
    size_t at;     /* the leaf to change, counted from 0 */
    size_t leaves; /* seen so far */
};

static void write_changed(struct alter *a, const struct ebb_doc_node *node)
{
    switch (node->kind) {
    case EBB_DOC_BOOL:
        ebb_jsonw_bool(&a->w, !node->boolean);
        break;
    case EBB_DOC_INT:
        ebb_jsonw_int(&a->w, node->integer + 1);
        break;
    case EBB_DOC_DOUBLE:
        ebb_jsonw_double(&a->w, node->number * (1 + 1e-9));
        break;
    case EBB_DOC_STRING:
        ebb_jsonw_string(&a->w, "altered");
        break;
    default:
        ebb_jsonw_string(&a->w, "no longer null");
        break;
    }
}

static void write_altered(struct alter *a, const struct ebb_doc_node *node)
{
    if (node->kind == EBB_DOC_MAP) {
        ebb_jsonw_object(&a->w);
        for (size_t i = 0; i < node->count; i++) {
            ebb_jsonw_key(&a->w, node->keys[i]->text);
            write_altered(a, node->items[i]);
        }
        ebb_jsonw_object_end(&a->w);
    } else if (node->kind == EBB_DOC_LIST) {
        ebb_jsonw_array(&a->w);
        for (size_t i = 0; i < node->count; i++)
            write_altered(a, node->items[i]);
        ebb_jsonw_array_end(&a->w);
    } else if (a->leaves++ == a->at) {
        write_changed(a, node);
    } else {
        ebb_doc_write_json(node, &a->w);
    }
}

static size_t count_leaves(const struct ebb_doc_node *node)
{
    size_t n = node->kind != EBB_DOC_LIST && node->kind != EBB_DOC_MAP;
    for (size_t i = 0; (node->kind == EBB_DOC_LIST || node->kind == EBB_DOC_MAP) && i < node->count;
         i++)
        n += count_leaves(node->items[i]);
    return n;
}

/* A file with only case i of `root`, leaf `at` of its `expected` changed. */
static void write_case(const char *path, const struct ebb_doc_node *root, size_t i, size_t at)
{
    struct ebb_str text;
    struct ebb_error err;
    struct alter a = {.at = at};
    const struct ebb_doc_node *input = root->items[i];
    ebb_str_init(&text);
    ebb_jsonw_init(&a.w, &text, 0);
    ebb_jsonw_array(&a.w);
    ebb_jsonw_object(&a.w);
    for (size_t k = 0; k < input->count; k++) {
        ebb_jsonw_key(&a.w, input->keys[k]->text);
        if (strcmp(input->keys[k]->text, "expected") == 0)
            write_altered(&a, input->items[k]);
        else
            ebb_doc_write_json(input->items[k], &a.w);
    }
    ebb_jsonw_object_end(&a.w);
    ebb_jsonw_array_end(&a.w);
    CHECK_OK(ebb_file_write_atomic(path, ebb_str_c(&text), text.length, &err), &err);
    ebb_str_fini(&text);
}

static const char *const files[] = {"rng_mt19937.json",       "sampling.json",
                                    "grid_values.json",       "grid_product.json",
                                    "pbt_explore.json",       "searcher_single.json",
                                    "searcher_random.json",   "searcher_grid.json",
                                    "searcher_adaptive.json", "searcher_adaptive_simple.json",
                                    "searcher_pbt.json",      "beyond_adaptive_asha.json",
                                    "trial_sequencer.json",   "scheduler.json",
                                    "checkpoint_gc.json"};

TEST(altered_value__fails_exactly_that_case)
{
    char folder[] = "/tmp/ebb_vectors_XXXXXX";
    uint64_t rng = 4;
    CHECK(mkdtemp(folder) != NULL);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct ebb_arena arena;
        struct ebb_error err;
        const struct ebb_doc_node *root;
        char path[512];
        ebb_arena_init(&arena);
        snprintf(path, sizeof path, "%s/%s", GOLDEN, files[f]);
        CHECK_OK(ebb_doc_load(&arena, path, &root, &err), &err);
        snprintf(path, sizeof path, "%s/%s", folder, files[f]);
        for (int n = 0; n < 12; n++) {
            size_t i = ebb_splitmix64(&rng) % root->count;
            size_t leaves = count_leaves(ebb_doc_get(root->items[i], "expected"));
            if (leaves == 0)
                continue;
            size_t at = ebb_splitmix64(&rng) % leaves;
            write_case(path, root, i, at);
            struct dev_counts counts = run_folder(folder, NULL, NULL);
            if (counts.failed != 1 || counts.passed != 0)
                fail_msg("%s: case %zu, leaf %zu of %zu: altered, but not noticed", files[f], i, at,
                         leaves);
        }
        unlink(path);
        ebb_arena_fini(&arena);
    }
    rmdir(folder);
}

/* ---- files that are not cases ---- */

static struct dev_counts run_text(const char *name, const char *text)
{
    char folder[] = "/tmp/ebb_vectors_XXXXXX", path[512];
    struct ebb_error err;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(ebb_file_write_atomic(path, text, strlen(text), &err), &err);
    struct dev_counts counts = run_folder(folder, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return counts;
}

TEST(unknown__files_and_cases_are_failed_never_skipped)
{
    static const struct {
        const char *name, *text;
        size_t failed;
    } rows[] = {
        {"novel.json", "[]", 1},
        {"scheduler.json", "{}", 1},
        {"scheduler.json", "[", 1},
        {"scheduler.json", "[]", 0},
        {"scheduler.json", "[{}, 3, null]", 3},
        {"scheduler.json", "[{\"scheduler\": \"random\", \"fit\": \"best\"}]", 1},
        {"searcher_random.json", "[{\"seed\": 1, \"metric_fn\": \"sine\"}]", 1},
        {"searcher_random.json",
         "[{\"seed\": 1, \"metric_fn\": \"hash\", \"searcher\": {\"name\": \"random\", \"metric\": "
         "\"m\", \"max_steps\": 1, \"max_trials\": 1}, \"hyperparameters\": {}}]",
         1}, /* no expected */
        {"trial_sequencer.json", "[{\"max_steps\": 1}]", 1},
        {"checkpoint_gc.json", "[{\"checkpoints\": 3}]", 1},
        {"rng_mt19937.json", "[{\"seed\": -1, \"n\": 3, \"expected\": {}}]", 1},
        {"grid_values.json", "[{\"param\": {\"type\": \"int\"}, \"expected\": []}]", 1},
        {"readme.txt", "hello", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dev_counts counts = run_text(rows[i].name, rows[i].text);
        if (counts.failed != rows[i].failed || counts.passed != 0 || counts.skipped != 0)
            fail_msg("%s: %zu failed, %zu passed", rows[i].text, counts.failed, counts.passed);
    }
}

TEST(folder__that_is_not_there_is_an_error)
{
    const struct dev_request request = {.dir = "/nonexistent/ebb", .out = stderr};
    struct dev_counts counts;
    struct ebb_error err;
    CHECK_EQ(dev_vectors(&request, &counts, &err), EBB_EIO);
}

TEST(dump__has_one_line_for_each_case_in_the_shape_of_expected)
{
    const struct dev_request request = {.dir = GOLDEN, .dump = "kept in memory", .out = stderr};
    struct dev_judge j;
    struct ebb_error err;
    size_t lines = 0;
    dev_judge_init(&j, &request, "");
    dev_vectors_file(&j, GOLDEN "/checkpoint_gc.json");
    for (const char *at = ebb_str_c(&j.dump); *at != '\0'; lines++) {
        size_t length = strcspn(at, "\n");
        const struct ebb_doc_node *row;
        CHECK_OK(ebb_doc_parse_json(&j.arena, "dump", at, length, &row, &err), &err);
        CHECK_EQ(ebb_doc_int(row, "index", -1), lines);
        CHECK_STR(ebb_doc_string(row, "file", ""), "checkpoint_gc.json");
        CHECK(ebb_doc_get(ebb_doc_get(row, "computed"), "delete") != NULL);
        at += length + 1;
    }
    CHECK_EQ(lines, j.counts.passed);
    ebb_str_clear(&j.dump);
    CHECK_OK(dev_judge_fini(&j, EBB_OK, &(struct dev_counts){0}, &err), &err);
}

TEST_MAIN()
