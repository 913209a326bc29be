/* submit_body.c - the body of a submission as it must be: what is misspelt or of the wrong kind is
 * refused before anything of it is looked at, so that nothing is created that was not meant. */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "serve/rest.h"

struct key {
    const char *name;
    enum ebb_doc_kind kind;
    const char *allowed;
};

static const struct key body_keys[] = {
    {"experiment_config", EBB_DOC_STRING, "a text"},  {"file_name", EBB_DOC_STRING, "a text"},
    {"template", EBB_DOC_STRING, "a text"},           {"model_definition", EBB_DOC_LIST, "a list"},
    {"parent_id", EBB_DOC_INT, "a whole number"},     {"archived", EBB_DOC_BOOL, "true or false"},
    {"git_remote", EBB_DOC_STRING, "a text"},         {"git_commit", EBB_DOC_STRING, "a text"},
    {"git_committer", EBB_DOC_STRING, "a text"},      {"git_commit_date", EBB_DOC_STRING, "a text"},
    {"validate_only", EBB_DOC_BOOL, "true or false"}, {"activate", EBB_DOC_BOOL, "true or false"},
};

static const struct key file_keys[] = {
    {"path", EBB_DOC_STRING, "a text"},       {"type", EBB_DOC_STRING, "file, dir"},
    {"content", EBB_DOC_STRING, "base64"},    {"mode", EBB_DOC_INT, "a whole number"},
    {"mtime", EBB_DOC_INT, "a whole number"},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Every key known, every value of its kind or null. `where` begins the message. */
static enum ebb_status check_keys(struct serve_rest *r, const struct ebb_doc_node *map,
                                  const struct key *keys, size_t count, const char *where)
{
    const char *names[16];
    for (size_t i = 0; i < count; i++)
        names[i] = keys[i].name;
    for (size_t i = 0; map != NULL && i < map->count; i++) {
        const char *name = map->keys[i]->text;
        const struct key *key = NULL;
        for (size_t k = 0; k < count; k++)
            key = strcmp(keys[k].name, name) == 0 ? &keys[k] : key;
        const char *nearest = key == NULL ? ebb_nearest(name, names, count) : NULL;
        enum ebb_doc_kind kind = map->items[i]->kind;
        if (key == NULL)
            return serve_refuse(r, 400, "%s%.80s: unknown key%s%s", where, name,
                                nearest != NULL ? ", nearest: " : "",
                                nearest != NULL ? nearest : "");
        if (kind != key->kind && kind != EBB_DOC_NULL)
            return serve_refuse(r, 400, "%s%s: allowed: %s", where, name, key->allowed);
    }
    return EBB_OK;
}

static bool has(const struct ebb_doc_node *map, const char *name)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, name);
    return node != NULL && node->kind != EBB_DOC_NULL;
}

static bool is_type(const char *type, bool *is_directory)
{
    static const char *const files[] = {"file", "f", "0"}, *const directories[] = {"dir", "d", "5"};
    for (size_t i = 0; i < 3; i++) {
        *is_directory = strcmp(type, directories[i]) == 0;
        if (*is_directory || strcmp(type, files[i]) == 0)
            return true;
    }
    return false;
}

static enum ebb_status check_file(struct serve_rest *r, const struct ebb_doc_node *node)
{
    static const char where[] = "model_definition: ";
    bool is_directory;
    if (node->kind != EBB_DOC_MAP)
        return serve_refuse(r, 400, "%sa list of {path, type, content, mode, mtime}", where);
    EBB_TRY(check_keys(r, node, file_keys, COUNT(file_keys), where));
    const struct ebb_doc_node *path = ebb_doc_get(node, "path");
    const char *name = ebb_doc_string(node, "path", "");
    int64_t mode = ebb_doc_int(node, "mode", 0);
    if (!has(node, "path") || strlen(name) != path->length)
        return serve_refuse(r, 400, "%sthe path \"%.80s\" is not allowed", where, name);
    if (!is_type(ebb_doc_string(node, "type", "file"), &is_directory))
        return serve_refuse(r, 400, "%s%.80s: type: found '%.20s', allowed: file, dir", where, name,
                            ebb_doc_string(node, "type", ""));
    if (mode < 0 || mode > 07777)
        return serve_refuse(r, 400, "%s%.80s: mode: allowed: 0 to 4095", where, name);
    return EBB_OK;
}

enum ebb_status serve_submit_check_body(struct serve_rest *r)
{
    static const char *const git[] = {"git_remote", "git_commit", "git_committer",
                                      "git_commit_date"};
    const struct ebb_doc_node *list = ebb_doc_get(r->body, "model_definition");
    size_t git_count = 0, file_count = 0;
    EBB_TRY(check_keys(r, r->body, body_keys, COUNT(body_keys), ""));
    for (size_t i = 0; i < COUNT(git); i++)
        git_count += has(r->body, git[i]);
    file_count = list != NULL && list->kind == EBB_DOC_LIST ? list->count : 0;
    if (git_count != 0 && git_count != COUNT(git))
        return serve_refuse(r, 400,
                            "git_remote, git_commit, git_committer, git_commit_date: all of them "
                            "or none");
    if (file_count > 0 && has(r->body, "parent_id"))
        return serve_refuse(r, 400, "model_definition, parent_id: only one of them");
    for (size_t i = 0; i < file_count; i++)
        EBB_TRY(check_file(r, list->items[i]));
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
    if (sorted == NULL)
        return ebb_no_memory(r->err, count * sizeof *sorted);
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
