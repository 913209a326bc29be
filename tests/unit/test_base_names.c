#include "test_folder.h"
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/names.h"

static const char *const files[] = {"b.json", "a.JSON", ".hidden", "c", ".json"};
enum { FILES = sizeof files / sizeof *files };

static int make(void **state)
{
    char path[96];
    if (folder_open(state) != 0)
        return -1;
    for (size_t i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        FILE *f = fopen(path, "w");
        if (!f)
            return -1;
        fclose(f);
    }
    return 0;
}

static bool is_json(const void *context, DIR *dir, const struct dirent *entry)
{
    (void)dir;
    return ebb_name_ends(entry->d_name, context);
}

TEST(names__are_sorted_without_the_folder_itself)
{
    struct ebb_names names = {0};
    struct ebb_error err;
    CHECK_OK(ebb_names_read(&names, opendir(folder), NULL, NULL, &err), &err);
    CHECK_EQ(names.count, FILES);
    CHECK_STR(names.items[0], ".hidden");
    CHECK_STR(names.items[1], ".json");
    CHECK_STR(names.items[4], "c");
    ebb_names_fini(&names);
    CHECK(names.items == NULL);
}

TEST(names__go_behind_those_that_are_there)
{
    struct ebb_names names = {0};
    struct ebb_error err;
    CHECK_OK(ebb_names_add(&names, "z", &err), &err);
    CHECK_OK(ebb_names_read(&names, opendir(folder), is_json, ".json", &err), &err);
    CHECK_EQ(names.count, 3); /* ".json" is no name with an ending */
    CHECK_STR(names.items[0], "z");
    CHECK_STR(names.items[1], "a.JSON");
    CHECK_STR(names.items[2], "b.json");
    ebb_names_fini(&names);
}

static enum ebb_status read_all(void *context)
{
    struct ebb_names names = {0};
    enum ebb_status status = ebb_names_read(&names, opendir(context), NULL, NULL, NULL);
    ebb_names_fini(&names);
    return status;
}

TEST(names__leak_nothing_when_memory_is_out)
{
    torture(read_all, folder, 100);
}

TEST_MAIN_ONCE(make, folder_close)
