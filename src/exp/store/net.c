/* net.c - see net.h. */
#include "exp/store/net.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"

struct fact {
    char *key, *value;
    uint64_t until_ns; /* monotonic */
    struct fact *next;
};

struct exp_store_net {
    pthread_mutex_t lock;
    struct exp_http *http;
    int patience_s;
    struct fact *facts;
};

enum ebb_status exp_store_net_create(struct exp_store_net **net, struct ebb_error *err)
{
    struct exp_store_net *made = ebb_calloc(1, sizeof *made);
    if (made == NULL)
        return ebb_no_memory(err, sizeof *made);
    pthread_mutex_init(&made->lock, NULL);
    *net = made;
    return EBB_OK;
}

void exp_store_net_set_patience(struct exp_store_net *net, int seconds)
{
    net->patience_s = seconds;
}

static void free_fact(struct fact *f)
{
    if (f->value != NULL)
        explicit_bzero(f->value, strlen(f->value)); /* may be a token */
    ebb_free(f->key);
    ebb_free(f->value);
    ebb_free(f);
}

void exp_store_net_destroy(struct exp_store_net *net)
{
    if (net == NULL)
        return;
    exp_http_destroy(net->http);
    while (net->facts != NULL) {
        struct fact *next = net->facts->next;
        free_fact(net->facts);
        net->facts = next;
    }
    pthread_mutex_destroy(&net->lock);
    ebb_free(net);
}

enum ebb_status exp_net_http(struct exp_store_net *net, struct exp_http **http,
                             struct ebb_error *err)
{
    if (net == NULL)
        return ebb_fail(err, EBB_EUNSUPPORTED, "the store is not reached from here");
    pthread_mutex_lock(&net->lock);
    enum ebb_status status =
        net->http != NULL ? EBB_OK : exp_http_create(&net->http, net->patience_s, err);
    *http = net->http;
    pthread_mutex_unlock(&net->lock);
    return status;
}

bool exp_net_recall(struct exp_store_net *net, const char *key, char *buf, size_t size)
{
    uint64_t now = ebb_clock_ns();
    buf[0] = '\0';
    pthread_mutex_lock(&net->lock);
    for (const struct fact *f = net->facts; f != NULL; f = f->next)
        if (strcmp(f->key, key) == 0 && now < f->until_ns)
            snprintf(buf, size, "%s", f->value);
    pthread_mutex_unlock(&net->lock);
    return buf[0] != '\0';
}

void exp_net_learn(struct exp_store_net *net, const char *key, const char *value, double seconds)
{
    pthread_mutex_lock(&net->lock);
    for (struct fact **at = &net->facts; *at != NULL; at = &(*at)->next)
        if (strcmp((*at)->key, key) == 0) {
            struct fact *old = *at;
            *at = old->next;
            free_fact(old);
            break;
        }
    struct fact *f = value[0] != '\0' ? ebb_calloc(1, sizeof *f) : NULL;
    if (f != NULL) {
        f->key = ebb_strdup(key);
        f->value = ebb_strdup(value);
        f->until_ns = seconds > 0 ? ebb_clock_ns() + (uint64_t)(seconds * 1e9) : UINT64_MAX;
        f->next = net->facts;
        if (f->key != NULL && f->value != NULL)
            net->facts = f;
        else
            free_fact(f); /* learned again when needed */
    }
    pthread_mutex_unlock(&net->lock);
}
