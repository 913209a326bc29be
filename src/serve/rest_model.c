/* rest_model.c - model definitions: as an archive, as a list, file by file. */
#include <stdio.h>
#include <string.h>

#include "serve/archive.h"
#include "serve/rest.h"

static enum ebb_status read_files(struct serve_rest *r, struct exp_store_file **files,
                                  size_t *count)
{
    struct exp_db_rows rows;
    int64_t total = 0;
    bool has_row = true;
    EBB_TRY(exp_db_number(r->m->db, "SELECT COUNT(*) FROM model_files WHERE experiment_id = $1",
                          EXP_DB_ARGS(exp_db_i(r->id)), 0, &total, r->err));
    struct exp_store_file *list = ebb_arena_calloc(r->arena, (size_t)total + 1, sizeof *list);
    if (list == NULL)
        return ebb_no_memory(r->err, (size_t)total * sizeof *list);
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT path, type, mode, mtime, content FROM model_files"
                         " WHERE experiment_id = $1 ORDER BY path",
                         EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    enum ebb_status status = EBB_OK;
    for (*count = 0; status == EBB_OK && *count < (size_t)total;) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        const char *path = exp_db_text(&rows, 0), *type = exp_db_text(&rows, 1);
        struct exp_db_value content = exp_db_column(&rows, 4);
        char *data = ebb_arena_alloc(r->arena, content.length + 1);
        char *copy = ebb_arena_strndup(r->arena, path, strlen(path));
        if (data == NULL || copy == NULL) {
            status = ebb_no_memory(r->err, content.length);
            break;
        }
        if (content.length > 0)
            memcpy(data, content.data, content.length);
        list[(*count)++] = (struct exp_store_file){.path = copy,
                                                   .is_directory = strcmp(type, "dir") == 0,
                                                   .mode = (uint32_t)exp_db_int(&rows, 2),
                                                   .mtime = exp_db_int(&rows, 3),
                                                   .data = data,
                                                   .length = content.length};
    }
    exp_db_done(&rows);
    *files = list;
    return status;
}

static enum ebb_status is_there(struct serve_rest *r, bool *found)
{
    int64_t count = 0;
    EBB_TRY(exp_db_number(r->m->db, "SELECT COUNT(*) FROM experiments WHERE id = $1",
                          EXP_DB_ARGS(exp_db_i(r->id)), 0, &count, r->err));
    *found = count > 0;
    return *found ? EBB_OK : serve_rest_refuse(r, 404, "no experiment %lld", (long long)r->id);
}

/* Characters outside this set go; at most 50 stay. */
static void clean_name(const char *text, char *out, size_t size)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ -()[].{}";
    size_t n = 0;
    for (; *text != '\0' && n + 1 < size && n < 50; text++)
        if (strchr(allowed, *text) != NULL)
            out[n++] = *text;
    out[n] = '\0';
}

enum ebb_status serve_rest_model_def(struct serve_rest *r)
{
    struct exp_db_rows rows;
    struct exp_store_file *files = NULL;
    struct ebb_error why;
    size_t count = 0;
    bool found, has_row = false;
    char name[64] = "";
    EBB_TRY(is_there(r, &found));
    if (!found)
        return EBB_OK;
    EBB_TRY(exp_db_query(r->m->db, "SELECT description FROM experiments WHERE id = $1",
                         EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && has_row)
        clean_name(exp_db_text(&rows, 0), name, sizeof name);
    exp_db_done(&rows);
    EBB_TRY(status);
    EBB_TRY(read_files(r, &files, &count));
    ebb_str_clear(&r->response->body);
    status = serve_archive_write(files, count, &r->response->body, &why);
    if (status == EBB_EINPUT)
        return serve_rest_refuse(r, 409, "%s", why.message);
    if (status != EBB_OK) {
        *r->err = why;
        return status;
    }
    r->response->content_type = "application/gzip";
    snprintf(r->response->disposition, sizeof r->response->disposition,
             "attachment; filename=\"exp%lld_%s_model_def.tar.gz\"", (long long)r->id, name);
    return EBB_OK;
}

enum ebb_status serve_rest_file_tree(struct serve_rest *r)
{
    struct exp_db_rows rows;
    bool has_row = true, found;
    EBB_TRY(is_there(r, &found));
    if (!found)
        return EBB_OK;
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT path, type, size, mode FROM model_files WHERE experiment_id = $1"
                         " ORDER BY path",
                         EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "files");
    ebb_jsonw_array(&r->w);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key(&r->w, "path");
        ebb_jsonw_string(&r->w, exp_db_text(&rows, 0));
        ebb_jsonw_key(&r->w, "type");
        ebb_jsonw_string(&r->w, exp_db_text(&rows, 1));
        ebb_jsonw_key(&r->w, "size");
        ebb_jsonw_int(&r->w, exp_db_int(&rows, 2));
        ebb_jsonw_key(&r->w, "mode");
        ebb_jsonw_int(&r->w, exp_db_int(&rows, 3));
        ebb_jsonw_object_end(&r->w);
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    exp_db_done(&rows);
    return status;
}

enum ebb_status serve_rest_file(struct serve_rest *r)
{
    struct exp_db_rows rows;
    bool has_row = false;
    const char *path = serve_rest_text(r, "path");
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT content FROM model_files WHERE experiment_id = $1 AND path = $2"
                         " AND type <> 'dir'",
                         EXP_DB_ARGS(exp_db_i(r->id), exp_db_t(path != NULL ? path : "")), &rows,
                         r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && has_row) {
        struct exp_db_value content = exp_db_column(&rows, 0);
        ebb_str_clear(&r->response->body);
        ebb_str_addn(&r->response->body, content.data != NULL ? content.data : "", content.length);
        r->response->content_type = "application/octet-stream";
    }
    exp_db_done(&rows);
    if (status == EBB_OK && !has_row)
        return serve_rest_refuse(r, 404, "experiment %lld has no file %s", (long long)r->id,
                                 path != NULL ? path : "");
    return status;
}
