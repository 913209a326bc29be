/* master.c - see master.h. */
#include "cli/master.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"
#include "cli/board.h"
#include "cli/cli.h"
#include "cli/share.h"
#include "cli/site.h"
#include "cli/train_file.h"

#define OPEN_PATIENCE_NS 5000000000u /* another short command may hold the lock */
#define ANSWER_MS 60000
#define FETCH_MS 3600000

/* ---- where ---- */

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

enum ebb_status cli_state_dir(const char *option, char **path, struct ebb_error *err)
{
    struct ebb_str text = {0};
    const char *base;
    if (option != NULL)
        ebb_str_add(&text, option);
    else if ((base = environment("EBB_STATE")) != NULL)
        ebb_str_add(&text, base);
    else if ((base = environment("XDG_STATE_HOME")) != NULL)
        ebb_str_printf(&text, "%s/ebb", base);
    else if ((base = environment("HOME")) != NULL)
        ebb_str_printf(&text, "%s/.local/state/ebb", base);
    else
        return ebb_fail(err, EBB_EINPUT, "no state directory: give --state DIR or set EBB_STATE");
    if (text.length == 0)
        return ebb_fail(err, EBB_EINPUT, "--state is empty");
    EBB_TRY(ebb_str_status(&text, err));
    *path = ebb_str_take(&text);
    return EBB_OK;
}

/* "host", "host:port" (8080), "http://host[:port]", "https://host[:port]"; an IPv6 address stands in
 * brackets. Whether it is well-formed, the first request tells. */
static enum ebb_status make_url(const char *text, char **url, struct ebb_error *err)
{
    bool has_scheme = strstr(text, "://") != NULL;
    const char *bracket = strrchr(text, ']');
    const char *colon = strrchr(bracket != NULL ? bracket : text, ':');
    bool has_port = colon != NULL;
    if (has_port && strcmp(colon, ":0") == 0)
        return ebb_fail(err, EBB_EINPUT, "'%s' is no HOST[:PORT] of a master: nobody has port 0",
                        text);
    struct ebb_str made = {0};
    ebb_str_printf(&made, "%s%s%s", has_scheme ? "" : "http://", text,
                   has_scheme || has_port ? "" : ":8080");
    EBB_TRY(ebb_str_status(&made, err));
    *url = ebb_str_take(&made);
    return EBB_OK;
}

/* ---- opening ---- */

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

static enum ebb_status greet(struct cli_master *m, struct ebb_error *err)
{
    struct cli_answer answer;
    enum ebb_status status = cli_ask(m, &answer, err, "GET", NULL, "/master");
    cli_answer_fini(&answer);
    return status;
}

/* The directory with the Python package ebb_client: installed beside the program, or in its source
 * tree. NULL = nowhere; then Python must find it by itself. */
static char *find_python_path(void)
{
    char path[PATH_MAX];
    if (!cli_share_find("python/ebb_client/__init__.py", "clients/python/ebb_client/__init__.py",
                        path, sizeof path))
        return NULL;
    for (int up = 0; up < 2; up++) /* the folder that the package lies in */
        *strrchr(path, '/') = '\0';
    return ebb_strdup(path);
}

static enum ebb_status open_own(struct cli_master *m, enum cli_role role,
                                const struct exp_master_options *options, struct ebb_error *err)
{
    struct exp_master_options o = options != NULL ? *options : (struct exp_master_options){0};
    o.state_dir = m->state_dir;
    o.check_section = cli_check_submission;
    if (m->python_path == NULL)
        m->python_path = find_python_path();
    o.python_path = m->python_path;
    if (role == CLI_ASK) {
        o.is_reading_only = true;
    } else if (m->board == NULL) {
        EBB_TRY(ebb_new(&m->board, 1, sizeof *m->board, err));
    }
    if (m->board != NULL) {
        o.on_metrics = cli_board_add;
        o.on_metrics_context = m->board;
    }
    struct ebb_str site = {0};
    ebb_arena_fini(&m->site_arena); /* of a try before */
    ebb_arena_init(&m->site_arena);
    enum ebb_status status =
        cli_site_read(m->state_dir, &o, &m->site_arena, &m->site_listen, &site, err);
    EBB_THEN(status, serve_open(&o, &m->own, err));
    ebb_str_fini(&site);
    return status;
}

/* A master may come or go between looking and asking, so both ways are tried for a while. */
static enum ebb_status open_local(struct cli_master *m, enum cli_role role,
                                  const struct exp_master_options *options, struct ebb_error *err)
{
    uint64_t start = ebb_clock_ns();
    enum ebb_status status = EBB_EIO;
    m->address.state_dir = m->state_dir;
    m->is_opening = true;
    for (;;) {
        bool is_there = exp_master_runs(m->state_dir);
        status = is_there ? greet(m, err) : open_own(m, role, options, err);
        bool can_retry = is_there ? status == EBB_EIO : status == EBB_ELIMIT;
        if (status == EBB_OK || !can_retry || ebb_clock_ns() - start > OPEN_PATIENCE_NS)
            break;
        nap();
    }
    m->is_opening = false;
    return status;
}

enum ebb_status cli_master_listen(struct cli_master *m, const struct serve_listen *given,
                                  struct ebb_error *err)
{
    struct serve_listen how = m->site_listen;
    if (given->listen != NULL)
        how.listen = given->listen;
    if (given->tls_cert != NULL || given->tls_key != NULL) {
        how.tls_cert = given->tls_cert;
        how.tls_key = given->tls_key;
    }
    if (given->base_path != NULL)
        how.base_path = given->base_path;
    how.is_behind_proxy |= given->is_behind_proxy;
    if (given->host_count > 0) {
        how.hosts = given->hosts;
        how.host_count = given->host_count;
    }
    return how.listen != NULL ? serve_listen(m->own, &how, err) : EBB_OK;
}

/* ---- a token for a master on TCP ---- */

/* Not in the clear over a network: the whole name counts, not how it begins. */
static bool is_safe_url(const char *url)
{
    char host[64];
    struct in_addr v4;
    if (strncasecmp(url, "https://", 8) == 0)
        return true;
    if (strncasecmp(url, "http://", 7) != 0)
        return false;
    const char *name = url + 7, *bracket = name[0] == '[' ? strchr(name, ']') : NULL;
    size_t n = bracket != NULL ? (size_t)(bracket + 1 - name) : strcspn(name, ":/?#");
    if (n >= sizeof host || memchr(name, '@', strcspn(name, "/?#")) != NULL)
        return false;
    snprintf(host, sizeof host, "%.*s", (int)n, name);
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

/* ${XDG_CONFIG_HOME:-~/.config}/ebb/token, which nobody else may read. */
static enum ebb_status read_token_file(char **token, struct ebb_error *err)
{
    struct ebb_str path = {0};
    struct ebb_file_view view;
    struct stat st;
    const char *config = environment("XDG_CONFIG_HOME"), *home = environment("HOME");
    ebb_str_printf(&path, "%s%s/ebb/token",
                   config != NULL ? config
                   : home != NULL ? home
                                  : "",
                   config != NULL ? "" : "/.config");
    enum ebb_status status = ebb_str_status(&path, err);
    if (status == EBB_OK && stat(ebb_str_c(&path), &st) == 0) {
        if ((st.st_mode & 077) != 0)
            status = ebb_fail(err, EBB_EINPUT, "%s: others may read this token: chmod 600 %s",
                              ebb_str_c(&path), ebb_str_c(&path));
        EBB_THEN(status, ebb_file_view_open(&view, ebb_str_c(&path), 4096, err));
        if (status == EBB_OK) {
            *token = ebb_strndup(view.data, strcspn(view.data, " \r\n"));
            ebb_file_view_close(&view);
        }
    }
    ebb_str_fini(&path);
    return status;
}

static enum ebb_status find_token(struct cli_master *m, struct ebb_error *err)
{
    const char *given = environment("EBB_TOKEN");
    if (given != NULL)
        EBB_TRY(ebb_copy_text(&m->token, given, err));
    else
        EBB_TRY(read_token_file(&m->token, err));
    for (const char *at = m->token; at != NULL && *at != '\0'; at++)
        if ((unsigned char)*at <= 0x20 || (unsigned char)*at >= 0x7f)
            return ebb_fail(err, EBB_EINPUT, "EBB_TOKEN: this is no token: it has blanks in it");
    if (m->token != NULL && !is_safe_url(m->url))
        return ebb_fail(err, EBB_EINPUT,
                        "the token is not sent to %s: without TLS others could read it on the way; "
                        "use https://",
                        m->url);
    m->address.token = m->token;
    return EBB_OK;
}

enum ebb_status cli_master_open(struct cli_master *m, const struct cli_where *where,
                                enum cli_role role, const struct exp_master_options *options,
                                struct ebb_error *err)
{
    const char *tcp = where->master != NULL       ? where->master
                      : environment("EBB_MASTER") ? environment("EBB_MASTER")
                                                  : environment("DET_MASTER");
    const char *user = where->user != NULL       ? where->user
                       : environment("EBB_USER") ? environment("EBB_USER")
                                                 : environment("DET_USER");
    *m = (struct cli_master){.user = user, .role = role};
    enum ebb_status status;
    if (tcp != NULL && strncmp(tcp, "unix:", 5) == 0)
        tcp = NULL; /* inside a trial: its master's socket is that of the state directory */
    if (tcp != NULL && where->state == NULL) {
        status = make_url(tcp, &m->url, err);
        m->address.url = m->url;
        EBB_THEN(status, find_token(m, err));
        EBB_THEN(status, greet(m, err));
    } else {
        status = cli_state_dir(where->state, &m->state_dir, err);
        EBB_THEN(status, open_local(m, role, options, err));
    }
    if (status != EBB_OK)
        cli_master_close(m, EXP_CLOSE_LEAVE, 0);
    return status;
}

struct cli_held {
    struct cli_answer answer;
    struct cli_held *next;
};

void cli_master_close(struct cli_master *m, enum exp_master_close how, int grace_ms)
{
    exp_master_close(m->own, how, grace_ms);
    if (m->board != NULL)
        cli_board_fini(m->board);
    ebb_free(m->board);
    for (struct cli_held *h = m->held; h != NULL; h = m->held) {
        m->held = h->next;
        cli_answer_fini(&h->answer);
        ebb_free(h);
    }
    ebb_arena_fini(&m->site_arena);
    if (m->token != NULL)
        explicit_bzero(m->token, strlen(m->token));
    ebb_free(m->token);
    ebb_free(m->url);
    ebb_free(m->python_path);
    ebb_free(m->state_dir);
    *m = (struct cli_master){0};
}

bool cli_is_ended(const struct cli_answer *answer)
{
    static const char *const over[] = {"COMPLETED", "CANCELED", "ERROR", "DELETE_FAILED"};
    const char *state = ebb_doc_string(answer->root, "state", "");
    return ebb_name_index(state, over, sizeof over / sizeof over[0]) >= 0 ||
           answer->response.status == 404;
}

bool cli_is_collected(const struct cli_answer *answer)
{
    const struct ebb_doc_node *list = ebb_doc_get(answer->root, "checkpoints");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        if (ebb_doc_string(list->items[i], "note", "")[0] == '\0')
            return false;
    return true;
}

bool cli_master_settle(struct cli_master *m, double seconds,
                       bool (*is_done)(const struct cli_answer *answer), const char *target)
{
    uint64_t start = ebb_clock_ns();
    bool is_own = m->own != NULL;
    for (int i = 0; !cli_interrupted(); i++) {
        if (m->own != NULL)
            exp_master_turn(m->own, is_done != NULL && i > 2 ? 50 : 0);
        if (is_done == NULL && (i >= 2 || m->own == NULL))
            return true;
        if (is_done != NULL) {
            struct cli_answer answer;
            struct ebb_error err;
            bool is_answered = cli_ask_raw(m, "GET", target, NULL, &answer, &err) == EBB_OK;
            bool is_settled = is_answered && is_done(&answer);
            cli_answer_fini(&answer);
            /* The master that was at it has gone: the next one goes on, and must find no lock. */
            bool is_left = !is_own && m->own != NULL;
            if (is_settled || !is_answered || is_left)
                return is_settled;
            if (m->own == NULL)
                nap();
        }
        if ((double)(ebb_clock_ns() - start) * 1e-9 > seconds)
            return false;
    }
    return false;
}

/* ---- asking ---- */

void cli_answer_fini(struct cli_answer *answer)
{
    serve_http_response_fini(&answer->response);
    ebb_arena_fini(&answer->arena);
}

enum ebb_status cli_ask_raw(struct cli_master *m, const char *method, const char *target,
                            const char *body, struct cli_answer *answer, struct ebb_error *err)
{
    return cli_ask_range(m, method, target, body, NULL, answer, err);
}

/* A master of this machine may end between two questions: what it knew is in the state directory,
 * and who only asks goes on with that, or with the next master. Who runs trials decides for itself. */
static enum ebb_status exchange(struct cli_master *m, const struct serve_http_request *request,
                                int timeout_ms, struct serve_http_response *response,
                                struct ebb_error *err)
{
    enum ebb_status status = EBB_EIO;
    if (m->own == NULL)
        status = serve_client_request(&m->address, request, timeout_ms, response, err);
    bool can_reopen = m->role == CLI_ASK && m->state_dir != NULL && !m->is_opening &&
                      strcmp(request->method, "GET") == 0;
    if (m->own == NULL && status == EBB_EIO && can_reopen) {
        EBB_TRY(open_local(m, CLI_ASK, NULL, err));
        if (m->own == NULL)
            status = serve_client_request(&m->address, request, timeout_ms, response, err);
    }
    if (m->own == NULL)
        return status;
    serve_request(m->own, request, response);
    return EBB_OK;
}

enum ebb_status cli_ask_range(struct cli_master *m, const char *method, const char *target,
                              const char *body, const char *range, struct cli_answer *answer,
                              struct ebb_error *err)
{
    struct serve_http_request request = {
        .method = method,
        .target = target,
        .body = body,
        .body_length = body != NULL ? strlen(body) : 0,
        .user = m->user,
        .range = range,
    };
    /* The master may have to fetch a whole checkpoint from its store first. */
    bool is_fetching = strncmp(target, "/checkpoints/", 13) == 0 && strlen(target) > 13 + 36;
    ebb_arena_init(&answer->arena);
    serve_http_response_init(&answer->response);
    answer->root = NULL;
    EBB_TRY(exchange(m, &request, is_fetching ? FETCH_MS : ANSWER_MS, &answer->response, err));
    const struct ebb_str *text = &answer->response.body;
    if (text->length > 0 && (text->data[0] == '{' || text->data[0] == '[') &&
        ebb_doc_parse_json(&answer->arena, target, text->data, text->length, &answer->root, NULL) !=
            EBB_OK)
        answer->root = NULL;
    return EBB_OK;
}

enum ebb_status cli_answer_error(const struct cli_answer *answer, struct ebb_error *err)
{
    int status = answer->response.status;
    const struct ebb_doc_node *e = ebb_doc_get(answer->root, "error");
    const char *message = ebb_doc_string(e, "message", serve_http_reason(status));
    return ebb_fail(err,
                    status == 400   ? EBB_EINPUT
                    : status == 422 ? EBB_ECORRUPT
                    : status == 503 ? EBB_EIO
                                    : EBB_EINFEASIBLE,
                    "%s", message);
}

enum ebb_status cli_ask(struct cli_master *m, struct cli_answer *answer, struct ebb_error *err,
                        const char *method, const char *body, const char *fmt, ...)
{
    struct ebb_str target = {0};
    va_list list;
    va_start(list, fmt);
    ebb_str_vprintf(&target, fmt, list);
    va_end(list);
    enum ebb_status status = cli_ask_raw(m, method, ebb_str_c(&target), body, answer, err);
    ebb_str_fini(&target);
    if (status == EBB_OK && answer->response.status >= 400)
        status = cli_answer_error(answer, err);
    return status;
}

static enum ebb_status ask_held(struct cli_master *m, const struct ebb_doc_node **root,
                                struct ebb_error *err, const char *method, const char *body,
                                const char *fmt, va_list list)
{
    struct cli_held *h = ebb_calloc(1, sizeof *h);
    struct ebb_str target = {0};
    if (h == NULL)
        return ebb_no_memory(err, sizeof *h);
    ebb_str_vprintf(&target, fmt, list);
    enum ebb_status status = cli_ask(m, &h->answer, err, method, body, "%s", ebb_str_c(&target));
    ebb_str_fini(&target);
    h->next = m->held;
    m->held = h;
    *root = h->answer.root;
    return status;
}

enum ebb_status cli_get(struct cli_master *m, const struct ebb_doc_node **root,
                        struct ebb_error *err, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    enum ebb_status status = ask_held(m, root, err, "GET", NULL, fmt, list);
    va_end(list);
    return status;
}

enum ebb_status cli_send(struct cli_master *m, const struct ebb_doc_node **root,
                         struct ebb_error *err, const char *method, const char *body,
                         const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    enum ebb_status status = ask_held(m, root, err, method, body, fmt, list);
    va_end(list);
    return status;
}

const struct ebb_str *cli_last_body(const struct cli_master *m)
{
    static const struct ebb_str none = {0};
    return m->held != NULL ? &m->held->answer.response.body : &none;
}

int cli_parse_id(const char *what, const char *text, int64_t *id)
{
    if (ebb_parse_i64(text, id) && *id > 0)
        return -1;
    return cli_usage_error("'%s' is no %s number; 'ebb experiment list' shows experiments, "
                           "'ebb experiment list-trials ID' the trials of one",
                           text, what);
}

int cli_parse_ids(const char *what, const char *text, struct cli_ids *ids)
{
    for (const char *at = text; at != NULL;) {
        char number[24] = "";
        size_t n = strcspn(at, ",");
        struct ebb_error err;
        memcpy(number, at, n < sizeof number ? n : sizeof number - 1);
        if (ebb_grow(&ids->items, &ids->capacity, ids->count + 1, sizeof *ids->items, &err) !=
            EBB_OK)
            return cli_report(&err);
        int code = cli_parse_id(what, number, &ids->items[ids->count]);
        if (code >= 0)
            return code;
        ids->count++;
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    return -1;
}
