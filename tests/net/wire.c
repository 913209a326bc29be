/* wire.c - a cable between two interfaces, for tests of what happens on a network that is slow, far
 * or broken, also where the kernel has no netem:
 *
 *     wire A B [rate=BITS] [delay=MS] [loss=PERCENT] [queue=MS] [seed=N]
 *
 * Every frame that arrives at A leaves at B and the other way round, by packet sockets: each way at
 * most BITS a second (10M, 1G; 0 = any), `delay` milliseconds later (one way), a part of them lost
 * at random. What would wait longer than `queue` (100 ms) before the rate lets it go is dropped, as
 * a router does. SIGUSR1 cuts the cable, SIGUSR2 mends it; SIGTERM ends the program, which then
 * prints how many frames and bytes went each way and how many were lost.
 *
 * A and B are ends of veth pairs in this network namespace, whose other ends are somewhere else.
 * Frames come as the sender's offloads leave them (up to 64 KiB, sums to be filled in) and are
 * passed on with their virtio header, so rate and delay act on large frames. Loss is per packet of
 * the usual size: a frame of n packets is lost with probability 1 - (1 - p)^n. */
#include <errno.h>
#include <math.h>
#include <net/if.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_VNET_HDR
#define PACKET_VNET_HDR 15
#endif
#define FRAME_MAX (70 << 10)
#define PACKET_BYTES 1448 /* of data in a frame of the usual size */
#define BATCH 64          /* frames from one side before the other is looked at */

struct frame {
    struct frame *next;
    uint64_t due_ns;
    size_t bytes;
    char data[];
};

struct way { /* one direction */
    int from, to;
    struct frame *first, *last;
    uint64_t free_ns; /* when the rate lets the next frame go */
    unsigned long long frames, bytes, lost;
};

static struct {
    double rate, loss; /* bits a second; 0..1 */
    uint64_t delay_ns, queue_ns, random;
} set = {.queue_ns = 100000000, .random = 1};
static volatile sig_atomic_t is_cut, is_over;

static void on_signal(int signal)
{
    if (signal == SIGUSR1)
        is_cut = 1;
    else if (signal == SIGUSR2)
        is_cut = 0;
    else
        is_over = 1;
}

static void die(const char *what)
{
    fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double next_random(void) /* 0..1, the same for the same seed (splitmix64) */
{
    uint64_t z = set.random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static int open_end(const char *name)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    struct packet_mreq all = {.mr_type = PACKET_MR_PROMISC};
    int on = 1, room = 64 << 20;
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("a packet socket (needs root)");
    address.sll_ifindex = all.mr_ifindex = (int)if_nametoindex(name);
    if (address.sll_ifindex == 0)
        die(name);
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0)
        die("PACKET_VNET_HDR");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0)
        die(name);
    return fd;
}

/* The frame in the queue, or lost. */
static void accept_frame(struct way *w, const char *data, size_t bytes, uint64_t now)
{
    double packets = ceil((double)bytes / PACKET_BYTES);
    uint64_t begin = w->free_ns > now ? w->free_ns : now;
    if (is_cut || begin - now > set.queue_ns ||
        (set.loss > 0 && next_random() < 1 - pow(1 - set.loss, packets))) {
        w->lost++;
        return;
    }
    struct frame *f = malloc(sizeof *f + bytes);
    if (f == NULL)
        die("memory");
    w->free_ns = begin + (set.rate > 0 ? (uint64_t)((double)bytes * 8e9 / set.rate) : 0);
    *f = (struct frame){.due_ns = w->free_ns + set.delay_ns, .bytes = bytes};
    memcpy(f->data, data, bytes);
    *(w->last != NULL ? &w->last->next : &w->first) = f;
    w->last = f;
}

static void take(struct way *w)
{
    static char data[FRAME_MAX];
    for (int i = 0; i < BATCH; i++) {
        struct sockaddr_ll from;
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(w->from, data, sizeof data, 0, (struct sockaddr *)&from, &length);
        if (n <= 0)
            return;
        if (from.sll_pkttype != PACKET_OUTGOING) /* not what we sent ourselves */
            accept_frame(w, data, (size_t)n, now_ns());
    }
}

static void give(struct way *w, uint64_t now)
{
    while (w->first != NULL && w->first->due_ns <= now) {
        struct frame *f = w->first;
        if (send(w->to, f->data, f->bytes, 0) < 0) {
            if (errno == EAGAIN || errno == ENOBUFS)
                return; /* a moment later */
            w->lost++;
        } else {
            w->frames++;
            w->bytes += f->bytes;
        }
        w->first = f->next;
        w->last = w->first != NULL ? w->last : NULL;
        free(f);
    }
}

static void wait_for_work(const struct way ways[2], uint64_t now)
{
    struct pollfd fds[2] = {{.fd = ways[0].from, .events = POLLIN},
                            {.fd = ways[1].from, .events = POLLIN}};
    uint64_t due = now + 1000000000u;
    for (int i = 0; i < 2; i++)
        if (ways[i].first != NULL && ways[i].first->due_ns < due)
            due = ways[i].first->due_ns;
    uint64_t left = due > now ? due - now : 50000;
    struct timespec t = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    (void)ppoll(fds, 2, &t, NULL);
}

static bool read_option(const char *text)
{
    static const char *const names[] = {"rate=", "delay=", "loss=", "queue=", "seed="};
    for (int i = 0; i < 5; i++) {
        size_t n = strlen(names[i]);
        char *end = NULL;
        if (strncmp(text, names[i], n) != 0)
            continue;
        double value = strtod(text + n, &end);
        double unit = *end == 'K' ? 1e3 : *end == 'M' ? 1e6 : *end == 'G' ? 1e9 : 1;
        if (end == text + n || value < 0 || strlen(end) > (unit > 1 ? 1u : 0u))
            return false;
        value *= unit;
        switch (i) {
        case 0:
            set.rate = value;
            return true;
        case 1:
            set.delay_ns = (uint64_t)(value * 1e6);
            return true;
        case 2:
            set.loss = value / 100;
            return value <= 100;
        case 3:
            set.queue_ns = (uint64_t)(value * 1e6);
            return true;
        default:
            set.random = (uint64_t)value;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    struct way ways[2] = {{0}};
    struct sigaction act = {.sa_handler = on_signal};
    bool is_good = argc >= 3;
    for (int i = 3; i < argc; i++)
        is_good = read_option(argv[i]) && is_good;
    if (!is_good) {
        fprintf(stderr,
                "usage: wire A B [rate=BITS] [delay=MS] [loss=PERCENT] [queue=MS] [seed=N]\n");
        return 2;
    }
    int a = open_end(argv[1]), b = open_end(argv[2]);
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &act, NULL);
    ways[0].from = ways[1].to = a;
    ways[0].to = ways[1].from = b;
    while (!is_over) {
        take(&ways[0]);
        take(&ways[1]);
        uint64_t now = now_ns();
        give(&ways[0], now);
        give(&ways[1], now);
        wait_for_work(ways, now_ns());
    }
    for (int i = 0; i < 2; i++)
        printf("%s: %llu frames, %llu bytes, %llu lost\n", i == 0 ? "there" : "back",
               ways[i].frames, ways[i].bytes, ways[i].lost);
    return 0;
}
