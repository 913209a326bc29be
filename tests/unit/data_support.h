/* data_support.h - what tests of data share: sections from text, folders, small IDX files. */
#ifndef EBB_TESTS_UNIT_DATA_SUPPORT_H
#define EBB_TESTS_UNIT_DATA_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#include "base/heap.h"
#include "data/data.h"

struct kit {
    struct ebb_arena arena;
    struct ebb_error err;
    char folder[64];
    const struct ebb_doc_node *section; /* a test's own */
};

static inline void kit_init(struct kit *kit)
{
    memset(kit, 0, sizeof *kit);
    ebb_arena_init(&kit->arena);
    snprintf(kit->folder, sizeof kit->folder, "/tmp/ebb-data-XXXXXX");
    CHECK(mkdtemp(kit->folder) != NULL);
}

static inline void kit_fini(struct kit *kit)
{
    char command[128];
    ebb_arena_fini(&kit->arena);
    snprintf(command, sizeof command, "rm -rf '%s'", kit->folder);
    CHECK_EQ(system(command), 0);
}

/* TEST_MAIN_EACH(kit_setup, kit_teardown): a test's kit is *cmocka_state. */
static inline int kit_setup(void **state)
{
    static struct kit kit;
    kit_init(&kit);
    *state = &kit;
    return 0;
}

static inline int kit_teardown(void **state)
{
    kit_fini(*state);
    return 0;
}

static inline const struct ebb_doc_node *kit_section(struct kit *kit, const char *yaml)
{
    const struct ebb_doc_node *root = NULL;
    CHECK_OK(ebb_doc_parse_yaml(&kit->arena, "test.yaml", yaml, strlen(yaml), &root, &kit->err),
             &kit->err);
    return root;
}

static inline struct data_set *kit_open(struct kit *kit, const char *yaml)
{
    struct data_set *set = NULL;
    struct data_env env = {.directory = kit->folder, .cache = kit->folder, .seed = 7};
    CHECK_OK(data_open(kit_section(kit, yaml), &env, &set, &kit->err), &kit->err);
    return set;
}

/* Whether a section has no mistake. */
static inline bool kit_check(struct kit *kit, const char *yaml, const struct data_env *env)
{
    struct ebb_reading reading;
    struct ebb_report report;
    const struct ebb_doc_node *section = kit_section(kit, yaml);
    ebb_reading_init(&reading, &kit->arena, NULL, &report);
    data_check(&reading, &(struct ebb_path){.key = "data"}, section, env);
    return ebb_reading_end(&reading, &kit->err) == EBB_OK;
}

/* The message of a section that must be refused. */
static inline const char *kit_refused(struct kit *kit, const char *yaml)
{
    struct data_set *set = NULL;
    struct data_env env = {.directory = kit->folder, .cache = kit->folder, .seed = 7};
    kit->err.message[0] = '\0';
    CHECK(data_open(kit_section(kit, yaml), &env, &set, &kit->err) != EBB_OK);
    return kit->err.message;
}

static inline void kit_write(const struct kit *kit, const char *name, const void *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", kit->folder, name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* `count` images of 5 x 4 bytes, pixel = 7 * image + place, label = image % 3. */
static inline void kit_write_idx(const struct kit *kit, uint8_t count)
{
    uint8_t images[16 + 255 * 20] = {0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 5, 0, 0, 0, 4};
    uint8_t labels[8 + 255] = {0, 0, 8, 1, 0, 0, 0, count};
    for (int i = 0; i < count; i++) {
        for (int p = 0; p < 20; p++)
            images[16 + 20 * i + p] = (uint8_t)(7 * i + p);
        labels[8 + i] = (uint8_t)(i % 3);
    }
    kit_write(kit, "images", images, 16u + 20u * count);
    kit_write(kit, "labels", labels, 8u + count);
}

#define IDX_SECTION                                                                                \
    "{name: idx, train_images: images, train_labels: labels, val_images: images, val_labels: "     \
    "labels, normalize: none"

#endif
