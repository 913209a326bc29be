/* What can go wrong below a training: transfers that end early, a full disk, reads that fail, links ten
 * times slower than planned for, copies that come at any time. It waits, or it says why it ends:
 * never other bits. The faults are this file's own pread, pwrite, posix_fallocate and clock_nanosleep;
 * threads of copies run as they do in a training, so a sanitizer sees them, too. */
#include "engine_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"

static struct ebb_error err;

/* ---- faults ----------------------------------------------------------------------------------- */

static atomic_int cuts;             /* one transfer of so many ends early; 0: none does */
static atomic_int writes_left = -1; /* then the disk is full; -1: it never is */
static atomic_int reads_left = -1;  /* then they fail */
static atomic_bool has_no_room;     /* the file cannot be made as long as it should be */
static atomic_int slowness = 1;     /* sleeps are so much longer */
static atomic_bool has_struck;      /* a write or read has failed */
static atomic_bool is_random;       /* sleeps and transfers take up to a millisecond more */
static _Atomic uint64_t drawn_so_far, transfers, slept;

static uint64_t draw(void)
{
    uint64_t state = atomic_fetch_add(&drawn_so_far, 1);
    return ebb_splitmix64(&state);
}

static void dawdle(long most_ns)
{
    struct timespec at = {.tv_nsec = (long)(draw() % (uint64_t)most_ns)};
    if (atomic_load(&is_random))
        syscall(SYS_nanosleep, &at, NULL);
}

static bool is_last(atomic_int *left)
{
    int n = atomic_load(left);
    bool strikes = n == 0 || (n > 0 && atomic_fetch_sub(left, 1) == 0);
    if (strikes)
        atomic_store(&has_struck, true);
    return strikes;
}

static size_t shortened(size_t count)
{
    int one_of = atomic_load(&cuts);
    atomic_fetch_add(&transfers, 1);
    dawdle(300000);
    return one_of && count > 100 && draw() % (uint64_t)one_of == 0 ? 1 + draw() % count : count;
}

/* What a transfer that ends early has not done is as it was, in the file, or garbage, in memory: whoever
 * takes it for done sees that. Blocks hold bytes of neighbours, who may be read meanwhile. The length
 * stays, which files that are read and written directly ask for. */
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    size_t most = shortened(count);
    void *cut = NULL;
    if (is_last(&writes_left)) {
        errno = ENOSPC;
        return -1;
    }
    if (most < count && posix_memalign(&cut, 4096, count) == 0) {
        memset(cut, 0xa5, count);
        syscall(SYS_pread64, fd, cut, count, at);
        memcpy(cut, bytes, most);
    }
    ssize_t n = syscall(SYS_pwrite64, fd, cut ? cut : bytes, count, at);
    free(cut);
    return n > (ssize_t)most ? (ssize_t)most : n;
}

ssize_t pread(int fd, void *bytes, size_t count, off_t at)
{
    size_t most = shortened(count);
    if (is_last(&reads_left)) {
        errno = EIO;
        return -1;
    }
    ssize_t n = syscall(SYS_pread64, fd, bytes, count, at);
    if (n <= (ssize_t)most)
        return n;
    memset((char *)bytes + most, 0xa5, (size_t)n - most);
    return (ssize_t)most;
}

int posix_fallocate(int fd, off_t offset, off_t bytes)
{
    return atomic_load(&has_no_room)
               ? ENOSPC
               : (int)(syscall(SYS_fallocate, fd, 0, offset, bytes) ? errno : 0);
}

/* Only throttled copies sleep until a moment. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *at, struct timespec *left)
{
    struct timespec now, more = {0};
    syscall(SYS_clock_gettime, clock, &now);
    int64_t ns = (at->tv_sec - now.tv_sec) * 1000000000 + (at->tv_nsec - now.tv_nsec);
    atomic_fetch_add(&slept, 1);
    if (ns > 0 && atomic_load(&slowness) > 1) {
        ns *= atomic_load(&slowness) - 1;
        more = (struct timespec){ns / 1000000000, ns % 1000000000};
        syscall(SYS_nanosleep, &more, NULL);
    }
    dawdle(1000000);
    return (int)syscall(SYS_clock_nanosleep, clock, flags, at, left) ? errno : 0;
}

static void no_faults(void)
{
    atomic_store(&cuts, 0);
    atomic_store(&writes_left, -1);
    atomic_store(&reads_left, -1);
    atomic_store(&has_no_room, false);
    atomic_store(&slowness, 1);
    atomic_store(&is_random, false);
}

/* ---- trainings -------------------------------------------------------------------------------- */

static const struct way {
    const char *policy; /* NULL: planner unified, with state below */
    bool is_file, is_online;
} ways[] = {{"lru", false, false}, {"lru", true, false},     {NULL, false, false},
            {NULL, true, false},   {"unified", false, true}, {"unified", true, true}};
#define WAYS (sizeof ways / sizeof *ways)

/* Copies and, where the policy is free, half of the state go below. */
static struct train_engine_options limited(const struct way *way)
{
    uint64_t room = reference.unlimited - reference.floor;
    struct train_engine_options o = {.threads = 1,
                                     .policy = way->policy,
                                     .is_online = way->is_online,
                                     .host_bytes = way->is_file ? 0 : 1 << 20,
                                     .file_bytes = way->is_file ? 1 << 20 : 0,
                                     .link = {.host_rate = 2, .file_rate = 2}};
    room /= way->is_online ? 8 : 4;
    o.budget_bytes = (way->policy ? reference.floor + room : reference.floor / 2) / 256 * 256;
    return o;
}

static void check_same(const struct way *way)
{
    struct train_engine_options o = limited(way);
    CHECK_OK(train(&o, false, &other, &err), &err);
    CHECK(other.swapped > 0);
    check_equal(&reference, &other);
}

TEST(transfers__that_end_early__same_bits)
{
    run_reference(&err);
    for (int one_of = 1; one_of <= 3; one_of += 2)
        for (size_t w = 0; w < WAYS; w++) {
            if (!ways[w].is_file)
                continue;
            atomic_store(&transfers, 0);
            atomic_store(&cuts, one_of);
            check_same(&ways[w]);
            CHECK(atomic_load(&transfers) > 10);
            no_faults();
        }
}

TEST(links__ten_times_slower__same_bits)
{
    run_reference(&err);
    for (size_t w = 0; w < WAYS; w++) {
        atomic_store(&slept, 0);
        atomic_store(&slowness, 10);
        check_same(&ways[w]);
        CHECK(atomic_load(&slept) > 10);
        no_faults();
    }
}

TEST(copies__at_any_time__same_bits)
{
    run_reference(&err);
    for (int round = 0; round < (test_is_long() ? 20 : 1); round++)
        for (size_t w = 0; w < WAYS; w++) {
            atomic_store(&is_random, true);
            atomic_store(&cuts, ways[w].is_file ? 4 : 0);
            check_same(&ways[w]);
            no_faults();
        }
}

/* Two updates; whatever fails is told. */
static enum ebb_status two_updates(const struct train_engine_options *options)
{
    struct train_engine *engine = NULL;
    struct train_program *update = NULL;
    struct step step = {0};
    struct exec_report report;
    struct exec_io io = {.context = &step, .fill = fill, .read = read_loss};
    float w[WIDTH * WIDTH] = {0};
    enum ebb_status status = train_engine_create(&engine, options, &err);
    if (status != EBB_OK)
        return status;
    struct trace *trace = make_step(train_engine_backend(engine), &step, true);
    EBB_THEN(status, train_engine_add(engine, trace, &update, &err));
    for (int i = 0; i < DEPTH; i++)
        EBB_THEN(status, train_engine_put(engine, update, step.weight[i], 0, w, sizeof w, &err));
    for (int i = 0; i < 2; i++)
        EBB_THEN(status, train_engine_run(engine, update, &io, NULL, &report, &err));
    for (int i = 0; i < DEPTH; i++)
        EBB_THEN(status, train_engine_get(engine, update, step.weight[i], 0, w, sizeof w, &err));
    train_engine_destroy(engine);
    return status;
}

/* At some writes or reads of two updates, the first and later ones, until there are no more. */
static void check_told(const struct way *way, atomic_int *left, const char *word)
{
    struct train_engine_options o = limited(way);
    int told = 0;
    for (int at = 0;; at = at * 3 + 1) {
        err = (struct ebb_error){0};
        atomic_store(&has_struck, false);
        atomic_store(left, at);
        enum ebb_status status = two_updates(&o);
        no_faults();
        if (!atomic_load(&has_struck)) {
            CHECK_OK(status, &err);
            break;
        }
        CHECK_EQ(status, EBB_EIO);
        CHECK(strstr(err.message, "file tier") && strstr(err.message, word));
        told++;
    }
    CHECK(told > 1);
}

TEST(disk__full_on_the_way__is_told)
{
    run_reference(&err);
    for (size_t w = 0; w < WAYS; w++)
        if (ways[w].is_file)
            check_told(&ways[w], &writes_left, "No space left");
}

TEST(reads__that_fail__are_told)
{
    run_reference(&err);
    for (size_t w = 0; w < WAYS; w++)
        if (ways[w].is_file)
            check_told(&ways[w], &reads_left, "Input/output error");
}

TEST(disk__full_at_first__is_told)
{
    run_reference(&err);
    struct train_engine_options o = limited(&ways[1]);
    atomic_store(&has_no_room, true);
    CHECK_EQ(two_updates(&o), EBB_EIO);
    CHECK(strstr(err.message, "no room for 1048576 bytes") != NULL);
    no_faults();
}

/* Where state waits while it moves behind a warm-up: asked before the first update, not behind it. */
TEST(disk__full_for_state_that_moves__is_told)
{
    run_reference(&err);
    struct train_engine_options o = limited(&ways[2]); /* without a file of its own */
    struct train_engine *engine = NULL;
    struct train_program *update = NULL;
    struct step step = {0};
    CHECK_OK(train_engine_create(&engine, &o, &err), &err);
    struct trace *trace = make_step(train_engine_backend(engine), &step, true);
    CHECK_OK(train_engine_add(engine, trace, &update, &err), &err);
    CHECK_OK(train_engine_can_lift(engine, &err), &err);
    atomic_store(&has_no_room, true);
    CHECK(train_engine_can_lift(engine, &err) != EBB_OK);
    no_faults();
    CHECK(strstr(err.message, "No space left") != NULL);
    train_engine_destroy(engine);
}

TEST_MAIN()
