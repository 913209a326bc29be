/* What a training takes of the machine: tier 0 is one mapping of exactly the budget, nobody touches a byte
 * beside it, and nothing grows from update to update. mmap is this file's own: pages that fault lie on
 * both sides of every slab. */
#include "engine_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap.h"

#define PAGE 4096

static struct ebb_error err;

/* ---- guards ----------------------------------------------------------------------------------- */

static struct {
    uint64_t bytes[8];
    unsigned char *at[8];
    int count;
} slabs;

/* Slabs alone are mapped without a reservation. */
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!(flags & MAP_NORESERVE) || protection == PROT_NONE)
        return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset); // NOLINT
    size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    unsigned char *all = (unsigned char *)syscall(SYS_mmap, NULL, room + 2 * PAGE, PROT_NONE, flags,
                                                  -1, 0); // NOLINT
    if (mprotect(all + PAGE, room, protection))
        return MAP_FAILED;
    slabs.at[slabs.count % 8] = all + PAGE;
    slabs.bytes[slabs.count++ % 8] = bytes;
    return all + PAGE;
}

/* Does a write there end the process? */
static bool faults(volatile unsigned char *at)
{
    int state = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's own would speak */
        *at = 1;
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &state, 0) == child);
    return WIFSIGNALED(state) && WTERMSIG(state) == SIGSEGV;
}

/* ---- trainings -------------------------------------------------------------------------------- */

static const struct way {
    const char *policy; /* NULL: planner unified, with state below */
    bool is_online;
    uint64_t host_bytes, file_bytes;
} ways[] = {{NULL, false, 0, 0},           {"dtr_eq", true, 0, 0},
            {NULL, false, 1 << 20, 0},     {NULL, false, 1 << 16, 1 << 20},
            {"unified", true, 1 << 20, 0}, {"unified", true, 0, 1 << 20}};
#define WAYS (sizeof ways / sizeof *ways)

static struct train_engine_options limited(const struct way *way)
{
    uint64_t room = reference.unlimited - reference.floor;
    bool is_below = !way->policy && (way->host_bytes || way->file_bytes);
    struct train_engine_options o = {.threads = 1,
                                     .policy = way->policy,
                                     .is_online = way->is_online,
                                     .host_bytes = way->host_bytes,
                                     .file_bytes = way->file_bytes};
    o.budget_bytes = is_below ? reference.floor / 2 : reference.floor + room / 4;
    o.budget_bytes = (o.budget_bytes + PAGE - 1) / PAGE * PAGE;
    return o;
}

TEST(slab__is_the_budget_and_nothing_beside_it_is_touched)
{
    run_reference(&err);
    for (size_t w = 0; w < WAYS; w++) {
        struct train_engine_options o = limited(&ways[w]);
        slabs.count = 0;
        CHECK_OK(train(&o, false, &other, &err), &err);
        check_equal(&reference, &other);
        CHECK(other.peak <= o.budget_bytes);
        CHECK_EQ(slabs.count, o.host_bytes ? 2 : 1);
        uint64_t first = slabs.bytes[0], all = first + (o.host_bytes ? slabs.bytes[1] : 0);
        CHECK(first == o.budget_bytes || all - first == o.budget_bytes);
        CHECK_EQ(all, o.budget_bytes + o.host_bytes);
    }
}

TEST(guards__fault)
{
    struct device *device = NULL;
    slabs.count = 0;
    CHECK_OK(device_cpu.create(&device, NULL, &err), &err);
    CHECK_OK(device_cpu.reserve(device, DEVICE_T0, 2 * PAGE, &err), &err);
    unsigned char *at = device_cpu.address(device, 0);
    CHECK(slabs.count == 1 && slabs.at[0] == at);
    CHECK(!faults(at) && !faults(at + 2 * PAGE - 1));
    CHECK(faults(at - 1) && faults(at + 2 * PAGE));
    device_cpu.destroy(device);
}

/* ---- many updates ------------------------------------------------------------------------------ */

static uint64_t resident_bytes(void)
{
    unsigned long long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%llu %llu", &all, &resident) == 2);
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* All that is counted, without what a clock says. */
static struct exec_report counted(const struct exec_report *report)
{
    struct exec_report r = *report;
    r.device_ns = r.stall_ns = 0;
    r.first_ns = r.again_ns = r.search_ns = r.cost_ns = r.move_ns = 0;
    return r;
}

/* Every update reports what the second one reported; memory and its pieces stay as they are. */
static void check_steady(const struct way *way, int updates)
{
    struct train_engine_options o = limited(way);
    struct train_engine *engine = NULL;
    struct train_program *update, *evaluation;
    struct step step = {0}, test = {0};
    struct exec_report report, second = {0};
    struct exec_io io = {.context = &step, .fill = fill, .read = read_loss}, look = io;
    uint64_t pieces = 0, resident = 0;
    look.context = &test;
    CHECK_OK(train_engine_create(&engine, &o, &err), &err);
    struct trace *trace = make_step(train_engine_backend(engine), &step, true);
    CHECK_OK(train_engine_add(engine, trace, &update, &err), &err);
    trace = make_step(train_engine_backend(engine), &test, false);
    CHECK_OK(train_engine_add(engine, trace, &evaluation, &err), &err);
    for (int i = 0; i < updates; i++) {
        step.number = test.number = i;
        CHECK_OK(train_engine_run(engine, update, &io, NULL, &report, &err), &err);
        report = counted(&report);
        if (i == 1)
            second = report;
        if (i > 1)
            CHECK(memcmp(&report, &second, sizeof report) == 0);
        if (i % 10 == 0)
            CHECK_OK(train_engine_run(engine, evaluation, &look, NULL, &report, &err), &err);
        if (i == updates / 10) {
            pieces = ebb_heap_live();
            resident = resident_bytes();
        }
    }
    CHECK_EQ(ebb_heap_live(), pieces);
    CHECK(TEST_IS_SANITIZED || resident_bytes() <= resident + (1 << 20));
    train_engine_destroy(engine);
}

TEST(updates__leave_nothing_behind)
{
    run_reference(&err);
    for (size_t w = 0; w < WAYS; w++)
        check_steady(&ways[w], test_is_long() ? 10000 : 60);
}

TEST_MAIN()
