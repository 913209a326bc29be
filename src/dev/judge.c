/* judge.c - the frame: counting, lines about cases, the dump, folders. */
#include "dev/judge.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/file.h"
#include "base/names.h"

void dev_judge_init(struct dev_judge *j, const struct dev_request *request, const char *word)
{
    *j = (struct dev_judge){.request = request, .word = word};
}

enum ebb_status dev_judge_fini(struct dev_judge *j, enum ebb_status status,
                               struct dev_counts *counts, struct ebb_error *err)
{
    if (j->arena.short_of) /* whatever it was taken for */
        status = ebb_arena_status(&j->arena, err);
    EBB_THEN(status, ebb_str_status(&j->dump, err));
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

static bool is_json(const void *context, DIR *folder, const struct dirent *entry)
{
    (void)context, (void)folder;
    return ebb_name_ends(entry->d_name, ".json");
}

enum ebb_status dev_list(struct ebb_arena *arena, const char *folder, char ***names, size_t *count,
                         struct ebb_error *err)
{
    struct ebb_names found = {0};
    DIR *dir = opendir(folder);
    *count = 0;
    if (!dir)
        return ebb_fail(err, EBB_EIO, "%s: %s", folder, strerror(errno));
    enum ebb_status status = ebb_names_read(&found, dir, is_json, NULL, err);
    *names = ebb_arena_calloc(arena, found.count + 1, sizeof **names);
    for (; status == EBB_OK && *names && *count < found.count; ++*count)
        (*names)[*count] = ebb_arena_printf(arena, "%s", found.items[*count]);
    ebb_names_fini(&found);
    EBB_THEN(status, ebb_arena_status(arena, err));
    return status;
}

const char *dev_path(struct dev_judge *j, const char *name)
{
    const char *path = ebb_arena_printf(&j->arena, "%s/%s", j->request->dir, name);
    return path ? path : "";
}
