/* The table of device far: kernels reach memory that the host cannot read, what they find wrong comes
 * as a word, and whoever else looks at an operand faults. */
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "kernel/kernel.h"

#define N 64

struct scene { /* index_select of rows of one number */
    struct device *device;
    struct kernel_context *context;
    struct kernel_index_desc desc;
    struct kernel_args args;
    float *x, *y; /* on the host */
    int64_t *index;
};

static struct ebb_error err;

static struct scene make(void)
{
    struct scene s = {.desc = {1, N, 1, N, INT64_MIN, KERNEL_SELECT}};
    CHECK_OK(device_far.create(&s.device, NULL, &err), &err);
    CHECK_OK(device_far.reserve(s.device, DEVICE_T0, 4096, &err), &err);
    CHECK_OK(kernel_far.open(&s.context, s.device, NULL, 1, &err), &err);
    s.x = device_far.host_take(s.device, N * sizeof *s.x);
    s.y = device_far.host_take(s.device, N * sizeof *s.y);
    s.index = device_far.host_take(s.device, N * sizeof *s.index);
    for (int i = 0; i < N; i++) {
        s.x[i] = (float)i;
        s.index[i] = N - 1 - i;
    }
    s.args = (struct kernel_args){
        .in = {device_far.address(s.device, 0), device_far.address(s.device, 1024)},
        .out = {device_far.address(s.device, 2048)},
        .in_dtype = {KERNEL_F32, KERNEL_I64},
        .in_count = 2,
        .out_count = 1};
    return s;
}

static enum ebb_status run(void *argument, struct ebb_error *e)
{
    struct scene *s = argument;
    return kernel_run(s->context, KERNEL_FAMILY_INDEX, &s->desc, &s->args, e);
}

static void step(struct scene *s)
{
    struct device *d = s->device;
    CHECK_OK(device_far.write(d, DEVICE_COMPUTE, 0, s->x, N * sizeof *s->x, &err), &err);
    CHECK_OK(device_far.write(d, DEVICE_COMPUTE, 1024, s->index, N * sizeof *s->index, &err), &err);
    CHECK_OK(device_far.launch(d, run, s, 0, &err), &err);
    CHECK_OK(kernel_far.finish(s->context, &err), &err);
    CHECK_OK(device_far.read(d, DEVICE_COMPUTE, s->y, 2048, N * sizeof *s->y, &err), &err);
    CHECK_OK(device_far.sync(d, &err), &err);
}

static void end(struct scene *s)
{
    device_far.host_give(s->device, s->x);
    device_far.host_give(s->device, s->y);
    device_far.host_give(s->device, s->index);
    kernel_far.close(s->context);
    device_far.destroy(s->device);
}

TEST(kernels__reach_what_the_host_cannot)
{
    struct scene s = make();
    step(&s);
    for (int i = 0; i < N; i++)
        CHECK(s.y[i] == (float)(N - 1 - i));
    CHECK_EQ(kernel_far.fault(s.context), 0);
    end(&s);
}

TEST(a_wrong_index__is_a_word_for_one_run)
{
    struct scene s = make();
    s.index[5] = N;
    s.args.op = 41;
    step(&s);
    CHECK_EQ(kernel_far.fault(s.context), 42);
    s.index[5] = 0;
    step(&s);
    CHECK_EQ(kernel_far.fault(s.context), 0);
    end(&s);
}

/* How a child ends that does this. */
static int signal_of(enum ebb_status (*act)(struct scene *s))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        struct scene s = make();
        _exit((int)act(&s));
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static enum ebb_status look(struct scene *s)
{
    return *(const volatile float *)s->args.in[0] == 0.0f ? EBB_OK : EBB_EINPUT;
}

/* The cpu's table takes the addresses as they are: what code of ops would do. */
static enum ebb_status compute(struct scene *s)
{
    return kernel_cpu.run(s->context, KERNEL_FAMILY_INDEX, &s->desc, &s->args, &err);
}

static enum ebb_status wait_for(struct scene *s)
{
    step(s);
    return EBB_OK;
}

TEST(others__fault_at_an_operand)
{
    CHECK_EQ(signal_of(wait_for), 0);
    CHECK_EQ(signal_of(look), SIGSEGV);
    CHECK_EQ(signal_of(compute), SIGSEGV);
}

TEST_MAIN()
