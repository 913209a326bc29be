/* stream.c - server-sent events: what changed, for as long as somebody listens. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "serve/inner.h"

#define QUIET_NS 15000000000ull /* then a comment proves that both ends are there */
#define PACE_NS                                                                                    \
    100000000ull /* from one round of news to the next: under load a turn takes 1 ms, and
                                   to wake twenty pages in each of them costs what the trials need */

/* A parameter of a stream; what is no number counts as absent. */
static int64_t number_of(const char *target, const char *name, int64_t fallback)
{
    char *text = serve_http_query(target, name);
    if (text != NULL)
        (void)ebb_parse_i64(text, &fallback);
    ebb_free(text);
    return fallback;
}

void serve_stream_begin(struct serve *s, struct serve_conn *c, const char *target,
                        struct serve_http_text last_event)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
                               "Connection: close\r\n";
    static const char hello[] = "\r\n: hello\n\n";
    char last[32] = "";
    int64_t value = number_of(target, "after", -1);
    snprintf(last, sizeof last, "%.*s", (int)(last_event.length < 31 ? last_event.length : 31),
             last_event.at != NULL ? last_event.at : "");
    (void)ebb_parse_i64(last, &value); /* where a browser that lost its stream goes on */
    c->is_stream = true;
    int64_t latest = exp_master_info(s->m).last_notice;
    c->stream_after = value < 0 ? latest : value <= latest ? value : 0; /* a clock was set back */
    c->due_ns = exp_master_info(s->m).now_ns + QUIET_NS;
    ebb_free(c->waiting);
    c->waiting = ebb_strdup(target);
    ebb_wire_say(&c->wire, head, sizeof head - 1);
    if (c->is_tcp)
        ebb_wire_say(&c->wire, serve_http_guards, strlen(serve_http_guards));
    ebb_wire_say(&c->wire, hello, sizeof hello - 1);
}

uint64_t serve_stream_due(const struct serve *s, const struct serve_conn *c)
{
    bool has_news = c->stream_after < exp_master_info(s->m).last_notice;
    return has_news && s->streams_ns < c->due_ns ? s->streams_ns : c->due_ns;
}

static void say(struct serve_conn *c, int64_t id, bool is_cut, const struct ebb_str *list,
                size_t count)
{
    struct ebb_str out = {0};
    if (is_cut) /* some are forgotten: read everything again */
        ebb_str_printf(&out, "id: %lld\nevent: cut\ndata: {}\n\n", (long long)id);
    if (count > 0) {
        ebb_str_printf(&out, "id: %lld\ndata: ", (long long)id);
        ebb_str_addn(&out, ebb_str_c(list), list->length);
        ebb_str_add(&out, "\n\n");
    }
    ebb_wire_say(&c->wire, ebb_str_c(&out), out.length);
    c->wire.is_broken |= out.failed;
    ebb_str_fini(&out);
}

void serve_stream_doubt(struct serve *s)
{
    for (size_t i = 0; i < s->conn_count; i++)
        if (s->conns[i]->is_stream)
            s->conns[i]->due_ns = 0;
}

/* Nothing for a while: is somebody there, and may they still? */
static void prove(struct serve *s, struct serve_conn *c)
{
    static const char still[] = ": still here\n\n";
    if (c->is_tcp && !serve_gate_is_known(s, c))
        c->wire.is_dead = true;
    else
        ebb_wire_say(&c->wire, still, sizeof still - 1);
    c->due_ns = exp_master_info(s->m).now_ns + QUIET_NS;
}

static void send_news(struct serve *s, struct serve_conn *c)
{
    struct ebb_str list = {0};
    struct ebb_json_writer w;
    size_t count;
    bool is_cut;
    const char *target = c->waiting != NULL ? c->waiting : "";
    char *types = serve_http_query(target, "types");
    struct exp_notice_filter filter = {.experiment_id = number_of(target, "experiment_id", 0),
                                       .trial_id = number_of(target, "trial_id", 0),
                                       .types = types};
    ebb_jsonw_init(&w, &list, 0);
    ebb_jsonw_array(&w);
    c->stream_after = exp_notices_write(s->m, c->stream_after, &filter, &w, &count, &is_cut);
    ebb_jsonw_array_end(&w);
    ebb_free(types);
    if (list.failed)
        c->wire.is_broken = true;
    else if (count > 0 || is_cut)
        say(c, c->stream_after, is_cut, &list, count);
    ebb_str_fini(&list);
}

void serve_stream_send_all(struct serve *s)
{
    struct exp_master_info info = exp_master_info(s->m);
    bool is_round = false;
    for (size_t i = 0; i < s->conn_count; i++) {
        struct serve_conn *c = s->conns[i];
        if (!c->is_stream)
            continue;
        if (info.now_ns >= c->due_ns)
            prove(s, c);
        if (!c->wire.is_dead && c->stream_after < info.last_notice &&
            info.now_ns >= s->streams_ns) {
            send_news(s, c);
            is_round = true;
        }
    }
    if (is_round)
        s->streams_ns = info.now_ns + PACE_NS;
}
