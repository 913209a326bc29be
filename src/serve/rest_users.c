/* rest_users.c - names that experiments belong to.
 *
 * A name is no proof: whoever reaches the socket has the account of the master (the state directory
 * is its own, mode 0700). Names tell apart whose experiments are whose; a name must be known so
 * that a typing error does not become a new owner. The account itself is always known and active.
 */
#include <stdio.h>
#include <string.h>

#include "serve/inner.h"

#define NAME_MAX_BYTES 63

const char *serve_user(const struct serve_rest *r)
{
    return r->request->user != NULL ? r->request->user : r->info.owner;
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
    struct exp_db_user row = {0};
    EBB_TRY(
        exp_db_only(exp_db_user_read(r->db, EXP_DB_NAME(name), &row, r->err), r->arena, is_there));
    *is_active = row.is_active;
    return EBB_OK;
}

enum ebb_status serve_need_user(struct serve_rest *r)
{
    const char *name = r->request->user;
    bool is_there, is_active;
    if (name == NULL || strcmp(name, r->info.owner) == 0)
        return EBB_OK;
    EBB_TRY(read_user(r, name, &is_there, &is_active));
    if (!is_there)
        return serve_refuse(r, 401, "there is no user %s; 'ebb user create %s' makes one", name,
                            name);
    if (!is_active)
        return serve_refuse(r, 403, "user %s is not active; 'ebb user activate %s' changes that",
                            name, name);
    return EBB_OK;
}

#define AT(member) offsetof(struct exp_db_user, member)
static const struct serve_column columns[] = {
    {"name", SERVE_TEXT, AT(name), 0},
    {"active", SERVE_BOOL, AT(is_active), 0},
    {"created_time", SERVE_TIME, AT(created_time), 0},
    {"num_experiments", SERVE_INT, AT(num_experiments), 0},
};

static enum ebb_status list(struct serve_rest *r)
{
    struct exp_db_user row;
    return serve_write_list(r, "users", SERVE_COLUMNS(columns),
                            exp_db_users(r->db, NULL, &row, r->err));
}

static enum ebb_status answer_with(struct serve_rest *r, const char *name)
{
    struct exp_db_user row;
    return serve_write_one(r, SERVE_COLUMNS(columns),
                           exp_db_user_read(r->db, EXP_DB_NAME(name), &row, r->err), "user", name);
}

static enum ebb_status get(struct serve_rest *r)
{
    return answer_with(r, r->name);
}

static enum ebb_status me(struct serve_rest *r)
{
    return answer_with(r, serve_user(r));
}

static enum ebb_status create(struct serve_rest *r)
{
    const char *name = ebb_doc_string(r->body, "name", NULL);
    bool is_there, is_active;
    if (name == NULL || !is_name(name))
        return serve_refuse(r, 400,
                            "name: found '%.80s', allowed: at most %d letters, digits and, not "
                            "first, any of . _ - @ +",
                            name != NULL ? name : "", NAME_MAX_BYTES);
    EBB_TRY(read_user(r, name, &is_there, &is_active));
    if (is_there)
        return serve_refuse(r, 409, "there is a user %s already", name);
    struct exp_db_user_made made = {.name = name, .is_active = true, .created_time = r->info.time};
    EBB_TRY(exp_db_user_add(r->db, &made, r->err));
    r->response->status = 201;
    return answer_with(r, name);
}

static enum ebb_status patch(struct serve_rest *r)
{
    const struct ebb_doc_node *active = ebb_doc_get(r->body, "active");
    bool is_there, is_active;
    EBB_TRY(read_user(r, r->name, &is_there, &is_active));
    if (!is_there)
        return serve_refuse(r, 404, "no user %s", r->name);
    if (active == NULL || active->kind != EBB_DOC_BOOL || r->body->count != 1)
        return serve_refuse(r, 400, "only active can be changed: true or false");
    if (!active->boolean && strcmp(r->name, r->info.owner) == 0)
        return serve_refuse(r, 409, "%s is the account of the master: it stays active", r->name);
    struct exp_db_user_active change = {.name = r->name, .is_active = active->boolean};
    EBB_TRY(exp_db_user_set(r->db, &change, r->err));
    serve_stream_doubt(serve_of(r->m));
    return answer_with(r, r->name);
}

static const struct serve_route routes[] = {
    {"GET", "/users", list, "list users", 0},
    {"POST", "/users", create, "add a user", SERVE_LOCAL},
    {"GET", "/users/*", get, "one user", 0},
    {"PATCH", "/users/*", patch, "activate or deactivate a user", SERVE_LOCAL},
    {"GET", "/me", me, "in whose name this is asked", 0},
};
const struct serve_routes serve_routes_users = SERVE_ROUTES(routes);
