/* The client against a peer that says what the test wants: whole, in chunks, early, late, never. */
#include "test_folder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap.h"
#include "serve/client.h"

static char heard[1 << 16]; /* what the peer was sent, read back from a file */

/* One connection: `reply` after the head of the request; then `linger_s` seconds of silence. */
static pid_t peer(const char *reply, size_t body_bytes, unsigned linger_s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/master.sock", folder);
    unlink(address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 4), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static char in[1 << 22];
        size_t n = 0;
        int c = accept(fd, NULL, NULL);
        char *end = NULL;
        for (ssize_t got; end == NULL || n < (size_t)(end - in) + 4 + body_bytes;
             n += (size_t)got) {
            got = read(c, in + n, sizeof in - 1 - n);
            if (got <= 0)
                break;
            end = memmem(in, n + (size_t)got, "\r\n\r\n", 4);
        }
        char path[128];
        snprintf(path, sizeof path, "%s/heard", folder);
        FILE *f = fopen(path, "w");
        fwrite(in, 1, n, f);
        fclose(f);
        if (write(c, reply, strlen(reply)) < 0)
            _exit(1);
        sleep(linger_s);
        _exit(0);
    }
    close(fd);
    return pid;
}

static enum ebb_status ask(const char *reply, const struct serve_http_request *request,
                           size_t body_bytes, unsigned linger_s, struct serve_http_response *out,
                           struct ebb_error *err)
{
    struct serve_client_address address = {.state_dir = folder};
    char path[128];
    pid_t pid = peer(reply, body_bytes, linger_s);
    serve_http_response_init(out);
    enum ebb_status status = serve_client_request(&address, request, 1500, out, err);
    if (linger_s > 5)
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    snprintf(path, sizeof path, "%s/heard", folder);
    FILE *f = fopen(path, "r");
    heard[f != NULL ? fread(heard, 1, sizeof heard - 1, f) : 0] = '\0';
    if (f != NULL)
        fclose(f);
    return status;
}

static const struct serve_http_request get = {.method = "GET", .target = "/events?after=3&wait=1"};

TEST(request__is_sent_as_written)
{
    struct serve_http_response r;
    struct ebb_error err;
    const struct serve_http_request patch = {.method = "PATCH",
                                             .target = "/api/v1/users/a%20b",
                                             .body = "{\"x\": 1}",
                                             .body_length = 8,
                                             .user = "j\xc3\xbcrgen x"};
    CHECK_OK(ask("HTTP/1.1 201 Created\r\nLocation: /experiments/7\r\nContent-Length: 2\r\n\r\n{}",
                 &patch, 8, 0, &r, &err),
             &err);
    CHECK_EQ(r.status, 201);
    CHECK_STR(r.location, "/experiments/7");
    CHECK_STR(ebb_str_c(&r.body), "{}");
    CHECK(strncmp(heard, "PATCH /api/v1/users/a%20b HTTP/1.1\r\n", 36) == 0);
    assert_non_null(strstr(heard, "\r\nX-Ebb-User: j%C3%BCrgen%20x\r\n"));
    assert_non_null(strstr(heard, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(heard, "\r\nContent-Length: 8\r\n"));
    assert_non_null(strstr(heard, "\r\n\r\n{\"x\": 1}"));
    assert_null(strstr(heard, "Expect"));
    serve_http_response_fini(&r);
    CHECK_OK(ask("HTTP/1.1 204 No Content\r\n\r\n", &get, 0, 0, &r, &err), &err);
    CHECK_EQ(r.status, 204);
    CHECK_EQ(r.body.length, 0);
    CHECK(strncmp(heard, "GET /api/v1/events?after=3&wait=1 HTTP/1.1\r\n", 44) == 0);
    serve_http_response_fini(&r);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(answer__may_come_in_chunks_or_end_with_the_connection)
{
    struct serve_http_response r;
    struct ebb_error err;
    CHECK_OK(
        ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            &get, 0, 0, &r, &err),
        &err);
    CHECK_STR(ebb_str_c(&r.body), "abcde");
    serve_http_response_fini(&r);
    CHECK_OK(ask("HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nnone", &get, 0, 0, &r, &err),
             &err);
    CHECK_EQ(r.status, 404);
    CHECK_STR(ebb_str_c(&r.body), "none");
    serve_http_response_fini(&r);
}

TEST(answer__that_does_not_come_is_told_apart)
{
    struct serve_http_response r;
    struct ebb_error err;
    CHECK_EQ(ask("", &get, 0, 0, &r, &err), EBB_EIO);
    CHECK_STR(err.message, "the master ended the connection without an answer");
    serve_http_response_fini(&r);
    CHECK_EQ(ask("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", &get, 0, 0, &r, &err),
             EBB_EIO);
    CHECK_STR(err.message, "the master ended the connection without an answer");
    serve_http_response_fini(&r);
    CHECK_EQ(ask("", &get, 0, 60, &r, &err), EBB_ELIMIT);
    CHECK_STR(err.message, "the master does not answer in time");
    serve_http_response_fini(&r);
    char want[128];
    snprintf(want, sizeof want, "no master answers on %s/master.sock: Connection refused", folder);
    struct serve_client_address nobody = {.state_dir = folder};
    serve_http_response_init(&r);
    CHECK_EQ(serve_client_request(&nobody, &get, 1500, &r, &err), EBB_EIO);
    CHECK_STR(err.message, want);
    serve_http_response_fini(&r);
}

/* The peer refuses a body of 64 MiB after its head and closes: the refusal is what counts. */
TEST(answer__before_the_end_of_the_request_is_heard)
{
    struct serve_http_response r;
    struct ebb_error err;
    size_t length = (size_t)64 << 20;
    char *body = ebb_alloc(length);
    memset(body, 'x', length);
    const struct serve_http_request post = {
        .method = "POST", .target = "/experiments", .body = body, .body_length = length};
    enum ebb_status status =
        ask("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig",
            &post, 0, 1, &r, &err);
    ebb_free(body);
    CHECK_OK(status, &err);
    CHECK_EQ(r.status, 413);
    CHECK_STR(ebb_str_c(&r.body), "big");
    serve_http_response_fini(&r);
}

TEST_MAIN_ONCE(folder_open, folder_close)
