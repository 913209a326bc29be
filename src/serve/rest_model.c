/* rest_model.c - model definitions: as an archive, as a list, file by file. */
#include <stdio.h>
#include <string.h>

#include "serve/archive.h"
#include "serve/rest.h"

static enum ebb_status read_files(struct serve_rest *r, struct exp_store_file **files,
                                  size_t *count)
{
    struct exp_db_file row, *rows;
    EBB_TRY(
        exp_db_all(exp_db_files(r->db, EXP_DB_ID(r->id), &row, r->err), r->arena, &rows, count));
    *files = ebb_arena_calloc(r->arena, *count + 1, sizeof **files);
    EBB_TRY(ebb_arena_status(r->arena, r->err));
    for (size_t i = 0; i < *count; i++)
        (*files)[i] = (struct exp_store_file){.path = rows[i].path,
                                              .is_directory = strcmp(rows[i].type, "dir") == 0,
                                              .mode = (uint32_t)rows[i].mode,
                                              .mtime = rows[i].mtime,
                                              .data = rows[i].content.data,
                                              .length = rows[i].content.length};
    return EBB_OK;
}

void serve_clean_name(struct ebb_str *out, const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ -()[].{}";
    for (size_t n = 0; *text != '\0' && n < 50; text++)
        if (strchr(allowed, *text) != NULL) {
            ebb_str_addc(out, *text);
            n++;
        }
}

static enum ebb_status archive(struct serve_rest *r)
{
    struct exp_db_experiment_told told;
    struct exp_store_file *files = NULL;
    struct ebb_error why;
    size_t count = 0;
    struct ebb_str name = {0};
    EBB_TRY(serve_find(r, exp_db_experiment_told(r->db, EXP_DB_ID(r->id), &told, r->err),
                       "no experiment %lld", (long long)r->id));
    EBB_TRY(read_files(r, &files, &count));
    ebb_str_clear(&r->response->body);
    enum ebb_status status = serve_archive_write(files, count, &r->response->body, &why);
    if (status != EBB_OK && status != EBB_EINPUT) {
        *r->err = why;
        return status;
    }
    EBB_TRY(serve_blame(r, status, &why, 409, ""));
    r->response->content_type = "application/gzip";
    serve_clean_name(&name, told.description);
    snprintf(r->response->disposition, sizeof r->response->disposition,
             "attachment; filename=\"exp%lld_%s_model_def.tar.gz\"", (long long)r->id,
             ebb_str_c(&name));
    status = ebb_str_status(&name, r->err);
    ebb_str_fini(&name);
    return status;
}

#define AT(member) offsetof(struct exp_db_file_info, member)
static const struct serve_column columns[] = {
    {"path", SERVE_TEXT, AT(path), 0},
    {"type", SERVE_TEXT, AT(type), 0},
    {"size", SERVE_INT, AT(size), 0},
    {"mode", SERVE_INT, AT(mode), 0},
};

static enum ebb_status tree(struct serve_rest *r)
{
    struct exp_db_file_info row;
    EBB_TRY(serve_need_experiment(r, r->id));
    return serve_write_list(r, "files", SERVE_COLUMNS(columns),
                            exp_db_files_info(r->db, EXP_DB_ID(r->id), &row, r->err));
}

static enum ebb_status file(struct serve_rest *r)
{
    const char *path = serve_query_text(r, "path");
    struct exp_db_path key = {.experiment_id = r->id, .path = path != NULL ? path : ""};
    struct exp_db_blob row;
    EBB_TRY(serve_find(r, exp_db_file_read(r->db, &key, &row, r->err),
                       "experiment %lld has no file %s", (long long)r->id, key.path));
    ebb_str_clear(&r->response->body);
    ebb_str_addn(&r->response->body, row.bytes.data != NULL ? row.bytes.data : "",
                 row.bytes.length);
    r->response->content_type = "application/octet-stream";
    snprintf(r->response->disposition, sizeof r->response->disposition, "attachment");
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/experiments/#/model_def", archive, "model definition as tar.gz", SERVE_APART},
    {"GET", "/experiments/#/file_tree", tree, "files of the model definition", SERVE_APART},
    {"GET", "/experiments/#/file", file, "one file of the model definition", SERVE_APART},
};
const struct serve_routes serve_routes_model = SERVE_ROUTES(routes);
