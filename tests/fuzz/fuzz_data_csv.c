/* fuzz_data_csv.c - a table of any bytes: refused with a message, or every sample can be read;
 * nothing stays allocated. The first byte chooses separator and kind of target. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/data.h"

static void open_table(const char *path, unsigned how)
{
    static const char *const separators[] = {"comma", "semicolon", "tab"};
    static const char *const kinds[] = {"auto", "classes", "numbers"};
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct ebb_doc_node *section;
    struct data_set *set = NULL;
    char yaml[256];
    snprintf(
        yaml, sizeof yaml,
        "{name: csv, train_files: %s, target: y, separator: %s, target_kind: %s, normalize: %s}",
        path, separators[how % 3], kinds[how / 3 % 3], how & 128 ? "unit" : "standard");
    ebb_arena_init(&arena);
    require(ebb_doc_parse_yaml(&arena, "fuzz", yaml, strlen(yaml), &section, &err) == EBB_OK);
    if (data_open(section, &(struct data_env){0}, &set, &err) == EBB_OK) {
        const struct data_info *info = data_describe(set);
        void *fields[2] = {ebb_alloc(info->fields[0].bytes), ebb_alloc(info->fields[1].bytes)};
        for (uint64_t i = 0; i < info->count[DATA_TRAIN]; i++)
            require(data_read(set, DATA_TRAIN, i, 0, 0, fields, &err) == EBB_OK);
        ebb_free(fields[0]);
        ebb_free(fields[1]);
    } else {
        require(err.message[0] != '\0');
    }
    data_close(set);
    ebb_arena_fini(&arena);
}

static void run(const char *bytes, size_t size)
{
    char path[64];
    if (size == 0)
        return;
    int fd = memfd_create("csv", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, bytes + 1, size - 1) == (ssize_t)(size - 1));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    open_table(path, (unsigned char)bytes[0]);
    close(fd);
}

FUZZ(run)
