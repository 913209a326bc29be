/* The machine itself as a device: bytes go where they are sent, streams keep their order, events
 * tell the truth, mistakes are refused. */
#include "test.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "cut_files.h"
#include "device/device.h"

#define SLAB (1u << 22)

static struct device *make(uint64_t host, uint64_t file, struct ebb_error *err)
{
    struct device *d;
    CHECK_OK(device_cpu.create(&d, NULL, err), err);
    CHECK_OK(device_cpu.reserve(d, DEVICE_T0, SLAB, err), err);
    if (host)
        CHECK_OK(device_cpu.reserve(d, DEVICE_HOST, host, err), err);
    if (file)
        CHECK_OK(device_cpu.reserve(d, DEVICE_FILE, file, err), err);
    return d;
}

static void send_and_wait(struct device *d, enum device_stream stream, enum device_tier to,
                          uint64_t to_offset, enum device_tier from, uint64_t from_offset,
                          uint64_t bytes)
{
    struct ebb_error err;
    device_event event;
    CHECK_OK(device_cpu.copy(d, stream, to, to_offset, from, from_offset, bytes, &err), &err);
    CHECK_OK(device_cpu.record(d, stream, &event, &err), &err);
    CHECK_OK(device_cpu.event_wait(d, event, &err), &err);
    CHECK(device_cpu.event_done(d, event));
}

TEST(memory__is_zero_at_first)
{
    struct ebb_error err;
    struct device *d = make(0, 0, &err);
    const unsigned char *at = device_cpu.address(d, 0);
    CHECK(at == (unsigned char *)device_cpu.address(d, 256) - 256);
    for (size_t i = 0; i < SLAB; i += 997)
        CHECK_EQ(at[i], 0);
    device_cpu.destroy(d);
}

/* Many pieces of odd sizes at odd places, out and back in another order: neighbours in the same
 * block of the file must not suffer. */
TEST(pieces__come_back_as_they_left)
{
    enum { PIECES = 64 };
    struct ebb_error err;
    for (int tier = DEVICE_HOST; tier <= DEVICE_FILE; tier++) {
        struct device *d = make(SLAB, SLAB, &err);
        unsigned char *at = device_cpu.address(d, 0);
        uint64_t random = 42, from[PIECES], to[PIECES], bytes[PIECES], end = 0;
        for (int i = 0; i < PIECES; i++) {
            bytes[i] = 256 * (1 + ebb_splitmix64(&random) % (i % 8 == 0 ? 1000 : 20));
            from[i] = 256 * (ebb_splitmix64(&random) % ((SLAB - bytes[i]) / 256));
            to[i] = end;
            end += bytes[i];
            for (uint64_t k = 0; k < bytes[i]; k++)
                at[from[i] + k] = (unsigned char)(k * 7 + (uint64_t)i);
            send_and_wait(d, DEVICE_OUT, (enum device_tier)tier, to[i], DEVICE_T0, from[i],
                          bytes[i]);
            memset(at + from[i], 0, bytes[i]);
        }
        for (int i = PIECES; i-- > 0;) {
            send_and_wait(d, DEVICE_IN, DEVICE_T0, 0, (enum device_tier)tier, to[i], bytes[i]);
            for (uint64_t k = 0; k < bytes[i]; k++)
                CHECK_EQ(at[k], (unsigned char)(k * 7 + (uint64_t)i));
        }
        device_cpu.destroy(d);
    }
}

/* Around the size from which copies go past the caches, at all remainders of places and sizes; what
 * lies beside stays. */
TEST(pieces__of_any_bytes_at_any_byte)
{
    enum { LEAST = 16384 - 70, AROUND = 300 };
    struct ebb_error err;
    struct device *d = make(SLAB, 0, &err);
    unsigned char *at = device_cpu.address(d, 0);
    for (uint64_t i = 0; i < 300; i++) { /* two of three begin at a multiple of 16 */
        uint64_t bytes = LEAST + i, from = i % 23, to = i % 3 ? 0 : i % 17;
        for (uint64_t k = 0; k < bytes; k++)
            at[from + k] = (unsigned char)(k * 7 + k / 256 + i);
        send_and_wait(d, DEVICE_OUT, DEVICE_HOST, to, DEVICE_T0, from, bytes);
        unsigned char *back = at + (1 << 20) + (i % 3 ? 0 : 16 - i % 16);
        memset(back - AROUND, 0xa5, bytes + 2 * AROUND);
        send_and_wait(d, DEVICE_IN, DEVICE_T0, (uint64_t)(back - at), DEVICE_HOST, to, bytes);
        CHECK(memcmp(back, at + from, bytes) == 0);
        for (int k = 0; k < AROUND; k++)
            CHECK(back[-1 - k] == 0xa5 && back[bytes + (uint64_t)k] == 0xa5);
    }
    device_cpu.destroy(d);
}

/* Out, then in behind it, nobody waiting in between; more work than the queues hold. */
TEST(streams__wait_for_each_other)
{
    struct ebb_error err;
    for (int tier = DEVICE_HOST; tier <= DEVICE_FILE; tier++) {
        struct device *d = make(SLAB, SLAB, &err);
        unsigned char *at = device_cpu.address(d, 0);
        memset(at, 1, 4096);
        for (int i = 0; i < 600; i++) { /* 4096 bytes walk through the slab by way of the tier */
            uint64_t here = 4096u * (unsigned)(i % 1000), there = here + 4096;
            device_event out, in;
            CHECK_OK(device_cpu.copy(d, DEVICE_OUT, (enum device_tier)tier, there, DEVICE_T0, here,
                                     4096, &err),
                     &err);
            CHECK_OK(device_cpu.record(d, DEVICE_OUT, &out, &err), &err);
            CHECK_OK(device_cpu.stream_wait(d, DEVICE_IN, out, &err), &err);
            CHECK_OK(device_cpu.copy(d, DEVICE_IN, DEVICE_T0, there, (enum device_tier)tier, there,
                                     4096, &err),
                     &err);
            CHECK_OK(device_cpu.record(d, DEVICE_IN, &in, &err), &err);
            CHECK_OK(device_cpu.stream_wait(d, DEVICE_OUT, in, &err), &err);
        }
        CHECK_OK(device_cpu.sync(d, &err), &err);
        for (int k = 0; k < 4096; k++)
            CHECK_EQ(at[4096 * 600 + k], 1);
        device_cpu.destroy(d);
    }
}

static enum ebb_status add_one(void *argument, struct ebb_error *err)
{
    (void)err;
    ++*(int *)argument;
    return EBB_OK;
}

static enum ebb_status fail_it(void *argument, struct ebb_error *err)
{
    (void)argument;
    return ebb_fail(err, EBB_EDEVICE, "on purpose");
}

TEST(launches__run_at_once_and_pass_failures_on)
{
    struct ebb_error err;
    struct device *d = make(0, 0, &err);
    int count = 0;
    CHECK_OK(device_cpu.launch(d, add_one, &count, 5, &err), &err);
    CHECK_OK(device_cpu.launch(d, NULL, NULL, 5, &err), &err);
    CHECK_EQ(count, 1);
    CHECK_EQ(device_cpu.launch(d, fail_it, NULL, 5, &err), EBB_EDEVICE);
    uint64_t now = device_cpu.now_ns(d, DEVICE_COMPUTE);
    CHECK(device_cpu.now_ns(d, DEVICE_COMPUTE) >= now);
    device_cpu.destroy(d);
}

TEST(moves__may_overlap)
{
    struct ebb_error err;
    struct device *d = make(0, 0, &err);
    unsigned char *at = device_cpu.address(d, 0);
    for (int i = 0; i < 1024; i++)
        at[512 + i] = (unsigned char)i;
    CHECK_OK(device_cpu.copy(d, DEVICE_COMPUTE, DEVICE_T0, 256, DEVICE_T0, 512, 1024, &err), &err);
    for (int i = 0; i < 1024; i++)
        CHECK_EQ(at[256 + i], (unsigned char)i);
    device_cpu.destroy(d);
}

TEST(mistakes__are_refused)
{
    struct ebb_error err;
    struct device *d = make(4096, 0, &err);
    CHECK_EQ(device_cpu.copy(d, DEVICE_OUT, DEVICE_HOST, 4096 - 256, DEVICE_T0, 0, 512, &err),
             EBB_EDEVICE);
    CHECK_EQ(device_cpu.copy(d, DEVICE_OUT, DEVICE_FILE, 0, DEVICE_T0, 0, 256, &err), EBB_EDEVICE);
    CHECK_EQ(device_cpu.copy(d, DEVICE_IN, DEVICE_T0, UINT64_MAX - 255, DEVICE_HOST, 0, 256, &err),
             EBB_EDEVICE);
    CHECK_EQ(device_cpu.reserve(d, DEVICE_HOST, 4096, &err), EBB_EINTERNAL);
    device_cpu.destroy(d);
    struct device_config nowhere = {.file_path = "/no/such/folder"};
    CHECK_OK(device_cpu.create(&d, &nowhere, &err), &err);
    CHECK_EQ(device_cpu.reserve(d, DEVICE_FILE, 4096, &err), EBB_EIO);
    CHECK(strstr(err.message, "/no/such/folder") != NULL);
    device_cpu.destroy(d);
}

struct slow {
    atomic_bool has_begun, is_over;
};

static enum ebb_status slow(void *argument, struct ebb_error *err)
{
    struct slow *s = argument;
    (void)err;
    atomic_store(&s->has_begun, true);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&s->is_over, true);
    return EBB_OK;
}

/* Who frees what the streams work on relies on it. */
TEST(sync__waits_for_all_streams_behind_a_failure)
{
    struct ebb_error err = {0};
    struct device *d = make(SLAB, SLAB, &err);
    struct slow work = {false, false};
    CHECK_EQ(test_cut_files("ebb-unnamed-"), 1);
    CHECK_OK(device_cpu.launch_below(d, slow, &work, 5, &err), &err);
    while (!atomic_load(&work.has_begun)) /* behind a failure nothing begins */
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    CHECK_OK(device_cpu.copy(d, DEVICE_FILE_IN, DEVICE_T0, 0, DEVICE_FILE, 0, 4096, &err), &err);
    CHECK_EQ(device_cpu.sync(d, &err), EBB_EIO);
    CHECK(atomic_load(&work.is_over));
    CHECK(strstr(err.message, "end of file") != NULL);
    CHECK_EQ(device_cpu.sync(d, &err), EBB_EIO); /* it stays broken */
    device_cpu.destroy(d);
}

static int short_writes, short_reads; /* so many end early */

static size_t cut(int *left, size_t count)
{
    return count > 100 && *left > 0 && (*left)-- ? (*left % 2 ? count - 100 : 100) : count;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    ssize_t n = syscall(SYS_pwrite64, fd, bytes, count, at);
    return n > 0 ? (ssize_t)cut(&short_writes, (size_t)n) : n;
}

ssize_t pread(int fd, void *bytes, size_t count, off_t at)
{
    ssize_t n = syscall(SYS_pread64, fd, bytes, count, at);
    return n > 0 ? (ssize_t)cut(&short_reads, (size_t)n) : n;
}

/* In the middle of a block, too: with O_DIRECT what follows must begin with one. */
TEST(short_transfers__go_on)
{
    struct ebb_error err;
    for (int left = 1; left < 5; left++) {
        struct device *d = make(0, SLAB, &err);
        unsigned char *at = device_cpu.address(d, 0);
        for (uint64_t i = 0; i < SLAB / 2; i++)
            at[i] = (unsigned char)(i * 7 + i / 4096);
        short_writes = short_reads = left;
        send_and_wait(d, DEVICE_FILE_OUT, DEVICE_FILE, 300, DEVICE_T0, 0, SLAB / 2);
        send_and_wait(d, DEVICE_FILE_IN, DEVICE_T0, SLAB / 2, DEVICE_FILE, 300, SLAB / 2);
        CHECK_EQ(short_writes, 0);
        CHECK_EQ(short_reads, 0);
        CHECK(memcmp(at, at + SLAB / 2, SLAB / 2) == 0);
        device_cpu.destroy(d);
    }
}

TEST_MAIN()
