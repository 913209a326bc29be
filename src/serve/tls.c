/* tls.c - TLS as the seal of a wire, by OpenSSL. libssl is loaded when a listener wants it: see
 * base/library.h. The socket is never given to the library: bytes go through memory, so that no
 * write of its own raises SIGPIPE, and a turn never waits. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/heap.h"
#include "base/library.h"
#include "serve/inner.h"

#define SSL_FILE "libssl.so.3"
#define SSL_PACKAGE "libssl3"
#define PIECE 16384

#define CALLS(X)                                                                                   \
    X(TLS_server_method)                                                                           \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_check_private_key)                                                                   \
    X(SSL_CTX_get0_certificate)                                                                    \
    X(SSL_new)                                                                                     \
    X(SSL_free)                                                                                    \
    X(SSL_set_bio)                                                                                 \
    X(SSL_set_accept_state)                                                                        \
    X(SSL_read)                                                                                    \
    X(SSL_write)                                                                                   \
    X(SSL_get_error)

struct serve_tls {
#define X(name) __typeof__(&name) name;
    CALLS(X)
#undef X
    SSL_CTX *context;
};

struct seal {
    const struct serve_tls *tls;
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
};

static enum ebb_status fail(const char *what, const char *file, struct ebb_error *err)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    return ebb_fail(err, EBB_EINPUT, "%s '%s': %s", what, file,
                    why != NULL ? why : "cannot be used");
}

enum ebb_status serve_tls_open(const char *cert, const char *key, struct serve_tls **made,
                               struct ebb_error *err)
{
    struct serve_tls *t;
    EBB_TRY(ebb_new(&t, 1, sizeof *t, err));
#define X(name) {#name, &t->name},
    const struct ebb_library_call calls[] = {CALLS(X)};
#undef X
    enum ebb_status status =
        ebb_library_load(SSL_FILE, SSL_PACKAGE, calls, sizeof calls / sizeof calls[0], err);
    if (status == EBB_OK && (t->context = t->SSL_CTX_new(t->TLS_server_method())) == NULL)
        status = ebb_no_memory(err, PIECE);
    if (status == EBB_OK) {
        ERR_clear_error();
        t->SSL_CTX_ctrl(t->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
        if (t->SSL_CTX_use_certificate_chain_file(t->context, cert) != 1)
            status = fail("tls_cert", cert, err);
        else if (t->SSL_CTX_use_PrivateKey_file(t->context, key, SSL_FILETYPE_PEM) != 1 ||
                 t->SSL_CTX_check_private_key(t->context) != 1)
            status = fail("tls_key", key, err);
    }
    return EBB_HAND_OUT(status, made, t, serve_tls_close);
}

void serve_tls_close(struct serve_tls *t)
{
    if (t == NULL)
        return;
    if (t->context != NULL)
        t->SSL_CTX_free(t->context);
    ebb_free(t);
}

bool serve_tls_is_host(const struct serve_tls *t, const char *name)
{
    X509 *certificate = t->SSL_CTX_get0_certificate(t->context);
    return X509_check_host(certificate, name, 0, 0, NULL) == 1 ||
           X509_check_ip_asc(certificate, name, 0) == 1;
}

/* ---- one connection ---- */

static bool is_waiting(const struct seal *s, int result)
{
    int code = s->tls->SSL_get_error(s->ssl, result);
    return code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE;
}

static bool unseal(void *context, const char *bytes, size_t length, struct ebb_str *in)
{
    struct seal *s = context;
    char piece[PIECE];
    ERR_clear_error();
    if (BIO_write(s->in, bytes, (int)length) != (int)length)
        return false;
    for (;;) {
        int n = s->tls->SSL_read(s->ssl, piece, sizeof piece);
        if (n <= 0)
            return is_waiting(s, n);
        ebb_str_addn(in, piece, (size_t)n);
    }
}

static bool seal(void *context, const char *bytes, size_t length, struct ebb_str *sealed)
{
    struct seal *s = context;
    char piece[PIECE];
    ERR_clear_error();
    for (size_t at = 0; at < length;) {
        size_t part = length - at < ((size_t)1 << 20) ? length - at : (size_t)1 << 20;
        int n = s->tls->SSL_write(s->ssl, bytes + at, (int)part);
        if (n <= 0) /* nothing is said before the handshake: then it fails */
            return false;
        at += (size_t)n;
    }
    for (int n; (n = BIO_read(s->out, piece, sizeof piece)) > 0;)
        ebb_str_addn(sealed, piece, (size_t)n);
    return true;
}

static void destroy(void *context)
{
    struct seal *s = context;
    s->tls->SSL_free(s->ssl);
    ebb_free(s);
}

bool serve_tls_wrap(struct serve_tls *t, struct ebb_wire *wire)
{
    static const struct ebb_wire_seal calls = {unseal, seal, destroy};
    struct seal *s = ebb_calloc(1, sizeof *s);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL *ssl = t->SSL_new(t->context);
    if (s == NULL || in == NULL || out == NULL || ssl == NULL) {
        ebb_free(s);
        BIO_free(in);
        BIO_free(out);
        if (ssl != NULL)
            t->SSL_free(ssl);
        return false;
    }
    t->SSL_set_bio(ssl, in, out);
    t->SSL_set_accept_state(ssl);
    *s = (struct seal){.tls = t, .ssl = ssl, .in = in, .out = out};
    wire->seal = &calls;
    wire->seal_context = s;
    return true;
}
