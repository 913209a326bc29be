/* rest_tokens.c - tokens for those who ask over the network, and the login at hand.
 *
 * A token that may write runs commands as the account of the master: so they are made through the
 * socket only, shown once, and kept as a hash. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/keys.h"
#include "serve/inner.h"

#define LINK_NS 60000000000ull

struct asked {
    const char *user;
    bool read_only;
    double days;
};

#define AT(member) offsetof(struct exp_db_token, member)
static const struct serve_column columns[] = {
    {"id", SERVE_INT, AT(id), 0},
    {"user", SERVE_TEXT, AT(user_name), 0},
    {"kind", SERVE_TEXT, AT(kind), 0},
    {"read_only", SERVE_BOOL, AT(read_only), 0},
    {"parent_id", SERVE_INT, AT(parent_id), 0},
    {"created_time", SERVE_TIME, AT(created_time), 0},
    {"end_time", SERVE_TIME, AT(end_time), 0},
};

static enum ebb_status list(struct serve_rest *r)
{
    struct exp_db_token row;
    EBB_TRY(exp_db_tokens_forget(r->db, &(struct exp_db_time){r->info.time}, r->err));
    return serve_write_list(r, "tokens", SERVE_COLUMNS(columns),
                            exp_db_tokens(r->db, NULL, &row, r->err));
}

#define OF(member) .at = offsetof(struct asked, member)
static const struct ebb_key rows[] = {
    {.path = "user", .kind = EBB_KEY_TEXT, OF(user), .help = "whose token it is"},
    {.path = "read_only", .kind = EBB_KEY_BOOL, OF(read_only), .help = "it may change nothing"},
    {.path = "days",
     .kind = EBB_KEY_DOUBLE,
     .bounds = "> 0, <= 36500",
     OF(days),
     .help = "until it ends"},
};
static const struct ebb_keys keys = EBB_KEYS(rows);

static enum ebb_status read_asked(struct serve_rest *r, struct asked *a)
{
    struct ebb_reading reading;
    struct ebb_report report;
    struct ebb_error why;
    *a = (struct asked){.user = serve_user(r)};
    if (r->body == NULL)
        return EBB_OK;
    ebb_reading_init(&reading, r->arena, "body", &report);
    ebb_keys_read(&reading, &(struct ebb_section){.table = &keys}, NULL, r->body, r->body, a);
    return serve_blame(r, ebb_reading_end(&reading, &why), &why, 400, "");
}

static enum ebb_status create(struct serve_rest *r)
{
    struct asked a;
    struct exp_db_user user;
    struct exp_db_id last = {0};
    char secret[SERVE_SECRET], hash[SERVE_HASH];
    EBB_TRY(read_asked(r, &a));
    EBB_TRY(serve_find(r, exp_db_user_read(r->db, EXP_DB_NAME(a.user), &user, r->err),
                       "no user %s; 'ebb user create %s' makes one", a.user, a.user));
    EBB_TRY(serve_secret_make("ebb_", secret, r->err));
    EBB_TRY(serve_secret_hash(secret, strlen(secret), hash, r->err));
    EBB_TRY(exp_db_only(exp_db_last_token(r->db, NULL, &last, r->err), NULL, NULL));
    struct exp_db_token row = {.id = last.id + 1,
                               .user_name = a.user,
                               .kind = "token",
                               .hash = hash,
                               .read_only = a.read_only,
                               .parent_id = EXP_DB_NO_INT,
                               .created_time = r->info.time,
                               .end_time =
                                   a.days > 0 ? r->info.time + a.days * 86400 : (double)NAN};
    EBB_TRY(exp_db_token_add(r->db, &row, r->err));
    r->response->status = 201;
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "token", secret);
    serve_write_row(&r->w, SERVE_COLUMNS(columns), &row);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status revoke(struct serve_rest *r)
{
    struct exp_db_token row;
    EBB_TRY(serve_find(r, exp_db_token_read(r->db, EXP_DB_ID(r->id), &row, r->err), "no token %lld",
                       (long long)r->id));
    EBB_TRY(exp_db_token_delete(r->db, EXP_DB_ID(r->id), r->err));
    serve_stream_doubt(serve_of(r->m));
    serve_write_object(&r->w, SERVE_COLUMNS(columns), &row);
    return EBB_OK;
}

/* ---- ebb ui ---- */

static enum ebb_status link(struct serve_rest *r)
{
    struct serve *s = serve_of(r->m);
    char secret[SERVE_SECRET];
    if (s->listener == NULL)
        return serve_refuse(
            r, 409,
            "this master has no page: it does not listen. Start one that does: 'ebb serve', or "
            "'ebb "
            "run FILE --listen 127.0.0.1:8080', or write 'listen: 127.0.0.1:8080' into "
            "%s/master.yaml",
            r->info.state_dir);
    struct serve_link *l = &s->links[s->link_next++ % SERVE_LINKS];
    EBB_TRY(serve_secret_make("", secret, r->err));
    EBB_TRY(serve_secret_hash(secret, strlen(secret), l->hash, r->err));
    snprintf(l->user, sizeof l->user, "%s", serve_user(r));
    l->until_ns = r->info.now_ns + LINK_NS;
    struct ebb_str url = {0};
    ebb_str_printf(&url, "%s#login=%s", serve_listener_url(s->listener), secret);
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "url", ebb_str_c(&url));
    ebb_jsonw_key_int(&r->w, "seconds", (int64_t)(LINK_NS / 1000000000u));
    ebb_jsonw_key_bool(&r->w, "has_page", serve_has_page());
    ebb_jsonw_object_end(&r->w);
    ebb_str_fini(&url);
    return EBB_OK;
}

/* ---- the login at hand ---- */

static enum ebb_status session(struct serve_rest *r)
{
    char csrf[SERVE_HASH];
    if (r->request->login != NULL)
        EBB_TRY(serve_gate_csrf(r->request->login, csrf, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "user", serve_user(r));
    ebb_jsonw_key_bool(&r->w, "read_only", r->request->is_read_only);
    ebb_jsonw_key_string(&r->w, "csrf", r->request->login != NULL ? csrf : NULL);
    ebb_jsonw_key_string(&r->w, "version", EBB_VERSION);
    ebb_jsonw_key_string(&r->w, "cluster_id", r->info.cluster_id);
    ebb_jsonw_key_int(&r->w, "last_event", r->info.last_notice);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status leave(struct serve_rest *r)
{
    struct exp_db_token_known row;
    bool is_there = false;
    if (r->request->login == NULL)
        return serve_refuse(r, 409, "there is no login to end: no cookie came along");
    EBB_TRY(exp_db_only(exp_db_token_find(r->db, EXP_DB_NAME(r->request->login), &row, r->err),
                        r->arena, &is_there));
    if (is_there)
        EBB_TRY(exp_db_token_delete(r->db, EXP_DB_ID(row.id), r->err));
    serve_stream_doubt(serve_of(r->m));
    serve_gate_uncookie(serve_of(r->m), r->response);
    r->response->status = 204;
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/tokens", list, "tokens and logins", SERVE_LOCAL},
    {"POST", "/tokens", create, "make a token", SERVE_LOCAL},
    {"DELETE", "/tokens/#", revoke, "revoke a token and its logins", SERVE_LOCAL},
    {"POST", "/login-links", link, "a link that logs a browser in", SERVE_LOCAL},
    {"GET", "/session", session, "who asks, and the secret of the login", 0},
    {"DELETE", "/session", leave, "end the login", SERVE_PROVES},
};
const struct serve_routes serve_routes_tokens = SERVE_ROUTES(routes);
