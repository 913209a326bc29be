/* rest_users.c - names that experiments belong to.
 *
 * A name is no proof: whoever reaches the socket has the account of the master (the state directory
 * is its own, mode 0700). Names tell apart whose experiments are whose; a name must be known so
 * that a typing error does not become a new owner. The account itself is always known and active.
 */
#include <stdio.h>
#include <string.h>

#include "serve/rest.h"

#define NAME_MAX_BYTES 63

const char *serve_rest_user(const struct serve_rest *r)
{
    return r->request->user != NULL ? r->request->user : r->m->owner;
}

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_plain && (i == 0 || strchr("._-@+", c) == NULL))
            return false;
    }
    return n > 0 && n <= NAME_MAX_BYTES;
}

static enum ebb_status read_user(struct serve_rest *r, const char *name, bool *is_there,
                                 bool *is_active)
{
    int64_t active = -1;
    EBB_TRY(exp_db_number(r->m->db, "SELECT is_active FROM users WHERE name = $1",
                          EXP_DB_ARGS(exp_db_t(name)), -1, &active, r->err));
    *is_there = active >= 0;
    *is_active = active > 0;
    return EBB_OK;
}

enum ebb_status serve_rest_check_user(struct serve_rest *r, bool *is_bad)
{
    const char *name = r->request->user;
    bool is_there, is_active;
    if (name == NULL || strcmp(name, r->m->owner) == 0)
        return EBB_OK;
    EBB_TRY(read_user(r, name, &is_there, &is_active));
    *is_bad = !is_active;
    if (!is_there)
        return serve_rest_refuse(r, 401, "there is no user %s; 'ebb user create %s' makes one",
                                 name, name);
    if (!is_active)
        return serve_rest_refuse(
            r, 403, "user %s is not active; 'ebb user activate %s' changes that", name, name);
    return EBB_OK;
}

static void write_user(struct ebb_json_writer *w, const struct exp_db_rows *rows)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key(w, "name");
    ebb_jsonw_string(w, exp_db_text(rows, 0));
    ebb_jsonw_key(w, "active");
    ebb_jsonw_bool(w, exp_db_int(rows, 1) != 0);
    ebb_jsonw_key(w, "created_time");
    exp_time_write(w, exp_db_double(rows, 2));
    ebb_jsonw_key(w, "num_experiments");
    ebb_jsonw_int(w, exp_db_int(rows, 3));
    ebb_jsonw_object_end(w);
}

#define USER_COLUMNS                                                                               \
    "SELECT u.name, u.is_active, u.created_time,"                                                  \
    " (SELECT COUNT(*) FROM experiments e WHERE e.owner = u.name) FROM users u"

enum ebb_status serve_rest_list_users(struct serve_rest *r)
{
    struct exp_db_rows rows;
    EBB_TRY(exp_db_query(r->m->db, USER_COLUMNS " ORDER BY u.name", EXP_DB_NO_ARGS, &rows, r->err));
    return serve_rest_write_rows(r, "users", &rows, write_user);
}

static enum ebb_status answer_with(struct serve_rest *r, const char *name)
{
    struct exp_db_rows rows;
    bool has_row = false;
    EBB_TRY(exp_db_query(r->m->db, USER_COLUMNS " WHERE u.name = $1", EXP_DB_ARGS(exp_db_t(name)),
                         &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && has_row)
        write_user(&r->w, &rows);
    exp_db_done(&rows);
    if (status == EBB_OK && !has_row)
        return serve_rest_refuse(r, 404, "no user %s", name);
    return status;
}

enum ebb_status serve_rest_get_user(struct serve_rest *r)
{
    return answer_with(r, r->name);
}

enum ebb_status serve_rest_me(struct serve_rest *r)
{
    return answer_with(r, serve_rest_user(r));
}

enum ebb_status serve_rest_create_user(struct serve_rest *r)
{
    const char *name = ebb_doc_string(r->body, "name", NULL);
    bool is_there, is_active;
    if (name == NULL || !is_name(name))
        return serve_rest_refuse(
            r, 400,
            "name: found '%.80s', allowed: at most %d letters, digits and, not "
            "first, any of . _ - @ +",
            name != NULL ? name : "", NAME_MAX_BYTES);
    EBB_TRY(read_user(r, name, &is_there, &is_active));
    if (is_there)
        return serve_rest_refuse(r, 409, "there is a user %s already", name);
    EBB_TRY(exp_db_run(r->m->db,
                       "INSERT INTO users (name, is_active, created_time) VALUES ($1, 1, $2)",
                       EXP_DB_ARGS(exp_db_t(name), exp_db_d(r->m->time)), r->err));
    r->response->status = 201;
    return answer_with(r, name);
}

enum ebb_status serve_rest_patch_user(struct serve_rest *r)
{
    const struct ebb_doc_node *active = ebb_doc_get(r->body, "active");
    bool is_there, is_active;
    EBB_TRY(read_user(r, r->name, &is_there, &is_active));
    if (!is_there)
        return serve_rest_refuse(r, 404, "no user %s", r->name);
    if (active == NULL || active->kind != EBB_DOC_BOOL || r->body->count != 1)
        return serve_rest_refuse(r, 400, "only active can be changed: true or false");
    if (!active->boolean && strcmp(r->name, r->m->owner) == 0)
        return serve_rest_refuse(r, 409, "%s is the account of the master: it stays active",
                                 r->name);
    EBB_TRY(exp_db_run(r->m->db, "UPDATE users SET is_active = $1 WHERE name = $2",
                       EXP_DB_ARGS(exp_db_i(active->boolean), exp_db_t(r->name)), r->err));
    return answer_with(r, r->name);
}
