/* gate.c - who may ask over TCP.
 *
 *  G1  Data goes to nobody without a token, on loopback too; the files of the page are public.
 *  G2  A token comes as a bearer, or as a cookie that a login made. A bearer makes the cookie count
 *      for nothing. X-Ebb-User counts for nothing.
 *  G3  `Host` is a name this listener serves, so that no other site's name leads here.
 *  G4  What a cookie carries changes something only with the page's own `Origin` and the secret of
 *      its login: another site's page has neither.
 *  G5  Of secrets only their SHA-256 is kept. */
#include <errno.h>
#include <math.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/crypto.h"
#include "base/doc.h"
#include "base/heap.h"
#include "serve/inner.h"

#define LOGIN_S (30 * 86400.0)
#define BAD_PER_S 5

/* ---- secrets ---- */

enum ebb_status serve_secret_make(const char *prefix, char secret[SERVE_SECRET],
                                  struct ebb_error *err)
{
    unsigned char bytes[32];
    struct ebb_str text = {0};
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return ebb_fail(err, EBB_EIO, "no random bytes: %s", strerror(errno));
    ebb_base64_add(&text, bytes, sizeof bytes);
    EBB_TRY(ebb_str_status(&text, err));
    for (char *at = text.data; *at != '\0'; at++) /* as URLs and cookies take it */
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at == '=' ? '\0' : *at;
    snprintf(secret, SERVE_SECRET, "%s%s", prefix, text.data);
    ebb_str_fini(&text);
    return EBB_OK;
}

enum ebb_status serve_secret_hash(const char *text, size_t length, char hash[SERVE_HASH],
                                  struct ebb_error *err)
{
    struct ebb_sha256 h;
    ebb_sha256_init(&h);
    ebb_sha256_add(&h, text, length);
    return ebb_sha256_text(&h, hash, err);
}

enum ebb_status serve_gate_csrf(const char *login, char csrf[SERVE_HASH], struct ebb_error *err)
{
    char text[SERVE_HASH + 8];
    int n = snprintf(text, sizeof text, "csrf:%s", login);
    return serve_secret_hash(text, (size_t)n, csrf, err);
}

/* ---- who it is ---- */

static enum ebb_status find(struct serve *s, const char *hash, const char *kind,
                            struct ebb_arena *arena, struct exp_db_token_known *row, bool *is_good,
                            struct ebb_error *err)
{
    bool is_there = false;
    EBB_TRY(exp_db_only(exp_db_token_find(exp_master_db(s->m), EXP_DB_NAME(hash), row, err), arena,
                        &is_there));
    *is_good = is_there && row->is_active && strcmp(row->kind, kind) == 0 &&
               !(row->end_time <= exp_master_info(s->m).time); /* NAN: it has no end */
    return EBB_OK;
}

bool serve_gate_is_known(struct serve *s, const struct serve_conn *c)
{
    struct ebb_arena arena = {0};
    struct exp_db_token_known row;
    struct ebb_error err;
    bool is_good = false;
    if (find(s, c->login, c->is_cookie ? "login" : "token", &arena, &row, &is_good, &err) != EBB_OK)
        is_good = true; /* a failure of ours is no reason to turn somebody away */
    ebb_arena_fini(&arena);
    return is_good;
}

static void forget_caller(struct serve_conn *c)
{
    ebb_free(c->user);
    c->user = NULL;
    c->login[0] = '\0';
    c->is_read_only = c->is_cookie = false;
}

static void cookie_name(const struct serve *s, char name[32])
{
    snprintf(name, 32, "ebb_%d", serve_listener_port(s->listener));
}

/* The secret that came along; at NULL = none. */
static struct serve_http_text secret_of(const struct serve *s, const struct serve_http_message *m,
                                        bool *is_cookie)
{
    char name[32];
    *is_cookie = m->authorization.at == NULL;
    if (*is_cookie) {
        cookie_name(s, name);
        return serve_http_cookie(m->cookie, name);
    }
    if (m->authorization.length < 7 || strncasecmp(m->authorization.at, "Bearer ", 7) != 0)
        return (struct serve_http_text){"", 0};
    return (struct serve_http_text){m->authorization.at + 7, m->authorization.length - 7};
}

/* A wrong one: at most five a second are answered as such. */
static void refuse_bad(struct serve *s, struct serve_conn *c)
{
    uint64_t now = exp_master_info(s->m).now_ns;
    s->bad_logins -= (double)(now - s->bad_ns) * 1e-9 * BAD_PER_S;
    s->bad_logins = s->bad_logins < 0 ? 0 : s->bad_logins;
    s->bad_ns = now;
    if (s->bad_logins + 1 > BAD_PER_S) {
        serve_conn_refuse(c, 429, "too many tokens that are none: wait a second");
        return;
    }
    s->bad_logins += 1;
    serve_conn_refuse(
        c, 401,
        "this token is unknown, revoked or has ended; 'ebb user token NAME' makes one, "
        "'ebb ui' logs a browser in");
}

static bool read_caller(struct serve *s, struct serve_conn *c, const struct serve_http_message *m)
{
    struct ebb_arena arena = {0};
    struct exp_db_token_known row;
    struct ebb_error err;
    bool is_good = false, is_cookie;
    forget_caller(c);
    struct serve_http_text secret = secret_of(s, m, &is_cookie);
    if (secret.at == NULL) {
        serve_conn_refuse(c, 401,
                          "a token is needed: Authorization: Bearer TOKEN ('ebb user token NAME' "
                          "makes one), or a browser that 'ebb ui' has logged in");
        return false;
    }
    enum ebb_status status = serve_secret_hash(secret.at, secret.length, c->login, &err);
    EBB_THEN(status,
             find(s, c->login, is_cookie ? "login" : "token", &arena, &row, &is_good, &err));
    if (status == EBB_OK && is_good) {
        c->user = ebb_strdup(row.user_name);
        c->is_read_only = row.read_only;
        c->is_cookie = is_cookie;
        status = c->user != NULL ? EBB_OK : ebb_no_memory(&err, strlen(row.user_name));
    }
    ebb_arena_fini(&arena);
    if (status != EBB_OK)
        serve_conn_refuse(c, 503, err.message);
    else if (!is_good)
        refuse_bad(s, c);
    return status == EBB_OK && is_good;
}

/* ---- where it comes from ---- */

static bool is_own_origin(const struct serve *s, const struct serve_http_message *m)
{
    const struct serve_listen *how = serve_listener_how(s->listener);
    const char *at = m->origin.at;
    size_t n = m->origin.length, scheme = 0;
    if (at == NULL)
        return false;
    if (n > 8 && strncmp(at, "https://", 8) == 0 && (how->tls_cert != NULL || how->is_behind_proxy))
        scheme = 8;
    else if (n > 7 && strncmp(at, "http://", 7) == 0 && how->tls_cert == NULL)
        scheme = 7;
    return scheme > 0 && n - scheme == m->host.length &&
           strncasecmp(at + scheme, m->host.at, m->host.length) == 0;
}

static bool is_own_page(struct serve *s, struct serve_conn *c, const struct serve_http_message *m)
{
    char csrf[SERVE_HASH];
    struct ebb_error err;
    if (!is_own_origin(s, m)) {
        serve_conn_refuse(c, 403, "this did not come from the page (Origin)");
        return false;
    }
    if (serve_gate_csrf(c->login, csrf, &err) == EBB_OK && m->csrf.length == SERVE_HASH - 1 &&
        CRYPTO_memcmp(m->csrf.at, csrf, SERVE_HASH - 1) == 0)
        return true;
    serve_conn_refuse(c, 403, "X-Ebb-Csrf: not the secret of this login");
    return false;
}

const char *serve_gate_path(const struct serve *s, const char *target)
{
    const char *base = serve_listener_how(s->listener)->base_path;
    size_t n = strlen(base) - 1; /* its last slash belongs to what follows */
    return strncmp(target, base, n) == 0 && (target[n] == '/' || target[n] == '\0') ? target + n
                                                                                    : NULL;
}

bool serve_gate(struct serve *s, struct serve_conn *c, const struct serve_http_message *m,
                const char *target)
{
    const struct serve_http_text method = {m->method, m->method_length};
    bool is_reading = serve_http_is(method, "GET") || serve_http_is(method, "HEAD");
    const char *path = serve_gate_path(s, target);
    forget_caller(c);
    if (!serve_listener_is_host(s->listener, m->host)) {
        serve_conn_refuse(c, 421, "Host: not a name that is served here (hosts in master.yaml)");
        return false;
    }
    if (path == NULL || strncmp(path, "/api/v1/", 8) != 0)
        return true; /* the page, which is public, or nothing */
    if (serve_http_is(method, "POST") && strcmp(path, "/api/v1/login") == 0) {
        if (is_own_origin(s, m))
            return true;
        serve_conn_refuse(c, 403, "this did not come from the page (Origin)");
        return false;
    }
    return read_caller(s, c, m) && (is_reading || !c->is_cookie || is_own_page(s, c, m));
}

/* ---- logging in ---- */

static void set_cookie(const struct serve *s, const char *value, double seconds,
                       struct serve_http_response *response)
{
    const struct serve_listen *how = serve_listener_how(s->listener);
    char name[32];
    cookie_name(s, name);
    snprintf(response->cookie, sizeof response->cookie,
             "%s=%s; Path=%s; Max-Age=%.0f; HttpOnly; SameSite=Strict%s", name, value,
             how->base_path, seconds,
             how->tls_cert != NULL || how->is_behind_proxy ? "; Secure" : "");
}

void serve_gate_uncookie(const struct serve *s, struct serve_http_response *response)
{
    if (s->listener != NULL)
        set_cookie(s, "", 0, response);
}

/* A link of ebb ui is good once. */
static bool take_link(struct serve *s, const char *hash, char user[64])
{
    uint64_t now = exp_master_info(s->m).now_ns;
    for (size_t i = 0; i < SERVE_LINKS; i++) {
        struct serve_link *l = &s->links[i];
        if (l->hash[0] == '\0' || CRYPTO_memcmp(l->hash, hash, SERVE_HASH - 1) != 0)
            continue;
        bool is_good = now < l->until_ns;
        memcpy(user, l->user, sizeof l->user);
        *l = (struct serve_link){0};
        return is_good;
    }
    return false;
}

static enum ebb_status add_login(struct serve *s, const struct exp_db_token_known *from,
                                 struct serve_http_response *response, char hash[SERVE_HASH],
                                 struct ebb_error *err)
{
    struct exp_db *db = exp_master_db(s->m);
    char secret[SERVE_SECRET];
    struct exp_db_id last = {0};
    double now = exp_master_info(s->m).time, end = now + LOGIN_S;
    end = from->end_time < end ? from->end_time : end;
    EBB_TRY(serve_secret_make("", secret, err));
    EBB_TRY(serve_secret_hash(secret, strlen(secret), hash, err));
    EBB_TRY(exp_db_tokens_forget(db, &(struct exp_db_time){now}, err));
    EBB_TRY(exp_db_only(exp_db_last_token(db, NULL, &last, err), NULL, NULL));
    struct exp_db_token row = {.id = last.id + 1,
                               .user_name = from->user_name,
                               .kind = "login",
                               .hash = hash,
                               .read_only = from->read_only,
                               .parent_id = from->id,
                               .created_time = now,
                               .end_time = end};
    set_cookie(s, secret, end - now, response);
    return exp_db_token_add(db, &row, err);
}

static enum ebb_status check_login(struct serve *s, const struct ebb_doc_node *body,
                                   struct ebb_arena *arena, struct exp_db_token_known *from,
                                   bool *is_good, struct ebb_error *err)
{
    const char *secret = ebb_doc_string(body, "secret", NULL),
               *token = ebb_doc_string(body, "token", NULL), *text = secret ? secret : token;
    char hash[SERVE_HASH], user[64];
    *is_good = false;
    if (text == NULL)
        return EBB_OK;
    EBB_TRY(serve_secret_hash(text, strlen(text), hash, err));
    if (secret == NULL)
        return find(s, hash, "token", arena, from, is_good, err);
    *is_good = take_link(s, hash, user);
    from->user_name = ebb_arena_strndup(arena, user, *is_good ? strlen(user) : 0);
    return from->user_name != NULL ? EBB_OK : ebb_no_memory(err, sizeof user);
}

enum ebb_status serve_gate_login(struct serve *s, struct serve_conn *c, const char *body,
                                 size_t length, struct serve_http_response *response,
                                 struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    struct exp_db_token_known from = {.id = EXP_DB_NO_INT, .end_time = (double)INFINITY};
    const struct ebb_doc_node *root = NULL;
    char hash[SERVE_HASH], csrf[SERVE_HASH];
    bool is_good = false;
    (void)ebb_doc_parse_json(&arena, "body", body != NULL ? body : "", length, &root, NULL);
    enum ebb_status status = check_login(s, root, &arena, &from, &is_good, err);
    if (status == EBB_OK && !is_good) {
        ebb_arena_fini(&arena);
        refuse_bad(s, c);
        return EBB_OK;
    }
    if (from.end_time != from.end_time) /* a token without end */
        from.end_time = (double)INFINITY;
    EBB_THEN(status, add_login(s, &from, response, hash, err));
    EBB_THEN(status, serve_gate_csrf(hash, csrf, err));
    if (status == EBB_OK) {
        struct ebb_json_writer w;
        ebb_jsonw_init(&w, &response->body, 0);
        ebb_jsonw_object(&w);
        ebb_jsonw_key_string(&w, "user", from.user_name);
        ebb_jsonw_key_bool(&w, "read_only", from.read_only);
        ebb_jsonw_key_string(&w, "csrf", csrf);
        ebb_jsonw_key_int(&w, "last_event", exp_master_info(s->m).last_notice);
        ebb_jsonw_object_end(&w);
        serve_conn_answer(c, response);
    }
    ebb_arena_fini(&arena);
    return status;
}
