/* link.c - the thread that talks to the master (link.h tells the rules). */
#include "worker/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/doc.h"
#include "base/heap.h"
#include "base/str.h"
#include "base/wire.h"
#include "worker/worker.h"

#define LINE_MAX_BYTES ((size_t)16 << 20) /* longer ones are no message of ours */
#define RETRY_NS 200000000u               /* between attempts to connect */
#define HELLO_NS 1000000000u              /* between HELLOs until one is accepted */
#define CLOSE_NS 2000000000u

struct answer {
    int64_t seq; /* 0: no acknowledgement comes */
    char *line;  /* owned, ends in newline */
};

enum link_state { LINK_DOWN, LINK_GREETING, LINK_UP };

struct worker_link {
    /* Set before the thread starts, constant afterwards. */
    struct worker_link_options options;
    int wake; /* eventfd: the trial's thread has something */
    int term; /* signalfd for SIGTERM */
    pthread_t thread;

    /* Owned by the thread. */
    struct ebb_wire wire;
    uint64_t down_since_ns, last_hello_ns, last_beat_ns;

    /* Behind the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum link_state state;
    bool is_lost, is_closing, should_stop;
    struct answer *outbox;
    size_t outbox_count, outbox_capacity, outbox_sent;
    char **inbox; /* RUN lines not yet taken */
    size_t inbox_count, inbox_capacity;
    int64_t batch;
};

static uint64_t seconds_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

/* ---- the thread: sending and receiving ---- */

static void drop_connection(struct worker_link *l)
{
    ebb_wire_fini(&l->wire);
    ebb_wire_init(&l->wire, -1);
    l->down_since_ns = ebb_clock_ns();
    pthread_mutex_lock(&l->lock);
    l->state = LINK_DOWN;
    l->outbox_sent = 0; /* L1 */
    pthread_mutex_unlock(&l->lock);
}

static bool try_connect(struct worker_link *l)
{
    struct sockaddr_un address;
    struct ebb_error err;
    int directory;
    if (ebb_wire_address(&address, l->options.path, &directory, &err) != EBB_OK)
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int result = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, sizeof address);
    if (directory >= 0)
        close(directory);
    if (result != 0) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    l->wire.fd = fd;
    l->last_hello_ns = 0;
    return true;
}

static void say_hello(struct worker_link *l, uint64_t now)
{
    struct ebb_str line = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &line, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "type", "HELLO");
    ebb_jsonw_key_int(&w, "protocol", WORKER_PROTOCOL);
    ebb_jsonw_key_string(&w, "allocation", l->options.allocation);
    ebb_jsonw_key_int(&w, "trial_id", l->options.trial_id);
    ebb_jsonw_object_end(&w);
    ebb_str_addc(&line, '\n');
    l->wire.is_broken |= line.failed;
    ebb_wire_say(&l->wire, ebb_str_c(&line), line.length);
    ebb_str_fini(&line);
    l->last_hello_ns = now;
}

/* Lock held. */
static void add_line(struct worker_link *l, const char *line, size_t length)
{
    struct ebb_error err;
    char *copy = ebb_strndup(line, length);
    if (copy == NULL || ebb_grow(&l->inbox, &l->inbox_capacity, l->inbox_count + 1,
                                 sizeof *l->inbox, &err) != EBB_OK) {
        ebb_free(copy); /* the master asks again after a reconnect */
        return;
    }
    l->inbox[l->inbox_count++] = copy;
}

/* Lock held. An answer that was asked for again is there as often. */
static void acknowledge(struct worker_link *l, int64_t seq)
{
    size_t kept = 0, sent = l->outbox_sent;
    for (size_t i = 0; i < l->outbox_count; i++) {
        if (l->outbox[i].seq == seq) {
            ebb_free(l->outbox[i].line);
            l->outbox_sent -= i < sent ? 1 : 0;
        } else {
            l->outbox[kept++] = l->outbox[i];
        }
    }
    l->outbox_count = kept;
}

/* One line from the master. What is not understood is told on stderr (the trial's log) and skipped:
 * a newer master may say more than this program knows. */
static void receive(struct worker_link *l, const char *line, size_t length)
{
    struct ebb_arena arena = {0};
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    if (ebb_doc_parse_json(&arena, "master", line, length, &root, &err) != EBB_OK) {
        fprintf(stderr, "ebb worker: skipped a line of the master: %s\n", err.message);
        ebb_arena_fini(&arena);
        return;
    }
    const char *type = ebb_doc_string(root, "type", "");
    if (strcmp(type, "REFUSED") == 0)
        fprintf(stderr, "ebb worker: refused: %s\n", ebb_doc_string(root, "reason", ""));
    pthread_mutex_lock(&l->lock);
    if (strcmp(type, "RENDEZVOUS") == 0)
        l->state = LINK_UP;
    else if (strcmp(type, "RUN") == 0)
        add_line(l, line, length);
    else if (strcmp(type, "ACK") == 0)
        acknowledge(l, ebb_doc_int(root, "seq", 0));
    else if (strcmp(type, "PREEMPT") == 0)
        l->should_stop = true;
    else if (strcmp(type, "REFUSED") == 0)
        l->is_lost = true; /* this process is no longer wanted */
    else
        fprintf(stderr, "ebb worker: skipped a message of type '%s'\n", type);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    ebb_arena_fini(&arena);
}

static void hear(struct worker_link *l)
{
    struct ebb_error err;
    size_t left;
    const char *at, *eol;
    if (ebb_wire_hear(&l->wire, &err) != EBB_OK)
        return; /* it is broken */
    while (at = ebb_wire_at(&l->wire, &left), (eol = memchr(at, '\n', left)) != NULL) {
        if (eol > at)
            receive(l, at, (size_t)(eol - at));
        ebb_wire_used(&l->wire, (size_t)(eol - at) + 1);
    }
    l->wire.is_broken |= left > LINE_MAX_BYTES;
}

/* Say what is due: HELLO, answers, heartbeat. */
static void fill_out(struct worker_link *l, uint64_t now)
{
    pthread_mutex_lock(&l->lock);
    bool is_up = l->state == LINK_UP;
    for (; is_up && l->outbox_sent < l->outbox_count; l->outbox_sent++)
        ebb_wire_say(&l->wire, l->outbox[l->outbox_sent].line,
                     strlen(l->outbox[l->outbox_sent].line));
    if (is_up)
        acknowledge(l, 0);
    int64_t batch = l->batch;
    if (l->state == LINK_DOWN)
        l->state = LINK_GREETING;
    pthread_mutex_unlock(&l->lock);
    if (!is_up && (l->last_hello_ns == 0 || now - l->last_hello_ns >= HELLO_NS))
        say_hello(l, now);
    if (is_up && now - l->last_beat_ns >= seconds_ns(l->options.heartbeat_s)) {
        char line[80];
        int n = snprintf(line, sizeof line, "{\"type\": \"HEARTBEAT\", \"batch\": %lld}\n",
                         (long long)batch);
        ebb_wire_say(&l->wire, line, (size_t)n);
        l->last_beat_ns = now;
    }
}

static void give_up(struct worker_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->is_lost = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* True: leave now. */
static bool is_finished(struct worker_link *l, uint64_t now, uint64_t *closing_since)
{
    pthread_mutex_lock(&l->lock);
    bool is_closing = l->is_closing;
    bool is_idle = (l->outbox_count == 0 && !ebb_wire_has_out(&l->wire)) || l->is_lost;
    pthread_mutex_unlock(&l->lock);
    if (!is_closing)
        return false;
    if (*closing_since == 0)
        *closing_since = now;
    return is_idle || now - *closing_since >= CLOSE_NS;
}

static void wait_for_events(struct worker_link *l)
{
    struct pollfd fds[3] = {
        {.fd = l->wake, .events = POLLIN},
        {.fd = l->term, .events = POLLIN},
        {.fd = l->wire.fd, .events = (short)(POLLIN | (ebb_wire_has_out(&l->wire) ? POLLOUT : 0))},
    };
    if (poll(fds, l->wire.fd >= 0 ? 3 : 2, (int)(RETRY_NS / 1000000)) < 0)
        return;
    uint64_t count;
    if ((fds[0].revents & POLLIN) != 0 && read(l->wake, &count, sizeof count) < 0)
        return;
    struct signalfd_siginfo info;
    if ((fds[1].revents & POLLIN) != 0 && read(l->term, &info, sizeof info) > 0) {
        fprintf(stderr, "ebb worker: SIGTERM: ending after the current batch\n");
        give_up(l);
    }
    if (l->wire.fd < 0)
        return;
    if ((fds[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        hear(l);
    if ((fds[2].revents & POLLOUT) != 0)
        ebb_wire_flush(&l->wire, -1);
    if (l->wire.is_broken)
        drop_connection(l);
}

static void *serve(void *context)
{
    struct worker_link *l = context;
    uint64_t closing_since = 0;
    for (;;) {
        uint64_t now = ebb_clock_ns();
        if (is_finished(l, now, &closing_since))
            break;
        if (l->wire.fd < 0 && !try_connect(l) &&
            now - l->down_since_ns >= seconds_ns(l->options.patience_s))
            give_up(l);
        if (l->wire.fd >= 0) {
            fill_out(l, now);
            ebb_wire_flush(&l->wire, -1);
            if (l->wire.is_broken)
                drop_connection(l);
        }
        wait_for_events(l);
    }
    drop_connection(l);
    return NULL;
}

/* ---- the trial's side ---- */

static void wake(struct worker_link *l)
{
    uint64_t one = 1;
    /* A full counter wakes as well. */
    ssize_t ignored = write(l->wake, &one, sizeof one);
    (void)ignored;
}

static void destroy(struct worker_link *l)
{
    if (l->wake >= 0)
        close(l->wake);
    if (l->term >= 0)
        close(l->term);
    for (size_t i = 0; i < l->outbox_count; i++)
        ebb_free(l->outbox[i].line);
    for (size_t i = 0; i < l->inbox_count; i++)
        ebb_free(l->inbox[i]);
    ebb_free(l->outbox);
    ebb_free(l->inbox);
    ebb_wire_fini(&l->wire);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    ebb_free(l);
}

/* Processes that the trial starts must still end when they are told to. */
static void unblock_term(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

enum ebb_status worker_link_open(struct worker_link **link,
                                 const struct worker_link_options *options, struct ebb_error *err)
{
    struct worker_link *l;
    EBB_TRY(ebb_new(&l, 1, sizeof *l, err));
    l->options = *options;
    ebb_wire_init(&l->wire, -1);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->down_since_ns = ebb_clock_ns();
    l->last_beat_ns = l->down_since_ns;
    /* SIGTERM is taken from a descriptor; blocked here, before any other thread starts. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_atfork(NULL, NULL, unblock_term);
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->term = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->wake < 0 || l->term < 0 || pthread_create(&l->thread, NULL, serve, l) != 0) {
        destroy(l);
        return ebb_fail(err, EBB_EIO, "cannot start the connection thread: %s", strerror(errno));
    }
    *link = l;
    return EBB_OK;
}

void worker_link_close(struct worker_link *link)
{
    if (link == NULL)
        return;
    pthread_mutex_lock(&link->lock);
    link->is_closing = true;
    pthread_mutex_unlock(&link->lock);
    wake(link);
    pthread_join(link->thread, NULL);
    destroy(link);
}

static enum ebb_status lost(const struct worker_link *l, struct ebb_error *err)
{
    return ebb_fail(err, EBB_ECANCELED, "the master at %s is gone, or asked this process to end",
                    l->options.path);
}

enum ebb_status worker_link_next(struct worker_link *link, char **line, struct ebb_error *err)
{
    pthread_mutex_lock(&link->lock);
    while (link->inbox_count == 0 && !link->is_lost)
        pthread_cond_wait(&link->changed, &link->lock);
    if (link->is_lost) {
        pthread_mutex_unlock(&link->lock);
        return lost(link, err);
    }
    *line = link->inbox[0];
    link->inbox_count--;
    memmove(link->inbox, link->inbox + 1, link->inbox_count * sizeof *link->inbox);
    pthread_mutex_unlock(&link->lock);
    return EBB_OK;
}

enum ebb_status worker_link_answer(struct worker_link *link, int64_t seq, const char *line,
                                   struct ebb_error *err)
{
    size_t length = strlen(line);
    char *copy = ebb_alloc(length + 2);
    if (copy == NULL)
        return ebb_no_memory(err, length + 2);
    memcpy(copy, line, length);
    memcpy(copy + length, "\n", 2);
    pthread_mutex_lock(&link->lock);
    enum ebb_status status = ebb_grow(&link->outbox, &link->outbox_capacity, link->outbox_count + 1,
                                      sizeof *link->outbox, err);
    if (status == EBB_OK)
        link->outbox[link->outbox_count++] = (struct answer){.seq = seq, .line = copy};
    else
        ebb_free(copy);
    pthread_mutex_unlock(&link->lock);
    wake(link);
    return status;
}

enum ebb_status worker_link_batch(struct worker_link *link, int64_t batch, struct ebb_error *err)
{
    pthread_mutex_lock(&link->lock);
    link->batch = batch;
    while (link->state != LINK_UP && !link->is_lost)
        pthread_cond_wait(&link->changed, &link->lock);
    bool is_lost = link->is_lost;
    pthread_mutex_unlock(&link->lock);
    return is_lost ? lost(link, err) : EBB_OK;
}

static bool ask(struct worker_link *l, const bool *what)
{
    pthread_mutex_lock(&l->lock);
    bool answer = *what || l->is_lost;
    pthread_mutex_unlock(&l->lock);
    return answer;
}

bool worker_link_should_stop(struct worker_link *link)
{
    return ask(link, &link->should_stop);
}

bool worker_link_is_lost(struct worker_link *link)
{
    return ask(link, &link->is_lost);
}
