/* submit_body.c - the body of a submission as it must be: what is misspelt or of the wrong kind is
 * refused before anything of it is looked at, so that nothing is created that was not meant. */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/keys.h"
#include "serve/rest.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is_type(const char *type)
{
    return ebb_words_find("file f 0 dir d 5", type, strlen(type), NULL);
}

/* Values are only checked here: their readers take them from the body. */
#define TEXT .kind = EBB_KEY_TEXT, .at = EBB_KEY_NOWHERE
#define YES_NO .kind = EBB_KEY_BOOL, .at = EBB_KEY_NOWHERE
#define NUMBER .kind = EBB_KEY_INT, .at = EBB_KEY_NOWHERE
static const struct ebb_key body_rows[] = {
    {.path = "experiment_config", TEXT},
    {.path = "file_name", TEXT},
    {.path = "template", TEXT},
    {.path = "model_definition",
     .kind = EBB_KEY_NODES,
     .flags = EBB_KEY_EMPTY,
     .at = EBB_KEY_NOWHERE,
     .allowed = "a list"},
    {.path = "parent_id", NUMBER},
    {.path = "archived", YES_NO},
    {.path = "git_remote", TEXT},
    {.path = "git_commit", TEXT},
    {.path = "git_committer", TEXT},
    {.path = "git_commit_date", TEXT},
    {.path = "validate_only", YES_NO},
    {.path = "activate", YES_NO},
};
static const struct ebb_key file_rows[] = {
    {.path = "path", .flags = EBB_KEY_REQUIRED, TEXT},
    {.path = "type", .words = "file dir", .check = is_type, TEXT},
    {.path = "content", TEXT},
    {.path = "mode", .bounds = ">= 0, <= 4095", NUMBER},
    {.path = "mtime", NUMBER},
};
static const struct ebb_keys body_keys = EBB_KEYS(body_rows), file_keys = EBB_KEYS(file_rows);

/* Every key known, every value of its kind or null. */
static enum ebb_status check_keys(struct serve_rest *r, const struct ebb_keys *keys,
                                  const struct ebb_path *path, const struct ebb_doc_node *map)
{
    struct ebb_alone alone;
    enum ebb_status status = EBB_OK;
    ebb_keys_read(ebb_alone_init(&alone), &(struct ebb_section){.table = keys}, path, map, map,
                  NULL);
    const struct ebb_finding *first = ebb_report_first(&alone.report);
    if (first != NULL)
        status = serve_refuse(r, 400, "%s: %s", first->path, first->message);
    else if (alone.reading.failed)
        status = ebb_no_memory(r->err, 0);
    ebb_alone_end(&alone, NULL);
    return status;
}

enum ebb_status serve_submit_check_body(struct serve_rest *r)
{
    static const char *const git[] = {"git_remote", "git_commit", "git_committer",
                                      "git_commit_date"};
    const struct ebb_doc_node *list = ebb_doc_get(r->body, "model_definition");
    size_t git_count = 0, file_count = 0;
    EBB_TRY(check_keys(r, &body_keys, NULL, r->body));
    for (size_t i = 0; i < COUNT(git); i++)
        git_count += ebb_doc_given(r->body, git[i]) != NULL;
    file_count = list != NULL && list->kind == EBB_DOC_LIST ? list->count : 0;
    if (git_count != 0 && git_count != COUNT(git))
        return serve_refuse(r, 400,
                            "git_remote, git_commit, git_committer, git_commit_date: all of them "
                            "or none");
    if (file_count > 0 && ebb_doc_given(r->body, "parent_id"))
        return serve_refuse(r, 400, "model_definition, parent_id: only one of them");
    for (size_t i = 0; i < file_count; i++) {
        struct ebb_path top = {.key = "model_definition"};
        struct ebb_path at = ebb_path_item(&top, list, i);
        EBB_TRY(check_keys(r, &file_keys, &at, list->items[i]));
    }
    return EBB_OK;
}

/* ---- paths against each other ---- */

static int by_path(const void *a, const void *b)
{
    return strcmp((*(const struct exp_store_file *const *)a)->path,
                  (*(const struct exp_store_file *const *)b)->path);
}

static const struct exp_store_file *find(const struct exp_store_file **sorted, size_t count,
                                         const char *path)
{
    struct exp_store_file wanted = {.path = path};
    const struct exp_store_file *key = &wanted;
    const struct exp_store_file **found =
        count > 0 ? bsearch(&key, sorted, count, sizeof *sorted, by_path) : NULL;
    return found != NULL ? *found : NULL;
}

enum ebb_status serve_submit_check_paths(struct serve_rest *r, const struct exp_store_file *files,
                                         size_t count)
{
    const struct exp_store_file **sorted = ebb_arena_calloc(r->arena, count + 1, sizeof *sorted);
    EBB_TRY(ebb_arena_status(r->arena, r->err));
    for (size_t i = 0; i < count; i++)
        sorted[i] = &files[i];
    qsort(sorted, count, sizeof *sorted, by_path);
    for (size_t i = 0; i < count; i++) {
        const char *path = sorted[i]->path;
        if (i > 0 && strcmp(sorted[i - 1]->path, path) == 0)
            return serve_refuse(r, 400, "model_definition: %.200s: it is there twice", path);
        for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/')) {
            char *parent = ebb_arena_strndup(r->arena, path, (size_t)(at - path));
            if (parent == NULL)
                return ebb_no_memory(r->err, strlen(path));
            const struct exp_store_file *above = find(sorted, count, parent);
            if (above != NULL && !above->is_directory)
                return serve_refuse(r, 400, "model_definition: %.200s: %.200s is a file", path,
                                    parent);
        }
    }
    return EBB_OK;
}
