/* aws.c - see aws.h. */
#include "exp/store/aws.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/doc.h"
#include "base/file.h"

#define FACT "aws keys"
#define SOURCE "aws keys come from a service"
#define EARLY_S 300.0
#define ASK_MS 2000
#define PROFILE_FILE_MAX ((size_t)1 << 20)

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* ---- the profile file ---- */

struct line {
    const char *text;
    size_t length;
};

static struct line strip(const char *text, size_t length)
{
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL)
        length--;
    while (length > 0 && strchr(" \t", *text) != NULL) {
        text++;
        length--;
    }
    return (struct line){text, length};
}

static void take(struct line l, const char *name, char *to, size_t size)
{
    size_t n = strlen(name);
    if (l.length <= n || memcmp(l.text, name, n) != 0)
        return;
    struct line rest = strip(l.text + n, l.length - n);
    if (rest.length == 0 || rest.text[0] != '=')
        return;
    struct line value = strip(rest.text + 1, rest.length - 1);
    if (value.length < size)
        snprintf(to, size, "%.*s", (int)value.length, value.text);
}

bool exp_aws_read_profile(const char *text, size_t length, const char *profile,
                          struct exp_aws_keys *keys)
{
    bool is_ours = false;
    *keys = (struct exp_aws_keys){0};
    for (const char *at = text, *end = text + length; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct line l = strip(at, (size_t)((newline != NULL ? newline : end) - at));
        at = newline != NULL ? newline + 1 : end;
        if (l.length > 1 && l.text[0] == '[' && l.text[l.length - 1] == ']') {
            struct line name = strip(l.text + 1, l.length - 2);
            is_ours =
                name.length == strlen(profile) && memcmp(name.text, profile, name.length) == 0;
        } else if (is_ours) {
            take(l, "aws_access_key_id", keys->access, sizeof keys->access);
            take(l, "aws_secret_access_key", keys->secret, sizeof keys->secret);
            take(l, "aws_session_token", keys->token, sizeof keys->token);
        }
    }
    return keys->access[0] != '\0' && keys->secret[0] != '\0';
}

static bool from_file(struct exp_aws_keys *keys)
{
    struct ebb_file_view view;
    char path[4096];
    const char *named = env("AWS_SHARED_CREDENTIALS_FILE"), *home = env("HOME");
    const char *profile = env("AWS_PROFILE");
    snprintf(path, sizeof path, "%s%s",
             named != NULL  ? named
             : home != NULL ? home
                            : "",
             named != NULL ? "" : "/.aws/credentials");
    if (ebb_file_view_open(&view, path, PROFILE_FILE_MAX, NULL) != EBB_OK)
        return false;
    bool is_there =
        exp_aws_read_profile(view.data, view.length, profile != NULL ? profile : "default", keys);
    ebb_file_view_close(&view);
    return is_there;
}

/* ---- metadata services ---- */

struct question {
    const char *method, *url;
    const char *headers[1];
    size_t header_count;
};

static bool ask(struct exp_remote *r, const struct question *q, struct exp_http_answer *answer)
{
    struct exp_http_request request = {.method = q->method,
                                       .url = q->url,
                                       .headers = q->headers,
                                       .header_count = q->header_count,
                                       .has_body = strcmp(q->method, "PUT") == 0,
                                       .body = "",
                                       .fd = -1,
                                       .timeout_ms = ASK_MS};
    return exp_http_ask(r->http, &request, answer, NULL) == EBB_OK && answer->status == 200;
}

/* Seconds until a time "2026-01-31T12:00:00Z"; 15 minutes if it is not one. */
static double until(const char *text)
{
    struct tm parts = {0};
    if (strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts) == NULL)
        return 900;
    return difftime(timegm(&parts), time(NULL));
}

static bool read_keys(struct exp_remote *r, const struct exp_http_answer *answer,
                      struct exp_aws_keys *keys)
{
    struct ebb_arena arena;
    const struct ebb_doc_node *root = NULL;
    char fact[EXP_FACT_BYTES + 2 * EXP_AWS_KEY];
    ebb_arena_init(&arena);
    bool is_good = ebb_doc_parse_json(&arena, "credentials", ebb_str_c(&answer->body),
                                      answer->body.length, &root, NULL) == EBB_OK;
    const char *access = ebb_doc_string(root, "AccessKeyId", "");
    const char *secret = ebb_doc_string(root, "SecretAccessKey", "");
    const char *token = ebb_doc_string(root, "Token", "");
    is_good = is_good && access[0] != '\0' && secret[0] != '\0' && strlen(access) < EXP_AWS_KEY &&
              strlen(secret) < EXP_AWS_KEY && strlen(token) < EXP_AWS_TOKEN;
    if (is_good) {
        snprintf(keys->access, sizeof keys->access, "%s", access);
        snprintf(keys->secret, sizeof keys->secret, "%s", secret);
        snprintf(keys->token, sizeof keys->token, "%s", token);
        snprintf(fact, sizeof fact, "%s\n%s\n%s", access, secret, token);
        double left = until(ebb_doc_string(root, "Expiration", "")) - EARLY_S;
        exp_net_learn(r->store->net, FACT, fact, left > 1 ? left : 1);
        exp_net_learn(r->store->net, SOURCE, "yes", 0);
    }
    ebb_arena_fini(&arena);
    return is_good;
}

static bool from_container(struct exp_remote *r, struct exp_http_answer *answer,
                           struct exp_aws_keys *keys)
{
    const char *relative = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token = env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char url[1024], header[EXP_AWS_TOKEN];
    if (relative == NULL && full == NULL)
        return false;
    snprintf(url, sizeof url, "%s%s", relative != NULL ? "http://169.254.170.2" : "",
             relative != NULL ? relative : full);
    snprintf(header, sizeof header, "Authorization: %s", token != NULL ? token : "");
    struct question q = {"GET", url, {header}, token != NULL};
    return ask(r, &q, answer) && read_keys(r, answer, keys);
}

static bool from_machine(struct exp_remote *r, struct exp_http_answer *answer,
                         struct exp_aws_keys *keys)
{
    const char *off = env("AWS_EC2_METADATA_DISABLED");
    const char *base = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    char url[1024], header[1200] = "", role[256];
    if (off != NULL && strcmp(off, "true") == 0)
        return false;
    base = base != NULL ? base : "http://169.254.169.254";
    int n = (int)strlen(base);
    n -= n > 0 && base[n - 1] == '/';
    snprintf(url, sizeof url, "%.*s/latest/api/token", n, base);
    struct question token = {"PUT", url, {"X-aws-ec2-metadata-token-ttl-seconds: 300"}, 1};
    bool is_second = ask(r, &token, answer);
    if (is_second)
        snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", ebb_str_c(&answer->body));
    struct question names = {"GET", url, {header}, is_second};
    snprintf(url, sizeof url, "%.*s/latest/meta-data/iam/security-credentials/", n, base);
    if (!ask(r, &names, answer))
        return false;
    const char *first = ebb_str_c(&answer->body);
    snprintf(role, sizeof role, "%.*s", (int)strcspn(first, "\r\n"), first);
    snprintf(url, sizeof url, "%.*s/latest/meta-data/iam/security-credentials/%s", n, base, role);
    return role[0] != '\0' && ask(r, &names, answer) && read_keys(r, answer, keys);
}

static bool from_memory(struct exp_remote *r, struct exp_aws_keys *keys)
{
    char fact[EXP_FACT_BYTES + 2 * EXP_AWS_KEY];
    if (!exp_net_recall(r->store->net, FACT, fact, sizeof fact))
        return false;
    const char *secret = strchr(fact, '\n'),
               *token = secret != NULL ? strchr(secret + 1, '\n') : NULL;
    if (token == NULL)
        return false;
    snprintf(keys->access, sizeof keys->access, "%.*s", (int)(secret - fact), fact);
    snprintf(keys->secret, sizeof keys->secret, "%.*s", (int)(token - secret - 1), secret + 1);
    snprintf(keys->token, sizeof keys->token, "%s", token + 1);
    return true;
}

/* ---- all of them, in order ---- */

enum ebb_status exp_aws_keys(struct exp_remote *r, struct exp_aws_keys *keys, struct ebb_error *err)
{
    const struct exp_store *s = r->store;
    const char *access = env("AWS_ACCESS_KEY_ID"), *secret = env("AWS_SECRET_ACCESS_KEY");
    const char *token = env("AWS_SESSION_TOKEN");
    struct exp_http_answer answer;
    *keys = (struct exp_aws_keys){0};
    if (s->access_key != NULL && s->secret_key != NULL) {
        snprintf(keys->access, sizeof keys->access, "%s", s->access_key);
        snprintf(keys->secret, sizeof keys->secret, "%s", s->secret_key);
        return EBB_OK;
    }
    if (access != NULL && secret != NULL) {
        snprintf(keys->access, sizeof keys->access, "%s", access);
        snprintf(keys->secret, sizeof keys->secret, "%s", secret);
        snprintf(keys->token, sizeof keys->token, "%s", token != NULL ? token : "");
        return EBB_OK;
    }
    if (from_file(keys) || from_memory(r, keys))
        return EBB_OK;
    exp_http_answer_init(&answer);
    bool is_found = from_container(r, &answer, keys) || from_machine(r, &answer, keys);
    exp_http_answer_fini(&answer);
    char ignored[8];
    if (!is_found && exp_net_recall(r->store->net, SOURCE, ignored, sizeof ignored))
        return ebb_fail(err, EBB_EIO, "s3: the metadata service that gave keys gives none now");
    return is_found ? EBB_OK
                    : ebb_fail(err, EBB_EINPUT,
                               "no keys: checkpoint_storage has no access_key and secret_key, "
                               "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, "
                               "~/.aws/credentials has no such profile, and no metadata service "
                               "answers");
}

void exp_aws_forget(struct exp_remote *r)
{
    exp_net_learn(r->store->net, FACT, "", 0);
}
