/* google.c - see google.h. */
#include "exp/store/google.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/doc.h"
#include "exp/store/sigv4.h"

#define FACT "google token"
#define SCOPE "https://www.googleapis.com/auth/devstorage.read_write"
#define TOKEN_URI "https://oauth2.googleapis.com/token"
#define EARLY_S 300
#define ASK_MS 10000
#define METADATA_MS 2000

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* ---- asking for one ---- */

/* The answer of a token endpoint: kept, and given. */
static enum ebb_status read_token(struct exp_remote *r, const struct exp_http_answer *answer,
                                  const char *where, char token[EXP_TOKEN], struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root = NULL;
    enum ebb_status status = EBB_OK;
    (void)ebb_doc_parse_json(&arena, "token", ebb_str_c(&answer->body), answer->body.length, &root,
                             NULL);
    const char *text = ebb_doc_string(root, "access_token", "");
    if (answer->status != 200 || text[0] == '\0' || strlen(text) >= EXP_TOKEN) {
        status = ebb_fail(err, exp_http_is_passing(answer->status) ? EBB_EIO : EBB_EINPUT,
                          "gcs: %s gives no token: %d %s: %s", where, answer->status,
                          ebb_doc_string(root, "error", ""),
                          ebb_doc_string(root, "error_description", ""));
    } else {
        double left = ebb_doc_double(root, "expires_in", 3600) - EARLY_S;
        snprintf(token, EXP_TOKEN, "%s", text);
        exp_net_learn(r->store->net, FACT, text, left > 1 ? left : 1);
    }
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status post(struct exp_remote *r, const char *url, const struct ebb_str *form,
                            char token[EXP_TOKEN], struct ebb_error *err)
{
    static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded"};
    struct exp_http_answer answer;
    const char *file = env("SSL_CERT_FILE");
    EBB_TRY(ebb_str_status(form, err));
    struct exp_http_request request = {.method = "POST",
                                       .url = url,
                                       .headers = headers,
                                       .header_count = 1,
                                       .has_body = true,
                                       .body = ebb_str_c(form),
                                       .bytes = (int64_t)form->length,
                                       .fd = -1,
                                       .authorities = file,
                                       .timeout_ms = ASK_MS};
    exp_http_answer_init(&answer);
    enum ebb_status status = exp_http_ask(r->http, &request, &answer, err);
    EBB_THEN(status, read_token(r, &answer, url, token, err));
    exp_http_answer_fini(&answer);
    return status;
}

/* ---- a service account: a signed claim ---- */

static void add_base64url(struct ebb_str *out, const void *bytes, size_t count)
{
    size_t from = out->length;
    ebb_base64_add(out, bytes, count);
    for (size_t i = from; i < out->length; i++)
        out->data[i] = out->data[i] == '+' ? '-' : out->data[i] == '/' ? '_' : out->data[i];
    while (out->length > from && out->data[out->length - 1] == '=')
        out->data[--out->length] = '\0';
}

static void add_json(struct ebb_str *out, const struct ebb_str *text)
{
    add_base64url(out, ebb_str_c(text), text->length);
}

static enum ebb_status sign_claim(const struct ebb_doc_node *file, const char *uri,
                                  struct ebb_str *out, struct ebb_error *err)
{
    struct ebb_str text = {0}, signature = {0};
    struct ebb_json_writer w;
    const char *key_id = ebb_doc_string(file, "private_key_id", NULL);
    ebb_jsonw_init(&w, &text, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "alg", "RS256");
    ebb_jsonw_key_string(&w, "typ", "JWT");
    if (key_id != NULL)
        ebb_jsonw_key_string(&w, "kid", key_id);
    ebb_jsonw_object_end(&w);
    add_json(out, &text);
    ebb_str_addc(out, '.');
    ebb_str_clear(&text);
    int64_t now = (int64_t)time(NULL);
    ebb_jsonw_init(&w, &text, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "iss", ebb_doc_string(file, "client_email", ""));
    ebb_jsonw_key_string(&w, "scope", SCOPE);
    ebb_jsonw_key_string(&w, "aud", uri);
    ebb_jsonw_key_int(&w, "iat", now);
    ebb_jsonw_key_int(&w, "exp", now + 3600);
    ebb_jsonw_object_end(&w);
    add_json(out, &text);
    enum ebb_status status = ebb_str_status(out, err);
    EBB_THEN(status, ebb_rs256_sign(ebb_doc_string(file, "private_key", ""), ebb_str_c(out),
                                    &signature, err));
    ebb_str_addc(out, '.');
    add_base64url(out, ebb_str_c(&signature), signature.length);
    ebb_str_fini(&text);
    ebb_str_fini(&signature);
    return status;
}

static enum ebb_status from_service(struct exp_remote *r, const struct ebb_doc_node *file,
                                    char token[EXP_TOKEN], struct ebb_error *err)
{
    struct ebb_str form = {0};
    const char *uri = ebb_doc_string(file, "token_uri", TOKEN_URI);
    ebb_str_add(&form,
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=");
    struct ebb_str claim = {0};
    enum ebb_status status = sign_claim(file, uri, &claim, err);
    ebb_str_add(&form, ebb_str_c(&claim));
    EBB_THEN(status, post(r, uri, &form, token, err));
    ebb_str_fini(&claim);
    ebb_str_fini(&form);
    return status;
}

/* ---- an authorised user: a refresh token ---- */

static enum ebb_status from_user(struct exp_remote *r, const struct ebb_doc_node *file,
                                 char token[EXP_TOKEN], struct ebb_error *err)
{
    static const char *const names[] = {"client_id", "client_secret", "refresh_token"};
    struct ebb_str form = {0};
    ebb_str_add(&form, "grant_type=refresh_token");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ebb_str_printf(&form, "&%s=", names[i]);
        exp_url_escape(&form, ebb_doc_string(file, names[i], ""), false);
    }
    enum ebb_status status =
        post(r, ebb_doc_string(file, "token_uri", TOKEN_URI), &form, token, err);
    if (form.data != NULL)
        explicit_bzero(form.data, form.length);
    ebb_str_fini(&form);
    return status;
}

/* ---- in order ---- */

static enum ebb_status from_file(struct exp_remote *r, const char *path, char token[EXP_TOKEN],
                                 struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root = NULL;
    char json[4096];
    snprintf(json, sizeof json, "%s", path);
    enum ebb_status status = ebb_doc_load(&arena, json, &root, err);
    const char *type = ebb_doc_string(root, "type", "");
    if (status == EBB_OK && strcmp(type, "service_account") == 0)
        status = from_service(r, root, token, err);
    else if (status == EBB_OK && strcmp(type, "authorized_user") == 0)
        status = from_user(r, root, token, err);
    else if (status == EBB_OK)
        status = ebb_fail(err, EBB_EINPUT,
                          "gcs: %s: credentials of type \"%s\"; known are service_account and "
                          "authorized_user",
                          path, type);
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status from_machine(struct exp_remote *r, char token[EXP_TOKEN],
                                    struct ebb_error *err)
{
    static const char *const headers[] = {"Metadata-Flavor: Google"};
    const char *host = env("GCE_METADATA_HOST");
    char url[512];
    struct exp_http_answer answer;
    snprintf(url, sizeof url,
             "http://%s/computeMetadata/v1/instance/service-accounts/default/token",
             host != NULL ? host : "metadata.google.internal");
    struct exp_http_request request = {.method = "GET",
                                       .url = url,
                                       .headers = headers,
                                       .header_count = 1,
                                       .fd = -1,
                                       .timeout_ms = METADATA_MS};
    exp_http_answer_init(&answer);
    enum ebb_status status = exp_http_ask(r->http, &request, &answer, NULL);
    if (status == EBB_OK)
        status = read_token(r, &answer, "the metadata server", token, err);
    else
        status =
            ebb_fail(err, EBB_EINPUT,
                     "gcs: no credentials: GOOGLE_APPLICATION_CREDENTIALS is not set, there is "
                     "no ~/.config/gcloud/application_default_credentials.json, and no metadata "
                     "server answers");
    exp_http_answer_fini(&answer);
    return status;
}

enum ebb_status exp_google_token(struct exp_remote *r, char token[EXP_TOKEN], struct ebb_error *err)
{
    const char *named = env("GOOGLE_APPLICATION_CREDENTIALS"), *home = env("HOME");
    char path[4096];
    if (exp_net_recall(r->store->net, FACT, token, EXP_TOKEN))
        return EBB_OK;
    if (named != NULL)
        return from_file(r, named, token, err);
    snprintf(path, sizeof path, "%s/.config/gcloud/application_default_credentials.json",
             home != NULL ? home : "");
    if (access(path, R_OK) == 0)
        return from_file(r, path, token, err);
    if (env("STORAGE_EMULATOR_HOST") != NULL && env("GCE_METADATA_HOST") == NULL) {
        token[0] = '\0'; /* an emulator asks for none */
        return EBB_OK;
    }
    return from_machine(r, token, err);
}

void exp_google_forget(struct exp_remote *r)
{
    exp_net_learn(r->store->net, FACT, "", 0);
}
