/* Wires: what arrives, what is kept, and what breaks them. */
#include "test.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/wire.h"

/* A wire, and the socket of its peer. */
static int wire_and_peer(struct ebb_wire *w)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
        fail_msg("no pair of sockets");
    ebb_wire_init(w, ends[0]);
    return ends[1];
}

static void write_all(int fd, const char *text)
{
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
}

TEST(hear__keeps_what_is_not_used)
{
    struct ebb_wire w;
    struct ebb_error err;
    size_t left;
    int peer = wire_and_peer(&w);
    write_all(peer, "one\ntwo\n");
    CHECK_OK(ebb_wire_hear(&w, &err), &err);
    CHECK_STR(ebb_wire_at(&w, &left), "one\ntwo\n");
    ebb_wire_used(&w, 4);
    CHECK_EQ((ebb_wire_at(&w, &left), left), 4);
    CHECK_OK(ebb_wire_hear(&w, &err), &err); /* nothing has come: nothing is wrong */
    CHECK(!w.is_broken);
    ebb_wire_used(&w, 4);
    close(peer);
    CHECK_OK(ebb_wire_hear(&w, &err), &err);
    CHECK(w.is_broken);
    CHECK_EQ(w.received, 8);
    ebb_wire_fini(&w);
    CHECK_EQ(ebb_heap_live(), 0);
}

/* Bytes that found no room are gone, though they were received: whoever reads on would read the
 * middle of a line as its beginning, or the first byte of none. */
TEST(hear__that_loses_bytes_breaks_the_wire)
{
    struct ebb_wire w;
    struct ebb_error err;
    size_t left;
    int peer = wire_and_peer(&w);
    write_all(peer, "{\"type\": \"HELLO\"}\n");
    ebb_heap_fail_at(1);
    CHECK_EQ(ebb_wire_hear(&w, &err), EBB_ENOMEM);
    ebb_heap_fail_at(0);
    CHECK(w.received > 0);
    CHECK_EQ((ebb_wire_at(&w, &left), left), 0);
    CHECK(w.is_broken && ebb_wire_is_over(&w));
    close(peer);
    ebb_wire_fini(&w);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST_MAIN()
