/* names.c - the names in a folder, sorted. */
#include "base/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

enum ebb_status ebb_names_add(struct ebb_names *names, const char *name, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&names->items, &names->capacity, names->count + 1, sizeof *names->items, err));
    EBB_TRY(ebb_copy_text(&names->items[names->count], name, err));
    names->count++;
    return EBB_OK;
}

void ebb_names_fini(struct ebb_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        ebb_free(names->items[i]);
    ebb_free(names->items);
    *names = (struct ebb_names){0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum ebb_status ebb_names_read(struct ebb_names *names, DIR *folder, ebb_names_want want,
                               const void *context, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    size_t first = names->count;
    for (struct dirent *e; status == EBB_OK && (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            (!want || want(context, folder, e)))
            status = ebb_names_add(names, e->d_name, err);
    }
    closedir(folder);
    if (names->count > first)
        qsort(names->items + first, names->count - first, sizeof *names->items, by_name);
    return status;
}

bool ebb_name_ends(const char *name, const char *suffix)
{
    size_t length = strlen(name), n = strlen(suffix);
    return length > n && strcasecmp(name + length - n, suffix) == 0;
}
