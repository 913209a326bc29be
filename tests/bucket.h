/* bucket.h - a bucket of Google Cloud Storage in memory, for tests of masters that upload: the part of
 * the JSON API that small files need (media uploads with their CRC-32C, ranged reads, deletion), and
 * a server's bad days. tests/store has whole servers. One for each program. */
#ifndef EBB_TESTS_BUCKET_H
#define EBB_TESTS_BUCKET_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/crypto.h"
#include "base/str.h"

#define BUCKET_OBJECTS 4096

struct bucket {
    pthread_mutex_t lock;
    struct {
        char *name, *data;
        size_t length;
    } objects[BUCKET_OBJECTS];
    size_t count;
    /* bad days */
    atomic_int put_ms, get_ms; /* every answer takes so long */
    atomic_bool is_away;       /* 503 to everybody, */
    atomic_bool is_dead_away;  /* or to those who want the bucket "dead" */
    atomic_int flips;          /* so many reads of manifests arrive with another bit */
    atomic_int reads;          /* so far */
};

static struct bucket bucket = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void bucket_nap(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Under the lock. */
static size_t bucket_find(const char *name)
{
    size_t i = 0;
    while (i < bucket.count && strcmp(bucket.objects[i].name, name) != 0)
        i++;
    return i;
}

static bool bucket_remove(const char *name)
{
    size_t i = bucket_find(name);
    if (i == bucket.count)
        return false;
    free(bucket.objects[i].name);
    free(bucket.objects[i].data);
    bucket.objects[i] = bucket.objects[--bucket.count];
    return true;
}

static void bucket_put(const char *name, char *take_data, size_t length)
{
    (void)bucket_remove(name);
    if (bucket.count == BUCKET_OBJECTS)
        abort();
    bucket.objects[bucket.count].name = strdup(name);
    bucket.objects[bucket.count].data = take_data;
    bucket.objects[bucket.count++].length = length;
}

/* How many objects there are whose names end so. */
static size_t bucket_count(const char *end)
{
    size_t n = 0, k = strlen(end);
    pthread_mutex_lock(&bucket.lock);
    for (size_t i = 0; i < bucket.count; i++) {
        size_t length = strlen(bucket.objects[i].name);
        n += length >= k && strcmp(bucket.objects[i].name + length - k, end) == 0;
    }
    pthread_mutex_unlock(&bucket.lock);
    return n;
}

/* ---- answers ---- */

struct bucket_request {
    char method[8], target[4096];
    long long length, from; /* of the body; of the range, < 0 = none */
    char *body;
};

static void bucket_unescape(char *text)
{
    char *to = text;
    for (; *text != '\0' && *text != '&' && *text != '?'; text++) {
        unsigned value;
        if (*text == '%' && sscanf(text + 1, "%2x", &value) == 1) {
            *to++ = (char)value;
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

static void bucket_answer(struct ebb_str *out, const char *status, const char *data, size_t length)
{
    ebb_str_printf(out, "HTTP/1.1 %s\r\nETag: 1\r\nContent-Length: %zu\r\n\r\n", status, length);
    ebb_str_addn(out, data, length);
}

static void bucket_take(struct bucket_request *q, char *name, struct ebb_str *out)
{
    struct ebb_str text = {0}, sum = {0};
    uint32_t crc = ebb_crc32c_add(0, q->body, (size_t)q->length);
    uint8_t big[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8),
                      (uint8_t)crc};
    ebb_base64_add(&sum, big, 4);
    ebb_str_printf(&text, "{\"size\": \"%lld\", \"crc32c\": \"%s\"}", q->length, ebb_str_c(&sum));
    bucket_unescape(name);
    pthread_mutex_lock(&bucket.lock);
    bucket_put(name, q->body, (size_t)q->length);
    pthread_mutex_unlock(&bucket.lock);
    q->body = NULL;
    bucket_answer(out, "200 OK", ebb_str_c(&text), text.length);
    ebb_str_fini(&text);
    ebb_str_fini(&sum);
}

static void bucket_give(const struct bucket_request *q, char *name, struct ebb_str *out)
{
    bool is_read = strcmp(q->method, "GET") == 0;
    bucket_unescape(name);
    pthread_mutex_lock(&bucket.lock);
    size_t i = bucket_find(name), at = q->from > 0 ? (size_t)q->from : 0;
    if (i == bucket.count) {
        bucket_answer(out, "404 Not Found", "", 0);
    } else if (is_read) {
        size_t length = bucket.objects[i].length;
        bucket_answer(out, q->from >= 0 ? "206 Partial Content" : "200 OK",
                      bucket.objects[i].data + at, length - at);
        atomic_fetch_add(&bucket.reads, 1);
        if (strstr(name, "/manifest.json") != NULL && atomic_fetch_sub(&bucket.flips, 1) > 0)
            out->data[out->length - 20] ^= 4;
    } else {
        (void)bucket_remove(name);
        ebb_str_add(out, "HTTP/1.1 204 No Content\r\n\r\n");
    }
    pthread_mutex_unlock(&bucket.lock);
}

static void bucket_handle(struct bucket_request *q, struct ebb_str *out)
{
    char *name = strstr(q->target, "&name="), *object = strstr(q->target, "/o/");
    bool is_put = strcmp(q->method, "POST") == 0;
    if (atomic_load(&bucket.is_away) ||
        (atomic_load(&bucket.is_dead_away) && strstr(q->target, "/b/dead/") != NULL))
        bucket_answer(out, "503 Service Unavailable", "", 0);
    else if (is_put && name != NULL)
        bucket_take(q, name + 6, out);
    else if (object != NULL)
        bucket_give(q, object + 3, out);
    else
        bucket_answer(out, "400 Bad Request", "", 0);
    bucket_nap(atomic_load(is_put ? &bucket.put_ms : &bucket.get_ms));
}

/* ---- connections ---- */

static bool bucket_read(FILE *in, struct bucket_request *q)
{
    char line[8192];
    *q = (struct bucket_request){.from = -1};
    if (fgets(line, sizeof line, in) == NULL ||
        sscanf(line, "%7s %4095s", q->method, q->target) != 2)
        return false;
    while (fgets(line, sizeof line, in) != NULL && line[0] != '\r') {
        (void)sscanf(line, "Content-Length: %lld", &q->length);
        (void)sscanf(line, "range: bytes=%lld-", &q->from);
    }
    q->body = malloc((size_t)q->length + 1);
    return q->body != NULL && fread(q->body, 1, (size_t)q->length, in) == (size_t)q->length;
}

static void *bucket_talk(void *context)
{
    int fd = (int)(intptr_t)context;
    FILE *in = fdopen(fd, "r");
    struct bucket_request q = {0};
    while (bucket_read(in, &q)) {
        struct ebb_str out = {0};
        bucket_handle(&q, &out);
        bool is_sent = send(fd, out.data, out.length, MSG_NOSIGNAL) == (ssize_t)out.length;
        ebb_str_fini(&out);
        free(q.body);
        q.body = NULL;
        if (!is_sent)
            break;
    }
    free(q.body);
    fclose(in);
    return NULL;
}

static void *bucket_listen(void *context)
{
    int fd = (int)(intptr_t)context;
    for (int one; (one = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, bucket_talk, (void *)(intptr_t)one) == 0)
            pthread_detach(thread);
    }
    return NULL;
}

/* From now on STORAGE_EMULATOR_HOST is this one; it lives as long as the program. */
static int bucket_begin(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    char text[64];
    pthread_t thread;
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 64) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0 ||
        pthread_create(&thread, NULL, bucket_listen, (void *)(intptr_t)fd) != 0)
        return -1;
    snprintf(text, sizeof text, "http://127.0.0.1:%u", ntohs(address.sin_port));
    setenv("STORAGE_EMULATOR_HOST", text, 1);
    setenv("HOME", "/nonexistent", 1); /* no credentials */
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    unsetenv("http_proxy");
    return pthread_detach(thread);
}

/* As it was, and empty. */
static void bucket_clear(void)
{
    atomic_store(&bucket.put_ms, 0);
    atomic_store(&bucket.get_ms, 0);
    atomic_store(&bucket.is_away, false);
    atomic_store(&bucket.is_dead_away, false);
    atomic_store(&bucket.flips, 0);
    pthread_mutex_lock(&bucket.lock);
    while (bucket.count > 0)
        (void)bucket_remove(bucket.objects[0].name);
    pthread_mutex_unlock(&bucket.lock);
}

#endif
