/* What doctor sees: machines described in a folder. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/machine.h"

static char root[] = "/tmp/ebb-machine-XXXXXX";

static void put(const char *path, const char *text)
{
    char full[512], folder[512];
    struct ebb_error err;
    snprintf(full, sizeof full, "%s%s", root, path);
    snprintf(folder, sizeof folder, "%s", full);
    *strrchr(folder, '/') = '\0';
    CHECK_OK(ebb_file_mkdirs(folder, &err), &err);
    CHECK_OK(ebb_file_write_atomic(full, text, strlen(text), &err), &err);
}

static void clear(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'/*", root);
    CHECK_EQ(system(command), 0);
}

TEST(machine__reads_processor_memory_and_system)
{
    struct cli_machine m;
    clear();
    put("/etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    put("/proc/sys/kernel/osrelease", "6.1.0-21-amd64\n");
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n"
                         "flags\t\t: fpu sse avx2 avx512fish fma\n\nprocessor\t: 1\n");
    put("/proc/meminfo",
        "MemTotal:       16384000 kB\nMemFree: 1 kB\nMemAvailable:    8192000 kB\n");
    cli_machine_probe(&m, root);
    CHECK_STR(m.system, "Debian GNU/Linux 12 (bookworm)");
    CHECK_STR(m.kernel, "6.1.0-21-amd64");
    CHECK_STR(m.cpu, "Some CPU @ 2.0GHz");
    CHECK_STR(m.cpu_features, "avx2 fma");
    CHECK_EQ(m.memory_bytes, 16384000ull * 1024);
    CHECK_EQ(m.memory_available_bytes, 8192000ull * 1024);
    CHECK_EQ(m.memory_limit_bytes, 0);
    CHECK(m.cpus_usable >= 1 && m.cpu_quota <= 0);
}

TEST(machine__takes_the_tightest_group_limit)
{
    struct cli_machine m;
    clear();
    put("/proc/self/cgroup", "0::/user.slice/job-7\n");
    put("/sys/fs/cgroup/user.slice/job-7/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/job-7/cpu.max", "400000 100000\n");
    put("/sys/fs/cgroup/user.slice/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/memory.max", "9147483648\n");
    cli_machine_probe(&m, root);
    CHECK_EQ(m.memory_limit_bytes, 2147483648u);
    CHECK(m.cpu_quota > 1.49 && m.cpu_quota < 1.51);
}

TEST(machine__reads_old_groups_inside_a_container)
{
    struct cli_machine m;
    clear();
    put("/proc/self/cgroup",
        "9:memory:/docker/ab12\n4:cpu,cpuacct:/docker/ab12\n1:name=systemd:/x\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "1073741824\n"); /* the path itself is not mounted */
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    cli_machine_probe(&m, root);
    CHECK_EQ(m.memory_limit_bytes, 1073741824u);
    CHECK(m.cpu_quota <= 0);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* means none */
    cli_machine_probe(&m, root);
    CHECK_EQ(m.memory_limit_bytes, 0);
}

TEST(machine__reads_the_gpu_driver)
{
    struct cli_machine m;
    clear();
    put("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
    put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   0\n");
    put("/proc/driver/nvidia/gpus/0000:02:00.0/information", "IRQ:   0\n");
    cli_machine_probe(&m, root);
    CHECK_STR(m.gpu_driver, "550.54.15");
    CHECK_EQ(m.gpu_count, 2);
    CHECK_STR(m.gpus[0].name, "NVIDIA H200");
    CHECK_STR(m.gpus[1].name, "NVIDIA GPU");
}

TEST(machine__knows_nothing_of_an_empty_one)
{
    struct cli_machine m;
    clear();
    cli_machine_probe(&m, root);
    CHECK_STR(m.cpu, "");
    CHECK_EQ(m.memory_bytes, 0);
    CHECK_EQ(m.gpu_count, 0);
}

TEST(which__finds_programs_in_order)
{
    char path[600], found[512];
    clear();
    put("/one/tool", "not executable");
    put("/two/tool", "#!/bin/sh\n");
    put("/two/deep/tool/x", "a folder is no program");
    snprintf(path, sizeof path, "%s/two/tool", root);
    CHECK_EQ(chmod(path, 0755), 0);
    snprintf(path, sizeof path, "%s/none::%s/two/deep:%s/one:%s/two", root, root, root, root);
    CHECK(cli_machine_which("tool", path, found, sizeof found));
    CHECK(strstr(found, "/two/tool") != NULL);
    CHECK(!cli_machine_which("absent", path, found, sizeof found));
    CHECK(!cli_machine_which("tool", NULL, found, sizeof found));
}

static int group_begin(void **state)
{
    (void)state;
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int group_end(void **state)
{
    (void)state;
    clear();
    return rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(machine__reads_processor_memory_and_system),
        RUN(machine__takes_the_tightest_group_limit),
        RUN(machine__reads_old_groups_inside_a_container),
        RUN(machine__reads_the_gpu_driver),
        RUN(machine__knows_nothing_of_an_empty_one),
        RUN(which__finds_programs_in_order),
    };
    return cmocka_run_group_tests(tests, group_begin, group_end);
}
