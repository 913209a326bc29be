/* judge.c - the frame: counting, lines about cases, the dump, folders. */
#include "dev/judge.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"

void dev_judge_init(struct dev_judge *j, const struct dev_request *request, const char *word)
{
    *j = (struct dev_judge){.request = request, .word = word};
    ebb_arena_init(&j->arena);
    ebb_str_init(&j->dump);
}

enum ebb_status dev_judge_fini(struct dev_judge *j, enum ebb_status status,
                               struct dev_counts *counts, struct ebb_error *err)
{
    if (status == EBB_OK)
        status = ebb_str_status(&j->dump, err);
    if (status == EBB_OK && j->request->dump && j->dump.length > 0)
        status = ebb_file_write_atomic(j->request->dump, ebb_str_c(&j->dump), j->dump.length, err);
    *counts = j->counts;
    ebb_str_fini(&j->dump);
    ebb_arena_fini(&j->arena);
    return status;
}

void dev_begin(struct dev_judge *j, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(j->name, sizeof j->name, fmt, args);
    va_end(args);
    j->is_failed = j->is_skipped = false;
}

static void say_failed(struct dev_judge *j, const char *fmt, va_list args)
{
    if (j->is_failed)
        return;
    j->is_failed = true;
    fprintf(j->request->out, "%s%s: ", j->word, j->name);
    vfprintf(j->request->out, fmt, args);
    fputc('\n', j->request->out);
}

void dev_fail(struct dev_judge *j, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say_failed(j, fmt, args);
    va_end(args);
}

void dev_refuse(struct dev_judge *j, const char *fmt, ...)
{
    va_list args;
    j->counts.is_broken = true;
    va_start(args, fmt);
    say_failed(j, fmt, args);
    va_end(args);
}

void dev_count(struct dev_judge *j)
{
    j->counts.failed += j->is_failed;
    j->counts.skipped += j->is_skipped;
    j->counts.passed += !j->is_failed && !j->is_skipped;
}

void dev_end(struct dev_judge *j)
{
    dev_count(j);
    if (!j->is_failed && !j->is_skipped && j->request->is_verbose)
        fprintf(j->request->out, "ok   %s\n", j->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum ebb_status dev_list(struct ebb_arena *arena, const char *folder, char ***names, size_t *count,
                         struct ebb_error *err)
{
    char **list = NULL;
    size_t capacity = 0;
    enum ebb_status status = EBB_OK;
    DIR *dir = opendir(folder);
    *count = 0;
    if (!dir)
        return ebb_fail(err, EBB_EIO, "%s: %s", folder, strerror(errno));
    for (const struct dirent *e; status == EBB_OK && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        if (n <= 5 || strcmp(e->d_name + n - 5, ".json") != 0)
            continue;
        status = ebb_grow(&list, &capacity, *count + 1, sizeof *list, err);
        char *name = ebb_arena_strndup(arena, e->d_name, n);
        if (status == EBB_OK && name)
            list[(*count)++] = name;
        else if (status == EBB_OK)
            status = ebb_no_memory(err, n);
    }
    closedir(dir);
    *names = ebb_arena_calloc(arena, *count + 1, sizeof **names);
    if (status == EBB_OK && !*names)
        status = ebb_no_memory(err, *count * sizeof **names);
    if (status == EBB_OK && *count > 0) {
        qsort(list, *count, sizeof *list, by_name);
        memcpy(*names, list, *count * sizeof *list);
    }
    ebb_free(list);
    return status;
}

char *dev_path(struct dev_judge *j, const char *name)
{
    return ebb_arena_printf(&j->arena, "%s/%s", j->request->dir, name);
}
